"""Distributions of counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft import numpy as jnp
from weft.api.jit import jit
from weft.core.array import Array
from weft.core.trace import typeof
from weft.numpy.promotion import check_arraylike, promote_dtypes_inexact
from weft.prims.random import layout, threefry_impl
from weft.prims.random_draws import random_binomial_p, random_poisson_p
from weft.random.arguments import (
    broadcast,
    broadcast_shape,
    check_dtype,
    check_fits,
    check_shape,
    placed,
)
from weft.random.distributions import uniform
from weft.random.keys import check_key, split_key


def _isnan(x: Any) -> Any:
    return lax.ne(x, x)


def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return how many trials it takes up to the first success.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        p: the probability that a trial succeeds, in (0, 1].
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the dtype of the result; int32 by default, int64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An integer array of shape ``shape``, with elements from 1 up.

    Example:
        >>> import weft
        >>> weft.random.geometric(weft.random.key(0), 0.3, (3,)).shape
        (3,)
    """
    key, _ = check_key("geometric", key)
    dtype = check_dtype("geometric", dtype, np.integer)
    shape = broadcast_shape("geometric", shape, p)
    check_arraylike("geometric", p)
    return placed(_geometric(key, p, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3))
def _geometric(key: Any, p: Any, shape: Any, dtype: Any) -> Any:
    (p,) = promote_dtypes_inexact(p)
    u = uniform(key, shape, p.dtype)
    log_u = lax.log(jnp.where(u == 0, 1, u))
    log_failure = broadcast(lax.log1p(lax.neg(p)), shape)
    trials = lax.floor(lax.div(log_u, log_failure)) + 1
    return lax.convert_element_type(trials, dtype)


# --- Poisson --------------------------------------------------------------------------------------


def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return counts from the Poisson distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        lam: the mean count, not negative. The generator must be threefry2x32.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the dtype of the result; int32 by default, int64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An integer array of shape ``shape``.

    Example:
        >>> import weft
        >>> weft.random.poisson(weft.random.key(0), 3.0, (3,)).shape
        (3,)
    """
    key, _ = check_key("poisson", key)
    dtype = check_dtype("poisson", dtype, np.integer)
    impl = typeof(key).dtype._impl
    if impl is not threefry_impl:
        raise NotImplementedError(
            f"poisson supports only keys of the generator threefry2x32, not {impl.name}"
        )
    shape = np.shape(lam) if shape is None else check_shape("poisson", shape)
    lam = lax.convert_element_type(jnp.broadcast_to(lam, shape), np.float32)
    return placed(_poisson(key, lam, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3))
def _poisson(key: Any, lam: Any, shape: Any, dtype: Any) -> Any:
    return lax.convert_element_type(random_poisson_p.bind(key, lam, **layout()), dtype)


# --- binomial -------------------------------------------------------------------------------------


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Return how many of ``n`` trials succeed.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        n: the number of trials.
        p: the probability that a trial succeeds.
        shape: the shape of the result. By default the broadcast shape of the parameters.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.

    Returns:
        A float array of shape ``shape``, of whole numbers from 0 to ``n``.

    Example:
        >>> import weft
        >>> weft.random.binomial(weft.random.key(0), 10, 0.4, (3,)).shape
        (3,)
    """
    key, _ = check_key("binomial", key)
    check_arraylike("binomial", n, p)
    dtype = check_dtype("binomial", dtype)
    if shape is not None:
        shape = check_shape("binomial", shape)
    return _binomial(key, n, p, shape, dtype)


@jit(static_argnums=(3, 4), inline=True)
def _binomial(key: Any, count: Any, prob: Any, shape: Any, dtype: Any) -> Any:
    if shape is None:
        shape = lax.broadcast_shapes(np.shape(count), np.shape(prob))
    else:
        check_fits("binomial", shape, np.shape(count), np.shape(prob))
    (prob,) = promote_dtypes_inexact(prob)
    count = broadcast(lax.convert_element_type(count, prob.dtype), shape)
    prob = broadcast(prob, shape)
    rare = prob < 0.5
    q = lax.select(rare, prob, 1.0 - prob)
    count_bad = _isnan(count) | (count < 0.0)
    count_infinite = jnp.isinf(count)
    q_nan, q_negative = _isnan(q), q < 0.0
    q = lax.select(q_nan | q_negative, lax.full_like(q, 0.01), q)
    few = count_bad | (count * q <= 10.0)
    count = lax.floor(count)
    few_or_many = random_binomial_p.bind(key, count, q, few, **layout())
    samples = lax.convert_element_type(few_or_many, dtype)
    invalid = q_negative | q_nan | count_bad
    samples = lax.select(invalid, lax.full_like(samples, np.nan, dtype), samples)
    infinite = count_infinite & ~invalid
    samples = lax.select(infinite, lax.full_like(samples, np.inf, dtype), samples)
    kept = rare | count_bad | q_nan | count_infinite
    return lax.select(kept, samples, lax.convert_element_type(count, dtype) - samples)


def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: Any = 1
) -> Array:
    """Return how often each of several outcomes occurs in ``n`` trials.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        n: the number of trials.
        p: the probabilities of the outcomes, along the last axis. They should sum to 1.
        shape: the shape of the result. By default ``n`` broadcast against the leading dimensions of
            ``p``, then the outcomes.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        unroll: how many outcomes each step of the loop over outcomes draws.

    Returns:
        A float array of counts that sum to ``n`` along the last axis.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> float(weft.random.multinomial(weft.random.key(0), 10, jnp.array([0.2, 0.8])).sum())
        10.0
    """
    key, _ = check_key("multinomial", key)
    check_arraylike("multinomial", n, p)
    n, p = promote_dtypes_inexact(n, p)
    shape = np.shape(p) if shape is None else check_shape("multinomial", shape)
    n, p = jnp.broadcast_to(n, shape[:-1]), jnp.broadcast_to(p, shape)

    def step(remainder: Any, row: Any) -> Any:
        ratio, key = row
        count = binomial(key, remainder, jnp.clip(ratio, 0, 1), dtype=remainder.dtype)
        return remainder - count, count

    # One outcome after the other, each among the trials and the probability that are left.
    p = jnp.moveaxis(p, -1, 0)
    left = lax.cumsum(p, 0, reverse=True)
    ratios = p / jnp.where(left == 0, 1, left)
    keys = split_key(key, ratios.shape[0])
    _, counts = lax.scan(step, n, (ratios, keys), unroll=unroll)
    counts = jnp.moveaxis(counts, 0, -1)
    return counts if dtype is None else counts.astype(dtype)
