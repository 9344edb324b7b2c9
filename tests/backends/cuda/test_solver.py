"""Factorisations on a GPU, with LAPACK in the place of its libraries: layouts, options, stacks."""

import numpy as np
import pytest

from tests.backends.cuda import host_libraries
from tests.backends.cuda.emulation import run_routine
from weft.backends.cuda.routines import solver, spectra, tridiagonal
from weft.backends.cuda.routines.base import ROUTINES, Library, Run
from weft.backends.cuda.schedule import schedule
from weft.core.registry import lookup
from weft.kernel.program import Type
from weft.prims.linalg.svd import SvdAlgorithm

DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def clear():
    yield
    spectra._params.cache_clear()
    spectra._jacobi.cache_clear()


def draw(rng, dtype, *shape):
    found = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def run(name, arrays, params):
    """What a routine gives, and what the reference says."""
    primitive = lookup(name)
    want = primitive.ref(*arrays, **params)
    want = [np.asarray(x) for x in (want if primitive.multiple_results else [want])]
    ins, outs = ([Type(x.shape, x.dtype) for x in xs] for xs in (arrays, want))
    routine = ROUTINES[name](ins, outs, params)
    if routine is None:
        return None, want
    got = [np.zeros(x.shape, x.dtype) for x in want]
    run_routine(routine, [np.ascontiguousarray(x) for x in arrays], got)
    return got, want


def close(got, want):
    for a, b in zip(got, want, strict=True):
        tol = 2e-3 if a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) == 4 else 1e-9
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def posed(rng, dtype, *shape):
    x = draw(rng, dtype, *shape)
    return (x @ x.conj().swapaxes(-1, -2) + 4 * np.eye(shape[-1])).astype(dtype)


FLAGS = [
    (left, lower, transposed, conjugated, unit)
    for left in (True, False)
    for lower, unit in ((True, False), (False, True))
    for transposed, conjugated in ((False, False), (True, False), (True, True), (False, True))
]
SVD = [
    ((m, n), whole, vectors, algorithm)
    for m, n in ((5, 3), (3, 5), (4, 4))
    for whole, vectors in ((True, True), (False, True), (False, False))
    for algorithm in (SvdAlgorithm.DEFAULT, SvdAlgorithm.QR)
]


@pytest.mark.parametrize("stack", [(), (3,)], ids=["one", "stack"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
class TestLibraries:
    @pytest.fixture(autouse=True)
    def libraries(self, monkeypatch):
        host_libraries.install(monkeypatch)
        monkeypatch.setattr(solver, "WARP_SIZE", 0)
        self.rng = np.random.default_rng(3)

    def test_cholesky(self, dtype, stack):
        x = posed(self.rng, dtype, *stack, 5, 5)
        close(*run("cholesky", [x], {}))

    def test_cholesky_that_fails_is_nan(self, dtype, stack):
        x = posed(self.rng, dtype, *stack, 4, 4)
        x.reshape(-1, 4, 4)[0] *= -1
        (got,), _ = run("cholesky", [x], {})
        got = got.reshape(-1, 4, 4)
        assert np.isnan(got[0][np.tril_indices(4)]).all() and not np.isnan(got[1:]).any()

    def test_one_kernel_follows_cholesky(self, dtype, stack):
        given = [Type((*stack, 40, 40), np.dtype(dtype))]
        steps = ROUTINES["cholesky"](given, given, {}).steps
        assert isinstance(steps[-2], Library) and len(steps) == 3 + bool(stack)
        (part,) = schedule(steps[-1][0]).parts
        assert (part.tile is None) == (dtype == "complex128")

    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
    def test_lu(self, dtype, stack, shape):
        close(*run("lu", [draw(self.rng, dtype, *stack, *shape)], {}))

    @pytest.mark.parametrize("flags", FLAGS)
    def test_triangular_solve(self, dtype, stack, flags):
        left, lower, transposed, conjugated, unit = flags
        params = {"left_side": left, "lower": lower, "transpose_a": transposed}
        params |= {"conjugate_a": conjugated, "unit_diagonal": unit}
        a = posed(self.rng, dtype, *stack, 4, 4)
        a += draw(self.rng, dtype, *stack, 4, 4) / 4
        b = draw(self.rng, dtype, *stack, *((4, 3) if left else (3, 4)))
        close(*run("triangular_solve", [a, b], params))

    @pytest.mark.parametrize("flags", FLAGS)
    def test_triangular_solve_of_a_vector(self, dtype, stack, flags, monkeypatch):
        monkeypatch.setattr(solver, "BATCHED_SIZE", 1)
        left, lower, transposed, conjugated, unit = flags
        params = {"left_side": left, "lower": lower, "transpose_a": transposed}
        params |= {"conjugate_a": conjugated, "unit_diagonal": unit}
        a = posed(self.rng, dtype, *stack, 4, 4)
        a += draw(self.rng, dtype, *stack, 4, 4) / 4
        b = draw(self.rng, dtype, *stack, *((4, 1) if left else (1, 4)))
        close(*run("triangular_solve", [a, b], params))

    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
    def test_geqrf(self, dtype, stack, shape):
        close(*run("geqrf", [draw(self.rng, dtype, *stack, *shape)], {}))

    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
    @pytest.mark.parametrize("whole", [True, False])
    def test_qr(self, dtype, stack, shape, whole):
        params = {"pivoting": False, "full_matrices": whole, "use_magma": None}
        close(*run("qr", [draw(self.rng, dtype, *stack, *shape)], params))

    def test_r_alone(self, dtype, stack):
        params = {"pivoting": False, "full_matrices": False, "use_magma": None, "q": False}
        got, want = run("qr", [draw(self.rng, dtype, *stack, 5, 3)], params)
        close(got[1:], want[1:])

    @pytest.mark.parametrize("k", [2, 3])
    def test_householder_product(self, dtype, stack, k):
        a, taus = draw(self.rng, dtype, *stack, 5, 3), draw(self.rng, dtype, *stack, k)
        close(*run("householder_product", [a, taus], {}))

    @pytest.mark.parametrize("left", [True, False])
    @pytest.mark.parametrize("transpose", [True, False])
    def test_ormqr(self, dtype, stack, left, transpose):
        a, taus = draw(self.rng, dtype, *stack, 5, 3), draw(self.rng, dtype, *stack, 3)
        c = draw(self.rng, dtype, *stack, *((5, 2) if left else (2, 5)))
        close(*run("ormqr", [a, taus, c], {"left": left, "transpose": transpose}))

    @pytest.mark.parametrize("lower", [True, False])
    def test_tridiagonal(self, dtype, stack, lower):
        close(*run("tridiagonal", [posed(self.rng, dtype, *stack, 4, 4)], {"lower": lower}))

    @pytest.mark.parametrize("lower", [True, False])
    def test_eigh(self, dtype, stack, lower):
        params = {"lower": lower, "sort_eigenvalues": True, "subset_by_index": None}
        x = posed(self.rng, dtype, *stack, 4, 4)
        got, want = run("eigh", [x], {**params, "algorithm": None})
        close(got[1:], want[1:])
        close([x @ got[0]], [(got[0] * got[1][..., None, :])])

    def test_eigenvalues_alone(self, dtype, stack):
        params = {"lower": True, "sort_eigenvalues": True, "subset_by_index": None}
        params |= {"algorithm": None, "vectors": False}
        got, want = run("eigh", [posed(self.rng, dtype, *stack, 4, 4)], params)
        close(got[1:], want[1:])

    @pytest.mark.parametrize("vectors", [True, False])
    def test_eig(self, dtype, stack, vectors):
        params = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": vectors}
        x = draw(self.rng, dtype, *stack, 5, 5)
        got, want = run("eig", [x], params)
        close(got, want)
        if vectors:
            close([x @ got[1]], [got[1] * got[0][..., None, :]])

    def test_eig_with_left_vectors_is_the_hosts(self, dtype, stack):
        params = {"compute_left_eigenvectors": True, "compute_right_eigenvectors": False}
        assert run("eig", [draw(self.rng, dtype, *stack, 3, 3)], params)[0] is None

    @pytest.mark.parametrize("shape, whole, vectors, algorithm", SVD)
    def test_svd(self, dtype, stack, shape, whole, vectors, algorithm):
        params = {"full_matrices": whole, "compute_uv": vectors, "subset_by_index": None}
        x = draw(self.rng, dtype, *stack, *shape)
        got, want = run("svd", [x], {**params, "algorithm": algorithm})
        close(got[:1], want[:1])
        if vectors:
            k = min(shape)
            for q in (got[1], got[2].conj().swapaxes(-1, -2)):
                unit = np.broadcast_to(np.eye(q.shape[-1]), (*stack, *q.shape[-1:] * 2))
                close([q.conj().swapaxes(-1, -2) @ q], [unit])
            close([got[1][..., :k] * got[0][..., None, :] @ got[2][..., :k, :]], [x])

    def test_large_stacks_are_done_one_by_one(self, dtype, stack, monkeypatch):
        monkeypatch.setattr(spectra, "STACKED_JACOBI_SIZE", 2)
        params = {"full_matrices": False, "compute_uv": True, "subset_by_index": None}
        x = draw(self.rng, dtype, *stack, 4, 3)
        got, _ = run("svd", [x], {**params, "algorithm": SvdAlgorithm.DEFAULT})
        close([got[1] * got[0][..., None, :] @ got[2]], [x])

    @pytest.mark.parametrize("columns", [1, 3])
    def test_long_tridiagonal_systems(self, dtype, stack, columns, monkeypatch):
        monkeypatch.setattr(tridiagonal, "LONG_SYSTEM", 4)
        arrays = [draw(self.rng, dtype, *stack, 6) for _ in range(3)]
        arrays.append(draw(self.rng, dtype, *stack, 6, columns))
        close(*run("tridiagonal_solve", arrays, {"perturb_singular": False}))

    @pytest.mark.parametrize("size", [1, 2, 6])
    @pytest.mark.parametrize("columns", [1, 3])
    def test_tridiagonal_systems(self, dtype, stack, size, columns):
        arrays = [draw(self.rng, dtype, *stack, size) for _ in range(3)]
        arrays.append(draw(self.rng, dtype, *stack, size, columns))
        close(*run("tridiagonal_solve", arrays, {"perturb_singular": False}))


def test_singular_tridiagonal_systems_are_nan():
    for dtype in DTYPES:
        d = np.array([[1, 0, 1], [2, 3, 4]], dtype)
        low = np.array([[0, 0, 0], [0, 1, 1]], dtype)
        arrays = [low, d, np.zeros_like(d), np.ones((2, 3, 1), dtype)]
        (got,), (want,) = run("tridiagonal_solve", arrays, {"perturb_singular": False})
        assert np.isnan(got[0]).all() and np.isnan(want[0]).all()
        np.testing.assert_allclose(got[1], want[1], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_qr_by_several_warps(dtype, monkeypatch):
    """Rows and columns are more than a warp does at once, matrices a block each."""
    host_libraries.install(monkeypatch)
    params = {"pivoting": False, "full_matrices": False, "use_magma": None}
    x = draw(np.random.default_rng(1), dtype, 2, 34, 8)
    close(*run("qr", [x], params))


@pytest.mark.parametrize("dtype", DTYPES)
def test_older_libraries(dtype, monkeypatch):
    """Without functions for any type, stacks are done matrix by matrix, eig by the host."""
    host_libraries.install(monkeypatch, host_libraries.Older)
    rng = np.random.default_rng(4)
    params = {"lower": True, "sort_eigenvalues": True, "subset_by_index": None}
    x = posed(rng, dtype, 3, 4, 4)
    got, want = run("eigh", [x], {**params, "algorithm": None})
    close(got[1:], want[1:])
    params = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": True}
    assert run("eig", [x], params)[0] is None


@pytest.mark.parametrize("name", ["cholesky", "lu", "triangular_solve", "eigh", "svd", "qr"])
def test_calls_name_all_that_they_touch(name, monkeypatch):
    """Commands that share no memory may run at once: what a table leads to has to be named."""
    host_libraries.install(monkeypatch)
    x = posed(np.random.default_rng(2), "float32", 3, 40, 40)
    params = {
        "triangular_solve": {"left_side": True, "lower": True, "transpose_a": False}
        | {"conjugate_a": False, "unit_diagonal": False},
        "eigh": {"lower": True, "sort_eigenvalues": True, "subset_by_index": None}
        | {"algorithm": None},
        "svd": {"full_matrices": False, "compute_uv": True, "subset_by_index": None}
        | {"algorithm": SvdAlgorithm.DEFAULT},
        "qr": {"pivoting": False, "full_matrices": False, "use_magma": None},
    }.get(name, {})
    ins = [x, x] if name == "triangular_solve" else [x]
    primitive = lookup(name)
    want = primitive.ref(*ins, **params)
    want = list(want) if primitive.multiple_results else [want]
    given, made = ([Type(y.shape, y.dtype) for y in xs] for xs in (ins, want))
    routine = ROUTINES[name](given, made, params)
    calls = [step for step in routine.steps if isinstance(step, Library)]
    for step in calls:
        sizes = []
        for place in step.places:
            if place.kind == "scratch":
                sizes.append(routine.scratch[place.what])
            else:
                t = (given if place.kind == "in" else made)[place.what]
                sizes.append(np.prod(t.shape) * t.dtype.itemsize)
        assert max(sizes) >= x.nbytes, step.name


def test_nothing_without_libraries(monkeypatch):
    monkeypatch.setattr(solver.libraries, "has", lambda name: False)
    x = np.eye(33, dtype=np.float32)
    assert run("cholesky", [x], {})[0] is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
class TestSmall:
    """Small matrices, which a warp each factorises, without libraries."""

    @pytest.fixture(autouse=True)
    def alone(self, monkeypatch):
        monkeypatch.setattr(solver.libraries, "has", lambda name: False)
        self.rng = np.random.default_rng(7)

    @pytest.mark.parametrize("shape", [(1, 1), (3, 2, 2), (2, 2, 5, 5), (8, 8), (2, 32, 32)])
    def test_lu(self, dtype, shape):
        x = draw(self.rng, dtype, *shape)
        got, want = run("lu", [x], {})
        close(got, want)
        for a, b in zip(got[1:], want[1:], strict=True):
            np.testing.assert_array_equal(a, b)

    def test_lu_of_equal_and_of_no_pivots(self, dtype):
        x = np.array([[1, 2, 3], [-1, 0, 1], [1, 5, 4]], dtype)
        y = np.array([[0, 2, 3], [0, 0, 1], [0, 4, 4]], dtype)
        z = np.array([[1, np.nan, 3], [2, 1, 1], [4, 4, 4]], dtype)
        got, want = run("lu", [np.stack([x, y, np.zeros_like(x)])], {})
        close(got, want)
        (got, *_), _ = run("lu", [z], {})
        assert np.isnan(got).any()

    @pytest.mark.parametrize("shape", [(1, 1), (3, 2, 2), (5, 5), (2, 17, 17), (32, 32)])
    def test_cholesky(self, dtype, shape):
        x = posed(self.rng, dtype, *shape)
        x[..., 0, 1:] = np.nan  # above the diagonal nothing is read
        (got,), (want,) = run("cholesky", [x], {})
        close([got], [want])

    @pytest.mark.parametrize("wrong", [-1, 0, np.nan])
    def test_cholesky_that_fails_is_nan(self, dtype, wrong):
        x = posed(self.rng, dtype, 3, 4, 4)
        x[1, 2, 2] = wrong
        (got,), _ = run("cholesky", [x], {})
        assert np.isnan(got[1][np.tril_indices(4)]).all() and not np.isnan(got[[0, 2]]).any()
        assert (got[1][np.triu_indices(4, 1)] == 0).all()

    @pytest.mark.parametrize("flags", FLAGS)
    @pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 3), (1, 32, 1)])
    def test_triangular_solve(self, dtype, flags, shape):
        count, n, vectors = shape
        left, lower, transposed, conjugated, unit = flags
        params = {"left_side": left, "lower": lower, "transpose_a": transposed}
        params |= {"conjugate_a": conjugated, "unit_diagonal": unit}
        a = (draw(self.rng, dtype, count, n, n) / 8 + 2 * np.eye(n)).astype(dtype)
        b = draw(self.rng, dtype, count, *((n, vectors) if left else (vectors, n)))
        close(*run("triangular_solve", [a, b], params))

    def test_each_is_one_launch(self, dtype):
        x = Type((6, 9, 9), np.dtype(dtype))
        params = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False}
        params["unit_diagonal"] = False
        swaps = Type((6, 9), np.dtype("int32"))
        for name, ins, outs in (
            ("cholesky", [x], [x]),
            ("lu", [x], [x, swaps, swaps]),
            ("triangular_solve", [x, x], [x]),
        ):
            (step,) = ROUTINES[name](ins, outs, params).steps
            assert isinstance(step, Run)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
def test_uniform_numbers_differ_and_stay_between(dtype):
    low, high = np.array(2, dtype), np.array(5, dtype)
    ins, outs = [Type((), low.dtype)] * 2, [Type((700,), low.dtype)]
    routine = ROUTINES["rng_uniform"](ins, outs, {})
    state = next(p for step in routine.steps for p in step.places if p.kind == "state").what
    first = np.zeros(700, dtype)
    run_routine(routine, [low, high], [first])
    assert state[1] == 1
    second = np.zeros(700, dtype)
    run_routine(routine, [low, high], [second])
    assert (first != second).any() and state[1] == 2
    for x in (first, second):
        assert (x >= 2).all() and (x <= 5 if dtype == "float16" else x < 5).all()
        mean = 3.5 if x.dtype.kind == "f" else 3
        assert abs(x.astype(float).mean() - mean) < 0.2
    assert all(isinstance(step, Run) for step in routine.steps)
