"""Decompositions and solves by LAPACK, one matrix of a stack after another on several threads.

A matrix that LAPACK could not decompose gives NaNs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations import cholesky_tiles, svd_parts
from weft.backends.cpu.routines.factorisations import stack_stubs as stubs
from weft.backends.cpu.routines.factorisations.stacks import LETTERS, Stack
from weft.backends.cpu.routines.products import blas_stubs as blas
from weft.backends.cpu.routines.registry import LOWERINGS, Lowering
from weft.backends.llvm.tasks import Lowered
from weft.base.lazy import Late
from weft.kernel.program import Type

# needed for stacks alone
small = Late("weft.backends.cpu.routines.factorisations.small_matrices")

Params = dict[str, Any]
Types = list[Type]


def _count(a: Type) -> int:
    """How many matrices a stack has."""
    return math.prod(a.shape[:-2])


def _stack(a: Type) -> Stack:
    return Stack(a.dtype, _count(a))


# --- Cholesky, LU ---------------------------------------------------------------------------------


def cholesky(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """The lower factor; to LAPACK, which reads columns, it is the upper one."""
    n = ins[0].shape[-1]
    if _count(ins[0]) == 1 and n >= cholesky_tiles.MIN_SIDE:
        return cholesky_tiles.cholesky(ins[0])
    s = _stack(ins[0])
    factor = s.result(0, n * n)
    s.step(stubs.COPY_LOWER, s.operand(0, n * n), factor, 0, n, n)
    s.call("potrf", ("U", n, factor, n))
    s.step(stubs.FAIL_LOWER, factor, 0, n, n)
    return s.lowered()


def lu(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Packed factors, row swaps, and the permutation that they make."""
    m, n = ins[0].shape[-2:]
    k = min(m, n)
    s = _stack(ins[0])
    packed, pivots = s.columns(0, m, n), s.result(1, k, 4)
    s.call("getrf", (m, n, packed, m, pivots))
    s.rows(packed, 0, m, n)
    s.step(stubs.FROM_ZERO, pivots, k)
    s.step(stubs.PERMUTE, pivots, s.result(2, m, 4), k, m)
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
    packed, given = s.columns(0, m, n), []
    for kind, *which in arrays:
        given.append(s.operand(*which) if kind == "in" else s.result(*which))
        if kind == "both":
            s.copy(given[-1], s.operand(*which))
    extra = [s.scratch(more, s.real.itemsize)] if more and s.complex else []
    s.call(stem, (*head, packed, m, *given), [s.dtype], extra)
    s.rows(packed, 0, m, n)
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
    rows, width = ins[0].shape[-2:]
    k = ins[1].shape[-1]
    m, n = ins[2].shape[-2:]
    s = _stack(ins[0])
    turned = "N" if not params["transpose"] else "C" if s.complex else "T"
    head = ("L" if params["left"] else "R", turned, m, n, k)
    packed, result = s.columns(0, rows, width), s.columns(2, m, n)
    given = (*head, packed, rows, s.operand(1, k), result, m)
    s.call("unmqr" if s.complex else "ormqr", given, [s.dtype])
    s.rows(result, 0, m, n)
    return s.lowered()


def qr(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Q, if anything uses it, and R; with pivoting the column order too."""
    m, n = ins[0].shape[-2:]
    k = outs[0].shape[-1]
    least, pivoting = min(m, n), params["pivoting"]
    s = _stack(ins[0])
    packed, r, taus = s.scratch(m * max(n, k)), s.result(1, k * n), s.scratch(least)
    s.turn(s.operand(0, m * n), n, packed, m, n)
    if pivoting:
        order = s.result(2, n, 4)
        s.step(stubs.CLEAR, order, 0, 4 * n)
        extra = [s.scratch(2 * n, s.real.itemsize)] if s.complex else []
        s.call("geqp3", (m, n, packed, m, order, taus), [s.dtype], extra)
        s.step(stubs.FROM_ZERO, order, n)
    else:
        s.call("geqrf", (m, n, packed, m, taus), [s.dtype])
    s.turn(packed, m, r, n, k)
    s.step(stubs.KEEP_UPPER, r, k, n)
    if k > n:
        s.step(stubs.CLEAR, packed, m * n * s.size, m * (k - n) * s.size)
    if params.get("q", True):
        s.call("ungqr" if s.complex else "orgqr", (m, k, least, packed, m, taus), [s.dtype])
        s.rows(packed, 0, m, k)
    return s.lowered()


# --- eigenvalues and singular values --------------------------------------------------------------


def eigh(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Eigenvectors, if anything uses them, and ascending eigenvalues of Hermitian matrices."""
    if params["subset_by_index"] is not None:
        return None
    n = ins[0].shape[-1]
    wanted = params.get("vectors", True)
    s = _stack(ins[0])
    head = ("V" if wanted else "N", "L" if params["lower"] else "U", n)
    kinds = [s.dtype, s.real] if s.complex else [s.dtype]
    vectors, w = s.columns(0, n, n), s.result(1, n, s.real.itemsize)
    stem = "heevd" if s.complex else "syevd"
    s.call(stem, (*head, vectors, n, w), [*kinds, np.dtype(np.int32)])
    if wanted:
        s.fail(s.rows(vectors, 0, n, n))
    s.fail(w)
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
        return svd_parts.svd(ins[0])
    s = _stack(ins[0])
    vectors = len(outs) > 1
    job = "N" if not vectors else "A" if params["full_matrices"] else "S"
    wide, high = (outs[1].shape[-1], outs[2].shape[-2]) if vectors else (1, 1)
    ldu = m if vectors else 1
    head = ((job, job) if by_qr else (job,)) + (m, n)
    matrix, values = s.columns(0, m, n), s.result(0, k, s.real.itemsize)
    u, vt = s.scratch(ldu * wide), s.scratch(high * (n if vectors else 1))
    extra = []
    if s.complex:
        # LAPACK's page for gesdd gives this length for every job.
        length = 5 * k if by_qr else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k)
        extra.append(s.scratch(length, s.real.itemsize))
    if not by_qr:
        extra.append(s.scratch(8 * k, 4))
    given = (*head, matrix, m, values, u, ldu, vt, high)
    s.call("gesvd" if by_qr else "gesdd", given, [s.dtype], extra)
    s.fail(values)
    if vectors:
        s.fail(s.rows(u, 1, m, wide), s.rows(vt, 2, high, n))
    return s.lowered()


def eig(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Eigenvalues of general matrices, then left and right eigenvectors."""
    n = ins[0].shape[-1]
    s = _stack(ins[0])
    sides = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]
    lengths = [n if side else 1 for side in sides]
    matrix = s.finite_columns(0, n)
    parts = [s.scratch(n) for _ in range(1 if s.complex else 2)]
    left, right = vectors = [s.scratch(length * length) for length in lengths]
    extra = [s.scratch(2 * n, s.real.itemsize)] if s.complex else []
    head = ("V" if sides[0] else "N", "V" if sides[1] else "N", n)
    given = (*head, matrix, n, *parts, left, lengths[0], right, lengths[1])
    s.call("geev", given, [s.dtype], extra)
    wanted = [v for v, side in zip(vectors, sides, strict=True) if side]
    double = 2 * s.real.itemsize
    values = s.result(0, n, double)
    if s.complex:
        s.copy(values, parts[0])
    else:
        s.step(stubs.JOIN_PARTS, *parts, values, n)
    s.fail(values)
    for i, vector in enumerate(wanted, 1):
        if s.complex:
            s.fail(s.rows(vector, i, n, n))
        else:
            result = s.result(i, n * n, double)
            s.step(stubs.JOIN_VECTORS, parts[1], vector, result, n)
            s.fail(result)
    return s.lowered()


def schur(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """The Schur form, then its vectors."""
    n = ins[0].shape[-1]
    s = _stack(ins[0])
    job, length = ("V", n) if len(outs) > 1 else ("N", 1)
    matrix, basis = s.finite_columns(0, n), s.scratch(length * length)
    found, flags = s.scratch(1, 4), s.scratch(n, 4)
    parts = [s.scratch(n) for _ in range(1 if s.complex else 2)]
    extra = [s.scratch(n, s.real.itemsize), flags] if s.complex else [flags]
    # the third argument would be a function that chooses eigenvalues
    given = (job, "N", flags, n, matrix, n, found, *parts, basis, length)
    s.call("gees", given, [s.dtype], extra)
    for i, at in enumerate((matrix, basis)[: len(outs)]):
        s.fail(s.rows(at, i, n, n))
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
    # the first number below the diagonal is none of the matrix
    diagonals = [(0, n - 1, s.size), (1, n, 0), (2, n - 1, 0)]
    below, middle, above = [
        s.copy(s.scratch(count), s.operand(i, n, 0, skipped)) for i, count, skipped in diagonals
    ]
    solution = s.columns(3, n, columns)
    s.call("gtsv", (n, columns, below, middle, above, solution, n))
    s.fail(s.rows(solution, 0, n, columns))
    return s.lowered()


def triangular_solve(ins: Types, outs: Types, params: Params) -> Lowered | None:
    """Solutions for triangular matrices, some right-hand sides at a time."""
    n = ins[0].shape[-1]
    m, k = ins[1].shape[-2:]
    left, transpose = params["left_side"], params["transpose_a"]
    conjugate = params["conjugate_a"] and ins[0].dtype.kind == "c"
    tiles = 1 << (-(-(k if left else m) // stubs.TILE) - 1).bit_length()
    s = Stack(ins[0].dtype, _count(ins[0]) * tiles)
    turned = blas.CONJUGATE_TRANSPOSE if conjugate else blas.TRANSPOSE
    codes = [
        blas.LEFT if left else blas.RIGHT,
        blas.LOWER if params["lower"] else blas.UPPER,
        turned if transpose else blas.NO_TRANSPOSE,
        blas.UNIT if params["unit_diagonal"] else blas.NON_UNIT,
    ]
    s.numbers += [n, m, k, tiles, *codes, *blas.bits_of(1, s.dtype)]
    for kind, what in (("in", 0), ("in", 1), ("out", 0), ("library", f"cblas_{s.letter}trsm")):
        s.place(kind, what)
    s.names |= {"ON_LEFT": int(left), "CONJUGATED": int(conjugate and not transpose)}
    return s.lowered(stubs.triangular_solve)


def _for_lapack(lowering: Lowering) -> Lowering:
    """A lowering of what LAPACK has routines for, where there is something to do."""

    def lower(ins: Types, outs: Types, params: Params) -> Lowered | None:
        if ins[0].dtype.name not in LETTERS or any(0 in t.shape for t in ins):
            return None
        found = None
        if _count(ins[0]) > 1:
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
