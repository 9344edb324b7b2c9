"""LAPACK's decompositions against their defining equations and SciPy."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.linalg

from weft.base import knobs
from weft.lapack import openblas
from weft.lapack import stacks as lapack

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(3, 3), (4, 2), (2, 5), (1, 1), (2, 3, 4, 4), (3, 5, 2)]
SHAPES += [(0, 3, 3), (0, 0), (3, 0), (0, 4)]
SQUARES = [shape for shape in SHAPES if shape[-1] == shape[-2]]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def adjoint(a):
    return a.swapaxes(-1, -2).conj()


def close(actual, wanted):
    wanted = np.asarray(wanted)
    assert actual.shape == wanted.shape
    assert actual.flags.c_contiguous
    eps = np.finfo(actual.dtype).eps if actual.dtype.kind in "fc" else 0
    np.testing.assert_allclose(actual, wanted, rtol=500 * eps, atol=500 * eps)


@pytest.fixture(params=DTYPES, ids=lambda d: np.dtype(d).name)
def dtype(request):
    return request.param


@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_cholesky(shape, dtype):
    a = draw(shape, dtype)
    a = a @ adjoint(a) + np.eye(shape[-1], dtype=dtype)
    factor = lapack.cholesky(a)
    assert factor.dtype == dtype
    close(factor, np.tril(factor))
    close(factor @ adjoint(factor), a)


def test_cholesky_failure_is_nan_and_stays_alone(dtype):
    a = np.stack([np.eye(2), -np.eye(2)]).astype(dtype)
    factor = lapack.cholesky(a)
    assert np.array_equal(factor[0], np.eye(2))
    assert np.isnan(factor[1][np.tril_indices(2)]).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu(shape, dtype):
    a = draw(shape, dtype)
    packed, pivots, permutation = lapack.lu(a)
    m, n = shape[-2:]
    k = min(m, n)
    assert pivots.dtype == permutation.dtype == np.int32
    assert pivots.shape == (*shape[:-2], k)
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=dtype)
    upper = np.triu(packed[..., :k, :])
    close(lower @ upper, np.take_along_axis(a, permutation[..., None], -2))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(shape, full, dtype):
    a = draw(shape, dtype)
    q, r = lapack.qr(a, full)
    close(q @ r, a)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)))
    close(r, np.triu(r))
    if a.size and a.ndim == 2:
        wanted = scipy.linalg.qr(a, mode="full" if full else "economic")
        close(q, wanted[0])
        close(r, wanted[1])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (2, 3, 3), (3, 0)], ids=str)
def test_qr_pivoted(shape, full, dtype):
    a = draw(shape, dtype)
    q, r, order = lapack.qr_pivoted(a, full)
    assert order.dtype == np.int32
    close(q @ r, np.take_along_axis(a, order[..., None, :], -1))
    diagonal = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    assert (np.diff(diagonal) <= 1e-6).all()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 2), (2, 4)], ids=str)
def test_ormqr(left, transpose, shape, dtype):
    packed, taus = lapack.geqrf(draw(shape, dtype))
    q = lapack.qr(draw(shape, dtype), full_matrices=True)[0]
    q = adjoint(q) if transpose else q
    m = shape[-2]
    c = draw((*shape[:-2], m, 3) if left else (*shape[:-2], 3, m), dtype, seed=1)
    close(lapack.ormqr(packed, taus, c, left, transpose), q @ c if left else c @ q)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_eigh(shape, lower, dtype):
    a = draw(shape, dtype)
    triangle = np.tril(a, -1) if lower else np.triu(a, 1)
    whole = triangle + adjoint(triangle) + np.eye(shape[-1]) * a.real
    vectors, values = lapack.eigh(a, lower)
    assert values.dtype == a.real.dtype
    close(vectors @ (values[..., None] * adjoint(vectors)), whole.astype(dtype))
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_eig(shape, dtype):
    a = draw(shape, dtype)
    values, left, right = lapack.eig(a, True, True)
    assert values.dtype == left.dtype == right.dtype == np.result_type(dtype, np.complex64)
    close(a.astype(values.dtype) @ right, right * values[..., None, :])
    close(adjoint(left) @ a, values[..., None] * adjoint(left))
    if a.size:
        np.testing.assert_allclose(np.linalg.norm(right, axis=-2), 1, rtol=1e-5)
    (only,) = lapack.eig(a, False, False)
    np.testing.assert_allclose(np.sort_complex(only), np.sort_complex(values), rtol=1e-4, atol=1e-4)


def test_eig_of_nan_is_nan_and_returns():
    values, vectors = lapack.eig(np.stack([np.full((2, 2), np.nan), np.eye(2)]), False, True)
    assert np.isnan(values[0]).all() and np.isnan(vectors[0]).all()
    assert np.array_equal(values[1], [1, 1])


@pytest.mark.parametrize("by_qr", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd(shape, full, by_qr, dtype):
    a = draw(shape, dtype)
    values, u, vt = lapack.svd(a, full, True, by_qr)
    k = min(shape[-2:])
    assert values.dtype == a.real.dtype and values.shape == (*shape[:-2], k)
    close((u[..., :k] * values[..., None, :]) @ vt[..., :k, :], a)
    rows = shape[-2] if full else k
    close(adjoint(u) @ u, np.broadcast_to(np.eye(rows), (*shape[:-2], rows, rows)))
    close(lapack.svd(a, full, False, by_qr)[0], values)


@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_schur(shape, dtype):
    a = draw(shape, dtype)
    form, vectors = lapack.schur(a, True)
    close(vectors @ form @ adjoint(vectors), a)
    close(lapack.schur(a, False)[0], form)
    assert not np.tril(form, -2).any()


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 3, 3)], ids=str)
def test_hessenberg(shape, dtype):
    a = draw(shape, dtype)
    packed, taus = lapack.hessenberg(a)
    form = np.triu(packed, -1)
    inner = lapack.householder_product(packed[..., 1:, :-1], taus)
    q = np.zeros_like(a)
    q[..., 0, 0] = 1
    q[..., 1:, 1:] = inner
    close(q @ form @ adjoint(q), a)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 3, 3)], ids=str)
def test_tridiagonal(shape, lower, dtype):
    a = draw(shape, dtype)
    a = a + adjoint(a)
    packed, d, e, taus = lapack.tridiagonal(a, lower)
    n = shape[-1]
    assert packed.shape == shape
    assert d.shape == (*shape[:-1],) and e.shape == taus.shape == (*shape[:-2], n - 1)
    whole = np.zeros(shape, d.dtype)
    at = np.arange(n)
    whole[..., at, at] = d
    whole[..., at[1:], at[:-1]] = whole[..., at[:-1], at[1:]] = e
    np.testing.assert_allclose(
        np.linalg.eigvalsh(whole), np.linalg.eigvalsh(a), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("conjugate", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(left_side, lower, transpose, conjugate, unit, dtype):
    a = draw((2, 3, 3), dtype) / 4 + 2 * np.eye(3, dtype=dtype)
    whole = np.tril(a) if lower else np.triu(a)
    if unit:
        whole[..., range(3), range(3)] = 1
    whole = whole.swapaxes(-1, -2) if transpose else whole
    whole = whole.conj() if conjugate else whole
    b = draw((2, 3, 4) if left_side else (2, 4, 3), dtype, seed=1)
    x = lapack.triangular_solve(a, b, left_side, lower, transpose, conjugate, unit)
    close(whole @ x if left_side else x @ whole, b)


def test_tridiagonal_solve(dtype):
    dl, d, du = (draw((2, 4), dtype, seed) for seed in range(3))
    b = draw((2, 4, 3), dtype, seed=4)
    whole = np.zeros((2, 4, 4), dtype)
    whole[..., range(4), range(4)] = d
    whole[..., range(1, 4), range(3)] = dl[..., 1:]
    whole[..., range(3), range(1, 4)] = du[..., :-1]
    x = lapack.tridiagonal_solve(dl, d, du, b)
    np.testing.assert_allclose(whole @ x, b, rtol=1e-3, atol=1e-3)
    assert np.isnan(lapack.tridiagonal_solve(0 * dl, 0 * d, 0 * du, b)).all()


def test_other_dtypes_are_named():
    with pytest.raises(TypeError, match="float16"):
        lapack.cholesky(np.eye(2, dtype=np.float16))


def test_loading_is_late_starts_no_thread_and_keeps_the_environment():
    code = (
        "import os, sys\n"
        "from weft.lapack import openblas\n"
        "from weft.lapack import stacks as lapack\n"
        "import numpy as np\n"
        "assert openblas.library.cache_info().currsize == 0\n"
        "count = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = count()\n"
        "lapack.lu(np.eye(300))\n"
        "assert count() == before\n"
        "assert 'OPENBLAS_NUM_THREADS' not in os.environ\n"
        "assert openblas.library().scipy_openblas_get_num_threads() == 1\n"
    )
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("counts threads through /proc")
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_thread_loads_the_library_for_others():
    openblas.library.cache_clear()
    with knobs.scope(num_threads=2):
        openblas.preload()
    for _ in range(6000):
        if openblas.library.cache_info().currsize:
            break
        time.sleep(0.01)
    assert openblas.library.cache_info().currsize == 1
    assert openblas.library().scipy_openblas_get_num_threads() == 1
