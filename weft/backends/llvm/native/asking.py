"""Functions of Python's called by stubs, with whole numbers."""

from __future__ import annotations

from weft.backends.llvm.native import capi
from weft.kernel.kinds import i64, ptr


def ask(function: ptr, number: i64, place: i64) -> i64:
    """Call a function of Python's with two numbers; 1 if it raised."""
    args = capi.PyTuple_New(2)
    capi.PyTuple_SetItem(args, 0, capi.PyLong_FromLongLong(number))
    capi.PyTuple_SetItem(args, 1, capi.PyLong_FromLongLong(place))
    return told(function, args)


def tell(function: ptr, number: i64) -> i64:
    """Call a function of Python's with a number; 1 if it raised."""
    args = capi.PyTuple_New(1)
    capi.PyTuple_SetItem(args, 0, capi.PyLong_FromLongLong(number))
    return told(function, args)


def told(function: ptr, args: ptr) -> i64:
    """Call a function of Python's with arguments, which it takes; 1 if it raised."""
    done = capi.PyObject_Call(function, args, None)
    capi.Py_DecRef(args)
    if done is None:
        return 1
    capi.Py_DecRef(done)
    return 0
