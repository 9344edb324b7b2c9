"""Fourier transforms by code that is the same for all lengths: factors are data, sizes in tables.

For operations outside of compiled functions, which meet a new length all the time.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from weft.backends.cpu.routines.fourier import fft_any_kernels as kernels
from weft.backends.cpu.routines.fourier import fft_any_moves as any_moves
from weft.backends.cpu.routines.fourier import fft_moves as moves
from weft.backends.cpu.routines.fourier.fft import PRIMES, Plan, lowered
from weft.backends.cpu.routines.fourier.fft_any_kernels import Tables, bits_of
from weft.backends.cpu.routines.fourier.fft_any_text import STRAIGHT
from weft.backends.cpu.routines.fourier.fft_kernels import factor_tables
from weft.backends.cpu.routines.fourier.fft_text import Lanes, interleaved, roots
from weft.backends.cpu.routines.registry import GENERAL
from weft.base.functional import lru
from weft.kernel.program import Lowered, Place, Type

# The longest transforms whose factors, and whose chirp and its spectrum, are constant arrays. Those
# of longer ones are computed in each call, as programs are kept and would take much memory.
KEPT, SPECTRA = 1 << 16, 1 << 14
# What a pass costs an element: going through memory, and arithmetic.
COSTS = {2: 7.0, 3: 8.0, 4: 8.0, 5: 10.5, 7: 13.0, 8: 10.0, 10: 13.0}
# Lengths of cyclic convolutions are these times powers of two.
ODD = (1, 3, 5, 9, 15)


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


def circle(count: int, n: int) -> np.ndarray:
    """The first powers of exp(-2 pi i / n), many of them as products of few."""
    size = 1 << (count.bit_length() + 1) // 2
    if size <= 64:
        return roots(np.arange(count), n)
    high = roots(np.arange(-(-count // size)) * size, n)
    return np.multiply.outer(high, roots(np.arange(size), n)).ravel()[:count]


class AnyPlan(Plan):
    """The tasks of a transform, by kernels that read all numbers."""

    def given(self) -> tuple[int, int]:
        """What the text of a kernel depends on."""
        return self.v.itemsize, 8 * self.v.bytes

    def neighbours(
        self, source: Place, target: Place, shape: tuple[int, int, int], inverse: bool, scale: float
    ) -> None:
        v, (outer, n, inner) = self.v, shape
        tables, groups = Tables(v), -(-inner // v.count)
        count = tables.passes(n, radices_of(n))
        places = tables.places([n, inner, groups, count, *signs(inverse, scale)])
        text = kernels.columns_text(*self.given())
        self.task(text, [source, target, *places], outer * groups, n * v.row)

    def lanes(
        self,
        source: Place,
        target: Place,
        batch: int,
        n: int,
        inverse: bool,
        scale: float,
        real: bool = False,
    ) -> None:
        v, tables = self.v, Tables(self.v)
        count = tables.passes(n, radices_of(n))
        ins, outs = n + (real and inverse), n + (real and not inverse)
        halves = tables.complex(circle(n // 2 + 1, 2 * n)) if real else 0
        flip = v.bytes if inverse else 0
        numbers = [batch, n, ins, outs, count, flip, bits_of(scale), halves]
        kind = ("from" if inverse else "to") if real else ""
        text = kernels.rows_text(*self.given(), kind)
        places = [source, target, *tables.places(numbers)]
        self.task(text, places, -(-batch // v.count), n * v.row)

    def gathered(
        self, source: Place, target: Place, shape: tuple[int, int, int], inverse: bool, scale: float
    ) -> None:
        v, (outer, n, inner) = self.v, shape
        tables = Tables(v)
        count = tables.passes(n, radices_of(n))
        flip = v.bytes if inverse else 0
        places = tables.places([n, inner, outer * inner, count, flip, bits_of(scale)])
        text = kernels.gathered_text(*self.given())
        self.task(text, [source, target, *places], -(-outer * inner // v.count), n * v.row)

    def transposed(self, source: Place, target: Place, batch: int, rows: int, columns: int) -> None:
        strips = -(-rows // moves.STRIP)
        sizes = Place("numbers", (rows, columns, strips))
        size = moves.STRIP * columns * self.v.element
        self.task(
            _moving("transposed", *self.given()), [source, target, sizes], batch * strips, size
        )

    def halves(
        self,
        source: Place,
        target: Place,
        batch: int,
        parts: tuple[int, int],
        inverse: bool,
        scale: float,
    ) -> None:
        v, (n1, n2) = self.v, parts
        groups, blocks = -(-n2 // v.count), -(-n1 // v.count)
        held = self.scratch(batch * blocks * n2 * v.row)
        factors = self.factors(n1, n2, groups)
        tables = Tables(v)
        count = tables.passes(n1, radices_of(n1))
        sign, *ends = signs(inverse, scale)
        places = tables.places([n1, n2, groups, blocks, count, sign])
        text = kernels.first_half_text(*self.given())
        places = [source, held, *places[:2], *factors, *places[2:]]
        self.task(text, places, batch * groups, n1 * v.row)
        tables = Tables(v)
        count = tables.passes(n2, radices_of(n2))
        places = tables.places([n1, n2, blocks, count, *ends])
        text = kernels.second_half_text(*self.given())
        self.task(text, [held, target, *places], batch * blocks, n2 * v.row)

    def factors(self, n1: int, n2: int, groups: int) -> list[Place]:
        """Tables of what is between two halves."""
        v, tables = self.v, Tables(self.v)
        if n1 * n2 <= KEPT:
            return [Place("data", table) for table in factor_tables(v, n1, n2)]
        made = [self.scratch(n1 * v.row), self.numbers(groups * n1)]
        sizes = Place("numbers", (n1, n2, *tables.roots(n1 * n2)))
        text = any_moves.factors_text(*self.given())
        self.task(text, [*made, tables.data(), sizes], v.count + groups, 16 * n1)
        return made

    def twisted(self, held: Place, batch: int, parts: tuple[int, int], inverse: bool) -> None:
        tables, (n1, n2) = Tables(self.v), parts
        sizes = Place("numbers", (n1, n2, *tables.roots(n1 * n2), signs(inverse, 1.0)[0]))
        text = any_moves.twisted_text(*self.given())
        self.task(text, [held, tables.data(), sizes], batch * n1, n2 * self.v.element)

    def chirp(self, n: int, size: int) -> tuple[Place, Place]:
        """A chirp, and the spectrum of its conjugate over ``size``."""
        v = self.v
        if n > SPECTRA:
            chirp, padded, spectrum = (self.numbers(count) for count in (n, size, size))
            tables = Tables(v)
            sizes = Place("numbers", (n, size, *tables.roots(2 * n), bits_of(1 / size)))
            text = any_moves.chirp_text(*self.given())
            self.each(text, [chirp, padded, tables.data(), sizes], n)
            self.rows(padded, spectrum, 1, size, False, 1.0)
            return chirp, spectrum
        j = np.arange(n)
        values = circle(2 * n, 2 * n)[j * j % (2 * n)]
        padded = np.zeros(size, np.complex128)
        padded[:n] = values.conj()
        padded[size - n + 1 :] = padded[n - 1 : 0 : -1]
        padded /= size
        chirp, spectrum = (
            Place("data", interleaved(x, v.real)) for x in (values, np.fft.fft(padded))
        )
        return chirp, spectrum

    def chirped(
        self, source: Place, target: Place, batch: int, n: int, inverse: bool, scale: float
    ) -> None:
        v, size = self.v, _convenient(2 * n - 1)
        factors, spectrum = self.chirp(n, size)
        data, other = self.numbers(batch * size), self.numbers(batch * size)
        ends = signs(inverse, scale)

        def step(name: str, places: list[Place], length: int, *sizes: int) -> None:
            blocks = -(-length // v.count)
            table = Place("numbers", (length, blocks, *sizes, *ends))
            text = any_moves.chirped_text(*self.given(), name)
            self.task(text, [*places, table], batch * blocks, 2 * v.row)

        step("begin", [source, data, factors], n, n, size)
        self.rows(data, other, batch, size, False, 1.0)
        step("multiply", [other, data, spectrum], size, size, size)
        self.rows(data, other, batch, size, False, 1.0)
        step("end", [other, target, factors], n, size, n)

    # --- real transforms --------------------------------------------------------------------------

    def mirror(self, back: bool, source: Place, target: Place, batch: int, n: int) -> None:
        tables, blocks = Tables(self.v), self.mirrors(n)
        sizes = (n, blocks, *tables.roots(2 * n), tables.add(moves.lane_factors(self.v, n)))
        places = [source, target, tables.data(), Place("numbers", sizes)]
        text = _moving("pack" if back else "unpack", *self.given())
        self.task(text, places, batch * blocks, 2 * self.v.row)

    def crop(self, source: Place, target: Place, batch: int, n: int) -> None:
        sizes = Place("numbers", (n, n // 2 + 1))
        text = any_moves.crop_text(*self.given())
        self.task(text, [source, target, sizes], batch, n * self.v.element)

    def complete(self, source: Place, target: Place, batch: int, n: int) -> None:
        sizes = Place("numbers", (n, n // 2 + 1))
        text = any_moves.complete_text(*self.given())
        self.task(text, [source, target, sizes], batch, n * self.v.element)


def signs(inverse: bool, scale: float) -> list[int]:
    """Words for what pairs are multiplied by when read and written: conjugates are inverses."""
    turn = -1.0 if inverse else 1.0
    return [bits_of(turn), bits_of(scale), bits_of(turn * scale)]


@lru(16)
def _moving(name: str, itemsize: int, bits: int) -> str:
    """The text of a kernel that goes over data once; its sizes are read."""
    v = Lanes(itemsize, bits)
    if name == "transposed":
        return moves.transposed_text(v, 0, 0, 2)
    return (moves.pack_text if name == "pack" else moves.unpack_text)(v, 0, 3)


def _convenient(least: int) -> int:
    """The smallest length of a few kinds that is not below another."""
    return min(odd << max(4, math.ceil(math.log2(least / odd))) for odd in ODD)


def lower_any(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a transform, or None if it has nothing to do."""
    return lowered(AnyPlan, ins, outs, params)


GENERAL["fft"] = lower_any
