"""The Cholesky factor of one large matrix, in square tiles shared by all threads.

The tiles do not depend on the number of threads. A counter in scratch memory says which column of
tiles is next, so that every step runs the same code.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.factorisations.stack_stubs import (
    COLUMN_MAJOR,
    CONJUGATE_TRANSPOSE,
    LOWER,
    MEMORY,
    NO_TRANSPOSE,
    NON_UNIT,
    RIGHT,
    TABLE,
    TRANSPOSE,
    blas,
    copy_lower,
    fail_lower,
    numbers,
    scalar,
)
from weft.backends.cpu.routines.factorisations.stacks import Stack, bits_of
from weft.kernel.kinds import f32, i32, i64, invoke, ptr, void
from weft.kernel.program import Lowered, Task, Type

MIN_SIDE = 384  # below, one call of LAPACK is as good
# Buffers and numbers of all kernels, and what LAPACK calls the upper triangle.
SOURCE, TARGET, POTRF, TRSM, GEMM, RANK_K = range(2, 8)
WHAT, N, SIDE, ONE = 2, 3, 4, 6
# What a task does.
BEGIN, DIAGONAL, PANEL, UPDATE, END = range(5)
UPPER_LETTER = ord("U")

# Names that stubs are given; here so that they can be written: real numbers, how many of them an
# element is, its bytes, which transpose is meant, and where the table has -1.
F: Any = f32
PARTS = ITEM = TURNED = MINUS_ONE = 0


def cholesky(kind: Type) -> Lowered:
    """The lower factor, or NaN where the matrix is not positive."""
    n, dtype = kind.shape[-1], kind.dtype
    size = 128 if n < 2048 else 256
    count = -(-n // size)
    s = Stack(dtype, 1)
    one = bits_of(1, dtype)
    s.numbers += [BEGIN, n, size, count, *one, *bits_of(-1, dtype)]
    rank_k = "herk" if s.complex else "syrk"
    for place in [("in", 0), ("out", 0), ("library", f"LAPACKE_{s.letter}potrf_work")]:
        s.place(*place)
    for stem in ("trsm", "gemm", rank_k):
        s.place("library", f"cblas_{s.letter}{stem}")
    turned = CONJUGATE_TRANSPOSE if s.complex else TRANSPOSE
    s.names |= {"TURNED": turned, "MINUS_ONE": ONE + len(one)}
    rows = max(1, 65536 // (n * s.size))

    def task(what: int, extent: int = 1, chunk: int = 1) -> Task:
        s.numbers[WHAT] = what
        return s.task(tiles, extent, chunk)

    tasks = [task(BEGIN, n, rows)]
    for rest in range(count - 1, -1, -1):
        tasks.append(task(DIAGONAL))
        if rest:
            tasks += [task(PANEL, rest), task(UPDATE, rest * rest)]
    return Lowered([*tasks, task(END, n, rows)], (64,))


def tiles(buffers: ptr, start: i64, stop: i64) -> void:
    """A part of the work."""
    what = i64[ptr[buffers, TABLE], WHAT]
    if what == BEGIN:
        begin(buffers, start, stop)
    elif what == DIAGONAL:
        diagonal(buffers)
    elif what == PANEL:
        panel(buffers, start, stop)
    elif what == UPDATE:
        update(buffers, start, stop)
    else:
        end(buffers, start, stop)


def tile(buffers: ptr, row: i64, column: i64) -> ptr:
    """Where a tile is."""
    table = ptr[buffers, TABLE]
    place = (row * i64[table, N] + column) * i64[table, SIDE]
    return ptr[buffers, TARGET] + place * ITEM


def height(table: ptr, row: i64) -> i32:
    """The rows of a row of tiles; the last one may have fewer."""
    return i32(min(i64[table, SIDE], i64[table, N] - row * i64[table, SIDE]))


def begin(buffers: ptr, start: i64, stop: i64) -> void:
    """The lower triangle copied, zeros above, the counter at 0."""
    copy_lower(ptr[buffers, SOURCE], ptr[buffers, TARGET], start, stop, i64[ptr[buffers, TABLE], N])
    if start == 0:
        i64[ptr[buffers, MEMORY], 0] = 0
        i64[ptr[buffers, MEMORY], 1] = 0


def diagonal(buffers: ptr) -> void:
    """The factor of the next tile on the diagonal; a failure is noted."""
    table = ptr[buffers, TABLE]
    counter = ptr[buffers, MEMORY]
    k = i64[counter, 0]
    potrf = ptr[buffers, POTRF]
    n = i32(i64[table, N])
    at = tile(buffers, k, k)
    if invoke(i32, potrf, i32(COLUMN_MAJOR), i32(UPPER_LETTER), height(table, k), at, n) != 0:
        i64[counter, 1] = 1
    i64[counter, 0] = k + 1


def panel(buffers: ptr, start: i64, stop: i64) -> void:
    """The tiles below it, solved with it."""
    table = ptr[buffers, TABLE]
    after = i64[ptr[buffers, MEMORY], 0]
    k = after - 1
    n, side = numbers(table, N, 2)
    one = scalar(table, ONE)
    trsm = ptr[buffers, TRSM]
    for i in range(start, stop):
        high = height(table, after + i)
        at = tile(buffers, after + i, k)
        left = tile(buffers, k, k)
        blas(trsm, RIGHT, LOWER, TURNED, NON_UNIT, high, side, one, left, n, at, n)


def update(buffers: ptr, start: i64, stop: i64) -> void:
    """What the panel takes away from the tiles right of it, on and below the diagonal."""
    table = ptr[buffers, TABLE]
    n, side, count = numbers(table, N, 3)
    after = i64[ptr[buffers, MEMORY], 0]
    rest = count - after
    for g in range(start, stop):
        row = after + g // rest
        column = after + g % rest
        left = tile(buffers, row, after - 1)
        right = tile(buffers, column, after - 1)
        at = tile(buffers, row, column)
        high = height(table, row)
        if row == column:
            rank_k = ptr[buffers, RANK_K]
            blas(rank_k, LOWER, NO_TRANSPOSE, high, side, F(-1.0), left, n, F(1.0), at, n)
        elif row > column:
            wide = height(table, column)
            gemm = ptr[buffers, GEMM]
            minus = scalar(table, MINUS_ONE)
            one = scalar(table, ONE)
            blas(gemm, NO_TRANSPOSE, TURNED, high, wide, side, minus, left, n, right, n, one, at, n)


def end(buffers: ptr, start: i64, stop: i64) -> void:
    """NaN on and below the diagonal where a tile failed."""
    if i64[ptr[buffers, MEMORY], 1] != 0:
        fail_lower(ptr[buffers, TARGET], start, stop, i64[ptr[buffers, TABLE], N])
