"""Reductions over sliding windows, and the selections that differentiate their extrema."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.division.factors import Factors, labelled
from weft.prims.arithmetic import add
from weft.prims.families import ANY, NUMBER, const, describe_kinds, kind_of
from weft.prims.reduce import argmax_p, argmin_p, computable, max_identity, min_identity
from weft.prims.selection import eq, ge_p, le_p, select_n
from weft.prims.shape import concatenate_p, expand_dims, full, pad_p

Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


# --- sizes ----------------------------------------------------------------------------------------


def dilated(size: int, dilation: int) -> int:
    """The extent of ``size`` elements with ``dilation - 1`` gaps between neighbours."""
    return max(1 + dilation * (size - 1), 0)


def dilate_shape(shape: Sequence[int], dilation: Sequence[int]) -> Shape:
    """A shape with each axis dilated."""
    if any(d <= 0 for d in dilation):
        raise TypeError(f"dilations must be positive, got {tuple(dilation)}")
    return tuple([dilated(n, d) for n, d in zip(shape, dilation, strict=True)])


def window_count(size: int, window: int, stride: int) -> int:
    """How many windows fit along an axis."""
    return max((size - window) // stride + 1, 0)


def reduce_window_shape(
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The number of windows along every axis."""
    if base_dilation is not None:
        shape = dilate_shape(shape, base_dilation)
    if window_dilation is not None:
        window = dilate_shape(window, window_dilation)
    padded = [n + low + high for n, (low, high) in zip(shape, padding, strict=True)]
    return tuple([window_count(n, w, s) for n, w, s in zip(padded, window, strides, strict=True)])


def check_window(name: str, x: Any, window: Shape, strides: Shape, *dilations: Shape) -> None:
    """Raise if the parameters of a window do not fit an operand or each other."""
    if len(window) != len(x.shape):
        raise TypeError(
            f"{name} needs one window dimension for each axis of the operand, got"
            f" window_dimensions {window} for shape {x.shape}"
        )
    labels = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    for label, values in zip(labels, (window, strides, *dilations), strict=False):
        if len(values) != len(window):
            raise TypeError(
                f"{name} got {label} {values} for window_dimensions {window}: the lengths differ"
            )
        if any(v <= 0 for v in values):
            raise TypeError(f"{name} needs positive {label}, got {values}")


def counted_windows(
    name: str,
    x: Any,
    window_dimensions: Shape,
    window_strides: Shape,
    padding: Padding,
    base_dilation: Shape | None = None,
    window_dilation: Shape | None = None,
) -> Shape:
    """The number of windows along every axis, with all parameters checked."""
    dilations = [d for d in (base_dilation, window_dilation) if d is not None]
    check_window(name, x, window_dimensions, window_strides, *dilations)
    return reduce_window_shape(x.shape, window_dimensions, window_strides, padding, *dilations)


# --- references -----------------------------------------------------------------------------------


def padded(x: np.ndarray, fill: Any, padding: Padding, base_dilation: Shape) -> np.ndarray:
    """``x`` dilated and padded with ``fill``; negative padding cuts off."""
    gaps = [(*pair, d - 1) for pair, d in zip(padding, base_dilation, strict=True)]
    return pad_p.ref(x, fill, padding_config=gaps)


def windows_along(x: np.ndarray, axis: int, window: int, stride: int, dilation: int) -> np.ndarray:
    """A view of the windows along one axis, their elements in a new last axis."""
    extent = dilated(window, dilation)
    if x.shape[axis] < extent:
        shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :], window)
        return np.empty(shape, x.dtype)
    view = sliding_window_view(x, extent, axis)[..., ::dilation]
    return view[(slice(None),) * axis + (slice(None, None, stride),)]


def all_windows(
    x: np.ndarray,
    fill: Any,
    window_dimensions: Shape,
    window_strides: Shape,
    padding: Padding,
    base_dilation: Shape,
    window_dilation: Shape,
) -> np.ndarray:
    """The elements of every window, in a new last axis."""
    view = padded(x, fill, padding, base_dilation)
    rank = x.ndim
    for axis in range(rank):
        view = windows_along(
            view, axis, window_dimensions[axis], window_strides[axis], window_dilation[axis]
        )
    return view.reshape(*view.shape[:rank], prod(window_dimensions))


def _reduce_axis_by_axis(reduce: Any, x: np.ndarray, params: Any) -> np.ndarray:
    strides, dilations = params["window_strides"], params["window_dilation"]
    for axis, window in enumerate(params["window_dimensions"]):
        view = windows_along(x, axis, window, strides[axis], dilations[axis])
        x = view[..., 0] if window == 1 else reduce(view)
    return x


# --- sums and extrema -----------------------------------------------------------------------------


def window_flops(self: Any, avals: Any, outs: Any, params: dict[str, Any]) -> float:
    """One operation for each element of each window."""
    return sum(out.size for out in outs) * prod(params["window_dimensions"])


class WindowReduction(Primitive):
    """One result for every window; subclasses say kinds, identity and reduction."""

    accepts = ANY
    identity: Any
    reduce: Any
    flops = window_flops

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        dilations, strides = params["base_dilation"], params["window_strides"]
        sizes = zip(avals[0].shape, outs[0].shape, dilations, strides, strict=True)
        names = [
            d if n * base == m * stride and m else None
            for d, (n, m, base, stride) in enumerate(sizes)
        ]
        return labelled([names], [names], avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """The windows of a part, with the edges of its neighbours where windows reach them."""
        (x,) = args
        pads = [tuple(pair) for pair in params["padding"]]
        for d, labels in enumerate(part.factors.ins[0]):
            if part.count(labels) == 1:
                continue
            stride, base = params["window_strides"][d], params["base_dilation"][d]
            extent = dilated(params["window_dimensions"][d], params["window_dilation"][d])
            size, low = np.shape(x)[d], pads[d][0]
            end = (part.outs[0][d] - 1) * stride + extent - low
            before = -(-max(low, 0) // base)
            after = max(0, -(-(end - 1) // base) - size + 1)
            x = part.halo(x, d, labels, before, after, self.identity(typeof(x).dtype))
            pads[d] = (low - before * base, end - ((size + after - 1) * base + 1))
        return self.bind(x, **{**params, "padding": tuple(pads)})

    divided_as = 0

    def shape(self, x: Any, **window: Any) -> ShapedArray:
        if not self.accepts & kind_of(x.dtype):
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype}; it takes"
                f" {describe_kinds(self.accepts)} operands: convert with astype"
            )
        sizes = counted_windows("reduce_window", x, **window)
        return ShapedArray(sizes, x.dtype, x.weak_type)

    def ref(self, x: np.ndarray, **params: Any) -> np.ndarray:
        wide = computable(x)
        fill = self.identity(x.dtype).astype(wide.dtype)
        whole = padded(wide, fill, params["padding"], params["base_dilation"])
        return _reduce_axis_by_axis(self.reduce, whole, params)

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        return self.bind(x, **insert_axis(params, dim)), dim


def trivial_dims(params: dict[str, Any]) -> list[int | None]:
    """The dimensions along which every window is one element, None for the others."""
    rank = len(params["window_dimensions"])
    ones = [params.get(k, (1,) * rank) for k in ("base_dilation", "window_dilation")]
    sizes = [params["window_dimensions"], params["window_strides"], *ones]
    return [
        d if all(v[d] == 1 for v in sizes) and tuple(params["padding"][d]) == (0, 0) else None
        for d in range(rank)
    ]


def insert_axis(params: dict[str, Any], dim: int) -> dict[str, Any]:
    """The parameters of a window with a trivial axis at ``dim``."""
    wider = {}
    for name, value in params.items():
        if isinstance(value, tuple):
            trivial: Any = (0, 0) if name == "padding" else 1
            value = (*value[:dim], trivial, *value[dim:])
        wider[name] = value
    return wider


class ReduceWindowSum(WindowReduction):
    """The sum of every window."""

    name, accepts = "reduce_window_sum", NUMBER
    overflows = "windows"
    native_kinds = "biufcV"  # users compare with sums over a batch, which are native
    neutral = fixed_order = "windows.sums"
    linear = True

    @staticmethod
    def identity(dtype: Any) -> np.ndarray:
        return np.zeros((), dtype)

    @staticmethod
    def reduce(view: np.ndarray) -> np.ndarray:
        return np.add.reduce(view, axis=-1, dtype=view.dtype)

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        strides, dilations = params["window_strides"], params["base_dilation"]
        extents = dilate_shape(params["window_dimensions"], params["window_dilation"])
        operand = dilate_shape(x.aval.shape, dilations)
        outs = dilate_shape(np.shape(ct), strides)
        config = []
        for i, (low, _) in enumerate(params["padding"]):
            before = extents[i] - low - 1
            after = operand[i] + extents[i] - 1 - outs[i] - before
            config.append((before, after, strides[i] - 1))
        spread = pad_p.bind(ct, const(ct, 0), padding_config=tuple(config))
        params |= {"window_strides": dilations, "padding": ((0, 0),) * len(config)}
        return [self.bind(spread, **(params | {"base_dilation": (1,) * len(config)}))]


class WindowExtremum(WindowReduction):
    """The largest or the smallest element of every window, by a ufunc of NumPy."""

    exact = True
    holes = {"transpose": "not linear"}
    ufunc: Any
    select_prim: Any

    def reduce(self, view: np.ndarray) -> np.ndarray:
        return self.ufunc.reduce(view, axis=-1)

    def d0(self, g: Any, out: Any, x: Any, **params: Any) -> Any:
        return select_and_gather_add_p.bind(g, x, select_prim=self.select_prim, **params)


class ReduceWindowMax(WindowExtremum):
    """The largest element of every window."""

    name, neutral = "reduce_window_max", "windows.greatest"
    identity = staticmethod(max_identity)
    ufunc, select_prim = np.maximum, ge_p


class ReduceWindowMin(WindowExtremum):
    """The smallest element of every window."""

    name, neutral = "reduce_window_min", "windows.least"
    identity = staticmethod(min_identity)
    ufunc, select_prim = np.minimum, le_p


# --- selections -----------------------------------------------------------------------------------


def _identity_of(select_prim: Any, dtype: Any) -> np.ndarray:
    return (max_identity if select_prim is ge_p else min_identity)(dtype)


def _check_selection(name: str, source: Any, x: Any, select_prim: Any) -> None:
    if source.dtype != x.dtype:
        given = f"{source.str_short()} and {x.str_short()}"
        raise TypeError(f"{name} needs operands of the same dtype, got {given}")
    if select_prim is not ge_p and select_prim is not le_p:
        raise TypeError(f"{name} selects by ge or le, got {select_prim}")


def _chosen(select_prim: Any, x: np.ndarray, **window: Any) -> np.ndarray:
    """For every window the position, within it, of its first extremum."""
    wide = computable(x)
    fill = _identity_of(select_prim, x.dtype).astype(wide.dtype)
    elements = all_windows(wide, fill, **window)
    return (np.argmax if select_prim is ge_p else np.argmin)(elements, axis=-1)


class Selection(Primitive):
    """Linear in the first operand, piecewise constant in the second, which has the windows."""

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        names = trivial_dims(params)
        return labelled([names, names], [names], avals, outs)

    divided_as = 1

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero.from_primal(out)
        return out, self.bind(tangents[0], primals[1], **params)

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        moved = [at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
        return self.bind(*moved, **insert_axis(params, 0)), 0


class SelectAndGatherAdd(Selection):
    """For every window of the second operand, the first operand where the extremum is."""

    name = "select_and_gather_add"
    neutral = "windows.select_and_gather_add"

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        return [divisions.check_alike(self.name, specs, avals)]

    def shape(self, g: Any, x: Any, *, select_prim: Any, **window: Any) -> ShapedArray:
        if g.shape != x.shape:
            raise TypeError(
                f"{self.name} needs operands of equal shapes, got {g.shape} and {x.shape}"
            )
        _check_selection(self.name, g, x, select_prim)
        sizes = counted_windows(self.name, x, **window)
        return ShapedArray(sizes, g.dtype, g.weak_type and x.weak_type)

    @staticmethod
    def ref(g: np.ndarray, x: np.ndarray, *, select_prim: Any, **window: Any) -> np.ndarray:
        chosen = _chosen(select_prim, x, **window)
        elements = all_windows(g, np.zeros((), g.dtype), **window)
        return np.take_along_axis(elements, chosen[..., None], axis=-1)[..., 0]

    def transpose(self, ct: Any, g: Any, x: Any, **params: Any) -> list[Any]:
        base_dilation, window_dilation = params.pop("base_dilation"), params.pop("window_dilation")
        dilates_base = any(d != 1 for d in base_dilation)
        if dilates_base:
            gaps = tuple((0, 0, d - 1) for d in base_dilation)
            fill = _identity_of(params["select_prim"], typeof(x).dtype)[()]
            x = pad_p.bind(x, fill, padding_config=gaps)
        if any(d != 1 for d in window_dilation):
            out = _scatter_by_offsets(ct, x, **params, window_dilation=window_dilation)
        else:
            out = select_and_scatter_add_p.bind(ct, x, **params)
        if dilates_base:
            out = _strided(out, (0,) * np.ndim(out), np.shape(out), base_dilation)
        return [out, None]


def _strided(x: Any, starts: Shape, limits: Shape, strides: Shape) -> Any:
    return lookup("slice").bind(x, start_indices=starts, limit_indices=limits, strides=strides)


def window_offsets(window: Shape, dilation: Shape) -> list[Shape]:
    """Where the elements of a window are, relative to its start, in row-major order."""
    return [
        tuple([i * d for i, d in zip(index, dilation, strict=True)])
        for index in product(*map(range, window))
    ]


def stack_windows(
    x: Any,
    fill: Any,
    window_dimensions: Shape,
    window_strides: Shape,
    padding: Padding,
    base_dilation: Shape,
    window_dilation: Shape,
) -> Any:
    """The elements of every window in a new first axis, by slices that are differentiable."""
    gaps = [d - 1 for d in base_dilation]
    config = tuple([(*pair, gap) for pair, gap in zip(padding, gaps, strict=True)])
    wide = pad_p.bind(x, fill, padding_config=config)
    extents = dilate_shape(window_dimensions, window_dilation)
    counts = [
        window_count(n, w, s)
        for n, w, s in zip(np.shape(wide), extents, window_strides, strict=True)
    ]
    if 0 in counts:
        return full((prod(window_dimensions), *counts), const(fill, 0))
    parts = []
    for offset in window_offsets(window_dimensions, window_dilation):
        limits = tuple(
            [o + 1 + (n - 1) * s for o, n, s in zip(offset, counts, window_strides, strict=True)]
        )
        parts.append(expand_dims(_strided(wide, offset, limits, window_strides), (0,)))
    return concatenate_p.bind(*parts, dimension=0)


def _scatter_by_offsets(
    ct: Any, x: Any, select_prim: Any, padding: Padding, **window: Shape
) -> Any:
    """The scatter of window cotangents onto window extrema, one window offset at a time."""
    counts, rank = np.shape(ct), np.ndim(ct)
    if 0 in counts:
        return full(np.shape(x), const(ct, 0))
    fill = _identity_of(select_prim, typeof(x).dtype)[()]
    stacked = stack_windows(x, fill, padding=padding, base_dilation=(1,) * rank, **window)
    find = argmax_p if select_prim is ge_p else argmin_p
    chosen = find.bind(stacked, axes=(0,), index_dtype=np.dtype(np.int32))
    strides = window["window_strides"]
    reach = [1 + (n - 1) * s for n, s in zip(counts, strides, strict=True)]
    zeros = full(counts, const(ct, 0))
    total: Any = None
    offsets = window_offsets(window["window_dimensions"], window["window_dilation"])
    for i, offset in enumerate(offsets):
        mine = select_n(eq(chosen, const(chosen, i)), zeros, ct)
        places = tuple(
            (o - low, n + low - o - r, s - 1)
            for o, n, (low, _), r, s in zip(
                offset, np.shape(x), padding, reach, strides, strict=True
            )
        )
        placed = pad_p.bind(mine, const(ct, 0), padding_config=places)
        total = placed if total is None else add(total, placed)
    return total


class SelectAndScatterAdd(Selection):
    """The first operand, one element for each window, added where the second has its extrema."""

    name = "select_and_scatter_add"
    neutral = "windows.select_and_scatter_add"
    flops = window_flops

    def shape(self, source: Any, x: Any, *, select_prim: Any, **window: Any) -> ShapedArray:
        _check_selection(self.name, source, x, select_prim)
        expected = counted_windows(self.name, x, **window)
        if source.shape != expected:
            raise TypeError(
                f"{self.name} needs one source element for each window: shape {expected}, got"
                f" {source.shape}"
            )
        return ShapedArray(x.shape, source.dtype, source.weak_type and x.weak_type)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        return 0 in avals[0].shape

    def decompose(self, source: Any, x: Any, **params: Any) -> Any:
        """Nothing is added."""
        return lookup("copy").bind(full(np.shape(x), const(source, 0)))

    @staticmethod
    def ref(
        source: np.ndarray,
        x: np.ndarray,
        *,
        select_prim: Any,
        window_dimensions: Shape,
        window_strides: Shape,
        padding: Padding,
    ) -> np.ndarray:
        ones = (1,) * x.ndim
        chosen = _chosen(
            select_prim,
            x,
            window_dimensions=window_dimensions,
            window_strides=window_strides,
            padding=padding,
            base_dilation=ones,
            window_dilation=ones,
        )
        places = window_places(chosen, window_dimensions, window_strides, padding)
        inside = np.ones(chosen.shape, bool)
        for place, n in zip(places, x.shape, strict=True):
            inside &= (place >= 0) & (place < n)
        wide = computable(source)
        out = np.zeros(x.shape, wide.dtype)
        np.add.at(out, tuple(place[inside] for place in places), wide[inside] if x.ndim else wide)
        return out

    def transpose(self, ct: Any, source: Any, x: Any, **params: Any) -> list[Any]:
        ones = (1,) * np.ndim(x)
        params |= {"base_dilation": ones, "window_dilation": ones}
        return [select_and_gather_add_p.bind(ct, x, **params), None]


def window_places(
    chosen: np.ndarray, window: Shape, strides: Shape, padding: Padding
) -> list[np.ndarray]:
    """The operand's index along each axis of the chosen element of every window."""
    offsets = np.unravel_index(chosen, window)
    starts = np.indices(chosen.shape)
    return [
        start * stride + offset - low
        for start, stride, offset, (low, _) in zip(starts, strides, offsets, padding, strict=True)
    ]


reduce_window_sum_p = ReduceWindowSum()
reduce_window_max_p, reduce_window_min_p = ReduceWindowMax(), ReduceWindowMin()
select_and_gather_add_p, select_and_scatter_add_p = SelectAndGatherAdd(), SelectAndScatterAdd()
