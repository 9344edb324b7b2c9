"""Stable radix sorts of rows, as stubs.

Short rows are sorted by some lanes of a warp: each key is compared with all others of its row. Rows
of up to a tile are sorted by one block. Of longer ones all digits are counted first. Then a
kernel for each digit moves the elements: a tile for each block, which learns from the tiles before
where its own belong, as scans do (Adinets and Merrill 2022).
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    atomic_add_u32,
    barrier,
    block,
    count_bits,
    leading_zeros,
    peek_u64,
    poke_u64,
    same_byte,
    shuffle_u32,
    shuffle_u64,
    shuffle_up_u32,
    thread,
    warp_barrier,
)
from weft.kernel.kinds import External, i32, i64, ptr, stack, static, u8, u32, u64, unrolled, void

counters = starts = offsets = kept_keys = kept_values = External(ptr, ())  # shared memory

# Kinds that the stubs are given.
K: Any = u32  # a key in memory
W: Any = u32  # a key in registers
UNSIGNED, SIGNED, FLOAT = range(3)


def ordered(
    k: W,
    *,
    KIND: static,
    EXACT: static,
    DESCENDING: static,
    SIGN: static,
    INFINITE: static,
    UNKNOWN: static,
    MOST: static,
    TOP: static,
) -> W:
    """The number by which a key is ordered."""
    if KIND == 2:
        if EXACT == 0:
            if k == W(SIGN):
                k = W(0)
            if k & W(MOST) > W(INFINITE):
                k = W(UNKNOWN)
        k = k ^ ((W(0) - (k >> W(TOP))) & W(MOST) | W(SIGN))
    if KIND == 1:
        k = k ^ W(SIGN)
    if DESCENDING == 1:
        k = ~k & (W(MOST) | W(SIGN))
    return k


def digit_of(k: W, shift: i64) -> u32:
    return u32((ordered(k) >> W(shift)) & 255)


def count_digits(
    keys: ptr,
    counts: ptr,
    *,
    LENGTH: static,
    TILES: static,
    TILE: static,
    ITEMS: static,
    WARPS: static,
    PASSES: static,
    LANES: static,
    PER: static,
    PARTS: static,
) -> void:
    """How often each digit occurs in a row: counts by row, place of the digit, and digit.

    Some lanes of a warp have counters of their own, as they often have the same digit.
    """
    row = block() // PARTS
    part = block() % PARTS
    for d in range(thread(), 256 * PASSES * LANES, 32 * WARPS):
        u32[counters(), d] = u32(0)
    barrier()
    own = counters() + 4 * (thread() % LANES)
    items = stack(ITEMS * 8)
    for tile in range(part * PER, min(i64(TILES), part * PER + PER)):
        first = tile * TILE + thread()
        for k in unrolled(ITEMS):
            at = min(first + k * 32 * WARPS, i64(LENGTH - 1))
            W[items, k] = W(K[keys, row * LENGTH + at])
        for k in unrolled(ITEMS):
            if first + k * 32 * WARPS < LENGTH:
                key = ordered(W[items, k])
                for p in unrolled(PASSES):
                    digit = i64((key >> W(8 * p)) & 255)
                    atomic_add_u32(own + 4 * LANES * (256 * p + digit), u32(1))
    barrier()
    for d in range(thread(), 256 * PASSES, 32 * WARPS):
        total = u32(0)
        for k in unrolled(LANES):
            total = total + u32[counters(), LANES * d + k]
        atomic_add_u32(counts + 4 * (row * 256 * PASSES + d), total)


def load_tile(
    keys: ptr,
    values: ptr,
    row: i64,
    first: i64,
    items: ptr,
    moved: ptr,
    *,
    LENGTH: static,
    ITEMS: static,
    VALUES: static,
) -> void:
    """The keys of a thread, and what goes with them; 32 neighbours of a warp at a time."""
    warp = thread() // 32
    lane = thread() % 32
    for r in unrolled(ITEMS):
        at = first + warp * (32 * ITEMS) + r * 32 + lane
        W[items, r] = W(0)
        if at < LENGTH:
            W[items, r] = W(K[keys, row * LENGTH + at])
        if VALUES == 1:
            u32[moved, r] = u32(0)
            if at < LENGTH:
                u32[moved, r] = u32[values, row * LENGTH + at]
        if VALUES == 2:
            u32[moved, r] = u32(at)


def rank_tile(
    items: ptr, ranks: ptr, first: i64, shift: i64, *, LENGTH: static, ITEMS: static, WARPS: static
) -> void:
    """Where each key belongs in the sorted tile; ``starts`` has where digits begin.

    What a tile has behind the row's end belongs behind all keys, so it takes the last digit.
    """
    warp = thread() // 32
    lane = thread() % 32
    own = counters() + 1024 * warp
    for d in range(lane, 256, 32):
        u32[own, d] = u32(0)
    warp_barrier()
    for r in unrolled(ITEMS):
        at = first + warp * (32 * ITEMS) + r * 32 + lane
        digit = digit_of(W[items, r], shift)
        if at >= LENGTH:
            digit = u32(255)
        peers = same_byte(digit)
        last = u32(31) - leading_zeros(peers)
        before = u32(0)
        if u32(lane) == last:
            before = atomic_add_u32(own + 4 * i64(digit), count_bits(peers))
        rank = shuffle_u32(before, i32(last)) + count_bits(peers & ((u32(1) << u32(lane)) - 1))
        u32[ranks, r] = rank | (digit << 16)
    barrier()
    for d in range(thread(), 256, 32 * WARPS):
        total = u32(0)
        for w in unrolled(WARPS):
            count = u32[counters(), 256 * w + d]
            u32[counters(), 256 * w + d] = total
            total = total + count
        u32[starts(), d] = total
    barrier()
    scan_counts(starts())
    for r in unrolled(ITEMS):
        d = i64(u32[ranks, r] >> 16)
        u32[ranks, r] = (u32[ranks, r] & 0xFFFF) + u32[starts(), d] + u32[own, d]


def scan_counts(counts: ptr) -> void:
    """Counts of 256 digits as where each begins; by the first warp."""
    if thread() < 32:
        total = u32(0)
        for k in unrolled(8):
            count = u32[counts, 8 * thread() + k]
            u32[counts, 8 * thread() + k] = total
            total = total + count
        found = total
        for k in unrolled(5):
            other = shuffle_up_u32(found, i32(1) << i32(k))
            if thread() >= i64(1) << k:
                found = found + other
        before = found - total
        for k in unrolled(8):
            u32[counts, 8 * thread() + k] = u32[counts, 8 * thread() + k] + before
    barrier()


def keep_tile(
    items: ptr, moved: ptr, ranks: ptr, first: i64, *, LENGTH: static, ITEMS: static, VALUES: static
) -> void:
    """Put a tile in order in shared memory."""
    warp = thread() // 32
    lane = thread() % 32
    for r in unrolled(ITEMS):
        at = first + warp * (32 * ITEMS) + r * 32 + lane
        if at < LENGTH:
            W[kept_keys(), i64(u32[ranks, r])] = W[items, r]
            if VALUES > 0:
                u32[kept_values(), i64(u32[ranks, r])] = u32[moved, r]
    barrier()


def before_tile(state: ptr, at: i64, first: i64, known: u64, *, AHEAD: static) -> u32:
    """Where the thread's digit of a tile belongs, from what the tiles before it have said."""
    total = u32(0)
    words = stack(AHEAD * 8)
    waiting = i64(1)
    while waiting == 1:
        for k in unrolled(AHEAD):
            u64[words, k] = peek_u64(state + 8 * max(at - 256 * (k + 1), first))
        for k in unrolled(AHEAD):
            if waiting == 1:
                word = u64[words, k]
                while word < known:
                    word = peek_u64(state + 8 * (at - 256 * (k + 1)))
                total = total + u32(word & 0xFFFFFFFF)
                if word >= known + (u64(1) << 32):
                    waiting = i64(0)
        at = at - 256 * AHEAD
    return total


def move_digits(
    keys: ptr,
    values: ptr,
    counts: ptr,
    state: ptr,
    new_keys: ptr,
    new_values: ptr,
    shift: i64,
    *,
    LENGTH: static,
    TILES: static,
    TILE: static,
    ITEMS: static,
    WARPS: static,
    VALUES: static,
    PASSES: static,
) -> void:
    """Elements of a tile moved to where their digits belong; GPUs begin blocks in their order.

    A thread for each digit tells the tiles behind how many of it are in this tile, and, when it
    knows it, where those behind this tile begin: a number below 2^32, with what it is and of which
    pass above it.
    """
    row = block() // TILES
    tile = block() % TILES
    first = tile * TILE
    items = stack(ITEMS * 8)
    moved = stack(ITEMS * 4)
    ranks = stack(ITEMS * 4)
    load_tile(keys, values, row, first, items, moved)
    rank_tile(items, ranks, first, shift)
    digit = thread()
    own = u32(TILE) - u32[starts(), digit]
    if digit < 255:
        own = u32[starts(), digit + 1] - u32[starts(), digit]
    at = block() * 256 + digit
    known = u64(shift // 4 + 1) << 32
    if tile > 0:
        poke_u64(state + 8 * at, known | u64(own))
    else:
        u32[offsets(), digit] = u32[counts, (row * PASSES + shift // 8) * 256 + digit]
        barrier()
        scan_counts(offsets())
    keep_tile(items, moved, ranks, first)
    begin = u32(row * LENGTH) + u32[offsets(), digit]
    if tile > 0:
        begin = before_tile(state, at, row * TILES * 256 + digit, known)
    poke_u64(state + 8 * at, (known + (u64(1) << 32)) | u64(begin + own))
    u32[offsets(), digit] = begin - u32[starts(), digit]
    barrier()
    for k in unrolled(ITEMS):
        i = thread() + k * 32 * WARPS
        if first + i < LENGTH:
            key = W[kept_keys(), i]
            at = i64(u32[offsets(), i64(digit_of(key, shift))] + u32(i))
            K[new_keys, at] = K(key)
            if VALUES > 0:
                u32[new_values, at] = u32[kept_values(), i]


def sort_block(
    keys: ptr,
    values: ptr,
    new_keys: ptr,
    new_values: ptr,
    *,
    BITS: static,
    LENGTH: static,
    ITEMS: static,
    VALUES: static,
) -> void:
    """A row for each block."""
    row = block()
    items = stack(ITEMS * 8)
    moved = stack(ITEMS * 4)
    ranks = stack(ITEMS * 4)
    load_tile(keys, values, row, i64(0), items, moved)
    warp = thread() // 32
    lane = thread() % 32
    for shift in range(0, BITS, 8):
        rank_tile(items, ranks, i64(0), shift)
        keep_tile(items, moved, ranks, i64(0))
        for r in unrolled(ITEMS):
            at = warp * (32 * ITEMS) + r * 32 + lane
            if at < LENGTH:
                W[items, r] = W[kept_keys(), at]
                if VALUES > 0:
                    u32[moved, r] = u32[kept_values(), at]
        barrier()
    for r in unrolled(ITEMS):
        at = warp * (32 * ITEMS) + r * 32 + lane
        if at < LENGTH:
            K[new_keys, row * LENGTH + at] = K(W[items, r])
            if VALUES > 0:
                u32[new_values, row * LENGTH + at] = u32[moved, r]


def other_key(key: W, lane: i64, *, BITS: static) -> W:
    """The key of another lane."""
    if BITS > 32:
        return W(shuffle_u64(u64(key), i32(lane)))
    return W(shuffle_u32(u32(key), i32(lane)))


def sort_short(
    keys: ptr,
    values: ptr,
    new_keys: ptr,
    new_values: ptr,
    *,
    LENGTH: static,
    ITEMS: static,
    VALUES: static,
    SPAN: static,
    ROWS: static,
) -> void:
    """Short rows, each by ``SPAN`` lanes of a warp with ``ITEMS`` keys each: a key belongs behind
    as many as are smaller, or the same and before it. All lanes take part in shuffles."""
    row = (block() * 256 + thread()) // SPAN
    place = thread() % SPAN
    lane = thread() % 32 - place
    first = min(row, i64(ROWS - 1)) * LENGTH
    read = stack(ITEMS * 8)
    items = stack(ITEMS * 8)
    moved = stack(ITEMS * 4)
    ranks = stack(ITEMS * 4)
    for r in unrolled(ITEMS):
        at = min(r * SPAN + place, i64(LENGTH - 1))
        W[read, r] = W(K[keys, first + at])
        W[items, r] = ordered(W[read, r])
        if VALUES == 1:
            u32[moved, r] = u32[values, first + at]
        u32[ranks, r] = u32(0)
    for s in unrolled(ITEMS):
        for j in range(min(i64(SPAN), i64(LENGTH - s * SPAN))):
            other = other_key(W[items, s], lane + j)
            for r in unrolled(ITEMS):
                before = u32(0)
                if other < W[items, r]:
                    before = u32(1)
                if other == W[items, r] and s * SPAN + j < r * SPAN + place:
                    before = u32(1)
                u32[ranks, r] = u32[ranks, r] + before
    if row < ROWS:
        for r in unrolled(ITEMS):
            at = r * SPAN + place
            if at < LENGTH:
                to = first + i64(u32[ranks, r])
                K[new_keys, to] = K(W[read, r])
                if VALUES == 1:
                    u32[new_values, to] = u32[moved, r]
                if VALUES == 2:
                    u32[new_values, to] = u32(at)


# --- moves ----------------------------------------------------------------------------------------


def pull_keys(
    x: ptr,
    order: ptr,
    out: ptr,
    *,
    LENGTH: static,
    INNER: static,
    STRIDE: static,
    PART: static,
    PERMUTED: static,
    ROWS: static,
) -> void:
    """Keys by row, in the order of a permutation of each, if there is one.

    An element has STRIDE keys of which PART is taken.
    """
    number = block() * 256 + thread()
    if number < ROWS * LENGTH:
        row = number // LENGTH
        at = number % LENGTH
        if PERMUTED == 1:
            at = i64(u32[order, number])
        place = (row // INNER * LENGTH + at) * INNER + row % INNER
        K[out, number] = K[x, place * STRIDE + PART]


def push_elements(
    x: ptr,
    order: ptr,
    out: ptr,
    *,
    LENGTH: static,
    COPIES: static,
    INNER: static,
    KEPT: static,
    ROWS: static,
) -> void:
    """The first elements of each row in the order of a permutation; COPIES words make one."""
    number = block() * 256 + thread()
    if number < ROWS * KEPT * COPIES:
        part = number % COPIES
        element = number // COPIES
        inner = element % INNER
        at = element // INNER % KEPT
        outer = element // INNER // KEPT
        source = i64(u32[order, (outer * INNER + inner) * LENGTH + at])
        K[out, number] = K[x, ((outer * LENGTH + source) * INNER + inner) * COPIES + part]


def push_places(
    order: ptr, out: ptr, *, LENGTH: static, INNER: static, KEPT: static, ROWS: static
) -> void:
    """The first numbers of a permutation of each row."""
    number = block() * 256 + thread()
    if number < ROWS * KEPT:
        inner = number % INNER
        at = number // INNER % KEPT
        outer = number // INNER // KEPT
        u32[out, number] = u32[order, (outer * INNER + inner) * LENGTH + at]


def split_keys(
    keys: ptr, sorted_keys: ptr, out: ptr, *, LENGTH: static, KEPT: static, ROWS: static
) -> void:
    """0, 1 or 2 for keys before, at and behind the one at a place of their sorted row."""
    number = block() * 256 + thread()
    if number < ROWS * LENGTH:
        chosen = ordered(W(K[sorted_keys, number // LENGTH * LENGTH + KEPT]))
        own = ordered(W(K[keys, number]))
        found = u32(1)
        if own < chosen:
            found = u32(0)
        if own > chosen:
            found = u32(2)
        u8[out, number] = u8(found)
