"""Calls of programs over several devices of a plugin that native code answers."""

import gc
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.pjrt import stand_in
from weft import P, lax
from weft.backends.llvm.calls.dispatch import native, supported
from weft.backends.llvm.calls.entries import hits
from weft.base.errors import JaxRuntimeError
from weft.sharding import Mesh, NamedSharding

pytestmark = [
    pytest.mark.skipif(not supported(), reason="no native calls on this machine or Python"),
    pytest.mark.filterwarnings("error::weft.base.errors.HostFallbackWarning"),
]
X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(autouse=True)
def loaded():
    native()


@pytest.fixture
def mesh(plugin):
    return Mesh(np.array(plugin.places).reshape(2, 2), ("a", "b"))


def over(x, mesh, *spec):
    return weft.device_put(x, NamedSharding(mesh, P(*spec)))


def is_native(x):
    return all(type(b).__name__ == "PluginBlock" for b in x._owner.buffers)


def buffers(plugin):
    gc.collect()
    return plugin.live(stand_in.Buffer)


def test_calls_that_come_again(plugin, mesh):
    x, w = over(X, mesh, "a", "b"), over(X[:4], mesh)

    @weft.jit
    def f(x, w):
        return {"product": x @ w, "both": (x + 1, x.sum())}

    for _ in range(4):
        got = f(x, w)
    assert hits(f) >= 2 and all(map(is_native, weft.tree.leaves(got)))
    np.testing.assert_allclose(got["product"], X @ X[:4], rtol=1e-6)
    np.testing.assert_array_equal(got["both"][0], X + 1)
    assert got["both"][1] == X.sum() and len(got["product"].addressable_shards) == 4
    # results are arguments again, of native code and of Python's, and so are their parts
    before = hits(f)
    again = f(over(got["both"][0], mesh, "a", "b"), w)
    np.testing.assert_array_equal(again["both"][0], X + 2)
    assert hits(f) > before
    part = got["both"][0].addressable_shards[0].data
    np.testing.assert_array_equal(part * 2, 2 * (X[:4, :2] + 1))
    del x, w, got, again, part
    assert buffers(plugin) == 0 and plugin.live(stand_in.Event) == 0


@pytest.mark.parametrize("number", [2.5, True, np.float32(3), -4])
def test_numbers_go_to_every_device(plugin, mesh, number):
    x = over(X, mesh, "a")
    f = weft.jit(lambda x, n: x * n + 1)
    for _ in range(4):
        np.testing.assert_array_equal(f(x, number), X * np.float32(number) + 1)
    assert hits(f) >= 1
    plugin.refuse["Client_BufferFromHostBuffer"] = ("RESOURCE_EXHAUSTED", "no room")
    with pytest.raises(JaxRuntimeError, match="RESOURCE_EXHAUSTED: no room"):
        f(x, number)
    plugin.refuse.clear()
    np.testing.assert_array_equal(f(x, number), X * np.float32(number) + 1)
    del x
    assert buffers(plugin) == 0 and plugin.live(stand_in.Event) == 0


def test_a_number_that_only_some_devices_get_is_freed(plugin, mesh):
    x = over(X, mesh, "a")
    f = weft.jit(lambda x, n: x * n)
    for _ in range(3):
        f(x, 2.0)
    held, put, count = buffers(plugin), plugin.Client_BufferFromHostBuffer, []

    def third(args):
        count.append(0)
        if len(count) == 3:
            raise stand_in.Fail("RESOURCE_EXHAUSTED", "no room")
        put(args)

    plugin.Client_BufferFromHostBuffer = third
    with pytest.raises(JaxRuntimeError, match="no room"):
        f(x, 2.0)
    assert len(count) == 3 and buffers(plugin) == held


def test_shard_map_and_pmap(plugin, mesh):
    x = over(X, mesh, "a")
    f = weft.jit(
        weft.shard_map(lambda x: lax.psum(x, "a"), mesh=mesh, in_specs=P("a"), out_specs=P())
    )
    for _ in range(4):
        np.testing.assert_array_equal(f(x), X[:4] + X[4:])
    assert hits(f) >= 1
    g = weft.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i", devices=plugin.places)
    rows = g(X[:4] + 1)
    for _ in range(4):
        np.testing.assert_allclose(g(X[:4] + 1), (X[:4] + 1) / (X[:4] + 1).sum(0), rtol=1e-6)
    assert rows.shape == (4, 4)


def test_single_operations(plugin, mesh):
    x = over(X, mesh, "a")
    for _ in range(4):
        y = jnp.sin(x)
    assert is_native(y)
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)


def test_donated_arguments(plugin, mesh):
    step = weft.jit(lambda w, x: (w - x, x.sum()), donate_argnums=0)
    w, x = over(X, mesh, "a"), over(np.ones_like(X), mesh, "a")
    for i in range(6):
        old = w
        w, total = step(w, x)
        assert old.is_deleted() and not w.is_deleted()
        np.testing.assert_array_equal(w, X - i - 1)
    assert hits(step) >= 3 and is_native(w) and total == 32
    del old, total
    assert buffers(plugin) == 8


def test_donated_arguments_that_others_see_are_kept(plugin, mesh):
    step = weft.jit(lambda w: w + 1, donate_argnums=0)
    for _ in range(4):
        step(over(X, mesh, "a"))
    before = hits(step)
    w = over(X, mesh, "a")
    part = w.addressable_shards[1].data
    np.testing.assert_array_equal(step(w), X + 1)
    assert hits(step) == before
    np.testing.assert_array_equal(part, X[:4])


def test_errors(plugin, mesh):
    x = over(X, mesh, "a")
    f = weft.jit(lambda x: x * 3)
    for _ in range(3):
        f(x)
    before = hits(f)
    plugin.refuse["LoadedExecutable_Execute"] = ("INTERNAL", "a bead fell off")
    with pytest.raises(JaxRuntimeError, match="INTERNAL: a bead fell off"):
        f(x)
    plugin.refuse.clear()
    plugin.refuse["run"] = ("INTERNAL", "late")
    y = f(x)
    with pytest.raises(JaxRuntimeError, match="late"):
        y.block_until_ready()
    plugin.refuse.clear()
    del y
    np.testing.assert_array_equal(f(x), X * 3)
    assert hits(f) > before


def test_arguments_elsewhere_go_through_python(plugin, mesh):
    f = weft.jit(lambda x, y: x + y)
    x = over(X, mesh, "a")
    for _ in range(3):
        f(x, x)
    before = hits(f)
    np.testing.assert_array_equal(f(x, over(X, mesh, "b")), 2 * X)
    np.testing.assert_array_equal(f(x, X), 2 * X)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(x, x)
    assert hits(f) == before


def test_another_order_of_the_same_devices(plugin, mesh):
    turned = Mesh(np.array(plugin.places[::-1]).reshape(2, 2), ("a", "b"))
    f = weft.jit(lambda x: x - x.sum(0))
    for _ in range(3):
        for where in (mesh, turned):
            np.testing.assert_array_equal(f(over(X, where, "a")), X - X.sum(0))


def test_threads(plugin, mesh):
    x = over(X, mesh, "a")
    f = weft.jit(lambda x, n: x * n)
    for _ in range(3):
        f(x, 2.0)
    wrong = []

    def work(number):
        for _ in range(20):
            if not np.array_equal(f(x, number), X * np.float32(number)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_waiting_for_everything(plugin, mesh):
    x = over(X, mesh, "a")
    f = weft.jit(lambda x: x * 2)
    for _ in range(3):
        f(x)
    plugin.late = True
    y = f(x)
    assert is_native(y) and not y.is_ready()
    weft.effects_barrier()
    y.block_until_ready()
    assert y.is_ready()
