"""Eigenvalues, roots of matrices and least squares, as optimisers need them."""

from __future__ import annotations

from typing import Any

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.extend.source_info_util import warn
from weft.optim import tree

HIGHEST = lax.Precision.HIGHEST


def global_norm(updates: Any) -> weft.Array:
    """Return the norm of all leaves together; the older name of ``optim.tree.norm``.

    Args:
        updates: a tree of arrays.

    Returns:
        A scalar.

    Example:
        >>> import warnings, weft.numpy as jnp, weft.optim as optim
        >>> with warnings.catch_warnings(action="ignore"):
        ...     print(optim.global_norm({"w": jnp.array([3.0]), "b": jnp.array([4.0])}))
        5.0
    """
    warn("global_norm is deprecated, use optim.tree.norm", DeprecationWarning)
    return tree.norm(updates)


def power_iteration(
    matrix: Any,
    *,
    v0: Any = None,
    num_iters: int = 100,
    error_tolerance: float = 1e-6,
    precision: Any = HIGHEST,
    key: Any = None,
) -> tuple[weft.Array, Any]:
    """Return the eigenvalue of largest magnitude and its vector, of a matrix or a linear function.

    Args:
        matrix: a square matrix, or a function that multiplies a vector (or tree) by one.
        v0: the vector to start from. A function needs it; for a matrix it is random by default.
        num_iters: the largest number of iterations.
        error_tolerance: stop when the residual, relative to the eigenvalue, is below this.
        precision: the precision of the matrix products, as in ``lax.dot``.
        key: the key of the random start.

    Returns:
        A pair: the eigenvalue, and the eigenvector of norm 1.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> value, vector = optim.power_iteration(jnp.diag(jnp.array([3.0, 1.0])))
        >>> round(float(value), 4)
        3.0
    """
    if callable(matrix):
        if v0 is None:
            raise ValueError("power_iteration: a function needs v0, a vector to start from")
        multiply = matrix
    else:
        multiply = lambda v: jnp.matmul(matrix, v, precision=precision)
        if v0 is None:
            key = weft.random.PRNGKey(0) if key is None else key
            v0 = weft.random.uniform(key, matrix.shape[-1:], matrix.dtype, -1.0, 1.0)

    def unit(v):
        return tree.scale(1.0 / tree.norm(v), v)

    def goes_on(state):
        vector, product, value, count = state
        residual = tree.norm(tree.sub(product, tree.scale(value, vector)))
        return ~(jnp.abs(residual / value) < error_tolerance) & (count < num_iters)

    def step(state):
        vector = unit(state[1])
        product = multiply(vector)
        return vector, product, tree.vdot(vector, product), state[3] + 1

    v0 = unit(v0)
    product = multiply(v0)
    zero = jnp.zeros_like(tree.vdot(v0, product))
    state = lax.while_loop(goes_on, step, (v0, product, zero, jnp.asarray(0)))
    return state[2], unit(state[1])


def matrix_inverse_pth_root(
    matrix: Any,
    p: int,
    num_iters: int = 100,
    ridge_epsilon: float = 1e-6,
    error_tolerance: float = 1e-6,
    precision: Any = HIGHEST,
) -> tuple[weft.Array, weft.Array]:
    """Return ``matrix ** (-1 / p)`` of a positive semidefinite matrix.

    The method is the coupled Newton iteration of Guo and Higham (2006), equation 3.2.

    Args:
        matrix: the matrix, of shape (n, n).
        p: the root, a power of two up to 8.
        num_iters: the largest number of iterations.
        ridge_epsilon: a multiple of the identity that is added first, relative to the largest
            eigenvalue.
        error_tolerance: stop when the error is below this.
        precision: the precision of the matrix products, as in ``lax.dot``.

    Returns:
        A pair: the root, and the error that is left.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> root, error = optim.matrix_inverse_pth_root(jnp.diag(jnp.array([4.0, 16.0])), 2)
        >>> root.round(3)
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    size = matrix.shape[0]
    alpha = jnp.asarray(-1.0 / p, jnp.float32)
    eye = jnp.eye(size, dtype=jnp.float32)
    largest, _ = power_iteration(matrix, precision=precision)
    ridge = ridge_epsilon * jnp.maximum(largest, 1e-16)
    if size == 1:
        return (matrix + ridge) ** alpha, 0

    def multiply(a, b):
        return jnp.matmul(a, b, precision=precision)

    def square(a):
        return multiply(a, a)

    def power(a):
        branches = [
            lambda a: a,
            square,
            lambda a: square(square(a)),
            lambda a: square(square(square(a))),
        ]
        return lax.switch(jnp.asarray(jnp.round(jnp.log2(p)), jnp.int32), branches[:4], a)

    def goes_on(state):
        count, _, _, _, error, falls = state
        return (count < num_iters) & (error > error_tolerance) & falls

    def step(state):
        count, m, h, _, error, _ = state
        factor = (1 - alpha) * eye + alpha * m
        new_m, new_h = multiply(power(factor), m), multiply(h, factor)
        new_error = jnp.max(jnp.abs(new_m - eye))
        return count + 1, new_m, new_h, h, new_error, new_error < error * 1.2

    damped = matrix + ridge * eye
    z = (1 + p) / (2 * jnp.linalg.norm(damped))
    m, h = damped * z, eye * jnp.power(z, 1.0 / p)
    first = (jnp.asarray(0), m, h, h, jnp.max(jnp.abs(m - eye)), jnp.asarray(True))
    _, m, h, before, _, converged = lax.while_loop(goes_on, step, first)
    root = jnp.where(converged, h, before)
    return root.astype(matrix.dtype), jnp.max(jnp.abs(m - eye))


def nnls(
    A: weft.Array, b: weft.Array, iters: int, unroll: int | bool = 1, L: Any = None
) -> weft.Array:
    """Return the x >= 0 that makes ‖A x - b‖ small, by accelerated projected gradient steps.

    Args:
        A: the matrix, of shape (m, n).
        b: the right side, of shape (m,) or (m, k).
        iters: the number of steps.
        unroll: how many steps of the loop to unroll, as in ``lax.scan``.
        L: a bound of the largest eigenvalue of AᵀA; computed from ``A`` by default.

    Returns:
        The solution, of shape (n,) or (n, k).

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.nnls(jnp.eye(2), jnp.array([1.0, -1.0]), iters=50).round(3)
        Array([1., 0.], dtype=float32)
    """
    if A.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != A.shape[0]:
        raise ValueError(
            "nnls takes a matrix A and a vector or matrix b with as many rows, got the shapes "
            f"{A.shape} and {b.shape}"
        )
    gram, target = A.mT @ A, A.mT @ b
    if L is None:
        one_norm = jnp.linalg.matrix_norm(gram, ord=1) if gram.size else 0
        L = jnp.minimum(jnp.linalg.matrix_norm(gram, ord="fro"), one_norm)
    L = jnp.where(L == 0, 1, L)

    def step(state, _):
        x, ahead, c = state
        new_c = (1 + jnp.sqrt(1 + 4 * c**2)) / 2
        new_x = jnp.clip(ahead - (gram @ ahead - target) / L, 0)
        return (new_x, new_x + (c - 1) / new_c * (new_x - x), new_c), None

    x = jnp.zeros((A.shape[-1], *b.shape[1:]), b.dtype)
    zero = jnp.zeros((), b.dtype)
    return lax.scan(step, (x, x, zero), length=iters, unroll=unroll)[0][0]
