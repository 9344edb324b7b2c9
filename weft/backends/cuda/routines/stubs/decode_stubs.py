"""Attention of one row of queries for each head, as stubs (flash decoding; Dao et al. 2023).

A block has a range of the columns of a head. Some neighbouring lanes have a column each time, and
16 bytes or so of its row each; they keep their own largest score, sum of exponentials and sum of
values, which are joined within a warp, a block, and, by the last block of a head to finish, over
all ranges, always in the same order. Ranges that nothing is seen of are not read. In a cluster of
blocks, each has a range of the columns that are seen of one head, and all have its results.
"""

from __future__ import annotations

from weft.backends.cuda.routines.device import (
    atomic_add_u32,
    await_previous,
    barrier,
    block,
    cluster_arrive,
    cluster_wait,
    cluster_write_f32,
    exp2_fast,
    fence,
    fma,
    shuffle_xor_f32,
    take_four_f32,
    thread,
    touch,
)
from weft.backends.cuda.routines.stubs.elements import get, put
from weft.kernel.kinds import External, bits, f32, i32, i64, ptr, stack, static, u32, unrolled, void

parts = flag = all = External(ptr, ())  # shared memory

LEAST = -3.0 * 2.0**125
NOT_A_NUMBER = 0x7FC00000


def fetch(
    out: ptr,
    p: ptr,
    row: i64,
    lane: i64,
    *,
    SIZE: static,
    D: static,
    VECTOR: static,
    ALIGNED: static,
) -> void:
    """A lane's elements of a row, as they are in memory."""
    if ALIGNED == 1:
        first = min(lane * VECTOR, i64(D - VECTOR))
        for n in unrolled(VECTOR * SIZE // 16):
            take_four_f32(out + 16 * n, p + SIZE * (row + first) + 16 * n)
    else:
        for e in unrolled(VECTOR):
            f32[out, e] = get(p, row + min(lane * VECTOR + e, i64(D - 1)))


def element(x: ptr, e: i64, *, ALIGNED: static) -> f32:
    """One of the elements that were fetched."""
    if ALIGNED == 1:
        return get(x, e)
    return f32[x, e]


def inside(lane: i64, e: i64, *, D: static, VECTOR: static) -> i64:
    """Whether a lane has an element of its own."""
    return i64(1) if lane * VECTOR + e < D else i64(0)


def join(own: ptr, n: i32, *, VECTOR: static) -> void:
    """What a lane has, joined with what the one that differs in a bit has: the largest score, the
    sum of exponentials, sums of values."""
    other = shuffle_xor_f32(f32[own, 0], n)
    most = max(f32[own, 0], other)
    mine = exp2_fast(f32[own, 0] - most)
    theirs = exp2_fast(other - most)
    for e in unrolled(1, VECTOR + 2):
        f32[own, e] = f32[own, e] * mine + shuffle_xor_f32(f32[own, e], n) * theirs
    f32[own, 0] = most


def of_lane(
    q: ptr,
    k: ptr,
    v: ptr,
    begin: i64,
    end: i64,
    blank: i64,
    own: ptr,
    *,
    VECTOR: static,
    LANES: static,
    LANE_STEPS: static,
    COLUMN_STEPS: static,
    ACROSS: static,
    DEEP: static,
    K_ROW: static,
    V_ROW: static,
    SCALE_LOG2: static,
) -> void:
    """What a lane's columns of a range come to."""
    lane = thread() % LANES
    column = thread() // LANES
    queries = stack(4 * VECTOR)
    raw = stack(4 * VECTOR)
    fetch(raw, q, 0, lane)
    for e in unrolled(VECTOR):
        f32[queries, e] = element(raw, e) * f32(SCALE_LOG2)
    keys = stack(4 * VECTOR * DEEP)
    values = stack(4 * VECTOR * DEEP)
    scores = stack(4 * DEEP)
    f32[own, 0] = f32(LEAST)
    for e in unrolled(1, VECTOR + 2):
        f32[own, e] = f32(0.0)
    for first in range(begin, end, ACROSS * DEEP):
        for j in unrolled(DEEP):
            at = min(first + j * ACROSS + column, end - 1)
            fetch(keys + 4 * VECTOR * j, k, at * K_ROW, lane)
            fetch(values + 4 * VECTOR * j, v, at * V_ROW, lane)
        most = f32[own, 0]
        for j in unrolled(DEEP):
            score = f32(0.0)
            for e in unrolled(VECTOR):
                if inside(lane, e) == 1:
                    score = fma(f32[queries, e], element(keys + 4 * VECTOR * j, e), score)
            for n in unrolled(LANE_STEPS):
                score = score + shuffle_xor_f32(score, i32(1) << i32(n))
            if blank == 1:
                score = f32(0.0)
            f32[scores, j] = score
            most = max(most, score)
        before = exp2_fast(f32[own, 0] - most)
        f32[own, 0] = most
        for e in unrolled(1, VECTOR + 2):
            f32[own, e] = f32[own, e] * before
        for j in unrolled(DEEP):
            weight = f32(0.0)
            if first + j * ACROSS + column < end:
                weight = exp2_fast(f32[scores, j] - most)
            f32[own, 1] = f32[own, 1] + weight
            for e in unrolled(VECTOR):
                value = element(values + 4 * VECTOR * j, e)
                f32[own, 2 + e] = fma(weight, value, f32[own, 2 + e])
    for n in unrolled(LANE_STEPS, LANE_STEPS + COLUMN_STEPS):
        join(own, i32(1) << i32(n))


def joined(rows: ptr, count: i64, d: i64, out: ptr, *, D: static) -> void:
    """Rows of a largest score, a sum of exponentials and sums of values as one, with one sum."""
    most = f32(LEAST)
    for i in range(count):
        most = max(most, f32[rows, i * (D + 2)])
    total = f32(0.0)
    value = f32(0.0)
    for i in range(count):
        factor = exp2_fast(f32[rows, i * (D + 2)] - most)
        total = fma(f32[rows, i * (D + 2) + 1], factor, total)
        value = fma(f32[rows, i * (D + 2) + 2 + d], factor, value)
    f32[out, 0] = most
    f32[out, 1] = total
    f32[out, 2] = value


def finish(
    rows: ptr,
    count: i64,
    out: ptr,
    head: i64,
    blank: i64,
    *,
    D: static,
    THREADS: static,
    MEAN: static,
) -> void:
    """The results of a head."""
    found = stack(12)
    for d in range(thread(), D, THREADS):
        joined(rows, count, d, found)
        x = f32[found, 2] / f32[found, 1]
        if MEAN == 0 and blank == 1:
            x = bits(f32, u32(NOT_A_NUMBER))
        put(out, head * D + d, x)


def keep_warp(own: ptr, *, D: static, VECTOR: static, LANES: static) -> void:
    """Leave what a warp has to its block."""
    lane = thread() % 32
    row = parts() + 4 * (thread() // 32) * (D + 2)
    if lane == 0:
        f32[row, 0] = f32[own, 0]
        f32[row, 1] = f32[own, 1]
    if lane < LANES:
        for e in unrolled(VECTOR):
            if lane * VECTOR + e < D:
                f32[row, 2 + lane * VECTOR + e] = f32[own, 2 + e]


def touch_head(
    k: ptr,
    v: ptr,
    limits: ptr,
    *,
    SIZE: static,
    COLUMNS: static,
    THREADS: static,
    BLOCKS: static,
    LINES: static,
    SHIFT: static,
    K_OFFSET: static,
    K_HEAD: static,
    K_ROW: static,
    V_OFFSET: static,
    V_HEAD: static,
    V_ROW: static,
) -> void:
    """Bring the keys and values that a block of a cluster will read near."""
    rank = block() % BLOCKS
    head = block() // BLOCKS
    seen = min(i64(COLUMNS), i64(i32[limits, 0]) + SHIFT + 1)
    share = (seen + BLOCKS - 1) // BLOCKS
    begin = rank * share
    keys = k + SIZE * (K_OFFSET + head * K_HEAD)
    values = v + SIZE * (V_OFFSET + head * V_HEAD)
    for at in range(begin + thread(), min(seen, begin + share), THREADS):
        for line in unrolled(LINES):
            touch(keys + SIZE * K_ROW * at + 128 * line)
            touch(values + SIZE * V_ROW * at + 128 * line)


def decode_head(
    q: ptr,
    k: ptr,
    v: ptr,
    limits: ptr,
    out: ptr,
    *,
    SIZE: static,
    D: static,
    VECTOR: static,
    COLUMNS: static,
    THREADS: static,
    WARPS: static,
    BLOCKS: static,
    SHIFT: static,
    Q_OFFSET: static,
    Q_HEAD: static,
    K_OFFSET: static,
    K_HEAD: static,
    V_OFFSET: static,
    V_HEAD: static,
) -> void:
    """The attention of one head by a cluster."""
    rank = block() % BLOCKS
    head = block() // BLOCKS
    seen = min(i64(COLUMNS), i64(i32[limits, 0]) + SHIFT + 1)
    blank = i64(0)
    if seen <= 0:
        blank = 1
        seen = i64(COLUMNS)
    share = (seen + BLOCKS - 1) // BLOCKS
    begin = rank * share
    own = stack(4 * (VECTOR + 2))
    queries = q + SIZE * (Q_OFFSET + head * Q_HEAD)
    keys = k + SIZE * (K_OFFSET + head * K_HEAD)
    values = v + SIZE * (V_OFFSET + head * V_HEAD)
    of_lane(queries, keys, values, begin, min(seen, begin + share), blank, own)
    keep_warp(own)
    barrier()
    found = stack(12)
    for d in range(thread(), D, THREADS):
        joined(parts(), i64(WARPS), d, found)
        row = all() + 4 * rank * (D + 2)
        for other in unrolled(BLOCKS):
            cluster_write_f32(row + 4 * (2 + d), i32(other), f32[found, 2])
            if d == 0:
                cluster_write_f32(row, i32(other), f32[found, 0])
                cluster_write_f32(row + 4, i32(other), f32[found, 1])
    cluster_arrive()
    cluster_wait()
    finish(all(), i64(BLOCKS), out, head, blank)
    barrier()


def decode(
    q: ptr,
    k: ptr,
    v: ptr,
    limits: ptr,
    out: ptr,
    partial: ptr,
    counts: ptr,
    *,
    SIZE: static,
    D: static,
    VECTOR: static,
    HEADS: static,
    GROUP: static,
    COLUMNS: static,
    RANGE: static,
    RANGES: static,
    THREADS: static,
    WARPS: static,
    LIMITED: static,
    LIMIT_BATCH: static,
    SHIFT: static,
    Q_OFFSET: static,
    Q_BATCH: static,
    Q_HEAD: static,
    K_OFFSET: static,
    K_BATCH: static,
    K_HEAD: static,
    V_OFFSET: static,
    V_BATCH: static,
    V_HEAD: static,
) -> void:
    await_previous()
    split = block() % RANGES
    head = block() // RANGES
    batch = head // HEADS
    shared = head % HEADS // GROUP
    seen = i64(COLUMNS)
    blank = i64(0)
    if LIMITED == 1:
        seen = min(seen, i64(i32[limits, batch * LIMIT_BATCH]) + SHIFT + 1)
        if seen <= 0:
            blank = 1
            seen = i64(COLUMNS)
    used = (seen + RANGE - 1) // RANGE
    if split < used:
        own = stack(4 * (VECTOR + 2))
        queries = q + SIZE * (Q_OFFSET + batch * Q_BATCH + head % HEADS * Q_HEAD)
        keys = k + SIZE * (K_OFFSET + batch * K_BATCH + shared * K_HEAD)
        values = v + SIZE * (V_OFFSET + batch * V_BATCH + shared * V_HEAD)
        begin = split * RANGE
        of_lane(queries, keys, values, begin, min(seen, begin + RANGE), blank, own)
        keep_warp(own)
        barrier()
        if used == 1:
            finish(parts(), i64(WARPS), out, head, blank)
        else:
            rows = partial + 4 * head * (RANGES * (D + 2))
            found = stack(12)
            for d in range(thread(), D, THREADS):
                joined(parts(), i64(WARPS), d, found)
                f32[rows, split * (D + 2) + 2 + d] = f32[found, 2]
                if d == 0:
                    f32[rows, split * (D + 2)] = f32[found, 0]
                    f32[rows, split * (D + 2) + 1] = f32[found, 1]
            fence()
            barrier()
            if thread() == 0:
                u32[flag(), 0] = atomic_add_u32(counts + 4 * head, u32(1))
            barrier()
            if i64(u32[flag(), 0]) == used - 1:
                fence()
                finish(rows, used, out, head, blank)
                if thread() == 0:
                    u32[counts, head] = u32(0)
