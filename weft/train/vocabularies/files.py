"""Vocabularies in files: JSON with a kind, the definition and its checksum."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from weft.train.vocabularies.base import PassThroughVocabulary, Vocabulary
from weft.train.vocabularies.bpe import BPEVocabulary
from weft.train.vocabularies.characters import ByteVocabulary, CharacterVocabulary
from weft.train.vocabularies.unigram import UnigramVocabulary

FORMAT = "weft.vocabulary"
VERSION = 1
_KINDS: dict[str, type[Vocabulary]] = {
    "byte": ByteVocabulary,
    "character": CharacterVocabulary,
    "bpe": BPEVocabulary,
    "unigram": UnigramVocabulary,
    "pass_through": PassThroughVocabulary,
}


def save_vocabulary(path: str | os.PathLike[str], vocabulary: Vocabulary) -> None:
    """Write a vocabulary to a file, which is there as a whole or not at all.

    Args:
        path: the file; one that is there is replaced.
        vocabulary: of bytes, characters, BPE or unigram, or one that passes ids through.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/characters.json"
        >>> save_vocabulary(path, CharacterVocabulary("abc", extra_ids=2))
        >>> load_vocabulary(path).encode("cab")
        [5, 3, 4]
    """
    kinds = {cls: name for name, cls in _KINDS.items()}
    if type(vocabulary) not in kinds:
        raise TypeError(
            f"a {type(vocabulary).__name__} cannot be saved in this format; copy the file that it "
            "was read from, or write a subclass's data yourself"
        )
    record = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kinds[type(vocabulary)],
        "fingerprint": vocabulary.fingerprint(),
        "config": vocabulary.config(),
    }
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".vocabulary_")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(record, file, ensure_ascii=True, indent=0)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def load_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Return a vocabulary that ``save_vocabulary`` wrote.

    Args:
        path: the file.

    Returns:
        The vocabulary.

    Raises:
        ValueError: the file is damaged, or something else.

    Example:
        >>> import tempfile
        >>> from weft.train.vocabularies import ByteVocabulary, save_vocabulary
        >>> path = tempfile.mkdtemp() + "/bytes.json"
        >>> _ = save_vocabulary(path, ByteVocabulary())
        >>> load_vocabulary(path).vocab_size
        259
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    try:
        record: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} isn't a vocabulary: it isn't JSON ({error})") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"{name} wasn't written by save_vocabulary")
    kind = record.get("kind")
    if record.get("version") != VERSION or not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"{name} is of an unknown version or kind: {kind!r}")
    try:
        vocabulary = _KINDS[kind](**record["config"])
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if vocabulary.fingerprint() != record.get("fingerprint"):
        raise ValueError(f"{name} is damaged: its checksum does not fit")
    return vocabulary
