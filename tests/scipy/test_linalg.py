"""``weft.scipy.linalg`` against SciPy."""

import numpy as np
import pytest
import scipy.linalg as reference

import weft
import weft.numpy as jnp
import weft.scipy.linalg as linalg


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def draw(*shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def close(found, want, tol=1e-8):
    found = np.asarray(found)
    assert found.shape == np.shape(want)
    np.testing.assert_allclose(found, want, rtol=tol, atol=tol)


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


KINDS = [np.float64, np.complex128]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("lower", [False, True])
def test_cholesky(lower, dtype):
    a = draw(3, 3, dtype=dtype)
    a = a @ adjoint(a) + np.eye(3)
    b = draw(3, 2, dtype=dtype, seed=1)
    close(linalg.cholesky(a, lower=lower), reference.cholesky(a, lower=lower))
    factors = linalg.cho_factor(a, lower=lower)
    close(linalg.cho_solve(factors, b), np.linalg.solve(a, b))
    close(linalg.cho_solve(factors, b[:, 0]), np.linalg.solve(a, b[:, 0]))
    close(linalg.solve(a, b, assume_a="pos", lower=lower), np.linalg.solve(a, b))
    close(linalg.solve(a, b[:, 0], assume_a="pos"), np.linalg.solve(a, b[:, 0]))


@pytest.mark.parametrize("dtype", KINDS)
def test_lu(dtype):
    a, b = draw(3, 3, dtype=dtype), draw(3, 2, dtype=dtype, seed=1)
    factors = linalg.lu_factor(a)
    for found, want in zip(factors, reference.lu_factor(a), strict=True):
        close(found, want)
    for trans in (0, 1, 2):
        close(
            linalg.lu_solve(factors, b, trans), reference.lu_solve(reference.lu_factor(a), b, trans)
        )
        close(
            linalg.solve_triangular(a, b, trans, lower=True),
            reference.solve_triangular(a, b, trans, lower=True),
        )
    for shape in ((3, 3), (4, 2), (2, 4)):
        a = draw(*shape, dtype=dtype)
        for found, want in zip(linalg.lu(a), reference.lu(a), strict=True):
            close(found, want)
        p_times_l, u = linalg.lu(a, permute_l=True)
        close(jnp.matmul(p_times_l, u), a)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("mode", ["full", "economic", "r"])
@pytest.mark.parametrize("pivoting", [False, True])
def test_qr(mode, pivoting, dtype):
    a = draw(4, 3, dtype=dtype)
    found = linalg.qr(a, mode=mode, pivoting=pivoting)
    want = reference.qr(a, mode=mode, pivoting=pivoting)
    for x, y in zip(found, want, strict=True):
        close(x, y)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("mode", ["left", "right"])
def test_qr_multiply(mode, conjugate, dtype):
    for shape in ((4, 3), (3, 4), (3, 3)):
        a = draw(*shape, dtype=dtype)
        k = min(shape)
        c = draw(k, 2, dtype=dtype, seed=1) if mode == "left" else draw(2, shape[0], dtype=dtype)
        found = linalg.qr_multiply(a, c, mode, conjugate=conjugate)
        want = reference.qr_multiply(a, c, mode, conjugate=conjugate)
        for x, y in zip(found, want, strict=True):
            close(x, y)


@pytest.mark.parametrize("dtype", KINDS)
def test_eigh_generalised(dtype):
    a, b = draw(4, 4, dtype=dtype), draw(4, 4, dtype=dtype, seed=1)
    a, b = a + adjoint(a), b @ adjoint(b) + np.eye(4)
    w, v = map(np.asarray, linalg.eigh(a, b))
    close(a @ v, b @ v * w)
    w, v = map(np.asarray, linalg.eigh(a, b, type=2))
    close(a @ b @ v, v * w, tol=1e-7)
    w, v = map(np.asarray, linalg.eigh(a, b, type=3))
    close(b @ a @ v, v * w, tol=1e-7)
    close(linalg.eigh(a, eigvals_only=True, eigvals=(1, 2)), np.linalg.eigvalsh(a)[1:3])


@pytest.mark.parametrize("dtype", KINDS)
def test_forms(dtype):
    a = draw(4, 4, dtype=dtype)
    form, q = map(np.asarray, linalg.hessenberg(a, calc_q=True))
    close(q @ form @ adjoint(q), a)
    assert not np.tril(form, -2).any()
    form, z = map(np.asarray, linalg.schur(a))
    close(z @ form @ adjoint(z), a)
    form, z = map(np.asarray, linalg.rsf2csf(form, z))
    close(z @ form @ adjoint(z), a)
    close(np.tril(form, -1), np.zeros((4, 4)))
    assert not np.tril(linalg.schur(a, output="complex")[0], -1).any()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("scale", [1e-3, 0.1, 0.5, 1.0, 20.0])
def test_expm(scale, dtype):
    a = draw(4, 4, dtype=dtype) * scale
    close(linalg.expm(a), reference.expm(a), tol=1e-10 * max(1, np.abs(reference.expm(a)).max()))
    e = draw(4, 4, dtype=dtype, seed=1)
    for x, y in zip(linalg.expm_frechet(a, e), reference.expm_frechet(a, e), strict=True):
        close(x, y, tol=1e-8 * max(1, np.abs(y).max()))


def test_expm_of_stacks_triangles_and_too_large():
    a = draw(2, 3, 3)
    close(linalg.expm(a), np.stack([reference.expm(m) for m in a]))
    upper = np.triu(a[0])
    close(linalg.expm(upper, upper_triangular=True), reference.expm(upper))
    assert np.isnan(linalg.expm(a[0] * 1e9)).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_functions_of_matrices_of_several_blocks(dtype):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((37, 37)) / 6
    a = (a + 1j * rng.standard_normal((37, 37)) / 6 if dtype == "complex128" else a).astype(dtype)
    with weft.enable_x64(True):
        root = np.asarray(linalg.sqrtm(a))
        np.testing.assert_allclose(root @ root, a, atol=1e-11)
        np.testing.assert_allclose(linalg.funm(a, jnp.exp), reference.expm(a), atol=1e-11)
        b, c = a[:33, :33] + 4 * np.eye(33), a[:, :33]
        x = np.asarray(linalg.solve_sylvester(a, b, c))
        np.testing.assert_allclose(a @ x + x @ b, c, atol=1e-11)
        stack = np.stack([a, 2 * a])
        np.testing.assert_allclose(linalg.sqrtm(stack)[1], linalg.sqrtm(2 * a), atol=1e-12)


@pytest.mark.parametrize("dtype", KINDS)
def test_functions_through_schur(dtype):
    a = draw(4, 4, dtype=dtype)
    root = np.asarray(linalg.sqrtm(a))
    close(root @ root, a)
    close(linalg.sqrtm(np.zeros((2, 2))), np.zeros((2, 2)))
    close(linalg.funm(a, jnp.exp), reference.expm(a))
    _, error = linalg.funm(a, jnp.exp, disp=False)
    assert 0 < error < 1e-10
    b, c = draw(3, 3, dtype=dtype, seed=1), draw(4, 3, dtype=dtype, seed=2)
    for method in ("schur", "eigen"):
        x = np.asarray(linalg.solve_sylvester(a, b, c, method=method))
        close(a @ x + x @ b, c)
    assert np.isnan(linalg.solve_sylvester(a, -a, a)).all()


@pytest.mark.parametrize("dtype", KINDS)
def test_polar(dtype):
    tall = draw(4, 3, dtype=dtype)
    for method in ("qdwh", "svd"):
        for x, y in zip(linalg.polar(tall, method=method), reference.polar(tall), strict=True):
            close(x, y)
        found = linalg.polar(adjoint(tall), "left", method=method)
        for x, y in zip(found, reference.polar(adjoint(tall), "left"), strict=True):
            close(x, y)
    with pytest.raises(NotImplementedError, match="method='svd'"):
        linalg.polar(tall, "left")


def test_eigh_tridiagonal():
    d, e = draw(8), draw(7, seed=1)
    whole = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    want = np.linalg.eigvalsh(whole)
    close(linalg.eigh_tridiagonal(d, e, eigvals_only=True), want)
    part = linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(2, 4))
    close(part, want[2:5])
    w, v = map(np.asarray, linalg.eigh_tridiagonal(d, e))
    close(whole @ v, v * w)
    close(v.T @ v, np.eye(8))
    twice = np.kron(np.eye(2), np.diag([1.0, 2.0, 3.0]) + np.eye(3, k=1) + np.eye(3, k=-1))
    w, v = map(np.asarray, linalg.eigh_tridiagonal(np.diag(twice), np.diag(twice, 1)))
    close(twice @ v, v * w)
    close(v.T @ v, np.eye(6))
    z = draw(5, dtype=np.complex128)
    values = linalg.eigh_tridiagonal(np.arange(6.0).astype(complex), z, eigvals_only=True)
    hermitian = np.diag(np.arange(6.0)) + np.diag(z, 1) + np.diag(z.conj(), -1)
    close(values, np.linalg.eigvalsh(hermitian))


def test_block_diag():
    blocks = [draw(2, 3), draw(3), np.float64(2.0)]
    close(linalg.block_diag(*blocks), reference.block_diag(*blocks))
    assert linalg.block_diag().shape == (1, 0)


def test_special_matrices():
    c, r = np.array([1.0, 2.0, 3.0]), np.array([9.0, 8.0, 7.0, 6.0])
    close(linalg.toeplitz(c), reference.toeplitz(c))
    close(linalg.toeplitz(c, r), reference.toeplitz(c, r))
    close(linalg.toeplitz(c * 1j), reference.toeplitz(c * 1j))
    close(linalg.hankel(c), reference.hankel(c))
    close(linalg.hankel(c, r), reference.hankel(c, r))
    close(linalg.circulant(c), reference.circulant(c))
    close(linalg.leslie(r, c), reference.leslie(r, c))
    close(linalg.companion(r), reference.companion(r))
    close(linalg.fiedler(r), reference.fiedler(r))
    for n in range(2, 8):
        a = draw(n) + 3
        close(linalg.fiedler_companion(a), reference.fiedler_companion(a))
    for mode in ("full", "valid", "same"):
        for n in (1, 2, 5):
            close(linalg.convolution_matrix(c, n, mode), reference.convolution_matrix(c, n, mode))
    for n in (1, 2, 5):
        close(linalg.hilbert(n), reference.hilbert(n))
        close(linalg.invhilbert(n), reference.invhilbert(n))
        close(linalg.helmert(n, full=True), reference.helmert(n, full=True))
        close(linalg.dft(n), reference.dft(n))
        close(linalg.dft(n, "sqrtn"), reference.dft(n, "sqrtn"))
        for kind in ("symmetric", "lower", "upper"):
            close(linalg.pascal(n, kind), reference.pascal(n, kind))
            close(linalg.invpascal(n, kind), reference.invpascal(n, kind))
    close(linalg.hadamard(4), reference.hadamard(4))
    stack = draw(2, 3)
    close(linalg.toeplitz(stack), np.stack([reference.toeplitz(row) for row in stack]))


def test_errors():
    a = np.eye(3)
    for call, text in [
        (lambda: linalg.solve(a, a, assume_a="odd"), "assume_a"),
        (lambda: linalg.qr(a, mode="odd"), "mode"),
        (lambda: linalg.solve_triangular(a, a, trans=5), "trans"),
        (lambda: linalg.schur(a, output="odd"), "output"),
        (lambda: linalg.expm(np.ones((2, 3))), "square"),
        (lambda: linalg.solve_sylvester(a, a, np.ones((2, 3))), "solve_sylvester"),
        (lambda: linalg.hadamard(3), "power of two"),
        (lambda: linalg.pascal(3, "odd"), "kind"),
        (lambda: linalg.polar(a, "up"), "side"),
        (lambda: linalg.leslie(np.ones(3), np.ones(3)), "leslie"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()
