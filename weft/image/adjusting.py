"""Brightness, contrast, gamma, hue, saturation and blur of images.

Results are not clipped to [0, 1], so that adjustments can follow each other.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array
from weft.image.colours import hsv_of_planes, planes_of_hsv
from weft.image.layout import image_of, planes, spatial_axes

MAX_UNROLLED_TAPS = 33  # a blur with more is a convolution


def adjust_brightness(image: Array, delta: Any) -> Array:
    """Add a number to every pixel.

    Args:
        image: an image of any shape, from 0 to 1.
        delta: the number.

    Returns:
        The image, of the same shape and dtype.

    Example:
        >>> import weft
        >>> weft.image.adjust_brightness(weft.numpy.zeros((1, 2, 1)), 0.25)
        Array([[[0.25],
                [0.25]]], dtype=float32)
    """
    image = jnp.asarray(image)
    return image + jnp.asarray(delta, image.dtype)


def adjust_contrast(image: Array, factor: Any, *, channel_axis: int = -1) -> Array:
    """Multiply the distance of every pixel from the mean of its channel.

    Args:
        image: (..., height, width, channels) or (..., channels, height, width).
        factor: the number to multiply by.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape and dtype.

    Example:
        >>> import weft
        >>> weft.image.adjust_contrast(weft.numpy.array([[[0.25], [0.75]]]), 2)
        Array([[[0.],
                [1.]]], dtype=float32)
    """
    image = jnp.asarray(image)
    axes = spatial_axes("adjust_contrast", image, channel_axis)
    mean = jnp.mean(image, axis=axes, keepdims=True)
    return jnp.asarray(factor, image.dtype) * (image - mean) + mean


def adjust_gamma(
    image: Array, gamma: Any, *, gain: Any = 1.0, assume_in_bounds: bool = False
) -> Array:
    """``gain * image ** gamma``.

    Args:
        image: an image of any shape, from 0 to 1.
        gamma: the exponent.
        gain: the factor.
        assume_in_bounds: do not clip the image to [0, 1] first. Powers of negative numbers are NaN.

    Returns:
        The image, of the same shape and dtype.

    Example:
        >>> import weft
        >>> weft.image.adjust_gamma(weft.numpy.array([0.5, 2.0]), 2)
        Array([0.25, 1.  ], dtype=float32)
    """
    image = jnp.asarray(image)
    if not assume_in_bounds:
        image = jnp.clip(image, 0, 1)
    return jnp.asarray(gain, image.dtype) * image ** jnp.asarray(gamma, image.dtype)


def adjust_hue(image: Array, delta: Any, *, channel_axis: int = -1) -> Array:
    """Turn the hue of every pixel.

    Args:
        image: red, green and blue along ``channel_axis``, from 0 to 1.
        delta: the angle to turn by; 1 is a whole turn.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.adjust_hue(weft.numpy.array([[[1.0, 0.0, 0.0]]]), 0.5)
        Array([[[0., 1., 1.]]], dtype=float32)
    """
    rgb = planes("adjust_hue", jnp.asarray(image), channel_axis)
    hue, saturation, value = hsv_of_planes(*rgb)
    return jnp.stack(planes_of_hsv(hue + delta, saturation, value), axis=channel_axis)


def adjust_saturation(image: Array, factor: Any, *, channel_axis: int = -1) -> Array:
    """Multiply the saturation of every pixel, up to 1.

    Args:
        image: red, green and blue along ``channel_axis``, from 0 to 1.
        factor: the number to multiply by; 0 makes the image grey.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.adjust_saturation(weft.numpy.array([[[1.0, 0.5, 0.5]]]), 0)
        Array([[[1., 1., 1.]]], dtype=float32)
    """
    image = jnp.asarray(image)
    hue, saturation, value = hsv_of_planes(*planes("adjust_saturation", image, channel_axis))
    saturation = jnp.clip(saturation * jnp.asarray(factor, image.dtype), 0, 1)
    return jnp.stack(planes_of_hsv(hue, saturation, value), axis=channel_axis)


def solarize(image: Array, threshold: Any) -> Array:
    """Invert the pixels from a threshold up.

    Args:
        image: an image of any shape, from 0 to 1.
        threshold: the least value that is inverted.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.solarize(weft.numpy.array([0.25, 0.75]), 0.5)
        Array([0.25, 0.25], dtype=float32)
    """
    image = jnp.asarray(image)
    return jnp.where(image < threshold, image, 1.0 - image)


def gaussian_blur(
    image: Array,
    sigma: Any,
    kernel_size: float,
    *,
    padding: str = "SAME",
    channel_axis: int = -1,
) -> Array:
    """Blur an image with a Gaussian window.

    Args:
        image: (height, width, channels), a batch of them, or with the channels in front.
        sigma: the standard deviation, in pixels.
        kernel_size: the height and width of the window, rounded up to an odd number.
        padding: 'SAME', with zeros around the image, or 'VALID'.
        channel_axis: the axis of the channels.

    Returns:
        The image; with 'VALID', smaller by the window less one pixel.

    Example:
        >>> import weft
        >>> weft.image.gaussian_blur(weft.numpy.ones((3, 3, 1)), 1.0, 3)[1, 1]
        Array([1.], dtype=float32)
    """
    image = image_of("gaussian_blur", image)
    high, wide = spatial_axes("gaussian_blur", image, channel_axis)
    radius = int(kernel_size / 2)
    x = jnp.arange(-radius, radius + 1, dtype=jnp.float32)
    weights = jnp.exp(-(x**2) / (2 * jnp.asarray(sigma) ** 2))
    weights = (weights / jnp.sum(weights)).astype(image.dtype)
    same = str(padding).upper() == "SAME"
    if not same and str(padding).upper() != "VALID":
        raise ValueError(f"gaussian_blur: padding={padding!r} is neither 'SAME' nor 'VALID'")
    return windows(windows(image, weights, wide, same), weights, high, same)


def windows(image: Array, weights: Array, axis: int, same: bool = False) -> Array:
    """Sums along an axis of windows of an image, symmetric weights times pixels."""
    axis %= image.ndim
    taps = weights.shape[0]
    if same:
        pads = [(0, 0, 0)] * image.ndim
        pads[axis] = (taps // 2, taps // 2, 0)
        image = lax.pad(image, jnp.zeros((), image.dtype), pads)
    size = image.shape[axis] - taps + 1
    if size <= 0:
        raise ValueError(f"a window of {taps} pixels does not fit into {image.shape[axis]}")
    if taps > MAX_UNROLLED_TAPS:
        return _convolved(image, weights, axis)
    part = lambda i: lax.slice_in_dim(image, i, i + size, axis=axis)
    total: Any = weights[taps // 2] * part(taps // 2) if taps % 2 else 0
    for i in range(taps // 2):
        total = total + weights[i] * (part(i) + part(taps - 1 - i))
    return total


def _convolved(image: Array, weights: Array, axis: int) -> Array:
    rows = jnp.moveaxis(image, axis, -1)
    flat = rows.reshape(-1, 1, rows.shape[-1])
    done = lax.conv_general_dilated(
        flat, weights[None, None], (1,), "VALID", precision=lax.Precision.HIGHEST
    )
    return jnp.moveaxis(done.reshape(*rows.shape[:-1], -1), -1, axis)
