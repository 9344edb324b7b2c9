"""Convolutions without overlapping windows as products of matrices.

These are convolutions by a window of one element, their gradients by data, and their gradients by
filters, whose window is all of the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.lowerings.tools import bind, like

_TYPES = ("bfloat16", "float16", "float32", "float64")


def _dot(x: Any, w: Any, contract: Any, params: Any) -> Any:
    return bind(
        "dot_general",
        x,
        w,
        dimension_numbers=(contract, ((), ())),
        precision=params["precision"],
        preferred_element_type=params["preferred_element_type"],
        out_sharding=None,
    )


def _strided(x: Any, axes: Any, steps: Any, counts: Any) -> Any:
    """Some elements along axes: so many, so far apart."""
    shape = np.shape(x)
    stops, strides = list(shape), [1] * len(shape)
    for axis, step, count in zip(axes, steps, counts, strict=True):
        stops[axis], strides[axis] = (count - 1) * step + 1, step
    if tuple(stops) == shape and max(strides) == 1:
        return x
    starts = (0,) * len(shape)
    return bind(
        "slice", x, start_indices=starts, limit_indices=tuple(stops), strides=tuple(strides)
    )


def ordered(x: Any, axes: Any, spec: Any) -> Any:
    """An array whose axes are named so, with them in the order that a specification gives."""
    order = tuple(axes.index(spec.index(i)) for i in range(len(spec)))
    if order == tuple(range(len(order))):
        return x
    return bind("transpose", x, permutation=order)


def convolve(x: Any, w: Any, **params: Any) -> Any:
    xs, ws, os = params["dimension_numbers"]
    if all(np.shape(w)[i] == 1 for i in ws[2:]):
        return _by_element(x, w, xs, ws, os, params)
    counts = [np.shape(w)[i] for i in ws[2:]]
    x = _strided(x, xs[2:], params["rhs_dilation"], counts)
    found = _dot(x, w, ((xs[1], *xs[2:]), (ws[1], *ws[2:])), params)
    shape = [1] * len(os)
    shape[os[0]], shape[os[1]] = np.shape(found)
    if os[0] > os[1]:
        found = bind("transpose", found, permutation=(1, 0))
    return bind("reshape", found, new_sizes=tuple(shape), dimensions=None, sharding=None)


def _by_element(x: Any, w: Any, xs: Any, ws: Any, os: Any, params: Any) -> Any:
    strides, base = params["window_strides"], params["lhs_dilation"]
    counts = [-(-np.shape(x)[i] // s) for i, s in zip(xs[2:], strides, strict=True)]
    x = _strided(x, xs[2:], strides, counts)
    # filters are a matrix: their channels in and out, in the order in which they are
    pair = tuple(np.shape(w)[i] for i in sorted(ws[:2]))
    w = bind("reshape", w, new_sizes=pair, dimensions=None, sharding=None)
    within = 0 if ws[1] < ws[0] else 1
    found = _dot(x, w, ((xs[1],), (within,)), params)
    # axes of the product by what they are: batch 0, features 1, space from 2 on
    axes = [xs.index(i) for i in range(len(xs)) if i != xs[1]] + [1]
    found = ordered(found, axes, tuple(os))
    if max(base, default=1) == 1:
        return found
    config = [(0, 0, 0)] * len(os)
    for axis, step, (low, high) in zip(os[2:], base, params["padding"], strict=True):
        config[axis] = (low, high, step - 1)
    return bind("pad", found, like(found, 0), padding_config=tuple(config))


def _fits(avals: Any, params: Any) -> bool:
    x, w = avals
    xs, ws, _ = params["dimension_numbers"]
    if params["feature_group_count"] > 1 or params["batch_group_count"] > 1:
        return False
    if x.dtype != w.dtype or x.dtype.name not in _TYPES:
        return False
    if 0 in x.shape or 0 in w.shape:
        return False
    padding, base = params["padding"], params["lhs_dilation"]
    strides = params["window_strides"]
    if all(w.shape[i] == 1 for i in ws[2:]):
        if max(base, default=1) > 1:
            return max(strides) == 1 and all(low >= 0 and high >= 0 for low, high in padding)
        return all(tuple(pair) == (0, 0) for pair in padding)
    if max(base, default=1) > 1:
        return False
    for i, j, d, (low, high) in zip(xs[2:], ws[2:], params["rhs_dilation"], padding, strict=True):
        extent = (w.shape[j] - 1) * d + 1
        if low != 0 or high > 0 or x.shape[i] + high != extent:
            return False
    return True


FITS = {"convolve": _fits}
