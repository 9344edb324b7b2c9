"""Objects that are never freed: native code and other libraries use them until a process ends.

At its end, Python clears modules in any order. What an array that goes last gives its memory back
to, or what another library calls then, has to be there still.
"""

from __future__ import annotations

import ctypes
from typing import TypeVar

T = TypeVar("T")

_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes, _keep.restype = [ctypes.py_object], None


def lasting(thing: T) -> T:
    """An object, kept until the process ends.

    >>> import weakref
    >>> class Table: ...
    >>> seen = weakref.ref(lasting(Table()))
    >>> seen() is None
    False
    """
    _keep(thing)
    return thing
