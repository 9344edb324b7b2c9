"""Metrics that are sums of numbers: averages, deviations, accuracy, perplexity."""

from __future__ import annotations

from typing import Any

from weft import nn
from weft import numpy as jnp
from weft.linen import struct
from weft.train.metrics.base import Metric, broadcast_mask


def _zero() -> Any:
    return jnp.zeros((), jnp.float32)


def _values(values: Any) -> Any:
    values = jnp.asarray(values)
    return values[None] if values.ndim == 0 else values


@struct.dataclass
class Average(Metric):
    """The mean of all values whose mask is True.

    Args:
        total: the sum of the values.
        count: how many there are.

    Example:
        >>> float(Average.from_model_output(jnp.array([1.0, 3.0, 99.0]), mask=[1, 1, 0]).compute())
        2.0
    """

    total: Any
    count: Any

    @classmethod
    def empty(cls) -> Any:
        """Of no value."""
        return cls(total=_zero(), count=_zero())

    @classmethod
    def from_model_output(cls, values: Any, mask: Any = None, **_: Any) -> Any:
        """Of an array.

        Args:
            values: numbers of any shape.
            mask: which of them count; its axes are the first ones of ``values``.
        """
        values = _values(values)
        mask = broadcast_mask(mask, values)
        total = jnp.where(mask, values, jnp.zeros_like(values)).sum(dtype=jnp.float32)
        return cls(total=total, count=mask.sum(dtype=jnp.float32))

    def merge(self, other: Any) -> Any:
        """Of the values of both."""
        return type(self)(total=self.total + other.total, count=self.count + other.count)

    def compute(self) -> Any:
        """The mean; NaN if there is no value."""
        return self.total / self.count


@struct.dataclass
class LastValue(Metric):
    """The mean over the last batch that was merged.

    Args:
        total: the sum over the last batch.
        count: how many values it has.

    Example:
        >>> parts = [LastValue.from_model_output(jnp.array(x)) for x in (1.0, 5.0)]
        >>> float(parts[0].merge(parts[1]).compute())
        5.0
    """

    total: Any
    count: Any

    @classmethod
    def empty(cls) -> Any:
        """Of no batch."""
        return cls(total=_zero(), count=_zero())

    @classmethod
    def from_model_output(cls, value: Any, mask: Any = None, **_: Any) -> Any:
        """Of an array.

        Args:
            value: numbers of any shape.
            mask: which of them count.
        """
        average = Average.from_model_output(value, mask)
        return cls(total=average.total, count=average.count)

    def merge(self, other: Any) -> Any:
        """The other, unless it is empty."""
        pick = lambda new, old: jnp.where(other.count > 0, new, old)
        return type(self)(total=pick(other.total, self.total), count=pick(other.count, self.count))

    def compute(self) -> Any:
        """The mean over the last batch."""
        return self.total / self.count


@struct.dataclass
class Std(Metric):
    """The standard deviation of all values, as ``numpy.std`` has it.

    Means and squared distances from them are merged, so that large values do not cancel.
    Reference: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm, 1979.

    Args:
        mean: the mean of the values.
        squares: the sum of squared distances from it.
        count: how many values there are.

    Example:
        >>> float(Std.from_model_output(jnp.array([1.0, 3.0])).compute())
        1.0
    """

    mean: Any
    squares: Any
    count: Any

    @classmethod
    def empty(cls) -> Any:
        """Of no value."""
        return cls(mean=_zero(), squares=_zero(), count=_zero())

    @classmethod
    def from_model_output(cls, values: Any, mask: Any = None, **_: Any) -> Any:
        """Of an array.

        Args:
            values: numbers of any shape.
            mask: which of them count.
        """
        values = _values(values).astype(jnp.float32)
        mask = broadcast_mask(mask, values)
        count = mask.sum(dtype=jnp.float32)
        mean = jnp.where(mask, values, 0.0).sum() / jnp.maximum(count, 1.0)
        squares = jnp.where(mask, (values - mean) ** 2, 0.0).sum()
        return cls(mean=mean, squares=squares, count=count)

    def merge(self, other: Any) -> Any:
        """Of the values of both."""
        count = self.count + other.count
        share = other.count / jnp.maximum(count, 1.0)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * self.count * share
        return type(self)(mean=self.mean + apart * share, squares=squares, count=count)

    def compute(self) -> Any:
        """The standard deviation; NaN if there is no value."""
        return jnp.sqrt(self.squares / self.count)


@struct.dataclass
class Accuracy(Average):
    """How often the largest logit is that of the label.

    >>> logits = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> float(Accuracy.from_model_output(logits=logits, labels=jnp.array([1, 1])).compute())
    0.5
    """

    @classmethod
    def from_model_output(cls, *, logits: Any, labels: Any, mask: Any = None, **_: Any) -> Any:
        """Of a batch.

        Args:
            logits: of shape (..., classes).
            labels: integers of shape (...).
            mask: which examples count.
        """
        logits, labels = jnp.asarray(logits), jnp.asarray(labels)
        if logits.ndim != labels.ndim + 1 or not jnp.issubdtype(labels.dtype, jnp.integer):
            raise ValueError(
                f"Accuracy takes logits of shape (..., classes) and integer labels of shape (...),"
                f" got {logits.shape} and {labels.dtype}{list(labels.shape)}"
            )
        hits = (logits.argmax(axis=-1) == labels).astype(jnp.float32)
        return super().from_model_output(hits, mask=mask)


@struct.dataclass
class Perplexity(Average):
    """The exponential of the mean cross-entropy of labels, or of a mean loss.

    >>> logits = jnp.zeros((2, 3, 8))  # all of eight tokens are as likely
    >>> labels = jnp.zeros((2, 3), int)
    >>> round(float(Perplexity.from_model_output(logits=logits, labels=labels).compute()), 4)
    8.0
    """

    @classmethod
    def from_model_output(
        cls,
        values: Any = None,
        mask: Any = None,
        *,
        logits: Any = None,
        labels: Any = None,
        **_: Any,
    ) -> Any:
        """Of a batch.

        Args:
            values: negative log-likelihoods; or
            logits: of shape (..., classes), and
            labels: integers of shape (...).
            mask: which tokens count.
        """
        if values is None:
            scores = nn.log_softmax(jnp.asarray(logits, jnp.float32), axis=-1)
            values = -jnp.take_along_axis(scores, jnp.asarray(labels)[..., None], axis=-1)[..., 0]
        return super().from_model_output(values, mask=mask)

    def compute(self) -> Any:
        """The perplexity."""
        return jnp.exp(self.total / self.count)
