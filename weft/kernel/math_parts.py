"""Pieces that the mathematics of both widths share: exponents as bits, pairs of numbers, edges."""

from __future__ import annotations

import math

import numpy as np

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.nodes import F32, I32, I64, Value


class Width(Record):
    """What the formulas need to know of a floating type."""

    integer: np.dtype  # as wide as the float
    mantissa: int  # bits after the point
    one: int  # the bits of 1.0
    magic: float  # 1.5 * 2**mantissa: adding it rounds to an integer, kept in the low bits
    root_half: int  # the bits of sqrt(1/2)
    lowest: float  # the smallest normal number


SINGLE = Width(I32, 23, 0x3F800000, 12582912.0, 0x3F3504F3, 2.0**-126)
DOUBLE = Width(I64, 52, 0x3FF0 << 48, 6755399441055744.0, 0x3FE6A09E667F3BCD, 2.0**-1022)


def width(x: Value) -> Width:
    """The facts of the floating type of ``x``."""
    return SINGLE if x.dtype == F32 else DOUBLE


# --- edges ----------------------------------------------------------------------------------------


def at_most(k: Builder, x: Value, high: float) -> Value:
    """``x`` but not above ``high``; NaN stays. One instruction, unlike ``min``."""
    bound = k.like(x, high)
    return k.select(k.lt(bound, x), bound, x)


def at_least(k: Builder, x: Value, low: float) -> Value:
    """``x`` but not below ``low``; NaN stays."""
    bound = k.like(x, low)
    return k.select(k.gt(bound, x), bound, x)


def where(k: Builder, condition: Value, yes: float, no: Value) -> Value:
    """A constant where the condition holds."""
    return k.select(condition, k.like(no, yes), no)


def keep_tiny(k: Builder, x: Value, y: Value, bound: float) -> Value:
    """``x`` itself near zero, where f(x) = x: keeps -0 and denormal numbers."""
    return k.select(k.lt(k.abs(x), k.like(x, bound)), x, y)


def flushed(k: Builder, x: Value) -> Value:
    """``x``, but zero where it compares equal to that: denormal numbers do, where flushed."""
    zero = k.like(x, 0.0)
    return k.select(k.eq(x, zero), k.copysign(zero, x), x)


def flip(k: Builder, x: Value, sign: Value) -> Value:
    """``x`` with its sign changed by the top bit of the integer ``sign``."""
    return k.bitcast(k.xor(k.bitcast(x, sign.dtype), sign), x.dtype)


def is_odd(k: Builder, n: Value) -> Value:
    """Whether the lowest bit of an integer is set."""
    return k.ne(k.and_(n, k.const(1, n.dtype)), k.const(0, n.dtype))


def second_bit_as_sign(k: Builder, n: Value) -> Value:
    """The second bit of an integer moved to the top, nothing else."""
    top = n.dtype.itemsize * 8 - 2
    return k.and_(k.shl(n, k.const(top, n.dtype)), k.const(np.iinfo(n.dtype).min, n.dtype))


def log_edges(k: Builder, x: Value, y: Value, zero: float = 0.0) -> Value:
    """y, but -inf where x is at ``zero``, NaN below it, x itself at infinity and NaN."""
    edge = k.like(x, zero)
    y = k.select(k.lt(x, k.like(x, math.inf)), y, x)
    y = where(k, k.lt(x, edge), math.nan, y)
    return where(k, k.eq(x, edge), -math.inf, y)


def power_edges(k: Builder, x: Value, y: Value, size: Value) -> Value:
    """x**y from abs(x)**y, y finite: signs, powers of negative numbers, what is 1 whatever else."""
    zero, one = k.like(x, 0.0), k.like(x, 1.0)
    half = k.mul(y, k.like(x, 0.5))
    whole = k.eq(k.trunc(y), y)
    odd = k.and_(whole, k.ne(k.trunc(half), half))
    out = k.select(odd, k.copysign(size, x), size)
    undefined = k.and_(k.lt(x, zero), k.and_(k.gt(x, k.like(x, -math.inf)), k.not_(whole)))
    out = where(k, undefined, math.nan, out)
    return k.select(k.or_(k.eq(y, zero), k.eq(x, one)), one, out)


# --- powers of two --------------------------------------------------------------------------------


def nearest(k: Builder, x: Value, factor: float | Value | None = None) -> tuple[Value, Value]:
    """x * factor as the nearest integer, and the same in the low bits of an integer.

    The other bits are not 0. One rounding: the integer is right up to half the mantissa's range.
    """
    facts = width(x)
    magic = k.like(x, facts.magic)
    if factor is None:
        shifted = k.add(x, magic)
    else:
        by = factor if isinstance(factor, Value) else k.like(x, factor)
        shifted = k.fma(x, by, magic)
    return k.sub(shifted, magic), k.bitcast(shifted, facts.integer)


def power_of_two(k: Builder, bits: Value, like: Value, shift: int = 0) -> Value:
    """2**(n + shift) for n in the low bits, as ``nearest`` leaves it; normal numbers only."""
    facts = width(like)
    raised = k.shl(bits, k.const(facts.mantissa, facts.integer))
    one = k.const(facts.one + (shift << facts.mantissa), facts.integer)
    return k.bitcast(k.add(raised, one), like.dtype)


def scale(k: Builder, x: Value, bits: Value) -> Value:
    """x * 2**n in two steps, so that overflow and denormal numbers round once and right."""
    facts = width(x)
    step = k.const(facts.mantissa, facts.integer)
    half = k.lshr(bits, k.const(1, facts.integer))
    first = k.add(k.shl(half, step), k.const(facts.one, facts.integer))
    both = k.sub(k.shl(bits, step), first)
    second = k.add(both, k.const(2 * facts.one, facts.integer))
    return k.mul(k.mul(x, k.bitcast(first, x.dtype)), k.bitcast(second, x.dtype))


def split(k: Builder, x: Value) -> tuple[Value, Value]:
    """Exponent and mantissa in [sqrt(1/2), sqrt(2)) of a positive number, denormal ones too."""
    facts = width(x)
    small = k.lt(x, k.like(x, facts.lowest))
    raised = k.select(small, k.mul(x, k.like(x, 2.0**facts.mantissa)), x)
    exponent, m = split_normal(k, raised)
    drop = k.select(small, k.like(x, float(facts.mantissa)), k.like(x, 0.0))
    return k.sub(exponent, drop), m


def split_normal(k: Builder, x: Value) -> tuple[Value, Value]:
    """Exponent and mantissa in [sqrt(1/2), sqrt(2)) of a positive normal number."""
    bits, m = split_bits(k, x)
    return exponent_value(k, bits, x), m


def split_bits(k: Builder, x: Value) -> tuple[Value, Value]:
    """Like ``split_normal``, the exponent as the integer difference of bits it is found in."""
    facts = width(x)
    integer = facts.integer
    base = k.const(facts.root_half, integer)
    bits = k.sub(k.bitcast(x, integer), base)
    low = k.and_(bits, k.const((1 << facts.mantissa) - 1, integer))
    return bits, k.bitcast(k.add(low, base), x.dtype)


def exponent_value(k: Builder, bits: Value, like: Value) -> Value:
    """The exponent found by ``split_bits`` as a float."""
    facts = width(like)
    exponent = k.ashr(bits, k.const(facts.mantissa, facts.integer))
    if like.dtype == F32:
        return k.cast(exponent, F32)
    # no vector instruction converts 64-bit integers on most machines: add into the low bits
    magic = k.like(like, facts.magic)
    shifted = k.add(k.bitcast(magic, facts.integer), exponent)
    return k.sub(k.bitcast(shifted, like.dtype), magic)


# --- unevaluated sums of two numbers --------------------------------------------------------------


class Pair(Record):
    """high + low, the low part below half a unit in the last place of the high one."""

    high: Value
    low: Value


def two_sum(k: Builder, x: Value, y: Value) -> Pair:
    """x + y exactly."""
    total = k.add(x, y)
    back = k.sub(total, x)
    return Pair(total, k.add(k.sub(x, k.sub(total, back)), k.sub(y, back)))


def quick_sum(k: Builder, x: Value, y: Value) -> Pair:
    """x + y exactly where abs(x) >= abs(y) or x is 0."""
    total = k.add(x, y)
    return Pair(total, k.sub(y, k.sub(total, x)))


def two_product(k: Builder, x: Value, y: Value) -> Pair:
    """x * y exactly."""
    high = k.mul(x, y)
    return Pair(high, k.fma(x, y, k.neg(high)))


def multiply(k: Builder, x: Pair, y: Pair) -> Pair:
    """The product of two pairs to about twice the precision."""
    high, low = two_product(k, x.high, y.high)
    cross = k.fma(x.high, y.low, k.mul(x.low, y.high))
    return quick_sum(k, high, k.add(low, cross))


def pair(k: Builder, like: Value, high: float, low: float) -> Pair:
    """A constant of twice the precision."""
    return Pair(k.like(like, high), k.like(like, low))
