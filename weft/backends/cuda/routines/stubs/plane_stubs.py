"""Windows over planes whose channels come last in memory, as stubs.

A thread has ``VECTOR`` neighbouring channels of ``OUTS`` neighbouring results of a row: what their
windows share is read once. Results have ``ROWS`` rows and ``COLUMNS`` columns, the operand
``IN_ROWS`` and ``IN_COLUMNS``; windows are ``DOWN`` by ``ACROSS`` elements. The ``SPAN`` columns of
the operand that a thread reads of a row are ``STEP`` apart.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    barrier,
    block,
    f32_of_f16,
    fma,
    pack_bf16,
    pack_f16,
    take_four_f32,
    take_four_u32,
    take_two_u32,
    thread,
)
from weft.backends.cuda.routines.stubs.cumulative_stubs import joined
from weft.backends.cuda.routines.stubs.elements import get, put
from weft.kernel.kinds import (
    External,
    bits,
    f32,
    i64,
    ptr,
    stack,
    static,
    u16,
    u32,
    unrolled,
    void,
)

totals = External(ptr, ())  # shared memory
# Kinds that the stubs are given.
C: Any = f32


def take(
    p: ptr, i: i64, items: ptr, k: i64, *, VECTOR: static, WORDS: static, NARROW: static
) -> void:
    """Neighbouring channels: the ``k``-th numbers of some items from the ``i``-th of an array."""
    if WORDS == 0:
        for v in unrolled(VECTOR):
            C[items, k + v] = get(p, i + v)
    elif NARROW == 0:
        take_four_f32(items + 4 * k, p + 4 * i)
    else:
        words = stack(16)
        if WORDS == 4:
            take_four_u32(words, p + 2 * i)
        else:
            take_two_u32(words, p + 2 * i)
        for v in unrolled(WORDS):
            word = u32[words, v]
            if NARROW == 1:
                C[items, k + 2 * v] = bits(f32, word << 16)
                C[items, k + 2 * v + 1] = bits(f32, word & 0xFFFF0000)
            else:
                C[items, k + 2 * v] = f32_of_f16(u16(word & 0xFFFF))
                C[items, k + 2 * v + 1] = f32_of_f16(u16(word >> 16))


def give(
    p: ptr, i: i64, items: ptr, k: i64, *, VECTOR: static, WORDS: static, NARROW: static
) -> void:
    """Neighbouring channels, from the ``k``-th number of some items to the ``i``-th of an array."""
    if WORDS == 0 or NARROW == 0:
        for v in unrolled(VECTOR):
            put(p, i + v, C[items, k + v])
    else:
        words = stack(16)
        for v in unrolled(WORDS):
            if NARROW == 1:
                u32[words, v] = pack_bf16(C[items, k + 2 * v], C[items, k + 2 * v + 1])
            else:
                u32[words, v] = pack_f16(C[items, k + 2 * v], C[items, k + 2 * v + 1])
        for v in unrolled(WORDS):
            u32[p + 2 * i, v] = u32[words, v]


def load_span(
    x: ptr,
    at: i64,
    first: i64,
    items: ptr,
    *,
    SPAN: static,
    STEP: static,
    VECTOR: static,
    INNER: static,
    IN_COLUMNS: static,
    IDENTITY: static,
) -> void:
    """Columns of a row; neighbouring memory changes no result.

    Columns beside a row are the nearest ones, so that all are read at once.
    """
    for k in unrolled(SPAN):
        column = first + k * STEP
        near = max(min(column, i64(IN_COLUMNS - 1)), i64(0))
        take(x, at + near * INNER, items, i64(k * VECTOR))
        for v in unrolled(VECTOR):
            own = C[items, k * VECTOR + v]
            C[items, k * VECTOR + v] = own if near == column else C(IDENTITY)


def reduce_planes(
    x: ptr,
    out: ptr,
    *,
    COUNT: static,
    INNER: static,
    VECTOR: static,
    WIDTH: static,
    ROWS: static,
    COLUMNS: static,
    OUTS: static,
    DOWN: static,
    ACROSS: static,
    ROW_STRIDE: static,
    STRIDE: static,
    TOP: static,
    LEFT: static,
    ROW_STEP: static,
    IN_ROWS: static,
    IN_COLUMNS: static,
    SPAN: static,
    IDENTITY: static,
) -> void:
    """Sums or extrema of windows."""
    number = u32(block() * 256 + thread())
    if number < u32(COUNT):
        channel = i64(number % u32(INNER // VECTOR)) * VECTOR
        left = number // u32(INNER // VECTOR)
        groups = u32((COLUMNS + OUTS - 1) // OUTS)
        o = i64(left % groups) * OUTS
        left = left // groups
        row = i64(left % u32(ROWS))
        image = i64(left // u32(ROWS))
        items = stack(SPAN * VECTOR * WIDTH)
        found = stack(OUTS * VECTOR * WIDTH)
        for k in unrolled(OUTS * VECTOR):
            C[found, k] = C(IDENTITY)
        for a in range(DOWN):
            r = row * ROW_STRIDE - TOP + a * ROW_STEP
            if r >= 0 and r < IN_ROWS:
                at = (image * IN_ROWS + r) * (i64(IN_COLUMNS) * INNER) + channel
                load_span(x, at, o * STRIDE - LEFT, items)
                for j in unrolled(OUTS):
                    for b in unrolled(ACROSS):
                        for v in unrolled(VECTOR):
                            own = C[items, (j * STRIDE + b) * VECTOR + v]
                            C[found, j * VECTOR + v] = joined(C[found, j * VECTOR + v], own)
        to = ((image * ROWS + row) * COLUMNS + o) * INNER + channel
        for j in unrolled(OUTS):
            if o + j < COLUMNS:
                give(out, to + j * INNER, found, i64(j * VECTOR))


def plus(total: C, x: C, y: C, *, FLOATING: static) -> C:
    if FLOATING == 1:
        return fma(x, y, total)
    return total + x * y


def filter_planes(
    x: ptr,
    w: ptr,
    out: ptr,
    *,
    COUNT: static,
    INNER: static,
    VECTOR: static,
    WIDTH: static,
    ROWS: static,
    COLUMNS: static,
    OUTS: static,
    DOWN: static,
    ACROSS: static,
    ROW_STRIDE: static,
    STRIDE: static,
    TOP: static,
    LEFT: static,
    ROW_STEP: static,
    IN_ROWS: static,
    IN_COLUMNS: static,
    SPAN: static,
    W_ROW: static,
    W_COLUMN: static,
    W_CHANNEL: static,
) -> void:
    """Sums of windows times factors, of which each channel has its own."""
    number = u32(block() * 256 + thread())
    if number < u32(COUNT):
        channel = i64(number % u32(INNER // VECTOR)) * VECTOR
        left = number // u32(INNER // VECTOR)
        groups = u32((COLUMNS + OUTS - 1) // OUTS)
        o = i64(left % groups) * OUTS
        left = left // groups
        row = i64(left % u32(ROWS))
        image = i64(left // u32(ROWS))
        items = stack(SPAN * VECTOR * WIDTH)
        found = stack(OUTS * VECTOR * WIDTH)
        for k in unrolled(OUTS * VECTOR):
            C[found, k] = C(0)
        for a in range(DOWN):
            r = row * ROW_STRIDE - TOP + a * ROW_STEP
            if r >= 0 and r < IN_ROWS:
                at = (image * IN_ROWS + r) * (i64(IN_COLUMNS) * INNER) + channel
                load_span(x, at, o * STRIDE - LEFT, items)
                factors = a * W_ROW + channel * W_CHANNEL
                for b in unrolled(ACROSS):
                    for v in unrolled(VECTOR):
                        factor = get(w, factors + b * W_COLUMN + v * W_CHANNEL)
                        for j in unrolled(OUTS):
                            own = C[items, (j * STRIDE + b) * VECTOR + v]
                            before = C[found, j * VECTOR + v]
                            C[found, j * VECTOR + v] = plus(before, own, factor)
        to = ((image * ROWS + row) * COLUMNS + o) * INNER + channel
        for j in unrolled(OUTS):
            if o + j < COLUMNS:
                give(out, to + j * INNER, found, i64(j * VECTOR))


def filter_parts(
    x: ptr,
    g: ptr,
    parts: ptr,
    *,
    COUNT: static,
    PARTS: static,
    GROUPS: static,
    INNER: static,
    VECTOR: static,
    WIDTH: static,
    ROWS: static,
    COLUMNS: static,
    OUTS: static,
    DOWN: static,
    ACROSS: static,
    EACH: static,
    ROW_STRIDE: static,
    STRIDE: static,
    TOP: static,
    LEFT: static,
    ROW_STEP: static,
    IN_ROWS: static,
    IN_COLUMNS: static,
    SPAN: static,
) -> void:
    """The gradient of `filter_planes` by its factors: sums over some groups of results, ``GROUPS``
    in all, for ``EACH`` rows of the window."""
    number = u32(block() * 256 + thread())
    if number < u32(COUNT):
        channel = i64(number % u32(INNER // VECTOR)) * VECTOR
        left = number // u32(INNER // VECTOR)
        top = i64(left % u32(DOWN // EACH)) * EACH
        part = left // u32(DOWN // EACH)
        across = u32((COLUMNS + OUTS - 1) // OUTS)
        items = stack(SPAN * VECTOR * WIDTH)
        near = stack(OUTS * VECTOR * WIDTH)
        found = stack(EACH * ACROSS * VECTOR * WIDTH)
        for k in unrolled(EACH * ACROSS * VECTOR):
            C[found, k] = C(0)
        group = part
        while group < u32(GROUPS):
            o = i64(group % across) * OUTS
            line = i64(group // across)
            row = line % ROWS
            image = line // ROWS
            to = (line * COLUMNS + o) * INNER + channel
            for j in unrolled(OUTS):
                for v in unrolled(VECTOR):
                    C[near, j * VECTOR + v] = C(0)
                if o + j < COLUMNS:
                    take(g, to + j * INNER, near, i64(j * VECTOR))
            for a in unrolled(EACH):
                r = row * ROW_STRIDE - TOP + (top + a) * ROW_STEP
                if r >= 0 and r < IN_ROWS:
                    at = (image * IN_ROWS + r) * (i64(IN_COLUMNS) * INNER) + channel
                    load_span(x, at, o * STRIDE - LEFT, items)
                    for j in unrolled(OUTS):
                        for b in unrolled(ACROSS):
                            for v in unrolled(VECTOR):
                                own = C[items, (j * STRIDE + b) * VECTOR + v]
                                k = (a * ACROSS + b) * VECTOR + v
                                C[found, k] = plus(C[found, k], own, C[near, j * VECTOR + v])
            group = group + u32(PARTS)
        to = (i64(part) * DOWN + top) * ACROSS * INNER + channel
        for k in unrolled(EACH * ACROSS):
            for v in unrolled(VECTOR):
                C[parts, to + k * INNER + v] = C[found, k * VECTOR + v]


def sum_parts(
    parts: ptr,
    out: ptr,
    *,
    COUNT: static,
    PARTS: static,
    SLICES: static,
    INNER: static,
    ACROSS: static,
    O_ROW: static,
    O_COLUMN: static,
    O_CHANNEL: static,
) -> void:
    """What all parts come to, 32 neighbours for each block, whose warps share the parts."""
    lane = thread() % 32
    number = block() * 32 + lane
    total = C(0)
    own = stack(64)
    if number < COUNT:
        for first in range(thread() // 32, i64(PARTS), SLICES * 8):
            for u in unrolled(8):  # all of them on their way at once
                part = min(first + u * SLICES, i64(PARTS - 1))
                C[own, u] = C[parts, part * COUNT + number]
            for u in unrolled(8):
                if first + u * SLICES < PARTS:
                    total = total + C[own, u]
    C[totals(), thread()] = total
    barrier()
    if thread() < 32 and number < COUNT:
        for s in unrolled(1, SLICES):
            total = total + C[totals(), s * 32 + lane]
        tap = number // INNER
        to = tap // ACROSS * O_ROW + tap % ACROSS * O_COLUMN + number % INNER * O_CHANNEL
        put(out, to, total)
