"""Convolutions of narrow floats whose channels come first, as those of arrays with channels last.

Libraries have these only with channels last. Written out, transposes fuse with what comes before
and after, and gradients share them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.conv import ConvDimensionNumbers, conv_shape
from weft.prims.dot import inverse
from weft.prims.lowerings.tools import bind
from weft.prims.shape import transpose

_TYPES = ("bfloat16", "float16")
_SHAPE = (
    "window_strides padding lhs_dilation rhs_dilation dimension_numbers feature_group_count"
    " batch_group_count"
).split()


def convolve(x: Any, w: Any, **params: Any) -> Any:
    xs, ws, os = params["dimension_numbers"]
    by_filters = _is_by_filters(np.shape(x), np.shape(w), params)
    first, second, third = (_order(spec, by_filters) for spec in (xs, ws, os))
    x, xs = transpose(x, first), _moved(xs, first)
    if by_filters:  # of what is as large as the data
        w, ws = transpose(w, second), _moved(ws, second)
    numbers = ConvDimensionNumbers(xs, ws, _moved(os, third))
    y = bind("conv_general_dilated", x, w, **{**params, "dimension_numbers": numbers})
    return transpose(y, inverse(third))


def _order(spec: Any, by_filters: bool) -> tuple[int, ...]:
    """Axes with the batch first and channels last, which change places in gradients by filters."""
    outer, inner = (spec[1], spec[0]) if by_filters else (spec[0], spec[1])
    return (outer, *spec[2:], inner)


def _moved(spec: Any, order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(axis) for axis in spec)


def _is_by_filters(shape: Any, window: Any, params: Any) -> bool:
    """Whether a window is much larger than what it makes, or groups of the batch say so."""
    _, ws, os = params["dimension_numbers"]
    out = conv_shape(shape, window, **{name: params[name] for name in _SHAPE})
    large = prod(window[i] for i in ws[2:]) > 4 * prod(out[i] for i in os[2:])
    return params["batch_group_count"] > 1 or (large and params["feature_group_count"] == 1)


def _fits(avals: Any, params: Any) -> bool:
    x, w = avals
    xs = params["dimension_numbers"][0]
    if x.dtype != w.dtype or x.dtype.name not in _TYPES or 0 in x.shape or 0 in w.shape:
        return False
    if not 3 <= len(xs) <= 5 or params["preferred_element_type"] not in (None, x.dtype):
        return False
    if max(params["lhs_dilation"]) > 1:
        return False
    order = _order(xs, _is_by_filters(x.shape, w.shape, params))
    long = [axis for axis in order if x.shape[axis] > 1]
    return long != sorted(long)


FITS = {"convolve": _fits}
