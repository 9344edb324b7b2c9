"""Reductions over sliding windows in ``weft.lax``, and the arithmetic of padding."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from weft import tree
from weft.control.reductions import reduce_window_p
from weft.core.array import Array, ArrayLike, Neutral
from weft.core.dims.dim import max_dim, whole
from weft.core.trace import typeof
from weft.lax.reductions import flatten_operands, monoid_of, reduction_jaxpr
from weft.prims import window as prims

T = TypeVar("T")


class PaddingType(enum.Enum):
    """Named ways of padding the axes that a window slides over."""

    VALID = 1
    SAME = 2
    SAME_LOWER = 3


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | PaddingType,
) -> list[tuple[int, int]]:
    """Return the padding before and after each axis that a name such as "SAME" stands for.

    Args:
        in_shape: Sizes of the input, without batch and features.
        window_shape: Sizes of the window.
        window_strides: Steps of the window.
        padding: "VALID", "SAME" or "SAME_LOWER".

    Returns:
        List of (before, after) pairs.

    "VALID" adds none. "SAME" adds so much that the result has ``ceil(size / stride)`` elements,
    with an odd one at the end; "SAME_LOWER" puts the odd one in front.

    Example:
        >>> from weft import lax
        >>> lax.padtype_to_pads((10,), (3,), (2,), 'SAME')
        [(0, 1)]
    """
    if isinstance(padding, str):
        try:
            padding = PaddingType[padding.upper()]
        except KeyError:
            raise RuntimeError(
                f"unknown padding {padding!r}: use 'VALID', 'SAME' or 'SAME_LOWER', or give pairs"
            ) from None
    if padding == PaddingType.VALID:
        return [(0, 0)] * len(in_shape)
    if padding not in (PaddingType.SAME, PaddingType.SAME_LOWER):
        raise TypeError(f"padding must be a name or a PaddingType, got {padding!r}")
    if any(stride < 1 for stride in window_strides):
        raise ValueError(f"windows need positive window_strides, got {tuple(window_strides)}")
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        count = -(-size // stride)
        total = max_dim((count - 1) * stride + window - size, 0)
        small = total // 2
        large = total - small
        pads.append((small, large) if padding == PaddingType.SAME else (large, small))
    return [(whole(low), whole(high)) for low, high in pads]


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return the shape of a reduction over windows.

    Args:
        operand_shape: Shape of the operand.
        window_dimensions: Size of the window along each axis.
        window_strides: Step of the window along each axis.
        padding: A (before, after) pair for each axis.
        base_dilation: Step between neighbouring elements of the operand; 1 by default.
        window_dilation: Step between neighbouring elements of the window; 1 by default.

    Returns:
        Tuple of integers.

    Example:
        >>> from weft import lax
        >>> lax.reduce_window_shape_tuple((10, 5), (3, 2), (2, 1), ((0, 0), (1, 1)))
        (4, 6)
    """
    return prims.reduce_window_shape(
        operand_shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )


_REDUCERS = {
    "add": prims.reduce_window_sum_p,
    "max": prims.reduce_window_max_p,
    "min": prims.reduce_window_min_p,
}


@overload
def reduce_window(
    operand: ArrayLike,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array: ...
@overload
def reduce_window(
    operand: T,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> T: ...
def reduce_window(
    operand: Any,
    init_value: Neutral,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Return every window of arrays reduced by an associative function.

    Args:
        operand: Array, or tree of arrays of one shape, which are reduced together.
        init_value: Identity of ``computation``, a scalar for each operand; padding has this value.
        computation: Associative function of two trees of scalars. ``lax.add``, ``max`` and ``min``
            are fastest.
        window_dimensions: Size of the window along each axis.
        window_strides: Step of the window along each axis; 1 by default.
        padding: "VALID", "SAME", "SAME_LOWER", or a (before, after) pair for each axis.
        base_dilation: Step between neighbouring elements of the operand, with gaps of
            ``init_value``; 1 by default.
        window_dilation: Step between neighbouring elements of the window; 1 by default.

    Returns:
        Tree like ``operand``, with one element for each position of the window.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_window(jnp.arange(5.), 0., lax.add, (2,))
        Array([1., 3., 5., 7.], dtype=float32)
    """
    flat, inits, structure = flatten_operands("reduce_window", operand, init_value)
    ones = (1,) * len(window_dimensions)
    window = {
        "window_dimensions": tuple(window_dimensions),
        "window_strides": ones if window_strides is None else tuple(window_strides),
        "base_dilation": ones if base_dilation is None else tuple(base_dilation),
        "window_dilation": ones if window_dilation is None else tuple(window_dilation),
    }
    pads = _pads(typeof(flat[0]), padding, window)
    monoid = monoid_of(computation, inits)
    if monoid in _REDUCERS:
        out = _REDUCERS[monoid].bind(flat[0], padding=pads, **window)
        return tree.unflatten(structure, [out])
    closed = reduction_jaxpr(computation, tuple(map(typeof, inits)), structure)
    outs = reduce_window_p.bind(
        *flat, *inits, jaxpr=closed.jaxpr, consts=tuple(closed.consts), padding=pads, **window
    )
    return tree.unflatten(structure, outs)


def _pads(aval: Any, padding: Any, window: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """The padding of each axis, from its name or as given."""
    prims.check_window("reduce_window", aval, *window.values())
    if isinstance(padding, str):
        sizes = prims.dilate_shape(window["window_dimensions"], window["window_dilation"])
        return tuple(padtype_to_pads(aval.shape, sizes, window["window_strides"], padding))
    pads = tuple((low, high) for low, high in padding)
    if len(pads) != len(aval.shape):
        raise ValueError(
            f"reduce_window needs a pair of paddings for each of {len(aval.shape)} axes, got {pads}"
        )
    return pads
