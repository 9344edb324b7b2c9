"""Native functions of scatters: where updates go, how they are combined, and in which order.

What is fixed for one scatter (sizes, strides, the operation) comes as names; heroes/scatter.py
finds those and decides which of the functions run.
"""

from __future__ import annotations

import re
from typing import Any

from weft.backends.cpu.stub import bits, f32, i64, ptr, stack, translate, u8, u16, u32, u64, void
from weft.base.functional import lru

# Bytes copied at a time.
BLOCK = 1 << 18
# Elements in a row of a window from which on vectors are worth the time it takes to make them.
NARROW = 8
# The instruction that brings memory near before it is written; how many bytes ahead that is in
# lists, and how many updates ahead in the array itself.
FETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
CALL = r"call void @llvm.prefetch.p0(\1, i32 1, i32 3, i32 1)"
AHEAD, EARLY = 64, 24
# Updates looked at to see whether most go into one bucket, and how many of them are most.
LOOKED, MOST = 512, 448
# Updates from which on code is optimised at length.
MANY = 1 << 16
# Operations on elements.
SET, ADD, SUB, MUL, MIN, MAX, TURN = range(7)  # to turn is to multiply complex numbers

# Names that stubs are given; here so that they can be written.
U: Any = u32
BITS: Any = u32
I: Any = u32
HALF = OP = K = B = DROP = SIZE = COUNT = SHIFT = BINS = FLOATS = ONE = UPDATE = WIDTH = BYTES = (
    PACKED
) = 0
MOST0 = MOST1 = MOST2 = STRIDE0 = STRIDE1 = STRIDE2 = KEY0 = KEY1 = KEY2 = 0
INNER0 = INNER1 = OUTER0 = OUTER1 = STEP0 = STEP1 = PART0 = PART1 = 0
W0 = W1 = W2 = S0 = S1 = S2 = R0 = R1 = R2 = 0
UNIT = PIECE = PIECES = TOTAL = NEUTRAL = 0
LOOK = WINDOW = 0


def copy(buffers: ptr, start: i64, stop: i64) -> void:
    """The operand as the result begins."""
    source = ptr[buffers, 0]
    out = ptr[buffers, 1]
    for block in range(start, stop):
        low = block * BLOCK
        high = min(low + BLOCK, i64(SIZE))
        for i in range(low, high):
            u8[out, i] = u8[source, i]


def fetch(place: ptr) -> void:
    """Memory that will be written brought near; its calls become the instruction for that."""
    return


def held(wanted: i64, most: i64) -> i64:
    """A position that a window fits at."""
    return max(i64(0), min(wanted, most))


def locate(indices: ptr, n: i64) -> u64:
    """Where a window begins, above it its bucket; all ones for one that is left out."""
    at = i64(0)
    key = i64(0)
    if K > 0:
        place0 = i64(I[indices, n * K])
        if DROP:
            if u64(place0) > u64(MOST0):
                return ~u64(0)
        else:
            place0 = held(place0, i64(MOST0))
        at = at + place0 * STRIDE0
        key = key + place0 * KEY0
    if K > 1:
        place1 = i64(I[indices, n * K + 1])
        if DROP:
            if u64(place1) > u64(MOST1):
                return ~u64(0)
        else:
            place1 = held(place1, i64(MOST1))
        at = at + place1 * STRIDE1
        key = key + place1 * KEY1
    if K > 2:
        place2 = i64(I[indices, n * K + 2])
        if DROP:
            if u64(place2) > u64(MOST2):
                return ~u64(0)
        else:
            place2 = held(place2, i64(MOST2))
        at = at + place2 * STRIDE2
        key = key + place2 * KEY2
    if B > 0:
        row0 = n // INNER0 % OUTER0
        at = at + row0 * STEP0
        key = key + row0 * PART0
    if B > 1:
        row1 = n // INNER1 % OUTER1
        at = at + row1 * STEP1
        key = key + row1 * PART1
    return (u64(key >> SHIFT) << 48) | u64(at)


def widen(x: u16) -> f32:
    """The float32 of a bfloat16 or float16."""
    if HALF == 1:
        return bits(f32, u32(x) << 16)
    size = u32(x & 32767) << 13
    if size >= 0x0F800000:  # infinite or NaN
        size = size | 0x7F800000
    else:
        size = bits(u32, bits(f32, size) * bits(f32, u32(0x77800000)))  # times 2**112
    return bits(f32, size | (u32(x & 32768) << 16))


def narrow(x: f32) -> u16:
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


def put_half(out: ptr, at: i64, new: u16) -> void:
    """One element of a narrow float combined with what is there; every step is rounded."""
    x = widen(u16[out, at])
    y = widen(new)
    if OP == 1:
        x = x + y
    if OP == 2:
        x = x - y
    if OP == 3:
        x = x * y
    if OP == 4:
        if y < x:
            x = y
    if OP == 5:
        if y > x:
            x = y
    if OP > 3:
        if y != y:
            x = y
    u16[out, at] = narrow(x)


def put(out: ptr, at: i64, new: U) -> void:
    """One element combined with what is there."""
    if HALF:
        put_half(out, at, u16(bits(BITS, new)))
        return
    if OP == 0:
        U[out, at] = new
    if OP == 1:
        U[out, at] = U[out, at] + new
    if OP == 2:
        U[out, at] = U[out, at] - new
    if OP == 3:
        U[out, at] = U[out, at] * new
    if OP > 3:
        # no branches that depend on numbers, which would often be guessed wrong
        kept = U[out, at]
        if OP == 4:
            kept = new if new < kept else kept
        if OP == 5:
            kept = new if new > kept else kept
        if FLOATS:
            kept = new if new != new else kept
        U[out, at] = kept


def turn(out: ptr, at: i64, updates: ptr, source: i64) -> void:
    """One complex number multiplied with what is there."""
    re = U[out, 2 * at]
    im = U[out, 2 * at + 1]
    x = U[updates, 2 * source]
    y = U[updates, 2 * source + 1]
    U[out, 2 * at] = re * x - im * y
    U[out, 2 * at + 1] = re * y + im * x


def part(out: ptr, updates: ptr, at: i64, first: i64) -> void:
    """The inner loops of one window."""
    for b in range(W1):
        to = at + b * S1
        source = first + b * R1
        for c in range(W2):
            if OP == 6:
                turn(out, to + c * S2, updates, source + c * R2)
            else:
                put(out, to + c * S2, U[updates, source + c * R2])


def window(out: ptr, updates: ptr, at: i64, n: i64) -> void:
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


def range_of(indices: ptr, updates: ptr, out: ptr, low: i64, high: i64) -> void:
    """A range of updates, one after the other."""
    for n in range(low, high):
        found = locate(indices, n)
        if found != ~u64(0):
            window(out, updates, i64((found << 16) >> 16), n)


def in_a_row(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates one after the other: indices, updates, result, and whether to, if that was seen."""
    if LOOK:
        if u32[ptr[buffers, 3], 0] == 0:
            return
    range_of(ptr[buffers, 0], ptr[buffers, 1], ptr[buffers, 2], i64(0), i64(COUNT))


def in_slabs(buffers: ptr, start: i64, stop: i64) -> void:
    """All updates of one part of the array, then of the next: indices, updates, result."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    for a in range(start, stop):
        for n in range(i64(COUNT)):
            found = locate(indices, n)
            if found != ~u64(0):
                at = i64((found << 16) >> 16)
                part(ptr[buffers, 2], updates, at + a * S0, n * UPDATE + a * R0)


def apart(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates that no two have an element in common, unit by unit: indices, updates, result."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 1]
    out = ptr[buffers, 2]
    for unit in range(start, stop):
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            later = locate(indices, min(n + EARLY, high - 1))
            fetch(out + WIDTH * i64((later << 16) >> 16))
            found = locate(indices, n)
            if found != ~u64(0):
                window(out, updates, i64((found << 16) >> 16), n)


def in_pieces(buffers: ptr, start: i64, stop: i64) -> void:
    """Pieces of the updates, each into an array of its own: indices, updates, those arrays."""
    for piece in range(start, stop):
        own = ptr[buffers, 2] + piece * SIZE
        for i in range(i64(TOTAL)):
            BITS[own, i] = BITS(NEUTRAL)
        low = piece * PIECE
        high = min(low + PIECE, i64(COUNT))
        range_of(ptr[buffers, 0], ptr[buffers, 1], own, low, high)


def joined(total: U, arrays: ptr, i: i64) -> U:
    """A number combined with those of all pieces, in their order."""
    for piece in range(i64(PIECES)):
        new = U[arrays, piece * WINDOW + i]
        if OP == 1 or OP == 2:
            total = total + new
        if OP == 3:
            total = total * new
        if OP == 4:
            total = new if new < total else total
        if OP == 5:
            total = new if new > total else total
        if FLOATS:
            total = new if new != new else total
    return total


def join(buffers: ptr, start: i64, stop: i64) -> void:
    """Those arrays combined with the operand: operand, arrays, result."""
    operand = ptr[buffers, 0]
    arrays = ptr[buffers, 1]
    out = ptr[buffers, 2]
    for block in range(start, stop):
        low = block * UNIT
        high = min(low + UNIT, i64(TOTAL))
        for i in range(low, high):
            U[out, i] = joined(U[operand, i], arrays, i)


def look(buffers: ptr, start: i64, stop: i64) -> void:
    """The bucket that most updates go into, counted from one, or zero: indices, which."""
    indices = ptr[buffers, 0]
    own = stack(4 * BINS)
    for i in range(i64(BINS)):
        u32[own, i] = u32(0)
    for i in range(i64(LOOKED)):
        found = locate(indices, i * (COUNT // LOOKED))
        if found != ~u64(0):
            cell = i64(found >> 48)
            u32[own, cell] = u32[own, cell] + 1
    which = u32(0)
    for i in range(i64(BINS)):
        if u32[own, i] > MOST:
            which = u32(i + 1)
    u32[ptr[buffers, 1], 0] = which


def keep(own: ptr, at: i64, updates: ptr, n: i64) -> void:
    """An update into the array of a piece; of those that are set, the number of the last."""
    if OP == 0:
        u32[own, at] = u32(n + 1)
    else:
        put(own, at, U[updates, n])


def gather_piece(buffers: ptr, piece: i64, which: i64) -> void:
    """A piece of the updates, those of one bucket into an array of its own, others into lists."""
    indices = ptr[buffers, 0]
    updates = ptr[buffers, 3]
    targets = ptr[buffers, 6]
    width = 4 if OP == 0 else WIDTH
    own = ptr[buffers, 4] + piece * (WINDOW * width)
    for i in range(i64(WINDOW)):
        if OP == 0:
            u32[own, i] = u32(0)
        else:
            BITS[own, i] = BITS(NEUTRAL)
    units = (i64(COUNT) + UNIT - 1) // UNIT
    for unit in range(piece * PIECE, min(piece * PIECE + PIECE, units)):
        low = unit * UNIT
        to = low
        for n in range(low, min(low + UNIT, i64(COUNT))):
            found = locate(indices, n)
            if found != ~u64(0):
                at = i64((found << 16) >> 16)
                if u64(at - which * WINDOW) < WINDOW:
                    keep(own, at - which * WINDOW, updates, n)
                else:
                    if PACKED:
                        u64[targets, to] = (found << 32) | u64(bits(BITS, U[updates, n]))
                    else:
                        u32[targets, to] = u32(at)
                        U[ptr[buffers, 7], to] = U[updates, n]
                    to = to + 1
        u32[ptr[buffers, 5], unit] = u32(to - low)


def put_listed(out: ptr, targets: ptr, what: ptr, low: i64, high: i64) -> void:
    """A stretch of lists of single elements and where they go."""
    for i in range(low, high):
        if PACKED:
            both = u64[targets, i]
            put(out, i64(both >> 32), bits(U, BITS(both)))
        else:
            put(out, i64(u32[targets, i]), U[what, i])


def rest(buffers: ptr, start: i64, stop: i64) -> void:
    """What pieces left: the bucket of most, how many each unit left, targets, what goes there,
    result.
    """
    if u32[ptr[buffers, 0], 0] == 0:
        return
    units = (i64(COUNT) + UNIT - 1) // UNIT
    for unit in range(units):
        low = unit * UNIT
        high = low + i64(u32[ptr[buffers, 1], unit])
        put_listed(ptr[buffers, 4], ptr[buffers, 2], ptr[buffers, 3], low, high)


def join_bucket(out: ptr, updates: ptr, arrays: ptr, which: i64) -> void:
    """The arrays of pieces combined with the bucket of the result that they stand for."""
    low = which * WINDOW
    for i in range(low, min(low + WINDOW, i64(TOTAL))):
        if OP == 0:
            latest = u32(0)
            for piece in range(i64(PIECES)):
                latest = max(latest, u32[arrays, piece * WINDOW + i - low])
            if latest != 0:
                U[out, i] = U[updates, i64(latest) - 1]
        else:
            U[out, i] = joined(U[out, i], arrays, i - low)


def count(buffers: ptr, start: i64, stop: i64) -> void:
    """How many updates of each unit go into each bucket: indices, counts.

    Where that was looked for: the bucket of most, updates, arrays of pieces, how many are not of
    that bucket, where these go, what goes there.
    """
    if LOOK:
        which = i64(u32[ptr[buffers, 2], 0]) - 1
        if which >= 0:
            if LOOK == 1:
                for piece in range(start, min(stop, i64(PIECES))):
                    gather_piece(buffers, piece, which)
            return
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    own = stack(4 * BINS)  # threads that count side by side in memory would wait for each other
    for unit in range(start, stop):
        for i in range(i64(BINS)):
            u32[own, i] = u32(0)
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            found = locate(indices, n)
            if found != ~u64(0):
                cell = i64(found >> 48)
                u32[own, cell] = u32[own, cell] + 1
        for i in range(i64(BINS)):
            u32[counts, unit * BINS + i] = u32[own, i]


def rank(buffers: ptr, start: i64, stop: i64) -> void:
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


def deal(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates into their buckets: indices, counts, updates, targets, what goes there, and, where
    that was looked for, whether it is done otherwise.
    """
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    updates = ptr[buffers, 2]
    targets = ptr[buffers, 3]
    what = ptr[buffers, 4]
    own = stack(4 * BINS)
    if LOOK:
        if u32[ptr[buffers, 5], 0] != 0:
            return
    for unit in range(start, stop):
        for i in range(i64(BINS)):
            u32[own, i] = u32[counts, unit * BINS + i]
        low = unit * UNIT
        high = min(low + UNIT, i64(COUNT))
        for n in range(low, high):
            found = locate(indices, n)
            if found != ~u64(0):
                cell = i64(found >> 48)
                to = i64(u32[own, cell])
                u32[own, cell] = u32[own, cell] + 1
                if PACKED:
                    u64[targets, to] = (found << 32) | u64(bits(BITS, U[updates, n]))
                    fetch(targets + 8 * to + AHEAD)
                else:
                    u32[targets, to] = u32((found << 16) >> 16)
                    fetch(targets + 4 * to + AHEAD)
                    if ONE:
                        U[what, to] = U[updates, n]
                        fetch(what + WIDTH * to + AHEAD)
                    else:
                        u32[what, to] = u32(n)
                        fetch(what + 4 * to + AHEAD)


def work_off(buffers: ptr, start: i64, stop: i64) -> void:
    """Buckets: beginnings, targets, what goes there, updates, result, operand, and, where that was
    looked for, the bucket of most updates and the arrays of pieces.
    """
    begins = ptr[buffers, 0]
    targets = ptr[buffers, 1]
    what = ptr[buffers, 2]
    updates = ptr[buffers, 3]
    out = ptr[buffers, 4]
    operand = ptr[buffers, 5]
    for b in range(start, stop):
        if BYTES > 0:
            for i in range(b * BYTES, min(b * BYTES + BYTES, i64(SIZE))):
                u8[out, i] = u8[operand, i]
        if LOOK == 1:
            if i64(u32[ptr[buffers, 6], 0]) == b + 1:
                join_bucket(out, updates, ptr[buffers, 7], b)
        low = i64(u32[begins, b])
        high = i64(u32[begins, b + 1])
        if ONE:
            put_listed(out, targets, what, low, high)
        else:
            for i in range(low, high):
                window(out, updates, i64(u32[targets, i]), i64(u32[what, i]))


# Each stub that is a task, after those that it calls.
_COMBINE = [widen, narrow, put_half, put, turn, part, window]
_STUBS: dict[str, list[Any]] = {
    "copy": [copy],
    "in_a_row": [held, locate, *_COMBINE, range_of, in_a_row],
    "in_slabs": [held, locate, *_COMBINE, in_slabs],
    "apart": [fetch, held, locate, *_COMBINE, apart],
    "in_pieces": [held, locate, *_COMBINE, range_of, in_pieces],
    "join": [joined, join],
    "look": [held, locate, look],
    "count": [held, locate, *_COMBINE, keep, gather_piece, count],
    "rank": [rank],
    "deal": [fetch, held, locate, deal],
    "rest": [*_COMBINE, put_listed, rest],
    "work_off": [*_COMBINE, joined, join_bucket, put_listed, work_off],
}


@lru(512)
def text(stub: str, names: tuple[tuple[str, Any], ...]) -> str:
    """The LLVM text of one of the tasks."""
    *helpers, main = _STUBS[stub]
    inner = [f.__name__ for f in helpers]
    known = dict(names)
    # nothing in them becomes vectors; many updates are worth all that LLVM can do
    narrow = window in helpers and known["W2"] < NARROW
    few = stub in ("count", "deal") or narrow
    plain = stub in ("rank", "look", "rest") or (few and known["COUNT"] < MANY)
    text = translate([*helpers, main], names=known, private=inner, plain=plain)
    return re.sub(r"call void @fetch\((ptr [^)]*)\)", CALL, text) + FETCH
