"""Copies to and from a device with memory of its own, and programs compiled for another device."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.sharding import Mesh, NamedSharding, PartitionSpec


def test_copies_and_compiles(plugin):
    first, second = plugin.places[:2]
    f = weft.jit(lambda x: x + 1)
    x = jnp.ones(4)
    f(x)
    with weft.explain_recompiles() as report:
        y = f(weft.device_put(x, first))
        f(weft.device_put(y, second))
        np.asarray(y)
        weft.device_get(f(y))
    (one, two) = [r for r in report.recompiles if "<lambda>" in r.function]
    assert one.stages[0] == two.stages[0] == "compiled"  # the plugin here traces as it runs
    assert one.reasons == (f"x: sharding {weft.devices('cpu')[0]} → stand_in:0",)
    assert two.reasons == ("x: sharding stand_in:0 → stand_in:1",)
    ways = [(t.direction, t.explicit, t.nbytes) for t in report.transfers]
    assert ways.count(("device to host", False, 16)) == 1
    assert ways.count(("device to host", True, 16)) == 1
    assert ("device to device", True, 16) in ways


def test_refusals(plugin):
    f = weft.jit(lambda x: (x * x).sum())
    x = weft.device_put(jnp.ones(4), plugin.places[0])
    f(x)
    with weft.no_recompiles(), weft.no_transfers():
        loss = f(x)
        with pytest.raises(weft.errors.TransferError, match="copied from device to host"):
            float(loss)
        weft.device_get(loss)
        with pytest.raises(weft.errors.TransferError, match=r"float32\[4\].*host to device"):
            f(np.ones(4, np.float32))


def test_shards_are_gathered_once(plugin):
    mesh = Mesh(np.array(plugin.places[:2]), ("i",))
    x = weft.device_put(jnp.arange(8.0), NamedSharding(mesh, PartitionSpec("i")))
    with weft.explain_recompiles() as report:
        np.asarray(x)
    assert [(t.direction, t.nbytes) for t in report.transfers] == [("gathered", 32)]
    with weft.no_transfers(), pytest.raises(weft.errors.TransferError, match="gathered"):
        np.asarray(weft.device_put(jnp.arange(8.0), NamedSharding(mesh, PartitionSpec("i"))))
