"""Zeros and NaNs of sorted rows as they stood before.

Keys do not tell them apart, so sorting keys loses the signs of zeros and the bits of NaNs. In a
sorted row they follow each other; in tiles that noted one they are written again, in their old
order.
"""

from __future__ import annotations

from weft.backends.cpu.routines.sorting.network import FLAGGED, INNER, LENGTH, fields
from weft.backends.cpu.routines.sorting.rows import Order
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel


def mend_text(order: Order) -> str:
    """The text for rows of which some share a flag each: elements, result, table, flags."""
    f = kernel(Module(), "mend")
    src, dst, table, flags = (f.pointer(i) for i in range(4))
    length, inner, lanes = fields(f, table, LENGTH, INNER, FLAGGED)
    blocks = f.div(f.sub(f.add(inner, lanes), 1), lanes)
    joined = f.emit(f"icmp eq i64 {inner}, 1")
    stop = f.add(f.div(f.sub("%stop", 1), lanes), 1)
    with f.carried(f.div("%start", lanes), stop, [("i64", 0)]) as (tile, (any_,), after):
        after[0] = f.emit(f"or i64 {any_}, {f.load('i64', f.at(flags, f.mul(tile, 8)), 8)}")
    some = f.emit(f"icmp ne i64 {any_}, 0")
    # Tiles of columns are not in the order of rows: those rows are looked at one by one.
    with f.when(f.emit(f"select i1 {joined}, i1 {some}, i1 true")), f.loop("%start", "%stop") as n:
        outer = f.emit(f"udiv i64 {n}, {inner}")
        column = f.sub(n, f.mul(outer, inner))
        apart = f.add(f.mul(outer, blocks), f.div(column, lanes))
        tile = f.emit(f"select i1 {joined}, i64 {f.div(n, lanes)}, i64 {apart}")
        flag = f.load("i64", f.at(flags, f.mul(tile, 8)), 8)
        with f.when(f.emit(f"icmp ne i64 {flag}, 0")):
            offset = f.mul(f.add(f.mul(f.mul(outer, length), inner), column), order.bits // 8)
            step = f.mul(inner, order.bits // 8)
            _mend_row(f, order, (f.at(src, offset), f.at(dst, offset)), length, step)
    f.close()
    return f.module.text()


def _mend_row(f: Function, order: Order, bases: tuple[str, str], length: str, step: Number) -> None:
    here, there = bases
    kind, size = f"i{order.bits}", order.bits // 8

    def kinds(i: str) -> tuple[str, str, str]:
        """An element, and whether it is a zero and a NaN."""
        x = f.load(kind, f.at(here, f.mul(i, step)), size)
        magnitude = f.emit(f"and {kind} {x}, {order.sign - 1}")
        zero = f.emit(f"icmp eq {kind} {magnitude}, 0")
        return x, zero, f.emit(f"icmp ugt {kind} {magnitude}, {order.infinity}")

    with f.carried(0, length, [("i64", 0), ("i64", 0)]) as (i, (negative, nans), after):
        x, zero, nan = kinds(i)
        below = f.emit(f"icmp slt {kind} {x}, 0")
        other = f.emit(f"or i1 {zero}, {nan}")
        below = f.emit(f"select i1 {other}, i1 false, i1 {below}")
        after[0] = f.add(negative, f.emit(f"zext i1 {below} to i64"))
        after[1] = f.add(nans, f.emit(f"zext i1 {nan} to i64"))
    places = [("i64", negative), ("i64", f.sub(length, nans))]
    with f.carried(0, length, places) as (i, (low, high), after):
        x, zero, nan = kinds(i)
        place = f.emit(f"select i1 {zero}, i64 {low}, i64 {high}")
        with f.when(f.emit(f"or i1 {zero}, {nan}")):
            f.store(kind, x, f.at(there, f.mul(place, step)), size)
        after[0] = f.add(low, f.emit(f"zext i1 {zero} to i64"))
        after[1] = f.add(high, f.emit(f"zext i1 {nan} to i64"))
