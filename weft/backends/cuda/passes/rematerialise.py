"""Values computed again instead of kept: where a program's memory is short.

At the moment when most bytes are in use, a program holds values that it has used and will use
again, such as activations that wait for their gradient. Those that a few elementwise operations
make of values that are kept anyway are dropped, and computed again before they are next needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, prod
from typing import Any

from weft.compiler.fuse import fusible
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var

# Operations that a value is made of, at most; the part of the largest value of a program that a
# value has at least; and how many times smaller than a value what it is broadcast from is.
MAX_CONE, LEAST_PART, SMALL = 32, 1 / 256, 8
_VIEWS = frozenset(["broadcast_in_dim", "reshape", "squeeze", "expand_dims"])


def _bytes(v: Any) -> int:
    aval = v.aval
    return prod(aval.shape) * aval.dtype.itemsize if hasattr(aval, "dtype") else 0


def _variables(xs: Iterable[Any]) -> list[Any]:
    return [x for x in xs if type(x) is not Literal]


def _is_cheap(eqn: JaxprEqn) -> bool:
    """Whether elements of the result need a few elements of the operands."""
    form = eqn.primitive.form
    return fusible(eqn) and (form == "map" or eqn.primitive.name in _VIEWS)


class _Lives:
    """Which values of a flat program are in memory, and from when to when; moments are numbers of
    equations."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        jaxpr = closed.jaxpr
        self.eqns = jaxpr.eqns
        self.cheap = [_is_cheap(eqn) for eqn in self.eqns]
        self.made: dict[Any, int] = {}  # which equation makes a value
        self.given = {*jaxpr.invars, *jaxpr.constvars}
        self.stored: set[Any] = {*self.given, *_variables(jaxpr.outvars)}
        for i, eqn in enumerate(self.eqns):
            for v in eqn.outvars:
                self.made[v] = i
            if not self.cheap[i]:
                self.stored.update(eqn.outvars)
            if not fusible(eqn):  # operands of library calls are in memory
                self.stored.update(_variables(eqn.invars))
        self.bases: dict[Any, frozenset[Any]] = {}  # what is read in memory for a value
        self.last: dict[Any, float] = dict.fromkeys(self.given, inf)
        self.uses: dict[Any, list[int]] = {}  # when a value in memory is read
        for i, eqn in enumerate(self.eqns):
            read = frozenset[Any]().union(*(self.base(x) for x in _variables(eqn.invars)))
            kept = any(v in self.stored for v in eqn.outvars)
            for v in eqn.outvars:
                self.bases[v] = frozenset([v]) if v in self.stored else read
            if kept:
                for b in read:
                    self.uses.setdefault(b, []).append(i)
                    self.last[b] = max(self.last.get(b, i), i)
        for x in _variables(jaxpr.outvars):
            self.last[x] = inf

    def base(self, v: Any) -> frozenset[Any]:
        return self.bases.get(v) or frozenset([v])

    def fullest(self) -> int:
        """The moment when most bytes are in use."""
        changes = [0.0] * (len(self.eqns) + 2)
        for v in self.stored - self.given:
            end = min(self.last.get(v, self.made[v]), len(self.eqns))
            changes[self.made[v]] += _bytes(v)
            changes[int(end) + 1] -= _bytes(v)
        total, most, found = 0.0, -1.0, 0
        for i, change in enumerate(changes):
            total += change
            if total > most:
                most, found = total, i
        return found

    def leaves(self, v: Any) -> set[Any] | None:
        """The large ones of the values in memory that a few operations make a value of; None where
        these aren't cheap."""
        found: dict[Any, None] = {}
        leaves: set[Any] = set()
        pending = [v]
        while pending:
            x = pending.pop()
            if x in found or x in leaves:
                continue
            if x is not v and (x in self.stored or _bytes(x) * SMALL <= _bytes(v)):
                if _bytes(x) * SMALL > _bytes(v):
                    leaves.add(x)
                continue
            if x not in self.made or not self.cheap[self.made[x]] or len(found) >= MAX_CONE:
                return None
            found[x] = None
            pending += _variables(self.eqns[self.made[x]].invars)
        return leaves

    def repeated(self, eqn: JaxprEqn, full: int, dropped: set[Any], again: Any) -> list[int]:
        """The equations up to a moment that one after it needs done again, in order: those that
        make what is dropped, and what is between that and memory."""
        found: set[int] = set()
        pending = [(x, False) for x in _variables(eqn.invars)]
        while pending:
            x, inside = pending.pop()
            i = self.made.get(x, full + 1)
            if i > full or i in found or x in again:
                continue
            within = x not in self.stored and (inside or not self.base(x).isdisjoint(dropped))
            if x in dropped or within:
                found.add(i)
                pending += [(y, True) for y in _variables(self.eqns[i].invars)]
        return sorted(found)


def _dropped(lives: _Lives, full: int) -> set[Any]:
    """The values that are computed again after a moment instead of kept over it."""
    held = [v for v in lives.stored - lives.given if lives.made[v] < full < lives.last.get(v, -1)]
    if not held:
        return set()
    least = LEAST_PART * max(map(_bytes, held))
    found: set[Any] = set()
    needed: set[Any] = set()  # for those that are computed again
    for v in sorted(held, key=lambda v: (-_bytes(v), lives.made[v])):
        leaves = lives.leaves(v)
        if leaves is None or v in needed or _bytes(v) < least or lives.last[v] == inf:
            continue
        again = min(i for i in lives.uses[v] if i > full)
        if leaves.isdisjoint(found) and all(lives.last.get(x, -1) >= again for x in leaves):
            found.add(v)
            needed |= leaves
    return found


def rematerialise(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A flat program that computes cheap values again instead of keeping them when most bytes are
    in use; the same program where there are none."""
    lives = _Lives(closed)
    full = lives.fullest()
    dropped = _dropped(lives, full)
    if not dropped:
        return closed
    again: dict[Any, Any] = {}  # values after that moment
    eqns = list(lives.eqns[: full + 1])
    for eqn in lives.eqns[full + 1 :]:
        for i in lives.repeated(eqn, full, dropped, again):
            early = lives.eqns[i]
            outs: list[Any] = [Var(v.aval) for v in early.outvars]
            eqns.append(early.replace(invars=_renamed(early, again), outvars=outs))
            again.update(zip(early.outvars, outs, strict=True))
        ins = _renamed(eqn, again)
        same = all(a is b for a, b in zip(ins, eqn.invars, strict=True))
        eqns.append(eqn if same else eqn.replace(invars=ins))
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def _renamed(eqn: JaxprEqn, again: dict[Any, Any]) -> list[Any]:
    return [x if type(x) is Literal else again.get(x, x) for x in eqn.invars]
