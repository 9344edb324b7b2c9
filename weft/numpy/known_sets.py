"""Sets of elements whose values are known: the size of a result may depend on them, so it is found
at once, by NumPy or, of many elements, natively. What these order or compare in another way is left
to `sets.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.trace import Tracer, is_tracing, typeof
from weft.numpy.index_plan import chosen, index_dtype
from weft.numpy.indexing import update_index
from weft.numpy.promotion import beside, constant
from weft.runtime.client import host

# Integers between the least and the largest, for each element, up to which a table has all of them.
_PER_ELEMENT = 2


def _value(x: Any) -> np.ndarray | None:
    """The elements of an array in a row, if they are known and NumPy's own numbers."""
    if isinstance(x, Tracer) or not isinstance(x, Array):
        return None
    value = np.asarray(x)
    return value.ravel() if value.dtype.kind in "biuf" and value.dtype.isbuiltin == 1 else None


def _boxed(value: np.ndarray, like: Any = None) -> Any:
    """The elements as an array, weakly typed if ``like`` is."""
    weak = like is not None and dtypes.is_weakly_typed(like)
    return constant(value, typeof(value).update(weak_type=weak))


def _numbers(value: np.ndarray) -> Any:
    return _boxed(value.astype(dtypes.default_int_dtype(), copy=False))


# --- distinct elements ----------------------------------------------------------------------------


def unique(x: Any, index: bool, inverse: bool, counts: bool, equal_nan: bool) -> list[Any] | None:
    """The distinct elements and what else is asked for, or None if that is not known."""
    value = _value(x)
    if value is None:
        return None
    first, *rest = _unique(value, index, inverse, counts, equal_nan)
    if inverse:
        rest[index] = rest[index].reshape(x.shape)
    return [beside(made, x) for made in [_boxed(first, x), *map(_numbers, rest)]]


def _unique(
    value: np.ndarray, index: bool, inverse: bool, counts: bool, equal_nan: bool
) -> list[np.ndarray]:
    real = value.dtype.kind == "f"
    if host().selects(value.size) and not is_tracing() and not (real and value.itemsize < 4):
        test = ("new number" if equal_nan else "new real") if real else "new"
        if not (index or inverse):
            return _runs(test, np.asarray(lax.sort(value)), counts)
        return _told_apart(test, value, index, inverse, counts)
    found = np.unique(value, index, inverse, counts, equal_nan=equal_nan)
    first, *rest = found if isinstance(found, tuple) else (found,)
    if real and not (index or inverse):
        # of the zeros of both signs, the one that comes first stands for both
        place = np.searchsorted(first, 0)
        if place < len(first) and first[place] == 0:
            first[place] = value[np.argmax(value == 0)]
    return [first, *rest]


def _new(test: str, ordered: np.ndarray, wanted: list[Any]) -> list[np.ndarray]:
    """What is wanted of the elements of many that are not the same as the one before."""
    found = host().select(test, ordered, wanted)
    assert found is not None  # as there are many
    return found


def _runs(test: str, ordered: np.ndarray, counts: bool) -> list[np.ndarray]:
    """The distinct ones of elements in order, and how many there are of each if that is wanted."""
    if not counts:
        return _new(test, ordered, [ordered])
    first, places = _new(test, ordered, [ordered, dtypes.default_int_dtype()])
    return [first, np.diff(places, append=places.dtype.type(ordered.size))]


def _told_apart(
    test: str, value: np.ndarray, index: bool, inverse: bool, counts: bool
) -> list[np.ndarray]:
    """Distinct elements, and as asked for where they come first, which one each element is, and
    how many there are of each.
    """
    if test == "new":
        least, most = value.min(), value.max()
        if int(most) - int(least) < _PER_ELEMENT * value.size:
            return _by_table(value, least, index, inverse, counts)
    number = dtypes.default_int_dtype()
    sources = lax.iota(number, value.size)
    ordered, order = map(np.asarray, lax.sort((value, sources)))
    first, places = _new(test, ordered, [ordered, number])
    lengths = np.diff(places, append=number.type(value.size))
    rest = [order[places]] if index else []
    if inverse:
        numbers = np.repeat(np.arange(len(first), dtype=number), lengths)
        options: dict[str, Any] = {"unique_indices": True, "wrap_negative_indices": False}
        rest.append(np.asarray(update_index(sources, order, numbers, lax.scatter, **options)))
    return [first, *rest, *([lengths] if counts else [])]


def _by_table(
    value: np.ndarray, least: Any, index: bool, inverse: bool, counts: bool
) -> list[np.ndarray]:
    """The same of integers that a table holds."""
    number = dtypes.default_int_dtype()
    offsets = np.subtract(value, least, dtype=np.int64, casting="unsafe")
    tally = np.bincount(offsets)
    places = np.flatnonzero(tally)
    found = [places.astype(value.dtype) + least]
    table = np.empty(len(tally), number)
    if index:
        # of those that go to one place, the last one stays: the first of all
        table[offsets[::-1]] = np.arange(value.size - 1, -1, -1, dtype=number)
        found.append(table[places])
    if inverse:
        table[places] = np.arange(len(places), dtype=number)
        found.append(table.take(offsets))
    if counts:
        found.append(tally[places])
    return found


# --- two sets -------------------------------------------------------------------------------------


def _pair(x: Any, y: Any, assume_unique: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """The distinct elements of two arrays of one dtype, if NaN is not among them."""
    found = []
    for value in (_value(x), _value(y)):
        if value is None:
            return None
        if not assume_unique:
            value = _unique(value, False, False, False, True)[0]
        # in order, it would be the last one
        last = value if assume_unique else value[-1:]
        if value.dtype.kind == "f" and np.isnan(last).any():
            return None
        found.append(value)
    return found[0], found[1]


def setdiff1d(x: Any, y: Any, assume_unique: bool) -> Any:
    if x.dtype != y.dtype:
        return None
    pair = _pair(x, y, assume_unique)
    if pair is None:
        return None
    return beside(_boxed(np.setdiff1d(*pair, assume_unique=True), x), x, y)


def setxor1d(x: Any, y: Any, assume_unique: bool) -> Any:
    pair = _pair(x, y, assume_unique)
    if pair is None:
        return None
    joint = np.sort(np.concatenate(pair))
    new = np.ones(joint.size + 1, np.bool_)
    np.not_equal(joint[1:], joint[:-1], out=new[1:-1])
    return beside(_boxed(chosen(new[1:] & new[:-1], joint), x), x, y)


def intersect1d(x: Any, y: Any, assume_unique: bool, return_indices: bool) -> Any:
    if return_indices:
        return _shared_places(x, y, assume_unique)
    pair = _pair(x, y, assume_unique)
    if pair is None:
        return None
    joint = np.sort(np.concatenate(pair))
    return beside(_boxed(chosen(joint[1:] == joint[:-1], joint[:-1]), x), x, y)


def _shared_places(x: Any, y: Any, assume_unique: bool) -> Any:
    """The elements of both arrays, and where in each of them they are."""
    parts, places = [], []
    for value in (_value(x), _value(y)):
        if value is None:
            return None
        if not assume_unique:
            value, place = _unique(value, True, False, False, True)
            places.append(place)
        if value.dtype.kind == "f" and np.isnan(value).any():
            return None
        parts.append(value)
    common, *found = np.intersect1d(*parts, assume_unique=True, return_indices=True)
    if assume_unique:
        dtype = index_dtype((parts[0].size + parts[1].size,))
        rest = [_boxed(at.astype(dtype, copy=False)) for at in found]
    else:
        rest = [_numbers(place[at]) for place, at in zip(places, found, strict=True)]
    return tuple(beside(made, x, y) for made in [_boxed(common, x), *rest])
