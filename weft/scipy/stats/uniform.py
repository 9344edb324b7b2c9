"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of the uniform distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import uniform
        >>> round(float(uniform.logpdf(1.0, 0.0, 4.0)), 4)
        -1.3863
    """
    x, loc, scale = operands.real("uniform.logpdf", x, loc, scale)
    value = jnp.where((x < loc) | (x > loc + scale), -np.inf, -jnp.log(scale))
    return jnp.where(jnp.isnan(x), np.nan, value)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of the uniform distribution.

    Args:
        x: the values at which to evaluate it.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import uniform
        >>> round(float(uniform.pdf(1.0, 0.0, 4.0)), 4)
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
        >>> from weft.scipy.stats import uniform
        >>> float(uniform.cdf(1.0, 0.0, 4.0))
        0.25
    """
    # the bounds of the probabilities have a dtype of their own
    x, loc, scale = (v.astype(v.dtype) for v in operands.real("uniform.cdf", x, loc, scale))
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, jnp.where(z > 1, 1, z))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the quantile: the inverse of ``cdf``.

    Args:
        q: the probability, between 0 and 1.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import uniform
        >>> float(uniform.ppf(0.25, 0.0, 4.0))
        1.0
    """
    q, loc, scale = operands.real("uniform.ppf", q, loc, scale)
    return jnp.where((q < 0) | (q > 1), np.nan, q * scale + loc)
