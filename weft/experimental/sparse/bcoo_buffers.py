"""Operations on the buffers of BCOO arrays, ``data`` and ``indices``.

For ``b`` batch, ``s`` sparse and ``d`` dense dimensions data has the shape (b..., nse, d...),
indices have (b..., nse, s). Rows of indices that lie outside the shape are padding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft import lax
from weft import numpy as jnp
from weft.api.batching import vmap
from weft.experimental.sparse.base import (
    SparseInfo,
    SparseOperation,
    columns,
    inside,
    limits,
    over_batch,
    scattered,
    taken,
    trailing,
)


def spread(data: Any, indices: Any, batch: tuple[int, ...]) -> tuple[Any, Any]:
    """Buffers with batch dimensions of size 1 repeated to their full size."""
    n = len(batch)
    return (
        jnp.broadcast_to(data, (*batch, *data.shape[n:])),
        jnp.broadcast_to(indices, (*batch, *indices.shape[n:])),
    )


def ordered_rows(indices: Any, shape: Any) -> tuple[Any, Any, Any]:
    """Rows in lexicographic order, padding last; where each came from; the number of its group.

    Equal rows form a group.
    """
    count, n_sparse = indices.shape
    rows = jnp.where(inside(indices, shape)[:, None], indices, limits(shape, indices.dtype, 2))
    if n_sparse == 0 or count == 0:
        return rows, jnp.arange(count), jnp.zeros(count, jnp.int32)
    place = lax.iota(jnp.int32, count)
    *keys, order = lax.sort((*columns(rows), place), dimension=0, num_keys=n_sparse)
    rows = jnp.stack(keys, -1)
    fresh = (rows[1:] != rows[:-1]).any(-1)
    group = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(fresh, dtype=jnp.int32)])
    return rows, order, group


def count_unique(indices: Any, shape: Any) -> Any:
    """How many different rows there are, padding aside; the most of any batch."""

    def one(indices: Any) -> Any:
        rows, _, group = ordered_rows(indices, shape)
        return jnp.where(inside(rows, shape), group + 1, 0).max(initial=0)

    return over_batch(one, indices.ndim - 2)(indices).max(initial=0)


@SparseOperation
def bcoo_todense_p(data: Any, indices: Any, *, spinfo: SparseInfo) -> list[Any]:
    """The array with all its zeros."""
    n_batch, shape = indices.ndim - 2, spinfo.shape
    data, indices = spread(data, indices, shape[:n_batch])
    return [over_batch(partial(_todense, shape[n_batch:]), n_batch)(data, indices)]


def _todense(shape: Any, data: Any, indices: Any) -> Any:
    if indices.shape[-1] == 0:
        return data.sum(0, dtype=data.dtype)
    return scattered(shape, columns(indices), data)


@SparseOperation
def bcoo_fromdense_p(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> list[Any]:
    """The elements of an array that are not zero, and where they are."""

    def one(mat: Any) -> Any:
        n_sparse = mat.ndim - n_dense
        mask = (mat != 0).any(tuple(range(n_sparse, mat.ndim)))
        if n_sparse == 0:
            indices = jnp.zeros((nse, 0), index_dtype)
            first = trailing(jnp.arange(nse) == 0, jnp.zeros((nse, *mat.shape)))
            return jnp.where(first, mat, 0), indices
        found = jnp.nonzero(mask, size=nse, fill_value=mask.shape)
        indices = jnp.stack(found, -1).astype(index_dtype)
        return _extract(indices, mat), indices

    return list(over_batch(one, n_batch)(mat))


@SparseOperation
def bcoo_extract_p(indices: Any, arr: Any, *, assume_unique: bool) -> list[Any]:
    """The elements of an array at given places, zero for padding."""
    n_batch = indices.ndim - 2
    _, indices = spread(indices, indices, arr.shape[:n_batch])

    def one(indices: Any, arr: Any) -> Any:
        found = _extract(indices, arr)
        if assume_unique:
            return found
        # an element that is named twice is given once, so that the sum is the array's
        _, order, group = ordered_rows(indices, arr.shape[: indices.shape[-1]])
        first = jnp.concatenate([jnp.ones(1, bool), group[1:] != group[:-1]])
        keep = jnp.zeros(len(group), bool).at[order].set(first[: len(group)])
        return jnp.where(trailing(keep, found), found, 0)

    return [over_batch(one, n_batch)(indices, arr)]


def _extract(indices: Any, arr: Any) -> Any:
    if indices.shape[-1] == 0:
        return jnp.broadcast_to(arr, (indices.shape[0], *arr.shape))
    return taken(arr, columns(indices))


@SparseOperation
def bcoo_transpose_p(data: Any, indices: Any, *, permutation: Any, spinfo: SparseInfo) -> list[Any]:
    """Buffers of the transpose; batch, sparse and dense dimensions stay among themselves."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch = tuple(permutation[:n_batch])
    sparse = [p - n_batch for p in permutation[n_batch : n_batch + n_sparse]]
    dense = [p - n_sparse + 1 for p in permutation[n_batch + n_sparse :]]
    turned = jnp.transpose(indices, (*batch, n_batch, n_batch + 1))
    if sparse != list(range(n_sparse)):
        turned = jnp.stack(columns(turned, sparse), -1)
    return [jnp.transpose(data, (*batch, n_batch, *dense)), turned]


@SparseOperation
def bcoo_sort_indices_p(data: Any, indices: Any, *, spinfo: SparseInfo) -> list[Any]:
    """Buffers with rows of indices in lexicographic order."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    shape = spinfo.shape[n_batch : n_batch + n_sparse]
    data, indices = spread(data, indices, spinfo.shape[:n_batch])

    def one(data: Any, indices: Any) -> Any:
        _, order, _ = ordered_rows(indices, shape)
        return data[order], indices[order]

    return list(over_batch(one, n_batch)(data, indices))


@SparseOperation
def bcoo_sum_duplicates_p(data: Any, indices: Any, *, spinfo: SparseInfo, nse: int) -> list[Any]:
    """Buffers in which every place is named once, in order, padded to ``nse`` elements."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    shape = spinfo.shape[n_batch : n_batch + n_sparse]
    data, indices = spread(data, indices, spinfo.shape[:n_batch])

    def one(data: Any, indices: Any) -> Any:
        rows, order, group = ordered_rows(indices, shape)
        kept = jnp.where(trailing(inside(rows, shape), data), data[order], 0)
        padding = jnp.broadcast_to(limits(shape, indices.dtype), (nse, n_sparse))
        return (
            scattered((nse, *data.shape[1:]), group, kept),
            padding.at[group].set(rows, mode="drop"),
        )

    return list(over_batch(one, n_batch)(data, indices))


# --- products -------------------------------------------------------------------------------------


@SparseOperation
def bcoo_dot_general_p(
    data: Any,
    indices: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> list[Any]:
    """The product of a sparse and a dense array, dense."""
    (contract, rhs_contract), (batch, rhs_batch) = dimension_numbers
    n_batch, shape = indices.ndim - 2, lhs_spinfo.shape
    data, indices = spread(data, indices, shape[:n_batch])
    partner = dict(zip((*batch, *contract), (*rhs_batch, *rhs_contract), strict=True))
    inner = [d for d in contract if d >= n_batch]
    mapped = [d for d in range(n_batch) if d in partner]
    free = [d for d in range(rhs.ndim) if d not in partner.values()]
    rhs = jnp.transpose(rhs, [*(partner[d] for d in [*mapped, *inner]), *free])
    fun = partial(_dot, [d - n_batch for d in inner], shape[n_batch:])
    for d in reversed(range(n_batch)):
        fun = vmap(fun, in_axes=(0, 0, 0 if d in partner else None))
    out = fun(data, indices, rhs)
    # dimensions so far: those of lhs that are not contracted as sparse ones, then rhs's
    left = [d for d in range(len(shape)) if d not in inner]
    out = out.sum([left.index(d) for d in contract if d < n_batch], dtype=out.dtype)
    left = [d for d in left if d not in contract]
    order = [*batch, *(d for d in left if d not in batch)]
    places = [left.index(d) for d in order]
    out = jnp.transpose(out, [*places, *range(len(left), out.ndim)])
    return [out if preferred_element_type is None else out.astype(preferred_element_type)]


def _dot(contract: Any, shape: Any, data: Any, indices: Any, rhs: Any) -> Any:
    """One product without batch dimensions; the first dimensions of ``rhs`` are contracted."""
    kept = [d for d in range(indices.shape[-1]) if d not in contract]
    n_free = rhs.ndim - len(contract)
    if contract:
        rows = taken(rhs, columns(indices, contract))
    else:
        rows = rhs[None]
    left = data.reshape(data.shape + (1,) * n_free)
    product = left * rows.reshape(rows.shape[:1] + (1,) * (data.ndim - 1) + rows.shape[1:])
    if not kept:
        return product.sum(0, dtype=product.dtype)
    sizes = (*(shape[d] for d in kept), *product.shape[1:])
    return scattered(sizes, columns(indices, kept), product)


@SparseOperation
def bcoo_dot_general_sampled_p(
    A: Any, B: Any, indices: Any, *, dimension_numbers: Any
) -> list[Any]:
    """The elements at given places of the product of two dense arrays."""
    (left, right), (left_batch, right_batch) = dimension_numbers
    n_batch = indices.ndim - 2
    if len(left_batch) != n_batch or left_batch != right_batch:
        product = lax.dot_general(A, B, dimension_numbers)
        return bcoo_extract_p.call(indices, product, assume_unique=True)
    ahead = tuple(left_batch)

    def free(x: Any, contracted: Any) -> list[int]:
        return [d for d in range(x.ndim) if d not in (*contracted, *ahead)]

    free_left, free_right = free(A, left), free(B, right)
    n_sparse = indices.shape[-1]
    if n_sparse != len(free_left) + len(free_right):
        product = lax.dot_general(A, B, dimension_numbers)
        return bcoo_extract_p.call(indices, product, assume_unique=True)
    A = jnp.transpose(A, [*ahead, *free_left, *left])
    B = jnp.transpose(B, [*ahead, *free_right, *right])
    _, indices = spread(indices, indices, A.shape[:n_batch])
    k = len(free_left)

    def one(A: Any, B: Any, indices: Any) -> Any:
        rows = _extract(indices[:, :k], A).reshape(len(indices), -1)
        others = _extract(indices[:, k:], B).reshape(len(indices), -1)
        return (rows * others).sum(-1, dtype=jnp.result_type(rows, others))

    return [over_batch(one, n_batch)(A, B, indices)]


@SparseOperation
def bcoo_spdot_general_p(
    lhs_data: Any,
    lhs_indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo,
    dimension_numbers: Any,
    preferred_element_type: Any,
) -> list[Any]:
    """The product of two sparse arrays, sparse; all their dimensions are batch or sparse ones."""
    (left, right), (batch, _) = dimension_numbers
    n = len(batch)
    lhs_data, lhs_indices = spread(lhs_data, lhs_indices, lhs_spinfo.shape[:n])
    rhs_data, rhs_indices = spread(rhs_data, rhs_indices, rhs_spinfo.shape[:n])
    shapes = lhs_spinfo.shape[n:], rhs_spinfo.shape[n:]
    contracted = [d - n for d in left], [d - n for d in right]
    kept = [
        [d for d in range(len(shape)) if d not in gone]
        for shape, gone in zip(shapes, contracted, strict=True)
    ]
    sizes = tuple(shape[d] for shape, dims in zip(shapes, kept, strict=True) for d in dims)

    def one(data: Any, indices: Any, other: Any, rows: Any) -> Any:
        meet = inside(indices, shapes[0])[:, None] & inside(rows, shapes[1])[None]
        for d, e in zip(*contracted, strict=True):
            meet &= indices[:, None, d] == rows[None, :, e]
        product = jnp.where(meet, data[:, None] * other[None], 0).reshape(-1)
        pairs = [jnp.broadcast_to(indices[:, None, d], meet.shape) for d in kept[0]]
        pairs += [jnp.broadcast_to(rows[None, :, d], meet.shape) for d in kept[1]]
        found = [jnp.where(meet, i, size).reshape(-1) for i, size in zip(pairs, sizes, strict=True)]
        empty = jnp.zeros((product.size, 0), indices.dtype)
        return product, jnp.stack(found, -1) if found else empty

    data, indices = over_batch(one, n)(lhs_data, lhs_indices, rhs_data, rhs_indices)
    most = 1
    for size in sizes:
        most *= size
    nse = min(data.shape[-1], most)
    info = SparseInfo((*lhs_spinfo.shape[:n], *sizes))
    data, indices = bcoo_sum_duplicates_p.call(data, indices, spinfo=info, nse=nse)
    if preferred_element_type is not None:
        data = data.astype(preferred_element_type)
    return [data, indices]
