"""The negative binomial distribution: failures before the n-th success."""

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
        n: the number of successes to wait for.
        p: the probability that a trial succeeds.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import nbinom
        >>> round(float(nbinom.logpmf(2, 3, 0.5)), 4)
        -1.674
    """
    k, n, p, loc = operands.strong("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    combinations = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
    value = combinations + xlogy(n, p) + xlog1py(y, -p)
    return jnp.where(y < 0, -np.inf, value)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """Return the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        n: the number of successes to wait for.
        p: the probability that a trial succeeds.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import nbinom
        >>> round(float(nbinom.pmf(2, 3, 0.5)), 4)
        0.1875
    """
    return jnp.exp(logpmf(k, n, p, loc))
