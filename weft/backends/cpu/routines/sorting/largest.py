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
    order_of,
)
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.base.functional import lru
from weft.base.lazy import Late
from weft.kernel.program import Lowered, Place, Type

_sort = Late("weft.backends.cpu.routines.sorting.sort")

STRIDE = 32  # elements of a block
HEAP = 8192  # elements that are kept at most


def _key_text(f: Function, order: Order, kind: str, x: str, canonical: bool, flipped: bool) -> str:
    """The keys of elements, as `records.key` has them, for single ones or vectors."""

    def number(n: int) -> str:
        return f"splat (i{order.bits} {n})" if kind.startswith("<") else str(n)

    key = x
    if order.kind == "signed":
        key = f.emit(f"xor {kind} {x}, {number(order.sign)}")
    if order.kind == "float":
        minus = f.emit(f"ashr {kind} {x}, {number(order.bits - 1)}")
        key = f.emit(f"xor {kind} {x}, {f.emit(f'or {kind} {minus}, {number(order.sign)}')}")
    if order.kind == "float" and canonical:
        size = f.emit(f"and {kind} {x}, {number(order.sign - 1)}")
        last = order.nan ^ order.sign
        bit = kind.replace(f"i{order.bits}", "i1")
        for test, limit, one in (("eq", 0, order.sign), ("ugt", order.infinity, last)):
            found = f.emit(f"icmp {test} {kind} {size}, {number(limit)}")
            key = f.emit(f"select {bit} {found}, {kind} {number(one)}, {kind} {key}")
    return f.emit(f"xor {kind} {key}, {number(-1)}") if flipped else key


def _sift_function(module: Module, word: str, step: int) -> None:
    """A function that puts a record into a heap in place of its root, the last one in order."""
    f = Function(module, "sift", f"ptr %heap, i64 %count, {word} %x")
    f.line("br label %look")
    f.label("look")
    f.line("%at = phi i64 [ 0, %entry ], [ %child, %down ]")
    left = f.add(f.mul("%at", 2), 1)
    last = f.sub("%count", 1)
    f.line(f"br i1 {f.emit(f'icmp sle i64 {left}, {last}')}, label %compare, label %put")
    f.label("compare")
    right = f.smaller(f.add(left, 1), last)
    a, b = (f.load(word, f.at("%heap", f.mul(i, step)), step) for i in (left, right))
    more = f.emit(f"icmp ugt {word} {b}, {a}")
    f.line(f"%child = select i1 {more}, i64 {right}, i64 {left}")
    kept = f.emit(f"select i1 {more}, {word} {b}, {word} {a}")
    f.line(f"br i1 {f.emit(f'icmp ugt {word} {kept}, %x')}, label %down, label %put")
    f.label("down")
    f.store(word, kept, f.at("%heap", f.mul("%at", step)), step)
    f.line("br label %look")
    f.label("put")
    f.store(word, "%x", f.at("%heap", f.mul("%at", step)), step)
    f.close()


@lru(64)
def heap_text(order: Order, canonical: bool, flipped: bool) -> str:
    """The first elements of rows in order. Buffers: elements, values, indices, and a table of the
    length of rows, the distance of their elements and how many are wanted."""
    size, element = order.bits // 8, f"i{order.bits}"
    width = 128 if order.bits == 64 else 64  # of a record
    word, step = f"i{width}", width // 8
    module = Module()
    _sift_function(module, word, step)
    f = kernel(module, "top_heap")
    src, values, indices, table = (f.pointer(i) for i in range(4))
    length, inner, wanted = (f.load("i64", f.at(table, 8 * i), 8) for i in range(3))
    heap = f.local(HEAP * step)
    near = f.emit(f"icmp eq i64 {inner}, 1")
    first = f.emit(f"select i1 {near}, i64 {wanted}, i64 {length}")

    def record(here: str, i: str) -> str:
        x = f.load(element, f.at(here, f.mul(f.mul(i, inner), size)), size)
        key = _key_text(f, order, element, x, canonical, flipped)
        key = f.emit(f"zext {element} {key} to {word}")
        index = i if width == 64 else f.emit(f"zext i64 {i} to {word}")
        return f.emit(f"or {word} {f.emit(f'shl {word} {key}, {width // 2}')}, {index}")

    def some_before(here: str, b: str) -> list[str]:
        """Whether a block has elements that come before the last one kept."""
        vector = f"<{STRIDE} x {element}>"
        block = f.load(vector, f.at(here, f.mul(b, size)), size)
        block = _key_text(f, order, vector, block, canonical, flipped)
        name = f"llvm.vector.reduce.umin.v{STRIDE}{element}"
        f.declare(name, element, vector)
        first = f.emit(f"call {element} @{name}({vector} {block})")
        limit = f.emit(f"lshr {word} {f.load(word, heap, step)}, {width // 2}")
        limit = f.emit(f"trunc {word} {limit} to {element}")
        return [f.emit(f"icmp ult {element} {first}, {limit}")]

    def sift(count: Number, x: str) -> None:
        f.line(f"call void @sift(ptr {heap}, i64 {count}, {word} {x})")

    with f.loop("%start", "%stop") as row:
        outer, offset = f.emit(f"udiv i64 {row}, {inner}"), f.emit(f"urem i64 {row}, {inner}")
        base = f.add(f.mul(f.mul(outer, length), inner), offset)
        here = f.at(src, f.mul(base, size))
        with f.loop(0, wanted) as i:
            f.store(word, "-1", f.at(heap, f.mul(i, step)), step)
        with f.loop(0, length, STRIDE) as b:
            end = f.add(b, STRIDE)
            whole = f.emit(f"icmp sle i64 {end}, {length}")
            full = f.emit(f"icmp sge i64 {b}, {first}")
            whole = f.emit(f"and i1 {whole}, {full}")
            some = f.either(whole, "i1", lambda: some_before(here, b), lambda: ["true"])
            with f.when(some[0]), f.loop(b, f.smaller(end, length)) as i:
                x = record(here, i)
                with f.when(f.emit(f"icmp ult {word} {x}, {f.load(word, heap, step)}")):
                    sift(wanted, x)
        with f.loop(1, wanted) as i:
            end = f.sub(wanted, i)
            place = f.at(heap, f.mul(end, step))
            x = f.load(word, place, step)
            f.store(word, f.load(word, heap, step), place, step)
            sift(end, x)
        to = f.add(f.mul(f.mul(outer, wanted), inner), offset)
        with f.loop(0, wanted) as n:
            found = f.load(word, f.at(heap, f.mul(n, step)), step)
            found = f.emit(f"trunc {word} {found} to i32")
            place = f.add(to, f.mul(n, inner))
            f.store("i32", found, f.at(indices, f.mul(place, 4)), 4)
            at = f.mul(f.emit(f"zext i32 {found} to i64"), inner)
            x = f.load(element, f.at(here, f.mul(at, size)), size)
            f.store(element, x, f.at(values, f.mul(place, size)), size)
    f.close()
    return module.text()


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
