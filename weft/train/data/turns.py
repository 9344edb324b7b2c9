"""Whose turn it is in a mixture: a fixed pattern in which every source has its share."""

from collections.abc import Sequence

import numpy as np

from weft.train.data.errors import DataError
from weft.train.data.node import ENDLESS

PERIOD = 1 << 12  # turns after which the pattern repeats, at most


class Turns:
    """The pattern of rates: after any number of turns, every source is within one of its share.

    >>> turns = Turns([0.5, 0.25, 0.25])
    >>> turns.at(np.arange(8))[0].tolist()
    [0, 1, 2, 0, 0, 1, 2, 0]
    """

    def __init__(self, rates: Sequence[float]) -> None:
        self.weights = _weights(rates)
        self.period = int(sum(self.weights))
        self._owners = _pattern(self.weights)
        self._ranks = np.zeros(self.period, np.int64)
        self._places = [np.flatnonzero(self._owners == k) for k in range(len(self.weights))]
        for places in self._places:
            self._ranks[places] = np.arange(len(places))

    def at(self, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whose turns these are, and how many turns each source had before."""
        rounds, inside = np.divmod(turns, self.period)
        owners = self._owners[inside]
        weights = np.asarray(self.weights)
        return owners, rounds * weights[owners] + self._ranks[inside]

    def owner(self, turn: int) -> int:
        """Whose turn this is."""
        return int(self._owners[turn % self.period])

    def slot_of(self, source: int, number: int) -> int:
        """The turn at which a source has had ``number`` turns and gets another one."""
        if number >= ENDLESS:
            return ENDLESS
        rounds, rank = divmod(number, int(self.weights[source]))
        return rounds * self.period + int(self._places[source][rank])


def _weights(rates: Sequence[float]) -> tuple[int, ...]:
    given = np.asarray(list(rates), float)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or (given <= 0).any():
        raise DataError(f"a mixture needs one positive rate per source; got {rates}")
    shares = given / given.sum()
    for period in range(len(given), 101):  # few turns, where the rates are simple fractions
        weights = np.rint(shares * period)
        if (weights > 0).all() and np.abs(weights / period - shares).max() < 1e-9:
            divisor = int(np.gcd.reduce(weights.astype(np.int64)))
            return tuple(int(weight) // divisor for weight in weights)
    scaled = shares * PERIOD
    weights = np.maximum(np.floor(scaled), 1)
    missing = int(PERIOD - weights.sum())
    if missing > 0:
        for place in np.argsort(weights - scaled, kind="stable")[:missing]:
            weights[place] += 1
    return tuple(int(weight) for weight in weights)


def _pattern(weights: Sequence[int]) -> np.ndarray:
    """Turns for whole weights, each given to the source that lags behind its share most."""
    step = np.asarray(weights, np.int64)
    credit, owners = np.zeros(len(step), np.int64), np.empty(int(step.sum()), np.int64)
    for turn in range(len(owners)):
        credit += step
        owners[turn] = owner = int(credit.argmax())
        credit[owner] -= len(owners)
    return owners
