"""Sorting networks on vectors as LLVM text: rows sorted side by side.

A tile holds one row in each lane: sorting networks compare whole vectors and never branch. Records
are unsigned numbers; sizes come in a table of 64-bit numbers, so one text serves every shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.backends.cpu.routines.sorting.rows import Order, element_text, key_text, resized
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.base.record import Record

BLOCK = 16  # vectors sorted in registers
MAX_ROW_ELEMENTS = 2048
L1_VECTORS = 256  # vectors that stay in the nearest cache

# What the table of a sort holds, in order: rows and their length, that length rounded up to blocks,
# doublings from a block to a row, the distance between elements, and rows that share a flag.
ROWS, LENGTH, PADDED, LEVELS, INNER, FLAGGED = range(6)


class Lanes(Record):
    """The vectors of a sort."""

    count: int
    bits: int  # of a record

    @property
    def llvm(self) -> str:
        return f"<{self.count} x i{self.bits}>"

    @property
    def size(self) -> int:
        return self.count * self.bits // 8

    @property
    def step(self) -> int:
        return self.bits // 8


# --- pieces of text -------------------------------------------------------------------------------


def shuffle(f: Function, kind: str, a: str, b: str, mask: list[int]) -> str:
    lanes = ", ".join([f"i32 {i}" for i in mask])
    return f.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{lanes}>")


def extremes(f: Function, v: Lanes, a: str, b: str) -> tuple[str, str]:
    """The smaller and the larger of records."""
    out = []
    for name in ("umin", "umax"):
        called = f"llvm.{name}.v{v.count}i{v.bits}"
        f.declare(called, v.llvm, f"{v.llvm}, {v.llvm}")
        out.append(f.emit(f"call {v.llvm} @{called}({v.llvm} {a}, {v.llvm} {b})"))
    return out[0], out[1]


def exchange(f: Function, v: Lanes, a: str, b: str) -> None:
    """Two vectors in memory put in order, lane by lane."""
    x, y = f.load(v.llvm, a, v.size), f.load(v.llvm, b, v.size)
    low, high = extremes(f, v, x, y)
    f.store(v.llvm, low, a, v.size)
    f.store(v.llvm, high, b, v.size)


def transpose(module: Module, v: Lanes) -> None:
    """A function that swaps rows and lanes of as many vectors as have lanes."""
    f = Function(module, "transpose", "ptr %src, ptr %dst")
    transpose_blocks(f, v, "%src", "%dst", v.count)
    f.close()


def transpose_blocks(f: Function, v: Lanes, src: str, dst: str, rows: int) -> None:
    """The same for each block of so many rows."""
    n, step = v.count, 1
    while step < n:
        first = [j if not j & step else n + j - step for j in range(n)]
        second = [j + step if not j & step else n + j for j in range(n)]
        with f.loop(0, rows // 2) as i:  # those without the step's bit: a loop is less to compile
            low = f.emit(f"and i64 {i}, {step - 1}")
            place = f.mul(f.sub(f.mul(i, 2), low), v.size)
            a, b = (f.load(v.llvm, f.at(src, f.add(place, k * v.size)), v.step) for k in (0, step))
            for k, mask in ((0, first), (step, second)):
                to = f.at(dst, f.add(place, k * v.size))
                f.store(v.llvm, shuffle(f, v.llvm, a, b, mask), to, v.step)
        src, step = dst, 2 * step


def batcher(n: int) -> list[tuple[int, int]]:
    """The comparisons that sort ``n`` elements, a power of two (Batcher 1968)."""
    pairs = []
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        pairs.append((i + j, i + j + k))
            k //= 2
        p *= 2
    return pairs


def halves(n: int) -> list[tuple[int, int]]:
    """The comparisons that sort ``n`` elements which rise and then fall."""
    pairs = []
    k = n // 2
    while k:
        pairs += [(i, i + k) for i in range(n) if not i & k]
        k //= 2
    return pairs


# --- sorting a tile -------------------------------------------------------------------------------


def tile_sort(module: Module, v: Lanes) -> str:
    """A function that sorts a tile of so many vectors, a multiple of the block."""
    f = Function(module, "tile_sort", "ptr %tile, i64 %count, i64 %levels")
    with f.loop(0, "%count", BLOCK) as i:
        _in_registers(f, v, i, batcher(BLOCK))
    with f.loop(0, "%levels") as level:
        part = f.emit(f"shl i64 {BLOCK}, {level}")
        pair = f.emit(f"shl i64 {2 * BLOCK}, {level}")
        with _steps(f, 0, "%count", pair) as b:
            end = f.smaller(f.add(b, pair), "%count")
            _flip(f, v, b, part, pair)
            # Far exchanges over the whole pair, then near ones within what the cache holds.
            with f.loop(0, 2) as near:
                is_near = f.emit(f"icmp eq i64 {near}, 1")
                small = f.smaller(pair, L1_VECTORS)
                region = f.emit(f"select i1 {is_near}, i64 {small}, i64 {pair}")
                least = f.emit(f"select i1 {is_near}, i64 {BLOCK}, i64 {L1_VECTORS}")
                with _steps(f, b, end, region) as low:
                    _exchanges(f, v, low, f.smaller(f.add(low, region), end), region, least)
            with _steps(f, b, end, BLOCK) as i:
                _in_registers(f, v, i, halves(BLOCK))
    return f.close()


def _exchanges(f: Function, v: Lanes, low: str, high: Number, region: str, least: str) -> None:
    """Exchanges in a region over half of it, a quarter and so on, down to the least distance."""
    stages = f.sub(_log2(f, region), _log2(f, least))
    with f.loop(0, stages) as stage:
        far = f.emit(f"lshr i64 {region}, {f.add(stage, 1)}")
        _halve(f, v, low, high, far)


def _log2(f: Function, x: str) -> str:
    """The logarithm of a power of two."""
    f.declare("llvm.cttz.i64", "i64", "i64, i1")
    return f.emit(f"call i64 @llvm.cttz.i64(i64 {x}, i1 true)")


@contextmanager
def _steps(f: Function, start: Number, stop: Number, step: Number) -> Iterator[str]:
    """A loop by a step that is known when it runs."""
    span = f.sub(f.add(f.sub(stop, start), step), 1)
    count = f.emit(f"udiv i64 {span}, {step}")
    with f.loop(0, count) as n:
        yield str(f.add(start, f.mul(n, step)))


def _row(f: Function, v: Lanes, i: Number) -> str:
    return f.at("%tile", f.mul(i, v.size))


def _in_registers(f: Function, v: Lanes, i: str, pairs: list[tuple[int, int]]) -> None:
    base = _row(f, v, i)
    places = [f.at(base, k * v.size) for k in range(BLOCK)]
    rows = [f.load(v.llvm, p, v.size) for p in places]
    for a, b in pairs:
        rows[a], rows[b] = extremes(f, v, rows[a], rows[b])
    for p, row in zip(places, rows, strict=True):
        f.store(v.llvm, row, p, v.size)


def _flip(f: Function, v: Lanes, b: str, part: str, pair: str) -> None:
    """The first half of a pair of runs against the second one backwards."""
    end = f.add(b, pair)
    missing = f.sub(end, "%count")
    some = f.emit(f"icmp sgt i64 {missing}, 0")
    first = f.emit(f"select i1 {some}, i64 {missing}, i64 0")
    with f.loop(first, part, 4) as i:
        low, high = _row(f, v, f.add(b, i)), _row(f, v, f.sub(f.sub(end, 1), i))
        for k in range(4):
            exchange(f, v, f.at(low, k * v.size), f.at(high, -k * v.size))


def _halve(f: Function, v: Lanes, b: str, end: Number, far: str) -> None:
    """Elements so far from each other put in order."""
    with _steps(f, b, end, f.mul(far, 2)) as j:
        left = f.sub(f.sub(end, j), far)
        low = _row(f, v, j)
        high = f.at(low, f.mul(far, v.size))
        with f.loop(0, f.smaller(far, left), 4) as i:
            a, c = f.at(low, f.mul(i, v.size)), f.at(high, f.mul(i, v.size))
            for k in range(4):
                exchange(f, v, f.at(a, k * v.size), f.at(c, k * v.size))


# --- rows -----------------------------------------------------------------------------------------


def fields(f: Function, table: str, *indices: int) -> list[str]:
    """Numbers of a table."""
    return [f.load("i64", f.at(table, 8 * i), 8) for i in indices]


class Tile:
    """The text of a kernel that fills tiles, sorts them and empties them.

    Buffers: elements, result, table, and a word for each tile that says whether an element of it
    is more than its key.
    """

    def __init__(self, name: str, v: Lanes, order: Order) -> None:
        self.v, self.order = v, order
        self.module = Module()
        tile_sort(self.module, v)
        self.f = f = kernel(self.module, name)
        self.src, self.dst, self.table, self.flags = (f.pointer(i) for i in range(4))
        self.tile, self.noted = f.local(MAX_ROW_ELEMENTS * v.size), f.local(64)
        self.bases = f.local(8 * v.count)  # where each lane's row begins
        self.block = f.local(v.count * v.size)

    def text(self) -> str:
        self.f.close()
        return self.module.text()

    def row(self, i: Number) -> str:
        return self.f.at(self.tile, self.f.mul(i, self.v.size))

    def keys(self, x: str, lanes: int) -> str:
        """Loaded elements as records; where these do not say all is noted."""
        kind, wide = f"i{self.order.bits}", f"i{self.v.bits}"
        if lanes > 1:
            kind, wide = f"<{lanes} x {kind}>", f"<{lanes} x {wide}>"
        key, bad = key_text(self.f, self.order, kind, x)
        self.note(bad, lanes)
        return resized(self.f, kind, wide, key, "zext")

    def elements(self, x: str) -> tuple[str, str]:
        """Records as elements, and their type."""
        kind = f"<{self.v.count} x i{self.order.bits}>"
        x = resized(self.f, self.v.llvm, kind, x, "trunc")
        return element_text(self.f, self.order, kind, x), kind

    def note(self, bad: str | None, lanes: int) -> None:
        """Remember that keys do not say all."""
        if bad is None:
            return
        f, v = self.f, self.v
        kind, bit = (f"i{v.bits}", "i1") if lanes == 1 else (v.llvm, f"<{v.count} x i1>")
        wide = f.emit(f"sext {bit} {bad} to {kind}")
        old = f.load(kind, self.noted, 64 if lanes > 1 else v.step)
        new = f.emit(f"or {kind} {old}, {wide}")
        f.store(kind, new, self.noted, 64 if lanes > 1 else v.step)

    def sort(self, length: Number, padded: Number, levels: str) -> None:
        f, v = self.f, self.v
        with f.loop(length, padded) as i:
            f.store(v.llvm, f"splat (i{v.bits} -1)", self.row(i), v.size)
        f.line(f"call void @tile_sort(ptr {self.tile}, i64 {padded}, i64 {levels})")

    def flag(self, t: str) -> None:
        """Tell what was noted of a tile."""
        f, v = self.f, self.v
        if self.order.kind != "float":
            return
        name = f"llvm.vector.reduce.or.v{v.count}i{v.bits}"
        f.declare(name, f"i{v.bits}", v.llvm)
        noted = f.load(v.llvm, self.noted, 64)
        any_ = f.emit(f"call i{v.bits} @{name}({v.llvm} {noted})")
        bit = f.emit(f"icmp ne i{v.bits} {any_}, 0")
        f.store("i64", f.emit(f"zext i1 {bit} to i64"), f.at(self.flags, f.mul(t, 8)), 8)


def rows_text(v: Lanes, order: Order, narrow: bool) -> str:
    """Contiguous rows sorted; ``narrow`` ones may be shorter than a vector."""
    k = Tile("sort_rows", v, order)
    if not narrow:
        transpose(k.module, v)
    f = k.f
    rows, length, padded, levels = fields(f, k.table, ROWS, LENGTH, PADDED, LEVELS)
    size = f.mul(length, order.bits // 8)
    with f.loop("%start", "%stop") as t:
        f.store(v.llvm, "zeroinitializer", k.noted, 64)
        first = f.mul(t, v.count)
        for base, fill in ((k.src, True), (k.dst, False)):
            with f.loop(0, v.count) as lane:
                row = f.smaller(f.add(first, lane), f.sub(rows, 1))
                f.store("ptr", f.at(base, f.mul(row, size)), f.at(k.bases, f.mul(lane, 8)), 8)
            if narrow:
                _move_elements(k, length, fill)
            else:
                _move_blocks(k, length, fill)
            if fill:
                k.sort(length, padded, levels)
        k.flag(t)
    return k.text()


def _move_blocks(k: Tile, length: str, fill: bool) -> None:
    """Blocks of rows transposed into or from the tile; the last one overlaps the one before it."""
    f, v, size = k.f, k.v, k.order.bits // 8
    with f.loop(0, length, v.count) as i:
        column = f.smaller(i, f.sub(length, v.count))
        if not fill:
            f.line(f"call void @transpose(ptr {k.row(column)}, ptr {k.block})")
        with f.loop(0, v.count) as lane:
            base = f.load("ptr", f.at(k.bases, f.mul(lane, 8)), 8)
            here, there = f.at(base, f.mul(column, size)), f.at(k.block, f.mul(lane, v.size))
            if fill:
                x = f.load(f"<{v.count} x i{k.order.bits}>", here, size)
                f.store(v.llvm, k.keys(x, v.count), there, v.size)
            else:
                x, kind = k.elements(f.load(v.llvm, there, v.size))
                f.store(kind, x, here, size)
        if fill:
            f.line(f"call void @transpose(ptr {k.block}, ptr {k.row(column)})")


def _move_elements(k: Tile, length: str, fill: bool) -> None:
    """Rows moved into or from the tile one element at a time."""
    f, v, size = k.f, k.v, k.order.bits // 8
    element = f"i{k.order.bits}"
    if not fill:  # elements in place of keys
        with f.loop(0, length) as i:
            x, kind = k.elements(f.load(v.llvm, k.row(i), v.size))
            f.store(kind, x, k.row(i), v.size)
    with f.loop(0, v.count) as lane:
        base = f.load("ptr", f.at(k.bases, f.mul(lane, 8)), 8)
        own = f.at(k.tile, f.mul(lane, v.step if fill else size))
        with f.loop(0, length) as i:
            here, there = f.at(base, f.mul(i, size)), f.at(own, f.mul(i, v.size))
            if fill:
                f.store(f"i{v.bits}", k.keys(f.load(element, here, size), 1), there, v.step)
            else:
                f.store(element, f.load(element, there, size), here, size)


def columns_text(v: Lanes, order: Order) -> str:
    """Neighbouring columns of elements, sorted."""
    k = Tile("sort_columns", v, order)
    f, size = k.f, order.bits // 8
    length, padded, levels, inner = fields(f, k.table, LENGTH, PADDED, LEVELS, INNER)
    kind = f"<{v.count} x i{order.bits}>"
    blocks = f.div(f.add(inner, v.count - 1), v.count)
    step = f.mul(inner, size)
    with f.loop("%start", "%stop") as t:
        f.store(v.llvm, "zeroinitializer", k.noted, 64)
        outer = f.emit(f"udiv i64 {t}, {blocks}")
        column = f.mul(f.sub(t, f.mul(outer, blocks)), v.count)
        column = f.smaller(column, f.sub(inner, v.count))
        place = f.add(f.mul(f.mul(outer, length), step), f.mul(column, size))
        here, there = f.at(k.src, place), f.at(k.dst, place)
        with f.loop(0, length) as i:
            x = f.load(kind, f.at(here, f.mul(i, step)), size)
            f.store(v.llvm, k.keys(x, v.count), k.row(i), v.size)
        k.sort(length, padded, levels)
        with f.loop(0, length) as i:
            x, _ = k.elements(f.load(v.llvm, k.row(i), v.size))
            f.store(kind, x, f.at(there, f.mul(i, step)), size)
        k.flag(t)
    return k.text()
