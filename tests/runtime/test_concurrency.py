"""Threads and forked children that meet in weft's caches."""

import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

import weft
from weft.backends.llvm.native import loader, machine
from weft.core import sharding

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
native = pytest.mark.skipif(not loader.supported(), reason="no machine code on this system")


def run(text, **settings):
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | settings,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


@native
def test_dying_code_is_in_no_cache(monkeypatch):
    """Memory is given back when weak references no longer find its owner."""
    cache, found, real = machine.Loaded(1), [], loader._libc()

    class Libc:
        def __getattr__(self, name):
            return getattr(real, name)

        def munmap(self, address, size):
            found.append(cache.get(b"key"))
            return real.munmap(address, size)

    monkeypatch.setattr(loader, "_libc", Libc)
    size = 4096
    region = loader.Region(loader.reserve(size), size, {})
    cache.put(b"key", region)
    cache.cache_clear()
    assert cache.get(b"key") is region
    cache.cache_clear()
    del region
    assert found == [None]


CLEARING = """
import threading, numpy as np, weft, weft.numpy as jnp
f = weft.jit(lambda x: jnp.sin(x) * 2 + jnp.cos(x))
x = np.ones((300, 400), np.float32)
want = np.asarray(f(x))
def work():
    for _ in range(300):
        assert np.array_equal(f(x), want)
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
while any(t.is_alive() for t in threads): weft.clear_caches()
print("done")
"""


def test_clearing_caches_while_other_threads_call():
    assert run(CLEARING) == "done\n"


def test_clearing_caches_while_another_thread_makes_functions():
    failed, ended = [], threading.Event()

    def work():
        try:
            kept = []
            for i in range(3000):
                kept.append(weft.jit(lambda x, i=i: x + i))
                kept.append(weft.vmap(kept[-1]))
        except BaseException as error:
            failed.append(error)
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    held = [weft.jit(lambda x, i=i: x * i) for i in range(2000)]
    thread = threading.Thread(target=work)
    thread.start()
    try:
        while not ended.is_set():
            weft.clear_caches()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert failed == [] and len(held) == 2000


def test_threads_that_make_the_same_mesh_get_one(monkeypatch):
    """Equal meshes are one object, also where two threads make the first of them."""

    class Slow(dict):
        def __getitem__(self, key):
            try:
                return super().__getitem__(key)
            except KeyError:
                time.sleep(0.1)  # between the look and the store
                raise

    meshes = weakref.WeakValueDictionary()
    meshes.data = Slow()
    monkeypatch.setattr(sharding, "_meshes", meshes)
    got = []
    make = lambda: got.append(weft.sharding.AbstractMesh((2,), ("of_threads",)))
    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3 and got[0] is got[1] is got[2]


# The window in which another thread computes what is kept is made wide.
FORKING = """
import os, signal, threading, time, numpy as np, weft
from weft.compiler import identity
from weft.core import sharding
x = np.ones(3, np.float32)
weft.jit(lambda x: x + 1)(x)
inside = threading.Event()
def slowly(function):
    def call(*args):
        inside.set()
        time.sleep(1)
        return function(*args)
    return call
def key(factor):
    return identity.identify(weft.make_jaxpr(lambda x: x * factor)(x)).key(b"")
def mesh(factor):
    return weft.sharding.Mesh(np.array(weft.devices()[:1]), (f"axis{factor}",)).abstract_mesh
compute, module, name = WHAT
real = getattr(module, name)
setattr(module, name, slowly(real))
thread = threading.Thread(target=compute, args=(2,))
thread.start()
inside.wait(30)
child = os.fork()
if child == 0:
    setattr(module, name, real)
    signal.alarm(20)
    compute(3)
    os._exit(7 if weft.jit(lambda x: x * 3)(x)[0] == 3 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""
WINDOWS = ("key, identity, 'source_stamp'", "mesh, sharding, 'AbstractDevice'")


@fork
@native
@pytest.mark.parametrize("window", WINDOWS)
def test_child_forked_while_another_thread_computes_what_is_kept(window):
    assert run(FORKING.replace("WHAT", window)) == "7\n"


# No thread can be begun, as under ``ulimit -u``.
WITHOUT_THREADS = """
import threading, _thread
def refuse(*args, **kwargs):
    raise RuntimeError("can't start new thread")
for module in (threading, _thread):
    for name in ("start_new_thread", "start_joinable_thread"):
        for given in (name, "_" + name):
            if hasattr(module, given):
                setattr(module, given, refuse)
import numpy as np, weft, weft.numpy as jnp
from weft.base import background
x = np.ones((300, 400), np.float32)
f = weft.jit(lambda x: (jnp.sin(x) @ jnp.cos(x).T).sum())
assert len({float(f(x)) for _ in range(3)}) == 1
assert jnp.sort(jnp.tanh(x)).shape == x.shape
g = weft.jit(weft.grad(lambda x: jnp.exp(x).sum()))
for n in (3, 5, 700):
    np.testing.assert_allclose(g(np.zeros(n, np.float32)), np.ones(n))
found = []
background.in_background(lambda: found.append(1))
background.settle()
print(found)
"""


def test_a_system_without_a_thread_left(tmp_path):
    assert run(WITHOUT_THREADS, WEFT_CACHE_DIR=str(tmp_path)) == "[1]\n"


# The native caller is made by a thread, which meets a fault of Python's once.
FAULTY = """
import logging, numpy as np, weft
from weft.backends.llvm.calls import dispatch
logging.basicConfig(level=logging.WARNING, format="%(message)s")
real, faults = dispatch.Native.__init__, [SystemError("AST constructor recursion depth mismatch")]
def once(self, *args):
    if faults:
        raise faults.pop()
    real(self, *args)
dispatch.Native.__init__ = once
x = np.ones(3, np.float32)
assert weft.jit(lambda x: x + 1)(x)[0] == 2
print(dispatch.native() is not None and dispatch.is_loaded())
"""


@native
def test_the_native_caller_is_made_in_a_second_try():
    assert run(FAULTY) == "True\n"


SHALLOW = """
import threading, numpy as np, weft, weft.numpy as jnp
x = np.random.RandomState(0).standard_normal((300, 400)).astype(np.float32)
found = []
def work():
    with weft.numpy_rank_promotion("raise"):
        found.append(np.asarray(jnp.sort(jnp.sin(x), axis=0)))
        found.append(np.asarray(jnp.sort(jnp.sin(x).reshape(-1))))
        found.append(float(weft.jit(weft.grad(lambda x: jnp.tanh(x @ x.T).sum()))(x).sum()))
threading.stack_size(128 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert len(found) == 3
np.testing.assert_allclose(found[0], np.sort(np.sin(x), axis=0), atol=1e-5)
print("done")
"""


@native
def test_first_use_in_a_thread_with_a_small_stack(tmp_path):
    assert run(SHALLOW, WEFT_CACHE_DIR=str(tmp_path)) == "done\n"


# Buckets of long rows have 256 KiB between them, which the stacks of these threads haven't got.
SORTING = """
import threading, numpy as np, weft, weft.numpy as jnp
x = np.random.RandomState(0).standard_normal((2, 300_000)).astype(np.float32)
sort, order = weft.jit(jnp.sort), weft.jit(jnp.argsort)
want = np.sort(x)
for _ in range(4):
    sort(x), order(x)
found = []
def work():
    for _ in range(4):
        found.append((np.asarray(sort(x)) == want).all())
        found.append((np.take_along_axis(x, np.asarray(order(x)), 1) == want).all())
threading.stack_size(128 * 1024)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), all(found))
"""


@native
def test_sorting_long_rows_in_threads_with_small_stacks(tmp_path):
    assert run(SORTING, WEFT_CACHE_DIR=str(tmp_path)) == "24 True\n"
