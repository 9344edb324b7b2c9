"""Indices into references: what they are made of, and reading and writing arrays by them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base import knobs
from weft.base.errors import NonConcreteBooleanIndexError
from weft.core.array import Array
from weft.core.dims.dim import Dim, divided_up, max_dim, whole
from weft.core.trace import Tracer, typeof
from weft.numpy.index_plan import (
    DynamicPlan,
    Slice,
    StaticPlan,
    index_dtype,
    parse,
    plan_dynamic,
    plan_static,
    slice_indices,
)
from weft.numpy.indexing import take_index, update_index
from weft.prims.families import converted
from weft.prims.slice import dynamic_update_slice_p
from weft.tree.registry import register_pytree_node

Shape = tuple[int, ...]


class NDIndexer:
    """An index with an entry for every axis: integers, integer arrays, and ``Slice``.

    Entries are leaves of it as a tree, sizes and strides of slices belong to its structure.
    """

    __slots__ = ("indices", "shape", "result_shape")

    def __init__(self, indices: tuple[Any, ...], shape: Shape, result_shape: Shape) -> None:
        self.indices = indices
        self.shape = shape
        self.result_shape = result_shape

    @staticmethod
    def of(index: Any, shape: Shape) -> NDIndexer:
        """The index of an array of this shape that NumPy's notation says."""
        items = _expand(index if type(index) is tuple else (index,), shape)
        entries = tuple(_entry(item, n, k) for k, (item, n) in enumerate(zip(items, shape)))
        return NDIndexer(entries, shape, _result_shape(entries))

    @property
    def is_whole(self) -> bool:
        """Whether it is everything."""
        return self.result_shape == self.shape and all(
            type(e) is Slice and _is_size(e.start) and e.stride == 1 for e in self.indices
        )

    @property
    def is_known(self) -> bool:
        """Whether it is made of integers and slices that are known, and inside."""
        return all(
            _is_size(e.start) if type(e) is Slice else type(e) is int and type(n) is int and -n <= e
            for e, n in zip(self.indices, self.shape, strict=True)
        )

    @property
    def has_arrays(self) -> bool:
        return any(type(e) is not Slice and np.ndim(e) for e in self.indices)

    def with_axis(self, axis: int, size: int) -> tuple[NDIndexer, int]:
        """The same at every position of a new axis, and where that is in the result."""
        indices = (*self.indices[:axis], Slice(0, size), *self.indices[axis:])
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        kept = sum(type(e) is Slice for e in self.indices[:axis])
        result = (*self.result_shape[:kept], size, *self.result_shape[kept:])
        return NDIndexer(indices, shape, result), kept

    def numpy(self) -> tuple[Any, ...]:
        """The index in NumPy's notation."""
        return tuple(map(_python_slice, self.indices))

    def __repr__(self) -> str:
        return f"NDIndexer({', '.join(map(str, self.indices))})"


class Reshaped:
    """A step of a view that gives its elements another shape, in the same order."""

    __slots__ = ("shape", "result_shape")
    has_arrays = False

    def __init__(self, shape: Shape, result_shape: Shape) -> None:
        self.shape = shape
        self.result_shape = result_shape

    @staticmethod
    def of(sizes: Any, shape: Shape) -> Reshaped:
        """The step from a shape to another, in which one size may be -1."""
        wanted = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        sizes = [whole(n) for n in wanted]
        count = prod(shape)
        if sizes.count(-1) == 1:
            others = prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = count // others if others else 0
        if -1 in sizes or prod(sizes) != count:
            raise ValueError(
                f"a reference of shape {shape}, of {count} elements, cannot be viewed with shape"
                f" {tuple(wanted)}"
            )
        return Reshaped(shape, tuple(sizes))

    def __repr__(self) -> str:
        return f"Reshaped({self.shape} as {self.result_shape})"


Step = NDIndexer | Reshaped


def _slice_children(item: Slice) -> tuple[Any, Any]:
    if _is_size(item.start):
        return (), (item.start, item.size, item.stride)
    return (item.start,), (None, item.size, item.stride)


def _slice_of(data: Any, children: Any) -> Slice:
    start, size, stride = data
    return Slice(children[0] if start is None else start, size, stride)


register_pytree_node(Slice, _slice_children, _slice_of)
register_pytree_node(
    NDIndexer,
    lambda indexer: ((indexer.indices,), (indexer.shape, indexer.result_shape)),
    lambda data, children: NDIndexer(children[0], *data),
)


register_pytree_node(
    Reshaped, lambda step: ((), (step.shape, step.result_shape)), lambda data, _: Reshaped(*data)
)


def _expand(items: tuple[Any, ...], shape: Shape) -> list[Any]:
    """The components, one for each axis: ``...`` and masks written out."""
    expanded: list[Any] = []
    for item in items:
        expanded.extend(_positions(item) if _is_mask(item) else [item])
    if any(item is None for item in expanded):
        raise TypeError(
            "an index into a reference cannot contain None; reshape the value after reading it"
        )
    dots = [k for k, item in enumerate(expanded) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have one ellipsis ('...')")
    missing = len(shape) - len(expanded) + len(dots)
    if missing < 0:
        raise ValueError(
            f"an index of {len(expanded) - len(dots)} parts is longer than the shape {shape} of"
            " the reference"
        )
    at = dots[0] if dots else len(expanded)
    return expanded[:at] + [slice(None)] * missing + expanded[at + len(dots) :]


def _is_mask(item: Any) -> bool:
    return isinstance(item, (Array, np.ndarray)) and item.ndim > 0 and item.dtype == np.bool_


def _positions(mask: Any) -> list[Any]:
    known = mask._concrete() if isinstance(mask, Tracer) else mask
    if known is None:
        raise NonConcreteBooleanIndexError(mask)
    return list(np.nonzero(np.asarray(known)))


def _entry(item: Any, size: int, axis: int) -> Any:
    if isinstance(item, slice):
        return _static_slice(item, size)
    if type(item) is Slice:
        known = type(item.start) is int and type(item.size) is int and type(size) is int
        last = item.start + (item.size - 1) * item.stride if known else 0
        if known and last >= size and item.size:
            raise ValueError(
                f"the slice at axis {axis} is out of bounds: start={item.start}, size={item.size},"
                f" stride={item.stride}, in an axis of size {size}"
            )
        return item
    if isinstance(item, (bool, np.bool_)) or not _is_integral(item):
        raise TypeError(
            "an index into a reference consists of integers, slices, weft.ds and integer arrays;"
            f" got {item!r} of type {type(item).__name__}"
        )
    if type(item) is Dim or type(size) is Dim:
        return item
    if isinstance(item, (int, np.integer)):
        if item >= size:
            raise ValueError(f"index {item} is out of bounds for axis {axis} with size {size}")
        return int(item)
    return item


def _is_integral(item: Any) -> bool:
    if isinstance(item, (int, np.integer)) or type(item) is Dim:
        return True
    return isinstance(item, (Array, np.ndarray)) and dtypes.issubdtype(item.dtype, np.integer)


def _is_size(n: Any) -> bool:
    return type(n) is int or type(n) is Dim


def _static_slice(item: slice, size: int) -> Slice:
    for bound in (item.start, item.stop, item.step):
        if isinstance(bound, Tracer):
            raise TypeError(
                f"the bounds of a slice must be known while tracing, got {item}; write"
                " weft.ds(start, size) for a slice of known size"
            )
    start, stop, step = slice_indices(item, size)
    if step < 1:
        raise ValueError(f"a slice of a reference must have a step of 1 or more, got {step}")
    return Slice(start, max_dim(0, divided_up(stop - start, step)), step)


def _result_shape(entries: tuple[Any, ...]) -> Shape:
    """NumPy's: arrays are broadcast together, in place if side by side, else in front."""
    fancy = [k for k, e in enumerate(entries) if type(e) is not Slice]
    arrays = np.broadcast_shapes(*(np.shape(entries[k]) for k in fancy))
    sizes = [(k, e.size) for k, e in enumerate(entries) if type(e) is Slice]
    if not arrays:
        return tuple(n for _, n in sizes)
    together = fancy == list(range(fancy[0], fancy[-1] + 1))
    first = fancy[0] if together else 0
    before = tuple(n for k, n in sizes if k < first)
    return (*before, *arrays, *(n for k, n in sizes if k >= first))


def _python_slice(entry: Any) -> Any:
    if type(entry) is Slice and _is_size(entry.start):
        return slice(entry.start, entry.start + entry.size * entry.stride, entry.stride)
    return entry


# --- reading and writing --------------------------------------------------------------------------


def read(x: Any, transforms: tuple[Step, ...]) -> Any:
    """The part of an array; where an index is out of bounds, at the nearest that is not."""
    for indexer in transforms:
        if type(indexer) is Reshaped:
            x = lax.reshape(x, indexer.result_shape)
            continue
        assert type(indexer) is NDIndexer
        index = indexer.numpy()
        known = indexer.is_known and isinstance(x, Array)
        mode = "promise_in_bounds" if knobs.thread.check_index else "clip"
        x = x[index] if known else take_index(x, index, mode=mode)
    return x


def write(x: Any, transforms: tuple[Step, ...], value: Any) -> Any:
    """The array with another part; arrays of indices leave out what is out of bounds."""
    if not transforms:
        return value
    first, *rest = transforms
    if type(first) is Reshaped:
        return _within(first, x, lambda seen: write(seen, tuple(rest), value))
    assert type(first) is NDIndexer
    if rest:
        value = write(read(x, (first,)), tuple(rest), value)
    index = first.numpy()
    plan = _plan_write(first, index)
    if plan is None:
        return update_index(x, index, value, lax.scatter)
    if 0 in first.result_shape:
        return x
    if plan.squeezed_axes:
        value = lax.expand_dims(value, plan.squeezed_axes)
    return dynamic_update_slice_p.bind(x, value, *plan.starts)


def _within(step: Reshaped, x: Any, change: Callable[[Any], Any]) -> Any:
    """An array of which something is changed as it is seen in another shape."""
    return lax.reshape(change(lax.reshape(x, step.result_shape)), step.shape)


def _plan_write(indexer: NDIndexer, index: tuple[Any, ...]) -> StaticPlan | DynamicPlan | None:
    """Where to put a block; None where the index is not of one."""
    if indexer.has_arrays:
        return None
    shape = indexer.shape
    static = plan_static(index, shape, True, True)
    if static is None:
        return plan_dynamic(parse(index, shape), shape, True)
    if static.strides is not None:
        return None
    dtype = index_dtype(shape)
    return static._replace(starts=[dtype.type(start) for start in static.starts])


def accumulate(x: Any, transforms: tuple[Step, ...], value: Any) -> Any:
    """The array with something added to a part of it."""
    if transforms and type(transforms[0]) is Reshaped:
        return _within(transforms[0], x, lambda seen: accumulate(seen, transforms[1:], value))
    if any(indexer.has_arrays for indexer in transforms):
        first, *rest = transforms
        if not rest:
            assert type(first) is NDIndexer
            return update_index(x, first.numpy(), value, lax.scatter_add)
        inner = accumulate(read(x, (first,)), tuple(rest), value)
        return write(x, (first,), inner)
    return write(x, transforms, lax.add(read(x, transforms), value))


def like(x: Any, aval: Any) -> Any:
    """``x`` as a value of the type: numbers in the place of weak ones."""
    if isinstance(x, (bool, int, float, complex)) and not aval.weak_type:
        return np.asarray(x, aval.dtype)[()]
    if typeof(x).dtype != aval.dtype or typeof(x).weak_type != aval.weak_type:
        return converted(x, aval.dtype, aval.weak_type)
    return x
