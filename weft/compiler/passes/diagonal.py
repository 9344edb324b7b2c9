"""Sums of what a comparison of positions picks: the loop that tries all of them left out.

A trace is a sum over two axes of the elements where both positions are equal. Where the position
along one axis follows from those of the axes around, what is picked there is all that is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base.record import Record
from weft.compiler.passes.rewrite import Rewrite
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Kernel, Loop, Reduce, statements
from weft.kernel.nodes import Value

Extents = dict[str, int]
# Sums that zeros do not change.
_SUMS = frozenset(["add", "or", "xor"])


class _Pick(Record):
    """A loop that needs one round: which, by the axes around, and the conditions it meets."""

    loop: Loop
    place: Affine
    met: dict[int, Value]  # by the numbers of the selects
    low: int  # the rounds of the loop around it that need any
    high: int


def diagonal(kernel: Kernel) -> Kernel:
    """The kernel without loops over positions of which a sum needs one only."""
    whole = dict([*kernel.axes, *([kernel.grid] if kernel.grid else [])])
    while True:
        found = _find(kernel.body, None, whole)
        if found is None:
            return kernel
        plain = Rewrite(Builder(), {})
        kernel = kernel._replace(body=_without(kernel.body, found, plain))


def _find(body: list[Any], around: Loop | None, extents: Extents) -> _Pick | None:
    for s in body:
        if isinstance(s, Loop):
            known = {**extents, s.axis: s.extent}
            found = _pick(s, around, known)
            found = found or _find(s.body, s, known)
            if found is not None:
                return found
    return None


def _pick(loop: Loop, around: Loop | None, extents: Extents) -> _Pick | None:
    """What is to be known to leave a loop out, if it can be."""
    inside = list(statements(loop.body))
    if loop.extent < 2 or loop.lanes or loop.whole is not None or not loop.carries:
        return None
    place, met = None, {}
    for s in inside:
        if isinstance(s, Loop):
            continue
        chosen = _select(s.value) if isinstance(s, Reduce) and s.op in _SUMS else None
        if chosen is None:
            return None
        for condition in _conditions(chosen.args[0]):
            at = _solved(condition, loop.axis, extents)
            if at is not None and (place is None or at == place):
                place, met[chosen.number] = at, condition
                break
        else:
            return None
    return None if place is None else _ranged(loop, around, place, met, extents)


def _ranged(
    loop: Loop, around: Loop | None, place: Affine, met: dict[int, Value], extents: Extents
) -> _Pick | None:
    """A pick, if there always is one, or rounds of the loop around that have none can go."""
    low, high = _range(place, extents)
    rounds = around.extent if around is not None else 1
    if low >= 0 and high < loop.extent:
        return _Pick(loop, place, met, 0, rounds)
    if around is None or not _around(around, loop) or place.terms != ((around.axis, 1),):
        return None
    first, last = max(0, -place.const), min(rounds, loop.extent - place.const)
    return _Pick(loop, place, met, first, last) if first < last else None


def _around(outer: Loop, inner: Loop) -> bool:
    """Whether two loops are of the same sum and the first holds nothing but the second."""
    return len(outer.body) == 1 and outer.body[0] is inner and outer.carries == inner.carries


def _select(value: Value) -> Value | None:
    """The select, below conversions, that gives zero where its condition does not hold."""
    while value.op == "cast":
        (value,) = value.args
    if value.op != "select":
        return None
    other = value.args[2]
    return value if other.op == "const" and not np.frombuffer(other.attr, other.dtype)[0] else None


def _conditions(value: Value) -> list[Value]:
    """What has to hold, all of it."""
    if value.op == "and":
        return [c for a in value.args for c in _conditions(a)]
    return [value]


def _solved(condition: Value, axis: str, extents: Extents) -> Affine | None:
    """Where on an axis two positions are equal, in terms of the axes around it."""
    if condition.op != "eq":
        return None
    left, right = (_position(v, extents) for v in condition.args)
    if left is None or right is None:
        return None
    gap = left.plus(right.scaled(-1, 0))
    factor = gap.coefficient(axis)
    if factor not in (1, -1):
        return None
    rest = gap.plus(Affine(0, ((axis, -factor),)))
    return rest.scaled(-factor, 0)


def _position(value: Value, extents: Extents) -> Affine | None:
    """A value as a sum of positions and constants that does not wrap around, if it is one.

    Only the axes of loops around are known.
    """
    if value.op == "index":
        found = Affine(0, ((value.attr, 1),)) if value.attr in extents else None
    elif value.op == "const" and value.dtype.kind in "iu":
        found = Affine(int(np.frombuffer(value.attr, value.dtype)[0]))
    elif value.op == "cast" and value.dtype.kind in "iu":
        found = _position(value.args[0], extents)
    elif value.op in ("add", "sub") and value.dtype.kind in "iu":
        left, right = (_position(v, extents) for v in value.args)
        if left is None or right is None:
            return None
        found = left.plus(right.scaled(-1 if value.op == "sub" else 1, 0))
    else:
        return None
    if found is None:
        return None
    low, high = _range(found, extents)
    limits = np.iinfo(value.dtype)
    return found if limits.min <= low and high <= limits.max else None


def _range(index: Affine, extents: Extents) -> tuple[int, int]:
    low = high = index.const
    for axis, factor in index.terms:
        reach = factor * (extents[axis] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def _without(body: list[Any], pick: _Pick, plain: Rewrite) -> list[Any]:
    """Statements without the loop that a pick is for."""
    made = []
    for s in body:
        if s is pick.loop:
            (inner,) = _picked([s._replace(extent=1)], pick, plain)
            made.append(inner)
        elif isinstance(s, Loop) and _around(s, pick.loop):
            inner = _picked(pick.loop.body, pick, plain, s.axis)
            made.append(s._replace(extent=pick.high - pick.low, body=inner))
        elif isinstance(s, Loop):
            made.append(s._replace(body=_without(s.body, pick, plain)))
        else:
            made.append(plain.statement(s))
    return made


def _picked(body: list[Any], pick: _Pick, plain: Rewrite, outer: str | None = None) -> list[Any]:
    """The statements of a loop at the place that is picked."""
    place, axes = pick.place, {}
    if outer is not None and pick.low:
        axes[outer] = Affine(pick.low, ((outer, 1),))
        place = place.plus(Affine(pick.low * place.coefficient(outer)))
    axes[pick.loop.axis] = place

    def instead(v: Value) -> Value | None:
        met = pick.met.get(v.number)
        if met is None:
            return None
        k = rewrite.k
        condition = k.const(True, np.bool_)
        for c in _conditions(v.args[0]):
            if c is not met:
                condition = k.and_(condition, rewrite.value(c))
        return k.select(condition, *(rewrite.value(a) for a in v.args[1:]))

    rewrite = Rewrite(plain.k, axes, instead=instead)
    return rewrite.body(body)
