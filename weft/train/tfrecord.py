"""Files of TFRecord: records of bytes, each with its length and two checksums.

TensorBoard's event files are such files, and many data sets. Reference:
https://www.tensorflow.org/tutorials/load_data/tfrecord
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterator
from typing import IO

import numpy as np

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reversed
_SHORT = 256  # bytes that are faster one by one


class RecordError(ValueError):
    """A file of records is damaged, or ends in the middle of one.

    >>> raise RecordError("record 3 ends too soon")
    Traceback (most recent call last):
        ...
    weft.train.tfrecord.RecordError: record 3 ends too soon
    """


@functools.cache
def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


@functools.cache
def _array_table() -> np.ndarray:
    return np.array(_table(), np.uint32)


@functools.cache
def _shift(power: int) -> np.ndarray:
    """What 2**power bytes of zeros make of each single bit of a checksum."""
    if power == 0:
        table = _table()
        return np.array(
            [table[b & 0xFF] ^ (b >> 8) for b in (1 << i for i in range(32))], np.uint32
        )
    half = _shift(power - 1)
    return _apply(half, half)


def _apply(columns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """A linear function, given by its values at single bits, of many checksums."""
    made = np.zeros_like(states)
    for bit in range(32):
        made ^= columns[bit] * ((states >> np.uint32(bit)) & np.uint32(1))
    return made


def _crc_of_lanes(data: bytes) -> int:
    """The checksum of long data: pieces of equal length at the same time, joined in pairs."""
    power = max(5, (len(data).bit_length() - 4) // 2)
    size = 1 << power
    lanes = -(-len(data) // size)
    padded = np.zeros(lanes * size, np.uint8)  # zeros in front change nothing
    padded[-len(data) :] = np.frombuffer(data, np.uint8)
    begin = lanes * size - len(data)
    padded[begin : begin + 4] ^= 0xFF  # the same as a checksum that begins with all bits set
    table, columns = _array_table(), np.ascontiguousarray(padded.reshape(lanes, size).T)
    states = np.zeros(lanes, np.uint32)
    for column in columns:
        states = table[(states ^ column) & np.uint32(0xFF)] ^ (states >> np.uint32(8))
    while len(states) > 1:
        if len(states) % 2:
            states = np.concatenate([np.zeros(1, np.uint32), states])
        states = _apply(_shift(power), states[::2]) ^ states[1::2]
        power += 1
    return int(states[0]) ^ 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum of bytes (Castagnoli).

    Args:
        data: the bytes.

    Returns:
        An integer below 2³².

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    if len(data) >= _SHORT:
        return _crc_of_lanes(data)
    table, state = _table(), 0xFFFFFFFF
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """Return the checksum as records hold it, so that a checksum of checksums is not a weak one.

    Args:
        data: the bytes.

    Returns:
        An integer below 2³².

    Example:
        >>> hex(masked_crc32c(b"123456789"))
        '0xc78ab0e5'
    """
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def encode_record(data: bytes) -> bytes:
    """Return a record as it is in a file.

    Args:
        data: the bytes of the record.

    Returns:
        The bytes.

    Example:
        >>> encode_record(b"abc").hex()
        '0300000000000000...'
    """
    length = struct.pack("<Q", len(data))
    checks = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", masked_crc32c(data))
    return b"".join((length, checks[0], data, checks[1]))


class RecordWriter:
    """Writes records to a file, one after the other.

    Args:
        path: the file, which is replaced if it is there.
        append: whether records go behind those that are there.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/data.tfrecord"
        >>> with RecordWriter(path) as writer:
        ...     for word in (b"one", b"two"):
        ...         writer.write(word)
        >>> list(read_records(path))
        [b'one', b'two']
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self._file: IO[bytes] = open(path, "ab" if append else "wb")

    def write(self, record: bytes) -> None:
        """Write a record.

        Args:
            record: its bytes.
        """
        self._file.write(encode_record(record))

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _take(file: IO[bytes], size: int, left: int, where: str) -> bytes:
    if size > left:
        raise RecordError(f"{where} needs {size} bytes, and the file has {left} more")
    data = file.read(size)
    if len(data) != size:
        raise RecordError(f"{where} ends too soon")
    return data


def read_records(path: str | os.PathLike[str] | int, check: bool = True) -> Iterator[bytes]:
    """Yield the records of a file, one after the other.

    Args:
        path: the file, or a descriptor of it, which is left open.
        check: whether the checksums of the data are computed; those of lengths always are.

    Yields:
        The bytes of each record.

    Raises:
        RecordError: a checksum does not fit, or the file ends in the middle of a record.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.tfrecord"
        >>> _ = path.write_bytes(encode_record(b"abc") + encode_record(b"de"))
        >>> list(read_records(path))
        [b'abc', b'de']
    """
    with open(path, "rb", closefd=not isinstance(path, int)) as file:
        left, number = os.fstat(file.fileno()).st_size, 0
        while left > 0:
            where = f"{path if isinstance(path, int) else os.fspath(path)}: record {number}"
            head = _take(file, 12, left, where)
            length, length_check = struct.unpack("<QI", head)
            if masked_crc32c(head[:8]) != length_check:
                raise RecordError(f"{where} has a damaged length")
            data = _take(file, length, left - 12, where)
            (data_check,) = struct.unpack("<I", _take(file, 4, left - 12 - length, where))
            if check and masked_crc32c(data) != data_check:
                raise RecordError(f"{where} is damaged: its checksum does not fit")
            yield data
            left -= 16 + length
            number += 1
