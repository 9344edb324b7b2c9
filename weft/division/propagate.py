"""How all values of a program are divided over a mesh, from how some of them are.

Each primitive's ``factors`` say which dimensions belong together. Walks forwards and backwards give
dimensions the axes of those they belong to, until nothing changes: arguments and constraints keep
theirs, other values only gain. Programs inside of equations are walked as ``flow`` of their
primitives says.
"""

from __future__ import annotations

from typing import Any

from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, join_effects
from weft.core.sharding import UNCONSTRAINED
from weft.division.factors import (
    Division,
    Factors,
    Spec,
    count,
    fitting,
    spec_for,
    split_axes,
    whole,
)
from weft.division.specs import spec_of

Sizes = dict[Any, int]
MAX_ROUNDS = 4


# --- programs without calls -----------------------------------------------------------------------


@per_program
def inline(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with those that its equations merely call written out."""
    return _inline(closed)


def _called(eqn: JaxprEqn) -> Any:
    primitive = eqn.primitive
    if primitive.flow is not None or primitive.shardings is not None:
        return None
    return primitive.program([x.aval for x in eqn.invars], eqn.params)


def _inline(closed: ClosedJaxpr) -> ClosedJaxpr:
    if not any(_called(eqn) is not None for eqn in closed.eqns):
        return closed
    eqns: list[JaxprEqn] = []
    constvars: list[Any] = list(closed.jaxpr.constvars)
    consts: list[Any] = list(closed.consts)

    def walk(inner: Jaxpr, names: dict[Any, Any]) -> list[Any]:
        def atom(x: Any) -> Any:
            return x if type(x) is Literal else names[x]

        for eqn in inner.eqns:
            ins = [atom(x) for x in eqn.invars]
            called = _called(eqn)
            if called is not None:
                own = dict(zip(called.jaxpr.invars, ins, strict=True))
                for var, value in zip(called.jaxpr.constvars, called.consts, strict=True):
                    own[var] = Var(var.aval)
                    constvars.append(own[var])
                    consts.append(value)
                results = walk(called.jaxpr, own)
                names.update(zip(eqn.outvars, results, strict=True))
                continue
            outs = [Var(v.aval) for v in eqn.outvars]
            names.update(zip(eqn.outvars, outs, strict=True))
            eqns.append(eqn.replace(invars=ins, outvars=outs))
        return [atom(x) for x in inner.outvars]

    jaxpr = closed.jaxpr
    own = {v: v for v in (*jaxpr.constvars, *jaxpr.invars)}
    outvars = walk(jaxpr, own)
    effects = join_effects([jaxpr.effects, *(eqn.effects for eqn in eqns)])
    made = Jaxpr(constvars, jaxpr.invars, outvars, eqns, effects, jaxpr.debug_info)
    return ClosedJaxpr(made, consts)


# --- the walk -------------------------------------------------------------------------------------


class Flow:
    """What is known of the values of one program, without calls."""

    def __init__(self, closed: ClosedJaxpr, mesh: Any) -> None:
        self.closed = closed
        self.mesh = mesh
        self.sizes: Sizes = dict(mesh.shape)
        self.specs: dict[Any, Spec] = {}
        self.fixed: set[Any] = set()
        # for each value the equations that make or read it, and those that have news to look at
        self.near: dict[Any, list[int]] = {}
        self.dirty: set[int] = set()
        for i, eqn in enumerate(closed.eqns):
            if eqn.primitive.shardings is not None:
                self.dirty.add(i)
            for x in (*eqn.invars, *eqn.outvars):
                if type(x) is not Literal:
                    self.near.setdefault(x, []).append(i)

    def say(self, x: Any, spec: Spec) -> None:
        """Set what is known of a value."""
        self.specs[x] = spec
        if any(spec):
            self.dirty.update(self.near.get(x, ()))

    def read(self, x: Any) -> Spec:
        found = None if type(x) is Literal else self.specs.get(x)
        return whole(len(getattr(x.aval, "shape", ()))) if found is None else found

    def learn(self, x: Any, spec: Spec | None) -> None:
        """Give a value's whole dimensions the axes of a spec, if they are free and fit."""
        if spec is None or type(x) is Literal or x in self.fixed or not any(spec):
            return
        shape = getattr(x.aval, "shape", ())
        old = self.read(x)
        taken = {a for axes in old for a in axes}
        new: list[tuple[Any, ...]] = list(old)
        for i, (have, axes) in enumerate(zip(old, spec, strict=True)):
            if have or not axes or taken.intersection(axes):
                continue
            if shape[i] % count(axes, self.sizes) == 0:
                new[i] = axes
                taken.update(axes)
        if tuple(new) != old:
            self.say(x, tuple(new))

    def run(self) -> None:
        eqns = self.closed.eqns
        for _ in range(MAX_ROUNDS):
            for order in (range(len(eqns)), reversed(range(len(eqns)))):
                for i in order:
                    if i in self.dirty:
                        self.step(eqns[i])
                        self.dirty.discard(i)
            if not self.dirty:
                return

    def step(self, eqn: JaxprEqn) -> None:
        primitive = eqn.primitive
        if primitive.shardings is not None:
            self.constrain(eqn)
            return
        if not all(hasattr(v.aval, "shape") for v in (*eqn.invars, *eqn.outvars)):
            return
        ins, outs = [self.read(x) for x in eqn.invars], [self.read(x) for x in eqn.outvars]
        if not any(map(any, ins)) and not any(map(any, outs)):
            return
        if primitive.flow is not None:
            found_ins, found_outs = primitive.flow(eqn.params, ins, outs, self.mesh)
        else:
            avals, results = [x.aval for x in eqn.invars], [x.aval for x in eqn.outvars]
            f = primitive.factors(avals, results, eqn.params)
            if f is None:
                return
            division = merged(f, ins, outs, avals, results, self.sizes)
            found_ins = specs_under(f.ins, avals, division, f, self.sizes)
            found_outs = specs_under(f.outs, results, division, f, self.sizes)
        for v, spec in zip(eqn.outvars, found_outs, strict=True):
            self.learn(v, spec)
        for x, spec in zip(eqn.invars, found_ins, strict=True):
            self.learn(x, spec)

    def constrain(self, eqn: JaxprEqn) -> None:
        said = eqn.primitive.shardings(eqn.params)
        for i, (sharding, v) in enumerate(zip(said, eqn.outvars, strict=True)):
            x = eqn.invars[i] if len(eqn.invars) == len(said) else None
            if sharding is None or v in self.fixed:
                if x is not None and sharding is None:
                    self.learn(v, self.read(x))
                continue
            shape = v.aval.shape
            spec = spec_of(sharding, self.mesh, len(shape))
            if x is not None and UNCONSTRAINED in getattr(sharding, "spec", ()):
                spec = _left_open(spec, sharding.spec, self.read(x))
            spec = fitting(spec, shape, self.sizes)
            self.say(v, spec)
            self.fixed.add(v)
        if eqn.primitive.name == "sharding_constraint":
            self.learn(eqn.invars[0], self.read(eqn.outvars[0]))


def _left_open(spec: Spec, said: Any, given: Spec) -> Spec:
    """A spec with open dimensions divided as the operand is, but for axes that are in use."""
    taken = {name for part in spec for name in part}
    return tuple(
        tuple(n for n in own if n not in taken) if d < len(said) and said[d] is UNCONSTRAINED else p
        for d, (p, own) in enumerate(zip(spec, given, strict=True))
    )


def merged(
    f: Factors, ins: list[Spec], outs: list[Spec], avals: Any, results: Any, mesh: Sizes
) -> Division:
    """The axes of each factor, from operands first and then from results; each axis once."""
    found: Division = {}
    taken: set[Any] = set()
    sides = [*zip(f.ins, ins, avals, strict=True), *zip(f.outs, outs, results, strict=True)]
    for dims, spec, _ in sides:
        for labels, axes in zip(dims, spec, strict=True):
            for label, mine in split_axes(labels, axes, f.sizes, mesh):
                if label not in found and not taken.intersection(mine):
                    found[label] = mine
                    taken.update(mine)
    return found


def specs_under(
    all_dims: list[Any], avals: Any, division: Division, f: Factors, mesh: Sizes
) -> list[Spec | None]:
    """The spec of each array under a division; None where it cannot be divided so."""
    return [
        spec_for(dims, a.shape, division, f, mesh) for dims, a in zip(all_dims, avals, strict=True)
    ]


def propagate(
    closed: ClosedJaxpr,
    given: list[Spec],
    mesh: Any,
    wanted: list[Spec | None] | None = None,
    free: bool = False,
) -> Flow:
    """What is known of all values of a program, which should be inlined.

    ``given`` are the specs of the arguments, which gain axes if ``free``; ``wanted`` those that
    the results should have.
    """
    flow = Flow(closed, mesh)
    jaxpr = closed.jaxpr
    for v, spec in zip(jaxpr.invars, given, strict=True):
        flow.say(v, spec)
        if not free:
            flow.fixed.add(v)
    for x, want in zip(jaxpr.outvars, wanted or (), strict=False):
        flow.learn(x, want)
    flow.run()
    return flow


def joined(a: Spec, b: Spec) -> Spec:
    """A spec whose whole dimensions have the axes of another, where they are free."""
    taken = {x for axes in a for x in axes}
    found: list[tuple[Any, ...]] = []
    for mine, other in zip(a, b, strict=True):
        if not mine and not taken.intersection(other):
            mine = other
            taken.update(other)
        found.append(mine)
    return tuple(found)


def flow_through(
    closed: ClosedJaxpr, ins: list[Spec], outs: list[Spec], mesh: Any
) -> tuple[list[Spec], list[Spec]]:
    """Specs of the arguments and results of a program inside of an equation, both gaining."""
    flat = inline(closed)
    flow = propagate(flat, ins, mesh, list(outs), free=True)
    return [flow.read(v) for v in flat.jaxpr.invars], [flow.read(x) for x in flat.jaxpr.outvars]


def results(closed: ClosedJaxpr, given: list[Spec], mesh: Any) -> list[Spec]:
    """How the results of a program are divided."""
    flat = inline(closed)
    flow = propagate(flat, given, mesh)
    shapes = [getattr(x.aval, "shape", ()) for x in flat.jaxpr.outvars]
    return [
        fitting(flow.read(x), shape, flow.sizes)
        for x, shape in zip(flat.jaxpr.outvars, shapes, strict=True)
    ]
