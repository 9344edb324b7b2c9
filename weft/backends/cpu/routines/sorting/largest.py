"""The largest elements of rows and their indices: the few best so far are kept in order.

A record is an element's key above its index, so that no two are equal and, of equal elements, the
first comes first. Blocks of elements of which none comes before the last record kept are skipped by
vectors. For more than a few elements, `sort` has other ways.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting.rows import (
    MIN_UNIT_ELEMENTS,
    Order,
    Plan,
    Rows,
    order_of,
    ordered,
)
from weft.backends.cpu.routines.writer import Module, kernel
from weft.base.functional import lru
from weft.base.lazy import Late
from weft.kernel.program import Lowered, Place, Type

_sort = Late("weft.backends.cpu.routines.sorting.sort")

STRIDE = 32  # elements of a block
MAX_KEPT_ELEMENTS = 64  # elements that are kept in order while a row is read


@lru(64)
def largest_text(order: Order, canonical: bool, flipped: bool) -> str:
    """The first elements of rows in order. Buffers: elements, values, indices, and a table of the
    length of rows, the distance of their elements and how many are wanted."""
    bits, size = order.bits, order.bits // 8
    width = 128 if bits == 64 else 64  # of a record
    word, step, shift = f"i{width}", width // 8, 64 if bits == 64 else 32
    element = f"i{bits}"
    f = kernel(Module(), "largest")
    src, values, indices, table = (f.pointer(i) for i in range(4))
    length, inner, wanted = (f.load("i64", f.at(table, 8 * i), 8) for i in range(3))
    # One record more in front, which nothing comes before.
    memory = f.local((MAX_KEPT_ELEMENTS + 1) * step)
    first = f.at(memory, step)
    last = f.at(memory, f.mul(wanted, step))
    near = f.emit(f"icmp eq i64 {inner}, 1")
    start = f.emit(f"select i1 {near}, i64 {wanted}, i64 {length}")
    with f.loop("%start", "%stop") as row:
        outer = f.emit(f"udiv i64 {row}, {inner}")
        offset = f.emit(f"urem i64 {row}, {inner}")
        base = f.add(f.mul(f.mul(outer, length), inner), offset)
        here = f.at(src, f.mul(base, size))
        f.store(word, "0", memory, step)
        empty = (MAX_KEPT_ELEMENTS * step) // 8
        f.store(f"<{empty} x i64>", "splat (i64 -1)", first, 8)
        f.line("br label %block")
        before = f.block
        # Blocks from %b on, until the row ends.
        f.label("block")
        f.line(f"%b = phi i64 [ 0, %{before} ], [ %e, %block_end ], [ %e, %look ]")
        f.line(f"%b.in = icmp slt i64 %b, {length}")
        f.line("br i1 %b.in, label %block_body, label %found")
        f.label("block_body")
        f.line(f"%b.end = add i64 %b, {STRIDE}")
        whole = f.emit(f"icmp sle i64 %b.end, {length}")
        f.line(f"%e = select i1 {whole}, i64 %b.end, i64 {length}")
        full = f.emit(f"icmp sge i64 %b, {start}")
        f.line(f"br i1 {f.emit(f'and i1 {whole}, {full}')}, label %look, label %one")
        f.label("look")
        vector = f"<{STRIDE} x {element}>"
        block = f.load(vector, f.at(here, f.mul("%b", size)), size)
        keys = ordered(f, order, block, canonical, flipped, STRIDE)
        limit = f.emit(f"lshr {word} {f.load(word, last, step)}, {shift}")
        limit = f.emit(f"trunc {word} {limit} to {element}")
        limit = f.emit(f"insertelement {vector} poison, {element} {limit}, i64 0")
        limits = f.emit(
            f"shufflevector {vector} {limit}, {vector} poison, <{STRIDE} x i32> zeroinitializer"
        )
        hits = f.emit(f"icmp ult {vector} {keys}, {limits}")
        hits = f.emit(f"bitcast <{STRIDE} x i1> {hits} to i{STRIDE}")
        none = f.emit(f"icmp eq i{STRIDE} {hits}, 0")
        f.line(f"br i1 {none}, label %block, label %one")
        # Elements one by one.
        f.label("one")
        f.line("%i = phi i64 [ %b, %block_body ], [ %b, %look ], [ %i.next, %one_end ]")
        x = f.load(element, f.at(here, f.mul(f.mul("%i", inner), size)), size)
        key = f.emit(f"zext {element} {ordered(f, order, x, canonical, flipped)} to {word}")
        index = "%i" if width == 64 else f.emit(f"zext i64 %i to {word}")
        record = f.emit(f"or {word} {f.emit(f'shl {word} {key}, {shift}')}, {index}")
        better = f.emit(f"icmp ult {word} {record}, {f.load(word, last, step)}")
        f.line(f"br i1 {better}, label %move, label %one_end")
        # Those after it move by one place.
        f.label("move")
        f.line(f"%p = phi ptr [ {last}, %one ], [ %q, %moved ]")
        f.line(f"%q = getelementptr i8, ptr %p, i64 -{step}")
        kept = f.load(word, "%q", step)
        f.line(f"br i1 {f.emit(f'icmp ugt {word} {kept}, {record}')}, label %moved, label %put")
        f.label("moved")
        f.store(word, kept, "%p", step)
        f.line("br label %move")
        f.label("put")
        f.store(word, record, "%p", step)
        f.line("br label %one_end")
        f.label("one_end")
        f.line("%i.next = add i64 %i, 1")
        f.line("%i.more = icmp slt i64 %i.next, %e")
        f.line("br i1 %i.more, label %one, label %block_end")
        f.label("block_end")
        f.line("br label %block")
        f.label("found")
        to = f.add(f.mul(f.mul(outer, wanted), inner), offset)
        with f.loop(0, wanted) as n:
            record = f.load(word, f.at(first, f.mul(n, step)), step)
            place = f.add(to, f.mul(n, inner))
            found = f.emit(f"trunc {word} {record} to i32")
            f.store("i32", found, f.at(indices, f.mul(place, 4)), 4)
            at = f.mul(f.emit(f"zext i32 {found} to i64"), inner)
            x = f.load(element, f.at(here, f.mul(at, size)), size)
            f.store(element, x, f.at(values, f.mul(place, size)), size)
    f.close()
    return f.module.text()


def _largest(t: Type, axis: int, wanted: int, canonical: bool, largest: bool) -> Lowered | None:
    """The first elements of rows in rising or falling order, and their indices."""
    rows = Rows.along(t.shape, axis)
    order = order_of(t.dtype)
    if order is None or not wanted or not rows.count or rows.length >= 1 << 31:
        return None
    if wanted > MAX_KEPT_ELEMENTS or wanted * 8 > rows.length + 64:
        return _sort.largest(t, rows, order, wanted, canonical, largest)
    plan = Plan()
    table = plan.table(rows.length, rows.inner, wanted)
    places = (Place("in", 0), Place("out", 0), Place("out", 1), table)
    text = largest_text(order, canonical, largest)
    plan.add(text, "largest", places, rows.count, max(1, MIN_UNIT_ELEMENTS // rows.length))
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
