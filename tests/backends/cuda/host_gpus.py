"""Four GPUs made of the host in one process, for the cases of ``mpi_cases``: ``... FILE``."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.cuda import fake_nccl, host_device
from tests.parallel import mpi_cases
from weft import P
from weft.backends.cuda import client, program
from weft.base import knobs
from weft.runtime import devices, registry

COUNT = 4


def main(path):
    with pytest.MonkeyPatch.context() as patch, fake_nccl.installed(patch) as fake:
        host_device.install(patch, count=COUNT, apart=True)
        patch.setattr(program.Cuda, "keeps", lambda self, eqn: True)
        patch.setattr(program, "length", lambda commands: 0)  # nothing to capture
        gpus = SimpleNamespace(clients=lambda: [client.gpu(i) for i in range(COUNT)])
        patch.setitem(registry.CLIENTS, "cuda", registry.Platform(gpus, names=("gpu",)))
        patch.setattr(devices, "_wanted", lambda known="", named="": ["cuda", "cpu"])
        knobs.config.update("default_device", "cuda")
        warnings.simplefilter("ignore")
        check_arrays()
        fake.calls.clear()
        mpi_cases.main(path)
        names = {name for _, _, name, _ in fake.calls}
        assert {"all_gather", "send", "receive"} <= names, names
        print(f"{len(fake.calls)} calls of NCCL")


def check_arrays():
    """What is true of arrays over several GPUs."""
    assert [str(d) for d in weft.devices()] == [f"cuda:{i}" for i in range(COUNT)]
    mesh = mpi_cases.line()
    x = mpi_cases.on(mesh, mpi_cases.data(8, 3), P("i"))
    assert [b.size for b in x._owner.buffers] == [24] * COUNT
    np.testing.assert_array_equal(x, mpi_cases.data(8, 3))
    for shard in x.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(shard.data, mpi_cases.data(8, 3)[shard.index])
    twice = weft.jit(lambda x: x * 2)(x)
    assert twice.sharding.spec == P("i") and type(twice._owner).__name__ == "Parts"
    total = jnp.sum(x, 0)
    assert total.sharding.is_fully_replicated
    np.testing.assert_allclose(total, mpi_cases.data(8, 3).sum(0), rtol=1e-5)
    other = weft.device_put(x, weft.NamedSharding(mesh, P(None)))
    assert [b.size for b in other._owner.buffers] == [96] * COUNT
    np.testing.assert_array_equal(other, x)
    moved = weft.device_put(x, weft.devices()[2])
    assert moved.devices() == {weft.devices()[2]}
    np.testing.assert_array_equal(moved, x)
    with pytest.raises(BufferError, match="4 devices: export its shards"):
        x.__dlpack__()
    with pytest.raises(ValueError, match="no single address"):
        x.unsafe_buffer_pointer()
    check_donation(mesh)
    again = x.copy()
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        weft.jit(jnp.sin)(x)
    np.testing.assert_array_equal(again.block_until_ready(), twice / 2)


def check_donation(mesh):
    """Results in the memory of donated arguments, unless somebody else sees that."""
    step = weft.jit(lambda w, x: w - 0.1 * (x * w).sum(0), donate_argnums=0)
    place = weft.NamedSharding(mesh, P("i"))
    w, x = (weft.device_put(mpi_cases.data(8, 8, seed=i), place) for i in range(2))
    w = weft.device_put(w, weft.NamedSharding(mesh, P(None, "i")))
    x = weft.device_put(x, weft.NamedSharding(mesh, P(None, "i")))
    want = np.asarray(w) - 0.1 * (np.asarray(x) * np.asarray(w)).sum(0)
    addresses = [b.address for b in w._owner.buffers]
    y = step(w, x)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    assert w.is_deleted() and [b.address for b in y._owner.buffers] == addresses
    seen = [s.data for s in y.addressable_shards]
    z = step(y, x)
    assert not {b.address for b in z._owner.buffers} & {*addresses}
    np.testing.assert_allclose(np.concatenate(seen, 1), want, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main(sys.argv[1])
