"""The normal distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy import special

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi).item()


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the normal distribution.

    It is -z²/2 - log(√(2π) scale), with z = (x - loc) / scale.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.logpdf(1.0)), 4)
        -1.4189
    """
    x, loc, scale = operands.strong("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    # the density is even in scale, and JAX takes negative ones too
    return -0.5 * (z * z) - (jnp.log(jnp.abs(scale)) + _HALF_LOG_TWO_PI)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the normal distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.pdf(0.0)), 4)
        0.3989
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.cdf(1.0)), 4)
        0.8413
    """
    x, loc, scale = operands.real("norm.cdf", x, loc, scale)
    return special.ndtr((x - loc) / scale)


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, also where that underflows.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.logcdf(-40.0)), 2)
        -804.61
    """
    x, loc, scale = operands.real("norm.logcdf", x, loc, scale)
    return special.log_ndtr((x - loc) / scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.sf(1.0)), 4)
        0.1587
    """
    x, loc, scale = operands.real("norm.sf", x, loc, scale)
    return special.ndtr((loc - x) / scale)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, also where that underflows.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.logsf(1.0)), 4)
        -1.841
    """
    x, loc, scale = operands.real("norm.logsf", x, loc, scale)
    return special.log_ndtr((loc - x) / scale)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        q: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.ppf(0.975)), 4)
        1.96
    """
    q, loc, scale = operands.real("norm.ppf", q, loc, scale)
    return special.ndtri(q) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the inverse of ``sf``.

    Args:
        q: the probability of the values above, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import norm
        >>> round(float(norm.isf(0.025)), 4)
        1.96
    """
    q, loc, scale = operands.real("norm.isf", q, loc, scale)
    return loc - special.ndtri(q) * scale
