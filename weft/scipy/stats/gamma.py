"""The gamma distribution with shape a."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import gammainc, gammaincc, gammaln, xlogy

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the gamma distribution.

    It is (a - 1) log y - y - log(Γ(a) scale), y = (x - loc) / scale.

    Args:
        x: the values at which to evaluate it.
        a: the shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gamma
        >>> round(float(gamma.logpdf(2.0, 3.0)), 4)
        -1.3069
    """
    x, a, loc, scale = operands.strong("gamma.logpdf", x, a, loc, scale)
    below = x < loc
    y = jnp.where(below, jnp.ones_like(x), (x - loc) / scale)
    value = xlogy(a - 1, y) - y - (gammaln(a) + jnp.log(scale))
    return jnp.where(below, -np.inf, value)


def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the gamma distribution.

    Args:
        x: the values at which to evaluate it.
        a: the shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gamma
        >>> round(float(gamma.pdf(2.0, 3.0)), 4)
        0.2707
    """
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gamma
        >>> round(float(gamma.cdf(2.0, 3.0)), 4)
        0.3233
    """
    x, a, loc, scale = operands.strong("gamma.cdf", x, a, loc, scale)
    y, below = _inside(x, loc, scale)
    return jnp.where(a > 0, jnp.where(below, 0, gammainc(a, y)), np.nan)


def _inside(x: Any, loc: Any, scale: Any) -> tuple[Array, Array]:
    """(x - loc) / scale, with 1 for what lies below 0, and where that is."""
    y = (x - loc) / scale
    below = y <= 0
    return jnp.where(below, 1, y), below


def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``cdf``, the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gamma
        >>> round(float(gamma.logcdf(2.0, 3.0)), 4)
        -1.1291
    """
    return jnp.log(cdf(x, a, loc, scale))


def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gamma
        >>> round(float(gamma.sf(2.0, 3.0)), 4)
        0.6767
    """
    x, a, loc, scale = operands.real("gamma.sf", x, a, loc, scale)
    y, below = _inside(x, loc, scale)
    return jnp.where(a > 0, jnp.where(below, 1, gammaincc(a, y)), np.nan)


def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of ``sf``, the probability of values above ``x``.

    Args:
        x: the values at which to evaluate it.
        a: the shape parameter, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gamma
        >>> round(float(gamma.logsf(2.0, 3.0)), 4)
        -0.3906
    """
    return jnp.log(sf(x, a, loc, scale))
