"""Programs that go wrong in one of several processes.

``python mpi_faults.py KIND FOLDER``: what each process sees is written to a file there, since a
launcher may not pass on what is printed by processes that end.
"""

import os
import signal
import sys
import time

import numpy as np

import weft
from weft import P, lax

weft.distributed.initialize()
RANK = weft.process_index()
MESH = weft.sharding.Mesh(np.array(weft.devices()), ("i",))
SHARDED = weft.NamedSharding(MESH, P("i"))


def total(x):
    return lax.psum(x, "i")


def biggest(x):
    return lax.pmax(x, "i")


def mapped(f):
    return weft.jit(weft.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P()))


def load():
    time.sleep(600)


def fault(kind):
    x = weft.device_put(np.ones(8 * weft.device_count(), np.float32), SHARDED)
    f, g = mapped(total), mapped(biggest)
    if kind == "other_program":
        (g if RANK == 1 else f)(x)
    for _ in range(4):
        f(x)
    if RANK == 1:
        if kind == "raises":
            raise ValueError("no such file")
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "leaves":
            return
        if kind == "sleeps":
            load()
        if kind == "elsewhere":
            g(x)
    for _ in range(3):
        f(x)


try:
    fault(sys.argv[1])
except Exception as error:
    with open(os.path.join(sys.argv[2], str(RANK)), "w") as file:
        file.write(f"{type(error).__name__}: {error}")
    raise
