"""A plugin as a client: memory, programs, transformations, donation, waiting, the cache."""

import gc
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.pjrt import stand_in
from tools.stablehlo_programs import programs
from weft import lax, linen, random
from weft.backends.pjrt.api import Api
from weft.base import knobs
from weft.base.errors import HostFallbackWarning, JaxRuntimeError

pytestmark = pytest.mark.filterwarnings("error::weft.base.errors.HostFallbackWarning")


def there(x, plugin):
    return weft.tree.map(lambda v: weft.device_put(v, plugin.places[0]), x)


def numbers(x):
    is_key = weft.dtypes.issubdtype(x.dtype, weft.dtypes.prng_key)
    return np.asarray(weft.random.key_data(x) if is_key else x)


def test_devices(plugin):
    first, second = plugin.places[:2]
    assert str(first) == "stand_in:0" and repr(second) == "StandInDevice(id=1)"
    assert first.platform == "stand_in" and first.device_kind == "abacus"
    assert second.coords == (1, 0, 0) and second.core_on_chip == 0 and second.beads == 0.5
    assert first.client.platform_version == "stand-in 1"
    with pytest.raises(AttributeError, match="no attribute 'rods'"):
        first.rods
    assert not hasattr(weft.devices("cpu")[0], "coords")


@pytest.mark.parametrize(
    "dtype", "bool int8 uint32 float16 bfloat16 float32 complex64 float8_e4m3fn".split()
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_values_go_there_and_back(plugin, dtype, shape):
    x = jnp.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2, dtype)
    y = weft.device_put(x, plugin.places[1])
    assert y.devices() == {plugin.places[1]} and y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
    assert (y.at[...].get()).devices() == y.devices()
    z = weft.device_put(y, plugin.places[2])  # without the host
    assert "Buffer_CopyToDevice" in plugin.calls or not z.size
    np.testing.assert_array_equal(np.asarray(z), np.asarray(x))


def test_copies_and_layouts(plugin):
    x = there(jnp.ones((3, 5)), plugin)
    y = jnp.array(x, copy=True)
    assert y._owner is not x._owner and y.tolist() == x.tolist() and y.devices() == x.devices()
    assert x._owner.layout() == ((1, 0), ((8, 128),)) and x._owner.size() == 64
    del x
    x, z = there(jnp.ones((3, 5)), plugin), there(jnp.ones(3), plugin)
    x.copy_to_host_async()
    assert x._owner.host is not None and np.asarray(x).sum() == 15
    z.copy_to_host_async()
    del x, y, z
    gc.collect()
    assert plugin.live(stand_in.Buffer) == 0 and plugin.live(stand_in.Event) == 0


@pytest.mark.parametrize("name", sorted(programs()))
def test_programs(plugin, name):
    """Every kind of operation that StableHLO has a form for."""
    fun, *args = programs()[name]
    wanted = weft.tree.leaves(weft.jit(fun)(*args))
    found = weft.tree.leaves(weft.jit(fun)(*there(args, plugin)))
    assert "LoadedExecutable_Execute" in plugin.calls
    for x, y in zip(wanted, found, strict=True):
        assert y.devices() == {plugin.places[0]} and x.dtype == y.dtype
        if x.dtype.kind == "f":
            np.testing.assert_allclose(numbers(y), numbers(x), rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(numbers(y), numbers(x))


def test_transformations_and_eager_operations(plugin):
    x = there(jnp.arange(6.0).reshape(2, 3), plugin)
    v = np.arange(6.0).reshape(2, 3)
    f = weft.jit(lambda x: jnp.sin(x).sum(0))
    for y, want in [
        (x + 1, v + 1),
        (weft.grad(lambda x: (x**2).sum())(x), 2 * v),
        (weft.vmap(jnp.cumsum)(x), np.cumsum(v, 1)),
        (lax.fori_loop(0, 3, lambda i, x: x + i, x), v + 3),
        (lax.scan(lambda c, r: (c + r, c), x[0], x)[1], np.cumsum([v[0], v[0]], 0)),
        (weft.jit(weft.grad(lambda x: f(x).sum()))(x), np.cos(v)),
        (weft.jvp(f, (x,), (x,))[1], (np.cos(v) * v).sum(0)),
        (lax.cond(x[0, 1] > 0, lambda x: x, lambda x: -x, x), v),
        (jnp.where(x > 2, x, 0), np.where(v > 2, v, 0)),
        (x[::-1, 1], v[::-1, 1]),
    ]:
        assert y.devices() == {plugin.places[0]}
        np.testing.assert_allclose(y, want, rtol=1e-5)
    assert "LoadedExecutable_Execute" in plugin.calls


def test_random_numbers_have_the_same_bits(plugin):
    key = random.key(7)
    mine = there(key, plugin)
    for draw in (
        lambda k: random.bits(k, (5,)),
        lambda k: random.uniform(k, (2, 3)),
        lambda k: random.key_data(random.split(k, 3)),
        lambda k: random.permutation(k, 9),
    ):
        y = weft.jit(draw)(mine)
        assert y.devices() == {plugin.places[0]}
        np.testing.assert_array_equal(np.asarray(y), np.asarray(draw(key)))


def test_a_model_trains(plugin):
    class Model(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(1)(linen.gelu(linen.LayerNorm()(linen.Dense(8)(x))))

    model, x = Model(), jnp.linspace(-1, 1, 12).reshape(4, 3)
    params = model.init(random.key(0), x)

    def step(params):
        loss, g = weft.value_and_grad(lambda p: (model.apply(p, x_at) ** 2).mean())(params)
        return weft.tree.map(lambda p, g: p - 0.1 * g, params, g), loss

    results = []
    for place in (weft.devices("cpu")[0], plugin.places[0]):
        x_at, p = weft.device_put(x, place), weft.device_put(params, place)
        for _ in range(3):
            p, loss = weft.jit(step)(p)
        assert loss.devices() == {place}
        results.append([loss, *weft.tree.leaves(p)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_donated_memory_is_taken(plugin):
    f = weft.jit(lambda x, y: (x + y, x.sum()), donate_argnums=0)
    x, y = there((jnp.ones(4), jnp.ones(4)), plugin)
    shown = f(x, y)[0]
    assert x.is_deleted() and shown.tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1
    # memory that another array can see is not taken
    x = there(jnp.ones(4), plugin)
    other = weft.device_put(x, plugin.places[0])
    f(x, y)
    assert other.tolist() == [1.0] * 4


def test_the_default_platform(plugin):
    with knobs.scope(default_device="stand_in"):
        x = jnp.arange(3.0) * 2
        assert x.devices() == {plugin.places[0]} and weft.default_backend() == "stand_in"
        assert random.normal(random.key(0), (2,)).devices() == x.devices()


def test_platforms_choose_a_plugin(plugin):
    before = weft.config.jax_platforms
    try:
        weft.config.update("jax_platforms", "stand_in")
        assert (jnp.ones(2) + 1).devices() == {plugin.places[0]}
    finally:
        weft.config.update("jax_platforms", before)
    assert jnp.ones(2).devices() == {weft.devices("cpu")[0]}


def test_calls_do_not_wait(plugin):
    plugin.late = True
    x = there(jnp.ones(3), plugin)
    y = weft.jit(lambda x: x * 5)(x)
    assert not y.is_ready()
    assert y.block_until_ready() is y and y.is_ready()
    assert y.tolist() == [5.0] * 3


def test_nobody_waits_for_a_result_that_is_being_destroyed(plugin, monkeypatch):
    x = there(jnp.ones(3), plugin)
    client, found, real = x._type.placement.client, [], Api.destroy
    y = weft.jit(lambda x: x + 1)(x)
    assert len(client._results()) == 1

    def destroy(api, name, **fields):
        found.append((name, client._results()))  # as another thread may ask meanwhile
        real(api, name, **fields)

    monkeypatch.setattr(Api, "destroy", destroy)
    del y
    assert found == [("Buffer_Destroy", [])]


def test_errors_of_late_results_are_raised_by_whoever_waits(plugin):
    x = there(jnp.ones(3), plugin)
    plugin.refuse["run"] = ("DATA_LOSS", "a bead fell off")
    y = weft.jit(lambda x: x * 7)(x)
    for wait in (y.block_until_ready, lambda: np.asarray(y)):
        with pytest.raises(JaxRuntimeError, match="DATA_LOSS: a bead fell off"):
            wait()


@pytest.mark.filterwarnings("default::weft.base.errors.HostFallbackWarning")
def test_what_stablehlo_cannot_hold_runs_on_the_host(plugin):
    seen = []
    x = there(jnp.ones(3), plugin)
    f = weft.jit(lambda x: (weft.debug.callback(lambda v: seen.append(v.sum()), x), x * 2)[1])
    with pytest.warns(HostFallbackWarning, match="debug_callback.*the host computes the program"):
        y = f(x)
    weft.effects_barrier()
    assert [float(v) for v in seen] == [3.0] and y.devices() == {plugin.places[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(x).tolist() == [2.0] * 3  # said once
    with pytest.warns(HostFallbackWarning, match="svd"):
        values = jnp.linalg.svd(there(jnp.eye(2), plugin), compute_uv=False)
    assert values.tolist() == [1.0, 1.0] and values.devices() == {plugin.places[0]}


def test_executables_are_kept_on_disk(make_plugin, tmp_path):
    def run(name):
        plugin = make_plugin(name)
        x = weft.device_put(jnp.arange(4.0), weft.devices(name)[0])
        y = weft.jit(lambda x: jnp.sin(x) * 11)(x)
        return plugin, np.asarray(y)

    with knobs.scope(cache=str(tmp_path)):
        first, want = run("kept")
        assert "Client_Compile" in first.calls and "Executable_Serialize" in first.calls
        weft.clear_caches()
        weft.runtime.devices._others.pop("kept")
        second, found = run("kept")
        assert "Client_Compile" not in second.calls
        assert "Executable_DeserializeAndLoad" in second.calls
        np.testing.assert_array_equal(found, want)
        # one that the plugin does not load is compiled again
        weft.clear_caches()
        weft.runtime.devices._others.pop("kept")
        third = make_plugin("kept")
        third.refuse["Executable_DeserializeAndLoad"] = ("INVALID_ARGUMENT", "another version")
        x = weft.device_put(jnp.arange(4.0), weft.devices("kept")[0])
        np.testing.assert_array_equal(weft.jit(lambda x: jnp.sin(x) * 11)(x), want)
        assert "Client_Compile" in third.calls


def test_a_plugin_without_serialisation_or_statistics(make_plugin, tmp_path):
    make_plugin("bare", missing=["Executable_Serialize", "Device_MemoryStats"])
    (device,) = weft.devices("bare")[:1]
    with knobs.scope(cache=str(tmp_path)):
        assert float(weft.jit(lambda x: x * 13)(weft.device_put(2.0, device))) == 26
    assert device.memory_stats() is None


def test_memory_is_counted(plugin):
    before = plugin.places[0].memory_stats()["bytes_in_use"]
    x = there(jnp.ones(1000), plugin)
    found = plugin.places[0].memory_stats()
    assert found["bytes_in_use"] - before == 4000 and found["bytes_limit"] == 1 << 30
    assert "num_allocs" not in found
    del x
    gc.collect()
    assert plugin.places[0].memory_stats()["bytes_in_use"] == before


def test_what_a_compiled_program_costs(plugin):
    x = there(jnp.ones((4, 4)), plugin)
    f = weft.jit(lambda x: jnp.sin(x) @ x)
    compiled = f.lower(x).compile()
    assert compiled.cost_analysis()["optimal_seconds"] == 0.5
    assert compiled.memory_analysis().argument_size_in_bytes == 64
    assert "stablehlo.sine" in compiled.as_text()
    np.testing.assert_allclose(compiled(x), np.full((4, 4), 4 * np.sin(1)), rtol=1e-6)
    told = str(weft.explain(f, quiet=True)(x))
    assert "compiled by stand_in" in told and "floating-point operations" in told


def test_other_libraries_get_copies_or_an_error(plugin):
    x = there(jnp.arange(3.0), plugin)
    np.testing.assert_array_equal(np.from_dlpack(x), [0, 1, 2])
    with pytest.raises(BufferError, match="leave copy out"):
        x.__dlpack__(copy=False)
    with pytest.raises(AttributeError, match="stand_in"):
        x.__cuda_array_interface__


def test_checks_look_at_what_devices_compute(plugin):
    with knobs.scope(debug_nans=True), pytest.raises(FloatingPointError, match="log"):
        jnp.log(there(-jnp.ones(3), plugin))


def test_formats_say_how_the_plugin_lays_arrays_out(plugin):
    x = there(jnp.ones((3, 4)), plugin)
    layout = x.format.layout
    assert layout.major_to_minor == (0, 1) and layout.tiling == ((8, 128),)
    assert x.format.sharding == x.sharding
    mesh = weft.sharding.Mesh(np.array(plugin.places), ("a",))
    y = weft.device_put(jnp.ones((4, 4)), weft.sharding.NamedSharding(mesh, weft.P("a")))
    assert y.format.layout.tiling == ((8, 128),)
    assert weft.random.key(0).format.layout.tiling == ()
    plugin.refuse["Buffer_GetMemoryLayout"] = ("UNIMPLEMENTED", "not here")
    assert x.format.layout.tiling == ()
    told = str(weft.explain(weft.jit(lambda x: x @ x), quiet=True)(y))
    assert "on each of 4 devices" in told


def test_warnings_of_the_host_name_the_operation(plugin):
    x = there(jnp.ones(3), plugin)
    with pytest.warns(HostFallbackWarning, match=r"holds pure_callback.*host computes the program"):
        weft.jit(lambda x: weft.pure_callback(np.sin, x, x))(x)
