"""Stubs for products of many float32, which go in float64; and updates one after the other.

Many products often go through the denormal numbers on their way to zero. The processor takes a
hundred times as long for those.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.scatter.scatter_stubs import (
    inside,
    locate,
    put,
    put_listed,
    range_of,
)
from weft.kernel.kinds import (
    External,
    bits,
    f32,
    f64,
    i64,
    ptr,
    stack,
    truth,
    u32,
    u64,
    void,
)

# Updates for each element between two looks whether products have become tiny, and the bits,
# without that of the sign, below which they have: 2**-500, which is zero in float32.
STRETCH, TINY = 32, (1023 - 500) << 53
# The same for pieces, of which a tiny one is zero whatever the others are, up to eight of them, if
# none of them is above 2**90.
TINY_PIECE, LARGE_PIECE = (1023 - 950) << 53, (1023 + 90) << 53
# Elements of which the pieces are multiplied at a time.
MULTIPLIED = 1 << 12

# Names that stubs are given; here so that they can be written.
K = B = STRIDE0 = COUNT = TOTAL = UNIT = PIECE = PIECES = LOOK = WINDOW = 0
# Whether products go in float64, and which of the places that array has.
DOUBLE = PLACE = 0
U: Any = f32
# Elements of an array of a piece, a power of two, and those of a vector of them.
PADDED = WIDE = 0
# A vector of ones at a place; a vector of products of a piece settled, and its largest numbers
# kept at another place; a vector of the result multiplied with those of all pieces.
begin_lanes = External(void, (ptr,))
settle_lanes = multiply_lanes = External(void, (ptr, ptr))


def product(indices: ptr, updates: ptr, out: ptr, wide: ptr, base: i64, count: i64, n: i64) -> void:
    """One update of an array of products in float64, or of the result where that has none."""
    at = locate(indices, n) - base
    if LOOK and K == 1 and B == 0 and STRIDE0 == 1:
        if u64(at) < u64(count):  # where the index is the place, this says that it is inside
            f64[wide, at] = f64[wide, at] * f64(f32[updates, n])
            return
    if inside(indices, n):
        if LOOK:
            if u64(at) >= u64(count):
                put(out, at, f32[updates, n])
                return
        f64[wide, at] = f64[wide, at] * f64(f32[updates, n])


def settle(wide: ptr, count: i64) -> void:
    """Products that are tiny made zero, before they become denormal."""
    for i in range(count):
        found = bits(u64, f64[wide, i])
        if (found << 1) < TINY:
            u64[wide, i] = (found >> 63) << 63


def in_double(indices: ptr, updates: ptr, result: ptr, wide: ptr, base: i64) -> void:
    """Products one after the other, in float64."""
    out = result + base * 4
    count = min(i64(WINDOW), TOTAL - base)
    for i in range(count):
        f64[wide, i] = f64(f32[out, i])
    low = i64(0)
    while low < COUNT:
        high = min(low + WINDOW * STRETCH, i64(COUNT))
        first = high - (high - low) % 4
        for n in range(low, first, 4):
            product(indices, updates, out, wide, base, count, n)
            product(indices, updates, out, wide, base, count, n + 1)
            product(indices, updates, out, wide, base, count, n + 2)
            product(indices, updates, out, wide, base, count, n + 3)
        for n in range(first, high):
            product(indices, updates, out, wide, base, count, n)
        settle(wide, count)
        low = high
    for i in range(count):
        f32[out, i] = f32(f64[wide, i])


def in_a_row(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates one after the other: indices, updates, result, whether to, if that was seen, and room
    for products in float64, where those are wanted.
    """
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    base = i64(0)
    if LOOK:
        which = i64(u32[ptr[buffers, 3], 0])
        if which == 0:
            return
        base = (which - 1) * WINDOW
    if DOUBLE:
        in_double(indices, updates, ptr[buffers, 2], ptr[buffers, PLACE], base)
    else:
        range_of(indices, updates, ptr[buffers, 2], i64(0), i64(COUNT))


# --- pieces ---------------------------------------------------------------------------------------
#
# Pieces of the updates, each with an array of its own that begins with ones, are multiplied in the
# end. Where a product of some piece is so large, infinite or NaN that this may be another number
# than that of one update after the other, it is done again in that way.
#
# Buffers: indices, updates, result, arrays of the pieces, the largest product of each; where most
# updates were seen to go to one part of the array: which, how many of each unit do not, and those.


def part_of(buffers: ptr) -> i64:
    """Where the part of the array begins that pieces are of; below zero if there is none."""
    if LOOK:
        return (i64(u32[ptr[buffers, 5], 0]) - 1) * WINDOW
    return i64(0)


def factor(
    indices: ptr, updates: ptr, wide: ptr, others: ptr, base: i64, count: i64, n: i64, to: i64
) -> i64:
    """One update of the array of a piece, or one more of those that it has no place for."""
    at = locate(indices, n) - base
    if K == 1 and B == 0 and STRIDE0 == 1:
        if u64(at) < u64(count):
            f64[wide, at] = f64[wide, at] * f64(f32[updates, n])
            return to
        if LOOK == 0:
            return to
    if inside(indices, n):
        if LOOK:
            if u64(at) >= u64(count):
                u64[others, to] = (u64(at + base) << 32) | u64(bits(u32, f32[updates, n]))
                return to + 1
        f64[wide, at] = f64[wide, at] * f64(f32[updates, n])
    return to


def four_factors(
    indices: ptr, updates: ptr, wide: ptr, others: ptr, base: i64, count: i64, n: i64, to: i64
) -> i64:
    """Four updates; as a rule the array has a place for them, which is one question then."""
    if K == 1 and B == 0 and STRIDE0 == 1 and (LOOK == 0 or WINDOW == PADDED):
        a = locate(indices, n) - base
        b = locate(indices, n + 1) - base
        c = locate(indices, n + 2) - base
        d = locate(indices, n + 3) - base
        # past the end of the result there are places that nothing comes of
        if u64(a | b | c | d) < PADDED:
            f64[wide, a] = f64[wide, a] * f64(f32[updates, n])
            f64[wide, b] = f64[wide, b] * f64(f32[updates, n + 1])
            f64[wide, c] = f64[wide, c] * f64(f32[updates, n + 2])
            f64[wide, d] = f64[wide, d] * f64(f32[updates, n + 3])
            return to
    to = factor(indices, updates, wide, others, base, count, n, to)
    to = factor(indices, updates, wide, others, base, count, n + 1, to)
    to = factor(indices, updates, wide, others, base, count, n + 2, to)
    return factor(indices, updates, wide, others, base, count, n + 3, to)


def settle_piece(wide: ptr) -> u64:
    """The products of a piece that are tiny made zero; the bits of the largest but for its sign."""
    largest = stack(8 * WIDE)
    for i in range(i64(WIDE)):
        u64[largest, i] = u64(0)
    for i in range(i64(0), i64(PADDED), WIDE):
        settle_lanes(wide + 8 * i, largest)
    found = u64(0)
    for i in range(i64(WIDE)):
        found = max(found, u64[largest, i])
    return found


def factors(buffers: ptr, piece: i64, base: i64) -> void:
    """The products of a piece."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    wide = ptr[buffers, 3] + piece * (8 * PADDED)
    others = ptr[buffers, 0]
    count = min(i64(WINDOW), TOTAL - base)
    for i in range(i64(0), i64(PADDED), WIDE):
        begin_lanes(wide + 8 * i)
    if LOOK:
        others = ptr[buffers, 7]
    since = i64(0)
    unit = piece * PIECE
    while unit < (piece + 1) * PIECE and unit * UNIT < COUNT:
        low = unit * UNIT
        end = min(low + UNIT, i64(COUNT))
        to = low
        while low < end:
            high = min(low + WINDOW * STRETCH, end)
            first = high - (high - low) % 4
            for n in range(low, first, 4):
                to = four_factors(indices, updates, wide, others, base, count, n, to)
            for n in range(first, high):
                to = factor(indices, updates, wide, others, base, count, n, to)
            since = since + (high - low)
            if since >= WINDOW * STRETCH:
                settle_piece(wide)
                since = i64(0)
            low = high
        if LOOK:
            u32[ptr[buffers, 6], unit] = u32(to - unit * UNIT)
        unit = unit + 1
    u64[ptr[buffers, 4], piece] = settle_piece(wide)


def multiply_pieces(buffers: ptr, start: i64, stop: i64) -> void:
    """Each piece of the updates into an array of its own."""
    base = part_of(buffers)
    if base >= 0:
        for piece in range(start, stop):
            factors(buffers, piece, base)


def too_large(buffers: ptr) -> truth:
    """Whether the products of pieces do not say what that of all is."""
    largest = u64(0)
    for piece in range(i64(PIECES)):
        largest = max(largest, u64[ptr[buffers, 4], piece])
    return largest > LARGE_PIECE


def multiply(buffers: ptr, start: i64, stop: i64) -> void:
    """The arrays of pieces, and the result as it was, multiplied."""
    base = part_of(buffers)
    if base < 0 or too_large(buffers):
        return
    arrays = ptr[buffers, 3]
    out = ptr[buffers, 2] + base * 4
    count = min(i64(WINDOW), TOTAL - base)
    low = start * MULTIPLIED
    high = min(stop * MULTIPLIED, count)
    whole = high - (high - low) % WIDE
    for i in range(low, whole, WIDE):
        multiply_lanes(out + 4 * i, arrays + 8 * i)
    for i in range(whole, high):
        total = f64(f32[out, i])
        for piece in range(i64(PIECES)):
            total = total * f64[arrays, piece * PADDED + i]
            found = bits(u64, total)
            total = bits(f64, (found >> 63) << 63) if (found << 1) < TINY_PIECE else total
        f32[out, i] = f32(total)


def multiply_rest(buffers: ptr, start: i64, stop: i64) -> void:
    """What pieces had no place for; or all, where they were of no use."""
    base = part_of(buffers)
    if base < 0:
        return
    if too_large(buffers):
        wide = ptr[buffers, 3]
        in_double(ptr[buffers, 0], ptr[buffers, 1], ptr[buffers, 2], wide, base)
    elif LOOK:
        others = ptr[buffers, 7]
        unit = i64(0)
        while unit * UNIT < COUNT:
            low = unit * UNIT
            high = low + i64(u32[ptr[buffers, 6], unit])
            put_listed(ptr[buffers, 2], others, others, low, high)
            unit = unit + 1
