"""Factorisations as loops over columns, for targets without LAPACK: Cholesky, LU with row swaps and
triangular solves, of real matrices and stacks of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp
from weft.compiler.expand import decomposition, substituted
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn


def without_lapack(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with factorisations written out, where they are known here."""
    jaxpr = _written(closed.jaxpr)
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def _written(jaxpr: Jaxpr) -> Jaxpr:
    jaxpr = substituted(jaxpr, _loops)
    eqns = [_inside(eqn) for eqn in jaxpr.eqns]
    if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return jaxpr.replace(eqns=eqns)


def _loops(eqn: JaxprEqn) -> Jaxpr | None:
    function = _FUNCTIONS.get(eqn.primitive.name)
    shape = eqn.invars[0].aval.shape if function else ()
    if function is None or 0 in shape or eqn.outvars[0].aval.dtype.kind != "f":
        return None
    return decomposition(eqn, function)


def _inside(eqn: JaxprEqn) -> JaxprEqn:
    params = {name: _changed(value) for name, value in eqn.params.items()}
    if all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return eqn.replace(params=params)


def _changed(value: Any) -> Any:
    if type(value) is ClosedJaxpr:
        return without_lapack(value)
    if type(value) is Jaxpr:
        return _written(value)
    if isinstance(value, tuple):
        parts = [_changed(v) for v in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _repeat(length: int, step: Any, begin: Any) -> Any:
    """What is carried after a loop over columns, whose numbers are int32 whatever the knobs say."""

    def body(carry: Any, _: Any) -> Any:
        k, values = carry
        return (lax.add(k, np.int32(1)), step(k, values)), None

    return lax.scan(body, (lax.full((), 0, np.int32), begin), None, length=length)[0][1]


def _count(n: int) -> Any:
    return lax.iota(np.int32, n)


def _column(a: Any, k: Any) -> Any:
    return lax.dynamic_index_in_dim(a, k, -1, keepdims=False)


def _row(a: Any, k: Any) -> Any:
    return lax.dynamic_index_in_dim(a, k, a.ndim - 2, keepdims=False)


def _cholesky(a: Any) -> Any:
    """Column by column; what is below and to the right loses their products."""
    n = a.shape[-1]
    at = _count(n)

    def step(k: Any, carry: Any) -> Any:
        a, positive = carry
        column = _column(a, k)
        pivot = _column(column, k)
        root = lax.sqrt(pivot)[..., None]
        column = jnp.where(at > k, column / root, jnp.where(at == k, root, 0))
        rest = jnp.where(at > k, a - column[..., :, None] * column[..., None, :], a)
        return jnp.where(at == k, column[..., :, None], rest), positive & (pivot > 0)

    begin = a, jnp.ones(a.shape[:-2], bool)
    factor, positive = _repeat(n, step, begin)
    return jnp.where(positive[..., None, None], jnp.tril(factor), jnp.nan)


def _lu(a: Any) -> Any:
    """Gaussian elimination with the largest number of each column as its pivot."""
    m, n = a.shape[-2:]
    swaps = min(m, n)
    rows, columns = _count(m), _count(n)

    def step(k: Any, carry: Any) -> Any:
        a, pivots, order = carry
        sizes = jnp.where(rows >= k, abs(_column(a, k)), -1)
        pivot = lax.argmax(sizes, sizes.ndim - 1, np.int32)
        here, there = rows == k, rows == pivot[..., None]
        chosen = jnp.where(there[..., None], a, 0).sum(-2)
        a = jnp.where(there[..., None], _row(a, k)[..., None, :], a)
        a = jnp.where(here[..., None], chosen[..., None, :], a)
        mine = _column(order, k)[..., None]
        other = jnp.where(there, order, np.int32(0)).sum(-1, dtype=np.int32)[..., None]
        order = jnp.where(here, other, jnp.where(there, mine, order))
        pivots = jnp.where(_count(swaps) == k, pivot[..., None], pivots)
        number = _column(chosen, k)[..., None]
        below = rows > k
        factor = jnp.where(below, _column(a, k) / jnp.where(number == 0, 1, number), 0)
        rest = jnp.where(columns > k, a - factor[..., :, None] * chosen[..., None, :], a)
        first = (columns == k) & below[:, None]
        return jnp.where(first, factor[..., :, None], rest), pivots, order

    pivots = jnp.zeros((*a.shape[:-2], swaps), np.int32)
    order = jnp.broadcast_to(rows, (*a.shape[:-2], m))
    return list(_repeat(swaps, step, (a, pivots, order)))


def _triangular_solve(
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
    n = a.shape[-1]
    at = _count(n)

    def step(k: Any, x: Any) -> Any:
        i = k if lower else n - 1 - k
        column, found = _column(a, i), _row(x, i)
        if not unit_diagonal:
            found = found / _column(column, i)[..., None]
        rest = (at > i) if lower else (at < i)
        moved = x - column[..., :, None] * found[..., None, :]
        x = jnp.where(rest[:, None], moved, x)
        return jnp.where((at == i)[:, None], found[..., None, :], x)

    x = _repeat(n, step, b)
    return x if left_side else jnp.swapaxes(x, -1, -2)


_FUNCTIONS = {"cholesky": _cholesky, "lu": _lu, "triangular_solve": _triangular_solve}
