"""LLVM by its library's functions: what it makes, what it refuses, and batches of modules."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weft
from tests.backends.modules import module
from weft.backends.cpu import target
from weft.backends.llvm.code import Effort, Module, Verbatim
from weft.backends.llvm.native import compiling, llvm, loader
from weft.backends.llvm.native.compiling import Batch, compile_now
from weft.base import knobs
from weft.base.disk import digest

pytestmark = pytest.mark.skipif(not loader.supported(), reason="loaded by LLVM here")


def text(number: int, more: str = "") -> Module:
    """A module with a variable on the stack, which gives its argument plus a number."""
    return module(f"""define i64 @f(i64 %x) nounwind {{
{more}  %v = alloca i64
  store i64 %x, ptr %v
  %y = load i64, ptr %v
  %z = add i64 %y, {number}
  ret i64 %z
}}
""")


def called(blob: bytes, x: int) -> int:
    region = loader.load(blob)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(region.symbols["f"])(x)


@pytest.mark.parametrize("effort", Effort)
def test_all_ways_of_compiling_agree(effort: Effort) -> None:
    assert called(compile_now(text(3).with_effort(effort)), 4) == 7


def test_optimised_code_has_no_stack() -> None:
    plain, light = compile_now(text(5)), compile_now(text(5).with_effort(Effort.LIGHT))
    assert len(light) < len(plain)


@pytest.mark.parametrize("bad", ["nonsense", str(text(1)).replace("ret i64 %z", "ret i64 %nobody")])
def test_refused_text_is_an_error_and_no_end(bad: str) -> None:
    for _ in range(3):
        with pytest.raises(RuntimeError, match="LLVM refused"):
            compile_now(Verbatim(bad))
    assert called(compile_now(text(1)), 1) == 2


def test_a_batch_makes_each_once() -> None:
    with knobs.scope(cache="off", num_threads=3), Batch() as batch:
        for i in [*range(12), *range(12)]:
            batch.add(bytes([i]) * 32, text(i))
        objects = batch.finish()
    assert len(batch.new) == 12 and len(batch.helpers) <= 2
    assert [called(objects[bytes([i]) * 32], 100) for i in range(12)] == [*range(100, 112)]


def test_a_text_that_comes_early_is_made_before_anybody_asks() -> None:
    with knobs.scope(cache="off", num_threads=2), Batch() as batch:
        batch.add(digest(b"first"), text(1), early=True)
        for helper in batch.helpers:
            helper.join()
        assert isinstance(batch.made[text(1)], bytes)
        assert called(batch.finish()[digest(b"first")], 1) == 2


def test_a_long_text_is_joined_with_no_other() -> None:
    lines = "".join(f"  %a{i} = add i64 %x, {i}\n" for i in range(40))
    long = text(1, more=lines)
    with Batch() as batch:
        batch.sharers = 2
        batch.queue = [text(2), text(3), long]
        assert batch._taken() == [long]
        batch.queue = [text(2), text(3), text(4)]
        assert batch._taken() == [text(4), text(3)]
        # two that are about as long are for two threads
        other = text(7, more=lines)
        batch.queue = [text(2), other, long]
        assert batch._taken() == [long, text(2)] and batch._taken() == [other]
        # what is made without care takes a fraction of the time
        quick = other.with_effort(Effort.QUICK)
        batch.queue = [quick, text(2), long]
        assert batch._taken() == [long]


def test_a_failure_in_a_thread_is_the_callers() -> None:
    with knobs.scope(cache="off", num_threads=2), Batch() as batch:
        for i in range(6):
            batch.add(bytes([i]) * 32, text(i) if i != 2 else Verbatim("nonsense"))
        with pytest.raises(RuntimeError, match="LLVM refused"):
            batch.finish()


def test_a_batch_that_is_left_makes_no_more() -> None:
    with knobs.scope(cache="off", num_threads=1), Batch() as batch:
        for i in range(4):
            batch.add(bytes([i]) * 32, text(i))
    assert not batch.queue and set(batch.objects.values()) == {None}


def test_what_is_on_disk_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = digest(b"some text")
    with knobs.scope(cache=str(tmp_path)):
        assert not compiling.disk.has_entries()
        compiling.disk.save(key, compile_now(text(2)))
        assert compiling.disk.has_entries()
        monkeypatch.setattr(compiling, "compile_now", lambda text: pytest.fail("compiled"))
        batch = Batch()
        batch.add(key, text(2))
        assert called(batch.finish()[key], 1) == 3 and not batch.new


def test_a_fork_waits_for_compiling_threads() -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with compiling._inside:
            inside.set()
            leave.wait(600)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(600)
    threading.Timer(0.05, leave.set).start()
    pid = os.fork()
    if pid == 0:
        os._exit(
            0 if compiling._inside.count() == 0 and called(compile_now(text(4)), 1) == 5 else 1
        )
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


SCRIPT = """
import weft, weft.numpy as jnp
from weft.backends.llvm.native import compiling
f = weft.jit(lambda x: jnp.sum(jnp.tanh(x)))
print(compiling._begun)
print(float(f(jnp.ones(1000))) > 700)
print("libllvmlite" in open("/proc/self/maps").read())
"""


def test_jit_begins_to_load_llvm_and_a_warm_program_loads_none(tmp_path: Path) -> None:
    environment = {**os.environ, "WEFT_CACHE": str(tmp_path), "WEFT_BACKEND": "native"}
    environment["WEFT_NUM_THREADS"] = "2"

    def run() -> list[str]:
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=600
        ).stdout.split()

    assert run() == ["True", "True", "True"]
    assert run() == ["False", "True", "False"]


def test_equal_layers_are_scheduled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(x, ws):
        for w in ws:
            x = weft.numpy.tanh(x @ w) * 2
        return x

    scheduled = []
    schedule = target.schedule
    monkeypatch.setattr(target, "schedule", lambda *a: scheduled.append(a) or schedule(*a))
    x, w = weft.numpy.ones((32, 64)), weft.numpy.ones((64, 64))
    for count in (2, 6):
        scheduled.clear()
        target.Cpu().assemble(weft.make_jaxpr(layers)(x, [w] * count))
        assert len(scheduled) == 1


def test_llvm_tracks_pressure_as_each_thread_wants() -> None:
    class Library:
        tracking = True

        def track_pressure(self, whether: bool) -> None:
            self.tracking = whether

    library, found = Library(), []

    def work(wanted: bool) -> None:
        for _ in range(100):
            with compiling._tracked(library, wanted):  # type: ignore[arg-type]
                found.append(library.tracking == wanted)

    threads = [threading.Thread(target=work, args=[i % 2 == 0]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 400 and library.tracking


def test_a_library_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setitem(llvm._FUNCTIONS, "module_AddUnheardOfPass", (None,))
    with pytest.raises(ImportError, match=r"no module_AddUnheardOfPass; update it with: pip"):
        llvm.Llvm()
