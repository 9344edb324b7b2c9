"""The multinomial distribution: counts of n draws by kind."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands, promotion
from weft.scipy.special import gammaln, xlogy

__all__ = ["logpmf", "pmf"]


@promotion.mixes_inside
def logpmf(x: Any, n: Any, p: Any) -> Array:
    """Return the logarithm of the probability of ``x``.

    Args:
        x: the counts of each kind, along the last axis.
        n: the number of trials.
        p: the probability of each kind, along the last axis.

    Returns:
        A float array, with one number for each point.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import multinomial
        >>> round(float(multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5]))), 4)
        -0.9808
    """
    promotion.check_arraylike("multinomial.logpmf", x, n, p)
    for counted in (x, n):
        if jnp.issubdtype(jnp.result_type(counted), np.inexact):
            raise ValueError(
                f"multinomial.logpmf takes integer counts, got {jnp.result_type(counted)}; convert"
                " x and n with astype(int)"
            )
    (p,) = operands.real("multinomial.logpmf", p)
    counts, p = operands.real("multinomial.logpmf", x, p)
    n = jnp.asarray(n).astype(counts.dtype)
    # a draw of no probability that never came adds nothing: xlogy(0, 0) is 0
    value = gammaln(n + 1) + (xlogy(counts, p) - gammaln(counts + 1)).sum(axis=-1)
    return jnp.where(counts.sum(axis=-1) == n, value, -np.inf)


@promotion.mixes_inside
def pmf(x: Any, n: Any, p: Any) -> Array:
    """Return the probability of ``x``.

    Args:
        x: the counts of each kind, along the last axis.
        n: the number of trials.
        p: the probability of each kind, along the last axis.

    Returns:
        A float array, with one number for each point.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import multinomial
        >>> round(float(multinomial.pmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5]))), 4)
        0.375
    """
    return jnp.exp(logpmf(x, n, p))
