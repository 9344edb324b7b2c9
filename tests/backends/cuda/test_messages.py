"""Messages of programs between GPUs, with a driver and an NCCL that are the host."""

import contextlib
import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.backends.cuda import fake_nccl, host_device
from tests.backends.cuda.divided_arrays import run_on_host
from tests.backends.cuda.test_program import Target
from tests.parallel.test_mpi import job, pytestmark  # noqa: F401
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import commands, driver, messages, nccl, program, several
from weft.base.errors import JaxRuntimeError
from weft.core import processes
from weft.core.registry import lookup
from weft.division.programs.devices import programs_of_devices
from weft.prims.processes import Site

ROOT = Path(__file__).resolve().parents[3]
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def fake(monkeypatch):
    host_device.install(monkeypatch, count=4)
    with fake_nccl.installed(monkeypatch) as found:
        monkeypatch.setattr(messages, "_processes", messages.Processes())
        yield found


def sent(name, **params):
    return lambda x: lookup(name).bind(x, site=Site("psum over 'i'"), **params)


SENT = {
    "process_all_gather": {"ranks": (0,), "sizes": (1, 3, 4)},
    "process_all_to_all": {"ranks": (0,), "own": True},
    "process_permute": {"ranks": (0,), "moves": ((0, 0, 0, 2), (0, 1, 0, 0))},
}


def compiled(fun, *args):
    return Target().compile(weft.make_jaxpr(fun)(*args))


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int16, bool], ids=str)
def test_a_process_that_is_alone(name, dtype, fake):
    rows = X[:1] if name == "process_all_to_all" else X
    x = rows.astype(dtype)
    run = compiled(sent(name, **SENT[name]), x)
    assert run.capturable
    run.capturable = False
    want = lookup(name).ref(x, site=None, **SENT[name])
    for _ in range(2):
        np.testing.assert_array_equal(run([x])[0], want)
    gathers = name == "process_all_gather"
    assert [told["size"] for *_, told in fake.calls] == ([x.nbytes] * 2 if gathers else [])


def gather(x):
    return sent("process_all_gather", ranks=(0,), sizes=(1, 3, 4))(x)[0]


LOOPS = {
    "plain": (lambda x: gather(x) + 1, True),
    "scan": (lambda x: lax.fori_loop(0, 3, lambda i, c: gather(c) + i, x), True),
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: gather(c) + 1, x), False),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, gather, jnp.sin, x), False),
}


@pytest.mark.parametrize("name", LOOPS)
def test_which_messages_can_be_part_of_a_graph(name, fake, monkeypatch):
    fun, captured = LOOPS[name]
    monkeypatch.setattr(commands.conditions, "available", lambda: True)
    # operations that the host computes can't either; here there are none
    monkeypatch.setattr(commands.OnHost, "capturable", True)
    run = compiled(fun, X)
    assert run.capturable is captured


# --- several GPUs of one process ------------------------------------------------------------------


def test_the_law_of_shardings():
    """Some samples; all of them were run once."""
    path = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    knobs = {"WEFT_NUM_CPU_DEVICES": "4", "WEFT_PLATFORMS": "cpu"}
    environment = dict(os.environ, PYTHONPATH=path, **knobs)
    command = [sys.executable, "-m", "tests.backends.cuda.several_law", "80", "7"]
    found = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert ", 0 broken" in found.stdout, found.stdout + found.stderr
    assert "'all_gather'" in found.stdout and "'send'" in found.stdout


def mesh_of_one():
    return weft.sharding.Mesh(np.array(weft.devices()[:1]), ("i",))


def test_a_gpu_is_in_a_mesh_once():
    with pytest.raises(ValueError, match=r"GPUs \[0, 1, 0\]: each may appear only once"):
        several.Team([0, 1, 0])


def test_an_error_of_one_gpu_stops_the_others(fake, monkeypatch):
    monkeypatch.setattr(fake_nccl, "PATIENCE", 60)
    team = several.Team([0, 1, 2])
    x, y = np.ones(4, np.float32), np.zeros(12, np.float32)

    def waits(own):
        comm = team.comm((0, 1, 2), own)
        return lambda: comm.all_gather(x.ctypes.data, y.ctypes.data, 16, None)

    def fails():
        raise ValueError("no such file")

    began = time.monotonic()
    with pytest.raises(ValueError, match="no such file"):
        team.run([waits(0), waits(1), fails])
    assert time.monotonic() - began < 30 and not team.comms
    again = [waits(i) for i in range(3)]
    team.run(again)
    assert (y == 1).all()


def test_threads_have_their_own_gpus(fake):
    team = several.Team([3, 1])
    numbers = team.run([lambda: driver.device().number] * 2)
    assert numbers == [3, 1] and driver.device().number == 0


def test_a_mesh_of_one(fake):
    mesh = mesh_of_one()
    f = weft.shard_map(
        lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P()
    )
    programs = programs_of_devices(weft.make_jaxpr(f)(X), mesh, [None])
    run = several.Executable(*programs, [0], _uncaptured())
    np.testing.assert_array_equal(run_on_host(run, [X])[0], X)


def _uncaptured():
    class Own(Target):
        def compile(self, closed, donated=()):
            made = super().compile(closed, donated)
            made.capturable = False
            return made

    return Own()


# --- processes ------------------------------------------------------------------------------------


class Others(processes.Alone):
    """Two processes, of which the other says what a test wants it to."""

    def __init__(self, then=b"", **told):
        self.then = then
        self.told = {"gpu": "another", "nccl": True, "key": "00" * 128, **told}
        self.says, self.answers = [], 0

    def share(self, value, ranks=None):
        self.answers += 1
        return [value, json.dumps(self.told).encode() if self.answers == 1 else self.then]

    def check(self):
        if self.says:
            raise JaxRuntimeError(self.says[0])

    @contextlib.contextmanager
    def waiting(self, site):
        self.site = site
        yield


@pytest.fixture
def others(fake, monkeypatch):
    def install(**told):
        found = Others(**told)
        monkeypatch.setattr(processes, "transport", found)
        return found

    return install


BOTH = sent("process_all_gather", ranks=(0, 1), sizes=(2, 3, 4))


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"gpu": "GPU 0"}, "processes 0 and 1 share a GPU, and NCCL needs one for each"),
        ({"nccl": False}, r"process 1 has no NCCL; pip install '.\[cuda\]'"),
        ({"then": b"it is elsewhere"}, "it is elsewhere"),
    ],
    ids=["shared", "missing", "refused"],
)
def test_the_host_sends_where_nccl_cannot(told, reason, others, fake, monkeypatch):
    made = nccl.Communicator(types.SimpleNamespace(), 0, 2)
    monkeypatch.setattr(nccl, "join", lambda *args: made)
    monkeypatch.setattr(nccl.Communicator, "abort", lambda self: None)
    transport = others(**told)
    with pytest.warns(commands.HostFallbackWarning, match=f"sent by MPI: {reason}"):
        run = compiled(BOTH, X)
    assert not run.capturable
    monkeypatch.setattr(transport, "all_gather", lambda x, ranks: np.stack([x, 2 * x]))
    np.testing.assert_array_equal(run([X])[0], [X, 2 * X])


def test_a_wait_ends_with_the_others(others, fake, monkeypatch):
    transport = others()
    member = messages._processes
    comm = nccl.Communicator(types.SimpleNamespace(value=1), 0, 2)
    monkeypatch.setattr(nccl, "join", lambda *args: comm)
    assert member.comm((0, 1)) is comm
    member.site = "psum over 'i' — train.py:12"
    asked = []

    def is_done(stream):
        asked.append(stream)
        if len(asked) > messages.SPINS + 3:
            transport.says.append("process 1 ended without a word")
        return False

    monkeypatch.setattr(driver, "is_done", is_done)
    with pytest.raises(JaxRuntimeError, match="process 1 ended"):
        driver.finish(None)
    assert transport.site == "psum over 'i' — train.py:12, queued on the GPU"
    transport.says.clear()
    fake.fault = 6
    monkeypatch.setattr(driver, "is_done", lambda stream: False)
    with pytest.raises(JaxRuntimeError, match=r"train.py:12: messages between GPUs failed"):
        driver.finish(None)
    assert comm.aborted
    member.close()
    assert driver._patience is None


def test_a_call_that_was_stopped_says_why(others, fake, monkeypatch):
    transport = others()
    monkeypatch.setattr(nccl, "join", lambda *args: nccl.join_all([0, 1])[0])
    run = compiled(BOTH, X)
    run.capturable = False
    monkeypatch.setattr(fake_nccl, "PATIENCE", 0.1)
    monkeypatch.setattr(driver, "_patience", None)
    with pytest.raises(JaxRuntimeError, match=r"psum over 'i'.*: ncclAllGather: status 6"):
        run([X])
    transport.says.append("process 1 raised ValueError")
    with pytest.raises(JaxRuntimeError, match=r"^process 1 raised ValueError"):
        run([X])


# --- the order of programs ------------------------------------------------------------------------


class Telling(Others):
    """Others that are told which programs begin, and may have begun another one."""

    def __init__(self, **told):
        super().__init__(**told)
        self.begun, self.settled, self.another = [], [], ""

    def announce(self, ranks, number, name):
        self.begun.append((ranks, number, name))
        self.settle(wait=False)

    def settle(self, wait):
        self.settled.append(wait)
        if self.another:
            raise JaxRuntimeError(self.another)


@pytest.mark.parametrize("captured", [False, True])
def test_every_run_is_told_before_its_messages(captured, fake, monkeypatch):
    transport = Telling()
    monkeypatch.setattr(processes, "transport", transport)
    monkeypatch.setattr(driver, "is_done", lambda stream: True)
    monkeypatch.setattr(program.Executable, "_captured", host_device._replayed)
    comm = nccl.Communicator(types.SimpleNamespace(value=1), 0, 2)
    monkeypatch.setattr(nccl, "join", lambda *args: comm)
    gathered = lambda self, x, y, size, stream: None
    monkeypatch.setattr(nccl.Communicator, "all_gather", gathered)
    site = Site("psum over 'i'").of(3, "step(f32[3,4])")
    bind = lookup("process_all_gather").bind
    fun = lambda x: bind(bind(x, ranks=(0, 1), sizes=(2, 3, 4), site=site)[0], ranks=(0, 1),
                         sizes=(2, 3, 4), site=site)  # fmt: skip
    run = compiled(fun, X)
    run.capturable = captured
    buffers = [program.put(X)]
    for i in range(1, 5):
        run.run_on_device(buffers)
        assert transport.begun == [((0, 1), 3, "step(f32[3,4])")] * i  # once a run, not a message
    driver.finish(None)
    assert transport.settled[-1] is True
    transport.another = "processes have begun different programs"
    for stopped in (lambda: driver.finish(None), lambda: run.run_on_device(buffers)):
        comm.aborted = False
        monkeypatch.setattr(fake, "aborted", set())
        with pytest.raises(JaxRuntimeError, match="different programs"):
            stopped()
        assert comm.aborted  # GPUs would wait for others
    messages._processes.close()


def test_a_wait_for_others_looks_at_the_order(fake, monkeypatch):
    transport = Telling()
    monkeypatch.setattr(processes, "transport", transport)
    comm = nccl.Communicator(types.SimpleNamespace(value=1), 0, 2)
    monkeypatch.setattr(nccl, "join", lambda *args: comm)
    assert messages._processes.comm((0, 1)) is comm
    monkeypatch.setattr(driver, "is_done", lambda stream: False)  # others never send
    transport.another = "processes have begun different programs"
    with pytest.raises(JaxRuntimeError, match="different programs"):
        driver.finish(None)
    assert comm.aborted and transport.settled == [False]
    messages._processes.close()


BEGUN = "processes have begun different programs: process 0 program "


@pytest.mark.parametrize("kind", ["order_shard_map", "order_shift", "order_jit"])
def test_gpus_that_run_known_programs_in_another_order(kind, tmp_path):
    """Real processes, whose GPUs are the host, with an NCCL that doesn't notice it."""
    knobs = {"WEFT_DISTRIBUTED_TIMEOUT": "20", messages._SHARED: "1"}
    given = "-m", "tests.backends.cuda.host_orders", kind, tmp_path
    told = job(2, 1, *given, check=False, **knobs)
    # some launchers stop all processes when the first one has ended with an error
    said = [path.read_text() for path in tmp_path.iterdir() if path.name in ("0", "1")]
    assert said, told
    for text in said:
        assert text.startswith(f"JaxRuntimeError: {BEGUN}"), text + told
        assert ": <lambda>(f32[2,3]); process 1 program " in text
        assert "All processes must run the same functions" in text


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Results of all cases on four CPU devices of one process."""
    path = tmp_path_factory.mktemp("alone") / "alone.npz"
    job(1, 4, ROOT / "tests" / "parallel" / "mpi_cases.py", path)
    return np.load(path)


def check_results(path, alone):
    found = np.load(path)
    assert found.files and set(found.files) <= set(alone.files)
    for key in found.files:
        near = 2e-2 if key.startswith("sums-") else 1e-5
        np.testing.assert_allclose(found[key], alone[key], rtol=near, atol=1e-4, err_msg=key)


def test_processes_that_share_a_gpu(tmp_path, alone):
    """Real processes, whose GPU is the host, and which MPI joins."""
    path = tmp_path / "found.npz"
    told = job(4, 1, "-m", "tests.backends.cuda.host_processes", path)
    assert told.count("processes 0 and 1 share a GPU") >= 2
    check_results(path, alone)


def test_arrays_over_gpus_of_one_process(tmp_path, alone):
    path = tmp_path / "found.npz"
    told = job(1, 1, "-m", "tests.backends.cuda.host_gpus", path)
    assert "calls of NCCL" in told
    check_results(path, alone)
