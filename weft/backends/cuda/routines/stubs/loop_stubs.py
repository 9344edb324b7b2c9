"""What loops in one kernel do beyond kernels of the compiler, as stubs: products, copies and the
barrier of a grid whose blocks are all resident."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    arrive_u32,
    barrier,
    bf16_of_f32,
    block,
    blocks,
    bring_near,
    cluster_meet,
    f16_of_f32,
    fma,
    meet,
    peek_u32,
    take_four_f32,
    take_four_f64,
    thread,
    threads,
    wait_u32,
)
from weft.backends.cuda.routines.stubs.elements import get
from weft.kernel.kinds import External, f32, i64, ptr, stack, static, u8, u16, u32, unrolled, void

left_room = right_room = sums_room = External(ptr, ())  # shared memory
follow = External(void, (ptr, i64))  # what is done with an element of the product at once

# Kinds that the stubs are given.
C: Any = f32  # what is summed in
# TILE_, OWN_: rows and columns of a tile, of a thread's part of it. CHUNK, UNITS: depth of a chunk,
# units that share a chunk. LEFT_KEPT, RIGHT_KEPT: whether shared memory has a side already.
# BATCHED: elements that a thread reads before it writes them to shared memory. ROLLED: units, a
# multiple of four, whose sums a loop adds up; the code for others is straight.

# Elements of a thread along a row, neighbours in depth that are read at once, and padding.
FOUR = 4


FIRST_BIT = 1 << 31


def begin_barriers(state: ptr, goal: ptr) -> void:
    """Which way the first bit of the count is before any barrier of this launch."""
    u32[goal, 0] = peek_u32(state)


def grid_barrier(state: ptr, goal: ptr) -> void:
    """All threads of all blocks come here before any of them goes on. What all blocks add together
    turns the first bit of the count, and leaves the others: launches need not set it."""
    meet()
    if thread() == 0:
        u32[goal, 0] = u32[goal, 0] + u32(FIRST_BIT)
        arrive_u32(state, u32(1) if block() > 0 else u32(FIRST_BIT) - u32(blocks() - 1))
        wait_u32(state, u32[goal, 0])
    meet()


def cluster_barrier() -> void:
    """The same for blocks of a cluster."""
    cluster_meet()


def copy_bytes(target: ptr, source: ptr, size: i64) -> void:
    first = block() * threads() + thread()
    step = blocks() * threads()
    if size % 4 == 0 and (i64(target) | i64(source)) % 4 == 0:
        i = first
        while i < size // 4:
            u32[target, i] = u32[source, i]
            i = i + step
    else:
        i = first
        while i < size:
            u8[target, i] = u8[source, i]
            i = i + step


def prefetch(p: ptr, size: i64) -> void:
    """Begin to load memory that the next round reads, a line for each thread."""
    line = (block() * threads() + thread()) * 128
    if line < size:
        bring_near(p + line)


def write(p: ptr, i: i64, x: C, *, NARROW_OUT: static) -> void:
    if NARROW_OUT == 1:
        u16[p, i] = bf16_of_f32(x)
    elif NARROW_OUT == 2:
        u16[p, i] = f16_of_f32(x)
    else:
        C[p, i] = x


def take_four(out: ptr, p: ptr, *, WIDTH: static) -> void:
    if WIDTH == 8:
        take_four_f64(out, p)
    else:
        take_four_f32(out, p)


def left_at(
    tile: i64,
    start: i64,
    e: i64,
    *,
    ROWS: static,
    DEPTH: static,
    LEFT_TRANSPOSED: static,
    TILE_ROWS: static,
    CHUNK: static,
    ACROSS: static,
    DOWN: static,
    RAGGED_ROWS: static,
    RAGGED_DEPTH: static,
) -> i64:
    """Where an element of a chunk of a tile's rows is; -1 beyond the edges."""
    row = tile // ACROSS % DOWN * TILE_ROWS
    base = tile // ACROSS // DOWN * (i64(ROWS) * DEPTH)
    r = e % TILE_ROWS if LEFT_TRANSPOSED == 1 else e // CHUNK
    k = start + (e // TILE_ROWS if LEFT_TRANSPOSED == 1 else e % CHUNK)
    row = row + r
    at = base + (k * ROWS + row if LEFT_TRANSPOSED == 1 else row * DEPTH + k)
    if RAGGED_ROWS == 1:
        at = at if row < ROWS else i64(-1)
    if RAGGED_DEPTH == 1:
        at = at if k < DEPTH else i64(-1)
    return at


def right_at(
    tile: i64,
    start: i64,
    e: i64,
    *,
    COLUMNS: static,
    DEPTH: static,
    RIGHT_TRANSPOSED: static,
    TILE_COLUMNS: static,
    CHUNK: static,
    ACROSS: static,
    DOWN: static,
    RAGGED_COLUMNS: static,
    RAGGED_DEPTH: static,
) -> i64:
    """Where an element of a chunk of a tile's columns is; -1 beyond the edges."""
    column = tile % ACROSS * TILE_COLUMNS
    base = tile // ACROSS // DOWN * (i64(COLUMNS) * DEPTH)
    c = e // CHUNK if RIGHT_TRANSPOSED == 1 else e % TILE_COLUMNS
    k = start + (e % CHUNK if RIGHT_TRANSPOSED == 1 else e // TILE_COLUMNS)
    column = column + c
    at = base + (column * DEPTH + k if RIGHT_TRANSPOSED == 1 else k * COLUMNS + column)
    if RAGGED_COLUMNS == 1:
        at = at if column < COLUMNS else i64(-1)
    if RAGGED_DEPTH == 1:
        at = at if k < DEPTH else i64(-1)
    return at


def stage_left(
    left: ptr,
    tile: i64,
    start: i64,
    *,
    LEFT_TRANSPOSED: static,
    TILE_ROWS: static,
    CHUNK: static,
    THREADS: static,
    BATCHED: static,
) -> void:
    """A chunk of a tile's rows to shared memory, zeros beyond the edges."""
    kept = stack(BATCHED * 8)
    first = thread()
    while first < TILE_ROWS * CHUNK:
        for t in unrolled(BATCHED):
            e = first + t * THREADS
            x = C(0)
            if e < TILE_ROWS * CHUNK:
                at = left_at(tile, start, e)
                if at >= 0:
                    x = get(left, at)
            C[kept, t] = x
        for t in unrolled(BATCHED):
            e = first + t * THREADS
            if e < TILE_ROWS * CHUNK:
                r = e % TILE_ROWS if LEFT_TRANSPOSED == 1 else e // CHUNK
                k = e // TILE_ROWS if LEFT_TRANSPOSED == 1 else e % CHUNK
                C[left_room(), r * (CHUNK + FOUR) + k] = C[kept, t]
        first = first + BATCHED * THREADS


def stage_right(
    right: ptr,
    tile: i64,
    start: i64,
    *,
    RIGHT_TRANSPOSED: static,
    TILE_COLUMNS: static,
    CHUNK: static,
    THREADS: static,
    BATCHED: static,
) -> void:
    """A chunk of a tile's columns to shared memory, zeros beyond the edges."""
    kept = stack(BATCHED * 8)
    first = thread()
    while first < TILE_COLUMNS * CHUNK:
        for t in unrolled(BATCHED):
            e = first + t * THREADS
            x = C(0)
            if e < TILE_COLUMNS * CHUNK:
                at = right_at(tile, start, e)
                if at >= 0:
                    x = get(right, at)
            C[kept, t] = x
        for t in unrolled(BATCHED):
            e = first + t * THREADS
            if e < TILE_COLUMNS * CHUNK:
                c = e // CHUNK if RIGHT_TRANSPOSED == 1 else e % TILE_COLUMNS
                k = e % CHUNK if RIGHT_TRANSPOSED == 1 else e // TILE_COLUMNS
                C[right_room(), k * (TILE_COLUMNS + FOUR) + c] = C[kept, t]
        first = first + BATCHED * THREADS


def keep_left(left: ptr, *, TILES: static) -> void:
    """A side that no round changes, for the one tile that this block has."""
    if block() < TILES:
        stage_left(left, block(), 0)


def keep_right(right: ptr, *, TILES: static) -> void:
    if block() < TILES:
        stage_right(right, block(), 0)


def sum_of_units(
    e: i64, *, TILE_ROWS: static, TILE_COLUMNS: static, UNITS: static, ROLLED: static
) -> C:
    """An element of what all units have, four chains of sums at a time."""
    chains = stack(FOUR * 8)
    for n in unrolled(FOUR):
        C[chains, n] = C(0)
    if ROLLED > 0:
        first = i64(0)
        while first < ROLLED:
            for n in unrolled(FOUR):
                at = (first + n) * (TILE_ROWS * TILE_COLUMNS) + e
                C[chains, n] = C[chains, n] + C[sums_room(), at]
            first = first + FOUR
    for n in unrolled(UNITS - ROLLED):
        at = (ROLLED + n) * (TILE_ROWS * TILE_COLUMNS) + e
        C[chains, n % FOUR] = C[chains, n % FOUR] + C[sums_room(), at]
    return (C[chains, 0] + C[chains, 1]) + (C[chains, 2] + C[chains, 3])


def product(
    left: ptr,
    right: ptr,
    out: ptr,
    table: ptr,
    *,
    WIDTH: static,
    ROWS: static,
    COLUMNS: static,
    DEPTH: static,
    TILE_ROWS: static,
    TILE_COLUMNS: static,
    OWN_ROWS: static,
    CHUNK: static,
    UNITS: static,
    THREADS: static,
    TILES: static,
    ACROSS: static,
    DOWN: static,
    LEFT_KEPT: static,
    RIGHT_KEPT: static,
) -> void:
    """Tiles of a product, one after the other by each block. Units of threads share the depth of a
    chunk; what they have is added up in an order of its own."""
    lanes = i64(TILE_ROWS // OWN_ROWS * (TILE_COLUMNS // FOUR))
    unit = thread() // lanes
    lane = thread() % lanes
    row = lane // (TILE_COLUMNS // FOUR) * OWN_ROWS
    column = lane % (TILE_COLUMNS // FOUR) * FOUR
    own = stack(OWN_ROWS * FOUR * 8)
    some = stack(OWN_ROWS * FOUR * 8)
    other = stack(FOUR * 8)
    tile = block()
    while tile < TILES:
        for n in unrolled(OWN_ROWS * FOUR):
            C[own, n] = C(0)
        for start in range(0, DEPTH, CHUNK):
            barrier()
            if LEFT_KEPT == 0:
                stage_left(left, tile, start)
            if RIGHT_KEPT == 0:
                stage_right(right, tile, start)
            barrier()
            if unit < UNITS:
                quad = unit
                while quad < CHUNK // FOUR:
                    for r in unrolled(OWN_ROWS):
                        at = (row + r) * (CHUNK + FOUR) + quad * FOUR
                        take_four(some + r * (FOUR * WIDTH), left_room() + at * WIDTH)
                    for k in unrolled(FOUR):
                        at = (quad * FOUR + k) * (TILE_COLUMNS + FOUR) + column
                        take_four(other, right_room() + at * WIDTH)
                        for c in unrolled(FOUR):
                            for r in unrolled(OWN_ROWS):
                                n = r * FOUR + c
                                x = C[some, r * FOUR + k]
                                C[own, n] = fma(x, C[other, c], C[own, n])
                    quad = quad + UNITS
        if unit < UNITS:
            for r in unrolled(OWN_ROWS):
                for c in unrolled(FOUR):
                    at = (unit * TILE_ROWS + row + r) * TILE_COLUMNS + column + c
                    C[sums_room(), at] = C[own, r * FOUR + c]
        barrier()
        e = thread()
        while e < TILE_ROWS * TILE_COLUMNS:
            total = sum_of_units(e)
            i = tile // ACROSS % DOWN * TILE_ROWS + e // TILE_COLUMNS
            j = tile % ACROSS * TILE_COLUMNS + e % TILE_COLUMNS
            if i < ROWS and j < COLUMNS:
                number = (tile // ACROSS // DOWN * ROWS + i) * COLUMNS + j
                write(out, number, total)
                follow(table, number)
            e = e + THREADS
        tile = tile + blocks()
