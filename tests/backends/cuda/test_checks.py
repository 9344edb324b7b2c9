"""Compiled checks on a GPU, or one made of the host: told at the end of each call."""

import gc

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import numpy as jnp
from weft.backends.cuda import driver

GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")


@pytest.fixture(params=["host", pytest.param("GPU", marks=GPU)])
def gpu(request, monkeypatch):
    """A GPU, or one that is made of the host."""
    if request.param == "GPU":
        yield weft.devices("cuda")[0]
        return
    yield host_device.install_client(monkeypatch)
    gc.collect()  # frames of errors hold memory of the device, which ends with the test


def step(c, i):
    return jnp.log(c) * 3 - i, c


CASES = [
    (jnp.log, [np.float32([4, 2, -1])], FloatingPointError, "log made nan at [2]: log(-1)"),
    (
        lambda c: weft.lax.scan(step, c, jnp.arange(20.0)),
        [np.float32(5)],
        FloatingPointError,
        "iteration 4 of the loop",
    ),
    (lambda x, i: x[i], [np.arange(4.0), np.array([2, 9])], IndexError, "got index 9 for axis 0"),
    (lambda n, d: n // d, [np.int32([3, 4]), np.int32([1, 0])], ZeroDivisionError, "by zero at"),
    (lambda n: n * n, [np.int32([1 << 20])], OverflowError, "1048576 * 1048576"),
]


@pytest.mark.parametrize(("function", "args", "kind", "text"), CASES)
def test_failures_on_a_gpu_are_named(gpu, function, args, kind, text):
    args = [weft.device_put(x, gpu) for x in args]
    f = weft.jit(function)
    with weft.checks():
        for _ in range(3):
            with pytest.raises(kind) as error:
                f(*args)
            assert text in str(error.value)
    weft.block_until_ready(weft.jit(function)(*args))


def test_clean_programs_keep_their_results_and_arguments(gpu):
    x = weft.device_put(np.arange(1.0, 7, dtype=np.float32).reshape(2, 3), gpu)
    f = weft.jit(lambda x: (jnp.log(x), x.sum()), donate_argnums=0)
    with weft.checks():
        y, total = f(x)
        assert y.devices() == {gpu}
        assert float(total) == 21
        eager = jnp.sqrt(y + 3) @ y.T
    np.testing.assert_allclose(y, np.log(np.arange(1.0, 7).reshape(2, 3)), rtol=1e-6)
    assert np.isfinite(np.asarray(eager)).all()


def test_single_operations_on_a_gpu_are_checked(gpu):
    x = weft.device_put(np.float32([1, -1]), gpu)
    with weft.checks(nan=True), pytest.raises(FloatingPointError, match="sqrt made nan"):
        weft.lax.sqrt(x)
