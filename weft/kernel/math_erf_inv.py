"""The inverse error function of float32 as XLA evaluates it, so that normal numbers are JAX's.

Giles, "Approximating the erfinv function" (2010): polynomials in ``w = -log(1 - x**2)``, with the
logarithm by a rational function near 0 and by Cephes' polynomial elsewhere. Every rounding is
XLA's; `weft.prims.erf_inv_reference` is the same in NumPy.
"""

from __future__ import annotations

import math

import numpy as np

from weft.kernel.build import Builder
from weft.kernel.nodes import F32, I32, Value

_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip

# log1p(x) = x - x^2 / 2 + x^3 P(x) / Q(x), from Cephes.
_LOG1P_P = (
    4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969,
    2.9911919328553073277375e1, 6.0949667980987787057556e1, 5.7112963590585538103336e1,
    2.0039553499201281259648e1,
)  # fmt: skip
_LOG1P_Q = (
    1.0, 1.5062909083469192043167e1, 8.3047565967967209469434e1, 2.2176239823732856465394e2,
    3.0909872225312059774938e2, 2.1642788614495947685003e2, 6.0118660497603843919306e1,
)  # fmt: skip
# log(1 + x) likewise, in three interleaved parts.
_LOG_P = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
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
    central = k.lt(w, k.like(x, 5.0))
    centre, tail = k.sub(w, k.like(x, 2.5)), k.sub(k.sqrt(w), k.like(x, 3.0))
    t = k.select(central, centre, tail)
    y = k.select(central, k.horner(t, _CENTRE), k.horner(t, _TAIL))
    size = k.abs(x)
    edge = k.select(k.eq(size, one), k.copysign(k.like(x, math.inf), x), k.like(x, math.nan))
    return k.select(k.lt(size, one), k.mul(y, x), edge)


def _log1p(k: Builder, x: Value) -> Value:
    square = k.mul(x, x)
    ratio = k.div(k.horner(x, _LOG1P_P), k.horner(x, _LOG1P_Q))
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
    first, second, third = (k.horner(z, _LOG_P[i : i + 3]) for i in (0, 3, 6))
    poly = k.fma(k.fma(first, cube, second), cube, third)
    rest = k.fma(poly, cube, k.mul(k.like(x, -2.12194440e-4), e))
    main = k.fma(square, k.like(x, -0.5), z)
    return k.fma(e, k.like(x, 0.693359375), k.add(rest, main))
