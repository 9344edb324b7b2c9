"""Trains a multilayer perceptron on handwritten digits with weft.linen, weft.optim, weft.train."""

import argparse
import tempfile
import time
from pathlib import Path

import curve
from data import digits

import weft as jax
import weft.numpy as jnp
from weft import linen as nn
from weft import optim, train

WIDTHS = (128, 64, 10)
RATE = 2e-3


class Network(nn.Module):
    """Logits of the ten digits for a batch of images."""

    @nn.compact
    def __call__(self, images):
        x = images
        for width in WIDTHS[:-1]:
            x = nn.relu(nn.Dense(width, kernel_init=nn.initializers.he_normal())(x))
        return nn.Dense(WIDTHS[-1])(x)


network = Network()
Metrics = train.metrics.Collection.create(
    loss=train.metrics.Average.from_output("loss"), accuracy=train.metrics.Accuracy
)


def loss(params, images, labels):
    """The mean loss of a batch, and its metrics."""
    logits = network.apply({"params": params}, images)
    losses = optim.softmax_cross_entropy_with_integer_labels(logits, labels)
    outputs = {"loss": losses, "logits": logits, "labels": labels}
    return losses.mean(), Metrics.single_from_model_output(**outputs)


def step(state, seen, images, labels):
    """The state after learning from a batch, and the metrics of all batches so far."""
    (_, found), grads = jax.value_and_grad(loss, has_aux=True)(state.params, images, labels)
    return state.apply_gradients(grads=grads), seen.merge(found)


@jax.jit
def accuracy(params, images, labels):
    """The share of images whose digit is named right."""
    return loss(params, images, labels)[1].compute()["accuracy"]


def batches(key, images, labels, size):
    """The training set in random order, cut into full batches."""
    order = jax.random.permutation(key, len(images))
    for start in range(0, len(images) - size + 1, size):
        rows = order[start : start + size]
        yield images[rows], labels[rows]


def fit(epochs, size, seed, out):
    """Train from the given seed and report as it goes; returns the accuracy on the test set."""
    data, test = jax.tree.map(jnp.asarray, digits())
    key, init_key = jax.random.split(jax.random.key(seed))
    images, labels = data[0][:size], data[1][:size]
    params = network.init(init_key, images)["params"]
    state = train.TrainState.create(apply_fn=network.apply, params=params, tx=optim.adam(RATE))
    fast_step = jax.jit(step)
    told = jax.explain(fast_step, quiet=True)(state, Metrics.empty(), images, labels)
    print(f"{len(data[0])} images to learn from, {len(test[0])} to be tested on")
    print(network.tabulate(init_key, images))
    print("what a step was compiled to:")
    print("\n  ".join(told.lines()))

    total = epochs * (len(data[0]) // size)
    manager = train.CheckpointManager(out / "checkpoints", keep=2)
    with train.writers.create_default_writer(out, total_steps=total) as writer:
        for epoch in range(epochs):
            seen = Metrics.empty()
            for batch in batches(jax.random.fold_in(key, epoch), *data, size):
                state, seen = fast_step(state, seen, *batch)
            done = int(state.step)
            values = seen.compute() | {"test_accuracy": accuracy(state.params, *test)}
            writer.write_scalars(done, values)
            if (epoch + 1) % 5 == 0 or epoch + 1 == epochs:
                manager.save(done, state, metrics=values)
    manager.close()
    lines = train.writers.read_json_lines(out / "metrics.jsonl")
    curve.write(out / "loss.svg", curve.points_of(lines, "loss"), "loss")
    # What is in the last checkpoint is what is tested: it is all that a later program has.
    restored = train.CheckpointManager(out / "checkpoints").restore(target=state)
    return float(accuracy(restored.params, *test))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where metrics, checkpoints and the curve go")
    options = parser.parse_args()
    start = time.perf_counter()
    out = options.out or Path(tempfile.mkdtemp(prefix="weft-demo-"))
    share = fit(options.epochs, options.batch, options.seed, out)
    print(f"test accuracy {share:.1%} in {time.perf_counter() - start:.1f} s")
    print(f"checkpoints, metrics.jsonl, events for TensorBoard and loss.svg are in {out}")


if __name__ == "__main__":
    main()
