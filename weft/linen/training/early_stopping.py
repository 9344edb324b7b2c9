"""When to stop a training that no longer improves."""

import math
from typing import Any, Self

from weft.linen import struct


class EarlyStopping(struct.PyTreeNode):
    """A rule that says stop when a metric no longer falls.

    Args:
        min_delta: the smallest decrease that counts.
        patience: how many updates in a row without one are allowed.
        best_metric: the smallest metric so far.
        patience_count: how many updates in a row were without a decrease.
        should_stop: whether to stop.
        has_improved: whether the last update was a decrease.

    Example:
        >>> stop = EarlyStopping(min_delta=0.1, patience=1)
        >>> for metric in [3.0, 2.0, 2.0, 2.0]:
        ...     stop = stop.update(metric)
        >>> stop.should_stop, stop.best_metric
        (True, 2.0)
    """

    min_delta: float = 0
    patience: int = 0
    best_metric: Any = float("inf")
    patience_count: int = 0
    should_stop: bool = False
    has_improved: bool = False

    def reset(self) -> Self:
        """As at the start."""
        start = {"best_metric": float("inf"), "patience_count": 0}
        return self.replace(**start, should_stop=False, has_improved=False)

    def update(self, metric: Any) -> Self:
        """The state after a new value of the metric."""
        if math.isinf(self.best_metric) or self.best_metric - metric > self.min_delta:
            return self.replace(best_metric=metric, patience_count=0, has_improved=True)
        stop = self.patience_count >= self.patience or self.should_stop
        count = self.patience_count + 1
        return self.replace(patience_count=count, should_stop=stop, has_improved=False)
