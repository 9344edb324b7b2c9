"""Eigenvalues and singular values of stacks of small real matrices by rotations, one matrix a lane.

Pairs of rows and columns are turned one after the other until what is off the diagonal, or what
columns have in common, is gone (Jacobi 1846, Hestenes 1958; the formulas after Rutishauser 1966).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from weft.backends.cpu.routines.factorisations.small_matrices import Small, power_of_two, with_sign
from weft.backends.cpu.routines.writer import Number
from weft.base.record import Record
from weft.kernel.program import Lowered, Type

# The longest side of a matrix; the work for a longer one grows faster than LAPACK's.
MAX_SIDE = 16
# Rounds over all pairs; six to nine are enough, which is seen.
MAX_SWEEPS = 40
ZERO = "zeroinitializer"


class _Rotations(Small):
    """A kernel of rotations under construction."""

    def __init__(self, kind: Type, count: int) -> None:
        super().__init__(kind, count)
        self.one = self.v.splat(1.0)
        self.state = self.cells(2)  # the largest number met, and NaN where a matrix has any

    def largest(self, value: str) -> None:
        """Note a size, if it is the largest so far."""
        old = self.get(self.state, 0)
        self.put(self.state, 0, self.choose(self.compare("ogt", value, old), value, old))

    def scaled(self, a: str, size: int) -> str:
        """Divide all numbers by a power of two near the largest, which is returned."""
        f = self.f
        self.put(self.state, 0, ZERO)
        self.put(self.state, 1, ZERO)
        with f.loop(0, size) as i:
            x = self.get(a, i)
            self.largest(self.intrinsic("fabs", x))
            # 0, or NaN for what is not finite
            self.put(self.state, 1, self.op("fadd", self.get(self.state, 1), self.op("fsub", x, x)))
        unit, inverse = power_of_two(self, self.get(self.state, 0))
        with f.loop(0, size) as i:
            self.put(a, i, self.op("fmul", self.get(a, i), inverse))
        return unit

    def until(self, bound: float) -> str:
        """Whether the largest number of any lane is still above a bound, as ``i1``."""
        n = self.v.count
        above = self.compare("ogt", self.get(self.state, 0), self.v.splat(bound))
        name = self.f.declare(f"llvm.vector.reduce.or.v{n}i1", "i1", f"<{n} x i1>")
        return self.f.emit(f"call i1 {name}(<{n} x i1> {above})")

    def angle(self, both: str, first: str, second: str) -> tuple[str, str, str]:
        """Tangent and sine of the rotation after which two have nothing in common, and the tangent
        of half its angle."""
        f, v = self.f, self.v
        none = self.compare("oeq", both, ZERO)
        twice = self.choose(none, self.one, self.op("fadd", both, both))
        theta = self.op("fdiv", self.op("fsub", second, first), twice)
        size = self.intrinsic("fabs", theta)
        root = self.intrinsic("sqrt", v.fma(f, size, size, self.one))
        t = self.op("fdiv", self.one, self.op("fadd", size, root))
        t = self.choose(none, ZERO, with_sign(self, t, theta))
        c = self.op("fdiv", self.one, self.intrinsic("sqrt", v.fma(f, t, t, self.one)))
        s = self.op("fmul", t, c)
        return t, s, self.op("fdiv", s, self.op("fadd", self.one, c))

    def turned(self, x: str, y: str, s: str, half: str) -> tuple[str, str]:
        """Two numbers turned, c x - s y and s x + c y, by what is to be added to each."""
        f, v = self.f, self.v
        low = v.fma(f, v.neg(f, s), v.fma(f, half, x, y), x)
        return low, v.fma(f, s, v.fma(f, v.neg(f, half), y, x), y)

    def each(self, n: int, body: Callable[[Number], None]) -> None:
        """Instructions for each of so many numbers, one after the other if the size is known."""
        if self.reads:
            with self.f.loop(0, n) as r:
                body(r)
        else:
            for r in range(n):
                body(r)

    def total(
        self, n: int, count: int, step: Callable[[Number, list[str]], list[str]]
    ) -> list[str]:
        """The same for some sums, that begin with 0."""
        sums = [ZERO] * count
        if self.reads:
            return self.f.fold(n, self.v.kind, sums, step)
        for r in range(n):
            sums = step(r, sums)
        return sums

    def ordered(self, values: str, n: int, how: str, columns: list[_Columns]) -> None:
        """Values in order, and the columns of matrices that belong to them."""
        f = self.f
        with f.loop(0, n) as i, f.loop(f.add(i, 1), n) as j:
            x, y = self.get(values, i), self.get(values, j)
            swap = self.compare(how, y, x)
            self.put(values, i, self.choose(swap, y, x))
            self.put(values, j, self.choose(swap, x, y))
            for matrix in columns:
                left, right = matrix.column(self, i), matrix.column(self, j)
                with f.loop(0, matrix.length) as r:
                    place = f.mul(r, matrix.step)
                    x, y = self.get(left, place), self.get(right, place)
                    self.put(left, place, self.choose(swap, y, x))
                    self.put(right, place, self.choose(swap, x, y))


class _Columns(Record):
    """The columns of a matrix in memory: how far apart they and their elements are."""

    base: str
    apart: int
    step: int
    length: int

    def column(self, s: Small, c: Number) -> str:
        return s.element(self.base, s.f.mul(c, self.apart))

    def get(self, s: Small, r: Number, c: Number) -> str:
        return s.get(self.column(s, c), s.f.mul(r, self.step))

    def put(self, s: Small, r: Number, c: Number, value: str) -> None:
        s.put(self.column(s, c), s.f.mul(r, self.step), value)


def eigh(kind: Type, count: int, lower: bool, vectors: bool) -> Lowered:
    """Eigenvectors, if wanted, and ascending eigenvalues of symmetric matrices."""
    n = kind.shape[-1]
    s = _Rotations(kind, count)
    f = s.f
    source, targets = s.pointer("in", 0), [s.pointer("out", 0), s.pointer("out", 1)]
    a, w, basis = s.local(n * n), s.local(n), s.local(n * n if vectors else 1)
    bound = float(np.finfo(kind.dtype).eps) / 8
    with f.loop("%start", "%stop") as g:
        first = s.first(g)
        s.load(source, first, n * n, a)
        _mirror(s, a, n, lower)
        unit = s.scaled(a, n * n)
        if vectors:
            with f.loop(0, n * n) as i:
                s.put(basis, i, ZERO)
            with f.loop(0, n) as i:
                s.put(basis, f.mul(i, n + 1), s.one)
        with f.loop(0, MAX_SWEEPS):
            s.put(s.state, 0, ZERO)
            with f.loop(0, n) as p, f.loop(f.add(p, 1), n) as q:
                s.largest(s.intrinsic("fabs", s.get(a, f.add(f.mul(p, n), q))))
            with f.when(s.until(bound)), f.loop(0, n) as p, f.loop(f.add(p, 1), n) as q:
                _turn_both(s, a, basis if vectors else "", n, p, q)
        poison = s.get(s.state, 1)
        with f.loop(0, n) as i:
            value = s.op("fmul", s.get(a, f.mul(i, n + 1)), unit)
            s.put(w, i, s.op("fadd", value, poison))
        s.ordered(w, n, "olt", [_Columns(basis, 1, n, n)] if vectors else [])
        s.store(w, n, targets[1], first)
        if vectors:
            with f.loop(0, n * n) as i:
                s.put(basis, i, s.op("fadd", s.get(basis, i), poison))
            s.store(basis, n * n, targets[0], first)
    return s.lowered()


def _mirror(s: _Rotations, a: str, n: int, lower: bool) -> None:
    """One triangle copied to the other."""
    f = s.f
    with f.loop(0, n) as i, f.loop(f.add(i, 1), n) as j:
        above, below = f.add(f.mul(i, n), j), f.add(f.mul(j, n), i)
        source, target = (below, above) if lower else (above, below)
        s.put(a, target, s.get(a, source))


def _turn_both(s: _Rotations, a: str, basis: str, n: int, p: Number, q: Number) -> None:
    """Rows and columns p and q of a symmetric matrix turned so that a[p, q] is zero."""
    f = s.f
    across = [f.add(f.mul(p, n), q), f.add(f.mul(q, n), p)]
    both, first, second = s.get(a, across[0]), s.get(a, f.mul(p, n + 1)), s.get(a, f.mul(q, n + 1))
    t, sine, half = s.angle(both, first, second)
    columns = [s.element(a, p), s.element(a, q)]
    rows = [s.element(a, f.mul(p, n)), s.element(a, f.mul(q, n))]
    vectors = [s.element(basis, p), s.element(basis, q)] if basis else []

    def turn(r: Number) -> None:
        place = f.mul(r, n)
        found = s.turned(*(s.get(at, place) for at in columns), sine, half)
        for value, column, row in zip(found, columns, rows, strict=True):
            s.put(column, place, value)
            s.put(row, r, value)
        if basis:
            found = s.turned(*(s.get(at, place) for at in vectors), sine, half)
            for value, vector in zip(found, vectors, strict=True):
                s.put(vector, place, value)

    s.each(n, turn)
    # where the rows and columns cross, the loop has left nothing of use
    change = s.op("fmul", t, both)
    s.put(a, f.mul(p, n + 1), s.op("fsub", first, change))
    s.put(a, f.mul(q, n + 1), s.op("fadd", second, change))
    for place in across:
        s.put(a, place, ZERO)


def svd(kind: Type, count: int, width: int) -> Lowered:
    """Descending singular values; then U and Vᵀ, the longer with so many vectors, unless 0.

    Of a matrix or its transpose, whichever has fewer columns, columns are turned until they are at
    right angles: their lengths are the singular values, their directions the longer vectors.
    """
    m, n = kind.shape[-2:]
    k, long = min(m, n), max(m, n)
    s = _Rotations(kind, count)
    f = s.f
    source, w = s.pointer("in", 0), s.local(k)
    targets = [s.pointer("out", i) for i in range(3 if width else 1)]
    tall = m >= n
    x = _Columns(s.local(m * n), *((1, n) if tall else (n, 1)), long)
    held: list[_Columns] = []
    if width:
        left, right = s.local(m * (width if tall else m)), s.local(n * (n if tall else width))
        turns = _Columns(right, n, 1, k) if tall else _Columns(left, 1, k, k)
        basis = _Columns(left, 1, width, m) if tall else _Columns(right, n, 1, n)
        held = [turns]
    completion = _Completion(s, basis, width) if width else None
    bound = float(np.finfo(kind.dtype).eps) * (MAX_SIDE if s.reads else long)
    with f.loop("%start", "%stop") as g:
        first = s.first(g)
        s.load(source, first, m * n, x.base)
        unit = s.scaled(x.base, m * n)
        for matrix in held:
            with f.loop(0, k) as i, f.loop(0, k) as j:
                matrix.put(s, i, j, ZERO)
            with f.loop(0, k) as i:
                matrix.put(s, i, i, s.one)
        s.put(s.state, 0, s.one)
        with f.loop(0, MAX_SWEEPS), f.when(s.until(bound)):
            s.put(s.state, 0, ZERO)
            with f.loop(0, k) as p, f.loop(f.add(p, 1), k) as q:
                _turn_columns(s, x, held, p, q)
        with f.loop(0, k) as c:
            s.put(w, c, s.intrinsic("sqrt", _square(s, x, c)))
        s.ordered(w, k, "ogt", [x, *held])
        if completion is not None:
            completion.write(x, w, k)
        poison = s.get(s.state, 1)
        with f.loop(0, k) as c:
            s.put(w, c, s.op("fadd", s.op("fmul", s.get(w, c), unit), poison))
        s.store(w, k, targets[0], first)
        if width:
            sizes = (m * (width if tall else m), n * (n if tall else width))
            for base, size, target in zip((left, right), sizes, targets[1:], strict=True):
                with f.loop(0, size) as i:
                    s.put(base, i, s.op("fadd", s.get(base, i), poison))
                s.store(base, size, target, first)
    return s.lowered()


def _square(s: _Rotations, x: _Columns, c: Number) -> str:
    """The square of the length of a column."""
    at = x.column(s, c)
    values: list[str] = []
    if not s.reads:
        values = [s.get(at, r * x.step) for r in range(x.length)]

    def step(r: Number, sums: list[str]) -> list[str]:
        value = values[r] if isinstance(r, int) else s.get(at, s.f.mul(r, x.step))
        return [s.v.fma(s.f, value, value, sums[0])]

    return s.total(x.length, 1, step)[0]


def _turn_columns(s: _Rotations, x: _Columns, others: list[_Columns], p: Number, q: Number) -> None:
    """Two columns turned until they are at right angles, and those of other matrices with them."""
    f, v = s.f, s.v
    left, right = x.column(s, p), x.column(s, q)

    def step(r: Number, sums: list[str]) -> list[str]:
        a, b = s.get(left, f.mul(r, x.step)), s.get(right, f.mul(r, x.step))
        factors = ((a, a), (b, b), (a, b))
        return [v.fma(f, u, w, total) for (u, w), total in zip(factors, sums, strict=True)]

    first, second, both = s.total(x.length, 3, step)
    size = s.intrinsic("sqrt", s.op("fmul", first, second))
    size = s.choose(s.compare("oeq", size, ZERO), s.one, size)
    s.largest(s.op("fdiv", s.intrinsic("fabs", both), size))
    _, sine, half = s.angle(both, first, second)
    for matrix in (x, *others):
        left, right = matrix.column(s, p), matrix.column(s, q)
        s.each(matrix.length, functools.partial(_turn_pair, s, (left, right), matrix, sine, half))


def _turn_pair(
    s: _Rotations, pair: tuple[str, str], matrix: _Columns, sine: str, half: str, r: Number
) -> None:
    """The elements of two columns in a row turned."""
    place = s.f.mul(r, matrix.step)
    found = s.turned(*(s.get(at, place) for at in pair), sine, half)
    for at, value in zip(pair, found, strict=True):
        s.put(at, place, value)


class _Completion:
    """Directions of columns, and vectors at right angles to them where there are none.

    The unit vector that has least in common with those before, without what it has.
    """

    def __init__(self, s: _Rotations, basis: _Columns, width: int) -> None:
        self.s, self.basis, self.width = s, basis, width
        self.shares, self.vector = s.local(width), s.local(basis.length)
        self.best = s.cells(2)  # how much is left of the best unit vector, and which it is

    def write(self, x: _Columns, sizes: str, k: int) -> None:
        """The directions of ``k`` columns of given lengths, then whatever is missing."""
        s, f, length = self.s, self.s.f, self.basis.length
        # the square of a shorter column has lost digits
        limits = np.finfo(np.float32 if s.v.itemsize == 4 else np.float64)
        least = s.v.splat(float(np.sqrt(limits.tiny)) / float(limits.eps))
        with f.loop(0, k) as c:
            size = s.get(sizes, c)
            inverse = s.op("fdiv", s.one, s.choose(s.compare("olt", size, least), s.one, size))
            with f.loop(0, length) as r:
                value = s.op("fmul", x.get(s, r, c), inverse)
                self.basis.put(s, r, c, value)
            missing = s.compare("olt", size, least)
            n = s.v.count
            name = f.declare(f"llvm.vector.reduce.or.v{n}i1", "i1", f"<{n} x i1>")
            with f.when(f.emit(f"call i1 {name}(<{n} x i1> {missing})")):
                self.complete(c, missing)
        if self.width > k:
            with f.loop(k, self.width) as c:
                self.complete(c, s.compare("oeq", s.one, s.one))

    def complete(self, c: Number, missing: str) -> None:
        """A column at right angles to those before it."""
        s, f, v, basis = self.s, self.s.f, self.s.v, self.basis
        s.put(self.best, 0, v.splat(-1.0))
        s.put(self.best, 1, ZERO)
        with f.loop(0, basis.length) as j:
            s.put(s.state, 0, s.one)
            with f.loop(0, c) as i:
                share = basis.get(s, j, i)
                rest = v.fma(f, v.neg(f, share), share, s.get(s.state, 0))
                s.put(s.state, 0, rest)
            rest = s.get(s.state, 0)
            better = s.compare("ogt", rest, s.get(self.best, 0))
            s.put(self.best, 0, s.choose(better, rest, s.get(self.best, 0)))
            s.put(self.best, 1, s.choose(better, self.number(j), s.get(self.best, 1)))
        with f.loop(0, basis.length) as r:
            same = s.compare("oeq", self.number(r), s.get(self.best, 1))
            s.put(self.vector, r, s.choose(same, s.one, ZERO))
        for _ in range(2):  # the second time for what rounding has left
            with f.loop(0, c) as i:
                s.put(self.shares, i, ZERO)
                with f.loop(0, basis.length) as r:
                    product = v.fma(
                        f, s.get(self.vector, r), basis.get(s, r, i), s.get(self.shares, i)
                    )
                    s.put(self.shares, i, product)
            with f.loop(0, basis.length) as r, f.loop(0, c) as i:
                s.minus_product(self.vector, r, s.get(self.shares, i), basis.get(s, r, i))
        size = s.intrinsic("sqrt", _square(s, _Columns(self.vector, 0, 1, basis.length), 0))
        with f.loop(0, basis.length) as r:
            value = s.op("fdiv", s.get(self.vector, r), size)
            basis.put(s, r, c, s.choose(missing, value, basis.get(s, r, c)))

    def number(self, i: str) -> str:
        """A position as a number in every lane."""
        f, v = self.s.f, self.s.v
        value = f.emit(f"sitofp i64 {i} to {v.base}")
        one = f.emit(f"insertelement {v.kind} poison, {v.base} {value}, i64 0")
        zeros = f"<{v.count} x i32> zeroinitializer"
        return f.emit(f"shufflevector {v.kind} {one}, {v.kind} poison, {zeros}")
