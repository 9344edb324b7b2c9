"""Types and constants of StableHLO."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.core.dims.dim import Dim, is_constant_shape

ELEMENTS = {
    "bool": "i1",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "complex<f32>", "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ", "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3": "f8E4M3", "float8_e3m4": "f8E3M4", "float8_e8m0fnu": "f8E8M0FNU",
}  # fmt: skip


class Unlowered(NotImplementedError):
    """A program holds something that StableHLO has no form for."""


def element(dtype: Any) -> str:
    """The name of a dtype."""
    found = ELEMENTS.get(getattr(dtype, "name", ""))
    if found is None:
        raise Unlowered(f"weft can't write arrays of dtype {dtype} as StableHLO")
    return found


def physical(aval: Any) -> tuple[tuple[int, ...], Any]:
    """The shape and dtype of an array's memory: keys are words."""
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return (*aval.shape, *aval.dtype.physical_shape), aval.dtype.physical_dtype
    return aval.shape, aval.dtype


def tensor(shape: Any, dtype: Any) -> str:
    """The type of an array.

    >>> tensor((2, 3), np.dtype(np.float32))
    'tensor<2x3xf32>'
    """
    sizes = "".join(["?x" if type(n) is Dim else f"{n}x" for n in shape])
    return f"tensor<{sizes}{element(dtype)}>"


def type_of(aval: Any) -> str:
    """The type of a value of a program."""
    if not hasattr(aval, "shape") or aval.is_ref:
        raise Unlowered(f"weft can't write a value of type {aval} as StableHLO")
    return tensor(*physical(aval))


def dense(value: np.ndarray) -> str:
    """The text of a constant.

    >>> dense(np.float32(1.0)), dense(np.array([True, False]))
    ('dense<0x3F800000>', 'dense<[true, false]>')
    """
    value = np.asarray(value)
    kind = value.dtype.kind
    if not value.size:
        return "dense<>"
    if kind == "b":
        return f"dense<{_nested(value.tolist())}>"
    if value.ndim == 0 and kind in "iu":
        return f"dense<{value}>"
    if value.ndim == 0 and kind != "c":
        bits = value[()].tobytes()[::-1] if value.dtype.byteorder != ">" else value.tobytes()
        return f"dense<0x{bits.hex().upper()}>"
    return f'dense<"0x{np.ascontiguousarray(value).tobytes().hex().upper()}">'


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return "true" if value else "false"


def array(values: Any) -> str:
    """A list of integers as an attribute.

    >>> array((1, 2)), array(())
    ('array<i64: 1, 2>', 'array<i64>')
    """
    values = list(values)
    if not is_constant_shape(values):
        raise Unlowered(f"weft can't write a parameter with symbolic sizes {values} as StableHLO")
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"
