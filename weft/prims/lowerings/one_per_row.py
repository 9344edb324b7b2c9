"""Scatters of one element a row, the gradients of ``take_along_axis``, as comparisons that fuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes import issubdtype
from weft.prims.index_dims import GatherScatterMode
from weft.prims.lowerings.tools import bind, dtype_of, like, spread, where
from weft.prims.shape import iota

_INDICES = ("int32", "int64")


def add(operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
    """What is added to is read where the scattered axis has an index's value."""
    shape = np.shape(operand)
    (axis,) = params["dimension_numbers"].scatter_dims_to_operand_dims
    rest = [i for i in range(len(shape)) if i != axis]
    rows = tuple(shape[i] for i in rest)
    at = bind("reshape", indices, new_sizes=rows, dimensions=None, sharding=None)
    if params["mode"] == GatherScatterMode.CLIP:
        at = bind("clamp", like(at, 0), at, like(at, shape[axis] - 1))
    more = bind("reshape", updates, new_sizes=rows, dimensions=None, sharding=None)
    here = bind("eq", iota(dtype_of(indices), shape, axis), spread(at, shape, rest))
    return where(here, bind("add", operand, spread(more, shape, rest)), operand)


def _fits(avals: Any, params: Any) -> bool:
    """Whether each row, along one axis, has exactly one element added to."""
    operand, indices, updates = avals
    numbers = params["dimension_numbers"]
    axes = numbers.scatter_dims_to_operand_dims
    if len(axes) != 1 or numbers.update_window_dims or indices.dtype.name not in _INDICES:
        return False
    rest = tuple(i for i in range(len(operand.shape)) if i != axes[0])
    if tuple(numbers.operand_batching_dims) != rest or not rest:
        return False
    if list(numbers.scatter_indices_batching_dims) != sorted(numbers.scatter_indices_batching_dims):
        return False
    real = any(issubdtype(operand.dtype, kind) for kind in (np.integer, np.floating))
    return real and np.prod(updates.shape) == np.prod([operand.shape[i] for i in rest])


FITS = {"add": _fits}
