"""Attention of one row of queries, as programs that decode have it: keys and values are kept.

Columns that are seen are counted by a number of the program's, for all or for each batch. Queries
that are part of an array are read where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.passes.attention import FLIPPED, MOVES, Match, Scores, Softmax, each
from weft.backends.cuda.passes.attention_layout import Groups
from weft.compiler.passes.contract import Writer
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Literal, Var
from weft.core.registry import lookup
from weft.kernel.program import contiguous

# Heads of queries that share keys and values; more are rows of a matrix.
MAX_GROUP = 16


def decode(closed: ClosedJaxpr, supports: Callable[[Any, int, int], bool]) -> ClosedJaxpr:
    """The program with attention of single rows as an operation, where ``supports(dtype, depth,
    elements of keys)`` holds."""
    return each(closed, supports, _Row)


class _Row(Match):
    """One softmax of a program, of which each head has a row."""

    # a value, the labels of its axis, and a number: columns up to their sum are seen
    limit: Any = None
    mean = True  # whether a row that sees nothing gives the mean of values, rather than NaN

    def _seen(self, select: Any, groups: Groups | None) -> int | None:
        found = self._bound(select.invars[0])
        if found is None or not groups or found[0] != len(groups) - 1:
            return None
        _, value, axis, shift = found
        label = None if axis is None else groups[axis]
        self.limit = value, label, shift
        self.mean = self._scalar(select.invars[1]) != -np.inf
        return shift

    def _sides(self, scores: Scores) -> bool:
        groups = scores.groups
        if not groups or len(groups[-1]) != 1 or groups[-1][0][0] not in "lr":
            return False
        ((self.column,), self.row) = groups[-1], ("t", 0)
        outer = [label for g in groups[:-1] for label in g]
        self.batch = [label for label in outer if label[0] == "b"]
        self.group = [label for label in outer if label[0] != "b"]
        self.letters = "bh" if len(self.batch) == 2 else "b" if self.group else "h"
        if len(self.batch) > 2 or len(self.group) > 1:
            return False
        own = [label for label in self.group if label[0] != self.column[0]]
        return own == self.group and all(self.labels.sizes[x] <= MAX_GROUP for x in own)

    # --- masks ------------------------------------------------------------------------------------

    def _bound(self, x: Any) -> tuple[int, Any, int | None, int] | None:
        """An axis c, a value with the axis it has, if any, and a number n, where a mask holds if
        and only if c <= the value + n."""
        eqn = self.made.get(x) if type(x) is not Literal else None
        if eqn is None:
            return None
        name = eqn.primitive.name
        if name in FLIPPED:
            one, two = eqn.invars
            if name in ("ge", "gt"):
                one, two, name = two, one, FLIPPED[name]
            column, bound = self._counted(one), self._value(two)
            if column is None or bound is None:
                return None
            return column[0], bound[0], bound[1], bound[2] - column[1] - (name == "lt")
        inner = self._bound(eqn.invars[0]) if name in (*MOVES, "broadcast_in_dim") else None
        if inner is None:
            return None
        column_axis = _axis_after(eqn, inner[0])
        axis = None if inner[2] is None else _axis_after(eqn, inner[2])
        if column_axis is None or (axis is None) != (inner[2] is None):
            return None
        return column_axis, inner[1], axis, inner[3]

    def _value(self, x: Any) -> tuple[Any, int | None, int] | None:
        """A value of one element, or with one axis, that another is everywhere, less a number."""
        if type(x) is Literal or not np.can_cast(x.aval.dtype, np.int32):
            return None
        eqn = self.made.get(x)
        name = "" if eqn is None else eqn.primitive.name
        found = None
        if eqn is not None and name in (*MOVES, "broadcast_in_dim", "convert_element_type"):
            same = np.can_cast(eqn.invars[0].aval.dtype, x.aval.dtype)
            found = self._value(eqn.invars[0]) if same else None
            if found is not None and found[1] is not None:
                axis = _axis_after(eqn, found[1])
                found = None if axis is None else (found[0], axis, found[2])
        elif eqn is not None and name in ("add", "sub"):
            number, found = self._scalar(eqn.invars[1]), self._value(eqn.invars[0])
            if number is None or found is None:
                found = None
            else:
                found = found[0], found[1], found[2] + int(number if name == "add" else -number)
        if found is not None:
            return found
        axes = [i for i, n in enumerate(x.aval.shape) if n > 1]
        return (x, axes[0] if axes else None, 0) if len(axes) < 2 else None

    # --- the operation ----------------------------------------------------------------------------

    def _forward(self, scores: Scores, product: Any) -> bool:
        eqn, i, _, groups = product
        operands = self._given(product)
        if operands is None:
            return False
        given, places = [], []
        for x, own in operands:
            found = self._place(*self._source(x, own))
            if found is None:
                return False
            given.append(found[0])
            places.append(found[1])
        sizes = self._sizes()
        dtype = given[0].aval.dtype
        kept = sizes[0] * prod(sizes[2:])
        if any(x.aval.dtype != dtype for x in given) or not self.supports(dtype, sizes[-1], kept):
            return False
        w = Writer(eqn)
        shift = None
        if self.limit is not None:
            value, label, shift = self.limit
            if label is not None and (label != tuple(self.batch[:1]) or self.letters[0] != "b"):
                return False
            given.append(w.convert(value, np.dtype(np.int32)))
        out = Var(ShapedArray((*sizes[:2], sizes[-1]), dtype))
        params = {
            "sizes": sizes,
            "places": tuple(places),
            "scale": scores.scale,
            "shift": shift,
            "mean": self.mean,
        }
        made = eqn.replace(
            invars=given, outvars=[out], primitive=lookup("decode_attention"), params=params
        )
        w.eqns.append(made)
        flat = self._labels_of("bhd", self.row, True)
        self.new[id(eqn)] = self._placed(w, out, flat, eqn, i, groups, operands[2][1])
        return True

    def _backward(self, softmax: Softmax, scores: Scores, products: list[Any]) -> None:
        """Programs that decode have no gradients."""

    def _source(self, x: Any, groups: Groups) -> tuple[Any, Groups]:
        """What a value is a view of, with its layout, where that has the elements as they are."""
        root, narrow = self._root(x), self._narrow(x)
        same = root.aval.dtype == narrow.aval.dtype
        return (root, self.groups[root]) if same else (narrow, groups)

    def _sizes(self) -> tuple[int, ...]:
        """Batches, heads of queries, heads of keys, columns, and depth."""
        known = self.labels.sizes
        batch, shared = (prod(known[x] for x in self._labelled(c)) for c in "bh")
        group = prod(known[label] for label in self.group)
        return batch, shared * group, shared, known[self.column], known.get(("d", 0), 1)

    def _labelled(self, letter: str) -> list[Any]:
        """The label of batches or heads of keys, if there is one."""
        pairs = zip(self.batch, self.letters, strict=False)
        return [label for label, own in pairs if own == letter]

    def _place(self, x: Any, groups: Groups) -> tuple[Any, tuple[int, ...]] | None:
        """An array that has an operand's elements; where they begin in it, and the strides of
        batch, head and row; elements of a row follow each other."""
        array, begin = x, [0] * len(groups)
        if (split := self._up(x, "split")) is not None:
            array, number = split.invars[0], list(split.outvars).index(x)
            begin[split.params["axis"]] = sum(split.params["sizes"][:number])
        elif (cut := self._up(x, "slice")) is not None and cut.params["strides"] is None:
            array, begin = cut.invars[0], cut.params["start_indices"]
        strides = contiguous(array.aval.shape)
        known: dict[Any, int] = {}
        for g, stride in zip(groups, strides, strict=True):
            for label in reversed(g):
                known[label], stride = stride, stride * self.labels.sizes[label]
        (batch, shared), group = (self._labelled(c) for c in "bh"), self.group
        if known.pop(("d", 0), 1) != 1 or type(array) is Literal:
            return None
        if group and group[0] in known:
            head = known.pop(group[0])
            if shared and known.pop(shared[0]) != head * self.labels.sizes[group[0]]:
                return None
        else:
            head = known.pop(shared[0], 0) if shared else 0
        own = known.pop(batch[0], 0) if batch else 0
        row = known.pop(self.column, 0)
        offset = sum(n * stride for n, stride in zip(begin, strides, strict=True))
        return None if known else (array, (offset, own, head, row))


def _axis_after(eqn: Any, axis: int) -> int | None:
    """Where an axis of more than one element is after an equation that moves elements."""
    given, made = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if eqn.primitive.name == "transpose":
        return list(eqn.params["permutation"]).index(axis)
    if eqn.primitive.name == "broadcast_in_dim":
        return eqn.params["broadcast_dimensions"][axis]
    if eqn.primitive.name == "convert_element_type":
        return axis
    one, two = ([i for i, n in enumerate(shape) if n > 1] for shape in (given, made))
    same = [given[i] for i in one] == [made[i] for i in two]
    return two[one.index(axis)] if same and axis in one else None
