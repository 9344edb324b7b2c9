"""Rows that several threads sort, first split into buckets by keys from all over, as LLVM text."""

from __future__ import annotations

from weft.backends.cpu.native.llvm import QUICK
from weft.backends.cpu.routines.sorting.network import Lanes, fields
from weft.backends.cpu.routines.sorting.packing import (
    copy_keys,
    counting,
    mask_type,
    piece_start,
    splat,
    split_function,
)
from weft.backends.cpu.routines.sorting.quicksort import BUCKETS, LENGTH, PIECES
from weft.backends.cpu.routines.sorting.rows import Order, key_text, resized
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel

SAMPLES = 1024
MAX_BUCKETS = 64  # buckets


class Reader:
    """Elements of rows as keys, and whether any is more than its key.

    If these are ``placed``, keys are records: they have the position of an element in its row in
    their lower half.
    """

    def __init__(self, f: Function, v: Lanes, source: Order, placed: bool = False) -> None:
        self.f, self.v, self.source, self.placed = f, v, source, placed

    def keys(self, here: str, there: str, count: Number, before: Number = 0) -> str:
        """Keys of at least a vector of elements; the flags of those that keys do not tell all.

        ``before`` is the number of elements in the row before these.
        """
        f, v, size = self.f, self.v, self.source.bits // 8
        kind = f"<{v.count} x i{self.source.bits}>"
        stop = f.emit(f"udiv i64 {f.add(count, v.count - 1)}, {v.count}")
        none = [(mask_type(v), "zeroinitializer")]
        with f.carried(0, stop, none) as (i, (noted,), after):
            at = f.smaller(f.mul(i, v.count), f.sub(count, v.count))
            x = f.load(kind, f.at(here, f.mul(at, size)), size)
            key, bad = key_text(f, self.source, kind, x)
            if bad is not None:
                after[0] = f.emit(f"or {mask_type(v)} {noted}, {bad}")
            key = resized(f, kind, v.llvm, key, "zext")
            if self.placed:
                first = splat(f, v, str(f.add(before, at)))
                place = f.emit(f"add {v.llvm} {first}, {counting(v)}")
                key = f.emit(f"shl {v.llvm} {key}, splat (i{v.bits} {v.bits // 2})")
                key = f.emit(f"or {v.llvm} {key}, {place}")
            f.store(v.llvm, key, f.at(there, f.mul(at, v.step)), v.step)
        return noted

    def note(self, noted: str, place: str) -> None:
        """Mark a row that has such elements."""
        f, word = self.f, f"i{self.v.count}"
        bits = f.emit(f"bitcast {mask_type(self.v)} {noted} to {word}")
        with f.when(f.emit(f"icmp ne {word} {bits}, 0")):
            f.store("i64", "1", place, 8)


def keys_text(v: Lanes, source: Order, placed: bool = False) -> str:
    """Whole rows of at least a vector as keys.

    Buffers: elements, keys, table, and for each row a word that marks it.
    """
    module = Module()
    f = kernel(module, "sort_keys")
    src, dst, table, marks = (f.pointer(i) for i in range(4))
    (length,) = fields(f, table, LENGTH)
    reader = Reader(f, v, source, placed)
    with f.loop("%start", "%stop") as row:
        mark = f.at(marks, f.mul(row, 8))
        f.store("i64", "0", mark, 8)
        begin = f.mul(row, length)
        here, there = f.at(src, f.mul(begin, source.bits // 8)), f.at(dst, f.mul(begin, v.step))
        reader.note(reader.keys(here, there, length), mark)
    f.close()
    return module.text()


def sample_text(v: Lanes, source: Order, placed: bool = False) -> str:
    """Keys from all over each row, and rows unmarked.

    Buffers: elements, keys, table, marks.
    """
    module = Module()
    f = kernel(module, "sort_sample")
    src, dst, table, marks = (f.pointer(i) for i in range(4))
    (length,) = fields(f, table, LENGTH)
    size, kind = source.bits // 8, f"i{source.bits}"
    taken, places = f.local(SAMPLES * size), f.local(SAMPLES * 8)
    reader = Reader(f, v, source)
    with f.loop("%start", "%stop") as row:
        f.store("i64", "0", f.at(marks, f.mul(row, 8)), 8)
        here = f.at(src, f.mul(f.mul(row, length), size))
        step = f.emit(f"udiv i64 {length}, {SAMPLES}")
        with f.loop(0, SAMPLES) as i:
            # not always at the same distance, which data may know of
            far = f.emit(f"urem i64 {f.emit(f'lshr i64 {f.mul(i, 2654435761)}, 7')}, {step}")
            at = f.add(f.mul(i, step), far)
            x = f.load(kind, f.at(here, f.mul(at, size)), size)
            f.store(kind, x, f.at(taken, f.mul(i, size)), size)
            f.store("i64", str(at), f.at(places, f.mul(i, 8)), 8)
        there = f.at(dst, f.mul(row, SAMPLES * v.step))
        reader.keys(taken, there, SAMPLES)
        if placed:
            _place(f, v, there, places)
    f.close()
    return QUICK + module.text()  # there are few of them


def _place(f: Function, v: Lanes, keys: str, places: str) -> None:
    """Keys of samples with their positions as records."""
    with f.loop(0, SAMPLES, v.count) as i:
        here = f.at(keys, f.mul(i, v.step))
        key = f.load(v.llvm, here, v.step)
        key = f.emit(f"shl {v.llvm} {key}, splat (i{v.bits} {v.bits // 2})")
        place = f.load(v.llvm, f.at(places, f.mul(i, 8)), 8)
        f.store(v.llvm, f.emit(f"or {v.llvm} {key}, {place}"), here, v.step)


class Tree:
    """Parts of a piece: each one's keys, memory for as many, their number and a lower bound.

    A part that is split has its halves at twice its number and behind that.
    """

    def __init__(self, f: Function, v: Lanes) -> None:
        self.f, self.v = f, v
        self.kinds = ("ptr", "ptr", "i64", f"i{v.bits}")
        self.entries, self.found = f.local(2 * MAX_BUCKETS * 32), f.local(8)

    def put(self, node: Number, *values: Number) -> None:
        entry = self.f.at(self.entries, self.f.mul(node, 32))
        for i, (kind, x) in enumerate(zip(self.kinds, values, strict=True)):
            self.f.store(kind, str(x), self.f.at(entry, 8 * i), 8)

    def get(self, node: Number) -> list[str]:
        entry = self.f.at(self.entries, self.f.mul(node, 32))
        return [self.f.load(k, self.f.at(entry, 8 * i), 8) for i, k in enumerate(self.kinds)]

    def split(self, node: str, pivot: str) -> None:
        f, v = self.f, self.v
        keys, other, count, least = self.get(node)
        f.store("i64", "0", self.found, 8)
        with f.when(f.emit(f"icmp ne i{v.bits} {pivot}, {least}")):
            args = f"ptr {keys}, ptr {other}, i64 {count}, i{v.bits} {pivot}, ptr {self.found}"
            f.line(f"call void @split({args})")
        below = f.load("i64", self.found, 8)
        above = f.sub(count, below)
        child = f.mul(node, 2)
        self.put(child, other, f.at(keys, f.mul(above, v.step)), below, least)
        self.put(f.add(child, 1), keys, f.at(other, f.mul(below, v.step)), above, pivot)


def _pivot(f: Function, v: Lanes, order: Order, samples: str, node: str) -> str:
    """The key that splits a part, of the sorted samples of a row."""
    f.declare("llvm.ctlz.i64", "i64", "i64, i1")
    level = f.sub(63, f.emit(f"call i64 @llvm.ctlz.i64(i64 {node}, i1 true)"))
    number = f.sub(f.mul(node, 2), f.sub(f.emit(f"shl i64 2, {level}"), 1))
    at = f.mul(number, f.emit(f"lshr i64 {SAMPLES // 2}, {level}"))
    kind = f"i{order.bits}"
    x = f.load(kind, f.at(samples, f.mul(at, order.bits // 8)), order.bits // 8)
    return resized(f, kind, f"i{v.bits}", key_text(f, order, kind, x)[0], "zext")


def _read_function(module: Module, v: Lanes, source: Order, placed: bool) -> None:
    """A function that makes elements of a row keys, and marks the row."""
    f = Function(module, "read", "ptr %src, ptr %dst, i64 %n, i64 %before, ptr %mark")
    reader = Reader(f, v, source, placed)
    reader.note(reader.keys("%src", "%dst", "%n", "%before"), "%mark")
    f.close()


def buckets_text(v: Lanes, source: Order, piece: int, placed: bool = False) -> str:
    """Pieces of rows as keys, bucket by bucket; pieces hold at least a vector.

    Buffers: elements, keys, table, samples in order, marks, and for each piece where each bucket
    begins.
    """
    module = Module()
    split_function(module, v)
    _read_function(module, v, source, placed)
    f = kernel(module, "sort_buckets")
    f.without_care()
    src, dst, table, samples, marks, starts = (f.pointer(i) for i in range(6))
    length, pieces, buckets = fields(f, table, LENGTH, PIECES, BUCKETS)
    near, far = f.local(piece * v.step), f.local(piece * v.step)
    tree = Tree(f, v)
    with f.loop("%start", "%stop") as unit:
        row = f.emit(f"udiv i64 {unit}, {pieces}")
        index = f.sub(unit, f.mul(row, pieces))
        low = piece_start(f, index, length, pieces)
        count = f.sub(piece_start(f, f.add(index, 1), length, pieces), low)
        begin = f.add(f.mul(row, length), low)
        here = f.at(src, f.mul(begin, source.bits // 8))
        mark = f.at(marks, f.mul(row, 8))
        f.line(f"call void @read(ptr {here}, ptr {near}, i64 {count}, i64 {low}, ptr {mark})")
        tree.put(1, near, far, count, 0)
        order = Order(v.bits, "unsigned") if placed else source
        base = f.at(samples, f.mul(row, SAMPLES * order.bits // 8))
        with f.loop(1, buckets) as node:
            tree.split(node, _pivot(f, v, order, base, node))
        there = f.at(dst, f.mul(begin, v.step))
        at = f.at(starts, f.mul(f.mul(unit, f.add(buckets, 1)), 8))
        with f.carried(0, buckets, [("i64", 0)]) as (bucket, (done,), after):
            f.store("i64", done, f.at(at, f.mul(bucket, 8)), 8)
            keys, _, n, _ = tree.get(f.add(buckets, bucket))
            copy_keys(f, v, keys, f.at(there, f.mul(done, v.step)), n)
            after[0] = f.add(done, n)
        f.store("i64", done, f.at(at, f.mul(buckets, 8)), 8)
    f.close()
    return module.text()
