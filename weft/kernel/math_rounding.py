"""Exact functions of floats: remainder, rounding, sign, the next number."""

from __future__ import annotations

import math

import numpy as np

from weft.kernel.build import Builder
from weft.kernel.math_parts import flushed, where, width
from weft.kernel.nodes import F32, F64, NARROW, Value


def rem(k: Builder, x: Value, y: Value) -> Value:
    """x - n y, exact, n the quotient rounded towards zero (C's fmod)."""
    if x.dtype == F32:
        return _rem_single(k, x, y)
    # C's function goes by bits, to which denormal numbers are no zeros
    return flushed(k, k.rem(flushed(k, x), flushed(k, y)))


def _rem_single(k: Builder, x: Value, y: Value) -> Value:
    """Long division in float64, 28 bits of the quotient a step: each product is exact.

    A digit may be one too large; the rest is then negative, and the next digit makes up for it.
    """
    size, divisor = k.cast(k.abs(x), F64), k.cast(k.abs(y), F64)
    rest = size
    inverse = k.div(k.like(rest, 1.0), divisor)
    for i in reversed(range(10)):  # float32 quotients are below 2**278
        digit = k.trunc(k.mul(rest, k.mul(inverse, k.like(rest, 2.0 ** (-28 * i)))))
        rest = k.fma(k.neg(digit), k.mul(divisor, k.like(rest, 2.0 ** (28 * i))), rest)
    rest = k.select(k.lt(rest, k.like(rest, 0.0)), k.add(rest, divisor), rest)
    rest = k.select(k.ge(rest, divisor), k.sub(rest, divisor), rest)
    finite = k.lt(k.abs(x), k.like(x, math.inf))
    whole = k.and_(finite, k.eq(k.abs(y), k.like(y, math.inf)))
    return k.copysign(k.cast(k.select(whole, size, rest), F32), x)


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


def nextafter(k: Builder, x: Value, y: Value) -> Value:
    """The next number from x towards y, all by bits: denormal numbers are no zeros here."""
    narrow = x.dtype in NARROW
    integer = np.dtype(np.int16) if narrow else width(x).integer
    bits, towards = k.bitcast(x, integer), k.bitcast(y, integer)
    one, zero = k.like(bits, 1), k.like(bits, 0)
    top = k.like(bits, np.iinfo(integer).min)
    size, other = k.and_(bits, k.not_(top)), k.and_(towards, k.not_(top))
    # away from zero unless the other one is nearer to it, or on its other side
    inwards = k.or_(k.gt(size, other), k.lt(k.xor(bits, towards), zero))
    moved = k.select(inwards, k.sub(bits, one), k.add(bits, one))
    out = k.select(k.eq(size, zero), k.or_(one, k.and_(towards, top)), moved)
    same = k.or_(k.eq(bits, towards), k.eq(k.or_(size, other), zero))
    out = k.bitcast(k.select(same, towards, out), x.dtype)
    a, b = (k.cast(x, F32), k.cast(y, F32)) if narrow else (x, y)
    return where(k, k.or_(k.isnan(a), k.isnan(b)), math.nan, out)
