"""Mathematics of float32: reductions, polynomials and edges, branch-free, written on the builder.

Coefficients without a named source are minimax fits of tools/fit.py.
"""

from __future__ import annotations

import math

from weft.kernel.build import Builder
from weft.kernel.math_parts import (
    at_least,
    at_most,
    exponent_value,
    flip,
    is_odd,
    keep_tiny,
    log_edges,
    nearest,
    power_edges,
    power_of_two,
    scale,
    second_bit_as_sign,
    split,
    split_bits,
    where,
)
from weft.kernel.nodes import F32, F64, I32, Value

INF = math.inf
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693147182464599609375, -1.904654299957767e-09  # float32, rest

# --- exponentials ---------------------------------------------------------------------------------

EXP = (
    0.0013818751322105527,
    0.008369526825845242,
    0.04166830703616142,
    0.16666513681411743,
    0.4999999403953552,
)
EXP2 = (
    0.0001547604042571038,
    0.0013399753952398896,
    0.009618004783987999,
    0.05550329387187958,
    0.24022650718688965,
    0.6931471824645996,
)


def _reduced(k: Builder, x: Value) -> tuple[Value, Value]:
    """e**x = 2**n * (1 + p): p, and n in the low bits."""
    n, bits = nearest(k, x, LOG2_E)
    minus = k.neg(n)
    r = k.fma(minus, k.like(x, LN2_HIGH), x)
    r = k.fma(minus, k.like(x, LN2_LOW), r)
    return k.fma(k.horner(r, EXP), k.mul(r, r), r), bits


def exp(k: Builder, x: Value) -> Value:
    clamped = at_least(k, at_most(k, x, 89.0), -104.0)
    p, bits = _reduced(k, clamped)
    return scale(k, k.add(p, k.like(x, 1.0)), bits)


def exp2(k: Builder, x: Value) -> Value:
    clamped = at_least(k, at_most(k, x, 129.0), -151.0)
    n, bits = nearest(k, clamped)
    r = k.sub(clamped, n)
    return scale(k, k.fma(k.horner(r, EXP2), r, k.like(x, 1.0)), bits)


def expm1(k: Builder, x: Value) -> Value:
    clamped = at_least(k, at_most(k, x, 89.0), -18.0)
    p, bits = _reduced(k, clamped)
    half = power_of_two(k, bits, x, -1)  # 2**n / 2: 2**128 has no float
    y = k.fma(half, p, k.sub(half, k.like(x, 0.5)))
    return keep_tiny(k, x, k.add(y, y), 2.0**-25)


def logistic(k: Builder, x: Value) -> Value:
    """1 / (1 + e**-x), by e**-abs(x) so that neither end overflows or loses denormals."""
    size = at_least(k, k.neg(k.abs(x)), -104.0)
    p, bits = _reduced(k, size)
    e = scale(k, k.add(p, k.like(x, 1.0)), bits)
    one = k.like(x, 1.0)
    top = k.select(k.lt(x, k.like(x, 0.0)), e, one)
    return k.div(top, k.add(e, one))


def tanh(k: Builder, x: Value) -> Value:
    """-t / (t + 2) with t = e**(-2 abs(x)) - 1; beyond 9.1 the nearest float is 1."""
    size = at_least(k, k.mul(k.abs(x), k.like(x, -2.0)), -18.2)
    p, bits = _reduced(k, size)
    power = power_of_two(k, bits, x)
    t = k.fma(power, p, k.sub(power, k.like(x, 1.0)))
    y = k.div(t, k.add(t, k.like(x, 2.0)))
    return keep_tiny(k, x, k.copysign(y, x), 2.0**-13)


# (sinh(x) - x) / x**3 in x**2 up to 1
SINH = (
    2.7866672098753043e-06,
    0.00019842293113470078,
    0.008333312347531319,
    0.1666666716337204,
)


def _quarter_exp(k: Builder, x: Value) -> Value:
    """e**abs(x) / 4: no overflow before the functions made of it overflow."""
    p, bits = _reduced(k, at_most(k, k.abs(x), 89.5))
    quarter = power_of_two(k, bits, x, -2)
    return k.fma(quarter, p, quarter)


def sinh(k: Builder, x: Value) -> Value:
    e = _quarter_exp(k, x)
    far = k.sub(e, k.div(k.like(x, 1.0 / 16), e))
    z = k.mul(x, x)
    near = k.fma(k.mul(z, x), k.horner(z, SINH), x)
    return k.select(k.lt(k.abs(x), k.like(x, 1.0)), near, k.copysign(k.add(far, far), x))


def cosh(k: Builder, x: Value) -> Value:
    e = _quarter_exp(k, x)
    y = k.add(e, k.div(k.like(x, 1.0 / 16), e))
    return k.add(y, y)


# --- logarithms -----------------------------------------------------------------------------------

# (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f < sqrt(2)
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
# (log2(1 + f) - f * log2(e)) / f**2
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


def _log_core(k: Builder, e: Value, f: Value, more: Value | None = None) -> Value:
    """e * log(2) + log(1 + f), and a small number more."""
    z = k.mul(f, f)
    y = k.mul(k.mul(z, f), k.horner(f, LOG))
    y = k.fma(e, k.like(f, -2.12194440e-4), y)
    y = k.fma(z, k.like(f, -0.5), y)
    whole = k.mul(e, k.like(f, 0.693359375))  # exact: ten bits
    high = k.add(whole, f)
    y = y if more is None else k.add(y, more)
    y = k.add(y, k.sub(f, k.sub(high, whole)))
    return k.add(high, y)


def log(k: Builder, x: Value) -> Value:
    e, m = split(k, x)
    return log_edges(k, x, _log_core(k, e, k.sub(m, k.like(x, 1.0))))


def log2(k: Builder, x: Value) -> Value:
    e, m = split(k, x)
    f = k.sub(m, k.like(x, 1.0))
    low = k.mul(f, k.fma(f, k.horner(f, LOG2), k.like(x, 1.925963033500e-08)))
    y = k.fma(f, k.like(x, 1.44269502162933349609375), low)
    return log_edges(k, x, k.add(e, y))


def log1p(k: Builder, x: Value) -> Value:
    one = k.like(x, 1.0)
    bits, _ = split_bits(k, k.add(x, one))
    e = exponent_value(k, bits, x)
    # 4 * 2**-e from the same bits (e may be 128): f = (1 + x) * 2**-e - 1 with one rounding
    raised = k.and_(bits, k.const(-(1 << 23), I32))
    shrink = k.bitcast(k.sub(k.const(0x40800000, I32), raised), F32)
    quarter = k.like(x, 0.25)
    less, rest = k.mul(x, quarter), k.fma(shrink, quarter, k.like(x, -1.0))
    f = k.fma(less, shrink, rest)
    lost = k.fma(less, shrink, k.sub(rest, f))
    y = _log_core(k, e, f, k.fma(k.neg(f), lost, lost))
    return keep_tiny(k, x, log_edges(k, x, y, -1.0), 2.0**-25)


# --- powers ---------------------------------------------------------------------------------------


def rsqrt(k: Builder, x: Value) -> Value:
    """1 / sqrt(x) and a step of Newton's method with the residual 1 - x y**2 exact enough."""
    one = k.like(x, 1.0)
    y = k.div(one, k.sqrt(x))
    product = k.mul(x, y)
    rest = k.fma(x, y, k.neg(product))
    residual = k.fma(k.neg(rest), y, k.fma(k.neg(product), y, one))
    better = k.fma(k.mul(y, k.like(x, 0.5)), residual, y)
    return k.select(k.isnan(residual), y, better)  # 0 * inf at both ends


# in float64, twelve bits beyond float32: (2 atanh(s) - 2 s) / s**3 in s**2, and 2**r
LOG_MIDDLE = (
    0.19441021474113176,
    0.22186646209927566,
    0.28571846568230425,
    0.39999998203295783,
    0.6666666666805057,
)
EXP2_MIDDLE = (
    1.5257944471394344e-05,
    0.00015469991231315165,
    0.0013333770599784323,
    0.009618025603756427,
    0.05550410975262647,
    0.24022651213559928,
    0.6931471805353105,
    0.9999999999595568,
)


def pow(k: Builder, x: Value, y: Value) -> Value:
    """2**(y log2 x) in float64: the logarithm needs more bits than float32 has."""
    base, wide = k.cast(k.abs(x), F64), k.cast(y, F64)
    bits, m = split_bits(k, base)
    one = k.like(m, 1.0)
    s = k.div(k.sub(m, one), k.add(m, one))
    z = k.mul(s, s)
    log = k.fma(k.mul(z, k.horner(z, LOG_MIDDLE)), s, k.add(s, s))
    log = k.fma(log, k.like(m, LOG2_E), exponent_value(k, bits, m))
    log = where(k, k.eq(base, k.like(m, 0.0)), -INF, log)
    log = k.select(k.lt(base, k.like(m, INF)), log, base)
    t = at_least(k, at_most(k, k.mul(wide, log), 200.0), -200.0)
    n, low = nearest(k, t)
    z = k.horner(k.sub(t, n), EXP2_MIDDLE)
    return power_edges(k, x, y, k.cast(k.mul(z, power_of_two(k, low, z)), F32))


# --- circular functions ---------------------------------------------------------------------------

# From |x| = the first column on: 2**s * 2/pi mod 4, times 2**-s, as two float64 (s = 0, 27, 54,
# 79). x times it is a number of quarter turns: what the mod leaves out are whole turns.
TURNS = (
    (0.0, 0.6366197723675814, -3.935735335036497e-17),
    (2.0**50, -4.119769120791653e-09, 2.8376220177865265e-25),
    (2.0**77, 7.166494911215068e-17, -2.1442872565786008e-33),
    (2.0**103, -5.434184107743751e-25, 3.8858987075186823e-41),
)
HALF_PI = 1.5707963267948966
SIN = (
    -0.00019515787425916642,
    0.008332177996635437,
    -0.16666655242443085,
)
COS = (
    2.4456288883811794e-05,
    -0.001388758304528892,
    0.041666653007268906,
)


def _quadrant(k: Builder, x: Value) -> tuple[Value, Value]:
    """x = n * pi/2 + r with abs(r) <= pi/4: r, and n in the low bits; for every float32."""
    size = k.abs(x)
    high, low = (k.const(c, F64) for c in TURNS[0][1:])
    for bound, *constants in TURNS[1:]:
        above = k.ge(size, k.like(x, bound))
        high = k.select(above, k.const(constants[0], F64), high)
        low = k.select(above, k.const(constants[1], F64), low)
    wide = k.cast(x, F64)
    n, bits = nearest(k, wide, high)
    turn = k.fma(wide, low, k.fma(wide, high, k.neg(n)))
    return k.cast(k.mul(turn, k.const(HALF_PI, F64)), F32), k.cast(bits, I32)


def _sin_cos(k: Builder, r: Value) -> tuple[Value, Value]:
    """Sine and cosine for abs(r) <= pi/4."""
    z = k.mul(r, r)
    sine = k.fma(k.mul(z, r), k.horner(z, SIN), r)
    cosine = k.fma(k.mul(z, z), k.horner(z, COS), k.fma(z, k.like(r, -0.5), k.like(r, 1.0)))
    return sine, cosine


def sin(k: Builder, x: Value) -> Value:
    r, n = _quadrant(k, x)
    sine, cosine = _sin_cos(k, r)
    y = flip(k, k.select(is_odd(k, n), cosine, sine), second_bit_as_sign(k, n))
    return keep_tiny(k, x, y, 2.0**-13)


def cos(k: Builder, x: Value) -> Value:
    r, n = _quadrant(k, x)
    sine, cosine = _sin_cos(k, r)
    y = k.select(is_odd(k, n), sine, cosine)
    return flip(k, y, second_bit_as_sign(k, k.add(n, k.const(1, I32))))


def tan(k: Builder, x: Value) -> Value:
    r, n = _quadrant(k, x)
    sine, cosine = _sin_cos(k, r)
    odd = is_odd(k, n)
    y = k.div(k.select(odd, cosine, sine), k.select(odd, sine, cosine))
    return keep_tiny(k, x, flip(k, y, k.shl(n, k.const(31, I32))), 2.0**-13)


# --- error functions ------------------------------------------------------------------------------

# erf(x) / x - 1 in x**2 for |x| < 1; -log2(erfc(x)) up to 3.93, beyond which erf rounds to 1
ERF_NEAR = (
    7.554564217571169e-05,
    -0.0007929899729788303,
    0.00518064247444272,
    -0.0268507432192564,
    0.11283542960882187,
    -0.3761262595653534,
    0.12837916612625122,
)
ERF_FAR = (
    -0.00026946645812131464,
    0.0042586796917021275,
    -0.03153202682733536,
    0.14881105720996857,
    0.9205744862556458,
    1.6260939836502075,
    0.000479984562844038,
)


def erf(k: Builder, x: Value) -> Value:
    one, a = k.like(x, 1.0), k.abs(x)
    near = k.fma(k.horner(k.mul(x, x), ERF_NEAR), x, x)
    t = k.neg(k.horner(at_most(k, a, 3.93), ERF_FAR))
    n, bits = nearest(k, t)
    r = k.sub(t, n)
    rest = k.mul(k.fma(k.horner(r, EXP2), r, one), power_of_two(k, bits, x))
    return k.select(k.lt(a, one), near, k.copysign(k.sub(one, rest), x))
