"""One road for calls: every backend is a client, and a new one is a row of the registry."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.backends.reference.client import NumPy
from weft.base import knobs
from weft.runtime import client, clients, devices, registry
from weft.runtime.places import placement

ROOT = Path(__file__).resolve().parents[2]


def sources():
    return {p.relative_to(ROOT): p.read_text() for p in (ROOT / "weft").rglob("*.py")}


def test_nobody_asks_whether_there_is_a_client():
    asked = [str(p) for p, text in sources().items() if re.search(r"\bclient is (not )?None", text)]
    assert asked == []


def test_one_place_reads_which_backend_the_host_has():
    read = [str(p) for p, text in sources().items() if re.search(r"thread\.backend\b", text)]
    assert read == ["weft/runtime/client.py"]


def test_the_registry_is_asked_in_two_places():
    name = re.compile(r"runtime import (\w+, )*registry|runtime\.registry import")
    read = sorted(str(p) for p, text in sources().items() if name.search(text))
    assert read == ["weft/runtime/client.py", "weft/runtime/devices.py"]


def test_backends_implement_the_abstract_client():
    for name in ("native", "reference", "checked"):
        assert isinstance(client.host_named(name), clients.HostClient)
    with pytest.raises(TypeError, match="abstract"):
        client.Client()


# --- a backend in this file -----------------------------------------------------------------------


class FarMemory(client.Memory):
    """Memory whose arrays own lists of bytes, which NumPy cannot read."""

    def put(self, value):
        return [np.ascontiguousarray(value).tobytes()]

    def moved(self, x):
        return self.put(x._value)

    def copy(self, owner):
        return list(owner)

    def copy_out(self, owner, dtype, shape):
        found = np.frombuffer(owner[0], dtype).reshape(shape)
        return found

    def begin_copy_out(self, owner, dtype, shape):
        pass


class Far(clients.DeviceClient):
    """A device with memory of its own that computes by the reference backend, and counts."""

    platform, device_name, device_prefix, device_kind = "far", "FarDevice", "far", "abacus"
    dlpack_device = (12, 0)

    def __init__(self):
        self.memory = FarMemory()
        self.ran = []

    def run(self, closed, args, places, donated=()):
        if closed.effects:
            return None
        self.ran.append(closed)
        found = NumPy().run(closed, clients.brought(args))
        return clients.placed(found, places)

    def executable(self, closed, donated=()):
        return NumPy().executable(closed)

    def study(self, closed, donated=()):
        return NumPy().study(closed)

    def told(self, closed, name, traced, args=None):
        return client.Told(f"{name} on {self}")

    def remember(self, *args):
        return True

    def home(self):
        return placement(weft.sharding.SingleDeviceSharding(devices.devices("far")[0]), True)

    def over(self, sharding):
        return self

    def wait(self):
        pass

    def is_idle(self):
        return True

    def memory_stats(self):
        return {"bytes_in_use": 0}

    def part(self, x, device, index):
        return x

    def to_dlpack(self, *args):
        raise BufferError("an abacus")

    def array_interface(self, x):
        raise AttributeError("an abacus")


@pytest.fixture
def far(monkeypatch):
    made = Far()
    found = devices.Device(0, made)
    monkeypatch.setitem(registry.CLIENTS, "far", registry.Platform(None))
    monkeypatch.setattr(devices, "_APART", [*devices._APART, "far"])
    monkeypatch.setitem(devices._others, "far", [found])
    return found


def test_a_new_backend_runs_everything_that_is_placed_on_it(far):
    x = weft.device_put(jnp.arange(6.0).reshape(2, 3), far)
    assert x.devices() == {far} and type(x._owner) is list and str(far) == "far:0"
    f = weft.jit(lambda x: jnp.sin(x).sum(0))
    for y, want in [
        (x + 1, np.arange(6.0).reshape(2, 3) + 1),
        (f(x), np.sin(np.arange(6.0).reshape(2, 3)).sum(0)),
        (weft.grad(lambda x: (x**2).sum())(x), 2 * np.arange(6.0).reshape(2, 3)),
        (weft.vmap(jnp.cumsum)(x), np.cumsum(np.arange(6.0).reshape(2, 3), 1)),
        (lax.fori_loop(0, 3, lambda i, x: x + i, x), np.arange(6.0).reshape(2, 3) + 3),
        (weft.jit(weft.grad(lambda x: f(x).sum()))(x), np.cos(np.arange(6.0).reshape(2, 3))),
    ]:
        assert y.devices() == {far} and type(y._owner) is list
        np.testing.assert_allclose(y, want, rtol=1e-5)
    assert far.client.ran and x.block_until_ready() is x
    assert "on Client(far)" in str(weft.explain(f, quiet=True)(x))
    back = weft.device_put(x, weft.devices("cpu")[0])
    assert back.devices() == {weft.devices("cpu")[0]} and back.tolist() == x.tolist()


def test_what_a_device_has_no_code_for_runs_on_the_host(far):
    seen = []
    x = weft.device_put(jnp.ones(3), far)
    y = weft.jit(lambda x: (weft.debug.callback(lambda v: seen.append(v.sum()), x), x * 2)[1])(x)
    weft.effects_barrier()
    assert [float(v) for v in seen] == [3.0] and y.devices() == {far} and y.tolist() == [2.0] * 3


def test_checks_look_at_what_devices_compute(far):
    x = weft.device_put(-jnp.ones(3), far)
    with knobs.scope(debug_nans=True), pytest.raises(FloatingPointError, match="log"):
        jnp.log(x)


REFERENCE = """
import weft, weft.numpy as jnp
from weft.runtime.client import host
x = jnp.arange(6.0)
for _ in range(12):
    y = weft.jit(lambda x: jnp.sin(x).sum())(x)
print(type(host()).__name__, weft.devices()[0].platform, round(float(y), 4))
print(weft.grad(lambda x: (x * x).sum())(x)[1], "llvmlite" in __import__("sys").modules)
"""


def test_the_reference_is_a_platform():
    env = {"WEFT_PLATFORMS": "reference", "PYTHONPATH": str(ROOT), "PATH": ""}
    found = subprocess.run(
        [sys.executable, "-c", REFERENCE], env=env, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["NumPy", "cpu", "0.1762", "2.0", "False"], found.stdout
