"""A program of a plugin, called natively: the call of the C API, and owners of its results.

Structs of the C API are rows of words on the stack. Owners of buffers are in a list, so that who
waits for everything finds them. What this can't do, Python does.
"""

from __future__ import annotations

from weft.backends.llvm.calls import tables
from weft.backends.llvm.native import capi
from weft.backends.llvm.native.asking import tell
from weft.kernel.kinds import i64, invoke, ptr, stack, void

# Words of the table of a program after the functions that run it: the executable, its options, the
# function that executes, who raises its errors, the device's own table; then types of arguments.
(
    HANDLE,
    OPTIONS,
    EXECUTE,
    RAISE,
    SHELF,
    OUTPUTS,
    ELEMENTS,
    TABLE_WORDS,
) = range(tables.DEVICE_WORDS, tables.DEVICE_WORDS + 8)
# Words of a device's table: its owners, the plugin's functions, its client and device, the Python
# object of its functions, and a word that is not 0 when the process ends.
FIRST, DESTROY, DESTROY_EVENT, DESTROY_ERROR, PUT, CLIENT, DEVICE, API, ENDED, SHELF_WORDS = range(
    10
)
# Words of an owner: a Python object with a buffer, its neighbours in the list, a copy on its way to
# the host.
BUFFER, BLOCK_SHELF, NEXT, BEFORE, HOST, BLOCK_API, BLOCK_WORDS = range(2, 9)
# Bytes of structs, up to the end of their last fields.
ONE_BYTES, EXECUTE_BYTES, PUT_BYTES = 24, 80, 120


def free_error(shelf: ptr, error: ptr) -> void:
    """Drop an error that nobody can be told."""
    if error is not None:
        args = stack(ONE_BYTES)
        i64[args, 0] = ONE_BYTES
        ptr[args, 1] = None
        ptr[args, 2] = error
        invoke(void, ptr[shelf, DESTROY_ERROR], args)


def destroy(shelf: ptr, function: ptr, thing: ptr) -> void:
    """Free an object of the plugin; when the process ends, the system does."""
    if i64[ptr[shelf, ENDED], 0] == 0:
        args = stack(ONE_BYTES)
        i64[args, 0] = ONE_BYTES
        ptr[args, 1] = None
        ptr[args, 2] = thing
        free_error(shelf, invoke(ptr, function, args))


def no_piece(device: ptr, shelf: ptr) -> ptr:
    """The plugin takes memory for results itself: what stands for it until then."""
    return shelf


def give_buffer(shelf: ptr, buffer: ptr) -> void:
    """Free a result that nobody gets."""
    if buffer != shelf:
        destroy(shelf, ptr[shelf, DESTROY], buffer)


def plugin_block(shared: ptr, shelf: ptr, buffer: ptr, size: i64) -> ptr:
    """An owner of a buffer."""
    block = capi._PyObject_New(ptr[shared, tables.PLUGIN_TYPE])
    if block is None:
        destroy(shelf, ptr[shelf, DESTROY], buffer)
        return block
    ptr[block, BUFFER] = buffer
    ptr[block, BLOCK_SHELF] = shelf
    ptr[block, HOST] = None
    ptr[block, BLOCK_API] = ptr[shelf, API]
    capi.Py_IncRef(ptr[shelf, API])
    after = ptr[shelf, FIRST]
    ptr[block, NEXT] = after
    ptr[block, BEFORE] = None
    if after is not None:
        ptr[after, BEFORE] = block
    ptr[shelf, FIRST] = block
    return block


def plugin_dealloc(block: ptr) -> void:
    kind = ptr[block, 1]
    shelf = ptr[block, BLOCK_SHELF]
    after = ptr[block, NEXT]
    before = ptr[block, BEFORE]
    if after is not None:
        ptr[after, BEFORE] = before
    if before is None:
        ptr[shelf, FIRST] = after
    else:
        ptr[before, NEXT] = after
    host = ptr[block, HOST]
    if host is not None:
        capi.Py_DecRef(host)
    destroy(shelf, ptr[shelf, DESTROY], ptr[block, BUFFER])
    api = ptr[block, BLOCK_API]
    capi.PyObject_Free(block)
    capi.Py_DecRef(api)
    capi.Py_DecRef(kind)


def plugin_blocks(shelf: ptr, none: ptr) -> ptr:
    """The owners that there are, as a list; some of it may be ``none``."""
    count = 0
    block = ptr[shelf, FIRST]
    while block is not None:
        count += 1
        block = ptr[block, NEXT]
    found = capi.PyList_New(count)
    if found is None:
        return found
    # making the list may have run anything
    block = ptr[shelf, FIRST]
    for i in range(count):
        thing = none
        if block is not None:
            thing = block
            block = ptr[block, NEXT]
        capi.Py_IncRef(thing)
        capi.PyList_SetItem(found, i, thing)
    return found


def put_number(device: ptr, element: i64, value: ptr) -> ptr:
    """A number in a buffer of its own; None where Python has raised."""
    shelf = ptr[device, SHELF]
    args = stack(PUT_BYTES)
    for i in range(PUT_BYTES // 8):
        i64[args, i] = 0
    i64[args, 0] = PUT_BYTES
    ptr[args, 2] = ptr[shelf, CLIENT]
    ptr[args, 3] = value
    i64[args, 4] = element
    ptr[args, 10] = ptr[shelf, DEVICE]
    error = invoke(ptr, ptr[shelf, PUT], args)
    if error is not None:
        tell(ptr[device, RAISE], i64(error))
        return None
    if ptr[args, 13] is not None:
        destroy(shelf, ptr[shelf, DESTROY_EVENT], ptr[args, 13])
    return ptr[args, 14]


def drop_numbers(device: ptr, owners: ptr, env: ptr, count: i64) -> void:
    """Free the buffers of numbers."""
    shelf = ptr[device, SHELF]
    for i in range(count):
        if ptr[owners, i] is None:
            destroy(shelf, ptr[shelf, DESTROY], ptr[env, i])


def run_plugin(program: ptr, owners: ptr, env: ptr) -> i64:
    """Run a program on its device; 1 where Python has raised.

    Handles of arguments and, behind them, of results are in ``env``.
    """
    device = ptr[program, tables.DEVICE]
    count = i64[program, tables.ARGUMENTS]
    for i in range(count):
        if ptr[owners, i] is None:
            ptr[env, i] = put_number(device, i64[ptr[device, ELEMENTS], i], ptr[env, i])
            if ptr[env, i] is None:
                drop_numbers(device, owners, env, i)
                return 1
    shelf = ptr[device, SHELF]
    args = stack(EXECUTE_BYTES + 16)
    lists = args + EXECUTE_BYTES
    outs = env + count * 8
    ptr[lists, 0] = env
    ptr[lists, 1] = outs
    i64[args, 0] = EXECUTE_BYTES
    ptr[args, 1] = None
    ptr[args, 2] = ptr[device, HANDLE]
    ptr[args, 3] = ptr[device, OPTIONS]
    ptr[args, 4] = lists
    i64[args, 5] = 1
    i64[args, 6] = count
    ptr[args, 7] = lists + 8
    ptr[args, 8] = None
    ptr[args, 9] = None
    # the plugin may wait, for memory or for calls that are under way
    thread = capi.PyEval_SaveThread()
    error = invoke(ptr, ptr[device, EXECUTE], args)
    capi.PyEval_RestoreThread(thread)
    drop_numbers(device, owners, env, count)
    if error is None:
        return 0
    for i in range(i64[device, OUTPUTS]):
        ptr[outs, i] = shelf
    tell(ptr[device, RAISE], i64(error))
    return 1
