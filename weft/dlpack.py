"""Sharing memory with other libraries by the DLPack protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.array import Array
from weft.numpy import creation

_SUPPORTED = frozenset(
    np.dtype(name)
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64"
        " float16 float32 float64 complex64 complex128"
    ).split()
)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged.

    >>> is_supported_dtype("float32"), is_supported_dtype("int4")
    (True, False)
    """
    if dtype is None:
        raise TypeError("is_supported_dtype needs a dtype, got None")
    return np.dtype(dtype) in _SUPPORTED


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An array over the memory that another library exports; a copy if asked for.

    >>> import numpy as np
    >>> from_dlpack(np.ones(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    return creation.from_dlpack(external_array, device=device, copy=copy)
