"""Random integers of Philox and Threefry, as stubs; bits are those of the references in prims.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from typing import Any

from weft.kernel.kinds import i64, ptr, u32, u64, void

# Names that stubs are given; here so that they can be written.
OUT: Any = u32
COUNT = INNER = SIZE = HALF = TAKEN = 0


def rotate(x: u32, n: u32) -> u32:
    return (x << n) | (x >> (32 - n))


def rounds(both: u64, a: u32, b: u32, c: u32, d: u32) -> u64:
    """Four rounds of Threefry, on the first word above the second."""
    x0 = u32(both >> 32)
    x1 = u32(both)
    x0 = x0 + x1
    x1 = rotate(x1, a) ^ x0
    x0 = x0 + x1
    x1 = rotate(x1, b) ^ x0
    x0 = x0 + x1
    x1 = rotate(x1, c) ^ x0
    x0 = x0 + x1
    x1 = rotate(x1, d) ^ x0
    return (u64(x0) << 32) | u64(x1)


def inject(both: u64, a: u32, b: u32) -> u64:
    return (u64(u32(both >> 32) + a) << 32) | u64(u32(both) + b)


def threefry(key: u64, counter: u64) -> u64:
    """Twenty rounds of Threefry-2x32; first words above second ones."""
    k0 = u32(key >> 32)
    k1 = u32(key)
    k2 = k0 ^ k1 ^ 0x1BD11BDA
    x = inject(counter, k0, k1)
    x = rounds(x, u32(13), u32(15), u32(26), u32(6))
    x = inject(x, k1, k2 + 1)
    x = rounds(x, u32(17), u32(29), u32(16), u32(24))
    x = inject(x, k2, k0 + 2)
    x = rounds(x, u32(13), u32(15), u32(26), u32(6))
    x = inject(x, k0, k1 + 3)
    x = rounds(x, u32(17), u32(29), u32(16), u32(24))
    x = inject(x, k1, k2 + 4)
    x = rounds(x, u32(13), u32(15), u32(26), u32(6))
    return inject(x, k2, k0 + 5)


def turned(x: u64) -> u64:
    """The two words of a number in the other order."""
    return (x << 32) | (x >> 32)


# --- random integers ------------------------------------------------------------------------------


def philox(out: ptr, key: u64, start: u64, block: i64, left: i64) -> void:
    """Four words of Philox-4x32, or those of them that are left."""
    low = start + u64(block)
    high = key + u64(low < start)
    k0 = u32(key)
    k1 = u32(key >> 32)
    x0 = u32(low)
    x1 = u32(low >> 32)
    x2 = u32(high)
    x3 = u32(high >> 32)
    for _ in range(10):
        first = u64(x0) * 0xD2511F53
        second = u64(x2) * 0xCD9E8D57
        x0 = u32(second >> 32) ^ x1 ^ k0
        x2 = u32(first >> 32) ^ x3 ^ k1
        x1 = u32(second)
        x3 = u32(first)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    if SIZE == 8:
        u64[out, 2 * block] = u64(x0) | (u64(x1) << 32)
        if left > 2:
            u64[out, 2 * block + 1] = u64(x2) | (u64(x3) << 32)
        return
    OUT[out, 4 * block] = OUT(x0)
    if left > 1:
        OUT[out, 4 * block + 1] = OUT(x1)
    if left > 2:
        OUT[out, 4 * block + 2] = OUT(x2)
    if left > 3:
        OUT[out, 4 * block + 3] = OUT(x3)


def philox_bits(buffers: ptr, start: i64, stop: i64) -> void:
    """Blocks of random integers: key, result."""
    key = u64[ptr[buffers, 0], 0]
    first = u64[ptr[buffers, 0], 1]
    out = ptr[buffers, 1]
    full = min(stop, i64(COUNT) // 4)
    for block in range(start, full):
        philox(out, key, first, block, i64(4))
    for block in range(max(start, full), stop):
        philox(out, key, first, block, i64(COUNT) - 4 * block)


def threefry_bits(buffers: ptr, start: i64, stop: i64) -> void:
    """Random integers of Threefry, in pairs along an axis: key, result."""
    key = turned(u64[ptr[buffers, 0], 0])
    first = u64[ptr[buffers, 0], 1]
    out = ptr[buffers, 1]
    for n in range(start, stop):
        if SIZE == 8:
            u64[out, n] = turned(threefry(key, turned(first + u64(n))))
        else:
            at = n // INNER % HALF
            counter = (n // (INNER * HALF) * ((HALF + 1) // 2) + at // 2) * INNER + n % INNER
            found = threefry(key, turned(first + u64(counter)))
            OUT[out, n] = OUT(found) if at % 2 == 1 else OUT(found >> 32)


def advance(buffers: ptr, start: i64, stop: i64) -> void:
    """The key after this: key, result."""
    u64[ptr[buffers, 1], 0] = u64[ptr[buffers, 0], 0]
    u64[ptr[buffers, 1], 1] = u64[ptr[buffers, 0], 1] + TAKEN
