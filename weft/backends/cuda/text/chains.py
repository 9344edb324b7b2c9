"""Chains of products as LLVM text for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.backends.cuda.chain import Chain, Part, Step, held
from weft.backends.cuda.ptx import GpuModule, shared_address, shared_memory
from weft.backends.cuda.schedule import COPIED, Schedule, copied_bytes
from weft.backends.cuda.text.columns import COPIES, BlockColumns, Clusters
from weft.backends.cuda.text.launch import Launch
from weft.backends.cuda.text.threads import Threads
from weft.backends.llvm.code import Module, Parameter
from weft.kernel.kernel import Loop, Reduce

# What a thread holds of the last product's rows.
HELD = Parameter("ptr", "held")
# Memory of a block for copies, of which a launch says how much it is.
ROOM = shared_memory(COPIES, 0)


class _Turns(Clusters):
    """Columns of a product that a cluster makes in turns, for all of its blocks."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.what)
        self.step = step

    def _numbers(self, number: str) -> list[str]:
        """Of all turns, what would be the number of a block of a kernel of this product alone."""
        cluster = self.schedule.cluster
        rank = self.emit(f"and i64 {number}, {cluster - 1}")
        group = self.emit(f"lshr i64 {number}, {cluster.bit_length() - 1}")
        own = self.emit(f"mul i64 {group}, {self.step.own * cluster}")
        first = self.emit(f"add i64 {own}, {rank}")
        distances = [turn * self.step.apart * cluster for turn in range(self.step.turns)]
        return [self.emit(f"add i64 {first}, {n}") for n in distances]

    def _place(self, turn: int) -> None:
        """Begin with a turn: it has memory of its own."""
        self.prefix = f"{self.name}turn{turn}_"
        self.first_byte = turn * copied_bytes(self.schedule)

    def _in_turns(self, run: Callable[[int], None]) -> None:
        """Do something for all turns at a time, by as many threads each as it has columns."""
        tid, columns = self.tid, self.schedule.columns
        if columns == self.schedule.threads:  # one turn, and all threads have a part of it
            self._place(0)
            self.known = {}
            run(0)
            return
        group = self.emit(f"lshr i64 {tid}, {columns.bit_length() - 1}")
        column = self.emit(f"and i64 {tid}, {columns - 1}")
        for turn in range(self.step.turns):
            with self.when(self.emit(f"icmp eq i64 {group}, {turn}")):
                self._place(turn)
                self.tid, self.known = column, {}
                run(turn)
                self.tid, self.known = tid, {}

    def _run(self, number: str) -> None:
        self.name = self.prefix
        (loop,) = [s for s in self.kernel.body if isinstance(s, Loop)]
        stores = [s for s in self.kernel.body if not isinstance(s, Loop)]
        bases: list[str] = []
        sums: list[Reduce] = []
        axis = ""
        for turn, own in enumerate(self._numbers(number)):
            self._place(turn)
            axis, base = self._open_columns(own)
            sums = self._block_loop(axis, loop)
            bases.append(base)
        self._barrier()
        self._in_turns(lambda turn: self._give_sums(sums, range(self.schedule.cluster)))
        self._word("void", "cluster_arrive", "")
        self._word("void", "cluster_wait", "")

        def finish(turn: int) -> None:
            for s in sums:
                self.accumulators[s.symbol] = self._total(s)
            self.axes[axis] = self.emit(f"add i64 {bases[turn]}, {self.tid}")
            self._body(stores)

        self._in_turns(finish)
        self._barrier()


class _EarlyTurns(_Turns):
    """What has the rows of all turns on their way."""

    def _run(self, number: str) -> None:
        self.name = self.prefix
        for turn, own in enumerate(self._numbers(number)):
            self._place(turn)
            self.copy_rows(own)
        self.end_copies()


class _Sums(Clusters):
    """Rows of a product by columns of blocks, which are in registers since before the launch before
    this one has ended."""

    def _run(self, number: str) -> None:
        BlockColumns._run(self, number)

    def _await_rows(self) -> None:
        pass

    def _arrived(self, row: int) -> str:
        return self.emit(f"getelementptr i8, ptr %held, i64 {row * COPIED}")

    def _bring(self, row: int, source: str) -> None:
        self._word("void", "hold_four", f"ptr {self._arrived(row)}, ptr {source}")


class _EarlySums(_Sums):
    def _run(self, number: str) -> None:
        self.copy_rows(number)


class Text:
    """A chain as parts of a launch, whose parameters are given."""

    def __init__(self, chain: Chain, launch: Launch, name: str, given: Sequence[str]) -> None:
        self.chain, self.launch, self.name, self.given = chain, launch, name, given
        numbered = enumerate(chain.kept, chain.parameters)
        self.kept = {f"{name}_kept{n}": size for n, size in numbered}
        launch.modules.append(Module((), memory=[ROOM]))

    def _call(self, word: str, what: Threads | GpuModule, step: Step, number: str) -> None:
        """Call a part of a step."""
        name, held = f"{self.name}_{word}", [HELD] if isinstance(what, Clusters) else []
        self.launch.add(name, what, held)
        places = [*self.given, *map(shared_address, self.kept)]
        pointers = [f"ptr {places[n]}" for n in step.places]
        self.launch.call_function(name, [*map(str, held), *pointers, f"i32 {number}"])

    def early(self, number: str) -> None:
        """What has rows of both matrices on their way to shared memory, before the launch before
        this one has ended."""
        self.launch.allocated.append(f"  %held = alloca [{held(self.chain)} x i8], align 16")
        first, last = self.chain.steps[0], self.chain.steps[-1]
        self._call("early0", _EarlyTurns(first), first, number)
        self._call("early1", _EarlySums(last.what), last, number)

    def near(self, number: str) -> None:
        """What brings near what steps will read."""
        for i, step in enumerate(self.chain.steps):
            if isinstance(step.what, Part) and step.what.near:
                read = step._replace(places=step.places[1:-1])
                self._call(f"near{i}", step.what.near, read, number)

    def whole(self, number: str, given: Sequence[str]) -> None:
        """All steps one after the other, on parameters of which blocks may have copies."""
        self.given, launch = given, self.launch
        launch.keep(self.kept)
        cluster = launch.emit(f"udiv i32 {number}, {self.chain.cluster}")
        for i, step in enumerate(self.chain.steps):
            name, what = f"step{i}", step.what
            if isinstance(what, Schedule):
                self._call(name, _Turns(step) if step.turns else _Sums(what), step, number)
            elif what.elements:
                with launch.first_threads(what.elements):
                    self._call(name, Threads(what.schedule), step, cluster)
            else:
                launch.meet()
                self._call(name, what.schedule, step, number)
