"""What is done around factorisations, as stubs: copies, tables of addresses, swaps, failures."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.kernel.kinds import f32, i32, i64, ptr, static, void

# Kinds that the stubs are given.
C: Any = f32
UNKNOWN = float("nan")
UPPER, ALL = range(2)


def pick(
    x: ptr,
    info: ptr,
    out: ptr,
    *,
    ROWS: static,
    COLUMNS: static,
    COUNT: static,
    PARTS: static,
    KEEP: static,
    CHECKED: static,
    CONJUGATED: static,
    STRIDE: static,
    ROW_STEP: static,
    COLUMN_STEP: static,
    OUT_STRIDE: static,
) -> void:
    """Matrices by rows, from elements at any steps; zeros beside a triangle, NaN after a failure.

    Matrices begin ``STRIDE`` elements apart in ``x`` and ``OUT_STRIDE`` in ``out``.
    """
    number = block() * 256 + thread()
    if number < i64(COUNT) * ROWS * COLUMNS * PARTS:
        part = number % PARTS
        column = number // PARTS % COLUMNS
        row = number // PARTS // COLUMNS % ROWS
        matrix = number // PARTS // COLUMNS // ROWS
        at = matrix * STRIDE + row * ROW_STEP + column * COLUMN_STEP
        value = C[x, at * PARTS + part]
        if CONJUGATED == 1 and part == 1:
            value = -value
        if KEEP == 0 and column < row:
            value = C(0.0)
        if CHECKED == 1:
            if i32[info, matrix] != 0:
                value = C(UNKNOWN)
        C[out, (matrix * OUT_STRIDE + row * COLUMNS + column) * PARTS + part] = value


def fail(x: ptr, info: ptr, *, COUNT: static, LENGTH: static) -> void:
    """NaN for each of the ``LENGTH`` numbers of a matrix whose factorisation failed."""
    number = block() * 256 + thread()
    if number < i64(COUNT) * LENGTH:
        if i32[info, number // LENGTH] != 0:
            C[x, number] = C(UNKNOWN)


def conjugate(x: ptr, *, LENGTH: static) -> void:
    """Imaginary parts with the other sign, in place."""
    number = block() * 256 + thread()
    if number < i64(LENGTH):
        C[x, number * 2 + 1] = -C[x, number * 2 + 1]


def addresses(x: ptr, out: ptr, *, COUNT: static, BYTES: static) -> void:
    """Where each of some matrices begins, which are ``BYTES`` apart."""
    number = block() * 256 + thread()
    if number < COUNT:
        i64[out, number] = i64(x) + number * BYTES


def pivots_of(
    x: ptr, swaps: ptr, order: ptr, *, ROWS: static, COLUMNS: static, COUNT: static
) -> void:
    """Row swaps from 0 on, and the permutation that they make; a thread for each matrix."""
    number = block() * 256 + thread()
    if number < COUNT:
        for i in range(COLUMNS):
            i32[swaps, number * COLUMNS + i] = i32[x, number * COLUMNS + i] - 1
        permute(swaps + 4 * number * COLUMNS, order + 4 * number * ROWS)


def permutation_of(swaps: ptr, order: ptr, *, ROWS: static, COLUMNS: static, COUNT: static) -> void:
    """The permutation that row swaps make; a thread for each matrix."""
    number = block() * 256 + thread()
    if number < COUNT:
        permute(swaps + 4 * number * COLUMNS, order + 4 * number * ROWS)


def permute(swaps: ptr, order: ptr, *, ROWS: static, COLUMNS: static) -> void:
    for i in range(ROWS):
        i32[order, i] = i32(i)
    for i in range(COLUMNS):
        j = i64(i32[swaps, i])
        one = i32[order, i]
        i32[order, i] = i32[order, j]
        i32[order, j] = one


def unpack_pairs(values: ptr, x: ptr, info: ptr, out: ptr, *, ROWS: static, COUNT: static) -> void:
    """Eigenvectors of real matrices, from columns that hold real and imaginary parts of pairs."""
    number = block() * 256 + thread()
    if number < i64(COUNT) * ROWS * ROWS:
        column = number % ROWS
        row = number // ROWS % ROWS
        matrix = number // ROWS // ROWS
        turn = C[values, (matrix * ROWS + column) * 2 + 1]
        first = column
        if turn < C(0.0):
            first = column - 1
        at = (matrix * ROWS + first) * ROWS + row
        one = C[x, at]
        two = C(0.0)
        if turn > C(0.0):
            two = C[x, at + ROWS]
        if turn < C(0.0):
            two = -C[x, at + ROWS]
        if i32[info, matrix] != 0:
            one = C(UNKNOWN)
            two = C(UNKNOWN)
        C[out, number * 2] = one
        C[out, number * 2 + 1] = two
