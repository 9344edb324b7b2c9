"""The left-skewed Gumbel distribution, of the least of many values."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the left-skewed Gumbel distribution.

    It is z - exp(z) - log(scale), with z = (x - loc) / scale.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_l
        >>> float(gumbel_l.logpdf(0.0))
        -1.0
    """
    x, loc, scale = operands.real("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / scale
    value = z - jnp.exp(z) - jnp.log(scale)
    return jnp.where(scale > 0, value, np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the left-skewed Gumbel distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.pdf(0.0)), 4)
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
        >>> from weft.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.cdf(0.0)), 4)
        0.6321
    """
    return -jnp.expm1(logsf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.logcdf(0.0)), 4)
        -0.4587
    """
    return jnp.log(cdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.sf(0.0)), 4)
        0.3679
    """
    return jnp.exp(logsf(x, loc, scale))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_l
        >>> float(gumbel_l.logsf(0.0))
        -1.0
    """
    x, loc, scale = operands.real("gumbel_l.logsf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.exp((x - loc) / scale), np.nan)


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        p: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.ppf(0.5)), 4)
        -0.3665
    """
    p, loc, scale = operands.real("gumbel_l.ppf", p, loc, scale)
    inside = (p > 0) & (p < 1)
    return jnp.where(inside, loc + scale * jnp.log(-jnp.log1p(-p)), np.nan)
