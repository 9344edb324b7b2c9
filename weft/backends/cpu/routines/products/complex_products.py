"""Products of complex numbers along axes, by code that is the same for all shapes.

Kernels reduce complex numbers by sums alone. Compiled functions multiply neighbours until one is
left, which is another program for each number of them.
"""

from __future__ import annotations

import math
from typing import Any

from weft.backends.cpu.routines.fourier.fft_kernels import NAME, Loop, Pair
from weft.backends.cpu.routines.fourier.fft_text import Complex, Lanes
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.writer import Number
from weft.backends.llvm.native import processor
from weft.base.functional import lru
from weft.kernel.program import Lowered, Place, Task, Type

# The most numbers that are multiplied in one piece, bytes of a chunk of tasks, and vectors of
# products in a row that do not wait for each other.
MAX_CHUNK_NUMBERS, CHUNK_BYTES, CHAINS = 4096, 1 << 16, 4
TABLE = 2


class Product:
    """A kernel under way: pieces of the middle axis of three, each multiplied to one number."""

    def __init__(self, v: Lanes, apart: bool) -> None:
        """``apart``: numbers of a piece are not neighbours."""
        self.v = v
        self.loop = Loop(v, 4, TABLE)
        f = self.loop.f
        n, self.inner, pieces, groups = self.loop.sizes
        inner = self.inner if apart else 1
        self.step = f.mul(inner, v.element)
        # a vector, or one for each column where these are fewer than lanes
        self.held = f.local(v.count * v.row if apart else v.row)
        source, target = f.pointer(0), f.pointer(1)
        with f.loop("%start", "%stop") as g:
            rest, group = f.div(g, groups), f.rem(g, groups)
            outer, piece = f.div(rest, pieces), f.rem(rest, pieces)
            begin = f.mul(piece, MAX_CHUNK_NUMBERS)
            self.count = f.smaller(MAX_CHUNK_NUMBERS, f.sub(n, begin))
            first: Number = 0
            if apart:  # vectors of columns, of which the last overlaps; or all of a few
                wide = f.emit(f"icmp uge i64 {inner}, {v.count}")
                vector = f.smaller(f.mul(group, v.count), f.sub(inner, v.count))
                first = self.loop.index(wide, vector, 0)
            else:
                wide = f.emit(f"icmp sge i64 {self.count}, {CHAINS * v.count}")
            row = f.add(f.mul(outer, n), begin)
            at = f.at(source, f.mul(f.add(f.mul(row, inner), first), v.element))
            place = f.add(f.mul(f.add(f.mul(outer, pieces), piece), inner), first)
            to = f.at(target, f.mul(place, v.element))
            with f.when(wide):
                (self.columns if apart else self.row)(at, to)
            with f.when(f.emit(f"xor i1 {wide}, true")):
                if apart:
                    self.few(at, to)
                else:
                    self.loop.store(to, 0, self.chain(at, self.count))

    def text(self) -> str:
        return self.loop.text()

    def chain(self, at: str, count: Number, first: Pair | None = None) -> Pair:
        """Numbers multiplied one after the other, to another if there is one."""
        loop, f = self.loop, self.loop.f
        if first is None:
            first, at, count = loop.load(at, 0), f.at(at, self.step), f.sub(count, 1)

        def step(i: str, held: list[str]) -> list[str]:
            value = loop.load(f.at(at, f.mul(i, self.step)), 0)
            return list(loop.times((held[0], held[1]), value))

        re, im = f.fold(count, self.v.base, list(first), step)
        return re, im

    def vectors(self, at: str, count: Number, ahead: Number, step: Number) -> list[Complex]:
        """Products of vectors of numbers that are ``step`` bytes apart, ``ahead`` from chain to
        chain."""
        v, f = self.v, self.loop.f

        def load(place: str) -> list[Complex]:
            return [v.load_pairs(f, f.at(place, f.mul(ahead, c))) for c in range(CHAINS)]

        def multiply(i: str, held: list[str]) -> list[str]:
            found = load(f.at(at, f.mul(f.add(i, 1), step)))
            done = [
                v.times(f, Complex(*held[2 * c : 2 * c + 2]), x.re, x.im)
                for c, x in enumerate(found)
            ]
            return [part for x in done for part in x[:2]]

        first = [part for x in load(at) for part in x[:2]]
        held = f.fold(f.sub(count, 1), v.kind, first, multiply)
        return [Complex(*held[2 * c : 2 * c + 2]) for c in range(CHAINS)]

    def row(self, at: str, to: str) -> None:
        """A piece of neighbours, of several vectors."""
        v, loop, f = self.v, self.loop, self.loop.f
        size = CHAINS * v.count
        blocks = f.div(self.count, size)
        product = self.one(self.vectors(at, blocks, v.row, CHAINS * v.row))
        a, b = v.together(f, product)
        f.store(v.kind, a, self.held, v.itemsize)
        f.store(v.kind, b, f.at(self.held, v.bytes), v.itemsize)
        found = self.chain(self.held, v.count)
        done = f.mul(blocks, size)
        rest = f.at(at, f.mul(done, v.element))
        loop.store(to, 0, self.chain(rest, f.sub(self.count, done), found))

    def columns(self, at: str, to: str) -> None:
        """Pieces side by side, one in each lane."""
        v, f = self.v, self.loop.f

        def multiply(i: str, held: list[str]) -> list[str]:
            x = v.load_pairs(f, f.at(at, f.mul(f.add(i, 1), self.step)))
            return list(v.times(f, Complex(*held), x.re, x.im)[:2])

        first = v.load_pairs(f, at)
        held = f.fold(f.sub(self.count, 1), v.kind, [first.re, first.im], multiply)
        v.store_pairs(f, to, Complex(*held))

    def few(self, at: str, to: str) -> None:
        """All of a few columns: as many rows as there are lanes are a vector for each column."""
        v, loop, f = self.v, self.loop, self.loop.f
        blocks = f.div(self.count, v.count)
        size = f.mul(self.inner, v.row)
        many = f.emit(f"icmp ne i64 {blocks}, 0")
        with f.when(many):
            with f.loop(0, self.inner) as k:
                place = f.mul(k, v.row)
                v.store_pairs(f, f.at(self.held, place), v.load_pairs(f, f.at(at, place)))
            with f.loop(1, blocks) as i, f.loop(0, self.inner) as k:
                place = f.mul(k, v.row)
                held = f.at(self.held, place)
                x = v.load_pairs(f, f.at(f.at(at, f.mul(i, size)), place))
                v.store_pairs(f, held, v.times(f, v.load_pairs(f, held), x.re, x.im))
        done = f.mul(blocks, v.count)
        source = f.emit(f"select i1 {many}, ptr {self.held}, ptr {at}")
        count = loop.index(many, v.count, self.count)
        rest = f.at(at, f.mul(done, self.step))
        left = loop.index(many, f.sub(self.count, done), 0)
        with f.loop(0, self.inner) as k:
            place = f.mul(k, v.element)
            found = self.chain(f.at(source, place), count)
            loop.store(to, k, self.chain(f.at(rest, place), left, found))

    def one(self, products: list[Complex]) -> Complex:
        """The product of a few vectors."""
        while len(products) > 1:
            pairs = zip(products[::2], products[1::2], strict=True)
            products = [self.v.times(self.loop.f, a, b.re, b.im) for a, b in pairs]
        return products[0]


@lru(8)
def product_text(itemsize: int, bits: int, apart: bool) -> str:
    """Pieces of the middle axis of three multiplied; the table has its length, that of the last
    axis, and how many pieces and groups of lanes there are."""
    return Product(Lanes(itemsize, bits), apart).text()


def _along(v: Lanes, source: Place, target: Place, shape: tuple[int, int, int]) -> Task:
    """The task that makes one number of each piece."""
    outer, n, inner = shape
    pieces, apart = -(-n // MAX_CHUNK_NUMBERS), inner > 1
    groups = -(-inner // v.count)
    sizes = Place("numbers", (n, inner, pieces, groups))
    extent = outer * pieces * groups
    size = min(n, MAX_CHUNK_NUMBERS) * min(inner, v.count) * v.element
    text = product_text(v.itemsize, 8 * v.bytes, apart)
    return Task(
        text, NAME, (source, target, sizes), extent, max(1, min(extent, CHUNK_BYTES // size))
    )


def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a product: one group of neighbouring axes after the other, the last first."""
    x = ins[0]
    if x.dtype.kind != "c" or 0 in x.shape:
        return None
    v = Lanes(x.dtype.itemsize // 2, processor.vector_bits())
    shape, left = list(x.shape), set(params["axes"])
    steps: list[tuple[int, int, int]] = []
    while left:
        last = max(left)
        first = last
        while first - 1 in left:
            first -= 1
        left -= set(range(first, last + 1))
        outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
        n = math.prod(shape[first : last + 1])
        shape[first : last + 1] = []
        while n > 1:
            steps.append((outer, n, inner))
            n = -(-n // MAX_CHUNK_NUMBERS)
    steps = steps or [(1, 1, math.prod(shape))]
    sizes = [outer * -(-n // MAX_CHUNK_NUMBERS) * inner * v.element for outer, n, inner in steps]
    tasks, source = [], Place("in", 0)
    for i, step in enumerate(steps):
        target = Place("scratch", i) if i < len(steps) - 1 else Place("out", 0)
        tasks.append(_along(v, source, target, step))
        source = target
    return Lowered(tasks, tuple(sizes[:-1]))


LOWERINGS["reduce_prod"] = lower
