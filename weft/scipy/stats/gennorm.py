"""The generalized normal distribution: its density falls as exp(-abs(x)**beta)."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import gammainc, gammaln

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: Any, beta: Any) -> Array:
    """Return the logarithm of the density of the generalised normal distribution.

    Args:
        x: the values at which to evaluate it.
        beta: the exponent of the tails; 2 gives a normal distribution, 1 a Laplace distribution.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gennorm
        >>> round(float(gennorm.logpdf(1.0, 2.0)), 4)
        -1.5724
    """
    x, beta = operands.real("gennorm.logpdf", x, beta)
    return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta


def pdf(x: Any, beta: Any) -> Array:
    """Return the density of the generalised normal distribution.

    Args:
        x: the values at which to evaluate it.
        beta: the exponent of the tails; 2 gives a normal distribution, 1 a Laplace distribution.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gennorm
        >>> round(float(gennorm.pdf(1.0, 2.0)), 4)
        0.2076
    """
    return jnp.exp(logpdf(x, beta))


def cdf(x: Any, beta: Any) -> Array:
    """Return the probability of values up to ``x``.

    Args:
        x: the values at which to evaluate it.
        beta: the exponent of the tails; 2 gives a normal distribution, 1 a Laplace distribution.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import gennorm
        >>> round(float(gennorm.cdf(1.0, 2.0)), 4)
        0.9214
    """
    x, beta = operands.real("gennorm.cdf", x, beta)
    return 0.5 * (1 + jnp.sign(x) * gammainc(1 / beta, jnp.abs(x) ** beta))
