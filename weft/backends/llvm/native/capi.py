"""Functions of C and of Python's own interface to it that stubs call, with their kinds."""

from __future__ import annotations

from weft.kernel.kinds import External, f64, i32, i64, ptr, void
from weft.kernel.kinds import free as free
from weft.kernel.kinds import malloc as malloc
from weft.kernel.kinds import memcpy as memcpy

aligned_alloc = External(ptr, (i64, i64))
madvise = External(i32, (ptr, i64, i32))
pthread_create = External(i32, (ptr, ptr, ptr, ptr))
pthread_join = External(i32, (ptr, ptr))
pthread_sigmask = External(i32, (i32, ptr, ptr))
Py_DecRef = External(void, (ptr,))
Py_IncRef = External(void, (ptr,))
PyBuffer_FillInfo = External(i32, (ptr, ptr, ptr, i64, i32, i32))
PyDict_GetItemWithError = External(ptr, (ptr, ptr))
PyDict_New = External(ptr, ())
PyDict_SetItem = External(i32, (ptr, ptr, ptr))
PyDict_Size = External(i64, (ptr,))
PyErr_CheckSignals = External(i32, ())
PyErr_Clear = External(void, ())
PyErr_NoMemory = External(ptr, ())
PyErr_Occurred = External(ptr, ())
PyEval_RestoreThread = External(void, (ptr,))
PyEval_SaveThread = External(ptr, ())
PyFloat_AsDouble = External(f64, (ptr,))
PyList_Append = External(i32, (ptr, ptr))
PyList_New = External(ptr, (i64,))
PyList_SetItem = External(i32, (ptr, i64, ptr))
PyLong_AsLongLong = External(i64, (ptr,))
PyLong_FromLongLong = External(ptr, (i64,))
PyObject_Call = External(ptr, (ptr, ptr, ptr))
PyObject_CallOneArg = External(ptr, (ptr, ptr))
PyObject_Free = External(void, (ptr,))
PyObject_GenericGetAttr = External(ptr, (ptr, ptr))
PyObject_GetAttr = External(ptr, (ptr, ptr))
PyObject_GetAttrString = External(ptr, (ptr, ptr))
_PyObject_New = External(ptr, (ptr,))
PyTuple_New = External(ptr, (i64,))
PyTuple_SetItem = External(i32, (ptr, i64, ptr))
PyType_GenericAlloc = External(ptr, (ptr, i64))
PyUnicode_Compare = External(i32, (ptr, ptr))
syscall = External(i64, (i64, ptr, i64, i64, ptr, ptr, i64))  # in the form that waits for a word
