"""LLVM text of matrix products: register tiles, the walk over blocks of them, and packing.

Sizes and strides come in a table of 64-bit numbers, so one text serves every shape; strides are in
bytes. A text is fixed by the types, the rows of a tile and the lanes of its vectors. Every element
is one chain of multiply-adds in the order of the depth, whatever tile it is computed in; tiles at
the far edges are moved back until they are whole, and write what others write too.
"""

from __future__ import annotations

from itertools import product as places_of
from typing import Any

import numpy as np

from weft.backends.cpu.native.processor import has_by_element_fma
from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    Lines,
    Shape,
    bytes_of,
    convert,
    function,
    inner,
    least,
    load_fields,
    load_table,
    locate,
    memory_kind,
    multiply_add,
    pointers,
    unit_of,
    vector_of,
)
from weft.base.functional import lru
from weft.base.record import Record

# What the table of a product holds, in order.
FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "lhs", "rhs", "out")),
    "rows",
    "columns",
    "depth",
    "row_block",  # rows of a unit of work
    "column_block",  # columns of a unit of work
    "row_blocks",
    "column_blocks",
    "a_tile",  # bytes from one row to the next where tiles of lhs begin, by their place ...
    "a_pack",  # ... and by the number of rows before them (packed)
    "a_row",  # bytes from row to row inside a tile
    "a_depth",
    "b_column",
    "b_depth",
    "b_last",  # bytes from the first vector of a panel to the last
    "out_row",
    "out_last",
    "result_row",  # elements from row to row of the result, where tiles are written to a block
)


class Reading(Record):
    """How the tiles of a product read their operands, where this is fixed in its text.

    ``left`` is "rows" where neighbouring rows of the left operand lie side by side, "depth" where
    neighbouring depths do, "any" otherwise. Addresses that are known here cost no instructions.
    """

    left: str
    packed: bool  # whether the right operand lies in panels, one after the other
    whole: bool  # whether the depth is a multiple of what a turn of a tile's loop takes
    deep: bool  # whether a tile takes long
    finish: bool  # whether a kernel goes on with each tile, which is then written to a block


# Bytes of a panel that a unit packs: they stay in the second cache.
PANEL_BYTES = 1 << 19
# Sums of a tile from which two depths in a turn of its loop are enough to hide the loop itself:
# 1 % slower than four depths, and compiled in two thirds of the time.
MANY_SUMS = 20


def together(shape: Shape) -> int:
    """Depths of one turn of a tile's loop."""
    return 2 if shape.rows * shape.width >= MANY_SUMS else 4


# --- the walk -------------------------------------------------------------------------------------


def panel_place(f: Lines, shape: Shape, j: str) -> str:
    """The first column of the panel after ``j`` columns, moved back until it is whole."""
    over = f.emit(f"sub i64 %columns, {shape.lanes * shape.width}")
    f.lanes = 1
    back = f.call("smax", np.dtype(np.int64), [over, "0"])
    return least(f, j, back)


@lru(64)
def product(shape: Shape, reading: Reading, pack: tuple[str, ...], name: str) -> str:
    """A task over blocks of the result: buffers are lhs, rhs, result and the table.

    The depth is at least one. With the lines of a function ``pack``, a unit packs the panels that
    it reads into memory of its own. Where a kernel goes on with the result, its function is there
    instead of the result, and its buffers follow the table.
    """
    f, step = Lines(), shape.lanes * shape.width
    pointers(f, ("lhs", "rhs", "out"))
    load_table(f, 3, FIELDS)
    load_multiples(f)
    if reading.finish:
        f(f"%block = alloca [{shape.rows * step * bytes_of(shape.out)} x i8], align 64")
    if pack:
        f(f"%panel = alloca [{PANEL_BYTES} x i8], align 64")
    f.loop("u", "%start", "%stop")
    column_block, row_block, outer = unit_of(f)
    out = "0" if reading.finish else "%out"
    at = locate(f, outer, {"lhs": "%lhs", "rhs": "%rhs", "out": out})
    first_row = f.emit(f"mul i64 {row_block}, %row_block")
    last_row = least(f, f.emit(f"add i64 {first_row}, %row_block"), "%rows")
    first = f.emit(f"mul i64 {column_block}, %column_block")
    last = least(f, f.emit(f"add i64 {first}, %column_block"), "%columns")
    bound = f.emit(f"sub i64 %rows, {shape.rows}")
    f.loop("j", first, last)
    place = panel_place(f, shape, "%j")
    column = "%j" if reading.packed and not pack else place
    b = f.at(at["rhs"], f.emit(f"mul i64 {column}, %b_column"))
    if not reading.finish:
        out = f.at(at["out"], f.emit(f"mul i64 {place}, {bytes_of(shape.out)}"))
    if pack:
        f(f"call void @pack(ptr {b}, ptr %panel)")
        b = "%panel"
    f.loop("i", first_row, last_row)
    row = least(f, "%i", bound)
    packed, plain = f.emit("mul i64 %i, %a_pack"), f.emit(f"mul i64 {row}, %a_tile")
    given = {"a": f.at(at["lhs"], packed, plain), "b": b, "table": "%table"}
    given["out"] = "%block"
    if not reading.finish:
        given["out"] = f.at(out, f.emit(f"mul i64 {row}, %out_row"))
    if reading.deep:
        f(f"call void @tile({', '.join(f'{kind} {given[x]}' for x, kind in TILE.items())})")
    else:
        _Tile(f, shape, reading, given).write()
    if reading.finish:
        _finish(f, shape, at["out"], (row, "%i", last_row), (place, "%j", last))
    f.close("i", last_row, f"%i, {shape.rows}")
    f.close("j", last, f"%j, {step}")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    own = [
        *pack,
        *(_narrow(shape) if shape.out == "bfloat" else []),
        *(_tile_function(shape, reading) if reading.deep else []),
    ]
    # Improving the walk would take LLVM a third of its time and gains nothing if tiles are deep.
    return function(f, name, own, "nounwind noinline optnone" if reading.deep else "#0")


def _finish(f: Lines, shape: Shape, outer: str, rows: Any, columns: Any) -> None:
    """Go on with a tile in the block: ``rows`` and ``columns`` are where the tile begins, where its
    own part of the result does, and where the unit ends.

    A tile that is moved back holds what others have too; the kernel touches each element once.
    """
    size, step = bytes_of(shape.out), shape.lanes * shape.width
    (row, first_row, last_row), (column, first, last) = rows, columns
    end_row = least(f, f.emit(f"add i64 {first_row}, {shape.rows}"), last_row)
    end = least(f, f.emit(f"add i64 {first}, {step}"), last)
    down = f.emit(f"mul i64 {f.emit(f'sub i64 {first_row}, {row}')}, {step * size}")
    across = f.emit(f"mul i64 {f.emit(f'sub i64 {first}, {column}')}, {size}")
    begin = f.emit(f"add i64 {outer}, {f.emit(f'mul i64 {first_row}, %result_row')}")
    given = [
        f"ptr {f.at('%buffers', '32')}",
        f"ptr {f.at('%block', down, across)}",
        f"i64 {step * size}",
        f"i64 {f.emit(f'add i64 {begin}, {first}')}",
        f"i64 {f.emit(f'sub i64 {end_row}, {first_row}')}",
        "i64 %result_row",
        f"i64 {f.emit(f'sub i64 {end}, {first}')}",
    ]
    f(f"call void %out({', '.join(given)})")


# The vectors of a tile, by row and place in the row.
Sums = dict[tuple[int, int], str]

# What a tile is given: where its operands and result begin, and the table.
TILE = {"a": "ptr", "b": "ptr", "out": "ptr", "table": "ptr"}


class _Tile:
    """Rows by vectors of the result, summed in registers."""

    def __init__(self, f: Lines, shape: Shape, reading: Reading, given: dict[str, str]) -> None:
        self.f = f
        self.shape = shape
        self.reading = reading
        self.given = given
        self.vector = vector_of(shape.work, shape.lanes)
        self.size = bytes_of(shape.work)
        # Whether one load reads a vector of rows for by-element FMA, and the last one read.
        whole = shape.lanes > 1 and shape.rows % shape.lanes == 0
        self.reads_row_vectors = has_by_element_fma() and reading.left == "rows" and whole
        self.row_vector = ""

    def write(self) -> None:
        """The tile computed and stored."""
        f, shape = self.f, self.shape
        at = self.pointers(self.given["a"], self.given["b"])
        places = places_of(range(shape.rows), range(shape.width))
        sums = dict.fromkeys(places, "zeroinitializer")
        each = together(shape)
        if self.reading.whole:
            self.store(self.loop("%depth", each, at, sums)[1])
            return
        rest = f.emit(f"and i64 %depth, {each - 1}")
        turns = f.emit(f"sub i64 %depth, {rest}")
        at, sums = self.loop(turns, each, at, sums, True)
        self.store(self.loop(rest, 1, at, sums, True)[1])

    def loop(
        self,
        depth: str,
        together: int,
        at: dict[str, str],
        sums: Sums,
        skip: bool = False,
    ) -> tuple[dict[str, str], Sums]:
        """The pointers and sums after so many depths, some in each turn; ``skip``: maybe none."""
        count = len(at)

        def body(_: str, held: list[str]) -> list[str]:
            here = dict(zip(at, held, strict=False))
            new = self.turn(dict(zip(sums, held[count:], strict=True)), here, together)
            moved = self.moved(here, together)
            return [*moved.values(), *new.values()]

        values = [("ptr", x) for x in at.values()] + [(self.vector, x) for x in sums.values()]
        found = self.f.carry("0", depth, values, body, together, not skip)
        return dict(zip(at, found, strict=False)), dict(zip(sums, found[count:], strict=True))

    def store(self, sums: Sums) -> None:
        """The tile written to the result."""
        f, shape = self.f, self.shape
        kind, size = vector_of(memory_kind(shape.out), shape.lanes), bytes_of(shape.out)
        row = self.given["out"]
        for (i, j), x in sums.items():
            if i and j == 0:
                row = f.at(row, "%out_row")
            last = j and j == shape.width - 1
            at = row if j == 0 else f.at(row, "%out_last" if last else str(j * shape.lanes * size))
            if shape.out == "bfloat":
                x = convert(f, shape.work, "float", x, shape.lanes)
                x = f.emit(f"call {kind} @narrow({vector_of('float', shape.lanes)} {x})")
            else:
                x = convert(f, shape.work, shape.out, x, shape.lanes)
            f(f"store {kind} {x}, ptr {at}, align {size}")

    def pointers(self, a: str, b: str) -> dict[str, str]:
        """The pointers that move along the depth: to every fourth row, as three more are within
        reach of multiples of a stride, to the panel, and to its last vector."""
        f, shape = self.f, self.shape
        found = {"a0": a}
        if self.reading.left != "rows":
            for i in range(4, shape.rows, 4):
                found[f"a{i}"] = f.at(found[f"a{i - 4}"], multiple("a_row", 4))
        found["b"] = b
        if not self.reading.packed and shape.width > 1:
            found["last"] = f.at(b, "%b_last")
        return found

    def offsets(self, depths: int) -> tuple[str, str]:
        """By how much pointers to both operands move for so many depths."""
        shape, reading = self.shape, self.reading
        left = str(depths * self.size)
        if reading.left != "depth":
            left = multiple("a_depth", depths)
        right = str(depths * shape.width * shape.lanes * self.size)
        if not reading.packed:
            right = multiple("b_depth", depths)
        return left, right

    def moved(self, at: dict[str, str], depths: int) -> dict[str, str]:
        left, right = self.offsets(depths)
        return {name: self.f.at(x, left if name[0] == "a" else right) for name, x in at.items()}

    def turn(self, sums: Sums, at: dict[str, str], depths: int) -> Sums:
        """Some more depths added to sums."""
        f, (work, _, lanes, _, _) = self.f, self.shape
        for depth in range(depths):
            here = self.moved(at, depth) if depth else at
            panel, new = self.panel(here), {}
            for (i, j), so_far in sums.items():
                if j == 0:
                    spread = self.spread(here, i)
                new[i, j] = multiply_add(f, work, lanes, spread, panel[j], so_far)
            sums = new
        return sums

    def panel(self, at: dict[str, str]) -> list[str]:
        """The vectors of the right operand at one depth."""
        f, width, step = self.f, self.shape.width, self.shape.lanes * self.size
        places = [at["b"] if j == 0 else f.at(at["b"], str(j * step)) for j in range(width)]
        if "last" in at:
            places[-1] = at["last"]
        return [f.emit(f"load {self.vector}, ptr {p}, align {self.size}") for p in places]

    def spread(self, at: dict[str, str], row: int) -> str:
        """A number of the left operand in every lane."""
        f, work, lanes = self.f, self.shape.work, self.shape.lanes
        mask = f"<{lanes} x i32> zeroinitializer"
        if self.reading.left == "rows":
            place = f.at(at["a0"], str(row * self.size)) if row else at["a0"]
        else:
            place = at[f"a{row // 4 * 4}"]
            place = f.at(place, multiple("a_row", row % 4)) if row % 4 else place
        if self.reads_row_vectors:
            if row % lanes == 0:
                self.row_vector = f.emit(f"load {self.vector}, ptr {place}, align {self.size}")
            one, mask = self.row_vector, f"<{lanes} x i32> splat (i32 {row % lanes})"
        else:
            number = f.emit(f"load {work}, ptr {place}, align {self.size}")
            one = f.emit(f"insertelement {self.vector} poison, {work} {number}, i32 0")
        return f.emit(f"shufflevector {self.vector} {one}, {self.vector} poison, {mask}")


def _tile_function(shape: Shape, reading: Reading) -> list[str]:
    """A function that computes a tile: what it takes does not weigh on the walk's registers."""
    f = Lines()
    load_fields(f, FIELDS, ("depth", *STRIDES, "b_last", "out_row", "out_last"))
    load_multiples(f)
    names = {x: f"%{x}" for x in TILE}
    _Tile(f, shape, reading, names).write()
    f("ret void")
    return inner(f, "tile", {names[x]: kind for x, kind in TILE.items()})


STRIDES = ("a_row", "a_depth", "b_depth")


def load_multiples(f: Lines) -> None:
    """Small multiples of the strides that tiles need, before every loop."""
    for field in STRIDES:
        for times in (2, 3, 4):
            f(f"%{field}.{times} = mul i64 %{field}, {times}")


def multiple(field: str, times: int) -> str:
    """A stride of the table so many times."""
    assert 1 <= times <= 4
    return f"%{field}" if times == 1 else f"%{field}.{times}"


def _narrow(shape: Shape) -> list[str]:
    """A function that rounds vectors to bfloat: long, and wanted once for each of a tile."""
    f, have = Lines(), vector_of("float", shape.lanes)
    want = vector_of("i16", shape.lanes)
    f(f"ret {want} {convert(f, 'float', 'bfloat', '%x', shape.lanes)}")
    return inner(f, "narrow", {"%x": have}, want)
