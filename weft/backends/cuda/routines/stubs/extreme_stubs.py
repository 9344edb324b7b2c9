"""Tangents and cotangents of running extremes, as a stub.

A block has a few rows, or columns side by side, of one tile each: 2^k elements as the leaves of a
tree in shared memory, whose node h has the children 2h and 2h + 1. Where rows have several tiles,
the roots of their trees are the elements of a row that is done between two launches.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import barrier, block, maximum, minimum, thread
from weft.backends.cuda.routines.stubs.elements import get, put
from weft.kernel.kinds import External, f32, i64, ptr, static, void

extremes = parts = edges = External(ptr, ())  # shared memory

# The kind that the stubs are given.
C: Any = f32


def share(mine: C, other: C, *, LEAST: static) -> C:
    """What the tangent of an extremum has of that of one of two: all, half of equal ones, none."""
    x = minimum(mine, other) if LEAST == 1 else maximum(mine, other)
    if mine == x:
        if other == x:
            return C(0.5)
        return C(1.0)
    return C(0.0)


def place(row: i64, i: i64, *, INNER: static, LENGTH: static, REVERSE: static, ROWS: static) -> i64:
    """Where an element of a row is, or the last one."""
    row = min(row, i64(ROWS - 1))
    i = min(i, i64(LENGTH - 1))
    i = LENGTH - 1 - i if REVERSE == 1 else i
    return row // INNER * (i64(LENGTH) * INNER) + row % INNER + i * INNER


def slot(node: i64, c: i64, *, INNER: static, TILE: static, COLUMNS: static) -> i64:
    """Where a node of a tree is in shared memory; neighbours in memory are neighbours there."""
    return c * (2 * TILE) + node if INNER == 1 else node * COLUMNS + c


def column(k: i64, level: i64, *, INNER: static, COLUMNS: static) -> i64:
    return k >> level if INNER == 1 else k % COLUMNS


def node(k: i64, level: i64, *, INNER: static, COLUMNS: static) -> i64:
    width = i64(1) << level
    return width + (k & (width - 1)) if INNER == 1 else width + k // COLUMNS


def before(
    out: ptr,
    row: i64,
    tile: i64,
    level: i64,
    h: i64,
    *,
    LENGTH: static,
    TILE: static,
    DEPTH: static,
) -> C:
    """The result before the elements of a node."""
    first = (h - (i64(1) << level)) << (DEPTH - level)
    return get(out, place(row, min(tile * TILE + first, i64(LENGTH)) - 1))


def load(
    t: ptr,
    x: ptr,
    more: ptr,
    group: i64,
    tile: i64,
    *,
    THREADS: static,
    LENGTH: static,
    ROWS: static,
    TILE: static,
    COLUMNS: static,
    DEPTH: static,
    MORE: static,
    IDENTITY: static,
) -> void:
    for k in range(thread(), TILE * COLUMNS, THREADS):
        c = column(k, i64(DEPTH))
        h = node(k, i64(DEPTH))
        row = group * COLUMNS + c
        i = tile * TILE + h - TILE
        own = C(IDENTITY)
        part = C(0.0)
        if row < ROWS and i < LENGTH:
            at = place(row, i)
            own = get(x, at)
            part = get(t, at)
            if MORE == 1:
                part = part + get(more, at)
        C[extremes(), slot(h, c)] = own
        C[parts(), slot(h, c)] = part


def own_part(row: i64, c: i64, tile: i64, level: i64, h: i64, out: ptr) -> C:
    """Of the cotangent of a node's last result, the part of the result before the node; the rest
    is left to the node."""
    ct = C[parts(), slot(h, c)]
    last = before(out, row, tile, level, h)
    own = C[extremes(), slot(h, c)]
    C[parts(), slot(h, c)] = share(own, last) * ct
    return share(last, own) * ct


def up(
    out: ptr,
    group: i64,
    tile: i64,
    *,
    THREADS: static,
    COLUMNS: static,
    DEPTH: static,
    LEAST: static,
    TRANSPOSED: static,
) -> void:
    """The extrema of blocks, and their tangents or the cotangents of their last results."""
    for step in range(DEPTH):
        level = i64(DEPTH - 1) - step
        width = i64(1) << level
        barrier()
        for k in range(thread(), width * COLUMNS, THREADS):
            c = column(k, level)
            h = node(k, level)
            row = group * COLUMNS + c
            first = C[extremes(), slot(2 * h, c)]
            second = C[extremes(), slot(2 * h + 1, c)]
            x = C(0.0)
            if LEAST == 1:
                x = minimum(first, second)
            else:
                x = maximum(first, second)
            C[extremes(), slot(h, c)] = x
            part = C[parts(), slot(2 * h + 1, c)]
            if TRANSPOSED == 0:
                part = share(second, first) * part
                part = share(first, second) * C[parts(), slot(2 * h, c)] + part
            else:
                if h + 1 < 2 * width:
                    part = part + own_part(row, c, tile, level + 1, 2 * h + 2, out)
                if h == width and tile > 0:
                    more = own_part(row, c, tile, level + 1, 2 * h, out)
                    C[edges(), c] = C[edges(), c] + more
            C[parts(), slot(h, c)] = part
    barrier()


def down(
    out: ptr,
    group: i64,
    tile: i64,
    *,
    THREADS: static,
    COLUMNS: static,
    DEPTH: static,
    TRANSPOSED: static,
) -> void:
    """The tangents of results, or the cotangents of elements, of those of a block's halves."""
    for depth in range(DEPTH):
        level = i64(depth)
        width = i64(1) << level
        barrier()
        for k in range(thread(), width * COLUMNS, THREADS):
            c = column(k, level)
            h = node(k, level)
            row = group * COLUMNS + c
            part = C[parts(), slot(h, c)]
            first = C[parts(), slot(2 * h, c)]
            own = C[extremes(), slot(2 * h, c)]
            if TRANSPOSED == 1:
                second = C[extremes(), slot(2 * h + 1, c)]
                C[parts(), slot(2 * h, c)] = first + share(own, second) * part
                C[parts(), slot(2 * h + 1, c)] = share(second, own) * part
            else:
                if h > width or tile > 0:
                    last = before(out, row, tile, level + 1, 2 * h)
                    earlier = C[edges(), c]
                    if h > width:
                        earlier = C[parts(), slot(h - 1, c)]
                    first = share(own, last) * first
                    C[parts(), slot(2 * h, c)] = share(last, own) * earlier + first
                C[parts(), slot(2 * h + 1, c)] = part
    barrier()


def begin(c: i64, row: i64, tile: i64, roots: ptr, *, TILES: static, TRANSPOSED: static) -> void:
    """What is known of the last result of a tile, and of the tile before it."""
    if TILES > 1:
        C[parts(), slot(i64(1), c)] = C[roots, row * TILES + tile]
        if TRANSPOSED == 0 and tile > 0:
            C[edges(), c] = C[roots, row * TILES + tile - 1]


def end(
    c: i64,
    row: i64,
    tile: i64,
    out: ptr,
    roots_t: ptr,
    roots_x: ptr,
    roots_out: ptr,
    roots_more: ptr,
    *,
    TILE: static,
    TILES: static,
    TRANSPOSED: static,
) -> void:
    """What the roots of trees are as elements of a row."""
    at = row * TILES + tile
    C[roots_t, at] = C[parts(), slot(i64(1), c)]
    C[roots_x, at] = C[extremes(), slot(i64(1), c)]
    C[roots_out, at] = get(out, place(row, tile * TILE + TILE - 1))
    if TRANSPOSED == 1:
        C[roots_more, at - 1 if tile > 0 else at + TILES - 1] = C[edges(), c]


def climb(
    t: ptr,
    x: ptr,
    out: ptr,
    more: ptr,
    group: i64,
    tile: i64,
    *,
    THREADS: static,
    COLUMNS: static,
) -> void:
    """The tree of a tile, from its leaves to the root."""
    load(t, x, more, group, tile)
    for c in range(thread(), COLUMNS, THREADS):
        C[edges(), c] = C(0.0)
    up(out, group, tile)


def sum_tiles(
    t: ptr,
    x: ptr,
    out: ptr,
    more: ptr,
    roots_t: ptr,
    roots_x: ptr,
    roots_out: ptr,
    roots_more: ptr,
    *,
    THREADS: static,
    ROWS: static,
    TILES: static,
    COLUMNS: static,
) -> void:
    """The roots of the trees of tiles."""
    tile = block() % TILES
    group = block() // TILES
    climb(t, x, out, more, group, tile)
    for c in range(thread(), COLUMNS, THREADS):
        if group * COLUMNS + c < ROWS:
            end(c, group * COLUMNS + c, tile, out, roots_t, roots_x, roots_out, roots_more)


def share_tiles(
    t: ptr,
    x: ptr,
    out: ptr,
    more: ptr,
    roots: ptr,
    to: ptr,
    *,
    THREADS: static,
    LENGTH: static,
    ROWS: static,
    TILE: static,
    TILES: static,
    COLUMNS: static,
    DEPTH: static,
) -> void:
    """Tangents or cotangents of tiles, of those of the roots of their trees."""
    tile = block() % TILES
    group = block() // TILES
    climb(t, x, out, more, group, tile)
    for c in range(thread(), COLUMNS, THREADS):
        if group * COLUMNS + c < ROWS:
            begin(c, group * COLUMNS + c, tile, roots)
    down(out, group, tile)
    for k in range(thread(), TILE * COLUMNS, THREADS):
        c = column(k, i64(DEPTH))
        h = node(k, i64(DEPTH))
        row = group * COLUMNS + c
        i = tile * TILE + h - TILE
        if row < ROWS and i < LENGTH:
            put(to, place(row, i), C[parts(), slot(h, c)])
