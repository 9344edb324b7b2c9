"""Factorisations and triangular solves by cuSOLVER and cuBLAS, one matrix after the other.

These libraries read matrices by columns: what is symmetric, or can be transposed on paper, is given
as it is, the rest is transposed first.
"""

from __future__ import annotations

import ctypes
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
    made,
    module,
)
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.sort import Scratch
from weft.backends.cuda.routines.stubs import solver_stubs as stubs
from weft.base.functional import lru
from weft.kernel.kinds import kind_of
from weft.kernel.program import Type

_PTR = ctypes.c_void_p
_LETTERS = {"float32": "S", "float64": "D", "complex64": "C", "complex128": "Z"}
_LOWER, _UPPER = 0, 1
# Matrices up to which they are done one by one.
MOST = 512


def _solver() -> tuple[Any, Any]:
    return libraries.library("cusolver"), libraries.handle("cusolver", "cusolverDnCreate")


def _blas() -> tuple[Any, Any]:
    return libraries.library("cublas"), libraries.handle("cublas", "cublasCreate_v2")


def _size_of(name: str, *args: Any) -> int:
    """Elements that a function works in."""
    library, handle = _solver()
    found = ctypes.c_int()
    libraries.check(
        getattr(library, f"{name}_bufferSize")(handle, *args, ctypes.byref(found)), name
    )
    return found.value


def _usable(x: Type, name: str = "cusolver") -> str | None:
    """The letter of a type, where the library is there and the matrices aren't too many."""
    count = prod(x.shape[:-2])
    if not prod(x.shape) or count > MOST or not libraries.has(name):
        return None
    return _LETTERS.get(x.dtype.name)


def _each(count: int, call: Any) -> Any:
    """A function that calls the solver for each of some matrices."""

    def run(stream: Any, *places: int) -> None:
        library, handle = _solver()
        libraries.check(library.cusolverDnSetStream(handle, stream), "cusolverDnSetStream")
        for i in range(count):
            call(library, handle, i, *places)

    return run


@lru(64)
def _text(main: Any, **names: Any) -> str:
    return module(main, names)


def _triangle(
    x: Type,
    keep: int,
    sizes: tuple[int, int, int],
    leading: tuple[int, int],
    places: Any,
    checked: int,
) -> Run:
    count, rows, columns = sizes
    parts = 2 if x.dtype.kind == "c" else 1
    kind = kind_of(np.dtype(f"f{x.dtype.itemsize // parts}"))
    names = {"C": kind, "COUNT": count, "ROWS": rows, "COLUMNS": columns, "PARTS": parts}
    names |= {"KEEP": keep, "HEIGHT": leading[0], "LEADING": leading[1], "CHECKED": checked}
    total = count * rows * columns * parts
    return Run(_text(stubs.triangle, **names), ceil_div(total, 256), 256, places)


def _turned(
    room: Scratch, x: Type, place: Place, steps: list[Any], rows: int, columns: int
) -> Place:
    """Matrices of some rows and columns transposed into scratch memory."""
    count = prod(x.shape[:-2])
    new = room.new(count * rows * columns * x.dtype.itemsize)
    kernel = permute((count, rows, columns), (0, 2, 1), x.dtype.itemsize)
    steps.append((kernel, (place, new)))
    return new


def cholesky(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    letter = _usable(x)
    if letter is None:
        return None
    count, n, size = prod(x.shape[:-2]), x.shape[-1], x.dtype.itemsize
    name = f"cusolverDn{letter}potrf"
    length = _size_of(name, _UPPER, n, _PTR(), n)
    room = Scratch()
    copy, work, info = (room.new(b) for b in (prod(x.shape) * size, length * size, 4 * count))

    def call(library: Any, handle: Any, i: int, a: int, w: int, status: int) -> None:
        # the lower triangle by rows is the upper one by columns, of the conjugate
        at = _PTR(a + i * n * n * size)
        done = getattr(library, name)(
            handle, _UPPER, n, at, n, _PTR(w), length, _PTR(status + 4 * i)
        )
        libraries.check(done, name)

    steps = [
        Move(copy, given(0), prod(x.shape) * size),
        Library(_each(count, call), (copy, work, info), name, False),
        _triangle(x, stubs.LOWER, (count, n, n), (n, n), (copy, info, made(0)), 1),
    ]
    return Routine(steps, tuple(room.sizes))


def lu(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    letter = _usable(x)
    if letter is None:
        return None
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    name = f"cusolverDn{letter}getrf"
    length = _size_of(name, m, n, _PTR(), m)
    room, steps = Scratch(), []
    turned = _turned(room, x, given(0), steps, m, n)
    least = min(m, n)
    work, info, swaps = (room.new(b) for b in (length * size, 4 * count, 4 * count * least))

    def call(library: Any, handle: Any, i: int, a: int, w: int, s: int, status: int) -> None:
        at = _PTR(a + i * m * n * size)
        pivots = _PTR(s + 4 * i * least)
        done = getattr(library, name)(handle, m, n, at, m, _PTR(w), pivots, _PTR(status + 4 * i))
        libraries.check(done, name)

    steps.append(Library(_each(count, call), (turned, work, swaps, info), name, False))
    steps.append((permute((count, n, m), (0, 2, 1), size), (turned, made(0))))
    names = {"COUNT": count, "ROWS": m, "COLUMNS": least}
    text = _text(stubs.pivots_of, **names)
    steps.append(Run(text, ceil_div(count, 256), 256, (swaps, made(1), made(2))))
    return Routine(steps, tuple(room.sizes))


def eigh(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    letter = _usable(x)
    if letter not in ("S", "D") or params["subset_by_index"] is not None:
        return None
    count, n, size = prod(x.shape[:-2]), x.shape[-1], x.dtype.itemsize
    name = f"cusolverDn{letter}syevd"
    # the triangle that is read by rows is the other one by columns
    uplo = _UPPER if params["lower"] else _LOWER
    length = _size_of(name, 1, uplo, n, _PTR(), n, _PTR())
    room = Scratch()
    copy, work, info = (room.new(b) for b in (prod(x.shape) * size, length * size, 4 * count))

    def call(library: Any, handle: Any, i: int, a: int, values: int, w: int, status: int) -> None:
        at, own = _PTR(a + i * n * n * size), _PTR(values + i * n * size)
        done = getattr(library, name)(
            handle, 1, uplo, n, at, n, own, _PTR(w), length, _PTR(status + 4 * i)
        )
        libraries.check(done, name)

    steps: list[Any] = [
        Move(copy, given(0), prod(x.shape) * size),
        Library(_each(count, call), (copy, made(1), work, info), name, False),
        (permute((count, n, n), (0, 2, 1), size), (copy, made(0))),
    ]
    return Routine(steps, tuple(room.sizes))


def qr(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    letter = _usable(x)
    if letter is None or params["pivoting"] or params["full_matrices"]:
        return None
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    k = min(m, n)
    factor = f"cusolverDn{letter}geqrf"
    product = f"cusolverDn{letter}{'orgqr' if letter in 'SD' else 'ungqr'}"
    one = _size_of(factor, m, n, _PTR(), m)
    two = _size_of(product, m, k, k, _PTR(), m, _PTR())
    length = max(one, two)
    room, steps = Scratch(), []
    turned = _turned(room, x, given(0), steps, m, n)
    work, info = room.new(length * size), room.new(4 * count)
    taus = room.new(count * k * size)
    rows = room.new(count * m * n * size)

    def reflect(library: Any, handle: Any, i: int, a: int, t: int, w: int, status: int) -> None:
        at, tau = _PTR(a + i * m * n * size), _PTR(t + i * k * size)
        done = getattr(library, factor)(
            handle, m, n, at, m, tau, _PTR(w), length, _PTR(status + 4 * i)
        )
        libraries.check(done, factor)

    def multiply(library: Any, handle: Any, i: int, a: int, t: int, w: int, status: int) -> None:
        at, tau = _PTR(a + i * m * n * size), _PTR(t + i * k * size)
        done = getattr(library, product)(
            handle, m, k, k, at, m, tau, _PTR(w), length, _PTR(status + 4 * i)
        )
        libraries.check(done, product)

    steps.append(Library(_each(count, reflect), (turned, taus, work, info), factor, False))
    steps.append((permute((count, n, m), (0, 2, 1), size), (turned, rows)))
    upper = (rows, info, made(1))
    steps.append(_triangle(x, stubs.UPPER, (count, k, n), (m, n), upper, 0))
    steps.append(Library(_each(count, multiply), (turned, taus, work, info), product, False))
    # the first k columns of each, which come first in memory
    if k == n:
        steps.append((permute((count, n, m), (0, 2, 1), size), (turned, made(0))))
    else:
        cut = room.new(count * k * m * size)
        for i in range(count):
            source = turned._replace(offset=i * n * m * size)
            steps.append(Move(cut._replace(offset=i * k * m * size), source, k * m * size))
        steps.append((permute((count, k, m), (0, 2, 1), size), (cut, made(0))))
    return Routine(steps, tuple(room.sizes))


def triangular_solve(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """By columns, all is transposed: the unknowns are on the other side, the triangle another."""
    a, b = ins
    letter = _usable(a, "cublas")
    if letter is None or (params["conjugate_a"] and not params["transpose_a"]) or not prod(b.shape):
        return None
    if a.shape[:-2] != b.shape[:-2]:
        return None
    count, n, (rows, columns) = prod(a.shape[:-2]), a.shape[-1], b.shape[-2:]
    size = a.dtype.itemsize
    name = f"cublas{letter}trsm_v2"
    side = 1 if params["left_side"] else 0
    uplo = 1 if params["lower"] else 0  # upper, where the lower one is read by rows
    trans = (2 if params["conjugate_a"] else 1) if params["transpose_a"] else 0
    unit = int(params["unit_diagonal"])
    one = np.ones(1, a.dtype)

    def run(stream: Any, first: int, second: int) -> None:
        library, handle = _blas()
        libraries.check(library.cublasSetStream_v2(handle, stream), "cublasSetStream")
        for i in range(count):
            at, own = _PTR(first + i * n * n * size), _PTR(second + i * rows * columns * size)
            status = getattr(library, name)(
                *(handle, side, uplo, trans, unit, columns, rows, _PTR(one.ctypes.data)),
                *(at, n, own, columns),
            )
            libraries.check(status, name)

    # fill modes of cuBLAS: 0 is lower, 1 upper
    copy = Move(made(0), given(1), prod(b.shape) * size)
    return Routine([copy, Library(run, (given(0), made(0)), name)])


ROUTINES |= {
    "cholesky": cholesky,
    "lu": lu,
    "eigh": eigh,
    "qr": qr,
    "triangular_solve": triangular_solve,
}
