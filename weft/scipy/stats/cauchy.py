"""The Cauchy distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_LOG_PI = np.log(np.pi).item()


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the Cauchy distribution.

    It is -log(π scale (1 + z²)).

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.logpdf(0.0)), 4)
        -1.1447
    """
    x, loc, scale = operands.strong("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -(jnp.log(scale) + _LOG_PI + jnp.log1p(z * z))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the Cauchy distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.pdf(0.0)), 4)
        0.3183
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``, accurate in both tails.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.cdf(1.0)), 4)
        0.75
    """
    x, loc, scale = operands.strong("cauchy.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(jnp.ones_like(z), -z) / np.pi


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.logcdf(0.0)), 4)
        -0.6931
    """
    return jnp.log(cdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``, accurate in both tails.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.sf(1.0)), 4)
        0.25
    """
    x, loc, scale = operands.strong("cauchy.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(jnp.ones_like(z), z) / np.pi


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.logsf(0.0)), 4)
        -0.6931
    """
    return jnp.log(sf(x, loc, scale))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        q: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.ppf(0.75)), 4)
        1.0
    """
    q, loc, scale = operands.strong("cauchy.ppf", q, loc, scale)
    return jnp.tan(np.pi * q - np.pi / 2) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the inverse of ``sf``.

    Args:
        q: the probability of the values above, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import cauchy
        >>> round(float(cauchy.isf(0.25)), 4)
        1.0
    """
    q, loc, scale = operands.strong("cauchy.isf", q, loc, scale)
    return jnp.tan(np.pi / 2 - np.pi * q) * scale + loc
