"""The normal distribution in several dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array
from weft.numpy import operands, promotion

__all__ = ["logpdf", "pdf"]

_LOG_TWO_PI = np.log(2 * np.pi).item()


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
    """Return the logarithm of the density of the multivariate normal distribution.

    Args:
        x: the points; their coordinates are along the last axis.
        mean: the mean vector; a number stands for every coordinate.
        cov: the covariance matrix, or a number times the identity.
        allow_singular: must be None: singular matrices are not supported.

    Returns:
        A float array, with one number for each point.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import multivariate_normal
        >>> round(float(multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 4)
        -1.8379
    """
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal.logpdf does not support allow_singular")
    x, mean, cov = (jnp.asarray(v) for v in promotion.promote_dtypes_inexact(x, mean, cov))
    operands.real("multivariate_normal.logpdf", x)
    if not mean.shape:
        return -0.5 * (jnp.square(x - mean) / cov + (_LOG_TWO_PI + jnp.log(cov)))
    n = mean.shape[-1]
    if not cov.shape:
        y = x - mean
        return -0.5 * ((y * y).sum(axis=-1) / cov + n * (_LOG_TWO_PI + jnp.log(cov)))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            "multivariate_normal.logpdf needs a covariance matrix for each mean, got shapes"
            f" {mean.shape} of the mean and {cov.shape} of the covariance"
        )
    root = jnp.linalg.cholesky(cov)
    y = _whiten(root, x - mean)
    log_root = jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)
    return -0.5 * ((y * y).sum(axis=-1) + n * _LOG_TWO_PI) - log_root


def _whiten(root: Array, y: Array) -> Array:
    """Solve ``root z = y`` for every vector; one factor serves all of its vectors at once."""
    if root.ndim == 2:
        columns = y.reshape(-1, y.shape[-1]).T
        solved = lax.linalg.triangular_solve(root, columns, left_side=True, lower=True)
        return solved.T.reshape(y.shape)
    stack = jnp.broadcast_shapes(root.shape[:-2], y.shape[:-1])
    root = jnp.broadcast_to(root, stack + root.shape[-2:])
    y = jnp.broadcast_to(y, stack + y.shape[-1:])
    solved = lax.linalg.triangular_solve(root, y[..., None], left_side=True, lower=True)
    return solved[..., 0]


def pdf(x: Any, mean: Any, cov: Any) -> Array:
    """Return the density of the multivariate normal distribution.

    Args:
        x: the points; their coordinates are along the last axis.
        mean: the mean vector; a number stands for every coordinate.
        cov: the covariance matrix, or a number times the identity.

    Returns:
        A float array, with one number for each point.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import multivariate_normal
        >>> round(float(multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 4)
        0.1592
    """
    return jnp.exp(logpdf(x, mean, cov))
