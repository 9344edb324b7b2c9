"""Programs in named sizes on a GPU: planned and compiled once, then filled in for every shape.

Kernels take sizes as parameters of their launches. Operations of libraries are looked up again for
every shape, which compiles nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import assemble
from weft.backends.cuda import commands as c
from weft.backends.cuda.assemble import ASSEMBLE, Assembled, Assembler, Part
from weft.backends.cuda.named_schedule import schedule_sized
from weft.backends.cuda.routines.table import HOST
from weft.backends.cuda.schedule import operations
from weft.backends.cuda.target import NamedTarget
from weft.backends.cuda.text.render import render_sized
from weft.base.record import Record
from weft.base.sizes import Size, recording
from weft.compiler.numbers import Numbers, with_numbers
from weft.compiler.plan import Planner
from weft.compiler.watch import Watch
from weft.core.interpret import constant_value
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import Collective, For, Host, Launch, Op, While
from weft.runtime.client import InNamedSizes, Special


class Deferred(Record):
    """An operation that becomes commands when its sizes are known, with its label and lines."""

    node: Any
    label: str
    lines: tuple[Any, ...]


class Template(Assembler):
    """A program in named sizes while it becomes commands."""

    def linked(self, units: list[Any]) -> list[Any]:
        return units

    def apart(self, units: Sequence[Any]) -> list[Any]:
        return []

    def together(self, units: Sequence[Any]) -> tuple[list[Any], int]:
        return [], 0

    def matrix(self, part: Any) -> tuple[Any, ...]:
        return ()

    def units(self, node: Any) -> list[tuple[Any, Part | None]]:
        return super().units(node) if isinstance(node, Launch) else [(node, None)]

    def one_kernel(self, node: For | While) -> str:
        return "its sizes have names"

    def operation(self, node: Op | Host | Collective) -> list[Any]:
        return [Deferred(node, self.label, self.lines)]

    message = operation

    def parts(
        self, kernel: Kernel, spots: Sequence[c.Spot], aligned: bool, distinct: bool
    ) -> list[Part]:
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        key = (signature(kernel), aligned, distinct)
        if key not in self.schedules:
            self.schedules[key] = schedule_sized(kernel, aligned, distinct)
        return self.placed(key, kernel, dict(zip(outside, spots, strict=True)))

    def launched(self, part: Part, ahead: Any = ()) -> Any:
        made, name = part.schedule, part.schedule.kernel.name
        if part.key not in self.kernels:
            text, sizes = render_sized(made)
            label = self.label if name == "k" else name
            self.kernels[part.key] = assemble.load(text, 0, label), sizes
        function, sizes = self.kernels[part.key]
        blocks = made.blocks, made.block_threads
        found = c.Launched(function, *blocks, part.spots, sizes, function.name, self.lines)
        self._reads(found, part.reads)
        self.operations[id(found)] = operations(made)
        return found


class Named(InNamedSizes):
    """A program in named sizes with its code, and what it assumes of them."""

    is_special = False

    def __init__(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], names: Sequence[str]
    ) -> None:
        watch = Watch(closed)
        with recording() as guards:
            program = Planner(NamedTarget(), watch).program(closed, donated)
            self.template = Template(program, watch)
            self.commands = self.template.nodes(program.nodes)
        if {name for guard in guards for name in guard.pins()}.issuperset(names):
            raise Special
        c.load_all(self.commands)
        for number in program.given:
            program.constants[number] = None  # each instance has its own
        self.program = program._replace(nodes=())
        self.numbers = Numbers(names, list(guards))
        collect = self.numbers.collect
        for slot in program.slots:
            collect(slot.size)
        collect(tuple(self.template.sizes))
        for constant in program.constants:
            collect(constant)
        collect(tuple(self.template.operations.values()))
        self._collect(self.commands)
        self.numbers.seal()

    def _collect(self, commands: Sequence[Any]) -> None:
        for command in commands:
            if type(command) is Deferred:
                self.numbers.collect_equation(command.node.eqn)
                continue
            self.numbers.collect(tuple(command))

    def instance(self, values: Mapping[str, int]) -> list[int] | None:
        return self.numbers.at(values)

    def served(
        self, numbers: list[int], constants: Mapping[int, tuple[Any, Any]], own: Mapping[int, Any]
    ) -> Assembled | None:
        fill, plan = self.numbers.filler(numbers), self.program
        arrays = [np.array(fill(x), np.int64) if type(x) is tuple else x for x in plan.constants]
        for number, stand_in in plan.given.items():
            if arrays[number] is None:
                arrays[number] = constant_value(*constants[id(stand_in)])
        slots = [
            s._replace(size=fill(s.size), what=_typed(s.what, fill)) if type(s.size) is Size else s
            for s in plan.slots
        ]
        given = {number: own[id(x)] for number, x in plan.given.items() if id(x) in own}
        made = Assembler(plan._replace(slots=slots, constants=arrays, given=given))
        made.sizes = [fill(n) for n in self.template.sizes]
        made.roles = list(self.template.roles)
        commands = self._filled(self.commands, made, fill)
        return None if commands is None else made.assembled(commands)

    def _filled(self, commands: Sequence[Any], made: Assembler, fill: Any) -> Any:
        """Commands with numbers in place of sizes; None where an operation has no routine for
        them."""
        found: list[Any] = []
        for command in commands:
            if type(command) is Deferred:
                more = self._operation(command, made, fill)
                if more is None:
                    return None
                found += more
                continue
            regions = c.regions_of(command)
            if regions:
                inside = [self._filled(region, made, fill) for region in regions]
                if any(region is None for region in inside):
                    return None
                filled = _with_regions(command, inside, fill)
                _, uses, start = self.template.around[id(command)]
                made.around[id(filled)] = (filled, uses, start)
            else:
                filled = fill(command)
            if id(command) in self.template.only_read:
                reads = self.template.only_read[id(command)][1]
                made.only_read[id(filled)] = (filled, reads)
                made.operations[id(filled)] = fill(self.template.operations[id(command)])
            found.append(filled)
        return tuple(found)

    def _operation(self, deferred: Deferred, made: Assembler, fill: Any) -> list[Any] | None:
        node, made.label, made.lines = deferred
        node = node._replace(eqn=with_numbers(node.eqn, fill))
        name = node.eqn.primitive.name
        if (
            type(node) is Op
            and name not in HOST
            and any(prod(x.aval.shape) for x in node.eqn.outvars)
        ):
            if made.lowered(node) is None and name != "platform_index":
                return None
        return ASSEMBLE[type(node)](made, node)


def _typed(what: Any, fill: Any) -> Any:
    """What a slot is for; types with numbers in place of sizes."""
    return what.update(shape=fill(what.shape)) if hasattr(what, "str_short") else what


def _with_regions(command: Any, regions: list[tuple[Any, ...]], fill: Any) -> Any:
    """A command with other regions, and numbers in place of sizes."""
    if isinstance(command, c.Branched):
        return command._replace(regions=tuple(regions))
    if isinstance(command, c.LoopedWhile):
        return command._replace(condition=regions[0], body=regions[1])
    whole = command._replace(body=())
    return fill(whole)._replace(body=regions[0])
