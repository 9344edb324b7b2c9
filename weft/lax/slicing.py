"""Slices, gathers and scatters of ``weft.lax``: argument checks and defaults around the
primitives of ``prims.slice`` and ``prims.index``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.functional import weakref_lru_cache
from weft.core.ad import filled
from weft.core.array import Array, Setting, Whole
from weft.core.avals import ShapedArray
from weft.core.dims.dim import whole
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import Tracer, is_tracing, typeof
from weft.prims import index as prims
from weft.prims.arithmetic import add, rem
from weft.prims.convert import convert
from weft.prims.families import broadcast_in_dim, const, scalar
from weft.prims.index import gather as bind_gather
from weft.prims.index import scatter as bind_scatter
from weft.prims.index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from weft.prims.selection import lt, select_n
from weft.prims.slice import dynamic_slice_p, dynamic_update_slice_p, slice_p

Mode = str | GatherScatterMode | None


# --- slices ---------------------------------------------------------------------------------------


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Return a strided box of an array, at static bounds.

    Args:
        operand: Array of any dtype.
        start_indices: First index along each axis.
        limit_indices: End along each axis, which is not included.
        strides: Step along each axis; 1 by default.

    Returns:
        Array of the box.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.slice(jnp.arange(12).reshape(3, 4), (1, 0), (3, 4), (1, 2))
        Array([[ 4,  6],
               [ 8, 10]], dtype=int32)
    """
    return slice_p.bind(
        operand,
        start_indices=_static_integers("slice", "start_indices", start_indices),
        limit_indices=_static_integers("slice", "limit_indices", limit_indices),
        strides=None if strides is None else _static_integers("slice", "strides", strides),
    )


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Return a slice of an array along one axis, at static bounds.

    Args:
        operand: Array of any dtype.
        start_index: First index; negative ones count from the end, None is the start.
        limit_index: End, which is not included; negative ones count from the end, None is the end.
        stride: Step.
        axis: Axis to slice.

    Returns:
        Array with fewer elements along ``axis``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.slice_in_dim(jnp.arange(6), 1, -1, 2)
        Array([1, 3], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = operator.index(axis)
    size = shape[axis]
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    start = 0 if start_index is None else whole(start_index)
    limit = size if limit_index is None else whole(limit_index)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = whole(stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Return the part of an array at one static position along an axis.

    Args:
        operand: Array of any dtype.
        index: Position; negative ones count from the end.
        axis: Axis to index.
        keepdims: If true, the axis stays with size 1.

    Returns:
        Array without the axis, or with size 1 along it.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.index_in_dim(jnp.arange(12).reshape(3, 4), -1, keepdims=False)
        Array([ 8,  9, 10, 11], dtype=int32)
    """
    shape = typeof(operand).shape
    index, axis = whole(index), operator.index(axis)
    size = shape[axis]
    wrapped = index + size if index < 0 else index
    if not 0 <= wrapped < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    part = slice_in_dim(operand, wrapped, wrapped + 1, 1, axis)
    return part if keepdims else _squeeze(part, axis)


def dynamic_slice(
    operand: Any,
    start_indices: Whole,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Return a box of static size at a start that may be traced.

    Args:
        operand: Array of any dtype.
        start_indices: First index along each axis, integer scalars; where the box would stick out,
            it is moved inside.
        slice_sizes: Size of the box along each axis, static.
        allow_negative_indices: If true (or true for an axis), negative starts count from the end.

    Returns:
        Array of shape ``slice_sizes``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dynamic_slice(jnp.arange(12).reshape(3, 4), (1, 1), (2, 4))
        Array([[ 4,  5,  6,  7],
               [ 8,  9, 10, 11]], dtype=int32)
    """
    starts = _wrapped_starts(operand, start_indices, allow_negative_indices)
    sizes = _static_integers("dynamic_slice", "slice_sizes", slice_sizes)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Whole,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Return a slice of static size along one axis, at a start that may be traced.

    Args:
        operand: Array of any dtype.
        start_index: First index, an integer scalar; where the slice would stick out, it is moved
            inside.
        slice_size: Size of the slice, static.
        axis: Axis to slice.
        allow_negative_indices: If true, negative indices count from the end; false saves that
            computation and treats them as out of bounds.

    Returns:
        Array of size ``slice_size`` along ``axis``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dynamic_slice_in_dim(jnp.arange(5), 2, 3)
        Array([2, 3, 4], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = operator.index(axis)
    sizes = list(shape)
    sizes[axis] = whole(slice_size)
    starts, negative = _starts_along(shape, axis, start_index, allow_negative_indices)
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=negative)


def dynamic_index_in_dim(
    operand: Any,
    index: Whole,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Return the part of an array at one position along an axis, which may be traced.

    Args:
        operand: Array of any dtype.
        index: Position, an integer scalar; it is clipped to the axis.
        axis: Axis to index.
        keepdims: If true, the axis stays with size 1.
        allow_negative_indices: If true, negative indices count from the end; false saves that
            computation and treats them as out of bounds.

    Returns:
        Array without the axis, or with size 1 along it.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dynamic_index_in_dim(jnp.arange(5), 2)
        Array([2], dtype=int32)
    """
    part = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return part if keepdims else _squeeze(part, operator.index(axis))


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Whole,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Return a copy of an array with a box overwritten.

    Args:
        operand: Array to copy.
        update: Array of the box's values, of the same dtype and with as many dimensions.
        start_indices: First index along each axis, integer scalars; where the box would stick out,
            it is moved inside.
        allow_negative_indices: If true (or true for an axis), negative starts count from the end.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dynamic_update_slice(jnp.zeros(6), jnp.ones(3), (5,))
        Array([0., 0., 0., 1., 1., 1.], dtype=float32)
    """
    starts = _wrapped_starts(operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_update_slice_in_dim(
    operand: Any,
    update: Any,
    start_index: Whole,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Return a copy of an array with a slice along one axis overwritten.

    Args:
        operand: Array to copy.
        update: Array of the slice's values, with as many dimensions as ``operand``.
        start_index: First index, an integer scalar; where the slice would stick out, it is moved
            inside.
        axis: Axis of the slice.
        allow_negative_indices: If true, negative indices count from the end; false saves that
            computation and treats them as out of bounds.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dynamic_update_slice_in_dim(jnp.zeros(6), jnp.ones(3), 2, axis=0)
        Array([0., 0., 1., 1., 1., 0.], dtype=float32)
    """
    shape = typeof(operand).shape
    axis = operator.index(axis)
    starts, negative = _starts_along(shape, axis, start_index, allow_negative_indices)
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=negative)


def dynamic_update_index_in_dim(
    operand: Any,
    update: Any,
    index: Whole,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Return a copy of an array with the part at one position along an axis overwritten.

    Args:
        operand: Array to copy.
        update: Array of the part's values, with or without the axis.
        index: Position, an integer scalar; it is clipped to the axis.
        axis: Axis to index.
        allow_negative_indices: If true, negative indices count from the end; false saves that
            computation and treats them as out of bounds.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dynamic_update_index_in_dim(jnp.zeros(4), 1.0, 2, axis=0)
        Array([0., 0., 1., 0.], dtype=float32)
    """
    axis = operator.index(axis)
    shape, whole = typeof(update).shape, typeof(operand).shape
    if len(shape) != len(whole):
        if len(shape) + 1 != len(whole):
            raise TypeError(
                "dynamic_update_index_in_dim needs an update with as many axes as the operand "
                f"or one fewer, got shapes {shape} and {whole}"
            )
        position = axis % len(whole)
        kept = tuple(d for d in range(len(whole)) if d != position)
        full = (*shape[:position], 1, *shape[position:])
        update = broadcast_in_dim(update, full, kept)
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


# --- gather ---------------------------------------------------------------------------------------


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Mode = None,
    fill_value: Setting = None,
) -> Array:
    """Return one window of an array for each index vector; ``x[...]`` is easier to write.

    Args:
        operand: Array to read from.
        start_indices: Array of integers whose last axis holds index vectors: the starts of the
            windows.
        dimension_numbers: A ``GatherDimensionNumbers``: how axes of operand, indices and result
            correspond.
        slice_sizes: Size of the window along each axis of ``operand``.
        unique_indices: Your promise that no two windows overlap, which allows faster code.
        indices_are_sorted: Your promise that index vectors ascend.
        mode: What happens to windows that are not wholly inside: "clip" moves them inside, "fill"
            returns ``fill_value``, "promise_in_bounds" (the default) says there are none. Or a
            ``GatherScatterMode``.
        fill_value: Value with "fill"; by default NaN, the smallest signed or the largest unsigned
            integer, or True.

    Returns:
        Array of windows in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        >>> lax.gather(jnp.array([10, 11, 12]), jnp.array([[0], [2]]), numbers, (1,))
        Array([10, 12], dtype=int32)
    """
    return bind_gather(
        operand,
        start_indices,
        GatherDimensionNumbers(*map(tuple, dimension_numbers)),
        _static_integers("gather", "slice_sizes", slice_sizes),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=GatherScatterMode.asked(mode),
        fill_value=fill_value,
    )


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Return the parts of an array at vectors of positions along some axes.

    Args:
        src: Array to read from.
        idxs: Integer vectors of one length, one for each of ``axes``; positions wrap around.
        axes: Axes that are indexed.

    Returns:
        Array with one row for each position, followed by the other axes.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.index_take(jnp.arange(12).reshape(3, 4), (jnp.array([0, -1]),), (0,))
        Array([[ 0,  1,  2,  3],
               [ 8,  9, 10, 11]], dtype=int32)
    """
    shape = typeof(src).shape
    columns = [_append_axis(i) for i in idxs]
    if not columns:
        raise ValueError("index_take needs a vector of positions for each axis, got none")
    vectors = columns[0]
    if len(columns) > 1:
        if any(np.ndim(column) < 2 for column in columns):
            raise ValueError("index_take needs vectors of positions, got scalars")
        vectors = lookup("concatenate").bind(*columns, dimension=1)
    limits = np.array([[shape[axis] for axis in axes]], typeof(vectors).dtype)
    sizes = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    numbers = GatherDimensionNumbers(
        tuple(range(1, len(shape) - len(axes) + 1)), tuple(axes), tuple(axes)
    )
    return bind_gather(src, _floor_mod(vectors, limits), numbers, sizes)


# --- scatters -------------------------------------------------------------------------------------


def scatter(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Return a copy of an array with one window overwritten for each index vector.

    Args:
        operand: Array to copy.
        scatter_indices: Array of integers whose last axis holds index vectors: the starts of the
            windows.
        updates: Array with the windows' values.
        dimension_numbers: A ``ScatterDimensionNumbers``: how axes of operand, indices and updates
            correspond.
        indices_are_sorted: Your promise that index vectors ascend.
        unique_indices: Your promise that no two windows overlap, which allows faster code.
        mode: What happens to windows that are not wholly inside: "clip" moves them inside, "drop"
            (the default) leaves them out, "promise_in_bounds" says there are none. Or a
            ``GatherScatterMode``.

    Returns:
        Array with the shape and dtype of ``operand``.

    ``x.at[...].set(...)`` is easier to write. Where windows overlap, one of the updates stays.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter(jnp.zeros(3), jnp.array([[1]]), jnp.array([5.0]), numbers)
        Array([0., 5., 0.], dtype=float32)
    """
    return bind_scatter(
        operand,
        scatter_indices,
        updates,
        _scatter_numbers(dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=GatherScatterMode.asked(mode),
    )


def _combining(name: str, primitive: Any, verb: str, result: str) -> Callable[..., Array]:
    """The public function of a scatter that combines old values and updates."""

    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        return prims.combining_scatter(
            primitive,
            operand,
            scatter_indices,
            updates,
            _scatter_numbers(dimension_numbers),
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=GatherScatterMode.asked(mode),
        )

    function.__name__ = function.__qualname__ = f"scatter_{name}"
    function.__doc__ = f"""Return a copy of an array with updates {verb} one window each.

    Args:
        operand: Array to copy.
        scatter_indices: Array of integers whose last axis holds index vectors: the starts of the
            windows.
        updates: Array with the windows' values. Every update counts, also where windows overlap.
        dimension_numbers: A ``ScatterDimensionNumbers``: how axes of operand, indices and updates
            correspond.
        indices_are_sorted: Your promise that index vectors ascend.
        unique_indices: Your promise that no two windows overlap, which allows faster code.
        mode: What happens to windows that are not wholly inside: "clip" moves them inside, "drop"
            (the default) leaves them out, "promise_in_bounds" says there are none. Or a
            ``GatherScatterMode``.

    Returns:
        Array with the shape and dtype of ``operand``. ``x.at[...]`` is easier to write.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> where, what = jnp.array([[1], [1]]), jnp.array([3.0, 4.0])
        >>> lax.scatter_{name}(jnp.array([1.0, 2.0]), where, what, numbers)
        {result}
    """
    return function


scatter_add = _combining("add", prims.scatter_add_p, "added to", "Array([1., 9.], dtype=float32)")
scatter_sub = _combining(
    "sub", prims.scatter_sub_p, "subtracted from", "Array([ 1., -5.], dtype=float32)"
)
scatter_mul = _combining(
    "mul", prims.scatter_mul_p, "multiplied into", "Array([ 1., 24.], dtype=float32)"
)
scatter_min = _combining(
    "min", prims.scatter_min_p, "put where smaller into", "Array([1., 2.], dtype=float32)"
)
scatter_max = _combining(
    "max", prims.scatter_max_p, "put where larger into", "Array([1., 4.], dtype=float32)"
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Return a copy of an array with a function applied to one window for each index vector.

    Args:
        operand: Array to copy.
        scatter_indices: Array of integers whose last axis holds index vectors: the starts of the
            windows.
        func: Function of an array, applied elementwise.
        dimension_numbers: A ``ScatterDimensionNumbers``: how axes of operand, indices and updates
            correspond.
        update_shape: Shape that updates would have, which tells the windows' sizes.
        indices_are_sorted: Your promise that index vectors ascend.
        unique_indices: Your promise that no two windows overlap, which allows faster code.
        mode: What happens to windows that are not wholly inside: "clip" moves them inside, "drop"
            (the default) leaves them out, "promise_in_bounds" says there are none. Or a
            ``GatherScatterMode``.

    Returns:
        Array with the shape and dtype of ``operand``.

    If an element is named several times, ``func`` is applied as often. Not differentiable.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> where = jnp.array([[1], [1]])
        >>> lax.scatter_apply(jnp.arange(3.0), where, lambda x: x + 4, numbers, update_shape=(2,))
        Array([0., 9., 2.], dtype=float32)
    """
    aval = typeof(operand)
    unused = filled(0, ShapedArray(tuple(update_shape), aval.dtype))
    try:
        closed = _applied(func, aval.dtype, aval.weak_type)
    except TypeError:
        closed = _stage_unary(func, aval.dtype, aval.weak_type)
    return bind_scatter(
        operand,
        scatter_indices,
        unused,
        _scatter_numbers(dimension_numbers),
        update_jaxpr=closed.jaxpr,
        update_consts=tuple(closed.consts),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=GatherScatterMode.asked(mode),
    )


# --- arguments ------------------------------------------------------------------------------------


def _static_integers(name: str, argument: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(map(whole, values))
    except TypeError as error:
        if "tracer" in type(error).__name__.lower():
            raise
        raise TypeError(f"{name} needs integers for {argument}, got {values!r}") from None


def _scatter_numbers(numbers: ScatterDimensionNumbers) -> ScatterDimensionNumbers:
    return ScatterDimensionNumbers(*map(tuple, numbers))


def _starts_along(
    shape: tuple[int, ...], axis: int, start: Any, allow_negative: bool
) -> tuple[list[Any], list[bool]]:
    dtype = typeof(start).dtype
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"a start index must be an integer, got {typeof(start).str_short()}")
    starts: list[Any] = [scalar(dtype, 0)] * len(shape)
    starts[axis] = start
    negative = [False] * len(shape)
    negative[axis] = allow_negative
    return starts, negative


def _wrapped_starts(operand: Any, starts: Any, allow_negative: bool | Sequence[bool]) -> list[Any]:
    """Start indices as scalars, with the negative ones counted from the end."""
    shape = typeof(operand).shape
    if not isinstance(starts, Sequence):
        ndim = np.ndim(starts)
        if ndim != 1:
            error = ValueError if ndim else TypeError
            raise error(f"start indices must be a sequence of scalars or a vector, got {ndim} axes")
        starts = [index_in_dim(starts, k, keepdims=False) for k in range(np.shape(starts)[0])]
    if len(starts) != len(shape):
        raise ValueError(
            "there must be one start index for each axis of the operand, got "
            f"{len(starts)} for shape {shape}"
        )
    if isinstance(allow_negative, bool):
        allow_negative = [allow_negative] * len(shape)
    return list(map(_wrap_start, starts, shape, allow_negative))


def _wrap_start(start: Any, size: int, allow_negative: bool) -> Any:
    if isinstance(start, (int, np.integer)):
        if start < 0:
            if not allow_negative:
                raise ValueError(
                    f"index {start} is out of bounds for size {size}: negative indices need "
                    "allow_negative_indices=True"
                )
            start = type(start)(start + size)
        return np.asarray(start, typeof(start).dtype)[()]
    aval = typeof(start)
    if not allow_negative or not dtypes.issubdtype(aval.dtype, np.signedinteger):
        return start
    if not is_tracing() and not aval.shape and not getattr(start, "committed", False):
        value = int(start)
        return np.asarray(value + size if value < 0 else value, aval.dtype)[()]
    return wrap_negative(start, size)


def wrap_negative(index: Any, size: int) -> Any:
    """An array of indices with the negative ones counted from the end of ``size``."""
    dtype = typeof(index).dtype
    negative = lt(index, const(index, 0))
    return select_n(negative, index, add(convert(index, dtype), scalar(dtype, size)))


def _squeeze(x: Any, axis: int) -> Any:
    return lookup("squeeze").bind(x, dimensions=(axis % len(typeof(x).shape),))


def _append_axis(x: Any) -> Any:
    shape = typeof(x).shape
    return broadcast_in_dim(x, (*shape, 1), tuple(range(len(shape))))


def _floor_mod(x: Any, sizes: np.ndarray) -> Any:
    """``x`` modulo positive sizes, into the range from 0."""
    rest = rem(x, sizes)
    return select_n(lt(rest, scalar(sizes.dtype, 0)), rest, add(rest, sizes))


def _stage_unary(func: Callable[[Any], Any], dtype: Any, weak_type: bool) -> Any:
    aval = ShapedArray((), dtype, weak_type)
    closed = stage(lambda x, _: [func(x)], [aval, aval])
    if any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(
            "the function given to scatter_apply must not use traced values from outside; "
            "write x.at[idx].set(f(x[idx])) instead"
        )
    (out,) = closed.out_avals
    if out.dtype != dtype or out.shape:
        raise ValueError(
            f"scatter_apply needs a function from a number of dtype {dtype} to one of the same"
            f" dtype, got one that returns {out}: convert its result with astype, or write"
            " x.at[idx].set(f(x[idx]))"
        )
    return closed


_applied = weakref_lru_cache(_stage_unary)
