"""Stable radix sorts of rows, as stubs.

Rows of up to a tile are sorted by one block; of longer ones each digit takes three kernels: digits
are counted by tile, a scan says where those of each tile belong, and elements are moved there.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    atomic_add_u32,
    ballot,
    barrier,
    block,
    count_bits,
    shuffle_u32,
    shuffle_up_u32,
    thread,
    warp_barrier,
)
from weft.kernel.kinds import External, i32, i64, ptr, stack, u8, u32, unrolled, void

counters = starts = offsets = sums = kept_keys = kept_values = External(ptr, ())  # shared memory

# Names that stubs are given; here so that they can be written.
K: Any = u32  # a key in memory
W: Any = u32  # a key in registers
BITS = KIND = EXACT = DESCENDING = LENGTH = TILES = TILE = ITEMS = WARPS = VALUES = COPIES = 0
INNER = WIDTH = STRIDE = PART = PERMUTED = KEPT = ROWS = 0
SIGN = INFINITE = UNKNOWN = MOST = 0
UNSIGNED, SIGNED, FLOAT = range(3)


def ordered(k: W) -> W:
    """The number by which a key is ordered."""
    if KIND == 2:
        if EXACT == 0:
            if k & W(MOST) == 0:
                k = W(0)
            if k & W(MOST) > W(INFINITE):
                k = W(UNKNOWN)
        if k & W(SIGN) != 0:
            k = ~k & (W(MOST) | W(SIGN))
        else:
            k = k | W(SIGN)
    if KIND == 1:
        k = k ^ W(SIGN)
    if DESCENDING == 1:
        k = ~k & (W(MOST) | W(SIGN))
    return k


def digit_of(k: W, shift: i64) -> i64:
    return i64((ordered(k) >> W(shift)) & 255)


def count_digits(keys: ptr, counts: ptr, shift: i64) -> void:
    """How often each digit occurs in a tile: counts by row, digit and tile."""
    row = block() // TILES
    tile = block() % TILES
    for d in range(thread(), 256, 32 * WARPS):
        u32[counters(), d] = u32(0)
    barrier()
    first = tile * TILE + thread()
    items = stack(ITEMS * 8)
    for k in unrolled(ITEMS):
        at = min(first + k * 32 * WARPS, i64(LENGTH - 1))
        W[items, k] = W(K[keys, row * LENGTH + at])
    for k in unrolled(ITEMS):
        if first + k * 32 * WARPS < LENGTH:
            atomic_add_u32(counters() + 4 * digit_of(W[items, k], shift), u32(1))
    barrier()
    for d in range(thread(), 256, 32 * WARPS):
        u32[counts, (row * 256 + d) * TILES + tile] = u32[counters(), d]


def load_tile(keys: ptr, values: ptr, row: i64, first: i64, items: ptr, moved: ptr) -> void:
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


def same_digits(digit: i32) -> u32:
    """The lanes of the warp that have the same digit, or none.

    Bit by bit: to have the GPU look for same numbers takes as long as there are different ones.
    """
    found = ~u32(0)
    for b in unrolled(9):
        own = (digit >> i32(b)) & 1
        found = found & (ballot(own) ^ (u32(own) - 1))
    return found


def rank_tile(items: ptr, ranks: ptr, first: i64, shift: i64) -> void:
    """Where each key belongs in the sorted tile; ``starts`` has where digits begin."""
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
            digit = i64(256)
        peers = same_digits(i32(digit))
        rank = count_bits(peers & ((u32(1) << u32(lane)) - 1))
        before = u32(0)
        if rank == 0 and digit < 256:
            before = atomic_add_u32(own + 4 * digit, count_bits(peers))
        first_peer = count_bits((peers & (~peers + 1)) - 1)
        u32[ranks, r] = shuffle_u32(before, i32(first_peer)) + rank
    barrier()
    for d in range(thread(), 256, 32 * WARPS):
        total = u32(0)
        for w in unrolled(WARPS):
            count = u32[counters(), 256 * w + d]
            u32[counters(), 256 * w + d] = total
            total = total + count
        u32[starts(), d] = total
    barrier()
    scan_starts()
    for r in unrolled(ITEMS):
        at = first + warp * (32 * ITEMS) + r * 32 + lane
        if at < LENGTH:
            digit = digit_of(W[items, r], shift)
            u32[ranks, r] = u32[ranks, r] + u32[starts(), digit] + u32[own, digit]


def scan_starts() -> void:
    """Counts of 256 digits as where each begins; by the first warp."""
    if thread() < 32:
        total = u32(0)
        for k in unrolled(8):
            count = u32[starts(), 8 * thread() + k]
            u32[starts(), 8 * thread() + k] = total
            total = total + count
        found = total
        for k in unrolled(5):
            other = shuffle_up_u32(found, i32(1) << i32(k))
            if thread() >= i64(1) << k:
                found = found + other
        before = found - total
        for k in unrolled(8):
            u32[starts(), 8 * thread() + k] = u32[starts(), 8 * thread() + k] + before
    barrier()


def keep_tile(items: ptr, moved: ptr, ranks: ptr, first: i64) -> void:
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


def move_digits(
    keys: ptr, values: ptr, places: ptr, new_keys: ptr, new_values: ptr, shift: i64
) -> void:
    """Elements of a tile moved to where their digits belong."""
    row = block() // TILES
    tile = block() % TILES
    first = tile * TILE
    items = stack(ITEMS * 8)
    moved = stack(ITEMS * 4)
    ranks = stack(ITEMS * 4)
    load_tile(keys, values, row, first, items, moved)
    rank_tile(items, ranks, first, shift)
    for d in range(thread(), 256, 32 * WARPS):
        u32[offsets(), d] = u32[places, (row * 256 + d) * TILES + tile] - u32[starts(), d]
    keep_tile(items, moved, ranks, first)
    for k in unrolled(ITEMS):
        i = thread() + k * 32 * WARPS
        if first + i < LENGTH:
            key = W[kept_keys(), i]
            at = i64(u32[offsets(), digit_of(key, shift)] + u32(i))
            K[new_keys, at] = K(key)
            if VALUES > 0:
                u32[new_values, at] = u32[kept_values(), i]


def sort_block(keys: ptr, values: ptr, new_keys: ptr, new_values: ptr) -> void:
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


# --- moves ----------------------------------------------------------------------------------------


def pull_keys(x: ptr, order: ptr, out: ptr) -> void:
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


def push_elements(x: ptr, order: ptr, out: ptr) -> void:
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


def push_places(order: ptr, out: ptr) -> void:
    """The first numbers of a permutation of each row."""
    number = block() * 256 + thread()
    if number < ROWS * KEPT:
        inner = number % INNER
        at = number // INNER % KEPT
        outer = number // INNER // KEPT
        u32[out, number] = u32[order, (outer * INNER + inner) * LENGTH + at]


def split_keys(keys: ptr, sorted_keys: ptr, out: ptr) -> void:
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
