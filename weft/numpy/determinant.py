"""Determinants and their logarithms, with derivatives that hold for singular matrices too."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.api.jit import jit
from weft.base.lazy import Late
from weft.base.record import Record
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.numpy.creation import asarray
from weft.numpy.promotion import check_arraylike, promote_dtypes_inexact
from weft.prims.linalg.lu import lu_p
from weft.prims.linalg.matrix import concatenate, diagonal, iota, is_complex, take_rows
from weft.prims.linalg.qr import geqrf_p
from weft.prims.linalg.solve import triangular_solve

linear_solve = Late("weft.lax.linear_solve")


class SlogdetResult(Record):
    sign: Array
    logabsdet: Array


def _square(name: str, a: Any) -> Any:
    check_arraylike(f"jnp.linalg.{name}", a)
    (a,) = promote_dtypes_inexact(asarray(a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name} needs square matrices of shape (..., n, n), got {a.shape}")
    return a


def _parity(pivots: Any) -> Any:
    """How many rows were swapped."""
    moved = pivots != lax.expand_dims(iota(pivots.shape[-1:], 0), range(pivots.ndim - 1))
    return moved.sum(-1)


def _alternate(parity: Any, dtype: Any) -> Any:
    """1 for even counts, -1 for odd ones."""
    return (1 - 2 * (parity % 2)).astype(dtype)


# --- sign and logarithm ---------------------------------------------------------------------------


@jit(static_argnames=("method",))
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Return the sign and the logarithm of the absolute value of the determinant.

    Args:
        a: Array of shape (..., n, n).
        method: Factorisation to use: "lu" (the default) or "qr".

    Returns:
        Named tuple of ``sign`` (of modulus 1, or 0 for singular matrices) and ``logabsdet`` (-inf
        for singular ones), of shape (...,).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.slogdet(jnp.array([[0., 1.], [1., 0.]]))
        SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    a = _square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet takes method 'lu' or 'qr', got {method!r}")
    if method == "qr":
        return SlogdetResult(*_slogdet_qr(a))
    small = a.shape[-1] in (1, 2)
    return SlogdetResult(*(_slogdet_small if small else _slogdet_lu)(a))


def _sign_and_log_tangents(a: Any, sign: Any, ratio: Any) -> tuple[Any, Any]:
    """Tangents of sign and logarithm, from det'/det."""
    if not is_complex(a):
        return lax.full_like(sign, 0), ratio
    real = lax.real(ratio)
    return (ratio - real.astype(ratio.dtype)) * sign, real


def _small_determinant(a: Any) -> Any:
    if a.shape[-1] == 1:
        return a[..., 0, 0]
    return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]


@custom_jvp
def _slogdet_small(a: Any) -> tuple[Any, Any]:
    value = _small_determinant(a)
    return lax.sign(value), lax.log(lax.abs(value))


@_slogdet_small.defjvp
def _slogdet_small_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (a,), (g,) = primals, tangents
    out = _slogdet_small(a)
    if a.shape[-1] == 1:
        ratio = g[..., 0, 0] / a[..., 0, 0]
    else:
        change = g[..., 0, 0] * a[..., 1, 1] - g[..., 0, 1] * a[..., 1, 0]
        change = change - g[..., 1, 0] * a[..., 0, 1] + g[..., 1, 1] * a[..., 0, 0]
        ratio = change / _small_determinant(a)
    return out, _sign_and_log_tangents(a, out[0], ratio)


def _slogdet_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """(log det)' = trace(A⁻¹ A')."""
    (a,), (g,) = primals, tangents
    sign, log = slogdet(a)
    fun = linear_solve.solve
    ratio = diagonal(fun(a, g)).sum(-1)
    return (sign, log), _sign_and_log_tangents(a, sign, ratio)


@custom_jvp
def _slogdet_lu(a: Any) -> tuple[Any, Any]:
    packed, pivots, _ = lu_p.bind(a)
    values = diagonal(packed)
    singular = (values == 0).any(-1)
    parity = _parity(pivots)
    if is_complex(a):
        sign = (values / lax.abs(values).astype(a.dtype)).prod(-1)
    else:
        sign = 1
        parity = parity + (values < 0).sum(-1)
    sign = sign * _alternate(parity, a.dtype)
    log = lax.log(lax.abs(values)).sum(-1)
    return (
        lax.select(singular, lax.full_like(sign, 0), sign),
        lax.select(singular, lax.full_like(log, -np.inf), log),
    )


@custom_jvp
def _slogdet_qr(a: Any) -> tuple[Any, Any]:
    if is_complex(a):
        raise NotImplementedError("slogdet with method='qr' takes real matrices: use method='lu'")
    packed, taus = geqrf_p.bind(a)
    values = diagonal(packed)
    # Each reflector that was applied (a factor other than 0) has determinant -1.
    count = (taus[..., : a.shape[-1] - 1] != 0).sum(-1)
    sign = lax.sign(values).prod(-1) * _alternate(count, a.dtype)
    return sign, lax.log(lax.abs(values)).sum(-1)


_slogdet_lu.defjvp(_slogdet_jvp)
_slogdet_qr.defjvp(_slogdet_jvp)


# --- the determinant ------------------------------------------------------------------------------


@jit
def det(a: Any) -> Array:
    """Return the determinants of square matrices.

    Args:
        a: Array of shape (..., n, n); integers are converted to the default float type.

    Returns:
        Array of shape (...,).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.det(jnp.array([[2., 1.], [1., 3.]]))
        Array(5., dtype=float32)
    """
    a = _square("det", a)
    n = a.shape[-1]
    if n == 2:
        return _small_determinant(a)
    if n == 3:
        return _det_3x3(a)
    return _det(a)


def _det_3x3(a: Any) -> Any:
    def product(i: int, j: int, k: int) -> Any:
        return a[..., 0, i] * a[..., 1, j] * a[..., 2, k]

    even = product(0, 1, 2) + product(1, 2, 0) + product(2, 0, 1)
    return even - product(2, 1, 0) - product(0, 2, 1) - product(1, 0, 2)


@custom_jvp
def _det(a: Any) -> Any:
    sign, log = slogdet(a)
    return sign * lax.exp(log).astype(sign.dtype)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """det' = trace(adj(A) A'), also where A is singular of rank n - 1."""
    (a,), (g,) = primals, tangents
    value, product = _adjugate_product(a, g)
    return value, diagonal(product).sum(-1)


def _adjugate_product(a: Any, b: Any) -> tuple[Any, Any]:
    """det(A) and adj(A) B = det(A) A⁻¹ B, which stays finite when the last pivot is zero.

    With P A = L U, the last row of the result needs only det(A)/u_nn, which the other pivots
    give; so u_nn is replaced by its reciprocal share and the rows above are scaled by det(A).
    """
    n = a.shape[-1]
    if n == 1:
        return a[..., 0, 0], b
    packed, pivots, permutation = lu_p.bind(a)
    values = diagonal(packed)
    sign = _alternate(_parity(pivots), a.dtype)
    partial_det = lax.cumprod(values, values.ndim - 1) * sign[..., None]
    packed = packed.at[..., -1, -1].set(1.0 / partial_det[..., -2])
    # Rank n - 2 or less: the adjugate is zero.
    ones = lax.full_like(b, 1, shape=(*b.shape[:-1], 1))
    trial = triangular_solve(packed, ones, left_side=True)
    bad = (~lax.is_finite(lax.abs(trial))).any((-2, -1))
    bad = lax.broadcast_in_dim(bad, b.shape, tuple(range(bad.ndim)))
    zeros = lax.full_like(b, 0)
    x = take_rows(lax.select(bad, zeros, b), permutation)
    x = triangular_solve(packed, x, left_side=True, lower=True, unit_diagonal=True)
    scaled = x[..., :-1, :] * partial_det[..., -1, None, None]
    x = concatenate([scaled, x[..., -1:, :]], -2)
    x = triangular_solve(packed, x, left_side=True)
    return partial_det[..., -1], lax.select(bad, zeros, x)
