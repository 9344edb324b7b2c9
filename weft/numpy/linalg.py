"""``weft.numpy.linalg``: linear algebra with NumPy's names and conventions.

What a matrix cannot give (an inverse, a factor) is NaN or infinite in the result; values never
raise. Norms are in ``norms``, products in ``contraction``, determinants in ``determinant``.
"""

from __future__ import annotations

import itertools
import math
import operator
import sys
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from weft import dtypes, lax
from weft.api.jit import jit
from weft.base.lazy import Late
from weft.base.record import Record
from weft.base.traceback import expose
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.core.dims.dim import max_dim
from weft.lax.shape import canonical_axis
from weft.numpy import contraction, matrices
from weft.numpy.creation import asarray
from weft.numpy.determinant import det, slogdet
from weft.numpy.norms import matrix_norm, norm, vector_norm
from weft.numpy.promotion import check_arraylike, ensure_array, promote_dtypes_inexact
from weft.numpy.stacks import over_stacks
from weft.prims.linalg.matrix import eye, mH, symmetrize
from weft.prims.linalg.matrix import matmul as exact_matmul
from weft.prims.linalg.qr import geqrf_p, take_columns

linear_solve = Late("weft.lax.linear_solve")
einstein = Late("weft.numpy.einstein")

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(Record):
    eigenvalues: Array
    eigenvectors: Array


class EigResult(Record):
    eigenvalues: Array
    eigenvectors: Array


class QRResult(Record):
    Q: Array
    R: Array


class SVDResult(Record):
    U: Array
    S: Array
    Vh: Array


def _inexact(name: str, *args: Any) -> list[Any]:
    """The arguments as arrays of one inexact dtype."""
    check_arraylike(f"jnp.linalg.{name}", *args)
    return promote_dtypes_inexact(*map(asarray, args))


def _canonical(name: str, a: Any) -> Any:
    """The argument in an inexact dtype of 32 bits, unless 64 are enabled here."""
    (a,) = _inexact(name, a)
    return lax.convert_element_type(a, dtypes.canonicalize_dtype(a.dtype))


def _where(mask: Any, x: Any, y: Any) -> Any:
    """``x`` where the mask holds, else ``y``: arrays of the mask's shape, or numbers."""
    dtype = x.dtype if isinstance(x, Array) else y.dtype
    cases = [v if isinstance(v, Array) else lax.full(mask.shape, v, dtype) for v in (x, y)]
    return lax.select(mask, *cases)


# --- decompositions -------------------------------------------------------------------------------


@jit(static_argnames=("upper", "symmetrize_input"))
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Return the Cholesky factor of Hermitian positive definite matrices.

    Args:
        a: Array of shape (..., n, n).
        upper: If true, return the upper factor U of A = Uᴴ U instead of the lower L of A = L Lᴴ.
        symmetrize_input: If true, use (A + Aᴴ) / 2; else only the lower triangle is read.

    Returns:
        Array with the shape of ``a``; NaN for matrices that aren't positive definite.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    a = _canonical("cholesky", a)
    factor = lax.linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return mH(factor) if upper else factor


@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> SVDResult: ...
@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array: ...
@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any: ...
@jit(static_argnames=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> SVDResult | Array:
    """Return the singular value decomposition A = U S Vᴴ.

    Args:
        a: Array of shape (..., m, n).
        full_matrices: If true, U is (m, m) and Vᴴ (n, n); else they have min(m, n) columns and
            rows.
        compute_uv: If false, return the singular values only.
        hermitian: Your promise that the matrices are Hermitian, which is faster.
        subset_by_index: Pair (start, stop): keep only these singular values and vectors; needs
            ``full_matrices=False``.

    Returns:
        Named tuple of ``U``, ``S`` (real, descending) and ``Vh``; only ``S`` without
        ``compute_uv``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.svd(jnp.array([[0., 2.], [1., 0.]]), compute_uv=False)
        Array([2., 1.], dtype=float32)
    """
    (a,) = _inexact("svd", a)
    if hermitian:
        return _hermitian_svd(a, compute_uv, subset_by_index)
    result = lax.linalg.svd(
        a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
    )
    return SVDResult(*result) if compute_uv else result


def _hermitian_svd(a: Any, compute_uv: bool, subset_by_index: Any) -> Any:
    """Singular values are the sizes of eigenvalues; the signs go to V."""
    v, w = lax.linalg.eigh(a, subset_by_index=subset_by_index)
    s = lax.abs(w)
    last = s.ndim - 1
    if not compute_uv:
        return lax.rev(lax.sort(s, dimension=last), (last,))
    places = lax.broadcasted_iota(np.uint32, s.shape, last)
    ordered = lax.sort((s, places, lax.sign(w)), dimension=last, num_keys=1)
    s, places, sign = (lax.rev(x, (last,)) for x in ordered)
    u = take_columns(v, places)
    vh = mH(u * sign[..., None, :].astype(u.dtype))
    return SVDResult(u, s, vh)


def svdvals(x: Any, /) -> Array:
    """Return the singular values of matrices in descending order.

    Args:
        x: Array of shape (..., m, n).

    Returns:
        Real array of shape (..., min(m, n)).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.svdvals(jnp.array([[3., 0.], [0., 4.]]))
        Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


@overload
def qr(a: Any, mode: Literal["reduced", "complete", "raw", "full"] = "reduced") -> QRResult: ...
@overload
def qr(a: Any, mode: Literal["r"]) -> Array: ...
@overload
def qr(a: Any, mode: str = "reduced") -> Any: ...
@jit(static_argnames=("mode",))
def qr(a: Any, mode: str = "reduced") -> QRResult | Array:
    """Return the QR factorisation A = Q R.

    Args:
        a: Array of shape (..., m, n).
        mode: "reduced" (Q is (m, k), k = min(m, n)), "complete" (Q is (m, m)), "r" (R only), or
            "raw" (LAPACK's packed form, transposed, and the factors of its reflectors).

    Returns:
        Named tuple of ``Q`` and ``R``; only R with mode "r".

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.qr(jnp.array([[3.], [4.]]), mode="r")
        Array([[-5.]], dtype=float32)
    """
    (a,) = _inexact("qr", a)
    if mode == "raw":
        packed, taus = geqrf_p.bind(a)
        return QRResult(packed.mT, taus)
    if mode not in ("reduced", "complete", "r", "full"):
        raise ValueError(f"qr takes mode 'reduced', 'complete', 'r' or 'raw', got {mode!r}")
    q, r = lax.linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def eig(a: Any) -> EigResult:
    """Return eigenvalues and right eigenvectors of general matrices.

    Args:
        a: Array of shape (..., n, n).

    Returns:
        Named tuple of ``eigenvalues`` (..., n) and ``eigenvectors`` (..., n, n), one in each
        column; both are complex.

    Differs from NumPy: the result is complex for real eigenvalues too.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.eig(jnp.array([[0., 1.], [-1., 0.]])).eigenvalues
        Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    (a,) = _inexact("eig", a)
    w, v = lax.linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


@jit
def eigvals(a: Any) -> Array:
    """Return the eigenvalues of general matrices, always as complex numbers.

    Args:
        a: Array of shape (..., n, n).

    Returns:
        Complex array of shape (..., n), in no particular order.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.eigvals(jnp.array([[2., 1.], [0., 3.]]))
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    (a,) = _inexact("eigvals", a)
    (w,) = lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return w


@jit(static_argnames=("UPLO", "symmetrize_input"))
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Return eigenvalues and eigenvectors of Hermitian matrices.

    Args:
        a: Array of shape (..., n, n).
        UPLO: Triangle to read if ``symmetrize_input`` is false: "L" or "U".
        symmetrize_input: If true, use (A + Aᴴ) / 2; else only one triangle is read.

    Returns:
        Named tuple of ``eigenvalues`` (real, ascending) and ``eigenvectors``, one in each column.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.eigh(jnp.array([[2., 1.], [1., 2.]])).eigenvalues.round(4)
        Array([1., 3.], dtype=float32)
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"eigh takes UPLO 'L' or 'U', got {UPLO!r}")
    a = _canonical("eigh", a)
    v, w = lax.linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@jit(static_argnames=("UPLO", "symmetrize_input"))
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Return the eigenvalues of Hermitian matrices in ascending order.

    Args:
        a: Array of shape (..., n, n).
        UPLO: Triangle to read if ``symmetrize_input`` is false: "L" or "U".
        symmetrize_input: If true, use (A + Aᴴ) / 2; else only one triangle is read.

    Returns:
        Real array of shape (..., n).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.eigvalsh(jnp.array([[2., 1.], [1., 2.]])).round(4)
        Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input=symmetrize_input).eigenvalues


# --- solves ---------------------------------------------------------------------------------------


@jit
def solve(a: Any, b: Any) -> Array:
    """Return the solution x of the linear system A x = b.

    Args:
        a: Array of shape (..., n, n).
        b: Right sides: a vector (n,), or matrices of shape (..., n, k).

    Returns:
        Array with the shape of ``b``, broadcast; inf or NaN if ``a`` is singular.

    As in NumPy 2: ``b`` is a vector only if it has one dimension. Write a stack of vectors as
    ``b[..., None]``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
        Array([1. , 0.5], dtype=float32)
    """
    a, b = _inexact("solve", a, b)
    if a.ndim < 2:
        raise ValueError(f"solve needs a matrix on the left, got shape {a.shape}")
    if 1 < b.ndim == a.ndim - 1 and b.shape[-2] != a.shape[-1] == b.shape[-1]:
        raise ValueError(
            f"solve with a of shape {a.shape} takes b as matrices (..., m, k), got {b.shape}: for"
            " a stack of vectors write solve(a, b[..., None]).squeeze(-1)"
        )
    rank = min(b.ndim, 2)
    return over_stacks(linear_solve.solve, (2, rank))(a, b)


@jit
def inv(a: Any) -> Array:
    """Return the inverses of square matrices.

    Args:
        a: Array of shape (..., n, n).

    Returns:
        Array with the shape of ``a``; inf or NaN for singular matrices.

    To solve a system, ``solve`` is quicker and more exact.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    a = _canonical("inv", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"inv needs square matrices of shape (..., n, n), got {a.shape}")
    unit = eye(a.dtype, a.shape[-1])
    return solve(a, lax.broadcast(unit, a.shape[:-2]))


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Array:
    """Return the Moore-Penrose pseudo-inverses of matrices.

    Args:
        a: Array of shape (..., m, n).
        rtol: Singular values up to ``rtol`` times the largest count as zero; by default
            ``10 * max(m, n) * eps``.
        hermitian: Your promise that the matrices are Hermitian, which is faster.
        rcond: Older name of ``rtol``.

    Returns:
        Array of shape (..., n, m).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.pinv(jnp.array([[2., 0.], [0., 0.]]))
        Array([[0.5, 0. ],
               [0. , 0. ]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv takes rtol or rcond, its old name, not both")
        rtol = rcond
    check_arraylike("jnp.linalg.pinv", a)
    return _pinv(a, rtol, hermitian)


@partial(custom_jvp, nondiff_argnums=(1, 2))
@jit(static_argnames=("hermitian",))
def _pinv(a: Any, rtol: Any = None, hermitian: bool = False) -> Array:
    (a,) = _inexact("pinv", a)
    m, n = a.shape[-2:]
    if m == 0 or n == 0:
        return lax.full((*a.shape[:-2], n, m), 0, a.dtype)
    u, s, vh = svd(a.conj(), full_matrices=False, hermitian=hermitian)
    if rtol is None:
        cutoff = 10.0 * max_dim(m, n) * float(dtypes.finfo(a.dtype).eps) * s[..., :1]
    else:
        rtol = asarray(rtol, dtype=s.dtype)
        cutoff = lax.expand_dims(rtol[..., None], range(s.ndim - rtol.ndim - 1)) * s[..., :1]
    safe = _where(s > cutoff, s, np.inf).astype(u.dtype)
    return exact_matmul(vh.mT, u.mT / safe[..., None])


@_pinv.defjvp
def _pinv_jvp(rtol: Any, hermitian: bool, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """P' = -P A' P + P Pᴴ A'ᴴ (I - A P) + (I - P A) A'ᴴ Pᴴ P (Golub and Pereyra 1973)."""
    (a,), (a_dot,) = primals, tangents
    p = pinv(a, rtol=rtol, hermitian=hermitian)
    if hermitian:
        a, a_dot = symmetrize(a), symmetrize(a_dot)
    adjoint, p_adjoint = mH(a_dot), mH(p)
    if a.shape[-2] >= a.shape[-1]:
        left = p @ p_adjoint @ adjoint
        right = adjoint @ p_adjoint @ p
        return p, -(p @ a_dot) @ p + left - left @ a @ p + right - p @ a @ right
    left = p @ (p_adjoint @ adjoint)
    right = adjoint @ (p_adjoint @ p)
    return p, -p @ (a_dot @ p) + left - left @ (a @ p) + right - p @ (a @ right)


def lstsq(
    a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Return the least-squares solution of A x = b, with residuals, rank and singular values.

    Args:
        a: Matrix of shape (m, n).
        b: Right sides: a vector (m,) or a matrix (m, k).
        rcond: Singular values below ``rcond`` times the largest count as zero; by default
            ``max(m, n) * eps``.
        numpy_resid: If true, residuals are empty where NumPy returns none, which needs concrete
            values.

    Returns:
        Tuple of the solution (n,) or (n, k), the sums of squared residuals, the rank, and the
        singular values.

    Example:
        >>> import weft.numpy as jnp
        >>> x, *_ = jnp.linalg.lstsq(jnp.array([[1.], [1.]]), jnp.array([1., 3.]))
        >>> x.round(4)
        Array([2.], dtype=float32)
    """
    check_arraylike("jnp.linalg.lstsq", a, b)
    return (_lstsq if numpy_resid else _staged_lstsq)(a, b, rcond, numpy_resid=numpy_resid)


def _lstsq(a: Any, b: Any, rcond: Any, *, numpy_resid: bool) -> tuple[Array, Array, Array, Array]:
    a, b = _inexact("lstsq", a, b)
    if a.shape[:1] != b.shape[:1]:
        raise ValueError(
            f"lstsq needs a and b with the same number of rows, got shapes {a.shape} and {b.shape}"
        )
    if a.ndim != 2:
        raise TypeError(f"lstsq needs a of shape (m, n), got {a.shape}")
    if b.ndim not in (1, 2):
        raise TypeError(f"lstsq needs b of shape (m,) or (m, k), got {b.shape}")
    is_vector = b.ndim == 1
    b = b[:, None] if is_vector else b
    m, n = a.shape
    if a.size == 0:
        s, rank = lax.full((0,), 0, a.dtype), asarray(0, dtype=int)
        x = lax.full((n, b.shape[1]), 0, a.dtype)
    else:
        eps = float(dtypes.finfo(a.dtype).eps)
        u, s, vh = svd(a, full_matrices=False)
        if rcond is None:
            rcond = asarray(eps * max_dim(m, n), dtype=s.dtype)
        else:
            rcond = asarray(rcond, dtype=s.dtype)
            rcond = _where(rcond < 0, eps, rcond)
        mask = (s > 0) & (s >= rcond * s[0])
        rank = mask.sum()
        safe = _where(mask, s, 1).astype(a.dtype)
        inverse = _where(mask, 1 / safe, 0)[:, None]
        x = exact_matmul(mH(vh), inverse * exact_matmul(mH(u), b))
    if numpy_resid and (int(rank) < n or m <= n):
        residuals = asarray([])
    else:
        residuals = norm(b - exact_matmul(a, x), axis=0) ** 2
    return x.ravel() if is_vector else x, residuals, rank, s


_staged_lstsq = jit(_lstsq, static_argnames=("numpy_resid",))


def tensorinv(a: Any, ind: int = 2) -> Array:
    """Return the inverse of an array with respect to ``tensordot`` over ``ind`` axes.

    Args:
        a: Array whose first ``ind`` axes have together as many elements as the other axes.
        ind: Number of axes of the "rows".

    Returns:
        Array of shape ``a.shape[ind:] + a.shape[:ind]``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.tensorinv(2. * jnp.eye(4).reshape(2, 2, 4)).shape
        (4, 2, 2)
    """
    check_arraylike("jnp.linalg.tensorinv", a)
    a = asarray(a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"tensorinv needs a positive ind, got {ind}")
    first, rest = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise ValueError(
            f"tensorinv of shape {a.shape} with ind={ind} needs equal products of sizes, got"
            f" {first} and {rest}"
        )
    flat = a.reshape(math.prod(first), math.prod(rest))
    return inv(flat).reshape(*rest, *first)


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Array:
    """Return the x with ``tensordot(a, x, x.ndim) == b``.

    Args:
        a: Array whose first axes have the shape of ``b``.
        b: Right side, of any shape.
        axes: Axes of ``a`` to move to the end first.

    Returns:
        Array with the shape of the other axes of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> a = jnp.eye(4).reshape(2, 2, 4)
        >>> jnp.linalg.tensorsolve(a, jnp.ones((2, 2)))
        Array([1., 1., 1., 1.], dtype=float32)
    """
    check_arraylike("jnp.linalg.tensorsolve", a, b)
    a, b = asarray(a), asarray(b)
    if axes is not None:
        moved = [canonical_axis(axis, a.ndim) for axis in axes]
        kept = [i for i in range(a.ndim) if i not in moved]
        a = a.transpose(*kept, *moved)
    shape = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(shape) != b.size:
        raise ValueError(
            f"tensorsolve needs a of shape b.shape + x.shape with equal products, got {a.shape}"
            f" and {b.shape}"
        )
    return solve(a.reshape(b.size, b.size), b.ravel()).reshape(shape)


# --- numbers that describe a matrix ---------------------------------------------------------------


@jit(static_argnames=("n",))
def matrix_power(a: Any, n: int) -> Array:
    """Return square matrices raised to an integer power, by repeated squaring.

    Args:
        a: Array of shape (..., n, n).
        n: Exponent, a static integer; 0 gives the identity, negative numbers invert first.

    Returns:
        Array with the shape of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 5)
        Array([[1, 5],
               [0, 1]], dtype=int32)
    """
    a = ensure_array("jnp.linalg.matrix_power", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(f"matrix_power needs square matrices of shape (..., n, n), got {a.shape}")
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"matrix_power needs an integer exponent, got {n!r}") from None
    if n == 0:
        return lax.broadcast(eye(a.dtype, a.shape[-1]), a.shape[:-2])
    base = inv(a) if n < 0 else a
    n = abs(n)
    if n == 3:
        return (base @ base) @ base
    result = None
    while n:
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        base = base @ base if n else base
    return result


@jit(static_argnames=("hermitian",))
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Array:
    """Return the rank of matrices: how many singular values are above a bound.

    Args:
        M: Array of shape (..., m, n).
        rtol: Absolute bound below which singular values count as zero; by default the largest times
            ``max(m, n) * eps``.
        hermitian: Your promise that the matrices are Hermitian, which is faster.
        tol: Older name of ``rtol``.

    Returns:
        Integer array of shape (...,).

    As in JAX: ``rtol`` is an absolute bound, in spite of its name.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.matrix_rank(jnp.ones((3, 3)))
        Array(1, dtype=int32)
    """
    if tol is not None:
        if rtol is not None:
            raise ValueError("matrix_rank takes rtol or tol, its old name, not both")
        rtol = tol
    (M,) = _inexact("matrix_rank", M)
    if M.ndim < 2:
        return (M != 0).any().astype(np.int32)
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        rtol = s.max(-1) * max_dim(*M.shape[-2:]) * float(dtypes.finfo(s.dtype).eps)
    rtol = asarray(rtol)
    return (s > rtol[..., None]).sum(-1)


@jit(static_argnames=("p",))
def cond(x: Any, p: Any = None) -> Array:
    """Return the condition number ``norm(x, p) * norm(inv(x), p)`` of matrices.

    Args:
        x: Array of shape (..., m, n), square unless ``p`` is None, 2 or -2.
        p: Kind of norm, as ``ord`` of ``norm``; by default the 2-norm, from singular values.

    Returns:
        Real array of shape (...,); inf or NaN for singular matrices.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.cond(jnp.array([[4., 0.], [0., 2.]]))
        Array(2., dtype=float32)
    """
    (x,) = _inexact("cond", x)
    if x.ndim < 2:
        raise ValueError(f"cond needs matrices of shape (..., m, n), got {x.shape}")
    if p in (None, 2, -2):
        s = svd(x, compute_uv=False)
        first, last = s[..., 0], s[..., -1]
        return last / first if p == -2 else first / last
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"cond with p={p} needs square matrices, got shape {x.shape}")
    r = norm(x, ord=p, axis=(-2, -1)) * norm(inv(x), ord=p, axis=(-2, -1))
    # A singular matrix gives NaN where the number is infinite; NaNs of x itself stay.
    nan_in_x = (x != x).any((-2, -1))
    return _where((r != r) & ~nan_in_x, np.inf, r)


# --- products and axes ----------------------------------------------------------------------------


def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Return the matrix product; leading axes are stacks of matrices and broadcast.

    Args:
        x1: Array of shape (..., m, k), or a vector of length k.
        x2: Array of shape (..., k, n), or a vector of length k.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Array of shape (..., m, n), as from ``weft.numpy.matmul``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.matmul(jnp.array([[1, 2]]), jnp.array([[3], [4]]))
        Array([[11]], dtype=int32)
    """
    return contraction.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the sum of products over chosen axes of two arrays.

    Args:
        x1: First array.
        x2: Second array.
        axes: Number of last axes of ``x1`` and first axes of ``x2`` to sum over, or a pair of
            sequences of axes.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array with the remaining axes of ``x1``, then those of ``x2``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), axes=1).shape
        (2, 4)
    """
    return contraction.tensordot(
        x1,
        x2,
        axes=axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Return the sum of products along an axis, with the first operand conjugated.

    Args:
        x1: Array of vectors along ``axis``; they are conjugated.
        x2: Array of vectors of the same length; the other axes broadcast.
        axis: Axis of the vectors in both operands.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.

    Returns:
        Array of the broadcast shape without the axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.vecdot(jnp.array([1, 2]), jnp.array([3, 4]))
        Array(11, dtype=int32)
    """
    return contraction.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def outer(x1: Any, x2: Any, /) -> Array:
    """Return the product of each element of one vector with each of another.

    Args:
        x1: Vector of length m.
        x2: Vector of length n.

    Returns:
        Array of shape (m, n).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
    """
    check_arraylike("jnp.linalg.outer", x1, x2)
    x1, x2 = asarray(x1), asarray(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer needs two vectors, got shapes {x1.shape} and {x2.shape}")
    return x1[:, None] * x2[None, :]


def matrix_transpose(x: Any, /) -> Array:
    """Return matrices with their last two axes swapped.

    Args:
        x: Array of shape (..., m, n).

    Returns:
        Array of shape (..., n, m).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.matrix_transpose(jnp.array([[1, 2]]))
        Array([[1],
               [2]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_transpose", x)
    return asarray(x).mT


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """Return a diagonal of matrices.

    Args:
        x: Array of shape (..., m, n).
        offset: Diagonal: 0 is the main one, positive ones lie above, negative ones below.

    Returns:
        Array with the diagonals along the last axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    check_arraylike("jnp.linalg.diagonal", x)
    return matrices.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Return the sum of a diagonal of matrices.

    Args:
        x: Array of shape (..., m, n).
        offset: Diagonal: 0 is the main one, positive ones lie above, negative ones below.
        dtype: Dtype to sum in and to return; by default that of ``x``, with narrow integers
            widened.

    Returns:
        Array of shape (...,).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
        Array(5, dtype=int32)
    """
    check_arraylike("jnp.linalg.trace", x)
    return matrices.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def multi_dot(arrays: Any, *, precision: Any = None) -> Array:
    """Return the product of two or more matrices, multiplied in the cheapest order.

    Args:
        arrays: Sequence of matrices; the first and the last may be vectors.
        precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its name.

    Returns:
        Matrix; vector or scalar where the ends are vectors.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
        Array([12., 12.], dtype=float32)
    """
    check_arraylike("jnp.linalg.multi_dot", *arrays)
    factors = [asarray(x) for x in arrays]
    shapes = [x.shape for x in factors]
    if len(factors) < 2:
        raise ValueError(f"multi_dot needs two or more arrays, got {len(factors)}")
    ranks = [len(shape) for shape in shapes]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ValueError(f"multi_dot needs matrices (vectors at the ends), got shapes {shapes}")
    if any(a[-1] != b[0] for a, b in itertools.pairwise(shapes)):
        raise ValueError(f"multi_dot needs inner sizes that agree, got shapes {shapes}")
    names = list(range(len(factors) + 1))
    operands: list[Any] = []
    for i, x in enumerate(factors):
        start = 1 if i == 0 and x.ndim == 1 else 0
        operands += [x, names[i : i + 2][start : start + x.ndim]]
    return einstein.einsum(*operands, optimize="auto", precision=precision)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Return the cross product of vectors with three components.

    Args:
        x1: Array of vectors along ``axis``.
        x2: Array of vectors along ``axis``; the other axes broadcast.
        axis: Axis of the components, of size 3.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("jnp.linalg.cross", x1, x2)
    x1, x2 = asarray(x1), asarray(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            f"cross needs vectors of length 3 along axis {axis}, got shapes {x1.shape} and"
            f" {x2.shape}"
        )
    return matrices.cross(x1, x2, axis=axis)


expose(sys.modules[__name__])
