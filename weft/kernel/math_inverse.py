"""Arc functions: asin, acos, atan, atan2, for float32 and float64.

Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

from weft.kernel.build import Builder
from weft.kernel.math_parts import keep_tiny
from weft.kernel.nodes import F32, Value

# (atan(t) - t) / t**3 in t**2: up to 1 in float32, up to tan(pi/8) in float64
ATAN_SINGLE = (
    -0.001897224341519177,
    0.011408339254558086,
    -0.03215756639838219,
    0.059005241841077805,
    -0.0846867635846138,
    0.10975988209247589,
    -0.14269092679023743,
    0.19999034702777863,
    -0.33333316445350647,
)
ATAN_DOUBLE = (
    -0.018351318909539654,
    0.03850013388779101,
    -0.05057747928933804,
    0.058523007287701885,
    -0.06663758767653609,
    0.07692122546247676,
    -0.0909090155769319,
    0.11111110927000002,
    -0.14285714283315679,
    0.1999999999998709,
    -0.3333333333333332,
)
# (asin(t) - t) / t**3 in t**2, up to 1/2
ASIN_SINGLE = (
    0.037032127380371094,
    0.014855338260531425,
    0.03167426213622093,
    0.044536471366882324,
    0.07500378042459488,
    0.16666662693023682,
)
ASIN_DOUBLE = (
    0.03152444003658901,
    -0.019176286879744684,
    0.020370733559326722,
    0.004279848004900716,
    0.01062081333499174,
    0.011428979500845845,
    0.013976911158805333,
    0.017351961123032326,
    0.022372194060918844,
    0.030381943511685255,
    0.04464285715639379,
    0.07499999999991654,
    0.16666666666666677,
)
# pi/2 as a number of the type, and the rest
HALF_PI_SINGLE = (1.57079637050628662109375, -4.3711388286737929e-08)
HALF_PI_DOUBLE = (1.5707963267948966, 6.123233995736766e-17)


def _half_pi(k: Builder, x: Value) -> tuple[Value, Value]:
    high, low = HALF_PI_SINGLE if x.dtype == F32 else HALF_PI_DOUBLE
    return k.like(x, high), k.like(x, low)


def _tiny(x: Value) -> float:
    return 2.0**-13 if x.dtype == F32 else 2.0**-28


def _odd(k: Builder, t: Value, single: tuple[float, ...], double: tuple[float, ...]) -> Value:
    """What a polynomial of odd powers adds to t."""
    z = k.mul(t, t)
    return k.mul(k.mul(z, t), k.horner(z, single if t.dtype == F32 else double))


def _angle(k: Builder, y: Value, x: Value) -> Value:
    """The angle of a point with coordinates >= 0, infinities and zeros too, in [0, pi/2]."""
    one, zero = k.like(x, 1.0), k.like(x, 0.0)
    high, low = _half_pi(k, x)
    steep = k.gt(y, x)
    large, small = k.select(steep, y, x), k.select(steep, x, y)
    # on the diagonal or at the origin: no quotient of infinities or zeros
    same = k.eq(large, small)
    some = k.select(k.gt(small, zero), one, zero)
    large, small = k.select(same, one, large), k.select(same, some, small)
    base, more = k.select(steep, high, zero), k.select(steep, low, zero)
    if x.dtype == F32:
        t = k.div(small, large)
    else:
        # atan(t) = pi/4 + atan((t - 1) / (t + 1)) beyond tan(pi/8)
        scale = k.select(k.lt(large, k.like(x, 2.0**-900)), k.like(x, 2.0**100), one)
        scale = k.select(k.gt(large, k.like(x, 2.0**1000)), k.like(x, 2.0**-10), scale)
        large, small = k.mul(large, scale), k.mul(small, scale)
        middle = k.gt(small, k.mul(large, k.like(x, 0.41421356237309503)))
        above = k.select(middle, k.sub(small, large), small)
        t = k.div(above, k.select(middle, k.add(small, large), large))
        half = k.like(x, 0.5)
        base = k.select(middle, k.mul(high, half), base)
        more = k.select(middle, k.mul(low, half), more)
    t = k.select(steep, k.neg(t), t)
    part = _odd(k, t, ATAN_SINGLE, ATAN_DOUBLE)
    return k.add(base, k.add(t, k.add(part, more)))


def atan(k: Builder, x: Value) -> Value:
    """The arc tangent."""
    y = _angle(k, k.abs(x), k.like(x, 1.0))
    return keep_tiny(k, x, k.copysign(y, x), _tiny(x))


def atan2(k: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), signs of zeros respected."""
    a = _angle(k, k.abs(y), k.abs(x))
    high, low = _half_pi(k, x)
    back = k.lt(k.copysign(k.like(x, 1.0), x), k.like(x, 0.0))
    turned = k.sub(k.add(high, high), k.sub(a, k.add(low, low)))
    return k.copysign(k.select(back, turned, a), y)


def _arc_parts(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Whether abs(x) > 1/2, and t, asin(t) - t for abs(x) or for sqrt((1 - abs(x)) / 2)."""
    half, a = k.like(x, 0.5), k.abs(x)
    far = k.gt(a, half)
    root = k.sqrt(k.mul(k.sub(k.like(x, 1.0), a), half))
    t = k.select(far, root, a)
    return far, t, _odd(k, t, ASIN_SINGLE, ASIN_DOUBLE)


def asin(k: Builder, x: Value) -> Value:
    """The arc sine: pi/2 - 2 asin(sqrt((1 - x) / 2)) beyond 1/2."""
    far, t, part = _arc_parts(k, x)
    high, low = _half_pi(k, x)
    two = k.like(x, -2.0)
    beyond = k.add(high, k.fma(two, t, k.fma(two, part, low)))
    y = k.select(far, beyond, k.add(t, part))
    return keep_tiny(k, x, k.copysign(y, x), _tiny(x))


def acos(k: Builder, x: Value) -> Value:
    """The arc cosine: 2 asin(sqrt((1 - x) / 2)) beyond 1/2, from pi on the left."""
    far, t, part = _arc_parts(k, x)
    high, low = _half_pi(k, x)
    zero, two = k.like(x, 0.0), k.like(x, 2.0)
    left = k.lt(x, zero)
    size = k.select(far, k.mul(t, two), t)
    more = k.select(far, k.mul(part, two), part)
    # pi/2 - asin(x), pi - 2 asin(t), 2 asin(t)
    base = k.select(far, k.select(left, k.add(high, high), zero), high)
    rest = k.select(far, k.select(left, k.add(low, low), zero), low)
    plus = k.xor(far, left)
    size = k.select(plus, size, k.neg(size))
    more = k.select(plus, more, k.neg(more))
    return k.add(base, k.add(size, k.add(more, rest)))
