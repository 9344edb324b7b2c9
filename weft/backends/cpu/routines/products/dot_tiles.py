"""Products by register tiles: their shape, the blocks of them, and what is packed for them."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cpu.finish import NAME, finish_text
from weft.backends.cpu.routines.convolutions import conv_moves as moves
from weft.backends.cpu.routines.convolutions.conv_text import (
    Axis,
    Contraction,
    Dim,
    Panel,
    contraction_text,
)
from weft.backends.cpu.routines.products.dot_lines import Shape, bytes_of, dtype_of
from weft.backends.cpu.routines.products.dot_plan import (
    CHUNK_WORK,
    Operand,
    Plan,
    Problem,
    Result,
    below,
    blocks,
    converted,
)
from weft.backends.cpu.sizes import Written, at_hand, sized_task
from weft.backends.llvm.native.processor import has_by_element_fma, registers, vector_bits
from weft.base.sizes import computed, is_writing, plain
from weft.kernel.program import Place, Task, contiguous

# Bytes of panels that stay in the second cache, and of one that a unit packs on its stack.
PANEL_BYTES, STACK_BYTES = 1 << 19, 1 << 18
# Sums of a tile from which two depths in a turn of its loop are enough to hide the loop itself:
# 1 % slower than four depths, and compiled in two thirds of the time.
MANY_SUMS = 20
# Depths of the right operand that are prefetched where it is far and not packed: too few loads wait
# for memory at a time otherwise.
PREFETCHED_DEPTHS = 8
# Rows that a panel is read by at a time.
PANEL_ROWS = 256
# How many units a large product should have, so that many threads find work.
UNITS = 16
# Depths up to which writing the result takes longer than computing it: in general, and for a large
# result whose rows are not whole lines of the cache.
SHALLOW_DEPTH, SHALLOW_UNALIGNED_DEPTH, LARGE_RESULT_BYTES = 16, 32, 1 << 20
# An operand up to this size stays in the nearest cache however it is read.
L1_BYTES = 32 << 10
# Rows from which packing the right operand pays: in general, and where a panel is narrower than a
# cache line and the operand larger than the second-level cache (in bytes).
MIN_PACKED_ROWS, MIN_PACKED_ROWS_FAR, FAR_RHS_BYTES = 40, 8, 1 << 19
# Bytes up to which an operand is packed that need not be.
MAX_PACKED_BYTES = 1 << 26
# What a tile may cost in terms of the best one where many shapes are to have the same.
NEARLY = 1.08
# Rows up to which vectors run along the depth, and columns that are then computed together at most.
FEW_ROWS, MAX_COLUMNS = 12, 8
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
        if not is_writing() or lanes * width <= columns
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
    assert problem.rows.size >= best[0] and problem.columns.size >= lanes
    assert not is_writing() or problem.columns.size >= lanes * best[1]
    return Shape(work, out, lanes, *best)


def unit_parts(problem: Problem, shape: Shape, pack: bool) -> int:
    """Into how many units the rows of a panel are split: many rows each, less where few units
    result."""
    size, panel = plain(problem.rows.size), shape.lanes * shape.width
    depth = plain(problem.depth.size) + 16  # what a result costs besides its products
    parts = blocks(size, PANEL_ROWS)
    panels = plain(prod(a.size for a in problem.outer)) * blocks(plain(problem.columns.size), panel)
    # A panel is packed for each unit.
    while (
        blocks(size, parts) >= 2 * UNIT_ROWS[pack]
        and blocks(size, parts) * panel * depth > 2 * CHUNK_WORK
        and panels * parts < UNITS
    ):
        parts *= 2
    return parts


def _run(rows: int, height: int, parts: int) -> int:
    """Tiles of a unit."""
    return blocks(rows, height * parts)


def by_rows(problem: Problem) -> bool:
    """Whether vectors run along the depth: few rows, and the other operand is read along it.

    Otherwise that operand would have to be packed; many rows are worth it.
    """
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    if plain(depth.size) < 4 or depth.rhs != 1 or (columns.rhs == 1 and columns.size > 1):
        return False
    few = FEW_ROWS if plain(depth.size) >= 256 or columns.out != 1 else FEW_ROWS // 2
    return type(rows.size) is int and rows.size <= few


def row_shape(problem: Problem, work: str, out: str) -> Shape:
    """All rows, and as many columns as leave registers for what they are multiplied with."""
    rows, columns, depth = problem[1:]
    lanes = min(vector_bits() // (8 * bytes_of(work)), below(plain(depth.size)))
    width = max(1, min(plain(columns.size), MAX_COLUMNS, 3 * registers() // 4 // rows.size))
    width = below(width) if is_writing() else width
    assert depth.size >= lanes and columns.size >= width
    return Shape(work, out, lanes, rows.size, width)


def tile_tasks(plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, result: Result) -> None:
    """Register tiles over blocks of the result; one text serves all shapes with the same tile."""
    if by_rows(problem):
        rhs = converted(plan, rhs)
        lhs, problem = dense_rows(plan, converted(plan, lhs), problem)
        shape, tasks = row_shape(problem, plan.work, result.kind), row_tasks
        turn, whole = shape.lanes, shape.width
    else:
        shape, tasks = tile_shape(problem, plan.work, result.kind), named_tasks
        turn, whole = turns(shape), shape.lanes * shape.width
    if is_writing():
        tasks(plan, lhs, rhs, problem, result, shape)
        return
    written, (outer, *axes) = Written(), problem
    depth = problem.depth.size
    outer, *axes = written.named((tuple(outer), *axes), place="p")
    if problem.columns.size < whole:
        axes[1] = axes[1]._replace(size=problem.columns.size)
    if depth <= turn:  # it is written out
        axes[-1] = axes[-1]._replace(size=depth)
    elif depth % turn == 0:
        axes[-1] = axes[-1]._replace(size=turn * written.named(depth // turn, place="turns"))
    tasks(plan, lhs, rhs, Problem(list(outer), *axes), result, shape)
    plan.scratch = at_hand(plan.scratch)


def dense_rows(plan: Plan, lhs: Operand, problem: Problem) -> tuple[Operand, Problem]:
    """The left operand with its depths side by side."""
    if problem.depth.lhs == 1:
        return lhs, problem
    axes = [*(a for a in problem.outer if a.lhs), problem.rows, problem.depth]
    sizes = tuple(a.size for a in axes)
    place = plan.copied(lhs, sizes, tuple(a.lhs for a in axes))
    steps = iter(contiguous(sizes))
    outer = [a._replace(lhs=next(steps)) if a.lhs else a for a in problem.outer]
    rows, depth = problem.rows._replace(lhs=next(steps)), problem.depth._replace(lhs=next(steps))
    return lhs._replace(place=place), Problem(outer, rows, problem.columns, depth)


def row_tasks(
    plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, result: Result, shape: Shape
) -> None:
    """Every row with several columns at a time, in vectors along the depth."""
    outer, rows, columns, depth = problem
    lanes, height, width = shape[2:]
    starts = [Axis(a.size, 1, a.size, a.lhs, a.rhs, a.out) for a in outer] or [
        Axis(1, 1, 1, 0, 0, 0)
    ]
    along = Axis(blocks(columns.size, width), width, columns.size, 0, columns.rhs, columns.out)
    run = computed(_columns_run, height, width, depth.size)
    contraction = Contraction(
        dtype_of(plan.work), dtype_of(result.kind), (*starts, along),
        (Dim(height, rows.lhs, 0, rows.out), Dim(width, 0, columns.rhs, columns.out)),
        Dim(depth.size, 1, 1, 0), ((0, lanes),), (Dim(depth.size // lanes, lanes, lanes),),
        0, 0, 0, registers(), run=run, unrolled=0,
    )  # fmt: skip
    extent = prod(a.count for a in starts) * blocks(along.count, run)
    unit = (8 * height, run * width)
    contract(plan, contraction, (lhs.place, rhs.place, result.place), unit, extent)


def _columns_run(rows: int, columns: int, depth: int) -> int:
    """Tiles of a unit, in which vectors run along the depth."""
    return blocks(max(1, CHUNK_WORK // 8 // (rows * (depth + 16))), columns)


def contract(
    plan: Plan, contraction: Contraction, places: Any, unit: tuple[int, int], extent: int
) -> None:
    """The task of a contraction in units of so many rows and columns."""
    depth = prod(d.size for d in contraction.reduced)
    if contraction.folded:
        depth = contraction.vector.size
    chunk = computed(_chunk, *unit, depth, extent)
    task = Task("", "product", places, extent, chunk)
    plan.tasks.append(
        sized_task(contraction, task, lambda: contraction_text(contraction, "product"))
    )


def turns(shape: Shape) -> int:
    """Depths of one turn of a tile's loop."""
    return 2 if shape.rows * shape.width >= MANY_SUMS else 4


def named_tasks(
    plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, result: Result, shape: Shape
) -> None:
    """The tasks of a product; operands are packed where it pays."""
    outer, rows, columns, depth = problem
    size, work, have = bytes_of(plan.work), dtype_of(plan.work), dtype_of(rhs.kind, rhs.signed)
    panel, height, lanes = shape.lanes * shape.width, shape.rows, shape.lanes
    pack = packs_columns(problem, shape, size) or rhs.kind != plan.work
    down = Axis(blocks(rows.size, height), height, rows.size, rows.lhs, 0, rows.out)
    width, pieces = min(panel, columns.size), [(i * lanes, lanes) for i in range(shape.width)]
    pieces[-1] = (width - lanes, lanes)
    along = Axis(blocks(columns.size, panel), width, columns.size, 0, columns.rhs, 1)
    starts = [Axis(a.size, 1, a.size, a.lhs, a.rhs, a.out) for a in outer]
    box, inner = Dim(height, rows.lhs, 0, rows.out), Dim(depth.size, depth.lhs, depth.rhs)
    if packs_rows(problem, shape, size):
        left, steps = packed(plan, lhs, problem, "lhs", height)
        down, box = down._replace(left=0, tiles=depth.size * height), box._replace(left=1)
        starts = [a._replace(left=n) for a, n in zip(starts, steps, strict=True)]
        inner = inner._replace(left=height)
    else:
        left = converted(plan, lhs).place
    right, local = rhs.place, None
    if pack and not has_by_element_fma() and depth.size * panel * size <= STACK_BYTES:
        dims = tuple(tile_dims(problem, "rhs", panel))
        local = Panel(dims, have, vector_bits() // (8 * size), depth.size * panel * size)
    elif pack:
        right, steps = packed(plan, rhs, problem, "rhs", panel)
        along = along._replace(right=0, panels=depth.size * panel)
        starts = [a._replace(right=n) for a, n in zip(starts, steps, strict=True)]
    if pack:
        inner = inner._replace(right=panel)
    # one text serves any number of runs
    run = computed(_run, rows.size, height, unit_parts(problem, shape, pack))
    order = [along, down]
    if shallow(problem, shape.out) and not pack:  # writing decides: whole rows, one after another
        order, run = [down, along], 0
    far = has_by_element_fma() and plain(depth.size * columns.size * size) > L1_BYTES
    contraction = Contraction(
        work, dtype_of(result.kind), (*starts, *order), (box,), Dim(width, 0, 1, 1), tuple(pieces),
        (inner,), 0, 0, 0, registers(), 0, None, result.finish is not None,
        "rows" if order[-1] is down else "columns", run, local, turns(shape) * height * shape.width,
        PREFETCHED_DEPTHS * inner.right if far and not pack else 0,
    )  # fmt: skip
    target: tuple[Place, ...] = (result.place,)
    if result.finish is not None:
        text = finish_text(result.finish, panel, columns.size % panel == 0 == rows.out % panel)
        more = (Place("finish", i) for i in range(len(result.finish.kernel.buffers)))
        others = [place for place in more if place.what != result.finish.buffer]
        target = (Place("code", (text, NAME)), *others)
    runs = blocks(down.count, run) if run else 1
    extent = prod(a.count for a in (*starts, order[0])) * runs
    unit = (run * height, panel) if run else (height, columns.size)
    contract(plan, contraction, (left, right, *target), unit, extent)


def _chunk(rows: int, columns: int, depth: int, extent: int) -> int:
    """Units of so many rows and columns that are worth a chunk of their own; all of them where
    little would be left."""
    found = max(1, CHUNK_WORK // (max(8, rows) * columns * (depth + 16)))
    return max(1, extent) if 2 * extent < 3 * found else found


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
    if has_by_element_fma() and plain(columns.size) < shape.lanes * shape.width:
        return False
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


def tile_dims(problem: Problem, side: str, tile: int) -> list[moves.Copied]:
    """The axes of a copy of one tile."""
    across, depth = problem.rows if side == "lhs" else problem.columns, problem.depth
    row = moves.Copied(depth.size, getattr(depth, side), tile)
    return [row, moves.Copied(min(tile, across.size), getattr(across, side), 1)]


def packed(
    plan: Plan, operand: Operand, problem: Problem, side: str, tile: int
) -> tuple[Place, list[int]]:
    """An operand with the rows of a tile side by side, or the columns of a panel: its new place,
    and the new strides of outer axes. The last tile is moved back until it is whole."""
    across, depth = problem.rows if side == "lhs" else problem.columns, problem.depth
    dims = tile_dims(problem, side, tile)
    if across.size >= tile:
        count, limit = blocks(across.size, tile), across.size - tile
        step = getattr(across, side)
        dims.insert(0, moves.Copied(count, step, depth.size * tile, step=tile, limit=limit))
    steps, total = [], blocks(across.size, tile) * tile * depth.size
    for axis in reversed(problem.outer):
        stride = getattr(axis, side)
        steps.append(total if stride else 0)
        if stride:
            dims.insert(0, moves.Copied(axis.size, stride, total))
            total *= axis.size
    types = dtype_of(operand.kind, operand.signed), dtype_of(plan.work)
    return plan.moved(operand, dims, types, total), steps[::-1]
