"""What a program does on a GPU, as text: its commands with their blocks, threads and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import commands as c


def story(executable: Any, times: Sequence[float] | None = None, bandwidth: float = 4.3e12) -> str:
    """A line for each command, with the milliseconds that were measured, if they were;
    ``bandwidth`` is what the memory gives, in bytes a second."""
    count, way = c.length(executable.commands), "command by command"
    if executable.capturable:
        way = "as a graph"
    lines = [f"{count} commands {way}, arena {_bytes(executable.arena)}"]
    for i, command in enumerate(executable.commands):
        first = len(lines)
        _tell(executable, [command], lines, 1, bandwidth)
        if times is not None and len(lines) > first:
            lines[first] += f", took {1e3 * times[i]:.1f} us"
    return "\n".join(lines)


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _tell(
    executable: Any, commands: Sequence[Any], lines: list[str], depth: int, bandwidth: float
) -> None:
    pad = "  " * depth
    for command in commands:
        if isinstance(command, c.Launched):
            touched = sum(executable.sizes[s] for s in dict.fromkeys(command.slots()))
            f = command.function
            shared = _bytes(f.attribute("shared") + f.dynamic)
            lines.append(
                f"{pad}{command.told or 'kernel'}: {command.blocks} blocks of {command.threads},"
                f" {f.attribute('registers')} registers, {shared} shared,"
                f" touches {_bytes(touched)}, at least {touched / bandwidth * 1e6:.1f} us"
            )
        elif isinstance(command, c.Called):
            lines.append(f"{pad}{command.told}")
        elif isinstance(command, (c.Moved, c.Filled)):
            word = "copy" if isinstance(command, c.Moved) else "fill"
            lines.append(f"{pad}{word} {_bytes(command.size)}")
        elif isinstance(command, c.OnHost):
            lines.append(f"{pad}{command.eqn.primitive.name} on the host")
        elif isinstance(command, c.LoopedFor):
            lines.append(f"{pad}{command.trips} times:")
        elif isinstance(command, c.LoopedWhile):
            lines.append(f"{pad}while:")
        elif isinstance(command, c.Branched):
            lines.append(f"{pad}one of {len(command.regions)}:")
        for region in c.regions_of(command):
            _tell(executable, region, lines, depth + 1, bandwidth)
