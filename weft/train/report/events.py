"""Pictures in TensorBoard's event files, read without trusting a byte of them."""

from collections.abc import Iterator
from typing import IO

from weft.train import tfrecord

MAX_EVENT_BYTES = 64_000_000
PNG = b"\x89PNG\r\n\x1a\n"


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in the wire format of protocol buffers; ends where it is damaged.

    >>> list(fields(bytes([8, 150, 1, 18, 2, 104, 105])))
    [(1, 150), (2, b'hi')]
    """
    place = 0

    def varint() -> int | None:
        nonlocal place
        value = 0
        for shift in range(0, 70, 7):
            if place >= len(message):
                return None
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1
        return None

    while place < len(message):
        tag = varint()
        if tag is None:
            return
        kind = tag & 7
        if kind == 0:
            number = varint()
            if number is None:
                return
            yield tag >> 3, number
            continue
        size = varint() if kind == 2 else {1: 8, 5: 4}.get(kind)
        if size is None or place + size > len(message):
            return
        yield tag >> 3, message[place : place + size]
        place += size


def _parts(message: bytes, field: int) -> list[bytes]:
    return [value for name, value in fields(message) if name == field and isinstance(value, bytes)]


def _step(event: bytes) -> int:
    for name, value in fields(event):
        if name == 2 and isinstance(value, int):
            return value - (1 << 64) if value >> 63 else value
    return 0


def pictures(file: IO[bytes]) -> Iterator[tuple[str, int, list[bytes]]]:
    """Tag, step and PNG files of each summary of pictures in an event file.

    Both forms are read: tensors of text, as writers here and in TensorFlow 2 make them, and the
    older message of one picture. What is damaged ends the file.
    """
    try:
        for event in tfrecord.read_records(file.fileno(), check=False):
            if len(event) > MAX_EVENT_BYTES:
                continue
            for summary in _parts(event, 5):
                for value in _parts(summary, 1):
                    found = _parts_of_value(value)
                    if found:
                        tag = b"".join(_parts(value, 1)[:1]).decode("utf-8", "replace")
                        yield tag, _step(event), found
    except (ValueError, OSError, MemoryError):
        return


def _parts_of_value(value: bytes) -> list[bytes]:
    found = [part for tensor in _parts(value, 8) for part in _parts(tensor, 8)]
    found += [part for image in _parts(value, 4) for part in _parts(image, 4)]
    return [part for part in found if part.startswith(PNG)]
