"""Random numbers between two bounds, by Philox (Salmon et al. 2011) over places and calls."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.backends.cuda.routines.stubs.elements import get, put
from weft.kernel.kinds import f32, f64, i64, ptr, static, u32, u64, void

# Kinds that the stubs are given.
C: Any = f32


def draw(
    low: ptr, high: ptr, state: ptr, out: ptr, *, COUNT: static, WIDE: static, FLOATS: static
) -> void:
    """``state`` is a key and the number of calls there were."""
    number = block() * 256 + thread()
    if number < i64(COUNT):
        a = u32(u64(number))
        b = u32(u64(number) >> 32)
        c = u32(u64[state, 1])
        d = u32(u64[state, 1] >> 32)
        key = u32(u64[state, 0])
        other = u32(u64[state, 0] >> 32)
        for _ in range(10):
            one = u64(a) * u64(0xD2511F53)
            two = u64(c) * u64(0xCD9E8D57)
            a = u32(two >> 32) ^ b ^ key
            c = u32(one >> 32) ^ d ^ other
            b = u32(two)
            d = u32(one)
            key = key + u32(0x9E3779B9)
            other = other + u32(0xBB67AE85)
        first = get(low, i64(0))
        last = get(high, i64(0))
        bits = u64(b) << 32 | u64(a)
        if FLOATS == 1 and WIDE == 1:
            part = f64(bits >> 11) * 1.1102230246251565e-16
            put(out, number, first + C(part) * (last - first))
        if FLOATS == 1 and WIDE == 0:
            put(out, number, first + C(a >> 8) * C(5.9604644775390625e-08) * (last - first))
        if FLOATS == 0:
            width = u64(last) - u64(first)
            value = u64(first)
            if width != u64(0):
                value = value + bits % width
            put(out, number, C(value))


def advance(state: ptr) -> void:
    """One call more."""
    if thread() == 0:
        u64[state, 1] = u64[state, 1] + u64(1)
