"""Products of arrays in ``weft.lax``: arguments and defaults around ``prims.dot``."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.placement import result_sharding
from weft.base.functional import lru
from weft.core.array import Array
from weft.prims.dot import DimensionNumbers, dot_general_p
from weft.prims.precision import PrecisionLike, canonicalize_precision
from weft.prims.ragged_dot import RaggedDotDimensionNumbers, ragged_dot_general_p

DotDimensionNumbers = tuple[tuple[Any, Any], tuple[Any, Any]]


def _axes(dims: Any) -> tuple[int, ...]:
    """One axis or a sequence of axes as a tuple."""
    try:
        return (operator.index(dims),)
    except TypeError:
        return tuple(operator.index(d) for d in dims)


def _canonical(dimension_numbers: DotDimensionNumbers) -> DimensionNumbers:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    contract = _axes(lhs_contract), _axes(rhs_contract)
    return contract, (_axes(lhs_batch), _axes(rhs_batch))


_cached_canonical = lru()(_canonical)


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the product of vectors and matrices, or any product that dimension numbers describe.

    Args:
        lhs: Array; without ``dimension_numbers`` a vector or a matrix.
        rhs: Array; without ``dimension_numbers`` a vector or a matrix.
        dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``,
            sequences of axes; by default the last axis of ``lhs`` and the first of ``rhs`` are
            summed over.
        precision: Precision of the product on accelerators: None, a ``Precision`` or its name, a
            ``DotAlgorithm``, or a pair of precisions for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array with the batch axes, then what is left of ``lhs``, then of ``rhs``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.dot(jnp.array([[1., 2.], [3., 4.]]), jnp.array([1., 10.]))
        Array([21., 43.], dtype=float32)
    """
    if dimension_numbers is None:
        left, right = np.shape(lhs), np.shape(rhs)
        plain = 1 <= len(left) <= 2 and 1 <= len(right) <= 2
        if not plain or left[-1] != right[0]:
            raise ValueError(
                "lax.dot without dimension_numbers multiplies vectors and matrices whose inner"
                f" sizes agree, got shapes {left} and {right}; give dimension_numbers, or use"
                " weft.numpy.matmul"
            )
        dimension_numbers = (((len(left) - 1,), (0,)), ((), ()))
    try:
        numbers = _cached_canonical(dimension_numbers)
    except TypeError:  # lists have no hash
        numbers = _canonical(dimension_numbers)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(preferred_element_type, "dot")
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=result_sharding(out_sharding, "dot_general"),
    )


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the product summed over contracting axes, elementwise over batch axes.

    Args:
        lhs: Array.
        rhs: Array of a dtype that fits that of ``lhs``.
        dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``,
            sequences of axes.
        precision: Precision of the product on accelerators: None, a ``Precision`` or its name, a
            ``DotAlgorithm``, or a pair of precisions for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array with the batch axes, then what is left of ``lhs``, then of ``rhs``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> x = jnp.arange(12.).reshape(2, 3, 2)
        >>> lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))).shape
        (2, 2, 2)
    """
    return dot(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Array:
    """Return matrix products over the last two axes of stacks of matrices.

    Args:
        lhs: Array of shape (..., m, k).
        rhs: Array of shape (..., k, n), with the same leading sizes.
        precision: Precision of the product on accelerators: None, a ``Precision`` or its name, a
            ``DotAlgorithm``, or a pair of precisions for the two operands.

    Returns:
        Array of shape (..., m, n).

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    ndim = np.ndim(lhs)
    if ndim < 2 or ndim != np.ndim(rhs):
        raise ValueError(
            "batch_matmul takes arrays of the same rank, at least 2, got shapes"
            f" {np.shape(lhs)} and {np.shape(rhs)}"
        )
    batch = tuple(range(ndim - 2))
    return dot_general(lhs, rhs, (((ndim - 1,), (ndim - 2,)), (batch, batch)), precision)


_ROWS_IN_GROUPS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the rows of ``lhs``, in groups, each times the matrix of its group.

    Args:
        lhs: Array of shape (m, k): the rows of group 0, then those of group 1, and so on.
        rhs: Array of shape (g, k, n): a matrix for each group.
        group_sizes: Integer vector of length g: the number of rows of each group.
        precision: Precision of the product on accelerators: None, a ``Precision`` or its name, a
            ``DotAlgorithm``, or a pair of precisions for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.
        group_offset: Must be None: all groups are computed.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape (m, n); rows beyond the groups are zero.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> x, w = jnp.ones((3, 1)), jnp.array([[[2.]], [[7.]]])
        >>> lax.ragged_dot(x, w, jnp.array([1, 2]))
        Array([[2.],
               [7.],
               [7.]], dtype=float32)
    """
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        _ROWS_IN_GROUPS,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return a product along one dimension of ``lhs`` that is cut into groups of given sizes.

    Args:
        lhs: Array with the ragged dimension.
        rhs: Array; with a group dimension if the ragged dimension is not contracted.
        group_sizes: Integer array of the groups' sizes, along its last axis; it may differ along
            the batch.
        ragged_dot_dimension_numbers: A ``RaggedDotDimensionNumbers``: axes of the product, ragged
            and group axes.
        precision: Precision of the product on accelerators: None, a ``Precision`` or its name, a
            ``DotAlgorithm``, or a pair of precisions for the two operands.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.
        group_offset: Must be None: all groups are computed.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array as from ``dot_general``; with a group axis in front if the ragged dimension is
        contracted.

    If the ragged dimension is free, each group meets its own matrix of ``rhs``. If it is
    contracted, there is one result for each group, along a new first axis. If it is a batch
    dimension, the product is a plain one.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> dims = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), (1,), ())
        >>> x = jnp.ones((2, 5))
        >>> lax.ragged_dot_general(x, jnp.ones((5, 3)), jnp.array([4, 1]), dims).shape
        (2, 2, 3)
    """
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise TypeError(
            "ragged_dot_general needs RaggedDotDimensionNumbers, got"
            f" {ragged_dot_dimension_numbers!r}"
        )
    if group_offset is not None:
        raise ValueError(
            "ragged_dot computes all groups: group_offset must be None; slice rhs and group_sizes"
            " instead"
        )
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(preferred_element_type, "ragged_dot")
    return ragged_dot_general_p.bind(
        lhs,
        rhs,
        group_sizes,
        ragged_dot_dimension_numbers=ragged_dot_dimension_numbers,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
        group_offset=None,
        out_sharding=result_sharding(out_sharding, "ragged_dot_general"),
    )
