"""Gather and the scatters: reading and writing windows of an array at computed places.

Their dimension numbers are in ``index_dims``, their meaning on NumPy arrays in
``index_reference``.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.sizes import plain
from weft.core.ad import Zero, filled, instantiate, is_undef, zeros
from weft.core.avals import ShapedArray
from weft.core.batching import at_front, moveaxis
from weft.core.dims.dim import exceeds, min_dim
from weft.core.interpret import run
from weft.core.jaxpr import Jaxpr, JaxprEqn, Var, eval_jaxpr
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.core.verify import check_combination
from weft.division.factors import Factors, labelled
from weft.prims.arithmetic import add, add_p, div, max_p, min_p, mul, mul_p, neg, sub_p
from weft.prims.bits import and_
from weft.prims.families import (
    broadcast_in_dim,
    converted,
    element_rule,
    kernel_elements,
    scalar,
)
from weft.prims.in_turn import MOST, PLACE, update_in_turn
from weft.prims.index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Shape,
    gather_numbers,
    gather_shape,
    scatter_numbers,
    scatter_shape,
    window_sizes,
)
from weft.prims.index_reference import gather_reference, scatter_reference
from weft.prims.one_window import update_window
from weft.prims.selection import eq, select_n
from weft.prims.shape import iota, reshape

CLIP = GatherScatterMode.CLIP
FILL_OR_DROP = GatherScatterMode.FILL_OR_DROP
PROMISE_IN_BOUNDS = GatherScatterMode.PROMISE_IN_BOUNDS
# Bytes that memory gives at a time: neighbours that are fewer cost as much as these.
SECTOR = 32


# --- gather ---------------------------------------------------------------------------------------


class Gather(Primitive):
    """One window of the operand for each index vector."""

    name, form = "gather", "element"
    masks = "summed"
    reads_at_indices = True

    element = element_rule(kernel_elements, "gather")

    def reads_apart(self, params: dict[str, Any], out: Any) -> bool:
        inside = params["dimension_numbers"].offset_dims
        run, d = 1, len(out.shape) - 1
        while d in inside:
            run, d = run * plain(out.shape[d]), d - 1
        return run * out.dtype.itemsize < SECTOR

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        x, indices = avals
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        indexed = numbers.start_index_map
        batching = dict(
            zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
        )
        given: list[Any] = [None] * len(x.shape)
        rows: list[Any] = [("i", d) for d in range(len(indices.shape) - 1)]
        for d, k in batching.items():
            given[d] = rows[k]
        made: list[Any] = [None] * len(outs[0].shape)
        gone = {*numbers.collapsed_slice_dims, *batching}
        kept = [d for d in range(len(sizes)) if d not in gone]
        for at, d in zip(numbers.offset_dims, kept, strict=True):
            if sizes[d] == x.shape[d]:
                given[d] = made[at] = ("x", d)
        combine: dict[Any, str] = {}
        if divides_indexed(numbers.collapsed_slice_dims, indexed, x.dtype):
            for d in indexed:
                given[d] = ("at", d)
                combine["at", d] = "add"
        rest = iter(rows)
        made = [name if d in numbers.offset_dims else next(rest) for d, name in enumerate(made)]
        # in the gradient, indices of several devices add to the same elements
        asks = {*combine, *rows} - {rows[k] for k in batching.values()}
        return labelled([given, [*rows, None]], [made], avals, outs, combine, asks)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """Where the operand is divided along indexed dimensions: what is in a device's part, and
        zeros for the rest, as results are summed."""
        x, indices = args
        numbers = params["dimension_numbers"]
        sizes = zip(params["slice_sizes"], part.avals[0].shape, np.shape(x), strict=True)
        taken = tuple(own if n == whole else n for n, whole, own in sizes)
        params = {**params, "slice_sizes": taken}
        divided = indexed_parts(part, numbers.start_index_map)
        if not divided:
            return self.bind(x, indices, **params)
        mode, fill = params["mode"], params["fill_value"]
        indices, inside, mine = places_in_part(part, indices, numbers.start_index_map, x, mode)
        params |= {"mode": CLIP, "fill_value": None, "indices_are_sorted": False}
        found = self.bind(x, indices, **params)
        shape = np.shape(found)
        rows = tuple(d for d in range(len(shape)) if d not in numbers.offset_dims)
        spread = lambda m: broadcast_in_dim(m, shape, rows)
        found = select_n(spread(mine), filled(0, typeof(found)), found)
        if not mode.drops:
            return found
        first = eq(part.index([x for d in divided for x in part.factors.ins[0][d]]), np.int32(0))
        outside = filled(fill, typeof(found))
        value = select_n(first, filled(0, typeof(found)), outside)
        return select_n(spread(inside), value, found)

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        f = self.factors(avals, outs, params)
        return divisions.described(self.name, f, specs, avals, outs)

    def shape(
        self, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Shape, **_: Any
    ) -> Any:
        _check_indices(self.name, indices)
        out = gather_shape(x.shape, indices.shape, dimension_numbers, slice_sizes)
        return ShapedArray(out, x.dtype, x.weak_type)

    def ref(
        self,
        x: Any,
        indices: Any,
        *,
        dimension_numbers: Any,
        slice_sizes: Shape,
        mode: GatherScatterMode,
        fill_value: Any,
        **_: Any,
    ) -> Any:
        return gather_reference(x, indices, dimension_numbers, slice_sizes, mode, fill_value)

    def d0(self, g: Any, out: Any, x: Any, indices: Any, **params: Any) -> Any:
        fill = 0 if params["mode"].drops else None
        return self.bind(g, indices, **(params | {"fill_value": fill}))

    def transpose(self, ct: Any, x: Any, indices: Any, **params: Any) -> Any:
        target = filled(0, ShapedArray(x.aval.shape, typeof(ct).dtype))
        numbers = scatter_numbers(params["dimension_numbers"])
        options = {k: params[k] for k in ("unique_indices", "indices_are_sorted", "mode")}
        return [scatter_add(target, indices, ct, numbers, backward=True, **options), None]

    def batch(
        self,
        axis: Any,
        args: Any,
        dims: Any,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: Shape,
        **params: Any,
    ) -> Any:
        (x, indices), (x_dim, indices_dim) = args, dims
        offset, collapsed, index_map, batching, indices_batching = dimension_numbers
        if x_dim is not None:
            x = moveaxis(x, x_dim, 0)
            collapsed, index_map, batching = map(_shift, (collapsed, index_map, batching))
        if indices_dim is not None:
            indices = moveaxis(indices, indices_dim, 0)
            indices_batching = _shift(indices_batching)
        offset = _shift(offset)
        if x_dim is None:
            # The same elements may be read again by another member of the batch.
            params |= {"unique_indices": False, "indices_are_sorted": False}
        elif indices_dim is None:
            slice_sizes = (typeof(x).shape[0], *slice_sizes)
            offset = (0, *offset)
        else:
            slice_sizes = (min_dim(typeof(x).shape[0], 1), *slice_sizes)
            batching, indices_batching = (0, *batching), (0, *indices_batching)
        numbers = GatherDimensionNumbers(offset, collapsed, index_map, batching, indices_batching)
        out = self.bind(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params)
        return out, 0


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Any:
    """Bind a gather; without a mode the indices are taken to be in bounds."""
    parsed = PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if parsed is GatherScatterMode.ONE_HOT:
        raise ValueError(
            "gather has no mode 'one_hot': take_along_axis does, or write the product of the "
            "operand with a one-hot matrix"
        )
    if not parsed.drops:
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill_value(typeof(operand).dtype)
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=tuple(slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=parsed,
        fill_value=fill_value,
    )


def default_fill_value(dtype: Any) -> Any:
    """What an out-of-bounds gather returns: the value that looks least like data."""
    if dtypes.issubdtype(dtype, dtypes.prng_key):
        return np.iinfo(np.uint32).max
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtypes.issubdtype(dtype, np.signedinteger):
        return int(dtypes.iinfo(dtype).min)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return int(dtypes.iinfo(dtype).max)
    if dtype == np.bool_:
        return True
    raise ValueError(f"gather has no default fill value for dtype {dtype}; give fill_value")


# --- parts of arrays that are divided along indexed dimensions ------------------------------------


def divides_indexed(single: Any, indexed: Any, dtype: Any) -> bool:
    """Whether an operand can be divided along indexed dimensions: windows are one element long
    there, and results of devices can be added."""
    plain = not dtypes.issubdtype(dtype, dtypes.prng_key) and dtype != np.bool_
    return plain and set(indexed) <= set(single)


def indexed_parts(part: Any, indexed: Any) -> list[int]:
    """The indexed dimensions that are divided and not taken whole."""
    f, one = part.factors, part.factors.names[0][0]
    return [d for d in indexed if one[d] == ("at", d) and part.count(f.ins[0][d]) > 1]


def places_in_part(part: Any, indices: Any, indexed: Any, x: Any, mode: Any) -> Any:
    """Indices into a device's part; which are inside of the whole, and which inside of the part."""
    whole = part.avals[0].shape
    count = len(indexed)
    shape = np.shape(indices)
    wide = converted(indices, np.dtype(np.int32))
    row = lambda values: broadcast_in_dim(np.asarray(values, np.int32), shape, (len(shape) - 1,))
    sizes = row([whole[d] for d in indexed])
    low, high = row([0] * count), sub_p.bind(sizes, row([1] * count))
    every = lambda m: lookup("reduce_and").bind(m, axes=(len(shape) - 1,), out_sharding=None)
    within = lambda at, size: every(and_(lookup("ge").bind(at, low), lookup("lt").bind(at, size)))
    inside = within(wide, sizes)
    if mode is CLIP or mode is PROMISE_IN_BOUNDS:
        wide = min_p.bind(max_p.bind(wide, low), high)
    starts = [
        part.start(part.factors.ins[0][d], np.shape(x)[d])
        if part.count(part.factors.ins[0][d]) > 1
        else np.int32(0)
        for d in indexed
    ]
    starts = [reshape(s, (1,)) for s in starts]
    first = starts[0] if count == 1 else lookup("concatenate").bind(*starts, dimension=0)
    local = sub_p.bind(wide, broadcast_in_dim(first, shape, (len(shape) - 1,)))
    mine = within(local, row([np.shape(x)[d] for d in indexed]))
    if mode.drops:
        mine = and_(mine, inside)
    # what is not in the part is dropped by scatters: it must not count from the end
    outside = broadcast_in_dim(mine, shape, tuple(range(len(shape) - 1)))
    return select_n(outside, sizes, local), inside, mine


# --- scatters -------------------------------------------------------------------------------------


class ScatterFamily(Primitive):
    """What all scatters share: shape, reference, batching.

    ``combine`` joins old values and updates in NumPy, ``operator`` is the primitive that does.
    """

    written = 2
    combine: Any = None
    operator: Any = None
    partial = False  # whether scatters of parts of the updates add up
    in_place = True

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        return avals[2].size

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        x, indices, updates = avals
        numbers = params["dimension_numbers"]
        window, inserted, indexed, batching, indices_batching = numbers
        given: list[Any] = [None] * len(x.shape)
        rows: list[Any] = [("i", d) for d in range(len(indices.shape) - 1)]
        sums = self.partial and x.dtype != np.bool_
        combine: dict[Any, str] = dict.fromkeys(rows, "add") if sums else {}
        if not sums:
            rows = [name if d in indices_batching else None for d, name in enumerate(rows)]
        for d, k in zip(batching, indices_batching, strict=True):
            given[d] = rows[k]
            combine.pop(rows[k], None)
        made: list[Any] = [None] * len(updates.shape)
        kept = [d for d in range(len(x.shape)) if d not in inserted and d not in batching]
        for at, d in zip(window, kept, strict=True):
            if updates.shape[at] == x.shape[d]:
                given[d] = made[at] = ("x", d)
        if divides_indexed(inserted, indexed, x.dtype):
            for d in indexed:
                given[d] = ("at", d)
        rest = iter(rows)
        windows = {name for name in made if name is not None}
        made = [name if d in window else next(rest) for d, name in enumerate(made)]
        asks = {*rows, *(("at", d) for d in indexed)} - {rows[k] for k in indices_batching}
        return labelled([given, [*rows, None], made], [given], avals, outs, combine, asks, windows)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """Updates outside of a device's part are dropped; of partial sums one device has the
        operand's values, and the others start from zeros."""
        x, indices, updates = args
        numbers = params["dimension_numbers"]
        indexed = numbers.scatter_dims_to_operand_dims
        if indexed_parts(part, indexed):
            indices, _, _ = places_in_part(part, indices, indexed, x, params["mode"])
            params = {**params, "mode": FILL_OR_DROP, "indices_are_sorted": False}
        partial = [a for a in part.factors.combine if part.count([a]) > 1]
        if partial:
            first = eq(part.index(partial), np.int32(0))
            x = select_n(first, filled(0, typeof(x)), x)
        return self.bind(x, indices, updates, **params)

    def shard(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        """As the operand, and batches as what divides them."""
        (found,) = super().shard(specs, avals, outs, params)
        return [tuple([own or axes for own, axes in zip(specs[0], found, strict=True)])]

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        f = self.factors(avals, outs, params)
        return divisions.described(self.name, f, specs, avals, outs)

    def shape(self, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **_: Any) -> Any:
        _check_indices(self.name, indices)
        check_same_dtype(self.name, x, updates)
        scatter_shape(x.shape, indices.shape, updates.shape, dimension_numbers)
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    def ref(
        self,
        x: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: Any,
        mode: GatherScatterMode,
        update_jaxpr: Any,
        update_consts: Any,
        **_: Any,
    ) -> Any:
        combine = self.combine
        if combine is None and update_jaxpr is not None:
            combine = _elementwise(update_jaxpr, update_consts)
        return scatter_reference(x, indices, updates, dimension_numbers, mode, combine)

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        jaxpr, consts = params["update_jaxpr"], params["update_consts"]
        if jaxpr is not None:
            one = [avals[0].update(shape=())]
            check_combination(f"the function of {self.name}", jaxpr, consts, one)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        """One window: the compiler updates it where it lies."""
        x, indices, updates = avals
        numbers = params["dimension_numbers"]
        if numbers.operand_batching_dims or 0 in (*updates.shape, *x.shape):
            return False
        if self.operator is None and params["update_jaxpr"] is not None:
            return False
        return prod(indices.shape[:-1]) == 1

    def decompose(
        self, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **_: Any
    ) -> Any:
        return update_window(x, indices, updates, dimension_numbers, mode, self.operator)

    def batch(
        self,
        axis: Any,
        args: Any,
        dims: Any,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> Any:
        (x, indices, updates), (x_dim, indices_dim, updates_dim) = args, dims
        x = at_front(x, x_dim, axis.size)
        updates = at_front(updates, updates_dim, axis.size)
        window, inserted, index_map, batching, indices_batching = dimension_numbers
        window, inserted, index_map, batching = map(_shift, (window, inserted, index_map, batching))
        if indices_dim is None:
            window = (0, *window)
        else:
            indices = moveaxis(indices, indices_dim, 0)
            batching, indices_batching = (0, *batching), (0, *_shift(indices_batching))
        numbers = ScatterDimensionNumbers(window, inserted, index_map, batching, indices_batching)
        return self.bind(x, indices, updates, dimension_numbers=numbers, **params), 0


class LinearScatter(ScatterFamily):
    """A scatter that is linear in operand and updates together."""

    partial = True

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        x, indices, updates = primals
        out = self.bind(x, indices, updates, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, Zero.from_primal(out)
        dx, dupdates = instantiate(tangents[0]), instantiate(tangents[2])
        return out, self.bind(dx, indices, dupdates, **params)

    def transpose(self, ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        ct_updates = None
        if is_undef(updates):
            numbers, mode = params["dimension_numbers"], params["mode"]
            ct_updates = self.cotangent(_windows(ct, indices, updates.aval, numbers, mode))
        return [ct if is_undef(x) else None, None, ct_updates]

    def cotangent(self, ct: Any) -> Any:
        """The cotangent of the updates, given the windows of the result's."""
        raise TypeError(f"{self.name} does not define its transpose")


class ScatterAdd(LinearScatter):
    """Adds updates to windows."""

    name = "scatter-add"
    overflows = "sums of updates"
    masks = "moved"
    kernels, neutral = "scatter.add", "scatter.add_in_turn"
    combine, operator = np.add, add_p

    def cotangent(self, ct: Any) -> Any:
        return ct

    def writes_cotangents(self, params: dict[str, Any]) -> bool:
        update = params["update_jaxpr"]
        if update is None:
            return False
        aval = update.invars[0].aval
        return update is _binary_jaxpr(self.operator, aval.dtype, aval.weak_type, True)


class ScatterSub(LinearScatter):
    """Subtracts updates from windows."""

    name = "scatter-sub"
    overflows = "sums of updates"
    kernels, neutral = "scatter.sub", "scatter.sub_in_turn"
    combine, operator = np.subtract, sub_p

    def cotangent(self, ct: Any) -> Any:
        return neg(ct)


class ScatterMul(ScatterFamily):
    """Multiplies windows by updates."""

    name = "scatter-mul"
    overflows = "sums of updates"
    kernels, neutral = "scatter.mul", "scatter.mul_in_turn"
    combine, operator = np.multiply, mul_p

    def d0(self, g: Any, out: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        return self.bind(g, indices, updates, **params)

    def d1(self, g: Any, out: Any, *primals: Any, **params: Any) -> Any:
        return Zero.from_primal(out)

    def d2(self, g: Any, out: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        _require_unique(self.name, params["unique_indices"])
        del params["update_jaxpr"], params["update_consts"]
        return mul(x, scatter_add(zeros(typeof(x)), indices, g, **params))

    def transpose(self, ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        ct_x = ct_updates = None
        if is_undef(x):
            own = _binary_jaxpr(self.operator, typeof(ct).dtype, False, True)
            ct_x = self.bind(ct, indices, updates, **(params | {"update_jaxpr": own}))
        if is_undef(updates):
            _require_unique(self.name, params["unique_indices"])
            product = mul(ct, x)
            numbers, mode = params["dimension_numbers"], params["mode"]
            ct_updates = _windows(product, indices, updates.aval, numbers, mode)
        return [ct_x, None, ct_updates]


class ScatterExtremum(ScatterFamily):
    """The smaller or the larger of windows and updates."""

    holes = {"transpose": "not linear; its jvp is made of gathers and scatter-adds"}
    exact = True

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        x, indices, updates = primals
        out = self.bind(x, indices, updates, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, Zero.from_primal(out)
        dx, dupdates = instantiate(tangents[0]), instantiate(tangents[2])
        numbers = params["dimension_numbers"]
        at = _Windows(indices, typeof(updates), numbers, params["mode"])
        keep, take = _extremum_weights(at, x, out, updates)
        change = add(mul(at.read(dx), keep), mul(dupdates, take))
        del params["update_jaxpr"], params["update_consts"]
        return out, scatter_add(dx, indices, change, **params)


class ScatterMin(ScatterExtremum):
    """The smaller of windows and updates."""

    name = "scatter-min"
    kernels, neutral = "scatter.least", "scatter.least_in_turn"
    combine, operator = np.minimum, min_p


class ScatterMax(ScatterExtremum):
    """The larger of windows and updates."""

    name = "scatter-max"
    kernels, neutral = "scatter.greatest", "scatter.greatest_in_turn"
    combine, operator = np.maximum, max_p


class Scatter(ScatterFamily):
    """Overwrites windows with updates, or applies ``update_jaxpr`` to old values and updates."""

    name, exact = "scatter", True
    kernels = "scatter.replaced"

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        if params["update_jaxpr"] is None:
            return super().expands(avals, params)
        some = all(0 not in a.shape for a in (avals[0], avals[2]))
        return some and not params["update_consts"] and avals[0].size <= MOST

    def decompose(self, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        if params["update_jaxpr"] is None:
            return super().decompose(x, indices, updates, **params)
        numbers, jaxpr = params["dimension_numbers"], params["update_jaxpr"]
        mode = params["mode"] if params["mode"] is CLIP or params["mode"].drops else FILL_OR_DROP
        shape = np.shape(x)
        places = reshape(iota(PLACE, (prod(shape),)), shape)
        sizes = window_sizes(len(shape), np.shape(updates), numbers)
        at = gather(places, indices, gather_numbers(numbers), sizes, mode=mode, fill_value=-1)
        function = lambda old, update: eval_jaxpr(jaxpr, (), old, update)[0]
        return update_in_turn(x, at, updates, function)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        if params["update_jaxpr"] is not None:
            raise NotImplementedError(
                "scatter_apply (x.at[...].apply) has no derivative; write "
                "x.at[idx].set(f(x[idx])) where the indices do not repeat"
            )
        x, indices, updates = primals
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            out = self.bind(x, indices, updates, **params)
            return out, Zero.from_primal(out)
        dx, dupdates = instantiate(tangents[0]), instantiate(tangents[2])
        if params["unique_indices"]:
            out = self.bind(x, indices, updates, **params)
            return out, self.bind(dx, indices, dupdates, **params)
        return self._overlapping_jvp(x, indices, updates, dx, dupdates, params)

    def _overlapping_jvp(
        self, x: Any, indices: Any, updates: Any, dx: Any, dupdates: Any, params: Any
    ) -> Any:
        # Which of several updates of one element stays is not specified, but tangents must
        # follow the same choice: number the updates from 1, scatter the numbers, and see
        # which ones stayed. Those are then added to an operand with a hole at their place.
        numbers = params["dimension_numbers"]
        ids = _update_ids(typeof(updates), numbers)
        id_type = ShapedArray(typeof(x).shape, typeof(ids).dtype)
        scattered = self.bind(filled(0, id_type), indices, ids, **params)
        stayed = _Windows(indices, typeof(updates), numbers).read(scattered)
        holed = _where(eq(scattered, filled(0, id_type)), x)
        chosen = _where(eq(ids, stayed), updates)
        holed_tangent = _where(eq(scattered, filled(0, id_type)), dx)
        chosen_tangent = _where(eq(ids, stayed), dupdates)
        del params["update_jaxpr"], params["update_consts"]
        out = scatter_add(holed, indices, chosen, **params)
        return out, scatter_add(holed_tangent, indices, chosen_tangent, **params)

    def transpose(self, ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        _require_unique(self.name, params["unique_indices"])
        type_ = updates.aval if is_undef(updates) else typeof(updates)
        ct_x = ct_updates = None
        if is_undef(x):
            nothing = filled(0, ShapedArray(type_.shape, typeof(ct).dtype))
            ct_x = self.bind(ct, indices, nothing, **params)
        if is_undef(updates):
            numbers, mode = params["dimension_numbers"], params["mode"]
            ct_updates = _windows(ct, indices, type_, numbers, mode)
        return [ct_x, None, ct_updates]


gather_p = Gather()
scatter_p = Scatter()
scatter_add_p = ScatterAdd()
scatter_sub_p = ScatterSub()
scatter_mul_p = ScatterMul()
scatter_min_p = ScatterMin()
scatter_max_p = ScatterMax()


def scatter(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    primitive: ScatterFamily = scatter_p,
    update_jaxpr: Jaxpr | None = None,
    update_consts: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Any:
    """Bind a scatter; without a mode, updates that are out of bounds are dropped."""
    return primitive.bind(
        operand,
        scatter_indices,
        updates,
        dimension_numbers=dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=update_jaxpr,
        update_consts=update_consts,
    )


def scatter_add(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: Any, **options: Any
) -> Any:
    """Bind a scatter that adds."""
    return combining_scatter(
        scatter_add_p, operand, scatter_indices, updates, dimension_numbers, **options
    )


def combining_scatter(
    primitive: ScatterFamily,
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    backward: bool = False,
    **options: Any,
) -> Any:
    """Bind a scatter that combines; its parameters hold the program of its operator."""
    aval = typeof(operand)
    return scatter(
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        primitive=primitive,
        update_jaxpr=_binary_jaxpr(primitive.operator, aval.dtype, aval.weak_type, backward),
        **options,
    )


@lru_cache(maxsize=1024)
def _binary_jaxpr(operator: Primitive, dtype: Any, weak_type: bool, backward: bool) -> Jaxpr:
    """The program of one binary primitive on scalars.

    One object for each set of arguments, because printing shows shared programs as shared:
    transposed scatters have one of their own.
    """
    aval = ShapedArray((), dtype, weak_type)
    x, y, out = Var(aval), Var(aval), Var(operator.shape(aval, aval))
    return Jaxpr((), (x, y), (out,), (JaxprEqn([x, y], [out], operator, {}),))


# --- what the rules share -------------------------------------------------------------------------


class _Windows:
    """The windows that a scatter writes, as something to read or to count in."""

    def __init__(
        self, indices: Any, updates: Any, numbers: ScatterDimensionNumbers, mode: Any = None
    ) -> None:
        self.indices = indices
        self.updates = updates
        self.numbers = numbers
        self.mode = mode

    def read(self, x: Any) -> Any:
        """The windows of ``x``, arranged like the updates; zero where these are dropped."""
        if self.mode is not None and self.mode.drops:
            return _windows(x, self.indices, self.updates, self.numbers, self.mode)
        sizes = window_sizes(len(typeof(x).shape), self.updates.shape, self.numbers)
        # Windows that are moved inside are read where they are.
        mode = CLIP if self.mode is CLIP else None
        return gather(x, self.indices, gather_numbers(self.numbers), sizes, mode=mode)

    def totals(self, target: Any, amounts: Any) -> Any:
        """For each element of the updates, the sum of the amounts that meet at its place."""
        sums = scatter_add(target, self.indices, amounts, self.numbers, mode=self.mode)
        return self.read(sums)


def _windows(x: Any, indices: Any, updates: Any, numbers: Any, mode: Any) -> Any:
    """The windows of ``x`` that updates of this type are written to; zero where dropped."""
    sizes = window_sizes(len(typeof(x).shape), updates.shape, numbers)
    return gather(x, indices, gather_numbers(numbers), sizes, mode=mode, fill_value=0)


def _extremum_weights(at: _Windows, x: Any, out: Any, updates: Any) -> tuple[Any, Any]:
    """Weights of the operand's and the updates' tangents in a scatter-min or scatter-max.

    All that reach the extremum share its tangent equally. The first weight is what is to be
    added to the operand's tangent, so it is the share less one, spread over the updates that
    meet there.
    """
    type_ = typeof(updates)
    one = scalar(type_.dtype, 1)
    some = filled(1, type_)  # not less than one: nothing meets where an update is dropped
    old, new = at.read(x), at.read(out)
    won, held = eq(updates, new), eq(old, new)
    winners = at.totals(zeros(typeof(x)), _where(won, some))
    rivals = max_p.bind(at.totals(zeros(typeof(x)), some), some)
    share = _select(held, div(one, add(winners, one)), div(one, max_p.bind(winners, some)))
    take = _where(won, share)
    kept = _where(held, div(one, add(winners, one)))
    return div(add(scalar(type_.dtype, -1), kept), rivals), take


def _update_ids(updates: Any, numbers: ScatterDimensionNumbers) -> Any:
    """The number, from 1, of the index vector that each element of the updates belongs to."""
    shape = tuple(
        1 if axis in numbers.update_window_dims else n for axis, n in enumerate(updates.shape)
    )
    count = prod(shape)
    dtype = np.dtype(np.uint64 if exceeds(count, 2**32 - 1) else np.uint32)
    ids = reshape(iota(dtype, (count,)), shape)
    return add(ids, filled(1, ShapedArray(updates.shape, dtype)))


def _elementwise(jaxpr: Jaxpr, consts: Any) -> Any:
    """A function of two vectors that applies a program of scalars to each pair of elements."""

    def combine(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        values = [np.asarray(c) for c in consts]
        results = [run(jaxpr, values, [np.asarray(x), np.asarray(y)])[0] for x, y in zip(old, new)]
        return np.array(results, old.dtype)

    return combine


def _select(which: Any, on_true: Any, on_false: Any) -> Any:
    return select_n(which, on_false, on_true)


def _where(which: Any, x: Any) -> Any:
    """``x`` where the predicate holds, else 0."""
    return _select(which, x, zeros(typeof(x)))


def _shift(dims: Any) -> Shape:
    return tuple(d + 1 for d in dims)


def _check_indices(name: str, indices: Any) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"{name} needs indices of an integer dtype, got {indices.str_short()}")


def check_same_dtype(name: str, x: Any, updates: Any) -> None:
    if x.dtype != updates.dtype:
        raise TypeError(
            f"{name} needs updates of the operand's dtype, got operand {x.str_short()} and "
            f"updates {updates.str_short()}: convert one with lax.convert_element_type"
        )


def _require_unique(name: str, unique_indices: bool) -> None:
    if not unique_indices:
        raise NotImplementedError(
            f"the derivative of {name} with respect to its updates needs indices that do not "
            "repeat: pass unique_indices=True"
        )
