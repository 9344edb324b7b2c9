"""Reductions that leave out NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.trace import typeof
from weft.numpy.averages import mean, squared_size, variance_dtypes
from weft.numpy.broadcasting import choose_where
from weft.numpy.promotion import as_array, convert_operand, convert_staged, ensure_array, refuse_out
from weft.numpy.reductions import all, argmax, argmin, check_where, cumulate, max, min, prod, sum
from weft.numpy.ufuncs import subtract
from weft.prims.families import INEXACT, const, kind_of, scalar


def _has_nan(x: Any) -> bool:
    return bool(kind_of(typeof(x).dtype) & INEXACT)


def _is_nan(x: Any) -> Any:
    return lax.ne(x, x)


def _nan_reduce(
    name: str,
    a: Any,
    reduce: Callable[..., Any],
    fill: Any,
    nan_if_all: bool,
    axis: Any,
    keepdims: bool,
    where: Any,
    **options: Any,
) -> Array:
    x = ensure_array(name, a)
    where = check_where(name, where)
    given = {"axis": axis, "keepdims": keepdims, "where": where, **options}
    if not _has_nan(x):
        return reduce(x, **given)
    out = reduce(choose_where(_is_nan(x), scalar(x.dtype, fill), x), **given)
    if not nan_if_all:
        return out
    none_left = all(_is_nan(x), axis=axis, keepdims=keepdims)
    return choose_where(none_left, const(x, np.nan), out)


def nanmin(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the smallest element that is not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.
        initial: Scalar that takes part in the comparison; required for an empty array and with
            ``where``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.

    Returns:
        Array without the reduced axes; NaN where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanmin(jnp.array([1.0, jnp.nan])).item()
        1.0
    """
    options = {"out": out, "initial": initial}
    return _nan_reduce("nanmin", a, min, np.inf, initial is None, axis, keepdims, where, **options)


def nanmax(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the largest element that is not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.
        initial: Scalar that takes part in the comparison; required for an empty array and with
            ``where``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.

    Returns:
        Array without the reduced axes; NaN where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanmax(jnp.array([1.0, jnp.nan])).item()
        1.0
    """
    options = {"out": out, "initial": initial}
    return _nan_reduce("nanmax", a, max, -np.inf, initial is None, axis, keepdims, where, **options)


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the sum of the elements that are not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        dtype: Dtype to accumulate in and to return; by default that of ``a``, with narrow integers
            widened.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.
        initial: Scalar to start from, combined with the result.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.

    Returns:
        Array without the reduced axes; 0 where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nansum(jnp.array([1.0, jnp.nan])).item()
        1.0
    """
    options = {"dtype": dtype, "out": out, "initial": initial}
    return _nan_reduce("nansum", a, sum, 0, False, axis, keepdims, where, **options)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the product of the elements that are not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        dtype: Dtype to accumulate in and to return; by default that of ``a``, with narrow integers
            widened.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.
        initial: Scalar to start from, combined with the result.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.

    Returns:
        Array without the reduced axes; 1 where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanprod(jnp.array([2.0, jnp.nan])).item()
        2.0
    """
    options = {"dtype": dtype, "out": out, "initial": initial}
    return _nan_reduce("nanprod", a, prod, 1, False, axis, keepdims, where, **options)


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Array:
    """Return the mean of the elements that are not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        dtype: Dtype to compute in and to return; by default that of ``a``, floating-point for
            integers.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.

    Returns:
        Array without the reduced axes; NaN where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0])).item()
        2.0
    """
    x = ensure_array("nanmean", a)
    where = check_where("nanmean", where)
    refuse_out("nanmean", out)
    if not _has_nan(x):
        return mean(x, axis, dtype, None, keepdims, where=where)
    wanted = x.dtype if dtype is None else dtypes.check_user_dtype(dtype, "nanmean")
    options = {"axis": axis, "dtype": wanted, "keepdims": keepdims, "where": where}
    count = sum(lax.bitwise_not(_is_nan(x)), **options)
    return lax.div(nansum(x, **options), count)


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """Return the variance of the elements that are not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        dtype: Dtype to compute in and to return; by default that of ``a``, floating-point for
            integers.
        out: Must be None; arrays are immutable.
        ddof: Delta degrees of freedom: the sum of squares is divided by the number of elements
            minus ``ddof``.
        keepdims: If true, reduced axes stay with size 1.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.
        mean: Mean to use instead of computing it, with the shape that ``keepdims=True`` gives.

    Returns:
        Array without the reduced axes; NaN where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0])).item()
        1.0
    """
    x = ensure_array("nanvar", a)
    where = check_where("nanvar", where)
    refuse_out("nanvar", out)
    working, wanted = variance_dtypes(x.dtype, dtype)
    x = as_array(convert_operand(x, working))
    if mean is None:
        center = nanmean(x, axis, dtype=working, keepdims=True, where=where)
    else:
        center = convert_operand(ensure_array("nanvar", mean), working)
    squares = squared_size(choose_where(_is_nan(x), 0, lax.sub(x, center)))
    count = sum(lax.bitwise_not(_is_nan(x)), axis=axis, keepdims=keepdims, where=where)
    if not dtypes.issubdtype(dtypes.result_type(ddof), np.inexact):
        ddof = convert_staged(ddof, count.dtype)
    count = subtract(count, ddof)
    too_few = lax.le(count, const(count, 0))
    total = sum(squares, axis, keepdims=keepdims, where=where)
    total = choose_where(too_few, np.nan, total)
    divisor = convert_operand(choose_where(too_few, 1, count), total.dtype)
    return as_array(convert_operand(lax.div(total, divisor), wanted))


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """Return the standard deviation of the elements that are not NaN, over all or some axes.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
        dtype: Dtype to compute in and to return; by default that of ``a``, floating-point for
            integers.
        out: Must be None; arrays are immutable.
        ddof: Delta degrees of freedom: the sum of squares is divided by the number of elements
            minus ``ddof``.
        keepdims: If true, reduced axes stay with size 1.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out
            too.
        mean: Mean to use instead of computing it, with the shape that ``keepdims=True`` gives.

    Returns:
        Array without the reduced axes; NaN where all elements are NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0])).item()
        1.0
    """
    return lax.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def _nan_position(
    name: str, a: Any, axis: Any, out: Any, keepdims: Any, find: Any, fill: float
) -> Array:
    refuse_out(name, out)
    x = ensure_array(name, a)
    if not _has_nan(x):
        return find(x, axis, keepdims=keepdims)
    missing = _is_nan(x)
    found = find(choose_where(missing, fill, x), axis, keepdims=keepdims)
    return choose_where(all(missing, axis=axis, keepdims=bool(keepdims)), -1, found)


def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: Any = None) -> Array:
    """Return the index of the largest element that is not NaN; the first of equal ones.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis to search, a static integer; by default the flattened array.
        out: Must be None; arrays are immutable.
        keepdims: If true, the searched axis (with ``axis=None`` every axis) stays with size 1.

    Returns:
        Integer array without the searched axis; -1 where all elements are NaN.

    Differs from NumPy: a slice of only NaN gives -1, not an error.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanargmax(jnp.array([1.0, jnp.nan])).item()
        0
    """
    return _nan_position("nanargmax", a, axis, out, keepdims, argmax, -np.inf)


def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: Any = None) -> Array:
    """Return the index of the smallest element that is not NaN; the first of equal ones.

    Args:
        a: Array or scalar; NaN elements are left out. Integers have none.
        axis: Axis to search, a static integer; by default the flattened array.
        out: Must be None; arrays are immutable.
        keepdims: If true, the searched axis (with ``axis=None`` every axis) stays with size 1.

    Returns:
        Integer array without the searched axis; -1 where all elements are NaN.

    Differs from NumPy: a slice of only NaN gives -1, not an error.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nanargmin(jnp.array([jnp.nan, 1.0])).item()
        1
    """
    return _nan_position("nanargmin", a, axis, out, keepdims, argmin, np.inf)


def _nan_cumulate(
    name: str, a: Any, axis: Any, dtype: Any, out: Any, rule: Any, fill: int
) -> Array:
    x = ensure_array(name, a)
    if axis is None or np.isscalar(a):
        x = lax.reshape(x, (x.size,))
    x = choose_where(_is_nan(x), const(x, fill), x)
    return cumulate(name, x, axis, dtype, out, rule)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Return the running sums along an axis, with NaN as 0.

    Args:
        a: Array or scalar; NaN adds nothing.
        axis: Axis along which to accumulate; by default the flattened array.
        dtype: Dtype to accumulate in and to return; by default that of ``a``, with narrow integers
            widened.
        out: Must be None; arrays are immutable.

    Returns:
        Array with the shape of ``a``, or one-dimensional with ``axis=None``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 2.0]))
        Array([1., 1., 3.], dtype=float32)
    """
    return _nan_cumulate("nancumsum", a, axis, dtype, out, lax.cumsum, 0)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Return the running products along an axis, with NaN as 1.

    Args:
        a: Array or scalar; NaN changes nothing.
        axis: Axis along which to accumulate; by default the flattened array.
        dtype: Dtype to accumulate in and to return; by default that of ``a``, with narrow integers
            widened.
        out: Must be None; arrays are immutable.

    Returns:
        Array with the shape of ``a``, or one-dimensional with ``axis=None``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
        Array([2., 2., 6.], dtype=float32)
    """
    return _nan_cumulate("nancumprod", a, axis, dtype, out, lax.cumprod, 1)
