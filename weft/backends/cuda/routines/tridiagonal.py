"""Tridiagonal systems: a thread for each right-hand side, or cuSPARSE for a few long ones."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

from weft.backends.cuda import libraries
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Fill,
    Move,
    Routine,
    Run,
    ceil_div,
    given,
    made,
    module_of,
)
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.solver import LETTERS, PTR, calls, handle, letter_of, parts_of
from weft.backends.cuda.routines.sort import Scratch
from weft.backends.cuda.routines.stubs import tridiagonal_stubs as stubs
from weft.kernel.program import Type

# Systems that the library solves one by one, and how long they are at least.
FEW_SYSTEMS, LONG_SYSTEM = 8, 512
THREADS = 32
# Rows that a thread reads at a time.
GROUP = 8


def _solve(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    b = ins[3]
    count, (n, k) = prod(b.shape[:-2]), b.shape[-2:]
    if letter_of(b, "cusparse") and n >= LONG_SYSTEM and count <= FEW_SYSTEMS:
        return _by_library(b, count, n, k)
    if b.dtype.name not in LETTERS:
        return None
    parts, kind = parts_of(b.dtype)
    room = Scratch()
    rows = room.new(3 * prod(b.shape) * b.dtype.itemsize)
    names = {"COUNT": count, "SIZE": n, "COLUMNS": k, "THREADS": THREADS, "GROUP": GROUP}
    code = module_of(stubs.solve, C=kind, PARTS=parts, **names)
    places = (*map(given, range(4)), rows, made(0))
    run = Run(code, ceil_div(count * k, THREADS), THREADS, places)
    return Routine([run], tuple(room.sizes))


def _by_library(b: Type, count: int, n: int, k: int) -> Routine:
    letter, size = letter_of(b, "cusparse"), b.dtype.itemsize
    name = f"cusparse{letter}gtsv2"
    library, own = handle("cusparse")
    length = ctypes.c_size_t()
    none = (PTR(),) * 4
    ask = getattr(library, f"{name}_bufferSizeExt")
    libraries.check(ask(own, n, k, *none, n, ctypes.byref(length)), name)
    room = Scratch()
    total = prod(b.shape) * size
    work = room.new(max(length.value, 1))
    target = made(0) if k == 1 else room.new(total)
    steps: list[Any] = []
    if k == 1:
        steps.append(Move(target, given(3), total))
    else:
        steps.append((permute((count, n, k), (0, 2, 1), size), (given(3), target)))

    # what isn't read has to be 0
    diagonals = [room.new(count * n * size) for _ in range(2)]
    for source, copy, unread in ((0, diagonals[0], 0), (2, diagonals[1], n - 1)):
        steps.append(Move(copy, given(source), count * n * size))
        for i in range(count):
            steps.append(Fill(copy._replace(offset=(i * n + unread) * size), 0, size))

    def one(i: int, below: int, middle: int, above: int, x: int, w: int) -> tuple[Any, ...]:
        rows = (PTR(p + i * n * size) for p in (below, middle, above))
        return n, k, *rows, PTR(x + i * n * k * size), n, PTR(w)

    places = (diagonals[0], given(1), diagonals[1], target, work)
    steps.append(calls("cusparse", name, places, one, count))
    if k > 1:
        steps.append((permute((count, k, n), (0, 2, 1), size), (target, made(0))))
    return Routine(steps, tuple(room.sizes))


ROUTINES["tridiagonal_solve"] = _solve
