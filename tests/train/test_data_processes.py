"""Data sets in a job of two processes: each reads its part, and a sharding joins the batches."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
no_mpi = MPIEXEC is None or importlib.util.find_spec("mpi4py") is None
needs_mpi = pytest.mark.skipif(
    no_mpi, reason="several processes need mpiexec and mpi4py: pip install '.[mpi]'"
)

PROGRAM = """
import pathlib, sys
import numpy as np, weft
weft.distributed.initialize()
from weft.train import data
mesh = weft.make_mesh((weft.device_count(),), ("data",))
where = weft.sharding.NamedSharding(mesh, weft.P("data"))
made = data.arrays({"x": np.arange(16.0).reshape(16, 1)}).shard().batch(4)
lines = []
for batch in made.iterator(sharding=where):
    total = weft.jit(lambda x: x.sum())(batch["x"])
    lines.append(f"{len(made)} {batch['x'].shape} {float(total)}")
pathlib.Path(sys.argv[1], str(weft.process_index())).write_text("\\n".join(lines))
"""


@needs_mpi
def test_batches_of_two_processes_are_one_array(tmp_path):
    environment = dict(os.environ, WEFT_NUM_CPU_DEVICES="1", WEFT_NUM_THREADS="1")
    # Open MPI refuses root, who owns containers
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, "-c", PROGRAM, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    for rank in "01":
        found = (tmp_path / rank).read_text().splitlines()
        assert found == ["2 (8, 1) 28.0", "2 (8, 1) 92.0"]
