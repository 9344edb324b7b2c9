"""The program walker: a table of nodes run on an array of pointers, as native code.

A table is an array of words. A node is its operation, its length in words, and its operands; the
nodes of a branch or a loop follow its operands. Whoever has a program writes its table, the stubs
here run it: ``walk`` gives 0, or 1 where Python has raised.
"""

from __future__ import annotations

from weft.backends.llvm.native import capi
from weft.backends.llvm.native.asking import ask
from weft.kernel.kinds import (
    clock,
    float_mode,
    i32,
    i64,
    invoke,
    ptr,
    set_float_mode,
    u8,
    void,
)

LAUNCH, COPY, POINT, SWAP, BRANCH, WHILE, FOR, HOST = range(1, 9)

# Words of the context of a run: pointers, scratch for a launch, the pool, and Python's state; the
# bits of the floating-point mode that the run adds, and the mode of its caller.
ENV, BUFFERS, POOL_RUN, POOL_STATE, HELPERS, HOST_CALL, THREAD, POLLED, PERIOD = range(9)
FLUSHED, CALLERS_MODE = 9, 10
CONTEXT_WORDS = 16


def run_words(results: int, slots: int, widest: int) -> int:
    """Words for the results of a run, its context, its slots and the parameters of a launch."""
    return results + CONTEXT_WORDS + slots + widest


# --- stubs ----------------------------------------------------------------------------------------


def launch(context: ptr, at: ptr) -> void:
    """Run a native function, alone or with the pool's help."""
    env = ptr[context, ENV]
    buffers = ptr[context, BUFFERS]
    function = ptr[at, 2]
    extent = i64[at, 3]
    chunk = i64[at, 4]
    for i in range(i64[at, 5]):
        ptr[buffers, i] = ptr[env, i64[at, 6 + i]]
    helpers = i64[context, HELPERS]
    if extent <= chunk:
        invoke(void, function, buffers, i64(0), extent)
    elif helpers > 0:
        pool = ptr[context, POOL_RUN]
        state = ptr[context, POOL_STATE]
        invoke(void, pool, state, helpers, function, buffers, i64(0), extent, chunk)
    else:
        low = 0
        while low < extent:
            invoke(void, function, buffers, low, min(low + chunk, extent))
            low += chunk


def enter_mode(context: ptr) -> void:
    """The floating-point mode of the program, from that of its caller."""
    mode = float_mode()
    i64[context, CALLERS_MODE] = mode
    set_float_mode(mode | i64[context, FLUSHED])


def leave_mode(context: ptr) -> void:
    """The caller's floating-point mode again: Python may run now."""
    set_float_mode(i64[context, CALLERS_MODE])


def poll(context: ptr) -> i64:
    """Let Python see signals, now and then; 1 if a handler raised."""
    now = clock()
    if now - i64[context, POLLED] < i64[context, PERIOD]:
        return 0
    i64[context, POLLED] = now
    leave_mode(context)
    if ptr[context, THREAD] is not None:
        capi.PyEval_RestoreThread(ptr[context, THREAD])
    raised = capi.PyErr_CheckSignals()
    if ptr[context, THREAD] is not None:
        ptr[context, THREAD] = capi.PyEval_SaveThread()
    enter_mode(context)
    if raised != 0:
        return 1
    return 0


def host(context: ptr, number: i64) -> i64:
    """Have Python compute an equation."""
    leave_mode(context)
    if ptr[context, THREAD] is not None:
        capi.PyEval_RestoreThread(ptr[context, THREAD])
    failed = ask(ptr[context, HOST_CALL], number, i64(ptr[context, ENV]))
    if ptr[context, THREAD] is not None:
        ptr[context, THREAD] = capi.PyEval_SaveThread()
    enter_mode(context)
    return failed


def branch(context: ptr, at: ptr) -> i64:
    """The region that a number chooses."""
    place = ptr[ptr[context, ENV], i64[at, 2]]
    chosen = 0
    if i64[at, 3] == 1:
        chosen = i64(u8[place, 0])
    elif i64[at, 3] == 4:
        chosen = i64(i32[place, 0])
    else:
        chosen = i64[place, 0]
    count = i64[at, 4]
    chosen = max(0, min(chosen, count - 1))
    begin = 5 + count
    if chosen > 0:
        begin = i64[at, 4 + chosen]
    return walk(context, at + begin * 8, at + i64[at, 5 + chosen] * 8)


def while_(context: ptr, at: ptr) -> i64:
    """A body as long as its condition is true."""
    env = ptr[context, ENV]
    middle = at + i64[at, 3] * 8
    end = at + i64[at, 1] * 8
    while True:
        if walk(context, at + 32, middle) != 0:
            return 1
        if u8[ptr[env, i64[at, 2]], 0] == 0:
            return 0
        if walk(context, middle, end) != 0:
            return 1
        if poll(context) != 0:
            return 1


def for_(context: ptr, at: ptr) -> i64:
    """A body so many times, its views on one slice after the other."""
    env = ptr[context, ENV]
    trips = i64[at, 2]
    count = i64[at, 4]
    body = at + (5 + 3 * count) * 8
    end = at + i64[at, 1] * 8
    for trip in range(trips):
        now = trip
        if i64[at, 3] != 0:
            now = trips - 1 - trip
        for k in range(count):
            part = at + (5 + 3 * k) * 8
            ptr[env, i64[part, 0]] = ptr[env, i64[part, 1]] + now * i64[part, 2]
        if walk(context, body, end) != 0:
            return 1
        if poll(context) != 0:
            return 1
    return 0


def walk(context: ptr, at: ptr, end: ptr) -> i64:
    """Run the nodes from one place of a table to another."""
    env = ptr[context, ENV]
    while at != end:
        operation = i64[at, 0]
        if operation == LAUNCH:
            launch(context, at)
        elif operation == COPY:
            capi.memcpy(ptr[env, i64[at, 2]], ptr[env, i64[at, 3]], i64[at, 4])
        elif operation == POINT:
            ptr[env, i64[at, 2]] = ptr[env, i64[at, 3]]
        elif operation == SWAP:
            held = ptr[env, i64[at, 2]]
            ptr[env, i64[at, 2]] = ptr[env, i64[at, 3]]
            ptr[env, i64[at, 3]] = held
        elif operation == BRANCH:
            if branch(context, at) != 0:
                return 1
        elif operation == WHILE:
            if while_(context, at) != 0:
                return 1
        elif operation == FOR:
            if for_(context, at) != 0:
                return 1
        elif host(context, i64[at, 2]) != 0:
            return 1
        at = at + i64[at, 1] * 8
    return 0
