"""Ranges of kernels that are run before there is a pool of threads."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from time import perf_counter
from typing import Any

from weft.backends.llvm.native import pool
from weft.backends.llvm.native.float_mode import Flushing
from weft.base import shares
from weft.base.cores import threads
from weft.base.helpers import Helper

# Words of a job. Behind them are those of each thread: the job, its number, and its name.
KERNEL, BUFFERS, STOP, CHUNK, NEXT, COUNT, SHARE, RECORDS = range(8)
JOB, NUMBER, NAME, RECORD_WORDS = range(4)
# Seconds of work that one thread more is worth.
_WORTH_S = 6e-5


def run(
    kernel: int, buffers: Any, start: int, stop: int, chunk: int, flushes: bool = False
) -> None:
    """Like the pool's ``run``, but without the pool's code while that is not made yet."""
    if chunk < 1 or pool.is_made() or not pool.available():
        pool.run(kernel, buffers, start, stop, chunk, flushes)
        return
    begin = perf_counter()
    sharer(kernel, buffers, start, stop, chunk, flushes)
    pool.note(perf_counter() - begin)


class Sharer:
    """Shares ranges of kernels among threads that it begins for each, as many as are worth it.

    They are the system's: of Python's lock, for which threads of Python would wait at each chunk,
    they know nothing.
    """

    def __init__(self, code: Any) -> None:
        self.code = code  # which lives as long as this
        self.address = code.symbols["share"]
        self.share = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(self.address)

    def __call__(
        self, kernel: int, buffers: Any, start: int, stop: int, chunk: int, flushes: bool
    ) -> None:
        """The caller does the first chunk alone, which tells how long one takes."""
        if start >= stop:
            return
        began, second = perf_counter(), min(start + chunk, stop)
        with Flushing(flushes):  # threads begin in the mode of who begins them
            pool.Kernel(int(kernel))(buffers, start, second)
            count = -(-(stop - second) // chunk)
            if count > 0:
                worth = int(count * (perf_counter() - began) / _WORTH_S)
                most = max(1, min(threads(), count, worth))
                where = ctypes.cast(buffers, ctypes.c_void_p).value or 0
                words = kernel, where, stop, chunk, second, most, self.address
                job = (ctypes.c_int64 * (RECORDS + RECORD_WORDS * most))(*words)
                job[RECORDS] = ctypes.addressof(job)
                self.share(job[RECORDS] + 8 * RECORDS)


def share_by_python(
    kernel: int, buffers: Any, start: int, stop: int, chunk: int, flushes: bool
) -> None:
    """Like ``run``, by the caller; where it takes long, threads of Python help him: their lock is
    free while a piece of it is being done."""
    native = pool.Kernel(int(kernel))
    rest = shares.Rest(start, stop, chunk)
    helpers: list[Helper] = []

    def work() -> None:
        with Flushing(flushes):
            while piece := rest.take():
                native(buffers, *piece)

    begin, spent = perf_counter(), 0.0
    try:
        while piece := rest.take():
            with Flushing(flushes):
                native(buffers, *piece)
            before, spent = spent, perf_counter() - begin
            if not helpers:
                rest.learn(spent - before, *piece)
                help_with(helpers, work, rest.share(threads()) - 1)
            # Others may have Python's lock whenever a piece is done; to make code takes time, too.
            if min(spent, rest.expected()) > pool.CODE_AFTER_RANGE_S:
                pool.ask()
                if pool.is_made():
                    break
    finally:  # no more is begun where the caller was interrupted
        left = rest.close()
        for helper in helpers:
            helper.join()
    if left is not None:
        pool.run(kernel, buffers, left, stop, chunk, flushes)


# What shares ranges: until its code is made, Python.
sharer: Callable[..., None] = share_by_python


def help_with(helpers: list[Helper], work: Callable[[], object], wanted: int) -> None:
    """Have some threads do a piece of work; fewer where the system gives none."""
    with contextlib.suppress(RuntimeError):
        while len(helpers) < wanted:
            helpers.append(Helper(work))
