"""Loops that are not small as native functions: kernels called by address, views in variables.

Nobody walks the nodes of such a loop then, neither the walker nor, before that is there, Python.
Where work is shared with other threads or done by Python, a loop stays nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cpu.assembly import Run
from weft.backends.cpu.code.loop_text import Text, numbered
from weft.backends.cpu.native.llvm import QUICK
from weft.backends.cpu.native.processor import counter
from weft.base.record import Record
from weft.base.sizes import Size, plain
from weft.kernel.program import Branch, Copy, For, Point, Slot, Swap, While, all_nodes

# Rounds that loops inside may have for one of the outermost, which is not interrupted.
MAX_UNINTERRUPTED_ROUNDS = 1 << 10


class CallsText(Record):
    """A loop's function; the slots and the native functions whose pointers it takes, in this order
    after progress and flag."""

    text: str
    externals: tuple[int, ...]
    codes: tuple[int, ...]
    sizes: tuple[int, ...] = ()  # a table that it reads, its last buffer


def render_calls(node: Any, slots: Sequence[Slot], general: bool = False) -> CallsText | None:
    """The function of a loop that calls its kernels, or None where nodes have to be walked.

    Its buffers are: the number of rounds done (i64), the flag (i8), the externals, the kernels.
    """
    nodes = [*getattr(node, "condition", ()), *node.body]
    if not all(_plain(x, MAX_UNINTERRUPTED_ROUNDS) for x in nodes):
        return None
    return Calls(slots, general).run(node)


def _plain(node: Any, rounds: int) -> bool:
    """Whether a node is soon done, by this thread alone and without Python."""
    if isinstance(node, Run):
        return plain(node.extent) <= plain(node.chunk)
    if isinstance(node, For):
        inside = plain(rounds) // max(1, plain(node.trips))
        return inside > 0 and all(_plain(x, inside) for x in node.body)
    if isinstance(node, Branch):
        return all(_plain(x, rounds) for region in node.regions for x in region)
    return isinstance(node, (Copy, Point, Swap))


def _moved(nodes: Sequence[Any]) -> list[int]:
    """Views that nodes make point elsewhere."""
    found: list[int] = []
    for node in all_nodes(nodes):
        if isinstance(node, Point):
            found.append(node.view)
        elif isinstance(node, Swap):
            found += node
        elif isinstance(node, For):
            found += [view for view, _, _ in node.slices]
    return found


class Calls(Text):
    """The text of a loop's function while it is written."""

    def __init__(self, slots: Sequence[Slot], general: bool = False) -> None:
        super().__init__(slots, general)
        self.codes: dict[int, None] = {}
        self.rows: list[str] = []  # what launches are given that stays the same

    def run(self, node: For | While) -> CallsText:
        """The whole function."""
        moved = set(_moved([node]))
        self.fixed = {s: f"%x{s}" for s in range(len(self.slots)) if s not in moved}
        declared, clock, period = counter()
        self.declared[declared] = None
        begin = self.emit(clock)
        swaps = [s for s in node.body if isinstance(s, Swap)]
        done = self.emit("load i64, ptr %p0")
        self.line(f"store i64 {done}, ptr %done")
        self._where(done, "odd", "begin")
        for swap in swaps:  # views are handed over as they were before the first round
            self._swap(swap)
        self.line("br label %begin")
        self.lines.append("begin:")
        now = self.emit("load i64, ptr %done")
        if isinstance(node, For):
            more = self.emit(f"icmp slt i64 {now}, {self.size(node.trips)}")
            self.line(f"br i1 {more}, label %body, label %end")
            self.lines.append("body:")
            self.slices(node, now)
        else:
            self.nodes(node.condition)
            flag = self.emit(f"load i8, ptr {self.pointer(node.flag)}")
            more = self.emit(f"icmp ne i8 {flag}, 0")
            self.line(f"br i1 {more}, label %body, label %end")
            self.lines.append("body:")
        self.nodes(node.body)
        after = self.emit(f"add i64 {now}, 1")
        self.line(f"store i64 {after}, ptr %done")
        spent = self.emit(f"sub i64 {self.emit(clock)}, {begin}")
        late = self.emit(f"icmp ugt i64 {spent}, {period}")
        self.line(f"br i1 {late}, label %out, label %begin")
        self.lines.append("out:")
        self.line(f"store i64 {after}, ptr %p0")
        self.line("store i8 1, ptr %p1")
        self.line("ret void")
        self.lines.append("end:")
        self.line("store i8 0, ptr %p1")
        if (
            isinstance(node, While) or type(node.trips) is Size
        ):  # of unknown length: who comes after reads the first view
            self._where(self.emit("load i64, ptr %done"), "last", "ready")
            for s in swaps:
                self._copy(self.pointer(s.second), self.pointer(s.first), self.slots[s.first].size)
            self.line("br label %ready")
            self.lines.append("ready:")
        return self._closed()

    def _where(self, count: str, odd: str, even: str) -> None:
        """Go on at one of two places, of which the first follows, by the last bit of a number."""
        bit = self.emit(f"trunc i64 {count} to i1")
        self.line(f"br i1 {bit}, label %{odd}, label %{even}")
        self.lines.append(f"{odd}:")

    def _closed(self) -> CallsText:
        head = ["  %done = alloca i64"]
        names = ["p0", "p1", *(f"x{s}" for s in self.used), *(f"f{c}" for c in self.codes)]
        for i, name in enumerate(names):
            head.append(f"  %b{i} = getelementptr ptr, ptr %buffers, i64 {i}")
            head.append(f"  %{name} = load ptr, ptr %b{i}")
        for slot in [s for s in self.used if s not in self.fixed]:
            head += [f"  %s{slot} = alloca ptr", f"  store ptr %x{slot}, ptr %s{slot}"]
        first = "define void @loop(ptr noalias %buffers, i64 %start, i64 %stop) nounwind {"
        text = [*self.declared, first, "entry:", *self.reading(len(names) - 2), *head, *self.rows]
        whole = "\n".join([*text, *self.head, *self.lines, "  ret void", "}", ""])
        whole = QUICK + (numbered(whole) if self.general else whole)
        return CallsText(whole, tuple(self.used), tuple(self.codes), tuple(self.sizes))

    # --- nodes ------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(node, Run):
                self._launch(node)
            elif isinstance(node, Copy):
                self._copy(self.pointer(node.target), self.pointer(node.source), node.size)
            elif isinstance(node, Point):
                self.point(node.view, self.pointer(node.base))
            elif isinstance(node, Swap):
                self._swap(node)
            elif isinstance(node, Branch):
                self.branch(node)
            else:
                assert isinstance(node, For)
                self.rounds(node, "0", self.size(node.trips))

    def _launch(self, node: Run) -> None:
        self.codes[node.code] = None
        self.count += 1
        row = f"%r{self.count}"
        self.rows.append(f"  {row} = alloca [{max(1, len(node.slots))} x ptr]")
        for i, slot in enumerate(node.slots):
            lines = self.rows if slot in self.fixed else self.lines
            value = self.pointer(slot)
            lines.append(f"  {row}.{i} = getelementptr ptr, ptr {row}, i64 {i}")
            lines.append(f"  store ptr {value}, ptr {row}.{i}")
        extent = self.size(node.extent)
        self.line(f"call void %f{node.code}(ptr {row}, i64 0, i64 {extent})")

    def _swap(self, node: Swap) -> None:
        first, second = self.pointer(node.first), self.pointer(node.second)
        self.point(node.first, second)
        self.point(node.second, first)

    def _copy(self, target: str, source: str, size: int) -> None:
        name = "@llvm.memcpy.p0.p0.i64"
        self.declared[f"declare void {name}(ptr, ptr, i64, i1)"] = None
        call = f"call void {name}(ptr {target}, ptr {source}, i64 {self.size(size)}, i1 false)"
        self.line(call)
