"""Fourier transforms of any length as native tasks: which kernels, over which memory."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from weft.backends.cpu.native import processor
from weft.backends.cpu.routines.fourier import fft_kernels as kernels
from weft.backends.cpu.routines.fourier import fft_moves as moves
from weft.backends.cpu.routines.fourier.fft_kernels import Written
from weft.backends.cpu.routines.fourier.fft_text import Lanes
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.base.functional import lru
from weft.base.sizes import plain
from weft.kernel.program import Lowered, Place, Task, Type

FFT, IFFT, RFFT, IRFFT = range(4)
# Longer prime factors are for chirps.
PRIMES = tuple(p for p in range(2, 100) if all(p % q for q in range(2, p)))
# Longer straight code runs no faster, spills registers and takes LLVM twice as long.
RADIX = 10
# The longest transform that is done at once on all lanes, and the longest whose tables are in
# the text of its kernel.
SHORT, CONSTANT = 2048, 1 << 16
CHUNK_BYTES = 1 << 16


@lru(1024)
def radices_of(n: int, most: int, apart: bool) -> tuple[int, ...]:
    """The fewest factors up to ``most`` whose product is n.

    Of these, those whose passes are the least text: each pass is a function, but equal ones are the
    same, other than the last one and, where it is ``apart``, the first. Then those as even as can
    be.
    """
    best: dict[int, set[tuple[int, ...]]] = {1: {()}}

    def find(rest: int) -> set[tuple[int, ...]]:
        if rest not in best:
            options = {
                tuple(sorted((*found, r), reverse=True))
                for r in (*range(2, most + 1), *(p for p in PRIMES if p > most))
                if rest % r == 0
                for found in find(rest // r)
            }
            least = min(map(len, options))
            best[rest] = {option for option in options if len(option) == least}
        return best[rest]

    def arranged(option: tuple[int, ...]) -> tuple[int, ...]:
        """The smallest last, and where it is a function of its own the next one first."""
        *rest, last = option
        return (rest[-1], *rest[:-1], last) if apart and rest else option

    def length(option: tuple[int, ...]) -> int:
        first = apart and len(option) > 1
        return option[-1] + first * option[0] + sum(set(option[first:-1]))

    if n == 1:
        return (1,)
    return min(map(arranged, find(n)), key=lambda o: (length(o), sum(o), o))


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
        for n1 in range(least, min(SHORT, n // least) + 1)
        if n % n1 == 0 and n // n1 <= SHORT
    ]

    def cost(option: tuple[int, int]) -> tuple[float, int]:
        waste = math.prod(-(-k // least) * least / k for k in option)
        return waste * (1 + abs(math.log2(option[0] / option[1])) / 8), option[0]

    return min(options, key=cost, default=None)


class Plan:
    """The tasks of one operation while they are made."""

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

    def task(self, written: str | Written, places: list[Place], extent: int, size: int) -> None:
        """Add a task of so many iterations, each over so many bytes."""
        text, codes = (written, []) if isinstance(written, str) else written
        chunk = max(1, min(plain(extent), CHUNK_BYTES // max(1, plain(size))))
        self.tasks.append(Task(text, kernels.NAME, (*places, *codes), extent, chunk))

    def each(self, text: str, places: list[Place], count: int) -> None:
        """Add a task over single numbers."""
        self.task(text, places, count, 2 * self.v.element)

    def radices(self, n: int, apart: bool = False) -> tuple[int, ...]:
        return radices_of(n, RADIX, apart)

    # --- complex transforms -----------------------------------------------------------------------

    def columns(
        self, source: Place, target: Place, shape: tuple[int, int, int], inverse: bool, scale: float
    ) -> None:
        """Transforms along the middle axis of three."""
        v = self.v
        outer, n, inner = shape
        if inner == 1:
            self.rows(source, target, outer, n, inverse, scale)
        elif not smooth(n) or n > 2 * SHORT:
            turned, done = self.numbers(outer * n * inner), self.numbers(outer * n * inner)
            self.transposed(source, turned, outer, n, inner)
            self.rows(turned, done, outer * inner, n, inverse, scale)
            self.transposed(done, target, outer, inner, n)
        elif inner < v.count:
            self.gathered(source, target, shape, inverse, scale)
        else:
            self.neighbours(source, target, shape, inverse, scale)

    def neighbours(
        self, source: Place, target: Place, shape: tuple[int, int, int], inverse: bool, scale: float
    ) -> None:
        """The same, by lanes that are neighbours along the last axis."""
        v, (outer, n, inner) = self.v, shape
        text = kernels.columns_text(v, n, self.radices(n, True), inner, inverse, scale)
        self.task(text, [source, target], outer * -(-inner // v.count), n * v.row)

    def rows(
        self, source: Place, target: Place, batch: int, n: int, inverse: bool, scale: float
    ) -> None:
        """Transforms of the rows of a matrix."""
        v = self.v
        if not smooth(n):
            return self.chirped(source, target, batch, n, inverse, scale)
        if self.at_once(batch, n):
            if 2 * n < v.count:
                return self.gathered(source, target, (batch, n, 1), inverse, scale)
            return self.lanes(source, target, batch, n, inverse, scale)
        parts = split(n, v.count)
        if parts is None:
            return self.nested(source, target, batch, n, inverse, scale)
        self.halves(source, target, batch, parts, inverse, scale)

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
        """The same by lanes that are rows; with ``real``, of 2 n real numbers or to such."""
        v = self.v
        text = kernels.rows_text(v, n, self.radices(n), batch, inverse, scale, real)
        self.task(text, [source, target], -(-batch // v.count), n * v.row)

    def at_once(self, batch: int, n: int) -> bool:
        """Whether rows are the lanes of a kernel for the whole length."""
        many = batch >= self.v.count // 2 and n <= SHORT
        return many or (n <= 2 * SHORT and split(n, self.v.count) is None)

    def gathered(
        self, source: Place, target: Place, shape: tuple[int, int, int], inverse: bool, scale: float
    ) -> None:
        v = self.v
        outer, n, inner = shape
        text = kernels.gathered_text(v, n, self.radices(n), outer, inner, inverse, scale)
        self.task(text, [source, target], -(-outer * inner // v.count), n * v.row)

    def transposed(self, source: Place, target: Place, batch: int, rows: int, columns: int) -> None:
        text = moves.transposed_text(self.v, rows, columns)
        size = moves.STRIP * columns * self.v.element
        self.task(text, [source, target], batch * -(-rows // moves.STRIP), size)

    def halves(
        self,
        source: Place,
        target: Place,
        batch: int,
        parts: tuple[int, int],
        inverse: bool,
        scale: float,
    ) -> None:
        """A long transform: n2 short ones of length n1, factors, n1 of length n2."""
        v, (n1, n2) = self.v, parts
        groups, blocks = -(-n2 // v.count), -(-n1 // v.count)
        places = [source, self.scratch(batch * blocks * n2 * v.row)]
        tables = None
        if n1 * n2 <= CONSTANT:
            tables = kernels.factor_tables(v, n1, n2)
        else:
            own = [self.scratch(n1 * v.row), self.numbers(groups * n1)]
            self.task(kernels.tables_text(v, n1, n2), own, n1, 16 * (v.count + groups))
            places += own
        first = kernels.first_half_text(v, n1, n2, self.radices(n1, True), inverse, tables)
        self.task(first, places, batch * groups, n1 * v.row)
        second = kernels.second_half_text(v, n1, n2, self.radices(n2), inverse, scale)
        self.task(second, [places[1], target], batch * blocks, n2 * v.row)

    def nested(
        self, source: Place, target: Place, batch: int, n: int, inverse: bool, scale: float
    ) -> None:
        """A very long transform: as above, but the second half is itself a long one."""
        n1 = max(k for k in range(2, SHORT + 1) if n % k == 0)
        n2, total = n // n1, batch * n
        held, done = self.numbers(total), self.numbers(total)
        # Swapped parts make a forward transform of an inverse one; conjugated factors do as well.
        self.columns(source, held, (batch, n1, n2), inverse, 1.0)
        self.twisted(held, batch, (n1, n2), inverse)
        self.rows(held, done, batch * n1, n2, inverse, scale)
        self.transposed(done, target, batch, n1, n2)

    def twisted(self, held: Place, batch: int, parts: tuple[int, int], inverse: bool) -> None:
        """What is between these halves, in place."""
        text = moves.twisted_text(self.v, *parts, inverse)
        self.each(text, [held], batch * math.prod(parts))

    def chirped(
        self, source: Place, target: Place, batch: int, n: int, inverse: bool, scale: float
    ) -> None:
        """Any length by a cyclic convolution with a chirp (Bluestein 1970)."""
        v = self.v
        size = next(m for m in range(2 * n - 1, 4 * n) if _convenient(m))
        chirp, padded, spectrum = self.numbers(n), self.numbers(size), self.numbers(size)
        data, other = self.numbers(batch * size), self.numbers(batch * size)
        self.each(moves.chirp_text(v, n, size), [chirp, padded], n)
        # Three times the same kernels: what is scaled, and what makes the last transform one
        # backwards, is in between.
        self.rows(padded, spectrum, 1, size, False, 1.0)
        text, blocks = moves.modulated_text(v, n, size, inverse)
        self.task(text, [source, chirp, data], batch * blocks, 2 * v.row)
        self.rows(data, other, batch, size, False, 1.0)
        text, blocks = moves.product_text(v, size)
        self.task(text, [other, spectrum, data], batch * blocks, 2 * v.row)
        self.rows(data, other, batch, size, False, 1.0)
        text, blocks = moves.demodulated_text(v, n, size, inverse, scale)
        self.task(text, [other, chirp, target], batch * blocks, 2 * v.row)

    # --- real transforms --------------------------------------------------------------------------

    def to_half(self, source: Place, target: Place, batch: int, n: int) -> None:
        """Half spectra of rows of real numbers."""
        v, half = self.v, n // 2
        if self.fused(batch, n):
            self.lanes(source, target, batch, half, False, 1.0, True)
        elif n % 2 == 0 and half >= 2 * v.count:
            spectrum = self.numbers(batch * half)
            self.rows(source, spectrum, batch, half, False, 1.0)
            self.mirror(False, spectrum, target, batch, half)
        else:
            wide, spectrum = self.numbers(batch * n), self.numbers(batch * n)
            self.each(moves.widen_text(v), [source, wide], batch * n)
            self.rows(wide, spectrum, batch, n, False, 1.0)
            self.crop(spectrum, target, batch, n)

    def from_half(self, source: Place, target: Place, batch: int, n: int) -> None:
        """Rows of real numbers from their half spectra."""
        v, half = self.v, n // 2
        if self.fused(batch, n):
            self.lanes(source, target, batch, half, True, 1 / n, True)
        elif n % 2 == 0 and half >= 2 * v.count:
            spectrum = self.numbers(batch * half)
            self.mirror(True, source, spectrum, batch, half)
            self.rows(spectrum, target, batch, half, True, 1 / n)
        else:
            wide, whole = self.numbers(batch * n), self.numbers(batch * n)
            self.complete(source, whole, batch, n)
            self.rows(whole, wide, batch, n, True, 1 / n)
            self.each(moves.real_part_text(v), [wide, target], batch * n)

    def mirror(self, back: bool, source: Place, target: Place, batch: int, n: int) -> None:
        """Half spectra from those of pairs of numbers, or back."""
        text = (moves.pack_text if back else moves.unpack_text)(self.v, n)
        self.task(text, [source, target], batch * self.mirrors(n), 2 * self.v.row)

    def mirrors(self, n: int) -> int:
        """Into how many pieces of a row that work is divided."""
        return -(-(n // 2) // self.v.count)

    def crop(self, source: Place, target: Place, batch: int, n: int) -> None:
        """Half spectra from whole ones."""
        kept = n // 2 + 1
        self.each(moves.crop_text(self.v, n, kept), [source, target], batch * kept)

    def complete(self, source: Place, target: Place, batch: int, n: int) -> None:
        """Whole spectra from half ones."""
        self.each(moves.mirrored_text(self.v, n), [source, target], batch * n)

    def fused(self, batch: int, n: int) -> bool:
        """Whether the kernel of rows takes real numbers too."""
        half = n // 2
        return (
            n % 2 == 0 and smooth(half) and 2 * half >= self.v.count and self.at_once(batch, half)
        )


@lru(65536)
def _convenient(n: int) -> bool:
    for p in (2, 3, 5):
        while n % p == 0:
            n //= p
    return n == 1


def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a transform over the last axes, or along one."""
    return lowered(Plan, ins, outs, params)


def lowered(
    plans: type[Plan], ins: list[Type], outs: list[Type], params: dict[str, Any]
) -> Lowered | None:
    """The same by a plan of some kind."""
    kind = int(params["fft_type"])
    lengths = tuple([operator.index(n) for n in params["fft_lengths"]])
    x, y = ins[0], outs[0]
    if 0 in x.shape or 0 in y.shape or not lengths:
        return None
    wide = x.dtype if kind == IRFFT else y.dtype
    plan = plans(np.dtype(f"f{wide.itemsize // 2}"))
    lead = math.prod(x.shape[: len(x.shape) - len(lengths)])
    source, target = Place("in", 0), Place("out", 0)
    along = params.get("axis")
    if along is not None:
        n, inverse = lengths[0], kind == IFFT
        shape = (math.prod(x.shape[:along]), n, math.prod(x.shape[along + 1 :]))
        plan.columns(source, target, shape, inverse, 1 / n if inverse else 1.0)
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
            inverse = kind in (IFFT, IRFFT)
            plan.columns(source, to, shape, inverse, 1 / n if inverse else 1.0)
        source = to
    return Lowered(plan.tasks, tuple(plan.sizes))


LOWERINGS["fft"] = lower
