"""A vision transformer (Dosovitskiy et al. 2021) that reads digits, a patch at a time.

Data: the 1,797 digits inside scikit-learn, 8 × 8 pixels, 360 of them held out. Target: 97 %, which
a support vector machine reaches in scikit-learn's user guide. Vision transformers need much data
or augmentation; here patches of 4 × 4 pixels overlap, and digits are moved by up to a pixel.
"""

import numpy as np
from data import digits
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train


class Block(nn.Module):
    heads: int = 4

    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x))
        h = nn.gelu(nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1])(h)


class ViT(nn.Module):
    width: int = 48
    layers: int = 3

    @nn.compact
    def __call__(self, images):
        x = nn.Conv(self.width, (4, 4), strides=(2, 2), name="patches")(images)
        x = x.reshape(len(x), -1, self.width)
        first = self.param("class", nn.initializers.zeros, (1, 1, self.width))
        x = jnp.concatenate([jnp.broadcast_to(first, (len(x), 1, self.width)), x], 1)
        x = x + self.param("position", nn.initializers.normal(0.02), x.shape[1:])
        for _ in range(self.layers):
            x = Block()(x)
        return nn.Dense(10)(nn.LayerNorm()(x[:, 0]))


network = ViT()


def loss(params, batch):
    logits = network.apply({"params": params}, batch["image"])
    labels = optim.smooth_labels(nn.one_hot(batch["label"], 10), 0.1)
    return optim.softmax_cross_entropy(logits, labels).mean()


class State(train.TrainState):
    """With an average of the parameters, which is what is tested."""

    ema: train.EMA


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.ones((1, 8, 8, 1)))["params"]
    rate = optim.warmup_cosine_decay_schedule(0.0, 3e-3, steps // 10, steps)
    tx = optim.adamw(rate, weight_decay=0.05)
    ema = train.EMA.create(params, decay=0.9)
    return State.create(apply_fn=network.apply, params=params, tx=tx, ema=ema)


@weft.jit
def accuracy(params, images, labels):
    return (network.apply({"params": params}, images).argmax(-1) == labels).mean()


def shifted(rng, images):
    """Every image moved by up to one pixel."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8), (1, 2))
    rows, columns = rng.integers(3, size=(2, len(images)))
    return windows[np.arange(len(images)), rows, columns].transpose(0, 2, 3, 1)


def logistic_regression(data, test):
    """The accuracy of a linear classifier, trained to the end by gradient descent."""
    w, x, y = (
        jnp.zeros((65, 10)),
        *(np.pad(x, ((0, 0), (0, 1)), constant_values=1) for x in (data[0], test[0])),
    )
    cost = lambda w: optim.softmax_cross_entropy_with_integer_labels(x @ w, data[1]).mean()
    down = lambda _, w: w - 1.0 * weft.grad(cost)(w)
    w = weft.jit(lambda w: weft.lax.fori_loop(0, 1000, down, w))(w)
    return ((y @ w).argmax(-1) == test[1]).mean()


def main():
    chosen = options(__doc__, epochs=60, batch=64)
    epochs = 6 if chosen.short else chosen.epochs
    data, test = digits()
    images, held_out = (x.reshape(-1, 8, 8, 1) for x in (data[0], test[0]))
    batches = len(images) // chosen.batch
    total = epochs * batches
    state, step = create_state(chosen.seed, total), train.make_step(loss)
    rng = np.random.default_rng(chosen.seed)
    with train.writers.create_default_writer(chosen.out, total_steps=total) as writer:
        for epoch in range(epochs):
            order = rng.permutation(len(images))[: batches * chosen.batch]
            for rows in order.reshape(batches, -1):
                batch = {"image": shifted(rng, images[rows]), "label": data[1][rows]}
                state, outputs = step(state, batch)
            share = accuracy(state.ema.average, held_out, test[1])
            done = (epoch + 1) * batches
            writer.write_scalars(done, {"loss": outputs["loss"], "test_accuracy": share})
    finish(
        chosen,
        "accuracy on held-out digits",
        share,
        0.97,
        "a support vector machine in scikit-learn's user guide",
        short=0.6,
        beside={"accuracy of logistic regression": logistic_regression(data, test)},
        curve="test_accuracy",
    )


if __name__ == "__main__":
    main()
