"""Sets of elements: uniqueness, membership, union, intersection and difference."""

from __future__ import annotations

import operator
from math import prod
from typing import Any, Literal, overload

import numpy as np

from weft import dtypes, lax
from weft.base import errors
from weft.base.record import Record
from weft.core.array import Array
from weft.core.dims.dim import Dim
from weft.core.trace import Tracer
from weft.lax.shape import canonical_axis
from weft.numpy import known_sets
from weft.numpy.broadcasting import choose_where, filled
from weft.numpy.calculus import diff
from weft.numpy.creation import arange, asarray, full_like, zeros
from weft.numpy.index_plan import index_dtype
from weft.numpy.indexing import getitem, take_index, update_index
from weft.numpy.manipulation import append, concatenate, moveaxis, ravel, reshape, transpose
from weft.numpy.parts import isnan
from weft.numpy.positions import SEARCH, nonzero, packed
from weft.numpy.promotion import (
    as_array,
    concrete,
    convert_operand,
    ensure_array,
    ensure_arrays,
    promote_dtypes,
)
from weft.numpy.reductions import all, any, cumsum, max, min, sum
from weft.numpy.sorting import lexsort, searchsorted, sort
from weft.numpy.ufuncs import add, equal, less, not_equal, subtract
from weft.prims.families import COMPLEX, FLOAT, INTEGER, const, kind_of, scalar

# Elements up to which looking for one among all of them is quicker than a search.
_FEW = 64
# Entries of a table of integers for each element that is looked up or looked for.
_PER_ELEMENT = 2
_LATER, _EARLIER = slice(1, None), slice(None, -1)


def _need_values(name: str, *arrays: Any) -> None:
    """Raise for traced arrays where the size of a result depends on values."""
    for x in arrays:
        if isinstance(x, Tracer) and x._concrete() is None:
            raise errors.ConcretizationTypeError(
                x, f"the size of {name}'s result depends on values; pass a static size="
            )


def _need_mask(*arrays: Any) -> None:
    """Raise for traced arrays where a mask made of them chooses elements."""
    for x in arrays:
        if isinstance(x, Tracer) and x._concrete() is None:
            raise errors.NonConcreteBooleanIndexError(x)


def _static_size(name: str, size: Any) -> int | None:
    if size is None:
        return None
    return operator.index(concrete(size, f"{name} needs a concrete size"))


# --- uniqueness -----------------------------------------------------------------------------------


def _sorted_slices(x: Any, axis: int, equal_nan: bool, ordered: bool) -> tuple[Any, Any, Any]:
    """Slices in order, a mask of those that differ from the one before, and the permutation.

    The permutation is None where it is not wanted and the slices are single elements.
    """
    rows = moveaxis(x, axis, 0)
    if kind_of(rows.dtype) == COMPLEX:
        rows = choose_where(isnan(rows), const(rows, np.nan), rows)
    size, *rest = rows.shape
    width = prod(rest)
    order = None
    if width and not rest and not ordered:
        rows = lax.sort(rows)
    else:
        if width == 0:
            size, order = 1, zeros(1, int)
        else:
            keys = lax.rev(transpose(reshape(rows, (size, width))), (0,))
            order = lexsort(keys)
        rows = getitem(rows, order)
    if not rows.size:
        return rows, zeros(size, bool), order
    mask = filled((size,), np.True_)
    later, earlier = getitem(rows, _LATER), getitem(rows, _EARLIER)
    new = lax.ne(later, earlier)
    if kind_of(rows.dtype) & (FLOAT | COMPLEX) and equal_nan:
        both = lax.bitwise_and(isnan(later), isnan(earlier))
        new = lax.bitwise_and(new, lax.bitwise_not(both))
    new = any(new, tuple(range(1, rows.ndim)))
    return rows, update_index(mask, _LATER, new, lax.scatter), order


def _unique(
    x: Any,
    axis: int,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    ordered: bool = True,
) -> tuple[Any, Any, Any, Any, Any]:
    """Distinct slices, where they are, what was sorted, its mask and its permutation."""
    if x.shape[axis] == 0 and size and fill_value is None:
        raise ValueError("unique of an empty array with a size needs a fill_value")
    rows, mask, order = _sorted_slices(x, axis, equal_nan, ordered)
    place = mask if size is None else nonzero(mask, size=size)[0]
    symbolic = type(size) is Dim or type(rows.size) is Dim
    if size and rows.ndim == 1 and (symbolic or size * SEARCH > rows.size > 0):
        # places left over get the smallest
        first = lax.broadcast(getitem(rows, 0), (size,))
        found = packed(rows, mask, cumsum(mask), first)
    else:
        found = getitem(rows, place) if rows.size else rows
    if size is not None and fill_value is not None:
        fill = convert_operand(asarray(fill_value), found.dtype)
        if found.shape[0]:
            valid = less(arange(size), sum(mask))
            valid = lax.expand_dims(valid, range(1, found.ndim))
            found = choose_where(valid, found, fill)
        else:
            found = full_like(found, fill, shape=(size, *found.shape[1:]))
    return moveaxis(found, 0, axis), place, rows, mask, order


def _inverse(x: Any, axis: int, rows: Any, mask: Any, order: Any) -> Any:
    """For each slice, the number of the distinct slice that it is."""
    if not rows.size:
        return zeros(x.shape[axis], int)
    numbers = subtract(cumsum(mask), 1)
    return update_index(zeros(mask.shape, int), order, numbers, lax.scatter)


def _counts(x: Any, axis: int, rows: Any, mask: Any, size: int | None) -> Any:
    """How often each distinct slice occurs."""
    int_dtype = dtypes.default_int_dtype()
    if not rows.size:
        count = x.shape[axis]
        return filled((1,) if count else (0,), scalar(int_dtype, count))
    if size is None:
        starts = append(nonzero(mask)[0], mask.size)
    else:
        starts = nonzero(mask, size=size + 1)[0]
        tail = getitem(starts, _LATER)
        tail = choose_where(tail, tail, mask.size)
        starts = update_index(starts, _LATER, tail, lax.scatter)
    return diff(starts)


@overload
def unique(
    ar: Any,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Array: ...
@overload
def unique(
    ar: Any,
    return_index: Literal[True],
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> tuple[Array, ...]: ...
@overload
def unique(
    ar: Any,
    return_index: bool = False,
    *,
    return_inverse: Literal[True],
    return_counts: bool = False,
    axis: int | None = None,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> tuple[Array, ...]: ...
@overload
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    *,
    return_counts: Literal[True],
    axis: int | None = None,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> tuple[Array, ...]: ...
@overload
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any: ...
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Array | tuple[Array, ...]:
    """Return the distinct elements of an array in ascending order.

    Args:
        ar: Array, flattened unless ``axis`` is given.
        return_index: If true, also return where each distinct element first occurs.
        return_inverse: If true, also return which distinct element each element is.
        return_counts: If true, also return how often each distinct element occurs.
        axis: Axis whose slices are compared; by default single elements are.
        equal_nan: If true, NaNs count as equal.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.
        sorted: Ignored; the result is always sorted.

    Returns:
        Array of the distinct elements, or a tuple of it and the arrays that were asked for, in the
        order of the arguments.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unique(jnp.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
        >>> jnp.unique(jnp.array([3, 1, 3]), size=3, fill_value=-1)
        Array([ 1,  3, -1], dtype=int32)
    """
    x = ensure_array("unique", ar)
    if kind_of(x.dtype) == COMPLEX:  # ordered by its parts, which are not weakly typed
        x = convert_operand(x, x.dtype)
    size = _static_size("unique", size)
    return_index, return_inverse, return_counts = map(
        bool, (return_index, return_inverse, return_counts)
    )
    if size is None:
        _need_values("unique", x)
        if axis is None:
            known = known_sets.unique(x, return_index, return_inverse, return_counts, equal_nan)
            if known is not None:
                return known[0] if len(known) == 1 else tuple(known)
    shape = x.shape
    place = 0 if axis is None else canonical_axis(axis, x.ndim)
    if axis is None:
        x = ravel(x)
    ordered = return_index or return_inverse
    found, index, rows, mask, order = _unique(x, place, equal_nan, size, fill_value, ordered)
    out = [found]
    if return_index:
        out.append(getitem(order, index) if rows.size else order)
    if return_inverse:
        inverse = _inverse(x, place, rows, mask, order)
        out.append(reshape(inverse, shape) if axis is None else inverse)
    if return_counts:
        out.append(_counts(x, place, rows, mask, size))
    return out[0] if len(out) == 1 else tuple(out)


class UniqueAllResult(Record):
    """Distinct values, where they first are, which each element is, how often each occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(Record):
    """Distinct values, and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverseResult(Record):
    """Distinct values, and which of them each element is."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """Return the distinct values of an array with their indices, inverse and counts.

    Args:
        x: Array, which is flattened; NaNs count as different.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        Named tuple of ``values``, ``indices`` (first occurrence), ``inverse_indices`` and
        ``counts``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unique_all(jnp.array([3, 1, 3])).counts
        Array([1, 2], dtype=int32)
    """
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """Return the distinct values of an array and how often each occurs.

    Args:
        x: Array, which is flattened; NaNs count as different.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        Named tuple of ``values`` and ``counts``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
        Array([1, 2], dtype=int32)
    """
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueCountsResult(*unique(x, return_counts=True, **options))


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """Return the distinct values of an array and which of them each element is.

    Args:
        x: Array, which is flattened; NaNs count as different.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        Named tuple of ``values`` and ``inverse_indices``, which has the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
        Array([1, 0, 1], dtype=int32)
    """
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueInverseResult(*unique(x, return_inverse=True, **options))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the distinct values of an array in ascending order.

    Args:
        x: Array, which is flattened; NaNs count as different.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        One-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.unique_values(jnp.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# --- membership -----------------------------------------------------------------------------------


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Return whether each element is one of given values.

    Args:
        element: Array of values to look for.
        test_elements: Array of the values to look in, of any shape.
        assume_unique: If true, ``element`` has no duplicates; used by the method "sort".
        invert: If true, return whether each element is none of the values.
        method: "compare_all", "binary_search" or "sort"; "auto" chooses by the number of values.

    Returns:
        Boolean array with the shape of ``element``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([2]))
        Array([False,  True, False], dtype=bool)
    """
    x, tests = ensure_arrays("isin", element, test_elements)
    return reshape(_is_member(x, tests, invert, method, assume_unique), x.shape)


def _is_member(
    x: Any, tests: Any, invert: bool, method: str = "auto", assume_unique: bool = False
) -> Any:
    x, tests = (ravel(v) for v in promote_dtypes(x, tests))
    if not x.size or not tests.size:
        return filled(x.shape, np.bool_(invert))
    compare = not_equal if invert else equal
    if method == "auto":
        few = type(tests.size) is Dim or tests.size <= _FEW
        method = "compare_all" if few else "binary_search"
        if method == "binary_search" and kind_of(x.dtype) & INTEGER and x.size > _FEW:
            return _is_member_of_integers(x, tests, invert)
    if method == "compare_all":
        pairs = compare(lax.expand_dims(x, (1,)), lax.expand_dims(tests, (0,)))
        return (all if invert else any)(pairs, -1)
    if method == "binary_search":
        tests = lax.sort(tests)
        return compare(x, getitem(tests, searchsorted(tests, x)))
    if method == "sort":
        return _is_member_by_sorting(x, tests, compare, assume_unique)
    raise ValueError(
        f"isin has no method {method!r}; choose 'auto', 'compare_all', 'binary_search' and 'sort'"
    )


def _is_member_of_integers(x: Any, tests: Any, invert: bool) -> Any:
    """Membership by a table of all integers between the least and the largest, if they are few."""
    word = np.dtype(f"uint{8 * x.dtype.itemsize}")
    size = _PER_ELEMENT * (x.size + tests.size)

    def from_least(v: Any) -> Any:
        return lax.sub(convert_operand(v, word), least)

    def by_table(x: Any, tests: Any) -> Any:
        # in order and each integer once: threads that write side by side would wait for each other
        tests = lax.sort(tests)
        new = lax.ne(getitem(tests, _LATER), getitem(tests, _EARLIER))
        new = concatenate((filled((1,), np.True_), new))
        places = convert_operand(from_least(tests), int_dtype)
        places = lax.select(new, places, full_like(places, size))
        options: dict[str, Any] = {"unique_indices": True, "wrap_negative_indices": False}
        marks = filled((size,), np.False_)
        marks = update_index(marks, places, True, lax.scatter, mode="drop", **options)
        place = from_least(x)
        inside = lax.le(place, span)
        place = convert_operand(lax.select(inside, place, full_like(place, 0)), int_dtype)
        found = take_index(marks, place, mode="promise_in_bounds", wrap_negative_indices=False)
        found = lax.bitwise_and(inside, found)
        return lax.bitwise_not(found) if invert else found

    def by_search(x: Any, tests: Any) -> Any:
        return _is_member(x, tests, invert, "binary_search")

    int_dtype = dtypes.default_int_dtype()
    if size > np.iinfo(int_dtype).max:
        return by_search(x, tests)
    least = convert_operand(min(tests), word)
    span = lax.sub(convert_operand(max(tests), word), least)
    if size > np.iinfo(word).max:
        return by_table(x, tests)
    return lax.cond(lax.lt(span, scalar(word, size)), by_table, by_search, x, tests)


def _is_member_by_sorting(x: Any, tests: Any, compare: Any, assume_unique: bool) -> Any:
    back: Any = slice(None)
    if not assume_unique:
        x, back = unique(x, size=x.size, return_inverse=True, fill_value=max(tests))
    joint = concatenate([x, tests])
    values, places = lax.sort_key_val(joint, arange(joint.size))
    marks = compare(getitem(values, _LATER), getitem(values, _EARLIER))
    none = filled(x.shape, np.bool_(compare is not_equal))
    found = update_index(none, getitem(places, _EARLIER), marks, lax.scatter, mode="drop")
    return getitem(found, back)


# --- operations on sets ---------------------------------------------------------------------------


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the distinct elements of two arrays.

    Args:
        ar1: First array, which is flattened.
        ar2: Second array, which is flattened.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        Sorted one-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.union1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 2, 3], dtype=int32)
    """
    x, y = ensure_arrays("union1d", ar1, ar2)
    size = _static_size("union1d", size)
    if size is None:
        _need_values("union1d", x, y)
    return unique(concatenate((x, y), None), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Return the distinct elements of the first array that are not in the second.

    Args:
        ar1: First array, which is flattened.
        ar2: Second array, which is flattened.
        assume_unique: If true, the first array has no duplicates; the result then keeps its order.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; 0 by default.

    Returns:
        Sorted one-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.setdiff1d(jnp.array([1, 2, 3]), jnp.array([2]))
        Array([1, 3], dtype=int32)
    """
    x, y = (ravel(v) for v in ensure_arrays("setdiff1d", ar1, ar2))
    size = _static_size("setdiff1d", size)
    if size is None:
        _need_values("setdiff1d", x)
        known = known_sets.setdiff1d(x, y, assume_unique)
        if known is not None:
            return known
    fill = full_like(x, 0 if fill_value is None else fill_value, shape=())
    if not x.size:
        return full_like(x, fill, shape=size or 0)
    if not assume_unique:
        x = unique(x, size=size and x.size)
    mask = _is_member(x, y, invert=True)
    if size is None:
        return getitem(x, mask)
    if not assume_unique:
        # places filled up with the smallest element are not elements of their own
        count = subtract(x.size + 1, sum(equal(x, getitem(x, 0))))
        mask = choose_where(less(arange(x.size), count), mask, False)
    chosen = getitem(x, nonzero(mask, size=size))
    return choose_where(less(arange(size), sum(mask)), chosen, fill)


def _joined_distinct(x: Any, y: Any) -> tuple[Any, Any, tuple[Any, Any], tuple[Any, Any]]:
    """Distinct elements of both arrays in front, how many, and of each their indices and number."""
    parts, indices, counts = [], [], []
    for v in (x, y):
        found, place, _, mask, order = _unique(v, 0, size=v.size, fill_value=0)
        parts.append(found)
        indices.append(getitem(order, place))
        counts.append(sum(mask))
    out = zeros(x.size + y.size, dtypes.result_type(x, y))
    out = lax.dynamic_update_slice(out, parts[0], (0,))
    out = lax.dynamic_update_slice(out, parts[1], (counts[0],))
    return out, add(*counts), tuple(indices), tuple(counts)


def _filled_up(values: Any, count: Any, fill_value: Any) -> Any:
    """The first values, and behind them a fill value or the smallest of them."""
    valid = less(arange(values.shape[0]), count)
    if fill_value is not None:
        return choose_where(valid, values, fill_value)
    if not values.shape[0]:
        return values
    values = choose_where(valid, values, max(values))
    return choose_where(valid, values, min(values))


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Return the distinct elements that are in exactly one of two arrays.

    Args:
        ar1: First array, which is flattened.
        ar2: Second array, which is flattened.
        assume_unique: If true, neither array has duplicates, which saves work.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        Sorted one-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 3], dtype=int32)
    """
    given = ensure_arrays("setxor1d", ar1, ar2)
    x, y = (ravel(v) for v in promote_dtypes(*given))
    size = _static_size("setxor1d", size)
    if size is not None:
        return _setxor_sized(x, y, assume_unique, size, fill_value)
    if assume_unique:
        _need_mask(x, y)
    _need_values("setxor1d", x, y)
    known = known_sets.setxor1d(x, y, assume_unique)
    if known is not None:
        return known
    if not assume_unique:
        x, y = unique(x), unique(y)
    joint = concatenate((x, y))
    if not joint.size:
        return joint
    joint = sort(joint)
    new = not_equal(getitem(joint, _LATER), getitem(joint, _EARLIER))
    edge = filled((1,), np.True_)
    flags = concatenate((edge, new, edge))
    return getitem(joint, lax.bitwise_and(getitem(flags, _LATER), getitem(flags, _EARLIER)))


def _setxor_sized(x: Any, y: Any, assume_unique: bool, size: int, fill_value: Any) -> Any:
    if assume_unique:
        joint = concatenate([x, y])
        count: Any = as_array(joint.size)
    else:
        joint, count, _, _ = _joined_distinct(x, y)
    if not joint.size:
        return _filled_up(zeros(size, joint.dtype), as_array(0), fill_value)
    valid = less(arange(joint.size + 1), add(count, 1))
    beyond = lax.bitwise_not(getitem(valid, _LATER))
    _, values = lax.sort((beyond, joint), num_keys=2)
    new = not_equal(getitem(values, _LATER), getitem(values, _EARLIER))
    edge = filled((1,), np.True_)
    flags = concatenate((edge, new, filled((1,), np.False_)))
    flags = lax.bitwise_and(valid, update_index(flags, count, True, lax.scatter))
    single = lax.bitwise_and(getitem(flags, _LATER), getitem(flags, _EARLIER))
    (places,) = nonzero(single, size=size, fill_value=joint.size)
    found = take_index(values, places, mode="fill", fill_value=0)
    return _filled_up(found, sum(single), fill_value)


@overload
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: Literal[False] = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array: ...
@overload
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    return_indices: Literal[True],
    size: int | None = None,
    fill_value: Any = None,
) -> tuple[Array, Array, Array]: ...
@overload
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any: ...
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array | tuple[Array, Array, Array]:
    """Return the distinct elements that are in both arrays.

    Args:
        ar1: First array, which is flattened.
        ar2: Second array, which is flattened.
        assume_unique: If true, neither array has duplicates, which saves work.
        return_indices: If true, also return the first index of each in both flattened arrays.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements; by default the smallest element found.

    Returns:
        Sorted one-dimensional array, or a triple of it and the two index arrays.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.intersect1d(jnp.array([1, 2, 3]), jnp.array([3, 2]))
        Array([2, 3], dtype=int32)
    """
    given = ensure_arrays("intersect1d", ar1, ar2)
    x, y = (ravel(v) for v in promote_dtypes(*given))
    size = _static_size("intersect1d", size)
    if size is not None:
        return _intersect_sized(x, y, assume_unique, return_indices, size, fill_value)
    if assume_unique:
        _need_mask(x, y)
    _need_values("intersect1d", x, y)
    known = known_sets.intersect1d(x, y, assume_unique, return_indices)
    if known is not None:
        return known
    first = second = None
    if not assume_unique:
        x, first = unique(x, return_index=True)
        y, second = unique(y, return_index=True)
    joint = concatenate((x, y))
    values, places = lax.sort_key_val(joint, lax.iota(index_dtype(joint.shape), joint.size))
    twice = equal(getitem(values, _LATER), getitem(values, _EARLIER))
    common = getitem(getitem(values, _EARLIER), twice)
    if not return_indices:
        return common
    in_x = getitem(getitem(places, _EARLIER), twice)
    in_y = subtract(getitem(getitem(places, _LATER), twice), x.size)
    if not assume_unique:
        in_x, in_y = getitem(first, in_x), getitem(second, in_y)
    return common, in_x, in_y


def _intersect_sized(
    x: Any, y: Any, assume_unique: bool, return_indices: bool, size: int, fill_value: Any
) -> Any:
    if assume_unique:
        joint, valid = concatenate([x, y]), filled((x.size + y.size,), np.True_)
        first_count: Any = x.size
        values, places = lax.sort((joint, arange(joint.size)), num_keys=1)
    else:
        joint, count, indices, counts = _joined_distinct(x, y)
        first_count = counts[0]
        valid = less(arange(joint.size), count)
        operands = (lax.bitwise_not(valid), joint, arange(joint.size))
        _, values, places = lax.sort(operands, num_keys=2)
    twice = equal(getitem(values, _LATER), getitem(values, _EARLIER))
    twice = lax.bitwise_and(twice, getitem(valid, _LATER))
    total = sum(twice)
    if joint.size:
        (at,) = nonzero(twice, size=size, fill_value=joint.size)
        found = take_index(values, at, mode="fill", fill_value=0)
    else:
        at, found = arange(0), zeros(size, joint.dtype)
    found = _filled_up(found, total, fill_value)
    if not return_indices:
        return found
    in_x = take_index(places, at, mode="fill", fill_value=x.size)
    in_y = take_index(places, add(at, 1), mode="fill", fill_value=y.size)
    in_y = subtract(in_y, first_count)
    inside = less(arange(in_x.shape[0]), total)
    in_x = choose_where(inside, in_x, x.size)
    in_y = choose_where(inside, in_y, y.size)
    if not assume_unique:
        in_x = take_index(indices[0], in_x, mode="fill", fill_value=x.size)
        in_y = take_index(indices[1], in_y, mode="fill", fill_value=y.size)
    return found, in_x, in_y
