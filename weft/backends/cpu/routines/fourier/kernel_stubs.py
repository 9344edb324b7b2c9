"""Kernels of Fourier transforms: many short ones at a time, and the two halves of a long one.

They have no lengths in their texts. Buffers are the source, the target, an array with all factors,
a table of numbers, the factors of a first half, and functions that all share: one that calls
passes, and the passes.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.fourier.pass_stubs import times
from weft.backends.cpu.routines.square_stubs import squares
from weft.kernel.kinds import f32, i64, invoke, ptr, stack, static, values, void

# Kinds and static parameters of the stubs: a number and a vector, lanes of a
# vector, bytes of a number, a vector, and an element of one lane and of all.
F: Any = f32
V: Any = f32
# Whether rows are real, and may be fewer than lanes.
TO, FROM = 1, 2
# Which half of a long transform it is.
FIRST, SECOND = 1, 2
# Words of a table for a pass.
STEP = 6


def passes(
    codes: ptr,
    steps: ptr,
    count: i64,
    data: ptr,
    source: ptr,
    ss: i64,
    pairs_in: i64,
    target: ptr,
    ts: i64,
    pairs_out: i64,
    even: ptr,
    odd: ptr,
    swap: i64,
    scale: i64,
    lane: ptr,
    group: ptr,
    *,
    ROW: static,
) -> void:
    """All passes between two places, by way of two pieces of memory of which ``even`` is written
    first."""
    here = source
    for i in range(count):
        first = i == 0
        last = i == count - 1
        there = even if i & 1 == 0 else odd
        there = target if last else there
        step = steps + i * (8 * STEP)
        invoke(
            void,
            ptr[codes, i64[step, 0]],
            step,
            here,
            there,
            None if last else data + i64[step, 4],
            data + i64[step, 5],
            lane,
            group,
            ss if first else ROW,
            ts if last else ROW,
            pairs_in if first else 0,
            pairs_out,
            swap if first else 0,
            scale,
        )
        here = there


# --- lanes are columns ----------------------------------------------------------------------------


def columns(
    buffers: ptr, start: i64, stop: i64, *, LANES: static, ELEMENT: static, ROW: static
) -> void:
    """Transforms along the middle axis of three; lanes are neighbours along the last one.

    Those of a long transform are one half of it. The first is multiplied by w ** (j2 k1), and
    writes blocks of as many results as there are lanes; the second reads them. Sizes: the last two
    of the axes, groups of lanes, blocks, which half it is, passes, whether parts are swapped, and
    the scale. Of a first half there are three buffers more: its factors, and what transposes.
    """
    sizes = ptr[buffers, 3]
    n = i64[sizes, 0]
    inner = i64[sizes, 1]
    groups = i64[sizes, 2]
    blocks = i64[sizes, 3]
    half = i64[sizes, 4]
    count = i64[sizes, 5]
    after = buffers + (i64(56) if half == FIRST else 32)
    even = stack(n * ROW)
    odd = stack(n * ROW)
    step = inner * ELEMENT
    across = (inner + LANES - 1) // LANES
    for g in range(start, stop):
        outer = g // groups
        group = g - outer * groups
        first = group * LANES
        # What is left over is a group that overlaps the last. Its factors may be rounded in another
        # way, so that it is always done after that.
        stop_ = inner if group == groups - 1 else first + 1
        for begin in range(first, stop_, LANES):
            lane = min(begin, inner - LANES)
            offset = outer * n * step + lane * ELEMENT
            source = ptr[buffers, 0] + offset
            target = ptr[buffers, 1] + offset
            ss = step
            ts = step
            lanes: ptr = None
            firsts: ptr = None
            if half == FIRST:
                # the last pass writes where its turn would be, which is not what it reads
                target = even if count & 1 else odd
                ts = i64(ROW)
                lanes = ptr[buffers, 4]
                firsts = ptr[buffers, 5] + group * n * ELEMENT
            elif half == SECOND:
                source = ptr[buffers, 0] + (outer * across + group) * n * ROW
                ss = i64(ROW)
            invoke(
                void,
                ptr[after, 0],
                after + 8,
                sizes + 64,
                count,
                ptr[buffers, 2],
                source,
                ss,
                0 if half == SECOND else i64(1),
                target,
                ts,
                0 if half == FIRST else i64(1),
                even,
                odd,
                i64[sizes, 6],
                i64[sizes, 7],
                lanes,
                firsts,
            )
            if half == FIRST:
                to = ptr[buffers, 1] + (outer * blocks * inner + lane) * ROW
                invoke(void, ptr[buffers, 6], target, to, n, blocks, inner * ROW)
            group += 1


def turn_blocks(
    held: ptr, to: ptr, n: i64, blocks: i64, down: i64, *, LANES: static, BYTES: static, ROW: static
) -> void:
    """Split rows transposed, a block of as many rows as there are lanes at a time."""
    last = blocks - 1
    early = (n - LANES) * ROW  # of the last block, so as to be whole
    for _ in range(2):
        squares(held, ROW, to, ROW, last, LANES * ROW, down)
        squares(held + early, ROW, to + last * down, ROW, 1, 0, 0)
        held += BYTES
        to += BYTES


# --- lanes are rows -------------------------------------------------------------------------------


def rows(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    LANES: static,
    ELEMENT: static,
    ROW: static,
    REAL: static,
    GATHERED: static,
) -> void:
    """Transforms of rows, of which some may be real.

    Those that are gathered may be fewer than lanes, shorter than a vector, and along the middle
    axis of three. Sizes: where factors of real rows are, how many rows there are, the last axis,
    elements of a row read and written, and transformed, passes, whether parts are swapped, and the
    scale.
    """
    sizes = ptr[buffers, 3]
    factors = ptr[buffers, 2] + i64[sizes, 0]
    batch = i64[sizes, 1]
    ins = i64[sizes, 3]
    outs = i64[sizes, 4]
    n = i64[sizes, 5]
    count = i64[sizes, 6]
    one = stack((n + 1) * ROW)
    other = stack((n + 1) * ROW)
    for g in range(start, stop):
        first = g * LANES if GATHERED else min(g * LANES, batch - LANES)
        if GATHERED:
            gather(ptr[buffers, 0], one, ins, i64[sizes, 2], first, min(batch - first, i64(LANES)))
        else:
            read_rows(ptr[buffers, 0] + first * ins * ELEMENT, ins * ELEMENT, one, ins)
        if REAL == FROM:
            pack(one, other, n, factors)
        at = other if REAL == FROM else one
        spare = one if REAL == FROM else other
        done = spare if count & 1 else at
        invoke(
            void,
            ptr[buffers, 4],
            buffers + 40,
            sizes + 72,
            count,
            ptr[buffers, 2],
            at,
            i64(ROW),
            0,
            done,
            i64(ROW),
            0,
            spare,
            at,
            i64[sizes, 7],
            i64[sizes, 8],
            None,
            None,
        )
        if REAL == TO:
            # to the other one
            pack(done, at if count & 1 else spare, n, factors)
            done = at if count & 1 else spare
        if GATHERED:
            scatter(
                ptr[buffers, 1], done, outs, i64[sizes, 2], first, min(batch - first, i64(LANES))
            )
        else:
            write_rows(ptr[buffers, 1] + first * outs * ELEMENT, outs * ELEMENT, done, outs)


def read_rows(
    rows: ptr,
    step: i64,
    split: ptr,
    columns: i64,
    *,
    LANES: static,
    ITEM: static,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
) -> void:
    """Rows of a matrix moved into memory split by columns; as many as there are lanes.

    The last square begins early, so as to be whole."""
    count = (columns - 1) // (LANES // 2)
    last = columns - LANES // 2
    squares(rows, step, split, BYTES, count, LANES * ITEM, LANES * BYTES)
    squares(rows + last * ELEMENT, step, split + last * ROW, BYTES, 1, 0, 0)


def write_rows(
    rows: ptr,
    step: i64,
    split: ptr,
    columns: i64,
    *,
    LANES: static,
    ITEM: static,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
) -> void:
    """The opposite."""
    count = (columns - 1) // (LANES // 2)
    last = columns - LANES // 2
    squares(split, BYTES, rows, step, count, LANES * BYTES, LANES * ITEM)
    squares(split + last * ROW, BYTES, rows + last * ELEMENT, step, 1, 0, 0)


def gather(
    array: ptr,
    split: ptr,
    n: i64,
    inner: i64,
    first: i64,
    lanes: i64,
    *,
    ITEM: static,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
) -> void:
    """The same for any transforms along the middle axis of three, from the first of some lanes."""
    for lane in range(lanes):
        number = first + lane
        at = array + (number // inner * n * inner + number % inner) * ELEMENT
        to = split + lane * ITEM
        for _ in range(n):
            F[to, 0], F[to + BYTES, 0] = F[at, 0], F[at, 1]
            at += inner * ELEMENT
            to += ROW


def scatter(
    array: ptr,
    split: ptr,
    n: i64,
    inner: i64,
    first: i64,
    lanes: i64,
    *,
    ITEM: static,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
) -> void:
    """The opposite."""
    for lane in range(lanes):
        number = first + lane
        to = array + (number // inner * n * inner + number % inner) * ELEMENT
        at = split + lane * ITEM
        for _ in range(n):
            F[to, 0], F[to, 1] = F[at, 0], F[at + BYTES, 0]
            to += inner * ELEMENT
            at += ROW


def packed(a: ptr, b: ptr, w: ptr, *, REAL: static) -> values:
    """Elements k and n - k from those of the other spectrum, of which the way back is twice as
    large, and parts of its result are swapped, as an inverse transform begins with."""
    (ar, ai), (br, bi) = (V[a, 0], V[a, 1]), (V[b, 0], V[b, 1])
    wr, wi = V(F[w, 0]), V(F[w, 1])
    re, im = ar + br, ai - bi
    odd_re, odd_im = times(ar - br, ai + bi, wr, -wi if REAL == FROM else wi)
    if REAL == FROM:
        return im + odd_re, re - odd_im, -(im - odd_re), re + odd_im
    found = re + odd_im, im - odd_re, re - odd_im, -(im + odd_re)
    return [x * 0.5 for x in found]


def pack(
    source: ptr, target: ptr, n: i64, table: ptr, *, ELEMENT: static, ROW: static, REAL: static
) -> void:
    """The spectrum of 2 n real numbers from that of n pairs of them, or back, for all lanes.

    X[k] = (a + b* - i w^k (a - b*)) / 2 and X[n - k] = (a + b* + i w^k (a - b*))* / 2 where a and
    b are elements k and n - k of the spectrum of pairs. What a spectrum of real numbers cannot
    have is 0: the first and the last imaginary part.
    """
    ends = source if REAL == FROM else target
    if REAL == FROM:
        V[ends, 1] = V(0.0)
        V[ends + n * ROW, 1] = V(0.0)
    for k in range(n // 2 + 1):
        a = source + k * ROW
        b = source + ((n - k) * ROW if REAL == FROM else (n - k if k else 0) * ROW)
        re, im, other_re, other_im = packed(a, b, table + k * ELEMENT)
        V[target, 2 * (n - k)], V[target, 2 * (n - k) + 1] = other_re, other_im
        V[target, 2 * k], V[target, 2 * k + 1] = re, im
    if REAL == TO:
        V[ends, 1] = V(0.0)
        V[ends + n * ROW, 1] = V(0.0)
