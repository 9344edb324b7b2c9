"""Programs in named sizes on a GPU: planned and compiled once, then filled in for every shape.

Kernels take sizes as parameters of their launches. Operations of libraries are looked up again for
every shape, which compiles nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.backends.cuda import assemble
from weft.backends.cuda import commands as c
from weft.backends.cuda.assemble import Assembled, Assembler, Deferred, Part
from weft.backends.cuda.forms.deferred import Nest, expanded, form_of
from weft.backends.cuda.forms.schedule import schedule_sized
from weft.backends.cuda.passes.target import NamedTarget
from weft.backends.cuda.schedule import operations
from weft.backends.cuda.text.render import render_sized
from weft.base.sizes import Size, recording
from weft.compiler.numbers import Numbers
from weft.compiler.plan import Planner
from weft.compiler.watch import Watch
from weft.core.interpret import constant_value
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import Collective, For, Host, Launch, Op, While
from weft.runtime.client import InNamedSizes, Special


class Template(Assembler):
    """A program in named sizes while it becomes commands."""

    def reordered(self, nodes: Sequence[Any]) -> Sequence[Any]:
        return nodes

    def linked(self, units: list[Any]) -> list[Any]:
        return units

    def apart(self, units: Sequence[Any]) -> list[Any]:
        return []

    def together(self, units: Sequence[Any]) -> tuple[list[Any], int]:
        return [], 0

    def runs_of(self, launches: Sequence[Any]) -> list[Any]:
        return []

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
            template = Template(program, watch)
            commands = template.nodes(program.nodes)
        if {name for guard in guards for name in guard.pins()}.issuperset(names):
            raise Special
        c.load_all(commands)
        for number in program.given:
            program.constants[number] = None  # each instance has its own
        self.form = form_of(template.gathered(commands))
        self.numbers = Numbers(names, list(guards))
        collect = self.numbers.collect
        for slot in program.slots:
            collect(slot.size)
            if hasattr(slot.what, "str_short"):
                collect(slot.what.shape)
        collect(tuple(self.form.sizes))
        for constant in program.constants:
            collect(constant)
        self._collect(self.form.entries)
        self.numbers.seal()

    def _collect(self, entries: Sequence[Any]) -> None:
        for entry in entries:
            if type(entry) is Deferred:
                self.numbers.collect_equation(entry.node.eqn)
                continue
            self.numbers.collect(entry.command)
            if type(entry) is Nest:
                for region in entry.regions:
                    self._collect(region)
            else:
                self.numbers.collect(entry.operations)

    def instance(self, values: Mapping[str, int]) -> list[int] | None:
        return self.numbers.at(values)

    def served(
        self, numbers: list[int], constants: Mapping[int, tuple[Any, Any]], own: Mapping[int, Any]
    ) -> Assembled | None:
        fill, plan = self.numbers.filler(numbers), self.form.program
        arrays = [np.array(fill(x), np.int64) if type(x) is tuple else x for x in plan.constants]
        for number, stand_in in plan.given.items():
            if arrays[number] is None:
                arrays[number] = constant_value(*constants[id(stand_in)])
        slots = [
            s._replace(size=fill(s.size), what=_typed(s.what, fill)) if type(s.size) is Size else s
            for s in plan.slots
        ]
        given = {number: own[id(x)] for number, x in plan.given.items() if id(x) in own}
        program = plan._replace(slots=slots, constants=arrays, given=given)
        return expanded(self.form, program, fill)


def _typed(what: Any, fill: Any) -> Any:
    """What a slot is for; types with numbers in place of sizes."""
    return what.update(shape=fill(what.shape)) if hasattr(what, "str_short") else what
