"""A convolutional network that reads digits of writers it has not seen.

Data: the 1,797 digits inside scikit-learn, 8 × 8 pixels, in the order of the file, so that the
second half has other writers. Target: 97 % of that half, the accuracy of a support vector machine
on the same halves in scikit-learn's user guide ("Recognizing hand-written digits").
"""

import numpy as np
from data import digits
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, training=False):
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(64, (3, 3))(x))
        x = nn.Dropout(0.3, deterministic=not training)(x.reshape(x.shape[0], -1))
        return nn.Dense(10)(x)


network = Network()


def shifted(key, images):
    """Every image moved by up to one pixel: writers do not centre their digits alike."""
    padded = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    corners = weft.random.randint(key, (len(images), 2), 0, 3)
    cut = lambda image, at: weft.lax.dynamic_slice(image, (at[0], at[1], 0), (8, 8, 1))
    return weft.vmap(cut)(padded, corners)


def loss(params, batch, key):
    shift_key, dropout_key = weft.random.split(key)
    images = shifted(shift_key, batch["image"])
    logits = network.apply({"params": params}, images, training=True, rngs={"dropout": dropout_key})
    return optim.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.ones((1, 8, 8, 1)))["params"]
    tx = optim.adamw(optim.cosine_decay_schedule(3e-3, steps), weight_decay=1e-3)
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


@weft.jit
def accuracy(params, images, labels):
    return (network.apply({"params": params}, images).argmax(-1) == labels).mean()


def main():
    chosen = options(__doc__, epochs=60, batch=64)
    epochs = 6 if chosen.short else chosen.epochs
    (images, labels), (test_images, test_labels) = digits(seed=None, held_out=899)
    images, test_images = images.reshape(-1, 8, 8, 1), test_images.reshape(-1, 8, 8, 1)
    batches = len(images) // chosen.batch
    total = epochs * batches
    state, step = create_state(chosen.seed, total), train.make_step(loss)
    manager = train.CheckpointManager(chosen.out / "checkpoints", keep=1)
    rng, key = np.random.default_rng(chosen.seed), weft.random.key(chosen.seed + 1)
    with train.writers.create_default_writer(chosen.out, total_steps=total) as writer:
        for epoch in range(epochs):
            order = rng.permutation(len(images))[: batches * chosen.batch]
            for number, rows in enumerate(order.reshape(batches, -1), epoch * batches):
                batch = {"image": images[rows], "label": labels[rows]}
                state, outputs = step(state, batch, weft.random.fold_in(key, number))
            share = accuracy(state.params, test_images, test_labels)
            writer.write_scalars(number + 1, {"loss": outputs["loss"], "test_accuracy": share})
    manager.save(total, state)
    manager.close()

    flat, test_flat = images.reshape(-1, 64), test_images.reshape(-1, 64)
    nearest = ((flat**2).sum(1) - 2 * test_flat @ flat.T).argmin(1)
    finish(
        chosen,
        "accuracy on digits of other writers",
        share,
        0.97,
        "a support vector machine in scikit-learn's user guide",
        short=0.8,
        beside={"accuracy of the nearest neighbour": (labels[nearest] == test_labels).mean()},
        curve="test_accuracy",
    )


if __name__ == "__main__":
    main()
