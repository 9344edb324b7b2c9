"""Elements that a test picks, put side by side: stubs that count them in pieces and write them.

A test looks at an element: ``set`` (not zero), ``real`` (the same of the bits of floats, whose zero
has a sign), ``normal`` (the same where denormal numbers are zeros), or at the one before, too:
``new`` (integers that differ), ``new real`` (floats that differ, in order, NaN behind them), ``new
number`` (the same, where NaNs are all one).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.llvm.code import Module
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.stub import known_to, translate_main
from weft.base.functional import lru
from weft.kernel.kinds import (
    any_lane,
    bits,
    compress_store,
    count_bits,
    i64,
    kind_of,
    lane_sum,
    ptr,
    static,
    truth,
    u16,
    u32,
    unrolled,
    void,
)

# Elements of a piece, which one thread looks at; a multiple of the lanes.
CHUNK_ELEMENTS = 1 << 14
LANES = 16
# What is written of an element: its position or the element of another array, and in how many bits.
Wanted = tuple[str, int]

# Bits of the exponents of floats.
_EXPONENTS = {32: 0xFF << 23, 64: 0x7FF << 52}

# Kinds and static parameters of the stubs: elements and vectors of them, which
# bits of an element are looked at, whether its neighbour is, and whether that has to be a number.
U: Any = u32
V: Any = u32
FLAGS: Any = truth.of(LANES)
SUMS: Any = u32.of(LANES)
# PACKED: whether lanes are packed. RESULTS: each's number, whether it is of elements, its kind
# and that of vectors, bytes of an element, and numbers from 0 in order. COUNT: how many there are.


def is_picked(
    x: U, before: U, *, DOUBLED: static, MASKED: static, COMPARED: static, ORDERED: static
) -> truth:
    """Whether a test picks an element."""
    if COMPARED:
        if ORDERED:
            return (x != before) & (before == before)
        return x != before
    if DOUBLED:  # without the sign
        return x + x != 0
    if MASKED:  # by the exponent alone
        return x & MASKED != 0
    return x != 0


def one_at(here: ptr, *, COMPARED: static) -> truth:
    """Whether the element at a place is picked."""
    if COMPARED:
        return is_picked(U[here, 0], U[here, -1])
    return is_picked(U[here, 0], 0)


def lanes_at(here: ptr, *, SIZE: static, COMPARED: static) -> FLAGS:
    """The same of those in a vector."""
    if COMPARED:
        return is_picked(V[here, 0], V[here + -SIZE, 0])
    return is_picked(V[here, 0], V(0))


def select_count(buffers: ptr, start: i64, stop: i64, *, SIZE: static) -> void:
    """How many each piece has. Buffers: number of elements, elements, counts."""
    for piece in range(start, stop):
        here = ptr[buffers, 1] + piece * CHUNK_ELEMENTS * SIZE
        size = min(i64[ptr[buffers, 0], 0] - piece * CHUNK_ELEMENTS, CHUNK_ELEMENTS)
        whole = size // LANES * LANES
        sums = SUMS(0)
        for i in range(0, whole, LANES):
            sums += SUMS(lanes_at(here + i * SIZE))
        found = i64(lane_sum(sums))
        for i in range(whole, size):
            found += i64(one_at(here + i * SIZE))
        i64[ptr[buffers, 2], piece] = found


def select_write(
    buffers: ptr,
    start: i64,
    stop: i64,
    *,
    SIZE: static,
    PACKED: static,
    COUNT: static,
    RESULTS: static,
) -> void:
    """What is wanted of the elements that are picked.

    Buffers: number of elements and the position of the first; elements; of each piece, how many
    elements those before it have, and the same behind the last one; results; and for each result
    the elements it is made of.
    """
    source = ptr[buffers, 1]
    count = i64[ptr[buffers, 0], 0]
    first = i64[ptr[buffers, 0], 1]
    outs = [ptr[buffers, 3 + i] for i in unrolled(COUNT)]
    given = [ptr[buffers, 3 + COUNT + i] for i in unrolled(COUNT)]
    for piece in range(start, stop):
        to = i64[ptr[buffers, 2], piece]
        end = i64[ptr[buffers, 2], piece + 1]
        high = min((piece + 1) * CHUNK_ELEMENTS, count)
        for low in range(piece * CHUNK_ELEMENTS, high, LANES):
            if low + LANES <= high:
                flags = lanes_at(source + low * SIZE)
                if PACKED:
                    for n, taken, word, words, size, numbers in RESULTS:
                        place = outs[n] + to * size
                        if taken:
                            compress_store(words[given[n] + low * size, 0], place, flags)
                        else:
                            x = words(word(first + low)) + words[numbers, 0]
                            compress_store(x, place, flags)
                    to += i64(count_bits(bits(u16, flags)))
                    continue
                if not any_lane(flags):
                    continue
            for at in range(low, min(low + LANES, high)):
                # Written in any case, since a branch would be guessed wrong every other time, but
                # not where the next piece begins.
                if to < end:
                    for n, taken, word, _words, _size, _numbers in RESULTS:
                        word[outs[n], to] = word[given[n], at] if taken else word(first + at)
                to += i64(one_at(source + at * SIZE))


# --- texts ----------------------------------------------------------------------------------------


def _names(test: str, size: int) -> dict[str, Any]:
    """What stubs are told about a test of elements of so many bits."""
    kind = kind_of(f"{'f' if test in ('new real', 'new number') else 'u'}{size // 8}")
    names = {"U": kind, "V": kind.of(LANES), "FLAGS": FLAGS, "SIZE": size // 8}
    names |= {"COMPARED": test.startswith("new"), "ORDERED": test == "new number"}
    return names | {"DOUBLED": test == "real", "MASKED": test == "normal" and _EXPONENTS[size]}


@lru(64)
def count_module(test: str, size: int) -> Module:
    """The text of `select_count`, of elements of so many bits."""
    return translate_main(select_count, known_to(select_count, _names(test, size)), loop=True)


def packs(wanted: tuple[Wanted, ...]) -> bool:
    """Whether the processor packs the lanes of vectors with such elements."""
    return vector_bits() == 512 and all(size >= 32 for _, size in wanted)


@lru(64)
def write_module(test: str, size: int, wanted: tuple[Wanted, ...], packing: bool) -> Module:
    """The text of `select_write`, for what is wanted of elements of so many bits."""
    results = []
    for n, (what, width) in enumerate(wanted):
        numbers = np.arange(LANES, dtype=f"u{width // 8}")
        word = kind_of(numbers.dtype)
        results.append((n, what == "value", word, word.of(LANES), width // 8, numbers))
    names = {"COUNT": len(wanted), "RESULTS": results, "PACKED": packing}
    names |= known_to(select_write, _names(test, size))
    return translate_main(select_write, names, loop=True)
