"""Factors of a few elements as straight code: every place in memory is a constant."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from weft.kernel.kinds import f32, fabs, fma, i32, i64, ptr, root, select, static, values, void

# Kinds and static parameters of the stubs: the operation, numbers, how many
# matrices there are and their sizes.
F: Any = f32
# SIDES to UNIT: how triangular matrices are solved with.


def tiny(buffers: ptr, start: i64, stop: i64, *, OPERATION: static) -> void:
    """An operation on all matrices of a stack: buffers of operands, then of results."""
    OPERATION(buffers)


def cholesky(buffers: ptr, *, COUNT: static, N: static) -> values:
    """Lower factors; a pivot that is not positive makes all of its matrix NaN."""
    source, target = ptr[buffers, 0], ptr[buffers, 1]
    zero, one, nan = F(0.0), F(1.0), F(math.nan)
    for base in range(0, COUNT * N * N, N * N):
        a = {(i, j): F[source, base + i * N + j] for i in range(N) for j in range(i + 1)}
        fault = zero
        for k in range(N):
            fault = select(a[k, k] > zero, fault, nan)
            a[k, k] = root(a[k, k])
            inverse = one / a[k, k]
            for i in range(k + 1, N):
                a[i, k] *= inverse
                factor = -a[i, k]
                for j in range(k + 1, i + 1):
                    a[i, j] = fma(factor, a[j, k], a[i, j])
        for i, j in product(range(N), range(N)):
            F[target, base + i * N + j] = a[i, j] + fault if j <= i else zero


def lu(buffers: ptr, *, COUNT: static, M: static, N: static, LEAST: static) -> values:
    """Packed factors, the row swaps and the permutation."""
    source, target, pivots, order = [ptr[buffers, i] for i in range(4)]
    for g in range(COUNT):
        a = [[F[source, (g * M + i) * N + j] for j in range(N)] for i in range(M)]
        for i in range(M):
            a[i].append(i32(i))  # its position comes along
        for k in range(LEAST):
            chosen, best = i32(k), fabs(a[k][k])
            for i in range(k + 1, M):
                size = fabs(a[i][k])
                larger = size > best
                chosen, best = select(larger, i, chosen), select(larger, size, best)
            i32[pivots, g * LEAST + k] = chosen
            swap_rows(a, k, chosen)
            inverse = F(1.0) / select(a[k][k] != 0.0, a[k][k], 1.0)
            for i in range(k + 1, M):
                a[i][k] *= inverse
                factor = -a[i][k]
                for j in range(k + 1, N):
                    a[i][j] = fma(factor, a[k][j], a[i][j])
        for i in range(M):
            i32[order, g * M + i] = a[i].pop()
            for j in range(N):
                F[target, (g * M + i) * N + j] = a[i][j]


def swap_rows(rows: values, k: int, chosen: i32) -> values:
    """Row k and a chosen one that is not before it change places, by choices."""
    for i in range(k + 1, len(rows)):
        here = chosen == i
        for j, (x, y) in enumerate(zip(rows[k], rows[i], strict=True)):
            rows[k][j], rows[i][j] = select(here, y, x), select(here, x, y)


def lu_pivots_to_permutation(buffers: ptr, *, COUNT: static, M: static, LEAST: static) -> values:
    """The order of rows that swaps make."""
    pivots, order = ptr[buffers, 0], ptr[buffers, 1]
    for g in range(COUNT):
        rows = [[i32(i)] for i in range(M)]
        for k in range(LEAST):
            swap_rows(rows, k, i32[pivots, g * LEAST + k])
        for i in range(M):
            i32[order, g * M + i] = rows[i][0]


def triangular_solve(
    buffers: ptr,
    *,
    COUNT: static,
    M: static,
    N: static,
    K: static,
    SIDES: static,
    ROW_STEP: static,
    COLUMN_STEP: static,
    B_STEP: static,
    SIDE_STEP: static,
    FORWARD: static,
    UNIT: static,
) -> values:
    """Solutions by substitution."""
    source, sides, target = [ptr[buffers, i] for i in range(3)]
    columns = [(j, range(j + 1, N) if FORWARD else range(j)) for j in range(N)]
    for g in range(COUNT):
        base = g * N * N
        factors = {
            (i, j): -F[source, base + i * ROW_STEP + j * COLUMN_STEP]
            for j, rows in columns
            for i in rows
        }
        if not UNIT:
            inverse = [F(1.0) / F[source, base + j * (N + 1)] for j in range(N)]
        for c in range(SIDES):
            at = [g * M * K + i * B_STEP + c * SIDE_STEP for i in range(N)]
            b = [F[sides, place] for place in at]
            for j, rows in columns if FORWARD else reversed(columns):
                if not UNIT:
                    b[j] *= inverse[j]
                for i in rows:
                    b[i] = fma(factors[i, j], b[j], b[i])
            for place, value in zip(at, b, strict=True):
                F[target, place] = value
