"""What a program does on a GPU, as text: its commands with their blocks, threads and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import commands as c
from weft.backends.cuda.forms import picture
from weft.backends.cuda.profile import lines_of
from weft.compiler.analysis.cost import CompiledMemoryStats, memory_stats, unfused_costs
from weft.core.jaxpr import ClosedJaxpr, count_eqns
from weft.runtime.client import Told

# Lines of the user's code that are listed for a command.
MAX_LINES = 3
# How many times as long as its bytes or operations take at least a kernel may take, what one takes
# in any case when it is timed alone, in seconds, and operations that a multiprocessor does in one.
SLOW, ALONE, OPERATIONS = 4, 5e-5, 128 * 1.7e9


def story(
    executable: Any, times: Sequence[float] | None, bandwidth: float, processors: int = 132
) -> str:
    """A line for each command, with the milliseconds that were measured, if they were;
    ``bandwidth`` is what the memory gives, in bytes a second. A kernel that takes more than four
    times what its bytes or its operations take at least is called slow."""
    count, way = c.length(executable.commands), "launched one by one"
    if executable.capturable:
        way = "launched as one CUDA graph"
    lines = [f"{count} commands {way}, temporary memory {_bytes(executable.arena)}"]
    if executable.saved:
        lines[0] += f" (recomputation saves {_bytes(executable.saved)})"
    for i, command in enumerate(executable.commands):
        first = len(lines)
        _tell(executable, [command], lines, 1, bandwidth)
        if times is not None and len(lines) > first:
            lines[first] += f", took {1e3 * times[i]:.1f} us"
            moved = _touched(executable, command)
            if moved and times[i] > 0:
                lines[first] += f" ({moved / times[i] / 1e9:.2f} TB/s)"
            over = _over(executable, command, times[i] / 1e3, bandwidth, processors)
            if over:
                lines[first] += f", SLOW: {over:.0f} times what {_limit(executable, command)}"
    return "\n".join(lines)


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _touched(executable: Any, command: Any) -> int:
    """Bytes of the slots of a kernel, a copy or a fill."""
    if isinstance(command, c.Launched):
        return sum(executable.sizes[s] for s in dict.fromkeys(command.slots()))
    if isinstance(command, c.Moved):
        return 2 * command.size
    return command.size if isinstance(command, c.Filled) else 0


def _least(executable: Any, command: Any, bandwidth: float, processors: int) -> float:
    """The seconds that the bytes and operations of a kernel take at least."""
    operations = executable.operations.get(id(command), 0)
    return max(_touched(executable, command) / bandwidth, operations / OPERATIONS / processors)


def _over(
    executable: Any, command: Any, took: float, bandwidth: float, processors: int
) -> float | None:
    """How many times as long as it has to a kernel took, if that is often."""
    if not isinstance(command, c.Launched):
        return None
    least = _least(executable, command, bandwidth, processors)
    return took / least if least and took - ALONE > SLOW * least else None


def _limit(executable: Any, command: Any) -> str:
    known = executable.operations.get(id(command), 0)
    return "its bytes and operations allow" if known else "its bytes allow"


def _where(command: Any) -> str:
    found = lines_of(getattr(command, "lines", ()))
    more = f" and {len(found) - MAX_LINES} more" if len(found) > MAX_LINES else ""
    return f"  [{', '.join(found[:MAX_LINES])}{more}]" if found else ""


def _why(command: Any) -> str:
    return f", several kernels per iteration ({command.why})" if command.why else ""


def _tell(
    executable: Any, commands: Sequence[Any], lines: list[str], depth: int, bandwidth: float
) -> None:
    pad = "  " * depth
    for command in commands:
        if isinstance(command, c.Launched):
            touched = _touched(executable, command)
            f = command.function
            shared = _bytes(f.attribute("shared") + f.dynamic)
            lines.append(
                f"{pad}{command.told or 'kernel'}: {command.blocks} blocks of {command.threads},"
                f" {f.attribute('registers')} registers, {shared} shared,"
                f" accesses {_bytes(touched)}, at least {touched / bandwidth * 1e6:.1f} us"
                f"{_where(command)}"
            )
        elif isinstance(command, c.LoopKernel):
            f = command.function
            shared = _bytes(f.attribute("shared") + f.dynamic)
            lines.append(
                f"{pad}loop in one kernel, {command.rounds}: {command.blocks} blocks of"
                f" {command.threads}, {f.attribute('registers')} registers, {shared} shared"
                f"{_where(command)}"
            )
        elif isinstance(command, c.Called):
            lines.append(f"{pad}{command.told}{_where(command)}")
        elif isinstance(command, (c.Moved, c.Filled)):
            word = "copy" if isinstance(command, c.Moved) else "fill"
            lines.append(f"{pad}{word} {_bytes(command.size)}")
        elif isinstance(command, c.OnHost):
            lines.append(f"{pad}{command.eqn.primitive.name} on the host")
        elif isinstance(command, c.LoopedFor):
            lines.append(f"{pad}{command.trips} iterations{_why(command)}:")
        elif isinstance(command, c.LoopedWhile):
            lines.append(f"{pad}while{_why(command)}:")
        elif isinstance(command, c.Branched):
            lines.append(f"{pad}one of {len(command.regions)} branches:")
        for region in c.regions_of(command):
            _tell(executable, region, lines, depth + 1, bandwidth)


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
            parts=None if self.executable is None else lambda: picture.parts(self.executable),
        )
