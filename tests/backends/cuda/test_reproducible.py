"""``reproducible`` on a GPU made of the host: sums in the order that programs say, as on the CPU.

Kernels run as the IR that they are, by NumPy's functions of numbers; products are cuBLAS's.
"""

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import numpy as jnp
from weft.base import knobs


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# Sums of products of elements, without functions that the emulation takes from NumPy.
CASES = {
    "sum": (jnp.sum, (floats(1003),)),
    "rows": (lambda x: (x * x).sum(1), (floats(37, 129),)),
    "columns": (lambda x: jnp.sum(x, 0), (floats(129, 37),)),
    "variance": (lambda x: jnp.var(x, 1), (floats(7, 129),)),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (floats(5, 100),)),
    "gradient": (weft.grad(lambda x: (x * x.mean(0)).sum()), (floats(19, 33),)),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_have_the_bits_of_the_cpu(name, monkeypatch):
    fun, args = CASES[name]
    with knobs.scope(reproducible=True):
        want = np.asarray(weft.jit(fun)(*args))
        device = host_device.install_client(monkeypatch)
        found = weft.jit(lambda *a: fun(*a))(*[weft.device_put(a, device) for a in args])
        assert found.devices() == {device}
        assert np.asarray(found).tobytes() == want.tobytes()
