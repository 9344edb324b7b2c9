"""BLEU: how much translations have in common with references, counted on the host."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence

Tokens = str | Sequence[object]


def _tokens(text: Tokens) -> list[object]:
    return list(text.split()) if isinstance(text, str) else list(text)


def _ngrams(tokens: list[object], order: int) -> collections.Counter:
    return collections.Counter(
        tuple(tokens[at : at + order]) for at in range(len(tokens) - order + 1)
    )


@dataclasses.dataclass(frozen=True)
class Bleu:
    """Counts of matching n-grams of a corpus, which merge like other metrics.

    Text is split at white space; pass tokens to split it otherwise.
    Reference: Papineni et al., BLEU: a Method for Automatic Evaluation of Machine Translation,
    2002.

    Args:
        matches: for each length, how many n-grams match a reference.
        totals: for each length, how many n-grams there are.
        length: the number of tokens of the predictions.
        reference_length: the number of tokens of the references.

    Example:
        >>> one = Bleu.from_texts(["the cat sat on the mat"], [["the cat sat on a mat"]])
        >>> two = Bleu.from_texts(["hello there world again"], [["hello there world again"]])
        >>> round(one.merge(two).compute(), 4)
        0.6887
    """

    matches: tuple[int, ...] = (0, 0, 0, 0)
    totals: tuple[int, ...] = (0, 0, 0, 0)
    length: int = 0
    reference_length: int = 0

    @classmethod
    def empty(cls, order: int = 4) -> Bleu:
        """Of no text.

        Args:
            order: the length of the longest n-grams.
        """
        return cls((0,) * order, (0,) * order)

    @classmethod
    def from_texts(
        cls, predictions: Iterable[Tokens], references: Iterable[Sequence[Tokens]], order: int = 4
    ) -> Bleu:
        """Of some translations.

        Args:
            predictions: texts or lists of tokens.
            references: for each of them a list of references, or one text.
            order: the length of the longest n-grams.
        """
        matches, totals, length, reference_length = [0] * order, [0] * order, 0, 0
        for prediction, listed in zip(predictions, references, strict=True):
            found = _tokens(prediction)
            wanted = [_tokens(one) for one in ([listed] if isinstance(listed, str) else listed)]
            length += len(found)
            nearest = min((abs(len(one) - len(found)), len(one)) for one in wanted)
            reference_length += nearest[1]
            for n in range(1, order + 1):
                allowed: collections.Counter = collections.Counter()
                for one in wanted:
                    allowed |= _ngrams(one, n)
                counted = _ngrams(found, n)
                matches[n - 1] += (counted & allowed).total()
                totals[n - 1] += counted.total()
        return cls(tuple(matches), tuple(totals), length, reference_length)

    def merge(self, other: Bleu) -> Bleu:
        """Of the texts of both."""
        add = lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True))
        return Bleu(
            add(self.matches, other.matches),
            add(self.totals, other.totals),
            self.length + other.length,
            self.reference_length + other.reference_length,
        )

    def compute(self, smooth: bool = False) -> float:
        """The score, from 0 to 1.

        Args:
            smooth: add one to the counts of n-grams of two tokens and more (Lin and Och, 2004).
        """
        logs = []
        for n, (match, total) in enumerate(zip(self.matches, self.totals)):
            add = 1 if smooth and n else 0
            if not match + add or not total + add:
                return 0.0
            logs.append(math.log((match + add) / (total + add)))
        brevity = min(0.0, 1.0 - self.reference_length / self.length)
        return math.exp(sum(logs) / len(logs) + brevity)


def corpus_bleu(
    predictions: Iterable[Tokens],
    references: Iterable[Sequence[Tokens]],
    order: int = 4,
    smooth: bool = False,
) -> float:
    """Return the BLEU score of a corpus.

    Args:
        predictions: texts, split at white space, or lists of tokens.
        references: for each of them a list of references, or one text.
        order: the length of the longest n-grams.
        smooth: add one to the counts of longer n-grams.

    Returns:
        The score, from 0 to 1.

    Example:
        >>> corpus_bleu(["a b c d e"], [["a b c d e"]])
        1.0
    """
    return Bleu.from_texts(predictions, references, order).compute(smooth)
