"""What the Python array API standard asks a namespace to tell about itself: devices, data types
and what it can do."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base import knobs
from weft.dtypes.canonical import (
    canonicalize_dtype,
    default_complex_dtype,
    default_float_dtype,
    default_int_dtype,
)
from weft.runtime import devices

# Memory of a NumPy array, which is what a host sees of an array, has no more axes than this.
_MAX_DIMENSIONS = 64

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class ArrayNamespaceInfo:
    """What ``weft.numpy`` supports, in the terms of the array API standard.

    >>> import weft.numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32']
    """

    def capabilities(self) -> dict[str, Any]:
        """What programs may do, whether compiled or not.

        Boolean indices and shapes that depend on data work on concrete arrays but not while a
        program is traced, so both are given as unsupported.
        """
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": _MAX_DIMENSIONS,
        }

    def default_device(self) -> Any:
        """The device set as the default, or None where none is set."""
        return knobs.default_device.value

    def devices(self) -> list[Any]:
        """What ``device=`` of a creation function may be."""
        return [None, *devices.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of arrays made from Python scalars, and of indices."""
        return {
            "real floating": default_float_dtype(),
            "complex floating": default_complex_dtype(),
            "integral": default_int_dtype(),
            "indexing": default_int_dtype(),
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """The dtypes of the standard that arrays can have now: 64 bits only under enable_x64."""
        wanted = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        unknown = [name for name in wanted if name not in _KINDS]
        if unknown:
            raise KeyError(f"there is no kind of dtype {unknown[0]!r}; choose from {list(_KINDS)}")
        found = {name: np.dtype(name) for each in wanted for name in _KINDS[each]}
        return {name: dtype for name, dtype in found.items() if canonicalize_dtype(dtype) == dtype}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Devices, data types and capabilities, as the array API standard defines their inquiry.

    >>> import weft.numpy as jnp
    >>> jnp.__array_namespace_info__().default_dtypes()["integral"]
    dtype('int32')
    """
    return ArrayNamespaceInfo()
