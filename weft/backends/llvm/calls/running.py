"""A program run once, as native code: its results' memory, the walk through its nodes, boxes.

Arguments that are donated lose their memory to it; ``donation.py`` says the same in Python.
"""

from __future__ import annotations

from weft.backends.llvm.calls import tables, walker
from weft.backends.llvm.calls.blocks import allocate, box, class_of, new_array, new_block, release
from weft.backends.llvm.native import capi
from weft.backends.llvm.native.asking import ask, tell
from weft.kernel.kinds import i32, i64, invoke, ptr, static, void


def helpers_now(shared: ptr) -> i64:
    """How many threads may help here; the pool is made ready for them. -1 if Python raised."""
    wanted = i64[shared, tables.DEFAULT]
    given = capi.PyObject_GetAttr(ptr[shared, tables.KNOBS], ptr[shared, tables.NAME_THREADS])
    if given is None:
        capi.PyErr_Clear()
    else:
        if given != ptr[shared, tables.NONE]:
            wanted = capi.PyLong_AsLongLong(given) - 1
        capi.Py_DecRef(given)
    if wanted > i64[shared, tables.READY] or i64[shared, tables.READY] < 0:
        if tell(ptr[shared, tables.PREPARE], wanted) != 0:
            return -1
        if wanted > i64[shared, tables.READY]:
            return 0
    return wanted


def fresh(program: ptr, row: ptr) -> ptr:
    """Memory for a result; None where there is none."""
    device = ptr[program, tables.DEVICE]
    if device is not None:
        return invoke(ptr, ptr[device, tables.DEVICE_TAKE], device, ptr[row, tables.OWNER])
    memory = ptr[ptr[program, tables.SHARED], tables.MEMORY]
    return allocate(memory, class_of(i64[row, tables.BYTES]))


def fresh_results(program: ptr, env: ptr) -> i64:
    """Memory for the results; where there is none, nothing is held."""
    for i in range(i64[program, tables.RESULT_COUNT]):
        row = ptr[program, tables.RESULTS] + i * (tables.RESULT_WORDS * 8)
        if i64[row, tables.KIND] == tables.FRESH:
            ptr[env, i64[row, tables.NUMBER]] = fresh(program, row)
            if ptr[env, i64[row, tables.NUMBER]] is None:
                drop_results(program, env, 0, i)
                return tables.SHORT
    return 0


def drop_results(program: ptr, env: ptr, first: i64, end: i64) -> void:
    """Give the memory of some results back."""
    memory = ptr[ptr[program, tables.SHARED], tables.MEMORY]
    device = ptr[program, tables.DEVICE]
    for i in range(first, end):
        row = ptr[program, tables.RESULTS] + i * (tables.RESULT_WORDS * 8)
        if i64[row, tables.KIND] == tables.FRESH:
            piece = ptr[env, i64[row, tables.NUMBER]]
            if device is None:
                release(memory, piece, class_of(i64[row, tables.BYTES]))
            else:
                invoke(void, ptr[device, tables.DEVICE_GIVE], ptr[row, tables.OWNER], piece)


def box_result(
    program: ptr, row: ptr, env: ptr, owners: ptr, results: ptr, *, SLOT_OWNER: static
) -> ptr:
    """One result as an array."""
    shared = ptr[program, tables.SHARED]
    size = i64[row, tables.BYTES]
    kind = ptr[row, tables.TYPE]
    number = i64[row, tables.NUMBER]
    owner = ptr[row, tables.OWNER]
    if i64[row, tables.KIND] == tables.FRESH:
        device = ptr[program, tables.DEVICE]
        if device is not None:
            own = ptr[device, tables.DEVICE_OWN]
            return box(shared, kind, invoke(ptr, own, shared, owner, ptr[env, number], size))
        return box(shared, kind, new_block(shared, ptr[env, number], size, class_of(size)))
    if i64[row, tables.KIND] == tables.REPEATED:
        owner = ptr[ptr[results, number], SLOT_OWNER]
    if i64[row, tables.KIND] == tables.PASSED:
        owner = ptr[owners, number]
        if owner is None or i64(owner) & 1 == 1:
            # the caller's own memory, which no array may share
            array = new_array(shared, kind, size)
            if array is not None:
                capi.memcpy(ptr[ptr[array, SLOT_OWNER], 2], ptr[env, number], size)
            return array
    capi.Py_IncRef(owner)
    return box(shared, kind, owner)


def box_results(program: ptr, env: ptr, owners: ptr, results: ptr) -> i64:
    count = i64[program, tables.RESULT_COUNT]
    for i in range(count):
        row = ptr[program, tables.RESULTS] + i * (tables.RESULT_WORDS * 8)
        ptr[results, i] = box_result(program, row, env, owners, results)
        if ptr[results, i] is None:
            for made in range(i):
                capi.Py_DecRef(ptr[results, made])
            drop_results(program, env, i + 1, count)
            return 1
    return 0


def held(owner: ptr) -> ptr:
    """What keeps an argument's memory; a NumPy array of the caller's is marked by its last bit."""
    return ptr(i64(owner) - (i64(owner) & 1))


def hold(owners: ptr, count: i64) -> void:
    """Keep the memory of arguments: whoever runs meanwhile may drop what they came in."""
    for i in range(count):
        owner = held(ptr[owners, i])
        if owner is not None:
            capi.Py_IncRef(owner)


def let_go(owners: ptr, count: i64) -> void:
    for i in range(count):
        owner = held(ptr[owners, i])
        if owner is not None:
            capi.Py_DecRef(owner)


def run_here(program: ptr, env: ptr, context: ptr) -> i64:
    """Run the nodes of a program; long ones without Python's lock."""
    shared = ptr[program, tables.SHARED]
    ptr[context, walker.ENV] = env
    ptr[context, walker.BUFFERS] = env + i64[program, tables.SLOTS] * 8
    ptr[context, walker.HOST_CALL] = ptr[program, tables.HOSTS]
    ptr[context, walker.THREAD] = None
    i64[context, walker.FLUSHED] = i64[program, tables.FLUSH]
    i64[context, walker.POLLED] = 0
    i64[context, walker.PERIOD] = tables.OVERDUE
    i64[context, walker.HELPERS] = 0
    if i64[program, tables.PARALLEL] != 0:
        i64[context, walker.HELPERS] = helpers_now(shared)
        if i64[context, walker.HELPERS] < 0 and capi.PyErr_Occurred() is not None:
            return 1
        ptr[context, walker.POOL_RUN] = ptr[shared, tables.RUN_POOL]
        ptr[context, walker.POOL_STATE] = ptr[shared, tables.STATE_POOL]
    memory = ptr[shared, tables.MEMORY]
    number = class_of(i64[program, tables.ARENA])
    arena: ptr = None
    if i64[program, tables.ARENA] > 0:
        arena = allocate(memory, number)
        if arena is None:
            return tables.SHORT
        temps = ptr[program, tables.TEMPS]
        for i in range(i64[program, tables.TEMP_COUNT]):
            slot = i64[temps, i]
            ptr[env, slot] = arena + i64[env, slot]
    if i64[program, tables.LONG] != 0:
        ptr[context, walker.THREAD] = capi.PyEval_SaveThread()
    walker.enter_mode(context)
    status = walker.walk(context, ptr[program, tables.NODES], ptr[program, tables.END])
    walker.leave_mode(context)
    if i64[program, tables.LONG] != 0:
        capi.PyEval_RestoreThread(ptr[context, walker.THREAD])
    if arena is not None:
        release(memory, arena, number)
    return status


def run_held(program: ptr, pointers: ptr, owners: ptr, results: ptr) -> i64:
    """Run a program whose arguments are kept; 1 where Python has raised.

    Its results are new references, and memory that it needs to run is behind them.
    """
    work = results + i64[program, tables.RESULT_COUNT] * 8
    env = work + walker.CONTEXT_WORDS * 8
    capi.memcpy(env, ptr[program, tables.TEMPLATE], i64[program, tables.SLOTS] * 8)
    capi.memcpy(env, pointers, i64[program, tables.ARGUMENTS] * 8)
    status = fresh_results(program, env)
    if status == 0:
        device = ptr[program, tables.DEVICE]
        if device is None:
            status = run_here(program, env, work)
        else:
            status = invoke(i64, ptr[device, tables.DEVICE_RUN], program, owners, env)
        if status == 0:
            return box_results(program, env, owners, results)
        drop_results(program, env, 0, i64[program, tables.RESULT_COUNT])
    if status == tables.SHORT:
        ask(ptr[program, tables.HOSTS], -1, i64(env))
    return 1


def run(program: ptr, pointers: ptr, owners: ptr, results: ptr) -> i64:
    """Run a program; its results are new references."""
    hold(owners, i64[program, tables.ARGUMENTS])
    status = run_held(program, pointers, owners, results)
    let_go(owners, i64[program, tables.ARGUMENTS])
    return status


# --- donated arguments ----------------------------------------------------------------------------


def references(thing: ptr) -> i64:
    """How many hold an object; newer Pythons keep other things in the upper half of the word."""
    return i64(i32[thing, 0])


def set_slot(array: ptr, slot: i64, value: ptr) -> void:
    """Change what an array or a reference holds."""
    old = ptr[array, slot]
    capi.Py_IncRef(value)
    ptr[array, slot] = value
    capi.Py_DecRef(old)


def delete(array: ptr, none: ptr, *, SLOT_OWNER: static, SLOT_VIEW: static) -> void:
    set_slot(array, SLOT_VIEW, none)
    set_slot(array, SLOT_OWNER, none)


def hold_donated(
    none: ptr, row: ptr, end: ptr, arrays: ptr, refs: ptr, *, SLOT_OWNER: static, SLOT_VIEW: static
) -> void:
    """Keep donated arrays, without views of theirs that nobody else has: these are made again."""
    first = row
    while row != end:
        capi.Py_IncRef(ptr[arrays, i64[row, tables.DONATED_LEAF]])
        if i64[row, tables.DONATED_SLOT] != 0:
            capi.Py_IncRef(ptr[refs, i64[row, tables.DONATED_LEAF]])
        row = row + tables.DONATED_WORDS * 8
    # when a view goes, anything may happen: whoever has a weak reference to it is told
    row = first
    while row != end:
        array = ptr[arrays, i64[row, tables.DONATED_LEAF]]
        view = ptr[array, SLOT_VIEW]
        if view != none and view != ptr[array, SLOT_OWNER] and references(view) == 1:
            set_slot(array, SLOT_VIEW, none)
        row = row + tables.DONATED_WORDS * 8


def are_plugins(shared: ptr, parts: ptr, *, SLOT_ITEMS: static) -> i64:
    """Whether parts on several devices are a plugin's buffers: 2 where nothing else holds them."""
    buffers = ptr[parts, i64[shared, tables.PARTS_BUFFERS]]
    found = 2 if references(buffers) == 1 else 1
    for i in range(i64[buffers, 2]):
        buffer = ptr[buffers, SLOT_ITEMS + i]
        kind = ptr[buffer, 1]
        if kind != ptr[shared, tables.PLUGIN_TYPE] and kind != ptr[shared, tables.PLUGIN_BUFFER]:
            return 0
        if references(buffer) != 1:
            found = 1
    return found


def is_ours(shared: ptr, owner: ptr) -> i64:
    """Whether memory is our own, and nothing but the owner of it holds what is below."""
    kind = ptr[owner, 1]
    if kind == ptr[shared, tables.BLOCK_TYPE] or kind == ptr[shared, tables.DEVICE_TYPE]:
        return 1
    if kind == ptr[shared, tables.PLUGIN_TYPE] or kind == ptr[shared, tables.PLUGIN_BUFFER]:
        return 1
    if kind == ptr[shared, tables.PARTS_TYPE]:
        return 1 if are_plugins(shared, owner) == 2 else 0
    if kind == ptr[shared, tables.BUFFER_TYPE]:
        return (
            1 if ptr[owner, i64[shared, tables.BUFFER_FOREIGN]] == ptr[shared, tables.NONE] else 0
        )
    base = ptr[owner, 6]
    if base is None:
        return 0
    if ptr[base, 1] != ptr[shared, tables.NDARRAY_TYPE] or references(base) != 1:
        return 0
    if i32[base, 16] & tables.OWNS_DATA != 0:
        return 1 if i32[base, 16] & tables.WRITEABLE != 0 else 0
    piece = ptr[base, 6]
    if piece is None:
        return 0
    if ptr[piece, 1] != ptr[shared, tables.PIECE_TYPE] or references(piece) != 1:
        return 0
    return 1


def is_alone(shared: ptr, array: ptr, owner: ptr, *, SLOT_OWNER: static, SLOT_VIEW: static) -> i64:
    """Whether an array alone can see its memory, which the call holds once for each argument."""
    if owner != ptr[array, SLOT_OWNER]:  # deleted meanwhile
        return 0
    if references(owner) != (3 if owner == ptr[array, SLOT_VIEW] else 2):
        return 0
    return is_ours(shared, owner)


def is_fit(first: ptr, row: ptr, refs: ptr, array: ptr) -> i64:
    """Whether a reference still holds an array, alone if that is taken, and is there once."""
    ref = ptr[refs, i64[row, tables.DONATED_LEAF]]
    if ptr[ref, i64[row, tables.DONATED_SLOT]] != array:
        return 0
    if i64[row, tables.DONATED_TAKEN] != 0 and references(array) != 2:
        return 0
    while first != row:
        if (
            i64[first, tables.DONATED_SLOT] != 0
            and ptr[refs, i64[first, tables.DONATED_LEAF]] == ref
        ):
            return 0
        first = first + tables.DONATED_WORDS * 8
    return 1


def are_fit(shared: ptr, row: ptr, end: ptr, owners: ptr, arrays: ptr, refs: ptr) -> i64:
    """Whether all memory that is taken can be, and nothing is passed twice."""
    first = row
    while row != end:
        leaf = i64[row, tables.DONATED_LEAF]
        array = ptr[arrays, leaf]
        is_reference = i64[row, tables.DONATED_SLOT] != 0
        if is_reference and is_fit(first, row, refs, array) == 0:
            return 0
        if i64[row, tables.DONATED_TAKEN] != 0 or not is_reference:
            if is_alone(shared, array, ptr[owners, leaf]) == 0:
                return 0
        row = row + tables.DONATED_WORDS * 8
    return 1


def finish(
    status: i64,
    none: ptr,
    row: ptr,
    owners: ptr,
    arrays: ptr,
    refs: ptr,
    results: ptr,
    *,
    SLOT_OWNER: static,
) -> void:
    """What a run leaves of a donated array, or of a reference and what it held."""
    leaf = i64[row, tables.DONATED_LEAF]
    number = i64[row, tables.DONATED_RESULT]
    slot = i64[row, tables.DONATED_SLOT]
    if status != 0:
        if slot != 0 and i64[row, tables.DONATED_TAKEN] != 0:  # nothing has been written
            set_slot(ptr[arrays, leaf], SLOT_OWNER, ptr[owners, leaf])
    elif slot == 0:
        delete(ptr[arrays, leaf], none)
    elif number >= 0:
        set_slot(ptr[refs, leaf], slot, ptr[results, number])
        capi.Py_DecRef(ptr[results, number])


def run_donating(program: ptr, donated: ptr, leaves: ptr, results: ptr) -> i64:
    """Run a program that may write over donated arrays; not where others can see their memory.

    What will be written over is deleted first, so that no other thread looks at it meanwhile.
    """
    shared = ptr[program, tables.SHARED]
    none = ptr[shared, tables.NONE]
    owners = leaves + i64[program, tables.ARGUMENTS] * 8
    arrays = owners + i64[program, tables.ARGUMENTS] * 8
    refs = arrays + i64[program, tables.ARGUMENTS] * 8
    first = donated + tables.DONATED_ROWS * 8
    end = first + i64[donated, tables.DONATED_COUNT] * (tables.DONATED_WORDS * 8)
    status = tables.SEEN
    hold(owners, i64[program, tables.ARGUMENTS])
    hold_donated(none, first, end, arrays, refs)
    if are_fit(shared, first, end, owners, arrays, refs) != 0:
        row = first
        while row != end:
            if i64[row, tables.DONATED_TAKEN] != 0:
                delete(ptr[arrays, i64[row, tables.DONATED_LEAF]], none)
            row = row + tables.DONATED_WORDS * 8
        status = run_held(program, leaves, owners, results)
        row = first
        while row != end:
            finish(status, none, row, owners, arrays, refs, results)
            row = row + tables.DONATED_WORDS * 8
    row = first
    while row != end:
        capi.Py_DecRef(ptr[arrays, i64[row, tables.DONATED_LEAF]])
        if i64[row, tables.DONATED_SLOT] != 0:
            capi.Py_DecRef(ptr[refs, i64[row, tables.DONATED_LEAF]])
        row = row + tables.DONATED_WORDS * 8
    let_go(owners, i64[program, tables.ARGUMENTS])
    return status
