"""Distributions of counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft import numpy as jnp
from weft.api.jit import jit
from weft.core.array import Array
from weft.core.trace import typeof
from weft.numpy.promotion import check_arraylike, promote_dtypes_inexact
from weft.prims.random import threefry_impl
from weft.random.arguments import (
    broadcast,
    broadcast_shape,
    check_dtype,
    check_fits,
    check_shape,
    const,
    placed,
    unpack,
)
from weft.random.distributions import uniform
from weft.random.keys import check_key, split_key


def _isnan(x: Any) -> Any:
    return lax.ne(x, x)


def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """The number of trials of probability ``p`` up to the first success.

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
    """Counts of events that come ``lam`` in the mean.

    >>> import weft
    >>> weft.random.poisson(weft.random.key(0), 3.0, (3,)).shape
    (3,)
    """
    key, _ = check_key("poisson", key)
    dtype = check_dtype("poisson", dtype, np.integer)
    impl = typeof(key).dtype._impl
    if impl is not threefry_impl:
        raise NotImplementedError(
            f"poisson draws from keys of the generator threefry2x32 alone, not {impl.name}"
        )
    shape = np.shape(lam) if shape is None else check_shape("poisson", shape)
    lam = lax.convert_element_type(jnp.broadcast_to(lam, shape), np.float32)
    return placed(_poisson(key, lam, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3))
def _poisson(key: Any, lam: Any, shape: Any, dtype: Any) -> Any:
    small = _isnan(lam) | (lam < 10)
    lam_small = lax.select(small, lam, lax.full_like(lam, 0.0))
    lam_large = lax.select(small, lax.full_like(lam, 1e5), lam)
    limit = dtype.type(dtypes.iinfo(dtype).max)
    result = lax.select(
        small,
        _poisson_knuth(key, lam_small, shape, dtype, limit),
        _poisson_rejection(key, lam_large, shape, dtype, limit),
    )
    return lax.select(lam == 0, lax.full_like(result, 0), result)


@jit(static_argnums=(2, 3, 4))
def _poisson_knuth(key: Any, lam: Any, shape: Any, dtype: Any, limit: Any) -> Any:
    """Knuth's method: how many uniform numbers may be multiplied until exp(-lam) is passed."""

    def step(carry: Any) -> Any:
        i, k, key, log_product = carry
        key, subkey = unpack(split_key(key))
        k = lax.select(log_product > -lam, k + 1, k)
        u = uniform(subkey, shape, np.float32)
        return i + 1, k, key, log_product + lax.log(u)

    def goes_on(carry: Any) -> Any:
        return _any(carry[3] > -lam) & (carry[0] < limit)

    zeros = lax.full_like(lam, 0, dtype, shape), lax.full_like(lam, 0, np.float32, shape)
    k = lax.while_loop(goes_on, step, (0, zeros[0], key, zeros[1]))[1]
    return lax.convert_element_type(k - 1, dtype)


def _any(x: Any) -> Any:
    return lax.reduce_or(x, tuple(range(np.ndim(x))))


@jit(static_argnums=(2, 3, 4))
def _poisson_rejection(key: Any, lam: Any, shape: Any, dtype: Any, limit: Any) -> Any:
    """Transformed rejection with squeeze, for lam of at least 10: Hoermann (1993), PTRS."""
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inv_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(carry: Any) -> Any:
        i, k_out, accepted, key = carry
        key, key_u, key_v = unpack(split_key(key, 3))
        u = uniform(key_u, shape, lam.dtype) - 0.5
        v = uniform(key_v, shape, lam.dtype)
        u_shifted = 0.5 - abs(u)
        k = lax.floor((2 * a / u_shifted + b) * u + lam + 0.43)
        s = lax.log(v * inv_alpha / (a / (u_shifted * u_shifted) + b))
        t = -lam + k * log_lam - lax.lgamma(k + 1)
        inside = (u_shifted >= 0.07) & (v <= v_r)
        outside = (k < 0) | ((u_shifted < 0.013) & (v > u_shifted))
        below = s <= t
        accept = inside | (~outside & below)
        k_out = lax.select(accept, k, k_out)
        accepted = accepted | accept
        return i + 1, k_out, accepted, key

    def goes_on(carry: Any) -> Any:
        return _any(~carry[2]) & (carry[0] < limit)

    start = lax.full_like(lam, -1, lam.dtype, shape)
    accepted = lax.full_like(lam, False, np.dtype(bool), shape)
    k = lax.while_loop(goes_on, step, (0, start, accepted, key))[1]
    return lax.convert_element_type(k, dtype)


# --- binomial -------------------------------------------------------------------------------------


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """How many of ``n`` trials of probability ``p`` succeed, as floats.

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
    # Each method is run on all elements; those of the other one get harmless parameters.
    count_few = lax.select(few, count, lax.full_like(count, 0.0))
    count_many = lax.select(few, lax.full_like(count, 1e4), count)
    q_many = lax.select(few, lax.full_like(q, 0.5), q)
    limit = dtype.type(dtypes.finfo(dtype).max)
    samples = lax.select(
        few,
        _binomial_inversion(key, count_few, q, shape, dtype, limit),
        _btrs(key, count_many, q_many, shape, dtype, limit),
    )
    invalid = q_negative | q_nan | count_bad
    samples = lax.select(invalid, lax.full_like(samples, np.nan, dtype), samples)
    infinite = count_infinite & ~invalid
    samples = lax.select(infinite, lax.full_like(samples, np.inf, dtype), samples)
    kept = rare | count_bad | q_nan | count_infinite
    return lax.select(kept, samples, lax.convert_element_type(count, dtype) - samples)


@jit(static_argnums=(3, 4, 5), inline=True)
def _binomial_inversion(key: Any, count: Any, prob: Any, shape: Any, dtype: Any, limit: Any) -> Any:
    """How many geometric waiting times fit into the trials."""
    log_failure = lax.log1p(lax.neg(prob))

    def step(carry: Any) -> Any:
        i, successes, trials, key = carry
        subkey, key = unpack(split_key(key))
        successes = lax.select(trials <= count, successes + 1, successes)
        u = uniform(subkey, shape, prob.dtype)
        trials = trials + lax.ceil(lax.log(u) / log_failure)
        return i + 1, successes, trials, key

    def goes_on(carry: Any) -> Any:
        return _any(carry[2] <= count) & (carry[0] < limit)

    zeros = [lax.full_like(prob, 0, prob.dtype, shape) for _ in range(2)]
    successes = lax.while_loop(goes_on, step, (0, *zeros, key))[1]
    return lax.convert_element_type(successes - 1, dtype)


_STIRLING_TAIL = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.010411265261972,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Any) -> Any:
    """log(k!) less Stirling's approximation of it."""
    table = jnp.array(_STIRLING_TAIL, dtype=k.dtype)
    small = k <= 9
    k = lax.clamp(const(k, 0.0), k, const(k, 9.0))
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return lax.select(small, table[lax.convert_element_type(lax.floor(k), np.int32)], series)


@jit(static_argnums=(3, 4, 5), inline=True)
def _btrs(key: Any, count: Any, prob: Any, shape: Any, dtype: Any, limit: Any) -> Any:
    """Transformed rejection with squeeze: Hoermann (1993), "The generation of binomial random
    variates", algorithm BTRS, for count * prob of at least 10."""
    deviation = lax.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * deviation
    m = lax.floor((count + 1) * prob)

    def step(carry: Any) -> Any:
        i, k_out, accepted, key = carry
        key, key_u, key_v = unpack(split_key(key, 3))
        u = uniform(key_u, shape, prob.dtype)
        v = uniform(key_v, shape, prob.dtype)
        u = u - 0.5
        us = 0.5 - abs(u)
        inside = (us >= 0.07) & (v <= v_r)
        k = lax.floor((2 * a / us + b) * u + c)
        outside = (k < 0) | (k > count)
        v = lax.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * lax.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * lax.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        below = v <= bound
        accept = inside | (~outside & below)
        k_out = lax.select(accept, k, k_out)
        accepted = accepted | accept
        return i + 1, k_out, accepted, key

    def goes_on(carry: Any) -> Any:
        return _any(~carry[2]) & (carry[0] < limit)

    start = lax.full_like(prob, -1, prob.dtype, shape)
    accepted = lax.full_like(prob, False, np.dtype(bool), shape)
    k = lax.while_loop(goes_on, step, (0, start, accepted, key))[1]
    return lax.convert_element_type(k, dtype)


def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: Any = 1
) -> Array:
    """How often each of several outcomes comes in ``n`` trials, with probabilities ``p``.

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
