"""The windows that convolutions see, as arrays, and convolutions with a kernel for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core.array import Array
from weft.core.trace import typeof
from weft.lax.convolutions import (
    ConvGeneralDilatedDimensionNumbers,
    Padding,
    conv_dimension_numbers,
    conv_general_dilated,
    integers,
)
from weft.lax.products import dot_general
from weft.prims.arithmetic import add
from weft.prims.convert import convert
from weft.prims.precision import Precision, PrecisionLike, canonicalize_precision
from weft.prims.selection import eq
from weft.prims.shape import broadcast_in_dim, iota, reshape, transpose


def _moveaxes(x: Any, source: Sequence[int], target: Sequence[int]) -> Any:
    """``x`` with several axes moved, the others in order."""
    ndim = np.ndim(x)
    order = [i for i in range(ndim) if i not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return transpose(x, tuple(order))


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the windows that a convolution sees, each flattened into the features of the result.

    Args:
        lhs: Input array.
        filter_shape: Size of the window along each spatial dimension.
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or a (before, after) pair for each spatial
            dimension.
        lhs_dilation: Step between neighbouring elements of the input along each spatial dimension;
            1 by default.
        rhs_dilation: Step between neighbouring elements of the window along each spatial dimension;
            1 by default.
        dimension_numbers: Layouts of input, kernel and result, as for ``conv_general_dilated``.
        precision: Precision of the products on accelerators: None, a ``Precision`` or its name.
        preferred_element_type: Dtype of the result; by default that of ``lhs``.

    Returns:
        Array with ``features * prod(filter_shape)`` features for each position of the window.

    Features of a window are ordered by input feature first, then by position in the window.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> x = jnp.arange(4.).reshape(1, 1, 4)
        >>> lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
        Array([[[0., 1., 2.],
                [1., 2., 3.]]], dtype=float32)
    """
    window = integers("filter_shape", filter_shape)
    shape = np.shape(lhs)
    numbers = conv_dimension_numbers(shape, (1, 1, *window), dimension_numbers)
    features, size = shape[numbers.lhs_spec[1]], prod(window)
    square = (size, size)
    diagonal = eq(add(iota(np.int32, square, 0), np.int32(0)), iota(np.int32, square, 1))
    one_hot = convert(diagonal, typeof(lhs).dtype)
    kernel = broadcast_in_dim(one_hot, (features, *square), (1, 2))
    kernel = reshape(kernel, (features * size, 1, *window))
    return conv_general_dilated(
        lhs,
        _moveaxes(kernel, (0, 1), numbers.rhs_spec[:2]),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        precision=None if precision is None else (precision, Precision.DEFAULT),
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """Return a convolution with a kernel of its own at each position of the result.

    Args:
        lhs: Input array.
        rhs: Kernels: the spatial dimensions are those of the result, the input features are
            ``features * prod(filter_shape)``.
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or a (before, after) pair for each spatial
            dimension.
        filter_shape: Size of the window along each spatial dimension.
        lhs_dilation: Step between neighbouring elements of the input along each spatial dimension;
            1 by default.
        rhs_dilation: Step between neighbouring elements of the window along each spatial dimension;
            1 by default.
        dimension_numbers: Layouts of input, kernel and result, as for ``conv_general_dilated``.
        precision: Precision of the products on accelerators: None, a ``Precision`` or its name.

    Returns:
        Array in the layout that ``dimension_numbers`` give for the result.

    The spatial dimensions of ``rhs`` are those of the result; its input features are the windows,
    flattened as ``conv_general_dilated_patches`` does.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> x, w = jnp.ones((1, 1, 3)), jnp.arange(4.).reshape(1, 2, 2)
        >>> lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,))
        Array([[[2., 4.]]], dtype=float32)
    """
    exact = canonicalize_precision(precision)
    if not (exact is None or type(exact) is tuple):
        raise ValueError(
            f"conv_general_dilated_local takes a lax.Precision or two, got {precision!r}"
        )
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        precision=None if exact is None else exact[0],
    )
    ones = (1, 1, *filter_shape)
    _, rhs_spec, out_spec = conv_dimension_numbers(np.shape(lhs), ones, dimension_numbers)
    space = sorted(zip(out_spec[2:], rhs_spec[2:], strict=True))
    batch = tuple(o for o, _ in space), tuple(r for _, r in space)
    numbers = (((out_spec[1],), (rhs_spec[1],)), batch)
    out = dot_general(patches, rhs, numbers, precision)
    ndim = np.ndim(out)
    return _moveaxes(out, (ndim - 2, ndim - 1), out_spec[:2])
