"""What batching rules share: the mapped axis, and moving a batch dimension where it is wanted.

A batch dimension is an integer, or ``None`` for a value that does not depend on the mapped axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.core.caches import ProgramCache
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.dtypes import float0

not_mapped = None


# Of a program over a batch that loops run, or that selects branches: what was mapped. The compiler
# may map it over fewer elements, see control/lanes.py.
mapped_from: ProgramCache[None, Any] = ProgramCache("mapped from")


class AxisData(Record):
    """A mapped axis: its name (None if it has none), its size, the mesh axes it is spread over."""

    name: Any
    size: int
    spmd_name: Any = None
    spread: bool = False  # whether its elements are those of devices, in shard_map


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """``x`` with one axis moved, the others in order."""
    if source == destination:
        return x
    ndim = len(typeof(x).shape)
    source, destination = source % ndim, destination % ndim
    if source == destination:
        return x
    order = [i for i in range(ndim) if i != source]
    order.insert(destination, source)
    return lookup("transpose").bind(x, permutation=tuple(order))


def broadcast_axis(x: Any, size: int, dim: int) -> Any:
    """``x`` repeated along a new axis."""
    shape = list(typeof(x).shape)
    shape.insert(dim, size)
    if type(x) is np.ndarray and x.dtype == float0:
        return np.zeros(shape, float0)  # which is no array of weft's elsewhere either
    dims = tuple(i for i in range(len(shape)) if i != dim)
    broadcast = lookup("broadcast_in_dim")
    return broadcast.bind(x, shape=tuple(shape), broadcast_dimensions=dims, sharding=None)


def match_axis(size: int, source: int | None, destination: int | None, x: Any) -> Any:
    """``x`` with its batch dimension moved from ``source`` to ``destination``, made if absent."""
    if source == destination:
        return x
    if source is None:
        assert destination is not None
        return broadcast_axis(x, size, destination)
    if destination is None:
        raise ValueError("expected an unmapped value, got a mapped one")
    return moveaxis(x, source, destination)


def batch_in_place(
    primitive: Any, axis: AxisData, args: Any, dims: Any, **params: Any
) -> tuple[Any, Any]:
    """The batching rule of one operand whose batch dimension stays where it is."""
    return primitive.bind(*args, **params), dims[0]


def at_front(x: Any, dim: int | None, size: int) -> Any:
    """``x`` with its batch dimension in front, made if absent."""
    return match_axis(size, dim, 0, x)


def all_at_front(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    return [at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
