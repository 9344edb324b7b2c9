"""Kernels that go over data once, around transforms: real data, chirps, transposed copies."""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.fourier.fft_kernels import NAME, Roots, conjugate, join, narrowed
from weft.backends.cpu.routines.fourier.fft_text import Complex, Lanes, roots, scaled, swapped
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.cpu.sizes import read_sizes

Pair = tuple[str, str]
# Sizes that tell where tables of roots are, if that is read.
ROOTS = (0, 0)


class Loop:
    """A kernel under way, and complex scalars in it."""

    def __init__(self, v: Lanes, numbers: tuple[int, ...] = (), after: int | None = None) -> None:
        """With numbers that are written, or read from a table after so many buffers."""
        self.v = v
        self.module = Module()
        self.f = kernel(self.module, NAME)
        self.zero = v.literal(0.0)
        self.sizes: list[Number] = list(numbers)
        if after is not None:
            self.f.lines += read_sizes(range(len(numbers)), after)
            self.sizes = [f"%sized{i}" for i in range(len(numbers))]

    def roots(self, tables: str, shift: Number, high: Number) -> Roots:
        """By two tables in a buffer, the second so many bytes after the first."""
        return Roots(self.f, tables, self.f.at(tables, high), shift)

    def text(self) -> str:
        self.f.close()
        return self.module.text()

    def load(self, base: str, index: Number) -> Pair:
        v, f = self.v, self.f
        at = f.at(base, f.mul(index, v.element))
        first = f.load(v.base, at, v.itemsize)
        return first, f.load(v.base, f.at(at, v.itemsize), v.itemsize)

    def store(self, base: str, index: Number, x: Pair) -> None:
        v, f = self.v, self.f
        at = f.at(base, f.mul(index, v.element))
        f.store(v.base, x[0], at, v.itemsize)
        f.store(v.base, x[1], f.at(at, v.itemsize), v.itemsize)

    def op(self, name: str, a: str, b: str) -> str:
        return self.f.emit(f"{name} {self.v.base} {a}, {b}")

    def neg(self, a: str) -> str:
        return self.f.emit(f"fneg {self.v.base} {a}")

    def times(self, a: Pair, b: Pair) -> Pair:
        op = self.op
        re = op("fsub", op("fmul", a[0], b[0]), op("fmul", a[1], b[1]))
        return re, op("fadd", op("fmul", a[0], b[1]), op("fmul", a[1], b[0]))

    def below(self, a: Number, b: Number) -> str:
        return self.f.emit(f"icmp slt i64 {a}, {b}")

    def choose(self, condition: str, a: str, b: str) -> str:
        kind = self.v.base
        return self.f.emit(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def index(self, condition: str, a: Number, b: Number) -> str:
        return self.f.emit(f"select i1 {condition}, i64 {a}, i64 {b}")


# --- real data ------------------------------------------------------------------------------------


def lane_factors(v: Lanes, n: int) -> np.ndarray:
    """The first powers of exp(-pi i / n), split."""
    lanes = roots(np.arange(v.count), 2 * n)
    return np.stack([lanes.real, lanes.imag]).astype(v.real)


class Mirror:
    """A loop over blocks of k from 1 to n / 2 of every row, with the blocks of n - k."""

    def __init__(self, v: Lanes, n: int, after: int | None) -> None:
        """With tables in a buffer if sizes are in one."""
        blocks = -(-(n // 2) // v.count)
        self.loop = Loop(v, (n, blocks, *ROOTS, 0), after)
        self.v = v
        self.n, self.blocks, shift, high, lanes = self.loop.sizes
        f = self.loop.f
        self.source, self.target = f.pointer(0), f.pointer(1)
        if after is None:
            self.lane_factors = self.loop.module.constant(lane_factors(v, n))
            self.root = Roots.constant(f, 2 * n)
        else:
            tables = f.pointer(2)
            self.lane_factors = f.at(tables, lanes)
            self.root = self.loop.roots(tables, shift, high)

    def places(self, g: str) -> tuple[Number, Number]:
        """The row and the first k of a block; blocks at the end of a row overlap."""
        f, v = self.loop.f, self.v
        first = f.add(f.mul(f.rem(g, self.blocks), v.count), 1)
        return f.div(g, self.blocks), f.smaller(first, f.sub(f.div(self.n, 2), v.count - 1))

    def factors(self, k: Number) -> list[str]:
        """w ** k for each lane."""
        f, v = self.loop.f, self.v
        re, im = (v.fill(f, narrowed(v, f, x)) for x in self.root(k))
        w = v.times(f, v.load_split(f, self.lane_factors), re, im)
        return [w.re, w.im]

    def load(self, row: str, k: Number) -> tuple[Complex, Complex]:
        """Elements k and n - k, the latter in reversed order."""
        f, v = self.loop.f, self.v
        a = v.load_pairs(f, f.at(row, f.mul(k, v.element)))
        return a, v.load_pairs(f, self.opposite(row, k), -1)

    def store(self, row: str, k: Number, a: Complex, b: Complex) -> None:
        f, v = self.loop.f, self.v
        v.store_pairs(f, f.at(row, f.mul(k, v.element)), a)
        v.store_pairs(f, self.opposite(row, k), b, -1)

    def opposite(self, row: str, k: Number) -> str:
        f, v = self.loop.f, self.v
        return f.at(row, f.mul(f.sub(f.sub(self.n, v.count - 1), k), v.element))

    def at_start(self, k: Number) -> str:
        return self.loop.f.emit(f"icmp eq i64 {k}, 1")


def unpack_text(v: Lanes, n: int, after: int | None = None) -> str:
    """The spectra of rows of 2 n real numbers from those of n pairs."""
    m = Mirror(v, n, after)
    loop, f = m.loop, m.loop.f
    with f.loop("%start", "%stop") as g:
        row, k = m.places(g)
        source = f.at(m.source, f.mul(row, f.mul(m.n, v.element)))
        target = f.at(m.target, f.mul(row, f.mul(f.add(m.n, 1), v.element)))
        first, second = join(v, f, *m.load(source, k), m.factors(k))
        m.store(target, k, scaled(v, f, first, 0.5), scaled(v, f, second, 0.5))
        with f.when(m.at_start(k)):
            re, im = loop.load(source, 0)
            loop.store(target, 0, (loop.op("fadd", re, im), loop.zero))
            loop.store(target, m.n, (loop.op("fsub", re, im), loop.zero))
    return loop.text()


def pack_text(v: Lanes, n: int, after: int | None = None) -> str:
    """Spectra of n pairs from those of rows of 2 n real numbers, twice as large."""
    m = Mirror(v, n, after)
    loop, f = m.loop, m.loop.f
    with f.loop("%start", "%stop") as g:
        row, k = m.places(g)
        source = f.at(m.source, f.mul(row, f.mul(f.add(m.n, 1), v.element)))
        target = f.at(m.target, f.mul(row, f.mul(m.n, v.element)))
        wr, wi = m.factors(k)
        first, second = join(v, f, *m.load(source, k), [wr, v.neg(f, wi)])
        m.store(target, k, conjugate(v, f, second), conjugate(v, f, first))
        with f.when(m.at_start(k)):
            a, b = loop.load(source, 0)[0], loop.load(source, m.n)[0]
            loop.store(target, 0, (loop.op("fadd", a, b), loop.op("fsub", a, b)))
    return loop.text()


def widen_text(v: Lanes) -> str:
    """Real numbers as complex ones."""
    loop = Loop(v)
    f = loop.f
    source, target = f.pointer(0), f.pointer(1)
    with f.loop("%start", "%stop") as i:
        value = f.load(v.base, f.at(source, f.mul(i, v.itemsize)), v.itemsize)
        loop.store(target, i, (value, loop.zero))
    return loop.text()


def real_part_text(v: Lanes) -> str:
    """The real parts of complex numbers."""
    loop = Loop(v)
    f = loop.f
    source, target = f.pointer(0), f.pointer(1)
    with f.loop("%start", "%stop") as i:
        value = loop.load(source, i)[0]
        f.store(v.base, value, f.at(target, f.mul(i, v.itemsize)), v.itemsize)
    return loop.text()


def crop_text(v: Lanes, n: int, kept: int) -> str:
    """The first ``kept`` complex numbers of rows of n."""
    loop = Loop(v)
    f = loop.f
    source, target = f.pointer(0), f.pointer(1)
    with f.loop("%start", "%stop") as i:
        place = f.add(f.mul(f.div(i, kept), n), f.rem(i, kept))
        loop.store(target, i, loop.load(source, place))
    return loop.text()


def mirrored_text(v: Lanes, n: int) -> str:
    """Whole spectra of rows of n real numbers from their halves."""
    loop = Loop(v)
    f = loop.f
    source, target = f.pointer(0), f.pointer(1)
    half = n // 2 + 1
    with f.loop("%start", "%stop") as i:
        k = f.rem(i, n)
        known = loop.below(k, half)
        place = loop.index(known, k, f.sub(n, k))
        re, im = loop.load(source, f.add(f.mul(f.div(i, n), half), place))
        im = loop.choose(known, im, loop.neg(im))
        # Element 0, and that in the middle of an even length, are their own opposites.
        twice = f.rem(f.mul(k, 2), n)
        alone = f.emit(f"icmp eq i64 {twice}, 0")
        loop.store(target, i, (re, loop.choose(alone, loop.zero, im)))
    return loop.text()


# --- lengths with large prime factors -------------------------------------------------------------


class Blocks:
    """A loop over vectors of rows of n complex numbers; the last of a row overlaps."""

    def __init__(self, v: Lanes, n: int) -> None:
        self.loop = Loop(v)
        self.v, self.n = v, n
        self.count = -(-n // v.count)

    def places(self, g: str) -> tuple[Number, Number]:
        """The row and the first number of a vector."""
        f = self.loop.f
        first = f.mul(f.rem(g, self.count), self.v.count)
        return f.div(g, self.count), f.smaller(first, self.n - self.v.count)

    def load(self, base: str, place: Number) -> Complex:
        f, v = self.loop.f, self.v
        return v.load_pairs(f, f.at(base, f.mul(place, v.element)))

    def store(self, base: str, place: Number, x: Complex) -> None:
        f, v = self.loop.f, self.v
        v.store_pairs(f, f.at(base, f.mul(place, v.element)), x)

    def text(self) -> tuple[str, int]:
        return self.loop.text(), self.count


def clear(f: Function, at: str, size: Number) -> None:
    name = f.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    f.line(f"call void {name}(ptr {at}, i8 0, i64 {size}, i1 false)")


def chirp_text(v: Lanes, n: int, size: int) -> str:
    """c[j] = exp(-pi i j j / n) to buffer 0; its conjugate, around 0 and padded, to buffer 1."""
    loop = Loop(v)
    f = loop.f
    chirp, padded = f.pointer(0), f.pointer(1)
    root = Roots.constant(f, 2 * n)
    with f.loop("%start", "%stop") as j:
        re, im = (narrowed(v, f, x) for x in root(f.rem(f.mul(j, j), 2 * n)))
        loop.store(chirp, j, (re, im))
        turned = loop.neg(im)
        loop.store(padded, j, (re, turned))
        start = f.emit(f"icmp eq i64 {j}, 0")
        opposite = loop.index(start, 0, f.sub(size, j))
        loop.store(padded, opposite, (re, turned))
        with f.when(start):
            clear(f, f.at(padded, n * v.element), (size - 2 * n + 1) * v.element)
    return loop.text()


def modulated_text(v: Lanes, n: int, size: int, swap: bool) -> tuple[str, int]:
    """Rows of n times the chirp, padded with zeros to ``size``; vectors in a row."""
    b = Blocks(v, n)
    f = b.loop.f
    source, chirp, target = f.pointer(0), f.pointer(1), f.pointer(2)
    with f.loop("%start", "%stop") as g:
        row, k = b.places(g)
        x = swapped(b.load(source, f.add(f.mul(row, n), k)), swap)
        c = b.load(chirp, k)
        to = f.mul(row, size)
        b.store(target, f.add(to, k), v.times(f, x, c.re, c.im))
        with f.when(f.emit(f"icmp eq i64 {k}, 0")):
            rest = f.at(target, f.mul(f.add(to, n), v.element))
            clear(f, rest, (size - n) * v.element)
    return b.text()


def demodulated_text(v: Lanes, n: int, size: int, swap: bool, scale: float) -> tuple[str, int]:
    """The first n of rows of ``size``, parts swapped, times the chirp; vectors in a row."""
    b = Blocks(v, n)
    f = b.loop.f
    source, chirp, target = f.pointer(0), f.pointer(1), f.pointer(2)
    with f.loop("%start", "%stop") as g:
        row, k = b.places(g)
        c = b.load(chirp, k)
        x = swapped(b.load(source, f.add(f.mul(row, size), k)), True)
        x = v.times(f, x, c.re, c.im)
        b.store(target, f.add(f.mul(row, n), k), swapped(scaled(v, f, x, scale), swap))
    return b.text()


def product_text(v: Lanes, size: int) -> tuple[str, int]:
    """Rows of buffer 0 times buffer 1 over ``size``, parts swapped, to buffer 2."""
    b = Blocks(v, size)
    f = b.loop.f
    source, factors, target = f.pointer(0), f.pointer(1), f.pointer(2)
    with f.loop("%start", "%stop") as g:
        row, k = b.places(g)
        place = f.add(f.mul(row, size), k)
        c = scaled(v, f, b.load(factors, k), 1 / size)
        b.store(target, place, swapped(v.times(f, b.load(source, place), c.re, c.im), True))
    return b.text()


# --- moves ----------------------------------------------------------------------------------------

STRIP = 8


def transposed_text(v: Lanes, rows: int, columns: int, after: int | None = None) -> str:
    """Matrices transposed, a strip of rows at a time."""
    loop = Loop(v, (rows, columns, -(-rows // STRIP)), after)
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
                _copy(v, f, source, place, target, to)
    return loop.text()


def _copy(v: Lanes, f: Function, source: str, place: Number, target: str, to: Number) -> None:
    kind = f"<2 x {v.base}>"
    value = f.load(kind, f.at(source, f.mul(place, v.element)), v.itemsize)
    f.store(kind, value, f.at(target, f.mul(to, v.element)), v.itemsize)


def twisted_text(v: Lanes, n1: int, n2: int, inverse: bool) -> str:
    """Element (k1, j2) of n1 by n2 matrices times w ** (j2 k1), or its conjugate, in place."""
    loop = Loop(v)
    f = loop.f
    data = f.pointer(0)
    root = Roots.constant(f, n1 * n2)
    with f.loop("%start", "%stop") as i:
        row, column = f.rem(f.div(i, n2), n1), f.rem(i, n2)
        re, im = (narrowed(v, f, x) for x in root(f.mul(row, column)))
        im = loop.neg(im) if inverse else im
        loop.store(data, i, loop.times(loop.load(data, i), (re, im)))
    return loop.text()
