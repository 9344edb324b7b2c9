"""The logarithm of the gamma function and its derivative; float32 is computed in float64.

Stirling's series from 8 on; below, eight steps of the recurrence; left of 1/2, the reflection.
The logarithm for float32 is shorter: a polynomial below 4, Stirling's series beyond. Coefficients
of it are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

import math

from weft.kernel import special_tables as tables
from weft.kernel.build import Builder
from weft.kernel.math_circular import COS_DOUBLE, SIN_DOUBLE
from weft.kernel.math_logarithm import log
from weft.kernel.math_parts import where
from weft.kernel.math_power import log_middle
from weft.kernel.nodes import F32, F64, Value

# Bernoulli numbers B(2j) / (2j (2j - 1)) and B(2j) / (2j), highest first
STIRLING = (
    43867 / 244188,
    -3617 / 122400,
    1 / 156,
    -691 / 360360,
    1 / 1188,
    -1 / 1680,
    1 / 1260,
    -1 / 360,
    1 / 12,
)
PSI = (
    43867 / 14364,
    -3617 / 8160,
    1 / 12,
    -691 / 32760,
    1 / 132,
    -1 / 240,
    1 / 252,
    -1 / 120,
    1 / 12,
)
HALF_LOG_2_PI = 0.9189385332046728
INVERSE_PI = 0.3183098861837907


def _sin_cos_pi(k: Builder, x: Value) -> tuple[Value, Value]:
    """sin(pi x) and cos(pi x) up to a common sign."""
    f = k.sub(x, k.rint(x))
    a = k.abs(f)
    steep = k.gt(a, k.like(x, 0.25))
    t = k.mul(k.select(steep, k.sub(k.like(x, 0.5), a), a), k.like(x, math.pi))
    z = k.mul(t, t)
    sine = k.fma(k.mul(z, t), k.horner(z, SIN_DOUBLE), t)
    one = k.fma(z, k.like(x, -0.5), k.like(x, 1.0))
    cosine = k.fma(k.mul(z, z), k.horner(z, COS_DOUBLE), one)
    return k.copysign(k.select(steep, cosine, sine), f), k.select(steep, sine, cosine)


def _shifted(k: Builder, x: Value) -> tuple[Value, Value, Value, Value]:
    """Whether x is left of 1/2; a = x or 1 - x; whether a < 8; a or a + 8."""
    left = k.lt(x, k.like(x, 0.5))
    a = k.select(left, k.sub(k.like(x, 1.0), x), x)
    near = k.lt(a, k.like(x, 8.0))
    return left, a, near, k.select(near, k.add(a, k.like(x, 8.0)), a)


def _lgamma(k: Builder, x: Value) -> Value:
    left, a, near, w = _shifted(k, x)
    inverse = k.div(k.like(x, 1.0), w)
    series = k.mul(k.horner(k.mul(inverse, inverse), STIRLING), inverse)
    # a (a + 1) ... (a + 7) in u = a (a + 7)
    u = k.mul(a, k.add(a, k.like(x, 7.0)))
    product = k.mul(k.horner(u, (1.0, 28.0, 252.0, 720.0)), u)
    product = k.select(near, product, k.like(x, 1.0))
    sine = k.mul(k.abs(_sin_cos_pi(k, x)[0]), k.like(x, INVERSE_PI))
    # a quotient below the normal numbers would be flushed to zero
    low = k.lt(sine, k.like(x, 2.0**-900))
    sine = k.select(low, k.mul(sine, k.like(x, 2.0**64)), sine)
    steps = log(k, k.select(left, k.div(sine, product), product))
    raised = k.select(k.and_(left, low), k.like(x, 64 * math.log(2)), k.like(x, 0.0))
    steps = k.sub(steps, raised)
    log_w = k.sub(log(k, w), k.like(x, 1.0))
    tail = k.add(series, k.like(x, HALF_LOG_2_PI - 0.5))
    total = k.fma(k.sub(w, k.like(x, 0.5)), log_w, tail)
    total = k.select(left, k.neg(total), total)
    total = k.sub(total, steps)
    zero = k.or_(k.eq(x, k.like(x, 1.0)), k.eq(x, k.like(x, 2.0)))
    total = where(k, zero, 0.0, total)
    return where(k, k.eq(k.abs(x), k.like(x, math.inf)), math.inf, total)


def _digamma(k: Builder, x: Value) -> Value:
    left, a, near, w = _shifted(k, x)
    inverse = k.div(k.like(x, 1.0), w)
    square = k.mul(inverse, inverse)
    tail = k.fma(k.horner(square, PSI), square, k.mul(inverse, k.like(x, 0.5)))
    # 1 / a + ... + 1 / (a + 7) in u = a (a + 7)
    seven = k.like(x, 7.0)
    u = k.mul(a, k.add(a, seven))
    above = k.mul(k.add(k.add(a, a), seven), k.horner(u, (4.0, 84.0, 504.0, 720.0)))
    steps = k.div(above, k.mul(k.horner(u, (1.0, 28.0, 252.0, 720.0)), u))
    zero = k.like(x, 0.0)
    total = k.sub(log(k, w), k.add(tail, k.select(near, steps, zero)))
    sine, cosine = _sin_cos_pi(k, x)
    reflected = k.div(k.mul(cosine, k.like(x, math.pi)), sine)
    total = k.sub(total, k.select(left, reflected, zero))
    pole = k.and_(k.le(x, zero), k.eq(k.trunc(x), x))
    return where(k, pole, math.nan, total)


# for float32: lgamma(y) / ((y - 1) (y - 2)) in y - 5/2, from 1 to 4, and the rest of Stirling's
# approximation, times x, in x**-2 from 4 on
NEAR = (
    -1.4543083530896195e-07,
    3.4715494411306934e-07,
    3.965615241606196e-07,
    -7.374478515489309e-07,
    -2.8917925725119896e-06,
    6.707315168147472e-06,
    -8.828343076248665e-06,
    2.612639209955892e-05,
    -8.262583798331959e-05,
    0.0002309737171367335,
    -0.0006581464110370213,
    0.0019484951430421163,
    -0.006018850228256642,
    0.0199052164702185,
    -0.07466357023727711,
    0.37957715951002785,
)
FAR = (0.0007352633435514253, -0.002776032420097429, 0.08333332021238632)


def _lgamma_single(k: Builder, x: Value) -> Value:
    """In float64 from 0 on: lgamma(x + 1) - log(x) below 3/2, so that zeros keep their bits."""
    a = k.cast(x, F64)
    log = log_middle(k, a)
    left, far = k.lt(x, k.like(x, 1.5)), k.ge(x, k.like(x, 4.0))
    y = k.select(left, k.add(a, k.like(a, 1.0)), a)
    zeros = k.mul(k.sub(y, k.like(a, 1.0)), k.sub(y, k.like(a, 2.0)))
    near = k.horner(k.sub(y, k.like(a, 2.5)), NEAR)
    near = k.fma(zeros, near, k.select(left, k.neg(log), k.like(a, 0.0)))
    inverse = k.div(k.like(x, 1.0), x)
    series = k.mul(inverse, k.horner(k.mul(inverse, inverse), FAR))
    tail = k.add(k.cast(series, F64), k.like(a, HALF_LOG_2_PI - 0.5))
    beyond = k.fma(k.sub(a, k.like(a, 0.5)), k.sub(log, k.like(a, 1.0)), tail)
    total = k.cast(k.select(far, beyond, near), F32)
    total = where(k, k.eq(x, k.like(x, 0.0)), math.inf, total)
    return k.rarely(k.lt(x, k.like(x, 0.0)), k.cast(_lgamma(k, a), F32), total)


def _lgamma_double(k: Builder, x: Value) -> Value:
    """Around its zeros, 1 and 2, polynomials times what vanishes there: terms would cancel."""
    t = k.sub(x, k.like(x, 1.0))
    zeros = k.mul(t, k.sub(x, k.like(x, 2.0)))
    one = k.mul(zeros, k.horner(k.add(t, t), tables.LGAMMA_NEAR_ONE))
    middle = k.mul(k.sub(x, k.like(x, 2.25)), k.like(x, 4 / 3))
    two = k.mul(zeros, k.horner(middle, tables.LGAMMA_NEAR_TWO))
    near = k.select(k.lt(x, k.like(x, 1.5)), one, two)
    inside = k.and_(k.gt(x, k.like(x, 0.5)), k.lt(x, k.like(x, 3.0)))
    return k.select(inside, k.add(near, k.like(x, 0.0)), _lgamma(k, x))


def _digamma_double(k: Builder, x: Value) -> Value:
    """Around its positive zero a polynomial times the distance from that."""
    apart = k.sub(k.sub(x, k.like(x, tables.DIGAMMA_ROOT)), k.like(x, tables.DIGAMMA_ROOT_LOW))
    near = k.mul(apart, k.horner(k.sub(x, k.like(x, 2.0)), tables.DIGAMMA))
    inside = k.and_(k.gt(x, k.like(x, 1.0)), k.lt(x, k.like(x, 3.0)))
    return k.select(inside, near, _digamma(k, x))


def lgamma(k: Builder, x: Value) -> Value:
    """log(abs(gamma(x)))."""
    return _lgamma_single(k, x) if x.dtype == F32 else _lgamma_double(k, x)


def digamma(k: Builder, x: Value) -> Value:
    """The derivative of lgamma."""
    if x.dtype == F32:
        return k.cast(_digamma(k, k.cast(x, F64)), F32)
    return _digamma_double(k, x)
