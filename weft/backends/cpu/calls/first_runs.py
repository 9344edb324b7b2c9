"""Ranges of kernels that are run before there is a pool of threads."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from math import isqrt
from time import perf_counter
from typing import Any

from weft.backends.llvm.native import pool
from weft.backends.llvm.native.float_mode import Flushing
from weft.backends.llvm.native.llvm import QUICK
from weft.base import shares
from weft.base.cores import threads
from weft.base.helpers import Helper

# What threads do with a range until nothing is left of it: take the next chunk from a counter, and
# run the kernel on it. The caller begins some that help him, and waits for them. Between that no
# Python runs, which a signal could end. Signals are for Python's threads.
_SHARE = """declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
define internal ptr @work(ptr %state) #0 {
entry:
  %kernel = load ptr, ptr %state, align 8
  %buffers.at = getelementptr i64, ptr %state, i64 1
  %buffers = load ptr, ptr %buffers.at, align 8
  %stop.at = getelementptr i64, ptr %state, i64 2
  %stop = load i64, ptr %stop.at, align 8
  %chunk.at = getelementptr i64, ptr %state, i64 3
  %chunk = load i64, ptr %chunk.at, align 8
  %next.at = getelementptr i64, ptr %state, i64 4
  br label %take
take:
  %low = atomicrmw add ptr %next.at, i64 %chunk seq_cst, align 8
  %some = icmp slt i64 %low, %stop
  br i1 %some, label %run, label %done
run:
  %end = add i64 %low, %chunk
  %whole = icmp slt i64 %end, %stop
  %high = select i1 %whole, i64 %end, i64 %stop
  call void %kernel(ptr %buffers, i64 %low, i64 %high)
  br label %take
done:
  ret ptr null
}
define void @share(ptr %state, i64 %helpers, ptr %names, ptr %signals) #0 {
entry:
  %before = alloca i64, i64 16, align 16
  %blocked = call i32 @pthread_sigmask(i32 0, ptr %signals, ptr %before)
  br label %more
more:
  %begun = phi i64 [ 0, %entry ], [ %next, %begin ]
  %wanted = icmp slt i64 %begun, %helpers
  br i1 %wanted, label %begin, label %work
begin:
  %name = getelementptr ptr, ptr %names, i64 %begun
  %failed = call i32 @pthread_create(ptr %name, ptr null, ptr @work, ptr %state)
  %next = add i64 %begun, 1
  %given = icmp eq i32 %failed, 0
  br i1 %given, label %more, label %work
work:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  %nothing = call ptr @work(ptr %state)
  br label %wait
wait:
  %joined = phi i64 [ 0, %work ], [ %sum, %join ]
  %left = icmp slt i64 %joined, %begun
  br i1 %left, label %join, label %done
join:
  %at = getelementptr ptr, ptr %names, i64 %joined
  %helper = load ptr, ptr %at, align 8
  %ended = call i32 @pthread_join(ptr %helper, ptr null)
  %sum = add i64 %joined, 1
  br label %wait
done:
  ret void
}
attributes #0 = { nounwind }
"""
SHARE = QUICK + _SHARE
# Seconds that it takes to begin a thread.
_START_S = 3e-5
_ALL_SIGNALS = b"\xff" * 128


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
        pointer = ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, pointer, ctypes.c_char_p)
        self.share = kind(code.symbols["share"])

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
                worth = isqrt(int(count * (perf_counter() - began) / _START_S))
                helpers = max(0, min(threads(), count, worth) - 1)
                where = ctypes.cast(buffers, ctypes.c_void_p).value or 0
                state = (ctypes.c_int64 * 5)(kernel, where, stop, chunk, second)
                self.share(state, helpers, (ctypes.c_void_p * helpers)(), _ALL_SIGNALS)


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


def help_with(helpers: list[Helper], work: Callable[[], None], wanted: int) -> None:
    """Have some threads do a piece of work; fewer where the system gives none."""
    with contextlib.suppress(RuntimeError):
        while len(helpers) < wanted:
            helpers.append(Helper(work))
