"""Sets of elements whose values are known: the size of a result may depend on them, so NumPy finds
it at once. What NumPy orders or compares in another way is left to `sets.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.array import Array
from weft.core.trace import Tracer, typeof
from weft.numpy.promotion import constant


def _value(x: Any) -> np.ndarray | None:
    """The elements of an array in a row, if they are known and NumPy's own numbers."""
    if isinstance(x, Tracer) or not isinstance(x, Array):
        return None
    value = np.asarray(x)
    return value.ravel() if value.dtype.kind in "biuf" and value.dtype.isbuiltin == 1 else None


def _boxed(value: np.ndarray) -> Any:
    return constant(value, typeof(value))


def _numbers(value: np.ndarray) -> Any:
    return _boxed(value.astype(dtypes.default_int_dtype()))


def unique(x: Any, index: bool, inverse: bool, counts: bool, equal_nan: bool) -> list[Any] | None:
    """The distinct elements and what else is asked for, or None if that is not for NumPy."""
    value = _value(x)
    if value is None:
        return None
    found = np.unique(value, index, inverse, counts, equal_nan=equal_nan)
    first, *rest = found if isinstance(found, tuple) else (found,)
    if value.dtype.kind == "f" and not (index or inverse):
        # of the zeros of both signs, the one that comes first stands for both
        place = np.searchsorted(first, 0)
        if place < len(first) and first[place] == 0:
            first[place] = value[np.argmax(value == 0)]
    if inverse:
        rest[index] = rest[index].reshape(x.shape)
    return [_boxed(first), *map(_numbers, rest)]


def _pair(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The elements of two arrays of one dtype, if NaN is not among them."""
    values = _value(x), _value(y)
    for value in values:
        if value is None or (value.dtype.kind == "f" and np.isnan(value).any()):
            return None
    return values  # type: ignore[return-value]  # neither is None


def setdiff1d(x: Any, y: Any, assume_unique: bool) -> Any:
    pair = _pair(x, y)
    if pair is None or pair[0].dtype != pair[1].dtype:
        return None
    return _boxed(np.setdiff1d(*pair, assume_unique=assume_unique))


def setxor1d(x: Any, y: Any, assume_unique: bool) -> Any:
    pair = _pair(x, y)
    return None if pair is None else _boxed(np.setxor1d(*pair, assume_unique=assume_unique))


def intersect1d(x: Any, y: Any, assume_unique: bool, return_indices: bool) -> Any:
    pair = _pair(x, y)
    if pair is None:
        return None
    found = np.intersect1d(*pair, assume_unique=assume_unique, return_indices=return_indices)
    if not return_indices:
        return _boxed(found)
    return _boxed(found[0]), _numbers(found[1]), _numbers(found[2])
