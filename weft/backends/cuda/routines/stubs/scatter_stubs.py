"""Scatters as stubs: updates at computed places, in their order wherever several meet."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    ballot,
    block,
    leading_zeros,
    reduce_add_4_f32,
    shuffle_up_u32,
    thread,
)
from weft.backends.cuda.routines.stubs.cumulative_stubs import larger, smaller
from weft.backends.cuda.routines.stubs.elements import get, put, strided, up
from weft.kernel.kinds import External, f32, i32, i64, ptr, static, u32, unrolled, void

K: Any = u32  # the bits of a float

# Kinds that the stubs are given.
C: Any = f32
I: Any = i32  # an index
SET, ADD, SUB, MUL, MIN, MAX = range(6)
combine = External(void, (ptr, C))  # one of the instructions that combine numbers in any order
# Of the bits of floats without and with a sign, as one that combines integers.
unsigned_extreme = signed_extreme = External(void, (ptr, K))


def joined(old: C, new: C, *, OP: static) -> C:
    if OP == 0:
        return new
    if OP == 1:
        return old + new
    if OP == 2:
        return old - new
    if OP == 3:
        return old * new
    if OP == 4:
        return smaller(old, new)
    return larger(old, new)


# The table: for each index its bound and stride; for each axis of a window its size, stride in the
# operand and stride in the updates; for each axis of the batch its size, and strides in the operand
# (of axes that indices share with it) and in the updates.


def start_of(
    indices: ptr, table: ptr, n: i64, *, DIMS: static, CLIP: static, UNSIGNED: static
) -> i64:
    """Where a window begins; -1 where it is left out."""
    found = i64(0)
    for k in range(DIMS):
        wanted = i64(I[indices, n * DIMS + k])
        most = i64[table, 2 * k]
        if UNSIGNED == 1:
            if wanted < 0:
                wanted = most + 1
        clamped = max(i64(0), min(wanted, most))
        if CLIP == 0:
            if clamped != wanted:
                return i64(-1)
        found = found + clamped * i64[table, 2 * k + 1]
    return found + of_batch(table, n, i64(1))


def of_batch(table: ptr, n: i64, part: i64, *, DIMS: static, AXES: static, BATCH: static) -> i64:
    """What the axes of the batch add to a place: 1 for the operand, 2 for the updates."""
    batch = table + 8 * (2 * i64(DIMS) + 3 * AXES)
    if BATCH == 1:
        return n * i64[batch, part]
    return strided(batch, BATCH, 3, n, 0, part)


def of_window(table: ptr, w: i64, part: i64, *, DIMS: static, AXES: static) -> i64:
    """What the axes of a window add to a place, as `of_batch`."""
    window = table + 8 * (2 * i64(DIMS))
    if AXES == 1:
        return w * i64[window, part]
    return strided(window, AXES, 3, w, 0, part)


def update(out: ptr, updates: ptr, table: ptr, at: i64, n: i64, w: i64) -> void:
    place = of_batch(table, n, i64(2)) + of_window(table, w, i64(2))
    put(out, at, joined(get(out, at), get(updates, place)))


def scatter_apart(
    indices: ptr, updates: ptr, table: ptr, out: ptr, *, COUNT: static, WINDOW: static
) -> void:
    """Updates of which no two meet: a thread for each."""
    number = block() * 256 + thread()
    if number < COUNT * WINDOW:
        n = number // WINDOW
        w = number % WINDOW
        start = start_of(indices, table, n)
        if start >= 0:
            update(out, updates, table, start + of_window(table, w, i64(1)), n, w)


def scatter_few(
    indices: ptr, updates: ptr, table: ptr, out: ptr, *, COUNT: static, WINDOW: static
) -> void:
    """A few updates by one block: each thread has some of the places."""
    for n in range(COUNT):
        start = start_of(indices, table, n)
        if start >= 0:
            for w in range(WINDOW):
                at = start + of_window(table, w, i64(1))
                if at % 128 == thread():
                    update(out, updates, table, at, n, w)


def scatter_any_order(
    indices: ptr,
    updates: ptr,
    table: ptr,
    out: ptr,
    *,
    NEGATED: static,
    COUNT: static,
    WINDOW: static,
    WIDTH: static,
) -> void:
    """Updates in any order: a thread for each."""
    number = block() * 256 + thread()
    if number < i64(COUNT) * WINDOW:
        n = number // WINDOW
        w = number % WINDOW
        start = start_of(indices, table, n)
        if start >= 0:
            place = of_batch(table, n, i64(2)) + of_window(table, w, i64(2))
            x = get(updates, place)
            if NEGATED == 1:
                x = C(0) - x
            combine(out + (start + of_window(table, w, i64(1))) * WIDTH, x)


def scatter_fours(
    indices: ptr,
    updates: ptr,
    table: ptr,
    out: ptr,
    *,
    NEGATED: static,
    COUNT: static,
    WINDOW: static,
) -> void:
    """Rows of float32 in any order, four neighbours at once; all begin at multiples of four."""
    number = block() * 256 + thread()
    if number < i64(COUNT) * (WINDOW // 4):
        n = number // (WINDOW // 4)
        w = number % (WINDOW // 4) * 4
        start = start_of(indices, table, n)
        if start >= 0:
            p = updates + (of_batch(table, n, i64(2)) + w) * 4
            sign = f32(1.0)
            if NEGATED == 1:
                sign = f32(-1.0)
            at = out + (start + w) * 4
            reduce_add_4_f32(
                at, f32[p, 0] * sign, f32[p, 1] * sign, f32[p, 2] * sign, f32[p, 3] * sign
            )


def scatter_neighbours(
    indices: ptr,
    updates: ptr,
    table: ptr,
    out: ptr,
    *,
    NEGATED: static,
    COUNT: static,
    WIDTH: static,
) -> void:
    """Single updates in any order; those of a warp that follow each other to one place are one."""
    number = block() * 256 + thread()
    lane = u32(thread() % 32)
    key = u32(0xFFFFFFFF)
    x = C(0)
    if number < i64(COUNT):
        start = start_of(indices, table, number)
        if start >= 0:
            key = u32(start)
            x = get(updates, of_batch(table, number, i64(2)))
            if NEGATED == 1:
                x = C(0) - x
    before = shuffle_up_u32(key, 1)
    begins = i32(1)
    if lane > 0 and before == key:
        begins = i32(0)
    heads = ballot(begins)
    last = u32(1)
    if heads != u32(0xFFFFFFFF):
        # where the run of this lane begins
        first = 31 - leading_zeros(heads & (u32(0xFFFFFFFF) >> (31 - lane)))
        for k in unrolled(5):
            other = up(x, i32(1 << k))
            if lane >= first + u32(1 << k):
                x = joined(other, x)
        if lane < 31:
            last = (heads >> (lane + 1)) & 1
    if last == 1 and key != u32(0xFFFFFFFF):
        combine(out + i64(key) * WIDTH, x)


def same_unknowns(
    x: ptr, out: ptr, *, SIZE: static, MOST: static, INFINITE: static, UNKNOWN: static
) -> void:
    """A copy of floats in which a NaN has the bits that are the extreme of all integers."""
    number = block() * 256 + thread()
    if number < i64(SIZE):
        bits = K[x, number]
        if bits & K(MOST) > K(INFINITE):
            bits = K(UNKNOWN)
        K[out, number] = bits


def scatter_extremes(
    indices: ptr,
    updates: ptr,
    table: ptr,
    out: ptr,
    *,
    COUNT: static,
    WINDOW: static,
    WIDTH: static,
    SIGN: static,
    MOST: static,
    INFINITE: static,
    UNKNOWN: static,
) -> void:
    """The smallest or largest floats, in any order: bits of the same sign are ordered as integers,
    those of negative floats the other way round."""
    number = block() * 256 + thread()
    if number < i64(COUNT) * WINDOW:
        n = number // WINDOW
        w = number % WINDOW
        start = start_of(indices, table, n)
        if start >= 0:
            bits = K[updates, of_batch(table, n, i64(2)) + of_window(table, w, i64(2))]
            if bits & K(MOST) > K(INFINITE):
                bits = K(UNKNOWN)
            at = out + (start + of_window(table, w, i64(1))) * WIDTH
            if bits & K(SIGN) == K(0):
                signed_extreme(at, bits)
            else:
                unsigned_extreme(at, bits)


def mark_last(indices: ptr, table: ptr, last: ptr, *, COUNT: static, STEP: static) -> void:
    """The last of the windows that begin at each place, from 1 on."""
    number = block() * 256 + thread()
    if number < COUNT:
        start = start_of(indices, table, number)
        if start >= 0:
            combine(last + 4 * (start // STEP), u32(number + 1))


def scatter_last(
    indices: ptr,
    updates: ptr,
    table: ptr,
    last: ptr,
    out: ptr,
    *,
    COUNT: static,
    WINDOW: static,
    STEP: static,
) -> void:
    """Updates of which the last counts."""
    number = block() * 256 + thread()
    if number < i64(COUNT) * WINDOW:
        n = number // WINDOW
        w = number % WINDOW
        start = start_of(indices, table, n)
        if start >= 0:
            if u32[last, start // STEP] == u32(n + 1):
                update(out, updates, table, start + of_window(table, w, i64(1)), n, w)


def window_keys(indices: ptr, table: ptr, keys: ptr, *, COUNT: static, SIZE: static) -> void:
    """Where each window begins, as a key; SIZE where it is left out."""
    number = block() * 256 + thread()
    if number < COUNT:
        start = start_of(indices, table, number)
        u32[keys, number] = u32(SIZE) if start < 0 else u32(start)


def element_keys(
    indices: ptr, table: ptr, keys: ptr, *, COUNT: static, WINDOW: static, SIZE: static
) -> void:
    """Where each update belongs, as a key; SIZE where it is left out."""
    number = block() * 256 + thread()
    if number < COUNT * WINDOW:
        start = start_of(indices, table, number // WINDOW)
        at = start + of_window(table, number % WINDOW, i64(1))
        u32[keys, number] = u32(SIZE) if start < 0 else u32(at)


def scatter_runs(
    keys: ptr,
    order: ptr,
    updates: ptr,
    table: ptr,
    out: ptr,
    *,
    COUNT: static,
    WINDOW: static,
    SIZE: static,
    WIDE: static,
) -> void:
    """Updates in the order of their keys: a thread goes through those of one place."""
    number = block() * 256 + thread()
    total = i64(COUNT) * WINDOW
    if number < total:
        i = number
        w = i64(0)
        if WIDE == 1:
            i = number // WINDOW
            w = number % WINDOW
        key = u32[keys, i]
        first = i64(1)
        if i > 0:
            if u32[keys, i - 1] == key:
                first = i64(0)
        if first == 1 and key < u32(SIZE):
            at = i64(key) + of_window(table, w, i64(1)) if WIDE == 1 else i64(key)
            found = get(out, at)
            last = i64(COUNT) if WIDE == 1 else total
            while i < last:
                if u32[keys, i] != key:
                    break
                n = i64(u32[order, i])
                if WIDE == 0:
                    w = n % WINDOW
                    n = n // WINDOW
                place = of_batch(table, n, i64(2)) + of_window(table, w, i64(2))
                found = joined(found, get(updates, place))
                i = i + 1
            put(out, at, found)
