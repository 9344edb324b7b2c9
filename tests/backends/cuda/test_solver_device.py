"""Factorisations on a GPU: what they are to give back, for all types, alone and in stacks."""

from itertools import pairwise

import numpy as np
import pytest

import weft
from weft.backends.cuda import driver
from weft.backends.cuda.program import Cuda
from weft.base import knobs
from weft.lax import linalg

pytestmark = [
    pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine"),
    pytest.mark.filterwarnings("error::weft.base.errors.HostFallbackWarning"),
]

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = [(40, 40), (50, 30), (30, 50)]
STACKS = [(), (5,)]


@pytest.fixture(params=DTYPES)
def dtype(request):
    with weft.enable_x64(request.param in ("float64", "complex128")):
        yield request.param


@pytest.fixture(params=STACKS, ids=str)
def stack(request):
    return request.param


def draw(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def posed(dtype, *shape):
    x = draw(dtype, *shape)
    return (x @ adjoint(x) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


def run(fun, *args):
    """What a function gives, when its second and third call are graphs, where they may be."""
    closed = weft.make_jaxpr(fun)(*args)
    made = Cuda().compile(closed)
    first, _, last = (made(args) for _ in range(3))
    for a, b in zip(first, last, strict=True):
        close(a, b)
    return last


def reference(fun, *args):
    with knobs.scope(backend="reference"):
        return [np.asarray(x) for x in weft.tree.leaves(fun(*args))]


def close(a, b, factor=1):
    tol = factor * (3e-4 if a.dtype.name in ("float32", "complex64") else 1e-10)
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(1, np.abs(b).max()))


def unitary(q):
    close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)))


@pytest.mark.parametrize("size", [6, 32, 40])
def test_cholesky(dtype, stack, size):
    x = posed(dtype, *stack, size, size)
    (got,) = run(lambda x: linalg.cholesky(x, symmetrize_input=False), x)
    close(got @ adjoint(got), x)
    assert not np.triu(got, 1).any()


@pytest.mark.parametrize("size", [6, 40])
def test_cholesky_of_others_is_nan(dtype, size):
    x = posed(dtype, 3, size, size)
    x[1] *= -1
    (got,) = run(lambda x: linalg.cholesky(x, symmetrize_input=False), x)
    assert np.isnan(got[1][np.tril_indices(size)]).all() and not np.isnan(got[[0, 2]]).any()


@pytest.mark.parametrize("shape", [*SHAPES, (6, 6), (32, 32)])
def test_lu(dtype, stack, shape):
    x, k = draw(dtype, *stack, *shape), min(shape)
    packed, _, order = run(linalg.lu, x)
    lower = np.tril(packed, -1)[..., :k] + np.eye(shape[0], k)
    upper = np.triu(packed)[..., :k, :]
    close((lower @ upper).astype(dtype), np.take_along_axis(x, order[..., None], -2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("whole", [True, False])
def test_qr(dtype, stack, shape, whole):
    x = draw(dtype, *stack, *shape)
    q, r = run(lambda x: linalg.qr(x, full_matrices=whole), x)
    close(q @ r, x)
    unitary(q)
    want = reference(lambda x: linalg.qr(x, full_matrices=whole), x)
    close(q, want[0], 10)
    close(r, want[1], 10)


def test_qr_of_many(dtype):
    x = draw(dtype, 300, 20, 12)
    q, r = run(lambda x: linalg.qr(x, full_matrices=False), x)
    close(q @ r, x)
    unitary(q)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("whole", [True, False])
def test_svd(dtype, stack, shape, whole):
    x, k = draw(dtype, *stack, *shape), min(shape)
    for algorithm in (linalg.SvdAlgorithm.DEFAULT, linalg.SvdAlgorithm.QR):
        check_svd(x, k, whole, algorithm)


def check_svd(x, k, whole, algorithm):
    found = run(lambda x: linalg.svd(x, full_matrices=whole, algorithm=algorithm), x)
    s, u, v = sorted(found, key=lambda a: a.ndim) if found[0].ndim == x.ndim else found
    unitary(u)
    unitary(adjoint(v))
    close((u[..., :k] * s[..., None, :] @ v[..., :k, :]).astype(x.dtype), x)
    (values,) = run(lambda x: linalg.svd(x, compute_uv=False, algorithm=algorithm), x)
    close(values, s)


@pytest.mark.parametrize("lower", [True, False])
def test_eigh(dtype, stack, lower):
    x = posed(dtype, *stack, 40, 40)
    unread = np.triu(np.ones((40, 40)), 1) if lower else np.tril(np.ones((40, 40)), -1)
    given = (x + 7 * unread).astype(dtype)
    v, w = run(lambda x: linalg.eigh(x, lower=lower, symmetrize_input=False), given)
    unitary(v)
    close(x @ v, v * w[..., None, :])


def test_eig(dtype, stack):
    x = draw(dtype, *stack[:1] and (3,), 40, 40)
    w, v = run(lambda x: linalg.eig(x, compute_left_eigenvectors=False), x)
    close(x @ v, v * w[..., None, :], 3)
    close(np.linalg.norm(v, axis=-2), np.ones(w.shape, w.real.dtype))


@pytest.mark.parametrize("size, columns", [(40, 1), (40, 3), (2000, 1), (2000, 2)])
def test_tridiagonal_solve(dtype, stack, size, columns):
    below, middle, above = (draw(dtype, *stack, size, seed=i) for i in range(3))
    args = below, middle + 4, above, draw(dtype, *stack, size, columns, seed=3)
    close(run(linalg.tridiagonal_solve, *args)[0], reference(linalg.tridiagonal_solve, *args)[0])


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(dtype, stack, left, transpose):
    a, taus = np.linalg.qr(draw("float64", 50, 30), mode="raw")
    a = np.broadcast_to(a.T, (*stack, 50, 30)).astype(dtype)
    taus = np.broadcast_to(taus, (*stack, 30)).astype(dtype)
    c = draw(dtype, *stack, *((50, 7) if left else (7, 50)))
    fun = lambda *xs: linalg.ormqr(*xs, left=left, transpose=transpose)
    close(run(fun, a, taus, c)[0], reference(fun, a, taus, c)[0], 10)


def test_numbers_that_differ_in_every_call():
    fun = lambda a, b: weft.lax.rng_uniform(a, b, (1000,))
    made = Cuda().compile(weft.make_jaxpr(fun)(np.float32(2), np.float32(5)))
    draws = [made([np.float32(2), np.float32(5)])[0] for _ in range(4)]
    assert all((x >= 2).all() and (x < 5).all() for x in draws)
    assert all((a != b).any() for a, b in pairwise(draws))


def model(x):
    y = weft.nn.softmax(x @ x)
    return weft.numpy.sort(y, axis=1) * 2


def test_traces_have_kernels_with_lines(tmp_path):
    """All that a program does is told, as a graph too, its own kernels with the user's lines."""
    x = draw("float32", 256, 256)
    made = Cuda().compile(weft.make_jaxpr(model)(x))
    for _ in range(3):
        made([x])
    with weft.profiler.trace(tmp_path):
        made([x])
    (path,) = tmp_path.rglob("*.trace.json.gz")
    data = weft.profiler.ProfileData.from_file(path)
    plane = data.find_plane_with_name("/device:GPU:0")
    events = [e for line in plane.lines for e in line.events]
    told = {e.name.rpartition("_")[0]: dict(e.stats).get("lines", "") for e in events}
    first = model.__code__.co_firstlineno
    assert f":{first + 2} (model)" in told["sort"]
    assert any(f":{first + 1} (model)" in lines for lines in told.values())
    assert all(e.duration_ns >= 0 for e in events)


def test_explanations_tell_of_the_gpu():
    x = weft.device_put(draw("float32", 2048, 2048), weft.devices("gpu")[0])
    text = str(weft.explain(lambda x: x * 2 + 1, quiet=True, measure=True)(x))
    assert "registers" in text and "TB/s" in text and "took" in text
