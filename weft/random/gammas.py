"""The gamma distribution and those made of it, and other continuous distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.api.jit import jit
from weft.core.array import Array
from weft.numpy.norms import norm
from weft.prims.random import layout
from weft.prims.random_draws import random_gamma_p as random_gamma_p
from weft.random.arguments import (
    broadcast,
    broadcast_shape,
    check_dtype,
    check_shape,
    const,
    placed,
    unpack,
)
from weft.random.distributions import drawn, normal, rademacher, uniform
from weft.random.keys import check_key, split_key


def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from the gamma distribution: density ``x ** (a - 1) * exp(-x) / Gamma(a)``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        a: the shape parameter of the distribution, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.gamma(weft.random.key(0), 2.0, (3,)).shape
        (3,)
    """
    key, _ = check_key("gamma", key)
    dtype = check_dtype("gamma", dtype)
    shape = broadcast_shape("gamma", shape, a)
    return placed(_gamma(key, a, shape, dtype, False), out_sharding)


def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return logarithms of gamma-distributed numbers, accurate where the numbers would underflow.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        a: the shape parameter of the distribution, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.loggamma(weft.random.key(0), 0.01, (3,)).shape
        (3,)
    """
    key, _ = check_key("loggamma", key)
    dtype = check_dtype("loggamma", dtype)
    shape = broadcast_shape("loggamma", shape, a)
    return placed(_gamma(key, a, shape, dtype, True), out_sharding)


@jit(static_argnums=(2, 3, 4))
def _gamma(key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    a = broadcast(lax.convert_element_type(a, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space, **layout())


def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from the beta distribution.

    The density is proportional to ``x ** (a - 1) * (1 - x) ** (b - 1)``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        a: the first shape parameter, positive.
        b: the second shape parameter, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``, with elements between 0 and 1.

    Example:
        >>> import weft
        >>> weft.random.beta(weft.random.key(0), 2.0, 3.0, (3,)).shape
        (3,)
    """
    return drawn("beta", _beta, key, (a, b), shape, dtype, out_sharding)


@jit(static_argnums=(3, 4))
def _beta(key: Any, a: Any, b: Any, shape: Any, dtype: Any) -> Any:
    a, b = lax.convert_element_type(a, dtype), lax.convert_element_type(b, dtype)
    key_a, key_b = unpack(split_key(key))
    a, b = broadcast(a, shape), broadcast(b, shape)
    log_a = loggamma(key_a, a, shape, dtype)
    log_b = loggamma(key_b, b, shape, dtype)
    top = lax.max(log_a, log_b)
    x, y = lax.exp(lax.sub(log_a, top)), lax.exp(lax.sub(log_b, top))
    return lax.div(x, lax.add(x, y))


def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from the chi-square distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        df: the degrees of freedom, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.chisquare(weft.random.key(0), 3.0, (3,)).shape
        (3,)
    """
    return drawn("chisquare", _chisquare, key, (df,), shape, dtype, out_sharding)


@jit(static_argnums=(2, 3))
def _chisquare(key: Any, df: Any, shape: Any, dtype: Any) -> Any:
    df = lax.convert_element_type(df, dtype)
    two = const(df, 2)
    return lax.mul(lax.exp(loggamma(key, lax.div(df, two), shape, dtype)), two)


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers from the F distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        dfnum: the degrees of freedom of the numerator, positive.
        dfden: the degrees of freedom of the denominator, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.f(weft.random.key(0), 3.0, 4.0, (3,)).shape
        (3,)
    """
    return drawn("f", _f, key, (dfnum, dfden), shape, dtype, out_sharding)


@jit(static_argnums=(3, 4))
def _f(key: Any, dfnum: Any, dfden: Any, shape: Any, dtype: Any) -> Any:
    dfden = lax.convert_element_type(dfden, dtype)
    dfnum = lax.convert_element_type(dfnum, dtype)
    key_below, key_above = unpack(split_key(key))
    above = chisquare(key_above, dfnum, shape, dtype)
    below = chisquare(key_below, dfden, shape, dtype)
    return lax.div(above / dfnum, below / dfden)


def t(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from Student's t distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        df: the degrees of freedom, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.t(weft.random.key(0), 4.0, (3,)).shape
        (3,)
    """
    return drawn("t", _t, key, (df,), shape, dtype, out_sharding)


@jit(static_argnums=(2, 3))
def _t(key: Any, df: Any, shape: Any, dtype: Any) -> Any:
    df = lax.convert_element_type(df, dtype)
    key_normal, key_gamma = unpack(split_key(key))
    n = normal(key_normal, shape, dtype)
    half = lax.div(df, const(df, 2))
    return n * lax.sqrt(half / gamma(key_gamma, half, shape, dtype))


def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers with density proportional to ``exp(-abs(x) ** p)``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        p: the exponent; 2 gives a normal distribution, 1 a Laplace distribution.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.generalized_normal(weft.random.key(0), 2.0, (3,)).shape
        (3,)
    """
    key, _ = check_key("generalized_normal", key)
    dtype = check_dtype("generalized_normal", dtype)
    shape = check_shape("generalized_normal", shape)
    return placed(_generalized_normal(key, p, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3))
def _generalized_normal(key: Any, p: Any, shape: Any, dtype: Any) -> Any:
    keys = split_key(key)
    g = gamma(keys[0], 1 / p, shape, dtype)
    return rademacher(keys[1], shape, dtype) * g ** (1 / p)


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers from the Maxwell distribution: lengths of normal vectors in space.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.maxwell(weft.random.key(0), (3,)).shape
        (3,)
    """
    return drawn("maxwell", _maxwell, key, (), shape, dtype, out_sharding)


@jit(static_argnums=(1, 2))
def _maxwell(key: Any, shape: Any, dtype: Any) -> Any:
    return norm(normal(key, (*shape, 3), dtype), axis=-1)


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Return numbers from the Maxwell distribution with random signs, scaled and shifted.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        loc: the centre, added to the result.
        scale: the factor of the result before the shift.
        shape: the shape in front of that which ``loc`` and ``scale`` broadcast to.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.

    Returns:
        An array of dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.double_sided_maxwell(weft.random.key(0), 0.0, 1.0, (3,)).shape
        (3,)
    """
    key, _ = check_key("double_sided_maxwell", key)
    dtype = check_dtype("double_sided_maxwell", dtype)
    shape = check_shape("double_sided_maxwell", shape)
    return _double_sided_maxwell(key, loc, scale, shape, dtype)


@jit(static_argnums=(3, 4))
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any, dtype: Any) -> Any:
    together = lax.broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = (shape or together) + together
    key_length, key_sign = unpack(split_key(key))
    length = maxwell(key_length, shape, dtype)
    return rademacher(key_sign, shape, dtype) * length * scale + loc


def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from the Wald (inverse Gaussian) distribution of scale 1.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        mean: the mean of the distribution, positive.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.wald(weft.random.key(0), 1.5, (3,)).shape
        (3,)
    """
    return drawn("wald", _wald, key, (mean,), shape, dtype, out_sharding)


@jit(static_argnums=(2, 3))
def _wald(key: Any, mean: Any, shape: Any, dtype: Any) -> Any:
    # Michael, Schucany and Haas (1976): one of the two roots, with the right odds.
    key_normal, key_root = unpack(split_key(key, 2))
    mean = broadcast(lax.convert_element_type(mean, dtype), shape)
    v = normal(key_normal, shape, dtype)
    z = uniform(key_root, shape, dtype)
    y = lax.integer_pow(v, 2)
    y_sq = lax.integer_pow(y, 2)
    mean_sq = lax.integer_pow(mean, 2)
    root = lax.sqrt(4 * mean * y + mean_sq * y_sq)
    x = mean + mean_sq * y / 2 - mean / 2 * root
    return lax.select(lax.le(z, mean / (mean + x)), x, mean_sq / x)
