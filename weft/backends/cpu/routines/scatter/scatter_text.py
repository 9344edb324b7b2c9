"""The LLVM text of the tasks of a scatter: stubs for its numbers, vectors written by hand."""

from __future__ import annotations

import re
from typing import Any

from weft.backends.cpu.routines.scatter import scatter_stubs as stubs
from weft.backends.cpu.routines.scatter.scatter_stubs import ADD, MAX, MIN, MUL, SET, SUB, TURN
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.stub import translate
from weft.base.functional import lru
from weft.base.sizes import plain
from weft.kernel.kinds import Kind

# Elements in a row of a window from which on vectors are worth the time it takes LLVM to find them,
# where they are not written here.
MIN_VECTOR_WINDOW = 8
# The instruction that brings memory near before it is written.
FETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
CALL = r"call void @llvm.prefetch.p0(\1, i32 1, i32 3, i32 1)"

# Each stub that is a task, after those that it calls.
_LOCATE = [
    stubs.held,
    stubs.index0,
    stubs.index1,
    stubs.index2,
    stubs.inside,
    stubs.locate,
    stubs.bucket,
]
_COMBINE = [
    stubs.widen,
    stubs.narrow,
    stubs.put_half,
    stubs.put,
    stubs.turn,
    stubs.part,
    stubs.window,
]
_STUBS: dict[str, list[Any]] = {
    "copy": [stubs.copy],
    "in_a_row": [*_LOCATE, *_COMBINE, stubs.update, stubs.range_of, stubs.in_a_row],
    "in_slabs": [*_LOCATE, *_COMBINE, stubs.in_slabs],
    "apart": [stubs.fetch, *_LOCATE, *_COMBINE, stubs.apart],
    "in_pieces": [*_LOCATE, *_COMBINE, stubs.clear, stubs.update, stubs.range_of, stubs.in_pieces],
    "join": [*_COMBINE, stubs.join],
    "look": [*_LOCATE, stubs.look],
    "count": [*_LOCATE, stubs.count],
    "rank": [stubs.rank],
    "deal": [stubs.fetch, *_LOCATE, stubs.deal],
    "work_off": [*_COMBINE, stubs.put_listed, stubs.work_off],
}
# Stubs that do little: no code of them would be worth the time it takes to make it well.
_BRIEF = frozenset(["look", "rank"])
# Updates for each element of all pieces from which on it is little to join these.
RARE_JOIN_UPDATES = 16
_INSTRUCTIONS = {ADD: "add", SUB: "sub", MUL: "mul"}


@lru(512)
def text(stub: str, names: tuple[tuple[str, Any], ...]) -> str:
    """The LLVM text of one of the tasks."""
    *helpers, main = _STUBS[stub]
    inner = [f.__name__ for f in helpers]
    known = dict(names)
    if stub == "copy":
        return translate([main], names=known, brief=True)
    op, kind, width = known["OP"], known["U"], known["W2"]
    most = vector_bits() // 8
    # narrow and complex numbers are combined in many steps, of which LLVM makes vectors by itself
    written = not known["HALF"] and op != TURN
    straight = known["S2"] == known["R2"] == 1 and written
    lanes = min(most // kind.size, 1 << width.bit_length() - 1) if straight else 1
    lanes = most // kind.size if stub == "join" else lanes
    known |= {"LANES": lanes, "FULL": width // lanes * lanes if lanes > 1 else 0}
    found = stubs.window in helpers and not written and width >= MIN_VECTOR_WINDOW
    updates = known["COUNT"] * known["W0"] * known["W1"] * width
    few = plain(known["PIECES"] * known["TOTAL"]) * RARE_JOIN_UPDATES <= plain(updates)
    brief = stub in _BRIEF or (stub == "join" and few)
    text = translate([*helpers, main], names=known, private=inner, plain=not found, brief=brief)
    text = re.sub(r"call void @fetch\((ptr [^)]*)\)", CALL, text) + FETCH
    return text.replace("declare void @put_lanes(ptr, ptr)", _lanes(kind, lanes, op))


def _lanes(kind: Kind, count: int, op: int) -> str:
    """The text of a function that combines a vector with another one in memory."""
    vector = f"<{count} x {kind.llvm}>"
    floats = kind.family == "float"
    lines = [f"%y = load {vector}, ptr %new, align {kind.size}"]
    if op != SET:
        lines.append(f"%x = load {vector}, ptr %out, align {kind.size}")
    if op in _INSTRUCTIONS:
        lines.append(f"%z = {'f' * floats}{_INSTRUCTIONS[op]} {vector} %x, %y")
    if op in (MIN, MAX):
        order = "lt" if op == MIN else "gt"
        test = f"fcmp o{order}" if floats else f"icmp {kind.family[0]}{order}"
        lines.append(f"%t = {test} {vector} %y, %x")
        choice = f"select <{count} x i1> %{{}}, {vector} %y, {vector} %{{}}"
        lines.append(f"%{'w' if floats else 'z'} = {choice.format('t', 'x')}")
        if floats:
            lines.append(f"%u = fcmp uno {vector} %y, %y")
            lines.append(f"%z = {choice.format('u', 'w')}")
    result = "y" if op == SET else "z"
    lines.append(f"store {vector} %{result}, ptr %out, align {kind.size}")
    body = "\n  ".join([*lines, "ret void"])
    head = "define internal void @put_lanes(ptr %out, ptr %new) alwaysinline nounwind"
    return f"{head} {{\n  {body}\n}}\n"
