"""Elements of gathered, sliced, joined and padded arrays: which operand they are read from, where.

Each is a generator ``rule(k, index, ins, outs, number, **params)`` that yields an operand's number
and an index and is sent the value there; ``number`` says which result is asked for. A joined array
yields `Within`, to be told between which of its seams the index lies.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Within
from weft.kernel.nodes import BOOL, I32, I64, U32, U64, Parts, Value, layout

Rule = Any


def _replaced(index: Any, axis: int, entry: Affine) -> Any:
    return (*index[:axis], entry, *index[axis + 1 :])


def _moved(entry: Affine, by: int) -> Affine:
    return entry.scaled(1, by)


# --- joined arrays --------------------------------------------------------------------------------


def concatenate(
    k: Builder, index: Any, ins: Any, outs: Any, number: int, *, dimension: int
) -> Rule:
    """The operand between whose seams an index lies."""
    ends = list(accumulate(x.shape[dimension] for x in ins))
    entry, several = index[dimension], [i for i, x in enumerate(ins) if x.shape[dimension]]
    side = yield Within(entry, tuple(ends[:-1]), len(several) == 2, True)
    if side is None:  # as a roll is: the element of one, where the index lies in it, or the other's
        first, second = several
        size = ins[first].shape[dimension]
        place, inside = clamped(k, k.position(entry), size - 1)
        one = yield first, _replaced(index, dimension, k.place(place, size))
        size = ins[second].shape[dimension]
        start = ends[second] - size
        place, _ = clamped(k, k.position(_moved(entry, -start)), size - 1)
        other = yield second, _replaced(index, dimension, k.place(place, size))
        return k.select(inside, one, other)
    start = ends[side] - ins[side].shape[dimension]
    return (yield side, _replaced(index, dimension, _moved(entry, -start)))


def stack(k: Builder, index: Any, ins: Any, outs: Any, number: int, *, axis: int) -> Rule:
    """The operand whose number is the index along an axis."""
    side = yield Within(index[axis], tuple(range(1, len(ins))))
    return (yield side, (*index[:axis], *index[axis + 1 :]))


def split(
    k: Builder, index: Any, ins: Any, outs: Any, number: int, *, sizes: Any, axis: int
) -> Rule:
    """An element of a piece."""
    return (yield 0, _replaced(index, axis, _moved(index[axis], sum(sizes[:number]))))


def unstack(k: Builder, index: Any, ins: Any, outs: Any, number: int, *, axis: int) -> Rule:
    """An element of a slice."""
    return (yield 0, (*index[:axis], k.fixed(number), *index[axis:]))


def pad(k: Builder, index: Any, ins: Any, outs: Any, number: int, *, padding_config: Any) -> Rule:
    """An element of the operand, or the padding value around and between."""
    inside = None
    at = []
    for axis, (low, _, interior) in enumerate(padding_config):
        size, entry = ins[0].shape[axis], _moved(index[axis], -low)
        reach = (size - 1) * (interior + 1) + 1 if size else 0
        side = yield Within(entry, (0, reach), reach > 0)
        if side is None:
            place, test = clamped(k, k.position(entry), reach - 1)
            inside = test if inside is None else k.and_(inside, test)
            entry = k.place(place, reach)
        elif side != 1:
            return (yield 1, ())
        if interior:
            entry, test = _between(k, entry, interior + 1, size)
            inside = test if inside is None else k.and_(inside, test)
        at.append(entry)
    value = yield 0, tuple(at)
    if inside is None:
        return value
    return k.select(inside, value, (yield 1, ()))


def _between(k: Builder, entry: Affine, step: int, size: int) -> tuple[Affine, Value]:
    """The position before elements were spread apart, and whether there is one."""
    if all(factor % step == 0 for _, factor in entry.terms):
        terms = tuple((axis, factor // step) for axis, factor in entry.terms)
        fits = k.const(entry.const % step == 0, BOOL)
        return Affine(entry.const // step, terms), fits
    dtype = I32 if size * step < 1 << 31 else I64
    position = k.position(entry, dtype)
    place = k.div(position, k.const(step, dtype))
    fits = k.eq(k.mul(place, k.const(step, dtype)), position)
    return k.place(place, size), fits


def tile(k: Builder, index: Any, ins: Any, outs: Any, number: int, *, reps: Any) -> Rule:
    """An element of the copy in which an index lies."""
    at = []
    for entry, size, count in zip(index, ins[0].shape, reps, strict=True):
        side = yield Within(entry, tuple(size * i for i in range(1, count)))
        at.append(_moved(entry, -side * size))
    return (yield 0, tuple(at))


def empty(k: Builder, index: Any, ins: Any, outs: Any, number: int, **_: Any) -> Rule:
    """Zero, for an array whose values are not set."""
    yield from ()
    return filling(k, 0, outs[0].dtype)


# --- places from data -----------------------------------------------------------------------------


def clamped(k: Builder, start: Value, most: int) -> tuple[Value, Value]:
    """An index that is at least 0 and at most ``most``, and whether it was so before.

    It is a signed integer of 32 bits where those are enough: a register holds more of them.
    """
    if start.op == "const":
        number = int(np.frombuffer(start.attr, start.dtype)[0])
        inside = min(max(0, number), most)
        return k.const(inside, I64), k.const(inside == number, BOOL)
    if start.dtype == U64:
        start = k.min(start, k.const(np.uint64(2**63 - 1), U64))
    if start.dtype == U32 and most < 1 << 31:
        place = k.min(start, k.const(most, U32))
        return k.bitcast(place, I32), k.eq(place, start)
    wanted = k.cast(start, I32 if start.dtype.itemsize <= 4 and start.dtype != U32 else I64)
    most = min(most, np.iinfo(wanted.dtype).max)
    place = k.max(k.min(wanted, k.like(wanted, most)), k.like(wanted, 0))
    return place, k.eq(place, wanted)


def box_at(k: Builder, index: Any, starts: Any, shape: Any, sizes: Any) -> Any:
    """The index into an array of an index into a box of it, which is moved inside."""
    at = []
    for entry, start, extent, size in zip(index, starts, shape, sizes, strict=True):
        place, _ = clamped(k, start, extent - size)
        at.append(entry.plus(k.place(place, extent - size + 1)))
    return tuple(at)


def dynamic_slice(
    k: Builder, index: Any, ins: Any, outs: Any, number: int, *, slice_sizes: Any
) -> Rule:
    """An element of a box at a place that comes from data."""
    starts = []
    for i in range(1, len(ins)):
        starts.append((yield i, ()))
    return (yield 0, box_at(k, index, starts, ins[0].shape, slice_sizes))


def gather(
    k: Builder,
    index: Any,
    ins: Any,
    outs: Any,
    number: int,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    fill_value: Any,
    **_: Any,
) -> Rule:
    """An element of the window that an index vector selects."""
    offset, collapsed, index_map, batching, indices_batching = dimension_numbers
    shape, ndim = ins[0].shape, len(ins[0].shape)
    batch = [entry for i, entry in enumerate(index) if i not in offset]
    window = iter([index[i] for i in offset])
    absent = (*collapsed, *batching)
    at = [k.fixed(0) if axis in absent else next(window) for axis in range(ndim)]
    for axis, other in zip(batching, indices_batching, strict=True):
        at[axis] = batch[other]
    inside = None
    for i, axis in enumerate(index_map):
        most = max(shape[axis] - slice_sizes[axis], 0)
        start, test = clamped(k, (yield 1, (*batch, k.fixed(i))), most)
        at[axis] = at[axis].plus(k.place(start, most + 1))
        inside = test if inside is None else k.and_(inside, test)
    value = yield 0, tuple(at)
    if not mode.drops or inside is None:
        return value
    return k.select(inside, value, filling(k, fill_value, ins[0].dtype))


def added_at(
    k: Builder, index: Any, ins: Any, *, dimension_numbers: Any, mode: Any, **_: Any
) -> Rule:
    """Where an element of the updates of a scatter belongs, and whether it counts, or None."""
    window, inserted, index_map, batching, indices_batching = dimension_numbers
    shape, updates, ndim = ins[0].shape, ins[2].shape, len(ins[0].shape)
    batch = [entry for i, entry in enumerate(index) if i not in window]
    absent = (*inserted, *batching)
    inside = iter(window)
    along = [None if axis in absent else next(inside) for axis in range(ndim)]
    at = [k.fixed(0) if i is None else index[i] for i in along]
    for axis, other in zip(batching, indices_batching, strict=True):
        at[axis] = batch[other]
    counts = None
    for i, axis in enumerate(index_map):
        size = 1 if along[axis] is None else updates[along[axis]]
        most = max(shape[axis] - size, 0)
        start, test = clamped(k, (yield 1, (*batch, k.fixed(i))), most)
        at[axis] = at[axis].plus(k.place(start, most + 1))
        counts = test if counts is None else k.and_(counts, test)
    return tuple(at), counts if mode.name != "CLIP" else None


def filling(k: Builder, value: Any, dtype: Any) -> Any:
    """The element that stands for what is out of bounds."""
    part, n = layout(dtype)
    if n == 1:
        return k.const(np.asarray(value).astype(dtype).view(part), part)
    if getattr(dtype, "kind", "") == "c":
        return Parts(
            dtype, tuple(k.const(v, part) for v in np.asarray(value, dtype).reshape(1).view(part))
        )
    return Parts(dtype, tuple(k.const(value, part) for _ in range(n)))
