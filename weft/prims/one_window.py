"""A scatter of one window as a slice that is read, changed and written back."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.prims.convert import convert
from weft.prims.families import scalar
from weft.prims.index_dims import GatherScatterMode, ScatterDimensionNumbers, window_sizes
from weft.prims.selection import select_n
from weft.prims.shape import reshape

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def update_window(
    x: Any,
    indices: Any,
    updates: Any,
    numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    operator: Any,
) -> Any:
    """``x`` with one window replaced, or combined by a primitive, where the only index says."""
    shape = typeof(x).shape
    window = window_sizes(len(shape), typeof(updates).shape, numbers)
    flat = _counting(reshape(indices, (typeof(indices).shape[-1],)), shape)
    counting = typeof(flat).dtype
    zero = scalar(counting, 0)
    starts = [zero] * len(shape)
    fits: Any = None
    for j, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        one = lookup("slice").bind(flat, start_indices=(j,), limit_indices=(j + 1,), strides=None)
        starts[axis] = start = reshape(one, ())
        last = scalar(counting, shape[axis] - window[axis])
        above, below = lookup("ge").bind(start, zero), lookup("le").bind(start, last)
        inside = lookup("and").bind(above, below)
        fits = inside if fits is None else lookup("and").bind(fits, inside)
    new = reshape(updates, window)
    drops = mode.drops and fits is not None
    if operator is not None or drops:
        whole = window == shape
        old = x if whole else lookup("dynamic_slice").bind(x, *starts, slice_sizes=window)
        new = new if operator is None else operator.bind(old, new)
        new = select_n(fits, old, new) if drops else new
        if whole:
            return new
    return lookup("dynamic_update_slice").bind(x, new, *starts)


def _counting(indices: Any, shape: tuple[int, ...]) -> Any:
    """Indices in a signed dtype that holds them and every bound of the operand."""
    dtype = typeof(indices).dtype
    short = dtype.itemsize <= 4 and all(n <= np.iinfo(np.int32).max for n in shape)
    counting = _INT32 if short else _INT64
    if dtype.kind == "u" and dtype.itemsize >= counting.itemsize:
        # what the signed dtype does not hold is out of bounds either way
        indices = lookup("min").bind(indices, scalar(dtype, np.iinfo(counting).max))
    return convert(indices, counting)
