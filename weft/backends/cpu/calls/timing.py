"""Programs run with the time of each kernel, for ``explain`` and for traces.

The table of a program is written a second time, with a native function around each launch that
reads the clock. The program itself stays as it is, so calls that nobody measures cost nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from weft.backends.cpu.assembly import Python, Run
from weft.backends.cpu.calls.slowly import Walk
from weft.backends.llvm.calls import timing_stubs as t
from weft.backends.llvm.calls.dispatch import address, native
from weft.backends.llvm.code import RANGE, Effort, Function, Module
from weft.backends.llvm.native import loader
from weft.backends.llvm.native.compiling import compile_now
from weft.backends.llvm.native.machine import load_stubs
from weft.base.functional import lru
from weft.kernel.program import Copy, Slot, with_regions

_SOURCES = (
    "weft.backends.llvm.native.float_mode",
    "weft.kernel.kinds",
    "weft.backends.llvm.text.stub_expressions",
    "weft.backends.llvm.text.stub",
    "weft.backends.llvm.native.capi",
    "weft.backends.llvm.calls.timing_stubs",
)


# A function of a loop, called with a clock around it.
def _inner(number: int, summed: int, record: int) -> Function:
    lines = (
        f"  %summed = inttoptr i64 {summed} to ptr",
        f"  %record = inttoptr i64 {record} to ptr",
        "  call void %summed(ptr %record, ptr %buffers, i64 %start, i64 %stop)",
        "  ret void",
    )
    return Function(f"inner_{number}", RANGE, lines)


@lru(1)
def _code() -> Any:
    return load_stubs(_SOURCES, {"CLOCK": time.CLOCK_MONOTONIC}, brief=True)


# Takes the number of a node, and when it began and ended.
Note = Callable[[int, int, int], None]


class Timed:
    """A program with a clock around each launch, copy and call of Python.

    ``numbers`` are those of its nodes, by their ``id``. Times go to the ``log`` and, of calls of
    Python, to ``note``; without them they are summed up, and so are those of ``inner`` functions
    that loops call, by the numbers of their code.
    """

    def __init__(
        self,
        executable: Any,
        numbers: Mapping[int, int],
        log: np.ndarray | None = None,
        note: Note | None = None,
        inner: Collection[int] = (),
    ) -> None:
        self.records: dict[int, np.ndarray] = {}
        self.codes: dict[int, np.ndarray] = {}  # records of inner functions
        self.by_python: dict[int, list[int]] = {}  # nanoseconds and calls, by number
        self._numbers = numbers
        self._log = log
        self._plan, self._code = executable.plan, dict(executable.code)
        self._own = len(self._plan.codes)
        self._code[self._own] = _code().symbols["weft_timed"]
        self._slots, self._constants = list(self._plan.slots), list(self._plan.constants)
        self._constants.append(log)  # which lives as long as a call that writes to it
        self._hosts: dict[int, int] = {}
        nodes = self._region(self._plan.nodes)
        self._time_inner(inner)
        plan = self._plan._replace(
            nodes=nodes,
            slots=self._slots,
            constants=self._constants,
            offsets=[*self._plan.offsets, *[0] * (len(self._slots) - len(self._plan.slots))],
        )
        made = self.executable = copy.copy(executable)
        made.plan, made.code, made.call, made.elsewhere = plan, self._code, None, {}
        made.host = _TimedHosts(executable.host, self._hosts, note or self._add)
        made.slowly = Walk(plan, made.code, made.out_avals, made.host, made.flushes)
        made.asked = 1
        native(wait=True)

    def __call__(self, args: Any) -> list[Any]:
        return self.executable(args)

    def reset(self) -> None:
        """Reset the sums."""
        for record in (*self.records.values(), *self.codes.values()):
            record[[t.TOTAL, t.COUNT]] = 0
        self.by_python.clear()

    def times(self) -> dict[int, tuple[float, int]]:
        """Seconds and launches by number, since the last reset."""
        found = {n: (int(r[t.TOTAL]) / 1e9, int(r[t.COUNT])) for n, r in self.records.items()}
        return found | {n: (spent / 1e9, runs) for n, (spent, runs) in self.by_python.items()}

    def inner_times(self) -> dict[int, tuple[float, int]]:
        """Seconds and calls of inner functions by the numbers of their code."""
        return {c: (int(r[t.TOTAL]) / 1e9, int(r[t.COUNT])) for c, r in self.codes.items()}

    def _time_inner(self, inner: Collection[int]) -> None:
        """Have loops call functions that time the inner ones: each knows the address of one."""
        called = {slot.what for slot in self._slots if slot.role == "code"}
        functions = []
        for code in sorted(called.intersection(inner)):
            record = self.codes[code] = np.zeros(t.RECORD_WORDS, np.uint64)
            record[t.FUNCTION] = int(self._code[code])
            functions.append(_inner(code, _code().symbols["weft_summed"], address(record)))
        if functions:
            self._made = loader.load(compile_now(Module(functions, effort=Effort.BRIEF)))
            for code in self.codes:
                self._code[self._own + 1 + code] = self._made.symbols[f"inner_{code}"]
            self._constants += [self._made, *self.codes.values()]  # they live as long as a call
            for i, slot in enumerate(self._slots):
                if slot.role == "code" and slot.what in self.codes:
                    self._slots[i] = slot._replace(what=self._own + 1 + slot.what)

    def _add(self, number: int, begin: int, end: int) -> None:
        found = self.by_python.setdefault(number, [0, 0])
        found[0] += end - begin
        found[1] += 1

    def _region(self, nodes: Any) -> tuple[Any, ...]:
        return tuple([self._node(node) for node in nodes])

    def _node(self, node: Any) -> Any:
        if isinstance(node, Run):
            function = int(self._code[node.code])
            slots = (self._record(node, function), *node.slots)
            return node._replace(code=self._own, slots=slots)
        if isinstance(node, Copy):
            slots = (self._record(node, 0), node.target, node.source)
            return Run(self._own, slots, node.size, max(node.size, 1))
        if isinstance(node, Python):
            self._hosts[node.number] = self._numbers[id(node)]
            return node
        return with_regions(node, self._region)

    def _record(self, node: Any, function: int) -> int:
        """The slot of a new record."""
        number = self._numbers[id(node)]
        record = self.records[number] = np.zeros(t.RECORD_WORDS, np.uint64)
        record[t.FUNCTION], record[t.NUMBER] = function, number
        record[t.LOG] = 0 if self._log is None else address(self._log)
        self._constants.append(record)
        self._slots.append(Slot("const", record.nbytes, len(self._constants) - 1))
        return len(self._slots) - 1


class _TimedHosts:
    """Calls of Python with the time of each; ``numbers`` gives the number of the node."""

    def __init__(self, hosts: Any, numbers: Mapping[int, int], note: Note) -> None:
        self.hosts, self.numbers, self.note = hosts, numbers, note

    def __call__(self, number: int, where: int) -> None:
        begin = time.perf_counter_ns()
        self.hosts(number, where)
        self.note(self.numbers[number], begin, time.perf_counter_ns())


# --- measuring ------------------------------------------------------------------------------------

# How often a measured program runs: at least, at most, and for how long.
MIN_RUNS, MAX_RUNS, RUN_SECONDS = 3, 20, 0.3


Times = dict[int, tuple[float, int]]


def measure(
    executable: Any, args: Any, numbers: Mapping[int, int], inner: Collection[int]
) -> tuple[Times, Times, float]:
    """The least seconds of each node and of the ``inner`` functions that loops call, by code, over
    several runs, with its launches in a run; and the least of a whole call. A program with effects
    runs once, and its call is that with the clocks.

    Nodes and inner functions are timed in different runs: a clock inside a loop adds to its time.
    """
    timed, within = Timed(executable, numbers), Timed(executable, numbers, inner=inner)
    once = any(host.eqn.effects for host in executable.plan.hosts)
    best: Times = {}
    inside: Times = {}
    whole = float("inf")
    deadline = time.perf_counter() + RUN_SECONDS
    for number in range(MAX_RUNS):
        timed.reset()
        began = time.perf_counter()
        timed(args)
        ended = time.perf_counter()
        for node, found in timed.times().items():
            best[node] = min(found, best.get(node, found))
        if once:
            return best, inside, ended - began
        executable(args)
        whole = min(whole, time.perf_counter() - ended)
        if within.codes:
            within.reset()
            within(args)
            for code, found in within.inner_times().items():
                inside[code] = min(found, inside.get(code, found))
        if number + 1 >= MIN_RUNS and ended > deadline:
            break
    return best, inside, whole
