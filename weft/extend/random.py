"""Generators of random numbers written by users, and the primitives of weft's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.api.batching import vmap
from weft.core.trace import eval_trace, set_trace
from weft.numpy.creation import asarray
from weft.prims import random as _prims
from weft.prims.random import PRNGImpl
from weft.prims.random import rbg_impl as rbg_prng_impl
from weft.prims.random import threefry_impl as threefry_prng_impl
from weft.prims.random import unsafe_rbg_impl as unsafe_rbg_prng_impl
from weft.prims.threefry import threefry2x32_p as threefry2x32_p
from weft.random.keys import PRNGSpec

__all__ = [
    "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p",
    "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl",
]  # fmt: skip


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[..., Any],
    split: Callable[..., Any],
    random_bits: Callable[..., Any],
    fold_in: Callable[..., Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGSpec:
    """Return a generator of random keys of one's own, to be given as ``impl=`` to ``random.key``.

    A key is an array of ``uint32``. The functions take and return arrays.

    Args:
        key_shape: the shape of a key.
        seed: ``seed(integer)`` returns a key.
        split: ``split(key, shape)`` returns an array of keys.
        random_bits: ``random_bits(key, bit_width, shape)`` returns unsigned integers of that width.
        fold_in: ``fold_in(key, integer)`` returns a key.
        name: the name of the generator.
        tag: a short name, for printed dtypes.

    Returns:
        The generator.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> counting = define_prng_impl(
        ...     key_shape=(1,),
        ...     seed=lambda n: jnp.full((1,), n, jnp.uint32),
        ...     split=lambda key, shape: key + jnp.arange(
        ...         int(jnp.prod(jnp.array(shape))), dtype=jnp.uint32).reshape(*shape, 1),
        ...     random_bits=lambda key, width, shape: jnp.broadcast_to(key[0], shape),
        ...     fold_in=lambda key, n: key + n,
        ...     name="counting", tag="count")
        >>> key = weft.random.key(5, impl=counting)
        >>> weft.random.bits(key, (2,))
        Array([5, 5], dtype=uint32)
    """
    own = (seed, split, random_bits, fold_in)
    impl = PRNGImpl(
        tuple(key_shape),
        lambda seeds: _on_each(own[0], 0, seeds),
        lambda words, shape: _on_each(lambda w: own[1](w, shape), len(key_shape), words),
        lambda words, width, shape: _on_each(
            lambda w: own[2](w, width, shape), len(key_shape), words
        ),
        lambda words, data: _on_each(own[3], len(key_shape), *_together(words, data, key_shape)),
        name=name,
        tag=tag,
    )
    return PRNGSpec(impl)


def _together(words: np.ndarray, data: np.ndarray, key_shape: Any) -> tuple[np.ndarray, ...]:
    """Keys and integers of one shape."""
    shape = np.broadcast_shapes(words.shape[: words.ndim - len(key_shape)], np.shape(data))
    return np.broadcast_to(words, (*shape, *key_shape)), np.broadcast_to(data, shape)


def _on_each(fun: Callable[..., Any], ndim: int, *arrays: Any) -> np.ndarray:
    """A function of one key on every key of an array; ``ndim`` are the dimensions of one."""
    for _ in range(np.ndim(arrays[0]) - ndim):
        fun = vmap(fun)
    with set_trace(eval_trace):
        return np.asarray(fun(*[asarray(x) for x in arrays]))


def seed_with_impl(impl: PRNGImpl, seed: Any) -> Any:
    """Return a key of a generator, made from an integer.

    Args:
        impl: the generator.
        seed: the integer.

    Returns:
        A key.

    Example:
        >>> seed_with_impl(threefry_prng_impl, 3).dtype
        key<fry>
    """
    return random_seed(seed, impl)


def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """Return keys of a generator, made from integers.

    Args:
        seeds: the integers, an array.
        impl: the generator.

    Returns:
        An array of keys.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.extend.random import threefry_prng_impl
        >>> random_seed(jnp.arange(2), threefry_prng_impl).shape
        (2,)
    """
    return _prims.random_seed_p.bind(asarray(seeds), impl=impl)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Return the Threefry-2x32 hash of an array of counters.

    Args:
        keypair: the key, two words.
        count: the counters, an array of uint32.

    Returns:
        An array of the shape of ``count``.

    Example:
        >>> import weft.numpy as jnp
        >>> key = jnp.array([0, 7], jnp.uint32)
        >>> threefry_2x32((key[0], key[1]), jnp.arange(4, dtype=jnp.uint32)).shape
        (4,)
    """
    if isinstance(keypair, (tuple, list)):
        key1, key2 = keypair
    else:
        key1, key2 = keypair[0], keypair[1]
    if not (np.dtype(np.uint32) == key1.dtype == key2.dtype == count.dtype):
        raise TypeError(
            "threefry_2x32 takes keys and counters of dtype uint32, got"
            f" {key1.dtype}, {key2.dtype} and {count.dtype}"
        )
    flat = count.ravel()
    odd = flat.size % 2
    if odd:
        flat = asarray(np.zeros(flat.size + 1, np.uint32)).at[: flat.size].set(flat)
    half = flat.size // 2
    first, second = threefry2x32_p.bind(key1, key2, flat[:half], flat[half:])
    both = asarray(np.zeros(flat.size, np.uint32)).at[:half].set(first).at[half:].set(second)
    return (both[:-1] if odd else both).reshape(count.shape)
