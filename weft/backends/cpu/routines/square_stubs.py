"""Squares of numbers transposed from memory to memory, as many a side as a vector has lanes.

Vectors are put together from 16 bytes of every fourth row (or every other), so that the rest is
done within these 16 bytes: few shuffles, all of a kind that processors have and LLVM finds at once.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.lanes import Lanes
from weft.kernel.kinds import OPAQUE, f32, i64, invoke, kind_of, ptr, shuffle, static, values, void

# Kinds and static parameters of the stubs: 16 bytes and a vector of numbers,
# how many each has, bytes of a number, and orders of lanes that transpose pairs of numbers.
P: Any = f32
V: Any = f32


def places(first: ptr, step: i64, count: int) -> values:
    """Places in memory so far apart."""
    found = [first]
    while len(found) < count:
        found.append(found[-1] + step)
    return found


def joined(pieces: values, *, LANES: static) -> values:
    """Pieces one after another as a vector."""
    size = LANES // len(pieces)
    while len(pieces) > 1:
        size *= 2
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [shuffle(a, b, range(size)) for a, b in pairs]
    return pieces[0]


def both(x: V, y: V, *, LOW: static, HIGH: static) -> values:
    """Halves of 16 bytes of two vectors in turn."""
    return shuffle(x, y, LOW), shuffle(x, y, HIGH)


def turn(at: values, to: values, *, EACH: static) -> values:
    """The columns of 16 bytes of rows."""
    pieces = [P[p, 0] for p in at]
    rows = [joined(pieces[i::EACH]) for i in range(EACH)]
    if EACH == 4:
        even, odd = both(rows[0], rows[2]), both(rows[1], rows[3])
        rows = [x for pair in zip(even, odd, strict=True) for x in both(*pair)]
    else:
        rows = both(*rows)
    for p, x in zip(to, rows, strict=True):
        V[p, 0] = x


def squares(
    source: ptr,
    step: i64,
    target: ptr,
    stride: i64,
    count: i64,
    ahead: i64,
    down: i64,
    *,
    EACH: static,
    LANES: static,
    ITEM: static,
) -> void:
    """Transpose so many squares: of the first the places, bytes from a row to the next in both, and
    bytes from a square to the next."""
    for _ in range(count):
        for column in range(0, LANES, EACH):
            at = places(invoke(ptr, OPAQUE, source + column * ITEM), step, LANES)
            to = places(invoke(ptr, OPAQUE, target + column * stride), stride, EACH)
            turn(at, to)
        source += ahead
        target += down


def square_names(v: Lanes) -> dict[str, Any]:
    """What the stubs are given for vectors of one kind."""
    each, kind = 16 // v.itemsize, kind_of(v.real)
    low = [i - i % each + i % each // 2 + i % 2 * v.count for i in range(v.count)]
    return {
        "P": kind.of(each),
        "V": kind.of(v.count),
        "EACH": each,
        "LANES": v.count,
        "ITEM": v.itemsize,
        "LOW": low,
        "HIGH": [i + each // 2 for i in low],
    }
