"""How far apart two results are: relative errors, and units in the last place."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from weft import dtypes

# Of large arrays, the largest errors of a hundredth of the elements are left out: sums that happen
# to end near zero have large relative errors, and nobody's digits are lost.
LARGE, SHARE = 200, 0.99


@functools.cache
def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(dtypes.finfo(dtype).eps)


@functools.cache
def _tiny(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).tiny)


def error(
    low: Any, high: Any, finite: bool = False, floor: Any = 0.0, forgiven: Any = 0.0
) -> float:
    """The relative error of values against others with more digits, of most elements; with
    ``finite``, of those that are finite with more digits. It is relative to no less than ``floor``,
    and an absolute error up to ``forgiven`` doesn't count."""
    least = np.maximum(_tiny(low.dtype), floor)
    with np.errstate(all="ignore"):
        a, b = np.asarray(low).astype(high.dtype), np.asarray(high)
        off = np.maximum(np.abs(a - b) - forgiven, 0.0) / np.maximum(np.abs(b), least)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | _leaves_range(low, b)
        if finite:
            same |= ~np.isfinite(b)
        off = np.where(same, 0.0, np.where(np.isnan(off), np.inf, off)).reshape(-1)
    if not off.size:
        return 0.0
    if off.size < LARGE:
        return float(off.max())
    return float(np.partition(off, int(SHARE * (off.size - 1)))[int(SHARE * (off.size - 1))])


def _leaves_range(low: Any, high: Any) -> Any:
    """Where values are infinite or zero because those with more digits are too large or too small
    for their dtype."""
    low = np.asarray(low)
    too_large = np.isinf(low) & (low == high.astype(low.dtype))
    return too_large | ((low == 0) & (np.abs(high) < _tiny(low.dtype)))


def not_comparable(low: Any, high: Any) -> int:
    """How many values differ from others with more digits that are not finite."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(low).astype(high.dtype), np.asarray(high)
        return int((~np.isfinite(b) & (a != b) & ~(np.isnan(a) & np.isnan(b))).sum())


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
