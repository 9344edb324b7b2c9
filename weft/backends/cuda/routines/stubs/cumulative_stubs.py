"""Partial results along an axis, as stubs.

Long rows are cut into tiles, one for each block. A tile needs what came before it: the sums of the
tiles of its group, of the groups of its supergroup, and of all supergroups before, in a fixed
order, so that every run gives the same bits. Blocks publish these as they know them and wait for
those of others (the idea of decoupled look-back: Merrill and Garland 2016).
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import (
    acquire_u32,
    barrier,
    block,
    maximum,
    minimum,
    peek_u64,
    poke_u64,
    release_u32,
    thread,
    warp_barrier,
)
from weft.backends.cuda.routines.stubs.elements import bits_of, from_bits, get, of_lane, put, up
from weft.kernel.kinds import (
    External,
    f32,
    f64,
    i32,
    i64,
    ptr,
    stack,
    static,
    u32,
    u64,
    unrolled,
    void,
)

exp_single = log1p_single = External(f32, (f32,))
exp = log1p = External(f64, (f64,))
totals = parts = External(ptr, ())  # shared memory

# Kinds that the stubs are given.
C: Any = f32
ADD, MUL, MAX, MIN, LOG_ADD_EXP = range(5)


def larger(x: C, y: C, *, FLOATING: static) -> C:
    return max(x, y) if FLOATING == 0 else maximum(x, y)


def smaller(x: C, y: C, *, FLOATING: static) -> C:
    return min(x, y) if FLOATING == 0 else minimum(x, y)


def log_add_exp(x: C, y: C, *, WIDTH: static) -> C:
    """log(exp(x) + exp(y)); equal infinities and NaN give their sum."""
    apart = x - y
    if apart != apart:
        return x + y
    size = apart if apart >= 0.0 else -apart
    if WIDTH == 8:
        return max(x, y) + log1p(exp(-size))
    return max(x, y) + log1p_single(exp_single(-size))


def joined(x: C, y: C, *, OP: static) -> C:
    """Two partial results as one, the earlier first."""
    if OP == 0:
        return x + y
    if OP == 1:
        return x * y
    if OP == 2:
        return larger(x, y)
    if OP == 3:
        return smaller(x, y)
    return log_add_exp(x, y)


def place(i: i64, *, LENGTH: static, REVERSE: static) -> i64:
    return LENGTH - 1 - i if REVERSE == 1 else i


def scanned(x: C, lane: i64) -> C:
    """The inclusive scan over the lanes of a warp."""
    for k in unrolled(5):
        other = up(x, i32(1) << i32(k))
        if lane >= i64(1) << i64(k):
            x = joined(other, x)
    return x


# --- what tiles tell each other -------------------------------------------------------------------


def publish(state: ptr, unit: i64, x: C, *, WIDTH: static, UNITS: static, ROWS: static) -> void:
    if WIDTH == 8:
        u64[state, 2 + unit] = bits_of(x)
        release_u32(state + 16 + 8 * i64(UNITS) * ROWS + 4 * unit, u32(1))
    else:
        poke_u64(state + 16 + 8 * unit, (u64(1) << 32) | bits_of(x))


def wait(state: ptr, unit: i64, *, WIDTH: static, UNITS: static, ROWS: static) -> C:
    if WIDTH == 8:
        while acquire_u32(state + 16 + 8 * i64(UNITS) * ROWS + 4 * unit) == 0:
            pass
        return from_bits(u64[state, 2 + unit])
    word = peek_u64(state + 16 + 8 * unit)
    while word >> 32 == 0:
        word = peek_u64(state + 16 + 8 * unit)
    return from_bits(word & 0xFFFFFFFF)


def of_near(
    state: ptr,
    row: i64,
    tile: i64,
    lane: i64,
    own: C,
    *,
    TILES: static,
    UNITS: static,
    IDENTITY: static,
) -> C:
    """What the tiles of the same group before this one come to; by a warp."""
    units = row * UNITS
    inside = tile % 32
    if lane == 0:
        publish(state, units + tile, own)
    warp_barrier()
    x = C(IDENTITY)
    if lane < inside:
        x = wait(state, units + tile - inside + lane)
    warp_barrier()
    near = of_lane(scanned(x, lane), i32(31))
    if inside == 31 and lane == 0:
        publish(state, units + TILES + tile // 32, joined(near, own))
    return near


def of_groups(
    state: ptr, row: i64, tile: i64, lane: i64, *, TILES: static, UNITS: static, IDENTITY: static
) -> C:
    """What the groups of the same supergroup before this one come to; by a warp."""
    groups = row * UNITS + TILES
    group = tile // 32
    above = group % 32
    x = C(IDENTITY)
    if lane < above:
        x = wait(state, groups + group - above + lane)
    warp_barrier()
    return of_lane(scanned(x, lane), i32(31))


def before_tile(
    state: ptr,
    row: i64,
    tile: i64,
    warp: i64,
    lane: i64,
    own: C,
    *,
    TILES: static,
    UNITS: static,
    GROUPS: static,
    IDENTITY: static,
) -> C:
    """What all tiles of the row before this one come to; three warps wait for it."""
    supers = row * UNITS + TILES + GROUPS
    far = tile // 1024
    if warp == 0:
        x = of_near(state, row, tile, lane, own)
        if lane == 0:
            C[parts(), 0] = x
    if warp == 1:
        y = of_groups(state, row, tile, lane)
        if lane == 0:
            C[parts(), 1] = y
    if warp == 2 and lane == 0:
        z = C(IDENTITY)
        if far > 0:
            z = wait(state, supers + far)
        C[parts(), 2] = z
    barrier()
    near = C[parts(), 0]
    middle = C[parts(), 1]
    start = C[parts(), 2]
    if tile % 1024 == 1023 and thread() == 0:
        publish(state, supers + far + 1, joined(start, joined(middle, joined(near, own))))
    return joined(joined(start, middle), near)


# --- kernels --------------------------------------------------------------------------------------


def load_items(
    x: ptr,
    base: i64,
    at: i64,
    whole: i64,
    items: ptr,
    *,
    LENGTH: static,
    ROUNDS: static,
    QUADS: static,
    IDENTITY: static,
) -> void:
    """Four elements of each round, those of a round next to each other; with ``QUADS``, all four of
    them are in the row or none."""
    if whole == 1:
        for k in unrolled(ROUNDS * 4):
            C[items, k] = get(x, base + place(at + k // 4 * 128 + k % 4))
    elif QUADS == 1:
        for r in unrolled(ROUNDS):
            for j in unrolled(4):
                C[items, r * 4 + j] = C(IDENTITY)
            if at + r * 128 < LENGTH:
                for j in unrolled(4):
                    C[items, r * 4 + j] = get(x, base + place(at + r * 128 + j))
    else:
        for k in unrolled(ROUNDS * 4):
            C[items, k] = C(IDENTITY)
            if at + k // 4 * 128 + k % 4 < LENGTH:
                C[items, k] = get(x, base + place(at + k // 4 * 128 + k % 4))


def scan_items(items: ptr, lane: i64, *, ROUNDS: static, IDENTITY: static) -> C:
    """The scan of a warp's elements; the sum of all of them."""
    total = C(IDENTITY)
    for r in unrolled(ROUNDS):
        own = C(IDENTITY)
        for j in unrolled(4):
            own = joined(own, C[items, r * 4 + j])
            C[items, r * 4 + j] = own
        found = scanned(own, lane)
        before = up(found, i32(1))
        if lane == 0:
            before = C(IDENTITY)
        before = joined(total, before)
        for j in unrolled(4):
            C[items, r * 4 + j] = joined(before, C[items, r * 4 + j])
        total = joined(total, of_lane(found, i32(31)))
    return total


def scan_tiles(
    x: ptr,
    out: ptr,
    state: ptr,
    *,
    LENGTH: static,
    TILES: static,
    WARPS: static,
    ROUNDS: static,
    TILE: static,
    QUADS: static,
    IDENTITY: static,
) -> void:
    """A tile of a row for each block; GPUs begin blocks in their order."""
    number = block()
    row = number // TILES
    tile = number % TILES
    base = row * LENGTH
    lane = thread() % 32
    warp = thread() // 32
    at = tile * TILE + warp * (128 * ROUNDS) + lane * 4
    whole = i64(1) if tile * TILE + TILE <= LENGTH else i64(0)
    items = stack(ROUNDS * 4 * 8)
    load_items(x, base, at, whole, items)
    total = scan_items(items, lane)
    if lane == 0:
        C[totals(), warp] = total
    barrier()
    before = C(IDENTITY)
    own = C(IDENTITY)
    for w in unrolled(WARPS):
        if w < warp:
            before = joined(before, C[totals(), w])
        own = joined(own, C[totals(), w])
    start = C(IDENTITY)
    if TILES > 1:
        start = before_tile(state, row, tile, warp, lane, own)
    before = joined(start, before)
    if whole == 1:
        for k in unrolled(ROUNDS * 4):
            put(out, base + place(at + k // 4 * 128 + k % 4), joined(before, C[items, k]))
    elif QUADS == 1:
        for r in unrolled(ROUNDS):
            if at + r * 128 < LENGTH:
                for j in unrolled(4):
                    to = base + place(at + r * 128 + j)
                    put(out, to, joined(before, C[items, r * 4 + j]))
    else:
        for k in unrolled(ROUNDS * 4):
            if at + k // 4 * 128 + k % 4 < LENGTH:
                put(out, base + place(at + k // 4 * 128 + k % 4), joined(before, C[items, k]))


def scan_rows(x: ptr, out: ptr, *, LENGTH: static, ROWS: static, IDENTITY: static) -> void:
    """A warp for each row."""
    lane = thread() % 32
    row = block() * 8 + thread() // 32
    if row < ROWS:
        base = row * LENGTH
        total = C(IDENTITY)
        for first in range(0, LENGTH, 32):
            at = first + lane
            own = C(IDENTITY)
            if at < LENGTH:
                own = get(x, base + place(at))
            found = joined(total, scanned(own, lane))
            if at < LENGTH:
                put(out, base + place(at), found)
            total = of_lane(found, i32(31))


def sum_columns(
    x: ptr,
    sums: ptr,
    *,
    LENGTH: static,
    ROWS: static,
    INNER: static,
    PIECE: static,
    PIECES: static,
    IDENTITY: static,
) -> void:
    """A thread for each piece of a column: what it comes to."""
    number = block() * 128 + thread()
    if number < ROWS * PIECES:
        column = number % ROWS
        piece = number // ROWS
        base = column // INNER * (LENGTH * INNER) + column % INNER
        total = C(IDENTITY)
        for i in range(piece * PIECE, min(i64(LENGTH), piece * PIECE + PIECE)):
            total = joined(total, get(x, base + place(i) * INNER))
        C[sums, number] = total


def scan_columns(
    x: ptr,
    sums: ptr,
    out: ptr,
    *,
    LENGTH: static,
    ROWS: static,
    INNER: static,
    PIECE: static,
    PIECES: static,
    IDENTITY: static,
) -> void:
    """A thread for each piece of a column, after what the pieces before it come to."""
    number = block() * 128 + thread()
    if number < ROWS * PIECES:
        column = number % ROWS
        piece = number // ROWS
        base = column // INNER * (LENGTH * INNER) + column % INNER
        total = C(IDENTITY)
        for k in range(piece):
            total = joined(total, C[sums, k * ROWS + column])
        for i in range(piece * PIECE, min(i64(LENGTH), piece * PIECE + PIECE)):
            total = joined(total, get(x, base + place(i) * INNER))
            put(out, base + place(i) * INNER, total)


def load_strip(
    x: ptr,
    base: i64,
    first: i64,
    items: ptr,
    *,
    LENGTH: static,
    INNER: static,
    DEEP: static,
    IDENTITY: static,
) -> void:
    """Neighbouring elements of a column."""
    if first + DEEP <= LENGTH:
        for k in unrolled(DEEP):
            C[items, k] = get(x, base + place(first + k) * INNER)
    else:
        for k in unrolled(DEEP):
            C[items, k] = C(IDENTITY)
            if first + k < LENGTH:
                C[items, k] = get(x, base + place(first + k) * INNER)


def scan_strips(
    x: ptr,
    out: ptr,
    *,
    LENGTH: static,
    INNER: static,
    WARPS: static,
    DEEP: static,
    IDENTITY: static,
) -> void:
    """A strip of 32 columns for each block, chunk by chunk: a warp has a few rows of a chunk, while
    those of the next are on their way."""
    lane = thread() % 32
    warp = thread() // 32
    column = block() * 32 + lane
    base = column // INNER * (i64(LENGTH) * INNER) + column % INNER
    items = stack(DEEP * 8)
    later = stack(DEEP * 8)
    carried = C(IDENTITY)
    half = i64(0)
    load_strip(x, base, warp * DEEP, later)
    first = warp * DEEP
    while first - warp * DEEP < LENGTH:
        for k in unrolled(DEEP):
            C[items, k] = C[later, k]
        if first - warp * DEEP + WARPS * DEEP < LENGTH:
            load_strip(x, base, first + WARPS * DEEP, later)
        own = C(IDENTITY)
        for k in unrolled(DEEP):
            own = joined(own, C[items, k])
            C[items, k] = own
        C[totals(), half + warp * 32 + lane] = own
        barrier()
        before = carried
        for w in range(WARPS):
            if w == warp:
                before = carried
            carried = joined(carried, C[totals(), half + w * 32 + lane])
        half = i64(WARPS * 32) - half
        if first + DEEP <= LENGTH:
            for k in unrolled(DEEP):
                put(out, base + place(first + k) * INNER, joined(before, C[items, k]))
        else:
            for k in unrolled(DEEP):
                if first + k < LENGTH:
                    put(out, base + place(first + k) * INNER, joined(before, C[items, k]))
        first = first + WARPS * DEEP
