"""Elements of any dtype as stubs read, write and shuffle them.

The names: ``C`` is the kind that is computed with, ``WIDTH`` its bytes, ``NARROW`` 1 for bfloat16
and 2 for float16 in memory, else 0.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    bf16_of_f32,
    f16_of_f32,
    f32_of_f16,
    shuffle_u32,
    shuffle_u64,
    shuffle_up_u32,
    shuffle_up_u64,
)
from weft.kernel.kinds import bits, f32, i32, i64, ptr, static, u16, u32, u64, void

# Kinds that the stubs are given.
C: Any = f32


def get(p: ptr, i: i64, *, NARROW: static) -> C:
    """An element of an array."""
    if NARROW == 1:
        return bits(f32, u32(u16[p, i]) << 16)
    if NARROW == 2:
        return f32_of_f16(u16[p, i])
    return C[p, i]


def put(p: ptr, i: i64, x: C, *, NARROW: static) -> void:
    """Write an element of an array."""
    if NARROW == 1:
        u16[p, i] = bf16_of_f32(x)
    elif NARROW == 2:
        u16[p, i] = f16_of_f32(x)
    else:
        C[p, i] = x


def strided(rows: ptr, count: i64, words: i64, n: i64, size: i64, part: i64) -> i64:
    """Where the n-th of what so many axes count is; for each of these, the last one first, there
    are some words, of which one is its size and another its stride."""
    found = i64(0)
    left = u32(n)
    for k in range(count):
        row = rows + 8 * words * k
        extent = u32(i64[row, size])
        found = found + i64(left % extent) * i64[row, part]
        left = left // extent
    return found


def bits_of(x: C, *, WIDTH: static, FLOATING: static) -> u64:
    """A number as bits, to be sent or kept."""
    if WIDTH == 8:
        return bits(u64, x)
    if FLOATING == 1:
        return u64(bits(u32, x))
    return u64(u32(x))


def from_bits(x: u64, *, WIDTH: static, FLOATING: static) -> C:
    """The number that bits stand for."""
    if WIDTH == 8:
        return bits(C, x)
    if FLOATING == 1:
        return bits(C, u32(x))
    return C(u32(x))


def up(x: C, n: i32, *, WIDTH: static) -> C:
    """The number of the lane so many before this one."""
    if WIDTH == 8:
        return from_bits(shuffle_up_u64(bits_of(x), n))
    return from_bits(u64(shuffle_up_u32(u32(bits_of(x)), n)))


def of_lane(x: C, n: i32, *, WIDTH: static) -> C:
    """The number of a lane."""
    if WIDTH == 8:
        return from_bits(shuffle_u64(bits_of(x), n))
    return from_bits(u64(shuffle_u32(u32(bits_of(x)), n)))
