"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.jit import jit
from weft.core.array import Array
from weft.lax.shape import canonical_axis
from weft.numpy.creation import asarray
from weft.numpy.promotion import check_arraylike, promote_dtypes_inexact
from weft.numpy.unary import absolute
from weft.prims.families import COMPLEX, kind_of


def _length(x: Any, axis: Any, keepdims: bool) -> Any:
    """The square root of the sum of squared sizes."""
    is_complex = kind_of(x.dtype) == COMPLEX
    squares = lax.real(x * x.conj()) if is_complex else x * x
    return lax.sqrt(squares.sum(axis=axis, keepdims=keepdims))


@jit(static_argnames=("ord", "axis", "keepdims"))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Return the norm of a vector or a matrix, or norms along axes.

    Args:
        x: Array; by default one vector or matrix.
        ord: For vectors a number p, inf, -inf or 0 (the number of nonzero elements); for matrices
            "fro", "nuc" (the sum of singular values), 1, -1, 2, -2, inf or -inf. By default the
            2-norm of all elements.
        axis: Axis of the vectors, or pair of axes of the matrices; by default all of ``x``.
        keepdims: If true, reduced axes stay with size 1.

    Returns:
        Real array without these axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.norm(jnp.array([3., 4.]))
        Array(5., dtype=float32)
        >>> jnp.linalg.norm(jnp.array([[3., 4.], [6., 8.]]), axis=1)
        Array([ 5., 10.], dtype=float32)
    """
    check_arraylike("jnp.linalg.norm", x)
    (x,) = promote_dtypes_inexact(asarray(x))
    if axis is None and ord is None:
        return _length(x, None, keepdims)
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(canonical_axis(a, x.ndim) for a in given)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"norm takes one axis for vectors or two for matrices, got axis={axis} for shape {x.shape}"
    )


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    row, column = axes
    if ord in (None, "f", "fro"):
        return _length(x, axes, keepdims)
    if ord in (1, -1):
        return _sums(x, row, column, ord, keepdims)
    if ord in (np.inf, -np.inf):
        return _sums(x, column, row, ord, keepdims)
    if ord not in ("nuc", 2, -2):
        raise ValueError(f"{ord!r} is not a matrix norm; write 'fro', 'nuc', ±1, ±2 or ±inf")
    others = [i for i in range(x.ndim) if i not in axes]
    s = lax.linalg.svd(x.transpose(*others, row, column), compute_uv=False)
    result = s.sum(-1) if ord == "nuc" else _extreme(s, -1, ord, False)
    return lax.expand_dims(result, sorted(axes)) if keepdims else result


def _sums(x: Any, summed: int, kept: int, ord: Any, keepdims: bool) -> Any:
    """The largest or smallest sum of sizes along an axis."""
    if not keepdims and kept > summed:
        kept -= 1
    return _extreme(lax.abs(x).sum(summed, keepdims=keepdims), kept, ord, keepdims)


def _extreme(x: Any, axis: Any, ord: Any, keepdims: bool) -> Any:
    if ord > 0:
        return x.max(axis=axis, keepdims=keepdims, initial=0)
    return x.min(axis=axis, keepdims=keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return the norms of matrices in the last two axes.

    Args:
        x: Array of shape (..., m, n).
        keepdims: If true, reduced axes stay with size 1.
        ord: Kind of norm, as for matrices in ``norm``.

    Returns:
        Real array of shape (...,).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.matrix_norm(jnp.array([[3., 0.], [0., 4.]]))
        Array(5., dtype=float32)
    """
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """Return the norms of vectors along axes, or of all elements.

    Args:
        x: Array of any shape.
        axis: Axis or tuple of axes that hold a vector; by default all.
        keepdims: If true, reduced axes stay with size 1.
        ord: Kind of norm: a number p, inf, -inf or 0.

    Returns:
        Real array without these axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.vector_norm(jnp.array([1., -2., 3.]), ord=1)
        Array(6., dtype=float32)
    """
    check_arraylike("jnp.linalg.vector_norm", x)
    x = asarray(x)
    if isinstance(ord, str):
        raise ValueError(f"{ord!r} is not a vector norm; write a number, jnp.inf or -jnp.inf")
    # The sum and the extremes of integers are integers; all else is a matter of floats.
    if ord not in (1, np.inf, -np.inf):
        x = asarray(*promote_dtypes_inexact(x))
    if ord is None or ord == 2:
        return _length(x, axis, keepdims)
    if ord in (np.inf, -np.inf):
        return _extreme(absolute(x), axis, ord, keepdims)
    if ord == 0:
        real = dtypes.finfo(x.dtype).dtype
        return (x != 0).sum(axis=axis, keepdims=keepdims, dtype=real)
    size = absolute(x)
    if ord == 1:
        return size.sum(axis=axis, keepdims=keepdims)
    power = np.asarray(ord, size.dtype)[()]
    raised = lax.integer_pow(size, ord) if type(ord) is int else size**power
    total = raised.sum(axis=axis, keepdims=keepdims)
    return lax.pow(total, (1 / power).astype(size.dtype))
