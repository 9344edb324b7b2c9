"""What sorting by splitting does between vectors, as stubs: which keys are split, and where to.

Vectors are stubs that they call; `quicksort.py` and `packing.py` have those.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.sorting.rows import key
from weft.kernel.kinds import External, free, i64, malloc, memcpy, ptr, stack, static, u32, void

# What the table of a sort holds: the length of rows, their pieces and buckets; what is sorted:
# whole rows, buckets that are to be put together and fit a cache, or those that do not; and the
# only position in rows that is wanted, or -1 for all.
LENGTH, PIECES, BUCKETS, WAY, RANK = range(5)
WHOLE, NEAR, FAR = range(3)
CACHED = 1 << 17  # bytes of a bucket that fits
SAMPLES = 1024
MAX_BUCKETS = 64

# Kinds and static parameters of the stubs: kinds of keys and of elements, bytes
# of keys, elements and results, keys that are sorted in registers, bytes of a piece, splits by
# chosen keys, and whether keys are records, which have a position in their lower half.
K: Any = u32
U: Any = u32
read = External(void, (ptr, ptr, i64, i64, ptr))
small = External(void, (ptr, ptr, i64))
choose = External(void, (ptr, i64, i64, ptr, ptr))
# split and fill are static parameters, as keys are numbers of any kind.


def begin_of(index: i64, length: i64, pieces: i64) -> i64:
    """Where a piece of a row begins; pieces are alike in size."""
    return index * length // pieces


# --- rows and buckets -----------------------------------------------------------------------------


def quick_sort(
    buffers: ptr, start: i64, stop: i64, *, KEY: static, OUT: static, DEPTH: static
) -> void:
    """Rows or buckets of rows sorted, each a unit.

    Buffers: keys, memory for as many, results, table; for each bucket where in its row it begins
    and how many keys it has, and for each piece where each bucket begins. Pieces are in the second
    memory. Buckets that do not fit are put together in the first; it is theirs when all are done.
    Those that do have memory of their own, not the stack, which may be small; where there is none,
    they do not fit.
    """
    table = ptr[buffers, 3]
    near = malloc(2 * CACHED if i64[table, WAY] == NEAR else 0)
    far = near + CACHED
    room = 0 if near is None else CACHED
    parts = stack(64 * 40)
    for n in range(start, stop):
        row = n // i64[table, BUCKETS]
        begin = row * i64[table, LENGTH]
        count = i64[table, LENGTH]
        wanted = i64(ptr[buffers, 2] + (begin + i64[table, RANK]) * OUT)
        if i64[table, RANK] < 0:
            wanted = i64(0)
        bound = ptr[buffers, 4] + 16 * n
        if i64[table, WAY] == NEAR:
            collect(buffers, n, near, bound, room)
        if i64[table, WAY] != WHOLE:
            begin = begin + i64[bound, 0]
            count = i64[bound, 1]
        keys = ptr[buffers, 0] + begin * KEY
        other = ptr[buffers, 1] + begin * KEY
        if i64[table, WAY] == NEAR:
            keys = near
            other = far
            fits = count * KEY <= room
            i64[bound, 1] = 0 if fits else count
            count = count if fits else 0
        if count > 0:
            put_part(parts, keys, other, ptr[buffers, 2] + begin * OUT, count, i64(DEPTH))
            sort_parts(parts, wanted)
    free(near)


def collect(buffers: ptr, n: i64, near: ptr, bound: ptr, room: i64, *, KEY: static) -> void:
    """A bucket put together from pieces; where it begins and how many are wanted of it."""
    table = ptr[buffers, 3]
    length = i64[table, LENGTH]
    pieces = i64[table, PIECES]
    step = i64[table, BUCKETS] + 1
    row = n // i64[table, BUCKETS]
    starts = ptr[buffers, 5] + 8 * (row * pieces * step + n % i64[table, BUCKETS])
    begin = i64(0)
    end = i64(0)
    for i in range(pieces):
        begin = begin + i64[starts, i * step]
        end = end + i64[starts, i * step + 1]
    i64[bound, 0] = begin
    i64[bound, 1] = end - begin
    rank = i64[table, RANK]
    if rank >= 0 and (rank < begin or rank >= end):
        i64[bound, 1] = 0
        return
    to = near
    if (end - begin) * KEY > room:
        to = ptr[buffers, 0] + (row * length + begin) * KEY
    for i in range(pieces):
        low = i64[starts, i * step]
        count = i64[starts, i * step + 1] - low
        source = row * length + begin_of(i, length, pieces) + low
        memcpy(to, ptr[buffers, 1] + source * KEY, count * KEY)
        to = to + count * KEY


def put_part(part: ptr, keys: ptr, other: ptr, out: ptr, count: i64, depth: i64) -> void:
    """Note what is left to sort: keys, memory for as many, where to, and splits that are left."""
    ptr[part, 0] = keys
    ptr[part, 1] = other
    ptr[part, 2] = out
    i64[part, 3] = count
    i64[part, 4] = depth


def sort_parts(
    parts: ptr, wanted: i64, *, KEY: static, OUT: static, SMALL: static, split: static, fill: static
) -> void:
    """The first part and all that it is split into sorted, or what has a wanted place."""
    cells = stack(16)
    height = i64(1)
    while height > 0:
        height = height - 1
        part = parts + 40 * height
        keys = ptr[part, 0]
        other = ptr[part, 1]
        out = ptr[part, 2]
        count = i64[part, 3]
        depth = i64[part, 4]
        outside = (wanted < i64(out)) | (wanted >= i64(out + count * OUT))
        if (wanted != 0) & outside:
            continue
        if count <= SMALL:
            small(keys, out, count)
            continue
        choose(keys, count, depth, cells, cells + 8)
        pivot = K[cells, 0]
        if i64[cells, 1] != 0:  # all are the same
            fill(out, count, pivot)
            continue
        below = split(keys, other, count, pivot, -1)
        above = count - below
        depth = max(depth - 1, i64(0))
        # the smaller one is the next to go on with
        last = i64(1) if below < above else i64(0)
        put_part(part + 40 * last, other, keys + above * KEY, out, below, depth)
        high = out + below * OUT
        put_part(part + 40 * (1 - last), keys, other + below * KEY, high, above, depth)
        height = height + 2


# --- keys and buckets -----------------------------------------------------------------------------


def sort_keys(buffers: ptr, start: i64, stop: i64, *, KEY: static, SIZE: static) -> void:
    """Rows of at least a vector as keys: elements, keys, table, and a word that marks each row."""
    length = i64[ptr[buffers, 2], LENGTH]
    for row in range(start, stop):
        mark = ptr[buffers, 3] + 8 * row
        i64[mark, 0] = 0
        source = ptr[buffers, 0] + row * length * SIZE
        read(source, ptr[buffers, 1] + row * length * KEY, length, 0, mark)


def sort_sample(buffers: ptr, start: i64, stop: i64, *, KEY: static, PLACED: static) -> void:
    """Keys from all over each row, and rows unmarked: elements, keys, table, marks."""
    length = i64[ptr[buffers, 2], LENGTH]
    step = length // SAMPLES
    for row in range(start, stop):
        i64[ptr[buffers, 3], row] = 0
        for i in range(SAMPLES):
            # not always at the same distance, which data may know of
            at = i * step + (i * 2654435761 >> 7) % step
            found = K(key(U[ptr[buffers, 0], row * length + at]))
            if PLACED:
                found = (found << (4 * KEY)) | K(at)
            K[ptr[buffers, 1], row * SAMPLES + i] = found


def pivot_of(samples: ptr, node: i64, *, PLACED: static) -> K:
    """The key that splits a part, of the sorted samples of a row."""
    level = i64(0)
    while node >> (level + 1) > 0:
        level = level + 1
    number = 2 * node - (i64(2) << level) + 1
    at = number * (i64(SAMPLES // 2) >> level)
    if PLACED:
        return K[samples, at]
    return K(key(U[samples, at]))


def sort_buckets(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    KEY: static,
    SIZE: static,
    PIECE: static,
    PLACED: static,
    split: static,
) -> void:
    """Pieces of rows as keys, bucket by bucket; pieces hold at least a vector.

    Buffers: elements, keys, table, samples in order, marks, and for each piece where each bucket
    begins. A part of a piece that is split has its halves at twice its number and behind that; of
    each there are keys, memory for as many, their number and a lower bound.
    """
    table = ptr[buffers, 2]
    length = i64[table, LENGTH]
    pieces = i64[table, PIECES]
    buckets = i64[table, BUCKETS]
    near = stack(PIECE)
    far = stack(PIECE)
    tree = stack(2 * MAX_BUCKETS * 40)
    for unit in range(start, stop):
        row = unit // pieces
        low = begin_of(unit % pieces, length, pieces)
        count = begin_of(unit % pieces + 1, length, pieces) - low
        begin = row * length + low
        source = ptr[buffers, 0] + begin * SIZE
        read(source, near, count, low, ptr[buffers, 4] + 8 * row)
        put_part(tree + 40, near, far, None, count, i64(0))
        samples = ptr[buffers, 3] + row * SAMPLES * (KEY if PLACED else SIZE)
        for node in range(1, buckets):
            part = tree + 40 * node
            keys = ptr[part, 0]
            other = ptr[part, 1]
            pivot = pivot_of(samples, node)
            below = i64(0)
            if pivot != K(i64[part, 4]):
                below = split(keys, other, i64[part, 3], pivot, -1)
            above = i64[part, 3] - below
            child = tree + 80 * node
            put_part(child, other, keys + above * KEY, None, below, i64[part, 4])
            put_part(child + 40, keys, other + below * KEY, None, above, i64(pivot))
        starts = ptr[buffers, 5] + 8 * unit * (buckets + 1)
        done = i64(0)
        for bucket in range(buckets):
            part = tree + 40 * (buckets + bucket)
            i64[starts, bucket] = done
            memcpy(ptr[buffers, 1] + (begin + done) * KEY, ptr[part, 0], i64[part, 3] * KEY)
            done = done + i64[part, 3]
        i64[starts, buckets] = done
