"""``tf.train.Example``: named lists of integers, floats or bytes, as TFRecord files hold them.

Reference: https://www.tensorflow.org/api_docs/python/tf/train/Example
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from weft.train.data.errors import DataError
from weft.train.writers.protobuf import data as field
from weft.train.writers.protobuf import varint

_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # fields of a Feature


def encode_example(features: Mapping[str, Any]) -> bytes:
    """An example in the wire format of protocol buffers.

    Args:
        features: by name: bytes, text, numbers, or arrays or lists of one of these. Integers and
            booleans become int64, floats become float32, text becomes UTF-8.

    Returns:
        The bytes of the message.

    Example:
        >>> message = encode_example({"label": 3, "name": "cat", "x": [0.5, 1.0]})
        >>> parse_example(message)["x"]
        array([0.5, 1. ], dtype=float32)
    """
    entries = []
    for name in sorted(features):
        feature = _encode_feature(name, features[name])
        entries.append(field(1, field(1, name) + field(2, feature)))
    return field(1, b"".join(entries))


def _encode_feature(name: str, value: Any) -> bytes:
    if isinstance(value, (bytes, str)):
        value = [value]
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (bytes, str)):
        if not all(isinstance(each, (bytes, str)) for each in value):
            raise DataError(f"feature {name!r} mixes texts with something else")
        return field(_BYTES, b"".join(field(1, each) for each in value))
    array = np.atleast_1d(np.asarray(value))
    if array.dtype == object or array.dtype.kind in "US":
        return _encode_feature(name, array.reshape(-1).tolist())
    flat = array.reshape(-1)
    if flat.dtype.kind in "bi" or (flat.dtype.kind == "u" and flat.dtype.itemsize < 8):
        return field(_INTEGERS, field(1, b"".join(map(varint, flat.astype(np.int64).tolist()))))
    if flat.dtype.kind == "f":
        return field(_FLOATS, field(1, flat.astype("<f4").tobytes()))
    raise DataError(
        f"feature {name!r} has dtype {flat.dtype}: an example holds integers of 64 bits, floats of "
        "32 bits, and bytes"
    )


def parse_example(message: bytes) -> dict[str, np.ndarray]:
    """The features of an example.

    Args:
        message: what ``encode_example`` or TensorFlow wrote.

    Returns:
        By name, arrays with one axis: int64, float32, or objects that are bytes.

    Raises:
        DataError: the bytes are not such a message.

    Example:
        >>> parse_example(encode_example({"ids": [7, -1], "text": b"hi"}))
        {'ids': array([ 7, -1]), 'text': array([b'hi'], dtype=object)}
    """
    try:
        found = {}
        for number, features in _fields(message):
            if number == 1:
                for kind, entry in _fields(_message(features)):
                    if kind == 1:
                        name, feature = _entry(_message(entry))
                        found[name] = feature
        return found
    except (IndexError, struct.error, UnicodeDecodeError):
        raise DataError("not a tf.train.Example: the message ends too soon") from None


def _entry(entry: bytes) -> tuple[str, np.ndarray]:
    name, feature = "", b""
    for number, value in _fields(entry):
        if number == 1:
            name = _message(value).decode("utf-8")
        elif number == 2:
            feature = _message(value)
    made = np.zeros(0, np.float32)
    for kind, values in _fields(feature):
        if kind in (_BYTES, _FLOATS, _INTEGERS):
            made = _values(kind, _message(values))
    return name, made


def _values(kind: int, message: bytes) -> np.ndarray:
    parts = [value for number, value in _fields(message) if number == 1]
    if kind == _BYTES:
        made = np.empty(len(parts), object)
        made[:] = [_message(part) for part in parts]
        return made
    if kind == _FLOATS:  # packed, or one by one
        whole = b"".join(part if isinstance(part, bytes) else _fixed(part) for part in parts)
        if len(whole) % 4:
            raise DataError("not a tf.train.Example: floats end too soon")
        return np.frombuffer(whole, "<f4").astype(np.float32)
    arrays = [
        _varints(part) if isinstance(part, bytes) else np.array([part], np.uint64) for part in parts
    ]
    return np.concatenate([np.zeros(0, np.uint64), *arrays]).view(np.int64)


class _Float(int):
    """A field of 32 bits."""


def _fixed(value: Any) -> bytes:
    if not isinstance(value, _Float):
        raise DataError("not a tf.train.Example: a list of floats contains something else")
    return struct.pack("<I", value)


def _message(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise DataError("not a tf.train.Example: found a number instead of a message")
    return value


def _varints(packed: bytes) -> np.ndarray:
    """Integers of seven bits a byte, all at once."""
    if not packed:
        return np.zeros(0, np.uint64)
    data = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(data < 0x80)
    if not len(ends) or ends[-1] != len(data) - 1:
        raise DataError("not a tf.train.Example: an integer ends too soon")
    if len(ends) == len(data):
        return data.astype(np.uint64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    sizes = ends - starts + 1
    if sizes.max() > 10:
        raise DataError("not a tf.train.Example: an integer has more than 64 bits")
    shifts = (np.arange(len(data)) - np.repeat(starts, sizes)).astype(np.uint64) * np.uint64(7)
    return np.add.reduceat((data & 0x7F).astype(np.uint64) << shifts, starts)


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
        if shift > 63:
            raise DataError("not a tf.train.Example: an integer has more than 64 bits")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: bytes, or numbers."""
    place, size = 0, len(message)
    while place < size:
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 2:
            length, place = _varint(message, place)
            if length > size - place:
                raise DataError("not a tf.train.Example: the message ends too soon")
            yield key >> 3, message[place : place + length]
            place += length
        elif kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
        elif kind == 5:
            yield key >> 3, _Float(struct.unpack_from("<I", message, place)[0])
            place += 4
        elif kind == 1:
            yield key >> 3, struct.unpack_from("<Q", message, place)[0]
            place += 8
        else:
            raise DataError(f"not a tf.train.Example: a field has wire type {kind}")
