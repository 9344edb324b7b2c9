"""Kernels that go over data once, around transforms: half spectra, chirps, transposed copies."""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.fourier.fft_kernels import (
    TABLE,
    Driver,
    Loop,
    narrowed,
    packed,
)
from weft.backends.cpu.routines.fourier.fft_text import (
    Complex,
    Lanes,
    number,
    roots,
    swapped,
)
from weft.backends.cpu.routines.writer import Function, Number
from weft.base.functional import lru

# --- real data ------------------------------------------------------------------------------------


def lane_factors(v: Lanes, n: int) -> np.ndarray:
    """The first powers of exp(-pi i / n), split."""
    lanes = roots(np.arange(v.count), 2 * n)
    return np.stack([lanes.real, lanes.imag]).astype(v.real)


@lru(8)
def mirror_text(itemsize: int, bits: int, back: bool) -> str:
    """The spectra of rows of 2 n real numbers from those of n pairs; the way back, twice as large.

    A loop over blocks of k from 1 to n / 2 of every row, with the blocks of n - k.
    """
    v = Lanes(itemsize, bits)
    loop = Loop(v, 5, TABLE)
    f, (n, blocks, shift, high, lanes) = loop.f, loop.sizes
    source, target, tables = (f.pointer(i) for i in range(3))
    root, wide = loop.roots(tables, shift, high), f.add(n, 1)
    sizes = (wide, n) if back else (n, wide)
    with f.loop("%start", "%stop") as g:
        row = f.div(g, blocks)
        at, to = (
            f.at(x, f.mul(row, f.mul(size, v.element)))
            for x, size in zip((source, target), sizes, strict=True)
        )
        # blocks at the end of a row overlap
        k = f.add(f.mul(f.rem(g, blocks), v.count), 1)
        k = f.smaller(k, f.sub(f.div(n, 2), v.count - 1))
        offsets = [f.mul(i, v.element) for i in (k, f.sub(f.sub(n, v.count - 1), k))]
        re, im = (v.fill(f, narrowed(v, f, x)) for x in root(k))
        w = v.times(f, v.load_split(f, f.at(tables, lanes)), re, im)
        orders = (1, -1)
        a, b = (v.load_pairs(f, f.at(at, x), i) for x, i in zip(offsets, orders, strict=True))
        found = packed(v, f, a, b, (w.re, w.im), back)
        for x, offset, order in zip(found, offsets, orders, strict=True):
            v.store_pairs(f, f.at(to, offset), x, order)
        with f.when(f.emit(f"icmp eq i64 {k}, 1")):
            re, im = loop.load(at, 0)
            if back:
                im = loop.load(at, n)[0]
            ends = loop.op("fadd", re, im), loop.op("fsub", re, im)
            loop.store(to, 0, ends if back else (ends[0], loop.zero))
            if not back:
                loop.store(to, n, (ends[1], loop.zero))
    return loop.text()


@lru(4)
def wide_text(itemsize: int, bits: int, back: bool) -> str:
    """Real numbers as complex ones, or the real parts of these."""
    v = Lanes(itemsize, bits)
    loop = Loop(v)
    f = loop.f
    source, target = f.pointer(0), f.pointer(1)
    with f.loop("%start", "%stop") as i:
        if back:
            value, to = loop.load(source, i)[0], f.at(target, f.mul(i, v.itemsize))
            f.store(v.base, value, to, v.itemsize)
        else:
            value = f.load(v.base, f.at(source, f.mul(i, v.itemsize)), v.itemsize)
            loop.store(target, i, (value, loop.zero))
    return loop.text()


@lru(4)
def half_text(itemsize: int, bits: int, back: bool) -> str:
    """Rows of half spectra from those of whole ones, or back, of odd lengths; sizes are those of
    both."""
    v = Lanes(itemsize, bits)
    loop = Loop(v, 2)
    f, (n, half) = loop.f, loop.sizes
    source, target = f.pointer(0), f.pointer(1)
    long, short = (f.mul(size, v.element) for size in (n, half))
    copy = f.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    with f.loop("%start", "%stop") as row:
        at = f.at(source, f.mul(row, short if back else long))
        to = f.at(target, f.mul(row, long if back else short))
        f.line(f"call void {copy}(ptr {to}, ptr {at}, i64 {short}, i1 false)")
        if back:
            with f.loop(1, f.add(f.sub(n, half), 1)) as k:
                re, im = loop.load(at, k)
                loop.store(to, f.sub(n, k), (re, loop.neg(im)))
            # Element 0 is its own opposite.
            f.store(v.base, loop.zero, f.at(to, v.itemsize), v.itemsize)
    return loop.text()


# --- lengths with large prime factors -------------------------------------------------------------


def clear(f: Function, at: str, size: Number) -> None:
    name = f.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    f.line(f"call void {name}(ptr {at}, i8 0, i64 {size}, i1 false)")


@lru(16)
def chirped_text(itemsize: int, bits: int, step: str) -> str:
    """A step of a transform by a convolution with a chirp, on vectors of rows.

    ``begin``: rows times the chirp, padded with zeros. ``multiply``: rows times a spectrum, parts
    swapped. ``end``: the first of a row, parts swapped, times the chirp.
    """
    v = Lanes(itemsize, bits)
    d = Driver(v, "n blocks from to sign scale turn")
    f, size = d.f, d.size
    sign, scale, turn = (number(v, f, size[word]) for word in ("sign", "scale", "turn"))
    with f.loop("%start", "%stop") as g:
        row = f.div(g, size["blocks"])
        k = f.smaller(f.mul(f.rem(g, size["blocks"]), v.count), f.sub(size["n"], v.count))
        c = v.load_pairs(f, f.at(d.data, f.mul(k, v.element)))
        place = f.add(f.mul(row, size["from"]), k)
        x = v.load_pairs(f, f.at(d.source, f.mul(place, v.element)))
        if step == "begin":
            x = Complex(x.re, v.op(f, "fmul", x.im, sign))
        x = v.times(f, swapped(x, step == "end"), c.re, c.im)
        x = swapped(x, step == "multiply")
        if step == "end":
            x = Complex(v.op(f, "fmul", x.re, scale), v.op(f, "fmul", x.im, turn))
        to = f.mul(row, size["to"])
        v.store_pairs(f, f.at(d.target, f.mul(f.add(to, k), v.element)), x)
        if step == "begin":
            with f.when(f.emit(f"icmp eq i64 {k}, 0")):
                rest = f.at(d.target, f.mul(f.add(to, size["n"]), v.element))
                clear(f, rest, f.mul(f.sub(size["to"], size["n"]), v.element))
    return d.text()


@lru(4)
def chirp_text(itemsize: int, bits: int) -> str:
    """c[j] = exp(-pi i j j / n) to buffer 0; its conjugate, around 0 and scaled, to buffer 1."""
    v = Lanes(itemsize, bits)
    loop = Loop(v, 5, TABLE)
    f, (n, size, shift, high, scale) = loop.f, loop.sizes
    chirp, padded = f.pointer(0), f.pointer(1)
    root = loop.roots(f.pointer(2), shift, high)
    factor = f.emit(f"bitcast i64 {scale} to double")
    whole = f.mul(n, 2)

    def step(i: str, held: list[str]) -> list[str]:
        (square,) = held
        j = f.add("%start", i)
        values = root(square)
        loop.store(chirp, j, (narrowed(v, f, values[0]), narrowed(v, f, values[1])))
        re, im = (narrowed(v, f, f.emit(f"fmul double {x}, {factor}")) for x in values)
        at_start = f.emit(f"icmp eq i64 {j}, 0")
        for place in (j, loop.index(at_start, 0, f.sub(size, j))):
            loop.store(padded, place, (re, loop.neg(im)))
        with f.when(at_start):
            rest = f.sub(f.add(size, 1), whole)
            clear(f, f.at(padded, f.mul(n, v.element)), f.mul(rest, v.element))
        # the next square, still below 2 n
        after = f.add(square, f.add(f.mul(j, 2), 1))
        less = f.sub(after, whole)
        return [loop.index(loop.below(less, 0), after, less)]

    first = f.rem(f.mul("%start", "%start"), whole)
    f.fold(f.sub("%stop", "%start"), "i64", [str(first)], step)
    return loop.text()


# --- moves ----------------------------------------------------------------------------------------

STRIP = 8


@lru(4)
def transposed_text(itemsize: int, bits: int) -> str:
    """Matrices transposed, a strip of rows at a time."""
    v = Lanes(itemsize, bits)
    loop = Loop(v, 3)
    f, (height, width, strips) = loop.f, loop.sizes
    source, target = f.pointer(0), f.pointer(1)
    with f.loop("%start", "%stop") as g:
        offset = f.mul(f.div(g, strips), f.mul(height, width))
        first = f.mul(f.rem(g, strips), STRIP)
        stop = f.smaller(f.add(first, STRIP), height)
        with f.loop(0, width) as column:
            with f.loop(first, stop) as row:
                place = f.add(offset, f.add(f.mul(row, width), column))
                to = f.add(offset, f.add(f.mul(column, height), row))
                at, to = (f.at(x, f.mul(i, v.element)) for x, i in ((source, place), (target, to)))
                pair = f"<2 x {v.base}>"
                f.store(pair, f.load(pair, at, v.itemsize), to, v.itemsize)
    return loop.text()


@lru(4)
def twisted_text(itemsize: int, bits: int) -> str:
    """Element (k1, j2) of n1 by n2 matrices times w ** (j2 k1), or its conjugate, in place."""
    v = Lanes(itemsize, bits)
    loop = Loop(v, 5)
    f, (n1, n2, shift, high, turn) = loop.f, loop.sizes
    root = loop.roots(f.pointer(1), shift, high)
    data, sign = f.pointer(0), f.emit(f"bitcast i64 {turn} to double")
    with f.loop("%start", "%stop") as row:
        at, k = f.at(data, f.mul(row, f.mul(n2, v.element))), f.rem(row, n1)

        def step(j: str, held: list[str]) -> list[str]:
            re, im = root(held[0])
            im = f.emit(f"fmul double {im}, {sign}")
            loop.store(
                at, j, loop.times(loop.load(at, j), (narrowed(v, f, re), narrowed(v, f, im)))
            )
            return [str(f.add(held[0], k))]

        f.fold(n2, "i64", ["0"], step)
    return loop.text()


@lru(4)
def factors_text(itemsize: int, bits: int) -> str:
    """The tables of ``factor_tables`` into buffers 0 and 1: a range of lanes, then of groups."""
    v = Lanes(itemsize, bits)
    loop = Loop(v, 4, TABLE)
    f, (n1, n2, shift, high) = loop.f, loop.sizes
    lanes, firsts = f.pointer(0), f.pointer(1)
    root = loop.roots(f.pointer(2), shift, high)
    with f.loop("%start", "%stop") as i:
        lane, group = loop.below(i, v.count), f.sub(i, v.count)
        column = loop.index(lane, i, f.smaller(f.mul(group, v.count), f.sub(n2, v.count)))
        mine = f.at(firsts, f.mul(group, f.mul(n1, v.element)))
        at = f.at(lanes, f.mul(i, v.itemsize))
        at = f.emit(f"select i1 {lane}, ptr {at}, ptr {mine}")
        ahead, apart = loop.index(lane, v.row, v.element), loop.index(lane, v.bytes, v.itemsize)

        def step(row: str, held: list[str]) -> list[str]:
            to = f.at(at, f.mul(row, ahead))
            for place, part in zip((to, f.at(to, apart)), root(held[0]), strict=True):
                f.store(v.base, narrowed(v, f, part), place, v.itemsize)
            return [str(f.add(held[0], column))]

        f.fold(n1, "i64", ["0"], step)
    return loop.text()
