"""Pooling over windows, with channels last."""

import math

from weft import lax
from weft import numpy as jnp


def pool(inputs, init, reduce_fn, window_shape, strides, padding):
    """Reduce windows of the axes between batch and features."""
    rank = len(window_shape)
    batch = inputs.ndim - rank - 1
    strides = tuple(strides) if strides else (1,) * rank
    if len(strides) != rank:
        raise ValueError(f"window_shape has {rank} numbers, strides has {len(strides)}")
    if batch < 0:
        raise ValueError(f"a window of {rank} axes does not fit inputs of shape {inputs.shape}")
    single = batch == 0
    if single:
        inputs, batch = inputs[None], 1
    if not isinstance(padding, str):
        padding = tuple(map(tuple, padding))
        if len(padding) != rank or any(len(pair) != 2 for pair in padding):
            raise ValueError(f"padding={padding} must be a name or {rank} pairs of numbers")
        padding = ((0, 0),) * batch + padding + ((0, 0),)
    dims = (1,) * batch + tuple(window_shape) + (1,)
    steps = (1,) * batch + strides + (1,)
    y = lax.reduce_window(inputs, init, reduce_fn, dims, steps, padding)
    return jnp.squeeze(y, axis=0) if single else y


def avg_pool(inputs, window_shape, strides=None, padding="VALID", count_include_pad=True):
    """The mean of every window; padding counts unless ``count_include_pad`` is False.

    >>> avg_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
    Array([0.5, 2.5], dtype=float32)
    """
    total = pool(inputs, 0.0, lax.add, window_shape, strides, padding)
    if count_include_pad:
        return total / math.prod(window_shape)
    shape = (*inputs.shape[:-1], 1)
    if len(shape) - 2 == len(window_shape):
        shape = (1, *shape[1:])
    return total / pool(jnp.ones(shape), 0.0, lax.add, window_shape, strides, padding)


def max_pool(inputs, window_shape, strides=None, padding="VALID"):
    """The largest element of every window.

    >>> max_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
    Array([1., 3.], dtype=float32)
    """
    return pool(inputs, -jnp.inf, lax.max, window_shape, strides, padding)


def min_pool(inputs, window_shape, strides=None, padding="VALID"):
    """The smallest element of every window.

    >>> min_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
    Array([0., 2.], dtype=float32)
    """
    return pool(inputs, jnp.inf, lax.min, window_shape, strides, padding)
