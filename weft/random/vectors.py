"""Distributions of vectors and matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft import numpy as jnp
from weft.api.jit import jit
from weft.base import errors
from weft.core.array import Array
from weft.core.trace import Tracer
from weft.numpy import linalg
from weft.numpy.promotion import mixes_inside, promote_dtypes_inexact
from weft.random.arguments import check_dtype, check_fits, check_shape, placed, unpack
from weft.random.distributions import exponential, normal
from weft.random.gammas import generalized_normal, loggamma
from weft.random.keys import check_key, split_key

METHODS = ("cholesky", "eigh", "svd")


@mixes_inside
def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Return vectors from the normal distribution with a given mean and covariance matrix.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        mean: the mean vector, of shape (..., n).
        cov: the covariance matrix, symmetric and positive semidefinite, of shape (..., n, n).
        shape: the shape in front of the vectors. By default what the leading dimensions of ``mean``
            and ``cov`` broadcast to.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        method: how the root of ``cov`` is computed: ``'cholesky'``, ``'eigh'`` or ``'svd'``. The
            last two also take singular matrices.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape + (n,)``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> key = weft.random.key(0)
        >>> weft.random.multivariate_normal(key, jnp.zeros(2), jnp.eye(2), (3,)).shape
        (3, 2)
    """
    key, _ = check_key("multivariate_normal", key)
    mean, cov = promote_dtypes_inexact(mean, cov)
    if method not in METHODS:
        raise ValueError(f"multivariate_normal takes one of the methods {METHODS}, got {method!r}")
    wanted = dtypes.dtype(mean) if dtype is None else dtype
    dtype = check_dtype("multivariate_normal", wanted)
    if shape is not None:
        shape = check_shape("multivariate_normal", shape)
    return placed(_multivariate_normal(key, mean, cov, shape, dtype, method), out_sharding)


@jit(static_argnums=(3, 4, 5))
def _multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any, dtype: Any, method: str) -> Any:
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != mean.shape[-1:] * 2:
        raise ValueError(
            "multivariate_normal takes a mean of shape (..., n) and a covariance of shape"
            f" (..., n, n), got {mean.shape} and {cov.shape}"
        )
    if shape is None:
        shape = lax.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    else:
        check_fits("multivariate_normal", shape, mean.shape[:-1], cov.shape[:-2])
    factor = _factor(cov, method)
    samples = normal(key, shape + mean.shape[-1:], dtype)
    return mean + jnp.einsum("...ij,...j->...i", factor, samples)


def _factor(cov: Any, method: str) -> Any:
    """A matrix whose product with its own transpose is ``cov``."""
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "svd":
        vectors, values, _ = linalg.svd(cov)
    else:
        values, vectors = linalg.eigh(cov)
    return vectors * lax.sqrt(values[..., None, :])


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return vectors of positive numbers with sum 1, from the Dirichlet distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        alpha: the concentrations, positive numbers of shape (..., n).
        shape: the shape in front of the vectors. By default the leading dimensions of ``alpha``.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape + (n,)``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.random.dirichlet(weft.random.key(0), jnp.ones(3), (2,)).shape
        (2, 3)
    """
    key, _ = check_key("dirichlet", key)
    dtype = check_dtype("dirichlet", dtype)
    if np.ndim(alpha) < 1:
        raise ValueError("dirichlet takes a vector of parameters alpha, got a scalar")
    batch = np.shape(alpha)[:-1]
    if shape is None:
        shape = batch
    else:
        shape = check_shape("dirichlet", shape)
        check_fits("dirichlet", shape, batch)
    return placed(_dirichlet(key, alpha, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3))
def _dirichlet(key: Any, alpha: Any, shape: Any, dtype: Any) -> Any:
    alpha = lax.convert_element_type(alpha, dtype)
    logs = loggamma(key, alpha, shape + np.shape(alpha)[-1:], dtype)
    top = jnp.max(logs, axis=-1, keepdims=True, initial=-np.inf)
    scaled = lax.exp(logs - lax.stop_gradient(top))
    return scaled / jnp.sum(scaled, axis=-1, keepdims=True)


def _static(x: Any, name: str) -> int:
    if isinstance(x, Tracer):
        raise errors.ConcretizationTypeError(
            x, f"weft.random.{name} takes its shape from this argument, which cannot be traced"
        )
    return operator.index(x)


def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return orthogonal (or unitary) matrices, uniformly distributed.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        n: the number of rows.
        shape: the shape in front of the matrices.
        dtype: the dtype of the result, float or complex; the default float dtype if None.
        m: the number of columns; ``n`` unless given. A matrix that is not square has orthonormal
            rows or columns.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape + (n, m)``.

    Example:
        >>> import weft
        >>> weft.random.orthogonal(weft.random.key(0), 3, (2,)).shape
        (2, 3, 3)
    """
    key, _ = check_key("orthogonal", key)
    dtype = check_dtype("orthogonal", dtype, np.inexact)
    n = _static(n, "orthogonal")
    m = n if m is None else _static(m, "orthogonal")
    if n < 0 or m < 0:
        raise ValueError(f"orthogonal needs non-negative sizes, got {n} and {m}")
    shape = check_shape("orthogonal", shape)
    return placed(_orthogonal(key, n, m, shape, dtype), out_sharding)


@jit(static_argnums=(1, 2, 3, 4))
def _orthogonal(key: Any, n: int, m: int, shape: Any, dtype: Any) -> Any:
    z = normal(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = linalg.qr(z)
    # The signs on the diagonal make the factorisation unique, and q uniform.
    x = q * lax.expand_dims(jnp.sign(linalg.diagonal(r)), (r.ndim - 2,))
    return jnp.matrix_transpose(x) if n < m else x


def ball(
    key: Any,
    d: int,
    p: Any = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return points uniform in the unit ball of the ``p``-norm.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        d: the dimension of the space.
        p: the exponent of the norm; 2 is the usual ball.
        shape: the shape in front of the points.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape + (d,)``.

    Example:
        >>> import weft
        >>> weft.random.ball(weft.random.key(0), 3, shape=(2,)).shape
        (2, 3)
    """
    key, _ = check_key("ball", key)
    d = _static(d, "ball")
    dtype = check_dtype("ball", dtype)
    shape = check_shape("ball", shape)
    return placed(_ball(key, p, d, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3, 4))
def _ball(key: Any, p: Any, d: int, shape: Any, dtype: Any) -> Any:
    # Barthe, Guedon, Mendelson and Naor (2005), "A probabilistic approach to the geometry of the
    # l_p^n-ball".
    key_direction, key_radius = unpack(split_key(key))
    g = generalized_normal(key_direction, p, (*shape, d), dtype)
    e = exponential(key_radius, shape, dtype)
    return g / ((jnp.sum(abs(g) ** p, axis=-1) + e) ** (1 / p))[..., None]
