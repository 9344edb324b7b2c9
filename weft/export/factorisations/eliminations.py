"""Eliminations: Cholesky, LU with row swaps, triangular and tridiagonal solves."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp
from weft.export.factorisations.columns import column_at, conj, count, real, repeat, row_at, size
from weft.prims.linalg.elimination import tridiagonal_elimination


def cholesky(a: Any) -> Any:
    """Column by column; what is below and to the right loses their products."""
    n = a.shape[-1]
    at = count(n)

    def step(k: Any, carry: Any) -> Any:
        a, positive = carry
        column = column_at(a, k)
        pivot = real(column_at(column, k))
        root = lax.sqrt(pivot)[..., None]
        column = jnp.where(at > k, column / root, jnp.where(at == k, root, 0))
        rest = jnp.where(at > k, a - column[..., :, None] * conj(column)[..., None, :], a)
        return jnp.where(at == k, column[..., :, None], rest), positive & (pivot > 0)

    begin = a, jnp.ones(a.shape[:-2], bool)
    factor, positive = repeat(n, step, begin)
    return jnp.where(positive[..., None, None], jnp.tril(factor), jnp.nan)


def lu(a: Any) -> Any:
    """Gaussian elimination with the largest number of each column as its pivot."""
    m, n = a.shape[-2:]
    swaps = min(m, n)
    rows, columns = count(m), count(n)

    def step(k: Any, carry: Any) -> Any:
        a, pivots, order = carry
        sizes = jnp.where(rows >= k, size(column_at(a, k)), -1)
        pivot = lax.argmax(sizes, sizes.ndim - 1, np.int32)
        here, there = rows == k, rows == pivot[..., None]
        chosen = jnp.where(there[..., None], a, 0).sum(-2)
        a = jnp.where(there[..., None], row_at(a, k)[..., None, :], a)
        a = jnp.where(here[..., None], chosen[..., None, :], a)
        mine = column_at(order, k)[..., None]
        other = jnp.where(there, order, np.int32(0)).sum(-1, dtype=np.int32)[..., None]
        order = jnp.where(here, other, jnp.where(there, mine, order))
        pivots = jnp.where(count(swaps) == k, pivot[..., None], pivots)
        number = column_at(chosen, k)[..., None]
        below = rows > k
        factor = jnp.where(below, column_at(a, k) / jnp.where(number == 0, 1, number), 0)
        rest = jnp.where(columns > k, a - factor[..., :, None] * chosen[..., None, :], a)
        first = (columns == k) & below[:, None]
        return jnp.where(first, factor[..., :, None], rest), pivots, order

    pivots = jnp.zeros((*a.shape[:-2], swaps), np.int32)
    order = jnp.broadcast_to(rows, (*a.shape[:-2], m))
    return list(repeat(swaps, step, (a, pivots, order)))


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """Substitution, one unknown after the other. X A = B is Aᵀ Xᵀ = Bᵀ."""
    if not left_side:
        b = jnp.swapaxes(b, -1, -2)
    if transpose_a == left_side:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    a = conj(a) if conjugate_a else a
    n = a.shape[-1]
    at = count(n)

    def step(k: Any, x: Any) -> Any:
        i = k if lower else n - 1 - k
        column, found = column_at(a, i), row_at(x, i)
        if not unit_diagonal:
            found = found / column_at(column, i)[..., None]
        rest = (at > i) if lower else (at < i)
        moved = x - column[..., :, None] * found[..., None, :]
        x = jnp.where(rest[:, None], moved, x)
        return jnp.where((at == i)[:, None], found[..., None, :], x)

    x = repeat(n, step, b)
    return x if left_side else jnp.swapaxes(x, -1, -2)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    """Gaussian elimination with row swaps between neighbours."""
    x = tridiagonal_elimination(dl, d, du, b, perturb_singular)
    solved = (size(x) < np.inf).all((-2, -1), keepdims=True)
    return jnp.where(solved, x, np.nan)
