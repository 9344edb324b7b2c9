"""Kernels that go over data once, around transforms: half spectra, chirps, transposed copies.

They have no lengths in their texts: a table of numbers is their last buffer. Complex elements of
all lanes are a vector of real parts and one of imaginary parts.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.fourier.pass_stubs import times
from weft.kernel.kinds import (
    OPAQUE,
    f32,
    f64,
    i64,
    invoke,
    memcpy,
    memset,
    ptr,
    shuffle,
    static,
    unrolled,
    values,
    void,
)

# Rows of a matrix that are transposed together.
STRIP = 8
# Transforms to and from real numbers; steps of one by a chirp.
TO, FROM = 1, 2
BEGIN, MULTIPLY, END = range(3)

# Kinds and static parameters of the stubs: a number, a vector and a pair of
# numbers, lanes of a vector, bytes of a number, a vector, and an element of one lane and of all.
F: Any = f32
V: Any = f32
PAIR: Any = f32
# REAL, KIND: what is done. APART, TOGETHER: orders of lanes that take pairs apart into their two
# parts, and that put them together; with _BACK, the same for elements in reversed order.


def take_pairs(at: ptr, *, APART: static) -> values:
    """Pairs as an element of all lanes."""
    return [shuffle(V[at, 0], V[at, 1], order) for order in APART]


def take_back(at: ptr, *, APART_BACK: static) -> values:
    """The same of pairs in reversed order."""
    return [shuffle(V[at, 0], V[at, 1], order) for order in APART_BACK]


def put_pairs(re: V, im: V, to: ptr, *, TOGETHER: static) -> values:
    """An element of all lanes as pairs."""
    for part, order in enumerate(TOGETHER):
        V[to, part] = shuffle(re, im, order)


def put_back(re: V, im: V, to: ptr, *, TOGETHER_BACK: static) -> values:
    """The same in reversed order."""
    for part, order in enumerate(TOGETHER_BACK):
        V[to, part] = shuffle(re, im, order)


# --- tables ---------------------------------------------------------------------------------------


def root(tables: ptr, sizes: ptr, t: i64) -> values:
    """exp(-2 pi i t / n) in double precision, by two short tables: how many bits of t are for the
    first, and where the second begins."""
    shift = i64[sizes, 0]
    above = t >> shift
    high = tables + i64[sizes, 1] + above * 16
    low = tables + (t - (above << shift)) * 16
    re, im, x, y = f64[high, 0], f64[high, 1], f64[low, 0], f64[low, 1]
    return re * x - im * y, re * y + im * x


def make_factors(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    LANES: static,
    ITEM: static,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
) -> void:
    """Factors between halves: w ** (lane k1), split by rows, for a range of lanes, and then w **
    (first j2 of a group, k1). Sizes: n1, n2, and what roots need."""
    tables = ptr[buffers, 2]
    sizes = ptr[buffers, 3]
    n1 = i64[sizes, 0]
    for i in range(start, stop):
        lane = i < LANES
        column = i if lane else min((i - LANES) * LANES, i64[sizes, 1] - LANES)
        at = ptr[buffers, 0] + i * ITEM if lane else ptr[buffers, 1] + (i - LANES) * n1 * ELEMENT
        ahead = i64(ROW) if lane else i64(ELEMENT)
        apart_ = i64(BYTES) if lane else i64(ITEM)
        t = i64(0)
        for _ in range(n1):
            re, im = root(tables, sizes + 16, t)
            F[at, 0] = F(re)
            F[at + apart_, 0] = F(im)
            at = at + ahead
            t = invoke(i64, OPAQUE, t + column)


def twist(buffers: ptr, start: i64, stop: i64, *, ELEMENT: static) -> void:
    """Element (k1, j2) of n1 by n2 matrices times w ** (j2 k1), or its conjugate, in place.

    Sizes: n1, n2, what roots need, and the sign."""
    sizes = ptr[buffers, 2]
    n2 = i64[sizes, 1]
    tables = ptr[buffers, 1]
    sign = f64[sizes, 4]
    for row in range(start, stop):
        at = ptr[buffers, 0] + row * n2 * ELEMENT
        k = row % i64[sizes, 0]
        for j in range(n2):
            cos, sin = root(tables, sizes + 16, j * k)
            wr, wi = F(cos), F(sin * sign)
            re = F[at, 0]
            im = F[at, 1]
            F[at, 0] = re * wr - im * wi
            F[at, 1] = re * wi + im * wr
            at = at + ELEMENT


# --- real data ------------------------------------------------------------------------------------


def mirrored(ar: V, ai: V, br: V, bi: V, wr: V, wi: V, *, REAL: static) -> values:
    """Elements k and n - k from those of the other spectrum; the way back, twice as large.

    X[k] = (a + b* - i w^k (a - b*)) / 2 and X[n - k] = (a + b* + i w^k (a - b*))* / 2 where a and
    b are elements k and n - k of the spectrum of pairs.
    """
    re, im = ar + br, ai - bi
    x, y = times(ar - br, ai + bi, wr, -wi if REAL == FROM else wi)
    if REAL == FROM:
        return re - y, im + x, re + y, -(im - x)
    return (re + y) * 0.5, (im - x) * 0.5, (re - y) * 0.5, -(im + x) * 0.5


def mirror(
    buffers: ptr, start: i64, stop: i64, *, LANES: static, ELEMENT: static, REAL: static
) -> void:
    """The spectra of rows of 2 n real numbers from those of n pairs; the way back, twice as large.

    A loop over blocks of k from 1 to n / 2 of every row, with the blocks of n - k. Sizes: n,
    blocks, what roots need, and where powers for lanes are.
    """
    sizes = ptr[buffers, 3]
    n = i64[sizes, 0]
    blocks = i64[sizes, 1]
    tables = ptr[buffers, 2]
    lanes = tables + i64[sizes, 4]
    for g in range(start, stop):
        row = g // blocks
        at = ptr[buffers, 0] + row * (n + 1 if REAL == FROM else n) * ELEMENT
        to = ptr[buffers, 1] + row * (n if REAL == FROM else n + 1) * ELEMENT
        first = g % blocks * LANES + 1
        # What is left at the end of a row is a block that overlaps the last: its factors are
        # rounded in another way, so that it is always done after that.
        stop_ = n // 2 + 1 if g % blocks == blocks - 1 else first + 1
        for begin in range(first, stop_, LANES):
            k = min(begin, n // 2 - (LANES - 1))
            cos, sin = root(tables, sizes + 16, k)
            wr, wi = times(V[lanes, 0], V[lanes, 1], V(F(cos)), V(F(sin)))
            behind = (n - (LANES - 1) - k) * ELEMENT
            ar, ai = take_pairs(at + k * ELEMENT)
            br, bi = take_back(at + behind)
            ar, ai, br, bi = mirrored(ar, ai, br, bi, wr, wi)
            put_pairs(ar, ai, to + k * ELEMENT)
            put_back(br, bi, to + behind)
            if k == 1:
                re = F[at, 0]
                im = F[at, 2 * n] if REAL == FROM else F[at, 1]
                F[to, 0] = re + im
                if REAL == FROM:
                    F[to, 1] = re - im
                else:
                    F[to, 1] = 0.0
                    F[to, 2 * n] = re - im
                    F[to, 2 * n + 1] = 0.0


def widen(buffers: ptr, start: i64, stop: i64, *, REAL: static) -> void:
    """Real numbers as complex ones, or the real parts of these."""
    source = ptr[buffers, 0]
    target = ptr[buffers, 1]
    for i in range(start, stop):
        if REAL == FROM:
            F[target, i] = F[source, 2 * i]
        else:
            F[target, 2 * i] = F[source, i]
            F[target, 2 * i + 1] = 0.0


def halve(buffers: ptr, start: i64, stop: i64, *, ELEMENT: static, REAL: static) -> void:
    """Rows of half spectra from those of whole ones, or back, of odd lengths; sizes are those of
    both."""
    n = i64[ptr[buffers, 2], 0]
    half = i64[ptr[buffers, 2], 1]
    for row in range(start, stop):
        at = ptr[buffers, 0] + row * (half if REAL == FROM else n) * ELEMENT
        to = ptr[buffers, 1] + row * (n if REAL == FROM else half) * ELEMENT
        memcpy(to, at, half * ELEMENT)
        if REAL == FROM:
            for k in range(1, n - half + 1):
                F[to, 2 * (n - k)] = F[at, 2 * k]
                F[to, 2 * (n - k) + 1] = -F[at, 2 * k + 1]
            F[to, 1] = 0.0  # element 0 is its own opposite


# --- lengths with large prime factors -------------------------------------------------------------


def chirp_step(
    buffers: ptr, start: i64, stop: i64, *, LANES: static, ELEMENT: static, KIND: static
) -> void:
    """A step of a transform by a convolution with a chirp, on vectors of rows.

    At the beginning rows times the chirp, padded with zeros. Then rows times a spectrum, parts
    swapped. At the end the first of a row, parts swapped, times the chirp. Sizes: numbers of a row
    that are done, blocks of them, what rows read and written are apart, and what pairs are
    multiplied by when read and written.
    """
    sizes = ptr[buffers, 3]
    n = i64[sizes, 0]
    blocks = i64[sizes, 1]
    for g in range(start, stop):
        row = g // blocks
        k = min(g % blocks * LANES, n - LANES)
        at = ptr[buffers, 0] + (row * i64[sizes, 2] + k) * ELEMENT
        to = ptr[buffers, 1] + row * i64[sizes, 3] * ELEMENT
        wr, wi = take_pairs(ptr[buffers, 2] + k * ELEMENT)
        re, im = take_pairs(at)
        if KIND == BEGIN:
            im *= V(F(f64[sizes, 4]))
        if KIND == END:
            re, im = im, re
        re, im = times(re, im, wr, wi)
        if KIND == MULTIPLY:
            re, im = im, re
        if KIND == END:
            re, im = re * V(F(f64[sizes, 5])), im * V(F(f64[sizes, 6]))
        put_pairs(re, im, to + k * ELEMENT)
        if KIND == BEGIN:
            if k == 0:
                memset(to + n * ELEMENT, 0, (i64[sizes, 3] - n) * ELEMENT)


def make_chirp(buffers: ptr, start: i64, stop: i64, *, ELEMENT: static) -> void:
    """c[j] = exp(-pi i j j / n) to buffer 0; its conjugate, around 0 and scaled, to buffer 1.

    Sizes: n, those of buffer 1, what roots need, and a scale.
    """
    sizes = ptr[buffers, 3]
    n = i64[sizes, 0]
    size = i64[sizes, 1]
    padded = ptr[buffers, 1]
    tables = ptr[buffers, 2]
    scale = f64[sizes, 4]
    square_ = start * start % (2 * n)
    for j in range(start, stop):
        re, im = root(tables, sizes + 16, square_)
        F[ptr[buffers, 0], 2 * j] = F(re)
        F[ptr[buffers, 0], 2 * j + 1] = F(im)
        wr = F(re * scale)
        wi = -F(im * scale)
        for back in unrolled(2):
            at = 0 if j == 0 else (size - j if back else j)
            F[padded, 2 * at] = wr
            F[padded, 2 * at + 1] = wi
        if j == 0:
            memset(padded + n * ELEMENT, 0, (size + 1 - 2 * n) * ELEMENT)
        # the next square, still below 2 n
        square_ = square_ + 2 * j + 1
        square_ = square_ if square_ < 2 * n else square_ - 2 * n


# --- moves ----------------------------------------------------------------------------------------


def transpose(buffers: ptr, start: i64, stop: i64) -> void:
    """Matrices transposed, a strip of rows at a time. Sizes: rows, columns, strips."""
    height = i64[ptr[buffers, 2], 0]
    width = i64[ptr[buffers, 2], 1]
    strips = i64[ptr[buffers, 2], 2]
    for g in range(start, stop):
        offset = g // strips * height * width
        first = g % strips * STRIP
        stop_ = min(first + STRIP, height)
        for column in range(width):
            for row in range(first, stop_):
                PAIR[ptr[buffers, 1], offset + column * height + row] = PAIR[
                    ptr[buffers, 0], offset + row * width + column
                ]
