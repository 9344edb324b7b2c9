"""Programs compiled for machines that are not here."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import export
from weft.backends.pjrt.program import compile_ahead, device_options
from weft.experimental import topologies
from weft.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from weft.sharding import PartitionSpec as P


def f(x, w):
    return jnp.tanh(x @ w).sum()


def struct(shape, sharding=None):
    return weft.ShapeDtypeStruct(shape, "float32", sharding=sharding)


def test_a_machine_is_described(make_plugin):
    make_plugin()
    found = topologies.get_topology_desc("box:2x3", platform="stand_in")
    assert len(found.devices) == 6 and found.devices[5].coords == (1, 2, 0)
    assert found.devices[1].device_kind == "abacus" and str(found.devices[1]) == "stand_in:1"
    assert found.machine.platform_version == "stand-in 1"
    with pytest.raises(RuntimeError, match=r"does not know the machine 'cube'.*no topology 'cube'"):
        topologies.get_topology_desc("cube", platform="stand_in")
    with pytest.raises(RuntimeError, match="is only a description"):
        weft.device_put(1.0, found.devices[0])


def test_costs_memory_text_and_bytes(make_plugin):
    plugin = make_plugin()
    machine = topologies.get_topology_desc("box:2x2", platform="stand_in")
    step = weft.jit(weft.grad(f, argnums=1))
    made = step.lower(struct((8, 4)), struct((4, 6))).compile(topology=machine)
    assert "Client_Create" not in plugin.calls and "Compile" in plugin.calls
    assert made.cost_analysis()["flops"] > 0
    assert made.memory_analysis().argument_size_in_bytes == 4 * (32 + 24)
    assert "stablehlo.dot_general" in made.as_text()
    assert made.serialize().startswith(b"stand-in executable")
    told = made.explain()
    assert "for box:2x2, a machine of 4 devices" in told and "floating-point operations" in told
    assert made.out_info.shape == (4, 6)
    with pytest.raises(RuntimeError, match="compiled for box:2x2, a machine that this process"):
        made(jnp.ones((8, 4)), jnp.ones((4, 6)))
    with pytest.raises(TypeError, match="the name of a machine"):
        step.lower(struct((8, 4)), struct((4, 6))).compile(topology=3)
    with pytest.raises(ValueError, match="topology is empty; write the name of a machine"):
        step.lower(struct((8, 4)), struct((4, 6))).compile(topology="")
    alone = SingleDeviceSharding(machine.devices[0])
    assert made.input_shardings == ((alone, alone), {}) and made.output_shardings == alone


def test_where_arguments_and_results_are(make_plugin):
    make_plugin()
    machine = topologies.get_topology_desc("box:2x2", platform="stand_in")
    mesh = topologies.make_mesh(machine, (2, 2), ("x", "y"))
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    step = weft.jit(lambda x, w: {"y": x @ w}, out_shardings={"y": rows})
    made = step.lower(struct((8, 4), rows), struct((4, 6), columns)).compile()
    assert made.input_shardings == ((rows, columns), {})
    assert made.output_shardings == {"y": rows}


def test_a_story_of_a_program(make_plugin):
    """Operations, FLOPs, bytes and the time that the compiler expects."""
    make_plugin()
    lowered = weft.jit(f).lower(struct((8, 4)), struct((4, 6)))
    machine = topologies.get_topology_desc("box:2x2", platform="stand_in")
    told = lowered.compile(topology=machine).explain()
    for text in (
        "6 operations after fusion",
        "1 tanh",
        "6 floating-point operations, 64 bytes read",
        "expected time 500,000.0 us",
        "224 argument, 4 output",
    ):
        assert text in told, told


def test_exports_for_tpus(make_plugin):
    """What is exported for a TPU is compiled ahead, is read again, and is not run elsewhere."""
    make_plugin()
    fun = weft.jit(lambda x: jnp.sin(x) @ x.T)
    made = export.export(fun, platforms=["tpu"])(struct((3, 4)))
    assert made.platforms == ("tpu",) and "stablehlo.sine" in made.mlir_module()
    x = np.linspace(0, 1, 12, dtype="float32").reshape(3, 4)
    with pytest.raises(ValueError, match="exported for tpu, not for cpu"):
        made.call(x)
    again = export.deserialize(made.serialize())
    assert again.platforms == ("tpu",)
    (y,) = export.from_stablehlo(again.mlir_module())(x)
    np.testing.assert_allclose(y, fun(x), rtol=1e-6)
    there = topologies.get_topology_desc("box:1x1", platform="stand_in").machine
    text, options = again.mlir_module(), device_options([0])
    assert compile_ahead(there.api, there.handle, text, options).costs()["flops"] > 0


def test_donated_arguments_share_memory_with_results(make_plugin):
    make_plugin()
    machine = topologies.get_topology_desc("box:1x1", platform="stand_in")
    made = weft.jit(lambda x: x + 1, donate_argnums=0).lower(struct((5,))).compile(topology=machine)
    assert made.memory_analysis().alias_size_in_bytes == 20


def test_meshes_of_described_devices(make_plugin):
    """As JAX's users write it: a mesh of the topology, and arguments divided over it."""
    make_plugin()
    machine = topologies.get_topology_desc("box:2x2", platform="stand_in")
    mesh = topologies.make_mesh(machine, (2, 2), ("x", "y"))
    where = NamedSharding(mesh, P("x", "y"))
    made = (
        weft.jit(f).lower(struct((8, 4), where), struct((4, 6), NamedSharding(mesh, P()))).compile()
    )
    text = made.as_text()
    assert "mhlo.num_partitions = 4" in text and '<@mesh, [{"x"}, {"y"}]>' in text
    alone = struct((8, 4), SingleDeviceSharding(machine.devices[2]))
    assert "num_partitions" not in weft.jit(jnp.sin).lower(alone).compile().as_text()


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_meshes_without_devices(make_plugin, shape):
    make_plugin()
    machine = topologies.get_topology_desc("box:2x2", platform="stand_in")
    mesh = AbstractMesh(shape, ("x", "y")[: len(shape)])
    where = NamedSharding(mesh, P("x"))
    lowered = weft.jit(lambda x: x @ x.T).lower(struct((8, 4), where))
    text = lowered.compile(topology=machine).as_text()
    assert f'"x"={shape[0]}' in text and '<@mesh, [{"x"}, {}]>' in text
    small = topologies.get_topology_desc("box:1x2", platform="stand_in")
    with pytest.raises(ValueError, match="has 2 devices, and the program is sharded over 4"):
        lowered.compile(topology=small)


def test_meshes_of_other_devices(plugin):
    """A program for four attached devices, planned for a machine of four others."""
    machine = topologies.get_topology_desc("box:2x2", platform="stand_in")
    mesh = Mesh(np.array(plugin.places), ("x",))
    x = weft.device_put(jnp.ones((8, 2)), NamedSharding(mesh, P("x")))
    text = weft.jit(lambda x: x * 2).lower(x).compile(topology=machine).as_text()
    assert 'sdy.mesh @mesh = <["x"=4]>' in text and '<@mesh, [{"x"}, {}]>' in text
