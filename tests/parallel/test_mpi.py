"""Several processes under mpiexec: results as in one process, agreement, and faults."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.parallel.mpi_cases import CASES

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
# Seconds that a job may take on a loaded machine.
LIMIT = 600

pytestmark = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="several processes need mpiexec and mpi4py: pip install '.[mpi]'",
)


def job(count, devices, *command, check=True, **knobs):
    """What a command prints that several processes run."""
    # one thread each: they share the machine's cores
    environment = dict(os.environ, PYTHONPATH=str(ROOT), WEFT_NUM_CPU_DEVICES=str(devices))
    environment.update(WEFT_NUM_THREADS="1", **knobs)
    # Open MPI refuses root, who owns containers
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launch = [MPIEXEC, "-n", str(count)] if count > 1 else []
    if command[0] != "sh":
        launch.append(sys.executable)
    found = subprocess.run(
        [*launch, *map(str, command)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if check:
        assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Results of all cases by one process with four devices, two with two, four with one."""
    folder = tmp_path_factory.mktemp("mpi")
    found = {}
    for count in (1, 2, 4):
        path = folder / f"{count}.npz"
        job(count, 4 // count, HERE / "mpi_cases.py", path, *(["mpi"] if count > 1 else []))
        found[count] = np.load(path)
    return found


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_one_process(name, count, answers):
    expected, found = answers[1], answers[count]
    keys = [k for k in expected.files if k.rpartition("-")[0] == name]
    assert keys
    # sums over processes are made in another order than those of one
    near = 2e-2 if name == "sums" else 1e-5
    for key in keys:
        assert found[key].shape == expected[key].shape
        np.testing.assert_allclose(found[key], expected[key], rtol=near, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("count", [2, 4])
def test_what_holds_in_each_process(count):
    assert job(count, 4 // count, HERE / "mpi_checks.py").count("all is well") == count


def test_processes_with_different_numbers_of_devices():
    assert job(2, 1, HERE / "mpi_uneven.py").count("all is well") == 2


@pytest.mark.parametrize("count", [2, 4])
def test_the_law_of_shardings(count):
    """Some samples of primitives and some random programs; all of them were run once."""
    told = job(count, 4 // count, "-m", "tests.parallel.mpi_law", 60, count)
    assert ", 0 broken" in told, told


def test_arrays_are_read_by_other_numbers_of_processes(tmp_path):
    for writers in (1, 2, 4):
        folder = tmp_path / str(writers)
        by = ["mpi"] if writers > 1 else []
        job(writers, 4 // writers, HERE / "mpi_saved.py", "save", folder, *by)
        readers = {1: 4, 2: 1, 4: 2}[writers]
        by = ["mpi"] if readers > 1 else []
        told = job(readers, 2, HERE / "mpi_saved.py", "load", folder, *by)
        assert told.count("as it was") == readers


@pytest.mark.parametrize(("name", "devices"), [("mesh", 2), ("fully_sharded", 2), ("pipeline", 1)])
def test_examples_train_as_one_device_does(name, devices):
    told = job(2, devices, ROOT / "examples" / "parallel" / f"{name}.py", "mpi")
    assert told.count("parameters within") == 2


def test_the_program_of_the_page(tmp_path):
    page = (ROOT / "docs" / "parallel.md").read_text(encoding="utf-8")
    program = next(b for b in page.split("```python\n")[1:] if "initialize()" in b)
    path = tmp_path / "program.py"
    path.write_text(program.split("```")[0])
    command = "$ mpiexec -n 2 python program.py\n"
    expected = page.split(command)[1].split("```")[0].splitlines()
    told = job(2, 1, path)
    assert len(expected) == 2 and all(line in told for line in expected)


# --- faults ---------------------------------------------------------------------------------------

IN_PSUM = "was in psum over 'i' — mpi_faults.py:"
FAULTS = {
    "raises": ["process 1 raised ValueError: no such file — mpi_faults.py:", IN_PSUM],
    "killed": ["process 1 ended without a word: it was killed, or crashed", IN_PSUM],
    "leaves": ["process 1 has ended, and process", IN_PSUM],
    "sleeps": [
        "process 1, which is at mpi_faults.py:",
        "in load, did not come to psum over 'i' — mpi_faults.py:",
        "within 5 seconds",
    ],
    "other_program": [
        "is about to run a different program from process 0: biggest, and total there",
        "f32[8] = pmax[axes=",
    ],
    "elsewhere": [
        "wait for each other in different places: process 0 in psum over 'i' — mpi_faults.py:",
        "process 1 in the first call of biggest",
    ],
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_named_and_end_the_job(kind, tmp_path):
    began = time.monotonic()
    # a launcher kills all others at once when one is killed: here it sees shells, which wait
    words = [sys.executable, str(HERE / "mpi_faults.py"), kind, str(tmp_path)]
    command = ["sh", "-c", '"$@"; code=$?; sleep 2; exit $code', "sh", *words]
    job(3, 1, *command, check=False, WEFT_DISTRIBUTED_TIMEOUT="5")
    assert time.monotonic() - began < LIMIT / 2
    for rank in (0, 2):
        text = (tmp_path / str(rank)).read_text()
        assert text.startswith("JaxRuntimeError: ")
        for part in FAULTS[kind]:
            assert part in text, text
    assert (
        str(tmp_path)
        not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    )


PLACES = "processes wait for each other in different places: process 0 in "
MET = "processes are in different collectives: process 0 in "
# What all processes are told where one of them calls programs, all of them known, in another order.
ORDERS = {
    "order_shard_map": [
        PLACES + "pmax over 'i' — mpi_faults.py:",
        ": <lambda>(f32[2,3]); process 1 in psum over 'i' — mpi_faults.py:",
        ": <lambda>(f32[2,3]). All of them must call the same collectives in the same order",
    ],
    "order_long": [PLACES + "pmax over 'i'", "<lambda>(f32[2,5000]); process 1 in psum over 'i'"],
    "order_shift": [PLACES + "ppermute over 'i'", "; process 1 in ppermute over 'i'"],
    "order_jit": [PLACES, ": <lambda>(f32[2,3]); process 1 in "],
    "order_pmap": [PLACES + "pmax over 'i'", "; process 1 in psum over 'i'"],
    "order_shapes": [
        PLACES + "psum over 'i'",
        ": total(f32[2,5]); process 1 in psum over 'i'",
        ": total(f32[2,3]). All",
    ],
    "order_sizes": [PLACES, ": total(f32[2,100000]); process 1 in ", ": total(f32[2,3]). All"],
    "order_sizes_many": [MET, ": total(f32[2,100000]); process 1 in ", ": total(f32[2,3]). All"],
    "order_long_many": [MET + "pmax over 'i'", "<lambda>(f32[2,5000]); process 1 in psum over 'i'"],
    "gathers": [
        MET + "process_allgather of float64[3], with 24 bytes; process 1 in process_allgather of"
        " float64[4], with 32 bytes. All processes must run"
    ],
    "gathers_as": [MET + "process_allgather of float32[4], with 16 bytes; process 1 in"],
    "moves": [MET + "a move of f32[2,4] from ", "; process 1 in a move of f32[2,3] from "],
}


@pytest.mark.parametrize("kind", ORDERS)
def test_known_programs_in_another_order_are_named(kind, tmp_path):
    began = time.monotonic()
    job(2, 1, HERE / "mpi_faults.py", kind, tmp_path, check=False, WEFT_DISTRIBUTED_TIMEOUT="5")
    assert time.monotonic() - began < LIMIT / 2
    for rank in (0, 1):
        text = (tmp_path / str(rank)).read_text()
        assert text.startswith("JaxRuntimeError: ")
        for part in ORDERS[kind]:
            assert part in text, text


def test_a_killed_process_ends_the_job(tmp_path):
    job(3, 1, HERE / "mpi_faults.py", "killed", tmp_path, check=False)
    time.sleep(0.5)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in running


# --- without MPI ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [("", "mpiexec -n 2 python program.py"), ("num_processes=4", "mpiexec -n 4 python")],
)
def test_without_a_launcher(arguments, text):
    code = f"import weft; weft.distributed.initialize({arguments})"
    found = job(1, 1, "-c", code, check=False)
    assert "ValueError: weft.distributed.initialize" in found and text in found


def test_after_the_first_computation():
    code = "import weft; weft.devices(); weft.distributed.initialize()"
    assert "must be called before the first computation" in job(1, 1, "-c", code, check=False)
