"""QR decomposition and its packed form: R above the diagonal, Householder reflectors below."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.ad import Zero
from weft.core.dims.dim import min_dim
from weft.core.trace import typeof
from weft.lapack import stacks as lapack
from weft.prims.arithmetic import add, mul, real, sub
from weft.prims.convert import convert
from weft.prims.families import describe_kinds, is_narrow, kind_of
from weft.prims.linalg.lu import lu_p, lu_solve
from weft.prims.linalg.matrix import (
    INT32,
    LinearInLast,
    MatrixPrimitive,
    Shape,
    Undifferentiated,
    columns,
    concatenate,
    eye,
    full,
    is_complex,
    lift,
    matmul,
    mH,
    mT,
    reference,
    rows,
    take_rows,
    tril,
)
from weft.prims.linalg.solve import triangular_solve


class Geqrf(Undifferentiated):
    """QR in packed form, and the scale factors of the reflectors."""

    name, cubes = "geqrf", 4 / 3
    library = "geqrf: R above reflectors, and their factors"
    multiple_results = True
    instead = ": differentiate linalg.qr instead of its packed form"

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        m, n = shapes[0]
        return [((m, n), dtype), ((min_dim(m, n),), dtype)]

    ref = reference(lapack.geqrf)


class Geqp3(Undifferentiated):
    """QR with column pivoting in packed form, the column order (from 1), the scale factors."""

    name = "geqp3"
    library = "geqp3: the same with column pivots, and the permutation"
    multiple_results = True
    ranks = (2, 1)
    instead = ": differentiate linalg.qr with pivoting=True instead of its packed form"

    def _check_dtypes(self, avals: Any) -> None:
        if not kind_of(avals[0].dtype) & self.accepts:
            raise TypeError(
                f"geqp3 does not accept dtype {avals[0].dtype}; it takes"
                f" {describe_kinds(self.accepts)} matrices"
            )
        if avals[1].dtype != INT32:
            raise TypeError(f"geqp3 takes an int32 column order, got {avals[1].dtype}")

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        (m, n), order = shapes
        if order != (n,):
            raise ValueError(f"geqp3 of shape {(m, n)} needs a column order of {n}, got {order}")
        return [((m, n), dtype), (order, INT32), ((min_dim(m, n),), dtype)]

    @staticmethod
    def ref(a: np.ndarray, jpvt: np.ndarray, *, use_magma: Any) -> Any:
        return lapack.geqp3(a.astype(np.float32) if is_narrow(a.dtype) else a, jpvt)


class HouseholderProduct(Undifferentiated):
    """The first columns of the product of the reflectors below a's diagonal."""

    name = "householder_product"
    library = "orgqr, ungqr: the product of reflectors"
    ranks = (2, 1)
    instead = ": differentiate linalg.qr instead of its packed form"

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        a, taus = shapes
        m, n = a
        if m < n or taus[0] > n:
            raise ValueError(
                "householder_product needs reflectors of shape (m, n) with m >= n and at most n"
                f" factors, got {a} and {taus}"
            )
        return [(a, dtype)]

    ref = reference(lapack.householder_product)


class Ormqr(LinearInLast):
    """Q C, Qᴴ C, C Q or C Qᴴ without making Q, from the packed form of QR."""

    name = "ormqr"
    library = "ormqr, unmqr: the product of reflectors times a matrix"
    ranks = (2, 1, 2)
    adjoint = "transpose"
    why = (
        "not in the reflectors: multiply by the q of linalg.qr to differentiate the decomposition"
        " too"
    )

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        a, _, c = shapes
        left = params["left"]
        if c[0 if left else 1] != a[0]:
            wanted = f"({a[0]}, k)" if left else f"(k, {a[0]})"
            raise ValueError(
                f"ormqr with left={left} and reflectors of shape {a} needs c of shape {wanted},"
                f" got {c}"
            )
        return [(c, dtype)]

    ref = reference(lapack.ormqr)


def _qr_reference(
    a: np.ndarray, *, pivoting: bool, full_matrices: bool, use_magma: Any, q: bool = True
) -> Any:
    decompose = lapack.qr_pivoted if pivoting else lapack.qr
    return decompose(a, full_matrices)


class QR(MatrixPrimitive):
    """A = Q R with orthonormal Q and upper triangular R; with pivoting A[:, p] = Q R."""

    name, cubes = "qr", 4 / 3
    library = "geqrf and orgqr: Q and R, or with column pivots also the permutation"
    multiple_results = True
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        m, n = shapes[0]
        k = m if params["full_matrices"] else min_dim(m, n)
        order = [((n,), INT32)] if params["pivoting"] else []
        return [((m, k), dtype), ((k, n), dtype), *order]

    ref = reference(_qr_reference)

    def lean(self, params: dict[str, Any], used: list[bool]) -> dict[str, Any]:
        return params if used[0] else {**params, "q": False}

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        (x,), (x_dot,) = primals, tangents
        q, r, *order = out = self.bind(x, **params)
        m, n = np.shape(x)[-2:]
        if order:
            x, x_dot = take_columns(x, order[0]), take_columns(x_dot, order[0])
        if m < n:
            q_dot, r_dot = _wide_tangent(q, r, x, x_dot)
        elif m > n and params["full_matrices"]:
            q_dot, r_dot = _complete_tangent(q, r, x_dot)
        else:
            q_dot, r_dot = _thin_tangent(q, r, x_dot)
        return out, [q_dot, r_dot, *map(Zero.from_primal, order)]


def take_columns(x: Any, order: Any) -> Any:
    """The columns of every matrix in the order that ``order`` says."""
    return mT(take_rows(mT(x), order))


def _thin_tangent(q: Any, r: Any, x_dot: Any) -> tuple[Any, Any]:
    """Q' and R' where R is square.

    With C = Qᴴ X' R⁻¹ and Ω = Qᴴ Q' (skew-Hermitian, whose strictly lower part is that of C):
    Q' = X' R⁻¹ - Q C + Q Ω and R' = (C - Ω) R. A real diagonal of R leaves the imaginary part of
    C's diagonal to Ω.
    """
    right = triangular_solve(r, x_dot)
    inner = matmul(mH(q), right)
    lower = tril(inner, -1)
    turn = sub(lower, mH(lower))
    if is_complex(q):
        unit = lift(eye(typeof(turn).dtype, np.shape(r)[-1]), np.ndim(turn))
        phase = sub(inner, convert(real(inner), typeof(inner).dtype))
        turn = add(turn, mul(unit, phase))
    q_dot = add(matmul(q, sub(turn, inner)), right)
    return q_dot, matmul(sub(inner, turn), r)


def _wide_tangent(q: Any, r: Any, x: Any, x_dot: Any) -> tuple[Any, Any]:
    """More columns than rows: the left square part as above, the rest is R₂ = Qᴴ X₂."""
    m, n = np.shape(r)[-2:]
    q_dot, first = _thin_tangent(q, columns(r, 0, m), columns(x_dot, 0, m))
    second = add(matmul(mH(q_dot), columns(x, m, n)), matmul(mH(q), columns(x_dot, m, n)))
    return q_dot, concatenate([first, second], -1)


def _complete_tangent(q: Any, r: Any, x_dot: Any) -> tuple[Any, Any]:
    """More rows than columns with square Q, whose extra columns depend on the first ones.

    LAPACK's Q is I - V T Vᴴ, so the extra columns are a function of the first n: with
    Z = Q₂₁ (Q₁₁ - I)⁻¹, Q₂' = Q₁' Zᴴ - (Q₁ + Q₂ Z) (Q₂₁' - Z Q₁₁')ᴴ (Roberts and Roberts, "QR and
    LQ decomposition matrix backpropagation algorithms for square, wide, and deep matrices", 2024).
    """
    m, n = np.shape(r)[-2:]
    thin, extra = columns(q, 0, n), columns(q, n, m)
    thin_dot, r_dot = _thin_tangent(thin, rows(r, 0, n), x_dot)
    top, bottom = rows(thin, 0, n), rows(thin, n, m)
    unit = lift(eye(typeof(top).dtype, n), np.ndim(top))
    packed, _, permutation = lu_p.bind(sub(top, unit))
    z_adjoint = lu_solve(packed, permutation, mH(bottom), trans=2)
    z = mH(z_adjoint)
    turn = sub(rows(thin_dot, n, m), matmul(z, rows(thin_dot, 0, n)))
    extra_dot = sub(matmul(thin_dot, z_adjoint), matmul(add(thin, matmul(extra, z)), mH(turn)))
    zeros = full((*np.shape(r)[:-2], m - n, n), typeof(r).dtype, 0)
    return concatenate([thin_dot, extra_dot], -1), concatenate([r_dot, zeros], -2)


geqrf_p = Geqrf()
geqp3_p = Geqp3()
householder_product_p = HouseholderProduct()
ormqr_p = Ormqr()
qr_p = QR()
