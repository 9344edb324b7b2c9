"""What became of a program on a GPU, for the stages of ``jit`` and for ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import commands as c
from weft.compiler.analysis.cost import CompiledMemoryStats, memory_stats, unfused_costs
from weft.core.jaxpr import ClosedJaxpr, count_eqns
from weft.runtime.client import Told


class Study:
    """One program and its executable; None where the host computes it operation by operation."""

    def __init__(self, closed: ClosedJaxpr, executable: Any) -> None:
        self.closed, self.executable = closed, executable

    def commands(self) -> list[Any]:
        """All commands, those of loops and branches once each."""
        return [] if self.executable is None else list(c.leaves(self.executable.commands))

    def text(self, args: Sequence[Any] | None = None) -> str:
        """Its commands; with arguments on the device, also how long each of them takes."""
        if self.executable is None:
            return str(self.closed)
        return self.executable.explain(args)

    def costs(self) -> dict[str, float]:
        """Operations, and bytes that kernels and copies touch."""
        found = unfused_costs(self.closed)
        if self.executable is not None:
            sizes = self.executable.sizes
            found["bytes accessed"] = float(
                sum(sizes[s] for x in self.commands() for s in dict.fromkeys(x.slots()))
            )
        return found

    def memory(self) -> CompiledMemoryStats:
        """Bytes of arguments, results and memory in between."""
        if self.executable is None:
            return memory_stats(self.closed)
        return memory_stats(self.closed, self.executable.taken, self.executable.arena)

    def told(self, head: str, seconds: dict[str, float], args: Sequence[Any] | None) -> Told:
        """The figures and the story of a program, for ``explain``."""
        steps = self.commands()
        kinds = [type(step).__name__ for step in steps]
        return Told(
            head.format(count_eqns(self.closed.jaxpr)) + self.text(args),
            steps,
            kernels=kinds.count("Launched"),
            libraries=kinds.count("Called"),
            python=kinds.count("OnHost"),
            moved=self.costs()["bytes accessed"],
            unfused=unfused_costs(self.closed)["bytes accessed"],
            arena=self.memory().temp_size_in_bytes,
            seconds=seconds,
        )
