"""BCSR: batches of matrices by rows; two sparse dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import numpy as jnp
from weft.experimental.sparse.base import JAXSparse, SparseInfo, SparseOperation, over_batch
from weft.experimental.sparse.bcoo_arithmetic import bcoo_dot_general
from weft.experimental.sparse.bcoo_array import BCOO, bcoo_fromdense
from weft.experimental.sparse.bcoo_buffers import (
    bcoo_dot_general_p,
    bcoo_extract_p,
    bcoo_fromdense_p,
    bcoo_todense_p,
)
from weft.experimental.sparse.bcoo_layout import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    full_buffers,
)
from weft.experimental.sparse.rows import rows_of, starts_of
from weft.tree.registry import register_pytree_node_class


def _pairs(indices: Any, indptr: Any) -> Any:
    """Rows and columns of stored elements."""

    def one(indices: Any, indptr: Any) -> Any:
        rows = rows_of(indptr, indices.shape[0]).astype(indices.dtype)
        return jnp.stack([rows, indices], -1)

    n = indices.ndim - 1
    batch = np.broadcast_shapes(indices.shape[:n], indptr.shape[:n])
    indices = jnp.broadcast_to(indices, (*batch, *indices.shape[n:]))
    indptr = jnp.broadcast_to(indptr, (*batch, *indptr.shape[n:]))
    return over_batch(one, n)(indices, indptr)


def _starts(pairs: Any, count: int) -> Any:
    return over_batch(lambda rows: starts_of(rows, count), pairs.ndim - 2)(pairs[..., 0])


@SparseOperation
def bcsr_fromdense_p(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> list[Any]:
    """Elements that are not zero, their columns, and where rows begin."""
    options = {"nse": nse, "n_batch": n_batch, "n_dense": n_dense, "index_dtype": index_dtype}
    data, pairs = bcoo_fromdense_p.call(mat, **options)
    return [data, pairs[..., 1], _starts(pairs, mat.shape[n_batch])]


@SparseOperation
def bcsr_todense_p(data: Any, indices: Any, indptr: Any, *, spinfo: SparseInfo) -> list[Any]:
    """The array with all its zeros."""
    return bcoo_todense_p.call(data, _pairs(indices, indptr), spinfo=spinfo)


@SparseOperation
def bcsr_extract_p(indices: Any, indptr: Any, mat: Any) -> list[Any]:
    """The elements of a dense array at the places of stored ones."""
    return bcoo_extract_p.call(_pairs(indices, indptr), mat, assume_unique=True)


@SparseOperation
def bcsr_dot_general_p(data: Any, indices: Any, indptr: Any, rhs: Any, **params: Any) -> list[Any]:
    """The product with a dense array."""
    return bcoo_dot_general_p.call(data, _pairs(indices, indptr), rhs, **params)


@register_pytree_node_class
class BCSR(JAXSparse):
    """Matrices by rows, with batch dimensions before the two sparse ones and dense ones after.

    Args:
        args: the triple (data, indices, indptr): elements, their columns, and where each row begins
            and ends.
        shape: the shape of the array.
        indices_sorted: promise that the coordinates are in order.
        unique_indices: promise that no place is stored twice.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> mat = sparse.BCSR.fromdense(jnp.array([[0., 1.], [2., 3.]]))
        >>> mat.indptr, mat @ jnp.ones(2)
        (Array([0, 1, 3], dtype=int32), Array([1., 5.], dtype=float32))
    """

    def __init__(
        self, args: Any, *, shape: Any, indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        data, indices, indptr = map(jnp.asarray, args)
        shape = tuple(shape)
        n = indices.ndim - 1
        n_dense = data.ndim - 1 - n
        fits = n >= 0 and n_dense >= 0 and len(shape) == n + 2 + n_dense
        if not fits or indptr.shape[-1] != shape[n] + 1 or data.shape[n] != indices.shape[n]:
            raise ValueError(
                f"data, indices and indptr of shapes {data.shape}, {indices.shape} and"
                f" {indptr.shape} are not those of a BCSR array of shape {shape}"
            )
        self.data, self.indices, self.indptr = data, indices, indptr
        self._columns = shape[n + 1]
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices

    @property
    def n_batch(self) -> int:
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        return 2

    @property
    def n_dense(self) -> int:
        return self.data.ndim - self.indices.ndim

    @property
    def nse(self) -> int:
        return self.indices.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        n = self.n_batch
        batch = np.broadcast_shapes(*(buffer.shape[:n] for buffer in self._bufs))
        return (*batch, *self._sparse_shape, *self.data.shape[n + 1 :])

    @property
    def _sparse_shape(self) -> tuple[int, int]:
        return self.indptr.shape[-1] - 1, self._columns

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        aux = self._columns, self.indices_sorted, self.unique_indices
        return (self.data, self.indices, self.indptr), aux

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> BCSR:
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made._columns, made.indices_sorted, made.unique_indices = aux_data
        return made

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The elements of an array that are not zero."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array by rows."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BCSR has two sparse dimensions, {arr} has {arr.n_sparse}")
        arr = arr if arr.indices_sorted else arr.sort_indices()
        data, pairs = full_buffers(arr)
        indptr = _starts(pairs, arr._sparse_shape[0])
        return cls((data, pairs[..., 1], indptr), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The same matrix as one of scipy.sparse."""
        if n_dense or n_batch:
            raise NotImplementedError("matrices of scipy.sparse have no batch or dense dimensions")
        mat = mat.tocsr()
        dtype = index_dtype or jnp.int32
        indices, indptr = (jnp.asarray(x).astype(dtype) for x in (mat.indices, mat.indptr))
        return cls((mat.data, indices, indptr), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Any, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._empty(shape, **options))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._eye(N, M, k, **options))

    def to_bcoo(self) -> BCOO:
        """The same array by coordinates."""
        return BCOO(
            (self.data, _pairs(self.indices, self.indptr)),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Any:
        """The array with all its zeros."""
        return bcsr_todense(self)

    def transpose(self, axes: Any = None) -> BCSR:
        """The transposed array, by its rows."""
        return BCSR.from_bcoo(self.to_bcoo().transpose(axes))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The same array with every place stored once."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))


def bcsr_todense(mat: BCSR) -> Any:
    """Return a sparse array with all its zeros.

    Args:
        mat: the sparse array.

    Returns:
        A dense array.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcsr_todense(sparse.eye(2, sparse_format='bcsr')).sum().item()
        2.0
    """
    return bcsr_todense_p.call(mat.data, mat.indices, mat.indptr, spinfo=mat._info)[0]


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCSR:
    """Return the elements of an array that are not zero, by rows.

    Args:
        mat: the dense array.
        nse: how many elements to store. By default as many as are needed; under ``jit`` it must be
            given.
        n_batch: the number of batch dimensions, which come first.
        n_dense: the number of dense dimensions, which come last.
        index_dtype: the dtype of the coordinates.

    Returns:
        A ``BCSR``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.bcsr_fromdense(jnp.eye(3))
        BCSR(float32[3, 3], nse=3)
    """
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(
            f"BCSR has two sparse dimensions; an array of shape {mat.shape} with {n_batch} batch"
            f" and {n_dense} dense ones has {mat.ndim - n_batch - n_dense}"
        )
    if nse is None:
        nse = bcoo_fromdense(mat, n_batch=n_batch, n_dense=n_dense).nse
    data, indices, indptr = bcsr_fromdense_p.call(
        mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return BCSR((data, indices, indptr), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """Return the elements of a dense array at given places.

    Args:
        indices: the columns of the places.
        indptr: where each row begins and ends in ``indices``.
        mat: the dense array.

    Returns:
        The elements, of the shape of ``indices``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> mat = jnp.array([[1., 2.], [3., 4.]])
        >>> sparse.bcsr_extract(jnp.array([1]), jnp.array([0, 1, 1]), mat)
        Array([2.], dtype=float32)
    """
    return bcsr_extract_p.call(*map(jnp.asarray, (indices, indptr, mat)))[0]


def bcsr_dot_general(
    lhs: BCSR,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the product of a sparse and a dense array.

    Args:
        lhs: the sparse operand.
        rhs: the dense operand.
        dimension_numbers: the contracted and batch dimensions, as ``lax.dot_general`` takes them.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        preferred_element_type: the dtype in which products are summed.
        out_sharding: accepted for JAX, no effect.

    Returns:
        A dense array.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.bcsr_dot_general(sparse.eye(2, sparse_format='bcsr'), jnp.array([3., 4.]),
        ...                         dimension_numbers=(((1,), (0,)), ((), ())))
        Array([3., 4.], dtype=float32)
    """
    (left, right), (left_batch, right_batch) = dimension_numbers
    rhs_is_sparse = isinstance(rhs, JAXSparse)
    dims = (*left, *left_batch)
    inner = all(d < lhs.n_batch + 2 for d in dims) and all(d < lhs.n_batch for d in left_batch)
    same = inner and [lhs.shape[d] for d in dims] == [rhs.shape[d] for d in (*right, *right_batch)]
    if rhs_is_sparse or not same:
        other = rhs.to_bcoo() if isinstance(rhs, BCSR) else rhs
        return bcoo_dot_general(
            lhs.to_bcoo(),
            other,
            dimension_numbers=dimension_numbers,
            preferred_element_type=preferred_element_type,
        )
    rhs = jnp.asarray(rhs)
    numbers = (tuple(left), tuple(right)), (tuple(left_batch), tuple(right_batch))
    dtype = np.dtype(preferred_element_type or jnp.result_type(lhs.dtype, rhs.dtype))
    return bcsr_dot_general_p.call(
        lhs.data,
        lhs.indices,
        lhs.indptr,
        rhs,
        dimension_numbers=numbers,
        preferred_element_type=dtype,
        lhs_spinfo=lhs._info,
    )[0]


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Any, broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """Return the array repeated along new dimensions, which become batch or dense ones.

    Args:
        mat: the sparse array.
        shape: the new shape.
        broadcast_dimensions: the new position of each old dimension.
        sharding: accepted for JAX, no effect.

    Returns:
        A ``BCSR``.

    Example:
        >>> from weft.experimental import sparse
        >>> mat = sparse.eye(2, sparse_format='bcsr')
        >>> sparse.bcsr_broadcast_in_dim(mat, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
        BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    wide = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    return BCSR.from_bcoo(wide)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Return arrays joined along a batch or sparse dimension.

    Args:
        operands: the arrays.
        dimension: the dimension along which to join.

    Returns:
        A ``BCSR``.

    Example:
        >>> from weft.experimental import sparse
        >>> mat = sparse.eye(2, sparse_format='bcsr')
        >>> sparse.bcsr_concatenate([mat, mat], dimension=0).indptr
        Array([0, 1, 2, 3, 4], dtype=int32)
    """
    return BCSR.from_bcoo(bcoo_concatenate([x.to_bcoo() for x in operands], dimension=dimension))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the same array with every place stored once.

    Args:
        mat: the sparse array.
        nse: how many elements to store. By default as many as are needed; under ``jit`` it must be
            given.

    Returns:
        A ``BCSR``.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.bcsr_sum_duplicates(sparse.eye(2, sparse_format='bcsr')).nse
        2
    """
    return mat.sum_duplicates(nse=nse, remove_zeros=False)


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array without stored zeros.

    >>> from weft.experimental.sparse import BCSR, bcsr
    >>> bcsr.bcsr_eliminate_zeros(BCSR.fromdense(np.eye(2), nse=4)).nse
    2
    """
    return mat.sum_duplicates(nse=nse, remove_zeros=True)
