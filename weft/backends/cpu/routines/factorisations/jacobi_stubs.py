"""Eigenvalues and singular values of stacks of small real matrices by rotations, one matrix a lane.

Pairs of rows and columns are turned one after the other until what is off the diagonal, or what
columns have in common, is gone (Jacobi 1846, Hestenes 1958; the formulas after Rutishauser 1966).
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.factorisations.small_stubs import (
    inverse_power,
    load,
    power_of_two,
    store,
)
from weft.kernel.kinds import (
    any_lane,
    copysign,
    f32,
    fabs,
    fma,
    i64,
    ptr,
    root,
    stack,
    static,
    truth,
    unrolled,
    void,
)

# Rounds over all pairs; six to nine are enough, which is seen.
MAX_SWEEPS = 40

# Kinds and static parameters, as in small_stubs.py: what is small enough to be nothing, then which
# triangle is read, and whether vectors are wanted.
V: Any = f32
MASK: Any = truth
# LONG, WIDTH, TALL: the longer side, how many of its vectors are wanted, whether it is that of
# columns. SHORTEST: the least length of a column that has a direction. LEFT, RIGHT: the sizes of U
# and Vᵀ. X_, T_, B_: how far apart columns (APART) and their elements (STEP) are, of the matrix, of
# the shorter vectors, which turn with it, and of the longer ones.


def largest(a: ptr, size: i64) -> V:
    """The largest of some numbers in size."""
    found = V(0.0)
    for i in range(size):
        found = max(fabs(V[a, i]), found)
    return found


def scale(a: ptr, size: i64, unit: V) -> V:
    """Divide numbers by a power of two; 0, or NaN where any of them is not finite."""
    poison = V(0.0)
    for i in range(size):
        poison += V[a, i] - V[a, i]
        V[a, i] *= inverse_power(unit)
    return poison


def tangent(both: V, first: V, second: V) -> V:
    """The tangent of the rotation after which two have nothing in common."""
    none = both == 0.0
    theta = (second - first) / (1.0 if none else both + both)
    size = fabs(theta)
    found = copysign(1.0 / (size + root(fma(size, size, 1.0))), theta)
    return 0.0 if none else found


def cosine(t: V) -> V:
    """The cosine of an angle with such a tangent."""
    return 1.0 / root(fma(t, t, 1.0))


def turned(x: V, y: V, sine: V, half: V) -> V:
    """One of two numbers turned, c x + s y, by what is to be added to it; ``half`` is the tangent
    of half the angle, with the opposite sign."""
    return fma(sine, fma(half, x, y), x)


def turn(left: ptr, right: ptr, place: i64, sine: V, half: V) -> void:
    """The elements of two columns in a row turned: c x - s y and s x + c y."""
    x = V[left, place]
    y = V[right, place]
    V[left, place] = turned(x, y, -sine, half)
    V[right, place] = turned(y, x, sine, -half)


def exchange(left: ptr, right: ptr, step: i64, length: i64, swap: MASK) -> void:
    """Elements of two columns change places in some lanes."""
    for r in range(length):
        x = V[left, r * step]
        y = V[right, r * step]
        V[left, r * step] = y if swap else x
        V[right, r * step] = x if swap else y


def eigh(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    BYTES: static,
    N: static,
    BOUND: static,
    LOWER: static,
    VECTORS: static,
) -> void:
    """Eigenvectors, if wanted, and ascending eigenvalues of symmetric matrices."""
    a = stack(N * N * BYTES)
    w = stack(N * BYTES)
    basis = stack((N * N if VECTORS else 0) * BYTES)
    for g in range(start, stop):
        load(ptr[buffers, 0], g, N * N, a)
        for i in range(N):
            for j in range(i):
                if LOWER:
                    V[a, j * N + i] = V[a, i * N + j]
                else:
                    V[a, i * N + j] = V[a, j * N + i]
        unit = power_of_two(largest(a, N * N))
        poison = scale(a, N * N, unit)
        for i in range(N * N if VECTORS else 0):
            V[basis, i] = 0.0
        for i in range(N if VECTORS else 0):
            V[basis, i * (N + 1)] = 1.0
        for _ in range(MAX_SWEEPS):
            rest = V(0.0)
            for p in range(N):
                for q in range(p + 1, N):
                    rest = max(fabs(V[a, p * N + q]), rest)
            if not any_lane(rest > BOUND):
                break
            for p in range(N):
                for q in range(p + 1, N):
                    turn_both(a, basis, p, q)
        for i in range(N):
            V[w, i] = V[a, i * (N + 1)] * unit + poison
        for i in range(N):
            for j in range(i + 1, N):
                swap = V[w, j] < V[w, i]
                exchange(w + i * BYTES, w + j * BYTES, 1, 1, swap)
                exchange(basis + i * BYTES, basis + j * BYTES, N, N if VECTORS else 0, swap)
        store(w, N, ptr[buffers, 2], g)
        if VECTORS:
            for i in range(N * N):
                V[basis, i] += poison
            store(basis, N * N, ptr[buffers, 1], g)


def turn_both(
    a: ptr, basis: ptr, p: i64, q: i64, *, BYTES: static, N: static, VECTORS: static
) -> void:
    """Rows and columns p and q of a symmetric matrix turned so that a[p, q] is zero."""
    both = V[a, p * N + q]
    first = V[a, p * (N + 1)]
    second = V[a, q * (N + 1)]
    t = tangent(both, first, second)
    sine = t * cosine(t)
    half = sine / (1.0 + cosine(t))
    for r in unrolled(N):
        x = V[a, r * N + p]
        y = V[a, r * N + q]
        low = turned(x, y, -sine, half)
        high = turned(y, x, sine, -half)
        V[a, r * N + p] = low
        V[a, p * N + r] = low
        V[a, r * N + q] = high
        V[a, q * N + r] = high
        if VECTORS:
            turn(basis + p * BYTES, basis + q * BYTES, r * N, sine, half)
    # where the rows and columns cross, the loop has left nothing of use
    V[a, p * (N + 1)] = first - t * both
    V[a, q * (N + 1)] = second + t * both
    V[a, p * N + q] = 0.0
    V[a, q * N + p] = 0.0


def svd(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    BYTES: static,
    M: static,
    N: static,
    K: static,
    BOUND: static,
    VECTORS: static,
    LONG: static,
    WIDTH: static,
    TALL: static,
    SHORTEST: static,
    LEFT: static,
    RIGHT: static,
    X_APART: static,
    X_STEP: static,
    T_APART: static,
    T_STEP: static,
    B_APART: static,
    B_STEP: static,
) -> void:
    """Descending singular values; then U and Vᵀ, the longer with so many vectors, unless 0.

    Of a matrix or its transpose, whichever has fewer columns, columns are turned until they are at
    right angles: their lengths are the singular values, their directions the longer vectors.
    """
    x = stack(M * N * BYTES)
    w = stack(K * BYTES)
    left = stack(LEFT * BYTES)
    right = stack(RIGHT * BYTES)
    turns = right if TALL else left
    basis = left if TALL else right
    vector = stack(LONG * BYTES)
    shares = stack(WIDTH * BYTES)
    for g in range(start, stop):
        load(ptr[buffers, 0], g, M * N, x)
        unit = power_of_two(largest(x, M * N))
        poison = scale(x, M * N, unit)
        for i in range(K if VECTORS else 0):
            for j in range(K):
                V[turns, i * T_APART + j * T_STEP] = V(1.0) if i == j else V(0.0)
        for _ in range(MAX_SWEEPS):
            rest = V(0.0)
            for p in range(K):
                for q in range(p + 1, K):
                    rest = max(turn_columns(x, turns, p, q), rest)
            if not any_lane(rest > BOUND):
                break
        for c in range(K):
            V[w, c] = root(squared(x + c * X_APART * BYTES, X_STEP))
        for i in range(K):
            for j in range(i + 1, K):
                swap = V[w, j] > V[w, i]
                exchange(w + i * BYTES, w + j * BYTES, 1, 1, swap)
                exchange(x + i * X_APART * BYTES, x + j * X_APART * BYTES, X_STEP, LONG, swap)
                first = turns + i * T_APART * BYTES
                exchange(first, turns + j * T_APART * BYTES, T_STEP, K if VECTORS else 0, swap)
        for c in range(WIDTH):
            missing = V(1.0) == 1.0
            if c < K:
                missing = V[w, c] < SHORTEST
                inverse = 1.0 / (1.0 if missing else V[w, c])
                for r in range(LONG):
                    value = V[x, c * X_APART + r * X_STEP] * inverse
                    V[basis, c * B_APART + r * B_STEP] = value
            if any_lane(missing):
                complete(basis, c, missing, vector, shares)
        for c in range(K):
            V[w, c] = V[w, c] * unit + poison
        store(w, K, ptr[buffers, 1], g)
        if VECTORS:
            for i in range(LEFT):
                V[left, i] += poison
            for i in range(RIGHT):
                V[right, i] += poison
            store(left, LEFT, ptr[buffers, 2], g)
            store(right, RIGHT, ptr[buffers, 3], g)


def squared(column: ptr, step: i64, *, LONG: static) -> V:
    """The square of the length of a column."""
    found = V(0.0)
    for r in range(LONG):
        found = fma(V[column, r * step], V[column, r * step], found)
    return found


def turn_columns(
    x: ptr,
    turns: ptr,
    p: i64,
    q: i64,
    *,
    BYTES: static,
    K: static,
    VECTORS: static,
    LONG: static,
    X_APART: static,
    X_STEP: static,
    T_APART: static,
    T_STEP: static,
) -> V:
    """Two columns turned until they are at right angles, and what turns with them; what they had in
    common."""
    left = x + p * X_APART * BYTES
    right = x + q * X_APART * BYTES
    first = V(0.0)
    second = V(0.0)
    both = V(0.0)
    for r in unrolled(LONG):
        a = V[left, r * X_STEP]
        b = V[right, r * X_STEP]
        first = fma(a, a, first)
        second = fma(b, b, second)
        both = fma(a, b, both)
    t = tangent(both, first, second)
    sine = t * cosine(t)
    half = sine / (1.0 + cosine(t))
    for r in unrolled(LONG):
        turn(left, right, r * X_STEP, sine, half)
    left = turns + p * T_APART * BYTES
    right = turns + q * T_APART * BYTES
    for r in unrolled(K if VECTORS else 0):
        turn(left, right, r * T_STEP, sine, half)
    size = root(first * second)
    return fabs(both) / (1.0 if size == 0.0 else size)


def complete(
    basis: ptr,
    c: i64,
    missing: MASK,
    vector: ptr,
    shares: ptr,
    *,
    LONG: static,
    B_APART: static,
    B_STEP: static,
) -> void:
    """A column at right angles to those before it, in lanes where it is missing: the unit vector
    that has least in common with those, without what it has."""
    best = V(-1.0)
    chosen = V(0.0)
    for j in range(LONG):
        rest = V(1.0)
        for i in range(c):
            share = V[basis, i * B_APART + j * B_STEP]
            rest = fma(-share, share, rest)
        chosen = V(j) if rest > best else chosen
        best = max(rest, best)
    for r in range(LONG):
        V[vector, r] = V(1.0) if V(r) == chosen else 0.0
    for _ in range(2):  # the second time for what rounding has left
        for i in range(c):
            share = V(0.0)
            for r in range(LONG):
                share = fma(V[vector, r], V[basis, i * B_APART + r * B_STEP], share)
            V[shares, i] = share
        for r in range(LONG):
            for i in range(c):
                share = V[basis, i * B_APART + r * B_STEP]
                V[vector, r] = fma(-V[shares, i], share, V[vector, r])
    size = root(squared(vector, 1))
    for r in range(LONG):
        place = c * B_APART + r * B_STEP
        V[basis, place] = V[vector, r] / size if missing else V[basis, place]
