"""Matrix decompositions and solves over stacks of NumPy matrices, by LAPACK.

Every function takes arrays of shape (..., m, n) in float32, float64, complex64 or complex128 and
gives new C-ordered arrays. A matrix that LAPACK could not decompose gives NaNs, as JAX does; the
others of the stack are not touched by that.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from weft.lapack.openblas import ROW_MAJOR, blas_routine, lapack_routine

# CBLAS's codes.
_NO_TRANSPOSE, _TRANSPOSE, _CONJUGATE_TRANSPOSE = 111, 112, 113
_UPPER, _LOWER = 121, 122
_NON_UNIT, _UNIT = 131, 132
_LEFT, _RIGHT = 141, 142


def _columns(a: ndarray) -> ndarray:
    """A copy of the stack `a`, flattened to three axes, each matrix in column-major order."""
    m, n = a.shape[-2:]
    count = int(np.prod(a.shape[:-2]))
    return np.array(a.reshape(count, m, n).swapaxes(1, 2), order="C")


def _rows(columns: ndarray, batch: tuple[int, ...]) -> ndarray:
    """The opposite of `_columns`."""
    n, m = columns.shape[1:]
    return np.ascontiguousarray(columns.swapaxes(1, 2)).reshape(*batch, m, n)


def _flat(a: ndarray) -> ndarray:
    """A copy of the stack of vectors `a`, flattened to two axes."""
    return np.array(a.reshape(int(np.prod(a.shape[:-1])), a.shape[-1]), order="C")


def _addresses(*stacks: ndarray) -> Iterator[tuple[ctypes.c_void_p, ...]]:
    """The addresses of the i-th element of every stack, for each i."""
    tracks: list[Iterator[ctypes.c_void_p]] = []
    for stack in stacks:
        start = stack.ctypes.data
        step, count = stack.strides[0], stack.shape[0]
        spots = range(start, start + step * count, step) if step else itertools.repeat(start, count)
        tracks.append(map(ctypes.c_void_p, spots))
    return zip(*tracks, strict=True)


def _address(a: ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def _real(dtype: np.dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype


def _is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def _complex(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype, np.complex64)


def _each(
    name: str,
    dtype: np.dtype,
    arguments: Callable[..., tuple[Any, ...]],
    *stacks: ndarray,
    tail: Sequence[ndarray] = (),
    chosen: ndarray | None = None,
) -> ndarray:
    """Calls a routine for each matrix of stacks, or the chosen ones; says whether it succeeded.

    ``arguments`` makes its arguments of addresses; the workspace that it asks for comes after them.
    """
    routine = lapack_routine(name, dtype)
    ends = [_address(space) for space in tail]
    spots = list(_addresses(*stacks))
    answer = np.zeros(1, dtype)
    routine(*arguments(*spots[0]), _address(answer), -1, *ends)
    work = np.empty(max(1, int(answer[0].real)), dtype)
    ok = np.ones(len(spots), bool) if chosen is None else chosen
    for i in np.flatnonzero(ok):
        ok[i] = routine(*arguments(*spots[i]), _address(work), work.size, *ends) == 0
    return ok


def _fail(ok: ndarray, *results: ndarray) -> None:
    """Fill what belongs to failed matrices with NaN."""
    if ok.all():
        return
    for result in results:
        nan = complex(np.nan, np.nan) if _is_complex(result.dtype) else np.nan
        result[~ok] = nan


def _square(name: str, a: ndarray) -> int:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name} needs square matrices of shape (..., n, n), got {a.shape}")
    return a.shape[-1]


def cholesky(a: ndarray) -> ndarray:
    """The lower factor L of a = L Lᴴ, reading the lower triangle; NaN where not positive.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    n = _square("cholesky", a)
    if a.size == 0:
        return np.empty(a.shape, a.dtype)
    work = _columns(a)
    potrf = lapack_routine("potrf", a.dtype)
    ok = np.array([potrf(ord("L"), n, at, n) == 0 for (at,) in _addresses(work)])
    _fail(ok, work)
    return np.tril(_rows(work, a.shape[:-2]))


def lu(a: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Factors of P a = L U in one matrix, row swaps, and the permutation they make."""
    *lead, m, n = a.shape
    batch, k = tuple(lead), min(m, n)
    if a.size == 0:
        pivots = np.zeros((*batch, k), np.int32)
        return np.empty(a.shape, a.dtype), pivots, pivots_to_permutation(pivots, m)
    work = _columns(a)
    swaps = np.zeros((len(work), k), np.int32)
    getrf = lapack_routine("getrf", a.dtype)
    ok = np.array([getrf(m, n, at, m, swap) >= 0 for at, swap in _addresses(work, swaps)])
    _fail(ok, work)
    pivots = (swaps - 1).reshape(*batch, k)
    return _rows(work, batch), pivots, pivots_to_permutation(pivots, m)


def pivots_to_permutation(pivots: ndarray, size: int) -> ndarray:
    """The permutation of `size` rows that the row swaps i <-> pivots[i] make, in order.

    >>> pivots_to_permutation(np.array([2, 2, 2], np.int32), 4)
    array([2, 0, 1, 3], dtype=int32)
    """
    swaps = pivots.reshape(int(np.prod(pivots.shape[:-1])), pivots.shape[-1])
    result = np.empty((len(swaps), size), np.int32)
    result[:] = np.arange(size, dtype=np.int32)
    stack = np.arange(len(swaps))
    for i in range(swaps.shape[1]):
        j = swaps[:, i]
        kept = result[:, i].copy()
        result[:, i] = result[stack, j]
        result[stack, j] = kept
    return result.reshape(*pivots.shape[:-1], size)


def geqrf(a: ndarray) -> tuple[ndarray, ndarray]:
    """QR in LAPACK's packed form: R above, reflectors below the diagonal, and their factors."""
    *lead, m, n = a.shape
    batch, k = tuple(lead), min(m, n)
    if a.size == 0:
        return np.empty(a.shape, a.dtype), np.zeros((*batch, k), a.dtype)
    packed = _columns(a)
    taus = np.zeros((len(packed), k), a.dtype)
    _each("geqrf", a.dtype, lambda at, tau: (m, n, at, m, tau), packed, taus)
    return _rows(packed, batch), taus.reshape(*batch, k)


def geqp3(a: ndarray, jpvt: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Column-pivoted QR in packed form, the 1-based column order, and the reflectors' factors."""
    *lead, m, n = a.shape
    batch, k = tuple(lead), min(m, n)
    if a.size == 0:
        order = np.broadcast_to(np.arange(1, n + 1, dtype=np.int32), (*batch, n))
        return np.empty(a.shape, a.dtype), order.copy(), np.zeros((*batch, k), a.dtype)
    packed = _columns(a)
    order = _flat(jpvt.astype(np.int32))
    taus = np.zeros((len(packed), k), a.dtype)
    extra = [np.empty(2 * n, _real(a.dtype))] if _is_complex(a.dtype) else []
    arguments = lambda at, column, tau: (m, n, at, m, column, tau)
    _each("geqp3", a.dtype, arguments, packed, order, taus, tail=extra)
    return _rows(packed, batch), order.reshape(*batch, n), taus.reshape(*batch, k)


def householder_product(a: ndarray, taus: ndarray) -> ndarray:
    """The first n columns of the product of the reflectors stored below a's diagonal."""
    *lead, m, n = a.shape
    k = taus.shape[-1]
    if a.size == 0:
        return np.empty(a.shape, a.dtype)
    packed, factors = _columns(a), _flat(taus)
    name = "ungqr" if _is_complex(a.dtype) else "orgqr"
    _each(name, a.dtype, lambda at, tau: (m, n, k, at, m, tau), packed, factors)
    return _rows(packed, tuple(lead))


def ormqr(a: ndarray, taus: ndarray, c: ndarray, left: bool, transpose: bool) -> ndarray:
    """Q c, Qᴴ c, c Q or c Qᴴ for the Q that the reflectors stored in `a` make."""
    *lead, m, n = c.shape
    k = taus.shape[-1]
    if c.size == 0 or k == 0:
        return c.copy()
    packed, factors, result = _columns(a), _flat(taus), _columns(c)
    rows = a.shape[-2]
    name = "unmqr" if _is_complex(a.dtype) else "ormqr"
    turned = ord("N") if not transpose else ord("C" if _is_complex(a.dtype) else "T")
    head = (ord("L" if left else "R"), turned, m, n, k)
    arguments = lambda at, tau, target: (*head, at, rows, tau, target, m)
    _each(name, a.dtype, arguments, packed, factors, result)
    return _rows(result, tuple(lead))


def qr(a: ndarray, full_matrices: bool) -> tuple[ndarray, ndarray]:
    """Q and R of a = Q R."""
    packed, taus = geqrf(a)
    return _unpack_qr(packed, taus, full_matrices)


def qr_pivoted(a: ndarray, full_matrices: bool) -> tuple[ndarray, ndarray, ndarray]:
    """Q, R and the 0-based column order p of a[:, p] = Q R."""
    free = np.zeros((*a.shape[:-2], a.shape[-1]), np.int32)
    packed, order, taus = geqp3(a, free)
    # JAX leaves the order of an empty matrix at zero.
    return *_unpack_qr(packed, taus, full_matrices), free if a.size == 0 else order - 1


def _unpack_qr(packed: ndarray, taus: ndarray, full_matrices: bool) -> tuple[ndarray, ndarray]:
    *lead, m, n = packed.shape
    k = m if full_matrices else min(m, n)
    if packed.size == 0:
        q = np.broadcast_to(np.eye(m, k, dtype=packed.dtype), (*lead, m, k)).copy()
        return q, np.zeros((*lead, k, n), packed.dtype)
    reflectors = np.zeros((*lead, m, k), packed.dtype)
    reflectors[..., : min(n, k)] = packed[..., : min(n, k)]
    return householder_product(reflectors, taus), np.triu(packed[..., :k, :])


def eigh(a: ndarray, lower: bool) -> tuple[ndarray, ndarray]:
    """Eigenvectors and ascending eigenvalues of the Hermitian matrix in one triangle of `a`."""
    n = _square("eigh", a)
    batch, real = a.shape[:-2], _real(a.dtype)
    if a.size == 0:
        return np.empty(a.shape, a.dtype), np.empty((*batch, n), real)
    vectors = _columns(a)
    values = np.empty((len(vectors), n), real)
    routine = lapack_routine("heevd" if _is_complex(a.dtype) else "syevd", a.dtype)
    head = (ord("V"), ord("L" if lower else "U"), n)
    ask = np.zeros(1, a.dtype), np.zeros(1, real), np.zeros(1, np.int32)
    parts = ask if _is_complex(a.dtype) else (ask[0], ask[2])
    asked = [item for part in parts for item in (_address(part), -1)]
    routine(*head, _address(vectors), n, _address(values), *asked)
    spaces = [np.empty(max(1, int(part[0].real)), part.dtype) for part in parts]
    given = [item for space in spaces for item in (_address(space), space.size)]
    spots = _addresses(vectors, values)
    ok = np.array([routine(*head, at, n, value, *given) == 0 for at, value in spots])
    _fail(ok, vectors, values)
    return _rows(vectors, batch), values.reshape(*batch, n)


def eig(a: ndarray, left: bool, right: bool) -> tuple[ndarray, ...]:
    """Eigenvalues of general matrices, then left and right eigenvectors as asked for."""
    n = _square("eig", a)
    batch, wide = a.shape[:-2], _complex(a.dtype)
    if a.size == 0:
        empty = (np.empty(a.shape, wide),) * (left + right)
        return (np.empty((*batch, n), wide), *empty)
    work = _columns(a)
    shape = work.shape
    vl = np.zeros(shape if left else (len(work), 1, 1), a.dtype)
    vr = np.zeros(shape if right else (len(work), 1, 1), a.dtype)
    # LAPACK's iteration need not end on NaN or infinity.
    ok = np.isfinite(work).all(axis=(1, 2))
    head = (ord("V" if left else "N"), ord("V" if right else "N"), n)
    geev = _geev_complex if _is_complex(a.dtype) else _geev_real
    values = geev(work, vl, vr, head, ok)
    results = [values]
    for wanted, vectors in ((left, vl), (right, vr)):
        if wanted:
            whole = vectors if _is_complex(a.dtype) else _unpack_pairs(values, vectors)
            results.append(whole.astype(wide, copy=False))
    _fail(ok, *results)
    return (values.reshape(*batch, n), *(_rows(v, batch) for v in results[1:]))


def _geev_real(work: ndarray, vl: ndarray, vr: ndarray, head: tuple, ok: ndarray) -> ndarray:
    n, dtype = head[-1], work.dtype
    real, imaginary = np.zeros((2, len(work), n), dtype)
    ldl, ldr = vl.shape[-1], vr.shape[-1]
    arguments = lambda at, re, im, left, right: (*head, at, n, re, im, left, ldl, right, ldr)
    _each("geev", dtype, arguments, work, real, imaginary, vl, vr, chosen=ok)
    values = np.empty((len(work), n), _complex(dtype))
    values.real, values.imag = real, imaginary
    return values


def _geev_complex(work: ndarray, vl: ndarray, vr: ndarray, head: tuple, ok: ndarray) -> ndarray:
    n, dtype = head[-1], work.dtype
    values = np.zeros((len(work), n), dtype)
    reals = [np.empty(2 * n, _real(dtype))]
    ldl, ldr = vl.shape[-1], vr.shape[-1]
    arguments = lambda at, value, left, right: (*head, at, n, value, left, ldl, right, ldr)
    _each("geev", dtype, arguments, work, values, vl, vr, tail=reals, chosen=ok)
    return values


def _unpack_pairs(values: ndarray, packed: ndarray) -> ndarray:
    """Complex eigenvectors from LAPACK's real ones: a pair shares its real and imaginary part.

    Eigenvectors are rows here (columns in column-major order).
    """
    result = packed.astype(values.dtype)
    stack, first = np.nonzero(values.imag > 0)
    pair = packed[stack, first] + 1j * packed[stack, first + 1]
    result[stack, first] = pair
    result[stack, first + 1] = pair.conj()
    return result


def svd(
    a: ndarray, full_matrices: bool, compute_uv: bool, by_qr: bool = False
) -> tuple[ndarray, ...]:
    """Descending singular values, then U and Vᴴ if asked for; `by_qr` picks the slower gesvd."""
    *lead, m, n = a.shape
    batch, k, real = tuple(lead), min(m, n), _real(a.dtype)
    if a.size == 0:
        return _svd_empty(batch, m, n, a.dtype, full_matrices, compute_uv)
    work = _columns(a)
    count = len(work)
    values = np.empty((count, k), real)
    u = np.empty((count, m if full_matrices else k, m) if compute_uv else (count, 1, 1), a.dtype)
    vt = np.empty((count, n, n if full_matrices else k) if compute_uv else (count, 1, 1), a.dtype)
    job = ord("N" if not compute_uv else "A" if full_matrices else "S")
    head = ((job, job) if by_qr else (job,)) + (m, n)
    extra: list[ndarray] = []
    if _is_complex(a.dtype):
        # LAPACK's page for gesdd gives this length for every job.
        size = 5 * k if by_qr else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k)
        extra.append(np.empty(size, real))
    if not by_qr:
        extra.append(np.empty(8 * k, np.int32))
    ldu, ldvt = u.shape[-1], vt.shape[-1]
    arguments = lambda at, value, left, right: (*head, at, m, value, left, ldu, right, ldvt)
    name = "gesvd" if by_qr else "gesdd"
    ok = _each(name, a.dtype, arguments, work, values, u, vt, tail=extra)
    _fail(ok, values, u, vt)
    if not compute_uv:
        return (values.reshape(*batch, k),)
    return values.reshape(*batch, k), _rows(u, batch), _rows(vt, batch)


def _svd_empty(
    batch: tuple[int, ...], m: int, n: int, dtype: np.dtype, full: bool, compute_uv: bool
) -> tuple[ndarray, ...]:
    k = min(m, n)
    values = np.zeros((*batch, k), _real(dtype))
    if not compute_uv:
        return (values,)
    shapes = ((m, m if full else k), (n if full else k, n))
    u, vt = (np.broadcast_to(np.eye(*s, dtype=dtype), (*batch, *s)).copy() for s in shapes)
    return values, u, vt


def schur(a: ndarray, compute_vectors: bool) -> tuple[ndarray, ...]:
    """The Schur form T of a = Z T Zᴴ, then Z if asked for."""
    n = _square("schur", a)
    batch = a.shape[:-2]
    if a.size == 0:
        return (np.empty(a.shape, a.dtype),) * (1 + compute_vectors)
    form = _columns(a)
    vectors = np.zeros(form.shape if compute_vectors else (len(form), 1, 1), a.dtype)
    head = (ord("V" if compute_vectors else "N"), ord("N"), None, n)
    found, flags = np.zeros(1, np.int32), np.zeros(n, np.int32)
    if _is_complex(a.dtype):
        values = [np.empty(n, a.dtype)]
        extra = [np.empty(n, _real(a.dtype)), flags]
    else:
        values = [np.empty(n, a.dtype), np.empty(n, a.dtype)]
        extra = [flags]
    middle = [_address(found), *map(_address, values)]
    ldv = vectors.shape[-1]
    arguments = lambda at, vector: (*head, at, n, *middle, vector, ldv)
    # As in eig: LAPACK's iteration need not end on NaN or infinity.
    ok = np.isfinite(form).all(axis=(1, 2))
    _each("gees", a.dtype, arguments, form, vectors, tail=extra, chosen=ok)
    _fail(ok, form, vectors)
    results = (form, vectors) if compute_vectors else (form,)
    return tuple(_rows(result, batch) for result in results)


def hessenberg(a: ndarray) -> tuple[ndarray, ndarray]:
    """The upper Hessenberg form with its reflectors below, and their factors."""
    n = _square("hessenberg", a)
    batch = a.shape[:-2]
    if a.size == 0 or n == 1:
        return a.copy(), np.zeros((*batch, max(n - 1, 0)), a.dtype)
    packed = _columns(a)
    taus = np.zeros((len(packed), n - 1), a.dtype)
    _each("gehrd", a.dtype, lambda at, tau: (n, 1, n, at, n, tau), packed, taus)
    return _rows(packed, batch), taus.reshape(*batch, n - 1)


def tridiagonal(a: ndarray, lower: bool) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Hermitian matrices made tridiagonal: packed form, diagonal, off-diagonal, factors."""
    n = _square("tridiagonal", a)
    batch, real = a.shape[:-2], _real(a.dtype)
    packed = _columns(a)
    d, e = np.zeros((len(packed), n), real), np.zeros((len(packed), n - 1), real)
    taus = np.zeros((len(packed), n - 1), a.dtype)
    if a.size:
        name = "hetrd" if _is_complex(a.dtype) else "sytrd"
        half = ord("L" if lower else "U")
        arguments = lambda at, diagonal, off, tau: (half, n, at, n, diagonal, off, tau)
        _each(name, a.dtype, arguments, packed, d, e, taus)
    d, e, taus = d.reshape(*batch, n), e.reshape(*batch, n - 1), taus.reshape(*batch, n - 1)
    return _rows(packed, batch), d, e, taus


def triangular_sylvester(a: ndarray, b: ndarray, c: ndarray, adjoint: bool) -> ndarray:
    """x of a x + x b = c, or of aᴴ x + x bᴴ = c, for Schur forms `a` and `b`.

    >>> a, b = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([[3.0]])
    >>> triangular_sylvester(a, b, np.array([[5.0], [5.0]]), False)
    array([[1.],
           [1.]])
    """
    if c.size == 0:
        return c.copy()
    m, n = c.shape[-2:]
    left, right, result = _columns(a), _columns(b), _columns(c)
    routine = lapack_routine("trsyl", a.dtype)
    turned = ord("N" if not adjoint else "C" if _is_complex(a.dtype) else "T")
    scale = np.ones(1, _real(a.dtype))
    for i, (at, other, target) in enumerate(_addresses(left, right, result)):
        routine(turned, turned, 1, m, n, at, m, other, n, target, m, _address(scale))
        result[i] /= scale
    return _rows(result, c.shape[:-2])


def triangular_solve(
    a: ndarray,
    b: ndarray,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> ndarray:
    """x of op(a) x = b, or of x op(a) = b, where only one triangle of `a` is read.

    >>> lower = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> triangular_solve(lower, np.array([[2.0], [9.0]]), True, True, False, False, False)
    array([[1.],
           [2.]])
    """
    result = np.array(b, order="C")
    if b.size == 0:
        return result
    a = np.ascontiguousarray(a.conj() if conjugate_a and not transpose_a else a)
    m, n = b.shape[-2:]
    order = a.shape[-1]
    trsm = blas_routine("trsm", a.dtype)
    turned = _NO_TRANSPOSE
    if transpose_a:
        turned = _CONJUGATE_TRANSPOSE if conjugate_a else _TRANSPOSE
    one = np.ones(1, a.dtype)
    scalars = {"f": ctypes.c_float, "d": ctypes.c_double}
    alpha = _address(one) if _is_complex(a.dtype) else scalars[a.dtype.char](1.0)
    head = (
        ROW_MAJOR,
        _LEFT if left_side else _RIGHT,
        _LOWER if lower else _UPPER,
        turned,
        _UNIT if unit_diagonal else _NON_UNIT,
        m,
        n,
        alpha,
    )
    for matrix, target in _addresses(a.reshape(-1, order, order), result.reshape(-1, m, n)):
        trsm(*head, matrix, order, target, n)
    return result


def tridiagonal_solve(dl: ndarray, d: ndarray, du: ndarray, b: ndarray) -> ndarray:
    """x of A x = b for the tridiagonal A; dl[..., 0] and du[..., -1] are not read."""
    *lead, n, columns = b.shape
    if b.size == 0:
        return b.copy()
    below, middle, above = _flat(dl[..., 1:]), _flat(d), _flat(du[..., :-1])
    result = _columns(b)
    routine = lapack_routine("gtsv", b.dtype)
    spots = _addresses(below, middle, above, result)
    ok = np.array([routine(n, columns, *spot, n) == 0 for spot in spots])
    _fail(ok, result)
    return _rows(result, tuple(lead))
