"""The thread pool as stubs: workers that wait for a job, and a caller that works with them.

A job is a kernel and a range of its grid, in one part for each thread. A part is handed out in
chunks by a counter, first to the thread whose it is, so that the next job finds in the cache of a
core what this one left there, and then to those that are done with theirs. Whoever joins a job
counts itself in the pool's state; the caller closes the job when no chunk is left and waits only
for those who joined, so a worker that the system does not run never holds it up.

The state is one word of 64 bits, changed atomically: the number of the job above, and below, from
bit 0, how many workers are inside, how many may be, and whether the job is open.
"""

from __future__ import annotations

from weft.backends.llvm.native import capi
from weft.backends.llvm.words import defined
from weft.kernel.kinds import (
    External,
    float_mode,
    i64,
    invoke,
    ptr,
    set_float_mode,
    static,
    void,
)

# Words of the pool after its state; what different threads write is on cache lines of its own.
NAMES, BUSY, SLEEPERS, WAITING, SPIN = range(8, 48, 8)
KERNEL, BUFFERS, PART_COUNT, CHUNK, MODE = range(48, 53)
# Parts that there is room for: a counter and its end, on a line for each.
PARTS, PART_WORDS, MAX_PARTS = 56, 8, 48
POOL_BYTES = 4096
LIMIT_SHIFT, OPEN = 12, 1 << 24
INSIDE = (1 << LIMIT_SHIFT) - 1
WAIT, WAKE = 128, 129  # for a futex that is private to the process
rest = External(void, ())
SYSTEM = {
    "x86_64": (202, "llvm.x86.sse2.pause", ""),
    "aarch64": (98, "llvm.aarch64.isb", "i32 15"),
}


_ADD = "%x = atomicrmw add ptr %0, i64 %1 "
_SWAP = "%s = cmpxchg ptr %0, i64 %1, i64 %2 seq_cst seq_cst", "%x = extractvalue {i64, i1} %s, 0"
load = defined(i64, "load", (ptr,), "%x = load atomic i64, ptr %0 seq_cst, align 8", "ret i64 %x")
store = defined(
    void, "store", (ptr, i64), "store atomic i64 %1, ptr %0 seq_cst, align 8", "ret void"
)
# What was there before: added to, or replaced where it was as expected.
add = defined(i64, "add", (ptr, i64), _ADD + "seq_cst", "ret i64 %x")
# The same for counters that say nothing about other memory: no stores are waited for.
take = defined(i64, "take", (ptr, i64), _ADD + "monotonic", "ret i64 %x")
peek = defined(i64, "peek", (ptr,), "%x = load atomic i64, ptr %0 monotonic, align 8", "ret i64 %x")
swap = defined(i64, "swap", (ptr, i64, i64), *_SWAP, "ret i64 %x")


def system_names(architecture: str) -> dict[str, int | External]:
    """What the stubs call on Linux on an architecture."""
    futex, relax, argument = SYSTEM[architecture]
    lines = f"call void @{relax}({argument})", "ret void"
    word = defined(void, "rest", (), *lines, declared=f"void @{relax}({argument[:3]})")
    return {"FUTEX": futex, "rest": word}


def weft_relax(count: i64) -> void:
    """Rest some times, to be measured."""
    for _ in range(count):
        rest()


def futex(word: ptr, operation: i64, value: i64, *, FUTEX: static) -> void:
    """Sleep while a word of 32 bits has a value, or wake so many who do."""
    capi.syscall(FUTEX, word, operation, value, None, None, 0)


def work(pool: ptr, me: i64) -> void:
    """Do chunks of a job, as long as there are any, beginning with one's own part."""
    count = i64[pool, PART_COUNT]
    chunk = i64[pool, CHUNK]
    for turn in range(count):
        part = pool + (PARTS + (me + turn) % count * PART_WORDS) * 8
        stop = i64[part, 1]
        while peek(part) < stop:
            start = take(part, chunk)
            if start < stop:
                end = min(start + chunk, stop)
                invoke(void, ptr[pool, KERNEL], ptr[pool, BUFFERS], start, end)


def next_job(pool: ptr, last: i64) -> i64:
    """The state when there is another job than the last, after some looks in one's sleep."""
    looks = 0
    while True:
        state = load(pool)
        if state >> 32 != last:
            return state
        looks += 1
        if looks <= i64[pool, SPIN]:
            rest()
        else:
            add(pool + SLEEPERS * 8, 1)
            futex(pool + 4, WAIT, last)
            add(pool + SLEEPERS * 8, -1)
            looks = 0


def join(pool: ptr, me: i64, state: i64) -> i64:
    """Take part in a job if it has room; the state that was seen last."""
    while state & OPEN != 0 and state & INSIDE < (state >> LIMIT_SHIFT) & INSIDE:
        found = swap(pool, state, state + 1)
        if found == state:
            set_float_mode(i64[pool, MODE])
            work(pool, me)
            # the last one out of a closed job
            if add(pool, -1) & (OPEN | INSIDE) == 1 and load(pool + WAITING * 8) != 0:
                futex(pool, WAKE, 1)
            return state
        state = found
    return state


def weft_worker(pool: ptr) -> ptr:
    """Join jobs as long as the process lives."""
    me = add(pool + NAMES * 8, 1) + 1
    last = 0
    while True:
        last = join(pool, me, next_job(pool, last)) >> 32


def share(pool: ptr, start: i64, stop: i64, chunk: i64, helpers: i64) -> i64:
    """Divide a range into parts; how many may help."""
    others = (stop - start - 1) // chunk
    limit = min(others, helpers)
    count = min(limit + 1, MAX_PARTS)
    i64[pool, PART_COUNT] = count
    first = start
    for number in range(count):
        part = pool + (PARTS + number * PART_WORDS) * 8
        i64[part, 0] = first
        first = min(start + (others + 1) * (number + 1) // count * chunk, stop)
        i64[part, 1] = first
    return limit


def weft_run(
    pool: ptr, helpers: i64, kernel: ptr, buffers: ptr, start: i64, stop: i64, chunk: i64
) -> void:
    """Run a kernel over a range, alone where that is short or the pool is busy."""
    if stop - start <= chunk or helpers <= 0 or swap(pool + BUSY * 8, 0, 1) != 0:
        while start < stop:
            invoke(void, kernel, buffers, start, min(start + chunk, stop))
            start += chunk
        return
    ptr[pool, KERNEL] = kernel
    ptr[pool, BUFFERS] = buffers
    i64[pool, CHUNK] = chunk
    i64[pool, MODE] = float_mode()
    limit = share(pool, start, stop, chunk, helpers)
    number = (load(pool) >> 32) + 1
    store(pool, (number << 32) | (limit << LIMIT_SHIFT) | OPEN)
    if load(pool + SLEEPERS * 8) != 0:
        futex(pool + 4, WAKE, limit)
    work(pool, 0)
    add(pool, -OPEN)
    state = load(pool)
    looks = 0
    while state & INSIDE != 0:
        looks += 1
        if looks <= i64[pool, SPIN]:
            rest()
        else:
            store(pool + WAITING * 8, 1)
            futex(pool, WAIT, state)
            store(pool + WAITING * 8, 0)
            looks = 0
        state = load(pool)
    store(pool + BUSY * 8, 0)
