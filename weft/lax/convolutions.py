"""Convolutions of ``weft.lax``: layouts, paddings and shapes around ``prims.conv``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.placement import result_sharding
from weft.base.functional import lru
from weft.core.array import Array
from weft.core.dims.dim import whole
from weft.lax.windows import padtype_to_pads
from weft.prims.conv import (
    ConvDimensionNumbers,
    conv_general_dilated_p,
    dilated,
    inverse,
    window_counts,
)
from weft.prims.precision import PrecisionLike, canonicalize_precision
from weft.prims.shape import rev_p, transpose

ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None
Padding = str | Sequence[tuple[int, int]]


# --- layouts --------------------------------------------------------------------------------------


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the permutations that bring input, kernel and result into canonical order.

    Args:
        dimension_numbers: Three strings: N is the batch, C features, I and O the kernel's input and
            output features, other letters space.

    Returns:
        Three tuples of axes, for ``lax.transpose``.

    Example:
        >>> from weft import lax
        >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, kernel, out = dimension_numbers
    permutations, letters = [], []
    for i, (spec, special) in enumerate(((lhs, "NC"), (kernel, "OI"), (out, "NC"))):
        first, second = special
        if not spec.count(first) == spec.count(second) == 1 or len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have {first!r} and {second!r} once and no"
                f" letter twice, got {spec!r}"
            )
        letters.append(set(spec) - set(special))
        if letters[-1] == letters[0]:
            space = [spec.index(c) for c in kernel if c in letters[0]]
            permutations.append((spec.index(first), spec.index(second), *space))
    if not letters[0] == letters[1] == letters[2]:
        raise TypeError(
            "convolution dimension_numbers must name the same spatial dimensions three times, got"
            f" {tuple(dimension_numbers)}"
        )
    return tuple(permutations)


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Return the layouts of a convolution in canonical form.

    Args:
        lhs_shape: Shape of the input, which gives the number of dimensions.
        rhs_shape: Shape of the kernel.
        dimension_numbers: Layouts of input, kernel and result: three strings such as ("NHWC",
            "HWIO", "NHWC"), or a ``ConvDimensionNumbers``; None is (batch, features, space...) and
            (outputs, features, window...).

    Returns:
        A ``ConvDimensionNumbers`` of axes.

    Example:
        >>> from weft import lax
        >>> lax.conv_dimension_numbers((1, 8, 3), (5, 3, 4), ("NWC", "WIO", "NWC")).rhs_spec
        (2, 1, 0)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape):
        raise TypeError(
            "a convolution needs lhs and rhs of equal rank, got shapes"
            f" {tuple(lhs_shape)} and {tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        order = tuple(range(ndim))
        return ConvDimensionNumbers(order, order, order)
    if not isinstance(dimension_numbers, (tuple, list)) or len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers must be None, a ConvDimensionNumbers, or three strings"
            f" like ('NCHW', 'OIHW', 'NCHW'), got {dimension_numbers!r}"
        )
    for i, spec in enumerate(dimension_numbers):
        if not isinstance(spec, str) or len(spec) != ndim:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must be a string with a letter for each of"
                f" {ndim} dimensions, got {spec!r} for lhs of shape {tuple(lhs_shape)} and rhs of"
                f" shape {tuple(rhs_shape)}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def integers(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple([operator.index(v) for v in values])
    except TypeError:
        raise TypeError(f"{name} must be a sequence of integers, got {values!r}") from None


def _pairs(padding: Any) -> tuple[tuple[int, int], ...]:
    try:
        return tuple([(whole(low), whole(high)) for low, high in padding])
    except (TypeError, ValueError):
        raise ValueError(
            "padding of a convolution must be 'SAME', 'SAME_LOWER', 'VALID' or a sequence of"
            f" (low, high) pairs, got {padding!r}"
        ) from None


def _pads(
    padding: Any, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Padding as pairs; ``SAME`` makes one window for each stride of the input."""
    if not isinstance(padding, str):
        return _pairs(padding)
    kind = padding.upper()
    if kind == "VALID":
        return ((0, 0),) * len(sizes)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"padding {padding!r} is not known; write 'SAME', 'SAME_LOWER', 'VALID' or pairs"
        )
    if not len(sizes) == len(window) == len(strides):
        raise ValueError(
            f"a convolution over {len(sizes)} spatial dimensions needs one stride per dimension,"
            f" got {tuple(strides)}"
        )
    return tuple(padtype_to_pads(sizes, window, strides, kind))


def _geometry(
    lhs_shape: tuple[int, ...],
    rhs_shape: tuple[int, ...],
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
) -> dict[str, Any]:
    """Parameters of the primitive that say which elements meet."""
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    numbers = ConvDimensionNumbers(*map(tuple, numbers))
    if len(lhs_shape) != len(rhs_shape):
        raise ValueError(
            f"a convolution needs lhs and rhs of equal rank, got shapes {lhs_shape} and {rhs_shape}"
        )
    if not isinstance(padding, str):
        padding = _pairs(padding)
    ones = (1,) * (len(lhs_shape) - 2)
    lhs_dilation = ones if lhs_dilation is None else integers("lhs_dilation", lhs_dilation)
    rhs_dilation = ones if rhs_dilation is None else integers("rhs_dilation", rhs_dilation)
    strides = integers("window_strides", window_strides)
    if isinstance(padding, str) and any(d != 1 for d in lhs_dilation):
        raise ValueError(
            f"padding {padding!r} is undefined with lhs_dilation {lhs_dilation}; give pairs, or"
            " use lax.conv_transpose"
        )
    window = [rhs_shape[i] for i in numbers.rhs_spec[2:]]
    if len(window) == len(rhs_dilation):
        window = dilated(window, rhs_dilation)
    sizes = [lhs_shape[i] for i in numbers.lhs_spec[2:]]
    return {
        "window_strides": strides,
        "padding": _pads(padding, sizes, window, strides),
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": numbers,
    }


_cached_geometry = lru()(_geometry)


# --- convolutions ---------------------------------------------------------------------------------


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the convolution of an input with a kernel, with strides, dilations and groups.

    Args:
        lhs: Input array.
        rhs: Kernel array.
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or a (before, after) pair for each spatial
            dimension; negative padding crops.
        lhs_dilation: Step between neighbouring elements of the input along each spatial dimension,
            with zeros between; 1 by default.
        rhs_dilation: Step between neighbouring elements of the kernel along each spatial dimension;
            1 by default.
        dimension_numbers: Layouts of input, kernel and result: three strings such as ("NHWC",
            "HWIO", "NHWC"), or a ``ConvDimensionNumbers``; None is (batch, features, space...) and
            (outputs, features, window...).
        feature_group_count: Number of groups that the input features are cut into, each with
            kernels of its own.
        batch_group_count: Number of groups that the batch is cut into, each with kernels of its
            own.
        precision: Precision of the products on accelerators: None, a ``Precision`` or its name, or
            a pair of them.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array in the layout that ``dimension_numbers`` give for the result.

    Layouts are given by three strings for input, kernel and result: N is the batch, C features, I
    and O the kernel's input and output features, other letters space. Strides and dilations
    follow the order of the spatial letters in the kernel's string.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> x, w = jnp.arange(6.).reshape(1, 1, 6), jnp.array([[[1., 1.]]])
        >>> lax.conv_general_dilated(x, w, (2,), "VALID")
        Array([[[1., 5., 9.]]], dtype=float32)
    """
    geometry = (window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers)
    try:
        params = _cached_geometry(np.shape(lhs), np.shape(rhs), *geometry)
    except TypeError:  # lists have no hash
        params = _geometry(np.shape(lhs), np.shape(rhs), *geometry)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(
            preferred_element_type, "conv_general_dilated"
        )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        **params,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=result_sharding(out_sharding, "conv_general_dilated"),
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the convolution of a (batch, features, space...) input with a kernel.

    Args:
        lhs: Input of shape (batch, features, space...).
        rhs: Kernel of shape (outputs, features, window...).
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER" or "VALID".
        precision: Precision of the products on accelerators: None, a ``Precision`` or its name, or
            a pair of them.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.

    Returns:
        Array of shape (batch, outputs, space...).

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 2, 2)), (2, 2), "SAME").shape
        (1, 4, 4, 4)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the convolution of a (batch, features, space...) input with any padding and dilation.

    Args:
        lhs: Input of shape (batch, features, space...).
        rhs: Kernel of shape (outputs, features, window...).
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or a (before, after) pair for each spatial
            dimension; negative padding crops.
        lhs_dilation: Step between neighbouring elements of the input along each spatial dimension,
            with zeros between; 1 by default.
        rhs_dilation: Step between neighbouring elements of the kernel along each spatial dimension;
            1 by default.
        precision: Precision of the products on accelerators: None, a ``Precision`` or its name, or
            a pair of them.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.

    Returns:
        Array of shape (batch, outputs, space...).

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> x, w = jnp.ones((1, 1, 4)), jnp.ones((1, 1, 3))
        >>> lax.conv_with_general_padding(x, w, (1,), [(1, 2)], (2,), None).shape
        (1, 1, 8)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transposed_pads(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """Padding of a transposed convolution, from that of the convolution it goes back through."""
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    elif isinstance(padding, tuple):
        low = window - padding[0] - 1
        total = low + window - padding[1] - 1
    else:
        raise ValueError(
            "padding of conv_transpose must be 'SAME', 'VALID' or pairs (low, high), got"
            f" {padding!r}"
        )
    return low, total - low


_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Return the transposed convolution, whose result is larger than its input.

    Args:
        lhs: Input array.
        rhs: Kernel array.
        strides: By how much each spatial dimension grows.
        padding: "SAME", "VALID", or a pair for each spatial dimension: of the dilated input, or
            with ``use_consistent_padding`` of the convolution whose gradient this is (as strings
            always are).
        rhs_dilation: Step between neighbouring elements of the kernel along each spatial dimension;
            1 by default.
        dimension_numbers: Layouts as for ``conv_general_dilated``; by default features are last:
            ("NHWC", "HWIO", "NHWC") for two spatial dimensions.
        transpose_kernel: If true, flip the kernel and swap its features: the result is then the
            gradient of a convolution.
        precision: Precision of the products on accelerators: None, a ``Precision`` or its name, or
            a pair of them.
        preferred_element_type: Dtype to accumulate in and to return; by default that of the
            operands.
        use_consistent_padding: If true, pairs in ``padding`` mean the same as strings do.

    Returns:
        Array in the layout that ``dimension_numbers`` give for the result.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.conv_transpose(jnp.ones((1, 4, 4, 3)), jnp.ones((3, 3, 3, 8)), (2, 2), "SAME").shape
        (1, 8, 8, 8)
    """
    lhs_shape, rhs_shape = np.shape(lhs), np.shape(rhs)
    ndim = len(lhs_shape)
    if dimension_numbers is None:
        dimension_numbers = _CHANNELS_LAST.get(ndim)  # type: ignore[assignment]
        if dimension_numbers is None:
            raise ValueError(
                f"conv_transpose has no default layout for lhs of shape {lhs_shape}; give"
                " dimension_numbers"
            )
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    dilation = (1,) * (ndim - 2) if rhs_dilation is None else tuple(rhs_dilation)
    if use_consistent_padding or (isinstance(padding, str) and padding in ("SAME", "VALID")):
        window = dilated([rhs_shape[i] for i in numbers.rhs_spec[2:]], dilation)
        each = [padding] * len(strides) if isinstance(padding, str) else padding
        padding = [_transposed_pads(w, s, p) for w, s, p in zip(window, strides, each, strict=True)]
    if transpose_kernel:
        for axis in numbers.rhs_spec[2:]:
            rhs = rev_p.bind(rhs, dimensions=(axis,))
        order = list(range(ndim))
        out, into = numbers.rhs_spec[:2]
        order[out], order[into] = into, out
        rhs = transpose(rhs, tuple(order))
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * (ndim - 2),
        padding,
        strides,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# --- shapes ---------------------------------------------------------------------------------------


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Padding,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """Return the shape of a convolution of operands in canonical layout.

    Args:
        lhs_shape: Shape of the input, (batch, features, space...).
        rhs_shape: Shape of the kernel, (outputs, features, window...).
        strides: Step of the window along each spatial dimension.
        pads: "SAME", "VALID", or a (before, after) pair for each spatial dimension.
        batch_group_count: Number of groups that the batch is cut into.

    Returns:
        Shape of the result as a tuple.

    Example:
        >>> from weft import lax
        >>> lax.conv_shape_tuple((1, 3, 8, 8), (4, 3, 3, 3), (2, 2), "SAME")
        (1, 4, 4, 4)
    """
    if not isinstance(pads, str) and len(pads) != len(lhs_shape) - 2:
        raise TypeError(
            f"a convolution over {len(lhs_shape) - 2} spatial dimensions needs one pair of "
            f"padding per dimension, got {pads}"
        )
    pairs = _pads(pads, lhs_shape[2:], rhs_shape[2:], strides)
    space = window_counts(lhs_shape[2:], rhs_shape[2:], strides, pairs)
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *space)


def _taken(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[i] for i in order)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """Return the shape of a convolution of operands in given layouts.

    Args:
        lhs_shape: Shape of the input.
        rhs_shape: Shape of the kernel.
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or a (before, after) pair for each spatial
            dimension.
        dimension_numbers: Three strings with the layouts of input, kernel and result.

    Returns:
        Shape of the result as a tuple.

    Example:
        >>> from weft import lax
        >>> layout = ("NHWC", "HWIO", "NHWC")
        >>> lax.conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 2), "VALID", layout)
        (1, 3, 3, 4)
    """
    lhs_order, rhs_order, out_order = conv_general_permutations(dimension_numbers)
    lhs, rhs = _taken(lhs_shape, lhs_order), _taken(rhs_shape, rhs_order)
    return _taken(conv_shape_tuple(lhs, rhs, window_strides, padding), inverse(out_order))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """Return the shape of a transposed convolution of operands in given layouts.

    Args:
        lhs_shape: Shape of the input.
        rhs_shape: Shape of the kernel.
        window_strides: Step of the window along each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or a (before, after) pair for each spatial
            dimension.
        dimension_numbers: Three strings with the layouts of input, kernel and result.

    Returns:
        Shape of the result as a tuple.

    Example:
        >>> from weft import lax
        >>> layout = ("NHWC", "HWIO", "NHWC")
        >>> lax.conv_transpose_shape_tuple((1, 4, 4, 3), (3, 3, 3, 8), (2, 2), "SAME", layout)
        (1, 8, 8, 8)
    """
    lhs_order, rhs_order, out_order = conv_general_permutations(dimension_numbers)
    lhs, rhs = _taken(lhs_shape, lhs_order), _taken(rhs_shape, rhs_order)
    each = [padding] * len(rhs[2:]) if isinstance(padding, str) else list(padding)
    space = []
    for n, w, s, pads in zip(lhs[2:], rhs[2:], window_strides, each, strict=True):
        low, high = _transposed_pads(w, s, pads) if isinstance(pads, str) else pads
        space.append((n - 1) * s - w + 2 + low + high)
    return _taken((lhs[0], rhs[0], *space), inverse(out_order))
