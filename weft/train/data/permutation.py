"""Pseudo-random permutations of 0, …, n-1 that are computed where they are needed.

Small ones are sorted by random keys. Large ones are generalised Feistel networks with cycle
walking (Black and Rogaway, Ciphers with arbitrary finite domains, 2002), which need no memory.
"""

import math
from typing import Any

import numpy as np

SORTED_LENGTH = 1 << 16  # up to here a permutation is kept as an array
_ROUNDS = 8
_BLOCK = 1 << 13  # positions that are computed at once
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def mix64(value: int) -> int:
    """A hash of a number of 64 bits: the finaliser of splitmix64.

    >>> hex(mix64(1))
    '0x5692161d100b05e5'
    """
    value &= _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def fold(*numbers: int) -> int:
    """A hash of several numbers, which depends on their order.

    >>> fold(1, 2) != fold(2, 1)
    True
    """
    state = 0
    for number in numbers:
        state = mix64(state + _GOLDEN + mix64((number & _MASK) + _GOLDEN))
    return state


def _mix(values: np.ndarray) -> np.ndarray:
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


class Permutation:
    """The permutation of 0, …, length-1 that belongs to a key.

    >>> order = Permutation(10, key=3)
    >>> sorted(order.at(np.arange(10)).tolist()) == list(range(10))
    True
    """

    def __init__(self, length: int, key: int) -> None:
        self.length, self.key = length, key
        self._sorted: np.ndarray | None = None
        self._block: tuple[int, Any] = (-1, None)
        self._rows = math.isqrt(max(length - 1, 0)) + 1
        self._columns = -(-length // self._rows) if length else 1
        self._keys = [np.uint64(fold(key, number)) for number in range(_ROUNDS)]

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Where positions go."""
        if self.length <= SORTED_LENGTH:
            if self._sorted is None:
                numbers = np.arange(self.length, dtype=np.uint64)
                keys = _mix(numbers * np.uint64(_GOLDEN) + np.uint64(fold(self.key, self.length)))
                self._sorted = np.argsort(keys, kind="stable")
            return self._sorted[positions]
        if not len(positions):
            return positions
        block, last = int(positions[0]) // _BLOCK, int(positions[-1]) // _BLOCK
        if block == last and len(positions) < _BLOCK:
            known, values = self._block
            low = block * _BLOCK
            if known != block:
                values = self._compute(np.arange(low, min(low + _BLOCK, self.length)))
                self._block = (block, values)
            inside = positions - low
            if inside.min() >= 0 and inside.max() < len(values):
                return values[inside]
        return self._compute(positions)

    def _compute(self, positions: np.ndarray) -> np.ndarray:
        values = self._network(positions.astype(np.uint64))
        while (outside := values >= np.uint64(self.length)).any():
            values[outside] = self._network(values[outside])
        return values.astype(np.int64)

    def _network(self, values: np.ndarray) -> np.ndarray:
        rows, columns = np.uint64(self._rows), np.uint64(self._columns)
        left, right = np.divmod(values, columns)
        for number, key in enumerate(self._keys):
            if number % 2:
                right = (right + _mix(left ^ key) % columns) % columns
            else:
                left = (left + _mix(right ^ key) % rows) % rows
        return left * columns + right
