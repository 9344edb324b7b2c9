"""Products of complex numbers along axes, by code that is the same for all shapes.

Kernels reduce complex numbers by sums alone. Compiled functions multiply neighbours until one is
left, which is another program for each number of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.backends.cpu.code.stub import translate
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.base.functional import lru
from weft.kernel.kinds import f32, i64, kind_of, ptr, void
from weft.kernel.program import Lowered, Place, Task, Type

# Numbers of a row where neighbours are multiplied, and columns of a unit of work; rows of a unit.
COLUMNS, MAX_ROWS, MAX_NEIGHBOUR_ROWS = 64, 4096, 64
# The kind of a number's parts, which the stub is given; here so that it can be written.
F: Any = f32


def multiply_rows(buffers: ptr, start: i64, stop: i64) -> void:
    """Rows of arrays multiplied, number by number, to as many as there are pieces of them.

    Buffers are the arrays, the results and a table: numbers of an array and of a row, of which the
    last may be shorter, rows of a piece, pieces of an array, blocks of columns.
    """
    source = ptr[buffers, 0]
    result = ptr[buffers, 1]
    table = ptr[buffers, 2]
    total = i64[table, 0]
    width = i64[table, 1]
    pieces = i64[table, 3]
    blocks = i64[table, 4]
    for unit in range(start, stop):
        first = unit % blocks * COLUMNS
        last = min(first + COLUMNS, width)
        piece = unit // blocks
        to = piece * width
        end = (piece // pieces + 1) * total
        row = end - total + piece % pieces * i64[table, 2] * width
        if piece % pieces < pieces - 1:
            end = row + i64[table, 2] * width
        for i in range(2 * first, 2 * last):
            F[result, 2 * to + i] = F[source, 2 * row + i]
        at = row + width
        while at < end:
            for i in range(first, min(last, end - at)):
                a = F[result, 2 * (to + i)]
                b = F[result, 2 * (to + i) + 1]
                c = F[source, 2 * (at + i)]
                d = F[source, 2 * (at + i) + 1]
                F[result, 2 * (to + i)] = a * c - b * d
                F[result, 2 * (to + i) + 1] = a * d + b * c
            at = at + width


@lru(2)
def product_text(dtype: np.dtype) -> str:
    """The text of products of numbers of a complex dtype."""
    return translate([multiply_rows], names={"F": kind_of(np.dtype(f"f{dtype.itemsize // 2}"))})


def _along(x: Type, source: Place, target: Place, step: tuple[int, ...]) -> Task:
    """The task of a step: arrays, their numbers, numbers of a row, rows of a piece and pieces."""
    outer, total, width, rows, pieces = step
    blocks = -(-width // COLUMNS)
    extent = outer * pieces * blocks
    places = (source, target, Place("numbers", (total, width, rows, pieces, blocks)))
    each = min(width, COLUMNS) * min(rows, -(-total // width))
    return Task(product_text(x.dtype), "multiply_rows", places, extent, max(1, MAX_ROWS // each))


def _step(outer: int, n: int, inner: int) -> tuple[int, ...]:
    """How rows of arrays are multiplied: as they are, or of neighbours while these are many."""
    width, most = inner, MAX_ROWS
    if inner == 1 and n >= 2 * COLUMNS:
        width, most = COLUMNS, MAX_NEIGHBOUR_ROWS
    return outer, n * inner, width, most, max(1, n * inner // width // most)


def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a product: one group of neighbouring axes after the other, the last first."""
    x = ins[0]
    if x.dtype.kind != "c" or 0 in x.shape:
        return None
    shape, left = list(x.shape), set(params["axes"])
    steps: list[tuple[int, ...]] = []
    while left:
        last = max(left)
        first = last
        while first - 1 in left:
            first -= 1
        left -= set(range(first, last + 1))
        outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
        n = math.prod(shape[first : last + 1])
        shape[first : last + 1] = []
        while n > 1:
            steps.append(_step(outer, n, inner))
            _, _, width, _, pieces = steps[-1]
            n = pieces * width // inner
    steps = steps or [_step(1, 1, math.prod(shape))]
    tasks, scratch, source = [], [], Place("in", 0)
    for i, step in enumerate(steps):
        target = Place("out", 0)
        if i < len(steps) - 1:
            target = Place("scratch", i)
            scratch.append(step[0] * step[2] * step[4] * x.dtype.itemsize)
        tasks.append(_along(x, source, target, step))
        source = target
    return Lowered(tasks, tuple(scratch))


LOWERINGS["reduce_prod"] = lower
