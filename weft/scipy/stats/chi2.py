"""The chi-squared distribution: gamma with shape df / 2 and twice the scale."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.stats import gamma

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _as_gamma(name: str, x: Any, df: Any, loc: Any, scale: Any) -> tuple[Array, ...]:
    x, df, loc, scale = operands.strong(name, x, df, loc, scale)
    return x, df / 2, loc, 2 * scale


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the chi-square distribution.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import chi2
        >>> round(float(chi2.logpdf(2.0, 4.0)), 4)
        -1.6931
    """
    return gamma.logpdf(*_as_gamma("chi2.logpdf", x, df, loc, scale))


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the chi-square distribution.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import chi2
        >>> round(float(chi2.pdf(2.0, 4.0)), 4)
        0.1839
    """
    return jnp.exp(logpdf(x, df, loc, scale))


def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import chi2
        >>> round(float(chi2.cdf(2.0, 4.0)), 4)
        0.2642
    """
    return gamma.cdf(*_as_gamma("chi2.cdf", x, df, loc, scale))


def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import chi2
        >>> round(float(chi2.logcdf(2.0, 4.0)), 4)
        -1.3309
    """
    return jnp.log(cdf(x, df, loc, scale))


def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import chi2
        >>> round(float(chi2.sf(2.0, 4.0)), 4)
        0.7358
    """
    return gamma.sf(*_as_gamma("chi2.sf", x, df, loc, scale))


def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import chi2
        >>> round(float(chi2.logsf(2.0, 4.0)), 4)
        -0.3069
    """
    return jnp.log(sf(x, df, loc, scale))
