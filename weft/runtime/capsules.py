"""The DLPack protocol: capsules over memory that other libraries read, and those that they give.

Whose memory it is, and when it may be read, is for clients to say.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base.lasting import lasting
from weft.core.avals import ShapedArray
from weft.core.interpret import storage_dtype
from weft.kernel.nodes import BF16

# Numbers of memory among devices.
CPU, CUDA, ROCM, OTHER = 1, 2, 10, 12
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BRAIN = 4
_NEW, _OLD = b"dltensor_versioned", b"dltensor"
_COPIED = 2


class Tensor(ctypes.Structure):
    """Memory with a type."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """Memory with who gives it back, in the form before version 1."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class Versioned(ctypes.Structure):
    """Memory with who gives it back."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


# What is lent, by the address of what describes it: that, the owner, and what to do at the end.
# Other libraries may have it when this module is gone.
_lent: dict[int, tuple[Any, ...]] = lasting({})


def _python(name: str, result: Any, *types: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, types
    return function


_new_capsule = _python(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)
# of capsules by address: they may be about to go
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


# Other libraries may call these when a process ends, and this module is empty.
@lasting
@_DELETER
def _give_back(where: int, is_ending: Any = sys.is_finalizing) -> None:
    if is_ending():
        return
    lent = _lent.pop(where, None)
    if lent is not None and lent[-1] is not None:
        lent[-1]()


@lasting
@_DELETER
def _unused(capsule: int, is_ending: Any = sys.is_finalizing) -> None:
    """A capsule that nobody took goes."""
    if is_ending():
        return
    for name in (_NEW, _OLD):
        if _is_valid(capsule, name):
            _lent.pop(_pointer(capsule, name), None)


def type_code(dtype: Any) -> tuple[np.dtype, int]:
    """The dtype of an array's elements in memory, and DLPack's code; BufferError without one."""
    stored = storage_dtype(dtype)
    code = _BRAIN if stored == BF16 else _CODES.get(stored.kind)
    if stored != BF16 and stored.isbuiltin != 1:  # some float8 types have the kind of floats
        code = None
    if code is None:
        raise BufferError(f"DLPack cannot represent {dtype}; convert the array first")
    return stored, code


def lend(
    owner: Any,
    address: int,
    device: tuple[int, int],
    aval: Any,
    version: Any,
    copied: bool,
    ended: Callable[[], Any] | None = None,
) -> Any:
    """A capsule over an array's memory. It keeps the owner; ``ended`` is called when the borrower
    gives the memory back."""
    dtype, code = type_code(aval.dtype)
    shape = (ctypes.c_int64 * max(len(aval.shape), 1))(*aval.shape)
    steps = [int(np.prod(aval.shape[i + 1 :])) for i in range(len(aval.shape))]
    strides = (ctypes.c_int64 * max(len(steps), 1))(*steps)
    tensor = Tensor(address, device, len(aval.shape), code, 8 * dtype.itemsize, 1, shape, strides)
    is_new = version is not None and version[0] >= 1
    if is_new:
        made: Any = Versioned(1, 0, None, _give_back, _COPIED if copied else 0, tensor)
    else:
        made = Managed(tensor, None, _give_back)
    where = ctypes.addressof(made)
    _lent[where] = (made, shape, strides, owner, ended)
    destroy = ctypes.cast(_unused, ctypes.c_void_p)
    return _new_capsule(where, _NEW if is_new else _OLD, destroy)


class Borrowed:
    """Memory of another library's, which hears when nothing refers to it any more."""

    def __init__(self, managed: Any, before: Callable[[], Any] | None) -> None:
        self.managed, self.before = managed, before

    def __del__(self) -> None:
        if self.before is not None:
            self.before()
        if self.managed.deleter:
            self.managed.deleter(ctypes.addressof(self.managed))


def take(
    x: Any, stream: int | None, before: Callable[[], Any] | None = None
) -> tuple[Borrowed, int, int, ShapedArray]:
    """Another library's memory, to be read on a stream: who has it, its address and bytes, and
    the type of the array. ``before`` is called before the memory is given back."""
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a library that knows the older protocol
        capsule = x.__dlpack__(stream=stream)
    name = _NEW if _is_valid(id(capsule), _NEW) else _OLD
    kind = Versioned if name == _NEW else Managed
    managed = kind.from_address(_pointer(id(capsule), name))
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    dtype = _dtype(tensor)
    size = int(np.prod(shape)) * dtype.itemsize
    if tensor.strides and size:
        step = 1
        for n, found in reversed([*zip(shape, tensor.strides[: tensor.ndim], strict=True)]):
            if n != 1 and found != step:
                raise BufferError(
                    f"from_dlpack takes contiguous arrays; this one, {shape}, has"
                    f" the strides {tuple(tensor.strides[: tensor.ndim])}: make it contiguous first"
                )
            step *= n
    used = b"used_dltensor_versioned" if name == _NEW else b"used_dltensor"
    _rename(capsule, used)
    address = (tensor.data or 0) + tensor.offset
    return Borrowed(managed, before), address, size, ShapedArray(shape, dtype)


def _dtype(tensor: Tensor) -> np.dtype:
    if tensor.lanes == 1:
        if tensor.code == _BRAIN and tensor.bits == 16:
            return BF16
        kind = {number: kind for kind, number in _CODES.items()}.get(tensor.code)
        if kind is not None and tensor.bits in (8, 16, 32, 64, 128):
            return np.dtype(f"{kind}{tensor.bits // 8}")
    raise BufferError(
        f"from_dlpack got elements of the code {tensor.code} with {tensor.bits} bits, which arrays"
        " do not have"
    )
