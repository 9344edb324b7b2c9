"""Sparse arrays made from nothing: empty, with a diagonal of ones, at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft import dtypes, random
from weft import numpy as jnp
from weft.experimental.sparse.base import over_batch
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcsr import BCSR
from weft.experimental.sparse.rows import COO, CSC, CSR

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(f"sparse_format must be one of {', '.join(_FORMATS)}; got {name!r}")
    return _FORMATS[name]


def empty(
    shape: Any,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """Return a sparse array of zeros.

    Args:
        shape: the shape of the array.
        dtype: the dtype of the elements; the default float dtype if None.
        index_dtype: the dtype of the coordinates.
        sparse_format: ``'bcoo'``, ``'bcsr'``, ``'coo'``, ``'csr'`` or ``'csc'``.
        **kwds: further arguments of the format's constructor.

    Returns:
        A sparse array without stored elements.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.empty((2, 3))
        BCOO(float32[2, 3], nse=0)
    """
    return _format(sparse_format)._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """Return a sparse matrix with ones on a diagonal.

    Args:
        N: the number of rows.
        M: the number of columns; ``N`` by default.
        k: which diagonal: above the main one if positive, below if negative.
        dtype: the dtype of the elements; the default float dtype if None.
        index_dtype: the dtype of the coordinates.
        sparse_format: ``'bcoo'``, ``'bcsr'``, ``'coo'``, ``'csr'`` or ``'csc'``.
        **kwds: further arguments of the format's constructor.

    Returns:
        A sparse matrix.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.eye(2, 3, k=1).indices.tolist()
        [[0, 1], [1, 2]]
    """
    columns = N if M is None else M
    return _format(sparse_format)._eye(N, columns, k, dtype=dtype, index_dtype=index_dtype, **kwds)


def random_bcoo(
    key: Any,
    shape: Any,
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Any = random.uniform,
    **kwds: Any,
) -> BCOO:
    """Return a sparse array with random elements at random places.

    Args:
        key: a random key.
        shape: the shape of the array.
        dtype: the dtype of the elements; the default float dtype if None.
        indices_dtype: the dtype of the coordinates.
        nse: the number of elements or, below 1, the fraction of all places.
        n_batch: the number of batch dimensions, which come first.
        n_dense: the number of dense dimensions, which come last.
        unique_indices: draw no place twice.
        sorted_indices: bring the coordinates in order.
        generator: the function that draws the elements, of key, shape and dtype.
        **kwds: further arguments of ``generator``.

    Returns:
        A ``BCOO``.

    Example:
        >>> from weft import random
        >>> from weft.experimental import sparse
        >>> sparse.random_bcoo(random.key(0), (4, 5), nse=0.3)
        BCOO(float32[4, 5], nse=6)
    """
    shape = tuple(shape)
    dtype = dtypes.canonicalize_dtype(dtype)
    indices_dtype = dtypes.canonicalize_dtype(jnp.int_ if indices_dtype is None else indices_dtype)
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0 or not ((isinstance(nse, float) and 0 < nse < 1) or
                                                   nse >= 0):  # fmt: skip
        raise ValueError(f"random_bcoo got {shape=}, {n_batch=}, {n_dense=}, {nse=}")
    batch, sparse = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    places = math.prod(sparse)
    count = math.ceil(nse * places) if 0 < nse < 1 else int(nse)
    data_key, *_ = keys = random.split(key, 1 + math.prod(batch))

    def draw(key: Any) -> Any:
        if not sparse:
            return jnp.empty((count, 0), indices_dtype)
        flat = random.choice(key, places, shape=(count,), replace=not unique_indices)
        return jnp.column_stack(jnp.unravel_index(flat.astype(indices_dtype), sparse))

    indices = over_batch(draw, n_batch)(keys[1:].reshape(*batch, *keys.shape[1:]))
    data = generator(data_key, shape=(*batch, count, *shape[n_batch + n_sparse :]), dtype=dtype,
                     **kwds)  # fmt: skip
    mat = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return mat.sort_indices() if sorted_indices else mat
