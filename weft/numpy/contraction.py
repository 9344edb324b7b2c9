"""Products of arrays: dot, matmul, tensordot and their kin."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import result_sharding, summed_as
from weft.core.array import Array
from weft.core.trace import loosely
from weft.lax.products import dot_general
from weft.lax.shape import canonical_axis
from weft.numpy.manipulation import moveaxis, ravel
from weft.numpy.parts import conjugate
from weft.numpy.promotion import (
    as_array,
    convert_operand,
    ensure_arrays,
    promote_dtypes,
    refuse_out,
)
from weft.numpy.ufuncs import multiply
from weft.numpy.vectorizing import vectorize
from weft.prims.families import COMPLEX, kind_of


def element_type(name: str, preferred: Any, *arrays: Any) -> tuple[Any, bool]:
    """The dtype of a product, and whether it is weak."""
    if preferred is None:
        return dtypes.result_type(*arrays, return_weak_type_flag=True)
    return dtypes.check_user_dtype(preferred, name), False


def _product(
    x: Any, y: Any, numbers: Any, precision: Any, dtype: Any, weak: bool, where: Any = None
) -> Any:
    out = dot_general(
        x,
        y,
        numbers,
        precision=precision,
        preferred_element_type=dtype,
        out_sharding=where,
    )
    return as_array(convert_operand(out, dtype, weak))


def _check_inner(name: str, x: Any, y: Any) -> None:
    """Raise TypeError unless there are as many columns of the first as rows of the second array."""
    which = "last" if y.ndim == 1 else "second-to-last"
    if x.shape[-1] != y.shape[max(y.ndim - 2, 0)]:
        raise TypeError(
            f"{name} sums over the last axis of the first array and the {which} axis of the second,"
            f" which must be of the same size; got shapes {x.shape} and {y.shape}"
        )


def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the dot product: over the last axis of ``a`` and the second-to-last of ``b``.

    Args:
        a: Array; a scalar multiplies elementwise.
        b: Array; of a vector the only axis is summed over.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name,
            or a pair of them for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``a.shape[:-1] + b.shape[:-2] + b.shape[-1:]``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.dot(jnp.arange(3), jnp.arange(3)).item()
        5
    """
    x, y = ensure_arrays("dot", a, b)
    dtype, weak = element_type("dot", preferred_element_type, x, y)
    contract: Any = ((), ())
    if x.ndim and y.ndim:
        _check_inner("dot", x, y)
        contract = (x.ndim - 1,), (max(y.ndim - 2, 0),)
    where = result_sharding(out_sharding, "dot")
    return _product(x, y, (contract, ((), ())), precision, dtype, weak, where)


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the matrix product; leading axes are stacks of matrices and broadcast.

    Args:
        a: Array of shape (..., m, k), or a vector of length k.
        b: Array of shape (..., k, n), or a vector of length k.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name,
            or a pair of them for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape (..., m, n), without m or n where the operand is a vector. Scalars raise an
        error.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones((3, 4))).shape
        (2, 4)
    """
    x, y = ensure_arrays("matmul", a, b)
    for i, v in enumerate((x, y)):
        if not v.ndim:
            raise ValueError(f"matmul operand {i} must have at least one dimension, got a scalar")
    _check_inner("matmul", x, y)
    dtype, weak = element_type("matmul", preferred_element_type, x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        numbers = ((x.ndim - 1,), (max(y.ndim - 2, 0),)), ((), ())
        where = result_sharding(out_sharding, "matmul")
        return _product(x, y, numbers, precision, dtype, weak, where)
    if out_sharding is None:
        return _batched_matmul(x, y, precision, dtype, weak)
    where = result_sharding(out_sharding, "matmul")
    with loosely(frozenset() if where is None else where.spec.unreduced):
        product = _batched_matmul(x, y, precision, dtype, weak)
    return product if where is None else summed_as(product, where, "matmul")


def _batched_matmul(x: Any, y: Any, precision: Any, dtype: Any, weak: bool) -> Any:
    """One product; batch dimensions that only one operand has are free dimensions of it."""
    x_matrix, y_matrix = x.ndim > 1, y.ndim > 1
    x_batch = x.shape[:-2] if x_matrix else ()
    y_batch = y.shape[:-2] if y_matrix else ()
    count = max(len(x_batch), len(y_batch))
    x_sizes = (None,) * (count - len(x_batch)) + x_batch
    y_sizes = (None,) * (count - len(y_batch)) + y_batch
    shared, x_own, y_own, ones = [], [], [], []
    x_shared, y_shared, x_ones, y_ones = [], [], [], []
    for i, (n, m) in enumerate(zip(x_sizes, y_sizes, strict=True)):
        x_at, y_at = len(shared) + len(x_own), len(shared) + len(y_own)
        if n == 1 and m is not None:
            x_ones.append(x_at + len(x_ones))
        if m == 1 and n is not None:
            y_ones.append(y_at + len(y_ones))
        if n == m == 1:
            ones.append(i)
        elif n is None or (n == 1 and m is not None):
            y_own.append(i)
        elif m is None or m == 1:
            x_own.append(i)
        elif n == m:
            x_shared.append(x_at)
            y_shared.append(y_at)
            shared.append(i)
        else:
            raise ValueError(
                f"matmul got batch dimensions {x_batch} and {y_batch} that do not broadcast"
                f" (shapes {x.shape} and {y.shape})"
            )
    places = [*shared, *x_own]
    if x_matrix:
        places.append(count)
    places.extend(y_own)
    if y_matrix:
        places.append(count + x_matrix)
    x, y = lax.squeeze(x, x_ones), lax.squeeze(y, y_ones)
    contract = (x.ndim - 1,), (y.ndim - 1 - y_matrix,)
    out = dot_general(
        x,
        y,
        (contract, (tuple(x_shared), tuple(y_shared))),
        precision=precision,
        preferred_element_type=dtype,
    )
    out = lax.transpose(out, [int(i) for i in np.argsort(places)])
    if ones:
        out = lax.expand_dims(out, ones)
    return as_array(convert_operand(out, dtype, weak))


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Return the sum of products of all elements, with the first operand conjugated.

    Args:
        a: Array, which is flattened and conjugated.
        b: Array with as many elements.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name,
            or a pair of them for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Scalar array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.vdot(jnp.arange(3), jnp.arange(3)).item()
        5
    """
    x, y = ensure_arrays("vdot", a, b)
    if kind_of(x.dtype) == COMPLEX:
        x = conjugate(x)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return dot(ravel(x), ravel(y), **options)


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the sum of products along an axis, with the first operand conjugated.

    Args:
        x1: Array of vectors along ``axis``; they are conjugated.
        x2: Array of vectors of the same length; the other axes broadcast.
        axis: Axis of the vectors in both operands.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name,
            or a pair of them for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Array of the broadcast shape without the axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.vecdot(jnp.ones((2, 3)), jnp.ones(3))
        Array([3., 3.], dtype=float32)
    """
    x, y = ensure_arrays("vecdot", x1, x2)
    if not x.ndim or not y.ndim:
        raise ValueError("vecdot needs arrays of at least one dimension")
    if x.shape[axis] != y.shape[axis]:
        raise ValueError(f"vecdot got shapes {x.shape} and {y.shape} that differ at axis {axis}")
    inner = functools.partial(
        vdot, precision=precision, preferred_element_type=preferred_element_type
    )
    return vectorize(inner, signature="(n),(n)->()")(moveaxis(x, axis, -1), moveaxis(y, axis, -1))


def matvec(x1: Any, x2: Any, /) -> Array:
    """Return the product of matrices and vectors.

    Args:
        x1: Array of shape (..., m, n).
        x2: Array of shape (..., n); leading axes broadcast.

    Returns:
        Array of shape (..., m).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones(3))
        Array([3., 3.], dtype=float32)
    """
    x, y = ensure_arrays("matvec", x1, x2)
    return vectorize(matmul, signature="(n,m),(m)->(n)")(x, y)


def vecmat(x1: Any, x2: Any, /) -> Array:
    """Return the product of conjugated vectors and matrices.

    Args:
        x1: Array of shape (..., n); it is conjugated.
        x2: Array of shape (..., n, m); leading axes broadcast.

    Returns:
        Array of shape (..., m).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.vecmat(jnp.ones(2), jnp.ones((2, 3)))
        Array([2., 2., 2.], dtype=float32)
    """
    x, y = ensure_arrays("vecmat", x1, x2)
    return vectorize(matmul, signature="(n),(n,m)->(m)")(conjugate(x), y)


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Return the sum of products over the last axes of two arrays.

    Args:
        a: Array of shape (..., n); a scalar multiplies elementwise.
        b: Array of shape (..., n).
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name,
            or a pair of them for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Array of shape ``a.shape[:-1] + b.shape[:-1]``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.inner(jnp.arange(3), jnp.arange(3)).item()
        5
    """
    x, y = ensure_arrays("inner", a, b)
    if x.ndim and y.ndim:
        options = {"precision": precision, "preferred_element_type": preferred_element_type}
        return tensordot(x, y, (-1, -1), **options)
    if preferred_element_type is not None:
        dtype = dtypes.check_user_dtype(preferred_element_type, "inner")
        x, y = convert_operand(x, dtype), convert_operand(y, dtype)
    return multiply(x, y)


def outer(a: Any, b: Any, out: None = None) -> Array:
    """Return the product of each element of ``a`` with each element of ``b``.

    Args:
        a: Array, which is flattened.
        b: Array, which is flattened.
        out: Must be None; arrays are immutable.

    Returns:
        Array of shape (a.size, b.size).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.outer(jnp.arange(2), jnp.arange(3)).shape
        (2, 3)
    """
    refuse_out("outer", out)
    x, y = (as_array(v) for v in promote_dtypes(*ensure_arrays("outer", a, b)))
    return multiply(lax.expand_dims(ravel(x), (1,)), lax.expand_dims(ravel(y), (0,)))


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the sum of products over chosen axes of two arrays.

    Args:
        a: First array.
        b: Second array.
        axes: Number of last axes of ``a`` and first axes of ``b`` to sum over, or a pair of axes or
            sequences of axes.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name,
            or a pair of them for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array with the remaining axes of ``a``, then those of ``b``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), 1).shape
        (2, 4)
    """
    x, y = ensure_arrays("tensordot", a, b)
    dtype, weak = element_type("tensordot", preferred_element_type, x, y)
    numbers = _paired_axes(x, y, axes), ((), ())
    where = result_sharding(out_sharding, "tensordot")
    return _product(x, y, numbers, precision, dtype, weak, where)


def _paired_axes(x: Any, y: Any, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if count > min(x.ndim, y.ndim):
            raise TypeError(
                f"tensordot over {count} axes needs arrays with at least that many dimensions, got"
                f" shapes {x.shape} and {y.shape}"
            )
        return tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise TypeError(f"tensordot axes must be an integer or a pair of sequences, got {axes!r}")
    first, second = axes
    if isinstance(first, int) and isinstance(second, int):
        first, second = (first,), (second,)
    if not isinstance(first, (tuple, list)) or not isinstance(second, (tuple, list)):
        raise TypeError(f"tensordot axes must be two integers or two sequences, got {axes!r}")
    if len(first) != len(second):
        raise TypeError(f"tensordot needs the same number of axes for both arrays, got {axes}")
    return (
        tuple(canonical_axis(i, x.ndim) for i in first),
        tuple(canonical_axis(i, y.ndim) for i in second),
    )
