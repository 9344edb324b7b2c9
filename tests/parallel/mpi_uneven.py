"""Meshes over two processes with one and three devices, in several orders; run under mpiexec."""

import numpy as np
from mpi4py import MPI

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.experimental import multihost_utils
from weft.sharding import Mesh, NamedSharding

DATA = np.arange(48, dtype=np.float32).reshape(12, 4) / 7


def whole(x):
    return np.asarray(multihost_utils.process_allgather(x, tiled=True))


def check(mesh, spec):
    x = weft.device_put(DATA, NamedSharding(mesh, spec))
    assert np.allclose(whole(x), DATA)
    assert np.allclose(whole(weft.jit(lambda x: x @ x.T)(x)), DATA @ DATA.T, atol=1e-3)
    assert np.allclose(whole(x.sum(0)), DATA.sum(0), atol=1e-3)
    parts = {d: DATA[i] for d, i in x.sharding.devices_indices_map(DATA.shape).items()}
    places = {d: at for at, d in np.ndenumerate(mesh.devices)}
    for names in ("a", "b", ("a", "b")):

        def f(x, names=names):
            gathered = lax.all_gather(x, names).sum(0)
            return lax.psum(jnp.sin(x), names) + gathered + lax.pmax(x, names)

        options = {"mesh": mesh, "in_specs": spec, "out_specs": spec, "check_vma": False}
        for shard in weft.jit(weft.shard_map(f, **options))(x).addressable_shards:
            own = places[shard.device]
            members = [
                parts[d]
                for d, at in places.items()
                if all(n in names or at[i] == own[i] for i, n in enumerate("ab"))
            ]
            wanted = sum(np.sin(m) + m for m in members) + np.max(members, 0)
            assert np.allclose(shard.data, wanted, atol=1e-3), (mesh, spec, names)


rank = MPI.COMM_WORLD.Get_rank()
weft.distributed.initialize(local_device_ids=[[0], [0, 1, 2]][rank])
assert weft.local_device_count() == [1, 3][rank] and weft.device_count() == 4
for order in ([0, 1, 2, 3], [1, 0, 2, 3], [3, 1, 0, 2]):
    grid = np.array(weft.devices())[order].reshape(2, 2)
    for spec in (P("a"), P("b"), P(("a", "b")), P(), P("a", "b")):
        check(Mesh(grid, ("a", "b")), spec)
print("all is well", flush=True)
