"""A training with weft's own tools that an experiment interrupts and resumes."""

import os

import numpy as np

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft import optim, train


def fit(run, steps, die_at=None):
    """Train a small network with a checkpoint every ten steps; what it ends with, as text."""
    network = nn.Dense(3)
    params = network.init(weft.random.key(0), jnp.ones((1, 4)))["params"]
    state = train.TrainState.create(apply_fn=network.apply, params=params, tx=optim.adam(1e-2))
    manager = train.CheckpointManager(run.folder / "checkpoints", keep=2)
    if manager.latest_step() is not None:
        state = manager.restore(target=state)
    begun = int(state.step)
    step = train.make_step(lambda params, x: (network.apply({"params": params}, x) ** 2).mean())
    with train.writers.JsonLinesWriter(run.folder / "metrics.jsonl") as writer:
        for number in range(begun, steps):
            batch = np.random.RandomState(number).randn(8, 4).astype(np.float32)
            state, outputs = step(state, batch)
            writer.write_scalars(number + 1, {"loss": outputs["loss"]})
            writer.flush()
            if (number + 1) % 10 == 0:
                manager.save(number + 1, state)
                manager.wait()
            if run.attempt == 1 and number + 1 == die_at:
                os.kill(os.getpid(), 9)
    manager.close()
    leaves = weft.tree.leaves(state.params)
    return {"begun": begun, "bits": [np.asarray(leaf).tobytes().hex() for leaf in leaves]}
