"""Pooling over windows, with channels last."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp


def pool(
    inputs: Any,
    init: Any,
    reduce_fn: Callable[..., Any],
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Any,
) -> weft.Array:
    """Return the reduction of every window of the spatial axes, those between batch and features.

    Args:
        inputs: an array of shape (batch..., spatial axes..., features).
        init: the value at which the reduction starts.
        reduce_fn: the reduction, a function of two values such as ``lax.add``.
        window_shape: the size of the window along each spatial axis.
        strides: the step of the window along each axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.

    Returns:
        An array with a value for each window.

    Example:
        >>> from weft import lax
        >>> pool(jnp.arange(4.0).reshape(1, 4, 1), 0.0, lax.add, (2,), (2,), "VALID").ravel()
        Array([1., 5.], dtype=float32)
    """
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


def avg_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
) -> weft.Array:
    """Return the mean of every window.

    Args:
        inputs: an array of shape (batch..., spatial axes..., features).
        window_shape: the size of the window along each spatial axis.
        strides: the step of the window along each axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.
        count_include_pad: whether padding counts as elements of the window.

    Returns:
        An array with a value for each window.

    Example:
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


def max_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
) -> weft.Array:
    """Return the largest element of every window.

    Args:
        inputs: an array of shape (batch..., spatial axes..., features).
        window_shape: the size of the window along each spatial axis.
        strides: the step of the window along each axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.

    Returns:
        An array with a value for each window.

    Example:
        >>> max_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
        Array([1., 3.], dtype=float32)
    """
    return pool(inputs, -jnp.inf, lax.max, window_shape, strides, padding)


def min_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
) -> weft.Array:
    """Return the smallest element of every window.

    Args:
        inputs: an array of shape (batch..., spatial axes..., features).
        window_shape: the size of the window along each spatial axis.
        strides: the step of the window along each axis; 1 by default.
        padding: ``'SAME'``, ``'VALID'``, or pairs of padding before and after each axis.

    Returns:
        An array with a value for each window.

    Example:
        >>> min_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
        Array([0., 2.], dtype=float32)
    """
    return pool(inputs, jnp.inf, lax.min, window_shape, strides, padding)
