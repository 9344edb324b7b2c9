"""The LLVM text of the tasks of a scatter: stubs for its numbers, vectors written by hand."""

from __future__ import annotations

import re
from typing import Any

from weft.backends.cpu.code.stub import translate
from weft.backends.cpu.native.processor import vector_bits
from weft.backends.cpu.routines.scatter import scatter_products as products
from weft.backends.cpu.routines.scatter import scatter_stubs as stubs
from weft.backends.cpu.routines.scatter.scatter_stubs import ADD, MAX, MIN, MUL, SET, SUB, TURN
from weft.base.functional import lru
from weft.base.sizes import plain
from weft.kernel.kinds import Kind, u32

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
    "in_a_row": [
        *_LOCATE,
        *_COMBINE,
        stubs.update,
        stubs.range_of,
        products.product,
        products.settle,
        products.in_double,
        products.in_a_row,
    ],
    "multiply_pieces": [
        *_LOCATE,
        products.part_of,
        products.settle_piece,
        products.factor,
        products.four_factors,
        products.factors,
        products.multiply_pieces,
    ],
    "multiply": [products.part_of, products.too_large, products.multiply],
    "multiply_rest": [
        *_LOCATE,
        *_COMBINE,
        stubs.put_listed,
        products.part_of,
        products.too_large,
        products.product,
        products.settle,
        products.in_double,
        products.multiply_rest,
    ],
    "in_slabs": [*_LOCATE, *_COMBINE, stubs.in_slabs],
    "apart": [stubs.fetch, *_LOCATE, *_COMBINE, stubs.apart],
    "in_pieces": [*_LOCATE, *_COMBINE, stubs.clear, stubs.update, stubs.range_of, stubs.in_pieces],
    "join": [stubs.joined, stubs.join_range, stubs.join],
    "look": [*_LOCATE, stubs.look],
    "count": [
        *_LOCATE,
        *_COMBINE,
        stubs.clear,
        stubs.keep,
        stubs.gather_range,
        stubs.gather_piece,
        stubs.count,
    ],
    "rank": [stubs.rank],
    "deal": [stubs.fetch, *_LOCATE, stubs.deal],
    "rest": [
        *_COMBINE,
        stubs.joined,
        stubs.join_range,
        stubs.join_bucket,
        stubs.put_listed,
        stubs.rest,
    ],
    "work_off": [*_COMBINE, stubs.put_listed, stubs.work_off],
}
# Stubs that do little: no code of them would be worth the time it takes to make it well.
_BRIEF = frozenset(["look", "rank", "rest"])
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
    known["V"] = kept = u32 if op == SET else kind
    most = vector_bits() // 8
    # narrow and complex numbers are combined in many steps, of which LLVM makes vectors by itself
    written = not known["HALF"] and op != TURN
    straight = known["S2"] == known["R2"] == 1 and written
    lanes = min(most // kind.size, 1 << width.bit_length() - 1) if straight else 1
    full = width // lanes * lanes if lanes > 1 else 0
    known |= {"LANES": lanes, "FULL": full, "MERGED": most // kept.size, "KEPT": kept.size}
    known["WIDE"] = most // 8
    direct = known["ONE"] and (known["K"], known["B"], known["STRIDE0"]) == (1, 0, 1)
    known["PLAIN"] = int(direct and known["WINDOW"].bit_count() == 1)
    found = stubs.window in helpers and not written and width >= MIN_VECTOR_WINDOW
    updates = known["COUNT"] * known["W0"] * known["W1"] * width
    few = plain(known["PIECES"] * known["TOTAL"]) * RARE_JOIN_UPDATES <= plain(updates)
    brief = stub in _BRIEF or (stub == "join" and few)
    text = translate([*helpers, main], names=known, private=inner, plain=not found, brief=brief)
    text = re.sub(r"call void @fetch\((ptr [^)]*)\)", CALL, text) + FETCH
    merge = {SET: MAX, SUB: ADD}.get(op, op)
    for name, held_as, count, what in (
        ("put_lanes", kind, lanes, op),
        ("merge_lanes", kept, known["MERGED"], merge),
    ):
        function = _lanes(name, held_as, count, what)
        text = text.replace(f"declare void @{name}(ptr, ptr)", function)
    return _with_products(text, known["PIECES"], known["PADDED"]) if known["PADDED"] else text


def _lanes(name: str, kind: Kind, count: int, op: int) -> str:
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
    return (
        f"define internal void @{name}(ptr %out, ptr %new) alwaysinline nounwind {{\n  {body}\n}}\n"
    )


def _with_products(text: str, pieces: int, padded: int) -> str:
    """The text of stubs of products with the functions for vectors that they call."""
    lanes = vector_bits() // 64
    wide, whole, narrow = f"<{lanes} x double>", f"<{lanes} x i64>", f"<{lanes} x float>"

    def splat(number: int) -> str:
        return "<" + ", ".join([f"i64 {number}"] * lanes) + ">"

    def settled(x: str, tag: str) -> list[str]:
        """Lines that make a vector of bits without signs, and one without tiny numbers."""
        return [
            f"%size{tag} = shl {whole} {x}, {splat(1)}",
            f"%tiny{tag} = icmp ult {whole} %size{tag}, {splat(products.TINY_PIECE)}",
            f"%zero{tag} = and {whole} {x}, {splat(-(1 << 63))}",
            f"%kept{tag} = select <{lanes} x i1> %tiny{tag}, {whole} %zero{tag}, {whole} {x}",
        ]

    ones = "<" + ", ".join(["double 1.0"] * lanes) + ">"
    begin = [f"store {wide} {ones}, ptr %0, align 8"]
    settle = [f"%x = load {whole}, ptr %0, align 8", *settled("%x", "")]
    settle += [
        f"store {whole} %kept, ptr %0, align 8",
        f"%old = load {whole}, ptr %1, align 8",
        f"%more = icmp ugt {whole} %size, %old",
        f"%new = select <{lanes} x i1> %more, {whole} %size, {whole} %old",
        f"store {whole} %new, ptr %1, align 8",
    ]
    multiply = [f"%x = load {narrow}, ptr %0, align 4", f"%t0 = fpext {narrow} %x to {wide}"]
    for i in range(pieces):
        multiply += [
            f"%p{i} = getelementptr i8, ptr %1, i64 {8 * padded * i}",
            f"%y{i} = load {wide}, ptr %p{i}, align 8",
            f"%z{i} = fmul {wide} %t{i}, %y{i}",
            f"%b{i} = bitcast {wide} %z{i} to {whole}",
            *settled(f"%b{i}", str(i)),
            f"%t{i + 1} = bitcast {whole} %kept{i} to {wide}",
        ]
    multiply += [
        f"%r = fptrunc {wide} %t{pieces} to {narrow}",
        f"store {narrow} %r, ptr %0, align 4",
    ]
    for name, count, lines in (
        ("begin_lanes", 1, begin),
        ("settle_lanes", 2, settle),
        ("multiply_lanes", 2, multiply),
    ):
        given = ", ".join(["ptr"] * count)
        named = ", ".join(f"ptr %{i}" for i in range(count))
        body = "\n  ".join([*lines, "ret void"])
        function = f"define internal void @{name}({named}) alwaysinline nounwind {{\n  {body}\n}}\n"
        text = text.replace(f"declare void @{name}({given})", function)
    return text
