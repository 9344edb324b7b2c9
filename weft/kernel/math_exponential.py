"""Exponentials: exp, exp2, expm1 and what is made of them, for float32 and float64.

e**x = 2**n * e**r with n the integer nearest to x / log(2): r = x - n log(2) by two fused steps,
e**r by a polynomial, 2**n by bits. Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.math_parts import (
    at_least,
    at_most,
    keep_tiny,
    nearest,
    power_of_two,
    quick_sum,
    scale,
    width,
)
from weft.kernel.nodes import F32, Value

LOG2_E = 1.4426950408889634


class Exponential(Record):
    """Coefficients and bounds of one floating type."""

    exp: tuple[float, ...]  # (e**r - 1 - r) / r**2 for |r| <= log(2) / 2
    exp2: tuple[float, ...]  # (2**r - 1) / r for |r| <= 1/2
    sinh: tuple[float, ...]  # (sinh(x) - x) / x**3 in x**2, up to 1
    even: tuple[float, ...]  # (cosh(r) - 1) / r**2 in r**2 for |r| <= log(2) / 2
    odd: tuple[float, ...]  # (sinh(r) - r) / r**3 likewise
    ln2: tuple[float, float]  # log(2): a number of the type, and the rest
    exp_range: tuple[float, float]  # beyond: 0 and infinity
    exp2_range: tuple[float, float]
    expm1_low: float  # below: -1
    tanh_low: float  # tanh is 1 beyond half of it
    sinh_high: float  # beyond: infinity
    tiny: float  # expm1(x) is x below
    tiny_cubed: float  # tanh(x) is x below


SINGLE = Exponential(
    exp=(
        0.0013814471894875169,
        0.008369149640202522,
        0.04166840389370918,
        0.166665181517601,
        0.4999999403953552,
    ),
    exp2=(
        0.0001547604042571038,
        0.0013399753952398896,
        0.009618004783987999,
        0.05550329387187958,
        0.24022650718688965,
        0.6931471824645996,
    ),
    sinh=(
        2.7866672098753043e-06,
        0.00019842293113470078,
        0.008333312347531319,
        0.1666666716337204,
    ),
    even=(
        0.0013935609022155404,
        0.041666459292173386,
        0.5,
    ),
    odd=(
        0.008365326561033726,
        0.16666558384895325,
    ),
    ln2=(0.693147182464599609375, -1.904654299957767e-09),
    exp_range=(-104.0, 89.0),
    exp2_range=(-151.0, 129.0),
    expm1_low=-18.0,
    tanh_low=-18.2,
    sinh_high=89.5,
    tiny=2.0**-25,
    tiny_cubed=2.0**-13,
)

DOUBLE = Exponential(
    exp=(
        2.100057323825328e-09,
        2.5115112786814744e-08,
        2.755700533916475e-07,
        2.7557225702022707e-06,
        2.480158761516205e-05,
        0.00019841269905747288,
        0.001388888888875986,
        0.008333333333313299,
        0.04166666666666684,
        0.16666666666666688,
        0.5,
    ),
    exp2=(
        2.5741367310670847e-11,
        4.456605306319184e-10,
        7.0548886170789505e-09,
        1.0178051702955062e-07,
        1.3215486831902824e-06,
        1.525273385491741e-05,
        0.00015403530393342797,
        0.0013333558146392027,
        0.009618129107628494,
        0.05550410866482169,
        0.24022650695910072,
        0.6931471805599453,
    ),
    sinh=(
        6.320805536282522e-15,
        7.493934418141395e-13,
        1.6061644120133653e-10,
        2.505208635764763e-08,
        2.755731932376316e-06,
        0.00019841269841031276,
        0.008333333333333597,
        0.16666666666666666,
    ),
    even=(
        2.762782237722957e-07,
        2.480150123592484e-05,
        0.0013888888934228344,
        0.04166666666657316,
        0.5000000000000004,
    ),
    odd=(
        2.5109431816125197e-08,
        2.7557245201167975e-06,
        0.00019841269882576367,
        0.008333333333324281,
        0.1666666666666667,
    ),
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    exp_range=(-746.0, 710.0),
    exp2_range=(-1076.0, 1025.0),
    expm1_low=-38.0,
    tanh_low=-38.5,
    sinh_high=710.6,
    tiny=2.0**-54,
    tiny_cubed=2.0**-28,
)


def facts(x: Value) -> Exponential:
    """The coefficients and bounds for the type of ``x``."""
    return SINGLE if x.dtype == F32 else DOUBLE


def _reduce(k: Builder, x: Value) -> tuple[Value, Value]:
    """x = n log(2) + r: r, and n in the low bits of an integer."""
    high, minus, low, bits = _reduce_parts(k, x)
    return k.fma(minus, low, high), bits


def _reduce_parts(k: Builder, x: Value) -> tuple[Value, Value, Value, Value]:
    """x - n log(2) but for the lower part of log(2); -n, that part, and n in the low bits."""
    high, low = facts(x).ln2
    n, bits = nearest(k, x, LOG2_E)
    minus = k.neg(n)
    return k.fma(minus, k.like(x, high), x), minus, k.like(x, low), bits


def parts(k: Builder, x: Value) -> tuple[Value, Value]:
    """e**x = 2**n z: z, and n in the low bits of an integer."""
    r, bits = _reduce(k, x)
    return k.horner(r, (*facts(x).exp, 1.0, 1.0)), bits


def parts_less_one(k: Builder, x: Value) -> tuple[Value, Value]:
    """e**x = 2**n (1 + p): p, and n in the low bits of an integer."""
    r, bits = _reduce(k, x)
    return k.fma(k.horner(r, facts(x).exp), k.mul(r, r), r), bits


def parts_of_pair(k: Builder, x: Value, more: Value) -> tuple[Value, Value, Value]:
    """e**(x + more) = 2**n (1 + p) with a small number more: p as a pair, and n."""
    high, minus, low, bits = _reduce_parts(k, x)
    r, lost = quick_sum(k, high, k.fma(minus, low, more))
    p = quick_sum(k, r, k.fma(k.horner(r, facts(x).exp), k.mul(r, r), lost))
    return p.high, p.low, bits


def exp(k: Builder, x: Value) -> Value:
    """e**x."""
    low, high = facts(x).exp_range
    return scale(k, *parts(k, at_least(k, at_most(k, x, high), low)))


def exp2(k: Builder, x: Value) -> Value:
    """2**x."""
    table = facts(x)
    low, high = table.exp2_range
    inside = at_least(k, at_most(k, x, high), low)
    n, bits = nearest(k, inside)
    r = k.sub(inside, n)
    return scale(k, k.fma(k.horner(r, table.exp2), r, k.like(x, 1.0)), bits)


def expm1(k: Builder, x: Value) -> Value:
    """e**x - 1."""
    table = facts(x)
    p, bits = parts_less_one(k, at_least(k, at_most(k, x, table.exp_range[1]), table.expm1_low))
    half = power_of_two(k, bits, x, -1)  # half of 2**n, which may be too large for the type
    y = k.fma(half, p, k.sub(half, k.like(x, 0.5)))
    return keep_tiny(k, x, k.add(y, y), table.tiny)


def logistic(k: Builder, x: Value) -> Value:
    """1 / (1 + e**-x), by e**-abs(x) so that neither end overflows or loses denormals."""
    one = k.like(x, 1.0)
    e = scale(k, *parts(k, at_least(k, k.neg(k.abs(x)), facts(x).exp_range[0])))
    above = k.select(k.lt(x, k.like(x, 0.0)), e, one)
    return k.div(above, k.add(e, one))


def tanh(k: Builder, x: Value) -> Value:
    """-t / (t + 2) with t = e**(-2 abs(x)) - 1."""
    table = facts(x)
    size = at_least(k, k.mul(k.abs(x), k.like(x, -2.0)), table.tanh_low)
    p, bits = parts_less_one(k, size)
    power = power_of_two(k, bits, x)
    t = k.fma(power, p, k.sub(power, k.like(x, 1.0)))
    y = k.div(t, k.add(t, k.like(x, 2.0)))
    return keep_tiny(k, x, k.copysign(y, x), table.tiny_cubed)


def _even_and_odd(k: Builder, x: Value) -> tuple[Value, Value, Value, Value]:
    """abs(x) = n log(2) + r: cosh(r) - 1, sinh(r), 2**(n - 2) and 2**(-n - 2).

    A quarter of the powers: no overflow before the functions made of them overflow.
    """
    table, bounds = facts(x), width(x)
    r, bits = _reduce(k, at_most(k, k.abs(x), table.sinh_high))
    z = k.mul(r, r)
    even = k.mul(k.horner(z, table.even), z)
    odd = k.fma(k.mul(r, z), k.horner(z, table.odd), r)
    raised = k.shl(bits, k.const(bounds.mantissa, bounds.integer))
    quarter = k.const(bounds.one - (2 << bounds.mantissa), bounds.integer)
    # where the power is below all normal numbers, 0 will do
    under = k.max(k.sub(quarter, raised), k.const(0, bounds.integer))
    up, down = (k.bitcast(v, x.dtype) for v in (k.add(quarter, raised), under))
    return even, odd, up, down


def sinh(k: Builder, x: Value) -> Value:
    """(e**x - e**-x) / 2, a polynomial below 1."""
    even, odd, up, down = _even_and_odd(k, x)
    rest = k.fma(k.sub(up, down), even, k.neg(down))
    far = k.add(up, k.fma(k.add(up, down), odd, rest))
    z = k.mul(x, x)
    near = k.fma(k.mul(z, x), k.horner(z, facts(x).sinh), x)
    return k.select(k.lt(k.abs(x), k.like(x, 1.0)), near, k.copysign(k.add(far, far), x))


def cosh(k: Builder, x: Value) -> Value:
    """(e**x + e**-x) / 2."""
    even, odd, up, down = _even_and_odd(k, x)
    rest = k.fma(k.add(up, down), even, down)
    y = k.add(up, k.fma(k.sub(up, down), odd, rest))
    return k.add(y, y)
