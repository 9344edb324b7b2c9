"""Sorting with what goes along: elements to records, the order found back to elements; partitions.

A record is a word of a key above the position it had; so no two are equal, and any way of sorting
them is stable. Keys of several words are sorted by the last word first. Sizes come in a table.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.sorting.network import UNSIGNED
from weft.backends.cpu.routines.sorting.rows import key
from weft.backends.llvm.code import Module
from weft.backends.llvm.text.stub import known_to, translate_main
from weft.base.functional import lru
from weft.kernel.kinds import i32, i64, ptr, stack, static, truth, u32, u64, void

# What the table holds, in order: rows, their length in elements, the distance between elements,
# the length of rows of records, how many elements of a row are wanted; units of work are some
# rows and a piece of each: pieces of a row, elements of a piece, rows of a unit.
ROWS, LENGTH, INNER, WIDTH, WANTED, PIECES, PIECE, BLOCK = range(8)
MAX_UNIT_ROWS = 16  # rows of a unit at most, where elements of a row are apart

# Kinds that the stubs are given.
U: Any = u32
MOVED: Any = u32


def odd(b: U, *, SIGN: static, INFINITY: static, USUAL_NAN: static) -> truth:
    """Whether a key in canonical order does not say all about its element: zeros with a sign, and
    NaNs but one."""
    size = b & (SIGN - 1)
    return (b == SIGN) | ((size > INFINITY) & (b != USUAL_NAN))


def element(k: U, *, FLOAT: static, SIGNED: static, SIGN: static) -> U:
    """The bits of the element that a key stands for."""
    if SIGNED:
        k = k ^ SIGN
    if FLOAT:
        k = ~k if k < SIGN else k ^ SIGN
    return k


def starts(table: ptr, bases: ptr, first: i64, count: i64, length: i64) -> void:
    """Where rows begin, in elements, if they are so long."""
    inner = i64[table, INNER]
    for c in range(count):
        row = first + c
        outer = row // inner
        i64[bases, c] = outer * length * inner + (row - outer * inner)


def load_records(buffers: ptr, start: i64, stop: i64, *, APART: static) -> void:
    """Records of a word of the key: elements, records, table, and the order so far."""
    src = ptr[buffers, 0]
    dst = ptr[buffers, 1]
    table = ptr[buffers, 2]
    order = ptr[buffers, 3]
    bases = stack(128)
    length = i64[table, LENGTH]
    inner = i64[table, INNER]
    width = i64[table, WIDTH]
    pieces = i64[table, PIECES]
    for unit in range(start, stop):
        first = unit // pieces * i64[table, BLOCK]
        low = unit % pieces * i64[table, PIECE]
        high = min(low + i64[table, PIECE], width)
        real = max(low, min(high, length))
        if APART:
            count = min(i64[table, BLOCK], i64[table, ROWS] - first)
            starts(table, bases, first, count, length)
            for i in range(low, real):
                for c in range(count):
                    here = first + c
                    record_at(src, dst, order, here * width, i, i64[bases, c], inner)
            for c in range(count):
                for i in range(real, high):
                    u64[dst, (first + c) * width + i] = ~u64(0)
        else:
            for i in range(low, real):
                record_at(src, dst, order, first * width, i, first * length, 1)
            for i in range(real, high):
                u64[dst, first * width + i] = ~u64(0)


def record_at(
    src: ptr,
    dst: ptr,
    order: ptr,
    row: i64,
    i: i64,
    base: i64,
    inner: i64,
    *,
    CHAINED: static,
    PARTS: static,
    PART: static,
    SHIFT: static,
) -> void:
    """Write the ``i``-th record of a row, whose elements begin at the base."""
    j = i
    if CHAINED:
        j = i64(u32[order, row + i])
    word = u64(key(U[src, (base + j * inner) * PARTS + PART]))
    u64[dst, row + i] = (word >> SHIFT << 32) | u64(i)


def chain(buffers: ptr, start: i64, stop: i64, *, CHAINED: static) -> void:
    """The order after one more word: records, result, table, and the order before."""
    records = ptr[buffers, 0]
    dst = ptr[buffers, 1]
    table = ptr[buffers, 2]
    order = ptr[buffers, 3]
    width = i64[table, WIDTH]
    pieces = i64[table, PIECES]
    for unit in range(start, stop):
        first = unit // pieces * i64[table, BLOCK]
        count = min(i64[table, BLOCK], i64[table, ROWS] - first)
        low = unit % pieces * i64[table, PIECE]
        high = min(low + i64[table, PIECE], i64[table, LENGTH])
        for row in range(first, first + count):
            for i in range(low, high):
                j = u32(u64[records, row * width + i])
                if CHAINED:
                    j = u32[order, row * width + i64(j)]
                u32[dst, row * width + i] = j


def gather(buffers: ptr, start: i64, stop: i64, *, APART: static) -> void:
    """Elements in the order found: records, result, table, the order before, elements."""
    records = ptr[buffers, 0]
    dst = ptr[buffers, 1]
    table = ptr[buffers, 2]
    order = ptr[buffers, 3]
    src = ptr[buffers, 4]
    here = stack(128)
    there = stack(128)
    length = i64[table, LENGTH]
    inner = i64[table, INNER]
    width = i64[table, WIDTH]
    wanted = i64[table, WANTED]
    pieces = i64[table, PIECES]
    for unit in range(start, stop):
        first = unit // pieces * i64[table, BLOCK]
        low = unit % pieces * i64[table, PIECE]
        high = min(low + i64[table, PIECE], wanted)
        if APART:
            count = min(i64[table, BLOCK], i64[table, ROWS] - first)
            starts(table, here, first, count, length)
            starts(table, there, first, count, wanted)
            for i in range(low, high):
                for c in range(count):
                    j = found_at(records, order, (first + c) * width, i)
                    to = i64[there, c] + i * inner
                    element_at(src, dst, i64[here, c] + j * inner, to, j)
        else:
            for i in range(low, high):
                j = found_at(records, order, first * width, i)
                element_at(src, dst, first * length + j, first * wanted + i, j)


def found_at(records: ptr, order: ptr, row: i64, i: i64, *, CHAINED: static) -> i64:
    """Which element of a row comes at the ``i``-th place."""
    j = i64(u32(u64[records, row + i]))
    if CHAINED:
        j = i64(u32[order, row + j])
    return j


def element_at(src: ptr, dst: ptr, at: i64, to: i64, index: i64, *, PARTS: static) -> void:
    """Copy an element, or write its index where elements have no parts."""
    if PARTS == 0:
        i32[dst, to] = i32(index)
    else:
        for p in range(PARTS):
            U[dst, to * PARTS + p] = U[src, at * PARTS + p]


# --- partitions -----------------------------------------------------------------------------------

# What their table holds: the length of rows, pieces of a row, and the rank that splits them.
SPLIT, SHARES, RANK = range(3)


def part_start(table: ptr, unit: i64) -> i64:
    """Where a piece of a row begins; pieces are alike in size."""
    return unit * i64[table, SPLIT] // i64[table, SHARES]


def chosen_key(table: ptr, chosen: ptr, row: i64) -> U:
    """The key that splits a row, of which there is an element where sorting puts it."""
    return key(U[chosen, row * i64[table, SPLIT] + i64[table, RANK]])


def count_parts(buffers: ptr, start: i64, stop: i64) -> void:
    """How many of a piece are less than the key of its row and not more: elements, table, chosen
    elements, counts."""
    src = ptr[buffers, 0]
    table = ptr[buffers, 1]
    chosen = ptr[buffers, 2]
    counts = ptr[buffers, 3]
    for unit in range(start, stop):
        limit = chosen_key(table, chosen, unit // i64[table, SHARES])
        less = u32(0)
        most = u32(0)
        for i in range(part_start(table, unit), part_start(table, unit + 1)):
            k = key(U[src, i])
            less += u32(1) if k < limit else 0
            most += u32(1) if k <= limit else 0
        i64[counts, 2 * unit] = i64(less)
        i64[counts, 2 * unit + 1] = i64(most)


def write_parts(buffers: ptr, start: i64, stop: i64) -> void:
    """An operand split, as `count_parts` counted; its elements and results come after that."""
    src = ptr[buffers, 0]
    table = ptr[buffers, 1]
    chosen = ptr[buffers, 2]
    counts = ptr[buffers, 3]
    operand = ptr[buffers, 4]
    dst = ptr[buffers, 5]
    shares = i64[table, SHARES]
    for unit in range(start, stop):
        row = unit // shares
        limit = chosen_key(table, chosen, row)
        low = row * i64[table, SPLIT]
        same = low
        high = low
        for u in range(row * shares, row * shares + shares):
            less = i64[counts, 2 * u]
            most = i64[counts, 2 * u + 1]
            same += less
            high += most
            if u < unit:
                low += less
                same += most - less
                high += part_start(table, u + 1) - part_start(table, u) - most
        for i in range(part_start(table, unit), part_start(table, unit + 1)):
            k = key(U[src, i])
            less = i64(1) if k < limit else 0
            more = i64(1) if k > limit else 0
            to = low if k < limit else same
            to = high if k > limit else to
            MOVED[dst, to] = MOVED[operand, i]
            low += less
            high += more
            same += 1 - less - more


# --- texts ----------------------------------------------------------------------------------------

NUMBERS = "FLOAT SIGNED FLIPPED CANONICAL CHAINED PARTS PART SHIFT APART NAN INFINITY".split()


@lru(256)
def record_module(name: str, bits: int, **names: Any) -> Module:
    """The text of one of the stubs, for elements of so many bits."""
    main = globals()[name]
    every = dict.fromkeys(NUMBERS, 0) | {"U": UNSIGNED[bits]} | names
    return translate_main(main, known_to(main, every), plain="parts" not in name)
