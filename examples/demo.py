"""Trains a multilayer perceptron on handwritten digits, with Adam written out in plain weft."""

import argparse
import sys
import time

from data import digits

import weft as jax
import weft.numpy as jnp

SIZES = (64, 128, 64, 10)
RATE, DECAY, DECAY_SQUARES, EPSILON = 2e-3, 0.9, 0.999, 1e-8


def init(key):
    """Weights drawn for rectified units, biases zero: one dictionary a layer."""
    keys = jax.random.split(key, len(SIZES) - 1)
    return [
        {
            "weights": jax.random.normal(key, (rows, columns)) * jnp.sqrt(2 / rows),
            "biases": jnp.zeros(columns),
        }
        for key, rows, columns in zip(keys, SIZES[:-1], SIZES[1:])
    ]


def forward(params, images):
    """Log-probabilities of the ten digits for a batch of images."""
    *hidden, last = params
    x = images
    for layer in hidden:
        x = jax.nn.relu(x @ layer["weights"] + layer["biases"])
    return jax.nn.log_softmax(x @ last["weights"] + last["biases"])


def loss(params, images, labels):
    """Mean negative log-likelihood of the labels."""
    return -jnp.mean(jnp.take_along_axis(forward(params, images), labels[:, None], axis=1))


def adam(params, grads, state):
    """One step of Adam (Kingma and Ba, 2015) on every leaf of the tree."""
    count, means, squares = state
    count = count + 1
    means = jax.tree.map(lambda m, g: DECAY * m + (1 - DECAY) * g, means, grads)
    squares = jax.tree.map(
        lambda s, g: DECAY_SQUARES * s + (1 - DECAY_SQUARES) * g * g, squares, grads
    )
    rate = RATE * jnp.sqrt(1 - DECAY_SQUARES**count) / (1 - DECAY**count)
    params = jax.tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(s) + EPSILON), params, means, squares
    )
    return params, (count, means, squares)


def step(params, state, images, labels):
    """The loss of a batch, and the parameters after learning from it."""
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    params, state = adam(params, grads, state)
    return params, state, value


@jax.jit
def accuracy(params, images, labels):
    """The share of images whose digit is named right."""
    return jnp.mean(jnp.argmax(forward(params, images), axis=1) == labels)


class Progress:
    """One line that fills up; a few plain lines where the output is no terminal."""

    def __init__(self, total, width=30):
        self.total, self.width, self.shown = total, width, 0
        self.terminal = sys.stdout.isatty()

    def show(self, done, text):
        filled = self.width * done // self.total
        if self.terminal:
            bar = "█" * filled + "·" * (self.width - filled)
            end = "\n" if done == self.total else ""
            print(f"\r{bar} {done}/{self.total}  {text}", end=end, flush=True)
        elif 5 * done // self.total > self.shown:
            self.shown = 5 * done // self.total
            print(f"step {done}/{self.total}  {text}", flush=True)


def batches(key, images, labels, size):
    """The training set in random order, cut into full batches."""
    order = jax.random.permutation(key, len(images))
    for start in range(0, len(images) - size + 1, size):
        rows = order[start : start + size]
        yield images[rows], labels[rows]


def train(epochs, size, seed):
    """Train from the given seed and report as it goes; returns the accuracy on the test set."""
    data, test = jax.tree.map(jnp.asarray, digits())
    key, init_key = jax.random.split(jax.random.key(seed))
    params = init(init_key)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (0, zeros, zeros)

    images, labels = data[0][:size], data[1][:size]
    fast_step = jax.jit(step)
    told = jax.explain(fast_step, quiet=True)(params, state, images, labels)
    print(f"{len(data[0])} images to learn from, {len(test[0])} to be tested on")
    print(f"network {'-'.join(map(str, SIZES))}; what a step was compiled to:")
    print("\n  ".join(told.lines()))

    total = epochs * (len(data[0]) // size)
    progress, done = Progress(total), 0
    for epoch in range(epochs):
        for batch in batches(jax.random.fold_in(key, epoch), *data, size):
            params, state, value = fast_step(params, state, *batch)
            done += 1
            progress.show(done, f"loss {float(value):.4f}")
    return float(accuracy(params, *test))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    share = train(options.epochs, options.batch, options.seed)
    print(f"test accuracy {share:.1%} in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
