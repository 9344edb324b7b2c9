"""A program run once, as native code: its results' memory, the walk through its nodes, boxes."""

from __future__ import annotations

from weft.backends.cpu.stub import External, i64, ptr, stack, void
from weft.backends.cpu.walker import (
    BUFFERS,
    CONTEXT_WORDS,
    ENV,
    HELPERS,
    HOST_CALL,
    PERIOD,
    POLLED,
    POOL_RUN,
    POOL_STATE,
    THREAD,
    Py_DecRef,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyLong_FromLongLong,
    PyObject_Call,
    PyTuple_New,
    PyTuple_SetItem,
    host,
    memcpy,
    walk,
)
from weft.runtime.blocks import (
    SLOT_OWNER,
    Py_IncRef,
    PyErr_NoMemory,
    allocate,
    box,
    class_of,
    free,
    new_array,
    new_block,
    release,
)
from weft.runtime.tables import (
    ARENA,
    ARGUMENTS,
    AVAL,
    BYTES,
    DEFAULT,
    END,
    FRESH,
    HOSTS,
    KIND,
    KNOBS,
    LONG,
    MEMORY,
    NAME_THREADS,
    NODES,
    NONE,
    NUMBER,
    OVERDUE,
    OWNER,
    PARALLEL,
    PASSED,
    PREPARE,
    READY,
    REPEATED,
    RESULT_COUNT,
    RESULT_WORDS,
    RESULTS,
    RUN_POOL,
    SHARED,
    SLOTS,
    SMALL,
    STATE_POOL,
    TEMP_COUNT,
    TEMPLATE,
    TEMPS,
    WIDEST,
)

malloc = External(ptr, (i64,))
PyObject_GetAttr = External(ptr, (ptr, ptr))
PyErr_Clear = External(void, ())
PyLong_AsLongLong = External(i64, (ptr,))


def helpers_now(shared: ptr) -> i64:
    """How many threads may help here; the pool is made ready for them."""
    wanted = i64[shared, DEFAULT]
    given = PyObject_GetAttr(ptr[shared, KNOBS], ptr[shared, NAME_THREADS])
    if given is None:
        PyErr_Clear()
    else:
        if given != ptr[shared, NONE]:
            wanted = PyLong_AsLongLong(given) - 1
        Py_DecRef(given)
    if wanted > i64[shared, READY] or i64[shared, READY] < 0:
        args = PyTuple_New(1)
        PyTuple_SetItem(args, 0, PyLong_FromLongLong(wanted))
        done = PyObject_Call(ptr[shared, PREPARE], args, None)
        Py_DecRef(args)
        if done is None:
            PyErr_Clear()
            return 0
        Py_DecRef(done)
    return wanted


def fresh_results(program: ptr, env: ptr) -> i64:
    """Memory for the results; 1 where there is none, and then nothing is held."""
    memory = ptr[ptr[program, SHARED], MEMORY]
    for i in range(i64[program, RESULT_COUNT]):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        if i64[row, KIND] == FRESH:
            piece = allocate(memory, class_of(i64[row, BYTES]))
            if piece is None:
                drop_results(program, env, i)
                return 1
            ptr[env, i64[row, NUMBER]] = piece
    return 0


def drop_results(program: ptr, env: ptr, count: i64) -> void:
    """Give the memory of the first results back."""
    memory = ptr[ptr[program, SHARED], MEMORY]
    for i in range(count):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        if i64[row, KIND] == FRESH:
            release(memory, ptr[env, i64[row, NUMBER]], class_of(i64[row, BYTES]))


def box_result(program: ptr, row: ptr, env: ptr, owners: ptr, results: ptr) -> ptr:
    """One result as an array."""
    shared = ptr[program, SHARED]
    size = i64[row, BYTES]
    aval = ptr[row, AVAL]
    number = i64[row, NUMBER]
    if i64[row, KIND] == FRESH:
        return box(shared, aval, new_block(shared, ptr[env, number], size, class_of(size)))
    owner = ptr[row, OWNER]
    if i64[row, KIND] == REPEATED:
        owner = ptr[ptr[results, number], SLOT_OWNER]
    if i64[row, KIND] == PASSED:
        owner = ptr[owners, number]
        if owner is None or i64(owner) & 1 == 1:
            # the caller's own memory, which no array may share
            array = new_array(shared, aval, size)
            if array is not None:
                memcpy(ptr[ptr[array, SLOT_OWNER], 2], ptr[env, number], size)
            return array
    Py_IncRef(owner)
    return box(shared, aval, owner)


def box_results(program: ptr, env: ptr, owners: ptr, results: ptr) -> i64:
    for i in range(i64[program, RESULT_COUNT]):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        ptr[results, i] = box_result(program, row, env, owners, results)
        if ptr[results, i] is None:
            drop_rest(program, env, results, i)
            return 1
    return 0


def drop_rest(program: ptr, env: ptr, results: ptr, failed: i64) -> void:
    """Give back everything where one of the results could not be made."""
    memory = ptr[ptr[program, SHARED], MEMORY]
    for i in range(i64[program, RESULT_COUNT]):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        if i < failed:
            Py_DecRef(ptr[results, i])
        elif i > failed and i64[row, KIND] == FRESH:
            release(memory, ptr[env, i64[row, NUMBER]], class_of(i64[row, BYTES]))


def held(owner: ptr) -> ptr:
    """What keeps an argument's memory; a NumPy array of the caller's is marked by its last bit."""
    return ptr(i64(owner) - (i64(owner) & 1))


def hold(owners: ptr, count: i64) -> void:
    """Keep the memory of arguments: whoever runs meanwhile may drop what they came in."""
    for i in range(count):
        owner = held(ptr[owners, i])
        if owner is not None:
            Py_IncRef(owner)


def let_go(owners: ptr, count: i64) -> void:
    for i in range(count):
        owner = held(ptr[owners, i])
        if owner is not None:
            Py_DecRef(owner)


def walk_program(program: ptr, context: ptr) -> i64:
    """Run the nodes; long programs without Python's lock."""
    if i64[program, LONG] != 0:
        ptr[context, THREAD] = PyEval_SaveThread()
    status = walk(context, ptr[program, NODES], ptr[program, END])
    if i64[program, LONG] != 0:
        PyEval_RestoreThread(ptr[context, THREAD])
    return status


def run_in(program: ptr, pointers: ptr, owners: ptr, results: ptr, work: ptr) -> i64:
    """Run a program in memory for its pointers; 1 where Python has raised."""
    shared = ptr[program, SHARED]
    context = work
    env = work + CONTEXT_WORDS * 8
    slots = i64[program, SLOTS]
    memcpy(env, ptr[program, TEMPLATE], slots * 8)
    memcpy(env, pointers, i64[program, ARGUMENTS] * 8)
    ptr[context, ENV] = env
    ptr[context, BUFFERS] = env + slots * 8
    ptr[context, HOST_CALL] = ptr[program, HOSTS]
    ptr[context, THREAD] = None
    i64[context, POLLED] = 0
    i64[context, PERIOD] = OVERDUE
    i64[context, HELPERS] = 0
    if i64[program, PARALLEL] != 0:
        i64[context, HELPERS] = helpers_now(shared)
        ptr[context, POOL_RUN] = ptr[shared, RUN_POOL]
        ptr[context, POOL_STATE] = ptr[shared, STATE_POOL]
    if fresh_results(program, env) != 0:
        host(context, -1)
        return 1
    memory = ptr[shared, MEMORY]
    number = class_of(i64[program, ARENA])
    arena: ptr = None
    if i64[program, ARENA] > 0:
        arena = allocate(memory, number)
        if arena is None:
            drop_results(program, env, i64[program, RESULT_COUNT])
            host(context, -1)
            return 1
        temps = ptr[program, TEMPS]
        for i in range(i64[program, TEMP_COUNT]):
            slot = i64[temps, i]
            ptr[env, slot] = arena + i64[env, slot]
    status = walk_program(program, context)
    if arena is not None:
        release(memory, arena, number)
    if status != 0:
        drop_results(program, env, i64[program, RESULT_COUNT])
        return 1
    return box_results(program, env, owners, results)


def run(program: ptr, pointers: ptr, owners: ptr, results: ptr) -> i64:
    """Run a program; its results are new references."""
    words = CONTEXT_WORDS + i64[program, SLOTS] + i64[program, WIDEST]
    work = stack(SMALL * 8)
    if words > SMALL:
        work = malloc(words * 8)
        if work is None:
            PyErr_NoMemory()
            return 1
    hold(owners, i64[program, ARGUMENTS])
    status = run_in(program, pointers, owners, results, work)
    let_go(owners, i64[program, ARGUMENTS])
    if words > SMALL:
        free(work)
    return status


STUBS = (
    helpers_now,
    fresh_results,
    drop_results,
    box_result,
    box_results,
    drop_rest,
    held,
    hold,
    let_go,
    walk_program,
    run_in,
    run,
)
