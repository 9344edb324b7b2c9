"""Memory of compiled code, as native code: pieces kept for reuse, blocks that own them, arrays."""

from __future__ import annotations

from weft.backends.cpu.calls.tables import (
    ADVISE_HUGE,
    ALLOWED,
    ARRAY_TYPE,
    BLOCK_TYPE,
    CLASSES,
    HUGE,
    KEPT,
    LISTS,
    MEMORY,
    NONE,
    PAGE,
)
from weft.backends.cpu.native.walker import Py_DecRef
from weft.kernel.kinds import External, i32, i64, ptr, void

free = External(void, (ptr,))
aligned_alloc = External(ptr, (i64, i64))
madvise = External(i32, (ptr, i64, i32))
_PyObject_New = External(ptr, (ptr,))
PyObject_Free = External(void, (ptr,))
PyBuffer_FillInfo = External(i32, (ptr, ptr, ptr, i64, i32, i32))
PyType_GenericAlloc = External(ptr, (ptr, i64))
Py_IncRef = External(void, (ptr,))
PyErr_NoMemory = External(ptr, ())

# Words of the slots of arrays and functions: found by looking when the stubs are translated.
SLOT_AVAL = SLOT_TYPE = SLOT_OWNER = SLOT_VIEW = SLOT_ENTRIES = SLOT_TYPE_AVAL = 0


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


def box(shared: ptr, kind: ptr, owner: ptr) -> ptr:
    """An array over an owner, whose reference it takes."""
    if owner is None:
        return None
    array = PyType_GenericAlloc(ptr[shared, ARRAY_TYPE], 0)
    if array is None:
        Py_DecRef(owner)
        return array
    aval = ptr[kind, SLOT_TYPE_AVAL]
    Py_IncRef(aval)
    Py_IncRef(kind)
    Py_IncRef(ptr[shared, NONE])
    ptr[array, SLOT_AVAL] = aval
    ptr[array, SLOT_TYPE] = kind
    ptr[array, SLOT_OWNER] = owner
    ptr[array, SLOT_VIEW] = ptr[shared, NONE]
    return array


def new_array(shared: ptr, kind: ptr, size: i64) -> ptr:
    """An array over fresh memory."""
    number = class_of(size)
    piece = allocate(ptr[shared, MEMORY], number)
    if piece is None:
        return PyErr_NoMemory()
    block = new_block(shared, piece, size, number)
    return box(shared, kind, block)


STUBS = (
    class_of,
    bytes_of,
    allocate,
    new_piece,
    release,
    trim,
    new_block,
    block_dealloc,
    block_buffer,
    box,
    new_array,
)
