"""Loops of programs as native functions.

A small loop is one function: its kernels are inlined, and LLVM keeps memory that nothing else sees
in registers. Another one calls its kernels by address, so that nobody walks its nodes; where work
is shared with other threads or done by Python, a loop stays nodes. A loop that is done for one
block of elements after the other is a function over their number.

A function does some rounds and returns, so that a long loop can be interrupted; it says by a flag
whether there are more to do, and keeps the number of those done. Where it returns from inside of a
loop of unknown length, it keeps all values as well, and goes on there when it is called again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from weft.backends.cpu.assembly import Python, Run
from weft.backends.cpu.sizes import read_sizes
from weft.backends.llvm.code import RANGE, Effort, Function, Module
from weft.backends.llvm.native.processor import counter
from weft.backends.llvm.text.instructions import Lines
from weft.base.record import Record
from weft.base.sizes import Size, plain
from weft.kernel.program import Blocks, Branch, Copy, For, Point, Slot, Swap, While

# Bytes that the body of a small loop may touch in memory of its own, and nodes it may have.
BYTES, NODES = 4096, 64
# Bytes of a block and what is computed of it, which should be in registers.
BLOCK_BYTES = 1 << 14
# Bytes of a constant of a loop up to which it is copied: what rounds write is then known to be
# other memory, and it may stay in registers.
STEADY = 512
# Bytes of values that are no arrays, and so are the same in loops over arrays of other sizes.
SCALAR_BYTES = 16
# Lines of text that a round may run, in loops inside: some hundredths of a second.
ROUND = 1 << 24
# Lines of text run between two looks at signals: some hundredths of a second if they are slow.
LINES_PER_POLL = 1 << 24
# Rounds that loops inside may have for one of the outermost, where kernels are called.
MAX_UNINTERRUPTED_ROUNDS = 1 << 10
_FOREVER = (1 << 63) - 1


class LoopText(Record):
    """A loop's function, and the slots whose pointers it takes after progress and flag.

    Progress is the number of rounds done, then the number of the loop to go on in, then so many
    bytes for values. It begins as zeros. ``codes`` are native functions whose addresses it takes
    after the slots, ``sizes`` is a table that it reads, its last buffer.
    """

    module: Module
    externals: tuple[int, ...]
    room: int = 0
    sizes: tuple[int, ...] = ()
    codes: tuple[int, ...] = ()


def render_loop(
    node: Any,
    slots: Sequence[Slot],
    codes: Sequence[tuple[Module, str]],
    inside: int,
    general: bool = False,
) -> LoopText | None:
    """The function of a loop, or None where it is not small. Slots from ``inside`` on are its own.

    Its buffers are: progress, the flag (i8), then the externals. One that is to do for arrays of
    other sizes too is small if all its values are single numbers.
    """
    found = Survey(slots, codes, inside, general)
    return Inlined(found).run(node) if found.small(node) else None


def render_calls(
    node: Any, slots: Sequence[Slot], codes: Sequence[tuple[Module, str]], general: bool = False
) -> LoopText | None:
    """The function of a loop that calls its kernels, or None where nodes have to be walked."""
    found = Survey(slots, codes, 0, general)
    found.visit([node])
    if not found.alone or found.waits or found.most > MAX_UNINTERRUPTED_ROUNDS:
        return None
    return Called(found).run(node)


def render_blocks(
    blocks: Blocks,
    slots: Sequence[Slot],
    codes: Sequence[tuple[Module, str]],
    general: bool = False,
) -> LoopText | None:
    """The function of a loop in blocks, over their number, or None where it is not small.

    It takes, before the slots of the block, the number of rounds (i64) or, of a loop that says
    itself when it is over, a flag (i8) to be set where so many rounds were not enough.
    """
    found = survey(blocks, slots, codes, general)
    if found is None:
        return None
    found.sliced |= blocks.arrays.keys()
    return Inlined(found).run_blocks(blocks)


def survey(
    blocks: Blocks, slots: Sequence[Slot], codes: Sequence[tuple[Module, str]], general: bool
) -> Survey | None:
    """What a loop in blocks is made of, or None where it is not small."""
    found = Survey(slots, codes, 0, general)
    found.visit(blocks.nodes)
    own = sum(slots[s].size for s in found.used if slots[s].role in ("temp", "view"))
    few = found.nodes <= NODES and own <= BLOCK_BYTES
    return found if found.fits and few and not found.waits else None


class Survey:
    """What a loop is made of."""

    def __init__(
        self,
        slots: Sequence[Slot],
        codes: Sequence[tuple[Module, str]],
        inside: int,
        general: bool = False,
        chunks: int = 1,
    ) -> None:
        self.slots = slots
        self.chunks = chunks  # that one thread does of a kernel
        self.codes = codes
        self.inside = inside
        self.general = general  # whether the function reads its sizes
        self.used: dict[int, None] = {}
        self.called: dict[int, None] = {}
        self.bases: set[int] = set()
        self.sliced: set[int] = set()  # views of slices
        self.swapped: set[int] = set()
        self.points: dict[int, set[int]] = {}  # other views, and what they are made to point at
        self.waits = False  # for loops of unknown length inside
        self.depth, self.times = 0, 1  # loops around a node, and rounds of those inside others
        self.most = 1  # rounds of a loop inside in one of the outermost
        self.lines = 0  # of text that a round runs
        self.nodes = 0
        self.alone = True  # whether this thread does it, without Python
        self.fits = True  # whether kernels can be inlined, too

    def small(self, node: Any) -> bool:
        self.visit([node])
        sizes = [self.slots[s].size for s in self.used if self._inside(s)]
        if self.general and max(sizes, default=0) > SCALAR_BYTES:
            return False
        own = sum(sizes)
        few = self.nodes <= NODES and self.lines <= ROUND
        # where to go on with views that may point here or there is not known
        clear = not self.waits or all(len(bases) == 1 for bases in self.points.values())
        return self.alone and self.fits and clear and few and own <= BYTES

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
                elif isinstance(node, Swap):
                    self.swapped.update(node)
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
                self.alone = False

    def _repeated(self, nodes: Sequence[Any], trips: int) -> None:
        """Nodes of a loop, which is done so many times in a round of the outermost one."""
        self.depth += 1
        before, self.times = self.times, self.times * trips
        self.most = max(self.most, plain(self.times))
        self.visit(nodes)
        self.depth, self.times = self.depth - 1, before

    def use(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.used[slot] = None
            self.fits &= self.slots[slot].role not in ("library", "code")

    def _launch(self, node: Run) -> None:
        self.use(node.slots)
        self.called[node.code] = None
        module, name = self.codes[node.code]
        self.lines += self.times * module.line_count
        self.fits &= module.names == [name] and not module.memory and not module.parts
        self.alone &= plain(node.extent) <= self.chunks * plain(node.chunk)


class Text(Lines):
    """The text of a function that does what nodes say, its pointers in variables."""

    inlines = False  # whether kernels and copies are in it

    def __init__(self, found: Survey) -> None:
        super().__init__()
        self.found, self.slots = found, found.slots
        self.sizes: list[int] = []
        self.head: list[str] = []
        self.declared: dict[str, str] = {}
        self.metadata: list[str] = []
        self.numbers: dict[int, int] = {}  # of slots, in the order in which names have them
        self.code_numbers: dict[int, int] = {}  # the same of functions
        self.fixed: dict[int, str] = {}  # pointers that never change, and so have no variable
        self.counters: list[str] = []  # variables
        self.around: list[tuple[For, str]] = []  # loops around what is written, with their counters

    def launch(self, node: Run) -> None:
        """Write the call of a kernel."""
        raise NotImplementedError

    def swap(self, node: Swap) -> None:
        """Write that two views change places."""
        raise NotImplementedError

    def inner(self, node: For | While) -> None:
        """Write a loop inside of the outermost one."""
        assert isinstance(node, For)
        self.rounds(node, "0", self.size(node.trips))

    def copy(self, target: str, source: str, size: int) -> None:
        """Write a copy of a value; one that is inlined may stay in registers."""
        name = "@llvm.memcpy.inline.p0.p0.i64" if self.inlines else "@llvm.memcpy.p0.p0.i64"
        count = size if self.inlines else self.size(size)
        self.declared[name] = f"declare void {name}(ptr, ptr, i64, i1)"
        self.line(f"call void {name}(ptr {target}, ptr {source}, i64 {count}, i1 false)")

    def size(self, number: int) -> str:
        """A number that may be another one for arrays of other sizes."""
        if not self.found.general or (type(number) is not Size and 0 <= number <= 1):
            return str(number)
        self.sizes.append(number)
        return f"%sized{len(self.sizes) - 1}"

    def named(self, stem: str, slot: int) -> str:
        """A name for a slot, which does not depend on its number in a program."""
        return f"%{stem}{self.numbers.setdefault(slot, len(self.numbers))}"

    def function_name(self, number: int) -> str:
        """The same for a function of the program's."""
        return f"f{self.code_numbers.setdefault(number, len(self.code_numbers))}"

    def external(self, place: int, name: str) -> None:
        """Read a pointer of the buffers."""
        at = self.fresh("at")
        self.head.append(f"  {at} = getelementptr ptr, ptr %buffers, i64 {place}")
        self.head.append(f"  {name} = load ptr, ptr {at}")

    def variable(self, slot: int, name: str = "") -> None:
        """A pointer that changes, and what it is at first."""
        place = self.named("s", slot)
        self.head.append(f"  {place} = alloca ptr")
        if name:
            self.head.append(f"  store ptr {name}, ptr {place}")

    def pointer(self, slot: int) -> str:
        return self.fixed.get(slot) or self.emit(f"load ptr, ptr {self.named('s', slot)}")

    def point(self, slot: int, place: str) -> None:
        self.line(f"store ptr {place}, ptr {self.named('s', slot)}")

    def closed(self, name: str, before: Sequence[Function], buffers: int, effort: Effort) -> Module:
        """The whole module; the table of sizes is behind so many buffers."""
        sizes = read_sizes(range(len(self.sizes)), buffers) if self.sizes else []
        own = Function(name, RANGE, ("entry:", *sizes, *self.head, *self.lines))
        return Module([*before, own], self.declared, effort=effort, metadata=self.metadata)

    # --- loops ------------------------------------------------------------------------------------

    def outermost(self, node: For | While, done: str, limit: str) -> str:
        """Rounds of the loop itself, from those done to a limit; whether it is over."""
        self.head.append("  %limit = alloca i64")
        trips = self.size(node.trips) if isinstance(node, For) else ""
        self.line(f"store i64 {self.scalar_min(limit, trips) if trips else limit}, ptr %limit")
        self.entered()
        reached = self.rounds(node, done, "%limit")
        self.line(f"store i64 {reached}, ptr %p0")
        if trips:
            finished = self.emit(f"icmp eq i64 {reached}, {trips}")
        else:
            finished = self.emit(f"icmp slt i64 {reached}, {self.emit('load i64, ptr %limit')}")
        more = self.emit(f"xor i1 {finished}, true")
        self.line(f"store i8 {self.emit(f'zext i1 {more} to i8')}, ptr %p1")
        return finished

    def entered(self) -> None:
        """Write what comes before the first round."""

    def turned(self, after: str) -> None:
        """Write what comes after a round of the outermost loop."""

    def rounds(self, node: For | While, start: str, stop: str) -> str:
        """A loop from one round to another, which may be over before; how many are done then."""
        self.count += 1
        at, n = f"%c{self.count}", self.count
        self.counters.append(at)
        self.head.append(f"  {at} = alloca i64")
        self.line(f"store i64 {start}, ptr {at}")
        self.line(f"br label %head{n}")
        self.label(f"head{n}")
        now = self.emit(f"load i64, ptr {at}")
        last = self.emit("load i64, ptr %limit") if stop == "%limit" else stop
        more = self.emit(f"icmp slt i64 {now}, {last}")
        self.line(f"br i1 {more}, label %check{n}, label %end{n}")
        self.label(f"check{n}")
        if isinstance(node, While):
            self.line(f"br i1 {self.holds(node)}, label %body{n}, label %end{n}")
            self.label(f"body{n}")
            self.nodes(node.body)
        else:
            self.around.append((node, at))
            self.slices(node, now)
            self.nodes(node.body)
            self.around.pop()
        # a function may go on in the middle
        after = self.emit(f"add i64 {self.emit(f'load i64, ptr {at}')}, 1")
        self.line(f"store i64 {after}, ptr {at}")
        if stop == "%limit":
            self.turned(after)
        self.line(f"br label %head{n}")
        self.label(f"end{n}")
        return self.emit(f"load i64, ptr {at}")

    def holds(self, node: While) -> str:
        """Whether the condition of a loop does."""
        self.nodes(node.condition)
        flag = self.emit(f"load i8, ptr {self.pointer(node.flag)}")
        return self.emit(f"icmp ne i8 {flag}, 0")

    def slices(self, node: For, now: str) -> None:
        """Let views point at the slices of a round."""
        at = now
        if node.reverse:
            at = self.emit(f"sub i64 {self.size(node.trips - 1)}, {now}")
        for view, base, stride in node.slices:
            offset = self.emit(f"mul i64 {at}, {self.size(stride)}")
            self.point(view, self.emit(f"getelementptr i8, ptr {self.pointer(base)}, i64 {offset}"))

    # --- nodes ------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Any]) -> None:
        """Write what nodes do."""
        for node in nodes:
            if isinstance(node, Run):
                self.launch(node)
            elif isinstance(node, Copy):
                self.copy(self.pointer(node.target), self.pointer(node.source), node.size)
            elif isinstance(node, Point):
                if node.view not in self.fixed:
                    self.point(node.view, self.pointer(node.base))
            elif isinstance(node, Swap):
                self.swap(node)
            elif isinstance(node, Branch):
                index = self.chosen(self.pointer(node.choice), node.size)
                self.switch(index, node.regions, self.nodes)
            else:
                self.inner(node)

    def row(self, node: Run, head: bool) -> list[str]:
        """What a kernel is given: its pointers; in the ``head``, those that never change."""
        row = self.fresh("r")
        self.head.append(f"  {row} = alloca [{max(1, len(node.slots))} x ptr]")
        for i, slot in enumerate(node.slots):
            value = self.pointer(slot)
            lines = self.head if head and slot in self.fixed else self.lines
            lines.append(f"  {row}.{i} = getelementptr ptr, ptr {row}, i64 {i}")
            lines.append(f"  store ptr {value}, ptr {row}.{i}")
        return [f"ptr {row}", "i64 0", f"i64 {self.size(node.extent)}"]


class Inlined(Text):
    """The text of a function that has its kernels in it."""

    inlines = True

    def __init__(self, found: Survey) -> None:
        super().__init__(found)
        self.own: list[int] = []  # slots of memory of its own
        self.resumes: list[str] = []  # where it may go on

    def run(self, node: For | While) -> LoopText:
        """The function of a loop."""
        pairs = [(s.first, s.second) for s in node.body if isinstance(s, Swap)]
        carried = {slot for pair in pairs for slot in pair}
        views = {view for view, _, _ in node.slices} if isinstance(node, For) else set()
        externals = self.memory(carried, views, self.found.steady())
        for now, after in pairs:
            size = self.slots[now].size
            self.copy(self.pointer(now), self.named("x", now), size)
            self.copy(self.pointer(after), self.pointer(now), size)
        done = self.emit("load i64, ptr %p0")
        limit = self.emit(f"add i64 {done}, {self.patience()}")
        finished = self.outermost(node, done, limit)
        last = self._last(node, finished)
        for now, after in pairs:
            target = self.named("x", now)
            if last is not None:  # where the last of so many swaps would have left it
                other = self.named("x", after)
                target = self.emit(f"select i1 {last}, ptr {other}, ptr {target}")
            self.copy(target, self.pointer(now), self.slots[now].size)
        self.line("ret void")
        room = self._kept() if self.resumes else 0
        module = self.closed("loop", self.kernels(), 2 + len(externals), Effort.LOOP)
        return LoopText(module, externals, room, tuple(self.sizes))

    def run_blocks(self, blocks: Blocks) -> LoopText:
        """The function of a loop in blocks."""
        externals = self.memory(set(), set())

        def block(now: str, _: list[str]) -> list[str]:
            self._point(blocks, now)
            for node in blocks.nodes:
                if isinstance(node, For):
                    self.rounds(node, "0", self.emit("load i64, ptr %p0"))
                elif isinstance(node, While):
                    most = self.size(blocks.most)
                    done = self.rounds(node, "0", most)
                    with self.when(self.emit(f"icmp eq i64 {done}, {most}")):
                        self.line("store i8 1, ptr %p1")
                else:
                    self.nodes([node])
            return []

        self.carry("%start", "%stop", [], block, once=False)
        self.line("ret void")
        module = self.closed("blocks", self.kernels(), 2 + len(externals), Effort.LOOP)
        return LoopText(module, externals, 0, tuple(self.sizes))

    def _point(self, blocks: Blocks, now: str) -> None:
        """Let the slots of arrays point at the block; the last one overlaps that before it."""
        first = self.emit(f"mul i64 {now}, {blocks.width}")
        first = self.scalar_min(first, self.size(blocks.total - blocks.width))
        for slot, size in blocks.arrays.items():
            if slot in self.found.used:
                offset, whole = self.emit(f"mul i64 {first}, {size}"), self.named("x", slot)
                self.point(slot, self.emit(f"getelementptr i8, ptr {whole}, i64 {offset}"))

    def _last(self, node: For | While, finished: str) -> str | None:
        """Whether the rounds are over, and were odd in number; None if they are not."""
        if not isinstance(node, For) or type(node.trips) is Size:
            return None  # who comes after reads the first view
        if not self.found.general:
            return finished if node.trips % 2 == 1 else None
        odd = self.emit(f"trunc i64 {self.size(node.trips)} to i1")
        return self.emit(f"and i1 {finished}, {odd}")

    def memory(
        self, carried: set[int], views: set[int], steady: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Pointers of all slots: of memory outside, or of memory of the function's own."""
        externals: list[int] = []
        self.external(0, "%p0")
        self.external(1, "%p1")
        names: dict[int, str] = {}
        inside = self.found.inside
        for slot in self.found.used:
            size, role = self.slots[slot].size, self.slots[slot].role
            own = slot in carried or (role == "temp" and slot >= inside)
            outside = slot in carried or not (own or (role == "view" and slot >= inside))
            if outside and slot not in views:
                names[slot] = self.named("x", slot)
                self.external(2 + len(externals), names[slot])
                externals.append(slot)
            if own or slot in steady:
                names[slot] = self.named("m", slot)
                self.head.append(f"  {names[slot]} = alloca [{max(size, 1)} x i8], align 64")
            if slot in steady:
                self.copy(names[slot], self.named("x", slot), size)
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
                self.variable(slot, names.get(slot, ""))

    def kernels(self) -> list[Function]:
        """The functions that are inlined."""
        functions = []
        for code in self.found.called:
            module, name = self.found.codes[code]
            self.declared |= module.declared
            f = module.function(name)._replace(attributes=("alwaysinline", "nounwind"))
            functions.append(f._replace(name=self.function_name(code), internal=True))
        return functions

    def launch(self, node: Run) -> None:
        self.call_function(self.function_name(node.code), self.row(node, False))

    def swap(self, node: Swap) -> None:
        # the values change places, not the pointers: so they can stay in registers
        size = self.slots[node.first].size
        self.copy(self.pointer(node.first), self.pointer(node.second), size)

    # --- loops inside -----------------------------------------------------------------------------

    def inner(self, node: For | While) -> None:
        if isinstance(node, While):
            self._wait(node)
            return
        super().inner(node)
        if type(node.trips) is not Size and node.trips % 2 == 1:
            for s in node.body:
                if isinstance(s, Swap):
                    size = self.slots[s.first].size
                    self.copy(self.pointer(s.second), self.pointer(s.first), size)

    def patience(self) -> str:
        """Rounds between two looks at signals."""
        return self.size(max(16, LINES_PER_POLL // max(1, self.found.lines)))

    def entered(self) -> None:
        """Begin, or go on where the function has returned."""
        if not self.found.waits:
            return
        self.head += ["  %place = alloca i64", "  %left = alloca i64"]
        self.head.append(f"  store i64 {self.patience()}, ptr %left")
        place = self.emit("getelementptr i8, ptr %p0, i64 8")
        now = self.emit(f"load i64, ptr {place}")
        self.line(f"store i64 {now}, ptr %place")
        self.line(f"br i1 {self.emit(f'icmp eq i64 {now}, 0')}, label %fresh, label %restore")
        self.label("fresh")

    def _wait(self, node: While) -> None:
        """Rounds while a condition holds; after very many the function returns in between."""
        self.resumes.append(f"back{len(self.resumes) + 1}")
        n = len(self.resumes)
        self.line(f"br label %again{n}")
        self.label(f"back{n}")
        for loop, at in self.around:
            self.slices(loop, self.emit(f"load i64, ptr {at}"))
        for view, (base, *_) in self.found.points.items():
            if view not in self.fixed:
                self.point(view, self.pointer(base))
        self.line(f"br label %again{n}")
        self.label(f"again{n}")
        left = self.emit(f"sub i64 {self.emit('load i64, ptr %left')}, 1")
        self.line(f"store i64 {left}, ptr %left")
        with self.when(self.emit(f"icmp slt i64 {left}, 0"), "keep"):
            self.line(f"store i64 {n}, ptr %place")
        self.line(f"br i1 {self.holds(node)}, label %waited{n}, label %over{n}")
        self.label(f"waited{n}")
        self.nodes(node.body)
        self.line(f"br label %again{n}")
        self.label(f"over{n}")

    def _kept(self) -> int:
        """The ways out and in again: all values to and from progress, which takes so many bytes."""
        values = [(name, 8) for name in self.counters]
        values += [(self.named("m", slot), self.slots[slot].size) for slot in self.own]
        for label in ("keep", "restore"):
            self.label(label)
            at = 16
            for name, size in values:
                if size:
                    pair = self.emit(f"getelementptr i8, ptr %p0, i64 {at}"), name
                    self.copy(*(pair if label == "keep" else pair[::-1]), size)
                    at += -(-size // 8) * 8
            place = self.emit("getelementptr i8, ptr %p0, i64 8")
            now = self.emit("load i64, ptr %place")
            self.line(f"store i64 {now if label == 'keep' else 0}, ptr {place}")
            if label == "keep":
                self.line("store i8 1, ptr %p1")
                self.line("ret void")
        cases = " ".join(f"i64 {i}, label %{x}" for i, x in enumerate(self.resumes[1:], 2))
        self.line(f"switch i64 {now}, label %{self.resumes[0]} [ {cases} ]")
        return at - 16


class Called(Text):
    """The text of a function that calls kernels by address; what changes places are pointers."""

    def run(self, node: For | While) -> LoopText:
        """The function of a loop."""
        found = self.found
        moved = {*found.sliced, *found.swapped, *found.points}
        slots = [self.named("x", slot) for slot in found.used]
        codes = [f"%{self.function_name(number)}" for number in found.called]
        names = ["%p0", "%p1", *slots, *codes]
        for i, name in enumerate(names):
            self.external(i, name)
        for slot in found.used:
            if slot in moved:
                self.variable(slot, self.named("x", slot))
            else:
                self.fixed[slot] = self.named("x", slot)
        declared, self.metadata, self.clock, self.period = counter()
        self.declared["clock"] = declared
        self.begin = self.emit(self.clock)
        swaps = [s for s in node.body if isinstance(s, Swap)]
        done = self.emit("load i64, ptr %p0")
        with self.when(self.emit(f"trunc i64 {done} to i1")):
            for swap in swaps:  # views are handed over as they were before the first round
                self.swap(swap)
        finished = self.outermost(node, done, str(_FOREVER))
        if isinstance(node, While) or type(node.trips) is Size:
            # of unknown length: who comes after reads the first view
            odd = self.emit(f"trunc i64 {self.emit('load i64, ptr %p0')} to i1")
            with self.when(self.emit(f"and i1 {finished}, {odd}")):
                for s in swaps:
                    size = self.slots[s.first].size
                    self.copy(self.pointer(s.second), self.pointer(s.first), size)
        self.line("ret void")
        module = self.closed("loop", [], len(names), Effort.QUICK)
        return LoopText(module, tuple(found.used), 0, tuple(self.sizes), tuple(found.called))

    def turned(self, after: str) -> None:
        spent = self.emit(f"sub i64 {self.emit(self.clock)}, {self.begin}")
        with self.when(self.emit(f"icmp ugt i64 {spent}, {self.period}")):
            self.line(f"store i64 {after}, ptr %limit")

    def launch(self, node: Run) -> None:
        given = ", ".join(self.row(node, True))
        self.line(f"call void %{self.function_name(node.code)}({given})")

    def swap(self, node: Swap) -> None:
        first, second = self.pointer(node.first), self.pointer(node.second)
        self.point(node.first, second)
        self.point(node.second, first)
