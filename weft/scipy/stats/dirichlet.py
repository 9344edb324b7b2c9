"""The Dirichlet distribution on the simplex."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import promotion
from weft.scipy.special import gammaln, xlogy

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, alpha: Any) -> Array:
    """Return the logarithm of the density of the Dirichlet distribution.

    Args:
        x: the parts, along the first axis, positive and with sum 1. The last one may be left out.
        alpha: the concentrations, positive, one for each part.

    Returns:
        A float array, with one number for each point.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import dirichlet
        >>> round(float(dirichlet.logpdf(jnp.array([0.3, 0.7]), jnp.array([2.0, 2.0]))), 4)
        0.2311
    """
    promotion.check_arraylike("dirichlet.logpdf", x, alpha)
    x, alpha = (jnp.asarray(v) for v in promotion.promote_dtypes_inexact(x, alpha))
    if alpha.ndim != 1:
        raise ValueError(f"dirichlet needs a vector alpha, got one of shape {alpha.shape}")
    if x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"dirichlet needs x with {alpha.shape[0]} parts, or one less, along its first axis,"
            f" as alpha has; got shapes {x.shape} and {alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, 1 - x.sum(axis=0, keepdims=True)])
    norm = gammaln(alpha).sum() - gammaln(alpha.sum())
    columns = alpha.reshape(alpha.shape + (1,) * (x.ndim - 1))
    value = xlogy(columns - 1, x).sum(axis=0) - norm
    inside = jnp.all(x > 0, axis=0) & (jnp.abs(x.sum(axis=0) - 1) < 1e-6)
    return jnp.where(inside, value, -np.inf)


def pdf(x: Any, alpha: Any) -> Array:
    """Return the density of the Dirichlet distribution.

    Args:
        x: the parts, along the first axis, positive and with sum 1. The last one may be left out.
        alpha: the concentrations, positive, one for each part.

    Returns:
        A float array, with one number for each point.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import dirichlet
        >>> round(float(dirichlet.pdf(jnp.array([0.3, 0.7]), jnp.array([2.0, 2.0]))), 4)
        1.26
    """
    return jnp.exp(logpdf(x, alpha))
