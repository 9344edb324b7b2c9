"""Error functions, the normal distribution, entropies and power transforms of ``scipy.special``."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.api.jit import jit
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.kernel.special_tables import ERFCX, ERFCX_SINGLE
from weft.numpy.operands import arraylike, inexact, is_complex, real, strong
from weft.numpy.promotion import promote_dtypes_complex
from weft.scipy import special_tables as tables
from weft.scipy.series import chebyshev, horner, in_single

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def erf(x: Any) -> Array:
    """Return the error function.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import erf
        >>> round(float(erf(1.0)), 4)
        0.8427
    """
    (x,) = inexact("erf", x)
    return lax.erf(x)


def erfc(x: Any) -> Array:
    """Return the complement of the error function, 1 - erf(x), without cancellation.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import erfc
        >>> round(float(erfc(1.0)), 4)
        0.1573
    """
    (x,) = inexact("erfc", x)
    return lax.erfc(x)


def erfinv(x: Any) -> Array:
    """Return the inverse of the error function.

    Args:
        x: where to evaluate it, between -1 and 1.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import erfinv
        >>> round(float(erfinv(0.5)), 4)
        0.4769
    """
    (x,) = inexact("erfinv", x)
    return lax.erf_inv(x)


def _erfcx_right(x: Any) -> Any:
    """exp(x²) erfc(x) for x >= 0."""
    kind = x.dtype.type
    mapped = jnp.where(x == np.inf, 1, (x - kind(3)) / (x + kind(3)))
    if x.dtype == np.float32:
        return horner(mapped, ERFCX_SINGLE) / (3 * x + kind(1.5))
    return horner(mapped, ERFCX) / (1 + 2 * x)


@custom_jvp
@in_single
def _erfcx(x: Any) -> Any:
    right = _erfcx_right(jnp.abs(x))
    return jnp.where(x < 0, 2 * jnp.exp(jnp.square(x)) - right, right)


_erfcx.defjvps(lambda g, out, x: g * (2 * x * out - out.dtype.type(_TWO_OVER_SQRT_PI)))


@functools.cache
def _weideman(terms: int) -> tuple[float, list[float]]:
    """Scale and coefficients of Weideman's series of w(z) (SIAM J. Numer. Anal. 31, 1994)."""
    size, scale = 4 * terms, math.sqrt(terms / math.sqrt(2))
    angle = np.pi * np.arange(-size + 1, size) / size
    t = scale * np.tan(angle / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    transform = np.real(np.fft.fft(np.fft.fftshift(values))) / (2 * size)
    return scale, transform[1 : terms + 1][::-1].tolist()


def _wofz_up(z: Any) -> Any:
    """w(z) for Im z >= 0."""
    scale, coefficients = _weideman(40 if z.dtype == np.complex128 else 24)
    turned = 1j * z
    below = scale - turned
    series = horner((scale + turned) / below, coefficients)
    return 2 * series / (below * below) + (1 / math.sqrt(math.pi)) / below


@custom_jvp
def _wofz(z: Any) -> Any:
    z = jnp.asarray(z)
    above = jnp.imag(z) >= 0
    up = _wofz_up(jnp.where(above, z, -z))
    return jnp.where(above, up, 2 * jnp.exp(-z * z) - up)


_wofz.defjvps(lambda g, out, z: g * (1j * _TWO_OVER_SQRT_PI - 2 * z * out))


def wofz(z: Any) -> Array:
    """Return the Faddeeva function exp(-z²) erfc(-iz).

    Args:
        z: where to evaluate it, complex numbers.

    Returns:
        A complex array of the shape of ``z``.

    Example:
        >>> from weft.scipy.special import wofz
        >>> round(complex(wofz(1j)).real, 4)
        0.4276
    """
    (z,) = inexact("wofz", z)
    (z,) = promote_dtypes_complex(z)
    return _wofz(jnp.asarray(z))


def erfcx(x: Any) -> Array:
    """Return exp(x²) erfc(x), without overflow.

    Args:
        x: where to evaluate it, real or complex.

    Returns:
        A float or complex array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import erfcx
        >>> round(float(erfcx(10.0)), 4)
        0.0561
    """
    (x,) = inexact("erfcx", x)
    return _wofz(1j * x) if is_complex(x) else _erfcx(x)


@custom_jvp
@in_single
def _dawsn(x: Any) -> Any:
    size = jnp.abs(x)
    square = jnp.square(jnp.minimum(size, 5))
    near = size * chebyshev(square, 0, 6.25, tables.DAWSON_NEAR)
    middle = chebyshev(size, 2.5, 5, tables.DAWSON_MIDDLE)
    outer = jnp.maximum(size, 2.5)
    far = chebyshev(1 / outer / outer, 0, 0.04, tables.DAWSON_FAR)
    value = jnp.where(size < 2.5, near, jnp.where(size < 5, middle, far) * 0.5 / outer)
    return jnp.where(x < 0, -value, value)


_dawsn.defjvps(lambda g, out, x: g * (1 - 2 * x * out))


def dawsn(x: Any) -> Array:
    """Return Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        An array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import dawsn
        >>> round(float(dawsn(1.0)), 4)
        0.5381
    """
    (x,) = real("dawsn", x)
    return _dawsn(x)


# The logistic and normal distributions.


@custom_jvp
def logit(x: Any) -> Array:
    """Return log(x / (1 - x)).

    Args:
        x: probabilities, between 0 and 1.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import logit
        >>> float(logit(0.5))
        0.0
    """
    (x,) = inexact("logit", x)
    if is_complex(x):
        return jnp.log(x / (1 - x))
    (x,) = strong("logit", x)
    # Around its root at 1/2 the quotient x / (1 - x) would round what the logarithm is made of.
    right = x >= 0.5
    side = jnp.where(right, 1 - x, x)
    info = dtypes.finfo(x.dtype)
    denormal = abs(side) < info.tiny
    raised = jnp.where(denormal, side * 2.0**info.nmant, side)
    # -0 is 0 here
    value = jnp.log1p(jnp.where(side == 0, np.inf, abs(2 * x - 1) / raised))
    value = jnp.where(denormal, value + info.nmant * math.log(2), value)
    return jnp.where(right, value, -value)


logit.defjvps(lambda g, out, x: g / (x * (1 - x)))


def expit(x: Any) -> Array:
    """Return 1 / (1 + exp(-x)), the inverse of logit.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the shape of ``x``, between 0 and 1.

    Example:
        >>> from weft.scipy.special import expit
        >>> float(expit(0.0))
        0.5
    """
    (x,) = inexact("expit", x)
    return lax.logistic(x)


def _single_or_double(name: str, x: Any) -> Array:
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"{name} takes float32 or float64, got {x.dtype}: convert with astype(jnp.float32)"
        )
    return x


def ndtr(x: Any) -> Array:
    """Return the distribution function of the standard normal distribution.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the shape of ``x``, between 0 and 1.

    Example:
        >>> from weft.scipy.special import ndtr
        >>> float(ndtr(0.0))
        0.5
    """
    return _ndtr(_single_or_double("ndtr", x))


def _ndtr(x: Any) -> Any:
    w = x * x.dtype.type(math.sqrt(0.5))
    size = jnp.abs(w)
    tail = 0.5 * lax.erfc(size)
    return jnp.where(size < 1, 0.5 + 0.5 * lax.erf(w), jnp.where(w > 0, 1 - tail, tail))


def ndtri(p: Any) -> Array:
    """Return the quantiles of the standard normal distribution: the inverse of ndtr.

    Args:
        p: probabilities, between 0 and 1.

    Returns:
        A float array of the shape of ``p``.

    Example:
        >>> from weft.scipy.special import ndtri
        >>> round(float(ndtri(0.975)), 4)
        1.96
    """
    return _ndtri(_single_or_double("ndtri", arraylike("ndtri", p)))


@custom_jvp
def _ndtri(p: Any) -> Any:
    p = jnp.asarray(p)
    kind = p.dtype.type
    edge = kind(math.exp(-2))
    upper = p > 0.5
    side = jnp.where(upper, 1 - p, p)
    z = jnp.sqrt(-2 * jnp.log(jnp.minimum(side, edge)))
    if p.dtype == np.float32:
        middle = p - kind(0.5)
        middle = middle * horner(jnp.square(middle), tables.NDTRI_CENTRE_SINGLE)
        tail = z * horner(1 / z - kind(0.28), tables.NDTRI_TAIL_SINGLE)
    else:
        middle = lax.erf_inv(2 * p - 1) * kind(math.sqrt(2))
        near = chebyshev(z, 2, 4, tables.NDTRI_2)
        far = chebyshev(z, 4, 9, tables.NDTRI_4)
        last = chebyshev(1 / z, 1 / 39, 1 / 9, tables.NDTRI_FAR)
        tail = z * jnp.where(z < 4, near, jnp.where(z < 9, far, last))
    tail = jnp.where(side == 0, kind(np.inf), tail)
    value = jnp.where(side > edge, middle, jnp.where(upper, tail, -tail))
    return jnp.where((p >= 0) & (p <= 1), value, kind(np.nan))


_ndtri.defjvps(lambda g, out, p: g * math.sqrt(2 * math.pi) * jnp.exp(0.5 * jnp.square(out)))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def log_ndtr(x: Any, series_order: int = 3) -> Array:
    """Return the logarithm of ndtr, accurate in both tails.

    Args:
        x: where to evaluate it; numbers or arrays.
        series_order: accepted for JAX, no effect: the tail is computed to full precision.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import log_ndtr
        >>> round(float(log_ndtr(-20.0)), 3)
        -203.917
    """
    if not isinstance(series_order, int):
        raise TypeError(f"log_ndtr needs an int as series_order, got {series_order!r}")
    if not 0 <= series_order <= 30:
        raise ValueError(f"log_ndtr needs series_order between 0 and 30, got {series_order}")
    return _log_ndtr(_single_or_double("log_ndtr", x))


@jit
def _log_ndtr(x: Any) -> Array:
    w = x * x.dtype.type(math.sqrt(0.5))
    left = jnp.minimum(w, -0.5)
    lower = jnp.log(0.5 * _erfcx_right(-left)) - jnp.square(left)
    upper = jnp.log1p(-0.5 * lax.erfc(jnp.maximum(w, -0.5)))
    return jnp.where(w < -0.5, lower, upper)


@log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    out = log_ndtr(x, series_order)
    density = -0.5 * jnp.square(x) - 0.5 * math.log(2 * math.pi)
    return out, dx * jnp.exp(density - out)


@functools.cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Squared points and weights on [0, 1] of Gauss's rule for even functions."""
    points, weights = np.polynomial.legendre.leggauss(26)
    return points[13:] ** 2, weights[13:] / (2 * math.pi)


def _owens_inner(h: Any, a: Any) -> Any:
    """T(h, a) for h >= 0, 0 <= a <= 1, by quadrature (Patefield and Tandy, 2000, method T5)."""
    total = jnp.zeros_like(h)
    for square, weight in zip(*_quadrature(), strict=True):
        spread = 1 + a * a * h.dtype.type(square)
        total = total + h.dtype.type(weight) * jnp.exp(-0.5 * h * h * spread) / spread
    return a * total


@custom_jvp
def _owens_t(h: Any, a: Any) -> Any:
    a, h, size = jnp.asarray(a), jnp.abs(h), jnp.abs(a)
    wide = size > 1
    inner_a = jnp.where(wide, 1 / jnp.where(wide, size, 1), size)
    inner_h = jnp.where(wide, jnp.where(h == 0, 0, size * h), h)
    inner = _owens_inner(inner_h, inner_a)
    root = h.dtype.type(math.sqrt(0.5))
    left, right = h * root, inner_h * root
    # T(h, a) = (P(h) + P(ah)) / 2 - P(h) P(ah) - T(ah, 1/a), P being the upper or lower tail.
    low = 0.25 - 0.25 * lax.erf(left) * lax.erf(right)
    tail, tail_a = lax.erfc(left), lax.erfc(right)
    high = 0.25 * (tail + tail_a - tail * tail_a)
    value = jnp.where(wide, jnp.where(inner_h <= 0.67, low, high) - inner, inner)
    return jnp.sign(a) * jnp.where(jnp.isnan(h), h, value)


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    (h, a), (dh, da) = primals, tangents
    out = _owens_t(h, a)
    root = out.dtype.type(math.sqrt(0.5))
    by_h = -jnp.exp(-0.5 * h * h) * lax.erf(a * h * root) / (2 * math.sqrt(2 * math.pi))
    spread = 1 + a * a
    by_a = jnp.exp(-0.5 * spread * h * h) / (2 * math.pi * spread)
    return out, (by_h * dh + by_a * da).astype(out.dtype)


def owens_t(h: Any, a: Any) -> Array:
    """Return Owen's T function: the chance that X > h and 0 < Y < aX, X and Y standard normal.

    Args:
        h: the bound of X.
        a: the slope of the bound of Y.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import owens_t
        >>> float(owens_t(0.0, 1.0))
        0.125
    """
    h, a = jnp.broadcast_arrays(*real("owens_t", h, a))
    if dtypes.finfo(h.dtype).bits < 32:
        h, a = h.astype(np.float32), a.astype(np.float32)
    return _owens_t(h, a)


# Entropies and power transforms.


@custom_jvp
def xlogy(x: Any, y: Any) -> Array:
    """Return x log(y), and 0 where x is 0.

    Args:
        x: the factor.
        y: the argument of the logarithm, which broadcasts against ``x``.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import xlogy
        >>> float(xlogy(0.0, 0.0))
        0.0
    """
    x, y = inexact("xlogy", x, y)
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log(y), 0)


@xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    out = xlogy(x, y)
    return out, (dx * jnp.log(y) + dy * x / y).astype(out.dtype)


@custom_jvp
def xlog1py(x: Any, y: Any) -> Array:
    """Return x log(1 + y), and 0 where x is 0.

    Args:
        x: the factor.
        y: the argument of the logarithm minus 1, which broadcasts against ``x``.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import xlog1py
        >>> float(xlog1py(0.0, -1.0))
        0.0
    """
    x, y = inexact("xlog1py", x, y)
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log1p(y), 0)


@xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    out = xlog1py(x, y)
    return out, (dx * jnp.log1p(y) + dy * x / (1 + y)).astype(out.dtype)


@custom_jvp
def _xlogx(x: Any) -> Any:
    return xlogy(x, x)


_xlogx.defjvps(lambda g, out, x: g * (jnp.log(x) + 1))


def entr(x: Any) -> Array:
    """Return -x log(x), with 0 at 0 and -inf below: the terms of the entropy.

    Args:
        x: probabilities.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import entr
        >>> float(entr(1.0)), float(entr(-1.0))
        (-0.0, -inf)
    """
    (x,) = real("entr", x)
    return jnp.where(x < 0, -np.inf, -_xlogx(x))


def rel_entr(p: Any, q: Any) -> Array:
    """Return p log(p / q), the terms of the relative entropy; infinite where it is undefined.

    Args:
        p: probabilities.
        q: probabilities to compare with.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import rel_entr
        >>> float(rel_entr(0.0, 1.0)), float(rel_entr(1.0, 0.0))
        (0.0, inf)
    """
    p, q = strong("rel_entr", p, q)
    both = (p > 0) & (q > 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    terms = _xlogx(safe_p) - xlogy(safe_p, safe_q)
    return jnp.where(both, terms, jnp.where((p == 0) & (q >= 0), 0, np.inf))


def kl_div(p: Any, q: Any) -> Array:
    """Return p log(p / q) - p + q, the terms of the Kullback-Leibler divergence.

    Args:
        p: probabilities.
        q: probabilities to compare with.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import kl_div
        >>> float(kl_div(2.0, 2.0))
        0.0
    """
    p, q = strong("kl_div", p, q)
    return rel_entr(p, q) - p + q


def boxcox(x: Any, lmbda: Any) -> Array:
    """Return (x^lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    Args:
        x: the data, not negative.
        lmbda: the exponent.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import boxcox
        >>> round(float(boxcox(3.0, 2.0)), 4)
        4.0
    """
    x, lmbda = inexact("boxcox", x, lmbda)
    return _power_transform(jnp.log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Array:
    """Return ((1 + x)^lmbda - 1) / lmbda, and log(1 + x) where lmbda is 0.

    Args:
        x: the data, at least -1.
        lmbda: the exponent.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import boxcox1p
        >>> round(float(boxcox1p(2.0, 2.0)), 4)
        4.0
    """
    x, lmbda = inexact("boxcox1p", x, lmbda)
    return _power_transform(jnp.log1p(x), lmbda)


def _power_transform(log: Any, lmbda: Any) -> Any:
    flat = lmbda == 0
    safe = jnp.where(flat, 1, lmbda)
    return jnp.where(flat, log, jnp.expm1(safe * log) / safe)
