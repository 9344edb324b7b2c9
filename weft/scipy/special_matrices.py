"""Matrices with a name: Toeplitz, Hankel, Hilbert, Pascal and their kin."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.core.array import Array
from weft.core.dims.dim import Dim
from weft.numpy.promotion import (
    check_arraylike,
    mixes_inside,
    promote_dtypes,
    promote_dtypes_inexact,
)


def _vectors(name: str, x: Any) -> Array:
    """``x`` as a stack of vectors."""
    check_arraylike(name, x)
    x = jnp.asarray(x)
    return x if x.ndim else x[None]


def _paired(*stacks: Array) -> list[Array]:
    """Stacks of vectors of one dtype whose axes before the last are broadcast."""
    lead = jnp.broadcast_shapes(*(x.shape[:-1] for x in stacks))
    return [jnp.broadcast_to(x, (*lead, x.shape[-1])) for x in promote_dtypes(*stacks)]


def _count(n: Any) -> Any:
    return jnp.arange(n) if type(n) is Dim else np.arange(n)


def _windows(values: Array, starts: np.ndarray, n: int) -> Array:
    """Matrices whose rows are ``n`` elements of vectors in a row, from given places on."""
    lead = values.ndim - 1
    numbers = lax.GatherDimensionNumbers((*range(lead), lead + 1), (), (lead,))
    sizes = (*values.shape[:-1], n)
    places = starts[:, None].astype(np.int32)
    return lax.gather(values, places, numbers, sizes, mode="promise_in_bounds")


def toeplitz(c: Any, r: Any = None) -> Array:
    """Return matrices that are constant along diagonals.

    Args:
        c: the first column, of shape (..., m).
        r: the first row, of shape (..., n); its first element is not read. By default the conjugate
            of ``c``.

    Returns:
        An array of shape (..., m, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.toeplitz(jnp.array([1, 2, 3]), jnp.array([1, 4]))
        Array([[1, 4],
               [2, 1],
               [3, 2]], dtype=int32)
    """
    column = _vectors("toeplitz", c)
    row = column.conj() if r is None else _vectors("toeplitz", r)
    column, row = _paired(column, row)
    m, n = column.shape[-1], row.shape[-1]
    if m == 0 or n == 0:
        return jnp.zeros((*column.shape[:-1], m, n), column.dtype)
    values = jnp.concatenate([column[..., ::-1], row[..., 1:]], axis=-1)
    return _windows(values.astype(values.dtype), _count(m)[::-1], n)


def hankel(c: Any, r: Any = None) -> Array:
    """Return matrices that are constant along anti-diagonals.

    Args:
        c: the first column, of shape (..., m).
        r: the last row, of shape (..., n); its first element is not read. By default zeros.

    Returns:
        An array of shape (..., m, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.hankel(jnp.array([1, 2, 3]))
        Array([[1, 2, 3],
               [2, 3, 0],
               [3, 0, 0]], dtype=int32)
    """
    check_arraylike("hankel", c)
    column = jnp.asarray(c)
    row = jnp.zeros_like(column) if r is None else jnp.asarray(r)
    if not column.ndim or not row.ndim:
        raise ValueError(
            f"hankel takes vectors, got shapes {column.shape} and {row.shape}: use atleast_1d"
        )
    column, row = _paired(column, row)
    m, n = column.shape[-1], row.shape[-1]
    if m == 0 or n == 0:
        return jnp.zeros((*column.shape[:-1], m, n), column.dtype)
    values = jnp.concatenate([column, row[..., 1:]], axis=-1)
    return _windows(values, _count(m), n)


def circulant(c: Any) -> Array:
    """Return square matrices whose columns are the rotations of a vector.

    Args:
        c: the first column, of shape (..., n).

    Returns:
        An array of shape (..., n, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.circulant(jnp.array([1, 2, 3]))
        Array([[1, 3, 2],
               [2, 1, 3],
               [3, 2, 1]], dtype=int32)
    """
    column = _vectors("circulant", c)
    turned, n = column[..., ::-1], column.shape[-1]
    return _windows(jnp.concatenate([turned, turned], axis=-1), _count(n)[::-1], n)


def _filled(size: int, rows: list[Any], columns: list[Any], values: list[Array]) -> Array:
    """Square matrices of zeros but for some values, at places given in several pieces."""
    places = np.concatenate(rows), np.concatenate(columns)
    given = jnp.concatenate(values, axis=-1)
    return jnp.zeros((*given.shape[:-1], size, size), given.dtype).at[..., *places].set(given)


def _below(first: Array, values: Array) -> Array:
    """Square matrices of their first rows and what is below the diagonal."""
    n = first.shape[-1]
    every = _count(n)
    return _filled(n, [0 * every, every[1:]], [every, every[:-1]], [first, values])


def leslie(f: Any, s: Any) -> Array:
    """Return Leslie matrices of population growth.

    Args:
        f: the fecundity of each age, of shape (..., n): the first row.
        s: the survival of each age but the last, of shape (..., n - 1): the elements below the
            diagonal.

    Returns:
        An array of shape (..., n, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.leslie(jnp.array([1., 2.]), jnp.array([0.5]))
        Array([[1. , 2. ],
               [0.5, 0. ]], dtype=float32)
    """
    first, below = _vectors("leslie", f), _vectors("leslie", s)
    n = first.shape[-1]
    if n < 2 or below.shape[-1] != n - 1:
        raise ValueError(
            f"leslie needs f of length n >= 2 and s of length n - 1, got shapes {first.shape} and"
            f" {below.shape}"
        )
    first, below = _paired(first, below)
    return _below(first, below)


def companion(a: Any) -> Array:
    """Return companion matrices of polynomials: their eigenvalues are the roots.

    Args:
        a: the coefficients, highest power first, of shape (..., n + 1). The first must not be 0.

    Returns:
        An array of shape (..., n, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.companion(jnp.array([1., -10., 31.]))
        Array([[ 10., -31.],
               [  1.,   0.]], dtype=float32)
    """
    (a,) = promote_dtypes_inexact(_vectors("companion", a))
    n = a.shape[-1] - 1
    if n < 1:
        raise ValueError(f"companion needs two coefficients or more, got shape {a.shape}")
    return _below(-a[..., 1:] / a[..., :1], jnp.ones((*a.shape[:-1], n - 1), a.dtype))


def fiedler(a: Any) -> Array:
    """Return matrices of the distances |a_i - a_j|.

    Args:
        a: the numbers, of shape (..., n).

    Returns:
        An array of shape (..., n, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.fiedler(jnp.array([1, 4]))
        Array([[0, 3],
               [3, 0]], dtype=int32)
    """
    a = _vectors("fiedler", a)
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Array:
    """Return pentadiagonal companion matrices of polynomials.

    Args:
        a: the coefficients, highest power first, of shape (..., n + 1). The first must not be 0.

    Returns:
        An array of shape (..., n, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.fiedler_companion(jnp.array([1., -16., 86.]))
        Array([[ 16., -86.],
               [  1.,   0.]], dtype=float32)
    """
    (a,) = promote_dtypes_inexact(_vectors("fiedler_companion", a))
    n = a.shape[-1] - 1
    if n < 0:
        raise ValueError(f"fiedler_companion needs coefficients, got shape {a.shape}")
    if n == 0:
        return jnp.zeros_like(a, shape=(*a.shape[:-1], 0, 0))
    a = a / a[..., :1]
    if n == 1:
        return -a[..., 1:, None]
    even, odd = np.arange(0, n, 2), np.arange(1, n, 2)
    right, left = even[even + 1 < n], even[even >= 2]
    far, back = even[even + 2 < n], odd[odd >= 3]
    rows = [[0], right, left, [1], far, back]
    columns = [[0], right + 1, left - 1, [0], far + 2, back - 2]
    ones = jnp.ones((*a.shape[:-1], 1 + len(far) + len(back)), a.dtype)
    return _filled(n, rows, columns, [-a[..., 1:2], -a[..., 2::2], -a[..., 3::2], ones])


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Array:
    """Return the matrix whose product with a vector is its convolution with ``a``.

    Args:
        a: the vector to convolve with, of shape (..., m).
        n: the length of the vectors that the matrix multiplies.
        mode: ``'full'``, ``'same'`` or ``'valid'``, as in ``jnp.convolve``.

    Returns:
        A matrix with n columns; m + n - 1 rows for ``'full'``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.convolution_matrix(jnp.array([1, 2]), 2)
        Array([[1, 0],
               [2, 1],
               [0, 2]], dtype=int32)
    """
    n = operator.index(n)
    check_arraylike("convolution_matrix", a)
    a = jnp.asarray(a)
    if n <= 0:
        raise ValueError(f"convolution_matrix needs a positive n, got {n}")
    if not a.ndim or not a.shape[-1]:
        raise ValueError(f"convolution_matrix needs a vector with elements, got shape {a.shape}")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be 'full', 'valid' or 'same', got {mode!r}")
    m = a.shape[-1]
    zeros = jnp.zeros((*a.shape[:-1], n - 1), a.dtype)
    column = jnp.concatenate([a, zeros], axis=-1)
    row = jnp.concatenate([a[..., :1], zeros], axis=-1)
    whole = toeplitz(column, row)
    cut = {"full": 0, "same": min(n, m) - 1, "valid": 2 * (min(n, m) - 1)}[mode]
    start = cut // 2
    return whole[..., start : m + n - 1 - (cut - start), :]


@mixes_inside
def hilbert(n: int) -> Array:
    """Return the Hilbert matrix, of elements 1 / (i + j + 1).

    Args:
        n: the number of rows and columns.

    Returns:
        A float array of shape (n, n).

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.hilbert(2)
        Array([[1.        , 0.5       ],
               [0.5       , 0.33333334]], dtype=float32)
    """
    i = jnp.arange(n, dtype=dtypes.default_float_dtype())
    return 1 / (i[:, None] + i + 1)


def _integers(rows: list[list[int]]) -> Array:
    """A square matrix of exact integers as floats of the default dtype."""
    exact = np.array(rows, dtype=np.float64).reshape(len(rows), len(rows))
    return jnp.asarray(exact.astype(dtypes.default_float_dtype()))


def invhilbert(n: int) -> Array:
    """Return the inverse of the Hilbert matrix.

    Args:
        n: the number of rows and columns.

    Returns:
        A float array of shape (n, n).

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.invhilbert(2)
        Array([[ 4., -6.],
               [-6., 12.]], dtype=float32)
    """

    def entry(i: int, j: int) -> int:
        size = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
        return (-1) ** (i + j) * (i + j + 1) * size * math.comb(i + j, i) ** 2

    return _integers([[entry(i, j) for j in range(n)] for i in range(n)])


def _pascal_kind(kind: str | None) -> str:
    kind = "symmetric" if kind is None else kind
    if kind not in ("symmetric", "lower", "upper"):
        raise ValueError(f"kind must be 'symmetric', 'lower' or 'upper', got {kind!r}")
    return kind


def pascal(n: int, kind: str | None = None) -> Array:
    """Return Pascal's triangle as a matrix.

    Args:
        n: the number of rows and columns.
        kind: ``'symmetric'`` (the default), ``'lower'`` or ``'upper'``.

    Returns:
        A float array of shape (n, n).

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.pascal(3)
        Array([[1., 1., 1.],
               [1., 2., 3.],
               [1., 3., 6.]], dtype=float32)
    """
    kind = _pascal_kind(kind)
    if kind == "symmetric":
        rows = [[math.comb(i + j, i) for j in range(n)] for i in range(n)]
    else:
        rows = [[math.comb(i, j) for j in range(n)] for i in range(n)]
    out = _integers(rows).astype(np.float32)
    return out.T if kind == "upper" else out


def invpascal(n: int, kind: str | None = None) -> Array:
    """Return the inverse of Pascal's matrix of the same kind.

    Args:
        n: the number of rows and columns.
        kind: ``'symmetric'`` (the default), ``'lower'`` or ``'upper'``.

    Returns:
        A float array of shape (n, n).

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.invpascal(2)
        Array([[ 2., -1.],
               [-1.,  1.]], dtype=float32)
    """
    kind = _pascal_kind(kind)
    lower = [[(-1) ** (i + j) * math.comb(i, j) for j in range(n)] for i in range(n)]
    if kind == "symmetric":
        rows = [
            [sum(lower[k][i] * lower[k][j] for k in range(n)) for j in range(n)] for i in range(n)
        ]
        return _integers(rows)
    out = _integers(lower)
    return out.T if kind == "upper" else out


@mixes_inside
def helmert(n: int, full: bool = False) -> Array:
    """Return the Helmert matrix: orthonormal rows, each a contrast.

    Args:
        n: the number of rows and columns.
        full: add the row of the mean in front.

    Returns:
        A float array of shape (n - 1, n); (n, n) with ``full``.

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.helmert(2).round(4)
        Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    if n < 1:
        raise ValueError(f"helmert needs a positive n, got {n}")
    dtype = dtypes.default_float_dtype()
    k = jnp.arange(1, n, dtype=dtype)[:, None]
    j = jnp.arange(n, dtype=dtype)
    length = jnp.sqrt(k * (k + 1))
    rows = jnp.where(j < k, 1 / length, jnp.where(j == k, -k / length, 0.0))
    if not full:
        return rows
    mean = jnp.full((1, n), 1 / math.sqrt(n), dtype=dtype)
    return jnp.concatenate([mean, rows], axis=0)


def hadamard(n: int, dtype: Any = int) -> Array:
    """Return the Hadamard matrix: elements 1 and -1, orthogonal rows.

    Args:
        n: the number of rows and columns, a power of two.
        dtype: the dtype of the matrix.

    Returns:
        An array of shape (n, n).

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.hadamard(2)
        Array([[ 1,  1],
               [ 1, -1]], dtype=int32)
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard needs a power of two, got {n}")
    out = np.ones((1, 1), np.int8)
    while len(out) < n:
        out = np.block([[out, out], [out, -out]])
    return jnp.asarray(out).astype(dtype)


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """Return the matrix of the discrete Fourier transform.

    Args:
        n: the number of rows and columns.
        scale: divide by the root of n (``'sqrtn'``), by n (``'n'``), or not at all (None).
        dtype: the complex dtype of the matrix; the default complex dtype if None.

    Returns:
        A complex array of shape (n, n).

    Example:
        >>> import weft.scipy.linalg as linalg
        >>> linalg.dft(2).real
        Array([[ 1.,  1.],
               [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn' or 'n', got {scale!r}")
    wanted = np.dtype(dtypes.default_complex_dtype() if dtype is None else dtype)
    if wanted.kind != "c":
        raise ValueError(f"dft needs a complex dtype, got {wanted}")
    at = _count(n)
    # Angles reduced exactly, so that large products of indices lose nothing.
    values = np.exp(-2j * np.pi * (np.outer(at, at) % max(n, 1)) / max(n, 1))
    if scale is not None:
        values = values / (math.sqrt(n) if scale == "sqrtn" else n)
    return jnp.asarray(values.astype(wanted))
