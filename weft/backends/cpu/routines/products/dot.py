"""Products (``dot_general``) as native tasks: which kernel runs on which blocks.

The axes of a product are sorted into outer ones, rows, columns and depth and joined where strides
allow it. What is left over of rows and columns becomes outer axes, so that nothing is copied
unless the depth itself cannot be joined. The rules and what was measured for them:
docs/decisions/0007-products.md.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cpu.routines.contractions.contraction import blocks
from weft.backends.cpu.routines.contractions.conv import working
from weft.backends.cpu.routines.contractions.conv_text import Dim, collapsed
from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.cpu.routines.contractions.decisions import FEW_ROWS, below
from weft.backends.cpu.routines.products.product import (
    CHUNK_WORK,
    ONE,
    Operand,
    Problem,
    Product,
    Result,
    joined,
    one_depth,
    swapped,
)
from weft.backends.cpu.routines.registry import FINISHING, LOWERINGS, SMALL
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.tasks import Lowered, Place
from weft.base import knobs
from weft.base.lazy import Late
from weft.base.sizes import Size, plain
from weft.kernel.nodes import F32, F64
from weft.kernel.program import Finish, Type, contiguous

_stubs = Late("weft.backends.cpu.routines.products.blas_stubs")

# Outer axes that a product by the library may have.
BATCH = 3
# The library's words for how an operand lies.
PLAIN, TRANSPOSED = 111, 112
# The letter of a type in names of the library's functions.
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# Multiply-adds and elements up to which code for one shape is not worth its making.
MAX_SMALL_WORK, MAX_SMALL_ELEMENTS = 1 << 18, 1 << 14
# Cycles of a result for each vector along its depth, those for adding up the lanes of one; and for
# each vector of results that lie side by side.
ALONG, FOLDED, ACROSS = 0.75, 7.0, 0.54


# --- what the product is --------------------------------------------------------------------------


def axes_of(lhs: Operand, rhs: Operand, numbers: Any) -> list[list[Dim]]:
    """The outer axes, rows, columns and depths of a product, none joined yet."""
    depth, outer = numbers
    left, right = contiguous(lhs.shape), contiguous(rhs.shape)
    both = lambda axes: [Dim(lhs.shape[i], left[i], right[j]) for i, j in zip(*axes, strict=True)]
    rows = [Dim(n, left[i], 0) for i, n in enumerate(lhs.shape) if i not in {*depth[0], *outer[0]}]
    columns = [
        Dim(n, 0, right[i]) for i, n in enumerate(rhs.shape) if i not in {*depth[1], *outer[1]}
    ]
    free = [both(outer), rows, columns]
    steps = iter(contiguous([d.size for group in free for d in group]))
    return [*([d._replace(out=next(steps)) for d in group] for group in free), both(depth)]


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
    lhs, rhs = (Operand(Place("in", i), t.dtype, t.shape) for i, t in enumerate(ins))
    plan = Product(work, lhs, rhs, Result(Place("out", 0), out.dtype, finish))
    if empty:
        text = Text((0,))
        text.clear("%b0", size * out.dtype.itemsize)
        plan.task(text.finish("product"), (plan.result.place,), 1)
        return plan.lowered() if size else Lowered([])
    axes = axes_of(lhs, rhs, params["dimension_numbers"])
    dims = [d for group in axes for d in group]
    if _swaps(axes[1], axes[2], axes[3], None if library else work.itemsize):
        plan.left, plan.right, dims = rhs, lhs, swapped(dims)
    problem = joined(dims)
    many = problem is None or len(problem.outer) > BATCH
    if problem is None or many or (library and None in library_views(problem)):
        problem = joined(plan.beside(plan.beside(dims, "left"), "right"))
        assert problem is not None
    if library:
        return library_tasks(plan, problem)
    return plan.run(problem, size)


def _swaps(rows: list[Dim], columns: list[Dim], depth: list[Dim], size: int | None) -> bool:
    """Whether operands change places: so that one column is one row, and for numbers of some bytes
    so that few columns, whose number a text knows, are few rows where vectors can run along the
    depth of the other operand."""
    count = prod(a.size for a in rows), prod(a.size for a in columns)
    if count[1] == 1:
        return count[0] > 1
    if type(count[1]) is Size:
        return False
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
    numbers += [*a, *b, max(rows.out, columns.size), *_stubs.bits_of(1, dtype), 0, 0, 0]
    more = Place("library", f"cblas_{LETTERS[dtype.name]}gemm"), Place("numbers", tuple(numbers))
    places = (plan.left.place, plan.right.place, plan.result.place, *more)
    extent = prod(d.size for d in outer) * row_blocks * column_blocks
    unit = 4 * row_block * column_block * (depth.size + 64)
    plan.task(_stubs.product_module(dtype), places, extent, CHUNK_WORK // plain(unit))
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
    if (
        knobs.thread.reproducible
        or not work
        or not small
        or len(dtypes) > 1
        or not dtypes <= {F32, F64}
    ):
        return None
    return lower_dot(ins, outs, params, library=True)


LOWERINGS["dot_general"] = lower_dot
FINISHING["dot_general"] = lower_dot
SMALL["dot_general"] = lower_small
