"""The right-skewed Gumbel distribution, of the largest of many values."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the right-skewed Gumbel distribution.

    It is -z - exp(-z) - log(scale), with z = (x - loc) / scale.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_r
        >>> float(gumbel_r.logpdf(0.0))
        -1.0
    """
    x, loc, scale = operands.real("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    value = -(z + jnp.exp(-z)) - jnp.log(scale)
    return jnp.where(scale > 0, value, np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the right-skewed Gumbel distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_r
        >>> round(float(gumbel_r.pdf(0.0)), 4)
        0.3679
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
        >>> from weft.scipy.stats import gumbel_r
        >>> round(float(gumbel_r.cdf(0.0)), 4)
        0.3679
    """
    return jnp.exp(logcdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_r
        >>> float(gumbel_r.logcdf(0.0))
        -1.0
    """
    x, loc, scale = operands.real("gumbel_r.logcdf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.exp((loc - x) / scale), np.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_r
        >>> round(float(gumbel_r.sf(0.0)), 4)
        0.6321
    """
    return -jnp.expm1(logcdf(*operands.strong("gumbel_r.sf", x, loc, scale)))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_r
        >>> round(float(gumbel_r.logsf(0.0)), 4)
        -0.4587
    """
    return jnp.log(-jnp.expm1(logcdf(x, loc, scale)))


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        p: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_r
        >>> round(float(gumbel_r.ppf(0.5)), 4)
        0.3665
    """
    p, loc, scale = operands.real("gumbel_r.ppf", p, loc, scale)
    inside = (p > 0) & (p < 1)
    return jnp.where(inside, loc - scale * jnp.log(-jnp.log(p)), np.nan)
