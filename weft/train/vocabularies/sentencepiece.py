"""Vocabularies from SentencePiece's ``.model`` files, encoded and decoded by our own code."""

from __future__ import annotations

import codecs
import hashlib
import heapq
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft.train.vocabularies import sentencepiece_model as files
from weft.train.vocabularies.base import Vocabulary
from weft.train.vocabularies.unigram import UNKNOWN_PENALTY, piece_table, viterbi

SPACE = files.SPACE


class SentencePieceVocabulary(Vocabulary):
    """The vocabulary of a SentencePiece model; the library itself is not needed.

    Ids are those of SentencePiece 0.2; where splits have equal scores, older releases can choose
    another one. Extra ids are pieces ``<extra_id_0>`` and so on at the
    beginning of a word, as in seqio, the last id first. Text is normalised as the model says, so
    decoding gives back normalised text.

    Args:
        path: the file of the model.
        extra_ids: how many ids to add at the end that no text has, for sentinels.

    Example:
        >>> import tempfile
        >>> from weft.train.writers import protobuf
        >>> pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2),
        ...           ("\u2581hello", -1.0, 1), ("\u2581", -2.0, 1), ("s", -3.0, 1)]
        >>> path = tempfile.mkdtemp() + "/tiny.model"
        >>> with open(path, "wb") as file:  # as SentencePiece's trainer does
        ...     for text, score, kind in pieces:
        ...         piece = protobuf.data(1, text) + protobuf.single(2, score)
        ...         written = file.write(protobuf.data(1, piece + protobuf.integer(3, kind)))
        >>> vocabulary = SentencePieceVocabulary(path, extra_ids=2)
        >>> ids = vocabulary.encode("hellos  hello <extra_id_0>")
        >>> ids, vocabulary.decode(ids)
        ([3, 5, 3, 7], 'hellos hello <extra_id_0>')
    """

    def __init__(self, path: str | os.PathLike[str], extra_ids: int = 0) -> None:
        """Read a model.

        Args:
            path: the ``.model`` file.
            extra_ids: how many extra ids come after those of the model.

        Raises:
            ValueError: the file is damaged, or is something else.
        """
        super().__init__(extra_ids)
        self.path = os.fspath(path)
        with open(path, "rb") as file:
            data = file.read()
        try:
            self._model = model = files.read_model(data)
            self._rules = files.CharacterMap(model.charsmap) if model.charsmap else None
        except ValueError as error:
            raise ValueError(
                f"{self.path} isn't a SentencePiece model, or is damaged: {error}"
            ) from None
        self._checksum = hashlib.sha256(data).hexdigest()
        extra = [
            files.Piece(f"{SPACE}<extra_id_{number}>", 0.0, files.USER_DEFINED)
            for number in reversed(range(extra_ids))
        ]
        self._pieces = [*model.pieces, *extra]
        ids = {piece.text: at for at, piece in reversed(list(enumerate(self._pieces)))}
        self._ids = ids
        kinds = [piece.kind for piece in self._pieces]
        self.unk_id = kinds.index(files.UNKNOWN)
        special = {
            name: ids[text]
            for name, text in model.names.items()
            if text in ids and kinds[ids[text]] == files.CONTROL
        }
        self.bos_id, self.eos_id = special.get("bos"), special.get("eos")
        self._byte_ids = _byte_pieces(self._pieces) if model.byte_fallback else None
        self._split = self._splitter()

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        return len(self._model.pieces)

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary: a checksum of the model, and the extra ids."""
        return {"model": self._checksum, "extra_ids": self.extra_ids}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "extra_ids": self.extra_ids}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["extra_ids"])  # type: ignore[misc]

    def _encode(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(
                f"encode takes text, got {type(text).__name__}; decode bytes to str first"
            )
        ids: list[int] = []
        for piece, found in self._split(self.normalize(text)):
            if found is not None and found != self.unk_id:
                ids.append(found)
            elif self._byte_ids is not None:
                ids += [self._byte_ids[value] for value in piece.encode("utf-8")]
            elif not ids or ids[-1] != self.unk_id:  # neighbours that are unknown have one id
                ids.append(self.unk_id)
        return ids

    def normalize(self, text: str) -> str:
        """The text as the model splits it: normalised, with a sign for spaces.

        Args:
            text: the text.
        """
        model = self._model
        parts: list[str] = []
        trim = model.remove_extra_spaces
        after_space = trim
        for part in self._replaced(text):
            if after_space:
                part = part.lstrip(" ")
            if part:
                parts.append(part)
                after_space = trim and part.endswith(" ")
        made = "".join(parts)
        if not text or (trim and not made):
            return ""
        space = SPACE if model.escape_spaces else " "
        made = made.replace(" ", space)
        if model.add_dummy_prefix and not model.space_as_suffix:
            made = space + made
        if trim:
            made = made.rstrip(space)
        return made + space if model.add_dummy_prefix and model.space_as_suffix else made

    def _replaced(self, text: str) -> Iterable[str]:
        """The parts of a text, each replaced by its rule or as it is."""
        user = self._user_defined
        if self._rules is None:
            return [text[m.start() : m.end()] for m in user.finditer(text)] if user else list(text)
        parts, data, at, rules = [], text.encode("utf-8"), 0, self._rules
        place = 0  # of the same character in the text
        while at < len(data):
            match = user.match(text, place) if user else None
            if match and match.lastgroup:
                parts.append(match[0])
                place, at = match.end(), at + len(match[0].encode("utf-8"))
                continue
            found = rules.longest(data, at)
            if found is None:
                parts.append(text[place])
                at += len(text[place].encode("utf-8"))
                place += 1
            else:
                parts.append(found[0])
                place += len(data[at : found[1]].decode("utf-8", "replace"))
                at = found[1]
        return parts

    def _splitter(self) -> Callable[[str], list[tuple[str, int | None]]]:
        """The function that splits normalised text, by the algorithm of the model."""
        known = {
            piece.text: at
            for at, piece in reversed(list(enumerate(self._pieces)))
            if piece.kind in (files.NORMAL, files.USER_DEFINED, files.UNUSED) and piece.text
        }
        defined = [x for x, at in known.items() if self._pieces[at].kind == files.USER_DEFINED]
        self._user_defined = _longest_first(defined) if defined else None
        algorithm = self._model.algorithm
        if algorithm == files.UNIGRAM:
            return self._unigram(known)
        if algorithm == files.BPE:
            return lambda text: _merge(self._symbols(text), known, self._pieces)
        if algorithm == files.WORD:
            pattern = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")
            return lambda text: [(x, known.get(x)) for x in pattern.findall(text)]
        return lambda text: [(x, known.get(x)) for x, _ in self._symbols(text)]

    def _unigram(self, known: dict[str, int]) -> Callable[[str], list[tuple[str, int | None]]]:
        normal = [piece.score for piece in self._pieces if piece.kind == files.NORMAL]
        lowest, highest = min(normal, default=0.0), max(normal, default=0.0)

        def score(at: int) -> float:
            piece = self._pieces[at]
            if piece.kind == files.USER_DEFINED:  # so high that it is always taken
                return _single(len(piece.text.encode("utf-8")) * highest) - 0.1
            return piece.score

        table = piece_table(
            (text, score(at), at)
            for text, at in known.items()
            if self._pieces[at].kind != files.UNUSED
        )
        unknown = _single(lowest - UNKNOWN_PENALTY)
        # SentencePiece keeps sums in single precision, which decides between equal splits.
        return lambda text: viterbi(text, table, unknown, _single)

    def _symbols(self, text: str) -> list[tuple[str, bool]]:
        """Characters and whole user-defined pieces, which are marked."""
        if self._user_defined is None:
            return [(one, False) for one in text]
        return [(m[0], m.lastgroup is not None) for m in self._user_defined.finditer(text)]

    def _decode(self, ids: list[int]) -> str:
        model, made, at_start = self._model, "", True
        pending = bytearray()
        strip = model.add_dummy_prefix or model.remove_extra_spaces
        seen_space = False
        for one in [*ids, None]:
            known = one is not None and 0 <= one < len(self._pieces)
            piece = self._pieces[one if known else self.unk_id]
            if one is not None and piece.kind == files.BYTE:
                pending.append(int(piece.text[3:5], 16))
                continue
            made += pending.decode("utf-8", "weft_each_byte")
            pending.clear()
            if one is None:
                break
            at_start = at_start and not (seen_space or made)
            text, seen_space = piece.text, False
            if piece.kind == files.CONTROL:
                continue
            if piece.kind == files.UNKNOWN:
                made += model.unknown_surface
                continue
            if at_start and strip and text.startswith(SPACE):
                text, seen_space = text[1:], not model.remove_extra_spaces
            made += text.replace(SPACE, " ")
        return made


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\N{REPLACEMENT CHARACTER}", error.start + 1


codecs.register_error("weft_each_byte", _replace_byte)


def _single(value: float) -> float:
    return float(np.float32(value))


def _longest_first(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches the longest of these texts as a group, or else one character."""
    ordered = sorted(texts, key=lambda one: (-len(one.encode("utf-8")), one))
    return re.compile("(?P<whole>" + "|".join(map(re.escape, ordered)) + ")|.", re.DOTALL)


def _byte_pieces(pieces: list[files.Piece]) -> list[int]:
    found = {piece.text: at for at, piece in enumerate(pieces) if piece.kind == files.BYTE}
    missing = [value for value in range(256) if f"<0x{value:02X}>" not in found]
    if missing:
        raise ValueError(f"the model has no piece for the byte {missing[0]:#04x}")
    return [found[f"<0x{value:02X}>"] for value in range(256)]


def _merge(
    symbols: list[tuple[str, bool]], known: dict[str, int], pieces: list[files.Piece]
) -> list[tuple[str, int | None]]:
    """Merge neighbours as long as they are a piece, the one with the best score first."""
    texts: list[str] = [text for text, _ in symbols]
    after = [*range(1, len(texts)), -1] if texts else []
    before = [*range(-1, len(texts) - 1)]
    frozen = [whole for _, whole in symbols]
    heap: list[tuple[float, int, int, str]] = []
    parts: dict[str, tuple[str, str]] = {}

    def consider(left: int, right: int) -> None:
        if left < 0 or right < 0 or frozen[left] or frozen[right]:
            return
        joined = texts[left] + texts[right]
        if joined in known:
            heapq.heappush(heap, (-pieces[known[joined]].score, left, right, joined))
            if pieces[known[joined]].kind == files.UNUSED:
                parts[joined] = texts[left], texts[right]

    for at in range(1, len(texts)):
        consider(at - 1, at)
    while heap:
        _, left, right, joined = heapq.heappop(heap)
        if not texts[left] or not texts[right] or texts[left] + texts[right] != joined:
            continue  # one of them was merged with another
        texts[left], texts[right] = joined, ""
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left
        consider(before[left], left)
        consider(left, after[left])
    made: list[tuple[str, int | None]] = []
    waiting = [text for text in reversed(texts) if text]
    while waiting:
        text = waiting.pop()
        if text in parts and pieces[known[text]].kind == files.UNUSED:
            waiting += reversed(parts[text])
        else:
            made.append((text, known.get(text)))
    return made
