"""NumPy references of the special functions: error, gamma and Bessel families.

Everything is computed in float64 and rounded once to the operands' dtype. In float64 the error is
a few ULP, except near the zeros of lgamma and digamma on the negative axis (there the absolute
error is a few ULP of the terms that cancel).
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from weft.kernel import special_tables as tables

Array = np.ndarray

_LOG_SQRT_TWO_PI = 0.9189385332046727


def in_double(fun: Callable[..., Array]) -> Callable[..., Array]:
    """Makes `fun`, written for float64 arrays of one shape, work for every float dtype."""

    @functools.wraps(fun)
    def wrapper(*operands: Array) -> Array:
        dtype = np.asarray(operands[0]).dtype
        arrays = [np.asarray(x).astype(np.float64) for x in operands]
        if len(arrays) > 1:
            arrays = list(np.broadcast_arrays(*arrays))
        with np.errstate(all="ignore"):
            return np.asarray(fun(*arrays)).astype(dtype, copy=False)

    return wrapper


def polynomial(t: Array, coefficients: Sequence[float]) -> Array:
    """Horner's rule, highest power first."""
    total = np.full_like(t, coefficients[0])
    for c in coefficients[1:]:
        total *= t
        total += c
    return total


def chebyshev(t: Array, coefficients: Sequence[float]) -> Array:
    """Clenshaw's sum of a Chebyshev series, last term first."""
    twice = t + t
    b1 = b2 = np.zeros_like(t)
    for c in coefficients[:-1]:
        b1, b2 = twice * b1 - b2 + c, b1
    return t * b1 - b2 + coefficients[-1]


def piecewise(pieces: Sequence[tuple[Array, Callable[..., Array]]], *operands: Array) -> Array:
    """Evaluates on each element the function of the first condition that holds there, else NaN."""
    out = np.full(operands[0].shape, np.nan)
    free = np.ones(operands[0].shape, bool)
    for condition, fun in pieces:
        chosen = condition & free
        free &= ~chosen
        if chosen.any():
            out[chosen] = fun(*(x[chosen] for x in operands))
    return out


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """x * y as a rounded product and its error (Dekker, Numer. Math. 18, 1971)."""

    def split(v: Array) -> tuple[Array, Array]:
        scaled = v * 134217729.0
        high = scaled - (scaled - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = split(x), split(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y as a rounded sum and its error (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


# Error functions.


def _erf_centre(x: Array) -> Array:
    return x * polynomial(2.0 * x * x - 1.0, tables.ERF)


def _erfc_right(x: Array) -> Array:
    """erfc for x >= 0: exp(-x^2) with the square carried to twice the precision."""
    x = np.minimum(x, 30.0)
    square, low = two_product(x, x)
    scaled = polynomial((x - 3.0) / (x + 3.0), tables.ERFCX) / (1.0 + 2.0 * x)
    return np.exp(-square) * (scaled - scaled * low)


@in_double
def erf(x: Array) -> Array:
    size = np.abs(x)
    return piecewise(
        [
            (size <= 1.0, _erf_centre),
            (size > 1.0, lambda v: np.copysign(1.0 - _erfc_right(np.abs(v)), v)),
        ],
        x,
    )


@in_double
def erfc(x: Array) -> Array:
    return piecewise(
        [
            (np.abs(x) <= 0.5, lambda v: 1.0 - _erf_centre(v)),
            (x > 0, _erfc_right),
            (x < 0, lambda v: 2.0 - _erfc_right(-v)),
        ],
        x,
    )


# The gamma family.


def stirling_correction(x: Array) -> Array:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x >= 8 (DLMF 5.11.1)."""
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(tables.BERNOULLI[:10], 1)]
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, terms[::-1])


def lgamma1p(x: Array) -> Array:
    """lgamma(1 + x) for |x| <= 1/2, accurate near 0."""
    # The sum makes lgamma(1) +0 rather than -0.
    return x * (x - 1.0) * polynomial(2.0 * x, tables.LGAMMA_NEAR_ONE) + 0.0


def _lgamma_near_two(x: Array) -> Array:
    return (x - 1.0) * (x - 2.0) * polynomial((x - 2.25) / 0.75, tables.LGAMMA_NEAR_TWO)


def _shift_down(x: Array) -> tuple[Array, Array]:
    """For x in [3, 171]: x - n in [2, 3) and the product (x - 1) ... (x - n)."""
    steps = np.floor(x) - 2.0
    product = np.ones_like(x)
    for k in range(1, int(steps.max(initial=0.0)) + 1):
        product *= np.where(k <= steps, x - k, 1.0)
    return x - steps, product


def _lgamma_shifted(x: Array) -> Array:
    rest, product = _shift_down(x)
    return _lgamma_near_two(rest) + np.log(product)


def _lgamma_large(x: Array) -> Array:
    # Written so that it overflows only where lgamma does.
    value = (x - 0.5) * (np.log(x) - 1.0) + (_LOG_SQRT_TWO_PI - 0.5 + stirling_correction(x))
    return np.where(np.isinf(x), np.inf, value)


def _sin_pi(x: Array) -> Array:
    """sin(pi x), up to its sign, without the loss of a rounded multiple of pi."""
    return np.sin(np.pi * (x - np.rint(x)))


def _lgamma_reflected(x: Array) -> Array:
    sine = _sin_pi(x)
    value = np.log(np.pi / np.abs(x * sine)) - lgamma_double(-x)
    return np.where(sine == 0.0, np.inf, value)


def lgamma_double(x: Array) -> Array:
    """lgamma of float64 arrays."""
    return piecewise(
        [
            (x == -np.inf, np.abs),
            (np.abs(x) < 0.5, lambda v: lgamma1p(v) - np.log(np.abs(v))),
            (x < 0.0, _lgamma_reflected),
            (x < 1.5, lambda v: lgamma1p(v - 1.0)),
            (x < 3.0, _lgamma_near_two),
            (x < 8.0, _lgamma_shifted),
            (x >= 8.0, _lgamma_large),
        ],
        x,
    )


lgamma = in_double(lgamma_double)


def _digamma_near_root(x: Array) -> Array:
    distance = (x - tables.DIGAMMA_ROOT) - tables.DIGAMMA_ROOT_LOW
    return distance * polynomial(x - 2.0, tables.DIGAMMA)


def _digamma_shifted(x: Array) -> Array:
    total = np.zeros_like(x)
    steps = np.floor(x) - 2.0
    for k in range(int(steps.max(initial=0.0)), 0, -1):
        total += np.where(k <= steps, 1.0 / (x - k), 0.0)
    return _digamma_near_root(x - steps) + total


def _digamma_large(x: Array) -> Array:
    # DLMF 5.11.2.
    terms = [b / (2 * k) for k, b in enumerate(tables.BERNOULLI[:10], 1)]
    inverse = 1.0 / x
    square = inverse * inverse
    return np.log(x) - (0.5 * inverse + square * polynomial(square, terms[::-1]))


def _digamma_reflected(x: Array) -> Array:
    rest = x - np.rint(x)
    value = digamma_double(1.0 - x) - np.pi / np.tan(np.pi * rest)
    return np.where(rest == 0.0, np.nan, value)


def digamma_double(x: Array) -> Array:
    """digamma of float64 arrays; NaN at the poles."""
    return piecewise(
        [
            (x == 0.0, lambda v: np.full_like(v, np.nan)),
            (x < 0.0, _digamma_reflected),
            (x < 1.0, lambda v: _digamma_near_root(v + 1.0) - 1.0 / v),
            (x < 3.0, _digamma_near_root),
            (x < 8.0, _digamma_shifted),
            (x >= 8.0, _digamma_large),
        ],
        x,
    )


digamma = in_double(digamma_double)


# Modified Bessel functions.


@in_double
def bessel_i0e(x: Array) -> Array:
    def far(v: Array) -> Array:
        return chebyshev(16.0 / v - 1.0, tables.BESSEL_I0E_FAR) / np.sqrt(v)

    size = np.abs(x)
    near = size <= 8.0
    pieces = [
        (near, lambda v: chebyshev(v * 0.25 - 1.0, tables.BESSEL_I0E_NEAR)),
        (size > 8.0, far),
    ]
    return piecewise(pieces, size)


@in_double
def bessel_i1e(x: Array) -> Array:
    def near(v: Array) -> Array:
        return v * chebyshev(np.abs(v) * 0.25 - 1.0, tables.BESSEL_I1E_NEAR)

    def far(v: Array) -> Array:
        size = np.abs(v)
        return np.copysign(chebyshev(16.0 / size - 1.0, tables.BESSEL_I1E_FAR) / np.sqrt(size), v)

    size = np.abs(x)
    return piecewise([(size <= 8.0, near), (size > 8.0, far)], x)
