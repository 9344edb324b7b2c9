"""Exact functions of floats: remainder, rounding, sign, the next number."""

from __future__ import annotations

import math

from weft.kernel.build import Builder
from weft.kernel.math_parts import where, width
from weft.kernel.nodes import F32, F64, NARROW, Value


def rem(k: Builder, x: Value, y: Value) -> Value:
    """x - n y, exact, n the quotient rounded towards zero (C's fmod)."""
    return _rem_single(k, x, y) if x.dtype == F32 else k.rem(x, y)


def _rem_single(k: Builder, x: Value, y: Value) -> Value:
    """Long division in float64, 28 bits of the quotient a step: each product is exact.

    A digit may be one too large; the rest is then negative, and the next digit makes up for it.
    """
    rest, divisor = k.cast(k.abs(x), F64), k.cast(k.abs(y), F64)
    inverse = k.div(k.like(rest, 1.0), divisor)
    for i in reversed(range(10)):  # float32 quotients are below 2**278
        digit = k.trunc(k.mul(rest, k.mul(inverse, k.like(rest, 2.0 ** (-28 * i)))))
        rest = k.fma(k.neg(digit), k.mul(divisor, k.like(rest, 2.0 ** (28 * i))), rest)
    rest = k.select(k.lt(rest, k.like(rest, 0.0)), k.add(rest, divisor), rest)
    rest = k.select(k.ge(rest, divisor), k.sub(rest, divisor), rest)
    finite = k.lt(k.abs(x), k.like(x, math.inf))
    whole = k.and_(finite, k.eq(k.abs(y), k.like(y, math.inf)))
    return k.select(whole, x, k.copysign(k.cast(rest, F32), x))


def round_away(k: Builder, x: Value) -> Value:
    """The nearest integer, halves away from zero."""
    a = k.abs(x)
    whole = k.trunc(a)
    up = k.ge(k.sub(a, whole), k.like(x, 0.5))
    return k.copysign(k.select(up, k.add(whole, k.like(x, 1.0)), whole), x)


def round_even(k: Builder, x: Value) -> Value:
    """The nearest integer, halves to the even one."""
    return k.rint(x)


def sign(k: Builder, x: Value) -> Value:
    """1 or -1; zeros and NaN stay."""
    nonzero = k.gt(k.abs(x), k.like(x, 0.0))
    return k.select(nonzero, k.copysign(k.like(x, 1.0), x), x)


def _next_narrow(k: Builder, x: Value, y: Value) -> Value:
    """Compared in float32, moved in the bits."""
    a, b = k.cast(x, F32), k.cast(y, F32)
    bits, towards = k.bitcast(x, "int16"), k.bitcast(y, "int16")
    one, zero = k.like(bits, 1), k.like(a, 0.0)
    outwards = k.eq(k.lt(a, b), k.gt(a, zero))
    moved = k.select(outwards, k.add(bits, one), k.sub(bits, one))
    smallest = k.or_(one, k.and_(towards, k.like(bits, -(1 << 15))))
    out = k.select(k.eq(a, zero), smallest, moved)
    out = k.bitcast(k.select(k.eq(a, b), towards, out), x.dtype)
    return where(k, k.or_(k.isnan(a), k.isnan(b)), math.nan, out)


def nextafter(k: Builder, x: Value, y: Value) -> Value:
    """The next number from x towards y."""
    if x.dtype in NARROW:
        return _next_narrow(k, x, y)
    integer = width(x).integer
    bits, one, zero = k.bitcast(x, integer), k.const(1, integer), k.like(x, 0.0)
    outwards = k.eq(k.lt(x, y), k.gt(x, zero))
    moved = k.bitcast(k.select(outwards, k.add(bits, one), k.sub(bits, one)), x.dtype)
    smallest = k.bitcast(one, x.dtype)
    out = k.select(k.eq(x, zero), k.copysign(smallest, y), moved)
    out = k.select(k.eq(x, y), y, out)
    return where(k, k.or_(k.isnan(x), k.isnan(y)), math.nan, out)
