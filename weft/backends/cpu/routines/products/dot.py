"""Products (``dot_general``) as native tasks: which kernel runs on which blocks.

The axes of a product are sorted into outer ones, rows, columns and depth and joined where strides
allow it. What is left over of rows and columns becomes outer axes, so that nothing is copied
unless the depth itself cannot be joined. The rules and what was measured for them:
docs/decisions/0007-products.md.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cpu.routines.products.amx_text import (
    BLOCK,
    DEPTH,
    MATRIX_FIELDS,
    SIDE,
    TILE,
    TILE_FIELDS,
    matrix_product,
    tiles_of,
)
from weft.backends.cpu.routines.products.blas_text import (
    BLAS_FIELDS,
    PLAIN,
    TRANSPOSED,
    library_product,
)
from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    bytes_of,
    dtype_of,
    is_floating,
    zeros,
)
from weft.backends.cpu.routines.products.dot_plan import (
    CHUNK_BYTES,
    CHUNK_WORK,
    ONE,
    Axis,
    Operand,
    Plan,
    Problem,
    Result,
    below,
    blocks,
    joined,
    numbers_in,
    outer_numbers,
    stacked,
)
from weft.backends.cpu.routines.products.dot_tiles import (
    FEW_ROWS,
    PANEL_BYTES,
    PANEL_ROWS,
    by_rows,
    tile_tasks,
)
from weft.backends.cpu.routines.registry import FINISHING, LOWERINGS, SMALL
from weft.backends.llvm.native.processor import has_matrices, vector_bits
from weft.base.sizes import Size, plain
from weft.kernel.program import Finish, Lowered, Place, Type, contiguous

KINDS = {
    "float32": "float",
    "float64": "double",
    "float16": "half",
    "bfloat16": "bfloat",
    **{f"{sign}int{n}": f"i{n}" for sign in ("", "u") for n in (8, 16, 32, 64)},
}

# The complex types: as one number that is moved.
COMPLEX = {"complex64": "i64", "complex128": "i128"}
# The type of a number, or of a part of it, and the library's function.
LIBRARY = {
    "float32": ("float", "cblas_sgemm"),
    "float64": ("double", "cblas_dgemm"),
    "complex64": ("float", "cblas_cgemm"),
    "complex128": ("double", "cblas_zgemm"),
}
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


def work_kind(types: list[Type]) -> str | None:
    """The type in which operands are multiplied and summed, or None where we have no kernel."""
    kinds = [KINDS.get(t.dtype.name) for t in types]
    if any(kind is None for kind in kinds):
        return None
    floats = [kind for kind in kinds if kind and is_floating(kind)]
    out = kinds[-1]
    assert out is not None
    if floats:
        return None if not is_floating(out) else "double" if "double" in floats else "float"
    return "i64" if bytes_of(out) == 8 else "i32"


def axes_of(
    lhs: Operand, rhs: Operand, numbers: Any, swapped: bool = False
) -> tuple[list[Axis], ...]:
    """The outer axes, rows, columns and depths of a product, none joined yet.

    The result of swapped operands has its columns before its rows.
    """
    (lhs_depth, rhs_depth), (lhs_outer, rhs_outer) = numbers
    rows = [i for i in range(len(lhs.shape)) if i not in {*lhs_depth, *lhs_outer}]
    columns = [i for i in range(len(rhs.shape)) if i not in {*rhs_depth, *rhs_outer}]
    sizes = [lhs.shape[i] for i in lhs_outer]
    sides = [[lhs.shape[i] for i in rows], [rhs.shape[i] for i in columns]]
    for side in reversed(sides) if swapped else sides:
        sizes += side
    steps = contiguous(tuple(sizes))
    outer_steps, free = steps[: len(lhs_outer)], steps[len(lhs_outer) :]
    cut = len(columns) if swapped else len(rows)
    row_steps, column_steps = (free[cut:], free[:cut]) if swapped else (free[:cut], free[cut:])
    return (
        [
            Axis(lhs.shape[i], lhs.strides[i], rhs.strides[j], step)
            for i, j, step in zip(lhs_outer, rhs_outer, outer_steps, strict=True)
        ],
        [
            Axis(lhs.shape[i], lhs.strides[i], 0, step)
            for i, step in zip(rows, row_steps, strict=True)
        ],
        [
            Axis(rhs.shape[i], 0, rhs.strides[i], step)
            for i, step in zip(columns, column_steps, strict=True)
        ],
        [
            Axis(lhs.shape[i], lhs.strides[i], rhs.strides[j], 0)
            for i, j in zip(lhs_depth, rhs_depth, strict=True)
        ],
    )


def one_depth(depth: list[Axis]) -> Axis | None:
    """The depths as one axis, in whatever order joins them; None where none does."""
    if any(axis.size == 0 for axis in depth):
        return Axis(0, 1, 1, 0)
    for side in (1, 2):
        found = joined(sorted(depth, key=lambda axis: -axis[side]))
        if len(found) < 2:
            return found[0] if found else Axis(1, 1, 1, 0)
    return None


def problem_of(lhs: Operand, rhs: Operand, numbers: Any, swapped: bool) -> Problem | None:
    """One axis each of rows and columns; the other axes are outer ones. None if they are too many.

    The columns are the innermost axis of the result; of the rows the longest axis is taken.
    """
    *others, depths = axes_of(lhs, rhs, numbers, swapped)
    outer, rows, columns = (joined(axes) for axes in others)
    depth = one_depth(depths)
    if depth is None or len(outer) + max(0, len(rows) - 1) + max(0, len(columns) - 1) > BATCH:
        return None
    row = max(rows, key=lambda axis: axis.size) if rows else ONE
    column = columns[-1] if columns else ONE._replace(out=1, rhs=1)
    rest = [*outer, *(a for a in rows if a is not row), *columns[:-1]]
    return Problem(rest, row, column, depth)


def lower_dot(
    ins: list[Type],
    outs: list[Type],
    params: dict[str, Any],
    finish: Finish | None = None,
) -> Lowered | None:
    """The tasks of a product, or None where the reference does it.

    With a kernel that goes on with the result, None too where blocks of it are too small for that.
    """
    types = [*ins, *outs]
    if hasattr(params["precision"], "accumulation_type"):  # an algorithm of its own
        return None
    names = {t.dtype.name for t in types}
    is_complex = len(names) == 1 and names <= COMPLEX.keys()
    work = COMPLEX[names.pop()] if is_complex else work_kind(types)
    if work is None:
        return None
    plan = Plan(work)
    size = prod(outs[0].shape)
    if finish is not None and (is_complex or size == 0 or 0 in ins[0].shape):
        return None
    if size == 0:
        return plan.lowered()
    if 0 in ins[0].shape:  # nothing to sum
        text = zeros(f"i{8 * outs[0].dtype.itemsize}", "product")
        plan.task(text, (Place("out", 0),), size, CHUNK_BYTES)
        return plan.lowered()
    lhs, rhs = (
        Operand(
            Place("in", i),
            work if is_complex else KINDS[t.dtype.name],
            t.dtype.kind != "u",
            t.shape,
            contiguous(t.shape),
        )
        for i, t in enumerate(ins)
    )
    numbers = params["dimension_numbers"]
    swapped = _swaps(lhs, rhs, numbers, None if is_complex else bytes_of(work))
    if swapped:
        (a, b), (c, d) = numbers
        lhs, rhs, numbers = rhs, lhs, ((b, a), (d, c))
    problem = problem_of(lhs, rhs, numbers, swapped)
    if problem is None or (is_complex and not fits_library(problem)):
        lhs, rhs, numbers = copied(plan, lhs, rhs, numbers)
        problem = problem_of(lhs, rhs, numbers, swapped)
        assert problem is not None
    if is_complex:
        return library_tasks(plan, lhs, rhs, problem, outs[0])
    result = Result(Place("out", 0), KINDS[outs[0].dtype.name], finish)
    parts = depth_parts(problem)
    matrices = parts == 1 and in_matrices(lhs, rhs, problem, result)
    if parts == 1 and not matrices and not by_rows(problem):
        parts = near_parts(problem, size * bytes_of(work))
    if finish is not None and (
        parts > 1 or by_rows(problem) or problem.columns.out != 1 or matrices
    ):
        return None
    if matrices:
        matrix_tasks(plan, lhs, rhs, problem, result)
    elif parts > 1:
        part_tasks(plan, lhs, rhs, problem, result, parts, size)
    else:
        tile_tasks(plan, lhs, rhs, problem, result)
    return plan.lowered()


def _swaps(lhs: Operand, rhs: Operand, numbers: Any, size: int | None) -> bool:
    """Whether operands change places: so that one column is one row, and for numbers of some bytes
    so that few columns are few rows where vectors can run along the depth of the other operand."""
    _, rows, columns, depth = axes_of(lhs, rhs, numbers)
    count = prod(a.size for a in rows), prod(a.size for a in columns)
    if count[1] == 1:
        return count[0] > 1
    count = plain(count[0]), plain(count[1])
    if size is None or len(joined(rows)) != 1 or len(joined(columns)) != 1:
        return False
    one = one_depth(depth)
    lanes = vector_bits() // (8 * size)
    few = count[1] < lanes and count[1] <= FEW_ROWS and count[0] > 2 * count[1]
    if not few or one is None or one.lhs != 1 or plain(one.size) < 2 * lanes:
        return False
    length = plain(one.size)
    narrow = below(count[1])
    wasted = blocks(count[1], narrow) * narrow / count[1]
    return length * ALONG / lanes + FOLDED < length * ACROSS / narrow * wasted


# --- operands -------------------------------------------------------------------------------------


def copied(plan: Plan, lhs: Operand, rhs: Operand, numbers: Any) -> tuple[Operand, Operand, Any]:
    """Both operands with their depths side by side and in the same order."""
    (lhs_depth, rhs_depth), (lhs_outer, rhs_outer) = numbers
    operands, found = [], []
    for operand, depth, outer in ((lhs, lhs_depth, lhs_outer), (rhs, rhs_depth, rhs_outer)):
        free = [i for i in range(len(operand.shape)) if i not in {*depth, *outer}]
        order = (*outer, *free, *depth)
        shape = tuple(operand.shape[i] for i in order)
        strides = tuple(operand.strides[i] for i in order)
        if strides != contiguous(shape):
            place = plan.copied(operand, shape, strides)
            operand = operand._replace(place=place, shape=shape, strides=contiguous(shape))
        else:
            operand = operand._replace(shape=shape, strides=strides)
        operands.append(operand)
        start = len(outer) + len(free)
        found.append((tuple(range(start, len(order))), tuple(range(len(outer)))))
    (lhs_found, lhs_first), (rhs_found, rhs_first) = found
    return operands[0], operands[1], ((lhs_found, rhs_found), (lhs_first, rhs_first))


# --- whole matrices -------------------------------------------------------------------------------


def in_matrices(lhs: Operand, rhs: Operand, problem: Problem, result: Result) -> bool:
    """Whether the processor multiplies tiles: of bfloat16, not too few of them."""
    _, rows, columns, depth = problem
    if lhs.kind != "bfloat" or rhs.kind != "bfloat" or result.kind not in ("bfloat", "float"):
        return False
    if min(rows.size, columns.size) < SIDE or depth.size < DEPTH or columns.out != 1:
        return False
    if plain(rows.size * columns.size * depth.size) < FEW_TILES:
        return False
    if 1 not in (rows.lhs, depth.lhs) or 1 not in (columns.rhs, depth.rhs):
        return False
    return has_matrices()


def matrix_tasks(plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, result: Result) -> None:
    """Both operands in tiles, then their products."""
    outer, rows, columns, depth = problem
    out_size, deep = bytes_of(result.kind), blocks(depth.size, DEPTH)
    table = outer_numbers(problem, 2, 2, out_size)
    places = []
    for side, operand, across in (("lhs", lhs, rows), ("rhs", rhs, columns)):
        step, along = getattr(across, side), getattr(depth, side)
        tiles = blocks(across.size, BLOCK) * (BLOCK // SIDE)
        numbers, steps, copies = stacked(problem, side, 2, tiles * deep * TILE)
        table.update(steps)
        numbers.update(count=across.size, depth=depth.size, tiles=tiles, deep=deep)
        numbers.update(from_side=2 * step, from_depth=2 * along)
        place = plan.memory(copies * tiles * deep * TILE)
        text = tiles_of(side == "rhs", along == 1, "product")
        given = (operand.place, place, numbers_in(TILE_FIELDS, numbers))
        plan.task(text, given, copies * tiles, CHUNK_BYTES // plain(deep * TILE))
        places.append(place)
    row_block = min(blocks(plain(rows.size), BLOCK), PANEL_ROWS // BLOCK)
    row_blocks = blocks(rows.size, BLOCK * row_block)
    column_blocks = blocks(columns.size, BLOCK)
    table.update(rows=rows.size, columns=columns.size, deep=deep, row_block=row_block)
    table.update(row_blocks=row_blocks, column_blocks=column_blocks, out_row=rows.out * out_size)
    extent = prod(a.size for a in outer) * row_blocks * column_blocks
    unit = plain(row_block * BLOCK * BLOCK * (deep * DEPTH // 8 + 16))
    given = (*places, result.place, numbers_in(MATRIX_FIELDS, table))
    plan.task(matrix_product(result.kind, "product"), given, extent, CHUNK_WORK // unit)


# --- a long depth ---------------------------------------------------------------------------------


def depth_parts(problem: Problem) -> int:
    """Into how many equal parts the depth is split: where a small result leaves threads idle."""
    outer, rows, columns, depth = problem
    if type(depth.size) is Size:
        return 1  # parts are equal
    many, width = plain(prod(a.size for a in outer)), plain(columns.size)
    found = many * blocks(plain(rows.size), 32) * blocks(width, 48)
    work = many * max(8, plain(rows.size)) * width * depth.size
    if found >= MAX_DEPTH_PARTS // 2 or work < 4 * CHUNK_WORK or len(outer) == BATCH:
        return 1
    counts = range(min(MAX_DEPTH_PARTS, depth.size // MIN_PART_DEPTH), 1, -1)
    return next((n for n in counts if depth.size % n == 0), 1)


def near_parts(problem: Problem, size: int) -> int:
    """Into how many equal parts the depth is split so that panels stay in the second cache, for a
    result of so many bytes."""
    depth = problem.depth.size
    fewest = blocks(plain(depth) * 3 * vector_bits() // 8, PANEL_BYTES)
    if type(depth) is Size or len(problem.outer) == BATCH or plain(problem.rows.size) < PANEL_ROWS:
        return 1
    counts = [n for n in range(fewest, MAX_DEPTH_PARTS + 1) if depth % n == 0]
    return counts[0] if counts and counts[0] * size <= MAX_PARTIAL_BYTES else 1


def part_tasks(
    plan: Plan,
    lhs: Operand,
    rhs: Operand,
    problem: Problem,
    result: Result,
    parts: int,
    size: int,
) -> None:
    """Products over parts of the depth, side by side, and their sum in a fixed order."""
    depth, each = problem.depth, problem.depth.size // parts
    part = Axis(parts, each * depth.lhs, each * depth.rhs, size)
    split = problem._replace(outer=[part, *problem.outer], depth=depth._replace(size=each))
    place = plan.memory(parts * size * bytes_of(plan.work))
    tile_tasks(plan, lhs, rhs, split, Result(place, plan.work))
    types = dtype_of(plan.work), dtype_of(result.kind)
    plan.converted(place, *types, size, parts, result.place)


# --- complex numbers ------------------------------------------------------------------------------


def fits_library(problem: Problem) -> bool:
    return None not in library_views(problem)


def library_views(problem: Problem) -> tuple[Any, Any]:
    """Both operands as a library sees them."""
    _, rows, columns, depth = problem
    return (
        leading(rows.size, rows.lhs, depth.size, depth.lhs),
        leading(depth.size, depth.rhs, columns.size, columns.rhs),
    )


def library_tasks(
    plan: Plan, lhs: Operand, rhs: Operand, problem: Problem, out: Type
) -> Lowered | None:
    """Blocks of the result by the library's function, on the thread that has the block."""
    _, rows, columns, depth = problem
    size = out.dtype.itemsize
    part, function = LIBRARY[out.dtype.name]
    a, b = library_views(problem)
    if max(*a, *b, rows.out, depth.size) >= 1 << 31:
        return None
    table = outer_numbers(problem, size, size, size)
    row_block, column_block = min(rows.size, 256), min(columns.size, 256)
    row_blocks, column_blocks = blocks(rows.size, row_block), blocks(columns.size, column_block)
    table.update(
        rows=rows.size, columns=columns.size, depth=depth.size,
        row_block=row_block, column_block=column_block,
        row_blocks=row_blocks, column_blocks=column_blocks,
        a_row=rows.lhs * size, b_column=columns.rhs * size,
        out_row=rows.out * size, out_column=size,
        a_order=a[0], a_lead=a[1], b_order=b[0], b_lead=b[1],
        out_lead=max(rows.out, columns.size),
    )  # fmt: skip
    places = (
        lhs.place, rhs.place, Place("out", 0), numbers_in(BLAS_FIELDS, table),
        Place("library", function),
    )  # fmt: skip
    extent = prod(a.size for a in problem.outer) * row_blocks * column_blocks
    unit = 4 * row_block * column_block * (depth.size + 64)
    plan.task(
        library_product(part, "product", out.dtype.kind == "c"),
        places,
        extent,
        CHUNK_WORK // plain(unit),
    )
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
    numbers = params["dimension_numbers"]
    work = prod(outs[0].shape) * prod(ins[0].shape[i] for i in numbers[0][0])
    types = [*ins, *outs]
    names = {t.dtype.name for t in types}
    if len(names) > 1 or not names <= {"float32", "float64"}:
        return None
    if hasattr(params["precision"], "accumulation_type") or not work or work > MAX_SMALL_WORK:
        return None
    if sum(prod(t.shape) for t in types) > MAX_SMALL_ELEMENTS:
        return None
    plan = Plan(KINDS[names.pop()])
    lhs, rhs = (
        Operand(Place("in", i), plan.work, True, t.shape, contiguous(t.shape))
        for i, t in enumerate(ins)
    )
    problem = problem_of(lhs, rhs, numbers, False)
    if problem is None or not fits_library(problem):
        lhs, rhs, numbers = copied(plan, lhs, rhs, numbers)
        problem = problem_of(lhs, rhs, numbers, False)
        assert problem is not None
    return library_tasks(plan, lhs, rhs, problem, outs[0])


LOWERINGS["dot_general"] = lower_dot
FINISHING["dot_general"] = lower_dot
SMALL["dot_general"] = lower_small
