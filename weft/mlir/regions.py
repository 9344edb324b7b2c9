"""Readers of operations whose region combines or compares numbers."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import lax
from weft.api.batching import vmap
from weft.control.reductions import select_and_scatter_p
from weft.core.avals import ShapedArray
from weft.core.staging import stage
from weft.mlir.attributes import integers
from weft.mlir.elementwise import is_float, total_order
from weft.mlir.errors import Unread
from weft.mlir.patterns import (
    comparator,
    expressions,
    extremum,
    log_add,
    monoid,
    returns_argument,
)
from weft.mlir.reading import Reading, Scope, reader
from weft.mlir.structure import given_or, index_rows, pairs
from weft.mlir.tree import Block, Operation
from weft.prims.reduce import max_identity, min_identity
from weft.prims.window import select_and_scatter_add_p

FUNCTIONS = {
    "add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor,
}  # fmt: skip
REDUCTIONS = {
    "add": lax.reduce_sum, "mul": lax.reduce_prod, "max": lax.reduce_max, "min": lax.reduce_min,
    "and": lax.reduce_and, "or": lax.reduce_or, "xor": lax.reduce_xor,
}  # fmt: skip
CUMULATIVE = {
    "add": lax.cumsum, "mul": lax.cumprod, "max": lax.cummax, "min": lax.cummin,
}  # fmt: skip
MAX_COMPARED = 2048  # numbers that are sorted by a comparator of an unknown form


def _halves(op: Operation, ins: list[Any]) -> tuple[list[Any], list[Any]]:
    """Arrays, and the numbers that their reductions begin with."""
    half = len(ins) // 2
    if not ins or len(ins) % 2:
        raise Unread("it takes as many initial values as arrays")
    return ins[:half], ins[half:]


def _is_identity(name: str, init: Any) -> bool:
    """Whether a known number leaves an operation's other operand as it is."""
    if not isinstance(init, np.ndarray):
        return False
    dtype = init.dtype
    whole = np.asarray(True) if dtype == np.bool_ else np.asarray(-1).astype(dtype)
    expected: Any = {
        "add": 0, "mul": 1, "or": 0, "xor": 0, "and": whole,
        "max": max_identity(dtype) if name == "max" else 0,
        "min": min_identity(dtype) if name == "min" else 0,
    }[name]  # fmt: skip
    return bool(np.asarray(init == np.asarray(expected).astype(dtype)).all())


def _region(r: Reading, op: Operation, scope: Scope, index: int = 0) -> tuple[Block, Any]:
    if len(op.regions) <= index:
        raise Unread(f"it has {len(op.regions)} regions")
    return op.regions[index], r.region(op.regions[index], scope)


# --- reductions -----------------------------------------------------------------------------------


@reader("reduce")
def _reduce(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    arrays, inits = _halves(op, ins)
    axes = integers(op.attributes["dimensions"], "dimensions")
    block, body = _region(r, op, scope)
    name = monoid(block)
    if name is not None and len(arrays) == 1:
        found = REDUCTIONS[name](arrays[0], axes)
        if _is_identity(name, inits[0]):
            return found
        start = lax.broadcast_in_dim(inits[0], np.shape(found), ())
        return FUNCTIONS[name](start, found)
    both = _position(op, arrays, axes, scope)
    if both is not None:
        return both
    count = len(arrays)
    fold = lambda x, y: tuple(body(*_flat(x, count), *_flat(y, count)))
    return lax.reduce(tuple(arrays), tuple(inits), fold, axes)


def _flat(x: Any, count: int) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def _position(op: Operation, arrays: list[Any], axes: Any, scope: Scope) -> list[Any] | None:
    """The extremum along one axis and its place, where a region finds just these."""
    if len(arrays) != 2 or len(axes) != 1 or arrays[1].dtype.kind not in "iu":
        return None
    name, maker = extremum(op.regions[0]), scope.maker(op.operands[1])
    if name is None or maker is None or not maker.name.endswith("iota"):
        return None
    if maker.attributes.get("iota_dimension") != axes[0]:
        return None
    x = arrays[0]
    which = lax.argmax if name == "argmax" else lax.argmin
    best = lax.reduce_max if name == "argmax" else lax.reduce_min
    return [best(x, axes), which(x, axes[0], arrays[1].dtype)]


@reader("reduce_window")
def _reduce_window(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    arrays, inits = _halves(op, ins)
    block, body = _region(r, op, scope)
    window = integers(op.attributes["window_dimensions"], "window_dimensions")
    ones = (1,) * len(window)
    strides = given_or(op, "window_strides", ones)
    base, holes = given_or(op, "base_dilations", ones), given_or(op, "window_dilations", ones)
    pads = pairs(op, "padding", len(window))
    return reduced_windows(block, body, arrays, inits, (window, strides, pads, base, holes))


def reduced_windows(block: Block, body: Any, arrays: Any, inits: Any, given: Any) -> Any:
    """The reduction of windows by a region; ``given`` is as ``lax.reduce_window`` takes it."""
    window, strides, pads, base, holes = given
    ones = (1,) * len(window)
    name = monoid(block)
    if (strides, base, holes) == (ones, ones, ones) and len(arrays) == 1:
        found = _cumulative(arrays[0], inits[0], name, block, window, pads)
        if found is not None:
            return found
    if name is not None and len(arrays) == 1:
        return lax.reduce_window(arrays[0], inits[0], FUNCTIONS[name], *given)
    count = len(arrays)
    fold = lambda x, y: tuple(body(*_flat(x, count), *_flat(y, count)))
    return lax.reduce_window(tuple(arrays), tuple(inits), fold, *given)


def _cumulative(x: Any, init: Any, name: Any, block: Block, window: Any, pads: Any) -> Any:
    """Sums and their kin from the start, where windows are that; None where they are not."""
    wide = [axis for axis, n in enumerate(window) if n != 1]
    if len(wide) != 1 or len(window) != np.ndim(x):
        return None
    (axis,) = wide
    if window[axis] != np.shape(x)[axis]:
        return None
    plain = [pad for i, pad in enumerate(pads) if i != axis]
    reach = window[axis] - 1
    if any(pad != (0, 0) for pad in plain) or pads[axis] not in ((reach, 0), (0, reach)):
        return None
    is_reverse = pads[axis] == (0, reach)
    if name in CUMULATIVE and _is_identity(name, init):
        return CUMULATIVE[name](x, axis, reverse=is_reverse)
    if name is None and _is_identity("max", init) and expressions(block) == [log_add(x.dtype)]:
        return lax.cumlogsumexp(x, axis, reverse=is_reverse)
    return None


_SELECTIONS = {"GE": lax.ge_p, "LE": lax.le_p}


@reader("select_and_scatter")
def _select_and_scatter(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    x, source, init = ins
    ones = (1,) * np.ndim(x)
    window = {
        "window_dimensions": given_or(op, "window_dimensions", ones),
        "window_strides": given_or(op, "window_strides", ones),
        "padding": tuple(pairs(op, "padding", np.ndim(x))),
    }
    (select, selects), (combine, combines) = _region(r, op, scope), _region(r, op, scope, 1)
    chosen = expressions(select)
    direction = chosen[0][0] if chosen and chosen[0][2:] == (("arg", 0), ("arg", 1)) else None
    if direction in _SELECTIONS and monoid(combine) == "add" and _is_identity("add", init):
        prim = _SELECTIONS[direction]
        return select_and_scatter_add_p.bind(source, x, select_prim=prim, **window)
    one = [ShapedArray((), x.dtype)] * 2
    parts = [stage(fun, one) for fun in (selects, combines)]
    return select_and_scatter_p.bind(
        x,
        source,
        init,
        select_jaxpr=parts[0].jaxpr,
        select_consts=tuple(parts[0].consts),
        scatter_jaxpr=parts[1].jaxpr,
        scatter_consts=tuple(parts[1].consts),
        **window,
    )


@reader("map")
def _map(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    _, body = _region(r, op, scope)
    fun: Any = lambda *xs: body(*xs)[0]
    for _ in np.shape(ins[0]):
        fun = vmap(fun)
    return fun(*ins)


# --- sorting --------------------------------------------------------------------------------------


@reader("sort")
def _sort(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    if not ins:
        raise Unread("it sorts one array or more")
    block, body = _region(r, op, scope)
    axis = int(op.attributes.get("dimension", -1))
    is_stable = bool(op.attributes.get("is_stable", False))
    keys = comparator(block)
    if keys is None:
        return _sorted_by(body, ins, axis)
    if any(key.operand >= len(ins) for key in keys):
        raise Unread("its region takes two numbers of each array")
    plain = [(i, "") for i in range(len(keys))]
    own = [(key.operand, key.part) for key in keys]
    ascends = not any(key.descends or key.order == "total" for key in keys)
    if ascends and own in (plain, [(0, "real"), (0, "imag")]):
        count = len(keys) if own == plain else 1
        return lax.sort(tuple(ins), axis, is_stable, num_keys=count)
    derived = [_key(key, ins[key.operand]) for key in keys]
    return lax.sort((*derived, *ins), axis, is_stable, num_keys=len(keys))[len(keys) :]


def _key(key: Any, x: Any) -> Any:
    """Numbers in whose order an array is to be."""
    if key.part:
        x = lax.real(x) if key.part == "real" else lax.imag(x)
    if key.order == "total" and is_float(x.dtype):
        x = total_order(x)
    if not key.descends:
        return x
    return lax.neg(x) if is_float(x.dtype) else lax.bitwise_not(x)


def _sorted_by(body: Any, ins: list[Any], axis: int) -> list[Any]:
    """Arrays in the order of any comparator: each number's place is how many come before it."""
    axis = axis % np.ndim(ins[0])
    size = np.shape(ins[0])[axis]
    if size > MAX_COMPARED:
        raise Unread(f"weft sorts up to {MAX_COMPARED} numbers by a comparator of this form")
    last = np.ndim(ins[0]) - 1
    order = [*[i for i in range(last + 1) if i != axis], axis]
    rows = [lax.reshape(lax.transpose(x, order), (x.size // max(size, 1), size)) for x in ins]

    def one(*row: Any) -> list[Any]:
        less = lambda i, j: body(*[v for x in row for v in (x[i], x[j])])[0]
        numbers = lax.iota(np.int32, size)
        table = vmap(lambda i: vmap(lambda j: less(i, j))(numbers))(numbers)
        ties = lax.bitwise_and(
            lax.bitwise_not(table), lax.bitwise_not(lax.transpose(table, (1, 0)))
        )
        earlier = lax.lt(
            lax.broadcast_in_dim(numbers, (size, size), (0,)),
            lax.broadcast_in_dim(numbers, (size, size), (1,)),
        )
        before = lax.bitwise_or(table, lax.bitwise_and(ties, earlier))
        place = lax.reduce_sum(lax.convert_element_type(before, np.int32), (0,))
        return list(lax.sort((place, *row), num_keys=1))[1:]

    found = vmap(one)(*rows)
    back = [order.index(i) for i in range(last + 1)]
    shape = [np.shape(ins[0])[i] for i in order]
    return [lax.transpose(lax.reshape(x, shape), back) for x in found]


# --- scatter --------------------------------------------------------------------------------------

SCATTERS: dict[str, Any] = {
    "add": lax.scatter_add, "mul": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min,
}  # fmt: skip


@reader("scatter")
def _scatter(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    count = (len(ins) - 1) // 2
    if count < 1 or len(ins) != 2 * count + 1:
        raise Unread("it takes arrays, indices, and an update for each array")
    arrays, indices, updates = ins[:count], ins[count], ins[count + 1 :]
    d = op.attributes["scatter_dimension_numbers"]
    at = lambda name: integers(d.get(name, []), name)
    batching = at("scatter_indices_batching_dims")
    rows, batching = index_rows(indices, int(d.get("index_vector_dim", 0)), batching)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=at("update_window_dims"),
        inserted_window_dims=at("inserted_window_dims"),
        scatter_dims_to_operand_dims=at("scatter_dims_to_operand_dims"),
        operand_batching_dims=at("input_batching_dims"),
        scatter_indices_batching_dims=batching,
    )
    given: dict[str, Any] = {
        "indices_are_sorted": bool(op.attributes.get("indices_are_sorted", False)),
        "unique_indices": bool(op.attributes.get("unique_indices", False)),
        "mode": lax.GatherScatterMode.FILL_OR_DROP,
    }
    block, body = _region(r, op, scope)
    if count == 1:
        if returns_argument(block) == 1:
            return lax.scatter(arrays[0], rows, updates[0], numbers, **given)
        name = monoid(block)
        if name in SCATTERS:
            return SCATTERS[name](arrays[0], rows, updates[0], numbers, **given)
        if expressions(block) == [("subtract", ("arg", 0), ("arg", 1))]:
            return lax.scatter_sub(arrays[0], rows, updates[0], numbers, **given)
    return _in_turn(arrays, rows, updates, numbers, body)


def _in_turn(arrays: list[Any], rows: Any, updates: list[Any], d: Any, body: Any) -> list[Any]:
    """A scatter by any function: one update after the other."""
    shape = np.shape(updates[0])
    places = [i for i in range(len(shape)) if i not in d.update_window_dims]
    outer = [shape[i] for i in places]
    total = prod(outer)
    order = [*places, *d.update_window_dims]
    inner = [shape[i] for i in d.update_window_dims]
    flat = [lax.reshape(lax.transpose(u, order), (total, *inner)) for u in updates]
    linear = prod(np.shape(arrays[0]))
    count = lax.iota(np.int64 if linear >> 31 else np.int32, linear)
    positions = lax.reshape(count, np.shape(arrays[0]))
    whole = lax.GatherDimensionNumbers(
        offset_dims=d.update_window_dims,
        collapsed_slice_dims=d.inserted_window_dims,
        start_index_map=d.scatter_dims_to_operand_dims,
        operand_batching_dims=d.operand_batching_dims,
        start_indices_batching_dims=d.scatter_indices_batching_dims,
    )
    windows = iter(inner)
    skipped = {*d.inserted_window_dims, *d.operand_batching_dims}
    sizes = [1 if i in skipped else next(windows) for i in range(np.ndim(arrays[0]))]
    mode = lax.GatherScatterMode.FILL_OR_DROP
    targets = lax.gather(positions, rows, whole, sizes, mode=mode, fill_value=-1)
    targets = lax.reshape(lax.transpose(targets, order), (total, prod(inner)))
    values = [lax.reshape(u, (total, prod(inner))) for u in flat]

    def step(i: Any, state: Any) -> Any:
        at = lax.dynamic_index_in_dim(targets, i, 0, keepdims=False)
        inside = lax.ge(at, lax.full_like(at, 0))
        safe = lax.max(at, lax.full_like(at, 0))
        old = [x[safe] for x in state]
        new = [lax.dynamic_index_in_dim(v, i, 0, keepdims=False) for v in values]
        made = vmap(lambda *xs: body(*xs))(*old, *new)
        where = lax.select(inside, at, lax.full_like(at, linear))
        return [x.at[where].set(y, mode="drop") for x, y in zip(state, made, strict=True)]

    state = [lax.reshape(x, (linear,)) for x in arrays]
    found = lax.fori_loop(0, total, step, state)
    return [lax.reshape(x, np.shape(y)) for x, y in zip(found, arrays, strict=True)]
