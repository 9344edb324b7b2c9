"""Metrics of classifiers that count hits and misses: precision, recall, F1, and the ROC curve."""

from __future__ import annotations

from typing import Any, ClassVar

from weft import nn
from weft import numpy as jnp
from weft.linen import struct
from weft.train.metrics.base import Metric, broadcast_mask

AVERAGES = ("binary", "micro", "macro", "weighted")


def _predictions(logits: Any, labels: Any) -> Any:
    """Classes, from logits of all classes or of the positive one alone."""
    logits = jnp.asarray(logits)
    if logits.ndim == labels.ndim + 1:
        return logits.argmax(axis=-1)
    if logits.shape == labels.shape:
        return (logits > 0).astype(jnp.int32)
    raise ValueError(f"logits of shape {logits.shape} do not fit labels of shape {labels.shape}")


@struct.dataclass
class ClassCounts(Metric):
    """For every class, how often it was predicted rightly, wrongly, and missed.

    Args:
        hits: for each class, how often it was predicted rightly.
        false_alarms: for each class, how often it was predicted wrongly.
        misses: for each class, how often it was not predicted though it was right.

    Example:
        >>> from weft.train import metrics
        >>> issubclass(metrics.Precision, metrics.ClassCounts)
        True
    """

    hits: Any
    false_alarms: Any
    misses: Any

    classes: ClassVar[int] = 2
    average: ClassVar[str] = "binary"

    @classmethod
    def of(cls, classes: int, average: str = "macro") -> type[ClassCounts]:
        """This metric for some number of classes.

        Args:
            classes: the number of classes.
            average: ``"macro"`` is the mean over classes, ``"weighted"`` weights them by how often
                they occur, ``"micro"`` counts all classes together, ``"binary"`` is of class 1.

        >>> logits = jnp.eye(3)[jnp.array([0, 1, 1, 2])]
        >>> counts = Recall.of(3).from_model_output(logits=logits, labels=jnp.array([0, 1, 2, 2]))
        >>> round(float(counts.compute()), 4)
        0.8333
        """
        if average not in AVERAGES:
            raise ValueError(f"average={average!r}: write one of {', '.join(AVERAGES)}")
        made = type(f"{cls.__name__}Of{classes}", (cls,), {"classes": classes, "average": average})
        return struct.dataclass(made)

    @classmethod
    def empty(cls) -> Any:
        """Of no example."""
        zeros = jnp.zeros(cls.classes, jnp.float32)
        return cls(hits=zeros, false_alarms=zeros, misses=zeros)

    @classmethod
    def from_model_output(
        cls, *, labels: Any, logits: Any = None, predictions: Any = None, mask: Any = None, **_: Any
    ) -> Any:
        """Of a batch.

        Args:
            labels: integers of shape (...).
            logits: of shape (..., classes), or (...) for two classes; or
            predictions: predicted classes of shape (...).
            mask: which examples count.
        """
        labels = jnp.asarray(labels)
        found = _predictions(logits, labels) if predictions is None else jnp.asarray(predictions)
        mask = broadcast_mask(mask, labels).reshape(-1, 1)
        said = (found.reshape(-1, 1) == jnp.arange(cls.classes)) & mask
        true = (labels.reshape(-1, 1) == jnp.arange(cls.classes)) & mask
        count = lambda x: x.sum(axis=0, dtype=jnp.float32)
        return cls(hits=count(said & true), false_alarms=count(said & ~true),
                   misses=count(~said & true))  # fmt: skip

    def merge(self, other: Any) -> Any:
        """Of both."""
        return type(self)(
            hits=self.hits + other.hits,
            false_alarms=self.false_alarms + other.false_alarms,
            misses=self.misses + other.misses,
        )

    def _averaged(self, share: Any) -> Any:
        """One number, from a function of hits, false alarms and misses; 0 where it is 0 / 0."""
        counts = self.hits, self.false_alarms, self.misses
        if self.average == "micro":
            return share(*(x.sum() for x in counts))
        each = share(*counts)
        if self.average == "binary":
            return each[1]
        if self.average == "macro":
            return each.mean()
        occurring = self.hits + self.misses
        return (each * occurring).sum() / jnp.maximum(occurring.sum(), 1.0)


def _ratio(part: Any, whole: Any) -> Any:
    return jnp.where(whole > 0, part / jnp.maximum(whole, 1e-30), 0.0)


@struct.dataclass
class Precision(ClassCounts):
    """The share of examples predicted as a class that are of it.

    >>> logits = jnp.array([2.0, 1.0, -1.0, 3.0])
    >>> found = Precision.from_model_output(logits=logits, labels=jnp.array([1, 0, 1, 1]))
    >>> round(float(found.compute()), 4)
    0.6667
    """

    def compute(self) -> Any:
        """The precision."""
        return self._averaged(lambda hits, alarms, misses: _ratio(hits, hits + alarms))


@struct.dataclass
class Recall(ClassCounts):
    """The share of examples of a class that are predicted as it.

    >>> logits = jnp.array([2.0, 1.0, -1.0, 3.0])
    >>> found = Recall.from_model_output(logits=logits, labels=jnp.array([1, 0, 1, 1]))
    >>> round(float(found.compute()), 4)
    0.6667
    """

    def compute(self) -> Any:
        """The recall."""
        return self._averaged(lambda hits, alarms, misses: _ratio(hits, hits + misses))


@struct.dataclass
class F1(ClassCounts):
    """The harmonic mean of precision and recall.

    >>> logits = jnp.array([2.0, 1.0, -1.0, 3.0])
    >>> found = F1.from_model_output(logits=logits, labels=jnp.array([1, 0, 0, 1]))
    >>> float(found.compute())
    0.8...
    """

    def compute(self) -> Any:
        """The F1 score."""
        return self._averaged(
            lambda hits, alarms, misses: _ratio(2 * hits, 2 * hits + alarms + misses)
        )


@struct.dataclass
class AUC(Metric):
    """The area under the ROC curve, from histograms of the scores of both classes.

    Scores in the same bin count as equal. With the 1,000 bins it has, the error is below the share
    of pairs that fall into one bin; ``roc_auc`` is exact and needs all scores at once.

    Args:
        positives: how many examples of the class have a score in each bin.
        negatives: how many other examples have a score in each bin.

    Example:
        >>> logits, labels = jnp.array([-2.0, -1.0, 0.5, 2.0]), jnp.array([0, 1, 0, 1])
        >>> float(AUC.from_model_output(logits=logits, labels=labels).compute())
        0.75
    """

    positives: Any
    negatives: Any

    bins: ClassVar[int] = 1000

    @classmethod
    def empty(cls) -> Any:
        """Of no example."""
        zeros = jnp.zeros(cls.bins, jnp.float32)
        return cls(positives=zeros, negatives=zeros)

    @classmethod
    def from_model_output(
        cls, *, labels: Any, logits: Any = None, scores: Any = None, mask: Any = None, **_: Any
    ) -> Any:
        """Of a batch.

        Args:
            labels: 0 or 1, of shape (...).
            logits: of shape (...), or (..., 2); or
            scores: probabilities of class 1, of shape (...).
            mask: which examples count.
        """
        labels = jnp.asarray(labels)
        if scores is None:
            logits = jnp.asarray(logits, jnp.float32)
            if logits.ndim == labels.ndim + 1:
                logits = logits[..., 1] - logits[..., 0]
            scores = nn.sigmoid(logits)
        weights = broadcast_mask(mask, labels).astype(jnp.float32).reshape(-1)
        bins = jnp.clip((scores * cls.bins).astype(jnp.int32), 0, cls.bins - 1).reshape(-1)
        zeros, true = jnp.zeros(cls.bins, jnp.float32), labels.reshape(-1) > 0
        return cls(
            positives=zeros.at[bins].add(jnp.where(true, weights, 0.0)),
            negatives=zeros.at[bins].add(jnp.where(true, 0.0, weights)),
        )

    def merge(self, other: Any) -> Any:
        """Of both."""
        return type(self)(
            positives=self.positives + other.positives, negatives=self.negatives + other.negatives
        )

    def compute(self) -> Any:
        """The area; NaN if a class has no example."""
        above = self.positives.sum() - jnp.cumsum(self.positives)
        pairs = (self.negatives * (above + 0.5 * self.positives)).sum()
        return pairs / (self.positives.sum() * self.negatives.sum())


def roc_auc(scores: Any, labels: Any) -> Any:
    """The exact area under the ROC curve; equal scores count half.

    Args:
        scores: the larger, the likelier is class 1; of shape (examples,).
        labels: 0 or 1, of shape (examples,).

    Returns:
        The probability that an example of class 1 has a larger score than one of class 0.

    Example:
        >>> float(roc_auc(jnp.array([0.1, 0.4, 0.4, 0.8]), jnp.array([0, 0, 1, 1])))
        0.875
    """
    scores, true = jnp.asarray(scores), jnp.asarray(labels) > 0
    ordered = jnp.sort(scores)
    low = jnp.searchsorted(ordered, scores, side="left")
    high = jnp.searchsorted(ordered, scores, side="right")
    ranks = 0.5 * (low + high + 1)
    count = true.sum()
    above = jnp.where(true, ranks, 0.0).sum() - count * (count + 1) / 2
    return above / (count * (true.size - count))
