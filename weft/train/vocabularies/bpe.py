"""Byte pair encoding, learned here: the most frequent pair of tokens becomes a new token.

Reference: Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, 2016.
"""

from __future__ import annotations

import collections
import heapq
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from weft.train.vocabularies.base import (
    BYTES,
    SPECIAL_IDS,
    TextVocabulary,
    byte_ids,
    bytes_of_special_ids,
    single_bytes,
)
from weft.train.vocabularies.splitting import count_words, split_words

MAX_CACHED_WORDS = 1 << 16
NOT_MERGED = 1 << 62
Pair = tuple[int, int]


class BPEVocabulary(TextVocabulary):
    """Pieces of bytes, merged pair by pair: every text has ids, and decoding gives it back.

    Ids from 3 to 258 are single bytes, as in ``ByteVocabulary``; the pieces follow.

    Args:
        merges: the pairs of ids that are merged, in order; ``train`` finds them.
        extra_ids: how many ids to add at the end that no text has, for sentinels.

    Example:
        >>> vocabulary = BPEVocabulary.train(["low lower lowest"] * 4, vocab_size=264)
        >>> [vocabulary.decode([one]) for one in vocabulary.encode("low lowest")]
        ['low', ' lowe', 'st']
        >>> vocabulary.decode(vocabulary.encode("Łódź 🚂"))
        'Łódź 🚂'
    """

    def __init__(self, merges: Sequence[Pair], extra_ids: int = 0) -> None:
        """A vocabulary with these merges.

        Args:
            merges: pairs of ids, of bytes or of earlier merges, the first one first.
            extra_ids: how many ids come after those of the merges.
        """
        super().__init__(extra_ids)
        self.merges = [(int(one), int(two)) for one, two in merges]
        table = [*bytes_of_special_ids(), *single_bytes()]
        for at, (one, two) in enumerate(self.merges):
            if not (SPECIAL_IDS <= one < len(table) and SPECIAL_IDS <= two < len(table)):
                raise ValueError(
                    f"merge {at} is of ids {one} and {two}, which are not tokens at that point"
                )
            table.append(table[one] + table[two])
        self._table = table
        first = SPECIAL_IDS + BYTES
        self._merged = {pair: first + at for at, pair in reversed(list(enumerate(self.merges)))}
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, extra_ids: int = 0, min_count: int = 2
    ) -> BPEVocabulary:
        """Learn a vocabulary from texts.

        The same texts give the same vocabulary: of pairs that are equally frequent, the one with
        the smaller ids is merged.

        Args:
            texts: the texts.
            vocab_size: how many ids it has at most, with special and extra ones.
            extra_ids: how many of them are extra.
            min_count: a pair has to be there so often to be merged.
        """
        wanted = vocab_size - extra_ids - SPECIAL_IDS - BYTES
        if wanted < 0:
            least = SPECIAL_IDS + BYTES + extra_ids
            raise ValueError(f"vocab_size={vocab_size} is too small: bytes and others need {least}")
        words = count_words(texts)
        learner = _Learner([byte_ids(word) for word in words], list(words.values()))
        return cls(learner.learn(wanted, max(1, min_count)), extra_ids)

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        return len(self._table)

    def config(self) -> dict[str, Any]:
        """All that defines the vocabulary."""
        return {"merges": [list(pair) for pair in self.merges], "extra_ids": self.extra_ids}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cache": {}}

    def _encode(self, text: str) -> list[int]:
        cache, ids = self._cache, []
        for word in split_words(text):
            found = cache.get(word)
            if found is None:
                if len(cache) >= MAX_CACHED_WORDS:
                    cache.clear()
                found = cache[word] = merge_pairs(byte_ids(word), self._merged)
            ids += found
        return ids

    def _bytes_by_id(self) -> list[bytes]:
        return self._table


def merge_pairs(tokens: list[int], merged: dict[Pair, int]) -> list[int]:
    """Merge neighbours, the pair with the smallest result first and from the left.

    >>> merge_pairs([3, 4, 3, 4, 5], {(3, 4): 300, (300, 5): 301})
    [300, 301]
    """
    while len(tokens) > 1:
        best = min(merged.get(pair, NOT_MERGED) for pair in itertools.pairwise(tokens))
        if best == NOT_MERGED:
            break
        made, at, last = [], 0, len(tokens) - 1
        while at <= last:
            if at < last and merged.get((tokens[at], tokens[at + 1])) == best:
                made.append(best)
                at += 2
            else:
                made.append(tokens[at])
                at += 1
        tokens = made
    return tokens


class _Learner:
    """Words as lists of tokens, and where each pair of neighbours is."""

    def __init__(self, words: list[list[int]], counts: list[int]) -> None:
        self.words, self.counts = words, counts
        self.pairs: collections.Counter[Pair] = collections.Counter()
        self.places: dict[Pair, set[int]] = collections.defaultdict(set)
        for at, (word, count) in enumerate(zip(words, counts, strict=True)):
            for pair in itertools.pairwise(word):
                self.pairs[pair] += count
                self.places[pair].add(at)
        self.heap = [(-count, pair) for pair, count in self.pairs.items()]
        heapq.heapify(self.heap)

    def learn(self, wanted: int, min_count: int) -> list[Pair]:
        merges: list[Pair] = []
        while len(merges) < wanted and self.heap:
            negative, pair = heapq.heappop(self.heap)
            count = self.pairs[pair]
            if count != -negative:  # an entry from before the count changed
                if count >= min_count:
                    heapq.heappush(self.heap, (-count, pair))
                continue
            if count < min_count:
                break
            self._merge(pair, SPECIAL_IDS + BYTES + len(merges))
            merges.append(pair)
        return merges

    def _merge(self, pair: Pair, new: int) -> None:
        grown: set[Pair] = set()
        for at in self.places.pop(pair):
            word, count = self.words[at], self.counts[at]
            made = merge_pairs(word, {pair: new})
            if len(made) == len(word):
                continue
            for old in itertools.pairwise(word):
                self.pairs[old] -= count
            for found in itertools.pairwise(made):
                self.pairs[found] += count
                if new in found:
                    self.places[found].add(at)
                    grown.add(found)
            self.words[at] = made
        self.pairs.pop(pair, None)
        for found in grown:
            heapq.heappush(self.heap, (-self.pairs[found], found))
