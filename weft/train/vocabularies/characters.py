"""Vocabularies that need no training: of bytes, as ByT5 has it, and of characters."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from weft.train.vocabularies.base import (
    BYTES,
    SPECIAL_IDS,
    UNK_ID,
    TextVocabulary,
    Vocabulary,
    byte_ids,
    bytes_of_special_ids,
    single_bytes,
)


class ByteVocabulary(Vocabulary):
    """The bytes of UTF-8: three special ids, 256 bytes, and extra ids, as in ByT5.

    Decoding leaves out special and extra ids, and bytes that are not UTF-8.

    >>> vocabulary = ByteVocabulary()
    >>> vocabulary.encode("hé!")
    [107, 198, 172, 36]
    >>> vocabulary.decode(vocabulary.encode("hé!"))
    'hé!'
    """

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        return SPECIAL_IDS + BYTES

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary."""
        return {"extra_ids": self.extra_ids}

    def _encode(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(
                f"encode takes text, got {type(text).__name__}; decode bytes to str first"
            )
        return byte_ids(text)

    def _decode(self, ids: list[int]) -> str:
        last = self.base_vocab_size
        found = bytes(one - SPECIAL_IDS for one in ids if SPECIAL_IDS <= one < last)
        return found.decode("utf-8", "ignore")


class CharacterVocabulary(TextVocabulary):
    """Characters, each with an id; others are unknown, or written as bytes.

    Args:
        characters: the characters that have ids.
        extra_ids: how many ids to add at the end that no text has, for sentinels.
        byte_fallback: write other characters as bytes; otherwise they are unknown.

    Example:
        >>> vocabulary = CharacterVocabulary("abc")
        >>> vocabulary.encode("cabx"), vocabulary.decode([5, 3, 4])
        ([5, 3, 4, 2], 'cab')
        >>> vocabulary = CharacterVocabulary("abc", byte_fallback=True)
        >>> vocabulary.encode("cabx"), vocabulary.decode(vocabulary.encode("cabx"))
        ([261, 259, 260, 123], 'cabx')
    """

    def __init__(self, characters: str, extra_ids: int = 0, byte_fallback: bool = False) -> None:
        """A vocabulary of these characters.

        Args:
            characters: the characters, in the order of their ids.
            extra_ids: how many ids come after theirs.
            byte_fallback: write other characters as bytes, which have the ids from 3 to 258.
        """
        super().__init__(extra_ids)
        if len(set(characters)) != len(characters):
            twice = next(x for x, n in collections.Counter(characters).items() if n > 1)
            raise ValueError(f"the character {twice!r} appears twice")
        self.characters = characters
        self.byte_fallback = bool(byte_fallback)
        first = SPECIAL_IDS + (BYTES if byte_fallback else 0)
        self._ids = {one: first + at for at, one in enumerate(characters)}
        self._table = [
            *bytes_of_special_ids(),
            *(single_bytes() if byte_fallback else ()),
            *(one.encode("utf-8") for one in characters),
        ]

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        max_characters: int | None = None,
        extra_ids: int = 0,
        byte_fallback: bool = False,
    ) -> CharacterVocabulary:
        """A vocabulary of the characters of some texts, the most frequent first.

        Args:
            texts: the texts.
            max_characters: how many characters it has at most.
            extra_ids: how many ids come after theirs.
            byte_fallback: write other characters as bytes.

        Example:
            >>> CharacterVocabulary.train(["banana", "ananas"]).characters
            'anbs'
        """
        counts: collections.Counter[str] = collections.Counter()
        for text in texts:
            counts.update(text)
        ordered = sorted(counts, key=lambda one: (-counts[one], one))[:max_characters]
        return cls("".join(ordered), extra_ids, byte_fallback)

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        return len(self._table)

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary."""
        return {
            "characters": self.characters,
            "extra_ids": self.extra_ids,
            "byte_fallback": self.byte_fallback,
        }

    def _encode(self, text: str) -> list[int]:
        known = self._ids
        if not self.byte_fallback:
            return [known.get(one, UNK_ID) for one in text]
        ids: list[int] = []
        for one in text:
            if one in known:
                ids.append(known[one])
            else:
                ids += byte_ids(one)
        return ids

    def _bytes_by_id(self) -> list[bytes]:
        return self._table
