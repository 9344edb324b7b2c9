"""Products of a matrix with its own adjoint: Cholesky factors, their updates, A Aᵀ itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.ad import Zero, add_tangents, instantiate
from weft.core.trace import typeof
from weft.lapack import stacks as lapack
from weft.prims.arithmetic import add, div, mul
from weft.prims.families import FLOAT, scalar
from weft.prims.linalg.elimination import rotated
from weft.prims.linalg.matrix import (
    MatrixPrimitive,
    Shape,
    eye,
    insert_axis,
    lift,
    matmul,
    mT,
    reference,
    square,
    tril,
)
from weft.prims.linalg.solve import triangular_solve


def factor_tangent(factor: Any, tangent: Any) -> Any:
    """The tangent of L, where L Lᴴ = A, from that of A.

    L' = L Φ(L⁻¹ A' L⁻ᴴ) where Φ keeps the lower triangle and halves the diagonal
    (Murray, "Differentiation of the Cholesky decomposition", 2016).
    """
    right = triangular_solve(factor, tangent, lower=True, transpose_a=True, conjugate_a=True)
    both = triangular_solve(factor, right, left_side=True, lower=True)
    lower = tril(both)
    dtype = typeof(lower).dtype
    halves = add(scalar(dtype, 1), eye(dtype, np.shape(lower)[-1]))
    return matmul(factor, div(lower, lift(halves, np.ndim(lower))))


class Cholesky(MatrixPrimitive):
    """The lower triangular L of A = L Lᴴ; reads A's lower triangle only."""

    name, cubes = "cholesky", 1 / 3
    library = "potrf: L of A = L L*, zeros above; NaN where A isn't positive definite"
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        square(self.name, shapes[0])
        return [(shapes[0], dtype)]

    ref = reference(lapack.cholesky)

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        factor = tril(self.bind(*primals))
        return factor, factor_tangent(factor, tangents[0])


def _rotated(r: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Rows of R and w turned against each other until w is zero."""
    r, w = r.copy(), w.copy()
    for k in range(w.shape[-1]):
        x, y = r[..., k, k], w[..., k]
        length = np.hypot(x, y)
        turned = y != 0
        cos = np.where(turned, x / np.where(turned, length, 1), 1)[..., None]
        sin = np.where(turned, y / np.where(turned, length, 1), 0)[..., None]
        row = r[..., k, :].copy()
        r[..., k, :] = cos * row + sin * w
        w = cos * w - sin * row
        w[..., k] = 0  # not the difference of two roundings
    return r


class CholeskyUpdate(MatrixPrimitive):
    """The upper triangular factor of Rᵀ R + w wᵀ from R and w."""

    name = "cholesky_update"
    ranks = (2, 1)
    accepts = FLOAT
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        r, w = shapes
        if r[0] != r[1] or w[0] != r[1]:
            raise ValueError(f"cholesky_update needs shapes (n, n) and (n,), got {r} and {w}")
        return [(r, dtype)]

    ref = reference(_rotated)

    def expands(self, avals: Any, params: Any) -> bool:
        return 0 not in avals[0].shape

    def decompose(self, r: Any, w: Any) -> Any:
        return rotated(r, w)

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        r, w = primals
        out = self.bind(r, w)
        r_dot, w_dot = map(instantiate, tangents)
        half = add(matmul(mT(r), r_dot), _outer(w, w_dot))
        return out, mT(factor_tangent(mT(out), add(half, mT(half))))


def _outer(x: Any, y: Any) -> Any:
    """The products x yᵀ of stacks of vectors."""
    return mul(insert_axis(x, -1), insert_axis(y, -2))


def _scaled_product(a: np.ndarray, c: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
    kind = a.dtype.type
    return kind(alpha) * (a @ a.swapaxes(-1, -2)) + kind(beta) * c


class SymmetricProduct(MatrixPrimitive):
    """alpha A Aᵀ + beta C."""

    name = "symmetric_product"
    ranks = (2, 2)
    accepts = FLOAT
    holes = {"transpose": "not linear in A; the part in C is scaled by other primitives"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        a, c = shapes
        if c[0] != c[1] or a[0] != c[0]:
            raise ValueError(f"symmetric_product needs shapes (m, n) and (m, m), got {a} and {c}")
        return [(c, dtype)]

    ref = reference(_scaled_product)

    def expands(self, avals: Any, params: Any) -> bool:
        return True

    def decompose(self, a: Any, c: Any, *, alpha: float, beta: float) -> Any:
        dtype = typeof(c).dtype
        product = mul(scalar(dtype, alpha), matmul(a, mT(a)))
        return add(product, mul(scalar(dtype, beta), c))

    def jvp(self, primals: Any, tangents: Any, *, alpha: float, beta: float) -> tuple[Any, Any]:
        a, c = primals
        a_dot, c_dot = tangents
        out = self.bind(a, c, alpha=alpha, beta=beta)
        dtype = typeof(out).dtype
        total: Any = Zero.from_primal(out)
        if type(a_dot) is not Zero:
            half = matmul(a_dot, mT(a))
            total = mul(scalar(dtype, alpha), add(half, mT(half)))
        if type(c_dot) is not Zero:
            total = add_tangents(total, mul(scalar(dtype, beta), c_dot))
        return out, total


cholesky_p = Cholesky()
cholesky_update_p = CholeskyUpdate()
symmetric_product_p = SymmetricProduct()
