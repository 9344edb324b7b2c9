"""The permutation that row swaps make, swap by swap."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Loop, Serial, Store, affine
from weft.kernel.lowering import Lowering, buffer_of, nested, read
from weft.kernel.nodes import I32, I64
from weft.kernel.program import Type


def of_pivots(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    """Positions in the order that they are in after all swaps, for each row of a stack."""
    pivots, out = ins[0], outs[0]
    if pivots.dtype != I32:
        return None
    swaps, size = pivots.shape[-1], out.shape[-1]
    total = prod(out.shape)
    k = Builder()
    here = affine(0, {"o": size, "j": 1})
    start = Store(1, affine(0, {"o": size, "q": 1}), k.cast(k.index("q"), I32))
    row = k.mul(k.index("o"), k.const(size, I64))
    pivot = k.cast(k.load(0, I32, affine(0, {"o": swaps, "j": 1})), I64)
    most = k.const(max(0, size - 1), I64)
    place = k.add(row, k.max(k.min(pivot, most), k.const(0, I64)))
    mine, other = k.load(1, I32, here), read(k, 1, I32, place, total)
    swap = [Store(1, Affine(), mine, place, (0, max(0, total - 1))), Store(1, here, other)]
    body: list[Any] = [Loop("q", size, [start]), Serial((), swap, "j", swaps)]
    buffers = [buffer_of(pivots, "in"), buffer_of(out, "out")]
    kernel = nested("permutation", buffers, [("o", prod(out.shape[:-1]))], body)
    return Lowering([(kernel, (0, 1))])
