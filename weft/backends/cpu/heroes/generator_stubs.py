"""Random integers of Philox and Threefry, and samples of gamma distributions, as stubs.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); Marsaglia
and Tsang, "A simple method for generating gamma variables" (2000). Bits are those of the
references in prims.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.stub import bits, f32, i64, ptr, u32, u64, void

# Names that stubs are given; here so that they can be written.
F: Any = f32
W: Any = u32
OUT: Any = u32
LOG: Any = None
LOG1P: Any = None
ROOT: Any = None
POWER: Any = None
ERF_INV: Any = None
COUNT = INNER = SIZE = HALF = TAKEN = EACH = SHIFT = ONE = LOGS = 0
LOW = SPAN = THIRD = ROOT_TWO = SQUEEZE = 0.0


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


# --- samples of gamma distributions ---------------------------------------------------------------


def uniform(key: u64) -> F:
    """A number from 0 to 1."""
    found = threefry(key, u64(0))
    raw = W(found)
    if SIZE == 4:
        raw = W(found) ^ W(found >> 32)
    return bits(F, (raw >> SHIFT) | ONE) - 1.0


def normal(key: u64) -> F:
    """A number of the normal distribution."""
    x = uniform(key) * SPAN + LOW
    return ROOT_TWO * ERF_INV(max(x, F(LOW)))


def cube(key: u64, c: F, d: F) -> F:
    """The first (1 + c x)**3 that is accepted."""
    found = F(1.0)
    while d == d:
        again = threefry(key, u64(0))
        inner = threefry(key, u64(1))
        x = F(0.0)
        root = F(0.0)
        while True:
            x = normal(threefry(inner, u64(1)))
            root = x * c + 1.0
            if root <= 0.0:
                inner = threefry(inner, u64(0))
            else:
                break
        square = x * x
        found = root * root * root
        u = uniform(threefry(key, u64(2)))
        if u < 1.0 - SQUEEZE * (square * square):
            break
        slope = d * ((1.0 - found) + LOG(found))
        if LOG(u) < square * 0.5 + slope:
            break
        if slope != slope:
            break
        key = again
    return found


def gamma(buffers: ptr, start: i64, stop: i64) -> void:
    """Samples, or their logarithms: keys, alphas, result."""
    for n in range(start, stop):
        own = turned(u64[ptr[buffers, 0], n // EACH])
        key = threefry(own, u64(n % EACH))
        alpha = F[ptr[buffers, 1], n]
        boosted = alpha + 1.0
        if alpha >= 1.0:
            boosted = alpha
        d = boosted - THIRD
        v = cube(threefry(key, u64(0)), THIRD / ROOT(d), d)
        found = d * v
        if LOGS == 1:
            found = LOG(d) + LOG(v)
        if not alpha >= 1.0:
            # a sample for alpha + 1 becomes one for alpha by a factor u**(1 / alpha)
            u = uniform(threefry(key, u64(1)))
            if LOGS == 1:
                logs = LOG1P(-u)
                if logs != 0.0:
                    found = found + logs * (1.0 / alpha)
            else:
                found = found * POWER(1.0 - u, 1.0 / alpha)
        F[ptr[buffers, 2], n] = found
