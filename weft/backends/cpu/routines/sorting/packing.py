"""Keys split by a pivot in vectors, as stubs, for processors that pack the lanes of a vector.

A vector of keys is split by a pivot into two packed ones (Bramas 2017): what is below goes to other
memory, the rest is packed where it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.routines.sorting.network import UNSIGNED, Lanes, batcher
from weft.backends.llvm.native.processor import is_arm
from weft.kernel.kinds import (
    Intrinsic,
    Kind,
    bits,
    compress,
    count_bits,
    i64,
    lane_sum,
    largest_lane,
    least_lane,
    ptr,
    shuffle,
    stack,
    static,
    truth,
    u32,
    umax,
    umin,
    unrolled,
    void,
)

UNROLLED = 4
DEPTH = 64  # splits by chosen keys, after which the range of keys is halved

# Kinds and static parameters of the stubs: keys, vectors of them, flags of
# lanes as such and as the bits of a number, parts of a vector that an instruction permutes; how
# many lanes, bytes of a key and a vector.
K: Any = u32
V: Any = u32
FLAGS: Any = truth
MASK: Any = u32
PARTS: Any = u32
# ALL: the flags of all lanes. TABLE: for each choice of lanes what packs these in front, if it is
# TABLED. WEIGHTS: on Arm, numbers of which a sum (SUMMED) has the bits of a choice of lanes, and
# above these their number. SPREAD, SPREAD_PAIRS, LANE_STEPS: vectors of keys from all over, pairs
# of these to compare, and what sorts lanes: which ones change places, and where the larger ones go.
permute = Intrinsic("aarch64.neon.tbl1")


# --- splitting ------------------------------------------------------------------------------------


def split_lanes(
    x: V,
    pivot: V,
    low: ptr,
    high: ptr,
    every: i64,
    *,
    ALL: static,
    TABLED: static,
    SUMMED: static,
    TABLE: static,
    WEIGHTS: static,
) -> i64:
    """The lanes below a pivot and the others stored, each packed; how many are below."""
    less = x < pivot
    if SUMMED:
        both = i64(lane_sum(V[WEIGHTS, 0] if less else 0))
        choice = both & ALL
        count = both >> 16
    else:
        choice = i64(bits(MASK, less))
        count = i64(count_bits(bits(MASK, less)))
    if TABLED:
        V[low, 0] = bits(V, permute(bits(PARTS, x), PARTS[TABLE, choice]))
        V[high, 0] = bits(V, permute(bits(PARTS, x), PARTS[TABLE, choice ^ ALL]))
    else:
        V[low, 0] = compress(x, less, x)
        # flags that LLVM knows nothing of: else it would compare again instead
        V[high, 0] = compress(x, less ^ bits(FLAGS, MASK(every)), x)
    return count


def split(src: ptr, low: ptr, n: i64, pivot: K, every: i64, *, LANES: static, KEY: static) -> i64:
    """Move keys below a pivot to other memory and pack the others; how many are below.

    Whole vectors are stored: what is too much lies where keys have been read already. ``every`` has
    all bits.
    """
    limit = V(pivot)
    below = i64(0)
    first = i64(0)
    while first + UNROLLED * LANES <= n:
        loaded = [V[src + first * KEY, k] for k in unrolled(UNROLLED)]
        for x in loaded:
            high = src + (first - below) * KEY
            below += split_lanes(x, limit, low + below * KEY, high, every)
            first += LANES
    while first + LANES <= n:
        high = src + (first - below) * KEY
        below += split_lanes(V[src + first * KEY, 0], limit, low + below * KEY, high, every)
        first += LANES
    for i in range(first, n):
        x = K[src, i]
        K[low, below] = x
        K[src, i - below] = x
        below += i64(x < pivot)
    return below


# --- pivots ---------------------------------------------------------------------------------------


def extent(src: ptr, n: i64, found: ptr, *, LANES: static, KEY: static) -> void:
    """The least and the largest of keys, at least a vector of them."""
    low = V[src, 0]
    high = low
    for i in range(0, n, LANES):
        x = V[src + min(i, n - LANES) * KEY, 0]
        low = umin(low, x)
        high = umax(high, x)
    K[found, 0] = least_lane(low)
    K[found, 1] = largest_lane(high)


def choose(
    keys: ptr,
    count: i64,
    depth: i64,
    place: ptr,
    flat: ptr,
    *,
    LANES: static,
    BYTES: static,
    SPREAD: static,
    SPREAD_PAIRS: static,
    LANE_STEPS: static,
) -> void:
    """Choose a key which leaves something on both sides; whether all keys are the same as it."""
    cells = stack(SPREAD * BYTES)
    step = count // (SPREAD * LANES)
    for i in unrolled(SPREAD * LANES):
        K[cells, i % SPREAD * LANES + i // SPREAD] = K[keys, (step >> 1) + step * i]
    rows = [V[cells, i] for i in unrolled(SPREAD)]
    for a, b in SPREAD_PAIRS:
        rows[a], rows[b] = umin(rows[a], rows[b]), umax(rows[a], rows[b])
    x = rows[(SPREAD - 1) // 2]
    for others, upper in LANE_STEPS:
        other = shuffle(x, x, others)
        x = shuffle(umin(x, other), umax(x, other), upper)
    V[cells, 0] = x
    low = K[cells, 0]
    middle = K[cells, LANES // 2]
    K[place, 0] = middle + K(low == middle)
    i64[flat, 0] = 0
    if (low == K[cells, LANES - 1]) | (depth == 0):
        extent(keys, count, cells)
        least = K[cells, 0]
        most = K[cells, 1]
        near = middle + K(least == middle)
        key = least + ((most - least) >> 1) + 1 if depth == 0 else near
        K[place, 0] = least if least == most else key
        i64[flat, 0] = i64(least == most)


def split_names(v: Lanes) -> dict[str, Any]:
    """What the stubs are told about vectors."""
    n, lanes, every = v.count, np.arange(v.count), (1 << v.count) - 1
    steps = []
    for part in (2 << k for k in range(n.bit_length() - 1)):  # Batcher's bitonic sort
        for far in (part >> k for k in range(1, part.bit_length())):
            upper = (lanes & far != 0) != (lanes & part != 0)
            steps.append((lanes ^ far, lanes + n * upper))
    spread = 1 if n >= 8 else 16 // n
    names = {"K": UNSIGNED[v.bits], "V": v.kind, "LANES": n, "KEY": v.step, "BYTES": v.size}
    names |= {"SPREAD": spread, "SPREAD_PAIRS": batcher(spread), "LANE_STEPS": steps, "ALL": every}
    names["TABLE"] = None
    names |= {"FLAGS": truth.of(n), "MASK": Kind(f"u{n}", f"i{n}", -(-n // 8), "unsigned")}
    names |= {"WEIGHTS": ((1 << 16) + (1 << lanes)).astype(f"u{v.step}")}
    tabled = v.size == (16 if is_arm() else 32)
    names |= {"TABLED": tabled, "SUMMED": tabled and is_arm()}
    if tabled:
        part = 1 if is_arm() else 4  # bytes that are moved as one
        order = np.argsort(~np.arange(every + 1)[:, None] >> lanes & 1, kind="stable")[..., None]
        table = order * (v.step // part) + np.arange(v.step // part)
        names |= {"TABLE": table.astype(f"u{part}"), "PARTS": UNSIGNED[8 * part].of(v.size // part)}
        names |= {"permute": permute if is_arm() else Intrinsic("x86.avx2.permd", named=False)}
    return names
