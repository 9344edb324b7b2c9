"""Transcendental functions of complex numbers in kernels, on pairs of reals.

complex64 is computed in float64, in which nothing of its range overflows; where complex128 would,
formulas are scaled. Branch cuts and infinities are those of the references in prims.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.kernel import math as real
from weft.kernel.build import Builder
from weft.kernel.math_complex import div, exponential, logarithm, mul
from weft.kernel.math_parts import two_product, two_sum, where
from weft.kernel.nodes import F64, Parts, Value

Pair = tuple[Value, Value]
_C128 = np.dtype(np.complex128)
_HUGE, _TINY = 2.0**480, 2.0**-480  # beyond these, squares are avoided
_FAR = 22.0  # from here on cosh(x) = exp(x) / 2 and tanh(x) = 1 to the last bit


def _in_double(function: Callable[..., Pair]) -> Any:
    """A function of complex numbers from one of two float64 values for each operand."""

    def wide(k: Builder, *operands: Any) -> Parts:
        z = operands[0]
        given = [k.cast(p, F64) for x in operands for p in _parts(k, x)]
        re, im = function(k, *given)
        part = z.parts[0].dtype
        return Parts(z.dtype, (k.cast(re, part), k.cast(im, part)))

    wide.__doc__ = function.__doc__
    return wide


def _parts(k: Builder, x: Any) -> tuple[Value, ...]:
    return x.parts if type(x) is Parts else (x, k.const(0, F64))


def _num(k: Builder, number: float) -> Value:
    return k.const(number, F64)


def _positive(k: Builder, x: Value) -> Value:
    """x, with 0 for -0."""
    return k.add(x, _num(k, 0.0))


def _infinite(k: Builder, x: Value) -> Value:
    return k.eq(k.abs(x), _num(k, math.inf))


# --- roots ----------------------------------------------------------------------------------------


def _root(k: Builder, x: Value, y: Value) -> Pair:
    big = k.gt(k.max(k.abs(x), k.abs(y)), _num(k, _HUGE))
    small = k.lt(k.max(k.abs(x), k.abs(y)), _num(k, _TINY))
    choose = lambda a, b: k.select(big, _num(k, a), k.select(small, _num(k, b), _num(k, 1.0)))
    scale, back = choose(2.0**-4, 2.0**108), choose(2.0**2, 2.0**-54)
    a, b = k.mul(k.abs(x), scale), k.mul(k.abs(y), scale)
    root = k.sqrt(k.mul(k.add(a, real.hypot(k, a, b)), _num(k, 0.5)))
    other = k.mul(k.div(b, k.add(root, root)), back)
    root = k.mul(root, back)
    left = k.lt(x, _num(k, 0.0))
    re, im = k.select(left, other, root), k.copysign(k.select(left, root, other), y)
    none = k.and_(k.eq(x, _num(k, 0.0)), k.eq(y, _num(k, 0.0)))
    re, im = where(k, none, 0.0, re), k.select(none, y, im)
    # infinities: along the real axis the other part stays, above and below both are infinite
    level = _infinite(k, x)
    unknown = k.isnan(y)
    zero = k.select(unknown, y, _num(k, 0.0))
    endless = k.copysign(_num(k, math.inf), y)
    re = k.select(level, k.select(left, zero, k.abs(x)), re)
    im = k.select(level, k.select(left, endless, k.copysign(zero, y)), im)
    re = where(k, _infinite(k, y), math.inf, re)
    return re, k.select(_infinite(k, y), y, im)


@_in_double
def sqrt(k: Builder, x: Value, y: Value) -> Pair:
    """The root with a real part that is not negative; below the cut as on it."""
    return _root(k, x, _positive(k, y))


@_in_double
def rsqrt(k: Builder, x: Value, y: Value) -> Pair:
    """conj(root) / abs(z), divided in two steps so that neither overflows."""
    re, im = _root(k, x, y)
    half = k.sqrt(real.hypot(k, x, y))
    re = k.div(k.div(re, half), half)
    im = k.div(k.div(k.neg(im), half), half)
    none = k.and_(k.eq(x, _num(k, 0.0)), k.eq(y, _num(k, 0.0)))
    re, im = where(k, none, math.inf, re), where(k, none, math.nan, im)
    endless = k.or_(_infinite(k, x), _infinite(k, y))
    return where(k, endless, 0.0, re), where(k, endless, 0.0, im)


# --- exponentials ---------------------------------------------------------------------------------


def _times_sine(k: Builder, size: Value, angle: Value) -> Value:
    """size * sin(angle), 0 on the real axis whatever the size."""
    level = k.eq(angle, _num(k, 0.0))
    return k.select(level, angle, k.mul(size, real.sin(k, angle)))


@_in_double
def exp2(k: Builder, x: Value, y: Value) -> Pair:
    """2**x (cos(y log 2) + i sin(y log 2))."""
    size, angle = real.exp2(k, x), k.mul(y, _num(k, math.log(2.0)))
    return k.mul(size, real.cos(k, angle)), _times_sine(k, size, angle)


@_in_double
def expm1(k: Builder, x: Value, y: Value) -> Pair:
    """exp(z) - 1 without cancellation around 0."""
    growth, sine = real.expm1(k, x), real.sin(k, k.mul(y, _num(k, 0.5)))
    less = k.mul(k.add(sine, sine), sine)
    re = k.sub(k.mul(growth, real.cos(k, y)), less)
    # of no known direction, but infinite; or on the way to -1 from any direction
    re = k.select(k.and_(k.eq(x, _num(k, math.inf)), k.isnan(re)), x, re)
    gone = k.eq(x, _num(k, -math.inf))
    re = k.select(k.or_(gone, k.eq(y, _num(k, 0.0))), growth, re)
    return re, where(k, gone, 0.0, _times_sine(k, real.exp(k, x), y))


@_in_double
def log1p(k: Builder, x: Value, y: Value) -> Pair:
    """log(1 + z); around 0 from abs(1 + z)**2 - 1 in twice the precision."""
    one = _num(k, 1.0)
    near = k.and_(*(k.lt(k.abs(p), _num(k, 3.0)) for p in (x, y)))
    a, b = (where(k, k.not_(near), 0.0, p) for p in (x, y))
    (aa, ae), (bb, be) = two_product(k, a, a), two_product(k, b, b)
    first, e1 = two_sum(k, k.add(a, a), aa)
    total, e2 = two_sum(k, first, bb)
    close = k.add(total, k.add(k.add(k.add(e1, e2), ae), be))
    size = real.hypot(k, k.add(one, x), y)
    near = k.and_(near, k.gt(size, _num(k, 0.5)))
    half = k.mul(real.log1p(k, where(k, k.not_(near), 0.0, close)), _num(k, 0.5))
    return k.select(near, half, real.log(k, size)), real.atan2(k, y, k.add(one, x))


@_in_double
def logistic(k: Builder, x: Value, y: Value) -> Pair:
    """1 / (1 + exp(-z)), the growing exponential divided out."""
    zero, one = _num(k, 0.0), _num(k, 1.0)
    flip = k.lt(x, zero)
    power = exponential(k, Parts(_C128, tuple(k.select(flip, p, k.neg(p)) for p in (x, y))))
    top = k.select(flip, power, Parts(_C128, (one, zero)))
    re, im = div(k, top, Parts(_C128, (k.add(one, power.parts[0]), power.parts[1]))).parts
    end = k.and_(_infinite(k, x), k.lt(k.abs(y), _num(k, math.inf)))
    return k.select(end, k.select(flip, zero, one), re), where(k, end, 0.0, im)


# --- circular and hyperbolic functions ------------------------------------------------------------


def _hyperbolic(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """sinh(x) and cosh(x) without a factor that would overflow them, and that factor."""
    far = k.gt(k.abs(x), _num(k, _FAR))
    half = real.exp(k, k.mul(k.abs(x), _num(k, 0.5)))
    part = k.mul(half, _num(k, 0.5))
    calm = where(k, far, 0.0, x)
    sinh = k.select(far, k.copysign(part, x), real.sinh(k, calm))
    return sinh, k.select(far, part, real.cosh(k, calm)), k.select(far, half, _num(k, 1.0))


def _scaled(
    k: Builder, circular: Value, hyperbolic: Value, factor: Value, x: Value | None = None
) -> Value:
    """Their product; 0 where one is 0, whatever the other; infinite where x is, if given."""
    zero = _num(k, 0.0)
    none = k.or_(k.eq(circular, zero), k.eq(hyperbolic, zero))
    sign = k.mul(k.copysign(_num(k, 1.0), circular), k.copysign(_num(k, 1.0), hyperbolic))
    out = k.mul(k.mul(circular, hyperbolic), factor)
    if x is not None:
        out = where(k, k.and_(k.isnan(circular), _infinite(k, x)), math.inf, out)
    return k.select(none, k.copysign(zero, sign), out)


def _sinh(k: Builder, x: Value, y: Value) -> Pair:
    s, c, factor = _hyperbolic(k, x)
    return _scaled(k, real.cos(k, y), s, factor, x), _scaled(k, real.sin(k, y), c, factor)


def _cosh(k: Builder, x: Value, y: Value) -> Pair:
    s, c, factor = _hyperbolic(k, x)
    return _scaled(k, real.cos(k, y), c, factor, x), _scaled(k, real.sin(k, y), s, factor)


def _tanh(k: Builder, x: Value, y: Value) -> Pair:
    s, c = real.sin(k, y), real.cos(k, y)
    far = k.gt(k.abs(x), _num(k, _FAR))
    calm = where(k, far, 1.0, x)
    sinh, cosh = real.sinh(k, calm), real.cosh(k, calm)
    below = k.add(k.mul(sinh, sinh), k.mul(c, c))
    re = k.select(far, k.copysign(_num(k, 1.0), x), k.div(k.mul(sinh, cosh), below))
    product = k.mul(s, c)
    decay = real.exp(k, k.mul(k.abs(x), _num(k, -2.0)))
    im = k.select(far, k.mul(k.mul(product, _num(k, 4.0)), decay), k.div(product, below))
    unknown = k.isnan(product)
    re = k.select(k.and_(unknown, k.not_(_infinite(k, x))), product, re)
    sign = k.select(unknown, y, product)
    im = k.select(_infinite(k, x), k.copysign(_num(k, 0.0), sign), im)
    # on the axes the other part is a zero, whatever else
    re = k.select(k.eq(x, _num(k, 0.0)), x, re)
    return re, k.select(k.eq(y, _num(k, 0.0)), y, im)


def _turned(function: Callable[..., Pair]) -> Any:
    """-i f(iz): the circular function of a hyperbolic one, and the inverse ones."""

    def turned(k: Builder, x: Value, y: Value) -> Pair:
        re, im = function(k, k.neg(y), x)
        return im, k.neg(re)

    return turned


sinh, cosh, tanh = _in_double(_sinh), _in_double(_cosh), _in_double(_tanh)
sin, tan = _in_double(_turned(_sinh)), _in_double(_turned(_tanh))


@_in_double
def cos(k: Builder, x: Value, y: Value) -> Pair:
    """cosh(iz)."""
    return _cosh(k, k.neg(y), x)


# --- inverses -------------------------------------------------------------------------------------


def _arcs(k: Builder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """The real parts of asin and acos and their common imaginary part, for x, y >= 0.

    After Hull, Fairgrieve and Tang, ACM Trans. Math. Softw. 23 (1997).
    """
    one, half = _num(k, 1.0), _num(k, 0.5)
    huge = k.gt(k.max(x, y), _num(k, _HUGE))
    flat = k.lt(y, _num(k, _TINY))
    u, v = where(k, huge, 1.0, x), where(k, k.or_(huge, flat), 1.0, y)
    more, less = k.add(u, one), k.sub(u, one)
    r, s = real.hypot(k, more, v), real.hypot(k, less, v)
    a = k.mul(k.add(r, s), half)
    square = k.mul(v, v)
    inside = k.le(u, one)
    # r - (u + 1) and s - |u - 1|, without cancellation
    right = k.div(square, k.add(r, more))
    left = k.select(inside, k.sub(s, less), k.add(s, less))
    gap = k.div(square, left)
    short = k.select(inside, gap, left)  # s + u - 1
    long = k.select(inside, left, gap)  # s + 1 - u
    excess = k.mul(k.add(right, short), half)
    high = k.le(a, _num(k, 1.5))
    im_near = real.log1p(k, k.add(excess, k.sqrt(k.mul(excess, k.add(a, one)))))
    im_far = real.log(k, k.add(a, k.sqrt(k.mul(k.sub(a, one), k.add(a, one)))))
    im = k.select(high, im_near, im_far)
    root = k.sqrt(k.mul(k.mul(k.add(a, u), half), k.add(right, long)))
    re, co = real.atan2(k, u, root), real.atan2(k, root, u)
    # next to the real axis
    low = k.lt(x, one)
    distance = k.mul(k.sub(one, x), k.add(one, x))
    width = k.sqrt(k.abs(where(k, huge, 1.0, distance)))
    edge = k.eq(x, one)
    calm = where(k, huge, 2.0, x)
    beyond = real.log1p(k, k.add(k.sub(calm, one), width))
    im_flat = k.select(low, k.div(y, width), k.select(edge, k.sqrt(y), beyond))
    inner = where(k, k.not_(low), 1.0, x)
    re = k.select(flat, real.asin(k, inner), re)
    co = k.select(flat, k.select(edge, k.sqrt(y), real.acos(k, inner)), co)
    im = k.select(flat, im_flat, im)
    # far from everything
    length = real.hypot(k, k.mul(x, half), k.mul(y, half))
    im = k.select(huge, k.add(real.log(k, length), _num(k, 2 * math.log(2.0))), im)
    re = k.select(huge, real.atan2(k, x, y), re)
    co = k.select(huge, real.atan2(k, y, x), co)
    endless = k.or_(_infinite(k, x), _infinite(k, y))
    unknown = k.and_(k.or_(k.isnan(x), k.isnan(y)), k.not_(endless))
    re, co = (where(k, unknown, math.nan, p) for p in (re, co))
    co = where(k, k.eq(x, _num(k, 0.0)), math.pi / 2, co)
    return re, co, where(k, endless, math.inf, im)


def _asin(k: Builder, x: Value, y: Value) -> Pair:
    re, _, im = _arcs(k, k.abs(x), k.abs(y))
    re = k.select(k.eq(x, _num(k, 0.0)), x, re)
    return k.copysign(re, x), k.copysign(im, y)


def _acos(k: Builder, x: Value, y: Value) -> Pair:
    _, co, im = _arcs(k, k.abs(x), k.abs(y))
    left = k.lt(x, _num(k, 0.0))
    return k.select(left, k.sub(_num(k, math.pi), co), co), k.neg(k.copysign(im, y))


def _atanh(k: Builder, x: Value, y: Value) -> Pair:
    a, b = k.abs(x), k.abs(y)
    one = _num(k, 1.0)
    huge = k.gt(k.max(a, b), _num(k, _HUGE))
    u, v = where(k, huge, 2.0, a), where(k, huge, 2.0, b)
    less, more = k.sub(one, u), k.add(one, u)
    square = k.mul(v, v)
    ratio = k.div(k.mul(u, _num(k, 4.0)), k.add(k.mul(less, less), square))
    re = k.mul(real.log1p(k, ratio), _num(k, 0.25))
    im = k.mul(real.atan2(k, k.add(v, v), k.sub(k.mul(less, more), square)), _num(k, 0.5))
    # at 1 and next to it along the imaginary axis
    close = k.and_(k.eq(a, one), k.lt(b, _num(k, 2.0**-60)))
    re = k.select(close, k.mul(k.sub(_num(k, math.log(2.0)), real.log(k, b)), _num(k, 0.5)), re)
    # x / abs(z)**2 far out
    high, low = k.max(a, b), k.min(a, b)
    slope = k.div(low, high)
    bent = k.add(one, k.mul(slope, slope))
    far = k.div(k.div(k.select(k.ge(a, b), one, slope), high), bent)
    re, im = k.select(huge, far, re), where(k, huge, math.pi / 2, im)
    endless = k.or_(_infinite(k, a), _infinite(k, b))
    re = where(k, endless, 0.0, re)
    unknown = k.and_(k.isnan(b), k.not_(_infinite(k, a)))
    im = where(k, k.and_(endless, k.not_(unknown)), math.pi / 2, im)
    im = k.select(k.isnan(b), b, im)
    re = k.select(k.eq(x, _num(k, 0.0)), x, re)
    return k.copysign(re, x), k.copysign(im, y)


asin = _in_double(lambda k, x, y: _asin(k, x, _positive(k, y)))
acos = _in_double(lambda k, x, y: _acos(k, x, _positive(k, y)))
asinh = _in_double(lambda k, x, y: _turned(_asin)(k, _positive(k, x), y))
atanh, atan = _in_double(_atanh), _in_double(_turned(_atanh))


@_in_double
def acosh(k: Builder, x: Value, y: Value) -> Pair:
    """acos turned to the right half plane."""
    y = _positive(k, y)
    re, im = _acos(k, x, y)
    return k.abs(im), k.copysign(re, y)


@_in_double
def atan2(k: Builder, yr: Value, yi: Value, xr: Value, xi: Value) -> Pair:
    """-i log((x + iy) / sqrt(x**2 + y**2))."""
    x, y = Parts(_C128, (xr, xi)), Parts(_C128, (yr, yi))
    squares = [mul(k, z, z).parts for z in (x, y)]
    total = tuple(k.add(a, b) for a, b in zip(*squares, strict=True))
    above = Parts(_C128, (k.sub(xr, yi), k.add(xi, yr)))
    re, im = logarithm(k, div(k, above, Parts(_C128, _root(k, *total)))).parts
    return im, k.neg(re)


# --- powers ---------------------------------------------------------------------------------------


@_in_double
def power(k: Builder, x: Value, y: Value, a: Value, b: Value) -> Pair:
    """exp(w log z), with 1 for any z**0 and 0 for 0**w where the real part of w is positive.

    An infinite z has no direction: its powers are NaN, but for those of positive real infinity and
    by positive integers.
    """
    zero, infinity = _num(k, 0.0), _num(k, math.inf)
    z, w = Parts(_C128, (x, y)), Parts(_C128, (a, b))
    size, angle = logarithm(k, z).parts
    flat = k.eq(b, zero)
    re = k.sub(k.mul(a, size), k.select(flat, zero, k.mul(b, angle)))
    im = k.add(k.mul(a, angle), k.select(flat, zero, k.mul(b, size)))
    out = exponential(k, Parts(w.dtype, (re, im))).parts
    none = k.and_(k.eq(x, zero), k.eq(y, zero))
    nothing = k.and_(k.eq(a, zero), flat)
    falls = k.and_(none, k.gt(a, zero))
    forward = k.and_(k.eq(x, infinity), k.eq(y, zero))
    counted = k.and_(k.eq(k.trunc(a), a), k.gt(a, zero))
    lost = k.and_(k.eq(size, infinity), k.and_(flat, k.not_(k.or_(forward, counted))))
    undefined = k.or_(none, lost)
    re = where(k, undefined, math.nan, out[0])
    im = where(k, undefined, math.nan, out[1])
    re, im = where(k, falls, 0.0, re), where(k, falls, 0.0, im)
    return where(k, nothing, 1.0, re), where(k, nothing, 0.0, im)
