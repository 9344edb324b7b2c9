"""Readers of the LAPACK routines that JAX calls on CPUs, by weft's own operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.api.batching import vmap
from weft.mlir.custom_calls import config, target
from weft.mlir.errors import Unread
from weft.mlir.reading import Reading
from weft.mlir.tree import Operation

LETTERS = "sdcz"


def lapack(*names: str) -> Any:
    """Register what calls of a routine do, for all dtypes."""
    return target(*[f"lapack_{letter}{name}_ffi" for name in names for letter in LETTERS])


def _letter(op: Operation, name: str, default: str) -> str:
    """An option of a routine, which JAX writes as the number of a letter."""
    value = config(op).get(name, ord(default))
    return chr(value) if type(value) is int and 0 < value < 128 else str(value)


def _done(op: Operation) -> Any:
    """The report that a routine succeeded; what fails here is NaN in the other results."""
    return lax.full(op.types[-1].shape, 0, op.types[-1].dtype)


def _blank(kind: Any) -> Any:
    """A result that a routine leaves undefined."""
    return lax.full(kind.shape, 0, kind.dtype)


@lapack("getrf")
def _lu(r: Reading, op: Operation, ins: list[Any]) -> Any:
    factors, pivots, _ = lax.linalg.lu(ins[0])
    return [factors, lax.add(pivots, lax.full_like(pivots, 1)), _done(op)]


@lapack("potrf")
def _cholesky(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = ins
    if _letter(op, "uplo", "L") == "L":
        return [lax.linalg.cholesky(x, symmetrize_input=False), _done(op)]
    return [_turned(lax.linalg.cholesky(_turned(x), symmetrize_input=False)), _done(op)]


def _turned(x: Any) -> Any:
    order = [*range(np.ndim(x) - 2), np.ndim(x) - 1, np.ndim(x) - 2]
    x = lax.transpose(x, order)
    return lax.conj(x) if x.dtype.kind == "c" else x


@lapack("gesdd", "gesvd")
def _svd(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,), mode = ins, _letter(op, "mode", "A")
    if mode == "N":
        values = lax.linalg.svd(x, compute_uv=False)
        return [x, values, _blank(op.types[2]), _blank(op.types[3]), _done(op)]
    u, values, vh = lax.linalg.svd(x, full_matrices=mode == "A")
    return [x, values, u, vh, _done(op)]


@lapack("syevd", "heevd")
def _eigh(r: Reading, op: Operation, ins: list[Any]) -> Any:
    lower = _letter(op, "uplo", "L") == "L"
    vectors, values = lax.linalg.eigh(
        ins[0], lower=lower, symmetrize_input=False, sort_eigenvalues=True
    )
    return [vectors, values, _done(op)]


@lapack("geev")
def _eig(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = ins
    wanted = [_letter(op, f"compute_{side}", "V") == "V" for side in ("left", "right")]
    values, *vectors = lax.linalg.eig(
        x, compute_left_eigenvectors=wanted[0], compute_right_eigenvectors=wanted[1]
    )
    found = iter(vectors)
    both = [next(found) if want else _blank(op.types[-3 + i]) for i, want in enumerate(wanted)]
    spectrum = [values] if x.dtype.kind == "c" else [lax.real(values), lax.imag(values)]
    return [*spectrum, *both, _done(op)]


@lapack("gees")
def _schur(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = ins
    form, vectors = lax.linalg.schur(x)
    values = lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
    spectrum = [values] if x.dtype.kind == "c" else [lax.real(values), lax.imag(values)]
    return [form, vectors, *spectrum, _blank(op.types[-2]), _done(op)]


@lapack("gehrd")
def _hessenberg(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return [*lax.linalg.hessenberg(ins[0]), _done(op)]


@lapack("sytrd", "hetrd")
def _tridiagonal(r: Reading, op: Operation, ins: list[Any]) -> Any:
    lower = _letter(op, "uplo", "L") == "L"
    return [*lax.linalg.tridiagonal(ins[0], lower=lower)[:4], _done(op)]


@lapack("gtsv")
def _tridiagonal_solve(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return [*ins[:3], lax.linalg.tridiagonal_solve(*ins), _done(op)]


@lapack("trsm")
def _triangular_solve(r: Reading, op: Operation, ins: list[Any]) -> Any:
    a, b = ins
    flip = _letter(op, "trans_x", "N")
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=_letter(op, "side", "L") == "L",
        lower=_letter(op, "uplo", "L") == "L",
        transpose_a=flip in "TC",
        conjugate_a=flip == "C",
        unit_diagonal=_letter(op, "diag", "N") == "U",
    )


@lapack("geqrf")
def _qr(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return _batched(_householder, ins[0])


@lapack("geqp3")
def _qr_pivoting(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x = ins[0]
    *_, order = lax.linalg.qr(x, pivoting=True)
    take: Any = lambda a, p: a[:, p]
    for _ in range(np.ndim(x) - 2):
        take = vmap(take)
    packed, taus = _batched(_householder, take(x, order))
    return [packed, lax.add(order, lax.full_like(order, 1)), taus]


def _batched(fun: Any, x: Any) -> Any:
    for _ in range(np.ndim(x) - 2):
        fun = vmap(fun)
    return fun(x)


def _householder(a: Any) -> list[Any]:
    """Reflections below the diagonal and R above it, as LAPACK's ``geqrf`` leaves them.

    The reflection k is I - tau v vᴴ; v has 1 at k and is written below the diagonal.
    """
    rows, cols = np.shape(a)
    count = min(rows, cols)
    number, column = lax.iota(np.int32, rows), lax.iota(np.int32, cols)

    def step(k: Any, state: Any) -> Any:
        a, taus = state
        x = a[:, k]
        below = number > k
        alpha = a[k, k]
        rest = lax.select(below, x, lax.full_like(x, 0))
        tail = lax.reduce_sum(lax.square(lax.abs(rest)), (0,))
        size = lax.sqrt(lax.square(lax.abs(alpha)) + tail)
        head = lax.real(alpha) if _is_complex(a) else alpha
        beta = lax.select(head > 0, -size, size)
        imaginary = lax.imag(alpha) if _is_complex(a) else lax.full_like(head, 0)
        plain = (tail == 0) & (imaginary == 0)
        wide = beta.astype(a.dtype)
        safe = lax.select(plain, lax.full_like(wide, 1), wide)
        tau = lax.select(plain, lax.full_like(wide, 0), (wide - alpha) / safe)
        scale = lax.select(plain, lax.full_like(wide, 1), alpha - wide)
        v = lax.select(below, x / scale, lax.select(number == k, lax.full_like(x, 1), 0 * x))
        v = lax.select(number < k, lax.full_like(v, 0), v)
        dots = lax.dot_general(v.conj(), a, (((0,), (0,)), ((), ())))
        changed = a - tau.conj() * v[:, None] * dots[None, :]
        later = lax.broadcast_in_dim(column > k, (rows, cols), (1,))
        a = lax.select(later, changed, a)
        diagonal = lax.select(plain, alpha, wide)
        kept = lax.select(below, v, lax.select(number == k, diagonal + 0 * x, x))
        here = lax.broadcast_in_dim(column == k, (rows, cols), (1,))
        a = lax.select(here, lax.broadcast_in_dim(kept, (rows, cols), (0,)), a)
        return a, taus.at[k].set(tau)

    taus = lax.full((count,), 0, a.dtype)
    return list(lax.fori_loop(np.int32(0), np.int32(count), step, (a, taus)))


def _is_complex(x: Any) -> bool:
    return bool(x.dtype.kind == "c")


@lapack("orgqr", "ungqr")
def _householder_product(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return lax.linalg.householder_product(*ins)


@lapack("ormqr", "unmqr")
def _multiplied(r: Reading, op: Operation, ins: list[Any]) -> Any:
    given = config(op)
    left, transpose = bool(given.get("left", True)), bool(given.get("transpose", False))
    if len(ins) != 3:
        raise Unread("it takes reflections, their factors and a matrix")
    return lax.linalg.ormqr(*ins, left=left, transpose=transpose)
