"""cuSOLVER, cuBLAS and cuSPARSE made of LAPACK: their functions on memory of the host.

A function takes what the library's takes, in its order; matrices are by columns.
"""

import ctypes

import numpy as np

from weft.backends.cuda import libraries
from weft.lapack import stacks as lapack

DTYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
BY_NUMBER = {0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}
TRIANGLES = {0: np.tril, 1: np.triu}


def number(x):
    return getattr(x, "value", x)


def vector(at, count, dtype):
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(number(at)), dtype)


def matrix(at, rows, columns, leading, dtype):
    """A matrix by columns, which can be written."""
    found = vector(at, columns * leading, dtype).reshape(columns, leading)
    return found[:, :rows].T


def real(dtype):
    return np.zeros(1, dtype).real.dtype


def hermitian(a, uplo):
    part = TRIANGLES[uplo](a)
    off = part - np.diag(np.diag(part))
    return off.conj().T + off + np.diag(np.diag(part).real).astype(a.dtype)


def turn(a, trans):
    return {0: a, 1: a.T, 2: a.conj().T}[trans]


class Functions:
    """What all three have: functions by name, with a letter for the type in it."""

    def __getattr__(self, name):
        prefix = next(p for p in ("cusolverDn", "cublas", "cusparse") if name.startswith(p))
        rest = name[len(prefix) :]
        if rest.endswith(("SetStream", "SetStream_v2")):
            return lambda *_: 0
        for word in ("_bufferSizeExt", "_bufferSize"):
            if rest.endswith(word):
                return lambda *args: self.sizes(args)
        own = getattr(type(self), rest, None)
        if own is not None:
            return lambda *args: own(self, *args)
        dtype = np.dtype(DTYPES[rest[0]])
        own = getattr(type(self), rest[1:].removesuffix("_v2"), None)
        if own is None:
            raise AttributeError(name)
        return lambda handle, *args: own(self, dtype, *args) or 0

    def sizes(self, args):
        for x in args:
            if hasattr(x, "_obj"):
                x._obj.value = 64
        return 0

    # --- cuSOLVER ---------------------------------------------------------------------------------

    def CreateParams(self, out):
        return 0

    CreateGesvdjInfo = CreateParams

    def potrf(self, dtype, uplo, n, a, lda, work, length, info):
        own = matrix(a, n, n, lda, dtype)
        whole = hermitian(own, uplo)
        with np.errstate(all="ignore"):
            lower = lapack.cholesky(np.ascontiguousarray(whole))
        vector(info, 1, np.int32)[0] = int(np.isnan(lower).any())
        factor = lower if uplo == 0 else lower.conj().T
        own[:] = np.where(TRIANGLES[uplo](np.ones((n, n))) > 0, factor, own)

    def potrfBatched(self, dtype, uplo, n, table, lda, info, count):
        for i, a in enumerate(vector(table, count, np.int64)):
            self.potrf(dtype, uplo, n, int(a), lda, None, 0, number(info) + 4 * i)

    def getrf(self, dtype, m, n, a, lda, work, pivots, info):
        own = matrix(a, m, n, lda, dtype)
        own[:], swaps, _ = lapack.lu(np.ascontiguousarray(own))
        vector(pivots, min(m, n), np.int32)[:] = swaps + 1
        vector(info, 1, np.int32)[0] = 0

    def geqrf(self, dtype, m, n, a, lda, tau, work, length, info):
        own = matrix(a, m, n, lda, dtype)
        own[:], vector(tau, min(m, n), dtype)[:] = lapack.geqrf(np.ascontiguousarray(own))

    def orgqr(self, dtype, m, n, k, a, lda, tau, work, length, info):
        own = matrix(a, m, n, lda, dtype)
        own[:] = lapack.householder_product(np.ascontiguousarray(own), vector(tau, k, dtype))

    ungqr = orgqr

    def ormqr(self, dtype, side, trans, m, n, k, a, lda, tau, c, ldc, work, length, info):
        assert trans in (0, 1 if dtype.kind == "f" else 2)
        own = matrix(c, m, n, ldc, dtype)
        order = n if side else m
        v = np.ascontiguousarray(matrix(a, order, k, lda, dtype))
        taus = vector(tau, k, dtype)
        own[:] = lapack.ormqr(v, taus, np.ascontiguousarray(own), not side, trans != 0)

    unmqr = ormqr

    def sytrd(self, dtype, uplo, n, a, lda, d, e, tau, work, length, info):
        own = matrix(a, n, n, lda, dtype)
        packed, *rest = lapack.tridiagonal(np.ascontiguousarray(own), uplo == 0)
        own[:] = packed
        vector(d, n, real(dtype))[:] = rest[0]
        vector(e, n - 1, real(dtype))[:] = rest[1]
        vector(tau, n - 1, dtype)[:] = rest[2]

    hetrd = sytrd

    def syevd(self, dtype, job, uplo, n, a, lda, w, work, length, info):
        own = matrix(a, n, n, lda, dtype)
        v, values = lapack.eigh(np.ascontiguousarray(own), uplo == 0)
        own[:] = v
        vector(w, n, real(dtype))[:] = values
        vector(info, 1, np.int32)[0] = int(np.isnan(values).any())

    heevd = syevd

    def XsyevBatched(self, handle, params, job, uplo, n, kind, a, lda, own, w, compute, *rest):
        _, _, _, _, info, count = rest
        n, dtype = number(n), np.dtype(BY_NUMBER[kind])
        assert np.dtype(BY_NUMBER[own]) == real(dtype) and compute == kind
        for i in range(number(count)):
            at = number(a) + i * n * n * dtype.itemsize
            values = number(w) + i * n * real(dtype).itemsize
            self.syevd(dtype, job, uplo, n, at, n, values, None, 0, number(info) + 4 * i)
        return 0

    def Xgeev(self, handle, params, left, right, n, kind, a, lda, wide, w, *rest):
        _, _, _, own, vr, _, compute, _, _, _, _, info = rest
        assert left == 0 and own == kind == compute and wide == kind % 4 + 4
        n, dtype = number(n), np.dtype(BY_NUMBER[kind])
        found = lapack.eig(np.ascontiguousarray(matrix(a, n, n, n, dtype)), False, bool(right))
        vector(w, n, BY_NUMBER[wide])[:] = found[0]
        vector(info, 1, np.int32)[0] = 0
        if right:
            target = matrix(vr, n, n, n, dtype)
            for j in range(n):
                turns = found[0][j].imag if dtype.kind == "f" else 0
                target[:, j] = (
                    found[1][:, j - 1].imag if turns < 0
                    else found[1][:, j] if dtype.kind == "c"
                    else found[1][:, j].real
                )  # fmt: skip
        return 0

    def gesvdj(self, dtype, job, econ, m, n, a, lda, s, u, ldu, v, ldv, work, length, info, params):
        own = np.ascontiguousarray(matrix(a, m, n, lda, dtype))
        found = lapack.svd(own, not econ, bool(job), False)
        k = min(m, n)
        vector(s, k, real(dtype))[:] = found[0]
        vector(info, 1, np.int32)[0] = int(np.isnan(found[0]).any())
        if job:
            matrix(u, m, found[1].shape[1], ldu, dtype)[:] = found[1]
            matrix(v, n, found[2].shape[0], ldv, dtype)[:] = found[2].conj().T

    def gesvdjBatched(self, dtype, job, m, n, a, lda, s, u, ldu, v, ldv, work, length, *rest):
        info, params, count = rest
        assert max(m, n) <= 32
        size = dtype.itemsize
        for i in range(count):
            at = number(a) + i * m * n * size
            values = number(s) + i * min(m, n) * real(dtype).itemsize
            left, right = number(u) + i * m * m * size, number(v) + i * n * n * size
            told = number(info) + 4 * i
            self.gesvdj(
                dtype, job, 0, m, n, at, lda, values, left, ldu, right, ldv, None, 0, told, params
            )

    def gesvd(self, dtype, jobu, jobvt, m, n, a, lda, s, u, ldu, vt, ldvt, *rest):
        assert m >= n and jobu.value == jobvt.value
        job, info = chr(jobu.value), rest[-1]
        own = np.ascontiguousarray(matrix(a, m, n, lda, dtype))
        found = lapack.svd(own, job == "A", job != "N", True)
        vector(s, n, real(dtype))[:] = found[0]
        vector(info, 1, np.int32)[0] = int(np.isnan(found[0]).any())
        if job != "N":
            matrix(u, m, found[1].shape[1], ldu, dtype)[:] = found[1]
            matrix(vt, n, n, ldvt, dtype)[:] = found[2]

    # --- cuBLAS -----------------------------------------------------------------------------------

    def getrfBatched(self, dtype, n, table, lda, pivots, info, count):
        for i, a in enumerate(vector(table, count, np.int64)):
            own = number(pivots) + 4 * n * i
            self.getrf(dtype, n, n, int(a), lda, None, own, number(info) + 4 * i)

    def geqrfBatched(self, dtype, m, n, table, lda, taus, info, count):
        pairs = zip(vector(table, count, np.int64), vector(taus, count, np.int64), strict=True)
        for a, tau in pairs:
            self.geqrf(dtype, m, n, int(a), lda, int(tau), None, 0, None)

    def trsm(self, dtype, side, uplo, trans, unit, m, n, alpha, a, lda, b, ldb):
        assert vector(alpha, 1, dtype)[0] == 1
        order = n if side else m
        triangle = TRIANGLES[uplo](matrix(a, order, order, lda, dtype))
        if unit:
            triangle = triangle - np.diag(np.diag(triangle)) + np.eye(order, dtype=dtype)
        own, left = matrix(b, m, n, ldb, dtype), turn(triangle, trans)
        own[:] = np.linalg.solve(left.T, own.T).T if side else np.linalg.solve(left, own)

    def trsv(self, dtype, uplo, trans, unit, n, a, lda, x, step):
        assert step == 1
        one = np.ones(1, dtype)
        self.trsm(dtype, 0, uplo, trans, unit, n, 1, one.ctypes.data, a, lda, x, n)

    def trsmBatched(self, dtype, *args):
        *head, a, lda, b, ldb, count = args
        pairs = zip(vector(a, count, np.int64), vector(b, count, np.int64), strict=True)
        for one, two in pairs:
            self.trsm(dtype, *head, int(one), lda, int(two), ldb)

    # --- cuSPARSE ---------------------------------------------------------------------------------

    def gtsv2(self, dtype, n, k, below, middle, above, b, ldb, work):
        dl, d, du = (vector(p, n, dtype) for p in (below, middle, above))
        assert dl[0] == 0 and du[-1] == 0
        own = matrix(b, n, k, ldb, dtype)
        own[:] = lapack.tridiagonal_solve(dl, d, du, np.ascontiguousarray(own))


class Older(Functions):
    """The libraries before they had functions for any type."""

    XsyevBatched = Xgeev = None

    def __getattr__(self, name):
        if name.startswith("cusolverDnX"):
            raise AttributeError(name)
        return super().__getattr__(name)


def install(monkeypatch, functions=Functions):
    """Have libraries be those of the host."""
    own = functions()
    monkeypatch.setattr(libraries, "library", lambda name: own)
    monkeypatch.setattr(libraries, "has", lambda name: True)
    monkeypatch.setattr(libraries, "handle", lambda name, create: None)
    monkeypatch.setattr(libraries, "begin", lambda name, create: None)
