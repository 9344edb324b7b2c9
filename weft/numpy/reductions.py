"""Reductions with NumPy's names: sums, products, extremes, truth, positions, running sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base.record import Record
from weft.core.array import Array, Number
from weft.lax.shape import canonical_axis, integer_axis
from weft.numpy.broadcasting import choose_where, filled
from weft.numpy.creation import asarray
from weft.numpy.manipulation import ravel
from weft.numpy.parts import isnan
from weft.numpy.promotion import (
    as_array,
    concrete,
    convert_operand,
    ensure_array,
    mixes_inside,
    promote_args,
    refuse_out,
)
from weft.numpy.ufuncs import equal, isclose
from weft.prims.families import BOOL, COMPLEX, FLOAT, INTEGER, UINT, const, kind_of, scalar

_BOOL, _FLOAT32 = np.dtype(np.bool_), np.dtype(np.float32)
_HALVES = frozenset((np.dtype(np.float16), np.dtype("bfloat16")))

Axis = Any


# --- axes and dtypes ------------------------------------------------------------------------------


def static_axes(name: str, axis: Axis) -> Any:
    """An axis argument as None, an integer or a tuple; traced values are refused."""
    if axis is None or type(axis) is int:
        return axis
    axis = concrete(axis, f"{name} needs a concrete axis")
    if isinstance(axis, Iterable) and np.ndim(axis) + isinstance(axis, str):
        return tuple(i if isinstance(i, str) else integer_axis(i) for i in axis)
    return integer_axis(axis)


def canonical_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    fixed = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(fixed)) != len(fixed):
        raise ValueError(f"duplicate value in axis: {axis}")
    return fixed


def split_names(axis: Axis) -> tuple[Any, tuple[str, ...]]:
    """Positional axes, and the names of mapped axes among them."""
    if isinstance(axis, str):
        return (), (axis,)
    if isinstance(axis, tuple):
        names = tuple(a for a in axis if isinstance(a, str))
        if names:
            return tuple(a for a in axis if not isinstance(a, str)), names
    return axis, ()


def check_where(name: str, where: Any) -> Any:
    """A mask as an array, checked to be boolean."""
    if where is None:
        return None
    where = ensure_array(name, where)
    if where.dtype != np.bool_:
        raise ValueError(f"{name} needs a boolean array for where, got dtype {where.dtype}")
    return where


def wide_dtype(dtype: Any) -> Any:
    """The dtype that sums of 16-bit floats are computed in."""
    return _FLOAT32 if dtype in _HALVES else dtype


def promote_integer_dtype(dtype: Any) -> Any:
    """At least the default width for bools and integers."""
    kind = kind_of(dtype)
    if kind == BOOL:
        return dtypes.default_int_dtype()
    if not kind & INTEGER:
        return dtype
    wide = dtypes.default_uint_dtype() if kind == UINT else dtypes.default_int_dtype()
    return wide if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(wide) else dtype


# --- the general reduction ------------------------------------------------------------------------


class Reduction(Record):
    """What tells one reduction from another."""

    name: str
    reduce: Callable[..., Any]
    combine: Callable[..., Any]
    identity: Any
    has_identity: bool = True
    bool_reduce: Callable[..., Any] | None = None
    bool_combine: Callable[..., Any] | None = None
    prepare: Callable[[Any], Any] | None = None
    widen: bool = False
    across: Callable[..., Any] | None = None  # over named axes


def _as_numeric(x: Any) -> Any:
    if x.aval.dtype != np.bool_:
        return x
    return convert_operand(x, np.dtype(np.int32))


def as_bool(x: Any) -> Any:
    """Truth of elements; of complex numbers, that of their real part."""
    if kind_of(x.aval.dtype) == COMPLEX:
        x = lax.real(x)
    return as_array(convert_operand(x, _BOOL))


def _require_integer(x: Any) -> Any:
    if not kind_of(x.aval.dtype) & (BOOL | INTEGER):
        raise ValueError(f"this reduction needs integers, got dtype {x.aval.dtype}")
    return x


_SUM = Reduction(
    "sum",
    lax.reduce_sum,
    lax.add,
    0,
    bool_reduce=lax.reduce_or,
    bool_combine=lax.bitwise_or,
    prepare=_as_numeric,
    widen=True,
    across=lax.psum,
)
_PROD = Reduction(
    "prod",
    lax.reduce_prod,
    lax.mul,
    1,
    bool_reduce=lax.reduce_and,
    bool_combine=lax.bitwise_and,
    prepare=_as_numeric,
    widen=True,
)
_MAX = Reduction("max", lax.reduce_max, lax.max, -np.inf, has_identity=False, across=lax.pmax)
_MIN = Reduction("min", lax.reduce_min, lax.min, np.inf, has_identity=False, across=lax.pmin)
_ALL = Reduction("all", lax.reduce_and, lax.bitwise_and, True, prepare=as_bool)
_ANY = Reduction("any", lax.reduce_or, lax.bitwise_or, False, prepare=as_bool)
_XOR = Reduction("logical_xor", lax.reduce_xor, lax.bitwise_xor, False, prepare=as_bool)
_BIT_AND = Reduction("bitwise_and", lax.reduce_and, lax.bitwise_and, -1, prepare=_require_integer)
_BIT_OR = Reduction("bitwise_or", lax.reduce_or, lax.bitwise_or, 0, prepare=_require_integer)
_BIT_XOR = Reduction("bitwise_xor", lax.reduce_xor, lax.bitwise_xor, 0, prepare=_require_integer)


def _identity(rule: Reduction, dtype: Any) -> Any:
    """The value that masked elements are replaced by."""
    value, kind = rule.identity, kind_of(dtype)
    if kind == BOOL:
        return np.bool_(value > 0 or value is True or rule is _BIT_AND)
    if kind & INTEGER:
        if value in (np.inf, -np.inf):
            info = dtypes.iinfo(dtype)
            return scalar(dtype, info.min if value < 0 else info.max)
        return np.array(value).astype(dtype)[()]
    if value in (np.inf, -np.inf) and kind == FLOAT and not dtypes.supports_inf(dtype):
        info = dtypes.finfo(dtype)
        return scalar(dtype, float(info.min if value < 0 else info.max))
    return scalar(dtype, value)


def _reduce(
    rule: Reduction,
    a: Any,
    axis: Axis,
    dtype: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool = False,
) -> Array:
    name = rule.name
    refuse_out(name, out)
    x = ensure_array(name, a)
    where = check_where(name, where)
    if initial is None and not rule.has_identity and where is not None:
        raise ValueError(
            f"{name} over a mask needs an initial value, its result if the mask selects no elements"
        )
    if rule.prepare is not None:
        x = rule.prepare(x)
    positional, names = split_names(static_axes(name, axis))
    axes = canonical_axes(positional, x.ndim)
    if initial is None and not rule.has_identity:
        for i in axes:
            if x.shape[i] == 0:
                raise ValueError(
                    f"zero-size array to reduction operation {name} which has no identity"
                )
    if dtype is not None:
        result_dtype = working = dtypes.check_user_dtype(dtype, name)
    else:
        own = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
        result_dtype = promote_integer_dtype(own) if promote_integers else own
        working = wide_dtype(result_dtype) if rule.widen else result_dtype
    x = convert_operand(x, working)
    by_bool = working == np.bool_ and rule.bool_reduce is not None
    reduce = rule.bool_reduce if by_bool else rule.reduce
    if where is not None:
        x = choose_where(where, x, _identity(rule, working))
    result = reduce(x, axes)  # type: ignore[misc]
    if names:
        result = _across(rule, result, names)
    if initial is not None:
        start = convert_operand(initial, working)
        if np.shape(start):
            raise ValueError(f"{name} needs a scalar initial value, got {np.shape(start)}")
        combine = rule.bool_combine if by_bool else rule.combine
        result = combine(start, result)  # type: ignore[misc]
    if keepdims:
        result = lax.expand_dims(result, axes)
    return as_array(convert_operand(result, result_dtype))


def _across(rule: Reduction, x: Any, names: Sequence[str]) -> Any:
    if rule.across is None:
        raise NotImplementedError(f"{rule.name} does not reduce over named axes")
    return rule.across(x, tuple(names))


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Return the sum of the elements, over all or some axes.

    Args:
        a: Array or scalar to reduce.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        dtype: Dtype to accumulate in and to return. By default that of ``a``, with booleans and
            narrow integers widened (see ``promote_integers``); float16 and bfloat16 accumulate in
            float32.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        initial: Scalar to start from, combined with the result.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.
        promote_integers: If true, booleans and integers narrower than the default integer are
            summed in the default width (int32, or int64 with ``enable_x64``); if false, in their
            own dtype.

    Returns:
        Array without the reduced axes; 0 where there are no elements.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sum(jnp.ones((2, 3)), axis=0)
        Array([2., 2., 2.], dtype=float32)
    """
    return _reduce(_SUM, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """Return the product of the elements, over all or some axes.

    Args:
        a: Array or scalar to reduce.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        dtype: Dtype to accumulate in and to return. By default that of ``a``, with booleans and
            narrow integers widened (see ``promote_integers``); float16 and bfloat16 accumulate in
            float32.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        initial: Scalar to start from, combined with the result.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.
        promote_integers: If true, booleans and integers narrower than the default integer are
            multiplied in the default width (int32, or int64 with ``enable_x64``); if false, in
            their own dtype.

    Returns:
        Array without the reduced axes; 1 where there are no elements.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.prod(jnp.array([1, 2, 3])).item()
        6
    """
    return _reduce(_PROD, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def max(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the largest element, over all or some axes; NaN if an element is NaN.

    Args:
        a: Array or scalar to reduce.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        initial: Scalar that takes part in the comparison; required for an empty array and with
            ``where``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.

    Returns:
        Array without the reduced axes, in the dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.max(jnp.array([1, 3, 2])).item()
        3
    """
    return _reduce(_MAX, a, axis, None, out, keepdims, initial, where)


def min(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the smallest element, over all or some axes; NaN if an element is NaN.

    Args:
        a: Array or scalar to reduce.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        initial: Scalar that takes part in the comparison; required for an empty array and with
            ``where``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.

    Returns:
        Array without the reduced axes, in the dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.min(jnp.array([1, 3, 2])).item()
        1
    """
    return _reduce(_MIN, a, axis, None, out, keepdims, initial, where)


amax, amin = max, min


def all(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Return whether all elements are true, over all or some axes.

    Args:
        a: Array or scalar; zero is false, all other values are true. Of complex numbers the real
            part counts.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.

    Returns:
        Boolean array without the reduced axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.all(jnp.array([True, False])).item()
        False
    """
    return _reduce(_ALL, a, axis, None, out, keepdims, None, where)


def any(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Return whether any element is true, over all or some axes.

    Args:
        a: Array or scalar; zero is false, all other values are true. Of complex numbers the real
            part counts.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.
        where: Boolean mask that broadcasts against ``a``; elements where it is false are left out.

    Returns:
        Boolean array without the reduced axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.any(jnp.array([True, False])).item()
        True
    """
    return _reduce(_ANY, a, axis, None, out, keepdims, None, where)


def _ufunc_reduction(rule: Reduction) -> Callable[..., Array]:
    """A reduction with the arguments of a ufunc's ``reduce``."""

    def reduce(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        return _reduce(rule, a, axis, dtype, out, keepdims, initial, where)

    reduce.__name__ = reduce.__qualname__ = f"reduce_{rule.name}"
    return reduce


reduce_max, reduce_min = _ufunc_reduction(_MAX), _ufunc_reduction(_MIN)
reduce_logical_and, reduce_logical_or = _ufunc_reduction(_ALL), _ufunc_reduction(_ANY)
reduce_logical_xor = _ufunc_reduction(_XOR)
reduce_bitwise_and, reduce_bitwise_or = _ufunc_reduction(_BIT_AND), _ufunc_reduction(_BIT_OR)
reduce_bitwise_xor = _ufunc_reduction(_BIT_XOR)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return how many elements are not zero, over all or some axes.

    Args:
        a: Array or scalar; True counts as not zero.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.

    Returns:
        Integer array without the counted axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.count_nonzero(jnp.array([0, 1, 2])).item()
        2
    """
    x = ensure_array("count_nonzero", a)
    nonzero = lax.ne(x, const(x, 0))
    return sum(nonzero, axis=axis, dtype=dtypes.default_int_dtype(), keepdims=keepdims)


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the range of the elements: the largest minus the smallest.

    Args:
        a: Array or scalar.
        axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end. A
            string names an axis mapped by ``vmap`` or ``shard_map``.
        out: Must be None; arrays are immutable.
        keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
            ``a``.

    Returns:
        Array without the reduced axes, in the dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ptp(jnp.array([1, 4])).item()
        3
    """
    x = ensure_array("ptp", a)
    refuse_out("ptp", out)
    return lax.sub(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


# --- positions ------------------------------------------------------------------------------------


def _position(name: str, a: Any, axis: Any, out: Any, keepdims: Any, rule: Any) -> Array:
    x = ensure_array(name, a)
    refuse_out(name, out)
    ndim = x.ndim
    if axis is None:
        x, places = ravel(x), tuple(range(ndim))
        place = 0
    else:
        place = canonical_axis(concrete(axis, f"{name} needs a concrete axis"), ndim)
        places = (place,)
    if x.shape[place] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    if kind_of(x.dtype) == COMPLEX:
        x, rule = _complex_extremes(x, place, max if rule is lax.argmax else min), lax.argmax
    result = rule(x, place, dtypes.default_int_dtype())
    return lax.expand_dims(result, places) if keepdims else result


def _complex_extremes(x: Any, axis: int, extreme: Any) -> Any:
    """Where the extremes of complex numbers are, by real and then imaginary part; NaN is one."""
    parts = lax.real(x), lax.imag(x)
    missing = isnan(x)
    fill = -np.inf if extreme is max else np.inf
    marks = lax.bitwise_not(missing)
    for part in parts:
        candidates = choose_where(marks, part, const(part, fill))
        best = extreme(candidates, axis, keepdims=True)
        marks = lax.bitwise_and(marks, equal(part, best))
    return choose_where(any(missing, axis, keepdims=True), missing, marks)


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: Any = None) -> Array:
    """Return the index of the largest element; the first of equal ones.

    Args:
        a: Array to search; must not be empty.
        axis: Axis to search, a static integer; by default the flattened array.
        out: Must be None; arrays are immutable.
        keepdims: If true, the searched axis (with ``axis=None`` every axis) stays with size 1.

    Returns:
        Integer array (int32, or int64 with ``enable_x64``) without the searched axis. NaN counts as
        extreme.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.argmax(jnp.array([1, 3, 2])).item()
        1
    """
    return _position("argmax", a, axis, out, keepdims, lax.argmax)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: Any = None) -> Array:
    """Return the index of the smallest element; the first of equal ones.

    Args:
        a: Array to search; must not be empty.
        axis: Axis to search, a static integer; by default the flattened array.
        out: Must be None; arrays are immutable.
        keepdims: If true, the searched axis (with ``axis=None`` every axis) stays with size 1.

    Returns:
        Integer array (int32, or int64 with ``enable_x64``) without the searched axis. NaN counts as
        extreme.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.argmin(jnp.array([1, 3, 2])).item()
        0
    """
    return _position("argmin", a, axis, out, keepdims, lax.argmin)


# --- running sums and products --------------------------------------------------------------------


def cumulate(
    name: str, a: Any, axis: Any, dtype: Any, out: Any, rule: Any, promote: bool = False
) -> Array:
    """Running results of a binary function along an axis."""
    x = ensure_array(name, a)
    refuse_out(name, out)
    if axis is None or np.isscalar(a):
        x = lax.reshape(x, (x.size,))
    place = canonical_axis(0 if axis is None else axis, x.ndim)
    if dtype is None:
        widened = promote or x.dtype == np.bool_
        own = dtypes.canonicalize_dtype(x.dtype)
        result = working = promote_integer_dtype(own) if widened else own
    else:
        result = working = dtypes.check_user_dtype(dtype, name)
        if result == np.bool_:
            if x.dtype != np.bool_:
                x = lax.ne(x, const(x, 0))
            working = promote_integer_dtype(result)
    return as_array(convert_operand(rule(convert_operand(x, working), place), result))


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Return the running sums along an axis.

    Args:
        a: Array or scalar.
        axis: Axis along which to accumulate; by default the flattened array.
        dtype: Dtype to accumulate in and to return. By default that of ``a``, with booleans and
            narrow integers widened to the default integer.
        out: Must be None; arrays are immutable.

    Returns:
        Array with the shape of ``a``, or one-dimensional with ``axis=None``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cumsum(jnp.array([1, 2, 3]))
        Array([1, 3, 6], dtype=int32)
    """
    return cumulate("cumsum", a, axis, dtype, out, lax.cumsum)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """Return the running products along an axis.

    Args:
        a: Array or scalar.
        axis: Axis along which to accumulate; by default the flattened array.
        dtype: Dtype to accumulate in and to return. By default that of ``a``, with booleans and
            narrow integers widened to the default integer.
        out: Must be None; arrays are immutable.

    Returns:
        Array with the shape of ``a``, or one-dimensional with ``axis=None``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cumprod(jnp.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int32)
    """
    return cumulate("cumprod", a, axis, dtype, out, lax.cumprod)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Return the running sums along an axis, optionally starting with 0.

    Args:
        x: Array of at least one dimension.
        axis: Axis along which to accumulate; required if ``x`` has more than one dimension.
        dtype: Dtype to accumulate in and to return; by default that of ``x``, with narrow integers
            widened.
        include_initial: If true, the result starts with 0 and has one element more along the axis.

    Returns:
        Array with the shape of ``x``, one larger along ``axis`` with ``include_initial``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
        Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial, lax.cumsum, 0)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Return the running products along an axis, optionally starting with 1.

    Args:
        x: Array of at least one dimension.
        axis: Axis along which to accumulate; required if ``x`` has more than one dimension.
        dtype: Dtype to accumulate in and to return; by default that of ``x``, with narrow integers
            widened.
        include_initial: If true, the result starts with 1 and has one element more along the axis.

    Returns:
        Array with the shape of ``x``, one larger along ``axis`` with ``include_initial``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
        Array([1, 1, 2, 6], dtype=int32)
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial, lax.cumprod, 1)


def _cumulative(
    name: str, x: Any, axis: Any, dtype: Any, include_initial: bool, rule: Any, start: int
) -> Array:
    x = ensure_array(name, x)
    if x.ndim == 0:
        raise ValueError(f"{name} needs an array of at least one dimension")
    if axis is None and x.ndim > 1:
        raise ValueError(f"{name} needs an axis for an array of {x.ndim} dimensions")
    place = canonical_axis(0 if axis is None else axis, x.ndim)
    out = cumulate(name, x, place, dtype, None, rule, promote=rule is lax.cumsum)
    if not include_initial:
        return out
    sizes = (*x.shape[:place], 1, *x.shape[place + 1 :])
    return lax.concatenate([filled(sizes, scalar(out.dtype, start)), out], place)


def allclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:
    """Return whether all elements of two arrays are equal within ``atol + rtol * abs(b)``.

    Args:
        a: Array or scalar.
        b: Reference values; broadcasts against ``a``.
        rtol: Relative tolerance, a multiple of ``abs(b)``.
        atol: Absolute tolerance.
        equal_nan: If true, NaN equals NaN.

    Returns:
        Boolean scalar array. It is not a Python bool, so that it can be traced.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.allclose(jnp.ones(2), 1.0).item()
        True
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Return whether two arrays have the same shape and equal elements.

    Args:
        a1: First array or scalar.
        a2: Second array or scalar; it is not broadcast.
        equal_nan: If true, NaN equals NaN.

    Returns:
        Boolean scalar array; False if the shapes differ.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array_equal(jnp.ones(2), jnp.ones(3)).item()
        False
    """
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return as_array(np.False_)
    same = equal(x, y)
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(isnan(x), isnan(y)))
    return all(same)


@mixes_inside
def array_equiv(a1: Any, a2: Any) -> Array:
    """Return whether two arrays broadcast against each other and have equal elements.

    Args:
        a1: First array or scalar.
        a2: Second array or scalar.

    Returns:
        Boolean scalar array; False if the shapes do not broadcast.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.array_equiv(jnp.ones((2, 2)), jnp.ones(2)).item()
        True
    """
    x, y = asarray(a1), asarray(a2)
    try:
        lax.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return as_array(np.False_)
    return all(equal(x, y))


def clip(arr: Any = None, /, min: Number = None, max: Number = None) -> Array:
    """Return the elements limited to the range from ``min`` to ``max``.

    Args:
        arr: Array or scalar of real numbers.
        min: Lower bound, which broadcasts against ``arr``; None for no bound.
        max: Upper bound, which broadcasts against ``arr``; None for no bound. Where ``min > max``,
            the result is ``max``.

    Returns:
        Array of the broadcast shape, in the dtype that the arguments promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.clip(jnp.array([-1.0, 2.0]), 0.0, 1.0)
        Array([0., 1.], dtype=float32)
    """
    if arr is None:
        raise ValueError("clip needs an array")
    result = ensure_array("clip", arr)
    for x in (result, min, max):
        if x is not None and kind_of(dtypes.dtype(x)) == COMPLEX:
            raise ValueError("clip does not order complex numbers; clip their parts")
    if min is not None:
        result = lax.max(*promote_args("maximum", min, result, staged=True))
    if max is not None:
        result = lax.min(*promote_args("minimum", max, result, staged=True))
    return result
