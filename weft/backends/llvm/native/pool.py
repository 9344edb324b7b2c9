"""The thread pool: a range of a kernel's grid run in chunks by several threads.

Chunks are the caller's choice and do not depend on the number of threads, so neither do results.
Threads start at the first run that wants them. A busy pool means that the caller does the work
alone: nobody waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Any

from weft.backends.llvm.native import loader
from weft.backends.llvm.native.float_mode import Flushing
from weft.backends.llvm.native.machine import load_stubs
from weft.backends.llvm.native.pool_stubs import POOL_BYTES, SPIN, SYSTEM, system_names
from weft.backends.llvm.native.processor import architecture
from weft.base.cores import threads, usable_cores
from weft.base.forks import across_forks
from weft.base.functional import lru

# How long a thread that has nothing to do looks for work before it sleeps.
SPIN_S = 30e-6
# Where there is no code of the pool yet: seconds of work after which a thread makes it, on one
# range and in all, where a range counts for so many at most.
CODE_AFTER_RANGE_S, CODE_AFTER_TOTAL_S, LONG_RANGE_S = 0.05, 0.008, 0.001


class Pool:
    """Native workers of this process and the memory they share."""

    def __init__(self) -> None:
        self.symbols = _code().symbols
        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        kind = ctypes.CFUNCTYPE(None, pointer, whole, pointer, pointer, whole, whole, whole)
        self.call = kind(self.symbols["weft_run"])
        # Never given back: workers look at it until the process ends.
        self.state = loader.reserve(POOL_BYTES)
        self.workers = 0
        self.helpers = 0
        self.lock = threading.Lock()
        self.spins = self._spins()

    def _spins(self) -> int:
        """How many rests make up the patience of a waiting thread, by measuring one."""
        relax = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self.symbols["weft_relax"])
        relax(1)
        begin = time.perf_counter()
        relax(200)
        one = (time.perf_counter() - begin) / 200
        return max(50, min(int(SPIN_S / max(one, 1e-9)), 20000))

    def expect(self, helpers: int) -> None:
        """Be ready for runs with so many helpers: start threads that are missing."""
        import signal

        with self.lock:
            self.helpers = helpers
            # More threads than cores: one that spins keeps another from working.
            crowded = helpers >= usable_cores()
            spins = 1 if crowded else self.spins
            ctypes.c_int64.from_address(self.state + 8 * SPIN).value = spins
            if self.workers >= helpers:
                return
            # Signals are for Python's threads; a worker that got one would only delay it.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                while self.workers < helpers:
                    self.workers += 1
                    if not self._start():
                        # Fewer do the work then; do not ask again at each run.
                        self.workers = helpers
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _start(self) -> bool:
        create = ctypes.CDLL(None).pthread_create
        create.argtypes = [ctypes.c_void_p] * 4
        name = ctypes.c_void_p()
        return not create(ctypes.byref(name), None, self.symbols["weft_worker"], self.state)


def _code() -> Any:
    with _making:
        if not _held:
            # what it does is wait for memory and for other threads: no care makes that faster
            _held.append(load_stubs(_SOURCES, system_names(architecture()), brief=True))
        return _held[0]


_SOURCES = (
    "weft.backends.llvm.native.float_mode",
    "weft.kernel.kinds",
    "weft.backends.llvm.text.stub_expressions",
    "weft.backends.llvm.text.stub",
    "weft.backends.llvm.native.capi",
    "weft.backends.llvm.native.pool_stubs",
)


# Workers stand in this code as long as the process lives, whatever caches are cleared.
_held: list[Any] = []
_making = across_forks(threading.Lock())
_pool: Pool | None = None
_lock = threading.Lock()
Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@lru(1)
def available() -> bool:
    """Whether there is a pool for this machine; elsewhere all work is done by the caller."""
    return loader.supported() and architecture() in SYSTEM


def prepared(helpers: int) -> tuple[int, int]:
    """The addresses of the native ``run`` and of the state of this process's pool.

    ``void run(ptr state, i64 helpers, ptr kernel, ptr buffers, i64 start, i64 stop, i64 chunk)``,
    where ``helpers`` is one less than the threads to use. The state is another one in a forked
    child.
    """
    pool = _prepared(helpers)
    return pool.symbols["weft_run"], pool.state


def _prepared(helpers: int) -> Pool:
    """This process's pool, its threads started."""
    global _pool
    pool = _pool
    if pool is None:
        with _lock:
            if _pool is None:
                _pool = Pool()
            pool = _pool
    if helpers != pool.helpers:
        pool.expect(helpers)
    return pool


def run(
    kernel: int, buffers: Any, start: int, stop: int, chunk: int, flushes: bool = False
) -> None:
    """Run a kernel from ``start`` to ``stop`` of its grid, ``chunk`` iterations at a time.

    ``buffers`` is the address of an array of pointers, or such a ctypes array; ``flushes`` says
    whether denormal numbers count as zeros.
    """
    if chunk < 1:
        raise ValueError(f"a chunk holds at least one iteration; got {chunk}")
    if stop - start > chunk and available():
        helpers = threads() - 1
        pool = _pool
        if pool is None or pool.helpers != helpers:
            pool = _prepared(helpers)
        with Flushing(flushes):
            pool.call(pool.state, helpers, kernel, buffers, start, stop, chunk)
    else:
        call = Kernel(int(kernel))
        for low in range(start, stop, chunk):
            with Flushing(flushes):
                call(buffers, low, min(low + chunk, stop))


_alone = 0.0
_asked = False


def is_made() -> bool:
    """Whether there is code of the pool."""
    return bool(_held)


def note(spent: float) -> None:
    """Have the pool's code made where much was done without: a range took so many seconds."""
    global _alone
    _alone += min(spent, LONG_RANGE_S)
    if _alone > CODE_AFTER_TOTAL_S or spent > CODE_AFTER_RANGE_S:
        ask()


def ask() -> None:
    """Have a thread make the pool's code."""
    global _asked
    if not _asked and threads() > 1:
        _asked = True
        with contextlib.suppress(RuntimeError):  # no thread left: ranges are done by who has them
            threading.Thread(target=_code, name="weft-pool").start()


def load(needed: bool = False) -> None:
    """Have the pool's code ready, if it is needed or there was work for it."""
    if (needed or _alone) and available() and threads() > 1:
        _code()


def _forget() -> None:
    """A forked child has none of its parent's threads: it makes a pool of its own."""
    global _pool, _lock, _asked
    _pool, _lock, _asked = None, threading.Lock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
