"""The learning-rate range test: the loss over a few steps with growing rates.

Reference: Smith, Cyclical Learning Rates for Training Neural Networks, 2017.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import weft
from weft import optim


@dataclasses.dataclass(frozen=True)
class LearningRates:
    """The learning rates that were tried, the smoothed loss at each, and one to begin with.

    Args:
        rates: the rates.
        losses: the smoothed loss at each.
        suggestion: the rate to begin with.

    Example:
        >>> LearningRates(np.array([0.1, 1.0]), np.array([2.0, 1.0]), 0.1).suggestion
        0.1
    """

    rates: np.ndarray
    losses: np.ndarray
    suggestion: float


def _suggest(rates: np.ndarray, losses: np.ndarray) -> float:
    """Where the loss falls most for the same factor of the rate.

    Slopes are fitted to a tenth of the points, so that one batch does not decide.
    """
    reach = max(1, len(rates) // 20)
    if len(rates) < 2 * reach + 1:
        return float(rates[-1])
    places = np.arange(-reach, reach + 1)
    slopes = np.convolve(losses, -places / (places**2).sum(), mode="valid")
    return float(rates[reach + int(np.argmin(slopes))])


def find_learning_rate(
    loss: Callable[..., Any],
    params: Any,
    batches: Iterable[Any],
    optimizer: Callable[[Any], Any] = optim.adam,
    *,
    low: float = 1e-6,
    high: float = 10.0,
    steps: int = 100,
    smoothing: float = 0.9,
    stop_at: float = 4.0,
) -> LearningRates:
    """Train a little with rates that grow from step to step, and see where the loss falls most.

    The parameters that are passed do not change.

    Args:
        loss: ``loss(params, batch)``.
        params: where to begin.
        batches: batches, repeated if there are too few.
        optimizer: makes an optimiser of ``weft.optim`` from a rate.
        low: the first rate.
        high: the last rate.
        steps: how many rates.
        smoothing: how much of the mean loss stays at every step.
        stop_at: stop when the loss is this many times the smallest.

    Returns:
        The rates, losses, and the rate at which the loss falls most steeply.

    Example:
        >>> import weft.numpy as jnp
        >>> found = find_learning_rate(lambda w, x: ((x - w) ** 2).mean(), jnp.array(0.0),
        ...                            [jnp.ones(4)], steps=60)
        >>> 1e-3 < found.suggestion < 1.0
        True
    """
    if not 0 < low < high or steps < 2:
        raise ValueError(f"need 0 < low < high and two steps, got {low}, {high}, {steps}")
    rates = np.geomspace(low, high, steps)

    @weft.jit
    def step(params: Any, state: Any, batch: Any, rate: Any) -> Any:
        value, grads = weft.value_and_grad(loss)(params, batch)
        updates, state = optimizer(rate).update(grads, state, params)
        return value, optim.apply_updates(params, updates), state

    state, mean, best, losses = optimizer(low).init(params), 0.0, math.inf, []
    for number, (rate, batch) in enumerate(zip(rates, itertools.cycle(batches))):
        value, params, state = step(params, state, batch, np.float32(rate))
        mean = smoothing * mean + (1.0 - smoothing) * float(value)
        smooth = mean / (1.0 - smoothing ** (number + 1))
        if not math.isfinite(smooth) or smooth > stop_at * best:
            break
        losses.append(smooth)
        best = min(best, smooth)
    if not losses:
        raise ValueError("there is no batch, or the loss is not finite at the first one")
    tried = rates[: len(losses)]
    return LearningRates(tried, np.array(losses), _suggest(tried, np.array(losses)))
