"""Hypergeometric functions of ``scipy.special``, by series, transformations and asymptotics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.division import varying
from weft.numpy.operands import inexact, is_complex, real
from weft.scipy.special_gamma import digamma, gamma

_MOST_TERMS, _TOGETHER = 2000, 4


def _sum_series(ratio: Any, like: Any, weight: Any = None) -> Any:
    """The sum over k of t_k, t_0 = 1 and t_(k+1) = ratio(k) t_k.

    With ``weight`` the sum of t_k h_k, h_0 = 0 and h_(k+1) = h_k + weight(k): the derivative of a
    series whose terms' logarithms have slopes h_k.
    """
    like = jnp.asarray(like)
    eps = float(dtypes.finfo(like.dtype).eps)

    def unfinished(state: Any) -> Any:
        k, total, term, *slope = state
        size = jnp.abs(term) + sum(jnp.abs(term * h) for h in slope)
        return (k < _MOST_TERMS) & jnp.any(size > eps * jnp.abs(total))

    def step(state: Any) -> Any:
        k, total, term, *slope = state
        term = term * ratio(k)
        slope = [h + weight(k) for h in slope]
        return k + 1, total + (term * slope[0] if slope else term), term, *slope

    def steps(state: Any) -> Any:
        # several terms for every look at whether all elements are done
        for _ in range(_TOGETHER):
            state = step(state)
        return state

    one, zero = jnp.ones_like(like), jnp.zeros_like(like)
    # The first step is made here, so that a zero start does not look finished.
    start = (one, one) if weight is None else (zero, one, zero)
    return lax.while_loop(unfinished, steps, step((like.dtype.type(0), *start)))[1]


def _if_any(wanted: Any, fun: Callable[[], Any], like: Any) -> Any:
    """What a function gives, if any element wants it; else ones."""
    return lax.cond(jnp.any(wanted), fun, lambda: jnp.ones_like(like))


def _is_minus_integer(x: Any) -> Any:
    return (x <= 0) & (x == jnp.round(x))


# Kummer's function.


def _hyp1f1_series(a: Any, b: Any, x: Any) -> Any:
    return _sum_series(lambda k: (a + k) / ((b + k) * (k + 1)) * x, x)


def _hyp1f1_large(a: Any, b: Any, x: Any) -> Any:
    """exp(-x) 1F1(a; b; x) for large positive x (DLMF 13.7.1)."""
    one = jnp.ones_like(x)

    def step(k: Any, state: Any) -> Any:
        term, total = state
        grown = term * (b - a + k) * (1 - a + k) / (k + 1) / x
        # An asymptotic series: it stops where its terms stop falling.
        term = jnp.where(jnp.abs(grown) < jnp.abs(term), grown, 0)
        return term, total + term

    total = lax.fori_loop(0, 60, lambda k, s: step(k.astype(x.dtype), s), (one, one))[1]
    return gamma(b) / gamma(a) * x ** (a - b) * total


@custom_jvp
def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    a, b, x = jnp.asarray(a), jnp.asarray(b), jnp.asarray(x)
    # Kummer's transformation makes all terms of one sign where x is negative.
    flip = (x < 0) & ~_is_minus_integer(a)
    top, point = jnp.where(flip, b - a, a), jnp.where(flip, -x, x)
    # Below the limit the series needs few terms, and does not overflow in float32.
    limit = 100 if x.dtype == np.float64 else 40
    large = (point > limit) & ~_is_minus_integer(top)
    near = _hyp1f1_series(top, b, jnp.where(large, 1, point))
    far = _if_any(
        large,
        lambda: _hyp1f1_large(jnp.where(large, top, 1), b, jnp.where(large, point, limit)),
        point,
    )
    # Half the exponential at a time: it overflows before the product does.
    half = jnp.exp(jnp.where(flip, 0, 0.5 * point))
    grown = half * far * half
    value = jnp.where(large, grown, jnp.exp(jnp.where(flip, x, 0)) * near)
    value = jnp.where((a == b) & (a != 0), jnp.exp(x), value)
    return jnp.where(a == 0, 1, jnp.where(b == 0, np.inf, value))


def _hyp1f1_slope(a: Any, b: Any, x: Any, weight: Any) -> Any:
    return _sum_series(lambda k: (a + k) / (b + k) * x / (k + 1), x, weight)


_hyp1f1.defjvps(
    lambda da, out, a, b, x: _hyp1f1_slope(a, b, x, lambda k: 1 / (a + k)) * da,
    lambda db, out, a, b, x: _hyp1f1_slope(a, b, x, lambda k: -1 / (b + k)) * db,
    lambda dx, out, a, b, x: a / b * _hyp1f1(a + 1, b + 1, x) * dx,
)


def hyp1f1(a: Any, b: Any, x: Any) -> Array:
    """Return the confluent hypergeometric function 1F1(a; b; x).

    Args:
        a: the parameter of the numerator.
        b: the parameter of the denominator.
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import hyp1f1
        >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 4)
        1.7183
    """
    operands = real("hyp1f1", *map(jnp.asarray, (a, b, x)))
    return _hyp1f1(*jnp.broadcast_arrays(*operands))


# Gauss's function.


def _hyp2f1_series(a: Any, b: Any, c: Any, x: Any) -> Any:
    return _sum_series(lambda k: (a + k) * (b + k) / ((c + k) * (k + 1)) * x, x)


def _near_one(a: Any, b: Any, c: Any, s: Any, wanted: Any) -> Any:
    """For x just below 1 and d = c - a - b >= 0, in powers of s = 1 - x."""
    d = c - a - b
    whole = (d == jnp.round(d)) & wanted
    apart = jnp.where(whole, 0.5, d)
    # Two series where d is not an integer (DLMF 15.8.4) ...
    first = gamma(c) * gamma(apart) / (gamma(c - a) * gamma(c - b))
    second = gamma(c) * gamma(-apart) / (gamma(a) * gamma(b)) * s**apart
    two = first * _hyp2f1_series(a, b, 1 - apart, s)
    two = two + second * _hyp2f1_series(c - a, c - b, 1 + apart, s)
    # ... and a finite sum and a series with logarithms where it is (DLMF 15.8.10).
    m = jnp.where(whole, d, 0)
    parts = _if_any(whole, lambda: _finite_part(a, b, m, s) + _logarithmic_part(a, b, m, s), two)
    return jnp.where(whole, parts, two)


def _finite_part(a: Any, b: Any, m: Any, s: Any) -> Any:
    def unfinished(state: Any) -> Any:
        return jnp.any(state[0] < m)

    def step(state: Any) -> Any:
        k, term, total = state
        total = total + jnp.where(k < m, term, 0)
        bottom = jnp.where(k + 1 < m, 1 - m + k, 1)
        return k + 1, term * (a + k) * (b + k) / bottom / (k + 1) * s, total

    start = (s.dtype.type(0), jnp.ones_like(s), jnp.zeros_like(s))
    total = lax.while_loop(unfinished, step, start)[2]
    safe = jnp.where(m > 0, m, 1)
    front = gamma(safe) * gamma(a + b + m) / (gamma(a + m) * gamma(b + m))
    return jnp.where(m > 0, front * total, 0)


def _logarithmic_part(a: Any, b: Any, m: Any, s: Any) -> Any:
    eps = float(dtypes.finfo(s.dtype).eps)
    log = jnp.log(s)

    def bracket(k: Any) -> Any:
        own = digamma(k + 1) + digamma(k + m + 1)
        return log - own + digamma(a + k + m) + digamma(b + k + m)

    def unfinished(state: Any) -> Any:
        k, term, total = state
        return (k < 200) & jnp.any(jnp.abs(term * log) > eps * jnp.abs(total))

    def step(state: Any) -> Any:
        k, term, total = state
        total = total + term * bracket(k)
        return k + 1, term * (a + m + k) * (b + m + k) / (k + 1) / (k + m + 1) * s, total

    # The first term is added here, so that a zero total does not look finished.
    start = step((s.dtype.type(0), 1 / gamma(m + 1), jnp.zeros_like(s)))
    total = lax.while_loop(unfinished, step, start)[2]
    sign = jnp.where(m % 2 == 0, 1, -1)
    return -sign * s**m * gamma(a + b + m) / (gamma(a) * gamma(b)) * total


def _hyp2f1_inside(a: Any, b: Any, c: Any, x: Any) -> Any:
    """For 0 <= x < 1.

    A form that an element does not need sees a number for which it ends at once.
    """
    d, s = c - a - b, 1 - x
    close = x > 0.9
    turn = close & (d < 0)
    # Euler's transformation makes d positive.
    p, q = jnp.where(turn, c - a, a), jnp.where(turn, c - b, b)
    direct = _hyp2f1_series(a, b, c, jnp.where(close, 0, x))
    ends = _is_minus_integer(p) | _is_minus_integer(q)
    plain = _if_any(ends & close, lambda: _hyp2f1_series(p, q, c, jnp.where(ends & close, x, 0)), x)
    wanted = close & ~ends
    safe = jnp.where(wanted, s, 1e-30)
    p, q = jnp.where(ends, 0.5, p), jnp.where(ends, 0.5, q)
    near = _if_any(wanted, lambda: _near_one(p, q, c, safe, wanted), x)
    near = jnp.where(ends, plain, near) * jnp.where(turn, s, 1) ** jnp.where(turn, d, 1)
    return jnp.where(close, near, direct)


def _beyond_one(a: Any, b: Any, c: Any, x: Any) -> Any:
    """For x > 1: real only where the series is that of (1 - x) to a whole power."""
    power = jnp.where(b == c, a, b)
    whole = ((a == c) | (b == c)) & (power == jnp.round(power))
    return jnp.where(whole, jnp.where(x > 1, 1 - x, -1) ** -power, np.inf)


@custom_jvp
def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    a, b, c, x = varying.together(*(jnp.asarray(v) for v in (a, b, c, x)))
    ends = _is_minus_integer(a) | _is_minus_integer(b)
    polynomial = _if_any(ends, lambda: _hyp2f1_series(a, b, c, jnp.where(ends, x, 0)), x)
    # Pfaff's transformation takes the negative axis to [0, 1).
    left = x < 0
    inside = (x < 1) & ~ends
    point = jnp.where(inside, jnp.where(left, x / (x - 1), x), 0)
    value = _hyp2f1_inside(a, jnp.where(left, c - b, b), c, point)
    value = jnp.where(left & inside, jnp.where(left, 1 - x, 1) ** -a * value, value)
    value = jnp.where(ends, polynomial, jnp.where(x > 1, _beyond_one(a, b, c, x), value))
    d = c - a - b
    at_one = _if_any(x == 1, lambda: gamma(c) * gamma(d) / (gamma(c - a) * gamma(c - b)), x)
    value = jnp.where((x == 1) & ~ends, jnp.where(d > 0, at_one, np.inf), value)
    value = jnp.where(_is_minus_integer(c), np.inf, value)
    return jnp.where((x == 0) | (((a == 0) | (b == 0)) & (c != 0)), 1, value)


def _hyp2f1_slope(a: Any, b: Any, c: Any, x: Any, weight: Any) -> Any:
    return _sum_series(lambda k: (a + k) * (b + k) / (c + k) / (k + 1) * x, x, weight)


_hyp2f1.defjvps(
    lambda da, out, a, b, c, x: _hyp2f1_slope(a, b, c, x, lambda k: 1 / (a + k)) * da,
    lambda db, out, a, b, c, x: _hyp2f1_slope(a, b, c, x, lambda k: 1 / (b + k)) * db,
    lambda dc, out, a, b, c, x: _hyp2f1_slope(a, b, c, x, lambda k: -1 / (c + k)) * dc,
    lambda dx, out, a, b, c, x: a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x) * dx,
)


def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Array:
    """Return Gauss's hypergeometric function 2F1(a, b; c; x) for x < 1 (and polynomials anywhere).

    Derivatives by a, b and c are taken from the series, for |x| < 1.

    Args:
        a: the first parameter of the numerator.
        b: the second parameter of the numerator.
        c: the parameter of the denominator.
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import hyp2f1
        >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
        1.3863
    """
    given = inexact("hyp2f1", *map(jnp.asarray, (a, b, c, x)))
    if is_complex(given[0]):
        raise TypeError(f"hyp2f1 is a function of real numbers, got dtype {given[0].dtype}")
    return _hyp2f1(*jnp.broadcast_arrays(*given))
