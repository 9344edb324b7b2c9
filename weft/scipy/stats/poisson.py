"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.series import horner as _horner
from weft.scipy.special import gammaincc, gammaln, xlogy

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

# Above this mean the entropy comes from its expansion, whose error is then below 1e-12.
_LARGE_MEAN = 50.0
_DIRECT_TERMS = 160
# The expansion's coefficients of mu^-1, mu^-2, ..., highest first.
_EXPANSION = (33953 / 5040, 1375 / 1008, 863 / 2520, 9 / 80, 19 / 360, 1 / 24, 1 / 12)


def logpmf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """Return the logarithm of the probability of ``k``.

    It is y log(mu) - mu - log(y!), with y = k - loc.

    Args:
        k: the integers at which to evaluate it.
        mu: the mean, not negative.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import poisson
        >>> round(float(poisson.logpmf(2, 1.0)), 4)
        -1.6931
    """
    k, mu, loc = operands.real("poisson.logpmf", k, mu, loc)
    y = k - loc
    value = xlogy(y, mu) - gammaln(y + 1) - mu
    return jnp.where((y < 0) | (k != jnp.round(k)), -np.inf, value)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """Return the probability of ``k``.

    Args:
        k: the integers at which to evaluate it.
        mu: the mean, not negative.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import poisson
        >>> round(float(poisson.pmf(2, 1.0)), 4)
        0.1839
    """
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """Return the probability of values up to ``k``.

    Args:
        k: the integers at which to evaluate it.
        mu: the mean, not negative.
        loc: the location: how far the distribution is shifted.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import poisson
        >>> round(float(poisson.cdf(2, 1.0)), 4)
        0.9197
    """
    k, mu, loc = operands.strong("poisson.cdf", k, mu, loc)
    y = k - loc
    value = gammaincc(jnp.clip(jnp.floor(y + 1), 1, float(dtypes.finfo(y.dtype).max)), mu)
    return jnp.where(y < 0, 0, jnp.where(y == np.inf, 1, value))


def entropy(mu: Any, loc: Any = 0) -> Array:
    """Return the entropy of the Poisson distribution, in nats.

    Args:
        mu: the mean, not negative.
        loc: how far the distribution is shifted, which does not change the entropy.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import poisson
        >>> round(float(poisson.entropy(1.0)), 4)
        1.3048
    """
    mu, loc = operands.real("poisson.entropy", mu, loc)
    mu = jnp.broadcast_to(mu, jnp.broadcast_shapes(mu.shape, loc.shape))
    large = mu > _LARGE_MEAN
    return jnp.where(
        large,
        _entropy_expanded(jnp.where(large, mu, _LARGE_MEAN)),
        _entropy_summed(jnp.where(large, _LARGE_MEAN, mu)),
    )


def _entropy_summed(mu: Array) -> Array:
    """mu (1 - log mu) + the mean of log(k!), summed over all k that matter."""
    k = jnp.arange(_DIRECT_TERMS, dtype=mu.dtype)
    logs = gammaln(k + 1)
    weights = jnp.exp(xlogy(k, mu[..., None]) - logs - mu[..., None])
    return mu - xlogy(mu, mu) + (weights * logs).sum(axis=-1)


def _entropy_expanded(mu: Array) -> Array:
    """The expansion in 1 / mu, from that of log(k!) and the central moments of k."""
    inverse = 1 / mu
    return 0.5 * jnp.log(2 * np.pi * np.e * mu) - inverse * _horner(inverse, _EXPANSION)
