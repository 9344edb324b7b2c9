"""The way into compiled code, as native code: arguments matched, memory found, results boxed.

``call`` stands in a type's ``tp_call``. It compares the arguments with what each entry of a
function expects, runs the program of the first that fits, and builds the tree of its results;
anything else goes to the function's method ``_slow``. ``run`` is what both ways share. Everything
they know comes through tables, so the code itself holds no addresses.
"""

from __future__ import annotations

from weft.backends.cpu import walker
from weft.backends.cpu.processor import architecture
from weft.backends.cpu.stub import External, f32, f64, i32, i64, ptr, stack, u8, void
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

# Words of the table that all programs share.
(
    MEMORY,
    BLOCK_TYPE,
    ARRAY_TYPE,
    NDARRAY_TYPE,
    NONE,
    FALSE,
    TRUE,
    FLOAT_TYPE,
    INT_TYPE,
    DICT_TYPE,
    LIST_TYPE,
    TUPLE_TYPE,
    SLICE_TYPE,
    STATE,
    NAME_TRACE,
    EVAL_TRACE,
    NAME_AXES,
    EMPTY,
    KNOBS,
    NAME_CONTEXT,
    NAME_THREADS,
    RUN_POOL,
    STATE_POOL,
    READY,
    DEFAULT,
    PREPARE,
    SERVICES,
) = range(27)

# Words of the table of one program.
(
    SHARED,
    SLOTS,
    TEMPLATE,
    TEMPS,
    TEMP_COUNT,
    ARENA,
    NODES,
    END,
    WIDEST,
    LONG,
    PARALLEL,
    RESULTS,
    RESULT_COUNT,
    HOSTS,
    ARGUMENTS,
    PROGRAM_WORDS,
) = range(16)

# What a result is: words of its row, and where its memory comes from.
KIND, NUMBER, BYTES, AVAL, OWNER, DONOR, RESULT_WORDS = range(7)
FRESH, PASSED, CONSTANT, REPEATED = range(4)

# Recipes: how a tree is taken apart and put together.
(
    LEAF,
    TUPLE,
    LIST,
    DICT,
    NOTHING,
    FLOATING,
    INTEGER,
    BOOLEAN,
    NUMPY,
    SAME,
    CUSTOM,
    INDEX,
    EQUAL,
    SLICE,
) = range(14)
SINGLE, DOUBLE, INT32, INT64 = range(4)

# Words of a function's table of entries.
ENTRY_CONTEXT, ENTRY_RECIPE, ENTRY_PROGRAM, ENTRY_RESULT, ENTRY_HITS, ENTRY_WORDS = range(6)
FIRST_ENTRY = 2

# Leaves found so far: their number, how many there may be, the place in the recipe; then pointers,
# owners, scalars.
COUNT, ROOM, CURSOR, FOUND = range(4)

# Memory kept for reuse: bytes kept, bytes allowed, and a list of pieces for each class of size.
KEPT, ALLOWED, LISTS = range(3)
CLASSES = 200
HUGE = 1 << 22
PAGE = 1 << 21
ADVISE_HUGE = 14
# Ticks of the clock between two looks at signals: some hundredths of a second at most. Arm's clock
# is slower than its processors, by a factor that differs between machines.
OVERDUE = 1 << 20 if architecture() in ("aarch64", "arm64") else 1 << 26
CONTIGUOUS_ALIGNED = 0x101
SMALL = 1024  # words of a run that lie on the stack
SLOW_TEXT = int.from_bytes(b"_slow", "little")

malloc = External(ptr, (i64,))
free = External(void, (ptr,))
aligned_alloc = External(ptr, (i64, i64))
madvise = External(i32, (ptr, i64, i32))
_PyObject_New = External(ptr, (ptr,))
PyObject_Free = External(void, (ptr,))
PyBuffer_FillInfo = External(i32, (ptr, ptr, ptr, i64, i32, i32))
PyType_GenericAlloc = External(ptr, (ptr, i64))
Py_IncRef = External(void, (ptr,))
PyObject_GetAttr = External(ptr, (ptr, ptr))
PyObject_GetAttrString = External(ptr, (ptr, ptr))
PyErr_Clear = External(void, ())
PyErr_NoMemory = External(ptr, ())
PyErr_Occurred = External(ptr, ())
PyLong_AsLongLong = External(i64, (ptr,))
PyFloat_AsDouble = External(f64, (ptr,))
PyDict_Size = External(i64, (ptr,))
PyDict_GetItemWithError = External(ptr, (ptr, ptr))
PyDict_New = External(ptr, ())
PyDict_SetItem = External(i32, (ptr, ptr, ptr))
PyList_New = External(ptr, (i64,))
PyList_SetItem = External(i32, (ptr, i64, ptr))


# Words of the slots of arrays and functions: found by looking when the stubs are translated.
SLOT_AVAL = SLOT_OWNER = SLOT_VIEW = SLOT_SHARDING = SLOT_COMMITTED = SLOT_ENTRIES = 0


# --- memory ---------------------------------------------------------------------------------------


def class_of(size: i64) -> i64:
    """The class of a size: steps of 64 bytes up to 4096, then four to each doubling."""
    if size <= 4096:
        return max(1, (size + 63) >> 6)
    k = 12
    rest = (size - 1) >> 13
    while rest != 0:
        k += 1
        rest = rest >> 1
    step = 1 << (k - 2)
    return 64 + (k - 12) * 4 + ((size - (1 << k) + step - 1) >> (k - 2))


def bytes_of(number: i64) -> i64:
    """The bytes that pieces of a class have."""
    if number <= 64:
        return number << 6
    k = 12 + (number - 65) // 4
    return (1 << k) + ((number - 65) % 4 + 1) * (1 << (k - 2))


def allocate(memory: ptr, number: i64) -> ptr:
    """A piece of a class: one kept, or a new one."""
    if number >= CLASSES:
        return None
    head = ptr[memory, LISTS + number]
    size = bytes_of(number)
    if head is not None:
        ptr[memory, LISTS + number] = ptr[head, 0]
        i64[memory, KEPT] -= size
        return head
    piece = new_piece(size)
    if piece is None and i64[memory, KEPT] > 0:
        # what is kept in other classes may be what is missing
        trim(memory)
        piece = new_piece(size)
    return piece


def new_piece(size: i64) -> ptr:
    """Memory from the system; large pieces on large pages."""
    if size < HUGE:
        return aligned_alloc(64, size)
    size = (size + PAGE - 1) // PAGE * PAGE
    large = aligned_alloc(PAGE, size)
    if large is not None:
        madvise(large, size, ADVISE_HUGE)
    return large


def release(memory: ptr, piece: ptr, number: i64) -> void:
    """Keep a piece for reuse, or give it back where enough are kept."""
    size = bytes_of(number)
    if i64[memory, KEPT] + size > i64[memory, ALLOWED]:
        free(piece)
        return
    i64[memory, KEPT] += size
    ptr[piece, 0] = ptr[memory, LISTS + number]
    ptr[memory, LISTS + number] = piece


def trim(memory: ptr) -> void:
    """Give back everything that is kept."""
    for number in range(CLASSES):
        piece = ptr[memory, LISTS + number]
        while piece is not None:
            after = ptr[piece, 0]
            free(piece)
            piece = after
        ptr[memory, LISTS + number] = None
    i64[memory, KEPT] = 0


# A block: a Python object that owns a piece. Header, address, bytes, class, memory.
BLOCK_WORDS = 6


def new_block(shared: ptr, piece: ptr, size: i64, number: i64) -> ptr:
    block = _PyObject_New(ptr[shared, BLOCK_TYPE])
    if block is None:
        release(ptr[shared, MEMORY], piece, number)
        return block
    ptr[block, 2] = piece
    i64[block, 3] = size
    i64[block, 4] = number
    ptr[block, 5] = ptr[shared, MEMORY]
    return block


def block_dealloc(block: ptr) -> void:
    kind = ptr[block, 1]
    release(ptr[block, 5], ptr[block, 2], i64[block, 4])
    PyObject_Free(block)
    Py_DecRef(kind)


def block_buffer(block: ptr, view: ptr, flags: i32) -> i32:
    return PyBuffer_FillInfo(view, block, ptr[block, 2], i64[block, 3], 1, flags)


def box(shared: ptr, aval: ptr, owner: ptr) -> ptr:
    """An array over an owner, whose reference it takes."""
    if owner is None:
        return None
    array = PyType_GenericAlloc(ptr[shared, ARRAY_TYPE], 0)
    if array is None:
        Py_DecRef(owner)
        return array
    Py_IncRef(aval)
    Py_IncRef(ptr[shared, NONE])
    Py_IncRef(ptr[shared, NONE])
    Py_IncRef(ptr[shared, FALSE])
    ptr[array, SLOT_AVAL] = aval
    ptr[array, SLOT_OWNER] = owner
    ptr[array, SLOT_VIEW] = ptr[shared, NONE]
    ptr[array, SLOT_SHARDING] = ptr[shared, NONE]
    ptr[array, SLOT_COMMITTED] = ptr[shared, FALSE]
    return array


def new_array(shared: ptr, aval: ptr, size: i64) -> ptr:
    """An array over fresh memory."""
    number = class_of(size)
    piece = allocate(ptr[shared, MEMORY], number)
    if piece is None:
        return PyErr_NoMemory()
    block = new_block(shared, piece, size, number)
    return box(shared, aval, block)


# --- running --------------------------------------------------------------------------------------


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


# --- arguments ------------------------------------------------------------------------------------


def found(leaves: ptr, pointer: ptr, owner: ptr, words: i64) -> i64:
    """Note a leaf and go on in the recipe."""
    count = i64[leaves, COUNT]
    ptr[leaves, FOUND + count] = pointer
    ptr[leaves, FOUND + i64[leaves, ROOM] + count] = owner
    i64[leaves, COUNT] = count + 1
    ptr[leaves, CURSOR] = ptr[leaves, CURSOR] + words * 8
    return 1


def match_scalar(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A Python number, as the machine number that stands for it."""
    at = ptr[leaves, CURSOR]
    operation = i64[at, 0]
    code = i64[at, 1]
    place = leaves + (FOUND + 2 * i64[leaves, ROOM] + i64[leaves, COUNT]) * 8
    kind = ptr[thing, 1]
    if operation == BOOLEAN:
        if thing == ptr[shared, TRUE]:
            u8[place, 0] = 1
        elif thing == ptr[shared, FALSE]:
            u8[place, 0] = 0
        else:
            return 0
    elif operation == FLOATING:
        if kind != ptr[shared, FLOAT_TYPE]:
            return 0
        if code == SINGLE:
            f32[place, 0] = f32(PyFloat_AsDouble(thing))
        else:
            f64[place, 0] = PyFloat_AsDouble(thing)
    else:
        if kind != ptr[shared, INT_TYPE]:
            return 0
        value = PyLong_AsLongLong(thing)
        if value == -1 and PyErr_Occurred() is not None:
            PyErr_Clear()
            return 0
        if code == INT32:
            if value > 2147483647 or value < -2147483648:
                return 0
            i32[place, 0] = i32(value)
        else:
            i64[place, 0] = value
    return found(leaves, place, None, 2)


def match_index(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A whole number in a range, as an operand; or one that is part of the program."""
    at = ptr[leaves, CURSOR]
    if ptr[thing, 1] != ptr[shared, INT_TYPE]:
        return 0
    value = PyLong_AsLongLong(thing)
    if value == -1 and PyErr_Occurred() is not None:
        PyErr_Clear()
        return 0
    if i64[at, 0] == EQUAL:
        ptr[leaves, CURSOR] = at + 16
        if value == i64[at, 1]:
            return 1
        return 0
    if value < i64[at, 1] or value >= i64[at, 2]:
        return 0
    place = leaves + (FOUND + 2 * i64[leaves, ROOM] + i64[leaves, COUNT]) * 8
    i64[place, 0] = value  # little-endian: an operand of 32 bits reads its lower half
    return found(leaves, place, None, 3)


def match_slice(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A slice with the same bounds."""
    if ptr[thing, 1] != ptr[shared, SLICE_TYPE]:
        return 0
    ptr[leaves, CURSOR] = ptr[leaves, CURSOR] + 8
    for i in range(3):
        if match(shared, ptr[thing, 2 + i], leaves) == 0:
            return 0
    return 1


def match_numpy(thing: ptr, leaves: ptr) -> i64:
    """A NumPy array of the type expected, read where it lies."""
    at = ptr[leaves, CURSOR]
    ndim = i64[at, 2]
    if ptr[thing, 7] != ptr[at, 1] or i64(i32[thing, 6]) != ndim:
        return 0
    if i32[thing, 16] & CONTIGUOUS_ALIGNED != CONTIGUOUS_ALIGNED:
        return 0
    dims = ptr[thing, 4]
    for i in range(ndim):
        if i64[dims, i] != i64[at, 3 + i]:
            return 0
    return found(leaves, ptr[thing, 2], thing + 1, 3 + ndim)


def match_dict(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    at = ptr[leaves, CURSOR]
    count = i64[at, 1]
    if PyDict_Size(thing) != count:
        return 0
    ptr[leaves, CURSOR] = at + (2 + count) * 8
    for i in range(count):
        item = PyDict_GetItemWithError(thing, ptr[at, 2 + i])
        if item is None:
            if PyErr_Occurred() is not None:
                PyErr_Clear()
            return 0
        if match(shared, item, leaves) == 0:
            return 0
    return 1


def match(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """Whether an object is what the recipe expects; its leaves are noted."""
    at = ptr[leaves, CURSOR]
    operation = i64[at, 0]
    kind = ptr[thing, 1]
    if operation == LEAF:
        if kind != ptr[shared, ARRAY_TYPE] or ptr[thing, SLOT_AVAL] != ptr[at, 1]:
            return 0
        owner = ptr[thing, SLOT_OWNER]
        if ptr[owner, 1] != ptr[shared, BLOCK_TYPE] and ptr[owner, 1] != ptr[shared, NDARRAY_TYPE]:
            return 0
        return found(leaves, ptr[owner, 2], owner, 2)
    if operation == TUPLE:
        if kind != ptr[at, 1] or i64[thing, 2] != i64[at, 2]:
            return 0
        ptr[leaves, CURSOR] = at + 24
        for i in range(i64[at, 2]):
            if match(shared, ptr[thing, 3 + i], leaves) == 0:
                return 0
        return 1
    if operation == LIST:
        if kind != ptr[shared, LIST_TYPE] or i64[thing, 2] != i64[at, 1]:
            return 0
        ptr[leaves, CURSOR] = at + 16
        for i in range(i64[at, 1]):
            if match(shared, ptr[ptr[thing, 3], i], leaves) == 0:
                return 0
        return 1
    if operation == DICT:
        if kind != ptr[shared, DICT_TYPE]:
            return 0
        return match_dict(shared, thing, leaves)
    if operation == NOTHING:
        ptr[leaves, CURSOR] = at + 8
        if thing == ptr[shared, NONE]:
            return 1
        return 0
    if operation == NUMPY:
        if kind != ptr[shared, NDARRAY_TYPE]:
            return 0
        return match_numpy(thing, leaves)
    if operation == SAME:
        ptr[leaves, CURSOR] = at + 16
        if thing == ptr[at, 1]:
            return 1
        return 0
    if operation == SLICE:
        return match_slice(shared, thing, leaves)
    if operation == INDEX or operation == EQUAL:
        return match_index(shared, thing, leaves)
    return match_scalar(shared, thing, leaves)


# --- results --------------------------------------------------------------------------------------


def build_custom(at: ptr, results: ptr, leaves: ptr) -> ptr:
    """Have Python build the tree."""
    count = i64[at, 2]
    args = PyTuple_New(1)
    given = PyList_New(count)
    for i in range(count):
        PyList_SetItem(given, i, ptr[results, i])
    PyTuple_SetItem(args, 0, given)
    i64[leaves, COUNT] = count
    made = PyObject_Call(ptr[at, 1], args, None)
    Py_DecRef(args)
    return made


def build(shared: ptr, results: ptr, leaves: ptr) -> ptr:
    """The tree of the results by the recipe; it takes their references."""
    at = ptr[leaves, CURSOR]
    operation = i64[at, 0]
    if operation == LEAF:
        count = i64[leaves, COUNT]
        i64[leaves, COUNT] = count + 1
        ptr[leaves, CURSOR] = at + 8
        return ptr[results, count]
    if operation == NOTHING:
        ptr[leaves, CURSOR] = at + 8
        Py_IncRef(ptr[shared, NONE])
        return ptr[shared, NONE]
    if operation == TUPLE:
        ptr[leaves, CURSOR] = at + 24
        made: ptr = None
        if ptr[at, 1] == ptr[shared, TUPLE_TYPE]:
            made = PyTuple_New(i64[at, 2])
        else:
            made = PyType_GenericAlloc(ptr[at, 1], i64[at, 2])
        for i in range(i64[at, 2]):
            ptr[made, 3 + i] = build(shared, results, leaves)
        return made
    if operation == LIST:
        ptr[leaves, CURSOR] = at + 16
        row = PyList_New(i64[at, 1])
        for i in range(i64[at, 1]):
            PyList_SetItem(row, i, build(shared, results, leaves))
        return row
    if operation == DICT:
        count = i64[at, 1]
        ptr[leaves, CURSOR] = at + (2 + count) * 8
        table = PyDict_New()
        for i in range(count):
            item = build(shared, results, leaves)
            PyDict_SetItem(table, ptr[at, 2 + i], item)
            Py_DecRef(item)
        return table
    return build_custom(at, results, leaves)


# --- calls ----------------------------------------------------------------------------------------


def is_attribute(thing: ptr, name: ptr, expected: ptr) -> i64:
    """Whether an attribute is a certain object."""
    value = PyObject_GetAttr(thing, name)
    if value is None:
        PyErr_Clear()
        return 0
    Py_DecRef(value)
    if value == expected:
        return 1
    return 0


def slow(function: ptr, args: ptr, kwargs: ptr) -> ptr:
    """The method ``_slow`` of a function."""
    text = stack(8)
    i64[text, 0] = SLOW_TEXT
    method = PyObject_GetAttrString(function, text)
    if method is None:
        return method
    result = PyObject_Call(method, args, kwargs)
    Py_DecRef(method)
    return result


def match_call(shared: ptr, args: ptr, kwargs: ptr, leaves: ptr) -> i64:
    """Whether positional and named arguments are what an entry expects."""
    if match(shared, args, leaves) == 0:
        return 0
    if kwargs is not None:
        return match(shared, kwargs, leaves)
    at = ptr[leaves, CURSOR]
    if i64[at, 1] == 0:
        return 1
    return 0


def call_entry(entry: ptr, shared: ptr, args: ptr, kwargs: ptr, work: ptr) -> ptr:
    """The result of a call by one entry; ``shared`` where it does not fit."""
    program = ptr[entry, ENTRY_PROGRAM]
    room = i64[program, ARGUMENTS]
    leaves = work
    i64[leaves, COUNT] = 0
    i64[leaves, ROOM] = room
    ptr[leaves, CURSOR] = ptr[entry, ENTRY_RECIPE]
    if match_call(shared, args, kwargs, leaves) == 0:
        return shared
    i64[entry, ENTRY_HITS] += 1
    results = work + (FOUND + 3 * room) * 8
    if run(program, leaves + FOUND * 8, leaves + (FOUND + room) * 8, results) != 0:
        return None
    i64[leaves, COUNT] = 0
    ptr[leaves, CURSOR] = ptr[entry, ENTRY_RESULT]
    return build(shared, results, leaves)


def call_one(entry: ptr, shared: ptr, args: ptr, kwargs: ptr) -> ptr:
    program = ptr[entry, ENTRY_PROGRAM]
    words = FOUND + 3 * i64[program, ARGUMENTS] + i64[program, RESULT_COUNT]
    if words <= SMALL:
        return call_entry(entry, shared, args, kwargs, stack(SMALL * 8))
    work = malloc(words * 8)
    if work is None:
        return PyErr_NoMemory()
    result = call_entry(entry, shared, args, kwargs, work)
    free(work)
    return result


def context_here(shared: ptr) -> ptr:
    """This thread's knobs, to be compared only; None while something is traced."""
    state = ptr[shared, STATE]
    if is_attribute(state, ptr[shared, NAME_TRACE], ptr[shared, EVAL_TRACE]) == 0:
        return None
    if is_attribute(state, ptr[shared, NAME_AXES], ptr[shared, EMPTY]) == 0:
        return None
    context = PyObject_GetAttr(ptr[shared, KNOBS], ptr[shared, NAME_CONTEXT])
    if context is None:
        PyErr_Clear()
        return None
    Py_DecRef(context)
    return context


def call(function: ptr, args: ptr, kwargs: ptr) -> ptr:
    """A call of a compiled function, from Python."""
    entries = ptr[function, SLOT_ENTRIES]
    if entries is None:
        return slow(function, args, kwargs)
    table = ptr[ptr[entries, 3], 2]
    shared = ptr[table, 0]
    # other threads may give the function other entries while this one looks and runs
    Py_IncRef(entries)
    result = shared
    context = context_here(shared)
    i = 0
    while context is not None and result == shared and i < i64[table, 1]:
        entry = table + (FIRST_ENTRY + i * ENTRY_WORDS) * 8
        if ptr[entry, ENTRY_CONTEXT] == context:
            result = call_one(entry, shared, args, kwargs)
        i += 1
    Py_DecRef(entries)
    if result == shared:
        return slow(function, args, kwargs)
    return result


def complain(program: ptr, what: i64, number: i64) -> ptr:
    """Have Python raise what is wrong with an argument."""
    args = PyTuple_New(2)
    PyTuple_SetItem(args, 0, PyLong_FromLongLong(what))
    PyTuple_SetItem(args, 1, PyLong_FromLongLong(number))
    result = PyObject_Call(ptr[program, HOSTS], args, None)
    Py_DecRef(args)
    return result


def call_leaves(program: ptr, args: ptr, count: i64, work: ptr) -> ptr:
    """The results, as a list, of a program on arrays and NumPy arrays of the right types."""
    shared = ptr[program, SHARED]
    results = work + 2 * count * 8
    for i in range(count):
        thing = ptr[args, i]
        owner = thing
        if ptr[thing, 1] == ptr[shared, ARRAY_TYPE]:
            owner = ptr[thing, SLOT_OWNER]
        if ptr[owner, 1] != ptr[shared, BLOCK_TYPE] and ptr[owner, 1] != ptr[shared, NDARRAY_TYPE]:
            return complain(program, -2, i)
        ptr[work, i] = ptr[owner, 2]
        ptr[work, count + i] = None if owner == thing else owner
    if run(program, work, work + count * 8, results) != 0:
        return None
    made = PyList_New(i64[program, RESULT_COUNT])
    for i in range(i64[program, RESULT_COUNT]):
        PyList_SetItem(made, i, ptr[results, i])
    return made


def call_flat(table: ptr, args: ptr, count: i64) -> ptr:
    """A program called with its leaves, from Python; ``table`` is (array of its words, ...)."""
    program = ptr[ptr[table, 3], 2]
    words = 2 * count + i64[program, RESULT_COUNT]
    if words <= SMALL:
        return call_leaves(program, args, count, stack(SMALL * 8))
    work = malloc(words * 8)
    if work is None:
        return PyErr_NoMemory()
    result = call_leaves(program, args, count, work)
    free(work)
    return result


STUBS = (
    *walker.STUBS,
    class_of,
    bytes_of,
    new_piece,
    allocate,
    release,
    trim,
    new_block,
    block_dealloc,
    block_buffer,
    box,
    new_array,
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
    found,
    match_scalar,
    match_index,
    match_slice,
    match_numpy,
    match_dict,
    match,
    build_custom,
    build,
    is_attribute,
    slow,
    match_call,
    complain,
    call_entry,
    call_one,
    context_here,
    call,
    call_leaves,
    call_flat,
)
