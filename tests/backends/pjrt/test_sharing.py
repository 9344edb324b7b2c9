"""Memory that a plugin and other libraries share by DLPack."""

import gc

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.pjrt.stand_in import Buffer
from weft.backends.pjrt import sharing


@pytest.fixture
def on_host(make_plugin):
    """A plugin whose devices have the host's memory."""
    made = make_plugin(platform="cpu")
    made.places = weft.devices("stand_in")
    return made


def there(x, plugin, number=0):
    return weft.device_put(x, plugin.places[number])


class Named:
    """An array of another library that says where it is."""

    def __init__(self, value, device):
        self.value, self.device = value, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **given):
        self.asked = given
        return self.value.__dlpack__(max_version=(1, 0))


def references(plugin):
    return sum(x.references for x in plugin.objects.values() if isinstance(x, Buffer))


def test_numpy_reads_a_buffer_where_it_is(on_host):
    x = there(jnp.arange(6.0).reshape(2, 3), on_host)
    y = np.from_dlpack(x)
    assert x.__dlpack_device__() == (1, 0) and references(on_host) == 1
    assert y.ctypes.data == x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(y, np.arange(6.0).reshape(2, 3))
    x.delete()
    gc.collect()
    np.testing.assert_array_equal(y, np.arange(6.0).reshape(2, 3))
    del y
    assert references(on_host) == 0 and on_host.live(Buffer) == 0


@pytest.mark.parametrize("lacks", ["Buffer_OpaqueDeviceMemoryDataPointer", "Buffer_UnsafePointer"])
def test_either_function_tells_where_a_buffer_is(make_plugin, lacks):
    plugin = make_plugin(platform="cpu", missing=[lacks])
    x = weft.device_put(jnp.arange(3), weft.devices("stand_in")[0])
    y = np.from_dlpack(x)
    (buffer,) = [b for b in plugin.objects.values() if isinstance(b, Buffer)]
    assert y.ctypes.data == buffer.value.ctypes.data
    del y


def test_a_function_that_is_there_but_not_implemented(on_host):
    on_host.refuse["Buffer_UnsafePointer"] = ("UNIMPLEMENTED", "not here")
    x = there(jnp.arange(3), on_host)
    np.testing.assert_array_equal(np.from_dlpack(x), [0, 1, 2])


def test_a_capsule_that_nobody_takes_gives_the_buffer_back(on_host):
    x = there(jnp.arange(3), on_host)
    for version in (None, (1, 0)):
        capsule = x.__dlpack__(max_version=version)
        assert references(on_host) == 1
        del capsule
        assert references(on_host) == 0


def test_a_lent_buffer_is_not_donated(on_host):
    x = there(jnp.arange(3.0), on_host)
    y = np.from_dlpack(x)
    f = weft.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(4):
        np.testing.assert_array_equal(f(x), [1, 2, 3]) if not x.is_deleted() else None
    np.testing.assert_array_equal(y, [0, 1, 2])
    del y


def test_copies_where_they_are_asked_for(on_host):
    x = there(jnp.arange(3.0), on_host)
    y = np.from_dlpack(x, copy=True)
    assert y.ctypes.data != x.unsafe_buffer_pointer()
    assert np.from_dlpack(x, device="cpu").ctypes.data == x.unsafe_buffer_pointer()


def test_a_plugin_that_lends_nothing_gives_copies_on_the_host(plugin):
    x = there(jnp.arange(3.0), plugin)
    assert x.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(x)
    np.testing.assert_array_equal(y, [0, 1, 2])
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), [0, 1, 2])
    with pytest.raises(BufferError, match="leave copy out"):
        np.from_dlpack(x, copy=False)
    with pytest.raises(BufferError, match=r"to the device \(2, 0\).*move it first"):
        x.__dlpack__(dl_device=(2, 0))


def test_tiled_buffers_are_copied(on_host):
    on_host.tiled = True
    x = there(jnp.arange(3.0), on_host)
    y = np.from_dlpack(x)
    np.testing.assert_array_equal(y, [0, 1, 2])
    assert references(on_host) == 0


def test_memory_of_gpus_has_their_number(make_plugin):
    plugin = make_plugin(platform="cuda")
    x = weft.device_put(jnp.arange(3.0), weft.devices("stand_in")[2])
    assert x.__dlpack_device__() == (2, 2)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert references(plugin) == 1
    del capsule
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), [0, 1, 2])
    with pytest.raises(BufferError, match="copy=False"):
        np.from_dlpack(x, device="cpu", copy=False)
    plugin.tiled = True
    with pytest.raises(BufferError, match="own way"):
        x.__dlpack__()


def test_other_arrays_of_a_gpu_are_read_where_they_are(make_plugin):
    plugin = make_plugin(platform="cuda")
    device = weft.devices("stand_in")[1]
    given = Named(np.arange(4.0, dtype=np.float32), (2, 1))
    x = jnp.from_dlpack(given)
    assert x.devices() == {device} and given.asked["stream"] is None
    np.testing.assert_array_equal(x + 1, [1, 2, 3, 4])
    assert plugin.get(x._owner.handle).value.ctypes.data == given.value.ctypes.data
    with pytest.raises(BufferError, match="no device number 7"):
        jnp.from_dlpack(Named(given.value, (2, 7)))


def test_numpy_arrays_are_read_where_they_are(on_host):
    value = np.arange(8.0, dtype=np.float32).reshape(2, 4)
    x = jnp.from_dlpack(value, device=on_host.places[1])
    assert on_host.get(x._owner.handle).value.ctypes.data == value.ctypes.data
    assert x.devices() == {on_host.places[1]}
    np.testing.assert_array_equal(weft.jit(lambda x: x * 2)(x), 2 * value)
    before = len(sharing._viewed)
    del x
    gc.collect()
    assert len(sharing._viewed) == before - 1
    y = jnp.from_dlpack(value, device=on_host.places[0], copy=True)
    assert on_host.get(y._owner.handle).value.ctypes.data != value.ctypes.data
    wide = jnp.from_dlpack(np.arange(3), device=on_host.places[0])
    assert wide.dtype == jnp.int32 and wide.sum() == 3
    empty = jnp.from_dlpack(np.zeros((0, 2), np.float32), device=on_host.places[0])
    assert empty.shape == (0, 2)


def test_results_do_not_take_memory_of_others(on_host):
    value = np.arange(4.0, dtype=np.float32)
    f = weft.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(4):
        x = jnp.from_dlpack(value, device=on_host.places[0])
        np.testing.assert_array_equal(f(x), [1, 2, 3, 4])
    np.testing.assert_array_equal(value, [0, 1, 2, 3])


def test_memory_that_a_plugin_refuses_is_copied(on_host):
    value = np.frombuffer(b"\0" * 17, np.uint8)[1:]
    x = jnp.from_dlpack(value, device=on_host.places[0])
    np.testing.assert_array_equal(x, value)
    with pytest.raises(BufferError, match=r"aligned.*leave copy out"):
        jnp.from_dlpack(value, device=on_host.places[0], copy=False)


def test_a_plugin_without_views_copies(make_plugin):
    made = make_plugin(platform="cpu", missing=["Client_CreateViewOfDeviceBuffer"])
    device = weft.devices("stand_in")[0]
    value = np.arange(3.0, dtype=np.float32)
    x = jnp.from_dlpack(value, device=device)
    assert made.get(x._owner.handle).value.ctypes.data != value.ctypes.data
    with pytest.raises(BufferError, match="device_put"):
        jnp.from_dlpack(value, device=device, copy=False)


def test_what_dlpack_has_no_elements_for(on_host):
    x = there(jnp.ones(2, "float8_e5m2"), on_host)
    with pytest.raises(BufferError, match="cannot represent"):
        x.__dlpack__()
    assert references(on_host) == 0
