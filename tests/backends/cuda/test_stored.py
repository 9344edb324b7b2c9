"""Programs for GPUs on disk: another process plans nothing, and gets the same results."""

import io
import os
import pickle

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import assemble, driver, loops, program
from weft.backends.cuda.forms import stored
from weft.base import background, knobs, later
from weft.compiler import identity

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no disk cache here")
GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")
X = np.linspace(-2, 2, 60, dtype=np.float32).reshape(10, 6)
HELD = np.arange(6, dtype=np.float32)


@pytest.fixture(params=["host", pytest.param("GPU", marks=GPU)])
def gpu(request, tmp_path, monkeypatch):
    """A GPU, or one that is made of the host, with an empty cache on disk."""
    identity.source_stamp.cache_clear()
    monkeypatch.setattr(identity, "BEGAN", float("inf"))
    if request.param == "GPU":
        found = weft.devices("cuda")[0]
        # what this process has loaded is not on an empty disk
        monkeypatch.setattr(assemble, "load", driver.per_device(1024)(assemble.load.__wrapped__))
    else:
        found = host_device.install_client(monkeypatch)
        load, kernels = assemble.load, {}

        def keyed(text, dynamic=0, label=""):
            made = load(text, dynamic, label)
            made.key = f"{len(kernels)}".encode()
            kernels[made.key] = made
            return made

        monkeypatch.setattr(assemble, "load", keyed)
        monkeypatch.setattr(assemble, "load_known", lambda key, *rest: kernels.get(key))
        monkeypatch.setattr(driver, "Function", host_device.Kernel)
        found.client.kernels = kernels
    with knobs.cache(str(tmp_path)), knobs.cache_programs(True):
        yield found
    identity.source_stamp.cache_clear()


@pytest.fixture
def plans(monkeypatch):
    """Grows by one for every program that is planned for a GPU."""
    planned = []
    plan = program.Planner.program
    monkeypatch.setattr(
        program.Planner, "program", lambda self, *given: planned.append(1) or plan(self, *given)
    )
    return planned


def again(fun, gpu):
    """The results of a function, traced anew, as another process does."""
    found = weft.jit(lambda x: fun(x))(weft.device_put(X, gpu))
    background.settle()  # kernels are kept when they are made with care
    later.settle()
    return [np.asarray(x) for x in weft.tree.leaves(found)]


PROGRAMS = {
    "elements": lambda x: jnp.tanh(x) * 3 + 1,
    "rows": lambda x: weft.nn.softmax(x) + x.sum(0),
    "constants": lambda x: x * HELD + jnp.asarray(HELD)[::-1],
    "scan": lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, -c[1]), (0, x)),
    "cond": lambda x: lax.cond(x[0, 0] < 0, lambda x: x + 1, lambda x: x * 2, x),
    "gradient": weft.grad(lambda x: jnp.log1p(x * x).sum()),
    "many": lambda x: [x + i for i in range(12)],
}
LIBRARIES = {
    "product": lambda x: jnp.tanh(x @ x.T) @ x,
    "biased": lambda x: weft.nn.relu(x @ x.T + x[:, 0]),
    "sort": lambda x: (jnp.sort(x, 0), jnp.argsort(-x)),
    "factors": lambda x: jnp.linalg.qr(x),
    "attention": lambda x: weft.nn.softmax((x @ x.T) / 3) @ x,
    "drawn": lambda x: x + weft.random.normal(weft.random.key(0), x.shape),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_process_plans_nothing(gpu, plans, name):
    first = again(PROGRAMS[name], gpu)
    assert plans
    plans.clear()
    for a, b in zip(first, again(PROGRAMS[name], gpu), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not plans


def test_barriers_of_a_grid_have_their_count(gpu, plans, monkeypatch):
    """What blocks count in is memory that begins with zeros, whoever has planned it."""
    monkeypatch.setattr(assemble, "choose", lambda *given: loops.Grid(2, 32))

    def fun(x):
        return lax.fori_loop(0, 3, lambda i, x: jnp.roll(x, 1) + i, x)

    want = np.asarray(weft.jit(fun)(X))
    for _ in range(2):
        (got,) = again(fun, gpu)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert len(plans) == 2  # the CPU's, and that of the first call
    run = weft.jit(lambda x: fun(x))
    for _ in range(3):  # the count goes on
        np.testing.assert_allclose(run(weft.device_put(X, gpu)), want, rtol=1e-5)


@GPU
@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_are_asked_again(gpu, plans, name):
    first = again(LIBRARIES[name], gpu)
    plans.clear()
    for a, b in zip(first, again(LIBRARIES[name], gpu), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not plans


def test_constants_and_lines_are_those_at_hand(gpu, plans):
    def scaled(by):
        held = np.full(6, by, np.float32)
        return lambda x: x * held

    (first,) = again(scaled(2), gpu)
    plans.clear()
    (second,) = again(scaled(3), gpu)
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 3 * X)
    assert not plans


def test_what_calls_python_is_not_kept(gpu, plans):
    def fun(x):
        return weft.pure_callback(np.sin, weft.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    again(fun, gpu)
    plans.clear()
    again(fun, gpu)
    assert plans


def test_code_that_is_gone_is_made_again(gpu, plans, monkeypatch):
    again(PROGRAMS["elements"], gpu)
    plans.clear()
    monkeypatch.setattr(assemble, "load_known", lambda *told: None)
    (got,) = again(PROGRAMS["elements"], gpu)
    np.testing.assert_allclose(got, np.tanh(X) * 3 + 1, rtol=1e-5)
    assert plans


def test_entries_name_nothing_but_what_weft_has():
    class Walked:
        infos = ()

    for told in (os.system, eval, pickle.loads, print):
        with pytest.raises(pickle.UnpicklingError, match="names"):
            stored._Reader(disk_file(told), Walked).load()


def disk_file(value):
    return io.BytesIO(pickle.dumps(value, 5))
