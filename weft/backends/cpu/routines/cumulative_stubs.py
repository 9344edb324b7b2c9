"""Native functions of partial results along an axis, on vectors of elements and on single ones.

Buffers of all: elements, results, and what comes before pieces of rows if these are cut; or
elements and the totals of such pieces.
"""

from __future__ import annotations

from typing import Any

from weft.kernel.kinds import Intrinsic, bits, f32, i64, memcpy, ptr, shuffle, stack, static, void

ADD, MUL, MIN, MAX, LOGADDEXP = range(5)
# Columns that are read together.
COLUMNS_AT_ONCE = 512

# Kinds and static parameters of the stubs: elements as they are computed with
# and as they are in memory, and vectors of both.
F: Any = f32
N: Any = f32
V: Any = f32
NV: Any = f32
W: Any = f32  # the bits of what is computed with
# OP, IDENTITY, REVERSE: the operation and what it begins with, the direction. FLOATS, BFLOATS: how
# elements are narrower in memory. TOTALS, BEFORE: whether only totals are wanted, and whether there
# is something before pieces. OUTER, LENGTH, INNER: the shape. PIECE, PIECES: elements of one and
# how many there are. CUT, WIDE: whether rows are cut into pieces, and whether columns are in more
# than one block. N_SIZE, F_SIZE: bytes of an element in memory and as it is computed with.
# Orders of lanes: SHIFTS, those that come before by 1, 2, 4 and so on; LAST, the last in all;
# TO_COLUMNS, TO_ROWS: for each column of very short rows, or row of columns, its number, and which
# lanes of which vectors it has.
minimum, maximum = Intrinsic("minimum"), Intrinsic("maximum")


def combined(x: F, y: F, *, OP: static, FLOATS: static, logaddexp: static) -> F:
    """Two partial results as one."""
    if OP == ADD:
        return x + y
    if OP == MUL:
        return x * y
    if OP == LOGADDEXP:
        return logaddexp(x, y)
    if FLOATS:
        return minimum(x, y) if OP == MIN else maximum(x, y)
    return min(x, y) if OP == MIN else max(x, y)


def both(x: V, y: V, *, OP: static, logaddexp_lanes: static) -> V:
    """Vectors of partial results as one."""
    return logaddexp_lanes(x, y) if OP == LOGADDEXP else combined(x, y)


# --- narrow floats --------------------------------------------------------------------------------


def wide(x: N, *, BFLOATS: static) -> F:
    """An element as it is computed with."""
    return bits(F, extended(x) << 16) if BFLOATS else F(x)


def narrow(x: F, *, BFLOATS: static) -> N:
    """A result as it is in memory; a NaN keeps its sign."""
    if not BFLOATS:
        return N(x)
    word = word_of(x)
    rounded = word + 0x7FFF + ((word >> 16) & 1)
    return cut((rounded if x == x else (word & 0x80000000) | 0x7FC00000) >> 16)


def extended(x: N) -> W:
    return W(x)


def word_of(x: F) -> W:
    return bits(W, x)


def cut(x: W) -> N:
    return N(x)


# --- lanes ----------------------------------------------------------------------------------------


def within(x: V, *, IDENTITY: static, SHIFTS: static) -> V:
    """Partial results of the lanes of a vector."""
    for order in SHIFTS:
        x = both(x, shuffle(x, V(IDENTITY), order))
    return x


# --- rows -----------------------------------------------------------------------------------------


def place_of(
    unit: i64, *, REVERSE: static, LENGTH: static, INNER: static, PIECE: static, PIECES: static
) -> i64:
    """Elements before a unit's piece of a row; a scan begins with the first."""
    low = unit % PIECES * PIECE
    if REVERSE:
        low = LENGTH - low - length_of(unit)
    return (unit // PIECES * LENGTH + low) * INNER


def length_of(unit: i64, *, LENGTH: static, PIECE: static, PIECES: static, CUT: static) -> i64:
    """Elements of a unit's piece of a row."""
    return min(LENGTH - unit % PIECES * PIECE, i64(PIECE)) if CUT else i64(LENGTH)


def scan_rows(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    IDENTITY: static,
    REVERSE: static,
    TOTALS: static,
    BEFORE: static,
    LANES: static,
    N_SIZE: static,
    LAST: static,
) -> void:
    """Partial results along contiguous rows, or only the totals of pieces of them."""
    lanes = stack(LANES * 8)
    for unit in range(start, stop):
        offset = place_of(unit) * N_SIZE
        at = ptr[buffers, 0] + offset
        to = ptr[buffers, 1] + offset
        vectors = length_of(unit) // LANES
        rest = length_of(unit) - vectors * LANES
        before = rest * N_SIZE if REVERSE else 0
        sums = V(F[ptr[buffers, 2], unit] if BEFORE else IDENTITY)
        for i in range(vectors):
            k = vectors - 1 - i if REVERSE else i
            x = wide(NV[at + before, k])
            if TOTALS:
                sums = both(sums, x)
            else:
                x = within(x)
                NV[to + before, k] = narrow(both(sums, x))
                sums = both(sums, shuffle(x, x, LAST))
        if TOTALS:
            sums = within(sums)
            sums = shuffle(sums, sums, LAST)
        V[lanes, 0] = sums
        total = F[lanes, 0]
        for i in range(rest):
            k = rest - 1 - i if REVERSE else vectors * LANES + i
            total = combined(total, wide(N[at, k]))
            if not TOTALS:
                N[to, k] = narrow(total)
        if TOTALS:
            F[ptr[buffers, 1], unit] = total


def scan_short(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    IDENTITY: static,
    REVERSE: static,
    LANES: static,
    OUTER: static,
    LENGTH: static,
    N_SIZE: static,
    TO_COLUMNS: static,
    TO_ROWS: static,
) -> void:
    """Partial results along very short rows, a vector of them at a time."""
    source = ptr[buffers, 0]
    target = ptr[buffers, 1]
    groups = i64(OUTER // LANES)
    for group in range(start, min(stop, groups)):
        offset = group * LANES * LENGTH * N_SIZE
        at = source + offset
        to = target + offset
        rows = [wide(NV[at, k]) for k, _ in TO_ROWS]
        columns = [rows[k] for k, _ in TO_ROWS]
        sums = V(IDENTITY)
        for j, orders in TO_COLUMNS:
            found = rows[0]
            for k, order in orders:
                found = shuffle(found, rows[k], order)
            sums = both(sums, found)
            columns[j] = sums
        for j, orders in TO_ROWS:
            found = columns[0]
            for k, order in orders:
                found = shuffle(found, columns[k], order)
            NV[to, j] = narrow(found)
    if stop > groups:
        for row in range(groups * LANES, OUTER):
            total = F(IDENTITY)
            for i in range(LENGTH):
                k = row * LENGTH + (LENGTH - 1 - i if REVERSE else i)
                total = combined(total, wide(N[source, k]))
                N[target, k] = narrow(total)


def offsets(
    buffers: ptr, start: i64, stop: i64, *, IDENTITY: static, INNER: static, PIECES: static
) -> void:
    """Totals of pieces turned into what comes before each of them."""
    for n in range(start, stop):
        total = F(IDENTITY)
        for i in range(PIECES):
            k = (n // INNER * PIECES + i) * INNER + n % INNER
            held = F[ptr[buffers, 0], k]
            F[ptr[buffers, 0], k] = total
            total = combined(total, held)


# --- columns --------------------------------------------------------------------------------------


def scan_columns(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    IDENTITY: static,
    REVERSE: static,
    TOTALS: static,
    BEFORE: static,
    LANES: static,
    INNER: static,
    BLOCKS: static,
    WIDE: static,
    N_SIZE: static,
    F_SIZE: static,
) -> void:
    """Partial results along columns, or only the totals of pieces of them."""
    sums = stack(COLUMNS_AT_ONCE * 8)
    for n in range(start, stop):
        unit = n // BLOCKS
        column = n % BLOCKS * COLUMNS_AT_ONCE
        width = min(INNER - column, i64(COLUMNS_AT_ONCE))
        own = (unit * INNER + column) * F_SIZE  # of totals
        if BEFORE:
            memcpy(sums, ptr[buffers, 2] + own, width * F_SIZE)
        else:
            for c in range(0, width, LANES):
                V[sums + c * F_SIZE, 0] = IDENTITY
        first = place_of(unit) + column
        length = length_of(unit)
        for i in range(length):
            row = length - 1 - i if REVERSE else i
            at = ptr[buffers, 0] + (first + row * INNER) * N_SIZE
            to = ptr[buffers, 1] + (first + row * INNER) * N_SIZE
            for c in range(0, (width if WIDE else INNER) // LANES * LANES, LANES):
                some = both(V[sums + c * F_SIZE, 0], wide(NV[at + c * N_SIZE, 0]))
                V[sums + c * F_SIZE, 0] = some
                if not TOTALS:
                    NV[to + c * N_SIZE, 0] = narrow(some)
            for c in range((width if WIDE else INNER) // LANES * LANES, width if WIDE else INNER):
                F[sums, c] = combined(F[sums, c], wide(N[at, c]))
                if not TOTALS:
                    N[to, c] = narrow(F[sums, c])
        if TOTALS:
            memcpy(ptr[buffers, 1] + own, sums, width * F_SIZE)
