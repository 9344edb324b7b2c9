"""Short rows sorted side by side, as stubs.

A tile holds one row in each lane: sorting networks compare whole vectors and never branch. Records
are unsigned numbers; sizes come in a table of 64-bit numbers, so one text serves every shape. Keys
do not tell zeros apart, nor NaNs, so sorting keys loses the signs of zeros and the bits of NaNs. In
a sorted row they follow each other; in tiles that noted one they are written again, in their old
order.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.sorting.network import (
    BLOCK,
    UNSIGNED,
    Lanes,
    merge_block,
    network_names,
    sort_block,
    transpose,
)
from weft.backends.cpu.routines.sorting.records import element, odd
from weft.backends.cpu.routines.sorting.rows import Order, key, key_names
from weft.backends.llvm.code import Module
from weft.backends.llvm.text.stub import called_stubs, known_to, translate, translate_main
from weft.base.functional import lru
from weft.kernel.kinds import any_lane, i64, ptr, stack, static, truth, u32, unrolled, void

MAX_ROW_ELEMENTS = 2048
L1_VECTORS = 256  # vectors that stay in the nearest cache

# What the table of a sort holds, in order: rows and their length, that length rounded up to blocks,
# doublings from a block to a row, the distance between elements, and rows that share a flag.
ROWS, LENGTH, PADDED, LEVELS, INNER, FLAGGED = range(6)

# Kinds and static parameters of the stubs: elements, records, vectors of both,
# and a bit for each lane; how many lanes, bytes of a vector and of an element.
U: Any = u32
K: Any = u32
E: Any = u32
V: Any = u32
NOTED: Any = truth


# --- sorting a tile -------------------------------------------------------------------------------


def exchange(a: ptr, b: ptr) -> void:
    """Two vectors in memory put in order, lane by lane."""
    x = V[a, 0]
    y = V[b, 0]
    V[a, 0] = min(x, y)
    V[b, 0] = max(x, y)


def halve(tile: ptr, low: i64, high: i64, far: i64, least: i64, *, BYTES: static) -> void:
    """Exchanges between vectors so far apart, half of that and so on, down to the least."""
    while far >= least:
        j = low
        while j < high:
            for i in range(j, j + min(far, high - j - far), 4):
                for k in unrolled(4):
                    exchange(tile + (i + k) * BYTES, tile + (i + far + k) * BYTES)
            j += 2 * far
        far = far >> 1


def sort_tile(tile: ptr, table: ptr, *, BYTES: static) -> void:
    """A tile of as many vectors as rows have elements sorted, after padding it."""
    count = i64[table, PADDED]
    for i in range(i64[table, LENGTH], count):
        V[tile, i] = -1
    for i in range(0, count, BLOCK):
        sort_block(tile + i * BYTES)
    for level in range(i64[table, LEVELS]):
        part = i64(BLOCK) << level
        b = i64(0)
        while b < count:
            end = min(b + 2 * part, count)
            # the first half of a pair of runs against the second one backwards
            for i in range(max(b + 2 * part - count, i64(0)), part, 4):
                for k in unrolled(4):
                    other = tile + (b + 2 * part - 1 - i - k) * BYTES
                    exchange(tile + (b + i + k) * BYTES, other)
            # far exchanges over the whole pair, then near ones within what the cache holds
            for near in range(2):
                region = min(2 * part, i64(L1_VECTORS)) if near else 2 * part
                low = b
                while low < end:
                    least = i64(BLOCK) if near else i64(L1_VECTORS)
                    halve(tile, low, min(low + region, end), region >> 1, least)
                    low += region
            for i in range(b, end, BLOCK):
                merge_block(tile + i * BYTES)
            b += 2 * part


# --- rows and columns -----------------------------------------------------------------------------


def place_rows(base: ptr, table: ptr, t: i64, bases: ptr, *, LANES: static, SIZE: static) -> void:
    """Where the row of each lane begins; lanes beyond the last row have that one."""
    for lane in range(LANES):
        row = min(t * LANES + lane, i64[table, ROWS] - 1)
        ptr[bases, lane] = base + row * i64[table, LENGTH] * SIZE


def sort_rows(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    LANES: static,
    BYTES: static,
    SIZE: static,
    FLOAT: static,
) -> void:
    """Contiguous rows sorted, of at least a vector. Buffers: elements, result, table, and a word
    for each tile that says whether an element of it is more than its key."""
    table = ptr[buffers, 2]
    length = i64[table, LENGTH]
    tile = stack(MAX_ROW_ELEMENTS * BYTES)
    bases = stack(LANES * 8)
    block = stack(LANES * BYTES)
    for t in range(start, stop):
        noted = NOTED(False)
        place_rows(ptr[buffers, 0], table, t, bases)
        for i in range(0, length, LANES):
            column = min(i, length - LANES)  # the last block overlaps the one before
            for lane in range(LANES):
                x = E[ptr[bases, lane] + column * SIZE, 0]
                if FLOAT:
                    noted = noted | odd(x)
                V[block, lane] = V(key(x))
            transpose(block, tile + column * BYTES)
        sort_tile(tile, table)
        place_rows(ptr[buffers, 1], table, t, bases)
        for i in range(0, length, LANES):
            column = min(i, length - LANES)
            transpose(tile + column * BYTES, block)
            for lane in range(LANES):
                E[ptr[bases, lane] + column * SIZE, 0] = element(E(V[block, lane]))
        i64[ptr[buffers, 3], t] = i64(any_lane(noted))


def sort_narrow_rows(
    buffers: ptr, start: i64, stop: i64, *, LANES: static, BYTES: static, FLOAT: static
) -> void:
    """The same for rows that are shorter than a vector, one element at a time."""
    table = ptr[buffers, 2]
    length = i64[table, LENGTH]
    tile = stack(MAX_ROW_ELEMENTS * BYTES)
    bases = stack(LANES * 8)
    for t in range(start, stop):
        noted = False
        place_rows(ptr[buffers, 0], table, t, bases)
        for lane in range(LANES):
            for i in range(length):
                x = U[ptr[bases, lane], i]
                if FLOAT:
                    noted = noted | odd(x)
                K[tile, i * LANES + lane] = K(key(x))
        sort_tile(tile, table)
        place_rows(ptr[buffers, 1], table, t, bases)
        for i in range(length):
            E[tile + i * BYTES, 0] = element(E(V[tile, i]))
        for lane in range(LANES):
            for i in range(length):
                U[ptr[bases, lane], i] = U[tile + i * BYTES, lane]
        i64[ptr[buffers, 3], t] = i64(noted)


def sort_columns(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    LANES: static,
    BYTES: static,
    SIZE: static,
    FLOAT: static,
) -> void:
    """Neighbouring columns of elements sorted, with buffers as those of rows."""
    table = ptr[buffers, 2]
    length = i64[table, LENGTH]
    inner = i64[table, INNER]
    blocks = (inner + LANES - 1) // LANES
    tile = stack(MAX_ROW_ELEMENTS * BYTES)
    for t in range(start, stop):
        noted = NOTED(False)
        column = min(t % blocks * LANES, inner - LANES)
        place = (t // blocks * length * inner + column) * SIZE
        here = ptr[buffers, 0] + place
        there = ptr[buffers, 1] + place
        for i in range(length):
            x = E[here + i * inner * SIZE, 0]
            if FLOAT:
                noted = noted | odd(x)
            V[tile, i] = V(key(x))
        sort_tile(tile, table)
        for i in range(length):
            E[there + i * inner * SIZE, 0] = element(E(V[tile, i]))
        i64[ptr[buffers, 3], t] = i64(any_lane(noted))


# --- zeros and NaNs -------------------------------------------------------------------------------


def mend(buffers: ptr, start: i64, stop: i64, *, SIZE: static) -> void:
    """Zeros and NaNs of sorted rows as they stood before, with buffers as those of rows."""
    table = ptr[buffers, 2]
    flags = ptr[buffers, 3]
    inner = i64[table, INNER]
    lanes = i64[table, FLAGGED]
    some = i64(0)
    for tile in range(start // lanes, (stop - 1) // lanes + 1):
        some = some | i64[flags, tile]
    # tiles of columns are not in the order of rows: those rows are looked at one by one
    if inner == 1 and some == 0:
        return
    for n in range(start, stop):
        outer = n // inner
        column = n % inner
        tile = outer * ((inner + lanes - 1) // lanes) + column // lanes
        if inner == 1:
            tile = n // lanes
        if i64[flags, tile] != 0:
            at = (outer * i64[table, LENGTH] * inner + column) * SIZE
            mend_row(ptr[buffers, 0] + at, ptr[buffers, 1] + at, i64[table, LENGTH], inner)


def mend_row(
    here: ptr, there: ptr, length: i64, step: i64, *, SIGN: static, INFINITY: static
) -> void:
    """In a sorted row zeros come after what is negative, and NaNs at the end."""
    low = i64(0)
    high = length
    for i in range(length):
        x = U[here, i * step]
        size = x & (SIGN - 1)
        low += i64((x >= SIGN) & (size != 0) & (size <= INFINITY))
        high -= i64(size > INFINITY)
    for i in range(length):
        x = U[here, i * step]
        size = x & (SIGN - 1)
        if size == 0:
            U[there, low * step] = x
            low += 1
        if size > INFINITY:
            U[there, high * step] = x
            high += 1


# --- texts ----------------------------------------------------------------------------------------


@lru(64)
def tile_module(main: Any, v: Lanes, order: Order) -> Module:
    """The text of one of the stubs that sort tiles."""
    unit, word = UNSIGNED[order.bits], UNSIGNED[v.bits]
    names = key_names(order) | {"SIZE": order.bits // 8, "BYTES": v.size}
    names |= {"U": unit, "E": unit.of(v.count), "K": word, "V": word.of(v.count), "LANES": v.count}
    names |= {"NOTED": truth.of(v.count), **network_names(v, v.count)}
    stubs = called_stubs([main])
    private = [f.__name__ for f in stubs if f not in (main, sort_block, merge_block, transpose)]
    return translate(stubs, known_to(main, names), private, loop=True)


@lru(64)
def mend_module(order: Order) -> Module:
    """The text of `mend`."""
    names = key_names(order) | {"SIZE": order.bits // 8}
    names["U"] = UNSIGNED[order.bits]
    return translate_main(mend, known_to(mend, names), loop=True)
