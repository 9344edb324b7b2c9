"""A compilation with notes taken, for the stages of ``jit`` and for ``explain``: the one that runs,
unless the program was compiled before."""

from __future__ import annotations

from typing import Any

from weft.backends.cpu import picture
from weft.backends.cpu.assembly_text import whole_text
from weft.backends.cpu.calls import timing
from weft.backends.cpu.calls.native import Executable, arguments, compile_noted
from weft.backends.cpu.story import Story, costs
from weft.backends.llvm.calls.dispatch import supported
from weft.base import knobs
from weft.compiler.analysis.cost import CompiledMemoryStats, memory_stats, unfused_costs
from weft.compiler.watch import Watch
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.program import all_nodes
from weft.runtime.checked import told_plainly
from weft.runtime.client import Told
from weft.runtime.code import is_shape_generic


class Study:
    """One program and what became of it; ``executable`` is None where the interpreter runs it."""

    def __init__(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> None:
        self.closed = closed
        self.watch = Watch(closed)
        self.executable: Executable | None = None
        if supported():
            self.executable = compile_noted(closed, donated, self.watch)

    def story(self, args: Any = None) -> Any:
        """What happened, in the user's words; None where nothing was compiled. With arguments, the
        program runs and the time of each step is part of it."""
        found = self.executable
        if found is None:
            return None
        told = Story(self.watch, found.plan)
        if args is not None:
            numbers = {id(node): i for i, node in enumerate(all_nodes(found.plan.nodes))}
            given = arguments(args, self.closed.in_avals)
            codes = told.inner_codes()
            times, inside, whole = timing.measure(found, given, numbers, codes.keys())
            told.measured({i: times[n] for i, n in numbers.items() if n in times}, whole)
            told.measured_inside({code: inside[code] for code in codes if code in inside})
        return told

    def told(self, name: str, traced: float, args: Any = None) -> Told:
        """The figures and the story of a program, for ``explain``."""
        found = self.story(args)
        if found is None:
            return told_plainly(self.closed, name, traced)
        found.seconds = {"trace": traced, **found.seconds}
        text, shape_generic = str(found), is_shape_generic(self.closed)
        if shape_generic:
            text += (
                "\nCalls with these shapes still run shape-generic code, which serves other sizes,"
                " too. The report describes the specialised code, which replaces it after"
                f" {knobs.thread.exact_after} calls (exact_after)."
            )
        return Told(
            text,
            found.steps,
            found.kernels,
            found.libraries,
            found.own,
            found.python,
            found.moved,
            found.unfused.moved,
            found.arena,
            shape_generic,
            found.seconds,
            found.origins,
            lambda: picture.parts(self.watch.steps, found.steps),
        )

    def text(self) -> str:
        """Nodes and kernels; the program itself where the interpreter runs it."""
        if self.executable is None:
            return str(self.closed)
        return whole_text(self.executable.plan, self.watch)

    def costs(self) -> dict[str, float]:
        """Operations, and bytes that pass through memory."""
        if self.executable is None:
            return unfused_costs(self.closed)
        return costs(self.watch, self.executable.plan)

    def memory(self) -> CompiledMemoryStats:
        """Bytes of arguments, results, memory in between and code."""
        found = self.executable
        if found is None:
            return memory_stats(self.closed)
        code = {id(c.region): c.region.size for c in found.code.values()}
        return memory_stats(self.closed, found.taken, found.plan.arena, sum(code.values()))


def study(closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Study:
    """The study of a program, made once."""
    return _study(closed, donated if any(donated) else ())


_study = per_program(Study)
