"""Products of vectors and matrices as sums, which fuse with what is around them: every element of
the matrix is read once, so that there is nothing that blocks of it would save. So do products of a
long matrix and a tiny one, which is all the time at hand."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.prims.dot import is_algorithm
from weft.prims.lowerings.products import dot_general

_TYPES = ("bfloat16", "float16", "float32")
# Elements of a matrix that is tiny, and columns of one that is long beside it.
TINY, LONG = 64, 1 << 12


def dot(lhs: Any, rhs: Any, **params: Any) -> Any:
    return dot_general(lhs, rhs, **params)


inner = dot


def _is_plain(avals: Any, params: Any) -> bool:
    lhs, rhs = avals
    return (
        lhs.dtype == rhs.dtype
        and lhs.dtype.name in _TYPES
        and not is_algorithm(params["precision"])
    )


def _is_inner(avals: Any, params: Any) -> bool:
    """Whether a product is one number."""
    lhs, rhs = avals
    (left, _), _ = params["dimension_numbers"]
    depth = prod(lhs.shape[i] for i in left)
    return _is_plain(avals, params) and depth > 1 and prod(lhs.shape) == depth == prod(rhs.shape)


def _fits(avals: Any, params: Any) -> bool:
    """Whether one side is vectors, one for each matrix or vector of the other, or one tiny matrix
    for a long one."""
    lhs, rhs = avals
    (left, _), (left_batch, _) = params["dimension_numbers"]
    if not _is_plain(avals, params):
        return False
    depth = prod(lhs.shape[i] for i in left)
    batch = prod(lhs.shape[i] for i in left_batch)
    if depth < 2 or not batch:
        return False
    sizes = prod(lhs.shape) // (depth * batch), prod(rhs.shape) // (depth * batch)
    if 1 in sizes:
        return max(sizes) > 1 or batch > 1
    return batch == 1 and depth * min(sizes) <= TINY and max(sizes) >= LONG


FITS = {"dot": _fits, "inner": _is_inner}
