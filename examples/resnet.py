"""A residual network that tells textures apart: ten classes of 32 × 32 patches, as in CIFAR-10.

Data: ten photographs inside scikit-image, grey. A class is the photograph that a patch is from.
Patches have mean 0 and variance 1, so that only texture tells them apart. Photographs are divided
into blocks of 64 × 64; every fourth block is held out, and no patch crosses a block. The baseline
is the classical one for textures: histograms of local binary patterns (Ojala et al. 2002), and the
nearest neighbour of a histogram. Target: fewer errors.
"""

import numpy as np
from data import picture
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train

PICTURES = "astronaut brick camera chelsea coffee coins grass gravel ihc motorcycle_left".split()
SIDE, BLOCK = 32, 64


def patches(rng, train_size, test_size, height=None):
    """Random patches of every picture: training and test images with their labels."""
    made = {True: ([], []), False: ([], [])}
    for label, name in enumerate(PICTURES):
        grey = picture(name, height)[..., :3].mean(-1)
        rows, columns = grey.shape[0] // BLOCK, grey.shape[1] // BLOCK
        blocks = [(i, j) for i in range(rows) for j in range(columns)]
        for is_test in (False, True):
            mine = [(i, j) for i, j in blocks if ((i + 2 * j) % 4 == 0) == is_test]
            for _ in range(test_size if is_test else train_size):
                i, j = mine[rng.integers(len(mine))]
                y, x = rng.integers(BLOCK - SIDE + 1, size=2) + (i * BLOCK, j * BLOCK)
                patch = grey[y : y + SIDE, x : x + SIDE]
                made[is_test][0].append((patch - patch.mean()) / (patch.std() + 1))
                made[is_test][1].append(label)
    pack = lambda images, labels: (np.float32(images)[..., None], np.int32(labels))
    return pack(*made[False]), pack(*made[True])


class Block(nn.Module):
    width: int
    stride: int

    @nn.compact
    def __call__(self, x, training):
        norm = lambda: nn.BatchNorm(use_running_average=not training, momentum=0.9)
        conv = lambda side, stride: nn.Conv(self.width, (side, side), stride, use_bias=False)
        y = nn.relu(norm()(conv(3, self.stride)(x)))
        y = norm()(conv(3, 1)(y))
        if x.shape != y.shape:
            x = norm()(conv(1, self.stride)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """He et al. 2016, with a block for each width."""

    widths: tuple = (16, 32, 64)

    @nn.compact
    def __call__(self, x, training=False):
        x = nn.Conv(self.widths[0], (3, 3), 2, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not training, momentum=0.9)(x))
        for stage, width in enumerate(self.widths):
            x = Block(width, 2 if stage else 1)(x, training)
        return nn.Dense(len(PICTURES))(x.mean((1, 2)))


network = ResNet()


class State(train.TrainState):
    batch_stats: dict


def create_state(seed, steps):
    variables = network.init(weft.random.key(seed), jnp.ones((1, SIDE, SIDE, 1)))
    tx = optim.sgd(optim.cosine_decay_schedule(0.1, steps), momentum=0.9, nesterov=True)
    tx = optim.chain(optim.add_decayed_weights(5e-4), tx)
    return State.create(apply_fn=network.apply, tx=tx, **variables)


def step(state, images, labels):
    """One step; the running averages of batch normalisation are part of the state."""

    def loss(params):
        variables = {"params": params, "batch_stats": state.batch_stats}
        logits, changed = network.apply(variables, images, training=True, mutable=["batch_stats"])
        value = optim.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return value, changed["batch_stats"]

    (value, batch_stats), grads = weft.value_and_grad(loss, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads, batch_stats=batch_stats), value


@weft.jit
def accuracy(state, images, labels):
    logits = network.apply({"params": state.params, "batch_stats": state.batch_stats}, images)
    return (logits.argmax(-1) == labels).mean()


def local_binary_patterns(images):
    """Histograms of which of a pixel's eight neighbours are brighter than it."""
    x = images[..., 0]
    middle, codes = x[:, 1:-1, 1:-1], 0
    places = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    for bit, (i, j) in enumerate(places):
        other = x[:, i : i + SIDE - 2, j : j + SIDE - 2]
        codes = codes + ((other >= middle).astype(np.int32) << bit)
    return np.stack([np.bincount(code.ravel(), minlength=256) for code in codes]) / middle[0].size


def baseline(data, test):
    """The accuracy of the nearest neighbour among square roots of histograms (Hellinger)."""
    x, y = (np.sqrt(local_binary_patterns(images)) for images, _ in (data, test))
    return (data[1][(y @ x.T).argmax(1)] == test[1]).mean()


def main():
    chosen = options(__doc__, steps=600, batch=64)
    steps = 60 if chosen.short else chosen.steps
    rng = np.random.default_rng(chosen.seed)
    data, test = patches(rng, *((100, 20, 128) if chosen.short else (800, 100)))
    known = baseline(data, test)
    state, fast_step = create_state(chosen.seed, steps), weft.jit(step, donate_argnums=0)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            rows = rng.integers(len(data[0]), size=chosen.batch)
            images = data[0][rows][:, :: rng.choice((-1, 1)), :: rng.choice((-1, 1))]
            state, value = fast_step(state, images, data[1][rows])
            if number % 20 == 0:
                writer.write_scalars(number, {"loss": value})
            if number % 100 == 0 or number == steps:
                writer.write_scalars(number, {"test_accuracy": accuracy(state, *test)})
    wrong = 1 - float(accuracy(state, *test))
    finish(
        chosen,
        "share of wrong patches",
        wrong,
        1 - known,
        "local binary patterns and nearest neighbour, computed beside it",
        short=0.7,
        least=False,
        curve="test_accuracy",
    )


if __name__ == "__main__":
    main()
