"""Convolutions of dilated images with a filter for each channel, the gradients of those with
strides, as sums over the filter's elements, which fuse: most of what a window covers is zero."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.prims.lowerings.pointwise import ordered
from weft.prims.lowerings.tools import bind, convert, dtype_of, like, spread

_TYPES = ("bfloat16", "float16", "float32")
# Elements of a filter at most: each is a term of the sum.
MOST_TAPS = 32


def convolve(x: Any, w: Any, **params: Any) -> Any:
    xs, ws, os = params["dimension_numbers"]
    strides, steps = params["window_strides"], params["rhs_dilation"]
    rank, window = len(xs) - 2, [np.shape(w)[i] for i in ws[2:]]
    counts = _counts(np.shape(x), window, params)
    config = [(0, 0, 0)] * (rank + 2)
    for axis, (low, high), by in zip(
        xs[2:], params["padding"], params["lhs_dilation"], strict=True
    ):
        config[axis] = (low, high, by - 1)
    x = bind("pad", x, like(x, 0), padding_config=tuple(config))
    found = None
    for tap in product(*map(range, window)):
        begin, end, step = [0] * (rank + 2), list(np.shape(x)), [1] * (rank + 2)
        corner, limit = [0] * (rank + 2), list(np.shape(w))
        for axis, own, i, n, d, s in zip(xs[2:], ws[2:], tap, counts, steps, strides, strict=True):
            begin[axis], end[axis], step[axis] = i * d, i * d + (n - 1) * s + 1, s
            corner[own], limit[own] = i, i + 1
        part = bind("slice", x, start_indices=_t(begin), limit_indices=_t(end), strides=_t(step))
        one = bind("slice", w, start_indices=_t(corner), limit_indices=_t(limit), strides=None)
        one = bind("reshape", one, new_sizes=(limit[ws[0]],), dimensions=None, sharding=None)
        one = spread(convert(one, np.float32), np.shape(part), (xs[1],))
        term = bind("mul", convert(part, np.float32), one, out_dtype=None)
        found = term if found is None else bind("add", found, term)
    meanings = [xs.index(i) for i in range(rank + 2)]
    return convert(ordered(found, meanings, tuple(os)), _result(x, params))


def _counts(shape: Any, window: Any, params: Any) -> list[int]:
    """Results along each axis."""
    found = []
    for axis, (low, high), by, t, d, s in zip(
        params["dimension_numbers"][0][2:],
        params["padding"],
        params["lhs_dilation"],
        window,
        params["rhs_dilation"],
        params["window_strides"],
        strict=True,
    ):
        extent = low + (shape[axis] - 1) * by + 1 + high
        found.append((extent - (t - 1) * d - 1) // s + 1)
    return found


def _t(numbers: Any) -> tuple[int, ...]:
    return tuple(numbers)


def _result(x: Any, params: Any) -> Any:
    return np.dtype(params["preferred_element_type"] or dtype_of(x))


def _fits(avals: Any, params: Any) -> bool:
    """Whether an image is dilated, and each channel of it has a small filter."""
    x, w = avals
    xs, ws, _ = params["dimension_numbers"]
    groups = params["feature_group_count"]
    dilated = any(by > 1 for by in params["lhs_dilation"])
    if x.dtype != w.dtype or x.dtype.name not in _TYPES or not dilated:
        return False
    if params["batch_group_count"] > 1 or not groups == x.shape[xs[1]] == w.shape[ws[0]] > 1:
        return False
    window = [w.shape[i] for i in ws[2:]]
    if not 0 < prod(window) <= MOST_TAPS or 0 in x.shape:
        return False
    return min(_counts(x.shape, window, params)) > 0


FITS = {"convolve": _fits}
