"""Memory of compiled code, as native code: pieces kept for reuse, blocks that own them, arrays."""

from __future__ import annotations

from weft.backends.llvm.calls import tables
from weft.backends.llvm.native import capi
from weft.kernel.kinds import i32, i64, ptr, static, void

# The parameters SLOT_* are words of the slots of arrays and functions, found by looking when the
# stubs are translated; SLOT_ITEMS is the words of a tuple before its items. Those of any object
# with a size are fewer from Python 3.14 on, where a tuple keeps its hash between the two.
HEADER_WORDS = 3


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
    if number >= tables.CLASSES:
        return None
    head = ptr[memory, tables.LISTS + number]
    size = bytes_of(number)
    if head is not None:
        ptr[memory, tables.LISTS + number] = ptr[head, 0]
        i64[memory, tables.KEPT] -= size
        return head
    piece = new_piece(size)
    if piece is None and i64[memory, tables.KEPT] > 0:
        # what is kept in other classes may be what is missing
        trim(memory)
        piece = new_piece(size)
    return piece


def new_piece(size: i64) -> ptr:
    """Memory from the system; large pieces on large pages."""
    if size < tables.HUGE:
        return capi.aligned_alloc(64, size)
    size = (size + tables.PAGE - 1) // tables.PAGE * tables.PAGE
    large = capi.aligned_alloc(tables.PAGE, size)
    if large is not None:
        capi.madvise(large, size, tables.ADVISE_HUGE)
    return large


def release(memory: ptr, piece: ptr, number: i64) -> void:
    """Keep a piece for reuse, or give it back where enough are kept."""
    size = bytes_of(number)
    if i64[memory, tables.KEPT] + size > i64[memory, tables.ALLOWED]:
        capi.free(piece)
        return
    i64[memory, tables.KEPT] += size
    ptr[piece, 0] = ptr[memory, tables.LISTS + number]
    ptr[memory, tables.LISTS + number] = piece


def trim(memory: ptr) -> void:
    """Give back everything that is kept."""
    for number in range(tables.CLASSES):
        piece = ptr[memory, tables.LISTS + number]
        while piece is not None:
            after = ptr[piece, 0]
            capi.free(piece)
            piece = after
        ptr[memory, tables.LISTS + number] = None
    i64[memory, tables.KEPT] = 0


def new_block(shared: ptr, piece: ptr, size: i64, number: i64) -> ptr:
    block = capi._PyObject_New(ptr[shared, tables.BLOCK_TYPE])
    if block is None:
        release(ptr[shared, tables.MEMORY], piece, number)
        return block
    ptr[block, 2] = piece
    i64[block, 3] = size
    i64[block, 4] = number
    ptr[block, 5] = ptr[shared, tables.MEMORY]
    return block


def block_dealloc(block: ptr) -> void:
    kind = ptr[block, 1]
    release(ptr[block, 5], ptr[block, 2], i64[block, 4])
    capi.PyObject_Free(block)
    capi.Py_DecRef(kind)


def block_buffer(block: ptr, view: ptr, flags: i32) -> i32:
    return capi.PyBuffer_FillInfo(view, block, ptr[block, 2], i64[block, 3], 1, flags)


def box(
    shared: ptr,
    kind: ptr,
    owner: ptr,
    *,
    SLOT_AVAL: static,
    SLOT_TYPE: static,
    SLOT_OWNER: static,
    SLOT_VIEW: static,
    SLOT_TYPE_AVAL: static,
) -> ptr:
    """An array over an owner, whose reference it takes."""
    if owner is None:
        return None
    array = capi.PyType_GenericAlloc(ptr[shared, tables.ARRAY_TYPE], 0)
    if array is None:
        capi.Py_DecRef(owner)
        return array
    aval = ptr[kind, SLOT_TYPE_AVAL]
    capi.Py_IncRef(aval)
    capi.Py_IncRef(kind)
    capi.Py_IncRef(ptr[shared, tables.NONE])
    ptr[array, SLOT_AVAL] = aval
    ptr[array, SLOT_TYPE] = kind
    ptr[array, SLOT_OWNER] = owner
    ptr[array, SLOT_VIEW] = ptr[shared, tables.NONE]
    return array


def new_array(shared: ptr, kind: ptr, size: i64) -> ptr:
    """An array over fresh memory."""
    number = class_of(size)
    piece = allocate(ptr[shared, tables.MEMORY], number)
    if piece is None:
        return capi.PyErr_NoMemory()
    block = new_block(shared, piece, size, number)
    return box(shared, kind, block)
