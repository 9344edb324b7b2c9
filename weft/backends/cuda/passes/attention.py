"""Attention found in plain programs: products, scale, causal mask, softmax, product.

A target that has attention as one operation gets it, forward and, where the program has them, the
gradients: what softmax's gradient comes to is told by its algebra, whatever the order of its steps.
Programs that need the weights for more than that stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.passes.attention_layout import (
    Groups,
    Labels,
    Sum,
    atom,
    joined,
    plus,
    power,
    scaled,
    summed,
    times,
)
from weft.base.record import Record
from weft.compiler.passes.contract import Writer
from weft.compiler.passes.prune import prune
from weft.core.avals import ShapedArray
from weft.core.interpret import constant_value
from weft.core.jaxpr import ClosedJaxpr, Literal, Var
from weft.core.registry import lookup

# What a masked score is at most.
HIDDEN = -1e4
_F32 = np.dtype(np.float32)
MOVES = frozenset(["reshape", "transpose", "squeeze", "expand_dims"])
_ROW_MOVES = MOVES | {"broadcast_in_dim", "stop_gradient", "copy", "convert_element_type"}
FLIPPED = {"ge": "le", "le": "ge", "gt": "lt", "lt": "gt"}


class Softmax(Record):
    """The variables of a softmax along the last axis."""

    logits: Any
    raw: Any  # exponentials
    total: Any  # their sums
    weights: Any


class Scores(Record):
    """The product that scores are, their scale, who sees whom, and the layout of logits."""

    eqn: Any
    scale: float
    causal: int | None
    masks: tuple[Any, ...]
    groups: Groups


def attention(closed: ClosedJaxpr, supports: Callable[[Any, int], bool]) -> ClosedJaxpr:
    """The program with attention as one operation, where ``supports(dtype, depth)`` holds."""
    return each(closed, supports, Match)


def each(closed: ClosedJaxpr, supports: Any, match: type[Match]) -> ClosedJaxpr:
    """The program with every attention that is of a kind as an operation."""
    names = [eqn.primitive.name for eqn in closed.jaxpr.eqns]
    if "exp" not in names or names.count("dot_general") < 2:
        return closed
    tried: set[Any] = set()
    while (found := _next(closed, supports, match, tried)) is not None:
        closed = found
    return closed


def _next(closed: ClosedJaxpr, supports: Any, match: Any, tried: set[Any]) -> ClosedJaxpr | None:
    """The program with one more attention as an operation, or None where there is no more."""
    exponentials = {eqn.outvars[0] for eqn in closed.jaxpr.eqns if eqn.primitive.name == "exp"}
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name != "div" or eqn.outvars[0] in tried:
            continue
        if type(eqn.invars[0]) is not Literal and eqn.invars[0] in exponentials:
            tried.add(eqn.outvars[0])
            found = match(closed, supports).run(eqn)
            if found is not None:
                return found
    return None


class Match:
    """One softmax of a program, and what is around it."""

    def __init__(self, closed: ClosedJaxpr, supports: Callable[..., bool]) -> None:
        self.closed, self.supports = closed, supports
        self.eqns = closed.jaxpr.eqns
        self.made = {v: eqn for eqn in self.eqns for v in eqn.outvars}
        self.consts = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.labels = Labels()
        self.groups: dict[Any, Groups] = {}  # layouts of operands and of what they come from
        self.new: dict[int, list[Any]] = {}  # equations in the place of others, by id

    def run(self, div: Any) -> ClosedJaxpr | None:
        softmax = self._softmax(div)
        scores = None if softmax is None else self._scores(softmax.logits)
        if softmax is None or scores is None or not self._sides(scores):
            return None
        products = self._products_of(softmax.weights, scores.groups)
        forward = next((p for p in products if p[2] == {self.column}), None)
        if forward is None or not self._forward(scores, forward):
            return None
        self._backward(softmax, scores, products)
        eqns = [e for eqn in self.eqns for e in self.new.get(id(eqn), [eqn])]
        found = prune(ClosedJaxpr(self.closed.jaxpr.replace(eqns=eqns), self.closed.consts))
        return None if scores.eqn in found.jaxpr.eqns else found

    # --- softmax and scores -----------------------------------------------------------------------

    def _up(self, x: Any, name: str) -> Any:
        """The equation that makes a value, if it is of a kind."""
        eqn = self.made.get(x) if type(x) is not Literal else None
        return eqn if eqn is not None and eqn.primitive.name == name else None

    def _row_source(self, x: Any) -> Any:
        """The equation that makes what is repeated along rows."""
        while type(x) is not Literal and (eqn := self.made.get(x)) is not None:
            name = eqn.primitive.name
            if name in _ROW_MOVES:
                x = eqn.invars[0]
            elif name == "max" and self._scalar(eqn.invars[0]) == -np.inf:
                x = eqn.invars[1]
            else:
                return eqn
        return None

    def _softmax(self, div: Any) -> Softmax | None:
        exp = self._up(div.invars[0], "exp")
        sub = None if exp is None else self._up(exp.invars[0], "sub")
        if exp is None or sub is None:
            return None
        raw, logits = exp.outvars[0], sub.invars[0]
        last = (raw.aval.ndim - 1,)
        total, most = self._row_source(div.invars[1]), self._row_source(sub.invars[1])
        for eqn, name, of in ((total, "reduce_sum", raw), (most, "reduce_max", logits)):
            if eqn is None or eqn.primitive.name != name:
                return None
            x = eqn.invars[0]
            if (x is not of and self._narrow(x) is not of) or tuple(eqn.params["axes"]) != last:
                return None
        return Softmax(logits, raw, total.outvars[0], div.outvars[0])

    def _scalar(self, x: Any) -> float | None:
        """The number that a value is everywhere, if that is known."""
        if type(x) is Literal:
            value = np.asarray(x.val)
        elif x in self.consts:
            value = np.asarray(constant_value(self.consts[x], x.aval))
        else:
            eqn = self.made.get(x)
            known = eqn is not None and eqn.primitive.name in _ROW_MOVES
            return self._scalar(eqn.invars[0]) if known and eqn is not None else None
        number = value.size == 1 and value.dtype.kind not in "bcOSU"
        return float(value.reshape(()).astype(np.float64)) if number else None

    def _scores(self, x: Any) -> Scores | None:
        """What logits are made of, from below."""
        path: list[Any] = []
        scale = 1.0
        while type(x) is not Literal and (eqn := self.made.get(x)) is not None:
            name = eqn.primitive.name
            factor = self._scalar(eqn.invars[-1]) if name in ("mul", "div") else None
            if name == "dot_general":
                return self._described(eqn, path[::-1], scale)
            if name == "convert_element_type" or name in MOVES:
                x = eqn.invars[0]
            elif factor is not None:
                scale = scale * factor if name == "mul" else scale / factor
                x = eqn.invars[0]
            elif name == "mul" and (factor := self._scalar(eqn.invars[0])) is not None:
                scale, x = scale * factor, eqn.invars[1]
            elif name == "select_n" and len(eqn.invars) == 3:
                _, no, yes = eqn.invars
                hidden = self._scalar(no)
                if hidden is None or hidden > HIDDEN:
                    return None
                x = yes
            else:
                return None
            path.append(eqn)
        return None

    def _described(self, dot: Any, path: list[Any], scale: float) -> Scores | None:
        (lc, rc), (lb, rb) = dot.params["dimension_numbers"]
        if len(lc) != 1 or scale <= 0:
            return None
        sides = []
        for x, depth, batch, word in zip(dot.invars, (lc, rc), (lb, rb), "lr", strict=True):
            found = []
            for i, size in enumerate(x.aval.shape):
                label = ("d", 0) if i in depth else (word, i)
                if i in batch:
                    label = ("b", list(batch).index(i))
                found.append(self.labels.group(label, size))
            sides.append(tuple(found))
        self.operands = dict(zip("lr", zip(dot.invars, sides, strict=True), strict=True))
        groups: Groups | None = self.labels.product(dot, *sides)
        causal, masks = None, []
        for eqn in path:
            if eqn.primitive.name == "select_n":
                shift = self._seen(eqn, groups)
                if shift is None or causal is not None:
                    return None
                causal = shift
                masks.append(eqn.invars[0])
            else:
                groups = self.labels.after(eqn, groups or ())
            if groups is None:
                return None
        return Scores(dot, scale, causal, tuple(masks), groups or ())

    def _sides(self, scores: Scores) -> bool:
        """Find out which operand has the queries, and what its axes are."""
        groups = scores.groups
        if len(groups) < 2 or any(len(g) != 1 for g in groups[-2:]):
            return False
        ((self.column,), (self.row,)) = groups[-1], groups[-2]
        if {self.column[0], self.row[0]} != {"l", "r"}:
            return False
        outer = [label for g in groups[:-2] for label in g]
        self.batch = [label for label in outer if label[0] == "b"]
        self.group = [label for label in outer if label[0] == self.row[0]]
        self.letters = "bh" if len(self.batch) == 2 else "b" if self.group else "h"
        if len(self.batch) > 2 or len(self.group) > 1 or len(outer) > 3:
            return False
        if any(label[0] == self.column[0] for label in outer):
            return False
        if self.group and outer[-1] != self.group[0]:
            return False
        return True

    # --- masks ------------------------------------------------------------------------------------

    def _seen(self, select: Any, groups: Groups | None) -> int | None:
        """n, where a mask holds if the column is at most the row + n."""
        found = self._compared(select.invars[0])
        if found is None or groups is None or len(groups) < 2:
            return None
        row, column, shift = found
        last = len(groups) - 1
        return shift if (row, column) == (last - 1, last) and shift >= 0 else None

    def _compared(self, x: Any) -> tuple[int, int, int] | None:
        """Axes r and c and a number n, where a value is true if and only if c <= r + n."""
        eqn = self.made.get(x) if type(x) is not Literal else None
        if eqn is None:
            return None
        name = eqn.primitive.name
        if name in FLIPPED:
            one, two = (self._counted(v) for v in eqn.invars)
            if one is None or two is None:
                return None
            if name in ("le", "lt"):
                one, two, name = two, one, FLIPPED[name]
            # position along one's axis + its number >= the same of two
            return one[0], two[0], one[1] - two[1] - (name == "gt")
        if name == "broadcast_in_dim":
            inner, dims = self._compared(eqn.invars[0]), eqn.params["broadcast_dimensions"]
            return None if inner is None else (dims[inner[0]], dims[inner[1]], inner[2])
        if name == "reshape" and (inner := self._compared(eqn.invars[0])) is not None:
            given, made = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
            if tuple(given) == tuple(made[len(made) - len(given) :]) and prod(given) == prod(made):
                more = len(made) - len(given)
                return inner[0] + more, inner[1] + more, inner[2]
        if name == "select_n" and len(eqn.invars) == 3:
            test, no, yes = eqn.invars
            if (self._truth(no), self._truth(yes)) == (False, True):
                return self._compared(test)
        return None

    def _truth(self, x: Any) -> bool | None:
        if type(x) is Literal:
            return bool(x.val)
        eqn = self._up(x, "broadcast_in_dim")
        return None if eqn is None else self._truth(eqn.invars[0])

    def _counted(self, x: Any) -> tuple[int, int] | None:
        """An axis and a number, where a value is the position along the axis + the number."""
        eqn = self.made.get(x) if type(x) is not Literal else None
        if eqn is None:
            return None
        name = eqn.primitive.name
        if name == "iota":
            return eqn.params["dimension"], 0
        if name in ("add", "sub") and (number := self._scalar(eqn.invars[1])) is not None:
            inner = self._counted(eqn.invars[0])
            more = int(number) if name == "add" else -int(number)
            return None if inner is None else (inner[0], inner[1] + more)
        if name == "broadcast_in_dim":
            inner = self._counted(eqn.invars[0])
            dims = eqn.params["broadcast_dimensions"]
            return None if inner is None else (dims[inner[0]], inner[1])
        return self._counted(eqn.invars[0]) if name == "convert_element_type" else None

    # --- operands ---------------------------------------------------------------------------------

    def _root(self, x: Any) -> Any:
        """What a value is a view or a conversion of."""
        while type(x) is not Literal and (eqn := self.made.get(x)) is not None:
            if eqn.primitive.name not in MOVES | {"convert_element_type"}:
                break
            x = eqn.invars[0]
        return x

    def _note(self, x: Any, groups: Groups) -> bool:
        """Remember the layout of a value, and of what it is a view of."""
        root = self._root(x)
        path = self._path(x, root)
        found: Groups | None = groups
        for eqn in path:
            found = self.labels.before(eqn, found or ())
            if found is None:
                return False
        self.groups[root] = found or ()
        return True

    def _path(self, x: Any, root: Any) -> list[Any]:
        path = []
        while x is not root:
            path.append(self.made[x])
            x = self.made[x].invars[0]
        return path

    def _layout(self, x: Any) -> Groups | None:
        """The layout of a view of a value whose layout is known."""
        root = self._root(x)
        found = self.groups.get(root)
        for eqn in reversed(self._path(x, root)):
            found = None if found is None else self.labels.after(eqn, found)
        return found

    def _narrow(self, x: Any) -> Any:
        """What a value was converted from, if that is narrower."""
        eqn = self._up(x, "convert_element_type")
        if eqn is not None and eqn.invars[0].aval.dtype.itemsize < x.aval.dtype.itemsize:
            return eqn.invars[0]
        return x

    def _four(self, w: Writer, x: Any, groups: Groups, row: Any) -> tuple[Any, str] | None:
        """An operand with axes for batch, head, row and depth, which is the last, and their
        order."""
        names = {row: "t", ("d", 0): "d", ("v", 0): "d"}
        names |= dict(zip(self.batch, self.letters, strict=False))
        names |= dict.fromkeys(self.group, "g")
        flat = [label for g in groups for label in g]
        if any(label not in names for label in flat):
            return None
        order = "".join(names[label] for label in flat)
        sizes = [self.labels.sizes[label] for label in flat]
        if "g" in order:
            at = order.index("g")
            if "h" in order:
                if at == 0 or order[at - 1] != "h":
                    return None
                sizes[at - 1 : at + 1] = [sizes[at - 1] * sizes[at]]
                order = order.replace("hg", "h")
            else:
                order = order.replace("g", "h")
        for letter in "dthb":
            if letter not in order:
                order, sizes = letter + order, [1, *sizes]
        x = w.reshape(x, tuple(sizes))
        if order[-1] != "d":
            last = order.replace("d", "") + "d"
            x, order = w.transpose(x, tuple(map(order.index, last))), last
        return x, order

    def _placed(
        self, w: Writer, x: Any, flat: list[Any], eqn: Any, i: int, own: Groups, other: Groups
    ) -> list[Any]:
        """Equations that bring a result, whose labels are in an order, to the layout that a product
        gives; operand ``i`` of that has one layout, the other another."""
        sizes, like = self.labels.sizes, eqn.outvars[0]
        x = w.reshape(x, tuple(sizes[label] for label in flat))
        groups = self.labels.product(eqn, *((own, other) if i == 0 else (other, own)))
        wanted = [label for g in groups for label in g]
        x = w.transpose(x, tuple(flat.index(label) for label in wanted))
        x = w.convert(w.reshape(x, like.aval.shape), like.aval.dtype)
        if not w.eqns or w.eqns[-1].outvars[0] is not x or len(w.eqns[-1].outvars) > 1:
            x = w.bind("copy", like.aval.shape, like.aval.dtype, x)
        return w.done(x)

    def _labels_of(self, order: str, row: Any, grouped: bool) -> list[Any]:
        """The labels of a result with axes in an order, without those of one element."""
        found: list[Any] = []
        batch = dict(zip(self.letters, self.batch, strict=False))
        for letter in order:
            if letter in batch:
                found.append(batch[letter])
            if letter == "h" and grouped:
                found += self.group
            elif letter == "t":
                found.append(row)
            elif letter == "d":
                found.append(("d", 0))
        return [label for label in found if label in self.labels.sizes]

    # --- products ---------------------------------------------------------------------------------

    def _products_of(self, x: Any, groups: Groups) -> list[tuple[Any, int, set[Any], Groups]]:
        """Products that a value, or a view of it, is an operand of: the equation, which operand it
        is, the labels that are summed over, and its layout."""
        known = {x: groups}
        found = []
        for eqn in self.eqns:
            name = eqn.primitive.name
            if name == "dot_general":
                for i, v in enumerate(eqn.invars):
                    if type(v) is not Literal and v in known:
                        axes = eqn.params["dimension_numbers"][0][i]
                        over = {label for a in axes for label in known[v][a]}
                        found.append((eqn, i, over, known[v]))
            elif name in MOVES | {"convert_element_type"}:
                v = eqn.invars[0]
                if type(v) is not Literal and v in known:
                    after = self.labels.after(eqn, known[v])
                    if after is not None:
                        known[eqn.outvars[0]] = after
        return found

    def _other(self, eqn: Any, i: int, groups: Groups, free: Any) -> Groups | None:
        """The layout of a product's other operand, whose own axis is given a label."""
        depth, batch = eqn.params["dimension_numbers"]
        x = eqn.invars[1 - i]
        found: list[Any] = [None] * x.aval.ndim
        for pairs in (depth, batch):
            for mine, own in zip(pairs[i], pairs[1 - i], strict=True):
                found[own] = groups[mine]
        for axis, n in enumerate(x.aval.shape):
            if found[axis] is None:
                found[axis] = () if n == 1 else (free,)
                if n > 1 and self.labels.sizes.setdefault(free, n) != n:
                    return None
        flat = [label for g in found for label in g]
        return tuple(found) if len(set(flat)) == len(flat) else None

    def _given(self, product: Any) -> list[tuple[Any, Groups]] | None:
        """Queries, keys and values with their layouts, which are noted."""
        eqn, i, _, groups = product
        values = self._other(eqn, i, groups, ("d", 0))
        if values is None:
            return None
        keys = self.column[0]
        queries = "r" if keys == "l" else "l"
        found = [self.operands[queries], self.operands[keys], (eqn.invars[1 - i], values)]
        known = all(type(x) is not Literal and self._note(x, own) for x, own in found)
        return found if known else None

    # --- forward ----------------------------------------------------------------------------------

    def _forward(self, scores: Scores, product: Any) -> bool:
        eqn, i, _, groups = product
        given = self._given(product)
        if given is None:
            return False
        w = Writer(eqn)
        made = []
        for (x, own), row in zip(given, (self.row, self.column, self.column), strict=True):
            four = self._four(w, self._narrow(x), own, row)
            if four is None:
                return False
            made.append(four)
        depth, dtype = self.labels.sizes.get(("d", 0), 1), made[0][0].aval.dtype
        if any(x.aval.dtype != dtype for x, _ in made) or not self.supports(dtype, depth):
            return False
        if self.labels.sizes.get(("d", 0), 1) != made[2][0].aval.shape[made[2][1].index("d")]:
            return False
        self.four = [x for x, _ in made]
        self.orders = tuple(order for _, order in made)
        self.params = {"scale": scores.scale, "causal": scores.causal}
        q4, order = made[0]
        sizes = dict(zip(order, q4.aval.shape, strict=True))
        self.out = Var(ShapedArray(q4.aval.shape, dtype))
        self.stats = Var(ShapedArray(tuple(sizes[c] for c in "bht"), _F32))
        params = {"orders": self.orders, **self.params}
        w.eqns.append(
            eqn.replace(
                invars=self.four,
                outvars=[self.out, self.stats],
                primitive=lookup("attention"),
                params=params,
            )
        )
        flat = self._labels_of(order, self.row, True)
        self.place = self.eqns.index(eqn)
        self.roots = [self._root(x) for x, _ in given]
        self.new[id(eqn)] = self._placed(w, self.out, flat, eqn, i, groups, given[2][1])
        return True

    # --- backward ---------------------------------------------------------------------------------

    def _backward(self, softmax: Softmax, scores: Scores, products: list[Any]) -> None:
        """Gradients of queries, keys and values, where the program has them."""
        over = {self.row, *self.group}
        dv = next((p for p in products if p[2] == over), None)
        if dv is None:
            return
        eqn, i, _, groups = dv
        g = eqn.invars[1 - i]
        grads = self._other(eqn, i, groups, ("d", 0))
        if grads is None or type(g) is Literal or not self._note(g, grads):
            return
        dp = self._changes(self._root(g))
        if dp is None:
            return
        found = self._softmax_gradients(softmax, scores, dp)
        q_root, k_root, _ = self.roots
        jobs = [(2, eqn, i, groups)]
        for ds, j, ds_groups in found:
            other = self._root(ds.invars[1 - j])
            axes = ds.params["dimension_numbers"][0][j]
            labels = {label for a in axes for label in ds_groups[a]}
            if labels == {self.column} and other is k_root:
                jobs.append((0, ds, j, ds_groups))
            elif labels == over and other is q_root:
                jobs.append((1, ds, j, ds_groups))
            else:
                return
        self._write_backward(jobs, g, grads)

    def _write_backward(self, jobs: list[Any], g: Any, grads: Groups) -> None:
        jobs.sort(key=lambda job: self.eqns.index(job[1]))
        first = jobs[0][1]
        if self.eqns.index(first) <= self.place:
            return
        w = Writer(first)
        four = self._four(w, self._narrow(g), grads, self.row)
        if four is None:
            return
        narrow = w.convert(four[0], self.four[0].aval.dtype)
        outs = [Var(ShapedArray(x.aval.shape, x.aval.dtype)) for x in self.four]
        params = {"orders": (*self.orders, four[1]), **self.params}
        w.eqns.append(
            first.replace(
                invars=[*self.four, self.out, self.stats, narrow],
                outvars=outs,
                primitive=lookup("attention_backward"),
                params=params,
            )
        )
        new: dict[int, list[Any]] = {}
        for which, eqn, i, groups in jobs:
            if eqn is not first:
                w = Writer(eqn)
            other = self._layout(eqn.invars[1 - i])
            if other is None:
                return
            row = self.row if which == 0 else self.column
            flat = self._labels_of(self.orders[which], row, which == 0)
            new[id(eqn)] = self._placed(w, outs[which], flat, eqn, i, groups, other)
        self.new |= new

    def _changes(self, g: Any) -> tuple[Any, Groups] | None:
        """The gradient of weights: gradients of results times values."""
        for eqn in self.eqns:
            if eqn.primitive.name != "dot_general":
                continue
            if {self._root(x) for x in eqn.invars} != {g, self.roots[2]}:
                continue
            left, right = (self._layout(x) for x in eqn.invars)
            if left is None or right is None:
                continue
            (lc, _), _ = eqn.params["dimension_numbers"]
            if {label for a in lc for label in left[a]} == {("d", 0)}:
                return eqn.outvars[0], self.labels.product(eqn, left, right)
        return None

    def _softmax_gradients(
        self, softmax: Softmax, scores: Scores, dp: tuple[Any, Groups]
    ) -> list[tuple[Any, int, Groups]]:
        """Products of which an operand is the gradient of scores: equation, which, layout."""
        groups = scores.groups
        known: dict[Any, tuple[Sum, Groups]] = {
            softmax.raw: (atom("raw"), groups),
            softmax.total: (atom("total"), groups[:-1]),
            softmax.weights: (times(atom("raw"), atom("total", -1)), groups),
            dp[0]: (atom("change"), dp[1]),
        }
        inner = frozenset(["raw", "change"])
        both = times(atom("raw"), atom("change"))
        wanted = plus(
            times(both, atom("total", -1)),
            scaled(times(times(atom("raw"), atom("total", -2)), summed(both, inner)), -1),
        )
        found = []
        for eqn in self.eqns:
            if eqn.primitive.name == "dot_general":
                for i, x in enumerate(eqn.invars):
                    if type(x) is not Literal and x in known and x not in (dp[0],):
                        value, own = known[x]
                        if _is_multiple(value, wanted, scores.scale):
                            found.append((eqn, i, own))
            elif len(eqn.outvars) == 1 and eqn.outvars[0] not in known:
                computed = self._evaluated(eqn, known, inner, scores)
                if computed is not None:
                    known[eqn.outvars[0]] = computed
        return found

    def _evaluated(
        self, eqn: Any, known: dict[Any, Any], inner: frozenset[Any], scores: Scores
    ) -> tuple[Sum, Groups] | None:
        """What an equation gives, as a sum of products and its layout."""
        name = eqn.primitive.name
        values = [None if type(x) is Literal else known.get(x) for x in eqn.invars]
        if not any(v is not None for v in values):
            return None
        if name == "select_n" and len(eqn.invars) == 3 and values[2] is not None:
            same = self._compared(eqn.invars[0])
            masks = [self._compared(m) for m in scores.masks]
            return values[2] if self._scalar(eqn.invars[1]) == 0 and same in masks else None
        if len(values) == 1:
            (value, own) = values[0] or ({}, ())
            return self._unary(eqn, value, own, inner)
        if len(values) != 2:
            return None
        one, two = values
        if one is None or two is None:
            number = self._scalar(eqn.invars[0 if one is None else 1])
            if number is None:
                return None
            if name == "mul" and (some := two if one is None else one) is not None:
                return scaled(some[0], number), some[1]
            if name == "div" and one is not None:
                return scaled(one[0], 1 / number), one[1]
            return None
        groups = joined(one[1], two[1])
        if groups is None:
            return None
        if name == "mul":
            return times(one[0], two[0]), groups
        if name == "div" and (inverse := power(two[0], -1)) is not None:
            return times(one[0], inverse), groups
        if name in ("add", "add_any"):
            return plus(one[0], two[0]), groups
        return (plus(one[0], scaled(two[0], -1)), groups) if name == "sub" else None

    def _unary(
        self, eqn: Any, value: Sum, groups: Groups, inner: frozenset[Any]
    ) -> tuple[Sum, Groups] | None:
        name = eqn.primitive.name
        if name == "neg":
            return scaled(value, -1), groups
        if name == "integer_pow":
            raised = power(value, eqn.params["y"])
            return None if raised is None else (raised, groups)
        if name in _ROW_MOVES:
            after = self.labels.after(eqn, groups)
            return None if after is None else (value, after)
        if name == "reduce_sum":
            axes = eqn.params["axes"]
            over = [groups[a] for a in axes]
            rest = tuple(g for i, g in enumerate(groups) if i not in axes)
            if all(g == () for g in over):
                return value, rest
            if over == [(self.column,)]:
                return summed(value, inner), rest
        return None


def _is_multiple(value: Sum, wanted: Sum, factor: float) -> bool:
    """Whether a sum is another one times a factor, as far as narrow floats tell."""
    if value.keys() != wanted.keys():
        return False
    return all(abs(value[key] - factor * c) <= 0.01 * abs(factor * c) for key, c in wanted.items())
