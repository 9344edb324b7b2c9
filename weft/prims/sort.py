"""Sorting: stable sorts by one or several keys, partitions, the largest elements along an axis."""

from __future__ import annotations

from math import ceil, log, log2
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, match_axis
from weft.core.dims.dim import exceeds
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.prims.arithmetic import add
from weft.prims.families import COMPLEX, EXTENDED, FLOAT, const, kind_of
from weft.prims.index_dims import GatherDimensionNumbers, GatherScatterMode
from weft.prims.order import total_order_key
from weft.prims.reduce import computable
from weft.prims.selection import lt, select_n
from weft.prims.shape import expand_dims, iota, reshape

PROMISE_IN_BOUNDS = GatherScatterMode.PROMISE_IN_BOUNDS
FILL_OR_DROP = GatherScatterMode.FILL_OR_DROP


# --- order ----------------------------------------------------------------------------------------


def sort_keys(x: np.ndarray) -> list[np.ndarray]:
    """Arrays that NumPy orders, most significant first, as ``x`` is to be ordered.

    Zeros of both signs are equal and NaNs come last; complex numbers go by their real part, then
    by their imaginary part.
    """
    if kind_of(x.dtype) == COMPLEX:
        return [*sort_keys(x.real), *sort_keys(x.imag)]
    wide = computable(x)
    if kind_of(wide.dtype) & FLOAT:
        wide = np.where(wide == 0, wide.dtype.type(0), wide)
        wide = np.where(np.isnan(wide), wide.dtype.type(np.nan), wide)
        return [total_order_key(wide)]
    return [wide]


def sort_order(keys: list[np.ndarray], dimension: int) -> np.ndarray:
    """The stable permutation along ``dimension`` that sorts by the keys, the first one first."""
    if len(keys) == 1:
        return np.argsort(keys[0], axis=dimension, kind="stable")
    return np.lexsort(keys[::-1], axis=dimension)


def index_dtype_for(shape: tuple[int, ...]) -> Any:
    """The unsigned dtype that counts along any axis of a shape."""
    large = any(exceeds(n, np.iinfo(np.uint32).max) for n in shape)
    return np.dtype(np.uint64 if large else np.uint32)


def gather_along(
    x: Any, indices: Any, axis: int, *, mode: Any = PROMISE_IN_BOUNDS, fill_value: Any = None
) -> Any:
    """Elements of ``x`` along ``axis`` at ``indices``, which end in a dimension of size 1."""
    rank = np.ndim(x)
    others = tuple([i for i in range(rank) if i != axis])
    numbers = GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    return lookup("gather").bind(
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=(1,) * rank,
        indices_are_sorted=False,
        unique_indices=False,
        mode=mode,
        fill_value=fill_value,
    )


# --- sort -----------------------------------------------------------------------------------------


def _sorting_flops(self: Any, avals: Any, outs: Any, params: dict[str, Any]) -> float:
    n = avals[0].shape[params.get("dimension", -1)]
    return avals[0].size * log2(max(n, 2))


class Sort(Primitive):
    """Operands permuted alike along a dimension so that the first ``num_keys`` are in order."""

    name, exact = "sort", True
    neutral = "sorting.sort"
    flops = _sorting_flops
    multiple_results = True
    holes = {"transpose": "not linear; its tangent is a gather"}

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(params["dimension"],)] * len(avals)

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        super().explicit(specs, avals, outs, params)
        return [divisions.check_alike(self.name, specs, avals)] * len(outs)

    def shape(self, *avals: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
        first = avals[0].shape
        if any(a.shape != first for a in avals):
            shapes = " ".join(str(a.shape) for a in avals)
            raise TypeError(f"sort needs operands of equal shapes, got {shapes}")
        if not 0 <= dimension < len(first):
            raise ValueError(f"sort got dimension {dimension} for operands of shape {first}")
        if not 1 <= num_keys <= len(avals):
            raise ValueError(f"sort got num_keys {num_keys} for {len(avals)} operands")
        for key in avals[:num_keys]:
            if kind_of(key.dtype) == EXTENDED:
                raise TypeError(f"sort does not order dtype {key.dtype}")
        return list(avals)

    @staticmethod
    def ref(*args: np.ndarray, dimension: int, is_stable: bool, num_keys: int) -> list[np.ndarray]:
        keys = [key for x in args[:num_keys] for key in sort_keys(x)]
        order = sort_order(keys, dimension)
        return [np.take_along_axis(x, order, dimension) for x in args]

    def jvp(
        self, primals: Any, tangents: Any, *, dimension: int, is_stable: bool, num_keys: int
    ) -> tuple[list[Any], list[Any]]:
        shape = np.shape(primals[0])
        *out, order = self.bind(
            *primals,
            iota(index_dtype_for(shape), shape, dimension),
            dimension=dimension,
            is_stable=is_stable,
            num_keys=num_keys,
        )
        indices = expand_dims(order, (len(shape),))
        return out, [
            t if type(t) is Zero else gather_along(t, indices, dimension) for t in tangents
        ]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, dimension: int, **params: Any
    ) -> tuple[list[Any], list[int]]:
        dim = next(d for d in dims if d is not None)
        moved = [match_axis(axis.size, d, dim, x) for x, d in zip(args, dims, strict=True)]
        out = self.bind(*moved, dimension=dimension + (dim <= dimension), **params)
        return out, [dim] * len(out)


# --- partitions -----------------------------------------------------------------------------------


class Partition(Primitive):
    """Operands permuted alike along the last dimension so that the ``kth`` element of the first has
    the place that sorting would give it, what is less before it and what is more behind it.

    Elements less than it, equal to it and more than it keep their order.
    """

    name = "partition"
    neutral = "sorting.partition"
    multiple_results = True
    holes = {"transpose": "not linear; its tangent is a gather"}

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(len(a.shape) - 1,) for a in avals]

    def shape(self, *avals: Any, kth: int) -> list[Any]:
        first = avals[0].shape
        if any(a.shape != first for a in avals):
            shapes = " ".join(str(a.shape) for a in avals)
            raise TypeError(f"partition needs operands of equal shapes, got {shapes}")
        if kind_of(avals[0].dtype) == COMPLEX:
            raise TypeError(f"partition does not order complex numbers, got {avals[0].str_short()}")
        if not first or not 0 <= kth < first[-1]:
            raise ValueError(f"partition got kth {kth} for operands of shape {first}")
        return list(avals)

    @staticmethod
    def ref(*args: np.ndarray, kth: int) -> list[np.ndarray]:
        (key,) = sort_keys(args[0])
        chosen = np.partition(key, kth)[..., kth, None]
        part = (key >= chosen).astype(np.int8) + (key > chosen)
        order = np.argsort(part, kind="stable")
        return [np.take_along_axis(x, order, -1) for x in args]

    def jvp(self, primals: Any, tangents: Any, *, kth: int) -> tuple[list[Any], list[Any]]:
        shape = np.shape(primals[0])
        last = len(shape) - 1
        *out, order = self.bind(*primals, iota(index_dtype_for(shape), shape, last), kth=kth)
        indices = expand_dims(order, (len(shape),))
        return out, [t if type(t) is Zero else gather_along(t, indices, last) for t in tangents]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, kth: int
    ) -> tuple[list[Any], list[int]]:
        moved = [match_axis(axis.size, d, 0, x) for x, d in zip(args, dims, strict=True)]
        out = self.bind(*moved, kth=kth)
        return out, [0] * len(out)


# --- the largest elements -------------------------------------------------------------------------


def _first_in_order(
    x: np.ndarray, order: np.ndarray, k: int, axis: int
) -> tuple[np.ndarray, np.ndarray]:
    indices = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, indices, axis), indices.astype(np.int32)


class TopK(Primitive):
    """The ``k`` largest elements along an axis in descending total order, and their indices."""

    name, exact = "top_k", True
    neutral = "sorting.top_k"
    flops = _sorting_flops
    multiple_results = True
    holes = {"transpose": "not linear; its tangent is a gather"}

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(params["axis"],)]

    def shape(self, x: Any, *, k: int, axis: int) -> list[ShapedArray]:
        if kind_of(x.dtype) == COMPLEX:
            raise ValueError(f"top_k does not order complex numbers, got {x.str_short()}")
        if k < 0:
            raise ValueError(f"top_k needs k of at least 0, got {k}")
        if not x.shape:
            raise TypeError("top_k needs an operand of at least one dimension, got a scalar")
        if not 0 <= axis < len(x.shape):
            raise ValueError(f"top_k got axis {axis} for an operand of shape {x.shape}")
        if x.shape[axis] < k:
            raise ValueError(
                f"top_k got k={k}, but axis {axis} of an operand of shape {x.shape} has only"
                f" {x.shape[axis]} elements"
            )
        if exceeds(x.shape[axis], 2**31):
            raise ValueError(
                f"top_k returns int32 positions, which are too small for axis {axis} of an "
                f"operand of shape {x.shape}; split the operand"
            )
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return [
            ShapedArray(shape, x.dtype, x.weak_type),
            ShapedArray(shape, np.dtype(np.int32), x.weak_type),
        ]

    @staticmethod
    def ref(x: np.ndarray, *, k: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
        # Stable and descending: the complement reverses integers without overflow.
        order = np.argsort(~total_order_key(computable(x)), axis=axis, kind="stable")
        return _first_in_order(x, order, k, axis)

    def jvp(self, primals: Any, tangents: Any, *, k: int, axis: int) -> tuple[Any, Any]:
        values, indices = self.bind(*primals, k=k, axis=axis)
        (g,) = tangents
        if type(g) is Zero:
            tangent: Any = Zero.from_primal(values)
        else:
            tangent = gather_along(g, reshape(indices, (*np.shape(indices), 1)), axis)
        return [values, indices], [tangent, Zero.from_primal(indices)]

    def batch(
        self, axis_data: AxisData, args: Any, dims: Any, *, k: int, axis: int
    ) -> tuple[list[Any], list[int]]:
        (dim,) = dims
        return self.bind(args[0], k=k, axis=axis + (dim <= axis)), [dim, dim]


def approximate_size(size: int, rank: int, k: int, recall: float, override: int) -> int:
    """How many candidates an approximate search keeps (Chern et al. 2022, arXiv:2206.14286)."""
    tile = 1024 if rank == 1 else 128
    if size <= tile:
        return size
    if k == 1:
        return tile
    if recall == 1.0:
        return size
    whole = override if override >= 0 else size
    least = max(int((1.0 - k) / log(recall)), tile)
    halvings = (whole // least).bit_length() - 1
    if halvings <= 0:
        return size
    halvings = min(halvings, (size // tile - 1).bit_length())
    return ceil(ceil(size / tile) / (1 << halvings)) * tile


class ApproxTopK(Primitive):
    """Largest or smallest elements along a dimension, where a search may miss some; this one
    is exact."""

    name = "approx_top_k"
    neutral = "sorting.approx_top_k"
    multiple_results = True
    holes = {"transpose": "not linear; its tangent is a gather"}

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(params["reduction_dimension"] % len(avals[0].shape),)]

    def shape(
        self,
        x: Any,
        *,
        k: int,
        reduction_dimension: int,
        recall_target: float,
        is_max_k: bool,
        reduction_input_size_override: int,
        aggregate_to_topk: bool,
    ) -> list[ShapedArray]:
        if k <= 0:
            raise ValueError(f"approx_top_k needs a positive k, got {k}")
        if not x.shape:
            raise TypeError("approx_top_k needs an operand of at least one dimension")
        size = x.shape[reduction_dimension]
        if size < k:
            raise ValueError(
                f"approx_top_k got k={k}, but dimension {reduction_dimension} of an operand of"
                f" shape {x.shape} has only {size} elements"
            )
        if not kind_of(x.dtype) & FLOAT:
            raise ValueError(f"approx_top_k needs a floating operand, got {x.str_short()}")
        kept = k
        if not aggregate_to_topk:
            override = reduction_input_size_override
            kept = approximate_size(size, len(x.shape), k, recall_target, override)
        sizes = list(x.shape)
        sizes[reduction_dimension] = kept
        return [
            ShapedArray(tuple(sizes), x.dtype, x.weak_type),
            ShapedArray(tuple(sizes), np.dtype(np.int32), x.weak_type),
        ]

    def ref(
        self, x: np.ndarray, *, reduction_dimension: int, is_max_k: bool, **params: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        dimension = reduction_dimension % x.ndim
        aval = ShapedArray(x.shape, x.dtype)
        out, _ = self.shape(aval, reduction_dimension=dimension, is_max_k=is_max_k, **params)
        (key,) = sort_keys(x)
        order = np.argsort(~key if is_max_k else key, axis=dimension, kind="stable")
        return _first_in_order(x, order, min(out.shape[dimension], x.shape[dimension]), dimension)

    def jvp(
        self, primals: Any, tangents: Any, *, reduction_dimension: int, **params: Any
    ) -> tuple[Any, Any]:
        values, indices = self.bind(*primals, reduction_dimension=reduction_dimension, **params)
        (g,) = tangents
        if type(g) is Zero:
            tangent: Any = Zero.from_primal(values)
        else:
            axis = reduction_dimension % np.ndim(values)
            tangent = take_along(g, indices, axis)
        return [values, indices], [tangent, Zero.from_primal(indices)]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, reduction_dimension: int, **params: Any
    ) -> tuple[list[Any], list[int]]:
        (x,), (dim,) = args, dims
        inner = reduction_dimension % (np.ndim(x) - 1)
        return self.bind(x, reduction_dimension=inner + (dim <= inner), **params), [dim, dim]


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """Elements along an axis; negative indices count from the end, others outside give NaN."""
    size = np.shape(x)[axis]
    negative = lt(indices, const(indices, 0))
    wrapped = select_n(negative, indices, add(indices, const(indices, size)))
    column = reshape(wrapped, (*np.shape(indices), 1))
    fill = np.nan if dtypes.issubdtype(typeof(x).dtype, np.inexact) else None
    return gather_along(x, column, axis, mode=FILL_OR_DROP, fill_value=fill)


sort_p, partition_p, top_k_p, approx_top_k_p = Sort(), Partition(), TopK(), ApproxTopK()
