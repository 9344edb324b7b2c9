"""Scatters: windows of a copy written, added or otherwise combined at computed places.

Updates are dealt into buckets by where they go, each bucket in their order, and a bucket is worked
off by one thread: the result is that of one update after the other, whoever computes it, and a
bucket's part of the array stays in the cache.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.heroes.registry import HEROES
from weft.backends.cpu.stub import (
    Kind,
    bits,
    f32,
    i64,
    kind_of,
    ptr,
    stack,
    translate,
    u8,
    u16,
    u32,
    u64,
    void,
)
from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.nodes import BF16, F16, NARROW
from weft.kernel.program import Lowered, Place, Task, Type

# Elements below which updates are worked off in a row; index vectors of one unit of dealing out.
FEW, UNIT = 1 << 14, 1 << 14
# Bytes of the array that a bucket stands for, and how many buckets there are at most.
PART, BUCKETS = 1 << 17, 256
# Bytes copied at a time.
BLOCK = 1 << 18
_COMPLEX = frozenset([np.dtype(np.complex64), np.dtype(np.complex128)])
_UNSIGNED = {1: u8, 2: u16, 4: u32, 8: u64}
_SET, _ADD, _SUB, _MUL, _MIN, _MAX = range(6)
_OPS = {
    "scatter": _SET,
    "scatter-add": _ADD,
    "scatter-sub": _SUB,
    "scatter-mul": _MUL,
    "scatter-min": _MIN,
    "scatter-max": _MAX,
}

# The instruction that brings memory near before it is written, and how many bytes ahead that is.
FETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
CALL = r"call void @llvm.prefetch.p0(\1, i32 1, i32 3, i32 1)"
AHEAD = 64

# Names that stubs are given; here so that they can be written.
U: Any = u32
BITS: Any = u32
I: Any = u32
HALF = OP = K = B = DROP = SIZE = COUNT = SHIFT = BINS = FLOATS = ONE = UPDATE = WIDTH = BYTES = (
    PACKED
) = 0
MOST0 = MOST1 = MOST2 = STRIDE0 = STRIDE1 = STRIDE2 = KEY0 = KEY1 = KEY2 = 0
INNER0 = INNER1 = OUTER0 = OUTER1 = STEP0 = STEP1 = PART0 = PART1 = 0
W0 = W1 = W2 = S0 = S1 = S2 = R0 = R1 = R2 = 0


def copy(buffers: ptr, start: i64, stop: i64) -> void:
    """The operand as the result begins."""
    source = ptr[buffers, 0]
    out = ptr[buffers, 1]
    for block in range(start, stop):
        low = block * BLOCK
        high = min(low + BLOCK, i64(SIZE))
        for i in range(low, high):
            u8[out, i] = u8[source, i]


def fetch(place: ptr) -> void:
    """Memory that will be written brought near; its calls become the instruction for that."""
    return


def locate(indices: ptr, n: i64) -> u64:
    """Where a window begins, above it its bucket; all ones for one that is left out."""
    at = i64(0)
    key = i64(0)
    inside = i64(1)
    if K > 0:
        wanted0 = i64(I[indices, n * K])
        given0 = max(i64(0), min(wanted0, i64(MOST0)))
        if given0 != wanted0:
            inside = 0
        at = at + given0 * STRIDE0
        key = key + given0 * KEY0
    if K > 1:
        wanted1 = i64(I[indices, n * K + 1])
        given1 = max(i64(0), min(wanted1, i64(MOST1)))
        if given1 != wanted1:
            inside = 0
        at = at + given1 * STRIDE1
        key = key + given1 * KEY1
    if K > 2:
        wanted2 = i64(I[indices, n * K + 2])
        given2 = max(i64(0), min(wanted2, i64(MOST2)))
        if given2 != wanted2:
            inside = 0
        at = at + given2 * STRIDE2
        key = key + given2 * KEY2
    if B > 0:
        row0 = n // INNER0 % OUTER0
        at = at + row0 * STEP0
        key = key + row0 * PART0
    if B > 1:
        row1 = n // INNER1 % OUTER1
        at = at + row1 * STEP1
        key = key + row1 * PART1
    found = (u64(key >> SHIFT) << 48) | u64(at)
    if DROP:
        if inside == 0:
            found = ~u64(0)
    return found


def widen(x: u16) -> f32:
    """The float32 of a bfloat16 or float16."""
    if HALF == 1:
        return bits(f32, u32(x) << 16)
    size = u32(x & 32767) << 13
    if size >= 0x0F800000:  # infinite or NaN
        size = size | 0x7F800000
    else:
        size = bits(u32, bits(f32, size) * bits(f32, u32(0x77800000)))  # times 2**112
    return bits(f32, size | (u32(x & 32768) << 16))


def narrow(x: f32) -> u16:
    """A float32 rounded to a bfloat16 or float16."""
    given = bits(u32, x)
    sign = u16((given >> 16) & 32768)
    if HALF == 1:
        if x != x:
            return sign | 0x7FC0
        return u16((given + 32767 + ((given >> 16) & 1)) >> 16)
    if x != x:
        return sign | 0x7E00
    size = given & 0x7FFFFFFF
    if size >= 0x477FF000:  # rounds to infinity
        return sign | 0x7C00
    if size < 0x38800000:  # denormal: added to 1/2, it is rounded to the right place
        half = u32(0x3F000000)
        return sign | u16(bits(u32, bits(f32, size) + bits(f32, half)) - half)
    return sign | u16((size - 0x38000000 + 4095 + ((size >> 13) & 1)) >> 13)


def put_half(out: ptr, at: i64, new: u16) -> void:
    """One element of a narrow float combined with what is there; every step is rounded."""
    x = widen(u16[out, at])
    y = widen(new)
    if OP == 1:
        x = x + y
    if OP == 2:
        x = x - y
    if OP == 3:
        x = x * y
    if OP == 4:
        if y < x:
            x = y
    if OP == 5:
        if y > x:
            x = y
    if OP > 3:
        if y != y:
            x = y
    u16[out, at] = narrow(x)


def put(out: ptr, at: i64, new: U) -> void:
    """One element combined with what is there."""
    if HALF:
        put_half(out, at, u16(bits(BITS, new)))
        return
    if OP == 0:
        U[out, at] = new
    if OP == 1:
        U[out, at] = U[out, at] + new
    if OP == 2:
        U[out, at] = U[out, at] - new
    if OP == 3:
        U[out, at] = U[out, at] * new
    if OP > 3:
        old = U[out, at]
        if OP == 4:
            if new < old:
                U[out, at] = new
        if OP == 5:
            if new > old:
                U[out, at] = new
        if FLOATS:
            if new != new:
                U[out, at] = new


def window(out: ptr, updates: ptr, at: i64, n: i64) -> void:
    """All elements of one window."""
    first = n * UPDATE
    for a in range(W0):
        for b in range(W1):
            to = at + a * S0 + b * S1
            source = first + a * R0 + b * R1
            for c in range(W2):
                put(out, to + c * S2, U[updates, source + c * R2])


def in_a_row(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates one after the other: indices, updates, result."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    out = ptr[buffers, 2]
    for n in range(i64(COUNT)):
        found = locate(indices, n)
        if found != ~u64(0):
            window(out, updates, i64((found << 16) >> 16), n)


def count(buffers: ptr, start: i64, stop: i64) -> void:
    """How many updates of each unit go into each bucket: indices, counts."""
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    own = stack(4 * BINS)  # threads that count side by side in memory would wait for each other
    for unit in range(start, stop):
        for i in range(i64(BINS)):
            u32[own, i] = u32(0)
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            found = locate(indices, n)
            if found != ~u64(0):
                cell = i64(found >> 48)
                u32[own, cell] = u32[own, cell] + 1
        for i in range(i64(BINS)):
            u32[counts, unit * BINS + i] = u32[own, i]


def rank(buffers: ptr, start: i64, stop: i64) -> void:
    """Where each unit's part of each bucket begins, and each bucket: counts, beginnings."""
    counts = ptr[buffers, 0]
    begins = ptr[buffers, 1]
    total = u32(0)
    units = (i64(COUNT) + UNIT - 1) // UNIT
    for b in range(i64(BINS)):
        u32[begins, b] = total
        for unit in range(units):
            cell = unit * BINS + b
            n = u32[counts, cell]
            u32[counts, cell] = total
            total = total + n
    u32[begins, BINS] = total


def deal(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates into their buckets: indices, counts, updates, targets, what goes there."""
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    updates = ptr[buffers, 2]
    targets = ptr[buffers, 3]
    what = ptr[buffers, 4]
    own = stack(4 * BINS)
    for unit in range(start, stop):
        for i in range(i64(BINS)):
            u32[own, i] = u32[counts, unit * BINS + i]
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            found = locate(indices, n)
            if found != ~u64(0):
                cell = i64(found >> 48)
                to = i64(u32[own, cell])
                u32[own, cell] = u32[own, cell] + 1
                if PACKED:
                    u64[targets, to] = (found << 32) | u64(bits(BITS, U[updates, n]))
                    fetch(targets + 8 * to + AHEAD)
                else:
                    u32[targets, to] = u32((found << 16) >> 16)
                    fetch(targets + 4 * to + AHEAD)
                    if ONE:
                        U[what, to] = U[updates, n]
                        fetch(what + WIDTH * to + AHEAD)
                    else:
                        u32[what, to] = u32(n)
                        fetch(what + 4 * to + AHEAD)


def work_off(buffers: ptr, start: i64, stop: i64) -> void:
    """Buckets: beginnings, targets, what goes there, updates, result, operand."""
    begins = ptr[buffers, 0]
    targets = ptr[buffers, 1]
    what = ptr[buffers, 2]
    updates = ptr[buffers, 3]
    out = ptr[buffers, 4]
    operand = ptr[buffers, 5]
    for b in range(start, stop):
        if BYTES > 0:
            for i in range(b * BYTES, min(b * BYTES + BYTES, i64(SIZE))):
                u8[out, i] = u8[operand, i]
        for i in range(i64(u32[begins, b]), i64(u32[begins, b + 1])):
            if PACKED:
                both = u64[targets, i]
                put(out, i64(both >> 32), bits(U, BITS(both)))
            else:
                at = i64(u32[targets, i])
                if ONE:
                    put(out, at, U[what, i])
                else:
                    window(out, updates, at, i64(u32[what, i]))


class Shape(Record):
    """A scatter in numbers: what the stubs are told of it, and what decides how it is run."""

    names: dict[str, Any]
    count: int
    elements: int
    keys: int
    row: int  # elements for each key, where keys count the array from its beginning; else 0


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def analyse(ins: list[Type], params: dict[str, Any]) -> Shape | None:
    """A scatter's numbers, or None for one of a kind that is rare."""
    operand, indices, updates = ins
    inside, _, index_map, batching, indices_batching = params["dimension_numbers"]
    batch = indices.shape[:-1]
    strides = _strides(operand.shape)
    # axes of the updates: some of the window, then all of the batch, then the rest of the window
    outer = [i for i in range(len(updates.shape)) if i not in inside]
    if outer and outer != list(range(outer[0], outer[0] + len(outer))):
        return None
    kept = [i for i in range(len(operand.shape)) if i not in (*params_inserted(params), *batching)]
    sizes = {axis: updates.shape[i] for axis, i in zip(kept, inside, strict=True)}
    steps = _strides(updates.shape)
    windows = [(sizes[a], strides[a], steps[i]) for a, i in zip(kept, inside, strict=True)]
    loops = _merged(windows)
    if len(index_map) > 3 or len(batching) > 2 or loops is None:
        return None
    names: dict[str, Any] = {"K": len(index_map), "B": len(batching)}
    # windows that differ in these axes have no element in common
    apart = [*batching, *(a for a in index_map if sizes.get(a, 1) == 1)]
    parts, keys = {}, 1
    for axis in sorted(apart, reverse=True):
        parts[axis] = keys
        keys *= operand.shape[axis]
    for i, axis in enumerate(index_map):
        names[f"MOST{i}"] = max(operand.shape[axis] - sizes.get(axis, 1), 0)
        names[f"STRIDE{i}"], names[f"KEY{i}"] = strides[axis], parts.get(axis, 0)
    for i, (axis, at) in enumerate(zip(batching, indices_batching, strict=True)):
        names[f"INNER{i}"], names[f"OUTER{i}"] = prod(batch[at + 1 :]), batch[at]
        names[f"STEP{i}"], names[f"PART{i}"] = strides[axis], parts[axis]
    for i, (size, step, read) in enumerate(loops):
        names[f"W{i}"], names[f"S{i}"], names[f"R{i}"] = size, step, read
    names["UPDATE"] = steps[outer[-1]] if outer else 0
    names["ONE"] = int(prod(size for size, _, _ in loops) == 1)
    elements = prod(updates.shape)
    leading = sorted(apart) == list(range(len(apart)))
    row = prod(operand.shape[len(apart) :]) if leading else 0
    return Shape(names, prod(batch), elements, keys, row)


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


def element(op: int, dtype: np.dtype) -> Kind | None:
    """The kind that elements are combined as."""
    if op == _SET:
        return _UNSIGNED.get(dtype.itemsize)
    if dtype.kind == "b":
        return u8 if op in (_MIN, _MAX) else None
    if dtype in NARROW:
        return u16
    return kind_of(dtype) if dtype.kind in "iuf" else None


def in_reals(ins: list[Type], params: dict[str, Any]) -> tuple[list[Type], dict[str, Any]]:
    """A scatter of complex numbers as one of their parts, along an axis of two."""
    operand, indices, updates = ins
    dtype = np.dtype(f"f{operand.dtype.itemsize // 2}")
    numbers = params["dimension_numbers"]
    inside = (*numbers.update_window_dims, len(updates.shape))
    params = params | {"dimension_numbers": numbers._replace(update_window_dims=inside)}
    wide = [Type((*x.shape, 2), dtype) for x in (operand, updates)]
    return [wide[0], indices, wide[1]], params


# Each stub that is a task, after those that it calls.
_STUBS: dict[str, list[Any]] = {
    "copy": [copy],
    "in_a_row": [locate, widen, narrow, put_half, put, window, in_a_row],
    "count": [locate, count],
    "rank": [rank],
    "deal": [fetch, locate, deal],
    "work_off": [widen, narrow, put_half, put, window, work_off],
}


@lru(512)
def _text(stub: str, names: tuple[tuple[str, Any], ...]) -> str:
    *helpers, main = _STUBS[stub]
    inner = [f.__name__ for f in helpers]
    plain = stub in ("count", "rank", "deal")  # nothing in them becomes vectors
    text = translate([*helpers, main], names=dict(names), private=inner, plain=plain)
    return re.sub(r"call void @fetch\((ptr [^)]*)\)", CALL, text) + FETCH


def scatter(name: str) -> Any:
    """The lowering of one kind of scatter."""

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
        op = _OPS[name]
        if ins[0].dtype in _COMPLEX and op in (_SET, _ADD, _SUB):
            ins, params = in_reals(ins, params)
        operand, indices, updates = ins
        kind = element(op, operand.dtype) if isinstance(operand.dtype, np.dtype) else None
        if kind is None or (op == _SET and params["update_jaxpr"] is not None):
            return None
        if not prod(updates.shape) or not prod(operand.shape) or indices.dtype == np.uint64:
            return None
        shape = analyse(ins, params)
        if shape is None:
            return None
        names = dict.fromkeys("MOST0 MOST1 MOST2 STRIDE0 STRIDE1 STRIDE2 KEY0 KEY1 KEY2".split(), 0)
        names |= dict.fromkeys("STEP0 STEP1 PART0 PART1".split(), 0)
        names |= dict.fromkeys("INNER0 INNER1 OUTER0 OUTER1".split(), 1)
        names |= shape.names
        size = prod(operand.shape) * operand.dtype.itemsize
        names |= {"U": kind, "I": kind_of(indices.dtype), "OP": op, "COUNT": shape.count}
        names |= {"DROP": int(params["mode"].name != "CLIP"), "SIZE": size}
        names["WIDTH"] = operand.dtype.itemsize
        names["BITS"] = _UNSIGNED[kind.size]
        names["PACKED"] = int(names["ONE"] and names["WIDTH"] == 4)
        halves = {BF16: 1, F16: 2}.get(operand.dtype, 0)
        names["HALF"] = halves if op != _SET else 0
        names |= {"FLOATS": int(operand.dtype.kind == "f"), "SHIFT": 0, "BINS": 1, "BYTES": 0}
        return _tasks(names, shape, operand, kind)

    return lower


def _tasks(names: dict[str, Any], shape: Shape, operand: Type, kind: Kind) -> Lowered:
    size = names["SIZE"]
    bins = min(BUCKETS, max(16, -(-size // PART)))
    shift = max(0, (shape.keys - 1).bit_length() - (bins - 1).bit_length())
    bins = ((shape.keys - 1) >> shift) + 1
    known = prod(operand.shape) < 1 << 32 and shape.count < 1 << 32
    shared = known and bins > 1 and shape.elements >= FEW
    if shared:
        names |= {"SHIFT": shift, "BINS": bins}
        if shape.row:
            names["BYTES"] = (shape.row << shift) * operand.dtype.itemsize
    given = tuple(sorted(names.items()))

    def task(stub: str, places: list[tuple[str, int]], extent: int, chunk: int = 1) -> Task:
        text = _text(stub, given)
        return Task(text, stub, tuple([Place(*p) for p in places]), extent, chunk)

    tasks = []
    if not names["BYTES"]:
        tasks.append(task("copy", [("in", 0), ("out", 0)], -(-size // BLOCK)))
    if not shared:
        places = [("in", 1), ("in", 2), ("out", 0)]
        return Lowered([*tasks, task("in_a_row", places, 1)])
    units = -(-shape.count // UNIT)
    counts, begins, targets, what = [("scratch", i) for i in range(4)]
    carried = kind.size if names["ONE"] else 4
    scratch = (
        4 * units * bins,
        4 * (bins + 1),
        (8 if names["PACKED"] else 4) * shape.count,
        0 if names["PACKED"] else carried * shape.count,
    )
    return Lowered(
        [
            *tasks,
            task("count", [("in", 1), counts], units),
            task("rank", [counts, begins], 1),
            task("deal", [("in", 1), counts, ("in", 2), targets, what], units),
            task("work_off", [begins, targets, what, ("in", 2), ("out", 0), ("in", 0)], bins),
        ],
        scratch,
    )


for _name in _OPS:
    HEROES[_name] = scatter(_name)
