"""Products of integers and other types that no library multiplies, as stubs."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.kernel.kinds import i32, i64, ptr, static, void

# Kinds that the stubs are given.
A: Any = i32  # elements of the operands, and of the result
B: Any = i32
R: Any = i32


def multiply(
    left: ptr,
    right: ptr,
    out: ptr,
    *,
    ROWS: static,
    COLUMNS: static,
    DEPTH: static,
    BATCH: static,
    LEFT_TRANSPOSED: static,
    RIGHT_TRANSPOSED: static,
    LOGICAL: static,
) -> void:
    """A thread for each element of the result."""
    number = block() * 256 + thread()
    if number < i64(BATCH) * ROWS * COLUMNS:
        j = number % COLUMNS
        i = number // COLUMNS % ROWS
        n = number // COLUMNS // ROWS
        first = n * (i64(ROWS) * DEPTH) + (i if LEFT_TRANSPOSED == 1 else i * DEPTH)
        second = n * (i64(COLUMNS) * DEPTH) + (j * DEPTH if RIGHT_TRANSPOSED == 1 else j)
        one = i64(ROWS) if LEFT_TRANSPOSED == 1 else i64(1)
        two = i64(1) if RIGHT_TRANSPOSED == 1 else i64(COLUMNS)
        total = R(0)
        for k in range(DEPTH):
            x = R(A[left, first + k * one])
            y = R(B[right, second + k * two])
            if LOGICAL == 1:
                total = total | (x & y)
            else:
                total = total + x * y
        R[out, number] = total
