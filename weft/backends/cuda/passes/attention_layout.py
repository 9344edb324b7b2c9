"""What the recognition of attention knows of values: which axes they have, and sums of products.

An axis is a label; a value's layout has a tuple of labels for each of its axes, none where that has
one element, and `WILD` where it is the same all along.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Groups = tuple[tuple[Any, ...], ...]
WILD = ("*",)


class Labels:
    """The sizes of labels, and layouts as equations change them."""

    def __init__(self) -> None:
        self.sizes: dict[Any, int] = {}

    def group(self, label: Any, size: int) -> tuple[Any, ...]:
        """The labels of an axis of one label."""
        if size == 1:
            return ()
        self.sizes[label] = size
        return (label,)

    def regrouped(self, groups: Groups, shape: Sequence[int]) -> Groups | None:
        """The layout after a reshape."""
        if any(g == WILD for g in groups):
            return None
        left = [label for g in groups for label in g]
        found = []
        for size in shape:
            own: list[Any] = []
            while prod(self.sizes[label] for label in own) < size:
                if not left:
                    return None
                own.append(left.pop(0))
            if prod(self.sizes[label] for label in own) != size:
                return None
            found.append(tuple(own))
        return None if left else tuple(found)

    def after(self, eqn: Any, groups: Groups) -> Groups | None:
        """The layout of an equation's result, of its operand's."""
        name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape
        if name == "transpose":
            return tuple(groups[i] for i in eqn.params["permutation"])
        if name in ("reshape", "squeeze", "expand_dims"):
            return self.regrouped(groups, shape)
        if name == "broadcast_in_dim":
            given = eqn.invars[0].aval.shape
            found: list[tuple[Any, ...]] = [WILD if n > 1 else () for n in shape]
            for i, to in enumerate(eqn.params["broadcast_dimensions"]):
                if given[i] == shape[to]:
                    found[to] = groups[i]
            return tuple(found)
        return groups

    def before(self, eqn: Any, groups: Groups) -> Groups | None:
        """The layout of an equation's operand, of its result's."""
        if eqn.primitive.name == "transpose":
            order = eqn.params["permutation"]
            return tuple(groups[order.index(i)] for i in range(len(order)))
        if eqn.primitive.name in ("reshape", "squeeze", "expand_dims"):
            return self.regrouped(groups, eqn.invars[0].aval.shape)
        return groups

    def product(self, eqn: Any, left: Groups, right: Groups) -> Groups:
        """The layout of a product's result."""
        (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]
        found = [left[i] for i in lb]
        found += [g for i, g in enumerate(left) if i not in lc and i not in lb]
        found += [g for i, g in enumerate(right) if i not in rc and i not in rb]
        return tuple(found)


def joined(left: Groups, right: Groups) -> Groups | None:
    """The layout of values of two layouts combined element by element."""
    if len(left) != len(right):
        return None
    found = []
    for a, b in zip(left, right, strict=True):
        if a not in ((), WILD) and b not in ((), WILD) and a != b:
            return None
        found.append(b if a in ((), WILD) else a)
    return tuple(found)


# --- sums of products -----------------------------------------------------------------------------
#
# A sum is a dict from a product, a frozenset of (atom, power), to its coefficient.

Sum = dict[Any, float]


def atom(name: Any, power: int = 1) -> Sum:
    return {frozenset([(name, power)]): 1.0}


def times(x: Sum, y: Sum) -> Sum:
    found: Sum = {}
    for one, a in x.items():
        for two, b in y.items():
            powers = dict(one)
            for name, n in two:
                powers[name] = powers.get(name, 0) + n
            key = frozenset((name, n) for name, n in powers.items() if n)
            found[key] = found.get(key, 0.0) + a * b
    return found


def plus(x: Sum, y: Sum) -> Sum:
    found = dict(x)
    for key, b in y.items():
        found[key] = found.get(key, 0.0) + b
    return {key: c for key, c in found.items() if c}


def scaled(x: Sum, factor: float) -> Sum:
    return {key: c * factor for key, c in x.items()}


def power(x: Sum, n: int) -> Sum | None:
    """A power of a single product."""
    if len(x) != 1:
        return None
    ((key, c),) = x.items()
    return {frozenset((name, m * n) for name, m in key): c**n}


def summed(x: Sum, inner: frozenset[Any]) -> Sum:
    """The sum along rows: of each product, the factors that vary along them become an atom."""
    found: Sum = {}
    for key, c in x.items():
        varying = frozenset(f for f in key if f[0] in inner)
        rest = frozenset(f for f in key if f[0] not in inner)
        found = plus(found, {rest | {(("sum", varying), 1)}: c})
    return found
