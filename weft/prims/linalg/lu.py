"""LU decomposition with row swaps, and solves of general systems by it."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.ad import Zero
from weft.core.dims.dim import min_dim
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.lapack import stacks as lapack
from weft.prims.arithmetic import add
from weft.prims.families import INT
from weft.prims.linalg.matrix import (
    INT32,
    MatrixPrimitive,
    Shape,
    columns,
    concatenate,
    eye,
    full,
    iota,
    lift,
    matmul,
    reference,
    rows,
    take_rows,
    tril,
    triu,
)
from weft.prims.linalg.solve import triangular_solve


def _factors(packed: Any) -> tuple[Any, Any]:
    """Square L and U of a packed m by n matrix, completed by the identity."""
    *stack, m, n = np.shape(packed)
    k = min(m, n)
    dtype = typeof(packed).dtype
    lower = tril(columns(packed, 0, k), -1)
    upper = triu(rows(packed, 0, k))
    if m > k:
        lower = concatenate([lower, full((*stack, m, m - k), dtype, 0)], -1)
    lower = add(lower, lift(eye(dtype, m), np.ndim(lower)))
    if n > k:
        corner = concatenate([full((n - k, k), dtype, 0), eye(dtype, n - k)], -1)
        corner = lift(corner, len(stack) + 2)
        zeros = full((*stack, n - k, n), dtype, 0)
        upper = concatenate([upper, add(zeros, corner)], -2)
    return lower, upper


class LU(MatrixPrimitive):
    """P A = L U packed in one matrix, the row swaps, and the permutation they make."""

    name, cubes = "lu", 2 / 3
    library = "getrf: L and U packed, row swaps from 0, and the permutation they make"
    multiple_results = True
    holes = {"transpose": "not linear"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        m, n = shapes[0]
        return [((m, n), dtype), ((min_dim(m, n),), INT32), ((m,), INT32)]

    ref = reference(lapack.lu)

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        """L' = L tril(M, -1) and U' = triu(M) U, where M = L⁻¹ P A' U⁻¹.

        De Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using triangular
        factorization", 2011.
        """
        packed, pivots, permutation = out = self.bind(*primals)
        lower, upper = _factors(packed)
        moved = take_rows(tangents[0], permutation)
        inner = triangular_solve(lower, moved, left_side=True, lower=True, unit_diagonal=True)
        inner = triangular_solve(upper, inner)
        tangent = add(matmul(lower, tril(inner, -1)), matmul(triu(inner), upper))
        return out, [tangent, Zero.from_primal(pivots), Zero.from_primal(permutation)]


class PivotsToPermutation(MatrixPrimitive):
    """The permutation that a sequence of row swaps makes."""

    name = "lu_pivots_to_permutation"
    kernels = "permutations.of_pivots"
    ranks = (1,)
    accepts = INT
    holes = {"transpose": "its operands are integers"}

    def cores(self, dtype: Any, *shapes: Shape, **params: Any) -> list[tuple[Shape, Any]]:
        size, count = params["permutation_size"], shapes[0][0]
        if size < count:
            raise ValueError(
                f"a permutation of {size} rows cannot hold {count} swaps:"
                " permutation_size must be at least the number of pivots"
            )
        if dtype != INT32:
            raise TypeError(f"lu_pivots_to_permutation takes int32 pivots, got {dtype}")
        return [((size,), dtype)]

    @staticmethod
    def ref(pivots: np.ndarray, *, permutation_size: int) -> np.ndarray:
        return lapack.pivots_to_permutation(pivots, permutation_size)


lu_p = LU()
lu_pivots_to_permutation_p = PivotsToPermutation()


def lu_solve(packed: Any, permutation: Any, b: Any, trans: int = 0) -> Any:
    """X of A X = B, Aᵀ X = B or Aᴴ X = B (``trans`` 0, 1, 2) from A's factors; equal stacks."""
    if trans == 0:
        x = take_rows(b, permutation)
        x = triangular_solve(packed, x, left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(packed, x, left_side=True)
    conjugate = trans == 2
    x = triangular_solve(packed, b, left_side=True, transpose_a=True, conjugate_a=conjugate)
    x = triangular_solve(
        packed,
        x,
        left_side=True,
        lower=True,
        transpose_a=True,
        conjugate_a=conjugate,
        unit_diagonal=True,
    )
    return take_rows(x, inverse_permutation(permutation))


def inverse_permutation(permutation: Any) -> Any:
    """The permutation that undoes another, along the last axis."""
    shape = np.shape(permutation)
    last = len(shape) - 1
    places = iota(shape, last)
    sort = lookup("sort")
    return sort.bind(permutation, places, dimension=last, is_stable=True, num_keys=1)[1]


def solve(a: Any, b: Any) -> Any:
    """X of A X = B for square A; equal stacks."""
    packed, _, permutation = lu_p.bind(a)
    return lu_solve(packed, permutation, b)
