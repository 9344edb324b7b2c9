"""What a plugin has made of a program: its costs, its memory, its operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

from weft.backends.pjrt.hlo import instructions, text_of
from weft.backends.pjrt.program import Code
from weft.compiler.analysis.cost import CompiledMemoryStats, memory_stats, unfused_costs
from weft.core.jaxpr import ClosedJaxpr, count_eqns
from weft.runtime.client import Told

# Kinds of operations that are listed.
MAX_KINDS = 12


class Study:
    """One program and what was compiled of it; None where the host computes it."""

    def __init__(self, closed: ClosedJaxpr, code: Code | None, devices: int = 1) -> None:
        self.closed, self.code, self.devices = closed, code, devices

    def text(self) -> str:
        """The program after the compiler's passes, as HLO."""
        if self.code is None:
            return str(self.closed)
        form, data = self.code.optimized()
        return text_of(form, data)

    def costs(self) -> dict[str, Any]:
        """The compiler's count of operations and bytes."""
        return unfused_costs(self.closed) if self.code is None else self.code.costs()

    def memory(self) -> CompiledMemoryStats:
        """Bytes of arguments, results, memory in between and code."""
        if self.code is None:
            return memory_stats(self.closed)
        found = self.code.memory()
        return CompiledMemoryStats(
            **{k: v for k, v in found.items() if k in CompiledMemoryStats._fields}
        )

    def story(self) -> str:
        """The operations by kind, and what they cost, in a few lines."""
        if self.code is None:
            return "the host computes it"
        return explained(self.code, self.devices)

    def told(self, head: str, seconds: dict[str, float]) -> Told:
        """The figures and the story of a program, for ``explain``."""
        count = count_eqns(self.closed.jaxpr)
        unfused = unfused_costs(self.closed)["bytes accessed"]
        return Told(
            head.format(count) + self.story(),
            python=count if self.code is None else 0,
            moved=float(self.costs().get("bytes accessed", 0.0)),
            unfused=unfused,
            arena=self.memory().temp_size_in_bytes,
            seconds=seconds,
        )


def explained(code: Code, devices: int = 1) -> str:
    """What an executable does: operations by kind, FLOPs, bytes, and the time it should take."""
    costs, memory = code.costs(), code.memory()
    form, data = code.optimized()
    kinds = Counter(instructions(form, data)).most_common(MAX_KINDS)
    lines = [f"{sum(n for _, n in kinds)} operations after fusion"]
    lines.append("  " + ", ".join(f"{n} {kind}" for kind, n in kinds))
    flops, moved = costs.get("flops", 0.0), costs.get("bytes accessed", 0.0)
    where = f", on each of {devices} devices" if devices > 1 else ""
    lines.append(
        f"  {flops:,.0f} floating-point operations, {moved:,.0f} bytes read and written{where}"
    )
    if "optimal_seconds" in costs:
        lines.append(f"  expected time {costs['optimal_seconds'] * 1e6:,.1f} us, by the compiler")
    names = "argument output alias temp generated_code".split()
    parts = [f"{memory.get(f'{n}_size_in_bytes', 0):,} {n.replace('_', ' ')}" for n in names]
    lines.append(f"  bytes of memory: {', '.join(parts)}")
    return "\n".join(lines)
