"""Loops whose rounds are independent as native functions that several threads run at once.

Each of the function's *workers* takes rounds from a counter that all share, a few at a time, until
none is left: a long round keeps one thread busy, and the others do the rest. A worker has memory
of its own for what a round works with. As in other loops, a worker returns after a while, so that
the program can be interrupted, and goes on later where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.backends.cpu.assembly import Run
from weft.backends.cpu.code.loop_text import Called, Inlined, LoopText, Survey, Text
from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.native.processor import counter
from weft.base.record import Record
from weft.kernel.program import For, Slot, While

# Chunks of a kernel up to which one thread does all of them, where there are many rounds: others do
# other rounds meanwhile, and need not wait for each other at each kernel.
MAX_CHUNKS, MIN_ROUNDS = 4, 16
# Bytes of the memory of a worker begin at a multiple of this: a line of the cache.
LINE = 64


class SharedLoop(Record):
    """What threads share of a loop: its node, and how many ``workers`` there are, each of which
    takes ``grain`` rounds at a time.

    ``offsets`` are places in a worker's memory, of ``size`` bytes, for slots that belong to one
    round.
    """

    node: For
    workers: int
    grain: int
    offsets: Mapping[int, int]
    size: int


class SharedText(Record):
    """A loop's function over workers, as `LoopText`.

    Its buffers are: progress, the flag, which one who returns early sets; then the externals, the
    addresses of ``codes``, and the memory of all workers, ``block`` bytes for each. Progress is
    ``header`` bytes, zeros at first, and ``room`` bytes for each worker.
    """

    text: LoopText
    header: int
    block: int


def render_shared(
    shared: SharedLoop, slots: Sequence[Slot], codes: Sequence[tuple[Module, str]], inside: int
) -> SharedText | None:
    """The function of a loop that threads share, or None where it has to be done by one, or where
    threads share what is inside of a round. Slots from ``inside`` on belong to one round."""
    found = Survey(slots, codes, inside)
    small = found.small(shared.node)
    if not found.alone and shared.node.trips >= MIN_ROUNDS:
        found = Survey(slots, codes, inside, chunks=MAX_CHUNKS)
        found.visit([shared.node])
    if not found.alone or any(map(_has_variables, [codes[code][0] for code in found.called])):
        return None
    return (SmallWorker if small else Worker)(found).shared(shared)


def _has_variables(module: Module) -> bool:
    """Whether a module has memory that its callers share."""
    return any(not x.constant for x in module.memory) or any(map(_has_variables, module.parts))


class _Sharing(Text):
    """What the functions of small and of other loops have in common."""

    resumes: list[str]

    def shared(self, shared: SharedLoop) -> SharedText:
        """The function of a loop."""
        raise NotImplementedError

    def late(self) -> str:
        """Write the test whether this worker has been busy for long."""
        raise NotImplementedError

    def kept(self) -> list[tuple[str, int]]:
        """The values of a worker that are kept while it does not run: names and bytes."""
        raise NotImplementedError

    def state(self, workers: int) -> int:
        """Write where the state of this worker is; the bytes of the header."""
        header = -(-(8 + 8 * workers) // LINE) * LINE
        self.head += [
            "  %place = alloca i64",
            "  %word = add i64 %start, 1",
            "  %resumed = getelementptr i64, ptr %p0, i64 %word",
        ]
        return header

    def work(self, shared: SharedLoop, begun: Callable[[], None]) -> None:
        """Write rounds until there are no more, or until it has been long."""
        node, trips = shared.node, shared.node.trips
        now, after = "%now", "%upto"
        self.counters += [now, after]
        self.head += [f"  {name} = alloca i64" for name in (now, after)]
        # another worker had to return, or nothing is left: those who have begun go on later
        early = self.emit("load atomic i8, ptr %p1 monotonic, align 1")
        early = self.emit(f"icmp ne i8 {early}, 0")
        place = self.emit("load i64, ptr %resumed")
        fresh = self.emit(f"icmp eq i64 {place}, 0")
        taken = self.emit("load atomic i64, ptr %p0 monotonic, align 8")
        done = self.emit(f"and i1 {fresh}, {self.emit(f'icmp sge i64 {taken}, {trips}')}")
        with self.when(self.emit(f"or i1 {early}, {done}"), "over"):
            pass
        self.line(f"store i64 {place}, ptr %place")
        begun()
        self.line(f"br i1 {fresh}, label %fresh, label %restore")
        self.label("fresh")
        self.line(f"store i64 0, ptr {now}")
        self.line(f"store i64 0, ptr {after}")
        self.line("br label %head")
        self.label("head")
        some = self.emit(
            f"icmp slt i64 {self.emit(f'load i64, ptr {now}')},"
            f" {self.emit(f'load i64, ptr {after}')}"
        )
        self.line(f"br i1 {some}, label %round, label %fetch")
        self.label("fetch")
        late = self.late()
        self.line(f"br i1 {late}, label %pause, label %take")
        self.label("take")
        first = self.emit(f"atomicrmw add ptr %p0, i64 {shared.grain} monotonic")
        self.line(f"store i64 {first}, ptr {now}")
        last = self.scalar_min(self.emit(f"add i64 {first}, {shared.grain}"), trips)
        self.line(f"store i64 {last}, ptr {after}")
        self.line(f"br i1 {self.emit(f'icmp slt i64 {first}, {trips}')}, label %round, label %over")
        self.label("round")
        self.around.append((node, now))
        self.slices(node, self.emit(f"load i64, ptr {now}"))
        self.nodes(node.body)
        self.around.pop()
        following = self.emit(f"add i64 {self.emit(f'load i64, ptr {now}')}, 1")
        self.line(f"store i64 {following}, ptr {now}")
        self.line("br label %head")
        self.label("pause")
        left = self.emit("load atomic i64, ptr %p0 monotonic, align 8")
        with self.when(self.emit(f"icmp slt i64 {left}, {trips}"), "over"):
            self.line("store atomic i8 1, ptr %p1 monotonic, align 1")
        self.line("br label %over")

    def ends(self, header: int) -> int:
        """Write how a worker ends, and where it keeps its values; the bytes they take."""
        values = self.kept() if self.resumes else []
        room = -(-sum(-(-size // 8) * 8 for _, size in values) // LINE) * LINE
        self.head += [
            f"  %room = mul i64 %start, {room}",
            f"  %states = getelementptr i8, ptr %p0, i64 {header}",
            "  %state = getelementptr i8, ptr %states, i64 %room",
        ]
        if self.resumes:
            self.label("keep")
            self._moved(values, True)
            self.line(f"store i64 {self.emit('load i64, ptr %place')}, ptr %resumed")
            self.line("store atomic i8 1, ptr %p1 monotonic, align 1")
            self.line("br label %over")
        self.label("restore")
        self._moved(values, False)
        self.line("store i64 0, ptr %resumed")
        cases = " ".join(f"i64 {i}, label %{x}" for i, x in enumerate(self.resumes, 1))
        again = self.emit("load i64, ptr %place")
        self.line(f"switch i64 {again}, label %over [ {cases} ]")
        self.label("over")
        self.line("ret void")
        return room

    def _moved(self, values: Sequence[tuple[str, int]], keep: bool) -> None:
        at = 0
        for name, size in values:
            place = self.emit(f"getelementptr i8, ptr %state, i64 {at}")
            self.copy(*((place, name) if keep else (name, place)), size)
            at += -(-size // 8) * 8


class SmallWorker(Inlined, _Sharing):
    """A function that has its kernels in it; a round works in memory on its stack."""

    def shared(self, shared: SharedLoop) -> SharedText:
        views = {view for view, _, _ in shared.node.slices}
        copied, self.lines = self.lines, []
        externals = self.memory(set(), views, self.found.steady())
        copied, self.lines = self.lines, copied  # what is copied is not needed by all
        header = self.state(shared.workers)
        self.head += ["  %left = alloca i64", f"  store i64 {self.patience()}, ptr %left"]
        self.work(shared, lambda: self.lines.extend(copied))
        room = self.ends(header)
        module = self.closed("loop", self.kernels(), 2 + len(externals), Effort.LOOP)
        return SharedText(LoopText(module, externals, room), header, 0)

    def late(self) -> str:
        left = self.emit(f"sub i64 {self.emit('load i64, ptr %left')}, 1")
        self.line(f"store i64 {left}, ptr %left")
        return self.emit(f"icmp slt i64 {left}, 0")

    def kept(self) -> list[tuple[str, int]]:
        own = [(self.named("m", slot), self.slots[slot].size) for slot in self.own]
        return [(name, 8) for name in self.counters] + [x for x in own if x[1]]


class Worker(Called, _Sharing):
    """A function that calls kernels by address; a round works in the worker's part of a block."""

    def __init__(self, found: Survey) -> None:
        super().__init__(found)
        self.resumes: list[str] = []
        self.variables: list[str] = []

    def shared(self, shared: SharedLoop) -> SharedText:
        found, own = self.found, shared.offsets
        moved = {*found.sliced, *found.swapped, *found.points}
        outside = [slot for slot in found.used if slot not in own]
        codes = [f"%{self.function_name(number)}" for number in found.called]
        names = ["%p0", "%p1", *[self.named("x", slot) for slot in outside], *codes, "%blocks"]
        for i, name in enumerate(names):
            self.external(i, name)
        self.head.append(f"  %offset = mul i64 %start, {shared.size}")
        self.head.append("  %block = getelementptr i8, ptr %blocks, i64 %offset")
        for slot, offset in own.items():
            if slot in found.used:
                name = self.named("x", slot)
                self.head.append(f"  {name} = getelementptr i8, ptr %block, i64 {offset}")
        for slot in found.used:
            if slot in moved:
                self.variable(slot, self.named("x", slot))
                self.variables.append(self.named("s", slot))
            else:
                self.fixed[slot] = self.named("x", slot)
        declared, self.metadata, self.clock, self.period = counter()
        self.declared["clock"] = declared
        header = self.state(shared.workers)
        self.head.append("  %began = alloca i64")

        def begun() -> None:
            self.line(f"store i64 {self.emit(self.clock)}, ptr %began")

        self.work(shared, begun)
        room = self.ends(header)
        module = self.closed("loop", [], len(names), Effort.QUICK)
        text = LoopText(module, tuple(outside), room, (), tuple(found.called))
        return SharedText(text, header, shared.size)

    def launch(self, node: Run) -> None:
        name = f"%{self.function_name(node.code)}"
        row = self.row(node, True)[0]
        for low in range(0, node.extent, node.chunk):
            high = min(low + node.chunk, node.extent)
            self.line(f"call void {name}({row}, i64 {low}, i64 {high})")

    def late(self) -> str:
        began = self.emit("load i64, ptr %began")
        spent = self.emit(f"sub i64 {self.emit(self.clock)}, {began}")
        return self.emit(f"icmp ugt i64 {spent}, {self.period}")

    def kept(self) -> list[tuple[str, int]]:
        return [(name, 8) for name in (*self.counters, *self.variables)]

    def inner(self, node: For | While) -> None:
        """Rounds of a loop; after long the function returns in between."""
        self.resumes.append(f"back{len(self.resumes) + 1}")
        n = len(self.resumes)
        at = f"%c{n}"
        if isinstance(node, For):
            self.counters.append(at)
            self.head.append(f"  {at} = alloca i64")
            self.line(f"store i64 0, ptr {at}")
        self.line(f"br label %back{n}")
        self.label(f"back{n}")
        with self.when(self.late(), "keep"):
            self.line(f"store i64 {n}, ptr %place")
        if isinstance(node, For):
            now = self.emit(f"load i64, ptr {at}")
            more = self.emit(f"icmp slt i64 {now}, {node.trips}")
        else:
            more = self.holds(node)
        self.line(f"br i1 {more}, label %again{n}, label %left{n}")
        self.label(f"again{n}")
        if isinstance(node, For):
            self.slices(node, now)
        self.nodes(node.body)
        if isinstance(node, For):
            following = self.emit(f"add i64 {self.emit(f'load i64, ptr {at}')}, 1")
            self.line(f"store i64 {following}, ptr {at}")
        self.line(f"br label %back{n}")
        self.label(f"left{n}")
