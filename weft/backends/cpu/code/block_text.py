"""Loops that are done for one block of elements after the other, as one native function.

It takes, before the slots of the block, the number of rounds (i64) or, of a loop that says itself
when it is over, a flag (i8) to be set where so many rounds were not enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.backends.cpu.code.loop_text import LoopText, Survey, Writer, numbered
from weft.backends.cpu.native.llvm import LOOP
from weft.kernel.program import Blocks, For, Slot, While

# Bytes of a block and what is computed of it, which should be in registers, and nodes of a round.
BYTES, NODES = 1 << 14, 64


def render_blocks(
    blocks: Blocks, slots: Sequence[Slot], codes: Sequence[tuple[str, str]], general: bool = False
) -> LoopText | None:
    """The function of a loop in blocks, over their number, or None where it is not small."""
    found = Survey(slots, codes, 0)
    found.visit(blocks.nodes)
    own = sum(slots[s].size for s in found.used if slots[s].role in ("temp", "view"))
    if found.waits or not found.fits or found.nodes > NODES or own > BYTES:
        return None
    found.sliced |= blocks.arrays.keys()
    w = Writer(slots, codes, 0, found, general)
    externals = w.memory(set(), set())
    w.kernels()
    w.head.append("  %block = alloca i64")
    w.line("store i64 %start, ptr %block")
    w.line("br label %next")
    w.lines.append("next:")
    now = w.emit("load i64, ptr %block")
    more = w.emit(f"icmp slt i64 {now}, %stop")
    w.line(f"br i1 {more}, label %one, label %done")
    w.lines.append("one:")
    _point(w, blocks, now)
    for node in blocks.nodes:
        if isinstance(node, For):
            w.rounds(node, "0", w.emit("load i64, ptr %p0"))
        elif isinstance(node, While):
            over = w.going(node, "0", w.size(blocks.most))
            ready, wait = w.label("ready"), w.label("wait")
            w.line(f"br i1 {over}, label %{ready}, label %{wait}")
            w.lines.append(f"{wait}:")
            w.line("store i8 1, ptr %p1")
            w.line(f"br label %{ready}")
            w.lines.append(f"{ready}:")
        else:
            w.nodes([node])
    w.line(f"store i64 {w.emit(f'add i64 {now}, 1')}, ptr %block")
    w.line("br label %next")
    w.lines.append("done:")
    head = "define void @blocks(ptr noalias %buffers, i64 %start, i64 %stop) nounwind {"
    text = [*w.declared, *w.functions, head, "entry:", *w.reading(len(externals)), *w.head]
    whole = "\n".join([*text, *w.lines, "  ret void", "}", ""])
    return LoopText(LOOP + (numbered(whole) if general else whole), externals, 0, tuple(w.sizes))


def _point(w: Writer, blocks: Blocks, now: str) -> None:
    """Let the slots of arrays point at the block; the last one overlaps that before it."""
    first = w.emit(f"mul i64 {now}, {blocks.width}")
    last = w.size(blocks.total - blocks.width)
    less = w.emit(f"icmp slt i64 {first}, {last}")
    first = w.emit(f"select i1 {less}, i64 {first}, i64 {last}")
    for slot, size in blocks.arrays.items():
        if slot in w.found.used:
            offset = w.emit(f"mul i64 {first}, {size}")
            w.point(slot, w.emit(f"getelementptr i8, ptr %x{slot}, i64 {offset}"))
