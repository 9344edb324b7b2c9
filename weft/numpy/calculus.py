"""Differences, integrals, interpolation and convolution of sampled functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.lax.shape import canonical_axis
from weft.numpy.broadcasting import broadcast_to, choose_where
from weft.numpy.creation import asarray
from weft.numpy.indexing import getitem
from weft.numpy.manipulation import axis_tuple, concatenate, flip, moveaxis, ravel, reshape
from weft.numpy.parts import conjugate
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    convert_staged,
    ensure_array,
    ensure_arrays,
    promote_dtypes,
    promote_dtypes_inexact,
)
from weft.numpy.reductions import clip, cumsum, sum
from weft.numpy.sorting import searchsorted
from weft.numpy.ufuncs import (
    add,
    floor_divide,
    greater,
    less,
    less_equal,
    multiply,
    negative,
    not_equal,
    remainder,
    subtract,
    true_divide,
)
from weft.numpy.unary import absolute
from weft.prims.families import COMPLEX, INTEGER, kind_of

# --- differences ----------------------------------------------------------------------------------


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Return the differences of neighbours along an axis.

    Args:
        a: Array of at least one dimension.
        n: How many times to take differences, a static integer.
        axis: Axis along which neighbours lie.
        prepend: Values to put before ``a`` along the axis first; a scalar or an array.
        append: Values to put after ``a`` along the axis first; a scalar or an array.

    Returns:
        Array shorter by ``n`` along ``axis``; of booleans, whether neighbours differ.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.diff(jnp.array([1, 3, 6]))
        Array([2, 3], dtype=int32)
    """
    x = ensure_array("diff", a)
    count = operator.index(concrete(n, "diff needs a concrete n"))
    if count == 0:
        return x
    axis = operator.index(axis)
    if count < 0:
        raise ValueError(f"diff needs a non-negative order, got {count}")
    if x.ndim == 0:
        raise ValueError("diff needs an array of at least one dimension")
    place = canonical_axis(axis, x.ndim)
    edge = (*x.shape[:place], 1, *x.shape[place + 1 :])
    parts = [_edge(prepend, edge), x, _edge(append, edge)]
    parts = [p for p in parts if p is not None]
    if len(parts) > 1:
        x = concatenate(parts, place)
    lead = (slice(None),) * place
    minus = not_equal if x.dtype == np.bool_ else subtract
    for _ in range(count):
        later, earlier = getitem(x, (*lead, slice(1, None))), getitem(x, (*lead, slice(None, -1)))
        x = minus(later, earlier)
    return x


def _edge(values: Any, shape: tuple[int, ...]) -> Any:
    if values is None:
        return None
    values = ensure_array("diff", values)
    return values if values.ndim else broadcast_to(values, shape)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Return the differences of neighbours of the flattened array.

    Args:
        ary: Array, which is flattened.
        to_end: Values to put after the differences, converted to the dtype of ``ary``.
        to_begin: Values to put before the differences, converted to the dtype of ``ary``.

    Returns:
        One-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ediff1d(jnp.array([1, 3, 6]), to_begin=0)
        Array([0, 2, 3], dtype=int32)
    """
    x = ravel(ensure_array("ediff1d", ary))
    out = lax.sub(getitem(x, slice(1, None)), getitem(x, slice(None, -1)))
    if to_begin is not None:
        out = concatenate([ravel(_as_dtype(to_begin, x.dtype)), out])
    if to_end is not None:
        out = concatenate([out, ravel(_as_dtype(to_end, x.dtype))])
    return out


def _as_dtype(x: Any, dtype: Any) -> Any:
    check_arraylike("ediff1d", x)
    return as_array(convert_staged(x, dtype))


@overload
def gradient(f: Any, *varargs: Any, axis: int, edge_order: int | None = None) -> Array: ...
@overload
def gradient(
    f: Any, *varargs: Any, axis: Sequence[int], edge_order: int | None = None
) -> list[Array]: ...
@overload
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any: ...
def gradient(
    f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None
) -> Array | list[Array]:
    """Return the derivative along axes: central differences inside, one-sided at the ends.

    Args:
        f: Array of samples, at least two along each axis.
        *varargs: Distance of the samples: one scalar for all axes, or for each axis a scalar or a
            vector of coordinates; 1 by default.
        axis: Axis or tuple of axes to differentiate along; by default all.
        edge_order: Must be None or 1: differences at the ends are of first order.

    Returns:
        Floating-point array of the shape of ``f`` for one axis, else a list of them.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.gradient(jnp.array([1.0, 2.0, 4.0]))
        Array([1. , 1.5, 2. ], dtype=float32)
    """
    if edge_order is not None and edge_order != 1:
        raise NotImplementedError("gradient supports only edge_order=1")
    check_arraylike("gradient", f, *varargs)
    x, *spacing = promote_dtypes_inexact(f, *varargs, staged=True)
    x = as_array(x)
    axes = range(x.ndim) if axis is None else axis_tuple(axis)
    places = [canonical_axis(i, x.ndim) for i in axes]
    if not places:
        return []
    for i in places:
        if x.shape[i] < 2:
            raise ValueError(f"gradient needs at least 2 elements along axis {i}, got {x.shape}")
    if not spacing:
        steps: list[Any] = [1.0] * len(places)
    elif len(spacing) == 1:
        steps = spacing * len(places)
    elif len(spacing) == len(places):
        steps = spacing
    else:
        raise TypeError(f"gradient got {len(spacing)} spacings for {len(places)} axes")
    out = [_slopes(x, h, i) for i, h in zip(places, steps, strict=True)]
    return out[0] if len(places) == 1 else out


def _slopes(x: Any, h: Any, axis: int) -> Any:
    def part(start: Any, stop: Any) -> Any:
        return lax.slice_in_dim(x, start, stop, axis=axis)

    first = subtract(part(1, 2), part(0, 1))
    last = subtract(part(-1, None), part(-2, -1))
    if np.ndim(h) == 0:
        ahead, behind = part(2, None), part(None, -2)
        inner = true_divide(multiply(subtract(ahead, behind), 0.5), h)
        last, first = true_divide(last, h), true_divide(first, h)
    elif np.ndim(h) == 1:
        if np.shape(h)[0] != x.shape[axis]:
            raise ValueError(
                f"gradient got {np.shape(h)[0]} coordinates for an axis of size {x.shape[axis]}"
            )
        line = reshape(h, tuple(-1 if i == axis else 1 for i in range(x.ndim)))
        first, inner, last = _uneven_slopes(part, line, first, last, axis)
    else:
        raise ValueError(f"gradient takes scalars or vectors for spacings, got {np.shape(h)}")
    return concatenate([first, inner, last], axis)


def _uneven_slopes(part: Any, h: Any, first: Any, last: Any, axis: int) -> tuple[Any, Any, Any]:
    """Slopes over coordinates that are not evenly spaced, by parabolas through three points."""

    def at(start: Any, stop: Any) -> Any:
        return lax.slice_in_dim(h, start, stop, axis=axis)

    first = true_divide(first, subtract(at(1, 2), at(0, 1)))
    last = true_divide(last, subtract(at(-1, None), at(-2, -1)))
    left = subtract(at(1, -1), at(0, -2))
    right = subtract(at(2, None), at(1, -1))
    a = true_divide(negative(right), multiply(left, add(left, right)))
    b = true_divide(subtract(right, left), multiply(left, right))
    c = true_divide(left, multiply(right, add(left, right)))
    inner = add(multiply(a, part(0, -2)), multiply(b, part(1, -1)))
    return first, add(inner, multiply(c, part(2, None))), last


_TURN = 2 * np.pi


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = _TURN) -> Array:
    """Return angles with jumps of more than half a period removed.

    Args:
        p: Array of angles.
        discont: Least jump that is removed; by default, and at least, half the period.
        axis: Axis along which angles follow each other.
        period: The period; 2 pi by default.

    Returns:
        Array with the shape of ``p``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unwrap(jnp.array([0, 1, 3, 0]), period=4)
        Array([0, 1, 3, 4], dtype=int32)
    """
    check_arraylike("unwrap", p)
    p, period = (as_array(x) for x in promote_dtypes(p, period, staged=period is not _TURN))
    if kind_of(p.dtype) == COMPLEX:
        raise ValueError("unwrap does not take complex numbers")
    if p.shape[canonical_axis(axis, p.ndim)] == 0:
        return p
    if discont is None:
        discont = true_divide(period, 2)
    whole = kind_of(p.dtype) & INTEGER
    interval = floor_divide(period, 2) if whole else true_divide(period, 2)
    step = diff(p, axis=axis)
    wrapped = subtract(remainder(add(step, interval), period), interval)
    at_edge = lax.eq(wrapped, negative(interval))
    at_edge = lax.bitwise_and(at_edge, greater(step, 0))
    wrapped = choose_where(at_edge, interval, wrapped)
    small = less(absolute(step), discont)
    correction = choose_where(small, 0, subtract(wrapped, step))
    first = lax.slice_in_dim(p, 0, 1, axis=axis)
    rest = add(lax.slice_in_dim(p, 1, None, axis=axis), cumsum(correction, axis=axis))
    return concatenate([first, rest], axis)


# --- integrals and interpolation ------------------------------------------------------------------


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """Return the integral of samples by the trapezoidal rule.

    Args:
        y: Array of samples.
        x: Coordinates of the samples, a vector or an array that broadcasts; by default ``dx``
            apart.
        dx: Distance of the samples if ``x`` is None.
        axis: Axis to integrate along.

    Returns:
        Floating-point array without the axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0])).item()
        4.0
    """
    if x is None:
        (y,) = promote_dtypes_inexact(ensure_array("trapezoid", y))
        widths = asarray(dx)
        if widths.ndim:
            widths = lax.expand_dims(widths, range(y.ndim - widths.ndim))
            widths = moveaxis(widths, axis, -1)
    else:
        y, x = map(asarray, promote_dtypes_inexact(*ensure_arrays("trapezoid", y, x)))
        widths = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    y = moveaxis(y, axis, -1)
    if widths.ndim == 0 or widths.shape[-1] == 1:
        width = widths if widths.ndim == 0 else getitem(widths, (..., 0))
        total = sum(y, -1)
        ends = add(getitem(y, (..., 0)), getitem(y, (..., -1)))
        return multiply(width, subtract(total, multiply(0.5, ends)))
    heights = add(getitem(y, (..., slice(1, None))), getitem(y, (..., slice(None, -1))))
    return multiply(0.5, sum(multiply(widths, heights), -1))


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Return values between samples, by linear interpolation.

    Args:
        x: Array of points to evaluate at.
        xp: Ascending vector of sample points; need not ascend if ``period`` is given.
        fp: Vector of sample values, real or complex.
        left: Value for ``x < xp[0]``; by default ``fp[0]``. "extrapolate" continues the first
            segment.
        right: Value for ``x > xp[-1]``; by default ``fp[-1]``. "extrapolate" continues the last
            segment.
        period: Period of the points; ``left`` and ``right`` are then ignored.

    Returns:
        Array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.interp(1.5, jnp.arange(3.0), jnp.array([0.0, 10.0, 30.0])).item()
        20.0
    """
    check_arraylike("interp", x, xp, fp)
    if np.shape(xp) != np.shape(fp) or np.ndim(xp) != 1:
        raise ValueError(
            f"interp takes vectors xp and fp of one size, got {np.shape(xp)} and {np.shape(fp)}"
        )
    x, xp = (as_array(v) for v in promote_dtypes_inexact(x, xp, staged=True))
    (fp,) = promote_dtypes_inexact(fp)
    fp = as_array(fp)
    for name, given in (("left", left), ("right", right)):
        if isinstance(given, str) and given != "extrapolate":
            raise ValueError(f"{name} of interp may be a number or 'extrapolate', got {given!r}")
    if kind_of(x.dtype) == COMPLEX:
        raise ValueError("interp does not order complex numbers")
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    out = _between(x, xp, fp)
    if period is not None:
        return out
    if not isinstance(left, str):
        edge = getitem(fp, 0) if left is None else left
        out = choose_where(less(x, getitem(xp, 0)), edge, out)
    if not isinstance(right, str):
        edge = getitem(fp, -1) if right is None else right
        out = choose_where(greater(x, getitem(xp, -1)), edge, out)
    return out


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Samples sorted within one period, with one neighbour more on both sides."""
    if np.ndim(period):
        raise ValueError(f"period of interp must be a scalar, got shape {np.shape(period)}")
    period = absolute(period)
    x, xp = remainder(x, period), remainder(xp, period)
    xp, fp = lax.sort_key_val(xp, fp)
    first, last = slice(None, 1), slice(-1, None)
    xp = concatenate([subtract(getitem(xp, last), period), xp, add(getitem(xp, first), period)])
    fp = concatenate([getitem(fp, last), fp, getitem(fp, first)])
    return x, xp, fp


def _between(x: Any, xp: Any, fp: Any) -> Any:
    i = clip(searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    rise = subtract(getitem(fp, i), getitem(fp, subtract(i, 1)))
    run = subtract(getitem(xp, i), getitem(xp, subtract(i, 1)))
    offset = subtract(x, getitem(xp, subtract(i, 1)))
    tiny = np.spacing(np.finfo(xp.dtype).eps)
    level = less_equal(lax.abs(run), tiny)
    flat, base = getitem(fp, subtract(i, 1)), getitem(fp, subtract(i, 1))
    slope = true_divide(offset, choose_where(level, 1, run))
    return choose_where(level, flat, add(base, multiply(slope, rise)))


# --- convolution ----------------------------------------------------------------------------------


def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Return the discrete convolution of two vectors.

    Args:
        a: First vector, not empty.
        v: Second vector, not empty.
        mode: "full" (every overlap), "same" (as long as the longer operand) or "valid" (complete
            overlaps only).
        precision: Precision of the products on accelerators: None, a ``lax.Precision`` or its name.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Vector in a floating-point or complex dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
        Array([1., 3., 2.], dtype=float32)
    """
    a, v = _vectors("convolve", a, v, preferred_element_type)
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    out = _slide(a, flip(v), mode, precision, preferred_element_type)
    return getitem(out, (0, 0, slice(None)))


def correlate(
    a: Any,
    v: Any,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the cross-correlation of two vectors.

    Args:
        a: First vector, not empty.
        v: Second vector, not empty; it is conjugated.
        mode: "full" (every overlap), "same" (as long as the longer operand) or "valid" (complete
            overlaps only).
        precision: Precision of the products on accelerators: None, a ``lax.Precision`` or its name.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Vector in a floating-point or complex dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]))
        Array([2., 3.], dtype=float32)
    """
    a, v = _vectors("correlate", a, v, preferred_element_type)
    v = conjugate(v)
    if a.shape[0] >= v.shape[0]:
        out = _slide(a, v, mode, precision, preferred_element_type)
        return getitem(out, (0, 0, slice(None)))
    out = _slide(v, a, mode, precision, preferred_element_type)
    return getitem(out, (0, 0, slice(None, None, -1)))


def _vectors(name: str, a: Any, v: Any, preferred: Any) -> list[Any]:
    a, v = ensure_arrays(name, a, v)
    for x in (a, v):
        if x.ndim != 1:
            raise ValueError(f"{name} takes vectors, got shapes {a.shape} and {v.shape}")
        if x.shape[0] == 0:
            raise ValueError(f"{name} takes non-empty vectors, got {a.shape}, {v.shape}")
    promote = promote_dtypes_inexact if preferred is None else promote_dtypes
    return [as_array(x) for x in promote(a, v)]


def _slide(x: Any, window: Any, mode: str, precision: Any, preferred: Any) -> Any:
    size = window.shape[0]
    pads = {
        "valid": (0, 0),
        "same": (size // 2, size - size // 2 - 1),
        "full": (size - 1, size - 1),
    }
    if mode not in pads:
        raise ValueError(f"mode must be 'full', 'same' or 'valid', got {mode!r}")
    if preferred is not None:
        preferred = dtypes.check_user_dtype(preferred, "convolve")
    return lax.conv_general_dilated(
        lax.expand_dims(x, (0, 1)),
        lax.expand_dims(window, (0, 1)),
        (1,),
        [pads[mode]],
        precision=precision,
        preferred_element_type=preferred,
    )
