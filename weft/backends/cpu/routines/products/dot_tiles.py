"""Products by register tiles: their shape, the blocks of them, and what is packed for them."""

from __future__ import annotations

from math import prod

from weft.backends.cpu.finish import NAME, finish_text
from weft.backends.cpu.native.processor import has_by_element_fma, registers, vector_bits
from weft.backends.cpu.routines.convolutions import conv_moves as moves
from weft.backends.cpu.routines.products.dot_lines import BATCH, Shape, bytes_of, dtype_of
from weft.backends.cpu.routines.products.dot_plan import (
    CHUNK_WORK,
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
from weft.backends.cpu.routines.products.gemm_text import (
    FIELDS,
    PANEL_BYTES,
    Reading,
    product,
    together,
)
from weft.backends.cpu.sizes import Written, at_hand
from weft.base.sizes import computed, is_writing, plain
from weft.kernel.program import Place, Task

# Rows that a panel is read by at a time.
PANEL_ROWS = 256
# How many units a large product should have, so that many threads find work.
UNITS = 16
# Depths up to which writing the result takes longer than computing it: in general, and for a large
# result whose rows are not whole lines of the cache.
SHALLOW_DEPTH, SHALLOW_UNALIGNED_DEPTH, LARGE_RESULT_BYTES = 16, 32, 1 << 20
# A depth up to which tiles are written into the walk over them: in general, and where nothing is
# packed, since the walk then takes as long as a third of the tiles.
LASTING, BRIEFLY = 24, 64
# An operand up to this size stays in the nearest cache however it is read.
L1_BYTES = 32 << 10
# Rows from which packing the right operand pays: in general, and where a panel is narrower than a
# cache line and the operand larger than the second-level cache (in bytes).
MIN_PACKED_ROWS, MIN_PACKED_ROWS_FAR, FAR_RHS_BYTES = 40, 8, 1 << 19
# Bytes up to which an operand is packed that need not be.
MAX_PACKED_BYTES = 1 << 26
# What a tile may cost in terms of the best one where many shapes are to have the same.
NEARLY = 1.08
# Rows that a unit has at least, without and with packing.
UNIT_ROWS = (32, 128)


def shallow(problem: Problem, out: str) -> bool:
    """Whether writing the result decides how long a product takes."""
    size, depth = bytes_of(out), plain(problem.depth.size)
    crooked = plain(problem.rows.out) * size % 64 != 0
    far = plain(problem.rows.size) * plain(problem.columns.size) * size >= LARGE_RESULT_BYTES
    return depth <= SHALLOW_DEPTH or (depth <= SHALLOW_UNALIGNED_DEPTH and crooked and far)


def tile_shape(problem: Problem, work: str, out: str) -> Shape:
    """Rows and vectors that fill the registers, for a result of this size; where sizes have names a
    few forms serve all."""
    rows, columns, depth = (plain(a.size) for a in problem[1:])
    lanes = min(vector_bits() // (8 * bytes_of(work)), below(columns))
    count = registers()
    tall = count == 32 and not shallow(problem, out)
    vectors = blocks(columns, lanes)
    usual, common = ((6, 8, 12), (12, 6, 4, 2, 1)) if tall else ((4, 6), (6, 4, 2, 1))
    if tall and has_by_element_fma():  # a tile has whole vectors of rows
        usual, common = (8, 12, 4), (12, 8, 4, 2, 1)
    heights = list({min(n, rows): 0 for n in usual})
    widths = (8, 6, 4, 3, 2, 1)
    if is_writing():
        heights = [n for n in common if n <= rows][:2]
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
        cycles = depth * (max(height * width, height + width, 8) / 2 + 1)
        tiles = blocks(rows, height) * blocks(columns, lanes * width)
        return tiles * (cycles + height * width + 32)

    best = min(sizes, key=cost)
    if is_writing():
        best = next(size for size in sizes if cost(size) <= NEARLY * cost(best))
    assert problem.rows.size >= best[0] and problem.columns.size > lanes * (best[1] - 1)
    assert problem.columns.size >= lanes
    return Shape(work, out, lanes, *best)


def units(problem: Problem, shape: Shape, pack: bool) -> tuple[int, int]:
    """Rows and columns of a unit of work: a panel over many rows, less where few units result."""
    panel = shape.lanes * shape.width
    depth = plain(problem.depth.size) + 16  # what a result costs besides its products
    columns = panel
    if shallow(problem, shape.out) and not pack:  # writing decides: whole rows, one after another
        return shape.rows, blocks(problem.columns.size, panel) * panel
    outer = plain(prod(a.size for a in problem.outer))
    parts = blocks(problem.rows.size, PANEL_ROWS)

    def rows(size: int = plain(problem.rows.size)) -> int:
        return blocks(size, plain(parts) * shape.rows) * shape.rows

    # A few rows cost as much as eight: reading the other operand decides.
    while max(rows(), 8) * columns * depth < CHUNK_WORK and columns < plain(problem.columns.size):
        columns += panel
    panels = outer * blocks(plain(problem.columns.size), columns)
    # A panel is packed for each block of rows.
    while (
        rows() >= 2 * UNIT_ROWS[pack]
        and rows() * columns * depth > 2 * CHUNK_WORK
        and panels * plain(parts) < UNITS
    ):
        parts *= 2
    return blocks(problem.rows.size, parts * shape.rows) * shape.rows, columns


def last_moved(columns: int, shape: Shape) -> int:
    """By how many columns the last vector of a panel is moved back so as to be whole."""
    return max(0, shape.lanes * shape.width - columns)


def tile_tasks(plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, result: Result) -> None:
    """Register tiles over blocks of the result; operands are packed where it pays."""
    size, out_size = bytes_of(plan.work), bytes_of(result.kind)
    _, rows, columns, depth = problem
    shape = tile_shape(problem, plan.work, result.kind)
    pack = packs_columns(problem, shape, size) or rhs.kind != plan.work
    right = bytes_of(rhs.kind)
    table = outer_numbers(problem, size, right, out_size)
    last = (shape.width - 1) * shape.lanes - last_moved(columns.size, shape)
    row_block, column_block = units(problem, shape, pack)
    row_blocks, column_blocks = blocks(rows.size, row_block), blocks(columns.size, column_block)
    table.update(
        rows=rows.size, columns=columns.size, depth=depth.size,
        row_block=row_block, column_block=column_block,
        row_blocks=row_blocks, column_blocks=column_blocks,
        a_tile=rows.lhs * size, a_pack=0, a_row=rows.lhs * size, a_depth=depth.lhs * size,
        b_column=columns.rhs * right, b_depth=depth.rhs * right, b_last=last * columns.rhs * right,
        out_row=rows.out * out_size, out_last=last * out_size, result_row=rows.out,
    )  # fmt: skip
    if result.finish is not None:
        pitch = shape.lanes * shape.width * out_size
        table.update(outer_numbers(problem, size, right, 1), out_row=pitch)
    if packs_rows(problem, shape, size):
        left, steps = packed(plan, lhs, problem, "lhs", shape.rows, shape.rows)
        table.update(a_tile=0, a_pack=depth.size * size, a_row=size, a_depth=shape.rows * size)
        table.update(steps)
    else:
        left = converted(plan, lhs).place
    panels, panel, pack_text, written = rhs.place, shape.lanes * shape.width, (), Written()
    if pack and not has_by_element_fma() and depth.size * panel * size <= PANEL_BYTES:
        table.update(b_depth=panel * size)
        pack_text = unit_pack(written, rhs, problem, plan.work, shape)
    elif pack:
        panels, steps = packed(plan, rhs, problem, "rhs", panel, shape.lanes)
        table.update(b_column=depth.size * size, b_depth=panel * size)
        table.update(steps)
    way = "rows" if table["a_row"] == size else "depth" if table["a_depth"] == size else "any"
    reading = Reading(
        left=way,
        packed=pack,
        whole=not is_writing() and depth.size % together(shape) == 0,
        deep=plain(depth.size) > (LASTING if pack else BRIEFLY),
        finish=result.finish is not None,
    )
    places = (left, panels, result.place, numbers_in(FIELDS, table))
    if result.finish is not None:
        panel = shape.lanes * shape.width
        text = finish_text(result.finish, panel, columns.size % panel == 0 == rows.out % panel)
        more = (Place("finish", i) for i in range(len(result.finish.kernel.buffers)))
        others = [place for place in more if place.what != result.finish.buffer]
        places = (left, panels, Place("code", (text, NAME)), places[3], *others)
    extent = prod(a.size for a in problem.outer) * row_blocks * column_blocks
    sizes = (row_block, rows.size, column_block, columns.size, depth.size)
    text = product(shape, reading, pack_text, "product")
    task = Task(text, "product", places, extent, computed(_chunk, *sizes))
    plan.tasks.append(task if is_writing() else at_hand(written.task(task)))


def _chunk(row_block: int, rows: int, column_block: int, columns: int, depth: int) -> int:
    """Blocks of a result that are worth a chunk of their own."""
    unit = max(8, min(row_block, rows)) * min(column_block, columns) * (depth + 16)
    return max(1, CHUNK_WORK // unit)


def packs_columns(problem: Problem, shape: Shape, size: int) -> bool:
    """Whether the right operand is packed: where columns are apart, or it is read often."""
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    if columns.rhs != 1 and columns.size > 1:
        return True
    # Packing reads far memory faster than tiles do, and tiles like vectors that are aligned.
    bytes_each = plain(depth.size * columns.size * size)
    narrow_panels = has_by_element_fma() and bytes_each > FAR_RHS_BYTES
    fewest = MIN_PACKED_ROWS_FAR if narrow_panels else MIN_PACKED_ROWS
    often = plain(rows.size) >= fewest and not shallow(problem, shape.out)
    far = bytes_each > L1_BYTES
    crooked = plain(depth.rhs) % shape.lanes != 0
    fits = plain(operand_bytes(problem, "rhs", size)) <= MAX_PACKED_BYTES
    return often and (far or crooked) and (fits or not has_by_element_fma())


def packs_rows(problem: Problem, shape: Shape, size: int) -> bool:
    """Whether the left operand is packed: where it is read often, and its depths are apart or
    by-element FMA wants vectors of rows."""
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    often = plain(columns.size) > 2 * shape.lanes * shape.width and plain(rows.size) >= 8
    if depth.lhs == 1:
        fits = plain(operand_bytes(problem, "lhs", size)) <= MAX_PACKED_BYTES
        return often and has_by_element_fma() and fits
    return often and plain(depth.size * rows.size * size) > L1_BYTES


def operand_bytes(problem: Problem, side: str, size: int) -> int:
    """The bytes of one operand, "lhs" or "rhs", with all its outer axes."""
    axes = [*problem.outer, problem.rows, problem.columns, problem.depth]
    return prod(axis.size for axis in axes if getattr(axis, side)) * size


def tile_dims(problem: Problem, side: str, tile: int, lanes: int) -> list[moves.Copied]:
    """The axes of a copy of one tile; its last vector is moved back if it is wider than all."""
    across, depth = problem.rows if side == "lhs" else problem.columns, problem.depth
    step, wide, dims = getattr(across, side), tile, []
    if across.size < tile:
        wide, limit = lanes, across.size - lanes
        dims = [moves.Copied(tile // lanes, step, lanes, step=lanes, limit=limit)]
    dims.append(moves.Copied(depth.size, getattr(depth, side), tile))
    return [*dims, moves.Copied(wide, step, 1)]


def unit_pack(
    written: Written, rhs: Operand, problem: Problem, work: str, shape: Shape
) -> tuple[str, ...]:
    """The lines of a function that packs one panel of the right operand."""
    dims = tile_dims(problem, "rhs", shape.lanes * shape.width, shape.lanes)
    types = dtype_of(rhs.kind, rhs.signed), dtype_of(work)
    lanes = vector_bits() // (8 * types[1].itemsize)
    if is_writing():
        return tuple(moves.copy_function(dims, types, lanes, "pack"))
    with written.writing():
        named = moves.named(written, dims)
        return tuple(moves.copy_function(named, types, lanes, "pack"))


def packed(
    plan: Plan, operand: Operand, problem: Problem, side: str, tile: int, lanes: int
) -> tuple[Place, dict[str, int]]:
    """An operand with the rows of a tile side by side, or the columns of a panel: its new place,
    and the new strides of outer axes.

    What reaches beyond the last row or column is moved back: whole tiles, or the last vector of the
    only one.
    """
    across, depth = problem.rows if side == "lhs" else problem.columns, problem.depth
    step, dims = getattr(across, side), tile_dims(problem, side, tile, lanes)
    if across.size >= tile:
        count, apart = blocks(across.size, tile), depth.size * tile
        dims.insert(0, moves.Copied(count, step, apart, step=tile, limit=across.size - tile))
    steps, total = {}, blocks(across.size, tile) * tile * depth.size
    for i, axis in reversed(list(enumerate(problem.outer, BATCH - len(problem.outer)))):
        stride = getattr(axis, side)
        steps[f"{side}{i}"] = total * bytes_of(plan.work) if stride else 0
        if stride:
            dims.insert(0, moves.Copied(axis.size, stride, total))
            total *= axis.size
    types = dtype_of(operand.kind, operand.signed), dtype_of(plan.work)
    return plan.moved(operand, dims, types), steps
