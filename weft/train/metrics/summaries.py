"""Metrics that are more than a number: histograms of values, and pictures."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from weft import numpy as jnp
from weft.linen import struct
from weft.train.metrics.base import Metric, broadcast_mask


@struct.dataclass
class Histogram(Metric):
    """How many values fall into each of some bins of equal width; those outside count at the ends.

    Args:
        counts: how many values fall into each bin.

    Example:
        >>> Small = Histogram.over(0.0, 1.0, bins=4)
        >>> counts, edges = Small.from_model_output(jnp.array([0.1, 0.2, 0.8, 5.0])).compute()
        >>> counts.tolist(), edges.tolist()
        ([2.0, 0.0, 0.0, 2.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    """

    counts: Any

    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    bins: ClassVar[int] = 64

    @classmethod
    def over(cls, low: float, high: float, bins: int = 64) -> type[Histogram]:
        """A histogram of a range.

        Args:
            low: where the first bin begins.
            high: where the last bin ends.
            bins: how many there are.
        """
        if not low < high or bins < 1:
            raise ValueError(f"a histogram needs low < high and bins, got {low}, {high}, {bins}")
        body = {"low": float(low), "high": float(high), "bins": bins}
        return struct.dataclass(type("HistogramOver", (cls,), body))

    @classmethod
    def empty(cls) -> Any:
        """Of no value."""
        return cls(counts=jnp.zeros(cls.bins, jnp.float32))

    @classmethod
    def from_model_output(cls, values: Any, mask: Any = None, **_: Any) -> Any:
        """Of an array.

        Args:
            values: numbers of any shape; NaN counts nowhere.
            mask: which of them count.
        """
        values = jnp.asarray(values, jnp.float32)
        fine = broadcast_mask(mask, values) & ~jnp.isnan(values)
        place = (values - cls.low) * (cls.bins / (cls.high - cls.low))
        place = jnp.clip(jnp.where(fine, place, 0.0), 0, cls.bins - 1).astype(jnp.int32)
        weights = fine.astype(jnp.float32).reshape(-1)
        return cls(counts=jnp.zeros(cls.bins, jnp.float32).at[place.reshape(-1)].add(weights))

    def merge(self, other: Any) -> Any:
        """Of the values of both."""
        return type(self)(counts=self.counts + other.counts)

    def compute(self) -> tuple[np.ndarray, np.ndarray]:
        """The counts, and the edges of the bins."""
        edges = np.linspace(self.low, self.high, self.bins + 1)
        return np.asarray(self.counts), edges


@struct.dataclass
class Images(Metric):
    """The pictures of the last batch.

    Args:
        images: the pictures, of shape (count, height, width, channels).

    Example:
        >>> kept = Images.from_model_output(jnp.ones((8, 4, 4, 3)))
        >>> kept.compute().shape
        (8, 4, 4, 3)
    """

    images: Any

    @classmethod
    def empty(cls) -> Any:
        """No pictures."""
        return cls(images=jnp.zeros((0, 1, 1, 1), jnp.float32))

    @classmethod
    def from_model_output(cls, images: Any, **_: Any) -> Any:
        """Of a batch.

        Args:
            images: of shape (batch, height, width, channels).
        """
        images = jnp.asarray(images)
        if images.ndim != 4:
            raise ValueError(
                f"Images takes shape (batch, height, width, channels), got {images.shape}"
            )
        return cls(images=images)

    def merge(self, other: Any) -> Any:
        """The pictures of the other, unless it has none."""
        return other if other.images.shape[0] else self

    def reduce(self) -> Any:
        """The pictures of all devices."""
        return type(self)(images=self.images.reshape(-1, *self.images.shape[2:]))

    def compute(self) -> np.ndarray:
        """The pictures, as a NumPy array."""
        return np.asarray(self.images)
