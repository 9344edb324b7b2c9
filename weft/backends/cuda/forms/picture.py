"""The parts of a program on a GPU, for pictures of it: its commands, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import commands as c
from weft.base.source import SourceInfo
from weft.runtime.drawing import Part, Value

# Calls of libraries that carry messages begin with these words.
_MESSAGES = ("all_", "psum", "ppermute", "reduce_scatter", "nccl", "broadcast")


def parts(executable: Any) -> tuple[Part, ...]:
    """A part for each command; times if they were measured, in milliseconds a command."""
    times = executable.times or [None] * len(executable.commands)
    lanes = [step.lane for step in executable.lanes or ()] or [0] * len(executable.commands)
    drawn = _Drawn(executable)
    return tuple(
        [
            part._replace(seconds=None if took is None else took / 1e3, track=lane)
            for command, took, lane in zip(executable.commands, times, lanes, strict=True)
            for part in drawn.parts([command])
        ]
    )


class _Drawn:
    """Commands on their way to parts, which know what has been written before them."""

    def __init__(self, executable: Any) -> None:
        self.executable = executable
        self.written = {n for n, role in enumerate(executable.roles) if role in ("arg", "const")}

    def value(self, slot: int) -> Value:
        slots = self.executable.program.slots
        what: Any = slots[slot].what if slot < len(slots) else None
        size = self.executable.sizes[slot]
        known = what.str_short(True) if hasattr(what, "str_short") else f"{size} bytes"
        return Value(slot, known, size)

    def parts(self, commands: Sequence[Any]) -> list[Part]:
        return [self.part(command) for command in commands]

    def part(self, command: Any) -> Part:
        used = [s for s in dict.fromkeys(command.slots()) if s < len(self.executable.sizes)]
        ins = [s for s in used if s in self.written]
        outs = [s for s in used if s not in self.written]
        self.written.update(outs)
        # what a command changes in place is among what it reads: the last one is its result
        outs = outs or ins[-1:]
        regions = [region for region in c.regions_of(command) if region]
        inner = [part for region in regions for part in self.parts(region)]
        name, kind = _kind(command)
        sizes = [[self.executable.sizes[s] for s in row] for row in (ins, outs)]
        return Part(
            name,
            kind,
            getattr(command, "told", "") or name,
            tuple(map(self.value, ins)),
            tuple(map(self.value, outs)),
            _places(command),
            float(sum(sizes[0])),
            float(sum(sizes[1])),
            float(self.executable.operations.get(id(command), 0)),
            rounds=getattr(command, "trips", 0 if isinstance(command, c.LoopedWhile) else 1),
            details=_details(command),
            inner=tuple(inner),
        )


def _kind(command: Any) -> tuple[str, str]:
    """The name of a command, and of what sort it is."""
    if isinstance(command, c.Launched):
        return "kernel", "kernel"
    if isinstance(command, (c.LoopKernel, c.LoopedFor, c.LoopedWhile)):
        return "loop", "loop"
    if isinstance(command, c.Branched):
        return "branch", "branch"
    if isinstance(command, c.Called):
        is_message = command.told.lower().startswith(_MESSAGES)
        return ("message", "message") if is_message else ("library", "library")
    return ("host", "python") if isinstance(command, c.OnHost) else ("copy", "copy")


def _details(command: Any) -> tuple[str, ...]:
    if isinstance(command, (c.Launched, c.LoopKernel)):
        return (f"{command.blocks} blocks of {command.threads} threads",)
    return ()


def _places(command: Any) -> tuple[tuple[str, int, str, float], ...]:
    infos = (
        (command.eqn.source_info,)
        if isinstance(command, c.OnHost)
        else getattr(command, "lines", ())
    )
    found = dict.fromkeys(
        (info.file, info.line(), info.function)
        for info in infos
        if isinstance(info, SourceInfo) and info.file
    )
    return tuple([(*key, 1.0) for key in found])
