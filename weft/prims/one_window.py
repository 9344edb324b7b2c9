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

_INDEX = np.dtype(np.int32)


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
    zero = scalar(_INDEX, 0)
    starts = [zero] * len(shape)
    fits: Any = None
    flat = convert(reshape(indices, (typeof(indices).shape[-1],)), _INDEX)
    for j, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        one = lookup("slice").bind(flat, start_indices=(j,), limit_indices=(j + 1,), strides=None)
        starts[axis] = start = reshape(one, ())
        last = scalar(_INDEX, shape[axis] - window[axis])
        above, below = lookup("ge").bind(start, zero), lookup("le").bind(start, last)
        inside = lookup("and").bind(above, below)
        fits = inside if fits is None else lookup("and").bind(fits, inside)
    new = reshape(updates, window)
    drops = mode is GatherScatterMode.FILL_OR_DROP and fits is not None
    if operator is not None or drops:
        whole = window == shape
        old = x if whole else lookup("dynamic_slice").bind(x, *starts, slice_sizes=window)
        new = new if operator is None else operator.bind(old, new)
        new = select_n(fits, old, new) if drops else new
        if whole:
            return new
    return lookup("dynamic_update_slice").bind(x, new, *starts)
