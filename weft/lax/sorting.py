"""Sorting and searching for largest elements in ``weft.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from weft.core.array import Array, ArrayLike
from weft.core.dims.dim import whole
from weft.core.trace import typeof
from weft.lax.shape import canonical_axis
from weft.prims.sort import approx_top_k_p, sort_p, top_k_p


@overload
def sort(
    operand: ArrayLike, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array: ...
@overload
def sort(
    operand: Sequence[Any], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> tuple[Array, ...]: ...
def sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Return an array sorted along a dimension, or several arrays sorted by the first of them.

    Args:
        operand: Array, or sequence of arrays of one shape. Zeros of both signs are equal, NaNs go
            last, complex numbers go by real, then imaginary part.
        dimension: Dimension to sort along.
        is_stable: If true, equal elements keep their order.
        num_keys: Number of arrays that are compared, the first one first; the others are moved
            along.

    Returns:
        Sorted array, or tuple of arrays.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.sort((jnp.array([3, 1, 2]), jnp.array([10., 20., 30.])))
        (Array([1, 2, 3], dtype=int32), Array([20., 30., 10.], dtype=float32))
    """
    if isinstance(operand, Sequence):
        if not operand:
            raise TypeError("sort needs at least one operand")
        if not 1 <= num_keys <= len(operand):
            raise ValueError(
                f"sort got num_keys={num_keys} for {len(operand)} operands: it must be between 1"
                " and their number"
            )
        axis = canonical_axis(dimension, len(typeof(operand[0]).shape))
        return tuple(sort_p.bind(*operand, dimension=axis, is_stable=is_stable, num_keys=num_keys))
    if num_keys != 1:
        raise ValueError(f"sort of a single operand has one key, got num_keys={num_keys}")
    axis = canonical_axis(dimension, np.ndim(operand))
    (out,) = sort_p.bind(operand, dimension=axis, is_stable=is_stable, num_keys=1)
    return out


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Return keys sorted along a dimension, and values in the same order.

    Args:
        keys: Array to sort by.
        values: Array of the same shape.
        dimension: Dimension to sort along.
        is_stable: If true, equal keys keep their order.

    Returns:
        Pair of the sorted keys and the values.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.sort_key_val(jnp.array([2, 1]), jnp.array([5., 6.]))
        (Array([1, 2], dtype=int32), Array([6., 5.], dtype=float32))
    """
    axis = canonical_axis(dimension, np.ndim(keys))
    k, v = sort_p.bind(keys, values, dimension=axis, is_stable=is_stable, num_keys=1)
    return k, v


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """Return the ``k`` largest elements along an axis, in descending order, and their indices.

    Args:
        operand: Array of real numbers; NaN counts as largest.
        k: Number of elements, a static integer of at most the size of the axis.
        axis: Axis to search.

    Returns:
        List of two arrays with size ``k`` along the axis: values, and int32 indices. Of equal
        elements the first come first.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.top_k(jnp.array([9., 3., 10., 4.]), 2)
        [Array([10.,  9.], dtype=float32), Array([2, 0], dtype=int32)]
    """
    k = whole(k)
    if k < 0:
        raise ValueError(f"top_k needs k of at least 0, got {k}")
    return top_k_p.bind(operand, k=k, axis=canonical_axis(axis, np.ndim(operand)))


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Return the largest elements along a dimension and their indices; JAX's may miss some.

    Args:
        operand: Floating-point array.
        k: Number of elements, a static integer.
        reduction_dimension: Dimension to search.
        recall_target: Share of the true results that must be found. weft's search is exact.
        reduction_input_size_override: Size to plan with when the operand is one part of a larger
            array; -1 for its own size.
        aggregate_to_topk: If false, return the candidates, more than ``k``, for merging with those
            of other parts.

    Returns:
        List of values and int32 indices, with size ``k`` along the dimension.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.approx_max_k(jnp.array([9., 3., 10.]), 1)
        [Array([10.], dtype=float32), Array([2], dtype=int32)]
    """
    return approx_top_k_p.bind(
        operand,
        k=k,
        reduction_dimension=reduction_dimension,
        recall_target=recall_target,
        is_max_k=True,
        reduction_input_size_override=reduction_input_size_override,
        aggregate_to_topk=aggregate_to_topk,
    )


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Return the smallest elements along a dimension and their indices; JAX's may miss some.

    Args:
        operand: Floating-point array.
        k: Number of elements, a static integer.
        reduction_dimension: Dimension to search.
        recall_target: Share of the true results that must be found. weft's search is exact.
        reduction_input_size_override: Size to plan with when the operand is one part of a larger
            array; -1 for its own size.
        aggregate_to_topk: If false, return the candidates, more than ``k``, for merging with those
            of other parts.

    Returns:
        List of values and int32 indices, with size ``k`` along the dimension.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.approx_min_k(jnp.array([9., 3., 10.]), 1)
        [Array([3.], dtype=float32), Array([1], dtype=int32)]
    """
    return approx_top_k_p.bind(
        operand,
        k=k,
        reduction_dimension=reduction_dimension,
        recall_target=recall_target,
        is_max_k=False,
        reduction_input_size_override=reduction_input_size_override,
        aggregate_to_topk=aggregate_to_topk,
    )
