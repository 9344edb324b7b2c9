"""The wrapped Cauchy distribution on [0, 2π]."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, c: Any) -> Array:
    """Return the logarithm of the density of the wrapped Cauchy distribution.

    It is log((1 - c²) / (2π (1 + c² - 2 c cos x))), 0 < c < 1.

    Args:
        x: the angles in radians at which to evaluate it.
        c: the concentration around 0, between 0 and 1.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import wrapcauchy
        >>> round(float(wrapcauchy.logpdf(0.0, 0.5)), 4)
        -0.7393
    """
    x, c = operands.real("wrapcauchy.logpdf", x, c)
    value = jnp.log1p(-c * c) - jnp.log(2 * np.pi) - jnp.log1p(c * c - 2 * c * jnp.cos(x))
    value = jnp.where((x >= 0) & (x <= 2 * np.pi), value, -np.inf)
    return jnp.where((c > 0) & (c < 1), value, np.nan)


def pdf(x: Any, c: Any) -> Array:
    """Return the density of the wrapped Cauchy distribution.

    Args:
        x: the angles in radians at which to evaluate it.
        c: the concentration around 0, between 0 and 1.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import wrapcauchy
        >>> round(float(wrapcauchy.pdf(0.0, 0.5)), 4)
        0.4775
    """
    return jnp.exp(logpdf(x, c))
