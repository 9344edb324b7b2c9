"""Meshes, partition specs and shardings as values: their texts, equality and refusals."""

import copy
import pickle
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import NamedSharding, P
from weft.sharding import AbstractMesh, AxisType, Mesh, SingleDeviceSharding

DEVICE = weft.devices()[0]
GRID = np.array([DEVICE])


def explicit():
    return weft.make_mesh((1,), ("x",), devices=[DEVICE])


def automatic():
    return Mesh(GRID, "x")


def test_equal_meshes_are_one():
    assert Mesh([DEVICE], ("x",)) is Mesh(GRID, "x", (AxisType.Auto,))
    assert explicit() is Mesh(GRID, "x", (AxisType.Explicit,))
    assert explicit() is not automatic()
    assert AbstractMesh((2, 4), ("x", "y")) is AbstractMesh((2, 4), ("x", "y"))
    for mesh in (explicit(), explicit().abstract_mesh):
        assert copy.copy(mesh) is copy.deepcopy(mesh) is mesh
        assert pickle.loads(pickle.dumps(mesh)) is mesh


def test_meshes_do_not_change():
    with pytest.raises(AttributeError):
        explicit().axis_names = ("y",)
    with pytest.raises(AttributeError):
        explicit().abstract_mesh.axis_names = ("y",)
    with pytest.raises(ValueError):
        explicit().devices[0] = None


def test_axes_of_meshes():
    mesh = explicit()
    assert (mesh.auto_axes, mesh.explicit_axes, mesh.manual_axes) == ((), ("x",), ())
    assert mesh.are_all_axes_explicit and not mesh.are_all_axes_auto
    assert mesh.shape_tuple == (("x", 1),) and mesh.axis_sizes == (1,)
    assert str(mesh) == "Mesh('x': 1, axis_types=(Explicit,))"
    assert repr(mesh) == "Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Explicit,))"
    assert str(Mesh(np.empty((), object), ())) == "Mesh()"
    with pytest.raises(ValueError):
        Mesh(GRID, (None,))
    with pytest.raises(TypeError):
        Mesh(GRID, "x", ("Auto",))
    with pytest.raises(ValueError):
        Mesh(GRID, "x", (AxisType.Auto,) * 2)


def test_one_mesh_in_blocks_of_two_threads():
    mesh, entered, left = automatic(), threading.Event(), threading.Event()
    seen = []

    def other():
        with mesh:
            entered.set()
            left.wait(30)
            seen.append(constrained() is mesh)

    def constrained():
        return weft.lax.with_sharding_constraint(jnp.ones(2), P("x")).sharding.mesh

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(30)
    with mesh:
        assert constrained() is mesh and weft.sharding.get_mesh().empty
    left.set()
    thread.join()
    assert seen == [True]
    with pytest.raises(RuntimeError):
        constrained()


def test_texts_of_specs():
    assert repr(P(None, P.UNCONSTRAINED)) == "P(None, UNCONSTRAINED)"
    assert pickle.loads(pickle.dumps(P.UNCONSTRAINED)) is P.UNCONSTRAINED
    spec = P("x", None, unreduced={"y"})
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert repr(P("x", unreduced={"y"}) + P("z", unreduced={"w"})) == (
        "P('x', 'z', unreduced={'w', 'y'})"
    )
    assert P("x") + ("y",) == P("x", "y") and ("y",) + P("x") == P("y", "x")


def test_equality_of_specs():
    assert P(("x",)) == P("x") and P(None) == P(()) and P("x") != P("x", None)
    assert P(reduced={"x"}) != P() and P(unreduced={"x"}) != P()


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ValueError, lambda: P((("x", "y"), "z"))),
        (ValueError, lambda: P(("x", ("y",)))),
        (ValueError, lambda: P([("x",)])),
        (TypeError, lambda: type("Q", (P,), {})),
        (ValueError, lambda: P("x", unreduced={"x"})),
        (ValueError, lambda: P("x", reduced={"x"})),
        (ValueError, lambda: P(unreduced={"x"}, reduced={"x"})),
        (ValueError, lambda: P(unreduced={None})),
        (TypeError, lambda: P(unreduced=["x"])),
        (TypeError, lambda: P(unreduced="x")),
    ],
)
def test_specs_that_are_refused(error, make):
    with pytest.raises(error):
        make()


def test_arrays_that_a_sharding_is_for():
    sharding = NamedSharding(explicit(), P("x"))
    assert sharding.check_compatible_aval((2, 3)) is None
    with pytest.raises(ValueError):
        sharding.check_compatible_aval(())
    assert SingleDeviceSharding(DEVICE).check_compatible_aval(()) is None
    with pytest.raises(AttributeError):
        sharding.spec = P()


def test_kinds_of_memory():
    single, named = SingleDeviceSharding(DEVICE), NamedSharding(explicit(), P("x"))
    for sharding in (single, named):
        host = sharding.with_memory_kind("pinned_host")
        assert (sharding.memory_kind, host.memory_kind) == ("device", "pinned_host")
        assert host != sharding and not host.is_equivalent_to(sharding, 1)
        assert host.with_memory_kind("device") == sharding
        x = weft.device_put(jnp.arange(2.0), host)
        assert x.sharding == host and (x + 1).sharding == host
        assert weft.jit(lambda x: x, out_shardings=host)(jnp.arange(2.0)).sharding == host
        assert pickle.loads(pickle.dumps(host)) == host
    assert NamedSharding(explicit().abstract_mesh, P("x")).memory_kind is None
    assert weft.device_put(1.0, weft.memory.Space.Host).sharding.memory_kind == "pinned_host"
    with pytest.raises(ValueError):
        SingleDeviceSharding(DEVICE, memory_kind="nope")
    with pytest.raises(ValueError):
        NamedSharding(explicit(), P("x"), memory_kind="nope")


def test_shardings_of_executables():
    single = SingleDeviceSharding(DEVICE)
    for mesh in (explicit(), automatic()):
        sharding = NamedSharding(mesh, P("x"))
        x = weft.device_put(jnp.arange(4.0), sharding)
        assert weft.jit(lambda x: x + 1).lower(x).compile().output_shardings == sharding
        assert weft.jit(lambda x: 3.0).lower(x).compile().input_shardings == ((None,), {})
    x = weft.device_put(jnp.arange(4.0), NamedSharding(explicit(), P("x")))
    made = weft.jit(lambda x: x[None]).lower(x).compile()
    assert made.output_shardings == NamedSharding(explicit(), P(None, "x"))
    lowered = weft.jit(lambda x, *, y: x).lower(1.0, y={"a": 2.0})
    assert lowered.compile().input_shardings == ((single,), {"y": {"a": None}})
    kept = weft.jit(lambda x, y: x, keep_unused=True).lower(1.0, 2.0).compile()
    assert kept.input_shardings == ((single, single), {})


@pytest.mark.parametrize("mesh", [explicit(), automatic()])
def test_shardings_of_shapes(mesh):
    sharding = NamedSharding(mesh, P("x"))
    placed = weft.jit(lambda x: x, out_shardings=sharding)
    assert placed.eval_shape(jnp.arange(1)).sharding == sharding
    assert placed.lower(jnp.arange(1)).out_info.sharding == sharding
    x = weft.device_put(jnp.arange(1), sharding)
    assert weft.ShapeDtypeStruct.like(x).sharding == sharding
    assert weft.ShapeDtypeStruct.like(jnp.arange(1)).sharding is None


def test_parts_of_specs_and_meshes():
    assert P("x", None, unreduced={"y"}).partitions == ("x", None)
    mesh = weft.make_mesh((1, 1), ("x", "y"))
    assert NamedSharding(mesh, P("x")).replicated_axes == {"y"}
    assert NamedSharding(mesh, P()).replicated_axes == {"x", "y"}
    assert not mesh.is_scalar and Mesh(np.array(DEVICE), ()).is_scalar


def test_text_of_a_shard():
    x = weft.device_put(jnp.arange(4.0), NamedSharding(explicit(), P("x")))
    assert repr(x.addressable_shards[0]) == (
        f"Shard(device={DEVICE!r}, index=(slice(None, None, None),), replica_id=0,"
        " data=[0. 1. 2. 3.])"
    )
