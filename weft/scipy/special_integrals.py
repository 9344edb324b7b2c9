"""Exponential, sine, cosine and Fresnel integrals and the dilogarithm of ``scipy.special``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.numpy.operands import real
from weft.scipy import special_tables as tables
from weft.scipy.series import chebyshev, in_single

_EULER = 0.5772156649015329


# Exponential integrals.


@custom_jvp
@in_single
def _exp1(x: Any) -> Any:
    near = x * chebyshev(x, 0, 1, tables.EIN) - _EULER - jnp.log(x)
    far = jnp.exp(-x) / x * chebyshev(1 / (x + 3), 0, 0.25, tables.EXP1_FAR)
    value = jnp.where(x <= 1, near, far)
    return jnp.where(x == np.inf, 0, value)


_exp1.defjvps(lambda g, out, x: -g * jnp.where(x < 0, np.nan, jnp.exp(-x) / x))


def exp1(x: Any) -> Array:
    """Return the integral of exp(-t) / t from x to infinity; NaN for negative x.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import exp1
        >>> round(float(exp1(1.0)), 4)
        0.2194
    """
    (x,) = real("exp1", x)
    return _exp1(x)


@custom_jvp
@in_single
def _expi(x: Any) -> Any:
    size = jnp.abs(x)
    kind = x.dtype.type
    # Through its root the function is a logarithm and a smooth part, both zero there.
    away = (size - kind(tables.EI_ROOT)) - kind(tables.EI_ROOT_LOW)
    root = kind(tables.EI_ROOT)
    log = jnp.where(size < 0.5 * root, jnp.log(size / root), jnp.log1p(away / root))
    near = log + away * chebyshev(size, 0, 4, tables.EI_NEAR)
    inverse = 1 / size
    ratio = chebyshev(inverse, 0, 1 / 40, tables.EI_40)
    for low, high, table in (
        (16, 40, tables.EI_16),
        (8, 16, tables.EI_8),
        (4, 8, tables.EI_4),
    ):
        ratio = jnp.where(size < high, chebyshev(inverse, 1 / high, 1 / low, table), ratio)
    # Half the exponential at a time: it overflows before the quotient does.
    half = jnp.exp(0.5 * size)
    far = half / size * ratio * half
    far = jnp.where(size == np.inf, np.inf, far)
    value = jnp.where(size == 0, -np.inf, jnp.where(size < 4, near, far))
    return jnp.where(x < 0, -_exp1(size), value)


_expi.defjvps(lambda g, out, x: g * jnp.exp(x) / x)


def expi(x: Any) -> Array:
    """Return the exponential integral Ei, the principal value of exp(t) / t up to x.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import expi
        >>> round(float(expi(1.0)), 4)
        1.8951
    """
    (x,) = real("expi", x)
    return _expi(x)


def _expn_sums(n: Any, x: Any, order: Any, y: Any) -> tuple[Any, Any]:
    """The sum in E_n(x) for 0 < x <= 1 (DLMF 8.19.8), and exp(y) E_order(y) for y > 1 or large
    orders, by a continued fraction (DLMF 8.19.17); both from their last terms.

    The fraction has so many terms that it is right from 1 on; beyond, fewer would do.
    """
    terms = 28 if x.dtype == np.float32 else 100

    def step(i: Any, tails: Any) -> Any:
        k = jnp.asarray(terms - i, x.dtype)
        divisor = k - n
        weight = jnp.where(divisor == 0, 0, 1 / jnp.where(divisor == 0, 1, divisor))
        fraction = k * (order - 1 + k) / (y + order + 2 * k - tails[1])
        return weight - x / k * tails[0], fraction

    zeros = jnp.zeros_like(x + n), jnp.zeros_like(y + order)
    total, fraction = lax.fori_loop(0, terms, step, zeros)
    return -total, 1 / (y + order - fraction)


@in_single
def _expn_value(n: Any, x: Any) -> Any:
    series = (n >= 1) & (n < 30) & (x > 0) & (x <= 1)
    # orders are often one number for all x: what is made of them alone stays one number
    few, order = jnp.where((n >= 1) & (n < 30), n, 1), jnp.where(n >= 1, n, 1)
    near, far = jnp.where(series, x, 1), jnp.where((n >= 1) & (x > 0) & ~series, x, 2)
    total, fraction = _expn_sums(few, near, order, far)
    log = jnp.log(near)
    odd = jnp.where((few - 1) % 2 == 0, 1, -1)
    power = odd * jnp.exp((few - 1) * log - lax.lgamma(few))
    small = power * (lax.digamma(few) - log) + total
    value = jnp.where(series, small, fraction * jnp.exp(-far))
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    at_zero = jnp.where(n < 2, np.inf, 1 / jnp.where(n < 2, 1, n - 1))
    value = jnp.where(x == 0, at_zero, value)
    return jnp.where((n < 0) | (x < 0) | jnp.isnan(x), np.nan, value)


@custom_jvp
def _expn(n: Any, x: Any) -> Any:
    return _expn_value(n, x)


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    (n, x), (_, dx) = primals, tangents
    out = _expn(n, x)
    below = jnp.where(n == 0, out * (1 + 1 / x), _expn(jnp.maximum(n - 1, 0), x))
    return out, -below * dx


def expn(n: Any, x: Any) -> Array:
    """Return the generalised exponential integral, that of exp(-xt) / t^n from 1 to infinity.

    Args:
        n: the order, a whole number that is not negative.
        x: where to evaluate it, not negative.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import expn
        >>> round(float(expn(2, 1.0)), 4)
        0.1485
    """
    n, x = real("expn", jnp.asarray(n), jnp.asarray(x))
    return _expn(n, x) if np.ndim(n) == 0 else _expn(*jnp.broadcast_arrays(n, x))


# Sine and cosine integrals.


@custom_jvp
@in_single
def _sici(x: Any) -> Any:
    size = jnp.abs(x)
    square = jnp.square(jnp.minimum(size, 4))
    near_si = size * chebyshev(square, 0, 16, tables.SI_NEAR)
    near_ci = square * chebyshev(square, 0, 16, tables.CI_NEAR) + jnp.log(size) + _EULER
    outer = jnp.maximum(size, 4)
    inverse = 1 / (outer + 4)
    f = chebyshev(inverse, 0, 0.125, tables.SICI_F) / outer
    g = chebyshev(inverse, 0, 0.125, tables.SICI_G) / outer / outer
    wave = jnp.where(size == np.inf, 0, outer)
    sine, cosine = jnp.sin(wave), jnp.cos(wave)
    far_si, far_ci = np.pi / 2 - f * cosine - g * sine, f * sine - g * cosine
    si = jnp.where(size < 4, near_si, far_si)
    ci = jnp.where(size < 4, near_ci, far_ci)
    return jnp.where(x < 0, -si, si), jnp.where(x == -np.inf, np.nan, ci)


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return _sici(x), (jnp.sinc(x / np.pi) * dx, jnp.cos(x) / x * dx)


def sici(x: Any) -> tuple[Array, Array]:
    """Return the sine integral Si and the cosine integral Ci.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        Two float arrays of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import sici
        >>> si, ci = sici(1.0)
        >>> round(float(si), 4), round(float(ci), 4)
        (0.9461, 0.3374)
    """
    (x,) = real("sici", x)
    return _sici(x)


# Fresnel integrals.


@custom_jvp
@in_single
def _fresnel(x: Any) -> Any:
    size = jnp.abs(x)
    square = jnp.square(size)
    near = square < 2.5
    fourth = jnp.square(jnp.where(near, square, 0))
    near_s = size * square * chebyshev(fourth, 0, 6.25, tables.FRESNEL_S_NEAR)
    near_c = size * chebyshev(fourth, 0, 6.25, tables.FRESNEL_C_NEAR)
    outer, outer_square = jnp.where(near, 2, size), jnp.where(near, 4, square)
    inverse = 1 / (outer_square + 3)
    f = chebyshev(inverse, 0, 1 / 5.5, tables.FRESNEL_F) / outer
    g = chebyshev(inverse, 0, 1 / 5.5, tables.FRESNEL_G) / outer / outer_square
    angle = (np.pi / 2) * jnp.where(outer_square == np.inf, 0, outer_square % 4)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    s = jnp.where(near, near_s, 0.5 - f * cosine - g * sine)
    c = jnp.where(near, near_c, 0.5 + f * sine - g * cosine)
    return jnp.where(x < 0, -s, s), jnp.where(x < 0, -c, c)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    angle = (np.pi / 2) * (jnp.square(x) % 4)
    return _fresnel(x), (jnp.sin(angle) * dx, jnp.cos(angle) * dx)


def fresnel(x: Any) -> tuple[Array, Array]:
    """Return the Fresnel integrals S and C of sin(pi t² / 2) and cos(pi t² / 2) from 0 to x.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        Two float arrays of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import fresnel
        >>> s, c = fresnel(1.0)
        >>> round(float(s), 4), round(float(c), 4)
        (0.4383, 0.7799)
    """
    (x,) = real("fresnel", x)
    return _fresnel(x)


# The dilogarithm.


@custom_jvp
def _spence(x: Any) -> Any:
    large = x > 1.5
    y = jnp.where(large, 1 / jnp.where(large, x, 1), x)
    small = y < 0.5
    w = jnp.where(small, 1 - y, y)
    base = (w - 1) * chebyshev(w, 0.5, 1.5, tables.SPENCE)
    inner = jnp.where(small & (y > 0), y, 0.25)
    flipped = math.pi**2 / 6 - jnp.log(inner) * jnp.log1p(-inner) - base
    flipped = jnp.where(y == 0, math.pi**2 / 6, flipped)
    value = jnp.where(small, flipped, base)
    value = jnp.where(large, -0.5 * jnp.square(jnp.log(jnp.where(large, x, 1))) - value, value)
    return jnp.where(x < 0, np.nan, value)


def _spence_slope(x: Any) -> Any:
    at_one = x == 1
    safe = jnp.where(at_one, 2, x)
    return jnp.where(at_one, -1, -jnp.log(safe) / (safe - 1))


_spence.defjvps(lambda g, out, x: g * _spence_slope(x))


def spence(x: Any) -> Array:
    """Return the integral of log(t) / (1 - t) from 1 to x, the dilogarithm of 1 - x.

    Args:
        x: where to evaluate it, not negative.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import spence
        >>> round(float(spence(0.0)), 4)
        1.6449
    """
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"spence takes float32 or float64, got {x.dtype}: convert with astype(jnp.float32)"
        )
    return _spence(x)
