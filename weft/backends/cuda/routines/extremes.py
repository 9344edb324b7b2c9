"""Tangents and cotangents of running extremes: trees of a few rows in the memory of a block."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cuda import ptx
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Place,
    Routine,
    Run,
    ceil_div,
    given,
    made,
    module,
    scratch,
)
from weft.backends.cuda.routines.cumulative import numbers_of
from weft.backends.cuda.routines.stubs import extreme_stubs as stubs
from weft.backends.llvm.code import Effort
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel.program import Type

# Bytes of shared memory for the leaves of trees; columns that are read side by side.
LEAF_BYTES, SIDE_BY_SIDE = 8 << 10, 32
# Threads of a block.
THREADS = 256


@lru(128)
def _module(main: Any, **names: Any) -> ptx.GpuModule:
    nodes = 2 * names["TILE"] * names["COLUMNS"] * names["WIDTH"]
    rooms = {"extremes": nodes, "parts": nodes, "edges": names["COLUMNS"] * names["WIDTH"]}
    found = module(main, known_to(main, names), rooms)
    few = names["LENGTH"] * names["ROWS"] < ptx.BRIEF_ELEMENTS
    return found.with_effort(Effort.INLINE) if few else found


def _power(n: int) -> int:
    """The power of two from a number on.

    >>> [_power(n) for n in (1, 2, 3, 64, 65)]
    [1, 2, 4, 64, 128]
    """
    return 1 << (n - 1).bit_length()


def tile_of(length: int, rows: int, inner: int, width: int) -> tuple[int, int]:
    """The elements of a tile, and how many rows a block has a tile of.

    >>> [tile_of(*sizes, 4) for sizes in ((300, 7, 1), (10**6, 5, 1), (500, 640, 64))]
    [(512, 4), (2048, 1), (64, 32)]
    """
    leaves = LEAF_BYTES // width
    aside = 1 if inner == 1 else min(SIDE_BY_SIDE, _power(rows))
    tile = max(2, min(leaves // aside, _power(length)))
    return tile, min(leaves // tile, _power(rows))


class _Steps:
    """The launches for rows, then for the roots of their tiles, and so on; and back."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names, self.steps, self.rooms = names, list[Any](), list[int]()

    def room(self, count: int) -> Place:
        self.rooms.append(count * self.names["WIDTH"])
        return scratch(len(self.rooms) - 1)

    def add(
        self, places: tuple[Place, ...], to: Place, shape: tuple[int, int, int], **names: Any
    ) -> None:
        """The steps for rows, their length, and how far apart their elements are; of operands and
        what is added to the first."""
        rows, length, inner = shape
        names = self.names | names
        tile, columns = tile_of(length, rows, inner, names["WIDTH"])
        tiles = ceil_div(length, tile)
        names |= {"ROWS": rows, "LENGTH": length, "INNER": inner, "TILE": tile, "TILES": tiles}
        names |= {"COLUMNS": columns, "DEPTH": tile.bit_length() - 1}
        threads = max(32, min(THREADS, tile * columns // 2))
        names |= {"THREADS": threads}
        blocks = tiles * ceil_div(rows, columns)
        roots = to
        if tiles > 1:
            wanted = 4 if names["TRANSPOSED"] else 3
            sums = [self.room(rows * tiles) for _ in range(wanted)]
            t, x, out, more = sums if wanted == 4 else (*sums, sums[0])
            first = _module(stubs.sum_tiles, **names)
            self.steps.append(Run(first, blocks, threads, (*places, t, x, out, more)))
            roots = self.room(rows * tiles)
            alike = {"REVERSE": 0, "NARROW": 0, "MORE": names["TRANSPOSED"]}
            self.add((t, x, out, more), roots, (rows, tiles, 1), **alike)
        last = _module(stubs.share_tiles, **names)
        self.steps.append(Run(last, blocks, threads, (*places, roots, to)))


def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    shape, axis = ins[0].shape, params["axis"]
    names = numbers_of(ins[0].dtype)
    if names is None or not prod(shape):
        return None
    worst = float("inf") if params["least"] else float("-inf")
    chosen = {"REVERSE": params["reverse"], "LEAST": params["least"], "MORE": False}
    chosen["TRANSPOSED"] = params["transposed"]
    names |= {word: int(value) for word, value in chosen.items()} | {"IDENTITY": worst}
    found = _Steps(names)
    inner = prod(shape[axis + 1 :])
    rows = prod(shape[:axis]) * inner
    found.add((given(0), given(1), given(2), given(0)), made(0), (rows, shape[axis], inner))
    return Routine(found.steps, tuple(found.rooms))


ROUTINES["extreme_tangent"] = lower
