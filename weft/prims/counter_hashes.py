"""Other counter-based generators of keys: Threefry-4x32, Philox-2x32 and Philox-4x32.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Keys are
words ``uint32[..., n]``, any number of them at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base.record import Record
from weft.prims import threefry
from weft.prims.threefry import PARITY, UINT32, apart, counters

Words = list[np.ndarray]

_THREEFRY4_ROTATIONS = (
    (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20),
)  # fmt: skip


def _mix(x: Words, i: int, j: int, rotation: int) -> None:
    x[i] = x[i] + x[j]
    x[j] = x[i] ^ ((x[j] << np.uint32(rotation)) | (x[j] >> np.uint32(32 - rotation)))


def threefry4x32(key: Words, counter: Words) -> Words:
    """Four words of four key words and four counter words."""
    ks = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(PARITY)]
    x = [c + k for c, k in zip(counter, key, strict=True)]
    for i in range(20):
        first, second = _THREEFRY4_ROTATIONS[i % 8]
        _mix(x, 0, 3 if i % 2 else 1, first)
        _mix(x, 2, 1 if i % 2 else 3, second)
        if i % 4 == 3:
            n = i // 4 + 1
            x = [w + ks[(n + j) % 5] for j, w in enumerate(x)]
            x[3] = x[3] + np.uint32(n)
    return x


def _product(factor: int, x: np.ndarray) -> Words:
    """The high and low words of a product of words."""
    wide = x.astype(np.uint64) * np.uint64(factor)
    return [(wide >> np.uint64(32)).astype(UINT32), wide.astype(UINT32)]


def philox2x32(key: Words, counter: Words) -> Words:
    """Two words of one key word and two counter words."""
    (k,), (x0, x1) = key, counter
    for i in range(10):
        high, low = _product(0xD256D193, x0)
        x0, x1 = high ^ x1 ^ (k + np.uint32(0x9E3779B9 * i & 0xFFFFFFFF)), low
    return [x0, x1]


def philox4x32(key: Words, counter: Words) -> Words:
    """Four words of two key words and four counter words."""
    (k0, k1), (x0, x1, x2, x3) = key, counter
    for i in range(10):
        high0, low0 = _product(0xD2511F53, x0)
        high1, low1 = _product(0xCD9E8D57, x2)
        x0 = high1 ^ x1 ^ (k0 + np.uint32(0x9E3779B9 * i & 0xFFFFFFFF))
        x2 = high0 ^ x3 ^ (k1 + np.uint32(0xBB67AE85 * i & 0xFFFFFFFF))
        x1, x3 = low1, low0
    return [x0, x1, x2, x3]


class CounterGenerator(Record):
    """The functions of keys over a hash of ``n_key`` key words and ``n_counter`` counter words."""

    hash: Any
    n_key: int
    n_counter: int

    def _hash(self, key: Words, counter: Words, at: int) -> Words:
        """The hash of a counter whose words from ``at`` on are given, the others zero."""
        zero = np.zeros(np.shape(counter[-1]), UINT32)
        words = [zero] * self.n_counter
        words[at : at + len(counter)] = counter
        return self.hash(key, words)

    def seed(self, seeds: np.ndarray) -> np.ndarray:
        given = apart(threefry.seed(seeds), 0)
        zero = np.zeros(seeds.shape, UINT32)
        if self.hash is threefry4x32:
            out = self.hash([*given, zero, zero], [zero] * 4)
        else:
            out = self._hash([zero] * self.n_key, given, 0)
        return np.stack(out[: self.n_key], -1)

    def split(self, words: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        out = self._hash(apart(words, len(shape)), list(counters(shape)), self.n_counter - 2)
        return np.stack(out[: self.n_key], -1)

    def fold_in(self, words: np.ndarray, data: np.ndarray) -> np.ndarray:
        out = self._hash(apart(words, 0), [data.astype(UINT32)], self.n_counter - 1)
        return np.stack(out[: self.n_key], -1)

    def random_bits(self, words: np.ndarray, bit_width: int, shape: tuple[int, ...]) -> np.ndarray:
        out = self._hash(apart(words, len(shape)), list(counters(shape)), 0)
        if bit_width == 64:
            if self.hash is threefry4x32:
                out = [out[0] ^ out[2], out[1] ^ out[3]]
            return (out[0].astype(np.uint64) << np.uint64(32)) | out[1]
        bits = out[0]
        for word in out[1:]:
            bits = bits ^ word
        return bits.astype(f"uint{bit_width}")


threefry4 = CounterGenerator(threefry4x32, 4, 4)
philox2 = CounterGenerator(philox2x32, 1, 2)
philox4 = CounterGenerator(philox4x32, 2, 4)
