"""Products of groups of rows of unequal sizes, which are data: ``ragged_dot_general``. Groups are
masks over copies of an operand; the products themselves are those of ``prims.dot``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.base.record import Record
from weft.core.ad import UndefPrimal, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front
from weft.core.interpret import decomposed
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.prims.arithmetic import sub
from weft.prims.bits import and_
from weft.prims.convert import convert
from weft.prims.dot import (
    DimensionNumbers,
    Dims,
    batched_dimensions,
    check_dimensions,
    dot_dtype,
    dot_general_p,
    dot_shape,
    inverse,
    is_algorithm,
    remaining,
)
from weft.prims.families import INTEGER, const, kind_of
from weft.prims.selection import le, lt, select_n
from weft.prims.shape import broadcast_in_dim, full, iota, transpose


class _RaggedFields(Record):
    dot_dimension_numbers: DimensionNumbers
    lhs_ragged_dimensions: Dims
    rhs_group_dimensions: Dims


class RaggedDotDimensionNumbers(_RaggedFields):
    """The axes of a ragged product: those of the product, and the ones cut into groups.

    Args:
        dot_dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``, as
            for ``dot_general``.
        lhs_ragged_dimensions: The one axis of the left operand that is cut into groups.
        rhs_group_dimensions: The axis of the right operand that has one entry for each group; none
            if the ragged axis is contracted.

    Example:
        >>> from weft import lax
        >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
        >>> numbers.lhs_ragged_dimensions
        (0,)
    """

    __slots__ = ()

    def __new__(
        cls,
        dot_dimension_numbers: Any,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ) -> RaggedDotDimensionNumbers:
        (left, right), (lhs_batch, rhs_batch) = dot_dimension_numbers
        numbers = (tuple(left), tuple(right)), (tuple(lhs_batch), tuple(rhs_batch))
        return super().__new__(
            cls, numbers, tuple(lhs_ragged_dimensions), tuple(rhs_group_dimensions)
        )


# What the ragged dimension of lhs is: with g groups, [b,m,k] [g,b,k,n] -> [b,m,n] with m free,
# [b,m,k] [b,k,n] -> [g,b,m,n] with k contracting, [b,m,k] [b,k,n] -> [b,m,n] with b batch.
FREE, CONTRACTING, BATCH = "free", "contracting", "batch"


class _Ragged(Record):
    """A ragged product taken apart; ``prefix`` are the axes of lhs along which groups differ."""

    mode: str
    axis: int
    prefix: Dims


@lru()
def _ragged(ndim: int, numbers: RaggedDotDimensionNumbers) -> _Ragged:
    (contracting, _), (batch, _) = numbers.dot_dimension_numbers
    (axis,) = numbers.lhs_ragged_dimensions
    free = remaining(ndim, contracting, batch)
    if axis in free:
        return _Ragged(FREE, axis, (*batch, *free[: free.index(axis)]))
    if axis in contracting:
        return _Ragged(CONTRACTING, axis, (*batch, *contracting[: contracting.index(axis)]))
    return _Ragged(BATCH, axis, batch[: batch.index(axis)])


def _rhs_ragged(ragged: _Ragged, numbers: RaggedDotDimensionNumbers) -> _Ragged:
    """The ragged dimension of rhs, where that dimension is contracted."""
    (left, right), (_, rhs_batch) = numbers.dot_dimension_numbers
    place = left.index(ragged.axis)
    return _Ragged(CONTRACTING, right[place], (*rhs_batch, *right[:place]))


def _with_groups(dims: Dims) -> Dims:
    """Dimensions after an axis of groups is put in front."""
    return tuple(d + 1 for d in dims)


def _grouped_numbers(ragged: _Ragged, numbers: RaggedDotDimensionNumbers) -> DimensionNumbers:
    """Dimension numbers of the product of operands spread over groups (lhs alone if free)."""
    (left, right), (lhs_batch, rhs_batch) = numbers.dot_dimension_numbers
    left, lhs_batch = _with_groups(left), _with_groups(lhs_batch)
    if ragged.mode == FREE:
        return ((*left, 0), (*right, *numbers.rhs_group_dimensions)), (lhs_batch, rhs_batch)
    return (left, _with_groups(right)), ((0, *lhs_batch), (0, *_with_groups(rhs_batch)))


def _ragged_shape(lhs: Dims, rhs: Dims, sizes: Dims, numbers: RaggedDotDimensionNumbers) -> Dims:
    def error(problem: str) -> TypeError:
        return TypeError(
            f"ragged_dot_general: {problem}. Got lhs of shape {lhs}, rhs of shape {rhs},"
            f" group_sizes of shape {sizes} and {numbers}"
        )

    if len(numbers.lhs_ragged_dimensions) != 1:
        raise error("lhs must have exactly one ragged dimension")
    check_dimensions("ragged_dot_general", lhs, rhs, numbers.dot_dimension_numbers)
    if not 0 <= numbers.lhs_ragged_dimensions[0] < len(lhs):
        raise error("the ragged dimension is not an axis of lhs")
    ragged = _ragged(len(lhs), numbers)
    if not sizes:
        raise error("group_sizes must have a dimension of groups")
    expected = (*(lhs[i] for i in ragged.prefix), sizes[-1])
    if len(sizes) > 1 and sizes != expected:
        raise error(f"group_sizes must have shape {expected} or {sizes[-1:]}")
    (_, rhs_contract), (_, rhs_batch) = numbers.dot_dimension_numbers
    groups = numbers.rhs_group_dimensions
    if len(groups) != (ragged.mode == FREE):
        raise error(
            "rhs must have one group dimension if the ragged dimension of lhs is neither"
            " contracting nor batch, else none"
        )
    for axis in groups:
        if not 0 <= axis < len(rhs) or axis in (*rhs_contract, *rhs_batch):
            raise error("the group dimension must be a free axis of rhs")
        if rhs[axis] != sizes[-1]:
            raise error(f"rhs has {rhs[axis]} groups but group_sizes has {sizes[-1]}")
    kept = dot_shape(lhs, rhs, numbers.dot_dimension_numbers)
    if ragged.mode == FREE:
        (lhs_contract, _), _ = numbers.dot_dimension_numbers
        free = remaining(len(rhs), rhs_contract, rhs_batch)
        place = len(lhs) - len(lhs_contract) + free.index(groups[0])
        return kept[:place] + kept[place + 1 :]
    return (sizes[-1], *kept) if ragged.mode == CONTRACTING else kept


def _mask_layout(ndim: int, ragged: _Ragged) -> tuple[Dims, Dims]:
    """Permutation of a mask (prefix, groups, position), and its axes among (groups, operand)."""
    places = (*_with_groups(ragged.prefix), 0, ragged.axis + 1)
    return inverse(places), tuple(sorted(places))


def _mask(shape: Dims, sizes: Any, ragged: _Ragged) -> Any:
    """Whether each element of an operand (groups, *shape) is inside its group."""
    prefix = tuple(shape[i] for i in ragged.prefix)
    groups = np.shape(sizes)[-1]
    if np.ndim(sizes) == 1:
        sizes = broadcast_in_dim(sizes, (*prefix, groups), (len(prefix),))
    ends = lookup("cumsum").bind(sizes, axis=len(prefix), reverse=False)
    starts = sub(ends, sizes)
    order, axes = _mask_layout(len(shape), ragged)
    full_shape = (groups, *shape)
    order = tuple(i for i in order if i <= len(prefix))
    axes = tuple(a for a in axes if a != ragged.axis + 1)
    starts = broadcast_in_dim(transpose(starts, order), full_shape, axes)
    ends = broadcast_in_dim(transpose(ends, order), full_shape, axes)
    position = iota(typeof(sizes).dtype, full_shape, ragged.axis + 1)
    return and_(le(starts, position), lt(position, ends))


def _spread(x: Any, mask: Any) -> Any:
    """``x`` copied for every group, with zeros outside the group."""
    shape = np.shape(mask)
    if np.ndim(x) < len(shape):
        x = broadcast_in_dim(x, shape, tuple(range(1, len(shape))))
    return select_n(mask, full(shape, const(x, 0)), x)


class RaggedDotGeneral(Primitive):
    """Products of groups of unequal sizes; elements beyond the last group count as zero."""

    arithmetic = True
    name = "ragged_dot_general"
    ref = decomposed

    def shape(
        self,
        lhs: Any,
        rhs: Any,
        group_sizes: Any,
        *,
        ragged_dot_dimension_numbers: Any,
        precision: Any,
        preferred_element_type: Any,
        group_offset: Any,
        out_sharding: Any,
    ) -> ShapedArray:
        if not kind_of(group_sizes.dtype) & INTEGER:
            raise TypeError(
                f"ragged_dot_general needs integer group_sizes, got {group_sizes.str_short()}"
            )
        numbers = ragged_dot_dimension_numbers
        shape = _ragged_shape(lhs.shape, rhs.shape, group_sizes.shape, numbers)
        exact = not is_algorithm(precision)
        dtype = dot_dtype(self.name, lhs.dtype, rhs.dtype, preferred_element_type, exact)
        return ShapedArray(shape, dtype)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        return True

    def decompose(self, lhs: Any, rhs: Any, group_sizes: Any, **params: Any) -> Any:
        numbers, ragged, dot = self._apart(np.ndim(lhs), params)
        if ragged.mode == BATCH:
            return dot_general_p.bind(
                lhs, rhs, dimension_numbers=numbers.dot_dimension_numbers, **dot
            )
        if ragged.mode == CONTRACTING:
            other = _rhs_ragged(ragged, numbers)
            rhs = _spread(rhs, _mask(np.shape(rhs), group_sizes, other))
        lhs = _spread(lhs, _mask(np.shape(lhs), group_sizes, ragged))
        grouped = _grouped_numbers(ragged, numbers)
        return dot_general_p.bind(lhs, rhs, dimension_numbers=grouped, **dot)

    def _apart(self, lhs_ndim: int, params: dict[str, Any]) -> tuple[Any, _Ragged, dict[str, Any]]:
        """Dimension numbers, what is ragged, and the other parameters of the plain product."""
        numbers = params["ragged_dot_dimension_numbers"]
        kept = ("precision", "preferred_element_type", "out_sharding")
        return numbers, _ragged(lhs_ndim, numbers), {k: params[k] for k in kept}

    def d0(self, g: Any, out: Any, lhs: Any, rhs: Any, group_sizes: Any, **params: Any) -> Any:
        return self.bind(g, rhs, group_sizes, **params)

    def d1(self, g: Any, out: Any, lhs: Any, rhs: Any, group_sizes: Any, **params: Any) -> Any:
        return self.bind(lhs, g, group_sizes, **params)

    def transpose(self, ct: Any, lhs: Any, rhs: Any, group_sizes: Any, **params: Any) -> list[Any]:
        lhs_ndim = lhs.aval.ndim if is_undef(lhs) else np.ndim(lhs)
        numbers, ragged, dot = self._apart(lhs_ndim, params)
        if ragged.mode == BATCH:
            dims = numbers.dot_dimension_numbers
            return [*dot_general_p.transpose(ct, lhs, rhs, dimension_numbers=dims, **dot), None]
        if ragged.mode == CONTRACTING:
            return [*self._transpose_grouped(ct, lhs, rhs, group_sizes, params), None]
        if is_undef(lhs):
            new, order = _free_lhs_dimensions(lhs_ndim, np.ndim(rhs), ragged, numbers)
            args, aval, place = (ct, rhs, group_sizes), lhs.aval, 0
        else:
            new, order = _free_rhs_dimensions(lhs_ndim, rhs.aval.ndim, ragged, numbers)
            args, aval, place = (lhs, ct, group_sizes), rhs.aval, 1
        out = transpose(self.bind(*args, **(params | {"ragged_dot_dimension_numbers": new})), order)
        cts: list[Any] = [None, None, None]
        same = typeof(out).dtype == aval.dtype
        cts[place] = out if same else convert(out, aval.dtype, aval.weak_type)
        return cts

    def _transpose_grouped(
        self, ct: Any, lhs: Any, rhs: Any, group_sizes: Any, params: dict[str, Any]
    ) -> list[Any]:
        """Cotangents of a product with a ragged contraction, by way of operands for each group."""
        lhs_shape = lhs.aval.shape if is_undef(lhs) else np.shape(lhs)
        rhs_shape = rhs.aval.shape if is_undef(rhs) else np.shape(rhs)
        numbers, ragged, dot = self._apart(len(lhs_shape), params)
        sides = (ragged, _rhs_ragged(ragged, numbers))
        shapes = (lhs_shape, rhs_shape)
        masks = [_mask(s, group_sizes, r) for s, r in zip(shapes, sides, strict=True)]
        operands = [
            UndefPrimal(x.aval.update(shape=np.shape(mask))) if is_undef(x) else _spread(x, mask)
            for x, mask in zip((lhs, rhs), masks, strict=True)
        ]
        grouped = _grouped_numbers(ragged, numbers)
        cts = dot_general_p.transpose(ct, *operands, dimension_numbers=grouped, **dot)
        reduce_sum = lookup("reduce_sum")
        return [
            None if x is None else reduce_sum.bind(_spread(x, mask), axes=(0,), out_sharding=None)
            for x, mask in zip(cts, masks, strict=True)
        ]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        lhs, rhs, sizes = args
        numbers = params["ragged_dot_dimension_numbers"]
        ragged = _ragged(np.ndim(lhs) - (dims[0] is not None), numbers)
        lhs, rhs = at_front(lhs, dims[0], axis.size), at_front(rhs, dims[1], axis.size)
        sizes = at_front(sizes, dims[2], axis.size)
        if np.ndim(sizes) == 2:
            prefix = tuple(np.shape(lhs)[i + 1] for i in ragged.prefix)
            shape = (axis.size, *prefix, np.shape(sizes)[-1])
            if np.shape(sizes) != shape:
                sizes = broadcast_in_dim(sizes, shape, (0, len(shape) - 1))
        dot, _ = batched_dimensions(
            (np.ndim(lhs), np.ndim(rhs)), (0, 0), numbers.dot_dimension_numbers
        )
        params["ragged_dot_dimension_numbers"] = RaggedDotDimensionNumbers(
            dot,
            _with_groups(numbers.lhs_ragged_dimensions),
            _with_groups(numbers.rhs_group_dimensions),
        )
        return self.bind(lhs, rhs, sizes, **params), int(ragged.mode == CONTRACTING)


def _free_lhs_dimensions(
    x_ndim: int, y_ndim: int, ragged: _Ragged, numbers: RaggedDotDimensionNumbers
) -> tuple[RaggedDotDimensionNumbers, Dims]:
    """Dimension numbers of cotangent times rhs, and the permutation that makes lhs of it."""
    (x_contract, y_contract), (x_batch, y_batch) = numbers.dot_dimension_numbers
    groups = numbers.rhs_group_dimensions
    x_free = remaining(x_ndim, x_contract, x_batch)
    y_free = remaining(y_ndim, y_contract, y_batch, groups)
    start = len(x_batch) + len(x_free)
    ct_free = tuple(range(start, start + len(y_free)))
    dot = (ct_free, y_free), (tuple(range(len(x_batch))), y_batch)
    axis = len(x_batch) + x_free.index(ragged.axis)
    by_y = sorted(range(len(y_contract)), key=y_contract.__getitem__)
    order = inverse((*x_batch, *x_free, *(x_contract[i] for i in by_y)))
    return RaggedDotDimensionNumbers(dot, (axis,), groups), order


def _free_rhs_dimensions(
    x_ndim: int, y_ndim: int, ragged: _Ragged, numbers: RaggedDotDimensionNumbers
) -> tuple[RaggedDotDimensionNumbers, Dims]:
    """Dimension numbers of lhs times cotangent, and the permutation that makes rhs of it."""
    (x_contract, y_contract), (x_batch, y_batch) = numbers.dot_dimension_numbers
    groups = numbers.rhs_group_dimensions
    x_free = remaining(x_ndim, x_contract, x_batch)
    y_free = remaining(y_ndim, y_contract, y_batch, groups)
    ct_free = tuple(range(len(x_batch), len(x_batch) + len(x_free)))
    dot = (x_free, ct_free), (x_batch, tuple(range(len(x_batch))))
    by_x = sorted(range(len(x_contract)), key=x_contract.__getitem__)
    order = inverse((*groups, *y_batch, *(y_contract[i] for i in by_x), *y_free))
    return RaggedDotDimensionNumbers(dot, (ragged.axis,), ()), order


ragged_dot_general_p = RaggedDotGeneral()
