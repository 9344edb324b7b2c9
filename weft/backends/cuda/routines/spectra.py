"""Eigenvalues and singular values by cuSOLVER."""

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
    given,
    launch,
    made,
)
from weft.backends.cuda.routines.solver import (
    LOWER,
    PTR,
    TYPES,
    UPPER,
    calls,
    failing,
    handle,
    letter_of,
    parts_of,
    picked,
    size_of,
    turned,
)
from weft.backends.cuda.routines.sort import Scratch
from weft.backends.cuda.routines.stubs import solver_stubs as stubs
from weft.base.functional import lru
from weft.kernel.program import Type

_LONG = ctypes.c_int64
# Sizes up to which singular values are found by Jacobi's method, one by one and in stacks.
JACOBI_SIZE, STACKED_JACOBI_SIZE = 1024, 32


@lru(1)
def _params() -> Any:
    """The settings of functions for any type, all at their defaults."""
    return libraries.created("cusolver", "cusolverDnCreateParams")


@lru(1)
def _jacobi() -> Any:
    """The settings of Jacobi's method, all at their defaults."""
    return libraries.created("cusolver", "cusolverDnCreateGesvdjInfo")


def _any_type(
    room: Scratch,
    name: str,
    head: tuple[Any, ...],
    places: tuple[Place, ...],
    arguments: Any,
    last: tuple[Any, ...],
    count: int,
) -> Library:
    """A function of cuSOLVER's for any type; of ``places`` the last tells of failures.

    ``arguments`` gives what stands between ``head`` and the workspaces, for addresses.
    """
    library, own = handle("cusolver")
    device, host = ctypes.c_size_t(), ctypes.c_size_t()
    ask = getattr(library, f"{name}_bufferSize")
    none = arguments(0, *[0] * (len(places) - 1))
    sizes = ctypes.byref(device), ctypes.byref(host)
    libraries.check(ask(own, _params(), *head, *none, *sizes, *last), name)
    mine = np.empty(max(host.value, 1), np.uint8)
    work = room.new(max(device.value, 1))

    def one(i: int, *found: int) -> tuple[Any, ...]:
        *rest, status, w = found
        spaces = PTR(w), device, PTR(mine.ctypes.data), host
        return _params(), *head, *arguments(i, *rest), *spaces, PTR(status + 4 * i), *last

    return calls("cusolver", name, (*places, work), one, count)


def _eigh(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """By columns the matrix is its conjugate, and so are its vectors."""
    (x,) = ins
    letter = letter_of(x)
    if letter is None or params["subset_by_index"] is not None:
        return None
    count, n, size = prod(x.shape[:-2]), x.shape[-1], x.dtype.itemsize
    vectors = int(params.get("vectors", True))
    # the triangle that is read by rows is the other one by columns
    uplo = UPPER if params["lower"] else LOWER
    room = Scratch()
    copy, info = room.new(prod(x.shape) * size), room.new(4 * count)
    steps: list[Any] = [Move(copy, given(0), prod(x.shape) * size)]
    if count > 1 and hasattr(libraries.library("cusolver"), "cusolverDnXsyevBatched"):
        kind, own = TYPES[x.dtype.name], TYPES[outs[1].dtype.name]

        def arguments(_: int, a: int, w: int) -> tuple[Any, ...]:
            return kind, PTR(a), _LONG(n), own, PTR(w), kind

        head = (vectors, uplo, _LONG(n))
        places = (copy, made(1), info)
        name = "cusolverDnXsyevBatched"
        steps.append(_any_type(room, name, head, places, arguments, (_LONG(count),), 1))
    else:
        name = f"cusolverDn{letter}{'syevd' if letter in 'SD' else 'heevd'}"
        length = size_of(name, vectors, uplo, n, PTR(), n, PTR())
        wide = outs[1].dtype.itemsize

        def one(i: int, a: int, values: int, w: int, status: int) -> tuple[Any, ...]:
            at, own = PTR(a + i * n * n * size), PTR(values + i * n * wide)
            return vectors, uplo, n, at, n, own, PTR(w), length, PTR(status + 4 * i)

        work = room.new(length * size)
        steps.append(calls("cusolver", name, (copy, made(1), work, info), one, count))
    steps.append(failing(outs[1].dtype, count, n, (made(1), info)))
    if vectors:
        places = (copy, info, made(0))
        steps.append(
            picked(x.dtype, (count, n, n), (n * n, 1, n), places, conjugated=True, checked=True)
        )
    return Routine(steps, tuple(room.sizes))


def _eig(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """Values and right vectors; the library has no left ones."""
    (x,) = ins
    name = "cusolverDnXgeev"
    if letter_of(x) is None or params["compute_left_eigenvectors"]:
        return None
    if not hasattr(libraries.library("cusolver"), name):
        return None
    count, n, size = prod(x.shape[:-2]), x.shape[-1], x.dtype.itemsize
    vectors = int(params["compute_right_eigenvectors"])
    kind, wide = TYPES[x.dtype.name], TYPES[outs[0].dtype.name]
    room, steps = Scratch(), list[Any]()
    columns = turned(room, x, given(0), steps)
    info = room.new(4 * count)
    found = room.new(prod(x.shape) * size if vectors else 16)
    step = outs[0].dtype.itemsize * n

    def arguments(i: int, a: int, w: int, v: int) -> tuple[Any, ...]:
        at, own = PTR(a + i * n * n * size), PTR(v + i * n * n * size * vectors)
        left = (kind, PTR(), _LONG(n))
        return kind, at, _LONG(n), wide, PTR(w + i * step), *left, kind, own, _LONG(n), kind

    head = (0, vectors, _LONG(n))
    places = (columns, made(0), found, info)
    steps.append(_any_type(room, name, head, places, arguments, (), count))
    steps.append(failing(outs[0].dtype, count, n, (made(0), info)))
    if vectors and x.dtype.kind == "c":
        own: tuple[Place, ...] = (found, info, made(1))
        steps.append(picked(x.dtype, (count, n, n), (n * n, 1, n), own, checked=True))
    elif vectors:
        _, real = parts_of(x.dtype)
        own = (made(0), found, info, made(1))
        names = {"COUNT": count, "ROWS": n}
        steps.append(launch(stubs.unpack_pairs, count * n * n, own, C=real, **names))
    return Routine(steps, tuple(room.sizes))


def _svd(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (x,) = ins
    letter = letter_of(x)
    if letter is None or params["subset_by_index"] is not None:
        return None
    count, (m, n) = prod(x.shape[:-2]), x.shape[-2:]
    room = Scratch()
    info = room.new(4 * count)
    asked = getattr(params["algorithm"], "name", "DEFAULT")
    if max(m, n) > JACOBI_SIZE or asked == "QR":
        steps = _svd_by_qr(room, x, outs, letter, params, info)
    else:
        steps = _svd_by_jacobi(room, x, outs, letter, params, info)
    steps.append(failing(outs[0].dtype, count, min(m, n), (made(0), info)))
    return Routine(steps, tuple(room.sizes))


def _svd_by_jacobi(
    room: Scratch, x: Type, outs: list[Type], letter: str, params: dict[str, Any], info: Place
) -> list[Any]:
    """By columns the matrix is transposed: its left vectors are V*, and its right ones conj(U)."""
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    k, vectors = min(m, n), int(params["compute_uv"])
    stacked = count > 1 and max(m, n) <= STACKED_JACOBI_SIZE
    thin = int(not params["full_matrices"])
    copy = room.new(prod(x.shape) * size)
    steps: list[Any] = [Move(copy, given(0), prod(x.shape) * size)]
    # columns of vectors that are found; stacks give all of them
    whole = stacked or not thin
    left, right = (n if whole else k), (m if whole else k)
    # the library writes there even if vectors aren't asked for
    one_u, one_v = room.new(count * n * left * size), room.new(count * m * right * size)
    name = f"cusolverDn{letter}gesvdj" + ("Batched" if stacked else "")
    head = (vectors, n, m) if stacked else (vectors, thin, n, m)
    shapes = (PTR(), n, PTR(), PTR(), n, PTR(), m)
    last = (_jacobi(), count) if stacked else (_jacobi(),)
    length = size_of(name, *head, *shapes, last=last)
    step = outs[0].dtype.itemsize * k

    def one(i: int, a: int, s: int, u: int, v: int, w: int, status: int) -> tuple[Any, ...]:
        at, values = PTR(a + i * m * n * size), PTR(s + i * step)
        pair = PTR(u + i * n * left * size), n, PTR(v + i * m * right * size), m
        return *head, at, n, values, *pair, PTR(w), length, PTR(status + 4 * i), *last

    places = (copy, made(0), one_u, one_v, room.new(length * size), info)
    steps.append(calls("cusolver", name, places, one, 1 if stacked else count))
    if vectors:
        wide, tall = (k, k) if thin else (n, m)
        v_places, u_places = (one_u, info, made(2)), (one_v, info, made(1))
        by_rows = (n * left, n, 1), (m * right, 1, m)
        steps.append(picked(x.dtype, (count, wide, n), by_rows[0], v_places, checked=True))
        steps.append(
            picked(x.dtype, (count, m, tall), by_rows[1], u_places, conjugated=True, checked=True)
        )
    return steps


def _svd_by_qr(
    room: Scratch, x: Type, outs: list[Type], letter: str, params: dict[str, Any], info: Place
) -> list[Any]:
    """Of matrices with at least as many rows as columns, by columns: wide ones are that as they
    are, and what is found for them is V* and U by rows."""
    count, (m, n), size = prod(x.shape[:-2]), x.shape[-2:], x.dtype.itemsize
    k, vectors, thin = min(m, n), params["compute_uv"], not params["full_matrices"]
    steps: list[Any] = []
    if m <= n:
        columns = room.new(prod(x.shape) * size)
        steps.append(Move(columns, given(0), prod(x.shape) * size))
    else:
        columns = turned(room, x, given(0), steps)
    rows, least = max(m, n), k
    left = k if thin else rows
    name = f"cusolverDn{letter}gesvd"
    length = size_of(name, rows, least)
    job = ctypes.c_byte(ord("N" if not vectors else "S" if thin else "A"))
    narrow = outs[0].dtype.itemsize
    first = room.new(count * rows * left * size if vectors else 16)
    second = room.new(count * least * least * size if vectors else 16)
    work, rest_of_work = room.new(length * size), room.new(least * narrow)
    places = (columns, made(0), first, second, work, rest_of_work, info)

    def one(i: int, a: int, s: int, u: int, v: int, w: int, r: int, told: int) -> tuple[Any, ...]:
        at, values = PTR(a + i * m * n * size), PTR(s + i * k * narrow)
        step = i * size * int(vectors)
        pair = PTR(u + step * rows * left), rows, PTR(v + step * least * least), least
        rest = PTR(w), length, PTR(r), PTR(told + 4 * i)
        return job, job, rows, least, at, rows, values, *pair, *rest

    steps.append(calls("cusolver", name, places, one, count))
    if vectors:
        u, v = (second, first) if m <= n else (first, second)
        u_steps = (k * k, k, 1) if m <= n else (rows * left, 1, rows)
        v_steps = (rows * left, rows, 1) if m <= n else (k * k, 1, k)
        u_shape, v_shape = outs[1].shape[-2:], outs[2].shape[-2:]
        u_places, v_places = (u, info, made(1)), (v, info, made(2))
        steps.append(picked(x.dtype, (count, *u_shape), u_steps, u_places, checked=True))
        steps.append(picked(x.dtype, (count, *v_shape), v_steps, v_places, checked=True))
    return steps


ROUTINES |= {"eigh": _eigh, "eig": _eig, "svd": _svd}
