"""Sparse arrays agree with dense ones, whatever their layout; derivatives, jit and vmap too."""

import itertools
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.experimental import sparse
from weft.experimental.sparse import BCOO, BCSR, COO, CSC, CSR, linalg
from weft.test_util import check_grads

RNG = np.random.default_rng(0)
SHAPE = (2, 3, 4, 5)
LAYOUTS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (4, 0), (0, 4)]  # batch and dense dimensions


def make(*shape, dtype=np.float32):
    values = RNG.standard_normal(shape) * (RNG.random(shape) < 0.4)
    return (3 * values).astype(dtype)


def close(found, expected, tol=1e-5):
    found = found.todense() if isinstance(found, sparse.JAXSparse) else found
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tol, atol=tol)


X = make(*SHAPE)


@pytest.fixture(params=LAYOUTS, ids=lambda p: f"batch{p[0]}dense{p[1]}")
def mat(request):
    n_batch, n_dense = request.param
    return BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense)


def test_there_and_back(mat):
    close(mat, X, 0)
    close(mat.sort_indices(), X, 0)
    close(mat.sum_duplicates(), X)
    close(weft.jit(lambda m: m.todense())(mat), X, 0)
    if mat.n_batch:
        close(weft.vmap(lambda m: m.todense())(mat), X, 0)


def test_reductions(mat):
    for axes in [(0,), (1,), (2,), (3,), (0, 1), (1, 2), (0, 3), (0, 1, 2, 3)]:
        close(sparse.bcoo_reduce_sum(mat, axes=axes), X.sum(axes))


def test_products_with_dense(mat):
    for shape in [(5,), (4, 1), (2, 1, 1, 5), (3, 4, 5), ()]:
        v = make(*shape)
        data = sparse.bcoo_multiply_dense(mat, v)
        close(BCOO((data, mat.indices), shape=mat.shape), X * v)


def test_products_over_dimensions(mat):
    y = make(5, 3, 7)
    for left, right in [((3,), (0,)), ((1,), (1,)), ((3, 1), (0, 1)), ((), ())]:
        numbers = ((left, right), ((), ()))
        expected = lax.dot_general(X, y, numbers)
        found = sparse.bcoo_dot_general(mat, y, dimension_numbers=numbers)
        close(found, expected)
        turned = ((right, left), ((), ()))
        found = sparse.bcoo_dot_general(y, mat, dimension_numbers=turned)
        close(found, lax.dot_general(y, X, turned))
    numbers = (((3,), (1,)), ((0,), (0,)))
    y = make(2, 5, 3)
    expected = lax.dot_general(X, y, numbers)
    close(sparse.bcoo_dot_general(mat, y, dimension_numbers=numbers), expected)
    both = sparse.bcoo_dot_general(mat, BCOO.fromdense(y), dimension_numbers=numbers)
    assert isinstance(both, BCOO) and both.unique_indices
    close(both, expected)


def test_parts(mat):
    close(sparse.bcoo_rev(mat, [0, 2]), X[::-1, :, ::-1])
    close(sparse.bcoo_rev(mat, [1, 3]), X[:, ::-1, :, ::-1])
    part = sparse.bcoo_slice(
        mat, start_indices=(0, 1, 0, 2), limit_indices=(1, 3, 4, 5), strides=(1, 1, 2, 2)
    )
    close(part, X[0:1, 1:3, ::2, 2::2])
    # starts that do not fit are moved inside
    close(sparse.bcoo_dynamic_slice(mat, (1, 1, 3, 2), (1, 2, 2, 3)), X[1:2, 1:3, 2:4, 2:5])


def test_wider_and_joined(mat):
    wide = sparse.bcoo_broadcast_in_dim(
        mat, shape=(7, 2, 3, 2, 4, 5, 1), broadcast_dimensions=(1, 2, 4, 5)
    )
    close(wide, np.broadcast_to(X[None, :, :, None, :, :, None], (7, 2, 3, 2, 4, 5, 1)))
    for axis in range(4 - mat.n_dense):
        close(sparse.bcoo_concatenate([mat, mat], dimension=axis), np.concatenate([X, X], axis))
    twice = BCOO.fromdense(2 * X, n_batch=mat.n_batch, n_dense=mat.n_dense)
    close(sparse.bcoo_multiply_sparse(mat, twice), 2 * X * X)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(LAYOUTS[::2], LAYOUTS)))
def test_layouts(old, new):
    mat = BCOO.fromdense(X, n_batch=old[0], n_dense=old[1])
    other = mat.update_layout(n_batch=new[0], n_dense=new[1], on_inefficient=None)
    assert (other.n_batch, other.n_dense) == new
    close(other, X, 0)


def test_inefficient_layouts_are_refused():
    mat = BCOO.fromdense(make(3, 4))
    with pytest.raises(sparse.SparseEfficiencyError, match="many zeros"):
        mat.update_layout(n_batch=1)
    with pytest.warns(sparse.SparseEfficiencyWarning):
        mat.update_layout(n_dense=1, on_inefficient="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BCOO.fromdense(make(1, 4)).update_layout(n_batch=1).n_batch == 1


def test_reshape_and_squeeze():
    mat = BCOO.fromdense(X)
    for sizes in [(6, 20), (120,), (2, 60), (5, 4, 3, 2), (2, 1, 3, 20)]:
        close(mat.reshape(sizes), X.reshape(sizes), 0)
    turned = sparse.bcoo_reshape(mat, new_sizes=(20, 6), dimensions=(3, 0, 2, 1))
    close(turned, X.transpose(3, 0, 2, 1).reshape(20, 6), 0)
    both = BCOO.fromdense(X, n_batch=1, n_dense=1)
    close(both.reshape(2, 1, 12, 5), X.reshape(2, 1, 12, 5), 0)
    with pytest.raises(ValueError, match="mixing"):
        both.reshape(3, 40)
    z = make(1, 3, 1, 4)
    for n_batch, n_dense in [(0, 0), (1, 0), (0, 1), (2, 1)]:
        small = BCOO.fromdense(z, n_batch=n_batch, n_dense=n_dense)
        close(sparse.bcoo_squeeze(small, dimensions=(0, 2)), z[0, :, 0], 0)
        wide = sparse.bcoo_broadcast_in_dim(
            small, shape=(2, 3, 5, 4), broadcast_dimensions=(0, 1, 2, 3)
        )
        close(wide, np.broadcast_to(z, (2, 3, 5, 4)), 0)


def test_padding_never_counts():
    # as many stored elements as places, most of them padding
    mat = BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]]), nse=4)
    assert mat.indices.tolist()[2:] == [[2, 2], [2, 2]]
    spoilt = BCOO((jnp.array([1.0, 2.0, 7.0, jnp.inf]), mat.indices), shape=(2, 2))
    dense = np.array([[0.0, 1.0], [2.0, 0.0]])
    close(spoilt, dense, 0)
    close(spoilt.sum(0), dense.sum(0), 0)
    assert spoilt.sum().item() == 3.0
    close(spoilt.sum_duplicates(nse=4), dense, 0)
    close(spoilt.T, dense.T, 0)
    close(spoilt[0], dense[0], 0)
    close(spoilt.reshape(4), dense.reshape(4), 0)
    close(spoilt * spoilt, dense * dense, 0)


def test_duplicates_are_summed():
    mat = BCOO((jnp.array([1.0, 2.0, -3.0]), jnp.array([[1], [1], [0]])), shape=(3,))
    close(mat, [-3.0, 3.0, 0.0], 0)
    summed = mat.sum_duplicates()
    assert summed.nse == 2 and summed.unique_indices and summed.indices_sorted
    close(sparse.sparsify(jnp.abs)(mat), [3.0, 3.0, 0.0], 0)
    close(mat * mat, [9.0, 9.0, 0.0], 0)
    gone = (mat - mat).sum_duplicates()
    assert gone.nse == 2  # zero by arithmetic, not as stored
    assert BCOO.fromdense(jnp.ones(3)).sum_duplicates(nse=2).nse == 2
    once = sparse.bcoo_extract(mat, jnp.arange(3.0), assume_unique=False)
    close(once, [0.0, 1.0, 0.0], 0)


def test_operators():
    a, b = make(3, 4), make(3, 4)
    x, y = BCOO.fromdense(a), BCOO.fromdense(b)
    close(x + y, a + b)
    close(x - y, a - b)
    close(x * y, a * b)
    close(x * 2, a * 2)
    close(3 * x, 3 * a)
    close(x / 2, a / 2)
    close(-x, -a)
    close(abs(x), abs(a))
    close(x**2, a**2)
    close(x @ b.T, a @ b.T)
    close(b.T @ x, b.T @ a)
    close(jnp.asarray(b).T @ x, b.T @ a)
    close(x @ y.T, a @ b.T)
    close(x + jnp.asarray(b), a + b)
    close(x * b[0], a * b[0])
    safe = np.where(b == 0, 2, b)
    close(x / safe, a / safe)
    close(x[1], a[1])
    close(x[:, 1:3], a[:, 1:3])
    close(x[..., -1], a[..., -1])
    close(x[None], a[None])
    close(x[jnp.array([2, 0])], a[[2, 0]])
    close(x[1, 2], a[1, 2])
    assert len(x) == 3
    for row, expected in zip(x, a, strict=True):
        close(row, expected)
    close(x.sum(1), a.sum(1))
    assert x.sum().item() == pytest.approx(a.sum(), abs=1e-5)
    assert x.astype(jnp.int32).dtype == np.int32


@pytest.mark.parametrize(
    "fun", [lambda x: x + 1, lambda x: x == x, jnp.cos, jnp.exp, lambda x: 1 / x, lambda x: x**0]
)
def test_what_would_be_dense_is_refused(fun):
    with pytest.raises(NotImplementedError, match="todense"):
        sparse.sparsify(fun)(BCOO.fromdense(make(2, 2)))


def test_sparsify():
    a, v = make(3, 4), make(4, 2)
    x = BCOO.fromdense(a)
    fun = lambda m, v: {"out": jnp.tanh(m) @ v + 1, "sum": jnp.sum(m * 2, axis=0)}
    found = sparse.sparsify(fun)(x, v)
    expected = fun(jnp.asarray(a), v)
    close(found["out"], expected["out"])
    assert isinstance(found["sum"], BCOO)
    close(found["sum"], expected["sum"])
    close(weft.jit(sparse.sparsify(fun))(x, v)["out"], expected["out"])
    inner = weft.jit(lambda m: jnp.concatenate([m, m]).T)
    close(sparse.sparsify(inner)(x), np.concatenate([a, a]).T)
    with pytest.raises(NotImplementedError, match="cumsum"):
        sparse.sparsify(jnp.cumsum)(x)


def test_derivatives():
    a, v = make(3, 4), make(4)
    x = BCOO.fromdense(a)

    def loss(m, v):
        return jnp.sum(jnp.sin(m @ v))

    expected = weft.grad(loss, (0, 1))(jnp.asarray(a), v)
    found = sparse.grad(loss, (0, 1))(x, v)
    assert isinstance(found[0], BCOO) and (found[0].indices == x.indices).all()
    close(found[0], np.where(a != 0, expected[0], 0))
    close(found[1], expected[1])
    value, grad = sparse.value_and_grad(loss)(x, v)
    close(value, loss(x, v))
    close(grad.data, found[0].data)
    (by_v,) = [weft.grad(lambda v: loss(x, v))(v)]
    close(by_v, expected[1])
    jac = np.where(a != 0, weft.jacrev(lambda m: m @ v)(jnp.asarray(a)), 0)
    for transform in (sparse.jacrev, sparse.jacfwd):
        found = transform(lambda m: m @ v)(x)
        assert found.n_batch == 1
        close(found, jac)
    out, aux = sparse.grad(lambda m: ((m @ v).sum(), "aux"), has_aux=True)(x)
    assert aux == "aux" and out.nse == x.nse


def test_second_derivatives_and_batches():
    a, vs = make(3, 4), make(5, 4)
    x = BCOO.fromdense(a)
    loss = lambda data, v: jnp.sum(jnp.sin(BCOO((data, x.indices), shape=x.shape) @ v))
    dense = lambda data, v: jnp.sum(jnp.sin(jnp.zeros((3, 4)).at[tuple(x.indices.T)].add(data) @ v))
    for transform in (weft.hessian, lambda f: weft.jit(weft.jacfwd(weft.grad(f)))):
        close(transform(loss)(x.data, vs[0]), transform(dense)(x.data, vs[0]), 1e-4)
    close(weft.vmap(lambda v: x @ v)(vs), vs @ a.T)
    close(weft.vmap(weft.grad(loss), (None, 0))(x.data, vs),
          weft.vmap(weft.grad(dense), (None, 0))(x.data, vs))  # fmt: skip
    transposed = weft.linear_transpose(
        lambda d: BCOO((d, x.indices), shape=x.shape).todense(), x.data
    )
    close(transposed(jnp.asarray(a))[0], x.data)


@pytest.mark.parametrize("cls", [COO, CSR, CSC, BCSR])
def test_other_formats(cls):
    a, v, b = make(5, 4), make(4), make(4, 3)
    mat = cls.fromdense(a)
    assert mat.nse == np.count_nonzero(a) and mat.shape == (5, 4)
    close(mat, a, 0)
    close(mat.T, a.T, 0)
    close(mat @ v, a @ v)
    close(mat @ b, a @ b)
    close(weft.jit(lambda m, v: m @ v)(mat, v), a @ v)
    close(weft.grad(lambda v: (mat @ v).sum())(v), a.sum(0))
    padded = cls.fromdense(a, nse=mat.nse + 3)
    close(padded, a, 0)
    close(padded @ v, a @ v)
    close(sparse.todense(mat), a, 0)
    close(sparse.eye(3, 4, 1, sparse_format=cls.__name__.lower()), np.eye(3, 4, 1), 0)
    close(sparse.empty((3, 4), sparse_format=cls.__name__.lower()), np.zeros((3, 4)), 0)
    grad = sparse.grad(lambda m: jnp.sum((m @ v) ** 2))(mat)
    close(grad, np.where(a != 0, 2 * np.outer(a @ v, v), 0), 1e-4)
    close(sparse.sparsify(jnp.sin)(mat), np.sin(a))


def test_matrix_functions_transposed():
    a, v, b = make(5, 4), make(5), make(5, 3)
    coo, csr = COO.fromdense(a), CSR.fromdense(a)
    close(sparse.coo_matvec(coo, v, transpose=True), a.T @ v)
    close(sparse.csr_matvec(csr, v, transpose=True), a.T @ v)
    close(sparse.coo_matmat(coo, b, transpose=True), a.T @ b)
    close(sparse.csr_matmat(csr, b, transpose=True), a.T @ b)


@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_bcsr_layouts(n_batch, n_dense):
    a = make(*(2, 3, 4, 5)[1 - n_batch : 3 + n_dense])
    mat = BCSR.fromdense(a, n_batch=n_batch, n_dense=n_dense)
    assert (mat.n_batch, mat.n_dense) == (n_batch, n_dense)
    close(mat, a, 0)
    close(mat.to_bcoo(), a, 0)
    close(BCSR.from_bcoo(mat.to_bcoo()), a, 0)
    close(sparse.bcsr_concatenate([mat, mat], dimension=0), np.concatenate([a, a]), 0)
    close(sparse.bcsr_sum_duplicates(mat), a, 0)
    if n_batch:
        close(weft.vmap(lambda m: m.todense())(mat), a, 0)
    found = sparse.bcsr_extract(mat.indices, mat.indptr, a)
    close(found, mat.data, 0)


def test_sampled_products():
    a, b = make(6, 8), make(8, 5)
    places = jnp.array([[0, 1], [5, 4], [6, 9]])
    numbers = (((1,), (0,)), ((), ()))
    found = sparse.bcoo_dot_general_sampled(a, b, places, dimension_numbers=numbers)
    close(found, [(a @ b)[0, 1], (a @ b)[5, 4], 0.0])
    a, b = make(2, 6, 8), make(2, 8, 5)
    numbers = (((2,), (1,)), ((0,), (0,)))
    places = jnp.broadcast_to(places, (2, 3, 2))
    found = sparse.bcoo_dot_general_sampled(a, b, places, dimension_numbers=numbers)
    close(found[:, :2], (a @ b)[:, [0, 5], [1, 4]])


def test_convolution():
    a, k = make(1, 1, 9), make(1, 1, 4)
    for options in [
        {"window_strides": [1], "padding": [(0, 0)]},
        {"window_strides": [2], "padding": [(3, 1)], "rhs_dilation": [2]},
        {"window_strides": [1], "padding": [(1, 0)], "lhs_dilation": [2]},
    ]:
        expected = lax.conv_general_dilated(a, k, **options)
        found = sparse.bcoo_conv_general_dilated(BCOO.fromdense(a), BCOO.fromdense(k), **options)
        close(found, expected)


def test_random_places_are_those_of_the_key():
    # drawn by JAX 0.10.2 from the same key
    mat = sparse.random_bcoo(weft.random.key(0), (4, 5), nse=0.3)
    assert mat.indices.tolist() == [[0, 0], [0, 3], [1, 4], [1, 0], [3, 3], [2, 4]]
    expected = [0.8423141, 0.18237865, 0.2271781, 0.12072563, 0.19181347, 0.722015]
    np.testing.assert_allclose(mat.data, expected, rtol=1e-6)
    batched = sparse.random_bcoo(
        weft.random.key(0), (2, 4, 5), nse=3, n_batch=1, sorted_indices=True
    )
    assert batched.indices.tolist()[1] == [[0, 4], [1, 2], [3, 1]]
    np.testing.assert_allclose(batched.data[1], [0.722015, 0.19181347, 0.12072563], rtol=1e-6)


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"\(batch..., nse, dense...\)"):
        BCOO((jnp.ones(3), jnp.zeros((3, 2), int)), shape=(4,))
    with pytest.raises(weft.errors.ConcretizationTypeError, match="nse="):
        weft.jit(BCOO.fromdense)(jnp.ones(3))
    with pytest.raises(weft.errors.ConcretizationTypeError, match="nse="):
        weft.jit(lambda m: m.sum_duplicates())(sparse.eye(3))
    with pytest.raises(TypeError, match="contracting"):
        sparse.bcoo_dot_general(
            sparse.eye(3), jnp.ones(4), dimension_numbers=(((1,), (0,)), ((), ()))
        )
    with pytest.raises(NotImplementedError, match="between batch"):
        BCOO.fromdense(make(2, 3), n_batch=1).transpose((1, 0))
    assert weft.jit(lambda x: BCOO.fromdense(x, nse=2))(jnp.array([0.0, 1.0])).nse == 2


def test_programs_show_the_operations():
    mat = sparse.eye(3)
    names = lambda fun, *args: [e.primitive.name for e in weft.make_jaxpr(fun)(*args).eqns]
    assert names(lambda m: m.todense(), mat) == ["bcoo_todense"]
    assert names(lambda m: m @ jnp.ones(3), mat)[-1] == "bcoo_dot_general"
    assert names(lambda m: m.T, mat) == ["bcoo_transpose"]
    assert repr(mat) == "BCOO(float32[3, 3], nse=3)"
    assert repr(BCOO.fromdense(X, n_batch=1, n_dense=2)).endswith("n_batch=1, n_dense=2)")


def test_scipy_matrices():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    a = make(4, 3)
    close(BCOO.from_scipy_sparse(scipy_sparse.csr_matrix(a)), a, 0)
    close(BCSR.from_scipy_sparse(scipy_sparse.coo_matrix(a)), a, 0)


def test_largest_eigenvalues():
    half = RNG.standard_normal((40, 40)).astype(np.float32)
    a = half @ half.T
    start = RNG.standard_normal((40, 3)).astype(np.float32)
    expected = np.linalg.eigvalsh(a.astype(np.float64))[::-1][:3]
    for mat in (a, lambda x: a @ x, BCOO.fromdense(a)):
        values, vectors, rounds = linalg.lobpcg_standard(mat, start)
        np.testing.assert_allclose(values, expected, rtol=1e-5)
        np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-2)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-5)
        assert 0 < rounds < 40
    assert linalg.lobpcg_standard(a, start, m=2)[2] == 2
    with pytest.raises(ValueError, match="eigenvalues"):
        linalg.lobpcg_standard(a, np.ones((40, 8), np.float32))
    with pytest.raises(ValueError, match="columns"):
        linalg.lobpcg_standard(a[:20], start)


def test_linear_systems():
    a = make(6, 6) + 5 * np.eye(6, dtype=np.float32)
    b = make(6)
    mat = CSR.fromdense(a)
    solve = lambda data, b: linalg.spsolve(data, mat.indices, mat.indptr, b)
    close(solve(mat.data, b), np.linalg.solve(a, b), 1e-4)
    close(weft.jit(solve)(mat.data, b), np.linalg.solve(a, b), 1e-4)
    check_grads(solve, (mat.data, jnp.asarray(b)), order=1, atol=1e-2, rtol=1e-2)
