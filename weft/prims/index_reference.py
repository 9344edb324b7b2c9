"""NumPy reference of slicing, gather and scatter: what these primitives mean, element for
element. Windows are turned into flat positions of the operand; no loop runs over elements."""

from collections.abc import Callable, Sequence

import numpy as np

from weft.prims.index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Shape,
    gather_numbers,
    window_sizes,
)

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def slice_reference(
    operand: np.ndarray, starts: Shape, limits: Shape, strides: Shape | None
) -> np.ndarray:
    """A strided box of the operand."""
    steps = strides or (1,) * len(starts)
    return operand[tuple(map(slice, starts, limits, steps))]


def dynamic_slice_reference(
    operand: np.ndarray, starts: Sequence[np.ndarray], sizes: Shape
) -> np.ndarray:
    """A box of the operand, moved inside where it would stick out."""
    return operand[_clamped_box(operand.shape, starts, sizes)]


def dynamic_update_slice_reference(
    operand: np.ndarray, update: np.ndarray, starts: Sequence[np.ndarray]
) -> np.ndarray:
    """A copy of the operand with a box overwritten, moved inside where it would stick out."""
    out = operand.copy()
    out[_clamped_box(operand.shape, starts, update.shape)] = update
    return out


def _clamped_box(shape: Shape, starts: Sequence[np.ndarray], sizes: Shape) -> tuple[slice, ...]:
    box = []
    for extent, start, size in zip(shape, starts, sizes):
        first = min(max(int(start), 0), extent - size)
        box.append(slice(first, first + size))
    return tuple(box)


def gather_reference(
    operand: np.ndarray,
    indices: np.ndarray,
    dims: GatherDimensionNumbers,
    sizes: Shape,
    mode: GatherScatterMode,
    fill_value: object = None,
) -> np.ndarray:
    """One window of the operand for each index vector."""
    batch = indices.shape[:-1]
    starts, inside = _window_starts(operand.shape, indices, dims, sizes)
    window = _window_offsets(operand.shape, dims, sizes)
    flat = starts.reshape(batch + (1,) * window.ndim) + window
    if not flat.size:
        values = np.zeros(flat.shape, operand.dtype)
    else:
        values = np.asarray(operand.reshape(-1).take(flat))
    if mode.drops and not inside.all():
        values[~inside] = _filling(fill_value, operand.dtype)
    return np.moveaxis(values, range(len(batch), values.ndim), dims.offset_dims)


def _filling(value: object, dtype: np.dtype) -> np.ndarray:
    if dtype.type is np.void:  # the words of a random key
        return np.full(dtype.itemsize // 4, value, np.uint32).view(dtype)[0]
    return np.asarray(value).astype(dtype)


def scatter_reference(
    operand: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    dims: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    combine: np.ufunc | Combine | None = None,
) -> np.ndarray:
    """A copy of the operand with one window updated for each index vector, in their order.

    ``combine`` is None to overwrite, a binary ufunc, or any function that maps a vector of
    old values and one of updates to new values (it is called once for each repetition of
    a position).
    """
    out = operand.copy()
    if not updates.size or not out.size:
        return out
    batch = indices.shape[:-1]
    numbers = gather_numbers(dims)
    sizes = window_sizes(operand.ndim, updates.shape, dims)
    starts, inside = _window_starts(operand.shape, indices, numbers, sizes)
    window = _window_offsets(operand.shape, numbers, sizes)
    positions = starts.reshape(batch + (1,) * window.ndim) + window
    values = np.moveaxis(updates, dims.update_window_dims, range(len(batch), updates.ndim))
    if mode is not GatherScatterMode.CLIP and not inside.all():
        positions, values = positions[inside], values[inside]
    flat, positions, values = out.reshape(-1), positions.reshape(-1), values.reshape(-1)
    if combine is None:
        flat[positions] = values
    elif isinstance(combine, np.ufunc):
        with np.errstate(all="ignore"):
            combine.at(flat, positions, values)
    else:
        _combine_in_order(flat, positions, values, combine)
    return out


def _window_starts(
    shape: Shape, indices: np.ndarray, dims: GatherDimensionNumbers, sizes: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """Flat position of each window's first element, clamped, and whether it needed none."""
    strides = _strides(shape)
    batch = indices.shape[:-1]
    starts = np.zeros(batch, np.int64)
    inside = np.ones(batch, np.bool_)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    indices = indices.astype(np.int64)
    for k, axis in enumerate(dims.start_index_map):
        wanted = indices[..., k]
        clamped = np.clip(wanted, 0, max(shape[axis] - sizes[axis], 0))
        inside &= wanted == clamped
        starts += clamped * strides[axis]
    for axis, batch_axis in zip(dims.operand_batching_dims, dims.start_indices_batching_dims):
        steps = np.arange(batch[batch_axis]) * strides[axis]
        starts += steps.reshape((-1,) + (1,) * (len(batch) - 1 - batch_axis))
    return starts, inside


def _window_offsets(shape: Shape, dims: GatherDimensionNumbers, sizes: Shape) -> np.ndarray:
    """Flat positions of a window's elements relative to its first."""
    strides = _strides(shape)
    absent = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    kept = [axis for axis in range(len(shape)) if axis not in absent]
    offsets = np.zeros((1,) * len(kept), np.int64)
    for position, axis in enumerate(kept):
        steps = np.arange(sizes[axis]) * strides[axis]
        offsets = offsets + steps.reshape((-1,) + (1,) * (len(kept) - 1 - position))
    return offsets


def _strides(shape: Shape) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return strides


def _combine_in_order(
    flat: np.ndarray, positions: np.ndarray, values: np.ndarray, combine: Combine
) -> None:
    """Apply ``combine`` at each position; repeated positions take turns in their order."""
    order = np.argsort(positions, kind="stable")
    ranked = positions[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]] if ranked.size else np.ones(0, np.bool_)
    run_start = np.maximum.accumulate(np.where(first, np.arange(ranked.size), 0))
    turn = np.arange(ranked.size) - run_start
    for n in range(int(turn.max(initial=-1)) + 1):
        chosen = order[turn == n]
        where = positions[chosen]
        flat[where] = combine(flat[where], values[chosen])
