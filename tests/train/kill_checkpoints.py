"""Kills processes at random moments while they save checkpoints, and checks what is left.

``python -m tests.train.kill_checkpoints FOLDER KILLS SEED`` forks a process that saves one step
after the other, kills it, and loads every checkpoint that is there.
"""

import os
import random
import signal
import sys
import time

import numpy as np

from weft.train import CheckpointManager, Keep

RULE = Keep(last=2, best=1, metric="loss")


def tree(step: int) -> dict:
    """What the checkpoint of a step holds."""
    return {"w": np.full((7, 5), step, np.float32), "b": np.arange(step % 9), "step": step}


def save_forever(folder: str, told: int, asynchronous: bool) -> None:
    """Save steps until killed; each one that is on the disk is told through a pipe."""
    manager = CheckpointManager(folder, RULE, asynchronous=asynchronous)
    os.write(told, bytes(8))
    step = (manager.latest_step() or 0) + 1
    while True:
        metrics = {"loss": float(step * 7919 % 101)}
        manager.save(step, tree(step), metrics, overwrite=step in manager.all_steps())
        manager.wait()
        os.write(told, step.to_bytes(8, "little"))
        step += 1 - (step % 5 == 0 and random.random() < 0.3)  # replaces a step now and then


def check(folder: str, least: int) -> int:
    """The last step there; every one that counts as whole must load as it was saved."""
    manager = CheckpointManager(folder, RULE)
    steps = manager.all_steps()
    assert max(steps, default=0) >= least, f"step {least} was on the disk, and is not: {steps}"
    for step in steps:
        found, wanted = manager.restore(step), tree(step)
        assert found.keys() == wanted.keys() and found["step"] == step
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    return max(steps, default=0)


def seconds_of_a_save(folder: str) -> float:
    """How long a process takes for a save here, its start included."""
    with CheckpointManager(folder, RULE) as manager:
        start = time.monotonic()
        for step in range(1, 6):
            manager.save(step, tree(step), {"loss": 1.0})
    return (time.monotonic() - start) / 5


def main(folder: str, kills: int, seed: int) -> None:
    """Kill as often as asked; raises at the first checkpoint that is not whole."""
    moments = random.Random(seed)
    span = 3 * seconds_of_a_save(folder)
    last = left = 0
    for number in range(kills):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            random.seed(number)
            save_forever(folder, writer, asynchronous=number % 2 == 0)
        os.close(writer)
        told = os.read(reader, 8)  # it has begun
        time.sleep(moments.uniform(0.0, span))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while piece := os.read(reader, 1 << 16):
            told += piece
        os.close(reader)
        last = max(last, int.from_bytes(told[-8:], "little"))
        left += any(name.startswith(".") for name in os.listdir(folder))
        last = max(last, check(folder, last))
    print(f"{kills} kills, {left} in the middle of a save, {last} steps")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
