"""Pieces with probabilities, learned here: a text is split in the most probable way.

Reference: Kudo, Subword Regularization: Improving Neural Network Translation Models with Multiple
Subword Candidates, 2018.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.train.vocabularies.base import (
    BYTES,
    SPECIAL_IDS,
    TextVocabulary,
    byte_ids,
    bytes_of_special_ids,
    single_bytes,
)
from weft.train.vocabularies.lattice import Lattice
from weft.train.vocabularies.splitting import count_words, split_words

MAX_CACHED_WORDS = 1 << 16
MISSING: Any = object()
UNKNOWN_PENALTY = 10.0  # how much less likely than the least likely piece other characters are
MIN_EXPECTED = 0.5  # pieces that are expected less often are dropped
EM_STEPS = 2  # between prunings
KEPT_FRACTION = 0.75  # of the pieces, by one pruning


class UnigramVocabulary(TextVocabulary):
    """Pieces of words with probabilities; characters that are no piece are written as bytes.

    Ids from 3 to 258 are single bytes, as in ``ByteVocabulary``; the pieces follow, the most
    probable first. Every text has ids, and decoding gives it back.

    Args:
        pieces: the pieces and the logarithms of their probabilities; ``train`` finds them.
        extra_ids: how many ids to add at the end that no text has, for sentinels.

    Example:
        >>> vocabulary = UnigramVocabulary.train(["low lower lowest newest"] * 9, vocab_size=275)
        >>> [vocabulary.decode([one]) for one in vocabulary.encode("lower lowest")]
        ['low', 'e', 'r', ' lowest']
        >>> vocabulary.decode(vocabulary.encode("Łódź 🚂"))
        'Łódź 🚂'
    """

    def __init__(self, pieces: Sequence[tuple[str, float]], extra_ids: int = 0) -> None:
        """A vocabulary of these pieces.

        Args:
            pieces: pieces and the logarithms of their probabilities, in the order of their ids.
            extra_ids: how many ids come after those of the pieces.
        """
        super().__init__(extra_ids)
        self.pieces = [(str(piece), float(score)) for piece, score in pieces]
        self._table = [
            *bytes_of_special_ids(),
            *single_bytes(),
            *(piece.encode("utf-8") for piece, _ in self.pieces),
        ]
        if len(dict(self.pieces)) != len(self.pieces) or "" in dict(self.pieces):
            raise ValueError("the pieces must be distinct and non-empty")
        if not all(math.isfinite(score) for _, score in self.pieces):
            raise ValueError("the scores of pieces must be finite")
        first = SPECIAL_IDS + BYTES
        self._pieces = piece_table((*one, first + at) for at, one in enumerate(self.pieces))
        lowest = min((score for _, score in self.pieces), default=0.0)
        self._unknown = lowest - UNKNOWN_PENALTY
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        extra_ids: int = 0,
        character_coverage: float = 0.9995,
        max_piece_length: int = 16,
        seed_size: int = 1_000_000,
    ) -> UnigramVocabulary:
        """Learn a vocabulary from texts.

        Frequent parts of words are the first pieces. Expectation maximisation gives them
        probabilities, and those that matter least for the likelihood are dropped, step by step.

        Args:
            texts: the texts.
            vocab_size: how many ids it has at most, with special and extra ones.
            extra_ids: how many of them are extra.
            character_coverage: which part of all characters has to be in pieces; rarer ones are
                written as bytes.
            max_piece_length: how many characters a piece has at most.
            seed_size: how many pieces there are at first.
        """
        words = count_words(texts)
        alphabet = _alphabet(words, character_coverage)
        wanted = vocab_size - extra_ids - SPECIAL_IDS - BYTES
        if wanted < len(alphabet):
            least = vocab_size - wanted + len(alphabet)
            raise ValueError(
                f"vocab_size={vocab_size} is too small: bytes, {len(alphabet)} characters and"
                f" others need {least}; a smaller character_coverage needs fewer"
            )
        words = _split_at_others(words, alphabet)
        learner = _Learner(words, alphabet, max_piece_length, seed_size)
        return cls(learner.learn(wanted), extra_ids)

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        return len(self._table)

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary."""
        return {"pieces": [list(one) for one in self.pieces], "extra_ids": self.extra_ids}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cache": {}}

    def _encode(self, text: str) -> list[int]:
        cache, ids = self._cache, []
        for word in split_words(text):
            found = cache.get(word)
            if found is None:
                if len(cache) >= MAX_CACHED_WORDS:
                    cache.clear()
                found = cache[word] = self._best(word)
            ids += found
        return ids

    def _best(self, word: str) -> list[int]:
        ids: list[int] = []
        for piece, found in viterbi(word, self._pieces, self._unknown):
            ids += byte_ids(piece) if found is None else [found]
        return ids

    def _bytes_by_id(self) -> list[bytes]:
        return self._table


Pieces = dict[str, tuple[float, int] | None]


def piece_table(pieces: Iterable[tuple[str, float, int]]) -> Pieces:
    """Scores and ids by piece, and None for the beginnings of pieces that are no pieces.

    Args:
        pieces: pieces with scores and ids.

    Example:
        >>> piece_table([("ab", -1.0, 7)])
        {'a': None, 'ab': (-1.0, 7)}
    """
    table: Pieces = {}
    for piece, score, number in pieces:
        for end in range(1, len(piece)):
            table.setdefault(piece[:end], None)
        table[piece] = (score, number)
    return table


def viterbi(
    text: str,
    table: Pieces,
    unknown: float,
    rounded: Callable[[float], float] = float,
) -> list[tuple[str, int | None]]:
    """Split a text into the pieces whose scores have the largest sum.

    Of splits with equal sums, the one whose last pieces are longest is taken.

    Args:
        text: the text.
        table: the pieces, from ``piece_table``.
        unknown: the score of a character that is no piece.
        rounded: rounds sums, to single precision or not at all.

    Returns:
        The pieces with their ids; None is the id of an unknown character.

    Example:
        >>> viterbi("aab", piece_table([("a", -1.0, 5), ("aa", -1.5, 6)]), -10.0)
        [('aa', 6), ('b', None)]
    """
    size = len(text)
    best = [0.0] + [-math.inf] * size
    came: list[tuple[int, int | None]] = [(0, None)] * (size + 1)
    for start in range(size):
        base, end = best[start], start
        while end < size:
            end += 1
            found = table.get(text[start:end], MISSING)
            if found is None:
                continue
            if found is MISSING:
                break
            score = rounded(base + found[0])
            if score > best[end]:
                best[end], came[end] = score, (start, found[1])
        if table.get(text[start]) is None and (score := rounded(base + unknown)) > best[start + 1]:
            best[start + 1], came[start + 1] = score, (start, None)
    made = []
    while size:
        start, number = came[size]
        made.append((text[start:size], number))
        size = start
    return made[::-1]


def _alphabet(words: dict[str, int], coverage: float) -> list[str]:
    """The most frequent characters, until this part of all is covered."""
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for one in word:
            counts[one] += count
    wanted, total = coverage * counts.total(), 0
    found = []
    for one in sorted(counts, key=lambda one: (-counts[one], one)):
        if total >= wanted:
            break
        found.append(one)
        total += counts[one]
    return found


def _split_at_others(words: dict[str, int], alphabet: list[str]) -> dict[str, int]:
    """The words, split where they have a character that is not in the alphabet."""
    allowed, made = set(alphabet), collections.Counter()
    for word, count in words.items():
        if allowed.issuperset(word):
            made[word] += count
            continue
        for part in "".join(x if x in allowed else "\0" for x in word).split("\0"):
            if part:
                made[part] += count
    return dict(made)


def _digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of the logarithm of the gamma function, for x above 0.

    The recurrence up to 8, then the asymptotic series (Abramowitz and Stegun, 6.3.5 and 6.3.18).
    """
    x = np.array(x, np.float64)
    made = np.zeros_like(x)
    while np.any(small := x < 8):
        made[small] -= 1 / x[small]
        x[small] += 1
    square = 1 / (x * x)
    tail = 1 / 252 - square * (1 / 240 - square * (1 / 132 - square * 691 / 32760))
    series = square * (1 / 12 - square * (1 / 120 - square * tail))
    return made + np.log(x) - 0.5 / x - series


class _Learner:
    """The pieces so far with their scores, and the splits of all words into them."""

    def __init__(
        self, words: dict[str, int], alphabet: list[str], longest: int, seed_size: int
    ) -> None:
        self.counts = np.fromiter(words.values(), np.float64, len(words))
        self.characters = len(alphabet)  # they are the first pieces and stay
        substrings: collections.Counter[str] = collections.Counter()
        for word, count in words.items():
            for start in range(len(word) - 1):
                for end in range(start + 2, min(len(word), start + longest) + 1):
                    substrings[word[start:end]] += count
        ranked = sorted(
            (one for one, count in substrings.items() if count > 1),
            key=lambda one: (-substrings[one] * len(one), one),
        )
        self.pieces = [*alphabet, *ranked[:seed_size]]
        numbers = {piece: at for at, piece in enumerate(self.pieces)}
        self.lattice = Lattice(list(words), numbers)
        weights = np.bincount(self.lattice.piece, self.counts[self.lattice.row], len(self.pieces))
        self.scores = np.log(np.maximum(weights, 1.0) / max(weights.sum(), 1.0))

    def learn(self, wanted: int) -> list[tuple[str, float]]:
        while self.pieces:
            for _ in range(EM_STEPS):
                self._maximise()
            if len(self.pieces) <= wanted:
                break
            self._prune(max(wanted, int(len(self.pieces) * KEPT_FRACTION)))
        scores = np.round(self.scores, 6)  # so that processors with other exp agree
        order = np.lexsort((np.arange(len(self.pieces)), -scores))
        return [(self.pieces[at], float(scores[at])) for at in order]

    def _maximise(self) -> None:
        expected, _ = self.lattice.expected(self.scores, self.counts)
        stay = expected >= MIN_EXPECTED
        stay[: self.characters] = True
        expected = np.maximum(expected[stay], MIN_EXPECTED)
        self._keep(stay)
        self.scores = _digamma(expected) - _digamma(expected.sum())

    def _keep(self, stay: np.ndarray) -> None:
        self.lattice.keep(stay, np.cumsum(stay) - 1)
        self.pieces = [piece for piece, one in zip(self.pieces, stay) if one]
        self.scores = self.scores[stay]

    def _prune(self, size: int) -> None:
        """Drop pieces without which the likelihood of the texts falls least."""
        numbers = {piece: at for at, piece in enumerate(self.pieces)}
        row, piece = self.lattice.best(self.scores)
        uses = np.bincount(piece, self.counts[row], len(self.pieces))
        others = Lattice(self.pieces, numbers, whole=False)
        row, piece = others.best(self.scores)
        second = np.bincount(row, self.scores[piece], len(self.pieces))
        parts = np.bincount(row, minlength=len(self.pieces))
        total = uses.sum()
        # Without a piece, its uses go to its parts, of which there are more in sum.
        grown = np.log(total + uses * (parts - 1))
        added = np.bincount(row, np.log(uses[piece] + uses[row] + 1e-9), len(self.pieces))
        alone = np.log(uses + 1e-9) - math.log(max(total, 1.0))
        loss = uses / max(total, 1.0) * (alone - (added - parts * grown))
        loss[(uses == 0) | (second >= self.scores)] = -np.inf
        loss[: self.characters] = np.inf
        order = np.lexsort((np.arange(len(loss)), -loss.astype(np.float32)))
        stay = np.zeros(len(loss), bool)
        stay[order[:size]] = True
        self._keep(stay)
