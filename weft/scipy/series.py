"""Evaluation of Chebyshev series and polynomials on arrays, as short as the dtype allows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes


def chebyshev(x: Any, low: float, high: float, coefficients: Sequence[float]) -> Any:
    """A Chebyshev series (last term first) over [low, high], by Clenshaw's recurrence.

    Terms that cannot change a result of x's dtype are left out. The few that float32 needs are
    summed as a polynomial, which takes fewer steps. Outside of the interval, where the value is
    not used, x is held to it.
    """
    kind = x.dtype.type
    least = float(dtypes.finfo(x.dtype).eps) / 16 * max(map(abs, coefficients))
    start = next(i for i, c in enumerate(coefficients) if abs(c) > least)
    held = jnp.clip(x, kind(low), kind(high))
    t = (held - kind((low + high) / 2)) * kind(2 / (high - low))
    if x.dtype == np.float32:
        return horner(t, _as_polynomial(tuple(coefficients[start:])))
    twice = t + t
    *leading, constant = coefficients[start:]
    b1, b2 = jnp.full_like(t, leading[0]) if leading else jnp.zeros_like(t), jnp.zeros_like(t)
    for c in leading[1:]:
        b1, b2 = twice * b1 - b2 + kind(c), b1
    return t * b1 - b2 + kind(constant)


@functools.lru_cache(64)
def _as_polynomial(series: tuple[float, ...]) -> list[float]:
    """The coefficients of a Chebyshev series in powers, highest first; both last term first."""
    terms = np.array(series[::-1])
    powers, before, now = np.zeros((3, len(terms)))
    before[0] = 1.0  # T(0), T(1), T(n + 1) = 2 t T(n) - T(n - 1)
    powers += terms[0] * before
    if len(terms) > 1:
        now[1] = 1.0
    for term in terms[1:]:
        powers += term * now
        before, now = now, 2 * np.r_[0.0, now[:-1]] - before
    return powers[::-1].tolist()


def horner(x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial, highest power first."""
    kind = x.dtype.type
    total = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total = total * x + kind(c)
    return total


def in_single(fun: Any) -> Any:
    """Makes a function of float32 and float64 arrays take float16 and bfloat16, rounding once."""

    def wide(*operands: Any) -> Any:
        # A rule of differentiation may be given the plain number that the user passed.
        operands = tuple(jnp.asarray(x) for x in operands)
        dtype = operands[0].dtype
        if dtype.itemsize >= 4:
            return fun(*operands)
        out = fun(*(x.astype(np.float32) for x in operands))
        if isinstance(out, tuple):
            return tuple(y.astype(dtype) for y in out)
        return out.astype(dtype)

    return wide
