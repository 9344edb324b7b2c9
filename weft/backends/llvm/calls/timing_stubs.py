"""Native functions called with a clock around them, as stubs.

The first pointer of a launch is that of a record, which says what is called and where times go: to
a log, one row a call, or, where there is none, to a sum. Threads may call at the same time.
"""

from __future__ import annotations

from weft.backends.llvm.native import capi
from weft.backends.llvm.words import defined
from weft.kernel.kinds import External, i32, i64, invoke, ptr, stack, static, void

# Words of a record: what is called, its number, the log or nothing; how many threads are inside,
# since when, and the sum of the times during which any was; how often it was launched.
FUNCTION, NUMBER, LOG, INSIDE, BEGAN, TOTAL, COUNT, RECORD_WORDS = range(8)
# Words of a log: rows written, rows there is room for; then rows.
WRITTEN, ROOM, LOG_WORDS = range(3)
# Words of a row: twice the number, and one more at the begin of a launch; the thread; both times.
WHAT, THREAD, BEGIN, END, ROW_WORDS = range(5)

clock_gettime = External(i32, (i32, ptr))
pthread_self = External(i64, ())
_ADD = "%x = atomicrmw add ptr %0, i64 %1 seq_cst"
count_in = defined(i64, "count_in", (ptr, i64), _ADD, "ret i64 %x")


def nanoseconds(*, CLOCK: static) -> i64:
    """The time now, by the clock of the system that Python's perf_counter reads."""
    found = stack(16)
    clock_gettime(i32(CLOCK), found)
    return i64[found, 0] * 1000000000 + i64[found, 1]


def call(record: ptr, buffers: ptr, start: i64, stop: i64) -> void:
    """Call what a record is of, or copy bytes where it names no function."""
    if ptr[record, FUNCTION] is not None:
        invoke(void, ptr[record, FUNCTION], buffers, start, stop)
    else:
        capi.memcpy(ptr[buffers, 0], ptr[buffers, 1], stop)


def weft_timed(buffers: ptr, start: i64, stop: i64) -> void:
    """Call a function over a part of its range and note when."""
    record = ptr[buffers, 0]
    log = ptr[record, LOG]
    if log is not None:
        begin = nanoseconds()
        call(record, buffers + 8, start, stop)
        end = nanoseconds()
        number = count_in(log + WRITTEN * 8, 1)
        if number < i64[log, ROOM]:
            row = log + (LOG_WORDS + number * ROW_WORDS) * 8
            first = 0
            if start == 0:
                first = 1
            i64[row, WHAT] = 2 * i64[record, NUMBER] + first
            i64[row, THREAD] = pthread_self()
            i64[row, BEGIN] = begin
            i64[row, END] = end
    else:
        weft_summed(record, buffers + 8, start, stop)


def weft_summed(record: ptr, buffers: ptr, start: i64, stop: i64) -> void:
    """Call a function over a part of its range and add to its time."""
    if start == 0:
        i64[record, COUNT] = i64[record, COUNT] + 1
    if count_in(record + INSIDE * 8, 1) == 0:
        i64[record, BEGAN] = nanoseconds()
    call(record, buffers, start, stop)
    # read before the thread leaves: the next to enter an empty function sets it anew
    began = i64[record, BEGAN]
    end = nanoseconds()
    if count_in(record + INSIDE * 8, -1) == 1:
        i64[record, TOTAL] = i64[record, TOTAL] + end - began
