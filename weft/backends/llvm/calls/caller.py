"""The way into compiled code, as native code: arguments matched, memory found, results boxed.

``call`` stands in a type's ``tp_call``. It compares the arguments with what each entry of a
function expects, runs the program of the first that fits, and builds the tree of its results;
anything else goes to the function's method ``_slow``. ``run`` is what both ways share. Everything
they know comes through tables, so the code itself holds no addresses.
"""

from __future__ import annotations

from weft.backends.llvm.calls import tables
from weft.backends.llvm.calls.blocks import HEADER_WORDS
from weft.backends.llvm.calls.running import are_plugins, references, run, run_donating
from weft.backends.llvm.native import capi
from weft.backends.llvm.native.asking import ask
from weft.kernel.kinds import f32, f64, i32, i64, ptr, stack, static, u8, void

# --- arguments ------------------------------------------------------------------------------------


def found(leaves: ptr, pointer: ptr, owner: ptr, words: i64) -> i64:
    """Note a leaf and go on in the recipe."""
    count = i64[leaves, tables.COUNT]
    ptr[leaves, tables.FOUND + count] = pointer
    ptr[leaves, tables.FOUND + i64[leaves, tables.ROOM] + count] = owner
    i64[leaves, tables.COUNT] = count + 1
    ptr[leaves, tables.CURSOR] = ptr[leaves, tables.CURSOR] + words * 8
    return 1


def match_array(
    shared: ptr,
    thing: ptr,
    expected: ptr,
    leaves: ptr,
    words: i64,
    *,
    SLOT_OWNER: static,
    SLOT_TYPE: static,
) -> i64:
    """An array of the type expected."""
    if ptr[thing, 1] != ptr[shared, tables.ARRAY_TYPE] or ptr[thing, SLOT_TYPE] != expected:
        return 0
    owner = ptr[thing, SLOT_OWNER]
    kind = ptr[owner, 1]
    pointer: ptr = None
    if kind == ptr[shared, tables.BLOCK_TYPE] or kind == ptr[shared, tables.NDARRAY_TYPE]:
        pointer = ptr[owner, 2]
    elif kind == ptr[shared, tables.DEVICE_TYPE] or kind == ptr[shared, tables.PLUGIN_TYPE]:
        pointer = ptr[owner, 2]
    elif kind == ptr[shared, tables.BUFFER_TYPE]:
        pointer = ptr(capi.PyLong_AsLongLong(ptr[owner, i64[shared, tables.BUFFER_ADDRESS]]))
    elif kind == ptr[shared, tables.PLUGIN_BUFFER]:
        pointer = ptr(capi.PyLong_AsLongLong(ptr[owner, i64[shared, tables.PLUGIN_HANDLE]]))
    elif kind == ptr[shared, tables.PARTS_TYPE] and are_plugins(shared, owner) != 0:
        pointer = owner
    else:
        return 0
    ptr[leaves, tables.FOUND + 2 * i64[leaves, tables.ROOM] + i64[leaves, tables.COUNT]] = thing
    return found(leaves, pointer, owner, words)


def match_reference(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A mutable reference, which stands for the array that it holds."""
    at = ptr[leaves, tables.CURSOR]
    if ptr[thing, 1] != ptr[at, 1] or ptr[thing, i64[at, 2]] != ptr[at, 3]:
        return 0
    ptr[leaves, tables.FOUND + 3 * i64[leaves, tables.ROOM] + i64[leaves, tables.COUNT]] = thing
    return match_array(shared, ptr[thing, i64[at, 4]], ptr[at, 5], leaves, 6)


def match_scalar(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A truth or a float of Python's, as the machine number that stands for it."""
    at = ptr[leaves, tables.CURSOR]
    place = leaves + (tables.FOUND + 2 * i64[leaves, tables.ROOM] + i64[leaves, tables.COUNT]) * 8
    if i64[at, 0] == tables.BOOLEAN:
        if thing != ptr[shared, tables.TRUE] and thing != ptr[shared, tables.FALSE]:
            return 0
        u8[place, 0] = u8(1 if thing == ptr[shared, tables.TRUE] else 0)
    else:
        if ptr[thing, 1] != ptr[shared, tables.FLOAT_TYPE]:
            return 0
        if i64[at, 1] == tables.SINGLE:
            f32[place, 0] = f32(capi.PyFloat_AsDouble(thing))
        else:
            f64[place, 0] = capi.PyFloat_AsDouble(thing)
    return found(leaves, place, None, 2)


def match_generic(thing: ptr, leaves: ptr) -> i64:
    """A NumPy scalar of the type expected, read where it lies, or as a number of half its bits."""
    at = ptr[leaves, tables.CURSOR]
    code = i64[at, 2]
    if ptr[thing, 1] != ptr[at, 1]:
        return 0
    if code == tables.AS_IS:
        return found(leaves, thing + tables.SCALAR_VALUE * 8, None, 3)
    place = leaves + (tables.FOUND + 2 * i64[leaves, tables.ROOM] + i64[leaves, tables.COUNT]) * 8
    if code == tables.SINGLE:
        f32[place, 0] = f32(f64[thing, tables.SCALAR_VALUE])
    else:
        value = i64[thing, tables.SCALAR_VALUE]
        if value > 2147483647 or value < -2147483648:
            return 0
        i32[place, 0] = i32(value)
    return found(leaves, place, None, 3)


def match_index(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A whole number in a range, as an operand; or one that is part of the program."""
    at = ptr[leaves, tables.CURSOR]
    if ptr[thing, 1] != ptr[shared, tables.INT_TYPE]:
        return 0
    value = capi.PyLong_AsLongLong(thing)
    if value == -1 and capi.PyErr_Occurred() is not None:
        capi.PyErr_Clear()
        return 0
    if i64[at, 0] == tables.EQUAL:
        ptr[leaves, tables.CURSOR] = at + 16
        if value == i64[at, 1]:
            return 1
        return 0
    if value < i64[at, 1] or value > i64[at, 2]:
        return 0
    place = leaves + (tables.FOUND + 2 * i64[leaves, tables.ROOM] + i64[leaves, tables.COUNT]) * 8
    i64[place, 0] = value  # little-endian: an operand of 32 bits reads its lower half
    return found(leaves, place, None, 3)


def match_slice(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A slice with the same bounds."""
    if ptr[thing, 1] != ptr[shared, tables.SLICE_TYPE]:
        return 0
    ptr[leaves, tables.CURSOR] = ptr[leaves, tables.CURSOR] + 8
    for i in range(3):
        if match(shared, ptr[thing, 2 + i], leaves) == 0:
            return 0
    return 1


def match_numpy(thing: ptr, leaves: ptr) -> i64:
    """A NumPy array of the type expected, read where it lies."""
    at = ptr[leaves, tables.CURSOR]
    ndim = i64[at, 2]
    if ptr[thing, 7] != ptr[at, 1] or i64(i32[thing, 6]) != ndim:
        return 0
    if i32[thing, 16] & tables.CONTIGUOUS_ALIGNED != tables.CONTIGUOUS_ALIGNED:
        return 0
    dims = ptr[thing, 4]
    for i in range(ndim):
        if i64[dims, i] != i64[at, 3 + i]:
            return 0
    return found(leaves, ptr[thing, 2], thing + 1, 3 + ndim)


def match_dict(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    at = ptr[leaves, tables.CURSOR]
    count = i64[at, 1]
    if capi.PyDict_Size(thing) != count:
        return 0
    if ptr[leaves, tables.HELD] is not None:
        capi.PyList_Append(ptr[leaves, tables.HELD], thing)
    ptr[leaves, tables.CURSOR] = at + (2 + count) * 8
    for i in range(count):
        item = capi.PyDict_GetItemWithError(thing, ptr[at, 2 + i])
        if item is None:
            if capi.PyErr_Occurred() is not None:
                capi.PyErr_Clear()
            return 0
        if match(shared, item, leaves) == 0:
            return 0
    return 1


def match_row(shared: ptr, thing: ptr, leaves: ptr, *, SLOT_ITEMS: static) -> i64:
    """A tuple, or a list, which may change meanwhile."""
    at = ptr[leaves, tables.CURSOR]
    count = i64[at, 2]
    if ptr[thing, 1] != ptr[at, 1] or i64[thing, 2] != count:
        return 0
    if ptr[leaves, tables.HELD] is not None:
        capi.PyList_Append(ptr[leaves, tables.HELD], thing)
    ptr[leaves, tables.CURSOR] = at + 24
    if i64[at, 0] == tables.TUPLE:
        for i in range(count):
            if match(shared, ptr[thing, SLOT_ITEMS + i], leaves) == 0:
                return 0
        return 1
    for i in range(count):
        if i64[thing, 2] != count or match(shared, ptr[ptr[thing, 3], i], leaves) == 0:
            return 0
    return 1


def match_fields(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """An object by its attributes: those that are part of the program, then those with leaves."""
    at = ptr[leaves, tables.CURSOR]
    if ptr[thing, 1] != ptr[at, 1]:
        return 0
    if ptr[leaves, tables.HELD] is not None:
        capi.PyList_Append(ptr[leaves, tables.HELD], thing)
    count = i64[at, 2]
    ptr[leaves, tables.CURSOR] = at + (3 + count) * 8
    for i in range(count):
        value = capi.PyObject_GenericGetAttr(thing, ptr[at, 3 + i])
        if value is None:
            capi.PyErr_Clear()
            return 0
        kept = references(value)  # 1 of what was made for this look alone
        capi.Py_DecRef(value)
        if kept == 1 or match(shared, value, leaves) == 0:
            return 0
    return 1


def match_called(shared: ptr, thing: ptr, leaves: ptr, *, SLOT_ITEMS: static) -> i64:
    """An object that a Python function flattens into children and auxiliary data."""
    at = ptr[leaves, tables.CURSOR]
    if ptr[thing, 1] != ptr[at, 1]:
        return 0
    pairs = ptr[leaves, tables.PAIRS]
    number = i64[leaves, tables.READ]
    i64[leaves, tables.READ] = number + 1
    if number == i64[pairs, 2]:
        made = capi.PyObject_CallOneArg(ptr[at, 2], thing)
        if made is None:
            capi.PyErr_Clear()
            return 0
        capi.PyList_Append(pairs, made)
        capi.Py_DecRef(made)
    pair = ptr[ptr[pairs, 3], number]
    ptr[leaves, tables.CURSOR] = at + 24
    if match(shared, ptr[pair, SLOT_ITEMS + 1], leaves) == 0:
        return 0
    return match(shared, ptr[pair, SLOT_ITEMS], leaves)


def match_value(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """A text or a float that is part of the program."""
    at = ptr[leaves, tables.CURSOR]
    ptr[leaves, tables.CURSOR] = at + 16
    if i64[at, 0] == tables.BITS:
        if ptr[thing, 1] == ptr[shared, tables.FLOAT_TYPE] and i64[thing, 2] == i64[at, 1]:
            return 1
        return 0
    text = ptr[at, 1]
    if thing == text:
        return 1
    if ptr[thing, 1] != ptr[text, 1] or capi.PyUnicode_Compare(thing, text) != 0:
        return 0
    return 1


def match(shared: ptr, thing: ptr, leaves: ptr) -> i64:
    """Whether an object is what the recipe expects; its leaves are noted."""
    at = ptr[leaves, tables.CURSOR]
    operation = i64[at, 0]
    kind = ptr[thing, 1]
    if operation == tables.LEAF:
        return match_array(shared, thing, ptr[at, 1], leaves, 2)
    if operation == tables.TUPLE or operation == tables.LIST:
        return match_row(shared, thing, leaves)
    if operation == tables.DICT:
        if kind != ptr[shared, tables.DICT_TYPE]:
            return 0
        return match_dict(shared, thing, leaves)
    if operation == tables.NOTHING:
        ptr[leaves, tables.CURSOR] = at + 8
        if thing == ptr[shared, tables.NONE]:
            return 1
        return 0
    if operation == tables.NUMPY:
        if kind != ptr[shared, tables.NDARRAY_TYPE]:
            return 0
        return match_numpy(thing, leaves)
    if operation == tables.SAME:
        ptr[leaves, tables.CURSOR] = at + 16
        if thing == ptr[at, 1]:
            return 1
        return 0
    if operation == tables.FIELDS:
        return match_fields(shared, thing, leaves)
    if operation == tables.CALLED:
        return match_called(shared, thing, leaves)
    if operation == tables.TEXT or operation == tables.BITS:
        return match_value(shared, thing, leaves)
    if operation == tables.SLICE:
        return match_slice(shared, thing, leaves)
    if operation == tables.REFERENCE:
        return match_reference(shared, thing, leaves)
    if operation == tables.GENERIC:
        return match_generic(thing, leaves)
    if operation == tables.INDEX or operation == tables.EQUAL:
        return match_index(shared, thing, leaves)
    return match_scalar(shared, thing, leaves)


# --- results --------------------------------------------------------------------------------------


def build_called(shared: ptr, results: ptr, leaves: ptr) -> ptr:
    """Have a function of Python's build a container from its children."""
    at = ptr[leaves, tables.CURSOR]
    count = i64[at, 3]
    ptr[leaves, tables.CURSOR] = at + 32
    children = capi.PyTuple_New(count)
    for i in range(count):
        capi.PyTuple_SetItem(children, i, build(shared, results, leaves))
    if i64[leaves, tables.FAILED] != 0:
        return children
    args = capi.PyTuple_New(2)
    capi.Py_IncRef(ptr[at, 2])
    capi.PyTuple_SetItem(args, 0, ptr[at, 2])
    capi.PyTuple_SetItem(args, 1, children)
    made = capi.PyObject_Call(ptr[at, 1], args, None)
    if made is None:
        # what holds it is built nevertheless, and dropped as a whole
        i64[leaves, tables.FAILED] = 1
        return args
    capi.Py_DecRef(args)
    return made


def build(shared: ptr, results: ptr, leaves: ptr, *, SLOT_ITEMS: static) -> ptr:
    """The tree of the results by the recipe; it takes their references."""
    at = ptr[leaves, tables.CURSOR]
    operation = i64[at, 0]
    if operation == tables.LEAF:
        count = i64[leaves, tables.COUNT]
        i64[leaves, tables.COUNT] = count + 1
        ptr[leaves, tables.CURSOR] = at + 8
        return ptr[results, count]
    if operation == tables.NOTHING:
        ptr[leaves, tables.CURSOR] = at + 8
        capi.Py_IncRef(ptr[shared, tables.NONE])
        return ptr[shared, tables.NONE]
    if operation == tables.TUPLE:
        ptr[leaves, tables.CURSOR] = at + 24
        made: ptr = None
        if ptr[at, 1] == ptr[shared, tables.TUPLE_TYPE]:
            made = capi.PyTuple_New(i64[at, 2])
        else:
            made = capi.PyType_GenericAlloc(ptr[at, 1], i64[at, 2])
            if HEADER_WORDS < SLOT_ITEMS:
                i64[made, HEADER_WORDS] = -1  # its hash is not known yet
        for i in range(i64[at, 2]):
            ptr[made, SLOT_ITEMS + i] = build(shared, results, leaves)
        return made
    if operation == tables.LIST:
        ptr[leaves, tables.CURSOR] = at + 24
        row = capi.PyList_New(i64[at, 2])
        for i in range(i64[at, 2]):
            capi.PyList_SetItem(row, i, build(shared, results, leaves))
        return row
    if operation == tables.DICT:
        count = i64[at, 1]
        ptr[leaves, tables.CURSOR] = at + (2 + count) * 8
        table = capi.PyDict_New()
        for i in range(count):
            item = build(shared, results, leaves)
            capi.PyDict_SetItem(table, ptr[at, 2 + i], item)
            capi.Py_DecRef(item)
        return table
    return build_called(shared, results, leaves)


# --- calls ----------------------------------------------------------------------------------------


def is_attribute(thing: ptr, name: ptr, expected: ptr) -> i64:
    """Whether an attribute is a certain object."""
    value = capi.PyObject_GetAttr(thing, name)
    if value is None:
        capi.PyErr_Clear()
        return 0
    capi.Py_DecRef(value)
    if value == expected:
        return 1
    return 0


def slow(function: ptr, args: ptr, kwargs: ptr) -> ptr:
    """The method ``_slow`` of a function."""
    text = stack(8)
    i64[text, 0] = tables.SLOW_TEXT
    method = capi.PyObject_GetAttrString(function, text)
    if method is None:
        return method
    result = capi.PyObject_Call(method, args, kwargs)
    capi.Py_DecRef(method)
    return result


def match_call(shared: ptr, args: ptr, kwargs: ptr, leaves: ptr) -> i64:
    """Whether positional and named arguments are what an entry expects.

    What the function closes over comes first, by itself.
    """
    while i64[ptr[leaves, tables.CURSOR], 0] == tables.FIXED:
        thing = ptr[ptr[leaves, tables.CURSOR], 1]
        ptr[leaves, tables.CURSOR] = ptr[leaves, tables.CURSOR] + 16
        if match(shared, thing, leaves) == 0:
            return 0
    if match(shared, args, leaves) == 0:
        return 0
    if kwargs is not None:
        return match(shared, kwargs, leaves)
    at = ptr[leaves, tables.CURSOR]
    if i64[at, 1] == 0:
        return 1
    return 0


def match_twice(shared: ptr, recipe: ptr, args: ptr, kwargs: ptr, leaves: ptr) -> i64:
    """The same where functions of users take containers apart.

    They do so first. Python runs then, and other threads with it, so leaves are looked for once
    more, in what the functions have given.
    """
    ptr[leaves, tables.PAIRS] = capi.PyList_New(0)
    ptr[leaves, tables.HELD] = capi.PyList_New(0)
    for _ in range(2):
        i64[leaves, tables.COUNT] = 0
        i64[leaves, tables.READ] = 0
        ptr[leaves, tables.CURSOR] = recipe
        if match_call(shared, args, kwargs, leaves) == 0:
            return 0
    return 1


def let_go_twice(leaves: ptr) -> void:
    """Drop what was held while functions of users ran."""
    capi.Py_DecRef(ptr[leaves, tables.HELD])
    capi.Py_DecRef(ptr[leaves, tables.PAIRS])


def call_entry(entry: ptr, shared: ptr, args: ptr, kwargs: ptr, work: ptr) -> ptr:
    """The result of a call by one entry; ``shared`` where it does not fit."""
    program = ptr[entry, tables.ENTRY_PROGRAM]
    room = i64[program, tables.ARGUMENTS]
    leaves = work
    recipe = ptr[entry, tables.ENTRY_RECIPE]
    i64[leaves, tables.COUNT] = 0
    i64[leaves, tables.ROOM] = room
    ptr[leaves, tables.CURSOR] = recipe
    ptr[leaves, tables.HELD] = None
    if i64[recipe, 0] == tables.TWICE:
        if match_twice(shared, recipe + 8, args, kwargs, leaves) == 0:
            let_go_twice(leaves)
            return shared
    elif match_call(shared, args, kwargs, leaves) == 0:
        return shared
    outcome = ptr[entry, tables.ENTRY_RESULT]
    pointers = leaves + tables.FOUND * 8
    result: ptr = None
    if i64[outcome, 0] == tables.GIVEN:
        i64[entry, tables.ENTRY_HITS] += 1
        result = ptr[pointers, 2 * room + i64[outcome, 1]]
        capi.Py_IncRef(result)
    else:
        donated = ptr[entry, tables.ENTRY_DONATED]
        results = pointers + 4 * room * 8
        status = 0
        if donated is None:
            status = run(program, pointers, pointers + room * 8, results)
        else:
            status = run_donating(program, donated, pointers, results)
        if status == tables.SEEN:
            result = shared
        else:
            i64[entry, tables.ENTRY_HITS] += 1
            if status == 0:
                i64[leaves, tables.COUNT] = 0
                i64[leaves, tables.FAILED] = 0
                ptr[leaves, tables.CURSOR] = outcome
                result = build(shared, results, leaves)
                if i64[leaves, tables.FAILED] != 0:
                    capi.Py_DecRef(result)
                    result = None
    if ptr[leaves, tables.HELD] is not None:
        let_go_twice(leaves)
    return result


def call_one(entry: ptr, shared: ptr, args: ptr, kwargs: ptr) -> ptr:
    program = ptr[entry, tables.ENTRY_PROGRAM]
    words = tables.FOUND + 4 * i64[program, tables.ARGUMENTS] + i64[program, tables.RUN_WORDS]
    if words <= tables.STACK_WORDS:
        return call_entry(entry, shared, args, kwargs, stack(tables.STACK_WORDS * 8))
    work = capi.malloc(words * 8)
    if work is None:
        return capi.PyErr_NoMemory()
    result = call_entry(entry, shared, args, kwargs, work)
    capi.free(work)
    return result


def context_here(shared: ptr) -> ptr:
    """This thread's knobs, to be compared only; None while something is traced."""
    state = ptr[shared, tables.STATE]
    if is_attribute(state, ptr[shared, tables.NAME_TRACE], ptr[shared, tables.EVAL_TRACE]) == 0:
        return None
    if is_attribute(state, ptr[shared, tables.NAME_AXES], ptr[shared, tables.EMPTY]) == 0:
        return None
    context = capi.PyObject_GetAttr(ptr[shared, tables.KNOBS], ptr[shared, tables.NAME_CONTEXT])
    if context is None:
        capi.PyErr_Clear()
        return None
    capi.Py_DecRef(context)
    return context


def call(function: ptr, args: ptr, kwargs: ptr, *, SLOT_ENTRIES: static, SLOT_ITEMS: static) -> ptr:
    """A call of a compiled function, from Python."""
    entries = ptr[function, SLOT_ENTRIES]
    if entries is None:
        return slow(function, args, kwargs)
    table = ptr[ptr[entries, SLOT_ITEMS], 2]
    shared = ptr[table, 0]
    # other threads may give the function other entries while this one looks and runs
    capi.Py_IncRef(entries)
    result = shared
    context = context_here(shared)
    i = 0
    while context is not None and result == shared and i < i64[table, 1]:
        entry = table + (tables.FIRST_ENTRY + i * tables.ENTRY_WORDS) * 8
        if ptr[entry, tables.ENTRY_CONTEXT] == context:
            result = call_one(entry, shared, args, kwargs)
        i += 1
    capi.Py_DecRef(entries)
    if result == shared:
        return slow(function, args, kwargs)
    return result


def call_leaves(program: ptr, args: ptr, count: i64, work: ptr, *, SLOT_OWNER: static) -> ptr:
    """The results, as a list, of a program on arrays and NumPy arrays of the right types."""
    shared = ptr[program, tables.SHARED]
    results = work + 2 * count * 8
    for i in range(count):
        thing = ptr[args, i]
        owner = thing
        if ptr[thing, 1] == ptr[shared, tables.ARRAY_TYPE]:
            owner = ptr[thing, SLOT_OWNER]
        if (
            ptr[owner, 1] != ptr[shared, tables.BLOCK_TYPE]
            and ptr[owner, 1] != ptr[shared, tables.NDARRAY_TYPE]
        ):
            ask(ptr[program, tables.HOSTS], -2, i64(thing))
            return None
        ptr[work, i] = ptr[owner, 2]
        ptr[work, count + i] = None if owner == thing else owner
    if run(program, work, work + count * 8, results) != 0:
        return None
    made = capi.PyList_New(i64[program, tables.RESULT_COUNT])
    for i in range(i64[program, tables.RESULT_COUNT]):
        capi.PyList_SetItem(made, i, ptr[results, i])
    return made


def call_flat(table: ptr, args: ptr, count: i64, *, SLOT_ITEMS: static) -> ptr:
    """A program called with its leaves, from Python; ``table`` is (array of its words, ...)."""
    program = ptr[ptr[table, SLOT_ITEMS], 2]
    words = 2 * count + i64[program, tables.RUN_WORDS]
    if words <= tables.STACK_WORDS:
        return call_leaves(program, args, count, stack(tables.STACK_WORDS * 8))
    work = capi.malloc(words * 8)
    if work is None:
        return capi.PyErr_NoMemory()
    result = call_leaves(program, args, count, work)
    capi.free(work)
    return result
