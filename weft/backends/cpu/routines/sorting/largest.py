"""The largest elements of rows and their indices: the best so far are kept in a heap.

A record is an element's key above its index, so that no two are equal and, of equal elements, the
first comes first. Blocks of elements of which none comes before the last one kept are skipped by
vectors. Where much of a row is wanted, it is sorted.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting.records import UNSIGNED, key, key_names
from weft.backends.cpu.routines.sorting.rows import (
    MIN_UNIT_ELEMENTS,
    Order,
    Plan,
    Rows,
    order_of,
)
from weft.backends.llvm.text.stub import translate_main
from weft.base.functional import lru
from weft.base.lazy import Late
from weft.kernel.kinds import i64, least_lane, ptr, stack, u32, u64, u128, void
from weft.kernel.program import Lowered, Place, Type

_sort = Late("weft.backends.cpu.routines.sorting.sort")

STRIDE = 32  # elements of a block
HEAP = 8192  # elements that are kept at most


# Names that stubs are given; here so that they can be written: elements, vectors of them, and
# records; bytes of an element and of a record, and bits of an index in one.
U: Any = u32
BLOCK: Any = u32
RECORD: Any = u64
SIZE = STEP = HALF = 0


def sift(heap: ptr, count: i64, x: RECORD) -> void:
    """Put a record into a heap in place of its root, the last one in order."""
    at = i64(0)
    child = i64(1)
    while child < count:
        other = min(child + 1, count - 1)
        child = other if RECORD[heap, other] > RECORD[heap, child] else child
        if RECORD[heap, child] <= x:
            break
        RECORD[heap, at] = RECORD[heap, child]
        at = child
        child = 2 * at + 1
    RECORD[heap, at] = x


def top_heap(buffers: ptr, start: i64, stop: i64) -> void:
    """The first elements of rows in order. Buffers: elements, values, indices, and a table of the
    length of rows, the distance of their elements and how many are wanted."""
    table = ptr[buffers, 3]
    length = i64[table, 0]
    inner = i64[table, 1]
    wanted = i64[table, 2]
    heap = stack(HEAP * STEP)
    for row in range(start, stop):
        here = ptr[buffers, 0] + (row // inner * length * inner + row % inner) * SIZE
        for i in range(wanted):
            RECORD[heap, i] = -1
        for b in range(0, length, STRIDE):
            if inner == 1 and b >= wanted and b + STRIDE <= length:
                last = U(RECORD[heap, 0] >> HALF)
                if least_lane(key(BLOCK[here + b * SIZE, 0])) >= last:
                    continue
            for i in range(b, min(b + STRIDE, length)):
                x = (RECORD(key(U[here, i * inner])) << HALF) | RECORD(i)
                if x < RECORD[heap, 0]:
                    sift(heap, wanted, x)
        for end in range(wanted - 1, 0, -1):
            x = RECORD[heap, end]
            RECORD[heap, end] = RECORD[heap, 0]
            sift(heap, end, x)
        to = row // inner * wanted * inner + row % inner
        for n in range(wanted):
            index = u32(RECORD[heap, n])
            u32[ptr[buffers, 2], to + n * inner] = index
            U[ptr[buffers, 1], to + n * inner] = U[here, i64(index) * inner]


@lru(64)
def heap_text(order: Order, canonical: bool, flipped: bool) -> str:
    """The text of `top_heap`."""
    names = key_names(order, canonical, flipped) | {"SIGN": order.sign, "SIZE": order.bits // 8}
    names |= {"U": UNSIGNED[order.bits], "BLOCK": UNSIGNED[order.bits].of(STRIDE)}
    record = u128 if order.bits == 64 else u64
    names |= {"RECORD": record, "STEP": record.size, "HALF": 4 * record.size}
    return translate_main(top_heap, names, loop=True)


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
    text = heap_text(order, canonical, largest)
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
