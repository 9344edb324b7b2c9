"""Factorisations and triangular solves by cuSOLVER and cuBLAS, or by a warp each.

Small real matrices take a launch, without the copies and tables that the libraries need.
These libraries read matrices by columns: what is symmetric, or can be transposed on paper, is given
as it is, the rest is transposed first. Stacks of small matrices are one call, others one a matrix.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import libraries
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Library,
    Move,
    Place,
    Routine,
    Run,
    ceil_div,
    given,
    launch,
    made,
    module,
    module_of,
)
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.sort import Scratch
from weft.backends.cuda.routines.stubs import small_stubs
from weft.backends.cuda.routines.stubs import solver_stubs as stubs
from weft.base.functional import lru
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.kinds import kind_of
from weft.kernel.nodes import I32
from weft.kernel.program import Type

PTR = ctypes.c_void_p
LETTERS = {"float32": "S", "float64": "D", "complex64": "C", "complex128": "Z"}
LOWER, UPPER = 0, 1
LEFT, RIGHT = 0, 1
PLAIN, TRANSPOSED, ADJOINT = range(3)
# Types as library_types.h numbers them.
TYPES = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}
# Stacks of matrices up to this size are one call.
BATCHED_SIZE = 512
# Rows of real matrices that a warp factorises, a row for each of its lanes; vectors of unknowns
# with one matrix, of which each has a warp, and warps of a block.
WARP_SIZE, MAX_WARP_VECTORS, WARPS = 32, 1024, 8
# Functions that may be part of a graph, without the letter of their type: those that find
# eigenvalues and singular values look at numbers in between.
CAPTURED = re.compile(
    r"cusolverDn.(potrf|potrfBatched|getrf|geqrf|orgqr|ungqr|ormqr|unmqr)"
    r"|cublas.(getrfBatched|geqrfBatched|trsm_v2|trsmBatched|trsv_v2)|cusparse.gtsv2"
)

_OF = {
    "cusolver": ("cusolverDnCreate", "cusolverDnSetStream"),
    "cublas": ("cublasCreate_v2", "cublasSetStream_v2"),
    "cusparse": ("cusparseCreate", "cusparseSetStream"),
}


def handle(of: str) -> tuple[Any, Any]:
    return libraries.library(of), libraries.handle(of, _OF[of][0])


def size_of(name: str, *args: Any, last: Sequence[Any] = ()) -> int:
    """Elements that a function of cuSOLVER works in."""
    library, own = handle("cusolver")
    found = ctypes.c_int()
    ask = getattr(library, f"{name}_bufferSize")
    libraries.check(ask(own, *args, ctypes.byref(found), *last), name)
    return found.value


def letter_of(x: Type, *of: str) -> str | None:
    """The letter of a type, where there are elements and the libraries are there."""
    if not prod(x.shape) or not all(map(libraries.has, of or ("cusolver",))):
        return None
    return LETTERS.get(x.dtype.name)


def calls(
    of: str,
    name: str,
    places: Sequence[Place],
    arguments: Callable[..., tuple[Any, ...]],
    count: int = 1,
) -> Library:
    """A call of a function of a library for each of some matrices, with what ``arguments`` gives
    for a matrix's number and the addresses of the places."""
    create, set_stream = _OF[of]
    libraries.begin(of, create)

    def run(stream: Any, *found: int) -> None:
        library, own = handle(of)
        libraries.check(getattr(library, set_stream)(own, stream), set_stream)
        function = getattr(library, name)
        for i in range(count):
            libraries.check(function(own, *arguments(i, *found)), name)

    return Library(run, tuple(places), name, CAPTURED.fullmatch(name) is not None)


def parts_of(dtype: np.dtype) -> tuple[int, Any]:
    """How many numbers an element is, and their kind."""
    parts = 2 if dtype.kind == "c" else 1
    return parts, kind_of(np.dtype(f"f{dtype.itemsize // parts}"))


def picked(
    dtype: np.dtype,
    sizes: Sequence[int],
    steps: Sequence[int],
    places: Sequence[Place],
    keep: int = stubs.ALL,
    conjugated: bool = False,
    checked: bool = False,
    stride: int = 0,
) -> Run:
    """Matrices by rows from elements at some steps: of matrices, rows and columns.

    Of places ``info`` is the second; where ``checked``, failures it tells of become NaN.
    """
    count, rows, columns = sizes
    parts, kind = parts_of(dtype)
    names = {"COUNT": count, "ROWS": rows, "COLUMNS": columns, "PARTS": parts, "KEEP": keep}
    names |= {"STRIDE": steps[0], "ROW_STEP": steps[1], "COLUMN_STEP": steps[2]}
    names |= {"OUT_STRIDE": stride or rows * columns}
    names |= {"CONJUGATED": int(conjugated and parts == 2), "CHECKED": int(checked)}
    return launch(stubs.pick, count * rows * columns * parts, places, C=kind, **names)


def failing(dtype: np.dtype, count: int, length: int, places: Sequence[Place]) -> Run:
    """NaN for the elements of matrices whose factorisation failed."""
    parts, kind = parts_of(dtype)
    total = length * parts
    return launch(stubs.fail, count * total, places, C=kind, COUNT=count, LENGTH=total)


def conjugated(dtype: np.dtype, total: int, place: Place) -> list[Run]:
    """Complex elements conjugated in place; nothing for real ones."""
    parts, kind = parts_of(dtype)
    return [launch(stubs.conjugate, total, (place,), C=kind, LENGTH=total)] if parts == 2 else []


def table_of(room: Scratch, place: Place, count: int, size: int, steps: list[Any]) -> Place:
    """The addresses of matrices of some bytes, in device memory."""
    table = room.new(8 * count)
    steps.append(launch(stubs.addresses, count, (place, table), COUNT=count, BYTES=size))
    return table


def turned(room: Scratch, x: Type, place: Place, steps: list[Any]) -> Place:
    """Matrices by columns, in scratch memory."""
    count, (rows, columns) = prod(x.shape[:-2]), x.shape[-2:]
    new = room.new(count * rows * columns * x.dtype.itemsize)
    steps.append((permute((count, rows, columns), (0, 2, 1), x.dtype.itemsize), (place, new)))
    return new


def _is_small(x: Type) -> bool:
    """Whether a warp factorises each matrix."""
    *_, m, n = x.shape
    return m == n <= WARP_SIZE and prod(x.shape) > 0 and x.dtype.name in ("float32", "float64")


@lru(128)
def _small_module(main: Any, **names: Any) -> Any:
    size, width = names["N"], names["WIDTH"]
    pitch = size | 1  # rows of an odd length: no two lanes read the same bank of shared memory
    names |= {"PITCH": pitch, "FLOATING": 1}
    return module(main, names, {"matrix": size * pitch * width})


def _by_warps(main: Any, x: Type, places: Sequence[Place]) -> Routine:
    """A stub run by a warp for each matrix."""
    count, n, kind = prod(x.shape[:-2]), x.shape[-1], parts_of(x.dtype)[1]
    code = _small_module(main, C=kind, N=n, WIDTH=kind.size)
    return Routine([Run(code, count, 32, tuple(places))])


def _solve_by_warps(a: Type, b: Type, params: dict[str, Any]) -> Routine:
    """Triangular systems, a warp for each vector of unknowns."""
    n, (rows, columns), kind = a.shape[-1], b.shape[-2:], parts_of(a.dtype)[1]
    left = params["left_side"]
    other = params["transpose_a"] == left  # unknowns on the left: the transpose of the equation
    vectors = columns if left else rows
    count = prod(b.shape[:-2]) * vectors
    names = {"N": n, "COUNT": count, "VECTORS": vectors, "WARPS": WARPS}
    names["STEP"], names["NEXT"] = (columns, 1) if left else (1, columns)
    names["ROW"], names["COLUMN"] = (1, n) if other else (n, 1)
    names["UPPER"], names["UNIT"] = int(params["lower"] == other), int(params["unit_diagonal"])
    code = module_of(small_stubs.solve, C=kind, WIDTH=kind.size, FLOATING=1, **names)
    places = given(0), given(1), made(0)
    return Routine([Run(code, ceil_div(count, WARPS), 32 * WARPS, places)])


def _cholesky(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """The matrix is transposed, as the library is slower with the triangle that it then is."""
    (x,) = ins
    if _is_small(x):
        return _by_warps(small_stubs.cholesky, x, (given(0), made(0)))
    letter = letter_of(x)
    if letter is None:
        return None
    count, n, size = prod(x.shape[:-2]), x.shape[-1], x.dtype.itemsize
    room, steps = Scratch(), list[Any]()
    columns, info = turned(room, x, given(0), steps), room.new(4 * count)
    if count > 1 and n <= BATCHED_SIZE:
        table = table_of(room, columns, count, n * n * size, steps)
        name = f"cusolverDn{letter}potrfBatched"

        def together(_: int, a: int, status: int, *__: int) -> tuple[Any, ...]:
            return LOWER, n, PTR(a), n, PTR(status), count

        # what a table leads to is named too: it says what has to be done before, and what after
        steps.append(calls("cusolver", name, (table, info, columns), together))
    else:
        name = f"cusolverDn{letter}potrf"
        length = size_of(name, LOWER, n, PTR(), n)

        def one(i: int, a: int, w: int, status: int) -> tuple[Any, ...]:
            return LOWER, n, PTR(a + i * n * n * size), n, PTR(w), length, PTR(status + 4 * i)

        steps.append(calls("cusolver", name, (columns, room.new(length * size), info), one, count))
    steps.append((_factor(count, n, x.dtype), (columns, info, made(0))))
    return Routine(steps, tuple(room.sizes))


@lru(64)
def _factor(count: int, n: int, dtype: np.dtype) -> Kernel:
    """A kernel that gives lower triangles by rows, of factors by columns: zeros above, NaN where
    ``info`` tells of a failure."""
    parts = dtype.itemsize // min(8, dtype.itemsize)
    word = np.dtype(f"u{dtype.itemsize // parts}")
    unknown = np.full(1, complex(np.nan, np.nan) if dtype.kind == "c" else np.nan, dtype)
    k = Builder()
    axes = {"matrix": count, "row": n, "column": n, "part": parts}
    axes = {name: size for name, size in axes.items() if size > 1 or name in ("row", "column")}
    at = lambda **steps: affine(0, {name: n for name, n in steps.items() if name in axes})
    value = k.load(0, word, at(matrix=n * n * parts, row=parts, column=n * parts, part=1))
    failed = k.ne(k.load(1, I32, at(matrix=1)), k.const(0, I32))
    value = k.select(failed, k.const(unknown.view(word)[0], word), value)
    inside = k.ge(k.index("row"), k.index("column"))
    value = k.select(inside, value, k.const(0, word))
    total = count * n * n * parts
    buffers = [Buffer(word, total, "in"), Buffer(I32, count, "in"), Buffer(word, total, "out")]
    to = at(matrix=n * n * parts, row=n * parts, column=parts, part=1)
    store = Store(2, to, value)
    return Kernel("factor", buffers, ("grid", total), [store], tuple(axes.items()))


def _lu(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    if _is_small(x):
        return _by_warps(small_stubs.lu, x, (given(0), *map(made, range(3))))
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    stacked = count > 1 and m == n <= BATCHED_SIZE and libraries.has("cublas")
    letter = letter_of(x, "cublas" if stacked else "cusolver")
    if letter is None:
        return None
    least = min(m, n)
    room, steps = Scratch(), list[Any]()
    columns = turned(room, x, given(0), steps)
    info, swaps = room.new(4 * count), room.new(4 * count * least)
    if stacked:
        table = table_of(room, columns, count, n * n * size, steps)
        name = f"cublas{letter}getrfBatched"

        def together(_: int, a: int, s: int, status: int, *__: int) -> tuple[Any, ...]:
            return n, PTR(a), n, PTR(s), PTR(status), count

        steps.append(calls("cublas", name, (table, swaps, info, columns), together))
    else:
        name = f"cusolverDn{letter}getrf"
        length = size_of(name, m, n, PTR(), m)

        def one(i: int, a: int, w: int, s: int, status: int) -> tuple[Any, ...]:
            at, pivots = PTR(a + i * m * n * size), PTR(s + 4 * i * least)
            return m, n, at, m, PTR(w), pivots, PTR(status + 4 * i)

        work = room.new(length * size)
        steps.append(calls("cusolver", name, (columns, work, swaps, info), one, count))
    steps.append((permute((count, n, m), (0, 2, 1), size), (columns, made(0))))
    names = {"COUNT": count, "ROWS": m, "COLUMNS": least}
    steps.append(launch(stubs.pivots_of, count, (swaps, made(1), made(2)), **names))
    return Routine(steps, tuple(room.sizes))


def _permutation(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine:
    (swaps,), (order,) = (t.shape for t in ins), (t.shape for t in outs)
    count = prod(order[:-1])
    names = {"COUNT": count, "ROWS": order[-1], "COLUMNS": swaps[-1]}
    return Routine([launch(stubs.permutation_of, count, (given(0), made(0)), **names)])


def _vector_trans(params: dict[str, Any], rows: int, columns: int) -> int | None:
    """How the matrix by columns is taken where the unknowns are one vector, which the library
    solves for in less time; None where they are more, or it can't take the matrix so."""
    if (columns if params["left_side"] else rows) > 1:
        return None
    if not params["transpose_a"]:
        return TRANSPOSED if params["left_side"] else PLAIN
    if params["left_side"]:
        return None if params["conjugate_a"] else PLAIN
    return ADJOINT if params["conjugate_a"] else TRANSPOSED


def _triangular_solve(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """By columns, all is transposed: the unknowns are on the other side, the triangle another."""
    a, b = ins
    if _is_small(a) and a.shape[:-2] == b.shape[:-2]:
        if 0 < b.shape[-2] * b.shape[-1] <= MAX_WARP_VECTORS * a.shape[-1]:
            return _solve_by_warps(a, b, params)
    letter = letter_of(a, "cublas")
    if letter is None or not prod(b.shape) or a.shape[:-2] != b.shape[:-2]:
        return None
    count, n, (rows, columns) = prod(a.shape[:-2]), a.shape[-1], b.shape[-2:]
    size = a.dtype.itemsize
    trans = PLAIN
    if params["transpose_a"]:
        trans = ADJOINT if params["conjugate_a"] else TRANSPOSED
    one = np.ones(1, a.dtype)
    head = (
        RIGHT if params["left_side"] else LEFT,
        UPPER if params["lower"] else LOWER,
        trans,
        int(params["unit_diagonal"]),
        columns,
        rows,
    )
    # a conjugate that isn't transposed: the same equation with all else conjugated
    turns = []
    if params["conjugate_a"] and not params["transpose_a"]:
        turns = conjugated(b.dtype, prod(b.shape), made(0))
    room = Scratch()
    steps: list[Any] = [Move(made(0), given(1), prod(b.shape) * size), *turns]
    if count > 1 and max(n, rows, columns) <= BATCHED_SIZE:
        tables = [
            table_of(room, given(0), count, n * n * size, steps),
            table_of(room, made(0), count, rows * columns * size, steps),
        ]
        name = f"cublas{letter}trsmBatched"

        def together(_: int, first: int, second: int) -> tuple[Any, ...]:
            at = PTR(one.ctypes.data)
            return *head, at, PTR(first), n, PTR(second), columns, count

        places = (*tables, given(0), made(0))
        steps.append(calls("cublas", name, places, lambda i, t, u, *_: together(i, t, u)))
    elif (found := _vector_trans(params, rows, columns)) is not None:
        name = f"cublas{letter}trsv_v2"
        told = head[1], found, head[3]

        def vector(i: int, first: int, second: int) -> tuple[Any, ...]:
            return *told, n, PTR(first + i * n * n * size), n, PTR(second + i * n * size), 1

        steps.append(calls("cublas", name, (given(0), made(0)), vector, count))
    else:
        name = f"cublas{letter}trsm_v2"

        def single(i: int, first: int, second: int) -> tuple[Any, ...]:
            at, own = PTR(first + i * n * n * size), PTR(second + i * rows * columns * size)
            return *head, PTR(one.ctypes.data), at, n, own, columns

        steps.append(calls("cublas", name, (given(0), made(0)), single, count))
    return Routine([*steps, *turns], tuple(room.sizes))


ROUTINES |= {
    "cholesky": _cholesky,
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
    "triangular_solve": _triangular_solve,
}
