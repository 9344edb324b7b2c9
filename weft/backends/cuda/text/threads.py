"""Kernels as LLVM text for a GPU: what its threads do.

Values are rendered by the same instructions as on the CPU, for one thread at a time, so that they
have the same bits; loops, reductions and the grid are the GPU's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import shared_memory
from weft.backends.cuda.schedule import WARP, Schedule, nest, private_rows
from weft.backends.cuda.text.narrow import PURE, RARE, Narrow
from weft.backends.llvm import code
from weft.backends.llvm.code import Memory, Module
from weft.backends.llvm.text.instructions import Lines, memory_type, scalar_type
from weft.backends.llvm.text.loops import combine
from weft.backends.llvm.text.rare import rare
from weft.base.sizes import room_for
from weft.kernel.kernel import Atomic, Kernel, Loop, Reduce, Store, statements
from weft.kernel.nodes import BF16, F16, F32, F64, U32, Value, is_float, walk

# Bytes of values in shared memory, by type; others have 8.
_WIDTHS = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4}
# Elements of a row that a block, and a thread, have room for where its length has no fixed value.
FEWEST_SHARED, FEWEST_OWN = 1 << 10, 1 << 5
# Iterations up to which all places are numbers of 32 bits, also those behind the last one that
# threads of the last block have.
MAX_SHORT_NUMBER = 1 << 31
# Operations that take denormal numbers of float32 as 0, and give none.
_FLUSHED = frozenset("add sub mul fma div".split())
# Operations that depend on where they are done: with which other threads, at which of its elements.
_IN_PLACE = frozenset(["across"])


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


def _turns(kernel: Kernel) -> dict[int, int]:
    """Values of 32 bits that are a number with its bits turned left, by how many, and 0 for shifts
    that are only parts of such."""
    roots = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    values = walk(roots)
    found = {v.number: turn for v in values if (turn := _turn(v))}
    if found:
        parts = {x.number for v in values if v.number in found for x in v.args}
        others = {x.number for v in values if v.number not in found for x in v.args}
        found |= dict.fromkeys(parts - others - {v.number for v in roots}, 0)
    return found


def _turn(v: Value) -> int:
    """By how many bits a value of 32 bits is a number turned left; 0 where it is no such value."""
    if v.op != "or" or v.dtype != U32 or [x.op for x in v.args] != ["shl", "lshr"]:
        return 0
    (x, left), (y, right) = (shift.args for shift in v.args)
    if x is not y or left.op != "const" or right.op != "const":
        return 0
    turned, rest = (int.from_bytes(by.attr, sys.byteorder) for by in (left, right))
    return turned if 0 < turned < 32 and turned + rest == 32 else 0


def counted(
    f: Lines, at: str, stop: Any, step: int, run: Callable[[str], None], kind: str = "i64"
) -> None:
    """A loop of numbers up to one, counted in a variable from what that is."""
    f.count += 1
    tag = f"l{f.count}"
    f.line(f"br label %{tag}head")
    f.label(f"{tag}head")
    now = f.emit(f"load {kind}, ptr {at}")
    more = f.emit(f"icmp slt {kind} {now}, {stop}")
    f.line(f"br i1 {more}, label %{tag}body, label %{tag}end")
    f.label(f"{tag}body")
    run(now)
    after = f.emit(f"add {kind} {now}, {step}")
    f.line(f"store {kind} {after}, ptr {at}")
    f.line(f"br label %{tag}head")
    f.label(f"{tag}end")


# A compact text with as many quotients and roots, or more, calls functions for them.
MIN_OUTLINED = 6


class Threads(Narrow):
    """The text of one kernel while it is written."""

    prefix = ""  # of the names of shared memory
    again = False  # whether a block does the kernel more than once
    # whether loops go through the elements of a thread: that takes a few times fewer instructions,
    # and gives the same bits
    compact = False
    outlined: bool | None = None  # whether quotients and roots are calls, once that is known
    # what its function takes after its buffers
    numbers = code.parameters("i32", "block")

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.kernel)
        self.ieee_minimum = False  # float64 has no such instruction
        self.schedule = schedule
        self.shared: list[Memory] = []  # memory that the threads of a block share
        self.shared_bytes = 0
        self.words: dict[str, Module] = {}  # functions that it calls
        self.computed_with, self.turned = _computed_with(self.kernel), _turns(self.kernel)
        self.private = private_rows(schedule.kernel) if schedule.trips else set()
        self.place: int | str = 0  # which of a thread's elements of a row is next
        self.serial: list[str] = []  # lines of the entry block, for what loops count
        self.reduces = {s.symbol: s for s in statements(self.kernel.body) if isinstance(s, Reduce)}

    def modules(self, name: str, first: Sequence[code.Parameter] = ()) -> list[Module]:
        """The modules of the kernel as a function of its buffers and the number of a block, with
        some parameters ahead of these, and of what it calls."""
        self.prefix = f"{name}_"
        self.write("%block")
        given = code.parameters("ptr", *[f"b{i}" for i in self.outside()])
        lines = ("entry:", *self.serial, *self.lines)
        made = inlined(name, (*first, *given, *self.numbers), lines)
        return [*self.words.values(), Module([made], self.declared, self.shared)]

    def share(self, name: str, count: int, kind: str) -> str:
        """Shared memory for so many values of a type, and its name."""
        self.shared.append(shared_memory(name, count, kind))
        self.shared_bytes += count * _WIDTHS.get(kind, 8)
        return f"@{name}"

    def outside(self) -> list[int]:
        """The buffers that aren't memory of an iteration."""
        return [i for i, b in enumerate(self.kernel.buffers) if b.role != "row"]

    def write(self, block: str) -> None:
        """Write what a block does."""
        vector = self.schedule.vector
        self._rows_of_scratch()
        tid = self.emit("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        block = block or self.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()")
        self.tid = self.emit(f"zext i32 {tid} to i64")
        self.lane = tid
        number = self.emit(f"zext i32 {block} to i64")
        if self.schedule.group > 1:  # a warp has an iteration
            first = self.emit(f"mul i64 {number}, {self.schedule.group}")
            warp = self.emit(f"lshr i64 {self.tid}, {WARP.bit_length() - 1}")
            number = self.emit(f"add i64 {first}, {warp}")
            self.tid = self.emit(f"and i64 {self.tid}, {WARP - 1}")
            if self.schedule.iterations % self.schedule.group:
                inside = self.emit(f"icmp slt i64 {number}, {self.schedule.iterations}")
                self.line(f"br i1 {inside}, label %some, label %none")
                self.label("none")
                self.line("ret void")
                self.label("some")
        if not self.schedule.shares and self.schedule.tile is None:
            each = self.schedule.threads * self.schedule.each
            first = self.emit(f"mul i64 {number}, {each}")
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
        if self.schedule.each > 1:
            self._far_apart(number)
            self.line("br label %done")
            self.label("done")
            return
        axes = self.kernel.grid_axes
        vector, iterations = self.schedule.vector, self.schedule.iterations
        rest = iterations % vector
        if type(rest) is int and rest:  # the last thread has fewer
            end = self.emit(f"add i64 {number}, {vector}")
            axis = axes[0][0]

            def one(now: str) -> None:
                self.axes[axis] = now
                self._body(self.kernel.body)

            if self.compact:
                self._loop(number, self.scalar_min(end, iterations), 1, one)
                self.line("br label %done")
                self.label("done")
                return
            whole = self.emit(f"icmp sle i64 {end}, {iterations}")
            self.line(f"br i1 {whole}, label %whole, label %rest")
            self.label("rest")
            self._loop(number, iterations, 1, one)
            self.line("br label %done")
            self.label("whole")
            self._open_grid(number)
        self._several(self.kernel.body, axes[-1][0] if axes else "", range(vector))
        self.line("br label %done")
        self.label("done")

    def _far_apart(self, number: str) -> None:
        """What a thread does that has several elements: all are read before any is written."""
        threads, each = self.schedule.threads, self.schedule.each
        body, iterations = self.kernel.body, self.schedule.iterations

        def one(now: str) -> None:
            self._open_grid(now)
            self._body(body)

        if self.compact:
            end = self.emit(f"add i64 {number}, {each * threads}")
            self._loop(number, self.scalar_min(end, iterations), threads, one)
            return
        end = self.emit(f"add i64 {number}, {(each - 1) * threads}")
        whole = self.emit(f"icmp slt i64 {end}, {iterations}")
        self.line(f"br i1 {whole}, label %whole, label %rest")
        self.label("rest")
        self._loop(number, iterations, threads, one)
        self.line("br label %done")
        self.label("whole")
        states = []
        loads, known = self._certain_loads(body), self.known
        for i in range(each):
            self.known = {}
            self._open_grid(self.emit(f"add i64 {number}, {i * threads}") if i else number)
            for v in loads:
                self.value(v)
            states.append((dict(self.axes), self.known))

        def enter(i: int) -> None:
            self.axes, self.known = states[i]

        every = self.computed(body, [found for _, found in states], enter)
        for (axes, _), found in zip(states, every, strict=True):
            self.axes, self.known = axes, found
            for s in body:
                self._done(s)

        def enter_again(i: int) -> None:
            (self.axes, _), self.known = states[i], every[i]

        self._mark(body, len(states), enter_again)
        self.known = known

    def _rows_of_scratch(self) -> None:
        for i, b in enumerate(self.kernel.buffers):
            if b.role == "row" and b.size:
                self._row(i, b)

    def _row(self, i: int, b: Any) -> None:
        """Scratch of one iteration: shared by a block, or a thread's own."""
        kind = memory_type(b.dtype)
        size = room_for(b.size, FEWEST_SHARED if self.schedule.shares else FEWEST_OWN)
        if not self.schedule.shares:
            self.line(f"%b{i} = alloca [{size} x {kind}], align 16")
            return
        if i in self.private:
            own = self.schedule.trips * self.schedule.vector
            self.serial.append(f"  %b{i} = alloca [{own} x {kind}], align 16")
            return
        name = self.share(f"{self.prefix}row{i}", size, kind)
        self.line(f"%b{i} = addrspacecast ptr addrspace(3) {name} to ptr")

    def read(self, v: Value) -> str:
        """A size, which is a parameter of the kernel, as a number of some type."""
        name, kind = str(v.attr), scalar_type(v.dtype)
        return name if kind == "i64" else self.emit(f"trunc i64 {name} to {kind}")

    def address(self, buffer: int, offset: str) -> str:
        if buffer in self.private:
            offset = str(self.place)
        return super().address(buffer, offset)

    def float_operation(self, v: Value, args: list[str]) -> str:
        if v.op == "rem":  # LLVM's own is not exact here
            kind = scalar_type(v.dtype)
            if v.dtype in (F32, F64):
                name = f"remainder_{kind}"
                self.words[name] = _remainder(v.dtype)
                return self.call_function(name, [f"{kind} {x}" for x in args], kind)
            wide = [self.float_cast(v.dtype, F32, x) for x in args]
            self.words["remainder_float"] = _remainder(F32)
            found = self.call_function("remainder_float", [f"float {x}" for x in wide], "float")
            return self.float_cast(F32, v.dtype, found)
        if self.compact and v.op in _OUTLINED and v.dtype == F32 and self._is_outlined():
            name = f"{v.op}_float"
            self.words[name] = _OUTLINED[v.op]
            return self.call_function(name, [f"float {x}" for x in args], "float")
        return super().float_operation(v, args)

    def _is_outlined(self) -> bool:
        """Whether a function divides, so that the assembler writes that out once."""
        if self.outlined is None:
            each = [
                walk([v for x in statements([s]) for v in _operands(x)]) for s in self.kernel.body
            ]
            count = sum(v.op in _OUTLINED and v.dtype == F32 for values in each for v in values)
            self.outlined = count >= MIN_OUTLINED
        return self.outlined

    def render(self, v: Value, args: list[str]) -> str:
        if v.op == "across":
            return self._across(v, *args)
        if not self.written_out:
            return super().render(v, args)
        if v.op == "cast" and v.args[0].dtype in (F32, F64) and v.dtype in (F32, F64):
            # numbers that are flushed already, or will be, need no flushing here
            if v.dtype == F64 and v.args[0].dtype == F32 and v.args[0].op in _FLUSHED:
                return self._converted("cvt.f64.f32", "double", "=d,f", f"float {args[0]}")
            if v.dtype == F32 and v.number in self.computed_with:
                return self._converted("cvt.rn.f32.f64", "float", "=f,d", f"double {args[0]}")
        if v.number in self.turned:
            return self._turned(v, self.turned[v.number])
        if v.op == "cast" and BF16 in (v.dtype, v.args[0].dtype):
            found = self.bfloat(v, args)
            if found is not None:
                return found
        return super().render(v, args)

    def _turned(self, v: Value, by: int) -> str:
        """A number with its bits turned left by one instruction; nothing for the shifts.

        For shifts, LLVM looks for bits that it knows in what was shifted before: for the 20 rounds
        of a random number that takes it a tenth of a second.
        """
        if not by:
            return ""
        x = self.known[v.args[0].args[0].number, self.lanes]
        word = f"shf.l.wrap.b32 $0, $1, $1, {by};"
        # LLVM puts instructions that touch no memory in order anew, which takes as long
        return self.emit(f'call i32 asm "{word}", "=r,r"(i32 {x})')

    def _converted(self, word: str, kind: str, constraints: str, operand: str) -> str:
        return self.emit(f'call {kind} asm "{word} $0, $1;", "{constraints}"({operand}) {PURE}')

    def float_cast(self, have: np.dtype, want: np.dtype, x: str) -> str:
        # where LLVM sees these, it computes with float16 by instructions that flush denormals
        if (have, want) == (F16, F32):
            bits = self.emit(f"bitcast half {x} to i16")
            return self._converted("cvt.f32.f16", "float", "=f,h", f"i16 {bits}")
        if (have, want) == (F32, F16):
            bits = self._converted("cvt.rn.f16.f32", "i16", "=h,f", f"float {x}")
            return self.emit(f"bitcast i16 {bits} to half")
        return super().float_cast(have, want, x)

    def extreme(self, v: Value, args: list[str]) -> str:
        return self.call("minimum" if v.op == "min" else "maximum", v.dtype, args)

    def _open_grid(self, number: str) -> None:
        kernel = self.kernel
        if kernel.grid is None:
            return
        axes = kernel.grid_axes
        self._count(number, list(axes), 1 if self.schedule.shares else self.schedule.vector)

    def _count(self, number: str, axes: Sequence[tuple[str, int]], unit: int = 1) -> None:
        """Give axes their positions, of which the last changes fastest; ``unit`` is what the number
        is a multiple of.

        Numbers of 32 bits are divided by a tenth of the instructions that those of 64 take.
        """
        last, length = axes[-1]
        if unit > 1 and len(axes) > 1 and type(length) is int and length % unit == 0:
            # LLVM sees what is a multiple of the unit, and joins accesses there, only like this
            number = self.emit(f"udiv exact i64 {number}, {unit}")
            self._count(number, [*axes[:-1], (last, length // unit)])
            self.axes[last] = self.emit(f"mul i64 {self.axes[last]}, {unit}")
            return
        total = prod(n for _, n in axes)
        short = len(axes) > 1 and type(total) is int and total <= MAX_SHORT_NUMBER
        kind = "i32" if short else "i64"
        number = self.emit(f"trunc i64 {number} to i32") if short else number
        for axis, extent in reversed(axes[1:]):
            place = self.emit(f"urem {kind} {number}, {extent}")
            self.axes[axis] = self.emit(f"zext i32 {place} to i64") if short else place
            number = self.emit(f"udiv {kind} {number}, {extent}")
        self.axes[axes[0][0]] = self.emit(f"zext i32 {number} to i64") if short else number

    # --- statements -------------------------------------------------------------------------------

    def _variable(self, kind: str, initial: str) -> str:
        """Memory of a thread, which LLVM keeps in registers."""
        name = self.fresh("var")
        self.serial.append(f"  {name} = alloca {kind}")
        self.line(f"store {kind} {initial}, ptr {name}")
        return name

    def _loop(self, start: str, stop: Any, step: int, run: Any) -> None:
        """A loop of one thread over its share of a range."""
        known = self.known
        self.known = dict(known)
        counted(self, self._variable("i64", start), stop, step, run)
        self.known = known

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
        if self.compact and len(distances) > 1:
            self._in_turn(body, axis, len(distances))
            return
        if len(distances) == 1 or any(isinstance(s, Loop) for s in body):
            for i in distances:
                self._at(axis, i, lambda: self._body(body))
            return
        states = []
        first, before, place = self.axes[axis], self.known, self.place
        self.known = known = dict(before)
        self._hoist(body, {axis})
        loads = self._certain_loads(body)
        for i in distances:
            self.known, self.place = dict(known), int(place) + i
            self.axes[axis] = first if i == 0 else self.emit(f"add i64 {first}, {i}")
            for v in loads:
                self.value(v)
            states.append((self.axes[axis], self.known))

        def enter(i: int) -> None:
            (self.axes[axis], self.known), self.place = states[i], int(place) + i

        every = self.computed(body, [found for _, found in states], enter)
        for i, found in enumerate(every):
            enter(i)
            self.known = found
            for s in body:
                self._done(s)

        def enter_again(i: int) -> None:
            enter(i)
            self.known = every[i]

        self._mark(body, len(states), enter_again)
        self.axes[axis], self.known, self.place = first, before, place

    def _in_turn(self, body: list[Any], axis: str, count: int) -> None:
        """The same for ``count`` neighbours, by a loop."""
        first, before, place = self.axes[axis], self.known, self.place
        self.known = {} if any(isinstance(s, Loop) for s in body) else dict(before)
        self._hoist(body, {axis})

        def one(now: str) -> None:
            self.axes[axis] = self.emit(f"add i64 {first}, {now}")
            self.place = self.emit(f"add i64 {place}, {now}")
            self._body(body)

        self._loop("0", count, 1, one)
        self.axes[axis], self.known, self.place = first, before, place

    def _hoist(self, body: list[Any], axes: Collection[str]) -> None:
        """Compute what is the same everywhere along axes: LLVM would find it too, but not in code
        that is made quickly, and takes longer for the longer text."""
        inside = [s for s in statements(body) if not isinstance(s, Loop)]
        operands = [v for s in inside for v in s.operands]
        skipped = {number for found in rare(operands, RARE) for number in found.inside}
        written = {s.buffer for s in inside if isinstance(s, (Store, Atomic))}
        same: set[int] = set()
        values = walk(operands)
        for v in values:
            if v.number in skipped or v.op in _IN_PLACE or not v.axes.isdisjoint(axes):
                continue
            if v.op == "load" and (v.args or v.attr[0] in written):
                continue
            if all(x.number in same for x in v.args):
                same.add(v.number)
        roots = {v.number for v in operands} & same
        roots |= {x.number for v in values if v.number not in same for x in v.args} & same
        for v in values:
            if v.number in roots and v.op != "const":
                self.value(v)

    def _done(self, s: Any) -> None:
        """A statement of one of several elements, but for marks."""
        if not isinstance(s, Store):
            self._accumulate(s)
        elif s.marks is None:
            self.store(s)

    def _mark(self, body: list[Any], count: int, enter: Callable[[int], None]) -> None:
        """Marks of several elements: where any of them has what is looked for, once."""
        for s in body:
            if isinstance(s, Store) and s.marks is not None:
                holds = ""
                for i in range(count):
                    enter(i)
                    one = self.value(s.value)
                    holds = self.emit(f"or i1 {holds}, {one}") if holds else one
                self._mark_where(s, holds)

    def _mark_where(self, s: Store, holds: str) -> None:
        """Write a mark that isn't there yet: where many elements have what is looked for, stores of
        all threads to one place would take longer than to read the elements."""
        base, mark = self.address(s.buffer, self.offset(s.at)), int(bool(s.marks))
        with self.when(holds):
            now = self.emit(f"load i8, ptr {base}, align 1")
            with self.when(self.emit(f"icmp ne i8 {now}, {mark}")):
                self.line(f"store i8 {mark}, ptr {base}, align 1")

    def store(self, s: Store) -> None:
        if s.marks is None:
            super().store(s)
        else:
            self._mark_where(s, self.value(s.value))

    def _certain_loads(self, body: list[Any]) -> list[Value]:
        """What is read whatever is computed: read first, neighbours become one access."""
        operands = [v for s in body for v in s.operands]
        inside = {number for found in rare(operands, RARE) for number in found.inside}
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
            self.expect(rare(operands, RARE))
            for v in operands:
                self.value(v)
            self.expect([])

    def _serial_loop(self, s: Loop) -> None:
        own = self._started(s)

        def run(now: str) -> None:
            self.axes[s.axis] = now
            self._body(s.body)

        if self.schedule.written and not self.compact:
            known = self.known
            for i in range(s.extent):
                self.known = dict(known)
                run(str(i))
            self.known = known
            self._finished(own)
            return
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
        with self.when(self.emit(f"icmp eq i64 {self.tid}, 0")):
            known = dict(self.known)
            self._body(stores)
            self.known = known
        self._meet()

    def _shared_loop(self, s: Loop) -> None:
        axes, body = nest(s)
        inner = prod(n for _, n in axes[1:])
        own = self._started(s)
        vector = self.schedule.vector
        step = self.schedule.threads * vector
        first = self.tid if vector == 1 else self.emit(f"mul i64 {self.tid}, {vector}")
        before, self.known = self.known, dict(self.known)
        if s.whole is None:  # a piece may be empty
            self._hoist(body, [axis for axis, _ in axes])

        def run(now: str, distances: Sequence[int] = range(vector)) -> None:
            self._count(now, axes, vector)
            self._several(body, axes[-1][0], distances)

        def at(trip: str) -> None:
            before = self.emit(f"mul i64 {trip}, {step}")
            run(self.emit(f"add i64 {before}, {first}"))

        if self.schedule.trips:
            known = self.known
            total = s.extent * inner
            if self.compact:
                self._trips(first, total, run)
                self.known, self.place = before, 0
                self._shared_end(own, body)
                return
            for trip in range(self.schedule.trips):
                self.known, self.place = dict(known), trip * vector
                now = self.emit(f"add i64 {first}, {trip * step}") if trip else first
                whole = (trip + 1) * step <= total
                with self.when(whole or self.emit(f"icmp slt i64 {now}, {total}")):
                    run(now)
            self.known, self.place = before, 0
            self._shared_end(own, body)
            return
        stop: Any = self._stop(s)
        fixed = s.whole is None and type(stop * inner) is int
        if fixed and len(axes) == 1 and stop >= 4 * step and not self.compact:
            self._two_by_two(first, stop, step, run)
        elif fixed and stop * inner % step == 0:  # the same for all threads
            self._loop("0", stop * inner // step, 1, at)
        else:
            if s.whole is not None:
                stop = self.emit(f"mul i64 {stop}, {inner}") if inner > 1 else stop
            else:
                stop *= inner
            self._loop(first, stop, step, run)
        self.known = before
        self._shared_end(own, body)

    def _trips(self, first: str, total: int, run: Callable[[str], None]) -> None:
        """The elements of a row that a thread has, by a loop."""
        trips, vector = self.schedule.trips, self.schedule.vector
        step = self.schedule.threads * vector

        def trip(number: str) -> None:
            self.place = self.emit(f"mul i64 {number}, {vector}")
            before = self.emit(f"mul i64 {number}, {step}")
            now = self.emit(f"add i64 {first}, {before}")
            whole = trips * step <= total
            with self.when(whole or self.emit(f"icmp slt i64 {now}, {total}")):
                run(now)

        self._loop("0", trips, 1, trip)

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
        while distance < WARP:
            value = self._combined(s, value, self._shuffled(value, s.dtype, distance))
            distance *= 2
        warps = self.schedule.threads // WARP
        if warps > 1:
            value = self._between_warps(s, value, warps)
        initial = self.constant_scalar(s.dtype, s.initial)
        self.accumulators[s.symbol] = self._combined(s, initial, value)

    def _across(self, v: Value, value: str, which: str = "") -> str:
        """What the threads of a warp have, combined: the same bits for all of them; or what one of
        them has."""
        if which:
            word = "llvm.nvvm.shfl.sync.idx.i32"
            self.declared[word] = f"declare i32 @{word}(i32, i32, i32, i32)"
            given = f"i32 {which}, i32 31"
            read = lambda x: self.emit(f"call i32 @{word}(i32 -1, i32 {x}, {given})")
            return self._moved(value, v.dtype, read)
        distance = 1
        while distance < WARP:
            other = self._shuffled(value, v.dtype, distance)
            value = combine(self, v.attr.op, v.dtype, value, other)
            distance *= 2
        return value

    def _shuffled(self, value: str, dtype: np.dtype, distance: int) -> str:
        """The value of the thread whose number differs by one bit."""
        return self._moved(value, dtype, lambda x: self._exchanged(x, distance))

    def _moved(self, value: str, dtype: np.dtype, move: Callable[[str], str]) -> str:
        """A value of another thread, in words of 32 bits."""
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
        given = [move(part) for part in parts]
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
        apart = self.schedule.group > 1  # warps have nothing to do with each other
        word = "bar.warp.sync(i32 -1)" if apart else "barrier0()"
        self.line(f"call void @llvm.nvvm.{word}")

    def _meet(self) -> None:
        """A barrier after what one thread did: see ``meet`` of `routines/device.py`."""
        if self.schedule.group > 1:
            self._barrier()
        else:
            self.line("call void @llvm.nvvm.barrier.sync(i32 0)")

    def _share(self, name: str, count: int, dtype: np.dtype) -> str:
        """Shared memory for so many values."""
        return self.share(f"{self.prefix}{name}", count, _shared_type(dtype))

    def _give(self, place: str, at: str, dtype: np.dtype, value: str) -> None:
        """Write a value to shared memory."""
        room = _shared_type(dtype)
        if dtype.kind == "b":
            value = self.emit(f"zext i1 {value} to i8")
        at = self.emit(f"getelementptr {room}, ptr addrspace(3) {place}, i64 {at}")
        self.line(f"store {room} {value}, ptr addrspace(3) {at}")

    def _taken(self, place: str, at: str, dtype: np.dtype) -> str:
        """A value of shared memory."""
        room = _shared_type(dtype)
        at = self.emit(f"getelementptr {room}, ptr addrspace(3) {place}, i64 {at}")
        one = self.emit(f"load {room}, ptr addrspace(3) {at}")
        return self.emit(f"icmp ne i8 {one}, 0") if dtype.kind == "b" else one

    def _between_warps(self, s: Reduce, value: str, warps: int) -> str:
        place = self._share(f"warps{s.symbol}", warps, s.dtype)
        warp = self.emit(f"lshr i64 {self.tid}, 5")
        self._give(place, warp, s.dtype, value)
        self._barrier()
        total = ""
        for i in range(warps):
            one = self._taken(place, str(i), s.dtype)
            total = one if not total else self._combined(s, total, one)
        if self.again:
            self._barrier()
        return total


def _shared_type(dtype: np.dtype) -> str:
    """The type of values of reductions in shared memory."""
    return "i8" if dtype.kind == "b" else scalar_type(dtype)


def inlined(
    name: str, given: tuple[code.Parameter, ...], lines: Sequence[str], result: str = "void"
) -> code.Function:
    """A function that becomes part of those that call it."""
    attributes = ("#0", "alwaysinline")
    return code.Function(name, given, tuple(lines), result, attributes, internal=True)


def _operands(s: Any) -> Sequence[Value]:
    return () if isinstance(s, Loop) else s.operands


def _outlined(op: str, count: int, line: str) -> Module:
    """A function of one operation of float32, which the assembler makes dozens of instructions."""
    given = code.parameters("float", *"xy"[:count])
    lines = ("entry:", f"  %found = {line}", "  ret float %found")
    made = inlined(f"{op}_float", given, lines, "float")
    declared = {"llvm.sqrt.f32": "declare float @llvm.sqrt.f32(float)"} if op == "sqrt" else {}
    return Module([made._replace(attributes=("#0",))], declared)


_OUTLINED = {
    "div": _outlined("div", 2, "fdiv float %x, %y"),
    "sqrt": _outlined("sqrt", 1, "call float @llvm.sqrt.f32(float %x)"),
}


def _remainder(dtype: np.dtype) -> Module:
    """A function for the remainder of a division, by subtracting multiples that are exact."""
    bits, mantissa = (32, 23) if dtype == F32 else (64, 52)
    kind, word, suffix = scalar_type(dtype), f"i{bits}", f"f{bits}"
    exponents = (1 << (bits - 1)) - (1 << mantissa)
    infinity = "0x7FF0000000000000"
    lines = f"""\
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
  ret {kind} %signed"""
    used = {f"@llvm.{name}.{suffix}": count for name, count in (("fabs", 1), ("copysign", 2))}
    declared = {name: f"declare {kind} {name}({', '.join([kind] * n)})" for name, n in used.items()}
    made = inlined(f"remainder_{kind}", code.parameters(kind, "x", "y"), lines.split("\n"), kind)
    return Module([made._replace(attributes=("#0",))], declared)
