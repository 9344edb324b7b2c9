"""Rows sorted by splitting keys until few are left, which are sorted in registers, as LLVM text."""

from __future__ import annotations

from weft.backends.cpu.routines.sorting import packing
from weft.backends.cpu.routines.sorting.network import (
    Lanes,
    batcher,
    extremes,
    fields,
    halves,
    shuffle,
    transpose_blocks,
)
from weft.backends.cpu.routines.sorting.packing import (
    choose_function,
    copy_keys,
    lanes_below,
    load_some,
    piece_start,
    splat,
    split_function,
    store_some,
    while_not_zero,
)
from weft.backends.cpu.routines.sorting.rows import Order, element_text, resized
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel

ROWS = 16  # vectors that are sorted in registers, at least as many as a vector has lanes

# What the table of a sort holds: the length of rows, their pieces and buckets; what is sorted:
# whole rows, buckets that are to be put together and fit a cache, or those that do not; and the
# only position in rows that is wanted, or -1 for all.
LENGTH, PIECES, BUCKETS, WAY, RANK = range(5)
WHOLE, NEAR, FAR = range(3)
CACHED = 1 << 17  # bytes of a bucket that fits


# --- sorting in registers -------------------------------------------------------------------------


def _out(f: Function, v: Lanes, result: Order | None, x: str) -> tuple[str, int]:
    """Keys as what is stored, and the bits of one."""
    if result is None:
        return x, v.bits
    kind = f"<{v.count} x i{result.bits}>"
    x = resized(f, v.llvm, kind, x, "trunc")
    return element_text(f, result, kind, x), result.bits


def small_function(module: Module, v: Lanes, result: Order | None) -> None:
    """A function that sorts as many keys as a few vectors hold, or less.

    Much of it is loops over vectors in memory, which are less to compile and not slower.
    """
    _clean_function(module, v)
    f = Function(module, "small", "ptr %src, ptr %dst, i64 %n")
    tile = f.local((ROWS + 1) * v.size)
    places = [f.at(tile, i * v.size) for i in range(ROWS)]
    whole = f.emit(f"udiv i64 %n, {v.count}")
    inside = lanes_below(f, v, f.sub("%n", f.mul(whole, v.count)))
    with f.loop(0, whole) as i:
        x = f.load(v.llvm, f.at("%src", f.mul(i, v.size)), v.step)
        f.store(v.llvm, x, f.at(tile, f.mul(i, v.size)), v.size)
    x = load_some(f, v, f.at("%src", f.mul(whole, v.size)), inside)
    f.store(v.llvm, x, f.at(tile, f.mul(whole, v.size)), v.size)
    with f.loop(f.add(whole, 1), ROWS) as i:
        f.store(v.llvm, f"splat (i{v.bits} -1)", f.at(tile, f.mul(i, v.size)), v.size)
    rows = [f.load(v.llvm, place, v.size) for place in places]
    for a, b in batcher(ROWS):
        rows[a], rows[b] = extremes(f, v, rows[a], rows[b])
    for place, x in zip(places, rows, strict=True):
        f.store(v.llvm, x, place, v.size)
    transpose_blocks(f, v, tile, tile, ROWS)
    blocks = [range(i, i + v.count) for i in range(0, ROWS, v.count)]
    runs = [list(run) for run in zip(*blocks, strict=True)]
    while len(runs) > 1:
        _join(f, v, tile, runs)
        runs = [a + b for a, b in zip(runs[::2], runs[1::2], strict=True)]
        f.line(f"call void @clean(ptr {tile}, i64 {ROWS})")
    _put(f, v, result, tile, whole, inside)
    f.close()


def _put(f: Function, v: Lanes, result: Order | None, tile: str, whole: str, inside: str) -> None:
    """Sorted vectors given out, one after the other; they lie in blocks."""
    blocks = ROWS // v.count

    def place(i: str) -> tuple[str, str, int]:
        row = f.add(f.div(i, blocks), f.mul(f.rem(i, blocks), v.count))
        x, bits = _out(f, v, result, f.load(v.llvm, f.at(tile, f.mul(row, v.size)), v.size))
        return x, f.at("%dst", f.mul(i, v.count * bits // 8)), bits

    with f.loop(0, whole) as i:
        x, there, bits = place(i)
        f.store(f"<{v.count} x i{bits}>", x, there, bits // 8)
    x, there, bits = place(whole)
    store_some(f, v.count, bits, x, there, inside)


def _join(f: Function, v: Lanes, tile: str, runs: list[list[int]]) -> None:
    """Pairs of sorted runs made one each of vectors in order, each of them rising and falling."""
    back = list(range(v.count))[::-1]
    first, second = runs[:2]
    far = runs[2][0] - first[0] if len(runs) > 2 else 0
    with f.loop(0, len(runs) // 2) as pair:
        base = f.at(tile, f.mul(pair, far * v.size))
        places = [f.at(base, i * v.size) for i in first + second]
        rows = [f.load(v.llvm, p, v.size) for p in places]
        half = len(first)
        rows[half:] = [shuffle(f, v.llvm, x, "poison", back) for x in reversed(rows[half:])]
        for i, j in halves(len(rows)):
            rows[i], rows[j] = extremes(f, v, rows[i], rows[j])
        for place, x in zip(places, rows, strict=True):
            f.store(v.llvm, x, place, v.size)


def _clean_function(module: Module, v: Lanes) -> None:
    """A function that sorts vectors that rise and fall, two of them at a time.

    Two vectors have as many elements to compare as a vector has lanes: what is compared is brought
    into the same lanes, and lanes are put in order at the end only.
    """
    f = Function(module, "clean", "ptr %tile, i64 %count")
    n, wide = v.count, 128 // v.bits
    with f.loop(0, "%count", 2) as i:
        here = f.at("%tile", f.mul(i, v.size))
        there = f.at(here, v.size)
        x, y = (f.load(v.llvm, p, v.size) for p in (here, there))
        held = list(range(2 * n))  # which element each lane of both has
        far = n // 2
        while far:
            block = wide if far < wide else n  # one instruction can pick these
            even = []
            for start in range(0, n, block):
                inside = [j for j in range(start, start + block) if not j & far]
                even += inside + [n + j for j in inside]
            odd = [j + far for j in even]
            low, high = (shuffle(f, v.llvm, x, y, mask) for mask in (even, odd))
            x, y = extremes(f, v, low, high)
            held = [held[j] for j in even + odd]
            far //= 2
        order = [held.index(j) for j in range(2 * n)]
        for p, mask in ((here, order[:n]), (there, order[n:])):
            f.store(v.llvm, shuffle(f, v.llvm, x, y, mask), p, v.size)
    f.close()


def _fill_function(module: Module, v: Lanes, result: Order | None) -> None:
    """A function that gives out the same key, at least as often as a vector has lanes."""
    f = Function(module, "fill", f"ptr %dst, i64 %n, i{v.bits} %key")
    x, bits = _out(f, v, result, splat(f, v, "%key"))
    with f.loop(0, "%n", v.count) as i:
        at = f.smaller(i, f.sub("%n", v.count))
        f.store(f"<{v.count} x i{bits}>", x, f.at("%dst", f.mul(at, bits // 8)), bits // 8)
    f.close()


# --- the sort -------------------------------------------------------------------------------------


def quick_text(v: Lanes, result: Order | None) -> str:
    """Rows or buckets of rows sorted, each a unit.

    Buffers: keys, memory for as many, results, table; for each bucket where in its row it begins
    and how many keys it has, and for each piece where each bucket begins. Pieces are in the second
    memory. Buckets that do not fit are put together in the first; it is theirs when all are done.
    """
    module = Module()
    split_function(module, v)
    choose_function(module, v)
    _fill_function(module, v, result)
    small_function(module, v, result)
    f = kernel(module, "quick_sort")
    f.without_care()
    unit_of = Unit(f, v)
    out = f.pointer(2)
    size = v.step if result is None else result.bits // 8
    state = State(f, v, result)
    with f.loop("%start", "%stop") as n:
        unit_of.find(n)
        here, there = (f.load("ptr", p, 8) for p in (unit_of.here, unit_of.there))
        begin, count = (f.load("i64", p, 8) for p in (unit_of.begin, unit_of.count))
        f.store("i64", "0", state.height, 8)
        with f.when(f.emit(f"icmp ne i64 {count}, 0")):
            state.push(here, there, f.at(out, f.mul(begin, size)), count, packing.DEPTH)
        row = f.emit(f"udiv i64 {n}, {unit_of.buckets}")
        wanted = f.at(out, f.mul(f.add(f.mul(row, unit_of.length), unit_of.rank), size))
        with while_not_zero(f, state.height) as height:
            state.pop(height, f.emit(f"icmp slt i64 {unit_of.rank}, 0"), wanted)
    f.close()
    return module.text()


class Unit:
    """What a unit sorts: its keys, memory for as many, where it begins, and how many they are."""

    def __init__(self, f: Function, v: Lanes) -> None:
        self.f, self.v = f, v
        self.keys, self.other, _, table, self.bounds, self.starts = (f.pointer(i) for i in range(6))
        self.length, self.pieces, self.buckets, self.way, self.rank = fields(
            f, table, LENGTH, PIECES, BUCKETS, WAY, RANK
        )
        self.near, self.far = f.local(CACHED), f.local(CACHED)
        self.here, self.there, self.begin, self.count = (f.local(8) for _ in range(4))

    def find(self, n: str) -> None:
        f, v = self.f, self.v
        row = f.emit(f"udiv i64 {n}, {self.buckets}")
        first = f.mul(row, self.length)
        bound = f.at(self.bounds, f.mul(n, 16))
        with f.when(f.emit(f"icmp eq i64 {self.way}, {WHOLE}")):
            self.set(f.at(self.keys, f.mul(first, v.step)), first, self.length)
        with f.when(f.emit(f"icmp eq i64 {self.way}, {FAR}")):
            begin, count = f.load("i64", bound, 8), f.load("i64", f.at(bound, 8), 8)
            begin = str(f.add(first, begin))
            self.set(f.at(self.keys, f.mul(begin, v.step)), begin, count)
        with f.when(f.emit(f"icmp eq i64 {self.way}, {NEAR}")):
            self.collect(n, row, first, bound)

    def set(self, here: str, begin: Number, count: Number) -> None:
        f = self.f
        f.store("ptr", here, self.here, 8)
        f.store("ptr", f.at(self.other, f.mul(begin, self.v.step)), self.there, 8)
        f.store("i64", str(begin), self.begin, 8)
        f.store("i64", str(count), self.count, 8)

    def collect(self, n: str, row: str, first: Number, bound: str) -> None:
        """A bucket put together from pieces."""
        f, v = self.f, self.v
        step = f.mul(f.add(self.buckets, 1), 8)
        bucket = f.sub(n, f.mul(row, self.buckets))
        base = f.at(self.starts, f.add(f.mul(f.mul(row, self.pieces), step), f.mul(bucket, 8)))
        numbers: list[tuple[str, Number]] = [("i64", 0), ("i64", 0)]
        with f.carried(0, self.pieces, numbers) as (i, (begin, end), after):
            place = f.at(base, f.mul(i, step))
            after[0] = f.add(begin, f.load("i64", place, 8))
            after[1] = f.add(end, f.load("i64", f.at(place, 8), 8))
        every = f.emit(f"icmp slt i64 {self.rank}, 0")
        inside = f.emit(f"icmp ult i64 {f.sub(self.rank, begin)}, {f.sub(end, begin)}")
        needed = f.emit(f"or i1 {every}, {inside}")
        total = f.emit(f"select i1 {needed}, i64 {f.sub(end, begin)}, i64 0")
        stop = f.emit(f"select i1 {needed}, i64 {self.pieces}, i64 0")
        fits = f.emit(f"icmp sle i64 {total}, {CACHED // v.step}")
        start = f.add(first, begin)
        there = f.at(self.keys, f.mul(start, v.step))
        there = f.emit(f"select i1 {fits}, ptr {self.near}, ptr {there}")
        with f.carried(0, stop, [("i64", 0)]) as (i, (done,), after):
            place = f.at(base, f.mul(i, step))
            low, high = f.load("i64", place, 8), f.load("i64", f.at(place, 8), 8)
            count = f.sub(high, low)
            begun = f.add(first, piece_start(f, i, self.length, self.pieces))
            source = f.at(self.other, f.mul(f.add(begun, low), v.step))
            to = f.at(there, f.mul(done, v.step))
            copy_keys(f, v, source, to, count)
            after[0] = f.add(done, count)
        now = f.emit(f"select i1 {fits}, i64 {total}, i64 0")
        self.set(there, start, now)
        f.store("ptr", self.far, self.there, 8)
        f.store("i64", begin, bound, 8)
        f.store("i64", str(f.sub(total, now)), f.at(bound, 8), 8)


class State:
    """What is left to sort while a unit is: parts of its keys, the smaller one of two last."""

    def __init__(self, f: Function, v: Lanes, result: Order | None) -> None:
        self.f, self.v, self.result = f, v, result
        self.height, self.entries = f.local(8), f.local(64 * 40)
        self.found, self.pivot, self.flat = f.local(8), f.local(8), f.local(8)

    def push(self, keys: str, other: str, out: str, count: Number, depth: Number) -> None:
        f = self.f
        height = f.load("i64", self.height, 8)
        entry = f.at(self.entries, f.mul(height, 40))
        values = (("ptr", keys), ("ptr", other), ("ptr", out), ("i64", count), ("i64", depth))
        for i, (kind, value) in enumerate(values):
            f.store(kind, str(value), f.at(entry, 8 * i), 8)
        f.store("i64", str(f.add(height, 1)), self.height, 8)

    def pop(self, height: str, every: str, wanted: str) -> None:
        """The last part sorted or split, if ``every`` one is to be or it has what is wanted."""
        f, v = self.f, self.v
        left = f.sub(height, 1)
        f.store("i64", str(left), self.height, 8)
        entry = f.at(self.entries, f.mul(left, 40))
        keys, other, out = (f.load("ptr", f.at(entry, 8 * i), 8) for i in range(3))
        count, depth = (f.load("i64", f.at(entry, 8 * i), 8) for i in (3, 4))
        size = v.step if self.result is None else self.result.bits // 8
        before = f.emit(f"icmp ult ptr {wanted}, {out}")
        inside = f.emit(f"icmp ult ptr {wanted}, {f.at(out, f.mul(count, size))}")
        inside = f.emit(f"select i1 {before}, i1 false, i1 {inside}")
        few = f.emit(f"icmp sle i64 {count}, {ROWS * v.count}")
        with f.when(f.emit(f"or i1 {every}, {inside}")):
            with f.when(few):
                f.line(f"call void @small(ptr {keys}, ptr {out}, i64 {count})")
            with f.unless(few):
                self.split(keys, other, out, count, depth)

    def split(self, keys: str, other: str, out: str, count: str, depth: str) -> None:
        f, v = self.f, self.v
        args = f"ptr {keys}, i64 {count}, i64 {depth}, ptr {self.pivot}, ptr {self.flat}"
        f.line(f"call void @choose({args})")
        flat = f.emit(f"icmp ne i64 {f.load('i64', self.flat, 8)}, 0")
        pivot = f"i{v.bits} {f.load(f'i{v.bits}', self.pivot, 8)}"
        with f.when(flat):
            f.line(f"call void @fill(ptr {out}, i64 {count}, {pivot})")
        with f.unless(flat):
            args = f"ptr {keys}, ptr {other}, i64 {count}, {pivot}, ptr {self.found}"
            f.line(f"call void @split({args})")
            below = f.load("i64", self.found, 8)
            above = f.sub(count, below)
            size = v.step if self.result is None else self.result.bits // 8
            next_depth = f.sub(depth, f.emit(f"zext i1 {f.emit(f'icmp ne i64 {depth}, 0')} to i64"))
            parts = (
                (other, f.at(keys, f.mul(above, v.step)), out, below),
                (keys, f.at(other, f.mul(below, v.step)), f.at(out, f.mul(below, size)), above),
            )
            less = f.emit(f"icmp slt i64 {below}, {above}")
            for first in (False, True):  # the smaller one is the next to go on with
                chosen = []
                for a, b, kind in zip(*parts, ("ptr", "ptr", "ptr", "i64"), strict=True):
                    if not first:
                        a, b = b, a
                    chosen.append(f.emit(f"select i1 {less}, {kind} {a}, {kind} {b}"))
                self.push(chosen[0], chosen[1], chosen[2], chosen[3], next_depth)
