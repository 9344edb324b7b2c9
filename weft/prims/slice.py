"""Slices at static and at computed bounds, and the update of one: a box of an array as a
special, cheaper case of gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero, filled, instantiate, is_undef, zeros
from weft.core.avals import ShapedArray
from weft.core.primitive import Primitive, divisions
from weft.core.trace import typeof
from weft.division.factors import Factors, labelled
from weft.prims.families import element_rule, kernel_elements, scalar
from weft.prims.index import CLIP, check_same_dtype, gather_p, scatter_p
from weft.prims.index_dims import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    Shape,
    dynamic_slice_shape,
    dynamic_update_slice_shape,
    slice_shape,
)
from weft.prims.index_reference import (
    dynamic_slice_reference,
    dynamic_update_slice_reference,
    slice_reference,
)
from weft.prims.shape import broadcast_in_dim, concatenate_p, pad_p


class Slice(Primitive):
    """A strided box at static bounds."""

    name, form = "slice", "move"
    masks = "moved"
    linear = True

    def distances(
        self, params: dict[str, Any], ins: Any, operand: int, result: int
    ) -> tuple[int, ...]:
        starts = params["start_indices"]
        steps = params["strides"] or (1,) * len(starts)
        return tuple(start if step == 1 else 0 for start, step in zip(starts, steps, strict=True))

    def pull(self, index: Any, x: Any, out: Any, **params: Any) -> Any:
        strides = params["strides"] or (1,) * x.ndim
        return tuple(
            entry.scaled(stride, start)
            for entry, start, stride in zip(index, params["start_indices"], strides, strict=True)
        )

    divided_as = 0

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        same = _same(avals[0], outs[0])
        return labelled([same], [same], avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        whole = [n == m for n, m in zip(part.avals[0].shape, params["limit_indices"], strict=True)]
        sizes = zip(typeof(args[0]).shape, params["limit_indices"], whole, strict=True)
        return self.bind(
            *args, **{**params, "limit_indices": tuple(n if w else m for n, m, w in sizes)}
        )

    def shape(self, x: Any, *, start_indices: Shape, limit_indices: Shape, strides: Any) -> Any:
        out = slice_shape(x.shape, start_indices, limit_indices, strides)
        return ShapedArray(out, x.dtype, x.weak_type)

    def ref(self, x: Any, *, start_indices: Shape, limit_indices: Shape, strides: Any) -> Any:
        return slice_reference(x, start_indices, limit_indices, strides)

    def transpose(
        self, ct: Any, x: Any, *, start_indices: Shape, limit_indices: Shape, strides: Any
    ) -> Any:
        extents = x.aval.shape
        if strides is None or all(stride == 1 for stride in strides):
            ends, gaps = limit_indices, (0,) * len(extents)
        else:
            reach = [n and 1 + (n - 1) * step for n, step in zip(np.shape(ct), strides)]
            ends = tuple(start + n for start, n in zip(start_indices, reach))
            gaps = tuple(step - 1 for step in strides)
        after = [extent - end for extent, end in zip(extents, ends)]
        config = tuple(zip(start_indices, after, gaps))
        zero = scalar(typeof(ct).dtype, 0)
        return [pad_p.bind(ct, zero, padding_config=config)]

    def batch(
        self,
        axis: Any,
        args: Any,
        dims: Any,
        *,
        start_indices: Shape,
        limit_indices: Shape,
        strides: Any,
    ) -> Any:
        (x,), (dim,) = args, dims
        starts = _insert(start_indices, dim, 0)
        limits = _insert(limit_indices, dim, typeof(x).shape[dim])
        steps = None if strides is None else _insert(strides, dim, 1)
        out = self.bind(x, start_indices=starts, limit_indices=limits, strides=steps)
        return out, dim


class DynamicSlice(Primitive):
    """A box of static size at a start known only when it runs, moved inside where needed."""

    name, form, view = "dynamic_slice", "element", True
    masks = "moved"
    reads_at_indices = True

    element = element_rule(kernel_elements, "dynamic_slice")

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        same = _same(avals[0], outs[0])
        return labelled([same, *[()] * (len(avals) - 1)], [same], avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        return self.bind(*args, **{**params, "slice_sizes": tuple(part.outs[0])})

    divided_as = 0

    def shape(self, x: Any, *starts: Any, slice_sizes: Shape) -> Any:
        out = dynamic_slice_shape(x.shape, [start.shape for start in starts], slice_sizes)
        _check_index_dtypes(self.name, starts)
        return ShapedArray(out, x.dtype, x.weak_type)

    def ref(self, x: Any, *starts: Any, slice_sizes: Shape) -> Any:
        return dynamic_slice_reference(x, starts, slice_sizes)

    def d0(self, g: Any, out: Any, x: Any, *starts: Any, slice_sizes: Shape) -> Any:
        return self.bind(g, *starts, slice_sizes=slice_sizes)

    def transpose(self, ct: Any, x: Any, *starts: Any, slice_sizes: Shape) -> Any:
        return [dynamic_update_slice_p.bind(zeros(x.aval), ct, *starts), *[None] * len(starts)]

    def batch(self, axis: Any, args: Any, dims: Any, *, slice_sizes: Shape) -> Any:
        x, *starts = args
        dim, *start_dims = dims
        every = tuple(range(len(starts)))
        numbers = GatherDimensionNumbers(every, (), every)
        indices, indices_dim = _stack_starts(starts, start_dims)
        return gather_p.batch(
            axis,
            (x, indices),
            (dim, indices_dim),
            dimension_numbers=numbers,
            slice_sizes=slice_sizes,
            unique_indices=True,
            indices_are_sorted=True,
            mode=CLIP,
            fill_value=None,
        )


class DynamicUpdateSlice(Primitive):
    """A copy with a box overwritten, at a start known only when it runs."""

    name, form = "dynamic_update_slice", "update"
    masks = "moved"
    written = 1

    divided_as = 0

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        if specs[0] != specs[1]:
            raise divisions.different("dynamic_update_slice", avals[:2])
        return [specs[0]]

    def target(self, k: Any, index: Any, starts: Any, ins: Any) -> Any:
        """Where an element of the update is written."""
        return kernel_elements.box_at(k, index, starts, ins[0].shape, ins[1].shape)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        same = _same(avals[0], avals[1])
        return labelled([same, same, *[()] * (len(avals) - 2)], [same], avals, outs)

    def shape(self, x: Any, update: Any, *starts: Any) -> Any:
        shapes = [start.shape for start in starts]
        out = dynamic_update_slice_shape(x.shape, update.shape, shapes)
        check_same_dtype(self.name, x, update)
        _check_index_dtypes(self.name, starts)
        weak = x.weak_type and update.weak_type and all(start.weak_type for start in starts)
        return ShapedArray(out, x.dtype, weak)

    def ref(self, x: Any, update: Any, *starts: Any) -> Any:
        return dynamic_update_slice_reference(x, update, starts)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        x, update, *starts = primals
        out = self.bind(x, update, *starts)
        if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
            return out, Zero.from_primal(out)
        return out, self.bind(instantiate(tangents[0]), instantiate(tangents[1]), *starts)

    def transpose(self, ct: Any, x: Any, update: Any, *starts: Any) -> Any:
        type_ = update.aval if is_undef(update) else typeof(update).to_cotangent_aval()
        nothing = filled(0, ShapedArray(type_.shape, typeof(ct).dtype))
        ct_x = self.bind(ct, nothing, *starts) if is_undef(x) else None
        ct_update = None
        if is_undef(update):
            ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=type_.shape)
        return [ct_x, ct_update, *[None] * len(starts)]

    def batch(self, axis: Any, args: Any, dims: Any) -> Any:
        x, update, *starts = args
        x_dim, update_dim, *start_dims = dims
        every = tuple(range(len(starts)))
        indices, indices_dim = _stack_starts(starts, start_dims)
        return scatter_p.batch(
            axis,
            (x, indices, update),
            (x_dim, indices_dim, update_dim),
            dimension_numbers=ScatterDimensionNumbers(every, (), every),
            indices_are_sorted=True,
            unique_indices=True,
            mode=CLIP,
            update_jaxpr=None,
            update_consts=(),
        )


slice_p = Slice()
dynamic_slice_p = DynamicSlice()
dynamic_update_slice_p = DynamicUpdateSlice()


def _same(one: Any, other: Any) -> list[int | None]:
    """The dimensions that are as long in both, None for the others."""
    pairs = enumerate(zip(one.shape, other.shape, strict=True))
    return [d if n == m else None for d, (n, m) in pairs]


def _insert(values: Shape, position: int, value: int) -> Shape:
    return (*values[:position], value, *values[position:])


def _stack_starts(starts: Any, dims: Any) -> tuple[Any, int | None]:
    """Scalar start indices as index vectors, and the batch dimension of these."""
    if not starts:
        return np.zeros(0, np.int32), None
    size = next((typeof(x).shape[d] for x, d in zip(starts, dims) if d is not None), None)
    shape = (1,) if size is None else (size, 1)
    columns = [broadcast_in_dim(x, shape, () if d is None else (0,)) for x, d in zip(starts, dims)]
    joined = columns[0]
    if len(columns) > 1:
        joined = concatenate_p.bind(*columns, dimension=len(shape) - 1)
    return joined, None if size is None else 0


def _check_index_dtypes(name: str, starts: Any) -> None:
    for start in starts:
        if start.dtype != starts[0].dtype or not dtypes.issubdtype(start.dtype, np.integer):
            found = ", ".join(s.dtype.name for s in starts)
            raise TypeError(
                f"{name} needs start indices that are integers of one dtype, got {found}"
            )
