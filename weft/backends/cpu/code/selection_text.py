"""Elements that a test picks, put side by side: texts that count them in pieces and write them.

A test looks at the bits of an element: ``set`` (not zero), ``real`` (the same of floats, whose zero
has a sign), ``normal`` (the same where denormal numbers are zeros), or at the one before, too:
``new`` (integers that differ), ``new real`` (floats that differ, in order, NaN behind them), ``new
number`` (the same, where NaNs are all one).
"""

from __future__ import annotations

from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.llvm.native.processor import vector_bits
from weft.base.functional import lru

# Elements of a piece, which one thread looks at; a multiple of the lanes.
CHUNK_ELEMENTS = 1 << 14
LANES = 16
# What is written of an element: its position or the element of another array, and in how many bits.
Wanted = tuple[str, int]

_FLOATS = {32: "float", 64: "double"}
# Bits of the exponents of floats.
_EXPONENTS = {32: 8, 64: 11}


def _mask(f: Function, test: str, bits: int, lanes: int, here: str) -> str:
    """Which of the elements at a place a test picks: a vector, or one flag for one lane."""

    def kind(one: str) -> str:
        return f"<{lanes} x {one}>" if lanes > 1 else one

    size = bits // 8
    if test in ("set", "real", "normal"):
        x = f.load(kind(f"i{bits}"), here, size)
        if test == "normal":  # by the exponent alone
            exponent = (1 << _EXPONENTS[bits]) - 1 << bits - 1 - _EXPONENTS[bits]
            mask = f"splat (i{bits} {exponent})" if lanes > 1 else str(exponent)
            x = f.emit(f"and {kind(f'i{bits}')} {x}, {mask}")
        if test == "real":  # without the sign
            x = f.emit(f"add {kind(f'i{bits}')} {x}, {x}")
        return f.emit(f"icmp ne {kind(f'i{bits}')} {x}, zeroinitializer")
    word = f"i{bits}" if test == "new" else _FLOATS[bits]
    x = f.load(kind(word), here, size)
    before = f.load(kind(word), f.at(here, -size), size)
    if test == "new":
        return f.emit(f"icmp ne {kind(word)} {x}, {before}")
    other = f.emit(f"fcmp une {kind(word)} {x}, {before}")
    if test == "new real":
        return other
    number = f.emit(f"fcmp ord {kind(word)} {before}, {before}")
    return f.emit(f"and {kind('i1')} {other}, {number}")


def _piece(f: Function, piece: str, count: str) -> tuple[Number, Number, Number]:
    """Where a piece begins, how many elements it has, and how many of them are in whole vectors."""
    begin = f.mul(piece, CHUNK_ELEMENTS)
    size = f.smaller(f.sub(count, begin), CHUNK_ELEMENTS)
    return begin, size, f.emit(f"udiv i64 {size}, {LANES}")


def _count(f: Function) -> str:
    """How many elements there are, which a table says."""
    return f.load("i64", f.pointer(0), 8)


@lru(64)
def count_text(test: str, bits: int) -> str:
    """How many each piece has. Buffers: number of elements, elements, counts."""
    f = kernel(Module(), "select_count")
    count, source, counts = _count(f), f.pointer(1), f.pointer(2)
    sums = f"<{LANES} x i32>"
    total = f.declare(f"llvm.vector.reduce.add.v{LANES}i32", "i32", sums)
    with f.loop("%start", "%stop") as piece:
        begin, size, vectors = _piece(f, piece, count)
        here = f.at(source, f.mul(begin, bits // 8))
        with f.carried(0, vectors, [(sums, "zeroinitializer")]) as (i, (held,), after):
            flags = _mask(f, test, bits, LANES, f.at(here, f.mul(i, LANES * bits // 8)))
            more = f.emit(f"zext <{LANES} x i1> {flags} to {sums}")
            after[0] = f.emit(f"add {sums} {held}, {more}")
        found = f.emit(f"zext i32 {f.emit(f'call i32 {total}({sums} {held})')} to i64")
        done = f.mul(vectors, LANES)
        with f.carried(done, size, [("i64", found)]) as (i, (held,), after):
            flag = _mask(f, test, bits, 1, f.at(here, f.mul(i, bits // 8)))
            after[0] = f.add(held, f.emit(f"zext i1 {flag} to i64"))
        f.store("i64", held, f.at(counts, f.mul(piece, 8)), 8)
    f.close()
    return f.module.text()


def packs(wanted: tuple[Wanted, ...]) -> bool:
    """Whether the processor packs the lanes of vectors with such elements."""
    return vector_bits() == 512 and all(bits >= 32 for _, bits in wanted)


@lru(64)
def write_text(test: str, bits: int, wanted: tuple[Wanted, ...], packing: bool) -> str:
    """What is wanted of the elements that are picked.

    Buffers: number of elements and the position of the first; elements; of each piece, how many
    elements those before it have, and the same behind the last one; results; and for each result
    the elements it is made of.
    """
    f = kernel(Module(), "select_write")
    count, source, starts = _count(f), f.pointer(1), f.pointer(2)
    first = f.load("i64", f.at(f.pointer(0), 8), 8)
    outs = [f.pointer(3 + i) for i in range(len(wanted))]
    given = [f.pointer(3 + len(wanted) + i) for i in range(len(wanted))]
    writer = Writer(f, wanted, outs, given, first)
    size = bits // 8
    with f.loop("%start", "%stop") as piece:
        begin, number, vectors = _piece(f, piece, count)
        start, end = (f.load("i64", f.at(starts, f.mul(f.add(piece, k), 8)), 8) for k in (0, 1))
        with f.carried(0, vectors, [("i64", start)]) as (i, (held,), after):
            at = f.add(begin, f.mul(i, LANES))
            flags = _mask(f, test, bits, LANES, f.at(source, f.mul(at, size)))
            line = f.emit(f"bitcast <{LANES} x i1> {flags} to i{LANES}")
            if packing:
                writer.pack(at, flags, held)
                ones = f.declare(f"llvm.ctpop.i{LANES}", f"i{LANES}", f"i{LANES}")
                ones = f.emit(f"call i{LANES} {ones}(i{LANES} {line})")
                after[0] = f.add(held, f.emit(f"zext i{LANES} {ones} to i64"))
            else:
                some = f.emit(f"icmp ne i{LANES} {line}, 0")
                stop = f.emit(f"select i1 {some}, i64 {LANES}, i64 0")
                with f.carried(0, stop, [("i64", held)]) as (k, (now,), then):
                    here = f.add(at, k)
                    flag = _mask(f, test, bits, 1, f.at(source, f.mul(here, size)))
                    then[0] = writer.put(here, flag, now, end)
                after[0] = now
        done = f.mul(vectors, LANES)
        with f.carried(done, number, [("i64", held)]) as (i, (now,), after):
            at = f.add(begin, i)
            flag = _mask(f, test, bits, 1, f.at(source, f.mul(at, size)))
            after[0] = writer.put(at, flag, now, end)
    f.close()
    return f.module.text()


class Writer:
    """Text that writes what is wanted of elements."""

    def __init__(
        self,
        f: Function,
        wanted: tuple[Wanted, ...],
        outs: list[str],
        given: list[str],
        first: str,
    ) -> None:
        self.f, self.first = f, first
        self.results = list(zip(wanted, outs, given, strict=True))

    def _value(self, what: str, bits: int, source: str, at: Number) -> str:
        """What is written of one element."""
        f = self.f
        if what == "value":
            return f.load(f"i{bits}", f.at(source, f.mul(at, bits // 8)), bits // 8)
        place = f.add(self.first, at)
        return str(place) if bits == 64 else f.emit(f"trunc i64 {place} to i{bits}")

    def put(self, at: Number, flag: str, to: str, end: str) -> Number:
        """One element if it is picked; where the next one goes.

        It is written in any case, since a branch would be guessed wrong every other time, but not
        where the next piece begins.
        """
        f = self.f
        with f.when(f.emit(f"icmp slt i64 {to}, {end}")):
            for (what, bits), out, source in self.results:
                x = self._value(what, bits, source, at)
                f.store(f"i{bits}", x, f.at(out, f.mul(to, bits // 8)), bits // 8)
        return f.add(to, f.emit(f"zext i1 {flag} to i64"))

    def pack(self, at: Number, flags: str, to: str) -> None:
        """The elements of a vector that are picked."""
        f = self.f
        for (what, bits), out, source in self.results:
            kind, size = f"<{LANES} x i{bits}>", bits // 8
            if what == "value":
                x = f.load(kind, f.at(source, f.mul(at, size)), size)
            else:
                one = self._value(what, bits, source, at)
                x = f.emit(f"insertelement {kind} poison, i{bits} {one}, i64 0")
                zeros = f"<{LANES} x i32> zeroinitializer"
                x = f.emit(f"shufflevector {kind} {x}, {kind} poison, {zeros}")
                steps = ", ".join([f"i{bits} {i}" for i in range(LANES)])
                x = f.emit(f"add {kind} {x}, <{steps}>")
            name = f"llvm.masked.compressstore.v{LANES}i{bits}"
            f.declare(name, "void", f"{kind}, ptr, <{LANES} x i1>")
            place = f.at(out, f.mul(to, size))
            f.line(
                f"call void @{name}({kind} {x}, ptr align {size} {place}, <{LANES} x i1> {flags})"
            )
