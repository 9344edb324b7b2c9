"""Sums and products of BCOO arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import numpy as jnp
from weft.experimental.sparse.base import inside, over_batch, taken, trailing
from weft.experimental.sparse.bcoo_array import BCOO, bcoo_fromdense, masked_data
from weft.experimental.sparse.bcoo_buffers import (
    bcoo_dot_general_p,
    bcoo_dot_general_sampled_p,
    bcoo_extract_p,
    bcoo_spdot_general_p,
    ordered_rows,
)
from weft.experimental.sparse.bcoo_layout import (
    bcoo_broadcast_in_dim,
    bcoo_update_layout,
    full_buffers,
)
from weft.lax.windows import padtype_to_pads


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """Return the elements of a dense array at the places where a sparse one has some.

    Args:
        sparr: the sparse array that names the places.
        arr: the dense array, of the same shape.
        assume_unique: promise that no place is stored twice. By default what ``sparr`` says.

    Returns:
        A ``BCOO`` with the places of ``sparr``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_extract(sparse.eye(2), jnp.array([[1., 2.], [3., 4.]])).data
        Array([1., 4.], dtype=float32)
    """
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"the arrays must have one shape, got {sparr.shape} and {arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    (data,) = bcoo_extract_p.call(sparr.indices, arr, assume_unique=bool(unique))
    return BCOO(
        (data, sparr.indices),
        shape=sparr.shape,
        indices_sorted=sparr.indices_sorted,
        unique_indices=sparr.unique_indices,
    )


def bcoo_reduce_sum(mat: BCOO, *, axes: Any) -> BCOO:
    """Return the sum over some dimensions.

    Args:
        mat: the sparse array.
        axes: the dimensions.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_reduce_sum(sparse.eye(3), axes=[0]).todense()
        Array([1., 1., 1.], dtype=float32)
    """
    gone = {d % mat.ndim for d in axes}
    n, s = mat.n_batch, mat.n_sparse
    shape = tuple(size for d, size in enumerate(mat.shape) if d not in gone)
    data, indices = full_buffers(mat)
    data = data.sum([d - s + 1 for d in gone if d >= n + s], dtype=data.dtype)
    if any(n <= d < n + s for d in gone):
        good = inside(indices, mat._sparse_shape)
        data = jnp.where(trailing(good, data), data, 0)
        kept = [d for d in range(s) if n + d not in gone]
        columns = [jnp.where(good, indices[..., d], mat._sparse_shape[d]) for d in kept]
        empty = indices[..., :0]
        indices = jnp.stack(columns, -1).astype(indices.dtype) if columns else empty
    batch = sorted(d for d in gone if d < n)
    if batch:  # elements of all batches are stored side by side
        rest = [d for d in range(n) if d not in batch]
        sizes = tuple(mat.shape[d] for d in rest)
        data = jnp.transpose(data, [*rest, *batch, *range(n, data.ndim)])
        indices = jnp.transpose(indices, [*rest, *batch, n, n + 1])
        data = data.reshape(*sizes, -1, *data.shape[n + 1 :])
        indices = indices.reshape(*sizes, data.shape[len(sizes)], indices.shape[-1])
    return BCOO((data, indices), shape=shape)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """Return the stored elements of the product with a dense array that is broadcast.

    Args:
        sp_mat: the sparse array.
        v: the dense array.

    Returns:
        An array of the shape of ``sp_mat.data``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_multiply_dense(sparse.eye(2), jnp.array([3., 5.]))
        Array([3., 5.], dtype=float32)
    """
    v = jnp.asarray(v)
    if v.ndim == 0:
        return sp_mat.data * v
    if np.broadcast_shapes(v.shape, sp_mat.shape) != sp_mat.shape:
        raise NotImplementedError(
            f"{sp_mat} times an array of shape {v.shape}, which is larger: the result would hold"
            " the sparse array many times"
        )
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)
    n, s = sp_mat.n_batch, sp_mat.n_sparse
    # a dimension of size 1 is read at 0 whatever the coordinate
    flat = [int(size != 1) for size in v.shape[n : n + s]]
    v = jnp.broadcast_to(v, (*sp_mat.shape[:n], *v.shape[n:]))
    data, indices = full_buffers(sp_mat)

    def one(data: Any, indices: Any, v: Any) -> Any:
        if s == 0:
            return data * v[None]
        places = tuple(indices[:, i] * flat[i] for i in range(s))
        return data * taken(v, places)

    return over_batch(one, n)(data, indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Return the elementwise product of two sparse arrays; dimensions of size 1 are repeated.

    It stores as many elements as ``lhs``: those are matched with ``rhs`` by sorting.

    Args:
        lhs: the left operand.
        rhs: the right operand.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_multiply_sparse(sparse.eye(3), 2 * sparse.eye(3)).data
        Array([2., 2., 2.], dtype=float32)
    """
    if lhs.shape != rhs.shape:
        shape = np.broadcast_shapes(lhs.shape, rhs.shape)
        lhs, rhs = _widened(lhs, shape), _widened(rhs, shape)
    if (lhs.n_batch, lhs.n_dense) != (rhs.n_batch, rhs.n_dense):
        layout = {
            "n_batch": min(lhs.n_batch, rhs.n_batch),
            "n_dense": min(lhs.n_dense, rhs.n_dense),
        }
        lhs, rhs = bcoo_update_layout(lhs, **layout), bcoo_update_layout(rhs, **layout)
    shape, n = lhs._sparse_shape, lhs.n_batch

    def one(indices: Any, data: Any, rows: Any, other: Any) -> Any:
        count = len(indices)
        _, order, group = ordered_rows(jnp.concatenate([indices, rows]), shape)
        of = jnp.zeros(len(order), jnp.int32).at[order].set(group)
        kept = jnp.where(trailing(inside(rows, shape), other), other, 0)
        sums = jnp.zeros((len(order), *other.shape[1:]), other.dtype).at[of[count:]].add(kept)
        return data * sums[of[:count]]

    data, indices = full_buffers(lhs)
    other, rows = full_buffers(rhs)
    product = over_batch(one, n)(indices, data, rows, other)
    return BCOO(
        (product, indices),
        shape=lhs.shape,
        indices_sorted=lhs.indices_sorted,
        unique_indices=lhs.unique_indices,
    )


def _widened(mat: BCOO, shape: tuple[int, ...]) -> BCOO:
    if mat.shape == shape:
        return mat
    places = range(len(shape) - mat.ndim, len(shape))
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=list(places))


# --- products over dimensions ---------------------------------------------------------------------


def _numbers(dimension_numbers: Any) -> Any:
    (a, b), (c, d) = dimension_numbers
    return (tuple(map(int, a)), tuple(map(int, b))), (tuple(map(int, c)), tuple(map(int, d)))


def _check(lhs: Any, rhs: Any, numbers: Any) -> None:
    for kind, (left, right) in zip(("contracting", "batch"), numbers, strict=True):
        sizes = tuple(lhs.shape[d] for d in left), tuple(rhs.shape[d] for d in right)
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general got {kind} dimensions of sizes {sizes[0]} and {sizes[1]}"
                f" ({lhs.shape} and {rhs.shape} over {left} and {right})"
            )


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the product of two arrays, of which one or both are sparse.

    Args:
        lhs: the left operand.
        rhs: the right operand.
        dimension_numbers: the contracted and batch dimensions, as ``lax.dot_general`` takes them.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        preferred_element_type: the dtype in which products are summed.
        out_sharding: accepted for JAX, no effect.

    Returns:
        A dense array, or a ``BCOO`` if both are sparse.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_dot_general(sparse.eye(2), jnp.array([3., 4.]),
        ...                         dimension_numbers=(((1,), (0,)), ((), ())))
        Array([3., 4.], dtype=float32)
    """
    numbers = _numbers(dimension_numbers)
    _check(lhs, rhs, numbers)
    dtype = preferred_element_type
    if dtype is None:
        dtype = jnp.result_type(lhs.dtype, rhs.dtype)
    dtype = np.dtype(dtype)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_product(lhs, rhs, numbers, dtype)
    if isinstance(lhs, BCOO):
        return _product(lhs, jnp.asarray(rhs), numbers, dtype)
    (left, right), (left_batch, right_batch) = numbers
    lhs = jnp.asarray(lhs)
    out = _product(rhs, lhs, ((right, left), (right_batch, left_batch)), dtype)
    n = len(left_batch)
    mine = rhs.ndim - n - len(right)
    order = [*range(n), *range(n + mine, out.ndim), *range(n, n + mine)]
    return jnp.transpose(out, order)


def _product(lhs: BCOO, rhs: Any, numbers: Any, dtype: Any) -> Any:
    (left, _), (batch, _) = numbers
    end = lhs.n_batch + lhs.n_sparse
    if any(d >= end for d in (*left, *batch)):
        needed = lhs.ndim - 1 - max(left + batch)
        lhs = bcoo_update_layout(lhs, n_dense=needed)
    if any(d >= lhs.n_batch for d in batch):
        if tuple(batch) != tuple(range(len(batch))):
            raise NotImplementedError(
                f"dot_general with batch dimensions {batch} of {lhs}: they must be leading ones"
            )
        lhs = bcoo_update_layout(lhs, n_batch=len(batch), on_inefficient=None)
    (out,) = bcoo_dot_general_p.call(
        lhs.data,
        lhs.indices,
        rhs,
        dimension_numbers=numbers,
        preferred_element_type=dtype,
        lhs_spinfo=lhs._info,
    )
    return out


def _sparse_product(lhs: BCOO, rhs: BCOO, numbers: Any, dtype: Any) -> BCOO:
    (left, right), (left_batch, right_batch) = numbers
    n = len(left_batch)
    if tuple(left_batch) != tuple(range(n)) or tuple(right_batch) != tuple(range(n)):
        raise NotImplementedError(
            f"the product of {lhs} and {rhs} with batch dimensions {left_batch} and {right_batch}:"
            " they must be leading ones"
        )
    lhs = bcoo_update_layout(lhs, n_batch=n, n_dense=0, on_inefficient=None)
    rhs = bcoo_update_layout(rhs, n_batch=n, n_dense=0, on_inefficient=None)
    data, indices = bcoo_spdot_general_p.call(
        lhs.data,
        lhs.indices,
        rhs.data,
        rhs.indices,
        lhs_spinfo=lhs._info,
        rhs_spinfo=rhs._info,
        dimension_numbers=numbers,
        preferred_element_type=dtype,
    )
    shape = (
        *(lhs.shape[d] for d in range(lhs.ndim) if d not in left),
        *(rhs.shape[d] for d in range(n, rhs.ndim) if d not in right),
    )
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """Return the elements of a product of dense arrays at given places.

    Args:
        A: the left operand.
        B: the right operand.
        indices: the coordinates of the places.
        dimension_numbers: the contracted and batch dimensions, as ``lax.dot_general`` takes them.

    Returns:
        The elements.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> x = jnp.arange(4.).reshape(2, 2)
        >>> sparse.bcoo_dot_general_sampled(x, x, jnp.array([[1, 0]]),
        ...                                 dimension_numbers=(((1,), (0,)), ((), ())))
        Array([6.], dtype=float32)
    """
    A, B, indices = map(jnp.asarray, (A, B, indices))
    numbers = _numbers(dimension_numbers)
    _check(A, B, numbers)
    return bcoo_dot_general_sampled_p.call(A, B, indices, dimension_numbers=numbers)[0]


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """Return the convolution of two signals: one spatial dimension, one batch, one channel.

    Either of them may be dense.

    Args:
        lhs: the signal.
        rhs: the kernel.
        window_strides: must be 1.
        padding: how much to pad, as in ``lax.conv_general_dilated``.
        lhs_dilation: must be None or 1.
        rhs_dilation: must be None or 1.
        dimension_numbers: the order of dimensions, as in ``lax.conv_general_dilated``.
        feature_group_count: must be 1.
        batch_group_count: must be 1.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        preferred_element_type: the dtype in which products are summed.
        out_sharding: accepted for JAX, no effect.

    Returns:
        A ``BCOO``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> signal = sparse.bcoo_fromdense(jnp.array([[[1., 0., 2.]]]))
        >>> kernel = sparse.bcoo_fromdense(jnp.array([[[1., 1.]]]))
        >>> sparse.bcoo_conv_general_dilated(signal, kernel, window_strides=[1],
        ...                                  padding=[(0, 0)]).todense()
        Array([[[1., 2.]]], dtype=float32)
    """
    plain = feature_group_count == batch_group_count == 1 and lhs.ndim == rhs.ndim == 3
    if dimension_numbers is not None:
        plain = plain and dimension_numbers in (
            ("NCH", "OIH", "NCH"),
            ((0, 1, 2), (0, 1, 2), (0, 1, 2)),
        )
    if not plain or lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        raise NotImplementedError(
            "sparse convolutions have one spatial dimension, one batch and one channel; got"
            f" {lhs} and {rhs}"
        )
    stride = window_strides[0]
    spread_by = 1 if lhs_dilation is None else lhs_dilation[0]
    apart = 1 if rhs_dilation is None else rhs_dilation[0]
    lhs, rhs = (_flat_layout(x) for x in (lhs, rhs))
    length = (lhs.shape[2] - 1) * spread_by + 1
    window = (rhs.shape[2] - 1) * apart + 1
    if isinstance(padding, str):
        padding = padtype_to_pads((length,), (window,), (stride,), padding)
    (low, high) = padding[0]
    length += low + high
    size = max(0, (length - window) // stride + 1)
    place = lhs.indices[:, None, 2] * spread_by + low - rhs.indices[None, :, 2] * apart
    good = inside(lhs.indices, lhs.shape)[:, None] & inside(rhs.indices, rhs.shape)[None]
    good = good & (place >= 0) & (place % stride == 0) & (place < size * stride)
    product = jnp.where(good, masked_data(lhs)[:, None] * masked_data(rhs)[None], 0)
    where = jnp.where(good, place // stride, size).reshape(-1)
    ahead = jnp.where(good, 0, 1).reshape(-1).astype(where.dtype)
    data = product.reshape(-1)
    if preferred_element_type is not None:
        data = data.astype(preferred_element_type)
    indices = jnp.stack([ahead, ahead, where], -1)
    made = BCOO((data, indices), shape=(1, 1, size))
    return made.sum_duplicates(nse=size, remove_zeros=False) if size < made.nse else made


def _flat_layout(x: Any) -> BCOO:
    """An array, dense or sparse, with sparse dimensions only."""
    if not isinstance(x, BCOO):
        x = jnp.asarray(x)
        return bcoo_fromdense(x, nse=x.size)
    return bcoo_update_layout(x, n_batch=0, n_dense=0)
