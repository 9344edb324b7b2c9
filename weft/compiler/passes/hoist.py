"""What rounds of a loop do not change computed once, before the loop."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from weft.base.record import Record
from weft.base.sizes import plain
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var

# Operations on elements, of all rounds, from which on a value is worth a kernel before the loop.
MIN_HOISTED_OPS = 1 << 16
# Rounds that a loop is taken to have where their number is not known.
ASSUMED_ROUNDS = 64
# How often programs run that are for arrays of many sizes.
ASSUMED_CALLS = 1 << 40
# Elements up to which a value is read as soon as what it is made of, however few that are.
MAX_RECOMPUTED_ELEMENTS = 1 << 12
# Elements of a vector: fewer take as long. Operations that a costly one counts as.
VECTOR_ELEMENTS, COSTLY_OPS = 16, 20
# Says of a loop whether it stays as it is.
Stays = Callable[[JaxprEqn], bool]
# Forms of views, which kernels read through.
_VIEWS = frozenset(["move", "iota"])


def hoist(closed: ClosedJaxpr, times: int = 1, stays: Stays = lambda eqn: False) -> ClosedJaxpr:
    """The program with values that a loop computes anew in every round, but of operands that stay
    the same, computed before it where that saves work. ``times`` is how often the program runs;
    loops stay as they are where ``stays`` says so."""
    if not any(eqn.primitive.nodes == "loop" for eqn in closed.eqns):
        return closed
    into = _Into(list(closed.jaxpr.constvars), list(closed.consts), [])
    for eqn in closed.eqns:
        if eqn.primitive.nodes == "loop" and not stays(eqn):
            known = eqn.primitive.rounds(eqn.params) is not None
            change = _scan if known else _while
            eqn = change(eqn, into, times, stays)
        into.eqns.append(eqn)
    if all(a is b for a, b in zip(into.eqns, closed.eqns, strict=False)):
        return closed
    return ClosedJaxpr(closed.jaxpr.replace(constvars=into.constvars, eqns=into.eqns), into.consts)


class _Into(Record):
    """The program around loops while it is made."""

    constvars: list[Var]
    consts: list[Any]
    eqns: list[JaxprEqn]


def _scan(eqn: JaxprEqn, into: _Into, times: int, stays: Stays) -> JaxprEqn:
    params, count = eqn.params, eqn.params["num_consts"]
    if params["length"] < 2:
        return eqn
    body = _Body(params["jaxpr"], count, times * params["length"], stays)
    found = body.split(eqn.invars[:count], into)
    if found is None:
        return eqn
    left, more = found
    params = {**params, "jaxpr": left, "num_consts": count + len(more)}
    return eqn.replace(params=params, invars=[*eqn.invars[:count], *more, *eqn.invars[count:]])


def _while(eqn: JaxprEqn, into: _Into, times: int, stays: Stays) -> JaxprEqn:
    params = dict(eqn.params)
    tests = params["cond_nconsts"]
    start = tests + params["body_nconsts"]
    groups = [eqn.invars[:tests], eqn.invars[tests:start]]
    changed = False
    for i, name in enumerate(("cond", "body")):
        body = _Body(params[f"{name}_jaxpr"], len(groups[i]), times * ASSUMED_ROUNDS, stays)
        found = body.split(groups[i], into)
        if found is not None:
            params[f"{name}_jaxpr"], more = found
            groups[i] = [*groups[i], *more]
            params[f"{name}_nconsts"] = len(groups[i])
            changed = True
    if not changed:
        return eqn
    return eqn.replace(params=params, invars=[*groups[0], *groups[1], *eqn.invars[start:]])


class _Body:
    """What is computed in each round, and what of it is the same in all of them."""

    def __init__(self, closed: ClosedJaxpr, count: int, trips: int, stays: Stays) -> None:
        self.closed, self.count, self.trips, self.stays = closed, count, trips, stays
        self.made: dict[Any, JaxprEqn] = {}  # equations of what stays the same, by their results
        self.sources: dict[Any, int] = {}  # how many elements a value is made of
        self.work: dict[Any, int] = {}  # operations that it takes
        self.chosen: dict[int, JaxprEqn] = {}  # equations that are done before the loop

    def split(self, given: list[Any], into: _Into) -> tuple[ClosedJaxpr, list[Var]] | None:
        """The program of a round without what is done before, for operands ``given`` that stay the
        same; and what is to be given besides. None where nothing is."""
        if not any(map(_stays, self.closed.eqns)):
            return None
        closed = self.closed = hoist(cse(inline(self.closed)), self.trips, self.stays)
        jaxpr = closed.jaxpr
        fixed = [*jaxpr.constvars, *jaxpr.invars[: self.count]]
        self.sources = {v: _elements(v) for v in fixed}
        self.work = dict.fromkeys(fixed, 0)
        for eqn in closed.eqns:
            self.look(eqn)
        if not self.made:
            return None
        changing = [eqn for eqn in closed.eqns if not any(v in self.made for v in eqn.outvars)]
        for x in [*(x for eqn in changing for x in eqn.invars), *jaxpr.outvars]:
            self.choose(x)
        if not self.chosen:
            return None
        return self.parted(dict(zip(jaxpr.invars, given, strict=False)), into)

    def look(self, eqn: JaxprEqn) -> None:
        """Note an equation of values that stay the same."""
        if not _stays(eqn) or not all(type(x) is Literal or x in self.work for x in eqn.invars):
            return
        operands = [x for x in eqn.invars if type(x) is not Literal]
        work = _work(eqn) + sum(self.work[x] for x in {*operands})
        size = sum(self.sources[x] for x in {*operands})
        for v in eqn.outvars:
            self.made[v], self.work[v], self.sources[v] = eqn, work, size

    def choose(self, x: Any) -> None:
        """Have a value computed before the loop, or what it is made of, where that pays."""
        stack = [x]
        while stack:
            x = stack.pop()
            eqn = None if type(x) is Literal else self.made.get(x)
            if eqn is None or id(eqn) in self.chosen:
                continue
            if self.pays(x, eqn):
                self.chosen[id(eqn)] = eqn
            else:
                stack += eqn.invars

    def pays(self, x: Any, eqn: JaxprEqn) -> bool:
        primitive = eqn.primitive
        if primitive.form in _VIEWS or primitive.view:
            return False
        if self.work[x] * self.trips < MIN_HOISTED_OPS:
            return False
        if primitive.costly or primitive.form is None or primitive.form == "expand":
            return True
        # where sizes are to make no difference, what is cheap stays
        if self.trips >= ASSUMED_CALLS:
            return False
        return _elements(x) <= max(MAX_RECOMPUTED_ELEMENTS, self.sources[x])

    def parted(self, env: dict[Any, Any], into: _Into) -> tuple[ClosedJaxpr, list[Var]]:
        """The program of a round, with the equations that are chosen, and those that they need,
        written before the loop."""
        jaxpr, consts = self.closed.jaxpr, self.closed.consts
        left = [eqn for eqn in jaxpr.eqns if id(eqn) not in self.chosen]
        needed = {x for x in jaxpr.outvars if type(x) is not Literal}
        kept = []
        for eqn in reversed(left):
            if eqn.effects or not needed.isdisjoint(eqn.outvars):
                needed.update(x for x in eqn.invars if type(x) is not Literal)
                kept.append(eqn)
        before = {x for eqn in self.chosen.values() for x in eqn.invars if type(x) is not Literal}
        moved = []
        for eqn in reversed(jaxpr.eqns):
            if id(eqn) in self.chosen or not before.isdisjoint(eqn.outvars):
                before.update(x for x in eqn.invars if type(x) is not Literal)
                moved.append(eqn)
        for v, const in zip(jaxpr.constvars, consts, strict=True):
            if v in before:
                env[v] = Var(v.aval)
                into.constvars.append(env[v])
                into.consts.append(const)
        for eqn in reversed(moved):
            invars = [x if type(x) is Literal else env[x] for x in eqn.invars]
            outvars = [v if type(v) is DropVar else Var(v.aval) for v in eqn.outvars]
            env.update(zip(eqn.outvars, outvars, strict=True))
            into.eqns.append(eqn.replace(invars=invars, outvars=outvars))
        more = [v for eqn in self.chosen.values() for v in eqn.outvars if v in needed]
        operands = [*jaxpr.invars[: self.count], *more, *jaxpr.invars[self.count :]]
        left_over = Jaxpr(
            jaxpr.constvars, operands, jaxpr.outvars, kept[::-1], jaxpr.effects, jaxpr.debug_info
        )
        return ClosedJaxpr(left_over, consts), [env[v] for v in more]


def _stays(eqn: JaxprEqn) -> bool:
    """Whether an equation may be done elsewhere."""
    return not eqn.effects and not eqn.primitive.pinned


def _elements(x: Any) -> int:
    return plain(prod(getattr(x.aval, "shape", ())))


def _work(eqn: JaxprEqn) -> int:
    """Operations on elements, roughly."""
    primitive = eqn.primitive
    if primitive.form in _VIEWS:
        return 0
    if primitive.products:
        ins, outs = ([x.aval for x in xs] for xs in (eqn.invars, eqn.outvars))
        return plain(primitive.flops(ins, outs, eqn.params))
    sizes = [_elements(x) for x in [*eqn.invars, *eqn.outvars]]
    size = max([VECTOR_ELEMENTS, *sizes])
    return size * (COSTLY_OPS if primitive.costly or primitive.form is None else 1)
