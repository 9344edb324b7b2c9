"""The gamma family of ``scipy.special``: gamma, beta, their logarithms, incomplete forms, zeta."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.kernel.special_tables import BERNOULLI
from weft.numpy.operands import inexact, is_complex, real
from weft.numpy.promotion import concrete, convert_operand, ensure_array
from weft.scipy.series import horner

_HALF_LOG_TWO_PI = 0.9189385332046727
# Terms of Stirling's series, B_2k / (2k (2k - 1)), highest first (DLMF 5.11.1).
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:8], 1))[::-1]


def gammaln(x: Any) -> Array:
    """Return the logarithm of |gamma(x)|.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import gammaln
        >>> round(float(gammaln(5.0)), 4)
        3.1781
    """
    (x,) = inexact("gammaln", x)
    return lax.lgamma(x)


def gammasgn(x: Any) -> Array:
    """Return the sign of gamma(x); NaN at its poles.

    Args:
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import gammasgn
        >>> float(gammasgn(-0.5))
        -1.0
    """
    (x,) = real("gammasgn", x)
    whole = jnp.floor(x)
    pole = ((x < 0) & (x == whole)) | jnp.isnan(x)
    half = whole * 0.5
    odd = (x < 0) & (half != jnp.floor(half))
    negative = odd | ((x == 0) & jnp.signbit(x))
    kind = x.dtype.type
    return jnp.where(pole, kind(np.nan), jnp.where(negative, kind(-1), kind(1)))


def _stirling_tail(x: Any) -> Any:
    inverse = 1 / x
    return inverse * horner(inverse * inverse, _STIRLING)


def _right_loggamma(z: Any) -> Any:
    """log gamma for Re z >= 1/2: moved to Re z >= 7.5, where Stirling's series serves."""
    moved = z + 7
    shift = jnp.log(z)
    for k in range(1, 7):
        shift = shift + jnp.log(z + k)
    large = (moved - 0.5) * jnp.log(moved) - moved + _HALF_LOG_TWO_PI
    return large + _stirling_tail(moved) - shift


def _complex_loggamma(z: Any) -> Any:
    """The branch of log gamma that is analytic off the negative axis."""
    left = jnp.real(z) < 0.5
    right = _right_loggamma(jnp.where(left, 1 - z, z))
    # log sin(pi z), continuous in each half plane; the lower one is the mirror of the upper.
    lower = jnp.imag(z) < 0
    up = jnp.where(lower, jnp.conj(z), z)
    log_sine = (0.5 - up) * (1j * np.pi) - math.log(2) + jnp.log1p(-jnp.exp((2j * np.pi) * up))
    log_sine = jnp.where(lower, jnp.conj(log_sine), log_sine)
    value = jnp.where(left, math.log(math.pi) - log_sine - right, right)
    whole = (jnp.imag(z) == 0) & (jnp.real(z) == jnp.floor(jnp.real(z)))
    bad = (whole & (jnp.real(z) <= 0)) | jnp.isnan(z)
    return jnp.where(bad, complex(np.nan, np.nan), value)


def loggamma(x: Any) -> Array:
    """Return the principal branch of log gamma; NaN for negative real numbers.

    Args:
        x: where to evaluate it, real or complex.

    Returns:
        A float or complex array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import loggamma
        >>> round(float(loggamma(5.0)), 4)
        3.1781
    """
    (x,) = inexact("loggamma", x)
    if is_complex(x):
        return _complex_loggamma(x)
    return jnp.where(x > 0, lax.lgamma(x), np.nan)


def gamma(x: Any) -> Array:
    """Return the gamma function.

    Args:
        x: where to evaluate it, real or complex.

    Returns:
        A float or complex array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import gamma
        >>> round(float(gamma(5.0)), 3)
        24.0
    """
    (x,) = inexact("gamma", x)
    if is_complex(x):
        return jnp.exp(_complex_loggamma(x))
    return gammasgn(x) * jnp.exp(lax.lgamma(x))


def betaln(a: Any, b: Any) -> Array:
    """Return the logarithm of |beta(a, b)|, accurate for large arguments too.

    Args:
        a: the first argument.
        b: the second argument, which broadcasts against ``a``.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import betaln
        >>> round(float(betaln(2.0, 3.0)), 4)
        -2.4849
    """
    a, b = inexact("betaln", a, b)
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    small = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    # lgamma(b) - lgamma(a + b) by Stirling's formula, the large terms cancelled by hand.
    top = jnp.where(b < 8, 8, b)
    growth = (a + top - 0.5) * jnp.log1p(a / top) + a * (jnp.log(top) - 1)
    large = lax.lgamma(a) - growth + (_stirling_tail(top) - _stirling_tail(a + top))
    # Large negative a would leave the formula's range.
    found = jnp.where((b < 8) | (a <= 0), small, large)
    return convert_operand(found, found.dtype, a.weak_type)


def beta(a: Any, b: Any) -> Array:
    """Return the beta function, gamma(a) gamma(b) / gamma(a + b).

    Args:
        a: the first argument.
        b: the second argument, which broadcasts against ``a``.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import beta
        >>> round(float(beta(2.0, 3.0)), 4)
        0.0833
    """
    a, b = real("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * jnp.exp(betaln(a, b))


def betainc(a: Any, b: Any, x: Any) -> Array:
    """Return the regularised incomplete beta function.

    Args:
        a: the first parameter, positive.
        b: the second parameter, positive.
        x: the upper limit of the integral, between 0 and 1.

    Returns:
        A float array of the broadcast shape, between 0 and 1.

    Example:
        >>> from weft.scipy.special import betainc
        >>> round(float(betainc(2.0, 3.0, 0.3)), 4)
        0.3483
    """
    return lax.betainc(*real("betainc", a, b, x))


def digamma(x: Any) -> Array:
    """Return the derivative of gammaln.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import digamma
        >>> round(float(digamma(1.0)), 4)
        -0.5772
    """
    (x,) = inexact("digamma", x)
    return lax.digamma(x)


def polygamma(n: Any, x: Any) -> Array:
    """Return a derivative of digamma.

    Args:
        n: the order of the derivative, an integer.
        x: where to evaluate it; numbers or arrays.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import polygamma
        >>> round(float(polygamma(1, 1.0)), 4)
        1.6449
    """
    n = ensure_array("polygamma", n)
    given = n.dtype
    if not dtypes.issubdtype(given, np.integer):
        raise ValueError(f"polygamma needs an integer order n, got dtype {given}")
    return lax.polygamma(*real("polygamma", n, x))


def gammainc(a: Any, x: Any) -> Array:
    """Return the regularised lower incomplete gamma function.

    Args:
        a: the first parameter, positive.
        x: the upper limit of the integral, not negative.

    Returns:
        A float array of the broadcast shape, between 0 and 1.

    Example:
        >>> from weft.scipy.special import gammainc
        >>> round(float(gammainc(1.0, 2.0)), 4)
        0.8647
    """
    return lax.igamma(*inexact("gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Array:
    """Return the regularised upper incomplete gamma function.

    Args:
        a: the first parameter, positive.
        x: the lower limit of the integral, not negative.

    Returns:
        A float array of the broadcast shape, between 0 and 1.

    Example:
        >>> from weft.scipy.special import gammaincc
        >>> round(float(gammaincc(1.0, 2.0)), 4)
        0.1353
    """
    return lax.igammac(*inexact("gammaincc", a, x))


def factorial(n: Any, exact: bool = False) -> Array:
    """Return gamma(n + 1), and 0 for negative n.

    Args:
        n: the argument.
        exact: compute in integers; ``n`` must be known, not traced.

    Returns:
        A float array of the shape of ``n``; an integer array with ``exact``.

    Example:
        >>> from weft.scipy.special import factorial
        >>> factorial(5, exact=True)
        Array(120, dtype=int32)
    """
    if exact:
        values = np.vectorize(lambda v: math.factorial(v) if v >= 0 else 0, otypes=[object])
        return jnp.asarray(values(np.asarray(n)).astype(dtypes.default_int_dtype()))
    (n,) = inexact("factorial", n)
    return jnp.where(n < 0, 0, jnp.exp(lax.lgamma(n + 1)))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Array:
    """Return the number of ways to choose k of N things.

    Args:
        N: the number of things.
        k: how many are chosen.
        repetition: whether a thing may be chosen more than once.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import comb
        >>> round(float(comb(5, 2)), 3)
        10.0
    """
    N, k = inexact("comb", N, k)
    if repetition:
        return jnp.where((k == 0) & (N >= 0), 1.0, comb(N + k - 1, k))
    possible = (k <= N) & (N >= 0) & (k >= 0)
    # Both where: outside, the formula's derivative must not be NaN.
    n, m = jnp.where(possible, N, 0.0), jnp.where(possible, k, 0.0)
    count = jnp.exp(lax.lgamma(n + 1) - lax.lgamma(m + 1) - lax.lgamma(n - m + 1))
    return jnp.where(possible, count, 0.0)


def multigammaln(a: Any, d: Any) -> Array:
    """Return the logarithm of the multivariate gamma function.

    Args:
        a: where to evaluate it, greater than (d - 1) / 2.
        d: the dimension, an integer.

    Returns:
        A float array of the shape of ``a``.

    Example:
        >>> from weft.scipy.special import multigammaln
        >>> round(float(multigammaln(3.0, 2)), 4)
        1.5502
    """
    d = concrete(d, "multigammaln needs to know the dimension d")
    if d != int(d):
        raise ValueError(f"multigammaln needs a whole dimension d, got {d}")
    d = int(d)
    (a,) = inexact("multigammaln", a)
    a = convert_operand(a, a.dtype)
    total = jnp.full_like(a, d * (d - 1) / 4 * math.log(math.pi))
    for i in range(d):
        total = total + lax.lgamma(a - i / 2)
    return total


@custom_jvp
def poch(z: Any, m: Any) -> Array:
    """Return the rising factorial gamma(z + m) / gamma(z).

    Args:
        z: the start.
        m: the number of factors, which need not be an integer.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import poch
        >>> round(float(poch(3.0, 2.0)), 3)
        12.0
    """
    z, m = real("poch", z, m)
    return jnp.where(m == 0, z.dtype.type(1), gamma(z + m) / gamma(z))


poch.defjvps(
    lambda dz, out, z, m: (digamma(z + m) - digamma(z)) * out * dz,
    lambda dm, out, z, m: digamma(z + m) * out * dm,
)


def bernoulli(n: int) -> Array:
    """Return the Bernoulli numbers B_0 to B_n.

    Args:
        n: the last index.

    Returns:
        A float array of shape (n + 1,).

    Example:
        >>> from weft.scipy.special import bernoulli
        >>> [round(float(b), 4) for b in bernoulli(4)]
        [1.0, -0.5, 0.1667, 0.0, -0.0333]
    """
    n = operator.index(concrete(n, "bernoulli needs to know n, the size of its result"))
    if n < 0:
        raise ValueError(f"bernoulli needs n >= 0, got {n}")
    known = [1.0, -0.5]
    for b in BERNOULLI:
        known += [b, 0.0]
    values = np.zeros(max(n + 1, len(known)))
    values[: len(known)] = known
    # B_m = (-1)^(m/2 + 1) 2 m! zeta(m) / (2 pi)^m for even m (DLMF 25.6.2).
    with np.errstate(over="ignore"):
        size = BERNOULLI[-1] / np.sum(np.arange(1.0, 9) ** -24)
        for m in range(len(known), n + 1, 2):
            size *= -(m - 1) * m / (4 * np.pi**2)
            values[m] = size * np.sum(np.arange(1.0, 9) ** -m)
        return jnp.asarray(values[: n + 1].astype(dtypes.default_float_dtype()))


# The zeta function.


def _zeta_slope(s: Any, q: Any) -> Any:
    """The derivative by s of the Hurwitz zeta function, by Euler and Maclaurin."""
    count = 12
    total = jnp.zeros_like(q)
    for k in range(count):
        total = total - jnp.log(q + k) * (q + k) ** -s
    end = q + count
    log_end, power = jnp.log(end), end**-s
    whole = end * power / (s - 1)
    total = total - whole * (log_end + 1 / (s - 1)) - 0.5 * log_end * power
    factor, harmonic = power * s / end, 1 / s
    for k, b in enumerate(BERNOULLI[:10], 1):
        total = total + (b / math.factorial(2 * k)) * factor * (harmonic - log_end)
        low, high = s + (2 * k - 1), s + 2 * k
        factor = factor * low / end * high / end
        harmonic = harmonic + 1 / low + 1 / high
    return total


@custom_jvp
def _hurwitz(s: Any, q: Any) -> Any:
    return lax.zeta(s, q)


_hurwitz.defjvps(
    lambda ds, out, s, q: _zeta_slope(s, q) * ds,
    lambda dq, out, s, q: -s * _hurwitz(s + 1, q) * dq,
)


def _riemann_between(s: Any) -> Any:
    """The Riemann zeta function for 0 <= s < 1, by the alternating series (Borwein, 2000)."""
    n = 24
    steps = [
        n * math.factorial(n + i - 1) * 4**i / (math.factorial(n - i) * math.factorial(2 * i))
        for i in range(n + 1)
    ]
    whole, partial, total = math.fsum(steps), 0.0, jnp.zeros_like(s)
    for k in range(n):
        partial += steps[k]
        sign = -1.0 if k % 2 else 1.0
        total = total + sign * (1 - partial / whole) * (k + 1.0) ** -s
    return total / -jnp.expm1((1 - s) * math.log(2))


def zeta(x: Any, q: Any = None) -> Array:
    """Return the Hurwitz zeta function, or Riemann's if ``q`` is not given.

    Args:
        x: the exponent, greater than 1.
        q: the first base of the sum, positive; 1 by default.

    Returns:
        A float array of the broadcast shape.

    Example:
        >>> from weft.scipy.special import zeta
        >>> round(float(zeta(2.0)), 4), round(float(zeta(2.0, 2.0)), 4)
        (1.6449, 0.6449)
    """
    if q is not None:
        return _hurwitz(*jnp.broadcast_arrays(*inexact("zeta", x, q)))
    (x,) = real("zeta", x)
    above, below = x >= 1, x < 0
    right = _hurwitz(jnp.where(above, x, 2), jnp.ones_like(x))
    between = _riemann_between(jnp.where(above | below, 0.5, x))
    mirror = jnp.where(below, 1 - x, 2)
    # zeta(x) = 2 (2 pi)^(x - 1) sin(pi x / 2) gamma(1 - x) zeta(1 - x) (DLMF 25.4.1).
    left = 2 * (2 * np.pi) ** -mirror * jnp.sin((np.pi / 2) * (x % 4))
    left = left * gamma(mirror) * _hurwitz(mirror, jnp.ones_like(x))
    return jnp.where(above, right, jnp.where(below, left, between))
