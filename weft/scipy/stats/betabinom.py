"""The beta-binomial distribution: binomial, with p drawn from a beta distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import betaln

__all__ = ["logpmf", "pmf"]


def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
    """Return the logarithm of the probability of ``k``.

    It is log C(n, y) B(y + a, n - y + b) / B(a, b).

    Args:
        k: the integers at which to evaluate it.
        n: the number of trials.
        a: the first shape parameter of the beta distribution, positive.
        b: the second shape parameter of the beta distribution, positive.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import betabinom
        >>> round(float(betabinom.logpmf(1, 3, 1.0, 1.0)), 4)
        -1.3863
    """
    k, n, a, b, loc = operands.real("betabinom.logpmf", k, n, a, b, loc)
    y = jnp.floor(k) - loc
    combinations = -(jnp.log1p(n) + betaln(n - y + 1, y + 1))
    value = combinations + betaln(y + a, n - y + b) - betaln(a, b)
    value = jnp.where((y < 0) | (y > n), -np.inf, value)
    return jnp.where((n < 0) | (a <= 0) | (b <= 0), np.nan, value)


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
    """Return the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        n: the number of trials.
        a: the first shape parameter of the beta distribution, positive.
        b: the second shape parameter of the beta distribution, positive.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import betabinom
        >>> round(float(betabinom.pmf(1, 3, 1.0, 1.0)), 4)
        0.25
    """
    return jnp.exp(logpmf(k, n, a, b, loc))
