"""Kernels over the matrices of a stack, around routines of LAPACK, and functions that they call.

They take less time than those, and so care is taken of few. Buffers are memory, a table of
numbers, and what lowerings add.
"""

from __future__ import annotations

import math
from typing import Any

from weft.backends.cpu.routines.products.blas_stubs import blas, numbers, scalar
from weft.kernel.kinds import (
    f32,
    i32,
    i64,
    invoke,
    memcpy,
    memset,
    ptr,
    select,
    static,
    truth,
    values,
    void,
)

COLUMN_MAJOR = 102
# Buffers that all kernels have, and the numbers that come first: of matrices in a piece of work,
# and of the bytes of its memory.
MEMORY, TABLE = range(2)
CHUNK, BYTES = range(2)
# Steps.
TURN, COPY, CLEAR, CHECK, CALL, FAIL, FROM_ZERO, PERMUTE, KEEP_UPPER = range(9)
COPY_LOWER, FAIL_LOWER, JOIN_PARTS, JOIN_VECTORS = range(9, 13)

# Kinds and static parameters of the stubs: real numbers, how many of them an
# element is, its bytes, and the buffer of the function that transposes.
F: Any = f32
# ARRAYS of a matrix: the buffer of each, where the table has its bytes or, in memory, its place,
# and bytes of it that are skipped. CALLS: the buffer of a function, and of each argument whether it
# is an array, and its number among these or in the table. STEPS, with the same of what they take.
NAN = math.nan


def addresses(buffers: ptr, table: ptr, memory: ptr, g: i64, *, ARRAYS: static) -> values:
    """Where the arrays of a matrix are, in memory or in operands and results."""
    found = []
    for buffer, word, skipped in ARRAYS:
        if buffer == MEMORY:
            found.append(memory + i64[table, word])
        else:
            found.append(ptr[buffers, buffer] + g * i64[table, word] + skipped)
    return found


def arguments(number: int, table: ptr, at: values, *, CALLS: static) -> values:
    """What a call is given; of numbers the lower half."""
    given = CALLS[number][1]
    return [at[k] if is_array else i32[table, 2 * k] for is_array, k in given]


def call(number: int, buffers: ptr, table: ptr, at: values, *, CALLS: static) -> values:
    """Call a routine of LAPACK; its ``info``."""
    routine = ptr[buffers, CALLS[number][0]]
    return invoke(i32, routine, i32(COLUMN_MAJOR), *arguments(number, table, at))


def operands(words: Any, table: ptr, at: values) -> values:
    """The arrays and numbers of a step."""
    return [at[k] if is_array else i64[table, k] for is_array, k in words]


def turn(
    buffers: ptr,
    at: ptr,
    step: i64,
    to: ptr,
    rows: i64,
    columns: i64,
    *,
    ITEM: static,
    TURN_CODE: static,
) -> values:
    """A matrix transposed, the rows of which are so many elements apart."""
    code = ptr[buffers, TURN_CODE]
    invoke(void, code, at, step * ITEM, to, rows * ITEM, rows, columns)


def turns(first: int, last: int, buffers: ptr, table: ptr, at: values, *, STEPS: static) -> values:
    """Some of the steps that transpose."""
    for _, *words in STEPS[first:last]:
        turn(buffers, *operands(words, table, at))


def steps(buffers: ptr, start: i64, stop: i64) -> void:
    """Steps that are given, for each matrix of a stack."""
    table = ptr[buffers, TABLE]
    memory = ptr[buffers, MEMORY] + start // i64[table, CHUNK] * i64[table, BYTES]
    for g in range(start, stop):
        matrix_steps(buffers, table, memory, g)


def matrix_steps(buffers: ptr, table: ptr, memory: ptr, g: i64, *, STEPS: static) -> values:
    """The steps for one of them."""
    at = addresses(buffers, table, memory, g)
    failed = truth(0)
    functions = {COPY: memcpy, FROM_ZERO: from_zero, PERMUTE: permute, KEEP_UPPER: keep_upper}
    functions |= {COPY_LOWER: copy_lower, JOIN_PARTS: join_parts, JOIN_VECTORS: join_vectors}
    for what, *words in STEPS:
        if what == CALL:
            info = call(*words, buffers, table, at)
            failed = select(failed, failed, info != 0)
            continue
        given = operands(words, table, at)
        if what == TURN:
            turn(buffers, *given)
        elif what == CLEAR:
            memset(given[0] + given[1], 0, given[2])
        elif what == CHECK:
            failed = is_bad(*given)
        elif what in (FAIL, FAIL_LOWER):
            (fail if what == FAIL else fail_lower)(failed, *given)
        else:
            functions[what](*given)


# --- triangular matrices --------------------------------------------------------------------------

# Right-hand sides that are solved for at a time, at most. Their pieces are a power of two, of the
# same size, so that threads finish together.
TILE = 96
# Where the table has sizes and tiles of a matrix, codes, and 1.
SIZES, CODES, ONE = 2, 6, 10
# Whether the matrix is on the left, and whether it is conjugated.


def triangular_solve(
    buffers: ptr, start: i64, stop: i64, *, ITEM: static, ON_LEFT: static, CONJUGATED: static
) -> void:
    """Solutions for triangular matrices, some right-hand sides at a time. Buffers are these, the
    right-hand sides, the solutions, and the function."""
    table = ptr[buffers, TABLE]
    n, rows, columns, tiles = numbers(table, SIZES, 4)
    for g in range(start, stop):
        which = g // tiles
        sides = columns if ON_LEFT else rows
        first = sides * (g % tiles) // tiles
        count = sides * (g % tiles + 1) // tiles - first
        high = rows if ON_LEFT else count
        wide = count if ON_LEFT else columns
        offset = (which * rows * columns + first * (1 if ON_LEFT else columns)) * ITEM
        at = ptr[buffers, 3] + offset
        to = ptr[buffers, 4] + offset
        if wide == columns:
            memcpy(to, at, high * columns * ITEM)
        else:
            for row in range(high):
                memcpy(to + row * columns * ITEM, at + row * columns * ITEM, wide * ITEM)
        if CONJUGATED:  # the conjugates of a solution of A X = conj(B)
            conjugate(to, columns, high, wide)
        where, triangle, turned, diagonal = numbers(table, CODES, 4)
        matrix = ptr[buffers, 2] + which * n * n * ITEM
        one = scalar(table, ONE)
        trsm = ptr[buffers, 5]
        blas(trsm, where, triangle, turned, diagonal, high, wide, one, matrix, n, to, columns)
        if CONJUGATED:
            conjugate(to, columns, high, wide)


# --- parts of matrices ----------------------------------------------------------------------------


def copy_lower(at: ptr, to: ptr, first: i64, last: i64, n: i64, *, ITEM: static) -> void:
    """Some rows of a square matrix as far as the diagonal, and zeros."""
    for row in range(first, last):
        kept = (row + 1) * ITEM
        memcpy(to + row * n * ITEM, at + row * n * ITEM, kept)
        memset(to + row * n * ITEM + kept, 0, n * ITEM - kept)


def fail_lower(
    failed: truth, at: ptr, first: i64, last: i64, n: i64, *, PARTS: static, ITEM: static
) -> void:
    """NaN in the same place after a failure."""
    if failed:
        for row in range(first, last):
            fill_nan(at + row * n * ITEM, (row + 1) * PARTS)


def fail(failed: truth, at: ptr, count: i64) -> void:
    """NaN in every number after a failure."""
    if failed:
        fill_nan(at, count)


def keep_upper(at: ptr, m: i64, n: i64, *, ITEM: static) -> void:
    """Zeros below the diagonal of an m by n matrix of rows."""
    for row in range(1, m):
        memset(at + row * n * ITEM, 0, min(row, n) * ITEM)


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


def is_bad(at: ptr, count: i64, size: i64) -> truth:
    """Whether not all numbers are finite; then they become zeros."""
    bad = not is_finite(at, count)
    if bad:
        memset(at, 0, size)
    return bad


def conjugate(at: ptr, step: i64, rows: i64, columns: i64, *, ITEM: static) -> void:
    """Turn the signs of imaginary parts of a matrix with rows ``step`` apart."""
    for r in range(rows):
        line = at + r * step * ITEM
        for c in range(columns):
            F[line, 2 * c + 1] = -F[line, 2 * c + 1]


def from_zero(at: ptr, count: i64) -> void:
    """Numbers counted from 0 that LAPACK counts from 1."""
    for i in range(count):
        i32[at, i] -= 1


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


# What goes over all elements, or is called where LAPACK takes little time.
CAREFUL = (is_finite, conjugate, from_zero, permute)
CAREFUL += (is_real, narrow, widen, join_parts, join_vectors)
