"""Rows split at the element of a rank: below it, equal to it and above it, each in the old order.

The rank's key is near those of sorted samples, so few keys have to be looked at for it; if samples
mislead, it is found bit by bit. Then every piece of a row knows where its elements go.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod
from typing import Any

from weft import dtypes
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting import packing
from weft.backends.cpu.routines.sorting.buckets import Reader
from weft.backends.cpu.routines.sorting.network import (
    Lanes,
    Order,
    fields,
    key_text,
    resized,
)
from weft.backends.cpu.routines.sorting.packing import (
    Pivot,
    choose_function,
    copy_keys,
    lanes_below,
    load_some,
    mask_type,
    ones_in,
    piece_start,
    splat,
    split_function,
    while_not_zero,
)
from weft.backends.cpu.routines.sorting.quicksort import ROWS, WHOLE, small_function
from weft.backends.cpu.routines.sorting.rows import MIN_UNIT_ELEMENTS, Plan, Rows, order_of
from weft.backends.cpu.routines.sorting.sort import ROW_CHUNK_ELEMENTS, lanes, quick_text
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.base.functional import lru
from weft.kernel.program import Lowered, Place, Type

# What is done with a vector of keys: position, keys, which lanes (all for None), values carried.
Step = Callable[[Number, str, str | None, list[str]], list[Number]]

SAMPLES = 4096
# What the table holds: the length of rows, pieces of a row, the rank, and of the sorted samples the
# ones between which its key is looked for, -1 where that has no end.
LENGTH, PIECES, RANK, LOW, HIGH = range(5)


# --- texts ----------------------------------------------------------------------------------------


def over(
    f: Function,
    v: Lanes,
    order: Order,
    here: str,
    count: Number,
    values: list[tuple[str, Number]],
    body: Step,
) -> list[Number]:
    """Values carried over vectors of keys: position, keys, which lanes (all for None), values."""
    kind, size = f"<{v.count} x i{order.bits}>", order.bits // 8

    def keys(x: str) -> str:
        return resized(f, kind, v.llvm, key_text(f, order, kind, x)[0], "zext")

    whole = f.emit(f"udiv i64 {count}, {v.count}")
    with f.carried(0, whole, values) as (i, held, after):
        at = f.mul(i, v.count)
        x = f.load(kind, f.at(here, f.mul(at, size)), size)
        after[:] = body(at, keys(x), None, held)
    at = f.mul(whole, v.count)
    inside = lanes_below(f, v, f.sub(count, at))
    narrow = Lanes(v.count, order.bits)
    x = load_some(f, narrow, f.at(here, f.mul(at, size)), inside)
    return body(at, keys(x), inside, held)


def both(f: Function, v: Lanes, a: str, b: str | None) -> str:
    return a if b is None else f.emit(f"and {mask_type(v)} {a}, {b}")


def compared(f: Function, v: Lanes, word: str, x: str, y: str, inside: str | None) -> str:
    return both(f, v, f.emit(f"icmp {word} {v.llvm} {x}, {y}"), inside)


def stored(f: Function, count: int, bits: int, x: str, place: str, flags: str) -> None:
    """The lanes that are wanted, side by side in memory."""
    kind, mask = f"<{count} x i{bits}>", f"<{count} x i1>"
    name = f"llvm.masked.compressstore.v{count}i{bits}"
    f.declare(name, "void", f"{kind}, ptr, {mask}")
    f.line(f"call void @{name}({kind} {x}, ptr align {bits // 8} {place}, {mask} {flags})")


class Unit:
    """A piece of a row: where it begins in all elements, how many it has, and whose it is."""

    def __init__(self, f: Function, unit: str, length: str, pieces: str) -> None:
        self.row = f.emit(f"udiv i64 {unit}, {pieces}")
        self.index = f.sub(unit, f.mul(self.row, pieces))
        low = piece_start(f, self.index, length, pieces)
        self.count = f.sub(piece_start(f, f.add(self.index, 1), length, pieces), low)
        self.begin = f.add(f.mul(self.row, length), low)


def two_counts(
    f: Function, v: Lanes, order: Order, place: tuple[str, Unit, str], counts: str, step: Step
) -> None:
    """Two numbers counted over the keys of a unit, and kept under its number."""
    src, unit, number = place
    here = f.at(src, f.mul(unit.begin, order.bits // 8))
    found = over(f, v, order, here, unit.count, [("i64", 0), ("i64", 0)], step)
    for k in range(2):
        f.store("i64", str(found[k]), f.at(counts, f.add(f.mul(number, 16), 8 * k)), 8)


@lru(64)
def sample_text(v: Lanes, order: Order) -> str:
    """Keys from all over rows. Buffers: elements, keys, table."""
    f = kernel(Module(), "part_sample")
    src, dst, table = (f.pointer(i) for i in range(3))
    (length,) = fields(f, table, LENGTH)
    size, kind = order.bits // 8, f"i{order.bits}"
    taken = f.local(SAMPLES * size)
    with f.loop("%start", "%stop") as row:
        here = f.at(src, f.mul(f.mul(row, length), size))
        with f.loop(0, SAMPLES) as i:
            at = f.emit(f"lshr i64 {f.mul(i, length)}, {SAMPLES.bit_length() - 1}")
            x = f.load(kind, f.at(here, f.mul(at, size)), size)
            f.store(kind, x, f.at(taken, f.mul(i, size)), size)
        there = f.at(dst, f.mul(row, SAMPLES * v.step))
        Reader(f, v, order).keys(taken, there, SAMPLES)
    f.close()
    return f.module.text()


@lru(64)
def window_text(v: Lanes, order: Order) -> str:
    """Keys near the one that is looked for, packed in pieces.

    Buffers: elements, keys, table, sorted samples, and for each piece how many keys are below
    those and how many they are.
    """
    f = kernel(Module(), "part_window")
    src, dst, table, samples, counts = (f.pointer(i) for i in range(5))
    length, pieces, low, high = fields(f, table, LENGTH, PIECES, LOW, HIGH)
    word = f"i{v.bits}"
    with f.loop("%start", "%stop") as n:
        unit = Unit(f, n, length, pieces)
        first = f.mul(unit.row, SAMPLES)
        limits = []
        for rank, end in ((low, 0), (high, -1)):
            none = f.emit(f"icmp slt i64 {rank}, 0")
            at = f.emit(f"select i1 {none}, i64 0, i64 {f.add(first, rank)}")
            x = f.load(word, f.at(samples, f.mul(at, v.step)), v.step)
            limits.append(splat(f, v, f.emit(f"select i1 {none}, {word} {end}, {word} {x}")))
        there = f.at(dst, f.mul(unit.begin, v.step))

        def step(_: Number, x: str, inside: str | None, held: list[str]) -> list[Number]:
            below = compared(f, v, "ult", x, limits[0], inside)
            above = f.emit(f"icmp ugt {v.llvm} {x}, {limits[1]}")
            rest = f.emit(f"or {mask_type(v)} {below}, {above}")
            near = both(f, v, f.emit(f"xor {mask_type(v)} {rest}, splat (i1 true)"), inside)
            stored(f, v.count, v.bits, x, f.at(there, f.mul(held[1], v.step)), near)
            return [f.add(held[0], ones_in(f, v, below)), f.add(held[1], ones_in(f, v, near))]

        two_counts(f, v, order, (src, unit, n), counts, step)
    f.close()
    return f.module.text()


@lru(64)
def select_text(v: Lanes, order: Order) -> str:
    """The key of a rank.

    Buffers: elements, keys in pieces, memory for as many, table, counts of pieces, and a word for
    each row.
    """
    module = Module()
    split_function(module, v)
    choose_function(module, v)
    small_function(module, v, None)
    f = kernel(module, "part_select")
    src, keys, other, table, counts, result = (f.pointer(i) for i in range(6))
    length, pieces, rank = fields(f, table, LENGTH, PIECES, RANK)
    search = Search(f, v)
    with f.loop("%start", "%stop") as row:
        first = f.mul(row, length)
        known = f.at(counts, f.mul(f.mul(row, pieces), 16))
        with f.carried(0, pieces, [("i64", 0), ("i64", 0)]) as (i, held, after):
            for k in range(2):
                number = f.load("i64", f.at(known, f.add(f.mul(i, 16), 8 * k)), 8)
                after[k] = f.add(held[k], number)
        below, near = held
        left = f.sub(rank, below)
        # as unsigned numbers: also not below 0
        good = f.emit(f"icmp ult i64 {left}, {near}")
        place = f.at(result, f.mul(row, 8))
        with f.when(good):
            there = f.at(other, f.mul(first, v.step))
            with f.carried(0, pieces, [("i64", 0)]) as (i, (done,), after):
                begun = f.add(first, piece_start(f, i, length, pieces))
                here = f.at(keys, f.mul(begun, v.step))
                count = f.load("i64", f.at(known, f.add(f.mul(i, 16), 8)), 8)
                to = f.at(there, f.mul(done, v.step))
                copy_keys(f, v, here, to, count)
                after[0] = f.add(done, count)
            search.run(there, f.at(keys, f.mul(first, v.step)), near, left, place)
        with f.when(f.emit(f"xor i1 {good}, true")):
            here = f.at(src, f.mul(first, order.bits // 8))
            by_bits(f, v, order, here, length, rank, place)
    f.close()
    return module.text()


class Search:
    """A key of a rank among keys: they are split, and the part that has it is gone on with."""

    def __init__(self, f: Function, v: Lanes) -> None:
        self.f, self.v = f, v
        self.state, self.pivot = f.local(40), Pivot(f, v)
        self.last = f.local(ROWS * v.count * v.step)

    def run(self, keys: str, other: str, count: Number, rank: Number, place: str) -> None:
        f, v = self.f, self.v
        fields = [f.at(self.state, 8 * i) for i in range(5)]
        kinds = ("i64", "ptr", "ptr", "i64", "i64")
        for kind, x, at in zip(
            kinds, (count, keys, other, rank, packing.DEPTH), fields, strict=True
        ):
            f.store(kind, str(x), at, 8)
        with while_not_zero(f, fields[0]) as n:
            here, there, left, depth = (
                f.load(kind, at, 8) for kind, at in zip(kinds[1:], fields[1:], strict=True)
            )
            few = f.emit(f"icmp sle i64 {n}, {ROWS * v.count}")
            with f.when(few):
                f.line(f"call void @small(ptr {here}, ptr {self.last}, i64 {n})")
                x = f.load(f"i{v.bits}", f.at(self.last, f.mul(left, v.step)), v.step)
                f.store(f"i{v.bits}", x, place, 8)
                f.store("i64", "0", fields[0], 8)
            with f.when(f.emit(f"xor i1 {few}, true")):
                flat = self.pivot.choose(here, n, depth)
                with f.when(flat):
                    f.store(f"i{v.bits}", self.pivot.value(), place, 8)
                    f.store("i64", "0", fields[0], 8)
                with f.when(f.emit(f"xor i1 {flat}, true")):
                    self.halve(here, there, n, left, depth, fields)

    def halve(
        self, here: str, there: str, n: str, left: str, depth: str, fields: list[str]
    ) -> None:
        f, v = self.f, self.v
        below = self.pivot.split(here, there, n)
        above = f.sub(n, below)
        low = f.emit(f"icmp slt i64 {left}, {below}")
        parts = (
            ("i64", below, above),
            ("ptr", there, here),
            ("ptr", f.at(here, f.mul(above, v.step)), f.at(there, f.mul(below, v.step))),
            ("i64", left, f.sub(left, below)),
        )
        for (kind, a, b), at in zip(parts, fields[:4], strict=True):
            f.store(kind, f.emit(f"select i1 {low}, {kind} {a}, {kind} {b}"), at, 8)
        some = f.emit(f"zext i1 {f.emit(f'icmp ne i64 {depth}, 0')} to i64")
        f.store("i64", str(f.sub(depth, some)), fields[4], 8)


def by_bits(
    f: Function, v: Lanes, order: Order, here: str, length: str, rank: str, place: str
) -> None:
    """The key of a rank, the largest one that not more keys than that are below."""
    word = f"i{v.bits}"
    with f.carried(0, v.bits, [(word, 0)]) as (i, (key,), after):
        bit = f.sub(v.bits - 1, i)
        bit = bit if v.bits == 64 else f.emit(f"trunc i64 {bit} to {word}")
        more = f.emit(f"or {word} {key}, {f.emit(f'shl {word} 1, {bit}')}")
        limit = splat(f, v, more)

        def step(_: Number, x: str, inside: str | None, held: list[str]) -> list[Number]:
            return [f.add(held[0], ones_in(f, v, compared(f, v, "ult", x, limit, inside)))]

        (below,) = over(f, v, order, here, length, [("i64", 0)], step)
        fits = f.emit(f"icmp sle i64 {below}, {rank}")
        after[0] = f.emit(f"select i1 {fits}, {word} {more}, {word} {key}")
    f.store(word, key, place, 8)


@lru(64)
def count_text(v: Lanes, order: Order) -> str:
    """How many are below the key and equal to it. Buffers: elements, table, keys, counts."""
    f = kernel(Module(), "part_count")
    src, table, chosen, counts = (f.pointer(i) for i in range(4))
    length, pieces = fields(f, table, LENGTH, PIECES)
    with f.loop("%start", "%stop") as n:
        unit = Unit(f, n, length, pieces)
        key = splat(f, v, f.load(f"i{v.bits}", f.at(chosen, f.mul(unit.row, 8)), 8))

        def step(_: Number, x: str, inside: str | None, held: list[str]) -> list[Number]:
            return [
                f.add(number, ones_in(f, v, compared(f, v, how, x, key, inside)))
                for number, how in zip(held, ("ult", "eq"), strict=True)
            ]

        two_counts(f, v, order, (src, unit, n), counts, step)
    f.close()
    return f.module.text()


@lru(64)
def write_text(v: Lanes, order: Order, sizes: tuple[int, ...]) -> str:
    """Operands with elements of so many bits, split.

    Buffers: table, keys of rows, counts of pieces; operands, the first one with the keys; results.
    """
    f = kernel(Module(), "part_write")
    table, chosen, counts = (f.pointer(i) for i in range(3))
    ins = [f.pointer(3 + i) for i in range(len(sizes))]
    outs = [f.pointer(3 + len(sizes) + i) for i in range(len(sizes))]
    length, pieces = fields(f, table, LENGTH, PIECES)
    with f.loop("%start", "%stop") as n:
        unit = Unit(f, n, length, pieces)
        key = splat(f, v, f.load(f"i{v.bits}", f.at(chosen, f.mul(unit.row, 8)), 8))
        starts = _starts(f, unit, counts, length, pieces)

        def put(at: Number, inside: str | None, flags: str, to: str) -> Number:
            """The elements of some lanes of all operands; where the next ones go."""
            for source, result, bits in zip(ins, outs, sizes, strict=True):
                kind = f"<{v.count} x i{bits}>"
                place = f.at(source, f.mul(f.add(unit.begin, at), bits // 8))
                if inside is None:
                    x = f.load(kind, place, bits // 8)
                else:
                    x = load_some(f, Lanes(v.count, bits), place, inside)
                stored(f, v.count, bits, x, f.at(result, f.mul(to, bits // 8)), flags)
            return f.add(to, ones_in(f, v, flags))

        def step(at: Number, x: str, inside: str | None, held: list[str]) -> list[Number]:
            same = compared(f, v, "eq", x, key, inside)
            word = f"i{v.count}"
            some = f.emit(f"icmp ne {word} {f.emit(f'bitcast {mask_type(v)} {same} to {word}')}, 0")
            with f.when(some):
                put(at, inside, same, held[1])
            low = put(at, inside, compared(f, v, "ult", x, key, inside), held[0])
            high = put(at, inside, compared(f, v, "ugt", x, key, inside), held[2])
            return [low, f.add(held[1], ones_in(f, v, same)), high]

        here = f.at(ins[0], f.mul(unit.begin, order.bits // 8))
        over(f, v, order, here, unit.count, [("i64", x) for x in starts], step)
    f.close()
    return f.module.text()


def _starts(f: Function, unit: Unit, counts: str, length: str, pieces: str) -> list[Number]:
    """Where a piece puts its first elements below, equal and above."""
    known = f.at(counts, f.mul(f.mul(unit.row, pieces), 16))
    values: list[tuple[str, Number]] = [("i64", 0)] * 4
    with f.carried(0, pieces, values) as (i, held, after):
        before = f.emit(f"icmp slt i64 {i}, {unit.index}")
        for k in range(2):
            number = f.load("i64", f.at(known, f.add(f.mul(i, 16), 8 * k)), 8)
            after[k] = f.add(held[k], number)
            after[2 + k] = f.add(held[2 + k], f.emit(f"select i1 {before}, i64 {number}, i64 0"))
    below, equal, below_before, equal_before = held
    first = f.mul(unit.row, length)
    begun = f.sub(unit.begin, first)
    above_before = f.sub(f.sub(begun, below_before), equal_before)
    return [
        f.add(first, below_before),
        f.add(f.add(first, below), equal_before),
        f.add(f.add(f.add(first, below), equal), above_before),
    ]


# --- the primitive --------------------------------------------------------------------------------


def partition(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Operands permuted alike so that an element of the first has its place in order."""
    rows = Rows.along(ins[0].shape, len(ins[0].shape) - 1)
    order = order_of(ins[0].dtype)
    if order is None or not rows.count:
        return None
    sizes = tuple([8 * t.dtype.itemsize for t in ins])
    known = all(t.dtype.kind in "biufc" or t.dtype == dtypes.bfloat16 for t in ins)
    if not known or max(sizes) > 64:
        return None
    v, n, kth = lanes(order.bits), rows.length, params["kth"]
    pieces = max(1, n // ROW_CHUNK_ELEMENTS)
    # Samples so far from the middle are hardly ever too near (six times the deviation).
    far, middle = 6 * isqrt(SAMPLES) // 2 + 1, kth * SAMPLES // n
    sampled = n >= 4 * SAMPLES
    low = middle - far if sampled and middle > far else -1
    high = middle + far if sampled and middle + far < SAMPLES else -1
    plan = Plan()
    table = plan.table(n, pieces, kth, low, high)
    source = Place("in", 0)
    keys, other = (plan.memory(prod((rows.count, n, v.step))) for _ in range(2))
    samples = table
    if sampled:
        taken, spare, samples = (plan.memory(rows.count * SAMPLES * v.step) for _ in range(3))
        plan.add(sample_text(v, order), "part_sample", (source, taken, table), rows.count, 1)
        sizes_of = plan.table(SAMPLES, 1, 1, WHOLE)
        places = (taken, spare, samples, sizes_of, sizes_of, sizes_of)
        plan.add(quick_text(v, None), "quick_sort", places, rows.count, 1)
    units, chunk = rows.count * pieces, max(1, MIN_UNIT_ELEMENTS // n)
    counts, chosen = plan.memory(16 * units), plan.memory(8 * rows.count)
    places = (source, keys, table, samples, counts)
    plan.add(window_text(v, order), "part_window", places, units, chunk)
    places = (source, keys, other, table, counts, chosen)
    plan.add(select_text(v, order), "part_select", places, rows.count, chunk)
    plan.add(count_text(v, order), "part_count", (source, table, chosen, counts), units, chunk)
    given = [Place("in", i) for i in range(len(ins))]
    made = [Place("out", i) for i in range(len(ins))]
    places = (table, chosen, counts, *given, *made)
    plan.add(write_text(v, order, sizes), "part_write", places, units, chunk)
    return plan.done()


LOWERINGS["partition"] = partition
