"""The sizes in the code of a program in named sizes, computed at once for values of the names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.base.sizes import Guard, Size, evaluator
from weft.compiler.generic import Different
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn


class Numbers:
    """All sizes that a program's code was made with, and what was assumed of them.

    A backend collects its commands, which are tuples, and seals the lot. For values of the names it
    then gets numbers, and its commands with these filled in.
    """

    def __init__(self, names: Sequence[str], guards: Sequence[Guard]) -> None:
        self.names, self.guards = list(names), list(guards)
        self.sizes: list[Size] = []
        self.places: dict[int, int] = {}  # of sizes by id
        self._known: dict[Any, int] = {}
        self._compute: Any = None

    def collect(self, x: Any) -> None:
        """Take up the sizes in a value: a size itself, or tuples of values."""
        if type(x) is Size:
            place = self._known.get(x.terms)
            if place is None:
                place = self._known[x.terms] = len(self.sizes)
                self.sizes.append(x)
            self.places[id(x)] = place
        elif isinstance(x, tuple):
            for y in x:
                self.collect(y)

    def collect_equation(self, eqn: JaxprEqn) -> None:
        """Take up the sizes in an equation; programs that it carries must have none."""
        if any(_has_sizes(p) for p in eqn.params.values()):
            raise Different
        self.collect(tuple(eqn.params.values()))
        self.collect(tuple([x.aval.shape for x in [*eqn.invars, *eqn.outvars]]))

    def seal(self) -> None:
        """Told that all sizes have been collected."""
        self._compute = evaluator([*self.sizes, *[g.size for g in self.guards]], self.names)

    def at(self, values: Mapping[str, int]) -> list[int] | None:
        """The numbers of all sizes for values of the names, or None where a guard does not hold."""
        try:
            numbers = self._compute(*[values[name] for name in self.names])
        except ZeroDivisionError:
            return None  # of what another guard rules out
        count = len(self.sizes)
        for guard, n in zip(self.guards, numbers[count:], strict=True):
            if (n == 0 if guard.relation == "==" else n < 0) is not guard.holds:
                return None
        return numbers[:count]

    def filler(self, numbers: Sequence[int]) -> Callable[[Any], Any]:
        """What puts numbers in place of sizes in a value; values without sizes stay as they are."""
        places = self.places

        def fill(x: Any) -> Any:
            if type(x) is Size:
                return numbers[places[id(x)]]
            if isinstance(x, tuple) and x:
                made = [fill(y) for y in x]
                if all(map(operator.is_, made, x)):
                    return x
                return tuple.__new__(type(x), made)
            return x

        return fill


def _has_sizes(value: Any) -> bool:
    """Whether a program, or one of some, has named sizes in it."""
    if type(value) is tuple:
        return any(_has_sizes(x) for x in value if type(x) in (ClosedJaxpr, Jaxpr))
    if type(value) not in (ClosedJaxpr, Jaxpr):
        return False
    jaxpr = value.jaxpr if type(value) is ClosedJaxpr else value
    for eqn in jaxpr.eqns:
        for given in eqn.params.values():
            if _has_sizes(given) or _is_sized(given):
                return True
    values = [*jaxpr.invars, *jaxpr.constvars, *[v for eqn in jaxpr.eqns for v in eqn.outvars]]
    return any(_is_sized(v.aval.shape) for v in values)


def _is_sized(value: Any) -> bool:
    """Whether there are named sizes in a value."""
    return type(value) is Size or (isinstance(value, tuple) and any(map(_is_sized, value)))


def with_numbers(eqn: JaxprEqn, fill: Callable[[Any], Any]) -> JaxprEqn:
    """An equation with numbers in place of its sizes."""

    def typed(x: Any) -> Any:
        shape = fill(x.aval.shape)
        return x if shape is x.aval.shape else type(x)(x.aval.update(shape=shape))

    params = {name: fill(value) for name, value in eqn.params.items()}
    ins, outs = ([typed(x) for x in xs] for xs in (eqn.invars, eqn.outvars))
    return eqn.replace(invars=ins, outvars=outs, params=params)
