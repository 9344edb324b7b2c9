"""Images as patches, and blocks of pixels as channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array
from weft.image.layout import image_of


def depth_to_space(inputs: Array, block_size: int) -> Array:
    """Channels as blocks of pixels: the inverse of ``space_to_depth``.

    Args:
        inputs: (height, width, channels), or a batch of them.
        block_size: the height and width of a block; its square divides the channels.

    Returns:
        (height * block_size, width * block_size, channels / block_size**2), or a batch of them.

    Example:
        >>> import weft
        >>> weft.image.depth_to_space(weft.numpy.ones((2, 3, 8)), 2).shape
        (4, 6, 2)
    """
    inputs = image_of("depth_to_space", inputs)
    *batch, height, width, depth = inputs.shape
    if depth % block_size**2:
        raise ValueError(
            f"depth_to_space: {depth} channels are not a multiple of block_size**2, {block_size**2}"
        )
    blocks = inputs.reshape(*batch, height, width, block_size, block_size, -1)
    return jnp.swapaxes(blocks, -4, -3).reshape(
        *batch, height * block_size, width * block_size, depth // block_size**2
    )


def space_to_depth(inputs: Array, block_size: int) -> Array:
    """Blocks of pixels as channels.

    Args:
        inputs: (height, width, channels), or a batch of them.
        block_size: the height and width of a block, which divides those of the image.

    Returns:
        (height / block_size, width / block_size, channels * block_size**2), or a batch of them.

    Example:
        >>> import weft
        >>> weft.image.space_to_depth(weft.numpy.ones((4, 6, 2)), 2).shape
        (2, 3, 8)
    """
    inputs = image_of("space_to_depth", inputs)
    *batch, height, width, depth = inputs.shape
    if height % block_size or width % block_size:
        raise ValueError(
            f"space_to_depth: height and width of {inputs.shape} are not multiples of {block_size}"
        )
    rows, columns = height // block_size, width // block_size
    blocks = inputs.reshape(*batch, rows, block_size, columns, block_size, depth)
    return jnp.swapaxes(blocks, -4, -3).reshape(*batch, rows, columns, depth * block_size**2)


def extract_patches(
    images: Array,
    sizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    *,
    padding: str = "VALID",
) -> Array:
    """All patches of a batch of images, each as one row of channels.

    Args:
        images: (batch, ..., channels), with any number of axes between.
        sizes: the shape of a patch, (1, ..., 1).
        strides: how far patches are from each other, (1, ..., 1).
        rates: how far the pixels of a patch are from each other, (1, ..., 1).
        padding: 'VALID', or 'SAME' with zeros around the images.

    Returns:
        (batch, patches..., pixels of a patch * channels).

    Example:
        >>> import weft
        >>> images = weft.numpy.ones((2, 8, 8, 3))
        >>> weft.image.extract_patches(images, (1, 4, 4, 1), (1, 2, 2, 1), (1, 1, 1, 1)).shape
        (2, 3, 3, 48)
    """
    images = jnp.asarray(images)
    inner = images.ndim - 2
    for name, given in (("sizes", sizes), ("strides", strides), ("rates", rates)):
        if len(given) != images.ndim or given[0] != 1 or given[-1] != 1:
            raise ValueError(
                f"extract_patches: {name}={tuple(given)} must be (1, ..., 1), one number for each "
                f"axis of images of shape {images.shape}"
            )
    reach = [(size - 1) * rate + 1 for size, rate in zip(sizes, rates, strict=True)]
    pads = lax.padtype_to_pads(images.shape[1:-1], reach[1:-1], strides[1:-1], padding)
    if any(map(any, pads)):
        widths = [(0, 0, 0), *((low, high, 0) for low, high in pads), (0, 0, 0)]
        images = lax.pad(images, jnp.zeros((), images.dtype), widths)
    counts = []
    for i in range(1, inner + 1):
        axis = 2 * i - 1  # each axis before this one has become two
        count = max((images.shape[axis] - reach[i]) // strides[i] + 1, 0)
        counts.append(count)
        if sizes[i] == strides[i] and rates[i] == 1:
            images = lax.slice_in_dim(images, 0, count * sizes[i], axis=axis)
            shape = *images.shape[:axis], count, sizes[i], *images.shape[axis + 1 :]
            images = images.reshape(shape)
        else:
            starts = np.arange(count)[:, None] * strides[i]
            images = jnp.take(images, starts + np.arange(sizes[i]) * rates[i], axis=axis)
    order = [0, *range(1, 2 * inner, 2), *range(2, 2 * inner + 1, 2), 2 * inner + 1]
    return jnp.transpose(images, order).reshape(images.shape[0], *counts, -1)
