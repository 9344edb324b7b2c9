"""Reductions with NumPy's names: sums, extremes, means, variances, truth, cumulation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod as _prod
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.trace import typeof
from weft.lax.shape import canonical_axis
from weft.numpy.creation import asarray
from weft.numpy.manipulation import broadcast_to, ravel
from weft.numpy.promotion import check_arraylike, convert_operand, promote_dtypes_inexact
from weft.numpy.ufuncs import isnan, lax_array, maximum, minimum, not_equal
from weft.prims.families import COMPLEX, FLOAT, const, kind_of, scalar


def canonical_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    fixed = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(fixed)) != len(fixed):
        raise ValueError(f"duplicate value in axis: {axis}")
    return fixed


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(
            f"the out argument of {name} is not supported: arrays are immutable"
        )


def _keep(result: Any, axes: tuple[int, ...], shape: tuple[int, ...], keepdims: bool) -> Any:
    """A reduction's result, with its reduced axes at size 1 if asked for."""
    return lax.expand_dims(result, sorted(axes)) if keepdims and axes else result


def _masked(x: Any, where: Any, fill: Any) -> Any:
    """``x`` with ``fill`` where the mask does not hold."""
    shape = np.broadcast_shapes(np.shape(x), np.shape(where))
    mask = broadcast_to(where, shape)
    return lax.select(mask, broadcast_to(x, shape), lax.full(shape, fill, typeof(x).dtype))


def _reduce(
    name: str,
    a: Any,
    axis: Any,
    *,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    identity: Any,
    reduce: Callable[..., Any],
    combine: Callable[..., Any],
    dtype: Any = None,
    promote_integers: bool = False,
    widen: bool = False,
) -> Array:
    check_arraylike(name, a)
    _no_out(name, out)
    aval = typeof(a)
    result_dtype = _result_dtype(aval, dtype, promote_integers, name)
    computation = result_dtype
    if widen and result_dtype.name in ("float16", "bfloat16"):
        computation = np.dtype(np.float32)
    axes = canonical_axes(axis, aval.ndim)
    if identity is None and initial is None:
        if where is not None:
            raise ValueError(
                f"{name} over a mask needs an initial value: it has no result for no elements"
            )
        if 0 in [aval.shape[i] for i in axes]:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    weak = aval.weak_type and dtype is None and result_dtype == aval.dtype
    x = convert_operand(a, computation, weak and computation == aval.dtype)
    start = scalar(computation, 0)
    if identity is not None or initial is not None:
        fill = identity if identity is not None else initial
        start = fill(computation) if callable(fill) else convert_operand(fill, computation, False)
    if where is not None:
        x = _masked(x, where, start)
        axes = canonical_axes(axis, np.ndim(x))
    result = reduce(lax_array(x), axes)
    if initial is not None:
        result = combine(convert_operand(initial, computation, False), result)
    result = _keep(result, axes, np.shape(x), keepdims)
    return convert_operand(result, result_dtype, weak)


def _result_dtype(aval: Any, dtype: Any, promote_integers: bool, name: str) -> Any:
    if dtype is not None:
        return dtypes.check_user_dtype(dtype, name)
    if not promote_integers:
        return aval.dtype
    own = aval.dtype
    if own == np.bool_:
        return dtypes.default_int_dtype()
    if dtypes.issubdtype(own, np.unsignedinteger):
        wide = dtypes.canonicalize_dtype(np.uint64)
        return wide if own.itemsize < wide.itemsize else own
    if dtypes.issubdtype(own, np.integer):
        wide = dtypes.default_int_dtype()
        return wide if own.itemsize < wide.itemsize else own
    return own


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Sum of elements, in all or along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.sum(jnp.ones((2, 3)), axis=0)
    Array([2., 2., 2.], dtype=float32)
    """
    return _reduce(
        "sum",
        a,
        axis,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
        identity=0,
        reduce=lambda x, axes: lax.reduce_sum(x, axes),
        combine=lax.add,
        dtype=dtype,
        promote_integers=promote_integers,
        widen=True,
    )


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Product of elements, in all or along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.prod(jnp.array([1, 2, 3])).item()
    6
    """
    return _reduce(
        "prod",
        a,
        axis,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
        identity=1,
        reduce=lambda x, axes: lax.reduce_prod(x, axes),
        combine=lax.mul,
        dtype=dtype,
        promote_integers=promote_integers,
        widen=True,
    )


def max(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Largest element, in all or along some axes; NaN if there is one.

    >>> import weft.numpy as jnp
    >>> jnp.max(jnp.array([1, 3, 2])).item()
    3
    """
    return _reduce(
        "max",
        a,
        axis,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
        identity=None,
        reduce=lambda x, axes: lax.reduce_max(x, axes),
        combine=lax.max,
    )


def min(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Smallest element, in all or along some axes; NaN if there is one.

    >>> import weft.numpy as jnp
    >>> jnp.min(jnp.array([1, 3, 2])).item()
    1
    """
    return _reduce(
        "min",
        a,
        axis,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
        identity=None,
        reduce=lambda x, axes: lax.reduce_min(x, axes),
        combine=lax.min,
    )


amax, amin = max, min


def _truth(a: Any) -> Any:
    x = lax_array(a)
    return x if x.dtype == np.bool_ else lax.convert_element_type(x, np.bool_)


def all(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether all elements are true.

    >>> import weft.numpy as jnp
    >>> jnp.all(jnp.array([True, False])).item()
    False
    """
    check_arraylike("all", a)
    return _reduce(
        "all",
        _truth(a),
        axis,
        out=out,
        keepdims=keepdims,
        initial=None,
        where=where,
        identity=True,
        reduce=lambda x, axes: lax.reduce_and(x, axes),
        combine=lax.bitwise_and,
    )


def any(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether any element is true.

    >>> import weft.numpy as jnp
    >>> jnp.any(jnp.array([True, False])).item()
    True
    """
    check_arraylike("any", a)
    return _reduce(
        "any",
        _truth(a),
        axis,
        out=out,
        keepdims=keepdims,
        initial=None,
        where=where,
        identity=False,
        reduce=lambda x, axes: lax.reduce_or(x, axes),
        combine=lax.bitwise_or,
    )


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """How many elements are not zero.

    >>> import weft.numpy as jnp
    >>> jnp.count_nonzero(jnp.array([0, 1, 2])).item()
    2
    """
    check_arraylike("count_nonzero", a)
    nonzero = not_equal(a, const(lax_array(a), 0))
    return sum(nonzero, axis=axis, dtype=dtypes.default_int_dtype(), keepdims=keepdims)


def _mean_dtype(a: Any, dtype: Any, name: str) -> tuple[Any, Any]:
    """Dtypes of the result and of the computation of a mean."""
    if dtype is None:
        result = dtypes.to_inexact_dtype(dtypes.dtype(a))
    else:
        result = dtypes.check_user_dtype(dtype, name)
    computation = result
    if result.name in ("float16", "bfloat16"):
        computation = np.dtype(np.float32)
    return result, computation


def _count(a: Any, axes: tuple[int, ...], where: Any, keepdims: bool, dtype: Any) -> Any:
    """How many elements each result is made of."""
    if where is None:
        return scalar(dtype, _prod(np.shape(a)[i] for i in axes))
    mask = broadcast_to(where, np.broadcast_shapes(np.shape(a), np.shape(where)))
    return sum(mask, axis=axes, dtype=dtype, keepdims=keepdims)


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Arithmetic mean, of all elements or along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.mean(jnp.array([1.0, 3.0])).item()
    2.0
    """
    check_arraylike("mean", a)
    _no_out("mean", out)
    result, computation = _mean_dtype(a, dtype, "mean")
    axes = canonical_axes(axis, np.ndim(a))
    count = _count(a, axes, where, keepdims, computation)
    total = sum(a, axis=axes, dtype=computation, keepdims=keepdims, where=where)
    weak = typeof(a).weak_type and dtype is None and typeof(a).dtype == result
    return convert_operand(lax.div(total, count), result, weak)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Weighted mean.

    >>> import weft.numpy as jnp
    >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0])).item()
    1.5
    """
    check_arraylike("average", a)
    if weights is None:
        result = mean(a, axis=axis, keepdims=keepdims)
        axes = canonical_axes(axis, np.ndim(a))
        count = _prod(np.shape(a)[i] for i in axes)
        weight_sum = lax.full(result.shape, scalar(result.dtype, count))
        return (result, weight_sum) if returned else result
    check_arraylike("average", weights)
    a, weights = promote_dtypes_inexact(a, weights)
    a, weights = lax_array(a), lax_array(weights)
    if a.shape != weights.shape:
        if axis is None or isinstance(axis, tuple):
            raise ValueError("average needs an integer axis when weights and a differ in shape")
        if weights.ndim != 1 or weights.shape[0] != a.shape[axis]:
            raise ValueError(
                f"average needs weights of shape {a.shape} or ({a.shape[axis]},), got"
                f" {weights.shape}"
            )
        place = canonical_axis(axis, a.ndim)
        weights = lax.broadcast_in_dim(weights, a.shape, (place,))
    weight_sum = sum(weights, axis=axis, keepdims=keepdims)
    result = lax.div(sum(lax.mul(a, weights), axis=axis, keepdims=keepdims), weight_sum)
    return (result, weight_sum) if returned else result


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """Variance, of all elements or along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.var(jnp.array([1.0, 3.0])).item()
    1.0
    """
    check_arraylike("var", a)
    _no_out("var", out)
    if correction is not None:
        if ddof:
            raise ValueError("give ddof or correction to var, not both")
        ddof = correction
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"var needs an inexact dtype, got {dtype}")
    result, computation = _var_dtypes(a, dtype)
    x = convert_operand(lax_array(a), computation, False)
    axes = canonical_axes(axis, np.ndim(a))
    center = _mean_kept(x, axes, where) if mean is None else convert_operand(mean, computation, False)
    centered = lax.sub(x, _raise_rank(center, x.ndim))
    if kind_of(computation) == COMPLEX:
        squares = lax.add(lax.square(lax.real(centered)), lax.square(lax.imag(centered)))
    else:
        squares = lax.square(centered)
    real_dtype = typeof(squares).dtype
    count = _count(a, axes, where, keepdims, real_dtype)
    normalizer = lax.sub(count, convert_operand(ddof, real_dtype, False))
    total = sum(squares, axis=axes, keepdims=keepdims, where=where)
    ratio = lax.div(total, normalizer)
    enough = lax.gt(normalizer, const(normalizer, 0))
    safe = lax.select(
        broadcast_to(enough, np.shape(ratio)), ratio, lax.full_like(ratio, np.nan)
    )
    return convert_operand(safe, result, False)


def _mean_kept(x: Any, axes: tuple[int, ...], where: Any) -> Any:
    total = sum(x, axis=axes, keepdims=True, where=where)
    return lax.div(total, _count(x, axes, where, True, typeof(x).dtype))


def _raise_rank(x: Any, ndim: int) -> Any:
    return lax.broadcast_to_rank(lax_array(x), ndim) if np.ndim(x) else x


def _var_dtypes(a: Any, dtype: Any) -> tuple[Any, Any]:
    own = dtypes.to_inexact_dtype(dtypes.dtype(a))
    result = own if dtype is None else dtypes.check_user_dtype(dtype, "var")
    computation = dtypes.promote_types(own, result)
    if computation.name in ("float16", "bfloat16"):
        computation = np.dtype(np.float32)
    if kind_of(result) == COMPLEX:
        result = np.dtype(np.float64 if result == np.complex128 else np.float32)
    return result, computation


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """Standard deviation, of all elements or along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.std(jnp.array([1.0, 3.0])).item()
    1.0
    """
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"std needs an inexact dtype, got {dtype}")
    return lax.sqrt(
        var(
            a,
            axis=axis,
            dtype=dtype,
            out=out,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )
    )


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    """The largest element less the smallest.

    >>> import weft.numpy as jnp
    >>> jnp.ptp(jnp.array([1, 4])).item()
    3
    """
    check_arraylike("ptp", a)
    _no_out("ptp", out)
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _arg_extreme(name: str, a: Any, axis: Any, out: Any, keepdims: Any, rule: Any) -> Array:
    check_arraylike(name, a)
    _no_out(name, out)
    x = lax_array(a)
    ndim = x.ndim
    if axis is None:
        flat = ravel(x)
        if flat.shape[0] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        result = rule(flat, 0, dtypes.default_int_dtype())
        return lax.expand_dims(result, range(ndim)) if keepdims else result
    place = canonical_axis(axis, ndim)
    if x.shape[place] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    result = rule(x, place, dtypes.default_int_dtype())
    return lax.expand_dims(result, (place,)) if keepdims else result


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: Any = None) -> Array:
    """Where the largest element is; the first of equals.

    >>> import weft.numpy as jnp
    >>> jnp.argmax(jnp.array([1, 3, 2])).item()
    1
    """
    return _arg_extreme("argmax", a, axis, out, keepdims, lax.argmax)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: Any = None) -> Array:
    """Where the smallest element is; the first of equals.

    >>> import weft.numpy as jnp
    >>> jnp.argmin(jnp.array([1, 3, 2])).item()
    0
    """
    return _arg_extreme("argmin", a, axis, out, keepdims, lax.argmin)


def _cumulate(name: str, a: Any, axis: Any, dtype: Any, out: Any, rule: Any) -> Array:
    check_arraylike(name, a)
    _no_out(name, out)
    x = lax_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = canonical_axis(axis, x.ndim)
    if dtype is None:
        wanted = dtypes.default_int_dtype() if x.dtype == np.bool_ else x.dtype
    else:
        wanted = dtypes.check_user_dtype(dtype, name)
    if wanted == np.bool_:
        raise ValueError(f"{name} needs a numeric dtype, got bool")
    return rule(convert_operand(x, wanted, x.weak_type and wanted == x.dtype), axis)


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Running sums.

    >>> import weft.numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulate("cumsum", a, axis, dtype, out, lax.cumsum)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Running products.

    >>> import weft.numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _cumulate("cumprod", a, axis, dtype, out, lax.cumprod)


def _without_nan(name: str, a: Any, fill: Any) -> Any:
    check_arraylike(name, a)
    x = lax_array(a)
    if not kind_of(x.dtype) & (FLOAT | COMPLEX):
        return x, None
    missing = isnan(x)
    return lax.select(missing, lax.full_like(x, fill), x), missing


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Sum of the elements that are numbers.

    >>> import weft.numpy as jnp
    >>> jnp.nansum(jnp.array([1.0, jnp.nan])).item()
    1.0
    """
    x, _ = _without_nan("nansum", a, 0)
    return sum(x, axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Product of the elements that are numbers.

    >>> import weft.numpy as jnp
    >>> jnp.nanprod(jnp.array([2.0, jnp.nan])).item()
    2.0
    """
    x, _ = _without_nan("nanprod", a, 1)
    return prod(x, axis, dtype, out, keepdims, initial, where)


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Array:
    """Elements held between two bounds, either of which may be left out.

    >>> import weft.numpy as jnp
    >>> jnp.clip(jnp.array([-1.0, 2.0]), 0.0, 1.0)
    Array([0., 1.], dtype=float32)
    """
    check_arraylike("clip", arr)
    result = asarray(arr)
    if kind_of(result.dtype) == COMPLEX:
        raise ValueError("clip does not order complex numbers; clip the parts")
    if min is not None:
        result = maximum(min, result)
    if max is not None:
        result = minimum(max, result)
    return result
