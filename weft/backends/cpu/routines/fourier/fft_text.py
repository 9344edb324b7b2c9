"""Short Fourier transforms as straight code on vectors, and the passes built of them.

A vector holds one element of as many transforms as it has lanes. Complex values are two vectors;
in memory they lie as a vector of real parts and one of imaginary parts ("split"), or as NumPy has
them, real and imaginary parts in turn ("pairs").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

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

    def apart(self, f: Function, a: str, b: str, order: int = 1) -> Complex:
        """Real and imaginary parts of two vectors of pairs, in reversed order if that is -1."""
        n = self.count
        even, odd = (list(range(i, 2 * n, 2))[::order] for i in (0, 1))
        return Complex(self.shuffle(f, a, b, even), self.shuffle(f, a, b, odd))

    def together(self, f: Function, x: Complex, order: int = 1) -> tuple[str, str]:
        """Two vectors of pairs."""
        n = self.count
        picks = [i + part for i in range(n)[::order] for part in (0, n)]
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

    def load_pairs(self, f: Function, at: str, order: int = 1) -> Complex:
        second = f.at(at, self.bytes)
        align = self.itemsize
        vectors = f.load(self.kind, at, align), f.load(self.kind, second, align)
        return self.apart(f, *vectors, order)

    def store_pairs(self, f: Function, at: str, x: Complex, order: int = 1) -> None:
        low, high = self.together(f, self.settle(f, x), order)
        f.store(self.kind, low, at, self.itemsize)
        f.store(self.kind, high, f.at(at, self.bytes), self.itemsize)

    def everywhere(self, f: Function, at: str) -> str:
        """The number at a place, in every lane."""
        one = f.load(self.base, at, self.itemsize)
        return self.fill(f, one)

    def both_everywhere(self, f: Function, at: str) -> tuple[str, str]:
        """The two parts of the complex number at a place, in every lane."""
        return self.everywhere(f, at), self.everywhere(f, f.at(at, self.itemsize))

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


class Ends(Record):
    """How a pass reads and writes; an inverse transform swaps parts at both ends of the whole."""

    load: str = "split"  # or pairs
    store: str = "split"  # or pairs, or factors: multiplied by two tables
    swap_in: bool = False
    swap_out: bool = False
    scale: float = 1.0


def swapped(x: Complex, swap: bool) -> Complex:
    return Complex(x.im, x.re) if swap else x


def scaled(v: Lanes, f: Function, x: Complex, scale: float) -> Complex:
    if scale == 1:
        return x
    factor = v.splat(scale)
    return Complex(v.op(f, "fmul", x.re, factor), v.op(f, "fmul", x.im, factor), x.turns)


PARAMETERS = (
    "ptr noalias %source, i64 %ss, ptr noalias %target, i64 %ts, ptr %factors,"
    " i64 %m, i64 %s, ptr %lane, ptr %group"
)


# Transforms of a longer prime length are loops over tables, not straight code.
STRAIGHT = 16


def pass_function(v: Lanes, module: Module, radix: int, first: bool, last: bool, ends: Ends) -> str:
    """A pass of Stockham's transform as a function: made once for a radix and its ends.

    Element q + s (p + m k) of the source, for k below the radix, becomes after a transform over k
    and a product with w ** (p j) element q + s (radix p + j) of the target; s is the product of
    the radices before, m of those to come. Nothing is left in another order at the end.
    """
    name = f"pass{radix}{'_first' if first else ''}{'_last' if last else ''}"
    name += f"_{ends.load}_{ends.store}"
    name += f"{'_in' if ends.swap_in else ''}{'_out' if ends.swap_out else ''}"
    if name in module.functions:
        return f"@{name}"
    return _pass(Function(module, name, PARAMETERS), v, radix, first, last, ends)


@lru(64)
def inner_pass(itemsize: int, bits: int, radix: int) -> tuple[str, str]:
    """The text and the name of a pass that is not the last and reads and writes split rows.

    Most transforms have such a pass, so it has a module of its own, which they share.
    """
    module, name = Module(), f"pass{radix}"
    f = Function(module, name, PARAMETERS, False)
    _pass(f, Lanes(itemsize, bits), radix, False, False, Ends())
    return module.text(), name


def _pass(f: Function, v: Lanes, radix: int, first: bool, last: bool, ends: Ends) -> str:
    long = Long(v, f, radix) if radix > STRAIGHT else None
    # One of the loops has one round in the first pass, the other one in the last.
    m, s = 1 if last else "%m", 1 if first else "%s"
    read = Strides(f, f.mul(f.mul(m, s), "%ss"))
    written = Strides(f, f.mul(s, "%ts"))
    both = s if ends.store == "factors" else 0
    lanes, groups = Strides(f, f.mul(both, v.row)), Strides(f, f.mul(both, v.element))
    with nullcontext(0) if last else f.loop(0, m) as p:
        factors = "" if last else f.opaque(f.at("%factors", f.mul(p, (radix - 1) * v.element)))
        from_row = f.mul(p, s)
        with nullcontext(0) if first else f.loop(0, s) as q:
            row = f.add(f.mul(from_row, radix), q)
            read.begin(f.at("%source", f.mul(f.add(from_row, q), "%ss")))
            written.begin(f.at("%target", f.mul(row, "%ts")))
            if ends.store == "factors":
                lanes.begin(f.at("%lane", f.mul(row, v.row)))
                groups.begin(f.at("%group", f.mul(row, v.element)))

            def load(k: Number) -> Complex:
                at = read.at(k)
                x = v.load_split(f, at) if ends.load == "split" else v.load_pairs(f, at)
                return swapped(x, ends.swap_in)

            def store(j: Number, y: Complex, factors: str = factors) -> None:
                if not last and j != 0:
                    spot = f.at(factors, f.mul(f.sub(j, 1), v.element))
                    y = v.times(f, y, *v.both_everywhere(f, spot))
                if ends.store == "factors":
                    w = v.times(
                        f, v.load_split(f, lanes.at(j)), *v.both_everywhere(f, groups.at(j))
                    )
                    y = v.times(f, y, w.re, w.im)
                y = scaled(v, f, swapped(v.settle(f, y), ends.swap_out), ends.scale)
                (v.store_pairs if ends.store == "pairs" else v.store_split)(f, written.at(j), y)

            if long is not None:
                long.transform(load, store)
            else:
                for j, y in enumerate(transform(v, f, [load(k) for k in range(radix)])):
                    store(j, y)
    return f.close()


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


class Long:
    """A transform of an odd prime length as a product with tables of cosines and sines."""

    def __init__(self, v: Lanes, f: Function, n: int) -> None:
        self.v, self.f, self.n = v, f, n
        self.half = (n - 1) // 2
        j = np.arange(1, self.half + 1)
        values = roots(j[:, None] * j, n)
        self.table = f.module.constant(interleaved(values.conj(), v.real))
        self.plus, self.minus = f.local(self.half * v.row), f.local(self.half * v.row)

    def transform(
        self, load: Callable[[Number], Complex], store: Callable[[Number, Complex], None]
    ) -> None:
        """Sums and differences of opposite elements, then two results and their opposites."""
        v, f, half = self.v, self.f, self.half
        first = load(0)

        def gather(i: str, held: list[str]) -> list[str]:
            k = f.add(i, 1)
            a, b = load(k), load(f.sub(self.n, k))
            total = v.add(f, a, b)
            v.store_split(f, f.at(self.plus, f.mul(i, v.row)), total)
            v.store_split(f, f.at(self.minus, f.mul(i, v.row)), v.sub(f, a, b))
            return [v.op(f, "fadd", h, x) for h, x in zip(held, total[:2], strict=True)]

        store(0, Complex(*f.fold(half, v.kind, [first.re, first.im], gather)))
        with f.loop(0, half, 2) as i:
            pair = f.smaller(i, half - 2)  # the last pair may overlap the one before
            spots = [f.at(self.table, f.mul(f.add(pair, c), half * v.element)) for c in (0, 1)]
            zero = "zeroinitializer"
            begin = [first.re, first.im, zero, zero] * 2
            sums = f.fold(half, v.kind, begin, lambda k, held: self._terms(spots, k, held))
            for c in (0, 1):
                even = Complex(*sums[4 * c : 4 * c + 2])
                odd = Complex(*sums[4 * c + 2 : 4 * c + 4], 1)
                j = f.add(pair, c + 1)
                store(j, v.add(f, even, odd))
                store(f.sub(self.n, j), v.sub(f, even, odd))

    def _terms(self, spots: list[str], k: str, held: list[str]) -> list[str]:
        v, f = self.v, self.f
        plus = v.load_split(f, f.at(self.plus, f.mul(k, v.row)))
        minus = v.load_split(f, f.at(self.minus, f.mul(k, v.row)))
        results = []
        for c, spot in enumerate(spots):
            at = f.at(spot, f.mul(k, v.element))
            cos, sin = v.both_everywhere(f, at)
            parts = ((plus.re, cos), (plus.im, cos), (minus.re, sin), (minus.im, sin))
            old = held[4 * c : 4 * c + 4]
            results += [v.fma(f, x, w, h) for (x, w), h in zip(parts, old, strict=True)]
        return results


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


def pass_factors(n: int, radices: tuple[int, ...], real: np.dtype) -> list[np.ndarray]:
    """The factors of every pass: w ** (p j) for each p, and j from 1."""
    tables, current = [], n
    for r in radices:
        m = current // r
        powers = np.arange(m)[:, None] * np.arange(1, r)
        tables.append(interleaved(roots(powers, current), real))
        current = m
    return tables
