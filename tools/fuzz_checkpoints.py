"""Checkpoints and event files damaged in many ways and then read.

    python tools/fuzz_checkpoints.py --mutants 100000 --seed 0

A mutant has bytes of one of its files changed, cut, repeated or put elsewhere, or a value of its
JSON forged, half of these with the checksum made to fit, so that only the checks behind it can
refuse it. Restoring may raise ``CheckpointError`` and nothing else; may open no file for writing,
none outside its folder, remove nothing and start no process. A folder of weft with a damaged byte
must never load: checksums cover all of it. Files of flax and plain safetensors files have no
checksums, and forged values may be consistent; those may load. Of event files, only records that
were written may be read. The exit status says whether all went well.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from weft.linen import serialization
from weft.train import checkpoint, tfrecord, writers
from weft.train.checkpoint import manifest

ADDRESS_SPACE = 16 << 30
SLOWEST_S = 10.0
TREE = {
    "params": {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.zeros(0, np.int8)},
    "key": weft.random.key(1),
    "half": jnp.ones(5, jnp.bfloat16),
    "flags": np.array([True, False]),
    "complex": np.ones(2, np.complex128),
    "state": [1, 2.5, "text", b"bytes", None, (True, 1j)],
}
FORGED: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**62, 2**63, 10**30, 0.5, 1e300, "", "x", "F32", "int4", "array",
    "key", "../../etc/passwd", "/etc/passwd", "process_00001.safetensors", "process_00000.json",
    "manifest.json", "\x00", "a/b", "nan", "0x" + "f" * 40, [], [1], [0, 2**61], [2**31, 2**31],
    {}, {"kind": "dict", "items": []}, {"kind": "leaf"}, [[]] * 3,
]  # fmt: skip


# --- what a restore may not do --------------------------------------------------------------------


class Watch:
    """Notes what Python does while it is on: files opened, removed, processes started."""

    FORBIDDEN = (
        "exec",
        "subprocess",
        "os.system",
        "os.posix_spawn",
        "os.fork",
        "pickle",
    )
    FORBIDDEN += ("os.remove", "os.rename", "os.rmdir", "shutil", "os.mkdir", "os.link", "socket")

    # where modules that are loaded late lie, and what weft reads about its own memory
    MODULES = (os.path.dirname(weft.__file__), os.path.dirname(os.__file__), "/proc/")

    def __init__(self, folder: str) -> None:
        self.folder, self.on, self.faults = folder, False, []
        self.thread = threading.get_ident()
        sys.addaudithook(self.hook)

    def is_own(self, name: str) -> bool:
        """Whether code is of a module that is loaded late, or weft's own for the target's tree."""
        return name.startswith(self.MODULES) or name.endswith("flatten of a pytree>")

    def hook(self, event: str, args: tuple) -> None:
        """Called by Python for every event."""
        if not self.on or threading.get_ident() != self.thread:
            return  # weft may be compiling its own code in another thread
        if event == "open" and isinstance(args[0], str):
            writes = args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if args[2] else 0
            inside = os.path.realpath(args[0]).startswith((self.folder, *self.MODULES))
            if writes or not inside:
                self.faults.append(f"open {args[0]!r}")
        elif event == "exec" and self.is_own(args[0].co_filename):
            pass
        elif event.startswith(self.FORBIDDEN):
            self.faults.append(f"{event} {args!r:.100}")


# --- mutants --------------------------------------------------------------------------------------


def blind(data: bytes, dice: random.Random) -> bytes:
    """The bytes with some of them changed, cut, repeated, or moved."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at, size = dice.randrange(len(made) + 1), dice.choice((1, 1, 2, 8, 40))
        kind = dice.randrange(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            made[at : at + size] = dice.randbytes(size)
        elif kind == 2:
            del made[at : at + size]
        elif kind == 3:
            made[at:at] = made[at : at + size]
        elif kind == 4:
            made[at : at + size] = dice.choice((b"\xff", b"\x00", b"[", b"{", b'"')) * size
        else:
            del made[at:]
        made = made or bytearray(b"\x00")
    return bytes(made)


def forge(value: Any, dice: random.Random) -> Any:
    """JSON with one value in it replaced, removed, or doubled under another key."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(list(value))
        made = dict(value)
        choice = dice.random()
        if choice < 0.08:
            del made[key]
        elif choice < 0.16:
            made[dice.choice(("x", "../x", "__metadata__", key + "/"))] = made[key]
        else:
            made[key] = forge(made[key], dice)
        return made
    if isinstance(value, list) and value and dice.random() < 0.85:
        at = dice.randrange(len(value))
        return [*value[:at], forge(value[at], dice), *value[at + 1 :]]
    return dice.choice(FORGED)


def forged_manifest(data: bytes, dice: random.Random) -> bytes:
    """A manifest with a forged value and a checksum that fits."""
    body = forge(json.loads(data)["manifest"], dice)
    text = json.dumps(body, separators=(",", ":")).encode()
    if dice.random() < 0.03:
        text = b"[" * 100_000
    digest = hashlib.sha256(text).hexdigest().encode()
    return b'{"sha256":"' + digest + b'","manifest":' + text + b"}\n"


def forged_header(data: bytes, dice: random.Random) -> bytes:
    """A safetensors file with a forged value in its header, or a forged length of it."""
    size = int.from_bytes(data[:8], "little")
    text = json.dumps(forge(json.loads(data[8 : 8 + size]), dice)).encode()
    if dice.random() < 0.03:
        text = b'{"a":' * 50_000
    length = len(text) if dice.random() < 0.9 else dice.choice((0, 2**31, 2**63, len(text) + 1))
    return length.to_bytes(8, "little") + text + data[8 + size :]


Mutation = Callable[[bytes, random.Random], bytes]


class Fuzz:
    """A folder with good files, and mutants of them that are restored one after the other."""

    def __init__(self, folder: str) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.slowest = 0.0
        good, self.folder = os.path.join(folder, "good"), os.path.realpath(folder)
        checkpoint.save(good, TREE, step=5, metrics={"loss": 0.5}, metadata={"note": [1]})
        names = (manifest.FILE, "process_00000.safetensors")
        self.good = {name: open(os.path.join(good, name), "rb").read() for name in names}
        self.flax = serialization.to_bytes({"a": {"w": np.arange(5), "n": 3}, "b": [1.5, None]})
        plain = os.path.join(folder, "plain")
        checkpoint.save_safetensors({"a": np.arange(5.0), "b": np.ones(2, np.int8)}, plain)
        self.plain = open(plain, "rb").read()
        with writers.TensorBoardWriter(os.path.join(folder, "events")) as writer:
            for step in range(4):
                writer.write_scalars(step, {"loss": 1.0 / (step + 1)})
                writer.write_texts(step, {"note": "words " * 20})
        self.events = open(writer.path, "rb").read()
        self.records = list(tfrecord.read_records(writer.path))
        self.place = os.path.join(folder, "mutant")
        self.watch = Watch(self.folder)
        checkpoint.restore(good)  # what restoring imports is imported by now
        checkpoint.restore(good, TREE)

    def mutant(self, number: int, dice: random.Random) -> tuple[str, bool]:
        """Write a mutant; returns its kind, and whether it may load."""
        shutil.rmtree(self.place, ignore_errors=True)
        if os.path.isfile(self.place):
            os.unlink(self.place)
        kind = number % 7
        if kind == 6:
            with open(self.place, "wb") as file:
                file.write(blind(self.events, dice))
            return "event file", True
        if kind >= 4:
            data = self.flax if kind == 4 else self.plain
            forging = kind == 5 and dice.random() < 0.5
            with open(self.place, "wb") as file:
                file.write(forged_header(data, dice) if forging else blind(data, dice))
            return ("flax file" if kind == 4 else "safetensors file"), True
        name = list(self.good)[kind % 2]
        change: Mutation = blind
        if kind >= 2:
            change = forged_manifest if kind == 2 else forged_header
        os.mkdir(self.place)
        changed = False
        for other, data in self.good.items():
            made = change(data, dice) if other == name else data
            changed = changed or made != data
            with open(os.path.join(self.place, other), "wb") as file:
                file.write(made)
        if not changed:
            return "unchanged", True
        return f"{'forged' if kind >= 2 else 'damaged'} {name}", kind == 2

    def one(self, number: int, seed: int) -> None:
        """Make a mutant, restore it, and note what happened."""
        dice = random.Random(f"{seed} {number}")
        kind, may_load = self.mutant(number, dice)
        target = TREE if dice.random() < 0.3 else None
        start = time.monotonic()
        self.watch.on = True
        try:
            if kind == "event file":
                for record in tfrecord.read_records(self.place):
                    may_load = may_load and record in self.records
            else:
                checkpoint.restore(self.place, target)
            outcome = "loaded" if may_load else "LOADED AS WHOLE"
        except checkpoint.CheckpointError:
            outcome = "refused"
        except tfrecord.RecordError:
            outcome = "refused" if may_load else "READ A WRONG RECORD"
        except MemoryError:
            outcome = "OUT OF MEMORY"
        except BaseException as error:
            outcome = f"RAISED {type(error).__name__}: {error!s:.200}"
        finally:
            self.watch.on = False
        self.slowest = max(self.slowest, time.monotonic() - start)
        if self.watch.faults:
            outcome, self.watch.faults = f"DID {self.watch.faults[0]}", []
        self.counts[f"{kind}: {outcome}"] += 1
        if outcome not in ("loaded", "refused"):
            print(f"mutant {number}: {kind}: {outcome}")

    def failures(self) -> list[str]:
        """What must not happen and did."""
        wrong = [line for line in self.counts if not line.endswith((": loaded", ": refused"))]
        return wrong + ([f"took {self.slowest:.1f} s"] if self.slowest > SLOWEST_S else [])


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    weft.config.update("cache", "off")  # the cache of kernels writes files of its own
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        fuzz = Fuzz(folder)
        start = time.monotonic()
        for number in range(options.mutants):
            fuzz.one(number, options.seed)
        print(f"{options.mutants} mutants in {time.monotonic() - start:.0f} s")
        print(f"the slowest took {fuzz.slowest:.2f} s")
    for line, count in sorted(fuzz.counts.items()):
        print(f"{count:8} {line}")
    return bool(fuzz.failures())


if __name__ == "__main__":
    sys.exit(main())
