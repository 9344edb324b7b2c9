"""Sums of products with one-hot arrays, as gathers and scatters.

A one-hot array is 1 where the position along one axis is an index and 0 elsewhere. A sum over that
axis picks the rows at the indices; where the axis is one of the result, rows are added there.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.prims.index import gather, scatter_add
from weft.prims.index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from weft.prims.lowerings.tools import I32, bind, convert, dtype_of, fill, like, spread, where
from weft.prims.shape import iota, reshape, transpose

Labels = tuple[int, ...]
_DROP = GatherScatterMode.FILL_OR_DROP


class Recipe(Record):
    """A sum of products over named axes.

    Axes are labelled by numbers, of which ``sizes`` has the extents; -1 is an axis of one element.
    ``out`` are the axes of the result, ``factors`` those of each factor. Each of ``hots`` says that
    only positions count at which an axis has the value of an array of indices, with the axes of
    that array. What is not in the result is summed over. ``precision`` is that of products.
    """

    sizes: tuple[int, ...]
    out: Labels
    factors: tuple[Labels, ...]
    hots: tuple[tuple[int, Labels], ...]
    dtype: Any
    precision: Any = None


class _Part(Record):
    """An array with the labels of its axes."""

    x: Any
    labels: Labels


def _along(part: _Part, labels: Labels, sizes: tuple[int, ...]) -> Any:
    """An array with other axes: in another order, repeated along those that it lacks."""
    order = [a for a in labels if a in part.labels]
    x = transpose(part.x, tuple(part.labels.index(a) for a in order))
    shape = tuple(sizes[a] for a in labels)
    return spread(x, shape, [labels.index(a) for a in order]) if len(order) < len(labels) else x


def _without_ones(x: Any, labels: Labels) -> _Part:
    kept = tuple(a for a in labels if a >= 0)
    shape = tuple(n for a, n in zip(labels, np.shape(x), strict=True) if a >= 0)
    return _Part(reshape(x, shape), kept)


def _union(*groups: Labels) -> Labels:
    return tuple(dict.fromkeys(a for group in groups for a in group))


def _index(x: Any) -> Any:
    """Indices as int32; -1 for those that are no positions on any axis."""
    dtype = dtype_of(x)
    if dtype.kind in "iu" and (dtype.itemsize < 4 or dtype == I32):
        return convert(x, I32)
    if dtype.kind in "iu":
        inside = bind("lt", x, like(x, 1 << 30))
        if dtype.kind == "i":
            inside = bind("and", inside, bind("ge", x, like(x, 0)))
        return where(inside, convert(x, I32), fill(np.shape(x), I32, -1))
    found = convert(x, I32)
    whole = bind("eq", convert(found, dtype), x)
    return where(whole, found, fill(np.shape(x), I32, -1))


class _Sum:
    """A recipe at work."""

    def __init__(self, recipe: Recipe, arrays: tuple[Any, ...]) -> None:
        self.recipe, self.sizes = recipe, recipe.sizes
        dtype = np.dtype(recipe.dtype)
        self.dtype = (
            np.dtype(np.float32) if dtype.kind not in "iu" and dtype.itemsize < 4 else dtype
        )
        count = len(recipe.factors)
        pairs = zip(arrays[:count], recipe.factors, strict=True)
        self.parts = [_without_ones(x, labels) for x, labels in pairs]
        self.hot: dict[int, _Part] = {}
        for (label, labels), x in zip(recipe.hots, arrays[count:], strict=True):
            given = _without_ones(x, labels)
            given = given._replace(x=_index(given.x))
            known = self.hot.setdefault(label, given)
            if known is not given:
                self.parts.append(self._equal(known, given))

    def _equal(self, a: _Part, b: _Part) -> _Part:
        labels = _union(a.labels, b.labels)
        both = [_along(p, labels, self.sizes) for p in (a, b)]
        return _Part(bind("eq", *both), labels)

    def _vectors(self, hots: list[int]) -> _Part:
        """The indices of some axes, as vectors along a last axis."""
        labels = _union(*(self.hot[a].labels for a in hots))
        shape = (*(self.sizes[a] for a in labels), 1)
        each = [reshape(_along(self.hot[a], labels, self.sizes), shape) for a in hots]
        x = each[0] if len(each) == 1 else bind("concatenate", *each, dimension=len(labels))
        return _Part(x, labels)

    def _picked(self, part: _Part) -> _Part:
        """What a factor has at the indices."""
        hots = [a for a in part.labels if a in self.hot]
        if not hots:
            return part
        at = self._vectors(hots)
        batch = [a for a in part.labels if a in at.labels]
        rest = tuple(a for a in part.labels if a not in hots and a not in batch)
        places = part.labels.index
        numbers = GatherDimensionNumbers(
            tuple(range(len(at.labels), len(at.labels) + len(rest))),
            tuple(sorted(map(places, hots))),
            tuple(map(places, hots)),
            tuple(map(places, batch)),
            tuple(map(at.labels.index, batch)),
        )
        sizes = tuple(self.sizes[a] if a in rest else 1 for a in part.labels)
        x = gather(part.x, at.x, numbers, sizes, mode=_DROP, fill_value=0)
        return _Part(x, (*at.labels, *rest))

    def _inside(self, label: int) -> _Part:
        """Whether indices are positions on their axis."""
        x, labels = self.hot[label]
        test = bind("and", bind("ge", x, like(x, 0)), bind("lt", x, like(x, self.sizes[label])))
        return _Part(test, labels)

    def _summed(self, parts: list[_Part], kept: Labels) -> Any:
        """The product of arrays, summed over all axes but some."""
        parts = [_Part(convert(p.x, self.dtype), p.labels) for p in parts]
        parts = _joined(parts, self.sizes)
        if not parts:
            return fill(tuple(self.sizes[a] for a in kept), self.dtype, 1)
        if len(parts) == 2 and set(parts[0].labels) & set(parts[1].labels) - set(kept):
            return _along(self._product(parts, kept), kept, self.sizes)
        labels = _union(*(p.labels for p in parts))
        if self.recipe.dtype != self.dtype:  # a kernel rounds sums along the last axes, too
            labels = (*(a for a in labels if a in kept), *(a for a in labels if a not in kept))
        x = _along(parts[0], labels, self.sizes)
        for p in parts[1:]:
            x = bind("mul", x, _along(p, labels, self.sizes))
        gone = tuple(i for i, a in enumerate(labels) if a not in kept)
        x = bind("reduce_sum", x, axes=gone, out_sharding=None) if gone else x
        return _along(_Part(x, tuple(a for a in labels if a in kept)), kept, self.sizes)

    def _product(self, parts: list[_Part], kept: Labels) -> _Part:
        left, right = (self._own(p, q, kept) for p, q in (parts, parts[::-1]))
        shared = [a for a in left.labels if a in right.labels]
        depth = [a for a in shared if a not in kept]
        batch = [a for a in shared if a in kept]
        axes = [[tuple(map(p.labels.index, group)) for p in (left, right)]
                for group in (depth, batch)]  # fmt: skip
        x = bind(
            "dot_general", left.x, right.x,
            dimension_numbers=(tuple(axes[0]), tuple(axes[1])), precision=self.recipe.precision,
            preferred_element_type=self.dtype, out_sharding=None,
        )  # fmt: skip
        free = [a for p in (left, right) for a in p.labels if a not in shared]
        return _Part(x, (*batch, *free))

    def _own(self, part: _Part, other: _Part, kept: Labels) -> _Part:
        """An array summed over axes that are its own."""
        gone = [a for a in part.labels if a not in other.labels and a not in kept]
        if not gone:
            return part
        axes = tuple(map(part.labels.index, gone))
        x = bind("reduce_sum", part.x, axes=axes, out_sharding=None)
        return _Part(x, tuple(a for a in part.labels if a not in gone))

    def result(self) -> Any:
        recipe = self.recipe
        out = tuple(a for a in recipe.out if a >= 0)
        hots = [a for a in out if a in self.hot]
        used = {a for p in self.parts for a in p.labels}
        parts = [self._picked(p) for p in self.parts]
        parts += [self._inside(a) for a in self.hot if a not in used and a not in out]
        x = self._scattered(parts, out, hots) if hots else self._summed(parts, out)
        shape = tuple(self.sizes[a] if a >= 0 else 1 for a in recipe.out)
        return reshape(convert(x, recipe.dtype), shape)

    def _scattered(self, parts: list[_Part], out: Labels, hots: list[int]) -> Any:
        at = self._vectors(hots)
        batch = [a for a in out if a in at.labels]
        window = tuple(a for a in out if a not in hots and a not in batch)
        updates = self._summed(parts, (*at.labels, *window))
        numbers = ScatterDimensionNumbers(
            tuple(range(len(at.labels), len(at.labels) + len(window))),
            tuple(sorted(map(out.index, hots))),
            tuple(map(out.index, hots)),
            tuple(map(out.index, batch)),
            tuple(map(at.labels.index, batch)),
        )
        zeros = fill(tuple(self.sizes[a] for a in out), self.dtype, 0)
        return scatter_add(zeros, at.x, updates, numbers, mode=_DROP)


def _joined(parts: list[_Part], sizes: tuple[int, ...]) -> list[_Part]:
    """Factors multiplied by those that have some of their axes only."""
    found: list[_Part] = []
    for p in sorted(parts, key=lambda p: prod(sizes[a] for a in p.labels), reverse=True):
        for i, q in enumerate(found):
            if set(p.labels) <= set(q.labels):
                found[i] = q._replace(x=bind("mul", q.x, _along(p, q.labels, sizes)))
                break
        else:
            found.append(p)
    return found


def evaluate(*arrays: Any, recipe: Recipe) -> Any:
    """The sum that a recipe says; ``arrays`` are its factors and then its indices."""
    return _Sum(recipe, arrays).result()


def coefficients(*arrays: Any, recipe: Recipe, function: Any, outer: int) -> Any:
    """What a function, zero at zero, gives of the elements that are not zero.

    They are counted by the axes ``recipe.out``, of which those from ``outer`` on are summed over
    in the array: several of them may be the same element. The first has the value, others 0.
    """
    work = _Sum(recipe, arrays)
    labels, first = recipe.out, outer
    x = _along(_Part(work._summed(work.parts, labels), labels), labels, work.sizes)
    if first == len(labels):
        return function(convert(x, recipe.dtype))
    rows = tuple(work.sizes[a] for a in labels[:first])
    count = prod(work.sizes[a] for a in labels[first:])
    dims, square = list(range(first)), (*rows, count, count)
    x = reshape(x, (*rows, count))
    one, other = [*dims, first], [*dims, first + 1]
    same = None
    for part in work.hot.values():
        at = reshape(_along(part, labels, work.sizes), (*rows, count))
        test = bind("eq", spread(at, square, one), spread(at, square, other))
        same = test if same is None else bind("and", same, test)
    beside = spread(x, square, other)
    total = bind(
        "reduce_sum", where(same, beside, fill(square, dtype_of(x), 0)),
        axes=(first + 1,), out_sharding=None,
    )  # fmt: skip
    before = bind("lt", iota(I32, square, first + 1), iota(I32, square, first))
    again = bind("reduce_or", bind("and", same, before), axes=(first + 1,), out_sharding=None)
    value = function(convert(total, recipe.dtype))
    value = where(again, fill((*rows, count), dtype_of(value), 0), value)
    return reshape(value, tuple(work.sizes[a] for a in labels))
