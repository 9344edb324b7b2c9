"""Sorted runs merged in pairs as LLVM text, by bitonic networks inside of vectors.

Inoue et al. 2007: two sorted vectors become a lower and an upper one; the vector to take next is
the one with the smaller head. Any part of a result can be made without the parts before it.
"""

from __future__ import annotations

from weft.backends.cpu.routines.sorting.network import (
    Lanes,
    Order,
    element_text,
    extremes,
    fields,
    resized,
    shuffle,
)
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel

# What the table of a merge holds: the vectors of a row, pieces a row is cut into and vectors of
# each, vectors of a run, and how often runs are merged.
WIDTH, PIECES, PIECE, PART, TIMES = range(5)
Spans = tuple[Number, Number, Number]  # where two runs begin, meet and end


def merge_text(v: Lanes) -> str:
    """Runs of records merged in pairs, so often as the table says, piece by piece.

    Buffers: records, records (results are in either, by how often), table.
    """
    module = Module()
    _merge_pairs(module, v)
    f = kernel(module, "merge")
    table = f.pointer(2)
    width, pieces, piece, part, times = fields(f, table, WIDTH, PIECES, PIECE, PART, TIMES)
    with f.loop("%start", "%stop") as n:
        row = f.emit(f"udiv i64 {n}, {pieces}")
        low = f.mul(f.sub(n, f.mul(row, pieces)), piece)
        high = f.smaller(f.add(low, piece), width)
        base = f.mul(f.mul(row, width), v.size)
        a, b = f.at(f.pointer(0), base), f.at(f.pointer(1), base)
        with f.carried(0, times, [("ptr", a), ("ptr", b)]) as (time, (here, there), after):
            run = f.emit(f"shl i64 {part}, {time}")
            args = f"ptr {here}, ptr {there}, i64 {width}, i64 {run}, i64 {low}, i64 {high}"
            f.line(f"call void @merge_pairs({args})")
            after[:] = [there, here]
    f.close()
    return module.text()


def _merge_pairs(module: Module, v: Lanes) -> None:
    """A function that merges pairs of runs in a row, those vectors of the result in a range."""
    parameters = "ptr %src, ptr %dst, i64 %width, i64 %run, i64 %low, i64 %high"
    f = Function(module, "merge_pairs", parameters)
    pair = f.mul("%run", 2)
    first = f.emit(f"udiv i64 %low, {pair}")
    beyond = f.emit(f"udiv i64 {f.sub(f.add('%high', pair), 1)}, {pair}")
    with f.loop(first, beyond) as q:
        begin = f.mul(q, pair)
        middle = f.smaller(f.add(begin, "%run"), "%width")
        end = f.smaller(f.add(begin, pair), "%width")
        negative = f.emit(f"icmp slt i64 {begin}, %low")
        low = f.emit(f"select i1 {negative}, i64 %low, i64 {begin}")
        high = f.smaller("%high", end)
        _merge_pair(f, v, begin, middle, end, low, high)
    f.close()


def _head(f: Function, v: Lanes, i: Number) -> str:
    return f.load(f"i{v.bits}", f.at("%src", f.mul(i, v.size)), v.step)


def _merge_pair(
    f: Function, v: Lanes, begin: Number, middle: Number, end: Number, low: Number, high: Number
) -> None:
    """Vectors ``low`` to ``high`` of two runs merged, found without the ones before them.

    Vectors are taken in the order of their heads. What has been taken but not given out are the
    largest of the last vector taken from either run.
    """
    runs = (begin, middle, end)
    stop = f.smaller(high, f.sub(end, 1))
    kinds = ("i64", "i64", v.llvm)
    values = list(zip(kinds, _begun(f, v, runs, low), strict=True))
    with f.carried(low, stop, values) as (n, state, after):
        after[:] = _merge_step(f, v, runs, state, n)
    with f.when(f.emit(f"icmp eq i64 {high}, {end}")):
        f.store(v.llvm, state[2], f.at("%dst", f.mul(stop, v.size)), v.step)


def _begun(f: Function, v: Lanes, runs: Spans, low: Number) -> list[Number]:
    """What is taken of both runs before a vector of the result, and what is held of it."""
    begin, middle, end = runs
    taken = f.add(f.sub(low, begin), 1)
    i = _taken(f, v, begin, middle, end, taken)
    a, b = f.add(begin, i), f.add(middle, f.sub(taken, i))
    x, y = _last(f, v, a, begin), _last(f, v, b, middle)
    _, held = _merged(f, v, x, y)
    only_b = f.emit(f"icmp eq i64 {a}, {begin}")
    only_a = f.emit(f"icmp eq i64 {b}, {middle}")
    held = f.emit(f"select i1 {only_b}, {v.llvm} {y}, {v.llvm} {held}")
    return [a, b, f.emit(f"select i1 {only_a}, {v.llvm} {x}, {v.llvm} {held}")]


def _merge_step(f: Function, v: Lanes, runs: Spans, state: list[str], n: Number) -> list[Number]:
    """Take a vector and give one out."""
    a, b, held = state
    less = f.emit(f"icmp ule i{v.bits} {_head(f, v, a)}, {_head(f, v, b)}")
    some = f.emit(f"icmp slt i64 {a}, {runs[1]}")
    none = f.emit(f"icmp sge i64 {b}, {runs[2]}")
    first = f.emit(f"or i1 {f.emit(f'and i1 {less}, {some}')}, {none}")
    taken = f.emit(f"select i1 {first}, i64 {a}, i64 {b}")
    one = f.emit(f"zext i1 {first} to i64")
    x = f.load(v.llvm, f.at("%src", f.mul(taken, v.size)), v.step)
    small, large = _merged(f, v, held, x)
    f.store(v.llvm, small, f.at("%dst", f.mul(n, v.size)), v.step)
    return [f.add(a, one), f.sub(f.add(b, 1), one), large]


def _last(f: Function, v: Lanes, i: Number, begin: Number) -> str:
    """The vector before a place, or any where there is none."""
    none = f.emit(f"icmp eq i64 {i}, {begin}")
    at = f.emit(f"select i1 {none}, i64 {begin}, i64 {f.sub(i, 1)}")
    return f.load(v.llvm, f.at("%src", f.mul(at, v.size)), v.step)


def _taken(f: Function, v: Lanes, begin: Number, middle: Number, end: Number, count: Number) -> str:
    """How many of the first vectors in the order of heads are of the first run."""
    missing = f.sub(count, f.sub(end, middle))
    some = f.emit(f"icmp sgt i64 {missing}, 0")
    least = f.emit(f"select i1 {some}, i64 {missing}, i64 0")
    most = f.smaller(f.sub(middle, begin), count)
    f.declare("llvm.ctlz.i64", "i64", "i64, i1")
    zeros = f.emit(f"call i64 @llvm.ctlz.i64(i64 {f.sub(most, least)}, i1 false)")
    steps = f.sub(64, zeros)
    with f.carried(0, steps, [("i64", least), ("i64", most)]) as (_, (low, high), after):
        half = f.emit(f"lshr i64 {f.add(low, high)}, 1")
        done = f.emit(f"icmp sge i64 {low}, {high}")
        # Where nothing is left to look for, look at what is surely there.
        x = f.emit(f"select i1 {done}, i64 {begin}, i64 {f.add(begin, half)}")
        other = f.add(middle, f.sub(f.sub(count, 1), half))
        y = f.emit(f"select i1 {done}, i64 {begin}, i64 {other}")
        less = f.emit(f"icmp ule i{v.bits} {_head(f, v, x)}, {_head(f, v, y)}")
        up = f.emit(f"select i1 {less}, i64 {f.add(half, 1)}, i64 {low}")
        down = f.emit(f"select i1 {less}, i64 {high}, i64 {half}")
        after[0] = f.emit(f"select i1 {done}, i64 {low}, i64 {up}")
        after[1] = f.emit(f"select i1 {done}, i64 {high}, i64 {down}")
    return low


def _merged(f: Function, v: Lanes, x: str, y: str) -> tuple[str, str]:
    """Two sorted vectors as one, its lower and its upper half."""
    n = v.count
    back = shuffle(f, v.llvm, y, "poison", list(range(n))[::-1])
    out = []
    for part in extremes(f, v, x, back):
        step = n // 2
        while step:
            other = shuffle(f, v.llvm, part, "poison", [j ^ step for j in range(n)])
            low, high = extremes(f, v, part, other)
            part = shuffle(f, v.llvm, low, high, [j + n if j & step else j for j in range(n)])
            step //= 2
        out.append(part)
    return out[0], out[1]


def unload_text(v: Lanes, order: Order) -> str:
    """Sorted records as elements, in pieces of rows; rows hold at least a vector.

    Buffers: records, elements, a table like that of a merge, but in elements: the length of a row
    of records, pieces, elements of a piece, and the length of a row of elements.
    """
    module = Module()
    f = kernel(module, "unload")
    src, dst, table = (f.pointer(i) for i in range(3))
    width, pieces, piece, length = fields(f, table, WIDTH, PIECES, PIECE, PART)
    size, kind = order.bits // 8, f"<{v.count} x i{order.bits}>"
    with f.loop("%start", "%stop") as n:
        row = f.emit(f"udiv i64 {n}, {pieces}")
        low = f.mul(f.sub(n, f.mul(row, pieces)), piece)
        high = f.smaller(f.add(low, piece), length)
        here = f.at(src, f.mul(f.mul(row, width), v.step))
        there = f.at(dst, f.mul(f.mul(row, length), size))
        with f.loop(low, high, v.count) as i:
            at = f.smaller(i, f.sub(length, v.count))
            x = f.load(v.llvm, f.at(here, f.mul(at, v.step)), v.step)
            x = element_text(f, order, kind, resized(f, v.llvm, kind, x, "trunc"))
            f.store(kind, x, f.at(there, f.mul(at, size)), size)
    f.close()
    return module.text()
