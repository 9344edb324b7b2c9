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
    """Return whether arrays of a dtype can be exchanged with other libraries.

    Args:
        dtype: the dtype.

    Returns:
        True or False.

    Example:
        >>> is_supported_dtype("float32"), is_supported_dtype("int4")
        (True, False)
    """
    if dtype is None:
        raise TypeError("is_supported_dtype needs a dtype, got None")
    return np.dtype(dtype) in _SUPPORTED


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """Return an array over the memory that another library exports.

    Args:
        external_array: an array of NumPy, PyTorch or any library that implements DLPack.
        device: the device of the result. By default that of the memory.
        copy: True makes a copy, False raises an error where one would be needed. By default one is
            made where needed.

    Returns:
        An array.

    Example:
        >>> import numpy as np
        >>> from_dlpack(np.ones(2, np.float32))
        Array([1., 1.], dtype=float32)
    """
    return creation.from_dlpack(external_array, device=device, copy=copy)
