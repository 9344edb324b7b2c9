"""Collectives over several processes against mpi4py on NumPy arrays.

``python -m bench.mpi`` starts jobs of two and four processes by ``mpiexec`` and prints a table. In
every round each side is timed in turn, from one barrier to the end of the slowest process.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# Names of rows, elements of float32 on each process, and calls of one round.
ROWS = (("psum of 64 kB", 1 << 14, 200), ("psum of 16 MB", 1 << 22, 4))
ROUNDS = 15


def measured(world: Any, call: Callable[[], Any], count: int) -> float:
    """Seconds of one call: those of the slowest process."""
    world.Barrier()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    own = (time.perf_counter() - begin) / count
    return max(world.allgather(own))


def work() -> None:
    """One process of a job."""
    import weft
    from weft import P, lax

    weft.distributed.initialize()
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    mesh = weft.sharding.Mesh(np.array(weft.devices()), ("i",))
    total = lambda x: lax.psum(x, "i")
    for name, size, count in ROWS:
        rows = np.random.RandomState(world.rank).standard_normal((1, size)).astype(np.float32)
        x = weft.make_array_from_process_local_data(weft.NamedSharding(mesh, P("i")), rows)
        f = weft.jit(weft.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P()))
        out = np.empty_like(rows)
        ours = lambda f=f, x=x: f(x)
        theirs = lambda rows=rows, out=out: world.Allreduce(rows, out)
        for _ in range(20):
            ours(), theirs()
        assert np.allclose(np.asarray(ours()), out, atol=1e-4)
        times: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            times.append((measured(world, ours, count), measured(world, theirs, count)))
        if world.rank == 0:
            own, other = (statistics.median(t) for t in zip(*times, strict=True))
            ratio = statistics.median(a / b for a, b in times)
            print(
                f"| {name}, {world.size} processes | {own * 1e6:,.0f} µs | {other * 1e6:,.0f} µs"
                f" | {ratio:.2f} |",
                flush=True,
            )


def main() -> None:
    """Start the jobs."""
    path = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
    if path is None:
        sys.exit("mpiexec is missing: pip install '.[mpi]'")
    print("| row | weft | mpi4py | ratio |\n|---|---|---|---|", flush=True)
    counts = [int(a) for a in sys.argv[1:]] or [2, 4]
    for count in counts:
        environment = dict(os.environ, WEFT_NUM_THREADS="1", WEFT_NUM_CPU_DEVICES="1")
        command = [path, "-n", str(count), sys.executable, "-m", "bench.mpi", "work"]
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
