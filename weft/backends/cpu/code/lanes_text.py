"""Loops in blocks whose elements end one by one, as native functions.

A block holds elements that go on. Once a quarter of them is done, their results are written, and
the next elements of the chunk take their places: a loop costs what its elements need, however
different their lengths are. Every element does the same operations as in any other block, so that
results have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.backends.cpu.code.loop_text import Inlined, LoopText, survey
from weft.backends.llvm.code import Effort, Module
from weft.kernel.program import Blocks, Slot, While

# The part of a block that may be done before other elements take its place.
DONE_SHARE = 4
# Lanes that one number has a bit for, and numbers that a function keeps.
MASK_BITS = 64
LOCALS = ("next", "left", "held", "least", "ended")


def render_lanes(
    blocks: Blocks,
    slots: Sequence[Slot],
    codes: Sequence[tuple[Module, str]],
    general: bool = False,
) -> LoopText | None:
    """The function of a loop in blocks over their number, or None where it is not small.

    It takes, before the slots of the block, a flag (i8) to be set where so many rounds were not
    enough: all elements are then as far as they got.
    """
    found = survey(blocks, slots, codes, general)
    return None if found is None else Lanes(found).run_lanes(blocks)


class Lanes(Inlined):
    """The text of a function that keeps its block full of elements that go on."""

    def run_lanes(self, blocks: Blocks) -> LoopText:
        """The function."""
        assert blocks.lanes is not None
        self.blocks, self.width = blocks, blocks.width
        self.after = dict(blocks.lanes.carried)
        externals = self.memory(set(), set())
        self._stage()
        first = self.emit(f"mul i64 %start, {self.width}")
        # the last block overlaps that before it
        first = self.scalar_min(first, self.size(blocks.total - self.width))
        last = self.scalar_min(self.emit(f"mul i64 %stop, {self.width}"), self.size(blocks.total))
        count = self.emit("sub i64 %stop, %start")
        self.line(f"store i64 {first}, ptr %next")
        self.line(f"store i64 {self.emit(f'mul i64 {count}, {self.size(blocks.most)}')}, ptr %left")
        self._each(self._empty)
        self.line("br label %refill")
        self.label("refill")
        self._each_done(lambda lane: self._exchange(lane, last))
        with self.when(self.emit(f"icmp eq i64 {self.emit('load i64, ptr %held')}, 0"), "over"):
            pass
        self._rounds(last)
        with self.when(self.emit(f"icmp sgt i64 {self.emit('load i64, ptr %left')}, 0"), "refill"):
            pass
        self._stop(last)
        self.line("br label %over")
        self.label("over")
        self.line("ret void")
        module = self.closed("blocks", self.kernels(), 2 + len(externals), Effort.LOOP)
        return LoopText(module, externals, 0, tuple(self.sizes))

    def _stage(self) -> None:
        """Memory for the elements of a block: what goes round is before and after in one place."""
        self.head += [f"  %{name} = alloca i64" for name in LOCALS]
        self.head += [f"  %ids = alloca [{self.width} x i64], align 64", "  store i64 0, ptr %held"]
        before = {out: init for init, out in self.after.items()}
        staged = [slot for slot in self.blocks.arrays if slot in self.found.used]
        self.loaded = [slot for slot in staged if slot not in before]
        self.stored = [slot for slot in staged if slot in before]
        for slot in self.loaded:
            size = self.width * self.blocks.arrays[slot]
            self.head.append(f"  {self.named('m', slot)} = alloca [{size} x i8], align 64")
            self.fixed[slot] = self.named("m", slot)
        for slot in self.stored:
            self.fixed[slot] = self.named("m", before[slot])

    def _each(self, write: Callable[[str], None]) -> None:
        """Write what is done for every lane of the block."""

        def body(lane: str, _: list[str]) -> list[str]:
            write(lane)
            return []

        self.carry("0", str(self.width), [], body)

    def _each_done(self, write: Callable[[str], None]) -> None:
        """Write what is done for every lane whose element has ended: the bits of a number are gone
        through, so that no branch is taken at random."""
        assert self.blocks.lanes is not None
        bits = min(self.width, MASK_BITS)
        self.declared["@llvm.cttz.i64"] = "declare i64 @llvm.cttz.i64(i64, i1)"
        for first in range(0, self.width, bits):
            at = self._place(self.pointer(self.blocks.lanes.live), str(first), 1)
            live = self.emit(f"load <{bits} x i8>, ptr {at}, align 1")
            ended = self.emit(f"icmp eq <{bits} x i8> {live}, zeroinitializer")
            mask = self.emit(f"bitcast <{bits} x i1> {ended} to i{bits}")
            if bits < MASK_BITS:
                mask = self.emit(f"zext i{bits} {mask} to i64")
            self.line(f"store i64 {mask}, ptr %ended")
            self.line(f"br label %ended{first}")
            self.label(f"ended{first}")
            left = self.emit("load i64, ptr %ended")
            some = self.emit(f"icmp ne i64 {left}, 0")
            with self.when(some, f"ended{first}"):
                lane = self.emit(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")
                less = self.emit(f"sub i64 {left}, 1")
                self.line(f"store i64 {self.emit(f'and i64 {left}, {less}')}, ptr %ended")
                write(self.emit(f"add i64 {lane}, {first}") if first else lane)

    def _place(self, base: str, index: str, size: int) -> str:
        offset = index if size == 1 else self.emit(f"mul i64 {index}, {size}")
        return self.emit(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _live(self, lane: str) -> str:
        assert self.blocks.lanes is not None
        return self._place(self.pointer(self.blocks.lanes.live), lane, 1)

    def _empty(self, lane: str) -> None:
        """A lane before it has an element."""
        self.line(f"store i64 -1, ptr {self._place('%ids', lane, 8)}")
        self.line(f"store i8 0, ptr {self._live(lane)}")

    def _exchange(self, lane: str, last: str) -> None:
        """The next element in the place of one that is done."""
        self._write(lane)
        at = self._place("%ids", lane, 8)
        self.line(f"store i64 -1, ptr {at}")
        following = self.emit("load i64, ptr %next")
        with self.when(self.emit(f"icmp slt i64 {following}, {last}")):
            self.line(f"store i64 {following}, ptr {at}")
            for slot in self.loaded:
                size = self.blocks.arrays[slot]
                source = self._place(self.named("x", slot), following, size)
                self.copy(self._place(self.fixed[slot], lane, size), source, size)
            self._add("next", 1)
            self._add("held", 1)

    def _write(self, lane: str) -> None:
        """The results of a lane to where they belong, if it has an element."""
        element = self.emit(f"load i64, ptr {self._place('%ids', lane, 8)}")
        with self.when(self.emit(f"icmp sge i64 {element}, 0")):
            for slot in self.stored:
                size = self.blocks.arrays[slot]
                target = self._place(self.named("x", slot), element, size)
                self.copy(target, self._place(self.fixed[slot], lane, size), size)
            self._add("held", -1)

    def _add(self, name: str, number: int) -> None:
        now = self.emit(f"load i64, ptr %{name}")
        self.line(f"store i64 {self.emit(f'add i64 {now}, {number}')}, ptr %{name}")

    def _rounds(self, last: str) -> None:
        """Rounds until enough elements are done; all of them, where no others wait."""
        following = self.emit("load i64, ptr %next")
        more = self.emit(f"icmp slt i64 {following}, {last}")
        enough = self.width - max(1, self.width // DONE_SHARE)
        self.line(f"store i64 {self.emit(f'select i1 {more}, i64 {enough}, i64 0')}, ptr %least")
        for node in self.blocks.nodes:
            if isinstance(node, While):
                left = self.emit("load i64, ptr %left")
                done = self.rounds(node, "0", left)
                self.line(f"store i64 {self.emit(f'sub i64 {left}, {done}')}, ptr %left")
            else:
                self.nodes([node])

    def holds(self, node: While) -> str:
        self.nodes(node.condition)
        count = self.emit(f"load i8, ptr {self.pointer(node.flag)}")
        count = self.emit(f"zext i8 {count} to i64")
        return self.emit(f"icmp ugt i64 {count}, {self.emit('load i64, ptr %least')}")

    def _stop(self, last: str) -> None:
        """Leave all elements as far as they are; there is more to do."""
        self.line("store i8 1, ptr %p1")
        self._each(self._write)
        first = self.emit("load i64, ptr %next")
        count = self.emit(f"sub i64 {last}, {first}")
        for slot in self.stored:
            size = self.blocks.arrays[slot]
            init = next(i for i, out in self.after.items() if out == slot)
            target, source = (self._place(self.named("x", s), first, size) for s in (slot, init))
            name, total = "@llvm.memcpy.p0.p0.i64", self.emit(f"mul i64 {count}, {size}")
            self.declared[name] = f"declare void {name}(ptr, ptr, i64, i1)"
            self.line(f"call void {name}(ptr {target}, ptr {source}, i64 {total}, i1 false)")
