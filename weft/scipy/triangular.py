"""Functions of upper triangular matrices, from blocks on the diagonal to ever larger ones.

A block of two halves, of which both are known, lacks its upper right corner: that is the solution
of a Sylvester equation with the halves (Deadman, Higham and Ralha, "Blocked Schur algorithms for
computing the matrix square root", 2013).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.api.jit import jit
from weft.core.array import Array
from weft.prims.linalg.matrix import matmul
from weft.prims.linalg.sylvester import triangular_sylvester_p

# Rows of a block that is computed diagonal by diagonal.
LEAF = 4

# What gives the p-th diagonal above the main one from those of the matrix and those found so far.
Step = Callable[[int, list[Array], list[Array]], Array]
# What gives the corner of two halves: the halves of the matrix, its corner, and both results.
Corner = Callable[[Array, Array, Array, Array, Array], Array]


def sylvester(a: Array, b: Array, c: Array) -> Array:
    """X of A X + X B = C for Schur forms A and B."""
    return triangular_sylvester_p.bind(a, b, c, adjoint=False)


def square_root(t: Array) -> Array:
    """The principal square root (Björck and Hammarling)."""
    tiny = float(dtypes.finfo(t.dtype).tiny)

    def step(p: int, t: list[Array], r: list[Array]) -> Array:
        total = t[p]
        for q in range(1, p):
            total = total - r[q][:, : -(p - q)] * r[p - q][:, q:]
        sums = r[0][:, :-p] + r[0][:, p:]
        # Two zero roots: the entry is zero if a root exists, and overflows if none does.
        return total / jnp.where(sums == 0, tiny, sums)

    def corner(t1: Array, t2: Array, t12: Array, r1: Array, r2: Array) -> Array:
        return sylvester(r1, r2, t12)

    return _by_blocks(t, jnp.sqrt(jnp.diagonal(t)), step, corner)


@jit
def function(values: Array, t: Array) -> Array:
    """The analytic function that gives some values on the diagonal, by Parlett's method.

    Inexact where eigenvalues nearly coincide.
    """

    def step(p: int, t: list[Array], f: list[Array]) -> Array:
        total = t[p] * (f[0][:, p:] - f[0][:, :-p])
        for q in range(1, p):
            total = total + t[q][:, : -(p - q)] * f[p - q][:, q:]
            total = total - f[q][:, : -(p - q)] * t[p - q][:, q:]
        gap = t[0][:, p:] - t[0][:, :-p]
        return total / jnp.where(gap == 0, 1, gap)

    def corner(t1: Array, t2: Array, t12: Array, f1: Array, f2: Array) -> Array:
        return sylvester(t1, -t2, matmul(f1, t12) - matmul(t12, f2))

    return _by_blocks(t, values, step, corner)


def _by_blocks(t: Array, values: Array, step: Step, corner: Corner) -> Array:
    """A function of a matrix, given that of its diagonal: of small blocks, of pairs of blocks."""
    n = t.shape[0]
    count = 1
    while -(-n // count) > LEAF:
        count *= 2
    size = -(-n // count)
    if size * count > n:
        # ones on the rest of the diagonal have a part in nothing
        whole = jnp.eye(size * count, dtype=t.dtype)
        t = lax.dynamic_update_slice(whole, t, (0, 0))
        values = jnp.pad(values, (0, size * count - n), constant_values=1)
    result = _leaves(t, values.reshape(count, size), step)
    while count > 1:
        half, count = size, count // 2
        size = 2 * half
        parts = _blocks(t, size)
        t1, t2 = parts[:, :half, :half], parts[:, half:, half:]
        r1, r2 = result[0::2], result[1::2]
        right = jnp.concatenate([corner(t1, t2, parts[:, :half, half:], r1, r2), r2], 1)
        left = jnp.concatenate([r1, jnp.zeros_like(r1)], 1)
        result = jnp.concatenate([left, right], 2)
    return result[0, :n, :n]


def _blocks(t: Array, size: int) -> Array:
    """The blocks of a size on the diagonal."""
    count = t.shape[0] // size
    if count == 1:
        return t[None]
    apart = t.reshape(count, size, count, size)
    return jnp.moveaxis(jnp.diagonal(apart, axis1=0, axis2=2), -1, 0)


def _leaves(t: Array, values: Array, step: Step) -> Array:
    """The function of the smallest blocks, a diagonal of all of them after the other."""
    count, size = values.shape
    given = []
    for p in range(size):
        line = jnp.pad(jnp.diagonal(t, p), (0, p))
        given.append(line.reshape(count, size)[:, : size - p])
    found = [values]
    for p in range(1, size):
        found.append(step(p, given, found))
    at = np.arange(size)
    apart = at - at[:, None]
    result = jnp.zeros((count, size, size), t.dtype)
    for p, line in enumerate(found):
        result = jnp.where(apart == p, jnp.pad(line, ((0, 0), (0, p)))[:, :, None], result)
    return result
