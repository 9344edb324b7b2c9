"""Kernels of programs that run while a trace is taken: when, in which thread, for which lines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.backends.cpu.assembly import Python, Run
from weft.backends.cpu.assembly_text import name_of
from weft.backends.cpu.calls.timing import Timed
from weft.backends.cpu.story import Story
from weft.backends.llvm.calls import timing_stubs as t
from weft.base import events
from weft.base.record import Record
from weft.compiler.watch import Watch
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.program import Copy, all_nodes
from weft.runtime.code import CODE

# Pieces of kernels that a trace holds; memory for them is taken as they come.
MAX_ROWS = 1 << 21
# Nanoseconds between two pieces of a kernel up to which they are shown as one.
MAX_GAP_NS = 5000


# The executable of a program that a watch takes notes of.
Make = Callable[[Watch], Any]


class Activity(Record):
    """Something that a thread did."""

    kind: str
    name: str
    begin: int
    end: int
    stream: int
    details: dict[str, Any]


class Source:
    """The kernels of one trace: what each number in the log stands for, and the log."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.python: list[tuple[int, int, int, int]] = []  # number, thread, begin, end
        self.programs: dict[Any, tuple[ClosedJaxpr, Any]] = {}
        self.log = np.zeros(t.LOG_WORDS + MAX_ROWS * t.ROW_WORDS, np.int64)
        self.log[t.ROOM] = MAX_ROWS

    def executable(self, closed: ClosedJaxpr, key: Any, make: Make) -> Any:
        """A program that notes its kernels; None where it has none."""
        place = id(closed), key
        found = self.programs.get(place)
        if found is None:
            with self.lock:
                found = self.programs.get(place)
                if found is None:
                    found = self.programs[place] = (closed, self._made(closed, key, make))
        return found[1]

    def _made(self, closed: ClosedJaxpr, key: Any, make: Make) -> Any:
        kind = "instrument" if CODE.get(closed, key) else "compile"
        began, watch = events.begin_making(), Watch(closed)
        made = make(watch)
        if made is not None:
            story = Story(watch, made.plan)
            made = Timed(made, self._numbers(story, closed), self.log, self._note).executable
            made.settle()
        events.end_making(began, kind, name_of(closed), equations=len(closed.eqns))
        return made

    def _numbers(self, story: Story, closed: ClosedJaxpr) -> dict[int, int]:
        """Numbers for the nodes of a program, by ``id``."""
        owners, numbers = story.owners(), {}
        # The program of a single operation serves any line that asks for it.
        of_user = closed.debug_info is not None and closed.debug_info.function is not None
        shared = not of_user and len(closed.eqns) == 1 and not closed.eqns[0].primitive.nodes
        for node in all_nodes(story.program.nodes):
            if not isinstance(node, (Run, Copy, Python)):
                continue
            told = owners.get(id(node))
            details: dict[str, Any] = {"function": story.name}
            if told is not None:
                lines = [] if shared else [line for line in told.lines if line != "<unknown>"]
                details |= {"lines": ", ".join(lines)} if lines else {}
                scopes = [] if shared else told.scopes
                details |= {"scopes": ", ".join(scopes)} if scopes else {}
                alone = sum(isinstance(n, Run) for n in all_nodes(told.nodes)) == 1
                details |= {"bytes": int(told.moved)} if alone and not told.inner else {}
            name = "kernel" if told is None else f"{told.name}: {', '.join(told.primitives)}"
            if isinstance(node, Run):
                details["code"] = story.program.codes[node.code][1]
            elif isinstance(node, Copy):
                name, details["bytes"] = f"copy ({name})", 2 * node.size
            numbers[id(node)] = len(self.told)
            self.told.append((name, details))
        return numbers

    def _note(self, number: int, begin: int, end: int) -> None:
        self.python.append((number, threading.get_ident(), begin, end))

    def stop(self) -> list[Activity]:
        """What was done, by thread; pieces of one launch in a row are one."""
        written = int(self.log[t.WRITTEN])
        count = min(written, MAX_ROWS)
        rows = self.log[t.LOG_WORDS :][: count * t.ROW_WORDS].reshape(count, t.ROW_WORDS)
        rows = rows[rows[:, t.END] != 0]  # else somebody is still writing it
        found = self._activities(rows[np.argsort(rows[:, t.BEGIN], kind="stable")].tolist())
        for number, thread, begin, end in self.python:
            name, details = self.told[number]
            found.append(Activity("kernel", name, begin, end, thread, details))
        if written > MAX_ROWS:
            last = max(a.end for a in found)
            lost = {"lost": written - MAX_ROWS}
            found.append(Activity("kernel", "kernels not noted", last, last, found[0].stream, lost))
        return found

    def _activities(self, rows: list[list[int]]) -> list[Activity]:
        found: list[Activity] = []
        launches: dict[int, int] = {}
        last: dict[int, tuple[Any, int]] = {}  # what a thread did last, and where it is listed
        for what, thread, begin, end in rows:
            number = what // 2
            launches[number] = launches.get(number, 0) + what % 2
            this = number, launches[number]
            before, at = last.get(thread, (None, 0))
            if before == this and begin - found[at].end <= MAX_GAP_NS:
                piece = found[at]
                details = {**piece.details, "pieces": piece.details.get("pieces", 1) + 1}
                found[at] = piece._replace(end=end, details=details)
            else:
                name, details = self.told[number]
                last[thread] = this, len(found)
                found.append(Activity("kernel", name, begin, end, thread, details))
        return found


def traced(kernels: events.Kernels, closed: ClosedJaxpr, key: Any, make: Make) -> Any:
    """The executable of a program that notes its kernels for a trace; None where it has none.

    It is kept under ``key`` outside of traces; ``make`` gives it with notes of how it was made.
    """
    if kernels.source is None:
        kernels.source = Source()
    return kernels.source.executable(closed, key, make)
