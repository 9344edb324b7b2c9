"""Spaced numbers and grids of them."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from weft import dtypes, lax
from weft.base import knobs
from weft.core.array import Array
from weft.core.dims.dim import whole
from weft.lax.shape import broadcast_for, canonical_axis
from weft.numpy.broadcasting import broadcast_to, filled
from weft.numpy.creation import arange, array, asarray, empty, placed
from weft.numpy.manipulation import concatenate, expand_dims, reshape, stack, transpose
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    convert_operand,
    convert_staged,
    ensure_arrays,
    promote_args_inexact,
    promote_dtypes,
)
from weft.numpy.ufuncs import multiply, subtract, true_divide
from weft.numpy.unary import log10, sign
from weft.prims.families import scalar


def _working_dtypes(start: Any, stop: Any, dtype: Any, name: str) -> tuple[Any, Any]:
    """Dtypes of the result and of the computation."""
    if dtype is None:
        wanted = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    else:
        wanted = dtypes.check_user_dtype(dtype, name)
    return wanted, dtypes.to_inexact_dtype(wanted)


def _index(name: str, what: str, value: Any) -> int:
    return whole(concrete(value, f"{name} needs a concrete {what}"))


@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Array: ...
@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: Any = None,
    axis: int = 0,
    device: Any = None,
) -> tuple[Array, Array]: ...
@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any: ...
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Array | tuple[Array, Array]:
    """Return evenly spaced numbers between two bounds.

    Args:
        start: First number, or array of first numbers.
        stop: Last number, or array that broadcasts against ``start``.
        num: Number of samples, a static integer.
        endpoint: If true, ``stop`` is the last sample; if false, it is left out and the step is
            smaller.
        retstep: If true, also return the distance of neighbours.
        dtype: Dtype of the result; by default a floating-point dtype. For integers the samples are
            rounded down.
        axis: Axis of the result along which the samples lie, for arrays of bounds.
        device: Device or sharding to put the result on.

    Returns:
        Array with ``num`` samples along ``axis``; with ``retstep`` a pair of it and the step.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linspace(0, 1, 3)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    num = _count("linspace", num)
    axis = _index("linspace", "axis", axis)
    check_arraylike("linspace", start, stop)
    wanted, working = _working_dtypes(start, stop, dtype, "linspace")
    start, stop = convert_staged(start, working), convert_staged(stop, working)
    bounds = broadcast_for("linspace", np.shape(start), np.shape(stop))
    first, last = broadcast_to(start, bounds), broadcast_to(stop, bounds)
    place = len(bounds) + axis + 1 if axis < 0 else axis
    if num > 1:
        step, out = _spaced(first, last, num, endpoint, place, working)
    elif num == 1:
        step = scalar(working, np.nan) if endpoint else subtract(stop, start)
        out = reshape(first, _with_axis(bounds, place, 1))
    else:
        step = scalar(working, np.nan)
        out = empty(_with_axis(bounds, place, 0), wanted)
    if dtypes.issubdtype(wanted, np.integer) and not dtypes.issubdtype(out.dtype, np.integer):
        out = lax.floor(out)
    out = placed(as_array(convert_operand(out, wanted)), device, None)
    return (out, as_array(step)) if retstep else out


def _count(name: str, num: Any) -> int:
    """The number of samples."""
    num = _index(name, "num", num)
    if num < 0:
        raise ValueError(f"{name} needs a non-negative number of samples, got {num}")
    return num


def _with_axis(sizes: tuple[int, ...], place: int, size: int) -> tuple[int, ...]:
    return (*sizes[:place], size, *sizes[place:])


def _spaced(
    first: Any, last: Any, num: int, endpoint: bool, place: int, dtype: Any
) -> tuple[Any, Any]:
    """The step and the samples, as a blend of both ends, so that both are exact."""
    gaps = num - 1 if endpoint else num
    step = lax.div(lax.sub(last, first), scalar(dtype, gaps))
    sizes = _with_axis(first.shape, place, 1)
    line = tuple(gaps if i == place else 1 for i in range(len(sizes)))
    real = dtypes.to_floating_dtype(dtype)
    share = lax.div(lax.reshape(lax.iota(real, gaps), line), scalar(real, gaps))
    share = convert_operand(share, dtype)
    low = lax.mul(lax.reshape(first, sizes), lax.sub(scalar(dtype, 1), share))
    out = lax.add(low, lax.mul(lax.reshape(last, sizes), share))
    if endpoint:
        out = lax.concatenate([out, lax.expand_dims(last, (place,))], place)
    return step, out


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Return powers of a base whose exponents are evenly spaced.

    Args:
        start: First exponent, or array of first exponents.
        stop: Last exponent, or array that broadcasts against ``start``.
        num: Number of samples, a static integer.
        endpoint: If true, ``stop`` is the last sample; if false, it is left out and the step is
            smaller.
        base: Base of the powers.
        dtype: Dtype of the result; by default a floating-point dtype.
        axis: Axis of the result along which the samples lie, for arrays of bounds.

    Returns:
        Array with ``num`` samples along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.logspace(0, 2, 3)
        Array([  1.,  10., 100.], dtype=float32)
    """
    check_arraylike("logspace", start, stop)
    wanted, working = _working_dtypes(start, stop, dtype, "logspace")
    start, stop = convert_staged(start, working), convert_staged(stop, working)
    exponents = linspace(start, stop, num, endpoint=endpoint, axis=axis)
    powers = lax.pow(*promote_args_inexact("power", base, exponents, staged=True))
    return as_array(convert_operand(powers, wanted))


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Return numbers between two bounds, each the same multiple of the one before.

    Args:
        start: First number, not 0, or array of first numbers.
        stop: Last number, with the sign of ``start``.
        num: Number of samples, a static integer.
        endpoint: If true, ``stop`` is the last sample; if false, it is left out and the step is
            smaller.
        dtype: Dtype of the result; by default a floating-point dtype.
        axis: Axis of the result along which the samples lie, for arrays of bounds.

    Returns:
        Array with ``num`` samples along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.geomspace(1, 8, 4).round()
        Array([1., 2., 4., 8.], dtype=float32)
    """
    check_arraylike("geomspace", start, stop)
    wanted, working = _working_dtypes(start, stop, dtype, "geomspace")
    num = _count("geomspace", num)
    start, stop = convert_staged(start, working), convert_staged(stop, working)
    direction = sign(start)
    ends = (log10(true_divide(x, direction)) for x in (start, stop))
    out = multiply(direction, logspace(*ends, num, endpoint=endpoint, dtype=working))
    place = canonical_axis(axis, out.ndim)
    if place:
        order = (*range(1, place + 1), 0, *range(place + 1, out.ndim))
        out = lax.transpose(out, order)
    return as_array(convert_operand(out, wanted))


# --- grids ----------------------------------------------------------------------------------------


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Return the coordinate arrays of a grid, given the coordinates along each axis.

    Args:
        *xi: Vectors of coordinates, one for each axis.
        copy: Must be True.
        sparse: If true, each array has size 1 along the axes it doesn't depend on.
        indexing: "xy": the first vector runs along the second axis of the result; "ij": along the
            first.

    Returns:
        List with one array for each vector.

    Example:
        >>> import weft.numpy as jnp
        >>> [g.shape for g in jnp.meshgrid(jnp.arange(2), jnp.arange(3))]
        [(3, 2), (3, 2)]
    """
    axes = ensure_arrays("meshgrid", *xi)
    if not copy:
        raise ValueError("meshgrid always copies: copy=False is not supported")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    for x in axes:
        if x.ndim != 1:
            raise ValueError(f"meshgrid takes one-dimensional arrays, got shape {x.shape}")
    swapped = indexing == "xy" and len(axes) >= 2
    if swapped:
        axes[0], axes[1] = axes[1], axes[0]
    grid = tuple(1 if sparse else x.shape[0] for x in axes)
    out = []
    for i, x in enumerate(axes):
        sizes = (*grid[:i], x.shape[0], *grid[i + 1 :])
        out.append(lax.broadcast_in_dim(x, sizes, (i,)))
    if swapped:
        out[0], out[1] = out[1], out[0]
    return out


@overload
def indices(dimensions: Any, dtype: Any = None, sparse: Literal[False] = False) -> Array: ...
@overload
def indices(dimensions: Any, dtype: Any = None, *, sparse: Literal[True]) -> tuple[Array, ...]: ...
@overload
def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Any: ...
def indices(dimensions: Any, dtype: Any = None, sparse: bool = False) -> Array | tuple[Array, ...]:
    """Return the index of every element of a grid, one array for each axis.

    Args:
        dimensions: Shape of the grid.
        dtype: Dtype of the indices; by default the default integer type.
        sparse: If true, return a tuple of arrays with size 1 along the axes they don't depend on.

    Returns:
        Array of shape (len(dimensions), *dimensions), or a tuple of arrays with ``sparse``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.indices((2, 3)).shape
        (2, 2, 3)
    """
    wanted = dtypes.check_user_dtype(int if dtype is None else dtype, "indices")
    sizes = tuple(_index("indices", "dimension", n) for n in dimensions)
    out = []
    for i, n in enumerate(sizes):
        shape = tuple(m if i == j or not sparse else 1 for j, m in enumerate(sizes))
        out.append(lax.broadcast_in_dim(lax.iota(wanted, n), shape, (i,)))
    if sparse:
        return tuple(out)
    return stack(out, 0) if out else filled((0,), scalar(wanted, 0))


def _line(key: slice, name: str) -> Array:
    """The numbers that a slice in a grid's brackets stands for."""
    start = concrete(key.start, f"{name} needs a concrete start") or 0
    stop = concrete(key.stop, f"{name} needs a concrete stop")
    step = concrete(key.step, f"{name} needs a concrete step") or 1
    if np.iscomplex(step):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


def _lines(keys: Any, name: str) -> list[Any]:
    lines = [_line(k, name) for k in keys]
    if not lines:
        return []
    with knobs.numpy_dtype_promotion("standard"):
        return promote_dtypes(*lines)


class _Mgrid:
    """Dense grids by slices in brackets: ``mgrid[0:3, 0:1:5j]``.

    >>> import weft.numpy as jnp
    >>> jnp.mgrid[:2, :3].shape
    (2, 2, 3)
    """

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, slice):
            return _line(key, "mgrid")
        grid = meshgrid(*_lines(key, "mgrid"), indexing="ij")
        return stack(grid, 0) if grid else arange(0)


class _Ogrid:
    """Open grids by slices in brackets: ``ogrid[0:3, 0:1:5j]``.

    >>> import weft.numpy as jnp
    >>> [g.shape for g in jnp.ogrid[:2, :3]]
    [(2, 1), (1, 3)]
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _line(key, "ogrid")
        return meshgrid(*_lines(key, "ogrid"), indexing="ij", sparse=True)


class _Joiner:
    """Arrays, numbers and slices in brackets joined along an axis."""

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int) -> None:
        self.name, self.defaults = name, [axis, ndmin, trans1d]

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        axis, ndmin, trans1d = self.defaults
        matrix = -1
        if isinstance(keys[0], str):
            axis, ndmin, trans1d, matrix = self._directive(keys[0])
            keys = keys[1:]
        parts = [self._part(item, ndmin, trans1d) for item in keys]
        out = concatenate(parts, axis)
        return expand_dims(out, matrix) if matrix != -1 and out.ndim == 1 else out

    def _directive(self, text: str) -> list[int]:
        """What a text at the beginning says: axis, least rank, place of vectors, matrix."""
        if text in ("r", "c"):
            return [*self.defaults, int(text == "c")]
        try:
            given = [int(n) for n in text.split(",")][:3]
        except ValueError:
            raise ValueError(f"could not understand the directive {text!r}") from None
        return [*given, *self.defaults[len(given) :], -1]

    def _part(self, item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, str):
            raise ValueError("a directive must come first")
        if isinstance(item, slice):
            part, rank = _line(item, self.name), 0
        else:
            part = asarray(item)
            rank = part.ndim
        part = array(part, copy=False, ndmin=ndmin)
        if trans1d != -1 and ndmin > rank:
            shift = ndmin - abs(ndmin + trans1d + 1) % ndmin
            order = tuple(range(ndmin))
            part = transpose(part, order[shift:] + order[:shift])
        return part

    def __len__(self) -> int:
        return 0


mgrid, ogrid = _Mgrid(), _Ogrid()
r_, c_ = _Joiner("r_", 0, 1, -1), _Joiner("c_", -1, 2, 0)
s_, index_exp = np.s_, np.index_exp
