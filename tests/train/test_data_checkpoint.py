"""The position in the data is part of a checkpoint: training goes on with the same batches."""

import numpy as np

from weft import train
from weft.train import data


def test_a_manager_keeps_the_position(tmp_path):
    made = data.source([{"x": np.ones(n % 7 + 1), "n": n} for n in range(200)])
    made = made.shuffle(seed=3).repeat(2).bucket("x", [3, 7], 8)
    reader, weights = iter(made), np.zeros(2)
    with train.CheckpointManager(tmp_path / "checkpoints") as manager:
        for step, batch in enumerate(reader):
            weights = weights * 0.9 + batch["n"].sum()
            if step == 20:
                manager.save(step, {"weights": weights, "data": reader.state()})
    again = iter(made)
    with train.CheckpointManager(tmp_path / "checkpoints") as manager:
        # the state always has the same structure, so that a fresh one is a target
        restored = manager.restore(target={"weights": np.zeros(2), "data": again.state()})
    again.restore(restored["data"])
    resumed = np.asarray(restored["weights"])
    for batch in again:
        resumed = resumed * 0.9 + batch["n"].sum()
    assert np.allclose(resumed, weights, rtol=1e-6)
