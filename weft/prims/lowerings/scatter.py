"""Scatters: updates combined with what lies at their places, by atomics or in turn."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Atomic, Buffer, Kernel, Store, affine
from weft.kernel.lowering import (
    Lowering,
    buffer_of,
    nested,
    ravelled,
    read,
    scalar_of,
    unravelled,
)
from weft.kernel.nodes import BOOL, F32, F64, I64, Value, layout
from weft.kernel.program import Type, contiguous
from weft.prims.families import INTEGER, converted, kind_of
from weft.prims.in_turn import PLACE, update_in_turn
from weft.prims.index import gather
from weft.prims.index_dims import GatherScatterMode, gather_numbers, window_sizes
from weft.prims.shape import iota, reshape

CLIP, FILL_OR_DROP = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
# Unsigned numbers of 64 bits and more: clamped like signed ones after this.
_HIGHEST = 2**63 - 1


class _Places:
    """Where each update belongs: its position in the flat operand, and whether it counts."""

    def __init__(self, k: Builder, ins: list[Type], params: dict[str, Any]) -> None:
        x, _, updates = ins
        numbers = params["dimension_numbers"]
        self.k, self.ins, self.numbers, self.mode = k, ins, numbers, params["mode"]
        self.sizes = window_sizes(len(x.shape), updates.shape, numbers)
        window = numbers.update_window_dims
        self.batch = [i for i in range(len(updates.shape)) if i not in window]
        # updates are counted batch by batch, which is the order in which they come
        self.order = [*self.batch, *window]
        self.extents = [updates.shape[i] for i in self.order]
        strides = contiguous(updates.shape)
        self.strides = [strides[i] for i in self.order]

    def of(self, at: list[Value]) -> tuple[Value, Value | None]:
        """The place of the update at a position along each of its axes, in their order."""
        k, (x, indices, _) = self.k, self.ins
        strides = contiguous(x.shape)
        batch, window = at[: len(self.batch)], iter(at[len(self.batch) :])
        numbers = gather_numbers(self.numbers)
        absent = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        zero = k.const(0, I64)
        position = [zero if axis in absent else next(window) for axis in range(len(x.shape))]
        pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
        for axis, other in pairs:
            position[axis] = batch[other]
        inside: Value | None = None
        row = ravelled(k, batch, contiguous(indices.shape)[:-1])
        size = prod(indices.shape)
        for i, axis in enumerate(numbers.start_index_map):
            own = k.add(row, k.const(i, I64)) if i else row
            start = read(k, 1, indices.dtype, own, size)
            if start.dtype == np.uint64:
                start = k.min(start, k.const(_HIGHEST, start.dtype))
            start = k.cast(start, I64)
            most = k.const(max(x.shape[axis] - self.sizes[axis], 0), I64)
            clamped = k.max(k.min(start, most), zero)
            test = k.eq(clamped, start)
            inside = test if inside is None else k.and_(inside, test)
            moved = position[axis] is not zero
            position[axis] = k.add(position[axis], clamped) if moved else clamped
        return ravelled(k, position, strides), None if self.mode is CLIP else inside


def _copied(x: Type) -> tuple[Kernel, tuple[int, ...]]:
    """The operand, where the result belongs."""
    k, given = Builder(), buffer_of(x, "in")
    at = affine(0, {"i": 1})
    body = [Store(1, at, k.load(0, given.dtype, at))]
    return Kernel("copy", [given, given._replace(role="out")], ("i", given.size), body), (0, 3)


def combined(ins: list[Type], outs: list[Type], params: dict[str, Any], op: str) -> Lowering | None:
    """Updates added to what is there, multiplied with it, or the lesser or greater of both."""
    x, _, updates = ins
    part, n = layout(x.dtype)
    # those that atomics of every device combine, complex numbers by their parts
    whole = part in (F32, F64) or (part.kind in "iu" and part.itemsize >= 4)
    if not whole or kind_of(x.dtype) == 0 or (n > 1 and op not in ("add", "sub")):
        return None
    if getattr(x.dtype, "physical_dtype", None) is not None:
        return None
    k = Builder()
    places = _Places(k, ins, params)
    at = [k.index(f"u{i}") for i in range(len(places.order))]
    place, inside = places.of(at)
    size, count = prod(x.shape), prod(updates.shape)
    body: list[Any] = []
    for i in range(n):
        own = {f"u{j}": s * n for j, s in enumerate(places.strides)}
        value = k.load(2, part, affine(i, own))
        if op == "sub":
            value = k.neg(value)
        offset = scalar_of(k, place, n, i)
        reach = (0, n * size - 1)
        rule = "add" if op == "sub" else op
        body.append(Atomic(3, Affine(), rule, value, offset, reach, inside))
    buffers = [buffer_of(t, "in") for t in ins] + [buffer_of(outs[0], "out")]
    kernels = [_copied(x)]
    if count:
        axes = [(f"u{j}", e) for j, e in enumerate(places.extents)]
        kernels.append((nested("scatter", buffers, axes, body), (0, 1, 2, 3)))
    return Lowering(kernels)


def _combining(operation: str) -> Any:
    return lambda ins, outs, params: combined(ins, outs, params, operation)


add, sub, mul, least, greatest = map(_combining, ("add", "sub", "mul", "min", "max"))


def replaced(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    """Updates in place of what is there: the last of those for a place, which is found first."""
    x, _, updates = ins
    if params["update_jaxpr"] is not None:
        return None
    part, n = layout(x.dtype)
    size, count = prod(x.shape), prod(updates.shape)
    if not count:
        return Lowering([_copied(x)])
    last = Buffer(np.dtype(np.int64), size, "out")
    k = Builder()
    none = Kernel("none", [last], ("i", size), [Store(0, affine(0, {"i": 1}), k.const(-1, I64))])
    k = Builder()
    places = _Places(k, ins, params)
    at = [k.index(f"u{i}") for i in range(len(places.order))]
    place, inside = places.of(at)
    number = ravelled(k, at, contiguous(places.extents))
    body: list[Any] = [Atomic(3, Affine(), "max", number, place, (0, size - 1), inside)]
    axes = [(f"u{j}", e) for j, e in enumerate(places.extents)]
    buffers = [buffer_of(t, "in") for t in ins] + [last]
    find = nested("last", buffers, axes, body)
    k = Builder()
    strides = _Places(k, ins, params).strides
    won = k.load(2, I64, affine(0, {"i": 1}))
    update = ravelled(k, unravelled(k, won, places.extents), strides)
    body = []
    for j in range(n):
        own, here = affine(j, {"i": n}), scalar_of(k, update, n, j)
        new = read(k, 1, part, here, n * count)
        value = k.select(k.ge(won, k.const(0, I64)), new, k.load(0, part, own))
        body.append(Store(3, own, value))
    given = [buffer_of(x, "in"), buffer_of(updates, "in"), last._replace(role="in")]
    take = Kernel("take", [*given, buffer_of(outs[0], "out")], ("i", size), body)
    steps = [(none, (4,)), (find, (0, 1, 2, 4)), (take, (0, 2, 4, 3))]
    return Lowering(steps, (), (last,))


def in_turn(x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    """Updates of narrow integers as wider ones, of other dtypes that no atomic combines one after
    the other."""
    numbers = params["dimension_numbers"]
    mode = params["mode"] if params["mode"] is CLIP or params["mode"].drops else FILL_OR_DROP
    shape, dtype = np.shape(x), typeof(x).dtype
    if dtype == BOOL or kind_of(dtype) & INTEGER:
        wide = [converted(v, np.dtype(np.int32)) for v in (x, updates)]
        name = f"scatter-{params.pop('operator')}"
        return converted(lookup(name).bind(wide[0], indices, wide[1], **params), dtype)
    places = reshape(iota(PLACE, (prod(shape),)), shape)
    sizes = window_sizes(len(shape), np.shape(updates), numbers)
    at = gather(places, indices, gather_numbers(numbers), sizes, mode=mode, fill_value=-1)
    operator = lookup(params["operator"])
    return update_in_turn(x, at, updates, lambda old, new: operator.bind(old, new))


def _by(operator: str) -> Any:
    def lower(*args: Any, **params: Any) -> Any:
        return in_turn(*args, operator=operator, **params)

    return lower


add_in_turn, sub_in_turn, mul_in_turn = _by("add"), _by("sub"), _by("mul")
least_in_turn, greatest_in_turn = _by("min"), _by("max")
