"""Factorisations of small real matrices and triangular solves with them, as stubs: a warp for each
matrix, or for each vector of unknowns, whose lanes have the rows.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    ballot,
    block,
    leading_zeros,
    shuffle_u32,
    shuffle_xor_u32,
    shuffle_xor_u64,
    thread,
    warp_barrier,
)
from weft.backends.cuda.routines.stubs.elements import bits_of, from_bits, of_lane
from weft.kernel.kinds import External, f32, f64, i32, i64, ptr, static, u32, u64, unrolled, void

sqrt = External(f64, (f64,))
matrix = External(ptr, ())  # shared memory

# Kinds that the stubs are given.
C: Any = f32
UNKNOWN = float("nan")


def _largest(x: C, *, WIDTH: static) -> C:
    """The largest of the numbers of a warp, none of them NaN, in every lane."""
    for step in unrolled(5):
        if WIDTH == 8:
            other = from_bits(shuffle_xor_u64(bits_of(x), i32(16 >> step)))
        else:
            other = from_bits(u64(shuffle_xor_u32(u32(bits_of(x)), i32(16 >> step))))
        if other > x:
            x = other
    return x


def _take(x: ptr, a: ptr, *, N: static, PITCH: static) -> void:
    """A matrix from device memory."""
    i = thread()
    while i < N * N:
        C[a, i // N * PITCH + i % N] = C[x, i]
        i = i + 32
    warp_barrier()


def lu(
    x: ptr, out: ptr, swaps: ptr, order: ptr, *, N: static, PITCH: static, WIDTH: static
) -> void:
    """L below U, the swaps of rows, and the permutation that they make."""
    lane = thread()
    number = block()
    a = matrix()
    own = lane * PITCH
    place = u32(lane)
    _take(x + number * N * N * WIDTH, a)
    for step in range(N):
        k = i64(step)
        # the first of the largest numbers of the column, NaN the least of all
        size = C(-1.0)
        if lane >= k and lane < N:
            size = C[a, own + k]
            if size < C(0.0):
                size = -size
            if size != size:
                size = C(-1.0)
        most = _largest(size)
        same = i32(0)
        if lane >= k and lane < N and size == most:
            same = i32(1)
        found = ballot(same)
        p = i64(31) - i64(leading_zeros(found & (u32(0) - found)))
        if lane < N:
            one = C[a, k * PITCH + lane]
            two = C[a, p * PITCH + lane]
            C[a, k * PITCH + lane] = two
            C[a, p * PITCH + lane] = one
        first = shuffle_u32(place, i32(k))
        second = shuffle_u32(place, i32(p))
        if lane == p:
            place = first
        if lane == k:
            place = second
            i32[swaps, number * N + k] = i32(p)
        warp_barrier()
        if lane > k and lane < N:
            pivot = C[a, k * PITCH + k]
            factor = C[a, own + k]
            if pivot != C(0.0):
                factor = factor / pivot
            C[a, own + k] = factor
            j = k + 1
            while j < N:
                C[a, own + j] = C[a, own + j] - factor * C[a, k * PITCH + j]
                j = j + 1
        warp_barrier()
    if lane < N:
        i32[order, number * N + lane] = i32(place)
    i = lane
    while i < N * N:
        C[out, number * N * N + i] = C[a, i // N * PITCH + i % N]
        i = i + 32


def cholesky(x: ptr, out: ptr, *, N: static, PITCH: static, WIDTH: static) -> void:
    """The lower factor, zeros above it; NaN where there is none."""
    lane = thread()
    number = block()
    a = matrix()
    own = lane * PITCH
    failed = i32(0)
    _take(x + number * N * N * WIDTH, a)
    for step in range(N):
        k = i64(step)
        square = C[a, k * PITCH + k]
        if not square > C(0.0):
            failed = i32(1)
        root = C(sqrt(f64(square)))
        warp_barrier()
        if lane == k:
            C[a, own + k] = root
        if lane > k and lane < N:
            C[a, own + k] = C[a, own + k] / root
        warp_barrier()
        if lane > k and lane < N:
            factor = C[a, own + k]
            j = k + 1
            while j <= lane:
                C[a, own + j] = C[a, own + j] - factor * C[a, j * PITCH + k]
                j = j + 1
        warp_barrier()
    i = lane
    while i < N * N:
        row = i // N
        column = i % N
        value = C(0.0)
        if column <= row:
            value = C[a, row * PITCH + column]
            if failed == 1:
                value = C(UNKNOWN)
        C[out, number * N * N + i] = value
        i = i + 32


def solve(
    x: ptr,
    b: ptr,
    out: ptr,
    *,
    N: static,
    COUNT: static,
    VECTORS: static,
    STEP: static,
    NEXT: static,
    ROW: static,
    COLUMN: static,
    UPPER: static,
    UNIT: static,
    WARPS: static,
    WIDTH: static,
) -> void:
    """The unknowns of triangular systems, of which ``COUNT`` vectors share a matrix each by so
    many: ``STEP`` is from an unknown to the next one of its vector, ``NEXT`` from a vector to the
    next one, ``ROW`` and ``COLUMN`` from an element of a matrix to that below and beside it."""
    lane = thread() % 32
    number = block() * WARPS + thread() // 32
    if number < COUNT:
        own = number // VECTORS
        base = x + own * N * N * WIDTH
        at = own * N * VECTORS + number % VECTORS * NEXT + lane * STEP
        mine = C(0.0)
        pivot = C(1.0)
        if lane < N:
            mine = C[b, at]
            if UNIT == 0:
                pivot = C[base, lane * (N + 1)]
        found = C(0.0)
        for step in range(N):
            k = i64(step)
            if UPPER == 1:
                k = i64(N - 1) - k
            value = mine
            if UNIT == 0:
                value = mine / pivot
            known = of_lane(value, i32(k))
            if lane == k:
                found = known
            ahead = lane > k and lane < N
            if UPPER == 1:
                ahead = lane < k
            if ahead:
                mine = mine - C[base, lane * ROW + k * COLUMN] * known
        if lane < N:
            C[out, at] = found
