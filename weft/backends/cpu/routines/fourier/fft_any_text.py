"""Passes of Fourier transforms that are told all numbers when run: one text serves all lengths."""

from __future__ import annotations

from weft.backends.cpu.routines.fourier.fft_text import Complex, Lanes, Strides, transform
from weft.backends.cpu.routines.writer import Function, Module, Number
from weft.base.functional import lru

# What a pass is told, as words in a row. ``ss`` and ``ts`` are the bytes from an element to the
# next, ``si`` and ``ti`` those from its real to its imaginary parts: 0 where it lies as pairs.
# Without ``factors`` a pass is the last: what it writes is multiplied by ``scale`` and ``turn``,
# its real and its imaginary part. ``sign`` is for the imaginary parts of pairs that are read.
WORDS = ("source ss si target ts ti factors m s sign scale turn radix table").split()
# Radices with straight code; the longest that has none.
STRAIGHT, LONGEST = (2, 3, 4, 5, 7, 8, 10), 97


def number(v: Lanes, f: Function, word: str) -> str:
    """A double's bits as a number in all lanes."""
    value = f.emit(f"bitcast i64 {word} to double")
    if v.itemsize == 4:
        value = f.emit(f"fptrunc double {value} to float")
    return v.fill(f, value)


class Pass:
    """One pass of Stockham's transform while it is written; ``fft_text`` says what it does."""

    def __init__(self, v: Lanes, module: Module, name: str) -> None:
        self.v = v
        self.f = f = Function(module, name, "ptr %call", False)
        self.words = {word: self.word(i) for i, word in enumerate(WORDS)}
        self.source, self.target, self.factors, self.table = (
            f.emit(f"inttoptr i64 {self.words[word]} to ptr")
            for word in ("source", "target", "factors", "table")
        )
        self.m, self.s, self.radix = (self.words[word] for word in ("m", "s", "radix"))
        self.pairs_in, self.pairs_out, self.last = (
            f.emit(f"icmp eq i64 {self.words[word]}, 0") for word in ("si", "ti", "factors")
        )
        self.sign, self.scale, self.turn = (
            number(v, f, self.words[word]) for word in ("sign", "scale", "turn")
        )
        self.read = Strides(f, f.mul(f.mul(self.m, self.s), self.words["ss"]))
        self.written = Strides(f, f.mul(self.s, self.words["ts"]))

    def word(self, index: int) -> str:
        return self.f.load("i64", self.f.at("%call", 8 * index), 8)

    def begin(self, p: str, q: str) -> str:
        """Say which element of the source and of the target come first; where its factors are."""
        f = self.f
        from_row = f.mul(p, self.s)
        self.read.begin(f.at(self.source, f.mul(f.add(from_row, q), self.words["ss"])))
        row = f.add(f.mul(from_row, self.radix), q)
        self.written.begin(f.at(self.target, f.mul(row, self.words["ts"])))
        size = f.mul(f.sub(self.radix, 1), self.v.element)
        return f.opaque(f.at(self.factors, f.mul(p, size)))

    # --- elements ---------------------------------------------------------------------------------

    def load(self, at: list[str]) -> list[Complex]:
        """Elements at some places."""
        v, f = self.v, self.f

        def pairs() -> list[str]:
            found = [v.load_pairs(f, spot) for spot in at]
            return [x for z in found for x in (z.re, v.op(f, "fmul", z.im, self.sign))]

        def split() -> list[str]:
            spots = [s for spot in at for s in (spot, f.at(spot, self.words["si"]))]
            return [f.load(v.kind, spot, v.itemsize) for spot in spots]

        parts = f.either(self.pairs_in, v.kind, pairs, split)
        return [Complex(*z) for z in zip(parts[::2], parts[1::2], strict=True)]

    def store(self, factors: str, results: list[tuple[Number, Complex]]) -> None:
        """Elements by their numbers."""
        v, f = self.v, self.f
        results = [(j, v.settle(f, y)) for j, y in results]
        places = [self.written.at(j) for j, _ in results]

        def split(at: str, y: Complex) -> None:
            f.store(v.kind, y.re, at, v.itemsize)
            f.store(v.kind, y.im, f.at(at, self.words["ti"]), v.itemsize)

        more = f.emit(f"xor i1 {self.last}, true")
        with f.when(more):
            for at, (j, y) in zip(places, results, strict=True):
                if j != 0:
                    spot = f.at(factors, f.mul(f.sub(j, 1), v.element))
                    y = v.times(f, y, *v.both_everywhere(f, spot))
                split(at, y)
        with f.when(self.last):
            done = [
                Complex(v.op(f, "fmul", y.re, self.scale), v.op(f, "fmul", y.im, self.turn))
                for _, y in results
            ]
            with f.when(self.pairs_out):
                for at, y in zip(places, done, strict=True):
                    v.store_pairs(f, at, y)
            with f.when(f.emit(f"xor i1 {self.pairs_out}, true")):
                for at, y in zip(places, done, strict=True):
                    split(at, y)

    # --- transforms -------------------------------------------------------------------------------

    def straight(self, radix: int) -> None:
        """Transforms of a length that is known."""
        v, f = self.v, self.f
        with f.loop(0, self.m) as p, f.loop(0, self.s) as q:
            factors = self.begin(p, q)
            xs = self.load([self.read.at(k) for k in range(radix)])
            self.store(factors, list(enumerate(transform(v, f, xs))))

    def looped(self) -> None:
        """Transforms of an odd prime length, as products with a table of cosines and sines."""
        v, f = self.v, self.f
        half = f.emit(f"lshr i64 {self.radix}, 1")
        plus, minus = f.local(LONGEST // 2 * v.row), f.local(LONGEST // 2 * v.row)
        with f.loop(0, self.m) as p, f.loop(0, self.s) as q:
            factors = self.begin(p, q)
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
        spots = [f.at(self.table, f.mul(f.mul(f.add(pair, c), half), v.element)) for c in (0, 1)]

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
    module, name = Module(), f"pass{radix}" if radix else "pass_any"
    writer = Pass(Lanes(itemsize, bits), module, name)
    if radix:
        writer.straight(radix)
    else:
        writer.looped()
    writer.f.close()
    return module.text(), name
