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


def _reflect(k: Any, a: Any, taus: Any) -> tuple[Any, Any]:
    """Make column k zero below the diagonal; the reflector is put there."""
    m, n = a.shape[-2:]
    rows, columns = count(m), count(n)
    x = jnp.where(rows >= k, column_at(a, k), 0)
    unit = unit_of(x, (-1,))
    x = x / unit
    first = column_at(x, k)[..., None]
    below = rows > k
    tail = square(jnp.where(below, x, 0)).sum(-1, keepdims=True)
    length = lax.sqrt(square(first) + tail)
    beta = jnp.where(real(first) < 0, length, -length)
    # LAPACK's larfg: nothing to do where the column is a real number and zeros
    done = (tail == 0) & (first == real(first))
    beta, divisor = jnp.where(done, 1, beta), jnp.where(done, 1, first - beta)
    v = jnp.where(below & ~done, x / divisor, (rows == k).astype(a.dtype))
    tau = jnp.where(done, 0, (beta - first) / beta)
    product = (conj(v)[..., :, None] * a).sum(-2)
    moved = a - (conj(tau) * v)[..., :, None] * product[..., None, :]
    diagonal = jnp.where(done, first, beta.astype(a.dtype)) * unit
    here = jnp.where(below, v, jnp.where(rows == k, diagonal, column_at(a, k)))
    a = jnp.where(columns > k, moved, jnp.where(columns == k, here[..., :, None], a))
    return a, jnp.where(count(taus.shape[-1]) == k, tau, taus)


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
