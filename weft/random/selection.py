"""Integers, permutations and choices; Gumbel noise, by which categories are chosen."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft import numpy as jnp
from weft.api.jit import jit
from weft.base import errors, knobs
from weft.core.array import Array, Exact
from weft.core.dims.dim import is_constant_shape
from weft.core.trace import Tracer
from weft.lax.shape import canonical_axis
from weft.numpy.promotion import check_arraylike, promote_dtypes_inexact
from weft.random.arguments import (
    broadcast,
    check_dtype,
    check_fits,
    check_shape,
    const,
    placed,
    random_bits,
    unpack,
)
from weft.random.distributions import _uniform, uniform
from weft.random.keys import check_key, split_key


def randint(
    key: Any,
    shape: Any,
    minval: Exact,
    maxval: Exact,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return integers uniform in ``[minval, maxval)``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result.
        minval: the smallest integer that can be drawn; broadcast against ``shape``.
        maxval: one more than the largest integer that can be drawn; broadcast against ``shape``.
        dtype: the integer dtype of the result; int32 by default, int64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An integer array of shape ``shape``.

    Example:
        >>> import weft
        >>> weft.random.randint(weft.random.key(0), (4,), 0, 10)
        Array([9, 0, 2, 3], dtype=int32)
    """
    key, _ = check_key("randint", key)
    dtype = check_dtype("randint", dtype, np.integer, TypeError)
    shape = check_shape("randint", shape)
    check_arraylike("randint", minval, maxval)
    info = dtypes.iinfo(dtype)
    if info.bits >= 32:
        return placed(_randint(key, minval, maxval, shape, dtype), out_sharding)
    # Drawn in 32 bits, where the open upper bound of narrow dtypes can be said.
    low, high = int(info.min), int(info.max)
    minval = jnp.clip(jnp.asarray(minval).astype("int32"), low, high)
    maxval = jnp.clip(jnp.asarray(maxval).astype("int32"), low, high + 1)
    drawn = _randint(key, minval, maxval, shape, np.dtype(np.int32))
    return placed(lax.convert_element_type(drawn, dtype), out_sharding)


def _clipped(x: Any, dtype: Any) -> Any:
    """Integers in another dtype; those that do not fit become its bounds."""
    have, want = dtypes.iinfo(x.dtype), dtypes.iinfo(dtype)
    low = const(x, max(int(have.min), int(want.min)))
    high = const(x, min(int(have.max), int(want.max)))
    return lax.convert_element_type(lax.min(high, lax.max(low, x)), dtype)


@jit(static_argnums=(3, 4))
def _randint(key: Any, minval: Any, maxval: Any, shape: Any, dtype: Any) -> Any:
    check_fits("randint", shape, np.shape(minval), np.shape(maxval))
    # where nothing is compiled they are what the user gave
    minval, maxval = (jnp.asarray(x) for x in (minval, maxval))
    minval, maxval = (
        x if dtypes.issubdtype(x.dtype, np.integer) else x.astype(int) for x in (minval, maxval)
    )
    top = np.array(dtypes.iinfo(dtype).max, dtype)
    above = lax.gt(maxval, _clipped(jnp.asarray(top), maxval.dtype))
    bounds = [_clipped(x, dtype) for x in (minval, maxval)]
    minval, maxval = (lax.broadcast_to_rank(x, len(shape)) for x in bounds)
    nbits = dtypes.iinfo(dtype).bits
    high, low = (random_bits(k, nbits, shape) for k in unpack(split_key(key)))
    unsigned = np.dtype(f"uint{nbits}")
    span = lax.convert_element_type(lax.sub(maxval, minval), unsigned)
    # An empty range gives minval; a bound beyond the dtype means that its maximum is drawn too.
    span = lax.select(lax.le(maxval, minval), lax.full_like(span, 1), span)
    wider = above & lax.gt(maxval, minval)
    span = lax.select(broadcast(wider, span.shape), lax.add(span, const(span, 1)), span)
    # high * 2**nbits + low modulo span, without overflow.
    factor = lax.rem(const(span, 2 ** (nbits // 2)), span)
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = lax.add(lax.mul(lax.rem(high, span), factor), lax.rem(low, span))
    return lax.add(minval, lax.convert_element_type(lax.rem(offset, span), dtype))


def _below(key: Any, count: int, shape: tuple[int, ...]) -> Any:
    """What randint draws from 0 to a number that is known.

    Below some numbers the high bits of what is drawn make no difference.
    """
    dtype = check_dtype("choice", None, np.integer, TypeError)
    nbits = dtypes.iinfo(dtype).bits
    factor = (2 ** (nbits // 2) % count) ** 2 % 2**nbits % count
    high, low = unpack(split_key(key))

    def rest(x: Any) -> Any:
        return lax.rem(x, const(x, count))

    drawn = rest(random_bits(low, nbits, shape))
    if factor:
        more = lax.mul(rest(random_bits(high, nbits, shape)), const(drawn, factor))
        drawn = rest(lax.add(more, drawn))
    return lax.convert_element_type(drawn, dtype)


# --- permutations and choices ---------------------------------------------------------------------


def _known_number(x: Any, what: str) -> Any:
    if isinstance(x, Tracer):
        raise errors.ConcretizationTypeError(
            x, f"{what} determines the size of the result, so it cannot be traced"
        )
    return x if isinstance(x, int) else np.asarray(x).item()


def permutation(
    key: Any,
    x: Any,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the slices of ``x`` along an axis in random order, or the integers below ``x``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        x: an array, or an integer that stands for ``arange(x)``.
        axis: the axis along which to shuffle.
        independent: shuffle every line along the axis on its own. By default whole slices move
            together.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of the shape and dtype of ``x``.

    Example:
        >>> import weft
        >>> weft.random.permutation(weft.random.key(0), 5)
        Array([0, 1, 4, 3, 2], dtype=int32)
    """
    key, _ = check_key("permutation", key)
    check_arraylike("permutation", x)
    axis = canonical_axis(axis, np.ndim(x) or 1)
    if not np.ndim(x):
        if not dtypes.issubdtype(dtypes.dtype(x), np.integer):
            raise TypeError(
                f"permutation takes an integer or an array, got a scalar of {dtypes.dtype(x)}"
            )
        n = operator.index(_known_number(x, "the argument x of weft.random.permutation"))
        return placed(_shuffle(key, jnp.arange(n), axis), out_sharding)
    if independent or np.ndim(x) == 1:
        return placed(_shuffle(key, x, axis), out_sharding)
    order = _shuffle(key, jnp.arange(np.shape(x)[axis]), 0)
    return placed(jnp.take(x, order, axis, unique_indices=True), out_sharding)


@jit(static_argnums=(2,))
def _shuffle(key: Any, x: Any, axis: int) -> Any:
    # Sorting by random words leaves ties in order; enough rounds make that bias negligible.
    if not is_constant_shape(x.shape):
        raise NotImplementedError(
            f"permutation sorts several times, depending on its size, and the shape {x.shape} is "
            "symbolic; sort by uniform draws instead: x[jnp.argsort(random.uniform(key, (n,)))]"
        )
    largest = np.iinfo(np.uint32).max
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(largest))
    for _ in range(rounds):
        key, subkey = unpack(split_key(key))
        _, x = lax.sort_key_val(random_bits(subkey, 32, x.shape), x, axis)
    return x


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Return slices of ``a`` along an axis, or integers below ``a``, drawn at random.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        a: an array, or an integer that stands for ``arange(a)``.
        shape: the shape of the choices. By default a single one.
        replace: whether the same slice may be drawn more than once.
        p: the probability of each slice, one for each along the axis. By default all are equally
            likely.
        axis: the axis along which to choose.
        mode: how precisely to draw when ``replace`` is False and ``p`` is given; ``gumbel``
            explains it.

    Returns:
        An array in which ``shape`` takes the place of the axis.

    Example:
        >>> import weft
        >>> weft.random.choice(weft.random.key(0), 10, (3,)).shape
        (3,)
    """
    key, _ = check_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"choice takes a sequence as its shape, got {shape!r}")
    check_arraylike("choice", a)
    ndim = np.ndim(a)
    if ndim:
        axis = canonical_axis(axis, ndim)
        n_inputs = np.shape(a)[axis]
    else:
        n_inputs = int(_known_number(a, "the argument a of weft.random.choice"))
    shape = check_shape("choice", shape)
    n_draws = math.prod(shape)
    if n_draws == 0:
        return jnp.zeros(shape, dtype=jnp.asarray(a).dtype)
    if n_inputs <= 0:
        raise ValueError(f"choice cannot draw from {n_inputs} elements")
    if not replace and n_draws > n_inputs:
        raise ValueError(
            f"choice cannot draw {n_draws} of {n_inputs} elements without replacement; pass "
            "replace=True"
        )
    if p is None and not replace:
        ordered = permutation(key, a if ndim else n_inputs, axis)
        result = ordered[(slice(None),) * axis + (slice(n_draws),)]
    else:
        if p is None:
            # only within a program: others are the same for any number of things
            known = isinstance(key, Tracer)
            ind = _below(key, n_inputs, shape) if known else randint(key, shape, 0, n_inputs)
        else:
            ind = _by_probability(key, p, n_inputs, shape, replace, mode)
        result = jnp.take(a, ind, axis) if ndim else ind
    if not ndim:
        return lax.reshape(result, shape)
    full = np.shape(a)
    return lax.reshape(result, full[:axis] + shape + full[axis + 1 :])


def _by_probability(
    key: Any, p: Any, n_inputs: int, shape: tuple[int, ...], replace: bool, mode: str | None
) -> Any:
    """Indices drawn with given probabilities."""
    check_arraylike("choice", p)
    (p,) = promote_dtypes_inexact(jnp.asarray(p))
    if np.shape(p) != (n_inputs,):
        raise ValueError(
            f"choice takes one probability per element: shape ({n_inputs},), got {np.shape(p)}"
        )
    if replace:
        cumulative = jnp.cumsum(p)
        r = cumulative[-1] * (1 - uniform(key, shape, dtype=cumulative.dtype))
        ind = jnp.searchsorted(cumulative, r)
    else:
        noisy = gumbel(key, (n_inputs,), dtype=p.dtype, mode=mode) + lax.log(p)
        ind = lax.top_k(noisy, math.prod(shape))[1]
    return ind.astype(int)


# --- categories -----------------------------------------------------------------------------------


def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers from the standard Gumbel distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        mode: ``'low'``, ``'high'`` or ``'highest'``. The last two (float32 only) draw more bits for
            a more precise tail.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.gumbel(weft.random.key(0), (2,)).shape
        (2,)
    """
    key, _ = check_key("gumbel", key)
    dtype = check_dtype("gumbel", dtype)
    if mode is None:
        mode = "high" if knobs.thread.high_dynamic_range_gumbel else "low"
    if mode not in ("highest", "high", "low"):
        raise ValueError(f"gumbel takes mode='low', 'high' or 'highest', got {mode!r}")
    return placed(_gumbel(key, check_shape("gumbel", shape), dtype, mode), out_sharding)


@jit(static_argnums=(1, 2, 3))
def _gumbel(key: Any, shape: Any, dtype: Any, mode: str) -> Any:
    info = dtypes.finfo(dtype)
    if mode == "low":
        u = _uniform(key, info.tiny, 1.0, shape, dtype)
        return lax.neg(lax.log(lax.neg(lax.log(u))))
    if mode == "highest" and dtype == np.float32:
        return _gumbel_of_64_bits(key, shape)
    high, low = unpack(_uniform(key, 0.0, 1.0, (2, *shape), dtype))
    x = jnp.where(high >= 0.5, high, high + 2.0**-info.nmant * low + info.tiny)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(x)))))


def _gumbel_of_64_bits(key: Any, shape: tuple[int, ...]) -> Any:
    """Gumbel numbers from fixed-point numbers of 64 bits, taken from the end nearer to them."""
    word = np.uint32
    bits = random_bits(key, 32, (2, *shape))
    inverted = lax.bitwise_not(bits)
    carry = lax.eq(inverted[1], word(0xFFFFFFFF))
    ones = lax.full_like(inverted[1], 1)
    carry = lax.convert_element_type(carry, np.dtype(word))
    negated = lax.add(
        inverted, lax.concatenate([lax.expand_dims(x, (0,)) for x in (carry, ones)], 0)
    )
    lower_half = lax.lt(bits[0], word(1 << 31))
    x = _float_of_words(jnp.where(lower_half, bits, negated))
    left = lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(x)))))
    right = lax.neg(lax.log(lax.neg(lax.log(x))))
    return jnp.where(lower_half, left, right)


def _float_of_words(bits: Any) -> Any:
    """The float32 in [0, 1/2] of fixed-point numbers given as two words, high and low."""
    word = np.uint32
    high_zeros, low_zeros = unpack(lax.clz(bits))
    high, low = unpack(bits)
    leading = lax.shift_left(high, high_zeros)
    following = jnp.where(
        lax.eq(high_zeros, word(32)),
        lax.shift_left(low, low_zeros),
        lax.shift_right_logical(low, lax.sub(word(32), high_zeros)),
    )
    mantissa = lax.bitwise_or(leading, following)
    mantissa = lax.bitwise_and(lax.shift_right_logical(mantissa, word(8)), word((1 << 23) - 1))
    zeros = jnp.where(lax.eq(high_zeros, word(32)), lax.add(word(32), low_zeros), high_zeros)
    exponent = lax.shift_left(lax.sub(word(126), zeros), word(23))
    exponent = lax.bitwise_and(exponent, word((1 << 30) - (1 << 22)))
    return lax.bitcast_convert_type(lax.bitwise_or(exponent, mantissa), np.float32)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the index of a category, drawn with probability proportional to ``exp(logits)``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        logits: the logarithms of the probabilities, up to a constant.
        axis: the axis of the categories.
        shape: the shape of the result, which ends in the shape of ``logits`` without the axis. By
            default just that.
        replace: whether a category may be drawn more than once for the same logits.
        mode: how precisely to draw; ``gumbel`` explains it.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An integer array of shape ``shape``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.random.categorical(weft.random.key(0), jnp.array([0.0, 100.0]), shape=(3,))
        Array([1, 1, 1], dtype=int32)
    """
    key, _ = check_key("categorical", key)
    check_arraylike("categorical", logits)
    logits = jnp.asarray(logits)
    at = canonical_axis(axis, logits.ndim)
    batch = logits.shape[:at] + logits.shape[at + 1 :]
    if shape is None:
        shape = batch
    else:
        shape = check_shape("categorical", shape)
        check_fits("categorical", shape, batch)
    prefix = shape[: len(shape) - len(batch)]
    if replace:
        full = list(shape[len(prefix) :])
        full.insert(at, logits.shape[at])
        noise = gumbel(key, (*prefix, *full), logits.dtype, mode=mode)
        noisy = noise + lax.expand_dims(logits, tuple(range(len(prefix))))
        return placed(jnp.argmax(noisy, axis=at - logits.ndim), out_sharding)
    k = math.prod(prefix)
    if k > logits.shape[at]:
        raise ValueError(
            f"categorical cannot draw {k} of {logits.shape[at]} categories without replacement"
        )
    noisy = logits + gumbel(key, logits.shape, logits.dtype, mode=mode)
    _, indices = lax.top_k(jnp.moveaxis(noisy, at, -1), k)
    last = indices.ndim - 1
    return placed(lax.reshape(indices, shape, (last, *range(last))), out_sharding)
