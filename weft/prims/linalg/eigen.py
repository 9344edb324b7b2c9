"""Eigenvalues and what leads to them: eigh, eig, Schur, Hessenberg and tridiagonal forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.lapack import stacks as lapack
from weft.prims.arithmetic import (
    abs_,
    add,
    complex_,
    conj,
    div,
    imag,
    integer_pow,
    mul,
    neg,
    real,
    sub,
)
from weft.prims.convert import convert
from weft.prims.families import COMPLEX, INEXACT, kind_of
from weft.prims.linalg.lu import solve
from weft.prims.linalg.matrix import (
    MatrixPrimitive,
    Shape,
    Undifferentiated,
    columns,
    diagonal,
    eye,
    insert_axis,
    iota,
    lift,
    matmul,
    mH,
    mT,
    reference,
    square,
    sum_over,
    symmetrize,
)
from weft.prims.selection import eq


def real_dtype(dtype: Any) -> Any:
    """The dtype of the real part."""
    return np.dtype(f"f{dtype.itemsize // 2}") if kind_of(dtype) == COMPLEX else dtype


def complex_dtype(dtype: Any) -> Any:
    """The complex dtype that holds a dtype's values."""
    return np.dtype(np.complex128 if dtype.name in ("float64", "complex128") else np.complex64)


def inverse_gaps(w: Any) -> Any:
    """1 / (w_j - w_i) off the diagonal, 0 on it."""
    n = np.shape(w)[-1]
    unit = lift(eye(typeof(w).dtype, n), np.ndim(w) + 1)
    gaps = sub(add(unit, insert_axis(w, -2)), insert_axis(w, -1))
    return sub(integer_pow(gaps, -1), unit)


def _eigh_reference(
    a: np.ndarray,
    *,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: Any,
    algorithm: Any,
    vectors: bool = True,
) -> Any:
    v, w = lapack.eigh(a, lower)
    if subset_by_index is None:
        return v, w
    part = slice(*subset_by_index)
    return v[..., part], w[..., part]


class Eigh(MatrixPrimitive):
    """Eigenvectors and ascending eigenvalues of Hermitian matrices."""

    name, cubes = "eigh", 9
    library = "syevd, heevd: vectors and ascending values of a symmetric matrix"
    multiple_results = True
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        n = square(self.name, shapes[0])
        subset = params["subset_by_index"]
        count = n
        if subset is not None:
            start, stop = subset
            if not 0 <= start <= stop <= n:
                raise ValueError(
                    f"eigh of size {n} needs subset_by_index=(start, stop) with"
                    f" 0 <= start <= stop <= {n}, got {subset}"
                )
            count = stop - start
        return [((n, count), dtype), ((count,), real_dtype(dtype))]

    ref = reference(_eigh_reference)

    def lean(self, params: dict[str, Any], used: list[bool]) -> dict[str, Any]:
        return params if used[0] else {**params, "vectors": False}

    def expands(self, avals: Any, params: Any) -> bool:
        return params["subset_by_index"] is not None

    def decompose(self, a: Any, *, subset_by_index: Any, **params: Any) -> Any:
        if subset_by_index is None:
            return None  # all of them are the library's
        results = self.bind(a, subset_by_index=None, **params)
        return [columns(x, *subset_by_index) for x in results]

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        """w' = diag(Vᴴ A' V) and V' = V (F ∘ Vᴴ A' V), F_ij = 1/(w_j - w_i).

        For distinct eigenvalues (Giles, "An extended collection of matrix derivative results",
        2008); equal ones give infinities in V'.
        """
        (a,), (a_dot,) = primals, tangents
        subset = params["subset_by_index"]
        v, w = self.bind(symmetrize(a), **{**params, "subset_by_index": None})
        gaps = inverse_gaps(convert(w, typeof(a).dtype))
        inner = matmul(matmul(mH(v), a_dot), v)
        v_dot = matmul(v, mul(gaps, inner))
        w_dot = diagonal(real(inner) if kind_of(typeof(a).dtype) == COMPLEX else inner)
        if subset is None:
            return [v, w], [v_dot, w_dot]
        return [columns(x, *subset) for x in (v, w)], [columns(x, *subset) for x in (v_dot, w_dot)]


def _eig_reference(a: np.ndarray, **params: Any) -> Any:
    left, right = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]
    return lapack.eig(a, left, right)


class Eig(MatrixPrimitive):
    """Eigenvalues of general matrices, with left and right eigenvectors as asked for."""

    name = "eig"
    library = "geev: values and, if asked for, left and right vectors"
    multiple_results = True
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        n = square(self.name, shapes[0])
        wide = complex_dtype(dtype)
        count = params["compute_left_eigenvectors"] + params["compute_right_eigenvectors"]
        return [((n,), wide), *[((n, n), wide)] * count]

    ref = reference(_eig_reference)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        left = params["compute_left_eigenvectors"]
        right = params["compute_right_eigenvectors"]
        if (left or right) and not params["enable_eigvec_derivs"]:
            raise NotImplementedError(
                "derivatives of non-symmetric eigenvectors hold only where eigenvalues are"
                " distinct and no eigenvector has two largest components, which cannot be checked:"
                " request them with lax.linalg.eig(..., enable_eigvec_derivs=True), or use eigvals"
            )
        wanted = {**params, "compute_right_eigenvectors": True}
        w, *vectors = self.bind(*primals, **wanted)
        v = vectors[-1]
        a_dot = convert(tangents[0], typeof(v).dtype)
        if not (left or right):
            return [w], [sum_over(mul(solve(v, a_dot), mT(v)), -1)]
        w_dot, v_dot = _vector_tangent(w, v, a_dot)
        outs, dots = [w], [w_dot]
        if left:
            outs.append(vectors[0])
            dots.append(_vector_tangent(conj(w), vectors[0], mH(a_dot))[1])
        if right:
            outs.append(v)
            dots.append(v_dot)
        return outs, dots


def _vector_tangent(w: Any, v: Any, a_dot: Any) -> tuple[Any, Any]:
    """w' and V' for eigenvectors of length 1 whose largest component is real, as LAPACK's are.

    A v = w v alone gives v' = u + c v with u = V (F ∘ V⁻¹ A' V) and c free; the length fixes the
    real part of c, the real component (k) its imaginary part:
    c = -Re(vᴴ u) - i Im(u_k) / v_k.
    """
    inner = matmul(solve(v, a_dot), v)
    u = matmul(v, mul(inverse_gaps(w), inner))
    ndim = np.ndim(v)
    k = lookup("argmax").bind(abs_(v), axes=(ndim - 2,), index_dtype=np.dtype(np.int32))
    largest = eq(iota(np.shape(v), ndim - 2), insert_axis(k, -2))
    mask = convert(largest, typeof(v).dtype)
    length = neg(real(sum_over(mul(conj(v), u), -2)))
    phase = neg(div(imag(sum_over(mul(mask, u), -2)), real(sum_over(mul(mask, v), -2))))
    c = insert_axis(complex_(length, phase), -2)
    return diagonal(inner), add(u, mul(v, c))


def _schur_reference(
    a: np.ndarray, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any
) -> Any:
    return lapack.schur(a, compute_schur_vectors)


class Schur(Undifferentiated):
    """The Schur form T of A = Z T Zᴴ, then Z if asked for."""

    name = "schur"
    library = "gees: T, and the vectors if asked for, of A = Z T Z*"
    multiple_results = True

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        square(self.name, shapes[0])
        if params["sort_eig_vals"] and kind_of(dtype) & INEXACT:
            raise NotImplementedError("schur cannot sort eigenvalues: leave sort_eig_vals at False")
        return [(shapes[0], dtype)] * (1 + params["compute_schur_vectors"])

    ref = reference(_schur_reference)


class Hessenberg(Undifferentiated):
    """The upper Hessenberg form with its reflectors below, and their scale factors."""

    name = "hessenberg"
    library = "gehrd: H below its diagonal with reflectors, and their factors"
    multiple_results = True

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        n = square(self.name, shapes[0])
        if n == 0:
            raise ValueError("hessenberg needs matrices of size 1 or more, got 0")
        return [(shapes[0], dtype), ((n - 1,), dtype)]

    ref = reference(lapack.hessenberg)


class Tridiagonal(Undifferentiated):
    """Hermitian matrices made tridiagonal: packed form, diagonal, off-diagonal, scale factors."""

    name = "tridiagonal"
    library = "sytrd, hetrd: T with reflectors, its diagonals, and their factors"
    multiple_results = True
    instead = ": differentiate linalg.eigh instead"

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        n = square(self.name, shapes[0])
        if n == 0:
            raise ValueError("tridiagonal needs matrices of size 1 or more, got 0")
        narrow = real_dtype(dtype)
        return [(shapes[0], dtype), ((n,), narrow), ((n - 1,), narrow), ((n - 1,), dtype)]

    ref = reference(lapack.tridiagonal)


eigh_p = Eigh()
eig_p = Eig()
schur_p = Schur()
hessenberg_p = Hessenberg()
tridiagonal_p = Tridiagonal()
