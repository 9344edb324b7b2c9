"""Native functions of scatters: where updates go, how they are combined, and in which order.

What is fixed for one scatter (sizes, strides, the operation) comes as names; scatter.py finds those
and decides which of the functions run.
"""

from __future__ import annotations

from typing import Any

from weft.backends.llvm.words import defined
from weft.kernel.kinds import (
    bits,
    f32,
    i64,
    memcpy,
    ptr,
    stack,
    static,
    truth,
    u16,
    u32,
    u64,
    void,
)

# Bytes copied at a time.
BLOCK = 1 << 18
# Elements that are written one by one where many become the same; copies make the rest.
SEED = 64
# How many bytes ahead memory is brought near before it is written in lists, and how many updates
# ahead in the array itself.
PREFETCH_BYTES, PREFETCH_UPDATES = 64, 24
# Updates looked at to see whether most go into one bucket, and how many of them are most.
SKEW_SAMPLE, SKEWED_SAMPLE = 512, 448
# Updates from which on loops over single elements are unrolled.
MIN_UNROLLED_UPDATES = 1 << 12
# Operations on elements.
SET, ADD, SUB, MUL, MIN, MAX, TURN = range(7)  # to turn is to multiply complex numbers

# Kinds that the stubs are given.
U: Any = u32
N: Any = u32  # what elements are computed with
V: Any = u32
BITS: Any = u32
I: Any = u32
# MOVED: for each axis that indices move windows along, its number, the last position, and by how
# many elements and buckets one is apart from the next. BATCHED: for each axis of the batch, updates
# from one position to the next, how many positions there are, and the same distances. W0 to W2, S0
# to S2, R0 to R2: sizes of a window, its steps in the operand and in the updates. LANES, FULL:
# elements of a vector, and those of a window that come in vectors.
# Memory that will be written brought near.
fetch = defined(
    void,
    "fetch",
    (ptr,),
    "entry:",
    "call void @llvm.prefetch.p0(ptr %0, i32 1, i32 3, i32 1)",
    "ret void",
    declared="void @llvm.prefetch.p0(ptr, i32, i32, i32)",
)


def copy(buffers: ptr, start: i64, stop: i64, *, SIZE: static) -> void:
    """The operand as the result begins."""
    source = ptr[buffers, 0]
    out = ptr[buffers, 1]
    for block in range(start, stop):
        low = block * BLOCK
        memcpy(out + low, source + low, min(i64(BLOCK), SIZE - low))


def held(wanted: i64, most: i64) -> i64:
    """A position that a window fits at."""
    return max(i64(0), min(wanted, most))


def inside(indices: ptr, n: i64, *, K: static, DROP: static, MOVED: static) -> truth:
    """Whether a window lies in the array; others are left out."""
    found = True
    if DROP:
        for axis, most, _stride, _key in MOVED:
            found = found & (u64(i64(I[indices, n * K + axis])) <= u64(most))
    return found


def locate(indices: ptr, n: i64, *, K: static, DROP: static, MOVED: static, BATCHED: static) -> i64:
    """Where a window begins."""
    at = i64(0)
    for axis, most, stride, _key in MOVED:
        index = i64(I[indices, n * K + axis])
        at += (index if DROP else held(index, most)) * stride
    for inner, outer, step, _part in BATCHED:
        at += n // inner % outer * step
    return at


def bucket(
    indices: ptr, n: i64, *, K: static, DROP: static, SHIFT: static, MOVED: static, BATCHED: static
) -> i64:
    """The bucket of a window."""
    number = i64(0)
    for axis, most, _stride, key in MOVED:
        index = i64(I[indices, n * K + axis])
        number += (index if DROP else held(index, most)) * key
    for inner, outer, _step, part in BATCHED:
        number += n // inner % outer * part
    return number >> SHIFT


def widen(x: u16, *, HALF: static) -> f32:
    """The float32 of a bfloat16 or float16."""
    if HALF == 1:
        return bits(f32, u32(x) << 16)
    size = u32(x & 32767) << 13
    if size >= 0x0F800000:  # infinite or NaN
        size = size | 0x7F800000
    else:
        size = bits(u32, bits(f32, size) * bits(f32, u32(0x77800000)))  # times 2**112
    return bits(f32, size | (u32(x & 32768) << 16))


def narrow(x: f32, *, HALF: static) -> u16:
    """A float32 rounded to a bfloat16 or float16."""
    given = bits(u32, x)
    sign = u16((given >> 16) & 32768)
    if HALF == 1:
        if x != x:
            return sign | 0x7FC0
        return u16((given + 32767 + ((given >> 16) & 1)) >> 16)
    if x != x:
        return sign | 0x7E00
    size = given & 0x7FFFFFFF
    if size >= 0x477FF000:  # rounds to infinity
        return sign | 0x7C00
    if size < 0x38800000:  # denormal: added to 1/2, it is rounded to the right place
        half = u32(0x3F000000)
        return sign | u16(bits(u32, bits(f32, size) + bits(f32, half)) - half)
    return sign | u16((size - 0x38000000 + 4095 + ((size >> 13) & 1)) >> 13)


def combined(kept: N, new: N, *, HALF: static, OP: static, FLOATS: static) -> N:
    """What an element becomes."""
    if OP == 0:
        return new
    if OP == 1:
        return kept + new
    if OP == 2:
        return kept - new
    if OP == 3:
        return kept * new
    # no branches that depend on numbers, which would often be guessed wrong
    if OP == 4:
        kept = new if new < kept else kept
    if OP == 5:
        kept = new if new > kept else kept
    if FLOATS or HALF:
        kept = new if new != new else kept
    return kept


def put(out: ptr, at: i64, new: U, *, HALF: static) -> void:
    """One element combined with what is there; of narrow floats every step is rounded."""
    if HALF:
        U[out, at] = narrow(combined(widen(U[out, at]), widen(new)))
    else:
        U[out, at] = combined(U[out, at], new)


def put_lanes(out: ptr, new: ptr) -> void:
    """A vector at one place combined with that at another one."""
    V[out, 0] = combined(V[out, 0], V[new, 0])


def turn(out: ptr, at: i64, updates: ptr, source: i64) -> void:
    """One complex number multiplied with what is there."""
    re = U[out, 2 * at]
    im = U[out, 2 * at + 1]
    x = U[updates, 2 * source]
    y = U[updates, 2 * source + 1]
    U[out, 2 * at] = re * x - im * y
    U[out, 2 * at + 1] = re * y + im * x


def part(
    out: ptr,
    updates: ptr,
    at: i64,
    first: i64,
    *,
    OP: static,
    WIDTH: static,
    W1: static,
    W2: static,
    S1: static,
    S2: static,
    R1: static,
    R2: static,
    LANES: static,
    FULL: static,
) -> void:
    """The inner loops of one window."""
    for b in range(W1):
        to = at + b * S1
        source = first + b * R1
        for c in range(0, FULL, LANES):
            put_lanes(out + (to + c) * WIDTH, updates + (source + c) * WIDTH)
        for c in range(FULL, W2):
            if OP == 6:
                turn(out, to + c * S2, updates, source + c * R2)
            else:
                put(out, to + c * S2, U[updates, source + c * R2])


def window(
    out: ptr,
    updates: ptr,
    at: i64,
    n: i64,
    *,
    OP: static,
    ONE: static,
    UPDATE: static,
    W0: static,
    S0: static,
    R0: static,
) -> void:
    """All elements of one window."""
    first = n * UPDATE
    if ONE:
        if OP == 6:
            turn(out, at, updates, first)
        else:
            put(out, at, U[updates, first])
        return
    for a in range(W0):
        part(out, updates, at + a * S0, first + a * R0)


def update(indices: ptr, updates: ptr, out: ptr, n: i64) -> void:
    """One update."""
    if inside(indices, n):
        window(out, updates, locate(indices, n), n)


def range_of(
    indices: ptr,
    updates: ptr,
    out: ptr,
    low: i64,
    high: i64,
    *,
    HALF: static,
    COUNT: static,
    ONE: static,
) -> void:
    """A range of updates, one after the other."""
    first = low
    if ONE and not HALF and COUNT >= MIN_UNROLLED_UPDATES:
        # single elements take little longer than to count them
        first = high - (high - low) % 4
        for n in range(low, first, 4):
            update(indices, updates, out, n)
            update(indices, updates, out, n + 1)
            update(indices, updates, out, n + 2)
            update(indices, updates, out, n + 3)
    for n in range(first, high):
        update(indices, updates, out, n)


def in_a_row(buffers: ptr, start: i64, stop: i64, *, COUNT: static, LOOK: static) -> void:
    """Updates one after the other: indices, updates, result, and whether to, if that was seen."""
    if LOOK:
        if u32[ptr[buffers, 3], 0] == 0:
            return
    range_of(ptr[buffers, 0], ptr[buffers, 1], ptr[buffers, 2], i64(0), i64(COUNT))


def in_slabs(
    buffers: ptr, start: i64, stop: i64, *, COUNT: static, UPDATE: static, S0: static, R0: static
) -> void:
    """All updates of one part of the array, then of the next: indices, updates, result."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    for a in range(start, stop):
        for n in range(i64(COUNT)):
            if inside(indices, n):
                at = locate(indices, n) + a * S0
                part(ptr[buffers, 2], updates, at, n * UPDATE + a * R0)


def apart(
    buffers: ptr, start: i64, stop: i64, *, COUNT: static, WIDTH: static, UNIT: static
) -> void:
    """Updates that no two have an element in common, unit by unit: indices, updates, result."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    out = ptr[buffers, 2]
    for unit in range(start, stop):
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            fetch(out + WIDTH * locate(indices, min(n + PREFETCH_UPDATES, high - 1)))
            if inside(indices, n):
                window(out, updates, locate(indices, n), n)


def clear(own: ptr, *, SIZE: static, WIDTH: static, TOTAL: static, NEUTRAL: static) -> void:
    """The array of a piece before anything is in it."""
    for i in range(min(i64(TOTAL), i64(SEED))):
        BITS[own, i] = BITS(NEUTRAL)
    done = min(i64(SIZE), i64(SEED * WIDTH))
    while done < SIZE:
        more = min(done, SIZE - done)
        memcpy(own + done, own, more)
        done = done + more


def in_pieces(
    buffers: ptr, start: i64, stop: i64, *, SIZE: static, COUNT: static, PIECE: static
) -> void:
    """Pieces of the updates, each into an array of its own: indices, updates, those arrays."""
    for piece in range(start, stop):
        own = ptr[buffers, 2] + piece * SIZE
        clear(own)
        low = piece * PIECE
        high = min(low + PIECE, i64(COUNT))
        range_of(ptr[buffers, 0], ptr[buffers, 1], own, low, high)


def join(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    WIDTH: static,
    UNIT: static,
    PIECES: static,
    TOTAL: static,
    LANES: static,
) -> void:
    """Those arrays combined with the operand: operand, arrays, result."""
    operand = ptr[buffers, 0]
    arrays = ptr[buffers, 1]
    out = ptr[buffers, 2]
    for block in range(start, stop):
        low = block * UNIT
        count = min(i64(UNIT), TOTAL - low)
        if operand != out:
            memcpy(out + low * WIDTH, operand + low * WIDTH, count * WIDTH)
        for i in range(low, low + count - count % LANES, LANES):
            for piece in range(i64(PIECES)):
                put_lanes(out + i * WIDTH, arrays + (piece * TOTAL + i) * WIDTH)
        for i in range(low + count - count % LANES, low + count):
            for piece in range(i64(PIECES)):
                put(out, i, U[arrays, piece * TOTAL + i])


def look(buffers: ptr, start: i64, stop: i64, *, COUNT: static, BINS: static, ROOM: static) -> void:
    """Whether most updates go into one bucket: indices, answer."""
    indices = ptr[buffers, 0]
    own = stack(4 * ROOM)
    for i in range(i64(BINS)):
        u32[own, i] = u32(0)
    most = u32(0)
    for i in range(i64(SKEW_SAMPLE)):
        n = i * (COUNT // SKEW_SAMPLE)
        if inside(indices, n):
            cell = bucket(indices, n)
            u32[own, cell] = u32[own, cell] + 1
            most = max(most, u32[own, cell])
    u32[ptr[buffers, 1], 0] = u32(most > SKEWED_SAMPLE)


def put_listed(out: ptr, targets: ptr, what: ptr, low: i64, high: i64, *, PACKED: static) -> void:
    """A stretch of lists of single elements and where they go."""
    for i in range(low, high):
        if PACKED:
            both = u64[targets, i]
            put(out, i64(both >> 32), bits(U, BITS(both)))
        else:
            put(out, i64(u32[targets, i]), U[what, i])


def count(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    COUNT: static,
    BINS: static,
    UNIT: static,
    LOOK: static,
    ROOM: static,
) -> void:
    """How many updates of each unit go into each bucket: indices, counts, and, where that was
    looked for, whether it is done otherwise."""
    if LOOK:
        if u32[ptr[buffers, 2], 0] != 0:
            return
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    own = stack(4 * ROOM)  # threads that count side by side in memory would wait for each other
    for unit in range(start, stop):
        for i in range(i64(BINS)):
            u32[own, i] = u32(0)
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            if inside(indices, n):
                cell = bucket(indices, n)
                u32[own, cell] = u32[own, cell] + 1
        for i in range(i64(BINS)):
            u32[counts, unit * BINS + i] = u32[own, i]


def rank(
    buffers: ptr, start: i64, stop: i64, *, COUNT: static, BINS: static, UNIT: static, LOOK: static
) -> void:
    """Where each unit's part of each bucket begins, and each bucket: counts, beginnings."""
    counts = ptr[buffers, 0]
    begins = ptr[buffers, 1]
    if LOOK:
        if u32[ptr[buffers, 2], 0] != 0:
            for b in range(i64(BINS) + 1):
                u32[begins, b] = u32(0)
            return
    total = u32(0)
    units = (i64(COUNT) + UNIT - 1) // UNIT
    for b in range(i64(BINS)):
        u32[begins, b] = total
        for unit in range(units):
            cell = unit * BINS + b
            n = u32[counts, cell]
            u32[counts, cell] = total
            total = total + n
    u32[begins, BINS] = total


def deal(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    COUNT: static,
    BINS: static,
    ONE: static,
    WIDTH: static,
    PACKED: static,
    UNIT: static,
    LOOK: static,
    ROOM: static,
) -> void:
    """Updates into their buckets: indices, counts, updates, targets, what goes there, and, where
    that was looked for, whether it is done otherwise.
    """
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    updates = ptr[buffers, 2]
    targets = ptr[buffers, 3]
    what = ptr[buffers, 4]
    own = stack(4 * ROOM)
    if LOOK:
        if u32[ptr[buffers, 5], 0] != 0:
            return
    for unit in range(start, stop):
        for i in range(i64(BINS)):
            u32[own, i] = u32[counts, unit * BINS + i]
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            if inside(indices, n):
                at = locate(indices, n)
                cell = bucket(indices, n)
                to = i64(u32[own, cell])
                u32[own, cell] = u32[own, cell] + 1
                if PACKED:
                    u64[targets, to] = (u64(at) << 32) | u64(bits(BITS, U[updates, n]))
                    fetch(targets + 8 * to + PREFETCH_BYTES)
                else:
                    u32[targets, to] = u32(at)
                    fetch(targets + 4 * to + PREFETCH_BYTES)
                    if ONE:
                        U[what, to] = U[updates, n]
                        fetch(what + WIDTH * to + PREFETCH_BYTES)
                    else:
                        u32[what, to] = u32(n)
                        fetch(what + 4 * to + PREFETCH_BYTES)


def work_off(
    buffers: ptr, start: i64, stop: i64, *, SIZE: static, ONE: static, BYTES: static
) -> void:
    """Buckets: beginnings, targets, what goes there, updates, result, operand."""
    begins = ptr[buffers, 0]
    targets = ptr[buffers, 1]
    what = ptr[buffers, 2]
    updates = ptr[buffers, 3]
    out = ptr[buffers, 4]
    operand = ptr[buffers, 5]
    for b in range(start, stop):
        if BYTES > 0:
            first = b * BYTES
            memcpy(out + first, operand + first, min(i64(BYTES), SIZE - first))
        low = i64(u32[begins, b])
        high = i64(u32[begins, b + 1])
        if ONE:
            put_listed(out, targets, what, low, high)
        else:
            for i in range(low, high):
                window(out, updates, i64(u32[targets, i]), i64(u32[what, i]))
