"""Student's t distribution with df degrees of freedom."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import gammaln

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the logarithm of the density of Student's t distribution.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import t
        >>> round(float(t.logpdf(1.0, 3.0)), 4)
        -1.5763
    """
    x, df, loc, scale = operands.strong("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    half = df / 2
    norm = 0.5 * jnp.log(np.pi * df) + jnp.log(scale) + gammaln(half) - gammaln(half + 0.5)
    return -(norm + (half + 0.5) * jnp.log1p(z * z / df))


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """Return the density of Student's t distribution.

    Args:
        x: the values at which to evaluate it.
        df: the degrees of freedom, positive.
        loc: the location: how far the distribution is shifted.
        scale: the scale: the factor by which the distribution is stretched.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import t
        >>> round(float(t.pdf(1.0, 3.0)), 4)
        0.2067
    """
    return jnp.exp(logpdf(x, df, loc, scale))
