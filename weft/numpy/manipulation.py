"""Changing shapes: reshaping, permuting, joining, splitting, repeating, broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import lax
from weft.core.array import Array
from weft.lax.shape import canonical_axis, canonical_shape
from weft.numpy.creation import asarray
from weft.numpy.promotion import check_arraylike, promote_dtypes
from weft.numpy.ufuncs import lax_array


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array.

    >>> import weft.numpy as jnp
    >>> jnp.shape(jnp.ones((2, 3)))
    (2, 3)
    """
    return np.shape(a)


def ndim(a: Any) -> int:
    """How many dimensions an array has.

    >>> import weft.numpy as jnp
    >>> jnp.ndim(jnp.ones((2, 3)))
    2
    """
    return np.ndim(a)


def size(a: Any, axis: Any = None) -> int:
    """How many elements an array has, in all or along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.size(jnp.ones((2, 3)))
    6
    """
    sizes = np.shape(a)
    if axis is None:
        return prod(sizes)
    axes = axis if isinstance(axis, Sequence) else (axis,)
    return prod(sizes[canonical_axis(i, len(sizes))] for i in axes)


def _resolve_sizes(have: tuple[int, ...], wanted: Any) -> tuple[int, ...]:
    """A shape with one -1 replaced by the size that fits."""
    sizes = canonical_shape(wanted)
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    if not unknown:
        return sizes
    if len(unknown) > 1:
        raise ValueError(f"reshape can infer one size only, got {sizes}")
    rest = prod(n for n in sizes if n != -1)
    total = prod(have)
    if rest == 0 or total % rest:
        raise TypeError(
            f"cannot reshape an array of shape {have} ({total} elements) into {sizes}"
        )
    return tuple(total // rest if n == -1 else n for n in sizes)


def reshape(
    a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None
) -> Array:
    """``a`` with its elements at another shape; one size may be -1.

    >>> import weft.numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1)).shape
    (2, 3)
    """
    check_arraylike("reshape", a)
    sizes = _resolve_sizes(np.shape(a), shape)
    if order == "C":
        return lax_array(lax.reshape(a, sizes))
    if order == "F":
        n = np.ndim(a)
        flipped = lax.reshape(lax.transpose(a, range(n)[::-1]), sizes[::-1])
        return lax.transpose(flipped, range(len(sizes))[::-1])
    if order == "A":
        raise NotImplementedError("order='A' is not supported; write order='C' or order='F'")
    raise ValueError(f"order must be 'C' or 'F', got {order!r}")


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Array:
    """``a`` as one row of elements.

    >>> import weft.numpy as jnp
    >>> jnp.ravel(jnp.ones((2, 3))).shape
    (6,)
    """
    check_arraylike("ravel", a)
    if order == "K":
        raise NotImplementedError("order='K' is not supported; write order='C' or order='F'")
    return reshape(a, (prod(np.shape(a)),), order)


def transpose(a: Any, axes: Any = None) -> Array:
    """``a`` with its axes permuted, reversed by default.

    >>> import weft.numpy as jnp
    >>> jnp.transpose(jnp.ones((2, 3))).shape
    (3, 2)
    """
    check_arraylike("transpose", a)
    n = np.ndim(a)
    order = range(n)[::-1] if axes is None else [canonical_axis(i, n) for i in axes]
    return lax_array(lax.transpose(a, order))


def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Array:
    """``a`` with its axes permuted.

    >>> import weft.numpy as jnp
    >>> jnp.permute_dims(jnp.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Array:
    """``x`` with its last two axes swapped.

    >>> import weft.numpy as jnp
    >>> jnp.matrix_transpose(jnp.ones((4, 2, 3))).shape
    (4, 3, 2)
    """
    check_arraylike("matrix_transpose", x)
    n = np.ndim(x)
    if n < 2:
        raise ValueError(f"matrix_transpose needs at least two dimensions, got {n}")
    return lax_array(lax.transpose(x, (*range(n - 2), n - 1, n - 2)))


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """``a`` with two axes swapped.

    >>> import weft.numpy as jnp
    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    check_arraylike("swapaxes", a)
    order = np.arange(np.ndim(a))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return lax_array(lax.transpose(a, [int(i) for i in order]))


def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """``a`` with axes moved to other places, the rest in order.

    >>> import weft.numpy as jnp
    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    check_arraylike("moveaxis", a)
    n = np.ndim(a)
    sources = (source,) if isinstance(source, (int, np.integer)) else tuple(source)
    places = (destination,) if isinstance(destination, (int, np.integer)) else tuple(destination)
    sources = tuple(canonical_axis(i, n) for i in sources)
    places = tuple(canonical_axis(i, n) for i in places)
    if len(sources) != len(places):
        raise ValueError(
            f"moveaxis needs as many sources as destinations, got {source} and {destination}"
        )
    order = [i for i in range(n) if i not in sources]
    for place, i in sorted(zip(places, sources, strict=True)):
        order.insert(place, i)
    return lax_array(lax.transpose(a, order))


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """``a`` with one axis moved before another place.

    >>> import weft.numpy as jnp
    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    n = np.ndim(a)
    axis = canonical_axis(axis, n)
    start = operator.index(start)
    if not -n <= start <= n:
        raise ValueError(f"start must lie between {-n} and {n}, got {start}")
    start = start + n if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


def expand_dims(a: Any, axis: Any) -> Array:
    """``a`` with axes of size 1 added.

    >>> import weft.numpy as jnp
    >>> jnp.expand_dims(jnp.ones(3), 0).shape
    (1, 3)
    """
    check_arraylike("expand_dims", a)
    return lax.expand_dims(a, axis if isinstance(axis, (tuple, list)) else (axis,))


def squeeze(a: Any, axis: Any = None) -> Array:
    """``a`` without its axes of size 1, or some of them.

    >>> import weft.numpy as jnp
    >>> jnp.squeeze(jnp.ones((1, 3))).shape
    (3,)
    """
    check_arraylike("squeeze", a)
    if axis is None:
        axis = tuple(i for i, n in enumerate(np.shape(a)) if n == 1)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return lax_array(lax.squeeze(a, axes))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to together.

    >>> import weft.numpy as jnp
    >>> jnp.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return lax.broadcast_shapes(*((s,) if isinstance(s, int) else s for s in shapes))


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Array:
    """``array`` repeated to fill a shape.

    >>> import weft.numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    check_arraylike("broadcast_to", array)
    sizes = canonical_shape(shape)
    have = np.shape(array)
    if have == sizes:
        return lax_array(array)
    lead = len(sizes) - len(have)
    fits = lead >= 0 and all(
        n in (1, m) for n, m in zip(have, sizes[lead:], strict=True)
    )
    if not fits:
        raise ValueError(f"incompatible shapes for broadcasting: {have} and requested shape {sizes}")
    return lax.broadcast_in_dim(array, sizes, tuple(range(lead, len(sizes))))


def broadcast_arrays(*args: Any) -> list[Array]:
    """Arrays repeated to their common shape.

    >>> import weft.numpy as jnp
    >>> [x.shape for x in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
    [(2, 3), (2, 3)]
    """
    check_arraylike("broadcast_arrays", *args)
    common = lax.broadcast_shapes(*(np.shape(x) for x in args))
    return [broadcast_to(x, common) for x in args]


def _promoted_arrays(name: str, arrays: Any, dtype: Any = None) -> list[Any]:
    if isinstance(arrays, Array):
        arrays = list(arrays)
    arrays = list(arrays)
    if not arrays:
        raise ValueError(f"{name} needs at least one array")
    check_arraylike(name, *arrays)
    if dtype is not None:
        return [asarray(x, dtype) for x in arrays]
    return promote_dtypes(*arrays)


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """Arrays joined along an axis.

    >>> import weft.numpy as jnp
    >>> jnp.concatenate([jnp.arange(2), jnp.arange(1)])
    Array([0, 1, 0], dtype=int32)
    """
    parts = _promoted_arrays("concatenate", arrays, dtype)
    if axis is None:
        return concatenate([ravel(x) for x in parts], 0)
    if np.ndim(parts[0]) == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated; use jnp.stack")
    return lax_array(lax.concatenate(parts, canonical_axis(axis, np.ndim(parts[0]))))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis.

    >>> import weft.numpy as jnp
    >>> jnp.concat([jnp.arange(2), jnp.arange(1)])
    Array([0, 1, 0], dtype=int32)
    """
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Arrays of one shape joined along a new axis.

    >>> import weft.numpy as jnp
    >>> jnp.stack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("the out argument of stack is not supported: arrays are immutable")
    parts = _promoted_arrays("stack", arrays, dtype)
    if len({np.shape(x) for x in parts}) > 1:
        raise ValueError(
            f"stack needs arrays of one shape, got {', '.join(str(np.shape(x)) for x in parts)}"
        )
    return lax.stack(parts, axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis.

    >>> import weft.numpy as jnp
    >>> len(jnp.unstack(jnp.arange(3)))
    3
    """
    check_arraylike("unstack", x)
    if np.ndim(x) == 0:
        raise ValueError("unstack needs an array of at least one dimension")
    return tuple(lax.unstack(x, axis))


def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least one dimension.

    >>> import weft.numpy as jnp
    >>> jnp.atleast_1d(1.0).shape
    (1,)
    """
    return _at_least("atleast_1d", arys, lambda x: x if x.ndim else reshape(x, (1,)))


def atleast_2d(*arys: Any) -> Any:
    """Arrays with at least two dimensions.

    >>> import weft.numpy as jnp
    >>> jnp.atleast_2d(jnp.ones(3)).shape
    (1, 3)
    """

    def lift(x: Any) -> Any:
        return x if x.ndim >= 2 else expand_dims(x, (0,) if x.ndim == 1 else (0, 1))

    return _at_least("atleast_2d", arys, lift)


def atleast_3d(*arys: Any) -> Any:
    """Arrays with at least three dimensions.

    >>> import weft.numpy as jnp
    >>> jnp.atleast_3d(jnp.ones(3)).shape
    (1, 3, 1)
    """
    places = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}

    def lift(x: Any) -> Any:
        return x if x.ndim >= 3 else expand_dims(x, places[x.ndim])

    return _at_least("atleast_3d", arys, lift)


def _at_least(name: str, arrays: Any, lift: Any) -> Any:
    check_arraylike(name, *arrays)
    lifted = [lift(asarray(x)) for x in arrays]
    return lifted[0] if len(lifted) == 1 else lifted


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined as rows.

    >>> import weft.numpy as jnp
    >>> jnp.vstack([jnp.arange(2), jnp.arange(2)]).shape
    (2, 2)
    """
    return concatenate([atleast_2d(x) for x in tup], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along columns.

    >>> import weft.numpy as jnp
    >>> jnp.hstack([jnp.arange(2), jnp.arange(2)]).shape
    (4,)
    """
    parts = [atleast_1d(x) for x in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along the third axis.

    >>> import weft.numpy as jnp
    >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in tup], 2, dtype)


def column_stack(tup: Any) -> Array:
    """One-dimensional arrays joined as columns.

    >>> import weft.numpy as jnp
    >>> jnp.column_stack([jnp.arange(3), jnp.arange(3)]).shape
    (3, 2)
    """
    parts = [asarray(x) for x in tup]
    return concatenate([x if x.ndim >= 2 else atleast_2d(x).T for x in parts], 1)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """An array cut into equal parts, or at given places.

    >>> import weft.numpy as jnp
    >>> [x.shape for x in jnp.split(jnp.arange(6), 3)]
    [(2,), (2,), (2,)]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """An array cut into nearly equal parts, or at given places.

    >>> import weft.numpy as jnp
    >>> [x.shape for x in jnp.array_split(jnp.arange(5), 2)]
    [(3,), (2,)]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def _split(name: str, ary: Any, places: Any, axis: int) -> list[Array]:
    check_arraylike(name, ary)
    axis = canonical_axis(axis, np.ndim(ary))
    total = np.shape(ary)[axis]
    if isinstance(places, (int, np.integer)):
        parts = int(places)
        if parts < 1:
            raise ValueError(f"{name} needs at least one section, got {parts}")
        each, extra = divmod(total, parts)
        if extra and name != "array_split":
            raise ValueError(f"array of size {total} cannot be split into {parts} equal parts")
        ends = np.cumsum([each + 1] * extra + [each] * (parts - extra))[:-1]
    else:
        ends = np.asarray([operator.index(i) for i in np.asarray(places)])
        ends = np.clip(np.where(ends < 0, ends + total, ends), 0, total).astype(int)
    bounds = [0, *(int(i) for i in ends), total]
    if bounds == sorted(bounds):
        return lax.split(ary, np.diff(bounds), axis)
    x = lax_array(ary)
    return [
        lax.slice_in_dim(x, low, max(low, high), axis=axis)
        for low, high in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """An array cut along columns.

    >>> import weft.numpy as jnp
    >>> len(jnp.hsplit(jnp.ones((2, 4)), 2))
    2
    """
    a = asarray(ary)
    return _split("hsplit", a, indices_or_sections, 0 if a.ndim == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """An array cut along rows.

    >>> import weft.numpy as jnp
    >>> len(jnp.vsplit(jnp.ones((2, 4)), 2))
    2
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """An array cut along its third axis.

    >>> import weft.numpy as jnp
    >>> len(jnp.dsplit(jnp.ones((1, 2, 4)), 2))
    2
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def tile(A: Any, reps: Any) -> Array:
    """An array repeated along its axes.

    >>> import weft.numpy as jnp
    >>> jnp.tile(jnp.arange(2), 2)
    Array([0, 1, 0, 1], dtype=int32)
    """
    check_arraylike("tile", A)
    counts = canonical_shape(reps)
    n = max(np.ndim(A), len(counts))
    x = lax.broadcast_to_rank(lax_array(A), n)
    return lax.tile(x, (1,) * (n - len(counts)) + counts)


def flip(m: Any, axis: Any = None) -> Array:
    """An array read backwards along some axes.

    >>> import weft.numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    check_arraylike("flip", m)
    n = np.ndim(m)
    axes = range(n) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return lax.rev(m, [canonical_axis(i, n) for i in axes])


def fliplr(m: Any) -> Array:
    """A matrix with its columns reversed.

    >>> import weft.numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: Any) -> Array:
    """An array with its rows reversed.

    >>> import weft.numpy as jnp
    >>> jnp.flipud(jnp.arange(2))
    Array([1, 0], dtype=int32)
    """
    return flip(m, 0)

