"""LLVM text that brings the operands of a product into the order its tiles read them in.

A panel is some vectors of columns for each depth, one depth after the other. The rows of a
left operand are packed as the columns of its transpose.
"""

from __future__ import annotations

from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    Lines,
    bytes_of,
    function,
    inner,
    least,
    load_fields,
    load_table,
    locate,
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
    # As with tiles, improving the walk would take LLVM longer than the rest and gains nothing.
    return function(f, name, _panels(kind, tile, near, square), "nounwind noinline optnone")


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
    return inner(f, "panels", {f"%{x}": kind for x, kind in PANELS.items()})
