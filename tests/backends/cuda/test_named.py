"""Programs in named sizes on a GPU: other shapes of a jitted function compile nothing."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import lax, nn
from weft import numpy as jnp
from weft.backends.cuda import assemble, driver
from weft.base import knobs
from weft.base.background import settle
from weft.kernel.nodes import BF16
from weft.runtime import kinds

GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")


@pytest.fixture(params=["host", pytest.param("GPU", marks=GPU)])
def gpu(request, monkeypatch):
    """A GPU, or one that is made of the host; ``loaded`` has the kernels that were loaded."""
    found = weft.devices("cuda")[0] if request.param == "GPU" else None
    found = found or host_device.install_client(monkeypatch)
    known, loaded = assemble.load, []

    def load(text, dynamic=0, label=""):
        loaded.append(text)
        return known(text, dynamic, label)

    monkeypatch.setattr(assemble, "load", load)
    kinds.kind_of.cache_clear()
    found.client.loaded = loaded
    with knobs.scope(shape_generic=True):
        yield found


def arrays(shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(dtype) for s in shapes]


def norm(x, w):
    y = x - x.mean(-1, keepdims=True)
    return y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * w


def loop(x):
    return lax.fori_loop(0, 3, lambda i, y: jnp.tanh(y) + i, x)


PROGRAMS = {
    "elements": (lambda x, y: jnp.tanh(x) * y + 1, lambda n: [(n, 3 * n), (n, 3 * n)]),
    "odd": (lambda x: jnp.exp(x) - x, lambda n: [(n + 1, 2 * n + 1)]),
    "rows": (lambda x: nn.softmax(x), lambda n: [(5, n)]),
    "columns": (lambda x: x.sum(0), lambda n: [(n, 7)]),
    "all": (lambda x: (x * x).sum(), lambda n: [(n, n)]),
    "norm": (norm, lambda n: [(3, n), (n,)]),
    "broadcast": (lambda x, y: x[:, None] + y[None] * 2, lambda n: [(n,), (2 * n,)]),
    "transposed": (lambda x: x.T + 1, lambda n: [(n + 30, 2 * n + 30)]),
    "turned": (lambda x: x.transpose(2, 1, 0) * 2, lambda n: [(n + 30, 2, n + 24)]),
    "joined": (lambda x, y: jnp.concatenate([x, y, x]), lambda n: [(n,), (2 * n,)]),
    "sliced": (lambda x: x[1:] - x[:-1], lambda n: [(n, 2)]),
    "gradient": (weft.grad(lambda x: jnp.log1p(x * x).sum()), lambda n: [(n, 3)]),
    "counted": (lambda x: x + jnp.arange(x.shape[0]) / x.shape[0], lambda n: [(n,)]),
    "loop": (loop, lambda n: [(n,)]),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), lambda n: [(n // 4, 4)]),
    "batched": (weft.vmap(lambda x: nn.softmax(x) @ x), lambda n: [(3, n)]),
    "chosen": (lambda x: jnp.where(x > 0, x, 0.1 * x).max(), lambda n: [(4, n)]),
}


# The precision of results by their dtype; some round sums that others keep.
PRECISION = {np.float32: 1e-5, BF16: 3e-2, np.float16: 4e-3}


@pytest.mark.parametrize(
    "dtype", [np.float32, BF16, pytest.param(np.float16, marks=pytest.mark.full)]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_shapes_compile_nothing(gpu, name, dtype):
    fun, shapes = PROGRAMS[name]
    run = weft.jit(fun)
    for count, n in enumerate((12, 20, 28, 36)):
        given = arrays(shapes(n), dtype)
        before = len(gpu.client.loaded)
        got = run(*weft.device_put(given, gpu))
        if count >= 2:
            assert len(gpu.client.loaded) == before
        want = weft.jit(fun)(*given)
        for g, w in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
            assert g.dtype == w.dtype
            near = dict.fromkeys(("rtol", "atol"), PRECISION[dtype])
            np.testing.assert_allclose(*(np.asarray(x, np.float64) for x in (g, w)), **near)


def mlp(params, x, y):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return ((x @ w + b - y) ** 2).mean()


def recurrent(w, xs):
    def turn(h, x):
        return jnp.tanh(h @ w / 20 + x), h.sum()

    return lax.scan(turn, jnp.zeros(xs.shape[1:]), xs)[1].sum()


def attend(q, k):
    return nn.softmax(q @ k.swapaxes(-1, -2) / 4) @ k


@GPU
@pytest.mark.parametrize("name", ["network", "recurrent", "attention", "sorted"])
def test_libraries_are_asked_again(gpu, name):
    given = {
        "network": lambda n: ([(64, 128), (128,), (128, 8), (8,), (n, 64), (n, 8)]),
        "recurrent": lambda n: [(48, 48), (n, 12, 48)],
        "attention": lambda n: [(2, 3, n, 32), (2, 3, n, 32)],
        "sorted": lambda n: [(n, 3)],
    }[name]
    fun = {
        "network": lambda a, b, c, d, x, y: weft.grad(mlp)([(a, b), (c, d)], x, y),
        "recurrent": weft.grad(recurrent),
        "attention": lambda q, k: weft.grad(lambda q: attend(q, k).sum())(q),
        "sorted": lambda x: jnp.sort(x * 2, 0),
    }[name]
    run = weft.jit(fun)
    for count, n in enumerate((36, 44, 52, 60)):
        operands = arrays(given(n))
        got = run(*weft.device_put(operands, gpu))
        with weft.default_matmul_precision("highest"):
            want = weft.jit(fun)(*operands)
        assert count < 1 or name == "sorted" or run.cache_info()["shape_generic"] == count
        for g, w in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-2, atol=2e-2)


def test_sizes_of_another_kind_get_code_of_their_own(gpu):
    # rows of whole vectors, and others
    run = weft.jit(lambda x: jnp.tanh(x) + 1)
    for n in (12, 20, 21, 23, 28, 27):
        (x,) = arrays([(3, n)])
        np.testing.assert_allclose(run(weft.device_put(x, gpu)), np.tanh(x) + 1, rtol=1e-5)


def test_constants_are_those_of_each_program(gpu):
    def scaled(x):
        return x * np.arange(x.shape[0], dtype=np.float32)

    for n in (8, 12, 16, 24):
        x = np.ones(n, np.float32)
        got = weft.jit(scaled)(weft.device_put(x, gpu))
        np.testing.assert_array_equal(got, np.arange(n, dtype=np.float32))


def test_exact_code_follows_in_the_background(gpu):
    run = weft.jit(lambda x: x * 2 + 1)
    with knobs.scope(exact_after=2):
        for n in (8, 16, 24):
            x = weft.device_put(np.ones((n, 4), np.float32), gpu)
            run(x)
        assert run.cache_info()["shape_generic"] == 2
        for _ in range(4):
            run(x)
        settle()
        np.testing.assert_array_equal(run(x), np.full((24, 4), 3.0))
        assert run.cache_info()["shape_generic"] == 1


def test_operations_outside_of_jit(gpu):
    # reductions of several axes keep values in between, whose types have sizes too
    for n in (5, 9, 12):
        (x,) = arrays([(3, n, 4)])
        y = weft.device_put(x, gpu)
        np.testing.assert_allclose(y.max((0, 2), keepdims=True), x.max((0, 2), keepdims=True))
        np.testing.assert_allclose(
            jnp.prod(y, (-1, -3), keepdims=True), x.prod((-1, -3), keepdims=True), rtol=1e-5
        )
        np.testing.assert_array_equal(jnp.gcd(y.astype(int), 6), np.gcd(x.astype(int), 6))
        np.testing.assert_allclose(jnp.median(y, 1), np.median(x, 1), rtol=1e-6)
