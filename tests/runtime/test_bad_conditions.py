"""Compiled functions where things go wrong: no memory, interrupts, damaged caches, NaNs, memory
that others can see, forks, and several threads at once."""

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.base import disk

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no signals, limits and forks here")


@pytest.fixture(params=ways.WAYS)
def way(request, monkeypatch):
    ways.take(request.param, monkeypatch)
    return request.param


@pytest.fixture
def by_native(monkeypatch):
    ways.take("native", monkeypatch)


def python(text, **environment):
    """What a program prints in a process of its own."""
    given = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=600, env=given
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# --- memory ---------------------------------------------------------------------------------------

SHORT_OF_MEMORY = """
import resource, sys
import numpy as np, weft, weft.numpy as jnp
from weft.backends.llvm.calls import dispatch
from weft.backends.cpu.calls import native
dispatch.native()
if {walk}:
    native.native = lambda **how: None
n = 1 << 26
def two(x):
    y = jnp.sort(x) * 2
    return y, jnp.sort(y[::-1]) + x
sort, same = weft.jit(two), weft.jit(lambda x: (x[:10] + 1, x, x[:3] * 2))
for f in (sort, same):
    for _ in range(3):
        f(np.ones(100, np.float32))
x = np.ones(n, np.float32)
with weft.num_threads(1):
    sort(x[:1000]), same(x[:1000])
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# room to compile code for large arrays, also beside another thread, and for none of the results
resource.setrlimit(resource.RLIMIT_AS, (pages + (250 << 20), -1))
for f in (sort, same):
    for _ in range(3):
        try:
            f(x)
            print("no error")
        except MemoryError as error:
            print("MemoryError", str(error).replace("\\n", " | "))
        got = f(np.arange(100, dtype=np.float32))
        assert float(got[1][-1]) in (297.0, 99.0), got
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
got = sort(x[: 1 << 20])
assert float(got[1][0]) == 3.0
print("went on")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
@pytest.mark.parametrize("walk", [False, True], ids=["native", "walk"])
def test_out_of_memory_is_an_error_that_names_the_largest(walk):
    lines = python(SHORT_OF_MEMORY.format(walk=walk)).splitlines()
    assert lines[-1] == "went on" and len(lines) == 7
    for line in lines[:3]:
        assert line.startswith("MemoryError") and "<string>:" in line, line
        assert line.count(", 268,435,") == 3, line  # results, values in between, what sort works in
    assert all(line.startswith("MemoryError") for line in lines[3:6]), lines


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_small_operations_go_on_where_there_is_no_memory_to_compile_them():
    text = """
import resource
import numpy as np, weft, weft.numpy as jnp
x = jnp.asarray(np.arange(100, dtype=np.float32))
weft.jit(lambda x: x + 1)(x)
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (40 << 20), -1))
for n in range(20):
    assert float(x[-1]) == 99 and float((x + n)[3]) == 3 + n and jnp.flip(x)[0] == 99
print("went on")
"""
    assert python(text, WEFT_CACHE="off", WEFT_EAGER_COMPILE_SHARE="1").split() == ["went", "on"]


def test_memory_that_no_machine_has(by_native):
    for n in (1 << 44, 1 << 47, 1 << 61, 1 << 62):
        function = weft.jit(lambda x, n=n: jnp.broadcast_to(x, (n,)))
        with pytest.raises(MemoryError, match="bytes"):
            function(1.0)
    assert float(weft.jit(lambda x: x + 1)(1.0)) == 2.0


def test_memory_that_is_kept_is_given_back_when_it_is_needed():
    text = """
import resource
import numpy as np, weft, weft.numpy as jnp
from weft.backends.llvm.calls import dispatch
dispatch.native()
f = weft.jit(lambda x: x + 1)
x = np.ones(1 << 22, np.float32)
y = np.ones(6 << 22, np.float32)
for _ in range(3):
    f(x), f(y)
dispatch.native().cache_clear()
kept = [f(x) for _ in range(8)]
del kept
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (32 << 20), -1))
print(np.asarray(f(y))[-1])
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("limits memory as Linux does")
    assert python(text).split() == ["2.0"]


# --- interrupts -----------------------------------------------------------------------------------


class Late(Exception):
    """What the handler of a signal raises."""


@pytest.fixture
def alarm():
    """Raise Late in a moment; gives the processor time of this thread when it arrived."""

    def ring(*_):
        rung.append(time.thread_time())
        raise Late

    rung = []
    old = signal.signal(signal.SIGALRM, ring)
    yield rung
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


def small_loop(n):
    return lax.fori_loop(0, n, lambda i, c: c * 0.999 + 0.1, 1.0)


def small_while(n):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, 1.0))


def large_loop(n):
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c @ c), jnp.ones((60, 60)))[0, 0]


def nested_loop(n):
    def inner(i, c):
        return lax.fori_loop(0, n, lambda j, d: d * 0.5 + 1.0, c)

    return lax.fori_loop(0, 100, inner, 1.0)


def inner_while(n):
    def inner(i, c):
        return lax.while_loop(lambda d: d[0] < n, lambda d: (d[0] + 1, d[1] * 0.5), (0, c))[1]

    return lax.fori_loop(0, 100, inner, 1.0)


def small_scan(n):
    return lax.scan(lambda c, _: (c * 0.9 + 1, None), 1.0, length=1 << 40)[0]


def large_scan(n):
    step = lambda c, _: (jnp.tanh(c @ c), None)
    return lax.scan(step, jnp.ones((50, 50)), length=1 << 40)[0].sum()


def many_loop(n):
    return weft.vmap(lambda x: lax.while_loop(lambda c: c < n, lambda c: c + x, 0.0))(
        jnp.arange(1.0, 5.0)
    )


def branches(n):
    def body(i, c):
        return lax.cond(c > 10, lambda c: c * 0.5, lambda c: c + 1, c)

    return lax.fori_loop(0, n, body, 1.0)


def wide_loop(n):
    table = jnp.ones(1 << 16)
    return lax.fori_loop(0, n, lambda i, c: c + jnp.sum(table * c) * 1e-30, 1.0)


LOOPS = [small_loop, small_while, large_loop, nested_loop, inner_while, small_scan, large_scan]
LOOPS += [many_loop, branches, wide_loop]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_interrupts_end_loops(way, loop, alarm):
    function = weft.jit(loop)
    lowered = function.lower(2**31 - 1).compile()
    with pytest.raises(Late):
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        lowered(2**31 - 1)
    assert time.thread_time() - alarm[0] < 1.0
    if "scan" not in loop.__name__:
        short = weft.jit(lambda n: loop(n))
        for _ in range(3):
            np.testing.assert_allclose(short(3), ways.interpreted(loop, 3), rtol=1e-5)


def test_ctrl_c_returns_to_the_prompt():
    text = """
import os, signal, threading, time
import weft
from weft.backends.llvm.calls import dispatch
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
dispatch.native()
f = weft.jit(lambda n: weft.lax.fori_loop(0, n, lambda i, c: c * 0.999 + 0.1, 1.0))
f(3), f(3)
sent = []
def send():
    time.sleep(0.3)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=send).start()
    f(2**31 - 1)
except KeyboardInterrupt:
    print(time.process_time() - sent[0] < 1.0, float(f(0)))
"""
    assert python(text).split() == ["True", "1.0"]


def test_a_signal_that_raises_nothing_does_not_end_a_loop(way):
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    function = weft.jit(small_loop)
    want = float(function(3_000_000))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        for _ in range(10):
            assert float(function(3_000_000)) == want
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen


def test_other_threads_run_while_a_loop_does(by_native):
    function = weft.jit(small_loop)
    function(10), function(10)
    ticks = []
    over = threading.Event()

    def tick():
        while not over.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    inside = 0
    for _ in range(20):  # a busy machine may not run the other thread in every call
        begin = time.perf_counter()
        function(50_000_000)
        end = time.perf_counter()
        inside += sum(begin < t < end for t in ticks)
        if inside >= 5:
            break
    over.set()
    thread.join()
    assert inside >= 5


# --- the disk cache -------------------------------------------------------------------------------

USE_CACHE = """
import weft, weft.numpy as jnp
from weft.backends.llvm.native import pool
from weft.backends.llvm.calls import dispatch
dispatch.native()
pool.load(True)  # a small program may or may not find it made
f = weft.jit(lambda x: jnp.tanh(x) * 3 + jnp.sum(x * x))
for _ in range(3):
    y = f(jnp.arange(5.0))
print(y.tolist(), weft.lax.fori_loop(0, 1000, lambda i, c: c * 0.5 + 1, 0.0))
print(dispatch.native() is not None)
"""


def test_damaged_caches_are_rebuilt(tmp_path: Path):
    cache = {"WEFT_CACHE": str(tmp_path), "WEFT_CACHE_PROGRAMS": "on"}
    want = python(USE_CACHE, **cache)
    room = tmp_path / disk.FOLDER
    whole = {p.name: p.read_bytes() for p in room.iterdir()}
    assert len(whole) >= 3
    names, damaged = sorted(whole), {}
    for i, name in enumerate(names):
        data = whole[name]
        damaged[name] = [
            data[: len(data) // 2],
            data[:200] + bytes([data[200] ^ 255]) + data[201:],
            whole[names[i - 1]],  # sound, but of another text
            b"",
        ][i % 4]
        (room / name).write_bytes(damaged[name])
    assert python(USE_CACHE, **cache) == want
    # what can differ is when objects were made, and which of them together
    mended = {p.name: p.read_bytes() for p in room.iterdir()}
    assert set(mended) == set(whole)
    assert not [name for name in names if mended[name] == damaged[name]]
    assert python(USE_CACHE, **cache) == want
    assert {p.name: p.read_bytes() for p in room.iterdir()} == mended


def test_processes_that_fill_a_cache_together(tmp_path: Path):
    given = {**os.environ, "WEFT_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", USE_CACHE]
    work = [
        subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    printed = {process.communicate(timeout=600)[0] for process in work}
    assert len(printed) == 1 and "True" in printed.pop()
    assert not [p for p in (tmp_path / disk.FOLDER).iterdir() if p.name.startswith(".")]


# --- checks of values -----------------------------------------------------------------------------


def test_debug_nans_names_primitive_and_line(way):
    def fun(x):
        y = x * 2
        return jnp.log(y) + 1  # the line

    line = fun.__code__.co_firstlineno + 2
    function = weft.jit(fun)
    good, bad = jnp.ones(3), -jnp.ones(3)
    for _ in range(3):
        assert np.isnan(function(bad)).all()
    for _ in range(3):
        with weft.debug_nans(True):
            function(good)
            with pytest.raises(FloatingPointError) as caught:
                function(bad)
        text = str(caught.value)
        assert "log" in text and f"{Path(__file__).name}:{line}" in text
        assert np.isnan(function(bad)).all()


def test_debug_infs_and_operators(way):
    x = jnp.arange(3.0)
    for _ in range(4):
        x / 0.0
    with weft.debug_infs(True), pytest.raises(FloatingPointError, match="div"):
        x / 0.0
    with weft.debug_nans(True), pytest.raises(FloatingPointError, match="div"):
        x / 0.0
    assert np.isinf(x / 0.0).sum() == 2


# --- memory that others can see -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*donated.*")
@pytest.mark.parametrize("size", [3, 5000])
def test_donated_memory_that_others_see_is_not_written(way, size):
    bump = weft.jit(lambda x: x + 1, donate_argnums=0)
    same = weft.jit(lambda x: x)
    twice = weft.jit(lambda x: (x * 3, x * 3))
    constant = weft.jit(lambda: jnp.arange(float(size)))
    values = np.arange(size, dtype=np.float32)
    for _ in range(4):
        x = jnp.asarray(values)
        view, raw = np.asarray(x), memoryview(x)
        bump(x)
        assert np.array_equal(view, values) and np.array_equal(np.asarray(raw), values)

        x = jnp.asarray(values)
        other = same(x)
        assert np.array_equal(bump(x), values + 1)
        assert np.array_equal(other, values)

        one, two = twice(jnp.asarray(values))
        bump(one)
        assert np.array_equal(two, values * 3)

        assert np.array_equal(bump(constant()), values + 1)
        assert np.array_equal(constant(), values)

        mine = values.copy()
        assert np.array_equal(bump(mine), values + 1)
        assert np.array_equal(mine, values)

        x = jnp.asarray(values)
        pieces = x[:2], np.from_dlpack(x)
        bump(x)
        assert np.array_equal(pieces[0], values[:2]) and np.array_equal(pieces[1], values)


@pytest.mark.filterwarnings("ignore:.*donated.*")
def test_one_array_donated_twice(way):
    add = weft.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))
    for _ in range(3):
        x, y = jnp.ones(100), jnp.ones(100)
        with pytest.raises(weft.errors.JaxRuntimeError, match="donated"):
            add(x, x)
        assert not x.is_deleted() and np.array_equal(x, np.ones(100))
        one, two = add(x, y)
        assert np.array_equal(one, np.full(100, 2.0)) and np.array_equal(two, np.full(100, 3.0))
        assert x.is_deleted() and y.is_deleted()


@pytest.mark.filterwarnings("ignore:.*donated.*")
def test_arrays_that_share_memory_donated_together(way):
    same = weft.jit(lambda x: x)
    add = weft.jit(lambda x, y: (x + 1, y * 5), donate_argnums=(0, 1))
    for _ in range(4):
        x = jnp.arange(1000.0)
        y = same(x)
        one, two = add(x, y)
        assert np.array_equal(one, np.arange(1000.0) + 1)
        assert np.array_equal(two, np.arange(1000.0) * 5)


def test_numpy_memory_that_changes_later(way):
    function = weft.jit(lambda x: (x, {"y": x}))
    for _ in range(4):
        value = np.arange(6, dtype=np.float32)
        array = jnp.asarray(value)
        found = function(value)
        value[:] = -1
        assert np.array_equal(array, np.arange(6))
        assert np.array_equal(found[0], np.arange(6)) and np.array_equal(
            found[1]["y"], np.arange(6)
        )
        again = function(array)
        assert np.array_equal(again[0], np.arange(6))


def test_results_cannot_be_written(way):
    for x in weft.jit(lambda x: (x, x + 1))(np.ones(4, np.float32)):
        with pytest.raises(ValueError):
            np.asarray(x)[0] = 1
        assert memoryview(np.asarray(x)).readonly


# --- forks and threads ----------------------------------------------------------------------------


def large(x):
    return jnp.sum(jnp.sin(x) * 2), x.reshape(1000, -1).T + 1


def child(expected, number):
    assert float(KNOWN(GIVEN)[0]) == expected
    if number % 20 == 0:  # compile something there
        assert float(weft.jit(lambda x: x * number + 1)(1.0)) == number + 1
        assert float(weft.jit(large)(GIVEN)[0]) == expected
    os._exit(7)


GIVEN = jnp.arange(300_000.0) * 1e-5
KNOWN = weft.jit(large)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks_after_use(by_native):
    expected = float(KNOWN(GIVEN)[0])
    for _ in range(3):
        assert float(KNOWN(GIVEN)[0]) == expected
    context = multiprocessing.get_context("fork")
    for first in range(0, 200, 4):
        work = [context.Process(target=child, args=(expected, first + i)) for i in range(4)]
        for process in work:
            process.start()
        for process in work:
            process.join(600)
        assert [process.exitcode for process in work] == [7] * 4
    assert float(KNOWN(GIVEN)[0]) == expected


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks_while_threads_compute(by_native):
    expected = float(KNOWN(GIVEN)[0])
    over = threading.Event()
    wrong = []

    def work():
        while not over.is_set():
            if float(KNOWN(GIVEN)[0]) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("fork")
    try:
        for i in range(12):
            process = context.Process(target=child, args=(expected, i))
            process.start()
            process.join(600)
            assert process.exitcode == 7
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong


def together(count, work):
    """Run something in threads that begin at once; what they raised."""
    barrier = threading.Barrier(count)
    errors = []

    def run(i):
        try:
            barrier.wait()
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(old)
    assert errors == []


def test_threads_that_race_to_the_first_call(way):
    for _ in range(10):
        function = weft.jit(lambda x, y: (jnp.sin(x) + y, x))
        want = np.asarray(jnp.sin(jnp.ones(100)) + 2)

        def work(i, function=function, want=want):
            for _ in range(10):
                got = function(jnp.ones(100), 2.0)
                assert np.array_equal(got[0], want) and np.array_equal(got[1], np.ones(100))

        together(6, work)


def test_threads_with_the_same_and_other_functions(way):
    shared = weft.jit(lambda x: (x * 2 + 1, jnp.sum(x)))
    sizes = [3, 1000, 70_000]

    def work(i):
        own = weft.jit(lambda x: x * i - 1)
        for k in range(60 if way == "native" else 15):
            n = sizes[(i + k) % 3]
            x = jnp.full(n, float(i))
            twice, total = shared(x)
            assert np.array_equal(twice, np.full(n, 2.0 * i + 1)) and float(total) == n * i
            assert np.array_equal(own(x), np.full(n, float(i * i - 1)))
            with weft.num_threads(1 + k % 3):
                assert float(shared(x)[1]) == n * i

    together(5, work)


def test_threads_while_caches_are_cleared(by_native):
    function = weft.jit(lambda x, y: (x + y, {"x": x}))
    over = threading.Event()

    def work(i):
        if i == 0:
            for _ in range(60):
                function.clear_cache()
                gc.collect(0)
                time.sleep(0.0005)
            over.set()
            return
        n = i
        while not over.is_set():
            got = function(jnp.full(50, float(i)), np.full(50, n, np.float32))
            assert np.array_equal(got[0], np.full(50, 2.0 * i))

    together(4, work)


def test_lists_that_other_threads_empty(by_native):
    function = weft.jit(lambda xs: lax.fori_loop(0, 2000, lambda i, c: c + xs[0], xs[0] * 0))
    x = np.arange(70_000, dtype=np.float32) % 7
    function([x]), function([x])
    assert ways.hits(function) > 0
    want = x * 2000
    for make in (np.array, jnp.array):
        for _ in range(3):
            given, found = [make(x)], []

            def work(given=given, found=found):
                with contextlib.suppress(TypeError):  # it came too late: nothing is there
                    found.append(function(given))

            thread = threading.Thread(target=work)
            thread.start()
            time.sleep(0.005)
            given[0] = None
            # whoever made the memory gets it back first
            made = [np.full(70_000, np.nan, np.float32) for _ in range(9)]
            made += [jnp.asarray(m) + 1 for m in made]
            thread.join()
            assert all(np.array_equal(y, want) for y in found)


def test_first_calls_of_new_threads(by_native):
    function = weft.jit(lambda x: x + 1)
    for _ in range(3):
        function(jnp.ones(3))

    def work(i):
        for n in range(20):
            function(jnp.ones(n + 20 * i))

    for _ in range(3):
        together(6, work)


def test_leaving_while_threads_compute():
    text = """
import threading, time, weft, weft.numpy as jnp
from weft.backends.llvm.calls import dispatch
dispatch.native()
small = weft.jit(lambda n: weft.lax.fori_loop(0, n, lambda i, c: c * 0.999 + 0.1, 1.0))
step, start = lambda i, c: jnp.sin(c @ c), jnp.ones((60, 60))
large = weft.jit(lambda n: weft.lax.fori_loop(0, n, step, start))
for function in (small, large):
    function(3), function(3)
    threading.Thread(target=function, args=(2**31 - 1,), daemon=True).start()
time.sleep(0.2)
print("leaving")
"""
    assert python(text) == "leaving\n"


def test_forks_inside_callbacks():
    text = """
import os, numpy as np, weft, weft.numpy as jnp
from weft.backends.llvm.calls import dispatch
dispatch.native()
shape = weft.ShapeDtypeStruct((300_000,), np.float32)
def back(x):
    global child
    child = os.fork()
    return np.asarray(x)
function = weft.jit(lambda x: jnp.sum(jnp.sin(weft.pure_callback(back, shape, x * 2))))
want = None
for _ in range(3):
    found = float(function(jnp.ones(300_000)))
    if child == 0:
        os._exit(7 if want in (None, found) else 1)
    want = found
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert python(text, PYTHONWARNINGS="ignore").split() == ["7"] * 3


RACE = """
import os, sys, threading
sys.setswitchinterval(1e-5)
import weft, weft.numpy as jnp
if {fork}:  # Python itself cannot fork while threads import
    from weft.backends.llvm.calls import dispatch
    weft.jit(lambda x: x * 3)(1.0)
    dispatch.native()
barrier, wrong = threading.Barrier(6), []
shared = weft.jit(lambda x: x * 2 + 1)
def work(i):
    barrier.wait()
    own = weft.jit(lambda x: jnp.sin(x) * 0 + i)
    weft.jit(lambda x: jnp.cos(x) * jnp.tanh(x + i))(2.0)
    for k in range(200):
        if float(shared(float(k))) != 2.0 * k + 1 or float(own(1.0)) != i:
            wrong.append((i, k))
        if float((jnp.ones(3) + k)[1]) != k + 1:
            wrong.append((i, k, "operator"))
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for thread in threads:
    thread.start()
if {fork}:
    for _ in range(8):
        child = os.fork()
        if child == 0:
            os._exit(7 if float(weft.jit(lambda x: x + 1)(1.0)) == 2.0 else 1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
            wrong.append("child")
for thread in threads:
    thread.join()
print(wrong)
"""


@pytest.mark.parametrize("fork", [False, True], ids=["threads", "forks"])
@pytest.mark.parametrize("cache", ["off", "on"])
def test_threads_and_forks_while_everything_is_loaded(fork, cache):
    text = RACE.format(fork=fork)
    assert python(text, WEFT_CACHE=cache, PYTHONWARNINGS="ignore") == "[]\n"


@pytest.mark.parametrize("size", (1, 2000, 200_000))
def test_ctrl_c_ends_any_loop_soon(size):
    text = f"""
import os, signal, threading, time
import numpy as np, weft, weft.numpy as jnp
signal.signal(signal.SIGINT, signal.default_int_handler)
loop = lambda n: weft.jit(lambda x: weft.lax.fori_loop(0, n, lambda i, c: jnp.sin(c), x))
x = np.ones({size}, np.float32)
loop(3)(x)
endless, sent = loop(10**9), []
def send():
    time.sleep(1.0)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=send).start()
    endless(x)
except KeyboardInterrupt:
    print(time.process_time() - sent[0] < 0.5 * (os.cpu_count() or 1))
"""
    assert python(text).split() == ["True"]


SMALL_STACK = """
import sys, threading
import numpy as np, weft, weft.numpy as jnp
def work():
    x = np.arange(100, dtype=np.float32).reshape(10, 10)
    f = weft.jit(weft.grad(lambda x: jnp.sum(jnp.sin(x @ x) * weft.nn.softmax(x))))
    print(f(x).shape)
if sys.argv[1:]:
    threading.stack_size(128 << 10)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
"""


@pytest.mark.parametrize("where", ("thread", "process"))
def test_compiling_on_a_small_stack(where, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(SMALL_STACK)
    shell = f'{"ulimit -s 256;" * (where == "process")} exec "$@"'
    command = ["sh", "-c", shell, "sh", sys.executable, str(file), *["-"] * (where == "thread")]
    env = os.environ | {"WEFT_CACHE": "off", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.stdout == "(10, 10)\n", (done.returncode, done.stderr[-2000:])


LITTLE_ADDRESS_SPACE = """
import resource
import numpy as np, weft, weft.numpy as jnp
if {warm}:
    weft.jit(lambda x: x + 1)(np.ones(3, np.float32))
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + ({room} << 20), -1))
try:
    weft.jit(lambda x: jnp.linalg.inv(jnp.sin(x) + jnp.eye(9)))(np.ones((9, 9), np.float32))
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("warm, room", ((False, 60), (False, 200), (True, 40), (True, 300)))
def test_too_little_address_space_is_an_error_and_no_abort(warm, room):
    said = python(LITTLE_ADDRESS_SPACE.format(warm=warm, room=room), WEFT_CACHE="off")
    assert "address space" in said and "RLIMIT_AS" in said, said
