"""Eigenvalues and linear systems of sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import dtypes, lax
from weft import numpy as jnp
from weft.api.jit import jit
from weft.experimental.sparse.base import JAXSparse, SparseOperation
from weft.experimental.sparse.rows import csr_todense_p
from weft.numpy.promotion import mixes_inside

__all__ = ["lobpcg_standard", "spsolve", "spsolve_p"]


@mixes_inside
def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: float | None = None) -> tuple[Any, Any, Any]:
    """Return the largest eigenvalues of a symmetric matrix, and their eigenvectors.

    ``A`` is a matrix, dense or sparse, or a function that multiplies it with columns; ``X`` has a
    column to begin with for each eigenvalue that is sought, less than a fifth as many as rows. It
    ends when every residual |Av - λv| is below ``10 tol n (λ + |Av|)``, or after ``m`` rounds.

    Reference: A. Knyazev, Toward the optimal preconditioned eigensolver: LOBPCG, SIAM J. Sci.
    Comput. 23 (2001). The basis of search directions is orthonormalised in every round, as in
    J. Duersch et al., A robust and efficient implementation of LOBPCG, 40 (2018).

    Args:
        A: a matrix, dense or sparse, or a function that multiplies columns by it.
        X: a start vector as a column for each eigenvalue, less than a fifth as many as rows.
        m: the largest number of rounds.
        tol: stop when every residual |Av - λv| is below ``10 tol n (λ + |Av|)``. By default the
            dtype's precision.

    Returns:
        Three arrays: the eigenvalues in descending order, the eigenvectors as columns, and the
        rounds.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import random
        >>> from weft.experimental import sparse
        >>> from weft.experimental.sparse.linalg import lobpcg_standard
        >>> mat = sparse.BCOO.fromdense(jnp.diag(jnp.arange(20.0)))
        >>> lobpcg_standard(mat, random.normal(random.key(0), (20, 2)))[0].round(2)
        Array([19., 18.], dtype=float32)
    """
    X = jnp.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X needs one column per eigenvalue, got shape {X.shape}")
    n, k = X.shape
    if not 0 < 5 * k < n:
        raise ValueError(
            f"{k} eigenvalues of a matrix of {n} rows: there may be 1 to {(n - 1) // 5}"
        )
    if callable(A) and not isinstance(A, JAXSparse):
        times: Callable[[Any], Any] = A
    else:
        matrix = A if isinstance(A, JAXSparse) else jnp.asarray(A)
        times = lambda x: matrix @ x
    out = jit(times).eval_shape(X)
    if out.shape != (n, k) or out.dtype != X.dtype:
        raise ValueError(
            f"A must take columns of X to columns: {X.dtype}{X.shape} became {out.dtype}{out.shape}"
        )
    tol = float(dtypes.finfo(X.dtype).eps) if tol is None else tol
    X = jnp.linalg.qr(X)[0]
    theta, X = _best(times, X, k)

    def residual(theta: Any, X: Any) -> Any:
        AX = times(X)
        R = AX - X * theta[None]
        bound = 10 * tol * n * (jnp.abs(theta) + jnp.linalg.norm(AX, axis=0))
        return R, (jnp.linalg.norm(R, axis=0) > bound).any()

    def going_on(state: Any) -> Any:
        i, _, _, _, _, open_ = state
        return (i < m) & open_

    def round_(state: Any) -> Any:
        i, theta, X, P, R, _ = state
        basis = jnp.linalg.qr(jnp.concatenate([X, _away(R, X), _away(P, X)], 1))[0]
        theta, new = _best(times, basis, k)
        # the next direction is what is new in the step
        return i + 1, theta, new, _away(new, X), *residual(theta, new)

    first = (jnp.array(0), theta, X, jnp.zeros_like(X), *residual(theta, X))
    i, theta, X, *_ = lax.while_loop(going_on, round_, first)
    return theta, X, i


def _best(times: Callable[[Any], Any], basis: Any, k: int) -> tuple[Any, Any]:
    """The largest eigenvalues, and vectors, of the matrix within an orthonormal basis."""
    small = basis.T.conj() @ times(basis)
    values, vectors = jnp.linalg.eigh((small + small.T.conj()) / 2)
    return values[::-1][:k], basis @ vectors[:, ::-1][:, :k]


def _away(Y: Any, X: Any) -> Any:
    """Columns of ``Y`` without their part in the span of orthonormal ``X``, of length 1."""
    Y = Y - X @ (X.T.conj() @ Y)
    norm = jnp.linalg.norm(Y, axis=0, keepdims=True)
    return Y / jnp.where(norm == 0, 1, norm)


@SparseOperation
def spsolve_p(data: Any, indices: Any, indptr: Any, b: Any, *, tol: float, reorder: int) -> Any:
    """The solution of a linear system."""
    n = indptr.shape[0] - 1
    (dense,) = csr_todense_p.call(data, indices, indptr, shape=(n, n))
    return [jnp.linalg.solve(dense, b)]


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Any:
    """Return the solution x of A x = b for a square matrix in the form of CSR.

    It is found by an LU decomposition of the dense matrix, so memory grows with the square of its
    size. It can be differentiated and batched.

    Args:
        data: the elements.
        indices: their columns.
        indptr: where each row begins and ends.
        b: the right side, a vector.
        tol: accepted for JAX, no effect.
        reorder: accepted for JAX, no effect.

    Returns:
        The solution, a vector.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> from weft.experimental.sparse.linalg import spsolve
        >>> mat = sparse.CSR.fromdense(jnp.array([[2., 0.], [1., 4.]]))
        >>> spsolve(mat.data, mat.indices, mat.indptr, jnp.array([2., 9.]))
        Array([1., 2.], dtype=float32)
    """
    buffers = map(jnp.asarray, (data, indices, indptr, b))
    return spsolve_p.call(*buffers, tol=float(tol), reorder=int(reorder))[0]
