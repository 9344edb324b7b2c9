"""Functions that experiments of the tests run: they need no weft, so that workers start at once."""

import dataclasses
import enum
import fcntl
import json
import os
import pathlib
import sys
import time


class Kind(enum.Enum):
    SMALL = "small"


@dataclasses.dataclass(frozen=True)
class Layer:
    width: int = 8
    kind: Kind = Kind.SMALL


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float
    layers: tuple[Layer, ...] = (Layer(), Layer(16))
    where: pathlib.Path = pathlib.Path("a/b")
    seed: int = dataclasses.field(default=0, init=False)


def add(run, rate, depth=1):
    print("rate", rate)
    print("a warning", file=sys.stderr)
    (run.artefacts / "note.txt").write_text("kept")
    return {"sum": rate + depth, "loss": rate * depth}


def configured(run, config):
    return repr(config)


def show(run, **args):
    return repr(args)


def fail(run, how):
    if how == "raise":
        raise ValueError("a <bad> thing")
    if how == "exit":
        sys.exit(3)
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "kill once" and run.attempt == 1:
        os.kill(os.getpid(), 9)
    if how == "memory":
        return len(bytearray(2_000_000_000))
    if how == "sleep":
        time.sleep(60)
    return run.attempt


def about(run):
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {"cores": cores, "variable": os.environ.get("SHOWN"), "weft": "weft" in sys.modules}


def climb(run, rate, steps):
    """A loss that falls from step to step; it goes on from the run before."""
    begun = 0
    if run.previous is not None:
        begun = json.loads((run.previous / "state.json").read_text())["steps"]
    with open(run.folder / "metrics.jsonl", "a") as file:
        for step in range(begun + 1, steps + 1):
            values = {"loss": abs(rate - 0.3) + 1 / step}
            line = {"kind": "scalars", "step": step, "time": 0.0, "values": values}
            file.write(json.dumps(line) + "\n")
    (run.folder / "state.json").write_text(json.dumps({"steps": steps}))
    return {"from": begun}


def stepwise(run, number, steps=6, seconds=0.04):
    """Steps with a checkpoint after each. Two processes at once would leave a file ``doubled``."""
    mine = os.open(run.folder / "mine", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (run.folder / "doubled").touch()
    state = run.folder / "state.json"
    begun = json.loads(state.read_text())["step"] if state.exists() else 0
    for step in range(begun + 1, steps + 1):
        time.sleep(seconds)
        with open(run.folder / "steps.txt", "a") as file:
            file.write(f"{run.attempt} {step}\n")
        temporary = run.folder / "state.json.tmp"
        temporary.write_text(json.dumps({"step": step}))
        os.replace(temporary, state)
    return {"number": number, "begun": begun}


def ranks(run, how=""):
    """A function of several processes."""
    print(f"rank {run.rank} of {run.size}")
    (run.folder / f"was_here_{run.rank}").write_text(str(run.attempt))
    if how == "raise" and run.rank == 1:
        raise ValueError("rank 1 is unhappy")
    if how == "kill once" and run.rank == 1 and run.attempt == 1:
        os.kill(os.getpid(), 9)
    return {"size": run.size, "first": run.is_first}
