"""Schur forms, eigenvalues of general matrices and Sylvester equations by weft's own loops."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.scipy.linalg as linalg
from tests.export.test_c_library import called, compiled, native
from tests.export.test_factorisations import (
    CASES,
    FULL,
    adjoint,
    check_c_source,
    close,
    drawn,
    hermitian,
    orthonormal,
    precise,
    special,
)
from weft import export, lax
from weft.export.factorisations import reflectors, schur
from weft.prims.linalg.eigen import hessenberg_p, tridiagonal_p


def companion(*roots):
    a = np.diag(np.ones(len(roots) - 1), -1)
    a[0] = -np.poly(roots)[1:]
    return a


def hard(dtype):
    """Matrices whose eigenvalues are equal, of equal size, or far apart."""
    shift = np.eye(6, k=1)
    turn = np.kron(np.eye(3), [[0, 1], [-1, 0]])
    found = [
        shift,
        shift + np.eye(6),
        (shift + np.eye(6)).T,
        np.roll(np.eye(6), 1, 0),  # all of size 1: unshifted steps change nothing
        np.roll(np.eye(5), 1, 0),
        turn,
        np.block([[turn, np.eye(6)], [np.zeros((6, 6)), turn]]),
        companion(*range(1, 11)),
        companion(1, 1, 1, 1),
        np.triu(drawn((7, 7), np.float64)),
        np.tril(drawn((7, 7), np.float64)),
        np.outer(np.arange(6), np.arange(1, 7)),
        np.array([[1, 0], [1, 1]]),
        np.array([[0, -4], [1, 0]]),
        np.array([[1, 1e-9], [1e-9, 1]]),
        np.array([[0, 1, 0, 0], [1, 0, 1e-8, 0], [0, 1e-8, 0, 1], [0, 0, 1, 0]]),
        [[12 - max(i, j) if j >= i - 1 else 0 for j in range(12)] for i in range(12)],
        sum(np.eye(20, k=k) for k in range(4)) - np.eye(20, k=-1),
    ]
    return [np.asarray(a).astype(dtype) for a in found]


def matrices(dtype, few):
    if few:
        return [drawn((4, 4), dtype)]
    sizes = [drawn((n, n), dtype, n) for n in (1, 2, 3, 4, 7, 15)]
    return [*sizes, *special(dtype), *hard(dtype)]


def check_schur(a, form, basis):
    dtype, scale = a.dtype, np.abs(a).max(initial=0)
    below = np.diagonal(form, -1, -2, -1)
    if dtype.kind == "c":
        assert not below.any()
    else:
        above, values = np.diagonal(form, 1, -2, -1), np.diagonal(form, 0, -2, -1)
        assert ((below[..., 1:] == 0) | (below[..., :-1] == 0)).all()
        pairs = (values[..., 1:] == values[..., :-1]) & (np.sign(below) != np.sign(above))
        assert ((below == 0) | pairs).all()
    a, form, basis = precise(a, form, basis)
    assert not np.tril(form, -2).any()
    orthonormal(basis, dtype)
    close(basis @ form @ adjoint(basis), a, dtype, scale)


@native
@pytest.mark.parametrize(("dtype", "few"), CASES)
def test_schur_forms(dtype, few):
    f = weft.jit(lambda a: schur.schur(a, compute_schur_vectors=True))
    with weft.enable_x64(True):
        for a in matrices(dtype, few):
            check_schur(a, *map(np.asarray, f(a)))


@native
@pytest.mark.parametrize(("dtype", "few"), CASES)
def test_eigenvectors(dtype, few):
    f = weft.jit(lambda a: schur.eig(
        a, compute_left_eigenvectors=True, compute_right_eigenvectors=True))  # fmt: skip
    with weft.enable_x64(True):
        for a in matrices(dtype, few):
            scale = np.abs(a).max()
            w, left, right = precise(*f(a))
            close(a @ right, right * w[..., None, :], dtype, scale)
            close(adjoint(a) @ left, left * np.conj(w)[..., None, :], dtype, scale)
            for v in (left, right):
                close(np.linalg.norm(v, axis=-2), np.ones(w.shape), dtype)
            if a.dtype.kind != "c":
                np.testing.assert_array_equal(np.sort_complex(w), np.sort_complex(np.conj(w)))


@native
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.complex128, marks=FULL)])
def test_forms_with_packed_reflectors(dtype):
    with weft.enable_x64(True):
        for n in (1, 2, 5):
            a = drawn((2, n, n), dtype)
            found = weft.jit(reflectors.hessenberg)(a)
            for x, expected in zip(found, hessenberg_p.bind(a), strict=True):
                close(np.asarray(x), np.asarray(expected), dtype, 9.0)
            for lower in (True, False):
                f = weft.jit(lambda a, lower=lower: reflectors.tridiagonal(a, lower=lower))
                expected = tridiagonal_p.bind(a, lower=lower)
                for x, y in zip(f(hermitian(a)), tridiagonal_p.bind(hermitian(a), lower=lower),
                                strict=True):  # fmt: skip
                    close(np.asarray(x), np.asarray(y), dtype, 9.0)
                for x, y in zip(f(a), expected, strict=True):  # one triangle isn't read
                    close(np.asarray(x), np.asarray(y), dtype, 9.0)


@native
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.complex128, marks=FULL)])
def test_triangular_sylvester(dtype):
    with weft.enable_x64(True):
        forms = weft.jit(lambda a: schur.schur(a, compute_schur_vectors=False)[0])
        a = np.asarray(forms(drawn((2, 4, 4), dtype) + 4 * np.eye(4, dtype=dtype)))
        b = np.asarray(forms(drawn((2, 3, 3), dtype, 1) + 4 * np.eye(3, dtype=dtype)))
        c = drawn((2, 4, 3), dtype, 2)
        for turned in (False, True):
            x = weft.jit(lambda *given, turned=turned: schur.triangular_sylvester(
                *given, adjoint=turned))(a, b, c)  # fmt: skip
            left, right = (adjoint(a), adjoint(b)) if turned else (a, b)
            assert x.dtype == dtype
            close(left @ np.asarray(x) + np.asarray(x) @ right, c, dtype, 9.0)


@native
def test_bad_numbers_give_nan():
    a = drawn((3, 4, 4), np.float32)
    a[1, 2, 0] = np.inf
    for results in (
        weft.jit(lambda a: schur.schur(a, compute_schur_vectors=True))(a),
        weft.jit(lambda a: schur.eig(
            a, compute_left_eigenvectors=True, compute_right_eigenvectors=False))(a),
    ):  # fmt: skip
        for x in map(np.asarray, results):
            assert np.isnan(x[1]).all() and np.isfinite(x[[0, 2]]).all()


@native
@pytest.mark.parametrize("seed", [0, *[pytest.param(i, marks=FULL) for i in range(1, 12)]])
def test_many_matrices_of_few_numbers(seed):
    """Low ranks, defective matrices and permutations, in one stack."""
    n = 3 + seed % 6
    a = np.random.default_rng(seed).integers(-1, 2, (1000, n, n)).astype(np.float32)
    check_schur(a, *map(np.asarray, weft.jit(
        lambda a: schur.schur(a, compute_schur_vectors=True))(a)))  # fmt: skip


# --- as exported ----------------------------------------------------------------------------------

A = drawn((4, 4), np.float32)
STACK = np.stack([A, A.T, np.eye(4, dtype=np.float32)])


def general(stack):
    w, v = jnp.linalg.eig(stack)
    return jnp.abs(stack @ v - v * w[:, None, :]).max() + 1, jnp.linalg.eigvals(stack).sum(-1)


def functions(a):
    positive = a @ a.T + 4 * jnp.eye(4)
    return linalg.sqrtm(positive).real, linalg.solve_sylvester(positive, positive, a)


def forms(a):
    t, z = linalg.schur(a)
    h, q = linalg.hessenberg(a, calc_q=True)
    return z @ t @ z.T, q @ h @ q.T


def roots(c):
    return jnp.sort(jnp.roots(c, strip_zeros=False))


def slopes(a):
    return weft.grad(lambda a: (jnp.abs(jnp.linalg.eigvals(a)) ** 2).sum())(a)


PROGRAMS = {
    "general": (general, (STACK,)),
    "functions": (functions, (A,)),
    "forms": (forms, (A,)),
    "roots": (roots, (np.float32([1, -6, 11, -6]),)),
    "slopes": (slopes, (A,)),
    "complex": (lambda c: jnp.linalg.eigvals(c).sum(), (drawn((3, 3), np.complex64),)),
}


@compiled
@pytest.mark.parametrize("names", [["roots"], pytest.param([*PROGRAMS], marks=FULL)])
def test_c_source_needs_no_lapack(names, tmp_path):
    check_c_source({name: PROGRAMS[name] for name in names}, tmp_path)


@native
@pytest.mark.full
def test_webassembly_and_native_code_take_them(tmp_path):
    fun, args = PROGRAMS["roots"]
    export.to_c(weft.jit(fun), args, tmp_path, name="web", target="wasm32")
    made = export.to_c(weft.jit(fun), args, tmp_path, name="own", linear_algebra="own")
    assert made.calls == ()
    library = np.ctypeslib.load_library(made.shared.name, str(tmp_path))
    like = [weft.jit(fun)(*args)]
    (found,) = called(library, "own", args, like)
    np.testing.assert_allclose(found, [1, 2, 3], rtol=1e-4, atol=1e-4)


def test_loops_have_the_types_of_their_operands():
    from tests.export.test_factorisations import types
    from weft.export.factorisations.programs import written_out

    def factors(x):
        return lax.linalg.schur(x), lax.linalg.eig(x), lax.linalg.hessenberg(x)

    for x in (A, A.astype(np.complex64)):
        program = written_out(weft.make_jaxpr(factors)(x), False, False)
        assert types(program.jaxpr) <= {"float32", "complex64", "int32", "uint32", "bool"}
