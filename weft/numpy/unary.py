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
    """e to the power x.

    >>> import weft.numpy as jnp
    >>> jnp.exp(0.0).item()
    1.0
    """
    return lax.exp(*promote_args_inexact("exp", x))


def exp2(x: Any, /) -> Array:
    """2 to the power x.

    >>> import weft.numpy as jnp
    >>> jnp.exp2(3.0).item()
    8.0
    """
    return lax.exp2(*promote_args_inexact("exp2", x))


def log(x: Any, /) -> Array:
    """Natural logarithm.

    >>> import weft.numpy as jnp
    >>> jnp.log(1.0).item()
    0.0
    """
    return lax.log(*promote_args_inexact("log", x))


def expm1(x: Any, /) -> Array:
    """``exp(x) - 1``, accurate near zero.

    >>> import weft.numpy as jnp
    >>> jnp.expm1(0.0).item()
    0.0
    """
    return lax.expm1(*promote_args_inexact("expm1", x))


def log1p(x: Any, /) -> Array:
    """``log(1 + x)``, accurate near zero.

    >>> import weft.numpy as jnp
    >>> jnp.log1p(0.0).item()
    0.0
    """
    return lax.log1p(*promote_args_inexact("log1p", x))


def sin(x: Any, /) -> Array:
    """Sine.

    >>> import weft.numpy as jnp
    >>> jnp.sin(0.0).item()
    0.0
    """
    return lax.sin(*promote_args_inexact("sin", x))


def cos(x: Any, /) -> Array:
    """Cosine.

    >>> import weft.numpy as jnp
    >>> jnp.cos(0.0).item()
    1.0
    """
    return lax.cos(*promote_args_inexact("cos", x))


def tan(x: Any, /) -> Array:
    """Tangent.

    >>> import weft.numpy as jnp
    >>> jnp.tan(0.0).item()
    0.0
    """
    return lax.tan(*promote_args_inexact("tan", x))


def arcsin(x: Any, /) -> Array:
    """Inverse sine.

    >>> import weft.numpy as jnp
    >>> jnp.arcsin(0.0).item()
    0.0
    """
    return lax.asin(*promote_args_inexact("arcsin", x))


def arccos(x: Any, /) -> Array:
    """Inverse cosine.

    >>> import weft.numpy as jnp
    >>> jnp.arccos(1.0).item()
    0.0
    """
    return lax.acos(*promote_args_inexact("arccos", x))


def arctan(x: Any, /) -> Array:
    """Inverse tangent.

    >>> import weft.numpy as jnp
    >>> jnp.arctan(0.0).item()
    0.0
    """
    return lax.atan(*promote_args_inexact("arctan", x))


def sinh(x: Any, /) -> Array:
    """Hyperbolic sine.

    >>> import weft.numpy as jnp
    >>> jnp.sinh(0.0).item()
    0.0
    """
    return lax.sinh(*promote_args_inexact("sinh", x))


def cosh(x: Any, /) -> Array:
    """Hyperbolic cosine.

    >>> import weft.numpy as jnp
    >>> jnp.cosh(0.0).item()
    1.0
    """
    return lax.cosh(*promote_args_inexact("cosh", x))


def tanh(x: Any, /) -> Array:
    """Hyperbolic tangent.

    >>> import weft.numpy as jnp
    >>> jnp.tanh(0.0).item()
    0.0
    """
    return lax.tanh(*promote_args_inexact("tanh", x))


def arcsinh(x: Any, /) -> Array:
    """Inverse hyperbolic sine.

    >>> import weft.numpy as jnp
    >>> jnp.arcsinh(0.0).item()
    0.0
    """
    return lax.asinh(*promote_args_inexact("arcsinh", x))


def arctanh(x: Any, /) -> Array:
    """Inverse hyperbolic tangent.

    >>> import weft.numpy as jnp
    >>> jnp.arctanh(0.0).item()
    0.0
    """
    return lax.atanh(*promote_args_inexact("arctanh", x))


def sqrt(x: Any, /) -> Array:
    """Square root.

    >>> import weft.numpy as jnp
    >>> jnp.sqrt(4.0).item()
    2.0
    """
    return lax.sqrt(*promote_args_inexact("sqrt", x))


def cbrt(x: Any, /) -> Array:
    """Cube root.

    >>> import weft.numpy as jnp
    >>> jnp.cbrt(0.0).item()
    0.0
    """
    return lax.cbrt(*promote_args_inexact("cbrt", x))


def arccosh(x: Any, /) -> Array:
    """Inverse hyperbolic cosine; for complex numbers the value with a real part not below zero.

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
    """Logarithm to base 2.

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
    """Logarithm to base 10.

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
    """``x`` itself.

    >>> import weft.numpy as jnp
    >>> jnp.positive(2.0).item()
    2.0
    """
    return as_array(*promote_args("positive", x))


def sign(x: Any, /) -> Array:
    """-1, 0 or 1; ``x / |x|`` for complex numbers.

    >>> import weft.numpy as jnp
    >>> jnp.sign(-2.0).item()
    -1.0
    """
    return lax.sign(*promote_args("sign", x))


def absolute(x: Any, /) -> Array:
    """Absolute value; real for complex numbers.

    >>> import weft.numpy as jnp
    >>> jnp.absolute(-2.0).item()
    2.0
    """
    x = ensure_array("absolute", x)
    return lax.abs(x) if array_kind(x) & (INT | INEXACT) else x


abs = absolute


def fabs(x: Any, /) -> Array:
    """Absolute value as a floating number.

    >>> import weft.numpy as jnp
    >>> jnp.fabs(-2).item()
    2.0
    """
    (x,) = promote_args_inexact("fabs", x)
    if array_kind(x) == COMPLEX:
        raise TypeError("fabs does not accept complex numbers; use jnp.abs")
    return lax.abs(x)


def square(x: Any, /) -> Array:
    """Square.

    >>> import weft.numpy as jnp
    >>> jnp.square(3.0).item()
    9.0
    """
    return lax.square(*promote_args_numeric("square", x))


def reciprocal(x: Any, /) -> Array:
    """``1 / x``.

    >>> import weft.numpy as jnp
    >>> jnp.reciprocal(4.0).item()
    0.25
    """
    return lax.integer_pow(*promote_args_inexact("reciprocal", x), -1)


# --- rounding -------------------------------------------------------------------------------------


def floor(x: Any, /) -> Array:
    """Rounding down; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.floor(1.5).item()
    1.0
    """
    x = ensure_array("floor", x)
    return lax.floor(x) if array_kind(x) & INEXACT else x


def ceil(x: Any, /) -> Array:
    """Rounding up; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.ceil(1.5).item()
    2.0
    """
    x = ensure_array("ceil", x)
    return lax.ceil(x) if array_kind(x) & INEXACT else x


def trunc(x: Any) -> Array:
    """Rounding towards zero; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.trunc(-1.5).item()
    -1.0
    """
    x = ensure_array("trunc", x)
    if not array_kind(x) & INEXACT:
        return x
    return choose_where(lax.lt(x, const(x, 0)), lax.ceil(x), lax.floor(x))


def rint(x: Any, /) -> Array:
    """Rounding to the nearest integer, ties to even.

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
    """Rounding to a number of decimals, ties to even.

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
    """The fractional and the whole part of numbers.

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
    """Complement of bits; of booleans, their negation.

    >>> import weft.numpy as jnp
    >>> jnp.invert(5).item()
    -6
    """
    return lax.bitwise_not(*promote_args("invert", x))


bitwise_invert = bitwise_not = invert


def bitwise_count(x: Any, /) -> Array:
    """How many bits of the absolute value are set.

    >>> import weft.numpy as jnp
    >>> jnp.bitwise_count(-7).item()
    3
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    counts = lax.population_count(absolute(x))
    return lax.convert_element_type(counts, np.dtype(np.uint8))


def logical_not(x: Any, /) -> Array:
    """Whether it is false.

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
    """``sin(pi x) / (pi x)``, 1 at 0.

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
    """Modified Bessel function of order 0.

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
