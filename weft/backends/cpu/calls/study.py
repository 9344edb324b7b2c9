"""A compilation with notes taken, for the stages of ``jit`` and for ``explain``: the one that runs,
unless the program was compiled before."""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.assembly_text import whole_text
from weft.backends.cpu.calls.dispatch import supported
from weft.backends.cpu.calls.native import Executable, compile_noted
from weft.backends.cpu.calls.native import compile_program as compile_program
from weft.backends.cpu.story import Story, costs
from weft.backends.cpu.story import unfused_costs as unfused_costs
from weft.base import knobs
from weft.base.record import Record
from weft.compiler.analysis.cost import size_of
from weft.compiler.watch import Watch
from weft.core.jaxpr import ClosedJaxpr


class CompiledMemoryStats(Record):
    """Bytes of an executable: of what it is given, gives, needs in between, and is made of."""

    generated_code_size_in_bytes: int = 0
    argument_size_in_bytes: int = 0
    output_size_in_bytes: int = 0
    alias_size_in_bytes: int = 0
    temp_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    peak_memory_in_bytes: int = 0


class Study:
    """One program and what became of it; ``executable`` is None where the interpreter runs it."""

    def __init__(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> None:
        self.closed = closed
        self.watch = Watch(closed)
        self.executable: Executable | None = None
        if supported() and knobs.thread.backend == "native":
            self.executable = compile_noted(closed, donated, self.watch)

    def story(self) -> Any:
        """What happened, in the user's words; None where nothing was compiled."""
        if self.executable is None:
            return None
        return Story(self.watch, self.executable.plan)

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
        given = sum(map(size_of, self.closed.in_avals))
        made = sum(map(size_of, self.closed.out_avals))
        if self.executable is None:
            return CompiledMemoryStats(
                argument_size_in_bytes=given,
                output_size_in_bytes=made,
                peak_memory_in_bytes=given + made,
            )
        arena = self.executable.plan.arena
        alias = sum(size_of(self.closed.in_avals[i]) for i in self.executable.taken)
        code = {id(c.region): c.region.size for c in self.executable.code.values()}
        return CompiledMemoryStats(
            generated_code_size_in_bytes=sum(code.values()),
            argument_size_in_bytes=given,
            output_size_in_bytes=made,
            alias_size_in_bytes=alias,
            temp_size_in_bytes=arena,
            peak_memory_in_bytes=given + made - alias + arena,
        )


def study(closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Study:
    """The study of a program, made once."""
    donated = donated if any(donated) else ()
    found = closed._memo.get(("study", donated))
    if found is None:
        found = closed._memo["study", donated] = Study(closed, donated)
    return found
