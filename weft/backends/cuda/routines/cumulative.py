"""Cumulative sums, products, extrema and logarithms of sums: one pass over memory."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import ptx
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Fill,
    Place,
    Routine,
    Run,
    accessors,
    ceil_div,
    given,
    is_float_kind,
    made,
    module,
    scratch,
)
from weft.backends.cuda.routines.stubs import cumulative_stubs as stubs
from weft.backends.llvm.code import Effort
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel.program import Type

_OPS = {
    "cumsum": stubs.ADD,
    "cumprod": stubs.MUL,
    "cummax": stubs.MAX,
    "cummin": stubs.MIN,
    "cumlogsumexp": stubs.LOG_ADD_EXP,
}
# Warps of a block, and times that each reads four elements a thread.
WARPS, ROUNDS = 8, 8
# Rounds from which on a thread has enough to load at once.
ENOUGH_ROUNDS = 3
# Elements from which code for rows of one tile, which is short, is made well.
WHOLE_ROWS = 1 << 18
# Elements of a row up to which a warp goes through it.
SHORT = 1 << 10
# Blocks that a multiprocessor holds: while some wait for others, there is enough to load.
RESIDENT = 4
# Threads from which on columns need not be in pieces.
ENOUGH_THREADS = 1 << 18
# Strips of 32 columns that keep a GPU busy, a block each; its warps, and the rows of each.
ENOUGH_STRIPS, STRIP_WARPS, STRIP_ROWS = 96, 32, 16


def numbers_of(dtype: np.dtype) -> dict[str, Any] | None:
    """What stubs are told of a dtype; None where kernels don't compute with it."""
    found = accessors(dtype)
    kind = found["C"]
    if kind is None:
        return None
    return {**found, "WIDTH": kind.size, "FLOATING": int(is_float_kind(kind))}


def identity(op: int, dtype: np.dtype) -> Any:
    """What changes no number it is joined with."""
    if op in (stubs.ADD, stubs.MUL):
        return (op == stubs.MUL and 1) or 0
    if op == stubs.LOG_ADD_EXP or dtype.kind not in "biu":
        return float("inf") if op == stubs.MIN else float("-inf")
    info = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    return int(info.max if op == stubs.MIN else info.min)


@lru(256)
def _module(main: Any, resident: int, **names: Any) -> ptx.GpuModule:
    warps = names.get("WARPS", WARPS)
    rooms = {"totals": 8 * warps, "parts": 24}
    most = WHOLE_ROWS if names.get("TILES") == 1 else ptx.BRIEF_ELEMENTS
    few = names.get("LENGTH", 1) * names.get("ROWS", 1) < most
    found = module(main, known_to(main, names), rooms, (32 * warps, resident) if resident else None)
    return found.with_effort(Effort.INLINE) if few else found


@lru(64)
def _strips(**names: Any) -> ptx.GpuModule:
    warps = names["WARPS"]
    rooms = {"totals": 2 * warps * 32 * names["WIDTH"]}
    return module(stubs.scan_strips, names, rooms, (32 * warps, 1))


def scan_steps(
    source: Place, target: Place, state: Place, rows: int, length: int, names: dict[str, Any]
) -> tuple[list[Any], int]:
    """The steps that scan rows, and the bytes of their state."""
    names = {**names, "LENGTH": length, "ROWS": rows, "INNER": 1}
    if length <= SHORT:
        code = _module(stubs.scan_rows, 0, **names)
        return [Run(code, ceil_div(rows, 8), 256, (source, target))], 0
    rounds = ROUNDS if names["WIDTH"] <= 4 else ROUNDS // 2
    warps, rounds = _tile_of(length, rounds)
    tile = warps * 128 * rounds
    tiles = ceil_div(length, tile)
    groups = ceil_div(tiles, 32)
    units = tiles + groups + ceil_div(groups, 32) + 1
    names |= {"ROUNDS": rounds, "TILE": tile, "TILES": tiles, "GROUPS": groups, "UNITS": units}
    names |= {"WARPS": warps, "QUADS": int(length % 4 == 0)}
    if tiles == 1:  # no tile waits for another one
        run = Run(_module(stubs.scan_tiles, 0, **names), rows, 32 * warps, (source, target, source))
        return [run], 0
    resident = RESIDENT if names["WIDTH"] <= 4 else max(1, RESIDENT // 2)
    code = _module(stubs.scan_tiles, resident, **names)
    size = 16 + rows * units * 12
    run = Run(code, rows * tiles, 32 * warps, (source, target, state))
    return [Fill(state, 0, size), run], size


def _tile_of(length: int, rounds: int) -> tuple[int, int]:
    """Warps of a block and their rounds: those that a row of one tile leaves fewest idle in, with
    enough to load at once.

    >>> [_tile_of(n, 8) for n in (1100, 2112, 5000, 9000)]
    [(3, 3), (6, 3), (8, 5), (8, 8)]
    """
    if length > WARPS * 128 * rounds:
        return WARPS, rounds
    each = max(ceil_div(length, WARPS * 128), min(rounds, ENOUGH_ROUNDS))
    return ceil_div(length, 128 * each), each


def lowering(name: str) -> Any:
    op = _OPS[name]

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
        (x,) = ins
        axis, dtype, shape = params["axis"], x.dtype, x.shape
        inner = prod(shape[axis + 1 :])
        if dtype.kind == "c" and op == stubs.ADD:
            dtype, inner = np.dtype(f"f{dtype.itemsize // 2}"), 2 * inner
        names = numbers_of(dtype)
        if names is None:
            return None
        length, outer = shape[axis], prod(shape[:axis])
        names |= {"OP": op, "REVERSE": int(params["reverse"]), "IDENTITY": identity(op, dtype)}
        if inner == 1:
            steps, size = scan_steps(given(0), made(0), scratch(0), outer, length, names)
            return Routine(steps, (size,) if size else ())
        return _columns(outer * inner, length, names | {"INNER": inner})

    return lower


def _columns(count: int, length: int, names: dict[str, Any]) -> Routine:
    """Scans down columns: by strips of them, or in pieces where there are few."""
    if names["INNER"] % 32 == 0 and count >= 32 * ENOUGH_STRIPS:
        rows = STRIP_ROWS if names["WIDTH"] <= 4 else STRIP_ROWS // 2
        warps = min(STRIP_WARPS, ceil_div(length, rows))
        names = names | {"LENGTH": length, "WARPS": warps, "DEEP": rows}
        return Routine([Run(_strips(**names), count // 32, 32 * warps, (given(0), made(0)))])
    pieces = max(1, min(ceil_div(length, 64), ENOUGH_THREADS // max(count, 1)))
    piece = ceil_div(length, pieces)
    pieces = ceil_div(length, piece)
    names |= {"LENGTH": length, "ROWS": count, "PIECE": piece, "PIECES": pieces}
    blocks = ceil_div(count * pieces, 128)
    last = Run(
        _module(stubs.scan_columns, 0, **names), blocks, 128, (given(0), scratch(0), made(0))
    )
    if pieces == 1:
        return Routine([last], (16,))
    first = Run(_module(stubs.sum_columns, 0, **names), blocks, 128, (given(0), scratch(0)))
    return Routine([first, last], (count * pieces * names["WIDTH"],))


for _name in _OPS:
    ROUTINES[_name] = lowering(_name)
