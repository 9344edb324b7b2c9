"""QR by Householder reflectors I - τ v vᴴ, packed below the diagonal of R as LAPACK packs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp
from weft.export.factorisations.columns import (
    adjoint,
    column_at,
    conj,
    count,
    diagonal,
    eye,
    real,
    repeat,
    square,
    unit_of,
)


def geqrf(a: Any) -> list[Any]:
    """R above the reflectors, and their factors."""
    steps = min(a.shape[-2:])
    taus = jnp.zeros((*a.shape[:-2], steps), a.dtype)
    return list(repeat(steps, lambda k, carry: _reflect(k, *carry), (a, taus)))


def geqp3(a: Any, jpvt: Any, *, use_magma: Any = None) -> list[Any]:
    """The same of columns of which the longest is always next, and their order, from 1. Columns
    whose entry in ``jpvt`` isn't 0 are first."""
    m, n = a.shape[-2:]
    steps, columns = min(m, n), count(n)
    free = (jpvt == 0).astype(np.int32)
    places = jnp.broadcast_to(columns, jpvt.shape)
    order = lax.sort((free, places), dimension=places.ndim - 1, is_stable=True, num_keys=1)[1]
    a = jnp.take_along_axis(a, order[..., None, :], -1)
    fixed = n - free.sum(-1, dtype=np.int32)[..., None]

    def step(k: Any, carry: Any) -> Any:
        a, taus, order = carry
        rest = jnp.where(count(m)[:, None] >= k, a, 0)
        unit = unit_of(rest, (-2, -1))
        lengths = jnp.where(columns >= k, square(rest / unit).sum(-2), -1)
        longest = lax.argmax(lengths, lengths.ndim - 1, np.int32)[..., None]
        chosen = jnp.where(k < fixed, k, longest)
        swapped = jnp.where(columns == k, chosen, jnp.where(columns == chosen, k, columns))
        a = jnp.take_along_axis(a, swapped[..., None, :], -1)
        order = jnp.take_along_axis(order, swapped, -1)
        return (*_reflect(k, a, taus), order)

    taus = jnp.zeros((*a.shape[:-2], steps), a.dtype)
    a, taus, order = repeat(steps, step, (a, taus, order))
    return [a, order + np.int32(1), taus]


def reflector(x: Any, k: Any) -> tuple[Any, Any, Any]:
    """v with 1 at row k, τ, and β: the reflector leaves β at row k of x, which has zeros above, and
    makes zeros below."""
    rows = count(x.shape[-1])
    unit = unit_of(x, (-1,))
    x = x / unit
    first = jnp.where(rows == k, x, 0).sum(-1, keepdims=True)
    below = rows > k
    tail = square(jnp.where(below, x, 0)).sum(-1, keepdims=True)
    length = lax.sqrt(square(first) + tail)
    beta = jnp.where(real(first) < 0, length, -length)
    # LAPACK's larfg: nothing to do where the column is a real number and zeros
    done = (tail == 0) & (first == real(first))
    beta, divisor = jnp.where(done, 1, beta), jnp.where(done, 1, first - beta)
    v = jnp.where(below & ~done, x / divisor, (rows == k).astype(x.dtype))
    tau = jnp.where(done, 0, (beta - first) / beta)
    return v, tau, jnp.where(done, first, beta.astype(x.dtype)) * unit


def _reflect(k: Any, a: Any, taus: Any) -> tuple[Any, Any]:
    """Make column k zero below the diagonal; the reflector is put there."""
    m, n = a.shape[-2:]
    rows, columns = count(m), count(n)
    v, tau, corner = reflector(jnp.where(rows >= k, column_at(a, k), 0), k)
    product = (conj(v)[..., :, None] * a).sum(-2)
    moved = a - (conj(tau) * v)[..., :, None] * product[..., None, :]
    here = jnp.where(rows > k, v, jnp.where(rows == k, corner, column_at(a, k)))
    a = jnp.where(columns > k, moved, jnp.where(columns == k, here[..., :, None], a))
    return a, jnp.where(count(taus.shape[-1]) == k, tau, taus)


def hessenberg(a: Any) -> list[Any]:
    """H of A = Q H Qᴴ above the reflectors of Q, and their factors."""
    n = a.shape[-1]
    at = count(n)

    def step(k: Any, carry: Any) -> Any:
        a, taus = carry
        row = k + np.int32(1)
        v, tau, corner = reflector(jnp.where(at >= row, column_at(a, k), 0), row)
        left = (conj(v)[..., :, None] * a).sum(-2)
        moved = a - (conj(tau) * v)[..., :, None] * left[..., None, :]
        right = (moved * v[..., None, :]).sum(-1)
        moved = moved - (tau * right)[..., :, None] * conj(v)[..., None, :]
        here = jnp.where(at > row, v, jnp.where(at == row, corner, column_at(a, k)))
        a = jnp.where(at > k, moved, jnp.where(at == k, here[..., :, None], a))
        return a, jnp.where(count(taus.shape[-1]) == k, tau, taus)

    taus = jnp.zeros((*a.shape[:-2], n - 1), a.dtype)
    return list(repeat(n - 1, step, (a, taus)))


def tridiagonal(a: Any, *, lower: bool) -> list[Any]:
    """T of Hermitian A = Q T Qᴴ above or below the reflectors of Q, its diagonals, and the factors.
    The upper triangle is the lower one in reverse order."""
    if not lower:
        backwards = lambda x, axes: lax.rev(x, tuple(x.ndim - 1 - i for i in range(axes)))
        packed, *rest = tridiagonal(backwards(a, 2), lower=True)
        return [backwards(packed, 2), *(backwards(x, 1) for x in rest)]
    n = a.shape[-1]
    below = jnp.tril(a, -1)
    middle = jnp.where(eye(a, n, n) != 0, real(a).astype(a.dtype), 0)
    packed, taus = hessenberg(below + middle + adjoint(below))
    values, beside = (real(diagonal(packed, offset)) for offset in (0, -1))
    return [jnp.where(count(n)[:, None] >= count(n), packed, a), values, beside, taus]


def applied(packed: Any, taus: Any, c: Any, transpose: bool = False) -> Any:
    """Q C or Qᴴ C, one reflector after the other."""
    rows, steps = count(packed.shape[-2]), taus.shape[-1]

    def step(i: Any, c: Any) -> Any:
        k = i if transpose else steps - 1 - i
        tau = column_at(taus, k)[..., None]
        v = jnp.where(rows > k, column_at(packed, k), (rows == k).astype(packed.dtype))
        product = (conj(v)[..., :, None] * c).sum(-2)
        return c - ((conj(tau) if transpose else tau) * v)[..., :, None] * product[..., None, :]

    return repeat(steps, step, c)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    """Q C, Qᴴ C, C Q or C Qᴴ."""
    if left:
        return applied(a, taus, c, transpose)
    return adjoint(applied(a, taus, adjoint(c), not transpose))


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of reflectors."""
    return applied(a, taus, eye(a, *a.shape[-2:]))


def qr(
    a: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any = None, q: bool = True
) -> list[Any]:
    """Q and R, and with pivoting the order of columns, from 0."""
    m, n = a.shape[-2:]
    width = m if full_matrices else min(m, n)
    order = []
    if pivoting:
        a, found, taus = geqp3(a, jnp.zeros((*a.shape[:-2], n), np.int32))
        order = [found - np.int32(1)]
    else:
        a, taus = geqrf(a)
    r = jnp.triu(a[..., :width, :])
    return [applied(a, taus, eye(a, m, width)) if q else eye(a, m, width), r, *order]
