"""The Cholesky factor of one large matrix, in square tiles shared by all threads.

The tiles do not depend on the number of threads. A counter in scratch memory says which column of
tiles is next, so that every step runs the same code.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.factorisations.stack_stubs import (
    COLUMN_MAJOR,
    MEMORY,
    TABLE,
    copy_lower,
    fail_lower,
)
from weft.backends.cpu.routines.factorisations.stacks import Stack
from weft.backends.cpu.routines.products.blas_stubs import (
    CONJUGATE_TRANSPOSE,
    LOWER,
    NO_TRANSPOSE,
    NON_UNIT,
    RIGHT,
    TRANSPOSE,
    bits_of,
    blas,
    numbers,
    scalar,
)
from weft.backends.llvm.tasks import Lowered
from weft.kernel.kinds import f32, i32, i64, invoke, memset, ptr, select, static, values, void
from weft.kernel.program import Type

MIN_SIDE = 384  # below, one call of LAPACK is as good
# Buffers and numbers of all kernels, and what LAPACK calls the upper triangle.
SOURCE, TARGET, POTRF, TRSM, GEMM, RANK_K = range(2, 8)
N, COUNT, ONE = 2, 4, 5
UPPER_LETTER = ord("U")

# Kinds and static parameters of the stubs: real numbers, how many of them an
# element is, its bytes, which transpose is meant, and where the table has -1.
F: Any = f32


def cholesky(kind: Type) -> Lowered:
    """The lower factor, or NaN where the matrix is not positive."""
    n, dtype = kind.shape[-1], kind.dtype
    size = 128 if n < 2048 else 256
    count = -(-n // size)
    s = Stack(dtype, 1)
    one = bits_of(1, dtype)
    s.numbers += [n, size, count, *one, *bits_of(-1, dtype)]
    rank_k = "herk" if s.complex else "syrk"
    for place in [("in", 0), ("out", 0), ("library", f"LAPACKE_{s.letter}potrf_work")]:
        s.place(*place)
    for stem in ("trsm", "gemm", rank_k):
        s.place("library", f"cblas_{s.letter}{stem}")
    turned = CONJUGATE_TRANSPOSE if s.complex else TRANSPOSE
    s.names |= {"TURNED": turned, "MINUS_ONE": ONE + len(one)}
    rows = max(1, 65536 // (n * s.size))
    # the longest text first, and others while LLVM has it
    right, below, beside = (s.task(main, 1, 1) for main in (update, diagonal, panel))
    tasks = [s.task(begin, n, rows)]
    for rest in range(count - 1, -1, -1):
        tasks.append(below)
        if rest:
            tasks += [beside._replace(extent=rest), right._replace(extent=rest * rest)]
    return Lowered([*tasks, s.task(end, n, rows)], (64,))


# --- tiles ----------------------------------------------------------------------------------------


def tile(buffers: ptr, row: i64, column: i64, *, ITEM: static) -> values:
    """Where a tile is."""
    n, side = numbers(ptr[buffers, TABLE], N, 2)
    return ptr[buffers, TARGET] + (row * n + column) * side * ITEM


def height(buffers: ptr, row: i64) -> values:
    """The rows of a row of tiles; the last one may have fewer."""
    n, side = numbers(ptr[buffers, TABLE], N, 2)
    rest = n - row * side
    return select(rest > side, side, rest)


def factor(buffers: ptr, k: i64) -> values:
    """Have LAPACK factor a tile on the diagonal; its ``info``."""
    codes = i32(COLUMN_MAJOR), i32(UPPER_LETTER), i32(height(buffers, k))
    n = i32(i64[ptr[buffers, TABLE], N])
    return invoke(i32, ptr[buffers, POTRF], *codes, tile(buffers, k, k), n)


def solve(buffers: ptr, row: i64, k: i64, *, TURNED: static) -> values:
    """A tile below it, solved with it."""
    table = ptr[buffers, TABLE]
    n, side = numbers(table, N, 2)
    given = (height(buffers, row), side, scalar(table, ONE), tile(buffers, k, k), n)
    codes = (RIGHT, LOWER, TURNED, NON_UNIT)
    blas(ptr[buffers, TRSM], *codes, *given, tile(buffers, row, k), n)


def square(buffers: ptr, row: i64, k: i64) -> values:
    """What a tile of the panel takes away from the one on the diagonal."""
    n, side = numbers(ptr[buffers, TABLE], N, 2)
    head = (LOWER, NO_TRANSPOSE, height(buffers, row), side, F(-1.0))
    blas(ptr[buffers, RANK_K], *head, tile(buffers, row, k), n, F(1.0), tile(buffers, row, row), n)


def multiply(
    buffers: ptr, row: i64, column: i64, k: i64, *, TURNED: static, MINUS_ONE: static
) -> values:
    """What two tiles of the panel take away from another."""
    table = ptr[buffers, TABLE]
    n, side = numbers(table, N, 2)
    sizes = (height(buffers, row), height(buffers, column), side)
    factors = (tile(buffers, row, k), n, tile(buffers, column, k), n)
    given = (*sizes, scalar(table, MINUS_ONE), *factors, scalar(table, ONE))
    blas(ptr[buffers, GEMM], NO_TRANSPOSE, TURNED, *given, tile(buffers, row, column), n)


# --- kernels --------------------------------------------------------------------------------------


def begin(buffers: ptr, start: i64, stop: i64) -> void:
    """The lower triangle copied, zeros above, the counter at 0."""
    copy_lower(ptr[buffers, SOURCE], ptr[buffers, TARGET], start, stop, i64[ptr[buffers, TABLE], N])
    if start == 0:
        memset(ptr[buffers, MEMORY], 0, 16)


def diagonal(buffers: ptr, start: i64, stop: i64) -> void:
    """The factor of the next tile on the diagonal; a failure is noted."""
    counter = ptr[buffers, MEMORY]
    if factor(buffers, i64[counter, 0]) != 0:
        i64[counter, 1] = 1
    i64[counter, 0] += 1


def panel(buffers: ptr, start: i64, stop: i64) -> void:
    """The tiles below it, solved with it."""
    after = i64[ptr[buffers, MEMORY], 0]
    for i in range(start, stop):
        solve(buffers, after + i, after - 1)


def update(buffers: ptr, start: i64, stop: i64) -> void:
    """What the panel takes away from the tiles right of it, on and below the diagonal."""
    after = i64[ptr[buffers, MEMORY], 0]
    rest = i64[ptr[buffers, TABLE], COUNT] - after
    for g in range(start, stop):
        row = after + g // rest
        column = after + g % rest
        if row == column:
            square(buffers, row, after - 1)
        elif row > column:
            multiply(buffers, row, column, after - 1)


def end(buffers: ptr, start: i64, stop: i64) -> void:
    """NaN on and below the diagonal where a tile failed."""
    failed = i64[ptr[buffers, MEMORY], 1] != 0
    fail_lower(failed, ptr[buffers, TARGET], start, stop, i64[ptr[buffers, TABLE], N])
