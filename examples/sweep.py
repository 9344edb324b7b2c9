"""A search for good hyperparameters, and its report.

Ten networks read the digits inside scikit-learn, each in a process of its own, with a learning
rate, a width and a depth drawn at random. The best is chosen by 200 validation digits and tested
on 360 others. An interrupted search goes on where it was when the program is started again with
the same folder. Target: 97 % of the test digits, which a support vector machine reaches in
scikit-learn's user guide; the median of the drawn networks is beside it.
"""

import numpy as np
from data import digits
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train
from weft.train import launch
from weft.train.report import make_report


class Network(nn.Module):
    width: int
    depth: int

    @nn.compact
    def __call__(self, x):
        for _ in range(self.depth):
            x = nn.relu(nn.Dense(self.width)(x))
        return nn.Dense(10)(x)


def loss_of(network):
    def loss(params, batch):
        logits = network.apply({"params": params}, batch[0])
        return optim.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    return loss


def train_one(run, rate, width, depth, epochs):
    """One run: ``run`` says where it lives. What it returns is kept there too."""
    (images, labels), test = digits()
    (x, y), valid = (images[200:], labels[200:]), (images[:200], labels[:200])
    network = Network(width, depth)

    @weft.jit
    def accuracy(params, images, labels):
        return (network.apply({"params": params}, images).argmax(-1) == labels).mean()

    params = network.init(weft.random.key(0), jnp.ones((1, 64)))["params"]
    state = train.TrainState.create(apply_fn=network.apply, params=params, tx=optim.adam(rate))
    step, rng = train.make_step(loss_of(network)), np.random.default_rng(0)
    with train.writers.JsonLinesWriter(run.folder / "metrics.jsonl") as writer:
        for _ in range(epochs):
            for rows in rng.permutation(len(x))[: len(x) // 64 * 64].reshape(-1, 64):
                state, outputs = step(state, (x[rows], y[rows]))
            share = accuracy(state.params, *valid)
            scalars = {"loss": outputs["loss"], "valid_accuracy": share}
            writer.write_scalars(int(state.step), scalars)
    train.checkpoint.save(run.artefacts / "params", state.params)
    return {"valid": float(share), "test": float(accuracy(state.params, *test))}


def main():
    chosen = options(__doc__, runs=10, epochs=20)
    runs, epochs = (2, 4) if chosen.short else (chosen.runs, chosen.epochs)
    drawn = launch.random(
        runs,
        seed=chosen.seed,
        rate=launch.LogUniform(1e-4, 1e-1),
        width=launch.Choice([16, 32, 64, 128]),
        depth=launch.Integers(1, 3),
    )
    executor = launch.Local(max_parallel=2)
    with launch.create_experiment(chosen.out / "sweep", executor=executor) as experiment:
        units = experiment.add_sweep(train_one, [one | {"epochs": epochs} for one in drawn])
    best = max(units, key=lambda unit: unit.result["valid"])
    with train.writers.JsonLinesWriter(chosen.out / "metrics.jsonl") as writer:
        for number in range(1, len(units) + 1):
            so_far = max(unit.result["valid"] for unit in units[:number])
            writer.write_scalars(number, {"best_valid_accuracy": so_far})
    print(f"report: {make_report(chosen.out / 'sweep', chosen.out / 'report.html')}")
    print(f"best: {best.args}")
    finish(
        chosen,
        "test accuracy of the best network",
        best.result["test"],
        0.97,
        "a support vector machine in scikit-learn's user guide",
        short=0.85,
        beside={"median test accuracy": np.median([unit.result["test"] for unit in units])},
        curve="best_valid_accuracy",
    )


if __name__ == "__main__":
    main()
