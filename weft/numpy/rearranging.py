"""Moving, repeating, inserting and removing elements, and packing bits."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.learning import learning
from weft.api.placement import divided_as
from weft.core.array import Array, Exact
from weft.core.dims.dim import Dim, divided_up, whole
from weft.lax.shape import canonical_axis
from weft.numpy.broadcasting import broadcast_to, choose_where, filled
from weft.numpy.creation import arange, array, asarray, full, ones, zeros_like
from weft.numpy.index_functions import take
from weft.numpy.index_plan import index_dtype
from weft.numpy.indexing import getitem, update_index
from weft.numpy.manipulation import (
    axis_tuple,
    concatenate,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    swapaxes,
)
from weft.numpy.padding import pad
from weft.numpy.positions import nonzero
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    convert_operand,
    ensure_array,
    is_known,
)
from weft.numpy.reductions import clip, cumsum, sum
from weft.numpy.sorting import argsort, sort
from weft.numpy.ufuncs import add, greater, greater_equal, left_shift, less, remainder, subtract
from weft.prims.families import const, scalar

_INT32, _UINT8 = np.dtype(np.int32), np.dtype(np.uint8)


def roll(a: Any, shift: Exact, axis: Any = None) -> Array:
    """Return an array with its elements shifted cyclically along axes.

    Args:
        a: Array of any shape.
        shift: Number of places, an integer or one for each axis; it may be traced. Negative shifts
            go towards the start.
        axis: Axis or tuple of axes; None shifts the flattened array and restores the shape.

    Returns:
        Array with the shape and dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.roll(jnp.arange(3), 1)
        Array([2, 0, 1], dtype=int32)
    """
    x = ensure_array("roll", a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = [canonical_axis(i, x.ndim) for i in axis_tuple(axis)]
    if not is_known(shift):
        return _roll_traced(x, shift, axes)
    if type(shift) is Dim:
        shifts: Any = (shift,)
    elif type(shift) is tuple and any(type(n) is Dim for n in shift):
        shifts = tuple(map(whole, shift))
    else:
        shifts = axis_tuple(shift if np.ndim(shift) else operator.index(shift))
    for place, count in zip(*np.broadcast_arrays(axes, np.array(shifts, object)), strict=True):
        place = int(place)
        size = x.shape[place]
        if not size:
            continue
        start = whole(-count % size)
        ends = [
            lax.slice_in_dim(x, start, size, axis=place),
            lax.slice_in_dim(x, 0, start, axis=place),
        ]
        x = lax.concatenate(ends, place)
    return x


def _roll_traced(x: Any, shift: Any, axes: list[int]) -> Any:
    shape = lax.broadcast_shapes(np.shape(shift), (len(axes),))
    if len(shape) != 1:
        raise ValueError(f"roll takes scalars or vectors of shifts, got {np.shape(shift)}")
    shifts = broadcast_to(shift, shape)
    for count, place in zip(shifts, np.broadcast_to(axes, shape), strict=True):
        place = int(place)
        size = scalar(_INT32, x.shape[place])
        positive = lax.max(size, scalar(_INT32, 1))
        offset = remainder(convert_operand(count, _INT32), positive)
        twice = lax.concatenate([x, x], place)
        x = lax.dynamic_slice_in_dim(twice, lax.sub(size, offset), x.shape[place], axis=place)
    return x


def repeat(
    a: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array with each element repeated.

    Args:
        a: Array of any shape.
        repeats: Number of repetitions: one for all, or one for each element along the axis.
        axis: Axis to repeat along; None repeats the elements of the flattened array.
        total_repeat_length: Static sum of the repetitions, needed if ``repeats`` is traced: the
            result is cut or padded with its last element to it.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array that is longer along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.repeat(jnp.array([1, 2]), jnp.array([1, 2]))
        Array([1, 2, 2], dtype=int32)
    """
    if out_sharding is not None:
        length = total_repeat_length
        alone = lambda: repeat(a, repeats, axis, total_repeat_length=length)
        return divided_as(out_sharding, alone, "repeat")
    check_arraylike("repeat", a, repeats)
    x = asarray(a)
    if axis is None:
        x, axis = ravel(x), 0
    elif not x.ndim:
        x = ravel(x)
    place = canonical_axis(concrete(axis, "repeat needs a concrete axis"), x.ndim)
    if total_repeat_length is None:
        counts = concrete(
            repeats, "repeat needs concrete numbers of repeats, or their total_repeat_length"
        )
        if np.ndim(counts) == 0:
            return _repeat_evenly(x, whole(counts), place)
        counts = np.broadcast_to(np.ravel(np.asarray(counts)), [x.shape[place]])
        total = int(np.sum(counts))
    else:
        counts = broadcast_to(ravel(repeats), (x.shape[place],))
        total = whole(total_repeat_length)
    sizes = (*x.shape[:place], total, *x.shape[place + 1 :])
    if total == 0:
        return filled(sizes, scalar(x.dtype, 0))
    if x.shape[place] == 0:
        return x
    return take(x, _sources(as_array(counts), total), axis=place)


def _repeat_evenly(x: Any, count: int, axis: int) -> Any:
    shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    kept = [i for i in range(len(shape)) if i != axis + 1]
    sizes = (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :])
    return reshape(lax.broadcast_in_dim(x, shape, kept), sizes)


def _sources(counts: Any, total: int) -> Any:
    """For each place of the result, the element it comes from: how many blocks have begun."""
    before = update_index(roll(counts, 1), 0, 0, lax.scatter)
    starts = cumsum(before)
    none = scalar(index_dtype(counts.shape), 0)
    marks = update_index(filled((total,), none), starts, 1, lax.scatter_add, mode="drop")
    return subtract(cumsum(marks), 1)


# --- inserting and removing -----------------------------------------------------------------------


def delete(
    arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """Return an array without the elements at some indices.

    Args:
        arr: Array of any shape.
        obj: Integer, slice, array of integers or boolean mask of what to remove along the axis.
        axis: Axis to remove from; None removes from the flattened array.
        assume_unique_indices: Your promise that no index occurs twice: ``obj`` may then be a traced
            array.

    Returns:
        Array that is shorter along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.delete(jnp.arange(4), 1)
        Array([0, 2, 3], dtype=int32)
    """
    x = ensure_array("delete", arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(axis, x.ndim)
    lead = (slice(None),) * place
    size = x.shape[place]
    if isinstance(obj, slice):
        gone = range(size)[obj]
        if abs(gone.step) == 1 or len(gone) < 2:
            ends = sorted((gone[0], gone[-1])) if gone else (0, -1)
            return _without(x, ends[0], ends[1] + 1, place)
        kept = np.ones(size, bool)
        kept[obj] = False
        return getitem(x, (*lead, kept))
    if is_known(obj) and np.ndim(obj) == 0:
        try:
            index = operator.index(obj)
        except TypeError:
            pass
        else:
            if not -size <= index < size:
                raise ValueError(f"delete got index {index} for an axis of size {size}")
            return _without(x, index % size, index % size + 1, place)
    check_arraylike("delete", x, obj)
    if dtypes.issubdtype(dtypes.dtype(obj), np.integer) and assume_unique_indices:
        return _delete_unique(x, asarray(obj), place)
    gone = np.asarray(concrete(obj, "delete needs concrete indices, or assume_unique_indices=True"))
    if gone.dtype == np.bool_:
        if gone.shape != (size,):
            raise ValueError(f"delete needs a mask of shape ({size},), got {gone.shape}")
        kept = ~gone
    elif gone.dtype.kind in "iu":
        kept = np.ones(size, bool)
        kept[gone] = False
    else:
        raise ValueError(f"delete needs integers or booleans, got dtype {gone.dtype}")
    return getitem(x, (*lead, kept))


def _ends_of(x: Any, start: int, stop: int, axis: int) -> Any:
    """An array without the part from ``start`` to ``stop``."""
    lead = (slice(None),) * axis
    parts = [slice(0, start)] if start else []
    if type(x.shape[axis]) is Dim or stop < x.shape[axis] or not start:
        parts.append(slice(stop, None))
    ends = [getitem(x, (*lead, part)) for part in parts]
    return concatenate(ends, axis) if len(ends) > 1 else ends[0]


_without: Any = learning(_ends_of)


def _delete_unique(x: Any, index: Any, axis: int) -> Any:
    """Deletion at indices that are all different, which may be traced."""
    index, size = ravel(index), x.shape[axis]
    index = clip(choose_where(less(index, 0), add(index, size), index), 0, size)
    index = sort(index)
    index = subtract(index, arange(index.size, dtype=index.dtype))
    kept = arange(size - index.size, dtype=index.dtype)
    later = greater_equal(lax.expand_dims(kept, (0,)), lax.expand_dims(index, (1,)))
    kept = add(kept, sum(later, 0, dtype=kept.dtype))
    return getitem(x, (*(slice(None),) * axis, kept))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """Return an array with values inserted before some indices.

    Args:
        arr: Array of any shape.
        obj: Integer, slice or array of integers: positions in ``arr`` before which to insert.
        values: Values to insert, which broadcast to the slices; converted to the dtype of ``arr``.
        axis: Axis to insert along; None inserts into the flattened array.

    Returns:
        Array that is longer along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.insert(jnp.arange(3), 1, 7)
        Array([0, 7, 1, 2], dtype=int32)
    """
    check_arraylike("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    x = ensure_array("insert", arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = canonical_axis(concrete(axis, "insert needs a concrete axis"), x.ndim)
    size = x.shape[place]
    index = arange(*obj.indices(size)) if isinstance(obj, slice) else asarray(obj)
    if index.ndim > 1:
        raise ValueError(f"insert takes a scalar or vector of indices, got shape {index.shape}")
    if not dtypes.issubdtype(index.dtype, np.integer):
        if index.size:
            raise ValueError(f"insert needs integer indices, got dtype {index.dtype}")
        index = convert_operand(index, dtypes.default_int_dtype())
    new = array(convert_operand(values, x.dtype, x.weak_type), ndmin=x.ndim, copy=False)
    if index.size == 1:
        if index.ndim == 0:
            new = moveaxis(new, 0, place)
        index = full(new.shape[place], ravel(index)[0])
    count = lax.broadcast_shapes(index.shape, (new.shape[place],))[0]
    if type(obj) is int:
        at = min(max(obj + size if obj < 0 else obj, 0), size)
        new = broadcast_to(new, (*x.shape[:place], count, *x.shape[place + 1 :]))
        ends = lax.split(x, (at, size - at), place)
        return lax.concatenate([ends[0], new, ends[1]], place)
    out = zeros_like(x, shape=(*x.shape[:place], size + count, *x.shape[place + 1 :]))
    index = clip(choose_where(less(index, 0), add(index, size), index), 0, size)
    order = argsort(index)
    steps = arange(count, dtype=index.dtype)
    new_places = update_index(index, order, steps, lax.scatter_add)
    old = update_index(ones(size + count, dtype=bool), new_places, False, lax.scatter)
    (old_places,) = nonzero(old, size=size)
    lead = (slice(None),) * place
    out = update_index(out, (*lead, new_places), new, lax.scatter)
    return update_index(out, (*lead, old_places), x, lax.scatter)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """Return an array without the zeros at its ends.

    Args:
        filt: Array with concrete values: the size of the result depends on them.
        trim: Which ends: "f" the front, "b" the back, "fb" both.
        axis: Axis or tuple of axes to trim; by default all.

    Returns:
        Slice of ``filt``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.trim_zeros(jnp.array([0, 1, 2, 0]))
        Array([1, 2], dtype=int32)
    """
    x = ensure_array("trim_zeros", filt)
    known = np.asarray(concrete(x, "trim_zeros needs the values of the array")) != 0
    axes = range(x.ndim) if axis is None else [canonical_axis(i, x.ndim) for i in axis_tuple(axis)]
    if len(set(axes)) != len(axes):
        raise ValueError(f"trim_zeros takes each axis once, got {axis}")
    if not axes:
        return x
    sides = trim.lower()
    index = []
    for i in range(x.ndim):
        if i not in axes or not ("f" in sides or "b" in sides):
            index.append(slice(None))
            continue
        used = np.flatnonzero(known.any(axis=tuple(j for j in range(x.ndim) if j != i)))
        if not used.size:
            index.append(slice(0, 0))
            continue
        start = int(used[0]) if "f" in sides else None
        index.append(slice(start, int(used[-1]) + 1 if "b" in sides else None))
    return getitem(x, tuple(index))


# --- bits -----------------------------------------------------------------------------------------


def _check_bit_order(bitorder: str) -> None:
    if bitorder not in ("little", "big"):
        raise ValueError(f"bitorder must be 'little' or 'big', got {bitorder!r}")


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Array:
    """Return truth values packed into bytes, eight in each.

    Args:
        a: Array of integers or booleans; values that are not zero are set bits.
        axis: Axis to pack along; None packs the flattened array.
        bitorder: "big": the first value is the highest bit; "little": the lowest.

    Returns:
        Array of uint8; the last byte is padded with zeros.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.packbits(jnp.array([1, 0, 0, 0, 0, 0, 0, 1]))
        Array([129], dtype=uint8)
    """
    x = ensure_array("packbits", a)
    if not dtypes.issubdtype(x.dtype, np.integer) and x.dtype != np.bool_:
        raise TypeError(f"packbits takes integers or booleans, got dtype {x.dtype}")
    _check_bit_order(bitorder)
    x = x if x.dtype == np.bool_ else lax.ne(x, const(x, 0))
    if axis is None:
        x, axis = ravel(x), 0
    x = swapaxes(x, axis, -1)
    count = divided_up(x.shape[-1], 8)
    spare = 8 * count - x.shape[-1]
    if type(spare) is Dim or spare:
        x = lax.pad(x, np.bool_(False), [(0, 0, 0)] * (x.ndim - 1) + [(0, spare, 0)])
    x = reshape(x, (*x.shape[:-1], count, 8))
    none = lax.full(x.shape[:-1], 0, _UINT8)
    packed = none
    for place in range(8):
        bit = 7 - place if bitorder == "big" else place
        column = lax.index_in_dim(x, bit, x.ndim - 1, keepdims=False)
        packed = lax.bitwise_or(packed, lax.select(column, lax.full_like(none, 1 << place), none))
    return swapaxes(as_array(packed), axis, -1)


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Return the bits of bytes, one in each element.

    Args:
        a: Array of uint8.
        axis: Axis to unpack along; None unpacks the flattened array.
        count: Number of bits to return along the axis; a negative number leaves out that many at
            the end. All by default.
        bitorder: "big": the highest bit comes first; "little": the lowest.

    Returns:
        Array of uint8 that holds 0 and 1.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unpackbits(jnp.array([129], dtype="uint8"))
        Array([1, 0, 0, 0, 0, 0, 0, 1], dtype=uint8)
    """
    x = ensure_array("unpackbits", a)
    if x.dtype != np.uint8:
        raise TypeError(f"unpackbits takes uint8, got dtype {x.dtype}")
    _check_bit_order(bitorder)
    masks = left_shift(as_array(1), arange(8, dtype=_UINT8))
    if bitorder == "big":
        masks = lax.rev(masks, (0,))
    if axis is None:
        x, axis = ravel(x), 0
    x = swapaxes(x, axis, -1)
    spread = lax.expand_dims(x, (x.ndim,))
    masks = expand_dims(masks, tuple(range(x.ndim)))
    bits = convert_operand(greater(lax.bitwise_and(spread, masks), 0), _UINT8)
    bits = reshape(bits, (*bits.shape[:-2], -1))
    if count is not None:
        if count > bits.shape[-1]:
            bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, count - bits.shape[-1])])
        else:
            bits = getitem(bits, (..., slice(None, count)))
    return swapaxes(bits, axis, -1)
