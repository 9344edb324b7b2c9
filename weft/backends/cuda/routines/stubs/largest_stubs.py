"""The few largest elements of rows, as a stub: one after the other, each the first in order behind
the one before. Rows are read as often as elements are kept, from caches."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import barrier, block, shuffle_xor_u64, thread
from weft.backends.cuda.routines.stubs.sort_stubs import ordered
from weft.kernel.kinds import External, i32, i64, ptr, static, u32, u64, unrolled, void

found = External(ptr, ())  # shared memory

# Kinds that the stubs are given.
K: Any = u32  # a key in memory
W: Any = u32  # a key in registers


def first_of_warp(x: u64) -> u64:
    """The least number of the lanes of a warp, in all of them."""
    for k in unrolled(5):
        x = min(x, shuffle_xor_u64(x, i32(1) << i32(k)))
    return x


def keep_largest(
    keys: ptr,
    kept: ptr,
    places: ptr,
    *,
    LENGTH: static,
    INNER: static,
    ROWS: static,
    KEPT: static,
    WARPS: static,
    EACH: static,
) -> void:
    """``WARPS`` warps have a row, ``EACH`` rows a block. A key and its place are one number."""
    row = block() * EACH + thread() // (32 * WARPS)
    lane = thread() % (32 * WARPS)
    own = min(row, i64(ROWS - 1))
    start = own // INNER * LENGTH * INNER + own % INNER
    to = own // INNER * KEPT * INNER + own % INNER
    bound = u64(0)
    for r in range(KEPT):
        best = ~u64(0)
        for i in range(lane, LENGTH, 32 * WARPS):
            number = (u64(ordered(W(K[keys, start + i * INNER]))) << 32) | u64(i)
            if number >= bound:
                best = min(best, number)
        best = first_of_warp(best)
        if WARPS > 1:
            if lane % 32 == 0:
                u64[found(), lane // 32] = best
            barrier()
            best = ~u64(0)
            if lane % 32 < WARPS:
                best = u64[found(), lane % 32]
            best = first_of_warp(best)
            barrier()
        if lane == 0 and row < ROWS:
            at = i64(best & 0xFFFFFFFF)
            K[kept, to + r * INNER] = K[keys, start + at * INNER]
            u32[places, to + r * INNER] = u32(at)
        bound = best + 1
