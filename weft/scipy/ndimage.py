"""Images of any dimension: ``weft.scipy.ndimage``."""

from __future__ import annotations

import itertools
import math
import sys as _sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.base.traceback import expose as _expose
from weft.core.array import Array
from weft.numpy import promotion

__all__ = ["map_coordinates"]


def _mirror(index: Array, size: int) -> Array:
    """An index reflected about the middles of the first and the last element."""
    last = max(size - 1, 1)
    return jnp.minimum(jnp.abs((index + last) % (2 * last) - last), size - 1)


def _reflect(index: Array, size: int) -> Array:
    """An index reflected about the outer edges of the first and the last element."""
    folded = index % (2 * size)
    return jnp.where(folded < size, folded, 2 * size - 1 - folded)


_FOLDS: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda index, size: index.clip(0, size - 1),
    "nearest": lambda index, size: index.clip(0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": _reflect,
}


def _round(x: Array) -> Array:
    """The nearest whole number, halves away from zero."""
    whole = jnp.trunc(x)
    return whole + jnp.where(jnp.abs(x - whole) >= 0.5, jnp.sign(x), 0)


def map_coordinates(
    input: Any,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: Any = 0.0,
) -> Array:
    """Return values of an array between its elements.

    Args:
        input: the array.
        coordinates: for each axis of ``input`` an array of positions. All have the same shape.
        order: 0 for the nearest element, 1 for linear interpolation.
        mode: what lies outside of the array: ``'constant'`` (``cval``), ``'nearest'`` (the edge),
            ``'wrap'``, ``'mirror'`` or ``'reflect'`` (the array again).
        cval: the value outside of the array, for ``mode='constant'``.

    Returns:
        An array of the shape of the coordinates and the dtype of ``input``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.ndimage import map_coordinates
        >>> map_coordinates(jnp.array([0.0, 10.0, 20.0]), [jnp.array([0.5, 1.25])], order=1)
        Array([ 5. , 12.5], dtype=float32)
    """
    x = jnp.asarray(input)
    if len(coordinates) != x.ndim:
        raise ValueError(
            f"map_coordinates needs {x.ndim} coordinates, one for each dimension, got"
            f" {len(coordinates)}"
        )
    if mode not in _FOLDS:
        raise NotImplementedError(
            f"map_coordinates has no mode {mode!r}; choose one of {', '.join(sorted(_FOLDS))}"
        )
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates supports the orders 0 and 1, not {order}")
    points = [jnp.asarray(c) for c in coordinates]
    if order == 1:
        points = [promotion.promote_dtypes_inexact(p)[0] for p in points]
    nodes = [_nodes(p, size, order, mode) for p, size in zip(points, x.shape, strict=True)]
    outside = jnp.asarray(cval, x.dtype)
    total: Any = 0
    for corner in itertools.product(*nodes):
        values = x[tuple(index for index, _, _ in corner)]
        if mode == "constant":
            inside = math.prod((valid for _, valid, _ in corner), start=np.bool_(True))
            values = jnp.where(inside, values, outside)
        total = total + values * math.prod(weight for _, _, weight in corner)
    if dtypes.issubdtype(x.dtype, np.integer) and dtypes.issubdtype(total.dtype, np.inexact):
        total = _round(total)
    return total.astype(x.dtype)


def _nodes(point: Array, size: int, order: int, mode: str) -> list[tuple[Array, Array, Any]]:
    """The elements next to a point along one axis: index, whether it exists, weight."""
    low = jnp.floor(point) if order else _round(point)
    index = low.astype(dtypes.default_int_dtype())
    found = [(index, 1)] if order == 0 else [(index, 1 - (point - low)), (index + 1, point - low)]
    fold = _FOLDS[mode]
    return [(fold(i, size), (i >= 0) & (i < size), weight) for i, weight in found]


_expose(_sys.modules[__name__])
