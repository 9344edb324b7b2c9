"""Chains of products as LLVM text for a GPU."""

from __future__ import annotations

from collections.abc import Callable

from weft.backends.cuda.chain import Chain, Part, Step
from weft.backends.cuda.ptx import GpuModule, shared_memory
from weft.backends.cuda.schedule import COPIED, Schedule, copied_bytes
from weft.backends.cuda.text.columns import COPIES, BlockColumns, Clusters
from weft.backends.cuda.text.threads import Threads, inlined
from weft.backends.llvm.code import Call, Module, Parameter, parameters
from weft.kernel.kernel import Loop, Reduce

# What a thread holds of the last product's rows.
HELD = Parameter("ptr", "held")
# Memory of a block for copies, of which a launch says how much it is.
ROOM = shared_memory(COPIES, 0)
# Makes a function, under a name, of the kernel of a routine.
AsFunction = Callable[[GpuModule, str], Module]


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
    """A chain: functions of its parameters and the number of a block."""

    def __init__(self, chain: Chain, name: str) -> None:
        self.chain, self.name = chain, name
        self.modules = [Module((), memory=[ROOM])]

    def _add(self, writer: Threads, name: str) -> None:
        self.modules += writer.modules(name, (HELD,) if isinstance(writer, Clusters) else ())

    def _call(self, name: str, step: Step, number: str) -> str:
        own = self.chain.parameters
        given = [f"ptr %{'p' if n < own else 'k'}{n}" for n in step.places]
        held = [] if isinstance(step.what, Part) else [str(HELD)]
        return Call("  call void ", name, [*held, *given, f"i32 {number}"])

    def _function(self, name: str, body: list[str]) -> None:
        places = parameters("ptr", *[f"p{n}" for n in range(self.chain.parameters)])
        kept, memory = [], []
        for n, size in enumerate(self.chain.kept, self.chain.parameters):
            place = f"{self.name}_kept{n}"
            memory.append(shared_memory(place, size))
            kept.append(f"  %k{n} = addrspacecast ptr addrspace(3) @{place} to ptr")
        lines = ("entry:", *kept, *body, "  ret void")
        made = inlined(name, (HELD, *places, *parameters("i32", "block")), lines)
        self.modules.append(Module([made], memory=memory))

    def early(self) -> str:
        """What has rows of both matrices on their way to shared memory."""
        first, last = self.chain.steps[0], self.chain.steps[-1]
        body: list[str] = []
        writers = (_EarlyTurns(first), _EarlySums(last.what))
        for step, writer in zip((first, last), writers, strict=True):
            name = f"{self.name}_early{len(body)}"
            self._add(writer, name)
            body.append(self._call(name, step, "%block"))
        self._function(f"{self.name}_early", body)
        return f"{self.name}_early"

    def near(self, as_function: AsFunction) -> str:
        """What brings near what steps will read."""
        found: list[str] = []
        for step in self.chain.steps:
            if isinstance(step.what, Part) and step.what.near:
                name = f"{self.name}_near{len(found)}"
                self.modules.append(as_function(step.what.near, name))
                given = [*[f"ptr %p{n}" for n in step.places[1:-1]], "i32 %block"]
                found.append(Call("  call void ", name, given))
        self._function(f"{self.name}_near", found)
        return f"{self.name}_near"

    def whole(self, as_function: AsFunction) -> None:
        """All steps one after the other; ``as_function`` makes one of a routine."""
        body = ["  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()"]
        body.append(f"  %group = udiv i32 %block, {self.chain.cluster}")
        for i, step in enumerate(self.chain.steps):
            name = f"{self.name}_step{i}"
            call = self._call(name, step, "%block")
            what = step.what
            if step.turns:
                self._add(_Turns(step), name)
                body.append(call)
            elif isinstance(what, Schedule):
                self._add(_Sums(what), name)
                body.append(call)
            elif isinstance(what, Part) and what.elements:
                self._add(Threads(what.schedule), name)
                body += [
                    f"  %some{i} = icmp slt i32 %tid, {what.elements}",
                    f"  br i1 %some{i}, label %do{i}, label %done{i}",
                    f"do{i}:",
                    self._call(name, step, "%group"),
                    f"  br label %done{i}",
                    f"done{i}:",
                ]
            else:
                self.modules.append(as_function(what.schedule, name))
                body += ["  call void @llvm.nvvm.barrier0()", call]
        self._function(self.name, body)
