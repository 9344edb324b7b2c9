"""Elements of a byte that hold fewer bits or a float of eight: moved as bytes, computed wider.

Floats are read as float32 and integers as 32-bit ones; results are rounded or wrapped around when
they become bytes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.nodes import F32, I32, U8, U32, Value, is_float, tiny


class Small(Record):
    """A float of eight bits: of its exponent and mantissa, and the bits that are not finite."""

    exponent: int
    mantissa: int
    top: int  # what overflows: infinity, or NaN where there is none
    nan: int

    @property
    def shift(self) -> int:
        """Bits of a float32 mantissa that it has not."""
        return 23 - self.mantissa

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1


_FLOATS = {"float8_e4m3fn": Small(4, 3, 0x7F, 0x7F), "float8_e5m2": Small(5, 2, 0x7C, 0x7E)}
_WIDTHS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4}


def decode(k: Builder, byte: Value, dtype: Any) -> Value:
    """The number that a byte is."""
    if dtype.name in _FLOATS:
        return _float(k, byte, _FLOATS[dtype.name])
    value = k.cast(byte, I32)
    if dtype.name.startswith("u"):
        return value
    sign = k.const(1 << (_WIDTHS[dtype.name] - 1), I32)
    return k.sub(k.xor(value, sign), sign)


def encode(k: Builder, value: Value, dtype: Any) -> Value:
    """The byte of a number: a float rounded, an integer wrapped around."""
    if dtype.name in _FLOATS:
        return _byte(k, k.cast(value, F32), _FLOATS[dtype.name])
    mask = k.const((1 << _WIDTHS[dtype.name]) - 1, I32)
    return k.cast(k.and_(k.cast(value, I32), mask), U8)


def convert(k: Builder, value: Value, dtype: Any) -> Value:
    """A number in another dtype; of a small one, as it is computed with."""
    dtype = np.dtype(dtype)
    if not tiny(dtype):
        return k.cast(value, dtype)
    if dtype.name in _FLOATS:
        return k.cast(value, F32)
    if not is_float(value.dtype):
        return k.cast(value, I32)
    width, signed = _WIDTHS[dtype.name], not dtype.name.startswith("u")
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    return k.max(k.min(k.cast(value, I32), k.const(high, I32)), k.const(low, I32))


def _float(k: Builder, byte: Value, kind: Small) -> Value:
    bits = k.cast(byte, U32)
    number = lambda n: k.const(n, U32)
    places = k.and_(bits, number(0x7F))
    size = k.shl(places, number(kind.shift))
    normal = k.bitcast(k.add(size, number(127 - kind.bias << 23)), F32)
    # its bits would be a denormal number of float32 too, so they are counted
    low = k.lt(places, number(1 << kind.mantissa))
    step = k.const(2.0 ** (1 - kind.bias - kind.mantissa), F32)
    scaled = k.select(low, k.mul(k.cast(k.cast(places, I32), F32), step), normal)
    endless = k.bitcast(k.or_(size, number(0x7F800000)), F32)
    if kind.top == kind.nan:
        beyond = k.eq(size, number(kind.nan << kind.shift))
    else:
        beyond = k.ge(size, number(kind.top << kind.shift))
    sign = k.shl(k.and_(bits, number(0x80)), number(24))
    chosen = k.bitcast(k.select(beyond, endless, scaled), U32)
    return k.bitcast(k.or_(chosen, sign), F32)


def _byte(k: Builder, value: Value, kind: Small) -> Value:
    bits = k.bitcast(value, U32)
    number = lambda n: k.const(n, U32)
    size = k.and_(bits, number(0x7FFFFFFF))
    shift = kind.shift
    last = k.and_(k.lshr(size, number(shift)), number(1))
    offset = (1 << (shift - 1)) - 1 - (127 - kind.bias << 23)
    normal = k.lshr(k.add(k.add(size, last), number(offset % (1 << 32))), number(shift))
    # a denormal number is rounded where it is added to one with such digits
    magic = k.const(2.0 ** (1 - kind.bias - kind.mantissa + 23), F32)
    small = k.sub(k.bitcast(k.add(k.bitcast(size, F32), magic), U32), k.bitcast(magic, U32))
    low = k.lt(size, number(128 - kind.bias << 23))
    byte = k.select(low, small, k.min(normal, number(kind.top)))
    byte = k.select(k.ge(size, number(0x7F800000)), number(kind.top), byte)
    byte = k.select(k.isnan(value), number(kind.nan), byte)
    return k.cast(k.or_(byte, k.and_(k.lshr(bits, number(24)), number(0x80))), U8)
