"""Solves of general linear systems, differentiated through the equation and not the factors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weft.api.batching import vmap
from weft.api.jit import jit
from weft.core.trace import typeof
from weft.lax.elementwise import stop_gradient
from weft.lax.shape import broadcast_shapes
from weft.lax.solves import custom_linear_solve
from weft.prims.dot import dot_general_p
from weft.prims.linalg.lu import lu_p
from weft.prims.linalg.lu import lu_solve as solve_with_factors
from weft.prims.linalg.matrix import broadcast, broadcast_stack, insert_axis
from weft.prims.precision import Precision
from weft.prims.shape import squeeze_p


def check_solve_shapes(a: Any, b: Any) -> None:
    """Raise ValueError unless a is (..., m, m) and b (..., m) or (..., m, k)."""
    left, right = np.shape(a), np.shape(b)
    fits = len(left) >= 2 and len(right) in (len(left), len(left) - 1)
    if not fits or not left[-1] == left[-2] == right[len(left) - 2]:
        raise ValueError(
            "solve needs a of shape (..., m, m) and b of shape (..., m) or (..., m, k), got"
            f" {left} and {right}"
        )


def matvec(a: Any, x: Any) -> Any:
    """The products of stacks of matrices and vectors, whose stacks are broadcast."""
    stack = broadcast_shapes(np.shape(a)[:-2], np.shape(x)[:-1])
    a, x = broadcast_stack(a, stack, 2), broadcast_stack(x, stack, 1)
    axes = tuple(range(len(stack)))
    return dot_general_p.bind(
        a,
        x,
        dimension_numbers=(((np.ndim(a) - 1,), (np.ndim(x) - 1,)), (axes, axes)),
        precision=(Precision.HIGHEST, Precision.HIGHEST),
        preferred_element_type=None,
        out_sharding=None,
    )


def _lu_solve(packed: Any, permutation: Any, b: Any, trans: int) -> Any:
    if trans not in (0, 1, 2):
        raise ValueError(f"trans must be 0 (A), 1 (transposed) or 2 (adjoint), got {trans}")
    shape, right = np.shape(packed), np.shape(b)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"lu_solve needs square factors of shape (..., n, n), got {shape}")
    is_vector = len(shape) == len(right) + 1
    if not right or right[-1 if is_vector else -2] != shape[-1]:
        raise ValueError(
            f"lu_solve with factors of shape {shape} needs b of shape (..., {shape[-1]}) or"
            f" (..., {shape[-1]}, k), got {right}"
        )
    if is_vector:
        b = insert_axis(b, -1)
    stack = broadcast_shapes(shape[:-2], np.shape(permutation)[:-1], np.shape(b)[:-2])
    x = solve_with_factors(
        broadcast_stack(packed, stack, 2),
        broadcast_stack(permutation, stack, 1),
        broadcast_stack(b, stack, 2),
        trans,
    )
    return squeeze_p.bind(x, dimensions=(np.ndim(x) - 1,)) if is_vector else x


_staged_lu_solve = jit(_lu_solve, static_argnums=(3,))


def lu_solve(packed: Any, permutation: Any, b: Any, trans: int = 0) -> Any:
    """X of A X = B, Aᵀ X = B or Aᴴ X = B (``trans`` 0, 1, 2) from the LU factors of A."""
    return _staged_lu_solve(packed, permutation, b, trans)


def solve(a: Any, b: Any) -> Any:
    """X of A X = B; b is (..., m) or (..., m, k) with a stack that broadcasts to that of a."""
    check_solve_shapes(a, b)
    left, right = np.shape(a), np.shape(b)
    sizes = (*left[:-1], 1)
    whole = tuple(n if k == 1 else k for n, k in zip(sizes, right))
    b = broadcast(b, whole, range(len(whole)))
    packed, _, permutation = lu_p.bind(stop_gradient(a))
    solve_one = partial(
        custom_linear_solve,
        partial(matvec, a),
        solve=lambda _, x: lu_solve(packed, permutation, x, 0),
        transpose_solve=lambda _, x: lu_solve(packed, permutation, x, 1),
    )
    if len(left) == len(right) + 1:
        return solve_one(b)
    last = typeof(b).ndim - 1
    return vmap(solve_one, last, max(len(left), len(right)) - 1)(b)
