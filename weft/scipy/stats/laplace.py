"""The Laplace distribution: exponential on both sides."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the Laplace distribution.

    It is -abs(x - loc) / scale - log(2 scale).

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import laplace
        >>> round(float(laplace.logpdf(1.0)), 4)
        -1.6931
    """
    x, loc, scale = operands.strong("laplace.logpdf", x, loc, scale)
    return -(jnp.abs((x - loc) / scale) + jnp.log(2 * scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the Laplace distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import laplace
        >>> round(float(laplace.pdf(1.0)), 4)
        0.1839
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
        >>> from weft.scipy.stats import laplace
        >>> round(float(laplace.cdf(1.0)), 4)
        0.8161
    """
    x, loc, scale = operands.strong("laplace.cdf", x, loc, scale)
    z = (x - loc) / scale
    # an exponential that overflows on the side that is not taken would spoil derivatives
    tail = 0.5 * jnp.exp(jnp.where(z <= 0, z, -z))
    return jnp.where(z <= 0, tail, 1 - tail)
