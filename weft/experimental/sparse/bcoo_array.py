"""BCOO: batched coordinates, the format that all operations know."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from weft import numpy as jnp
from weft.experimental.sparse.base import (
    JAXSparse,
    SparseInfo,
    concrete_count,
    inside,
    limits,
    trailing,
)
from weft.experimental.sparse.bcoo_buffers import (
    bcoo_fromdense_p,
    bcoo_sort_indices_p,
    bcoo_sum_duplicates_p,
    bcoo_todense_p,
    bcoo_transpose_p,
    count_unique,
)
from weft.tree.registry import register_pytree_node_class


@register_pytree_node_class
class BCOO(JAXSparse):
    """A sparse array of elements and their coordinates.

    Its dimensions are, in this order, batch ones (an array of coordinates for each place), sparse
    ones (given by coordinates) and dense ones (each stored element is an array).

    Args:
        args: the pair (data, indices): elements of shape (batch..., nse, dense...) and coordinates
            of shape (batch..., nse, sparse dimensions).
        shape: the shape of the array.
        indices_sorted: promise that the coordinates are in order.
        unique_indices: promise that no place is stored twice.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(jnp.array([[0., 1., 0.], [2., 0., 0.]]))
        >>> mat
        BCOO(float32[2, 3], nse=2)
        >>> mat @ jnp.ones(3)
        Array([1., 2.], dtype=float32)
    """

    indices: Any
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self, args: Any, *, shape: Any, indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        data, indices = map(jnp.asarray, args)
        shape = tuple(shape)
        n_batch = indices.ndim - 2
        n_dense = data.ndim - 1 - n_batch
        n_sparse = indices.shape[-1] if indices.ndim else 0
        fits = (
            n_batch >= 0
            and n_dense >= 0
            and len(shape) == n_batch + n_sparse + n_dense
            and data.shape[n_batch] == indices.shape[n_batch]
            and data.shape[n_batch + 1 :] == shape[n_batch + n_sparse :]
            and all(
                size in (1, full)
                for buffer in (data, indices)
                for size, full in zip(buffer.shape[:n_batch], shape[:n_batch], strict=True)
            )
        )
        if not fits:
            raise ValueError(
                f"data of shape {data.shape} and indices of shape {indices.shape} are not those of"
                f" a BCOO array of shape {shape}: they are (batch..., nse, dense...) and"
                " (batch..., nse, number of sparse dimensions)"
            )
        if np.broadcast_shapes(data.shape[:n_batch], indices.shape[:n_batch]) != shape[:n_batch]:
            data = jnp.broadcast_to(data, (*shape[:n_batch], *data.shape[n_batch:]))
        self.data, self.indices = data, indices
        self._sparse_shape = shape[n_batch : n_batch + n_sparse]
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices

    # --- what it is -------------------------------------------------------------------------------

    @property
    def n_batch(self) -> int:
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        return self.data.ndim - 1 - self.n_batch

    @property
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        n = self.n_batch
        batch = np.broadcast_shapes(self.data.shape[:n], self.indices.shape[:n])
        return (*batch, *self._sparse_shape, *self.data.shape[n + 1 :])

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        # batch and dense sizes are those of the buffers, so that a mapped array has the right ones
        return (self.data, self.indices), (
            self._sparse_shape,
            self.indices_sorted,
            self.unique_indices,
        )

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> BCOO:
        made = object.__new__(cls)
        made.data, made.indices = children
        made._sparse_shape, made.indices_sorted, made.unique_indices = aux_data
        return made

    # --- making -----------------------------------------------------------------------------------

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The elements of an array that are not zero; ``nse`` is how many are stored at most."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The same matrix as one of scipy.sparse."""
        if n_dense or n_batch:
            raise NotImplementedError("matrices of scipy.sparse have no batch or dense dimensions")
        mat = mat.tocoo()
        indices = jnp.column_stack((mat.row, mat.col)).astype(index_dtype or jnp.int32)
        return cls((mat.data, indices), shape=mat.shape)

    @classmethod
    def _empty(
        cls,
        shape: Any,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if min(n_sparse, n_batch, n_dense) < 0:
            raise ValueError(
                f"shape {shape} can't have {n_batch} batch and {n_dense} dense dimensions"
            )
        batch, dense = shape[:n_batch], shape[n_batch + n_sparse :]
        sparse = shape[n_batch : n_batch + n_sparse]
        data = jnp.zeros((*batch, nse, *dense), dtype)
        indices = jnp.broadcast_to(limits(sparse, index_dtype), (*batch, nse, n_sparse))
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        if n_batch or n_dense:
            full = cls._eye(N, M, k, dtype=dtype, index_dtype=index_dtype).todense()
            return cls.fromdense(full, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
        first = jnp.arange(max(0, min(N + min(k, 0), M - max(k, 0))), dtype=index_dtype)
        indices = jnp.column_stack([first - min(k, 0), first + max(k, 0)]).astype(index_dtype)
        data = jnp.ones(first.shape, dtype)
        return cls((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    # --- changing ---------------------------------------------------------------------------------

    def todense(self) -> Any:
        """The array with all its zeros."""
        return bcoo_todense(self)

    def transpose(self, axes: Any = None) -> BCOO:
        """The array with its dimensions in another order; by default each kind is reversed."""
        n, s = self.n_batch, self.n_sparse
        if axes is None:
            ends = (0, n, n + s, self.ndim)
            axes = [d for low, high in pairwise(ends) for d in reversed(range(low, high))]
        return bcoo_transpose(self, permutation=axes)

    def sort_indices(self) -> BCOO:
        """The same array with its coordinates in order."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same array with every place stored once; zeros are dropped unless told not to."""
        return bcoo_sum_duplicates(_without_zeros(self) if remove_zeros else self, nse=nse)


def _without_zeros(mat: BCOO) -> BCOO:
    """``mat`` with stored zeros made padding."""
    dense = tuple(range(mat.n_batch + 1, mat.data.ndim))
    zero = (mat.data == 0).all(dense)
    batch = mat.shape[: mat.n_batch]
    indices = jnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[mat.n_batch :]))
    padding = limits(mat._sparse_shape, indices.dtype, indices.ndim)
    return BCOO((mat.data, jnp.where(zero[..., None], padding, indices)), shape=mat.shape)


def bcoo_todense(mat: BCOO) -> Any:
    """Return a sparse array with all its zeros.

    Args:
        mat: the sparse array.

    Returns:
        A dense array.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_todense(sparse.eye(2))
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return bcoo_todense_p.call(mat.data, mat.indices, spinfo=mat._info)[0]


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCOO:
    """Return the elements of an array that are not zero, as a sparse array.

    Args:
        mat: the dense array.
        nse: how many elements to store. By default as many as are needed; under ``jit`` it must be
            given.
        n_batch: the number of batch dimensions, which come first.
        n_dense: the number of dense dimensions, which come last.
        index_dtype: the dtype of the coordinates.

    Returns:
        A ``BCOO``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_fromdense(jnp.array([0., 3., 0.])).data
        Array([3.], dtype=float32)
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0:
        raise ValueError(
            f"an array of shape {mat.shape} can't have {n_batch} batch and {n_dense} dense "
            "dimensions"
        )
    if nse is None:
        mask = (mat != 0).any(tuple(range(n_batch + n_sparse, mat.ndim)))
        counts = mask.sum(tuple(range(n_batch, n_batch + n_sparse)))
        nse = concrete_count(counts.max(initial=0), "BCOO.fromdense")
        nse = max(nse, 1) if n_sparse == 0 else nse
    data, indices = bcoo_fromdense_p.call(
        mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_transpose(mat: BCOO, *, permutation: Any) -> BCOO:
    """Return the array with its dimensions in another order, each among those of its kind.

    Args:
        mat: the sparse array.
        permutation: the old position of each new dimension.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_transpose(sparse.empty((2, 3)), permutation=(1, 0)).shape
        (3, 2)
    """
    order = tuple(int(p) for p in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(f"permutation {order} does not order the dimensions of {mat}")
    n, s = mat.n_batch, mat.n_sparse
    kinds = [(p >= n) + (p >= n + s) for p in order]
    if kinds != sorted(kinds):
        raise NotImplementedError(
            f"transpose of {mat} by {order} moves dimensions between batch, sparse and dense ones;"
            " convert them to one kind with update_layout"
        )
    data, indices = bcoo_transpose_p.call(
        mat.data, mat.indices, permutation=order, spinfo=mat._info
    )
    same = order[n : n + s] == tuple(range(n, n + s))
    return BCOO(
        (data, indices),
        shape=tuple(mat.shape[p] for p in order),
        indices_sorted=mat.indices_sorted and same,
        unique_indices=mat.unique_indices,
    )


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Return the same array with its coordinates in order.

    Args:
        mat: the sparse array.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcoo_sort_indices(sparse.eye(3).T).indices_sorted
        True
    """
    data, indices = bcoo_sort_indices_p.call(mat.data, mat.indices, spinfo=mat._info)
    return BCOO(
        (data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the same array with every place stored once, in order.

    Args:
        mat: the sparse array.
        nse: how many elements to store; padded with zeros. By default as many as are needed; under
            ``jit`` it must be given.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft.experimental import sparse
        >>> double = sparse.eye(2) + sparse.eye(2)
        >>> sparse.bcoo_sum_duplicates(double).data
        Array([2., 2.], dtype=float32)
    """
    if nse is None:
        counted = count_unique(mat.indices, mat._sparse_shape)
        nse = concrete_count(counted, "sum_duplicates")
    data, indices = bcoo_sum_duplicates_p.call(
        mat.data, mat.indices, spinfo=mat._info, nse=int(nse)
    )
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array without stored zeros, every place stored once; padded to ``nse`` elements.

    >>> from weft.experimental.sparse import BCOO, bcoo
    >>> mat = BCOO((jnp.array([1.0, 0.0]), jnp.array([[0], [2]])), shape=(3,))
    >>> bcoo.bcoo_eliminate_zeros(mat).data
    Array([1.], dtype=float32)
    """
    return mat.sum_duplicates(nse=nse, remove_zeros=True)


def masked_data(mat: BCOO) -> Any:
    """Stored elements, zero where they are padding."""
    keep = inside(mat.indices, mat._sparse_shape)
    return jnp.where(trailing(keep, mat.data), mat.data, 0)
