"""The largest elements of rows and their indices: the best so far are kept in a heap.

A record is an element's key above its index, so that no two are equal and, of equal elements, the
first comes first. Blocks of elements of which none comes before the last one kept are skipped by
vectors. Where much of a row is wanted, it is sorted.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting.rows import (
    MIN_UNIT_ELEMENTS,
    Order,
    Plan,
    Rows,
    key,
    key_names,
    order_of,
)
from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.native.processor import is_arm
from weft.backends.llvm.tasks import Lowered, Place
from weft.backends.llvm.text.stub import known_to, translate
from weft.base.functional import lru
from weft.base.lazy import Late
from weft.kernel.kinds import (
    OPAQUE,
    any_lane,
    i32,
    i64,
    invoke,
    kind_of,
    least_lane,
    memset,
    ptr,
    select,
    stack,
    static,
    u32,
    u64,
    u128,
    values,
    void,
)
from weft.kernel.program import Type

_sort = Late("weft.backends.cpu.routines.sorting.sort")

STRIDE = 32  # elements of a block
HEAP = 8192  # elements that are kept at most

# Kinds and static parameters of the stubs: elements, blocks of them and
# records, bytes of an element and of a record, bits of half a record, and whether this is Arm.
U: Any = u32
BLOCK: Any = u32
RECORD: Any = u64


def top_heap(buffers: ptr, start: i64, stop: i64, *, SIZE: static, BYTES: static) -> void:
    """The first elements of rows in order. Buffers: elements, values, indices, and a table of the
    length of rows, the distance of their elements and how many are wanted."""
    length, inner, wanted = sizes(buffers)
    heap = stack(HEAP * BYTES)
    for number in range(start, stop):
        outer = number // inner
        offset = number - outer * inner
        row = ptr[buffers, 0] + (outer * length * inner + offset) * SIZE
        memset(heap, 255, wanted * BYTES)
        fill(heap, wanted, row, length, inner)
        drain(heap, wanted, row, inner, buffers, outer * wanted * inner + offset)


def fill(heap: ptr, wanted: i64, row: ptr, length: i64, inner: i64, *, SIZE: static) -> void:
    """Keep the first elements of a row in a heap."""
    single = wanted if inner == 1 else length  # elements before which no block is skipped
    end = i64(0)
    while end < length:
        i = end
        end = invoke(i64, OPAQUE, i + STRIDE)
        if end <= length:
            if i >= single:
                if not some_before(BLOCK[row + i * SIZE, 0], RECORD[heap, 0]):
                    continue
        last = min(end, length)
        while i < last:
            x = record(U[row, i * inner], i)
            if x < RECORD[heap, 0]:
                sift(heap, wanted, x)
            i = invoke(i64, OPAQUE, i + 1)


def sizes(buffers: ptr) -> values:
    """What the table holds."""
    table = ptr[buffers, 3]
    return [i64[table, i] for i in range(3)]


def record(x: U, index: i64, *, HALF: static) -> values:
    """The key of an element above its index."""
    return (RECORD(key(x)) << HALF) | RECORD(u64(index))


def some_before(block: BLOCK, last: RECORD, *, HALF: static, ARM: static) -> values:
    """Whether some elements of a block come before the last one kept."""
    bound = U(last >> HALF)
    if ARM:
        return bound > least_lane(key(block))
    return any_lane(key(block) < BLOCK(bound))


def drain(heap: ptr, wanted: i64, row: ptr, inner: i64, buffers: ptr, first: i64) -> void:
    """Write the values and indices of what was found in a row, from the last one on."""
    while wanted > 0:
        wanted = invoke(i64, OPAQUE, wanted - 1)
        index = u32(RECORD[heap, 0])
        to = wanted * inner + first
        i32[ptr[buffers, 2], to] = i32(index)
        U[ptr[buffers, 1], to] = U[row, i64(index) * inner]
        sift(heap, wanted, RECORD[heap, wanted])


def sift(heap: ptr, count: i64, x: RECORD) -> void:
    """Put a record into a heap in place of its root, the last one in order."""
    at = i64(0)
    child = i64(1)
    while child < count:
        child, kept = later(heap, child, min(child + 1, count - 1))
        if kept <= x:
            break
        RECORD[heap, at] = kept
        at = child
        child = 2 * at + 1
    RECORD[heap, at] = x


def later(heap: ptr, left: i64, right: i64) -> values:
    """That of two children which comes later, and its record."""
    x, y = RECORD[heap, left], RECORD[heap, right]
    more = y > x
    return select(more, right, left), select(more, y, x)


@lru(64)
def heap_module(order: Order, canonical: bool, flipped: bool) -> Module:
    """The text of the stubs for elements in an order; nothing in it is left to LLVM's passes."""
    element = kind_of(f"u{order.bits // 8}")
    record_kind = u128 if order.bits == 64 else u64
    names = {"U": element, "BLOCK": element.of(STRIDE), "RECORD": record_kind}
    names |= {"SIZE": element.size, "BYTES": record_kind.size, "HALF": 4 * record_kind.size}
    names |= {"ARM": int(is_arm()), **key_names(order, canonical, flipped)}
    stubs = [sift, drain, fill, top_heap]
    names, parts = known_to(top_heap, names, *stubs), []
    for inside in ([sift, drain], [fill], [top_heap]):
        others = [f.__name__ for f in stubs if f not in inside]
        parts.append(translate(stubs, names, outside=others).with_effort(Effort.KERNEL))
    return parts[-1].with_effort(Effort.QUICK).after(*parts[:-1])


def _largest(t: Type, axis: int, wanted: int, canonical: bool, largest: bool) -> Lowered | None:
    """The first elements of rows in rising or falling order, and their indices."""
    rows = Rows.along(t.shape, axis)
    order = order_of(t.dtype)
    if order is None or not wanted or not rows.count or rows.length >= 1 << 31:
        return None
    if wanted > HEAP or wanted * 8 > rows.length + 64:
        return _sort.largest(t, rows, order, wanted, canonical, largest)
    plan = Plan()
    table = plan.table(rows.length, rows.inner, wanted)
    places = (Place("in", 0), Place("out", 0), Place("out", 1), table)
    text = heap_module(order, canonical, largest)
    plan.add(text, "top_heap", places, rows.count, max(1, MIN_UNIT_ELEMENTS // rows.length))
    return plan.done()


def top_k(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The largest elements along an axis in total order, and their indices."""
    return _largest(ins[0], params["axis"], params["k"], False, True)


def approx_top_k(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The largest or smallest elements along a dimension, and their indices."""
    axis = params["reduction_dimension"] % len(ins[0].shape)
    wanted = outs[0].shape[axis]
    if wanted > ins[0].shape[axis]:
        return None
    return _largest(ins[0], axis, wanted, True, params["is_max_k"])


LOWERINGS["top_k"] = top_k
LOWERINGS["approx_top_k"] = approx_top_k
