"""Threefry, as stubs; bits are those of the reference in prims.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from weft.kernel.kinds import u32, u64


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
