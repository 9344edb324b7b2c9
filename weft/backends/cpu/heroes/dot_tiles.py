"""Products by register tiles: their shape, the blocks of them, and what is packed for them."""

from __future__ import annotations

from math import prod

from weft.backends.cpu.finish import NAME, finish_text
from weft.backends.cpu.heroes.dot_lines import BATCH, Shape, bytes_of
from weft.backends.cpu.heroes.dot_plan import (
    CHUNK_BYTES,
    CHUNK_WORK,
    ONE,
    Operand,
    Plan,
    Problem,
    Result,
    below,
    blocks,
    converted,
    numbers_in,
    outer_numbers,
)
from weft.backends.cpu.heroes.gemm_text import (
    DEEP,
    FIELDS,
    SQUARE,
    TALL,
    Reading,
    product,
    together,
)
from weft.backends.cpu.heroes.pack_text import PACK_FIELDS, pack
from weft.backends.cpu.processor import registers, vector_bits
from weft.kernel.program import Place

# How many units a large product should have, so that many threads find work.
UNITS = 16
# Depths up to which writing the result takes longer than computing it: in general, and for a large
# result whose rows are not whole lines of the cache.
SHALLOW, CROOKED, FAR = 16, 32, 1 << 20
# A depth up to which tiles are written into the walk over them: in general, and where nothing is
# packed, since the walk then takes as long as a third of the tiles.
LASTING, BRIEFLY = 24, 64
# An operand up to this size stays in the nearest cache however it is read.
NEAR = 32 << 10
# Rows from which packing the right operand pays.
MANY_ROWS = 40
# What a tile may cost in terms of the best one where many shapes are to have the same.
NEARLY = 1.08
# Rows that a unit has at least, without and with packing.
UNIT_ROWS = (32, 128)


def shallow(problem: Problem, out: str) -> bool:
    """Whether writing the result decides how long a product takes."""
    size, depth = bytes_of(out), problem.depth.size
    crooked = problem.rows.out * size % 64 != 0
    far = problem.rows.size * problem.columns.size * size >= FAR
    return depth <= SHALLOW or (depth <= CROOKED and crooked and far)


def tile_shape(problem: Problem, work: str, out: str, general: bool) -> Shape:
    """Rows and vectors that fill the registers, for a result of this size."""
    _, rows, columns, depth = problem
    lanes = min(vector_bits() // (8 * bytes_of(work)), below(columns.size))
    count = registers()
    tall = count == 32 and not shallow(problem, out)
    vectors = blocks(columns.size, lanes)
    heights = list({min(n, rows.size): 0 for n in ((6, 8, 12) if tall else (4, 6))})
    widths = (8, 6, 4, 3, 2, 1)
    if general:
        heights = [n for n in ((12, 6, 4, 2, 1) if tall else (6, 4, 2, 1)) if n <= rows.size][:2]
        widths = (8, 4, 2, 1)
    sizes = [
        (height, width)
        for height in heights
        for width in widths
        if width <= vectors and (width == 1 or height * width <= 3 * count // 4)
    ]

    def cost(size: tuple[int, int]) -> float:
        """Cycles: two products or loads each, four at the least, and what a tile costs besides."""
        height, width = size
        cycles = depth.size * (max(height * width, height + width, 8) / 2 + 1)
        tiles = blocks(rows.size, height) * blocks(columns.size, lanes * width)
        return tiles * (cycles + height * width + 32)

    best = min(sizes, key=cost)
    if general:
        best = next(size for size in sizes if cost(size) <= NEARLY * cost(best))
    return Shape(work, out, lanes, *best)


def units(problem: Problem, shape: Shape, pack: bool) -> tuple[int, int]:
    """Rows and columns of a unit of work: a panel over many rows, less where few units result."""
    panel = shape.lanes * shape.width
    depth = problem.depth.size + 16  # what a result costs besides its products
    columns = panel
    if shallow(problem, shape.out) and not pack:  # writing decides: whole rows, one after another
        return shape.rows, blocks(problem.columns.size, panel) * panel
    outer = prod(a.size for a in problem.outer)
    parts = blocks(problem.rows.size, TALL)

    def rows() -> int:
        return blocks(problem.rows.size, parts * shape.rows) * shape.rows

    # A few rows cost as much as eight: reading the other operand decides.
    while max(rows(), 8) * columns * depth < CHUNK_WORK and columns < problem.columns.size:
        columns += panel
    panels = outer * blocks(problem.columns.size, columns)
    # A panel is packed for each block of rows.
    while (
        rows() >= 2 * UNIT_ROWS[pack]
        and rows() * columns * depth > 2 * CHUNK_WORK
        and panels * parts < UNITS
    ):
        parts *= 2
    return rows(), columns


def last_moved(columns: int, shape: Shape) -> int:
    """By how many columns the last vector of a panel is moved back so as to be whole."""
    return max(0, shape.lanes * shape.width - columns)


def tile_tasks(plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, result: Result) -> None:
    """Register tiles over blocks of the result; operands are packed where it pays."""
    size, out_size = bytes_of(plan.work), bytes_of(result.kind)
    _, rows, columns, depth = problem
    shape = tile_shape(problem, plan.work, result.kind, plan.general)
    pack = packing(problem, shape, size, rhs.kind != plan.work)
    lhs = converted(plan, lhs)
    rhs = rhs if pack else converted(plan, rhs)
    right = bytes_of(rhs.kind)
    table = outer_numbers(problem, size, right, out_size)
    last = (shape.width - 1) * shape.lanes - last_moved(columns.size, shape)
    row_block, column_block = units(problem, shape, bool(pack))
    row_blocks, column_blocks = blocks(rows.size, row_block), blocks(columns.size, column_block)
    parts, turn = blocks(depth.size, DEEP), together(shape)
    table.update(
        rows=rows.size, columns=columns.size, depth=depth.size,
        row_block=row_block, column_block=column_block,
        row_blocks=row_blocks, column_blocks=column_blocks,
        depth_block=blocks(depth.size, turn * parts) * turn,
        a_tile=rows.lhs * size, a_pack=0, a_row=rows.lhs * size, a_depth=depth.lhs * size,
        b_column=columns.rhs * right, b_depth=depth.rhs * right, b_last=last * columns.rhs * right,
        out_row=rows.out * out_size, out_last=last * out_size, result_row=rows.out,
    )  # fmt: skip
    if result.finish is not None:
        pitch = shape.lanes * shape.width * out_size
        table.update(outer_numbers(problem, size, right, 1), out_row=pitch)
    left = lhs.place
    if packs_rows(problem, shape, size):
        left, steps = packed(plan, lhs, problem, shape.rows)
        table.update(a_tile=0, a_pack=depth.size * size, a_row=size, a_depth=shape.rows * size)
        table.update(steps)
    way = "rows" if table["a_row"] == size else "depth" if table["a_depth"] == size else "any"
    reading = Reading(
        left=way,
        pack=pack,
        parts=bool(pack) and parts > 1,
        whole=depth.size % turn == 0 and not plan.general,
        deep=depth.size > (LASTING if pack else BRIEFLY),
        finish=result.finish is not None,
        kind=rhs.kind,
        signed=rhs.signed,
    )
    places = (left, rhs.place, result.place, numbers_in(FIELDS, table))
    if result.finish is not None:
        panel = shape.lanes * shape.width
        text = finish_text(result.finish, panel, columns.size % panel == 0 == rows.out % panel)
        more = (Place("finish", i) for i in range(len(result.finish.kernel.buffers)))
        others = [place for place in more if place.what != result.finish.buffer]
        places = (left, rhs.place, Place("code", (text, NAME)), places[3], *others)
    extent = prod(a.size for a in problem.outer) * row_blocks * column_blocks
    unit = max(8, min(row_block, rows.size)) * min(column_block, columns.size) * (depth.size + 16)
    plan.task(product(shape, reading, "product"), places, extent, CHUNK_WORK // unit)


def packing(problem: Problem, shape: Shape, size: int, narrow: bool) -> str:
    """How panels of the right operand are packed, "" for not at all.

    They must be where columns are apart or numbers have another type.
    """
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    if columns.rhs != 1 and columns.size > 1:
        return "columns" if depth.rhs == 1 and depth.size >= SQUARE else "single"
    if narrow:
        return "rows"
    # Packing reads far memory faster than tiles do, and tiles like vectors that are aligned.
    often = rows.size >= MANY_ROWS and not shallow(problem, shape.out)
    far = depth.size * columns.size * size > NEAR
    crooked = depth.rhs % shape.lanes != 0
    return "rows" if often and (far or crooked) else ""


def packs_rows(problem: Problem, shape: Shape, size: int) -> bool:
    """Whether the left operand is packed: where depths are apart, and it is read often."""
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    often = columns.size > 2 * shape.lanes * shape.width and rows.size >= 8
    return depth.lhs != 1 and often and depth.size * rows.size * size > NEAR


def packed(plan: Plan, lhs: Operand, problem: Problem, tile: int) -> tuple[Place, dict[str, int]]:
    """The left operand with the rows of a tile side by side: its new place, and the new strides of
    outer axes."""
    size = bytes_of(lhs.kind)
    rows, depth = problem.rows, problem.depth
    bytes_each = blocks(rows.size, tile) * tile * depth.size * size
    table, steps, copies = {}, {}, 1
    outer = [ONE] * (BATCH - len(problem.outer)) + problem.outer
    for i in reversed(range(BATCH)):
        stride = outer[i].lhs
        table[f"size{i}"] = outer[i].size if stride else 1
        table[f"from{i}"] = stride * size
        table[f"to{i}"] = steps[f"lhs{i}"] = bytes_each * copies if stride else 0
        copies *= table[f"size{i}"]
    block = min(64, depth.size)
    count = blocks(depth.size, block)
    table.update(rows=rows.size, depth=depth.size, depth_block=block, depth_blocks=count)
    table.update(from_row=rows.lhs * size, from_depth=depth.lhs * size)
    place = plan.memory(bytes_each * copies)
    places = (lhs.place, place, numbers_in(PACK_FIELDS, table))
    chunk = CHUNK_BYTES // max(1, block * rows.size * size)
    text = pack(lhs.kind, tile, rows.lhs == 1, "product")
    plan.task(text, places, copies * count, chunk)
    return place, steps
