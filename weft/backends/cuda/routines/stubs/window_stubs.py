"""Reductions over sliding windows as stubs, a thread for each result, or for ``VECTOR`` neighbours
along an axis that windows have one element of.

The table has ``NUMBERS`` numbers for each axis, the last axis first: results, elements of a window,
stride, padding before, dilation of the operand, dilation of the window, elements, and their stride.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.backends.cuda.routines.stubs.cumulative_stubs import joined
from weft.backends.cuda.routines.stubs.elements import get, put
from weft.kernel.kinds import f32, i32, i64, ptr, stack, static, u32, unrolled, void

# Kinds that the stubs are given.
C: Any = f32


def place(table: ptr, o: i64, w: i64, *, RANK: static, NUMBERS: static, DILATED: static) -> i64:
    """Where an element of a window is in the operand; -1 outside of it."""
    found = i64(0)
    results = u32(o)
    parts = u32(w)
    for k in range(RANK):
        row = table + 8 * NUMBERS * k
        count = u32(i64[row, 0])
        size = u32(i64[row, 1])
        i = i64(results % count) * i64[row, 2] - i64[row, 3] + i64(parts % size) * i64[row, 5]
        results = results // count
        parts = parts // size
        if i < 0:
            return i64(-1)
        if DILATED == 1:
            if i % i64[row, 4] != 0:
                return i64(-1)
            i = i // i64[row, 4]
        if i >= i64[row, 6]:
            return i64(-1)
        found = found + i * i64[row, 7]
    return found


def reduce_windows(
    x: ptr,
    table: ptr,
    out: ptr,
    *,
    COUNT: static,
    WINDOW: static,
    WIDTH: static,
    VECTOR: static,
    IDENTITY: static,
) -> void:
    first = (block() * 256 + thread()) * VECTOR
    if first < COUNT:
        found = stack(VECTOR * WIDTH)
        for j in unrolled(VECTOR):
            C[found, j] = C(IDENTITY)
        for w in range(WINDOW):
            at = place(table, first, w)
            if at >= 0:
                for j in unrolled(VECTOR):
                    C[found, j] = joined(C[found, j], get(x, at + j))
        for j in unrolled(VECTOR):
            put(out, first + j, C[found, j])


def choose(
    x: ptr,
    table: ptr,
    first: i64,
    found: ptr,
    *,
    WINDOW: static,
    LEAST: static,
    WIDTH: static,
    VECTOR: static,
    IDENTITY: static,
) -> void:
    """Where the first extremum of each window is; -1 in the padding."""
    best = stack(VECTOR * WIDTH)
    for j in unrolled(VECTOR):
        C[best, j] = C(IDENTITY)
        i32[found, j] = i32(-1)
    for w in range(WINDOW):
        at = place(table, first, w)
        for j in unrolled(VECTOR):
            own = C(IDENTITY)
            here = i64(-1)
            if at >= 0:
                own = get(x, at + j)
                here = at + j
            before = C[best, j]
            better = own < before if LEAST == 1 else own > before
            if w == 0 or better or (own != own and before == before):
                C[best, j] = own
                i32[found, j] = i32(here)


def gather_chosen(g: ptr, x: ptr, table: ptr, out: ptr, *, COUNT: static, VECTOR: static) -> void:
    first = (block() * 256 + thread()) * VECTOR
    if first < COUNT:
        places = stack(VECTOR * 4)
        choose(x, table, first, places)
        for j in unrolled(VECTOR):
            at = i64(i32[places, j])
            found = C(0)
            if at >= 0:
                found = get(g, at)
            put(out, first + j, found)


def keep_chosen(x: ptr, table: ptr, out: ptr, *, COUNT: static, VECTOR: static) -> void:
    first = (block() * 256 + thread()) * VECTOR
    if first < COUNT:
        places = stack(VECTOR * 4)
        choose(x, table, first, places)
        for j in unrolled(VECTOR):
            i32[out, first + j] = i32[places, j]


def add_chosen(
    source: ptr,
    places: ptr,
    table: ptr,
    out: ptr,
    *,
    RANK: static,
    COUNT: static,
    WINDOW: static,
    WIDTH: static,
    VECTOR: static,
) -> void:
    """The sum of what the windows have that chose an element.

    The table: elements, windows, stride, padding before, windows around an element, and the stride
    of windows in the source.
    """
    first = (block() * 256 + thread()) * VECTOR
    if first < COUNT:
        found = stack(VECTOR * WIDTH)
        for j in unrolled(VECTOR):
            C[found, j] = C(0)
        for w in range(WINDOW):
            at = i64(0)
            left = u32(first)
            parts = u32(w)
            inside = i64(1)
            for k in range(RANK):
                row = table + 48 * k
                size = u32(i64[row, 0])
                around = u32(i64[row, 4])
                near = (i32(left % size) + i32(i64[row, 3])) // i32(i64[row, 2])
                o = i64(near - i32(parts % around))
                left = left // size
                parts = parts // around
                if o < 0 or o >= i64[row, 1]:
                    inside = i64(0)
                at = at + o * i64[row, 5]
            if inside == 1:
                for j in unrolled(VECTOR):
                    if i64(i32[places, at + j]) == first + j:
                        C[found, j] = C[found, j] + get(source, at + j)
        for j in unrolled(VECTOR):
            put(out, first + j, C[found, j])
