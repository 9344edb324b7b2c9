"""Compiled checks on a GPU, or one made of the host: told before a value is read."""

import gc
import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import numpy as jnp
from weft.backends.cuda import driver
from weft.base import checking
from weft.runtime import clients

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
                weft.block_until_ready(f(*args))
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


def bad(gpu):
    return weft.device_put(np.float32([1, -1]), gpu)


def fine(gpu):
    return weft.device_put(np.float32([1, 4]), gpu)


READS = {
    "ready": weft.block_until_ready,
    "array": np.asarray,
    "number": lambda y: float(y[1]),
    "print": str,
    "copy": lambda y: y.copy_to_host_async(),
    "dlpack": lambda y: y.__dlpack__(),
    "to the host": lambda y: weft.device_put(y, weft.devices("cpu")[0]),
}


@pytest.mark.parametrize("name", READS)
def test_a_failed_call_raises_before_its_values_are_seen(gpu, name):
    f = weft.jit(lambda x: jnp.sqrt(x) + 1)
    scope = weft.checks(nan=True)
    with scope:
        y = f(bad(gpu))
        with pytest.raises(FloatingPointError, match=r"sqrt made nan at \[1\]: sqrt\(-1\)"):
            READS[name](y)
        READS[name](f(fine(gpu)))  # it is said once


def test_a_failed_call_raises_at_the_end_of_the_scope(gpu):
    f = weft.jit(jnp.sqrt)
    with pytest.raises(FloatingPointError, match="sqrt made nan"), weft.checks(nan=True):
        f(fine(gpu))
        f(bad(gpu))
    with pytest.raises(KeyError), weft.checks(nan=True):  # another error goes first
        f(bad(gpu))
        raise KeyError
    with pytest.raises(FloatingPointError, match="sqrt made nan"):
        np.asarray(fine(gpu))
    np.asarray(fine(gpu))

    @weft.checks(nan=True)
    def decorated(x):
        return f(x)

    with pytest.raises(FloatingPointError, match="sqrt made nan"):
        decorated(bad(gpu))


def test_the_next_call_raises_and_no_call_waits_for_its_own(gpu):
    f, seen = weft.jit(jnp.sqrt), []
    with weft.checks(nan=True):
        seen.append(f(bad(gpu)))
        with pytest.raises(FloatingPointError, match="sqrt made nan"):
            seen.append(f(fine(gpu)))
        assert len(seen) == 1
        for _ in range(3):  # a NaN that is passed on is no failure
            seen.append(f(seen[-1]))
    np.asarray(seen[-1])


def test_arguments_may_go_before_the_checks_are_looked_at(gpu):
    f, double = weft.jit(lambda x, n: jnp.log(x) * n), weft.jit(lambda x: x * 2, donate_argnums=0)
    x, n = bad(gpu), np.float32([3, 3])
    with pytest.raises(FloatingPointError, match=r"log made nan at \[1\]: log\(-1\)"):
        with weft.checks(nan=True):
            f(x, n)
            n[...] = 7
            x.delete()
    x = bad(gpu)
    with pytest.raises(FloatingPointError, match=r"log made nan at \[1\]: log\(-1\)"):
        with weft.checks(nan=True):
            f(x, n)
            with weft.checks(nan=False):
                double(x)


def test_donated_arguments_of_failed_calls_stay(gpu):
    f = weft.jit(lambda x: jnp.sqrt(x) * 2, donate_argnums=0)
    x = bad(gpu)
    with weft.checks(nan=True):
        y = f(x)
        with pytest.raises(FloatingPointError, match="sqrt made nan"):
            np.asarray(y)
    np.testing.assert_array_equal(x, [1, -1])


def test_calls_that_hold_much_wait(gpu, monkeypatch):
    f = weft.jit(jnp.sqrt)
    with weft.checks(nan=True):
        for place, name, most in ((gpu.client, "_most_held", 7), (clients, "MAX_COPIED", 7)):
            x = bad(gpu)
            with monkeypatch.context() as patch:
                patch.setattr(place, name, most)
                with pytest.raises(FloatingPointError, match="sqrt made nan"):
                    f(x if name == "_most_held" else np.asarray(x))


def test_a_gpu_holds_a_part_of_its_memory(gpu, monkeypatch):
    monkeypatch.setattr(gpu.client, "_most_held", None)
    monkeypatch.setattr(driver.device(), "memory", lambda: (0, 1 << 37))
    assert gpu.client.most_held() == 1 << 33
    monkeypatch.setattr(gpu.client, "_most_held", None)
    monkeypatch.setattr(driver.device(), "memory", lambda: (0, 1 << 30))
    assert gpu.client.most_held() == clients.MAX_HELD


def test_an_end_of_the_process_says_what_has_failed():
    script = """
import threading
from weft.base import checking
def look():
    raise FloatingPointError("log made nan")
checking.later(look)
threading.Thread(target=lambda: print(checking.may_wait())).start()
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "FloatingPointError: log made nan" in found.stderr
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("donated", [(), (0,)])
def test_native_code_answers_checked_calls(gpu, monkeypatch, donated):
    by_python, before = [], clients.DeviceClient._checked

    def checked(*args):
        by_python.append(args)
        return before(*args)

    monkeypatch.setattr(clients.DeviceClient, "_checked", checked)

    def step(state, x):
        return {"w": jnp.sqrt(state["w"]) + x, "n": state["n"] + 1}, (x.sum(), None)

    f = weft.jit(step, donate_argnums=donated)
    x = weft.device_put(np.float32([1, 2, 4]), gpu)
    with weft.checks(nan=True):
        counts = []
        state = {"w": x, "n": weft.device_put(np.int32(0), gpu)}
        state = weft.tree.map(lambda x: x + 0, state)
        for _ in range(12):
            state, (total, nothing) = f(state, x)
            counts.append(len(by_python))
        assert counts[-1] == counts[-6]  # the last calls were native code's
        assert float(total) == 7 and nothing is None and int(state["n"]) == 12
        assert state["w"].devices() == {gpu}
        assert not x.is_deleted()
        wrong = {"w": -state["w"], "n": state["n"]}
        count = len(by_python)
        y, _ = f(wrong, x)
        with pytest.raises(FloatingPointError, match=r"sqrt made nan at \[0\]: sqrt\(-"):
            f(state, x)
        assert len(by_python) == count
        np.testing.assert_array_less(np.asarray(wrong["w"]), 0)
        f(wrong, x)
        with pytest.raises(FloatingPointError, match=r"sqrt made nan at \[0\]: sqrt\(-"):
            np.asarray(y["w"])
        assert len(by_python) == count
        monkeypatch.setattr(checking, "may_wait", lambda: False)
        with pytest.raises(FloatingPointError, match=r"sqrt made nan at \[0\]: sqrt\(-"):
            f(wrong, x)
    assert np.isnan(np.asarray(f(wrong, x)[0]["w"])).all()  # without checks it is another program
