"""Changes of images that are drawn at random, for training on more than there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft import lax, random
from weft.core.array import Array
from weft.image.adjusting import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
)
from weft.image.geometry import flip_left_right, flip_up_down


def random_brightness(key: Any, image: Array, max_delta: Any) -> Array:
    """``adjust_brightness`` by a number drawn from ``[-max_delta, max_delta)``.

    Args:
        key: a random key.
        image: an image of any shape.
        max_delta: the limit.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.random_brightness(weft.random.key(0), weft.numpy.zeros(1), 0.5).shape
        (1,)
    """
    return adjust_brightness(image, random.uniform(key, (), minval=-max_delta, maxval=max_delta))


def random_gamma(
    key: Any,
    image: Array,
    min_gamma: Any,
    max_gamma: Any,
    *,
    gain: Any = 1,
    assume_in_bounds: bool = False,
) -> Array:
    """``adjust_gamma`` by an exponent drawn from ``[min_gamma, max_gamma)``.

    Args:
        key: a random key.
        image: an image of any shape, from 0 to 1.
        min_gamma: the least exponent.
        max_gamma: the limit.
        gain: the factor.
        assume_in_bounds: do not clip the image to [0, 1] first.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.random_gamma(weft.random.key(0), weft.numpy.ones(1), 0.5, 2)
        Array([1.], dtype=float32)
    """
    gamma = random.uniform(key, (), minval=min_gamma, maxval=max_gamma)
    return adjust_gamma(image, gamma, gain=gain, assume_in_bounds=assume_in_bounds)


def random_hue(key: Any, image: Array, max_delta: Any, *, channel_axis: int = -1) -> Array:
    """``adjust_hue`` by an angle drawn from ``[-max_delta, max_delta)``.

    Args:
        key: a random key.
        image: red, green and blue along ``channel_axis``, from 0 to 1.
        max_delta: the limit; 1 is a whole turn.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.random_hue(weft.random.key(0), weft.numpy.ones((2, 2, 3)), 0.1).shape
        (2, 2, 3)
    """
    delta = random.uniform(key, (), minval=-max_delta, maxval=max_delta)
    return adjust_hue(image, delta, channel_axis=channel_axis)


def random_contrast(
    key: Any, image: Array, lower: Any, upper: Any, *, channel_axis: int = -1
) -> Array:
    """``adjust_contrast`` by a factor drawn from ``[lower, upper)``.

    Args:
        key: a random key.
        image: (..., height, width, channels) or (..., channels, height, width).
        lower: the least factor.
        upper: the limit.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.random_contrast(weft.random.key(0), weft.numpy.ones((2, 2, 3)), 0.5, 2).shape
        (2, 2, 3)
    """
    factor = random.uniform(key, (), minval=lower, maxval=upper)
    return adjust_contrast(image, factor, channel_axis=channel_axis)


def random_saturation(
    key: Any, image: Array, lower: Any, upper: Any, *, channel_axis: int = -1
) -> Array:
    """``adjust_saturation`` by a factor drawn from ``[lower, upper)``.

    Args:
        key: a random key.
        image: red, green and blue along ``channel_axis``, from 0 to 1.
        lower: the least factor.
        upper: the limit.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.random_saturation(weft.random.key(0), weft.numpy.ones((2, 2, 3)), 0, 2).shape
        (2, 2, 3)
    """
    factor = random.uniform(key, (), minval=lower, maxval=upper)
    return adjust_saturation(image, factor, channel_axis=channel_axis)


def random_flip_left_right(key: Any, image: Array, *, probability: Any = 0.5) -> Array:
    """``flip_left_right`` with a probability; the channels are last.

    Args:
        key: a random key.
        image: (..., height, width, channels).
        probability: of a flip.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> image = weft.numpy.array([[[1], [2]]])
        >>> weft.image.random_flip_left_right(weft.random.key(0), image, probability=1.0)[0, :, 0]
        Array([2, 1], dtype=int32)
    """
    image = jnp.asarray(image)
    return jnp.where(random.bernoulli(key, probability), flip_left_right(image), image)


def random_flip_up_down(key: Any, image: Array, *, probability: Any = 0.5) -> Array:
    """``flip_up_down`` with a probability; the channels are last.

    Args:
        key: a random key.
        image: (..., height, width, channels).
        probability: of a flip.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> image = weft.numpy.array([[[1]], [[2]]])
        >>> weft.image.random_flip_up_down(weft.random.key(0), image, probability=1.0)[:, 0, 0]
        Array([2, 1], dtype=int32)
    """
    image = jnp.asarray(image)
    return jnp.where(random.bernoulli(key, probability), flip_up_down(image), image)


def random_crop(key: Any, image: Array, crop_sizes: Sequence[int]) -> Array:
    """A part of an image, from a place that is drawn.

    Args:
        key: a random key.
        image: an array of any shape.
        crop_sizes: the shape of the part.

    Returns:
        The part.

    Example:
        >>> import weft
        >>> weft.image.random_crop(weft.random.key(0), weft.numpy.ones((8, 8, 3)), (4, 5, 3)).shape
        (4, 5, 3)
    """
    image, sizes = jnp.asarray(image), tuple(crop_sizes)
    fits = len(sizes) == image.ndim
    if not fits or any(a > b for a, b in zip(sizes, image.shape, strict=True)):
        raise ValueError(f"random_crop cannot take {sizes} from an image of shape {image.shape}")
    keys = random.split(key, len(sizes))
    starts = [
        random.randint(part, (), 0, whole - size + 1)
        for part, whole, size in zip(keys, image.shape, sizes, strict=True)
    ]
    return lax.dynamic_slice(image, starts, sizes)
