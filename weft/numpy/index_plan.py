"""What an index means: NumPy's rules for ``x[...]`` turned into plans for slice, dynamic_slice
and gather. Nothing here reads or writes the indexed array; ``indexing`` does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base import knobs
from weft.base.errors import InconclusiveDimensionOperation, NonConcreteBooleanIndexError
from weft.base.polynomials import Polynomial
from weft.base.record import Record
from weft.core.array import Array
from weft.core.dims.dim import Dim, divided_up, exceeds, max_dim, min_dim, whole
from weft.core.interpret import flushed
from weft.core.trace import Tracer, box, is_tracing, typeof
from weft.lax.slicing import wrap_negative
from weft.prims.convert import convert
from weft.prims.families import const, scalar
from weft.prims.index_dims import GatherDimensionNumbers
from weft.runtime.client import host

NEWAXIS, ELLIPSIS, SLICE, INTEGER, ARRAY, BOOLEAN, WINDOW = range(7)
FULL = slice(None)

Shape = tuple[int, ...]


class Slice:
    """A slice of known size and stride at a start that may be computed; ``weft.ds`` makes it."""

    __slots__ = ("start", "size", "stride")

    def __init__(self, start: Any, size: int, stride: int = 1) -> None:
        self.start = start
        self.size = size
        self.stride = stride

    def __repr__(self) -> str:
        return f"Slice(start={self.start}, size={self.size}, stride={self.stride})"


class Entry(Record):
    """One component of an index: its kind, the component, and the first axis it consumes."""

    kind: int
    index: Any
    axis: int


class StaticPlan(Record):
    """A slice at known bounds, then rev, squeeze and new axes."""

    starts: list[int]
    limits: list[int]
    strides: list[int] | None
    reversed_axes: list[int]
    squeezed_axes: list[int]
    new_axes: list[int]


class DynamicPlan(Record):
    """A slice of known size at computed starts, then rev, squeeze and new axes."""

    starts: list[Any]
    sizes: list[int]
    reversed_axes: list[int]
    squeezed_axes: list[int]
    new_axes: list[int]


class GatherPlan(Record):
    """A gather, then rev and new axes; for updates the same read backwards.

    ``result_shape`` has the new axes, ``distinct`` says that no element is met twice, and
    ``bool_axes`` are axes of size 1 to add to the operand first (for scalar booleans).
    """

    result_shape: Shape
    indices: Any
    numbers: GatherDimensionNumbers
    sizes: Shape
    distinct: bool
    reversed_axes: list[int]
    new_axes: list[int]
    bool_axes: list[int]


# --- static slices --------------------------------------------------------------------------------


def plan_static(index: Any, shape: Shape, wrap: bool = True, clip: bool = False) -> Any:
    """The plan of an index made of integers, slices, None and ``...`` only; else None.

    None also for integers out of bounds (unless they are to be clipped) and for everything
    that is an error: the general parser finds the words for it.
    """
    items = index if type(index) is tuple else (index,)
    consumed = 0
    ellipses = 0
    for item in items:
        kind = type(item)
        if kind is int or kind is slice:
            consumed += 1
        elif item is Ellipsis:
            ellipses += 1
        elif item is not None:
            if not is_integer(item):
                return None
            consumed += 1
    if consumed > len(shape) or ellipses > 1:
        return None
    if not ellipses:
        items = (*items, Ellipsis)
    plan = StaticPlan([], [], [], [], [], [])
    starts, limits, strides, _, squeezed, new_axes = plan
    for item in items:
        axis = len(starts)
        if item is None:
            new_axes.append(axis - len(squeezed) + len(new_axes))
        elif item is Ellipsis:
            rest = shape[axis : axis + len(shape) - consumed]
            starts.extend([0] * len(rest))
            limits.extend(rest)
            strides.extend([1] * len(rest))
        elif type(item) is slice:
            if not _add_slice(plan, item, shape[axis]):
                return None
        else:
            size = shape[axis]
            try:
                position = item + size if wrap and item < 0 else item
                if not 0 <= position < size:
                    if not clip or not size:
                        return None
                    position = min_dim(max_dim(position, 0), size - 1)
            except InconclusiveDimensionOperation:  # clamped when it runs
                return None
            starts.append(whole(position))
            limits.append(whole(position) + 1)
            strides.append(1)
            squeezed.append(axis)
    if strides.count(1) == len(strides):
        return plan._replace(strides=None)
    return plan


def _add_slice(plan: StaticPlan, item: slice, size: int) -> bool:
    bounds = static_bounds(item, size)
    if bounds is None:
        return False
    start, stop, step = bounds
    if step < 0:
        left = start - stop - 1
        if type(left) is Dim or type(step) is Dim:
            first = start - (max_dim(0, divided_up(start - stop, -step)) - 1) * -step
        else:
            first = min_dim(size, stop + 1 + abs(left) % -step)
        plan.reversed_axes.append(len(plan.starts))
        start, stop, step = first, start + 1, -step
    plan.starts.append(start)
    plan.limits.append(max_dim(start, stop))
    plan.strides.append(step)  # type: ignore[union-attr]
    return True


def static_bounds(item: slice, size: int) -> tuple[int, int, int] | None:
    """Start, stop and step of a slice, or None if they are not known or not integers."""
    try:
        return slice_indices(item, size)
    except (TypeError, ValueError):
        return None


def slice_indices(item: slice, size: Any) -> tuple[Any, Any, Any]:
    """Start, stop and step of a slice along an axis, whose size may have no fixed value."""
    given = (item.start, item.stop, item.step, size)
    if not any(isinstance(n, Polynomial) for n in given):
        return item.indices(size)
    step = 1 if item.step is None else whole(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def bound(n: Any, left_out: Any) -> Any:
        if n is None:
            return left_out
        n = whole(n)
        if n < 0:
            return max_dim(low, n + size)
        return min_dim(high, n)

    ends = (low, high) if step > 0 else (high, low)
    return bound(item.start, ends[0]), bound(item.stop, ends[1]), step


# --- parsing --------------------------------------------------------------------------------------


def is_integer(item: Any) -> bool:
    if type(item) is Dim:
        return True
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def parse(index: Any, shape: Shape) -> list[Entry]:
    """The components of an index, checked, each with the axis it starts at."""
    items = index if isinstance(index, tuple) else (index,)
    if items is not index:
        _refuse_list(index)
    kinds = [_kind(item) for item in items]
    counts = [_consumed(kind, item) for kind, item in zip(kinds, items)]
    if kinds.count(ELLIPSIS) > 1:
        raise IndexError("an index can only have one ellipsis ('...')")
    total = sum(counts)
    if total > len(shape):
        raise IndexError(
            f"too many indices: the array has {len(shape)} axes (shape {shape}), "
            f"but {total} were indexed"
        )
    entries, axis = [], 0
    for kind, item, count in zip(kinds, items, counts):
        entries.append(Entry(kind, item, axis))
        axis += len(shape) - total if kind == ELLIPSIS else count
    return entries


def _refuse_list(index: Any) -> None:
    if isinstance(index, Sequence) and not isinstance(index, (str, Array, np.ndarray)):
        nested = any(
            isinstance(i, (Sequence, slice)) or i is None or i is Ellipsis or np.ndim(i)
            for i in index
        )
        instead = "x[tuple(seq)]" if nested else "x[jnp.array(seq)]"
        raise TypeError(
            f"a list cannot be an index, because its meaning is ambiguous: write {instead} "
            "instead of x[seq]"
        )


def _kind(item: Any) -> int:
    if item is None:
        return NEWAXIS
    if item is Ellipsis:
        return ELLIPSIS
    if isinstance(item, slice):
        return SLICE
    if type(item) is Slice:
        return WINDOW
    if is_integer(item):
        return INTEGER
    if isinstance(item, (bool, np.bool_)):
        return BOOLEAN
    if isinstance(item, (Array, np.ndarray)):
        return _array_kind(item.dtype, item)
    if isinstance(item, str):
        raise TypeError(f"an array cannot be indexed by a string, got {item!r}")
    if isinstance(item, Sequence):
        if not len(item):
            return ARRAY
        return _array_kind(dtypes.result_type(*_leaves(item)), item)
    if isinstance(item, (float, complex, np.generic)):
        return _array_kind(np.dtype(type(item)), item)
    raise IndexError(
        "an index consists of integers, slices (:), the ellipsis (...), None, and integer or "
        f"boolean arrays; got {item!r} of type {type(item).__name__}"
    )


def _array_kind(dtype: Any, item: Any) -> int:
    if dtypes.issubdtype(dtype, np.bool_):
        return BOOLEAN
    if dtypes.issubdtype(dtype, np.integer):
        return ARRAY
    what = f"shape {np.shape(item)}" if np.ndim(item) else repr(item)
    raise TypeError(
        f"an index must have an integer or boolean dtype, got {dtype} ({what}); convert it with "
        "astype(int)"
    )


def _leaves(item: Any) -> list[Any]:
    if isinstance(item, (list, tuple)):
        return [leaf for part in item for leaf in _leaves(part)]
    return [item]


def _consumed(kind: int, item: Any) -> int:
    if kind == BOOLEAN:
        return np.ndim(item)
    return int(kind >= SLICE)


def check_static_bounds(entries: list[Entry], shape: Shape, wrap: bool) -> None:
    """Raise IndexError for an integer that is out of bounds."""
    for kind, index, axis in entries:
        if kind == INTEGER:
            position = index + shape[axis] if wrap and index < 0 else index
            if not 0 <= position < shape[axis]:
                raise IndexError(
                    f"index {index} is out of bounds for axis {axis} with size {shape[axis]}"
                )


# --- dynamic slices -------------------------------------------------------------------------------


def plan_dynamic(entries: list[Entry], shape: Shape, wrap: bool) -> DynamicPlan | None:
    """The plan of an index whose parts are scalars (computed ones too) and unit-step slices."""
    for kind, index, axis in entries:
        if kind == BOOLEAN or (kind == ARRAY and _is_vector(index)):
            return None
        if kind in (INTEGER, ARRAY) and not shape[axis]:
            return None
        if kind == SLICE:
            bounds = static_bounds(index, shape[axis])
            if bounds is None or bounds[2] not in (1, -1):
                return None
        if kind == WINDOW and (index.stride != 1 or index.size > shape[axis]):
            return None
    plan = DynamicPlan([], [], [], [], [])
    starts, sizes, reversed_axes, squeezed, new_axes = plan
    for kind, index, axis in expand_ellipsis(entries, shape):
        if kind == NEWAXIS:
            new_axes.append(len(starts) - len(squeezed) + len(new_axes))
            continue
        if kind == SLICE:
            start, stop, step = slice_indices(index, shape[axis])
            if step < 0:
                start, stop = stop + 1, start + 1
                reversed_axes.append(axis)
            starts.append(start)
            sizes.append(max_dim(stop - start, 0))
        elif kind == WINDOW:
            starts.append(index.start)
            sizes.append(index.size)
        else:
            starts.append(index)
            sizes.append(1)
            squeezed.append(axis)
    return plan._replace(starts=_dynamic_starts(starts, shape, wrap))


def _is_vector(index: Any) -> bool:
    return isinstance(index, (list, tuple)) or np.shape(index) != ()


def _dynamic_starts(starts: list[Any], shape: Shape, wrap: bool) -> list[Any]:
    dtype = index_dtype(shape)
    if not is_tracing():
        known = [int(start) for start in starts]
        wrapped = [n + size if wrap and n < 0 else n for n, size in zip(known, shape)]
        limit = int(np.iinfo(dtype).max)
        return [scalar(dtype, min(max(n, -limit), limit)) for n in wrapped]
    if len(starts) > 1:
        # All starts of a dynamic_slice have one dtype.
        starts = [_as_dtype(start, dtype) for start in starts]
    else:
        starts = [_as_dtype(s, dtype) if is_integer(s) else s for s in starts]
    if not wrap:
        return starts
    return [_wrap_start(start, size) for start, size in zip(starts, shape)]


def _wrap_start(start: Any, size: int) -> Any:
    if dtypes.issubdtype(typeof(start).dtype, np.unsignedinteger):
        return start
    return wrap_negative(start, size)


def _as_dtype(x: Any, dtype: Any) -> Any:
    """``x`` converted; numbers stay numbers, so that they are written into the program."""
    if type(x) is Dim:
        return scalar(dtype, x)
    if is_integer(x):
        return np.asarray(int(x)).astype(dtype)[()]
    return convert(x, dtype)


# --- gathers --------------------------------------------------------------------------------------


def plan_rows(index: Any, shape: Shape, wrap: bool) -> GatherPlan | None:
    """The plan of the most common index, one integer array; None if the index is another."""
    if not isinstance(index, (Array, np.ndarray)) or not shape or not index.ndim:
        return None
    if not dtypes.issubdtype(index.dtype, np.integer):
        return None
    entry = Entry(ARRAY, index, 0)
    vectors = (_wrapped(entry, shape) if wrap else entry).index
    ops: Any = _Staged if is_tracing() else _Eager
    vectors = ops.convert(vectors, index_dtype(shape))
    ndim = index.ndim
    vectors = ops.broadcast_in_dim(vectors, (*index.shape, 1), tuple(range(ndim)))
    numbers = GatherDimensionNumbers(tuple(range(ndim, ndim + len(shape) - 1)), (0,), (0,))
    result_shape = index.shape + shape[1:]
    return GatherPlan(result_shape, vectors, numbers, (1, *shape[1:]), False, [], [], [])


def plan_gather(entries: list[Entry], shape: Shape, wrap: bool = True) -> GatherPlan:
    """The plan of any index."""
    _require_static_slices(entries)
    entries = [_with_array(entry) for entry in _expand_masks(entries, shape)]
    advanced = [n for n, e in enumerate(entries) if e.kind in (ARRAY, INTEGER)]
    contiguous = all(b - a == 1 for a, b in itertools.pairwise(advanced))
    entries = expand_ellipsis(entries, shape)
    entries, shape, bool_axes = _expand_scalar_bools(entries, shape)
    if wrap:
        entries = [_wrapped(entry, shape) for entry in entries]
    build = _GatherBuilder(shape)
    together = []
    if any(e.kind == ARRAY and np.ndim(e.index) for e in entries):
        together = [n for n, e in enumerate(entries) if e.kind in (ARRAY, INTEGER)]
    first = None if not together else together[0] if contiguous else 0
    for n, entry in enumerate(entries):
        if n == first:
            build.add_arrays([entries[k] for k in together])
        if n not in together:
            build.add(entry)
    return build.finish(distinct=not together, bool_axes=bool_axes)


class _GatherBuilder:
    """Collects a gather's dimension numbers and index vectors, one component at a time."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.dtype = index_dtype(shape)
        self.ops: Any = _Staged if is_tracing() else _Eager
        self.sizes = [1] * len(shape)
        self.offset_dims: list[int] = []
        self.collapsed: list[int] = []
        self.index_map: list[int] = []
        self.parts: list[tuple[Any, int]] = []  # index components, and where their axes start
        self.batch_shape: list[int] = []
        self.result_shape: list[int] = []
        self.result_axis = 0  # without the new axes
        self.reversed_axes: list[int] = []
        self.new_axes: list[int] = []

    def add_arrays(self, entries: list[Entry]) -> None:
        """All integer arrays of an index, which are broadcast together."""
        ops, dtype = self.ops, self.dtype
        shape = lax.broadcast_shapes(*(np.shape(e.index) for e in entries))
        arrays = [ops.broadcast_to(e.index, shape) for e in entries]
        start = len(self.batch_shape)
        self.parts.extend((ops.convert(x, dtype), start) for x in arrays)
        self.batch_shape.extend(shape)
        self.index_map.extend(e.axis for e in entries)
        self.collapsed.extend(e.axis for e in entries)
        self.result_shape.extend(shape)
        self.result_axis += len(shape)

    def add(self, entry: Entry) -> None:
        """A scalar, a slice or a new axis."""
        kind, index, axis = entry
        if kind == NEWAXIS:
            self.new_axes.append(len(self.result_shape))
            self.result_shape.append(1)
        elif kind == SLICE:
            self._add_slice(index, axis)
        elif kind == WINDOW:
            self._add_window(index, axis)
        else:
            if not self.shape[axis]:
                raise IndexError(f"index is out of bounds for axis {axis} with size 0")
            self._add_part(self.ops.convert(index, self.dtype), axis)
            self.collapsed.append(axis)

    def _add_part(self, part: Any, axis: int) -> None:
        self.parts.append((part, len(self.batch_shape)))
        self.index_map.append(axis)

    def _add_slice(self, item: slice, axis: int) -> None:
        start, stop, step = slice_indices(item, self.shape[axis])
        reach, by = (stop - start, step) if step > 0 else (start - stop, -step)
        size = max_dim(divided_up(reach, by), 0)
        if step == 1:
            if size != self.shape[axis]:
                self._add_part(scalar(self.dtype, start), axis)
            self.sizes[axis] = size
            self.offset_dims.append(self.result_axis)
        else:
            positions = self.ops.positions(start, step, size, self.dtype)
            if step < 0:
                self.reversed_axes.append(self.result_axis)
            self._add_part(positions, axis)
            self.batch_shape.append(size)
            self.collapsed.append(axis)
        self.result_shape.append(size)
        self.result_axis += 1

    def _add_window(self, item: Slice, axis: int) -> None:
        start = self.ops.wrap(self.ops.convert(item.start, self.dtype), self.shape[axis])
        start = self.ops.convert(start, self.dtype)
        if item.stride == 1 and item.size <= self.shape[axis]:
            self._add_part(start, axis)
            self.sizes[axis] = item.size
            self.offset_dims.append(self.result_axis)
        else:
            steps = self.ops.positions(0, item.stride, item.size, self.dtype)
            self._add_part(self.ops.add(start, steps), axis)
            self.batch_shape.append(item.size)
            self.collapsed.append(axis)
        self.result_shape.append(item.size)
        self.result_axis += 1

    def finish(self, distinct: bool, bool_axes: list[int]) -> GatherPlan:
        numbers = GatherDimensionNumbers(
            tuple(self.offset_dims), tuple(sorted(self.collapsed)), tuple(self.index_map)
        )
        return GatherPlan(
            tuple(self.result_shape),
            self._index_vectors(),
            numbers,
            tuple(self.sizes),
            distinct,
            self.reversed_axes,
            self.new_axes,
            bool_axes,
        )

    def _index_vectors(self) -> Any:
        if not self.parts:
            return np.zeros(0, self.dtype)
        shape = (*self.batch_shape, 1)
        columns = [
            self.ops.broadcast_in_dim(x, shape, tuple(range(at, at + np.ndim(x))))
            for x, at in self.parts
        ]
        return columns[0] if len(columns) == 1 else self.ops.concatenate(columns)


class _Staged:
    """Arithmetic on indices as part of the program being traced."""

    convert = staticmethod(_as_dtype)

    @staticmethod
    def wrap(x: Any, size: int) -> Any:
        negative = x < 0 if isinstance(x, np.ndarray) else lax.lt(x, const(x, 0))
        return lax.select(negative, lax.add(x, const(x, size)), x)

    @staticmethod
    def add(start: Any, steps: Any) -> Any:
        return lax.add(lax.broadcast_in_dim(start, np.shape(steps), ()), steps)

    @staticmethod
    def broadcast_in_dim(x: Any, shape: Shape, dims: Shape) -> Any:
        return lax.broadcast_in_dim(x, shape, dims)

    @staticmethod
    def broadcast_to(x: Any, shape: Shape) -> Any:
        if np.shape(x) == shape:
            return x
        return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - np.ndim(x), len(shape))))

    @staticmethod
    def concatenate(parts: list[Any]) -> Any:
        return lax.concatenate(parts, np.ndim(parts[0]) - 1)

    @staticmethod
    def positions(start: int, step: int, size: int, dtype: Any) -> Any:
        steps = lax.mul(scalar(dtype, step), lax.iota(dtype, size))
        positions = lax.add(scalar(dtype, start), steps)
        return lax.rev(positions, (0,)) if step < 0 else positions


class _Eager:
    """Arithmetic on indices whose values are known, in NumPy."""

    @staticmethod
    def convert(x: Any, dtype: Any) -> Any:
        return np.asarray(x).astype(dtype, copy=False)

    @staticmethod
    def wrap(x: Any, size: int) -> Any:
        x = np.asarray(x)
        return np.where(x < 0, x.astype(np.int64) + size, x)

    @staticmethod
    def add(start: Any, steps: Any) -> Any:
        return start + steps

    @staticmethod
    def broadcast_in_dim(x: Any, shape: Shape, dims: Shape) -> Any:
        expanded = [n if axis in dims else 1 for axis, n in enumerate(shape)]
        return np.broadcast_to(np.reshape(x, expanded), shape)

    @staticmethod
    def broadcast_to(x: Any, shape: Shape) -> Any:
        return np.broadcast_to(np.asarray(x), shape)

    @staticmethod
    def concatenate(parts: list[Any]) -> Any:
        return np.concatenate(parts, -1)

    @staticmethod
    def positions(start: int, step: int, size: int, dtype: Any) -> Any:
        positions = np.arange(start, start + step * size, step).astype(dtype)
        return positions[::-1] if step < 0 else positions


def expand_ellipsis(entries: list[Entry], shape: Shape) -> list[Entry]:
    """The entries with ``...`` and axes not mentioned written as full slices."""
    expanded: list[Entry] = []
    ends = [entry.axis for entry in entries[1:]] + [len(shape)]
    for entry, end in zip(entries, ends):
        if entry.kind == ELLIPSIS:
            expanded.extend(Entry(SLICE, FULL, axis) for axis in range(entry.axis, end))
        else:
            expanded.append(entry)
    used = 0
    if entries:
        last = entries[-1]
        used = len(shape) if last.kind == ELLIPSIS else last.axis + _consumed(last.kind, last.index)
    expanded.extend(Entry(SLICE, FULL, axis) for axis in range(used, len(shape)))
    return expanded


def _require_static_slices(entries: list[Entry]) -> None:
    for position, (kind, index, _) in enumerate(entries):
        if kind != SLICE:
            continue
        for bound in (index.start, index.stop, index.step):
            if isinstance(bound, Tracer) and bound._concrete() is None:
                raise IndexError(
                    f"the bounds of a slice must be known while tracing, got {index} at position "
                    f"{position}: write lax.dynamic_slice(x, starts, sizes) for a slice of known "
                    f"size, or mark the bound's argument as static in jit{bound._origin_msg()}"
                )
            if bound is not None:
                whole(bound)


def _expand_masks(entries: list[Entry], shape: Shape) -> list[Entry]:
    """The entries with boolean arrays replaced by the positions where they hold."""
    expanded = []
    for position, entry in enumerate(entries):
        mask, axis = entry.index, entry.axis
        if entry.kind != BOOLEAN:
            expanded.append(entry)
            continue
        if isinstance(mask, Tracer):
            known = mask._concrete()
            if known is None:
                raise NonConcreteBooleanIndexError(mask)
            mask = known
        mask = np.asarray(mask)
        if not mask.ndim:
            expanded.append(Entry(BOOLEAN, bool(mask), axis))
            continue
        expected = shape[axis : axis + mask.ndim]
        if any(n not in (0, m) for n, m in zip(mask.shape, expected)):
            raise IndexError(
                f"the boolean index at position {position} has shape {mask.shape}, but the "
                f"axes it selects from have shape {expected}"
            )
        places = positions(mask, np.dtype(np.int64))
        expanded.extend(Entry(ARRAY, x, axis + k) for k, x in enumerate(places))
    return expanded


def positions(value: np.ndarray, dtype: np.dtype) -> list[np.ndarray]:
    """For each axis, where the elements are that are not zero."""
    kind, found = value.dtype.kind, None
    flushes = knobs.flushes()
    if kind in "biuf" and value.dtype.isbuiltin == 1 and value.size <= np.iinfo(dtype).max:
        normal = flushes and value.itemsize > 2
        test = "set" if kind != "f" else "normal" if normal else "real"
        found = host().select(test, value.ravel(), [dtype])
    if found is None:
        value = flushed(value) if flushes else value
        return [x.astype(dtype, copy=False) for x in np.nonzero(value)]
    for size in value.shape[:0:-1]:
        last = found.pop(0)
        rest = last // dtype.type(size)
        found[:0] = [rest, last - rest * dtype.type(size)]
    return found


def chosen(mask: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The elements of a vector where another one holds."""
    found = None
    if value.itemsize in (1, 2, 4, 8) and value.dtype.kind in "biufcV":
        found = host().select("set", mask, [value])
    return value[mask] if found is None else found[0]


def _expand_scalar_bools(
    entries: list[Entry], shape: Shape
) -> tuple[list[Entry], Shape, list[int]]:
    """True and False as indices into a new axis of size 1: keep it, or keep nothing of it."""
    expanded, new_shape = [], list(shape)
    bool_axes: list[int] = []
    for kind, index, axis in entries:
        axis += len(bool_axes)
        if kind == BOOLEAN:
            new_shape.insert(axis, 1)
            bool_axes.append(axis)
            kind, index = ARRAY, np.arange(int(index))
        expanded.append(Entry(kind, index, axis))
    return expanded, tuple(new_shape), bool_axes


def _with_array(entry: Entry) -> Entry:
    """The entry with a nested sequence made an array."""
    if entry.kind == ARRAY and not isinstance(entry.index, (Array, np.ndarray)):
        return entry._replace(index=_array_of(entry.index))
    return entry


def _array_of(item: Any) -> Any:
    leaves = _leaves(item)
    if any(isinstance(leaf, Array) for leaf in leaves):
        dtype = dtypes.result_type(*leaves)
        parts = [
            lax.expand_dims(
                _as_dtype(_array_of(x) if isinstance(x, (list, tuple)) else x, dtype), (0,)
            )
            for x in item
        ]
        return lax.concatenate(parts, 0)
    values = np.asarray(item, dtypes.default_int_dtype())
    return box(values, typeof(values))


def _wrapped(entry: Entry, shape: Shape) -> Entry:
    """The entry with negative positions counted from the end."""
    kind, index, axis = entry
    size = shape[axis] if axis < len(shape) else 0
    if kind == INTEGER:
        if index >= 0:
            return entry
        value = whole(index) + size
        if isinstance(index, np.integer):
            return entry._replace(index=scalar(typeof(index).dtype, value))
        return entry._replace(index=value)
    if kind != ARRAY or dtypes.issubdtype(index.dtype, np.unsignedinteger):
        return entry
    if not is_tracing():
        return entry._replace(index=_Eager.wrap(index, size))
    if exceeds(size, _largest(typeof(index).dtype)):
        index = convert(index, index_dtype(shape))
    return entry._replace(index=_Staged.wrap(index, size))


@lru_cache(maxsize=64)
def _largest(dtype: Any) -> int:
    return int(dtypes.iinfo(dtype).max)


_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def index_dtype(shape: Shape) -> Any:
    """The signed dtype that holds every position of an array of this shape."""
    return _INT64 if any(exceeds(n, 2**31 - 1) for n in shape) else _INT32
