"""Processes under mpiexec that share a GPU made of the host, for ``mpi_cases``: ``... FILE``."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.backends.cuda import fake_nccl, host_device
from tests.parallel import mpi_cases
from weft.backends.cuda import client, program
from weft.base import knobs
from weft.runtime import devices, registry


def main(path):
    with pytest.MonkeyPatch.context() as patch, fake_nccl.installed(patch):
        host_device.install(patch, apart=True)
        patch.setattr(program.Cuda, "keeps", lambda self, eqn: True)
        patch.setattr(program, "length", lambda commands: 0)  # nothing to capture
        gpus = SimpleNamespace(clients=lambda: [client.gpu(0)])
        patch.setitem(registry.CLIENTS, "cuda", registry.Platform(gpus, names=("gpu",)))
        patch.setattr(devices, "_wanted", lambda known="", named="": ["cuda", "cpu"])
        knobs.config.update("default_device", "cuda")
        weft.distributed.initialize()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            check_arrays()
            mpi_cases.main(path)
        print("\n".join({str(w.message) for w in told}))
        weft.distributed.shutdown()


def check_arrays():
    """What is true of arrays on GPUs of several processes."""
    own = weft.process_index()
    assert [d.process_index for d in weft.devices()] == [0, 1, 2, 3]
    assert [d.platform for d in weft.local_devices()] == ["gpu"]
    x = mpi_cases.on(mpi_cases.line(), mpi_cases.data(4, 3), weft.P("i"))
    (shard,) = x.addressable_shards
    assert shard.device.id == own and shard.data.devices() == {shard.device}
    assert shard.data.tolist() == mpi_cases.data(4, 3)[own : own + 1].tolist()
    assert x._owner.size == 12 and type(x._owner).__name__ == "Buffer"
    step = weft.jit(lambda w, x: w - 0.1 * x, donate_argnums=0)
    w = mpi_cases.on(mpi_cases.line(), mpi_cases.data(4, 3, seed=1), weft.P("i"))
    address = w._owner.address
    z = step(w, x)
    assert w.is_deleted() and z._owner.address == address and not x.is_deleted()
    expected = mpi_cases.data(4, 3, seed=1) - 0.1 * mpi_cases.data(4, 3)
    np.testing.assert_allclose(z.addressable_shards[0].data, expected[own : own + 1], rtol=1e-5)
    y = weft.jit(lambda x: (x * 2).sum(0))(x)
    assert type(y._owner).__name__ == "Buffer" and y.sharding.device_set == x.sharding.device_set


if __name__ == "__main__":
    main(*sys.argv[1:])
