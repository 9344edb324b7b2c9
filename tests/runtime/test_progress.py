"""The line that a long compile shows, and Ctrl-C while a function is traced, compiled or run."""

import io
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import weft
import weft.numpy as jnp
from weft.backends.llvm.calls import dispatch
from weft.backends.llvm.native import pool
from weft.base import knobs, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    # pytest puts streams of its own into the module sys when a test begins
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "AFTER_S", 0.05)
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    return stream


def screen(text: str) -> str:
    """What a terminal shows at the end of a text of one line."""
    shown = ""
    for part in text.split("\r"):
        shown = part + shown[len(part) :]
    return shown.strip()


def wait_for(stream, text: str) -> None:
    end = time.monotonic() + 20
    while text not in stream.getvalue():
        assert time.monotonic() < end, stream.getvalue()
        time.sleep(0.005)


def slow(stream):
    @weft.jit
    def slow_function(x):
        wait_for(stream, "weft: tracing slow_function, 0 s")
        return jnp.sin(x)

    return slow_function


def test_a_line_says_what_is_traced_and_goes(terminal):
    assert slow(terminal)(0.0) == 0.0
    assert screen(terminal.getvalue()) == ""
    assert progress._line is None


def test_a_line_counts_kernels(terminal):
    with progress.making("compiling", "step"):
        line = progress.expect(7)
        progress.finish(line, 3)
        wait_for(terminal, "weft: compiling step: 3 of 7 kernels, 0 s")
        with progress.making("tracing", "inner"):  # the outer one stays
            progress.finish(line, 2)
            wait_for(terminal, "5 of 7 kernels")
    assert screen(terminal.getvalue()) == ""


def test_kernels_of_a_program_are_counted(terminal, monkeypatch):
    counted = []
    plain = progress._Line.end
    monkeypatch.setattr(
        progress._Line,
        "end",
        lambda line: (counted.append((line.stage, line.expected, line.finished)), plain(line)),
    )
    with knobs.cache("off"):
        weft.jit(lambda x: jnp.sort(jnp.tan(x) * 1.2345) @ x)(jnp.ones(7))
    compiled = [row for row in counted if row[0] == "compiling" and row[1]]
    assert compiled and all(row[1] == row[2] for row in compiled)


def test_time_goes_on_from_tracing_to_compiling(terminal, monkeypatch):
    with progress.making("tracing", "f"):
        first = progress._line
    with progress.making("compiling", "f"):
        assert progress._line.began == first.began
    with progress.making("compiling", "g"):
        assert progress._line.began > first.began


def test_no_line_where_nobody_sees_it(terminal, monkeypatch):
    with knobs.compile_progress(False), progress.making("tracing", "f"):
        assert progress._line is None
    monkeypatch.setattr(progress.sys, "stderr", io.StringIO())
    with progress.making("tracing", "f"):
        assert progress._line is None
    monkeypatch.setattr(progress.sys, "stderr", None)
    with progress.making("tracing", "f"):
        assert progress._line is None


def test_errors_and_interrupts_take_the_line_away(terminal):
    for kind in (ValueError, KeyboardInterrupt):
        with pytest.raises(kind), progress.making("tracing", "f"):
            wait_for(terminal, "weft: tracing f")
            raise kind
        assert progress._line is None and screen(terminal.getvalue()) == ""


def test_quick_functions_leave_no_thread(terminal, monkeypatch):
    monkeypatch.setattr(progress, "AFTER_S", 60.0)
    with progress.making("tracing", "f"):
        thread = progress._line.thread
    thread.join(60)
    assert not thread.is_alive() and terminal.getvalue() == ""


INTERRUPTED = """
import gc, os, random, signal, sys, threading, time
import numpy as np
import weft, weft.numpy as jnp
from weft import lax
from weft.base.background import settle

# a process that is started in the background may ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)

def later(seconds):
    thread = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    thread.daemon = True
    thread.start()

def chain(length, factor):
    def f(x):
        for i in range(length):
            x = jnp.sin(x) * (1 + i * factor) + x.sum() * 1e-3
        return x
    return f

def expected(length, factor, x):
    for i in range(length):
        x = np.sin(x) * np.float32(1 + i * factor) + x.sum() * np.float32(1e-3)
    return x

x = np.linspace(0, 1, 64, dtype=np.float32)
start = random.Random(0)
# moments of tracing, planning, compiling and the first calls
for moment in [0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3]:
    factor = start.random() / 1000
    f = weft.jit(chain(40, factor))
    try:
        later(moment)
        while True:
            f(x)
    except KeyboardInterrupt:
        pass
    for _ in range(3):
        np.testing.assert_allclose(f(x), expected(40, factor, x), rtol=1e-3, atol=1e-4)
    # other shapes, so that code in named sizes is made, and made exact in the background
    for size in (5, 6, 7):
        y = np.ones(size, np.float32)
        np.testing.assert_allclose(f(y), expected(40, factor, y), rtol=1e-3, atol=1e-4)
print("compiled", flush=True)

a = jnp.asarray(np.random.RandomState(0).standard_normal((100, 100)), jnp.float32)
loops = {
    "one kernel": lambda n: lax.fori_loop(0, n, lambda i, x: x * 1.0001 + i, 1.0),
    "products": lambda n: lax.fori_loop(0, n, lambda i, x: x @ a * 0.1, a),
    "sorts": lambda n: lax.fori_loop(0, n, lambda i, x: jnp.sort(-x), jnp.arange(9999.0)),
    "branches": lambda n: lax.fori_loop(
        0, n, lambda i, x: lax.cond(i % 2 == 0, jnp.sin, jnp.cos, x), a),
}
for name, loop in loops.items():
    f = weft.jit(loop)
    right = np.asarray(f(5))
    try:
        later(0.1)
        f(2**31 - 1)
        raise SystemExit(f"{name}: not interrupted")
    except KeyboardInterrupt:
        pass
    np.testing.assert_array_equal(f(5), right)
print("run", flush=True)
settle()  # code for one shape alone, made in the background
assert gc.isenabled() and weft.grad(jnp.sin)(0.0) == 1.0
print("right")
"""


def test_ctrl_c_at_any_moment_leaves_everything_usable(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=600,
        env={**os.environ, "WEFT_CACHE": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.split() == ["compiled", "run", "right"], done.stderr
    assert done.stderr == ""


def test_ctrl_c_while_the_pool_is_made_ready_is_not_lost(monkeypatch):
    native = dispatch.native(wait=True)
    x, f = jnp.ones(1 << 20), weft.jit(lambda x: jnp.sin(x) + 1)
    for _ in range(3):
        right = f(x)
    with weft.num_threads(2):
        f(x)
        for error, outcome in ((KeyboardInterrupt, "raised"), (RuntimeError, "alone")):
            native.forget_pool()
            with monkeypatch.context() as patched:
                patched.setattr(pool, "prepared", lambda helpers, error=error: raise_(error))
                if outcome == "raised":
                    with pytest.raises(KeyboardInterrupt):
                        f(x)
                else:
                    assert (f(x) == right).all()
            assert (f(x) == right).all()


def raise_(error):
    raise error
