"""The buffer protocol of arrays on Python 3.11, whose classes cannot define ``__buffer__``.

A heap type carries its buffer slots in its own memory; the slot that fills a view is set to a
function that lets the NumPy view of the array answer. Python 3.12 needs none of this.
"""

from __future__ import annotations

import sys
from typing import Any

from weft.dtypes import ExtendedDType

# PyTypeObject.tp_as_buffer, after the object header of 3 words and 17 fields, on 64-bit CPython.
_AS_BUFFER = 160
_keep: list[Any] = []


def install(array_type: type) -> None:
    """Let instances of ``array_type`` be read through memoryviews and the like."""
    if sys.version_info >= (3, 12) or sys.implementation.name != "cpython":
        return
    import ctypes

    fill = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    get_buffer = fill(("PyObject_GetBuffer", ctypes.pythonapi))

    def export(array: Any, view: int, flags: int) -> int:
        try:
            if isinstance(array.aval.dtype, ExtendedDType):
                return -1
            return get_buffer(array._value, view, flags)
        except Exception:
            # nothing may be raised through the slot; a writable view of an immutable array, or a
            # view of a deleted one, is refused without a reason
            return -1

    slot = fill(export)
    address = ctypes.c_void_p.from_address(id(array_type) + _AS_BUFFER).value
    if address is None:
        return
    ctypes.c_void_p.from_address(address).value = ctypes.cast(slot, ctypes.c_void_p).value
    _keep.append((slot, get_buffer))
