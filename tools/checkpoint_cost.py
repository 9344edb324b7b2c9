"""How much asynchronous checkpoints cost a training: the time of its steps with and without them.

    python tools/checkpoint_cost.py --rounds 4 --steps 60 --every 30

A network of 4.2 million parameters is trained by Adam, so that a checkpoint has 50 MB. Runs with
and without checkpoints take turns; the last line is the median of their ratios.
"""

import argparse
import statistics
import tempfile
import time

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft import optim, train


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(4):
            x = nn.relu(nn.Dense(1024)(x))
        return nn.Dense(10)(x)


def trained(step, state, batch, steps, manager=None, every=1):
    """The state after some steps, and the seconds that they took."""
    began = time.perf_counter()
    for number in range(1, steps + 1):
        state, _ = step(state, batch)
        if manager is not None and number % every == 0:
            manager.save(int(state.step), state)
    weft.block_until_ready(state)
    return state, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=30, help="steps between two checkpoints")
    options = parser.parse_args()
    network, batch = Network(), (jnp.ones((256, 1024)), jnp.zeros(256, jnp.int32))

    def loss(params, batch):
        logits = network.apply({"params": params}, batch[0])
        return optim.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    params = network.init(weft.random.key(0), batch[0])["params"]
    step = train.make_step(loss)
    state = train.TrainState.create(apply_fn=None, params=params, tx=optim.adam(1e-3))
    state, _ = trained(step, step.place(state), batch, 12)  # compiles
    ratios = []
    for _ in range(options.rounds):
        state, without = trained(step, state, batch, options.steps)
        with tempfile.TemporaryDirectory() as folder, train.CheckpointManager(folder) as manager:
            state, seconds = trained(step, state, batch, options.steps, manager, options.every)
        ratios.append(seconds / without)
        each = 1000 / options.steps
        print(f"{without * each:.1f} ms a step, with checkpoints {seconds * each:.1f} ms")
    print(f"median ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
