"""NumPy references of the incomplete gamma and beta functions and of their derivatives.

Incomplete gamma: a power series, Legendre's continued fraction, or Temme's uniform expansion for
large a; incomplete beta: Didonato's continued fraction. Edge cases answer as JAX does.
"""

import functools
from collections.abc import Callable

import numpy as np

from weft.kernel import special_tables as tables
from weft.prims.special_reference import (
    Array,
    digamma_double,
    erfc,
    gamma_positive,
    in_double,
    lgamma1p,
    lgamma_double,
    piecewise,
    polynomial,
    stirling_correction,
    two_product,
    two_sum,
)

_EPS = 2.0**-53
# From here on Stirling's series and Temme's expansion hold to full precision.
_LARGE = 20.0


def log1pmx_ratio(m: Array) -> Array:
    """(log(1 + m) - m) / m^2 for m in [-0.4, 0.6]."""
    return polynomial(2.0 * m - 0.2, tables.LOG1PMX)


def log_ratio_excess(x: Array, a: Array, m: Array) -> Array:
    """log(x / a) - m where m = (x - a) / a."""
    near = (m >= -0.4) & (m <= 0.6)
    return np.where(near, m * m * log1pmx_ratio(np.clip(m, -0.4, 0.6)), np.log(x / a) - m)


# The prefactor D(a, x) = x^a exp(-x) / gamma(a + 1).


def _prefactor_small(a: Array, x: Array) -> Array:
    x = np.minimum(x, 1500.0)
    half = np.exp(-0.5 * x)
    return np.power(x, a) * half / gamma_positive(a + 1.0) * half


def _prefactor_large(a: Array, x: Array) -> Array:
    exponent = a * log_ratio_excess(x, a, (x - a) / a) - stirling_correction(a)
    return np.exp(exponent) / np.sqrt(2.0 * np.pi * a)


def _prefactor(a: Array, x: Array) -> Array:
    return piecewise([(a < _LARGE, _prefactor_small), (a >= _LARGE, _prefactor_large)], a, x)


def _series(a: Array, x: Array) -> tuple[Array, Array]:
    """S = sum_k x^k / ((a + 1) ... (a + k)), so that P = D S (DLMF 8.11.4), and dS/da."""
    term, total = np.ones_like(x), np.ones_like(x)
    slope, slopes = np.zeros_like(x), np.zeros_like(x)
    for k in range(1, 2000):
        divisor = a + k
        slope = (slope - term / divisor) * (x / divisor)
        term = term * (x / divisor)
        total += term
        slopes += slope
        if not (np.any(term > _EPS * total) or np.any(np.abs(slope) > _EPS * np.abs(slopes))):
            break
    return total, slopes


def _fraction(a: Array, x: Array) -> tuple[Array, Array]:
    """H with Q = a D H, Legendre's continued fraction (DLMF 8.9.2), and dH/da.

    Lentz's method on x + 1 - a - 1 (1 - a) / (x + 3 - a - ...), with the derivative of log H
    summed alongside; an element keeps its value once a step no longer moves it.
    """
    b = x + 1.0 - a
    d = 1.0 / b
    c, slope_c = np.full_like(x, np.inf), np.zeros_like(x)
    slope_d = d * d
    value, slope = d, d
    active = np.ones(x.shape, bool)
    for k in range(1, 4000):
        b = b + 2.0
        numerator = k * (a - k)
        lower = numerator * d + b
        slope_lower = k * d + numerator * slope_d - 1.0
        slope_c = (k - numerator * slope_c / c) / c - 1.0
        c = b + numerator / c
        d = 1.0 / lower
        slope_d = -slope_lower * d * d
        step = c * d
        slope_step = slope_c / c - slope_lower * d
        value = np.where(active, value * step, value)
        slope = np.where(active, slope + slope_step, slope)
        active = active & (np.abs(step - 1.0) > 2.0 * _EPS)
        active |= np.abs(slope_step) > 2.0 * _EPS * np.abs(slope)
        if not active.any():
            break
    return value, value * slope


@functools.cache
def _temme_coefficients() -> list[list[float]]:
    """Taylor coefficients of c_k(eta), highest power first (DLMF 8.12.8 to 8.12.11).

    With mu^2 / 2 - ... = eta^2 / 2, mu mu' = eta (1 + mu) gives mu(eta); c_0 = 1/mu - 1/eta and
    c_k = c_(k-1)' / eta + (-1)^k g_k / mu, the constant g_k cancelling the pole.
    """
    orders, terms = 14, 34
    size = terms + 2 * orders + 2
    from fractions import Fraction

    mu = [Fraction(0), Fraction(1)]
    for n in range(2, size + 1):
        inner = sum((k * mu[k] * mu[n + 1 - k] for k in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - inner) / (n + 1))
    # 1/mu = (1/eta) / (1 + mu_2 eta + ...): reciprocal of a power series.
    inverse = [Fraction(1)]
    for n in range(1, size):
        inverse.append(-sum((mu[k + 1] * inverse[n - k] for k in range(1, n + 1)), Fraction(0)))
    first = inverse[1:]
    rows, row = [], first
    for _ in range(orders):
        rows.append([float(v) for v in row[terms - 1 :: -1]])
        row = [(n + 2) * row[n + 2] - row[1] * first[n] for n in range(len(row) - 2)]
    return rows


def _eta(a: Array, x: Array) -> tuple[Array, Array, Array]:
    """mu = x/a - 1, eta (the signed root of 2 (mu - log(1 + mu))) and mu / eta."""
    mu = (x - a) / a
    near = (mu >= -0.4) & (mu <= 0.6)
    far = np.where(near, -0.5, (np.log(x / a) - mu) / (mu * mu))
    shape = np.sqrt(-2.0 * np.where(near, log1pmx_ratio(np.clip(mu, -0.4, 0.6)), far))
    return mu, mu * shape, 1.0 / shape


def _temme_tail(a: Array, eta: Array) -> Array:
    total = np.zeros_like(a)
    for row in reversed(_temme_coefficients()):
        total = total / a + polynomial(eta, row)
    return total


def _temme(a: Array, x: Array, side: float) -> Array:
    """P (side = -1) or Q (side = 1) by the uniform expansion (DLMF 8.12.3, 8.12.4)."""
    _, eta, _ = _eta(a, x)
    bell = np.exp(-0.5 * a * eta * eta) / np.sqrt(2.0 * np.pi * a)
    return 0.5 * erfc(side * eta * np.sqrt(0.5 * a)) + side * bell * _temme_tail(a, eta)


def _temme_slope(a: Array, x: Array) -> Array:
    """dP/da over exp(-a eta^2 / 2) / sqrt(2 pi a), by differentiating the expansion."""
    mu, eta, ratio = _eta(a, x)
    tail = _temme_tail(a, eta)
    slope = np.zeros_like(a)
    for k, row in reversed(list(enumerate(_temme_coefficients()))):
        degree = len(row) - 1
        derivative = [c * (degree - i) for i, c in enumerate(row[:-1])]
        change = -polynomial(eta, derivative) * ratio / a - polynomial(eta, row) * (k / a)
        slope = slope / a + change
    return -ratio + 0.5 * eta - tail * (mu - 0.5 * eta * eta - 0.5 / a) - slope


def _is_temme(a: Array, x: Array) -> Array:
    return (a >= _LARGE) & (x > 0.3 * a) & (x < 2.35 * a)


# The public incomplete gamma functions.


def _nan_like(*operands: Array) -> Array:
    return np.full_like(operands[0], np.nan)


def _lower_by_series(a: Array, x: Array) -> Array:
    return _prefactor(a, x) * _series(a, x)[0]


def _upper_by_fraction(a: Array, x: Array) -> Array:
    return a * _prefactor(a, x) * _fraction(a, x)[0]


def _upper_small(a: Array, x: Array) -> Array:
    """Q for a < 1, x < 1.5 without the cancellation of 1 - P."""
    log_gamma = lgamma_double(a + 1.0)
    small = a <= 0.5
    log_gamma = np.where(small, lgamma1p(np.where(small, a, 0.0)), log_gamma)
    exponent = a * np.log(x) - log_gamma
    power, term, total = np.exp(exponent), np.ones_like(x), np.zeros_like(x)
    for k in range(1, 30):
        term = term * (-x / k)
        total += term / (a + k)
    return -np.expm1(exponent) - power * a * total


@in_double
def igamma(a: Array, x: Array) -> Array:
    wrong = (x < 0) | (a < 0) | ((a == 0) & (x == 0)) | np.isnan(a) | np.isnan(x)
    return piecewise(
        [
            (wrong, _nan_like),
            (x == 0, lambda a, x: np.zeros_like(a)),
            ((x == np.inf) | (a == 0), lambda a, x: np.ones_like(a)),
            (a == np.inf, _nan_like),
            (_is_temme(a, x), lambda a, x: _temme(a, x, -1.0)),
            (x <= np.maximum(a, 1.0), _lower_by_series),
            (x > a, lambda a, x: 1.0 - _upper_by_fraction(a, x)),
        ],
        a,
        x,
    )


@in_double
def igammac(a: Array, x: Array) -> Array:
    wrong = (x < 0) | (a < 0) | ((a == 0) & (x == 0)) | np.isnan(a) | np.isnan(x)
    return piecewise(
        [
            (wrong, _nan_like),
            (x == 0, lambda a, x: np.ones_like(a)),
            ((x == np.inf) | (a == 0), lambda a, x: np.zeros_like(a)),
            (a == np.inf, _nan_like),
            (_is_temme(a, x), lambda a, x: _temme(a, x, 1.0)),
            ((a < 1.0) & (x < 1.5), _upper_small),
            (x <= np.maximum(a, 1.0), lambda a, x: 1.0 - _lower_by_series(a, x)),
            (x > a, _upper_by_fraction),
        ],
        a,
        x,
    )


def _series_slope(a: Array, x: Array) -> Array:
    """(dP/da) / D where the series serves."""
    total, slopes = _series(a, x)
    return total * (np.log(x) - digamma_double(a + 1.0)) + slopes


def _fraction_slope(a: Array, x: Array) -> Array:
    """(dP/da) / D where the continued fraction serves."""
    value, slope = _fraction(a, x)
    return -a * (value * (np.log(x) - digamma_double(a)) + slope)


def _slope_pieces(
    a: Array, x: Array, finish: Callable[[Array, Array, Array, bool], Array]
) -> Array:
    """The cases of derivatives by a; `finish` gets a, x, the scaled slope, and if it is Temme's."""
    wrong = (x < 0) | (a <= 0) | np.isnan(a) | np.isnan(x)
    return piecewise(
        [
            (wrong, _nan_like),
            (x == 0, lambda a, x: np.zeros_like(a)),
            (np.isinf(a) | np.isinf(x), _nan_like),
            (_is_temme(a, x), lambda a, x: finish(a, x, _temme_slope(a, x), True)),
            (x <= np.maximum(a, 1.0), lambda a, x: finish(a, x, _series_slope(a, x), False)),
            (x > a, lambda a, x: finish(a, x, _fraction_slope(a, x), False)),
        ],
        a,
        x,
    )


@in_double
def igamma_grad_a(a: Array, x: Array) -> Array:
    """Derivative of igamma by its first argument."""

    def finish(a: Array, x: Array, slope: Array, temme: bool) -> Array:
        return slope * _prefactor(a, x) * (np.exp(stirling_correction(a)) if temme else 1.0)

    return _slope_pieces(a, x, finish)


@in_double
def random_gamma_grad(a: Array, x: Array) -> Array:
    """Derivative of a Gamma(a, 1) sample by a: -(dP/da) / (dP/dx), where dP/dx = D a / x."""

    def finish(a: Array, x: Array, slope: Array, temme: bool) -> Array:
        return -slope * (x / a) * (np.exp(stirling_correction(a)) if temme else 1.0)

    return _slope_pieces(a, x, finish)


# The incomplete beta function.


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    """The continued fraction of DLMF 8.17.22, by the modified Lentz method."""
    tiny = 1e-300

    def nonzero(v: Array) -> Array:
        return np.where(v == 0.0, tiny, v)

    c = np.ones_like(x)
    d = 1.0 / nonzero(1.0 - (a + b) / (a + 1.0) * x)
    value = d.copy()
    active = np.ones(x.shape, bool)  # rounding errors of further steps would add up
    for m in range(1, 20000):
        twice = a + 2.0 * m
        even = m * (b - m) / (twice - 1.0) / twice * x
        odd = -(a + m) / twice * ((a + b) + m) / (twice + 1.0) * x
        for numerator in (even, odd):
            d = 1.0 / nonzero(1.0 + numerator * d)
            c = nonzero(1.0 + numerator / c)
            step = c * d
            value = np.where(active, value * step, value)
        active &= np.abs(step - 1.0) > 2.0 * _EPS
        if not active.any():
            break
    return value


def _beta_factor_large(a: Array, b: Array, x: Array, y: Array) -> Array:
    """x^a y^b / (a B(a, b)) for a, b >= 8, as a deviance around x = a / (a + b)."""
    total, low = two_sum(a, b)
    product, error = two_product(x, total)
    excess = (product - a) + (error + x * low)
    exponent = a * log_ratio_excess(x * total, a, excess / a)
    exponent = exponent + b * log_ratio_excess(y * total, b, -excess / b)
    corrections = stirling_correction(a) + stirling_correction(b) - stirling_correction(total)
    return np.exp(exponent - corrections) * np.sqrt(b / (2.0 * np.pi * a * total))


def _beta_factor_mixed(p: Array, q: Array, x: Array, y: Array) -> Array:
    """x^p y^q / (p B(p, q)) for p < 8 <= q."""
    exponent = p * (np.log(x * q) - 1.0) + (p + q - 0.5) * np.log1p(p / q)
    exponent = exponent + q * np.where(x < 0.5, np.log1p(-x), np.log(y))
    exponent = exponent + (stirling_correction(p + q) - stirling_correction(q))
    return np.exp(exponent) / gamma_positive(p + 1.0)


def _beta_factor_small(a: Array, b: Array, x: Array, y: Array) -> Array:
    """x^a y^b / (a B(a, b)) for a, b < 8."""
    gammas = gamma_positive(a + b + 1.0) / (gamma_positive(a + 1.0) * gamma_positive(b + 1.0))
    tail = np.where(x < 0.5, np.exp(b * np.log1p(-x)), np.power(y, b))
    return np.power(x, a) * tail * gammas * (b / (a + b))


def _beta_direct(a: Array, b: Array, x: Array, y: Array) -> Array:
    """I_x(a, b) for x below the mean, y = 1 - x."""
    factor = piecewise(
        [
            ((a < 8.0) & (b < 8.0), _beta_factor_small),
            (a < 8.0, _beta_factor_mixed),
            (b < 8.0, lambda a, b, x, y: (b / a) * _beta_factor_mixed(b, a, y, x)),
            (a >= 8.0, _beta_factor_large),
        ],
        a,
        b,
        x,
        y,
    )
    return factor * _beta_fraction(a, b, x)


@in_double
def regularized_incomplete_beta(a: Array, b: Array, x: Array) -> Array:
    at_zero = (a == 0) | (b == np.inf)
    at_one = (b == 0) | (a == np.inf)
    wrong = (a < 0) | (b < 0) | (x < 0) | (x > 1) | (at_zero & at_one)
    wrong |= np.isnan(a) | np.isnan(b) | np.isnan(x)
    below = x < (a + 1.0) / (a + b + 2.0)
    # For small a and b the value stays near b / (a + b) between the ends: take the smaller side.
    below = np.where(np.maximum(a, b) <= 1.0, x < np.where(b <= a, 0.998, 0.002), below)
    return piecewise(
        [
            (wrong, _nan_like),
            (((x == 0) | at_one) & (x != 1), lambda a, b, x: np.zeros_like(a)),
            ((x == 1) | at_zero, lambda a, b, x: np.ones_like(a)),
            (below, lambda a, b, x: _beta_direct(a, b, x, 1.0 - x)),
            (~below, lambda a, b, x: 1.0 - _beta_direct(b, a, 1.0 - x, x)),
        ],
        a,
        b,
        x,
    )
