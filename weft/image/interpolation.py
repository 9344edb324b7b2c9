"""Values of an image between its pixels, by linear interpolation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array


def flat_nd_linear_interpolate(
    volume: Array, coordinates: Array, *, unflattened_vol_shape: Sequence[int] | None = None
) -> Array:
    """The values of an array between its elements; outside, those of the nearest border.

    Args:
        volume: an array of any rank n, or flat with ``unflattened_vol_shape``.
        coordinates: (n, ...), a coordinate for every axis of the volume.
        unflattened_vol_shape: the shape of a flat volume.

    Returns:
        The values, in the shape of ``coordinates`` without its first axis and the dtype of the
        volume.

    Example:
        >>> import weft
        >>> volume = weft.numpy.array([[0.0, 1.0], [2.0, 3.0]])
        >>> weft.image.flat_nd_linear_interpolate(volume, weft.numpy.array([0.5, 0.5]))
        Array(1.5, dtype=float32)
    """
    volume, shape = _volume("flat_nd_linear_interpolate", volume, unflattened_vol_shape)
    return interpolate(volume.reshape(shape), jnp.asarray(coordinates))


def flat_nd_linear_interpolate_constant(
    volume: Array,
    coordinates: Array,
    *,
    cval: Any = 0.0,
    unflattened_vol_shape: Sequence[int] | None = None,
) -> Array:
    """The values of an array between its elements; outside, a constant.

    Args:
        volume: an array of any rank n, or flat with ``unflattened_vol_shape``.
        coordinates: (n, ...), a coordinate for every axis of the volume.
        cval: the constant.
        unflattened_vol_shape: the shape of a flat volume.

    Returns:
        The values, in the shape of ``coordinates`` without its first axis.

    Example:
        >>> import weft
        >>> volume = weft.numpy.array([1.0, 2.0])
        >>> weft.image.flat_nd_linear_interpolate_constant(volume, weft.numpy.array([[0.5, 1.5]]))
        Array([1.5, 0. ], dtype=float32)
    """
    name = "flat_nd_linear_interpolate_constant"
    volume, shape = _volume(name, volume, unflattened_vol_shape)
    coordinates = jnp.asarray(coordinates)
    return interpolate_constant(volume.reshape(shape), coordinates, cval)


def _volume(name: str, volume: Any, shape: Sequence[int] | None) -> tuple[Array, tuple[int, ...]]:
    volume = jnp.asarray(volume)
    if shape is None:
        return volume, volume.shape
    shape = tuple(shape)
    if volume.shape != (math.prod(shape),):
        raise ValueError(f"{name} takes a flat volume of {shape}, not one of shape {volume.shape}")
    return volume, shape


def interpolate(volume: Array, coordinates: Array) -> Array:
    """Values at coordinates of the first axes of a volume; other axes are kept, last."""
    count = coordinates.shape[0]
    if count > volume.ndim:
        raise ValueError(
            f"{count} coordinates are too many for a volume of {volume.ndim} axes, {volume.shape}"
        )
    kept = (1,) * (volume.ndim - count)
    low, high, share = [], [], []
    for axis in range(count):
        place, last = coordinates[axis], volume.shape[axis] - 1
        floor = jnp.floor(place).astype(jnp.int32)
        low.append(jnp.clip(floor, 0, last))
        high.append(jnp.clip(jnp.ceil(place).astype(jnp.int32), 0, last))
        share.append(place - floor)
    total: Any = 0
    for corner in itertools.product((False, True), repeat=count):
        index = tuple(b if up else a for up, a, b in zip(corner, low, high, strict=True))
        weight: Any = 1
        for up, part in zip(corner, share, strict=True):
            weight = weight * (part if up else 1 - part)
        total = total + jnp.reshape(weight, jnp.shape(weight) + kept) * volume[index]
    if jnp.issubdtype(volume.dtype, jnp.integer):
        total = lax.round(total)
    return total.astype(volume.dtype)


def interpolate_constant(volume: Array, coordinates: Array, cval: Any) -> Array:
    """As ``interpolate``, with a constant outside of the volume."""
    values = interpolate(volume, coordinates)
    inside: Any = True
    for axis in range(coordinates.shape[0]):
        place = coordinates[axis]
        inside = inside & (place >= 0) & (place <= volume.shape[axis] - 1)
    inside = jnp.reshape(inside, jnp.shape(inside) + (1,) * (values.ndim - jnp.ndim(inside)))
    return jnp.where(inside, values, jnp.asarray(cval, jnp.result_type(values, jnp.float32(0))))
