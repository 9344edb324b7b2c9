"""The thread pool: every iteration once, chunks as given, safe under threads, forks and exits."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.backends.tasks import INCREMENT
from weft.api.threads import get_num_threads, num_threads, set_num_threads
from weft.backends.cpu.calls import first_runs
from weft.backends.llvm.native import float_mode, pool, pool_stubs
from weft.backends.llvm.native.machine import compile_one
from weft.backends.llvm.text import stub
from weft.base import cores, shares

Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
pytestmark = pytest.mark.skipif(not pool.available(), reason="no pool for this machine")


def increment(x: np.ndarray, start: int, stop: int, chunk: int) -> None:
    address = compile_one(INCREMENT, "k")
    pool.run(address, (ctypes.c_void_p * 1)(x.ctypes.data), start, stop, chunk)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 40, 60])
def test_each_iteration_runs_once(threads: int) -> None:
    x = np.zeros(10007, np.int32)
    with num_threads(threads):
        for _ in range(200):
            increment(x, 3, 10001, 101)
    assert (x[3:10001] == 200).all()
    assert not x[:3].any() and not x[10001:].any()


@pytest.fixture
def no_pool(monkeypatch) -> None:
    """A process that has no code of the pool yet."""
    monkeypatch.setattr(pool, "_pool", None)
    monkeypatch.setattr(pool, "_alone", 0.0)
    monkeypatch.setattr(pool, "_asked", False)
    monkeypatch.setattr(pool, "_held", [])
    monkeypatch.setattr(first_runs, "sharer", first_runs.share_by_python)


@pytest.mark.parametrize("long", [0.0, 100.0])
@pytest.mark.parametrize(("longer", "alone"), [(100.0, -1.0), (0.0, 100.0), (100.0, 100.0)])
def test_the_caller_works_until_there_is_a_pool(
    long: float, longer: float, alone: float, no_pool, monkeypatch
) -> None:
    monkeypatch.setattr(shares, "HELP_AFTER_S", long)
    monkeypatch.setattr(pool, "CODE_AFTER_RANGE_S", longer)
    monkeypatch.setattr(pool, "CODE_AFTER_TOTAL_S", alone)
    x = np.zeros(10007, np.int32)
    address = compile_one(INCREMENT, "k")
    where = (ctypes.c_void_p * 1)(x.ctypes.data)
    with num_threads(2):
        for i in range(20):
            first_runs.run(address, where, 3, 10001, 101)
            if i == 9:
                for thread in threading.enumerate():
                    if thread.name == "weft-pool":
                        thread.join()
    assert (x[3:10001] == 20).all()
    assert not x[:3].any() and not x[10001:].any()
    assert (pool._pool is None) == (not pool._held) == (longer == alone)


def test_a_long_run_goes_on_with_the_pool(no_pool, monkeypatch) -> None:
    monkeypatch.setattr(shares, "HELP_AFTER_S", 0.0)
    monkeypatch.setattr(pool, "CODE_AFTER_RANGE_S", 0.0)
    lows: list[int] = []

    def work(_: int | None, low: int, high: int) -> None:
        lows.extend(range(low, high))
        if not pool._held:
            time.sleep(0.002)

    kernel = Kernel(work)
    with num_threads(2):
        first_runs.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, 0, 50_000, 1)
    assert sorted(lows) == list(range(50_000)) and pool._pool is not None


def test_threads_help_where_there_is_no_pool(no_pool, monkeypatch) -> None:
    monkeypatch.setattr(shares, "HELP_AFTER_S", 0.0)
    monkeypatch.setattr(shares, "HELPER_S", 1e-9)
    monkeypatch.setattr(pool, "CODE_AFTER_TOTAL_S", 100.0)
    meet = threading.Barrier(2, timeout=600)
    lows: list[int] = []
    # the first chunk is the caller's; two of the others can only be done side by side

    def meeting(_: int | None, low: int, high: int) -> None:
        lows.extend(range(low, high))
        if 0 < low < 3:
            meet.wait()

    kernel = Kernel(meeting)
    with num_threads(2):
        first_runs.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, 0, 5, 1)
    assert sorted(lows) == [0, 1, 2, 3, 4] and not meet.broken
    assert not any(thread.name == "weft-helper" for thread in threading.enumerate())


@pytest.mark.parametrize("each", [1e-7, 1e-4, 1e-3, 1.0])
def test_pieces_of_what_is_left_are_whole_chunks(each: float) -> None:
    rest = shares.Rest(3, 1000, 7)
    pieces = [rest.take()]
    assert pieces == [(3, 10)]
    rest.each = each
    assert rest.share(16) == {1e-7: 1, 1e-4: 8}.get(each, 16)
    while piece := rest.take():
        pieces.append(piece)
    assert [low for low, _ in pieces] == [3, *(high for _, high in pieces[:-1])]
    assert pieces[-1][1] == 1000 and all((low - 3) % 7 == 0 for low, _ in pieces)
    seconds = [each * -(-(high - low) // 7) for low, high in pieces[1:]]
    assert max(seconds) <= max(shares.CALL_S, each) and len(pieces) <= 143
    assert rest.close() is None
    half = shares.Rest(0, 10, 3)
    half.take()
    assert half.close() == 3 and half.take() is None


def test_a_second_chunk_is_looked_at_where_the_first_says_little() -> None:
    rest = shares.Rest(0, 100, 1)
    for seconds, each, sharers in ((5e-4, 0.0, 1), (1e-5, 1e-5, 1)):  # cold, then not
        low, high = rest.take() or (0, 0)
        rest.learn(seconds, low, high)
        assert (high - low, rest.each, rest.share(16)) == (1, each, sharers)
    assert rest.take() == (2, 100)
    for seconds in (1e-6, 0.5):  # soon over, or long in any case
        rest = shares.Rest(0, 100, 1)
        rest.learn(seconds, *(rest.take() or (0, 0)))
        assert rest.each == seconds


def test_an_interrupted_run_leaves_no_thread_at_work(no_pool, monkeypatch) -> None:
    monkeypatch.setattr(shares, "HELP_AFTER_S", 0.0)
    done: list[int] = []
    kernel = Kernel(lambda _, low, high: done.append(low))
    begin = first_runs.help_with

    def interrupted(*args) -> None:
        begin(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(first_runs, "help_with", interrupted)
    with num_threads(2), pytest.raises(KeyboardInterrupt):
        first_runs.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, 0, 10**6, 1)
    assert len(done) < 10**6
    assert not any(thread.name == "weft-helper" for thread in threading.enumerate())


@pytest.mark.parametrize(("start", "stop", "chunk"), [(0, 0, 1), (5, 5, 7), (7, 3, 2), (0, 1, 9)])
def test_short_ranges(start: int, stop: int, chunk: int) -> None:
    x = np.zeros(4, np.int32)
    with num_threads(2):
        increment(x, start, stop, chunk)
    assert x.sum() == max(0, stop - start)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_chunks_do_not_depend_on_the_threads(threads: int) -> None:
    chunks: list[tuple[int, int]] = []
    kernel = Kernel(lambda _, low, high: chunks.append((low, high)))
    with num_threads(threads):
        pool.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, 2, 99, 10)
    assert sorted(chunks) == [(i, min(i + 10, 99)) for i in range(2, 99, 10)]


def test_several_threads_work_on_one_job() -> None:
    meet = threading.Barrier(2, timeout=600)
    kernel = Kernel(lambda *_: meet.wait() and None)
    with num_threads(2):
        pool.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, 0, 2, 1)
    assert not meet.broken


def test_a_run_inside_a_run_works_inline() -> None:
    x = np.zeros(64, np.int32)
    kernel = Kernel(lambda _, low, high: increment(x, low, high, 1))
    with num_threads(2):
        pool.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, 0, 64, 8)
    assert (x == 1).all()


def test_python_threads_at_once() -> None:
    arrays = [np.zeros(5000, np.int32) for _ in range(4)]

    def work(x: np.ndarray) -> None:
        with num_threads(3):
            for _ in range(200):
                increment(x, 0, 5000, 500)

    callers = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((x == 200).all() for x in arrays)


def child(queue) -> None:
    x = np.zeros(1000, np.int32)
    with num_threads(2):
        for _ in range(5):
            increment(x, 0, 1000, 50)
    queue.put(int(x.sum()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_compute_and_exit() -> None:
    context = multiprocessing.get_context("fork")
    x = np.zeros(1000, np.int32)
    queue = context.SimpleQueue()
    with num_threads(2):
        for _ in range(60):
            increment(x, 0, 1000, 50)
            process = context.Process(target=child, args=(queue,))
            process.start()
            assert queue.get() == 5000
            process.join(600)
            assert process.exitcode == 0
    assert (x == 60).all()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_is_inside() -> None:
    stop, x = threading.Event(), np.zeros(5000, np.int32)

    def work() -> None:
        with num_threads(2):
            while not stop.is_set():
                increment(x, 0, 5000, 100)

    caller = threading.Thread(target=work)
    caller.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                y = np.zeros(1000, np.int32)
                increment(y, 0, 1000, 10)
                os._exit(0 if (y == 1).all() else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        caller.join()


SCRIPT = """
import ctypes, os
import numpy as np
before = len(os.listdir("/proc/self/task"))
from weft.backends.llvm.native import pool
from weft.base import knobs
assert len(os.listdir("/proc/self/task")) == before, "import starts threads"
kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(lambda *_: None)
with knobs.num_threads(3):
    pool.run(ctypes.cast(kernel, ctypes.c_void_p).value, None, 0, 10, 1)
assert len(os.listdir("/proc/self/task")) == before + 2
"""


def test_threads_start_late_and_do_not_hold_up_the_exit() -> None:
    given = {**os.environ, "WEFT_CACHE": "off"}  # no thread that writes to disk
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, timeout=600, capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr


def test_a_chunk_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one"):
        pool.run(0, None, 0, 10, 0)


def test_the_number_of_threads() -> None:
    usual = get_num_threads()
    assert usual == cores.usable_cores() >= 1
    set_num_threads(3)
    try:
        assert get_num_threads() == 3
        with num_threads(5):
            assert get_num_threads() == 5
        assert get_num_threads() == 3
    finally:
        set_num_threads(None)
    assert get_num_threads() == usual
    with pytest.raises(ValueError, match="at least 1"):
        set_num_threads(0)
    with pytest.raises(TypeError, match="integer"):
        num_threads("many")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1),
        ("0::/gone\n", {"cpu.max": "300000 100000\n"}, 3),
        (
            "4:cpu,cpuacct:/x\n0::/\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000", "cpu,cpuacct/x/cpu.cfs_period_us": "10000"},
            5,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1024),
        ("2:cpuset:/\n", {"cpuset/cpu.cfs_quota_us": "1"}, 1024),
        ("", {}, 1024),
    ],
)
def test_control_groups(tmp_path: Path, groups: str, files: dict, expected: int) -> None:
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "groups").write_text(groups)
    assert cores.group_limit(str(tmp_path / "groups"), str(tmp_path / "root")) == expected


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_the_stubs_compile_for_each_architecture(architecture: str, monkeypatch) -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(float_mode, "architecture", lambda: architecture)
    text = stub.translate(stub.stubs_of(pool_stubs), pool_stubs.system_names(architecture))
    machine = llvm.Target.from_triple(f"{architecture}-linux-gnu").create_target_machine(
        reloc="pic", codemodel="small"
    )
    with llvm.parse_assembly(str(text)) as module:
        module.verify()
        assert machine.emit_object(module)
    assert "riscv64" not in pool_stubs.SYSTEM


def test_taking_a_chunk_waits_for_no_stores() -> None:
    """A counter that ordered memory would wait for all that a kernel stored in the chunk before."""
    names = stub.known_to(pool_stubs.work, pool_stubs.system_names("aarch64"))
    text = str(stub.translate([pool_stubs.work], names))
    assert "atomicrmw add" in text and "load atomic" in text
    assert "seq_cst" not in text and "acq_rel" not in text
