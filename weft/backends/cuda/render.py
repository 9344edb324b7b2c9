"""Kernels as LLVM text for a GPU.

Values are rendered by the same instructions as on the CPU, for one thread at a time, so that they
have the same bits; loops, reductions and the grid are the GPU's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import CLUSTER, WAIT
from weft.backends.cuda.routines.device import DEFINITIONS
from weft.backends.cuda.schedule import (
    TILE,
    Schedule,
    nest,
    private_rows,
    read_once,
    turned,
)
from weft.backends.llvm.text.instructions import MEMORY, memory_type, scalar_type
from weft.backends.llvm.text.loops import combine
from weft.backends.llvm.text.rare import rare
from weft.backends.llvm.text.render import Function
from weft.backends.llvm.text.serial import Writer
from weft.kernel.kernel import Kernel, Loop, Reduce, Store, statements
from weft.kernel.nodes import BOOL, F32, F64, Value, is_float, walk
from weft.kernel.spec import verify

NAME = "kernel"
_WARP = 32
# Bytes of a line of the cache.
_LINE = 128
_PREFETCH = 'call void asm sideeffect "prefetch.global.L2 [$0];", "l"'
# Operations that seldom matter from which a branch around them costs less.
_RARE = 8
# Operations that take denormal numbers of float32 as 0, and give none.
_FLUSHED = frozenset("add sub mul fma div".split())
# Denormal numbers of float32 are flushed, as on the CPU; those of float64 GPUs always keep.
FLUSHES = 'attributes #0 = { "denormal-fp-math-f32"="preserve-sign,preserve-sign" }\n'
# How many threads a block has, so that registers for all of them are there.
_KERNEL = (
    'attributes #1 = {{ "denormal-fp-math-f32"="preserve-sign,preserve-sign"'
    ' "nvvm.maxntid"="{threads}"{more} }}\n'
)
# Threads of a multiprocessor that are enough, so that the assembler keeps many loads in registers
# rather than more blocks.
_RESIDENT = 1024
DECLARED = """\
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
"""


def render(schedule: Schedule) -> str:
    """The LLVM module of a kernel."""
    return writer_of(schedule).text()


def writer_of(schedule: Schedule) -> _Text:
    """What writes the text of a kernel."""
    verify(schedule.kernel)
    if schedule.kernel.serial:
        return _SerialText(schedule)
    if schedule.rows:
        found = _Clusters if schedule.cluster else _BlockColumns if schedule.columns else _Columns
        return found(schedule)
    return _Tiles(schedule) if schedule.tile is not None else _Text(schedule)


def attributes(schedule: Any) -> str:
    """What is told of a kernel, or of the last of several."""
    # fewer threads have all registers there are, and the assembler then takes too many
    if schedule.block_threads <= 256:
        cluster = getattr(schedule, "cluster", 0)
        told = CLUSTER.format(cluster) if cluster > 1 else ""
        return FLUSHES.replace("#0", "#1") + told
    enough = _RESIDENT // schedule.block_threads if getattr(schedule, "columns", True) else 0
    more = f' "nvvm.minctasm"="{enough}"' if enough else ""
    return _KERNEL.format(threads=schedule.block_threads, more=more)


def early(schedule: Schedule, names: dict[int, str]) -> tuple[dict[str, str], list[str]]:
    """Functions, by name, and lines that begin to bring a matrix near while the kernel before this
    one still runs; ``names`` are those of buffers."""
    matrix = read_once(schedule) if schedule.columns else None
    if matrix is None:
        return {}, []
    block = "  %early.block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()"
    if not schedule.cluster:
        return {}, [block, *_prefetch(schedule, matrix.attr[0], names[matrix.attr[0]])]
    writer = _Copies(schedule)
    text = writer.piece("early")
    given = "".join(f"ptr {name}, " for name in names.values())
    call = f"  call void @early({given}i32 %early.block)"
    return {**writer.declared, "@early": text}, [block, call]


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


def _computed_with(kernel: Kernel) -> set[int]:
    """The numbers of values of float64 as float32 that are only computed with."""
    roots = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    values = walk(roots)
    found = {v.number for v in values if v.op == "cast" and v.dtype == F32} - {
        v.number for v in roots
    }
    if not found:
        return found
    for v in values:
        if v.op not in _FLUSHED or v.dtype != F32:
            found -= {x.number for x in v.args}
    return {v.number for v in values if v.number in found and v.args[0].dtype == F64}


class _Text(Function):
    """The text of one kernel while it is written."""

    prefix = ""  # of the names of shared memory
    written_out = True  # instructions that LLVM wouldn't choose

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.kernel, 1)
        self.ieee_minimum = False  # float64 has no such instruction
        self.schedule = schedule
        self.shared: list[str] = []  # memory that the threads of a block share
        self.labels = 0
        self.computed_with = _computed_with(self.kernel)
        self.private = private_rows(schedule.kernel) if schedule.trips else set()
        self.place = 0  # which of its own elements of a row a thread is at
        self.serial: list[str] = []  # lines of the entry block, for what loops count
        self.reduces = {s.symbol: s for s in statements(self.kernel.body) if isinstance(s, Reduce)}

    def text(self) -> str:
        self._write("")
        outside = self._outside()
        parameters = []
        for i in outside:
            told = "readonly " if self.kernel.buffers[i].role == "in" else ""
            told += "noalias " if self.schedule.distinct else ""
            told += "align 16 " if self.schedule.vector > 1 else ""
            parameters.append(f"ptr {told}%b{i}")
        head = f"define ptx_kernel void @{NAME}({', '.join(parameters)}) #1 {{"
        functions, first = early(self.schedule, {i: f"%b{i}" for i in outside})
        declared = [*self.shared, *(self.declared | functions).values()]
        body = ["entry:", *self.serial, *first, WAIT, *self.lines, "}", FLUSHES]
        told = attributes(self.schedule)
        return "\n".join([DECLARED, *declared, head, *body, told])

    def piece(self, name: str) -> str:
        """The kernel as a function of its buffers and the number of a block."""
        self.prefix = f"{name}_"
        self._write("%block")
        given = "".join(f"ptr %b{i}, " for i in self._outside())
        head = f"define internal void @{name}({given}i32 %block) #0 alwaysinline {{"
        return "\n".join([head, "entry:", *self.serial, *self.lines, "}"])

    def _outside(self) -> list[int]:
        """The buffers that aren't memory of an iteration."""
        return [i for i, b in enumerate(self.kernel.buffers) if b.role != "row"]

    def _write(self, block: str) -> None:
        """Write what a block does."""
        vector = self.schedule.vector
        for i, b in enumerate(self.kernel.buffers):
            if b.role == "row":
                self._row(i, b)
        tid = self.emit("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        block = block or self.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()")
        self.tid = self.emit(f"zext i32 {tid} to i64")
        self.lane = tid
        number = self.emit(f"zext i32 {block} to i64")
        if self.schedule.group > 1:  # a warp has an iteration
            first = self.emit(f"mul i64 {number}, {self.schedule.group}")
            warp = self.emit(f"lshr i64 {self.tid}, {_WARP.bit_length() - 1}")
            number = self.emit(f"add i64 {first}, {warp}")
            self.tid = self.emit(f"and i64 {self.tid}, {_WARP - 1}")
        if not self.schedule.shares and self.schedule.tile is None:
            first = self.emit(f"mul i64 {number}, {self.schedule.threads}")
            number = self.emit(f"add i64 {first}, {self.tid}")
            number = self.emit(f"mul i64 {number}, {vector}") if vector > 1 else number
            inside = self.emit(f"icmp slt i64 {number}, {self.schedule.iterations}")
            self.line(f"br i1 {inside}, label %inside, label %done")
            self.label("inside")
        self._run(number)
        self.line("ret void")

    def _run(self, number: str) -> None:
        """What is done for a number of the grid."""
        self._open_grid(number)
        if self.schedule.shares:
            self._shared_body(self.kernel.body)
            return
        last = (self.kernel.axes or (self.kernel.grid,))[-1]
        vector = range(self.schedule.vector)
        self._several(self.kernel.body, last[0] if last else "", vector)
        self.line("br label %done")
        self.label("done")

    def _row(self, i: int, b: Any) -> None:
        """Scratch of one iteration: shared by a block, or a thread's own."""
        kind = memory_type(b.dtype)
        if not self.schedule.shares:
            self.line(f"%b{i} = alloca [{b.size} x {kind}], align 16")
            return
        if i in self.private:
            own = self.schedule.trips * self.schedule.vector
            self.serial.append(f"  %b{i} = alloca [{own} x {kind}], align 16")
            return
        name = f"@{self.prefix}row{i}"
        place = f"{name} = internal addrspace(3) global [{b.size} x {kind}] undef, align 16"
        self.shared.append(place)
        self.line(f"%b{i} = addrspacecast ptr addrspace(3) {name} to ptr")

    def address(self, buffer: int, offset: str) -> str:
        if buffer in self.private:
            offset = str(self.place)
        return super().address(buffer, offset)

    def float_operation(self, v: Value, args: list[str]) -> str:
        if v.op == "rem":  # LLVM's own is not exact here
            kind = scalar_type(v.dtype)
            if v.dtype in (F32, F64):
                name = self._remainder(v.dtype)
                return self.emit(f"call {kind} {name}({kind} {args[0]}, {kind} {args[1]})")
            wide = [self.float_cast(v.dtype, F32, x) for x in args]
            name = self._remainder(F32)
            found = self.emit(f"call float {name}(float {wide[0]}, float {wide[1]})")
            return self.float_cast(F32, v.dtype, found)
        return super().float_operation(v, args)

    def render(self, v: Value, args: list[str]) -> str:
        if not self.written_out:
            return super().render(v, args)
        if v.op == "cast" and v.args[0].dtype in (F32, F64) and v.dtype in (F32, F64):
            # numbers that are flushed already, or will be, need no flushing here
            if v.dtype == F64 and v.args[0].dtype == F32 and v.args[0].op in _FLUSHED:
                return self._converted("cvt.f64.f32", "double", "=d,f", f"float {args[0]}")
            if v.dtype == F32 and v.number in self.computed_with:
                return self._converted("cvt.rn.f32.f64", "float", "=f,d", f"double {args[0]}")
        return super().render(v, args)

    def _converted(self, word: str, kind: str, constraints: str, operand: str) -> str:
        return self.emit(
            f'call {kind} asm "{word} $0, $1;", "{constraints}"({operand}) memory(none)'
        )

    def _remainder(self, dtype: np.dtype) -> str:
        """The name of a function for remainders, which the module then has."""
        kind, name = scalar_type(dtype), f"@remainder_{scalar_type(dtype)}"
        for intrinsic, count in (("fabs", 1), ("copysign", 2)):
            used = f"@llvm.{intrinsic}.{self.suffix(dtype)}"
            self.declared[used] = f"declare {kind} {used}({', '.join([kind] * count)})"
        self.declared[name] = _remainder(dtype)
        return name

    def to_bfloat(self, x: str) -> str:
        return self.emit(f'call i16 asm "cvt.rn.bf16.f32 $0, $1;", "=h,f"(float {x}) memory(none)')

    def extreme(self, v: Value, args: list[str]) -> str:
        return self.call("minimum" if v.op == "min" else "maximum", v.dtype, args)

    def _open_grid(self, number: str) -> None:
        kernel = self.kernel
        if kernel.grid is None:
            return
        axes = kernel.axes or (kernel.grid,)
        self._count(number, list(axes))

    def _count(self, number: str, axes: Sequence[tuple[str, int]]) -> None:
        """Give axes their positions, of which the last changes fastest."""
        for axis, extent in reversed(axes[1:]):
            self.axes[axis] = self.emit(f"urem i64 {number}, {extent}")
            number = self.emit(f"udiv i64 {number}, {extent}")
        self.axes[axes[0][0]] = number

    # --- statements -------------------------------------------------------------------------------

    def _variable(self, kind: str, initial: str) -> str:
        """Memory of a thread, which LLVM keeps in registers."""
        name = self.fresh("var")
        self.serial.append(f"  {name} = alloca {kind}")
        self.line(f"store {kind} {initial}, ptr {name}")
        return name

    def _loop(self, start: str, stop: Any, step: int, run: Any) -> None:
        """A loop of one thread over its share of a range."""
        self.labels += 1
        tag = f"l{self.labels}"
        at = self._variable("i64", start)
        self.line(f"br label %{tag}head")
        self.label(f"{tag}head")
        now = self.emit(f"load i64, ptr {at}")
        more = self.emit(f"icmp slt i64 {now}, {stop}")
        self.line(f"br i1 {more}, label %{tag}body, label %{tag}end")
        self.label(f"{tag}body")
        known = dict(self.known)
        run(now)
        self.known = known
        after = self.emit(f"add i64 {now}, {step}")
        self.line(f"store i64 {after}, ptr {at}")
        self.line(f"br label %{tag}head")
        self.label(f"{tag}end")

    def _body(self, body: list[Any]) -> None:
        """Statements of one thread."""
        self._begin(body)
        for i, s in enumerate(body):
            if isinstance(s, Loop):
                self._serial_loop(s)
                self._begin(body[i + 1 :])
            elif isinstance(s, Store):
                self.store(s)
            else:
                self._accumulate(s)

    def _several(self, body: list[Any], axis: str, distances: Sequence[int]) -> None:
        """Statements of one thread, so far along an axis: all is read before anything is written,
        so that accesses to neighbours become wide ones."""
        if len(distances) == 1 or any(isinstance(s, Loop) for s in body):
            for i in distances:
                self._at(axis, i, lambda: self._body(body))
            return
        states = []
        first, known, place = self.axes[axis], dict(self.known), self.place
        loads = self._certain_loads(body)
        for i in distances:
            self.known, self.place = dict(known), place + i
            self.axes[axis] = first if i == 0 else self.emit(f"add i64 {first}, {i}")
            for v in loads:
                self.value(v)
            states.append((self.axes[axis], self.known))
        for i, (at, found) in enumerate(states):
            self.axes[axis], self.known, self.place = at, found, place + i
            self._begin(body)
            states[i] = (at, self.known)
        for i, (at, found) in enumerate(states):
            self.axes[axis], self.known, self.place = at, found, place + i
            for s in body:
                self.store(s) if isinstance(s, Store) else self._accumulate(s)
        self.axes[axis], self.known, self.place = first, known, place

    def _certain_loads(self, body: list[Any]) -> list[Value]:
        """What is read whatever is computed: read first, neighbours become one access."""
        operands = [v for s in body for v in s.operands]
        inside = {number for found in rare(operands, _RARE) for number in found.inside}
        return [
            v for v in walk(operands) if v.op == "load" and not v.args and v.number not in inside
        ]

    def _at(self, axis: str, distance: int, run: Any) -> None:
        """Run something further along an axis."""
        if not distance:
            run()
            return
        first, known = self.axes[axis], self.known
        self.known = {}
        self.axes[axis] = self.emit(f"add i64 {first}, {distance}")
        run()
        self.axes[axis], self.known = first, known

    def _begin(self, body: list[Any]) -> None:
        """Values are read before anything is written: results may have the memory of operands."""
        straight = list(takewhile(lambda s: not isinstance(s, Loop), body))
        operands = [v for s in straight for v in s.operands]
        if operands:
            self.expect(rare(operands, _RARE))
            for v in operands:
                self.value(v)
            self.expect([])

    def _serial_loop(self, s: Loop) -> None:
        own = self._started(s)

        def run(now: str) -> None:
            self.axes[s.axis] = now
            self._body(s.body)

        self._loop("0", self._stop(s), 1, run)
        self._finished(own)

    def _stop(self, s: Loop) -> Any:
        """Iterations of a loop: of the last piece of an axis, what is left of it."""
        if s.whole is None:
            return s.extent
        piece, total = s.whole
        before = self.emit(f"mul i64 {self.axes[piece]}, {s.extent}")
        left = self.emit(f"sub i64 {total}, {before}")
        return self.scalar_min(left, s.extent)

    def _started(self, loop: Loop) -> list[Reduce]:
        """Begin the reductions that are complete when a loop is over."""
        direct = [s.symbol for s in loop.body if isinstance(s, Reduce)]
        symbols = dict.fromkeys([*direct, *loop.carries])
        found = [self.reduces[n] for n in symbols if n not in self.carried]
        for s in found:
            self.carried[s.symbol] = self._variable(scalar_type(s.dtype), self._unit(s))
        return found

    def _finished(self, own: list[Reduce]) -> None:
        for s in own:
            kind = scalar_type(s.dtype)
            total = self.emit(f"load {kind}, ptr {self.carried.pop(s.symbol)}")
            initial = self.constant_scalar(s.dtype, s.initial)
            self.accumulators[s.symbol] = self._combined(s, initial, total)

    def _accumulate(self, s: Reduce) -> None:
        kind, value = scalar_type(s.dtype), self.value(s.value)
        if s.symbol not in self.carried:  # outside of all loops
            self.accumulators[s.symbol] = self._combined(
                s, self.constant_scalar(s.dtype, s.initial), value
            )
            return
        before = self.emit(f"load {kind}, ptr {self.carried[s.symbol]}")
        after = self._combined(s, before, value)
        self.line(f"store {kind} {after}, ptr {self.carried[s.symbol]}")

    def _combined(self, s: Reduce, x: str, y: str) -> str:
        return combine(self, s.op, s.dtype, x, y)

    def _unit(self, s: Reduce) -> str:
        """What a thread's share of a reduction begins with."""
        number: Any = s.initial
        if s.op in ("add", "xor"):
            number = 0
        elif s.op == "mul":
            number = 1
        return self.constant_scalar(s.dtype, number)

    # --- blocks -----------------------------------------------------------------------------------

    def _shared_body(self, body: list[Any]) -> None:
        """Statements of a block: loops are shared by its threads, the rest is done by the first."""
        waiting: list[Any] = []
        for s in body:
            if not isinstance(s, Loop):
                waiting.append(s)
                continue
            self._by_first(waiting)
            waiting = []
            self._shared_loop(s)
        self._by_first(waiting)

    def _by_first(self, body: list[Any]) -> None:
        if not body:
            return
        for s in body:  # all threads know what reductions give
            if isinstance(s, Reduce):
                self._accumulate(s)
        stores = [s for s in body if isinstance(s, Store)]
        if not stores:
            return
        self.labels += 1
        tag = f"f{self.labels}"
        first = self.emit(f"icmp eq i64 {self.tid}, 0")
        self.line(f"br i1 {first}, label %{tag}one, label %{tag}all")
        self.label(f"{tag}one")
        known = dict(self.known)
        self._body(stores)
        self.known = known
        self.line(f"br label %{tag}all")
        self.label(f"{tag}all")
        self._barrier()

    def _shared_loop(self, s: Loop) -> None:
        axes, body = nest(s)
        inner = prod(n for _, n in axes[1:])
        own = self._started(s)
        vector = self.schedule.vector
        step = self.schedule.threads * vector
        first = self.tid if vector == 1 else self.emit(f"mul i64 {self.tid}, {vector}")

        def run(now: str, distances: Sequence[int] = range(vector)) -> None:
            self._count(now, axes)
            self._several(body, axes[-1][0], distances)

        def at(trip: str) -> None:
            before = self.emit(f"mul i64 {trip}, {step}")
            run(self.emit(f"add i64 {before}, {first}"))

        if self.schedule.trips:
            known = self.known
            for trip in range(self.schedule.trips):
                self.known, self.place = dict(known), trip * vector
                run(self.emit(f"add i64 {first}, {trip * step}") if trip else first)
            self.known, self.place = known, 0
            self._shared_end(own, body)
            return
        stop: Any = self._stop(s)
        if s.whole is None and len(axes) == 1 and stop >= 4 * step:
            self._two_by_two(first, stop, step, run)
        elif s.whole is None and stop * inner % step == 0:  # the same for all threads
            self._loop("0", stop * inner // step, 1, at)
        else:
            if s.whole is not None:
                stop = self.emit(f"mul i64 {stop}, {inner}") if inner > 1 else stop
            else:
                stop *= inner
            self._loop(first, stop, step, run)
        self._shared_end(own, body)

    def _two_by_two(self, first: str, stop: int, step: int, run: Any) -> None:
        """A loop of many iterations, of which two are read before either is computed, so that
        enough of memory is on its way."""
        near = range(self.schedule.vector)
        both = [*near, *(step + i for i in near)]

        def at(trip: str) -> None:
            before = self.emit(f"mul i64 {trip}, {2 * step}")
            run(self.emit(f"add i64 {before}, {first}"), both)

        pairs = stop // (2 * step)
        self._loop("0", pairs, 1, at)
        if pairs * 2 * step < stop:
            rest = self.emit(f"add i64 {first}, {pairs * 2 * step}")
            self._loop(rest, stop, step, run)

    def _shared_end(self, own: list[Reduce], body: list[Any]) -> None:
        for r in own:
            self._reduced(r)
        stores = [x for x in statements(body) if isinstance(x, Store)]
        if any(x.buffer not in self.private for x in stores):
            self._barrier()

    def _reduced(self, s: Reduce) -> None:
        """Combine what the threads of a block have; all of them get the result."""
        kind = scalar_type(s.dtype)
        value = self.emit(f"load {kind}, ptr {self.carried.pop(s.symbol)}")
        distance = 1
        while distance < _WARP:
            value = self._combined(s, value, self._shuffled(value, s.dtype, distance))
            distance *= 2
        warps = self.schedule.threads // _WARP
        if warps > 1:
            value = self._between_warps(s, value, warps)
        initial = self.constant_scalar(s.dtype, s.initial)
        self.accumulators[s.symbol] = self._combined(s, initial, value)

    def _shuffled(self, value: str, dtype: np.dtype, distance: int) -> str:
        """The value of the thread whose number differs by one bit."""
        bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize
        word, kind = f"i{bits}", scalar_type(dtype)
        if is_float(dtype):
            value = self.emit(f"bitcast {kind} {value} to {word}")
        parts = []
        if bits < 32:
            parts = [self.emit(f"zext {word} {value} to i32")]
        elif bits == 32:
            parts = [value]
        else:
            parts = [self.emit(f"trunc i64 {value} to i32")]
            high = self.emit(f"lshr i64 {value}, 32")
            parts.append(self.emit(f"trunc i64 {high} to i32"))
        given = [self._exchanged(part, distance) for part in parts]
        if bits < 32:
            found = self.emit(f"trunc i32 {given[0]} to {word}")
        elif bits == 32:
            found = given[0]
        else:
            low, high = (self.emit(f"zext i32 {x} to i64") for x in given)
            high = self.emit(f"shl i64 {high}, 32")
            found = self.emit(f"or i64 {low}, {high}")
        return self.emit(f"bitcast {word} {found} to {kind}") if is_float(dtype) else found

    def _exchanged(self, word: str, distance: int) -> str:
        return self.emit(
            f"call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 {word}, i32 {distance}, i32 31)"
        )

    def _barrier(self) -> None:
        self.line("call void @llvm.nvvm.barrier0()")

    def _between_warps(self, s: Reduce, value: str, warps: int) -> str:
        kind, place = scalar_type(s.dtype), f"@{self.prefix}warps{s.symbol}"
        room = kind if kind != "i1" else "i8"
        # LLVM joins loads of it, and takes for granted an alignment that it doesn't declare
        words = f"[{warps} x {room}] undef, align 16"
        self.shared.append(f"{place} = internal addrspace(3) global {words}")
        if room != kind:
            value = self.emit(f"zext i1 {value} to i8")
        warp = self.emit(f"lshr i64 {self.tid}, 5")
        at = self.emit(f"getelementptr {room}, ptr addrspace(3) {place}, i64 {warp}")
        self.line(f"store {room} {value}, ptr addrspace(3) {at}")
        self._barrier()
        total = ""
        for i in range(warps):
            at = self.emit(f"getelementptr {room}, ptr addrspace(3) {place}, i64 {i}")
            one = self.emit(f"load {room}, ptr addrspace(3) {at}")
            if room != kind:
                one = self.emit(f"icmp ne i8 {one}, 0")
            total = one if not total else self._combined(s, total, one)
        self._barrier()
        return total


class _Columns(_Text):
    """A kernel whose threads each reduce some neighbouring columns: several rows are read before
    any is added, so that enough of memory is on its way."""

    def _run(self, number: str) -> None:
        self._open_grid(number)
        axis = (self.kernel.axes or (self.kernel.grid,))[-1][0]
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
        carried, own = [], []
        for _ in self.columns:
            self.carried = {}
            own = self._started(loop)
            carried.append(self.carried)
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
        for place, column, sums, known in states:
            self.axes.update(place)
            self.axes[axis], self.carried, self.known = column, sums, known
            self._begin(body)
            for s in body:
                self._accumulate(s)


class _BlockColumns(_Columns):
    """A kernel whose blocks each have all rows of some columns."""

    def _run(self, number: str) -> None:
        axis, base = self._open_columns(number)
        found: list[Reduce] = []
        for loop in self.kernel.body:
            if isinstance(loop, Loop):
                found += self._block_loop(axis, loop)
        self.line("call void @llvm.nvvm.barrier0()")
        some = self.emit(f"icmp slt i64 {self.tid}, {self.schedule.columns}")
        some = self._met(found, some)
        self.line(f"br i1 {some}, label %columns, label %done")
        self.label("columns")
        self.known = {}
        self.axes[axis] = self.emit(f"add i64 {base}, {self.tid}")
        for r in found:
            self.accumulators[r.symbol] = self._total(r)
        self._body([s for s in self.kernel.body if not isinstance(s, Loop)])
        self.line("br label %done")
        self.label("done")

    def _open_columns(self, number: str) -> tuple[str, str]:
        """Find the columns and the first row of a thread; the axis of columns, and the first column
        of the block."""
        schedule = self.schedule
        *outer, (axis, extent) = self.kernel.axes or (self.kernel.grid,)
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
        carried, own = [], []
        for _ in self.columns:
            self.carried = {}
            own = self._started(loop)
            carried.append(self.carried)
        groups, rows = self.schedule.threads // self.across, self.schedule.rows
        trips = prod(n for _, n in axes) // (groups * rows * max(1, self.schedule.cluster))

        def run(trip: str) -> None:
            before = self.emit(f"mul i64 {trip}, {groups * rows}")
            now = self.emit(f"add i64 {before}, {self.row}")
            self._rows(now, range(0, groups * rows, groups), axis, axes, body, carried)

        self._loop("0", trips, 1, run)
        warps, columns = self.schedule.threads // _WARP, self.schedule.columns
        warp = self.emit(f"lshr i64 {self.tid}, 5")
        start = self.emit(f"mul i64 {warp}, {columns}")
        start = self.emit(f"add i64 {start}, {self.own}")
        for s in own:
            kind, place = scalar_type(s.dtype), f"@{self.prefix}sums{s.symbol}"
            room = "i8" if kind == "i1" else kind
            size = f"[{warps * columns} x {room}]"
            self.shared.append(f"{place} = internal addrspace(3) global {size} undef, align 16")
            for i, sums in enumerate(carried):
                value = self.emit(f"load {kind}, ptr {sums[s.symbol]}")
                distance = self.across
                while distance < _WARP:
                    value = self._combined(s, value, self._shuffled(value, s.dtype, distance))
                    distance *= 2
                value = self.emit(f"zext i1 {value} to i8") if room != kind else value
                at = self.emit(f"add i64 {start}, {i}") if i else start
                at = self.emit(f"getelementptr {room}, ptr addrspace(3) {place}, i64 {at}")
                self.line(f"store {room} {value}, ptr addrspace(3) {at}")
        return own

    def _total(self, s: Reduce) -> str:
        """What all warps have of the column of a thread, and what it begins with."""
        return self._summed(s, self.constant_scalar(s.dtype, s.initial))

    def _summed(self, s: Reduce, total: str) -> str:
        kind, place = scalar_type(s.dtype), f"@{self.prefix}sums{s.symbol}"
        room = "i8" if kind == "i1" else kind
        for warp in range(self.schedule.threads // _WARP):
            at = self.emit(f"add i64 {self.tid}, {warp * self.schedule.columns}")
            at = self.emit(f"getelementptr {room}, ptr addrspace(3) {place}, i64 {at}")
            one = self.emit(f"load {room}, ptr addrspace(3) {at}")
            one = self.emit(f"icmp ne i8 {one}, 0") if room != kind else one
            total = self._combined(s, total, one)
        return total


# Bytes that a thread copies to shared memory at a time, and where they are.
_COPIED, _COPIES = 16, "@copies"


class _Clusters(_BlockColumns):
    """The same for clusters of blocks that share the rows of their columns. What a thread reads of
    the largest array is on its way to shared memory when this begins."""

    def _run(self, number: str) -> None:
        self.matrix = read_once(self.schedule)
        self.spot: tuple[str, int] | None = None  # where a row that was copied is, and the column
        rows, threads = self.schedule.rows, self.schedule.threads
        room = f"[{rows * threads * _COPIED} x i8]"
        self.shared.append(f"{_COPIES} = internal addrspace(3) global {room} undef, align 16")
        super()._run(number)

    def _word(self, result: str, name: str, given: str) -> str:
        """A call of a word of GPUs."""
        self.declared[f"@{name}"] = DEFINITIONS[name]
        call = f"call {result} @{name}({given})"
        if result != "void":
            return self.emit(call)
        self.line(call)
        return ""

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
        own = self.emit(f"mul i64 {self.tid}, {_COPIED}")
        at = self.emit(f"add i64 {own}, {row * self.schedule.threads * _COPIED}")
        return self.emit(f"getelementptr i8, ptr addrspace(3) {_COPIES}, i64 {at}")

    def _rows(
        self, now: str, distances: range, axis: str, axes: Any, body: Any, carried: Any
    ) -> None:
        self._word("void", "wait_all_copies", "")
        for i, distance in enumerate(distances):
            self._count(self.emit(f"add i64 {now}, {distance}"), axes)
            place = f"%row{i}"
            self.serial.append(f"  {place} = alloca [{_COPIED} x i8], align {_COPIED}")
            copy = self._copy(i)
            found = self.emit(f"load <4 x i32>, ptr addrspace(3) {copy}, align {_COPIED}")
            self.line(f"store <4 x i32> {found}, ptr {place}, align {_COPIED}")
            for j, (column, sums) in enumerate(zip(self.columns, carried, strict=True)):
                self.known, self.spot = {}, (place, j)
                self.axes[axis], self.carried = column, sums
                self._begin(body)
                for s in body:
                    self._accumulate(s)
        self.known, self.spot = {}, None

    def _met(self, found: list[Reduce], some: str) -> str:
        """Give the first block of a cluster what this one has of all columns; that one goes on."""
        cluster, columns = self.schedule.cluster, self.schedule.columns
        if cluster == 1:
            return some
        self.line(f"br i1 {some}, label %own, label %left")
        self.label("own")
        for s in found:
            place = f"@{self.prefix}all{s.symbol}"
            room = f"[{cluster * columns} x float]"
            self.shared.append(f"{place} = internal addrspace(3) global {room} undef, align 16")
            total = self._summed(s, self._unit(s))
            before = self.emit(f"mul i64 {self.rank}, {columns}")
            at = self.emit(f"add i64 {before}, {self.tid}")
            at = self.emit(f"getelementptr float, ptr addrspace(3) {place}, i64 {at}")
            at = self.emit(f"addrspacecast ptr addrspace(3) {at} to ptr")
            self._word("void", "cluster_write_f32", f"ptr {at}, i32 0, float {total}")
        self.line("br label %left")
        self.label("left")
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
            at = self.emit(f"getelementptr float, ptr addrspace(3) {place}, i64 {at}")
            total = self._combined(s, total, self.emit(f"load float, ptr addrspace(3) {at}"))
        return total


class _Copies(_Clusters):
    """What has the rows that threads read on their way to shared memory, all of them at once."""

    def _run(self, number: str) -> None:
        self.matrix, self.spot = read_once(self.schedule), None
        axis, _ = self._open_columns(number)
        self.axes[axis] = self.columns[0]
        axes, _ = nest(next(s for s in self.kernel.body if isinstance(s, Loop)))
        groups = self.schedule.threads // self.across
        for i in range(self.schedule.rows):
            self.known = {}
            self._count(self.emit(f"add i64 {self.row}, {i * groups}"), axes)
            source = self.address(self.matrix.attr[0], self.offset(self.matrix.attr[1]))
            target = self.emit(f"addrspacecast ptr addrspace(3) {self._copy(i)} to ptr")
            self._word("void", "copy_near", f"ptr {target}, ptr {source}")
        self._word("void", "commit_copies", "")
        if self.schedule.cluster > 1:  # the first block is there when others write to its memory
            self._word("void", "cluster_arrive", "")
            self._word("void", "cluster_wait", "")
        self.known = {}


class _Tiles(_Text):
    """A kernel that transposes: squares go through shared memory, so that neighbouring threads read
    and write neighbouring elements."""

    def _run(self, number: str) -> None:
        assert self.schedule.tile is not None
        across, last = self.schedule.tile
        extents = dict(self.kernel.axes)
        counts = [(a, -(-n // TILE) if a in (across, last) else n) for a, n in self.kernel.axes]
        self._count(number, counts)
        firsts = {a: self.emit(f"mul i64 {self.axes[a]}, {TILE}") for a in (across, last)}
        fast = self.emit(f"and i64 {self.tid}, {TILE - 1}")
        slow = self.emit(f"lshr i64 {self.tid}, {TILE.bit_length() - 1}")
        rows = self.schedule.threads // TILE
        loads = turned(self.kernel, last)
        self.tiles: dict[int, str] = {}
        for v in loads:
            kind = memory_type(v.dtype)
            name = f"@tile{v.number}"
            room = f"[{TILE * (TILE + 1)} x {kind}]"
            self.shared.append(f"{name} = internal addrspace(3) global {room} undef, align 16")
            self.tiles[v.number] = name
        self.reading = False
        for row in range(0, TILE, rows):
            other = self.emit(f"add i64 {slow}, {row}") if row else slow
            self._guarded(firsts, {across: fast, last: other}, extents, lambda: self._keep(loads))
        self._barrier()
        self.reading = True
        for row in range(0, TILE, rows):
            other = self.emit(f"add i64 {slow}, {row}") if row else slow
            spots = {across: other, last: fast}
            self._guarded(firsts, spots, extents, lambda: self._body(self.kernel.body))

    def _guarded(self, firsts: Any, spots: dict[str, str], extents: Any, run: Any) -> None:
        """Do something at a spot of the square, if that is inside of the arrays."""
        self.labels += 1
        tag, inside = f"g{self.labels}", "true"
        self.spots = spots
        for axis, spot in spots.items():
            self.axes[axis] = self.emit(f"add i64 {firsts[axis]}, {spot}")
            one = self.emit(f"icmp slt i64 {self.axes[axis]}, {extents[axis]}")
            inside = one if inside == "true" else self.emit(f"and i1 {inside}, {one}")
        self.line(f"br i1 {inside}, label %{tag}in, label %{tag}out")
        self.label(f"{tag}in")
        self.known = {}
        run()
        self.known = {}
        self.line(f"br label %{tag}out")
        self.label(f"{tag}out")

    def _spot(self, v: Value) -> str:
        """Where an element of a load is in its square, a row for each place along the last axis."""
        assert self.schedule.tile is not None
        across, last = self.schedule.tile
        row = self.emit(f"mul i64 {self.spots[last]}, {TILE + 1}")
        at = self.emit(f"add i64 {row}, {self.spots[across]}")
        kind = memory_type(v.dtype)
        return self.emit(f"getelementptr {kind}, ptr addrspace(3) {self.tiles[v.number]}, i64 {at}")

    def _keep(self, loads: list[Value]) -> None:
        for v in loads:
            kind = memory_type(v.dtype)
            base = self.address(v.attr[0], self.offset(v.attr[1]))
            one = self.emit(f"load {kind}, ptr {base}, align {v.dtype.itemsize}")
            self.line(f"store {kind} {one}, ptr addrspace(3) {self._spot(v)}")

    def load(self, value: Value, args: list[str]) -> str:
        if not self.reading or value.number not in self.tiles:
            return super().load(value, args)
        kind = memory_type(value.dtype)
        name = self.emit(f"load {kind}, ptr addrspace(3) {self._spot(value)}")
        if value.dtype not in MEMORY:
            return name
        if value.dtype == BOOL:
            return self.emit(f"icmp ne {kind} {name}, 0")
        return self.emit(f"bitcast {kind} {name} to {scalar_type(value.dtype)}")


def _remainder(dtype: np.dtype) -> str:
    """A function for the remainder of a division, by subtracting multiples that are exact."""
    bits, mantissa = (32, 23) if dtype == F32 else (64, 52)
    kind, word, suffix = scalar_type(dtype), f"i{bits}", f"f{bits}"
    exponents = (1 << (bits - 1)) - (1 << mantissa)
    infinity = "0x7FF0000000000000"
    return f"""\
define internal {kind} @remainder_{kind}({kind} %x, {kind} %y) #0 {{
entry:
  %a = call {kind} @llvm.fabs.{suffix}({kind} %x)
  %b = call {kind} @llvm.fabs.{suffix}({kind} %y)
  %finite = fcmp olt {kind} %a, {infinity}
  %some = fcmp ogt {kind} %b, 0.0
  %ok = and i1 %finite, %some
  br i1 %ok, label %head, label %none
none:
  %zero = fsub {kind} %x, %x
  %nan = fdiv {kind} %zero, %zero
  ret {kind} %nan
head:
  %r = phi {kind} [ %a, %entry ], [ %left, %subtract ]
  %more = fcmp oge {kind} %r, %b
  br i1 %more, label %body, label %done
body:
  %rb = bitcast {kind} %r to {word}
  %bb = bitcast {kind} %b to {word}
  %re = and {word} %rb, {exponents}
  %be = and {word} %bb, {exponents}
  %tiny = icmp eq {word} %be, 0
  br i1 %tiny, label %double, label %scale
scale:
  %up = sub {word} %re, %be
  %tb = add {word} %bb, %up
  %t = bitcast {word} %tb to {kind}
  %over = fcmp ogt {kind} %t, %r
  %half = fmul {kind} %t, 0.5
  %fit = select i1 %over, {kind} %half, {kind} %t
  br label %subtract
double:
  %d = phi {kind} [ %b, %body ], [ %twice, %double ]
  %twice = fadd {kind} %d, %d
  %again = fcmp ole {kind} %twice, %r
  br i1 %again, label %double, label %subtract
subtract:
  %m = phi {kind} [ %fit, %scale ], [ %d, %double ]
  %left = fsub {kind} %r, %m
  br label %head
done:
  %signed = call {kind} @llvm.copysign.{suffix}({kind} %r, {kind} %x)
  ret {kind} %signed
}}"""


# --- serial kernels -------------------------------------------------------------------------------

# What one instruction does: of integers with and without sign, and of floats.
_ATOMIC = {"add": ("add", "add"), "min": ("min", "umin"), "max": ("max", "umax")}


class _SerialText(_Text):
    """The text of a kernel whose threads each run one iteration of the grid."""

    def _run(self, number: str) -> None:
        self._open_grid(number)
        _Atomics(self).block(self.kernel.body)
        self.line("br label %done")
        self.label("done")


class _Atomics(Writer):
    """Statements of a thread that others run beside."""

    def combined(self, op: str, dtype: np.dtype, base: str, value: str) -> None:
        f, kind = self.f, memory_type(dtype)
        if is_float(dtype) and op == "add":
            f.emit(f"atomicrmw fadd ptr {base}, {kind} {value} monotonic")
        elif not is_float(dtype) and op in _ATOMIC:
            word = _ATOMIC[op][dtype.kind == "u"]
            f.emit(f"atomicrmw {word} ptr {base}, {kind} {value} monotonic")
        else:
            self._until_unchanged(op, dtype, base, value)

    def _until_unchanged(self, op: str, dtype: np.dtype, base: str, value: str) -> None:
        """Combine and write, again where another thread has written in between."""
        f, kind, bits = self.f, scalar_type(dtype), f"i{8 * dtype.itemsize}"
        tag = f.fresh("x")[1:]
        first = f.emit(f"load {bits}, ptr {base}, align {dtype.itemsize}")
        before = f.block
        f.line(f"br label %{tag}again")
        f.label(f"{tag}again")
        f.line(f"%{tag}old = phi {bits} [ {first}, %{before} ], [ %{tag}now, %{tag}again ]")
        old = f.emit(f"bitcast {bits} %{tag}old to {kind}")
        made = f.emit(f"bitcast {kind} {combine(f, op, dtype, old, value)} to {bits}")
        pair = f.emit(f"cmpxchg ptr {base}, {bits} %{tag}old, {bits} {made} monotonic monotonic")
        f.line(f"%{tag}now = extractvalue {{ {bits}, i1 }} {pair}, 0")
        done = f.emit(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
        f.line(f"br i1 {done}, label %{tag}end, label %{tag}again")
        f.label(f"{tag}end")
