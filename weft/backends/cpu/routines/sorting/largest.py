"""The largest elements of rows and their indices: the best so far are kept in a heap.

Blocks of elements of which none comes before the last one kept are skipped by vectors. Where much
of a row is wanted, it is sorted.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting.records import HEAP, heap_text
from weft.backends.cpu.routines.sorting.rows import MIN_UNIT_ELEMENTS, Plan, Rows, order_of
from weft.base.lazy import Late
from weft.kernel.program import Lowered, Place, Type

_sort = Late("weft.backends.cpu.routines.sorting.sort")


def _largest(t: Type, axis: int, wanted: int, canonical: bool, largest: bool) -> Lowered | None:
    """The first elements of rows in rising or falling order, and their indices."""
    rows = Rows.along(t.shape, axis)
    order = order_of(t.dtype)
    if order is None or not wanted or not rows.count or rows.length >= 1 << 31:
        return None
    if wanted > HEAP or wanted * 8 > rows.length + 64:
        return _sort.largest(t, rows, order, wanted, canonical, largest)
    plan = Plan()
    table = plan.table(rows.count, rows.length, rows.inner, 0, wanted)
    places = (Place("in", 0), Place("out", 0), Place("out", 1), table)
    text = heap_text(order, canonical, largest)
    plan.add(text, "top_heap", places, rows.count, max(1, MIN_UNIT_ELEMENTS // rows.length))
    return plan.done()


def top_k(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The largest elements along an axis in total order, and their indices."""
    return _largest(ins[0], params["axis"], params["k"], False, True)


def approx_top_k(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The largest or smallest elements along a dimension, and their indices."""
    axis = params["reduction_dimension"] % len(ins[0].shape)
    wanted = outs[0].shape[axis]
    if wanted > ins[0].shape[axis]:
        return None
    return _largest(ins[0], axis, wanted, True, params["is_max_k"])


LOWERINGS["top_k"] = top_k
LOWERINGS["approx_top_k"] = approx_top_k
