"""Which checkpoints stay when a new one is written."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple


class Saved(NamedTuple):
    """A checkpoint in a folder: its step, the time it was made, and its metrics."""

    step: int
    created: float
    metrics: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Keep:
    """Which checkpoints stay: those that any of these rules names.

    Args:
        last: this many of the last ones.
        best: this many of the best ones by ``metric``.
        metric: the name of a metric that ``save`` was given.
        mode: ``"min"`` if smaller is better, ``"max"`` if larger is.
        every_steps: those whose step is a multiple of this.
        every_seconds: one in every period of this many seconds, by the time they were made.

    Example:
        >>> keep = Keep(last=1, best=1, metric="loss", every_steps=100)
        >>> saved = [Saved(step, 0.0, {"loss": abs(step - 125)}) for step in (100, 120, 140, 160)]
        >>> sorted(keep.chosen(saved))
        [100, 120, 160]
    """

    last: int | None = None
    best: int = 0
    metric: str | None = None
    mode: str = "min"
    every_steps: int | None = None
    every_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max"):
            raise ValueError(f"mode={self.mode!r}: write 'min' or 'max'")
        if self.last is not None and self.last < 1:
            raise ValueError(f"last={self.last}: last must be at least 1")
        if self.best and self.metric is None:
            raise ValueError("best needs the name of a metric: Keep(best=3, metric='loss')")

    @property
    def all_stay(self) -> bool:
        """Whether no rule is given, so that nothing is ever removed."""
        return (
            self.last is None
            and not self.best
            and not self.every_steps
            and (self.every_seconds is None)
        )

    def ranked(self, saved: Sequence[Saved]) -> list[int]:
        """Steps that have the metric, the best first; of equal ones the later. NaN is the worst.

        >>> losses = {1: 3.0, 2: float("nan"), 3: 1.0}
        >>> saved = [Saved(step, 0.0, {"loss": loss}) for step, loss in losses.items()]
        >>> Keep(best=1, metric="loss").ranked(saved)
        [3, 1, 2]
        """
        sign = 1.0 if self.mode == "min" else -1.0

        def key(one: Saved) -> tuple[bool, float, int]:
            value = one.metrics[self.metric or ""]
            return math.isnan(value), 0.0 if math.isnan(value) else sign * value, -one.step

        return [one.step for one in sorted((s for s in saved if self.metric in s.metrics), key=key)]

    def chosen(self, saved: Sequence[Saved]) -> set[int]:
        """The steps that stay; the last one always does."""
        ordered = sorted(saved, key=lambda one: one.step)
        if self.all_stay:
            return {one.step for one in ordered}
        steps = [one.step for one in ordered]
        found = set(steps[-(self.last or 1) :])
        found |= set(self.ranked(ordered)[: self.best])
        if self.every_steps:
            found |= {step for step in steps if step % self.every_steps == 0}
        if self.every_seconds is not None:
            due = -math.inf
            for one in ordered:
                if one.created >= due:
                    found.add(one.step)
                    due = one.created + self.every_seconds
        return found
