"""Polynomials by their coefficients, the highest power first."""

from __future__ import annotations

import operator
from typing import Any, Literal, overload

import numpy as np

from weft import dtypes, lax
from weft.api.jit import jit
from weft.base.lazy import Late
from weft.core.array import Array
from weft.lax.shape import broadcast_shapes
from weft.numpy.broadcasting import choose_where, filled
from weft.numpy.calculus import convolve
from weft.numpy.contraction import dot, outer
from weft.numpy.creation import arange, array, asarray, full, ones, zeros
from weft.numpy.indexing import getitem, update_index
from weft.numpy.manipulation import atleast_1d, concatenate, transpose
from weft.numpy.matrices import diag, vander
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    ensure_arrays,
    promote_dtypes,
    promote_dtypes_inexact,
)
from weft.numpy.rearranging import roll, trim_zeros
from weft.numpy.reductions import all, argmin, prod, sum
from weft.numpy.ufuncs import add, equal, less, maximum, multiply, negative, subtract, true_divide
from weft.numpy.unary import absolute, sqrt
from weft.prims.families import scalar

# of interest to the roots and fits alone
_linalg = Late("weft.numpy.linalg")


def _inexact(name: str, *args: Any) -> list[Any]:
    return [as_array(x) for x in promote_dtypes_inexact(*ensure_arrays(name, *args))]


def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """Return the roots of a polynomial, as eigenvalues of its companion matrix.

    Args:
        p: Vector of coefficients, highest power first.
        strip_zeros: If true, leading zeros are removed first, which needs concrete values. Set it
            to False under ``jit``.

    Returns:
        Complex vector of the roots; with ``strip_zeros=False`` padded with NaN to length
        ``len(p) - 1``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sort(jnp.roots(jnp.array([1.0, -3.0, 2.0])).real).round()
        Array([1., 2.], dtype=float32)
    """
    (p,) = _inexact("roots", p)
    p = atleast_1d(p)
    if p.ndim != 1:
        raise ValueError(f"roots takes a vector of coefficients, got shape {p.shape}")
    if p.size < 2:
        return filled((0,), scalar(dtypes.to_complex_dtype(p.dtype), 0))
    if strip_zeros:
        known = concrete(p, "roots of a traced polynomial needs strip_zeros=False")
        used = np.flatnonzero(np.asarray(known))
        return _companion_roots(getitem(p, slice(used[0] if used.size else p.size, None)))
    leading = choose_where(all(equal(p, 0)), p.shape[0], argmin(equal(p, 0)))
    p = choose_where(equal(leading, p.shape[0]), 1.0, p)
    found = _companion_roots(roll(p, negative(leading)))
    found = lax.sort_key_val(equal(found, 0), found)[1]
    valid = less(arange(found.size), subtract(found.size, leading))
    return choose_where(valid, found, complex(np.nan, np.nan))


@jit
def _companion_roots(p: Any) -> Any:
    """Eigenvalues of the companion matrix."""
    if p.size < 2:
        return filled((0,), scalar(dtypes.to_complex_dtype(p.dtype), 0))
    matrix = diag(ones(p.size - 2, p.dtype), -1)
    first = true_divide(negative(getitem(p, slice(1, None))), getitem(p, 0))
    return _linalg.eigvals(update_index(matrix, (0, slice(None)), first, lax.scatter))


@overload
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: Literal[False] = False,
    w: Any = None,
    cov: Literal[False] = False,
) -> Array: ...
@overload
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    *,
    full: Literal[True],
    w: Any = None,
    cov: bool | str = False,
) -> tuple[Array, ...]: ...
@overload
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    *,
    cov: Literal[True, "unscaled"],
) -> tuple[Array, Array]: ...
@overload
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any: ...
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Array | tuple[Array, ...]:
    """Return the coefficients of the polynomial that fits points best, by least squares.

    Args:
        x: Vector of n sample points.
        y: Vector of n values, or matrix (n, k) of k sets of values.
        deg: Degree of the polynomial, a static integer.
        rcond: Singular values below ``rcond`` times the largest count as zero; by default
            ``n * eps``.
        full: If true, also return residuals, rank, singular values and ``rcond``.
        w: Vector of n weights, which multiply the residuals.
        cov: If true, also return the covariance of the coefficients; "unscaled" leaves out the
            scale of the residuals.

    Returns:
        Coefficients, highest power first, of shape (deg + 1,) or (deg + 1, k); with ``full`` or
        ``cov`` a tuple.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polyfit(jnp.array([0.0, 1.0, 2.0]), jnp.array([1.0, 3.0, 5.0]), 1).round(3)
        Array([2., 1.], dtype=float32)
    """
    x, y = ensure_arrays("polyfit", x, y)
    order = int(concrete(deg, "polyfit needs a concrete degree")) + 1
    _check_fit(x, y, order)
    usual = rcond is None
    if rcond is None:
        rcond = x.shape[0] * float(dtypes.finfo(x.dtype).eps)
    rcond = float(concrete(rcond, "polyfit needs a concrete rcond"))
    left, right = vander(x, order), y
    if w is not None:
        (weights,) = _inexact("polyfit", w)
        if weights.ndim != 1 or weights.shape != y.shape[:1]:
            raise TypeError(f"polyfit needs weights of shape {y.shape[:1]}, got {weights.shape}")
        column = lax.expand_dims(weights, (1,))
        left = multiply(left, column)
        right = multiply(right, column if right.ndim == 2 else weights)
    scale = sqrt(sum(multiply(left, left), axis=0))
    row = lax.expand_dims(scale, (0,))
    left = true_divide(left, row)
    usual = usual and x.shape[0] >= order and left.dtype == x.dtype  # then lstsq knows it as well
    fit, residuals, rank, singular = _linalg.lstsq(left, right, None if usual else rcond)
    if fit.ndim > 1:
        fit = transpose(true_divide(transpose(fit), row))
    else:
        fit = true_divide(fit, scale)
    if full:
        return fit, residuals, rank, singular, asarray(rcond)
    if cov:
        return fit, _fit_covariance(left, scale, residuals, x.shape[0], order, y.ndim, cov)
    return fit


def _check_fit(x: Any, y: Any, order: int) -> None:
    if order < 1:
        raise ValueError("polyfit needs a non-negative degree")
    if x.ndim != 1 or x.size == 0:
        raise TypeError(f"polyfit takes a non-empty vector x, got shape {x.shape}")
    if y.ndim not in (1, 2):
        raise TypeError(f"polyfit takes y of one or two dimensions, got shape {y.shape}")
    if x.shape[0] != y.shape[0]:
        raise TypeError(f"polyfit needs x and y of the same length, got {x.shape} and {y.shape}")


def _fit_covariance(
    left: Any, scale: Any, residuals: Any, count: int, order: int, ndim: int, cov: Any
) -> Any:
    base = _linalg.inv(dot(transpose(left), left))
    base = true_divide(base, outer(scale, scale))
    if cov == "unscaled":
        factor: Any = array(1.0)
    elif count <= order:
        raise ValueError("polyfit needs more points than coefficients to scale the covariance")
    else:
        factor = true_divide(residuals, count - order)
    factor = atleast_1d(factor)
    if ndim == 1:
        return multiply(base, lax.expand_dims(factor, (0,)))
    return multiply(lax.expand_dims(base, (2,)), lax.expand_dims(factor, (0, 1)))


def poly(seq_of_zeros: Any) -> Array:
    """Return the coefficients of the polynomial with given roots.

    Args:
        seq_of_zeros: Vector of roots, or a square matrix, whose characteristic polynomial is
            returned.

    Returns:
        Vector of coefficients, highest power first; the first is 1. Complex for a matrix.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.poly(jnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros_,) = _inexact("poly", seq_of_zeros)
    zeros_ = atleast_1d(zeros_)
    if zeros_.ndim == 2 and zeros_.shape[0] == zeros_.shape[1] != 0:
        zeros_ = _linalg.eigvals(zeros_)
    if zeros_.ndim != 1:
        raise ValueError(f"poly takes a vector or a square matrix, got shape {zeros_.shape}")
    dtype = zeros_.dtype
    if not zeros_.shape[0]:
        return ones((), dtype)
    out = ones((1,), dtype)
    for k in range(zeros_.shape[0]):
        factor = array([1, negative(getitem(zeros_, k))], dtype=dtype)
        out = convolve(out, factor, mode="full")
    return out


def _check_vectors(name: str, *polynomials: Any) -> None:
    if any(p.ndim == 0 for p in polynomials):
        raise TypeError(f"{name} takes vectors of coefficients, got a number; write [number]")


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Array:
    """Return the values of a polynomial, by Horner's scheme.

    Args:
        p: Vector of coefficients, highest power first.
        x: Array of points.
        unroll: Number of steps of the loop that are unrolled when compiled.

    Returns:
        Array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polyval(jnp.array([1, 0, 2]), 3).item()
        11
    """
    check_arraylike("polyval", p, x)
    p, x = (as_array(v) for v in promote_dtypes(p, x, staged=True))
    _check_vectors("polyval", p)
    shape = broadcast_shapes(p.shape[1:], x.shape)
    start = filled(shape, scalar(x.dtype, 0))

    def step(total: Any, coefficient: Any) -> tuple[Any, None]:
        return add(multiply(total, x), coefficient), None

    out, _ = lax.scan(step, start, p, unroll=unroll)
    return out


def polyadd(a1: Any, a2: Any) -> Array:
    """Return the sum of two polynomials.

    Args:
        a1: First polynomial: a vector of coefficients, highest power first.
        a2: Second polynomial.

    Returns:
        Vector of coefficients, highest power first.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([3]))
        Array([1, 5], dtype=int32)
    """
    x, y = (as_array(v) for v in promote_dtypes(*ensure_arrays("polyadd", a1, a2)))
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return update_index(x, slice(-y.shape[0], None), y, lax.scatter_add)


def polysub(a1: Any, a2: Any) -> Array:
    """Return the difference of two polynomials.

    Args:
        a1: First polynomial: a vector of coefficients, highest power first.
        a2: Second polynomial.

    Returns:
        Vector of coefficients, highest power first.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polysub(jnp.array([1, 2]), jnp.array([3]))
        Array([ 1, -1], dtype=int32)
    """
    x, y = promote_dtypes(*ensure_arrays("polysub", a1, a2))
    return polyadd(x, negative(y))


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Array:
    """Return the product of two polynomials.

    Args:
        a1: First polynomial: a vector of coefficients, highest power first.
        a2: Second polynomial.
        trim_leading_zeros: If true, leading zeros are removed first, which needs concrete values.

    Returns:
        Vector of coefficients, highest power first.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polymul(jnp.array([1, 2]), jnp.array([1, 3]))
        Array([1., 5., 6.], dtype=float32)
    """
    x, y = _inexact("polymul", a1, a2)
    _check_vectors("polymul", x, y)
    if trim_leading_zeros and (x.shape[0] > 1 or y.shape[0] > 1):
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    x = x if x.shape[0] else zeros(1, y.dtype)
    y = y if y.shape[0] else zeros(1, x.dtype)
    return convolve(x, y, mode="full")


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Return quotient and remainder of the division of two polynomials.

    Args:
        u: Dividend: a vector of coefficients, highest power first.
        v: Divisor, whose first coefficient is not 0.
        trim_leading_zeros: If true, leading zeros of the remainder are removed, which needs
            concrete values.

    Returns:
        Pair of vectors of coefficients, highest power first.

    Differs from NumPy: unless ``trim_leading_zeros`` is set, the remainder keeps its leading zeros.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polydiv(jnp.array([1.0, 5.0, 6.0]), jnp.array([1.0, 2.0]))[0]
        Array([1., 3.], dtype=float32)
    """
    u, v = _inexact("polydiv", u, v)
    if u.ndim != 1 or v.ndim != 1:
        error = _no_vectors(u.shape, v.shape)
        raise error(f"polydiv takes vectors of coefficients, got {u.shape} and {v.shape}")
    quotient, rest = _divided(u, v)
    if trim_leading_zeros:
        rest = _without_leading(rest, np.sqrt(float(dtypes.finfo(u.dtype).eps)))
    return quotient, rest


def _no_vectors(u: tuple[int, ...], v: tuple[int, ...]) -> type[Exception]:
    """The class of the error for shapes of others than vectors, which JAX meets in its products:
    ``TypeError`` for a scalar and for coefficients of one rank that do not broadcast."""
    if not u or not v:
        return TypeError
    fits = [m == n or 1 in (m, n) for m, n in zip(u[1:], v[1:])]
    return ValueError if len(u) != len(v) or False not in fits else TypeError


@jit
def _divided(u: Any, v: Any) -> tuple[Any, Any]:
    """Quotient and remainder, by a loop that may be long: a program, for any number of them."""
    steps = u.shape[0] - v.shape[0] + 1
    scale = true_divide(1.0, getitem(v, 0))
    quotient = zeros(steps if steps > 1 else 1, u.dtype)

    def divide(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        quotient, rest = state
        part = lax.dynamic_slice_in_dim(rest, k, v.shape[0])
        factor = multiply(scale, getitem(part, 0))
        rest = lax.dynamic_update_slice_in_dim(rest, add(part, multiply(negative(factor), v)), k, 0)
        return lax.dynamic_update_index_in_dim(quotient, factor, k, 0), rest

    return lax.fori_loop(0, steps, divide, (quotient, u)) if steps > 0 else (quotient, u)


def _without_leading(x: Any, tolerance: float) -> Any:
    """A polynomial without leading coefficients that are zero within a tolerance."""
    small = less(absolute(x), tolerance)
    known = np.asarray(concrete(small, "polydiv needs values to trim zeros"))
    if known.all():
        return zeros(0, x.dtype)
    return getitem(x, slice(int(np.argmin(known)), None))


def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """Return the integral of a polynomial.

    Args:
        p: Vector of coefficients, highest power first.
        m: How many times to integrate, a static integer.
        k: Constants of integration: a vector of ``m`` numbers, or one number for all; 0 by default.

    Returns:
        Vector of coefficients, highest power first, longer by ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polyint(jnp.array([2.0, 1.0]))
        Array([1., 1., 0.], dtype=float32)
    """
    times = operator.index(concrete(m, "polyint needs a concrete order"))
    if times < 0:
        raise ValueError(f"polyint needs a non-negative order, got {times}")
    p, constants = _inexact("polyint", p, 0 if k is None else k)
    _check_vectors("polyint", p)
    constants = atleast_1d(constants)
    if constants.shape[0] == 1:
        constants = full((times,), getitem(constants, 0))
    if constants.shape != (times,):
        raise ValueError(f"polyint needs {times} constants or one, got shape {constants.shape}")
    if times == 0:
        return p
    factors = prod(maximum(1, _falling(0, p.shape[0] + times, times, p.dtype)), 0)
    factors = lax.rev(factors, (0,))
    return true_divide(concatenate((p, constants)), factors)


def _falling(start: int, stop: int, times: int, dtype: Any) -> Any:
    """Rows ``n, n - 1, ...`` for each exponent n."""
    exponents = lax.expand_dims(arange(start, stop, dtype=dtype), (0,))
    return subtract(exponents, lax.expand_dims(arange(times, dtype=dtype), (1,)))


def polyder(p: Any, m: int = 1) -> Array:
    """Return the derivative of a polynomial.

    Args:
        p: Vector of coefficients, highest power first.
        m: How many times to differentiate, a static integer.

    Returns:
        Vector of coefficients, highest power first, shorter by ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.polyder(jnp.array([1.0, 1.0, 0.0]))
        Array([2., 1.], dtype=float32)
    """
    times = operator.index(concrete(m, "polyder needs a concrete order"))
    (p,) = _inexact("polyder", p)
    _check_vectors("polyder", p)
    if times < 0:
        raise ValueError(f"polyder needs a non-negative order, got {times}")
    if times == 0:
        return p
    factors = prod(_falling(times, p.shape[0], times, p.dtype), 0)
    return multiply(getitem(p, slice(None, -times)), lax.rev(factors, (0,)))
