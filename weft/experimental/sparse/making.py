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
        raise ValueError(f"sparse_format is one of {', '.join(_FORMATS)}; got {name!r}")
    return _FORMATS[name]


def empty(
    shape: Any,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse array of zeros.

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
    """A sparse matrix with ones on a diagonal.

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
    """A sparse array with elements drawn from a distribution at places drawn evenly.

    ``nse`` is their number, or below 1 the part of all places.

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
