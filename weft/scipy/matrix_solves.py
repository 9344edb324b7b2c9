"""Decompositions and solves with SciPy's names and conventions.

Arguments that tell SciPy it may overwrite or need not check its input are taken and not read.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.api.batching import vmap
from weft.api.jit import jit
from weft.base.source import warn
from weft.core.array import Array
from weft.core.dims.dim import min_dim
from weft.lax import linear_solve
from weft.lax.solves import custom_linear_solve
from weft.numpy.promotion import (
    check_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    unwrapped,
)
from weft.numpy.stacks import over_stacks
from weft.prims.linalg.matrix import broadcast_stack, eye, matmul, mH, symmetrize
from weft.prims.linalg.qr import geqp3_p, geqrf_p


def _inexact(*args: Any) -> list[Any]:
    return promote_dtypes_inexact(*map(jnp.asarray, args))


def _right_rank(name: str, a: Array, b: Array) -> int:
    """1 if b is a vector (or, as was once the rule, a stack of vectors), 2 if matrices."""
    if b.ndim == 1:
        return 1
    if a.ndim == b.ndim + 1 and a.shape[-1] == b.shape[-1]:
        warn(
            f"{name} with a stack of vectors as b of shape {b.shape} will be treated as matrices; "
            "write"
            f" {name}(a, b[..., None]).squeeze(-1)",
            FutureWarning,
        )
        return 1
    return 2


# --- Cholesky -------------------------------------------------------------------------------------


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Return the upper triangular U of A = Uᴴ U, or with ``lower`` the L of A = L Lᴴ.

    Args:
        a: Hermitian positive definite matrices, of shape (..., n, n).
        lower: return the lower triangular factor.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The factors, of the shape of ``a``; NaN where a matrix is not positive definite.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
        Array([[2., 1.],
               [0., 2.]], dtype=float32)
    """
    return _cholesky(a, lower)


@jit(static_argnums=(1,))
def _cholesky(a: Any, lower: bool) -> Array:
    (a,) = _inexact(a)
    if a.ndim < 2:
        error = TypeError if lower else ValueError
        raise error(f"cholesky needs matrices of shape (..., n, n), got {a.shape}")
    factor = lax.linalg.cholesky(a if lower else mH(a), symmetrize_input=False)
    return factor if lower else mH(factor)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Return the Cholesky factor for ``cho_solve``, and which triangle it is.

    Args:
        a: Hermitian positive definite matrices, of shape (..., n, n).
        lower: return the lower triangular factor.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        A pair of the factor and ``lower``, for ``cho_solve``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.cho_factor(jnp.array([[4.]]))
        (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower=lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """Return the X of A X = B, from the Cholesky factor of A.

    Args:
        c_and_lower: the pair that ``cho_factor(A)`` returns.
        b: the right side, of shape (..., n) or (..., n, k).
        overwrite_b: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The solution, of the shape of ``b``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.cho_solve(linalg.cho_factor(jnp.array([[4.]])), jnp.array([8.]))
        Array([2.], dtype=float32)
    """
    factor, lower = c_and_lower
    return _cho_solve(factor, b, bool(lower))


@jit(static_argnums=(2,))
def _cho_solve(factor: Any, b: Any, lower: bool) -> Array:
    factor, b = _inexact(factor, b)

    def fun(factor: Array, b: Array) -> Array:
        side = partial(lax.linalg.triangular_solve, factor, left_side=True, lower=lower)
        x = side(b, transpose_a=not lower, conjugate_a=not lower)
        return side(x, transpose_a=lower, conjugate_a=lower)

    return over_stacks(fun, (2, _right_rank("cho_solve", factor, b)))(factor, b)


# --- LU -------------------------------------------------------------------------------------------


@jit
def _lu_factor(a: Any) -> tuple[Array, Array]:
    (a,) = _inexact(a)
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Return L and U in one matrix, and the row swaps, for ``lu_solve``.

    Args:
        a: matrices of shape (..., m, n).
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        A pair: the matrix with U in its upper triangle and L below it, and for each row the row
        that it was swapped with.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.lu_factor(jnp.array([[0., 1.], [2., 0.]]))[1]
        Array([1, 1], dtype=int32)
    """
    return _lu_factor(a)


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Return the X of A X = B, Aᵀ X = B or Aᴴ X = B, from ``lu_factor(A)``.

    Args:
        lu_and_piv: the pair that ``lu_factor(A)`` returns.
        b: the right side, of shape (..., n) or (..., n, k).
        trans: 0 for A, 1 for its transpose, 2 for its adjoint.
        overwrite_b: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The solution, of the shape of ``b``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.lu_solve(linalg.lu_factor(jnp.array([[0., 1.], [2., 0.]])), jnp.array([3., 8.]))
        Array([4., 3.], dtype=float32)
    """
    packed, pivots = lu_and_piv
    if np.ndim(packed) < 2:
        raise ValueError(f"lu_solve needs factors of shape (..., n, n), got {np.shape(packed)}")
    return _lu_solve(packed, pivots, b, trans)


@jit(static_argnums=(3,))
def _lu_solve(packed: Any, pivots: Any, b: Any, trans: int) -> Array:
    packed, b = _inexact(packed, b)
    permutation = lax.linalg.lu_pivots_to_permutation(pivots, packed.shape[-2])
    fun = partial(linear_solve.lu_solve, trans=trans)
    return over_stacks(fun, (2, 1, _right_rank("lu_solve", packed, b)))(packed, permutation, b)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """Return P, L and U of A = P L U.

    Args:
        a: matrices of shape (..., m, n).
        permute_l: return the product P L instead of P and L.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The tuple (P, L, U); with ``permute_l`` (P L, U).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> p, l, u = linalg.lu(jnp.array([[0., 1.], [2., 0.]]))
        >>> u
        Array([[2., 0.],
               [0., 1.]], dtype=float32)
    """
    return _lu(a, permute_l)


@jit(static_argnums=(1,))
def _lu(a: Any, permute_l: bool) -> tuple[Array, ...]:
    (a,) = _inexact(a)
    packed, _, permutation = lax.linalg.lu(a)
    m, n = a.shape[-2:]
    k = min_dim(m, n)
    places = jnp.arange(m, dtype=permutation.dtype)
    p = (permutation[..., None, :] == places[:, None]).astype(a.real.dtype)
    lower = jnp.tril(packed, -1)[..., :k] + eye(a.dtype, m, k)
    upper = jnp.triu(packed)[..., :k, :]
    return (matmul(p.astype(a.dtype), lower), upper) if permute_l else (p, lower, upper)


# --- QR -------------------------------------------------------------------------------------------


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Return Q and R of A = Q R.

    Args:
        a: matrices of shape (..., m, n).
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        lwork: accepted for SciPy, no effect.
        mode: ``'full'`` (square Q), ``'economic'`` (Q of shape (m, min(m, n))) or ``'r'`` (without
            Q).
        pivoting: reorder the columns so that the diagonal of R decreases in size.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The tuple (Q, R), or (R,) for ``'r'``; with ``pivoting`` also the column order p of A[:, p]
        = Q R.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.qr(jnp.array([[3.], [4.]]), mode="economic")[1]
        Array([[-5.]], dtype=float32)
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"mode must be 'full', 'economic' or 'r', got {mode!r}")
    return _qr(a, mode, pivoting)


@jit(static_argnums=(1, 2))
def _qr(a: Any, mode: str, pivoting: bool) -> tuple[Array, ...]:
    (a,) = _inexact(a)
    results = lax.linalg.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return results[1:] if mode == "r" else results


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """Return C Q or Q C, and R of A = Q R, without making Q.

    Args:
        a: a matrix of shape (m, n).
        c: the matrix or vector to multiply Q by.
        mode: ``'right'`` for C Q, ``'left'`` for Q C.
        pivoting: reorder the columns of A, and return their order too.
        conjugate: use the conjugate of Q.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        overwrite_c: accepted for SciPy, no effect: arrays are immutable.

    Returns:
        The tuple (product, R); with ``pivoting`` also the column order.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.qr_multiply(jnp.array([[3.], [4.]]), jnp.array([3., 4.]))[0].round(4)
        Array([-5.], dtype=float32)
    """
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    return _qr_multiply(a, c, mode, pivoting, conjugate)


@jit(static_argnums=(2, 3, 4))
def _qr_multiply(a: Any, c: Any, mode: str, pivoting: bool, conjugate: bool) -> tuple[Array, ...]:
    a, c = _inexact(a, c)
    is_vector = c.ndim == 1
    if is_vector:
        c = c[:, None] if mode == "left" else c[None, :]
    m, n = a.shape[-2:]
    k = min(m, n)
    have, want = (c.shape[-2], k) if mode == "left" else (c.shape[-1], m)
    if have != want:
        raise ValueError(
            f"qr_multiply with mode={mode!r} and a of shape {a.shape} needs c with {want}"
            f" {'rows' if mode == 'left' else 'columns'}, got shape {c.shape}"
        )
    stack = jnp.broadcast_shapes(a.shape[:-2], c.shape[:-2])
    a, c = (broadcast_stack(x, stack, 2) for x in (a, c))
    order: tuple[Array, ...] = ()
    if pivoting:
        free = jnp.zeros((*stack, n), np.int32)
        packed, places, taus = geqp3_p.bind(a, free, use_magma=None)
        order = (places - 1,)
    else:
        packed, taus = geqrf_p.bind(a)
    if mode == "left" and m > n:
        zeros = jnp.zeros((*stack, m - k, c.shape[-1]), c.dtype)
        c = jnp.concatenate([c, zeros], axis=-2)
    # The conjugate of Q times C is the transpose of Cᵀ Qᴴ.
    left = mode == "left"
    if conjugate:
        product = lax.linalg.ormqr(packed, taus, c.mT, left=not left, transpose=True).mT
    else:
        product = lax.linalg.ormqr(packed, taus, c, left=left)
    if mode == "right":
        product = product[..., :k]
    return product.ravel() if is_vector else product, jnp.triu(packed[..., :k, :]), *order


# --- eigenvalues and the like ---------------------------------------------------------------------


@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array: ...
@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any: ...
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """Return U, the singular values and Vᴴ of A = U S Vᴴ.

    Args:
        a: matrices of shape (..., m, n).
        full_matrices: return square U and Vᴴ. False gives min(m, n) columns and rows.
        compute_uv: whether to return U and Vᴴ.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.
        lapack_driver: accepted for SciPy, no effect.

    Returns:
        The tuple (U, s, Vᴴ), s in descending order; only s without ``compute_uv``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.svd(jnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
        Array([4., 3.], dtype=float32)
    """
    (a,) = _inexact(a)
    return lax.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinants of square matrices.

    Args:
        a: a matrix, or a stack of matrices of shape (..., n, n).
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        An array of shape (...).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.det(jnp.array([[2., 1.], [1., 3.]]))
        Array(5., dtype=float32)
    """
    return jnp.linalg.det(a)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the inverses of square matrices.

    Args:
        a: a matrix, or a stack of matrices of shape (..., n, n).
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        An array of the shape of ``a``. The inverse of a singular matrix holds inf or NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.inv(jnp.array([[2.]]))
        Array([[0.5]], dtype=float32)
    """
    return jnp.linalg.inv(a)


@overload
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: Literal[False] = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> tuple[Array, Array]: ...
@overload
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    *,
    eigvals_only: Literal[True],
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array: ...
@overload
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any: ...
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Return the eigenvalues and eigenvectors of Hermitian matrices, also generalised.

    Args:
        a: Hermitian matrices, of shape (..., n, n). One triangle is read.
        b: a positive definite matrix of the generalised problem; see ``type``.
        lower: read the lower triangle of ``a`` and ``b``; False reads the upper one.
        eigvals_only: return only the eigenvalues.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        overwrite_b: accepted for SciPy, no effect: arrays are immutable.
        turbo: accepted for SciPy, no effect.
        eigvals: (first, last): return only these eigenvalues, both included.
        type: the generalised problem: 1 for A v = w B v, 2 for A B v = w v, 3 for B A v = w v.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        A pair: the eigenvalues in ascending order, and the eigenvectors as columns.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.eigh(jnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
        Array([1., 2.], dtype=float32)
    """
    if type not in (1, 2, 3):
        raise ValueError(f"type must be 1, 2 or 3, got {type}")
    subset = None if eigvals is None else (eigvals[0], eigvals[1] + 1)
    w, v = _eigh(a, b, lower, subset, type)
    return w if eigvals_only else (w, v)


@jit(static_argnums=(2, 3, 4))
def _eigh(a: Any, b: Any, lower: bool, subset: Any, kind: int) -> tuple[Array, Array]:
    if b is None:
        (a,) = _inexact(a)
        v, w = lax.linalg.eigh(a, lower=lower, subset_by_index=subset)
        return w, v
    a, b = _inexact(a, b)
    a = symmetrize(a)
    factor = lax.linalg.cholesky(b)
    side = partial(lax.linalg.triangular_solve, factor, lower=True, conjugate_a=True)
    if kind == 1:
        half = lax.linalg.triangular_solve(factor, a, left_side=True, lower=True)
        inner = side(half, transpose_a=True)
    else:
        inner = matmul(matmul(mH(factor), a), factor)
    v, w = lax.linalg.eigh(inner, subset_by_index=subset)
    if kind == 3:
        return w, matmul(factor, v)
    return w, side(v, left_side=True, transpose_a=True)


def schur(a: Any, output: str = "real") -> list[Array]:
    """Return T and Z of the Schur form A = Z T Zᴴ.

    Args:
        a: a square matrix, or a stack of them.
        output: ``'real'`` (T has blocks of two for complex eigenvalues of real matrices) or
            ``'complex'`` (T is triangular).

    Returns:
        The list [T, Z].

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.schur(jnp.array([[1., 2.], [0., 3.]]))[0]
        Array([[1., 2.],
               [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"output must be 'real' or 'complex', got {output!r}")
    check_arraylike("schur", a)
    (a,) = _inexact(a)
    if output == "complex":
        a = a.astype(np.result_type(a.dtype, np.complex64))
    return list(lax.linalg.schur(a))


@overload
def hessenberg(
    a: Any, *, calc_q: Literal[False] = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array: ...
@overload
def hessenberg(
    a: Any, *, calc_q: Literal[True], overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]: ...
@overload
def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any: ...
def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """Return the upper Hessenberg form H of A = Q H Qᴴ.

    Args:
        a: a matrix, or a stack of matrices of shape (..., n, n).
        calc_q: also return Q.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        H; with ``calc_q`` the pair (H, Q).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.hessenberg(jnp.array([[1., 2.], [3., 4.]]))
        Array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    return _hessenberg(a, calc_q)


@jit(static_argnums=(1,))
def _hessenberg(a: Any, calc_q: bool) -> Any:
    (a,) = _inexact(a)
    n = a.shape[-1]
    if n == 0:
        return (a, a) if calc_q else a
    packed, taus = lax.linalg.hessenberg(a)
    form = jnp.triu(packed, -1)
    if not calc_q:
        return form
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], taus)
    q = jnp.zeros_like(a).at[..., 0, 0].set(1).at[..., 1:, 1:].set(inner)
    return form, q


# --- solves ---------------------------------------------------------------------------------------


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Return the X of A X = B.

    Args:
        a: square matrices, of shape (..., n, n).
        b: the right side, of shape (..., n) or (..., n, k).
        lower: with ``assume_a='pos'``, read the lower triangle of ``a``.
        overwrite_a: accepted for SciPy, no effect: arrays are immutable.
        overwrite_b: accepted for SciPy, no effect: arrays are immutable.
        debug: accepted for JAX, no effect.
        check_finite: accepted for SciPy, no effect: values are not looked at.
        assume_a: ``'gen'`` for any matrix, ``'sym'`` or ``'her'`` for symmetric or Hermitian ones,
            ``'pos'`` for positive definite ones, which are solved by Cholesky.

    Returns:
        The solution, of the shape of ``b``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
        Array([1. , 0.5], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"assume_a must be 'gen', 'sym', 'her' or 'pos', got {assume_a!r}")
    if assume_a != "pos":
        return jnp.linalg.solve(a, b)
    return _solve_positive(a, b, lower)


@jit(static_argnums=(2,))
def _solve_positive(a: Any, b: Any, lower: bool) -> Array:
    a, b = _inexact(a, b)
    linear_solve.check_solve_shapes(a, b)
    factors = cho_factor(lax.stop_gradient(a), lower=lower)
    solve_one = partial(
        custom_linear_solve,
        partial(linear_solve.matvec, a),
        solve=lambda _, x: cho_solve(factors, x),
        symmetric=True,
    )
    if a.ndim == b.ndim + 1:
        return solve_one(b)
    return vmap(solve_one, b.ndim - 1, b.ndim - 1)(b)


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Return the X of A X = B for triangular A.

    Args:
        a: triangular matrices, of shape (..., n, n). Only one triangle is read.
        b: the right side, of shape (..., n) or (..., n, k).
        trans: 0 or ``'N'`` for A, 1 or ``'T'`` for its transpose, 2 or ``'C'`` for its adjoint.
        lower: read the lower triangle; the upper one by default.
        unit_diagonal: take the diagonal to be 1, without reading it.
        overwrite_b: accepted for SciPy, no effect: arrays are immutable.
        debug: accepted for JAX, no effect.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The solution, of the shape of ``b``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.solve_triangular(jnp.array([[2., 1.], [0., 4.]]), jnp.array([4., 8.]))
        Array([1., 2.], dtype=float32)
    """
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    return _solve_triangular(a, b, kinds[trans], lower, unit_diagonal)


@jit(static_argnums=(2, 3, 4))
def _solve_triangular(a: Any, b: Any, trans: int, lower: bool, unit_diagonal: bool) -> Array:
    a, b = _inexact(a, b)
    if a.ndim < 2:
        raise ValueError(f"solve_triangular needs matrices of shape (..., n, n), got {a.shape}")
    if not b.ndim:
        raise ValueError("solve_triangular needs a vector or a matrix as b, got a scalar")
    fun = partial(
        lax.linalg.triangular_solve,
        left_side=True,
        lower=lower,
        transpose_a=trans > 0,
        conjugate_a=trans == 2,
        unit_diagonal=unit_diagonal,
    )
    return over_stacks(fun, (2, _right_rank("solve_triangular", a, b)))(a, b)


def block_diag(*arrs: Any) -> Array:
    """Return a matrix with the given blocks along its diagonal, and zeros elsewhere.

    Args:
        *arrs: the blocks: matrices, vectors (as rows) or numbers.

    Returns:
        A matrix whose shape is the sum of the blocks' shapes.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.block_diag(jnp.array([[1, 2]]), 3)
        Array([[1, 2, 0],
               [0, 0, 3]], dtype=int32)
    """
    check_arraylike("block_diag", *arrs)
    blocks = (
        [*map(jnp.asarray, promote_dtypes(*map(unwrapped, arrs)))] if arrs else [jnp.zeros((1, 0))]
    )
    for i, block in enumerate(blocks):
        if block.ndim > 2:
            raise ValueError(f"block_diag takes matrices, got shape {block.shape} at position {i}")
    blocks = [jnp.atleast_2d(block) for block in blocks]
    width = sum(block.shape[1] for block in blocks)
    rows, start = [], 0
    for block in blocks:
        size = block.shape[1]
        zero = np.zeros((), block.dtype)[()]
        config = ((0, 0, 0), (start, width - size - start, 0))
        rows.append(lax.pad(block, zero, config))
        start += size
    return jnp.concatenate(rows, axis=0)
