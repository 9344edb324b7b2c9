"""Elementwise functions of two arrays with NumPy's names: operands are promoted, then bound.

These are the plain functions that operators call; ``ufunc_objects`` makes NumPy's ufuncs of some.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base import knobs
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array, Exponent
from weft.core.trace import typeof
from weft.numpy.broadcasting import choose_where, expand_to, full_of
from weft.numpy.parts import frexp, isfinite, isnan, isposinf, signbit
from weft.numpy.promotion import (
    array_kind,
    check_arraylike,
    convert_operand,
    convert_staged,
    ensure_arrays,
    is_known,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes,
    promote_pair,
    promote_pair_inexact,
    promote_shapes,
    unwrapped,
)
from weft.numpy.unary import absolute
from weft.prims.arithmetic import add_p, div_p, max_p, min_p, mul_p, sub_p
from weft.prims.bits import and_p, or_p, xor_p
from weft.prims.families import BOOL, COMPLEX, INEXACT, INTEGER, UINT, const, scalar
from weft.prims.selection import eq_p, ne_p

_BOOL = np.dtype(np.bool_)


def _is_bool(x: Any) -> bool:
    return typeof(x).dtype == np.bool_


# --- arithmetic -----------------------------------------------------------------------------------


def add(x: Any, y: Any, /) -> Array:
    """Return the elementwise sum; of booleans, the logical or.

    Args:
        x: Array or scalar of any numeric or boolean dtype.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    As in JAX: ``add.reduce``, ``add.accumulate``, ``add.at`` and the other ufunc methods exist;
    ``out`` and ``where`` do not.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.add(1, 2).item()
        3
    """
    x, y = promote_pair("add", x, y)
    return or_p.bind(x, y) if _is_bool(x) else add_p.bind(x, y)


def negative(x: Any, /) -> Array:
    """Return the elementwise negation ``-x``.

    Args:
        x: Array or scalar of any numeric dtype; unsigned integers wrap around, booleans raise
            TypeError.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.negative(2.0).item()
        -2.0
    """
    return lax.neg(*promote_args("negative", x))


def subtract(x: Any, y: Any, /) -> Array:
    """Return the elementwise difference ``x - y``.

    Args:
        x: Array or scalar of any numeric dtype; two boolean operands raise TypeError.
        y: Array or scalar to subtract; broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.subtract(3, 1).item()
        2
    """
    x, y = promote_pair("subtract", x, y)
    return sub_p.bind(x, y)


def multiply(x: Any, y: Any, /) -> Array:
    """Return the elementwise product; of booleans, the logical and.

    Args:
        x: Array or scalar of any numeric or boolean dtype.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.multiply(2, 3).item()
        6
    """
    x, y = promote_pair("multiply", x, y)
    return and_p.bind(x, y) if _is_bool(x) else mul_p.bind(x, y)


def true_divide(x1: Any, x2: Any, /) -> Array:
    """Return the elementwise quotient ``x1 / x2``, as a floating-point number for integers too.

    Args:
        x1: Dividend; an array or scalar.
        x2: Divisor; broadcasts against ``x1``. Division by zero gives inf or NaN.

    Returns:
        Array of the broadcast shape; integers are promoted to the default float type.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.true_divide(1, 2).item()
        0.5
    """
    return div_p.bind(*promote_pair_inexact("true_divide", x1, x2))


divide = true_divide


def floor_divide(x1: Any, x2: Any, /) -> Array:
    """Return the elementwise quotient rounded towards minus infinity.

    Args:
        x1: Dividend; an array or scalar of real numbers.
        x2: Divisor; broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape in the promoted dtype: integers for integers, floats for
        floats. Complex operands raise TypeError.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.floor_divide(-7, 2).item()
        -4
    """
    x1, x2 = promote_args_numeric("floor_divide", x1, x2, staged=True)
    kind = array_kind(x1)
    if kind == UINT:
        return lax.div(x1, x2)
    if kind & INTEGER:
        quotient = lax.div(x1, x2)
        different = lax.ne(lax.sign(x1), lax.sign(x2))
        inexact = lax.ne(lax.rem(x1, x2), const(x1, 0))
        below = lax.bitwise_and(different, inexact)
        return choose_where(below, lax.sub(quotient, const(quotient, 1)), quotient)
    if kind == COMPLEX:
        raise TypeError("floor_divide does not support complex-valued inputs")
    return _float_divmod(x1, x2)[0]


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    # as Python's float divmod: the quotient is rounded, the remainder takes the divisor's sign
    rest = lax.rem(x1, x2)
    exact = choose_where(lax.eq(x2, const(x2, 0)), x1, lax.sub(x1, rest))
    quotient = lax.div(exact, x2)
    off = lax.bitwise_and(lax.ne(rest, const(rest, 0)), lax.ne(lax.sign(x2), lax.sign(rest)))
    rest = lax.select(off, lax.add(rest, x2), rest)
    quotient = lax.select(off, lax.sub(quotient, const(quotient, 1)), quotient)
    return lax.round(quotient), rest


def divmod(x1: Any, x2: Any, /) -> tuple[Array, Array]:
    """Return the pair ``(floor_divide(x1, x2), remainder(x1, x2))``.

    Args:
        x1: Dividend; an array or scalar of real numbers.
        x2: Divisor; broadcasts against ``x1``.

    Returns:
        Two arrays of the broadcast shape: the quotient rounded down, and the remainder with the
        divisor's sign.

    Example:
        >>> import weft.numpy as jnp
        >>> [x.item() for x in jnp.divmod(7, 2)]
        [3, 1]
    """
    x1, x2 = promote_args_numeric("divmod", x1, x2, staged=True)
    if array_kind(x1) & INTEGER:
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def remainder(x1: Any, x2: Any, /) -> Array:
    """Return the elementwise remainder of floor division, which has the sign of the divisor.

    Args:
        x1: Dividend; an array or scalar of real numbers.
        x2: Divisor; broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape in the promoted dtype. An integer remainder by 0 is 0, as in
        NumPy; for floats it is NaN.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.remainder(-7, 3).item()
        2
    """
    x1, x2 = promote_args_numeric("remainder", x1, x2, staged=True)
    zero = scalar(typeof(x1).dtype, 0)
    if array_kind(x2) & INTEGER:
        x2 = _nonzero_divisor(x2)
    rest = lax.rem(x1, x2)
    nonzero = lax.ne(rest, zero)
    different = lax.ne(lax.lt(rest, zero), lax.lt(x2, zero))
    off = lax.bitwise_and(different, nonzero)
    return lax.select(off, lax.add(rest, x2), rest)


def _nonzero_divisor(x: Any) -> Any:
    """Integers with 1 in place of 0, so that a remainder is defined; unless that is checked."""
    if knobs.thread.check_division:
        return x
    return choose_where(lax.eq(x, const(x, 0)), full_of(x, 1), x)


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Array:
    """Return the elementwise remainder of truncating division, which has the sign of the dividend.

    Args:
        x1: Dividend; an array or scalar of real numbers.
        x2: Divisor; broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x1`` and ``x2`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fmod(-7, 3).item()
        -1
    """
    check_arraylike("fmod", x1, x2)
    if dtypes.issubdtype(dtypes.result_type(x1, x2), np.integer):
        x2 = _nonzero_divisor(unwrapped(x2))
    return lax.rem(*promote_args_numeric("fmod", x1, x2, staged=True))


# --- powers ---------------------------------------------------------------------------------------


def power(x1: Any, x2: Exponent, /) -> Array:
    """Return ``x1`` raised to the power ``x2``, elementwise.

    Args:
        x1: Base; an array or scalar. Booleans count as integers.
        x2: Exponent; broadcasts against ``x1``. A Python integer, or an integer scalar whose value
            is known, is compiled to repeated multiplication.

    Returns:
        Array of the broadcast shape in the promoted dtype. A negative base with a fractional
        exponent gives NaN unless it is complex.

    Differs from NumPy: integers to the power of an array of negative integers give no error; their
    value is unspecified.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.power(2.0, 3).item()
        8.0
    """
    check_arraylike("power", x1, x2)
    x1, x2 = unwrapped(x1), unwrapped(x2)
    if type(x2) is int:
        return lax.integer_pow(*promote_args_numeric("power", x1), x2)
    if type(x2) is not float and not np.ndim(x2) and is_known(x2):
        try:
            exponent = operator.index(x2)
        except TypeError:
            pass
        else:
            return lax.integer_pow(*promote_args_numeric("power", x1), exponent)
    return _power(x1, x2)


pow = power


def _power(x1: Any, x2: Any) -> Any:
    x1, x2 = promote_shapes("power", x1, x2)
    base, exponent = promote_args_numeric("power", x1, x2)
    if array_kind(base) & (INTEGER | BOOL):
        return _integer_power(base, exponent)
    if array_kind(x1) & INEXACT and array_kind(x2) & INTEGER:
        return lax.pow(x1, x2)
    return lax.pow(base, exponent)


def _integer_power(x: Any, y: Any) -> Any:
    """``x**y`` for integers, by squaring; exponents have at most six bits that matter."""
    dtype = typeof(y).dtype
    zero, one = scalar(dtype, 0), scalar(dtype, 1)
    vanishes = lax.bitwise_and(lax.eq(x, zero), lax.ne(y, zero))
    result = choose_where(vanishes, zero, one)
    for _ in range(6):
        result = choose_where(lax.bitwise_and(y, one), lax.mul(result, x), result)
        x = lax.mul(x, x)
        y = lax.shift_right_logical(y, one)
    return result


def float_power(x: Any, y: Exponent, /) -> Array:
    """Return ``x`` raised to the power ``y``, computed in floating point.

    Args:
        x: Base; an array or scalar. Integers are converted to the default float type.
        y: Exponent; broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, floating-point or complex.

    Differs from NumPy: the result is float32 for float32 operands, not always float64.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.float_power(2, 3).item()
        8.0
    """
    return lax.pow(*promote_args_inexact("float_power", x, y))


# --- comparison -----------------------------------------------------------------------------------


def equal(x: Any, y: Any, /) -> Array:
    """Return whether elements are equal; NaN equals nothing.

    Args:
        x: Array or scalar.
        y: Array or scalar that broadcasts against ``x``; both are promoted to one dtype first.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.equal(1, 1).item()
        True
    """
    x, y = promote_pair("equal", x, y)
    return eq_p.bind(x, y)


def not_equal(x: Any, y: Any, /) -> Array:
    """Return whether elements differ; NaN differs from everything.

    Args:
        x: Array or scalar.
        y: Array or scalar that broadcasts against ``x``; both are promoted to one dtype first.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.not_equal(1, 1).item()
        False
    """
    x, y = promote_pair("not_equal", x, y)
    return ne_p.bind(x, y)


def greater(x: Any, y: Any, /) -> Array:
    """Return whether ``x > y``, elementwise.

    Args:
        x: Left side; an array or scalar. Complex numbers are ordered by real, then by imaginary
            part.
        y: Right side; broadcasts against ``x``. A comparison with NaN is false.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.greater(2, 1).item()
        True
    """
    return _compare(lax.gt, *promote_pair("greater", x, y))


def greater_equal(x: Any, y: Any, /) -> Array:
    """Return whether ``x >= y``, elementwise.

    Args:
        x: Left side; an array or scalar. Complex numbers are ordered by real, then by imaginary
            part.
        y: Right side; broadcasts against ``x``. A comparison with NaN is false.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.greater_equal(1, 1).item()
        True
    """
    return _compare(lax.ge, *promote_pair("greater_equal", x, y))


def less(x: Any, y: Any, /) -> Array:
    """Return whether ``x < y``, elementwise.

    Args:
        x: Left side; an array or scalar. Complex numbers are ordered by real, then by imaginary
            part.
        y: Right side; broadcasts against ``x``. A comparison with NaN is false.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.less(1, 2).item()
        True
    """
    return _compare(lax.lt, *promote_pair("less", x, y))


def less_equal(x: Any, y: Any, /) -> Array:
    """Return whether ``x <= y``, elementwise.

    Args:
        x: Left side; an array or scalar. Complex numbers are ordered by real, then by imaginary
            part.
        y: Right side; broadcasts against ``x``. A comparison with NaN is false.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.less_equal(1, 1).item()
        True
    """
    return _compare(lax.le, *promote_pair("less_equal", x, y))


def _compare(compare: Any, x: Any, y: Any) -> Any:
    if array_kind(x) != COMPLEX:
        return compare(x, y)
    same = lax.eq(lax.real(x), lax.real(y))
    by_imaginary = compare(lax.imag(x), lax.imag(y))
    return lax.select(same, by_imaginary, compare(lax.real(x), lax.real(y)))


def maximum(x: Any, y: Any, /) -> Array:
    """Return the elementwise larger of two arrays; NaN if either element is NaN.

    Args:
        x: Array or scalar; complex numbers are ordered by real, then by imaginary part.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.maximum(1, 2).item()
        2
    """
    x, y = promote_pair("maximum", x, y)
    return max_p.bind(x, y)


def minimum(x: Any, y: Any, /) -> Array:
    """Return the elementwise smaller of two arrays; NaN if either element is NaN.

    Args:
        x: Array or scalar; complex numbers are ordered by real, then by imaginary part.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.minimum(1, 2).item()
        1
    """
    x, y = promote_pair("minimum", x, y)
    return min_p.bind(x, y)


def fmax(x1: Any, x2: Any) -> Array:
    """Return the elementwise larger of two arrays, ignoring NaN where only one element is NaN.

    Args:
        x1: Array or scalar.
        x2: Array or scalar that broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x1`` and ``x2`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fmax(1.0, jnp.nan).item()
        1.0
    """
    first = _compare(lax.gt, *promote_args("greater", x1, x2, staged=True))
    return choose_where(lax.bitwise_or(first, _nan_mask(x2, first)), x1, x2)


def fmin(x1: Any, x2: Any) -> Array:
    """Return the elementwise smaller of two arrays, ignoring NaN where only one element is NaN.

    Args:
        x1: Array or scalar.
        x2: Array or scalar that broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x1`` and ``x2`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fmin(1.0, jnp.nan).item()
        1.0
    """
    first = _compare(lax.lt, *promote_args("less", x1, x2, staged=True))
    return choose_where(lax.bitwise_or(first, _nan_mask(x2, first)), x1, x2)


def _nan_mask(x: Any, like: Any) -> Any:
    mask = isnan(x)
    return promote_shapes("fmax", convert_staged(mask, _BOOL), like)[0]


_RTOL, _ATOL = 1e-05, 1e-08


def isclose(a: Any, b: Any, rtol: Any = _RTOL, atol: Any = _ATOL, equal_nan: bool = False) -> Array:
    """Return whether elements are equal within ``atol + rtol * abs(b)``.

    Args:
        a: Array or scalar.
        b: Reference values; broadcasts against ``a``. The relative tolerance scales with ``b``
            only.
        rtol: Relative tolerance, a scalar or array.
        atol: Absolute tolerance, a scalar or array.
        equal_nan: If true, NaN is close to NaN.

    Returns:
        Boolean array of the broadcast shape. Infinities are close only to themselves.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.isclose(1.0, 1.0 + 1e-7).item()
        True
    """
    check_arraylike("isclose", a, b)
    if isinstance(dtypes.dtype(a), dtypes.ExtendedDType):
        return lax.eq(*promote_args("isclose", a, b))
    a, b = promote_args_inexact("isclose", a, b, staged=True)
    dtype = dtypes.to_floating_dtype(typeof(a).dtype)
    rtol = scalar(dtype, rtol) if rtol is _RTOL else convert_staged(rtol, dtype)
    atol = scalar(dtype, atol) if atol is _ATOL else convert_staged(atol, dtype)
    both_nan = lax.bitwise_and(isnan(a), isnan(b))
    finite = isfinite(b)
    distance = lax.abs(lax.sub(a, b))
    in_range = lax.le(distance, lax.add(atol, lax.mul(rtol, lax.abs(b))))
    close = lax.bitwise_or(lax.eq(a, b), lax.bitwise_and(finite, in_range))
    return lax.bitwise_or(close, both_nan) if equal_nan else close


# --- bits and truth -------------------------------------------------------------------------------


def bitwise_and(x: Any, y: Any, /) -> Array:
    """Return the elementwise bitwise and; of booleans, the logical and.

    Args:
        x: Array or scalar of integers or booleans; floats raise TypeError.
        y: Array or scalar of integers or booleans that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.bitwise_and(6, 3).item()
        2
    """
    x, y = promote_pair("bitwise_and", x, y)
    return and_p.bind(x, y)


def bitwise_or(x: Any, y: Any, /) -> Array:
    """Return the elementwise bitwise or; of booleans, the logical or.

    Args:
        x: Array or scalar of integers or booleans; floats raise TypeError.
        y: Array or scalar of integers or booleans that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.bitwise_or(6, 3).item()
        7
    """
    x, y = promote_pair("bitwise_or", x, y)
    return or_p.bind(x, y)


def bitwise_xor(x: Any, y: Any, /) -> Array:
    """Return the elementwise bitwise exclusive or.

    Args:
        x: Array or scalar of integers or booleans; floats raise TypeError.
        y: Array or scalar of integers or booleans that broadcasts against ``x``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.bitwise_xor(6, 3).item()
        5
    """
    x, y = promote_pair("bitwise_xor", x, y)
    return xor_p.bind(x, y)


def left_shift(x: Any, y: Any, /) -> Array:
    """Return the bits of ``x`` shifted left by ``y`` places.

    Args:
        x: Array or scalar of integers.
        y: Number of places, integers that broadcast against ``x``. A shift by the bit width or more
            gives 0.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.left_shift(1, 3).item()
        8
    """
    return lax.shift_left(*promote_args_numeric("left_shift", x, y))


bitwise_left_shift = left_shift


def right_shift(x1: Any, x2: Any, /) -> Array:
    """Return the bits of ``x1`` shifted right by ``x2`` places.

    Args:
        x1: Array or scalar of integers. Signed integers keep their sign; unsigned ones are filled
            with zeros.
        x2: Number of places, integers that broadcast against ``x1``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x1`` and ``x2`` promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.right_shift(-8, 1).item()
        -4
    """
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    if array_kind(x1) == UINT:
        return lax.shift_right_logical(x1, x2)
    return lax.shift_right_arithmetic(x1, x2)


bitwise_right_shift = right_shift


def _truths(name: str, x: Any, y: Any) -> list[Any]:
    return [v if _is_bool(v) else lax.ne(v, const(v, 0)) for v in promote_pair(name, x, y)]


def logical_and(x: Any, y: Any, /) -> Array:
    """Return whether both elements are true.

    Args:
        x: Array or scalar of any dtype; zero is false, all other values (NaN too) are true.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.logical_and(True, 2).item()
        True
    """
    return lax.bitwise_and(*_truths("logical_and", x, y))


def logical_or(x: Any, y: Any, /) -> Array:
    """Return whether at least one of two elements is true.

    Args:
        x: Array or scalar of any dtype; zero is false, all other values (NaN too) are true.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.logical_or(False, 0).item()
        False
    """
    return lax.bitwise_or(*_truths("logical_or", x, y))


def logical_xor(x: Any, y: Any, /) -> Array:
    """Return whether exactly one of two elements is true.

    Args:
        x: Array or scalar of any dtype; zero is false, all other values (NaN too) are true.
        y: Array or scalar that broadcasts against ``x``.

    Returns:
        Boolean array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.logical_xor(True, True).item()
        False
    """
    return lax.bitwise_xor(*_truths("logical_xor", x, y))


# --- geometry and floating numbers ----------------------------------------------------------------


def arctan2(x1: Any, x2: Any, /) -> Array:
    """Return the angle of the point ``(x2, x1)`` in radians, from -pi to pi.

    Args:
        x1: The vertical coordinate y; integers are converted to the default float type.
        x2: The horizontal coordinate x; broadcasts against ``x1``.

    Returns:
        Floating-point array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arctan2(0.0, 1.0).item()
        0.0
    """
    return lax.atan2(*promote_args_inexact("arctan2", x1, x2))


atan2 = arctan2


def nextafter(x: Any, y: Any, /) -> Array:
    """Return the next representable number after ``x`` in the direction of ``y``.

    Args:
        x: Start; real numbers. Integers are converted to the default float type.
        y: Direction; broadcasts against ``x``. Where it equals ``x``, the result is ``y``.

    Returns:
        Floating-point array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.nextafter(1.0, 1.0).item()
        1.0
    """
    return lax.nextafter(*promote_args_inexact("nextafter", x, y))


def heaviside(x1: Any, x2: Any, /) -> Array:
    """Return the step function: 0 for negative ``x1``, 1 for positive, ``x2`` where ``x1`` is 0.

    Args:
        x1: Array or scalar of real numbers; NaN gives NaN.
        x2: The value at 0; broadcasts against ``x1``.

    Returns:
        Floating-point array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.heaviside(0.0, 0.5).item()
        0.5
    """
    x1, x2 = promote_args_inexact("heaviside", x1, x2, staged=True)
    zero, one = const(x1, 0), const(x1, 1)
    below, above = lax.lt(x1, zero), lax.gt(x1, zero)
    at_zero = choose_where(isnan(x1), x1, x2)
    return choose_where(below, zero, choose_where(above, one, at_zero))


def hypot(x1: Any, x2: Any, /) -> Array:
    """Return ``sqrt(x1**2 + x2**2)`` without overflow or underflow.

    Args:
        x1: First leg of the right triangle; real numbers.
        x2: Second leg; broadcasts against ``x1``.

    Returns:
        Floating-point array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.hypot(3.0, 4.0).item()
        5.0
    """
    x1, x2 = promote_args_inexact("hypot", x1, x2, staged=True)
    if array_kind(x1) == COMPLEX:
        raise ValueError("hypot does not accept complex numbers; take their absolute values first")
    x1, x2 = lax.abs(x1), lax.abs(x2)
    infinite = lax.bitwise_or(isposinf(x1), isposinf(x2))
    large, small = lax.max(x1, x2), lax.min(x1, x2)
    zero, one = const(large, 0), const(large, 1)
    vanishes = lax.eq(large, zero)
    safe = choose_where(lax.eq(large, zero), full_of(large, 1), large)
    length = lax.mul(large, lax.sqrt(lax.add(one, lax.square(lax.div(small, safe)))))
    length = choose_where(vanishes, large, length)
    return choose_where(infinite, const(length, np.inf), length)


def copysign(x1: Any, x2: Any, /) -> Array:
    """Return the size of ``x1`` with the sign of ``x2``.

    Args:
        x1: Array or scalar of real numbers whose absolute value is used.
        x2: Real numbers whose sign bit is used, of -0.0 and NaN too; broadcasts against ``x1``.

    Returns:
        Floating-point array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.copysign(2.0, -0.0).item()
        -2.0
    """
    x1, x2 = promote_args_inexact("copysign", x1, x2, staged=True)
    if array_kind(x1) == COMPLEX:
        raise TypeError("copysign does not accept complex numbers")
    return choose_where(signbit(x2), lax.neg(lax.abs(x1)), lax.abs(x1))


def _power_of_two(exponent: Any) -> Any:
    """2 to the power of whole numbers, those beyond the normal range taken as its ends."""
    info = dtypes.finfo(exponent.dtype)
    word = np.dtype(f"int{info.bits}")
    low, high = (scalar(exponent.dtype, n) for n in (int(info.minexp), int(info.maxexp) - 1))
    biased = convert_operand(lax.clamp(low, exponent, high), word)
    biased = lax.add(biased, scalar(word, 1 - int(info.minexp)))
    bits = lax.shift_left(biased, scalar(word, int(info.nmant)))
    return lax.bitcast_convert_type(bits, exponent.dtype)


def ldexp(x1: Any, x2: Any, /) -> Array:
    """Return ``x1 * 2**x2``.

    Args:
        x1: Significand; an array or scalar of real numbers.
        x2: Exponent; integers that broadcast against ``x1``. Floats raise ValueError.

    Returns:
        Floating-point array of the broadcast shape.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ldexp(3.0, 2).item()
        12.0
    """
    x1, x2 = ensure_arrays("ldexp", x1, x2)
    if array_kind(x1) == COMPLEX or array_kind(x2) & INEXACT:
        raise ValueError(
            f"ldexp needs real numbers and integer exponents, got {x1.dtype} and {x2.dtype}"
        )
    (x1,) = promote_args_inexact("ldexp", x1)
    dtype = typeof(x1).dtype
    shift = convert_operand(x2, dtype)
    mantissa, own = frexp(x1)
    exponent = add(convert_operand(own, dtype), shift)
    # two factors: the power itself may be out of range where the result is not
    half = lax.floor(lax.mul(exponent, scalar(dtype, 0.5)))
    scaled = multiply(mantissa, _power_of_two(half))
    return multiply(scaled, _power_of_two(lax.sub(exponent, half)))


# --- logarithms of sums ---------------------------------------------------------------------------


def _wrapped(x: Any, half: float) -> Any:
    """Numbers moved by whole periods to lie between ``-half`` and ``half``."""
    period, bound = const(x, 2 * half), const(x, half)
    moved = lax.rem(lax.add(x, bound), period)
    moved = lax.select(lax.lt(moved, const(x, 0)), lax.add(moved, period), moved)
    return lax.sub(moved, bound)


def _without_infinity(x: Any) -> Any:
    return lax.select(isposinf(lax.real(x) if array_kind(x) == COMPLEX else x), full_of(x, 0), x)


def _log_of_sum(name: str, power: Any, scale: float | None) -> Any:
    """The logarithm of a sum of powers of a base, which is e to the ``1 / scale``."""

    def tail(x: Any) -> Any:
        rest = lax.log1p(power(x))
        return rest if scale is None else lax.mul(const(rest, scale), rest)

    def log_of_sum(x1: Any, x2: Any, /) -> Any:
        high = lax.max(x1, x2)
        if array_kind(x1) == COMPLEX:
            delta = lax.sub(lax.add(x1, x2), lax.mul(high, const(high, 2)))
            out = lax.add(high, tail(delta))
            return lax.complex(lax.real(out), _wrapped(lax.imag(out), np.pi * (scale or 1)))
        delta = lax.sub(x1, x2)
        unordered = lax.ne(delta, delta)  # NaN, or infinities of one sign: their sum is the result
        both = lax.add(x1, x2)
        return lax.select(unordered, both, lax.add(high, tail(lax.neg(lax.abs(delta)))))

    log_of_sum.__name__ = log_of_sum.__qualname__ = name
    function = custom_jvp(log_of_sum)

    def log_of_sum_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x1, x2), (t1, t2) = primals, tangents
        out = function(x1, x2)
        share = lambda x: power(lax.sub(_without_infinity(x), _without_infinity(out)))
        return out, lax.add(lax.mul(t1, share(x1)), lax.mul(t2, share(x2)))

    log_of_sum_jvp.__name__ = f"{name}_jvp"
    function.defjvp(log_of_sum_jvp)
    return function


_logaddexp = _log_of_sum("_logaddexp", lax.exp, None)
_logaddexp2 = _log_of_sum("_logaddexp2", lax.exp2, 1 / np.log(2))


def logaddexp(x1: Any, x2: Any, /) -> Array:
    """Return ``log(exp(x1) + exp(x2))`` without overflow.

    Args:
        x1: Array or scalar; integers are converted to the default float type.
        x2: Array or scalar that broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> f"{jnp.logaddexp(0.0, 0.0):.4f}"
        '0.6931'
    """
    return _logaddexp(*promote_args_inexact("logaddexp", x1, x2))


def logaddexp2(x1: Any, x2: Any, /) -> Array:
    """Return ``log2(2**x1 + 2**x2)`` without overflow.

    Args:
        x1: Array or scalar; integers are converted to the default float type.
        x2: Array or scalar that broadcasts against ``x1``.

    Returns:
        Array of the broadcast shape, floating-point or complex.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.logaddexp2(1.0, 1.0).item()
        2.0
    """
    return _logaddexp2(*promote_args_inexact("logaddexp2", x1, x2))


# --- divisors -------------------------------------------------------------------------------------


def _same_shapes(x: Any, y: Any) -> tuple[Any, Any]:
    shape = lax.broadcast_shapes(np.shape(x), np.shape(y))
    return expand_to(x, shape), expand_to(y, shape)


def _gcd_step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    x, y = pair
    zero = scalar(typeof(y).dtype, 0)
    large = choose_where(lax.ne(y, zero), y, x)
    small = choose_where(lax.ne(y, zero), lax.rem(x, y), zero)
    return (
        choose_where(lax.lt(large, small), small, large),
        choose_where(lax.lt(large, small), large, small),
    )


def _gcd_unfinished(pair: tuple[Any, Any]) -> Any:
    y = pair[1]
    return lax.reduce_or(lax.ne(y, scalar(typeof(y).dtype, 0)), tuple(range(np.ndim(y))))


def _integers(name: str, x1: Any, x2: Any) -> list[Any]:
    check_arraylike(name, x1, x2)
    x1, x2 = promote_dtypes(unwrapped(x1), unwrapped(x2), staged=True)
    if not array_kind(x1) & INTEGER:
        raise ValueError(f"{name} needs integers, got {typeof(x1).dtype}")
    return [x1, x2]


def gcd(x1: Any, x2: Any) -> Array:
    """Return the elementwise greatest common divisor of integers.

    Args:
        x1: Array or scalar of integers; other dtypes raise ValueError. Signs are ignored.
        x2: Integers that broadcast against ``x1``. ``gcd(0, 0)`` is 0.

    Returns:
        Array of integers of the broadcast shape, not negative.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.gcd(12, 18).item()
        6
    """
    x1, x2 = _same_shapes(*_integers("gcd", x1, x2))
    out, _ = lax.while_loop(_gcd_unfinished, _gcd_step, (absolute(x1), absolute(x2)))
    return out


def lcm(x1: Any, x2: Any) -> Array:
    """Return the elementwise least common multiple of integers.

    Args:
        x1: Array or scalar of integers; other dtypes raise ValueError. Signs are ignored.
        x2: Integers that broadcast against ``x1``. The multiple of anything and 0 is 0.

    Returns:
        Array of integers of the broadcast shape, not negative.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.lcm(4, 6).item()
        12
    """
    x1, x2 = (absolute(x) for x in _integers("lcm", x1, x2))
    divisor = gcd(x1, x2)
    none = lax.eq(divisor, const(divisor, 0))
    multiple = multiply(x1, floor_divide(x2, divisor))
    return choose_where(none, const(divisor, 0), multiple)
