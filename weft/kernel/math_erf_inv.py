"""The inverse error function of float32 as XLA evaluates it, so that normal numbers are JAX's.

Giles, "Approximating the erfinv function" (2010): polynomials in ``w = -log(1 - x**2)``, with the
logarithm by a rational function near 0 and by Cephes' polynomial elsewhere. Every rounding is
XLA's.
"""

from __future__ import annotations

import math

import numpy as np

from weft.kernel.build import Builder
from weft.kernel.erf_inv_tables import CENTRE, LOG1P_P, LOG1P_Q, LOG_P, TAIL
from weft.kernel.nodes import F32, I32, Value

_SMALL = math.sqrt(2.0) - 1.0
_HALF_ROOT = float(np.float32(np.sqrt(0.5)))


def erf_inv_single(k: Builder, x: Value) -> Value:
    """The inverse of erf; infinite at 1 and -1, NaN beyond."""
    one = k.like(x, 1.0)
    square = k.mul(x, x)
    y = k.neg(square)
    near = _log1p(k, y)
    far = _log(k, k.add(one, y))
    w = k.neg(k.select(k.lt(square, k.like(x, _SMALL)), near, far))
    centre, tail = k.sub(w, k.like(x, 2.5)), k.sub(k.sqrt(w), k.like(x, 3.0))
    # of numbers from -1 to 1, one in three hundred
    outer = k.not_(k.lt(w, k.like(x, 5.0)))
    y = k.rarely(outer, k.horner(tail, TAIL), k.horner(centre, CENTRE))
    size = k.abs(x)
    edge = k.select(k.eq(size, one), k.copysign(k.like(x, math.inf), x), k.like(x, math.nan))
    return k.select(k.lt(size, one), k.mul(y, x), edge)


def _log1p(k: Builder, x: Value) -> Value:
    square = k.mul(x, x)
    ratio = k.div(k.horner(x, LOG1P_P), k.horner(x, LOG1P_Q))
    rest = k.mul(k.mul(x, square), ratio)
    return k.add(x, k.add(k.mul(k.like(x, -0.5), square), rest))


def _log(k: Builder, x: Value) -> Value:
    """Of a positive normal number."""
    bits = k.bitcast(x, I32)
    exponent = k.sub(k.ashr(bits, k.const(23, I32)), k.const(126, I32))
    fraction = k.or_(k.and_(bits, k.const(0x7FFFFF, I32)), k.const(0x3F000000, I32))
    mantissa = k.bitcast(fraction, F32)
    low = k.lt(mantissa, k.like(x, _HALF_ROOT))
    e = k.cast(k.sub(exponent, k.select(low, k.const(1, I32), k.const(0, I32))), F32)
    z = k.sub(k.select(low, k.add(mantissa, mantissa), mantissa), k.like(x, 1.0))
    square = k.mul(z, z)
    cube = k.mul(square, z)
    first, second, third = (k.horner(z, LOG_P[i : i + 3]) for i in (0, 3, 6))
    poly = k.fma(k.fma(first, cube, second), cube, third)
    rest = k.fma(poly, cube, k.mul(k.like(x, -2.12194440e-4), e))
    main = k.fma(square, k.like(x, -0.5), z)
    return k.fma(e, k.like(x, 0.693359375), k.add(rest, main))
