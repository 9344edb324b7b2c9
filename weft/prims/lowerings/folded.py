"""Convolutions with strides of images that have few channels, and their gradients by filters, as
convolutions without strides.

The elements that a stride skips become channels: an image of 224 × 224 × 3 read in steps of 2 is
one of 112 × 112 × 12, and a window of 7 × 7 one of 4 × 4. Channels are filled up with zeros to a
number that units for products of matrices take.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.lowerings.pointwise import ordered
from weft.prims.lowerings.tools import bind, like

# Channels of an image at most, and what folded ones are a multiple of.
MOST_CHANNELS, MULTIPLE = 4, 8


def convolve(x: Any, w: Any, **params: Any) -> Any:
    xs, ws, os = params["dimension_numbers"]
    rank, shape, window = len(xs) - 2, np.shape(x), np.shape(w)
    by_filters = max(params["rhs_dilation"]) > 1
    steps = params["rhs_dilation"] if by_filters else params["window_strides"]
    kept, folded = (xs[1], xs[0]) if by_filters else xs[:2]
    channels = shape[folded]
    some = next(n for n in range(channels, 9 * channels) if n * prod(steps) % MULTIPLE == 0)
    # results along each axis, and windows in steps
    extents = [shape[i] for i in xs[2:]]
    taps = [window[i] for i in ws[2:]]
    counts = [
        n + low + high - (t - 1) * d
        for n, (low, high), t, d in zip(
            extents, params["padding"], taps, params["rhs_dilation"], strict=True
        )
    ]
    if by_filters:
        counts, taps = taps, counts
    else:
        counts = [(n - 1) // s + 1 for n, s in zip(counts, steps, strict=True)]
    whole = [-(-t // s) for t, s in zip(taps, steps, strict=True)]

    x = bind("transpose", x, permutation=(kept, *xs[2:], folded))
    config = [(0, 0, 0)]
    for n, (low, _), s, count, k in zip(
        extents, params["padding"], steps, counts, whole, strict=True
    ):
        config.append((low, (count - 1 + k) * s - n - low, 0))
    x = _padded(x, (*config, (0, some - channels, 0)))
    x = _folded(x, 1, steps)
    space = tuple(range(1, rank + 1))
    settings = {**params, "window_strides": (1,) * rank, "rhs_dilation": (1,) * rank}
    settings["padding"] = ((0, 0),) * rank
    if by_filters:
        specs = ((rank + 1, 0, *space), tuple(ws), (rank, rank + 1, *range(rank)))
        found = bind("conv_general_dilated", x, w, **_with(settings, specs))
        found = _unfolded(found, steps, some)
        limits = (*taps, channels, window[ws[0]])
        found = bind(
            "slice", found, start_indices=(0,) * (rank + 2), limit_indices=limits, strides=None
        )
        return ordered(found, [*range(2, rank + 2), 0, 1], tuple(os))
    w = bind("transpose", w, permutation=(*ws[2:], ws[1], ws[0]))
    more = [(0, k * s - t, 0) for k, s, t in zip(whole, steps, taps, strict=True)]
    w = _folded(_padded(w, (*more, (0, some - channels, 0), (0, 0, 0))), 0, steps)
    specs = ((0, rank + 1, *space), (rank + 1, rank, *range(rank)), tuple(os))
    return bind("conv_general_dilated", x, w, **_with(settings, specs))


def _with(settings: dict[str, Any], specs: tuple[Any, ...]) -> dict[str, Any]:
    numbers = settings["dimension_numbers"]
    return {**settings, "dimension_numbers": type(numbers)(*specs)}


def _padded(x: Any, config: Any) -> Any:
    return bind("pad", x, like(x, 0), padding_config=tuple(config))


def _reshaped(x: Any, shape: Any) -> Any:
    return bind("reshape", x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def _folded(x: Any, first: int, steps: Any) -> Any:
    """An array of which some axes, from a first one on, are counted in steps; what is within one is
    part of the axis after them."""
    rank, shape = len(steps), np.shape(x)
    split = [n for i, s in enumerate(steps) for n in (shape[first + i] // s, s)]
    x = _reshaped(x, (*shape[:first], *split, *shape[first + rank :]))
    outer = [first + 2 * i for i in range(rank)]
    rest = range(first + 2 * rank, len(shape) + rank)
    order = (*range(first), *outer, *[i + 1 for i in outer], *rest)
    x = bind("transpose", x, permutation=order)
    shape = np.shape(x)
    at = first + rank
    return _reshaped(x, (*shape[:at], prod(shape[at : at + rank + 1]), *shape[at + rank + 1 :]))


def _unfolded(x: Any, steps: Any, channels: int) -> Any:
    """What ``_folded`` was given, whose axes in steps come first."""
    rank, shape = len(steps), np.shape(x)
    x = _reshaped(x, (*shape[:rank], *steps, channels, shape[-1]))
    pairs = [n for i in range(rank) for n in (i, rank + i)]
    x = bind("transpose", x, permutation=(*pairs, 2 * rank, 2 * rank + 1))
    sizes = [n * s for n, s in zip(shape[:rank], steps, strict=True)]
    return _reshaped(x, (*sizes, channels, shape[-1]))


def _fits(avals: Any, params: Any) -> bool:
    x, w = avals
    xs, ws, _ = params["dimension_numbers"]
    if params["feature_group_count"] > 1 or params["batch_group_count"] > 1:
        return False
    if x.dtype != w.dtype or x.dtype.name not in ("bfloat16", "float16") or len(xs) < 3:
        return False
    if 0 in x.shape or 0 in w.shape or max(params["lhs_dilation"]) > 1:
        return False
    strides, dilation = params["window_strides"], params["rhs_dilation"]
    taps = [w.shape[i] for i in ws[2:]]
    if max(dilation) > 1:  # the window is the gradient by results, many of them
        extents = [x.shape[i] for i in xs[2:]]
        results = [
            n + low + high - (t - 1) * d
            for n, (low, high), t, d in zip(extents, params["padding"], taps, dilation, strict=True)
        ]
        many = min(results) > 0 and prod(taps) > 4 * prod(results)
        return max(strides) == 1 and x.shape[xs[0]] <= MOST_CHANNELS and many
    reaches = any(t > s for t, s in zip(taps, strides, strict=True))
    return max(strides) > 1 and reaches and x.shape[xs[1]] <= MOST_CHANNELS


FITS = {"convolve": _fits}
