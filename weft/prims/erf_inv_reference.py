"""The inverse error function as XLA evaluates it, so that normal random numbers are JAX's.

Giles, "Approximating the erfinv function" (2010): polynomials in ``w = -log(1 - x ** 2)``. Both
the logarithm (a rational function near 0, Cephes' polynomial elsewhere) and the rounding after
each fused multiply-add are XLA's: in float32 the result is its result to the bit, in float64
within 2 ULP. Towards 1 that is less exact than the function itself, by the rounding of ``x ** 2``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.kernel.erf_inv_tables import CENTRE, LOG1P_P, LOG1P_Q, LOG_P, TAIL
from weft.prims.special_reference import polynomial

Array = np.ndarray

_CENTRE_64 = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)  # fmt: skip
_MIDDLE_64 = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)  # fmt: skip
_TAIL_64 = (
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)  # fmt: skip

_SMALL = np.sqrt(2.0) - 1.0


def fma(a: Array, b: Any, c: Any) -> Array:
    """``a * b + c`` of float32 arrays, rounded once: products of them are exact in float64."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def _fused_polynomial(t: Array, coefficients: Sequence[float]) -> Array:
    total = np.full_like(t, coefficients[0])
    for c in coefficients[1:]:
        total = fma(total, t, np.float32(c))
    return total


def _log1p_small(x: Array, evaluate: Callable[[Array, Sequence[float]], Array]) -> Array:
    square = x * x
    rest = x * square * (evaluate(x, LOG1P_P) / evaluate(x, LOG1P_Q))
    return x + (x.dtype.type(-0.5) * square + rest)


def _log_32(x: Array) -> Array:
    """Cephes' logf, evaluated in three interleaved parts."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < np.float32(np.sqrt(0.5))
    e = (exponent - low).astype(np.float32)
    z = np.where(low, mantissa + mantissa, mantissa) - np.float32(1)
    square = z * z
    cube = square * z
    parts = [_fused_polynomial(z, LOG_P[i : i + 3]) for i in (0, 3, 6)]
    poly = fma(fma(parts[0], cube, parts[1]), cube, parts[2])
    rest = fma(poly, cube, np.float32(-2.12194440e-4) * e)
    main = fma(square, np.float32(-0.5), z)
    return fma(e, np.float32(0.693359375), rest + main)


def _with_edges(x: Array, scale: Array) -> Array:
    size = np.abs(x)
    edge = np.where(size == 1, np.copysign(x.dtype.type(np.inf), x), x.dtype.type(np.nan))
    return np.where(size < 1, scale * x, edge)


def _erf_inv_32(x: Array) -> Array:
    y = -(x * x)
    small = -y < np.float32(_SMALL)
    w = -np.where(small, _log1p_small(y, _fused_polynomial), _log_32(np.float32(1) + y))
    central = w < 5
    t = np.where(central, w - np.float32(2.5), np.sqrt(w) - np.float32(3))
    scale = np.where(central, _fused_polynomial(t, CENTRE), _fused_polynomial(t, TAIL))
    return _with_edges(x, scale)


def _erf_inv_64(x: Array) -> Array:
    y = -(x * x)
    w = -np.where(-y < _SMALL, _log1p_small(y, polynomial), np.log(1 + y))
    root = np.sqrt(w)
    central = polynomial(np.where(w < 6.25, w, 0.0) - 3.125, _CENTRE_64)
    middle = polynomial(np.where(w < 16, root, 0.0) - 3.25, _MIDDLE_64)
    scale = np.where(w < 6.25, central, np.where(w < 16, middle, polynomial(root - 5, _TAIL_64)))
    return _with_edges(x, scale)


def erf_inv(x: Array) -> Array:
    """The inverse error function; narrow floats by way of float32."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if x.dtype == np.float64:
            return _erf_inv_64(x)
        return _erf_inv_32(x.astype(np.float32)).astype(x.dtype)
