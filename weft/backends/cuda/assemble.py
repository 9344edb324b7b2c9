"""Programs as commands: kernels compiled and loaded, operations lowered, memory planned."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.native import disk
from weft.backends.cuda import commands as c
from weft.backends.cuda import driver, ptx
from weft.backends.cuda.render import NAME, render
from weft.backends.cuda.routines.base import Fill, Library, Move, Place, Routine, Run
from weft.backends.cuda.routines.table import lower
from weft.backends.cuda.schedule import schedule
from weft.base.functional import lru
from weft.compiler.arena import Life, arrange
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import (
    Branch,
    Copy,
    For,
    Host,
    Launch,
    Op,
    Point,
    Program,
    Swap,
    Type,
    While,
    inner_regions,
)

# Operations without operands that the host knows the answer of.
_KNOWN = frozenset(["platform_index"])


@lru(1024)
def load(text: str, dynamic: int = 0) -> driver.Function:
    """A kernel from its LLVM module; its machine code is kept on disk, as the CPU's is."""
    architecture = driver.device().architecture
    key = disk.digest(f"cuda sm_{architecture} {ptx.version()}\n{text}".encode())
    code = disk.load(key)
    if code is None:
        code = driver.link(ptx.assemble(text, architecture))
        disk.save(key, code)
    return driver.Function(code, NAME, dynamic)


def unaligned(nodes: Sequence[Any]) -> bool:
    """Whether loops point views at memory that doesn't begin at a multiple of 16 bytes."""
    return any(
        (isinstance(node, For) and any(size % 16 for _, _, size in node.slices))
        or any(unaligned(region) for region in inner_regions(node))
        for node in nodes
    )


class Assembler:
    """A Program while it becomes commands."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sizes = [slot.size for slot in program.slots]
        self.roles = [slot.role for slot in program.slots]
        self.constants: dict[int, np.ndarray] = {}  # by slot, beyond those of the program
        self.kernels: dict[Any, Any] = {}
        # of commands with regions, by id: what is in use throughout, the first slot of their own
        self.around: dict[int, Any] = {}
        self.views_aligned = not unaligned(program.nodes)
        for number, slot in enumerate(program.slots):
            if slot.role == "const":
                self.constants[number] = program.constants[slot.what]

    def nodes(self, nodes: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for node in nodes:
            found += _ASSEMBLE[type(node)](self, node)
        return tuple(found)

    def slot(self, role: str, size: int) -> int:
        self.sizes.append(size)
        self.roles.append(role)
        return len(self.sizes) - 1

    # --- nodes ------------------------------------------------------------------------------------

    def launch(self, node: Launch) -> list[Any]:
        views = any(self.roles[s] == "view" for s in node.slots)
        aligned = self.views_aligned or not views
        # views may be other slots' memory
        distinct = not views and len({*node.slots}) == len(node.slots)
        return self.kernel(node.kernel, [c.Spot(s) for s in node.slots], aligned, distinct)

    def kernel(
        self, kernel: Kernel, spots: Sequence[c.Spot], aligned: bool, distinct: bool
    ) -> list[Any]:
        key = (signature(kernel), aligned, distinct)
        if key not in self.kernels:
            parts, scratch = schedule(kernel, aligned, distinct)
            self.kernels[key] = (parts, scratch, [load(render(part)) for part in parts])
        parts, scratch, functions = self.kernels[key]
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        known = dict(zip(outside, spots, strict=True))
        for i, b in enumerate(scratch):
            known[len(kernel.buffers) + i] = c.Spot(self.slot("temp", b.size * b.dtype.itemsize))
        found = []
        for part, function in zip(parts, functions, strict=True):
            if part.iterations:
                given = tuple(known[i] for i in part.buffers)
                told = kernel.name
                found.append(c.Launched(function, part.blocks, part.threads, given, (), told))
        return found

    def operation(self, node: Op | Host) -> list[Any]:
        eqn = node.eqn
        types = [[Type(x.aval.shape, x.aval.dtype) for x in xs] for xs in (eqn.invars, eqn.outvars)]
        if not any(prod(t.shape) for t in types[1]) and not eqn.effects:
            return []
        if isinstance(node, Op):
            routine = lower(node, types[0], types[1])
            if routine is not None:
                return self.routine(routine, node)
        if isinstance(node, Op) and eqn.primitive.name not in _KNOWN:
            c.warn_of(eqn.primitive.name)
        return [c.OnHost(eqn, tuple(node.ins), tuple(node.outs))]

    def routine(self, routine: Routine, node: Op) -> list[Any]:
        rooms = [self.slot("temp", size) for size in routine.scratch]
        slots = {"in": node.ins, "out": node.outs, "scratch": rooms, "slot": node.slots}
        name = node.eqn.primitive.name

        def spot(place: Place) -> c.Spot:
            if place.kind == "const":
                number = self.slot("const", place.what.nbytes)
                self.constants[number] = place.what
                return c.Spot(number)
            return c.Spot(slots[place.kind][place.what], place.offset)

        found: list[Any] = []
        for step in routine.steps:
            if isinstance(step, Run):
                spots = tuple(map(spot, step.places))
                function = load(step.text, step.dynamic)
                numbers = step.numbers
                found.append(c.Launched(function, step.blocks, step.threads, spots, numbers, name))
            elif isinstance(step, Fill):
                found.append(c.Filled(spot(step.place), step.value, step.size))
            elif isinstance(step, Move):
                found.append(c.Moved(spot(step.target), spot(step.source), step.size))
            elif isinstance(step, Library):
                spots = tuple(map(spot, step.places))
                found.append(c.Called(step.function, spots, step.name or name, step.captured))
            else:  # a kernel of the compiler's and its places
                kernel, places = step
                found += self.kernel(kernel, [spot(p) for p in places], True, False)
        return found

    def copy(self, node: Copy) -> list[Any]:
        return [c.Moved(c.Spot(node.target), c.Spot(node.source), node.size)]

    def point(self, node: Point) -> list[Any]:
        return [c.Pointed(node.view, node.base)]

    def swap(self, node: Swap) -> list[Any]:
        size = max(self.sizes[s] for s in self.under(node.first))
        return [c.Swapped(node.first, node.second, size)]

    def branch(self, node: Branch) -> list[Any]:
        regions = tuple(self.nodes(region) for region in node.regions)
        return [self._kept(c.Branched(node.choice, node.size, regions), node.uses)]

    def repeat_while(self, node: While) -> list[Any]:
        condition, body = self.nodes(node.condition), self.nodes(node.body)
        made = c.LoopedWhile(condition, node.flag, body)
        return [self._kept(made, node.uses, node.inside)]

    def repeat(self, node: For) -> list[Any]:
        body = self.nodes(node.body)
        made = c.LoopedFor(node.trips, node.reverse, node.slices, body)
        return [self._kept(made, node.uses, node.inside)]

    def _kept(self, command: Any, uses: Sequence[int], inside: int | None = None) -> Any:
        self.around[id(command)] = (command, tuple(uses), inside)
        return command

    # --- memory -----------------------------------------------------------------------------------

    def under(self, slot: int) -> set[int]:
        """The slots whose memory a slot may be."""
        if self.roles[slot] != "view":
            return {slot}
        found: set[int] = set()
        for base in self.program.under.get(slot, ()):
            found |= self.under(base)
        return found or {slot}

    def plan(self, commands: Sequence[Any]) -> tuple[list[int], int]:
        """The offset of each temporary in the arena, and the arena's size."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        moment = 0

        def use(slots: Any, start: int, stop: int) -> None:
            for slot in slots:
                for s in self.under(slot):
                    if self.roles[s] == "temp":
                        first[s] = min(first.get(s, start), start)
                        last[s] = max(last.get(s, stop), stop)

        def walk(commands: Sequence[Any]) -> set[int]:
            nonlocal moment
            touched: set[int] = set()
            for command in commands:
                moment += 1
                start = moment
                own = set(command.slots())
                use(own, start, start)
                regions = c.regions_of(command)
                for region in regions:
                    own |= walk(region)
                if regions:
                    _, uses, inside = self.around[id(command)]
                    moment += 1
                    outer = {s for s in own if inside is None or s < inside}
                    use({*uses, *outer}, start, moment)
                touched |= own
            return touched

        walk(commands)
        lives = {s: Life(self.sizes[s], first[s], last[s]) for s in first}
        return arrange(lives, len(self.sizes))


_ASSEMBLE = {
    Launch: Assembler.launch,
    Op: Assembler.operation,
    Host: Assembler.operation,
    Copy: Assembler.copy,
    Point: Assembler.point,
    Swap: Assembler.swap,
    Branch: Assembler.branch,
    While: Assembler.repeat_while,
    For: Assembler.repeat,
}
