"""Native decompositions and solves against the references of their primitives."""

import numpy as np
import pytest

import weft
import weft.backends.cpu.routines.factorisations.linalg
import weft.backends.cpu.routines.factorisations.sylvester  # enters itself in LOWERINGS
from tests.backends.tasks import run_tasks
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.routines.factorisations.small_matrices import MAX_ROTATED_SIDE
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.native import processor
from weft.base import knobs
from weft.kernel.program import Type
from weft.lapack import stacks as lapack

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
STACKS = [(3,), (2, 35)]  # fewer matrices than the lanes of wide vectors, and more than any have


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def positive(shape, dtype):
    a = draw(shape, dtype)
    return a @ a.conj().swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1], dtype=dtype)


def native(name, ins, want, **params):
    """Results of the native operation, where the reference's are ``want``."""
    types = [Type(x.shape, x.dtype) for x in ins]
    outs = [Type(x.shape, x.dtype) for x in want]
    lowered = LOWERINGS[name](types, outs, params)
    assert lowered is not None
    return run_tasks(lowered, ins, outs)


def same(name, ins, want, tol=8.0, **params):
    """Like the reference; ``tol`` in units of the last place of the largest element."""
    want = want if isinstance(want, tuple) else (want,)
    for got, expected in zip(native(name, ins, want, **params), want, strict=True):
        if expected.dtype.kind == "i":
            assert np.array_equal(got, expected), name
            continue
        assert np.array_equal(np.isnan(got), np.isnan(expected)), name
        got, expected = np.nan_to_num(got), np.nan_to_num(expected)
        bound = tol * np.finfo(got.dtype).eps * (1 + np.abs(expected).max())
        assert np.abs(got - expected).max() <= bound, (name, ins[0].shape, params)


def by_rotations(a):
    """Whether matrices are small, and as many as lanes: vectors are then turned as they come."""
    lanes = processor.vector_bits() // 8 // a.itemsize
    short = max(a.shape[-2:]) <= MAX_ROTATED_SIDE
    return a.dtype.kind == "f" and short and a[..., 0, 0].size >= lanes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_cholesky(dtype, stack):
    for n in (1, 2, 5, 8, 19):
        a = positive((*stack, n, n), dtype)
        if stack:
            a[-1] = -a[-1]
        upper = np.triu(np.ones((n, n)), 1) > 0
        a[..., upper] = np.nan  # is not read
        got = native("cholesky", [a], [a])[0]
        assert np.all(got[..., upper] == 0)
        lower = ~upper
        if stack:
            assert np.all(np.isnan(got[-1][..., lower]))
            got, a = got[:-1], a[:-1]
        again = got @ got.conj().swapaxes(-1, -2)
        bound = 4 * n * np.finfo(dtype).eps * np.abs(again).max()
        assert np.abs(again - a)[..., lower].max() <= bound


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_large_cholesky_factor_is_made_in_tiles(dtype):
    for n in (384, 401):
        a = positive((n, n), dtype)
        got = native("cholesky", [a], [a])[0]
        assert np.array_equal(got, np.tril(got))
        bound = 4 * n * np.finfo(dtype).eps * np.abs(a).max()
        assert np.abs(got @ got.conj().T - a).max() <= bound
        a[n - 3, n - 3] = -1
        got = native("cholesky", [a], [a])[0]
        assert np.isnan(got[np.tril_indices(n)]).all() and not np.triu(got, 1).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_lu(dtype, stack):
    for m, n in [(1, 1), (5, 3), (3, 5), (20, 18)]:
        a = draw((*stack, m, n), dtype)
        want = lapack.lu(a)
        same("lu", [a], want)
        pivots = want[1]
        for size in (m, m + 2):
            order = weft.jit(lambda p, n=size: lax.linalg.lu_pivots_to_permutation(p, n))(pivots)
            np.testing.assert_array_equal(order, lapack.pivots_to_permutation(pivots, size))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (18, 20)])
def test_qr(dtype, stack, shape):
    m, n = shape
    a = draw((*stack, m, n), dtype)
    packed, taus = lapack.geqrf(a)
    same("geqrf", [a], (packed, taus))
    free = np.zeros((*stack, n), np.int32)
    same("geqp3", [a, free], lapack.geqp3(a, free), use_magma=None)
    for whole in (False, True):
        flags = {"full_matrices": whole, "use_magma": None}
        same("qr", [a], lapack.qr(a, whole), 64.0, pivoting=False, **flags)
        same("qr", [a], lapack.qr_pivoted(a, whole), pivoting=True, **flags)
    if m >= n:
        want = lapack.householder_product(packed, taus)
        same("householder_product", [packed, taus], want)
        for left in (False, True):
            c = draw((*stack, m, 2) if left else (*stack, 2, m), dtype)
            for turned in (False, True):
                want = lapack.ormqr(packed, taus, c, left, turned)
                same("ormqr", [packed, taus, c], want, left=left, transpose=turned)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_qr_of_very_large_small_and_zero_elements(dtype):
    a = draw((40, 4, 4), dtype)
    limits = np.finfo(dtype)
    a[0] *= limits.max / 8
    a[1] *= limits.tiny * 8
    a[2] = 0
    a[3, :, 1] = 0
    a[4, :, 2] *= dtype(limits.tiny * 8)
    a[5] = np.triu(a[5])
    a[6, 1, 1] = np.nan
    flags = {"pivoting": False, "full_matrices": False, "use_magma": None}
    q, r = native("qr", [a], lapack.qr(a, False), **flags)
    want_q, want_r = lapack.qr(a, False)
    for i in range(40):
        if i == 6:
            assert np.isnan(r[i]).any()
            continue
        size = np.abs(want_r[i]).max(0, initial=0) + limits.tiny
        np.testing.assert_allclose(q[i], want_q[i], atol=40 * limits.eps)
        assert np.all(np.abs(r[i] - want_r[i]) <= 40 * limits.eps * size), i


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_eigenvalues(dtype, stack):
    for n in (1, 4, 17):
        a, symmetric = draw((*stack, n, n), dtype), positive((*stack, n, n), dtype)
        if stack:
            a[0, ..., 0, 0] = np.nan
        for lower in (False, True):
            flags = {"sort_eigenvalues": True, "subset_by_index": None, "algorithm": None}
            want = lapack.eigh(symmetric, lower)
            if by_rotations(symmetric):
                v, w = native("eigh", [symmetric], want, lower=lower, **flags)
                signs = np.sign((v * want[0]).sum(-2, keepdims=True))
                bound = 200 * np.finfo(dtype).eps
                np.testing.assert_allclose(v * signs, want[0], atol=n * bound)
                np.testing.assert_allclose(w, want[1], rtol=bound)
            else:
                same("eigh", [symmetric], want, lower=lower, **flags)
            if n > 1:
                want = lapack.tridiagonal(symmetric, lower)
                same("tridiagonal", [symmetric], want, lower=lower)
        for left, right in [(False, False), (True, False), (False, True), (True, True)]:
            flags = {"compute_left_eigenvectors": left, "compute_right_eigenvectors": right}
            same("eig", [a], lapack.eig(a, left, right), **flags)
        for vectors in (False, True):
            same("schur", [a], lapack.schur(a, vectors), compute_schur_vectors=vectors)
        if n > 1:
            same("hessenberg", [symmetric], lapack.hessenberg(symmetric))


def hard(dtype, m, n):
    """A stack with matrices that are zero, huge, tiny, of one rank, diagonal, not finite."""
    a, limits = draw((40, m, n), dtype, m * n), np.finfo(dtype)
    a[0] = 0
    a[1] *= limits.max / 100
    a[2] *= limits.tiny * 1000
    a[3] = 1
    a[4] = np.eye(m, n) * np.arange(1, n + 1)
    a[5] = a[5, :, :1] * a[5, :1]
    a[6, :, -1] = 0
    a[7] = np.eye(m, n)
    a[38, 0, 0], a[39, -1, -1] = np.nan, np.inf
    return a


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16])
def test_small_eigenvalues(dtype, n):
    a = hard(dtype, n, n)
    flags = {"sort_eigenvalues": True, "subset_by_index": None, "algorithm": None}
    eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).tiny
    for lower in (False, True):
        outs = [a, a[..., 0]]
        v, w = native("eigh", [a], outs, lower=lower, **flags)
        _, alone = native("eigh", [a], outs, lower=lower, vectors=False, **flags)
        np.testing.assert_array_equal(alone, w)
        assert np.isnan(v[38:]).all() and np.isnan(w[38:]).all()
        v, w, given = (x[:38].astype(np.float64) for x in (v, w, a))
        half = np.tril(given, -1) if lower else np.triu(given, 1)
        whole = half + half.swapaxes(-1, -2) + given * np.eye(n)
        size = np.abs(whole).max((1, 2)) * n + 1e3 * float(tiny)
        rest = np.abs(whole @ v - v * w[:, None]).max((1, 2))
        assert np.all(rest <= 8 * eps * size), (rest / size).max() / eps
        assert np.abs(v.swapaxes(-1, -2) @ v - np.eye(n)).max() <= 2 * n * eps
        assert np.all(np.diff(w) >= 0)
        want = np.linalg.eigvalsh(whole)
        assert np.all(np.abs(w - want).max(1) <= 8 * eps * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 12), (12, 5), (16, 16)])
def test_small_singular_values(dtype, shape):
    a = hard(dtype, *shape)
    flags = {"subset_by_index": None, "algorithm": None, "compute_uv": False}
    (w,) = native("svd", [a], [a[:, : min(shape), 0]], full_matrices=False, **flags)
    assert np.isnan(w[38:]).all()
    want = np.linalg.svd(a[:38].astype(np.float64), compute_uv=False)
    size = want.max(1) + 1e3 * float(np.finfo(dtype).tiny)
    assert np.all(np.abs(w[:38] - want).max(1) <= 8 * max(shape) * np.finfo(dtype).eps * size)
    assert np.all(np.diff(w[:38]) <= 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 8), (9, 4), (16, 16), (1, 7), (6, 1)])
def test_small_singular_vectors(dtype, full, shape):
    a = hard(dtype, *shape)
    m, n = shape
    k = min(shape)
    shapes = [(40, k), (40, m, m if full else k), (40, n if full else k, n)]
    outs = [np.zeros(shape, dtype) for shape in shapes]
    flags = {"subset_by_index": None, "algorithm": None, "compute_uv": True}
    found = native("svd", [a], outs, full_matrices=full, **flags)
    assert all(np.isnan(x[38:]).all() for x in found)
    w, u, vt = (x[:38].astype(np.float64) for x in found)
    given = a[:38].astype(np.float64)
    eps, size = np.finfo(dtype).eps, w.max(1) + 1e3 * float(np.finfo(dtype).tiny)
    rest = np.abs((u[..., :k] * w[:, None]) @ vt[:, :k] - given).max((1, 2))
    assert np.all(rest <= 8 * max(shape) * eps * size), (rest / size).max() / eps
    for q in (u.swapaxes(-1, -2), vt):
        assert np.abs(q @ q.swapaxes(-1, -2) - np.eye(q.shape[-2])).max() <= 4 * max(shape) * eps


@pytest.mark.parametrize("bits", [128, 256])
def test_small_values_by_narrow_vectors(bits, monkeypatch):
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    test_small_eigenvalues(np.float32, 5)
    test_small_singular_values(np.float32, (4, 6))
    test_small_singular_vectors(np.float32, True, (4, 6))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_svd(dtype, stack):
    for shape in [(1, 1), (7, 3), (3, 7), (17, 18)]:
        a = draw((*stack, *shape), dtype)
        flags = {"subset_by_index": None, "algorithm": None}
        for whole in (False, True):
            want = lapack.svd(a, whole, True)
            if not by_rotations(a):
                same("svd", [a], want, full_matrices=whole, compute_uv=True, **flags)
        values = lapack.svd(a, False, False)
        same("svd", [a], values, full_matrices=False, compute_uv=False, **flags)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_triangular_solve(dtype, stack):
    for n in (1, 4, 20):
        a = positive((*stack, n, n), dtype)
        for left, lower, turned, unit, conjugate in np.ndindex(2, 2, 2, 2, 2):
            if conjugate and a.dtype.kind != "c":
                continue
            k = 300 if stack == (3,) and n == 4 else 3
            b = draw((*stack, n, k) if left else (*stack, k, n), dtype)
            a_used = a / (10 * n) if unit else a
            flags = {
                "left_side": bool(left),
                "lower": bool(lower),
                "transpose_a": bool(turned),
                "conjugate_a": bool(conjugate) and a.dtype.kind == "c",
                "unit_diagonal": bool(unit),
            }
            want = lapack.triangular_solve(a_used, b, **flags)
            same("triangular_solve", [a_used, b], want, 64 * n, **flags)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_solve(dtype):
    for stack in STACKS:
        for n in (1, 2, 9):
            diagonals = [draw((*stack, n), dtype, seed) for seed in range(3)]
            b = draw((*stack, n, 2), dtype)
            if stack:
                for d in diagonals:
                    d[0] = 0  # singular
            want = lapack.tridiagonal_solve(*diagonals, b)
            same("tridiagonal_solve", [*diagonals, b], want, perturb_singular=False)


@pytest.mark.parametrize("bits", [128, 256])
def test_copies_with_narrower_vectors(bits, monkeypatch):
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    for dtype in DTYPES:
        for shape in [(9, 5), (3, 2), (20, 17)]:
            same("lu", [draw(shape, dtype)], lapack.lu(draw(shape, dtype)))


def test_what_is_left_to_the_reference():
    narrow = Type((3, 3), np.dtype(np.float16))
    empty = Type((0, 3, 3), np.dtype(np.float32))
    for kind in (narrow, empty):
        assert LOWERINGS["cholesky"]([kind], [kind], {}) is None


def test_the_same_bits_on_any_number_of_threads():
    a = positive((40, 12, 12), np.float32)
    results = set()
    for count in (1, 2, 8):
        with knobs.scope(num_threads=count):
            results.add(native("cholesky", [a], [a])[0].tobytes())
    assert len(results) == 1


def schur_form(stack, n, dtype):
    """Forms with eigenvalues on the right; real ones with blocks of two at odd places as well."""
    a = np.triu(draw((*stack, n, n), dtype, n)) + 4 * n * np.eye(n, dtype=dtype)
    if a.dtype.kind != "c":
        for i in range(2, n - 1, 5):
            a[..., i + 1, i + 1] = a[..., i, i]
            a[..., i + 1, i] = -a[..., i, i + 1]
    return a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("adjoint", [False, True])
def test_triangular_sylvester(dtype, adjoint):
    for stack, m, n in (((), 1, 1), ((3,), 4, 7), ((2,), 33, 40), ((), 70, 97), ((), 66, 3)):
        a, b, c = (
            schur_form(stack, m, dtype),
            schur_form(stack, n, dtype),
            draw((*stack, m, n), dtype),
        )
        want = lapack.triangular_sylvester(a, b, c, adjoint)
        left, right = (x.conj().swapaxes(-1, -2) if adjoint else x for x in (a, b))
        np.testing.assert_allclose(left @ want + want @ right, c, atol=2e3 * np.finfo(dtype).eps)
        same("triangular_sylvester", [a, b, c], want, adjoint=adjoint)


def test_triangular_sylvester_of_real_numbers():
    a, b, c = (
        schur_form((), 40, np.complex64),
        schur_form((), 33, np.complex64),
        draw((40, 33), "c8"),
    )
    a, b, c = (x.real.astype(np.complex64) for x in (a, b, c))
    (got,) = native("triangular_sylvester", [a, b, c], [c], adjoint=False)
    assert not got.imag.any()
    np.testing.assert_allclose(a @ got + got @ b, c, atol=1e-4)


@pytest.mark.parametrize("n", [64, 65, 129])
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_svd_of_one_matrix_on_two_threads(n, scale):
    """Steps of gesdd, or gesdd itself where it scales the numbers: the same but for rounding."""
    a = (np.random.default_rng(n).standard_normal((n, n)) * scale).astype(np.float32)
    found = []
    for backend in ("native", "reference"):
        with knobs.scope(backend=backend):
            found.append([np.asarray(x) for x in weft.jit(lambda a: tuple(jnp.linalg.svd(a)))(a)])
    (u, s, vt), want = found
    for got, other in zip((u, s / scale, vt), (want[0], want[1] / scale, want[2]), strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose((u * (s / scale)) @ vt, a / scale, atol=1e-4)
    np.testing.assert_allclose(u @ u.T, np.eye(n), atol=1e-5)
    bits = []
    for count in (1, 2):
        with weft.num_threads(count):
            bits.append([np.asarray(x).tobytes() for x in weft.jit(lambda a: jnp.linalg.svd(a))(a)])
    assert bits[0] == bits[1]


def test_svd_of_one_matrix_that_cannot_be_decomposed():
    a = np.ones((70, 70), np.float32)
    a[3, 5] = np.nan
    for part in weft.jit(lambda a: tuple(jnp.linalg.svd(a)))(a):
        assert np.isnan(part).all()
    u, s, vt = weft.jit(lambda a: tuple(jnp.linalg.svd(a)))(np.zeros_like(a))
    assert not np.asarray(s).any()
    assert np.array_equal(np.abs(u), np.eye(70)) and np.array_equal(np.abs(vt), np.eye(70))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("sides", [1, 96, 97, 193, 331])
def test_triangular_solves_in_pieces_of_right_hand_sides(sides, left):
    draw = np.random.RandomState(sides)
    a = np.tril(draw.randn(40, 40)).astype(np.float32) + 20 * np.eye(40, dtype=np.float32)
    b = draw.randn(*((40, sides) if left else (sides, 40))).astype(np.float32)
    solve = weft.jit(
        lambda a, b: weft.lax.linalg.triangular_solve(a, b, left_side=left, lower=True)
    )
    x = np.asarray(solve(a, b), np.float64)
    np.testing.assert_allclose(a @ x if left else x @ a, b, atol=2e-5)
    text = solve.lower(a, b).compile().as_text()
    pieces = {1: 1, 96: 1, 97: 2, 193: 4, 331: 4}[sides]
    assert (f"over {pieces} by 1" in text) == (pieces > 1)
