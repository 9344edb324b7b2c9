"""The Pareto distribution: a power law above loc + scale."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the Pareto distribution.

    It is log(b / scale) - (b + 1) log z, with z = (x - loc) / scale.

    Args:
        x: the values at which to evaluate it.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.logpdf(2.0, 1.0)), 4)
        -1.3863
    """
    x, b, loc, scale = operands.strong("pareto.logpdf", x, b, loc, scale)
    value = jnp.log(b / scale) - (b + 1) * _log_ratio(x, loc, scale)
    return jnp.where(x < loc + scale, -np.inf, value)


def _log_ratio(x: Any, loc: Any, scale: Any) -> Array:
    """log((x - loc) / scale), and 0 below the support, where it would be NaN."""
    z = (x - loc) / scale
    return jnp.log(jnp.where(z < 1, jnp.ones_like(z), z))


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the Pareto distribution.

    Args:
        x: the values at which to evaluate it.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.pdf(2.0, 1.0)), 4)
        0.25
    """
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.cdf(2.0, 1.0)), 4)
        0.5
    """
    return -jnp.expm1(logsf(x, b, loc, scale))


def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.logcdf(2.0, 1.0)), 4)
        -0.6931
    """
    x, b, loc, scale = operands.real("pareto.logcdf", x, b, loc, scale)
    return jnp.log(-jnp.expm1(-b * _log_ratio(x, loc, scale)))


def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.sf(2.0, 1.0)), 4)
        0.5
    """
    return jnp.exp(logsf(x, b, loc, scale))


def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.logsf(2.0, 1.0)), 4)
        -0.6931
    """
    x, b, loc, scale = operands.strong("pareto.logsf", x, b, loc, scale)
    return -b * _log_ratio(x, loc, scale)


def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        q: the probability, between 0 and 1.
        b: the exponent of the tail, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import pareto
        >>> round(float(pareto.ppf(0.5, 1.0)), 4)
        2.0
    """
    q, b, loc, scale = operands.strong("pareto.ppf", q, b, loc, scale)
    value = loc + scale * jnp.exp(-jnp.log1p(-q) / b)
    return jnp.where((q < 0) | (q > 1), np.nan, value)
