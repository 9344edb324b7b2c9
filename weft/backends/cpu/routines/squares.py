"""Transposed squares for kernels that are written as text."""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines import square_stubs
from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.routines.writer import Function, Number
from weft.kernel.kinds import kind_of


def squares(
    f: Function,
    v: Lanes,
    source: tuple[str, Number, Number],
    target: tuple[str, Number, Number],
    count: Number,
) -> None:
    """Transpose so many squares.

    Of source and target: where the first square is, how many bytes its rows are apart, and how many
    the squares are.
    """
    (at, step, ahead), (to, stride, down) = source, target
    f.call_stub(square_stubs.squares, at, step, to, stride, count, ahead, down, **names(v))


def names(v: Lanes) -> dict[str, Any]:
    """What the stub is given for vectors of one kind."""
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
