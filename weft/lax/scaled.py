"""Products of operands that are scaled block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.array import Array
from weft.core.trace import typeof
from weft.lax.elementwise import convert_element_type, mul
from weft.lax.products import DotDimensionNumbers, dot_general
from weft.lax.shape import broadcast_in_dim, reshape

_USUAL: dict[int, DotDimensionNumbers] = {
    2: (((1,), (0,)), ((), ())),
    3: (((2,), (1,)), ((0,), (0,))),
}


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the product of ``lhs * lhs_scale`` and ``rhs * rhs_scale``, with scales for blocks.

    Args:
        lhs: Array of at least two dimensions, usually of a narrow dtype.
        rhs: Array of as many dimensions.
        lhs_scale: Scales of ``lhs``: of its shape, except for the contracting dimension, which has
            one scale for each block of equal size. None for no scales.
        rhs_scale: Scales of ``rhs``, likewise.
        dimension_numbers: As for ``dot_general``; by default the product of matrices, or of stacks
            of them.
        preferred_element_type: Dtype to multiply in and to return; bfloat16 by default.

    Returns:
        Array as from ``dot_general``.

    Differs from JAX: it can be differentiated.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import lax
        >>> x, scale = jnp.ones((2, 8)), jnp.full((2, 2), 3.0)
        >>> lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type=jnp.float32)
        Array([[24., 24.],
               [24., 24.]], dtype=float32)
    """
    dtype = dtypes.canonicalize_dtype(preferred_element_type or dtypes.bfloat16)
    sides = typeof(lhs), typeof(rhs)
    if any(side.ndim < 2 for side in sides):
        raise TypeError(
            f"scaled_dot takes operands of two or more dimensions, got {sides[0].str_short()} and"
            f" {sides[1].str_short()}"
        )
    if dimension_numbers is None:
        if sides[0].ndim != sides[1].ndim or sides[0].ndim not in _USUAL:
            raise TypeError(
                "scaled_dot has default dimension_numbers only for two matrices or two stacks of "
                f"them; pass dimension_numbers for {sides[0].str_short()} and "
                f"{sides[1].str_short()}"
            )
        dimension_numbers = _USUAL[sides[0].ndim]
    (left, right), _ = dimension_numbers
    a = _scaled("lhs", lhs, lhs_scale, left, dtype)
    b = _scaled("rhs", rhs, rhs_scale, right, dtype)
    return dot_general(a, b, dimension_numbers, preferred_element_type=dtype)


def _scaled(name: str, x: Any, scale: Any, contracting: Any, dtype: np.dtype) -> Any:
    """An operand times its scale, in the dtype of the product."""
    x = convert_element_type(x, dtype)
    if scale is None:
        return x
    shape, blocks = typeof(x).shape, typeof(scale).shape
    if len(blocks) != len(shape):
        raise TypeError(f"{name}_scale has {len(blocks)} dimensions, {name} has {len(shape)}")
    spread: list[int] = []
    places: list[int] = []
    for i, (size, count) in enumerate(zip(shape, blocks, strict=True)):
        places.append(len(spread))
        spread.append(count)
        if i not in contracting:
            if size != count:
                raise TypeError(
                    f"dimension {i} of {name} has size {size}, of {name}_scale {count}; they may"
                    f" differ where {name} is contracted: {tuple(contracting)}"
                )
        elif count == 0 or size % count or size // count < 2:
            raise TypeError(
                f"dimension {i} of {name}, of size {size}, cannot be divided into {count} blocks"
                " of two or more elements"
            )
        else:
            spread.append(size // count)
    factors = broadcast_in_dim(convert_element_type(scale, dtype), tuple(spread), tuple(places))
    return mul(x, reshape(factors, shape))
