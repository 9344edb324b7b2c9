"""A program of a device with memory of its own, called natively: pieces of its memory, launches.

Pieces of device memory are in lists by size, whose nodes are on the host. Kernels are launched one
by one, or as a graph that was captured for the same addresses. What this can't do, Python does.
"""

from __future__ import annotations

from weft.backends.cpu.calls.blocks import (
    SLOT_OWNER,
    Py_IncRef,
    PyErr_NoMemory,
    PyObject_Free,
    _PyObject_New,
    box,
    free,
)
from weft.backends.cpu.calls.tables import (
    ARENA_LIST,
    ARGUMENTS,
    BY_GRAPH,
    BY_LAUNCHES,
    BYTES,
    DEVICE,
    DEVICE_TYPE,
    FRESH,
    GRAPH_COUNT,
    GRAPHS,
    HOSTS,
    IN_USE,
    KEY_WORDS,
    KIND,
    LAUNCH,
    LAUNCH_BLOCKS,
    LAUNCH_FUNCTION,
    LAUNCH_GRAPH,
    LAUNCH_LENGTH,
    LAUNCH_NUMBERS,
    LAUNCH_PARAMETERS,
    LAUNCH_SHARED,
    LAUNCH_SPOTS,
    LAUNCH_THREADS,
    LAUNCHES,
    LAUNCHES_END,
    LIST_BYTES,
    LIST_COUNTS,
    LIST_HEAD,
    MISSED,
    MODE,
    NUMBER,
    OWNER,
    PASSED,
    PEAK,
    REFILL,
    REPEATED,
    RESULT_COUNT,
    RESULT_WORDS,
    RESULTS,
    RING,
    RING_BYTES,
    RING_PIECES,
    SHARED,
    SLOTS,
    STREAM,
    TYPE,
)
from weft.backends.cpu.native.walker import (
    Py_DecRef,
    PyLong_FromLongLong,
    PyObject_Call,
    PyTuple_New,
    PyTuple_SetItem,
    memcpy,
)
from weft.kernel.kinds import External, i32, i64, invoke, ptr, void

malloc = External(ptr, (i64,))
PyErr_Clear = External(void, ())


def tell(function: ptr, number: i64) -> i64:
    """Call a function of Python's with a number; 1 if it raised."""
    args = PyTuple_New(1)
    PyTuple_SetItem(args, 0, PyLong_FromLongLong(number))
    done = PyObject_Call(function, args, None)
    Py_DecRef(args)
    if done is None:
        return 1
    Py_DecRef(done)
    return 0


def put_piece(pieces: ptr, address: ptr) -> void:
    """Add a piece to a list."""
    node = malloc(16)
    if node is not None:
        ptr[node, 0] = ptr[pieces, LIST_HEAD]
        ptr[node, 1] = address
        ptr[pieces, LIST_HEAD] = node


def take_piece(pieces: ptr) -> ptr:
    """A piece of a list; None where it is empty."""
    node = ptr[pieces, LIST_HEAD]
    if node is None:
        return None
    address = ptr[node, 1]
    ptr[pieces, LIST_HEAD] = ptr[node, 0]
    free(node)
    return address


def give_piece(pieces: ptr, address: ptr) -> void:
    """Have a piece used again."""
    i64[ptr[pieces, LIST_COUNTS], IN_USE] -= i64[pieces, LIST_BYTES]
    put_piece(pieces, address)


def get_piece(device: ptr, pieces: ptr) -> ptr:
    """A piece of a list, which Python fills where it is empty; None where there is no memory."""
    if ptr[pieces, LIST_HEAD] is None:
        if tell(ptr[device, REFILL], i64(pieces)) != 0:
            PyErr_Clear()
            return None
    counts = ptr[pieces, LIST_COUNTS]
    i64[counts, IN_USE] += i64[pieces, LIST_BYTES]
    i64[counts, PEAK] = max(i64[counts, PEAK], i64[counts, IN_USE])
    return take_piece(pieces)


def device_dealloc(block: ptr) -> void:
    kind = ptr[block, 1]
    give_piece(ptr[block, 4], ptr[block, 2])
    PyObject_Free(block)
    Py_DecRef(kind)


def device_block(shared: ptr, pieces: ptr, address: ptr, size: i64) -> ptr:
    """An owner of a piece."""
    block = _PyObject_New(ptr[shared, DEVICE_TYPE])
    if block is None:
        give_piece(pieces, address)
        return block
    ptr[block, 2] = address
    i64[block, 3] = size
    ptr[block, 4] = pieces
    return block


def drop_pieces(program: ptr, env: ptr, first: i64) -> void:
    """Give the memory of results back, from one on."""
    for i in range(i64[program, RESULT_COUNT]):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        if i >= first and i64[row, KIND] == FRESH and ptr[env, i64[row, NUMBER]] is not None:
            give_piece(ptr[row, OWNER], ptr[env, i64[row, NUMBER]])


def staged(device: ptr, value: ptr) -> ptr:
    """A number in pinned memory, where the device reads it."""
    ring = ptr[device, RING]
    number = i64[ring, 0]
    i64[ring, 0] = (number + 1) % RING_PIECES
    place = ptr[ring, 1] + number * RING_BYTES
    memcpy(place, value, 16)
    return place


def launch_kernels(device: ptr, env: ptr, values: ptr) -> i64:
    """Launch the kernels of a program, with memory for their parameters; the driver's status."""
    at = ptr[device, LAUNCHES]
    nothing: ptr = None
    while at != ptr[device, LAUNCHES_END]:
        spots = i64[at, LAUNCH_SPOTS]
        count = spots + i64[at, LAUNCH_NUMBERS]
        given = at + LAUNCH_PARAMETERS * 8
        for i in range(spots):
            ptr[values, i] = ptr[env, i64[given, 2 * i]] + i64[given, 2 * i + 1]
        for i in range(i64[at, LAUNCH_NUMBERS]):
            i64[values, spots + i] = i64[given, 2 * spots + i]
        row = values + count * 8
        for i in range(count):
            ptr[row, i] = values + i * 8
        status = invoke(
            i32,
            ptr[device, LAUNCH],
            ptr[at, LAUNCH_FUNCTION],
            i32(i64[at, LAUNCH_BLOCKS]),
            i32(1),
            i32(1),
            i32(i64[at, LAUNCH_THREADS]),
            i32(1),
            i32(1),
            i32(i64[at, LAUNCH_SHARED]),
            ptr[device, STREAM],
            row,
            nothing,
        )
        if status != 0:
            return 1
        at = at + i64[at, LAUNCH_LENGTH] * 8
    return 0


def launch_graph(device: ptr, env: ptr) -> i64:
    """Launch the graph for the addresses of a call; 1 where there is none."""
    words = i64[device, KEY_WORDS]
    row = ptr[device, GRAPHS]
    for _ in range(i64[device, GRAPH_COUNT]):
        same = 1
        for i in range(words):
            if i64[row, 1 + i] != i64[env, i]:
                same = 0
                break
        if same == 1:
            status = invoke(i32, ptr[device, LAUNCH_GRAPH], ptr[row, 0], ptr[device, STREAM])
            return i64(status)
        row = row + (words + 1) * 8
    return 1


def box_piece(program: ptr, row: ptr, env: ptr, owners: ptr, results: ptr) -> ptr:
    """One result as an array."""
    shared = ptr[program, SHARED]
    number = i64[row, NUMBER]
    if i64[row, KIND] == FRESH:
        address = ptr[env, number]
        return box(
            shared, ptr[row, TYPE], device_block(shared, ptr[row, OWNER], address, i64[row, BYTES])
        )
    owner = ptr[row, OWNER]
    if i64[row, KIND] == REPEATED:
        owner = ptr[ptr[results, number], SLOT_OWNER]
    if i64[row, KIND] == PASSED:
        owner = ptr[owners, number]
    Py_IncRef(owner)
    return box(shared, ptr[row, TYPE], owner)


def run_abroad(program: ptr, pointers: ptr, owners: ptr, results: ptr, work: ptr) -> i64:
    """Run a program on its device, in memory for addresses; 1 where Python has raised."""
    device = ptr[program, DEVICE]
    env = work
    count = i64[program, ARGUMENTS]
    slots = i64[program, SLOTS]
    for i in range(slots):
        ptr[env, i] = None
    for i in range(count):
        ptr[env, i] = ptr[pointers, i]
        if ptr[owners, i] is None:
            ptr[env, i] = staged(device, ptr[pointers, i])
    short = 0
    for i in range(i64[program, RESULT_COUNT]):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        if i64[row, KIND] == FRESH and short == 0:
            ptr[env, i64[row, NUMBER]] = get_piece(device, ptr[row, OWNER])
            if ptr[env, i64[row, NUMBER]] is None:
                short = 1
    arena = ptr[device, ARENA_LIST]
    last = i64[device, KEY_WORDS] - 1
    if arena is not None and short == 0:
        ptr[env, last] = get_piece(device, arena)
        if ptr[env, last] is None:
            short = 1
    if short == 1:
        drop_pieces(program, env, 0)
        tell(ptr[program, HOSTS], 0)
        return 1
    status = 0
    if i64[device, MODE] == BY_LAUNCHES:
        status = launch_kernels(device, env, env + slots * 8)
    elif i64[device, MODE] == BY_GRAPH:
        status = launch_graph(device, env)
    if status != 0:
        # no graph yet, or a thread that has not used the device
        status = tell(ptr[device, MISSED], i64(env))
    if arena is not None:
        give_piece(arena, ptr[env, last])
    if status != 0:
        drop_pieces(program, env, 0)
        return 1
    for i in range(i64[program, RESULT_COUNT]):
        row = ptr[program, RESULTS] + i * (RESULT_WORDS * 8)
        ptr[results, i] = box_piece(program, row, env, owners, results)
        if ptr[results, i] is None:
            for j in range(i):
                Py_DecRef(ptr[results, j])
            drop_pieces(program, env, i + 1)
            PyErr_NoMemory()
            return 1
    return 0


STUBS = (
    tell,
    put_piece,
    take_piece,
    give_piece,
    get_piece,
    device_dealloc,
    device_block,
    drop_pieces,
    staged,
    launch_kernels,
    launch_graph,
    box_piece,
    run_abroad,
)
