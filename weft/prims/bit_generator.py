"""``rng_bit_generator`` and ``rng_uniform``, and the keys of kind ``rbg`` built on the former.

The bits are those of XLA on the CPU, whose default is Philox-4x32. A batch of ``rbg`` keys draws
all of its bits from the first of them, as in JAX: that is the price of their speed.
"""

from __future__ import annotations

import enum
import functools
from math import prod
from typing import Any

import numpy as np

from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, moveaxis
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.prims import threefry
from weft.prims.counter_hashes import philox4x32
from weft.prims.families import element
from weft.prims.shape import reshape
from weft.prims.threefry import UINT32, hash_words

UINT64 = np.dtype(np.uint64)
UNSIGNED = tuple(np.dtype(f"uint{n}") for n in (8, 16, 32, 64))


class RandomAlgorithm(enum.IntEnum):
    """The generator behind ``lax.rng_bit_generator``.

    Example:
        >>> from weft import lax
        >>> lax.RandomAlgorithm.RNG_THREE_FRY.name
        'RNG_THREE_FRY'
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def _words(x: np.ndarray) -> list[np.ndarray]:
    """The low and high words of 64-bit numbers."""
    return [x.astype(UINT32), (x >> UINT64.type(32)).astype(UINT32)]


def _joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (high.astype(UINT64) << UINT64.type(32)) | low


def philox_words(key: np.ndarray, start: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """``count`` words of Philox-4x32, and how many of its counters they took."""
    blocks = -(-count // 4)
    low = start + np.arange(blocks, dtype=UINT64)
    high = key + (low < start).astype(UINT64)
    out = philox4x32(_words(np.atleast_1d(key)), [*_words(low), *_words(high)])
    return np.stack(out, -1).reshape(-1)[:count], blocks


def half_shape(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The axis along which Threefry's pairs of words lie, and the shape of its counters."""
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    axis = even[0] if even else int(np.argmax(shape))
    half = list(shape)
    half[axis] = -(-shape[axis] // 2)
    return axis, tuple(half)


def threefry_words(
    key: np.ndarray, start: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, int]:
    """An array of words of Threefry-2x32, and how many of its counters they took."""
    full = shape or (1,)
    axis, half = half_shape(full)
    count = prod(half)
    out = hash_words(*_words(key), *_words(start + np.arange(count, dtype=UINT64)))
    pairs = np.stack([x.reshape(half) for x in out], axis + 1)
    padded = list(full)
    padded[axis] = 2 * half[axis]
    kept = tuple(slice(n) for n in full)
    return pairs.reshape(padded)[kept].reshape(shape), count


def generate(
    key: np.ndarray, shape: tuple[int, ...], dtype: Any, algorithm: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The next key (``uint64[2]``) and an array of random integers."""
    word, start = key
    if algorithm == RandomAlgorithm.RNG_THREE_FRY:
        if dtype == UINT64:
            taken = prod(shape)
            counted = start + np.arange(taken, dtype=UINT64)
            bits = _joined(*hash_words(*_words(word), *_words(counted))).reshape(shape)
        else:
            bits, taken = threefry_words(word, start, shape)
    elif dtype == UINT64:
        flat, taken = philox_words(word, start, 2 * prod(shape))
        bits = _joined(flat[0::2], flat[1::2]).reshape(shape)
    else:
        flat, taken = philox_words(word, start, prod(shape))
        bits = flat.reshape(shape)
    return np.array([word, start + UINT64.type(taken)]), bits.astype(dtype)


class RngBitGenerator(Primitive):
    """Random integers of a key, and the next key."""

    name = "rng_bit_generator"
    neutral = "generators.rng_bit_generator"
    multiple_results = True
    holes = {"transpose": "integers have no gradient"}

    def shape(
        self, key: Any, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any
    ) -> list[ShapedArray]:
        if (key.shape, key.dtype) not in (((4,), UINT32), ((2,), UINT64)):
            raise TypeError(
                f"rng_bit_generator takes a key of type uint32[4] or uint64[2], got"
                f" {key.str_short()}"
            )
        if dtype not in UNSIGNED:
            raise TypeError(f"rng_bit_generator returns unsigned integers, not dtype {dtype}")
        return [key, ShapedArray(shape, dtype)]

    @staticmethod
    def ref(key: np.ndarray, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any) -> Any:
        out, bits = generate(np.ascontiguousarray(key).view("<u8"), shape, dtype, algorithm)
        return [out.view(key.dtype), bits]

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        outs = self.bind(*primals, **params)
        return outs, [Zero.from_primal(out) for out in outs]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, shape: Any, **params: Any) -> Any:
        keys = moveaxis(args[0], dims[0], 0)
        key = element(keys, 0, 0)
        key, bits = self.bind(key, shape=(axis.size, *shape), **params)
        row = reshape(key, (1, np.shape(keys)[1]))
        zero = np.int32(0)
        return [lookup("dynamic_update_slice").bind(keys, row, zero, zero), bits], [0, 0]


@functools.cache
def _stateful() -> np.random.Generator:
    return np.random.default_rng()


class RngUniform(Primitive):
    """Numbers between two bounds that differ at every evaluation."""

    name = "rng_uniform"
    host = "it draws from a random generator of the process"
    holes = {
        "jvp": "it draws new numbers at every call",
        "transpose": "it draws new numbers at every call",
        "batch": "it draws new numbers at every call",
    }

    def shape(self, a: Any, b: Any, *, shape: Any) -> ShapedArray:
        if a.dtype != b.dtype:
            raise ValueError(
                f"rng_uniform needs bounds of one dtype, got {a.str_short()} and {b.str_short()}"
            )
        if a.shape or b.shape:
            raise ValueError(
                f"rng_uniform needs scalar bounds, got {a.str_short()} and {b.str_short()}"
            )
        return ShapedArray(shape, a.dtype)

    @staticmethod
    def ref(a: np.ndarray, b: np.ndarray, *, shape: Any) -> np.ndarray:
        if a.dtype.kind in "iu":
            return _stateful().integers(a, b, shape, a.dtype)
        wide = _stateful().random(shape)
        return (a + wide * (b - a)).astype(a.dtype)


rng_bit_generator_p = RngBitGenerator()
rng_uniform_p = RngUniform()


# --- keys -----------------------------------------------------------------------------------------


def _first(words: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Random integers, an array of ``shape`` for each key, all from the first key."""
    full = (*words.shape[:-1], *shape)
    if not words.size:
        return np.zeros(full, dtype)
    key = np.ascontiguousarray(words.reshape(-1, 4)[0]).view("<u8")
    return generate(key, full, np.dtype(dtype), RandomAlgorithm.RNG_DEFAULT)[1]


def _halves(words: np.ndarray) -> np.ndarray:
    return words.reshape(*words.shape[:-1], 2, 2)


def seed(seeds: np.ndarray) -> np.ndarray:
    half = threefry.seed(seeds)
    return np.concatenate([half, half], -1)


def split(words: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """New keys: both halves are split as keys of Threefry."""
    keys = threefry.split(_halves(words), shape)
    ndim = words.ndim - 1
    return np.moveaxis(keys, ndim, -2).reshape(*words.shape[:-1], *shape, 4)


def fold_in(words: np.ndarray, data: np.ndarray) -> np.ndarray:
    out = threefry.fold_in(_halves(words), data[..., None])
    return out.reshape(*out.shape[:-2], 4)


def random_bits(words: np.ndarray, bit_width: int, shape: tuple[int, ...]) -> np.ndarray:
    return _first(words, shape, f"uint{bit_width}")


def unsafe_split(words: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """New keys: every tenth block of the key's own stream."""
    keys = _first(words, (10 * prod(shape), 4), UINT32)[..., ::10, :]
    return keys.reshape(*words.shape[:-1], *shape, 4)


def unsafe_fold_in(words: np.ndarray, data: np.ndarray) -> np.ndarray:
    return words ^ _first(seed(data.astype(UINT32)), (10, 4), UINT32)[..., -1, :]
