"""What a vocabulary is: seqio's interface, special ids and extra ids."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

PAD_ID, EOS_ID, UNK_ID = 0, 1, 2
SPECIAL_IDS = 3
BYTES = 256
_EXTRA = re.compile(r"<extra_id_(0|[1-9][0-9]{0,8})>")


class Vocabulary:
    """The base of vocabularies: subclasses have ``_encode``, ``_decode``, ``config`` and a size.

    Ids from 0 up: padding, the end, unknown text, the tokens, and last ``extra_ids`` ids that no
    text has, which ``span_corruption`` takes as sentinels.

    Args:
        extra_ids: how many ids to add at the end that no text has, for sentinels.

    Example:
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> vocabulary = ByteVocabulary(extra_ids=100)
        >>> vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id, vocabulary.vocab_size
        (0, 1, 2, 359)
    """

    pad_id: int = PAD_ID
    eos_id: int | None = EOS_ID
    unk_id: int | None = UNK_ID
    bos_id: int | None = None

    def __init__(self, extra_ids: int = 0) -> None:
        """Reserve some extra ids.

        Args:
            extra_ids: how many ids come after those of the tokens.
        """
        if extra_ids < 0:
            raise ValueError(f"extra_ids={extra_ids} is negative")
        self.extra_ids = int(extra_ids)

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        raise TypeError(f"{type(self).__name__} must define base_vocab_size")

    @property
    def vocab_size(self) -> int:
        """How many ids there are, with special and extra ones."""
        return self.base_vocab_size + self.extra_ids

    def encode(self, text: Any) -> Any:
        """The ids of a text, without the id of the end.

        Args:
            text: the text.

        Example:
            >>> from weft.train.vocabularies import ByteVocabulary
            >>> ByteVocabulary().encode("abc")
            [100, 101, 102]
        """
        return self._encode(text)

    def decode(self, ids: Iterable[int]) -> Any:
        """The text of ids, up to the first id of the end.

        Args:
            ids: a list or an array.

        Example:
            >>> from weft.train.vocabularies import ByteVocabulary
            >>> ByteVocabulary().decode([100, 101, 102, 1, 0, 0])
            'abc'
        """
        found = ids.tolist() if isinstance(ids, np.ndarray) else [int(one) for one in ids]
        if self.eos_id is not None and self.eos_id in found:
            found = found[: found.index(self.eos_id) + 1]
        return self._decode(found)

    def sentinel_id(self, number: int) -> int:
        """The id of ``<extra_id_0>``, ``<extra_id_1>`` and so on: they count down from the last id.

        Args:
            number: which one.

        Example:
            >>> from weft.train.vocabularies import ByteVocabulary
            >>> ByteVocabulary(extra_ids=100).sentinel_id(0)
            358
        """
        if not 0 <= number < self.extra_ids:
            raise ValueError(f"<extra_id_{number}> is not among {self.extra_ids} extra ids")
        return self.vocab_size - 1 - number

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary, as JSON can hold it."""
        raise TypeError(f"{type(self).__name__} must define config")

    def fingerprint(self) -> str:
        """A checksum of the definition: equal vocabularies have the same.

        >>> from weft.train.vocabularies import ByteVocabulary
        >>> ByteVocabulary(3).fingerprint() == ByteVocabulary(3).fingerprint()
        True
        """
        text = json.dumps([type(self).__name__, self.config()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.config() == other.config()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        extra = f", extra_ids={self.extra_ids}" if self.extra_ids else ""
        return f"<{type(self).__name__} of {self.vocab_size} ids{extra}>"

    def _encode(self, text: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must define _encode")

    def _decode(self, ids: list[int]) -> Any:
        raise TypeError(f"{type(self).__name__} must define _decode")


class PassThroughVocabulary(Vocabulary):
    """A vocabulary that takes ids as they are: for data that is tokenised already.

    Args:
        size: the number of ids.
        eos_id: the id of the end, if there is one.

    Example:
        >>> vocabulary = PassThroughVocabulary(1000, eos_id=1)
        >>> vocabulary.encode([5, 6, 7]), vocabulary.decode([5, 1, 7]), vocabulary.vocab_size
        ([5, 6, 7], [5, 1], 1000)
    """

    unk_id = None

    def __init__(self, size: int, eos_id: int | None = None) -> None:
        """A vocabulary of ``size`` ids.

        Args:
            size: how many ids there are.
            eos_id: the id of the end, if there is one.
        """
        super().__init__()
        self.size = int(size)
        self.eos_id = eos_id

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are."""
        return self.size

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary."""
        return {"size": self.size, "eos_id": self.eos_id}

    def _encode(self, text: Sequence[int]) -> Sequence[int]:
        return text

    def _decode(self, ids: list[int]) -> list[int]:
        return ids


class TextVocabulary(Vocabulary):
    """The base of vocabularies of text in which ``<extra_id_0>`` and so on stand for extra ids.

    >>> from weft.train.vocabularies import CharacterVocabulary
    >>> vocabulary = CharacterVocabulary("abc ", extra_ids=2)
    >>> ids = vocabulary.encode("a <extra_id_0> c<extra_id_1>")
    >>> ids, vocabulary.decode(ids)
    ([3, 6, 8, 6, 5, 7], 'a <extra_id_0> c<extra_id_1>')
    """

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without the id of the end.

        Args:
            text: the text; ``<extra_id_0>`` in it is an extra id, if there are such.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"encode takes text, got {type(text).__name__}; decode bytes to str first"
            )
        if not self.extra_ids or "<extra_id_" not in text:
            return self._encode(text)
        ids: list[int] = []
        start = 0
        for match in _EXTRA.finditer(text):
            number = int(match[1])
            if number >= self.extra_ids:
                continue
            ids += self._encode(text[start : match.start()])
            ids.append(self.sentinel_id(number))
            start = match.end()
        return ids + self._encode(text[start:])

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, up to the first id of the end.

        Args:
            ids: a list or an array.
        """
        return super().decode(ids)

    def _decode(self, ids: list[int]) -> str:
        return b"".join(self._token_bytes(ids)).decode("utf-8", "replace")

    def _token_bytes(self, ids: list[int]) -> Iterator[bytes]:
        table, base = self._bytes_by_id(), self.base_vocab_size
        for one in ids:
            if 0 <= one < base:
                yield table[one]
            elif base <= one < self.vocab_size:
                yield b"<extra_id_%d>" % (self.vocab_size - 1 - one)
            else:
                yield table[UNK_ID]

    def _bytes_by_id(self) -> list[bytes]:
        """What each id but the extra ones adds to the text, in UTF-8."""
        raise TypeError(f"{type(self).__name__} must define _bytes_by_id")


def bytes_of_special_ids() -> list[bytes]:
    """What the special ids add to a text: nothing, and for unknown text a sign of it."""
    return [b"", b"", "\N{REPLACEMENT CHARACTER}".encode()]


def single_bytes() -> list[bytes]:
    """All 256 bytes."""
    return [bytes((value,)) for value in range(BYTES)]


def byte_ids(text: str) -> list[int]:
    """The ids of the UTF-8 bytes of a text, in ByT5's numbering.

    >>> byte_ids("é")
    [198, 172]
    """
    return [value + SPECIAL_IDS for value in text.encode("utf-8")]
