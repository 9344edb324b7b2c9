"""Windows: their elements along new axes, which are then reduced or searched."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.families import is_narrow
from weft.prims.index import gather, scatter, scatter_add_p
from weft.prims.index_dims import GatherDimensionNumbers, ScatterDimensionNumbers
from weft.prims.lowerings.tools import I32, bind, convert, dtype_of, fill, like
from weft.prims.reduce import max_identity, min_identity, reduce_sum
from weft.prims.selection import ge_p
from weft.prims.shape import expand_dims, iota, reshape, transpose
from weft.prims.sort import gather_along

_SUM, _MAX, _MIN = "reduce_window_sum", "reduce_window_max", "reduce_window_min"


def along(x: Any, axis: int, count: int, window: int, stride: int, dilation: int) -> Any:
    """The windows along an axis: which one, and an element of it, in place of that axis."""
    shape = np.shape(x)
    both = (count, window)
    if window == 1 and stride == 1 and count == shape[axis]:
        return expand_dims(x, (axis + 1,))
    place = bind(
        "add",
        bind("mul", iota(I32, both, 0), np.int32(stride)),
        bind("mul", iota(I32, both, 1), np.int32(dilation)),
    )
    rank = len(shape)
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(axis), *range(axis + 2, rank + 1)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return gather(x, expand_dims(place, (2,)), numbers, (*shape[:axis], 1, *shape[axis + 1 :]))


def _elements(x: Any, start: Any, window: dict[str, Any]) -> Any:
    """The elements of every window in new last axes."""
    gaps = [d - 1 for d in window["base_dilation"]]
    config = tuple((*pair, gap) for pair, gap in zip(window["padding"], gaps, strict=True))
    x = bind("pad", x, start, padding_config=config)
    shape, rank = np.shape(x), np.ndim(x)
    sizes, strides = window["window_dimensions"], window["window_strides"]
    dilation = window["window_dilation"]
    counts = []
    for i in range(rank):
        extent = 1 + (sizes[i] - 1) * dilation[i]
        counts.append(max((shape[i] - extent) // strides[i] + 1, 0))
    if 0 in counts:
        return fill((*counts, *sizes), dtype_of(x), 0)
    for i in reversed(range(rank)):
        x = along(x, i, counts[i], sizes[i], strides[i], dilation[i])
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    return transpose(x, order)


def reduced(x: Any, name: str, start: Any, **window: Any) -> Any:
    """One result for every window."""
    rank, dtype = np.ndim(x), dtype_of(x)
    wide = _wide(x)
    elements = _elements(wide, start(dtype_of(wide)), window)
    axes = tuple(range(rank, 2 * rank))
    if not prod(np.shape(elements)[:rank]):
        return fill(np.shape(elements)[:rank], dtype, 0)
    if name == _SUM:
        return convert(reduce_sum(elements, axes), dtype)
    op = "reduce_max" if name == _MAX else "reduce_min"
    return convert(bind(op, elements, axes=axes, out_sharding=None), dtype)


def _wide(x: Any) -> Any:
    """Narrow floats as float32, integers of a few bits as int32."""
    dtype = dtype_of(x)
    if is_narrow(dtype):
        return convert(x, np.dtype(np.float32))
    small = dtype.name in ("int2", "int4", "uint2", "uint4")
    return convert(x, I32) if small else x


def sums(x: Any, **window: Any) -> Any:
    return reduced(x, _SUM, lambda dtype: np.zeros((), dtype)[()], **window)


def greatest(x: Any, **window: Any) -> Any:
    return reduced(x, _MAX, lambda dtype: max_identity(dtype)[()], **window)


def least(x: Any, **window: Any) -> Any:
    return reduced(x, _MIN, lambda dtype: min_identity(dtype)[()], **window)


def _chosen(x: Any, select_prim: Any, window: dict[str, Any]) -> Any:
    """The position, within each window, of its first extremum."""
    identity = max_identity if select_prim is ge_p else min_identity
    wide = _wide(x)
    elements = _flat(_elements(wide, identity(dtype_of(wide))[()], window), np.ndim(x))
    name = "argmax" if select_prim is ge_p else "argmin"
    return bind(name, elements, axes=(np.ndim(x),), index_dtype=I32)


def _flat(elements: Any, rank: int) -> Any:
    shape = np.shape(elements)
    return reshape(elements, (*shape[:rank], prod(shape[rank:])))


def select_and_gather_add(g: Any, x: Any, *, select_prim: Any, **window: Any) -> Any:
    rank = np.ndim(x)
    elements = _flat(_elements(g, like(g, 0), window), rank)
    if 0 in np.shape(elements):
        return fill(np.shape(elements)[:rank], dtype_of(g), 0)
    chosen = expand_dims(_chosen(x, select_prim, window), (rank,))
    found = gather_along(elements, expand_dims(chosen, (rank + 1,)), rank)
    return bind("squeeze", found, dimensions=(rank,))


def select_and_scatter_add(
    source: Any,
    x: Any,
    *,
    select_prim: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
) -> Any:
    rank, ones = np.ndim(x), (1,) * np.ndim(x)
    window = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "padding": padding,
        "base_dilation": ones,
        "window_dilation": ones,
    }
    chosen = _chosen(x, select_prim, window)
    counts, rest = np.shape(source), chosen
    places: list[Any] = []
    for axis in reversed(range(rank)):
        size = np.int32(window_dimensions[axis])
        offset, rest = bind("rem", rest, size), bind("div", rest, size)
        start = bind("mul", iota(I32, counts, axis), np.int32(window_strides[axis]))
        place = bind("sub", bind("add", start, offset), np.int32(padding[axis][0]))
        places.insert(0, expand_dims(place, (rank,)))
    indices = bind("concatenate", *places, dimension=rank) if rank > 1 else places[0]
    numbers = ScatterDimensionNumbers((), tuple(range(rank)), tuple(range(rank)))
    wide = _wide(source)
    none = fill(np.shape(x), dtype_of(wide), 0)
    total = scatter(none, indices, wide, numbers, primitive=scatter_add_p)
    return convert(total, dtype_of(source))
