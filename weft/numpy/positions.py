"""Positions of elements: where they are not zero, and as indices into the flattened array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.ad import filled
from weft.core.array import Array, Whole
from weft.core.avals import ShapedArray
from weft.core.dims.dim import Dim, whole
from weft.core.trace import typeof
from weft.numpy.index_plan import positions
from weft.numpy.indexing import getitem, update_index
from weft.numpy.promotion import (
    beside,
    concrete,
    constant,
    convert_staged,
    ensure_array,
    promote_dtypes,
)
from weft.prims.convert import convert
from weft.prims.families import const, scalar

# Elements for each position that is wanted, from which on positions are searched for.
SEARCH = 32


def _first_at_least(counts: Any, wanted: Any, dtype: Any) -> Any:
    """For each number, the first place of a rising vector that is not below it, or its length."""

    def halve(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = lax.shift_right_logical(lax.add(low, high), scalar(dtype, 1))
        found = getitem(counts, lax.min(middle, scalar(dtype, size - 1)))
        enough = lax.bitwise_or(lax.ge(found, wanted), lax.eq(low, high))
        return (
            lax.select(enough, low, lax.add(middle, scalar(dtype, 1))),
            lax.select(enough, middle, high),
        )

    size = counts.shape[0]
    bounds = (full(wanted.shape, 0, dtype), full(wanted.shape, size, dtype))
    return lax.fori_loop(0, size.bit_length(), halve, bounds)[0]


def packed(values: Any, mask: Any, counts: Any, into: Any) -> Any:
    """The values that a mask chooses, side by side in front of an array.

    ``counts`` says of each value how many are chosen up to it.
    """
    beyond = full(counts.shape, into.shape[0], counts.dtype)
    place = lax.select(mask, lax.sub(counts, const(counts, 1)), beyond)
    options: dict[str, Any] = {"mode": "drop", "unique_indices": True}
    return update_index(into, place, values, lax.scatter, wrap_negative_indices=False, **options)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Return the positions of the elements that are not zero.

    Args:
        a: Array to search.
        size: Static number of positions, needed under ``jit``: more are cut off, missing ones
            filled.
        fill_value: Position that fills missing ones, a scalar or one for each axis; 0 by default.

    Returns:
        Tuple of integer vectors, one for each axis, in row-major order. ``a[nonzero(a)]`` are the
        elements.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nonzero(jnp.array([0, 5, 0, 7]), size=3, fill_value=-1)
        (Array([ 1,  3, -1], dtype=int32),)
    """
    a = ensure_array("nonzero", a)
    if not a.ndim:
        raise ValueError("nonzero needs an array with an axis, got a scalar; use atleast_1d first")
    dtype = dtypes.default_int_dtype()
    if size is None:
        known = concrete(a, "nonzero needs the values of the array, or size=")
        places = tuple(beside(boxed(x), known) for x in positions(np.asarray(known), dtype))
        if fill_value is None or not places[0].size:
            return places
        fills = _fills(fill_value, a.ndim)
        return tuple(promote_dtypes(f, x)[1] for f, x in zip(fills, places))
    size = whole(size)
    if size < 0:
        raise TypeError(f"nonzero needs a non-negative size, got {size}")
    if not a.size or not size:
        return tuple(full((size,), 0, dtype) for _ in a.shape)
    fills = _fills(fill_value, a.ndim)
    mask = a if a.dtype == np.bool_ else lax.ne(a, const(a, 0))
    counts = lax.cumsum(convert(flattened(mask), dtype))
    if type(size) is int and type(a.size) is int and size * SEARCH <= a.size:
        flat = _first_at_least(counts, lax.add(lax.iota(dtype, size), scalar(dtype, 1)), dtype)
        flat = lax.rem(flat, scalar(dtype, a.size))
    else:
        # Each one that holds tells its position to the place it is counted for.
        flat = packed(lax.iota(dtype, a.size), flattened(mask), counts, full((size,), 0, dtype))
    strides = [math.prod(a.shape[d + 1 :]) for d in range(a.ndim)]
    found = [flat]
    if a.ndim > 1:
        found = [flat // scalar(dtype, step) % n for step, n in zip(strides, a.shape)]
    if fill_value is None:
        return tuple(found)
    beyond = lax.ge(lax.iota(dtype, size), _total(mask, dtype))
    return tuple(_filled(beyond, f, x) for f, x in zip(fills, found))


def _fills(fill_value: Any, ndim: int) -> tuple[Any, ...]:
    """A fill value for each axis."""
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * ndim
    if len(fills) != ndim or any(np.shape(f) != () for f in fills):
        raise ValueError(f"fill_value must be a scalar or {ndim} scalars, got {fill_value!r}")
    return fills


def _filled(beyond: Any, fill: Any, x: Any) -> Array:
    """``x``, and a fill value where there is nothing, at the dtype that both have in common."""
    fill, x = promote_dtypes(fill, x)
    return lax.select(beyond, lax.broadcast(fill, x.shape), x)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the positions, in the flattened array, of the elements that are not zero.

    Args:
        a: Array to search.
        size: Static number of positions, needed under ``jit``: more are cut off, missing ones
            filled.
        fill_value: Position that fills missing ones; 0 by default.

    Returns:
        Integer vector.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.flatnonzero(jnp.array([[0, 5], [0, 7]]))
        Array([1, 3], dtype=int32)
    """
    return nonzero(flattened(ensure_array("flatnonzero", a)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the positions of the elements that are not zero, one in each row.

    Args:
        a: Array to search.
        size: Static number of positions, needed under ``jit``: more are cut off, missing ones
            filled.
        fill_value: Position that fills missing ones; 0 by default.

    Returns:
        Integer array of shape (number found, a.ndim).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]]))
        Array([[0, 1],
               [1, 0]], dtype=int32)
    """
    a = ensure_array("argwhere", a)
    if not a.ndim:
        rows = nonzero(lax.expand_dims(a, (0,)), size=size, fill_value=fill_value)[0].size
        return full((rows, 0), 0, dtypes.default_int_dtype())
    if size is None and fill_value is None:
        known = concrete(a, "argwhere needs the values of the array, or size=")
        found = positions(np.asarray(known), dtypes.default_int_dtype())
        return beside(boxed(np.stack(found, 1)), known)
    columns = nonzero(a, size=size, fill_value=fill_value)
    return lax.concatenate([lax.expand_dims(x, (1,)) for x in columns], 1)


def ix_(*args: Any) -> tuple[Array, ...]:
    """Return index vectors reshaped so that together they select a grid.

    Args:
        *args: Vectors of integers or booleans, one for each axis.

    Returns:
        Tuple of arrays that broadcast against each other, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.arange(12).reshape(3, 4)
        >>> x[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))]
        Array([[ 1,  3],
               [ 9, 11]], dtype=int32)
    """
    arranged = []
    for k, arg in enumerate(args):
        a = ensure_array("ix_", arg)
        if a.ndim != 1:
            raise ValueError(f"ix_ needs vectors, got shape {a.shape}")
        if a.dtype == np.bool_:
            a = nonzero(a)[0]
        shape = (1,) * k + (a.size,) + (1,) * (len(args) - k - 1)
        if not a.size:
            arranged.append(full(shape, 0, dtypes.default_int_dtype()))
        else:
            arranged.append(lax.broadcast_in_dim(a, shape, (k,)))
    return tuple(arranged)


def unravel_index(indices: Whole, shape: Any) -> tuple[Array, ...]:
    """Return the positions in an array of some shape for indices into the flattened array.

    Args:
        indices: Array of integers; negative ones count from the end, others are clipped.
        shape: Shape of the array.

    Returns:
        Tuple of integer arrays with the shape of ``indices``, one for each axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unravel_index(jnp.array([5, 11]), (3, 4))
        (Array([1, 2], dtype=int32), Array([1, 3], dtype=int32))
    """
    rest = ensure_array("unravel_index", indices)
    sizes = [shape] if _ndim(shape) == 0 else list(shape)
    if any(map(_ndim, sizes)):
        raise ValueError(f"unravel_index needs a shape: a number or a sequence, got {shape!r}")
    found: list[Any] = [0] * len(sizes)
    for axis in reversed(range(len(sizes))):
        rest, found[axis] = divmod(rest, sizes[axis])
    above = lax.gt(rest, const(rest, 0))
    below = None
    if not dtypes.issubdtype(rest.dtype, np.unsignedinteger):
        below = lax.lt(rest, const(rest, -1))
    clipped = []
    for size, x in zip(sizes, found):
        if below is not None:
            x = lax.select(below, filled(0, typeof(x)), x)
        known = isinstance(size, (int, np.integer))
        last = filled(const(x, int(size) - 1), typeof(x)) if known else lax.full_like(x, size - 1)
        clipped.append(lax.select(above, last, x))
    return tuple(clipped)


def _ndim(x: Any) -> int:
    """How many dimensions a size or a sequence of sizes has; both may be traced."""
    return x.ndim if hasattr(x, "ndim") else int(isinstance(x, (tuple, list)))


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Return the indices into the flattened array for positions in an array.

    Args:
        multi_index: Sequence of integer arrays, one for each axis.
        dims: Shape of the array.
        mode: For positions out of bounds: "raise" (which needs concrete values), "clip" or "wrap".
        order: "C" counts in row-major order, "F" in column-major order.
        dtype: Integer dtype of the result; by default the default integer type.

    Returns:
        Integer array with the shape of the positions.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ravel_multi_index((jnp.array([1, 2]), jnp.array([1, 3])), (3, 4))
        Array([ 5, 11], dtype=int32)
    """
    sizes = tuple([whole(n) for n in dims])
    if len(multi_index) != len(sizes):
        raise ValueError(
            "ravel_multi_index needs one array of positions for each size, got "
            f"{len(multi_index)} and {len(sizes)}"
        )
    positions = [ensure_array("ravel_multi_index", i) for i in multi_index]
    if any(not dtypes.issubdtype(i.dtype, np.integer) for i in positions):
        raise TypeError("ravel_multi_index needs positions of integer dtypes")
    if dtype is None:
        dtype = dtypes.result_type(int, *positions)
    else:
        dtype = dtypes.check_user_dtype(dtype, "ravel_multi_index")
    if not dtypes.issubdtype(dtype, np.integer) or math.prod(sizes) - 1 > dtypes.iinfo(dtype).max:
        raise ValueError(
            f"dtype {dtype} cannot hold the indices of an array of shape {sizes}; pass another "
            "integer dtype"
        )
    positions = [_bounded(i, n, mode) for i, n in zip(positions, sizes)]
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F', got {order!r}")
    total = boxed(np.zeros((), dtype))
    for k, x in enumerate(positions):
        step = math.prod(sizes[k + 1 :] if order == "C" else sizes[:k])
        total = total + convert(x, dtype) * scalar(dtype, step)
    return total


def _bounded(x: Array, size: int, mode: str) -> Array:
    if mode == "clip":
        return clipped_to(x, size - 1)
    if mode == "wrap":
        return x % size
    if mode == "raise":
        reason = "ravel_multi_index checks its positions unless mode is 'wrap' or 'clip'"
        known = np.asarray(concrete(x, reason))
        if ((known < 0) | (known >= size)).any():
            raise ValueError(f"a position is out of bounds for an axis of size {size}")
    elif mode != "ignore":
        raise ValueError(f"mode must be 'raise', 'wrap', 'clip' or 'ignore', got {mode!r}")
    return x


# --- arrays ---------------------------------------------------------------------------------------


def boxed(value: np.ndarray) -> Array:
    """An array of data that nobody else will change."""
    return constant(value, typeof(value))


def flattened(x: Any) -> Any:
    """A vector of all elements."""
    return x if np.ndim(x) == 1 else lax.reshape(x, (np.size(x),))


def full(shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """An array of one value."""
    if type(value) is Dim:
        return lax.broadcast(scalar(np.dtype(dtype), value), shape)
    return filled(value, ShapedArray(shape, dtype))


def to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """An array broadcast to a shape."""
    have = np.shape(x)
    if have == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(have), len(shape))))


def clipped_to(x: Any, limit: int) -> Any:
    """Indices held between 0 and a limit."""
    dtype, weak = typeof(x).dtype, typeof(x).weak_type
    low = lax.max(convert_staged(0, dtype, weak), x)
    return lax.min(convert_staged(limit, dtype, weak), low)


def _total(mask: Any, dtype: Any) -> Any:
    return lax.reduce_sum(convert(mask, dtype), tuple(range(mask.ndim)))
