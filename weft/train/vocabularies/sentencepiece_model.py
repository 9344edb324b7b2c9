"""Reads SentencePiece's ``.model`` files: pieces, settings, and rules that normalise text.

Facts about the format: sentencepiece_model.proto of https://github.com/google/sentencepiece, and
the double arrays of https://github.com/s-yata/darts-clone.
"""

import dataclasses
import struct
from collections.abc import Iterator

import numpy as np

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE, WORD, CHARACTER = 1, 2, 3, 4
SPACE = "\u2581"
UNKNOWN_SURFACE = " \u2047 "


@dataclasses.dataclass(frozen=True)
class Piece:
    """A piece of a model."""

    text: str
    score: float
    kind: int


@dataclasses.dataclass(frozen=True)
class Model:
    """What a file holds."""

    pieces: tuple[Piece, ...]
    algorithm: int
    byte_fallback: bool
    space_as_suffix: bool
    names: dict[str, str]  # of the pieces "bos" and "eos"
    unknown_surface: str
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_spaces: bool
    escape_spaces: bool


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in the wire format of protocol buffers.

    >>> list(fields(b"\\x08\\x96\\x01\\x12\\x01a"))
    [(1, 150), (2, b'a')]
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of wire type {kind}")
        if at + size > len(data):
            raise ValueError("a field ends beyond the data")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number ends beyond the data")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _message(data: int | bytes) -> dict[int, int | bytes]:
    return dict(fields(_data(data)))


def _data(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where data is expected")
    return value


def _text(message: dict[int, int | bytes], number: int, default: str) -> str:
    return _data(message[number]).decode("utf-8") if number in message else default


def _piece(data: int | bytes) -> Piece:
    message = _message(data)
    packed = _data(message.get(2, b"\0\0\0\0"))
    if len(packed) != 4:
        raise ValueError("a score that isn't a 32-bit float")
    return Piece(_text(message, 1, ""), struct.unpack("<f", packed)[0], int(message.get(3, NORMAL)))


def read_model(data: bytes) -> Model:
    """Read the bytes of a file.

    Args:
        data: the bytes.

    Raises:
        ValueError: it is not such a file, or is damaged.
    """
    pieces: list[Piece] = []
    parts: dict[int, bytes] = {2: b"", 3: b"", 5: b""}
    for number, value in fields(data):
        if number == 1:
            pieces.append(_piece(value))
        elif number in parts:
            parts[number] += _data(value)  # as messages merge
    if sum(piece.kind == UNKNOWN for piece in pieces) != 1:
        raise ValueError("a model has one piece for unknown text")
    trainer, normalizer, denormalizer = (_message(parts[number]) for number in (2, 3, 5))
    if denormalizer.get(2):
        raise ValueError("a model whose decoded text is normalised cannot be read")
    algorithm = int(trainer.get(3, UNIGRAM))
    if algorithm not in (UNIGRAM, BPE, WORD, CHARACTER):
        raise ValueError(f"an algorithm of number {algorithm}")
    names = {"bos": (46, "<s>"), "eos": (47, "</s>")}
    return Model(
        pieces=tuple(pieces),
        algorithm=algorithm,
        byte_fallback=bool(trainer.get(35, 0)),
        space_as_suffix=bool(trainer.get(24, 0)),
        names={name: _text(trainer, *where) for name, where in names.items()},
        unknown_surface=_text(trainer, 44, UNKNOWN_SURFACE),
        charsmap=_data(normalizer.get(2, b"")),
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_spaces=bool(normalizer.get(4, 1)),
        escape_spaces=bool(normalizer.get(5, 1)),
    )


class CharacterMap:
    """Rules that replace parts of a text: the longest that begins here applies.

    The blob is the size of a double array, the array, whose keys are UTF-8, and replacements, each
    ended by a zero, to whose places the array's values point.
    """

    def __init__(self, blob: bytes) -> None:
        """Read the rules.

        Args:
            blob: ``precompiled_charsmap`` of a model.
        """
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 4 or size % 4 or size + 4 > len(blob) or size < 4:
            raise ValueError("the rules of a model that normalise text are damaged")
        self._units = np.frombuffer(blob, "<u4", size // 4, 4).tolist()
        self._texts = blob[4 + size :]
        self._replacements: dict[int, str] = {}

    def longest(self, data: bytes, at: int) -> tuple[str, int] | None:
        """The replacement of the longest rule for what begins at ``at``, and where that ends."""
        units, found = self._units, None
        place = _offset(units[0])
        for end in range(at, len(data)):
            place ^= data[end]
            unit = units[place] if place < len(units) else 0
            if unit & 0x800000FF != data[end]:
                break
            place ^= _offset(unit)
            if unit & 0x100 and place < len(units):
                found = units[place] & 0x7FFFFFFF, end + 1
        return None if found is None else (self._text(found[0]), found[1])

    def _text(self, start: int) -> str:
        if start not in self._replacements:
            end = self._texts.find(b"\0", start)
            text = self._texts[start : end if end >= 0 else None]
            self._replacements[start] = text.decode("utf-8", "replace")
        return self._replacements[start]


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)
