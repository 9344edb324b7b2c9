"""The binomial distribution: successes in n trials."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import gammaln, xlog1py, xlogy

__all__ = ["logpmf", "pmf"]


def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """Return the logarithm of the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        n: the number of trials.
        p: the probability that a trial succeeds.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import binom
        >>> round(float(binom.logpmf(1, 3, 0.5)), 4)
        -0.9808
    """
    k, n, p, loc = operands.real("binom.logpmf", k, n, p, loc)
    y = k - loc
    combinations = gammaln(n + 1) - (gammaln(y + 1) + gammaln(n - y + 1))
    value = combinations + xlogy(y, p) + xlog1py(n - y, -p)
    return jnp.where((y >= 0) & (y <= n), value, -np.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """Return the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        n: the number of trials.
        p: the probability that a trial succeeds.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import binom
        >>> round(float(binom.pmf(1, 3, 0.5)), 4)
        0.375
    """
    return jnp.exp(logpmf(k, n, p, loc))
