"""The logistic distribution."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import expit, logit

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the logistic distribution.

    It is -z - 2 log(1 + exp(-z)) - log(scale).

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import logistic
        >>> round(float(logistic.logpdf(0.0)), 4)
        -1.3863
    """
    x, loc, scale = operands.real("logistic.logpdf", x, loc, scale)
    (z,) = operands.strong("logistic.logpdf", (x - loc) / scale)
    half = z / 2
    return -2 * jnp.logaddexp(half, -half) - jnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the logistic distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import logistic
        >>> round(float(logistic.pdf(0.0)), 4)
        0.25
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
        >>> from weft.scipy.stats import logistic
        >>> round(float(logistic.cdf(1.0)), 4)
        0.7311
    """
    x, loc, scale = operands.real("logistic.cdf", x, loc, scale)
    return expit((x - loc) / scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import logistic
        >>> round(float(logistic.sf(1.0)), 4)
        0.2689
    """
    x, loc, scale = operands.real("logistic.sf", x, loc, scale)
    return expit((loc - x) / scale)


def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        x: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import logistic
        >>> round(float(logistic.ppf(0.75)), 4)
        1.0986
    """
    x, loc, scale = operands.strong("logistic.ppf", x, loc, scale)
    return logit(x) * scale + loc


def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the inverse of ``sf``.

    Args:
        x: the probability of the values above, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import logistic
        >>> round(float(logistic.isf(0.25)), 4)
        1.0986
    """
    x, loc, scale = operands.strong("logistic.isf", x, loc, scale)
    return loc - logit(x) * scale
