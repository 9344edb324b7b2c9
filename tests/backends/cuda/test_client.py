"""Arrays on a GPU: placed there, computed with there, and shared with other libraries."""

import concurrent.futures
import copy
import gc
import pickle
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import lax, random
from weft import numpy as jnp
from weft.backends.cuda import client, driver, memory
from weft.backends.cuda.calls import fast, stubs
from weft.backends.cuda.program import MOST_GRAPHS, Cuda
from weft.backends.llvm.calls.dispatch import native
from weft.base import knobs
from weft.base.switches import INTERVAL
from weft.runtime import devices, registry
from weft.runtime.array import ArrayImpl

GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")


@pytest.fixture(params=["host", pytest.param("GPU", marks=GPU)])
def gpu(request, monkeypatch):
    """A GPU, or one that is made of the host."""
    if request.param == "GPU":
        return weft.devices("cuda")[0]
    return host_device.install_client(monkeypatch)


def is_on(x, gpu):
    """Whether an array is in a GPU's memory, which Python or native code gave it."""
    named = type(x._owner).__name__
    return x.devices() == {gpu} and (type(x._owner) is memory.Buffer or named == "DeviceBlock")


def test_first_calls_are_neither_collected_nor_slowed(gpu, monkeypatch):
    """Threads that come back from LLVM wait for the one that plans, which makes little garbage."""
    seen, make = [], Cuda.make

    def look(self, *given):
        seen.append((gc.isenabled(), sys.getswitchinterval()))
        return make(self, *given)

    monkeypatch.setattr(Cuda, "make", look)
    before = gc.isenabled(), sys.getswitchinterval()
    weft.jit(lambda x: x * 3 - 2)(weft.device_put(jnp.ones(7), gpu))
    assert seen and not any(collects for collects, _ in seen)
    assert all(interval <= INTERVAL * 1.1 for _, interval in seen)
    assert (gc.isenabled(), sys.getswitchinterval()) == before


def test_devices(gpu):
    assert gpu in weft.devices("gpu") and gpu in weft.devices("cuda")
    assert gpu.platform == "gpu" and str(gpu) == "cuda:0" and repr(gpu) == "CudaDevice(id=0)"
    assert pickle.loads(pickle.dumps(gpu)) is gpu
    assert gpu not in weft.devices("cpu")
    with weft.default_device(gpu):
        assert weft.default_backend() == "gpu" and weft.devices() == weft.devices("gpu")


def test_arrays_are_put_and_got_back(gpu):
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = weft.device_put(value, gpu)
    assert is_on(x, gpu) and x.committed
    np.testing.assert_array_equal(x, value)
    np.testing.assert_array_equal(weft.device_get(x), value)
    back = weft.device_put(x, weft.devices("cpu")[0])
    assert back.devices() == {weft.devices("cpu")[0]}
    np.testing.assert_array_equal(back, value)
    large = weft.device_put(np.arange(1 << 20), gpu)
    np.testing.assert_array_equal(large, np.arange(1 << 20))
    assert x.on_device_size_in_bytes() == 24
    x.copy_to_host_async()
    np.testing.assert_array_equal(x, value)
    np.testing.assert_array_equal(copy.copy(x), value)
    assert is_on(copy.copy(x), gpu) and is_on(copy.deepcopy(x), gpu)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), value)


def test_what_is_computed_stays_there(gpu):
    x = weft.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), gpu)
    results = [x + 1, x @ x.T, jnp.sin(x).sum(), x[1], x.at[0].set(0), -x, x > 2, jnp.sort(x)]
    results += weft.jit(lambda x: (x * 2, {"a": x.mean()}))(x)[:1]
    results += [weft.grad(lambda x: jnp.sum(x**3))(x), weft.vmap(jnp.sum)(x)]
    for found in results:
        assert is_on(found, gpu) and found.committed
    np.testing.assert_allclose(results[-2], 3 * np.asarray(x) ** 2)
    rows = list(x)
    assert all(is_on(row, gpu) for row in rows) and len(rows) == 2


def test_a_default_device_is_where_arrays_are_made(gpu):
    with weft.default_device(gpu):
        made = [
            jnp.zeros((2, 3)), jnp.array([1, 2]), jnp.arange(4), jnp.linspace(0, 1, 3),
            random.key(0), random.normal(random.key(1), (5,)), jnp.eye(2), jnp.asarray(3.0),
            weft.jit(lambda: jnp.ones(3))(), weft.device_put(np.ones(2)),
        ]  # fmt: skip
        for x in made:
            assert x.devices() == {gpu} and not x.committed
    want = random.normal(random.key(1), (5,))
    np.testing.assert_array_equal(made[5], want)
    # uncommitted arrays go where committed ones are
    there = weft.device_put(np.ones(2, np.float32), gpu)
    assert is_on(there + jnp.ones(2), gpu) and is_on(there * 2.0 + np.ones(2, np.float32), gpu)


def test_arrays_committed_to_two_devices_are_refused(gpu):
    there = weft.device_put(np.ones(2, np.float32), gpu)
    here = weft.device_put(np.ones(2, np.float32), weft.devices("cpu")[0])
    with pytest.raises(ValueError, match="committed to different devices"):
        there + here


def test_loops_outside_of_jit(gpu):
    with weft.default_device(gpu):
        last, each = lax.scan(lambda c, a: (c + a, c * a), 0.0, jnp.arange(5.0))
        assert is_on(each, gpu) and float(last) == 10
        np.testing.assert_array_equal(each, [0, 0, 2, 9, 24])
        assert int(lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1)) == 16
        assert float(lax.cond(True, lambda x: x, lambda x: -x, 2.0)) == 2


def test_platform_dependent(gpu):
    def fun(x):
        return lax.platform_dependent(x, cpu=lambda x: x * 0, cuda=lambda x: x * 0 + 1)

    there = weft.device_put(np.ones(2, np.float32), gpu)
    here = weft.device_put(np.ones(2, np.float32), weft.devices("cpu")[0])
    np.testing.assert_array_equal(weft.jit(fun)(jnp.ones(2)), [0, 0])
    for default in (gpu, weft.devices("cpu")[0]):
        with weft.default_device(default):
            for run in (weft.jit(fun), fun):
                np.testing.assert_array_equal(run(there), [1, 1])
                np.testing.assert_array_equal(run(here), [0, 0])


def test_callbacks_see_values(gpu, capsys):
    x = weft.device_put(np.arange(3, dtype=np.float32), gpu)

    @weft.jit
    def fun(x):
        weft.debug.print("x = {}", x)
        return weft.pure_callback(lambda v: np.asarray(v) * 3, x, x) + 1

    found = fun(x)
    assert is_on(found, gpu)
    np.testing.assert_array_equal(found, [1, 4, 7])
    assert "x = [0. 1. 2.]" in capsys.readouterr().out


def test_donated_memory_is_written_over(gpu):
    step = weft.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = weft.device_put(np.arange(8, dtype=np.float32), gpu)
    for _ in range(3):
        address = x.unsafe_buffer_pointer()
        y = step(x)
        assert x.is_deleted() and y.unsafe_buffer_pointer() == address
        x = y
    np.testing.assert_array_equal(x, np.arange(8) * 8 + 7)
    seen = x.clone()  # another array sees the memory
    y = step(x)
    assert y.unsafe_buffer_pointer() != seen.unsafe_buffer_pointer()
    np.testing.assert_array_equal(seen, np.arange(8) * 8 + 7)
    with pytest.raises(ValueError, match="deleted"):
        step(x)


def hits(gpu, fun, *args):
    """How often native code launches something in four calls, and the last result."""
    native()  # loaded
    before = len(host_device.native_launches)
    for _ in range(8):
        found = fun(*args)
    return len(host_device.native_launches) - before, found


def test_calls_become_native(gpu):
    is_fake = gpu.device_kind == "host"
    x = weft.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), gpu)
    few = weft.jit(lambda x, y: {"sum": x + y, "rest": (x, x.sum())})
    count, found = hits(gpu, few, x, x)
    np.testing.assert_array_equal(found["sum"], 2 * np.asarray(x))
    assert found["rest"][0]._owner is x._owner and float(found["rest"][1]) == 15
    assert type(found["sum"]._owner).__name__ == "DeviceBlock"
    assert count >= 5 or not is_fake
    many = weft.jit(lambda x: [(x * i).sum(i % 2) for i in range(6)])
    count, found = hits(gpu, many, x)
    for i, part in enumerate(found):
        np.testing.assert_array_equal(part, (np.asarray(x) * i).sum(i % 2))
    assert count >= 1 or not is_fake
    for operation, want in (
        (lambda: x + x, 2 * np.asarray(x)),
        (lambda: x * 2.5, 2.5 * np.asarray(x)),
        (lambda: x[1, 2], 5),
        (lambda: jnp.tanh(x), np.tanh(np.asarray(x))),
    ):
        count, found = hits(gpu, operation)
        np.testing.assert_allclose(found, want, rtol=1e-6)
        assert is_on_natively(found, gpu) and (count or not is_fake)
    index = [float(x[0, i % 3]) for i in range(12)]  # numbers that change
    assert index == [0, 1, 2] * 4


def is_on_natively(x, gpu):
    return x.devices() == {gpu} and type(x._owner).__name__ == "DeviceBlock"


def test_native_code_launches_no_closed_graph(monkeypatch):
    gpu = host_device.install_client(monkeypatch)
    native()

    @weft.jit
    def several(x):
        for i in range(6):  # more kernels than are launched one by one
            x = x - x.mean(i % 2, keepdims=True)
        return x

    x = weft.device_put(np.full((70, 600), 2, np.float32), gpu)
    for _ in range(6):
        several(x)
    calls = [c for c in gc.get_objects() if type(c) is fast.DeviceCall and any(c.graphs)]
    (call,) = [c for c in calls if c.client is gpu.client]
    # Python runs the same program where native code doesn't take the arguments
    held = []
    for _ in range(MOST_GRAPHS + 1):
        operand = memory.Buffer(x.nbytes)
        held += [operand, call.executable.run_on_device([operand])]
        call.executable.run_on_device([operand])
    known = call.graphs[:: call.words + 1][: int(call.device[stubs.GRAPH_COUNT])]
    open_ones = [g.handle for g in call.executable.graphs.values() if g is not None]
    assert set(known.tolist()) <= set(open_ones)
    assert not np.any(several(x)) and not host_device.closed_launches


def test_what_native_code_writes_outlives_pools():
    pool = memory.Pool(lambda size: 1 << 20, lambda address: None)
    pool.list_of(512, None)
    seen = [weakref.ref(x) for x in (pool._counts, *pool._lists.values())]
    del pool
    gc.collect()
    # when a process ends, arrays may go after the pool that their memory is of
    assert all(x() is not None for x in seen)


def test_native_calls_give_memory_back(gpu):
    native()
    x = weft.device_put(np.ones(1 << 18, np.float32), gpu)
    fun = weft.jit(lambda x: (x + 1, x * 2))
    for _ in range(6):
        found = fun(x)
    gc.collect()
    before = gpu.memory_stats()
    for _ in range(20):
        found = fun(found[0])
    after = gpu.memory_stats()
    assert after["bytes_in_use"] == before["bytes_in_use"]
    assert after["peak_bytes_in_use"] <= before["peak_bytes_in_use"] + 4 * (1 << 20)
    del found
    assert gpu.memory_stats()["bytes_in_use"] <= before["bytes_in_use"] - 2 * (1 << 20)


def test_native_calls_from_other_threads(gpu):
    native()
    fun = weft.jit(lambda x: x * 2 + 1)
    x = weft.device_put(np.arange(8, dtype=np.float32), gpu)
    for _ in range(4):
        fun(x)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda i: np.asarray(fun(x)), range(40)):
            np.testing.assert_array_equal(found, np.arange(8) * 2 + 1)


def test_native_calls_without_memory(monkeypatch):
    gpu = host_device.install_client(monkeypatch, most=10 << 20)
    native()
    x = weft.device_put(np.ones(1 << 18, np.float32), gpu)
    fun = weft.jit(lambda x: x + 1)
    for _ in range(4):
        y = fun(x)
    kept = [y]
    with pytest.raises(weft.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED.*"):
        for _ in range(20):
            kept.append(fun(x))
    del kept
    np.testing.assert_array_equal(fun(x)[:2], [2, 2])


def test_stages_and_explain(gpu):
    x = weft.device_put(np.ones((4, 8), np.float32), gpu)
    fun = weft.jit(lambda x: jnp.exp(x - x.max()).sum())
    compiled = fun.lower(x).compile()
    assert is_on(compiled(x), gpu) and float(compiled(x)) == 32
    assert "commands" in compiled.as_text()
    assert compiled.memory_analysis().argument_size_in_bytes == 128
    assert compiled.cost_analysis()["bytes accessed"] > 128
    told = weft.explain(fun, quiet=True)(x)
    assert told.kernels >= 1 and "blocks of" in str(told) and "Client(gpu)" in str(told)
    on_host = weft.device_put(np.ones((4, 8), np.float32), weft.devices("cpu")[0])
    assert "took" in str(weft.explain(fun, quiet=True, measure=True)(on_host))


@GPU
def test_explain_measures():
    x = weft.device_put(np.ones((1024, 1024), np.float32), weft.devices("cuda")[0])
    told = weft.explain(lambda x: jnp.sin(x).sum(), quiet=True, measure=True)(x)
    assert "took" in str(told) and "TB/s" in str(told)


def test_references(gpu):
    ref = weft.new_ref(weft.device_put(np.zeros(3, np.float32), gpu))

    @weft.jit
    def add(ref, x):
        ref[...] += x

    for _ in range(3):
        add(ref, weft.device_put(np.ones(3, np.float32), gpu))
    np.testing.assert_array_equal(ref[...], [3, 3, 3])


def test_deleted_arrays_are_refused(gpu):
    x = weft.device_put(np.ones(3, np.float32), gpu)
    x.delete()
    for use in (lambda: x + 1, lambda: np.asarray(x), x.block_until_ready):
        with pytest.raises(RuntimeError, match="deleted"):
            use()


def test_memory_is_counted_and_given_back(gpu):
    gc.collect()
    before = gpu.memory_stats()["bytes_in_use"]
    x = weft.device_put(np.ones(1 << 20, np.float32), gpu)
    assert gpu.memory_stats()["bytes_in_use"] - before >= 4 << 20
    del x
    assert gpu.memory_stats()["bytes_in_use"] == before
    assert gpu.memory_stats()["bytes_limit"] > 0
    assert weft.devices("cpu")[0].memory_stats() is None


def test_exhausted_memory(monkeypatch):
    gpu = host_device.install_client(monkeypatch, most=10 << 20)
    x = weft.device_put(np.ones(1 << 19, np.float32), gpu)
    fun = weft.jit(lambda x: jnp.sort(jnp.broadcast_to(x, (8, 1 << 19)), 0))
    with pytest.raises(weft.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED[^$]*8,524288"):
        fun(x)
    np.testing.assert_array_equal((x + 1)[:2], [2, 2])
    with pytest.raises(
        weft.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED.*an array of 16 MiB"
    ):
        weft.device_put(np.ones(1 << 22, np.float32), gpu)


def test_a_part_of_the_memory(monkeypatch):
    gpu = host_device.install_client(monkeypatch)  # of 1 GiB
    x = weft.device_put(np.ones(1 << 20, np.float32), gpu)
    weft.config.update("weft_gpu_memory_fraction", 0.005)
    try:
        with pytest.raises(weft.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
            weft.jit(lambda x: x + 1)(x)
    finally:
        weft.config.update("weft_gpu_memory_fraction", 1.0)
    np.testing.assert_array_equal((x + 1)[:2], [2, 2])


def test_keys_nans_and_checks(gpu):
    with weft.default_device(gpu), weft.debug_nans(True):
        with pytest.raises(FloatingPointError):
            jnp.log(jnp.array(-1.0))
        assert is_on(jnp.exp(jnp.zeros(3)), gpu)
    with weft.default_device(gpu), weft.debug_key_reuse(True):
        assert is_on(random.uniform(random.key(3), (2,)), gpu)


def test_a_mesh_of_one_gpu(gpu):
    mesh = weft.sharding.Mesh(np.array([gpu]), ("x",))
    there = weft.sharding.NamedSharding(mesh, weft.sharding.PartitionSpec("x"))
    x = weft.device_put(np.arange(4, dtype=np.float32), there)
    y = weft.jit(lambda x: x * 2, out_shardings=there)(x)
    assert is_on(x, gpu) and is_on(y, gpu) and y.sharding == there
    np.testing.assert_array_equal(y, [0, 2, 4, 6])


def test_capsules(gpu):
    x = weft.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), gpu)
    assert x.__dlpack_device__() == (2, 0)
    assert weft.dlpack.from_dlpack(x) is x

    class Other:
        """What another library does with the capsule of an array."""

        def __init__(self, x, version):
            self.x, self.version = x, version

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

        def __dlpack__(self, stream=None, max_version=None):
            return self.x.__dlpack__(stream=stream, max_version=self.version)

    for version in (None, (1, 0)):
        y = weft.dlpack.from_dlpack(Other(x, version))
        assert is_on(y, gpu) and y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
        np.testing.assert_array_equal(y + 1, np.asarray(x) + 1)
        z = weft.dlpack.from_dlpack(Other(x, version), copy=True)
        assert z.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    stats = gpu.memory_stats()["bytes_in_use"]
    capsule = x.__dlpack__()
    del x
    assert gpu.memory_stats()["bytes_in_use"] == stats
    del y, z, capsule
    assert gpu.memory_stats()["bytes_in_use"] < stats
    with pytest.raises(BufferError, match="device_put"):
        weft.device_put(np.ones(2), gpu).__dlpack__(dl_device=(2, 5))


def test_array_interface(gpu):
    x = weft.device_put(np.arange(6, dtype=np.int32).reshape(2, 3), gpu)
    told = x.__cuda_array_interface__
    assert told["shape"] == (2, 3) and told["typestr"] == "<i4" and told["version"] == 3
    assert told["data"] == (x.unsafe_buffer_pointer(), False)
    assert not hasattr(jnp.ones(2), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="bfloat16"):
        x.astype(jnp.bfloat16).__cuda_array_interface__


@GPU
def test_torch_and_cupy_share_memory():
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    gpu = weft.devices("cuda")[0]
    x = weft.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), gpu)
    for y in (torch.from_dlpack(x), torch.as_tensor(x)):
        assert y.data_ptr() == x.unsafe_buffer_pointer() and y.is_cuda
        np.testing.assert_array_equal((y * 2).cpu().numpy(), np.asarray(x) * 2)
    for y in (cupy.from_dlpack(x), cupy.asarray(x)):
        assert y.data.ptr == x.unsafe_buffer_pointer()
        np.testing.assert_array_equal((y + 1).get(), np.asarray(x) + 1)
    for other in (torch.ones(3, 4, device="cuda"), cupy.ones((3, 4), np.float32)):
        z = weft.dlpack.from_dlpack(other)
        assert is_on(z, gpu)
        np.testing.assert_array_equal(z @ z.T, np.full((3, 3), 4.0))
        del z
    with pytest.raises(BufferError, match="contiguous"):
        weft.dlpack.from_dlpack(torch.ones(3, 4, device="cuda").T)
    half = weft.dlpack.from_dlpack(torch.ones(4, device="cuda", dtype=torch.bfloat16))
    assert half.dtype == jnp.bfloat16 and torch.from_dlpack(half).dtype == torch.bfloat16


def test_platforms_by_name(monkeypatch):
    with pytest.raises(RuntimeError, match="Unknown backend 'rocm'"):
        weft.devices("rocm")
    monkeypatch.setattr(devices, "_others", {})

    def refuse():
        raise driver.DriverError("no CUDA driver (libcuda.so.1) on this machine")

    refusing = registry.Platform(SimpleNamespace(clients=refuse), names=("gpu",))
    monkeypatch.setitem(registry.CLIENTS, "cuda", refusing)
    monkeypatch.setattr(devices, "_wanted", lambda known="", named="": [known] if known else [])
    with pytest.raises(RuntimeError, match=r"'cuda' can't be used: no CUDA driver"):
        weft.devices("gpu")
    weft.config.update("jax_default_device", "cuda")
    try:
        with pytest.warns(UserWarning, match="no CUDA driver.*arrays are on the CPU"):
            x = jnp.ones(2)
        assert x.devices() == {weft.devices("cpu")[0]} and type(x) is ArrayImpl
        assert weft.default_backend() == "cpu"
    finally:
        weft.config.update("jax_default_device", None)


def test_gpus_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(driver, "library", lambda: None)
    monkeypatch.setattr(driver, "count", lambda: 2)
    for visible in ("2", "0,x"):
        with knobs.scope(cuda_visible_devices=visible), pytest.raises(ValueError, match="0 to 1"):
            client.clients()
    with knobs.scope(cuda_visible_devices="1"):
        assert [gpu.number for gpu in client.clients()] == [1]
