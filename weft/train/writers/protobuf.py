"""Messages in the wire format of protocol buffers, field by field.

Reference: https://protobuf.dev/programming-guides/encoding
"""

import struct
from collections.abc import Iterable


def varint(value: int) -> bytes:
    """An integer, seven bits a byte; negative ones as 64 bits.

    >>> varint(300)
    b'\\xac\\x02'
    """
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def integer(field: int, value: int) -> bytes:
    """A field with an integer, a boolean or an enumeration."""
    return varint(field << 3) + varint(int(value))


def double(field: int, value: float) -> bytes:
    """A field with a float of 64 bits."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A field with a float of 32 bits; what is too large becomes infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return varint(field << 3 | 5) + packed


def data(field: int, value: bytes | str) -> bytes:
    """A field with bytes, text, or a message.

    >>> data(2, "testing")
    b'\\x12\\x07testing'
    """
    value = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def doubles(field: int, values: Iterable[float]) -> bytes:
    """A field with floats of 64 bits, packed."""
    values = list(values)
    return data(field, struct.pack(f"<{len(values)}d", *values))
