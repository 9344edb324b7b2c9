"""The geometric distribution: trials up to the first success."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import xlog1py

__all__ = ["logpmf", "pmf"]


def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """Return the logarithm of the probability of ``k``.

    It is (y - 1) log(1 - p) + log p, with y = k - loc.

    Args:
        k: the integers at which to evaluate it.
        p: the probability that a trial succeeds.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import geom
        >>> round(float(geom.logpmf(2, 0.5)), 4)
        -1.3863
    """
    k, p, loc = operands.strong("geom.logpmf", k, p, loc)
    y = k - loc
    value = xlog1py(y - 1, -p) + jnp.log(p)
    return jnp.where(y <= 0, -np.inf, value)


def pmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """Return the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        p: the probability that a trial succeeds.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import geom
        >>> round(float(geom.pmf(2, 0.5)), 4)
        0.25
    """
    return jnp.exp(logpmf(k, p, loc))
