"""An exponential moving average of parameters."""

from __future__ import annotations

from typing import Any

from weft import numpy as jnp
from weft import tree_util
from weft.linen import struct


class EMA(struct.PyTreeNode):
    """Parameters averaged over the last steps, for evaluation; ``EMA.create`` makes it.

    Args:
        average: the average, which begins as the parameters themselves.
        count: how many steps were averaged.
        decay: the weight of the past.
        warmup: let the decay of step n be at most (1 + n) / (10 + n), so that early parameters are
            forgotten soon.

    Example:
        >>> ema = EMA.create({"w": jnp.zeros(())}, decay=0.9)
        >>> for _ in range(2):
        ...     ema = ema.update({"w": jnp.ones(())})
        >>> round(float(ema.average["w"]), 4)
        0.19
    """

    average: Any
    count: Any
    decay: float = struct.field(pytree_node=False, default=0.999)
    warmup: bool = struct.field(pytree_node=False, default=False)

    @classmethod
    def create(cls, params: Any, decay: float = 0.999, warmup: bool = False) -> EMA:
        """An average that begins with these parameters.

        Args:
            params: a tree of arrays.
            decay: how much of the average stays at every step.
            warmup: whether the decay grows from a small one.
        """
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"decay={decay}: it must be at least 0 and below 1")
        copied = tree_util.tree_map(jnp.array, params)  # of its own: the step may donate params
        return cls(average=copied, count=jnp.zeros((), jnp.int32), decay=decay, warmup=warmup)

    def update(self, params: Any) -> EMA:
        """The average after a step.

        Args:
            params: the parameters after the step.
        """
        decay = jnp.float32(self.decay)
        if self.warmup:
            decay = jnp.minimum(decay, (1.0 + self.count) / (10.0 + self.count))

        def move(old: Any, new: Any) -> Any:
            if not jnp.issubdtype(old.dtype, jnp.inexact):
                return new
            return (old + (1.0 - decay) * (new - old)).astype(old.dtype)

        average = tree_util.tree_map(move, self.average, params)
        return self.replace(average=average, count=self.count + 1)
