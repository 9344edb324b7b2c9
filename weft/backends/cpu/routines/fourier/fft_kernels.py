"""What kernels of Fourier transforms are given: radices, factors, and the functions of passes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.routines.fourier.fft_texts import STRAIGHT, calls_module, pass_module
from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.sizes import hand_on
from weft.backends.llvm.tasks import Place
from weft.base.functional import lru

# Longer prime factors are for chirps.
PRIMES = tuple(p for p in range(2, 100) if all(p % q for q in range(2, p)))
# What a pass costs an element: going through memory, and arithmetic.
COSTS = {2: 7.0, 3: 8.0, 4: 8.0, 5: 10.5, 6: 10.5, 7: 13.0, 8: 10.0, 9: 12.5, 10: 13.0}

# The length from which on what calls passes takes no time beside them.
MIN_LONG_PASS = 64


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


def codes_of(n: int) -> list[int]:
    """The radices that passes of a length have functions of, 0 for odd primes without their own."""
    return list(dict.fromkeys([r if r in STRAIGHT else 0 for r in radices_of(n)]))


def passes_of(v: Lanes, n: int, paired: bool = True) -> list[Any]:
    """The texts and the names of what calls the passes of a length, and of these functions."""
    given = v.itemsize, 8 * v.bytes
    # LLVM begins with what takes it longest; the rest, of a few lines each, it takes together
    codes = codes_of(n)
    passes = [hand_on(*pass_module(*given, code, code in (0, codes[-1]), paired)) for code in codes]
    return [calls_module(*given, n >= MIN_LONG_PASS), *passes]


class Tables:
    """All numbers of a kernel: factors in one array, and words."""

    def __init__(self, v: Lanes) -> None:
        self.v = v
        self.arrays: list[bytes] = []
        self.size = 0

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

    def places(
        self,
        numbers: list[int],
        n: int,
        swap: float,
        scale: float,
        more: Sequence[Place] = (),
        paired: bool = True,
    ) -> list[Place]:
        """What a kernel is given after its source and its target, for passes of length n."""
        passes = [Place("code", made) for made in passes_of(self.v, n, paired)]
        radices, codes, s, m = radices_of(n), codes_of(n), 1, n
        words = [*numbers, len(radices), int(swap != 0), bits_of(scale)]
        for radix in radices:
            m //= radix
            code = radix if radix in STRAIGHT else 0
            factors, table = -1, 0
            if m > 1:
                powers = np.arange(m)[:, None] * np.arange(1, radix)
                factors = self.complex(roots(powers, m * radix))
            if not code:
                j = np.arange(1, radix // 2 + 1)
                table = self.complex(roots(j[:, None] * j, radix).conj())
            words += (codes.index(code), radix, m, s, factors, table)
            s *= radix
        return [self.data(), Place("numbers", tuple(words)), *more, *passes]

    def data(self) -> Place:
        """All arrays as one."""
        return Place("data", np.frombuffer(b"".join(self.arrays) or bytes(8), self.v.real))


def bits_of(number: float) -> int:
    """The word of a table that is a number."""
    return int(np.float64(number).view(np.int64))


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


def lane_factors(v: Lanes, n: int) -> np.ndarray:
    """The first powers of exp(-pi i / n), split."""
    lanes = roots(np.arange(v.count), 2 * n)
    return np.stack([lanes.real, lanes.imag]).astype(v.real)
