"""Bessel functions, the Hurwitz zeta function and polygamma in kernels, all computed in float64.

Zeta is exact enough for results of 32 bits and fewer; coefficients are handed in by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.kernel.build import Builder
from weft.kernel.math_exponential import exp
from weft.kernel.math_gamma import digamma, lgamma
from weft.kernel.math_logarithm import log
from weft.kernel.math_parts import where
from weft.kernel.nodes import F64, Value

# Terms of zeta that are summed, and of the series for those that follow.
TERMS, TAIL = 6, 8


def _shortened(coefficients: Sequence[float]) -> Sequence[float]:
    """A series without the terms that no result of 32 bits shows."""
    left = 2.0**-36 * abs(coefficients[-1])
    for i, c in enumerate(coefficients):
        left -= abs(c)
        if left < 0:
            return coefficients[i:]
    return coefficients


def bessel(k: Builder, x: Value, near: Sequence[float], far: Sequence[float], odd: bool) -> Value:
    """A modified Bessel function times exp(-abs(x)), from its Chebyshev series around 8."""
    if x.dtype != F64:
        near, far = _shortened(near), _shortened(far)
    x = k.cast(x, F64)
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


def _zeta_sum(k: Builder, s: Value, q: Value, bernoulli: Sequence[float]) -> Value:
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
    for i, b in enumerate(bernoulli[:TAIL], 1):
        series = k.fma(factor, number(b / math.factorial(2 * i)), series)
        grown = k.mul(k.add(s, number(2 * i - 1)), k.add(s, number(2 * i)))
        factor = k.mul(k.mul(factor, grown), square)
    half = k.add(k.div(end, k.sub(s, number(1.0))), number(0.5))
    tail = k.fma(last, half, series)
    return k.add(total, where(k, k.eq(last, number(0.0)), 0.0, tail))


def zeta(k: Builder, s: Value, q: Value, bernoulli: Sequence[float]) -> Value:
    """The sum of (q + i)**-s; left of 0 for integer s only, by the sum over both sides."""
    s, q = k.cast(s, F64), k.cast(q, F64)
    zero, one, endless = (k.const(n, F64) for n in (0.0, 1.0, math.inf))
    left = k.lt(q, zero)
    whole = k.floor(q)
    rest = k.sub(q, whole)
    calm = lambda v: where(k, k.not_(left), 1.0, v)
    total = _zeta_sum(k, s, k.select(left, rest, q), bernoulli)
    mirrored = k.sub(
        _zeta_sum(k, s, calm(k.sub(one, rest)), bernoulli),
        _zeta_sum(k, s, calm(k.sub(one, q)), bernoulli),
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


def polygamma(k: Builder, n: Value, x: Value, bernoulli: Sequence[float]) -> Value:
    """The derivative of digamma of order n."""
    n, x = k.cast(n, F64), k.cast(x, F64)
    zero, one = k.const(0.0, F64), k.const(1.0, F64)
    series = zeta(k, k.add(n, one), x, bernoulli)
    grown = k.add(lgamma(k, k.add(n, one)), log(k, k.abs(series)))
    small = k.mul(exp(k, lgamma(k, k.add(n, one))), series)
    large = k.copysign(exp(k, grown), series)
    size = k.select(k.le(n, k.const(100.0, F64)), small, large)
    half = k.mul(n, k.const(0.5, F64))
    signed = k.select(k.eq(half, k.floor(half)), k.neg(size), size)
    whole = k.and_(k.ge(n, one), k.and_(k.eq(n, k.floor(n)), k.lt(n, k.const(math.inf, F64))))
    value = where(k, k.not_(whole), math.nan, signed)
    return k.select(k.eq(n, zero), digamma(k, x), value)
