"""Passes of Fourier transforms: short transforms in registers, and what goes on around them.

A vector holds one element of as many transforms as it has lanes. Complex values are two vectors;
in memory they lie as a vector of real parts and one of imaginary parts ("split"), or as NumPy has
them, real and imaginary parts in turn ("pairs"). In registers they are the same places of two
lists, and results are left where what they were made of was: ``ORDER`` says where each is.
"""

from __future__ import annotations

from typing import Any

from weft.kernel.kinds import (
    OPAQUE,
    bits,
    f32,
    f64,
    fma,
    i64,
    invoke,
    ptr,
    shuffle,
    stack,
    static,
    values,
    void,
)

# Kinds and static parameters of the stubs: a number and a vector, bytes of a
# vector, and of an element of one lane and of all.
F: Any = f32
V: Any = f32
# RADIX, ORDER: the radix, and where results are. TURNS: for each result of an odd length, the
# cosines and sines that pairs of opposite elements are multiplied by. COLUMNS, ROWS, ROTATIONS: for
# lengths that are products, places of columns and of rows, which elements are multiplied by what
# between both, and then by -i or not. EIGHTH: sqrt(1 / 2). EVEN, ODD, LOW, HIGH: lanes of two
# vectors of pairs that are real and imaginary parts, and the way back. MAY_BE_LAST, PAIRED: whether
# a pass may be the last one, and whether elements may lie as pairs outside of passes. LONGEST: the
# longest radix without straight code.
# Nothing, of which LLVM does not know that it may be done where it is not asked for.
NOTHING = 'asm sideeffect "", ""'


# --- transforms of few elements -------------------------------------------------------------------


def two(re: values, im: values, a: int, b: int) -> values:
    """A sum and a difference."""
    re[a], re[b] = re[a] + re[b], re[a] - re[b]
    im[a], im[b] = im[a] + im[b], im[a] - im[b]


def crossed(re: values, im: values, a: int, b: int) -> values:
    """The same where the second is to be multiplied by -i."""
    re[a], re[b], im[a], im[b] = re[a] + im[b], re[a] - im[b], im[a] - re[b], im[a] + re[b]


def four(re: values, im: values, a: int, b: int, c: int, d: int) -> values:
    """Results 0, 2, 1 and 3."""
    two(re, im, a, c)
    two(re, im, b, d)
    two(re, im, a, b)
    crossed(re, im, c, d)


def eighth(re: values, im: values, a: int, *, EIGHTH: static) -> values:
    """An element times exp(-pi i / 4)."""
    re[a], im[a] = (re[a] + im[a]) * EIGHTH, (im[a] - re[a]) * EIGHTH


def eight(re: values, im: values) -> values:
    """Two transforms of four, factors, and four of two."""
    four(re, im, 0, 2, 4, 6)
    four(re, im, 1, 3, 5, 7)
    eighth(re, im, 5)
    eighth(re, im, 7)
    two(re, im, 0, 1)
    two(re, im, 4, 5)
    crossed(re, im, 2, 3)
    crossed(re, im, 6, 7)


def odd(re: values, im: values, places: values, *, TURNS: static) -> values:
    """Sums and differences of opposite elements halve the work of an odd length."""
    zero, n = places[0], len(places)
    first = re[zero], im[zero]
    half = [(places[k], places[n - k]) for k in range(1, (n + 1) // 2)]
    for a, b in half:
        two(re, im, a, b)
        re[zero], im[zero] = re[zero] + re[a], im[zero] + im[a]
    results = []
    for turns in TURNS:
        even_re, even_im = first
        odd_re = odd_im = None
        for (a, b), (cos, sin) in zip(half, turns, strict=True):
            even_re, even_im = fma(re[a], cos, even_re), fma(im[a], cos, even_im)
            odd_re = re[b] * sin if odd_re is None else fma(re[b], sin, odd_re)
            odd_im = im[b] * sin if odd_im is None else fma(im[b], sin, odd_im)
        results.append((even_re, even_im, odd_re, odd_im))
    for (a, b), (even_re, even_im, odd_re, odd_im) in zip(half, results, strict=True):
        re[a], im[a] = even_re + odd_im, even_im - odd_re
        re[b], im[b] = even_re - odd_im, even_im + odd_re


def times(re: V, im: V, wr: V, wi: V) -> values:
    """A product of complex numbers."""
    return fma(re, wr, -(im * wi)), fma(re, wi, im * wr)


def product(re: values, im: values, *, COLUMNS: static, ROWS: static, ROTATIONS: static) -> values:
    """Transforms of columns, factors, and transforms of rows (Cooley and Tukey 1965)."""
    for places in COLUMNS:
        if len(places) == 2:
            two(re, im, *places)
        else:
            odd(re, im, places)
    for a, wr, wi, turned in ROTATIONS:
        re[a], im[a] = times(re[a], im[a], wr, wi)
        if turned:
            re[a], im[a] = im[a], -re[a]
    for places in ROWS:
        odd(re, im, places)


def transform(re: values, im: values, *, RADIX: static, ORDER: static) -> values:
    """The discrete Fourier transform of a few values, in order."""
    if RADIX == 2:
        two(re, im, 0, 1)
    elif RADIX == 4:
        four(re, im, 0, 1, 2, 3)
    elif RADIX == 8:
        eight(re, im)
    else:
        product(re, im)
    return [re[k] for k in ORDER], [im[k] for k in ORDER]


# --- elements -------------------------------------------------------------------------------------


def places(first: ptr, step: i64, *, RADIX: static) -> values:
    """Places in memory so far apart."""
    found = [first]
    while len(found) < RADIX:
        found.append(found[-1] + step)
    return found


def load(at: values, first: i64, second: i64) -> values:
    """Vectors at so many bytes from some places: real and imaginary parts, or pairs."""
    return [V[p + first, 0] for p in at], [V[p + second, 0] for p in at]


def apart(low: values, high: values, *, EVEN: static, ODD: static) -> values:
    """Real and imaginary parts of pairs."""
    both = [*zip(low, high, strict=True)]
    return [shuffle(a, b, EVEN) for a, b in both], [shuffle(a, b, ODD) for a, b in both]


def scaled(re: values, im: values, factor: V) -> values:
    """Elements times a number, parts swapped."""
    return [x * factor for x in im], [x * factor for x in re]


def store(re: values, im: values, to: values) -> values:
    """Elements, split."""
    for x, y, at in zip(re, im, to, strict=True):
        V[at, 0], V[at, 1] = x, y


def store_pairs(re: values, im: values, to: values, *, LOW: static, HIGH: static) -> values:
    """Elements as pairs."""
    for x, y, at in zip(re, im, to, strict=True):
        V[at, 0], V[at, 1] = shuffle(x, y, LOW), shuffle(x, y, HIGH)


def multiplied(re: V, im: V, w: ptr) -> values:
    """An element times a factor of all lanes."""
    return times(re, im, V(F[w, 0]), V(F[w, 1]))


def store_multiplied(
    re: values, im: values, to: values, w: ptr, *, ELEMENT: static, RADIX: static
) -> values:
    """Elements times their factors, of which the first is 1, split."""
    V[to[0], 0], V[to[0], 1] = re[0], im[0]
    for j in range(1, RADIX):
        V[to[j], 0], V[to[j], 1] = multiplied(re[j], im[j], w + (j - 1) * ELEMENT)


def twiddle(
    at: ptr, to: ptr, lane: ptr, group: ptr, s: i64, away: i64, *, ELEMENT: static, ROW: static
) -> values:
    """A result of a first half from memory: where the one after it goes, and its factors."""
    V[to, 0], V[to, 1] = twiddled(V[at, 0], V[at, 1], lane, group)
    return to + away, lane + s * ROW, group + s * ELEMENT


def twiddled(re: V, im: V, lane: ptr, group: ptr) -> values:
    """An element of a first half times what is between the halves."""
    return times(re, im, *multiplied(V[lane, 0], V[lane, 1], group))


def all_twiddled(re: values, im: values, lane: values, group: values) -> values:
    both = [twiddled(*z) for z in zip(re, im, lane, group, strict=True)]
    return [x for x, _ in both], [y for _, y in both]


# --- of long prime lengths ------------------------------------------------------------------------


def keep_sums(re: values, im: values, to: ptr, *, ROW: static) -> values:
    """The sum of two opposite elements, which is kept beside their difference."""
    two(re, im, 0, 1)
    store(re, im, [to, to + ROW])
    return re[0], im[0]


def load_two(at: ptr, low: i64, high: i64, first: i64, second: i64) -> values:
    return load([at + low, at + high], first, second)


def no_terms(x: V, y: V) -> values:
    """What sums for two results begin with."""
    return [x, y, x, y], [V(0.0) for _ in range(4)]


def two_terms(even: values, turned: values, at: ptr, w: ptr, next_w: ptr) -> values:
    """Sums for two results with one more sum of opposite elements, and one more difference."""
    x, y, a, b = [V[at, k] for k in range(4)]
    for k, table in ((0, w), (2, next_w)):
        cos, sin = V(F[table, 1]), V(F[table, 2])
        even[k], even[k + 1] = fma(x, cos, even[k]), fma(y, cos, even[k + 1])
        turned[k], turned[k + 1] = fma(a, sin, turned[k]), fma(b, sin, turned[k + 1])
    return even, turned


def opposite(even: values, turned: values) -> values:
    """Two results and their opposites."""
    (x, y, a, b), (z, t, c, d) = (*even[:2], *turned[:2]), (*even[2:], *turned[2:])
    return [x + b, z + d, x - b, z - d], [y - a, t - c, y + a, t + c]


def numbers(j: i64, radix: i64) -> values:
    """The numbers of these."""
    return [j, j + 1, radix - j, radix - j - 1]


def along(first: ptr, numbers: values, step: i64) -> values:
    return [first + k * step for k in numbers]


def all_multiplied(re: values, im: values, w: values) -> values:
    both = [multiplied(x, y, p) for x, y, p in zip(re, im, w, strict=True)]
    return [x for x, _ in both], [y for _, y in both]


# --- passes ---------------------------------------------------------------------------------------

# A pass of Stockham's transform: element q + s (p + m k) of the source, for k below the radix,
# becomes after a transform over k and a product with w ** (p j) element q + s (radix p + j) of the
# target; s is the product of the radices before, m of those to come. Nothing is left in another
# order at the end.
#
# ``step`` has words of a table: the number of the pass's function, its radix, m, s, and where its
# factors and its table of cosines are. Without ``factors`` a pass is the last. ``lane`` and
# ``group`` are more factors for what that writes, if any. ``ss`` and ``ts`` are the bytes from an
# element to the next; the others are not 0 where elements lie as pairs, and where parts are to be
# swapped when read. A ``scale`` that is not 0 is that of an inverse transform, which also swaps
# what it writes.


def straight_pass(
    step: ptr,
    source: ptr,
    target: ptr,
    factors: ptr,
    table: ptr,
    lane: ptr,
    group: ptr,
    ss: i64,
    ts: i64,
    pairs_in: i64,
    pairs_out: i64,
    swap: i64,
    scale: i64,
    *,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
    RADIX: static,
    MAY_BE_LAST: static,
    PAIRED: static,
) -> void:
    """A pass of a radix that has straight code."""
    s = i64[step, 3]
    rows = i64[step, 2] * s
    near = rows * ss
    away = s * ts
    first = i64(BYTES) if swap > pairs_in else 0
    factor = V(F(bits(f64, scale)))
    last = factors is None
    held = stack(RADIX * ROW)
    q = 0
    for row in range(rows):
        at = places(invoke(ptr, OPAQUE, source), near)
        to = places(invoke(ptr, OPAQUE, target), away)
        re, im = load(at, first, BYTES - first)
        if PAIRED:
            if pairs_in:
                invoke(void, NOTHING)
                re, im = apart(re, im)
                if swap:
                    invoke(void, NOTHING)
                    re, im = im, re
        re, im = transform(re, im)
        if not MAY_BE_LAST:
            store_multiplied(re, im, to, invoke(ptr, OPAQUE, factors))
        elif not last:
            store_multiplied(re, im, to, invoke(ptr, OPAQUE, factors))
        else:
            zr, zi = re, im
            if scale:
                invoke(void, NOTHING)
                zr, zi = scaled(re, im, factor)
            if not PAIRED:
                store(zr, zi, to)
            elif pairs_out:
                store_pairs(zr, zi, to)
            else:
                store(zr, zi, places(held if lane else to[0], i64(ROW) if lane else away))
                if lane:
                    # one after the other, which is less text
                    spot = to[0]
                    lanes = lane + row * ROW
                    groups = group + row * ELEMENT
                    for j in range(RADIX):
                        at_ = held + j * ROW
                        spot, lanes, groups = twiddle(at_, spot, lanes, groups, s, away)
        # s transforms have the same factors
        q += 1
        source += ss
        target += ts
        if q == s:
            q = 0
            target += (RADIX - 1) * away
            factors += (RADIX - 1) * ELEMENT


def any_pass(
    step: ptr,
    source: ptr,
    target: ptr,
    factors: ptr,
    table: ptr,
    lane: ptr,
    group: ptr,
    ss: i64,
    ts: i64,
    pairs_in: i64,
    pairs_out: i64,
    swap: i64,
    scale: i64,
    *,
    BYTES: static,
    ELEMENT: static,
    ROW: static,
    EVEN: static,
    ODD: static,
    LOW: static,
    HIGH: static,
    PAIRED: static,
    LONGEST: static,
) -> void:
    """A pass of an odd prime radix, by products with a table of cosines and sines."""
    radix = i64[step, 1]
    s = i64[step, 3]
    rows = i64[step, 2] * s
    near = rows * ss
    away = s * ts
    first = i64(BYTES) if swap > pairs_in else 0
    factor = V(F(bits(f64, scale)))
    last = factors is None
    half = radix >> 1
    second = BYTES - first
    held = stack(LONGEST * ROW)  # sums and differences of opposite elements
    q = 0
    for row in range(rows):
        here = invoke(ptr, OPAQUE, source)
        there = invoke(ptr, OPAQUE, target)
        x, y = V[here + first, 0], V[here + second, 0]
        if PAIRED:
            if pairs_in:
                invoke(void, NOTHING)
                x, y = shuffle(x, y, EVEN), shuffle(x, y, ODD)
                if swap:
                    invoke(void, NOTHING)
                    x, y = y, x
        total_x, total_y = x, y
        for k in range(1, half + 1):
            re, im = load_two(here, k * near, (radix - k) * near, first, second)
            if PAIRED:
                if pairs_in:
                    invoke(void, NOTHING)
                    re, im = apart(re, im)
                    if swap:
                        invoke(void, NOTHING)
                        re, im = im, re
            a, b = keep_sums(re, im, held + (2 * k - 2) * ROW)
            total_x, total_y = total_x + a, total_y + b
        lanes = lane + row * ROW
        groups = group + row * ELEMENT
        if last:
            if scale:
                total_x, total_y = total_y * factor, total_x * factor
            elif lane:
                total_x, total_y = twiddled(total_x, total_y, lanes, groups)
            if pairs_out:
                invoke(void, NOTHING)
                low, high = shuffle(total_x, total_y, LOW), shuffle(total_x, total_y, HIGH)
                total_x, total_y = low, high
        V[there, 0], V[there, 1] = total_x, total_y
        for i in range(1, half + 1, 2):
            j = min(i, half - 1)  # the last two may overlap those before
            even, turned = no_terms(x, y)
            # from half an element before, where Arm has no loads that also fill vectors, which take
            # a turn of arithmetic
            w = table + ((j - 1) * half * ELEMENT - ELEMENT // 2)
            next_w = w + half * ELEMENT
            at = held
            for _ in range(half):
                even, turned = two_terms(even, turned, at, w, next_w)
                at += 2 * ROW
                w += ELEMENT
                next_w += ELEMENT
            zr, zi = opposite(even, turned)
            ks = numbers(j, radix)
            if not last:
                w = invoke(ptr, OPAQUE, factors)
                zr, zi = all_multiplied(zr, zi, along(w + (-ELEMENT), ks, ELEMENT))
            elif scale:
                invoke(void, NOTHING)
                zr, zi = scaled(zr, zi, factor)
            elif lane:
                w1 = along(lanes, ks, s * ROW)
                zr, zi = all_twiddled(zr, zi, w1, along(groups, ks, s * ELEMENT))
            if last and pairs_out:
                store_pairs(zr, zi, along(there, ks, away))
            else:
                store(zr, zi, along(there, ks, away))
        # s transforms have the same factors
        q += 1
        source += ss
        target += ts
        if q == s:
            q = 0
            target += (radix - 1) * away
            factors += (radix - 1) * ELEMENT
