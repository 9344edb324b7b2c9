"""Functions that kernels over matrices call between routines of LAPACK.

They take less time than those, and so no care is taken of them.
"""

from __future__ import annotations

import math
from typing import Any

from weft.kernel.kinds import f32, i32, i64, ptr, truth, void

# Names that stubs are given; here so that they can be written: real numbers.
F: Any = f32
NAN = math.nan


def fill_nan(at: ptr, count: i64) -> void:
    """NaN in every number."""
    for i in range(count):
        F[at, i] = NAN


def is_finite(at: ptr, count: i64) -> truth:
    """Whether all numbers are finite; x - x is 0 or NaN."""
    rest = F(0.0)
    for i in range(count):
        rest += F[at, i] - F[at, i]
    return rest == 0.0


def conjugate(at: ptr, step: i64, rows: i64, columns: i64) -> void:
    """Turn the signs of imaginary parts of a matrix with rows ``step`` apart."""
    for r in range(rows):
        for c in range(columns):
            F[at, 2 * (r * step + c) + 1] = -F[at, 2 * (r * step + c) + 1]


def permute(pivots: ptr, order: ptr, count: i64, size: i64) -> void:
    """The order of rows that a sequence of swaps makes."""
    for i in range(size):
        i32[order, i] = i32(i)
    for i in range(count):
        held = i32[order, i]
        i32[order, i] = i32[order, i64(i32[pivots, i])]
        i32[order, i64(i32[pivots, i])] = held


# --- complex numbers and real ones ----------------------------------------------------------------


def is_real(at: ptr, count: i64) -> truth:
    """Whether no number has an imaginary part."""
    for i in range(count):
        if F[at, 2 * i + 1] != 0.0:
            return False
    return True


def narrow(at: ptr, count: i64) -> void:
    """The real parts of numbers, where the first half of these is."""
    for i in range(count):
        F[at, i] = F[at, 2 * i]


def widen(at: ptr, count: i64) -> void:
    """The opposite."""
    for i in range(count - 1, -1, -1):
        F[at, 2 * i] = F[at, i]
        F[at, 2 * i + 1] = 0.0


def join_parts(real: ptr, imaginary: ptr, to: ptr, count: i64) -> void:
    """Complex numbers of two arrays."""
    for i in range(count):
        F[to, 2 * i] = F[real, i]
        F[to, 2 * i + 1] = F[imaginary, i]


def join_vectors(imaginary: ptr, columns: ptr, to: ptr, n: i64) -> void:
    """Complex eigenvectors of real ones, whose pairs share their two parts, row after row."""
    for j in range(n):
        sign = F[imaginary, j]
        first = j - i64(sign < 0.0)
        second = j + i64(sign > 0.0)
        for i in range(n):
            part = F[columns, second * n + i]
            part = -part if sign < 0.0 else part
            F[to, 2 * (i * n + j)] = F[columns, first * n + i]
            F[to, 2 * (i * n + j) + 1] = part if (sign < 0.0) | (sign > 0.0) else 0.0


def divide(at: ptr, count: i64, scale: ptr) -> void:
    """Numbers divided by one, unless that is 1."""
    if F[scale, 0] != 1.0:
        for i in range(count):
            F[at, i] = F[at, i] / F[scale, 0]
