"""Native functions of elimination on stacks of small real matrices, one matrix a lane.

In memory on the stack each element of a matrix is a vector, that of all lanes.
"""

from __future__ import annotations

import math
from typing import Any

from weft.backends.cpu.routines.factorisations.stack_stubs import permute
from weft.backends.cpu.routines.square_stubs import squares
from weft.kernel.kinds import (
    bits,
    copysign,
    f32,
    fabs,
    fma,
    i32,
    i64,
    ptr,
    root,
    stack,
    static,
    u32,
    void,
)

# Kinds and static parameters of the stubs: numbers, vectors of them and of
# integers, then how many lanes there are, the bytes of a number and of a vector.
F: Any = f32
V: Any = f32
BITS: Any = u32
I: Any = i32
# LIMIT, M, N, K: the last matrix a group begins with, and the sizes of matrices. SIDES to UNIT:
# how triangular matrices are solved with. ONE_BITS, TOP_BITS: the bits of 1 in the exponent of a
# number, and of an infinite number.
NAN = math.nan


def first_of(g: i64, *, LANES: static, LIMIT: static) -> i64:
    """The first matrix of a group; the last group overlaps the one before."""
    return min(g * LANES, LIMIT)


def load(
    source: ptr, g: i64, size: i64, to: ptr, *, LANES: static, ITEM: static, BYTES: static
) -> void:
    """The arrays of ``size`` numbers of all lanes."""
    at = source + first_of(g) * size * ITEM
    if size < LANES:
        for lane in range(LANES):
            for i in range(size):
                F[to, i * LANES + lane] = F[at, lane * size + i]
    else:
        for i in range(0, size, LANES):
            column = min(i, size - LANES)
            squares(at + column * ITEM, size * ITEM, to + column * BYTES, BYTES, 1, 0, 0)


def store(
    at: ptr, size: i64, target: ptr, g: i64, *, LANES: static, ITEM: static, BYTES: static
) -> void:
    """The opposite of ``load``."""
    to = target + first_of(g) * size * ITEM
    if size < LANES:
        for lane in range(LANES):
            for i in range(size):
                F[to, lane * size + i] = F[at, i * LANES + lane]
    else:
        for i in range(0, size, LANES):
            column = min(i, size - LANES)
            squares(at + column * BYTES, BYTES, to + column * ITEM, size * ITEM, 1, 0, 0)


def cholesky(buffers: ptr, start: i64, stop: i64, *, BYTES: static, N: static) -> void:
    """Lower factors; a pivot that is not positive makes all of its matrix NaN."""
    a = stack(N * N * BYTES)
    for g in range(start, stop):
        load(ptr[buffers, 0], g, N * N, a)
        fault = V(0.0)
        for k in range(N):
            pivot = V[a, k * (N + 1)]
            fault = fault if pivot > 0.0 else NAN
            V[a, k * (N + 1)] = root(pivot)
            inverse = 1.0 / root(pivot)
            for i in range(k + 1, N):
                V[a, i * N + k] *= inverse
            for j in range(k + 1, N):
                factor = V[a, j * N + k]
                for i in range(j, N):
                    V[a, i * N + j] = fma(-V[a, i * N + k], factor, V[a, i * N + j])
        for i in range(N):
            for j in range(i + 1):
                V[a, i * N + j] += fault
            for j in range(i + 1, N):
                V[a, i * N + j] = 0.0
        store(a, N * N, ptr[buffers, 1], g)


def lu(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    LANES: static,
    BYTES: static,
    M: static,
    N: static,
    LEAST: static,
) -> void:
    """Packed factors, the row swaps and the permutation, by elimination with row swaps."""
    a = stack(M * N * BYTES)
    rows = stack(LANES * 4)
    for g in range(start, stop):
        load(ptr[buffers, 0], g, M * N, a)
        pivots = ptr[buffers, 2] + first_of(g) * LEAST * 4
        for k in range(LEAST):
            chosen = I(k)
            best = fabs(V[a, k * (N + 1)])
            for i in range(k + 1, M):
                size = fabs(V[a, i * N + k])
                chosen = I(i) if size > best else chosen
                best = size if size > best else best
            I[rows, 0] = chosen
            for lane in range(LANES):
                i32[pivots, lane * LEAST + k] = i32[rows, lane]
                swap_rows(a, k, i64(i32[rows, lane]), lane)
            pivot = V[a, k * (N + 1)]
            inverse = 1.0 / (pivot if pivot != 0.0 else 1.0)
            for i in range(k + 1, M):
                factor = V[a, i * N + k] * inverse
                V[a, i * N + k] = factor
                for j in range(k + 1, N):
                    V[a, i * N + j] = fma(-V[a, k * N + j], factor, V[a, i * N + j])
        store(a, M * N, ptr[buffers, 1], g)
        order = ptr[buffers, 3] + first_of(g) * M * 4
        for lane in range(LANES):
            permute(pivots + lane * LEAST * 4, order + lane * M * 4, LEAST, M)


def swap_rows(a: ptr, k: i64, row: i64, lane: i64, *, LANES: static, N: static) -> void:
    """Two rows of one lane's matrix change places."""
    if row != k:
        for j in range(N):
            held = F[a, (k * N + j) * LANES + lane]
            F[a, (k * N + j) * LANES + lane] = F[a, (row * N + j) * LANES + lane]
            F[a, (row * N + j) * LANES + lane] = held


def triangular_solve(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    BYTES: static,
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
) -> void:
    """Solutions by substitution."""
    a = stack(N * N * BYTES)
    b = stack(M * K * BYTES)
    for g in range(start, stop):
        load(ptr[buffers, 0], g, N * N, a)
        load(ptr[buffers, 1], g, M * K, b)
        for t in range(N):
            j = t if FORWARD else N - 1 - t
            inverse = V(1.0) if UNIT else 1.0 / V[a, j * (N + 1)]
            for c in range(SIDES):
                x = V[b, j * B_STEP + c * SIDE_STEP]
                if not UNIT:
                    x *= inverse
                    V[b, j * B_STEP + c * SIDE_STEP] = x
                for i in range(j + 1 if FORWARD else 0, N if FORWARD else j):
                    y = V[b, i * B_STEP + c * SIDE_STEP]
                    factor = V[a, i * ROW_STEP + j * COLUMN_STEP]
                    V[b, i * B_STEP + c * SIDE_STEP] = fma(-factor, x, y)
        store(b, M * K, ptr[buffers, 2], g)


def qr(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    BYTES: static,
    M: static,
    N: static,
    K: static,
    LEAST: static,
) -> void:
    """Q of K columns and R by reflections, with the signs that LAPACK chooses."""
    a = stack(M * N * BYTES)
    q = stack(M * K * BYTES)
    r = stack(K * N * BYTES)
    taus = stack(LEAST * BYTES)
    for g in range(start, stop):
        load(ptr[buffers, 0], g, M * N, a)
        for t in range(LEAST):
            V[taus, t] = reflector(a, t)
            for j in range(t + 1, N):
                reflect(a, t, V[taus, t], a, N, j)
        for i in range(M * K):
            V[q, i] = 0.0
        for i in range(K):
            V[q, i * (K + 1)] = 1.0
        for t in range(LEAST - 1, -1, -1):
            for j in range(t, K):
                reflect(a, t, V[taus, t], q, K, j)
        for i in range(K):
            for j in range(min(i, N)):
                V[r, i * N + j] = 0.0
            for j in range(i, N):
                V[r, i * N + j] = V[a, i * N + j]
        store(q, M * K, ptr[buffers, 1], g)
        store(r, K * N, ptr[buffers, 2], g)


def reflector(a: ptr, t: i64, *, M: static, N: static) -> V:
    """Turn column t below row t into a reflector; its factor.

    The length is measured in units of a power of two near the largest element, so that no square
    overflows or is lost.
    """
    alpha = V[a, t * (N + 1)]
    largest = fabs(alpha)
    for i in range(t + 1, M):
        size = fabs(V[a, i * N + t])
        largest = size if size > largest else largest
    unit = power_of_two(largest)
    rest = V(0.0)
    for i in range(t + 1, M):
        x = V[a, i * N + t] * inverse_power(unit)
        rest = fma(x, x, rest)
    scaled = alpha * inverse_power(unit)
    beta = -copysign(root(fma(scaled, scaled, rest)) * unit, alpha)
    none = rest == 0.0
    divisor = 1.0 if none else alpha - beta
    V[a, t * (N + 1)] = alpha if none else beta
    for i in range(t + 1, M):
        V[a, i * N + t] = 0.0 if none else V[a, i * N + t] / divisor
    safe = 1.0 if none else beta
    return 0.0 if none else (safe - alpha) / safe


def reflect(a: ptr, t: i64, tau: V, x: ptr, width: i64, j: i64, *, M: static, N: static) -> void:
    """Reflect a column of a matrix: x -= tau v (v . x), where v has a 1 at its row t."""
    total = V[x, t * width + j]
    for i in range(t + 1, M):
        total = fma(V[a, i * N + t], V[x, i * width + j], total)
    total *= tau
    V[x, t * width + j] -= total
    for i in range(t + 1, M):
        V[x, i * width + j] = fma(-V[a, i * N + t], total, V[x, i * width + j])


def power_of_two(size: V, *, ONE_BITS: static, TOP_BITS: static) -> V:
    """A power of two near a vector of sizes."""
    return bits(V, min(max(bits(BITS, size) & TOP_BITS, ONE_BITS), TOP_BITS - 2 * ONE_BITS))


def inverse_power(unit: V, *, ONE_BITS: static, TOP_BITS: static) -> V:
    """The inverse of such a power."""
    return bits(V, TOP_BITS - ONE_BITS - bits(BITS, unit))
