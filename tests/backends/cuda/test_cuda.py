"""Programs on a GPU: every sample of every primitive is what its reference says."""

import numpy as np
import pytest

import weft
from tests.backends.test_reference import PROGRAMS, SAMPLES, check_samples
from weft import numpy as jnp
from weft.backends.cuda import driver
from weft.backends.cuda.program import Cuda

pytestmark = [
    pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine"),
    pytest.mark.filterwarnings("ignore::weft.backends.cuda.commands.HostFallbackWarning"),
]


# The reference of platform_index is the host's: test_client.py says what it is on a GPU.
@pytest.mark.parametrize("prim", sorted({s.prim for s in SAMPLES} - {"platform_index"}))
def test_programs_are_right(prim):
    check_samples(Cuda(), prim)


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs(name):
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s).astype(np.float32) for s in ((4, 4), (6, 4))]
    closed = weft.make_jaxpr(PROGRAMS[name])(*args)
    got = Cuda().compile(closed)(args)
    for a, b in zip(got, weft.tree.leaves(weft.jit(PROGRAMS[name])(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


SHAPES = {
    "transpose": (lambda x: x.T * 2 + 1, (130, 257)),
    "transposes and not": (lambda x: x.T + jnp.ones((96, 64)), (64, 96)),
    "axes": (lambda x: jnp.transpose(x, (2, 0, 1)), (5, 64, 70)),
    "flags": (lambda x: (x > 0).T, (40, 90)),
    "narrow": (lambda x: x.astype(jnp.bfloat16).T, (64, 64)),
    "rows of 4096": (weft.nn.softmax, (6, 4096)),
    "rows of 1000": (weft.nn.log_softmax, (9, 1000)),
    "norm": (lambda x: (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1)[:, None] + 1), (7, 2048)),
    "sum": (lambda x: (x * x).sum(), (700, 1000)),
    "columns": (lambda x: jnp.abs(x).max(0), (900, 5000)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_schedules(name):
    fun, shape = SHAPES[name]
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    (got,) = Cuda().compile(weft.make_jaxpr(fun)(x))([x])
    want = np.asarray(weft.jit(fun)(x))
    got, want = (v.astype(np.float32) for v in (got, want))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


ELEMENTWISE = "exp log tanh sin cos log1p expm1 rsqrt sqrt logistic erf cbrt".split()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_functions_have_the_bits_of_the_cpu(name):
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-20, 20, 4096)).astype(np.float32)
    x[::2] *= -1
    fun = getattr(weft.lax, name)
    (got,) = Cuda().compile(weft.make_jaxpr(fun)(x))([x])
    want = np.asarray(weft.jit(fun)(x))
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (x[~same][:5], got[~same][:5], want[~same][:5])


def test_every_float16_has_the_bits_of_the_cpu():
    """Denormal numbers too, which are not flushed."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[~np.isnan(x)]

    def fun(x):
        return -x, abs(x), x * 0.75, x + x[5], jnp.maximum(x, 0), x < 1e-6, x.astype("float32")

    closed = weft.make_jaxpr(fun)(x)
    for got, want in zip(Cuda().compile(closed)([x]), weft.jit(fun)(x), strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), np.asarray(want).view(np.uint8))


def test_the_default_device_chooses_it():
    x = np.arange(12, dtype=np.float32)
    with weft.default_device(weft.devices("cuda")[0]):
        got = weft.jit(lambda x: jnp.cumsum(jnp.sin(x)) @ x)(x)
    assert got.devices() == {weft.devices("cuda")[0]}
    np.testing.assert_allclose(got, np.cumsum(np.sin(x)) @ x, rtol=1e-5)
