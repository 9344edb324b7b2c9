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
from weft.backends.cuda.routines.elements import bits_of, from_bits
from weft.kernel.kinds import (
    External,
    bits,
    f32,
    f64,
    i32,
    i64,
    ptr,
    stack,
    u32,
    u64,
    unrolled,
    void,
)

sqrt = External(f64, (f64,))

# Names that stubs are given; here so that they can be written.
C: Any = f32
M = N = K = STRIDE = PARTS = WIDTH = FLOATING = WARPS = 0


def _added_up(x: C) -> C:
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


def _reflector(column: ptr, j: i64, found: ptr) -> void:
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
    C[found, 0] = C(a)
    C[found, 1] = C(0.0)
    C[found, 2] = C(0.0)
    C[found, 3] = C(0.0)
    C[found, 4] = C(0.0)
    if total != 0.0 or b != 0.0:
        beta = sqrt(a * a + b * b + total)
        if a >= 0.0:
            beta = -beta
        C[found, 0] = C(beta)
        C[found, 1] = C((beta - a) / beta)
        C[found, 2] = C(-(b / beta))
        # one over (first - beta)
        d = a - beta
        size = d * d + b * b
        C[found, 3] = C(d / size)
        C[found, 4] = C(-(b / size))


def project(v: ptr, column: ptr, j: i64, sums: ptr) -> void:
    """A reflector's adjoint times a column below row j, where it is 1, and the column's number in
    that row, which is read before the lanes meet: one of them writes it afterwards."""
    p = C(0.0)
    pi = C(0.0)
    i = j + 1 + thread() % 32
    while i < M:
        if PARTS == 1:
            p = p + C[v, i] * C[column, i]
        else:
            a = C[v, i * 2]
            b = C[v, i * 2 + 1]
            d = C[column, i * 2]
            e = C[column, i * 2 + 1]
            p = p + a * d + b * e
            pi = pi + a * e - b * d
        i = i + 32
    C[sums, 2] = C[column, j * PARTS]
    if PARTS == 2:
        C[sums, 3] = C[column, j * 2 + 1]
        C[sums, 1] = _added_up(pi)
    C[sums, 0] = _added_up(p)


def subtract(v: ptr, column: ptr, j: i64, q: C, qi: C) -> void:
    """Subtract a multiple of a reflector from a column, below row j."""
    i = j + 1 + thread() % 32
    while i < M:
        if PARTS == 1:
            C[column, i] = C[column, i] - q * C[v, i]
        else:
            a = C[v, i * 2]
            b = C[v, i * 2 + 1]
            C[column, i * 2] = C[column, i * 2] - (q * a - qi * b)
            C[column, i * 2 + 1] = C[column, i * 2 + 1] - (q * b + qi * a)
        i = i + 32


def factor(x: ptr, taus: ptr) -> void:
    """R above reflectors, and their factors, in place."""
    base = x + block() * STRIDE * PARTS * WIDTH
    own = taus + block() * K * PARTS * WIDTH
    warp = thread() // 32
    lane = thread() % 32
    found = stack(64)
    sums = stack(32)
    for step in range(K):
        j = i64(step)
        v = base + j * M * PARTS * WIDTH
        _reflector(v, j, found)
        tau = C[found, 1]
        taui = C[found, 2]
        s = C[found, 3]
        si = C[found, 4]
        c = j + 1 + warp
        while c < N:
            column = base + c * M * PARTS * WIDTH
            project(v, column, j, sums)
            p = C[sums, 0]
            first = C[sums, 2]
            if PARTS == 1:
                p = (p * s + first) * tau
                subtract(v, column, j, p * s, C(0.0))
                if lane == 0:
                    C[column, j] = first - p
            else:
                pi = C[sums, 1]
                firsti = C[sums, 3]
                # conj(s) p + first, times conj(tau)
                g = p * s + pi * si + first
                gi = pi * s - p * si + firsti
                h = g * tau + gi * taui
                hi = gi * tau - g * taui
                q = h * s - hi * si
                qi = h * si + hi * s
                subtract(v, column, j, q, qi)
                if lane == 0:
                    C[column, j * 2] = first - h
                    C[column, j * 2 + 1] = firsti - hi
            c = c + WARPS
        barrier()
        # nothing reads this column any more
        i = j + 1 + thread()
        while i < M:
            a = C[v, i * PARTS]
            if PARTS == 1:
                C[v, i] = a * s
            else:
                b = C[v, i * 2 + 1]
                C[v, i * 2] = a * s - b * si
                C[v, i * 2 + 1] = a * si + b * s
            i = i + WARPS * 32
        if thread() == 0:
            C[v, j * PARTS] = C[found, 0]
            C[own, j * PARTS] = tau
            if PARTS == 2:
                C[v, j * 2 + 1] = C(0.0)
                C[own, j * 2 + 1] = taui


def expand(x: ptr, taus: ptr) -> void:
    """The first N columns of the product of K reflectors, in their place."""
    base = x + block() * STRIDE * PARTS * WIDTH
    own = taus + block() * K * PARTS * WIDTH
    warp = thread() // 32
    lane = thread() % 32
    # columns that no reflector is of are those of the identity
    at = i64(K) * M + thread()
    while at < i64(N) * M:
        C[base, at * PARTS] = C(1.0) if at % M == at // M else C(0.0)
        if PARTS == 2:
            C[base, at * 2 + 1] = C(0.0)
        at = at + WARPS * 32
    barrier()
    sums = stack(32)
    for step in range(K):
        j = i64(K - 1) - i64(step)
        v = base + j * M * PARTS * WIDTH
        tau = C[own, j * PARTS]
        taui = C(0.0)
        if PARTS == 2:
            taui = C[own, j * 2 + 1]
        c = j + 1 + warp
        while c < N:
            column = base + c * M * PARTS * WIDTH
            project(v, column, j, sums)
            p = C[sums, 0]
            first = C[sums, 2]
            if PARTS == 1:
                p = (p + first) * tau
                subtract(v, column, j, p, C(0.0))
                if lane == 0:
                    C[column, j] = first - p
            else:
                pi = C[sums, 1]
                firsti = C[sums, 3]
                g = p + first
                gi = pi + firsti
                h = g * tau - gi * taui
                hi = g * taui + gi * tau
                subtract(v, column, j, h, hi)
                if lane == 0:
                    C[column, j * 2] = first - h
                    C[column, j * 2 + 1] = firsti - hi
            c = c + WARPS
        barrier()
        i = thread()
        while i < M:
            if i < j:
                C[v, i * PARTS] = C(0.0)
                if PARTS == 2:
                    C[v, i * 2 + 1] = C(0.0)
            if i == j:
                C[v, i * PARTS] = C(1.0) - tau
                if PARTS == 2:
                    C[v, i * 2 + 1] = -taui
            if i > j:
                a = C[v, i * PARTS]
                if PARTS == 1:
                    C[v, i] = -(tau * a)
                else:
                    b = C[v, i * 2 + 1]
                    C[v, i * 2] = -(tau * a - taui * b)
                    C[v, i * 2 + 1] = -(tau * b + taui * a)
            i = i + WARPS * 32
        barrier()
