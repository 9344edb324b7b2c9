"""Special functions of ``weft.lax``: elementwise, on floating operands of one dtype."""

from __future__ import annotations

from typing import Any

from weft.core.array import Array
from weft.prims import special as prims


def erf(x: Any) -> Array:
    """The error function, elementwise.

    >>> from weft import lax
    >>> float(lax.erf(0.5))
    0.5204998850822449
    """
    return prims.erf_p.bind(x)


def erfc(x: Any) -> Array:
    """The complement of the error function, 1 - erf(x), elementwise.

    >>> from weft import lax
    >>> float(lax.erfc(0.0))
    1.0
    """
    return prims.erfc_p.bind(x)


def erf_inv(x: Any) -> Array:
    """The inverse of the error function, elementwise.

    >>> from weft import lax
    >>> float(lax.erf_inv(1.0))
    inf
    """
    return prims.erf_inv_p.bind(x)


def lgamma(x: Any) -> Array:
    """The logarithm of the absolute value of the gamma function, elementwise.

    >>> from weft import lax
    >>> float(lax.exp(lax.lgamma(4.0)))
    6.0
    """
    return prims.lgamma_p.bind(x)


def digamma(x: Any) -> Array:
    """The derivative of the logarithm of the gamma function, elementwise.

    >>> from weft import lax
    >>> float(lax.digamma(1.0)).__round__(5)
    -0.57722
    """
    return prims.digamma_p.bind(x)


def polygamma(m: Any, x: Any) -> Array:
    """Derivative of order ``m`` of digamma at ``x``, elementwise.

    >>> from weft import lax
    >>> float(lax.polygamma(1.0, 1.0)).__round__(5)
    1.64493
    """
    return prims.polygamma_p.bind(m, x)


def zeta(x: Any, q: Any) -> Array:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k = 0, 1, ..., elementwise.

    >>> from weft import lax
    >>> float(lax.zeta(2.0, 1.0)).__round__(5)
    1.64493
    """
    return prims.zeta_p.bind(x, q)


def igamma(a: Any, x: Any) -> Array:
    """The regularized lower incomplete gamma function, elementwise.

    >>> from weft import lax
    >>> float(lax.igamma(1.0, 2.0)).__round__(5)
    0.86466
    """
    return prims.igamma_p.bind(a, x)


def igammac(a: Any, x: Any) -> Array:
    """The regularized upper incomplete gamma function, 1 - igamma(a, x), elementwise.

    >>> from weft import lax
    >>> float(lax.igammac(1.0, 2.0)).__round__(5)
    0.13534
    """
    return prims.igammac_p.bind(a, x)


def igamma_grad_a(a: Any, x: Any) -> Array:
    """The derivative of igamma by its first argument, elementwise.

    >>> from weft import lax
    >>> float(lax.igamma_grad_a(1.0, 1.0)).__round__(5)
    -0.43173
    """
    return prims.igamma_grad_a_p.bind(a, x)


def random_gamma_grad(a: Any, x: Any) -> Array:
    """The derivative by ``a`` of a sample ``x`` of the gamma distribution, elementwise.

    >>> from weft import lax
    >>> float(lax.random_gamma_grad(1.0, 1.0)).__round__(5)
    1.17356
    """
    return prims.random_gamma_grad_p.bind(a, x)


def betainc(a: Any, b: Any, x: Any) -> Array:
    """The regularized incomplete beta function, elementwise.

    >>> from weft import lax
    >>> float(lax.betainc(2.0, 3.0, 0.3)).__round__(4)
    0.3483
    """
    return prims.regularized_incomplete_beta_p.bind(a, b, x)


def bessel_i0e(x: Any) -> Array:
    """The modified Bessel function of order 0 times exp(-|x|), elementwise.

    >>> from weft import lax
    >>> float(lax.bessel_i0e(0.0))
    1.0
    """
    return prims.bessel_i0e_p.bind(x)


def bessel_i1e(x: Any) -> Array:
    """The modified Bessel function of order 1 times exp(-|x|), elementwise.

    >>> from weft import lax
    >>> float(lax.bessel_i1e(0.0))
    0.0
    """
    return prims.bessel_i1e_p.bind(x)
