"""LLVM text that brings the operands of a product into the order its tiles read them in.

A panel is some vectors of columns for each depth, one depth after the other. The rows of a
left operand are packed as the columns of its transpose.
"""

from __future__ import annotations

from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    Lines,
    bytes_of,
    convert,
    function,
    least,
    load_fields,
    load_table,
    locate,
    memory_kind,
    pointers,
)
from weft.base.functional import lru

PACK_FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "from", "to")),
    "rows",
    "depth",
    "depth_block",  # depths of a unit of work
    "depth_blocks",
    "from_row",  # bytes from one row to the next in the operand
    "from_depth",
)
# What packs panels takes: where rows begin and where they go, the depths, and the table.
PANELS = {"from": "ptr", "to": "ptr", "first": "i64", "last": "i64", "table": "ptr"}


@lru(64)
def pack(kind: str, tile: int, near: str, square: int, name: str) -> str:
    """A task over blocks of the depth: buffers are operand, packed operand and the table.

    ``near`` is "rows" if neighbouring rows are contiguous in the operand, "depth" if neighbouring
    depths are, else "any". In the second case blocks of ``square`` rows and depths are transposed
    in registers, and there are at least so many depths. There are at least as many rows as a tile
    has; the last tile is moved back until it is whole.
    """
    f = Lines()
    pointers(f, ("from", "to"))
    load_table(f, 2, PACK_FIELDS)
    f.loop("u", "%start", "%stop")
    block = f.emit("urem i64 %u, %depth_blocks")
    outer = f.emit("udiv i64 %u, %depth_blocks")
    given = locate(f, outer, {"from": "%from", "to": "%to"})
    given["first"] = f.emit(f"mul i64 {block}, %depth_block")
    given["last"] = least(f, f.emit(f"add i64 {given['first']}, %depth_block"), "%depth")
    given["table"] = "%table"
    f(f"call void @panels({', '.join(f'{kind} {given[x]}' for x, kind in PANELS.items())})")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    own = ["declare i64 @llvm.smin.i64(i64, i64)", *_panels(kind, tile, near, square)]
    # As with tiles, improving the walk would take LLVM longer than the rest and gains nothing.
    return function(f, name, own, "nounwind noinline optnone")


def _panels(kind: str, tile: int, near: str, square: int) -> list[str]:
    """A function that packs some depths of all rows."""
    f, size = Lines(), bytes_of(kind)
    load_fields(f, PACK_FIELDS, ("rows", "depth", "from_row", "from_depth"))
    bound = f.emit(f"sub i64 %rows, {tile}")
    strip = f.emit(f"mul i64 %depth, {size}")
    f.loop("i", "0", "%rows")
    place = least(f, "%i", bound)
    source = f.at("%from", f.emit(f"mul i64 {place}, %from_row"))
    target = f.at("%to", f.emit(f"mul i64 %i, {strip}"))
    f.loop("k", "%first", "%last")
    depths = square if near == "depth" else 1
    k = "%k" if depths == 1 else least(f, "%k", f.emit(f"sub i64 %depth, {depths}"))
    here = f.at(source, f.emit(f"mul i64 {k}, %from_depth"))
    there = f.at(target, f.emit(f"mul i64 {k}, {tile * size}"))
    each = tile if near == "rows" else depths
    vector = f"<{each} x {kind}>"
    for row in range(0, tile, each):
        rows = []
        for i in range(depths):
            here = here if row + i == 0 else f.at(here, "%from_row")
            rows.append(f.emit(f"load {vector}, ptr {here}, align {size}"))
        for i, x in enumerate(f.transposed(rows, vector) if depths > 1 else rows):
            to = f.at(there, str((i * tile + row) * size))
            f(f"store {vector} {x}, ptr {to}, align {size}")
    f.close("k", "%last", f"%k, {depths}")
    f.close("i", "%rows", f"%i, {tile}")
    f("ret void")
    taken = ", ".join(f"{kind} %{x}" for x, kind in PANELS.items())
    return [f"define internal void @panels({taken}) #0 {{", "entry:", *f.lines, "}"]


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


def copy_fields(rank: int) -> tuple[str, ...]:
    """What a copy reads of each axis: its size, and bytes from an element to the next."""
    return tuple(f"{word}{i}" for i in range(rank) for word in ("size", "from", "to"))


@lru(32)
def copy(size: int, rank: int, name: str) -> str:
    """A task over the first axis: buffers are an array with strides, a row-major copy of it, and
    the table."""
    f = Lines()
    pointers(f, ("from", "to"))
    load_table(f, 2, copy_fields(rank))
    places = {"from": "%from", "to": "%to"}
    for i in range(rank):
        f.loop(f"i{i}", *(("%start", "%stop") if i == 0 else ("0", f"%size{i}")))
        for side, place in places.items():
            places[side] = f.at(place, f.emit(f"mul i64 %i{i}, %{side}{i}"))
    x = f.emit(f"load i{8 * size}, ptr {places['from']}, align {size}")
    f(f"store i{8 * size} {x}, ptr {places['to']}, align {size}")
    for i in reversed(range(rank)):
        f.close(f"i{i}", "%stop" if i == 0 else f"%size{i}", f"%i{i}, 1")
    f("ret void")
    return function(f, name, [])
