"""Elementwise functions of one array with NumPy's names: elementary functions, rounding, parts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.core.trace import Tracer, typeof
from weft.numpy.broadcasting import choose_where, filled, full_of
from weft.numpy.promotion import (
    as_array,
    convert_operand,
    ensure_array,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_inexact,
)
from weft.prims.families import COMPLEX, FLOAT, INT, INTEGER, const, kind_of, scalar

_INEXACT = FLOAT | COMPLEX
_SIGNED = {16: np.int16, 32: np.int32, 64: np.int64}


def _kind(x: Any) -> int:
    return kind_of(typeof(x).dtype)


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
    if _kind(out) != COMPLEX:
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
    if _kind(x) != COMPLEX:
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
    if _kind(x) != COMPLEX:
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


def negative(x: Any, /) -> Array:
    """Negation.

    >>> import weft.numpy as jnp
    >>> jnp.negative(2.0).item()
    -2.0
    """
    return lax.neg(*promote_args("negative", x))


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
    return lax.abs(x) if _kind(x) & (INT | _INEXACT) else x


abs = absolute


def fabs(x: Any, /) -> Array:
    """Absolute value as a floating number.

    >>> import weft.numpy as jnp
    >>> jnp.fabs(-2).item()
    2.0
    """
    (x,) = promote_args_inexact("fabs", x)
    if _kind(x) == COMPLEX:
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


def signbit(x: Any, /) -> Array:
    """Whether the sign bit is set.

    >>> import weft.numpy as jnp
    >>> jnp.signbit(-0.0).item()
    True
    """
    (x,) = promote_args("signbit", x)
    dtype = typeof(x).dtype
    kind = kind_of(dtype)
    if kind & INTEGER:
        return lax.lt(x, scalar(dtype, 0))
    if dtype == np.bool_:
        return filled(np.shape(x), np.False_)
    if kind != FLOAT:
        raise ValueError(f"signbit does not accept dtype {dtype}")
    bits = dtypes.itemsize_bits(dtype)
    if bits not in _SIGNED:
        raise NotImplementedError(f"signbit reads floats of 16, 32 or 64 bits, got {dtype}")
    integer = lax.bitcast_convert_type(x, _SIGNED[bits])
    shifted = lax.shift_right_arithmetic(integer, scalar(typeof(integer).dtype, bits - 1))
    return lax.convert_element_type(shifted, np.dtype(np.bool_))


def spacing(x: Any, /) -> Array:
    """The distance from a number to the next one away from zero.

    >>> import weft.numpy as jnp
    >>> jnp.spacing(jnp.float32(1.0)).item() == 2.0**-23
    True
    """
    (x,) = promote_args_inexact("spacing", x)
    if _kind(x) == COMPLEX:
        raise ValueError("spacing is not defined for complex numbers")
    dtype = typeof(x).dtype
    if dtype == np.float16:
        return lax.sub(lax.nextafter(x, const(x, np.inf)), x)
    away = choose_where(signbit(x), const(x, -np.inf), const(x, np.inf))
    gap = lax.sub(lax.nextafter(x, away), x)
    least = scalar(dtype, float(dtypes.finfo(dtype).smallest_subnormal))
    tiny = choose_where(signbit(x), -least, least)
    return choose_where(lax.eq(gap, const(gap, 0)), tiny, gap)


# --- rounding -------------------------------------------------------------------------------------


def floor(x: Any, /) -> Array:
    """Rounding down; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.floor(1.5).item()
    1.0
    """
    x = ensure_array("floor", x)
    return lax.floor(x) if _kind(x) & _INEXACT else x


def ceil(x: Any, /) -> Array:
    """Rounding up; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.ceil(1.5).item()
    2.0
    """
    x = ensure_array("ceil", x)
    return lax.ceil(x) if _kind(x) & _INEXACT else x


def trunc(x: Any) -> Array:
    """Rounding towards zero; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.trunc(-1.5).item()
    -1.0
    """
    x = ensure_array("trunc", x)
    if not _kind(x) & _INEXACT:
        return x
    return choose_where(lax.lt(x, const(x, 0)), lax.ceil(x), lax.floor(x))


def rint(x: Any, /) -> Array:
    """Rounding to the nearest integer, ties to even.

    >>> import weft.numpy as jnp
    >>> jnp.rint(2.5).item()
    2.0
    """
    x = ensure_array("rint", x)
    kind = _kind(x)
    if not kind & _INEXACT:
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
    if out is not None:
        raise NotImplementedError("round has no out argument: arrays are immutable")
    x = ensure_array("round", a)
    if isinstance(decimals, Tracer):
        raise ValueError("round needs a concrete number of decimals, got a traced value")
    places = operator.index(decimals)
    dtype, kind = x.dtype, _kind(x)
    if kind & INTEGER:
        if places < 0:
            raise NotImplementedError("integers are not rounded to negative decimals; use floats")
        return x
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
    if out is not None:
        raise NotImplementedError("modf has no out argument: arrays are immutable")
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


# --- questions ------------------------------------------------------------------------------------


def isfinite(x: Any, /) -> Array:
    """Whether neither infinite nor NaN.

    >>> import weft.numpy as jnp
    >>> jnp.isfinite(jnp.inf).item()
    False
    """
    x = ensure_array("isfinite", x)
    kind = _kind(x)
    if kind == FLOAT:
        return lax.is_finite(x)
    if kind == COMPLEX:
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return filled(x.shape, np.True_)


def _is_infinite(x: Any) -> Any:
    return lax.eq(lax.abs(x), scalar(typeof(x).dtype, np.inf))


def isinf(x: Any, /) -> Array:
    """Whether infinite.

    >>> import weft.numpy as jnp
    >>> jnp.isinf(jnp.inf).item()
    True
    """
    x = ensure_array("isinf", x)
    kind = _kind(x)
    if kind == FLOAT:
        return _is_infinite(x)
    if kind == COMPLEX:
        return lax.bitwise_or(_is_infinite(lax.real(x)), _is_infinite(lax.imag(x)))
    return filled(x.shape, np.False_)


def isposinf(x: Any, /, out: None = None) -> Array:
    """Whether plus infinity.

    >>> import weft.numpy as jnp
    >>> jnp.isposinf(-jnp.inf).item()
    False
    """
    return _is_signed_infinity("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: None = None) -> Array:
    """Whether minus infinity.

    >>> import weft.numpy as jnp
    >>> jnp.isneginf(-jnp.inf).item()
    True
    """
    return _is_signed_infinity("isneginf", x, -np.inf, out)


def _is_signed_infinity(name: str, x: Any, value: float, out: None) -> Array:
    x = ensure_array(name, x)
    if out is not None:
        raise NotImplementedError(f"{name} has no out argument: arrays are immutable")
    kind = _kind(x)
    if kind == FLOAT:
        return lax.eq(x, scalar(x.dtype, value))
    if kind == COMPLEX:
        raise ValueError(f"{name} is not defined for complex numbers")
    return filled(x.shape, np.False_)


def isnan(x: Any, /) -> Array:
    """Whether not a number.

    >>> import weft.numpy as jnp
    >>> jnp.isnan(jnp.nan).item()
    True
    """
    x = ensure_array("isnan", x)
    return lax.ne(x, x)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Numbers in place of NaN and the infinities: 0 and the extremes unless others are given.

    >>> import weft.numpy as jnp
    >>> jnp.nan_to_num(jnp.array([1.0, jnp.nan]), nan=7.0)
    Array([1., 7.], dtype=float32)
    """
    x = ensure_array("nan_to_num", x)
    dtype, kind = x.dtype, _kind(x)
    if not kind & _INEXACT:
        return x
    if kind == COMPLEX:
        parts = (nan_to_num(p, copy, nan, posinf, neginf) for p in (lax.real(x), lax.imag(x)))
        return lax.complex(*parts)
    info = dtypes.finfo(dtype)
    above = float(info.max) if posinf is None else posinf
    below = float(info.min) if neginf is None else neginf
    x = choose_where(isnan(x), convert_operand(nan, dtype), x)
    x = choose_where(isposinf(x), convert_operand(above, dtype), x)
    return choose_where(isneginf(x), convert_operand(below, dtype), x)


# --- angles and complex numbers -------------------------------------------------------------------


def deg2rad(x: Any, /) -> Array:
    """Degrees as radians.

    >>> import weft.numpy as jnp
    >>> f"{jnp.deg2rad(180.0):.5f}"
    '3.14159'
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return lax.mul(x, const(x, np.pi / 180))


def rad2deg(x: Any, /) -> Array:
    """Radians as degrees.

    >>> import weft.numpy as jnp
    >>> jnp.rad2deg(0.0).item()
    0.0
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return lax.mul(x, const(x, 180 / np.pi))


radians, degrees = deg2rad, rad2deg


def conjugate(x: Any, /) -> Array:
    """Complex conjugate; real numbers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.conjugate(1 + 2j).item()
    (1-2j)
    """
    x = ensure_array("conjugate", x)
    return lax.conj(x) if _kind(x) == COMPLEX else x


conj = conjugate


def real(val: Any, /) -> Array:
    """The real part.

    >>> import weft.numpy as jnp
    >>> jnp.real(1 + 2j).item()
    1.0
    """
    x = ensure_array("real", val)
    return lax.real(x) if _kind(x) == COMPLEX else x


def imag(val: Any, /) -> Array:
    """The imaginary part, zero for real numbers.

    >>> import weft.numpy as jnp
    >>> jnp.imag(1 + 2j).item()
    2.0
    """
    x = ensure_array("imag", val)
    return lax.imag(x) if _kind(x) == COMPLEX else as_array(full_of(x, 0))


def angle(z: Any, deg: bool = False) -> Array:
    """The angle of complex numbers, in radians or degrees.

    >>> import weft.numpy as jnp
    >>> jnp.angle(1.0).item()
    0.0
    """
    z = ensure_array("angle", z)
    re, im = real(z), imag(z)
    if not _kind(re) & FLOAT or (_kind(z) == FLOAT and not z.ndim):
        dtype = dtypes.default_float_dtype()
        re, im = convert_operand(re, dtype), convert_operand(im, dtype)
    result = lax.atan2(im, re)
    return rad2deg(result) if deg else result


def iscomplex(x: Any) -> Array:
    """Whether elements have an imaginary part that is not zero.

    >>> import weft.numpy as jnp
    >>> jnp.iscomplex(jnp.array([1j, 1]))
    Array([ True, False], dtype=bool)
    """
    part = imag(x)
    return lax.ne(part, const(part, 0))


def isreal(x: Any) -> Array:
    """Whether elements have no imaginary part, or one of zero.

    >>> import weft.numpy as jnp
    >>> jnp.isreal(jnp.array([1j, 1]))
    Array([False,  True], dtype=bool)
    """
    part = imag(x)
    return lax.eq(part, const(part, 0))


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
    if _kind(x) != FLOAT:
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


# --- the parts of a floating number ---------------------------------------------------------------


def frexp(x: Any, /) -> tuple[Array, Array]:
    """The mantissa, between a half and 1 in size, and the exponent of 2.

    >>> import weft.numpy as jnp
    >>> [part.item() for part in jnp.frexp(12.0)]
    [0.75, 4]
    """
    x = ensure_array("frexp", x)
    (x,) = promote_dtypes_inexact(x)
    if _kind(x) == COMPLEX:
        raise TypeError("frexp does not accept complex numbers")
    return _frexp(x)


@custom_jvp
def _frexp(x: Any) -> tuple[Any, Any]:
    dtype = typeof(x).dtype
    info = dtypes.finfo(dtype)
    word = np.dtype(_SIGNED[info.bits])
    mask, bias = (1 << info.nexp) - 1, 1 - info.minexp
    bits, exponent = _normalized(x, info, word)
    field = lax.bitwise_and(
        lax.shift_right_arithmetic(bits, scalar(word, info.nmant)), scalar(word, mask)
    )
    field = lax.add(lax.sub(field, scalar(word, bias)), scalar(word, 1))
    exponent = lax.add(exponent, field)
    bits = lax.bitwise_and(bits, scalar(word, ~(mask << info.nmant)))
    bits = lax.bitwise_or(bits, scalar(word, (bias - 1) << info.nmant))
    mantissa = lax.bitcast_convert_type(bits, dtype)
    plain = lax.bitwise_or(
        lax.bitwise_or(_is_infinite(x), lax.ne(x, x)), lax.eq(x, scalar(dtype, 0))
    )
    exponent = choose_where(plain, full_of(exponent, 0), exponent)
    return choose_where(plain, x, mantissa), convert_operand(exponent, np.dtype(np.int32))


def _normalized(x: Any, info: Any, word: Any) -> tuple[Any, Any]:
    """Bits of a number scaled out of the subnormal range, and the exponent that this took."""
    dtype = typeof(x).dtype
    small = lax.lt(lax.abs(x), scalar(dtype, float(info.tiny)))
    scaled = choose_where(small, lax.mul(x, scalar(dtype, float(1 << info.nmant))), x)
    shift = choose_where(small, scalar(word, -info.nmant), scalar(word, 0))
    return lax.bitcast_convert_type(scaled, word), shift


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    scale = lax.exp2(lax.neg(convert_operand(exponent, typeof(t).dtype)))
    no_tangent = np.zeros(np.shape(exponent), dtypes.float0)
    return (mantissa, exponent), (lax.mul(t, scale), no_tangent)
