"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import xlog1py, xlogy

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """Return the logarithm of the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        p: the probability of 1.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import bernoulli
        >>> round(float(bernoulli.logpmf(1, 0.25)), 4)
        -1.3863
    """
    k, p, loc = operands.strong("bernoulli.logpmf", k, p, loc)
    x = k - loc
    value = xlogy(x, p) + xlog1py(1 - x, -p)
    return jnp.where((x < 0) | (x > 1), -np.inf, value)


def pmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """Return the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        p: the probability of 1.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import bernoulli
        >>> round(float(bernoulli.pmf(1, 0.25)), 4)
        0.25
    """
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Array:
    """Return the probability of values up to ``k``.

    Args:
        k: the integers at which to evaluate it.
        p: the probability of 1.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import bernoulli
        >>> float(bernoulli.cdf(0, 0.25))
        0.75
    """
    k, p = operands.strong("bernoulli.cdf", k, p)
    value = jnp.where(k < 0, 0.0, jnp.where(k < 1, 1 - p, 1.0))
    return jnp.where(jnp.isnan(k) | ~((p >= 0) & (p <= 1)), np.nan, value)


def ppf(q: Any, p: Any) -> Array:
    """Return the quantile: the smallest value whose ``cdf`` reaches ``q``.

    Args:
        q: the probability, between 0 and 1.
        p: the probability of 1.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import bernoulli
        >>> float(bernoulli.ppf(0.8, 0.25))
        1.0
    """
    q, p = operands.strong("bernoulli.ppf", q, p)
    inside = (q >= 0) & (q <= 1) & (p >= 0) & (p <= 1)
    return jnp.where(inside, jnp.where(q > 1 - p, jnp.ones_like(q), jnp.zeros_like(q)), np.nan)
