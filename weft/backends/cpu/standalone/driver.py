"""The function that runs an assembled program: nodes as instructions, in LLVM's text.

C programs can call three functions. ``NAME(arguments, results)`` works in memory of the library's
own, ``NAME_in(arena, arguments, results)`` in memory of the caller's. ``NAME_set_parallel(run)``
takes a function that shares a loop among threads; without one, loops run in the calling thread. All
arguments and results are pointers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.assembly import Assembly, Run, called, launched
from weft.kernel.program import Branch, Copy, For, Point, Swap, While, all_nodes

ALIGNMENT = 64
# Types of numbers that choose a branch, by their bytes.
_CHOICES = {1: "i8", 4: "i32", 8: "i64"}
# Begins the names of all that other files of a user's program could define as well.
KERNEL = "{}_kernel{}"


class Mode:
    """How a processor takes denormal numbers for zeros: LLVM's functions that read and write its
    mode, and the bits to set."""

    def __init__(self, declared: str, read: Sequence[str], write: Sequence[str]) -> None:
        self.declared, self.read, self.write = declared, read, write


MODES = {
    "aarch64": Mode(
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)\n",
        [
            "%mode = call i64 @llvm.aarch64.get.fpcr()",
            "%flushed = or i64 %mode, 16777216",
            "call void @llvm.aarch64.set.fpcr(i64 %flushed)",
        ],
        ["call void @llvm.aarch64.set.fpcr(i64 %mode)"],
    ),
    "x86_64": Mode(
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n",
        [
            "%mode = alloca i32",
            "%changed = alloca i32",
            "call void @llvm.x86.sse.stmxcsr(ptr %mode)",
            "%word = load i32, ptr %mode",
            "%flushed = or i32 %word, 32832",
            "store i32 %flushed, ptr %changed",
            "call void @llvm.x86.sse.ldmxcsr(ptr %changed)",
        ],
        ["call void @llvm.x86.sse.ldmxcsr(ptr %mode)"],
    ),
}
_NO_MODE = Mode("", [], [])

# Loops in pieces, by the caller's function if there is one.
_LAUNCH = """
@parallel = internal global ptr null
define internal void @launch(ptr %f, ptr %buffers, i64 %extent, i64 %chunk) {
entry:
  %run = load ptr, ptr @parallel
  %none = icmp eq ptr %run, null
  br i1 %none, label %piece, label %shared
shared:
  call void %run(ptr %f, ptr %buffers, i64 0, i64 %extent, i64 %chunk)
  ret void
piece:
  %low = phi i64 [ 0, %entry ], [ %next, %piece ]
  %next = add i64 %low, %chunk
  %stop = call i64 @llvm.smin.i64(i64 %next, i64 %extent)
  call void %f(ptr %buffers, i64 %low, i64 %stop)
  %more = icmp slt i64 %next, %extent
  br i1 %more, label %piece, label %done
done:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def driver(
    plan: Assembly, name: str, arguments: int, sizes: Sequence[int], architecture: str, flush: bool
) -> str:
    """LLVM text that defines the functions of a program; it declares those of kernels.

    ``sizes`` are the bytes of the results.
    """
    mode = MODES.get(architecture, _NO_MODE) if flush else _NO_MODE
    return _Driver(plan, name, arguments, sizes, mode).text()


def libraries(plan: Assembly) -> list[str]:
    """The functions of other libraries that a program calls."""
    return sorted({slot.what for slot in plan.slots if slot.role == "library"})


class _Driver:
    """One text while it is written."""

    def __init__(
        self, plan: Assembly, name: str, arguments: int, sizes: Sequence[int], mode: Mode
    ) -> None:
        self.plan, self.name, self.sizes, self.mode = plan, name, sizes, mode
        self.parameters = [f"%a{i}" for i in range(arguments)]
        self.parameters += [f"%r{i}" for i in range(len(plan.results))]
        self.lines: list[str] = []
        self.count = 0
        self.constants: dict[int, str] = {}

    def text(self) -> str:
        plan, name = self.plan, self.name
        self._begin()
        self._nodes(plan.nodes)
        self._end()
        given = ", ".join(f"ptr {x}" for x in self.parameters)
        inside = ", ".join(["ptr %arena", *[f"ptr {x}" for x in self.parameters]])
        own = ", ".join(["ptr @arena", *[f"ptr {x}" for x in self.parameters]])
        used = sorted(launched(plan.nodes) | called(plan.slots))
        return "".join(
            [
                *[_constant(self.constants[i], plan.constants[i]) for i in sorted(self.constants)],
                (
                    f"@arena = internal global [{max(plan.arena, 1)} x i8] zeroinitializer,"
                    f" align {ALIGNMENT}\n"
                ),
                *[f"declare void @{KERNEL.format(name, i)}(ptr, i64, i64)\n" for i in used],
                *[f"declare void @{f}()\n" for f in libraries(plan)],
                self.mode.declared,
                _LAUNCH,
                (
                    f"define void @{name}_set_parallel(ptr %run) {{\n"
                    "  store ptr %run, ptr @parallel\n  ret void\n}\n"
                ),
                f"define void @{name}_in({inside}) {{\nentry:\n",
                *[f"{line}\n" if line.endswith(":") else f"  {line}\n" for line in self.lines],
                (
                    f"}}\ndefine void @{name}({given}) {{\n"
                    f"  call void @{name}_in({own})\n  ret void\n}}\n"
                ),
            ]
        )

    # --- lines ------------------------------------------------------------------------------------

    def _line(self, line: str) -> None:
        self.lines.append(line)

    def _emit(self, line: str) -> str:
        """A line with a value of its own."""
        self.count += 1
        self._line(f"%v{self.count} = {line}")
        return f"%v{self.count}"

    def _label(self) -> str:
        self.count += 1
        return f"l{self.count}"

    def _slot(self, number: int) -> str:
        """The address of a slot's pointer."""
        return self._emit(f"getelementptr ptr, ptr %env, i64 {number}")

    def _pointer(self, number: int) -> str:
        """Where a slot is."""
        return self._emit(f"load ptr, ptr {self._slot(number)}")

    def _set(self, number: int, pointer: str) -> None:
        self._line(f"store ptr {pointer}, ptr {self._slot(number)}")

    def _copy(self, target: str, source: str, size: int) -> None:
        given = f"ptr {target}, ptr {source}, i64 {size}, i1 false"
        self._line(f"call void @llvm.memcpy.p0.p0.i64({given})")

    # --- parts ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """All pointers that are known before anything runs."""
        plan = self.plan
        widest = max((len(run.slots) for run in _runs(plan.nodes)), default=0)
        self._line(f"%env = alloca [{max(len(plan.slots), 1)} x ptr], align 8")
        self._line(f"%buffers = alloca [{max(widest, 1)} x ptr], align 8")
        for line in self.mode.read:
            self._line(line)
        results = {r.number: i for i, r in enumerate(plan.results) if r.kind == "slot"}
        for number, slot in enumerate(plan.slots):
            if slot.role == "arg":
                self._set(number, f"%a{slot.what}")
            elif slot.role == "const":
                self._set(number, self._data(slot.what))
            elif slot.role == "library":
                self._set(number, f"@{slot.what}")
            elif slot.role == "code":
                self._set(number, f"@{KERNEL.format(self.name, slot.what)}")
            elif slot.role == "temp" and number not in results:
                place = f"getelementptr i8, ptr %arena, i64 {plan.offsets[number]}"
                self._set(number, self._emit(place))
        for number, i in results.items():
            self._set(number, f"%r{i}")

    def _data(self, number: int) -> str:
        """The name of a constant."""
        self.constants[number] = f"constant{number}"
        return f"@constant{number}"

    def _end(self) -> None:
        """Results that are nothing new, and the mode of the caller again."""
        for i, ((kind, number), size) in enumerate(zip(self.plan.results, self.sizes, strict=True)):
            if kind == "slot" or size == 0:
                continue
            source = {"const": self._data, "same": "%r{}".format}.get(kind, "%a{}".format)(number)
            if kind != "taken":
                self._copy(f"%r{i}", source, size)
                continue
            # the caller may give the same memory for both
            apart, done = self._label(), self._label()
            same = self._emit(f"icmp eq ptr %r{i}, {source}")
            self._line(f"br i1 {same}, label %{done}, label %{apart}")
            self._line(f"{apart}:")
            self._copy(f"%r{i}", source, size)
            self._line(f"br label %{done}")
            self._line(f"{done}:")
        for line in self.mode.write:
            self._line(line)
        self._line("ret void")

    def _nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(node, Run):
                self._run(node)
            elif isinstance(node, Copy):
                self._copy(self._pointer(node.target), self._pointer(node.source), node.size)
            elif isinstance(node, Point):
                self._set(node.view, self._pointer(node.base))
            elif isinstance(node, Swap):
                first, second = self._pointer(node.first), self._pointer(node.second)
                self._set(node.first, second)
                self._set(node.second, first)
            elif isinstance(node, Branch):
                self._branch(node)
            elif isinstance(node, While):
                self._while(node)
            else:
                assert isinstance(node, For)
                self._for(node)

    def _run(self, node: Run) -> None:
        for i, slot in enumerate(node.slots):
            place = self._emit(f"getelementptr ptr, ptr %buffers, i64 {i}")
            self._line(f"store ptr {self._pointer(slot)}, ptr {place}")
        kernel = f"@{KERNEL.format(self.name, node.code)}"
        if node.extent <= node.chunk:
            self._line(f"call void {kernel}(ptr %buffers, i64 0, i64 {node.extent})")
        else:
            given = f"ptr {kernel}, ptr %buffers, i64 {node.extent}, i64 {node.chunk}"
            self._line(f"call void @launch({given})")

    def _branch(self, node: Branch) -> None:
        kind = _CHOICES[node.size]
        chosen = self._emit(f"load {kind}, ptr {self._pointer(node.choice)}")
        last = len(node.regions) - 1
        labels, done = [self._label() for _ in node.regions], self._label()
        if node.size > 1:  # the first region is for all numbers below 0
            negative = self._emit(f"icmp slt {kind} {chosen}, 0")
            chosen = self._emit(f"select i1 {negative}, {kind} 0, {kind} {chosen}")
        cases = " ".join(f"{kind} {i}, label %{labels[i]}" for i in range(last))
        self._line(f"switch {kind} {chosen}, label %{labels[last]} [ {cases} ]")
        for label, region in zip(labels, node.regions, strict=True):
            self._line(f"{label}:")
            self._nodes(region)
            self._line(f"br label %{done}")
        self._line(f"{done}:")

    def _while(self, node: While) -> None:
        again, body, done = self._label(), self._label(), self._label()
        self._line(f"br label %{again}")
        self._line(f"{again}:")
        self._nodes(node.condition)
        flag = self._emit(f"load i8, ptr {self._pointer(node.flag)}")
        more = self._emit(f"icmp ne i8 {flag}, 0")
        self._line(f"br i1 {more}, label %{body}, label %{done}")
        self._line(f"{body}:")
        self._nodes(node.body)
        self._line(f"br label %{again}")
        self._line(f"{done}:")

    def _for(self, node: For) -> None:
        again, body, done = self._label(), self._label(), self._label()
        counter = f"%t{again}"
        # beside the other variables: a loop in a loop would take more of the stack each time
        self.lines.insert(0, f"{counter} = alloca i64, align 8")
        self._line(f"store i64 0, ptr {counter}")
        self._line(f"br label %{again}")
        self._line(f"{again}:")
        trip = self._emit(f"load i64, ptr {counter}")
        more = self._emit(f"icmp slt i64 {trip}, {node.trips}")
        self._line(f"br i1 {more}, label %{body}, label %{done}")
        self._line(f"{body}:")
        now = self._emit(f"sub i64 {node.trips - 1}, {trip}") if node.reverse else trip
        for view, base, size in node.slices:
            offset = self._emit(f"mul i64 {now}, {size}")
            place = f"getelementptr i8, ptr {self._pointer(base)}, i64 {offset}"
            self._set(view, self._emit(place))
        self._nodes(node.body)
        self._line(f"store i64 {self._emit(f'add i64 {trip}, 1')}, ptr {counter}")
        self._line(f"br label %{again}")
        self._line(f"{done}:")


def _runs(nodes: Any) -> list[Run]:
    return [node for node in all_nodes(nodes) if isinstance(node, Run)]


def _constant(name: str, value: Any) -> str:
    """The text of a constant: an array, or a row of 64-bit numbers."""
    array = np.asarray(value, np.int64) if type(value) is tuple else np.ascontiguousarray(value)
    data = array.tobytes() or b"\0"
    written = "".join([f"\\{byte:02X}" for byte in data])
    return f'@{name} = internal constant [{len(data)} x i8] c"{written}", align {ALIGNMENT}\n'
