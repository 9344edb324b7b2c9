"""The incomplete gamma functions and their derivatives, for floats of 32 bits and fewer.

Three tasks: what series need of each element, in float64; the series, each as long as its element
needs; and the functions made of them. The cases and formulas are those of the reference in prims.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.heroes.registry import HEROES
from weft.backends.cpu.loops import render
from weft.backends.cpu.stub import f64, i64, ptr, translate, void
from weft.base.functional import lru
from weft.kernel import math as real
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.math_parts import where
from weft.kernel.nodes import F64, FLOATS, Value
from weft.kernel.program import Lowered, Place, Task, Type

# Elements of a piece of work, of the series and of what is around them.
PIECE, CHUNK = 1 << 10, 1 << 13
# Rows and columns of Temme's coefficients; from which a on his expansion serves.
ORDERS, TERMS, LARGE = 8, 24, 20.0
EULER = 0.5772156649015329

# Names that the stub is given; here so that it can be written.
UPPER = SLOPES = 0


def series(buffers: ptr, start: i64, stop: i64) -> void:
    """Sums and their slopes by a: a, x, eta, coefficients; sums, slopes."""
    first = ptr[buffers, 0]
    second = ptr[buffers, 1]
    angles = ptr[buffers, 2]
    table = ptr[buffers, 3]
    sums = ptr[buffers, 4]
    slopes = ptr[buffers, 5]
    for n in range(start, stop):
        a = f64[first, n]
        x = f64[second, n]
        value = f64(1.0)
        slope = f64(0.0)
        if a >= LARGE and x > a * 0.3 and x < a * 2.35:
            eta = f64[angles, n]
            mu = (x - a) / a
            ratio = f64(1.0)
            if eta != 0.0:
                ratio = mu / eta
            value = f64(0.0)
            for row in range(i64(ORDERS)):
                line = f64(0.0)
                rise = f64(0.0)
                for column in range(i64(TERMS)):
                    rise = rise * eta + line
                    line = line * eta + f64[table, row * TERMS + column]
                value = value / a + line
                order = f64(ORDERS - 1 - row)
                slope = slope / a - (rise * ratio + line * order) / a
        elif UPPER == 1 and a < 1.0 and x < 1.5:
            term = f64(1.0)
            value = f64(0.0)
            for k in range(i64(1), i64(30)):
                count = f64(k)
                term = term * (0.0 - x / count)
                value = value + term / (a + count)
        elif x <= a or x <= 1.0:
            term = f64(1.0)
            change = f64(0.0)
            for k in range(i64(1), i64(2000)):
                divisor = a + f64(k)
                ratio = x / divisor
                if SLOPES == 1:
                    change = (change - term / divisor) * ratio
                    slope = slope + change
                term = term * ratio
                value = value + term
                if term <= value * 1e-12:
                    if change * change <= slope * slope * 1e-24:
                        break
        elif x > a:
            b = x + 1.0 - a
            d = 1.0 / b
            c = f64(1e300)
            slope_c = f64(0.0)
            slope_d = d * d
            value = d
            slope = d
            for k in range(i64(1), i64(4000)):
                count = f64(k)
                b = b + 2.0
                top = count * (a - count)
                lower = top * d + b
                slope_lower = count * d + top * slope_d - 1.0
                slope_c = (count - top * slope_c / c) / c - 1.0
                c = b + top / c
                d = 1.0 / lower
                slope_d = 0.0 - slope_lower * d * d
                step = c * d
                slope_step = slope_c / c - slope_lower * d
                value = value * step
                slope = slope + slope_step
                if (step - 1.0) * (step - 1.0) <= 1e-24:
                    if SLOPES == 0 or slope_step * slope_step <= slope * slope * 1e-22:
                        break
            slope = value * slope
        f64[sums, n] = value
        f64[slopes, n] = slope


@lru(1)
def coefficients() -> tuple[int, ...]:
    """Taylor coefficients of Temme's c_k(eta) as bits, last order and highest power first.

    With mu - log(1 + mu) = eta**2 / 2, c_0 = 1/mu - 1/eta and c_k = c_(k-1)' / eta plus what
    cancels the pole (DLMF 8.12.8 to 8.12.11).
    """
    size = TERMS + 2 * ORDERS + 2
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, size + 1):
        inner = sum((i * mu[i] * mu[n + 1 - i] for i in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - inner) / (n + 1))
    inverse = [Fraction(1)]
    for n in range(1, size):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    first = row = inverse[1:]
    rows: list[list[float]] = []
    for _ in range(ORDERS):
        rows.append([float(v) for v in row[TERMS - 1 :: -1]])
        row = [(n + 2) * row[n + 2] - row[1] * first[n] for n in range(len(row) - 2)]
    return tuple(int(v) for v in np.array(rows[::-1]).reshape(-1).view(np.int64))


class Element:
    """One element: a and x in float64, and what all formulas are made of."""

    def __init__(self, k: Builder, a: Value, x: Value) -> None:
        self.k = k
        self.a, self.x = a, x
        self.zero, self.one = k.const(0.0, F64), k.const(1.0, F64)
        self.mu = k.div(k.sub(x, a), a)
        large = k.ge(a, k.const(LARGE, F64))
        low, high = (k.mul(a, k.const(n, F64)) for n in (0.3, 2.35))
        self.large = large
        self.temme = k.and_(large, k.and_(k.gt(x, low), k.lt(x, high)))
        self.series = k.or_(k.le(x, a), k.le(x, self.one))

    def number(self, n: float) -> Value:
        return self.k.const(n, F64)

    def excess(self) -> Value:
        """log(x / a) - mu."""
        return self.k.sub(real.log1p(self.k, self.mu), self.mu)

    def eta(self) -> Value:
        """The signed root of 2 (mu - log(1 + mu))."""
        k, mu = self.k, self.mu
        root = k.sqrt(k.mul(self.excess(), self.number(-2.0)))
        close = k.lt(k.abs(mu), self.number(1e-5))
        bent = k.horner(mu, (7 / 36, -1 / 3, 1.0))
        eta = k.select(close, k.mul(mu, bent), k.copysign(root, mu))
        return where(k, k.not_(self.temme), 0.0, eta)

    def stirling(self) -> Value:
        """lgamma(a) without its leading terms, for large a."""
        inverse = self.k.div(self.one, self.a)
        square = self.k.mul(inverse, inverse)
        return self.k.mul(inverse, self.k.horner(square, (1 / 1260, -1 / 360, 1 / 12)))

    def prefactor(self) -> Value:
        """x**a exp(-x) / gamma(a + 1)."""
        k, a = self.k, self.a
        power = k.sub(k.mul(a, real.log(k, self.x)), self.x)
        small = k.sub(power, real.lgamma(k, k.add(a, self.one)))
        far = k.sub(k.mul(a, self.excess()), self.stirling())
        size = real.exp(k, k.select(self.large, far, small))
        below = k.sqrt(k.mul(a, self.number(2.0 * math.pi)))
        return k.div(size, k.select(self.large, below, self.one))


def _share(e: Element, total: Value, eta: Value, upper: bool) -> Value:
    """The part of the distribution below x, or above it."""
    k, a, x = e.k, e.a, e.x
    factor = e.prefactor()
    lower, higher = k.mul(factor, total), k.mul(k.mul(a, factor), total)
    value = k.sub(e.one, lower if upper else higher)
    value = k.select(e.series, value, higher) if upper else k.select(e.series, lower, value)
    if upper:
        grown = real.lgamma(k, k.add(a, e.one))
        tiny = k.mul(a, k.fma(a, e.number(math.pi**2 / 12), e.number(-EULER)))
        grown = k.select(k.lt(a, e.number(1e-5)), tiny, grown)
        exponent = k.sub(k.mul(a, real.log(k, x)), grown)
        rest = k.mul(k.mul(real.exp(k, exponent), a), total)
        small = k.sub(k.neg(real.expm1(k, exponent)), rest)
        corner = k.and_(k.lt(a, e.one), k.lt(x, e.number(1.5)))
        value = k.select(corner, small, value)
    square = k.mul(k.mul(a, eta), k.mul(eta, e.number(-0.5)))
    bell = k.div(real.exp(k, square), k.sqrt(k.mul(a, e.number(2.0 * math.pi))))
    side = k.mul(eta, k.sqrt(k.mul(a, e.number(0.5))))
    tail = k.mul(bell, total)
    side, tail = (side, tail) if upper else (k.neg(side), k.neg(tail))
    uniform = k.fma(real.erfc(k, side), e.number(0.5), tail)
    return k.select(e.temme, uniform, value)


def _slope(e: Element, total: Value, change: Value, eta: Value, sample: bool) -> Value:
    """The derivative of the lower function by a, or of a sample x by a."""
    k, a, x = e.k, e.a, e.x
    log_x = real.log(k, x)
    shifted = k.select(e.series, k.add(a, e.one), a)
    common = k.fma(total, k.sub(log_x, real.digamma(k, shifted)), change)
    slope = k.select(e.series, common, k.neg(k.mul(a, common)))
    ratio = k.div(e.mu, where(k, k.eq(eta, e.zero), 1.0, eta))
    ratio = where(k, k.eq(eta, e.zero), 1.0, ratio)
    half = k.mul(eta, e.number(0.5))
    inner = k.sub(k.sub(e.mu, k.mul(half, eta)), k.div(e.number(0.5), a))
    uniform = k.sub(k.sub(k.sub(half, ratio), k.mul(total, inner)), change)
    uniform = k.mul(uniform, real.exp(k, e.stirling()))
    slope = k.select(e.temme, uniform, slope)
    if sample:
        return k.neg(k.mul(slope, k.div(x, a)))
    return k.mul(slope, e.prefactor())


def _finished(name: str, e: Element, total: Value, change: Value, eta: Value) -> Value:
    """The result with its edges."""
    k, a, x, zero = e.k, e.a, e.x, e.zero
    endless = e.number(math.inf)
    unknown = k.or_(k.isnan(a), k.isnan(x))
    if name in ("igamma", "igammac"):
        upper = name == "igammac"
        value = _share(e, total, eta, upper)
        value = where(k, k.eq(a, endless), math.nan, value)
        value = where(k, k.or_(k.eq(x, endless), k.eq(a, zero)), 0.0 if upper else 1.0, value)
        value = where(k, k.eq(x, zero), 1.0 if upper else 0.0, value)
        none = k.and_(k.eq(a, zero), k.eq(x, zero))
        wrong = k.or_(k.or_(k.lt(x, zero), k.lt(a, zero)), k.or_(none, unknown))
    else:
        value = _slope(e, total, change, eta, name == "random_gamma_grad")
        value = where(k, k.or_(k.eq(a, endless), k.eq(x, endless)), math.nan, value)
        value = where(k, k.eq(x, zero), 0.0, value)
        wrong = k.or_(k.or_(k.lt(x, zero), k.le(a, zero)), unknown)
    return where(k, wrong, math.nan, value)


def _kernel(name: str, count: int, buffers: list[Any], written: list[tuple[int, Value]]) -> Task:
    """A task that computes values for every element."""
    at = affine(0, {"p0": 1})
    body = [Store(place, at, value) for place, value in written]
    made = [Buffer(dtype, size, role) for dtype, size, role, _ in buffers]
    kernel = Kernel(name, made, ("p0", count), body)
    return Task(render(kernel), name, tuple([b[3] for b in buffers]), count, CHUNK)


def lowering(name: str) -> Any:
    """The lowering of one of the functions."""
    return lambda ins, outs, params: lower(name, ins, outs)


def lower(name: str, ins: list[Type], outs: list[Type]) -> Lowered | None:
    """The tasks, or None for float64 and operands that are broadcast."""
    (out,), count = outs, prod(outs[0].shape)
    dtype, at = out.dtype, affine(0, {"p0": 1})
    if dtype not in FLOATS or dtype == F64 or any(t.shape != out.shape for t in ins):
        return None

    def operands(k: Builder) -> list[Value]:
        return [k.cast(k.load(i, dtype, at), F64) for i in range(2)]

    given = [(dtype, count, "in", Place("in", i)) for i in range(2)]
    held = [(F64, count, "out", Place("scratch", i)) for i in range(5)]
    k = Builder()
    a, x = operands(k)
    before = [(2, a), (3, x), (4, Element(k, a, x).eta())]
    tasks = [_kernel("before", count, [*given, *held[:3]], before)]
    names = {"UPPER": int(name == "igammac"), "SLOPES": int("grad" in name)}
    places = [Place("scratch", 0), Place("scratch", 1), Place("scratch", 2)]
    places += [Place("numbers", coefficients()), Place("scratch", 3), Place("scratch", 4)]
    tasks.append(Task(_text(tuple(names.items())), "series", tuple(places), count, PIECE))
    k = Builder()
    a, x = operands(k)
    eta, total, change = (k.load(i, F64, at) for i in (2, 3, 4))
    value = k.cast(_finished(name, Element(k, a, x), total, change, eta), dtype)
    read = [b[:2] + ("in",) + b[3:] for b in held[2:]]
    result = (dtype, count, "out", Place("out", 0))
    tasks.append(_kernel("after", count, [*given, *read, result], [(5, value)]))
    return Lowered(tasks, (8 * count,) * 5)


@lru(8)
def _text(names: tuple[tuple[str, Any], ...]) -> str:
    known: dict[str, Any] = dict(names) | {"ORDERS": ORDERS, "TERMS": TERMS, "LARGE": LARGE}
    return translate([series], names=known)


for _name in ("igamma", "igammac", "igamma_grad_a", "random_gamma_grad"):
    HEROES[_name] = lowering(_name)
