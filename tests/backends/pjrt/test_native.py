"""Calls of a plugin's programs that native code answers."""

import gc
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.pjrt import stand_in
from weft import random
from weft.backends.llvm.calls.dispatch import native, supported
from weft.backends.llvm.calls.entries import hits
from weft.base.errors import JaxRuntimeError

pytestmark = [
    pytest.mark.skipif(not supported(), reason="no native calls on this machine or Python"),
    pytest.mark.filterwarnings("error::weft.base.errors.HostFallbackWarning"),
]


@pytest.fixture(autouse=True)
def loaded():
    native()


def there(x, plugin, number=0):
    return weft.tree.map(lambda v: weft.device_put(v, plugin.places[number]), x)


def is_native(x):
    return type(x._owner).__name__ == "PluginBlock"


def test_calls_that_come_again(plugin):
    x = there({"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.arange(3)}, plugin)

    @weft.jit
    def f(x, y):
        return {"sum": x["a"] @ y.T, "both": (x["b"] + 1, x["a"].sum())}

    want = weft.tree.map(np.asarray, f(x, x["a"]))
    for _ in range(3):
        got = f(x, x["a"])
    assert hits(f) >= 2 and all(map(is_native, weft.tree.leaves(got)))
    weft.tree.map(np.testing.assert_array_equal, weft.tree.map(np.asarray, got), want)
    assert got["sum"].devices() == {plugin.places[0]}
    # results are arguments again, of native code and of Python's
    again = f({"a": got["sum"] @ x["a"], "b": got["both"][0]}, x["a"])
    assert again["both"][0].tolist() == [2, 3, 4]
    assert weft.device_put(got["sum"], plugin.places[1]).tolist() == want["sum"].tolist()
    assert got["sum"]._owner.size() == 64 and got["sum"]._owner.layout()[0] == (1, 0)


@pytest.mark.parametrize("number", [2.5, True, np.float32(3), np.int32(7), -4])
def test_numbers_are_arguments_too(plugin, number):
    x = there(jnp.arange(3.0), plugin)
    f = weft.jit(lambda x, n: x * n + 1)
    want = np.arange(3, dtype="float32") * np.float32(number) + 1
    for _ in range(4):
        np.testing.assert_array_equal(np.asarray(f(x, number)), want)
    assert hits(f) >= 1
    del x
    gc.collect()
    assert plugin.live(stand_in.Buffer) == 0 and plugin.live(stand_in.Event) == 0


def test_random_keys(plugin):
    key = there(random.key(3), plugin)
    f = weft.jit(lambda key: (random.split(key), random.uniform(key, (4,))))
    for _ in range(3):
        keys, drawn = f(key)
    assert hits(f) >= 1
    wanted, numbers = f(random.key(3))
    np.testing.assert_array_equal(random.key_data(keys), random.key_data(wanted))
    np.testing.assert_array_equal(drawn, numbers)


def test_single_operations(plugin):
    x = there(jnp.arange(4.0), plugin)
    for _ in range(4):
        y = jnp.sin(x) + x * 2.0
    assert is_native(y) and y.devices() == {plugin.places[0]}
    np.testing.assert_allclose(y, np.sin(np.arange(4.0)) + 2 * np.arange(4.0), rtol=1e-6)


def test_errors_are_raised_and_nothing_leaks(plugin):
    x = there(jnp.ones(5), plugin)
    f = weft.jit(lambda x, n: (x * n, x - n))
    for _ in range(3):
        f(x, 2.0)
    before = plugin.live(stand_in.Buffer)
    for function in ("LoadedExecutable_Execute", "Client_BufferFromHostBuffer"):
        plugin.refuse[function] = ("RESOURCE_EXHAUSTED", "no beads left")
        with pytest.raises(JaxRuntimeError, match="RESOURCE_EXHAUSTED: no beads left"):
            f(x, 2.0)
        del plugin.refuse[function]
    gc.collect()
    assert plugin.live(stand_in.Buffer) == before == 1 and plugin.live(stand_in.Fail) == 0
    assert float(f(x, 3.0)[0][0]) == 3


def test_errors_of_a_computation_appear_where_it_is_waited_for(plugin):
    x = there(jnp.ones(5), plugin)
    f = weft.jit(lambda x: x * 7)
    for _ in range(3):
        f(x)
    plugin.refuse["run"] = ("DATA_LOSS", "a bead fell off")
    y = f(x)
    assert is_native(y)
    for wait in (y.block_until_ready, lambda: np.asarray(y), plugin.places[0].client.wait):
        with pytest.raises(JaxRuntimeError, match="DATA_LOSS: a bead fell off"):
            wait()


def test_waiting_for_everything(plugin):
    x = there(jnp.ones(5), plugin)
    f, client = weft.jit(lambda x: (x * 7, x + 1)), plugin.places[0].client
    for _ in range(3):
        f(x)
    plugin.late = True
    kept = [f(x) for _ in range(5)]
    del kept[2]
    assert not client.is_idle()
    client.wait()
    assert client.is_idle() and plugin.live(stand_in.Buffer) == 9
    assert "Event_Await" in plugin.calls


def test_copies_on_their_way(plugin):
    x = there(jnp.arange(5.0), plugin)
    f = weft.jit(lambda x: x * 7)
    for _ in range(3):
        y = f(x)
    y.copy_to_host_async()
    assert y._owner.host is not None and y.tolist() == [0, 7, 14, 21, 28]
    z = f(x)
    z.copy_to_host_async()
    del x, y, z
    gc.collect()
    assert plugin.live(stand_in.Buffer) == 0 and plugin.live(stand_in.Event) == 0


def test_donated_arguments(plugin):
    f = weft.jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    y = there(jnp.ones(4), plugin)
    x = there(jnp.zeros(4), plugin)
    for _ in range(6):
        old, (x, _) = x, f(x, y)
        assert old.is_deleted()
    assert hits(f) >= 3 and x.tolist() == [6] * 4
    # one that others see is kept: Python makes the call
    view = weft.device_put(x, plugin.places[0])
    f(x, y)
    assert x.is_deleted() and view.tolist() == [6] * 4
    x = there(jnp.zeros(4), plugin)
    with pytest.raises(JaxRuntimeError, match="is donated"):
        f(x, x)


def test_devices_are_told_apart(plugin):
    f = weft.jit(lambda x: x + 1)
    for number in (0, 1, 0, 1, 1, 0):
        for _ in range(3):
            assert f(there(jnp.ones(2), plugin, number)).devices() == {plugin.places[number]}
    assert hits(f) >= 8


def test_threads(plugin):
    f = weft.jit(lambda x, n: x * n + 1)
    x = there(jnp.ones(3), plugin)
    for _ in range(3):
        f(x, 2.0)
    bad = []

    def work(k):
        for i in range(50):
            if f(x, float(k + i)).tolist() != [k + i + 1.0] * 3:
                bad.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad and plugin.live(stand_in.Buffer) == 1


def test_owners_outlive_the_plugins_name(make_plugin):
    made = make_plugin("short")
    x = weft.device_put(jnp.ones(3), weft.devices("short")[0])
    f = weft.jit(lambda x: x * 2)
    for _ in range(3):
        y = f(x)
    weft.backends.pjrt.plugins.unregister("short")
    weft.runtime.devices._others.pop("short")
    del x, f
    gc.collect()
    assert y.tolist() == [2] * 3
    del y
    gc.collect()
    assert made.live(stand_in.Buffer) == 0
