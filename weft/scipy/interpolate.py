"""Interpolation: ``weft.scipy.interpolate``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.core.array import Array
from weft.numpy import promotion

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function that interpolates between values on a grid.

    Args:
        points: the coordinates of the grid along each axis, in ascending order.
        values: the values at the grid's points, of shape (len(points[0]), len(points[1]), ...) and
            possibly more axes.
        method: ``'linear'``, or ``'nearest'`` for the value of the nearest point.
        bounds_error: must be False: points outside of the grid are no error.
        fill_value: the value outside of the grid. None continues the function.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.interpolate import RegularGridInterpolator
        >>> f = RegularGridInterpolator((jnp.array([0.0, 1.0, 3.0]),), jnp.array([0.0, 10.0, 20.0]))
        >>> f(jnp.array([[0.5], [2.0], [4.0]]))
        Array([ 5., 15., nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        _check_method(method)
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator can't raise for points out of bounds; pass "
                "bounds_error=False, and they get fill_value"
            )
        promotion.check_arraylike("RegularGridInterpolator", values, *points)
        grid = [jnp.asarray(p) for p in points]
        (values,) = promotion.promote_dtypes_inexact(jnp.asarray(values))
        if len(grid) > values.ndim:
            raise ValueError(f"{len(grid)} axes of points for values of shape {values.shape}")
        for axis, p in enumerate(grid):
            if p.shape != (values.shape[axis],):
                raise ValueError(
                    f"the points of axis {axis} have shape {p.shape}, the values {values.shape}"
                )
        if fill_value is not None:
            promotion.check_arraylike("RegularGridInterpolator", fill_value)
            kind = dtypes.dtype(fill_value)
            if dtypes.issubdtype(kind, np.complexfloating) and not dtypes.issubdtype(
                values.dtype, np.complexfloating
            ):
                raise ValueError("a complex fill_value does not fit real values")
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        self.grid = tuple(promotion.promote_dtypes_inexact(p)[0] for p in grid)
        self.values = values

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The function at points, whose coordinates are along the last axis or in a tuple."""
        method = self.method if method is None else method
        _check_method(method)
        rank = len(self.grid)
        points = _coordinates(xi, rank)
        if points.shape[-1] != rank:
            raise ValueError(f"points of {points.shape[-1]} coordinates for a grid of {rank}")
        shape = points.shape[:-1]
        columns = points.reshape(-1, rank).T
        places = [_place(g, x) for g, x in zip(self.grid, columns, strict=True)]
        result = self._linear(places) if method == "linear" else self._nearest(places)
        if self.fill_value is not None:
            out = jnp.zeros(columns.shape[1:], bool)
            for g, x in zip(self.grid, columns, strict=True):
                out |= (x < g[0]) | (x > g[-1])
            out = out.reshape(-1, *(1,) * (result.ndim - 1))
            result = jnp.where(out, jnp.asarray(self.fill_value, result.dtype), result)
        return result.reshape(shape + self.values.shape[rank:])

    def _linear(self, places: list[tuple[Array, Array]]) -> Array:
        trailing = (1,) * (self.values.ndim - len(self.grid))
        total: Any = 0
        for corner in itertools.product((0, 1), repeat=len(places)):
            weight: Any = 1
            for upper, (_, part) in zip(corner, places, strict=True):
                weight = weight * (part if upper else 1 - part)
            index = tuple(i + upper for upper, (i, _) in zip(corner, places, strict=True))
            total = total + self.values[index] * weight.reshape(-1, *trailing)
        return total

    def _nearest(self, places: list[tuple[Array, Array]]) -> Array:
        return self.values[tuple(jnp.where(part <= 0.5, i, i + 1) for i, part in places)]


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"RegularGridInterpolator supports the methods {_METHODS}, not {method!r}")


def _coordinates(xi: Any, rank: int) -> Array:
    if isinstance(xi, tuple) and len(xi) == 1 and isinstance(xi[0], tuple):
        xi = xi[0]
    if isinstance(xi, tuple):
        return jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, xi)), axis=-1)
    promotion.check_arraylike("RegularGridInterpolator", xi)
    points = jnp.asarray(xi)
    return points.reshape(-1, rank) if points.ndim == 1 else points


def _place(grid: Array, x: Array) -> tuple[Array, Array]:
    """The interval that x lies in, and which part of it lies below x."""
    i = jnp.clip(jnp.searchsorted(grid, x) - 1, 0, max(grid.shape[0] - 2, 0))
    low, high = grid[i], grid[jnp.minimum(i + 1, grid.shape[0] - 1)]
    return i, (x - low) / (high - low)
