"""LLVM text of products of bfloat16 for processors with registers of whole matrices (AMX).

A tile is a kilobyte: sixteen rows of 32 depths of the left operand, or sixteen pairs of depths of
sixteen columns of the right one. Both operands are brought into tiles, filled up with zeros, and
multiplied two tiles by two. Sums are float32, and what is denormal counts as zero.
"""

from __future__ import annotations

from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    Lines,
    bytes_of,
    convert,
    function,
    least,
    load_table,
    locate,
    memory_kind,
    pointers,
    unit_of,
)

# Rows or columns of a tile, its depths, its bytes; rows and columns of a block of the result.
SIDE, DEPTH, TILE, BLOCK = 16, 32, 1024, 32
TILE_FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "from", "to")),
    "count",  # rows or columns
    "depth",
    "from_side",  # bytes from one row or column to the next in the operand
    "from_depth",
    "tiles",  # across, and along the depth
    "deep",
)
MATRIX_FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "lhs", "rhs", "out")),
    "rows",
    "columns",
    "deep",
    "row_block",  # blocks of rows of a unit of work
    "row_blocks",
    "column_blocks",
    "out_row",
)
_LANES = "<" + ", ".join(f"i32 {i}" for i in range(DEPTH)) + ">"
_HALF = "<" + ", ".join(f"i32 {i}" for i in range(SIDE)) + ">"


def _mask(f: Lines, lanes: int, left: str) -> str:
    """The lanes before the end of an axis of which so much is left."""
    some = least(f, left, str(lanes))
    number = f.emit(f"trunc i64 {some} to i32")
    first = f.emit(f"insertelement <{lanes} x i32> poison, i32 {number}, i32 0")
    every = f.emit(
        f"shufflevector <{lanes} x i32> {first}, <{lanes} x i32> poison, <{lanes} x i32>"
        " zeroinitializer"
    )
    return f.emit(f"icmp slt <{lanes} x i32> {_LANES if lanes == DEPTH else _HALF}, {every}")


def _line(f: Lines, at: str, number: int, left: str, mask: str, lanes: int) -> str:
    """Numbers side by side in memory, zeros where there are none."""
    there = f.emit(f"icmp sgt i64 {left}, {number}")
    flags = f"<{lanes} x i1>"
    chosen = f.emit(f"select i1 {there}, {flags} {mask}, {flags} zeroinitializer")
    return f.emit(
        f"call <{lanes} x i16> @llvm.masked.load.v{lanes}i16.p0(ptr {at}, i32 2, {flags} {chosen},"
        f" <{lanes} x i16> zeroinitializer)"
    )


def tiles_of(pairs: bool, deep: bool, name: str) -> str:
    """A task over the tiles across an operand: buffers are operand, tiles and the table.

    ``pairs`` says that tiles hold pairs of depths for columns, ``deep`` that depths lie side by
    side in the operand; otherwise rows or columns do.
    """
    f = Lines()
    pointers(f, ("from", "to"))
    load_table(f, 2, TILE_FIELDS)
    f.loop("u", "%start", "%stop")
    tile = f.emit("urem i64 %u, %tiles")
    at = locate(f, f.emit("udiv i64 %u, %tiles"), {"from": "%from", "to": "%to"})
    first = f.emit(f"mul i64 {tile}, {SIDE}")
    left = f.emit(f"sub i64 %count, {first}")
    source = f.at(at["from"], f.emit(f"mul i64 {first}, %from_side"))
    target = f.at(at["to"], f.emit(f"mul i64 {f.emit(f'mul i64 {tile}, %deep')}, {TILE}"))
    f.loop("k", "0", "%deep")
    depth = f.emit(f"mul i64 %k, {DEPTH}")
    rest = f.emit(f"sub i64 %depth, {depth}")
    here = f.at(source, f.emit(f"mul i64 {depth}, %from_depth"))
    there = f.at(target, f.emit(f"mul i64 %k, {TILE}"))
    lines = []
    if deep:
        mask = _mask(f, DEPTH, rest)
        for i in range(SIDE):
            line = _line(f, here, i, left, mask, DEPTH)
            lines.append(f.emit(f"bitcast <{DEPTH} x i16> {line} to <{SIDE} x i32>"))
            here = f.at(here, "%from_side")
    else:
        mask = _mask(f, SIDE, left)
        for i in range(0, DEPTH, 2):
            both = []
            for j in (i, i + 1):
                line = _line(f, here, j, rest, mask, SIDE)
                both.append(f.emit(f"zext <{SIDE} x i16> {line} to <{SIDE} x i32>"))
                here = f.at(here, "%from_depth")
            high = f.emit(f"shl <{SIDE} x i32> {both[1]}, splat (i32 16)")
            lines.append(f.emit(f"or <{SIDE} x i32> {both[0]}, {high}"))
    if deep == pairs:
        lines = f.transposed(lines, f"<{SIDE} x i32>")
    for i, line in enumerate(lines):
        f(f"store <{SIDE} x i32> {line}, ptr {f.at(there, str(64 * i))}, align 4")
    f.close("k", "%deep", "%k, 1")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    lanes = DEPTH if deep else SIDE
    load = f"<{lanes} x i16> @llvm.masked.load.v{lanes}i16.p0"
    return function(f, name, [f"declare {load}(ptr, i32, <{lanes} x i1>, <{lanes} x i16>)"])


# What says that all eight tiles have sixteen rows of 64 bytes.
_SHAPES = [1] + [0] * 15 + [64, 0] * 8 + [0] * 16 + [SIDE] * 8 + [0] * 8


def matrix_product(out: str, name: str) -> str:
    """A task over blocks of the result: buffers are the tiles of both operands, result and table.

    A unit is two tiles of columns and some blocks of rows.
    """
    f, kind = Lines(), memory_kind(out)
    size, wide = bytes_of(out), f"<{BLOCK} x {kind}>"
    pointers(f, ("lhs", "rhs", "out"))
    load_table(f, 3, MATRIX_FIELDS)
    f(f"%block = alloca [{4 * BLOCK * BLOCK} x i8], align 64")
    f("%shapes = alloca [64 x i8], align 64")
    shapes = ", ".join(f"i8 {n}" for n in _SHAPES)
    f(f"store <64 x i8> <{shapes}>, ptr %shapes, align 64")
    f("call void @llvm.x86.ldtilecfg(ptr %shapes)")
    strip = f.emit(f"mul i64 %deep, {TILE}")
    f.loop("u", "%start", "%stop")
    column_block, row_block, outer = unit_of(f)
    at = locate(f, outer, {"lhs": "%lhs", "rhs": "%rhs", "out": "%out"})
    step = f.emit(f"mul i64 %row_block, {BLOCK}")
    first = f.emit(f"mul i64 {row_block}, {step}")
    last = least(f, f.emit(f"add i64 {first}, {step}"), "%rows")
    column = f.emit(f"mul i64 {column_block}, {BLOCK}")
    b = f.at(at["rhs"], f.emit(f"mul i64 {f.emit(f'mul i64 {column_block}, 2')}, {strip}"))
    mask = _mask(f, BLOCK, f.emit(f"sub i64 %columns, {column}"))
    target = f.at(at["out"], f.emit(f"mul i64 {column}, {size}"))
    f.loop("i", first, last)
    a = f.at(at["lhs"], f.emit(f"mul i64 {f.emit(f'udiv i64 %i, {SIDE}')}, {strip}"))
    for i in range(4):
        f(f"call void @llvm.x86.tilezero(i8 {i})")
    f.loop("k", "0", "%deep")
    place = f.emit(f"mul i64 %k, {TILE}")
    for i, begin in enumerate((a, b)):
        one = f.at(begin, place)
        for j, tile in enumerate((one, f.at(one, strip))):
            f(f"call void @llvm.x86.tileloadd64(i8 {4 + 2 * i + j}, ptr {tile}, i64 64)")
    for i in range(4):
        f(f"call void @llvm.x86.tdpbf16ps(i8 {i}, i8 {4 + i // 2}, i8 {6 + i % 2})")
    f.close("k", "%deep", "%k, 1")
    for i in range(4):
        to = f.at("%block", str(i // 2 * SIDE * 4 * BLOCK + i % 2 * 64))
        f(f"call void @llvm.x86.tilestored64(i8 {i}, ptr {to}, i64 {4 * BLOCK})")
    count = least(f, f.emit("sub i64 %rows, %i"), str(BLOCK))
    f.loop("r", "0", count)
    source = f.at("%block", f.emit(f"mul i64 %r, {4 * BLOCK}"))
    x = f.emit(f"load <{BLOCK} x float>, ptr {source}, align 64")
    y = convert(f, "float", out, x, BLOCK)
    row = f.emit("add i64 %i, %r")
    to = f.at(target, f.emit(f"mul i64 {row}, %out_row"))
    store = f"@llvm.masked.store.v{BLOCK}{'f32' if kind == 'float' else kind}.p0"
    f(f"call void {store}({wide} {y}, ptr {to}, i32 {size}, <{BLOCK} x i1> {mask})")
    f.close("r", count, "%r, 1")
    f.close("i", last, f"%i, {BLOCK}")
    f.close("u", "%stop", "%u, 1")
    f("call void @llvm.x86.tilerelease()")
    f("ret void")
    own = [
        f"declare void {store}({wide}, ptr, i32, <{BLOCK} x i1>)",
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tilezero(i8 immarg)",
        "declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)",
        "declare void @llvm.x86.tdpbf16ps(i8 immarg, i8 immarg, i8 immarg)",
    ]
    return function(f, name, own)
