"""Ranges of kernels that are run before there is a pool of threads."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from time import perf_counter
from typing import Any

from weft.backends.llvm.native import pool
from weft.backends.llvm.native.float_mode import Flushing
from weft.backends.llvm.native.llvm import QUICK
from weft.base import shares
from weft.base.cores import threads
from weft.base.helpers import Helper

# What threads do with a range until nothing is left of it: take the next chunk from a counter, and
# run the kernel on it. Each begins up to two others before, and waits for them behind. Between that
# no Python runs, which a signal could end. Signals are for Python's threads.
_SHARE = """declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
define internal i64 @begin(ptr %state, i64 %me) #0 {
entry:
  %count.at = getelementptr i64, ptr %state, i64 5
  %count = load i64, ptr %count.at, align 8
  %first = add i64 %me, %me
  %third = add i64 %first, 3
  %few = icmp slt i64 %count, %third
  %end = select i1 %few, i64 %count, i64 %third
  br label %more
more:
  %before = phi i64 [ %first, %entry ], [ %other, %next ]
  %other = add i64 %before, 1
  %wanted = icmp slt i64 %other, %end
  br i1 %wanted, label %next, label %done
next:
  %at = mul i64 %other, 3
  %record.at = add i64 %at, 6
  %record = getelementptr i64, ptr %state, i64 %record.at
  store ptr %state, ptr %record, align 8
  %number = getelementptr i64, ptr %record, i64 1
  store i64 %other, ptr %number, align 8
  %name = getelementptr i64, ptr %record, i64 2
  %failed = call i32 @pthread_create(ptr %name, ptr null, ptr @help, ptr %record)
  %given = icmp eq i32 %failed, 0
  br i1 %given, label %more, label %done
done:
  ret i64 %other
}
define internal void @work(ptr %state) #0 {
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
  ret void
}
define internal void @wait(ptr %state, i64 %me, i64 %end) #0 {
entry:
  %first = add i64 %me, %me
  br label %more
more:
  %before = phi i64 [ %first, %entry ], [ %other, %next ]
  %other = add i64 %before, 1
  %some = icmp slt i64 %other, %end
  br i1 %some, label %next, label %done
next:
  %at = mul i64 %other, 3
  %name.at = add i64 %at, 8
  %place = getelementptr i64, ptr %state, i64 %name.at
  %name = load ptr, ptr %place, align 8
  %ended = call i32 @pthread_join(ptr %name, ptr null)
  br label %more
done:
  ret void
}
define internal ptr @help(ptr %record) #0 {
entry:
  %state = load ptr, ptr %record, align 8
  %number = getelementptr i64, ptr %record, i64 1
  %me = load i64, ptr %number, align 8
  %end = call i64 @begin(ptr %state, i64 %me)
  call void @work(ptr %state)
  call void @wait(ptr %state, i64 %me, i64 %end)
  ret ptr null
}
define void @share(ptr %state, ptr %signals) #0 {
entry:
  %before = alloca i64, i64 16, align 16
  %blocked = call i32 @pthread_sigmask(i32 0, ptr %signals, ptr %before)
  %end = call i64 @begin(ptr %state, i64 0)
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  call void @work(ptr %state)
  call void @wait(ptr %state, i64 0, i64 %end)
  ret void
}
attributes #0 = { nounwind }
"""
SHARE = QUICK + _SHARE
# Seconds of work that one thread more is worth.
_WORTH_S = 6e-5
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
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
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
                worth = int(count * (perf_counter() - began) / _WORTH_S)
                most = max(1, min(threads(), count, worth))
                where = ctypes.cast(buffers, ctypes.c_void_p).value or 0
                # the job, and for each thread the job, its number, and its name
                state = (ctypes.c_int64 * (6 + 3 * most))(kernel, where, stop, chunk, second, most)
                self.share(state, _ALL_SIGNALS)


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
