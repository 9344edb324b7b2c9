"""Elementwise functions with NumPy's names: operands are promoted, then handed to lax."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.trace import typeof
from weft.numpy.promotion import (
    check_arraylike,
    convert_operand,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_inexact,
)
from weft.prims.families import COMPLEX, FLOAT, INTEGER, const, kind_of


def exp(x: Any, /) -> Any:
    """e to the power x.

    >>> import weft.numpy as jnp
    >>> jnp.exp(0.0).item()
    1.0
    """
    return lax.exp(*promote_args_inexact("exp", x))


def exp2(x: Any, /) -> Any:
    """2 to the power x.

    >>> import weft.numpy as jnp
    >>> jnp.exp2(3.0).item()
    8.0
    """
    return lax.exp2(*promote_args_inexact("exp2", x))


def log(x: Any, /) -> Any:
    """Natural logarithm.

    >>> import weft.numpy as jnp
    >>> jnp.log(1.0).item()
    0.0
    """
    return lax.log(*promote_args_inexact("log", x))


def expm1(x: Any, /) -> Any:
    """``exp(x) - 1``, accurate near zero.

    >>> import weft.numpy as jnp
    >>> jnp.expm1(0.0).item()
    0.0
    """
    return lax.expm1(*promote_args_inexact("expm1", x))


def log1p(x: Any, /) -> Any:
    """``log(1 + x)``, accurate near zero.

    >>> import weft.numpy as jnp
    >>> jnp.log1p(0.0).item()
    0.0
    """
    return lax.log1p(*promote_args_inexact("log1p", x))


def sin(x: Any, /) -> Any:
    """Sine.

    >>> import weft.numpy as jnp
    >>> jnp.sin(0.0).item()
    0.0
    """
    return lax.sin(*promote_args_inexact("sin", x))


def cos(x: Any, /) -> Any:
    """Cosine.

    >>> import weft.numpy as jnp
    >>> jnp.cos(0.0).item()
    1.0
    """
    return lax.cos(*promote_args_inexact("cos", x))


def tan(x: Any, /) -> Any:
    """Tangent.

    >>> import weft.numpy as jnp
    >>> jnp.tan(0.0).item()
    0.0
    """
    return lax.tan(*promote_args_inexact("tan", x))


def arcsin(x: Any, /) -> Any:
    """Inverse sine.

    >>> import weft.numpy as jnp
    >>> jnp.arcsin(0.0).item()
    0.0
    """
    return lax.asin(*promote_args_inexact("arcsin", x))


def arccos(x: Any, /) -> Any:
    """Inverse cosine.

    >>> import weft.numpy as jnp
    >>> jnp.arccos(1.0).item()
    0.0
    """
    return lax.acos(*promote_args_inexact("arccos", x))


def arctan(x: Any, /) -> Any:
    """Inverse tangent.

    >>> import weft.numpy as jnp
    >>> jnp.arctan(0.0).item()
    0.0
    """
    return lax.atan(*promote_args_inexact("arctan", x))


def sinh(x: Any, /) -> Any:
    """Hyperbolic sine.

    >>> import weft.numpy as jnp
    >>> jnp.sinh(0.0).item()
    0.0
    """
    return lax.sinh(*promote_args_inexact("sinh", x))


def cosh(x: Any, /) -> Any:
    """Hyperbolic cosine.

    >>> import weft.numpy as jnp
    >>> jnp.cosh(0.0).item()
    1.0
    """
    return lax.cosh(*promote_args_inexact("cosh", x))


def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent.

    >>> import weft.numpy as jnp
    >>> jnp.tanh(0.0).item()
    0.0
    """
    return lax.tanh(*promote_args_inexact("tanh", x))


def arcsinh(x: Any, /) -> Any:
    """Inverse hyperbolic sine.

    >>> import weft.numpy as jnp
    >>> jnp.arcsinh(0.0).item()
    0.0
    """
    return lax.asinh(*promote_args_inexact("arcsinh", x))


def arctanh(x: Any, /) -> Any:
    """Inverse hyperbolic tangent.

    >>> import weft.numpy as jnp
    >>> jnp.arctanh(0.0).item()
    0.0
    """
    return lax.atanh(*promote_args_inexact("arctanh", x))


def arccosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine.

    >>> import weft.numpy as jnp
    >>> jnp.arccosh(1.0).item()
    0.0
    """
    return lax.acosh(*promote_args_inexact("arccosh", x))


def sqrt(x: Any, /) -> Any:
    """Square root.

    >>> import weft.numpy as jnp
    >>> jnp.sqrt(4.0).item()
    2.0
    """
    return lax.sqrt(*promote_args_inexact("sqrt", x))


def cbrt(x: Any, /) -> Any:
    """Cube root.

    >>> import weft.numpy as jnp
    >>> jnp.cbrt(0.0).item()
    0.0
    """
    return lax.cbrt(*promote_args_inexact("cbrt", x))


asin = arcsin

acos = arccos

atan = arctan

asinh = arcsinh

acosh = arccosh

atanh = arctanh


def add(x: Any, y: Any, /) -> Any:
    """Sum of two arrays; of booleans, their disjunction.

    >>> import weft.numpy as jnp
    >>> jnp.add(1, 2).item()
    3
    """
    x, y = promote_args("add", x, y)
    return lax.bitwise_or(x, y) if _is_bool(x) else lax.add(x, y)


def multiply(x: Any, y: Any, /) -> Any:
    """Product of two arrays; of booleans, their conjunction.

    >>> import weft.numpy as jnp
    >>> jnp.multiply(2, 3).item()
    6
    """
    x, y = promote_args("multiply", x, y)
    return lax.bitwise_and(x, y) if _is_bool(x) else lax.mul(x, y)


def subtract(x: Any, y: Any, /) -> Any:
    """Difference of two arrays.

    >>> import weft.numpy as jnp
    >>> jnp.subtract(3, 1).item()
    2
    """
    return lax.sub(*promote_args("subtract", x, y))


def _is_bool(x: Any) -> bool:
    return typeof(x).dtype == np.bool_


def equal(x: Any, y: Any, /) -> Any:
    """Whether elements are equal.

    >>> import weft.numpy as jnp
    >>> jnp.equal(1, 1).item()
    True
    """
    return lax.eq(*promote_args("equal", x, y))


def not_equal(x: Any, y: Any, /) -> Any:
    """Whether elements differ.

    >>> import weft.numpy as jnp
    >>> jnp.not_equal(1, 1).item()
    False
    """
    return lax.ne(*promote_args("not_equal", x, y))


def arctan2(x: Any, y: Any, /) -> Any:
    """Angle of the point (x2, x1).

    >>> import weft.numpy as jnp
    >>> jnp.arctan2(0.0, 1.0).item()
    0.0
    """
    return lax.atan2(*promote_args_inexact("arctan2", x, y))


def maximum(x: Any, y: Any, /) -> Any:
    """The larger of two; NaN if either is.

    >>> import weft.numpy as jnp
    >>> jnp.maximum(1, 2).item()
    2
    """
    return lax.max(*promote_args("maximum", x, y))


def minimum(x: Any, y: Any, /) -> Any:
    """The smaller of two; NaN if either is.

    >>> import weft.numpy as jnp
    >>> jnp.minimum(1, 2).item()
    1
    """
    return lax.min(*promote_args("minimum", x, y))


def nextafter(x: Any, y: Any, /) -> Any:
    """The next number after the first towards the second.

    >>> import weft.numpy as jnp
    >>> jnp.nextafter(1.0, 1.0).item()
    1.0
    """
    return lax.nextafter(*promote_args_inexact("nextafter", x, y))


def bitwise_and(x: Any, y: Any, /) -> Any:
    """Conjunction of bits.

    >>> import weft.numpy as jnp
    >>> jnp.bitwise_and(6, 3).item()
    2
    """
    return lax.bitwise_and(*promote_args("bitwise_and", x, y))


def bitwise_or(x: Any, y: Any, /) -> Any:
    """Disjunction of bits.

    >>> import weft.numpy as jnp
    >>> jnp.bitwise_or(6, 3).item()
    7
    """
    return lax.bitwise_or(*promote_args("bitwise_or", x, y))


def bitwise_xor(x: Any, y: Any, /) -> Any:
    """Exclusive or of bits.

    >>> import weft.numpy as jnp
    >>> jnp.bitwise_xor(6, 3).item()
    5
    """
    return lax.bitwise_xor(*promote_args("bitwise_xor", x, y))


def left_shift(x: Any, y: Any, /) -> Any:
    """Bits shifted to the left.

    >>> import weft.numpy as jnp
    >>> jnp.left_shift(1, 3).item()
    8
    """
    return lax.shift_left(*promote_args_numeric("left_shift", x, y))


atan2 = arctan2
bitwise_left_shift = left_shift


def greater(x: Any, y: Any, /) -> Any:
    """Whether the first is greater; complex numbers by real, then imaginary part.

    >>> import weft.numpy as jnp
    >>> jnp.greater(2, 1).item()
    True
    """
    return _compare(lax.gt, *promote_args("greater", x, y))


def greater_equal(x: Any, y: Any, /) -> Any:
    """Whether the first is greater or equal.

    >>> import weft.numpy as jnp
    >>> jnp.greater_equal(1, 1).item()
    True
    """
    return _compare(lax.ge, *promote_args("greater_equal", x, y))


def less(x: Any, y: Any, /) -> Any:
    """Whether the first is less.

    >>> import weft.numpy as jnp
    >>> jnp.less(1, 2).item()
    True
    """
    return _compare(lax.lt, *promote_args("less", x, y))


def less_equal(x: Any, y: Any, /) -> Any:
    """Whether the first is less or equal.

    >>> import weft.numpy as jnp
    >>> jnp.less_equal(1, 1).item()
    True
    """
    return _compare(lax.le, *promote_args("less_equal", x, y))


def _compare(compare: Any, x: Any, y: Any) -> Any:
    if kind_of(typeof(x).dtype) != COMPLEX:
        return compare(x, y)
    strict = lax.gt if compare in (lax.gt, lax.ge) else lax.lt
    same = lax.eq(lax.real(x), lax.real(y))
    return lax.select(
        *_same_shape(same, compare(lax.imag(x), lax.imag(y)), strict(lax.real(x), lax.real(y)))
    )


def _same_shape(*xs: Any) -> list[Any]:
    shape = np.broadcast_shapes(*(np.shape(x) for x in xs))
    return [_expand(x, shape) for x in xs]


def _expand(x: Any, shape: tuple[int, ...]) -> Any:
    have = np.shape(x)
    if have == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(have), len(shape))))


def positive(x: Any, /) -> Any:
    """``x`` itself.

    >>> import weft.numpy as jnp
    >>> jnp.positive(2.0).item()
    2.0
    """
    (x,) = promote_args("positive", x)
    return lax_array(x)


def lax_array(x: Any) -> Any:
    """``x`` as an array: scalars and NumPy arrays become ours."""
    if hasattr(x, "aval"):
        return x
    aval = typeof(x)
    return lax.broadcast_in_dim(x, aval.shape, tuple(range(aval.ndim)))


def negative(x: Any, /) -> Any:
    """Negation.

    >>> import weft.numpy as jnp
    >>> jnp.negative(2.0).item()
    -2.0
    """
    return lax.neg(*promote_args("negative", x))


def sign(x: Any, /) -> Any:
    """-1, 0 or 1; ``x / |x|`` for complex numbers.

    >>> import weft.numpy as jnp
    >>> jnp.sign(-2.0).item()
    -1.0
    """
    return lax.sign(*promote_args_numeric("sign", x))


def _rounding(name: str, x: Any, rule: Any) -> Any:
    check_arraylike(name, x)
    if kind_of(dtypes.dtype(x)) & (FLOAT | COMPLEX):
        return rule(*promote_args_inexact(name, x))
    return lax_array(x)


def floor(x: Any, /) -> Any:
    """Rounding down; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.floor(1.5).item()
    1.0
    """
    return _rounding("floor", x, lax.floor)


def ceil(x: Any, /) -> Any:
    """Rounding up; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.ceil(1.5).item()
    2.0
    """
    return _rounding("ceil", x, lax.ceil)


def trunc(x: Any) -> Any:
    """Rounding towards zero; integers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.trunc(-1.5).item()
    -1.0
    """

    def towards_zero(v: Any) -> Any:
        zero = lax.full_like(v, 0)
        return lax.select(lax.lt(v, zero), lax.ceil(v), lax.floor(v))

    return _rounding("trunc", x, towards_zero)


def rint(x: Any, /) -> Any:
    """Rounding to the nearest integer, ties to even.

    >>> import weft.numpy as jnp
    >>> jnp.rint(2.5).item()
    2.0
    """
    check_arraylike("rint", x)
    dtype = dtypes.dtype(x)
    if not kind_of(dtype) & (FLOAT | COMPLEX):
        (x,) = promote_args_inexact("rint", x)
        return lax_array(x)
    if kind_of(dtype) == COMPLEX:
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def absolute(x: Any, /) -> Any:
    """Absolute value; real for complex numbers.

    >>> import weft.numpy as jnp
    >>> jnp.absolute(-2.0).item()
    2.0
    """
    check_arraylike("absolute", x)
    kind = kind_of(dtypes.dtype(x))
    if kind & (FLOAT | COMPLEX) or dtypes.issubdtype(dtypes.dtype(x), np.signedinteger):
        return lax.abs(x)
    return lax_array(x)


abs = absolute


def fabs(x: Any, /) -> Any:
    """Absolute value as a floating number.

    >>> import weft.numpy as jnp
    >>> jnp.fabs(-2).item()
    2.0
    """
    (x,) = promote_args_inexact("fabs", x)
    if kind_of(typeof(x).dtype) == COMPLEX:
        raise TypeError("fabs does not accept complex numbers; use jnp.abs")
    return lax.abs(x)


def square(x: Any, /) -> Any:
    """Square.

    >>> import weft.numpy as jnp
    >>> jnp.square(3.0).item()
    9.0
    """
    return lax.square(*promote_args_numeric("square", x))


def reciprocal(x: Any, /) -> Any:
    """``1 / x``.

    >>> import weft.numpy as jnp
    >>> jnp.reciprocal(4.0).item()
    0.25
    """
    return lax.integer_pow(*promote_args_inexact("reciprocal", x), -1)


def invert(x: Any, /) -> Any:
    """Complement of bits; of booleans, their negation.

    >>> import weft.numpy as jnp
    >>> jnp.invert(5).item()
    -6
    """
    return lax.bitwise_not(*promote_args("invert", x))


bitwise_invert = bitwise_not = invert


def bitwise_count(x: Any, /) -> Any:
    """How many bits of the absolute value are set.

    >>> import weft.numpy as jnp
    >>> jnp.bitwise_count(-7).item()
    3
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    return lax.convert_element_type(lax.population_count(absolute(x)), np.uint8)


def right_shift(x1: Any, x2: Any, /) -> Any:
    """Bits shifted to the right; negative numbers keep their sign.

    >>> import weft.numpy as jnp
    >>> jnp.right_shift(-8, 1).item()
    -4
    """
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    if dtypes.issubdtype(typeof(x1).dtype, np.unsignedinteger):
        return lax.shift_right_logical(x1, x2)
    return lax.shift_right_arithmetic(x1, x2)


bitwise_right_shift = right_shift


def _truth(name: str, *args: Any) -> list[Any]:
    check_arraylike(name, *args)
    as_bool = [x if dtypes.dtype(x) == np.bool_ else not_equal(x, _zero_of(x)) for x in args]
    return promote_args(name, *as_bool)


def _zero_of(x: Any) -> Any:
    return const(x, 0) if hasattr(x, "aval") else dtypes.dtype(x).type(0)


def logical_and(x: Any, y: Any, /) -> Any:
    """Whether both are true.

    >>> import weft.numpy as jnp
    >>> jnp.logical_and(True, 2).item()
    True
    """
    return lax.bitwise_and(*_truth("logical_and", x, y))


def logical_or(x: Any, y: Any, /) -> Any:
    """Whether either is true.

    >>> import weft.numpy as jnp
    >>> jnp.logical_or(False, 0).item()
    False
    """
    return lax.bitwise_or(*_truth("logical_or", x, y))


def logical_xor(x: Any, y: Any, /) -> Any:
    """Whether exactly one is true.

    >>> import weft.numpy as jnp
    >>> jnp.logical_xor(True, True).item()
    False
    """
    return lax.bitwise_xor(*_truth("logical_xor", x, y))


def logical_not(x: Any, /) -> Any:
    """Whether it is false.

    >>> import weft.numpy as jnp
    >>> jnp.logical_not(0).item()
    True
    """
    return lax.bitwise_not(*_truth("logical_not", x))


def true_divide(x1: Any, x2: Any, /) -> Any:
    """Quotient, of integers too.

    >>> import weft.numpy as jnp
    >>> jnp.true_divide(1, 2).item()
    0.5
    """
    return lax.div(*promote_args_inexact("true_divide", x1, x2))


divide = true_divide


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """Quotient rounded down.

    >>> import weft.numpy as jnp
    >>> jnp.floor_divide(-7, 2).item()
    -4
    """
    x1, x2 = promote_args_numeric("floor_divide", x1, x2)
    dtype = typeof(x1).dtype
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return lax.div(x1, x2)
    if dtypes.issubdtype(dtype, np.integer):
        quotient = lax.div(x1, x2)
        different = lax.ne(lax.sign(x1), lax.sign(x2))
        inexact = lax.ne(lax.rem(x1, x2), const(x1, 0))
        lower = lax.sub(quotient, const(quotient, 1))
        return lax.select(*_same_shape(lax.bitwise_and(different, inexact), lower, quotient))
    if kind_of(dtype) == COMPLEX:
        raise TypeError("floor_divide does not support complex-valued inputs")
    return _float_divmod(x1, x2)[0]


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    # as Python's float divmod: the quotient is rounded, the remainder takes the divisor's sign
    remainder = lax.rem(x1, x2)
    quotient = lax.div(lax.sub(x1, remainder), x2)
    zero = const(remainder, 0)
    off = lax.bitwise_and(
        lax.ne(remainder, zero), lax.ne(lax.sign(x2), lax.sign(remainder))
    )
    shape = np.shape(off)
    remainder = lax.select(off, _expand(lax.add(remainder, x2), shape), _expand(remainder, shape))
    lower = lax.sub(quotient, const(quotient, 1))
    quotient = lax.select(off, _expand(lower, shape), _expand(quotient, shape))
    return lax.round(quotient), remainder


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """Quotient rounded down, and remainder.

    >>> import weft.numpy as jnp
    >>> [x.item() for x in jnp.divmod(7, 2)]
    [3, 1]
    """
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if dtypes.issubdtype(typeof(x1).dtype, np.integer):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def remainder(x1: Any, x2: Any, /) -> Any:
    """Remainder with the sign of the divisor.

    >>> import weft.numpy as jnp
    >>> jnp.remainder(-7, 3).item()
    2
    """
    x1, x2 = promote_args_numeric("remainder", x1, x2)
    zero = const(x1, 0)
    if dtypes.issubdtype(typeof(x2).dtype, np.integer):
        divisor_zero = lax.eq(x2, const(x2, 0))
        x2 = lax.select(divisor_zero, lax.full_like(x2, 1), lax_array(x2))
    trunc_mod = lax.rem(x1, x2)
    nonzero = lax.ne(trunc_mod, zero)
    different = lax.ne(lax.lt(trunc_mod, zero), lax.lt(x2, const(x2, 0)))
    off = lax.bitwise_and(different, nonzero)
    shape = np.shape(off)
    return lax.select(off, _expand(lax.add(trunc_mod, x2), shape), _expand(trunc_mod, shape))


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Any:
    """Remainder with the sign of the dividend.

    >>> import weft.numpy as jnp
    >>> jnp.fmod(-7, 3).item()
    -1
    """
    check_arraylike("fmod", x1, x2)
    if dtypes.issubdtype(dtypes.result_type(x1, x2), np.integer):
        x2 = _where_zero(x2)
    return lax.rem(*promote_args_numeric("fmod", x1, x2))


def _where_zero(x: Any) -> Any:
    x = lax_array(x)
    return lax.select(lax.eq(x, const(x, 0)), lax.full_like(x, 1), x)


def power(x1: Any, x2: Any, /) -> Any:
    """``x1`` to the power ``x2``.

    >>> import weft.numpy as jnp
    >>> jnp.power(2.0, 3).item()
    8.0
    """
    check_arraylike("power", x1, x2)
    if isinstance(x2, (int, np.integer)) and not isinstance(x2, bool):
        return _static_power(x1, int(x2))
    dtype = dtypes.result_type(x1, x2)
    if dtypes.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return _integer_power(*promote_args_numeric("power", x1, x2))
    if kind_of(dtypes.dtype(x2)) & INTEGER and kind_of(dtypes.dtype(x1)) & (FLOAT | COMPLEX):
        base, exponent = promote_args_shapes(x1, x2)
        return lax.pow(base, exponent)
    return lax.pow(*promote_args_inexact("power", x1, x2))


def promote_args_shapes(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Base and integer exponent, each with its own dtype, at equal rank."""
    ndim = max(np.ndim(x1), np.ndim(x2))
    lift = lambda x: lax.broadcast_to_rank(x, ndim) if np.ndim(x) else x  # noqa: E731
    return lift(x1), lift(x2)


def _static_power(x: Any, n: int) -> Any:
    (x,) = promote_args_numeric("power", x)
    if n < 0 and not kind_of(typeof(x).dtype) & (FLOAT | COMPLEX):
        raise ValueError(
            f"integers cannot be raised to the negative power {n}; convert the base to a floating"
            " dtype"
        )
    return lax.integer_pow(x, n)


def _integer_power(x: Any, y: Any) -> Any:
    """x**y for integers by squaring; 0 for negative exponents, but for a base of 1 or -1."""
    bits = 6 if typeof(y).dtype.itemsize > 4 else 5
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    x, y = _expand(x, shape), _expand(y, shape)
    zero, one = lax.full_like(x, 0), lax.full_like(x, 1)
    negative_exponent = lax.lt(y, zero)
    result, base = one, x
    for i in range(bits + 1):
        bit = lax.bitwise_and(lax.shift_right_logical(y, const(y, i)), one)
        result = lax.select(lax.eq(bit, one), lax.mul(result, base), result)
        base = lax.mul(base, base)
    if typeof(y).dtype.kind == "u":
        return result
    odd = lax.eq(lax.bitwise_and(y, one), one)
    minus = lax.neg(one)
    of_minus_one = lax.select(odd, minus, one)
    inverse = lax.select(
        lax.eq(x, one), one, lax.select(lax.eq(x, minus), of_minus_one, zero)
    )
    return lax.select(negative_exponent, inverse, result)


pow = power


def float_power(x: Any, y: Any, /) -> Any:
    """Power, computed in floating numbers.

    >>> import weft.numpy as jnp
    >>> jnp.float_power(2, 3).item()
    8.0
    """
    return lax.pow(*promote_args_inexact("float_power", x, y))


def log2(x: Any, /) -> Any:
    """Logarithm to base 2.

    >>> import weft.numpy as jnp
    >>> jnp.log2(8.0).item()
    3.0
    """
    return _log_base("log2", x, 2)


def log10(x: Any, /) -> Any:
    """Logarithm to base 10.

    >>> import weft.numpy as jnp
    >>> jnp.log10(1.0).item()
    0.0
    """
    return _log_base("log10", x, 10)


def _log_base(name: str, x: Any, base: int) -> Any:
    (x,) = promote_args_inexact(name, x)
    if kind_of(typeof(x).dtype) == COMPLEX:
        parts = np.dtype(np.float64 if typeof(x).dtype == np.complex128 else np.float32)
        scale = parts.type(1 / np.log(base))
        logarithm = lax.log(x)
        return lax.complex(
            lax.mul(lax.real(logarithm), scale), lax.mul(lax.imag(logarithm), scale)
        )
    return lax.div(lax.log(x), lax.log(const(x, base)))


def logaddexp(x: Any, y: Any, /) -> Any:
    """``log(exp(x) + exp(y))`` without overflow.

    >>> import weft.numpy as jnp
    >>> round(jnp.logaddexp(0.0, 0.0).item(), 4)
    0.6931
    """
    return _logaddexp(*promote_args_inexact("logaddexp", x, y), lax.exp, lax.log1p)


def logaddexp2(x: Any, y: Any, /) -> Any:
    """``log2(2**x + 2**y)`` without overflow.

    >>> import weft.numpy as jnp
    >>> jnp.logaddexp2(1.0, 1.0).item()
    2.0
    """
    x, y = promote_args_inexact("logaddexp2", x, y)
    return _logaddexp(x, y, lax.exp2, lambda v: lax.div(lax.log1p(v), lax.log(const(v, 2))))


def _logaddexp(x: Any, y: Any, exp_: Any, log1p_: Any) -> Any:
    if kind_of(typeof(x).dtype) == COMPLEX:
        first = _compare(lax.gt, x, y)
        shape = np.shape(first)
        high = lax.select(first, _expand(x, shape), _expand(y, shape))
        low = lax.select(first, _expand(y, shape), _expand(x, shape))
        return lax.add(high, log1p_(exp_(lax.sub(low, high))))
    high = lax.max(x, y)
    delta = lax.sub(x, y)
    both = lax.add(x, y)  # NaN, or the infinity that both are
    soft = lax.add(high, log1p_(exp_(lax.neg(lax.abs(delta)))))
    return lax.select(lax.ne(delta, delta), both, soft)


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 where x1 is negative, 1 where positive, x2 where zero.

    >>> import weft.numpy as jnp
    >>> jnp.heaviside(0.0, 0.5).item()
    0.5
    """
    x1, x2 = promote_args_inexact("heaviside", x1, x2)
    x1, x2 = _same_shape(x1, x2)
    zero, one = lax.full_like(x1, 0), lax.full_like(x1, 1)
    step = lax.select(lax.lt(x1, zero), zero, lax.select(lax.gt(x1, zero), one, lax_array(x2)))
    return lax.select(lax.ne(x1, x1), lax_array(x1), step)


def hypot(x1: Any, x2: Any, /) -> Any:
    """Length of the hypotenuse, without overflow.

    >>> import weft.numpy as jnp
    >>> jnp.hypot(3.0, 4.0).item()
    5.0
    """
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    if kind_of(typeof(x1).dtype) == COMPLEX:
        raise TypeError("hypot does not accept complex numbers")
    x1, x2 = lax.abs(x1), lax.abs(x2)
    infinite = lax.bitwise_or(_is_infinite(x1), _is_infinite(x2))
    large, small = lax.max(x1, x2), lax.min(x1, x2)
    zero, one = lax.full_like(large, 0), lax.full_like(large, 1)
    safe = lax.select(lax.eq(large, zero), one, large)
    ratio = lax.div(small, safe)
    length = lax.mul(large, lax.sqrt(lax.add(one, lax.square(ratio))))
    length = lax.select(lax.eq(large, zero), large, length)
    return lax.select(infinite, lax.full_like(length, np.inf), length)


def _is_infinite(x: Any) -> Any:
    return lax.eq(lax.abs(x), const(x, np.inf))


def copysign(x1: Any, x2: Any, /) -> Any:
    """The first number with the sign of the second.

    >>> import weft.numpy as jnp
    >>> jnp.copysign(2.0, -0.0).item()
    -2.0
    """
    x1, x2 = promote_args_inexact("copysign", x1, x2)
    if kind_of(typeof(x1).dtype) == COMPLEX:
        raise TypeError("copysign does not accept complex numbers")
    x1, x2 = _same_shape(lax.abs(x1), signbit(x2))
    return lax.select(x2, lax.neg(x1), x1)


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set.

    >>> import weft.numpy as jnp
    >>> jnp.signbit(-0.0).item()
    True
    """
    (x,) = promote_args("signbit", x)
    dtype = typeof(x).dtype
    if dtypes.issubdtype(dtype, np.integer):
        return lax.lt(x, const(x, 0))
    if dtype == np.bool_:
        return lax.full_like(x, False, dtype=np.bool_)
    if kind_of(dtype) != FLOAT:
        raise ValueError(f"signbit does not accept dtype {dtype}")
    bits = np.dtype(f"i{dtype.itemsize}")
    as_int = lax.bitcast_convert_type(x, bits)
    return lax.lt(as_int, bits.type(0))


def isfinite(x: Any, /) -> Any:
    """Whether neither infinite nor NaN.

    >>> import weft.numpy as jnp
    >>> jnp.isfinite(jnp.inf).item()
    False
    """
    check_arraylike("isfinite", x)
    kind = kind_of(dtypes.dtype(x))
    if kind == FLOAT:
        return lax.is_finite(x)
    if kind == COMPLEX:
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.full_like(x, True, dtype=np.bool_)


def isinf(x: Any, /) -> Any:
    """Whether infinite.

    >>> import weft.numpy as jnp
    >>> jnp.isinf(jnp.inf).item()
    True
    """
    check_arraylike("isinf", x)
    kind = kind_of(dtypes.dtype(x))
    if kind == FLOAT:
        return _is_infinite(x)
    if kind == COMPLEX:
        return lax.bitwise_or(_is_infinite(lax.real(x)), _is_infinite(lax.imag(x)))
    return lax.full_like(x, False, dtype=np.bool_)


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether plus infinity.

    >>> import weft.numpy as jnp
    >>> jnp.isposinf(-jnp.inf).item()
    False
    """
    return _is_signed_infinity("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether minus infinity.

    >>> import weft.numpy as jnp
    >>> jnp.isneginf(-jnp.inf).item()
    True
    """
    return _is_signed_infinity("isneginf", x, -np.inf, out)


def _is_signed_infinity(name: str, x: Any, value: float, out: None) -> Any:
    check_arraylike(name, x)
    if out is not None:
        raise NotImplementedError(f"the out argument of {name} is not supported: arrays are immutable")
    kind = kind_of(dtypes.dtype(x))
    if kind == FLOAT:
        return lax.eq(x, const(x, value))
    if kind == COMPLEX:
        raise ValueError(f"{name} is not defined for complex numbers")
    return lax.full_like(x, False, dtype=np.bool_)


def isnan(x: Any, /) -> Any:
    """Whether not a number.

    >>> import weft.numpy as jnp
    >>> jnp.isnan(jnp.nan).item()
    True
    """
    check_arraylike("isnan", x)
    return lax.ne(x, x)


def deg2rad(x: Any, /) -> Any:
    """Degrees as radians.

    >>> import weft.numpy as jnp
    >>> round(jnp.deg2rad(180.0).item(), 5)
    3.14159
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return lax.mul(x, const(x, np.pi / 180))


def rad2deg(x: Any, /) -> Any:
    """Radians as degrees.

    >>> import weft.numpy as jnp
    >>> jnp.rad2deg(0.0).item()
    0.0
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return lax.mul(x, const(x, 180 / np.pi))


radians, degrees = deg2rad, rad2deg


def conjugate(x: Any, /) -> Any:
    """Complex conjugate; real numbers stay as they are.

    >>> import weft.numpy as jnp
    >>> jnp.conjugate(1 + 2j).item()
    (1-2j)
    """
    check_arraylike("conjugate", x)
    return lax.conj(x) if kind_of(dtypes.dtype(x)) == COMPLEX else lax_array(x)


conj = conjugate


def real(val: Any, /) -> Any:
    """The real part.

    >>> import weft.numpy as jnp
    >>> jnp.real(1 + 2j).item()
    1.0
    """
    check_arraylike("real", val)
    return lax.real(val) if kind_of(dtypes.dtype(val)) == COMPLEX else lax_array(val)


def imag(val: Any, /) -> Any:
    """The imaginary part, zero for real numbers.

    >>> import weft.numpy as jnp
    >>> jnp.imag(1 + 2j).item()
    2.0
    """
    check_arraylike("imag", val)
    return lax.imag(val) if kind_of(dtypes.dtype(val)) == COMPLEX else lax.full_like(val, 0)


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in radians or degrees.

    >>> import weft.numpy as jnp
    >>> jnp.angle(1.0).item()
    0.0
    """
    (z,) = promote_dtypes_inexact(z)
    result = lax.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


def sinc(x: Any, /) -> Any:
    """``sin(pi x) / (pi x)``, 1 at 0.

    >>> import weft.numpy as jnp
    >>> jnp.sinc(0.0).item()
    1.0
    """
    (x,) = promote_args_inexact("sinc", x)
    zero = lax.eq(x, const(x, 0))
    scaled = lax.mul(const(x, np.pi), x)
    safe = lax.select(zero, lax.full_like(x, 1), scaled)
    # 1 - (pi x)^2 / 6 carries the right derivatives through zero
    near = lax.sub(const(x, 1), lax.div(lax.square(scaled), const(x, 6)))
    return lax.select(zero, near, lax.div(lax.sin(safe), safe))


def ldexp(x1: Any, x2: Any, /) -> Any:
    """``x1 * 2**x2``.

    >>> import weft.numpy as jnp
    >>> jnp.ldexp(3.0, 2).item()
    12.0
    """
    check_arraylike("ldexp", x1, x2)
    if not dtypes.issubdtype(dtypes.dtype(x2), np.integer):
        raise ValueError(f"ldexp needs an integer exponent, got {dtypes.dtype(x2)}")
    (x1,) = promote_args_inexact("ldexp", x1)
    dtype = typeof(x1).dtype
    x1, x2 = promote_args_shapes(x1, x2)
    # two factors of half the exponent each, so that neither leaves the range
    half = right_shift(x2, 1)
    factor = lambda n: lax.exp2(convert_operand(lax_array(n), dtype, False))  # noqa: E731
    return lax.mul(lax.mul(x1, factor(half)), factor(subtract(x2, half)))
