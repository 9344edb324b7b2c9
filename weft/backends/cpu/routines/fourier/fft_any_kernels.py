"""Kernels of Fourier transforms without numbers in them: these are in a table they are given.

They do what those of ``fft_kernels`` and ``fft_moves`` do. Buffers are the source, the target, an
array with all factors, the table, and at the end functions that all share: one that calls passes,
and the passes.
"""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.fourier.fft_any_text import STRAIGHT, WORDS, pass_text
from weft.backends.cpu.routines.fourier.fft_kernels import (
    MOVE,
    NAME,
    conjugate,
    join,
    move,
    real_ends,
    root_tables,
)
from weft.backends.cpu.routines.fourier.fft_text import Lanes, interleaved, roots, scaled, swapped
from weft.backends.cpu.routines.squares import squares
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.cpu.sizes import read_sizes
from weft.base.functional import lru
from weft.kernel.program import Place

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
        self.codes: list[int] = []
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

    def passes(self, n: int, radices: tuple[int, ...]) -> int:
        """Add the passes of a transform; how many."""
        s, m = 1, n
        for radix in radices:
            m //= radix
            code = radix if radix in STRAIGHT else 0
            if code not in self.codes:
                self.codes.append(code)
            factors, table = -1, 0
            if m > 1:
                powers = np.arange(m)[:, None] * np.arange(1, radix)
                factors = self.complex(roots(powers, m * radix))
            if not code:
                j = np.arange(1, radix // 2 + 1)
                table = self.complex(roots(j[:, None] * j, radix).conj())
            self.steps += (self.codes.index(code), radix, m, s, factors, table)
            s *= radix
        return len(radices)

    def places(self, numbers: list[int]) -> list[Place]:
        """What a kernel is given after its source and its target."""
        bits = 8 * self.v.bytes
        texts = [pass_text(self.v.itemsize, bits, code) for code in self.codes]
        codes = [Place("code", code) for code in (calls_text(self.v.itemsize, bits), *texts)]
        return [self.data(), Place("numbers", (*numbers, *self.steps)), *codes]

    def data(self) -> Place:
        """All arrays as one."""
        return Place("data", np.frombuffer(b"".join(self.arrays) or bytes(8), self.v.real))


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
    ) -> None:
        """All passes; source and target with the words of a pass, the first spare is written first.

        ``scale`` has the words for what is read and what is written.
        """
        ends = [f"ptr {a}, i64 {b}, i64 {c}" for a, b, c in (source, target)]
        self.f.line(
            f"call void {self.calls}(ptr {self.codes}, ptr {self.steps}, i64 {self.size['count']},"
            f" ptr {self.data}, {', '.join(ends)}, ptr {spare[0]}, ptr {spare[1]},"
            f" i64 {scale[0]}, i64 {scale[1]}, i64 {scale[2]})"
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
    scale = "i64 %sign, i64 %scale, i64 %turn"
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
        pointers = {"source": here, "target": there, "factors": found}
        pointers["table"] = f.at("%data", table)
        for place, word in enumerate(WORDS):
            kind, value = ("ptr", pointers[word]) if word in pointers else ("i64", words[word])
            f.store(kind, value, f.at(call, 8 * place), 8)
        spot = f.emit(f"getelementptr ptr, ptr %codes, i64 {code}")
        f.line(f"call void {f.load('ptr', spot, 8)}(ptr {call})")
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

    ``fft_kernels`` says how.
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
    d = Driver(v, "n1 n2 groups blocks count sign", 2)
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
        d.passes(source, target, spare, (size["sign"], one, one))
        mine = f.at(firsts, f.mul(group, f.mul(n1, v.element)))
        begin = f.add(f.mul(outer, f.mul(size["blocks"], n2)), lane)
        to = f.at(d.target, f.mul(begin, v.row))
        f.line(
            f"call void {turn}(ptr {held}, ptr {lanes}, ptr {mine}, i64 {n1}, ptr {to},"
            f" i64 {f.mul(n2, v.row)})"
        )
    return d.text()


def _turning(module: Module, v: Lanes) -> str:
    """Split rows times the factors of their lanes and that of their first lane, in place; then
    transposed, a block of as many rows as there are lanes at a time, ``down`` bytes apart."""
    f = Function(
        module, "turn", "ptr %rows, ptr %lanes, ptr %firsts, i64 %n, ptr %target, i64 %down"
    )

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
        with f.loop(0, v.count) as i:
            twist(f.add(first, i))
        turn(first, block)
    done = f.mul(whole, v.count)
    with f.when(f.emit(f"icmp ne i64 {done}, %n")):
        with f.loop(done, "%n") as k:
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
