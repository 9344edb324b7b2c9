"""Threefry-2x32 in kernels: the hash of two counter words under two key words.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.kernel.build import Builder
from weft.kernel.kernel import linear
from weft.kernel.nodes import I64, U32, U64, Parts, Value

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry2x32(k: Builder, k0: Value, k1: Value, x0: Value, x1: Value) -> list[Value]:
    """Twenty rounds."""
    keys = (k0, k1, k.xor(k.xor(k0, k1), k.const(PARITY, U32)))
    x0, x1 = k.add(x0, k0), k.add(x1, k1)
    for i in range(5):
        for rotation in ROTATIONS[i % 2]:
            x0 = k.add(x0, x1)
            left = k.shl(x1, k.const(rotation, U32))
            x1 = k.xor(x0, k.or_(left, k.lshr(x1, k.const(32 - rotation, U32))))
        x0 = k.add(x0, keys[(i + 1) % 3])
        x1 = k.add(x1, k.add(keys[(i + 2) % 3], k.const(i + 1, U32)))
    return [x0, x1]


def _hash(k: Builder, key: Parts, words: list[Value]) -> list[Value]:
    (k0, k1), (x0, x1) = key.parts, words
    return threefry2x32(k, k0, k1, x0, x1)


def counters(k: Builder, index: Any, shape: tuple[int, ...]) -> list[Value]:
    """The high and the low word of a row-major position."""
    position = linear(index, shape)
    low = k.position(position, U32)
    if prod(shape) <= 1 << 32:
        return [k.const(0, U32), low]
    return [k.cast(k.lshr(k.position(position), k.const(32, I64)), U32), low]


def split(k: Builder, index: Any, ins: Any, outs: Any, number: int, *, shape: Any) -> Any:
    """The key at an index of those made from other keys."""
    ndim = len(ins[0].shape)
    key = yield 0, index[:ndim]
    return Parts(key.dtype, tuple(_hash(k, key, counters(k, index[ndim:], shape))))


def random_bits(
    k: Builder, index: Any, ins: Any, outs: Any, number: int, *, bit_width: int, shape: Any
) -> Any:
    """The random integer at an index."""
    ndim = len(ins[0].shape)
    key = yield 0, index[:ndim]
    high, low = _hash(k, key, counters(k, index[ndim:], shape))
    if bit_width == 64:
        return k.or_(k.shl(k.cast(high, U64), k.const(32, U64)), k.cast(low, U64))
    return k.cast(k.xor(high, low), np.dtype(f"uint{bit_width}"))


def fold_in(k: Builder, key: Parts, data: Value) -> Parts:
    """A key made of a key and an integer."""
    return Parts(key.dtype, tuple(_hash(k, key, [k.const(0, U32), k.cast(data, U32)])))


def seed(k: Builder, number: Value, dtype: Any) -> Parts:
    """The key of an integer: its high and low words."""
    high = k.const(0, U32)
    if number.dtype.itemsize == 8:
        wide = k.bitcast(number, U64)
        high = k.cast(k.lshr(wide, k.const(32, U64)), U32)
    return Parts(dtype, (high, k.cast(number, U32)))


def wrap(k: Builder, index: Any, ins: Any, outs: Any, number: int, **_: Any) -> Any:
    """The key of words along the last axis."""
    words = []
    for i in range(ins[0].shape[-1]):
        words.append((yield 0, (*index, k.fixed(i))))
    return Parts(outs[0].dtype, tuple(words))


def unwrap(k: Builder, index: Any, ins: Any, outs: Any, number: int) -> Any:
    """A word of a key."""
    key = yield 0, index[:-1]
    if not index[-1].terms:
        return key.parts[index[-1].const]
    position = k.position(index[-1], U32)
    word = key.parts[0]
    for i, other in enumerate(key.parts[1:], 1):
        word = k.select(k.eq(position, k.const(i, U32)), other, word)
    return word


def iota_2x32(k: Builder, index: Any, ins: Any, outs: Any, number: int, *, shape: Any) -> Any:
    """A row-major position as two words."""
    yield from ()
    return counters(k, index, shape)
