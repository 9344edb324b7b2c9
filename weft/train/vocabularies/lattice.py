"""All ways to split many words into pieces, as arrays: sums over them and the best of each word.

An arc is a piece at a place of a word. Arcs are sorted by where they end, so that one step of
the recursion takes the arcs of all words that end at the same place.
"""

import itertools

import numpy as np


class Lattice:
    """The arcs of some words.

    >>> lattice = Lattice(["ab"], {"a": 0, "b": 1, "ab": 2})
    >>> scores = np.log([0.5, 0.3, 0.2])
    >>> float(np.exp(lattice.forward(scores)[0, 2]).round(2))  # 0.5 * 0.3 + 0.2
    0.35
    """

    def __init__(self, words: list[str], pieces: dict[str, int], whole: bool = True) -> None:
        """Find the arcs.

        Args:
            words: the words.
            pieces: numbers by piece. Every character of the words has to be a piece.
            whole: whether a piece may be a whole word of several characters.
        """
        longest = max(map(len, pieces), default=1)
        rows, starts, ends, found = [], [], [], []
        for row, word in enumerate(words):
            length = len(word)
            for start in range(length):
                for end in range(start + 1, min(length, start + longest) + 1):
                    piece = pieces.get(word[start:end])
                    if piece is None or (not whole and 1 < length == end - start):
                        continue
                    rows.append(row)
                    starts.append(start)
                    ends.append(end)
                    found.append(piece)
        self.words = len(words)
        self.length = max(map(len, words), default=0)
        self.sizes = np.fromiter(map(len, words), np.int64, len(words))
        arrays = [np.array(x, np.int64) for x in (rows, starts, ends, found)]
        self._sort(*arrays)

    def _sort(self, row: np.ndarray, start: np.ndarray, end: np.ndarray, piece: np.ndarray) -> None:
        order = np.lexsort((start, row, end))
        self.row, self.start, self.end, self.piece = (x[order] for x in (row, start, end, piece))

    def keep(self, pieces: np.ndarray, numbers: np.ndarray) -> None:
        """Keep only the arcs of some pieces, and number the pieces anew.

        Args:
            pieces: a boolean for each piece.
            numbers: the new number of each piece that stays.
        """
        stay = pieces[self.piece]
        self.row, self.start, self.end = (x[stay] for x in (self.row, self.start, self.end))
        self.piece = numbers[self.piece[stay]]

    def _groups(self, by: np.ndarray, row: np.ndarray) -> list[tuple[slice, np.ndarray]]:
        """Slices of arcs with the same place, and in each where another word begins."""
        bounds = np.searchsorted(by, np.arange(self.length + 2))
        groups = []
        for low, high in itertools.pairwise(bounds):
            if high > low:
                part = row[low:high]
                heads = np.flatnonzero(np.r_[True, part[1:] != part[:-1]])
                groups.append((slice(low, high), heads))
        return groups

    def forward(self, scores: np.ndarray) -> np.ndarray:
        """The logarithm of the sum over all splits of the first characters, for each word.

        Args:
            scores: the logarithm of the probability of each piece.
        """
        sums = np.full((self.words, self.length + 1), -np.inf)
        sums[:, 0] = 0.0
        for arcs, heads in self._groups(self.end, self.row):
            row = self.row[arcs]
            values = sums[row, self.start[arcs]] + scores[self.piece[arcs]]
            sums[row[heads], self.end[arcs.start]] = _log_sums(values, heads)
        return sums

    def expected(self, scores: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, float]:
        """How often each piece is expected, and the logarithm of the likelihood of all words.

        Args:
            scores: the logarithm of the probability of each piece.
            counts: how often each word is there.
        """
        before = self.forward(scores)
        order = np.lexsort((self.row, self.start))
        row, start, end, piece = (x[order] for x in (self.row, self.start, self.end, self.piece))
        after = np.full((self.words, self.length + 1), -np.inf)
        after[np.arange(self.words), self.sizes] = 0.0
        for arcs, heads in reversed(self._groups(start, row)):
            part = row[arcs]
            values = after[part, end[arcs]] + scores[piece[arcs]]
            after[part[heads], start[arcs.start]] = _log_sums(values, heads)
        total = after[:, 0]
        weights = np.exp(before[row, start] + scores[piece] + after[row, end] - total[row])
        expected = np.bincount(piece, weights * counts[row], len(scores))
        return expected, float(total @ counts)

    def best(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best split of every word: its arcs as word and piece, in no order.

        Args:
            scores: the logarithm of the probability of each piece.
        """
        best = np.full((self.words, self.length + 1), -np.inf)
        best[:, 0] = 0.0
        chosen = np.zeros((self.words, self.length + 1), np.int64)
        for arcs, heads in self._groups(self.end, self.row):
            row = self.row[arcs]
            values = best[row, self.start[arcs]] + scores[self.piece[arcs]]
            top = np.maximum.reduceat(values, heads)
            sizes = np.diff(np.r_[heads, len(values)])
            hits = np.flatnonzero(values == np.repeat(top, sizes))[::-1]  # the first one wins
            best[row[heads], self.end[arcs.start]] = top
            chosen[row[hits], self.end[arcs.start]] = hits + arcs.start
        rows, pieces = [], []
        row, place = np.arange(self.words), self.sizes.copy()
        while len(row):
            going = place > 0
            row, place = row[going], place[going]
            arc = chosen[row, place]
            rows.append(row)
            pieces.append(self.piece[arc])
            place = self.start[arc]
        return np.concatenate([*rows, np.zeros(0, int)]), np.concatenate(
            [*pieces, np.zeros(0, int)]
        )


def _log_sums(values: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """The logarithm of the sums of exponentials of groups that begin at ``heads``."""
    top = np.maximum.reduceat(values, heads)
    sizes = np.diff(np.r_[heads, len(values)])
    return top + np.log(np.add.reduceat(np.exp(values - np.repeat(top, sizes)), heads))
