"""The incomplete gamma and beta functions, zeta and polygamma of one element, as stubs.

Everything is float64; edge cases answer as JAX does. ``table`` holds the coefficients; how exact a
series has to be is a name, so that narrower results cost less. The references in prims run them as
Python.
"""

from __future__ import annotations

from typing import Any

from weft.kernel.kinds import (
    digamma,
    erfc,
    exp,
    expm1,
    f64,
    floor,
    i64,
    log,
    log1p,
    power,
    ptr,
    sqrt,
    stack,
    static,
    void,
)

# From here on Stirling's series and Temme's expansion hold to full precision.
LARGE = 20.0
COUNT = 12  # terms of zeta that are summed one by one
INFINITE, UNKNOWN = float("inf"), float("nan")
TWO_PI, LOG_ROOT_TWO_PI = 6.283185307179586, 0.9189385332046727


def horner(table: ptr, first: i64, size: i64, t: f64) -> f64:
    """A polynomial, highest power first."""
    total = f64[table, first]
    for i in range(first + 1, first + size):
        total = total * t + f64[table, i]
    return total


def absolute(x: f64) -> f64:
    return x if x >= 0.0 else -x


def stirling(table: ptr, x: f64, *, STIRLING: static, STIRLING_SIZE: static) -> f64:
    """lgamma(x) without its leading terms, for x from 8 on."""
    inverse = 1.0 / x
    return inverse * horner(table, i64(STIRLING), i64(STIRLING_SIZE), inverse * inverse)


def lgamma_near_one(table: ptr, x: f64, *, NEAR_ONE: static, NEAR_ONE_SIZE: static) -> f64:
    """lgamma(1 + x) for abs(x) up to 1/2."""
    return x * (x - 1.0) * horner(table, i64(NEAR_ONE), i64(NEAR_ONE_SIZE), 2.0 * x) + 0.0


def lgamma_near_two(table: ptr, x: f64, *, NEAR_TWO: static, NEAR_TWO_SIZE: static) -> f64:
    """For x from 3/2 to 3."""
    inner = horner(table, i64(NEAR_TWO), i64(NEAR_TWO_SIZE), (x - 2.25) / 0.75)
    return (x - 1.0) * (x - 2.0) * inner


def fall(x: f64, steps: i64) -> f64:
    """(x - 1) ... (x - steps)."""
    product = f64(1.0)
    for i in range(i64(1), steps + 1):
        product = product * (x - f64(i))
    return product


def lgamma_positive(table: ptr, x: f64) -> f64:
    """For x from 1/2 on."""
    if x < 1.5:
        return lgamma_near_one(table, x - 1.0)
    if x < 3.0:
        return lgamma_near_two(table, x)
    if x < 8.0:
        steps = i64(x) - 2
        return lgamma_near_two(table, x - f64(steps)) + log(fall(x, steps))
    rest = LOG_ROOT_TWO_PI - 0.5 + stirling(table, x)
    return (x - 0.5) * (log(x) - 1.0) + rest


def gamma_positive(table: ptr, x: f64) -> f64:
    """gamma(x) for x from 1 to 170."""
    if x < 3.0:
        return exp(lgamma_positive(table, x))
    steps = i64(x) - 2
    return fall(x, steps) * exp(lgamma_near_two(table, x - f64(steps)))


def digamma_near(
    table: ptr, x: f64, *, PSI_NEAR: static, PSI_NEAR_SIZE: static, ROOT: static, ROOT_LOW: static
) -> f64:
    """For x from 1 to 3, around the root."""
    apart = (x - ROOT) - ROOT_LOW
    return apart * horner(table, i64(PSI_NEAR), i64(PSI_NEAR_SIZE), x - 2.0)


def digamma_positive(table: ptr, x: f64, *, PSI_FAR: static, PSI_FAR_SIZE: static) -> f64:
    """For x above 0."""
    if x < 1.0:
        return digamma_near(table, x + 1.0) - 1.0 / x
    if x < 3.0:
        return digamma_near(table, x)
    if x < 8.0:
        steps = i64(x) - 2
        total = f64(0.0)
        for i in range(steps, i64(0), -1):
            total = total + 1.0 / (x - f64(i))
        return digamma_near(table, x - f64(steps)) + total
    inverse = 1.0 / x
    square = inverse * inverse
    tail = square * horner(table, i64(PSI_FAR), i64(PSI_FAR_SIZE), square)
    return log(x) - (0.5 * inverse + tail)


# --- incomplete gamma functions -------------------------------------------------------------------


def excess_ratio(table: ptr, m: f64, *, EXCESS: static, EXCESS_SIZE: static) -> f64:
    """(log(1 + m) - m) / m**2 for m from -0.4 to 0.6."""
    return horner(table, i64(EXCESS), i64(EXCESS_SIZE), 2.0 * m - 0.2)


def excess(table: ptr, x: f64, a: f64, m: f64) -> f64:
    """log(x / a) - m where m = (x - a) / a."""
    if m >= -0.4 and m <= 0.6:
        return m * m * excess_ratio(table, m)
    return log(x / a) - m


def prefactor(table: ptr, a: f64, x: f64, *, SINGLE: static) -> f64:
    """x**a exp(-x) / gamma(a + 1)."""
    if a < LARGE and SINGLE == 1:
        return exp(a * log(x) - x - lgamma_positive(table, a + 1.0))
    if a < LARGE:
        x = min(x, f64(1500.0))
        half = exp(-0.5 * x)
        return power(x, a) * half / gamma_positive(table, a + 1.0) * half
    exponent = a * excess(table, x, a, (x - a) / a) - stirling(table, a)
    return exp(exponent) / sqrt(TWO_PI * a)


def series(sums: ptr, a: f64, x: f64, *, SLOPES: static, SMALL_STEP: static) -> f64:
    """The sum of x**k / ((a + 1) ... (a + k)), and its slope by a in ``sums``."""
    term = f64(1.0)
    total = f64(1.0)
    slope = f64(0.0)
    slopes = f64(0.0)
    for k in range(i64(1), i64(2000)):
        divisor = a + f64(k)
        ratio = x / divisor
        if SLOPES == 1:
            slope = (slope - term / divisor) * ratio
            slopes = slopes + slope
        term = term * ratio
        total = total + term
        if term <= SMALL_STEP * total and absolute(slope) <= SMALL_STEP * absolute(slopes):
            break
    f64[sums, 0] = slopes
    return total


def fraction(sums: ptr, a: f64, x: f64, *, SLOPES: static, SMALL_STEP: static) -> f64:
    """Legendre's continued fraction by Lentz's method, and its slope by a in ``sums``."""
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
        if SLOPES == 1:
            slope_c = (count - top * slope_c / c) / c - 1.0
        c = b + top / c
        d = 1.0 / lower
        step = c * d
        value = value * step
        change = f64(0.0)
        if SLOPES == 1:
            slope_d = -(slope_lower * d * d)
            change = slope_c / c - slope_lower * d
            slope = slope + change
        if absolute(step - 1.0) <= 2.0 * SMALL_STEP:
            if absolute(change) <= 2.0 * SMALL_STEP * absolute(slope):
                break
    f64[sums, 0] = value * slope
    return value


def bent(table: ptr, a: f64, x: f64) -> f64:
    """eta / mu, where eta**2 / 2 = mu - log(1 + mu) and mu = x / a - 1."""
    mu = (x - a) / a
    if mu >= -0.4 and mu <= 0.6:
        return sqrt(-2.0 * excess_ratio(table, mu))
    return sqrt(-2.0 * (log(x / a) - mu) / (mu * mu))


def temme_tail(
    table: ptr,
    sums: ptr,
    a: f64,
    eta: f64,
    ratio: f64,
    *,
    TEMME: static,
    ORDERS: static,
    TERMS: static,
    SLOPES: static,
) -> f64:
    """The sum of Temme's expansion, and what it changes by with a in ``sums``."""
    total = f64(0.0)
    slope = f64(0.0)
    for row in range(i64(ORDERS)):
        line = f64(0.0)
        rise = f64(0.0)
        for column in range(i64(TERMS)):
            if SLOPES == 1:
                rise = rise * eta + line
            line = line * eta + f64[table, TEMME + row * TERMS + column]
        total = total / a + line
        order = f64(ORDERS - 1 - row)
        slope = slope / a - (rise * ratio + line * order) / a
    f64[sums, 0] = slope
    return total


def is_temme(a: f64, x: f64) -> i64:
    return i64(1) if a >= LARGE and x > 0.3 * a and x < 2.35 * a else i64(0)


def temme(table: ptr, sums: ptr, a: f64, x: f64, side: f64) -> f64:
    """The part below x (side -1) or above it (side 1), by the uniform expansion."""
    ratio = bent(table, a, x)
    eta = (x - a) / a * ratio
    bell = exp(-0.5 * a * eta * eta) / sqrt(TWO_PI * a)
    tail = temme_tail(table, sums, a, eta, 1.0 / ratio)
    return 0.5 * erfc(side * eta * sqrt(0.5 * a)) + side * bell * tail


def upper_small(table: ptr, a: f64, x: f64) -> f64:
    """The part above x for a < 1, x < 1.5, without cancellation."""
    exponent = a * log(x) - lgamma_near_one(table, a)
    if a > 0.5:
        exponent = a * log(x) - lgamma_positive(table, a + 1.0)
    term = f64(1.0)
    total = f64(0.0)
    for k in range(i64(1), i64(30)):
        term = term * (-x / f64(k))
        total = total + term / (a + f64(k))
    return -expm1(exponent) - exp(exponent) * a * total


def igamma(table: ptr, a: f64, x: f64) -> f64:
    sums = stack(8)
    if x < 0.0 or a < 0.0 or a != a or x != x:
        return UNKNOWN
    if x == 0.0:
        return f64(UNKNOWN) if a == 0.0 else f64(0.0)
    if x == INFINITE or a == 0.0:
        return 1.0
    if a == INFINITE:
        return UNKNOWN
    if is_temme(a, x) == 1:
        return temme(table, sums, a, x, f64(-1.0))
    if x <= max(a, f64(1.0)):
        return prefactor(table, a, x) * series(sums, a, x)
    return 1.0 - a * prefactor(table, a, x) * fraction(sums, a, x)


def igammac(table: ptr, a: f64, x: f64) -> f64:
    sums = stack(8)
    if x < 0.0 or a < 0.0 or a != a or x != x:
        return UNKNOWN
    if x == 0.0:
        return f64(UNKNOWN) if a == 0.0 else f64(1.0)
    if x == INFINITE or a == 0.0:
        return 0.0
    if a == INFINITE:
        return UNKNOWN
    if is_temme(a, x) == 1:
        return temme(table, sums, a, x, f64(1.0))
    if a < 1.0 and x < 1.5:
        return upper_small(table, a, x)
    if x <= max(a, f64(1.0)):
        return 1.0 - prefactor(table, a, x) * series(sums, a, x)
    return a * prefactor(table, a, x) * fraction(sums, a, x)


def scaled_slope(table: ptr, a: f64, x: f64) -> f64:
    """The derivative of igamma by a, over the prefactor."""
    sums = stack(8)
    if is_temme(a, x) == 1:
        mu = (x - a) / a
        shape = bent(table, a, x)
        eta = mu * shape
        ratio = 1.0 / shape
        tail = temme_tail(table, sums, a, eta, ratio)
        inner = mu - 0.5 * eta * eta - 0.5 / a
        slope = 0.5 * eta - ratio - tail * inner - f64[sums, 0]
        return slope * exp(stirling(table, a))
    if x <= max(a, f64(1.0)):
        total = series(sums, a, x)
        return total * (log(x) - digamma_positive(table, a + 1.0)) + f64[sums, 0]
    value = fraction(sums, a, x)
    return -(a * (value * (log(x) - digamma_positive(table, a)) + f64[sums, 0]))


def slope_or_edge(table: ptr, a: f64, x: f64) -> f64:
    if x < 0.0 or a <= 0.0 or a != a or x != x:
        return UNKNOWN
    if x == 0.0:
        return 0.0
    if a == INFINITE or x == INFINITE:
        return UNKNOWN
    return scaled_slope(table, a, x)


def igamma_grad_a(table: ptr, a: f64, x: f64) -> f64:
    slope = slope_or_edge(table, a, x)
    if slope == 0.0 or slope != slope:
        return slope
    return slope * prefactor(table, a, x)


def random_gamma_grad(table: ptr, a: f64, x: f64) -> f64:
    slope = slope_or_edge(table, a, x)
    if slope == 0.0 or slope != slope:
        return slope
    return -(slope * (x / a))


# --- the incomplete beta function -----------------------------------------------------------------


def nonzero(x: f64) -> f64:
    return f64(1e-300) if x == 0.0 else x


def beta_fraction(a: f64, b: f64, x: f64, *, SMALL_STEP: static) -> f64:
    """The continued fraction of DLMF 8.17.22, by the modified Lentz method."""
    c = f64(1.0)
    d = 1.0 / nonzero(1.0 - (a + b) / (a + 1.0) * x)
    value = d
    for k in range(i64(1), i64(20000)):
        m = f64(k)
        twice = a + 2.0 * m
        even = m * (b - m) / (twice - 1.0) / twice * x
        d = 1.0 / nonzero(1.0 + even * d)
        c = nonzero(1.0 + even / c)
        value = value * (c * d)
        odd = -(a + m) / twice * ((a + b) + m) / (twice + 1.0) * x
        d = 1.0 / nonzero(1.0 + odd * d)
        c = nonzero(1.0 + odd / c)
        step = c * d
        value = value * step
        if absolute(step - 1.0) <= 2.0 * SMALL_STEP:
            break
    return value


def beta_factor_mixed(table: ptr, p: f64, q: f64, x: f64, y: f64) -> f64:
    """x**p y**q / (p B(p, q)) for p < 8 <= q."""
    exponent = p * (log(x * q) - 1.0) + (p + q - 0.5) * log1p(p / q)
    if x < 0.5:
        exponent = exponent + q * log1p(-x)
    else:
        exponent = exponent + q * log(y)
    exponent = exponent + (stirling(table, p + q) - stirling(table, q))
    return exp(exponent) / gamma_positive(table, p + 1.0)


def beta_factor(table: ptr, a: f64, b: f64, x: f64, y: f64, *, SINGLE: static) -> f64:
    """x**a y**b / (a B(a, b))."""
    if a < 8.0 and b < 8.0:
        if SINGLE == 1:
            gammas = lgamma_positive(table, a + 1.0) + lgamma_positive(table, b + 1.0)
            rest = lgamma_positive(table, a + b + 1.0) - gammas
            return exp(a * log(x) + b * log(y) + rest) * (b / (a + b))
        gammas = gamma_positive(table, a + 1.0) * gamma_positive(table, b + 1.0)
        tail = f64(0.0)
        if x < 0.5:
            tail = exp(b * log1p(-x))
        else:
            tail = power(y, b)
        ratio = gamma_positive(table, a + b + 1.0) / gammas
        return power(x, a) * tail * ratio * (b / (a + b))
    if a < 8.0:
        return beta_factor_mixed(table, a, b, x, y)
    if b < 8.0:
        return (b / a) * beta_factor_mixed(table, b, a, y, x)
    # around x = a / (a + b), with sum and product to twice the precision
    total = a + b
    back = total - a
    low = (a - (total - back)) + (b - back)
    product = x * total
    above = (product - a) + (lost(x, total, product) + x * low)
    exponent = a * excess(table, x * total, a, above / a)
    exponent = exponent + b * excess(table, y * total, b, -above / b)
    corrections = stirling(table, a) + stirling(table, b) - stirling(table, total)
    return exp(exponent - corrections) * sqrt(b / (TWO_PI * a * total))


def lost(x: f64, y: f64, product: f64) -> f64:
    """What the rounded product of two numbers leaves out (Dekker)."""
    scaled_x = x * 134217729.0
    high_x = scaled_x - (scaled_x - x)
    low_x = x - high_x
    scaled_y = y * 134217729.0
    high_y = scaled_y - (scaled_y - y)
    low_y = y - high_y
    return ((high_x * high_y - product) + high_x * low_y + low_x * high_y) + low_x * low_y


def regularized_incomplete_beta(table: ptr, a: f64, b: f64, x: f64) -> f64:
    """The regularized incomplete beta function."""
    if a < 0.0 or b < 0.0 or x < 0.0 or x > 1.0 or a != a or b != b or x != x:
        return UNKNOWN
    at_zero = i64(1) if a == 0.0 or b == INFINITE else i64(0)
    at_one = i64(1) if b == 0.0 or a == INFINITE else i64(0)
    if at_zero + at_one == 2:
        return UNKNOWN
    if x == 1.0 or at_zero == 1:
        if x == 0.0:
            return 0.0
        return 1.0
    if x == 0.0 or at_one == 1:
        return 0.0
    mean = (a + 1.0) / (a + b + 2.0)
    if max(a, b) <= 1.0:
        mean = f64(0.998) if b <= a else f64(0.002)
    if x < mean:
        return beta_factor(table, a, b, x, 1.0 - x) * beta_fraction(a, b, x)
    return 1.0 - beta_factor(table, b, a, 1.0 - x, x) * beta_fraction(b, a, 1.0 - x)


# --- zeta and polygamma ---------------------------------------------------------------------------


def zeta_term(q: f64, k: f64, s: f64) -> f64:
    """(q + k)**-s, corrected for the rounding of q + k."""
    base = q + k
    back = base - q
    error = (q - (base - back)) + (k - back)
    raised = power(base, -s)
    return raised - raised * (s * (error / base))


def zeta_positive(table: ptr, s: f64, q: f64, *, BERNOULLI: static, BERNOULLI_SIZE: static) -> f64:
    """For s > 1 and q > 0: some terms, and what Euler and Maclaurin say of the others."""
    total = f64(0.0)
    for i in range(i64(COUNT - 1), i64(-1), -1):
        total = total + zeta_term(q, f64(i), s)
    end = q + f64(COUNT)
    last = zeta_term(q, f64(COUNT), s)
    if last == 0.0:
        return total
    factor = last * s / end
    rest = f64(0.0)
    for i in range(i64(BERNOULLI_SIZE)):
        rest = rest + factor * f64[table, BERNOULLI + i]
        twice = f64(2 * i + 1)
        factor = factor * (s + twice) / end * (s + (twice + 1.0)) / end
    return total + (last * (end / (s - 1.0) + 0.5) + rest)


def zeta(table: ptr, s: f64, q: f64) -> f64:
    """The Hurwitz zeta function."""
    if s != s or q != q:
        return UNKNOWN
    if s == 1.0:
        return INFINITE
    even = i64(1) if floor(0.5 * s) * 2.0 == s and s < INFINITE else i64(0)
    if q <= 0.0 and floor(q) == q:
        return f64(INFINITE) if s > 1.0 and even == 1 else f64(UNKNOWN)
    if s == INFINITE or q == INFINITE or s < 1.0:
        return UNKNOWN
    if q > 0.0:
        return zeta_positive(table, s, q)
    if floor(s) != s:
        return UNKNOWN
    rest = q - floor(q)
    other = zeta_positive(table, s, 1.0 - rest) - zeta_positive(table, s, 1.0 - q)
    total = zeta_positive(table, s, rest)
    return total + other if even == 1 else total - other


def polygamma(table: ptr, n: f64, x: f64, *, FACTORIAL: static) -> f64:
    """The derivative of digamma of order n."""
    if n == 0.0:
        return digamma_positive(table, x) if x > 0.0 and x < INFINITE else digamma(x)
    if n < 1.0 or n == INFINITE or n != n or floor(n) != n:
        return UNKNOWN
    value = zeta(table, n + 1.0, x)
    if n <= 170.0:
        value = value * f64[table, FACTORIAL + i64(n)]
    else:
        size = exp(lgamma_positive(table, n + 1.0) + log(absolute(value)))
        value = size if value >= 0.0 else -size
    return -value if floor(0.5 * n) * 2.0 == n else value


# --- tasks ----------------------------------------------------------------------------------------

F: Any = f64


def of_two(buffers: ptr, start: i64, stop: i64, *, FUNCTION: static) -> void:
    """A function of two operands, element by element: table, operands, result."""
    table = ptr[buffers, 0]
    for n in range(start, stop):
        x = f64(F[ptr[buffers, 1], n])
        y = f64(F[ptr[buffers, 2], n])
        F[ptr[buffers, 3], n] = F(FUNCTION(table, x, y))


def of_three(buffers: ptr, start: i64, stop: i64, *, FUNCTION: static) -> void:
    """A function of three operands, element by element: table, operands, result."""
    table = ptr[buffers, 0]
    for n in range(start, stop):
        x = f64(F[ptr[buffers, 1], n])
        y = f64(F[ptr[buffers, 2], n])
        z = f64(F[ptr[buffers, 3], n])
        F[ptr[buffers, 4], n] = F(FUNCTION(table, x, y, z))
