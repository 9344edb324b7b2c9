"""Eigenvalues of Hermitian tridiagonal matrices by bisection, eigenvectors by inverse iteration."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.api.jit import jit
from weft.core.array import Array
from weft.numpy.promotion import mixes_inside


@overload
def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: Literal[False] = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> tuple[Array, Array]: ...
@overload
def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: Literal[True],
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Array: ...
@overload
def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any: ...
@mixes_inside
def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Array | tuple[Array, Array]:
    """Return the eigenvalues and eigenvectors of a symmetric tridiagonal matrix.

    Args:
        d: the diagonal, of shape (n,).
        e: the elements above the diagonal, of shape (n - 1,).
        eigvals_only: return only the eigenvalues.
        select: ``'a'`` for all eigenvalues, ``'i'`` for those at the indices ``select_range``.
        select_range: the first and last index of the eigenvalues to return, both included.
        tol: how close the eigenvalues must be to the exact ones. By default as close as the dtype
            allows.
        key: accepted for JAX, no effect.

    Returns:
        The eigenvalues in ascending order; without ``eigvals_only`` a pair of them and the
        eigenvectors as columns.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> d, e = jnp.array([2., 2., 2.]), jnp.array([1., 1.])
        >>> linalg.eigh_tridiagonal(d, e, eigvals_only=True).round(4)
        Array([0.5858, 2.    , 3.4142], dtype=float32)
    """
    d, e = jnp.asarray(d), jnp.asarray(e)
    known = (np.float32, np.float64, np.complex64, np.complex128)
    if d.dtype != e.dtype or d.dtype not in known:
        raise TypeError(
            f"eigh_tridiagonal needs d and e of one float or complex dtype, got {d.dtype} and"
            f" {e.dtype}"
        )
    n = d.shape[0]
    if select == "a":
        first, last = 0, n - 1
    elif select == "i":
        if select_range is None:
            raise ValueError("eigh_tridiagonal with select='i' needs select_range=(first, last)")
        first, last = map(int, select_range)
        if first > last:
            raise ValueError(f"select_range {select_range} is empty")
    elif select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal cannot select by value, because the size of the result would depend "
            "on values; use select='a' and a mask"
        )
    else:
        raise ValueError(f"select must be 'a', 'i' or 'v', got {select!r}")
    values, vectors = _eigh(d, e, tol, first, last, eigvals_only)
    return values if eigvals_only else (values, vectors)


@jit(static_argnums=(3, 4, 5))
def _eigh(
    d: Array, e: Array, tol: Any, first: int, last: int, only: bool
) -> tuple[Array, Array | None]:
    diagonal = d.real
    if d.shape[0] <= 1:
        unit = jnp.eye(d.shape[0], dtype=d.dtype)
        return diagonal[first : last + 1], None if only else unit[:, first : last + 1]
    wanted = jnp.arange(first, last + 1, dtype=np.int32)
    values = _bisect(diagonal, jnp.abs(e), wanted, tol)
    return values, None if only else _vectors(diagonal.astype(d.dtype), e, values)


def _bisect(d: Array, e: Array, wanted: Array, tol: Any) -> Array:
    """The eigenvalues with the wanted indices, from how many lie below a point."""
    info = dtypes.finfo(d.dtype)
    eps, tiny = float(info.eps), float(info.tiny)
    squares = e * e
    zero = jnp.zeros(1, e.dtype)
    radius = jnp.concatenate([zero, e]) + jnp.concatenate([e, zero])
    low, high = (d - radius).min(), (d + radius).max()
    size = jnp.maximum(jnp.abs(low), jnp.abs(high))
    least = tiny * jnp.maximum(1, squares.max())
    slack = 2.1 * (d.shape[0] * eps * size + 2 * least)
    bound = eps * size
    if tol is not None:
        bound = jnp.maximum(bound, tol)

    def count_below(x: Array) -> Array:
        """Sturm's count: the negative pivots of T - x."""

        def step(state: Any, row: Any) -> Any:
            pivot, count = state
            here, square = row
            pivot = here - x - square / pivot
            pivot = jnp.where(jnp.abs(pivot) < least, -least, pivot)
            return (pivot, count + (pivot < 0)), None

        start = (jnp.ones_like(x), jnp.zeros(x.shape, np.int32))
        rows = (d, jnp.concatenate([jnp.zeros(1, d.dtype), squares]))
        (_, count), _ = lax.scan(step, start, rows)
        return count

    def unfinished(state: Any) -> Any:
        i, low, high = state
        return (i <= info.nmant + 2) & (bound < (high - low).max())

    def step(state: Any) -> Any:
        i, low, high = state
        middle = (low + high) / 2
        above = count_below(middle) > wanted
        return i + 1, jnp.where(above, low, middle), jnp.where(above, middle, high)

    start = (jnp.full(wanted.shape, low - slack), jnp.full(wanted.shape, high + slack))
    _, low, high = lax.while_loop(unfinished, step, (0, *start))
    return (low + high) / 2


def _vectors(d: Array, e: Array, values: Array) -> Array:
    """Eigenvectors as columns; those of close eigenvalues are kept orthogonal by QR."""
    n, k = d.shape[0], values.shape[0]
    zero = jnp.zeros(1, e.dtype)
    below = jnp.broadcast_to(jnp.concatenate([zero, e.conj()]), (k, n))
    above = jnp.broadcast_to(jnp.concatenate([e, zero]), (k, n))
    shifted = d - values[:, None].astype(d.dtype)
    # Starts without a pattern that an eigenvector could be orthogonal to.
    at = jnp.arange(n * k, dtype=values.dtype).reshape(k, n)
    start = (jnp.cos(at * 2.399963) + 1.5).astype(d.dtype)

    def step(_: Any, x: Array) -> Array:
        x = lax.linalg.tridiagonal_solve(
            below, shifted, above, x[..., None], perturb_singular=True
        )[..., 0]
        x = x / jnp.linalg.norm(x, axis=-1, keepdims=True).astype(x.dtype)
        q, r = jnp.linalg.qr(x.T)
        phase = jnp.diagonal(r)
        size = jnp.abs(phase)
        return (q * jnp.where(size == 0, 1, phase / size.astype(q.dtype))).T

    return lax.fori_loop(0, 4, step, start).T
