"""Tridiagonal systems, a thread for each right-hand side, as stubs."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.kernel.kinds import f32, i64, ptr, stack, unrolled, void

# Names that stubs are given; here so that they can be written.
C: Any = f32
COUNT = SIZE = COLUMNS = THREADS = GROUP = 0
UNKNOWN = float("nan")


def _size(x: C) -> C:
    if x < C(0.0):
        return -x
    return x


def solve(below: ptr, middle: ptr, above: ptr, b: ptr, rows: ptr, out: ptr) -> void:
    """Elimination with swaps of neighbouring rows, as LAPACK's gtsv does it.

    Rows of the triangle that is left have three numbers, which ``rows`` holds side by side for
    all threads. A pivot of 0 makes all NaN. Rows are read ``GROUP`` at a time, before they are
    needed, as nothing else hides the time that memory takes.
    """
    number = block() * THREADS + thread()
    total = i64(COUNT) * COLUMNS
    if number < total:
        matrix = number // COLUMNS
        first = matrix * SIZE
        base = first * COLUMNS + number % COLUMNS
        lows = stack(8 * GROUP)
        middles = stack(8 * GROUP)
        aboves = stack(8 * GROUP)
        others = stack(8 * GROUP)
        pivot = C[middle, first]
        right = C[above, first]
        mine = C[b, base]
        singular = C(0.0)
        start = i64(0)
        while start < SIZE - 1:
            for k in unrolled(GROUP):
                row = min(start + k + 1, i64(SIZE - 1))
                C[lows, k] = C[below, first + row]
                C[middles, k] = C[middle, first + row]
                C[aboves, k] = C[above, first + row]
                C[others, k] = C[b, base + row * COLUMNS]
            for k in unrolled(GROUP):
                at = start + k
                if at < SIZE - 1:
                    low = C[lows, k]
                    d = C[middles, k]
                    e = C[aboves, k]
                    if at + 2 >= SIZE:
                        e = C(0.0)
                    other = C[others, k]
                    spot = at * 3 * total + number
                    if _size(pivot) >= _size(low):
                        if pivot == C(0.0):
                            singular = C(1.0)
                        factor = low / pivot
                        C[rows, spot] = pivot
                        C[rows, spot + total] = right
                        C[rows, spot + total * 2] = C(0.0)
                        C[out, base + at * COLUMNS] = mine
                        pivot = d - factor * right
                        right = e
                        mine = other - factor * mine
                    else:
                        factor = pivot / low
                        C[rows, spot] = low
                        C[rows, spot + total] = d
                        C[rows, spot + total * 2] = e
                        C[out, base + at * COLUMNS] = other
                        pivot = right - factor * d
                        right = -(factor * e)
                        mine = mine - factor * other
            start = start + GROUP
        if pivot == C(0.0):
            singular = C(1.0)
        one = mine / pivot
        two = C(0.0)
        if singular != C(0.0):
            one = C(UNKNOWN)
        C[out, base + i64(SIZE - 1) * COLUMNS] = one
        start = i64(SIZE - 2)
        while start >= 0:
            for k in unrolled(GROUP):
                at = max(start - k, i64(0))
                spot = at * 3 * total + number
                C[middles, k] = C[rows, spot]
                C[aboves, k] = C[rows, spot + total]
                C[lows, k] = C[rows, spot + total * 2]
                C[others, k] = C[out, base + at * COLUMNS]
            for k in unrolled(GROUP):
                at = start - k
                if at >= 0:
                    x = C[others, k] - C[aboves, k] * one - C[lows, k] * two
                    two = one
                    one = x / C[middles, k]
                    C[out, base + at * COLUMNS] = one
            start = start - GROUP


def solve_complex(below: ptr, middle: ptr, above: ptr, b: ptr, rows: ptr, out: ptr) -> void:
    """The same for complex numbers, whose size is the sum of those of their parts.

    Instead of a pivot its inverse is kept; s scales the pivot so that no square overflows.
    """
    number = block() * THREADS + thread()
    total = i64(COUNT) * COLUMNS
    if number < total:
        matrix = number // COLUMNS
        first = matrix * SIZE
        base = first * COLUMNS + number % COLUMNS
        p = C[middle, first * 2]
        pi = C[middle, first * 2 + 1]
        r = C[above, first * 2]
        ri = C[above, first * 2 + 1]
        m = C[b, base * 2]
        mi = C[b, base * 2 + 1]
        singular = C(0.0)
        for i in range(SIZE):
            at = i64(i)
            row = first + at + 1
            low = C(0.0)
            lowi = C(0.0)
            d = C(0.0)
            di = C(0.0)
            e = C(0.0)
            ei = C(0.0)
            o = C(0.0)
            oi = C(0.0)
            if at + 1 < SIZE:
                low = C[below, row * 2]
                lowi = C[below, row * 2 + 1]
                d = C[middle, row * 2]
                di = C[middle, row * 2 + 1]
                o = C[b, (base + (at + 1) * COLUMNS) * 2]
                oi = C[b, (base + (at + 1) * COLUMNS) * 2 + 1]
            if at + 2 < SIZE:
                e = C[above, row * 2]
                ei = C[above, row * 2 + 1]
            if _size(p) + _size(pi) < _size(low) + _size(lowi):
                # the rows change places
                t = p
                ti = pi
                p = low
                pi = lowi
                low = t
                lowi = ti
                t = r
                ti = ri
                r = d
                ri = di
                d = t
                di = ti
                t = m
                ti = mi
                m = o
                mi = oi
                o = t
                oi = ti
                f = e
                fi = ei
                e = C(0.0)
                ei = C(0.0)
            else:
                f = C(0.0)
                fi = C(0.0)
            s = _size(p) + _size(pi)
            if s == C(0.0):
                singular = C(1.0)
            v = p / s
            vi = pi / s
            t = (v * v + vi * vi) * s
            v = v / t
            vi = -(vi / t)
            spot = (at * 3 * total + number) * 2
            C[rows, spot] = v
            C[rows, spot + 1] = vi
            C[rows, spot + total * 2] = r
            C[rows, spot + total * 2 + 1] = ri
            C[rows, spot + total * 4] = f
            C[rows, spot + total * 4 + 1] = fi
            C[out, (base + at * COLUMNS) * 2] = m
            C[out, (base + at * COLUMNS) * 2 + 1] = mi
            g = low * v - lowi * vi
            gi = low * vi + lowi * v
            p = d - (g * r - gi * ri)
            pi = di - (g * ri + gi * r)
            r = e - (g * f - gi * fi)
            ri = ei - (g * fi + gi * f)
            t = o - (g * m - gi * mi)
            mi = oi - (g * mi + gi * m)
            m = t
        x = C(0.0)
        xi = C(0.0)
        y = C(0.0)
        yi = C(0.0)
        for i in range(SIZE):
            at = i64(SIZE - 1) - i64(i)
            spot = (at * 3 * total + number) * 2
            r = C[rows, spot + total * 2]
            ri = C[rows, spot + total * 2 + 1]
            f = C[rows, spot + total * 4]
            fi = C[rows, spot + total * 4 + 1]
            t = C[out, (base + at * COLUMNS) * 2] - (r * x - ri * xi) - (f * y - fi * yi)
            ti = C[out, (base + at * COLUMNS) * 2 + 1] - (r * xi + ri * x) - (f * yi + fi * y)
            y = x
            yi = xi
            v = C[rows, spot]
            vi = C[rows, spot + 1]
            x = t * v - ti * vi
            xi = t * vi + ti * v
            if singular != C(0.0):
                x = C(UNKNOWN)
                xi = C(UNKNOWN)
            C[out, (base + at * COLUMNS) * 2] = x
            C[out, (base + at * COLUMNS) * 2 + 1] = xi
