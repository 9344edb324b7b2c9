"""Minimax fits behind the coefficients of weft/kernel/math_*.py (needs mpmath).

Run ``python tools/fit.py NAME`` to print the coefficients of one fit, highest power first.
"""

from __future__ import annotations

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


def rational(
    function: Callable[[Any], Any],
    low: Any,
    high: Any,
    above: int,
    below: int,
    weight: Callable[[Any], Any],
    dtype: Any = np.float32,
) -> tuple[list[Any], list[Any], Any]:
    """Numerator and denominator, lowest coefficient of the denominator 1, and the error."""
    xs = grid(low, high, 24 * (above + below + 3))
    target = [function(x) for x in xs]
    scale = [mpf(1)] * len(xs)
    factors: list[Any] = []
    for _ in range(12):
        columns = [[x**p for x in xs] for p in range(above + 1)]
        columns += [
            [-t * x**p for x, t in zip(xs, target, strict=True)] for p in range(1, below + 1)
        ]
        weights = [weight(x) / s for x, s in zip(xs, scale, strict=True)]
        factors = exchange(columns, target, weights)
        scale = [1 + sum(factors[above + p] * x**p for p in range(1, below + 1)) for x in xs]
    top = [rounding(c, dtype) for c in factors[: above + 1]]
    bottom = [mpf(1), *(rounding(c, dtype) for c in factors[above + 1 :])]

    def value(x: Any) -> Any:
        return mp.polyval(top[::-1], x) / mp.polyval(bottom[::-1], x)

    error = max(abs(weight(x) * (value(x) - t)) for x, t in zip(xs, target, strict=True))
    return top[::-1], bottom[::-1], error


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
