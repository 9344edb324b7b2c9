"""Images in other colour spaces. Values are floating-point numbers from 0 to 1."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.image.layout import planes

LUMA = {
    "rec601": (0.2989, 0.5870, 0.1140),
    "rec709": (0.2126, 0.7152, 0.0722),
    "bt2001": (0.2627, 0.6780, 0.0593),
}


def _hue(red: Array, green: Array, blue: Array, high: Array, spread: Array) -> Array:
    """The hue of colours, 0 for grey; ``high`` is the largest channel, ``spread`` the range."""
    # The divisor of grey is replaced, so that gradients there are finite.
    coloured = spread > 0
    scale = 1 / (6 * jnp.where(coloured, spread, 1))
    hue = jnp.where(high == green, scale * (blue - red) + 2 / 6, scale * (red - green) + 4 / 6)
    hue = jnp.where(high == red, scale * (green - blue), hue)
    return jnp.where(coloured, jnp.where(hue < 0, hue + 1, hue), 0)


def hsv_of_planes(red: Array, green: Array, blue: Array) -> tuple[Array, Array, Array]:
    """Hue, saturation and value of colours given by their channels."""
    value = jnp.maximum(jnp.maximum(red, green), blue)
    spread = value - jnp.minimum(jnp.minimum(red, green), blue)
    lit = value > 0
    saturation = jnp.where(lit, spread / jnp.where(lit, value, 1), 0)
    return _hue(red, green, blue, value, spread), saturation, value


def planes_of_hsv(hue: Array, saturation: Array, value: Array) -> tuple[Array, Array, Array]:
    """Red, green and blue of colours given by hue, which wraps, saturation and value."""
    sixths = (hue % 1) * 6
    strengths = (
        jnp.abs(sixths - 3) - 1,
        2 - jnp.abs(sixths - 2),
        2 - jnp.abs(sixths - 4),
    )
    base = 1 - saturation
    red, green, blue = (value * (base + saturation * jnp.clip(s, 0, 1)) for s in strengths)
    return red, green, blue


def rgb_to_hsv(image_rgb: Array, *, channel_axis: int = -1) -> Array:
    """Hue, saturation and value of a colour image.

    Args:
        image_rgb: red, green and blue along ``channel_axis``, from 0 to 1.
        channel_axis: the axis of the channels.

    Returns:
        An array of the same shape, from 0 to 1.

    Example:
        >>> import weft
        >>> weft.image.rgb_to_hsv(weft.numpy.array([[[0.0, 0.5, 0.0]]])).round(3)
        Array([[[0.333, 1.   , 0.5  ]]], dtype=float32)
    """
    image = jnp.asarray(image_rgb)
    image = jnp.where(jnp.abs(image) < jnp.finfo(image.dtype).eps, 0, image)
    return jnp.stack(hsv_of_planes(*planes("rgb_to_hsv", image, channel_axis)), axis=channel_axis)


def hsv_to_rgb(image_hsv: Array, *, channel_axis: int = -1) -> Array:
    """The colour image of hue, saturation and value: the inverse of ``rgb_to_hsv``.

    Args:
        image_hsv: hue, saturation and value along ``channel_axis``, from 0 to 1; hue wraps.
        channel_axis: the axis of the channels.

    Returns:
        An array of the same shape, from 0 to 1.

    Example:
        >>> import weft
        >>> weft.image.hsv_to_rgb(weft.numpy.array([[[0.5, 1.0, 0.5]]])).round(3)
        Array([[[0. , 0.5, 0.5]]], dtype=float32)
    """
    image = jnp.asarray(image_hsv)
    return jnp.stack(planes_of_hsv(*planes("hsv_to_rgb", image, channel_axis)), axis=channel_axis)


def rgb_to_hsl(image_rgb: Array, *, channel_axis: int = -1) -> Array:
    """Hue, saturation and lightness of a colour image.

    Args:
        image_rgb: red, green and blue along ``channel_axis``, from 0 to 1.
        channel_axis: the axis of the channels of ``image_rgb``.

    Returns:
        An array from 0 to 1, with its channels along the last axis, as dm_pix has them.

    Example:
        >>> import weft
        >>> weft.image.rgb_to_hsl(weft.numpy.array([[[0.0, 0.5, 0.0]]])).round(3)
        Array([[[0.333, 1.   , 0.25 ]]], dtype=float32)
    """
    red, green, blue = planes("rgb_to_hsl", jnp.asarray(image_rgb), channel_axis)
    high = jnp.maximum(red, jnp.maximum(green, blue))
    low = jnp.minimum(red, jnp.minimum(green, blue))
    grey, total, spread = high == low, high + low, high - low
    eps = float(np.finfo(np.float32).eps)
    saturation = (spread + eps) / (2 * eps + jnp.where(total <= 1, total, 2 - total))
    saturation = jnp.where(grey, 0, saturation)
    return jnp.stack([_hue(red, green, blue, high, spread), saturation, total / 2], axis=-1)


def hsl_to_rgb(image_hsl: Array, *, channel_axis: int = -1) -> Array:
    """The colour image of hue, saturation and lightness: the inverse of ``rgb_to_hsl``.

    Args:
        image_hsl: hue, saturation and lightness along ``channel_axis``, from 0 to 1; hue wraps.
        channel_axis: the axis of the channels of ``image_hsl``.

    Returns:
        An array from 0 to 1, with its channels along the last axis, as dm_pix has them.

    Example:
        >>> import weft
        >>> weft.image.hsl_to_rgb(weft.numpy.array([[[0.5, 1.0, 0.25]]])).round(3)
        Array([[[0. , 0.5, 0.5]]], dtype=float32)
    """
    hue, saturation, light = planes("hsl_to_rgb", jnp.asarray(image_hsl), channel_axis)
    product = light * saturation
    top = jnp.where(light <= 0.5, light + product, light + saturation - product)
    bottom = 2 * light - top
    slope = 6 * (top - bottom)

    def channel(turned: Array) -> Array:
        turned = turned % 1
        falling = jnp.where(turned < 2 / 3, bottom + slope * (2 / 3 - turned), bottom)
        rest = jnp.where(turned < 0.5, top, falling)
        value = jnp.where(turned < 1 / 6, bottom + slope * turned, rest)
        return jnp.where(saturation == 0, light, value)

    return jnp.stack([channel(hue + 1 / 3), channel(hue), channel(hue - 1 / 3)], axis=-1)


def rgb_to_grayscale(
    image: Array,
    *,
    keep_dims: bool = False,
    luma_standard: str = "rec601",
    channel_axis: int = -1,
) -> Array:
    """The luma of a colour image, a weighted sum of its channels.

    Args:
        image: red, green and blue along ``channel_axis``, from 0 to 1.
        keep_dims: repeat the result three times along the channels, instead of one channel.
        luma_standard: whose weights to use, 'rec601', 'rec709' or 'bt2001'.
        channel_axis: the axis of the channels.

    Returns:
        An array of the same rank.

    Example:
        >>> import weft
        >>> weft.image.rgb_to_grayscale(weft.numpy.ones((2, 4, 3))).shape
        (2, 4, 1)
    """
    if luma_standard not in LUMA:
        known = ", ".join(LUMA)
        raise ValueError(f"luma_standard={luma_standard!r} is not one of {known}")
    image = jnp.asarray(image)
    channels = planes("rgb_to_grayscale", image, channel_axis)
    weights = np.asarray(LUMA[luma_standard], image.dtype)
    terms = [weight * plane for weight, plane in zip(weights, channels, strict=True)]
    luma = jnp.expand_dims(terms[0] + terms[1] + terms[2], channel_axis)
    return jnp.repeat(luma, 3, axis=channel_axis) if keep_dims else luma
