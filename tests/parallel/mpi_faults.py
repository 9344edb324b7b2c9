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
from weft.core import processes
from weft.division.programs import process_program
from weft.experimental import multihost_utils
from weft.parallel.transport import mpi

weft.distributed.initialize()
RANK = weft.process_index()
MESH = weft.sharding.Mesh(np.array(weft.devices()), ("i",))
SHARDED = weft.NamedSharding(MESH, P("i"))
WHOLE = weft.NamedSharding(MESH, P())


def total(x):
    return lax.psum(x, "i")


def biggest(x):
    return lax.pmax(x, "i")


def mapped(f):
    return weft.jit(weft.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P()))


def load():
    time.sleep(600)


def sharded(*shape):
    local = np.full((1, *shape), RANK + 1, np.float32)
    return weft.make_array_from_process_local_data(SHARDED, local)


def first_value(x):
    return float(np.asarray(x.addressable_shards[0].data).reshape(-1)[0])


def known_programs(kind):
    """Two programs that all processes know, with their arguments and results."""
    x = sharded(3)
    if kind == "jit":
        f = weft.jit(lambda x: (2 * x).sum(0), in_shardings=SHARDED, out_shardings=WHOLE)
        g = weft.jit(lambda x: (3 * x).max(0), in_shardings=SHARDED, out_shardings=WHOLE)
        return (f, x, 6.0), (g, x, 6.0)
    if kind == "pmap":
        own = np.full((1, 3), RANK + 1, np.float32)
        f = weft.pmap(lambda x: lax.psum(2 * x, "i"), axis_name="i")
        g = weft.pmap(lambda x: lax.pmax(3 * x, "i"), axis_name="i")
        return (f, own, 6.0), (g, own, 6.0)
    if kind == "shift":  # messages from process to process
        turn = lambda n: lambda x: n * lax.ppermute(x, "i", [(0, 1), (1, 0)])
        f, g = (
            weft.jit(weft.shard_map(turn(n), mesh=MESH, in_specs=P("i"), out_specs=P("i")))
            for n in (1, 5)
        )
        return (f, x, 2.0 - RANK), (g, x, 5 * (2.0 - RANK))
    if kind == "shapes":
        f = mapped(total)
        return (f, x, 3.0), (f, sharded(5), 3.0)
    if kind == "sizes":
        f = mapped(total)
        return (f, x, 3.0), (f, sharded(100_000), 3.0)
    if kind == "long":  # of two messages each
        x = sharded(5000)
    f, g = mapped(lambda x: lax.psum(2 * x, "i")), mapped(lambda x: lax.pmax(3 * x, "i"))
    return (f, x, 6.0), (g, x, 6.0)


def another_order(kind):
    """Programs that are known are called in another order by one process."""
    if kind.endswith("_many"):  # as if there were more processes
        processes.DIRECT_PROCESSES = mpi.DIRECT_PROCESSES = process_program.FEW_PROCESSES = 1
    programs = known_programs(kind.removesuffix("_many"))
    for _ in range(2):
        for f, x, want in programs:
            assert first_value(f(x)) == want
    found = [(first_value(f(x)), want) for f, x, want in programs[:: 1 if RANK else -1]]
    raise AssertionError(f"no process has noticed: {found}")


def fault(kind):
    if kind.startswith("order_"):
        another_order(kind.removeprefix("order_"))
    if kind == "gathers":
        multihost_utils.process_allgather(np.ones(3 + RANK))
        raise AssertionError("no process has noticed")
    if kind == "gathers_as":
        multihost_utils.process_allgather(np.ones(4, np.int32 if RANK else np.float32))
        raise AssertionError("no process has noticed")
    if kind == "moves":
        weft.device_put(sharded(3 if RANK else 4), WHOLE)
        raise AssertionError("no process has noticed")
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
