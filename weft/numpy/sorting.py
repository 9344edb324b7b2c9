"""Sorting, partitioning and searching sorted arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.batching import vmap
from weft.core.array import Array
from weft.core.dims.dim import Dim, exceeds
from weft.core.trace import typeof
from weft.lax.shape import canonical_axis
from weft.numpy.broadcasting import choose_where, filled, full_of
from weft.numpy.index_plan import index_dtype
from weft.numpy.indexing import getitem, update_index
from weft.numpy.manipulation import ravel, swapaxes
from weft.numpy.positions import nonzero
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    convert_operand,
    ensure_array,
    ensure_arrays,
    promote_dtypes,
)
from weft.numpy.reductions import sum
from weft.numpy.ufuncs import floor_divide
from weft.prims.families import COMPLEX, FLOAT, UINT, const, kind_of, scalar
from weft.prims.order import eq_to_p, le_to_p, lt_to_p
from weft.prims.sort import partition_p


def _refuse_options(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(f"{name} has no argument kind; pass stable=True or stable=False")
    if order is not None:
        raise TypeError(f"{name} has no argument order: arrays have no fields")


def _along(x: Any, axis: int | None) -> tuple[Any, int]:
    """An array and the axis to work along; flattened for None."""
    if axis is None:
        return ravel(x), 0
    return x, canonical_axis(axis, x.ndim)


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Return a sorted copy of an array.

    Args:
        a: Array to sort; NaNs count as largest, complex numbers are ordered by real, then
            imaginary part.
        axis: Axis to sort along; None sorts the flattened array.
        kind: Must be None: choose with ``stable``.
        order: Must be None: there are no structured arrays.
        stable: If true, equal elements keep their order.
        descending: If true, sort from large to small.

    Returns:
        Array with the shape and dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sort(jnp.array([3, 1, 2]))
        Array([1, 2, 3], dtype=int32)
    """
    x = ensure_array("sort", a)
    _refuse_options("sort", kind, order)
    x, place = _along(x, axis)
    out = lax.sort(x, dimension=place, is_stable=stable)
    return lax.rev(out, (place,)) if descending else out


def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """Return the indices that sort an array.

    Args:
        a: Array to sort; NaNs count as largest, complex numbers are ordered by real, then
            imaginary part.
        axis: Axis to sort along; None sorts the flattened array.
        kind: Must be None: choose with ``stable``.
        order: Must be None: there are no structured arrays.
        stable: If true, equal elements keep their order.
        descending: If true, sort from large to small.
        dtype: Integer dtype of the indices; by default the default integer type.

    Returns:
        Integer array with the shape of ``a``, for ``take_along_axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.argsort(jnp.array([3, 1, 2]))
        Array([1, 2, 0], dtype=int32)
    """
    x = ensure_array("argsort", a)
    _refuse_options("argsort", kind, order)
    x, place = _along(x, axis)
    wanted = dtypes.default_int_dtype()
    if dtype is not None:
        wanted = dtypes.check_user_dtype(dtype, "argsort")
    divided = typeof(x).divided
    positions = lax.broadcasted_iota(wanted, x.shape, place, out_sharding=divided)
    if descending and stable:
        # equal elements keep their order when both the input and the result are reversed
        x, positions = lax.rev(x, (place,)), lax.rev(positions, (place,))
    _, out = lax.sort_key_val(x, positions, dimension=place, is_stable=stable)
    return lax.rev(out, (place,)) if descending else out


def sort_complex(a: Any) -> Array:
    """Return the elements as complex numbers, sorted by real, then by imaginary part.

    Args:
        a: Array to sort along its last axis.

    Returns:
        Complex array with the shape of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sort_complex(jnp.array([2, 1]))
        Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x = lax.sort(ensure_array("sort_complex", a))
    return as_array(convert_operand(x, dtypes.to_complex_dtype(x.dtype)))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the indices that sort by several keys; the last key counts most.

    Args:
        keys: Sequence of arrays of one shape, or an array whose rows are keys.
        axis: Axis of the keys to sort along.

    Returns:
        Integer array with the shape of one key.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.lexsort((jnp.array([1, 2, 0]), jnp.array([1, 0, 1])))
        Array([1, 2, 0], dtype=int32)
    """
    arrays = ensure_arrays("lexsort", *keys)
    if not arrays:
        raise TypeError("lexsort needs at least one key")
    if len({x.shape for x in arrays}) > 1:
        raise ValueError(f"lexsort needs keys of one shape, got {[x.shape for x in arrays]}")
    wanted = dtypes.default_int_dtype()
    if arrays[0].ndim == 0:
        return filled((), scalar(wanted, 0))
    place = canonical_axis(axis, arrays[0].ndim)
    positions = lax.broadcasted_iota(wanted, arrays[0].shape, place)
    operands = (*arrays[::-1], positions)
    return lax.sort(operands, dimension=place, num_keys=len(arrays))[-1]


# --- partitions -----------------------------------------------------------------------------------

# Elements of a row up to which both parts come in JAX's order; no order is promised.
_SORTED = 4096


def _partition_operand(name: str, a: Any, kth: int, axis: int) -> tuple[Any, int, int]:
    """The array with its axis last, the place that splits it, and the axis."""
    x = ensure_array(name, a)
    if kind_of(x.dtype) == COMPLEX:
        raise NotImplementedError(f"{name} does not order complex numbers; use jnp.sort")
    axis = canonical_axis(axis, x.ndim)
    place, length = concrete(kth, f"{name} needs a concrete kth"), x.shape[axis]
    if not -length <= place < length:
        raise ValueError(f"{name} got kth={place} for an axis of {length} elements")
    return swapaxes(x, axis, -1), place % length, axis


def _reversed_order(x: Any) -> Any:
    """Numbers in the opposite order; unsigned ones wrap around."""
    if kind_of(x.dtype) == UINT:
        return lax.neg(lax.add(x, const(x, 1)))
    return lax.neg(x)


def partition(a: Any, kth: int, axis: int = -1) -> Array:
    """Return an array with nothing larger before position ``kth`` and nothing smaller after it.

    Args:
        a: Array to partition; NaNs go last.
        kth: Index of the element that comes to its sorted position. A static integer.
        axis: Axis to partition along.

    Returns:
        Array with the shape and dtype of ``a``.

    The order of the elements before and after it is unspecified.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.partition(jnp.array([3, 1, 2, 0]), 1)[:2]
        Array([0, 1], dtype=int32)
    """
    x, kth, axis = _partition_operand("partition", a, kth, axis)
    last = x.ndim - 1
    if type(x.shape[-1]) is Dim or x.shape[-1] > _SORTED:
        return swapaxes(partition_p.bind(x, kth=kth)[0], -1, axis)
    bottom, top = lax.split(lax.sort(x), (kth + 1, x.shape[-1] - kth - 1), last)
    return swapaxes(lax.concatenate([bottom, lax.rev(top, (last,))], last), -1, axis)


def argpartition(a: Any, kth: int, axis: int = -1) -> Array:
    """Return the indices that partition an array around position ``kth``.

    Args:
        a: Array to partition; NaNs go last.
        kth: Index of the element that comes to its sorted position. A static integer.
        axis: Axis to partition along.

    Returns:
        Integer array with the shape of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.argpartition(jnp.array([3, 1, 2, 0]), 1)[:2]
        Array([3, 1], dtype=int32)
    """
    x, kth, axis = _partition_operand("argpartition", a, kth, axis)
    if type(x.shape[-1]) is Dim or x.shape[-1] > _SORTED:
        places = lax.broadcasted_iota(index_dtype(x.shape), x.shape, x.ndim - 1)
        _, places = partition_p.bind(x, places, kth=kth)
        return swapaxes(places, -1, axis)
    bottom = lax.top_k(_reversed_order(x), kth + 1)[1]

    def others(index: Any) -> Any:
        """All that are not among some indices, in order."""
        marks = update_index(filled((size,), np.True_), index, False, lax.scatter)
        return nonzero(marks, size=size - kth - 1)[0]

    size = x.shape[-1]
    for _ in range(x.ndim - 1):
        others = vmap(others)
    top = convert_operand(others(bottom), bottom.dtype)
    return swapaxes(lax.concatenate([bottom, top], x.ndim - 1), -1, axis)


# --- searching ------------------------------------------------------------------------------------


def _sort_keys(x: Any) -> list[Any]:
    """What sorting compares: zeros of one sign, one NaN, complex numbers by their parts."""
    kind = kind_of(typeof(x).dtype)
    if kind == COMPLEX:
        return [*_sort_keys(lax.real(x)), *_sort_keys(lax.imag(x))]
    if kind != FLOAT:
        return [x]
    key = lax.select(lax.eq(x, const(x, 0)), full_of(x, 0), x)
    return [lax.select(lax.ne(x, x), full_of(key, np.nan), key)]


def _ordered(x: Any, y: Any, strict: bool) -> Any:
    """Whether x comes before y in sorting, or at the same place unless ``strict``."""
    pairs = list(zip(_sort_keys(x), _sort_keys(y), strict=True))
    *major, (a, b) = pairs
    result = (lt_to_p if strict else le_to_p).bind(a, b)
    for a, b in reversed(major):
        result = lax.bitwise_or(lt_to_p.bind(a, b), lax.bitwise_and(eq_to_p.bind(a, b), result))
    return result


def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Array:
    """Return where values belong in a sorted array to keep it sorted.

    Args:
        a: Sorted vector.
        v: Array of values to place.
        side: Among equal elements "left" gives the first position, "right" the one after the last.
        sorter: Indices that sort ``a``, if it isn't sorted.
        method: "scan" (binary search in a loop), "scan_unrolled" (without a loop), "sort" (sorts
            both together) or "compare_all" (compares every pair).

    Returns:
        Integer array with the shape of ``v``, from 0 to ``len(a)``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.searchsorted(jnp.array([1, 2, 3]), 2).item()
        1
    """
    check_arraylike("searchsorted", a, v)
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(f"searchsorted has no method {method!r}")
    if np.ndim(a) != 1:
        raise ValueError(f"searchsorted takes a one-dimensional array, got shape {np.shape(a)}")
    a, v = (as_array(x) for x in promote_dtypes(a, v, staged=True))
    if sorter is not None:
        a = getitem(a, ensure_array("searchsorted", sorter))
    wanted = dtypes.canonicalize_dtype(np.int64 if exceeds(a.size, 2**31 - 1) else np.int32)
    if exceeds(a.size, np.iinfo(wanted).max):
        raise OverflowError(
            f"searchsorted in an array of {a.size} elements needs positions beyond int32; set "
            "enable_x64"
        )
    if method == "sort":
        return _search_by_sorting(a, v, side, wanted)
    if method == "compare_all":
        return _search_by_comparing(a, v, side, wanted)
    return _search_by_halving(a, v, side, wanted, method == "scan_unrolled")


def _search_by_halving(a: Any, v: Any, side: str, dtype: Any, unrolled: bool) -> Any:
    count = a.shape[0]
    if not count:
        return filled(np.shape(v), scalar(dtype, 0))
    if np.ndim(v):
        search = functools.partial(_search_by_halving, side=side, dtype=dtype, unrolled=unrolled)
        return vmap(search, in_axes=(None, 0))(a, v)
    word = np.dtype(np.uint64 if dtype == np.int64 else np.uint32)

    def halve(bounds: tuple[Any, Any], _: Any) -> tuple[Any, Any]:
        low, high = bounds
        middle = lax.add(low, floor_divide(lax.sub(high, low), 2))
        go_left = _ordered(v, getitem(a, middle), strict=side == "right")
        return (lax.select(go_left, low, middle), lax.select(go_left, middle, high)), ()

    levels = int(np.ceil(np.log2(int(count) + 1)))
    bounds = (scalar(word, 0), scalar(word, count))
    (_, high), _ = lax.scan(halve, bounds, (), length=levels, unroll=levels if unrolled else 1)
    return as_array(convert_operand(high, dtype))


def _ranks(x: Any) -> Any:
    """The place of each element of a vector when it is sorted."""
    places = lax.iota(np.int64 if exceeds(x.size, 2**31 - 1) else np.int32, x.shape[0])
    none = full_of(places, 0)
    order = lax.sort_key_val(x, places)[1]
    return update_index(none, order, places, lax.scatter)


def _search_by_sorting(a: Any, v: Any, side: str, dtype: Any) -> Any:
    flat = ravel(v)
    if side == "left":
        joint = getitem(_ranks(lax.concatenate([flat, a], 0)), slice(None, flat.size))
    else:
        joint = getitem(_ranks(lax.concatenate([a, flat], 0)), slice(a.size, None))
    places = lax.reshape(lax.sub(joint, _ranks(flat)), v.shape)
    return as_array(convert_operand(places, dtype))


def _search_by_comparing(a: Any, v: Any, side: str, dtype: Any) -> Any:
    before = functools.partial(_ordered, strict=side == "left")
    return sum(vmap(before, in_axes=(0, None))(a, v), dtype=dtype, axis=0)


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Array:
    """Return which of the intervals between sorted edges each value lies in.

    Args:
        x: Array of values.
        bins: Vector of edges, ascending or descending.
        right: If true, intervals include their right edge instead of their left one.
        method: Method of ``searchsorted``; by default "scan".

    Returns:
        Integer array with the shape of ``x``; 0 and ``len(bins)`` are the outsides.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.digitize(jnp.array([0.5, 2.5]), jnp.array([0.0, 1.0, 2.0]))
        Array([1, 3], dtype=int32)
    """
    x, bins = ensure_arrays("digitize", x, bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize takes one-dimensional bins, got shape {bins.shape}")
    count = bins.shape[0]
    if not count:
        return filled(x.shape, np.int32(0))
    options: dict[str, Any] = {"side": "left" if right else "right"}
    if method is not None:
        options["method"] = method
    rising = lax.ge(getitem(bins, -1), getitem(bins, 0))
    up = searchsorted(bins, x, **options)
    down = searchsorted(lax.rev(bins, (0,)), x, **options)
    return choose_where(rising, up, lax.sub(const(down, count), down))
