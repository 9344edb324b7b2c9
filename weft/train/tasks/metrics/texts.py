"""Metrics of texts and labels, and of scores."""

from __future__ import annotations

import collections
import itertools
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.train.metrics import corpus_bleu

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WORDS = re.compile(r"[^\W_]+")


def _paired(targets: Sequence[Any], predictions: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(targets) != len(predictions):
        raise ValueError(f"{len(targets)} targets and {len(predictions)} predictions")
    return list(zip(targets, predictions))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _listed(target: Any) -> list[Any]:
    return list(target) if isinstance(target, (list, tuple)) else [target]


def accuracy(targets: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
    """Return the fraction of predictions that are equal to the target.

    Args:
        targets: labels, texts or anything that can be compared.
        predictions: the same.

    Returns:
        A dictionary of values by name.

    Example:
        >>> accuracy(["yes", "no"], ["yes", "yes"])
        {'accuracy': 0.5}
    """
    return {"accuracy": _mean([np.array_equal(x, y) for x, y in _paired(targets, predictions)])}


def exact_match(targets: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
    """Return the fraction of predictions that are one of the answers, apart from white space.

    Args:
        targets: texts, or lists of them.
        predictions: texts.

    Returns:
        A dictionary of values by name.

    Example:
        >>> exact_match([["Paris", "paris"], "Rome"], ["Paris ", "rome"])
        {'exact_match': 0.5}
    """
    pairs = _paired(targets, predictions)
    return {"exact_match": _mean([p.strip() in [x.strip() for x in _listed(t)] for t, p in pairs])}


def _normalized(text: str) -> str:
    text = "".join(one for one in text.lower() if one not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", text).split())


def _overlap(target: list[str], prediction: list[str]) -> float:
    """F1 of two bags of words."""
    common = (collections.Counter(target) & collections.Counter(prediction)).total()
    return _f1(common, len(prediction), len(target))


def _f1(common: int, predicted: int, wanted: int) -> float:
    if not common:
        return 0.0
    precision, recall = common / predicted, common / wanted
    return 2 * precision * recall / (precision + recall)


def squad(targets: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
    """Return SQuAD's exact match and F1 over words, for each question the best of its answers.

    Case, punctuation, articles and white space do not count. Reference: Rajpurkar et al., SQuAD:
    100,000+ Questions for Machine Comprehension of Text, 2016.

    Args:
        targets: answers, or lists of them.
        predictions: texts.

    Returns:
        A dictionary of values by name.

    Example:
        >>> squad([["the Eiffel Tower", "Eiffel"]], ["Tower of Eiffel!"])
        {'em': 0.0, 'f1': 0.8}
    """
    exact, overlaps = [], []
    for target, prediction in _paired(targets, predictions):
        answers, said = [_normalized(one) for one in _listed(target)], _normalized(prediction)
        exact.append(said in answers)
        overlaps.append(max(_answer_f1(one, said) for one in answers))
    return {"em": _mean(exact), "f1": _mean(overlaps)}


def _answer_f1(answer: str, said: str) -> float:
    if not answer or not said:
        return float(answer == said)
    return _overlap(answer.split(), said.split())


def bleu(targets: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
    """Return BLEU of all texts, split at white space.

    Args:
        targets: references, or lists of them.
        predictions: translations.

    Returns:
        A dictionary of values by name.

    Example:
        >>> bleu(["the cat sat on the mat"], ["the cat sat on the mat"])
        {'bleu': 1.0}
    """
    pairs = _paired(targets, predictions)
    if not any(prediction.split() for _, prediction in pairs):
        return {"bleu": 0.0}
    return {"bleu": corpus_bleu([p for _, p in pairs], [_listed(t) for t, _ in pairs])}


def rouge(targets: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
    """Return F1 of words, of pairs of words, and of the longest common subsequence of words.

    Case and punctuation do not count; of several references, the best counts. Reference: Lin,
    ROUGE: A Package for Automatic Evaluation of Summaries, 2004.

    Args:
        targets: references, or lists of them.
        predictions: summaries.

    Returns:
        A dictionary of values by name.

    Example:
        >>> found = rouge(["The quick brown fox jumps over the lazy dog"],
        ...               ["The quick brown dog jumps on the log."])
        >>> {name: round(value, 4) for name, value in found.items()}
        {'rouge1': 0.7059, 'rouge2': 0.2667, 'rougeL': 0.5882}
    """
    found: dict[str, list[float]] = {"rouge1": [], "rouge2": [], "rougeL": []}
    for target, prediction in _paired(targets, predictions):
        said = _WORDS.findall(prediction.lower())
        scores = [_rouge(_WORDS.findall(one.lower()), said) for one in _listed(target)]
        for name, values in zip(found, zip(*scores)):
            found[name].append(max(values))
    return {name: _mean(values) for name, values in found.items()}


def _rouge(wanted: list[str], said: list[str]) -> tuple[float, float, float]:
    pairs = lambda words: [f"{one} {two}" for one, two in itertools.pairwise(words)]
    common = _common_subsequence(wanted, said)
    return (
        _overlap(wanted, said),
        _overlap(pairs(wanted), pairs(said)),
        _f1(common, len(said), len(wanted)),
    )


def _common_subsequence(one: list[str], two: list[str]) -> int:
    lengths = [0] * (len(two) + 1)
    for word in one:
        before = 0
        for at, other in enumerate(two, 1):
            kept = lengths[at]
            lengths[at] = before + 1 if word == other else max(kept, lengths[at - 1])
            before = kept
    return lengths[-1]


def mean_score(targets: Sequence[Any], scores: Sequence[float]) -> dict[str, float]:
    """Return the mean of the scores that a model gives the targets, as log-probabilities.

    Args:
        targets: not looked at.
        scores: a number for each.

    Returns:
        A dictionary of values by name.

    Example:
        >>> mean_score(["a", "b"], [-1.0, -3.0])
        {'mean_score': -2.0}
    """
    return {"mean_score": _mean([float(one) for one in scores])}
