"""Sorting networks on vectors: which are compared, and stubs that compare them in registers."""

from __future__ import annotations

from typing import Any

from weft.base.record import Record
from weft.kernel.kinds import (
    Kind,
    ptr,
    shuffle,
    static,
    u8,
    u16,
    u32,
    u64,
    umax,
    umin,
    unrolled,
    void,
)

UNSIGNED: dict[int, Kind] = {8: u8, 16: u16, 32: u32, 64: u64}
BLOCK = 16  # vectors sorted in registers, at least as many as a vector has lanes


class Lanes(Record):
    """The vectors of a sort."""

    count: int
    bits: int  # of a record

    @property
    def size(self) -> int:
        return self.count * self.bits // 8

    @property
    def step(self) -> int:
        return self.bits // 8

    @property
    def kind(self) -> Kind:
        return UNSIGNED[self.bits].of(self.count)


# Kinds and static parameters of the stubs: vectors, pairs of them to compare,
# for each step of a transpose how far apart vectors are and which lanes become two others, and how
# many vectors are transposed.
V: Any = u32


def sort_block(block: ptr, *, SORTED_PAIRS: static) -> void:
    """The vectors of a block sorted, lane by lane."""
    rows = [V[block, i] for i in unrolled(BLOCK)]
    for a, b in SORTED_PAIRS:
        rows[a], rows[b] = umin(rows[a], rows[b]), umax(rows[a], rows[b])
    for i in unrolled(BLOCK):
        V[block, i] = rows[i]


def merge_block(block: ptr, *, MERGED_PAIRS: static) -> void:
    """The same of vectors that rise and then fall."""
    rows = [V[block, i] for i in unrolled(BLOCK)]
    for a, b in MERGED_PAIRS:
        rows[a], rows[b] = umin(rows[a], rows[b]), umax(rows[a], rows[b])
    for i in unrolled(BLOCK):
        V[block, i] = rows[i]


def transpose(src: ptr, dst: ptr, *, TRANSPOSE_STEPS: static, TRANSPOSED: static) -> void:
    """Rows and lanes swapped in each block of as many vectors as have lanes."""
    for step, first, second in TRANSPOSE_STEPS:
        for i in range(TRANSPOSED // 2):  # those without the step's bit: a loop is less to compile
            at = 2 * i - (i & (step - 1))
            x = V[src, at]
            y = V[src, at + step]
            V[dst, at] = shuffle(x, y, first)
            V[dst, at + step] = shuffle(x, y, second)
        src = dst


def network_names(v: Lanes, transposed: int) -> dict[str, Any]:
    """What the stubs are told about vectors, so many of which are transposed at a time."""
    n, steps = v.count, []
    for step in (1 << k for k in range(n.bit_length() - 1)):
        first = [j if not j & step else n + j - step for j in range(n)]
        second = [j + step if not j & step else n + j for j in range(n)]
        steps.append((step, first, second))
    names = {"SORTED_PAIRS": batcher(BLOCK), "MERGED_PAIRS": halves(BLOCK)}
    return names | {"TRANSPOSE_STEPS": steps, "TRANSPOSED": transposed, "V": v.kind}


def batcher(n: int) -> list[tuple[int, int]]:
    """The comparisons that sort ``n`` elements, a power of two (Batcher 1968)."""
    pairs = []
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        pairs.append((i + j, i + j + k))
            k //= 2
        p *= 2
    return pairs


def halves(n: int) -> list[tuple[int, int]]:
    """The comparisons that sort ``n`` elements which rise and then fall."""
    pairs = []
    k = n // 2
    while k:
        pairs += [(i, i + k) for i in range(n) if not i & k]
        k //= 2
    return pairs
