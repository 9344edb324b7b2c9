"""Convolutions with other padding before an axis than after it, as those with the same on both
sides, of what is padded; and the gradients by data of those, as parts of larger ones.

Libraries have one padding for both sides. Padding and the part that is taken fuse with what comes
before and after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.lowerings.tools import bind, like

_TYPES = ("bfloat16", "float16", "float32")


def convolve(x: Any, w: Any, **params: Any) -> Any:
    xs, _, os = params["dimension_numbers"]
    if max(params["lhs_dilation"]) == 1:
        config, both = [(0, 0, 0)] * len(xs), []
        for axis, (low, high) in zip(xs[2:], params["padding"], strict=True):
            same = min(low, high)
            config[axis] = (low - same, high - same, 0)
            both.append((same, same))
        x = bind("pad", x, like(x, 0), padding_config=tuple(config))
        return bind("conv_general_dilated", x, w, **{**params, "padding": tuple(both)})
    rims = _rims(np.shape(x), np.shape(w), params)
    padding = tuple(
        (first + low, second + high)
        for (first, second), (low, high) in zip(params["padding"], rims, strict=True)
    )
    whole = bind("conv_general_dilated", x, w, **{**params, "padding": padding})
    starts, limits = [0] * len(os), list(np.shape(whole))
    for axis, (low, high) in zip(os[2:], rims, strict=True):
        starts[axis], limits[axis] = low, limits[axis] - high
    return bind(
        "slice", whole, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None
    )


def _rims(shape: Any, window: Any, params: Any) -> list[tuple[int, int]]:
    """What the data that a gradient is by was padded with."""
    xs, ws, _ = params["dimension_numbers"]
    found = []
    for i, j, s, d, (low, high) in zip(
        xs[2:],
        ws[2:],
        params["lhs_dilation"],
        params["rhs_dilation"],
        params["padding"],
        strict=True,
    ):
        reach = (window[j] - 1) * d
        result = (shape[i] - 1) * s + 1 + low + high - reach
        before = after = reach - low
        if (result + 2 * before - reach - 1) // s + 1 != shape[i]:
            after = (shape[i] - 1) * s + reach + 1 - result - before
        found.append((before, after))
    return found


def _is_by_filters(shape: Any, window: Any, params: Any) -> bool:
    """Whether a window is much larger than what it makes, as in gradients by filters."""
    xs, ws, _ = params["dimension_numbers"]
    windows = results = 1
    rows = zip(xs[2:], ws[2:], params["lhs_dilation"], params["rhs_dilation"], strict=True)
    for (i, j, s, d), (low, high) in zip(rows, params["padding"], strict=True):
        windows *= window[j]
        results *= (shape[i] - 1) * s + 1 + low + high - (window[j] - 1) * d
    return windows > 4 * results


def _has_own_filters(window: Any, params: Any) -> bool:
    """Whether each channel has a separate filter, and channels come last."""
    xs, ws, _ = params["dimension_numbers"]
    groups = params["feature_group_count"]
    return groups > 1 and xs[1] == len(xs) - 1 and (window[ws[0]], window[ws[1]]) == (groups, 1)


def _fits(avals: Any, params: Any) -> bool:
    x, w = avals
    if x.dtype != w.dtype or x.dtype.name not in _TYPES or 0 in x.shape or 0 in w.shape:
        return False
    if params["batch_group_count"] > 1 or len(params["padding"]) not in (1, 2, 3):
        return False
    if _has_own_filters(w.shape, params):
        return False  # no library's
    if max(params["lhs_dilation"]) == 1:
        pairs = params["padding"]
    elif max(params["window_strides"]) == 1 and params["feature_group_count"] == 1:
        pairs = _rims(x.shape, w.shape, params)
        if _is_by_filters(x.shape, w.shape, params):
            return False  # the larger one would be much larger
    else:
        return False
    return all(min(pair) >= 0 for pair in pairs) and any(a != b for a, b in pairs)


FITS = {"convolve": _fits}
