"""What LLVM compiles first as stubs: threads that share a range of a kernel, and a tile."""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.calls.first_runs import (
    BUFFERS,
    CHUNK,
    COUNT,
    JOB,
    KERNEL,
    NAME,
    NEXT,
    NUMBER,
    RECORD_WORDS,
    RECORDS,
    SHARE,
    STOP,
)
from weft.backends.llvm.native.capi import pthread_create, pthread_join, pthread_sigmask
from weft.backends.llvm.native.pool_stubs import add
from weft.kernel.kinds import OPAQUE, f32, fma, i64, invoke, memset, ptr, stack, void

BLOCK, SET, MASK_BYTES = 0, 2, 128  # signals that a thread does not hear
V: Any = f32  # a vector, which the tile is given


def share(record: ptr) -> ptr:
    """Begin up to two threads that do the same, take chunks of a range from a counter and run the
    kernel on them until nothing is left, and wait for both threads.

    Between that no Python runs, which a signal could end. Signals are for Python's threads.
    """
    job = ptr[record, JOB]
    first = i64[record, NUMBER] * 2 + 1
    end = min(first + 2, i64[job, COUNT])
    signals, heard = stack(MASK_BYTES), stack(MASK_BYTES)
    pthread_sigmask(BLOCK, memset(signals, 255, MASK_BYTES), heard)
    other = first
    while other < end:
        its = job + (RECORDS + other * RECORD_WORDS) * 8
        ptr[its, JOB] = job
        i64[its, NUMBER] = other
        if pthread_create(its + NAME * 8, None, ptr[job, SHARE], its) != 0:
            break
        other += 1
    pthread_sigmask(SET, heard, None)
    stop, chunk = i64[job, STOP], i64[job, CHUNK]
    low = add(job + NEXT * 8, chunk)
    while low < stop:
        invoke(void, ptr[job, KERNEL], ptr[job, BUFFERS], low, min(low + chunk, stop))
        low = add(job + NEXT * 8, chunk)
    while first < other:
        pthread_join(ptr[job, RECORDS + first * RECORD_WORDS + NAME], None)
        first += 1
    return None


def tile(buffers: ptr, start: i64, stop: i64) -> void:
    """Rows of the product of a square and a panel, which is two vectors wide."""
    left, right, out = ptr[buffers, 0], ptr[buffers, 1], ptr[buffers, 2]
    while start < stop:
        low: V = 0.0
        high: V = 0.0
        k = 0
        while k < stop:
            x = V(f32[left, start * stop + k])
            low = fma(x, V[right, 2 * k], low)
            high = fma(x, V[right, 2 * k + 1], high)
            k = invoke(i64, OPAQUE, k + 1)
        V[out, 2 * start] = low
        V[out, 2 * start + 1] = high
        start = invoke(i64, OPAQUE, start + 1)
