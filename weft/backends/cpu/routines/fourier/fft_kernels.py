"""Kernels of Fourier transforms: many short ones at a time, and the two halves of a long one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.backends.cpu.routines.fourier.fft_text import (
    Complex,
    Ends,
    Lanes,
    inner_pass,
    interleaved,
    pass_factors,
    pass_function,
    roots,
    scaled,
    swapped,
)
from weft.backends.cpu.routines.squares import squares
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.kernel.program import Place

NAME = "transform"
# The text of a kernel, and the functions that it wants in buffers after those of its task.
Written = tuple[str, list[Place]]


class Short:
    """A transform of one length on all lanes, by passes between two pieces of memory."""

    def __init__(
        self, v: Lanes, n: int, radices: tuple[int, ...], buffers: int, memory: int = 0
    ) -> None:
        """``buffers`` are those that its kernel has without functions of other modules."""
        self.v = v
        self.n = n
        self.radices = radices
        self.module = Module()
        self.f = kernel(self.module, NAME)
        tables = pass_factors(n, radices, v.real)
        self.factors = [self.module.constant(t) if t.size else "null" for t in tables]
        self.buffers = buffers
        self.inner: list[int] = []  # radices of passes in other modules
        self.careful = False  # whether the kernel does more than to call others
        size = max(n, memory) * v.row
        self.spare = [self.f.local(size), self.f.local(size)]

    def passes(
        self,
        source: str,
        source_step: Number,
        target: str,
        target_step: Number,
        ends: Ends,
        tables: tuple[str, str] = ("null", "null"),
    ) -> None:
        """Write calls of all passes; the first reads the source, the last writes the target."""
        s, m = 1, self.n
        # The first of the pieces in between must not be what the first pass reads.
        spare = self.spare if source != self.spare[0] else self.spare[::-1]
        at, step = source, source_step
        for i, radix in enumerate(self.radices):
            m //= radix
            last = m == 1
            mine = Ends(
                ends.load if i == 0 else "split",
                ends.store if last else "split",
                ends.swap_in and i == 0,
                ends.swap_out and last,
                ends.scale if last else 1.0,
            )
            if not last and mine == Ends():
                name = self.inner_pass(radix)
            else:
                name = pass_function(self.v, self.module, radix, i == 0, last, mine)
            to, stride = (target, target_step) if last else (spare[i % 2], self.v.row)
            self.f.line(
                f"call void {name}(ptr {at}, i64 {step}, ptr {to}, i64 {stride},"
                f" ptr {self.factors[i]}, i64 {m}, i64 {s}, ptr {tables[0]}, ptr {tables[1]})"
            )
            at, step = to, stride
            s *= radix

    def inner_pass(self, radix: int) -> str:
        """The address of a pass that other transforms have as well."""
        if radix not in self.inner:
            self.inner.append(radix)
        return self.f.pointer(self.buffers + self.inner.index(radix))

    def passes_in_memory(self, source: int, ends: Ends) -> int:
        """All passes within the two pieces of memory; which of them holds the result."""
        result = source if len(self.radices) % 2 == 0 else 1 - source
        steps = (self.spare[source], self.v.row, self.spare[result], self.v.row)
        self.passes(*steps, ends)
        return result

    def written(self) -> Written:
        if not self.careful:
            self.f.without_care()
        self.f.close()
        passes = [inner_pass(self.v.itemsize, 8 * self.v.bytes, radix) for radix in self.inner]
        return self.module.text(), [Place("code", code) for code in passes]


# --- lanes are rows -------------------------------------------------------------------------------


class Rows:
    """Rows of a matrix, one a lane, moved into memory split by columns, and back."""

    def __init__(self, short: Short, count: int, step: int) -> None:
        self.short = short
        self.v = short.v
        self.per = self.v.count // 2  # complex numbers in a vector
        self.count = count
        self.step = step  # bytes from a row to the next
        # Rows are fewer than lanes: the last serves lanes that have none.
        self.few = short.f.local(self.v.count * self.v.bytes) if count < self.v.count else ""

    def load(self, base: str, target: str, columns: int) -> None:
        v, f, per = self.v, self.short.f, self.per
        for column, count in self.tiles(columns):
            at, to = f.at(base, f.mul(column, v.element)), f.at(target, f.mul(column, v.row))
            step = self.step
            if self.few:
                with f.loop(0, v.count) as lane:
                    row = f.smaller(lane, self.count - 1)
                    x = f.load(v.kind, f.at(at, f.mul(row, step)), v.itemsize)
                    f.store(v.kind, x, f.at(self.few, f.mul(lane, v.bytes)), v.itemsize)
                at, step = self.few, v.bytes
            squares(f, v, (at, step, per * v.element), (to, v.bytes, per * v.row), count)

    def store(self, source: str, base: str, columns: int) -> None:
        v, f, per = self.v, self.short.f, self.per
        for column, count in self.tiles(columns):
            at, to = f.at(source, f.mul(column, v.row)), f.at(base, f.mul(column, v.element))
            here = (at, v.bytes, per * v.row)
            if not self.few:
                squares(f, v, here, (to, self.step, per * v.element), count)
                continue
            squares(f, v, here, (self.few, v.bytes, 0), count)
            with f.loop(0, self.count) as row:
                x = f.load(v.kind, f.at(self.few, f.mul(row, v.bytes)), v.itemsize)
                f.store(v.kind, x, f.at(to, f.mul(row, self.step)), v.itemsize)

    def tiles(self, columns: int) -> Iterator[tuple[Number, int]]:
        """First columns of squares, and how many are done at once; the last overlaps another."""
        f, per = self.short.f, self.per
        if self.few:
            with f.loop(0, columns, per) as column:
                yield f.smaller(column, columns - per), 1
            return
        yield 0, columns // per
        if columns % per:
            yield columns - per, 1


def rows_text(
    v: Lanes, n: int, radices: tuple[int, ...], batch: int, inverse: bool, scale: float, real: bool
) -> Written:
    """Transforms of the rows of a matrix, as many as there are lanes at a time.

    With ``real``, rows of 2 n real numbers to n + 1 complex ones, or back.
    """
    short = Short(v, n, radices, 2, n + 1 if real else n)
    short.careful = batch < v.count
    f = short.f
    ins, outs = (n + 1 if real and inverse else n), (n + 1 if real and not inverse else n)
    sizes = [ins * v.element, outs * v.element]
    readers = [Rows(short, batch, size) for size in sizes]
    source, target = f.pointer(0), f.pointer(1)
    with f.loop("%start", "%stop") as g:
        row = f.smaller(f.mul(g, v.count), max(0, batch - v.count))
        readers[0].load(f.at(source, f.mul(row, sizes[0])), short.spare[0], ins)
        place = 0
        if real and inverse:
            f.line(f"call void {_pack(short)}(ptr {short.spare[0]}, ptr {short.spare[1]})")
            place = 1
        ends = Ends("split", "split", inverse and not real, inverse, scale)
        place = short.passes_in_memory(place, ends)
        if real and not inverse:
            spots = short.spare[place], short.spare[1 - place]
            f.line(f"call void {_unpack(short)}(ptr {spots[0]}, ptr {spots[1]})")
            place = 1 - place
        to = f.at(target, f.mul(row, sizes[1]))
        readers[1].store(short.spare[place], to, outs)
    return short.written()


MOVE = "ptr noalias %source, ptr noalias %target"


def _halves(short: Short) -> str:
    """The factors that join the spectra of even and odd elements."""
    n = short.n
    return short.module.constant(interleaved(roots(np.arange(n // 2 + 1), 2 * n), short.v.real))


def _unpack(short: Short) -> str:
    """The spectrum of 2 n real numbers from that of n pairs of them.

    X[k] = (a + b* - i w^k (a - b*)) / 2 and X[n - k] = (a + b* + i w^k (a - b*))* / 2 where a and
    b are elements k and n - k of the spectrum of pairs.
    """
    v, n = short.v, short.n
    source, target = "%source", "%target"
    f = Function(short.module, "unpack", MOVE)
    table = _halves(short)
    with f.loop(0, n // 2 + 1) as k:
        other = f.sub(n, k)
        a = v.load_split(f, f.at(source, f.mul(k, v.row)))
        wrapped = f.emit(f"icmp eq i64 {k}, 0")
        place = f.emit(f"select i1 {wrapped}, i64 0, i64 {other}")
        b = v.load_split(f, f.at(source, f.mul(place, v.row)))
        spot = f.at(table, f.mul(k, v.element))
        first, second = join(v, f, a, b, [*v.both_everywhere(f, spot)])
        v.store_split(f, f.at(target, f.mul(k, v.row)), scaled(v, f, first, 0.5))
        v.store_split(f, f.at(target, f.mul(other, v.row)), scaled(v, f, second, 0.5))
    real_ends(v, f, target, n)
    return f.close()


def real_ends(v: Lanes, f: Function, place: str, n: Number) -> None:
    """Clear what the spectrum of 2 n real numbers cannot have: the first and the last imaginary
    part."""
    for row in (0, f.mul(n, v.row)):
        spot = f.at(place, f.add(row, v.bytes))
        f.line(f"store {v.kind} zeroinitializer, ptr {spot}, align {v.itemsize}")


def join(v: Lanes, f: Function, a: Complex, b: Complex, w: list[str]) -> tuple[Complex, Complex]:
    """a + b* - i w (a - b*) and the conjugate of a + b* + i w (a - b*)."""
    even = Complex(v.op(f, "fadd", a.re, b.re), v.op(f, "fsub", a.im, b.im))
    odd = Complex(v.op(f, "fsub", a.re, b.re), v.op(f, "fadd", a.im, b.im))
    odd = v.times(f, odd, *w)._replace(turns=1)
    first, second = v.add(f, even, odd), v.sub(f, even, odd)
    return first, Complex(second.re, v.neg(f, second.im))


def _pack(short: Short) -> str:
    """The opposite of ``_unpack``, its parts swapped: what an inverse transform begins with."""
    v, n = short.v, short.n
    source, target = "%source", "%target"
    f = Function(short.module, "pack", MOVE)
    table = _halves(short)
    real_ends(v, f, source, n)
    with f.loop(0, n // 2 + 1) as k:
        other = f.sub(n, k)
        a = v.load_split(f, f.at(source, f.mul(k, v.row)))
        b = v.load_split(f, f.at(source, f.mul(other, v.row)))
        spot = f.at(table, f.mul(k, v.element))
        wr, wi = v.both_everywhere(f, spot)
        first, second = join(v, f, a, b, [wr, v.neg(f, wi)])
        # The factor here is +i w*, there it was -i w: the two results change places.
        first, second = conjugate(v, f, second), conjugate(v, f, first)
        second_spot = f.at(target, f.mul(other, v.row))
        v.store_split(f, second_spot, swapped(second, True))
        v.store_split(f, f.at(target, f.mul(k, v.row)), swapped(first, True))
    return f.close()


def conjugate(v: Lanes, f: Function, x: Complex) -> Complex:
    return Complex(x.re, v.neg(f, x.im))


# --- lanes are columns ----------------------------------------------------------------------------


def columns_text(
    v: Lanes, n: int, radices: tuple[int, ...], inner: int, inverse: bool, scale: float
) -> Written:
    """Transforms along the middle axis of three; lanes are neighbours along the last one."""
    short = Short(v, n, radices, 2)
    f = short.f
    source, target = f.pointer(0), f.pointer(1)
    groups = -(-inner // v.count)
    step = inner * v.element
    with f.loop("%start", "%stop") as g:
        lane = f.smaller(f.mul(f.rem(g, groups), v.count), inner - v.count)
        offset = f.add(f.mul(f.div(g, groups), n * step), f.mul(lane, v.element))
        ends = Ends("pairs", "pairs", inverse, inverse, scale)
        short.passes(f.at(source, offset), step, f.at(target, offset), step, ends)
    return short.written()


def gathered_text(
    v: Lanes, n: int, radices: tuple[int, ...], outer: int, inner: int, inverse: bool, scale: float
) -> Written:
    """The same where the last axis is shorter than a vector: lanes are any of the transforms."""
    short = Short(v, n, radices, 2)
    short.careful = True
    f = short.f
    source, target = f.pointer(0), f.pointer(1)
    step = inner * v.element
    places = f.local(8 * v.count)
    with f.loop("%start", "%stop") as g:
        first = f.mul(g, v.count)
        with f.loop(0, v.count) as lane:
            index = f.smaller(f.add(first, lane), outer * inner - 1)
            offset = f.add(
                f.mul(f.div(index, inner), n * step), f.mul(f.rem(index, inner), v.element)
            )
            f.store("i64", str(offset), f.at(places, f.mul(lane, 8)), 8)
        with f.loop(0, n) as row:
            to = f.at(short.spare[0], f.mul(row, v.row))
            with f.loop(0, v.count) as lane:
                offset = f.load("i64", f.at(places, f.mul(lane, 8)), 8)
                at = f.at(f.at(source, offset), f.mul(row, step))
                move(v, f, at, v.itemsize, f.at(to, f.mul(lane, v.itemsize)), v.bytes)
        place = short.passes_in_memory(0, Ends("split", "split", inverse, inverse, scale))
        with f.loop(0, n) as row:
            at = f.at(short.spare[place], f.mul(row, v.row))
            with f.loop(0, v.count) as lane:
                offset = f.load("i64", f.at(places, f.mul(lane, 8)), 8)
                to = f.at(f.at(target, offset), f.mul(row, step))
                move(v, f, f.at(at, f.mul(lane, v.itemsize)), v.bytes, to, v.itemsize)
    return short.written()


def move(v: Lanes, f: Function, at: str, step: int, to: str, stride: int) -> None:
    """Copy a complex number; its parts lie ``step`` bytes apart here, ``stride`` there."""
    for i in (0, 1):
        value = f.load(v.base, f.at(at, i * step), v.itemsize)
        f.store(v.base, value, f.at(to, i * stride), v.itemsize)


# --- long transforms ------------------------------------------------------------------------------


def first_half_text(
    v: Lanes,
    n1: int,
    n2: int,
    radices: tuple[int, ...],
    inverse: bool,
    tables: list[np.ndarray] | None,
) -> Written:
    """Transforms of length n1 over the columns of rows of length n2, times w ** (j2 k1).

    Results go to blocks of as many k1 as there are lanes, each block a matrix over j2 and k1. The
    tables are constants, or else buffers 2 and 3.
    """
    short = Short(v, n1, radices, 4 if tables is None else 2)
    f = short.f
    source, target = f.pointer(0), f.pointer(1)
    if tables is None:
        lane_table, group_table = f.pointer(2), f.pointer(3)
    else:
        lane_table, group_table = (short.module.constant(t) for t in tables)
    groups, blocks = -(-n2 // v.count), -(-n1 // v.count)
    step = n2 * v.element
    with f.loop("%start", "%stop") as g:
        group = f.rem(g, groups)
        outer = f.div(g, groups)
        lane = f.smaller(f.mul(group, v.count), n2 - v.count)
        offset = f.add(f.mul(outer, n1 * step), f.mul(lane, v.element))
        held = short.spare[(len(radices) - 1) % 2]
        mine = f.at(group_table, f.mul(group, n1 * v.element))
        ends = Ends("pairs", "factors", inverse)
        short.passes(f.at(source, offset), step, held, v.row, ends, (lane_table, mine))
        begin = f.add(f.mul(outer, blocks * n2), lane)
        whole = n1 // v.count
        for part in (0, v.bytes):
            here = f.at(held, part)
            to = f.at(target, f.add(f.mul(begin, v.row), part))
            ahead, down = v.count * v.row, n2 * v.row
            squares(f, v, (here, v.row, ahead), (to, v.row, down), whole)
            if blocks > whole:  # the last block begins early, so as to be whole
                here, to = f.at(here, (n1 - v.count) * v.row), f.at(to, whole * down)
                squares(f, v, (here, v.row, 0), (to, v.row, 0), 1)
    return short.written()


def second_half_text(
    v: Lanes, n1: int, n2: int, radices: tuple[int, ...], inverse: bool, scale: float
) -> Written:
    """Transforms of length n2 over the blocks that the first half made, to k1 + n1 k2."""
    short = Short(v, n2, radices, 2)
    f = short.f
    source, target = f.pointer(0), f.pointer(1)
    blocks = -(-n1 // v.count)
    with f.loop("%start", "%stop") as g:
        lane = f.smaller(f.mul(f.rem(g, blocks), v.count), n1 - v.count)
        offset = f.add(f.mul(f.div(g, blocks), n1 * n2 * v.element), f.mul(lane, v.element))
        at = f.at(source, f.mul(g, n2 * v.row))
        ends = Ends("split", "pairs", False, inverse, scale)
        short.passes(at, v.row, f.at(target, offset), n1 * v.element, ends)
    return short.written()


def factor_tables(v: Lanes, n1: int, n2: int) -> list[np.ndarray]:
    """w ** (lane k1), split by rows; w ** (first j2 of a group, k1)."""
    n, count = n1 * n2, v.count
    rows = np.arange(n1)
    lanes = roots(rows[:, None] * np.arange(count), n)
    split = np.stack([lanes.real, lanes.imag], 1).astype(v.real)
    groups = np.minimum(np.arange(-(-n2 // count)) * count, n2 - count)
    return [split, interleaved(roots(groups[:, None] * rows, n), v.real)]


def root_tables(n: int) -> tuple[int, list[np.ndarray]]:
    """Two short tables whose products are all powers of exp(-2 pi i / n).

    The first has the powers up to 1 << shift, the second each of the powers so far apart.
    """
    shift = max(1, (n.bit_length() + 1) // 2)
    size = 1 << shift
    low, high = roots(np.arange(size), n), roots(np.arange(-(-n // size)) * size, n)
    return shift, [interleaved(t, np.dtype(np.float64)) for t in (low, high)]


class Roots:
    """exp(-2 pi i t / n) in double precision by two short tables, for t known when run."""

    def __init__(self, f: Function, low: str, high: str, shift: Number) -> None:
        self.f = f
        self.low, self.high, self.shift = low, high, shift
        size = 1 << shift if isinstance(shift, int) else f.emit(f"shl i64 1, {shift}")
        self.mask = f.sub(size, 1)

    @classmethod
    def constant(cls, f: Function, n: int) -> Roots:
        """By tables in the text, for a length that is known."""
        shift, tables = root_tables(n)
        low, high = map(f.module.constant, tables)
        return cls(f, low, high, shift)

    def __call__(self, t: Number) -> tuple[str, str]:
        f = self.f
        high = f.emit(f"lshr i64 {t}, {self.shift}")
        low = f.emit(f"and i64 {t}, {self.mask}")
        spots = [f.at(self.high, f.mul(high, 16)), f.at(self.low, f.mul(low, 16))]
        (ar, ai), (br, bi) = (
            [f.load("double", f.at(spot, i), 8) for i in (0, 8)] for spot in spots
        )
        products = [f.emit(f"fmul double {x}, {y}") for x, y in ((ar, br), (ai, bi))]
        crossed = [f.emit(f"fmul double {x}, {y}") for x, y in ((ar, bi), (ai, br))]
        re = f.emit(f"fsub double {products[0]}, {products[1]}")
        im = f.emit(f"fadd double {crossed[0]}, {crossed[1]}")
        return re, im


def narrowed(v: Lanes, f: Function, value: str) -> str:
    return value if v.itemsize == 8 else f.emit(f"fptrunc double {value} to float")


def tables_text(v: Lanes, n1: int, n2: int) -> str:
    """The two tables of ``factor_tables``, a range of rows k1, into buffers 0 and 1."""
    module = Module()
    f = kernel(module, NAME)
    lane_table, group_table = f.pointer(0), f.pointer(1)
    root = Roots.constant(f, n1 * n2)
    groups, count = -(-n2 // v.count), v.count
    with f.loop("%start", "%stop") as row:
        lanes = f.at(lane_table, f.mul(row, v.row))
        firsts = f.at(group_table, f.mul(row, v.element))
        with f.loop(0, count + groups) as i:
            # the lanes, then the first columns of groups: one body for both tables
            lane = f.emit(f"icmp slt i64 {i}, {count}")
            group = f.sub(i, count)
            first = f.smaller(f.mul(group, count), n2 - count)
            re, im = root(f.mul(f.emit(f"select i1 {lane}, i64 {i}, i64 {first}"), row))
            spots = f.at(lanes, f.mul(i, v.itemsize)), f.at(firsts, f.mul(group, n1 * v.element))
            at = f.emit(f"select i1 {lane}, ptr {spots[0]}, ptr {spots[1]}")
            f.store(v.base, narrowed(v, f, re), at, v.itemsize)
            apart = f.emit(f"select i1 {lane}, i64 {v.bytes}, i64 {v.itemsize}")
            f.store(v.base, narrowed(v, f, im), f.at(at, apart), v.itemsize)
    f.close()
    return module.text()
