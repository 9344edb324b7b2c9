"""Singular value decomposition."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from weft.core.dims.dim import max_dim, min_dim
from weft.core.trace import typeof
from weft.lapack import stacks as lapack
from weft.prims.arithmetic import add, div, mul, real, sub
from weft.prims.convert import convert
from weft.prims.families import scalar
from weft.prims.linalg.eigen import real_dtype
from weft.prims.linalg.matrix import (
    MatrixPrimitive,
    Shape,
    columns,
    diagonal,
    eye,
    insert_axis,
    is_complex,
    lift,
    matmul,
    mH,
    reference,
    rows,
)
from weft.prims.selection import eq


class SvdAlgorithm(enum.Enum):
    """Which algorithm computes singular values; CPUs have all but ``JACOBI`` and ``POLAR``.

    Example:
        >>> from weft import lax
        >>> lax.linalg.SvdAlgorithm("QR")
        <SvdAlgorithm.QR: 'QR'>
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _reference(
    a: np.ndarray, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any
) -> Any:
    results = lapack.svd(a, full_matrices, compute_uv, algorithm is SvdAlgorithm.QR)
    if subset_by_index is None:
        return results
    start, stop = subset_by_index
    s = results[0][..., start:stop]
    if not compute_uv or full_matrices:
        return (s, *results[1:])
    return s, results[1][..., start:stop], results[2][..., start:stop, :]


class SVD(MatrixPrimitive):
    """Descending singular values, then U and Vᴴ if asked for."""

    name, cubes = "svd", 21
    library = "gesdd: descending values and, if asked for, U and V*"
    multiple_results = True
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        m, n = shapes[0]
        rank = min_dim(m, n)
        whole = params["full_matrices"]
        subset = params["subset_by_index"]
        if params["algorithm"] in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
            raise NotImplementedError(
                f"svd with {params['algorithm']} is not available on CPUs; use DEFAULT or QR"
            )
        if subset is not None:
            if whole and (isinstance(subset, (int, float)) or tuple(subset) != (0, rank)):
                raise ValueError("svd takes full_matrices or subset_by_index, not both")
            rank = max_dim(0, min_dim(rank, subset[1]) - subset[0])
        values = ((rank,), real_dtype(dtype))
        if not params["compute_uv"]:
            return [values]
        u, vt = (m, m if whole else rank), (n if whole else rank, n)
        return [values, (u, dtype), (vt, dtype)]

    ref = reference(_reference)

    def expands(self, avals: Any, params: Any) -> bool:
        return params["subset_by_index"] is not None

    def decompose(self, a: Any, *, subset_by_index: Any, **params: Any) -> Any:
        if subset_by_index is None:
            return None  # all of them are the library's
        results = self.bind(a, subset_by_index=None, **params)
        start, stop = subset_by_index
        if params["full_matrices"]:
            return results
        return _cut(results, (start, min(stop, *np.shape(a)[-2:])))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        (a,), (a_dot,) = primals, tangents
        m, n = np.shape(a)[-2:]
        if params["compute_uv"] and params["full_matrices"] and m != n:
            raise NotImplementedError(
                f"the full U and V of a matrix of shape {(m, n)} have no unique derivative:"
                " use svd with full_matrices=False"
            )
        subset = params["subset_by_index"]
        thin = {**params, "full_matrices": False, "compute_uv": True, "subset_by_index": None}
        s, u, vt = self.bind(a, **thin)
        inner = matmul(matmul(mH(u), a_dot), mH(vt))
        outs: list[Any] = [s]
        dots: list[Any] = [diagonal(real(inner) if is_complex(inner) else inner)]
        if params["compute_uv"]:
            u_dot, v_dot = _vector_tangents(s, u, vt, inner, a_dot)
            outs += [u, vt]
            dots += [u_dot, mH(v_dot)]
        if subset is None:
            return outs, dots
        return _cut(outs, subset), _cut(dots, subset)


def _cut(results: list[Any], subset: Any) -> list[Any]:
    parts = [columns(x, *subset) for x in results[:2]]
    return parts + [rows(x, *subset) for x in results[2:]]


def _vector_tangents(s: Any, u: Any, vt: Any, inner: Any, a_dot: Any) -> tuple[Any, Any]:
    """U' and V' for distinct singular values (Giles 2008), where ``inner`` is Uᴴ A' V.

    Off the diagonal Uᴴ U' = F ∘ (inner S + S innerᴴ) and Vᴴ V' = F ∘ (S inner + innerᴴ S) with
    F_ij = 1/(s_j² - s_i²). Only the sum of the phases on the diagonal is known; U takes all of it.
    What leaves the span of U (or V) is (I - U Uᴴ) A' V S⁻¹.
    """
    dtype, kind = typeof(inner).dtype, typeof(s).dtype
    n = np.shape(s)[-1]
    row, column = insert_axis(s, -2), insert_axis(s, -1)
    unit = lift(eye(kind, n), np.ndim(s) + 1)
    one = scalar(kind, 1)
    gaps = mul(add(row, column), sub(row, column))
    f = convert(sub(div(one, add(gaps, unit)), unit), dtype)
    right = mul(convert(row, dtype), inner)
    left = mul(convert(column, dtype), inner)
    is_zero = convert(eq(s, scalar(kind, 0)), kind)
    inverse = sub(div(one, add(s, is_zero)), is_zero)
    on_diagonal = convert(mul(unit, insert_axis(inverse, -1)), dtype)
    phase = mul(mul(scalar(dtype, 0.5), sub(inner, mH(inner))), on_diagonal)
    u_turn = add(mul(f, add(right, mH(right))), phase)
    u_dot = matmul(u, u_turn)
    v = mH(vt)
    v_dot = matmul(v, mul(f, add(left, mH(left))))
    rows_, columns_ = np.shape(u)[-2], np.shape(vt)[-1]
    scale = convert(row, dtype)
    if rows_ > columns_:
        u_dot = add(u_dot, div(_outside(u, matmul(a_dot, v)), scale))
    if columns_ > rows_:
        v_dot = add(v_dot, div(_outside(v, matmul(mH(a_dot), u)), scale))
    return u_dot, v_dot


def _outside(basis: Any, x: Any) -> Any:
    """The part of ``x`` orthogonal to the columns of ``basis``."""
    return sub(x, matmul(basis, matmul(mH(basis), x)))


svd_p = SVD()
