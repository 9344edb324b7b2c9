"""Code for sizes that have names: assembled and compiled once, then filled in for every shape."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.assembly import Assembly, called, launched
from weft.backends.cpu.target import Cpu
from weft.backends.llvm.native.machine import Address, Ahead, compile_many
from weft.base.sizes import Guard, Size, evaluator, recording
from weft.compiler.arena import arrange
from weft.compiler.generic import Different
from weft.core.interpret import constant_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from weft.runtime.client import InNamedSizes, Special


class Generic(InNamedSizes):
    """A program in named sizes with its code, and what it assumes of them."""

    def __init__(
        self,
        closed: ClosedJaxpr,
        donated: tuple[bool, ...],
        names: Sequence[str],
        assumed: Sequence[Guard] | None = None,
        eager: bool = False,
    ) -> None:
        """``assumed`` is what the staging of the program assumed, where it was given names."""
        self.names = list(names)
        with Ahead() as ahead:
            with recording() as guards:
                guards.update(dict.fromkeys(assumed or ()))
                cpu = Cpu(None, ahead, named=True, eager=eager or assumed is not None)
                self.assembly = cpu.assemble(closed, donated)
            pinned = {name for guard in guards for name in guard.pins()}
            self.is_special = pinned.issuperset(names)
            if self.is_special and not eager:
                raise Special
            used = sorted(launched(self.assembly.nodes) | called(self.assembly.slots))
            made = compile_many([self.assembly.codes[i] for i in used], ahead)
        self.code = dict(zip(used, made, strict=True))
        self.guards = list(guards)
        if assumed is None:
            for number in self.assembly.given:
                self.assembly.constants[number] = None  # each instance has its own
        self.sizes: list[Size] = []
        self.places: dict[int, int] = {}  # of sizes by id
        self._collect(self.assembly)
        self._compute = evaluator([*self.sizes, *[g.size for g in self.guards]], self.names)

    def _collect(self, assembly: Assembly) -> None:
        known: dict[Any, int] = {}

        def collect(x: Any) -> None:
            if type(x) is Size:
                place = known.get(x.terms)
                if place is None:
                    place = known[x.terms] = len(self.sizes)
                    self.sizes.append(x)
                self.places[id(x)] = place
            elif isinstance(x, tuple):
                for y in x:
                    collect(y)

        for slot in assembly.slots:
            collect(slot.size)
        for constant in assembly.constants:
            collect(constant)
        for life in assembly.lives.values():
            collect(life.size)
        collect(assembly.nodes)
        for call in assembly.hosts:
            if any(type(p) in (ClosedJaxpr, Jaxpr) for p in call.eqn.params.values()):
                raise Different
            collect(tuple(call.eqn.params.values()))
            collect(tuple([x.aval.shape for x in [*call.eqn.invars, *call.eqn.outvars]]))

    def instance(self, values: Mapping[str, int]) -> list[int] | None:
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

    def served(
        self, numbers: list[int], constants: Mapping[int, tuple[Any, Any]], own: Mapping[int, Any]
    ) -> tuple[Assembly, dict[int, Address]]:
        made = self.filled(numbers, constants)
        given = {number: own[id(x)] for number, x in made.given.items() if id(x) in own}
        return made._replace(given=given), self.code

    def failing(self, values: Mapping[str, int]) -> list[Guard]:
        """The guards that do not hold for values of the names."""
        return [guard for guard in self.guards if not guard.is_met(values)]

    def filled(self, numbers: list[int], given: Mapping[int, tuple[Any, Any]]) -> Assembly:
        """The program for numbers of its sizes, and for constants by the ids of their stand-ins."""
        places, plan = self.places, self.assembly

        def fill(x: Any) -> Any:
            if type(x) is Size:
                return numbers[places[id(x)]]
            if isinstance(x, tuple) and x:
                made = [fill(y) for y in x]
                if all(map(operator.is_, made, x)):
                    return x
                return tuple.__new__(type(x), made)
            return x

        slots = [
            s if type(s.size) is not Size else s._replace(size=fill(s.size)) for s in plan.slots
        ]
        lives = {
            i: life if type(life.size) is not Size else life._replace(size=fill(life.size))
            for i, life in plan.lives.items()
        }
        constants = [
            c if type(c) is not tuple else np.array(fill(c), np.int64) for c in plan.constants
        ]
        for number, stand_in in plan.given.items():
            if constants[number] is None:
                constants[number] = constant_value(*given[id(stand_in)])
        hosts = [call._replace(eqn=_with_numbers(call.eqn, fill)) for call in plan.hosts]
        offsets, arena = arrange(lives, len(slots))
        nodes = fill(plan.nodes)
        return plan._replace(
            slots=slots,
            offsets=offsets,
            arena=arena,
            nodes=nodes,
            constants=constants,
            hosts=hosts,
        )


def _with_numbers(eqn: JaxprEqn, fill: Callable[[Any], Any]) -> JaxprEqn:
    """An equation with numbers in place of its sizes."""

    def typed(x: Any) -> Any:
        shape = fill(x.aval.shape)
        return x if shape is x.aval.shape else type(x)(x.aval.update(shape=shape))

    params = {name: fill(value) for name, value in eqn.params.items()}
    ins, outs = ([typed(x) for x in xs] for xs in (eqn.invars, eqn.outvars))
    return eqn.replace(invars=ins, outvars=outs, params=params)
