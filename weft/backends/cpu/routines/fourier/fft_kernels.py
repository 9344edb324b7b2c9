"""Kernels of Fourier transforms: many short ones at a time, and the two halves of a long one.

They have no lengths in their texts. Buffers are the source, the target, an array with all factors,
a table of numbers, and at the end functions that all share: one that calls passes, and the passes.
"""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.fourier.fft_text import (
    STRAIGHT,
    WORDS,
    Complex,
    Form,
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
# Words of the table for a pass: the number of its function, its radix, the products of the radices
# to come and of those before, and where its factors and its table of cosines are.
STEP = 6
TABLE = 3
# Where data is, and two distances in it.
Strided = tuple[str, Number, Number]


class Tables:
    """All numbers of a kernel: factors in one array, and words."""

    def __init__(self, v: Lanes) -> None:
        self.v = v
        self.arrays: list[bytes] = []
        self.size = 0
        self.codes: list[tuple[int, Form | None]] = []
        self.steps: list[int] = []

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

    def passes(self, n: int, radices: tuple[int, ...], ends: Form | None) -> int:
        """Add the passes of a transform whose ends are known, or by code for any; how many."""
        s, m = 1, n
        for i, radix in enumerate(radices):
            m //= radix
            straight = radix if radix in STRAIGHT else 0
            code = straight, ends and pass_form(ends, i == 0, m == 1)
            if code not in self.codes:
                self.codes.append(code)
            factors, table = -1, 0
            if m > 1:
                powers = np.arange(m)[:, None] * np.arange(1, radix)
                factors = self.complex(roots(powers, m * radix))
            if not straight:
                j = np.arange(1, radix // 2 + 1)
                table = self.complex(roots(j[:, None] * j, radix).conj())
            self.steps += (self.codes.index(code), radix, m, s, factors, table)
            s *= radix
        return len(radices)

    def places(self, numbers: list[int]) -> list[Place]:
        """What a kernel is given after its source and its target."""
        bits = 8 * self.v.bytes
        texts = [pass_text(self.v.itemsize, bits, *code) for code in self.codes]
        codes = [Place("code", code) for code in (calls_text(self.v.itemsize, bits), *texts)]
        return [self.data(), Place("numbers", (*numbers, *self.steps)), *codes]

    def data(self) -> Place:
        """All arrays as one."""
        return Place("data", np.frombuffer(b"".join(self.arrays) or bytes(8), self.v.real))


def pass_form(ends: Form, first: bool, last: bool) -> Form:
    """What is known of one pass of a transform with these ends."""
    pairs_in, swap_in = first and ends.pairs_in, first and ends.swap_in
    own = Form(False, last, pairs_in, last and ends.pairs_out, swap_in, last and ends.swap_out)
    own = own._replace(twiddled=last and ends.twiddled)
    # A first pass that reads as others do is one of them.
    return own._replace(first=first and own != Form())


def bits_of(number: float) -> int:
    """The word of a table that is a number."""
    return int(np.float64(number).view(np.int64))


class Driver:
    """A kernel under way: its table, and transforms by passes between two pieces of memory."""

    def __init__(self, v: Lanes, names: str, more: int = 0) -> None:
        """The table has these words, and then those of all passes if one is their ``count``.

        So many more buffers follow it.
        """
        self.v = v
        self.module = Module()
        self.f = f = kernel(self.module, NAME)
        words = names.split()
        f.lines += read_sizes(range(len(words)), TABLE)
        self.size = {word: f"%sized{i}" for i, word in enumerate(words)}
        self.source, self.target, self.data = (f.pointer(i) for i in range(3))
        if "count" in words:
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
        scale: tuple[str, str, str],
        tables: tuple[str, str] = ("null", "null"),
    ) -> None:
        """All passes; source and target with the words of a pass, the first spare is written first.

        ``scale`` has the words for what is read and what is written, ``tables`` the factors of a
        first half.
        """
        ends = [f"ptr {a}, i64 {b}, i64 {c}" for a, b, c in (source, target)]
        self.f.line(
            f"call void {self.calls}(ptr {self.codes}, ptr {self.steps}, i64 {self.size['count']},"
            f" ptr {self.data}, {', '.join(ends)}, ptr {spare[0]}, ptr {spare[1]},"
            f" i64 {scale[0]}, i64 {scale[1]}, i64 {scale[2]},"
            f" ptr {tables[0]}, ptr {tables[1]})"
        )

    def within(self, spare: list[str], swap_in: Number) -> str:
        """All passes from the first piece of memory to one of the two: which.

        Parts change places in an inverse transform: ``flip`` are the bytes from one to the other.
        """
        v, f = self.v, self.f
        odd = f.emit(f"trunc i64 {self.size['count']} to i1")
        result = f.emit(f"select i1 {odd}, ptr {spare[1]}, ptr {spare[0]}")
        ends: list[Strided] = []
        for place, flip in ((spare[0], swap_in), (result, self.size["flip"])):
            ends.append((f.at(place, flip), v.row, f.sub(v.bytes, f.mul(flip, 2))))
        one = str(bits_of(1.0))
        scale = self.size["scale"]
        self.passes(ends[0], ends[1], spare[::-1], (one, scale, scale))
        return result

    def text(self) -> str:
        self.f.without_care()
        self.f.close()
        return self.module.text()


@lru(4)
def calls_text(itemsize: int, bits: int) -> tuple[str, str]:
    """The text and the name of a function that calls all passes of a transform."""
    v, module = Lanes(itemsize, bits), Module()
    ends = "ptr %source, i64 %ss, i64 %si, ptr %target, i64 %ts, i64 %ti"
    scale = "i64 %sign, i64 %scale, i64 %turn, ptr %lane, ptr %group"
    f = Function(
        module,
        "passes",
        f"ptr %codes, ptr %steps, i64 %count, ptr %data, {ends}, ptr %even, ptr %odd, {scale}",
        False,
    )
    call = f.local(8 * len(WORDS))
    with f.loop(0, "%count") as i:
        first = f.emit(f"icmp eq i64 {i}, 0")
        last = f.emit(f"icmp eq i64 {i}, {f.sub('%count', 1)}")
        odd = f.emit(f"trunc i64 {i} to i1")

        def choose(condition: str, kind: str, a: Number, b: Number) -> str:
            return f.emit(f"select i1 {condition}, {kind} {a}, {kind} {b}")

        here = choose(first, "ptr", "%source", choose(odd, "ptr", "%even", "%odd"))
        there = choose(last, "ptr", "%target", choose(odd, "ptr", "%odd", "%even"))
        step = f.at("%steps", f.mul(i, 8 * STEP))
        code, radix, m, s, factors, table = (
            f.load("i64", f.at(step, 8 * k), 8) for k in range(STEP)
        )
        words = {"ss": choose(first, "i64", "%ss", v.row)}
        words["si"] = choose(first, "i64", "%si", v.bytes)
        words["ts"] = choose(last, "i64", "%ts", v.row)
        words["ti"] = choose(last, "i64", "%ti", v.bytes)
        words |= {"m": m, "s": s, "radix": radix}
        words |= {"sign": "%sign", "scale": "%scale", "turn": "%turn"}
        found = choose(last, "ptr", "null", f.at("%data", factors))
        for place, word in enumerate(WORDS):
            f.store("i64", str(words[word]), f.at(call, 8 * place), 8)
        pointers = (call, here, there, found, f.at("%data", table), "%lane", "%group")
        spot = f.emit(f"getelementptr ptr, ptr %codes, i64 {code}")
        given = ", ".join(f"ptr {pointer}" for pointer in pointers)
        f.line(f"call void {f.load('ptr', spot, 8)}({given})")
    f.close()
    return module.text(), "passes"


# --- lanes are rows -------------------------------------------------------------------------------


def _rows_function(module: Module, v: Lanes, name: str) -> str:
    """Rows of a matrix moved into memory split by columns (``load``), or back (``store``).

    Of rows that are fewer than lanes, the last serves the lanes that have none.
    """
    back, per = name == "store", v.count // 2
    f = Function(
        module, name, "ptr %rows, i64 %step, ptr %split, i64 %columns, i64 %count, ptr %few"
    )
    few = f.emit(f"icmp slt i64 %count, {v.count}")

    def turn(rows: Strided, split: Strided, count: Number) -> None:
        squares(f, v, *((split, rows) if back else (rows, split)), count)

    with f.when(f.emit(f"xor i1 {few}, true")):
        whole, rest = f.div("%columns", per), f.rem("%columns", per)
        turn(("%rows", "%step", per * v.element), ("%split", v.bytes, per * v.row), whole)
        last = f.sub("%columns", per)
        more = f.emit(f"zext i1 {f.emit(f'icmp ne i64 {rest}, 0')} to i64")
        at, to = f.at("%rows", f.mul(last, v.element)), f.at("%split", f.mul(last, v.row))
        turn((at, "%step", 0), (to, v.bytes, 0), more)
    with f.when(few), f.loop(0, "%columns", per) as column:
        column = f.smaller(column, f.sub("%columns", per))
        at, to = f.at("%rows", f.mul(column, v.element)), f.at("%split", f.mul(column, v.row))
        if back:
            turn(("%few", v.bytes, 0), (to, v.bytes, 0), 1)
        with f.loop(0, "%count" if back else v.count) as lane:
            row = f.at(at, f.mul(f.smaller(lane, f.sub("%count", 1)), "%step"))
            held = f.at("%few", f.mul(lane, v.bytes))
            spots = (held, row) if back else (row, held)
            f.store(v.kind, f.load(v.kind, spots[0], v.itemsize), spots[1], v.itemsize)
        if not back:
            turn(("%few", v.bytes, 0), (to, v.bytes, 0), 1)
    return f.close()


@lru(16)
def rows_text(itemsize: int, bits: int, real: str) -> str:
    """Transforms of rows; ``real`` says if they are real: ``to`` spectra, or ``from`` them."""
    v = Lanes(itemsize, bits)
    d = Driver(v, "batch n ins outs count flip scale halves")
    f, size = d.f, d.size
    few = f.local(v.count * v.bytes)
    spare = d.memory(f.add(size["n"], 1))
    load, store = (_rows_function(d.module, v, name) for name in ("load", "store"))
    steps = [f.mul(size[name], v.element) for name in ("ins", "outs")]
    last = f.sub(size["batch"], v.count)
    negative = f.emit(f"icmp slt i64 {last}, 0")
    last = f.emit(f"select i1 {negative}, i64 0, i64 {last}")
    with f.loop("%start", "%stop") as g:
        row = f.smaller(f.mul(g, v.count), last)
        at = f.at(d.source, f.mul(row, steps[0]))
        rest = f"i64 {size['batch']}, ptr {few}"
        f.line(
            f"call void {load}(ptr {at}, i64 {steps[0]}, ptr {spare[0]}, i64 {size['ins']}, {rest})"
        )
        if real == "from":
            name = _packing(d.module, v, True)
            f.line(
                f"call void {name}(ptr {spare[0]}, ptr {spare[1]}, i64 {size['n']},"
                f" ptr {d.at('halves')})"
            )
            result = d.within(spare[::-1], 0)
        else:
            result = d.within(spare, size["flip"])
        if real == "to":
            name = _packing(d.module, v, False)
            same = f.emit(f"icmp eq ptr {result}, {spare[0]}")
            other = f.emit(f"select i1 {same}, ptr {spare[1]}, ptr {spare[0]}")
            table = d.at("halves")
            f.line(f"call void {name}(ptr {result}, ptr {other}, i64 {size['n']}, ptr {table})")
            result = other
        to = f.at(d.target, f.mul(row, steps[1]))
        f.line(
            f"call void {store}(ptr {to}, i64 {steps[1]}, ptr {result}, i64 {size['outs']}, {rest})"
        )
    return d.text()


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
        if back:
            first, second = join(v, f, a, b, [wr, v.neg(f, wi)])
            first, second = conjugate(v, f, second), conjugate(v, f, first)
            first, second = swapped(first, True), swapped(second, True)
        else:
            first, second = (scaled(v, f, x, 0.5) for x in join(v, f, a, b, [wr, wi]))
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


def join(v: Lanes, f: Function, a: Complex, b: Complex, w: list[str]) -> tuple[Complex, Complex]:
    """a + b* - i w (a - b*) and the conjugate of a + b* + i w (a - b*)."""
    even = Complex(v.op(f, "fadd", a.re, b.re), v.op(f, "fsub", a.im, b.im))
    odd = Complex(v.op(f, "fsub", a.re, b.re), v.op(f, "fadd", a.im, b.im))
    odd = v.times(f, odd, *w)._replace(turns=1)
    first, second = v.add(f, even, odd), v.sub(f, even, odd)
    return first, Complex(second.re, v.neg(f, second.im))


def conjugate(v: Lanes, f: Function, x: Complex) -> Complex:
    return Complex(x.re, v.neg(f, x.im))


# --- lanes are columns ----------------------------------------------------------------------------


@lru(16)
def columns_text(itemsize: int, bits: int) -> str:
    """Transforms along the middle axis of three; lanes are neighbours along the last one."""
    v = Lanes(itemsize, bits)
    d = Driver(v, "n inner groups count sign scale turn")
    f, size = d.f, d.size
    spare = d.memory(size["n"])
    step = f.mul(size["inner"], v.element)
    with f.loop("%start", "%stop") as g:
        lane = f.smaller(f.mul(f.rem(g, size["groups"]), v.count), f.sub(size["inner"], v.count))
        offset = f.mul(f.div(g, size["groups"]), f.mul(size["n"], step))
        offset = f.add(offset, f.mul(lane, v.element))
        ends = [(f.at(place, offset), step, 0) for place in (d.source, d.target)]
        d.passes(ends[0], ends[1], spare, (size["sign"], size["scale"], size["turn"]))
    return d.text()


@lru(16)
def gathered_text(itemsize: int, bits: int) -> str:
    """The same where the last axis is shorter than a vector: lanes are any of the transforms."""
    v = Lanes(itemsize, bits)
    d = Driver(v, "n inner total count flip scale")
    f, size = d.f, d.size
    places = f.local(8 * v.count)
    spare = d.memory(size["n"])
    step = f.mul(size["inner"], v.element)
    find = _finding(d.module, v)
    moves = [_gathering(d.module, v, name) for name in ("load", "store")]
    with f.loop("%start", "%stop") as g:
        f.line(
            f"call void {find}(ptr {places}, i64 {f.mul(g, v.count)}, i64 {size['inner']},"
            f" i64 {f.mul(size['n'], step)}, i64 {f.sub(size['total'], 1)})"
        )
        rest = f"ptr {places}, i64 {size['n']}, i64 {step}"
        f.line(f"call void {moves[0]}(ptr {d.source}, ptr {spare[0]}, {rest})")
        result = d.within(spare, size["flip"])
        f.line(f"call void {moves[1]}(ptr {d.target}, ptr {result}, {rest})")
    return d.text()


def move(v: Lanes, f: Function, at: str, step: int, to: str, stride: int) -> None:
    """Copy a complex number; its parts lie ``step`` bytes apart here, ``stride`` there."""
    for i in (0, 1):
        value = f.load(v.base, f.at(at, i * step), v.itemsize)
        f.store(v.base, value, f.at(to, i * stride), v.itemsize)


def _finding(module: Module, v: Lanes) -> str:
    """Where the transforms of all lanes begin, as bytes: the last serves lanes that have none."""
    parameters = "ptr %places, i64 %first, i64 %inner, i64 %size, i64 %last"
    f = Function(module, "find", parameters)
    column = f.rem("%first", "%inner")
    begin = f.add(f.mul(f.div("%first", "%inner"), "%size"), f.mul(column, v.element))
    # from the last column of an array to the first of the next one
    jump = f.sub("%size", f.mul(f.sub("%inner", 1), v.element))

    def step(lane: str, held: list[str]) -> list[str]:
        offset, column, index = held
        f.store("i64", offset, f.at("%places", f.mul(lane, 8)), 8)
        after = f.add(column, 1)
        full = f.emit(f"icmp eq i64 {after}, %inner")
        more = f.emit(f"icmp slt i64 {index}, %last")
        ahead = f.emit(f"select i1 {full}, i64 {jump}, i64 {v.element}")
        ahead = f.emit(f"select i1 {more}, i64 {ahead}, i64 0")
        after = f.emit(f"select i1 {full}, i64 0, i64 {after}")
        return [str(f.add(offset, ahead)), after, str(f.add(index, 1))]

    f.fold(v.count, "i64", [str(begin), str(column), "%first"], step)
    return f.close()


def _gathering(module: Module, v: Lanes, name: str) -> str:
    """Elements at any places, one for each lane, moved into split memory, or back."""
    parameters = "ptr %array, ptr %split, ptr %places, i64 %n, i64 %step"
    f = Function(module, name, parameters)
    with f.loop(0, "%n") as row, f.loop(0, v.count) as lane:
        offset = f.load("i64", f.at("%places", f.mul(lane, 8)), 8)
        at = f.at(f.at("%array", offset), f.mul(row, "%step"))
        to = f.at("%split", f.add(f.mul(row, v.row), f.mul(lane, v.itemsize)))
        if name == "load":
            move(v, f, at, v.itemsize, to, v.bytes)
        else:
            move(v, f, to, v.bytes, at, v.itemsize)
    return f.close()


# --- long transforms ------------------------------------------------------------------------------


@lru(16)
def first_half_text(itemsize: int, bits: int) -> str:
    """Transforms of length n1 over the columns of rows of length n2, times w ** (j2 k1)."""
    v = Lanes(itemsize, bits)
    d = Driver(v, "n1 n2 groups blocks count sign twist", 2)
    f, size = d.f, d.size
    lanes, firsts = (f.pointer(TABLE + i) for i in (1, 2))
    n1, n2 = size["n1"], size["n2"]
    spare = d.memory(n1)
    turn = _turning(d.module, v)
    step = f.mul(n2, v.element)
    odd = f.emit(f"trunc i64 {size['count']} to i1")
    held = f.emit(f"select i1 {odd}, ptr {spare[0]}, ptr {spare[1]}")
    one = str(bits_of(1.0))
    with f.loop("%start", "%stop") as g:
        group, outer = f.rem(g, size["groups"]), f.div(g, size["groups"])
        lane = f.smaller(f.mul(group, v.count), f.sub(n2, v.count))
        offset = f.add(f.mul(outer, f.mul(n1, step)), f.mul(lane, v.element))
        # the last pass writes where its turn would be, which is not what it reads
        source, target = (f.at(d.source, offset), step, 0), (held, v.row, v.bytes)
        mine = f.at(firsts, f.mul(group, f.mul(n1, v.element)))
        d.passes(source, target, spare, (size["sign"], one, one), (lanes, mine))
        begin = f.add(f.mul(outer, f.mul(size["blocks"], n2)), lane)
        to = f.at(d.target, f.mul(begin, v.row))
        f.line(
            f"call void {turn}(ptr {held}, ptr {lanes}, ptr {mine}, i64 {n1}, ptr {to},"
            f" i64 {f.mul(n2, v.row)}, i64 {size['twist']})"
        )
    return d.text()


def _turning(module: Module, v: Lanes) -> str:
    """Split rows transposed, a block of as many rows as there are lanes at a time, ``down`` bytes
    apart; with ``twist`` times the factors of their lanes and that of their first lane before."""
    f = Function(
        module,
        "turn",
        "ptr %rows, ptr %lanes, ptr %firsts, i64 %n, ptr %target, i64 %down, i64 %twist",
    )
    twisted = f.emit("icmp ne i64 %twist, 0")

    def twist(k: Number) -> None:
        at = f.at("%rows", f.mul(k, v.row))
        w = v.load_split(f, f.at("%lanes", f.mul(k, v.row)))
        w = v.times(f, w, *v.both_everywhere(f, f.at("%firsts", f.mul(k, v.element))))
        v.store_split(f, at, v.times(f, v.load_split(f, at), w.re, w.im))

    def turn(first: Number, block: Number) -> None:
        at, to = f.at("%rows", f.mul(first, v.row)), f.at("%target", f.mul(block, "%down"))
        for part in (0, v.bytes):
            squares(f, v, (f.at(at, part), v.row, 0), (f.at(to, part), v.row, 0), 1)

    whole = f.div("%n", v.count)
    with f.loop(0, whole) as block:
        first = f.mul(block, v.count)
        with f.when(twisted), f.loop(0, v.count) as i:
            twist(f.add(first, i))
        turn(first, block)
    done = f.mul(whole, v.count)
    with f.when(f.emit(f"icmp ne i64 {done}, %n")):
        with f.when(twisted), f.loop(done, "%n") as k:
            twist(k)
        turn(f.sub("%n", v.count), whole)  # the last block begins early, so as to be whole
    return f.close()


@lru(16)
def second_half_text(itemsize: int, bits: int) -> str:
    """Transforms of length n2 over the blocks that the first half made, to k1 + n1 k2."""
    v = Lanes(itemsize, bits)
    d = Driver(v, "n1 n2 blocks count scale turn")
    f, size = d.f, d.size
    n1, n2 = size["n1"], size["n2"]
    spare = d.memory(n2)
    step = f.mul(n1, v.element)
    with f.loop("%start", "%stop") as g:
        lane = f.smaller(f.mul(f.rem(g, size["blocks"]), v.count), f.sub(n1, v.count))
        offset = f.mul(f.div(g, size["blocks"]), f.mul(n2, step))
        offset = f.add(offset, f.mul(lane, v.element))
        at = f.at(d.source, f.mul(g, f.mul(n2, v.row)))
        source, target = (at, v.row, v.bytes), (f.at(d.target, offset), step, 0)
        d.passes(source, target, spare, (str(bits_of(1.0)), size["scale"], size["turn"]))
    return d.text()


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


class Roots:
    """exp(-2 pi i t / n) in double precision by two short tables, for t known when run."""

    def __init__(self, f: Function, low: str, high: str, shift: Number) -> None:
        self.f = f
        self.low, self.high, self.shift = low, high, shift
        self.mask = f.sub(f.emit(f"shl i64 1, {shift}"), 1)

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
