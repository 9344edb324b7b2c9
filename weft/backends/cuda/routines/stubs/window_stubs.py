"""Reductions over sliding windows as stubs, a thread for each result.

The table has eight numbers for each axis, the last axis first: results, elements of a window,
stride, padding before, dilation of the operand, dilation of the window, elements, and their stride.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.backends.cuda.routines.elements import get, put
from weft.backends.cuda.routines.stubs.cumulative_stubs import joined
from weft.kernel.kinds import f32, i32, i64, ptr, u32, void

# Names that stubs are given; here so that they can be written.
C: Any = f32
RANK = COUNT = WINDOW = DILATED = LEAST = 0
IDENTITY = 0.0


def place(table: ptr, o: i64, w: i64) -> i64:
    """Where an element of a window is; -1 outside of the array."""
    found = i64(0)
    results = u32(o)
    parts = u32(w)
    for k in range(RANK):
        row = table + 64 * k
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


def reduce_windows(x: ptr, table: ptr, out: ptr) -> void:
    number = block() * 256 + thread()
    if number < COUNT:
        found = C(IDENTITY)
        for w in range(WINDOW):
            at = place(table, number, w)
            if at >= 0:
                found = joined(found, get(x, at))
        put(out, number, found)


def chosen(x: ptr, table: ptr, o: i64) -> i64:
    """Where the first extremum of a window is; -1 in the padding."""
    best = C(IDENTITY)
    found = i64(-1)
    for w in range(WINDOW):
        at = place(table, o, w)
        own = C(IDENTITY)
        if at >= 0:
            own = get(x, at)
        better = own < best if LEAST == 1 else own > best
        if w == 0 or better or (own != own and best == best):
            best = own
            found = at
    return found


def gather_chosen(g: ptr, x: ptr, table: ptr, out: ptr) -> void:
    number = block() * 256 + thread()
    if number < COUNT:
        at = chosen(x, table, number)
        found = C(0)
        if at >= 0:
            found = get(g, at)
        put(out, number, found)


def keep_chosen(x: ptr, table: ptr, out: ptr) -> void:
    number = block() * 256 + thread()
    if number < COUNT:
        i32[out, number] = i32(chosen(x, table, number))


def add_chosen(source: ptr, places: ptr, table: ptr, out: ptr) -> void:
    """The sum of what the windows have that chose an element.

    The table: elements, windows, stride, padding before, windows around an element, and the stride
    of windows in the source.
    """
    number = block() * 256 + thread()
    if number < COUNT:
        found = C(0)
        for w in range(WINDOW):
            at = i64(0)
            left = u32(number)
            parts = u32(w)
            inside = i64(1)
            for k in range(RANK):
                row = table + 48 * k
                size = u32(i64[row, 0])
                around = u32(i64[row, 4])
                o = (i64(left % size) + i64[row, 3]) // i64[row, 2] - i64(parts % around)
                left = left // size
                parts = parts // around
                if o < 0 or o >= i64[row, 1]:
                    inside = i64(0)
                at = at + o * i64[row, 5]
            if inside == 1:
                if i64(i32[places, at]) == number:
                    found = found + get(source, at)
        put(out, number, found)


def permutation_of(pivots: ptr, out: ptr) -> void:
    """Exchanges of rows as a permutation, a thread for each matrix."""
    number = block() * 256 + thread()
    if number < COUNT:
        for i in range(WINDOW):
            i32[out, number * WINDOW + i] = i32(i)
        for i in range(RANK):
            j = i64(i32[pivots, number * RANK + i])
            one = i32[out, number * WINDOW + i]
            i32[out, number * WINDOW + i] = i32[out, number * WINDOW + j]
            i32[out, number * WINDOW + j] = one
