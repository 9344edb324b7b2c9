"""COO, CSR and CSC: matrices by coordinates, by rows and by columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import numpy as jnp
from weft.base.record import Record
from weft.experimental.sparse.base import (
    JAXSparse,
    SparseOperation,
    concrete_count,
    scattered,
    taken,
)
from weft.tree.registry import register_pytree_node_class


class COOInfo(Record):
    """What is known of a matrix of coordinates besides its buffers."""

    shape: tuple[int, int]
    rows_sorted: bool = False
    cols_sorted: bool = False


# --- operations on buffers ------------------------------------------------------------------------


def rows_of(indptr: Any, nse: int) -> Any:
    """The row of each stored element; the number of rows where it is padding."""
    marks = scattered(nse + 1, indptr, jnp.ones_like(indptr))
    return jnp.cumsum(marks, dtype=indptr.dtype)[:nse] - 1


def starts_of(rows: Any, count: int) -> Any:
    """Where each row begins, for elements in the order of their rows; one more for the end."""
    sizes = scattered(count, rows, jnp.ones_like(rows))
    return jnp.concatenate([jnp.zeros(1, rows.dtype), jnp.cumsum(sizes, dtype=rows.dtype)])


def _dense(data: Any, row: Any, col: Any, shape: Any) -> Any:
    return scattered(shape, (row, col), data)


def _times(data: Any, row: Any, col: Any, x: Any, shape: Any, transpose: bool) -> Any:
    """The matrix, or its transpose, times a vector or the columns of a matrix."""
    if transpose:
        row, col, shape = col, row, shape[::-1]
    product = data.reshape(data.shape + (1,) * (x.ndim - 1)) * taken(x, col)
    return scattered((shape[0], *x.shape[1:]), row, product)


def _found(mat: Any, nse: int, index_dtype: Any) -> tuple[Any, Any, Any]:
    row, col = (i.astype(index_dtype) for i in jnp.nonzero(mat, size=nse, fill_value=mat.shape))
    return taken(mat, (row, col)), row, col


@SparseOperation
def coo_fromdense_p(mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    """Elements that are not zero, with their rows and columns."""
    return list(_found(mat, nse, index_dtype))


@SparseOperation
def coo_todense_p(data: Any, row: Any, col: Any, *, spinfo: COOInfo) -> list[Any]:
    """The matrix with all its zeros."""
    return [_dense(data, row, col, spinfo.shape)]


@SparseOperation
def coo_matvec_p(
    data: Any, row: Any, col: Any, v: Any, *, spinfo: COOInfo, transpose: bool
) -> list[Any]:
    """The product with a vector."""
    return [_times(data, row, col, v, spinfo.shape, transpose)]


coo_matmat_p = SparseOperation(coo_matvec_p.compute, "coo_matmat")


@SparseOperation
def csr_fromdense_p(mat: Any, *, nse: int, index_dtype: Any) -> list[Any]:
    """Elements that are not zero, with their columns and the beginnings of rows."""
    data, row, col = _found(mat, nse, index_dtype)
    return [data, col, starts_of(row, mat.shape[0])]


@SparseOperation
def csr_todense_p(data: Any, indices: Any, indptr: Any, *, shape: Any) -> list[Any]:
    """The matrix with all its zeros."""
    return [_dense(data, rows_of(indptr, len(data)), indices, shape)]


@SparseOperation
def csr_matvec_p(
    data: Any, indices: Any, indptr: Any, v: Any, *, shape: Any, transpose: bool
) -> list[Any]:
    """The product with a vector."""
    return [_times(data, rows_of(indptr, len(data)), indices, v, shape, transpose)]


csr_matmat_p = SparseOperation(csr_matvec_p.compute, "csr_matmat")


# --- matrices -------------------------------------------------------------------------------------


def _count(mat: Any, nse: int | None, what: str) -> int:
    return concrete_count((mat != 0).sum(), what) if nse is None else int(nse)


def _diagonal(N: int, M: int, k: int, index_dtype: Any) -> tuple[Any, Any]:
    first = jnp.arange(max(0, min(N + min(k, 0), M - max(k, 0))), dtype=index_dtype)
    return first - min(k, 0), first + max(k, 0)


class _Matrix(JAXSparse):
    """What matrices of these formats share."""

    def __init__(self, args: Any, *, shape: Any) -> None:
        self.shape = tuple(shape)
        if len(self.shape) != 2:
            raise ValueError(f"{type(self).__name__} is a format of matrices, got shape {shape}")
        self._set(tuple(map(jnp.asarray, args)))

    def _set(self, buffers: Any) -> None:
        raise NotImplementedError

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError(
                f"the product of {self!r} and {other!r}; BCOO arrays have it: BCOO.fromdense"
            )
        other = jnp.asarray(other)
        if other.ndim not in (1, 2) or other.shape[0] != self.shape[1]:
            raise TypeError(f"{self!r} cannot be multiplied with an array of shape {other.shape}")
        dtype = jnp.result_type(self.dtype, other.dtype)
        return self._times(self.data.astype(dtype), other.astype(dtype))

    def _times(self, data: Any, other: Any) -> Any:
        raise NotImplementedError


@register_pytree_node_class
class COO(_Matrix):
    """A matrix of elements with their rows and columns.

    Args:
        args: the triple (data, row, col), vectors of one length.
        shape: the shape of the array.
        rows_sorted: promise that the rows are in order.
        cols_sorted: promise that the columns are in order within each row.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.COO.fromdense(jnp.eye(2)) @ jnp.ones(2)
        Array([1., 1.], dtype=float32)
    """

    def __init__(
        self, args: Any, *, shape: Any, rows_sorted: bool = False, cols_sorted: bool = False
    ) -> None:
        super().__init__(args, shape=shape)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted

    def _set(self, buffers: Any) -> None:
        self.data, self.row, self.col = buffers

    @property
    def _info(self) -> COOInfo:
        return COOInfo(self.shape, self._rows_sorted, self._cols_sorted)  # type: ignore[arg-type]

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.data, self.row, self.col), self._info

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> COO:
        made = object.__new__(cls)
        made.data, made.row, made.col = children
        made.shape, made._rows_sorted, made._cols_sorted = aux_data
        return made

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """The elements of a matrix that are not zero."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        none = jnp.zeros(0, index_dtype)
        return cls((jnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        row, col = _diagonal(N, M, k, index_dtype)
        return cls((jnp.ones(row.shape, dtype), row, col), shape=(N, M), rows_sorted=True)

    def todense(self) -> Any:
        """The matrix with all its zeros."""
        return coo_todense(self)

    def transpose(self, axes: Any = None) -> COO:
        """The transposed matrix."""
        _check_axes(axes)
        rows, cols = self._cols_sorted, self._rows_sorted
        buffers = (self.data, self.col, self.row)
        return COO(buffers, shape=self.shape[::-1], rows_sorted=rows, cols_sorted=cols)

    def _times(self, data: Any, other: Any) -> Any:
        product = coo_matvec_p if other.ndim == 1 else coo_matmat_p
        return product.call(data, self.row, self.col, other, spinfo=self._info, transpose=False)[0]


def _check_axes(axes: Any) -> None:
    if axes is not None and tuple(axes) != (1, 0):
        raise NotImplementedError(f"a matrix is transposed by (1, 0), got {axes}")


class _Compressed(_Matrix):
    """A matrix of elements in an order, with the beginning of each row or column in it."""

    def _set(self, buffers: Any) -> None:
        self.data, self.indices, self.indptr = buffers

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.data, self.indices, self.indptr), self.shape

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.shape = aux_data
        return made


@register_pytree_node_class
class CSR(_Compressed):
    """A matrix of elements in the order of their rows.

    Args:
        args: the triple (data, indices, indptr): elements, their columns, and where each row begins
            and ends.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.CSR.fromdense(jnp.array([[0., 2.], [3., 4.]])).indptr
        Array([0, 1, 3], dtype=int32)
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> Any:
        """The elements of a matrix that are not zero."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        indptr = jnp.zeros(shape[0] + 1, index_dtype)
        return cls((jnp.zeros(0, dtype), jnp.zeros(0, index_dtype), indptr), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        row, col = _diagonal(N, M, k, index_dtype)
        return cls((jnp.ones(row.shape, dtype), col, starts_of(row, N)), shape=(N, M))

    def todense(self) -> Any:
        """The matrix with all its zeros."""
        return csr_todense(self)

    def transpose(self, axes: Any = None) -> CSC:
        """The transposed matrix, by columns."""
        _check_axes(axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def _times(self, data: Any, other: Any) -> Any:
        product = csr_matvec_p if other.ndim == 1 else csr_matmat_p
        return product.call(
            data, self.indices, self.indptr, other, shape=self.shape, transpose=False
        )[0]


@register_pytree_node_class
class CSC(_Compressed):
    """A matrix of elements in the order of their columns.

    Args:
        args: the triple (data, indices, indptr): elements, their rows, and where each column begins
            and ends.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.CSC.fromdense(jnp.array([[0., 2.], [3., 4.]])).data
        Array([3., 2., 4.], dtype=float32)
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """The elements of a matrix that are not zero."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._empty(shape[::-1], dtype=dtype, index_dtype=index_dtype).transpose()

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).transpose()

    def todense(self) -> Any:
        """The matrix with all its zeros."""
        return csr_todense(self.transpose()).T

    def transpose(self, axes: Any = None) -> CSR:
        """The transposed matrix, by rows."""
        _check_axes(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def _times(self, data: Any, other: Any) -> Any:
        product = csr_matvec_p if other.ndim == 1 else csr_matmat_p
        turned = self.shape[::-1]
        return product.call(data, self.indices, self.indptr, other, shape=turned, transpose=True)[0]


# --- functions ------------------------------------------------------------------------------------


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """Return the elements of a matrix that are not zero, by coordinates.

    Args:
        mat: the dense matrix.
        nse: how many elements to store. By default as many as are needed; under ``jit`` it must be
            given.
        index_dtype: the dtype of the coordinates.

    Returns:
        A ``COO``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.coo_fromdense(jnp.eye(3))
        COO(float32[3, 3], nse=3)
    """
    mat = jnp.asarray(mat)
    nse = _count(mat, nse, "COO.fromdense")
    buffers = coo_fromdense_p.call(mat, nse=nse, index_dtype=np.dtype(index_dtype))
    return COO(buffers, shape=mat.shape, rows_sorted=True)


def coo_todense(mat: COO) -> Any:
    """Return a sparse matrix with all its zeros.

    Args:
        mat: the sparse array.

    Returns:
        A dense matrix.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.coo_todense(sparse.eye(2, sparse_format='coo')).sum().item()
        2.0
    """
    return coo_todense_p.call(mat.data, mat.row, mat.col, spinfo=mat._info)[0]


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """Return a sparse matrix, or its transpose, times a vector.

    Args:
        mat: the sparse array.
        v: a dense vector.
        transpose: multiply by the transpose.

    Returns:
        A dense vector.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.coo_matvec(sparse.eye(2, 3, sparse_format='coo'), jnp.ones(2), transpose=True)
        Array([1., 1., 0.], dtype=float32)
    """
    buffers = mat.data, mat.row, mat.col
    v = jnp.asarray(v)
    return coo_matvec_p.call(*buffers, v, spinfo=mat._info, transpose=bool(transpose))[0]


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """Return a sparse matrix, or its transpose, times a dense matrix.

    Args:
        mat: the sparse array.
        B: a dense matrix.
        transpose: multiply by the transpose.

    Returns:
        A dense matrix.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.coo_matmat(sparse.eye(2, sparse_format='coo'), jnp.ones((2, 1))).shape
        (2, 1)
    """
    buffers = mat.data, mat.row, mat.col
    B = jnp.asarray(B)
    return coo_matmat_p.call(*buffers, B, spinfo=mat._info, transpose=bool(transpose))[0]


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """Return the elements of a matrix that are not zero, by rows.

    Args:
        mat: the dense matrix.
        nse: how many elements to store. By default as many as are needed; under ``jit`` it must be
            given.
        index_dtype: the dtype of the coordinates.

    Returns:
        A ``CSR``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.csr_fromdense(jnp.eye(3)).indptr
        Array([0, 1, 2, 3], dtype=int32)
    """
    mat = jnp.asarray(mat)
    nse = _count(mat, nse, "CSR.fromdense")
    buffers = csr_fromdense_p.call(mat, nse=nse, index_dtype=np.dtype(index_dtype))
    return CSR(buffers, shape=mat.shape)


def csr_todense(mat: CSR) -> Any:
    """Return a sparse matrix with all its zeros.

    Args:
        mat: the sparse array.

    Returns:
        A dense matrix.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.csr_todense(sparse.eye(2, sparse_format='csr')).sum().item()
        2.0
    """
    return csr_todense_p.call(mat.data, mat.indices, mat.indptr, shape=mat.shape)[0]


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """Return a sparse matrix, or its transpose, times a vector.

    Args:
        mat: the sparse array.
        v: a dense vector.
        transpose: multiply by the transpose.

    Returns:
        A dense vector.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.csr_matvec(sparse.eye(2, sparse_format='csr'), jnp.array([1., 2.]))
        Array([1., 2.], dtype=float32)
    """
    buffers = mat.data, mat.indices, mat.indptr
    v = jnp.asarray(v)
    return csr_matvec_p.call(*buffers, v, shape=mat.shape, transpose=bool(transpose))[0]


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """Return a sparse matrix, or its transpose, times a dense matrix.

    Args:
        mat: the sparse array.
        B: a dense matrix.
        transpose: multiply by the transpose.

    Returns:
        A dense matrix.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.csr_matmat(sparse.eye(2, sparse_format='csr'), jnp.ones((2, 1))).shape
        (2, 1)
    """
    buffers = mat.data, mat.indices, mat.indptr
    B = jnp.asarray(B)
    return csr_matmat_p.call(*buffers, B, shape=mat.shape, transpose=bool(transpose))[0]
