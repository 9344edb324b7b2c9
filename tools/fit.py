"""Minimax fits behind the coefficients of weft/kernel/math_*.py (needs mpmath).

Run ``python tools/fit.py NAME`` to print the coefficients of one fit, highest power first.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpmath import mp, mpf

mp.prec = 200


def grid(low: Any, high: Any, count: int) -> list[Any]:
    """Chebyshev points of an interval, both ends among them."""
    low, high = mpf(low), mpf(high)
    steps = (mp.cos(mp.pi * i / (count - 1)) for i in range(count))
    return [(low + high) / 2 + (low - high) / 2 * s for s in steps]


def exchange(columns: list[list[Any]], target: list[Any], weight: list[Any]) -> list[Any]:
    """Factors c that make max |weight * (sum c * column - target)| over the points smallest."""
    n, points = len(columns), len(target)
    # not symmetric: an even or odd basis could not tell the points apart
    chosen = [round(i * (points - 1) * 0.93 / max(n, 1)) for i in range(n + 1)]
    factors: list[Any] = []
    for _ in range(40):
        system = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for row, i in enumerate(chosen):
            for j in range(n):
                system[row, j] = columns[j][i]
            system[row, n] = (-1) ** row / weight[i]
            right[row] = target[i]
        try:
            solved = mp.lu_solve(system, right)
        except ZeroDivisionError:  # one odd column, symmetric points: the last factor is right
            break
        factors = [solved[j] for j in range(n)]
        level = abs(solved[n])
        error = [
            w * (sum(c * column[i] for c, column in zip(factors, columns, strict=True)) - t)
            for i, (t, w) in enumerate(zip(target, weight, strict=True))
        ]
        peak = max(abs(e) for e in error)
        if peak <= level * mpf("1.001"):
            break
        chosen = _alternating(error, n + 1)
        if len(chosen) <= n:  # a weight hides some of the extrema: what there is will do
            break
    return factors


def _alternating(error: list[Any], count: int) -> list[int]:
    """The places of ``count`` extrema of alternating sign, or of fewer if there are not as many."""
    peaks: list[int] = []
    for i, e in enumerate(error):
        if peaks and (e > 0) == (error[peaks[-1]] > 0):
            if abs(e) > abs(error[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        if len(peaks) == count + 1:
            ends = abs(error[peaks[0]]) < abs(error[peaks[-1]])
            peaks.pop(0 if ends else -1)
        else:
            low = min(
                range(len(peaks) - 1),
                key=lambda j: max(abs(error[peaks[j]]), abs(error[peaks[j + 1]])),
            )
            del peaks[low : low + 2]
    return peaks


def polynomial(
    function: Callable[[Any], Any],
    low: Any,
    high: Any,
    powers: Sequence[int],
    weight: Callable[[Any], Any],
    dtype: Any = np.float32,
    points: int = 0,
) -> tuple[list[Any], Any]:
    """Coefficients rounded to ``dtype`` one after the other, and the largest weighted error."""
    xs = grid(low, high, points or 24 * (len(powers) + 2))
    columns = [[x**p for x in xs] for p in powers]
    target = [function(x) for x in xs]
    weights = [weight(x) for x in xs]
    plain = [rounding(c, dtype) for c in exchange(columns, target, weights)]
    stepwise: list[Any] = []
    remaining = target
    for i in range(len(columns)):
        factors = exchange(columns[i:], remaining, weights) or plain[i:]
        stepwise.append(rounding(factors[0], dtype))
        remaining = residual(columns[i : i + 1], stepwise[-1:], remaining)

    def worst(factors: list[Any]) -> Any:
        rest = residual(columns, factors, target)
        return max(abs(r * w) for r, w in zip(rest, weights, strict=True))

    best = min(plain, stepwise, key=worst)
    return best[::-1], worst(best)


def residual(columns: list[list[Any]], factors: list[Any], target: list[Any]) -> list[Any]:
    """What a combination of columns leaves of the target."""
    return [
        t - sum(c * column[i] for c, column in zip(factors, columns, strict=True))
        for i, t in enumerate(target)
    ]


def rounding(x: Any, dtype: Any) -> Any:
    """The nearest number of a dtype."""
    if np.dtype(dtype) == np.float64:
        return mpf(float(x))
    with mp.workprec(np.finfo(dtype).nmant + 1):
        return +x


def show(name: str, coefficients: Sequence[Any], error: Any) -> None:
    """Print a fit as Python source."""
    print(f"{name}  # 2**{mp.nstr(mp.log(error, 2), 4)}")
    for c in coefficients:
        print(f"    {float(c)!r},")


# --- the fits -------------------------------------------------------------------------------------

TINY = mpf(2) ** -60


def odd(function: Callable[[Any], Any], first: Any) -> Callable[[Any], Any]:
    """(f(x) - x) / x**3 as a function of x**2."""

    def rest(z: Any) -> Any:
        x = mp.sqrt(z)
        return (function(x) - x) / x**3 if z > TINY else mpf(first)

    return rest


def at_zero(function: Callable[[Any], Any], limit: Any) -> Callable[[Any], Any]:
    """A function with a removable gap at 0."""
    return lambda x: function(x) if abs(x) > mpf(2) ** -50 else mpf(limit)


def floor_of(power: int, bits: int) -> Callable[[Any], Any]:
    """The weight abs(x)**power, but not below 2**-bits by much."""
    return lambda x: abs(x) ** power + mpf(2) ** -bits


def erf_over_x(z: Any) -> Any:
    x = mp.sqrt(z)
    return (mp.erf(x) / x if z > TINY else 2 / mp.sqrt(mp.pi)) - 1


def scaled_erfc(centre: Any) -> Callable[[Any], Any]:
    def value(t: Any) -> Any:
        a = centre * (1 + t) / (1 - t)
        return (3 * a + mpf(3) / 2) * mp.exp(a * a) * mp.erfc(a)

    return value


def erfcx_whole(t: Any) -> Any:
    """(3 x + 3/2) e**(x**2) erfc(x) for t = (x - 3) / (x + 3), up to infinity."""
    if t == 1:
        return 3 / mp.sqrt(mp.pi)
    x = 3 * (1 + t) / (1 - t)
    if x < 1000:
        return (3 * x + mpf(3) / 2) * mp.exp(x * x) * mp.erfc(x)
    z = 1 / (2 * x * x)
    return (3 + mpf(3) / 2 / x) * (1 - z + 3 * z**2 - 15 * z**3) / mp.sqrt(mp.pi)


@functools.cache
def quantile(p: Any) -> Any:
    """-ndtri(p) for p below 1/2, by Newton's method on logarithms."""
    x = mp.sqrt(-2 * mp.log(p)) if p < 0.1 else mpf(1)
    for _ in range(100):
        below = mp.erfc(x / mp.sqrt(2)) / 2
        density = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
        step = (mp.log(below) - mp.log(p)) * below / density
        x += step
        if abs(step) < mpf(2) ** -100:
            break
    return x


def inverse_erf(w: Any) -> Any:
    """erf_inv(x) / x for w = -log(1 - x**2), by Newton's method from a guess."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    tail = mp.exp(-w) / (1 + x)
    y = mp.erfinv(min(x, 1 - mpf(2) ** -40))
    for _ in range(40):
        step = (mp.erfc(y) - tail) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mpf(2) ** -150:
            break
    return y / x


def fits() -> dict[str, Callable[[], Any]]:
    """Every fit by name: what is fitted, where, with which powers, and how errors count."""
    f32, f64 = np.float32, np.float64
    ln2, root = mp.log(2), mp.sqrt(2)
    exp = at_zero(lambda x: (mp.exp(x) - 1 - x) / x**2, 0.5)
    exp2 = at_zero(lambda x: (2**x - 1) / x, ln2)
    log = at_zero(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3)
    log2 = at_zero(lambda f: (mp.log1p(f) - f) / f**2 / ln2, -1 / (2 * ln2))
    log2_whole = at_zero(lambda f: mp.log1p(f) / f / ln2, 1 / ln2)
    atanh = odd(lambda x: 2 * mp.atanh(x) - x, mpf(2) / 3)
    cosine = at_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24)
    s = ((root - 1) / (root + 1)) ** 2 * mpf("1.01")
    half, low, high = ln2 / 2 * mpf("1.01"), 1 / root - 1, root - 1
    turn, near_turn = (mp.pi / 4 * mpf("1.06")) ** 2, (mp.pi / 4 * mpf("1.01")) ** 2
    eighth = (mp.tan(mp.pi / 8) * mpf("1.001")) ** 2
    sine, sinh = odd(mp.sin, -mpf(1) / 6), odd(mp.sinh, mpf(1) / 6)
    even, turned = at_zero(lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z, 0.5), half**2
    arctan, arcsin = odd(mp.atan, -mpf(1) / 3), odd(mp.asin, mpf(1) / 6)
    c32, c64 = mpf("2.0419921875"), mpf("3.25")
    h32, h64 = scaled_erfc(c32), scaled_erfc(c64)

    def weighted_exp(x: Any) -> Any:
        return (x * x + mpf(2) ** -8) / mp.exp(x)

    def erf_weight(z: Any) -> Any:
        return 1 / (1 + erf_over_x(z))

    def relative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda t: 1 / function(t)

    def make(*arguments: Any) -> Callable[[], Any]:
        return lambda: polynomial(*arguments)

    def ndtri_centre(z: Any) -> Any:
        y = mp.sqrt(z)
        return quantile(mpf(0.5) - y) / y if z > TINY else mp.sqrt(2 * mp.pi)

    def ndtri_tail(t: Any) -> Any:
        z = 1 / (t + mpf("0.28"))
        return quantile(mp.exp(-z * z / 2)) / z

    def lgamma_near(t: Any) -> Any:
        y = t + mpf(5) / 2
        zeros = (y - 1) * (y - 2)
        return mp.loggamma(y) / zeros if abs(zeros) > TINY else mp.digamma(y) / (2 * y - 3)

    def lgamma_far(z: Any) -> Any:
        if z < TINY:
            return mpf(1) / 12
        x = 1 / mp.sqrt(z)
        stirling = (x - mpf(0.5)) * (mp.log(x) - 1) + mp.log(2 * mp.pi) / 2 - mpf(0.5)
        return (mp.loggamma(x) - stirling) * x

    def root_of_erfc(middle: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """The fourth root, and what an error of it is in its fourth power."""

        def fourth(t: Any) -> Any:
            return mp.sqrt(mp.sqrt(mp.erfc(t + middle)))

        return fourth, lambda t: 4 * fourth(t) ** 3

    def fifth(z: Any) -> Any:
        return (atanh(z) - mpf(2) / 3) / z if z > TINY else mpf(2) / 5

    def ends(centre: Any, right: str) -> tuple[Any, Any]:
        return tuple((mpf(a) - centre) / (mpf(a) + centre) for a in ("0.74", right))

    (root32, weight32), (root64, weight64) = root_of_erfc(0), root_of_erfc(3)
    one, square, plain = floor_of(1, 6), floor_of(2, 6), floor_of(0, 200)
    return {
        "exp32": make(exp, -half, half, range(5), weighted_exp, f32),
        "exp64": make(exp, -half, half, range(11), weighted_exp, f64),
        "exp2_32": make(exp2, -0.5, 0.5, range(6), one, f32),
        "exp2_64": make(exp2, -0.5, 0.5, range(12), one, f64),
        "exp2_middle": make(lambda x: mpf(2) ** x, -0.5, 0.5, range(7), plain, f64),
        "log32": make(log, low, high, range(8), floor_of(2, 9), f32),
        "log2_32": make(log2, low, high, range(9), one, f32),
        "atanh64": make(atanh, 0, s, range(8), floor_of(1, 9), f64),
        "log2_middle": make(log2_whole, low, high, range(13), relative(log2_whole), f64),
        "atanh_pair": make(fifth, 0, s, range(8), floor_of(2, 12), f64),
        "sinh32": make(sinh, 0, mpf("1.02"), range(4), one, f32),
        "sinh64": make(sinh, 0, mpf("1.02"), range(8), one, f64),
        "cosh_even32": make(even, 0, turned, range(3), one, f32),
        "cosh_even64": make(even, 0, turned, range(5), one, f64),
        "sinh_odd32": make(sinh, 0, turned, range(2), one, f32),
        "sinh_odd64": make(sinh, 0, turned, range(5), one, f64),
        "sin32": make(sine, 0, turn, range(3), one, f32),
        "cos32": make(cosine, 0, turn, range(3), square, f32),
        "sin_middle": make(sine, 0, turn, range(4), one, f64),
        "cos_middle": make(cosine, 0, turn, range(3), square, f64),
        "sin64": make(sine, 0, near_turn, range(6), one, f64),
        "cos64": make(cosine, 0, near_turn, range(6), square, f64),
        "atan32": make(arctan, 0, 1, range(9), one, f32),
        "atan64": make(arctan, 0, eighth, range(11), one, f64),
        "asin32": make(arcsin, 0, mpf("0.2501"), range(6), floor_of(1, 7), f32),
        "asin64": make(arcsin, 0, mpf("0.2501"), range(13), one, f64),
        "cbrt": make(lambda m: mp.cbrt(1 / m), 1 / root, root, range(6), mp.cbrt, f64),
        "erf_near32": make(erf_over_x, 0, mpf("1.21"), range(7), erf_weight, f32),
        "erf_near64": make(erf_over_x, 0, mpf("1.01"), range(13), erf_weight, f64),
        "erf_far32": make(root32, mpf("1.1"), mpf(4), range(8), weight32, f32),
        "erf_far64": make(root64, mpf(-2), mpf("2.95"), range(22), weight64, f64),
        "erfc32": make(h32, *ends(c32, "10.1"), range(9), relative(h32), f32),
        "erfcx32": make(erfcx_whole, -1, 1, range(12), relative(erfcx_whole), f32, 220),
        "lgamma_near": make(
            lgamma_near, mpf(-1.5), mpf(1.5), range(16), relative(lgamma_near), f64, 240
        ),
        "lgamma_far": make(
            lgamma_far,
            0,
            mpf("1.001") / 16,
            range(3),
            lambda z: mp.sqrt(z) + mpf(2) ** -8,
            f64,
            100,
        ),
        "ndtri_centre32": make(
            ndtri_centre,
            0,
            (mpf(0.5) - mp.exp(-2)) ** 2 * mpf("1.001"),
            range(10),
            relative(ndtri_centre),
            f32,
            150,
        ),
        "ndtri_tail32": make(
            ndtri_tail,
            1 / mpf("14.5") - mpf("0.28"),
            mpf("0.501") - mpf("0.28"),
            range(13),
            relative(ndtri_tail),
            f32,
            200,
        ),
        "erfc64": make(h64, *ends(c64, "27.3"), range(21), relative(h64), f64),
        **inverse_fits(),
        **bessel_fits(),
    }


def inverse_fits() -> dict[str, Callable[[], Any]]:
    """The pieces of erf_inv: name, centre, ends, degree; past the first in sqrt(w)."""
    rows = [
        ("erf_inv32_a", "2.5", "0", "5.01", 10, 1, np.float32),
        ("erf_inv32_b", "3", "2.235", "4.1", 9, 2, np.float32),
        ("erf_inv64_a", "3.125", "0", "6.255", 23, 1, np.float64),
        ("erf_inv64_b", "3.25", "2.499", "4.001", 19, 2, np.float64),
        ("erf_inv64_c", "5", "3.99", "6.1", 17, 2, np.float64),
    ]

    def make(
        centre: Any, low: Any, high: Any, degree: int, power: int, dtype: Any
    ) -> Callable[[], Any]:
        def value(t: Any) -> Any:
            return inverse_erf((t + centre) ** power)

        powers = range(degree + 1)
        return lambda: polynomial(
            value, low - centre, high - centre, powers, lambda t: 1 / value(t), dtype
        )

    return {
        name: make(mpf(centre), mpf(low), mpf(high), degree, power, dtype)
        for name, centre, low, high, degree, power, dtype in rows
    }


def bessel_fits() -> dict[str, Callable[[], Any]]:
    """I(x), the odd one over x, up to 8 in x**2; beyond exp(-x) sqrt(x) I(x) in 1 / x."""

    def near(order: int, t: Any) -> Any:
        x = mp.sqrt(t)
        return mp.besseli(order, x) / x**order if t > TINY else mpf(1) / (1 + order)

    def far(order: int, t: Any) -> Any:
        if t > mpf("0.001"):
            return mp.exp(-1 / t) * mp.besseli(order, 1 / t) / mp.sqrt(t)
        total, term = mpf(0), mpf(1)  # the series for large x, enough terms of it
        for i in range(12):
            total += term
            term *= -t * (4 * order**2 - (2 * i + 1) ** 2) / (8 * (i + 1))
        return total / mp.sqrt(2 * mp.pi)

    def make(value: Callable[[Any], Any], low: Any, high: Any, degree: int) -> Any:
        powers, weight = range(degree + 1), lambda t: 1 / value(t)
        return lambda: polynomial(value, low, high, powers, weight, np.float32, 160)

    fits: dict[str, Callable[[], Any]] = {}
    for order in (0, 1):
        fits[f"bessel{order}_near"] = make(functools.partial(near, order), 0, 64, 9)
        fits[f"bessel{order}_far"] = make(functools.partial(far, order), 0, mpf("0.125"), 6)
    return fits


if __name__ == "__main__":
    known = fits()
    for wanted in sys.argv[1:] or known:
        show(wanted, *known[wanted]())
