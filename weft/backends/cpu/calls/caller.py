"""The way into compiled code, as native code: arguments matched, memory found, results boxed.

``call`` stands in a type's ``tp_call``. It compares the arguments with what each entry of a
function expects, runs the program of the first that fits, and builds the tree of its results;
anything else goes to the function's method ``_slow``. ``run`` is what both ways share. Everything
they know comes through tables, so the code itself holds no addresses.
"""

from __future__ import annotations

from weft.backends.cpu.calls import abroad, blocks, running
from weft.backends.cpu.calls.blocks import (
    SLOT_ENTRIES,
    SLOT_OWNER,
    SLOT_TYPE,
    Py_IncRef,
    PyErr_NoMemory,
    PyType_GenericAlloc,
    free,
)
from weft.backends.cpu.calls.running import (
    PyErr_Clear,
    PyLong_AsLongLong,
    PyObject_GetAttr,
    malloc,
    run,
    run_donating,
)
from weft.backends.cpu.calls.tables import (
    ARGUMENTS,
    ARRAY_TYPE,
    AS_IS,
    BLOCK_TYPE,
    BOOLEAN,
    BUFFER_ADDRESS,
    BUFFER_TYPE,
    CONTIGUOUS_ALIGNED,
    COUNT,
    CURSOR,
    DEVICE_TYPE,
    DICT,
    DICT_TYPE,
    EMPTY,
    ENTRY_CONTEXT,
    ENTRY_DONATED,
    ENTRY_HITS,
    ENTRY_PROGRAM,
    ENTRY_RECIPE,
    ENTRY_RESULT,
    ENTRY_WORDS,
    EQUAL,
    EVAL_TRACE,
    FALSE,
    FIRST_ENTRY,
    FIXED,
    FLOAT_TYPE,
    FLOATING,
    FOUND,
    GENERIC,
    GIVEN,
    HOSTS,
    INDEX,
    INT32,
    INT_TYPE,
    KNOBS,
    LEAF,
    LIST,
    LIST_TYPE,
    NAME_AXES,
    NAME_CONTEXT,
    NAME_TRACE,
    NDARRAY_TYPE,
    NONE,
    NOTHING,
    NUMPY,
    REFERENCE,
    RESULT_COUNT,
    ROOM,
    SAME,
    SCALAR_VALUE,
    SEEN,
    SHARED,
    SINGLE,
    SLICE,
    SLICE_TYPE,
    SLOW_TEXT,
    STACK_RUN_WORDS,
    STATE,
    TRUE,
    TUPLE,
    TUPLE_TYPE,
)
from weft.backends.cpu.native import walker
from weft.backends.cpu.native.walker import (
    Py_DecRef,
    PyLong_FromLongLong,
    PyObject_Call,
    PyTuple_New,
    PyTuple_SetItem,
)
from weft.kernel.kinds import External, f32, f64, i32, i64, ptr, stack, u8

PyObject_GetAttrString = External(ptr, (ptr, ptr))
PyErr_Occurred = External(ptr, ())
PyFloat_AsDouble = External(f64, (ptr,))
PyDict_Size = External(i64, (ptr,))
PyDict_GetItemWithError = External(ptr, (ptr, ptr))
PyDict_New = External(ptr, ())
PyDict_SetItem = External(i32, (ptr, ptr, ptr))
PyList_New = External(ptr, (i64,))
PyList_SetItem = External(i32, (ptr, i64, ptr))

# --- arguments ------------------------------------------------------------------------------------


def found(leaves: ptr, pointer: ptr, owner: ptr, words: i64) -> i64:
    """Note a leaf and go on in the recipe."""
    count = i64[leaves, COUNT]
    ptr[leaves, FOUND + count] = pointer
    ptr[leaves, FOUND + i64[leaves, ROOM] + count] = owner
    i64[leaves, COUNT] = count + 1
    ptr[leaves, CURSOR] = ptr[leaves, CURSOR] + words * 8
    return 1


def match_array(shared: ptr, thing: ptr, expected: ptr, leaves: ptr, words: i64) -> i64:
    """An array of the type expected."""
    if ptr[thing, 1] != ptr[shared, ARRAY_TYPE] or ptr[thing, SLOT_TYPE] != expected:
        return 0
    owner = ptr[thing, SLOT_OWNER]
    kind = ptr[owner, 1]
    pointer: ptr = None
    if kind == ptr[shared, BLOCK_TYPE] or kind == ptr[shared, NDARRAY_TYPE]:
        pointer = ptr[owner, 2]
    elif kind == ptr[shared, DEVICE_TYPE]:
        pointer = ptr[owner, 2]
    elif kind == ptr[shared, BUFFER_TYPE]:
        pointer = ptr(PyLong_AsLongLong(ptr[owner, i64[shared, BUFFER_ADDRESS]]))
    else:
        return 0
    ptr[leaves, FOUND + 2 * i64[leaves, ROOM] + i64[leaves, COUNT]] = thing
    return found(leaves, pointer, owner, words)


def match_reference(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A mutable reference, which stands for the array that it holds."""
    at = ptr[leaves, CURSOR]
    if ptr[thing, 1] != ptr[at, 1] or ptr[thing, i64[at, 2]] != ptr[at, 3]:
        return 0
    ptr[leaves, FOUND + 3 * i64[leaves, ROOM] + i64[leaves, COUNT]] = thing
    return match_array(shared, ptr[thing, i64[at, 4]], ptr[at, 5], leaves, 6)


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


def match_generic(thing: ptr, leaves: ptr) -> i64:
    """A NumPy scalar of the type expected, read where it lies, or as a number of half its bits."""
    at = ptr[leaves, CURSOR]
    code = i64[at, 2]
    if ptr[thing, 1] != ptr[at, 1]:
        return 0
    if code == AS_IS:
        return found(leaves, thing + SCALAR_VALUE * 8, None, 3)
    place = leaves + (FOUND + 2 * i64[leaves, ROOM] + i64[leaves, COUNT]) * 8
    if code == SINGLE:
        f32[place, 0] = f32(f64[thing, SCALAR_VALUE])
    else:
        value = i64[thing, SCALAR_VALUE]
        if value > 2147483647 or value < -2147483648:
            return 0
        i32[place, 0] = i32(value)
    return found(leaves, place, None, 3)


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
        return match_array(shared, thing, ptr[at, 1], leaves, 2)
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
    if operation == REFERENCE:
        return match_reference(shared, thing, leaves)
    if operation == GENERIC:
        return match_generic(thing, leaves)
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
    """Whether positional and named arguments are what an entry expects.

    What the function closes over comes first, by itself.
    """
    while i64[ptr[leaves, CURSOR], 0] == FIXED:
        thing = ptr[ptr[leaves, CURSOR], 1]
        ptr[leaves, CURSOR] = ptr[leaves, CURSOR] + 16
        if match(shared, thing, leaves) == 0:
            return 0
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
    outcome = ptr[entry, ENTRY_RESULT]
    if i64[outcome, 0] == GIVEN:
        i64[entry, ENTRY_HITS] += 1
        same = ptr[leaves, FOUND + 2 * room + i64[outcome, 1]]
        Py_IncRef(same)
        return same
    donated = ptr[entry, ENTRY_DONATED]
    pointers = leaves + FOUND * 8
    results = pointers + 4 * room * 8
    status = 0
    if donated is None:
        status = run(program, pointers, pointers + room * 8, results)
    else:
        status = run_donating(program, donated, pointers, results)
        if status == SEEN:
            return shared
    i64[entry, ENTRY_HITS] += 1
    if status != 0:
        return None
    i64[leaves, COUNT] = 0
    ptr[leaves, CURSOR] = outcome
    return build(shared, results, leaves)


def call_one(entry: ptr, shared: ptr, args: ptr, kwargs: ptr) -> ptr:
    program = ptr[entry, ENTRY_PROGRAM]
    words = FOUND + 4 * i64[program, ARGUMENTS] + i64[program, RESULT_COUNT]
    if words <= STACK_RUN_WORDS:
        return call_entry(entry, shared, args, kwargs, stack(STACK_RUN_WORDS * 8))
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
    if words <= STACK_RUN_WORDS:
        return call_leaves(program, args, count, stack(STACK_RUN_WORDS * 8))
    work = malloc(words * 8)
    if work is None:
        return PyErr_NoMemory()
    result = call_leaves(program, args, count, work)
    free(work)
    return result


STUBS = (
    *walker.STUBS,
    *blocks.STUBS,
    *abroad.STUBS,
    *running.STUBS,
    found,
    match_array,
    match_reference,
    match_scalar,
    match_generic,
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
    call_entry,
    call_one,
    context_here,
    call,
    complain,
    call_leaves,
    call_flat,
)
