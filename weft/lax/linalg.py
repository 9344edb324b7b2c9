"""``weft.lax.linalg``: decompositions and solves of stacks of matrices, thin over their primitives.

Matrices are the last two axes; axes before them are a stack. What cannot be decomposed gives NaN.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from weft.base.source import warn
from weft.base.traceback import expose
from weft.core.array import Array
from weft.core.dims.dim import whole
from weft.core.trace import typeof
from weft.lax.polar import qdwh
from weft.prims.arithmetic import add
from weft.prims.families import COMPLEX, kind_of
from weft.prims.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from weft.prims.linalg.eigen import eig_p, eigh_p, hessenberg_p, schur_p, tridiagonal_p
from weft.prims.linalg.lu import lu_p, lu_pivots_to_permutation_p
from weft.prims.linalg.matrix import insert_axis, mT, symmetrize, tril
from weft.prims.linalg.qr import householder_product_p, ormqr_p, qr_p
from weft.prims.linalg.solve import triangular_solve_p, tridiagonal_solve_p
from weft.prims.linalg.svd import SvdAlgorithm, svd_p
from weft.prims.shape import squeeze_p

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "cholesky_update_p",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "ormqr",
    "ormqr_p",
    "qdwh",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "symmetric_product",
    "symmetric_product_p",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]


class EigImplementation(enum.Enum):
    """Which library computes eigenvalues of general matrices; on CPUs only ``LAPACK``.

    Example:
        >>> from weft import lax
        >>> lax.linalg.EigImplementation.LAPACK.value
        'lapack'
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """Which algorithm computes eigenvalues of Hermitian matrices; only ``QR`` is supported.

    Example:
        >>> from weft import lax
        >>> lax.linalg.EighImplementation.QR.value
        'qr'
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Array:
    """Return the lower Cholesky factor L of A = L Lᴴ for Hermitian positive definite matrices.

    Args:
        x: Array of shape (..., n, n), floating-point or complex.
        symmetrize_input: If true, use (A + Aᴴ) / 2; else only the lower triangle is read.

    Returns:
        Array with the shape of ``x``; NaN for matrices that aren't positive definite.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    return tril(cholesky_p.bind(symmetrize(x) if symmetrize_input else x))


def cholesky_update(r_matrix: Any, w_vector: Any) -> Array:
    """Return the upper Cholesky factor of Rᵀ R + w wᵀ, from R and w, in O(n²) steps.

    Args:
        r_matrix: Upper triangular matrix of shape (n, n).
        w_vector: Vector of length n.

    Returns:
        Upper triangular matrix.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.cholesky_update(3. * jnp.eye(2), jnp.array([4., 0.]))
        Array([[5., 0.],
               [0., 3.]], dtype=float32)
    """
    return cholesky_update_p.bind(r_matrix, w_vector)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Return the eigenvalues of general matrices, and left and right eigenvectors if wanted.

    Args:
        x: Array of shape (..., n, n), floating-point or complex.
        compute_left_eigenvectors: If true, also return the left eigenvectors.
        compute_right_eigenvectors: If true, also return the right eigenvectors.
        enable_eigvec_derivs: If true, eigenvectors can be differentiated. Their derivatives hold
            only where eigenvalues are distinct and one component is largest.
        implementation: None or ``EigImplementation.LAPACK``.
        use_magma: Deprecated and without use: write ``implementation``.

    Returns:
        List of the eigenvalues (..., n) and the eigenvectors (..., n, n), one in each column, of
        length 1 and with a real largest component; all complex.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> w, vl, vr = lax.linalg.eig(jnp.array([[0., 1.], [-1., 0.]]))
        >>> w
        Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    if use_magma is not None:
        warn(
            "use_magma is deprecated; write implementation=EigImplementation.MAGMA",
            DeprecationWarning,
        )
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    params = {
        "compute_left_eigenvectors": compute_left_eigenvectors,
        "compute_right_eigenvectors": compute_right_eigenvectors,
        "enable_eigvec_derivs": enable_eigvec_derivs,
        "implementation": implementation,
    }
    if implementation not in (None, EigImplementation.LAPACK):
        eig_p.shape(typeof(x), **params)  # its errors come first
        raise ValueError(f"on CPUs eig takes EigImplementation.LAPACK, got {implementation}")
    return eig_p.bind(x, **params)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Return eigenvectors and eigenvalues, in this order, of Hermitian matrices.

    Args:
        x: Array of shape (..., n, n), floating-point or complex.
        lower: Which triangle to read if ``symmetrize_input`` is false.
        symmetrize_input: If true, use (A + Aᴴ) / 2; else only one triangle is read.
        sort_eigenvalues: If true, eigenvalues ascend. They do in any case.
        subset_by_index: Pair (start, stop): keep only these eigenvalues and vectors.
        implementation: None or ``EighImplementation.QR``.

    Returns:
        Pair of the eigenvectors, one in each column, and the real eigenvalues.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> v, w = lax.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]))
        >>> w
        Array([1., 2.], dtype=float32)
    """
    x = symmetrize(x) if symmetrize_input else x
    params = {
        "lower": lower,
        "sort_eigenvalues": sort_eigenvalues,
        "subset_by_index": subset_by_index,
        "algorithm": implementation,
    }
    if implementation not in (None, EighImplementation.QR):
        eigh_p.shape(typeof(x), **params)  # its errors come first
        raise NotImplementedError(f"on CPUs eigh takes EighImplementation.QR, got {implementation}")
    v, w = eigh_p.bind(x, **params)
    return v, w


def hessenberg(a: Any) -> list[Array]:
    """Return the upper Hessenberg form of matrices and the factors of its reflectors.

    Args:
        a: Array of shape (..., n, n).

    Returns:
        List of an array with the shape of ``a``, with the reflectors below the subdiagonal, and the
        factors (..., n - 1).

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> packed, taus = lax.linalg.hessenberg(jnp.eye(3))
        >>> packed.shape, taus.shape
        ((3, 3), (2,))
    """
    return hessenberg_p.bind(a)


def householder_product(a: Any, taus: Any) -> Array:
    """Return the product of Householder reflectors.

    Args:
        a: Array of shape (..., m, n) with the reflectors below its diagonal.
        taus: Array of shape (..., k): the factor of each reflector.

    Returns:
        Array of shape (..., m, n) with orthonormal columns.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.householder_product(jnp.ones((2, 2)), jnp.array([1., 0.]))
        Array([[ 0., -1.],
               [-1.,  0.]], dtype=float32)
    """
    return householder_product_p.bind(a, taus)


def lu(x: Any) -> list[Array]:
    """Return the LU factorisation P A = L U with row swaps.

    Args:
        x: Array of shape (..., m, n).

    Returns:
        List of L and U in one matrix (the diagonal is that of U), the row swaps, and the
        permutation that they make.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> packed, pivots, permutation = lax.linalg.lu(jnp.array([[1., 2.], [4., 4.]]))
        >>> packed
        Array([[4.  , 4.  ],
               [0.25, 1.  ]], dtype=float32)
        >>> permutation
        Array([1, 0], dtype=int32)
    """
    return lu_p.bind(x)


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Array:
    """Return the permutation that a sequence of row swaps makes.

    Args:
        pivots: int32 array (..., k): row i is swapped with row ``pivots[i]``, one after the other.
        permutation_size: Number of rows.

    Returns:
        int32 array (..., permutation_size).

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.lu_pivots_to_permutation(jnp.array([2, 2], dtype=jnp.int32), 3)
        Array([2, 0, 1], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=whole(permutation_size))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Array:
    """Return the product of Q, given by its reflectors, with a matrix.

    Args:
        a: Array (..., m, k) with the reflectors, as the transposed first result of
            ``weft.numpy.linalg.qr(x, mode="raw")``.
        taus: Array (..., k): the factor of each reflector.
        c: Array to multiply with.
        left: If true, return Q C; else C Q.
        transpose: If true, use Qᴴ instead of Q.

    Returns:
        Array with the shape of ``c``. Q is not formed.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.ormqr(jnp.ones((2, 1)), jnp.array([1.]), jnp.array([[3.], [5.]]))
        Array([[-5.],
               [-3.]], dtype=float32)
    """
    return ormqr_p.bind(a, taus, c, left=left, transpose=transpose)


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, ...]:
    """Return the QR factorisation A = Q R of matrices.

    Args:
        x: Array of shape (..., m, n).
        pivoting: If true, also return the column order p with A[:, p] = Q R, which makes R's
            diagonal descend.
        full_matrices: If true, Q is (m, m); else (m, min(m, n)).
        use_magma: Without effect: it chooses a library for GPUs in JAX.

    Returns:
        Tuple of Q and R, and with ``pivoting`` the order of the columns.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> q, r = lax.linalg.qr(jnp.array([[3.], [4.]]), full_matrices=False)
        >>> r
        Array([[-5.]], dtype=float32)
    """
    return tuple(qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma))


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """Return the Schur form T of A = Z T Zᴴ, and Z if wanted.

    Args:
        x: Array of shape (..., n, n), floating-point or complex.
        compute_schur_vectors: If true, also return Z.
        sort_eig_vals: Must be False: eigenvalues are not sorted.
        select_callable: Must be None.

    Returns:
        List of T (..., n, n), and Z.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> t, z = lax.linalg.schur(jnp.array([[1., 2.], [0., 3.]]))
        >>> t
        Array([[1., 2.],
               [0., 3.]], dtype=float32)
    """
    return schur_p.bind(
        x,
        compute_schur_vectors=compute_schur_vectors,
        sort_eig_vals=sort_eig_vals,
        select_callable=select_callable,
    )


@overload
def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: Literal[False],
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array: ...
@overload
def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any: ...
def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """Return the singular value decomposition A = U S Vᴴ.

    Args:
        x: Array of shape (..., m, n).
        full_matrices: If true, U is (m, m) and Vᴴ (n, n); else they have min(m, n) columns and
            rows.
        compute_uv: If false, return the singular values only.
        subset_by_index: Pair (start, stop): keep only these singular values and vectors; needs
            ``full_matrices=False``.
        algorithm: A ``SvdAlgorithm``; by default one that suits the device.

    Returns:
        Tuple of U, the real, descending singular values, and Vᴴ; only the values without
        ``compute_uv``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.svd(jnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
        Array([4., 3.], dtype=float32)
    """
    s, *vectors = svd_p.bind(
        x,
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    if not compute_uv:
        return s
    u, vh = vectors
    return u, s, vh


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Return alpha A Aᵀ + beta C for symmetric C.

    Args:
        a_matrix: Array of shape (..., n, k).
        c_matrix: Symmetric array of shape (..., n, n).
        alpha: Factor of the product.
        beta: Factor of ``c_matrix``.
        symmetrize_output: If true, copy the lower triangle into the upper one; else only the lower
            one counts.

    Returns:
        Array of shape (..., n, n).

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.linalg.symmetric_product(jnp.array([[1.], [2.]]), jnp.eye(2), beta=1.)
        Array([[2., 2.],
               [2., 5.]], dtype=float32)
    """
    result = symmetric_product_p.bind(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
    if not symmetrize_output:
        return result
    upper = mT(tril(result, -1))
    return add(tril(result), upper)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Return the solution X of op(A) X = B or X op(A) = B for triangular A.

    Args:
        a: Array of shape (..., n, n), of which one triangle is read.
        b: Right sides: (..., n, k) with ``left_side``, else (..., k, n).
        left_side: If true, solve op(A) X = B; else X op(A) = B.
        lower: If true, read the lower triangle; else the upper one.
        transpose_a: If true, op transposes A.
        conjugate_a: If true, op conjugates A.
        unit_diagonal: If true, take ones for the diagonal, without reading it.

    Returns:
        Array with the shape of ``b``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> a = jnp.array([[2., 0.], [1., 4.]])
        >>> lax.linalg.triangular_solve(a, jnp.array([2., 9.]), left_side=True, lower=True)
        Array([1., 2.], dtype=float32)
    """
    conjugate_a = conjugate_a and kind_of(typeof(a).dtype) == COMPLEX
    is_vector = np.ndim(b) == np.ndim(a) - 1
    if is_vector:
        b = insert_axis(b, -1 if left_side else -2)
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    if is_vector:
        axis = np.ndim(out) - (1 if left_side else 2)
        return squeeze_p.bind(out, dimensions=(axis,))
    return out


def tridiagonal(a: Any, *, lower: bool = True) -> list[Array]:
    """Return Hermitian matrices reduced to tridiagonal form.

    Args:
        a: Array of shape (..., n, n), of which one triangle is read.
        lower: If true, read the lower triangle and keep the reflectors there; else the upper one.

    Returns:
        List of the packed form with the reflectors, the diagonal, the off-diagonal, and the factors
        of the reflectors.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> packed, d, e, taus = lax.linalg.tridiagonal(jnp.eye(3))
        >>> d
        Array([1., 1., 1.], dtype=float32)
    """
    return tridiagonal_p.bind(a, lower=lower)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Array:
    """Return the solution X of A X = B for tridiagonal A.

    Args:
        dl: Lower diagonal, an array (..., n); ``dl[0]`` is not read.
        d: Main diagonal, an array (..., n).
        du: Upper diagonal, an array (..., n); ``du[-1]`` is not read.
        b: Right sides, an array (..., n, k).
        perturb_singular: If true, move pivots near zero away from it, so that singular systems have
            a finite solution.

    Returns:
        Array with the shape of ``b``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> dl, d, du = jnp.array([0., 1.]), jnp.array([2., 2.]), jnp.array([1., 0.])
        >>> lax.linalg.tridiagonal_solve(dl, d, du, jnp.array([[3.], [3.]]))
        Array([[1.],
               [1.]], dtype=float32)
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=perturb_singular)


expose(sys.modules[__name__])
