"""What LLVM compiles first: on how many threads, and code by which a first run is shared."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.backends.modules import module
from tests.backends.tasks import INCREMENT
from tools import first_texts
from weft.api.threads import num_threads
from weft.backends.cpu.calls import first, first_runs
from weft.backends.llvm.code import Effort, Module, Verbatim
from weft.backends.llvm.native import compiling, loader, pool
from weft.backends.llvm.native.compiling import Batch, compile_now
from weft.backends.llvm.native.machine import compile_one
from weft.base import knobs

pytestmark = pytest.mark.skipif(not pool.available(), reason="no pool for this machine")


def sharer(made: Module) -> first_runs.Sharer:
    return first_runs.Sharer(loader.load(compile_now(made)))


@pytest.fixture
def no_pool(monkeypatch) -> Iterator[None]:
    """A process whose threads share by what was compiled first, as many as there may be."""
    for name, value in (("_pool", None), ("_alone", 0.0), ("_asked", True), ("_held", [])):
        monkeypatch.setattr(pool, name, value)
    monkeypatch.setattr(first_runs, "sharer", sharer(first.SHARE))
    monkeypatch.setattr(first_runs, "_WORTH_S", 1e-12)
    yield
    assert not pool._held


def shared(work, start: int, stop: int, chunk: int) -> None:
    kernel = pool.Kernel(work)
    first_runs.run(ctypes.cast(kernel, ctypes.c_void_p).value or 0, None, start, stop, chunk)


def test_texts_are_those_of_their_stubs() -> None:
    assert str(first.SHARE) == first_texts.share_text(), "run python tools/first_texts.py"
    for lanes in first.LANES:
        text = first_texts.tile_text(lanes)
        assert first._file(f"tile_{lanes}") == text, "run python tools/first_texts.py"
    assert str(first.TILE) == first_texts.tile_text(first.tile_lanes())


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_the_tile_is_a_product(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    left = rng.normal(size=(7, 7)).astype(np.float32)
    right = rng.normal(size=(7, 2 * lanes)).astype(np.float32)
    out = np.zeros_like(right)
    where = (ctypes.c_void_p * 3)(*[x.ctypes.data for x in (left, right, out)])
    pool.Kernel(compile_one(module(first_texts.tile_text(lanes)), "tile"))(where, 2, 7)
    np.testing.assert_allclose(out[2:], (left @ right)[2:], rtol=1e-4, atol=1e-5)
    assert not out[:2].any()


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 40])
def test_each_iteration_runs_once(threads: int, no_pool) -> None:
    x = np.zeros(10007, np.int32)
    where = (ctypes.c_void_p * 1)(x.ctypes.data)
    with num_threads(threads):
        for _ in range(20):
            first_runs.run(compile_one(INCREMENT, "k"), where, 3, 10001, 101)
    assert (x[3:10001] == 20).all()
    assert not x[:3].any() and not x[10001:].any()


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(("start", "stop"), [(2, 99), (0, 10), (0, 3), (0, 0), (7, 3)])
def test_chunks_are_as_given(threads: int, start: int, stop: int, no_pool) -> None:
    chunks: list[tuple[int, int]] = []
    with num_threads(threads):
        shared(lambda _, low, high: chunks.append((low, high)), start, stop, 10)
    assert sorted(chunks) == [(i, min(i + 10, stop)) for i in range(start, stop, 10)]


def test_threads_work_side_by_side_and_hear_no_signals(no_pool) -> None:
    meet = threading.Barrier(3, timeout=600)
    masks: dict[int, set] = {}
    mine = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def meeting(_: int | None, low: int, high: int) -> None:
        if low:  # the first chunk is the caller's
            masks[threading.get_native_id()] = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            meet.wait()

    with num_threads(3):
        shared(meeting, 0, 4, 1)
    assert len(masks) == 3 and not meet.broken
    assert masks.pop(threading.get_native_id()) == mine
    assert all({signal.SIGINT, signal.SIGTERM} <= mask for mask in masks.values())
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mine


def test_nobody_is_begun_for_a_short_range(no_pool, monkeypatch) -> None:
    monkeypatch.setattr(first_runs, "_WORTH_S", 1e12)
    names = set()
    with num_threads(8):
        shared(lambda *_: names.add(threading.get_native_id()), 0, 100, 1)
    assert names == {threading.get_native_id()}


def test_the_caller_works_where_the_system_gives_no_thread(no_pool, monkeypatch) -> None:
    declared = "declare i32 @pthread_create(ptr, ptr, ptr, ptr)\n"
    refusal = "define internal i32 @pthread_create(ptr, ptr, ptr, ptr) {\n  ret i32 11\n}\n"
    text = str(first.SHARE)
    assert declared in text
    refused = Verbatim(text.replace(declared, refusal), Effort.QUICK)
    monkeypatch.setattr(first_runs, "sharer", sharer(refused))
    lows: list[int] = []
    with num_threads(8):
        shared(lambda _, low, high: lows.append(low), 0, 20, 1)
    assert lows == [*range(20)]


@pytest.mark.parametrize(
    ("cores", "threads", "idle", "expected"),
    [
        (16, 16, True, [1, 3]),
        (4, 4, True, [1, 3]),
        (16, 1, True, [1, 1]),
        (2, 16, True, [1, 1]),
        (16, 16, False, [1, 0]),
        (2, 2, False, [0, 0]),
    ],
)
def test_how_many_compile_ahead(
    cores: int, threads: int, idle: bool, expected: list[int], monkeypatch
) -> None:
    tile, share = first.TILE, first.SHARE
    made: list[Module] = []
    workers: set[int] = set()
    meet = threading.Barrier(max(1, expected[1]), timeout=600)

    def compiled(given: Module) -> bytes:
        made.append(given)
        if given == tile:
            workers.add(threading.get_native_id())
            meet.wait()
            return b""
        return compile_now(given)

    monkeypatch.setattr(first, "compile_now", compiled)
    monkeypatch.setattr(first, "usable_cores", lambda: cores)
    monkeypatch.setattr(first_runs, "sharer", first_runs.share_by_python)
    with num_threads(threads):
        first.begin(lambda: idle)
    assert [made.count(share), made.count(tile)] == expected
    assert len(workers) == expected[1] and isinstance(first_runs.sharer, first_runs.Sharer) == bool(
        expected[0]
    )


def test_whoever_waits_for_many_threads_compiles_nothing(monkeypatch) -> None:
    texts = [module(f"define i64 @f() nounwind {{\n  ret i64 {i}\n}}\n") for i in range(5)]
    compilers: list[int] = []
    compile_parts = compiling.compile_parts

    def compiled(texts: list[Module]) -> list[bytes]:
        compilers.append(threading.get_native_id())
        return compile_parts(texts)

    monkeypatch.setattr(compiling, "compile_parts", compiled)
    for threads, helps in ((8, False), (2, True)):
        compilers.clear()
        with knobs.scope(cache="off", num_threads=threads), Batch() as batch:
            for i, text in enumerate(texts):
                batch.add(bytes([i]) * 32, text)
            assert all(batch.finish().values())
        assert threading.get_native_id() not in compilers or helps


def test_what_no_thread_has_taken_is_the_callers(monkeypatch) -> None:
    monkeypatch.setattr(Batch, "_help", lambda self: None)
    with knobs.scope(cache="off", num_threads=8), Batch() as batch:
        batch.add(b"k" * 32, module("define i64 @f() nounwind {\n  ret i64 1\n}\n"))
        assert batch.finish()[b"k" * 32]


SCRIPTS = {
    "soon over": """
import weft
f = weft.jit(lambda x: x + 1)
from weft.backends.cpu.calls import first
from weft.backends.llvm.native import compiling
assert compiling._begun and first.usable_cores() == 8
""",
    "forks": """
import os
import weft, weft.numpy as jnp
f = weft.jit(lambda x: jnp.tanh(x) @ x)
child = os.fork()
assert f(jnp.ones((64, 64))).shape == (64, 64)
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_processes_fork_and_end_while_threads_compile_ahead(script: str, tmp_path: Path) -> None:
    many = "from weft.base import cores\ncores.usable_cores = lambda: 8\n"
    given = {**os.environ, "WEFT_CACHE": str(tmp_path), "WEFT_BACKEND": "native"}
    given |= {"WEFT_NUM_THREADS": "8", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    command = [sys.executable, "-c", many + script]
    done = subprocess.run(command, timeout=600, capture_output=True, text=True, env=given)
    assert (done.returncode, done.stderr) == (0, "")


LOADED = """
import sys
import weft, weft.numpy as jnp
products = "weft.backends.cpu.routines.products.product", "weft.lax.convolutions"
assert not any(name in sys.modules for name in products)
f = weft.jit(lambda x: x + 1)
assert all(name in sys.modules for name in products)
"""


def test_products_are_loaded_for_functions_of_users(tmp_path: Path) -> None:
    given = {**os.environ, "WEFT_CACHE": str(tmp_path), "WEFT_BACKEND": "native"}
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, timeout=600, capture_output=True, text=True, env=given)
    assert (done.returncode, done.stderr) == (0, "")
