"""Small loops as one native function: kernels inlined, values that go round in registers.

The kernels of a loop's body become functions of one module, called from a loop around them; LLVM's
optimiser inlines them and keeps memory that nothing else sees in registers. A function does so
many rounds and returns, so that a long loop can be interrupted; it says by a flag whether there
are more to do, and keeps the number of those done. Where it returns from inside of a loop of
unknown length, it keeps all values as well, and goes on there when it is called again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from weft.backends.cpu.assembly import Python, Run
from weft.backends.cpu.native.llvm import LOOP
from weft.backends.cpu.sizes import read_sizes
from weft.base.record import Record
from weft.base.sizes import Size, plain
from weft.kernel.program import Branch, Copy, For, Point, Slot, Swap, While

# Bytes that the body of a small loop may touch in memory of its own, and nodes it may have.
BYTES, NODES = 4096, 64
# Bytes of a constant of a loop up to which it is copied: what rounds write is then known to be
# other memory, and it may stay in registers.
STEADY = 512
# Bytes of values that are no arrays, and so are the same in loops over arrays of other sizes.
SCALAR_BYTES = 16
# Lines of text that a round may run, in loops inside: some hundredths of a second.
ROUND = 1 << 24
# Lines of text run between two looks at signals: some hundredths of a second if they are slow.
LINES_PER_POLL = 1 << 24

_DEFINE = re.compile(r"define (?:internal )?void @(\w+)\(")


class LoopText(Record):
    """A loop's function, and the slots whose pointers it takes after progress and flag.

    Progress is the number of rounds done, then the number of the loop to go on in, then so many
    bytes for values. It begins as zeros. ``sizes`` is a table that it reads, its last buffer.
    """

    text: str
    externals: tuple[int, ...]
    room: int = 0
    sizes: tuple[int, ...] = ()


def render_loop(
    node: Any,
    slots: Sequence[Slot],
    codes: Sequence[tuple[str, str]],
    inside: int,
    general: bool = False,
) -> LoopText | None:
    """The function of a loop, or None where it is not small. Slots from ``inside`` on are its own.

    Its buffers are: progress, the flag (i8), then the externals. One that is to do for arrays of
    other sizes too is small if all its values are single numbers.
    """
    found = Survey(slots, codes, inside, general)
    if not found.small(node):
        return None
    return Writer(slots, codes, inside, found, general).run(node)


class Survey:
    """What a loop is made of."""

    def __init__(
        self,
        slots: Sequence[Slot],
        codes: Sequence[tuple[str, str]],
        inside: int,
        general: bool = False,
    ) -> None:
        self.slots = slots
        self.codes = codes
        self.inside = inside
        self.general = general
        self.used: dict[int, None] = {}
        self.called: dict[int, None] = {}
        self.bases: set[int] = set()
        self.sliced: set[int] = set()  # views of slices
        self.points: dict[int, set[int]] = {}  # other views, and what they are made to point at
        self.waits = False  # for loops of unknown length inside
        self.depth, self.times = 0, 1  # loops around a node, and rounds of those inside others
        self.lines = 0  # of text that a round runs
        self.nodes = 0
        self.fits = True

    def small(self, node: Any) -> bool:
        self.visit([node])
        sizes = [self.slots[s].size for s in self.used if self._inside(s)]
        if self.general and max(sizes, default=0) > SCALAR_BYTES:
            return False
        own = sum(sizes)
        few = self.nodes <= NODES and self.lines <= ROUND
        # where to go on with views that may point here or there is not known
        clear = not self.waits or all(len(bases) == 1 for bases in self.points.values())
        return self.fits and clear and few and own <= BYTES

    def _inside(self, slot: int) -> bool:
        role = self.slots[slot].role
        return role == "view" or (role == "temp" and slot >= self.inside)

    def steady(self) -> set[int]:
        """Small memory from outside that rounds only read."""
        found = set()
        for slot in self.used:
            size, role = self.slots[slot].size, self.slots[slot].role
            outside = role != "view" and slot < self.inside and slot not in self.bases
            if outside and 0 < size <= (SCALAR_BYTES if self.general else STEADY):
                found.add(slot)
        return found

    def visit(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            self.nodes += 1
            if isinstance(node, Run):
                self._launch(node)
            elif isinstance(node, (Copy, Point, Swap)):
                self.use(node[:2])
                if isinstance(node, Point):
                    self.points.setdefault(node.view, set()).add(node.base)
            elif isinstance(node, Branch):
                self.use([node.choice])
                for region in node.regions:
                    self.visit(region)
            elif isinstance(node, While):
                self.waits |= self.depth > 0
                self.use([node.flag])
                self._repeated(node.condition, 1)
                self._repeated(node.body, 1)
            elif isinstance(node, For):
                for view, base, _ in node.slices:
                    self.use([view, base])
                    self.bases.add(base)
                    self.sliced.add(view)
                self._repeated(node.body, node.trips if self.depth else 1)
            else:
                assert isinstance(node, Python)
                self.fits = False

    def _repeated(self, nodes: Sequence[Any], trips: int) -> None:
        """Nodes of a loop, which is done so many times in a round of the outermost one."""
        self.depth += 1
        before, self.times = self.times, self.times * trips
        self.visit(nodes)
        self.depth, self.times = self.depth - 1, before

    def use(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.used[slot] = None
            self.fits &= self.slots[slot].role not in ("library", "code")

    def _launch(self, node: Run) -> None:
        self.use(node.slots)
        self.called[node.code] = None
        text, name = self.codes[node.code]
        self.lines += self.times * text.count("\n")
        alone = _DEFINE.findall(text) == [name] and "\n@" not in f"\n{text}"
        self.fits &= alone and plain(node.extent) <= plain(node.chunk)


class Text:
    """The text of a function that does what nodes say, its pointers in variables."""

    def __init__(self, slots: Sequence[Slot], general: bool = False) -> None:
        self.slots = slots
        self.general = general  # whether it reads its sizes
        self.sizes: list[int] = []
        self.head: list[str] = []
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.used: dict[int, None] = {}  # slots
        self.fixed: dict[int, str] = {}  # pointers that never change, and so have no variable
        self.counters: list[str] = []  # variables
        self.around: list[tuple[For, str]] = []  # loops around what is written, with their counters
        self.count = 0

    def nodes(self, nodes: Sequence[Any]) -> None:
        """Write what nodes do."""
        raise NotImplementedError

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def size(self, number: int) -> str:
        """A number that may be another one for arrays of other sizes."""
        if not self.general or (type(number) is not Size and 0 <= number <= 1):
            return str(number)
        self.sizes.append(number)
        return f"%sized{len(self.sizes) - 1}"

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def reading(self, externals: int) -> list[str]:
        """The lines that read all sizes, from a buffer after so many externals."""
        return read_sizes(range(len(self.sizes)), 2 + externals) if self.sizes else []

    def pointer(self, slot: int) -> str:
        self.used[slot] = None
        return self.fixed.get(slot) or self.emit(f"load ptr, ptr %s{slot}")

    def point(self, slot: int, place: str) -> None:
        self.used[slot] = None
        self.line(f"store ptr {place}, ptr %s{slot}")

    def rounds(self, node: For, start: str, stop: str) -> None:
        """A loop from one round to another."""
        counter = self.counter()
        head, body, end = self.label("head"), self.label("body"), self.label("end")
        self.line(f"store i64 {start}, ptr {counter}")
        self.line(f"br label %{head}")
        self.lines.append(f"{head}:")
        now = self.emit(f"load i64, ptr {counter}")
        more = self.emit(f"icmp slt i64 {now}, {stop}")
        self.line(f"br i1 {more}, label %{body}, label %{end}")
        self.lines.append(f"{body}:")
        self.around.append((node, counter))
        self.slices(node, now)
        self.nodes(node.body)
        self.around.pop()
        now = self.emit(f"load i64, ptr {counter}")  # a function may go on in the middle
        self.line(f"store i64 {self.emit(f'add i64 {now}, 1')}, ptr {counter}")
        self.line(f"br label %{head}")
        self.lines.append(f"{end}:")

    def counter(self) -> str:
        """A variable that counts rounds."""
        self.count += 1
        self.counters.append(f"%c{self.count}")
        self.head.append(f"  %c{self.count} = alloca i64")
        return f"%c{self.count}"

    def slices(self, node: For, now: str) -> None:
        """Let views point at the slices of a round."""
        at = now
        if node.reverse:
            at = self.emit(f"sub i64 {self.size(node.trips - 1)}, {now}")
        for view, base, stride in node.slices:
            offset = self.emit(f"mul i64 {at}, {self.size(stride)}")
            self.point(view, self.emit(f"getelementptr i8, ptr {self.pointer(base)}, i64 {offset}"))

    def branch(self, node: Branch) -> None:
        """One of several regions."""
        kind = {1: "i8", 4: "i32", 8: "i64"}[node.size]
        index = self.emit(f"load {kind}, ptr {self.pointer(node.choice)}")
        if kind != "i64":
            index = self.emit(f"{'zext' if kind == 'i8' else 'sext'} {kind} {index} to i64")
        last = len(node.regions) - 1
        end = self.label("end")
        labels = [self.label("case") for _ in node.regions]
        low = self.emit(f"icmp slt i64 {index}, 0")
        index = self.emit(f"select i1 {low}, i64 0, i64 {index}")
        cases = " ".join(f"i64 {i}, label %{name}" for i, name in enumerate(labels[:last]))
        self.line(f"switch i64 {index}, label %{labels[last]} [ {cases} ]")
        for name, region in zip(labels, node.regions, strict=True):
            self.lines.append(f"{name}:")
            self.nodes(region)
            self.line(f"br label %{end}")
        self.lines.append(f"{end}:")


class Writer(Text):
    """The text of a loop's function while it is written."""

    def __init__(
        self,
        slots: Sequence[Slot],
        codes: Sequence[tuple[str, str]],
        inside: int,
        found: Survey,
        general: bool = False,
    ) -> None:
        super().__init__(slots, general)
        self.codes = codes
        self.inside = inside
        self.found = found
        self.own: list[int] = []  # slots of memory of its own
        self.resumes: list[str] = []  # where it may go on

    def copy(self, target: str, source: str, size: int) -> None:
        name = "@llvm.memcpy.inline.p0.p0.i64"
        self.declared[f"declare void {name}(ptr, ptr, i64, i1)"] = None
        self.line(f"call void {name}(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    # --- the function -----------------------------------------------------------------------------

    def run(self, node: Any) -> LoopText:
        body = node.body
        pairs = [(s.first, s.second) for s in body if isinstance(s, Swap)]
        carried = {slot for pair in pairs for slot in pair}
        views = {view for view, _, _ in node.slices} if isinstance(node, For) else set()
        externals = self.memory(carried, views, self.found.steady())
        self.kernels()
        for now, after in pairs:
            size = self.slots[now].size
            self.copy(self.pointer(now), f"%x{now}", size)
            self.copy(self.pointer(after), self.pointer(now), size)
        done = self.emit("load i64, ptr %p0")
        rounds = max(16, LINES_PER_POLL // max(1, self.found.lines))
        limit = self.emit(f"add i64 {done}, {self.size(rounds)}")
        if isinstance(node, For):
            finished = self._for(node, done, limit)
        else:
            self._enter()
            finished = self.going(node, done, limit)
        more = self.emit(f"xor i1 {finished}, true")
        self.line(f"store i8 {self.emit(f'zext i1 {more} to i8')}, ptr %p1")
        last = self._last(node, finished)
        for now, after in pairs:
            target = f"%x{now}"
            if last is not None:  # where the last of so many swaps would have left it
                target = self.emit(f"select i1 {last}, ptr %x{after}, ptr %x{now}")
            self.copy(target, self.pointer(now), self.slots[now].size)
        head = ["define void @loop(ptr noalias %buffers, i64 %start, i64 %stop) nounwind {"]
        self.line("ret void")
        room = self._kept() if self.resumes else 0
        text = [*self.declared, *self.functions, *head, "entry:", *self.reading(len(externals))]
        text += [*self.head, *self.lines, "}", ""]
        whole = numbered("\n".join(text)) if self.general else "\n".join(text)
        return LoopText(LOOP + whole, externals, room, tuple(self.sizes))

    def _last(self, node: Any, finished: str) -> str | None:
        """Whether the rounds are over, and were odd in number; None if they are not."""
        if not isinstance(node, For) or type(node.trips) is Size:
            return None  # who comes after reads the first view
        if not self.general:
            return finished if node.trips % 2 == 1 else None
        odd = self.emit(f"trunc i64 {self.size(node.trips)} to i1")
        return self.emit(f"and i1 {finished}, {odd}")

    def memory(
        self, carried: set[int], views: set[int], steady: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Pointers of all slots: of memory outside, or of memory of the function's own."""
        externals: list[int] = []
        for i in (0, 1):
            self.head.append(f"  %q{i} = getelementptr ptr, ptr %buffers, i64 {i}")
            self.head.append(f"  %p{i} = load ptr, ptr %q{i}")
        names: dict[int, str] = {}
        for slot in self.found.used:
            size, role = self.slots[slot].size, self.slots[slot].role
            own = slot in carried or (role == "temp" and slot >= self.inside)
            if slot in carried or not (own or (role == "view" and slot >= self.inside)):
                if slot not in views:
                    number = 2 + len(externals)
                    externals.append(slot)
                    names[slot] = f"%x{slot}"
                    self.head.append(f"  %g{slot} = getelementptr ptr, ptr %buffers, i64 {number}")
                    self.head.append(f"  %x{slot} = load ptr, ptr %g{slot}")
            if own or slot in steady:
                names[slot] = f"%m{slot}"
                self.head.append(f"  %m{slot} = alloca [{max(size, 1)} x i8], align 64")
            if slot in steady:
                self.copy(f"%m{slot}", f"%x{slot}", size)
            elif own:
                self.own.append(slot)
        self._variables(names)
        return tuple(externals)

    def _variables(self, names: dict[int, str]) -> None:
        """Pointers that never change by name, others in variables."""
        found = self.found
        for slot, name in names.items():
            if slot not in found.sliced and slot not in found.points:
                self.fixed[slot] = name
        for view, (base, *others) in found.points.items():
            if view not in found.sliced and not others and base in self.fixed:
                self.fixed[view] = self.fixed[base]
        for slot in found.used:
            if slot not in self.fixed:
                self.head.append(f"  %s{slot} = alloca ptr")
                if slot in names:
                    self.head.append(f"  store ptr {names[slot]}, ptr %s{slot}")

    def kernels(self) -> None:
        self.functions: list[str] = []
        for code in self.found.called:
            text, name = self.codes[code]
            lines = text.split("\n")
            for line in lines:
                if line.startswith("declare "):
                    self.declared[line] = None
            body = "\n".join(x for x in lines if not x.startswith(("declare ", "attributes ", ";")))
            body = body.replace(f"define void @{name}(", f"define internal void @f{code}(")
            self.functions.append(body.replace(") #0 {", ") alwaysinline nounwind {"))

    def _for(self, node: For, done: str, limit: str) -> str:
        """Rounds from those done to the limit or the end; whether the end is reached."""
        trips = self.size(node.trips)
        less = self.emit(f"icmp slt i64 {limit}, {trips}")
        stop = self.emit(f"select i1 {less}, i64 {limit}, i64 {trips}")
        self._enter()
        self.rounds(node, done, stop)
        self.line(f"store i64 {stop}, ptr %p0")
        return self.emit(f"icmp eq i64 {stop}, {trips}")

    def going(self, node: While, done: str, limit: str) -> str:
        """Rounds while the condition holds, up to the limit; whether it has ceased to hold."""
        counter = self.counter()
        over = f"%o{self.count}"
        self.head += [f"  {over} = alloca i1", f"  store i1 false, ptr {over}"]
        self.line(f"store i64 {done}, ptr {counter}")
        head, body, end = self.label("head"), self.label("body"), self.label("end")
        check = self.label("check")
        self.line(f"store i1 false, ptr {over}")
        self.line(f"br label %{head}")
        self.lines.append(f"{head}:")
        now = self.emit(f"load i64, ptr {counter}")
        self.line(f"store i64 {self.emit(f'add i64 {now}, 1')}, ptr {counter}")
        more = self.emit(f"icmp slt i64 {now}, {limit}")
        self.line(f"br i1 {more}, label %{check}, label %{end}")
        self.lines.append(f"{check}:")
        holds = self._holds(node)
        self.line(f"store i1 {self.emit(f'xor i1 {holds}, true')}, ptr {over}")
        self.line(f"br i1 {holds}, label %{body}, label %{end}")
        self.lines.append(f"{body}:")
        self.nodes(node.body)
        self.line(f"br label %{head}")
        self.lines.append(f"{end}:")
        return self.emit(f"load i1, ptr {over}")

    # --- loops of unknown length inside -----------------------------------------------------------

    def _enter(self) -> None:
        """Begin, or go on where the function has returned."""
        if not self.found.waits:
            return
        self.head += ["  %place = alloca i64", "  %left = alloca i64"]
        left = self.size(max(16, LINES_PER_POLL // max(1, self.found.lines)))
        self.head.append(f"  store i64 {left}, ptr %left")
        place = self.emit("getelementptr i8, ptr %p0, i64 8")
        self.line(f"store i64 {self.emit(f'load i64, ptr {place}')}, ptr %place")
        now = self.emit("load i64, ptr %place")
        self.line(f"br i1 {self.emit(f'icmp eq i64 {now}, 0')}, label %fresh, label %restore")
        self.lines.append("fresh:")

    def _wait(self, node: While) -> None:
        """Rounds while a condition holds; after very many the function returns in between."""
        head, check, body = self.label("head"), self.label("check"), self.label("body")
        leave, end, back = self.label("leave"), self.label("end"), self.label("back")
        self.resumes.append(back)
        self.line(f"br label %{head}")
        self.lines.append(f"{back}:")
        for loop, counter in self.around:
            self.slices(loop, self.emit(f"load i64, ptr {counter}"))
        for view, (base, *_) in self.found.points.items():
            if view not in self.fixed:
                self.point(view, self.pointer(base))
        self.line(f"br label %{head}")
        self.lines.append(f"{head}:")
        left = self.emit(f"sub i64 {self.emit('load i64, ptr %left')}, 1")
        self.line(f"store i64 {left}, ptr %left")
        self.line(f"br i1 {self.emit(f'icmp slt i64 {left}, 0')}, label %{leave}, label %{check}")
        self.lines.append(f"{leave}:")
        self.line(f"store i64 {len(self.resumes)}, ptr %place")
        self.line("br label %keep")
        self.lines.append(f"{check}:")
        self.line(f"br i1 {self._holds(node)}, label %{body}, label %{end}")
        self.lines.append(f"{body}:")
        self.nodes(node.body)
        self.line(f"br label %{head}")
        self.lines.append(f"{end}:")

    def _kept(self) -> int:
        """The ways out and in again: all values to and from progress, which takes so many bytes."""
        place, at = "getelementptr i8, ptr %p0, i64", 16
        out, back = ["keep:"], ["restore:", f"  %k8 = {place} 8", "  store i64 0, ptr %k8"]
        out += [f"  %z8 = {place} 8", "  %z = load i64, ptr %place", "  store i64 %z, ptr %z8"]
        whole = [(name, 8) for name in self.counters]
        for name, size in whole + [(f"%m{slot}", self.slots[slot].size) for slot in self.own]:
            if not size:
                continue
            call = "call void @llvm.memcpy.inline.p0.p0.i64"
            out += [f"  %z{at} = {place} {at}"]
            out += [f"  {call}(ptr %z{at}, ptr {name}, i64 {size}, i1 false)"]
            back += [f"  %k{at} = {place} {at}"]
            back += [f"  {call}(ptr {name}, ptr %k{at}, i64 {size}, i1 false)"]
            at += -(-size // 8) * 8
        self.declared["declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64, i1)"] = None
        cases = " ".join(f"i64 {i}, label %{x}" for i, x in enumerate(self.resumes[1:], 2))
        back += ["  %k = load i64, ptr %place"]
        back += [f"  switch i64 %k, label %{self.resumes[0]} [ {cases} ]"]
        self.lines += [*out, "  store i8 1, ptr %p1", "  ret void", *back]
        return at - 16

    def _holds(self, node: While) -> str:
        self.nodes(node.condition)
        flag = self.emit(f"load i8, ptr {self.pointer(node.flag)}")
        return self.emit(f"icmp ne i8 {flag}, 0")

    # --- nodes ------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(node, Run):
                self._call(node)
            elif isinstance(node, Copy):
                self.copy(self.pointer(node.target), self.pointer(node.source), node.size)
            elif isinstance(node, Point):
                if node.view not in self.fixed:
                    self.point(node.view, self.pointer(node.base))
            elif isinstance(node, Swap):
                # the values change places, not the pointers: so they can stay in registers
                size = self.slots[node.first].size
                self.copy(self.pointer(node.first), self.pointer(node.second), size)
            elif isinstance(node, Branch):
                self.branch(node)
            elif isinstance(node, While):
                self._wait(node)
            else:
                assert isinstance(node, For)
                self.rounds(node, "0", self.size(node.trips))
                if type(node.trips) is not Size and node.trips % 2 == 1:
                    for s in node.body:
                        if isinstance(s, Swap):
                            size = self.slots[s.first].size
                            self.copy(self.pointer(s.second), self.pointer(s.first), size)

    def _call(self, node: Run) -> None:
        self.count += 1
        row = f"%r{self.count}"
        self.head.append(f"  {row} = alloca [{max(1, len(node.slots))} x ptr]")
        for i, slot in enumerate(node.slots):
            place = self.emit(f"getelementptr ptr, ptr {row}, i64 {i}")
            self.line(f"store ptr {self.pointer(slot)}, ptr {place}")
        extent = self.size(node.extent)
        self.line(f"call void @f{node.code}(ptr {row}, i64 0, i64 {extent})")


# Names of a loop's text that have the numbers of slots, or of functions.
_NUMBERED = re.compile(r"(%[gmsx]|[%@]f)(\d+)\b")


def numbered(text: str) -> str:
    """A text whose names are numbered as they come, whatever the slots of a program are."""
    slots: dict[str, int] = {}
    codes: dict[str, int] = {}

    def name(found: re.Match[str]) -> str:
        stem, number = found.groups()
        numbers = codes if stem.endswith("f") else slots
        return f"{stem}{numbers.setdefault(number, len(numbers))}"

    return _NUMBERED.sub(name, text)
