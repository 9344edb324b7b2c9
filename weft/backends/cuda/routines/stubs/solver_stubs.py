"""What is left to do after a factorisation, as stubs: triangles, row swaps and failures."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.kernel.kinds import f32, i32, i64, ptr, void

# Names that stubs are given; here so that they can be written.
C: Any = f32
ROWS = COLUMNS = COUNT = PARTS = KEEP = LEADING = CHECKED = HEIGHT = 0
UNKNOWN = float("nan")
LOWER, UPPER, ALL = range(3)


def triangle(x: ptr, info: ptr, out: ptr) -> void:
    """A triangle of each matrix, zeros elsewhere; NaN where the factorisation failed.

    Rows of ``x`` are ``LEADING`` elements long and there are as many as in ``out``, or more.
    """
    number = block() * 256 + thread()
    if number < i64(COUNT) * ROWS * COLUMNS * PARTS:
        part = number % PARTS
        column = number // PARTS % COLUMNS
        row = number // PARTS // COLUMNS % ROWS
        matrix = number // PARTS // COLUMNS // ROWS
        value = C[x, ((matrix * HEIGHT + row) * LEADING + column) * PARTS + part]
        if KEEP == 0 and column > row:
            value = C(0.0)
        if KEEP == 1 and column < row:
            value = C(0.0)
        if CHECKED == 1:
            if i32[info, matrix] != 0 and (KEEP != 0 or column <= row):
                value = C(UNKNOWN)
        C[out, number] = value


def pivots_of(x: ptr, swaps: ptr, order: ptr) -> void:
    """Row swaps from 0 on, and the permutation that they make; a thread for each matrix."""
    number = block() * 256 + thread()
    if number < COUNT:
        for i in range(ROWS):
            i32[order, number * ROWS + i] = i32(i)
        for i in range(COLUMNS):
            j = i32[x, number * COLUMNS + i] - 1
            i32[swaps, number * COLUMNS + i] = j
            one = i32[order, number * ROWS + i]
            i32[order, number * ROWS + i] = i32[order, number * ROWS + i64(j)]
            i32[order, number * ROWS + i64(j)] = one
