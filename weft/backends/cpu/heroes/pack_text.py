"""LLVM text that brings the operands of a product into the order its tiles read them in.

A panel is some vectors of columns for each depth, one depth after the other. The rows of a
left operand are packed as the columns of its transpose.
"""

from __future__ import annotations

from weft.backends.cpu.heroes.gemm_text import (
    BATCH,
    Lines,
    Shape,
    bytes_of,
    convert,
    function,
    is_floating,
    least,
    load_table,
    locate,
    memory_kind,
    panel_place,
    pointers,
)

PACK_FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "from", "to")),
    "columns",
    "depth",
    "depth_block",  # depths of a unit of work
    "depth_blocks",
    "from_column",  # bytes from one column to the next in the operand
    "from_depth",
    "last_moved",  # by how many columns the last vector of every panel is moved back
)
PART_FIELDS = ("parts", "length")  # how many, at least two, and the bytes of each
SQUARE = 8  # numbers along the side of what is transposed in registers


def pack(shape: Shape, name: str, way: str) -> str:
    """A task over blocks of the depth: buffers are operand, packed operand and the table.

    ``way`` is "rows" where neighbouring columns lie side by side in the operand, "columns" where
    neighbouring depths do (at least ``SQUARE`` of them), and "single" otherwise.
    """
    f, size = Lines(), bytes_of(shape.work)
    pointers(f, ("from", "to"))
    load_table(f, 2, PACK_FIELDS)
    f(f"%panel = mul i64 %depth, {size}")
    f.loop("u", "%start", "%stop")
    block = f.emit("urem i64 %u, %depth_blocks")
    outer = f.emit("udiv i64 %u, %depth_blocks")
    at = locate(f, outer, {"from": "%from", "to": "%to"})
    first = f.emit(f"mul i64 {block}, %depth_block")
    last = least(f, f.emit(f"add i64 {first}, %depth_block"), "%depth")
    if way == "rows" and shape.width > 1:
        _rows(f, shape, at, first, last)
    else:
        _columns(f, shape, at, first, last, way)
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    limits = [f"declare i64 @llvm.s{what}.i64(i64, i64)" for what in ("min", "max")]
    return function(f, name, limits)


def _rows(f: Lines, shape: Shape, at: dict[str, str], first: str, last: str) -> None:
    """Vectors of every panel copied, one depth after the other: the operand is read in order."""
    size = bytes_of(shape.work)
    kind, step = f"<{shape.lanes} x {shape.work}>", shape.lanes * size
    f.loop("k", first, last)
    row = f.at(at["from"], f.emit("mul i64 %k, %from_depth"))
    there = f.at(at["to"], f.emit(f"mul i64 %k, {step * shape.width}"))
    f.loop("j", "0", "%columns")
    place = panel_place(f, shape, "%j")
    source = f.at(row, f.emit(f"mul i64 {place}, {size}"))
    target = f.at(there, f.emit("mul i64 %j, %panel"))
    for v in range(shape.width):
        here = source if v == 0 else f.at(source, str(v * step))
        if v and v == shape.width - 1:
            here = f.at(here, f.emit(f"mul i64 %last_moved, {-size}"))
        x = f.emit(f"load {kind}, ptr {here}, align {size}")
        f(f"store {kind} {x}, ptr {f.at(target, str(v * step))}, align {size}")
    f.close("j", "%columns", f"%j, {shape.lanes * shape.width}")
    f.close("k", last, "%k, 1")


def _columns(f: Lines, shape: Shape, at: dict[str, str], first: str, last: str, way: str) -> None:
    """Panels one after the other: squares transposed, vectors or single numbers."""
    size, across = bytes_of(shape.work), shape.lanes * shape.width
    each = {"rows": shape.lanes, "columns": min(shape.lanes, SQUARE), "single": 1}[way]
    step = each if way == "columns" else 1
    kind = f"<{each} x {shape.work}>"
    f.loop("j", "0", "%columns")
    place = panel_place(f, shape, "%j")
    source = f.at(at["from"], f.emit(f"mul i64 {place}, %from_column"))
    target = f.at(at["to"], f.emit("mul i64 %j, %panel"))
    f.loop("c", "0", str(across))
    # The last vector of a panel may be moved back.
    is_last = f.emit(f"icmp sge i64 %c, {across - shape.lanes}")
    moved = f.emit(f"select i1 {is_last}, i64 %last_moved, i64 0")
    column = f.emit(f"mul i64 {f.emit(f'sub i64 %c, {moved}')}, %from_column")
    source, target = f.at(source, column), f.at(target, f.emit(f"mul i64 %c, {size}"))
    f.loop("k", first, last)
    k = "%k" if step == 1 else least(f, "%k", f.emit(f"sub i64 %depth, {step}"))
    source = f.at(source, f.emit(f"mul i64 {k}, %from_depth"))
    target = f.at(target, f.emit(f"mul i64 {k}, {across * size}"))
    if way == "columns":
        _square(f, kind, each, source, target, size, across * size)
    else:
        x = f.emit(f"load {kind}, ptr {source}, align {size}")
        f(f"store {kind} {x}, ptr {target}, align {size}")
    f.close("k", last, f"%k, {step}")
    f.close("c", str(across), f"%c, {each}")
    f.close("j", "%columns", f"%j, {across}")


def _square(
    f: Lines, kind: str, lanes: int, source: str, target: str, size: int, step: int
) -> None:
    """A square of numbers, read along the depth and written along columns."""
    rows = []
    for i in range(lanes):
        source = source if i == 0 else f.at(source, "%from_column")
        rows.append(f.emit(f"load {kind}, ptr {source}, align {size}"))
    for i, row in enumerate(transposed(f, rows, kind, lanes)):
        f(f"store {kind} {row}, ptr {f.at(target, str(i * step))}, align {size}")


def transposed(f: Lines, rows: list[str], kind: str, lanes: int) -> list[str]:
    """A square of vectors with rows and columns exchanged: halves swapped, then quarters, ..."""
    distance = lanes // 2
    while distance:
        for i in range(lanes):
            if i & distance:
                continue
            first, second = rows[i], rows[i + distance]
            low = [k if not k & distance else lanes + k - distance for k in range(lanes)]
            high = [k + distance if not k & distance else lanes + k for k in range(lanes)]
            for row, order in ((i, low), (i + distance, high)):
                mask = ", ".join(f"i32 {k}" for k in order)
                rows[row] = f.emit(
                    f"shufflevector {kind} {first}, {kind} {second}, <{lanes} x i32> <{mask}>"
                )
        distance //= 2
    return rows


def change(have: str, want: str, signed: bool, lanes: int, name: str) -> str:
    """A task that converts numbers: buffers are the numbers and what they become."""
    f = Lines()
    pointers(f, ("from", "to"))
    f("%count = sub i64 %stop, %start")
    f(f"%vectors = and i64 %count, {-lanes}")
    f("%middle = add i64 %start, %vectors")
    for loop, width, low, high in (
        ("v", lanes, "%start", "%middle"),
        ("s", 1, "%middle", "%stop"),
    ):
        f.loop(loop, low, high)
        at = f.at("%from", f.emit(f"mul i64 %{loop}, {bytes_of(have)}"))
        vector = f"<{width} x {memory_kind(have)}>"
        x = f.emit(f"load {vector}, ptr {at}, align {bytes_of(have)}")
        y = convert(f, have, want, x, width, signed)
        to = f.at("%to", f.emit(f"mul i64 %{loop}, {bytes_of(want)}"))
        f(f"store <{width} x {memory_kind(want)}> {y}, ptr {to}, align {bytes_of(want)}")
        f.close(loop, high, f"%{loop}, {width}")
    f("ret void")
    return function(f, name, [])


def add_parts(work: str, out: str, lanes: int, name: str) -> str:
    """A task that adds parts of a result in their order: buffers are parts, result and table.

    The first part begins the buffer; each is as long as the result.
    """
    f, size = Lines(), bytes_of(work)
    pointers(f, ("from", "to"))
    load_table(f, 2, PART_FIELDS)
    count = f.emit("sub i64 %stop, %start")
    middle = f.emit(f"add i64 %start, {f.emit(f'and i64 {count}, {-lanes}')}")
    add = "fadd" if is_floating(work) else "add"
    for loop, width, low, high in (("v", lanes, "%start", middle), ("s", 1, middle, "%stop")):
        vector = f"<{width} x {work}>"
        f.loop(loop, low, high)
        at = f.at("%from", f.emit(f"mul i64 %{loop}, {size}"))
        begin = f.emit(f"load {vector}, ptr {at}, align {size}")
        p = f"{loop}p"
        f(f"br label %{p}.before")
        f.label(f"{p}.before")
        f(f"br label %{p}.body")
        f.label(f"{p}.body")
        f(f"%{p} = phi i64 [ 1, %{p}.before ], [ %{p}.next, %{p}.body ]")
        f(f"%{p}.sum = phi {vector} [ {begin}, %{p}.before ], [ %{p}.new, %{p}.body ]")
        part = f.at(at, f.emit(f"mul i64 %{p}, %length"))
        x = f.emit(f"load {vector}, ptr {part}, align {size}")
        f(f"%{p}.new = {add} {vector} %{p}.sum, {x}")
        f(f"%{p}.next = add i64 %{p}, 1")
        f(f"%{p}.more = icmp slt i64 %{p}.next, %parts")
        f(f"br i1 %{p}.more, label %{p}.body, label %{p}.done")
        f.label(f"{p}.done")
        y = convert(f, work, out, f"%{p}.new", width)
        to = f.at("%to", f.emit(f"mul i64 %{loop}, {bytes_of(out)}"))
        f(f"store <{width} x {memory_kind(out)}> {y}, ptr {to}, align {bytes_of(out)}")
        f.close(loop, high, f"%{loop}, {width}")
    f("ret void")
    return function(f, name, [])


def copy(kind: str, sizes: tuple[int, ...], strides: tuple[int, ...], name: str) -> str:
    """A task over the first axis: buffers are an array with strides and a row-major copy of it."""
    f, size, kind = Lines(), bytes_of(kind), memory_kind(kind)
    pointers(f, ("from", "to"))
    source, target = "%from", "%to"
    inside = size
    steps = []
    for extent in reversed(sizes):
        steps.append(inside)
        inside *= extent
    steps.reverse()
    for i, (extent, stride, step) in enumerate(zip(sizes, strides, steps, strict=True)):
        low, high = ("%start", "%stop") if i == 0 else ("0", str(extent))
        f.loop(f"i{i}", low, high)
        source = f.at(source, f.emit(f"mul i64 %i{i}, {stride * size}"))
        target = f.at(target, f.emit(f"mul i64 %i{i}, {step}"))
    x = f.emit(f"load {kind}, ptr {source}, align {size}")
    f(f"store {kind} {x}, ptr {target}, align {size}")
    for i, extent in reversed(list(enumerate(sizes))):
        f.close(f"i{i}", "%stop" if i == 0 else str(extent), f"%i{i}, 1")
    f("ret void")
    return function(f, name, [])
