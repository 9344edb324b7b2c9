"""Tridiagonal systems, a thread for each right-hand side, as stubs.

Numbers are lists of parts, as in ``numbers.py``.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.backends.cuda.routines.stubs.numbers import (
    minus,
    negative,
    read,
    real,
    size,
    times,
    write,
)
from weft.kernel.kinds import f32, i64, ptr, stack, static, unrolled, values, void

# Kinds that the stubs are given.
C: Any = f32
UNKNOWN = float("nan")


def divisor(x: values, *, PARTS: static) -> values:
    """What is kept of a pivot to divide by it: the inverse of a complex one, which is scaled so
    that no square overflows."""
    if PARTS == 1:
        return x
    scale = size(x)
    a, b = x[0] / scale, x[1] / scale
    norm = (a * a + b * b) * scale
    return [a / norm, -(b / norm)]


def quotient(x: values, kept: values, *, PARTS: static) -> values:
    return [x[0] / kept[0]] if PARTS == 1 else times(x, kept)


def solve(
    below: ptr,
    middle: ptr,
    above: ptr,
    b: ptr,
    rows: ptr,
    out: ptr,
    *,
    PARTS: static,
    COUNT: static,
    SIZE: static,
    COLUMNS: static,
    THREADS: static,
    GROUP: static,
) -> void:
    """Elimination with swaps of neighbouring rows, as LAPACK's gtsv does it.

    Rows of the triangle that is left have three numbers, which ``rows`` holds side by side for
    all threads. A pivot of 0 makes all NaN. Rows are read ``GROUP`` at a time, before they are
    needed, as nothing else hides the time that memory takes.
    """
    number = block() * THREADS + thread()
    total = i64(COUNT) * COLUMNS
    if number < total:
        matrix = number // COLUMNS
        first = matrix * SIZE
        base = first * COLUMNS + number % COLUMNS
        lows = stack(8 * PARTS * GROUP)
        middles = stack(8 * PARTS * GROUP)
        aboves = stack(8 * PARTS * GROUP)
        others = stack(8 * PARTS * GROUP)
        pivot = read(middle, first)
        right = read(above, first)
        mine = read(b, base)
        singular = C(0.0)
        start = i64(0)
        while start < SIZE - 1:
            for k in unrolled(GROUP):
                row = min(start + k + 1, i64(SIZE - 1))
                write(lows, k, read(below, first + row))
                write(middles, k, read(middle, first + row))
                write(aboves, k, read(above, first + row))
                write(others, k, read(b, base + row * COLUMNS))
            for k in unrolled(GROUP):
                at = start + k
                if at < SIZE - 1:
                    low = read(lows, k)
                    d = read(middles, k)
                    e = read(aboves, k)
                    if at + 2 >= SIZE:
                        e = real(C(0.0))
                    other = read(others, k)
                    spot = at * 3 * total + number
                    if size(pivot) >= size(low):
                        if size(pivot) == 0.0:
                            singular = C(1.0)
                        kept = divisor(pivot)
                        factor = quotient(low, kept)
                        write(rows, spot, kept)
                        write(rows, spot + total, right)
                        write(rows, spot + total * 2, real(C(0.0)))
                        write(out, base + at * COLUMNS, mine)
                        pivot = minus(d, times(factor, right))
                        right = e
                        mine = minus(other, times(factor, mine))
                    else:
                        kept = divisor(low)
                        factor = quotient(pivot, kept)
                        write(rows, spot, kept)
                        write(rows, spot + total, d)
                        write(rows, spot + total * 2, e)
                        write(out, base + at * COLUMNS, other)
                        pivot = minus(right, times(factor, d))
                        right = negative(times(factor, e))
                        mine = minus(mine, times(factor, other))
            start = start + GROUP
        if size(pivot) == 0.0:
            singular = C(1.0)
        one = quotient(mine, divisor(pivot))
        two = real(C(0.0))
        if singular != 0.0:
            one = times(one, real(C(UNKNOWN)))
        write(out, base + i64(SIZE - 1) * COLUMNS, one)
        start = i64(SIZE - 2)
        while start >= 0:
            for k in unrolled(GROUP):
                at = max(start - k, i64(0))
                spot = at * 3 * total + number
                write(middles, k, read(rows, spot))
                write(aboves, k, read(rows, spot + total))
                write(lows, k, read(rows, spot + total * 2))
                write(others, k, read(out, base + at * COLUMNS))
            for k in unrolled(GROUP):
                at = start - k
                if at >= 0:
                    x = minus(read(others, k), times(read(aboves, k), one))
                    x = minus(x, times(read(lows, k), two))
                    two = one
                    one = quotient(x, read(middles, k))
                    write(out, base + at * COLUMNS, one)
            start = start - GROUP
