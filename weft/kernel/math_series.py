"""Bessel functions, the Hurwitz zeta function and polygamma in kernels, the latter in float64.

Zeta is exact enough for results of 32 bits and fewer.
"""

from __future__ import annotations

import math

from weft.kernel import special_tables as tables
from weft.kernel.build import Builder
from weft.kernel.math_exponential import exp
from weft.kernel.math_gamma import digamma, lgamma
from weft.kernel.math_logarithm import log
from weft.kernel.math_parts import where
from weft.kernel.nodes import F64, Value

# Terms of zeta that are summed, and of the series for those that follow.
TERMS, TAIL = 6, 8


# Fits of tools/fit.py for float32, highest power first: up to 8 in x**2, and beyond in 1 / x
I0_NEAR = (
    5.716040378890075e-17,
    5.815725251232711e-15,
    2.6341780319516506e-12,
    4.6235257289417575e-10,
    6.800495100378612e-08,
    6.779313935112441e-06,
    0.0004340438172221184,
    0.01562494970858097,
    0.2500000596046448,
    1.0,
)
I0_FAR = (
    1.8277866840362549,
    -0.3056735694408417,
    0.0851324126124382,
    0.027250465005636215,
    0.028094829991459846,
    0.0498674176633358,
    0.3989422917366028,
)
I1_NEAR = (
    2.6968571579017893e-18,
    3.6461078492021153e-16,
    1.6024376649822342e-13,
    3.327169095790339e-11,
    5.659166912863611e-09,
    6.780774697290326e-07,
    5.425399649539031e-05,
    0.002604165580123663,
    0.0625,
    0.5,
)
I1_FAR = (
    3.839827299118042,
    -1.896376132965088,
    0.21340711414813995,
    -0.05940655618906021,
    -0.04618605971336365,
    -0.14960964024066925,
    0.3989422917366028,
)


def _bessel_single(k: Builder, x: Value, odd: bool) -> Value:
    """A modified Bessel function of float32 times exp(-abs(x)), by one polynomial a lane."""
    near, shorter = (I1_NEAR, I1_FAR) if odd else (I0_NEAR, I0_FAR)
    far = (*(0.0,) * (len(near) - len(shorter)), *shorter)
    size = k.abs(x)
    close = k.le(size, k.like(x, 8.0))
    # the inverse of the largest numbers is no normal one, which may become zero
    inverse = k.div(k.like(x, 16.0), size)
    square = k.mul(x, x)
    t = k.select(close, square, k.mul(inverse, k.like(x, 0.0625)))
    total = k.select(close, k.like(x, near[0]), k.like(x, far[0]))
    for a, b in zip(near[1:], far[1:], strict=True):
        total = k.fma(total, t, k.select(close, k.like(x, a), k.like(x, b)))
    # what the rounding of the square did; both functions grow by about 1/16 of it there
    lost = k.mul(k.fma(x, x, k.neg(square)), k.like(x, 0.0625))
    small = exp(k, k.neg(size))
    small = k.mul(k.fma(small, lost, small), size) if odd else k.fma(small, lost, small)
    total = k.mul(total, k.select(close, small, k.mul(k.sqrt(inverse), k.like(x, 0.25))))
    return k.copysign(total, x) if odd else total


def bessel(k: Builder, x: Value, odd: bool) -> Value:
    """A modified Bessel function times exp(-abs(x)), from its Chebyshev series around 8."""
    if x.dtype != F64:
        return _bessel_single(k, x, odd)
    near: tuple[float, ...] = tables.BESSEL_I1E_NEAR if odd else tables.BESSEL_I0E_NEAR
    far: tuple[float, ...] = tables.BESSEL_I1E_FAR if odd else tables.BESSEL_I0E_FAR
    size = k.abs(x)
    number = lambda n: k.const(n, F64)
    close = k.le(size, number(8.0))
    root = k.div(number(16.0), k.select(close, number(8.0), size))
    t = k.sub(k.select(close, k.mul(size, number(0.25)), root), number(1.0))
    length = max(len(near), len(far))
    pairs = zip([0.0] * (length - len(near)) + [*near], [0.0] * (length - len(far)) + [*far])
    b1 = b2 = number(0.0)
    *others, last = [k.select(close, number(a), number(b)) for a, b in pairs]
    twice = k.add(t, t)
    for c in others:
        b1, b2 = k.fma(twice, b1, k.sub(c, b2)), b1
    total = k.fma(t, b1, k.sub(last, b2))
    factor = size if odd else number(1.0)
    outer = k.div(number(1.0), k.sqrt(k.select(close, number(8.0), size)))
    total = k.mul(total, k.select(close, factor, outer))
    return k.copysign(total, x) if odd else total


def _zeta_sum(k: Builder, s: Value, q: Value) -> Value:
    """The sum for q > 0: some terms, and what Euler and Maclaurin say of the others."""
    power = lambda base: exp(k, k.mul(k.neg(s), log(k, base)))
    number = lambda n: k.const(n, F64)
    total = number(0.0)
    for i in reversed(range(TERMS)):
        total = k.add(total, power(k.add(q, number(i))))
    end = k.add(q, number(TERMS))
    last = power(end)
    inverse = k.div(number(1.0), end)
    factor, series = k.mul(k.mul(last, s), inverse), number(0.0)
    square = k.mul(inverse, inverse)
    for i, b in enumerate(tables.BERNOULLI[:TAIL], 1):
        series = k.fma(factor, number(b / math.factorial(2 * i)), series)
        grown = k.mul(k.add(s, number(2 * i - 1)), k.add(s, number(2 * i)))
        factor = k.mul(k.mul(factor, grown), square)
    half = k.add(k.div(end, k.sub(s, number(1.0))), number(0.5))
    tail = k.fma(last, half, series)
    return k.add(total, where(k, k.eq(last, number(0.0)), 0.0, tail))


def zeta(k: Builder, s: Value, q: Value) -> Value:
    """The sum of (q + i)**-s; left of 0 for integer s only, by the sum over both sides."""
    s, q = k.cast(s, F64), k.cast(q, F64)
    zero, one, endless = (k.const(n, F64) for n in (0.0, 1.0, math.inf))
    left = k.lt(q, zero)
    whole = k.floor(q)
    rest = k.sub(q, whole)
    calm = lambda v: where(k, k.not_(left), 1.0, v)
    total = _zeta_sum(k, s, k.select(left, rest, q))
    mirrored = k.sub(
        _zeta_sum(k, s, calm(k.sub(one, rest))),
        _zeta_sum(k, s, calm(k.sub(one, q))),
    )
    half = k.mul(s, k.const(0.5, F64))
    even = k.eq(half, k.floor(half))
    mirrored = k.add(total, k.select(even, mirrored, k.neg(mirrored)))
    value = k.rarely(left, mirrored, total)
    pole = k.and_(k.le(q, zero), k.eq(q, whole))
    wrong = k.or_(k.eq(k.abs(s), endless), k.eq(q, endless))
    wrong = k.or_(wrong, k.and_(left, k.ne(s, k.floor(s))))
    wrong = k.or_(wrong, k.not_(k.gt(s, one)))
    value = where(k, k.or_(wrong, pole), math.nan, value)
    finite = k.lt(k.abs(s), endless)
    raised = k.and_(k.and_(k.gt(s, one), pole), k.and_(even, finite))
    value = where(k, raised, math.inf, value)
    return where(k, k.and_(k.eq(s, one), k.eq(q, q)), math.inf, value)


def polygamma(k: Builder, n: Value, x: Value) -> Value:
    """The derivative of digamma of order n."""
    n, x = k.cast(n, F64), k.cast(x, F64)
    zero, one = k.const(0.0, F64), k.const(1.0, F64)
    series = zeta(k, k.add(n, one), x)
    grown = k.add(lgamma(k, k.add(n, one)), log(k, k.abs(series)))
    small = k.mul(exp(k, lgamma(k, k.add(n, one))), series)
    large = k.copysign(exp(k, grown), series)
    size = k.select(k.le(n, k.const(100.0, F64)), small, large)
    half = k.mul(n, k.const(0.5, F64))
    signed = k.select(k.eq(half, k.floor(half)), k.neg(size), size)
    whole = k.and_(k.ge(n, one), k.and_(k.eq(n, k.floor(n)), k.lt(n, k.const(math.inf, F64))))
    value = where(k, k.not_(whole), math.nan, signed)
    return k.select(k.eq(n, zero), digamma(k, x), value)
