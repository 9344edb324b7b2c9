"""Fourier transforms of any length as native tasks: which kernels, over which memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.routines.fourier import fft_texts as texts
from weft.backends.cpu.routines.fourier import kernel_stubs as kernels
from weft.backends.cpu.routines.fourier import move_stubs as moves
from weft.backends.cpu.routines.fourier.fft_kernels import (
    PRIMES,
    Tables,
    bits_of,
    factor_tables,
    interleaved,
    lane_factors,
    passes_of,
    roots,
)
from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.code import Module
from weft.backends.llvm.native import processor
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.base.functional import lru
from weft.base.sizes import plain
from weft.kernel.program import Type

FFT, IFFT, RFFT, IRFFT = range(4)
# The longest transform that is done at once on all lanes.
MAX_SIMD_LENGTH = 2048
# The longest transforms whose factors, and whose chirp and its spectrum, are constant arrays. Those
# of longer ones are computed in each call, as programs are kept and would take much memory.
MAX_KEPT_FACTORS, MAX_KEPT_SPECTRUM = 1 << 16, 1 << 14
# Lengths of cyclic convolutions are these times powers of two.
ODD = tuple(3**a * 5**b for a in range(10) for b in range(7))
CHUNK_BYTES = 1 << 16


def circle(count: int, n: int) -> np.ndarray:
    """The first powers of exp(-2 pi i / n), many of them as products of few."""
    size = 1 << (count.bit_length() + 1) // 2
    if size <= 64:
        return roots(np.arange(count), n)
    high = roots(np.arange(-(-count // size)) * size, n)
    return np.multiply.outer(high, roots(np.arange(size), n)).ravel()[:count]


@lru(1024)
def smooth(n: int) -> bool:
    """Whether no prime factor is too large for straight code."""
    for p in PRIMES:
        while n % p == 0:
            n //= p
    return n == 1


@lru(1024)
def split(n: int, least: int) -> tuple[int, int] | None:
    """Two factors of n, neither below ``least``: whole vectors first, then nearly equal ones."""
    options = [
        (n1, n // n1)
        for n1 in range(least, min(MAX_SIMD_LENGTH, n // least) + 1)
        if n % n1 == 0 and n // n1 <= MAX_SIMD_LENGTH
    ]

    def cost(option: tuple[int, int]) -> tuple[float, int]:
        waste = math.prod(-(-k // least) * least / k for k in option)
        return waste * (1 + abs(math.log2(option[0] / option[1])) / 8), option[0]

    return min(options, key=cost, default=None)


class Plan:
    """The tasks of one operation while they are made.

    A transform with a ``scale`` that is not 0 is an inverse one.
    """

    def __init__(self, real: np.dtype) -> None:
        self.v = Lanes(real.itemsize, processor.vector_bits())
        self.tasks: list[Task] = []
        self.sizes: list[int] = []

    def scratch(self, size: int) -> Place:
        self.sizes.append(size)
        return Place("scratch", len(self.sizes) - 1)

    def numbers(self, count: int) -> Place:
        """Scratch memory for complex numbers."""
        return self.scratch(count * self.v.element)

    def task(self, module: Module, name: str, places: list[Place], extent: int, size: int) -> None:
        """Add a task of so many iterations, each over so many bytes."""
        chunk = max(1, min(plain(extent), CHUNK_BYTES // max(1, plain(size))))
        self.tasks.append(Task(module, name, tuple(places), extent, chunk))

    def move(self, stub: Any, places: list[Place], extent: int, size: int, **names: int) -> None:
        """Add a task that goes over data once."""
        module = texts.move_module(stub, *self.given(), tuple(names.items()))
        self.task(module, stub.__name__, places, extent, size)

    def given(self) -> tuple[int, int]:
        """What the text of a kernel depends on."""
        return self.v.itemsize, 8 * self.v.bytes

    # --- complex transforms -----------------------------------------------------------------------

    def columns(
        self, source: Place, target: Place, shape: tuple[int, int, int], scale: float
    ) -> None:
        """Transforms along the middle axis of three."""
        v = self.v
        outer, n, inner = shape
        if inner == 1:
            self.rows(source, target, outer, n, scale)
        elif not smooth(n) or n > 2 * MAX_SIMD_LENGTH:
            turned, done = self.numbers(outer * n * inner), self.numbers(outer * n * inner)
            self.transposed(source, turned, outer, n, inner)
            self.rows(turned, done, outer * inner, n, scale)
            self.transposed(done, target, outer, inner, n)
        elif inner < v.count:
            self.lanes(source, target, shape, scale)
        else:
            self.neighbours([source, target], shape, scale, scale)

    def neighbours(
        self,
        ends: list[Place],
        shape: tuple[int, int, int],
        swap: float,
        scale: float,
        half: int = 0,
        tables: Sequence[Place] = (),
    ) -> None:
        """The same, by lanes that are neighbours along the last axis, or half of a long one."""
        v, (outer, n, inner) = self.v, shape
        groups, blocks = inner // v.count, -(-n // v.count)
        numbers = [n, inner, groups, blocks, half]
        places = Tables(v).places(numbers, n, swap, scale, tables)
        module = texts.columns_module(*self.given())
        self.task(module, "columns", [*ends, *places], outer * groups, n * v.row)

    def rows(self, source: Place, target: Place, batch: int, n: int, scale: float) -> None:
        """Transforms of the rows of a matrix."""
        if not smooth(n):
            return self.chirped(source, target, batch, n, scale)
        if self.at_once(batch, n):
            return self.lanes(source, target, (batch, n, 1), scale)
        parts = split(n, self.v.count)
        if parts is None:
            return self.nested(source, target, batch, n, scale)
        self.halves(source, target, batch, parts, scale)

    def lanes(
        self,
        source: Place,
        target: Place,
        shape: tuple[int, int, int],
        scale: float,
        real: int = 0,
    ) -> None:
        """Transforms along the middle axis of three by lanes that are any of them; to or from 2 n
        real numbers."""
        v, (outer, n, inner), tables = self.v, shape, Tables(self.v)
        batch = outer * inner
        ins, outs = n + (real == kernels.FROM), n + (real == kernels.TO)
        gathered = inner > 1 or batch < v.count or 2 * n < v.count
        halves = tables.complex(circle(n // 2 + 1, 2 * n)) if real else 0
        swap = 0.0 if real else scale
        numbers = [halves, batch, inner, ins, outs, n]
        places = tables.places(numbers, n, swap, scale, paired=False)
        module = texts.rows_module(*self.given(), real, gathered)
        self.task(module, "rows", [source, target, *places], -(-batch // v.count), n * v.row)

    def at_once(self, batch: int, n: int) -> bool:
        """Whether rows are the lanes of a kernel for the whole length."""
        many = batch >= self.v.count // 2 and n <= MAX_SIMD_LENGTH
        return many or (n <= 2 * MAX_SIMD_LENGTH and split(n, self.v.count) is None)

    def transposed(self, source: Place, target: Place, batch: int, rows: int, columns: int) -> None:
        strips = -(-rows // moves.STRIP)
        sizes = Place("numbers", (rows, columns, strips))
        size = moves.STRIP * columns * self.v.element
        self.move(moves.transpose, [source, target, sizes], batch * strips, size)

    def halves(
        self, source: Place, target: Place, batch: int, parts: tuple[int, int], scale: float
    ) -> None:
        """A long transform: n2 short ones of length n1, factors, n1 of length n2."""
        v, (n1, n2) = self.v, parts
        passes_of(v, n1)
        held = self.scratch(batch * -(-n1 // v.count) * n2 * v.row)
        factors = self.factors(n1, n2, -(-n2 // v.count))
        turn = Place("code", texts.turn_module(*self.given()))
        self.neighbours(
            [source, held], (batch, n1, n2), scale, 0.0, kernels.FIRST, [*factors, turn]
        )
        self.neighbours([held, target], (batch, n2, n1), 0.0, scale, kernels.SECOND)

    def factors(self, n1: int, n2: int, groups: int) -> list[Place]:
        """Tables of what is between two halves."""
        v, tables = self.v, Tables(self.v)
        if n1 * n2 <= MAX_KEPT_FACTORS:
            return [Place("data", table) for table in factor_tables(v, n1, n2)]
        made = [self.scratch(n1 * v.row), self.numbers(groups * n1)]
        sizes = Place("numbers", (n1, n2, *tables.roots(n1 * n2)))
        places = [*made, tables.data(), sizes]
        self.move(moves.make_factors, places, v.count + groups, 16 * n1)
        return made

    def nested(self, source: Place, target: Place, batch: int, n: int, scale: float) -> None:
        """A very long transform: as above, but the second half is itself a long one."""
        n1 = max(k for k in range(2, MAX_SIMD_LENGTH + 1) if n % k == 0)
        n2, total = n // n1, batch * n
        held, done = self.numbers(total), self.numbers(total)
        # Swapped parts make a forward transform of an inverse one; conjugated factors do as well.
        self.columns(source, held, (batch, n1, n2), 1.0 if scale else 0.0)
        self.twisted(held, batch, (n1, n2), scale)
        self.rows(held, done, batch * n1, n2, scale)
        self.transposed(done, target, batch, n1, n2)

    def twisted(self, held: Place, batch: int, parts: tuple[int, int], scale: float) -> None:
        """What is between these halves, in place."""
        tables, (n1, n2) = Tables(self.v), parts
        sizes = Place("numbers", (n1, n2, *tables.roots(n1 * n2), signs(scale)[0]))
        self.move(moves.twist, [held, tables.data(), sizes], batch * n1, n2 * self.v.element)

    def chirp(self, n: int, size: int) -> tuple[Place, Place]:
        """A chirp, and the spectrum of its conjugate over ``size``."""
        v = self.v
        if n > MAX_KEPT_SPECTRUM:
            chirp, padded, spectrum = (self.numbers(count) for count in (n, size, size))
            tables = Tables(v)
            sizes = Place("numbers", (n, size, *tables.roots(2 * n), bits_of(1 / size)))
            places = [chirp, padded, tables.data(), sizes]
            self.move(moves.make_chirp, places, n, 2 * v.element)
            self.rows(padded, spectrum, 1, size, 0.0)
            return chirp, spectrum
        j = np.arange(n)
        values = circle(2 * n, 2 * n)[j * j % (2 * n)]
        wide = np.zeros(size, np.complex128)
        wide[:n] = values.conj()
        wide[size - n + 1 :] = wide[n - 1 : 0 : -1]
        wide /= size
        chirp, spectrum = (
            Place("data", interleaved(x, v.real)) for x in (values, np.fft.fft(wide))
        )
        return chirp, spectrum

    def convenient(self, least: int) -> int:
        """The smallest length of some kinds that is not below another."""
        odds = [odd for odd in ODD if odd <= least]
        return min(odd << max(4, math.ceil(math.log2(least / odd))) for odd in odds)

    def chirped(self, source: Place, target: Place, batch: int, n: int, scale: float) -> None:
        """Any length by a cyclic convolution with a chirp (Bluestein 1970)."""
        v, size = self.v, self.convenient(2 * n - 1)
        factors, spectrum = self.chirp(n, size)
        data, other = self.numbers(batch * size), self.numbers(batch * size)
        ends = signs(scale)

        def step(kind: int, places: list[Place], length: int, *sizes: int) -> None:
            blocks = -(-length // v.count)
            places = [*places, Place("numbers", (length, blocks, *sizes, *ends))]
            self.move(moves.chirp_step, places, batch * blocks, 2 * v.row, KIND=kind)

        step(moves.BEGIN, [source, data, factors], n, n, size)
        self.rows(data, other, batch, size, 0.0)
        step(moves.MULTIPLY, [other, data, spectrum], size, size, size)
        self.rows(data, other, batch, size, 0.0)
        step(moves.END, [other, target, factors], n, size, n)

    # --- real transforms --------------------------------------------------------------------------

    def to_half(self, source: Place, target: Place, batch: int, n: int) -> None:
        """Half spectra of rows of real numbers."""
        half = n // 2
        if self.fused(batch, n):
            self.lanes(source, target, (batch, half, 1), 0.0, kernels.TO)
        elif n % 2 == 0:
            spectrum = self.numbers(batch * half)
            self.rows(source, spectrum, batch, half, 0.0)
            self.mirror(moves.TO, spectrum, target, batch, half)
        else:
            wide, spectrum = self.numbers(batch * n), self.numbers(batch * n)
            self.move(moves.widen, [source, wide], batch * n, 2 * self.v.element, REAL=moves.TO)
            self.rows(wide, spectrum, batch, n, 0.0)
            self.half(moves.TO, spectrum, target, batch, n)

    def from_half(self, source: Place, target: Place, batch: int, n: int) -> None:
        """Rows of real numbers from their half spectra."""
        half = n // 2
        if self.fused(batch, n):
            self.lanes(source, target, (batch, half, 1), 1 / n, kernels.FROM)
        elif n % 2 == 0:
            spectrum = self.numbers(batch * half)
            self.mirror(moves.FROM, source, spectrum, batch, half)
            self.rows(spectrum, target, batch, half, 1 / n)
        else:
            wide, whole = self.numbers(batch * n), self.numbers(batch * n)
            self.half(moves.FROM, source, whole, batch, n)
            self.rows(whole, wide, batch, n, 1 / n)
            self.move(moves.widen, [wide, target], batch * n, 2 * self.v.element, REAL=moves.FROM)

    def mirror(self, real: int, source: Place, target: Place, batch: int, n: int) -> None:
        """Half spectra from those of pairs of numbers, or back."""
        tables, blocks = Tables(self.v), n // 2 // self.v.count
        sizes = (n, blocks, *tables.roots(2 * n), tables.add(lane_factors(self.v, n)))
        places = [source, target, tables.data(), Place("numbers", sizes)]
        self.move(moves.mirror, places, batch * blocks, 2 * self.v.row, REAL=real)

    def half(self, real: int, source: Place, target: Place, batch: int, n: int) -> None:
        """Half spectra from whole ones of an odd length, or back."""
        places = [source, target, Place("numbers", (n, n // 2 + 1))]
        self.move(moves.halve, places, batch, n * self.v.element, REAL=real)

    def fused(self, batch: int, n: int) -> bool:
        """Whether the kernel of rows takes real numbers too."""
        return n % 2 == 0 and smooth(n // 2) and self.at_once(batch, n // 2)


def signs(scale: float) -> list[int]:
    """Words for what pairs are multiplied by when read and written: conjugates are inverses."""
    turn = -1.0 if scale else 1.0
    return [bits_of(turn), bits_of(scale or 1.0), bits_of(turn * (scale or 1.0))]


def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a transform over the last axes, or along one."""
    kind = int(params["fft_type"])
    lengths = tuple([operator.index(n) for n in params["fft_lengths"]])
    x, y = ins[0], outs[0]
    if 0 in x.shape or 0 in y.shape or not lengths:
        return None
    wide = x.dtype if kind == IRFFT else y.dtype
    plan = Plan(np.dtype(f"f{wide.itemsize // 2}"))
    lead = math.prod(x.shape[: len(x.shape) - len(lengths)])
    source, target = Place("in", 0), Place("out", 0)

    def scale(n: int) -> float:
        return 1 / n if kind in (IFFT, IRFFT) else 0.0

    along = params.get("axis")
    if along is not None:
        n = lengths[0]
        shape = (math.prod(x.shape[:along]), n, math.prod(x.shape[along + 1 :]))
        plan.columns(source, target, shape, scale(n))
        return Lowered(plan.tasks, tuple(plan.sizes))
    spectrum = (*lengths[:-1], lengths[-1] // 2 + 1) if kind in (RFFT, IRFFT) else lengths
    # Steps write elsewhere than they read; the last one writes the result.
    steps = len(lengths)
    size = lead * math.prod(spectrum)
    spare = [plan.numbers(size) for _ in range(min(steps - 1, 2))]
    axes = list(range(steps)) if kind == IRFFT else list(range(steps))[::-1]
    for i, axis in enumerate(axes):
        to = target if i == steps - 1 else spare[i % 2]
        n = lengths[axis]
        shape = (lead * math.prod(spectrum[:axis]), n, math.prod(spectrum[axis + 1 :]))
        if kind == RFFT and axis == steps - 1:
            plan.to_half(source, to, shape[0], n)
        elif kind == IRFFT and axis == steps - 1:
            plan.from_half(source, to, shape[0], n)
        else:
            plan.columns(source, to, shape, scale(n))
        source = to
    return Lowered(plan.tasks, tuple(plan.sizes))


LOWERINGS["fft"] = lower
