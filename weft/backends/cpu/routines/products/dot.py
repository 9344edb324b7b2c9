"""Products (``dot_general``) as native tasks: which kernel runs on which blocks.

The axes of a product are sorted into outer ones, rows, columns and depth and joined where strides
allow it. What is left over of rows and columns becomes outer axes, so that nothing is copied
unless the depth itself cannot be joined. The rules and what was measured for them:
docs/decisions/0007-products.md.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cpu.routines.contractions.contraction import CHUNK_BYTES, blocks
from weft.backends.cpu.routines.contractions.conv import working
from weft.backends.cpu.routines.contractions.conv_text import Dim, collapsed
from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.cpu.routines.products import amx_text as amx
from weft.backends.cpu.routines.products.blas_text import (
    BATCH,
    PLAIN,
    TRANSPOSED,
    library_product,
)
from weft.backends.cpu.routines.products.product import (
    CHUNK_WORK,
    FEW_ROWS,
    PANEL_BYTES,
    PANEL_ROWS,
    Operand,
    Problem,
    Product,
    Result,
    below,
    by_rows,
)
from weft.backends.cpu.routines.registry import FINISHING, LOWERINGS, SMALL
from weft.backends.cpu.sizes import named, sized_task
from weft.backends.llvm.native.processor import has_matrices, vector_bits
from weft.base.sizes import Size, is_writing, plain
from weft.kernel.nodes import BF16, F32, F64
from weft.kernel.program import Finish, Lowered, Place, Task, Type, contiguous

ONE = Dim(1, 0, 0, 0)
# The letter of a type in names of the library's functions.
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# Parts that a long depth is split into at most, and the depth of a part at least.
MAX_DEPTH_PARTS, MIN_PART_DEPTH = 16, 1024
# Bytes of partial results at most.
MAX_PARTIAL_BYTES = 1 << 26
# Multiply-adds and elements up to which code for one shape is not worth its making.
MAX_SMALL_WORK, MAX_SMALL_ELEMENTS = 1 << 18, 1 << 14
# Multiply-adds up to which tiles of whole matrices do not pay.
FEW_TILES = 1 << 15
# Cycles of a result for each vector along its depth, those for adding up the lanes of one; and for
# each vector of results that lie side by side.
ALONG, FOLDED, ACROSS = 0.75, 7.0, 0.54


# --- what the product is --------------------------------------------------------------------------


def axes_of(
    lhs: Operand, rhs: Operand, numbers: Any, swapped: bool = False
) -> tuple[list[Dim], ...]:
    """The outer axes, rows, columns and depths of a product, none joined yet.

    The result of swapped operands has its columns before its rows.
    """
    (lhs_depth, rhs_depth), (lhs_outer, rhs_outer) = numbers
    outer = [
        Dim(lhs.shape[i], lhs.strides[i], rhs.strides[j])
        for i, j in zip(lhs_outer, rhs_outer, strict=True)
    ]
    rows = [
        Dim(n, stride, 0)
        for i, (n, stride) in enumerate(zip(lhs.shape, lhs.strides, strict=True))
        if i not in {*lhs_depth, *lhs_outer}
    ]
    columns = [
        Dim(n, 0, stride)
        for i, (n, stride) in enumerate(zip(rhs.shape, rhs.strides, strict=True))
        if i not in {*rhs_depth, *rhs_outer}
    ]
    groups = [outer, columns, rows] if swapped else [outer, rows, columns]
    steps = iter(contiguous([d.size for group in groups for d in group]))
    groups = [[d._replace(out=next(steps)) for d in group] for group in groups]
    outer, rows, columns = (groups[0], *groups[:0:-1]) if swapped else groups
    depth = [
        Dim(lhs.shape[i], lhs.strides[i], rhs.strides[j])
        for i, j in zip(lhs_depth, rhs_depth, strict=True)
    ]
    return outer, rows, columns, depth


def one_depth(depth: list[Dim]) -> Dim | None:
    """The depths as one axis, in whatever order joins them; None where none does."""
    if any(axis.size == 0 for axis in depth):
        return Dim(0, 1, 1, 0)
    for side in (1, 2):
        found = collapsed(sorted(depth, key=lambda axis: -axis[side]))
        if len(found) < 2:
            return found[0] if found else Dim(1, 1, 1, 0)
    return None


def problem_of(lhs: Operand, rhs: Operand, numbers: Any, swapped: bool) -> Problem | None:
    """One axis each of rows and columns; the other axes are outer ones. None if they are too many.

    The columns are the innermost axis of the result; of the rows the longest axis is taken.
    """
    *others, depths = axes_of(lhs, rhs, numbers, swapped)
    outer, rows, columns = (collapsed(axes) for axes in others)
    depth = one_depth(depths)
    if depth is None or len(outer) + max(0, len(rows) - 1) + max(0, len(columns) - 1) > BATCH:
        return None
    row = max(rows, key=lambda axis: axis.size) if rows else ONE
    column = columns[-1] if columns else ONE._replace(out=1, right=1)
    rest = (*outer, *(a for a in rows if a is not row), *columns[:-1])
    return Problem(rest, row, column, depth)


def lower_dot(
    ins: list[Type],
    outs: list[Type],
    params: dict[str, Any],
    finish: Finish | None = None,
    library: bool = False,
) -> Lowered | None:
    """The tasks of a product, or None where the reference does it; by a ``library``, if it is to
    be.

    With a kernel that goes on with the result, None too where blocks of it are too small for that.
    """
    (out,), size = outs, prod(outs[0].shape)
    dtypes = [t.dtype for t in (*ins, out)]
    work, is_complex = working(*dtypes), out.dtype.kind == "c"
    if work is None or (is_complex and {*dtypes} != {out.dtype}):
        return None
    if hasattr(params["precision"], "accumulation_type"):  # an algorithm of its own
        return None
    library = library or is_complex
    empty = size == 0 or 0 in ins[0].shape
    if finish is not None and (is_complex or empty):
        return None
    lhs, rhs = (
        Operand(Place("in", i), t.dtype, t.shape, contiguous(t.shape)) for i, t in enumerate(ins)
    )
    plan = Product(work, lhs, rhs, Result(Place("out", 0), out.dtype, finish))
    if empty:
        text = Text((0,))
        text.clear("%b0", size * out.dtype.itemsize)
        plan.task(text.finish("product"), (plan.result.place,), 1)
        return plan.lowered() if size else Lowered([])
    numbers = params["dimension_numbers"]
    swapped = _swaps(lhs, rhs, numbers, None if library else work.itemsize)
    if swapped:
        (a, b), (c, d) = numbers
        plan.left, plan.right, numbers = rhs, lhs, ((b, a), (d, c))
    problem = problem_of(plan.left, plan.right, numbers, swapped)
    if problem is None or (library and None in library_views(problem)):
        problem = problem_of(*copied(plan, numbers), swapped)
        assert problem is not None
    if library:
        return library_tasks(plan, problem)
    narrow, matrices = by_rows(problem), in_matrices(plan, problem)
    parts = depth_parts(problem, size * work.itemsize, not narrow and not matrices)
    if finish is not None and (parts > 1 or narrow or problem.columns.out != 1 or matrices):
        return None
    if parts > 1:
        part_tasks(plan, problem, parts, size)
    elif matrices:
        matrix_tasks(plan, problem)
    else:
        plan.tiles(problem)
    return plan.lowered()


def _swaps(lhs: Operand, rhs: Operand, numbers: Any, size: int | None) -> bool:
    """Whether operands change places: so that one column is one row, and for numbers of some bytes
    so that few columns are few rows where vectors can run along the depth of the other operand."""
    _, rows, columns, depth = axes_of(lhs, rhs, numbers)
    count = prod(a.size for a in rows), prod(a.size for a in columns)
    if count[1] == 1:
        return count[0] > 1
    count = plain(count[0]), plain(count[1])
    if size is None or len(collapsed(rows)) != 1 or len(collapsed(columns)) != 1:
        return False
    one = one_depth(depth)
    lanes = vector_bits() // (8 * size)
    few = count[1] < lanes and count[1] <= FEW_ROWS and count[0] > 2 * count[1]
    if not few or one is None or one.left != 1 or plain(one.size) < 2 * lanes:
        return False
    length = plain(one.size)
    narrow = below(count[1])
    wasted = blocks(count[1], narrow) * narrow / count[1]
    return length * ALONG / lanes + FOLDED < length * ACROSS / narrow * wasted


# --- operands -------------------------------------------------------------------------------------


def copied(plan: Product, numbers: Any) -> tuple[Operand, Operand, Any]:
    """Both operands with their depths side by side and in the same order."""
    operands, depths, outers = [], [], []
    for operand, depth, outer in zip((plan.left, plan.right), *numbers, strict=True):
        free = [i for i in range(len(operand.shape)) if i not in {*depth, *outer}]
        order = (*outer, *free, *depth)
        shape = tuple(operand.shape[i] for i in order)
        strides, place = tuple(operand.strides[i] for i in order), operand.place
        if strides != contiguous(shape):
            place, strides = plan.dense(operand, shape, strides), contiguous(shape)
        operands.append(operand._replace(place=place, shape=shape, strides=strides))
        depths.append(tuple(range(len(outer) + len(free), len(order))))
        outers.append(tuple(range(len(outer))))
    plan.left, plan.right = operands
    return plan.left, plan.right, (depths, outers)


# --- whole matrices -------------------------------------------------------------------------------


def in_matrices(plan: Product, problem: Problem) -> bool:
    """Whether the processor multiplies tiles: of bfloat16, not too few of them."""
    _, rows, columns, depth = problem
    dtypes = (plan.left.dtype, plan.right.dtype)
    if dtypes != (BF16, BF16) or plan.result.dtype not in (BF16, F32):
        return False
    if min(rows.size, columns.size) < amx.SIDE or depth.size < amx.DEPTH or columns.out != 1:
        return False
    if plain(rows.size * columns.size * depth.size) < FEW_TILES:
        return False
    if 1 not in (rows.left, depth.left) or 1 not in (columns.right, depth.right):
        return False
    return has_matrices()


def matrix_tasks(plan: Product, problem: Problem) -> None:
    """Both operands in tiles, then their products."""
    outer, rows, columns, depth = problem
    deep, tiled, places = blocks(depth.size, amx.DEPTH), list(outer), []

    def add(key: Any, write: Any, given: tuple[Place, ...], extent: int, chunk: int) -> None:
        task, values = Task("", "product", given, extent, max(1, chunk)), {}
        key = key if is_writing() else named(key, values)
        made = lambda: sized_task(key, values, task, lambda key: write(key, "product"))
        plan.tasks.append(made if write is amx.tiles_text else made())

    for side, operand, across in (("left", plan.left, rows), ("right", plan.right, columns)):
        tiles = blocks(across.size, amx.BLOCK) * (amx.BLOCK // amx.SIDE)
        each = tiles * deep * amx.TILE
        free = [d.size for d in outer if getattr(d, side)]
        steps = iter(contiguous((*free, each)))
        given = [
            Dim(d.size, getattr(d, side), next(steps)) if getattr(d, side) else ONE for d in outer
        ]
        tiled = [d._replace(**{side: to.right}) for d, to in zip(tiled, given, strict=True)]
        ends = (Dim(d.size, getattr(d, side), 0) for d in (across, depth))
        place = plan.memory(2 * prod(free) * each)
        key = amx.Tiles(tuple(given), *ends, tiles, deep, side == "right")
        chunk = CHUNK_BYTES // plain(2 * deep * amx.TILE)
        add(key, amx.tiles_text, (operand.place, place), prod(free) * tiles, chunk)
        places.append(place)
    count = min(blocks(plain(rows.size), amx.BLOCK), PANEL_ROWS // amx.BLOCK)
    key = amx.Blocks(tuple(tiled), rows, columns, deep, count, plan.result.dtype)
    units = blocks(rows.size, amx.BLOCK * count) * blocks(columns.size, amx.BLOCK)
    work = plain(count * amx.BLOCK**2 * (deep * amx.DEPTH // 8 + 16))
    extent = prod(d.size for d in outer) * units
    add(key, amx.blocks_text, (*places, plan.result.place), extent, CHUNK_WORK // work)


# --- a long depth ---------------------------------------------------------------------------------


def depth_parts(problem: Problem, size: int, near: bool) -> int:
    """Into how many equal parts the depth is split, for a result of so many bytes: where a small
    one leaves threads idle, or so that panels stay ``near``, in the second cache."""
    outer, rows, columns, depth = problem
    if type(depth.size) is Size or len(outer) == BATCH:
        return 1
    many, width = plain(prod(a.size for a in outer)), plain(columns.size)
    found = many * blocks(plain(rows.size), 32) * blocks(width, 48)
    work = many * max(8, plain(rows.size)) * width * depth.size
    counts = [n for n in range(1, MAX_DEPTH_PARTS + 1) if depth.size % n == 0]
    if found < MAX_DEPTH_PARTS // 2 and work >= 4 * CHUNK_WORK:
        parts = max(n for n in counts if n == 1 or n * MIN_PART_DEPTH <= depth.size)
        if parts > 1:
            return parts
    fewest = blocks(depth.size * 3 * vector_bits() // 8, PANEL_BYTES)
    parts = next((n for n in counts if n >= fewest), 1)
    fits = near and plain(rows.size) >= PANEL_ROWS and parts * size <= MAX_PARTIAL_BYTES
    return parts if fits else 1


def part_tasks(plan: Product, problem: Problem, parts: int, size: int) -> None:
    """Products over parts of the depth, side by side, and their sum in a fixed order."""
    depth, each = problem.depth, problem.depth.size // parts
    part = Dim(parts, each * depth.left, each * depth.right, size)
    split = problem._replace(outer=(part, *problem.outer), depth=depth._replace(size=each))
    place = plan.memory(parts * size * plan.work.itemsize)
    result, plan.result = plan.result, Result(place, plan.work)
    plan.tiles(split)
    plan.summed(place, (plan.work, result.dtype), size, parts, result.place)


# --- by a library ---------------------------------------------------------------------------------


def library_views(problem: Problem) -> tuple[Any, Any]:
    """Both operands as a library sees them."""
    _, rows, columns, depth = problem
    return (
        leading(rows.size, rows.left, depth.size, depth.left),
        leading(depth.size, depth.right, columns.size, columns.right),
    )


def library_tasks(plan: Product, problem: Problem) -> Lowered | None:
    """Blocks of the result by the library's function, on the thread that has the block."""
    (_, rows, columns, depth), dtype = problem, plan.result.dtype
    a, b = library_views(problem)
    if max(*a, *b, rows.out, depth.size) >= 1 << 31:
        return None
    each = 1 + (dtype.kind == "c")
    row_block, column_block = min(rows.size, 256), min(columns.size, 256)
    row_blocks, column_blocks = blocks(rows.size, row_block), blocks(columns.size, column_block)
    outer = [ONE] * (BATCH - len(problem.outer)) + [*problem.outer]
    numbers = [n for d in outer for n in (d.size, each * d.left, each * d.right, each * d.out)]
    numbers += [rows.size, columns.size, depth.size, row_block, column_block, row_blocks]
    numbers += [column_blocks, each * rows.left, each * columns.right, each * rows.out, each]
    numbers += [*a, *b, max(rows.out, columns.size)]
    more = Place("library", f"cblas_{LETTERS[dtype.name]}gemm"), Place("numbers", tuple(numbers))
    places = (plan.left.place, plan.right.place, plan.result.place, *more)
    extent = prod(d.size for d in outer) * row_blocks * column_blocks
    unit = 4 * row_block * column_block * (depth.size + 64)
    text = library_product(plan.work, each == 2, "product")
    plan.task(text, places, extent, CHUNK_WORK // plain(unit))
    return plan.lowered()


def leading(rows: int, row_stride: int, columns: int, column_stride: int) -> Any:
    """How a library sees a matrix: plain or transposed, and its leading stride; None if neither."""
    if column_stride == 1 or columns == 1:
        return PLAIN, max(row_stride, columns, 1)
    if row_stride == 1 or rows == 1:
        return TRANSPOSED, max(column_stride, rows, 1)
    return None


def lower_small(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a small product of floats, by the library: for it nothing is compiled."""
    types, depth = [*ins, *outs], params["dimension_numbers"][0][0]
    work = prod(outs[0].shape) * prod(ins[0].shape[i] for i in depth)
    small = work <= MAX_SMALL_WORK and sum(prod(t.shape) for t in types) <= MAX_SMALL_ELEMENTS
    dtypes = {t.dtype for t in types}
    if not work or not small or len(dtypes) > 1 or not dtypes <= {F32, F64}:
        return None
    return lower_dot(ins, outs, params, library=True)


LOWERINGS["dot_general"] = lower_dot
FINISHING["dot_general"] = lower_dot
SMALL["dot_general"] = lower_small
