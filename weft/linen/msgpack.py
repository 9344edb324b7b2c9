"""A reader and writer of MessagePack for what checkpoints hold.

None, booleans, integers, floats, text, bytes, lists, dictionaries, and extension types.
Reference: https://github.com/msgpack/msgpack/blob/master/spec.md
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple


class ExtType(NamedTuple):
    """An extension type: a number from 0 to 127 and its bytes."""

    code: int
    data: bytes


def _number(first: int, size: int, value) -> bytes:
    return bytes([first]) + value.to_bytes(size, "big", signed=value < 0)


def _pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return (value & 0xFF).to_bytes(1, "big")
    for power in range(4):
        size = 1 << power
        if 0 <= value < 1 << (8 * size):
            return _number(0xCC + power, size, value)
        if -(1 << (8 * size - 1)) <= value < 0:
            return _number(0xD0 + power, size, value)
    raise OverflowError(f"{value} does not fit the 64 bits of a MessagePack integer")


def _header(length: int, short: int, limit: int, long: tuple[int | None, int, int]) -> bytes:
    """The first bytes of a sized value: in one byte, or a length of 8, 16 or 32 bits."""
    if length < limit:
        return bytes([short | length])
    for code, size in zip(long, (1, 2, 4)):
        if code is not None and length < 1 << (8 * size):
            return _number(code, size, length)
    raise ValueError(f"{length} elements are more than MessagePack can hold")


_FIXED_EXT = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def _pack_ext(out: list[bytes], ext: ExtType) -> None:
    length = len(ext.data)
    if length in _FIXED_EXT:
        out.append(bytes([_FIXED_EXT[length]]))
    else:
        out.append(_header(length, 0, 0, (0xC7, 0xC8, 0xC9)))
    out.append(ext.code.to_bytes(1, "big"))
    out.append(ext.data)


def _pack(out: list[bytes], value: Any, default: Callable[[Any], Any] | None) -> None:
    kind = type(value)
    if value is None:
        out.append(b"\xc0")
    elif kind is bool:
        out.append(b"\xc3" if value else b"\xc2")
    elif kind is int:
        out.append(_pack_int(value))
    elif kind is float:
        out.append(b"\xcb" + struct.pack(">d", value))
    elif kind is str:
        data = value.encode()
        out += _header(len(data), 0xA0, 32, (0xD9, 0xDA, 0xDB)), data
    elif kind in (bytes, bytearray, memoryview):
        out += _header(len(value), 0, 0, (0xC4, 0xC5, 0xC6)), bytes(value)
    elif kind is list:
        out.append(_header(len(value), 0x90, 16, (None, 0xDC, 0xDD)))
        for item in value:
            _pack(out, item, default)
    elif kind is dict:
        out.append(_header(len(value), 0x80, 16, (None, 0xDE, 0xDF)))
        for key, item in value.items():
            _pack(out, key, default)
            _pack(out, item, default)
    elif kind is ExtType:
        _pack_ext(out, value)
    else:
        made = default(value) if default is not None else value
        if made is value:
            raise TypeError(f"cannot serialize a value of type {kind.__name__}: {value!r:.80}")
        _pack(out, made, default)


def packb(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """The bytes of a value; ``default`` turns types that MessagePack lacks into others.

    >>> packb({"a": [1, None, -200]})
    b'\\x81\\xa1a\\x93\\x01\\xc0\\xd1\\xff8'
    """
    out: list[bytes] = []
    _pack(out, value, default)
    return b"".join(out)


class _Reader:
    """A position in the bytes; reading past their end is an error, never a guess."""

    def __init__(self, data, ext_hook):
        self.data, self.at, self.ext_hook = memoryview(data), 0, ext_hook

    def take(self, count: int) -> memoryview:
        end = self.at + count
        if end > len(self.data):
            raise ValueError(
                f"the data ends in the middle of a value: expected {count} bytes at byte {self.at}"
                f" of {len(self.data)}. Is the file complete?"
            )
        part = self.data[self.at : end]
        self.at = end
        return part

    def integer(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def items(self, count: int) -> list:
        return [self.value() for _ in range(count)]

    def pairs(self, count: int) -> dict:
        try:
            return {self.value(): self.value() for _ in range(count)}
        except TypeError as error:
            raise ValueError(f"a dictionary at byte {self.at} has invalid keys: {error}") from None

    def ext(self, length: int):
        code = self.integer(1, signed=True)
        return self.ext_hook(code, bytes(self.take(length)))

    def text(self, length: int) -> str:
        return str(self.take(length), "utf-8")

    def value(self):
        first = self.integer(1)
        if first < 0x80:
            return first
        if first < 0x90:
            return self.pairs(first & 0x0F)
        if first < 0xA0:
            return self.items(first & 0x0F)
        if first < 0xC0:
            return self.text(first & 0x1F)
        if first >= 0xE0:
            return first - 0x100
        return self.sized(first)

    def sized(self, first: int):
        """What has its length, or its whole value, behind the first byte."""
        if first in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[first]
        if first in (0xC4, 0xC5, 0xC6):
            return bytes(self.take(self.integer(1 << (first - 0xC4))))
        if first in (0xC7, 0xC8, 0xC9):
            return self.ext(self.integer(1 << (first - 0xC7)))
        if first in (0xCA, 0xCB):
            size, form = (4, ">f") if first == 0xCA else (8, ">d")
            return struct.unpack(form, self.take(size))[0]
        if 0xCC <= first <= 0xCF:
            return self.integer(1 << (first - 0xCC))
        if 0xD0 <= first <= 0xD3:
            return self.integer(1 << (first - 0xD0), signed=True)
        if 0xD4 <= first <= 0xD8:
            return self.ext(1 << (first - 0xD4))
        if 0xD9 <= first <= 0xDB:
            return self.text(self.integer(1 << (first - 0xD9)))
        if first in (0xDC, 0xDD):
            return self.items(self.integer(2 << (first - 0xDC)))
        if first in (0xDE, 0xDF):
            return self.pairs(self.integer(2 << (first - 0xDE)))
        raise ValueError(f"byte {first:#x} at {self.at - 1} does not start a MessagePack value")


def unpackb(data, ext_hook: Callable[[int, bytes], Any] = ExtType) -> Any:
    """The value that the bytes hold; ``ext_hook`` makes values of extension types.

    >>> unpackb(packb({"a": [1, None, -200]}))
    {'a': [1, None, -200]}
    """
    reader = _Reader(data, ext_hook)
    try:
        value = reader.value()
    except RecursionError:
        raise ValueError("the data have values that are nested too deeply") from None
    if reader.at != len(reader.data):
        raise ValueError(f"{len(reader.data) - reader.at} extra bytes follow the value")
    return value
