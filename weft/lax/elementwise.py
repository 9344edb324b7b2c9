"""Elementwise functions: arithmetic, comparison, logic, transcendental functions, selection."""

from __future__ import annotations

import builtins
import contextlib
import enum
import operator
from typing import Any, TypeVar, overload

import numpy as np

from weft import dtypes
from weft.api.placement import device_put, of_rank
from weft.base import knobs
from weft.core.array import Array, ArrayData, Exponent, Number
from weft.core.avals import ShapedArray
from weft.core.dims.dim import Dim, whole
from weft.core.registry import lookup
from weft.core.shape_dtype import ShapeDtypeStruct, abstractify
from weft.core.staging import StagingTrace
from weft.core.trace import Tracer, state, typeof
from weft.division import varying
from weft.dtypes import DType
from weft.lax.shape import boxed
from weft.prims import arithmetic, bits, convert, selection, transcendental
from weft.prims.families import scalar
from weft.prims.shape import broadcast_in_dim
from weft.tree.functions import tree_map

T = TypeVar("T")


class RoundingMethod(enum.IntEnum):
    """What ``lax.round`` does with numbers halfway between two integers.

    ``AWAY_FROM_ZERO`` rounds 0.5 to 1 and -0.5 to -1; ``TO_NEAREST_EVEN`` rounds both to 0.

    Example:
        >>> from weft import lax
        >>> float(lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN))
        2.0
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class AccuracyMode(enum.Enum):
    """How exact a transcendental function must be: ``HIGHEST`` or ``DEFAULT``.

    weft's functions are exact to a few units in the last place in both modes.

    Example:
        >>> from weft import lax
        >>> float(lax.exp(0.0, accuracy=lax.AccuracyMode.HIGHEST))
        1.0
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """How far a transcendental function may be off; weft's own are exact enough for any.

    Args:
        atol: Absolute error, not negative.
        rtol: Relative error, not negative.
        ulps: Error in units of the last place, not negative. At least one of the three is not 0.

    Example:
        >>> from weft import lax
        >>> lax.Tolerance(ulps=2).ulps
        2
    """

    __slots__ = ("atol", "rtol", "ulps")

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if atol < 0.0 or rtol < 0.0 or ulps < 0:
            raise ValueError(f"tolerances are not negative, got {atol=}, {rtol=}, {ulps=}")
        if not (atol or rtol or ulps):
            raise ValueError("Tolerance takes at least one of atol, rtol and ulps")
        self.atol = atol
        self.rtol = rtol
        self.ulps = ulps

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


# made here, where complex is still the type
_NUMBERS = (bool, int, float, complex, np.generic)


def neg(x: Any) -> Array:
    """Return the elementwise negation ``-x``.

    Args:
        x: Array or scalar of a numeric dtype; booleans raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.neg(1.5).item()
        -1.5
    """
    return arithmetic.neg_p.bind(x)


def sign(x: Any) -> Array:
    """Return the elementwise sign: -1, 0 or 1; ``x / abs(x)`` for complex numbers.

    Args:
        x: Array or scalar of a numeric dtype; booleans raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.sign(-2.0).item()
        -1.0
    """
    return arithmetic.sign_p.bind(x)


def floor(x: Any) -> Array:
    """Return each element rounded down to an integer.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.floor(1.5).item()
        1.0
    """
    return arithmetic.floor_p.bind(x)


def ceil(x: Any) -> Array:
    """Return each element rounded up to an integer.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.ceil(1.5).item()
        2.0
    """
    return arithmetic.ceil_p.bind(x)


def is_finite(x: Any) -> Array:
    """Return whether each element is neither infinite nor NaN.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.

    Returns:
        Boolean array with the shape of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.is_finite(1.0).item()
        True
    """
    return arithmetic.is_finite_p.bind(x)


def exp(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise exponential ``e**x``.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.exp(0.0).item()
        1.0
    """
    return transcendental.exp_p.bind(x, accuracy=accuracy)


def exp2(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise power of two ``2**x``.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.exp2(3.0).item()
        8.0
    """
    return transcendental.exp2_p.bind(x, accuracy=accuracy)


def log(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise natural logarithm; NaN for negative real numbers, -inf for 0.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.log(1.0).item()
        0.0
    """
    return transcendental.log_p.bind(x, accuracy=accuracy)


def expm1(x: Any, *, accuracy: Any = None) -> Array:
    """Return ``exp(x) - 1`` elementwise, accurate near zero.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.expm1(0.0).item()
        0.0
    """
    return transcendental.expm1_p.bind(x, accuracy=accuracy)


def log1p(x: Any, *, accuracy: Any = None) -> Array:
    """Return ``log(1 + x)`` elementwise, accurate near zero.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.log1p(0.0).item()
        0.0
    """
    return transcendental.log1p_p.bind(x, accuracy=accuracy)


def tanh(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise hyperbolic tangent.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.tanh(0.0).item()
        0.0
    """
    return transcendental.tanh_p.bind(x, accuracy=accuracy)


def logistic(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise logistic function ``1 / (1 + exp(-x))``.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.logistic(0.0).item()
        0.5
    """
    return transcendental.logistic_p.bind(x, accuracy=accuracy)


def sin(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise sine of angles in radians.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.sin(0.0).item()
        0.0
    """
    return transcendental.sin_p.bind(x, accuracy=accuracy)


def cos(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise cosine of angles in radians.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.cos(0.0).item()
        1.0
    """
    return transcendental.cos_p.bind(x, accuracy=accuracy)


def tan(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise tangent of angles in radians.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.tan(0.0).item()
        0.0
    """
    return transcendental.tan_p.bind(x, accuracy=accuracy)


def asin(x: Any) -> Array:
    """Return the elementwise inverse sine in radians; NaN for real numbers outside of [-1, 1].

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.asin(0.0).item()
        0.0
    """
    return transcendental.asin_p.bind(x)


def acos(x: Any) -> Array:
    """Return the elementwise inverse cosine in radians; NaN for real numbers outside of [-1, 1].

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.acos(1.0).item()
        0.0
    """
    return transcendental.acos_p.bind(x)


def atan(x: Any) -> Array:
    """Return the elementwise inverse tangent in radians.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.atan(0.0).item()
        0.0
    """
    return transcendental.atan_p.bind(x)


def sinh(x: Any) -> Array:
    """Return the elementwise hyperbolic sine.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.sinh(0.0).item()
        0.0
    """
    return transcendental.sinh_p.bind(x)


def cosh(x: Any) -> Array:
    """Return the elementwise hyperbolic cosine.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.cosh(0.0).item()
        1.0
    """
    return transcendental.cosh_p.bind(x)


def asinh(x: Any) -> Array:
    """Return the elementwise inverse hyperbolic sine.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.asinh(0.0).item()
        0.0
    """
    return transcendental.asinh_p.bind(x)


def acosh(x: Any) -> Array:
    """Return the elementwise inverse hyperbolic cosine; NaN for real numbers below 1.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.acosh(1.0).item()
        0.0
    """
    return transcendental.acosh_p.bind(x)


def atanh(x: Any) -> Array:
    """Return the elementwise inverse hyperbolic tangent; NaN for real numbers outside of [-1, 1].

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.atanh(0.0).item()
        0.0
    """
    return transcendental.atanh_p.bind(x)


def sqrt(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise square root; NaN for negative real numbers.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.sqrt(4.0).item()
        2.0
    """
    return transcendental.sqrt_p.bind(x, accuracy=accuracy)


def rsqrt(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise reciprocal square root ``1 / sqrt(x)``.

    Args:
        x: Array or scalar of a floating-point or complex dtype; integers raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.rsqrt(4.0).item()
        0.5
    """
    return transcendental.rsqrt_p.bind(x, accuracy=accuracy)


def cbrt(x: Any, *, accuracy: Any = None) -> Array:
    """Return the elementwise real cube root.

    Args:
        x: Array or scalar of a floating-point dtype; other dtypes raise TypeError.
        accuracy: An ``AccuracyMode`` or ``Tolerance``, recorded in the program. It changes no
            result: weft's functions are accurate to a few units in the last place.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.cbrt(0.0).item()
        0.0
    """
    return transcendental.cbrt_p.bind(x, accuracy=accuracy)


def square(x: Any) -> Array:
    """Return the elementwise square ``x * x``.

    Args:
        x: Array or scalar of a numeric dtype; booleans raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.square(3.0).item()
        9.0
    """
    return arithmetic.square_p.bind(x)


def abs(x: Any) -> Array:
    """Return the elementwise absolute value.

    Args:
        x: Array or scalar of a numeric dtype; booleans raise TypeError.

    Returns:
        Array with the shape and dtype of ``x``; of complex numbers, the modulus as real numbers.

    Example:
        >>> from weft import lax
        >>> lax.abs(-2.0).item()
        2.0
    """
    return arithmetic.abs_p.bind(x)


def real(x: Any) -> Array:
    """Return the real part of complex numbers.

    Args:
        x: Array or scalar of a complex dtype; other dtypes raise TypeError.

    Returns:
        Real array with the shape of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.real(1 + 2j).item()
        1.0
    """
    return arithmetic.real_p.bind(x)


def imag(x: Any) -> Array:
    """Return the imaginary part of complex numbers.

    Args:
        x: Array or scalar of a complex dtype; other dtypes raise TypeError.

    Returns:
        Real array with the shape of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.imag(1 + 2j).item()
        2.0
    """
    return arithmetic.imag_p.bind(x)


def bitwise_not(x: Any) -> Array:
    """Return the elementwise complement of bits; of booleans, the logical not.

    Args:
        x: Array or scalar of integers or booleans.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.bitwise_not(5).item()
        -6
    """
    return bits.not_p.bind(x)


def population_count(x: Any) -> Array:
    """Return how many bits of each integer are set.

    Args:
        x: Array or scalar of integers.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.population_count(7).item()
        3
    """
    return bits.population_count_p.bind(x)


def clz(x: Any) -> Array:
    """Return how many leading bits of each integer are zero.

    Args:
        x: Array or scalar of integers.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.clz(1).item()
        31
    """
    return bits.clz_p.bind(x)


def add(x: Any, y: Any) -> Array:
    """Return the elementwise sum.

    Args:
        x: Array or scalar of a numeric dtype.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.add(1.0, 2.0).item()
        3.0
    """
    return arithmetic.add_p.bind(x, y)


def sub(x: Any, y: Any) -> Array:
    """Return the elementwise difference ``x - y``.

    Args:
        x: Array or scalar of a numeric dtype.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.sub(3.0, 1.0).item()
        2.0
    """
    return arithmetic.sub_p.bind(x, y)


def div(x: Any, y: Any) -> Array:
    """Return the elementwise quotient ``x / y``; for integers, rounded towards zero.

    Args:
        x: Array or scalar of a numeric dtype.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.div(7, 2).item()
        3
    """
    return arithmetic.div_p.bind(x, y)


def rem(x: Any, y: Any) -> Array:
    """Return the elementwise remainder of ``x / y``, with the sign of ``x``.

    Args:
        x: Dividend: an array or scalar of real numbers.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.rem(-7, 3).item()
        -1
    """
    return arithmetic.rem_p.bind(x, y)


def max(x: Any, y: Any) -> Array:
    """Return the elementwise maximum; NaN if either operand is NaN.

    Args:
        x: Array or scalar; complex numbers are ordered by real, then imaginary part.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.max(1.0, 2.0).item()
        2.0
    """
    return arithmetic.max_p.bind(x, y)


def min(x: Any, y: Any) -> Array:
    """Return the elementwise minimum; NaN if either operand is NaN.

    Args:
        x: Array or scalar; complex numbers are ordered by real, then imaginary part.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.min(1.0, 2.0).item()
        1.0
    """
    return arithmetic.min_p.bind(x, y)


def pow(x: Any, y: Exponent) -> Array:
    """Return ``x`` raised to the power ``y``, elementwise.

    Args:
        x: Base: an array or scalar of a floating-point or complex dtype; for integers use
            ``integer_pow``.
        y: Exponent: of the dtype of ``x``, or of an integer dtype; broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.pow(2.0, 3.0).item()
        8.0
    """
    return transcendental.pow_p.bind(x, y)


def atan2(x: Any, y: Any) -> Array:
    """Return the angle of the point ``(y, x)`` in radians, from -pi to pi.

    Args:
        x: The vertical coordinate, floating-point.
        y: The horizontal coordinate, of the same dtype.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.atan2(0.0, 1.0).item()
        0.0
    """
    return transcendental.atan2_p.bind(x, y)


def complex(x: Any, y: Any) -> Array:
    """Return complex numbers with given real and imaginary parts.

    Args:
        x: Real parts: an array or scalar of float32 or float64.
        y: Imaginary parts, of the same dtype.

    Returns:
        Array of complex64 or complex128, of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.complex(1.0, 2.0).item()
        (1+2j)
    """
    return arithmetic.complex_p.bind(x, y)


def nextafter(x1: Any, x2: Any) -> Array:
    """Return the next representable number after ``x1`` in the direction of ``x2``.

    Args:
        x1: Start: an array or scalar of a floating-point dtype.
        x2: Direction, of the same dtype; where it equals ``x1``, the result is ``x2``.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.nextafter(1.0, 1.0).item()
        1.0
    """
    return arithmetic.nextafter_p.bind(x1, x2)


def eq(x: Any, y: Any) -> Array:
    """Return whether elements are equal; NaN equals nothing.

    Args:
        x: Array or scalar of any dtype.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.eq(1, 1).item()
        True
    """
    return selection.eq_p.bind(x, y)


def ne(x: Any, y: Any) -> Array:
    """Return whether elements differ; NaN differs from everything.

    Args:
        x: Array or scalar of any dtype.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.ne(1, 1).item()
        False
    """
    return selection.ne_p.bind(x, y)


def ge(x: Any, y: Any) -> Array:
    """Return whether ``x >= y``, elementwise.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.ge(1, 1).item()
        True
    """
    return selection.ge_p.bind(x, y)


def gt(x: Any, y: Any) -> Array:
    """Return whether ``x > y``, elementwise.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.gt(1, 1).item()
        False
    """
    return selection.gt_p.bind(x, y)


def le(x: Any, y: Any) -> Array:
    """Return whether ``x <= y``, elementwise.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.le(1, 1).item()
        True
    """
    return selection.le_p.bind(x, y)


def lt(x: Any, y: Any) -> Array:
    """Return whether ``x < y``, elementwise.

    Args:
        x: Array or scalar of real numbers; complex numbers raise TypeError.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.lt(1, 1).item()
        False
    """
    return selection.lt_p.bind(x, y)


def bitwise_and(x: Any, y: Any) -> Array:
    """Return the elementwise bitwise and; of booleans, the logical and.

    Args:
        x: Array or scalar of integers or booleans.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.bitwise_and(6, 3).item()
        2
    """
    return bits.and_p.bind(x, y)


def bitwise_or(x: Any, y: Any) -> Array:
    """Return the elementwise bitwise or; of booleans, the logical or.

    Args:
        x: Array or scalar of integers or booleans.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.bitwise_or(6, 3).item()
        7
    """
    return bits.or_p.bind(x, y)


def bitwise_xor(x: Any, y: Any) -> Array:
    """Return the elementwise bitwise exclusive or.

    Args:
        x: Array or scalar of integers or booleans.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.bitwise_xor(6, 3).item()
        5
    """
    return bits.xor_p.bind(x, y)


def shift_left(x: Any, y: Any) -> Array:
    """Return the bits of ``x`` shifted left by ``y`` places.

    Args:
        x: Array or scalar of integers.
        y: Number of places, of the same dtype as ``x``.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.shift_left(1, 3).item()
        8
    """
    return bits.shift_left_p.bind(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Array:
    """Return the bits of ``x`` shifted right by ``y`` places, filled with the sign bit.

    Args:
        x: Array or scalar of integers.
        y: Number of places, of the same dtype as ``x``.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.shift_right_arithmetic(-8, 1).item()
        -4
    """
    return bits.shift_right_arithmetic_p.bind(x, y)


def shift_right_logical(x: Any, y: Any) -> Array:
    """Return the bits of ``x`` shifted right by ``y`` places, filled with zeros.

    Args:
        x: Array or scalar of integers.
        y: Number of places, of the same dtype as ``x``.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.shift_right_logical(8, 1).item()
        4
    """
    return bits.shift_right_logical_p.bind(x, y)


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Array:
    """Return the elementwise product.

    Args:
        x: Array or scalar of a numeric dtype.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.
        out_dtype: Dtype to multiply in and to return; by default that of the operands.

    Returns:
        Array of the broadcast shape.

    Example:
        >>> from weft import lax
        >>> lax.mul(2.0, 3.0).item()
        6.0
    """
    if out_dtype is not None:
        x, y = _multiplied_in(np.dtype(out_dtype), x, y)
    return arithmetic.mul(x, y, out_dtype)


def _multiplied_in(dtype: np.dtype, x: Any, y: Any) -> tuple[Any, Any]:
    """Operands of a product in a dtype: converted where they differ, or one is complex."""
    kinds = [typeof(v).dtype for v in (x, y)]
    for v, kind in zip((x, y), kinds, strict=True):
        if kind == np.bool_:
            arithmetic.mul(v, v)  # which says so
    is_complex = [kind.kind == "c" for kind in (*kinds, dtype)]
    if kinds[0] == kinds[1] and len(set(is_complex)) == 1:
        return x, y
    return convert.convert(x, dtype), convert.convert(y, dtype)


def mulhi(x: Any, y: Any, /) -> Array:
    """Return the high half of the double-width product of integers.

    Args:
        x: Array or scalar of integers.
        y: Array or scalar of the same dtype as ``x``, which broadcasts against it; dtypes are not
            promoted.

    Returns:
        Array of the broadcast shape, in the dtype of the operands.

    Example:
        >>> from weft import lax
        >>> lax.mulhi(1 << 30, 8).item()
        2
    """
    return arithmetic.mulhi_p.bind(x, y)


def integer_pow(x: Any, y: int) -> Array:
    """Return ``x`` raised to a fixed integer power, by repeated multiplication.

    Args:
        x: Array or scalar of a numeric dtype.
        y: Exponent, a Python integer; negative only for inexact dtypes.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.integer_pow(2.0, 3).item()
        8.0
    """
    return arithmetic.integer_pow(x, operator.index(y))


def reciprocal(x: Any) -> Array:
    """Return ``1 / x``, elementwise.

    Args:
        x: Array or scalar of a floating-point or complex dtype.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.reciprocal(4.0).item()
        0.25
    """
    return arithmetic.integer_pow(x, -1)


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Return each element rounded to the nearest integer.

    Args:
        x: Array or scalar of a floating-point dtype.
        rounding_method: What to do with numbers halfway between two integers:
            ``RoundingMethod.AWAY_FROM_ZERO`` or ``TO_NEAREST_EVEN``.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.round(2.5).item()
        3.0
    """
    return arithmetic.round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def conj(x: Any) -> Array:
    """Return the elementwise complex conjugate.

    Args:
        x: Array or scalar of a floating-point or complex dtype.

    Returns:
        Complex array with the shape of ``x``, for real ``x`` too.

    Example:
        >>> from weft import lax
        >>> lax.conj(1 + 2j).item()
        (1-2j)
    """
    return arithmetic.conj(x)


def select_n(which: Any, *cases: Any) -> Array:
    """Return, at each position, the element of the case that ``which`` chooses.

    Args:
        which: Boolean array for up to two cases (False chooses the first), or integer indices of
            cases; a scalar, or of the shape of the cases.
        *cases: Arrays of one shape and dtype.

    Returns:
        Array with the shape and dtype of the cases. An index out of bounds gives an unspecified
        case.

    Example:
        >>> from weft import lax
        >>> lax.select_n(True, 1.0, 2.0).item()
        2.0
    """
    if not cases:
        raise ValueError("select_n needs at least one case")
    return selection.select_n_p.bind(which, *cases)


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """Return elements of ``on_true`` where ``pred`` holds and of ``on_false`` elsewhere.

    Args:
        pred: Boolean array: a scalar, or of the shape of the others.
        on_true: Array of values where ``pred`` is true.
        on_false: Array of the same shape and dtype.

    Returns:
        Array with the shape and dtype of ``on_true``. ``weft.numpy.where`` broadcasts and promotes.

    Example:
        >>> from weft import lax
        >>> lax.select(True, 1.0, 2.0).item()
        1.0
    """
    return selection.select_n_p.bind(pred, on_false, on_true)


def clamp(min: Any, x: Any, max: Any) -> Array:
    """Return the elements limited to the range from ``min`` to ``max``.

    Args:
        min: Lower bound: a scalar, or an array with the shape of ``x``, of the same dtype.
        x: Array of real numbers.
        max: Upper bound, as ``min``.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> from weft import lax
        >>> lax.clamp(0.0, 2.5, 1.0).item()
        1.0
    """
    return arithmetic.clamp_p.bind(min, x, max)


@overload
def stop_gradient(x: ArrayData) -> Array: ...
@overload
def stop_gradient(x: T) -> T: ...
def stop_gradient(x: Any) -> Any:
    """Return ``x`` unchanged, with a derivative of zero.

    Args:
        x: Array or tree of arrays.

    Returns:
        The same tree of arrays; forward and reverse mode treat it as constant.

    Example:
        >>> import weft
        >>> weft.grad(lambda x: x * weft.lax.stop_gradient(x))(3.0).item()
        3.0
    """
    return tree_map(_stop_gradient, x)


def _stop_gradient(x: Any) -> Any:
    if not dtypes.issubdtype(typeof(x).dtype, np.inexact):
        return x
    return arithmetic.stop_gradient_p.bind(x)


def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """Return an array converted to another dtype.

    Args:
        operand: Array or scalar. Floats are truncated towards zero when converted to integers; of
            complex numbers the real part is kept.
        new_dtype: Dtype of the result; int, float and complex name the default dtypes.

    Returns:
        Array with the shape of ``operand``.

    Example:
        >>> from weft import lax
        >>> lax.convert_element_type(1.7, int).item()
        1
    """
    dtype = dtypes.check_user_dtype(new_dtype, "lax.convert_element_type")
    if hasattr(operand, "__jax_array__"):
        operand = operand.__jax_array__()
    if isinstance(dtype, dtypes.PrimalTangentDType):
        same = typeof(operand).dtype == dtype
        return operand if same else lookup("to_edtype").bind(operand, edtype=dtype)
    if isinstance(getattr(operand, "dtype", None), dtypes.PrimalTangentDType):
        return lookup("from_edtype").bind(operand, dtype=dtype)
    if type(operand) is int and not -(2**31) <= operand < 2**31:
        operand = _of_wide_integer(operand, dtype)
    convert.warn_of_lost_parts(typeof(operand).dtype, dtype)
    if isinstance(operand, _NUMBERS):
        trace = state.trace
        if type(trace) is StagingTrace:  # a number is written into the program as it will be
            value = convert.convert_values(np.asarray(operand, typeof(operand).dtype), dtype)[()]
            return trace.literal(value, ShapedArray((), dtype))
    return boxed(convert.convert(operand, dtype))


def _of_wide_integer(value: int, dtype: Any) -> Any:
    """An integer that has no default dtype: by its value as a float, by its low bits else."""
    if dtypes.issubdtype(dtype, np.inexact):
        return np.asarray(float(value)).astype(dtype)[()]
    if not -(2**63) <= value < 2**64:
        raise OverflowError(
            f"convert_element_type takes Python integers of up to 64 bits, got {value};"
            " reduce it, value % 2**64"
        )
    if dtypes.issubdtype(dtype, np.bool_):
        return np.bool_(value)
    return np.asarray(value % 2**64, np.uint64).astype(dtype)[()]


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """Return an array whose bits are read as another dtype.

    Args:
        operand: Array or scalar.
        new_dtype: Dtype of the result. For a narrower one a last axis is added, for a wider one the
            last axis, of the size of the ratio, is removed.

    Returns:
        Array with the same bits.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> hex(lax.bitcast_convert_type(np.float32(1), np.uint32).item())
        '0x3f800000'
    """
    dtype = dtypes.check_user_dtype(new_dtype, "lax.bitcast_convert_type")
    return convert.bitcast_convert_type_p.bind(operand, new_dtype=dtype)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """Return the elements rounded to a float format with fewer bits.

    Args:
        operand: Array or scalar of a floating-point dtype.
        exponent_bits: Number of exponent bits of the format.
        mantissa_bits: Number of mantissa bits of the format.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> lax.reduce_precision(1.2345, 5, 3).item()
        1.25
    """
    return convert.reduce_precision_p.bind(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Array:
    """Return an array filled with one value.

    Args:
        shape: Shape of the result, an integer or a tuple of integers.
        fill_value: Scalar to fill with.
        dtype: Dtype of the result; by default that of ``fill_value``.
        sharding: Device or sharding to put the result on.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> from weft import lax
        >>> lax.full((2,), 7.0)
        Array([7., 7.], dtype=float32, weak_type=True)
    """
    if type(shape) is Dim or np.ndim(shape) == 0:
        shape = (shape,)
    shape = tuple([whole(n) for n in shape])
    if np.shape(fill_value):
        raise TypeError(f"full needs a scalar fill value, got shape {np.shape(fill_value)}")
    weak = dtype is None and dtypes.is_weakly_typed(fill_value)
    if dtype is None:
        dtype = dtypes.dtype(fill_value)
    else:
        dtype = dtypes.check_user_dtype(dtype, "lax.full")
    wide = dtypes.canonicalize_dtype(dtype, True) != dtype  # an array made under enable_x64
    with knobs.enable_x64(True) if wide else contextlib.nullcontext():
        made = broadcast_in_dim(_scalar_of(fill_value, dtype, weak), shape, ())
    return made if sharding is None else device_put(made, of_rank(sharding, len(shape)))


def _scalar_of(value: Any, dtype: Any, weak: bool) -> Any:
    """A scalar in a dtype: converted at once unless it is an array."""
    if isinstance(value, (bool, int, float, builtins.complex, np.generic)):
        return dtypes.scalar_type_of(dtype)(value) if weak else scalar(dtype, value)
    return convert.convert(value, dtype, weak)


def full_like(
    x: Any, fill_value: Number, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Array:
    """Return an array filled with one value, with the shape and dtype of another.

    Args:
        x: Array, scalar or ``ShapeDtypeStruct`` that gives shape and dtype.
        fill_value: Scalar to fill with, converted to the dtype.
        dtype: Dtype of the result; by default that of ``x``.
        shape: Shape of the result; by default that of ``x``.
        sharding: Sharding of the result; by default that of ``x`` if the shape is the same.

    Returns:
        Array with the shape and dtype of ``x`` unless others are given.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.full_like(np.zeros(2, np.float32), 7)
        Array([7., 7.], dtype=float32)
    """
    aval = abstractify(x) if isinstance(x, ShapeDtypeStruct) else typeof(x)
    weak = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtypes.check_user_dtype(dtype, "lax.full_like")
    shape = aval.shape if shape is None else tuple(shape)
    wide = dtypes.canonicalize_dtype(dtype, True) != dtype  # an array made under enable_x64
    with knobs.enable_x64(True) if wide else contextlib.nullcontext():
        divided = aval.divided if sharding is None and shape == aval.shape else None
        value = _scalar_of(fill_value, dtype, weak)
        made = broadcast_in_dim(value, shape, (), divided)
    if isinstance(x, Tracer):
        made = varying.like(made, x)
    described = isinstance(x, ShapeDtypeStruct) and x.sharding is not None
    if sharding is None and getattr(x, "committed", described):
        if shape == aval.shape or x.sharding.num_devices == 1:
            sharding = x.sharding
    return made if sharding is None else device_put(made, sharding)


def dtype(x: Any) -> DType:
    """Return the dtype of an array or scalar.

    Args:
        x: Array, NumPy array or Python scalar; of Python scalars the default dtype of their type.

    Returns:
        NumPy dtype.

    Example:
        >>> from weft import lax
        >>> lax.dtype(1.0)
        dtype('float32')
    """
    return dtypes.dtype(x)
