"""The buffer protocol of arrays on Python 3.11, whose classes cannot define ``__buffer__``.

A heap type carries its buffer slots in its own memory; the slot that fills a view is set to a
function that lets the NumPy view of the array answer. Nothing can be raised through a function of
Python's that C calls, so some bytes of machine code around it set the error. Python 3.12 needs none
of this.
"""

from __future__ import annotations

import platform
import struct
import sys
from typing import Any

from weft.base import checking
from weft.dtypes import ExtendedDType

# PyTypeObject.tp_as_buffer, after the object header of 3 words and 17 fields, on 64-bit CPython.
_AS_BUFFER = 160
_keep: list[Any] = []

# Call a function with the arguments as they are; where it does not answer 0, call PyErr_SetString
# with the two words found at a place, and answer -1. The addresses are those of the function, the
# place and PyErr_SetString.
_X86 = (
    "4883ec08 48b8{:016x} ffd0 85c0 7422 48b8{:016x} 488b38 488b7008 48b8{:016x} ffd0 b8ffffffff"
    " 4883c408 c3"
)
_ARM = (
    "fd7bbfa9 50010058 00023fd6 c0000034 30010058 000640a9 30010058 00023fd6 00008012 fd7bc1a8"
    " c0035fd6 {:016x} {:016x} {:016x}"
)
_CODE = {"x86_64": _X86, "aarch64": _ARM}


def install(array_type: type) -> None:
    """Let instances of ``array_type`` be read through memoryviews and the like."""
    if sys.version_info >= (3, 12) or sys.implementation.name != "cpython":
        return
    import ctypes

    fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    get_buffer = fill(("PyObject_GetBuffer", ctypes.pythonapi))
    reason = (ctypes.c_void_p * 2)()

    def refuse(kind: type, text: str) -> int:
        told = ctypes.create_string_buffer(text.encode(errors="replace"))
        _keep[1:] = [told]
        reason[:] = [id(kind), ctypes.addressof(told)]
        return -1

    def export(array: Any, view: int, flags: int) -> int:
        try:
            if isinstance(array.aval.dtype, ExtendedDType):
                return refuse(
                    TypeError,
                    f"an array of {array.aval.dtype} has no bytes to look at; for random keys use"
                    " weft.random.key_data",
                )
            checking.settle(again=True)  # NumPy looks elsewhere where this raises
            return get_buffer(array._value, view, flags)
        except Exception as error:  # a writable view of an immutable array, or one of a deleted one
            return refuse(type(error), str(error))

    slot = fill(export)
    address = ctypes.c_void_p.from_address(id(array_type) + _AS_BUFFER).value
    if address is None:
        return
    plain = ctypes.cast(slot, ctypes.c_void_p).value
    made = _with_errors(plain, ctypes.addressof(reason))
    ctypes.c_void_p.from_address(address).value = made or plain
    _keep.append((slot, get_buffer, reason))


def _with_errors(function: int | None, place: int) -> int | None:
    """The address of code that calls a function and sets the error found at a place, if it can."""
    import ctypes

    code = _CODE.get(platform.machine())
    if code is None or sys.platform != "linux":
        return None
    tell = ctypes.cast(ctypes.pythonapi.PyErr_SetString, ctypes.c_void_p).value
    swapped = [int.from_bytes(struct.pack("<Q", x or 0), "big") for x in (function, place, tell)]
    data = bytes.fromhex(code.format(*swapped))
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size, read, write, execute, private, anonymous = 4096, 1, 2, 4, 2, 32
    found = libc.mmap(None, size, read | write, private | anonymous, -1, 0)
    if found is None or found == ctypes.c_void_p(-1).value:
        return None
    ctypes.memmove(found, data, len(data))
    return None if libc.mprotect(found, size, read | execute) else found
