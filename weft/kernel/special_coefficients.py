"""The table of coefficients that the functions of `special_functions.py` read."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.kernel import special_tables as tables
from weft.kernel.nodes import F32, F64

# For results of 32 and of 64 bits: orders and terms of Temme's expansion, and when a series ends.
EXACTNESS = {F32: (8, 24, 1e-12), F64: (14, 34, 2.0**-53)}


@lru(2)
def temme(orders: int, terms: int) -> tuple[float, ...]:
    """Taylor coefficients of Temme's c_k(eta), last order and highest power first.

    With mu - log(1 + mu) = eta**2 / 2, c_0 = 1/mu - 1/eta and c_k = c_(k-1)' / eta plus what
    cancels the pole (DLMF 8.12.8 to 8.12.11).
    """
    size = terms + 2 * orders + 2
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, size + 1):
        inner = sum((i * mu[i] * mu[n + 1 - i] for i in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - inner) / (n + 1))
    inverse = [Fraction(1)]
    for n in range(1, size):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    first = row = inverse[1:]
    rows: list[list[float]] = []
    for _ in range(orders):
        rows.append([float(v) for v in row[terms - 1 :: -1]])
        row = [(n + 2) * row[n + 2] - row[1] * first[n] for n in range(len(row) - 2)]
    return tuple(v for line in reversed(rows) for v in line)


@lru(2)
def coefficients(dtype: np.dtype) -> tuple[dict[str, Any], tuple[int, ...]]:
    """What stubs are told of the table, and the table as bits."""
    orders, terms, step = EXACTNESS[dtype]
    bernoulli = list(enumerate(tables.BERNOULLI, 1))
    parts: dict[str, Any] = {
        "NEAR_ONE": tables.LGAMMA_NEAR_ONE,
        "NEAR_TWO": tables.LGAMMA_NEAR_TWO,
        "PSI_NEAR": tables.DIGAMMA,
        "EXCESS": tables.LOG1PMX,
        "STIRLING": [b / (2 * k * (2 * k - 1)) for k, b in bernoulli[9::-1]],
        "PSI_FAR": [b / (2 * k) for k, b in bernoulli[9::-1]],
        "BERNOULLI": [b / math.factorial(2 * k) for k, b in bernoulli],
        "FACTORIAL": [float(math.factorial(k)) for k in range(171)],
        "TEMME": temme(orders, terms),
    }
    names: dict[str, Any] = {"ORDERS": orders, "TERMS": terms, "SMALL_STEP": step}
    names["SINGLE"] = int(dtype == F32)
    names |= {"ROOT": tables.DIGAMMA_ROOT, "ROOT_LOW": tables.DIGAMMA_ROOT_LOW}
    numbers: list[float] = []
    for name, values in parts.items():
        names |= {name: len(numbers), f"{name}_SIZE": len(values)}
        numbers += values
    return names, tuple(int(v) for v in np.array(numbers).view(np.int64))


def names_for(name: str, dtype: np.dtype) -> dict[str, Any]:
    """What the functions are given for one of them, and results of a dtype."""
    names = dict(coefficients(dtype)[0])
    # in float64 slopes decide too when a sum is long enough: what is left out may add up
    names["SLOPES"] = int("grad" in name or dtype == F64)
    if name == "regularized_incomplete_beta":  # its complement may be what is asked for
        names["SMALL_STEP"] = EXACTNESS[F64][2]
    return names
