"""A training that stops in the middle of an epoch and goes on: ``... FOLDER DEVICES STEPS``.

It prints a digest of parameters, optimiser state and the last loss after the last step. A training
that finds a checkpoint in the folder goes on from it; one that is given fewer steps than the whole
training ends without a goodbye, as one that is killed does.
"""

import hashlib
import os
import sys

import numpy as np

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft import optim, train
from weft.train import data

STEPS, EVERY = 23, 5  # an epoch has 12 batches


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, deterministic=False):
        x = nn.Dropout(0.2, deterministic=deterministic)(nn.relu(nn.Dense(32)(x)))
        return nn.Dense(4)(x)


def batches():
    random = np.random.default_rng(0)
    x = random.standard_normal((100, 8)).astype(np.float32)
    y = random.integers(0, 4, 100)
    return data.arrays({"x": x, "y": y}).shuffle(seed=1).batch(8, drop_remainder=True).repeat(3)


def main(folder, devices, stop):
    assert weft.device_count() == devices
    network = Network()

    def loss(params, batch, key):
        logits = network.apply({"params": params}, batch["x"], rngs={"dropout": key})
        return optim.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean()

    params = network.init(weft.random.key(0), jnp.ones((1, 8)), deterministic=True)["params"]
    state = train.TrainState.create(apply_fn=None, params=params, tx=optim.adam(1e-2))
    step = train.make_step(loss, sharding="fsdp" if devices > 1 else None)
    state, key, reader = step.place(state), weft.random.key(7), iter(batches())
    with train.CheckpointManager(folder) as manager:
        if manager.latest_step() is not None:
            target = {"state": state, "key": key, "data": reader.state()}
            found = manager.restore(target=target)
            state, key = found["state"], found["key"]
            reader.restore(found["data"])
            print(f"from {int(state.step)}", file=sys.stderr)
        for batch in reader:
            number = int(state.step)
            if number == stop:
                break
            key, own = weft.random.split(key)
            state, outputs = step(state, batch, own)
            if (number + 1) % EVERY == 0:
                manager.save(number + 1, {"state": state, "key": key, "data": reader.state()})
                manager.wait()
        if stop < STEPS:
            os._exit(9)
    leaves = weft.tree.leaves((state.params, state.opt_state, outputs["loss"]))
    digest = hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in leaves))
    print(int(state.step), digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
