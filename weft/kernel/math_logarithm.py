"""Logarithms: log, log2, log1p and the inverse hyperbolic functions, for float32 and float64.

x = 2**e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), taken apart by bits; log(1 + f) by a
polynomial. Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

import math

from weft.kernel.build import Builder
from weft.kernel.math_parts import (
    Pair,
    exponent_value,
    keep_tiny,
    log_edges,
    quick_sum,
    split,
    split_bits,
    where,
    width,
)
from weft.kernel.nodes import F32, Value

# (log(1 + f) - f + f**2 / 2) / f**3
LOG = (
    -0.07870279997587204,
    0.1287836879491806,
    -0.13122428953647614,
    0.14181235432624817,
    -0.16625292599201202,
    0.20002306997776031,
    -0.25000786781311035,
    0.33333316445350647,
)
# (log2(1 + f) - f log2(e)) / f**2
LOG2 = (
    -0.1113232895731926,
    0.18588414788246155,
    -0.19041040539741516,
    0.20462921261787415,
    -0.23969747126102448,
    0.2885674834251404,
    -0.3606933355331421,
    0.4808981716632843,
    -0.7213473916053772,
)
# (2 atanh(s) - 2 s) / s**3 in s**2: log(1 + f) = 2 atanh(f / (2 + f)), for float64
ATANH = (
    0.13409884593655058,
    0.13233304513407512,
    0.1538779232901835,
    0.18181761176633712,
    0.22222222798112456,
    0.2857142856838671,
    0.4000000000000691,
    0.6666666666666666,
)
# log(2): so few bits that a multiple by any exponent is exact, and the rest
LN2_SINGLE = (0.693359375, -2.12194440054690583e-4)
LN2_DOUBLE = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
# log2(e): the nearest number, and the rest
LOG2_E_SINGLE = (1.44269502162933349609375, 1.925963033500011e-08)
LOG2_E_DOUBLE = (1.4426950408889634, 2.0355273740931033e-17)


def _tail(k: Builder, f: Value) -> Pair:
    """log(1 + f) - f as the two terms -f**2 / 2 and all others."""
    z = k.mul(f, f)
    if f.dtype == F32:
        return Pair(k.mul(z, k.like(f, -0.5)), k.mul(k.mul(z, f), k.horner(f, LOG)))
    half = k.mul(z, k.like(f, 0.5))
    s = k.div(f, k.add(f, k.like(f, 2.0)))
    z = k.mul(s, s)
    return Pair(k.neg(half), k.mul(s, k.fma(z, k.horner(z, ATANH), half)))


def _sum(k: Builder, e: Value, f: Value, more: Value | None = None) -> Value:
    """e log(2) + log(1 + f), and a small number more."""
    high, low = LN2_SINGLE if f.dtype == F32 else LN2_DOUBLE
    square, others = _tail(k, f)
    y = k.fma(e, k.like(f, low), others)
    y = y if more is None else k.add(y, more)
    total, lost = quick_sum(k, k.mul(e, k.like(f, high)), f)
    return k.add(total, k.add(k.add(y, square), lost))


def log(k: Builder, x: Value) -> Value:
    """The natural logarithm."""
    e, m = split(k, x)
    return log_edges(k, x, _sum(k, e, k.sub(m, k.like(x, 1.0))))


def log2(k: Builder, x: Value) -> Value:
    """The logarithm to base 2."""
    e, m = split(k, x)
    f = k.sub(m, k.like(x, 1.0))
    if x.dtype == F32:
        first, rest = (k.like(x, c) for c in LOG2_E_SINGLE)
        low = k.mul(f, k.fma(f, k.horner(f, LOG2), rest))
        return log_edges(k, x, k.add(e, k.fma(f, first, low)))
    first, rest = (k.like(x, c) for c in LOG2_E_DOUBLE)
    square, others = _tail(k, f)
    high, lost = quick_sum(k, f, square)
    low = k.add(lost, others)
    product = k.mul(high, first)
    tail = k.fma(high, rest, k.mul(low, first))
    tail = k.add(tail, k.fma(high, first, k.neg(product)))
    total, lost = quick_sum(k, e, product)
    return log_edges(k, x, k.add(total, k.add(lost, tail)))


def _log1p(k: Builder, x: Value, doubled: Value | None = None) -> Value:
    """log(1 + x), or log(2 (1 + x)) where ``doubled`` holds; no edges."""
    facts = width(x)
    one = k.like(x, 1.0)
    bits, _ = split_bits(k, k.add(x, one))
    e = exponent_value(k, bits, x)
    # 4 * 2**-e from the same bits (2**-e may be denormal): f = (1 + x) 2**-e - 1, rounded once
    raised = k.and_(bits, k.const(-(1 << facts.mantissa), facts.integer))
    four = k.const(facts.one + (2 << facts.mantissa), facts.integer)
    shrink = k.bitcast(k.sub(four, raised), x.dtype)
    quarter = k.like(x, 0.25)
    less, rest = k.mul(x, quarter), k.fma(shrink, quarter, k.like(x, -1.0))
    f = k.fma(less, shrink, rest)
    lost = k.fma(less, shrink, k.sub(rest, f))
    if doubled is not None:
        e = k.select(doubled, k.add(e, one), e)
    return _sum(k, e, f, k.fma(k.neg(f), lost, lost))


def log1p(k: Builder, x: Value) -> Value:
    """log(1 + x)."""
    return keep_tiny(k, x, log_edges(k, x, _log1p(k, x), -1.0), _tiny(x, 1))


def _tiny(x: Value, order: int) -> float:
    """Below this f(x) = x where the next term of its series has ``order`` powers more."""
    return 2.0 ** -((width(x).mantissa + 3) // order)


def asinh(k: Builder, x: Value) -> Value:
    """sign(x) log1p(a + a**2 / (1 + sqrt(a**2 + 1))), a = abs(x); log(2 a) for a large one."""
    one, a = k.like(x, 1.0), k.abs(x)
    square = k.mul(a, a)
    large = k.gt(a, k.like(x, 2.0 ** (width(x).mantissa + 7)))
    inner = k.div(square, k.add(one, k.sqrt(k.add(square, one))))
    y = _log1p(k, k.select(large, a, k.add(a, inner)), large)
    y = k.select(k.lt(a, k.like(x, math.inf)), y, a)
    return keep_tiny(k, x, k.copysign(y, x), _tiny(x, 2))


def acosh(k: Builder, x: Value) -> Value:
    """log1p(t + sqrt(t (t + 2))), t = x - 1; log(2 x) for a large one."""
    t = k.sub(x, k.like(x, 1.0))
    large = k.gt(x, k.like(x, 2.0 ** (width(x).mantissa + 7)))
    root = k.sqrt(k.mul(t, k.add(t, k.like(x, 2.0))))
    y = _log1p(k, k.select(large, t, k.add(t, root)), large)
    y = k.select(k.lt(x, k.like(x, math.inf)), y, x)
    return where(k, k.lt(x, k.like(x, 1.0)), math.nan, y)


def atanh(k: Builder, x: Value) -> Value:
    """sign(x) log1p(2 a / (1 - a)) / 2, a = abs(x)."""
    a = k.abs(x)
    inner = k.div(k.add(a, a), k.sub(k.like(x, 1.0), a))
    y = log_edges(k, inner, _log1p(k, inner), -1.0)
    y = k.copysign(k.mul(y, k.like(x, 0.5)), x)
    return keep_tiny(k, x, y, _tiny(x, 2))
