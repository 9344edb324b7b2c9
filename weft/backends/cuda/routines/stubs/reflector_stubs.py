"""Products of reflectors for stacks of matrices, a block for each, as stubs.

Matrices are by columns, in device memory, which stays near the block. A warp does a column at a
time, its lanes the rows. Complex numbers are pairs; real ones have no second part.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    barrier,
    block,
    shuffle_xor_u32,
    shuffle_xor_u64,
    thread,
)
from weft.backends.cuda.routines.stubs.elements import bits_of, from_bits
from weft.backends.cuda.routines.stubs.numbers import (
    adjoint,
    minus,
    negative,
    plus,
    read,
    real,
    times,
    write,
)
from weft.kernel.kinds import (
    External,
    bits,
    f32,
    f64,
    i32,
    i64,
    ptr,
    stack,
    static,
    u32,
    u64,
    unrolled,
    void,
)

sqrt = External(f64, (f64,))

# Kinds that the stubs are given.
C: Any = f32


def _added_up(x: C, *, WIDTH: static) -> C:
    """The sum of the numbers of a warp, in every lane."""
    for k in unrolled(5):
        if WIDTH == 8:
            x = x + from_bits(shuffle_xor_u64(bits_of(x), i32(16 >> k)))
        else:
            x = x + from_bits(u64(shuffle_xor_u32(u32(bits_of(x)), i32(16 >> k))))
    return x


def _added_up_wide(x: f64) -> f64:
    for k in unrolled(5):
        x = x + bits(f64, shuffle_xor_u64(bits(u64, x), i32(16 >> k)))
    return x


def _reflector(column: ptr, j: i64, found: ptr, *, M: static, PARTS: static) -> void:
    """Of the column from row j on: beta, tau and the factor that makes the reflector of it.

    As LAPACK's larfg: beta has the other sign than the first number; 0 for tau if there is
    nothing to reflect. Squares are summed in double precision, so that they don't overflow.
    """
    lane = thread() % 32
    total = f64(0.0)
    i = j + 1 + lane
    while i < M:
        x = f64(C[column, i * PARTS])
        total = total + x * x
        if PARTS == 2:
            y = f64(C[column, i * 2 + 1])
            total = total + y * y
        i = i + 32
    total = _added_up_wide(total)
    a = f64(C[column, j * PARTS])
    b = f64(0.0)
    if PARTS == 2:
        b = f64(C[column, j * 2 + 1])
    write(found, 0, real(C(a)))
    write(found, 1, real(C(0.0)))
    write(found, 2, real(C(0.0)))
    if total != 0.0 or b != 0.0:
        beta = sqrt(a * a + b * b + total)
        if a >= 0.0:
            beta = -beta
        # one over (first - beta)
        d = a - beta
        size = d * d + b * b
        C[found, 0] = C(beta)
        C[found, PARTS] = C((beta - a) / beta)
        C[found, 2 * PARTS] = C(d / size)
        if PARTS == 2:
            C[found, 3] = C(-(b / beta))
            C[found, 5] = C(-(b / size))


def project(v: ptr, column: ptr, j: i64, sums: ptr, *, M: static, PARTS: static) -> void:
    """A reflector's adjoint times a column below row j, where it is 1, and the column's number in
    that row, which is read before the lanes meet: one of them writes it afterwards."""
    total = real(C(0.0))
    i = j + 1 + thread() % 32
    while i < M:
        total = plus(total, times(adjoint(read(v, i)), read(column, i)))
        i = i + 32
    write(sums, 1, read(column, j))
    for k in unrolled(PARTS):
        C[sums, k] = _added_up(total[k])


def subtract(v: ptr, column: ptr, j: i64, sums: ptr, *, M: static) -> void:
    """Subtract a multiple of a reflector, which is 1 in row j, from a column: of what was projected
    the first number, in that row the second."""
    q = read(sums, 0)
    i = j + 1 + thread() % 32
    while i < M:
        write(column, i, minus(read(column, i), times(q, read(v, i))))
        i = i + 32
    if thread() % 32 == 0:
        write(column, j, read(sums, 1))


def factor(
    x: ptr,
    taus: ptr,
    *,
    M: static,
    N: static,
    K: static,
    STRIDE: static,
    PARTS: static,
    WIDTH: static,
    WARPS: static,
) -> void:
    """R above reflectors, and their factors, in place."""
    base = x + block() * STRIDE * PARTS * WIDTH
    own = taus + block() * K * PARTS * WIDTH
    found = stack(64)
    sums = stack(32)
    for step in range(K):
        j = i64(step)
        v = base + j * M * PARTS * WIDTH
        _reflector(v, j, found)
        tau = read(found, 1)
        s = read(found, 2)
        c = j + 1 + thread() // 32
        while c < N:
            column = base + c * M * PARTS * WIDTH
            project(v, column, j, sums)
            first = read(sums, 1)
            h = times(plus(times(read(sums, 0), adjoint(s)), first), adjoint(tau))
            write(sums, 0, times(h, s))
            write(sums, 1, minus(first, h))
            subtract(v, column, j, sums)
            c = c + WARPS
        barrier()
        # nothing reads this column any more
        i = j + 1 + thread()
        while i < M:
            write(v, i, times(read(v, i), s))
            i = i + WARPS * 32
        if thread() == 0:
            write(v, j, real(C[found, 0]))
            write(own, j, tau)


def expand(
    x: ptr,
    taus: ptr,
    *,
    M: static,
    N: static,
    K: static,
    STRIDE: static,
    PARTS: static,
    WIDTH: static,
    WARPS: static,
) -> void:
    """The first N columns of the product of K reflectors, in their place."""
    base = x + block() * STRIDE * PARTS * WIDTH
    own = taus + block() * K * PARTS * WIDTH
    # columns that no reflector is of are those of the identity
    at = i64(K) * M + thread()
    while at < i64(N) * M:
        write(base, at, real(C(1.0) if at % M == at // M else C(0.0)))
        at = at + WARPS * 32
    barrier()
    sums = stack(32)
    for step in range(K):
        j = i64(K - 1) - i64(step)
        v = base + j * M * PARTS * WIDTH
        tau = read(own, j)
        c = j + 1 + thread() // 32
        while c < N:
            column = base + c * M * PARTS * WIDTH
            project(v, column, j, sums)
            first = read(sums, 1)
            h = times(plus(read(sums, 0), first), tau)
            write(sums, 0, h)
            write(sums, 1, minus(first, h))
            subtract(v, column, j, sums)
            c = c + WARPS
        barrier()
        i = thread()
        while i < M:
            if i < j:
                write(v, i, real(C(0.0)))
            if i == j:
                write(v, i, minus(real(C(1.0)), tau))
            if i > j:
                write(v, i, negative(times(tau, read(v, i))))
            i = i + WARPS * 32
        barrier()
