"""Crops, padding, flips and rotations of images, and images at moved pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import weft.numpy as jnp
from weft import lax, random
from weft.core.array import Array
from weft.image.adjusting import gaussian_blur
from weft.image.interpolation import interpolate, interpolate_constant
from weft.image.layout import image_of, spatial_axes
from weft.scipy.ndimage import map_coordinates


def center_crop(image: Array, height: int, width: int, *, channel_axis: int = -1) -> Array:
    """The middle of an image.

    Args:
        image: (height, width, channels), a batch of them, or with the channels in front.
        height: of the result; an image that is not as high is left as high as it is.
        width: of the result, in the same way.
        channel_axis: the axis of the channels.

    Returns:
        The cropped image.

    Example:
        >>> import weft
        >>> weft.image.center_crop(weft.numpy.ones((5, 8, 3)), 2, 4).shape
        (2, 4, 3)
    """
    image = image_of("center_crop", image)
    for axis, size in zip(spatial_axes("center_crop", image, channel_axis), (height, width)):
        start = max(image.shape[axis] // 2 - size // 2, 0)
        stop = min(start + size, image.shape[axis])
        image = lax.slice_in_dim(image, start, stop, axis=axis)
    return image


def pad_to_size(
    image: Array,
    target_height: int,
    target_width: int,
    *,
    mode: str = "constant",
    pad_kwargs: Mapping[str, Any] | None = None,
    channel_axis: int = -1,
) -> Array:
    """An image in the middle of a larger one.

    Args:
        image: (height, width, channels), a batch of them, or with the channels in front.
        target_height: of the result; an image that is higher is left as it is.
        target_width: of the result, in the same way.
        mode: how to pad, as in ``weft.numpy.pad``.
        pad_kwargs: more arguments of ``weft.numpy.pad``.
        channel_axis: the axis of the channels.

    Returns:
        The padded image. If one side gets more, it is the lower or right one.

    Example:
        >>> import weft
        >>> weft.image.pad_to_size(weft.numpy.ones((1, 2, 1)), 1, 5)[0, :, 0]
        Array([0., 1., 1., 0., 0.], dtype=float32)
    """
    image = image_of("pad_to_size", image)
    widths = [(0, 0)] * image.ndim
    axes = spatial_axes("pad_to_size", image, channel_axis)
    for axis, size in zip(axes, (target_height, target_width), strict=True):
        missing = max(size - image.shape[axis], 0)
        widths[axis] = (missing // 2, missing - missing // 2)
    if not any(map(any, widths)):
        return image
    return jnp.pad(image, widths, mode=mode, **(pad_kwargs or {}))


def resize_with_crop_or_pad(
    image: Array,
    target_height: int,
    target_width: int,
    *,
    pad_mode: str = "constant",
    pad_kwargs: Mapping[str, Any] | None = None,
    channel_axis: int = -1,
) -> Array:
    """An image cropped where it is too large and padded where it is too small.

    Args:
        image: (height, width, channels), a batch of them, or with the channels in front.
        target_height: of the result.
        target_width: of the result.
        pad_mode: how to pad, as in ``weft.numpy.pad``.
        pad_kwargs: more arguments of ``weft.numpy.pad``.
        channel_axis: the axis of the channels.

    Returns:
        An image of the given height and width.

    Example:
        >>> import weft
        >>> weft.image.resize_with_crop_or_pad(weft.numpy.ones((5, 8, 3)), 7, 4).shape
        (7, 4, 3)
    """
    image = center_crop(image, target_height, target_width, channel_axis=channel_axis)
    return pad_to_size(
        image,
        target_height,
        target_width,
        mode=pad_mode,
        pad_kwargs=pad_kwargs,
        channel_axis=channel_axis,
    )


def flip_left_right(image: Array, *, channel_axis: int = -1) -> Array:
    """An image with its left side right.

    Args:
        image: (..., height, width, channels) or (..., channels, height, width).
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.flip_left_right(weft.numpy.array([[[1], [2]]]))[0, :, 0]
        Array([2, 1], dtype=int32)
    """
    image = jnp.asarray(image)
    return jnp.flip(image, spatial_axes("flip_left_right", image, channel_axis)[1])


def flip_up_down(image: Array, *, channel_axis: int = -1) -> Array:
    """An image upside down.

    Args:
        image: (..., height, width, channels) or (..., channels, height, width).
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> weft.image.flip_up_down(weft.numpy.array([[[1]], [[2]]]))[:, 0, 0]
        Array([2, 1], dtype=int32)
    """
    image = jnp.asarray(image)
    return jnp.flip(image, spatial_axes("flip_up_down", image, channel_axis)[0])


def rot90(image: Array, k: int = 1, *, channel_axis: int = -1) -> Array:
    """An image turned counter-clockwise by quarters of a turn.

    Args:
        image: (..., height, width, channels) or (..., channels, height, width).
        k: how many quarters.
        channel_axis: the axis of the channels.

    Returns:
        The image; height and width are swapped for odd ``k``.

    Example:
        >>> import weft
        >>> weft.image.rot90(weft.numpy.array([[[1], [2]]]))[:, 0, 0]
        Array([2, 1], dtype=int32)
    """
    image = jnp.asarray(image)
    return jnp.rot90(image, k, spatial_axes("rot90", image, channel_axis))


def affine_transform(
    image: Array,
    matrix: Array,
    *,
    offset: Any = 0.0,
    order: int = 1,
    mode: str = "nearest",
    cval: float = 0.0,
) -> Array:
    """The image whose pixel ``p`` is that of the given one at ``matrix @ p + offset``.

    Args:
        image: (height, width, channels).
        matrix: (3, 3), or its diagonal, (3,), or (3, 4) or (4, 4) with the offset in the last
            column.
        offset: a number, or three.
        order: 0 takes the nearest pixel, 1 interpolates.
        mode: what is outside: 'nearest', 'constant', 'wrap', 'mirror' or 'reflect'.
        cval: the value outside with 'constant'.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> image = weft.numpy.arange(3.0).reshape(1, 3, 1)
        >>> offset = weft.numpy.array([0, 1, 0])
        >>> weft.image.affine_transform(image, weft.numpy.ones(3), offset=offset)
        Array([[[1.],
                [2.],
                [2.]]], dtype=float32)
    """
    image, matrix = image_of("affine_transform", image, (3,)), jnp.asarray(matrix)
    if matrix.ndim == 1:
        matrix = jnp.diag(matrix)
    if matrix.shape not in ((3, 3), (3, 4), (4, 4)):
        raise ValueError(
            "affine_transform takes a matrix of shape (3,), (3, 3), (3, 4) or (4, 4), "
            f"not {matrix.shape}"
        )
    if matrix.shape[1] == 4:
        matrix, offset = matrix[:3, :3], matrix[:3, 3]
    offset = jnp.broadcast_to(jnp.asarray(offset), (3,))
    grid = [
        lax.broadcasted_iota(jnp.int32, image.shape, axis).astype(jnp.result_type(matrix, 1.0))
        for axis in range(3)
    ]
    rows = [sum(matrix[i, j] * grid[j] for j in range(3)) + offset[i] for i in range(3)]
    return _moved(image, jnp.stack(rows), order, mode, cval)


def rotate(
    image: Array, angle: Any, *, order: int = 1, mode: str = "nearest", cval: float = 0.0
) -> Array:
    """An image turned about its middle.

    Args:
        image: (height, width, channels).
        angle: in radians, counter-clockwise.
        order: 0 takes the nearest pixel, 1 interpolates.
        mode: what is outside: 'nearest', 'constant', 'wrap', 'mirror' or 'reflect'.
        cval: the value outside with 'constant'.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> image = weft.numpy.arange(3.0).reshape(1, 3, 1)
        >>> weft.image.rotate(image, weft.numpy.pi).round(3)[0, :, 0]
        Array([2., 1., 0.], dtype=float32)
    """
    image = image_of("rotate", image, (3,))
    height, width, _ = image.shape
    middle = (height - 1) / 2, (width - 1) / 2
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    # Distances from the middle are exact, and small where rounding would show the most.
    y = lax.broadcasted_iota(jnp.float32, (height, width), 0) - middle[0]
    x = lax.broadcasted_iota(jnp.float32, (height, width), 1) - middle[1]
    rows = cos * y + sin * x + middle[0]
    columns = cos * x - sin * y + middle[1]
    return _moved(image, jnp.stack([rows, columns]), order, mode, cval)


def elastic_deformation(
    key: Any,
    image: Array,
    alpha: Any,
    sigma: Any,
    *,
    order: int = 1,
    mode: str = "nearest",
    cval: float = 0.0,
    channel_axis: int = -1,
) -> Array:
    """An image whose pixels are moved by smooth noise (Simard et al., 2003).

    Args:
        key: a random key.
        image: (height, width, channels), or with the channels in front.
        alpha: how far pixels move; five to ten times ``sigma`` looks like handwriting.
        sigma: how smooth the noise is: the standard deviation of its blur, in pixels.
        order: 0 takes the nearest pixel, 1 interpolates.
        mode: what is outside: 'nearest', 'constant', 'wrap', 'mirror' or 'reflect'.
        cval: the value outside with 'constant'.
        channel_axis: the axis of the channels.

    Returns:
        The image, of the same shape.

    Example:
        >>> import weft
        >>> image = weft.numpy.ones((8, 8, 3))
        >>> weft.image.elastic_deformation(weft.random.key(0), image, 10.0, 2.0).shape
        (8, 8, 3)
    """
    image = jnp.moveaxis(image_of("elastic_deformation", image, (3,)), channel_axis, -1)
    height, width, _ = image.shape
    # About three standard deviations on both sides, as OpenCV sizes its windows.
    size = 2 * ((sigma - 0.8) / 0.3 + 1) + 1
    moved = []
    for axis, part in enumerate(random.split(key)):
        noise = random.uniform(part, (height, width, 1)) * 2 - 1
        shift = gaussian_blur(noise, sigma, size)[..., 0] * alpha
        moved.append(lax.broadcasted_iota(jnp.float32, (height, width), axis) + shift)
    done = _moved(image, jnp.stack(moved), order, mode, cval)
    return jnp.moveaxis(done, -1, channel_axis)


def _moved(image: Array, coordinates: Array, order: int, mode: str, cval: Any) -> Array:
    """An image at coordinates of its first axes; the others are kept."""
    if order == 1 and mode == "nearest":
        return interpolate(image, coordinates)
    if order == 1 and mode == "constant":
        return interpolate_constant(image, coordinates, cval)
    if coordinates.shape[0] == image.ndim:
        return map_coordinates(image, list(coordinates), order, mode=mode, cval=cval)
    channels = [
        map_coordinates(image[..., i], list(coordinates), order, mode=mode, cval=cval)
        for i in range(image.shape[-1])
    ]
    return jnp.stack(channels, axis=-1)
