"""Kernels that reduce columns, as LLVM text for a GPU; and what they read before the kernel before
them has ended."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cuda.routines.device import words
from weft.backends.cuda.schedule import COPIED, Schedule, copied_bytes, nest, read_once
from weft.backends.cuda.text.threads import WARP, Threads
from weft.backends.llvm.code import Call, Module, Parameter, parameters
from weft.backends.llvm.text.instructions import scalar_type
from weft.kernel.kernel import Loop, Reduce
from weft.kernel.nodes import BF16, F16, F32

# Numbers of so few bits that products of two are float32's.
NARROW = (BF16, F16)
# Bytes of a line of the cache.
_LINE = 128
_PREFETCH = 'call void asm sideeffect "prefetch.global.L2 [$0];", "l"'


class Columns(Threads):
    """A kernel whose threads each reduce some neighbouring columns: several rows are read before
    any is added, so that enough of memory is on its way."""

    def _run(self, number: str) -> None:
        self._open_grid(number)
        axis = self.kernel.grid_axes[-1][0]
        first = self.axes[axis]
        columns = range(self.schedule.vector)
        self.columns = [first, *(self.emit(f"add i64 {first}, {i}") for i in columns[1:])]
        self.sums: list[dict[int, str]] = [{} for _ in columns]
        stores = [s for s in self.kernel.body if not isinstance(s, Loop)]
        for loop in self.kernel.body:
            if isinstance(loop, Loop):
                self._column_loop(axis, loop)
        for at, sums in zip(self.columns, self.sums, strict=True):
            self.known, self.axes[axis], self.accumulators = {}, at, sums
            self._body(stores)
        self.line("br label %done")
        self.label("done")

    def _column_loop(self, axis: str, loop: Loop) -> None:
        axes, body = nest(loop)
        carried, own = self._started_columns(loop)
        stop, inner = self._stop(loop), prod(n for _, n in axes[1:])
        if loop.whole is not None:
            stop = self.emit(f"mul i64 {stop}, {inner}") if inner > 1 else stop
        else:
            stop *= inner
        rows = self.schedule.rows
        several, rest = str(stop), 0
        if loop.whole is not None:
            several = self.emit(f"and i64 {stop}, {-rows}")
        elif stop % rows:
            several, rest = str(stop - stop % rows), stop % rows

        def run(now: str, rows: int) -> None:
            self._rows(now, range(rows), axis, axes, body, carried)

        self._loop("0", several, rows, lambda now: run(now, rows))
        if loop.whole is not None or rest:
            self._loop(several, stop, 1, lambda now: run(now, 1))
        for sums, found in zip(self.sums, carried, strict=True):
            self.carried, self.accumulators = found, sums
            self._finished(own)

    def _started_columns(self, loop: Loop) -> tuple[list[dict[int, str]], list[Reduce]]:
        """Begin the reductions of a loop for each column of a thread."""
        carried, own = [], []
        for _ in self.columns:
            self.carried = {}
            own = self._started(loop)
            carried.append(self.carried)
        return carried, own

    def _rows(
        self, now: str, distances: range, axis: str, axes: Any, body: Any, carried: Any
    ) -> None:
        """Add some rows of all columns of a thread, so far from one that all are read first."""
        states = []
        for distance in distances:
            at = now if distance == 0 else self.emit(f"add i64 {now}, {distance}")
            self._count(at, axes)
            place = {name: self.axes[name] for name, _ in axes}
            for column, sums in zip(self.columns, carried, strict=True):
                self.known = {}
                self.axes[axis] = column
                for v in self._certain_loads(body):
                    self.value(v)
                states.append((place, column, sums, self.known))

        def enter(i: int) -> None:
            place, column, self.carried, self.known = states[i]
            self.axes.update(place)
            self.axes[axis] = column

        every = self.computed(body, [known for *_, known in states], enter)
        for i, known in enumerate(every):
            enter(i)
            self.known = known
            for s in body:
                self._accumulate(s)

    def _accumulate(self, s: Reduce) -> None:
        """Products of narrow numbers are exact: one instruction multiplies and adds."""
        v = s.value
        narrow = v.op == "mul" and all(x.op == "cast" and x.args[0].dtype in NARROW for x in v.args)
        if not narrow or s.op != "add" or s.dtype != F32 or s.symbol not in self.carried:
            super()._accumulate(s)
            return
        before = self.emit(f"load float, ptr {self.carried[s.symbol]}")
        after = self.call("fma", F32, [*map(self.value, v.args), before])
        self.line(f"store float {after}, ptr {self.carried[s.symbol]}")


class BlockColumns(Columns):
    """A kernel whose blocks each have all rows of some columns."""

    def _run(self, number: str) -> None:
        axis, base = self._open_columns(number)
        stores = [s for s in self.kernel.body if not isinstance(s, Loop)]
        # what else results need is read while sums are made
        own = self.emit(f"and i64 {self.tid}, {self.schedule.columns - 1}")
        column = self.axes[axis] = self.emit(f"add i64 {base}, {own}")
        for v in self._certain_loads(stores):
            self.value(v)
        known = self.known
        found: list[Reduce] = []
        for loop in self.kernel.body:
            if isinstance(loop, Loop):
                found += self._block_loop(axis, loop)
        self.line("call void @llvm.nvvm.barrier0()")
        some = self.emit(f"icmp slt i64 {self.tid}, {self.schedule.columns}")
        some = self._met(found, some)
        self.line(f"br i1 {some}, label %columns, label %done")
        self.label("columns")
        self.known, self.axes[axis] = known, column
        for r in found:
            self.accumulators[r.symbol] = self._total(r)
        self._body(stores)
        self.line("br label %done")
        self.label("done")

    def _open_columns(self, number: str) -> tuple[str, str]:
        """Find the columns and the first row of a thread; the axis of columns, and the first column
        of the block."""
        schedule = self.schedule
        *outer, (axis, extent) = self.kernel.grid_axes
        self._count(number, [*outer, (axis, extent // schedule.columns)])
        base = self.emit(f"mul i64 {self.axes[axis]}, {schedule.columns}")
        self.across = schedule.columns // schedule.vector  # threads along a row
        group = self.emit(f"and i64 {self.tid}, {self.across - 1}")
        self.row = self.emit(f"lshr i64 {self.tid}, {self.across.bit_length() - 1}")
        self.own = self.emit(f"mul i64 {group}, {schedule.vector}")
        first = self.emit(f"add i64 {base}, {self.own}")
        more = range(1, schedule.vector)
        self.columns = [first, *(self.emit(f"add i64 {first}, {i}") for i in more)]
        return axis, base

    def _met(self, found: list[Reduce], some: str) -> str:
        """Whether a thread goes on with a column, if it has ``some``."""
        return some

    def _block_loop(self, axis: str, loop: Loop) -> list[Reduce]:
        """A loop whose rows the threads of a block share: each warp leaves what it has."""
        axes, body = nest(loop)
        carried, own = self._started_columns(loop)
        groups, rows = self.schedule.threads // self.across, self.schedule.rows
        step, total = groups * rows, prod(n for _, n in axes)

        def run(before: str, count: int = rows) -> None:
            now = self.emit(f"add i64 {before}, {self.row}")
            self._rows(now, range(0, groups * count, groups), axis, axes, body, carried)

        def one_row(now: str) -> None:
            self._rows(now, range(1), axis, axes, body, carried)

        def trip(number: str) -> None:
            run(self.emit(f"mul i64 {number}, {step}"))

        whole = loop.whole is None or loop.whole[1] % loop.extent == 0
        if whole and total % step == 0:
            self._loop("0", total // step // max(1, self.schedule.cluster), 1, trip)
        else:
            stop, inner = self._stop(loop), total // loop.extent
            stop = self.emit(f"mul i64 {stop}, {inner}")
            several = self.emit(f"and i64 {stop}, {-step}")
            self._loop("0", several, step, run)
            # of the rest, a thread may have some rows, or none
            first = self.emit(f"add i64 {several}, {self.row}")
            self._loop(first, stop, groups, one_row)
        warps, columns = self.schedule.threads // WARP, self.schedule.columns
        warp = self.emit(f"lshr i64 {self.tid}, 5")
        start = self.emit(f"mul i64 {warp}, {columns}")
        start = self.emit(f"add i64 {start}, {self.own}")
        for s in own:
            place = self._share(f"sums{s.symbol}", warps * columns, s.dtype)
            for i, sums in enumerate(carried):
                value = self.emit(f"load {scalar_type(s.dtype)}, ptr {sums[s.symbol]}")
                distance = self.across
                while distance < WARP:
                    value = self._combined(s, value, self._shuffled(value, s.dtype, distance))
                    distance *= 2
                at = self.emit(f"add i64 {start}, {i}") if i else start
                self._give(place, at, s.dtype, value)
        return own

    def _total(self, s: Reduce) -> str:
        """What all warps have of the column of a thread, and what it begins with."""
        return self._summed(s, self.constant_scalar(s.dtype, s.initial))

    def _summed(self, s: Reduce, total: str) -> str:
        place = f"@{self.prefix}sums{s.symbol}"
        for warp in range(self.schedule.threads // WARP):
            at = self.emit(f"add i64 {self.tid}, {warp * self.schedule.columns}")
            total = self._combined(s, total, self._taken(place, at, s.dtype))
        return total


# Where the copies of a block are.
COPIES = "copies"


class Clusters(BlockColumns):
    """The same for clusters of blocks that share the rows of their columns. What a thread reads of
    the largest array is on its way to shared memory when this begins."""

    first_byte = 0  # where copies begin in the memory for them

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.matrix = read_once(schedule)
        self.spot: tuple[str, int] | None = None  # where a row that was copied is, and the column

    def _run(self, number: str) -> None:
        self.share(COPIES, copied_bytes(self.schedule), "i8")
        super()._run(number)

    def _word(self, result: str, name: str, given: str) -> str:
        """A call of a word of GPUs."""
        self.words |= words([name])
        return self.call_function(name, [given] if given else [], result)

    def _open_columns(self, number: str) -> tuple[str, str]:
        cluster = self.schedule.cluster
        self.rank = self.emit(f"and i64 {number}, {cluster - 1}")
        found = super()._open_columns(self.emit(f"lshr i64 {number}, {cluster.bit_length() - 1}"))
        rows = self.schedule.rows * (self.schedule.threads // self.across)
        before = self.emit(f"mul i64 {self.rank}, {rows}")
        self.row = self.emit(f"add i64 {before}, {self.row}")
        return found

    def address(self, buffer: int, offset: str) -> str:
        if self.spot is None or buffer != self.matrix.attr[0]:
            return super().address(buffer, offset)
        place, column = self.spot
        return self.emit(
            f"getelementptr i8, ptr {place}, i64 {column * self.matrix.dtype.itemsize}"
        )

    def _copy(self, row: int) -> str:
        """Where the copy of a row of a thread is."""
        own = self.emit(f"mul i64 {self.tid}, {COPIED}")
        first = self.first_byte + row * self.schedule.threads * COPIED
        at = self.emit(f"add i64 {own}, {first}")
        return self.emit(f"getelementptr i8, ptr addrspace(3) @{COPIES}, i64 {at}")

    def _rows(
        self, now: str, distances: range, axis: str, axes: Any, body: Any, carried: Any
    ) -> None:
        loads = [v for v in self._certain_loads(body) if v.number != self.matrix.number]
        states = []
        for distance in distances:
            self._count(self.emit(f"add i64 {now}, {distance}"), axes)
            for column in self.columns:
                self.known, self.axes[axis] = {}, column
                for v in loads:
                    self.value(v)
                states.append((dict(self.axes), self.known))
        state = iter(states)
        self._await_rows()
        for i in range(len(distances)):
            place = self._arrived(i)
            for j, sums in enumerate(carried):
                (self.axes, self.known), self.spot, self.carried = next(state), (place, j), sums
                self._begin(body)
                for s in body:
                    self._accumulate(s)
        self.known, self.spot = {}, None

    def _await_rows(self) -> None:
        self._word("void", "wait_all_copies", "")

    def _arrived(self, row: int) -> str:
        """Where a row is, in registers."""
        place, copy = self.fresh("row"), self._copy(row)
        self.serial.append(f"  {place} = alloca [{COPIED} x i8], align {COPIED}")
        found = self.emit(f"load <4 x i32>, ptr addrspace(3) {copy}, align {COPIED}")
        self.line(f"store <4 x i32> {found}, ptr {place}, align {COPIED}")
        return place

    def _give_sums(self, sums: list[Reduce], blocks: range) -> None:
        """Give some blocks of the cluster what this one has of a column."""
        cluster, columns = self.schedule.cluster, self.schedule.columns
        for s in sums:
            place = self._share(f"all{s.symbol}", cluster * columns, F32)
            total = self._summed(s, self._unit(s))
            before = self.emit(f"mul i64 {self.rank}, {columns}")
            at = self.emit(f"add i64 {before}, {self.tid}")
            at = self.emit(f"getelementptr float, ptr addrspace(3) {place}, i64 {at}")
            at = self.emit(f"addrspacecast ptr addrspace(3) {at} to ptr")
            for block in blocks:
                self._word("void", "cluster_write_f32", f"ptr {at}, i32 {block}, float {total}")

    def _met(self, found: list[Reduce], some: str) -> str:
        """Give the first block of a cluster what this one has of all columns; that one goes on."""
        if self.schedule.cluster == 1:
            return some
        with self.when(some):
            self._give_sums(found, range(1))
        self._word("void", "cluster_arrive", "")
        first = self.emit(f"icmp eq i64 {self.rank}, 0")
        self.line(f"br i1 {first}, label %first, label %others")
        self.label("others")
        self.line("ret void")
        self.label("first")
        self._word("void", "cluster_wait", "")
        return some

    def _total(self, s: Reduce) -> str:
        if self.schedule.cluster == 1:
            return super()._total(s)
        total = self.constant_scalar(s.dtype, s.initial)
        place = f"@{self.prefix}all{s.symbol}"
        for block in range(self.schedule.cluster):
            at = self.emit(f"add i64 {self.tid}, {block * self.schedule.columns}")
            total = self._combined(s, total, self._taken(place, at, F32))
        return total

    def copy_rows(self, number: str) -> None:
        """Have what a block reads of the largest array on its way, all of it at once."""
        axis, _ = self._open_columns(number)
        self.axes[axis] = self.columns[0]
        axes, _ = nest(next(s for s in self.kernel.body if isinstance(s, Loop)))
        groups = self.schedule.threads // self.across
        for i in range(self.schedule.rows):
            self.known = {}
            self._count(self.emit(f"add i64 {self.row}, {i * groups}"), axes)
            self._bring(i, self.address(self.matrix.attr[0], self.offset(self.matrix.attr[1])))

    def _bring(self, row: int, source: str) -> None:
        target = self.emit(f"addrspacecast ptr addrspace(3) {self._copy(row)} to ptr")
        self._word("void", "copy_near", f"ptr {target}, ptr {source}")

    def end_copies(self) -> None:
        """Say that all copies have begun; others write to the memory of this block from now on."""
        self._word("void", "commit_copies", "")
        if self.schedule.cluster > 1:
            self._word("void", "cluster_arrive", "")
            self._word("void", "cluster_wait", "")
        self.known = {}


class _Copies(Clusters):
    """What has the rows that threads read on their way to shared memory."""

    def _run(self, number: str) -> None:
        self.copy_rows(number)
        self.end_copies()


# --- before the kernel before this one has ended --------------------------------------------------


def early(schedule: Schedule, names: dict[int, str]) -> tuple[list[Module], list[str]]:
    """Functions, as modules, and lines that begin to bring a matrix near while the kernel before
    this one still runs; ``names`` are those of buffers."""
    pieces = any(isinstance(s, Loop) and s.whole is not None for s in schedule.kernel.body)
    matrix = read_once(schedule) if schedule.columns and not pieces else None
    if matrix is None:
        return [], []
    block = "  %early.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()"
    if not schedule.cluster:
        return [], [block, *_prefetch(schedule, matrix.attr[0], names[matrix.attr[0]])]
    given = [*[f"ptr {name}" for name in names.values()], "i32 %early.block"]
    return _Copies(schedule).modules("early"), [block, Call("  call void ", "early", given)]


def _prefetch(schedule: Schedule, number: int, name: str) -> list[str]:
    """Lines that prefetch all of a matrix: threads have a line of the cache each."""
    matrix = schedule.kernel.buffers[number]
    lines = -(-matrix.size * matrix.dtype.itemsize // _LINE)
    threads = schedule.blocks * schedule.threads
    text = [
        "%early.thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        f"%early.first = mul i32 %early.block, {schedule.threads}",
        "%early.own = add i32 %early.first, %early.thread",
    ]
    for i in range(-(-lines // threads)):
        text += [
            f"%early.{i} = add i32 %early.own, {i * threads}",
            f"%early.less{i} = icmp slt i32 %early.{i}, {lines}",
            f"%early.line{i} = select i1 %early.less{i}, i32 %early.{i}, i32 {lines - 1}",
            f"%early.wide{i} = zext i32 %early.line{i} to i64",
            f"%early.at{i} = getelementptr [{_LINE} x i8], ptr {name}, i64 %early.wide{i}",
            f"%early.place{i} = addrspacecast ptr %early.at{i} to ptr addrspace(1)",
            f"{_PREFETCH}(ptr addrspace(1) %early.place{i})",
        ]
    return ["  " + line for line in text]


# Lines by which kernels prefetch for one after them: each block has a part.
_AHEAD = """\
%next{i}.thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
%next{i}.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
%next{i}.number = zext i32 %next{i}.block to i64
%next{i}.more = add i64 %bytes{i}, {rest}
%next{i}.lines = udiv i64 %next{i}.more, {piece}
%next{i}.share = mul i64 %next{i}.lines, {line}
%next{i}.before = mul i64 %next{i}.number, %next{i}.share
%next{i}.left = sub i64 %bytes{i}, %next{i}.before
%next{i}.less = icmp slt i64 %next{i}.left, %next{i}.share
%next{i}.size = select i1 %next{i}.less, i64 %next{i}.left, i64 %next{i}.share
%next{i}.first = icmp eq i32 %next{i}.thread, 0
%next{i}.some = icmp sgt i64 %next{i}.size, 0
%next{i}.does = and i1 %next{i}.first, %next{i}.some
%next{i}.count = trunc i64 %next{i}.size to i32
%next{i}.from = getelementptr i8, ptr %next{i}, i64 %next{i}.before
%next{i}.place = addrspacecast ptr %next{i}.from to ptr addrspace(1)
call void asm sideeffect "@$2 cp.async.bulk.prefetch.L2.global [$0], $1;", "l,r,b"\
(ptr addrspace(1) %next{i}.place, i32 %next{i}.count, i1 %next{i}.does)"""


def prefetched(count: int) -> tuple[Parameter, ...]:
    """Parameters of kernels that prefetch so many arrays."""
    places, sizes = [[f"{word}{i}" for i in range(count)] for word in ("next", "bytes")]
    return (*parameters("ptr", *places), *parameters("i64", *sizes))


def prefetch_next(blocks: int, count: int = 1) -> list[str]:
    """Lines by which so many blocks prefetch what a later kernel reads."""
    piece = blocks * _LINE
    text = [_AHEAD.format(rest=piece - 1, piece=piece, line=_LINE, i=i) for i in range(count)]
    return ["  " + line for lines in text for line in lines.splitlines()]
