"""What numbers are made of, with NumPy's names: finite or not, real and imaginary, bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array
from weft.core.trace import typeof
from weft.numpy.broadcasting import choose_where, filled, full_of
from weft.numpy.promotion import (
    array_kind,
    as_array,
    convert_operand,
    ensure_array,
    promote_args,
    promote_args_inexact,
    promote_dtypes_inexact,
    refuse_out,
)
from weft.prims.families import COMPLEX, FLOAT, INEXACT, INTEGER, const, kind_of, scalar

_SIGNED = {16: np.int16, 32: np.int32, 64: np.int64}

# --- questions ------------------------------------------------------------------------------------


def isfinite(x: Any, /) -> Array:
    """Return whether each element is neither infinite nor NaN.

    Args:
        x: Array or scalar of any numeric dtype; integers are always finite.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isfinite(jnp.inf).item()
        False
    """
    x = ensure_array("isfinite", x)
    kind = array_kind(x)
    if kind == FLOAT:
        return lax.is_finite(x)
    if kind == COMPLEX:
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return filled(x.shape, np.True_)


def _is_infinite(x: Any) -> Any:
    return lax.eq(lax.abs(x), scalar(typeof(x).dtype, np.inf))


def isinf(x: Any, /) -> Array:
    """Return whether each element is plus or minus infinity.

    Args:
        x: Array or scalar of any numeric dtype; integers are always finite.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isinf(jnp.inf).item()
        True
    """
    x = ensure_array("isinf", x)
    kind = array_kind(x)
    if kind == FLOAT:
        return _is_infinite(x)
    if kind == COMPLEX:
        return lax.bitwise_or(_is_infinite(lax.real(x)), _is_infinite(lax.imag(x)))
    return filled(x.shape, np.False_)


def isposinf(x: Any, /, out: None = None) -> Array:
    """Return whether each element is plus infinity.

    Args:
        x: Array or scalar of real numbers; complex numbers raise ValueError.
        out: Must be None.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isposinf(-jnp.inf).item()
        False
    """
    return _is_signed_infinity("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: None = None) -> Array:
    """Return whether each element is minus infinity.

    Args:
        x: Array or scalar of real numbers; complex numbers raise ValueError.
        out: Must be None.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isneginf(-jnp.inf).item()
        True
    """
    return _is_signed_infinity("isneginf", x, -np.inf, out)


def _is_signed_infinity(name: str, x: Any, value: float, out: None) -> Array:
    x = ensure_array(name, x)
    refuse_out(name, out)
    kind = array_kind(x)
    if kind == FLOAT:
        return lax.eq(x, scalar(x.dtype, value))
    if kind == COMPLEX:
        raise ValueError(f"{name} is not defined for complex numbers")
    return filled(x.shape, np.False_)


def isnan(x: Any, /) -> Array:
    """Return whether each element is NaN.

    Args:
        x: Array or scalar of any numeric dtype; a complex number is NaN if either part is.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isnan(jnp.nan).item()
        True
    """
    x = ensure_array("isnan", x)
    return lax.ne(x, x)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Return an array with NaN and infinities replaced by finite numbers.

    Args:
        x: Array or scalar; integers are returned unchanged.
        copy: Ignored; arrays are immutable, so the result is always a new value.
        nan: The value for NaN, a scalar or an array that broadcasts.
        posinf: The value for plus infinity; by default the largest finite number of the dtype.
        neginf: The value for minus infinity; by default the smallest finite number of the dtype.

    Returns:
        Array with the shape and dtype of ``x``. Real and imaginary parts are replaced separately.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nan_to_num(jnp.array([1.0, jnp.nan]), nan=7.0)
        Array([1., 7.], dtype=float32)
    """
    x = ensure_array("nan_to_num", x)
    dtype, kind = x.dtype, array_kind(x)
    if not kind & INEXACT:
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
    """Return angles in radians for angles in degrees.

    Args:
        x: Angles in degrees; integers are converted to the default float type.

    Returns:
        Floating-point array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> f"{jnp.deg2rad(180.0):.5f}"
        '3.14159'
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return lax.mul(x, const(x, np.pi / 180))


def rad2deg(x: Any, /) -> Array:
    """Return angles in degrees for angles in radians.

    Args:
        x: Angles in radians; integers are converted to the default float type.

    Returns:
        Floating-point array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.rad2deg(0.0).item()
        0.0
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return lax.mul(x, const(x, 180 / np.pi))


radians, degrees = deg2rad, rad2deg


def conjugate(x: Any, /) -> Array:
    """Return the complex conjugate; real numbers are returned unchanged.

    Args:
        x: Array or scalar of any dtype.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.conjugate(1 + 2j).item()
        (1-2j)
    """
    x = ensure_array("conjugate", x)
    return lax.conj(x) if array_kind(x) == COMPLEX else x


conj = conjugate


def real(val: Any, /) -> Array:
    """Return the real part of each element.

    Args:
        val: Array or scalar of any dtype; real numbers are returned unchanged.

    Returns:
        Array with the shape of ``val``; float32 for complex64, float64 for complex128.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.real(1 + 2j).item()
        1.0
    """
    x = ensure_array("real", val)
    return lax.real(x) if array_kind(x) == COMPLEX else x


def imag(val: Any, /) -> Array:
    """Return the imaginary part of each element, zero for real numbers.

    Args:
        val: Array or scalar of any dtype.

    Returns:
        Array with the shape of ``val``; float32 for complex64, float64 for complex128, else the
        dtype of ``val``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.imag(1 + 2j).item()
        2.0
    """
    x = ensure_array("imag", val)
    return lax.imag(x) if array_kind(x) == COMPLEX else as_array(full_of(x, 0))


def angle(z: Any, deg: bool = False) -> Array:
    """Return the argument of complex numbers: the angle to the positive real axis.

    Args:
        z: Array or scalar; real numbers have angle 0 or pi.
        deg: If true, the result is in degrees instead of radians.

    Returns:
        Floating-point array with the shape of ``z``, from -pi to pi (-180 to 180 degrees).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.angle(1.0).item()
        0.0
    """
    z = ensure_array("angle", z)
    re, im = real(z), imag(z)
    if not array_kind(re) & FLOAT or (array_kind(z) == FLOAT and not z.ndim):
        dtype = dtypes.default_float_dtype()
        re, im = convert_operand(re, dtype), convert_operand(im, dtype)
    result = lax.atan2(im, re)
    return rad2deg(result) if deg else result


def iscomplex(x: Any) -> Array:
    """Return whether each element has a nonzero imaginary part.

    Args:
        x: Array or scalar of any dtype.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.iscomplex(jnp.array([1j, 1]))
        Array([ True, False], dtype=bool)
    """
    part = imag(x)
    return lax.ne(part, const(part, 0))


def isreal(x: Any) -> Array:
    """Return whether each element has no imaginary part, or one of zero.

    Args:
        x: Array or scalar of any dtype.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isreal(jnp.array([1j, 1]))
        Array([False,  True], dtype=bool)
    """
    part = imag(x)
    return lax.eq(part, const(part, 0))


# --- the bits of a floating number ---------------------------------------------------------------


def signbit(x: Any, /) -> Array:
    """Return whether the sign bit of each element is set, for -0.0 too.

    Args:
        x: Array or scalar of real numbers; complex numbers raise ValueError.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
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
    """Return the distance from each number to the next representable one away from zero.

    Args:
        x: Array or scalar of real numbers; integers are converted to the default float type.

    Returns:
        Floating-point array with the shape of ``x`` and the sign of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.spacing(jnp.float32(1.0)).item() == 2.0**-23
        True
    """
    (x,) = promote_args_inexact("spacing", x)
    if array_kind(x) == COMPLEX:
        raise ValueError("spacing is not defined for complex numbers")
    dtype = typeof(x).dtype
    if dtype == np.float16:
        return lax.sub(lax.nextafter(x, const(x, np.inf)), x)
    away = choose_where(signbit(x), const(x, -np.inf), const(x, np.inf))
    gap = lax.sub(lax.nextafter(x, away), x)
    least = scalar(dtype, float(dtypes.finfo(dtype).smallest_subnormal))
    tiny = choose_where(signbit(x), -least, least)
    return choose_where(lax.eq(gap, const(gap, 0)), tiny, gap)


def frexp(x: Any, /) -> tuple[Array, Array]:
    """Return mantissa and exponent with ``x == mantissa * 2**exponent``.

    Args:
        x: Array or scalar of real numbers; integers are converted to the default float type.

    Returns:
        Pair of arrays with the shape of ``x``: the mantissa, in size from 0.5 up to 1 (0 for 0),
        and the int32 exponent.

    Example:
        >>> import weft.numpy as jnp
        >>> [part.item() for part in jnp.frexp(12.0)]
        [0.75, 4]
    """
    x = ensure_array("frexp", x)
    (x,) = promote_dtypes_inexact(x)
    if array_kind(x) == COMPLEX:
        raise TypeError("frexp does not accept complex numbers")
    return _frexp(x)


@custom_jvp
def _frexp(x: Any) -> tuple[Any, Any]:
    dtype = typeof(x).dtype
    info = dtypes.finfo(dtype)
    word = np.dtype(_SIGNED[info.bits])
    mask, bias = (1 << info.nexp) - 1, 1 - info.minexp
    own = lax.bitcast_convert_type(x, word)
    bits, exponent = _normalized(own, info, word)
    field = lax.bitwise_and(
        lax.shift_right_arithmetic(bits, scalar(word, info.nmant)), scalar(word, mask)
    )
    field = lax.add(lax.sub(field, scalar(word, bias)), scalar(word, 1))
    exponent = lax.add(exponent, field)
    bits = lax.bitwise_and(bits, scalar(word, ~(mask << info.nmant)))
    bits = lax.bitwise_or(bits, scalar(word, (bias - 1) << info.nmant))
    mantissa = lax.bitcast_convert_type(bits, dtype)
    # by bits: arithmetic takes denormal numbers for zeros
    size = lax.bitwise_and(own, scalar(word, np.iinfo(word).max))
    endless = lax.ge(size, scalar(word, mask << info.nmant))
    plain = lax.bitwise_or(endless, lax.eq(size, scalar(word, 0)))
    exponent = choose_where(plain, full_of(exponent, 0), exponent)
    exponent = as_array(convert_operand(exponent, np.dtype(np.int32)))
    return choose_where(plain, x, mantissa), exponent


def _normalized(bits: Any, info: Any, word: Any) -> tuple[Any, Any]:
    """Bits of a number scaled out of the subnormal range, and the exponent that this took."""
    digits = lax.bitwise_and(bits, scalar(word, (1 << info.nmant) - 1))
    sign = lax.bitwise_and(bits, scalar(word, np.iinfo(word).min))
    field = lax.bitwise_and(bits, scalar(word, ((1 << info.nexp) - 1) << info.nmant))
    small = lax.eq(field, scalar(word, 0))
    # below the smallest normal number the digits count multiples of the smallest of all
    counted = lax.bitcast_convert_type(convert_operand(digits, info.dtype), word)
    scaled = choose_where(small, lax.bitwise_or(counted, sign), bits)
    return scaled, choose_where(small, scalar(word, info.minexp - info.nmant), scalar(word, 0))


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    scale = lax.exp2(lax.neg(convert_operand(exponent, typeof(t).dtype)))
    no_tangent = np.zeros(np.shape(exponent), dtypes.float0)
    return (mantissa, exponent), (lax.mul(t, scale), no_tangent)
