"""Powers and roots: pow, integer_pow, rsqrt, cbrt, hypot, for float32 and float64.

Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

import math

import numpy as np

from weft.kernel.build import Builder
from weft.kernel.math_exponential import DOUBLE, parts_of_pair
from weft.kernel.math_parts import (
    Pair,
    at_least,
    at_most,
    exponent_value,
    multiply,
    nearest,
    pair,
    power_edges,
    power_of_two,
    quick_sum,
    scale,
    split,
    split_bits,
    two_product,
    two_sum,
    where,
)
from weft.kernel.nodes import F32, F64, Value

# in float64, twelve bits beyond float32: log2(1 + f) / f; and five bits beyond it: 2**r
LOG2_MIDDLE = (
    0.07736948793356359,
    -0.1428386917809567,
    0.14474851280692205,
    -0.14315659945566533,
    0.15876982103802909,
    -0.1803005922438659,
    0.2061753569902412,
    -0.24045316577271741,
    0.28853729355687485,
    -0.3606736748255818,
    0.48089836139490644,
    -0.7213475208688074,
    1.4426950408686967,
)
EXP2_MIDDLE = (
    0.00015477931050576172,
    0.001340043415501573,
    0.009617994765390802,
    0.055503272070791525,
    0.2402265150494172,
    0.6931472067179141,
    0.9999999999179034,
)
# (2 atanh(s) - 2 s - 2/3 s**3) / s**5 in s**2, to 2**-67 of the whole
ATANH = (
    0.11373973609258617,
    0.11745677799515726,
    0.13333032500180222,
    0.15384635088808937,
    0.18181817859074517,
    0.222222222244249,
    0.285714285714231,
    0.4,
)
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# log(2): 32 bits, so that multiples are exact; then two parts of the rest
LN2 = (0.6931471803691238, 1.9082149292705877e-10, 1.1612227229362532e-26)


def pow(k: Builder, x: Value, y: Value) -> Value:
    """x**y."""
    known = _fixed_power(k, x, y) if y.op == "const" else None
    if known is not None:
        return known
    # an infinite one is as good as a large one, whose product with log(1) is 0
    large = 2.0**100 if x.dtype == F32 else 2.0**1000
    y = at_least(k, at_most(k, y, large), -large)
    size = _power_single(k, x, y) if x.dtype == F32 else _power_double(k, x, y)
    return power_edges(k, x, y, size)


def _fixed_power(k: Builder, x: Value, y: Value) -> Value | None:
    """x**y for a constant that products and roots can do, to the accuracy of all others.

    In float32 the steps are those of float64, rounded once.
    """
    exponent = float(np.frombuffer(y.attr, y.dtype)[0])
    if exponent in (0.0, 1.0, 2.0, -1.0):
        return integer_pow(k, x, int(exponent))
    if exponent == 0.5:
        return _root_power(k, x, k.sqrt(k.add(x, k.like(x, 0.0))))
    if exponent in INVERSE_HALVES:
        return _inverse_half(k, x, -exponent)
    if x.dtype != F32 or exponent not in (3.0, 4.0, -2.0, 0.25, 1.5, 2.5, 3.5):
        return None
    wide = k.cast(x, F64)
    if exponent == int(exponent):
        return k.cast(integer_pow(k, wide, int(exponent)), F32)
    root = k.sqrt(k.add(wide, k.like(wide, 0.0)))  # -0 becomes 0
    if exponent == 0.25:
        return _root_power(k, x, k.cast(k.sqrt(root), F32))
    rest = integer_pow(k, k.abs(wide), int(exponent))
    return _root_power(k, x, k.cast(k.mul(root, rest), F32))


# Exponents whose powers take fewer steps by a root and products than by a logarithm.
INVERSE_HALVES = (-0.5, -1.5, -2.5, -3.5)


def _inverse_half(k: Builder, x: Value, exponent: float) -> Value:
    """The inverse of x to the n and a half: a root and products of 1 / x, which leave the range of
    numbers only where the result does, with what each of them was rounded by."""
    base, one = k.add(x, k.like(x, 0.0)), k.like(x, 1.0)  # -0 becomes 0
    if exponent == 0.5:
        return _root_power(k, x, rsqrt(k, base), 0.0)
    q = k.div(one, base)
    root = k.sqrt(q)
    # what the result lacks, as a part of it, for the quotient and for the root
    lacks = k.mul(k.fma(k.neg(base), q, one), k.like(x, exponent))
    left = k.fma(k.neg(root), root, q)
    lacks = k.fma(k.mul(left, k.like(x, 0.5)), base, lacks)
    # what products are rounded by may be too small a number where the result isn't
    up, down = (2.0**30, 2.0**-30) if x.dtype == F32 else (2.0**60, 2.0**-60)
    small = k.lt(q, one)
    high = k.mul(root, k.select(small, k.like(x, up), one))
    low = k.mul(high, lacks)
    for _ in range(int(exponent)):
        product = two_product(k, high, q)
        high, low = product.high, k.fma(low, q, product.low)
    better = k.add(high, low)
    # at the ends of the range, what was cut off means nothing
    found = k.select(k.isnan(better), high, better)
    return _root_power(k, x, k.mul(found, k.select(small, k.like(x, down), one)), 0.0)


def _root_power(k: Builder, x: Value, y: Value, beyond: float = math.inf) -> Value:
    """y, but what a power is at minus infinity, where roots are NaN."""
    return where(k, k.eq(x, k.like(x, -math.inf)), beyond, y)


def _power_single(k: Builder, x: Value, y: Value) -> Value:
    """abs(x)**y as 2**(y log2 x) in float64: the logarithm needs more bits than float32 has."""
    a = k.abs(x)
    small = k.lt(a, k.like(a, 2.0**-126))
    bits, m = split_bits(k, k.select(small, k.mul(a, k.like(a, 2.0**24)), a))
    e = exponent_value(k, bits, m)
    e = k.select(small, k.sub(e, k.like(a, 24.0)), e)
    e = where(k, k.eq(a, k.like(a, 0.0)), -math.inf, e)
    e = k.select(k.lt(a, k.like(a, math.inf)), e, a)
    f = k.cast(k.sub(m, k.like(a, 1.0)), F64)
    log = k.fma(k.horner(f, LOG2_MIDDLE), f, k.cast(e, F64))
    t = at_least(k, at_most(k, k.mul(k.cast(y, F64), log), 200.0), -200.0)
    n, low = nearest(k, t)
    z = k.horner(k.sub(t, n), EXP2_MIDDLE)
    return k.cast(k.mul(z, power_of_two(k, low, z)), F32)


def _log2_middle(k: Builder, x: Value) -> Value:
    """log2(x) of a positive normal float64, to 2**-36."""
    bits, m = split_bits(k, x)
    f = k.sub(m, k.like(m, 1.0))
    return k.fma(k.horner(f, LOG2_MIDDLE), f, exponent_value(k, bits, m))


def log_middle(k: Builder, x: Value) -> Value:
    """log(x) of a positive normal float64, to 2**-36."""
    return k.mul(_log2_middle(k, x), k.like(x, math.log(2)))


def _log_pair(k: Builder, x: Value) -> Pair:
    """log(x) of a positive number to about 2**-67."""
    e, m = split(k, x)
    one = k.like(x, 1.0)
    f = k.sub(m, one)
    below = two_sum(k, f, k.like(x, 2.0))
    inverse = k.div(one, below.high)
    s_high = k.mul(f, inverse)
    left = k.fma(k.neg(s_high), below.high, f)
    s = Pair(s_high, k.mul(k.fma(k.neg(s_high), below.low, left), inverse))
    square = multiply(k, s, s)
    # 2 s + s**3 (2/3 + s**2 A): the last product needs no second part
    third = pair(k, x, *TWO_THIRDS)
    high, low = quick_sum(k, third.high, k.mul(square.high, k.horner(square.high, ATANH)))
    cubic = multiply(k, multiply(k, s, square), Pair(high, k.add(low, third.low)))
    twice = k.like(x, 2.0)
    high, low = quick_sum(k, k.mul(s.high, twice), cubic.high)
    low = k.add(low, k.fma(s.low, twice, cubic.low))
    # e log(2): exact, then rounded with its error
    small = two_product(k, e, k.like(x, LN2[1]))
    small_low = k.fma(e, k.like(x, LN2[2]), small.low)
    total, lost = two_sum(k, k.mul(e, k.like(x, LN2[0])), high)
    part, rest = two_sum(k, small.high, lost)
    return quick_sum(k, total, k.add(part, k.add(k.add(rest, small_low), low)))


def _power_double(k: Builder, x: Value, y: Value) -> Value:
    """abs(x)**y as e**(y log x), the logarithm and the product as pairs."""
    base = k.abs(x)
    log = _log_pair(k, base)
    high = where(k, k.eq(base, k.like(x, 0.0)), -math.inf, log.high)
    high = k.select(k.lt(base, k.like(x, math.inf)), high, base)
    low, top = DOUBLE.exp_range
    t = k.mul(high, y)
    inside = at_least(k, at_most(k, t, top), low)
    rest = k.fma(y, log.low, k.fma(log.high, y, k.neg(t)))
    # outside (or where the product is infinite or NaN) the rest means nothing
    rest = k.select(k.eq(inside, t), rest, k.like(x, 0.0))
    p, tail, bits = parts_of_pair(k, inside, rest)
    one, lost = quick_sum(k, k.like(x, 1.0), p)
    return scale(k, k.add(one, k.add(lost, tail)), bits)


def integer_pow(k: Builder, x: Value, y: int) -> Value:
    """x**y for a static integer, by squaring in the order of the binary digits of y."""
    if y == 0:
        return k.like(x, 1)
    result: Value | None = None
    base, n = x, abs(y)
    while n:
        if n & 1:
            result = base if result is None else k.mul(result, base)
        n >>= 1
        if n:
            base = k.mul(base, base)
    assert result is not None
    return k.div(k.like(x, 1), result) if y < 0 else result


def rsqrt(k: Builder, x: Value) -> Value:
    """1 / sqrt(x), and a step of Newton's method with the residual 1 - x y**2 exact enough."""
    one = k.like(x, 1.0)
    y = k.div(one, k.sqrt(x))
    product, rest = two_product(k, x, y)
    residual = k.fma(k.neg(rest), y, k.fma(k.neg(product), y, one))
    better = k.fma(k.mul(y, k.like(x, 0.5)), residual, y)
    return k.select(k.isnan(residual), y, better)  # 0 * inf at both ends


# m**(-1/3) for sqrt(1/2) <= m < sqrt(2): the start of Newton's method
CBRT = (
    -0.10806540657741069,
    0.7007455061073401,
    -1.8981465215995974,
    2.7922255497620596,
    -2.485927500152725,
    1.9991722234245386,
)


def cbrt(k: Builder, x: Value) -> Value:
    """The cube root: x = 2**(3 q + r) m, then m**(-1/3) by Newton's method, without division."""
    a = k.abs(x)
    e, m = split(k, a)
    third = k.fma(e, k.like(m, 1.0 / 3), k.like(m, -1.0 / 3))
    q, bits = nearest(k, third)
    r = k.fma(q, k.like(m, -3.0), e)  # 0, 1 or 2
    one, two = k.ge(r, k.like(m, 1.0)), k.ge(r, k.like(m, 2.0))

    def choose(values: tuple[float, float, float]) -> Value:
        first, second, third = (k.like(m, v) for v in values)
        return k.select(two, third, k.select(one, second, first))

    y = k.mul(k.horner(m, CBRT), choose((1.0, 2.0 ** (-1 / 3), 2.0 ** (-2 / 3))))
    m = k.mul(m, choose((1.0, 2.0, 4.0)))
    for _ in range(0 if x.dtype == F32 else 2):
        residual = k.fma(k.neg(k.mul(m, y)), k.mul(y, y), k.like(m, 1.0))
        y = k.fma(k.mul(y, k.like(m, 1.0 / 3)), residual, y)
    # one step more on the root itself: c - (c**3 - m) y**2 / 3
    inverse = k.mul(y, y)
    root = k.mul(m, inverse)
    square = two_product(k, root, root)
    over = k.fma(square.low, root, k.fma(square.high, root, k.neg(m)))
    root = k.fma(over, k.mul(inverse, k.like(m, -1.0 / 3)), root)
    root = k.mul(root, power_of_two(k, bits, root))
    plain = k.and_(k.gt(a, k.like(m, 0.0)), k.lt(a, k.like(m, math.inf)))
    return k.select(plain, k.copysign(root, x), x)


def hypot(k: Builder, x: Value, y: Value) -> Value:
    """sqrt(x**2 + y**2) without overflow on the way; infinity beats NaN."""
    a, b = k.abs(x), k.abs(y)
    either = k.or_(k.eq(a, k.like(x, math.inf)), k.eq(b, k.like(x, math.inf)))
    if x.dtype == F32:
        wide = k.cast(a, F64)
        other = k.cast(b, F64)
        out = k.cast(k.sqrt(k.fma(wide, wide, k.mul(other, other))), F32)
        return where(k, either, math.inf, out)
    swap = k.gt(b, a)
    high, low = k.select(swap, b, a), k.select(swap, a, b)
    large, small = k.gt(high, k.like(x, 2.0**510)), k.lt(high, k.like(x, 2.0**-450))
    one = k.like(x, 1.0)
    down = k.select(large, k.like(x, 2.0**-600), k.select(small, k.like(x, 2.0**600), one))
    up = k.select(large, k.like(x, 2.0**600), k.select(small, k.like(x, 2.0**-600), one))
    high, low = k.mul(high, down), k.mul(low, down)
    square, rest = two_product(k, high, high)
    other, other_rest = two_product(k, low, low)
    total, lost = quick_sum(k, square, other)
    root = k.sqrt(total)
    # the error of the sum and of the root: (total - root**2 + rest) / (2 root)
    more = k.add(k.add(rest, other_rest), lost)
    left = k.add(k.fma(k.neg(root), root, total), more)
    positive = k.gt(root, k.like(x, 0.0))
    step = k.div(left, k.select(positive, k.add(root, root), one))
    return where(k, either, math.inf, k.mul(k.add(root, step), up))
