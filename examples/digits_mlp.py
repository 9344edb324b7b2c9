"""A multilayer perceptron that reads handwritten digits.

Data: the 1,797 digits inside scikit-learn, 8 × 8 pixels, 360 of them held out. Target: 97 % of the
held-out digits, which a support vector machine reaches in scikit-learn's user guide ("Recognizing
hand-written digits"). Beside the metrics, it leaves ``digits.html``, a page on which you draw a
digit and the network reads it.
"""

from pathlib import Path

import numpy as np
from data import digits
from outcome import finish, options

import weft
from weft import export, optim, train
from weft import linen as nn
from weft import numpy as jnp


class Network(nn.Module):
    widths: tuple = (128, 64)

    @nn.compact
    def __call__(self, x):
        for width in self.widths:
            x = nn.relu(nn.Dense(width, kernel_init=nn.initializers.he_normal())(x))
        return nn.Dense(10)(x)


network = Network()
Metrics = train.metrics.Collection.create(
    loss=train.metrics.Average.from_output("loss"), accuracy=train.metrics.Accuracy
)


def loss(params, batch):
    logits = network.apply({"params": params}, batch["image"])
    value = optim.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    return value.mean(), Metrics.single_from_model_output(
        loss=value, logits=logits, labels=batch["label"]
    )


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.ones((1, 64)))["params"]
    tx = optim.adam(optim.cosine_decay_schedule(3e-3, steps))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


def nearest_neighbour(data, test):
    """The share of test images whose nearest training image has the same label."""
    (x, labels), (y, truth) = data, test
    apart = (x**2).sum(1) - 2 * y @ x.T
    return (labels[apart.argmin(1)] == truth).mean()


def write_page(params, folder):
    """A web page that reads the digits you draw: one file, without a server."""
    read = weft.jit(lambda image: network.apply({"params": params}, image[None])[0])
    image = weft.ShapeDtypeStruct((64,), jnp.float32)
    made = export.to_c(read, (image,), folder / "page", name="scores_of", target="wasm32")
    script, body = (
        Path(__file__).with_name(f"digits_page.{kind}").read_text(encoding="utf-8")
        for kind in ("js", "html")
    )
    (folder / "digits.html").write_text(made.html(script, body, "Digits"), encoding="utf-8")


def main():
    chosen = options(__doc__, epochs=40, batch=64)
    epochs = 8 if chosen.short else chosen.epochs
    data, test = digits()
    batches = len(data[0]) // chosen.batch
    total = epochs * batches
    state, step = create_state(chosen.seed, total), train.make_step(loss, has_aux=True)
    evaluate = weft.jit(lambda params, batch: loss(params, batch)[1])
    held_out = {"image": test[0], "label": test[1]}
    manager = train.CheckpointManager(chosen.out / "checkpoints", keep=1)
    rng = np.random.default_rng(chosen.seed)
    with train.writers.create_default_writer(chosen.out, total_steps=total) as writer:
        for epoch in range(epochs):
            seen = Metrics.empty()
            order = rng.permutation(len(data[0]))[: batches * chosen.batch]
            for rows in order.reshape(batches, -1):
                state, outputs = step(state, {"image": data[0][rows], "label": data[1][rows]})
                seen = seen.merge(outputs["aux"])
            values = seen.compute() | {
                f"test_{name}": value
                for name, value in evaluate(state.params, held_out).compute().items()
            }
            writer.write_scalars((epoch + 1) * batches, values)
            manager.save((epoch + 1) * batches, state, metrics=values)
    manager.close()
    write_page(state.params, chosen.out)
    finish(
        chosen,
        "accuracy on held-out digits",
        values["test_accuracy"],
        0.97,
        "a support vector machine in scikit-learn's user guide",
        short=0.93,
        beside={"accuracy of the nearest neighbour": nearest_neighbour(data, test)},
        curve="test_accuracy",
    )


if __name__ == "__main__":
    main()
