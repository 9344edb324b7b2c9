"""Kernels of Fourier transforms: many short ones at a time, and the two halves of a long one.

They have no lengths in their texts. Buffers are the source, the target, an array with all factors,
a table of numbers, and at the end functions that all share: one that calls passes, and the passes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from weft.backends.cpu.routines.fourier.fft_text import (
    NUMBERS,
    POINTERS,
    STEP,
    STRAIGHT,
    Complex,
    Lanes,
    interleaved,
    pass_text,
    roots,
    scaled,
    swapped,
)
from weft.backends.cpu.routines.squares import squares
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.cpu.sizes import read_sizes
from weft.base.functional import lru
from weft.kernel.program import Place

NAME = "transform"
MOVE = "ptr noalias %source, ptr noalias %target"
TABLE = 3
# Longer prime factors are for chirps.
PRIMES = tuple(p for p in range(2, 100) if all(p % q for q in range(2, p)))
# What a pass costs an element: going through memory, and arithmetic.
COSTS = {2: 7.0, 3: 8.0, 4: 8.0, 5: 10.5, 6: 10.5, 7: 13.0, 8: 10.0, 9: 12.5, 10: 13.0}
# Where data is, the bytes from an element to the next, and another number.
Strided = tuple[str, Number, Number]


def radices_of(n: int) -> tuple[int, ...]:
    """Radices whose product is n, of those that have a pass, at the least cost; largest first."""
    return _radices_of(operator.index(n))


@lru(4096)
def _radices_of(n: int) -> tuple[int, ...]:
    """Radices whose product is n, of those that have a pass, at the least cost; largest first."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}

    def find(rest: int) -> tuple[float, tuple[int, ...]]:
        if rest not in best:
            found = []
            for r in (*STRAIGHT, *(p for p in PRIMES if p not in STRAIGHT)):
                if rest % r == 0:
                    cost, others = find(rest // r)
                    found.append((cost + COSTS.get(r, 2.0 * r), (r, *others)))
            best[rest] = min(found)
        return best[rest]

    return tuple(sorted(find(n)[1], reverse=True)) or (1,)


class Tables:
    """All numbers of a kernel: factors in one array, and words."""

    def __init__(self, v: Lanes) -> None:
        self.v = v
        self.arrays: list[bytes] = []
        self.size = 0

    def add(self, array: np.ndarray) -> int:
        """Where an array begins, in bytes."""
        place, data = self.size, array.tobytes()
        data += bytes(-len(data) % 64)
        self.arrays.append(data)
        self.size += len(data)
        return place

    def roots(self, n: int) -> list[int]:
        """Add tables of roots, before all else: what a kernel is to be told of them."""
        shift, (low, high) = root_tables(n)
        self.add(low)
        return [shift, self.add(high)]

    def complex(self, values: np.ndarray) -> int:
        return self.add(interleaved(values, self.v.real))

    def places(
        self,
        numbers: list[int],
        n: int,
        swap: float,
        scale: float,
        more: Sequence[Place] = (),
    ) -> list[Place]:
        """What a kernel is given after its source and its target, for passes of length n."""
        radices, s, m = radices_of(n), 1, n
        words, codes = [*numbers, len(radices), int(swap != 0), bits_of(scale)], []
        for radix in radices:
            m //= radix
            code = radix if radix in STRAIGHT else 0
            if code not in codes:
                codes.append(code)
            factors, table = -1, 0
            if m > 1:
                powers = np.arange(m)[:, None] * np.arange(1, radix)
                factors = self.complex(roots(powers, m * radix))
            if not code:
                j = np.arange(1, radix // 2 + 1)
                table = self.complex(roots(j[:, None] * j, radix).conj())
            words += (codes.index(code), radix, m, s, factors, table)
            s *= radix
        given = self.v.itemsize, 8 * self.v.bytes
        texts = calls_text(*given), *(pass_text(*given, code) for code in codes)
        passes = [Place("code", text) for text in texts]
        return [self.data(), Place("numbers", tuple(words)), *more, *passes]

    def data(self) -> Place:
        """All arrays as one."""
        return Place("data", np.frombuffer(b"".join(self.arrays) or bytes(8), self.v.real))


def bits_of(number: float) -> int:
    """The word of a table that is a number."""
    return int(np.float64(number).view(np.int64))


class Driver:
    """A kernel under way with transforms by passes between two pieces of memory."""

    def __init__(self, v: Lanes, names: str, more: int = 0) -> None:
        """The table has these words, and then those of all passes; so many more buffers follow."""
        words = names.split()
        self.v, self.module = v, Module()
        self.f = f = kernel(self.module, NAME)
        f.lines += read_sizes(range(len(words)), TABLE)
        self.size = {word: f"%sized{i}" for i, word in enumerate(words)}
        self.source, self.target, self.data = (f.pointer(i) for i in range(3))
        self.calls = f.pointer(TABLE + 1 + more)
        self.codes = f.emit(f"getelementptr ptr, ptr %buffers, i64 {TABLE + 2 + more}")
        self.steps = f.at("%sized", 8 * len(words))

    def memory(self, rows: Number) -> list[str]:
        """Two pieces of memory for so many elements of all lanes."""
        size = self.f.mul(rows, self.v.row)
        return [self.f.emit(f"alloca i8, i64 {size}, align 64") for _ in range(2)]

    def at(self, name: str) -> str:
        """A piece of the array of factors."""
        return self.f.at(self.data, self.size[name])

    def passes(
        self,
        source: Strided,
        target: Strided,
        spare: list[str],
        tables: tuple[str, str] = ("null", "null"),
    ) -> None:
        """All passes between two places; the first spare is written first.

        ``tables`` are the factors of a first half.
        """
        f, size = self.f, self.size
        ends = [f"ptr {a}, i64 {b}, i64 {c}" for a, b, c in (source, target)]
        f.line(
            f"call void {self.calls}(ptr {self.codes}, ptr {self.steps}, i64 {size['count']},"
            f" ptr {self.data}, {', '.join(ends)}, ptr {spare[0]}, ptr {spare[1]},"
            f" i64 {size['swap']}, i64 {size['scale']}, ptr {tables[0]}, ptr {tables[1]})"
        )

    def result(self, spare: list[str]) -> str:
        """Which of two pieces of memory passes from the first one end in."""
        odd = self.f.emit(f"trunc i64 {self.size['count']} to i1")
        return self.f.emit(f"select i1 {odd}, ptr {spare[1]}, ptr {spare[0]}")

    def within(self, spare: list[str]) -> str:
        """All passes from the first piece of memory to one of the two: which."""
        result, row = self.result(spare), self.v.row
        self.passes((spare[0], row, 0), (result, row, 0), spare[::-1])
        return result

    def careless(self) -> str:
        """The text, where others do the work."""
        self.f.without_care()
        self.f.close()
        return self.module.text()


@lru(4)
def calls_text(itemsize: int, bits: int) -> tuple[str, str]:
    """The text and the name of a function that calls all passes of a transform."""
    v, module = Lanes(itemsize, bits), Module()
    ends = "ptr %source, i64 %ss, i64 %pairs_in, ptr %target, i64 %ts, i64 %pairs_out"
    more = "ptr %even, ptr %odd, i64 %swap, i64 %scale, ptr %lane, ptr %group"
    parameters = f"ptr %codes, ptr %steps, i64 %count, ptr %data, {ends}, {more}"
    f = Function(module, "passes", parameters, False)
    with f.loop(0, "%count") as i:
        first = f.emit(f"icmp eq i64 {i}, 0")
        last = f.emit(f"icmp eq i64 {i}, {f.sub('%count', 1)}")
        odd = f.emit(f"trunc i64 {i} to i1")

        def choose(condition: str, kind: str, a: Number, b: Number) -> str:
            return f.emit(f"select i1 {condition}, {kind} {a}, {kind} {b}")

        here = choose(first, "ptr", "%source", choose(odd, "ptr", "%even", "%odd"))
        there = choose(last, "ptr", "%target", choose(odd, "ptr", "%odd", "%even"))
        step = f.at("%steps", f.mul(i, 8 * STEP))
        code, factors, table = (f.load("i64", f.at(step, 8 * k), 8) for k in (0, 4, 5))
        found = choose(last, "ptr", "null", f.at("%data", factors))
        given = {name: f"%{name}" for name in (*POINTERS, *NUMBERS)}
        given |= {"step": step, "source": here, "target": there}
        given |= {"factors": found, "table": f.at("%data", table)}
        given["ts"] = choose(last, "i64", "%ts", v.row)
        for name, inside in (("ss", v.row), ("pairs_in", 0), ("swap", 0)):
            given[name] = choose(first, "i64", f"%{name}", inside)
        words = [f"ptr {given[name]}" for name in POINTERS]
        words += [f"i64 {given[name]}" for name in NUMBERS]
        spot = f.emit(f"getelementptr ptr, ptr %codes, i64 {code}")
        f.line(f"call void {f.load('ptr', spot, 8)}({', '.join(words)})")
    f.close()
    return module.text(), "passes"


# --- lanes are rows -------------------------------------------------------------------------------


def _moving(module: Module, v: Lanes, back: bool) -> str:
    """Rows of a matrix moved into memory split by columns, or back; as many as there are lanes."""
    per = v.count // 2
    name = "store" if back else "load"
    f = Function(module, name, "ptr %rows, i64 %step, ptr %split, i64 %columns")
    # the last square begins early, so as to be whole
    before, last = f.div(f.sub("%columns", 1), per), f.sub("%columns", per)
    rows, split = ("%rows", "%step", per * v.element), ("%split", v.bytes, per * v.row)
    squares(f, v, *((split, rows) if back else (rows, split)), before)
    rows = (f.at("%rows", f.mul(last, v.element)), "%step", 0)
    split = (f.at("%split", f.mul(last, v.row)), v.bytes, 0)
    squares(f, v, *((split, rows) if back else (rows, split)), 1)
    return f.close()


def _gathering(module: Module, v: Lanes, back: bool) -> str:
    """The same for any transforms along the middle axis of three, from the first of some lanes."""
    name = "scatter" if back else "gather"
    parameters = "ptr %array, ptr %split, i64 %n, i64 %inner, i64 %first, i64 %lanes"
    f = Function(module, name, parameters)
    with f.loop(0, "%lanes") as lane:
        number = f.add("%first", lane)
        outer, column = f.div(number, "%inner"), f.rem(number, "%inner")
        begin = f.add(f.mul(outer, f.mul("%n", "%inner")), column)
        with f.loop(0, "%n") as row:
            at = f.at("%array", f.mul(f.add(begin, f.mul(row, "%inner")), v.element))
            to = f.at("%split", f.add(f.mul(row, v.row), f.mul(lane, v.itemsize)))
            for i in (0, 1):
                spots = f.at(at, i * v.itemsize), f.at(to, i * v.bytes)
                value = f.load(v.base, spots[back], v.itemsize)
                f.store(v.base, value, spots[not back], v.itemsize)
    return f.close()


@lru(16)
def rows_text(itemsize: int, bits: int, real: str, gathered: bool) -> str:
    """Transforms of rows; ``real`` says if they are real: ``to`` spectra, or ``from`` them.

    Those that are ``gathered`` may be fewer than lanes, shorter than a vector, and along the middle
    axis of three.
    """
    v = Lanes(itemsize, bits)
    d = Driver(v, "halves batch inner ins outs n count swap scale")
    f, size = d.f, d.size
    spare = d.memory(f.add(size["n"], 1))
    moves = [(_gathering if gathered else _moving)(d.module, v, back) for back in (False, True)]

    def move(back: bool, split: str, first: Number) -> None:
        array, length = (d.target, size["outs"]) if back else (d.source, size["ins"])
        if gathered:
            count = f.smaller(f.sub(size["batch"], first), v.count)
            f.line(
                f"call void {moves[back]}(ptr {array}, ptr {split}, i64 {length},"
                f" i64 {size['inner']}, i64 {first}, i64 {count})"
            )
            return
        step = f.mul(length, v.element)
        at = f.at(array, f.mul(first, step))
        f.line(f"call void {moves[back]}(ptr {at}, i64 {step}, ptr {split}, i64 {length})")

    def pack(split: str, other: str) -> None:
        name = _packing(d.module, v, real == "from")
        f.line(f"call void {name}(ptr {split}, ptr {other}, i64 {size['n']}, ptr {d.at('halves')})")

    with f.loop("%start", "%stop") as g:
        first = f.mul(g, v.count)
        if not gathered:
            first = f.smaller(first, f.sub(size["batch"], v.count))
        move(False, spare[0], first)
        if real == "from":
            pack(*spare)
            result = d.within(spare[::-1])
        else:
            result = d.within(spare)
        if real == "to":
            same = f.emit(f"icmp eq ptr {result}, {spare[0]}")
            other = f.emit(f"select i1 {same}, ptr {spare[1]}, ptr {spare[0]}")
            pack(result, other)
            result = other
        move(True, result, first)
    return d.careless()


def _packing(module: Module, v: Lanes, back: bool) -> str:
    """The spectrum of 2 n real numbers from that of n pairs of them, or back, for all lanes.

    X[k] = (a + b* - i w^k (a - b*)) / 2 and X[n - k] = (a + b* + i w^k (a - b*))* / 2 where a and
    b are elements k and n - k of the spectrum of pairs. The way back swaps parts of its result, as
    an inverse transform begins with.
    """
    f = Function(module, "pack" if back else "unpack", f"{MOVE}, i64 %n, ptr %table")
    if back:
        real_ends(v, f, "%source", "%n")
    with f.loop(0, f.add(f.div("%n", 2), 1)) as k:
        other = f.sub("%n", k)
        at_start = f.emit(f"icmp eq i64 {k}, 0")
        place = other if back else f.emit(f"select i1 {at_start}, i64 0, i64 {other}")
        a = v.load_split(f, f.at("%source", f.mul(k, v.row)))
        b = v.load_split(f, f.at("%source", f.mul(place, v.row)))
        wr, wi = v.both_everywhere(f, f.at("%table", f.mul(k, v.element)))
        first, second = packed(v, f, a, b, (wr, wi), back)
        if back:
            first, second = swapped(first, True), swapped(second, True)
        v.store_split(f, f.at("%target", f.mul(other, v.row)), second)
        v.store_split(f, f.at("%target", f.mul(k, v.row)), first)
    if not back:
        real_ends(v, f, "%target", "%n")
    return f.close()


def real_ends(v: Lanes, f: Function, place: str, n: Number) -> None:
    """Clear what the spectrum of 2 n real numbers cannot have: the first and the last imaginary
    part."""
    for row in (0, f.mul(n, v.row)):
        spot = f.at(place, f.add(row, v.bytes))
        f.line(f"store {v.kind} zeroinitializer, ptr {spot}, align {v.itemsize}")


def packed(
    v: Lanes, f: Function, a: Complex, b: Complex, w: tuple[str, str], back: bool
) -> tuple[Complex, Complex]:
    """Elements k and n - k from those of the other spectrum; the way back, twice as large."""
    wr, wi = w
    even = Complex(v.op(f, "fadd", a.re, b.re), v.op(f, "fsub", a.im, b.im))
    odd = Complex(v.op(f, "fsub", a.re, b.re), v.op(f, "fadd", a.im, b.im))
    odd = v.times(f, odd, wr, v.neg(f, wi) if back else wi)._replace(turns=1)
    plus, minus = v.add(f, even, odd), v.sub(f, even, odd)
    if back:
        return minus, Complex(plus.re, v.neg(f, plus.im))
    return scaled(v, f, plus, 0.5), scaled(v, f, Complex(minus.re, v.neg(f, minus.im)), 0.5)


# --- lanes are columns ----------------------------------------------------------------------------


@lru(16)
def columns_text(itemsize: int, bits: int, half: str) -> str:
    """Transforms along the middle axis of three; lanes are neighbours along the last one.

    Those of a long transform are one half of it. The ``first`` is multiplied by w ** (j2 k1), and
    writes blocks of as many results as there are lanes; the ``second`` reads them.
    """
    v = Lanes(itemsize, bits)
    d = Driver(v, "n inner groups blocks count swap scale", 2 * (half == "first"))
    f, size = d.f, d.size
    n, inner, blocks = size["n"], size["inner"], size["blocks"]
    spare = d.memory(n)
    step, tables = f.mul(inner, v.element), ("null", "null")
    if half == "first":
        lanes, firsts = (f.pointer(TABLE + i) for i in (1, 2))
    with f.loop("%start", "%stop") as g:
        group, outer = f.rem(g, size["groups"]), f.div(g, size["groups"])
        lane = f.smaller(f.mul(group, v.count), f.sub(inner, v.count))
        offset = f.add(f.mul(outer, f.mul(n, step)), f.mul(lane, v.element))
        ends: list[Strided] = [(f.at(place, offset), step, 1) for place in (d.source, d.target)]
        if half == "second":
            ends[0] = f.at(d.source, f.mul(g, f.mul(n, v.row))), v.row, 0
        if half == "first":
            # the last pass writes where its turn would be, which is not what it reads
            held = d.result(spare[::-1])
            ends[1] = held, v.row, 0
            tables = lanes, f.at(firsts, f.mul(group, f.mul(n, v.element)))
        d.passes(ends[0], ends[1], spare, tables)
        if half == "first":
            to = f.at(d.target, f.mul(f.add(f.mul(outer, f.mul(blocks, inner)), lane), v.row))
            _turned(d, held, to)
    return d.careless()


def _turned(d: Driver, held: str, to: str) -> None:
    """Split rows transposed, a block of as many rows as there are lanes at a time."""
    f, v, size = d.f, d.v, d.size
    last, down = f.sub(size["blocks"], 1), f.mul(size["inner"], v.row)
    early = f.mul(f.sub(size["n"], v.count), v.row)  # of the last one, so as to be whole
    for part in (0, v.bytes):
        at, there = f.at(held, part), f.at(to, part)
        squares(f, v, (at, v.row, v.count * v.row), (there, v.row, down), last)
        squares(f, v, (f.at(at, early), v.row, 0), (f.at(there, f.mul(last, down)), v.row, 0), 1)


# --- tables ---------------------------------------------------------------------------------------


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
