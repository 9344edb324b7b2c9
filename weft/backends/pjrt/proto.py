"""Protocol buffers, as far as compile options and HLO modules need them."""

from __future__ import annotations

import struct as packing
from collections.abc import Iterator, Sequence
from typing import Any


def varint(value: int) -> bytes:
    """A number in seven bits a byte.

    >>> varint(300).hex()
    'ac02'
    """
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def number(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(field << 3) + varint(value)


def block(field: int, payload: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def packed(field: int, values: Sequence[int]) -> bytes:
    """A field that holds several numbers."""
    return block(field, b"".join(map(varint, values)))


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers as integers, all else as bytes.

    >>> list(fields(number(1, 5) + block(2, b"ab")))
    [(1, 5), (2, b'ab')]
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"a message with a field of wire type {kind}, which is none")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7


def numbers(value: Any) -> list[int]:
    """Repeated numbers, packed or one."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        found.append(one)
    return found


def compile_options(
    devices: Sequence[int],
    spmd: bool = False,
    overrides: dict[str, Any] | None = None,
    shardy: bool = False,
) -> bytes:
    """Options for a program on devices by their ids: one program that all partitions run.

    ``overrides`` are options of the plugin's compiler by name, as ``xla_...``; with ``shardy``,
    this partitioner divides the program.

    >>> compile_options([0], overrides={"on": True}).hex()
    '1a1a08ffffffffffffffffff01200128014a09080110011a030a01003a080a026f6e12021001'
    """
    count = len(devices)
    assigned = number(1, 1) + number(2, count)
    assigned += b"".join(block(3, packed(1, [device])) for device in devices)
    build = number(1, -1) + number(4, 1) + number(5, count) + (number(6, 1) if spmd else b"")
    made = block(3, build + block(9, assigned) + (number(19, 1) if shardy else b""))
    for name, value in (overrides or {}).items():
        made += block(7, block(1, name.encode()) + block(2, _override(name, value)))
    return made


def _override(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return number(2, int(value))
    if isinstance(value, int):
        return number(3, value)
    if isinstance(value, float):
        return varint(4 << 3 | 1) + packing.pack("<d", value)
    if isinstance(value, str):
        return block(1, value.encode())
    raise TypeError(
        f"the compiler option {name!r} is {value!r}; pass a string, a number or a boolean"
    )
