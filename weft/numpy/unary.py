"""Elementwise functions of one array with NumPy's names: elementary functions, signs, rounding."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.core.trace import Tracer, typeof
from weft.numpy.broadcasting import choose_where
from weft.numpy.promotion import (
    array_kind,
    as_array,
    convert_operand,
    ensure_array,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    refuse_out,
)
from weft.prims.families import COMPLEX, FLOAT, INEXACT, INT, INTEGER, const, scalar


def exp(x: Any, /) -> Array:
    """Return the exponential ``e**x``, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.exp(0.0).item()
        1.0
    """
    return lax.exp(*promote_args_inexact("exp", x))


def exp2(x: Any, /) -> Array:
    """Return ``2**x``, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.exp2(3.0).item()
        8.0
    """
    return lax.exp2(*promote_args_inexact("exp2", x))


def log(x: Any, /) -> Array:
    """Return the natural logarithm, elementwise.

    Args:
        x: Array or scalar; integers are converted to the default float type. Negative real numbers
            give NaN, 0 gives -inf.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.log(1.0).item()
        0.0
    """
    return lax.log(*promote_args_inexact("log", x))


def expm1(x: Any, /) -> Array:
    """Return ``exp(x) - 1``, accurate for ``x`` near zero.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.expm1(0.0).item()
        0.0
    """
    return lax.expm1(*promote_args_inexact("expm1", x))


def log1p(x: Any, /) -> Array:
    """Return ``log(1 + x)``, accurate for ``x`` near zero.

    Args:
        x: Array or scalar; integers are converted to the default float type. Real numbers below -1
            give NaN.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.log1p(0.0).item()
        0.0
    """
    return lax.log1p(*promote_args_inexact("log1p", x))


def sin(x: Any, /) -> Array:
    """Return the sine, elementwise.

    Args:
        x: Angle in radians, real or complex; integers are converted to the default float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sin(0.0).item()
        0.0
    """
    return lax.sin(*promote_args_inexact("sin", x))


def cos(x: Any, /) -> Array:
    """Return the cosine, elementwise.

    Args:
        x: Angle in radians, real or complex; integers are converted to the default float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cos(0.0).item()
        1.0
    """
    return lax.cos(*promote_args_inexact("cos", x))


def tan(x: Any, /) -> Array:
    """Return the tangent, elementwise.

    Args:
        x: Angle in radians, real or complex; integers are converted to the default float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tan(0.0).item()
        0.0
    """
    return lax.tan(*promote_args_inexact("tan", x))


def arcsin(x: Any, /) -> Array:
    """Return the inverse sine in radians, elementwise.

    Args:
        x: Array or scalar; real numbers outside of [-1, 1] give NaN.

    Returns:
        Array with the shape of ``x``; real results lie in [-pi/2, pi/2].

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arcsin(0.0).item()
        0.0
    """
    return lax.asin(*promote_args_inexact("arcsin", x))


def arccos(x: Any, /) -> Array:
    """Return the inverse cosine in radians, elementwise.

    Args:
        x: Array or scalar; real numbers outside of [-1, 1] give NaN.

    Returns:
        Array with the shape of ``x``; real results lie in [0, pi].

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arccos(1.0).item()
        0.0
    """
    return lax.acos(*promote_args_inexact("arccos", x))


def arctan(x: Any, /) -> Array:
    """Return the inverse tangent in radians, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``; real results lie in [-pi/2, pi/2].

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arctan(0.0).item()
        0.0
    """
    return lax.atan(*promote_args_inexact("arctan", x))


def sinh(x: Any, /) -> Array:
    """Return the hyperbolic sine, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sinh(0.0).item()
        0.0
    """
    return lax.sinh(*promote_args_inexact("sinh", x))


def cosh(x: Any, /) -> Array:
    """Return the hyperbolic cosine, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cosh(0.0).item()
        1.0
    """
    return lax.cosh(*promote_args_inexact("cosh", x))


def tanh(x: Any, /) -> Array:
    """Return the hyperbolic tangent, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tanh(0.0).item()
        0.0
    """
    return lax.tanh(*promote_args_inexact("tanh", x))


def arcsinh(x: Any, /) -> Array:
    """Return the inverse hyperbolic sine, elementwise.

    Args:
        x: Array or scalar, real or complex; integers and booleans are converted to the default
            float type.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arcsinh(0.0).item()
        0.0
    """
    return lax.asinh(*promote_args_inexact("arcsinh", x))


def arctanh(x: Any, /) -> Array:
    """Return the inverse hyperbolic tangent, elementwise.

    Args:
        x: Array or scalar; real numbers outside of [-1, 1] give NaN.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arctanh(0.0).item()
        0.0
    """
    return lax.atanh(*promote_args_inexact("arctanh", x))


def sqrt(x: Any, /) -> Array:
    """Return the square root that is not negative, elementwise.

    Args:
        x: Array or scalar; integers are converted to the default float type. Negative real numbers
            give NaN.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sqrt(4.0).item()
        2.0
    """
    return lax.sqrt(*promote_args_inexact("sqrt", x))


def cbrt(x: Any, /) -> Array:
    """Return the real cube root, elementwise.

    Args:
        x: Array or scalar of real numbers, which may be negative; complex numbers raise TypeError.

    Returns:
        Floating-point array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.cbrt(0.0).item()
        0.0
    """
    return lax.cbrt(*promote_args_inexact("cbrt", x))


def arccosh(x: Any, /) -> Array:
    """Return the inverse hyperbolic cosine, elementwise.

    Args:
        x: Array or scalar; real numbers below 1 give NaN.

    Returns:
        Array with the shape of ``x``; the real part is not negative, for complex numbers too.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arccosh(1.0).item()
        0.0
    """
    out = lax.acosh(*promote_args_inexact("arccosh", x))
    if array_kind(out) != COMPLEX:
        return out
    below = lax.lt(lax.real(out), const(lax.real(out), 0))
    return choose_where(below, lax.neg(out), out)


asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh


def log2(x: Any, /) -> Array:
    """Return the logarithm to base 2, elementwise.

    Args:
        x: Array or scalar; integers are converted to the default float type. Negative real numbers
            give NaN, 0 gives -inf.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.log2(8.0).item()
        3.0
    """
    (x,) = promote_args_inexact("log2", x)
    logarithm = lax.log(x)
    if array_kind(x) != COMPLEX:
        return lax.div(logarithm, lax.log(scalar(typeof(x).dtype, 2)))
    re, im = lax.real(logarithm), lax.imag(logarithm)
    base = lax.log(scalar(typeof(re).dtype, 2))
    return lax.complex(lax.div(re, base), lax.div(im, base))


def log10(x: Any, /) -> Array:
    """Return the logarithm to base 10, elementwise.

    Args:
        x: Array or scalar; integers are converted to the default float type. Negative real numbers
            give NaN, 0 gives -inf.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.log10(1.0).item()
        0.0
    """
    (x,) = promote_args_inexact("log10", x)
    logarithm = lax.log(x)
    scale = scalar(dtypes.to_floating_dtype(typeof(x).dtype), 1 / np.log(10))
    if array_kind(x) != COMPLEX:
        return lax.mul(logarithm, scale)
    re, im = lax.real(logarithm), lax.imag(logarithm)
    return lax.complex(lax.mul(re, scale), lax.mul(im, scale))


# --- signs and sizes ------------------------------------------------------------------------------


def positive(x: Any, /) -> Array:
    """Return ``x`` unchanged, as an array.

    Args:
        x: Array or scalar of any dtype.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.positive(2.0).item()
        2.0
    """
    return as_array(*promote_args("positive", x))


def sign(x: Any, /) -> Array:
    """Return -1, 0 or 1 by the sign of each element; ``x / abs(x)`` for complex numbers.

    Args:
        x: Array or scalar of any numeric dtype; booleans raise TypeError. NaN gives NaN.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sign(-2.0).item()
        -1.0
    """
    return lax.sign(*promote_args("sign", x))


def absolute(x: Any, /) -> Array:
    """Return the absolute value, elementwise.

    Args:
        x: Array or scalar of any dtype.

    Returns:
        Array with the shape and dtype of ``x``; of complex numbers, the modulus as real numbers.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.absolute(-2.0).item()
        2.0
    """
    x = ensure_array("absolute", x)
    return lax.abs(x) if array_kind(x) & (INT | INEXACT) else x


abs = absolute


def fabs(x: Any, /) -> Array:
    """Return the absolute value as a floating-point number.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.

    Returns:
        Floating-point array with the shape of ``x``; integers become the default float type.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fabs(-2).item()
        2.0
    """
    (x,) = promote_args_inexact("fabs", x)
    if array_kind(x) == COMPLEX:
        raise TypeError("fabs does not accept complex numbers; use jnp.abs")
    return lax.abs(x)


def square(x: Any, /) -> Array:
    """Return ``x * x``, elementwise.

    Args:
        x: Array or scalar of any numeric dtype; booleans count as integers.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.square(3.0).item()
        9.0
    """
    return lax.square(*promote_args_numeric("square", x))


def reciprocal(x: Any, /) -> Array:
    """Return ``1 / x``, elementwise.

    Args:
        x: Array or scalar; 0 gives inf.

    Returns:
        Array with the shape of ``x``, floating-point or complex.

    Differs from NumPy: the reciprocal of an integer is a floating-point number, not 0.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.reciprocal(4.0).item()
        0.25
    """
    return lax.integer_pow(*promote_args_inexact("reciprocal", x), -1)


# --- rounding -------------------------------------------------------------------------------------


def floor(x: Any, /) -> Array:
    """Return each element rounded down to an integer.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``; integers are returned unchanged.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.floor(1.5).item()
        1.0
    """
    x = ensure_array("floor", x)
    return lax.floor(x) if array_kind(x) & INEXACT else x


def ceil(x: Any, /) -> Array:
    """Return each element rounded up to an integer.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``; integers are returned unchanged.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ceil(1.5).item()
        2.0
    """
    x = ensure_array("ceil", x)
    return lax.ceil(x) if array_kind(x) & INEXACT else x


def trunc(x: Any) -> Array:
    """Return each element rounded towards zero.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``; integers are returned unchanged.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.trunc(-1.5).item()
        -1.0
    """
    x = ensure_array("trunc", x)
    if not array_kind(x) & INEXACT:
        return x
    return choose_where(lax.lt(x, const(x, 0)), lax.ceil(x), lax.floor(x))


def rint(x: Any, /) -> Array:
    """Return each element rounded to the nearest integer, ties to the even one.

    Args:
        x: Array or scalar; of complex numbers both parts are rounded.

    Returns:
        Array with the shape of ``x``, floating-point or complex; integers become the default float
        type.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.rint(2.5).item()
        2.0
    """
    x = ensure_array("rint", x)
    kind = array_kind(x)
    if not kind & INEXACT:
        return as_array(convert_operand(x, dtypes.default_float_dtype()))
    if kind == COMPLEX:
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def round(a: Any, decimals: int = 0, out: None = None) -> Array:
    """Return each element rounded to a number of decimals, ties to the even digit.

    Args:
        a: Array or scalar of numbers; booleans raise ValueError.
        decimals: Number of digits after the decimal point; negative numbers round floats to tens,
            hundreds and so on. A static integer.
        out: Must be None.

    Returns:
        Array with the shape and dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.round(2.125, 2).item()
        2.119999885559082
    """
    refuse_out("round", out)
    x = ensure_array("round", a)
    if isinstance(decimals, Tracer):
        raise ValueError("round needs a concrete number of decimals, got a traced value")
    places = operator.index(decimals)
    dtype, kind = x.dtype, array_kind(x)
    if kind & INTEGER:
        if places < 0:
            raise NotImplementedError("integers are not rounded to negative decimals; use floats")
        return x
    if dtype == np.bool_:
        raise ValueError("round takes numbers, got booleans: convert them with astype(int)")
    if places > np.log10(float(dtypes.finfo(dtype).max)):
        return x
    if kind == COMPLEX:
        return lax.complex(_round_to(lax.real(x), places), _round_to(lax.imag(x), places))
    return _round_to(x, places)


def _round_to(x: Any, places: int) -> Any:
    even = lax.RoundingMethod.TO_NEAREST_EVEN
    if places == 0:
        return lax.round(x, even)
    dtype = x.dtype
    half = dtype == np.float16
    if half:
        x = convert_operand(x, np.dtype(np.float32))
    factor = const(x, 10**places)
    out = lax.div(lax.round(lax.mul(x, factor), even), factor)
    return lax.convert_element_type(out, dtype) if half else out


around = round


def modf(x: Any, /, out: None = None) -> tuple[Array, Array]:
    """Return the fractional and the integral part of each element, both with its sign.

    Args:
        x: Array or scalar of real numbers; integers are converted to the default float type.
        out: Must be None.

    Returns:
        Pair of floating-point arrays with the shape of ``x``, whose sum is ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> [part.item() for part in jnp.modf(2.5)]
        [0.5, 2.0]
    """
    refuse_out("modf", out)
    (x,) = promote_args_inexact("modf", x)
    whole = choose_where(lax.ge(x, const(x, 0)), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole


# --- bits -----------------------------------------------------------------------------------------


def invert(x: Any, /) -> Array:
    """Return the bitwise complement; of booleans, the logical not.

    Args:
        x: Array or scalar of integers or booleans; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.invert(5).item()
        -6
    """
    return lax.bitwise_not(*promote_args("invert", x))


bitwise_invert = bitwise_not = invert


def bitwise_count(x: Any, /) -> Array:
    """Return the number of bits set in the absolute value of each integer.

    Args:
        x: Array or scalar of integers or booleans.

    Returns:
        Array of uint8 with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.bitwise_count(-7).item()
        3
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    counts = lax.population_count(absolute(x))
    return lax.convert_element_type(counts, np.dtype(np.uint8))


def logical_not(x: Any, /) -> Array:
    """Return whether each element is false.

    Args:
        x: Array or scalar of any dtype; zero is false, all other values (NaN too) are true.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.logical_not(0).item()
        True
    """
    (x,) = promote_args("logical_not", x)
    if typeof(x).dtype != np.bool_:
        x = lax.ne(x, const(x, 0))
    return lax.bitwise_not(x)


# --- special functions ----------------------------------------------------------------------------


def sinc(x: Any, /) -> Array:
    """Return ``sin(pi * x) / (pi * x)``, and 1 at zero.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``; integers are returned unchanged.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.sinc(0.0).item()
        1.0
    """
    (x,) = promote_args_inexact("sinc", x)
    zero = lax.eq(x, const(x, 0))
    scaled = lax.mul(const(x, np.pi), x)
    safe = choose_where(zero, const(x, 1), scaled)
    return choose_where(zero, _sinc_series(0, scaled), lax.div(lax.sin(safe), safe))


def _series_term(k: int, x: Any) -> Any:
    """The k-th derivative of ``sin(x) / x`` at 0, at the shape of x."""
    zeros = lax.mul(x, const(x, 0))
    if k % 2:
        return zeros
    return lax.add(zeros, const(x, (-1) ** (k // 2) / (k + 1)))


_sinc_series = custom_jvp(_series_term, nondiff_argnums=(0,))


@_sinc_series.defjvp
def _sinc_series_jvp(k: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _sinc_series(k, x), lax.mul(_sinc_series(k + 1, x), t)


def i0(x: Any) -> Array:
    """Return the modified Bessel function of the first kind of order 0.

    Args:
        x: Array or scalar of real numbers; complex numbers raise ValueError.

    Returns:
        Floating-point array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.i0(0.0).item()
        1.0
    """
    (x,) = promote_args_inexact("i0", x)
    if array_kind(x) != FLOAT:
        raise ValueError(f"i0 needs real numbers, got {typeof(x).dtype}")
    return _i0(x)


@custom_jvp
def _i0(x: Any) -> Any:
    size = lax.abs(x)
    return lax.mul(lax.exp(size), lax.bessel_i0e(size))


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    size = lax.abs(x)
    slope = lax.mul(lax.mul(lax.exp(size), lax.bessel_i1e(size)), lax.sign(x))
    return _i0(x), lax.mul(t, slope)
