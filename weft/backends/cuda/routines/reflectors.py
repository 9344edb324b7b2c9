"""QR decompositions and other products of reflectors by cuSOLVER and cuBLAS."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cuda.routines.base import (
    ROUTINES,
    Move,
    Place,
    Routine,
    Run,
    given,
    made,
    module_of,
)
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.solver import (
    ADJOINT,
    BATCHED_SIZE,
    LEFT,
    LOWER,
    PLAIN,
    PTR,
    RIGHT,
    TRANSPOSED,
    UPPER,
    calls,
    conjugated,
    letter_of,
    parts_of,
    picked,
    size_of,
    turned,
)
from weft.backends.cuda.routines.sort import Scratch
from weft.backends.cuda.routines.stubs import reflector_stubs
from weft.backends.cuda.routines.stubs import solver_stubs as stubs
from weft.kernel.program import Type

Sizes = tuple[int, int, int]  # of a stack: matrices, rows, columns


def _by_blocks(count: int, m: int, n: int) -> bool:
    """Whether a block for each matrix is faster than a call for each."""
    return count > 1 and 32 * count >= max(m, n) and max(m, n) <= BATCHED_SIZE


def _run(main: Any, x: Type, sizes: Sizes, k: int, stride: int, columns: Place, taus: Place) -> Run:
    """A stub run by a block for each matrix."""
    count, m, n = sizes
    parts, kind = parts_of(x.dtype)
    warps = max(1, min(16, n // 4))
    names = {"M": m, "N": n, "K": k, "STRIDE": stride, "PARTS": parts, "WARPS": warps}
    names |= {"WIDTH": kind.size, "FLOATING": 1}
    return Run(module_of(main, C=kind, **names), count, 32 * warps, (columns, taus))


def _factor(
    room: Scratch, x: Type, columns: Place, taus: Place, stride: int, steps: list[Any]
) -> None:
    """Reflectors of matrices that are by columns, in their place, ``stride`` elements apart."""
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    letter, k = letter_of(x), min(m, n)
    if _by_blocks(count, m, n):
        steps.append(_run(reflector_stubs.factor, x, (count, m, n), k, stride, columns, taus))
        return
    name = f"cusolverDn{letter}geqrf"
    length = size_of(name, m, n, PTR(), m)
    work, info = room.new(length * size), room.new(4)

    def one(i: int, a: int, t: int, w: int, status: int) -> tuple[Any, ...]:
        at, tau = PTR(a + i * stride * size), PTR(t + i * k * size)
        return m, n, at, m, tau, PTR(w), length, PTR(status)

    steps.append(calls("cusolver", name, (columns, taus, work, info), one, count))


def _multiply(
    room: Scratch, x: Type, sizes: Sizes, k: int, stride: int, columns: Place, taus: Place
) -> Any:
    """The first columns of the product of k reflectors, in their place."""
    count, m, n = sizes
    if _by_blocks(*sizes):
        return _run(reflector_stubs.expand, x, sizes, k, stride, columns, taus)
    letter, size = letter_of(x), x.dtype.itemsize
    name = f"cusolverDn{letter}{'orgqr' if x.dtype.kind == 'f' else 'ungqr'}"
    length = size_of(name, m, n, k, PTR(), m, PTR())
    work, info = room.new(length * size), room.new(4)

    def one(i: int, a: int, t: int, w: int, status: int) -> tuple[Any, ...]:
        at, tau = PTR(a + i * stride * size), PTR(t + i * k * size)
        return m, n, k, at, m, tau, PTR(w), length, PTR(status)

    return calls("cusolver", name, (columns, taus, work, info), one, count)


def _geqrf(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    if letter_of(x) is None:
        return None
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    room, steps = Scratch(), list[Any]()
    columns = turned(room, x, given(0), steps)
    _factor(room, x, columns, made(1), m * n, steps)
    steps.append((permute((count, n, m), (0, 2, 1), size), (columns, made(0))))
    return Routine(steps, tuple(room.sizes))


def _householder_product(
    ins: list[Type], outs: list[Type], params: dict[str, Any]
) -> Routine | None:
    x, taus = ins
    k = taus.shape[-1]
    if letter_of(x) is None or not k:
        return None
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    room, steps = Scratch(), list[Any]()
    columns = turned(room, x, given(0), steps)
    steps.append(_multiply(room, x, (count, m, n), k, m * n, columns, given(1)))
    steps.append((permute((count, n, m), (0, 2, 1), size), (columns, made(0))))
    return Routine(steps, tuple(room.sizes))


def _qr(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    if letter_of(x) is None or params["pivoting"]:
        return None
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    k, wide = min(m, n), outs[0].shape[-1]
    room, steps = Scratch(), list[Any]()
    # room for all columns of Q behind those of A
    stride = m * max(n, wide)
    columns, taus = room.new(count * stride * size), room.new(count * k * size)
    places = (given(0), given(0), columns)
    steps.append(picked(x.dtype, (count, n, m), (m * n, 1, n), places, stride=stride))
    _factor(room, x, columns, taus, stride, steps)
    upper = (columns, columns, made(1))
    steps.append(picked(x.dtype, (count, wide, n), (stride, 1, m), upper, stubs.UPPER))
    if params.get("q", True):
        steps.append(_multiply(room, x, (count, m, wide), k, stride, columns, taus))
        whole = (columns, columns, made(0))
        steps.append(picked(x.dtype, (count, m, wide), (stride, 1, m), whole))
    return Routine(steps, tuple(room.sizes))


def _ormqr(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """By columns, C is transposed: the reflectors are on its other side, and transposed too. Of
    complex ones there is only the adjoint, which conjugating C makes of it."""
    a, taus, c = ins
    letter, k = letter_of(a), taus.shape[-1]
    if letter is None or not k or not prod(c.shape):
        return None
    count, order, size = prod(a.shape[:-2]), a.shape[-2], a.dtype.itemsize
    rows, columns = c.shape[-2:]
    name = f"cusolverDn{letter}{'ormqr' if letter in 'SD' else 'unmqr'}"
    adjoint = TRANSPOSED if letter in "SD" else ADJOINT
    head = (
        RIGHT if params["left"] else LEFT,
        PLAIN if params["transpose"] else adjoint,
        columns,
        rows,
        k,
    )
    length = size_of(name, *head, PTR(), order, PTR(), PTR(), columns)
    room, steps = Scratch(), list[Any]()
    reflectors = turned(room, a, given(0), steps)
    steps.append(Move(made(0), given(2), prod(c.shape) * size))
    turns = conjugated(c.dtype, prod(c.shape), made(0))
    work, info = room.new(length * size), room.new(4)

    def one(i: int, v: int, t: int, out: int, w: int, status: int) -> tuple[Any, ...]:
        at, tau = PTR(v + i * prod(a.shape[-2:]) * size), PTR(t + i * k * size)
        own = PTR(out + i * rows * columns * size)
        return *head, at, order, tau, own, columns, PTR(w), length, PTR(status)

    places = (reflectors, given(1), made(0), work, info)
    steps += [*turns, calls("cusolver", name, places, one, count), *turns]
    return Routine(steps, tuple(room.sizes))


def _tridiagonal(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """The triangle that is read stays the same one, as the other is reduced from its other end."""
    (x,) = ins
    letter = letter_of(x)
    if letter is None:
        return None
    count, n, size = prod(x.shape[:-2]), x.shape[-1], x.dtype.itemsize
    own = outs[1].dtype.itemsize
    name = f"cusolverDn{letter}{'sytrd' if letter in 'SD' else 'hetrd'}"
    uplo = LOWER if params["lower"] else UPPER
    length = size_of(name, uplo, n, PTR(), n, PTR(), PTR(), PTR())
    room, steps = Scratch(), list[Any]()
    columns = turned(room, x, given(0), steps)
    work, info = room.new(length * size), room.new(4)

    def one(i: int, a: int, d: int, e: int, t: int, w: int, status: int) -> tuple[Any, ...]:
        diagonals = PTR(d + i * n * own), PTR(e + i * (n - 1) * own)
        at, tau = PTR(a + i * n * n * size), PTR(t + i * (n - 1) * size)
        return uplo, n, at, n, *diagonals, tau, PTR(w), length, PTR(status)

    places = (columns, made(1), made(2), made(3), work, info)
    steps.append(calls("cusolver", name, places, one, count))
    steps.append((permute((count, n, n), (0, 2, 1), size), (columns, made(0))))
    return Routine(steps, tuple(room.sizes))


ROUTINES |= {
    "geqrf": _geqrf,
    "householder_product": _householder_product,
    "ormqr": _ormqr,
    "qr": _qr,
    "tridiagonal": _tridiagonal,
}
