"""Quantiles, covariances and histograms."""

from __future__ import annotations

import operator
from math import prod as _prod
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import divided_as
from weft.base import errors
from weft.core.array import Array
from weft.core.dims.dim import whole
from weft.core.trace import Tracer
from weft.lax.shape import canonical_axis
from weft.numpy.averages import average
from weft.numpy.broadcasting import choose_where, filled, full_of
from weft.numpy.calculus import diff
from weft.numpy.contraction import dot
from weft.numpy.creation import asarray, ones_like, zeros
from weft.numpy.index_functions import take_along_axis
from weft.numpy.indexing import getitem, update_index
from weft.numpy.manipulation import (
    atleast_2d,
    concatenate,
    ravel,
    reshape,
    squeeze,
    transpose,
)
from weft.numpy.matrices import diag
from weft.numpy.parts import conjugate, imag, real
from weft.numpy.positions import ix_, ravel_multi_index
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    convert_operand,
    ensure_array,
    ensure_arrays,
    promote_args_inexact,
    promote_dtypes_inexact,
)
from weft.numpy.ranges import linspace
from weft.numpy.reductions import any, clip, cumsum, max, min, ptp, sum
from weft.numpy.sorting import searchsorted
from weft.numpy.ufuncs import add, equal, multiply, subtract, true_divide
from weft.numpy.unary import absolute, sqrt
from weft.prims.families import COMPLEX, const, kind_of, scalar
from weft.prims.index_dims import GatherDimensionNumbers, GatherScatterMode

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


# --- quantiles ------------------------------------------------------------------------------------


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """Return the values below which given fractions of the elements lie.

    Args:
        a: Array of real numbers; integers are converted to the default float type.
        q: Fraction or array of fractions, each from 0 to 1.
        axis: Axis or tuple of axes to reduce; by default all.
        out: Must be None; arrays are immutable.
        overwrite_input: Must be False; arrays are immutable.
        method: What to do between two elements: "linear" (interpolate), "lower", "higher",
            "midpoint", "nearest" or "inverted_cdf".
        keepdims: If true, reduced axes stay with size 1.
        weights: Weights with the shape of ``a``, or with its shape along ``axis``; only with
            ``method="inverted_cdf"``.

    Returns:
        Floating-point array of shape ``q.shape`` followed by the axes that are left; NaN if an
        element is NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.quantile(jnp.arange(5.0), 0.25).item()
        1.0
    """
    _refuse_overwriting("quantile", overwrite_input, out)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """Return quantiles of the elements that are not NaN.

    Args:
        a: Array of real numbers; integers are converted to the default float type.
        q: Fraction or array of fractions, each from 0 to 1.
        axis: Axis or tuple of axes to reduce; by default all.
        out: Must be None; arrays are immutable.
        overwrite_input: Must be False; arrays are immutable.
        method: What to do between two elements: "linear" (interpolate), "lower", "higher",
            "midpoint", "nearest" or "inverted_cdf".
        keepdims: If true, reduced axes stay with size 1.
        weights: Weights with the shape of ``a``, or with its shape along ``axis``; only with
            ``method="inverted_cdf"``.

    Returns:
        Floating-point array of shape ``q.shape`` followed by the axes that are left.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanquantile(jnp.array([0.0, 1.0, 2.0, jnp.nan]), 0.5).item()
        1.0
    """
    _refuse_overwriting("nanquantile", overwrite_input, out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the values below which given percentages of the elements lie.

    Args:
        a: Array of real numbers; integers are converted to the default float type.
        q: Percentage or array of percentages, each from 0 to 100.
        axis: Axis or tuple of axes to reduce; by default all.
        out: Must be None; arrays are immutable.
        overwrite_input: Must be False; arrays are immutable.
        method: What to do between two elements: "linear" (interpolate), "lower", "higher",
            "midpoint", "nearest" or "inverted_cdf".
        keepdims: If true, reduced axes stay with size 1.
        weights: Weights with the shape of ``a``, or with its shape along ``axis``; only with
            ``method="inverted_cdf"``.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Floating-point array of shape ``q.shape`` followed by the axes that are left; NaN if an
        element is NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.percentile(jnp.arange(5.0), 25).item()
        1.0
    """
    share = _percent("percentile", q)
    rest = (axis, out, overwrite_input, method, keepdims)
    if out_sharding is not None:
        alone = lambda: quantile(a, share, *rest, weights=weights)
        return divided_as(out_sharding, alone, "percentile")
    return quantile(a, share, *rest, weights=weights)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """Return percentiles of the elements that are not NaN.

    Args:
        a: Array of real numbers; integers are converted to the default float type.
        q: Percentage or array of percentages, each from 0 to 100.
        axis: Axis or tuple of axes to reduce; by default all.
        out: Must be None; arrays are immutable.
        overwrite_input: Must be False; arrays are immutable.
        method: What to do between two elements: "linear" (interpolate), "lower", "higher",
            "midpoint", "nearest" or "inverted_cdf".
        keepdims: If true, reduced axes stay with size 1.
        weights: Weights with the shape of ``a``, or with its shape along ``axis``; only with
            ``method="inverted_cdf"``.

    Returns:
        Floating-point array of shape ``q.shape`` followed by the axes that are left.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanpercentile(jnp.array([0.0, 1.0, 2.0, jnp.nan]), 50).item()
        1.0
    """
    share = _percent("nanpercentile", q)
    return nanquantile(a, share, axis, out, overwrite_input, method, keepdims, weights=weights)


def median(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the middle element, or the mean of the two middle ones.

    Args:
        a: Array of real numbers; integers are converted to the default float type.
        axis: Axis or tuple of axes to reduce; by default all.
        out: Must be None; arrays are immutable.
        overwrite_input: Must be False; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.

    Returns:
        Floating-point array without the reduced axes; NaN if an element is NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.median(jnp.array([3.0, 1.0, 2.0])).item()
        2.0
    """
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def nanmedian(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median of the elements that are not NaN.

    Args:
        a: Array of real numbers; integers are converted to the default float type.
        axis: Axis or tuple of axes to reduce; by default all.
        out: Must be None; arrays are immutable.
        overwrite_input: Must be False; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.

    Returns:
        Floating-point array without the reduced axes; NaN where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanmedian(jnp.array([3.0, 1.0, jnp.nan])).item()
        2.0
    """
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def _refuse_overwriting(name: str, overwrite_input: bool, out: Any) -> None:
    if overwrite_input or out is not None:
        raise ValueError(f"{name} does not write to its arguments: arrays are immutable")


def _percent(name: str, q: Any) -> Any:
    check_arraylike(name, q)
    (q,) = promote_dtypes_inexact(q, staged=True)
    return true_divide(q, 100)


def _quantile(
    name: str,
    a: Any,
    q: Any,
    axis: Any,
    method: str,
    keepdims: bool,
    squash: bool,
    weights: Any,
) -> Any:
    if method not in _METHODS:
        raise ValueError(f"{name} has the methods {', '.join(_METHODS)}, got {method!r}")
    x, q = ensure_arrays(name, a, q)
    x, weights = _quantile_operands(name, x, axis, method, weights)
    if kind_of(x.dtype) == COMPLEX:
        raise ValueError(f"{name} does not order complex numbers")
    if q.ndim > 1:
        raise ValueError(f"{name} takes a scalar or a vector q, got shape {q.shape}")
    x, weights, place, kept = _one_axis(x, weights, axis, keepdims)
    if squash:
        x = choose_where(lax.ne(x, x), np.nan, x)
    else:
        x = choose_where(any(lax.ne(x, x), axis=place, keepdims=True), np.nan, x)
    if weights is None:
        x = lax.sort(x, dimension=place)
    else:
        x, weights = lax.sort_key_val(x, weights, dimension=place)
    if method == "inverted_cdf":
        result = _by_weight(x, q, place, keepdims, squash, weights)
    else:
        neighbours = _numbered if squash else _neighbours
        result = _blended(*neighbours(x, q, place, keepdims), method)
    if keepdims and kept:
        sizes = [*q.shape, *kept]
        result = reshape(result, sizes)
    return as_array(convert_operand(result, x.dtype))


def _quantile_operands(name: str, x: Any, axis: Any, method: str, weights: Any) -> tuple[Any, Any]:
    if weights is None:
        (x,) = promote_dtypes_inexact(x)
        return as_array(x), None
    weights = ensure_array(name, weights)
    if kind_of(weights.dtype) == COMPLEX:
        raise ValueError(f"{name} takes real weights")
    if method != "inverted_cdf":
        raise NotImplementedError(f"{name} takes weights with the method 'inverted_cdf' only")
    x, weights = (as_array(v) for v in promote_dtypes_inexact(x, weights))
    if weights.shape != x.shape:
        if axis is None:
            raise ValueError(f"{name} needs an axis for weights of shape {weights.shape}")
        axes = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(canonical_axis(i, x.ndim) for i in axes)
        if weights.shape != tuple(x.shape[i] for i in axes):
            raise ValueError(f"{name} got weights of shape {weights.shape} for axes {axes}")
        weights = lax.broadcast_in_dim(weights, x.shape, axes)
    return x, weights


def _one_axis(x: Any, weights: Any, axis: Any, keepdims: bool) -> tuple[Any, Any, int, list[int]]:
    """Operands with the reduced axes made one, that axis, and the shape to keep if asked for."""
    if axis is None:
        kept = [1] * x.ndim if keepdims else []
        return ravel(x), None if weights is None else ravel(weights), 0, kept
    if not isinstance(axis, tuple):
        return x, weights, canonical_axis(axis, x.ndim), []
    axes = [canonical_axis(i, x.ndim) for i in axis]
    if len(set(axes)) != len(axes):
        raise ValueError(f"repeated axis: {axis}")
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    others = [i for i in range(x.ndim) if i not in axes]
    order = list(range(x.ndim))
    for i, other in enumerate(others):
        order[i], order[other] = order[other], order[i]
    total = _prod(x.shape[i] for i in axes)
    sizes = (*(x.shape[i] for i in others), total)
    x = lax.reshape(x, sizes, order)
    if weights is not None:
        weights = lax.reshape(weights, sizes, order)
    return x, weights, x.ndim - 1, kept


def _positions(q: Any, count: Any) -> tuple[Any, Any, Any, Any]:
    """Indices below and above the place of a quantile, and the weights of both."""
    place = lax.mul(q, lax.sub(count, const(count, 1)))
    low, high = lax.floor(place), lax.ceil(place)
    high_weight = lax.sub(place, low)
    low_weight = lax.sub(const(high_weight, 1), high_weight)
    return low, high, low_weight, high_weight


def _neighbours(x: Any, q: Any, axis: int, keepdims: bool) -> tuple[Any, ...]:
    """The elements on both sides of each quantile of a sorted array, and their weights."""
    count = scalar(q.dtype, x.shape[axis])
    low, high, low_weight, high_weight = _positions(q, count)
    int_dtype = dtypes.default_int_dtype()
    kept = x.ndim + q.ndim - (not keepdims)
    numbers = GatherDimensionNumbers(
        tuple(range(q.ndim, kept)), () if keepdims else (axis,), (axis,)
    )
    sizes = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    bounded, found = [], []
    for index in (low, high):
        last = lax.sub(count, const(count, 1))
        bounded.append(lax.clamp(const(index, 0), index, last))
    for index in [convert_operand(i, int_dtype) for i in bounded]:
        rows = lax.expand_dims(index, (np.ndim(index),))
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
        found.append(lax.gather(x, rows, numbers, sizes, mode=mode))
    if q.ndim:
        low_weight = lax.broadcast_in_dim(low_weight, found[0].shape, (0,))
        high_weight = lax.broadcast_in_dim(high_weight, found[1].shape, (0,))
    return (*found, low_weight, high_weight, q.dtype)


def _numbered(x: Any, q: Any, axis: int, keepdims: bool) -> tuple[Any, ...]:
    """As ``_neighbours``, among the elements that are numbers: they come first."""
    dtype = q.dtype
    counts = sum(lax.bitwise_not(lax.ne(x, x)), axis=axis, dtype=dtype, keepdims=keepdims)
    rest = counts.shape
    spread = lax.expand_dims(q, range(q.ndim, q.ndim + len(rest)))
    counts = lax.expand_dims(counts, range(q.ndim))
    low, high, low_weight, high_weight = _positions(spread, counts)
    bounded = []
    for index in (low, high):
        last = lax.sub(counts, const(counts, 1))
        bounded.append(lax.max(const(index, 0), lax.min(index, last)))
    int_dtype = dtypes.default_int_dtype()
    low, high = (convert_operand(i, int_dtype) for i in bounded)
    shape = (*q.shape, *rest)
    index = [lax.broadcasted_iota(int_dtype, shape, d + q.ndim) for d in range(len(rest))]
    if keepdims:
        index[axis] = low
    else:
        index.insert(axis, low)
    low_value = getitem(x, tuple(index))
    index[axis] = high
    return low_value, getitem(x, tuple(index)), low_weight, high_weight, dtype


def _blended(
    low: Any, high: Any, low_weight: Any, high_weight: Any, dtype: Any, method: str
) -> Any:
    if method == "linear":
        first = lax.mul(convert_operand(low, dtype), low_weight)
        return lax.add(first, lax.mul(convert_operand(high, dtype), high_weight))
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "midpoint":
        return lax.mul(lax.add(low, high), const(low, 0.5))
    nearer = lax.le(high_weight, const(high_weight, 0.5))
    return lax.select(nearer, low, high)


def _by_weight(x: Any, q: Any, axis: int, keepdims: bool, squash: bool, weights: Any) -> Any:
    """The first element at which the weights summed up reach the fraction of their total."""
    weights = full_of(x, 1) if weights is None else weights
    none = full_of(weights, 0)
    bad = lax.bitwise_or(lax.lt(weights, none), lax.ne(weights, weights))
    missing = lax.ne(x, x)
    clean = lax.select(lax.bitwise_or(bad, missing), none, weights)
    running = cumsum(clean, axis=axis)
    total = lax.index_in_dim(running, -1, axis, keepdims=True)
    lead = tuple(range(q.ndim))
    target = multiply(lax.reshape(q, (*q.shape, *(1,) * x.ndim)), lax.expand_dims(total, lead))
    below = lax.lt(*_aligned(lax.expand_dims(running, lead), target))
    int_dtype = dtypes.default_int_dtype()
    index = sum(below, axis=axis + q.ndim, dtype=int_dtype, keepdims=True)
    if squash:
        count = sum(lax.bitwise_not(missing), axis=axis, dtype=int_dtype, keepdims=True)
    else:
        count = full_of(index[(0,) * q.ndim] if q.ndim else index, x.shape[axis])
    last = lax.expand_dims(lax.sub(count, const(count, 1)), lead)
    index = lax.max(const(index, 0), lax.min(*_aligned(index, last)))
    spread = x if not q.ndim else lax.broadcast(x, q.shape)
    found = take_along_axis(spread, index, axis=axis + q.ndim)
    spoiled = any(bad, axis=axis, keepdims=True)
    if squash:
        empty = lax.eq(count, const(count, 0))
    else:
        empty = any(missing, axis=axis, keepdims=True)
    undefined = lax.expand_dims(lax.bitwise_or(spoiled, empty), lead)
    found = choose_where(undefined, const(found, np.nan), found)
    return found if keepdims else lax.squeeze(found, (axis + q.ndim,))


def _aligned(x: Any, y: Any) -> tuple[Any, Any]:
    shape = lax.broadcast_shapes(np.shape(x), np.shape(y))
    full = tuple(range(len(shape)))
    return lax.broadcast_in_dim(x, shape, full), lax.broadcast_in_dim(y, shape, full)


# --- covariance -----------------------------------------------------------------------------------


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Array:
    """Return the covariance matrix of variables.

    Args:
        m: Matrix with one variable a row and one observation a column, or a vector for one
            variable.
        y: More variables in the same form.
        rowvar: If false, variables are columns and observations are rows.
        bias: If true, divide by the number of observations n; else by n - 1. ``ddof`` overrides it.
        ddof: Divide by n - ddof.
        fweights: Vector of integers: how often each observation occurs.
        aweights: Vector of relative weights of the observations.
        dtype: Floating-point or complex dtype of the result.

    Returns:
        Symmetric matrix with the variances on the diagonal; a scalar for one variable.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cov(jnp.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        Array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    given = promote_args_inexact("cov", m) if y is None else _pair_of(m, y)
    for x in given:
        if np.ndim(x) > 2:
            raise ValueError(f"cov takes at most two dimensions, got shape {np.shape(x)}")
    if dtype is not None and not dtypes.issubdtype(dtypes.check_user_dtype(dtype), np.inexact):
        raise ValueError(f"cov needs an inexact dtype, got {dtype}")
    x = atleast_2d(given[0])
    if not rowvar and np.ndim(given[0]) != 1:
        x = transpose(x)
    if x.shape[0] == 0:
        return filled((0, 0), scalar(dtypes.default_float_dtype(), 0))
    if y is not None:
        other = atleast_2d(given[1])
        if not rowvar and other.shape[0] != 1:
            other = transpose(other)
        x = concatenate((x, other), 0)
    if x.shape[1] == 0:
        shape = () if x.shape[0] == 1 else (x.shape[0], x.shape[0])
        return filled(shape, scalar(x.dtype, np.nan))
    correction = int(not bias) if ddof is None else ddof
    frequencies = _weights("fweights", fweights, x.shape[1])
    reliabilities = _weights("aweights", aweights, x.shape[1])
    return _covariance(x, correction, frequencies, reliabilities, dtype)


def _pair_of(m: Any, y: Any) -> list[Any]:
    check_arraylike("cov", m, y)
    return promote_dtypes_inexact(m, y)


def _weights(name: str, given: Any, count: int) -> Any:
    if given is None:
        return None
    weights = ensure_array("cov", given)
    if weights.ndim > 1:
        raise RuntimeError(f"cov takes a vector of {name}, got shape {weights.shape}")
    if weights.shape[0] != count:
        raise RuntimeError(f"cov got {weights.shape[0]} {name} for {count} samples")
    if name == "fweights" and not dtypes.issubdtype(weights.dtype, np.integer):
        raise TypeError(f"cov needs integers for fweights, got {weights.dtype}")
    return absolute(weights)


def _covariance(x: Any, correction: int, fweights: Any, aweights: Any, dtype: Any) -> Any:
    weights = fweights if aweights is None else aweights
    if fweights is not None and aweights is not None:
        weights = multiply(fweights, aweights)
    if dtype is not None:
        wanted = dtypes.check_user_dtype(dtype, "cov")
        x = as_array(convert_operand(x, wanted))
        weights = None if weights is None else as_array(convert_operand(weights, wanted))
    center, total = average(x, axis=1, weights=weights, returned=True)
    total = getitem(total, 0)
    if weights is None:
        normalizer: Any = x.shape[1] - correction
    elif correction == 0:
        normalizer = total
    elif aweights is None:
        normalizer = subtract(total, correction)
    else:
        spent = true_divide(multiply(correction, sum(multiply(weights, aweights))), total)
        normalizer = subtract(total, spent)
    x = subtract(x, lax.expand_dims(center, (1,)))
    weighted = x if weights is None else multiply(x, lax.expand_dims(weights, (0,)))
    product = dot(x, conjugate(transpose(weighted)))
    return squeeze(true_divide(product, normalizer))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Array:
    """Return the matrix of Pearson correlation coefficients of variables.

    Args:
        x: Matrix with one variable a row and one observation a column, or a vector for one
            variable.
        y: More variables in the same form.
        rowvar: If false, variables are columns and observations are rows.
        dtype: Floating-point or complex dtype of the result.

    Returns:
        Matrix of numbers from -1 to 1, with ones on the diagonal.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.corrcoef(jnp.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).round()
        Array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    check_arraylike("corrcoef", x)
    matrix = cov(x, y, rowvar, dtype=dtype)
    if matrix.ndim == 0:
        return true_divide(matrix, matrix)
    deviation = convert_operand(sqrt(real(diag(matrix))), matrix.dtype)
    matrix = true_divide(matrix, lax.expand_dims(deviation, (1,)))
    matrix = true_divide(matrix, lax.expand_dims(deviation, (0,)))
    bounded = clip(real(matrix), -1, 1)
    if kind_of(matrix.dtype) != COMPLEX:
        return bounded
    return lax.complex(bounded, clip(imag(matrix), -1, 1))


# --- counting -------------------------------------------------------------------------------------


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return how often each of the integers 0, 1, 2, ... occurs.

    Args:
        x: Vector of integers; negative ones count as 0.
        weights: Vector of the length of ``x``: what each element adds, instead of 1.
        minlength: Least length of the result.
        length: Static length of the result, needed under ``jit``; larger integers are not counted.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Vector of length ``max(x) + 1`` (or ``minlength``, ``length``) of integers, or in the dtype
        of ``weights``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.bincount(jnp.array([0, 2, 2]))
        Array([1, 0, 2], dtype=int32)
    """
    if out_sharding is not None:
        alone = lambda: bincount(x, weights, minlength, length=length)
        return divided_as(out_sharding, alone, "bincount")
    x = ensure_array("bincount", x)
    if x.dtype == np.bool_:
        x = convert_operand(x, np.dtype(np.int32))
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(f"bincount counts integers, got dtype {x.dtype}")
    if x.ndim != 1:
        raise ValueError(f"bincount takes a vector, got shape {x.shape}")
    least = operator.index(concrete(minlength, "bincount needs a concrete minlength"))
    if length is None:
        if isinstance(x, Tracer) and x._concrete() is None:
            raise errors.ConcretizationTypeError(
                x, "bincount needs to know the values of x, or a static length"
            )
        values = np.asarray(concrete(x, "bincount needs a concrete x"))
        highest = int(np.maximum(values.max(), 0)) + 1 if values.size else 0
        size = highest if highest > least else least
    else:
        size = whole(concrete(length, "bincount needs a concrete length"))
    if weights is None:
        dtype, values = dtypes.default_int_dtype(), scalar(dtypes.default_int_dtype(), 1)
    else:
        values = ensure_array("bincount", weights)
        dtype = values.dtype
        if values.shape != x.shape:
            raise ValueError(
                f"bincount needs weights of the shape of x, got {values.shape} and {x.shape}"
            )
    return update_index(zeros(size, dtype), clip(x, 0), values, lax.scatter_add, mode="drop")


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """Return the edges of the intervals of a histogram.

    Args:
        a: Array, which is flattened.
        bins: Number of intervals of equal width, or a vector of increasing edges. Names such as
            "auto" are not supported.
        range: Pair of the lowest and the highest edge; by default the extremes of the data.
        weights: Ignored.

    Returns:
        Vector with one edge more than there are intervals.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), 2)
        Array([0., 2., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError(
            "histogram does not support bins by name; pass their number or bounds"
        )
    check_arraylike("histogram_bin_edges", a, bins)
    x = asarray(a)
    dtype = dtypes.to_inexact_dtype(x.dtype)
    if np.ndim(bins) == 1:
        return asarray(bins, dtype)
    count = operator.index(concrete(bins, "histogram_bin_edges needs a concrete number of bins"))
    limits = asarray([min(x), max(x)] if range is None else range, dtype)
    if limits.shape != (2,):
        raise ValueError(f"range must be None or a pair of numbers, got {range}")
    flat = equal(ptp(limits), 0)
    low = choose_where(flat, subtract(getitem(limits, 0), 0.5), getitem(limits, 0))
    flat = equal(ptp(limits), 0)
    high = choose_where(flat, add(getitem(limits, 1), 0.5), getitem(limits, 1))
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Array, Array]:
    """Return how many elements lie in each interval, and the edges of the intervals.

    Args:
        a: Array, which is flattened.
        bins: Number of intervals of equal width, or a vector of increasing edges. Names such as
            "auto" are not supported.
        range: Pair of the lowest and the highest edge; by default the extremes of the data.
        weights: Array of the shape of ``a``: what each element adds, instead of 1.
        density: If true, return a density, whose integral over all intervals is 1, instead of
            counts.

    Returns:
        Pair of vectors: the counts, floating-point, and the edges. An interval holds its left edge;
        the last one both.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.histogram(jnp.array([0.0, 1.0, 1.5, 4.0]), bins=2)[0]
        Array([3., 1.], dtype=float32)
    """
    if weights is None:
        (x,) = promote_dtypes_inexact(ensure_array("histogram", a))
        weights = ones_like(x)
    else:
        x, weights = ensure_arrays("histogram", a, weights)
        if x.shape != weights.shape:
            raise ValueError(f"histogram got weights of shape {weights.shape} for {x.shape}")
        x, weights = promote_dtypes_inexact(x, weights)
    edges = histogram_bin_edges(x, bins, range, weights)
    index = searchsorted(edges, x, side="right")
    index = choose_where(equal(x, getitem(edges, -1)), edges.shape[0] - 1, index)
    counts = update_index(
        zeros(edges.shape[0], asarray(weights).dtype), index, weights, lax.scatter_add
    )
    counts = getitem(counts, slice(1, None))
    if density:
        counts = true_divide(true_divide(counts, diff(edges)), sum(counts))
    return counts, edges


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Return a two-dimensional histogram of pairs of numbers.

    Args:
        x: Vector of first coordinates.
        y: Vector of second coordinates, of the same length.
        bins: Number of intervals or vector of edges for both axes, or a pair of them.
        range: Pair of (lowest, highest) edges for both axes; by default the extremes of the data.
        weights: Vector: what each point adds, instead of 1.
        density: If true, return a density, whose integral over all intervals is 1, instead of
            counts.

    Returns:
        Triple: the counts, of shape (nx, ny), the edges along x, and the edges along y.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.histogram2d(jnp.arange(4.0), jnp.arange(4.0), bins=2)[0]
        Array([[2, 0],
               [0, 2]], dtype=int32)
    """
    x, y = ensure_arrays("histogram2d", x, y)
    count = len(bins) if isinstance(bins, (list, tuple)) or np.ndim(bins) else 1
    if count not in (1, 2):
        edges = asarray(bins)
        bins = [edges, edges]
    counts, bounds = histogramdd(transpose(asarray([x, y])), bins, range, weights, density)
    return counts, bounds[0], bounds[1]


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Return a histogram of points in several dimensions.

    Args:
        sample: Array of shape (n, dimensions), one point a row.
        bins: Number of intervals for all dimensions, or a sequence with a number or a vector of
            edges for each.
        range: A (lowest, highest) pair for each dimension; by default the extremes of the data.
        weights: Vector of length n: what each point adds, instead of 1.
        density: If true, return a density, whose integral over all intervals is 1, instead of
            counts.

    Returns:
        Pair: the counts, with one axis for each dimension, and the list of edges.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.histogramdd(jnp.ones((3, 2)), bins=1)[0]
        Array([[3]], dtype=int32)
    """
    x, weights = _samples(sample, weights)
    if x.ndim != 2:
        raise ValueError(f"histogramdd takes samples of shape (n, dimensions), got {x.shape}")
    dims = x.shape[1]
    if range is not None and len(range) != dims:
        raise ValueError(f"histogramdd needs {dims} ranges for samples {x.shape}, got {range!r}")
    bins = list(bins) if isinstance(bins, (list, tuple)) or np.ndim(bins) else [bins] * dims
    if len(bins) != dims:
        raise ValueError(f"histogramdd needs {dims} bins for samples {x.shape}, got {len(bins)}")
    index, edges = [], []
    for i, given in enumerate(bins):
        column = getitem(x, (slice(None), i))
        limits = None if range is None else range[i]
        bounds = histogram_bin_edges(column, given, limits, weights)
        place = searchsorted(bounds, column, side="right")
        at_end = equal(column, getitem(bounds, -1))
        index.append(choose_where(at_end, subtract(place, 1), place))
        edges.append(bounds)
    sizes = tuple(e.shape[0] + 1 for e in edges)
    flat = ravel_multi_index(tuple(index), sizes, mode="clip")
    counts = reshape(bincount(flat, weights, length=_prod(sizes)), sizes)
    counts = getitem(counts, (slice(1, -1),) * dims)
    if density:
        counts = convert_operand(counts, x.dtype)
        counts = true_divide(counts, sum(counts))
        for widths in ix_(*(diff(e) for e in edges)):
            counts = true_divide(counts, widths)
    return counts, edges


def _samples(sample: Any, weights: Any) -> tuple[Any, Any]:
    if weights is None:
        (x,) = promote_dtypes_inexact(ensure_array("histogramdd", sample))
        return as_array(x), None
    x, weights = ensure_arrays("histogramdd", sample, weights)
    if weights.shape != x.shape[:1]:
        raise ValueError(f"histogramdd needs {x.shape[:1]} weights, got {weights.shape}")
    x, weights = (as_array(v) for v in promote_dtypes_inexact(x, weights))
    return x, weights
