"""A sharded array written by some processes and read by others.

``python mpi_saved.py save|load FOLDER``, alone or under mpiexec.
"""

import sys

import numpy as np

import weft
import weft.numpy as jnp
from weft import P
from weft.experimental import multihost_utils
from weft.experimental.array_serialization import serialization
from weft.sharding import Mesh, NamedSharding

NAMES = ("weights", "bias", "step", "half")


def values():
    draw = np.random.RandomState(0)
    weights = draw.standard_normal((8, 12)).astype(np.float32)
    return [weights, np.arange(8, dtype=np.int32), np.float32(3.5), weights.astype(jnp.bfloat16)]


def shardings(turn):
    count = weft.device_count()
    grid = Mesh(np.array(weft.devices()).reshape(-1, 2 if count % 2 == 0 else 1), ("a", "b"))
    specs = ([P("a", "b"), P("a"), P(), P(None, "a")], [P("b"), P(), P(), P(("a", "b"))])[turn]
    return [NamedSharding(grid, s) for s in specs]


def whole(x):
    gather = lambda x: multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(x if x.is_fully_addressable else gather(x))


def main(what, folder):
    if "mpi" in sys.argv:
        weft.distributed.initialize()
    specs = [serialization.get_tensorstore_spec(f"{folder}/{name}") for name in NAMES]
    if what == "save":
        placed = [weft.device_put(x, s) for x, s in zip(values(), shardings(0), strict=True)]
        serialization.run_serialization(placed, specs)
        return
    for turn in (0, 1):
        wanted = shardings(turn)
        found = serialization.run_deserialization(wanted, specs)
        for x, value, sharding in zip(found, values(), wanted, strict=True):
            assert x.sharding == sharding and x.dtype == np.asarray(value).dtype
            assert np.array_equal(whole(x), np.asarray(value))
    (longer,) = serialization.run_deserialization(wanted[:1], specs[:1], [(16, 12)])
    assert np.array_equal(whole(longer)[:8], values()[0]) and not whole(longer)[8:].any()
    print("as it was", flush=True)


main(*sys.argv[1:3])
