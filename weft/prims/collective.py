"""Primitives that speak to the other members of a named axis.

``vmap`` with an axis name turns them into ordinary operations on the batch: a name in ``axes``
becomes a position. With no axis of that name around them they have no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import filled, instantiate
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, broadcast_axis, moveaxis
from weft.core.effects import Effects, NamedAxisEffect
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import axis_size, state, typeof
from weft.division.factors import Factors, elementwise
from weft.prims.arithmetic import add, mul
from weft.prims.families import broadcast_in_dim, const, positions_along, scalar, unmoved
from weft.prims.index import gather
from weft.prims.index_dims import GatherDimensionNumbers, GatherScatterMode
from weft.prims.reduce import computable
from weft.prims.selection import eq, select_n

Names = tuple[Any, ...]


def as_names(axis_name: Any) -> Names:
    """One axis name or several, as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def named_axes(axes: Sequence[Any]) -> Names:
    """The names among axes, of which some may be positions."""
    return tuple(a for a in axes if not isinstance(a, int))


def axes_size(names: Sequence[Any]) -> int:
    """The number of members of the axes together; NameError for a name that is not bound."""
    return prod(axis_size(name) for name in names)


def no_groups(primitive: Primitive, axis_index_groups: Any) -> None:
    if axis_index_groups is not None:
        raise NotImplementedError(
            f"{primitive} with axis_index_groups is not defined under vmap; reshape the mapped axis"
            " into two and name each"
        )


class Collective(Primitive):
    """An operation along named axes, which its parameter ``axis_name`` holds."""

    def shard(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        shapes = [getattr(a, "shape", ()) for a in avals]
        found = []
        for i, out in enumerate(outs):
            shape = getattr(out, "shape", ())
            same = i < len(specs) and shapes[i] == shape
            found.append(specs[i] if same else ((),) * len(shape))
        return found

    def vma(self, given: frozenset[Any], params: Any) -> frozenset[Any]:
        """Members get different results."""
        return given | (state.manual & frozenset(self.axis_names(params)))

    def axis_names(self, params: Any) -> Names:
        return as_names(params["axis_name"])

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return frozenset(NamedAxisEffect(name) for name in self.axis_names(params))

    def ref(self, *args: Any, **params: Any) -> Any:
        axes_size(self.axis_names(params))
        raise NameError(
            f"{self} communicates along the axis {self.axis_names(params)}, but runs outside of it"
        )


# --- reductions -----------------------------------------------------------------------------------


class AllReduce(Collective):
    """A reduction over axes that are names or positions."""

    def vma(self, given: frozenset[Any], params: Any) -> frozenset[Any]:
        """All members get the same result."""
        return given - frozenset(self.axis_names(params))

    def axis_names(self, params: Any) -> Names:
        return named_axes(params["axes"])

    def shape(self, x: Any, *, axes: Names, axis_index_groups: Any) -> ShapedArray:
        for name in named_axes(axes):
            axis_size(name)
        gone = {a % len(x.shape) for a in axes if isinstance(a, int)}
        sizes = [n for i, n in enumerate(x.shape) if i not in gone]
        return ShapedArray(sizes, x.dtype)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axes: Names, axis_index_groups: Any
    ) -> tuple[Any, int | None]:
        (x,), (d,) = args, dims
        if axis.name not in axes:
            if d is not None and any(isinstance(a, int) for a in axes):
                x, d = moveaxis(x, d, 0), 0
                axes = tuple(a + 1 if isinstance(a, int) else a for a in axes)
            return self.bind(x, axes=axes, axis_index_groups=axis_index_groups), d
        no_groups(self, axis_index_groups)
        if d is None:
            rest = tuple(a for a in axes if a != axis.name)
            if rest:
                x = self.bind(x, axes=rest, axis_index_groups=None)
            return self.of_equals(x, axis.size), None
        x = moveaxis(x, d, 0)
        moved = tuple(a + 1 if isinstance(a, int) else 0 if a == axis.name else a for a in axes)
        return self.bind(x, axes=moved, axis_index_groups=None), None

    def of_equals(self, x: Any, size: int) -> Any:
        """The reduction of ``size`` times ``x``."""
        return x

    along = ""  # the reduction along positions

    def expands(self, avals: Any, params: Any) -> bool:
        return not named_axes(params["axes"])

    def decompose(self, x: Any, *, axes: Names, axis_index_groups: Any) -> Any:
        places = tuple(a % np.ndim(x) for a in axes)
        return lookup(self.along).bind(x, axes=places, out_sharding=None)


def positions(primitive: AllReduce, axes: Names) -> tuple[int, ...]:
    """Axes that are all positions; NameError if one is a name."""
    names = named_axes(axes)
    if names:
        Collective.ref(primitive, axes=axes)
    return tuple(a for a in axes if isinstance(a, int))


class PSum(AllReduce):
    """The sum over axes."""

    name, along = "psum", "reduce_sum"
    linear = True

    def ref(self, x: Any, *, axes: Names, axis_index_groups: Any) -> Any:
        wide = computable(x)
        return np.add.reduce(wide, axis=positions(self, axes), dtype=wide.dtype)

    def transpose(self, ct: Any, x: Any, *, axes: Names, axis_index_groups: Any) -> list[Any]:
        places = [a for a in axes if isinstance(a, int)]
        if places:
            shape = x.aval.shape
            kept = tuple(i for i in range(len(shape)) if i not in places)
            ct = broadcast_in_dim(ct, shape, kept)
        names = named_axes(axes)
        if state.manual and state.manual.issuperset(names):
            # the sum is one value, known to all members, and so is its cotangent
            parts = tuple(n for n in names if n in x.aval.mat.unreduced)
            if parts:
                ct = pcast_p.bind(ct, axes=parts, source="invarying", to="reduced")
            rest = tuple(n for n in names if n not in parts)
            return [pvary_p.bind(ct, axes=rest) if rest else ct]
        # Every member receives the sum, so the cotangents of all members are summed again.
        return [self.bind(ct, axes=names, axis_index_groups=axis_index_groups)]

    def of_equals(self, x: Any, size: int) -> Any:
        return mul(const(x, size), x)


class Extremum(AllReduce):
    """The greatest or least over axes."""

    holes = {"transpose": "not linear", "jvp": "the derivative at ties is not defined"}
    function: Any = None

    def ref(self, x: Any, *, axes: Names, axis_index_groups: Any) -> Any:
        return type(self).function.reduce(computable(x), axis=positions(self, axes))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise NotImplementedError(
            f"{self} has no derivative; wrap its operand in lax.stop_gradient, or reduce over"
            " lax.all_gather(x, axis_name)"
        )


class PMax(Extremum):
    """The greatest over axes."""

    name, along = "pmax", "reduce_max"
    function = np.maximum


class PMin(Extremum):
    """The least over axes."""

    name, along = "pmin", "reduce_min"
    function = np.minimum


class Sharing(Primitive):
    """A value unchanged, of which types say otherwise whether members of axes share it."""

    form = "move"
    linear = True
    pull = unmoved
    divided_as = 0

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return elementwise(avals, outs)

    def shape(self, x: Any, **params: Any) -> Any:
        return x

    @staticmethod
    def ref(x: Any, **params: Any) -> Any:
        return x

    def axis_names(self, params: Any) -> Names:
        return params["axes"]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axes: Names, **params: Any
    ) -> tuple[Any, Any]:
        rest = tuple(a for a in axes if a != axis.name)
        return (self.bind(args[0], axes=rest, **params) if rest else args[0]), dims[0]


class PVary(Sharing):
    """A value that all members of axes share, as one that each of them has."""

    name = "pvary"

    def vma(self, given: frozenset[Any], params: Any) -> frozenset[Any]:
        return given | frozenset(params["axes"])

    def transpose(self, ct: Any, x: Any, *, axes: Names) -> list[Any]:
        if not state.manual.issuperset(axes):
            return [instantiate(ct)]
        return [psum_p.bind(ct, axes=axes, axis_index_groups=None)]


class PShared(Sharing):
    """What all members of axes have, which is the same, as one value that they share."""

    name = "pshared"

    def vma(self, given: frozenset[Any], params: Any) -> frozenset[Any]:
        return given - frozenset(params["axes"])

    def transpose(self, ct: Any, x: Any, *, axes: Names, size: int) -> list[Any]:
        if not state.manual.issuperset(axes):
            return [instantiate(ct)]
        # one of the members' values would do: each has its share of the cotangent
        return [pvary_p.bind(lookup("div").bind(ct, const(ct, size)), axes=axes)]


class PCast(Sharing):
    """A value of which types say otherwise what it is over axes: one that varies, a part of a sum
    (unreduced), or one that devices share, whose cotangents are such parts (reduced)."""

    name = "pcast"

    def vma(self, given: frozenset[Any], params: Any) -> frozenset[Any]:
        axes = frozenset(params["axes"])
        return given | axes if params["to"] == "varying" else given - axes

    @staticmethod
    def marks(mat: Any, params: Any) -> tuple[frozenset[Any], frozenset[Any]]:
        """Over which axes the result is unreduced, and reduced."""
        axes = frozenset(params["axes"])
        found = [mat.unreduced - axes, mat.reduced - axes]
        if params["to"] in ("unreduced", "reduced"):
            found[params["to"] == "reduced"] |= axes
        return found[0], found[1]

    def transpose(self, ct: Any, x: Any, *, axes: Names, source: str, to: str) -> list[Any]:
        if not state.manual.issuperset(axes):
            return [instantiate(ct)]
        if source == "invarying":
            return [psum_p.bind(instantiate(ct), axes=axes, axis_index_groups=None)]
        return [self.bind(instantiate(ct), axes=axes, source=_DUAL[to], to=_DUAL[source])]


# What cotangents are over an axis, of values that are this over it.
_DUAL = {"varying": "varying", "unreduced": "reduced", "reduced": "unreduced"}


# --- movement -------------------------------------------------------------------------------------


def reshape(x: Any, sizes: Sequence[int]) -> Any:
    return lookup("reshape").bind(x, new_sizes=tuple(sizes), dimensions=None, sharding=None)


def cut_axis(x: Any, axis: int, sizes: Sequence[int]) -> Any:
    """``x`` with one axis written as several."""
    shape = np.shape(x)
    return reshape(x, (*shape[:axis], *sizes, *shape[axis + 1 :]))


def fold_axes(x: Any, axis: int, count: int = 2) -> Any:
    """``x`` with ``count`` neighbouring axes made one."""
    shape = np.shape(x)
    whole = prod(shape[axis : axis + count])
    return reshape(x, (*shape[:axis], whole, *shape[axis + count :]))


def take_rows(x: Any, rows: Any, axis: int) -> Any:
    """``x`` with the elements along an axis picked by constant positions."""
    shape = np.shape(x)
    others = tuple(i for i in range(len(shape)) if i != axis)
    dims = GatherDimensionNumbers(others, (axis,), (axis,))
    sizes = tuple(1 if i == axis else n for i, n in enumerate(shape))
    return gather(x, np.asarray(rows, np.int32)[:, None], dims, sizes)


def rows_at(x: Any, index: Any, mode: Any = GatherScatterMode.PROMISE_IN_BOUNDS) -> Any:
    """The rows of ``x`` at an array of positions."""
    rest = np.shape(x)[1:]
    offsets = tuple(range(np.ndim(index), np.ndim(index) + len(rest)))
    dims = GatherDimensionNumbers(offsets, (0,), (0,))
    return gather(x, reshape(index, (*np.shape(index), 1)), dims, (1, *rest), mode=mode)


def member_index(names: Names) -> Any:
    """The position of a member on several axes together, the first the slowest."""
    index: Any = scalar(np.dtype(np.int32), 0)
    for i, name in enumerate(names):
        here = axis_index_p.bind(axis_name=name)
        index = here if i == 0 else add(mul(index, const(index, axis_size(name))), here)
    return index


def check_pairs(what: Any, axis_name: Names, perm: Any) -> None:
    """Raise unless pairs of members have distinct sources and distinct destinations."""
    size = axes_size(as_names(axis_name))
    for kind, places in (("sources", [s for s, _ in perm]), ("destinations", [t for _, t in perm])):
        if len(set(places)) != len(places) or any(not 0 <= p < size for p in places):
            raise ValueError(
                f"{what} needs distinct {kind} in [0, {size}), got the pairs {list(perm)}"
            )


class PPermute(Collective):
    """Sends from member to member; members to which none is sent get zeros."""

    name = "ppermute"
    linear = True

    def shape(self, x: Any, *, axis_name: Names, perm: Any) -> ShapedArray:
        check_pairs(self, axis_name, perm)
        return x

    def transpose(self, ct: Any, x: Any, *, axis_name: Names, perm: Any) -> list[Any]:
        return [self.bind(ct, axis_name=axis_name, perm=tuple((t, s) for s, t in perm))]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axis_name: Names, perm: Any
    ) -> tuple[Any, int | None]:
        (x,), (d,) = args, dims
        if axis.name not in axis_name:
            return self.bind(x, axis_name=axis_name, perm=perm), d
        if len(axis_name) > 1:
            return self._one_of_several(axis, x, d, axis_name, perm), 0
        complete = len(perm) == axis.size
        if d is None:
            if complete:
                return x, None
            x, d = broadcast_axis(x, axis.size, 0), 0
        rows = np.zeros(axis.size, np.int32)
        received = np.zeros(axis.size, np.bool_)
        for source, target in perm:
            rows[target], received[target] = source, True
        out = take_rows(x, rows, d)
        if not complete:
            mask = broadcast_in_dim(received, np.shape(out), (d,))
            out = select_n(mask, filled(0, typeof(out)), out)
        return out, d

    @staticmethod
    def _one_of_several(axis: AxisData, x: Any, d: Any, axis_name: Names, perm: Any) -> Any:
        """Over several axes of which one is mapped: every member sees what all have, and takes
        the row that is meant for it."""
        at = axis_name.index(axis.name)
        inner = axes_size(axis_name[at + 1 :])
        rest = axis_name[:at] + axis_name[at + 1 :]
        others = axes_size(rest)
        y = broadcast_axis(x, axis.size, 0) if d is None else moveaxis(x, d, 0)
        shape = np.shape(y)[1:]
        every = all_gather_p.bind(
            y,
            all_gather_dimension=0,
            axis_name=rest,
            axis_index_groups=None,
            axis_size=others,
            tiled=False,
        )
        outer = others // inner
        every = reshape(every, (outer, inner, axis.size, *shape))
        every = fold_axes(moveaxis(every, 2, 1), 0, 3)
        # rows of what is received, and a row of zeros for members that receive nothing
        rows = np.full(others * axis.size, others * axis.size, np.int32)
        for source, target in perm:
            rows[target] = source
        by_member = np.moveaxis(rows.reshape(outer, axis.size, inner), 1, 2)
        table = by_member.reshape(others, axis.size)
        zero = filled(0, typeof(every).update(shape=(1, *shape)))
        every = lookup("concatenate").bind(every, zero, dimension=0)
        index = member_index(rest)
        mine = lookup("dynamic_slice").bind(table, index, np.int32(0), slice_sizes=(1, axis.size))
        return rows_at(every, reshape(mine, (axis.size,)))


class PBroadcast(Collective):
    """What one member has, for all."""

    name = "pbroadcast"
    linear = True

    def shape(self, x: Any, *, axis_name: Any, source: int) -> ShapedArray:
        size = axes_size(as_names(axis_name))
        if not 0 <= source < size:
            raise ValueError(f"pbroadcast got source {source} on an axis of size {size}")
        return x

    def transpose(self, ct: Any, x: Any, *, axis_name: Any, source: int) -> list[Any]:
        names = as_names(axis_name)
        total = psum_p.bind(ct, axes=names, axis_index_groups=None)
        index = member_index(names)
        is_source = eq(index, const(index, source))
        return [select_n(is_source, filled(0, typeof(total)), total)]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axis_name: Any, source: int
    ) -> tuple[Any, int | None]:
        (x,), (d,) = args, dims
        names = as_names(axis_name)
        if axis.name not in names:
            return self.bind(x, axis_name=axis_name, source=source), d
        at = names.index(axis.name)
        inner = axes_size(names[at + 1 :])
        rest = names[:at] + names[at + 1 :]
        if d is not None:
            row = source // inner % axis.size
            x = take_rows(x, [row], d)
            x = lookup("squeeze").bind(x, dimensions=(d,))
        if rest:
            outer = source // (inner * axis.size)
            x = self.bind(x, axis_name=rest, source=outer * inner + source % inner)
        return x, None


class AllGather(Collective):
    """What all members have, along a new axis, or one after the other if ``tiled``."""

    name = "all_gather"
    linear = True

    def shape(
        self,
        x: Any,
        *,
        all_gather_dimension: int,
        axis_name: Names,
        axis_index_groups: Any,
        axis_size: int,
        tiled: bool,
    ) -> ShapedArray:
        axes_size(axis_name)
        sizes = list(x.shape)
        if tiled:
            sizes[all_gather_dimension] *= axis_size
        else:
            sizes.insert(all_gather_dimension, axis_size)
        return ShapedArray(sizes, x.dtype)

    def transpose(self, ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
        return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, all_gather_dimension: int, **params: Any
    ) -> tuple[Any, int | None]:
        (x,), (d,) = args, dims
        dim, names, tiled = all_gather_dimension, params["axis_name"], params["tiled"]
        if axis.name not in names:
            if d is not None:
                if d <= dim:
                    dim += 1
                elif not tiled:
                    d += 1
            return self.bind(x, all_gather_dimension=dim, **params), d
        no_groups(self, params["axis_index_groups"])
        y = broadcast_axis(x, axis.size, dim) if d is None else moveaxis(x, d, dim)
        rest = tuple(a for a in names if a != axis.name)
        if rest:
            inner = axes_size(names[names.index(axis.name) + 1 :])
            outer = params["axis_size"] // (axis.size * inner)
            params |= {"axis_name": rest, "axis_size": outer * inner, "tiled": False}
            y = self.bind(y, all_gather_dimension=dim, **params)
            y = moveaxis(cut_axis(y, dim, (outer, inner)), dim + 1, dim + 2)
            y = fold_axes(y, dim, 3)
        return (fold_axes(y, dim) if tiled else y), None


class ReduceScatter(Collective):
    """The sum over the members, of which each gets a part."""

    name = "reduce_scatter"
    linear = True

    def shape(
        self,
        x: Any,
        *,
        scatter_dimension: int,
        axis_name: Names,
        axis_index_groups: Any,
        axis_size: int,
        tiled: bool,
    ) -> ShapedArray:
        axes_size(axis_name)
        sizes = list(x.shape)
        n = sizes[scatter_dimension]
        if n % axis_size if tiled else n != axis_size:
            must = "be divisible by" if tiled else "equal"
            raise ValueError(
                f"reduce_scatter splits dimension {scatter_dimension} of shape {x.shape} over"
                f" {axis_size} members: its size {n} must {must} {axis_size}"
            )
        if tiled:
            sizes[scatter_dimension] //= axis_size
        else:
            del sizes[scatter_dimension]
        return ShapedArray(sizes, x.dtype)

    def transpose(self, ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
        return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, scatter_dimension: int, **params: Any
    ) -> tuple[Any, int | None]:
        (x,), (d,) = args, dims
        dim, names, tiled = scatter_dimension, params["axis_name"], params["tiled"]
        if axis.name not in names:
            if d is not None:
                dim, d = (dim + 1, d) if d <= dim else (dim, d if tiled else d - 1)
            return self.bind(x, scatter_dimension=dim, **params), d
        no_groups(self, params["axis_index_groups"])
        if d is None:
            y = mul(x, const(x, axis.size))
        else:
            y = lookup("reduce_sum").bind(x, axes=(d,), out_sharding=None)
        rest = tuple(a for a in names if a != axis.name)
        if not rest:
            if tiled:
                y = cut_axis(y, dim, (axis.size, np.shape(y)[dim] // axis.size))
            return y, dim
        inner = axes_size(names[names.index(axis.name) + 1 :])
        outer = params["axis_size"] // (axis.size * inner)
        y = cut_axis(y, dim, (outer, axis.size, np.shape(y)[dim] // (outer * axis.size)))
        y = fold_axes(moveaxis(y, dim + 1, 0), dim + 1)
        params |= {"axis_name": rest, "axis_size": outer * inner}
        return self.bind(y, scatter_dimension=dim + 1, **params), 0


class AllToAll(Collective):
    """Every member sends one part to each; what arrives is laid one after the other.

    The dimension ``split_axis`` is cut into as many parts as there are members, the parts that
    arrive are joined along ``concat_axis``.
    """

    name = "all_to_all"
    linear = True

    def shape(
        self,
        x: Any,
        *,
        axis_name: Any,
        split_axis: int,
        concat_axis: int,
        axis_index_groups: Any,
        tiled: bool,
    ) -> ShapedArray:
        size = axes_size(as_names(axis_name))
        if axis_index_groups is not None:
            size = len(axis_index_groups[0])
        sizes = list(x.shape)
        if sizes[split_axis] % size:
            raise ValueError(
                f"all_to_all splits dimension {split_axis} of shape {x.shape} into {size} parts: "
                "its"
                f" size must be divisible by {size}"
            )
        sizes[split_axis] //= size
        sizes[concat_axis] *= size
        return ShapedArray(sizes, x.dtype)

    def transpose(
        self, ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any
    ) -> list[Any]:
        return [self.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        split_axis: int,
        concat_axis: int,
        **params: Any,
    ) -> tuple[Any, int | None]:
        (x,), (d,) = args, dims
        names = as_names(params["axis_name"])
        if axis.name not in names:
            if d is not None:
                split_axis += d <= split_axis
                concat_axis += d <= concat_axis
            return self.bind(x, split_axis=split_axis, concat_axis=concat_axis, **params), d
        no_groups(self, params["axis_index_groups"])
        if d is None:
            x, d = broadcast_axis(x, axis.size, 0), 0
        if len(names) == 1:
            return exchange(x, d, split_axis, concat_axis, axis.size)
        return self._exchange_one_of(axis, x, d, names, split_axis, concat_axis)

    def _exchange_one_of(
        self, axis: AxisData, x: Any, d: int, names: Names, split: int, concat: int
    ) -> tuple[Any, int]:
        """Exchange along the mapped axis here, along the others by the primitive."""
        at = names.index(axis.name)
        outer, inner = axes_size(names[:at]), axes_size(names[at + 1 :])
        x = moveaxis(x, d, 0)
        # [source, ..., outer * target * inner * part, ...] -> [target, ..., outer * inner * part]
        part = np.shape(x)[split + 1] // (outer * axis.size)
        x = cut_axis(x, split + 1, (outer, axis.size, part))
        x = moveaxis(x, split + 2, 0)
        x = fold_axes(x, split + 2)
        # The source becomes the slow index of what is joined: [target, ..., source, ...].
        if split == concat:
            rows = np.shape(x)[split + 2] // (outer * inner)
            x = cut_axis(x, split + 2, (outer * inner, rows))
            x = fold_axes(fold_axes(moveaxis(x, 1, split + 2), split + 2), split + 1)
        else:
            x = fold_axes(moveaxis(x, 1, concat + 1), concat + 1)
        x = self.bind(
            x,
            axis_name=names[:at] + names[at + 1 :],
            split_axis=split + 1,
            concat_axis=concat + 1,
            axis_index_groups=None,
            tiled=True,
        )
        rows = np.shape(x)[concat + 1] // (outer * inner * axis.size)
        x = cut_axis(x, concat + 1, (outer, inner, axis.size, rows))
        return fold_axes(moveaxis(x, concat + 2, concat + 3), concat + 1, 4), 0


def exchange(x: Any, d: int, split: int, concat: int, size: int) -> tuple[Any, int]:
    """``all_to_all`` along the batch dimension ``d`` alone."""
    if split != concat:
        joined = fold_axes(moveaxis(x, d, concat), concat)
        return cut_axis(joined, split, (size, np.shape(joined)[split] // size)), split
    axis = split + (d <= split)
    x = cut_axis(x, axis, (size, np.shape(x)[axis] // size))
    there = d + (axis <= d)
    order = list(range(np.ndim(x)))
    order[there], order[axis] = axis, there
    x = lookup("transpose").bind(x, permutation=tuple(order))
    return fold_axes(x, axis), d


class AxisIndex(Collective):
    """The position of a member on a named axis."""

    name = "axis_index"
    holes = {"jvp": "it has no operands", "transpose": "it has no operands"}

    def shape(self, *, axis_name: Any) -> ShapedArray:
        axis_size(axis_name)
        return ShapedArray((), dtypes.canonicalize_dtype(np.int32))

    def axis_names(self, params: Any) -> Names:
        return (params["axis_name"],)

    def vma(self, given: frozenset[Any], params: Any) -> frozenset[Any]:
        return state.manual & frozenset(self.axis_names(params))

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axis_name: Any
    ) -> tuple[Any, int | None]:
        return positions_along((axis.size,), 0), 0


psum_p, pmax_p, pmin_p = PSum(), PMax(), PMin()
pvary_p, pshared_p, pcast_p = PVary(), PShared(), PCast()
ppermute_p, pbroadcast_p = PPermute(), PBroadcast()
all_gather_p, reduce_scatter_p, all_to_all_p = AllGather(), ReduceScatter(), AllToAll()
axis_index_p = AxisIndex()
