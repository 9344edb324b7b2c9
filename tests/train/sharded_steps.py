"""The same training on one device and on a mesh of four, divided in several ways.

``python -m tests.train.sharded_steps`` in a process with four devices.
"""

import sys
import tempfile

import numpy as np

import weft
import weft.numpy as jnp
from weft import P, optim, train
from weft.sharding import Mesh

RULES = [
    ("up/kernel", P(None, "model")),
    ("down/kernel", P("model", None)),
    ("up/bias", P("model")),
]
OPTIMISER = optim.adam(1e-2)


def start() -> train.TrainState:
    """A network of two layers."""
    draw = np.random.RandomState(0)
    make = lambda *shape: jnp.asarray(draw.standard_normal(shape) / 4, jnp.float32)
    params = {
        "up": {"kernel": make(6, 16), "bias": jnp.zeros(16)},
        "down": {"kernel": make(16, 3), "bias": jnp.zeros(3)},
    }
    return train.TrainState.create(apply_fn=None, params=params, tx=OPTIMISER)


def loss(params, batch, key):
    """The error of the network, with noise on its inputs."""
    noise = 0.01 * weft.random.normal(key, batch["x"].shape)
    hidden = jnp.tanh((batch["x"] + noise) @ params["up"]["kernel"] + params["up"]["bias"])
    found = hidden @ params["down"]["kernel"] + params["down"]["bias"]
    return ((found - batch["y"]) ** 2).mean(), {"size": jnp.abs(found).mean()}


def batch(step: int) -> dict:
    """The data of a step."""
    draw = np.random.RandomState(100 + step)
    x = draw.standard_normal((16, 6)).astype(np.float32)
    return {"x": x, "y": np.stack([x.sum(1), x[:, 0], x[:, 1] * x[:, 2]], 1)}


def run(step, state, first: int = 0, last: int = 8, save=None):
    """Train for some steps; the state and the losses."""
    key, losses = weft.random.key(7), []
    for number in range(first, last):
        state, outputs = step(state, batch(number), weft.random.fold_in(key, number))
        losses.append(float(outputs["loss"]))
        if save is not None:
            save(number + 1, state)
    return state, losses


def bits(state) -> bytes:
    """All numbers of a state."""
    return b"".join(np.asarray(x).tobytes() for x in weft.tree.leaves(state))


def resumed(step) -> None:
    """A training that is broken off and resumed has the bits of one that is not."""
    unbroken = bits(run(step, start())[0])
    with tempfile.TemporaryDirectory() as folder:
        with train.CheckpointManager(folder) as manager:
            run(step, start(), 0, 5, lambda number, state: manager.save(number, state))
        with train.CheckpointManager(folder) as manager:
            number = manager.latest_step()
            state = manager.restore(target=step.place(start()))
            assert number == 5 and int(state.step) == 5
            assert bits(run(step, state, number)[0]) == unbroken, "resumed otherwise"


def main() -> None:
    """Compare all ways."""
    assert weft.device_count() == 4
    one, wanted = run(train.make_step(loss, has_aux=True), start())
    devices = np.array(weft.devices())
    line = Mesh(devices, ("data",))
    ways = {
        "data": train.make_step(loss, has_aux=True, sharding="data"),
        "fsdp": train.make_step(loss, has_aux=True, mesh=line, sharding="fsdp"),
        "tensor": train.make_step(
            loss, has_aux=True, mesh=Mesh(devices.reshape(2, 2), ("data", "model")), sharding=RULES
        ),
        "both": train.make_step(
            loss, has_aux=True, mesh=Mesh(devices.reshape(2, 2), ("data", "fsdp")), sharding="fsdp"
        ),
        "parts": train.make_step(loss, has_aux=True, mesh=line, sharding="fsdp", accumulate=2),
    }
    for name, step in ways.items():
        state, losses = run(step, start())
        if name != "parts":  # whose noise is another
            np.testing.assert_allclose(losses, wanted, rtol=2e-5, err_msg=name)
            close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
            weft.tree.map(close, state, one)
        kernel, momentum = state.params["up"]["kernel"], state.opt_state[0].mu["up"]["kernel"]
        specs = {"data": P(), "tensor": P(None, "model"), "both": P(None, "fsdp")}
        for array in (kernel, momentum):
            assert array.sharding.spec == specs.get(name, P(None, "data")), (name, array.sharding)
        part = kernel.addressable_shards[0].data.size
        assert part == 96 // {"data": 1, "tensor": 2, "both": 2}.get(name, 4), name
        resumed(step)
    print("as on one device", file=sys.stdout)


if __name__ == "__main__":
    main()
