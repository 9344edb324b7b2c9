"""Threefry-2x32, the hash behind random keys, and what it makes of keys.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The
functions on keys take their words as ``uint32[..., 2]`` and work on any number of keys at once.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.base import knobs
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.division.factors import Factors, labelled
from weft.prims.families import (
    align_batched,
    broadcast_in_dim,
    broadcast_shapes,
    converted,
    element_rule,
    kernel_random,
    positions_along,
)

UINT32 = np.dtype(np.uint32)
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
# Elements hashed at a time: the working set stays in the cache.
BLOCK = 1 << 14


def _rounds(x0: np.ndarray, x1: np.ndarray, keys: Any) -> None:
    """The twenty rounds, in place."""
    x0 += keys[0]
    x1 += keys[1]
    for i in range(5):
        for rotation in ROTATIONS[i % 2]:
            x0 += x1
            high = x1 << np.uint32(rotation)
            x1 >>= np.uint32(32 - rotation)
            x1 |= high
            x1 ^= x0
        x0 += keys[(i + 1) % 3]
        x1 += keys[(i + 2) % 3] + np.uint32(i + 1)


def hash_words(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two words that Threefry-2x32 gives for keys and counters, which broadcast."""
    shape = np.broadcast_shapes(np.shape(k0), np.shape(k1), np.shape(x0), np.shape(x1))
    out = [np.array(np.broadcast_to(x, shape), UINT32).reshape(-1) for x in (x0, x1)]
    k0, k1 = (np.asarray(k, UINT32) for k in (k0, k1))
    one_key = k0.size == k1.size == 1
    keys = [k if one_key else np.broadcast_to(k, shape) for k in (k0, k1)]
    keys = [np.ascontiguousarray(k).reshape(-1) for k in keys]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(PARITY))
    for start in range(0, out[0].size, BLOCK):
        block = slice(start, start + BLOCK)
        _rounds(out[0][block], out[1][block], keys if one_key else [k[block] for k in keys])
    return out[0].reshape(shape), out[1].reshape(shape)


class Threefry2x32(Primitive):
    """The hash of two counter words under two key words, elementwise."""

    name, form, costly = "threefry2x32", "map", True
    multiple_results = True

    def lower(self, k: Any, *words: Any) -> Any:
        return kernel_random.threefry2x32(k, *words)

    holes = {"transpose": "integers have no gradient"}
    ref = staticmethod(hash_words)

    def shape(self, *avals: Any) -> list[ShapedArray]:
        if any(a.dtype != UINT32 for a in avals):
            given = ", ".join(a.str_short() for a in avals)
            raise TypeError(f"threefry2x32 takes uint32 operands, got {given}")
        aval = ShapedArray(broadcast_shapes("threefry2x32", [a.shape for a in avals]), UINT32)
        return [aval, aval]

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        outs = self.bind(*primals)
        return outs, [Zero.from_primal(out) for out in outs]

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        aligned, dim = align_batched(axis, args, dims)
        return self.bind(*aligned), [dim, dim]

    def decompose(self, k0: Any, k1: Any, x0: Any, x1: Any) -> list[Any]:
        add, xor = lookup("add").bind, lookup("xor").bind
        left, right = lookup("shift_left").bind, lookup("shift_right_logical").bind
        keys = (k0, k1, xor(xor(k0, k1), np.uint32(PARITY)))
        x0, x1 = add(x0, k0), add(x1, k1)
        for i in range(5):
            for rotation in ROTATIONS[i % 2]:
                x0 = add(x0, x1)
                turned = left(x1, np.uint32(rotation)), right(x1, np.uint32(32 - rotation))
                x1 = xor(x0, lookup("or").bind(*turned))
            x0 = add(x0, keys[(i + 1) % 3])
            x1 = add(add(x1, keys[(i + 2) % 3]), np.uint32(i + 1))
        return [x0, x1]


class Iota2x32Shape(Primitive):
    """The numbers 0, 1, 2, ... in row-major order, as words of 32 bits: high and low."""

    name, form = "iota_2x32_shape", "element"
    multiple_results = True
    element = element_rule(kernel_random, "iota_2x32")
    holes = {
        "jvp": "it has no operands",
        "transpose": "it has no operands",
        "batch": "it has no operands",
    }

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        dims = range(len(params["shape"]))
        return labelled([], [dims, dims], avals, outs) if prod(params["shape"]) <= 1 << 32 else None

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        low = positions(part, part.factors.outs[0], params["shape"], part.outs[0])
        return [broadcast_in_dim(np.uint32(0), tuple(part.outs[0])), low]

    def shape(self, *, shape: tuple[int, ...]) -> list[ShapedArray]:
        aval = ShapedArray(shape, UINT32)
        return [aval, aval]

    @staticmethod
    def ref(*, shape: tuple[int, ...]) -> list[np.ndarray]:
        return list(counters(shape))


def counters(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Row-major positions as words of 32 bits: high and low."""
    n = prod(shape)
    if n <= 1 << 32:
        return np.zeros(shape, UINT32), np.arange(n, dtype=UINT32).reshape(shape)
    wide = np.arange(n, dtype=np.uint64).reshape(shape)
    return (wide >> np.uint64(32)).astype(UINT32), wide.astype(UINT32)


def positions(part: Any, dims: Any, shape: Any, local: Any) -> Any:
    """Row-major positions, as words of 32 bits, of a device's elements in the whole array."""
    local = tuple(local)
    add, mul = lookup("add").bind, lookup("mul").bind
    found = broadcast_in_dim(UINT32.type(0), local)
    for d, n in enumerate(local):
        at = positions_along(local, d, UINT32)
        if part.count(dims[d]) > 1:
            start = converted(part.start(dims[d], n), UINT32)
            at = add(at, broadcast_in_dim(start, local))
        stride = UINT32.type(prod(shape[d + 1 :]) & 0xFFFFFFFF)
        found = add(found, mul(at, broadcast_in_dim(stride, local)))
    return found


threefry2x32_p = Threefry2x32()
iota_2x32_shape_p = Iota2x32Shape()


# --- keys ---------------------------------------------------------------------------------------


def seed(seeds: np.ndarray) -> np.ndarray:
    """The words of keys made from integers: their high and low 32 bits."""
    low = seeds.astype(np.int64).astype(np.uint64)
    high = low >> np.uint64(32) if seeds.dtype.itemsize == 8 else np.zeros_like(low)
    return np.stack([high.astype(UINT32), low.astype(UINT32)], -1)


def apart(words: np.ndarray, ndim: int) -> list[np.ndarray]:
    """Each word of the keys, with axes added for an array of ``ndim`` dimensions a key."""
    shape = words.shape[:-1] + (1,) * ndim
    return [words[..., i].reshape(shape) for i in range(words.shape[-1])]


def pair(words: np.ndarray, ndim: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = apart(words, ndim)
    return first, second


def hash_flat(words: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The hash of a vector of counters, taken in pairs from its two halves."""
    n = count.size
    padded = np.append(count, np.zeros(n % 2, UINT32))
    halves = padded.reshape(2, -1)
    return np.concatenate(hash_words(*pair(words, 1), *halves), -1)[..., :n]


def split(words: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """New keys, ``shape`` of them for each key."""
    if knobs.thread.threefry_partitionable:
        return np.stack(hash_words(*pair(words, len(shape)), *counters(shape)), -1)
    flat = hash_flat(words, np.arange(2 * prod(shape), dtype=UINT32))
    return flat.reshape(*words.shape[:-1], *shape, 2)


def fold_in(words: np.ndarray, data: np.ndarray) -> np.ndarray:
    """New keys of keys and integers, which broadcast."""
    return np.stack(hash_words(*pair(words, 0), UINT32.type(0), data.astype(UINT32)), -1)


def random_bits(words: np.ndarray, bit_width: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random integers of a width, an array of ``shape`` for each key."""
    if not knobs.thread.threefry_partitionable:
        return _bits_by_halves(words, bit_width, shape)
    high, low = hash_words(*pair(words, len(shape)), *counters(shape))
    if bit_width == 64:
        return (high.astype(np.uint64) << np.uint64(32)) | low
    high ^= low
    return high.astype(f"uint{bit_width}")


def _bits_by_halves(words: np.ndarray, bit_width: int, shape: tuple[int, ...]) -> np.ndarray:
    """The older layout: bits of one long stream, whose values depend on its length."""
    size = prod(shape)
    n_words = -(-bit_width * size // 32)
    blocks, rest = divmod(n_words, 0xFFFFFFFF)
    if blocks:
        keys = split(words, (blocks + 1,))
        full = np.arange(0xFFFFFFFF, dtype=UINT32)
        parts = [hash_flat(keys[..., i, :], full) for i in range(blocks)]
        parts.append(hash_flat(keys[..., -1, :], np.arange(rest, dtype=UINT32)))
        bits = np.concatenate(parts, -1)
    else:
        bits = hash_flat(words, np.arange(rest, dtype=UINT32))
    if bit_width == 64:
        high, low = bits[..., :size].astype(np.uint64), bits[..., size:]
        bits = (high << np.uint64(32)) | low
    elif bit_width < 32:
        bits = np.ascontiguousarray(bits, "<u4").view(f"uint{bit_width}")[..., :size]
    return bits.reshape((*words.shape[:-1], *shape))
