"""Sharded arrays: saved by one process or two, restored by one or two, in other shardings."""

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


def job(what, folder, processes):
    environment = dict(os.environ, WEFT_NUM_CPU_DEVICES=str(4 // processes), WEFT_NUM_THREADS="1")
    # Open MPI refuses root, who owns containers
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launch = [MPIEXEC, "-n", str(processes)] if processes > 1 else []
    command = [*launch, sys.executable, "-m", "tests.train.sharded_checkpoints", what, str(folder)]
    if processes > 1:
        command.append("mpi")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert done.stdout.count("as it was") == processes, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_process_with_four_devices(tmp_path):
    job("save", tmp_path, 1)
    job("load", tmp_path, 1)


@needs_mpi
def test_two_processes_save_and_one_or_two_load(tmp_path):
    job("save", tmp_path, 2)
    job("load", tmp_path, 1)
    job("load", tmp_path, 2)


@needs_mpi
def test_one_process_saves_and_two_load(tmp_path):
    job("save", tmp_path, 1)
    job("load", tmp_path, 2)
