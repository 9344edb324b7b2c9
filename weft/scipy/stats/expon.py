"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the exponential distribution.

    It is -z - log(scale), with z = (x - loc) / scale.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import expon
        >>> float(expon.logpdf(2.0))
        -2.0
    """
    x, loc, scale = operands.real("expon.logpdf", x, loc, scale)
    value = -((x - loc) / scale) - jnp.log(scale)
    return jnp.where(x < loc, -np.inf, value)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the exponential distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import expon
        >>> round(float(expon.pdf(2.0)), 4)
        0.1353
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
        >>> from weft.scipy.stats import expon
        >>> round(float(expon.cdf(2.0)), 4)
        0.8647
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
        >>> from weft.scipy.stats import expon
        >>> round(float(expon.logcdf(2.0)), 4)
        -0.1454
    """
    logsf_of_x = logsf(x, loc, scale)
    far = logsf_of_x < -1
    return jnp.where(
        far,
        jnp.log1p(-jnp.exp(jnp.where(far, logsf_of_x, -1))),
        jnp.log(-jnp.expm1(logsf_of_x)),
    )


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import expon
        >>> round(float(expon.sf(2.0)), 4)
        0.1353
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
        >>> from weft.scipy.stats import expon
        >>> float(expon.logsf(2.0))
        -2.0
    """
    x, loc, scale = operands.real("expon.logsf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(x < loc, jnp.zeros_like(z), -z)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        q: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import expon
        >>> round(float(expon.ppf(0.5)), 4)
        0.6931
    """
    q, loc, scale = operands.real("expon.ppf", q, loc, scale)
    return jnp.where((q < 0) | (q > 1), np.nan, loc - scale * jnp.log1p(-q))
