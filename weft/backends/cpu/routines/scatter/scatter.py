"""Scatters: windows of a copy written, added or otherwise combined at computed places.

The result is the same whoever computes it. Updates of a small array are worked off in pieces, each
into an array of its own, which are combined at the end. Those of a large one are dealt into
buckets by where they go, each bucket in their order, and a bucket is worked off by one thread: its
part of the array stays in the cache. Parts of the array that no index moves anything between are
worked off for themselves. If most go into one bucket, as a look at some of them shows, they are
worked off in a row. Where the user says that no two meet, they go straight there.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.scatter import scatter_stubs as stubs
from weft.backends.cpu.routines.scatter import scatter_text
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.base.record import Record
from weft.base.sizes import at_most, plain
from weft.kernel.kinds import Kind, kind_of, u8, u16, u32, u64
from weft.kernel.nodes import BF16, F16, NARROW
from weft.kernel.program import Type, contiguous

# Elements below which updates are worked off in a row; index vectors of one unit of dealing out.
MIN_SHARED_ELEMENTS, UNIT_INDICES = 1 << 14, 1 << 14
# Bytes of the array that a bucket stands for, and how many buckets there are at most.
PART, BUCKETS = 1 << 17, 256
# Bytes up to which an array is small, and how many pieces its updates come in at most.
MAX_COPIED_BYTES, MAX_PIECES = 1 << 21, 8
# Parts of an array from which on they are worked off one by one.
SLABS = 8
# Updates from which on it is worth a look whether most of them go to one part of the array, and
# how many there are at least for each element of a small array.
MIN_SKEW_UPDATES, UPDATES_PER_ELEMENT = 1 << 16, 4
_COMPLEX = frozenset([np.dtype(np.complex64), np.dtype(np.complex128)])
_UNSIGNED = {1: u8, 2: u16, 4: u32, 8: u64}
_OPS = {
    "scatter": stubs.SET,
    "scatter-add": stubs.ADD,
    "scatter-sub": stubs.SUB,
    "scatter-mul": stubs.MUL,
    "scatter-min": stubs.MIN,
    "scatter-max": stubs.MAX,
}


class Shape(Record):
    """A scatter in numbers: what the stubs are told of it, and what decides how it is run."""

    names: dict[str, Any]
    count: int  # type: ignore[assignment]  # a field, not the method of tuples
    elements: int
    keys: int
    row: int  # elements for each key, where keys count the array from its beginning; else 0
    slabs: int  # parts of the array, each with a part of every window that no index moves; else 0


def analyse(ins: list[Type], params: dict[str, Any]) -> Shape | None:
    """A scatter's numbers, or None for one of a kind that is rare."""
    operand, indices, updates = ins
    inside, _, index_map, batching, indices_batching = params["dimension_numbers"]
    batch = indices.shape[:-1]
    strides = contiguous(operand.shape)
    # axes of the updates: some of the window, then all of the batch, then the rest of the window
    outer = [i for i in range(len(updates.shape)) if i not in inside]
    if outer and outer != list(range(outer[0], outer[0] + len(outer))):
        return None
    kept = [i for i in range(len(operand.shape)) if i not in (*params_inserted(params), *batching)]
    sizes = {axis: updates.shape[i] for axis, i in zip(kept, inside, strict=True)}
    steps = contiguous(updates.shape)
    windows = [(sizes[a], strides[a], steps[i]) for a, i in zip(kept, inside, strict=True)]
    loops = _merged(windows)
    before = sum(axis < min([*index_map, *batching], default=0) for axis in kept)
    slabs = _slabs(windows[:before], windows[before:])
    loops = slabs or loops
    if len(index_map) > 3 or len(batching) > 2 or loops is None:
        return None
    names: dict[str, Any] = {"K": len(index_map)}
    # windows that differ in these axes have no element in common
    apart = [*batching, *(a for a in index_map if sizes.get(a, 1) == 1)]
    parts, keys = {}, 1
    for axis in sorted(apart, reverse=True):
        parts[axis] = keys
        keys *= operand.shape[axis]
    names["MOVED"] = tuple(
        (i, max(operand.shape[axis] - sizes.get(axis, 1), 0), strides[axis], parts.get(axis, 0))
        for i, axis in enumerate(index_map)
    )
    names["BATCHED"] = tuple(
        (prod(batch[at + 1 :]), batch[at], strides[axis], parts[axis])
        for axis, at in zip(batching, indices_batching, strict=True)
    )
    for i, (size, step, read) in enumerate(loops):
        names[f"W{i}"], names[f"S{i}"], names[f"R{i}"] = size, step, read
    names["UPDATE"] = steps[outer[-1]] if outer else 0
    names["ONE"] = int(prod(size for size, _, _ in loops) == 1)
    elements = prod(updates.shape)
    leading = sorted(apart) == list(range(len(apart)))
    row = prod(operand.shape[len(apart) :]) if leading else 0
    return Shape(names, prod(batch), elements, keys, row, slabs[0][0] if slabs else 0)


def params_inserted(params: dict[str, Any]) -> tuple[int, ...]:
    """Axes of the operand that windows do not have."""
    return params["dimension_numbers"].inserted_window_dims


def _merged(windows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]] | None:
    """Three loops over a window: axes that follow each other in both arrays made one."""
    loops: list[tuple[int, int, int]] = []
    for size, step, read in windows:
        if size == 1:
            continue
        if loops and loops[-1][1] == size * step and loops[-1][2] == size * read:
            loops[-1] = (loops[-1][0] * size, step, read)
        else:
            loops.append((size, step, read))
    if len(loops) > 3:
        return None
    return [(1, 0, 0)] * (3 - len(loops)) + loops


def _slabs(
    before: list[tuple[int, int, int]], rest: list[tuple[int, int, int]]
) -> list[tuple[int, int, int]] | None:
    """Loops over a window of which the first is that over axes before all that indices move."""
    outer, inner = _merged(before), _merged(rest)
    if outer is None or inner is None or outer[1][0] > 1 or outer[2][0] == 1 or inner[0][0] > 1:
        return None
    return [outer[2], *inner[1:]]


def element(op: int, dtype: np.dtype) -> Kind | None:
    """The kind that elements are combined as."""
    if op == stubs.SET:
        return _UNSIGNED.get(dtype.itemsize)
    if dtype.kind == "b":
        return u8 if op in (stubs.MIN, stubs.MAX) else None
    if dtype in NARROW:
        return u16
    if op == stubs.TURN:
        return kind_of(f"f{dtype.itemsize // 2}")
    return kind_of(dtype) if dtype.kind in "iuf" else None


def neutral(op: int, dtype: np.dtype) -> int:
    """What changes no number it is combined with, as bits."""
    if dtype.kind == "f":
        ends = (np.inf, -np.inf)
    else:
        low, high = (0, 255) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        ends = (high, low)
    number = {stubs.MUL: 1, stubs.MIN: ends[0], stubs.MAX: ends[1]}.get(op, -0.0)
    stored = np.array(number).astype(np.uint8 if dtype.kind == "b" else dtype)
    return int(stored.view(f"u{dtype.itemsize}"))


def in_reals(ins: list[Type], params: dict[str, Any]) -> tuple[list[Type], dict[str, Any]]:
    """A scatter of complex numbers as one of their parts, along an axis of two."""
    operand, indices, updates = ins
    dtype = np.dtype(f"f{operand.dtype.itemsize // 2}")
    numbers = params["dimension_numbers"]
    inside = (*numbers.update_window_dims, len(updates.shape))
    params = params | {"dimension_numbers": numbers._replace(update_window_dims=inside)}
    wide = [Type((*x.shape, 2), dtype) for x in (operand, updates)]
    return [wide[0], indices, wide[1]], params


def scatter(name: str) -> Any:
    """The lowering of one kind of scatter."""

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
        op = _OPS[name]
        if ins[0].dtype in _COMPLEX:
            if op in (stubs.SET, stubs.ADD, stubs.SUB):
                ins, params = in_reals(ins, params)
            elif op == stubs.MUL:
                op = stubs.TURN
        operand, indices, updates = ins
        kind = element(op, operand.dtype) if isinstance(operand.dtype, np.dtype) else None
        if kind is None or (op == stubs.SET and params["update_jaxpr"] is not None):
            return None
        if indices.dtype == np.uint64:
            return None
        if not prod(updates.shape) or not prod(operand.shape):
            size = prod(operand.shape) * operand.dtype.itemsize
            copy = _task({"SIZE": size}, "copy", [("in", 0), ("out", 0)], -(-size // stubs.BLOCK))
            return Lowered([copy], in_place=Lowered([]))
        shape = analyse(ins, params)
        if shape is None:
            return None
        total, names = prod(operand.shape), shape.names
        names |= {"U": kind, "I": kind_of(indices.dtype), "OP": op, "COUNT": shape.count}
        names |= {"TOTAL": total, "SIZE": total * operand.dtype.itemsize, "UNIT": UNIT_INDICES}
        names |= {"DROP": int(params["mode"].name != "CLIP"), "WIDTH": operand.dtype.itemsize}
        names["BITS"] = _UNSIGNED[kind.size]
        names["PACKED"] = int(names["ONE"] and names["WIDTH"] == 4)
        halves = {BF16: 1, F16: 2}.get(operand.dtype, 0)
        names["HALF"] = halves if op != stubs.SET else 0
        names |= {"FLOATS": int(operand.dtype.kind == "f"), "SHIFT": 0, "BINS": 1, "ROOM": 1}
        names["BYTES"] = 0
        names |= {"PIECE": 1, "PIECES": 1, "NEUTRAL": 0, "LOOK": 0}
        unique = params["unique_indices"]
        make = lambda here: _tasks(dict(names), shape, operand.dtype, unique, here)
        return make(False)._replace(in_place=make(True))

    return lower


def _tasks(
    names: dict[str, Any], shape: Shape, dtype: np.dtype, unique: bool, here: bool
) -> Lowered:
    """The tasks; ``here`` where the result has the memory of the operand."""
    size, total, op = names["SIZE"], names["TOTAL"], names["OP"]
    if plain(shape.slabs) >= SLABS and plain(shape.elements) >= MIN_SHARED_ELEMENTS:
        if names["S0"] * dtype.itemsize <= MAX_COPIED_BYTES:
            return _in_slabs(names, shape, here)
    many = plain(shape.elements) >= MIN_SHARED_ELEMENTS and op != stubs.TURN
    pieces = _pieces(shape.count, shape.elements, total)
    # products of floats may overflow in pieces where they do not in a row
    ordered = names["HALF"] or (op == stubs.MUL and names["FLOATS"])
    if many and not unique and size <= MAX_COPIED_BYTES:
        if not ordered and op != stubs.SET and pieces > 1:
            return _in_pieces(names, shape, dtype, pieces)
        many = size > 2 * PART  # else all of it stays near anyway
    bins = min(BUCKETS, max(16, -(-plain(size) // PART)))
    shift = max(0, (plain(shape.keys) - 1).bit_length() - (bins - 1).bit_length())
    bins = ((shape.keys - 1) >> shift) + 1
    known = total < 1 << 32 and shape.count < 1 << 32
    dealt = many and known and bins > 1 and not unique
    if dealt:
        assert bins <= 2 * BUCKETS  # counts lie on the stack
        names |= {"SHIFT": shift, "BINS": bins, "ROOM": at_most(bins, 2 * BUCKETS)}
        if shape.row and not here:
            names["BYTES"] = (shape.row << shift) * dtype.itemsize
    tasks = []
    if not names["BYTES"] and not here:
        tasks.append(_task(names, "copy", [("in", 0), ("out", 0)], -(-size // stubs.BLOCK)))
    units = -(-shape.count // UNIT_INDICES)
    if not dealt:
        places = [("in", 1), ("in", 2), ("out", 0)]
        if unique and many:
            return Lowered([*tasks, _task(names, "apart", places, units)])
        return Lowered([*tasks, _task(names, "in_a_row", places, 1)])
    names["LOOK"] = int(shape.row and names["ONE"] and shape.count >= MIN_SKEW_UPDATES)
    return _dealt(names, shape, tasks, units)


def _dealt(names: dict[str, Any], shape: Shape, tasks: list[Task], units: int) -> Lowered:
    """Updates dealt into buckets, which are worked off; after a look at them, if that is said."""
    bins, look = names["BINS"], names["LOOK"]
    counts, begins, targets, what, skewed = [("scratch", i) for i in range(5)]
    carried = names["WIDTH"] if names["ONE"] else 4
    scratch = (
        4 * units * bins,
        4 * (bins + 1),
        (8 if names["PACKED"] else 4) * shape.count,
        0 if names["PACKED"] else carried * shape.count,
        *([8] if look else []),
    )
    given, updates, out = ("in", 1), ("in", 2), ("out", 0)
    more = [skewed] if look else []
    tasks += [_task(names, "look", [given, skewed], 1)] if look else []
    tasks += [
        _task(names, "count", [given, counts, *more], units),
        _task(names, "rank", [counts, begins, *more], 1),
        _task(names, "deal", [given, counts, updates, targets, what, *more], units),
        _task(names, "work_off", [begins, targets, what, updates, out, ("in", 0)], bins),
    ]
    tasks += [_task(names, "in_a_row", [given, updates, out, skewed], 1)] if look else []
    return Lowered(tasks, scratch)


def _pieces(most: int, updates: int, elements: int) -> int:
    """How many pieces there are of updates, each with an array of so many elements."""
    pieces = min(MAX_PIECES, plain(most), plain(updates) // (UPDATES_PER_ELEMENT * plain(elements)))
    found = 1 << max(pieces, 1).bit_length() - 1  # so that threads have as many each
    assert most >= found or found == 1
    return found


def _in_slabs(names: dict[str, Any], shape: Shape, here: bool) -> Lowered:
    copy = _task(names, "copy", [("in", 0), ("out", 0)], -(-names["SIZE"] // stubs.BLOCK))
    task = _task(names, "in_slabs", [("in", 1), ("in", 2), ("out", 0)], shape.slabs)
    each = max(1, MIN_SHARED_ELEMENTS * shape.slabs // shape.elements)
    return Lowered([*([] if here else [copy]), task._replace(chunk=each)])


def _in_pieces(names: dict[str, Any], shape: Shape, dtype: np.dtype, pieces: int) -> Lowered:
    names |= {"PIECE": -(-shape.count // pieces), "PIECES": pieces}
    names["NEUTRAL"] = neutral(names["OP"], dtype)
    arrays = ("scratch", 0)
    # what is taken away in pieces is added
    joined = names | {"OP": stubs.ADD if names["OP"] == stubs.SUB else names["OP"]}
    tasks = [
        _task(names, "in_pieces", [("in", 1), ("in", 2), arrays], pieces),
        _task(joined, "join", [("in", 0), arrays, ("out", 0)], -(-names["TOTAL"] // UNIT_INDICES)),
    ]
    return Lowered(tasks, (pieces * names["SIZE"],))


def _task(names: dict[str, Any], stub: str, places: list[Any], extent: int) -> Task:
    # one text for all that do not differ in what they do
    known = names if stub == "work_off" else names | {"BYTES": 0}
    module = scatter_text.module(stub, tuple(sorted(known.items())))
    return Task(module, stub, tuple([Place(*p) for p in places]), extent)


for _name in _OPS:
    LOWERINGS[_name] = scatter(_name)
