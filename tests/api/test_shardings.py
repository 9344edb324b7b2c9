"""Meshes and shardings as data, arrays made of parts, and what is alive."""

import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P
from weft.experimental.layout import Format, Layout, with_layout_constraint
from weft.experimental.mesh_utils import create_device_mesh, create_hybrid_device_mesh
from weft.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    ManualAxisType,
    Mesh,
    NamedSharding,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)


class FakeDevice:
    """A device of a machine with several."""

    device_kind = platform = "cpu"

    def __init__(self, id, process_index=0):
        self.id, self.process_index = id, process_index


DEVICES = [FakeDevice(i, i // 4) for i in range(8)]


def test_abstract_meshes_are_values():
    mesh = AbstractMesh((2, 4), ("x", "y"))
    assert mesh == AbstractMesh((2, 4), ("x", "y")) != AbstractMesh((2, 4), ("x", "z"))
    assert hash(mesh) == hash(AbstractMesh((2, 4), ("x", "y")))
    assert repr(mesh) == "AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto))"
    assert (mesh.size, mesh.shape, mesh.auto_axes) == (8, {"x": 2, "y": 4}, ("x", "y"))
    manual = mesh.update(axis_types=(AxisType.Manual, AxisType.Auto))
    assert (manual.manual_axes, manual.auto_axes) == (("x",), ("y",))
    with pytest.raises(ValueError, match="name for each axis"):
        AbstractMesh((2,), ("x", "y"))
    kind = AbstractDevice("cpu", None, "cpu")
    assert kind == AbstractDevice("cpu", None, "cpu") != AbstractDevice("cpu", 2, "cpu")
    assert ManualAxisType(varying={"x"}) == ManualAxisType(varying=("x",)) != ManualAxisType()


def test_make_mesh():
    mesh = weft.make_mesh((1, 1), ("x", "y"))
    assert mesh.axis_types == (AxisType.Explicit,) * 2
    assert mesh.abstract_mesh.shape == mesh.shape
    assert weft.make_mesh((2, 4), ("x", "y"), devices=DEVICES).devices[1, 3] is DEVICES[7]
    with pytest.raises(ValueError, match="needs 1000 devices"):
        weft.make_mesh((1000,), "x")


def test_the_current_mesh():
    mesh = weft.make_mesh((1,), "x")
    assert get_mesh().empty and get_abstract_mesh().empty
    with weft.set_mesh(mesh) as held:
        assert held is mesh is get_mesh()
        assert get_abstract_mesh() == mesh.abstract_mesh
        with use_abstract_mesh(AbstractMesh((8,), ("z",))):
            assert get_abstract_mesh().axis_names == ("z",)
            assert get_mesh() is mesh
    assert get_mesh().empty
    with pytest.raises(ValueError, match="takes a Mesh"):
        weft.set_mesh("x")


def test_functions_are_traced_again_under_another_mesh():
    seen = []
    f = weft.jit(lambda x: (seen.append(get_mesh().axis_names), x)[1])
    f(1.0)
    with weft.set_mesh(weft.make_mesh((1,), "x")):
        f(1.0)
        f(1.0)
    f(1.0)
    assert seen == [(), ("x",)]


def test_functions_are_traced_once_for_arrays_on_no_mesh():
    seen = []
    f = weft.jit(lambda x: (seen.append(str(weft.typeof(x))), x * 2)[1])
    f(np.ones(3, np.float32))
    on_mesh = weft.device_put(np.ones(3, np.float32), NamedSharding(weft.make_mesh((1,), "x"), P()))
    assert not weft.typeof(on_mesh).sharding.mesh.empty
    f(np.ones(3, np.float32))
    assert seen == ["float32[3]"]
    in_host = weft.device_put(np.ones(3, np.float32), weft.memory.Space.Host)
    f(in_host), f(in_host), f(np.ones(3, np.float32))
    assert seen == ["float32[3]", "float32<host>[3]"]


def test_parts_of_arrays_by_device():
    mesh = Mesh(np.array(DEVICES, dtype=object).reshape(2, 4), ("x", "y"))
    whole = np.arange(64).reshape(8, 8)
    places = NamedSharding(mesh, P("x", "y")).devices_indices_map((8, 8))
    rebuilt = np.empty_like(whole)
    for device, index in places.items():
        assert whole[index].shape == (4, 2)
        rebuilt[index] = whole[index]
        assert index[0] == slice(4 * (device.id // 4), 4 * (device.id // 4) + 4)
    assert (rebuilt == whole).all()
    both = NamedSharding(mesh, P(("x", "y"))).devices_indices_map((8, 8))
    assert both[DEVICES[5]] == (slice(5, 6), slice(None))
    swapped = NamedSharding(mesh, P(None, ("y", "x"))).devices_indices_map((8, 8))
    assert swapped[DEVICES[5]] == (slice(None), slice(3, 4))
    assert mesh.is_multi_process


def test_arrays_from_parts():
    sharding = NamedSharding(weft.make_mesh((1,), "x"), P("x"))
    whole = np.arange(6, dtype=np.float32)
    asked = []
    made = weft.make_array_from_callback(
        (6,), sharding, lambda index: (asked.append(index), whole[index])[1]
    )
    assert (made == whole).all() and asked == [(slice(None),)]
    with pytest.raises(ValueError, match="dtype float16"):  # the parts are not converted
        weft.make_array_from_callback((6,), sharding, lambda i: whole[i], dtype=jnp.float16)
    with pytest.raises(ValueError, match="data_callback gave"):
        weft.make_array_from_callback((6,), sharding, lambda index: np.ones(3))
    tree = weft.make_array_from_process_local_data(sharding, {"a": whole})
    assert (tree["a"] == whole).all()
    with pytest.raises(ValueError, match="a single process"):
        weft.make_array_from_process_local_data(sharding, whole, (12,))
    joined = weft.make_array_from_single_device_arrays((6,), sharding, [jnp.asarray(whole)])
    assert (joined == whole).all()
    with pytest.raises(ValueError, match="one array each"):
        weft.make_array_from_single_device_arrays((6,), sharding, [])


def test_layouts():
    x = jnp.ones((2, 3))
    assert x.format == Format(Layout((0, 1), (), 0), x.sharding)
    assert with_layout_constraint(x, Layout((0, 1))) is x
    assert with_layout_constraint(x, Layout((1, 0))).format == x.format  # row-major it stays
    with pytest.raises(ValueError, match="not a permutation of the 2 dimensions"):
        with_layout_constraint(x, Layout((0, 1, 2)))


def test_arrangements_of_devices():
    assert create_device_mesh((2, 4), DEVICES)[1, 0] is DEVICES[4]
    with pytest.raises(ValueError, match="takes 6 devices"):
        create_device_mesh((2, 3), DEVICES)
    grid = create_hybrid_device_mesh((1, 4), (2, 1), DEVICES, process_is_granule=True)
    assert [d.process_index for d in grid[:, 0]] == [0, 1] and grid.shape == (2, 4)
    with pytest.raises(ValueError, match="2"):
        create_hybrid_device_mesh((1, 4), (3, 1), DEVICES, process_is_granule=True)


def test_live_arrays():
    x = jnp.ones(3) + 1
    assert any(y is x for y in weft.live_arrays())
    x.delete()
    assert not any(y is x for y in weft.live_arrays())
    with pytest.raises(RuntimeError, match="Unknown backend"):
        weft.live_arrays("abacus")


def test_environment(capsys):
    assert weft.print_environment_info() is None
    assert capsys.readouterr().out.startswith(f"weft:   {weft.__version__}")
    assert "numpy:" in weft.print_environment_info(return_string=True)
    assert pickle.loads(pickle.dumps(weft.memory.Space.Host)) is weft.memory.Space.Host
