"""Layouts of products: the strides by which a library reads operands and writes results where they
are, instead of copies with their axes in another order.

An axis has an extent and strides in the operands and the result. Axes that follow each other in all
of these are one. A library multiplies stacks of matrices, so that at most one axis each may be left
for the stack, rows, columns and depth; of several free axes, all but one go to the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from weft.base.record import Record
from weft.kernel.kernel import Affine, Kernel, Store
from weft.kernel.program import Type, contiguous

# Rows and columns from which a stack of free axes is multiplied as fast as large matrices are.
MIN_STACKED = 32


class Axis(Record):
    """An axis of a product, with its strides; None where something doesn't have it."""

    extent: int
    left: int | None
    right: int | None
    result: int | None

    @property
    def strides(self) -> tuple[int | None, ...]:
        return self.left, self.right, self.result


class Stored(Record):
    """A stack of column-major matrices."""

    rows: int
    columns: int
    stride: int
    batch_stride: int
    transposed: bool = False


class Layout(Record):
    """``first @ second``; the right operand comes ``first`` where the result's columns are next to
    each other, as a library of column-major matrices has it."""

    batch: int
    first: Stored
    second: Stored
    result: Stored
    right_first: bool

    def is_aligned(self, itemsize: int) -> bool:
        """Whether all matrices and their columns begin at multiples of 16 bytes, if those of copies
        would: tensor cores read no others."""
        sides = (self.first, self.second, self.result)
        if any(x.rows * itemsize % 16 for x in sides):
            return True
        numbers = [n for x in sides for n in (x.stride, x.batch_stride if self.batch > 1 else 0)]
        return all(n * itemsize % 16 == 0 for n in numbers)


def product_axes(
    lhs: Sequence[int],
    rhs: Sequence[int],
    dimension_numbers: Any,
    left: Sequence[int],
    right: Sequence[int],
) -> list[Axis]:
    """The axes of a product of operands with shapes and strides; its result is contiguous."""
    ((lc, rc), (lb, rb)) = [tuple(map(tuple, x)) for x in dimension_numbers]
    rows = [i for i in range(len(lhs)) if i not in (*lc, *lb)]
    columns = [i for i in range(len(rhs)) if i not in (*rc, *rb)]
    found = [Axis(lhs[i], left[i], right[j], 0) for i, j in zip(lb, rb, strict=True)]
    found += [Axis(lhs[i], left[i], None, 0) for i in rows]
    found += [Axis(rhs[j], None, right[j], 0) for j in columns]
    strides = contiguous([axis.extent for axis in found])
    found = [axis._replace(result=n) for axis, n in zip(found, strides, strict=True)]
    return found + [Axis(lhs[i], left[i], right[j], None) for i, j in zip(lc, rc, strict=True)]


def arranged(axes: Sequence[Axis]) -> Layout | None:
    """The layout of a product, if a library has one: of several, that of the largest matrices."""
    kinds: dict[tuple[bool, ...], list[Axis]] = {}
    for axis in axes:
        if axis.extent > 1:
            kinds.setdefault(tuple(n is None for n in axis.strides), []).append(axis)
    stack, rows, columns, depth = (
        _merged(kinds.get(missing, []))
        for missing in (
            (False, False, False),
            (False, True, False),
            (True, False, False),
            (False, False, True),
        )
    )
    if len(depth) > 1:
        return None
    one = Axis(1, None, None, None)
    best: tuple[int, Layout] | None = None
    for row in rows or [one]:
        for column in columns or [one]:
            rest = [x for x in (*rows, *columns) if x is not row and x is not column]
            more = [Axis(x.extent, *(n or 0 for n in x.strides)) for x in rest]
            batch = _merged([*stack, *more])
            if len(batch) > 1 or (rest and min(row.extent, column.extent) < MIN_STACKED):
                continue
            found = _matrices(row, column, (depth or [one])[0], (batch or [one])[0])
            size = row.extent * column.extent
            if found is not None and (best is None or size > best[0]):
                best = size, found
    return None if best is None else best[1]


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Axes with those made one that follow each other wherever they are."""
    found: list[Axis] = []
    for axis in sorted(axes, key=lambda x: [-(n or 0) for n in x.strides]):
        if found and _follows(found[-1], axis):
            axis = axis._replace(extent=found.pop().extent * axis.extent)
        found.append(axis)
    return found


def _follows(outer: Axis, inner: Axis) -> bool:
    pairs = zip(outer.strides, inner.strides, strict=True)
    return all(a == (None if b is None else b * inner.extent) for a, b in pairs)


def _matrices(row: Axis, column: Axis, depth: Axis, stack: Axis) -> Layout | None:
    """The matrices of a product of one axis each."""
    right_first = column.result == 1 or column.extent == 1
    if not right_first and row.result != 1 and row.extent > 1:
        return None
    near, far = (column, row) if right_first else (row, column)
    names = ("right", "left") if right_first else ("left", "right")
    first = _stored(near, depth, names[0], stack, False)
    second = _stored(depth, far, names[1], stack, False)
    result = _stored(near, far, "result", stack, True)
    if first is None or second is None or result is None:
        return None
    return Layout(stack.extent, first, second, result, right_first)


def _stored(down: Axis, across: Axis, name: str, stack: Axis, upright: bool) -> Stored | None:
    """A matrix with axes down and across its columns; an ``upright`` one may not be transposed."""
    a, b = (getattr(axis, name) if axis.extent > 1 else None for axis in (down, across))
    between = getattr(stack, name) if stack.extent > 1 else down.extent * across.extent
    if a in (1, None) and (b is None or b >= down.extent):
        return Stored(down.extent, across.extent, b or down.extent, between)
    if b in (1, None) and a is not None and a >= across.extent and not upright:
        return Stored(across.extent, down.extent, a, between, True)
    return None


# --- results in another order ---------------------------------------------------------------------


class Turned(Record):
    """An axis of a result: its extent, and its strides as it is computed, and as it is wanted."""

    extent: int
    before: int
    after: int


def turned(kernel: Kernel) -> list[Turned] | None:
    """The axes of a kernel that does nothing but bring an array's axes to another order."""
    axes = kernel.grid_axes
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], Store) or not axes:
        return None
    (store,) = kernel.body
    value = store.value
    if store.offset is not None or value.op != "load" or value.args or len(kernel.buffers) != 2:
        return None
    source, target = kernel.buffers[value.attr[0]], kernel.buffers[store.buffer]
    if value.attr[0] == store.buffer or source.dtype != target.dtype or value.attr[1].const:
        return None
    if store.at.const or not isinstance(value.attr[1], Affine):
        return None
    # an axis of one element has no index
    several = [(a, n) for a, n in axes if n != 1]
    found = [Turned(n, value.attr[1].coefficient(a), store.at.coefficient(a)) for a, n in several]
    for name in ("before", "after"):
        size = 1
        for axis in sorted(found, key=lambda axis: getattr(axis, name)):
            if getattr(axis, name) != size:
                return None
            size *= axis.extent
    return found if source.size == target.size == prod(n for _, n in axes) else None


def reordered(axes: Sequence[Axis], order: Sequence[Turned]) -> list[Axis] | None:
    """The axes of a product whose contiguous result is to lie in another order."""
    edges = {x.before for x in order}
    found: list[Axis] = []
    for axis in axes:
        if axis.result is None or axis.extent == 1:
            found.append(axis)
            continue
        low, high = axis.result, axis.result * axis.extent
        cuts = [low, *sorted(n for n in edges if low < n < high), high]
        for start, stop in pairwise(cuts):
            own = next((x for x in order if x.before <= start < x.before * x.extent), None)
            if own is None or stop % start or start % low or start % own.before:
                return None
            steps = start // low
            left, right = (None if n is None else n * steps for n in (axis.left, axis.right))
            found.append(Axis(stop // start, left, right, own.after * (start // own.before)))
    return found


def dense(t: Type, order: Sequence[int] | None) -> Sequence[int]:
    """The strides of an array's axes; with an ``order``, of a copy that has its axes in that."""
    if order is None:
        return contiguous(t.shape)
    strides = contiguous([t.shape[i] for i in order])
    return [strides[tuple(order).index(i)] for i in range(len(t.shape))]
