"""NCCL on a GPU: communicators of one member, their calls in graphs, processes that share it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.backends.cuda.divided_arrays import run_on_host
from tests.backends.cuda.test_messages import SENT, X, sent
from tests.parallel import test_mpi
from weft import P, dtypes, lax
from weft import numpy as jnp
from weft.backends.cuda import driver, nccl
from weft.backends.cuda.memory import Buffer
from weft.backends.cuda.program import Cuda, get, put
from weft.backends.cuda.several import Executable
from weft.core.registry import lookup
from weft.division.programs.devices import programs_of_devices

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [
    pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine"),
    pytest.mark.skipif(not nccl.available(), reason="no NCCL on this machine"),
]


@pytest.fixture(scope="module")
def comm():
    driver.device().use()
    (found,) = nccl.join_all([0])
    return found


def ring(comm, x, y, size, stream):
    with nccl.group():
        comm.send(x, size, 0, stream)
        comm.receive(y, size, 0, stream)


CALLS = {
    "all_gather": lambda c, x, y, n, s: c.all_gather(x, y, n, s),
    "all_to_all": lambda c, x, y, n, s: c.all_to_all(x, y, n, s),
    "broadcast": lambda c, x, y, n, s: c.broadcast(x, y, n, 0, s),
    "ring": ring,
}


def stored(buffer, like):
    found = np.empty_like(like)
    driver.copy_out(found.ctypes.data, buffer.address, found.nbytes)
    return found


@pytest.mark.parametrize("captured", [False, True], ids=["alone", "graph"])
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, captured, comm):
    x, stream = np.arange(1000, dtype=np.float32), driver.device().stream
    source, target = put(x), Buffer(x.nbytes)
    driver.fill(target.address, 0, x.nbytes, stream)
    call = lambda: CALLS[name](comm, source.address, target.address, x.nbytes, stream)
    if captured:
        call()  # what NCCL does first, once, can't be captured
        driver.fill(target.address, 0, x.nbytes, stream)
        driver.begin_capture(stream)
        try:
            call()
        finally:
            graph = driver.Graph(driver.end_capture(stream))
        graph.launch(stream)
        np.testing.assert_array_equal(stored(target, x), x)
        graph.close()
    else:
        call()
    np.testing.assert_array_equal(stored(target, x), x)
    comm.check()


KINDS = [np.float16, dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint8, np.int32]
KINDS += [np.uint32, np.int64, np.uint64, np.complex64, np.complex128, np.bool_]


@pytest.mark.parametrize("operation", nccl.OPERATIONS)
@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: np.dtype(d).name)
def test_reductions(dtype, operation, comm):
    if nccl.words_of(dtype, operation) is None:
        pytest.skip(f"NCCL has no {operation} of {np.dtype(dtype)}")
    x, stream = np.arange(100).astype(dtype), driver.device().stream
    source = put(x)
    for call in (comm.all_reduce, comm.reduce_scatter):
        target = Buffer(x.nbytes)
        call(source.address, target.address, x.size, dtype, operation, stream)
        assert stored(target, x).tobytes() == x.tobytes()


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int16, bool], ids=str)
def test_messages_in_programs_and_graphs(name, dtype):
    rows = X[:1] if name == "process_all_to_all" else X
    x = rows.astype(dtype)
    closed = weft.make_jaxpr(sent(name, **SENT[name]))(x)
    run = Cuda().compile(closed)
    want = lookup(name).ref(x, site=None, **SENT[name])
    given = [put(x)]
    for _ in range(4):
        (found,) = run.run_on_device(given)
        np.testing.assert_array_equal(get(found, closed.out_avals[0]), want)
        del found
    assert run.capturable and any(graph is not None for graph in run.graphs.values())


def training_step(w, x):
    """Gradients summed over devices, a loop with messages of known and one of unknown length."""

    def gather(c):
        return sent("process_all_gather", ranks=(0,), sizes=(1, *c.shape))(c)[0]

    w = lax.fori_loop(0, 3, lambda i, w: w - 0.1 * gather(jnp.tanh(x @ w).T @ x).T, w)
    return lax.while_loop(lambda w: jnp.sum(w * w) > 1, lambda w: gather(w) * 0.5, w)


def test_loops_with_messages():
    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=s).astype(np.float32) for s in ((16, 16), (64, 16)))
    (got,) = Cuda().compile(weft.make_jaxpr(training_step)(w, x))([w, x])
    want = weft.jit(training_step)(w, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_mesh_of_one_gpu():
    mesh = weft.sharding.Mesh(np.array(weft.devices("cpu")[:1]), ("i",))
    f = weft.shard_map(
        lambda x: lax.psum(jnp.sin(x), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    )
    run = Executable(*programs_of_devices(weft.make_jaxpr(f)(X), mesh, [None]), [0])
    for _ in range(3):
        np.testing.assert_allclose(run_on_host(run, [X])[0], np.sin(X), rtol=1e-5)


def test_two_members_on_one_gpu_are_refused():
    with pytest.raises(nccl.NcclError, match="ncclCommInitAll"):
        nccl.join_all([0, 0])


# --- processes that share the GPU -----------------------------------------------------------------

MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
pytest_mpi = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec on this machine")

JOIN = """
import sys
from mpi4py import MPI
from weft.backends.cuda import driver, nccl
driver.device().use()
world = MPI.COMM_WORLD
key = world.bcast(nccl.new_key() if world.rank == 0 else None)
try:
    nccl.join(key, world.rank, world.size, 60)
except nccl.NcclError as error:
    print("refused:", error)
"""


def run_job(count, *command, **knobs):
    environment = dict(os.environ, PYTHONPATH=f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **knobs}
    launch = [MPIEXEC, "-n", str(count)] if count > 1 else []
    found = subprocess.run(
        [*launch, sys.executable, *map(str, command)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


@pytest_mpi
def test_a_refusal_is_a_clear_error():
    told = run_job(2, "-c", JOIN)
    assert told.count("NCCL can't join GPU 0 to 1 others") == 2  # both may write at once
    assert "Each process needs its own GPU" in told


MODES = {
    "arrays": (4, {"WEFT_PLATFORMS": "cuda"}),
}


@pytest_mpi
@pytest.mark.parametrize("mode", MODES)
def test_processes_that_share_the_gpu_send_by_mpi(mode, tmp_path):
    cases = ROOT / "tests" / "parallel" / "mpi_cases.py"
    count, knobs = MODES[mode]
    told = run_job(count, cases, tmp_path / "n.npz", "mpi", **knobs)
    assert told.count("processes 0 and 1 share a GPU, and NCCL needs one for each") >= 2
    run_job(1, cases, tmp_path / "1.npz", WEFT_NUM_CPU_DEVICES="4", WEFT_PLATFORMS="cpu")
    found, alone = np.load(tmp_path / "n.npz"), np.load(tmp_path / "1.npz")
    assert set(found.files) == set(alone.files) and len(found.files) > 100
    for key in alone.files:
        near = 2e-2 if key.startswith("sums-") else 1e-4
        np.testing.assert_allclose(found[key], alone[key], rtol=near, atol=1e-3, err_msg=key)


@pytest_mpi
@pytest.mark.parametrize("kind", ["raises", "sleeps"])
def test_faults_are_named(kind, tmp_path):
    knobs = {"WEFT_PLATFORMS": "cuda", "WEFT_DISTRIBUTED_TIMEOUT": "5"}
    script = ROOT / "tests" / "parallel" / "mpi_faults.py"
    with pytest.raises(AssertionError):
        run_job(2, script, kind, tmp_path, **knobs)
    told = (tmp_path / "0").read_text()
    assert test_mpi.FAULTS[kind][0] in told
