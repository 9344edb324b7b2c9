"""QR, eigenvalues and singular values in C source and WebAssembly, by loops of weft's own."""

import json
import subprocess

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.export.test_c_library import NODE, build, called, compiled, native
from weft import export, lax
from weft.core.jaxpr import jaxprs_in_params
from weft.export.factorisations import eliminations, programs, reflectors, rotations
from weft.export.factorisations.programs import written_out
from weft.prims.linalg.qr import geqp3_p, geqrf_p, ormqr_p

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(1, 1), (2, 2), (6, 6), (7, 7), (5, 3), (3, 6), (1, 4), (4, 1)]


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def special(dtype):
    """Square matrices that factorisations find hard."""
    some = drawn((6, 6), dtype)
    return [
        np.zeros((4, 4), dtype),
        np.ones((5, 5), dtype),
        np.eye(5, dtype=dtype),
        np.diag([1e18, 1e-18, 1, 0]).astype(dtype),
        some * dtype(1e-30),
        some * dtype(1e30),
        some * np.array([1, 1e-4, 1e-9, 0, 0, 1e-20]).astype(dtype),
        np.stack([some, np.zeros((6, 6), dtype), np.ones((6, 6), dtype)]),
    ]


def precise(*arrays):
    return [np.asarray(x).astype(np.complex128) for x in arrays]


def close(found, wanted, dtype, scale=1.0):
    assert found.shape == wanted.shape
    bound = 20 * max(found.shape[-2:]) * np.finfo(dtype).eps * (scale or 1.0)
    assert np.abs(found - wanted).max(initial=0) <= bound


def orthonormal(q, dtype):
    close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)),
          dtype)  # fmt: skip


def check_svd(a, s, u, vh):
    assert (np.diff(np.asarray(s)) <= 0).all() and (np.asarray(s) >= 0).all()
    dtype, scale = a.dtype, np.abs(a).max(initial=0)
    a, s, u, vh = precise(a, s, u, vh)
    orthonormal(u, dtype)
    orthonormal(adjoint(vh), dtype)
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, dtype, scale)


def check_eigh(a, w, v):
    assert (np.diff(np.asarray(w)) >= 0).all()
    dtype, scale = a.dtype, np.abs(a).max(initial=0)
    a, w, v = precise(a, w, v)
    orthonormal(v, dtype)
    close(a @ v, v * w[..., None, :], dtype, scale)


def check_qr(a, q, r, *order):
    dtype, scale = a.dtype, np.abs(a).max(initial=0)
    a, q, r = precise(a, q, r)
    if order:
        a = np.take_along_axis(a, np.asarray(order[0])[..., None, :], -1)
    orthonormal(q, dtype)
    close(np.tril(r, -1), np.zeros_like(r), dtype, 0.0)
    close(q @ r, a, dtype, scale)


def hermitian(a):
    return a / 2 + adjoint(a) / 2


def matrices(dtype, few):
    """By default one: real matrices are tested in stacks and in exports."""
    if few:
        return [drawn((5, 3), dtype)]
    return [*[drawn(shape, dtype) for shape in SHAPES], *special(dtype)]


FULL = pytest.mark.full
CASES = [(np.complex64, True)] + [pytest.param(dtype, False, marks=FULL) for dtype in DTYPES]


@native
@pytest.mark.parametrize(("dtype", "few"), CASES)
def test_singular_values(dtype, few):
    with weft.enable_x64(True):
        for a in matrices(dtype, few):
            for whole in (True,) if few else (False, True):
                f = weft.jit(lambda a, whole=whole: rotations.svd(
                    a, full_matrices=whole, compute_uv=True, subset_by_index=None))  # fmt: skip
                check_svd(a, *f(a))
        if few:
            return
        (alone,) = weft.jit(lambda a: rotations.svd(
            a, full_matrices=False, compute_uv=False, subset_by_index=None))(a)  # fmt: skip
        close(np.asarray(alone), np.linalg.svd(a, compute_uv=False), dtype, np.abs(a).max())


@native
@pytest.mark.parametrize(("dtype", "few"), CASES)
def test_eigenvalues(dtype, few):
    with weft.enable_x64(True):
        for a in special(dtype)[-1:] if few else matrices(dtype, few):
            if a.shape[-1] != a.shape[-2]:
                continue
            a = hermitian(a)
            for lower in (True,) if few else (False, True):
                # what is on the other side of the diagonal isn't read
                given = np.tril(a) + np.triu(drawn(a.shape, dtype, 3), 1)
                v, w = weft.jit(lambda a, lower=lower: rotations.eigh(
                    a, lower=lower, sort_eigenvalues=True, subset_by_index=None
                ))(given if lower else adjoint(given))  # fmt: skip
                check_eigh(a, w, v)


@native
@pytest.mark.parametrize(("dtype", "few"), CASES)
def test_reflectors(dtype, few):
    with weft.enable_x64(True):
        for a in matrices(dtype, few):
            for whole in (True,) if few else (False, True):
                for pivoting in (True,) if few else (False, True):
                    f = weft.jit(lambda a, whole=whole, pivoting=pivoting: reflectors.qr(
                        a, pivoting=pivoting, full_matrices=whole))  # fmt: skip
                    check_qr(a, *f(a))
        for wide in (drawn((5, 3), dtype), drawn((3, 5), dtype))[: 1 if few else 2]:
            packed, taus = weft.jit(reflectors.geqrf)(wide)
            for found, wanted in zip((packed, taus), geqrf_p.bind(wide), strict=True):
                close(np.asarray(found), np.asarray(wanted), dtype, 4.0)
            for left in (False,) if few else (True, False):
                c = drawn((5, 5), dtype)[:, :3] if wide.shape[0] == 3 else drawn((5, 5), dtype)
                c = adjoint(c) if left else c
                for turned in (True, False):
                    params = {"left": left, "transpose": turned}
                    found = weft.jit(lambda *x, p=params: reflectors.ormqr(*x, **p))(
                        packed, taus, c
                    )
                    wanted = ormqr_p.bind(packed, taus, c, **params)
                    close(np.asarray(found), np.asarray(wanted), dtype, 9.0)


@native
def test_columns_that_are_first():
    a = drawn((5, 5), np.float32)
    first = np.array([0, 1, 0, 0, 1], np.int32)
    packed, order, _ = weft.jit(reflectors.geqp3)(a, first)
    wanted = geqp3_p.bind(a, first, use_magma=None)
    assert sorted(np.asarray(order)) == [1, 2, 3, 4, 5] and list(order[:2]) == [2, 5]
    close(np.abs(packed), np.abs(wanted[0]), np.float32, 4.0)


@native
@pytest.mark.parametrize("dtype", [np.complex64, pytest.param(np.complex128, marks=FULL)])
def test_complex_eliminations(dtype):
    with weft.enable_x64(True):
        a, b = drawn((4, 4), dtype), drawn((4, 2), dtype, 1)
        positive = a @ adjoint(a) + 4 * np.eye(4, dtype=dtype)
        close(np.asarray(weft.jit(eliminations.cholesky)(positive)), np.linalg.cholesky(positive),
              dtype, 9.0)  # fmt: skip
        for found, wanted in zip(weft.jit(eliminations.lu)(a), lax.linalg.lu(a), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)
        for conjugate in (True, False):
            flags = {"left_side": True, "lower": True, "transpose_a": True,
                     "conjugate_a": conjugate, "unit_diagonal": False}  # fmt: skip
            found = weft.jit(lambda a, b, f=flags: eliminations.triangular_solve(a, b, **f))(a, b)
            turned = adjoint(np.tril(a)) if conjugate else np.tril(a).T
            close(turned @ np.asarray(found), b, dtype, 99.0)


@native
def test_bad_numbers_give_nan():
    a = drawn((3, 4, 4), np.float32)
    a[1, 2, 0] = np.nan
    for results in (
        weft.jit(lambda a: rotations.svd(
            a, full_matrices=True, compute_uv=True, subset_by_index=None))(a),
        weft.jit(lambda a: rotations.eigh(
            a, lower=True, sort_eigenvalues=True, subset_by_index=None))(a),
    ):  # fmt: skip
        for x in map(np.asarray, results):
            assert np.isnan(x[1]).all() and np.isfinite(x[[0, 2]]).all()


@native
def test_equal_values_take_few_sweeps(monkeypatch):
    """Rotations by any angle between equal values would move what others made zero."""
    monkeypatch.setattr(rotations, "MAX_SWEEPS", 16)
    numbers = np.arange(64)
    signs = (-1.0) ** np.array([[bin(i & j).count("1") for i in numbers] for j in numbers])
    q = np.linalg.qr(drawn((64, 64), np.float64))[0]
    halves = (q * np.where(numbers < 32, 1.0, -1.0)) @ q.T
    with weft.enable_x64(True):
        f = weft.jit(lambda a: rotations.eigh(
            a, lower=True, sort_eigenvalues=True, subset_by_index=None))  # fmt: skip
        v, w = f(np.stack([signs, halves]))
    check_eigh(np.stack([signs, hermitian(halves)]), w, v)
    close(np.abs(w), np.array([[8.0], [1.0]]) + np.zeros((2, 64)), np.float64)


@native
@pytest.mark.parametrize("seed", [0, *[pytest.param(i, marks=FULL) for i in range(1, 20)]])
def test_many_matrices_of_few_numbers(seed):
    """Low ranks, equal values and zeros, in one stack."""
    n = 3 + seed % 5
    a = np.random.default_rng(seed).integers(-1, 2, (1000, n, n)).astype(np.float32)
    s, u, vh = weft.jit(lambda a: rotations.svd(
        a, full_matrices=True, compute_uv=True, subset_by_index=None))(a)  # fmt: skip
    check_svd(a, s, u, vh)
    close(np.asarray(s), np.linalg.svd(a, compute_uv=False), np.float32, 1.0)
    h = hermitian(a)
    v, w = weft.jit(lambda a: rotations.eigh(
        a, lower=True, sort_eigenvalues=True, subset_by_index=None))(h)  # fmt: skip
    check_eigh(h, w, v)
    close(np.asarray(w), np.linalg.eigvalsh(h), np.float32, 1.0)


def types(jaxpr):
    found = {str(v.aval.dtype) for eqn in jaxpr.eqns for v in eqn.outvars}
    return found.union(
        *[types(inner) for eqn in jaxpr.eqns for inner in jaxprs_in_params(eqn.params)]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_loops_have_no_wider_types_than_their_operands(dtype):
    """Such types would change where a program is read again."""

    def factors(x):
        found = lax.linalg.svd(x), lax.linalg.eigh(x), lax.linalg.qr(x, pivoting=True), x @ x
        solved = lax.linalg.tridiagonal_solve(x[0], x[1], x[2], x)
        return found, lax.linalg.lu(x), lax.linalg.cholesky(x), solved

    x = drawn((4, 4), dtype)
    program = written_out(weft.make_jaxpr(factors)(x), False, False)
    assert types(program.jaxpr) <= {"float32", "complex64", "int32", "uint32", "bool"}


# --- as exported ----------------------------------------------------------------------------------

A = drawn((5, 3), np.float32)
S = hermitian(drawn((5, 5), np.float32, 2))
C = drawn((4, 4), np.complex64)
Z = np.zeros((0, 3), np.float32)


def least_squares(a, b):
    return jnp.linalg.lstsq(a, b)[0], jnp.linalg.pinv(a), jnp.linalg.matrix_rank(a)


def sizes(a):
    return jnp.linalg.norm(a, 2), jnp.linalg.cond(a), jnp.linalg.norm(a, "nuc")


def gradients(a, s):
    """Sums that no sign of a vector changes."""

    def of_values(a):
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        return (jnp.abs(u) ** 2).sum() + jnp.log(s).sum() + (u @ vh)[0, 0]

    def of_vectors(s):
        w, v = jnp.linalg.eigh(s)
        return (w * (v[0] ** 2)).sum() + (v**4).sum()

    def of_products(a):
        q, r = jnp.linalg.qr(a)
        return (q**4).sum() + (r**2)[0].sum()

    return weft.grad(of_values)(a), weft.grad(of_vectors)(s), weft.grad(of_products)(a)


def batches(stack):
    return weft.vmap(jnp.linalg.eigvalsh)(stack), jnp.linalg.svdvals(stack)


def empty(z):
    u, s, vh = jnp.linalg.svd(z)
    q, r = jnp.linalg.qr(z.T, mode="complete")
    return u, s, vh, q, r, jnp.linalg.eigh(z[:, :0])


def of_complex(c):
    u, s, vh = jnp.linalg.svd(c)
    q, r = jnp.linalg.qr(c)
    w, v = jnp.linalg.eigh(c + c.conj().T)
    return (u * s) @ vh, q @ r, (v * w) @ v.conj().T, w, jnp.linalg.solve(c, c[:, :1])


def products(c, x):
    """Products and convolutions of complex numbers, and of these with real ones."""
    mixed = lax.dot_general(c, x, (((1,), (0,)), ((), ())), preferred_element_type=np.complex64)
    return c @ c, jnp.einsum("ij,kj->ik", c, c.conj()), mixed, jnp.convolve(c[0], c[1])


def inside(a):
    """A factorisation in each round of a loop, and behind a condition."""

    def step(a, _):
        q, r = jnp.linalg.qr(a)
        return r @ q, jnp.linalg.norm(a, 2)

    last, sizes = lax.scan(step, a, length=3)
    return sizes, lax.cond(a[0, 0] > 9, jnp.linalg.eigvalsh, jnp.diagonal, last)


PROGRAMS = {
    "least squares": (least_squares, (A, A[:, 0])),
    "low rank": (least_squares, (np.ones((4, 3), np.float32), np.ones(4, np.float32))),
    "sizes": (sizes, (A,)),
    "gradients": (gradients, (A, S)),
    "batches": (batches, (np.stack([S, S + 1, np.eye(5, dtype=np.float32)]),)),
    "empty": (empty, (Z,)),
    "complex": (of_complex, (C,)),
    "products": (products, (C, C.real)),
    "loops": (inside, (S,)),
    "tridiagonal": (lax.linalg.tridiagonal_solve, (S[0], S[1] + 3, S[2], S[:, :2])),
}


FEW = ["least squares", "empty", "products"]


@compiled
@pytest.mark.parametrize("names", [FEW, pytest.param([*PROGRAMS], marks=FULL)], ids=["few", "all"])
def test_c_source_needs_no_lapack(names, tmp_path):
    check_c_source({name: PROGRAMS[name] for name in names}, tmp_path)


def check_c_source(programs, folder):
    """Programs exported as C source, built without LAPACK, give what they give in Python."""
    for number, (fun, args) in enumerate(programs.values()):
        export.to_c(weft.jit(fun), args, folder, name=f"g{number}", target="c")
    library = build(folder, [f"g{number}" for number in range(len(programs))])
    for number, (name, (fun, args)) in enumerate(programs.items()):
        like = weft.tree.leaves(weft.jit(fun)(*args))
        found = called(library, f"g{number}", weft.tree.leaves(args), like)
        for x, expected in zip(found, like, strict=True):
            np.testing.assert_allclose(x, expected, rtol=1e-3, atol=1e-4, err_msg=name)


@native
@pytest.mark.skipif(not NODE, reason="there is no Node.js to run WebAssembly")
@pytest.mark.parametrize(
    "name",
    [n if n == "products" else pytest.param(n, marks=FULL) for n in PROGRAMS if n != "empty"],
)
def test_webassembly_needs_no_lapack(name, tmp_path):
    fun, args = PROGRAMS[name]
    export.to_c(weft.jit(fun), args, tmp_path, name="f", target="wasm32")
    given = [np.asarray(x).view(np.float32).ravel().tolist() for x in args]
    (tmp_path / "args.json").write_text(json.dumps(given))
    (tmp_path / "main.mjs").write_text(
        "import { load } from './f.js'; import fs from 'fs';\n"
        "const f = await load(fs.readFileSync('f.wasm'));\n"
        "const results = f(...JSON.parse(fs.readFileSync('args.json')));\n"
        "console.log(JSON.stringify(results.map((r) => Array.from(r))));\n"
    )
    done = subprocess.run(
        [NODE, "main.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    like = weft.tree.leaves(weft.jit(fun)(*args))
    for x, expected in zip(json.loads(done.stdout), like, strict=True):
        expected = np.atleast_1d(np.asarray(expected))
        if expected.dtype.kind == "c":
            expected = expected.view(np.float32)
        np.testing.assert_allclose(x, expected.ravel(), rtol=1e-3, atol=1e-4)


@native
def test_native_code_may_do_without_lapack(tmp_path):
    fun = weft.jit(lambda a, c: (jnp.linalg.svdvals(a), c @ c))
    made = export.to_c(fun, (A, C), tmp_path, name="f")
    text = made.header.read_text()
    assert made.calls == ("LAPACKE_sgesdd_work", "cblas_cgemm")
    assert all(word in text for word in made.calls)
    assert "cc main.c f.o -llapacke -lopenblas -lm" in text and 'linear_algebra="own"' in text
    made = export.to_c(fun, (A, C), tmp_path, name="own", linear_algebra="own")
    assert "LAPACK" not in made.header.read_text() and made.calls == ()
    library = np.ctypeslib.load_library(made.shared.name, str(tmp_path))
    like = fun(A, C)
    for found, expected in zip(called(library, "own", (A, C), like), like, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("x", [pytest.param(S, marks=FULL), C], ids=["real", "complex"])
def test_strict_promotion_is_for_programs_of_the_user(x, tmp_path):
    def factors(x):
        found = lax.linalg.svd(x), lax.linalg.eigh(x), lax.linalg.qr(x, pivoting=True)
        return found, lax.linalg.lu(x), lax.linalg.cholesky(x)

    with weft.numpy_dtype_promotion("strict"), weft.numpy_rank_promotion("raise"):
        export.to_c(weft.jit(factors), (x,), tmp_path, name="f", target="c")


@native
def test_what_only_lapack_does_is_refused(tmp_path, monkeypatch):
    monkeypatch.delitem(programs._FACTORISATIONS, "eig")

    def general(a):
        return jnp.linalg.eig(a)

    where = r"eig at .*test_factorisations.py:\d+ \(general\) needs LAPACK"
    for target in ("c", "wasm32"):
        with pytest.raises(ValueError, match=f"{where}, which the target '{target}' does not have"):
            export.to_c(weft.jit(general), (S,), tmp_path, target=target)
        with pytest.raises(ValueError, match=f"'{target}' has no LAPACK: leave linear_algebra out"):
            export.to_c(weft.jit(general), (S,), tmp_path, target=target, linear_algebra="lapack")
    with pytest.raises(ValueError, match=f"{where}: leave linear_algebra='own' out"):
        export.to_c(weft.jit(general), (S,), tmp_path, linear_algebra="own")
    with pytest.raises(ValueError, match="linear_algebra is 'lapack' or 'own', got 'mkl'"):
        export.to_c(weft.jit(general), (S,), tmp_path, linear_algebra="mkl")
    export.to_c(weft.jit(general), (S,), tmp_path)
