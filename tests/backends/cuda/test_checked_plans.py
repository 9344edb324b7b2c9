"""Checks leave a GPU's kernels as they are, and name the first operation that failed."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device, planned
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda.routines import products
from weft.base import checking
from weft.compiler.checks import instrument

NAN = checking.Kinds(True, False, False, False, "")
ALL = checking.Kinds(True, False, True, True, "signed")
# The flags that are filled at the beginning, the first one that is chosen at the end, and a check
# of numbers from ``iota``.
MORE = 3


def attention(q, k, v):
    return nn.dot_product_attention(q, k, v, is_causal=True)


def masked(q, k, v):
    scores = jnp.einsum("btnh,bsnh->bnts", q, k).astype(np.float32) / 8
    far = jnp.arange(256)[:, None] - jnp.arange(256) > 64
    weights = nn.softmax(jnp.where(far, -1e30, scores)).astype(q.dtype)
    return jnp.einsum("bnts,bsnh->btnh", weights, v)


def gradient(f):
    return lambda *args: weft.grad(lambda *xs: f(*xs).astype(np.float32).sum(), (0, 1, 2))(*args)


def layers(x, w, v):
    return nn.gelu(x @ w) @ v


def adam(x, w, v):
    g = weft.grad(lambda w: jnp.mean((nn.relu(x @ w) @ v) ** 2))(w)
    m, s = 0.1 * g, 0.1 * g * g
    return w - 1e-3 * m / (jnp.sqrt(s) + 1e-8), m, s


def shapes(*sizes, dtype=jnp.bfloat16):
    return [weft.ShapeDtypeStruct(size, dtype) for size in sizes]


HEADS = shapes(*[(2, 256, 4, 64)] * 3)
ROWS = shapes((512, 256), (256, 1024), (1024, 256))
PROGRAMS = {
    "attention": (attention, HEADS),
    "attention, gradient": (gradient(attention), HEADS),
    "masked attention": (masked, HEADS),
    "masked attention, gradient": (gradient(masked), HEADS),
    "two layers": (layers, ROWS),
    "two layers, gradient": (gradient(layers), ROWS),
    "a step of Adam": (adam, shapes((512, 256), (256, 1024), (1024, 8), dtype=np.float32)),
}


@pytest.mark.parametrize("kinds", [NAN, ALL], ids=["nan", "all"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_checked_programs_have_the_kernels_of_others(monkeypatch, name, kinds):
    planned.install(monkeypatch)
    function, args = PROGRAMS[name]
    closed = weft.make_jaxpr(function)(*args)
    before, after = [
        [getattr(c, "told", "") or c.function.name for c in planned.Cuda().make(x, ()).commands]
        for x in (closed, instrument.telling(closed, kinds, True)[0])
    ]
    large = lambda names: [x for x in names if "Matmul" in x or "attention" in x]
    assert large(after) == large(before)
    # results that a library has written are read once
    assert len(after) <= len(before) + MORE + len(closed.out_avals)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is made of the host, without libraries."""
    monkeypatch.setattr(products, "known", lambda *avals: False)
    return host_device.install_client(monkeypatch)


X = np.float32(np.random.default_rng(0).normal(size=(8, 8)))


def between(x, w):
    return jnp.tanh(jnp.log(x @ w) @ w)


def scores(x, w):
    weights = nn.softmax(jnp.sqrt(x @ w.T))
    return weights @ w


def rounds(x, w):
    return weft.lax.fori_loop(0, 5, lambda i, x: jnp.sqrt(x @ w - i * 1e3) @ w, x * 0 + 2000)


@pytest.mark.parametrize(
    ("function", "text"),
    [(between, "log made nan at"), (scores, "sqrt made nan at"), (rounds, "iteration ")],
)
def test_operands_of_products_are_named(gpu, function, text):
    x, w = weft.device_put(X, gpu), weft.device_put(X.T.copy(), gpu)
    w = abs(w) if function is rounds else w
    with weft.checks(), pytest.raises(FloatingPointError) as error:
        weft.block_until_ready(weft.jit(function)(x, w))
    assert text in str(error.value)
    assert "not available" not in str(error.value)


def test_an_operation_before_products_is_named_first(gpu):
    x = weft.device_put(X, gpu)
    with weft.checks(nan=True), pytest.raises(FloatingPointError) as error:
        weft.block_until_ready(weft.jit(lambda x: jnp.arccos(jnp.log(x) @ x - 9) @ x)(x))
    assert "log made nan at" in str(error.value)


def test_bad_numbers_that_were_passed_in_raise_nothing(gpu):
    bad = X.copy()
    bad[3, 3] = np.nan
    with weft.checks(nan=True):
        found = weft.jit(layers)(*[weft.device_put(x, gpu) for x in (bad, X, X)])
        assert np.isnan(np.asarray(found)).any()


def test_without_memory_for_all_checks_a_failure_is_named_by_fewer(gpu, monkeypatch):
    real, runs = gpu.client.run, []

    def run(*given):
        runs.append(given)
        if len(runs) > 1:
            raise weft.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory on the GPU")
        return real(*given)

    monkeypatch.setattr(gpu.client, "run", run)
    x = weft.device_put(X, gpu)
    with weft.checks(nan=True), pytest.raises(FloatingPointError, match="log made nan at"):
        weft.block_until_ready(weft.jit(between)(x, x))
    assert len(runs) == 2
