"""The normal distribution cut off at a and b, which count in scales from loc."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import log_ndtr, ndtr
from weft.scipy.stats import norm

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_mass(a: Any, b: Any) -> Array:
    """The logarithm of the normal distribution's mass between a and b, for a <= b.

    An interval right of 0 is mirrored; in a tail the difference is taken of logarithms, and
    around 0 what lies outside is taken from 1: so no case cancels.
    """
    right = a > 0
    a, b = jnp.where(right, -b, a), jnp.where(right, -a, b)
    tail = b <= 0
    outer, inner = log_ndtr(jnp.where(tail, b, -1)), log_ndtr(jnp.where(tail, a, -2))
    in_tail = outer + jnp.log1p(-jnp.exp(inner - outer))
    low, high = jnp.where(tail, -1, a), jnp.where(tail, 1, b)
    around = jnp.log1p(-ndtr(low) - ndtr(-high))
    return jnp.where(tail, in_tail, around)


def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the normal distribution restricted to an interval.

    Args:
        x: the values at which to evaluate it.
        a: the lower bound, in units of ``scale`` from ``loc``.
        b: the upper bound, in units of ``scale`` from ``loc``.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import truncnorm
        >>> round(float(truncnorm.logpdf(0.5, -1.0, 1.0)), 4)
        -0.6622
    """
    x, a, b, loc, scale = operands.real("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    value = norm.logpdf(x, loc, scale) - _log_mass(a, b)
    value = jnp.where((z < a) | (z > b), -np.inf, value)
    return jnp.where(a >= b, np.nan, value)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the normal distribution restricted to an interval.

    Args:
        x: the values at which to evaluate it.
        a: the lower bound, in units of ``scale`` from ``loc``.
        b: the upper bound, in units of ``scale`` from ``loc``.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import truncnorm
        >>> round(float(truncnorm.pdf(0.5, -1.0, 1.0)), 4)
        0.5157
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the lower bound, in units of ``scale`` from ``loc``.
        b: the upper bound, in units of ``scale`` from ``loc``.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import truncnorm
        >>> round(float(truncnorm.logcdf(0.5, -1.0, 1.0)), 4)
        -0.2479
    """
    x, a, b, loc, scale = operands.real("truncnorm.logcdf", x, a, b, loc, scale)
    return _log_part((x - loc) / scale, a, b)


def _log_part(z: Any, a: Any, b: Any) -> Array:
    """The logarithm of the share of the mass between a and b that lies below z."""
    outside = (z <= a) | (z >= b)
    inside = jnp.where(outside, _middle(a, b), z)
    total = _log_mass(a, b)
    value = _log_mass(a, inside) - total
    # near 0 the difference has lost its digits, and the rest of the mass has not
    near = value > -0.1
    rest = _log_mass(jnp.where(near, inside, a), b) - total
    value = jnp.where(near, jnp.log1p(-jnp.exp(jnp.where(near, rest, -1))), value)
    value = jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0.0, value))
    return jnp.where((a >= b) | jnp.isnan(z), np.nan, value)


def _middle(a: Any, b: Any) -> Array:
    """A number between a and b, either of which may be infinite."""
    a, b = jnp.maximum(a, jnp.minimum(b, 0) - 2), jnp.minimum(b, jnp.maximum(a, 0) + 2)
    return (a + b) / 2


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the lower bound, in units of ``scale`` from ``loc``.
        b: the upper bound, in units of ``scale`` from ``loc``.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import truncnorm
        >>> round(float(truncnorm.cdf(0.5, -1.0, 1.0)), 4)
        0.7805
    """
    return jnp.exp(logcdf(x, a, b, loc, scale))


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the lower bound, in units of ``scale`` from ``loc``.
        b: the upper bound, in units of ``scale`` from ``loc``.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import truncnorm
        >>> round(float(truncnorm.logsf(0.5, -1.0, 1.0)), 4)
        -1.5162
    """
    x, a, b, loc, scale = operands.real("truncnorm.logsf", x, a, b, loc, scale)
    return _log_part((loc - x) / scale, -b, -a)


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the lower bound, in units of ``scale`` from ``loc``.
        b: the upper bound, in units of ``scale`` from ``loc``.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import truncnorm
        >>> round(float(truncnorm.sf(0.5, -1.0, 1.0)), 4)
        0.2195
    """
    return jnp.exp(logsf(x, a, b, loc, scale))
