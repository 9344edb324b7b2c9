"""Trains a multilayer perceptron on handwritten digits, with weft.linen and weft.optim."""

import argparse
import sys
import time

from data import digits

import weft as jax
import weft.numpy as jnp
from weft import linen as nn
from weft import optim

WIDTHS = (128, 64, 10)
RATE = 2e-3


class Network(nn.Module):
    """Log-probabilities of the ten digits for a batch of images."""

    @nn.compact
    def __call__(self, images):
        x = images
        for width in WIDTHS[:-1]:
            x = nn.relu(nn.Dense(width, kernel_init=nn.initializers.he_normal())(x))
        return nn.log_softmax(nn.Dense(WIDTHS[-1])(x))


network, optimiser = Network(), optim.adam(RATE)


def loss(params, images, labels):
    """Mean negative log-likelihood of the labels."""
    predicted = network.apply({"params": params}, images)
    return -jnp.mean(jnp.take_along_axis(predicted, labels[:, None], axis=1))


def step(params, state, images, labels):
    """The loss of a batch, and the parameters after learning from it."""
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    updates, state = optimiser.update(grads, state, params)
    return optim.apply_updates(params, updates), state, value


@jax.jit
def accuracy(params, images, labels):
    """The share of images whose digit is named right."""
    predicted = network.apply({"params": params}, images)
    return jnp.mean(jnp.argmax(predicted, axis=1) == labels)


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
    images, labels = data[0][:size], data[1][:size]
    params = network.init(init_key, images)["params"]
    state = optimiser.init(params)
    fast_step = jax.jit(step)
    told = jax.explain(fast_step, quiet=True)(params, state, images, labels)
    print(f"{len(data[0])} images to learn from, {len(test[0])} to be tested on")
    print(network.tabulate(init_key, images))
    print("what a step was compiled to:")
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
