"""Which functions call LLVM for arrays of a new size: the calls of `bench sweep`, outside of `jit`.

`python tools/new_shapes.py small [PART ...]` runs the calls, or those with a part in their text, on
seven sizes of few, some (`middle`) or many (`large`) elements, and lists those that compile
something for one of the last three, with how much for each.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

os.environ["WEFT_CACHE"] = "off"
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import weft
from bench.suites.calls import CALLS
from bench.suites.sweep import Sizes, prepare, split
from weft.backends.llvm.native import compiling

FIRST = 4
_SIDES = {
    "small": [
        (900, 31, 13, 30, (60, 11)),
        (1100, 36, 15, 33, (70, 13)),
        (1300, 38, 21, 35, (75, 14)),
        (1700, 35, 17, 29, (80, 12)),
        (1400, 37, 18, 31, (77, 15)),
        (1511, 33, 19, 34, (73, 16)),
        (1603, 34, 14, 32, (71, 10)),
    ],
    "middle": [
        (9000, 110, 40, 130, (600, 20)),
        (11000, 116, 45, 133, (700, 22)),
        (13000, 118, 41, 135, (750, 24)),
        (17000, 115, 47, 129, (800, 23)),
        (14000, 117, 48, 131, (770, 21)),
        (15110, 113, 49, 134, (730, 26)),
        (16030, 114, 44, 132, (710, 25)),
    ],
    "large": [
        (100000, 300, 80, 500, (3000, 20)),
        (130000, 330, 90, 600, (3500, 22)),
        (140001, 341, 101, 700, (3601, 23)),
        (115000, 323, 81, 650, (3203, 21)),
        (125001, 351, 103, 603, (3303, 24)),
        (133333, 343, 95, 555, (3407, 25)),
        (117777, 327, 87, 577, (3509, 26)),
    ],
}


@contextlib.contextmanager
def compiled_texts() -> Iterator[list[str]]:
    """The texts that go to LLVM."""
    found: list[str] = []
    compile_parts = compiling.compile_parts

    def noted(parts: list[Any]) -> list[bytes]:
        found.extend(map(str, parts))
        return compile_parts(parts)

    compiling.compile_parts = noted
    try:
        yield found
    finally:
        compiling.compile_parts = compile_parts


def counts(room: str, text: str, sides: list[Any], found: list[str]) -> list[int | None]:
    """How many texts a call compiles for each size; None where it has no such call."""
    out: list[int | None] = []
    for some in sides:
        before = len(found)
        try:
            function, given = prepare(weft, room, text, Sizes(*some))
            arrays = [weft.numpy.asarray(x) for x in given]
            for _ in range(2):
                function(*arrays)
        except (TypeError, ValueError, AssertionError):  # sizes that it does not take
            out.append(None)
        else:
            out.append(len(found) - before)
    return out


def main(kind: str, parts: list[str]) -> None:
    warnings.simplefilter("ignore")
    calls = many = 0
    with compiled_texts() as found:
        for room, lines in CALLS.items():
            for text, _, _ in split(lines):
                if parts and not any(part in f"{room}.{text}" for part in parts):
                    continue
                calls += 1
                made = counts(room, text, _SIDES[kind], found)
                if any(made[FIRST:]):
                    many += 1
                    print(f"{room}.{text}", *("-" if n is None else n for n in made))
        print(f"{many} of {calls} calls compile something for one of the last sizes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "small", sys.argv[2:])
