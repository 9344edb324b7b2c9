"""LLVM text of products of bfloat16 for processors with registers of whole matrices (AMX).

A tile is a kilobyte: sixteen rows of 32 depths of the left operand, or sixteen pairs of depths of
sixteen columns of the right one. Both operands are brought into tiles, filled up with zeros, and
multiplied two tiles by two. Sums are float32, and what is denormal counts as zero.
"""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.contractions.conv_text import Dim
from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.llvm.code import Module
from weft.base.record import Record
from weft.kernel.nodes import F32

# Rows or columns of a tile, its depths, its elements; rows and columns of a block of the result.
SIDE, DEPTH, TILE, BLOCK = 16, 32, 512, 32
_I16, _I32 = np.dtype(np.int16), np.dtype(np.int32)


class Tiles(Record):
    """An operand in tiles: so many across and ``deep``; "left" strides are those of the operand,
    "right" ones those of tiles. ``pairs`` says that tiles hold pairs of depths for columns."""

    outer: tuple[Dim, ...]
    across: Dim
    depth: Dim
    tiles: int
    deep: int
    pairs: bool


class Blocks(Record):
    """A product of tiles; a unit is a block of columns and ``count`` blocks of rows."""

    outer: tuple[Dim, ...]
    rows: Dim
    columns: Dim
    deep: int
    count: int  # type: ignore[assignment]  # a field, not the method of tuples
    out: np.dtype


def _mask(text: Text, lanes: int, left: str) -> str:
    """The lanes before the end of an axis of which so much is left; LLVM would compare again
    wherever they are used if they weren't frozen."""
    number = text.emit(f"trunc i64 {text.least(left, lanes)} to i32")
    text.lanes = lanes
    every = text.splat(_I32, number)
    text.lanes = 1
    numbers = ", ".join(f"i32 {i}" for i in range(lanes))
    flags = text.emit(f"icmp slt <{lanes} x i32> <{numbers}>, {every}")
    return text.emit(f"freeze <{lanes} x i1> {flags}")


def _line(text: Text, at: str, number: str, left: str, mask: str, lanes: int) -> str:
    """Numbers side by side in memory, zeros where there are none."""
    there = text.emit(f"icmp sgt i64 {left}, {number}")
    flags, kind = f"<{lanes} x i1>", f"<{lanes} x i16>"
    chosen = text.emit(f"select i1 {there}, {flags} {mask}, {flags} zeroinitializer")
    name = f"@llvm.masked.load.v{lanes}i16.p0"
    text.declared[name] = f"declare {kind} {name}(ptr, i32, {flags}, {kind})"
    return text.emit(
        f"call {kind} {name}(ptr {at}, i32 2, {flags} {chosen}, {kind} zeroinitializer)"
    )


def tiles_module(plan: Tiles, name: str) -> Module:
    """A task over the tiles across an operand: buffers are operand and tiles."""
    text, along = Text((0, 1)), plan.depth.left == 1

    def row(number: str, here: str, left: str, rest: str, mask: str) -> tuple[str, str]:
        """A row of a tile as it lies in the operand, and where the next begins: depths side by
        side, or pairs of them."""
        if along:
            line = _line(text, here, number, left, mask, DEPTH)
            words = text.emit(f"bitcast <{DEPTH} x i16> {line} to <{SIDE} x i32>")
            return words, text.at(here, str(plan.across.left), _I16)
        both, first = [], text.scaled(number, 2)
        for j in (first, text.total([first, "1"])):
            line = _line(text, here, j, rest, mask, SIDE)
            both.append(text.emit(f"zext <{SIDE} x i16> {line} to <{SIDE} x i32>"))
            here = text.at(here, str(plan.depth.left), _I16)
        high = text.emit(f"shl <{SIDE} x i32> {both[1]}, splat (i32 16)")
        return text.emit(f"or <{SIDE} x i32> {both[0]}, {high}"), here

    def item(number: str, _: list[str]) -> list[str]:
        *outer, tile = text.indices(number, [*(d.size for d in plan.outer), plan.tiles])
        first = text.scaled(tile, SIDE)
        left = text.less(plan.across.size, first)
        froms = [text.scaled(i, d.left) for i, d in zip(outer, plan.outer, strict=True)]
        tos = [text.scaled(i, d.right) for i, d in zip(outer, plan.outer, strict=True)]
        source = text.at("%b0", text.total([*froms, text.scaled(first, plan.across.left)]), _I16)
        target = text.at("%b1", text.total([*tos, text.scaled(tile, plan.deep * TILE)]), _I16)

        def one(k: str, _: list[str]) -> list[str]:
            depth = text.scaled(k, DEPTH)
            here = text.at(source, text.scaled(depth, plan.depth.left), _I16)
            there = text.at(target, text.scaled(k, TILE), _I16)
            rest = text.less(plan.depth.size, depth)
            mask = _mask(text, DEPTH, rest) if along else _mask(text, SIDE, left)

            def write(i: str, line: str) -> None:
                at = text.at(there, text.scaled(i, DEPTH), _I16)
                text.line(f"store <{SIDE} x i32> {line}, ptr {at}, align 4")

            def copied(i: str, begin: list[str]) -> list[str]:
                line, after = row(i, begin[0], left, rest, mask)
                write(i, line)
                return [after]

            if along != plan.pairs:
                text.loop("0", str(SIDE), [("ptr", here)], copied)
                return []
            found = []
            for i in range(SIDE):
                line, here = row(str(i), here, left, rest, mask)
                found.append(line)
            for i, line in enumerate(text.transposed(found, f"<{SIDE} x i32>")):
                write(str(i), line)
            return []

        return text.loop("0", str(plan.deep), [], one)

    text.loop("%start", "%stop", [], item)
    return text.finish(name)


# What says that all eight tiles have sixteen rows of 64 bytes.
_SHAPES = [1] + [0] * 15 + [64, 0] * 8 + [0] * 16 + [SIDE] * 8 + [0] * 8
_DECLARED = {
    "ldtilecfg": "ptr",
    "tilerelease": "",
    "tilezero": "i8 immarg",
    "tileloadd64": "i8 immarg, ptr, i64",
    "tilestored64": "i8 immarg, ptr, i64",
    "tdpbf16ps": "i8 immarg, i8 immarg, i8 immarg",
}


def blocks_module(plan: Blocks, name: str) -> Module:
    """A task over blocks of the result: buffers are the tiles of both operands, and the result."""
    text, strip = Text((0, 1, 2)), plan.deep * TILE
    for called, parameters in _DECLARED.items():
        text.declared[called] = f"declare void @llvm.x86.{called}({parameters})"
    call = lambda called, given: text.line(f"call void @llvm.x86.{called}({given})")
    text.line(f"%block = alloca [{4 * BLOCK * BLOCK} x i8], align 64")
    text.line("%shapes = alloca [64 x i8], align 64")
    shapes = ", ".join(f"i8 {n}" for n in _SHAPES)
    text.line(f"store <64 x i8> <{shapes}>, ptr %shapes, align 64")
    call("ldtilecfg", "ptr %shapes")
    step = BLOCK * plan.count
    blocks = [-(-plan.rows.size // step), -(-plan.columns.size // BLOCK)]

    def item(number: str, _: list[str]) -> list[str]:
        counts = [*(d.size for d in plan.outer), *blocks]
        *outer, row, column = text.indices(number, counts)
        parts = [
            [text.scaled(i, stride) for stride in d[1:4]]
            for i, d in zip(outer, plan.outer, strict=True)
        ]
        left, right, out = (text.total([p[side] for p in parts]) for side in range(3))
        first = text.scaled(row, step)
        last = text.least(text.total([first, str(step)]), plan.rows.size)
        place = text.scaled(column, BLOCK)
        b = text.at("%b1", text.total([right, text.scaled(column, 2 * strip)]), _I16)
        mask = _mask(text, BLOCK, text.less(plan.columns.size, place))
        target = text.at("%b2", text.total([out, place]), plan.out)

        def block(i: str, _: list[str]) -> list[str]:
            tile = text.emit(f"udiv i64 {i}, {SIDE}")
            multiply(text.at("%b0", text.total([left, text.scaled(tile, strip)]), _I16), b)
            count = text.least(text.less(plan.rows.size, i), BLOCK)
            return text.loop("0", count, [], lambda r, _: line(r, text.total([i, r])))

        def line(r: str, row: str) -> list[str]:
            """A row of the block goes into the result."""
            source = text.at("%block", text.scaled(r, BLOCK), F32)
            to = text.at(target, text.scaled(row, plan.rows.out), plan.out)
            text.lanes = BLOCK
            y = text.cast(F32, plan.out, text.read(source, F32))
            kind, flags = text.type_of(plan.out), f"<{BLOCK} x i1>"
            store = f"@llvm.masked.store.{text.suffix(plan.out)}.p0"
            text.declared[store] = f"declare void {store}({kind}, ptr, i32, {flags})"
            align = plan.out.itemsize
            text.line(f"call void {store}({kind} {y}, ptr {to}, i32 {align}, {flags} {mask})")
            text.lanes = 1
            return []

        return text.loop(first, last, [], block, BLOCK)

    def multiply(a: str, b: str) -> None:
        """Four tiles of the result, by way of memory."""
        for i in range(4):
            call("tilezero", f"i8 {i}")

        def deep(k: str, _: list[str]) -> list[str]:
            for i, begin in enumerate((a, b)):
                one = text.at(begin, text.scaled(k, TILE), _I16)
                for j, tile in enumerate((one, text.at(one, str(strip), _I16))):
                    call("tileloadd64", f"i8 {4 + 2 * i + j}, ptr {tile}, i64 64")
            for i in range(4):
                call("tdpbf16ps", f"i8 {i}, i8 {4 + i // 2}, i8 {6 + i % 2}")
            return []

        text.loop("0", str(plan.deep), [], deep)
        for i in range(4):
            to = text.at("%block", str(i // 2 * SIDE * BLOCK + i % 2 * SIDE), F32)
            call("tilestored64", f"i8 {i}, ptr {to}, i64 {4 * BLOCK}")

    text.loop("%start", "%stop", [], item)
    call("tilerelease", "")
    return text.finish(name)
