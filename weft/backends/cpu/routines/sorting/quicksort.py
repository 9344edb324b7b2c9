"""Rows sorted by splitting keys until few are left, which are sorted in registers, as stubs.

Rows that several threads sort are first split into buckets by keys from all over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.routines.sorting import packing
from weft.backends.cpu.routines.sorting import quick_stubs as control
from weft.backends.cpu.routines.sorting.network import (
    BLOCK,
    UNSIGNED,
    Lanes,
    halves,
    network_names,
    sort_block,
    transpose,
)
from weft.backends.cpu.routines.sorting.records import element, odd
from weft.backends.cpu.routines.sorting.rows import Order, key, key_names
from weft.backends.llvm.code import Module
from weft.backends.llvm.text.stub import called_stubs, known_to, translate, translate_main
from weft.kernel.kinds import (
    External,
    any_lane,
    i64,
    ptr,
    shuffle,
    stack,
    static,
    truth,
    u32,
    umax,
    umin,
    void,
)

# Kinds and static parameters of the stubs: keys and elements, vectors of both,
# a bit for each lane and numbers from 0; how many lanes, bytes of a vector, a key and an element,
# and whether keys are records, which have a position in their lower half.
K: Any = u32
U: Any = u32
V: Any = u32
E: Any = u32
NOTED: Any = truth
# BACKWARDS: lanes backwards. JOINS: for each step in which sorted runs are joined, how many pairs
# of runs there are and how far apart these lie, the vectors of a pair, the second run backwards,
# which ones that is, which are compared, and where they go. CLEAN_STEPS: for each step that sorts
# what rises and falls in two vectors, the lanes compared. LOW_ORDER, HIGH_ORDER: then the order
# of lanes in each of them.


# --- sorting in registers -------------------------------------------------------------------------


def small(
    src: ptr, dst: ptr, n: i64, *, LANES: static, BYTES: static, BACKWARDS: static, JOINS: static
) -> void:
    """Sort as many keys as a few vectors hold, or less.

    Much of it is loops over vectors in memory, which are less to compile and not slower.
    """
    tile = stack(BLOCK * BYTES)
    whole = n // LANES
    for i in range(whole):
        V[tile, i] = V[src, i]
    for i in range(whole, BLOCK):
        V[tile, i] = -1
    for i in range(whole * LANES, n):
        K[tile, i] = K[src, i]
    sort_block(tile)
    transpose(tile, tile)
    for count, far, found, second, pairs, places in JOINS:
        for pair in range(count):
            base = tile + pair * far * BYTES
            rows = [V[base, i] for i in found]
            for i in second:
                rows[i] = shuffle(rows[i], rows[i], BACKWARDS)
            for a, b in pairs:
                rows[a], rows[b] = umin(rows[a], rows[b]), umax(rows[a], rows[b])
            for i, place in places:
                V[base, place] = rows[i]
        clean(tile)
    # sorted vectors lie in blocks
    for i in range(whole):
        E[dst, i] = element(E(V[tile, row_of(i)]))
    for i in range(whole * LANES, n):
        U[dst, i] = element(U(K[tile, row_of(whole) * LANES + i % LANES]))


def row_of(i: i64, *, LANES: static) -> i64:
    """Where the vector lies that comes at a place in order."""
    return i // (BLOCK // LANES) + i % (BLOCK // LANES) * LANES


def clean(tile: ptr, *, CLEAN_STEPS: static, LOW_ORDER: static, HIGH_ORDER: static) -> void:
    """Sort vectors that rise and fall, two of them at a time.

    Two vectors have as many elements to compare as a vector has lanes: what is compared is brought
    into the same lanes, and lanes are put in order at the end only.
    """
    for i in range(0, BLOCK, 2):
        x = V[tile, i]
        y = V[tile, i + 1]
        for even, uneven in CLEAN_STEPS:
            low = shuffle(x, y, even)
            high = shuffle(x, y, uneven)
            x, y = umin(low, high), umax(low, high)
        V[tile, i] = shuffle(x, y, LOW_ORDER)
        V[tile, i + 1] = shuffle(x, y, HIGH_ORDER)


def fill(dst: ptr, n: i64, value: K, *, LANES: static, SIZE: static) -> void:
    """Give out the same key, at least as often as a vector has lanes."""
    x = element(E(V(value)))
    for i in range(0, n, LANES):
        E[dst + min(i, n - LANES) * SIZE, 0] = x


def read(
    src: ptr,
    dst: ptr,
    n: i64,
    before: i64,
    mark: ptr,
    *,
    COUNTING: static,
    LANES: static,
    KEY: static,
    SIZE: static,
    FLOAT: static,
    PLACED: static,
) -> void:
    """Make at least a vector of elements of a row keys, and mark the row if keys do not tell all
    about one. There are ``before`` elements in the row before these."""
    noted = NOTED(False)
    for i in range(0, n, LANES):
        at = min(i, n - LANES)
        x = E[src + at * SIZE, 0]
        if FLOAT:
            noted = noted | odd(x)
        k = V(key(x))
        if PLACED:
            k = (k << (4 * KEY)) | (V(K(before + at)) + V[COUNTING, 0])
        V[dst + at * KEY, 0] = k
    if any_lane(noted):
        i64[mark, 0] = 1


# --- texts ----------------------------------------------------------------------------------------


def _names(v: Lanes, order: Order) -> dict[str, Any]:
    """What all stubs are told about vectors and elements."""
    unit = UNSIGNED[order.bits]
    names = network_names(v, BLOCK) | packing.split_names(v) | key_names(order)
    names |= {"U": unit, "E": unit.of(v.count), "SIZE": order.bits // 8}
    word = names["K"]
    names |= {"split": External(i64, (ptr, ptr, i64, word, i64)), "OUT": order.bits // 8}
    names |= {"fill": External(void, (ptr, i64, word)), "NOTED": names["FLAGS"]}
    return names | {"COUNTING": np.arange(v.count, dtype=f"u{v.step}")}


def _small_names(v: Lanes) -> dict[str, Any]:
    """What the stubs that sort in registers are told about vectors."""
    n = v.count
    joins = []
    runs = [list(range(i, BLOCK, n)) for i in range(n)]
    while len(runs) > 1:
        first, second = runs[:2]
        far = runs[2][0] if len(runs) > 2 else 0
        places = list(enumerate(first + second))
        back = range(len(first), len(places))
        pairs = halves(len(places))
        joins.append((len(runs) // 2, far, first + second[::-1], back, pairs, places))
        runs = [a + b for a, b in zip(runs[::2], runs[1::2], strict=True)]
    held, steps = list(range(2 * n)), []  # which element each lane of both has
    for far in (n >> k for k in range(1, n.bit_length())):
        block = 128 // v.bits if far < 128 // v.bits else n  # one instruction can pick these
        even: list[int] = []
        for start in range(0, n, block):
            inside = [j for j in range(start, start + block) if not j & far]
            even += inside + [n + j for j in inside]
        uneven = [j + far for j in even]
        steps.append((even, uneven))
        held = [held[j] for j in even + uneven]
    order = [held.index(j) for j in range(2 * n)]
    names = {"JOINS": joins, "CLEAN_STEPS": steps, "BACKWARDS": range(n)[::-1]}
    return names | {"LOW_ORDER": order[:n], "HIGH_ORDER": order[n:]}


def _vectors(names: dict[str, Any], *mains: Any) -> Module:
    """The module of stubs of vectors, which what they call becomes part of."""
    stubs = called_stubs(list(mains))
    private = [f.__name__ for f in stubs if f not in mains]
    return translate(stubs, known_to(mains[0], names, *mains[1:]), private, loop=True)


def quick_module(v: Lanes, result: Order | None) -> Module:
    """Rows or buckets of rows sorted, see `quick_stubs.quick_sort`."""
    names = _names(v, result or Order(v.bits, "unsigned")) | _small_names(v)
    names |= {"SMALL": BLOCK * v.count, "DEPTH": packing.DEPTH}
    mains = ([packing.split], [packing.choose, fill], [small, clean])
    parts = [_vectors(names, *main) for main in mains]
    return _controlled(control.quick_sort, names).after(*parts)


def _controlled(main: Any, names: dict[str, Any]) -> Module:
    """The module of a stub that calls those with vectors."""
    return translate_main(main, known_to(main, names), brief=True)


def keys_module(v: Lanes, source: Order, placed: bool = False) -> Module:
    """Whole rows as keys, see `quick_stubs.sort_keys`."""
    names = _names(v, source) | {"PLACED": placed}
    return _controlled(control.sort_keys, names).after(_vectors(names, read))


def sample_module(v: Lanes, source: Order, placed: bool = False) -> Module:
    """Keys from all over each row, see `quick_stubs.sort_sample`."""
    return _controlled(control.sort_sample, _names(v, source) | {"PLACED": placed})


def buckets_module(v: Lanes, source: Order, piece: int, placed: bool = False) -> Module:
    """Pieces of rows as keys, bucket by bucket, see `quick_stubs.sort_buckets`."""
    names = _names(v, source) | {"PLACED": placed, "PIECE": piece * v.step}
    parts = [_vectors(names, main) for main in (packing.split, read)]
    return _controlled(control.sort_buckets, names).after(*parts)
