"""Functions of matrices: exponential, square root, any analytic function, polar factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.api.autodiff import jvp
from weft.api.jit import jit
from weft.core.array import Array
from weft.numpy.promotion import (
    check_arraylike,
    mixes_inside,
    promote_dtypes_complex,
    promote_dtypes_inexact,
    unwrapped,
)
from weft.numpy.stacks import over_stacks
from weft.prims.linalg.matrix import eye, matmul, mH
from weft.scipy import triangular
from weft.scipy.matrix_solves import solve_triangular

# Numerators of the diagonal Padé approximants of exp, and up to which 1-norm each is exact to
# working precision (Higham, "The scaling and squaring method for the matrix exponential
# revisited", 2005; the bounds for float32 after Al-Mohy and Higham).
_PADE = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (
        17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0,
        110880.0, 3960.0, 90.0, 1.0,
    ),
    13: (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
        129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
        40840800.0, 960960.0, 16380.0, 182.0, 1.0,
    ),
}  # fmt: skip
_SINGLE = ((3, 5, 7), (0.4258730016922831, 1.880152677804762), 3.925724783138660)
_DOUBLE = (
    (3, 5, 7, 9, 13),
    (1.495585217958292e-02, 2.539398330063230e-01, 9.504178996162932e-01, 2.097847961257068),
    5.371920351148152,
)


def _square(name: str, a: Any) -> Array:
    a = jnp.asarray(*promote_dtypes_inexact(unwrapped(a)))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name} needs square matrices of shape (..., n, n), got {a.shape}")
    return a


def _pade(degree: int, a: Array) -> tuple[Array, Array]:
    """Odd and even part of the numerator at ``a``."""
    b = _PADE[degree]
    unit = eye(a.dtype, a.shape[-1])
    a2 = matmul(a, a)
    if degree < 13:
        powers = [unit, a2]
        while len(powers) <= degree // 2:
            powers.append(matmul(powers[-1], a2))
        odd = sum(c * p for c, p in zip(b[3::2], powers[1:], strict=True)) + b[1] * unit
        even = sum(c * p for c, p in zip(b[2::2], powers[1:], strict=True)) + b[0] * unit
        return matmul(a, odd), even
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    high = matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = matmul(a, high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * unit)
    high = matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    return odd, high + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * unit


@jit(static_argnames=("upper_triangular", "max_squarings"))
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Return the exponentials of square matrices, by scaling, a Padé approximant, and squaring.

    Args:
        A: square matrices, of shape (..., n, n).
        upper_triangular: promise that the matrices are upper triangular.
        max_squarings: the largest number of squarings. The result is NaN where more are needed.

    Returns:
        An array of the shape of ``A``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.expm(jnp.zeros((2, 2)))
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    check_arraylike("expm", A)
    a = _square("expm", A)
    fun = partial(_expm, upper_triangular=upper_triangular, max_squarings=max_squarings)
    return over_stacks(fun, (2,))(a)


def _expm(a: Array, upper_triangular: bool, max_squarings: int) -> Array:
    if not a.size:
        return a
    double = a.dtype in (np.dtype(np.float64), np.dtype(np.complex128))
    degrees, bounds, largest = _DOUBLE if double else _SINGLE
    size = jnp.abs(a).sum(0).max()
    count = jnp.maximum(0, jnp.floor(jnp.log2(size / largest)))
    scaled = a / (2**count).astype(a.dtype)
    which = sum((size >= bound).astype(np.int32) for bound in bounds)
    odd, even = lax.switch(which, [partial(_pade, degree) for degree in degrees], scaled)
    top, bottom = even + odd, even - odd
    if upper_triangular:
        root = solve_triangular(bottom, top)
    else:
        root = jnp.linalg.solve(bottom, top)

    def step(x: Array, i: Array) -> tuple[Array, None]:
        return lax.cond(i < count, lambda x: matmul(x, x), lambda x: x, x), None

    steps = jnp.arange(max_squarings, dtype=count.dtype)
    power, _ = lax.scan(step, root, steps)
    return jnp.where(count > max_squarings, jnp.full_like(a, np.nan), power)


@overload
def expm_frechet(
    A: Any, E: Any, *, method: str | None = None, compute_expm: Literal[True] = True
) -> tuple[Array, Array]: ...
@overload
def expm_frechet(
    A: Any, E: Any, *, method: str | None = None, compute_expm: Literal[False]
) -> Array: ...
@overload
def expm_frechet(
    A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True
) -> Any: ...
def expm_frechet(
    A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """Return the exponential of A and its derivative in the direction E.

    Args:
        A: a square matrix.
        E: the direction, of the shape of ``A``.
        method: accepted for SciPy, no effect.
        compute_expm: return the exponential too, not only the derivative.

    Returns:
        A pair of the exponential and the derivative; without ``compute_expm`` the derivative.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> _, change = linalg.expm_frechet(jnp.zeros((2, 2)), jnp.eye(2))
        >>> change
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    a, e = promote_dtypes_inexact(unwrapped(A), unwrapped(E))
    a, e = _square("expm_frechet", a), _square("expm_frechet", e)
    if a.shape != e.shape:
        raise ValueError(f"expm_frechet needs A and E of one shape, got {a.shape} and {e.shape}")
    value, change = jvp(expm, (a,), (e,))
    return (value, change) if compute_expm else change


# --- through the Schur form -----------------------------------------------------------------------


def complex_schur(a: Array) -> tuple[Array, Array]:
    """The triangular form T and the unitary Z of a = Z T Zᴴ, complex."""
    form, vectors = lax.linalg.schur(a.astype(dtypes.to_complex_dtype(a.dtype)))
    return form, vectors


def _triangular_form(a: Array) -> tuple[Array, Array]:
    """Some complex T and Z of a = Z T Zᴴ; by the real Schur form, which is found sooner."""
    if jnp.iscomplexobj(a):
        return complex_schur(a)
    t, z = lax.linalg.schur(a)
    wide = dtypes.to_complex_dtype(a.dtype)
    n = a.shape[0]
    if n < 2:
        return t.astype(wide), z.astype(wide)
    diagonal, low, high = jnp.diagonal(t), jnp.diagonal(t, -1), jnp.diagonal(t, 1)
    # Blocks of two have no row in common: all of them are turned at once.
    half = (diagonal[:-1] - diagonal[1:]) / 2
    first = half + jnp.sqrt((half * half + low * high).astype(wide))
    length = jnp.sqrt(first.real**2 + first.imag**2 + low**2)
    c = jnp.where(low == 0, 1, first / jnp.where(low == 0, 1, length))
    s = jnp.where(low == 0, 0, low / jnp.where(low == 0, 1, length))
    own = jnp.pad(c.conj(), (0, 1), constant_values=1) * jnp.pad(c, (1, 0), constant_values=1)
    after, before = jnp.pad(s, (0, 1)), -jnp.pad(s, (1, 0))

    def turned(x: Array, own: Array) -> Array:
        """The rows of a matrix turned; the next row and the one before have a part in each."""
        upper = jnp.pad(x[1:], ((0, 1), (0, 0)))
        lower = jnp.pad(x[:-1], ((1, 0), (0, 0)))
        return own[:, None] * x + after[:, None] * upper + before[:, None] * lower

    form = turned(turned(t, own).T, own.conj()).T
    return jnp.triu(form), turned(z.T, own.conj()).T


@jit
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Array, Array]:
    """Return the complex Schur form that belongs to a real one: T is triangular.

    Args:
        T: the real Schur form, with blocks of two on its diagonal.
        Z: the orthogonal matrix that belongs to it.
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        The pair (T, Z), complex.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> T, Z = linalg.rsf2csf(jnp.array([[0., 1.], [-1., 0.]]), jnp.eye(2))
        >>> abs(T[1, 0]) < 1e-6
        Array(True, dtype=bool)
    """
    t, z = promote_dtypes_complex(unwrapped(T), unwrapped(Z))
    t, z = _square("rsf2csf", t), _square("rsf2csf", z)
    if t.shape[-1] != z.shape[-1]:
        raise ValueError(f"rsf2csf needs T and Z of one size, got {t.shape} and {z.shape}")
    return over_stacks(_triangularize, (2, 2))(t, z)


def _triangularize(t: Array, z: Array) -> tuple[Array, Array]:
    n = t.shape[0]
    eps = float(dtypes.finfo(t.dtype).eps)
    places = np.arange(n, dtype=np.uint32)

    def step(state: Any, m: Any) -> Any:
        t, z = state
        # Rotate rows and columns m - 1 and m so that an eigenvalue of the block comes first.
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        shifted = jnp.linalg.eigvals(block)[0] - block[1, 1]
        low = block[1, 0]
        length = jnp.sqrt(jnp.abs(shifted) ** 2 + jnp.abs(low) ** 2).astype(t.dtype)
        is_block = jnp.abs(low) > eps * (jnp.abs(block[0, 0]) + jnp.abs(block[1, 1]))
        safe = jnp.where(is_block, length, 1)
        c = jnp.where(is_block, shifted / safe, 1)
        s = jnp.where(is_block, low / safe, 0)
        turn = jnp.stack([jnp.stack([c.conj(), s]), jnp.stack([-s, c])])
        # What lies below the blocks is left alone, as in SciPy, where T is no Schur form.
        rows = lax.dynamic_slice(t, (m - 1, top), (2, n))
        rows = jnp.where(places[None, :] >= m - 1, matmul(turn, rows), rows)
        t = lax.dynamic_update_slice(t, rows, (m - 1, top))
        columns = lax.dynamic_slice(t, (top, m - 1), (n, 2))
        columns = jnp.where(places[:, None] <= m, matmul(columns, mH(turn)), columns)
        t = lax.dynamic_update_slice(t, columns, (top, m - 1))
        columns = lax.dynamic_slice(z, (top, m - 1), (n, 2))
        z = lax.dynamic_update_slice(z, matmul(columns, mH(turn)), (top, m - 1))
        return (lax.dynamic_update_slice(t, zero, (m, m - 1)), z), None

    if n < 2:
        return t, z
    zero, top = jnp.zeros((1, 1), t.dtype), np.uint32(0)
    state, _ = lax.scan(step, (t, z), np.arange(n - 1, 0, -1, dtype=np.uint32))
    return state


@mixes_inside
def sqrtm(A: Any, blocksize: int = 1) -> Array:
    """Return the principal square root of a matrix.

    It is the R of A = R R with eigenvalues of real part >= 0.

    Args:
        A: a square matrix.
        blocksize: must be 1.

    Returns:
        A complex array of the shape of ``A``.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.sqrtm(jnp.array([[4., 0.], [0., 9.]])).real
        Array([[2., 0.],
               [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError(f"sqrtm works with blocksize=1, got {blocksize}")
    a = jnp.asarray(A)
    if a.ndim < 2:
        raise TypeError(f"sqrtm needs matrices of shape (..., n, n), got {a.shape}")
    return _sqrtm(_square("sqrtm", a))


@jit
def _sqrtm(a: Array) -> Array:
    if a.ndim > 2:
        return over_stacks(_sqrtm, (2,))(a)
    form, z = _triangular_form(a)
    return matmul(matmul(z, triangular.square_root(form)), mH(z)) if a.size else form


@overload
def funm(A: Any, func: Callable[[Array], Array], disp: Literal[True] = True) -> Array: ...
@overload
def funm(A: Any, func: Callable[[Array], Array], disp: Literal[False]) -> tuple[Array, Array]: ...
@overload
def funm(A: Any, func: Callable[[Array], Array], disp: bool = True) -> Any: ...
@mixes_inside
def funm(A: Any, func: Callable[[Array], Array], disp: bool = True) -> Array | tuple[Array, Array]:
    """Return a function of a square matrix, by Parlett's method.

    The result is inexact where eigenvalues (nearly) coincide.

    Args:
        A: a square matrix.
        func: the function, of an array of eigenvalues.
        disp: False returns an estimate of the error too.

    Returns:
        A complex array of the shape of ``A``; with ``disp=False`` a pair of it and the error
        estimate.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> linalg.funm(jnp.array([[1., 0.], [0., 2.]]), lambda x: x * x).real
        Array([[1., 0.],
               [0., 4.]], dtype=float32)
    """
    a = jnp.asarray(A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"funm needs a square matrix, got shape {a.shape}")
    a = _square("funm", a)
    if not a.size:
        return a
    t, z = _triangular_form(a)
    values = func(jnp.diagonal(t)).astype(t.dtype)
    result = matmul(matmul(z, triangular.function(values, t)), mH(z))
    if disp:
        return result
    return result, _parlett_error(t, result)


@jit
def _parlett_error(t: Array, result: Array) -> Array:
    """An estimate of the error of Parlett's method, from the least distance of eigenvalues."""
    eps = float(dtypes.finfo(t.dtype).eps)
    values = jnp.diagonal(t)
    gaps = jnp.abs(values - values[:, None])
    gaps = jnp.where(jnp.eye(len(values), dtype=bool), jnp.abs(values[0]), gaps)
    least = jnp.where(gaps.min() == 0, eps, gaps.min())
    spread = jnp.abs(jnp.triu(t, 1)).sum(0).max()
    error = jnp.minimum(1, jnp.maximum(eps, eps / least * spread))
    return jnp.where(jnp.isinf(result).any(), np.inf, error)


# --- equations and factors ------------------------------------------------------------------------


@mixes_inside
@jit(static_argnames=("method",))
def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """Return the X of A X + X B = C.

    Args:
        A: a matrix of shape (m, m).
        B: a matrix of shape (n, n).
        C: the right side, of shape (m, n).
        method: ``'schur'`` or ``'eigen'`` (which needs A and B to be diagonalisable).
        tol: the result is NaN where an eigenvalue of A is within ``tol`` of one of -B.

    Returns:
        An array of shape (m, n).

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> eye = jnp.eye(2)
        >>> linalg.solve_sylvester(eye, 3 * eye, 8 * eye).round(4)
        Array([[2., 0.],
               [0., 2.]], dtype=float32)
    """
    a, b, c = promote_dtypes_inexact(*map(jnp.asarray, (A, B, C)))
    if c.ndim < 2 or a.shape[-2:] != (c.shape[-2],) * 2 or b.shape[-2:] != (c.shape[-1],) * 2:
        raise ValueError(
            "solve_sylvester needs A of shape (m, m), B of shape (n, n) and C of shape (m, n), got"
            f" {a.shape}, {b.shape} and {c.shape}"
        )
    if method not in ("schur", "eigen"):
        raise ValueError(f"method must be 'schur' or 'eigen', got {method!r}")
    return over_stacks(partial(_sylvester, method=method, tol=tol), (2, 2, 2))(a, b, c)


def _sylvester(a: Array, b: Array, c: Array, method: str, tol: Any) -> Array:
    wide = dtypes.to_complex_dtype(c.dtype)
    if method == "eigen":
        left, u = jnp.linalg.eig(a)
        right, v = jnp.linalg.eig(b)
        inner = jnp.linalg.solve(u, matmul(c.astype(wide), v)) / (left[:, None] + right)
        x = matmul(matmul(u, inner), jnp.linalg.inv(v))
    else:
        (r, u), (s, v) = lax.linalg.schur(a), lax.linalg.schur(b)
        left, right = _eigenvalues(r), _eigenvalues(s)
        inner = triangular.sylvester(r, s, matmul(matmul(mH(u), c), v))
        x = matmul(matmul(u, inner), mH(v))
    x = x if c.dtype == wide else x.real
    singular = (jnp.abs(left[:, None] + right) < tol).any()
    return jnp.where(singular, jnp.full_like(x, np.nan), x)


def _eigenvalues(form: Array) -> Array:
    """The eigenvalues of a Schur form: those of a block of two are its diagonal ± i sqrt(-b c)."""
    values = jnp.diagonal(form)
    if jnp.iscomplexobj(form):
        return values
    below, above = jnp.diagonal(form, -1), jnp.diagonal(form, 1)
    turn = jnp.sqrt(jnp.abs(below)) * jnp.sqrt(jnp.abs(above))
    return lax.complex(values, jnp.pad(turn, (0, 1)) - jnp.pad(turn, (1, 0)))


@mixes_inside
@jit(static_argnames=("side", "method", "eps", "max_iterations"))
def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Return U and P of the polar decomposition a = U P, or a = P U.

    Args:
        a: a matrix of shape (m, n).
        side: ``'right'`` for U P, ``'left'`` for P U.
        method: ``'qdwh'`` (iterated; for tall matrices on the right and wide ones on the left) or
            ``'svd'``.
        eps: with ``'qdwh'``, how close to converged is close enough. By default the dtype's
            precision.
        max_iterations: with ``'qdwh'``, the largest number of iterations; 10 by default.

    Returns:
        A pair: U with orthonormal columns or rows, and the positive semidefinite P.

    Example:
        >>> import weft.numpy as jnp
        >>> import weft.scipy.linalg as linalg
        >>> u, p = linalg.polar(jnp.array([[0., 2.], [3., 0.]]), method="svd")
        >>> p.round(4)
        Array([[3., 0.],
               [0., 2.]], dtype=float32)
    """
    (a,) = promote_dtypes_inexact(jnp.asarray(a))
    if a.ndim < 2:
        raise ValueError(f"polar needs matrices of shape (..., m, n), got {a.shape}")
    if side not in ("right", "left"):
        raise ValueError(f"side must be 'right' or 'left', got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"method must be 'qdwh' or 'svd', got {method!r}")
    tall = a.shape[-2] >= a.shape[-1]
    if method == "qdwh" and tall != (side == "right"):
        raise NotImplementedError(
            f"polar by qdwh takes tall matrices with side='right' and wide ones with side='left',"
            f" got shape {a.shape} and side={side!r}: use method='svd'"
        )
    fun = partial(_polar, side=side, method=method, eps=eps, max_iterations=max_iterations)
    return over_stacks(fun, (2,))(a)


def _polar(a: Array, side: str, method: str, eps: Any, max_iterations: Any) -> tuple[Array, Array]:
    if method == "qdwh":
        given = a if side == "right" else mH(a)
        u, p, *_ = lax.linalg.qdwh(given, eps=eps, max_iterations=max_iterations)
        return (u, p) if side == "right" else (mH(u), mH(p))
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    s = s.astype(u.dtype)
    if side == "right":
        return matmul(u, vh), matmul(mH(vh) * s, vh)
    return matmul(u, vh), matmul(u * s, mH(u))
