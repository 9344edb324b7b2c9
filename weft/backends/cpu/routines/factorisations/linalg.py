"""Decompositions and solves by LAPACK, one matrix of a stack after another on several threads.

A matrix that LAPACK could not decompose gives NaNs.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations import cholesky_tiles, stack_stubs, svd_parts
from weft.backends.cpu.routines.factorisations import small_matrices as small
from weft.backends.cpu.routines.factorisations.stack_text import (
    CONJUGATE_TRANSPOSE,
    LEFT,
    LETTERS,
    LOWER,
    NO_TRANSPOSE,
    NON_UNIT,
    RIGHT,
    ROW_MAJOR,
    TRANSPOSE,
    UNIT,
    UPPER,
    Stack,
)
from weft.backends.cpu.routines.registry import LOWERINGS, Lowering
from weft.base.functional import lru
from weft.base.openblas import lapack_routine
from weft.base.sizes import computed
from weft.kernel.program import Lowered, Type

Params = dict[str, Any]
Types = list[Type]


def _count(a: Type) -> int:
    """How many matrices a stack has."""
    return math.prod(a.shape[:-2])


def _stack(a: Type) -> Stack:
    return Stack(a.dtype, _count(a))


def _ask(stem: str, dtype: np.dtype, before: tuple, spaces: list[np.dtype], after: int = 0) -> list:
    """The lengths of the work arrays that a routine wants when asked with lengths of -1.

    ``before`` are its arguments up to them, where a pointer is None; ``spaces`` the dtypes of the
    work arrays; ``after`` the number of pointers that follow.
    """
    which = [i for i, x in enumerate(before) if x is not None and not isinstance(x, str)]
    head = tuple([None if i in which else x for i, x in enumerate(before)])
    kinds = tuple(spaces)
    lengths = [_length(i, stem, dtype, head, tuple(which), kinds, after) for i in range(len(kinds))]
    return [computed(length, *[before[i] for i in which]) for length in lengths]


@lru(256)
def _length(
    number: int, stem: str, dtype: np.dtype, head: tuple, which: tuple, spaces: tuple, after: int
) -> Callable[..., int]:
    """The length of a work array as a function of the whole numbers among a routine's arguments."""

    def length(*numbers: int) -> int:
        before = list(head)
        for i, n in zip(which, numbers, strict=True):
            before[i] = n
        return _asked(stem, dtype, before, spaces, after)[number]

    return length


def _asked(
    stem: str, dtype: np.dtype, before: list, spaces: tuple[np.dtype, ...], after: int
) -> list[int]:
    answers = [np.zeros(1, kind) for kind in spaces]
    # Some routines look at the first numbers of a matrix even so.
    any_memory = np.zeros(4096)
    spot = ctypes.c_void_p(any_memory.ctypes.data)
    given = [
        spot if x is None else ord(x) if isinstance(x, str) else operator.index(x) for x in before
    ]
    tail = [x for a in answers for x in (ctypes.c_void_p(a.ctypes.data), -1)]
    lapack_routine(stem, dtype)(*given, *tail, *[spot] * after)
    return [max(1, int(a[0].real)) for a in answers]


# --- Cholesky, LU ---------------------------------------------------------------------------------


def cholesky(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """The lower factor; to LAPACK, which reads columns, it is the upper one."""
    n = ins[0].shape[-1]
    if _count(ins[0]) == 1 and n >= cholesky_tiles.MIN_SIDE:
        return cholesky_tiles.cholesky(ins[0])
    s = _stack(ins[0])
    f = s.f
    source, target, potrf = s.operand(0), s.result(0), s.routine("potrf")
    with f.loop("%start", "%stop") as g:
        a, out = s.member(source, g, n * n), s.member(target, g, n * n)
        with f.loop(0, n) as row:
            offset = f.mul(row, n * s.size)
            to = f.at(out, offset)
            kept = f.mul(f.add(row, 1), s.size)
            s.copy(to, f.at(a, offset), kept)
            s.clear(f.at(to, kept), f.sub(n * s.size, kept))
        info = s.call(potrf, "U", n, out, n)
        with s.when_failed(info), f.loop(0, n) as row:
            # Zeros stay above the diagonal.
            to = f.at(out, f.mul(row, n * s.size))
            s.fill_nan(to, f.add(row, 1))
    return s.lowered()


def lu(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Packed factors, row swaps, and the permutation that they make."""
    m, n = ins[0].shape[-2:]
    k = min(m, n)
    s = _stack(ins[0])
    f = s.f
    source, getrf = s.operand(0), s.routine("getrf")
    targets = [s.result(i) for i in range(3)]
    work = s.scratch(m * n)
    with f.loop("%start", "%stop") as g:
        packed = s.member(targets[0], g, m * n)
        pivots, order = s.member(targets[1], g, k, 4), s.member(targets[2], g, m, 4)
        s.columns(s.member(source, g, m * n), work, m, n)
        s.call(getrf, m, n, work, m, pivots)
        s.rows(work, packed, m, n)
        with f.loop(0, k) as i:
            at = f.at(pivots, f.mul(i, 4))
            less = f.emit(f"sub i32 {f.load('i32', at, 4)}, 1")
            f.store("i32", less, at, 4)
        f.call_stub(stack_stubs.permute, pivots, order, k, m)
    return s.lowered()


# --- QR -------------------------------------------------------------------------------------------


def _in_place(a: Type, stem: str, head: tuple, arrays: list[tuple], more: int = 0) -> Lowered:
    """A routine that works in the memory of a matrix, which is the first result.

    ``head`` are its arguments before that, ``arrays`` what comes after: operands, results or, where
    both, results that begin as operands; which of them, how many numbers, of how many bytes if
    these are no elements. ``more`` real numbers are work memory of a complex routine.
    """
    m, n = a.shape[-2:]
    s = _stack(a)
    source, routine, target = s.operand(0), s.routine(stem), s.result(0)
    begins = [s.operand(i) if kind == "both" else "" for kind, i, *_ in arrays]
    bases = [s.pointer("in" if kind == "in" else "out", i) for kind, i, *_ in arrays]
    extra = [s.scratch(more, s.real.itemsize)] if more and s.complex else []
    before = (*head, None, m, *[None] * len(arrays))
    (size,) = _ask(stem, s.dtype, before, [s.dtype], len(extra))
    packed, work = s.scratch(m * n), s.scratch(size)
    with s.f.loop("%start", "%stop") as g:
        s.columns(s.member(source, g, m * n), packed, m, n)
        given = []
        for begin, base, (_, _, count, *each) in zip(begins, bases, arrays, strict=True):
            given.append(s.member(base, g, count, *each))
            if begin:
                s.copy(given[-1], s.member(begin, g, count, *each), count * each[0])
        s.call(routine, *head, packed, m, *given, work, size, *extra)
        s.rows(packed, s.member(target, g, m * n), m, n)
    return s.lowered()


def geqrf(ins: Types, outs: Types, params: Params) -> Lowered:
    """QR in packed form, and the factors of its reflectors."""
    m, n = ins[0].shape[-2:]
    return _in_place(ins[0], "geqrf", (m, n), [("out", 1, min(m, n))])


def geqp3(ins: Types, outs: Types, params: Params) -> Lowered:
    """QR with column pivoting in packed form, the column order, the factors of reflectors."""
    m, n = ins[0].shape[-2:]
    arrays = [("both", 1, n, 4), ("out", 2, min(m, n))]
    return _in_place(ins[0], "geqp3", (m, n), arrays, 2 * n)


def householder_product(ins: Types, outs: Types, params: Params) -> Lowered:
    """The first columns of a product of reflectors."""
    k = ins[1].shape[-1]
    stem = "ungqr" if ins[0].dtype.kind == "c" else "orgqr"
    return _in_place(ins[0], stem, (*ins[0].shape[-2:], k), [("in", 1, k)])


def ormqr(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Products with the Q of reflectors, which is not made."""
    left, transpose = params["left"], params["transpose"]
    rows, width = ins[0].shape[-2:]
    k = ins[1].shape[-1]
    m, n = ins[2].shape[-2:]
    s = _stack(ins[0])
    stem = "unmqr" if s.complex else "ormqr"
    turned = "N" if not transpose else "C" if s.complex else "T"
    sources, routine, target = [s.operand(i) for i in range(3)], s.routine(stem), s.result(0)
    head = ("L" if left else "R", turned, m, n, k)
    (size,) = _ask(stem, s.dtype, (*head, None, rows, None, None, m), [s.dtype])
    packed, result, work = s.scratch(rows * width), s.scratch(m * n), s.scratch(size)
    with s.f.loop("%start", "%stop") as g:
        s.columns(s.member(sources[0], g, rows * width), packed, rows, width)
        s.columns(s.member(sources[2], g, m * n), result, m, n)
        s.call(routine, *head, packed, rows, s.member(sources[1], g, k), result, m, work, size)
        s.rows(result, s.member(target, g, m * n), m, n)
    return s.lowered()


def qr(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Q, if anything uses it, and R; with pivoting the column order too."""
    m, n = ins[0].shape[-2:]
    k = outs[0].shape[-1]
    least, pivoting = min(m, n), params["pivoting"]
    s = _stack(ins[0])
    f = s.f
    stem, make = "geqp3" if pivoting else "geqrf", "ungqr" if s.complex else "orgqr"
    source, factor, product = s.operand(0), s.routine(stem), s.routine(make)
    targets = [s.result(i) for i in range(len(outs))]
    before = (m, n, None, m, None, None) if pivoting else (m, n, None, m, None)
    (size,) = _ask(stem, s.dtype, before, [s.dtype], int(pivoting and s.complex))
    (more,) = _ask(make, s.dtype, (m, k, least, None, m, None), [s.dtype])
    packed, taus, work = s.scratch(m * max(n, k)), s.scratch(least), s.scratch(max(size, more))
    extra = (s.scratch(2 * n, s.real.itemsize),) if pivoting and s.complex else ()
    with f.loop("%start", "%stop") as g:
        q, r = s.member(targets[0], g, m * k), s.member(targets[1], g, k * n)
        s.columns(s.member(source, g, m * n), packed, m, n)
        if pivoting:
            order = s.member(targets[2], g, n, 4)
            s.clear(order, 4 * n)
            s.call(factor, m, n, packed, m, order, taus, work, size, *extra)
            with f.loop(0, n) as i:
                at = f.at(order, f.mul(i, 4))
                f.store("i32", f.emit(f"sub i32 {f.load('i32', at, 4)}, 1"), at, 4)
        else:
            s.call(factor, m, n, packed, m, taus, work, size)
        s.turn(packed, m, r, n, n, k)
        s.keep_upper(r, k, n)
        if k > n:
            s.clear(f.at(packed, m * n * s.size), m * (k - n) * s.size)
        if params.get("q", True):
            s.call(product, m, k, least, packed, m, taus, work, more)
            s.rows(packed, q, m, k)
    return s.lowered()


# --- eigenvalues and singular values --------------------------------------------------------------


def eigh(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Eigenvectors, if anything uses them, and ascending eigenvalues of Hermitian matrices."""
    if params["subset_by_index"] is not None:
        return None
    n = ins[0].shape[-1]
    wanted = params.get("vectors", True)
    s = _stack(ins[0])
    stem = "heevd" if s.complex else "syevd"
    source, routine, targets = s.operand(0), s.routine(stem), [s.result(0), s.result(1)]
    head = ("V" if wanted else "N", "L" if params["lower"] else "U", n)
    whole = np.dtype(np.int32)
    kinds = [s.dtype, s.real, whole] if s.complex else [s.dtype, whole]
    sizes = _ask(stem, s.dtype, (*head, None, n, None), kinds)
    vectors = s.scratch(n * n)
    spaces = [s.scratch(size, kind.itemsize) for size, kind in zip(sizes, kinds, strict=True)]
    given = [x for pair in zip(spaces, sizes, strict=True) for x in pair]
    with s.f.loop("%start", "%stop") as g:
        v, w = s.member(targets[0], g, n * n), s.member(targets[1], g, n, s.real.itemsize)
        s.columns(s.member(source, g, n * n), vectors, n, n)
        info = s.call(routine, *head, vectors, n, w, *given)
        if wanted:
            s.rows(vectors, v, n, n)
        with s.when_failed(info):
            if wanted:
                s.fill_nan(v, n * n)
            s.fill_nan(w, n, real=True)
    return s.lowered()


def svd(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Descending singular values, then U and Vᴴ."""
    if params["subset_by_index"] is not None:
        return None
    m, n = ins[0].shape[-2:]
    k = min(m, n)
    by_qr = getattr(params["algorithm"], "name", "") == "QR"
    alone = _count(ins[0]) == 1 and m == n >= svd_parts.MIN_ROWS and ins[0].dtype.kind == "f"
    if alone and len(outs) > 1 and not by_qr:
        return svd_parts.svd(ins[0], _ask)
    s = _stack(ins[0])
    stem = "gesvd" if by_qr else "gesdd"
    source, routine = s.operand(0), s.routine(stem)
    targets = [s.result(i) for i in range(len(outs))]
    vectors = len(outs) > 1
    job = "N" if not vectors else "A" if params["full_matrices"] else "S"
    wide, high = (outs[1].shape[-1], outs[2].shape[-2]) if vectors else (1, 1)
    ldu = m if vectors else 1
    head = ((job, job) if by_qr else (job,)) + (m, n)
    before = (*head, None, m, None, None, ldu, None, high)
    (size,) = _ask(stem, s.dtype, before, [s.dtype], s.complex + (not by_qr))
    matrix, work = s.scratch(m * n), s.scratch(size)
    u, vt = s.scratch(ldu * wide), s.scratch(high * (n if vectors else 1))
    extra = []
    if s.complex:
        # LAPACK's page for gesdd gives this length for every job.
        length = 5 * k if by_qr else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k)
        extra.append(s.scratch(length, s.real.itemsize))
    if not by_qr:
        extra.append(s.scratch(8 * k, 4))
    with s.f.loop("%start", "%stop") as g:
        values = s.member(targets[0], g, k, s.real.itemsize)
        s.columns(s.member(source, g, m * n), matrix, m, n)
        given = (matrix, m, values, u, ldu, vt, high, work, size, *extra)
        info = s.call(routine, *head, *given)
        parts = []
        if vectors:
            parts = [s.member(targets[1], g, m * wide), s.member(targets[2], g, high * n)]
            s.rows(u, parts[0], m, wide)
            s.rows(vt, parts[1], high, n)
        with s.when_failed(info):
            s.fill_nan(values, k, real=True)
            for part, count in zip(parts, (m * wide, high * n), strict=False):
                s.fill_nan(part, count)
    return s.lowered()


def eig(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Eigenvalues of general matrices, then left and right eigenvectors."""
    n = ins[0].shape[-1]
    s = _stack(ins[0])
    f = s.f
    left, right = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]
    source, geev = s.operand(0), s.routine("geev")
    targets = [s.result(i) for i in range(len(outs))]
    head = ("V" if left else "N", "V" if right else "N", n)
    lengths = (n if left else 1, n if right else 1)
    middle = (None,) if s.complex else (None, None)
    before = (*head, None, n, *middle, None, lengths[0], None, lengths[1])
    (size,) = _ask("geev", s.dtype, before, [s.dtype], int(s.complex))
    matrix, work = s.scratch(n * n), s.scratch(size)
    parts = [s.scratch(n) for _ in middle]
    vectors = [s.scratch(length * length) for length in lengths]
    extra = (s.scratch(2 * n, s.real.itemsize),) if s.complex else ()
    double = 2 * s.real.itemsize
    with f.loop("%start", "%stop") as g:
        a = s.member(source, g, n * n)
        results = [s.member(targets[0], g, n, double)]
        results += [s.member(t, g, n * n, double) for t in targets[1:]]
        ok = s.finite_columns(a, matrix, n)
        given = (vectors[0], lengths[0], vectors[1], lengths[1], work, size)
        info = s.call(geev, *head, matrix, n, *parts, *given, *extra)
        wanted = [v for v, flag in zip(vectors, (left, right), strict=True) if flag]
        if s.complex:
            s.copy(results[0], parts[0], n * s.size)
            for vector, result in zip(wanted, results[1:], strict=True):
                s.rows(vector, result, n, n)
        else:
            s.stub(stack_stubs.join_parts, *parts, results[0], n)
            for vector, result in zip(wanted, results[1:], strict=True):
                s.stub(stack_stubs.join_vectors, parts[1], vector, result, n)
        with s.when_failed(info, ok):
            for result, count in zip(results, (n, n * n, n * n), strict=False):
                s.fill_nan(result, count * (1 if s.complex else 2))
    return s.lowered()


def schur(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """The Schur form, then its vectors."""
    n = ins[0].shape[-1]
    s = _stack(ins[0])
    f = s.f
    vectors = len(outs) > 1
    source, gees = s.operand(0), s.routine("gees")
    targets = [s.result(i) for i in range(len(outs))]
    job, length = ("V", n) if vectors else ("N", 1)
    values: tuple = (None,) if s.complex else (None, None)
    before = (job, "N", None, n, None, n, None, *values, None, length)
    (size,) = _ask("gees", s.dtype, before, [s.dtype], 1 + s.complex)
    matrix, basis, work = s.scratch(n * n), s.scratch(length * length), s.scratch(size)
    found, flags = s.scratch(1, 4), s.scratch(n, 4)
    parts = [s.scratch(n) for _ in values]
    extra = (s.scratch(n, s.real.itemsize), flags) if s.complex else (flags,)
    with f.loop("%start", "%stop") as g:
        a = s.member(source, g, n * n)
        ok = s.finite_columns(a, matrix, n)
        given = (matrix, n, found, *parts, basis, length, work, size, *extra)
        info = s.call(gees, job, "N", "null", n, *given)
        results = [s.member(t, g, n * n) for t in targets]
        for at, result in zip((matrix, basis), results, strict=False):
            s.rows(at, result, n, n)
        with s.when_failed(info, ok):
            for result in results:
                s.fill_nan(result, n * n)
    return s.lowered()


def hessenberg(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """The upper Hessenberg form with its reflectors, and their factors."""
    n = ins[0].shape[-1]
    return _in_place(ins[0], "gehrd", (n, 1, n), [("out", 1, n - 1)]) if n > 1 else None


def tridiagonal(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Hermitian matrices made tridiagonal: packed, two diagonals, factors of the reflectors."""
    n = ins[0].shape[-1]
    if n < 2:
        return None
    stem = "hetrd" if ins[0].dtype.kind == "c" else "sytrd"
    real = outs[1].dtype.itemsize
    arrays = [("out", 1, n, real), ("out", 2, n - 1, real), ("out", 3, n - 1)]
    return _in_place(ins[0], stem, ("L" if params["lower"] else "U", n), arrays)


# --- solves ---------------------------------------------------------------------------------------


def tridiagonal_solve(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Solutions for matrices given by three diagonals."""
    if params["perturb_singular"]:
        return None
    n, columns = ins[3].shape[-2:]
    s = _stack(ins[3])
    sources, gtsv, target = [s.operand(i) for i in range(4)], s.routine("gtsv"), s.result(0)
    below, middle, above, work = (s.scratch(size) for size in (n, n, n, n * columns))
    with s.f.loop("%start", "%stop") as g:
        dl, d, du = (s.member(x, g, n) for x in sources[:3])
        s.copy(below, s.f.at(dl, s.size), (n - 1) * s.size)
        s.copy(middle, d, n * s.size)
        s.copy(above, du, (n - 1) * s.size)
        s.columns(s.member(sources[3], g, n * columns), work, n, columns)
        info = s.call(gtsv, n, columns, below, middle, above, work, n)
        out = s.member(target, g, n * columns)
        s.rows(work, out, n, columns)
        with s.when_failed(info):
            s.fill_nan(out, n * columns)
    return s.lowered()


# Right-hand sides that are solved for at a time.
TILE = 128


def triangular_solve(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Solutions for triangular matrices, some right-hand sides at a time."""
    n = ins[0].shape[-1]
    m, k = ins[1].shape[-2:]
    left, transpose = params["left_side"], params["transpose_a"]
    conjugate = params["conjugate_a"] and ins[0].dtype.kind == "c"
    lower, unit = params["lower"], params["unit_diagonal"]
    sides = k if left else m
    tiles = -(-sides // TILE)
    s = Stack(ins[0].dtype, _count(ins[0]) * tiles)
    f = s.f
    turned = NO_TRANSPOSE
    if transpose:
        turned = CONJUGATE_TRANSPOSE if conjugate else TRANSPOSE
    codes = (
        ROW_MAJOR,
        LEFT if left else RIGHT,
        LOWER if lower else UPPER,
        turned,
        UNIT if unit else NON_UNIT,
    )
    a, b, target = s.operand(0), s.operand(1), s.result(0)
    trsm = s.pointer("library", f"cblas_{s.letter}trsm")
    alpha = s.number(1)
    with f.loop("%start", "%stop") as g:
        which = f.div(g, tiles)
        matrix = f.at(a, f.mul(which, n * n * s.size))
        first = f.mul(f.rem(g, tiles), TILE)
        count = f.smaller(TILE, f.sub(sides, first))
        offset = f.mul(which, m * k * s.size)
        offset = f.add(offset, f.mul(first, s.size if left else k * s.size))
        at, to = f.at(b, offset), f.at(target, offset)
        if left and tiles > 1:
            with f.loop(0, m) as row:
                step = f.mul(row, k * s.size)
                s.copy(f.at(to, step), f.at(at, step), f.mul(count, s.size))
        else:
            s.copy(to, at, f.mul(count, (m if left else k) * s.size))
        lines = (m, count) if left else (count, k)
        if conjugate and not transpose:  # the conjugates of a solution of A X = conj(B)
            s.stub(stack_stubs.conjugate, to, k, *lines)
        width = count if isinstance(count, int) else f.emit(f"trunc i64 {count} to i32")
        sizes = (m, width) if left else (width, k)
        head = ", ".join(f"i32 {x}" for x in (*codes, *sizes))
        f.line(f"call void {trsm}({head}, {alpha}, ptr {matrix}, i32 {n}, ptr {to}, i32 {k})")
        if conjugate and not transpose:
            s.stub(stack_stubs.conjugate, to, k, *lines)
    return s.lowered()


def _for_lapack(lowering: Lowering) -> Lowering:
    """A lowering of what LAPACK has routines for, where there is something to do."""

    def lower(ins: Types, outs: Types, params: Params) -> Lowered | None:
        if ins[0].dtype.name not in LETTERS or any(0 in t.shape for t in ins):
            return None
        found = small.lowered(lowering.__name__, ins, outs, params)
        return lowering(ins, outs, params) if found is None else found

    return lower


_OWN: tuple[Lowering, ...] = (
    cholesky,
    lu,
    geqrf,
    geqp3,
    householder_product,
    ormqr,
    qr,
    eigh,
    svd,
    eig,
    schur,
    hessenberg,
    tridiagonal,
    tridiagonal_solve,
    triangular_solve,
)
LOWERINGS.update({lowering.__name__: _for_lapack(lowering) for lowering in _OWN})
