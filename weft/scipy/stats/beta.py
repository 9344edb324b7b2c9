"""The beta distribution on [loc, loc + scale]."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import betainc, betaln, xlog1py, xlogy

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the beta distribution.

    Args:
        x: the values at which to evaluate it.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import beta
        >>> round(float(beta.logpdf(0.5, 2.0, 3.0)), 4)
        0.4055
    """
    x, a, b, loc, scale = operands.strong("beta.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    value = xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - jnp.log(scale)
    value = jnp.where((y < 0) | (y > 1), -np.inf, value)
    return jnp.where((a <= 0) | (b <= 0) | (scale <= 0), np.nan, value)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the beta distribution.

    Args:
        x: the values at which to evaluate it.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import beta
        >>> round(float(beta.pdf(0.5, 2.0, 3.0)), 4)
        1.5
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import beta
        >>> round(float(beta.cdf(0.5, 2.0, 3.0)), 4)
        0.6875
    """
    x, a, b, loc, scale = operands.strong("betainc", x, a, b, loc, scale)
    return _share(a, b, (x - loc) / scale)


def _share(a: Any, b: Any, y: Any) -> Array:
    """The incomplete beta function, also outside [0, 1], with derivative 0 there."""
    outside = (y <= 0) | (y >= 1)
    value = betainc(a, b, jnp.where(outside, 0.5, y))
    value = jnp.where(outside, jnp.where(y >= 1, 1, 0), value)
    return jnp.where((a > 0) & (b > 0), value, np.nan)


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import beta
        >>> round(float(beta.logcdf(0.5, 2.0, 3.0)), 4)
        -0.3747
    """
    return jnp.log(cdf(x, a, b, loc, scale))


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import beta
        >>> round(float(beta.sf(0.5, 2.0, 3.0)), 4)
        0.3125
    """
    x, a, b, loc, scale = operands.strong("betainc", x, a, b, loc, scale)
    return _share(b, a, 1 - (x - loc) / scale)


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import beta
        >>> round(float(beta.logsf(0.5, 2.0, 3.0)), 4)
        -1.1632
    """
    return jnp.log(sf(x, a, b, loc, scale))
