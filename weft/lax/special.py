"""Special functions of ``weft.lax``: elementwise, on floating operands of one dtype."""

from __future__ import annotations

from typing import Any

from weft.core.array import Array
from weft.prims import special as prims


def erf(x: Any) -> Array:
    """Return the elementwise error function.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.erf(0.5))
        0.5204998850822449
    """
    return prims.erf_p.bind(x)


def erfc(x: Any) -> Array:
    """Return the elementwise complementary error function 1 - erf(x), accurate for large ``x``.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.erfc(0.0))
        1.0
    """
    return prims.erfc_p.bind(x)


def erf_inv(x: Any) -> Array:
    """Return the elementwise inverse of the error function; infinite at -1 and 1.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.erf_inv(1.0))
        inf
    """
    return prims.erf_inv_p.bind(x)


def lgamma(x: Any) -> Array:
    """Return the logarithm of the absolute value of the gamma function, elementwise.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.exp(lax.lgamma(4.0)))
        6.0
    """
    return prims.lgamma_p.bind(x)


def digamma(x: Any) -> Array:
    """Return the derivative of the logarithm of the gamma function, elementwise.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.digamma(1.0)).__round__(5)
        -0.57722
    """
    return prims.digamma_p.bind(x)


def polygamma(m: Any, x: Any) -> Array:
    """Return the derivative of order ``m`` of digamma, elementwise.

    Args:
        m: Order, a floating-point number with an integer value, not negative.
        x: Argument, of the same dtype as ``m``, which broadcasts.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.polygamma(1.0, 1.0)).__round__(5)
        1.64493
    """
    return prims.polygamma_p.bind(m, x)


def zeta(x: Any, q: Any) -> Array:
    """Return the Hurwitz zeta function, the sum of (q + k)^-x over k = 0, 1, 2, ...

    Args:
        x: Exponent, above 1; floating-point.
        q: Start, of the same dtype, above 0.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.zeta(2.0, 1.0)).__round__(5)
        1.64493
    """
    return prims.zeta_p.bind(x, q)


def igamma(a: Any, x: Any) -> Array:
    """Return the regularised lower incomplete gamma function P(a, x).

    Args:
        a: Shape parameter, above 0; floating-point.
        x: Argument, not negative, of the same dtype as ``a``.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.igamma(1.0, 2.0)).__round__(5)
        0.86466
    """
    return prims.igamma_p.bind(a, x)


def igammac(a: Any, x: Any) -> Array:
    """Return the regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    Args:
        a: Shape parameter, above 0; floating-point.
        x: Argument, not negative, of the same dtype as ``a``.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.igammac(1.0, 2.0)).__round__(5)
        0.13534
    """
    return prims.igammac_p.bind(a, x)


def igamma_grad_a(a: Any, x: Any) -> Array:
    """Return the derivative of ``igamma`` with respect to ``a``.

    Args:
        a: Shape parameter, above 0; floating-point.
        x: Argument, not negative, of the same dtype as ``a``.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.igamma_grad_a(1.0, 1.0)).__round__(5)
        -0.43173
    """
    return prims.igamma_grad_a_p.bind(a, x)


def random_gamma_grad(a: Any, x: Any) -> Array:
    """Return the derivative of a sample of the gamma distribution with respect to ``a``.

    Args:
        a: Shape parameter, above 0; floating-point.
        x: Sample of the distribution with shape parameter ``a``, of the same dtype.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.random_gamma_grad(1.0, 1.0)).__round__(5)
        1.17356
    """
    return prims.random_gamma_grad_p.bind(a, x)


def betainc(a: Any, b: Any, x: Any) -> Array:
    """Return the regularised incomplete beta function I_x(a, b).

    Args:
        a: First parameter, above 0; floating-point.
        b: Second parameter, above 0, of the same dtype.
        x: Argument from 0 to 1, of the same dtype.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> float(lax.betainc(2.0, 3.0, 0.3)).__round__(4)
        0.3483
    """
    return prims.regularized_incomplete_beta_p.bind(a, b, x)


def bessel_i0e(x: Any) -> Array:
    """Return the modified Bessel function of order 0 times exp(-abs(x)), elementwise.

    Args:
        x: Array or scalar of a floating-point dtype.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.bessel_i0e(0.0))
        1.0
    """
    return prims.bessel_i0e_p.bind(x)


def bessel_i1e(x: Any) -> Array:
    """Return the modified Bessel function of order 1 times exp(-abs(x)), elementwise.

    Args:
        x: Array or scalar of a floating-point dtype.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> float(lax.bessel_i1e(0.0))
        0.0
    """
    return prims.bessel_i1e_p.bind(x)
