"""Code for sizes that have names: assembled and compiled once, then filled in for every shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.assembly import Assembly, called, launched
from weft.backends.cpu.target import Cpu
from weft.backends.llvm.native.machine import Address, Ahead, compile_many
from weft.base.sizes import Guard, Size, recording
from weft.compiler.arena import arrange
from weft.compiler.numbers import Numbers, with_numbers
from weft.core.interpret import constant_value
from weft.core.jaxpr import ClosedJaxpr
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
        if assumed is None:
            for number in self.assembly.given:
                self.assembly.constants[number] = None  # each instance has its own
        self.numbers = Numbers(names, list(guards))
        self._collect(self.assembly)
        self.numbers.seal()

    def _collect(self, assembly: Assembly) -> None:
        collect = self.numbers.collect
        for slot in assembly.slots:
            collect(slot.size)
        for constant in assembly.constants:
            collect(constant)
        for life in assembly.lives.values():
            collect(life.size)
        collect(assembly.nodes)
        for call in assembly.hosts:
            self.numbers.collect_equation(call.eqn)

    def instance(self, values: Mapping[str, int]) -> list[int] | None:
        return self.numbers.at(values)

    def served(
        self, numbers: list[int], constants: Mapping[int, tuple[Any, Any]], own: Mapping[int, Any]
    ) -> tuple[Assembly, dict[int, Address]]:
        made = self.filled(numbers, constants)
        given = {number: own[id(x)] for number, x in made.given.items() if id(x) in own}
        return made._replace(given=given), self.code

    def filled(self, numbers: list[int], given: Mapping[int, tuple[Any, Any]]) -> Assembly:
        """The program for numbers of its sizes, and for constants by the ids of their stand-ins."""
        plan, fill = self.assembly, self.numbers.filler(numbers)
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
        hosts = [call._replace(eqn=with_numbers(call.eqn, fill)) for call in plan.hosts]
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
