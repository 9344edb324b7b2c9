"""Short Fourier transforms as straight code on vectors, and the passes built of them.

A vector holds one element of as many transforms as it has lanes. Complex values are two vectors;
in memory they lie as a vector of real parts and one of imaginary parts ("split"), or as NumPy has
them, real and imaginary parts in turn ("pairs").
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from weft.backends.cpu.routines.writer import Function, Module, Number
from weft.base.functional import lru
from weft.base.record import Record


class Complex(Record):
    """A value still to be multiplied by (-i) ** turns, which costs nothing in a later sum."""

    re: str
    im: str
    turns: int = 0


class Lanes:
    """Vectors of one kind of float, and what is done with them."""

    def __init__(self, itemsize: int, bits: int) -> None:
        self.itemsize = itemsize
        self.base = "float" if itemsize == 4 else "double"
        self.count = max(2, bits // (8 * itemsize))
        self.kind = f"<{self.count} x {self.base}>"
        self.bytes = self.count * itemsize
        self.row = 2 * self.bytes  # one element of every lane, complex
        self.element = 2 * itemsize
        self.suffix = f"v{self.count}f{8 * itemsize}"
        self.real = np.dtype(f"f{itemsize}")

    def literal(self, number: float) -> str:
        """A number as LLVM writes it: the bits of a double, also for floats."""
        value = float(self.real.type(number))
        return f"0x{np.float64(value).view(np.uint64):016X}"

    def splat(self, number: float) -> str:
        return f"splat ({self.base} {self.literal(number)})"

    # --- arithmetic -------------------------------------------------------------------------------

    def op(self, f: Function, name: str, a: str, b: str) -> str:
        return f.emit(f"{name} {self.kind} {a}, {b}")

    def fma(self, f: Function, a: str, b: str, c: str) -> str:
        kind = self.kind
        name = f.declare(f"llvm.fmuladd.{self.suffix}", kind, f"{kind}, {kind}, {kind}")
        return f.emit(f"call {kind} {name}({kind} {a}, {kind} {b}, {kind} {c})")

    def neg(self, f: Function, a: str) -> str:
        return f.emit(f"fneg {self.kind} {a}")

    def add(self, f: Function, x: Complex, y: Complex) -> Complex:
        turns = (y.turns - x.turns) % 4
        im, re = (y.re, y.im) if turns % 2 else (y.im, y.re)
        first = "fsub" if turns in (2, 3) else "fadd"
        second = "fsub" if turns in (1, 2) else "fadd"
        return Complex(self.op(f, first, x.re, re), self.op(f, second, x.im, im), x.turns)

    def sub(self, f: Function, x: Complex, y: Complex) -> Complex:
        return self.add(f, x, y._replace(turns=y.turns + 2))

    def settle(self, f: Function, x: Complex) -> Complex:
        """The value with its turns made."""
        turns = x.turns % 4
        re, im = (x.im, x.re) if turns % 2 else (x.re, x.im)
        if turns in (2, 3):
            re = self.neg(f, re)
        if turns in (1, 2):
            im = self.neg(f, im)
        return Complex(re, im)

    def times(self, f: Function, x: Complex, wr: str, wi: str) -> Complex:
        """A product with a factor given as vectors."""
        x = self.settle(f, x)
        re = self.fma(f, x.re, wr, self.neg(f, self.op(f, "fmul", x.im, wi)))
        im = self.fma(f, x.re, wi, self.op(f, "fmul", x.im, wr))
        return Complex(re, im)

    def rotated(self, f: Function, x: Complex, k: int, n: int) -> Complex:
        """A product with exp(-2 pi i k / n), k and n known."""
        k %= n
        if 4 * k % n == 0:
            return x._replace(turns=x.turns + 4 * k // n)
        if 8 * k % n == 0:  # an odd number of eighths of a turn
            x = x._replace(turns=x.turns + (8 * k // n) // 2)
            half = self.splat(math.sqrt(0.5))
            re, im = self.op(f, "fadd", x.re, x.im), self.op(f, "fsub", x.im, x.re)
            return Complex(self.op(f, "fmul", re, half), self.op(f, "fmul", im, half), x.turns)
        turns, k = divmod(4 * k, n)
        angle = 2 * math.pi * k / (4 * n)
        wr, wi = self.splat(math.cos(angle)), self.splat(-math.sin(angle))
        x = self.times(f, x._replace(turns=0), wr, wi)._replace(turns=x.turns)
        return x._replace(turns=x.turns + turns)

    # --- memory -----------------------------------------------------------------------------------

    def shuffle(self, f: Function, a: str, b: str, picks: list[int]) -> str:
        mask = ", ".join(f"i32 {i}" for i in picks)
        kind = self.kind
        return f.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(picks)} x i32> <{mask}>")

    def apart(self, f: Function, a: str, b: str) -> Complex:
        """Real and imaginary parts of two vectors of pairs."""
        even, odd = (list(range(i, 2 * self.count, 2)) for i in (0, 1))
        return Complex(self.shuffle(f, a, b, even), self.shuffle(f, a, b, odd))

    def together(self, f: Function, x: Complex) -> tuple[str, str]:
        """Two vectors of pairs."""
        n = self.count
        picks = [i + part for i in range(n) for part in (0, n)]
        low, high = picks[:n], picks[n:]
        return self.shuffle(f, x.re, x.im, low), self.shuffle(f, x.re, x.im, high)

    def load_split(self, f: Function, at: str) -> Complex:
        align = self.itemsize
        second = f.at(at, self.bytes)
        return Complex(f.load(self.kind, at, align), f.load(self.kind, second, align))

    def store_split(self, f: Function, at: str, x: Complex) -> None:
        x = self.settle(f, x)
        f.store(self.kind, x.re, at, self.itemsize)
        f.store(self.kind, x.im, f.at(at, self.bytes), self.itemsize)

    def load_pairs(self, f: Function, at: str) -> Complex:
        second = f.at(at, self.bytes)
        align = self.itemsize
        vectors = f.load(self.kind, at, align), f.load(self.kind, second, align)
        return self.apart(f, *vectors)

    def store_pairs(self, f: Function, at: str, x: Complex) -> None:
        low, high = self.together(f, self.settle(f, x))
        f.store(self.kind, low, at, self.itemsize)
        f.store(self.kind, high, f.at(at, self.bytes), self.itemsize)

    def both_everywhere(self, f: Function, at: str) -> tuple[str, str]:
        """The two parts of the complex number at a place, in every lane."""
        re, im = (f.load(self.base, f.at(at, i), self.itemsize) for i in (0, self.itemsize))
        return self.fill(f, re), self.fill(f, im)

    def fill(self, f: Function, one: str) -> str:
        kind = self.kind
        first = f.emit(f"insertelement {kind} poison, {self.base} {one}, i64 0")
        zeros = f"<{self.count} x i32> zeroinitializer"
        return f.emit(f"shufflevector {kind} {first}, {kind} poison, {zeros}")


# --- transforms of few elements -------------------------------------------------------------------


def transform(v: Lanes, f: Function, xs: list[Complex]) -> list[Complex]:
    """The discrete Fourier transform of a few values."""
    n = len(xs)
    if n == 1:
        return xs
    if n == 2:
        return [v.add(f, *xs), v.sub(f, *xs)]
    first = _first_factor(n)
    if first == n:
        return _prime(v, f, xs)
    # n = a b: transforms of length a, factors, transforms of length b (Cooley and Tukey 1965).
    a, b = first, n // first
    columns = []
    for j in range(b):
        column = transform(v, f, xs[j::b])
        columns.append([v.rotated(f, x, j * k, n) for k, x in enumerate(column)])
    rows = [transform(v, f, [column[k] for column in columns]) for k in range(a)]
    return [rows[k % a][k // a] for k in range(n)]


def _first_factor(n: int) -> int:
    if n % 4 == 0 and n > 4:
        return 4
    return next(p for p in range(2, n + 1) if n % p == 0)


def _prime(v: Lanes, f: Function, xs: list[Complex]) -> list[Complex]:
    """Sums and differences of opposite elements halve the work of an odd length."""
    n = len(xs)
    xs = [v.settle(f, x) for x in xs]
    half = range(1, (n + 1) // 2)
    plus = [v.add(f, xs[k], xs[n - k]) for k in half]
    minus = [v.sub(f, xs[k], xs[n - k]) for k in half]
    total = xs[0]
    for x in plus:
        total = v.add(f, total, x)
    results = [total] * n
    for j in half:
        even, odd = xs[0], None
        for k, p, m in zip(half, plus, minus, strict=True):
            angle = 2 * math.pi * (j * k % n) / n
            cos, sin = v.splat(math.cos(angle)), v.splat(math.sin(angle))
            even = Complex(v.fma(f, p.re, cos, even.re), v.fma(f, p.im, cos, even.im))
            if odd is None:
                odd = Complex(v.op(f, "fmul", m.re, sin), v.op(f, "fmul", m.im, sin))
            else:
                odd = Complex(v.fma(f, m.re, sin, odd.re), v.fma(f, m.im, sin, odd.im))
        assert odd is not None
        results[j] = v.add(f, even, odd._replace(turns=1))
        results[n - j] = v.add(f, even, odd._replace(turns=3))
    return results


# --- passes ---------------------------------------------------------------------------------------

# What a pass receives beside pointers. ``ss`` and ``ts`` are the bytes from an element to the next;
# the others are not 0 where elements lie as pairs, and where parts are to be swapped when read. A
# ``scale`` that is not 0 is that of an inverse transform, which also swaps what it writes.
NUMBERS = "ss ts pairs_in pairs_out swap scale".split()
# ``step`` has words of a table. Without ``factors`` a pass is the last. ``lane`` and ``group`` are
# more factors for what that writes, if any.
POINTERS = "step source target factors table lane group".split()
# Words of the table for a pass: the number of its function, its radix, the products of the radices
# to come and of those before, and where its factors and its table of cosines are.
STEP = 6
# Radices with straight code; the longest that has none.
STRAIGHT, LONGEST = (2, 3, 4, 5, 6, 7, 8, 9, 10), 97


def swapped(x: Complex, swap: bool) -> Complex:
    return Complex(x.im, x.re) if swap else x


def scaled(v: Lanes, f: Function, x: Complex, scale: float) -> Complex:
    if scale == 1:
        return x
    factor = v.splat(scale)
    return Complex(v.op(f, "fmul", x.re, factor), v.op(f, "fmul", x.im, factor), x.turns)


def number(v: Lanes, f: Function, word: Number) -> str:
    """A double's bits as a number in all lanes."""
    value = f.emit(f"bitcast i64 {word} to double")
    if v.itemsize == 4:
        value = f.emit(f"fptrunc double {value} to float")
    return v.fill(f, value)


class Strides:
    """Places in memory a number of bytes apart, which is known when run."""

    def __init__(self, f: Function, step: Number) -> None:
        self.f, self.step = f, step
        self.spots: list[str] = []

    def begin(self, at: str) -> None:
        """Let the first one be here."""
        self.spots = [self.f.opaque(at)]

    def at(self, k: Number) -> str:
        """The place of a number; one that is not known yet is found from the one before."""
        if isinstance(k, str):
            return self.f.at(self.spots[0], self.f.mul(self.step, k))
        while len(self.spots) <= k:
            self.spots.append(self.f.at(self.spots[-1], self.step))
        return self.spots[k]


class Pass:
    """A pass of Stockham's transform while it is written.

    Element q + s (p + m k) of the source, for k below the radix, becomes after a transform over k
    and a product with w ** (p j) element q + s (radix p + j) of the target; s is the product of
    the radices before, m of those to come. Nothing is left in another order at the end.
    """

    def __init__(self, v: Lanes, module: Module, name: str, radix: int) -> None:
        """Of some radix, or of any odd prime one if that is 0."""
        self.v = v
        parameters = [f"ptr noalias %{name}" for name in POINTERS]
        parameters += [f"i64 %{name}" for name in NUMBERS]
        self.f = f = Function(module, name, ", ".join(parameters), False)
        own, self.m, self.s = (f.load("i64", f.at("%step", 8 * i), 8) for i in (1, 2, 3))
        self.radix: Number = radix or own
        self.pairs_in, self.pairs_out, self.swap, self.scaled = (
            f.emit(f"icmp ne i64 %{name}, 0") for name in NUMBERS[2:]
        )
        self.last = f.emit("icmp eq ptr %factors, null")
        self.twiddled = f.emit("icmp ne ptr %lane, null")
        self.scale = number(v, f, "%scale")
        # where real and imaginary parts are that are not pairs
        self.parts = [
            f.emit(f"select i1 {self.swap}, i64 {v.bytes - part}, i64 {part}")
            for part in (0, v.bytes)
        ]
        self.read = Strides(f, f.mul(f.mul(self.m, self.s), "%ss"))
        self.written = Strides(f, f.mul(self.s, "%ts"))
        self.lanes = Strides(f, f.mul(self.s, v.row))
        self.groups = Strides(f, f.mul(self.s, v.element))

    @contextmanager
    def rounds(self) -> Iterator[str]:
        """A loop over all transforms, of which s have the same factors: where these are."""
        f, v = self.f, self.v
        size = f.mul(f.sub(self.radix, 1), v.element)
        jump = f.mul(f.mul(f.sub(self.radix, 1), self.s), "%ts")
        begun: list[tuple[str, Number]] = [("i64", 0)]
        begun += [("ptr", pointer) for pointer in ("%source", "%target", "%factors")]
        with f.carried(0, f.mul(self.m, self.s), begun) as (self.row, held, after):
            q, source, target, factors = held
            self.read.begin(source)
            self.written.begin(target)
            yield f.opaque(factors)
            done = f.add(q, 1)
            full = f.emit(f"icmp eq i64 {done}, {self.s}")
            far, more = (f.emit(f"select i1 {full}, i64 {n}, i64 0") for n in (jump, size))
            after[0] = f.emit(f"select i1 {full}, i64 0, i64 {done}")
            after[1], after[3] = f.at(source, "%ss"), f.at(factors, more)
            after[2] = f.at(f.at(target, "%ts"), far)

    # --- elements ---------------------------------------------------------------------------------

    def load(self, at: list[str]) -> list[Complex]:
        """Elements at some places."""
        v, f = self.v, self.f

        def pairs() -> list[str]:
            # of other places, as LLVM sees it, so that it does not choose number by number
            return f.either(
                self.swap,
                v.kind,
                lambda: [x for spot in at for x in v.load_pairs(f, f.opaque(spot))[1::-1]],
                lambda: [x for spot in at for x in v.load_pairs(f, spot)[:2]],
            )

        def split() -> list[str]:
            spots = [f.at(spot, part) for spot in at for part in self.parts]
            return [f.load(v.kind, spot, v.itemsize) for spot in spots]

        found = f.either(self.pairs_in, v.kind, pairs, split)
        return [Complex(*z) for z in zip(found[::2], found[1::2], strict=True)]

    def store(self, factors: str, results: list[tuple[Number, Complex]]) -> None:
        """Elements by their numbers."""
        v, f = self.v, self.f
        results = [(j, v.settle(f, y)) for j, y in results]
        places = [self.written.at(j) for j, _ in results]
        with f.unless(self.last):
            for at, (j, y) in zip(places, results, strict=True):
                if j != 0:
                    spot = f.at(factors, f.mul(f.sub(j, 1), v.element))
                    y = v.times(f, y, *v.both_everywhere(f, spot))
                v.store_split(f, at, y)
        with f.when(self.last):
            self.end(places, results)

    def end(self, places: list[str], results: list[tuple[Number, Complex]]) -> None:
        """Elements as the last pass writes them."""
        v, f = self.v, self.f

        def as_is() -> list[str]:
            return [x for _, y in results for x in y[:2]]

        def twiddled() -> list[str]:
            self.lanes.begin(f.at("%lane", f.mul(self.row, v.row)))
            self.groups.begin(f.at("%group", f.mul(self.row, v.element)))
            found = []
            for j, y in results:
                group = v.both_everywhere(f, self.groups.at(j))
                w = v.times(f, v.load_split(f, self.lanes.at(j)), *group)
                found += v.times(f, y, w.re, w.im)[:2]
            return found

        def scaled() -> list[str]:
            return [v.op(f, "fmul", x, self.scale) for _, y in results for x in (y.im, y.re)]

        def unscaled() -> list[str]:
            return f.either(self.twiddled, v.kind, twiddled, as_is)

        parts = f.either(self.scaled, v.kind, scaled, unscaled)
        done = [Complex(*y) for y in zip(parts[::2], parts[1::2], strict=True)]
        with f.when(self.pairs_out):
            for at, y in zip(places, done, strict=True):
                v.store_pairs(f, at, y)
        with f.unless(self.pairs_out):
            for at, y in zip(places, done, strict=True):
                v.store_split(f, at, y)

    # --- transforms -------------------------------------------------------------------------------

    def straight(self, radix: int) -> None:
        """Transforms of a length that is known."""
        v, f = self.v, self.f
        with self.rounds() as factors:
            xs = self.load([self.read.at(k) for k in range(radix)])
            self.store(factors, list(enumerate(transform(v, f, xs))))

    def looped(self) -> None:
        """Transforms of an odd prime length, as products with a table of cosines and sines."""
        v, f = self.v, self.f
        half = f.emit(f"lshr i64 {self.radix}, 1")
        plus, minus = f.local(LONGEST // 2 * v.row), f.local(LONGEST // 2 * v.row)
        with self.rounds() as factors:
            (first,) = self.load([self.read.at(0)])

            def gather(i: str, held: list[str]) -> list[str]:
                k = f.add(i, 1)
                a, b = self.load([self.read.at(k), self.read.at(f.sub(self.radix, k))])
                total = v.add(f, a, b)
                v.store_split(f, f.at(plus, f.mul(i, v.row)), total)
                v.store_split(f, f.at(minus, f.mul(i, v.row)), v.sub(f, a, b))
                return [v.op(f, "fadd", h, x) for h, x in zip(held, total[:2], strict=True)]

            total = f.fold(half, v.kind, [first.re, first.im], gather)
            self.store(factors, [(0, Complex(*total))])
            with f.loop(0, half, 2) as i:
                pair = f.smaller(i, f.sub(half, 2))  # the last pair may overlap the one before
                self.two(half, pair, first, plus, minus, factors)

    def two(
        self, half: str, pair: Number, first: Complex, plus: str, minus: str, factors: str
    ) -> None:
        """Two results and their opposites, from sums and differences of opposite elements."""
        v, f = self.v, self.f
        spots = [f.at("%table", f.mul(f.mul(f.add(pair, c), half), v.element)) for c in (0, 1)]

        def terms(k: str, held: list[str]) -> list[str]:
            even = v.load_split(f, f.at(plus, f.mul(k, v.row)))
            odd = v.load_split(f, f.at(minus, f.mul(k, v.row)))
            found = []
            for c, spot in enumerate(spots):
                cos, sin = v.both_everywhere(f, f.at(spot, f.mul(k, v.element)))
                parts = ((even.re, cos), (even.im, cos), (odd.re, sin), (odd.im, sin))
                old = held[4 * c : 4 * c + 4]
                found += [v.fma(f, x, w, h) for (x, w), h in zip(parts, old, strict=True)]
            return found

        zero = "zeroinitializer"
        sums = f.fold(half, v.kind, [first.re, first.im, zero, zero] * 2, terms)
        for c in (0, 1):
            even, odd = Complex(*sums[4 * c : 4 * c + 2]), Complex(*sums[4 * c + 2 : 4 * c + 4], 1)
            j = f.add(pair, c + 1)
            opposite = f.sub(self.radix, j)
            self.store(factors, [(j, v.add(f, even, odd)), (opposite, v.sub(f, even, odd))])


@lru(64)
def pass_text(itemsize: int, bits: int, radix: int) -> tuple[str, str]:
    """The text and the name of a pass of some radix, or of any odd prime one if that is 0."""
    module, name = Module(), f"pass{radix or '_any'}"
    writer = Pass(Lanes(itemsize, bits), module, name, radix)
    if radix:
        writer.straight(radix)
    else:
        writer.looped()
    writer.f.close()
    return module.text(), name


# --- numbers --------------------------------------------------------------------------------------


def roots(numerators: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i k / n) in double precision, from angles within an eighth of a turn."""
    k = numerators % n
    eighth, rest = np.divmod(8 * k, n)
    flip = eighth % 2 == 1
    angle = np.where(flip, n - rest, rest) * (math.pi / (4 * n))
    cos, sin = np.cos(angle), np.sin(angle)
    cos, sin = np.where(flip, sin, cos), np.where(flip, cos, sin)
    value = cos - 1j * sin
    return value * np.array([1, -1j, -1, 1j])[eighth // 2 % 4]


def interleaved(values: np.ndarray, real: np.dtype) -> np.ndarray:
    """Complex numbers as pairs of a narrower kind."""
    narrow = values.astype(np.complex64 if real.itemsize == 4 else np.complex128, order="C")
    return narrow.view(real).reshape(*values.shape, 2)
