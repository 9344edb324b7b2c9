"""Rows sorted by splitting keys until few are left, which are sorted in registers, as LLVM text."""

from __future__ import annotations

from weft.backends.cpu.routines.sorting import packing
from weft.backends.cpu.routines.sorting import quick_stubs as stubs
from weft.backends.cpu.routines.sorting.network import (
    Lanes,
    batcher,
    compare_pairs,
    extremes,
    halves,
    shuffle,
    transpose_blocks,
)
from weft.backends.cpu.routines.sorting.packing import (
    choose_function,
    lanes_below,
    load_some,
    splat,
    split_function,
    store_some,
)
from weft.backends.cpu.routines.sorting.rows import Order, element_text, resized
from weft.backends.cpu.routines.writer import Function, Module

ROWS = 16  # vectors that are sorted in registers, at least as many as a vector has lanes

# --- sorting in registers -------------------------------------------------------------------------


def _out(f: Function, v: Lanes, result: Order | None, x: str) -> tuple[str, int]:
    """Keys as what is stored, and the bits of one."""
    if result is None:
        return x, v.bits
    kind = f"<{v.count} x i{result.bits}>"
    x = resized(f, v.llvm, kind, x, "trunc")
    return element_text(f, result, kind, x), result.bits


def small_function(module: Module, v: Lanes, result: Order | None) -> None:
    """A function that sorts as many keys as a few vectors hold, or less.

    Much of it is loops over vectors in memory, which are less to compile and not slower.
    """
    _clean_function(module, v)
    f = Function(module, "small", "ptr %src, ptr %dst, i64 %n")
    tile = f.local((ROWS + 1) * v.size)
    places = [f.at(tile, i * v.size) for i in range(ROWS)]
    whole = f.emit(f"udiv i64 %n, {v.count}")
    inside = lanes_below(f, v, f.sub("%n", f.mul(whole, v.count)))
    with f.loop(0, whole) as i:
        x = f.load(v.llvm, f.at("%src", f.mul(i, v.size)), v.step)
        f.store(v.llvm, x, f.at(tile, f.mul(i, v.size)), v.size)
    x = load_some(f, v, f.at("%src", f.mul(whole, v.size)), inside)
    f.store(v.llvm, x, f.at(tile, f.mul(whole, v.size)), v.size)
    with f.loop(f.add(whole, 1), ROWS) as i:
        f.store(v.llvm, f"splat (i{v.bits} -1)", f.at(tile, f.mul(i, v.size)), v.size)
    compare_pairs(f, v, places, batcher(ROWS))
    transpose_blocks(f, v, tile, tile, ROWS)
    blocks = [range(i, i + v.count) for i in range(0, ROWS, v.count)]
    runs = [list(run) for run in zip(*blocks, strict=True)]
    while len(runs) > 1:
        _join(f, v, tile, runs)
        runs = [a + b for a, b in zip(runs[::2], runs[1::2], strict=True)]
        f.line(f"call void @clean(ptr {tile}, i64 {ROWS})")
    _put(f, v, result, tile, whole, inside)
    f.close()


def _put(f: Function, v: Lanes, result: Order | None, tile: str, whole: str, inside: str) -> None:
    """Sorted vectors given out, one after the other; they lie in blocks."""
    blocks = ROWS // v.count

    def place(i: str) -> tuple[str, str, int]:
        row = f.add(f.div(i, blocks), f.mul(f.rem(i, blocks), v.count))
        x, bits = _out(f, v, result, f.load(v.llvm, f.at(tile, f.mul(row, v.size)), v.size))
        return x, f.at("%dst", f.mul(i, v.count * bits // 8)), bits

    with f.loop(0, whole) as i:
        x, there, bits = place(i)
        f.store(f"<{v.count} x i{bits}>", x, there, bits // 8)
    x, there, bits = place(whole)
    store_some(f, v.count, bits, x, there, inside)


def _join(f: Function, v: Lanes, tile: str, runs: list[list[int]]) -> None:
    """Pairs of sorted runs made one each of vectors in order, each of them rising and falling."""
    back = list(range(v.count))[::-1]
    first, second = runs[:2]
    far = runs[2][0] - first[0] if len(runs) > 2 else 0
    with f.loop(0, len(runs) // 2) as pair:
        base = f.at(tile, f.mul(pair, far * v.size))
        places = [f.at(base, i * v.size) for i in first + second]
        rows = [f.load(v.llvm, p, v.size) for p in places]
        half = len(first)
        rows[half:] = [shuffle(f, v.llvm, x, "poison", back) for x in reversed(rows[half:])]
        for i, j in halves(len(rows)):
            rows[i], rows[j] = extremes(f, v, rows[i], rows[j])
        for place, x in zip(places, rows, strict=True):
            f.store(v.llvm, x, place, v.size)


def _clean_function(module: Module, v: Lanes) -> None:
    """A function that sorts vectors that rise and fall, two of them at a time.

    Two vectors have as many elements to compare as a vector has lanes: what is compared is brought
    into the same lanes, and lanes are put in order at the end only.
    """
    f = Function(module, "clean", "ptr %tile, i64 %count")
    n, wide = v.count, 128 // v.bits
    with f.loop(0, "%count", 2) as i:
        here = f.at("%tile", f.mul(i, v.size))
        there = f.at(here, v.size)
        x, y = (f.load(v.llvm, p, v.size) for p in (here, there))
        held = list(range(2 * n))  # which element each lane of both has
        far = n // 2
        while far:
            block = wide if far < wide else n  # one instruction can pick these
            even = []
            for start in range(0, n, block):
                inside = [j for j in range(start, start + block) if not j & far]
                even += inside + [n + j for j in inside]
            odd = [j + far for j in even]
            low, high = (shuffle(f, v.llvm, x, y, mask) for mask in (even, odd))
            x, y = extremes(f, v, low, high)
            held = [held[j] for j in even + odd]
            far //= 2
        order = [held.index(j) for j in range(2 * n)]
        for p, mask in ((here, order[:n]), (there, order[n:])):
            f.store(v.llvm, shuffle(f, v.llvm, x, y, mask), p, v.size)
    f.close()


def _fill_function(module: Module, v: Lanes, result: Order | None) -> None:
    """A function that gives out the same key, at least as often as a vector has lanes."""
    f = Function(module, "fill", f"ptr %dst, i64 %n, i{v.bits} %key")
    x, bits = _out(f, v, result, splat(f, v, "%key"))
    with f.loop(0, "%n", v.count) as i:
        at = f.smaller(i, f.sub("%n", v.count))
        f.store(f"<{v.count} x i{bits}>", x, f.at("%dst", f.mul(at, bits // 8)), bits // 8)
    f.close()


def quick_text(v: Lanes, result: Order | None) -> str:
    """Rows or buckets of rows sorted, see `quick_stubs.quick_sort`."""
    module = Module()
    split_function(module, v)
    choose_function(module, v)
    _fill_function(module, v, result)
    small_function(module, v, result)
    order = Order(v.bits, "unsigned") if result is None else result
    names = {"OUT": order.bits // 8, "SMALL": ROWS * v.count, "DEPTH": packing.DEPTH}
    return stubs.control_text(module, v, order, stubs.quick_sort, **names)
