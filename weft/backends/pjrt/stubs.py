"""A program of a plugin, called natively: the call of the C API, and owners of its results.

Structs of the C API are rows of words on the stack. Owners of buffers are in a list, so that who
waits for everything finds them. What this can't do, Python does.
"""

from __future__ import annotations

from weft.backends.llvm.calls import tables
from weft.backends.llvm.native import capi
from weft.backends.llvm.native.asking import tell
from weft.kernel.kinds import i64, invoke, ptr, stack, static, void

# Words of the table of a program after the functions that run it: the executable, its options, the
# function that executes, who raises its errors, the device's own table, or that of results in
# parts; then types of arguments.
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
# Words of a table for results in parts: how many devices, how far the handles of one result are
# apart, the devices' own tables, and the type of owners.
GROUP_DEVICES, GROUP_STEP, GROUP_SHELVES, GROUP_TYPE, GROUP_WORDS = range(5)
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


def put_number(shelf: ptr, element: i64, value: ptr, place: ptr) -> ptr:
    """A number in a buffer of its own, whose handle is put in a place; or the plugin's error."""
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
        return error
    if ptr[args, 13] is not None:
        destroy(shelf, ptr[shelf, DESTROY_EVENT], ptr[args, 13])
    ptr[place, 0] = ptr[args, 14]
    return None


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
    shelf = ptr[device, SHELF]
    for i in range(count):
        if ptr[owners, i] is None:
            element = i64[ptr[device, ELEMENTS], i]
            failure = put_number(shelf, element, ptr[env, i], env + i * 8)
            if failure is not None:
                drop_numbers(device, owners, env, i)
                tell(ptr[device, RAISE], i64(failure))
                return 1
    lists = stack(16)
    outs = env + count * 8
    ptr[lists, 0] = env
    ptr[lists, 1] = outs
    error = execute(device, 1, count, lists)
    drop_numbers(device, owners, env, count)
    if error is None:
        return 0
    for i in range(i64[device, OUTPUTS]):
        ptr[outs, i] = shelf
    tell(ptr[device, RAISE], i64(error))
    return 1


def execute(device: ptr, devices: i64, count: i64, lists: ptr) -> ptr:
    """Execute on devices, whose lists of arguments and then of results are given; the error."""
    args = stack(EXECUTE_BYTES)
    i64[args, 0] = EXECUTE_BYTES
    ptr[args, 1] = None
    ptr[args, 2] = ptr[device, HANDLE]
    ptr[args, 3] = ptr[device, OPTIONS]
    ptr[args, 4] = lists
    i64[args, 5] = devices
    i64[args, 6] = count
    ptr[args, 7] = lists + devices * 8
    ptr[args, 8] = None
    ptr[args, 9] = None
    # the plugin may wait, for memory or for calls that are under way
    thread = capi.PyEval_SaveThread()
    error = invoke(ptr, ptr[device, EXECUTE], args)
    capi.PyEval_RestoreThread(thread)
    return error


# --- several devices ------------------------------------------------------------------------------


def give_parts(group: ptr, handles: ptr) -> void:
    """Free a result on all devices that nobody gets."""
    if handles != group:
        free_parts(group, handles, 0)


def free_parts(group: ptr, handles: ptr, first: i64) -> void:
    """Free the buffers of a result on the devices from one on."""
    for k in range(first, i64[group, GROUP_DEVICES]):
        shelf = ptr[ptr[group, GROUP_SHELVES], k]
        destroy(shelf, ptr[shelf, DESTROY], ptr[handles, k * i64[group, GROUP_STEP]])


def parts_owner(shared: ptr, group: ptr, handles: ptr, size: i64) -> ptr:
    """An owner of a result's buffers on all devices."""
    args = capi.PyTuple_New(1)
    buffers = capi.PyTuple_New(i64[group, GROUP_DEVICES])
    capi.PyTuple_SetItem(args, 0, buffers)
    for k in range(i64[group, GROUP_DEVICES]):
        shelf = ptr[ptr[group, GROUP_SHELVES], k]
        block = plugin_block(shared, shelf, ptr[handles, k * i64[group, GROUP_STEP]], size)
        if block is None:
            free_parts(group, handles, k + 1)
            capi.Py_DecRef(args)
            return block
        capi.PyTuple_SetItem(buffers, k, block)
    made = capi.PyObject_Call(ptr[group, GROUP_TYPE], args, None)
    capi.Py_DecRef(args)
    return made


def handle_of(shared: ptr, buffer: ptr) -> ptr:
    """The plugin's buffer of an owner, native code's or Python's."""
    if ptr[buffer, 1] == ptr[shared, tables.PLUGIN_TYPE]:
        return ptr[buffer, BUFFER]
    return ptr(capi.PyLong_AsLongLong(ptr[buffer, i64[shared, tables.PLUGIN_HANDLE]]))


def drop_copies(device: ptr, owners: ptr, inputs: ptr, count: i64) -> void:
    """Free the buffers of numbers on all devices, as far as they are made."""
    group = ptr[device, SHELF]
    for k in range(i64[group, GROUP_DEVICES]):
        shelf = ptr[ptr[group, GROUP_SHELVES], k]
        for i in range(count):
            if ptr[owners, i] is None and ptr[inputs, k * count + i] is not None:
                destroy(shelf, ptr[shelf, DESTROY], ptr[inputs, k * count + i])


def spread_arguments(
    program: ptr, owners: ptr, env: ptr, inputs: ptr, *, SLOT_ITEMS: static
) -> ptr:
    """The handles of arguments on each device, one device after the other; the plugin's error."""
    shared = ptr[program, tables.SHARED]
    device = ptr[program, tables.DEVICE]
    group = ptr[device, SHELF]
    count = i64[program, tables.ARGUMENTS]
    for i in range(count):
        for k in range(i64[group, GROUP_DEVICES]):
            if ptr[owners, i] is None:
                shelf = ptr[ptr[group, GROUP_SHELVES], k]
                element = i64[ptr[device, ELEMENTS], i]
                place = inputs + (k * count + i) * 8
                error = put_number(shelf, element, ptr[env, i], place)
                if error is not None:
                    return error
            else:
                buffers = ptr[ptr[owners, i], i64[shared, tables.PARTS_BUFFERS]]
                ptr[inputs, k * count + i] = handle_of(shared, ptr[buffers, SLOT_ITEMS + k])
    return None


def run_parts(program: ptr, owners: ptr, env: ptr) -> i64:
    """Run a program on several devices; 1 where Python has raised.

    Owners of arguments and the places of results are in ``env``. Behind them is room for the
    handles of arguments and results on each device, and for lists of those.
    """
    device = ptr[program, tables.DEVICE]
    group = ptr[device, SHELF]
    count = i64[program, tables.ARGUMENTS]
    outputs = i64[device, OUTPUTS]
    devices = i64[group, GROUP_DEVICES]
    inputs = env + (count + outputs) * 8
    outs = inputs + devices * count * 8
    lists = outs + devices * outputs * 8
    error = spread_arguments(program, owners, env, inputs)
    if error is None:
        for k in range(devices):
            ptr[lists, k] = inputs + k * count * 8
            ptr[lists, devices + k] = outs + k * outputs * 8
        error = execute(device, devices, count, lists)
    drop_copies(device, owners, inputs, count)
    if error is not None:
        tell(ptr[device, RAISE], i64(error))
        return 1
    for i in range(outputs):
        ptr[env, count + i] = outs + i * 8
    return 0
