"""The bits of ``rng_bit_generator``: counters hashed by Threefry or Philox, element by element."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.bit_generator import RandomAlgorithm, half_shape
from weft.prims.families import along
from weft.prims.lowerings.tools import bind, bits, convert, dtype_of, fill, spread
from weft.prims.shape import expand_dims, iota, reshape

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)


def _low(x: Any) -> Any:
    return convert(x, U32)


def _high(x: Any) -> Any:
    return convert(bind("shift_right_logical", x, np.uint64(32)), U32)


def _joined(low: Any, high: Any) -> Any:
    """Numbers of 64 bits of their words."""
    return bind("or", bind("shift_left", convert(high, U64), np.uint64(32)), convert(low, U64))


def _counted(start: Any, count: int) -> Any:
    return bind("add", spread(start, (count,), ()), iota(U64, (count,)))


def _philox(word: Any, start: Any, count: int) -> tuple[Any, int]:
    """Words of Philox-4x32, and how many of its counters they took."""
    blocks = -(-count // 4)
    low = _counted(start, blocks)
    wrapped = convert(bind("lt", low, spread(start, (blocks,), ())), U64)
    high = bind("add", spread(word, (blocks,), ()), wrapped)
    k0, k1 = (spread(k, (blocks,), ()) for k in (_low(word), _high(word)))
    x0, x1, x2, x3 = _low(low), _high(low), _low(high), _high(high)
    for i in range(10):
        first, second = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
        high0, low0 = bind("mulhi", x0, first), bind("mul", x0, first)
        high1, low1 = bind("mulhi", x2, second), bind("mul", x2, second)
        own = bind("add", k0, np.uint32(0x9E3779B9 * i & 0xFFFFFFFF))
        other = bind("add", k1, np.uint32(0xBB67AE85 * i & 0xFFFFFFFF))
        x0 = bind("xor", bind("xor", high1, x1), own)
        x2 = bind("xor", bind("xor", high0, x3), other)
        x1, x3 = low1, low0
    columns = [expand_dims(x, (1,)) for x in (x0, x1, x2, x3)]
    words = reshape(bind("concatenate", *columns, dimension=1), (4 * blocks,))
    return along(words, 0, 0, count), blocks


def _threefry(word: Any, counters: Any) -> list[Any]:
    count = np.shape(counters)
    keys = [spread(k, count, ()) for k in (_low(word), _high(word))]
    return bind("threefry2x32", *keys, _low(counters), _high(counters))


def _threefry_words(word: Any, start: Any, shape: tuple[int, ...]) -> tuple[Any, int]:
    """Words of Threefry-2x32, pairs of which lie along one axis, and the counters they took."""
    full = shape or (1,)
    axis, half = half_shape(full)
    count = prod(half)
    pairs = [
        expand_dims(reshape(x, half), (axis + 1,)) for x in _threefry(word, _counted(start, count))
    ]
    whole = list(full)
    whole[axis] = 2 * half[axis]
    found = reshape(bind("concatenate", *pairs, dimension=axis + 1), tuple(whole))
    return reshape(along(found, axis, 0, full[axis]), shape), count


def rng_bit_generator(
    key: Any, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any
) -> list[Any]:
    given = dtype_of(key)
    words = bits(reshape(key, (2, 2)), U64) if given == U32 else key
    word, start = (reshape(along(words, 0, i, i + 1), ()) for i in (0, 1))
    count = prod(shape)
    if count == 0:
        found, taken = fill(tuple(shape), dtype, 0), 0
    elif algorithm == RandomAlgorithm.RNG_THREE_FRY:
        if dtype == U64:
            found, taken = _joined(*_threefry(word, _counted(start, count))), count
        else:
            found, taken = _threefry_words(word, start, tuple(shape))
    elif dtype == U64:
        flat, taken = _philox(word, start, 2 * count)
        pairs = reshape(flat, (count, 2))
        found = _joined(*(reshape(along(pairs, 1, i, i + 1), (count,)) for i in (0, 1)))
    else:
        found, taken = _philox(word, start, count)
    after = bind("add", start, np.uint64(taken))
    new = bind("concatenate", reshape(word, (1,)), reshape(after, (1,)), dimension=0)
    new = reshape(bits(new, U32), (4,)) if given == U32 else new
    return [new, bind("copy", convert(reshape(found, tuple(shape)), dtype))]
