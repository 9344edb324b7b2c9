"""Padding arrays at their edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.dims.dim import Dim, min_dim, whole
from weft.numpy.averages import mean
from weft.numpy.broadcasting import broadcast_to
from weft.numpy.creation import asarray, empty_like
from weft.numpy.indexing import getitem
from weft.numpy.manipulation import flip, reshape, squeeze
from weft.numpy.promotion import concrete, convert_operand, convert_staged, ensure_array
from weft.numpy.ranges import linspace
from weft.numpy.reductions import amax, amin
from weft.numpy.statistics import median
from weft.numpy.ufuncs import multiply, subtract
from weft.numpy.unary import round
from weft.numpy.vectorizing import apply_along_axis
from weft.tree.functions import tree_map

Widths = tuple[tuple[Any, Any], ...]

_OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "maximum": "stat_length",
    "minimum": "stat_length",
    "mean": "stat_length",
    "median": "stat_length",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": "",
    "edge": "",
    "empty": "",
}
_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": amax,
    "minimum": amin,
    "mean": mean,
    "median": median,
}


def _width(n: Any) -> Any:
    return n if type(n) is Dim else int(n)


def pad(
    array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
) -> Array:
    """Return an array extended at its ends: by a constant, its own elements, or statistics of them.

    Args:
        array: Array to extend.
        pad_width: Number of elements to add: one integer, a pair (before, after) for all axes, or a
            pair for each axis. Must be static.
        mode: "constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect",
            "symmetric", "wrap", "empty", or a function that fills a padded vector as in NumPy.
        **kwargs: The option of the mode: ``constant_values`` (0), ``end_values`` (0) for
            "linear_ramp", ``stat_length`` for statistics, ``reflect_type`` ("even" or "odd") for
            "reflect" and "symmetric". A function receives them all.

    Returns:
        Array in the dtype of ``array`` with larger axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.pad(jnp.array([1, 2, 3]), 1)
        Array([0, 1, 2, 3, 0], dtype=int32)
        >>> jnp.pad(jnp.array([1, 2, 3]), (0, 2), mode="reflect")
        Array([1, 2, 3, 2, 1], dtype=int32)
    """
    x = ensure_array("pad", array)
    widths = _pairs(pad_width, x.ndim, "pad_width")
    known = [n for pair in widths for n in pair if type(n) is not Dim]
    if known and np.asarray(known).dtype.kind not in "iu":
        raise TypeError(f"pad_width must hold integers, got {pad_width!r}")
    widths = tuple((_width(low), _width(high)) for low, high in widths)
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"pad has no mode {mode!r}; choose one of {', '.join(_OPTIONS)}")
    unknown = set(kwargs) - {_OPTIONS[mode]}
    if unknown:
        raise ValueError(f"pad with mode {mode!r} does not take {', '.join(sorted(unknown))}")
    if x.ndim == 0:
        return x
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"pad_width cannot be negative, got {widths}")
    return _pad(x, widths, mode, kwargs)


def _pad(x: Any, widths: Widths, mode: str, options: dict[str, Any]) -> Any:
    if mode == "constant":
        return _pad_constant(x, widths, options.get("constant_values", 0))
    if mode == "linear_ramp":
        ends = _pairs(options.get("end_values", 0), x.ndim, "end_values")
        return _pad_ramp(x, widths, ends)
    if mode in _STATISTICS:
        length = options.get("stat_length")
        lengths = None if length is None else _pairs(length, x.ndim, "stat_length")
        return _pad_statistic(x, widths, lengths, _STATISTICS[mode])
    if mode == "empty":
        return _pad_empty(x, widths)
    for axis, (low, high) in enumerate(widths):
        if x.shape[axis] == 0:
            if low or high:
                raise ValueError(f"pad with mode {mode!r} cannot extend an empty axis")
            continue
        if mode == "wrap":
            x = _pad_wrap(x, axis, low, high)
        elif mode == "edge":
            x = _pad_edge(x, axis, low, high)
        elif low or high:
            odd = options.get("reflect_type", "even") == "odd"
            size = x.shape[axis]
            x = _mirror(x, axis, size, low, mode, odd, before=True)
            x = _mirror(x, axis, size, high, mode, odd, before=False)
    return x


def _pairs(values: Any, ndim: int, name: str) -> Widths:
    """A pair of values for each axis, of any of the short forms that NumPy takes."""
    known = tree_map(lambda v: np.asarray(concrete(v, f"pad needs a concrete {name}")), values)
    try:
        data = np.asarray(known)
        if data.dtype == object:  # a symbolic dimension among them
            data = np.asarray(tree_map(lambda v: v[()], known), object)
    except ValueError:
        raise TypeError(f"{name} of pad must hold pairs of one form, got {values!r}") from None
    if data.shape == (ndim, 2):
        return tuple((low, high) for low, high in data)
    if data.shape in ((1, 2), (2,)):
        low, high = data.reshape(2)
        return ((low, high),) * ndim
    if data.size == 1 and data.ndim < 2:
        value = data.reshape(())[()]
        return ((value, value),) * ndim
    raise ValueError(
        f"{name} of pad has shape {data.shape}; for an array of {ndim} axes it may be"
        f" ({ndim}, 2), (1, 2), (2,), (1,) or a scalar"
    )


def _repeated(x: Any, count: int, axis: int) -> Any:
    """A slice of size 1 repeated along its axis."""
    shape = list(x.shape)
    shape.insert(axis + 1, count)
    spread = lax.broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i != axis + 1])
    sizes = list(x.shape)
    sizes[axis] = count
    return reshape(spread, sizes)


def _pad_constant(x: Any, widths: Widths, values: Any) -> Any:
    weak = dtypes.is_weakly_typed(x)
    if isinstance(values, (list, tuple)):
        values = asarray(values)
    values = convert_staged(values, x.dtype, weak)
    config = [(low, high, 0) for low, high in widths]
    if np.ndim(values) == 0:
        return lax.pad(x, values, config)
    last = np.shape(values)[-1]
    if np.shape(values) == (1,):
        return lax.pad(x, squeeze(values), config)
    if last not in (1, 2):
        raise ValueError(f"constant_values of pad has shape {np.shape(values)}; it ends in 1 or 2")
    values = broadcast_to(values, (x.ndim, 2))
    for axis, pair in enumerate(widths):
        for side, count in enumerate(pair):
            if count:
                config = [(0, 0, 0)] * x.ndim
                config[axis] = (0, count, 0) if side else (count, 0, 0)
                x = lax.pad(x, getitem(values, (axis, side)), config)
    return x


def _pad_wrap(x: Any, axis: int, low: int, high: int) -> Any:
    size = x.shape[axis]
    before, rest_before = divmod(low, size)
    after, rest_after = divmod(high, size)
    parts = [x] * (before + after + 1)
    if rest_before:
        parts.insert(0, lax.slice_in_dim(x, size - rest_before, size, axis=axis))
    if rest_after:
        parts.append(lax.slice_in_dim(x, 0, rest_after, axis=axis))
    return lax.concatenate(parts, axis)


def _pad_edge(x: Any, axis: int, low: int, high: int) -> Any:
    size = x.shape[axis]
    first = _repeated(lax.slice_in_dim(x, 0, 1, axis=axis), low, axis)
    last = _repeated(lax.slice_in_dim(x, size - 1, size, axis=axis), high, axis)
    return lax.concatenate([first, x, last], axis)


def _mirror(x: Any, axis: int, size: int, count: int, mode: str, odd: bool, *, before: bool) -> Any:
    """Padding by reflection on one side, in rounds of at most the size of the array."""
    ends = (0, 1) if before else (-1, None)
    edge = lax.slice_in_dim(x, *ends, axis=axis)
    offset = 1 if mode == "reflect" and size > 1 else 0
    while count > 0:
        now = min(count, size - offset)
        count -= now
        if before:
            part = lax.slice_in_dim(x, offset, offset + now, axis=axis)
        else:
            stop = None if mode == "symmetric" or size == 1 else -1
            part = lax.slice_in_dim(x, -(now + offset), stop, axis=axis)
        part = flip(part, axis)
        if odd:
            part = subtract(multiply(2, edge), part)
            if size > 1:
                edge = lax.slice_in_dim(part, *ends, axis=axis)
        x = lax.concatenate([part, x] if before else [x, part], axis)
    return x


def _pad_ramp(x: Any, widths: Widths, ends: Widths) -> Any:
    weak = dtypes.is_weakly_typed(x)
    for axis, (low, high) in enumerate(widths):
        first = lax.slice_in_dim(x, 0, 1, axis=axis)
        last = lax.slice_in_dim(x, -1, None, axis=axis)
        start, stop = ends[axis]
        options = {"endpoint": False, "dtype": x.dtype, "axis": axis}
        before = linspace(start, squeeze(first, axis), low, **options)
        before = convert_operand(before, x.dtype, weak)
        after = linspace(stop, squeeze(last, axis), high, **options)
        after = convert_operand(after, x.dtype, weak)
        x = lax.concatenate([before, x, flip(after, axis)], axis)
    return x


def _pad_statistic(x: Any, widths: Widths, lengths: Widths | None, statistic: Any) -> Any:
    dtype, weak = x.dtype, dtypes.is_weakly_typed(x)
    for axis, (low, high) in enumerate(widths):
        if lengths is None:
            first = last = statistic(x, axis=axis, keepdims=True)
        else:
            size = x.shape[axis]
            before, after = (min_dim(whole(n), size) for n in lengths[axis])
            if before == 0 or after == 0:
                raise ValueError("stat_length of pad must not be 0")
            head = lax.slice_in_dim(x, 0, before, axis=axis)
            tail = lax.slice_in_dim(x, -after, None, axis=axis)
            first = statistic(head, axis=axis, keepdims=True)
            last = statistic(tail, axis=axis, keepdims=True)
        if dtypes.issubdtype(dtype, np.integer):
            first, last = round(first), round(last)
        first, last = convert_operand(first, dtype, weak), convert_operand(last, dtype, weak)
        first, last = _repeated(first, low, axis), _repeated(last, high, axis)
        x = lax.concatenate([first, x, last], axis)
    return x


def _pad_empty(x: Any, widths: Widths) -> Any:
    for axis, pair in enumerate(widths):
        shapes = [(*x.shape[:axis], count, *x.shape[axis + 1 :]) for count in pair]
        before, after = (empty_like(x, shape=shape) for shape in shapes)
        x = lax.concatenate([before, x, after], axis)
    return x


def _pad_by_function(x: Any, widths: Widths, function: Any, options: dict[str, Any]) -> Any:
    padded = _pad_constant(x, widths, 0)
    for axis, pair in enumerate(widths):
        padded = apply_along_axis(function, axis, padded, pair, axis, options)
    return padded
