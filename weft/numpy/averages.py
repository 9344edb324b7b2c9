"""Means and variances with NumPy's names."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, overload

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.trace import axis_size, typeof
from weft.numpy.broadcasting import broadcast_to, choose_where, expand_to, filled
from weft.numpy.promotion import (
    as_array,
    convert_operand,
    convert_staged,
    ensure_array,
    ensure_arrays,
    promote_dtypes_inexact,
    refuse_out,
)
from weft.numpy.reductions import (
    Axis,
    canonical_axes,
    check_where,
    split_names,
    static_axes,
    sum,
    wide_dtype,
)
from weft.numpy.ufuncs import multiply, true_divide
from weft.prims.families import COMPLEX, FLOAT, INEXACT, kind_of, scalar
from weft.prims.selection import switch_p


def _count(x: Any, axis: Axis, where: Any, keepdims: bool, dtype: Any) -> Any:
    """How many elements each result is made of."""
    if where is not None:
        return sum(broadcast_to(where, x.shape), axis, dtype=dtype, keepdims=keepdims)
    if axis is None:
        return scalar(dtype, x.size)
    positional, names = split_names(static_axes("mean", axis))
    axes = canonical_axes(positional, x.ndim)
    mapped = prod(axis_size(name) for name in names)
    return scalar(dtype, prod(x.shape[i] for i in axes) * mapped)


def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Return the arithmetic mean of the elements, over all or some axes.

    Args:
        a: Array or scalar.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        dtype: Dtype to compute in and to return. By default that of ``a``, the default float type
            for integers; float16 and bfloat16 accumulate in float32.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.

    Returns:
        Array without the reduced axes; NaN where there are no elements.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.mean(jnp.array([1.0, 3.0])).item()
        2.0
    """
    x = ensure_array("mean", a)
    where = check_where("mean", where)
    refuse_out("mean", out)
    if dtype is None:
        result = dtypes.to_inexact_dtype(dtypes.canonicalize_dtype(x.dtype))
        working = wide_dtype(result)
    else:
        result = working = dtypes.check_user_dtype(dtype, "mean")
    count = _count(x, axis, where, keepdims, working)
    total = sum(x, axis, dtype=working, keepdims=keepdims, where=where)
    return as_array(convert_operand(lax.div(total, count), result))


@overload
def average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: Literal[False] = False,
    keepdims: bool = False,
) -> Array: ...
@overload
def average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Array, Array]: ...
@overload
def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any: ...
def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Array | tuple[Array, Array]:
    """Return the weighted mean of the elements, over all or some axes.

    Args:
        a: Array or scalar.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        weights: Weights with the shape of ``a``, or with the shape of ``a`` along ``axis``; by
            default all equal.
        returned: If true, also return the sum of the weights.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.

    Returns:
        Array without the reduced axes; with ``returned`` a pair of it and the sums of weights, of
        the same shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0])).item()
        1.5
    """
    if weights is None:
        (x,) = promote_dtypes_inexact(ensure_array("average", a))
        result = mean(x, axis=axis, keepdims=keepdims)
        axes = canonical_axes(static_axes("average", axis), np.ndim(x))
        count = prod(np.shape(x)[i] for i in axes)
        total: Any = filled((), scalar(result.dtype, count))
    else:
        x, weights = promote_dtypes_inexact(*ensure_arrays("average", a, weights))
        weights = _spread_weights(as_array(x), as_array(weights), axis)
        total = sum(weights, axis=axis, keepdims=keepdims)
        result = true_divide(sum(multiply(x, weights), axis=axis, keepdims=keepdims), total)
    if not returned:
        return result
    return result, expand_to(total, result.shape)


def _spread_weights(x: Any, weights: Any, axis: Axis) -> Any:
    """Weights given along some axes only, at a rank where they broadcast."""
    if x.shape == weights.shape:
        return weights
    if axis is None:
        raise ValueError(
            f"average needs an axis when weights, of shape {weights.shape}, and the array, of"
            f" shape {x.shape}, differ"
        )
    axes = canonical_axes(static_axes("average", axis), x.ndim)
    if weights.shape != tuple(x.shape[i] for i in axes):
        raise ValueError(
            f"average needs weights of shape {x.shape} or of its axes {axes}, got {weights.shape}"
        )
    sizes = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    return lax.reshape(weights, sizes, tuple(int(i) for i in np.argsort(axes)))


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """Return the variance of the elements, over all or some axes.

    Args:
        a: Array or scalar.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        dtype: Dtype to compute in and to return. By default that of ``a``, the default float type
            for integers; float16 and bfloat16 accumulate in float32.
        out: Must be None; arrays are immutable.
        ddof: Delta degrees of freedom: the sum of squares is divided by the number of elements
            minus ``ddof``.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.
        mean: Mean to use instead of computing it, with the shape that ``keepdims=True`` gives.
        correction: Another name of ``ddof`` from the array API standard; give only one of them.

    Returns:
        Real array without the reduced axes; of complex numbers, the mean of the squared distances.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.var(jnp.array([1.0, 3.0])).item()
        1.0
    """
    x = ensure_array("var", a)
    where = check_where("var", where)
    refuse_out("var", out)
    correction = _one_correction("var", ddof, correction)
    working, result_dtype = variance_dtypes(x.dtype, dtype)
    x = convert_operand(x, working)
    center = _center(x, axis, where, mean, working)
    centered = lax.sub(x, center)
    squares = squared_size(centered)
    real = typeof(squares).dtype
    count = _count(x, axis, where, keepdims, real)
    normalizer = lax.sub(count, convert_staged(correction, real))
    total = sum(squares, axis, dtype=real, keepdims=keepdims, where=where)
    ratio = convert_operand(lax.div(total, normalizer), result_dtype)
    return choose_where(lax.gt(normalizer, scalar(real, 0)), ratio, np.nan, switch_p)


def _one_correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if not isinstance(ddof, int) or ddof != 0:
        raise ValueError(f"give ddof or correction to {name}, not both")
    return correction


def _center(x: Any, axis: Axis, where: Any, given: Any, dtype: Any) -> Any:
    if given is not None:
        return convert_operand(ensure_array("var", given), dtype)
    return mean(x, axis, dtype=dtype, keepdims=True, where=where)


def squared_size(x: Any) -> Any:
    """``|x|**2``, real for complex numbers."""
    if kind_of(typeof(x).dtype) == COMPLEX:
        return lax.real(lax.mul(x, lax.conj(x)))
    return lax.square(x)


def variance_dtypes(own: Any, dtype: Any) -> tuple[Any, Any]:
    """Dtypes that a variance is computed in and returned in."""
    own = dtypes.canonicalize_dtype(own)
    if dtype is not None:
        result = dtypes.check_user_dtype(dtype, "var")
        if kind_of(own) == COMPLEX and kind_of(result) != COMPLEX:
            raise ValueError("var of complex numbers needs a complex dtype, or none")
        return wide_dtype(result), result
    if not kind_of(own) & INEXACT:
        result = dtypes.to_inexact_dtype(own)
        return wide_dtype(result), result
    return wide_dtype(own), own if kind_of(own) == FLOAT else dtypes.to_floating_dtype(own)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """Return the standard deviation of the elements, over all or some axes.

    Args:
        a: Array or scalar.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        dtype: Dtype to compute in and to return. By default that of ``a``, the default float type
            for integers; float16 and bfloat16 accumulate in float32.
        out: Must be None; arrays are immutable.
        ddof: Delta degrees of freedom: the sum of squares is divided by the number of elements
            minus ``ddof``.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.
        mean: Mean to use instead of computing it, with the shape that ``keepdims=True`` gives.
        correction: Another name of ``ddof`` from the array API standard; give only one of them.

    Returns:
        Real array without the reduced axes: the square root of ``var``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.std(jnp.array([1.0, 3.0])).item()
        1.0
    """
    refuse_out("std", out)
    if dtype is not None and not dtypes.issubdtype(dtypes.check_user_dtype(dtype), np.inexact):
        raise ValueError(f"std needs an inexact dtype, got {dtype}")
    correction = _one_correction("std", ddof, correction)
    options = {"keepdims": keepdims, "where": where, "mean": mean, "correction": correction}
    return lax.sqrt(var(a, axis=axis, dtype=dtype, **options))
