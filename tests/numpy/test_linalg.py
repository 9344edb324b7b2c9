"""``weft.numpy.linalg`` against NumPy, its derivatives by finite differences."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp

linalg = jnp.linalg


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


def close(found, want, tol=1e-9):
    found = np.asarray(found)
    assert found.shape == np.shape(want)
    np.testing.assert_allclose(found, want, rtol=tol, atol=tol)


def check_grad(fun, *args, tol=1e-6, step=1e-6):
    """Directional derivatives of a real sum of the results are central differences."""
    tangents = [draw(*a.shape, dtype=a.dtype, seed=9 + i) for i, a in enumerate(args)]
    _, dot = weft.jvp(fun, args, tuple(tangents))
    above = fun(*(a + step * t for a, t in zip(args, tangents, strict=True)))
    below = fun(*(a - step * t for a, t in zip(args, tangents, strict=True)))
    want = (np.asarray(above) - np.asarray(below)) / (2 * step)
    np.testing.assert_allclose(dot, want, rtol=tol, atol=tol * max(1.0, np.abs(want).max()))

    def total(*xs):
        return jnp.real(fun(*xs)).sum()

    grads = weft.grad(total, tuple(range(len(args))))(*args)
    along = sum(np.real(np.sum(np.asarray(g) * t)) for g, t in zip(grads, tangents, strict=True))
    np.testing.assert_allclose(along, np.real(want).sum(), rtol=tol, atol=tol)


KINDS = [np.float64, np.complex128]
SQUARES = [(1, 1), (2, 2), (3, 3), (5, 5), (2, 4, 4)]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", SQUARES)
def test_determinants(shape, dtype):
    a = draw(*shape, dtype=dtype)
    close(linalg.det(a), np.linalg.det(a))
    sign, log = linalg.slogdet(a)
    want = np.linalg.slogdet(a)
    close(sign, want.sign)
    close(log, want.logabsdet)
    check_grad(linalg.det, a)
    check_grad(lambda a: linalg.slogdet(a).logabsdet, a)
    check_grad(lambda a: linalg.slogdet(a).sign, a, step=1e-7, tol=1e-5)


def test_slogdet_by_qr_and_of_singular_matrices():
    a = draw(2, 4, 4)
    for found, want in zip(linalg.slogdet(a, method="qr"), np.linalg.slogdet(a), strict=True):
        close(found, want)
    sign, log = linalg.slogdet(np.zeros((3, 3)))
    assert sign == 0 and log == -np.inf
    with pytest.raises(ValueError, match="'lu' or 'qr'"):
        linalg.slogdet(a, method="svd")


def test_gradient_of_det_at_singular_matrices_is_the_adjugate():
    a = draw(4, 4)
    a[3] = a[0] + a[1]
    grad = np.asarray(weft.grad(linalg.det)(a))
    u, s, vh = np.linalg.svd(a)
    want = np.linalg.det(u) * np.linalg.det(vh) * np.prod(s[:3]) * np.outer(u[:, 3], vh[3])
    close(grad, want)
    close(weft.grad(linalg.det)(np.ones((4, 4))), np.zeros((4, 4)))


@pytest.mark.parametrize("dtype", KINDS)
def test_solve_and_inv(dtype):
    a, stack = draw(3, 3, dtype=dtype), draw(2, 3, 3, dtype=dtype, seed=1)
    b, v = draw(3, 2, dtype=dtype, seed=2), draw(3, dtype=dtype, seed=3)
    for left, right in ((a, b), (a, v), (stack, b), (a, stack), (stack, stack)):
        close(linalg.solve(left, right), np.linalg.solve(left, right))
        check_grad(linalg.solve, left, right)
    close(linalg.solve(stack, v), np.stack([np.linalg.solve(m, v) for m in stack]))
    close(linalg.inv(stack), np.linalg.inv(stack))
    check_grad(linalg.inv, a)
    batched = weft.vmap(linalg.solve, in_axes=(0, None))(stack, b)
    close(batched, np.linalg.solve(stack, b))


def test_solve_errors():
    with pytest.raises(ValueError, match="matrix on the left"):
        linalg.solve(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=r"\(\.\.\., m, m\)"):
        linalg.solve(np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="square"):
        linalg.inv(np.ones((3, 2)))
    with pytest.raises(TypeError, match="list"):
        linalg.inv([[1.0]])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 4, 3)])
def test_pinv(shape, dtype):
    a = draw(*shape, dtype=dtype)
    close(linalg.pinv(a), np.linalg.pinv(a))
    check_grad(linalg.pinv, a)


def test_pinv_cutoffs():
    a = np.diag([1.0, 1e-3])
    close(linalg.pinv(a, 0.1), np.diag([1.0, 0.0]))
    close(linalg.pinv(a, rcond=0.1), np.diag([1.0, 0.0]))
    close(linalg.pinv(a + 0 * a.T, hermitian=True), np.linalg.inv(a))
    assert linalg.pinv(np.ones((0, 2))).shape == (2, 0)
    with pytest.raises(ValueError, match="not both"):
        linalg.pinv(a, 0.1, rcond=0.1)


@pytest.mark.parametrize("shape,right", [((4, 3), (4,)), ((4, 3), (4, 2)), ((3, 4), (3,))])
def test_lstsq(shape, right):
    a, b = draw(*shape), draw(*right, seed=1)
    want = np.linalg.lstsq(a, b, rcond=None)
    for found, value in zip(linalg.lstsq(a, b, numpy_resid=True), want, strict=True):
        close(found, np.asarray(value).reshape(np.shape(found)))
    check_grad(lambda a, b: linalg.lstsq(a, b)[0], a, b)


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", KINDS)
def test_matrix_norms(ord, dtype):
    a = draw(2, 4, 3, dtype=dtype)
    for axis in ((1, 2), (2, 1), (0, -1)):
        for keepdims in (False, True):
            found = linalg.norm(a, ord, axis, keepdims)
            close(found, np.linalg.norm(a, ord, axis, keepdims))
    check_grad(lambda a: linalg.norm(a, ord, (-2, -1)), a)


@pytest.mark.parametrize("ord", [None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", KINDS)
def test_vector_norms(ord, dtype):
    a = draw(4, 3, dtype=dtype)
    close(linalg.norm(a, ord, axis=1), np.linalg.norm(a, ord, axis=1))
    close(linalg.norm(a, ord, axis=0, keepdims=True), np.linalg.norm(a, ord, axis=0, keepdims=True))
    if ord is not None:
        want = np.linalg.vector_norm(a, ord=ord)
        close(linalg.vector_norm(a, ord=ord), want)
    if ord not in (0,):
        check_grad(lambda a: linalg.norm(a, ord, axis=1), a)


def test_norm_of_everything_and_errors():
    a = draw(2, 3, 4)
    close(linalg.norm(a), np.linalg.norm(a))
    close(linalg.norm(a, keepdims=True), np.linalg.norm(a, keepdims=True))
    close(linalg.matrix_norm(a), np.linalg.matrix_norm(a))
    with pytest.raises(ValueError, match="one axis for vectors or two"):
        linalg.norm(a, 2)
    with pytest.raises(ValueError, match="matrix norm"):
        linalg.norm(a[0], "nope")
    with pytest.raises(ValueError, match="vector norm"):
        linalg.vector_norm(a, ord="inf")


def test_cond_and_rank():
    a = draw(3, 3)
    for p in (None, 1, -1, 2, -2, "fro", np.inf):
        close(linalg.cond(a, p), np.linalg.cond(a, p))
    assert linalg.cond(np.ones((2, 2)), 1) == np.inf
    assert np.isnan(linalg.cond(np.full((2, 2), np.nan), 1))
    assert linalg.matrix_rank(np.ones((3, 3))) == 1
    assert np.array_equal(linalg.matrix_rank(np.stack([np.eye(3), np.ones((3, 3))])), [3, 1])
    assert linalg.matrix_rank(np.diag([1.0, 0.1]), 0.5) == 1
    assert linalg.matrix_rank(np.array([0.0, 1.0])) == 1


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 6])
def test_matrix_power(n):
    a = draw(2, 3, 3)
    close(linalg.matrix_power(a, n), np.linalg.matrix_power(a, n), tol=1e-7)
    with pytest.raises(TypeError, match="integer"):
        linalg.matrix_power(a, 1.5)
    with pytest.raises(TypeError, match="square"):
        linalg.matrix_power(a[0, :2], 2)


@pytest.mark.parametrize("dtype", KINDS)
def test_decompositions(dtype):
    a = draw(2, 4, 3, dtype=dtype)
    square = a.conj().swapaxes(-1, -2) @ a
    lower = linalg.cholesky(square)
    close(lower, np.linalg.cholesky(square))
    close(linalg.cholesky(square, upper=True), np.linalg.cholesky(square, upper=True))
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        close(jnp.matmul(q, r), a)
        close(linalg.qr(a, mode).R, r)
    assert linalg.qr(a, "r").shape == (2, 3, 3)
    packed, taus = linalg.qr(a, "raw")
    assert packed.shape == (2, 3, 4) and taus.shape == (2, 3)
    with pytest.raises(ValueError, match="mode"):
        linalg.qr(a, "nope")
    u, s, vh = linalg.svd(a, full_matrices=False)
    close(jnp.matmul(u * s[..., None, :].astype(u.dtype), vh), a)
    close(linalg.svdvals(a), np.linalg.svd(a, compute_uv=False))
    w, v = linalg.eigh(square)
    close(w, np.linalg.eigvalsh(square))
    close(linalg.eigvalsh(square), np.asarray(w))
    close(jnp.matmul(square, v), v * w[..., None, :].astype(v.dtype))


def test_svd_of_hermitian_matrices():
    a = draw(2, 4, 4)
    a = a + a.swapaxes(-1, -2)
    u, s, vh = linalg.svd(a, hermitian=True)
    close(jnp.matmul(u * s[..., None, :], vh), a)
    close(s, np.linalg.svd(a, compute_uv=False))
    close(linalg.svd(a, hermitian=True, compute_uv=False), np.asarray(s))


def test_eigenvalues_of_general_matrices():
    a = draw(2, 4, 4)
    w, v = linalg.eig(a)
    close(jnp.matmul(a.astype(complex), v), v * w[..., None, :])
    close(np.sort_complex(linalg.eigvals(a)), np.sort_complex(np.linalg.eigvals(a)))
    with pytest.raises(ValueError, match="'L' or 'U'"):
        linalg.eigh(a, "X")


def test_tensor_solves():
    a, b = draw(2, 3, 6), draw(2, 3, seed=1)
    close(linalg.tensorsolve(a, b), np.linalg.tensorsolve(a, b))
    moved = np.moveaxis(a, -1, 0)
    close(linalg.tensorsolve(moved, b, axes=(0,)), np.linalg.tensorsolve(moved, b, axes=(0,)))
    c = draw(4, 6, 8, 3)
    close(linalg.tensorinv(c), np.linalg.tensorinv(c), tol=1e-7)
    with pytest.raises(ValueError, match="positive ind"):
        linalg.tensorinv(c, 0)
    with pytest.raises(ValueError, match="equal products"):
        linalg.tensorinv(c, 1)


def test_products():
    arrays = [draw(2, 3), draw(3, 4, seed=1), draw(4, 5, seed=2), draw(5, seed=3)]
    close(linalg.multi_dot(arrays), np.linalg.multi_dot(arrays))
    close(linalg.multi_dot([arrays[3], arrays[2].T]), arrays[3] @ arrays[2].T)
    x, y = draw(2, 3), draw(2, 3, seed=1)
    close(linalg.cross(x, y), np.linalg.cross(x, y))
    close(linalg.outer(x[0], y[0]), np.linalg.outer(x[0], y[0]))
    close(linalg.vecdot(x, y), np.linalg.vecdot(x, y))
    close(linalg.matmul(x, y.T), x @ y.T)
    close(linalg.tensordot(x, y), np.linalg.tensordot(x, y))
    close(linalg.matrix_transpose(x), x.T)
    close(linalg.diagonal(x, offset=1), np.linalg.diagonal(x, offset=1))
    close(linalg.trace(x), np.linalg.trace(x))
    with pytest.raises(ValueError, match="two or more"):
        linalg.multi_dot([x])
    with pytest.raises(ValueError, match="inner sizes"):
        linalg.multi_dot([x, x])
    with pytest.raises(ValueError, match="two vectors"):
        linalg.outer(x, y)
    with pytest.raises(ValueError, match="length 3"):
        linalg.cross(x.T, y.T)


def test_integers_are_promoted():
    with weft.enable_x64(False):
        assert linalg.inv(np.array([[2, 1], [1, 3]])).dtype == np.float32
        assert linalg.norm(np.array([3, 4])) == 5
        assert linalg.eigvals(np.array([[2, 1], [1, 3]])).dtype == np.complex64


@pytest.mark.parametrize("call", [jnp.dot, jnp.matmul, lambda x, y: x @ y])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((4,), (3,)), ((2, 3), (4,)), ((4,), (3, 2))])
def test_products_of_sizes_that_do_not_fit_say_which_axes_those_are(call, shapes):
    x, y = map(jnp.ones, shapes)
    axis = "last" if y.ndim == 1 else "second-to-last"
    with pytest.raises(
        TypeError, match=f"the {axis} axis of the second, which must be of the same"
    ):
        call(x, y)


def test_stacks_of_matrices_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match=r"got shapes \(5, 2, 3\) and \(5, 2, 3\)"):
        jnp.matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 2, 3)))
