"""Solves that need no factorisation: triangular and tridiagonal systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.ad import Zero, add_tangents, instantiate, is_undef
from weft.core.batching import AxisData, all_at_front, moveaxis
from weft.core.primitive import divisions
from weft.core.trace import typeof
from weft.division.factors import Factors, labelled
from weft.lapack import stacks as lapack
from weft.prims.arithmetic import add, conj, mul, neg
from weft.prims.linalg.elimination import tridiagonal_elimination
from weft.prims.linalg.matrix import (
    MatrixPrimitive,
    Shape,
    columns,
    concatenate,
    full,
    insert_axis,
    is_complex,
    matmul,
    mT,
    reference,
    rows,
    square,
    tril,
    triu,
)
from weft.prims.shape import reshape


class TriangularSolve(MatrixPrimitive):
    """X of op(A) X = B, or of X op(A) = B, where one triangle of A is read."""

    name = "triangular_solve"
    library = "trsm: X of A X = B or X A = B, A triangular"
    masks = "apart"
    ranks = (2, 2)

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        return outs[0].size * avals[0].shape[-1]

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        """Systems of the stack, and right-hand sides: each device solves its own."""
        stack = list(range(len(avals[0].shape) - 2))
        sides = [*stack, None, "sides"] if params["left_side"] else [*stack, "sides", None]
        return labelled([[*stack, None, None], sides], [sides], avals, outs)

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        return [divisions.solved(specs, avals, params["left_side"], params["transpose_a"])]

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        a, b = shapes
        square(self.name, a)
        left_side = params["left_side"]
        if a[0] != b[0 if left_side else 1]:
            wanted = f"({a[0]}, k)" if left_side else f"(k, {a[0]})"
            raise ValueError(
                f"triangular_solve with left_side={left_side} and a of shape {a} needs b of shape"
                f" {wanted}, got {b}"
            )
        return [(b, dtype)]

    ref = reference(lapack.triangular_solve)

    def d0(self, g: Any, out: Any, a: Any, b: Any, **params: Any) -> Any:
        """-A⁻¹ A' X, the product and the solve in the cheaper order."""
        skip = 1 if params["unit_diagonal"] else 0
        g = neg(tril(g, -skip) if params["lower"] else triu(g, skip))
        g = mT(g) if params["transpose_a"] else g
        g = conj(g) if params["conjugate_a"] else g
        m, n = np.shape(out)[-2:]
        if params["left_side"]:
            if m > n:
                return self.bind(a, matmul(g, out), **params)
            return matmul(self.bind(a, g, **params), out)
        if m < n:
            return self.bind(a, matmul(out, g), **params)
        return matmul(out, self.bind(a, g, **params))

    def d1(self, g: Any, out: Any, a: Any, b: Any, **params: Any) -> Any:
        return self.bind(a, g, **params)

    def transpose(self, ct: Any, a: Any, b: Any, **params: Any) -> list[Any]:
        if type(ct) is Zero:
            return [None, Zero(b.aval.to_cotangent_aval())]
        turned = {**params, "transpose_a": not params["transpose_a"]}
        return [None, self.bind(a, ct, **turned)]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        a, b = args
        if dims[0] is not None:
            return self.bind(*all_at_front(axis, args, dims), **params), 0
        # One matrix for the whole batch: its right-hand sides are put side by side.
        ndim = np.ndim(b)
        place = ndim - 1 if params["left_side"] else ndim - 2
        moved = moveaxis(b, dims[1], place)
        shape = np.shape(moved)
        if params["left_side"]:
            flat = (*shape[:-2], shape[-2] * shape[-1])
        else:
            flat = (*shape[:-3], shape[-3] * shape[-2], shape[-1])
        return reshape(self.bind(a, reshape(moved, flat), **params), shape), place


triangular_solve_p = TriangularSolve()


def triangular_solve(
    a: Any,
    b: Any,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """``triangular_solve_p`` with its usual flags."""
    return triangular_solve_p.bind(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a and is_complex(a),
        unit_diagonal=unit_diagonal,
    )


def _perturbed_solve(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elimination with row swaps; pivots below eps max|U| are moved up to that size.

    Row i of U holds its diagonal and two entries right of it, as in LAPACK's gttrf and lagts.
    """
    n = d.shape[-1]
    tiny, eps = np.finfo(d.dtype).tiny, np.finfo(d.dtype).eps
    below = dl[..., 1:]
    u0, x = d.copy(), b.copy()
    u1 = du.copy()
    u1[..., n - 1 :] = 0
    u2 = np.zeros_like(d)
    for i in range(n - 1):
        lower = below[..., i]
        swap = np.abs(lower) > np.abs(u0[..., i])
        pivot = np.where(swap, lower, u0[..., i])
        other = np.where(swap, u0[..., i], lower)
        first, second = np.where(swap, u0[..., i + 1], u1[..., i]), u1[..., i + 1]
        factor = other / np.where(pivot == 0, 1, pivot)
        left = np.where(swap, u1[..., i], u0[..., i + 1])
        u0[..., i], u2[..., i] = pivot, np.where(swap, second, 0)
        u1[..., i] = first
        u0[..., i + 1] = left - factor * first
        u1[..., i + 1] = np.where(swap, -factor * second, second)
        top, next_ = x[..., i, :].copy(), x[..., i + 1, :].copy()
        chosen = swap[..., None]
        x[..., i, :] = np.where(chosen, next_, top)
        x[..., i + 1, :] = np.where(chosen, top, next_) - factor[..., None] * x[..., i, :]
    largest = np.max([np.abs(u).max(-1, initial=0) for u in (u0, u1, u2)], axis=0)
    least = np.maximum(eps * largest, tiny)[..., None]
    size = np.abs(u0)
    direction = np.where(size == 0, 1, u0 / np.where(size == 0, 1, size))
    u0 = np.where(size < least, direction * least, u0).astype(d.dtype)
    for i in reversed(range(n)):
        if i + 1 < n:
            x[..., i, :] -= u1[..., i, None] * x[..., i + 1, :]
        if i + 2 < n:
            x[..., i, :] -= u2[..., i, None] * x[..., i + 2, :]
        x[..., i, :] /= u0[..., i, None]
    return x


def _tridiagonal_reference(*args: np.ndarray, perturb_singular: bool) -> np.ndarray:
    return _perturbed_solve(*args) if perturb_singular else lapack.tridiagonal_solve(*args)


def tridiagonal_product(dl: Any, d: Any, du: Any, x: Any) -> Any:
    """A x for the tridiagonal A; dl[..., 0] and du[..., -1] are not read."""
    n, k = np.shape(x)[-2:]
    out = mul(insert_axis(d, -1), x)
    if n < 2:
        return out
    below = mul(insert_axis(columns(dl, 1, n), -1), rows(x, 0, n - 1))
    above = mul(insert_axis(columns(du, 0, n - 1), -1), rows(x, 1, n))
    row = full((*np.shape(x)[:-2], 1, k), typeof(x).dtype, 0)
    return add(add(out, concatenate([row, below], -2)), concatenate([above, row], -2))


class TridiagonalSolve(MatrixPrimitive):
    """X of A X = B for tridiagonal A given by its three diagonals."""

    name = "tridiagonal_solve"
    library = "gtsv: X of A X = B, A given by three diagonals"
    masks = "apart"
    ranks = (1, 1, 1, 2)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        """Systems of the stack, and right-hand sides: each device solves its own."""
        stack = list(range(len(avals[0].shape) - 1))
        sides = [*stack, None, "sides"]
        return labelled([[*stack, None]] * 3 + [sides], [sides], avals, outs)

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        dl, d, du, b = shapes
        if not dl == d == du == b[:1]:
            raise TypeError(
                "tridiagonal_solve needs three diagonals of shape (..., n) and b of shape"
                f" (..., n, k), got {dl}, {d}, {du} and {b}"
            )
        return [(b, dtype)]

    ref = reference(_tridiagonal_reference)

    def expands(self, avals: Any, params: Any) -> bool:
        return params["perturb_singular"] and all(0 not in a.shape for a in avals)

    def decompose(self, *args: Any, perturb_singular: bool) -> Any:
        return tridiagonal_elimination(*args)

    def jvp(self, primals: Any, tangents: Any, *, perturb_singular: bool) -> tuple[Any, Any]:
        *diagonals, _ = primals
        *diagonal_dots, rhs = tangents
        out = self.bind(*primals, perturb_singular=perturb_singular)
        if not all(type(t) is Zero for t in diagonal_dots):
            below, middle, above = map(instantiate, diagonal_dots)
            moved = tridiagonal_product(below, middle, above, out)
            rhs = add_tangents(rhs, neg(moved))
        return out, self.bind(*diagonals, rhs, perturb_singular=perturb_singular)

    def transpose(self, ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> list[Any]:
        if type(ct) is Zero:
            return [None, None, None, Zero(b.aval.to_cotangent_aval())]
        assert is_undef(b)
        n = np.shape(d)[-1]
        zero = full((*np.shape(d)[:-1], 1), typeof(d).dtype, 0)
        below = concatenate([zero, columns(du, 0, n - 1)], -1)
        above = concatenate([columns(dl, 1, n), zero], -1)
        return [None, None, None, self.bind(below, d, above, ct, **params)]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        *diagonals, b = args
        if any(dim is not None for dim in dims[:3]):
            return self.bind(*all_at_front(axis, args, dims), **params), 0
        place = np.ndim(b) - 2
        moved = moveaxis(b, dims[3], place)
        shape = np.shape(moved)
        flat = (*shape[:-2], shape[-2] * shape[-1])
        return reshape(self.bind(*diagonals, reshape(moved, flat), **params), shape), place


tridiagonal_solve_p = TridiagonalSolve()
