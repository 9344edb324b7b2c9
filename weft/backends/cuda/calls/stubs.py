"""A program on a GPU, called natively: pieces of device memory, launches.

Pieces of device memory are in lists by size, which are on the host. Kernels are launched one
by one, or as a graph that was captured for the same addresses. What this can't do, Python does.
"""

from __future__ import annotations

from weft.backends.llvm.calls import tables
from weft.backends.llvm.native import capi
from weft.backends.llvm.native.asking import tell
from weft.kernel.kinds import i32, i64, invoke, ptr, void

# Words of the table of a program after the functions that run it: how (not at all, by
# launches, by a graph), the driver's functions and stream, the launches, the graphs that there are
# for addresses, what Python does where there is none, refills a list or raises for lack of memory,
# the list that the arena is from, and pinned memory for numbers: its start, and the next piece.
(
    MODE,
    STREAM,
    LAUNCH,
    LAUNCH_GRAPH,
    LAUNCHES,
    LAUNCHES_END,
    GRAPHS,
    GRAPH_COUNT,
    KEY_WORDS,
    MISSED,
    REFILL,
    ARENA_LIST,
    RING,
    TABLE_WORDS,
) = range(tables.DEVICE_WORDS, tables.DEVICE_WORDS + 14)
BY_LAUNCHES, BY_GRAPH = 1, 2
# A launch: its words, the kernel, blocks, threads, bytes of shared memory, parameters that are
# addresses and that are numbers; then a slot and an offset for each address, and the numbers.
(
    LAUNCH_LENGTH,
    LAUNCH_FUNCTION,
    LAUNCH_BLOCKS,
    LAUNCH_THREADS,
    LAUNCH_SHARED,
    LAUNCH_SPOTS,
    LAUNCH_NUMBERS,
    LAUNCH_PARAMETERS,
) = range(8)
# A list of pieces of device memory of one size: their addresses, how many there are and there is
# room for, bytes of each, and where bytes in use and at most in use are counted.
LIST_ADDRESSES, LIST_LENGTH, LIST_ROOM, LIST_BYTES, LIST_COUNTS, LIST_WORDS = range(6)
IN_USE, PEAK = range(2)
# Pieces of pinned memory for numbers, and bytes of each: more than launches can wait for.
RING_PIECES, RING_BYTES = 1 << 16, 64
# Addresses that a list has room for at first.
FIRST_ROOM = 16


def put_piece(pieces: ptr, address: ptr) -> void:
    """Add a piece to a list, a heap with the lowest address at its root: calls that follow each
    other get the same addresses then, in whatever order results are given back, and so the same
    graph."""
    count, room = i64[pieces, LIST_LENGTH], i64[pieces, LIST_ROOM]
    if count == room:
        more = max(FIRST_ROOM, 2 * room)
        grown = capi.malloc(8 * more)
        if grown is None:
            return
        if room > 0:
            capi.memcpy(grown, ptr[pieces, LIST_ADDRESSES], 8 * count)
            capi.free(ptr[pieces, LIST_ADDRESSES])
        ptr[pieces, LIST_ADDRESSES] = grown
        i64[pieces, LIST_ROOM] = more
    heap = ptr[pieces, LIST_ADDRESSES]
    at = count
    while at > 0 and i64[heap, (at - 1) // 2] > i64(address):
        ptr[heap, at] = ptr[heap, (at - 1) // 2]
        at = (at - 1) // 2
    ptr[heap, at] = address
    i64[pieces, LIST_LENGTH] = count + 1


def take_piece(pieces: ptr) -> ptr:
    """The piece of a list with the lowest address; None where it is empty."""
    count = i64[pieces, LIST_LENGTH] - 1
    if count < 0:
        return None
    heap = ptr[pieces, LIST_ADDRESSES]
    lowest, last = ptr[heap, 0], ptr[heap, count]
    i64[pieces, LIST_LENGTH] = count
    at, below = i64(0), i64(1)
    while below < count:
        if below + 1 < count and i64[heap, below + 1] < i64[heap, below]:
            below += 1
        if i64[heap, below] >= i64(last):
            break
        ptr[heap, at] = ptr[heap, below]
        at, below = below, 2 * below + 1
    ptr[heap, at] = last
    return lowest


def give_piece(pieces: ptr, address: ptr) -> void:
    """Have a piece used again."""
    i64[ptr[pieces, LIST_COUNTS], IN_USE] -= i64[pieces, LIST_BYTES]
    put_piece(pieces, address)


def get_piece(device: ptr, pieces: ptr) -> ptr:
    """A piece of a list, which Python fills where it is empty; None where there is no memory."""
    if i64[pieces, LIST_LENGTH] == 0:
        if tell(ptr[device, REFILL], i64(pieces)) != 0:
            capi.PyErr_Clear()
            return None
    counts = ptr[pieces, LIST_COUNTS]
    i64[counts, IN_USE] += i64[pieces, LIST_BYTES]
    i64[counts, PEAK] = max(i64[counts, PEAK], i64[counts, IN_USE])
    return take_piece(pieces)


def device_dealloc(block: ptr) -> void:
    kind = ptr[block, 1]
    give_piece(ptr[block, 4], ptr[block, 2])
    capi.PyObject_Free(block)
    capi.Py_DecRef(kind)


def device_block(shared: ptr, pieces: ptr, address: ptr, size: i64) -> ptr:
    """An owner of a piece."""
    block = capi._PyObject_New(ptr[shared, tables.DEVICE_TYPE])
    if block is None:
        give_piece(pieces, address)
        return block
    ptr[block, 2] = address
    i64[block, 3] = size
    ptr[block, 4] = pieces
    return block


def staged(device: ptr, value: ptr) -> ptr:
    """A number in pinned memory, where the device reads it."""
    ring = ptr[device, RING]
    number = i64[ring, 0]
    i64[ring, 0] = (number + 1) % RING_PIECES
    place = ptr[ring, 1] + number * RING_BYTES
    capi.memcpy(place, value, 16)
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


def run_there(program: ptr, owners: ptr, env: ptr) -> i64:
    """Run a program on its device, which has memory for the results; 1 where Python has raised."""
    device = ptr[program, tables.DEVICE]
    for i in range(i64[program, tables.ARGUMENTS]):
        if ptr[owners, i] is None:
            ptr[env, i] = staged(device, ptr[env, i])
    arena = ptr[device, ARENA_LIST]
    last = i64[device, KEY_WORDS] - 1
    if arena is not None:
        ptr[env, last] = get_piece(device, arena)
        if ptr[env, last] is None:
            return tables.SHORT
    status = 0
    if i64[device, MODE] == BY_LAUNCHES:
        status = launch_kernels(device, env, env + i64[program, tables.SLOTS] * 8)
    elif i64[device, MODE] == BY_GRAPH:
        status = launch_graph(device, env)
    if status != 0:
        # no graph yet, or a thread that has not used the device
        status = tell(ptr[device, MISSED], i64(env))
    if arena is not None:
        give_piece(arena, ptr[env, last])
    return status
