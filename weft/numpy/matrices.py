"""Special matrices and the diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import divided_alike
from weft.core import sharding as meshes
from weft.core.array import Array
from weft.core.dims.dim import Dim, max_dim, min_dim, whole
from weft.core.trace import Tracer
from weft.lax.shape import canonical_axis
from weft.numpy.broadcasting import choose_where, full_of
from weft.numpy.creation import arange, array, asarray, ones, placed, zeros_like
from weft.numpy.indexing import getitem, update_index
from weft.numpy.manipulation import expand_dims, moveaxis, ravel, reshape, tile
from weft.numpy.positions import nonzero
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    convert_operand,
    ensure_array,
    ensure_arrays,
    promote_dtypes,
    refuse_out,
)
from weft.numpy.reductions import sum
from weft.numpy.ufuncs import multiply, power, subtract
from weft.prims.families import const, scalar

_BOOL = np.dtype(np.bool_)
_INT32 = np.dtype(np.int32)


def _size(name: str, value: Any) -> int:
    size = whole(concrete(value, f"{name} needs concrete sizes"))
    if size < 0:
        error = TypeError if name == "tri" else ValueError
        raise error(f"{name} needs non-negative sizes, got {size}")
    return size


def _clipped(k: Any) -> Any:
    """An offset within the range of int32: beyond it, every diagonal is empty anyway."""
    if isinstance(k, int):
        return int(np.clip(k, -(2**31), 2**31 - 1))
    return k


def eye(
    N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *, device: Any = None
) -> Array:
    """Return a matrix with ones on one diagonal and zeros elsewhere.

    Args:
        N: Number of rows.
        M: Number of columns; by default ``N``.
        k: Diagonal: 0 is the main one, positive ones lie above, negative ones below.
        dtype: Dtype of the result; by default the default float type.
        device: Device or sharding to put the result on.

    Returns:
        Array of shape (N, M).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.eye(2)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    wanted = dtypes.check_user_dtype(float if dtype is None else dtype, "eye")
    offset = ensure_array("eye", _clipped(k))
    if offset.shape or not dtypes.issubdtype(offset.dtype, np.integer):
        raise ValueError(f"eye needs a scalar integer k, got {k}")
    rows = _size("eye", N)
    sizes = (rows, rows if M is None else _size("eye", M))
    i = lax.broadcasted_iota(offset.dtype, sizes, 0)
    j = lax.broadcasted_iota(offset.dtype, sizes, 1)
    shifted = lax.add(i, convert_operand(offset, offset.dtype))
    return placed(as_array(convert_operand(lax.eq(shifted, j), wanted)), device, None)


def identity(n: int, dtype: Any = None) -> Array:
    """Return the identity matrix.

    Args:
        n: Number of rows and columns.
        dtype: Dtype of the result; by default the default float type.

    Returns:
        Array of shape (n, n).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.identity(1)
        Array([[1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _diagonal(k: Any, sizes: tuple[int, int]) -> Any:
    """The diagonal ``k`` of ``tri``, moved to the nearest that leaves nothing or everything."""
    low, high = -sizes[0], sizes[1]
    if isinstance(k, Tracer):
        if k.shape or not dtypes.issubdtype(k.dtype, np.integer):
            raise TypeError(f"tri needs an integer k, got {k}")
        info = dtypes.iinfo(k.dtype)
        limits = (const(k, max(low, info.min)), const(k, min(high, info.max)))
        return convert_operand(lax.clamp(limits[0], k, limits[1]), _INT32)
    if isinstance(k, bool):
        raise TypeError(f"tri needs an integer k, got {k}")
    offset = whole(k)
    if type(offset) is not Dim and not -(2**31) <= offset < 2**31:
        raise OverflowError(f"tri takes a diagonal k within the range of int32, got {offset}")
    return scalar(_INT32, min_dim(max_dim(offset, low), high))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """Return a matrix with ones at and below a diagonal.

    Args:
        N: Number of rows.
        M: Number of columns; by default ``N``.
        k: The last diagonal that is filled: 0 is the main one, positive ones lie above.
        dtype: Dtype of the result; by default the default float type.

    Returns:
        Array of shape (N, M).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tri(2, dtype=int)
        Array([[1, 0],
               [1, 1]], dtype=int32)
    """
    wanted = np.dtype(np.float32) if dtype is None else dtypes.check_user_dtype(dtype, "tri")
    rows = _size("tri", N)
    sizes = (rows, rows if M is None else _size("tri", M))
    i = lax.broadcasted_iota(_INT32, sizes, 0)
    shifted = lax.add(i, _diagonal(k, sizes))
    mask = lax.ge(shifted, lax.broadcasted_iota(_INT32, sizes, 1))
    return as_array(convert_operand(mask, wanted))


def _triangle(name: str, m: Any, k: int) -> tuple[Any, Any]:
    """A stack of matrices, and the mask of their lower triangles."""
    x = ensure_array(name, m)
    if x.ndim < 2:
        raise ValueError(f"{name} needs an array of at least two dimensions, got shape {x.shape}")
    mask = tri(*x.shape[-2:], k=k, dtype=_BOOL)
    mask = lax.broadcast(mask, x.shape[:-2])
    if meshes.explicit_ones:
        mask, _ = divided_alike(name, mask, x)
    return x, mask


def tril(m: Any, k: int = 0) -> Array:
    """Return the lower triangle of matrices, with zeros above a diagonal.

    Args:
        m: Array of shape (..., M, N).
        k: The last diagonal that is kept: 0 is the main one, positive ones lie above.

    Returns:
        Array with the shape and dtype of ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tril(jnp.ones((2, 2)))
        Array([[1., 0.],
               [1., 1.]], dtype=float32)
    """
    x, mask = _triangle("tril", m, k)
    return lax.select(mask, x, full_of(x, 0))


def triu(m: Any, k: int = 0) -> Array:
    """Return the upper triangle of matrices, with zeros below a diagonal.

    Args:
        m: Array of shape (..., M, N).
        k: The first diagonal that is kept: 0 is the main one, negative ones lie below.

    Returns:
        Array with the shape and dtype of ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.triu(jnp.ones((2, 2)))
        Array([[1., 1.],
               [0., 1.]], dtype=float32)
    """
    x, mask = _triangle("triu", m, k - 1)
    return lax.select(mask, full_of(x, 0), x)


# --- diagonals ------------------------------------------------------------------------------------


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return a diagonal of a matrix, or of each matrix in the plane of two axes.

    Args:
        a: Array of at least two dimensions.
        offset: Diagonal: 0 is the main one, positive ones lie above, negative ones below.
        axis1: Axis of the rows.
        axis2: Axis of the columns.

    Returns:
        Array without these two axes, with the diagonals along a new last axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    x = ensure_array("diagonal", a)
    if x.ndim < 2:
        raise ValueError(f"diagonal needs at least two dimensions, got shape {x.shape}")
    offset = operator.index(concrete(offset, "diagonal needs a concrete offset"))
    rows, columns = (x.shape[canonical_axis(i, x.ndim)] for i in (axis1, axis2))
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    i, j = arange(count), arange(abs(offset), abs(offset) + count)
    return getitem(x, (..., i, j) if offset >= 0 else (..., j, i))


def diag(v: Any, k: int = 0) -> Array:
    """Return a matrix with a vector on a diagonal, or the diagonal of a matrix.

    Args:
        v: Vector or matrix.
        k: Diagonal: 0 is the main one, positive ones lie above, negative ones below.

    Returns:
        Matrix of size ``len(v) + abs(k)`` for a vector, vector for a matrix.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.diag(jnp.array([1, 2]))
        Array([[1, 0],
               [0, 2]], dtype=int32)
    """
    x = ensure_array("diag", v)
    k = operator.index(k)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix, got shape {x.shape}")
    zero = const(x, 0)
    x = lax.pad(x, zero, ((max(0, -k), max(0, k), 0),))
    mask = eye(x.shape[0], k=k, dtype=_BOOL)
    return choose_where(mask, lax.expand_dims(x, (1,)), zero)


def diagflat(v: Any, k: int = 0) -> Array:
    """Return a matrix with all elements of an array on a diagonal.

    Args:
        v: Array, which is flattened.
        k: Diagonal: 0 is the main one, positive ones lie above, negative ones below.

    Returns:
        Matrix of size ``v.size + abs(k)``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.diagflat(jnp.array([[1], [2]]))
        Array([[1, 0],
               [0, 2]], dtype=int32)
    """
    out = diag(ravel(v), k)
    return convert_operand(out, out.dtype)


def trace(
    a: Any,
    offset: Any = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Array:
    """Return the sum of a diagonal.

    Args:
        a: Array of at least two dimensions.
        offset: Diagonal: 0 is the main one, positive ones lie above, negative ones below. It may be
            traced.
        axis1: Axis of the rows.
        axis2: Axis of the columns.
        dtype: Dtype to sum in and to return; by default that of ``a``, with narrow integers
            widened.
        out: Must be None.

    Returns:
        Array without these two axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.trace(jnp.array([[1, 2], [3, 4]])).item()
        5
    """
    x = ensure_array("trace", a)
    refuse_out("trace", out)
    if canonical_axis(axis1, x.ndim) == canonical_axis(axis2, x.ndim):
        raise ValueError(f"trace needs two different axes, got {axis1} and {axis2}")
    rows, columns = x.shape[axis1], x.shape[axis2]
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    mask = eye(rows, columns, k=offset, dtype=_BOOL)
    return sum(choose_where(mask, x, full_of(x, 0)), axis=(-2, -1), dtype=dtype)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array:
    """Return a copy of an array with values on its main diagonal.

    Args:
        a: Array of at least two dimensions, of equal sizes if there are more than two.
        val: Scalar, or array whose elements are written in order and repeated as needed.
        wrap: Must be False: tall matrices are filled once, not in several diagonals.
        inplace: Must be False: arrays are immutable, the result is a new array.

    Returns:
        Array with the shape and dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 7, inplace=False)
        Array([[7., 0.],
               [0., 7.]], dtype=float32)
    """
    if inplace:
        raise NotImplementedError(
            "arrays are immutable: write a = fill_diagonal(a, val, inplace=False)"
        )
    if wrap:
        raise NotImplementedError(
            "fill_diagonal does not support wrap; fill the rows with a.at[...].set"
        )
    x, values = ensure_arrays("fill_diagonal", a, val)
    if x.ndim < 2:
        raise ValueError(f"fill_diagonal needs at least two dimensions, got shape {x.shape}")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(f"fill_diagonal needs dimensions of equal size, got shape {x.shape}")
    size = min(x.shape)
    diagonal_places = diag_indices(size, x.ndim)
    if values.ndim:
        flat = ravel(values)
        values = tile(flat, -(-size // flat.size))[:size] if flat.size != size else flat
    return update_index(x, diagonal_places, values, lax.scatter)


# --- indices of diagonals and triangles -----------------------------------------------------------


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array of equal sizes.

    Args:
        n: Size of each axis.
        ndim: Number of axes.

    Returns:
        Tuple of ``ndim`` integer vectors of length ``n``, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.diag_indices(2)
        (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    return (lax.iota(dtypes.default_int_dtype(), _size("diag_indices", n)),) * _size(
        "diag_indices", ndim
    )


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of a given array.

    Args:
        arr: Array of at least two dimensions, all of one size.

    Returns:
        Tuple of ``arr.ndim`` integer vectors, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.diag_indices_from(jnp.ones((2, 2)))
        (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    x = ensure_array("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ValueError(
            f"diag_indices_from needs at least two dimensions, all of one size, got {x.shape}"
        )
    return diag_indices(x.shape[0], x.ndim)


def _places(known: tuple[np.ndarray, np.ndarray]) -> tuple[Array, Array]:
    """Indices that are known as arrays of the default integer."""
    dtype = dtypes.default_int_dtype()
    i, j = (asarray(index.astype(dtype)) for index in known)
    return i, j


def _static(name: str, *values: Any) -> list[int]:
    return [whole(concrete(v, f"{name} needs concrete sizes")) for v in values]


def _triangle_sizes(name: str, n: Any, k: Any, m: Any) -> tuple[Any, Any, Any]:
    n, k, m = _static(name, n, k, n if m is None else m)
    if n < 0 or m < 0:
        raise TypeError(f"{name} needs non-negative sizes, got {n} and {m}")
    return n, k, m


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the upper triangle of a matrix.

    Args:
        n: Number of rows.
        k: The first diagonal that belongs to the triangle: 0 is the main one.
        m: Number of columns; by default ``n``.

    Returns:
        Pair of integer vectors, rows and columns, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.triu_indices(2)
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, k, m = _triangle_sizes("triu_indices", n, k, m)
    if type(n) is Dim and n == m and k == 0:
        i, j = nonzero(lax.bitwise_not(tri(n, m, -1, bool)), size=n * (n + 1) // 2)
        return i, j
    return _places(np.triu_indices(n, k, m))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the lower triangle of a matrix.

    Args:
        n: Number of rows.
        k: The last diagonal that belongs to the triangle: 0 is the main one.
        m: Number of columns; by default ``n``.

    Returns:
        Pair of integer vectors, rows and columns, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tril_indices(2)
        (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, k, m = _triangle_sizes("tril_indices", n, k, m)
    if type(n) is Dim and n == m and k == 0:
        i, j = nonzero(tri(n, m, 0, bool), size=n * (n + 1) // 2)
        return i, j
    return _places(np.tril_indices(n, k, m))


def _matrix_shape(name: str, arr: Any) -> tuple[int, int]:
    shape = arr.shape if hasattr(arr, "shape") else ensure_array(name, arr).shape
    if len(shape) != 2:
        raise ValueError(f"{name} takes a matrix, got shape {shape}")
    return shape


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the upper triangle of a given matrix.

    Args:
        arr: Matrix, of which only the shape is used.
        k: The first diagonal that belongs to the triangle: 0 is the main one.

    Returns:
        Pair of integer vectors, rows and columns, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> len(jnp.triu_indices_from(jnp.ones((2, 2)))[0])
        3
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k, m)


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the lower triangle of a given matrix.

    Args:
        arr: Matrix, of which only the shape is used.
        k: The last diagonal that belongs to the triangle: 0 is the main one.

    Returns:
        Pair of integer vectors, rows and columns, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> len(jnp.tril_indices_from(jnp.ones((2, 2)))[0])
        3
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k, m)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """Return the indices of the elements of a square matrix that a mask function keeps.

    Args:
        n: Number of rows and columns.
        mask_func: Function of a matrix and ``k``, such as ``triu``, that sets elements to zero.
        k: Second argument of ``mask_func``.
        size: Static number of indices, needed under ``jit``; missing ones are 0, further ones are
            cut.

    Returns:
        Pair of integer vectors, rows and columns, to index with.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.mask_indices(2, jnp.triu)
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    i, j = nonzero(mask_func(ones((n, n)), k), size=size)
    return i, j


# --- products and powers --------------------------------------------------------------------------


def kron(a: Any, b: Any) -> Array:
    """Return the Kronecker product: every element of ``a`` times all of ``b``.

    Args:
        a: Array of any shape.
        b: Array; the one with fewer dimensions gets new ones in front.

    Returns:
        Array whose size along each axis is the product of the two sizes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
        Array([ 1,  2, 10, 20], dtype=int32)
    """
    check_arraylike("kron", a, b)
    x, y = (as_array(v) for v in promote_dtypes(a, b))
    rank = max(x.ndim, y.ndim)
    x = expand_dims(x, tuple(range(rank - x.ndim)))
    y = expand_dims(y, tuple(range(rank - y.ndim)))
    sizes = tuple(n * m for n, m in zip(x.shape, y.shape, strict=True))
    x = expand_dims(x, tuple(range(1, 2 * rank, 2)))
    y = expand_dims(y, tuple(range(0, 2 * rank, 2)))
    return reshape(lax.mul(x, y), sizes)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """Return a Vandermonde matrix: the powers of a vector as columns.

    Args:
        x: Vector of numbers.
        N: Number of columns; by default ``len(x)``.
        increasing: If true, powers increase from left to right; else they decrease.

    Returns:
        Array of shape (len(x), N).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.vander(jnp.array([2, 3]), 3)
        Array([[4, 2, 1],
               [9, 3, 1]], dtype=int32)
    """
    x = ensure_array("vander", x)
    if x.ndim != 1:
        raise ValueError(f"vander takes a vector, got shape {x.shape}")
    count = x.shape[0] if N is None else _size("vander", N)
    exponents = lax.iota(x.dtype, count)
    if not increasing:
        exponents = lax.sub(const(exponents, count - 1), exponents)
    return power(lax.expand_dims(x, (1,)), lax.expand_dims(exponents, (0,)))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Return the cross product of vectors with two or three components.

    Args:
        a: Array of vectors along ``axisa``.
        b: Array of vectors along ``axisb``; the other axes broadcast.
        axisa: Axis of ``a`` that holds the components.
        axisb: Axis of ``b`` that holds the components.
        axisc: Axis of the result that holds the components.
        axis: If given, takes the place of ``axisa``, ``axisb`` and ``axisc``.

    Returns:
        Array of vectors; of two vectors with two components, only the third component, without the
        axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = ensure_arrays("cross", a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(f"cross takes 2 or 3 components, got shapes {x.shape} and {y.shape}")
    if x.shape[-1] == y.shape[-1] == 2:
        first = multiply(x[..., 0], y[..., 1])
        return subtract(first, multiply(x[..., 1], y[..., 0]))
    x0, x1, x2 = _components(x)
    y0, y1, y2 = _components(y)
    rows = [_minor(x1, y2, x2, y1), _minor(x2, y0, x0, y2), _minor(x0, y1, x1, y0)]
    return moveaxis(array(rows), 0, axisc)


def _minor(a: Any, b: Any, c: Any, d: Any) -> Any:
    return subtract(multiply(a, b), multiply(c, d))


def _components(x: Any) -> tuple[Any, Any, Any]:
    first, second = x[..., 0], x[..., 1]
    return first, second, x[..., 2] if x.shape[-1] == 3 else zeros_like(first)
