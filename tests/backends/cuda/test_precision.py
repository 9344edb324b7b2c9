"""The precision of float32 products: what is chosen for each setting, and its error on a GPU."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import driver
from weft.backends.cuda.routines import products
from weft.base import knobs
from weft.compiler.passes.contract import contract

GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")

# Settings, and whether JAX's GPU backend multiplies in TF32 with them.
SETTINGS = {
    None: True,
    "default": True,
    "high": True,
    "highest": False,
    "bfloat16": True,
    "tensorfloat32": True,
    "float32": False,
    "TF32_TF32_F32": True,
    "BF16_BF16_F32": True,
    "BF16_BF16_F32_X9": False,
    "TF32_TF32_F32_X3": False,
    "F32_F32_F32": False,
}
PAIRS = {("default", "highest"): False, ("high", "default"): True, ("highest", "highest"): False}


def chosen(fun, *args):
    """What the one product or convolution of a function is summed in."""
    (eqn,) = [
        e for e in weft.make_jaxpr(fun)(*args).eqns
        if e.primitive.name in ("dot_general", "conv_general_dilated")
    ]  # fmt: skip
    return products.compute_of(eqn.invars[0].aval.dtype, eqn.params)


@pytest.fixture
def hopper(monkeypatch):
    monkeypatch.setattr(products, "has_tf32", lambda: True)


X = np.ones((40, 40), np.float32)


@pytest.mark.parametrize("setting", SETTINGS)
def test_precisions_decide_as_in_jax(setting, hopper):
    want = products._TF32 if SETTINGS[setting] else products._FULL
    assert chosen(lambda x: jnp.dot(x, x, precision=setting), X) == want
    if setting is not None:
        with knobs.scope(default_matmul_precision=setting):
            assert chosen(lambda x: x @ x, X) == want
            full = chosen(lambda x: jnp.dot(x, x, precision="highest"), X)
        assert full == products._FULL  # an argument says more than the knob


@pytest.mark.parametrize("pair", PAIRS)
def test_both_operands_have_a_say(pair, hopper):
    want = products._TF32 if PAIRS[pair] else products._FULL
    assert chosen(lambda x: lax.dot(x, x, precision=pair), X) == want


def test_dtypes_decide_too(hopper):
    assert chosen(lambda x: x @ x, X.astype(np.complex64)) == products._TF32
    assert chosen(lambda x: x @ x, X.astype(np.float16)) == products._FULL
    with weft.enable_x64():
        assert chosen(lambda x: x @ x, X.astype(np.float64)) == products._DOUBLE


def test_convolutions_decide_alike(hopper):
    image, filters = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 3, 3), np.float32)
    run = lambda precision: chosen(
        lambda x, w: lax.conv(x, w, (1, 1), "SAME", precision=precision), image, filters
    )
    assert run(None) == products._TF32
    assert run("highest") == products._FULL


def test_older_gpus_multiply_in_full():
    assert chosen(lambda x: x @ x, X) == products._FULL  # see the fixture of all these tests


@pytest.mark.parametrize("setting", ["F32_F32_F32", "TF32_TF32_F32_X3", "TF32_TF32_F32"])
def test_algorithms_are_kept_by_the_compiler(setting, hopper):
    """Conversions are written around a product with an algorithm; what is left has a precision."""
    closed = weft.make_jaxpr(lambda x: jnp.dot(x, x, precision=setting))(X)
    names = [(e.primitive.name, e) for e in contract(closed).jaxpr.eqns]
    (eqn,) = [e for name, e in names if name == "dot_general"]
    want = products._TF32 if SETTINGS[setting] else products._FULL
    assert products.compute_of(np.dtype(np.float32), eqn.params) == want


def test_factorisations_are_exact(hopper):
    """Gradients of factorisations name the highest precision, whatever the knob says."""
    a = np.eye(4, dtype=np.float32) * 4
    closed = weft.make_jaxpr(weft.grad(lambda a: jnp.linalg.cholesky(a).sum()))(a)
    asked = [e.params["precision"] for e in closed.eqns if e.primitive.name == "dot_general"]
    assert all(p == (lax.Precision.HIGHEST,) * 2 for p in asked)


def error(found, want):
    return np.linalg.norm(np.asarray(found, np.float64) - want) / np.linalg.norm(want)


@GPU
@pytest.mark.parametrize("setting", SETTINGS)
def test_errors_of_products(setting, hopper):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    gpu = weft.devices("cuda")[0]
    with knobs.scope(default_matmul_precision=setting), weft.default_device(gpu):
        found = weft.jit(lambda x, y: x @ y)(x, y)
    off = error(found, x.astype(np.float64) @ y)
    assert 1e-4 < off < 1e-3 if SETTINGS[setting] else off < 1e-6


@GPU
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("setting", [None, "highest"])
def test_errors_of_convolutions(setting, size, hopper):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 32, 16, 16), np.float32)
    w = rng.standard_normal((32, 32, size, size), np.float32)
    gpu = weft.devices("cuda")[0]
    with knobs.scope(default_matmul_precision=setting), weft.default_device(gpu):
        found = weft.jit(lambda x, w: lax.conv(x, w, (1, 1), "VALID"))(x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (size, size), (2, 3))
    off = error(found, np.einsum("nchwij,ocij->nohw", windows, w))
    # cuDNN may choose an algorithm that multiplies in full all the same
    assert off < (1e-3 if setting is None else 1e-6)
