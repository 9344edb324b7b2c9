"""Sums of exponentials, shared by ``scipy.special`` and ``nn``: logsumexp, softmax, log_softmax."""

from __future__ import annotations

import functools
from typing import Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.base import knobs
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.numpy.operands import inexact
from weft.numpy.promotion import check_arraylike

Axis = int | tuple[int, ...] | None


@overload
def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: Any = None,
) -> Array: ...
@overload
def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
    where: Any = None,
) -> tuple[Array, Array]: ...
@overload
def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any: ...
def logsumexp(
    a: Any,
    axis: Axis = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Array | tuple[Array, Array]:
    """Return log(sum(b exp(a))) over some axes, without overflow.

    Args:
        a: the exponents.
        axis: the axis or axes to reduce. By default all.
        b: factors of the exponentials, which broadcast against ``a``. By default 1.
        keepdims: keep the reduced axes, with size 1.
        return_sign: return the logarithm of the sum's absolute value, and the sum's sign. Without
            it a negative sum gives NaN.
        where: a mask that broadcasts to ``a``; elements where it is False are left out.

    Returns:
        An array of the reduced shape; with ``return_sign`` a pair of arrays.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.special import logsumexp
        >>> logsumexp(jnp.array([-1000.0, 1000.0]))
        Array(1000., dtype=float32)
    """
    if where is not None:
        a = jnp.where(where, a, 0)
    if b is None:
        (a,) = inexact("logsumexp", a)
    else:
        a, b = inexact("logsumexp", a, b)
        a = jnp.where(b != 0, a, -np.inf)
    top = jnp.max(jnp.real(a), axis=axis, keepdims=keepdims, where=where, initial=-np.inf)
    # Any finite shift serves; that of an infinite maximum would make NaN of inf - inf.
    top = lax.stop_gradient(lax.select(jnp.isfinite(top), top, lax.full_like(top, 0)))
    shift = top if keepdims else _expanded(top, axis, np.ndim(a))
    terms = jnp.exp(a - shift.astype(jnp.asarray(a).dtype))
    if b is not None:
        terms = terms * b
    total = jnp.sum(terms, axis=axis, keepdims=keepdims, where=where)
    sign = jnp.sign(total)
    is_complex = dtypes.issubdtype(total.dtype, np.complexfloating)
    if return_sign or not is_complex:
        total = jnp.abs(total)
    out = jnp.log(total) + top.astype(total.dtype)
    if return_sign:
        return out, sign
    if b is not None and not is_complex:
        # that a negative sum has no logarithm is the answer, not a mistake on the way
        with knobs.debug_nans(False):
            out = jnp.where(sign < 0, np.nan, out)
    return out


def _expanded(x: Any, axis: Axis, ndim: int) -> Any:
    """A reduction's result with its reduced axes back, at size 1."""
    axes = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return lax.expand_dims(x, [i % ndim for i in axes]) if ndim else x


def _exponentials(x: Any, axis: Axis, where: Any, initial: Any, top: Any) -> tuple[Any, Any]:
    """exp(x - top), and its sum, over the elements that count."""
    chosen = x if where is None else jnp.where(where, x, initial)
    terms = jnp.exp(chosen - top)
    return terms, jnp.sum(terms, axis, where=where, keepdims=True)


def _softmax(x: Any, axis: Axis, where: Any, initial: Any, top: Any) -> Any:
    terms, total = _exponentials(x, axis, where, initial, top)
    result = terms / total
    return result if where is None else jnp.where(where, result, 0)


def _largest(x: Any, axis: Axis, where: Any, initial: Any) -> Any:
    return jnp.max(x, axis, where=where, initial=initial, keepdims=True)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax_with_rule(x: Any, axis: Axis, where: Any, initial: Any) -> Any:
    return _softmax(x, axis, where, initial, _largest(x, axis, where, initial))


@_softmax_with_rule.defjvp
def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> Any:
    (x, where, initial), (dx, _, _) = primals, tangents
    y = _softmax_with_rule(x, axis, where, initial)
    return y, y * (dx - jnp.sum(y * dx, axis, where=where, keepdims=True))


def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Array:
    """Return exp(x), scaled to sum to 1 along an axis.

    Args:
        x: an array, or what ``jnp.asarray`` accepts.
        axis: the axis or axes along which the result sums to 1; None for all.
        where: a mask that broadcasts to ``x``. The result is 0 where it is False, and the rest sums
            to 1.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.softmax(jnp.array([0.0, 0.0]))
        Array([0.5, 0.5], dtype=float32)
    """
    if knobs.softmax_custom_jvp.value:
        return _softmax_with_rule(x, axis, where, -np.inf)
    top = lax.stop_gradient(_largest(x, axis, where, -np.inf))
    return _softmax(x, axis, where, -np.inf, top)


def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Array:
    """Return the logarithm of softmax, without underflow.

    Args:
        x: an array, or what ``jnp.asarray`` accepts.
        axis: the axis or axes along which the exponentials sum to 1; None for all.
        where: a mask that broadcasts to ``x``. The result is -inf where it is False.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.log_softmax(jnp.array([0.0, 1000.0]))
        Array([-1000.,     0.], dtype=float32)
    """
    check_arraylike("log_softmax", x)
    x = jnp.asarray(x)
    top = lax.stop_gradient(_largest(x, axis, where, -np.inf))
    shifted = (x if where is None else jnp.where(where, x, -np.inf)) - top
    total = jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True)
    result = shifted - jnp.log(total)
    return result if where is None else jnp.where(where, result, -np.inf)
