"""What GPUs did while a trace was taken, with the lines of the user's code that asked for it.

CUPTI tells of kernels, those of graphs too. Where it isn't installed, commands are run one by one
with events around each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import commands as c
from weft.backends.cuda import cupti, driver, libraries
from weft.backends.cuda.cupti import Activity
from weft.base import events, source
from weft.base.functional import WeakMembers, lru

# Programs that there are, whose kernels are found by their names.
programs = WeakMembers()
# What times commands while a trace is taken without CUPTI.
timed: Timed | None = None


@lru(1)
def recorder() -> cupti.Recorder:
    """CUPTI's, which takes callbacks once."""
    return cupti.Recorder()


class Timed:
    """Commands with events around each."""

    def __init__(self) -> None:
        self.stream = driver.device().stream
        self.found: list[tuple[Any, Any, Any]] = []
        self.first = driver.timed_event()
        driver.record(self.first, self.stream)
        driver.synchronize()
        self.began = time.perf_counter_ns()

    def run(self, addresses: list[int], commands: Sequence[Any], stream: Any) -> None:
        """Run commands; those of other GPUs aren't timed, as their events can't be compared."""
        if stream is self.stream:
            _TimedState(addresses, stream, self.found).run(commands)
        else:
            c.State(addresses, stream).run(commands)

    def stop(self) -> list[Activity]:
        driver.synchronize()
        made = [self._activity(*found) for found in self.found]
        for event in {id(e): e for _, *pair in self.found for e in pair}.values():
            driver.destroy_event(event)
        driver.destroy_event(self.first)
        return made

    def _activity(self, command: Any, before: Any, after: Any) -> Activity:
        begin, end = (
            self.began + int(1e6 * driver.elapsed(self.first, event)) for event in (before, after)
        )
        kind = _KINDS[type(command)]
        details: dict[str, Any] = {}
        if isinstance(command, (c.Launched, c.LoopKernel)):
            details = {"blocks": command.blocks, "threads": command.threads}
        elif isinstance(command, (c.Moved, c.Filled)):
            details = {"bytes": command.size}
        return Activity(kind, _name(command), begin, end, 0, details | _where(command))


_KINDS = {
    c.Launched: "kernel",
    c.LoopKernel: "kernel",
    c.Called: "library",
    c.Moved: "copy",
    c.Filled: "fill",
    c.OnHost: "host",
}


class _TimedState(c.State):
    """Where slots are, for commands that are timed."""

    def __init__(self, addresses: list[int], stream: Any, found: list[Any]) -> None:
        super().__init__(addresses, stream)
        self.found = found

    def run(self, commands: Sequence[Any]) -> None:
        for command in commands:
            if type(command) not in _KINDS:
                command.run(self)
                continue
            before, after = driver.timed_event(), driver.timed_event()
            driver.record(before, self.stream)
            command.run(self)
            driver.record(after, self.stream)
            self.found.append((command, before, after))


def _name(command: Any) -> str:
    if isinstance(command, c.OnHost):
        return str(command.eqn.primitive.name)
    return getattr(command, "told", "") or _KINDS[type(command)]


def lines_of(infos: Sequence[Any]) -> list[str]:
    """Places in the user's code as text."""
    found = dict.fromkeys(source.summarize(info) for info in infos)
    return [text for text in found if text != "<unknown>"]


def _where(command: Any) -> dict[str, str]:
    infos = getattr(command, "lines", ())
    if isinstance(command, c.OnHost):
        infos = (command.eqn.source_info,)
    found = {"lines": lines_of(infos), "scopes": source.scopes(infos)}
    return {key: ", ".join(texts) for key, texts in found.items() if texts}


class Table:
    """Whose kernels are whose: lines by a kernel's name, and the calls of libraries that come
    after it, whose kernels have names of their own."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[str, None]] = {}
        self.scopes: dict[str, dict[str, None]] = {}
        self.calls: dict[str, dict[str, None]] = {}
        self.of_calls: dict[str, dict[str, None]] = {}
        for program in programs:
            before = ""
            for command in c.leaves(program.commands):
                if isinstance(command, (c.Launched, c.LoopKernel)):
                    before = command.function.name
                    own = self.lines.setdefault(before, {})
                    own.update(dict.fromkeys(lines_of(command.lines)))
                    names = self.scopes.setdefault(before, {})
                    names.update(dict.fromkeys(source.scopes(command.lines)))
                elif isinstance(command, c.Called):
                    self.calls.setdefault(before, {})[command.told] = None
                    own = self.of_calls.setdefault(command.told, {})
                    own.update(dict.fromkeys(lines_of(command.lines)))
                    names = self.scopes.setdefault(command.told, {})
                    names.update(dict.fromkeys(source.scopes(command.lines)))

    def _calls(self, before: str) -> dict[str, None]:
        """Calls that may come after a kernel of ours: if none does, those that begin programs."""
        return self.calls.get(before) or self.calls.get("", {})

    def told(self, activities: list[Activity]) -> list[Activity]:
        """Activities with the user's lines among their details."""
        before: dict[Any, str] = {}  # the last kernel of ours, by GPU and stream
        found = []
        for a in activities:
            details, scopes = dict(a.details), self.scopes.get(a.name, {})
            if a.kind == "kernel" and a.name in self.lines:
                before[a.device, a.stream] = a.name
                lines = self.lines[a.name]
            else:
                calls = (
                    self._calls(before.get((a.device, a.stream), "")) if a.kind == "kernel" else {}
                )
                lines = {}
                if len(calls) == 1:
                    (call,) = calls
                    details["call"], lines = call, self.of_calls[call]
                    scopes = self.scopes[call]
            if lines:
                details["lines"] = ", ".join(lines)
            if lines and scopes:
                details["scopes"] = ", ".join(scopes)
            found.append(a._replace(details=details))
        return found


class Tracer:
    """The GPUs of this process, for traces."""

    def start(self) -> None:
        global timed
        driver.device().use()
        driver.synchronize()
        if libraries.has("cupti"):
            recorder().start()
        else:
            timed = Timed()

    def stop(self) -> list[tuple[str, list[Activity]]]:
        """The name of each GPU, and what it has done since, in order."""
        global timed
        driver.synchronize_all()
        if timed is not None:
            mine, timed = timed, None
            found = mine.stop()
        else:
            found = Table().told(recorder().stop())
        numbers = sorted({0, *(a.device for a in found)})
        return [(f"/device:GPU:{n}", [a for a in found if a.device == n]) for n in numbers]


@lru(1)
def announce() -> None:
    """Have traces tell of GPUs."""
    events.add_device(Tracer())
