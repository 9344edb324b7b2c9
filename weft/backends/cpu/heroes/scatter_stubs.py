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
    moved = i64(0)
    if K > 0:
        wanted0 = i64(I[indices, n * K])
        place0 = held(wanted0, i64(MOST0))
        moved = moved | (wanted0 ^ place0)
        at = at + place0 * STRIDE0
        key = key + place0 * KEY0
    if K > 1:
        wanted1 = i64(I[indices, n * K + 1])
        place1 = held(wanted1, i64(MOST1))
        moved = moved | (wanted1 ^ place1)
        at = at + place1 * STRIDE1
        key = key + place1 * KEY1
    if K > 2:
        wanted2 = i64(I[indices, n * K + 2])
        place2 = held(wanted2, i64(MOST2))
        moved = moved | (wanted2 ^ place2)
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
    found = (u64(key >> SHIFT) << 48) | u64(at)
    if DROP:
        if moved != 0:
            found = ~u64(0)
    return found


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
        for b in range(W1):
            to = at + a * S0 + b * S1
            source = first + a * R0 + b * R1
            for c in range(W2):
                if OP == 6:
                    turn(out, to + c * S2, updates, source + c * R2)
                else:
                    put(out, to + c * S2, U[updates, source + c * R2])


def range_of(indices: ptr, updates: ptr, out: ptr, low: i64, high: i64) -> void:
    """A range of updates, one after the other."""
    for n in range(low, high):
        found = locate(indices, n)
        if found != ~u64(0):
            window(out, updates, i64((found << 16) >> 16), n)


def in_a_row(buffers: ptr, start: i64, stop: i64) -> void:
    """Updates one after the other: indices, updates, result."""
    range_of(ptr[buffers, 0], ptr[buffers, 1], ptr[buffers, 2], i64(0), i64(COUNT))


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


def join(buffers: ptr, start: i64, stop: i64) -> void:
    """Those arrays combined with the operand, in their order: operand, arrays, result."""
    operand = ptr[buffers, 0]
    arrays = ptr[buffers, 1]
    out = ptr[buffers, 2]
    for block in range(start, stop):
        low = block * UNIT
        high = min(low + UNIT, i64(TOTAL))
        for i in range(low, high):
            total = U[operand, i]
            for piece in range(i64(PIECES)):
                new = U[arrays, piece * TOTAL + i]
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
            U[out, i] = total


def count(buffers: ptr, start: i64, stop: i64) -> void:
    """How many updates of each unit go into each bucket: indices, counts."""
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
    """Updates into their buckets: indices, counts, updates, targets, what goes there."""
    indices = ptr[buffers, 0]
    counts = ptr[buffers, 1]
    updates = ptr[buffers, 2]
    targets = ptr[buffers, 3]
    what = ptr[buffers, 4]
    own = stack(4 * BINS)
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
    """Buckets: beginnings, targets, what goes there, updates, result, operand."""
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
        for i in range(i64(u32[begins, b]), i64(u32[begins, b + 1])):
            if PACKED:
                both = u64[targets, i]
                put(out, i64(both >> 32), bits(U, BITS(both)))
            else:
                at = i64(u32[targets, i])
                if ONE:
                    put(out, at, U[what, i])
                else:
                    window(out, updates, at, i64(u32[what, i]))


# Each stub that is a task, after those that it calls.
_COMBINE = [widen, narrow, put_half, put, turn, window]
_STUBS: dict[str, list[Any]] = {
    "copy": [copy],
    "in_a_row": [held, locate, *_COMBINE, range_of, in_a_row],
    "apart": [fetch, held, locate, *_COMBINE, apart],
    "in_pieces": [held, locate, *_COMBINE, range_of, in_pieces],
    "join": [join],
    "count": [held, locate, count],
    "rank": [rank],
    "deal": [fetch, held, locate, deal],
    "work_off": [*_COMBINE, work_off],
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
    plain = stub == "rank" or (few and known["COUNT"] < MANY)
    text = translate([*helpers, main], names=known, private=inner, plain=plain)
    return re.sub(r"call void @fetch\((ptr [^)]*)\)", CALL, text) + FETCH
