"""Sorting: short rows by networks across vectors, long ones by splitting them.

A single operand is sorted as keys that are its elements; with more operands or keys, records of a
key's word and a position are sorted, and the operands gathered in the order found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.backends.cpu.routines.factorisations import transpose
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting import quick_stubs, records
from weft.backends.cpu.routines.sorting import quicksort as quick
from weft.backends.cpu.routines.sorting.network import BLOCK, Lanes
from weft.backends.cpu.routines.sorting.records import record_module
from weft.backends.cpu.routines.sorting.rows import (
    MIN_UNIT_ELEMENTS,
    Order,
    Plan,
    Rows,
    key_names,
    order_of,
)
from weft.backends.cpu.routines.sorting.tiles import (
    MAX_ROW_ELEMENTS,
    mend_module,
    sort_columns,
    sort_narrow_rows,
    sort_rows,
    tile_module,
)
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.tasks import Lowered, Place
from weft.base.functional import lru
from weft.base.record import Record
from weft.base.sizes import computed, plain
from weft.kernel.program import Type

# Rows so short are sorted by a network even where they leave lanes empty.
MAX_SINGLE_ROW = 128
ROW_CHUNK_ELEMENTS = 1 << 14  # elements of a unit of a long row
TURNED_SIDE = 128  # rows and columns of a part of a matrix that is transposed
ENOUGH_CHUNKS = 8  # pieces that are enough for all threads
# Bytes of a piece that is split into buckets, and elements of a bucket at least.
SPLIT, BUCKET = 1 << 15, 1 << 13
RANK_BUCKETS = 4  # where the element of one rank is wanted


def lanes(bits: int) -> Lanes:
    """Vectors of records that are at least so wide."""
    bits = max(bits, 32)
    return Lanes(vector_bits() // bits, bits)


def is_short(rows: Rows, v: Lanes) -> bool:
    """Whether rows are sorted side by side."""
    n = rows.length
    return n <= MAX_SINGLE_ROW or (n <= MAX_ROW_ELEMENTS and plain(rows.count) >= v.count)


# --- texts ----------------------------------------------------------------------------------------

quick_module = lru(64)(quick.quick_module)
keys_module = lru(64)(quick.keys_module)
sample_module = lru(64)(quick.sample_module)
buckets_module = lru(64)(quick.buckets_module)


# --- elements alone -------------------------------------------------------------------------------


def alone(
    plan: Plan, rows: Rows, order: Order, source: Place, result: Place, rank: int = -1
) -> None:
    """The tasks that sort a single operand, of which only the element of a rank may be wanted."""
    v = lanes(order.bits)
    if rows.inner > 1:
        if rows.inner < v.count or rows.length > MAX_ROW_ELEMENTS:
            turned(plan, rows, order, source, result)
        else:
            columns(plan, rows, order, source, result)
        return
    if not is_short(rows, v):
        pair = [plan.memory(rows.count * rows.length * v.step) for _ in range(2)]
        Quick(plan, rows, v, order, pair, rank=rank).sort(source, result)
        return
    side_by_side(plan, rows, v, order, (source, result))


def side_by_side(
    plan: Plan, rows: Rows, v: Lanes, order: Order, places: tuple[Place, Place]
) -> None:
    """Rows sorted by networks, one in each lane."""
    tiles = -(-rows.count // v.count)
    table, flags = sort_table(plan, rows, v.count), plan.memory(8 * tiles)
    chunk = max(1, MIN_UNIT_ELEMENTS // (v.count * plain(rows.length)))
    main = sort_narrow_rows if rows.length < v.count else sort_rows
    module = tile_module(main, v, order)
    plan.add(module, main.__name__, (*places, table, flags), tiles, chunk)
    mend(plan, rows, order, (*places, table, flags))


def columns(plan: Plan, rows: Rows, order: Order, source: Place, result: Place) -> None:
    """Neighbouring columns sorted side by side."""
    v = lanes(order.bits)
    tiles = rows.count // rows.inner * -(-rows.inner // v.count)
    flags = plan.memory(8 * tiles)
    table = sort_table(plan, rows, v.count)
    chunk = max(1, MIN_UNIT_ELEMENTS // (v.count * plain(rows.length)))
    places = (source, result, table, flags)
    plan.add(tile_module(sort_columns, v, order), "sort_columns", places, tiles, chunk)
    mend(plan, rows, order, places)


def turned(plan: Plan, rows: Rows, order: Order, source: Place, result: Place) -> None:
    """Columns sorted as rows, which they are brought into and back."""
    size = rows.count * rows.length * order.bits // 8
    before, after = plan.memory(size), plan.memory(size)
    outer = rows.count // rows.inner
    turn(plan, (outer, rows.length, rows.inner), order, source, before)
    alone(plan, Rows(rows.count, rows.length, 1), order, before, after)
    turn(plan, (outer, rows.inner, rows.length), order, after, result)


def turn(
    plan: Plan, shape: tuple[int, int, int], order: Order, source: Place, result: Place
) -> None:
    """Matrices transposed."""
    count, height, width = shape
    tall = min(height, ROW_CHUNK_ELEMENTS // min(width, TURNED_SIDE))
    wide = min(width, ROW_CHUNK_ELEMENTS // tall)
    down, across = -(-height // tall), -(-width // wide)
    table = plan.table(height, width, tall, wide, across)
    chunk = max(1, MIN_UNIT_ELEMENTS // (tall * wide))
    module = transpose.turn_module(order.bits // 8)
    plan.add(module, "turn", (source, result, table), count * down * across, chunk)


def sort_table(plan: Plan, rows: Rows, flagged: int) -> Place:
    """The numbers of a sort of rows, so many of which share a flag."""
    blocks = -(-rows.length // BLOCK)
    levels = computed(int.bit_length, blocks - 1)
    return plan.table(rows.count, rows.length, blocks * BLOCK, levels, rows.inner, flagged)


def mend(plan: Plan, rows: Rows, order: Order, places: tuple[Place, ...]) -> None:
    """Zeros and NaNs put in place, where there are any that keys do not tell apart."""
    if order.kind != "float":
        return
    chunk = max(1, MIN_UNIT_ELEMENTS // plain(rows.length))
    plan.add(mend_module(order), "mend", places, rows.count, chunk)


# --- by splitting ---------------------------------------------------------------------------------


class Quick:
    """The tasks that sort long rows by splitting their keys."""

    def __init__(
        self,
        plan: Plan,
        rows: Rows,
        v: Lanes,
        order: Order,
        pair: list[Place],
        records: bool = False,
        ready: bool = False,
        rank: int = -1,
    ) -> None:
        self.plan, self.rows, self.v, self.order, self.pair = plan, rows, v, order, pair
        self.records = records  # whether records are sorted, and whether these are there already
        self.placed, self.ready = records and not ready, ready
        self.result = None if records else order
        self.marks, self.rank = plan.memory(8 * rows.count), rank

    def sort(self, source: Place, result: Place) -> None:
        plan, rows, n = self.plan, self.rows, self.rows.length
        first, second = self.pair
        if n >= 4 * BUCKET and rows.count < 2 * ENOUGH_CHUNKS:
            self.shared(source, result)
        else:
            if not self.ready:
                table, chunk = plan.table(n), max(1, MIN_UNIT_ELEMENTS // n)
                module = keys_module(self.v, self.order, self.placed)
                places = (source, first, table, self.marks)
                plan.add(module, "sort_keys", places, rows.count, chunk)
            self.whole(n, first, second, result, self.rank)
        if not self.records and self.rank < 0:
            table = sort_table(plan, rows, 1)
            mend(plan, rows, self.order, (source, result, table, self.marks))

    def whole(self, length: int, keys: Place, other: Place, result: Place, rank: int = -1) -> None:
        """Rows of so many keys sorted, each by one thread."""
        table = self.plan.table(length, 1, 1, quick_stubs.WHOLE, rank)
        chunk = max(1, MIN_UNIT_ELEMENTS // length)
        places = (keys, other, result, table, table, table)
        module = quick_module(self.v, self.result)
        self.plan.add(module, "quick_sort", places, self.rows.count, chunk)

    def shared(self, source: Place, result: Place) -> None:
        """Rows sorted by several threads, in buckets."""
        plan, rows, v, order = self.plan, self.rows, self.v, self.order
        first, second = self.pair
        piece = SPLIT // v.step
        pieces = -(-rows.length // piece)
        most = quick_stubs.MAX_BUCKETS if self.rank < 0 else RANK_BUCKETS
        buckets = min(most, 1 << (rows.length // BUCKET).bit_length() - 1)
        sizes = (rows.length, pieces, buckets)
        table = plan.table(*sizes)
        taken, other, samples = (
            plan.memory(quick_stubs.SAMPLES * rows.count * v.step) for _ in range(3)
        )
        places: tuple[Place, ...] = (source, taken, table, self.marks)
        plan.add(sample_module(v, order, self.placed), "sort_sample", places, rows.count, 1)
        self.whole(quick_stubs.SAMPLES, taken, other, samples)
        starts = plan.memory(8 * rows.count * pieces * (buckets + 1))
        bounds = plan.memory(16 * rows.count * buckets)
        places = (source, second, table, samples, self.marks, starts)
        module = buckets_module(v, order, piece, self.placed)
        plan.add(module, "sort_buckets", places, rows.count * pieces, 1)
        for way in (quick_stubs.NEAR, quick_stubs.FAR):
            places = (first, second, result, plan.table(*sizes, way, self.rank), bounds, starts)
            module = quick_module(v, self.result)
            plan.add(module, "quick_sort", places, rows.count * buckets, 1)


# --- records --------------------------------------------------------------------------------------


class Word(Record):
    """A part of a key of at most 32 bits: of which operand, and where in an element."""

    operand: int
    order: Order
    parts: int
    part: int
    shift: int


def words_of(types: list[Type]) -> list[Word] | None:
    """The words of keys, the most significant first."""
    words = []
    for i, t in enumerate(types):
        order = order_of(t.dtype, parts=True)
        if order is None:
            return None
        parts = 2 if t.dtype.kind == "c" else 1
        for part in range(parts):
            for shift in (32, 0) if order.bits == 64 else (0,):
                words.append(Word(i, order, parts, part, shift))
    return words


class Sorted(Record):
    """Where an order is kept: records, and the order before if these came after others."""

    records: Place
    order: Place | None


class Records:
    """The tasks that find the order of rows by words of their keys."""

    def __init__(self, plan: Plan, rows: Rows, wanted: int) -> None:
        self.plan, self.rows = plan, rows
        self.v = v = lanes(64)
        self.width = max(rows.length, v.count)
        self.quick = not is_short(Rows(rows.count, self.width, 1), v)
        size = rows.count * self.width * v.step
        self.pair = [plan.memory(size) for _ in range(3 if self.quick else 2)]
        self.wanted = wanted
        self.block = 1 if rows.inner == 1 else records.MAX_UNIT_ROWS

    def sort(self, words: list[Word], **how: Any) -> Sorted:
        """The order by words, the first being the most significant."""
        plan, order = self.plan, None
        spare: list[Place] = []
        here = self.pair[0]
        for n, word in enumerate(reversed(words)):
            here = self.one(word, order, **how)
            if n + 1 < len(words):
                if len(spare) < 2:
                    spare.append(plan.memory(4 * self.rows.count * self.width))
                after = spare[n % 2]
                table, extent, chunk = self.units(self.rows.length)
                module = record_module("chain", 32, CHAINED=int(order is not None))
                plan.add(module, "chain", (here, after, table, order or here), extent, chunk)
                order = after
        return Sorted(here, order)

    def one(self, word: Word, order: Place | None, **how: Any) -> Place:
        """Records of a word, in order."""
        plan, v = self.plan, self.v
        rows = Rows(self.rows.count, self.width, 1)
        alike = word.parts == 1 and word.order.bits <= 32 and self.rows.inner == 1
        if self.quick and order is None and alike and not how:
            work = Quick(plan, rows, v, word.order, self.pair[:2], records=True)
            work.sort(Place("in", word.operand), self.pair[2])
            return self.pair[2]
        table, extent, chunk = self.units(self.width)
        module = record_module(
            "load_records",
            word.order.bits,
            PARTS=word.parts,
            PART=word.part,
            SHIFT=word.shift,
            CHAINED=int(order is not None),
            APART=int(self.rows.inner > 1),
            **key_names(word.order, **how),
        )
        first, second = self.pair[:2]
        places = (Place("in", word.operand), first, table, order or first)
        plan.add(module, "load_records", places, extent, chunk)
        if self.quick:
            work = Quick(plan, rows, v, Order(64, "unsigned"), self.pair[:2], True, ready=True)
            work.sort(first, self.pair[2])
            return self.pair[2]
        side_by_side(plan, rows, v, Order(64, "unsigned"), (first, second))
        return second

    def units(self, length: int) -> tuple[Place, int, int]:
        """The table of tasks over parts of rows of so many elements, extent and chunk."""
        piece = max(1, ROW_CHUNK_ELEMENTS // self.block)
        pieces = -(-length // piece)
        rows, block = self.rows, self.block
        table = self.plan.table(
            *(rows.count, rows.length, rows.inner, self.width, self.wanted), pieces, piece, block
        )
        chunk = max(1, MIN_UNIT_ELEMENTS // (block * min(plain(length), piece)))
        return table, -(-rows.count // block) * pieces, chunk

    def gather(self, found: Sorted, dtype: np.dtype | None, source: Place, result: Place) -> None:
        """Elements in the order found, or their indices where no dtype is given."""
        parts, bits = 0, 32
        if dtype is not None:
            parts, bits = 1, 8 * dtype.itemsize
        if bits == 128:
            parts, bits = 2, 64
        chained = int(found.order is not None)
        apart = int(self.rows.inner > 1)
        module = record_module("gather", bits, PARTS=parts, CHAINED=chained, APART=apart)
        table, extent, chunk = self.units(self.wanted)
        places = (found.records, result, table, found.order or found.records, source)
        self.plan.add(module, "gather", places, extent, chunk)


# --- primitives -----------------------------------------------------------------------------------


def all_known(types: list[Type]) -> bool:
    """Whether elements are moved as words."""
    return all(t.dtype.kind in "biufc" or t.dtype == dtypes.bfloat16 for t in types)


def sort(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Operands permuted alike along a dimension so that the first ones are in order."""
    num_keys = params["num_keys"]
    rows = Rows.along(ins[0].shape, params["dimension"])
    if not rows.length > 1 or rows.length >= 1 << 31 or not rows.count:
        return None
    if not all_known(ins):
        return None
    if len(ins) == 1 and ins[0].dtype.kind != "c":
        order = order_of(ins[0].dtype)
        if order is None:
            return None
        plan = Plan()
        alone(plan, rows, order, Place("in", 0), Place("out", 0))
        return plan.done()
    words = words_of(ins[:num_keys])
    if words is None:
        return None
    plan = Plan()
    work = Records(plan, rows, rows.length)
    done = work.sort(words)
    for i, t in enumerate(outs):
        if t.used:
            work.gather(done, t.dtype, Place("in", i), Place("out", i))
    return plan.done()


def largest(
    t: Type, rows: Rows, order: Order, wanted: int, canonical: bool, flipped: bool
) -> Lowered:
    """The first elements of rows in order and their indices, where more than a few are wanted."""
    plan = Plan()
    words = words_of([t])
    assert words is not None
    work = Records(plan, rows, wanted)
    done = work.sort(words, canonical=canonical, flipped=flipped)
    work.gather(done, t.dtype, Place("in", 0), Place("out", 0))
    work.gather(done, None, Place("in", 0), Place("out", 1))
    return plan.done()


def partition(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Operands permuted alike so that an element of the first has its place in order: what is less,
    equal and more, each in the old order."""
    rows = Rows.along(ins[0].shape, len(ins[0].shape) - 1)
    order, n, kth = order_of(ins[0].dtype), rows.length, params["kth"]
    if order is None or not rows.count or n >= 1 << 31:
        return None
    if not all_known(ins) or any(t.dtype.itemsize > 8 for t in ins):
        return None
    plan, source = Plan(), Place("in", 0)
    pieces = max(1, n // ROW_CHUNK_ELEMENTS)
    units, chunk = rows.count * pieces, max(1, MIN_UNIT_ELEMENTS // n)
    chosen, counts = plan.memory(rows.count * n * order.bits // 8), plan.memory(16 * units)
    alone(plan, rows, order, source, chosen, kth)
    places = (source, plan.table(n, pieces, kth), chosen, counts)
    names = key_names(order)
    plan.add(record_module("count_parts", order.bits, **names), "count_parts", places, units, chunk)
    for i, t in enumerate(outs):
        if t.used:
            moved = records.UNSIGNED[8 * t.dtype.itemsize]
            module = record_module("write_parts", order.bits, MOVED=moved, **names)
            kept = (*places, Place("in", i), Place("out", i))
            plan.add(module, "write_parts", kept, units, chunk)
    return plan.done()


LOWERINGS["partition"] = partition
LOWERINGS["sort"] = sort
