"""Kernels whose threads each run a loop to its own end (`compiler/own_loops.py`).

A warp may have more elements than threads (``Schedule.each``): once enough of its threads are done,
they write what they have and take the next elements together, while the others wait. All threads
of a warp come to each decision together.
"""

from __future__ import annotations

from weft.backends.cuda.routines.device import DEFINITIONS
from weft.backends.cuda.schedule import WARP
from weft.backends.cuda.text.threads import Threads
from weft.backends.llvm.text.instructions import scalar_type
from weft.backends.llvm.text.serial import Writer
from weft.kernel.kernel import Serial, statements
from weft.kernel.nodes import Value, walk

# Threads of a warp that go on, up to which the others take the next elements.
FEW_GOING = 16
# Values that a thread reads of its element before it goes round.
MAX_FIXED = 32


class Refilled(Threads):
    """The text of a kernel whose warps have several elements for each thread."""

    def write(self, block: str) -> None:
        made, (loop, *stores) = self.schedule, self.kernel.body
        assert isinstance(loop, Serial) and loop.condition is not None
        self.loop, self.stores, self.writer = loop, stores, Writer(self)
        for name in ("ballot", "count_bits"):
            self.words[name] = DEFINITIONS[name]
        self.lane = self.emit("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        block = block or self.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()")
        warp = self.emit(f"lshr i32 {self.lane}, {WARP.bit_length() - 1}")
        before = self.emit(f"mul i32 {block}, {made.threads // WARP}")
        warp = self.emit(f"zext i32 {self.emit(f'add i32 {before}, {warp}')} to i64")
        first = self.emit(f"mul i64 {warp}, {WARP * made.each}")
        end = self.emit(f"add i64 {first}, {WARP * made.each}")
        inside = self.emit(f"icmp slt i64 {end}, {made.iterations}")
        self.stop = self.emit(f"select i1 {inside}, i64 {end}, i64 {made.iterations}")
        own = self.emit(f"and i32 {self.lane}, {WARP - 1}")
        self.below = self.emit(f"sub i32 {self.emit(f'shl i32 1, {own}')}, 1")
        self.next, self.number = self._variable("i64"), self._variable("i64")
        self.held, self.going = self._variable("i1"), self._variable("i1")
        self.carried_in = [self._variable(scalar_type(c.initial.dtype)) for c in loop.carried]
        self.read_once = self._read_once()
        self.read_in = [self._variable(scalar_type(v.dtype)) for v in self.read_once]
        self.line(f"store i64 {first}, ptr {self.next}")
        self.line(f"store i1 false, ptr {self.held}")
        self._rounds()
        self.line("ret void")

    def _variable(self, kind: str) -> str:
        name = self.fresh()
        self.serial.append(f"  {name} = alloca {kind}")
        return name

    def _read_once(self) -> list[Value]:
        """What rounds read of an element that stays the same: it is read once."""
        own = {axis for axis, _ in self.kernel.grid_axes}
        every = [self.loop.condition, *[c.after for c in self.loop.carried]]
        every += [v for s in statements(self.loop.body) for v in s.operands]
        loads = [v for v in walk(every) if v.op == "load" and not v.args]
        return [v for v in loads if {axis for axis, _ in v.attr[1].terms} <= own][:MAX_FIXED]

    def _rounds(self) -> None:
        """Rounds of all threads of a warp, and the next elements for those that are done."""
        self.line("br label %head")
        self.label("head")
        self.line(f"store i1 false, ptr {self.going}")
        with self.when(self.emit(f"load i1, ptr {self.held}")):
            self._read()
            assert self.loop.condition is not None
            again = self.value(self.loop.condition)
            self.line(f"store i1 {again}, ptr {self.going}")
        going = self.emit(f"load i1, ptr {self.going}")
        word = self.emit(f"zext i1 {going} to i32")
        alive = self.call_function("ballot", [f"i32 {word}"], "i32")
        count = self.call_function("count_bits", [f"i32 {alive}"], "i32")
        few = self.emit(f"icmp ule i32 {count}, {FEW_GOING}")
        now = self.emit(f"load i64, ptr {self.next}")
        more = self.emit(f"icmp slt i64 {now}, {self.stop}")
        none = self.emit(f"icmp eq i32 {alive}, 0")
        wanted = self.emit(f"and i1 {few}, {more}")
        change = self.emit(f"or i1 {wanted}, {none}")
        self.line(f"br i1 {change}, label %change, label %step")
        self.label("change")
        self._change(going, alive, now, more)
        self.label("step")
        with self.when(going):
            self._read()
            self.writer.block(self.loop.body)
            self._keep([self.value(c.after) for c in self.loop.carried])
        self.line("br label %head")
        self.label("end")

    def _change(self, going: str, alive: str, now: str, more: str) -> None:
        """Write what threads have that are done, and have these take the next elements."""
        idle = self.emit(f"xor i1 {going}, true")
        held = self.emit(f"load i1, ptr {self.held}")
        with self.when(self.emit(f"and i1 {held}, {idle}")):
            self._read()
            self.writer.block(self.stores)
        self.line(f"store i1 {going}, ptr {self.held}")
        self.line(f"br i1 {more}, label %take, label %end")
        self.label("take")
        free = self.emit(f"xor i32 {alive}, -1")
        earlier = self.emit(f"and i32 {free}, {self.below}")
        rank = self.call_function("count_bits", [f"i32 {earlier}"], "i32")
        number = self.emit(f"add i64 {now}, {self.emit(f'zext i32 {rank} to i64')}")
        count = self.call_function("count_bits", [f"i32 {free}"], "i32")
        after = self.emit(f"add i64 {now}, {self.emit(f'zext i32 {count} to i64')}")
        self.line(f"store i64 {after}, ptr {self.next}")
        inside = self.emit(f"icmp slt i64 {number}, {self.stop}")
        with self.when(self.emit(f"and i1 {idle}, {inside}"), "head"):
            self.line(f"store i64 {number}, ptr {self.number}")
            self.known = {}
            self._open_grid(number)
            for v, place in zip(self.read_once, self.read_in, strict=True):
                self.line(f"store {scalar_type(v.dtype)} {self.value(v)}, ptr {place}")
            self._keep([self.value(c.initial) for c in self.loop.carried])
            self.line(f"store i1 true, ptr {self.held}")
        self.line("br label %head")

    def _read(self) -> None:
        """What a thread's element has so far."""
        self.known = {}
        self._open_grid(self.emit(f"load i64, ptr {self.number}"))
        for c, place in zip(self.loop.carried, self.carried_in, strict=True):
            kind = scalar_type(c.initial.dtype)
            self.accumulators[c.symbol] = self.emit(f"load {kind}, ptr {place}")
        for v, place in zip(self.read_once, self.read_in, strict=True):
            kind = scalar_type(v.dtype)
            self.known[v.number, self.lanes] = self.emit(f"load {kind}, ptr {place}")

    def _keep(self, values: list[str]) -> None:
        for c, place, value in zip(self.loop.carried, self.carried_in, values, strict=True):
            self.line(f"store {scalar_type(c.initial.dtype)} {value}, ptr {place}")
