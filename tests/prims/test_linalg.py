"""Linear algebra primitives: values, derivatives by finite differences, transposes, batches."""

import numpy as np
import pytest

import weft
from weft import lax
from weft.lapack import stacks as lapack
from weft.lax import linalg
from weft.prims.linalg.matrix import triu

DTYPES = [np.float64, np.complex128]
STACKS = [(), (2,)]


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def draw(shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def positive(shape, dtype=np.float64, seed=0):
    a = draw(shape, dtype, seed)
    return a @ adjoint(a) + np.eye(shape[-1], dtype=dtype)


def flat(out):
    return list(out) if isinstance(out, (list, tuple)) else [out]


def check_jvp(fun, *args, step=1e-5, tol=1e-6):
    """Forward derivatives are central differences, and reverse ones agree with forward ones."""
    tangents = [draw(a.shape, a.dtype, seed=50 + i) for i, a in enumerate(args)]
    outs, dots = weft.jvp(lambda *xs: flat(fun(*xs)), args, tuple(tangents))
    above = flat(fun(*(a + step * t for a, t in zip(args, tangents, strict=True))))
    below = flat(fun(*(a - step * t for a, t in zip(args, tangents, strict=True))))
    for dot, high, low in zip(dots, above, below, strict=True):
        want = (np.asarray(high) - np.asarray(low)) / (2 * step)
        np.testing.assert_allclose(dot, want, rtol=tol, atol=tol * max(1, np.abs(want).max()))
    _, pull = weft.vjp(lambda *xs: flat(fun(*xs)), *args)
    cotangents = [draw(o.shape, o.dtype, seed=80 + i) for i, o in enumerate(outs)]
    back = pull(cotangents)
    forward = sum(np.sum(np.asarray(d) * c) for d, c in zip(dots, cotangents, strict=True))
    reverse = sum(np.sum(np.asarray(g) * t) for g, t in zip(back, tangents, strict=True))
    np.testing.assert_allclose(np.real(forward), np.real(reverse), rtol=1e-8, atol=1e-8)


def check_batch(fun, *args, axis=1, tol=1e-12):
    """A batch along any axis is a stacked loop."""
    size = 3
    scale = np.arange(1, size + 1)
    stacked = [np.stack([a * s for s in scale], min(axis, a.ndim)) for a in args]
    axes = tuple(min(axis, a.ndim) for a in args)
    for mapped in [
        axes,
        *((a if i == k else None for i, a in enumerate(axes)) for k in range(len(axes))),
    ]:
        mapped = tuple(mapped)
        given = [s if m is not None else a for s, a, m in zip(stacked, args, mapped, strict=True)]
        found = weft.vmap(lambda *xs: flat(fun(*xs)), in_axes=mapped)(*given)
        for i in range(size):
            one = [g if m is None else np.take(g, i, m) for g, m in zip(given, mapped, strict=True)]
            for x, want in zip(found, flat(fun(*one)), strict=True):
                np.testing.assert_allclose(x[i], want, rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_cholesky(stack, dtype):
    a = positive((*stack, 3, 3), dtype)
    np.testing.assert_allclose(linalg.cholesky(a), np.linalg.cholesky(a), rtol=1e-12)
    check_jvp(linalg.cholesky, a)
    check_batch(linalg.cholesky, a)


def test_cholesky_reads_one_triangle_when_told():
    a = np.array([[4.0, np.nan], [2.0, 5.0]])
    found = linalg.cholesky(a, symmetrize_input=False)
    np.testing.assert_allclose(found, [[2, 0], [1, 2]])


def test_cholesky_of_indefinite_is_nan():
    found = np.asarray(linalg.cholesky(np.stack([np.eye(2), -np.eye(2)])))
    assert np.array_equal(found[0], np.eye(2))
    assert np.isnan(found[1][np.tril_indices(2)]).all()


def test_cholesky_update():
    r, w = np.linalg.cholesky(positive((4, 4))).T.copy(), draw((4,), seed=1)
    found = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_allclose(found.T @ found, r.T @ r + np.outer(w, w), rtol=1e-12)
    check_jvp(lambda r, w: linalg.cholesky_update(triu(r), w), r, w)
    check_batch(linalg.cholesky_update, r, w)


def test_symmetric_product():
    a, c = draw((2, 3, 4)), positive((2, 3, 3), seed=1)

    def fun(a, c):
        return linalg.symmetric_product(a, c, alpha=2.0, beta=0.5)

    np.testing.assert_allclose(fun(a, c), 2 * a @ adjoint(a) + c / 2, rtol=1e-12)
    check_jvp(fun, a, c)
    check_batch(fun, a, c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("conjugate", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(left_side, lower, transpose, conjugate, unit, dtype):
    a = draw((2, 3, 3), dtype) / 4 + 2 * np.eye(3, dtype=dtype)
    b = draw((2, 3, 2) if left_side else (2, 2, 3), dtype, seed=1)

    def fun(a, b):
        return linalg.triangular_solve(
            a,
            b,
            left_side=left_side,
            lower=lower,
            transpose_a=transpose,
            conjugate_a=conjugate,
            unit_diagonal=unit,
        )

    whole = np.tril(a) if lower else np.triu(a)
    if unit:
        whole[..., range(3), range(3)] = 1
    whole = np.swapaxes(whole, -1, -2) if transpose else whole
    whole = whole.conj() if conjugate else whole
    x = np.asarray(fun(a, b))
    np.testing.assert_allclose(whole @ x if left_side else x @ whole, b, rtol=1e-10, atol=1e-10)
    check_batch(fun, a, b)
    if not (conjugate and dtype == np.complex128):  # conjugation is not complex-linear
        check_jvp(fun, a, b)


def test_triangular_solve_of_a_vector():
    a = np.array([[2.0, 0.0], [1.0, 4.0]])
    found = linalg.triangular_solve(a, np.array([2.0, 9.0]), left_side=True, lower=True)
    np.testing.assert_allclose(found, [1, 2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_solve(dtype):
    dl, du = draw((2, 4), dtype), draw((2, 4), dtype, 1)
    d, b = draw((2, 4), dtype, 2) + 4, draw((2, 4, 3), dtype, 3)
    whole = np.zeros((2, 4, 4), dtype)
    whole[..., range(4), range(4)] = d
    whole[..., range(1, 4), range(3)] = dl[..., 1:]
    whole[..., range(3), range(1, 4)] = du[..., :-1]
    found = np.asarray(linalg.tridiagonal_solve(dl, d, du, b))
    np.testing.assert_allclose(whole @ found, b, rtol=1e-10)
    again = linalg.tridiagonal_solve(dl, d, du, b, perturb_singular=True)
    np.testing.assert_allclose(again, found, rtol=1e-9)
    check_jvp(linalg.tridiagonal_solve, dl, d, du, b)
    check_batch(linalg.tridiagonal_solve, dl, d, du, b, axis=0)


def test_tridiagonal_solve_of_singular_systems():
    zero, ones = np.zeros(3, np.float32), np.ones((3, 1), np.float32)
    assert np.isnan(linalg.tridiagonal_solve(zero, zero, zero, ones)).all()
    found = linalg.tridiagonal_solve(zero, zero, zero, ones, perturb_singular=True)
    np.testing.assert_allclose(found, np.full((3, 1), 8.507059e37), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3), (2, 4, 3), (2, 3, 4)])
def test_lu(shape, dtype):
    a = draw(shape, dtype)
    check_jvp(lambda a: linalg.lu(a)[0], a)
    check_batch(linalg.lu, a)


def test_pivots_to_permutation():
    pivots = np.array([[2, 3, 2], [0, 1, 2]], np.int32)
    found = linalg.lu_pivots_to_permutation(pivots, 4)
    assert np.array_equal(found, [[2, 3, 0, 1], [0, 1, 2, 3]])
    with pytest.raises(ValueError, match="at least"):
        linalg.lu_pivots_to_permutation(pivots, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 4, 3), (2, 3, 4)])
def test_qr(shape, full_matrices, pivoting, dtype):
    a = draw(shape, dtype)

    def fun(a):
        return linalg.qr(a, full_matrices=full_matrices, pivoting=pivoting)[:2]

    check_jvp(fun, a)
    check_batch(fun, a, tol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(left, transpose, dtype):
    packed, taus = lapack.geqrf(draw((4, 3), dtype))
    c = draw((4, 4), dtype, seed=2)

    def fun(c):
        return linalg.ormqr(packed, taus, c, left=left, transpose=transpose)

    q = np.asarray(linalg.qr(draw((4, 3), dtype))[0])
    q = adjoint(q) if transpose else q
    np.testing.assert_allclose(fun(c), q @ c if left else c @ q, rtol=1e-10, atol=1e-10)
    check_jvp(fun, c)
    check_batch(lambda c: linalg.ormqr(packed, taus, c, left=left, transpose=transpose), c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_eigh(stack, dtype):
    a = positive((*stack, 3, 3), dtype)

    def projectors(a):
        v, w = linalg.eigh(a)
        vectors = weft.numpy.moveaxis(v, -1, -2)
        return w, vectors[..., None] * vectors[..., None, :].conj()

    check_jvp(projectors, a)
    check_batch(projectors, a, tol=1e-9)


def test_eigh_of_equal_eigenvalues():
    _, dot = weft.jvp(lambda a: linalg.eigh(a)[1], (np.eye(2),), (np.diag([1.0, 2.0]),))
    np.testing.assert_allclose(dot, [1, 2])
    vectors = weft.jvp(lambda a: linalg.eigh(a)[0], (np.eye(2),), (np.diag([1.0, 2.0]),))[1]
    assert np.isnan(np.asarray(vectors)).any()


def test_eigh_of_a_part():
    a = positive((4, 4))
    v, w = linalg.eigh(a)
    part_v, part_w = linalg.eigh(a, subset_by_index=(1, 3))
    np.testing.assert_allclose(part_w, np.asarray(w)[1:3])
    np.testing.assert_allclose(part_v, np.asarray(v)[:, 1:3])
    check_jvp(lambda a: linalg.eigh(a, subset_by_index=(1, 3))[1], a)


@pytest.mark.parametrize("stack", STACKS)
def test_eigenvalues(stack):
    a = draw((*stack, 3, 3), np.complex128, seed=2)

    def values(a):
        (w,) = linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
        return w

    check_jvp(values, a)
    check_batch(values, a, tol=1e-9)


def test_eigenvectors_have_derivatives_when_asked_for():
    a = draw((3, 3), np.complex128, seed=2)
    check_jvp(lambda a: linalg.eig(a, enable_eigvec_derivs=True)[0], a)

    def squares(a):
        return [abs(x) ** 2 for x in linalg.eig(a, enable_eigvec_derivs=True)[1:]]

    _, dots = weft.jvp(squares, (a,), (draw((3, 3), np.complex128, seed=3),))
    t = draw((3, 3), np.complex128, seed=3) * 1e-6
    for dot, high, low in zip(dots, squares(a + t), squares(a - t), strict=True):
        np.testing.assert_allclose(dot, (np.asarray(high) - low) / 2e-6, atol=1e-6)
    with pytest.raises(NotImplementedError, match="enable_eigvec_derivs"):
        weft.jvp(lambda a: linalg.eig(a), (a,), (a,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 4, 3), (2, 3, 4)])
def test_svd(shape, dtype):
    a = draw(shape, dtype)
    check_jvp(lambda a: linalg.svd(a, compute_uv=False), a)

    def rebuilt(a):
        u, s, vh = linalg.svd(a, full_matrices=False)
        return weft.numpy.matmul(u * (s**2)[..., None, :].astype(u.dtype), vh)

    check_jvp(rebuilt, a)
    check_batch(rebuilt, a, tol=1e-9)


def test_svd_of_a_part_and_by_qr():
    a = draw((4, 3))
    u, s, vh = linalg.svd(a, full_matrices=False)
    part = linalg.svd(a, full_matrices=False, subset_by_index=(0, 2))
    for x, want in zip(part, (u[:, :2], s[:2], vh[:2]), strict=True):
        np.testing.assert_allclose(x, want)
    by_qr = linalg.svd(a, compute_uv=False, algorithm=linalg.SvdAlgorithm.QR)
    np.testing.assert_allclose(by_qr, s, rtol=1e-12)
    check_jvp(
        lambda a: linalg.svd(a, full_matrices=False, compute_uv=False, subset_by_index=(0, 2)),
        a,
    )
    with pytest.raises(NotImplementedError, match="full_matrices=False"):
        weft.jvp(linalg.svd, (a,), (a,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_forms_without_derivatives(dtype):
    a = draw((2, 4, 4), dtype)
    for fun in (linalg.hessenberg, linalg.schur, linalg.tridiagonal):
        check_batch(fun, a)
        with pytest.raises(NotImplementedError, match="derivative"):
            weft.jvp(fun, (a,), (a,))
    form, vectors = map(np.asarray, linalg.schur(a))
    np.testing.assert_allclose(vectors @ form @ adjoint(vectors), a, atol=1e-12)


def test_results_for_narrow_floats_are_rounded_once():
    a = positive((3, 3)).astype(np.float16)
    found = linalg.cholesky(a)
    assert found.dtype == np.float16
    wide = linalg.cholesky(((a + a.T) / 2).astype(np.float32))
    assert np.array_equal(found, np.asarray(wide).astype(np.float16))


def test_errors_name_what_was_given():
    with pytest.raises(ValueError, match=r"cholesky needs square matrices.*\(3, 2\)"):
        linalg.cholesky(np.ones((3, 2)), symmetrize_input=False)
    for function in (linalg.cholesky, linalg.eigh):
        with pytest.raises(TypeError, match=r"as many rows as columns, got shape \(2, 3, 4\)"):
            function(np.ones((2, 3, 4)))
    with pytest.raises(TypeError, match="at least 2 axes"):
        linalg.lu(np.ones(3))
    with pytest.raises(TypeError, match="int"):
        linalg.lu(np.ones((2, 2), np.int32))
    with pytest.raises(TypeError, match="same dtype"):
        linalg.triangular_solve(np.eye(2), np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"needs b of shape \(2, k\), got \(3, 1\)"):
        linalg.triangular_solve(np.eye(2), np.ones((3, 1)), left_side=True)
    with pytest.raises(ValueError, match="stack"):
        linalg.triangular_solve(np.ones((2, 2, 2)), np.ones((3, 2, 2)))


def test_jaxpr_names_are_as_in_jax():
    text = str(weft.make_jaxpr(linalg.lu)(np.eye(3, dtype=np.float32)))
    assert text == "{ lambda ; a:f32[3,3]. let b:f32[3,3] c:i32[3] d:i32[3] = lu a in (b, c, d) }"
    text = str(weft.make_jaxpr(linalg.cholesky)(np.eye(3, dtype=np.float32)))
    names = ["transpose", "add", "div", "cholesky", "iota", "add", "iota", "ge"]
    jaxpr = weft.make_jaxpr(linalg.cholesky)(np.eye(3, dtype=np.float32))
    assert [e.primitive.name for e in jaxpr.eqns][:8] == names, text


def test_stop_gradient_through_packed_forms():
    a = draw((3, 3))
    weft.jvp(lambda a: linalg.hessenberg(lax.stop_gradient(a)), (a,), (a,))
