"""The same bits at any number of threads: batches of every sample, and large arrays."""

import numpy as np
import pytest

import weft
from tests.laws import checks
from tests.runtime import ways
from tests.samples import all_samples
from weft import lax
from weft import numpy as jnp
from weft.core.registry import lookup

COUNTS = (1, 2, 8)
SAMPLES = [s for s in all_samples() if s.axis is None]
BATCH = 700


@pytest.fixture(autouse=True)
def by_native(monkeypatch):
    ways.take("native", monkeypatch)


def check(fun, *args):
    """Results at each number of threads, to the bit."""
    function = weft.jit(fun)
    found = []
    for count in COUNTS:
        with weft.num_threads(count):
            found.append([x.tobytes() for x in checks.arrays(function(*args))])
    assert found[0] == found[1] == found[2]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_samples(sample):
    dtype = sample.dtypes[0]
    with checks.precision(dtype):
        fun = sample.function(dtype)
        args = sample.operands(dtype, checks.seed_of(sample))
        primitive = lookup(sample.prim)
        many = sample.mapped is None and "batch" not in primitive.holes and args
        if many and "callback" not in sample.prim and "debug" not in sample.prim:
            args = [np.stack([x] * BATCH) for x in args]
            fun = weft.vmap(fun)
        check(fun, *args)


LARGE = {
    "elementwise": lambda x: jnp.tanh(x) * jnp.exp(-x),
    "sum": jnp.sum,
    "rows": lambda x: jnp.sum(x.reshape(1001, -1), 1),
    "columns": lambda x: jnp.sum(x.reshape(1001, -1), 0),
    "softmax": lambda x: weft.nn.softmax(x.reshape(1001, -1)),
    "mean and variance": lambda x: (jnp.mean(x), jnp.var(x)),
    "transpose": lambda x: x.reshape(1001, -1).T + 1,
    "cumsum": jnp.cumsum,
    "sort": jnp.sort,
    "argsort": jnp.argsort,
    "product": lambda x: x[:90_000].reshape(300, 300) @ x[:90_000].reshape(300, 300),
    "products": lambda x: jnp.einsum("bij,bjk->bik", *[x[:64000].reshape(40, 40, 40)] * 2),
    "gather": lambda x: x[(x * 1000).astype(int) % 1000],
    "scatter": lambda x: jnp.zeros(100).at[(x * 100).astype(int) % 100].add(x),
    "random": lambda x: weft.random.normal(weft.random.key(3), (200_003,)),
    "fft": lambda x: jnp.fft.fft(x[: 1 << 16]),
    "scan": lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), x[:1001], x.reshape(-1, 1001)),
    "gradient": weft.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.cumsum(x))),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_arrays(name):
    rng = np.random.default_rng(0)
    check(LARGE[name], jnp.asarray(rng.standard_normal(1001 * 203), jnp.float32))
