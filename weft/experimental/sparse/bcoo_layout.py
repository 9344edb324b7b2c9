"""BCOO arrays moved about: other layouts and shapes, parts of them, several joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft import lax
from weft import numpy as jnp
from weft.api.batching import vmap
from weft.base.source import warn
from weft.experimental.sparse.base import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    inside,
    limits,
    trailing,
)
from weft.experimental.sparse.bcoo_array import BCOO, bcoo_sum_duplicates
from weft.experimental.sparse.bcoo_buffers import spread
from weft.prims.index_dims import GatherScatterMode


def full_buffers(mat: BCOO) -> tuple[Any, Any]:
    """Data and indices with batch dimensions of full size."""
    return spread(mat.data, mat.indices, mat.shape[: mat.n_batch])


def replace_rows(mat: BCOO, rows: Any, shape: Any, keep: Any = None) -> BCOO:
    """``mat`` with other coordinates in another sparse shape; what is not kept is padding."""
    good = inside(mat.indices, mat._sparse_shape)
    if keep is not None:
        good = good & keep
    padding = limits(shape, rows.dtype, rows.ndim)
    rows = jnp.where(good[..., None], rows, padding).astype(mat.indices.dtype)
    data = jnp.where(trailing(good, mat.data), mat.data, 0)
    n, s = mat.n_batch, mat.n_sparse
    return BCOO((data, rows), shape=(*mat.shape[:n], *shape, *mat.shape[n + s :]))


# --- layout ---------------------------------------------------------------------------------------


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """Return the same array with another number of batch and dense dimensions.

    Args:
        mat: the sparse array.
        n_batch: the number of batch dimensions. By default as before.
        n_dense: the number of dense dimensions. By default as before.
        on_inefficient: what to do where the array takes more memory: ``'error'``, ``'warn'`` or
            None.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> mat = sparse.bcoo_fromdense(sparse.eye(3).todense(), n_batch=1)
        >>> sparse.bcoo_update_layout(mat, n_batch=0)
        BCOO(float32[3, 3], nse=3)
    """
    n_batch = mat.n_batch if n_batch is None else n_batch
    n_dense = mat.n_dense if n_dense is None else n_dense
    if min(n_batch, n_dense, mat.ndim - n_batch - n_dense) < 0:
        raise ValueError(f"{mat} cannot have {n_batch} batch and {n_dense} dense dimensions")
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"on_inefficient must be 'error', 'warn' or None, got {on_inefficient!r}")
    _check_efficiency(mat, n_batch, n_dense, on_inefficient)
    shape = mat.shape
    data, indices = full_buffers(mat)
    if n_batch == mat.n_batch and n_dense == mat.n_dense:
        return mat
    while indices.ndim - 2 > n_batch:
        data, indices = _fold_batch(data, indices)
    while data.ndim - indices.ndim + 1 > n_dense:
        data, indices = _fold_dense(data, indices)
    while indices.ndim - 2 < n_batch:
        data, indices = _unfold_batch(data, indices, shape)
    while data.ndim - indices.ndim + 1 < n_dense:
        data, indices = _unfold_dense(data, indices, shape)
    made = BCOO((data, indices), shape=shape)
    if n_batch > mat.n_batch or n_dense > mat.n_dense:
        most = math.prod(made._sparse_shape)
        return bcoo_sum_duplicates(made, nse=min(made.nse, most))
    return made


def _check_efficiency(mat: BCOO, n_batch: int, n_dense: int, action: str | None) -> None:
    grown = mat.shape[mat.n_batch : n_batch], mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]
    for kind, old, new, sizes in (
        ("batch", mat.n_batch, n_batch, grown[0]),
        ("dense", mat.n_dense, n_dense, grown[1]),
    ):
        if new > old and math.prod(sizes) > 1 and action is not None:
            message = (
                f"{mat} with {new} {kind} dimensions in the place of {old} stores many zeros; say"
                " on_inefficient=None if this is meant"
            )
            if action == "error":
                raise SparseEfficiencyError(message)
            warn(message, SparseEfficiencyWarning)


def _fold_batch(data: Any, indices: Any) -> tuple[Any, Any]:
    """The last batch dimension made the first sparse one."""
    n = indices.ndim - 2
    lead, (size, nse, s) = indices.shape[: n - 1], indices.shape[n - 1 :]
    number = lax.broadcasted_iota(indices.dtype, (*lead, size, nse, 1), n - 1)
    rows = jnp.concatenate([number, indices], -1)
    return (
        data.reshape(*lead, size * nse, *data.shape[n + 1 :]),
        rows.reshape(*lead, size * nse, s + 1),
    )


def _fold_dense(data: Any, indices: Any) -> tuple[Any, Any]:
    """The first dense dimension made the last sparse one."""
    n = indices.ndim - 2
    lead, (nse, s), size = indices.shape[:n], indices.shape[n:], data.shape[n + 1]
    number = lax.broadcasted_iota(indices.dtype, (*lead, nse, size, 1), n + 1)
    rows = jnp.broadcast_to(indices[..., None, :], (*lead, nse, size, s))
    rows = jnp.concatenate([rows, number], -1)
    return (
        data.reshape(*lead, nse * size, *data.shape[n + 2 :]),
        rows.reshape(*lead, nse * size, s + 1),
    )


def _unfold_batch(data: Any, indices: Any, shape: Any) -> tuple[Any, Any]:
    """The first sparse dimension made the last batch one."""
    n, s = indices.ndim - 2, indices.shape[-1]
    size, rest = shape[n], shape[n + 1 : n + s]
    number = lax.broadcasted_iota(indices.dtype, (*(1,) * n, size, 1), n)
    here = indices[..., None, :, 0] == number
    rows = indices[..., None, :, 1:]
    rows = jnp.where(here[..., None], rows, limits(rest, indices.dtype, rows.ndim))
    spread_data = data.reshape(*data.shape[:n], 1, *data.shape[n:])
    return jnp.where(trailing(here, spread_data), spread_data, 0), rows


def _unfold_dense(data: Any, indices: Any, shape: Any) -> tuple[Any, Any]:
    """The last sparse dimension made the first dense one."""
    n, s = indices.ndim - 2, indices.shape[-1]
    size = shape[n + s - 1]
    here = indices[..., -1:] == lax.broadcasted_iota(indices.dtype, (*(1,) * (n + 1), size), n + 1)
    spread_data = data.reshape(*data.shape[: n + 1], 1, *data.shape[n + 1 :])
    return jnp.where(trailing(here, spread_data), spread_data, 0), indices[..., :-1]


# --- shape ----------------------------------------------------------------------------------------


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Any, broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """Return the array repeated along new dimensions and those of size 1.

    Args:
        mat: the sparse array.
        shape: the new shape.
        broadcast_dimensions: the new position of each old dimension.
        sharding: accepted for JAX, no effect.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> mat = sparse.eye(2)
        >>> sparse.bcoo_broadcast_in_dim(mat, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
        BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    shape, places = tuple(shape), tuple(broadcast_dimensions)
    if len(places) != mat.ndim or list(places) != sorted(set(places)):
        raise ValueError(f"broadcast_dimensions {places} do not place the dimensions of {mat}")
    n, s = mat.n_batch, mat.n_sparse
    old = dict(zip(places, range(mat.ndim), strict=True))
    first_sparse = places[n] if n < mat.ndim else len(shape)
    first_dense = places[n + s] if n + s < mat.ndim else len(shape)
    batch = list(range(first_sparse))
    dense = [d for d in range(len(shape)) if d >= first_dense]
    sparse = [d for d in range(len(shape)) if d not in (*batch, *dense)]
    data, indices = full_buffers(mat)
    rows = [indices[..., old[d] - n] if d in old else None for d in sparse]
    grown = [i for i, d in enumerate(sparse) if d not in old or mat.shape[old[d]] != shape[d]]
    good = inside(indices, mat._sparse_shape)
    count = math.prod(shape[sparse[i]] for i in grown)
    numbers = jnp.unravel_index(jnp.arange(count), [shape[sparse[i]] for i in grown])
    for place, i in enumerate(grown):
        rows[i] = numbers[place]
    stacked = []
    lead = indices.shape[:-1]
    for i, row in enumerate(rows):
        wide = row if i in grown else row[..., None]
        wide = jnp.broadcast_to(wide, (*lead, count))
        kept = jnp.where(good[..., None], wide, shape[sparse[i]])
        stacked.append(kept.reshape(*lead[:-1], lead[-1] * count).astype(indices.dtype))
    nse = lead[-1] * count
    indices = jnp.stack(stacked, -1) if stacked else jnp.zeros((*lead[:-1], nse, 0), indices.dtype)
    data = jnp.repeat(data, count, axis=n)
    batch_sizes = tuple(shape[d] for d in batch)
    at = tuple(batch.index(d) for d in places[:n])
    to_dense = tuple(len(batch) + 1 + dense.index(d) for d in places[n + s :])
    data = lax.broadcast_in_dim(
        data, (*batch_sizes, nse, *(shape[d] for d in dense)), (*at, len(batch), *to_dense)
    )
    indices = lax.broadcast_in_dim(
        indices,
        (*batch_sizes, nse, len(sparse)),
        (*at, len(batch), len(batch) + 1),
    )
    return BCOO((data, indices), shape=shape, unique_indices=mat.unique_indices)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Any, dimensions: Any = None, sharding: Any = None
) -> BCOO:
    """Return the array with other sizes; batch, sparse and dense dimensions are reshaped apart.

    Args:
        mat: the sparse array.
        new_sizes: the new shape.
        dimensions: the order in which to read the old dimensions. By default as they are.
        sharding: accepted for JAX, no effect.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_reshape(sparse.eye(4), new_sizes=(2, 8)).indices[-1]
        Array([1, 7], dtype=int32)
    """
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = mat.transpose(dimensions)
    sizes = tuple(new_sizes)
    if math.prod(sizes) != mat.size:
        raise ValueError(f"{mat} of {mat.size} elements cannot be given the shape {sizes}")
    n, s = mat.n_batch, mat.n_sparse
    new_batch = _prefix(sizes, math.prod(mat.shape[:n]), n)
    new_dense = _prefix(sizes[::-1], math.prod(mat.shape[n + s :]), mat.n_dense)
    if new_batch is None or new_dense is None:
        raise ValueError(
            f"{mat} cannot be given the shape {sizes} without mixing batch, sparse and dense"
            " dimensions; convert them to one kind with update_layout"
        )
    batch, end = sizes[:new_batch], len(sizes) - new_dense
    sparse, dense = sizes[new_batch:end], sizes[end:]
    data, indices = full_buffers(mat)
    good = inside(indices, mat._sparse_shape)
    flat = jnp.zeros(indices.shape[:-1], indices.dtype)
    for i, size in enumerate(mat._sparse_shape):
        flat = flat * size + indices[..., i]
    rows = []
    for size in reversed(sparse):
        rows.insert(0, jnp.where(good, flat % max(size, 1), size))
        flat = flat // max(size, 1)
    if rows:
        indices = jnp.stack(rows, -1).astype(indices.dtype)
    else:
        data = jnp.where(trailing(good, data), data, 0)
        indices = jnp.zeros((*indices.shape[:-1], 0), indices.dtype)
    return BCOO(
        (data.reshape(*batch, mat.nse, *dense), indices.reshape(*batch, mat.nse, len(sparse))),
        shape=sizes,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def _prefix(sizes: Sequence[int], product: int, wanted: int) -> int | None:
    """How many leading sizes have a product, as near to ``wanted`` as can be."""
    found = [i for i in range(len(sizes) + 1) if math.prod(sizes[:i]) == product]
    if product == 1 and wanted == 0:
        return 0
    return min(found, key=lambda i: abs(i - wanted)) if found else None


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Return the array without some dimensions of size 1.

    Args:
        arr: the sparse array.
        dimensions: these dimensions.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_squeeze(sparse.empty((3, 1)), dimensions=(1,)).shape
        (3,)
    """
    gone = {d % arr.ndim for d in dimensions}
    if any(arr.shape[d] != 1 for d in gone):
        raise ValueError(f"squeeze takes dimensions of size 1, got {tuple(dimensions)} of {arr}")
    n, s = arr.n_batch, arr.n_sparse
    shape = tuple(size for d, size in enumerate(arr.shape) if d not in gone)
    batch_axes = tuple(d for d in gone if d < n)
    dense_axes = tuple(d - s + 1 for d in gone if d >= n + s)
    kept = [d - n for d in range(n, n + s) if d not in gone]
    data, indices = full_buffers(arr)
    if len(kept) < s:
        good = inside(indices, arr._sparse_shape)
        data = jnp.where(trailing(good, data), data, 0)
        if kept:
            sizes = tuple(arr._sparse_shape[d] for d in kept)
            outer = limits(sizes, indices.dtype, indices.ndim)
            indices = jnp.stack([indices[..., d] for d in kept], -1)
            indices = jnp.where(good[..., None], indices, outer)
        else:
            indices = indices[..., :0]
    return BCOO(
        (lax.squeeze(data, batch_axes + dense_axes), lax.squeeze(indices, batch_axes)),
        shape=shape,
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """Return the array with some of its dimensions reversed.

    Args:
        operand: the sparse array.
        dimensions: these dimensions.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_rev(sparse.eye(2), dimensions=[0]).todense()
        Array([[0., 1.],
               [1., 0.]], dtype=float32)
    """
    n, s = operand.n_batch, operand.n_sparse
    turned = {d % operand.ndim for d in dimensions}
    batch = [d for d in turned if d < n]
    dense = [d - s + 1 for d in turned if d >= n + s]
    data, indices = full_buffers(operand)
    data, indices = lax.rev(data, [*batch, *dense]), lax.rev(indices, batch)
    mat = BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)
    sizes = operand._sparse_shape
    if not any(n <= d < n + s for d in turned):
        return mat
    rows = [
        sizes[i] - 1 - indices[..., i] if n + i in turned else indices[..., i] for i in range(s)
    ]
    return replace_rows(mat, jnp.stack(rows, -1), sizes)


# --- parts ----------------------------------------------------------------------------------------


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """Return a part of the array.

    Args:
        mat: the sparse array.
        start_indices: where the part begins along each dimension.
        limit_indices: where it ends.
        strides: the step along each dimension; 1 by default.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_slice(sparse.eye(4), start_indices=(1, 0), limit_indices=(3, 4)).todense()
        Array([[0., 1., 0., 0.],
               [0., 0., 1., 0.]], dtype=float32)
    """
    steps = (1,) * mat.ndim if strides is None else tuple(strides)
    starts, stops = tuple(start_indices), tuple(limit_indices)
    if not len(starts) == len(stops) == len(steps) == mat.ndim:
        raise TypeError(f"a slice of {mat} needs {mat.ndim} starts, limits and strides")
    sizes = tuple(
        max(0, -(-(stop - start) // step))
        for start, stop, step in zip(starts, stops, steps, strict=True)
    )
    return _part(mat, starts, sizes, steps)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Any, slice_sizes: Sequence[int]) -> BCOO:
    """Return a part of the array that begins where values say.

    Args:
        mat: the sparse array.
        start_indices: where the part begins along each dimension; moved inside if it would not fit.
        slice_sizes: its size along each dimension.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_dynamic_slice(sparse.eye(4), (1, 1), (2, 2)).todense()
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    sizes = tuple(slice_sizes)
    starts = [
        jnp.clip(jnp.where(start < 0, start + full, start), 0, full - size)
        for start, full, size in zip(map(jnp.asarray, start_indices), mat.shape, sizes, strict=True)
    ]
    return _part(mat, starts, sizes, (1,) * mat.ndim)


def _part(mat: BCOO, starts: Any, sizes: Any, steps: Any) -> BCOO:
    n, s = mat.n_batch, mat.n_sparse
    data, indices = full_buffers(mat)
    for d in range(n):
        data, indices = (_take(x, starts[d], sizes[d], steps[d], d) for x in (data, indices))
    for d in range(n + s, mat.ndim):
        data = _take(data, starts[d], sizes[d], steps[d], d - s + 1)
    shape = (*sizes[:n], *mat._sparse_shape, *sizes[n + s :])
    part = BCOO((data, indices), shape=shape, unique_indices=mat.unique_indices)
    inner = tuple(sizes[n : n + s])
    if inner == mat._sparse_shape:  # nothing is cut where coordinates say
        part.indices_sorted = mat.indices_sorted
        return part
    rows, keep = [], True
    for i in range(s):
        start, size, step = starts[n + i], sizes[n + i], steps[n + i]
        moved = indices[..., i] - jnp.asarray(start, indices.dtype)
        keep = keep & (moved >= 0) & (moved < size * step) & (moved % step == 0)
        rows.append(moved // step)
    part = replace_rows(part, jnp.stack(rows, -1), inner, keep)
    most = math.prod(inner)
    return bcoo_sum_duplicates(part, nse=most) if most < part.nse else part


def _take(x: Any, start: Any, size: int, step: int, axis: int) -> Any:
    if isinstance(start, int):
        return lax.slice_in_dim(
            x, start, start + (size - 1) * step + 1 if size else start, step, axis
        )
    return lax.dynamic_slice_in_dim(x, start, size, axis)


_CLIPPED = (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """Return parts of the array, one for each row of indices.

    Dimensions of the indices become batch dimensions where they come first in the result.

    Args:
        operand: the sparse array.
        start_indices: where the parts begin.
        dimension_numbers: which dimensions the indices are for, as ``lax.gather`` takes them.
        slice_sizes: the size of a part along each dimension.
        unique_indices: promise that no part is taken twice.
        indices_are_sorted: promise that the indices are in order.
        mode: what happens to indices out of range, as in ``lax.gather``.
        fill_value: accepted as by ``lax.gather``.

    Returns:
        A ``BCOO``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import lax
        >>> from weft.experimental import sparse
        >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,),
        ...                                   start_index_map=(0,))
        >>> sparse.bcoo_gather(sparse.eye(3), jnp.array([[2], [0]]), rows, (1, 3)).todense()
        Array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
    """
    if mode is not None and GatherScatterMode.from_any(mode) not in _CLIPPED:
        raise NotImplementedError(
            f"a gather from a sparse array clips indices that are out of bounds, got mode={mode!r};"
            " write mode='clip' or mode='promise_in_bounds'"
        )
    numbers, start_indices = dimension_numbers, jnp.asarray(start_indices)
    if getattr(numbers, "operand_batching_dims", ()):
        raise NotImplementedError(
            f"a gather from a sparse array has no batching dimensions, got {numbers}; use vmap"
        )
    count = start_indices.ndim - 1

    def one(start: Any) -> BCOO:
        starts: list[Any] = [jnp.zeros((), start.dtype)] * operand.ndim
        for i, d in enumerate(numbers.start_index_map):
            starts[d] = start[i]
        part = bcoo_dynamic_slice(operand, starts, slice_sizes)
        return bcoo_squeeze(part, dimensions=numbers.collapsed_slice_dims)

    for _ in range(count):
        one = vmap(one)
    found = one(start_indices)
    # dimensions of the indices come first so far
    offsets = tuple(numbers.offset_dims)
    others = [d for d in range(found.ndim) if d not in offsets]
    order = [0] * found.ndim
    for here, there in enumerate((*others, *offsets)):
        order[there] = here
    if order == list(range(found.ndim)):
        return found
    if sorted(order[:count]) != list(range(count)):
        found = bcoo_update_layout(found, n_batch=0)
    return found.transpose(order)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Return arrays joined along a batch or sparse dimension.

    Args:
        operands: the arrays.
        dimension: the dimension along which to join.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0)
        BCOO(float32[4, 2], nse=4)
    """
    operands = list(operands)
    first = operands[0]
    axis = dimension % first.ndim
    n, s = first.n_batch, first.n_sparse
    if any((x.n_batch, x.n_dense, x.ndim) != (n, first.n_dense, first.ndim) for x in operands):
        raise ValueError(f"arrays that are joined must have one layout, got {operands}")
    others = {x.shape[:axis] + x.shape[axis + 1 :] for x in operands}
    if len(others) != 1:
        raise ValueError(f"arrays joined along dimension {axis} must agree in others: {operands}")
    if axis >= n + s:
        raise NotImplementedError("joining along a dense dimension; update_layout(n_dense=...)")
    total = sum(x.shape[axis] for x in operands)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    if axis < n:
        nse = max(x.nse for x in operands)
        padded = [full_buffers(_padded(x, nse)) for x in operands]
        data, indices = (jnp.concatenate(parts, axis) for parts in zip(*padded, strict=True))
        return BCOO((data, indices), shape=shape)
    moved, offset = [], 0
    sizes = shape[n : n + s]
    for x in operands:
        shift = [offset if i == axis - n else 0 for i in range(s)]
        rows = x.indices + limits(shift, x.indices.dtype, x.indices.ndim)
        full = replace_rows(BCOO(full_buffers(x), shape=x.shape), rows, sizes)
        moved.append(full_buffers(full))
        offset += x.shape[axis]
    data, indices = (jnp.concatenate(parts, n) for parts in zip(*moved, strict=True))
    return BCOO(
        (data, indices),
        shape=shape,
        unique_indices=all(x.unique_indices for x in operands),
    )


def _padded(mat: BCOO, nse: int) -> BCOO:
    """``mat`` with padding up to a number of stored elements."""
    data, indices = full_buffers(mat)
    n, more = mat.n_batch, nse - mat.nse
    filler = jnp.broadcast_to(
        limits(mat._sparse_shape, indices.dtype), (*indices.shape[:n], more, mat.n_sparse)
    )
    zeros = jnp.zeros((*data.shape[:n], more, *data.shape[n + 1 :]), data.dtype)
    data = jnp.concatenate([data, zeros], n)
    return BCOO((data, jnp.concatenate([indices, filler], n)), shape=mat.shape)
