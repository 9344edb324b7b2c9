"""Where an image has its height, width and channels, and the checks that images are images."""

from __future__ import annotations

import weft.numpy as jnp
from weft.core.array import Array


def image_of(name: str, image: Array, ranks: tuple[int, ...] = (3, 4)) -> Array:
    """An argument as an array, which has to be an image or a batch of images."""
    image = jnp.asarray(image)
    if image.ndim not in ranks:
        kinds = {3: "an image (height, width, channels)", 4: "a batch of images"}
        wanted = " or ".join(kinds[rank] for rank in ranks)
        raise ValueError(f"{name} takes {wanted}, not an array of shape {image.shape}")
    return image


def spatial_axes(name: str, image: Array, channel_axis: int) -> tuple[int, int]:
    """The axes of height and width: channels are last, or just before both."""
    last = channel_axis in (-1, image.ndim - 1)
    if not last and channel_axis not in (-3, image.ndim - 3):
        raise ValueError(
            f"{name}: channel_axis={channel_axis} of an image of shape {image.shape} must be the "
            "last axis or the third from the end"
        )
    return (-3, -2) if last else (-2, -1)


def planes(name: str, image: Array, channel_axis: int) -> tuple[Array, Array, Array]:
    """The three channels of a colour image, without their axis."""
    if not -image.ndim <= channel_axis < image.ndim or image.shape[channel_axis] != 3:
        raise ValueError(
            f"{name} takes three channels along axis {channel_axis}, not an image of "
            f"shape {image.shape}"
        )
    first, second, third = jnp.unstack(image, axis=channel_axis)
    return first, second, third
