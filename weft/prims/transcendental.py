"""Elementwise transcendental functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.trace import typeof
from weft.prims import complex_reference
from weft.prims.arithmetic import add, div, integer_pow, mul, neg, square, sub
from weft.prims.families import (
    COMPLEX,
    FLOAT,
    INTEGER,
    Elementwise,
    broadcast_to,
    computed,
    const,
    converted,
    in_parts,
    kernel_math,
    kind_of,
    lowered,
    on_plane,
    widened,
)
from weft.prims.selection import eq, select_n


class Transcendental(Elementwise):
    """An elementwise function of real or complex numbers, with an optional accuracy parameter."""

    accepts = FLOAT | COMPLEX
    holes = {"transpose": "not linear"}
    costly, function_ops = True, 24


class Exp(Transcendental):
    """e to the power x."""

    name = "exp"
    ref = widened(np.exp)
    lower = computed("exp")
    lower_parts = in_parts("exponential")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return 1

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return mul(g, out)


class Exp2(Transcendental):
    """2 to the power x."""

    name = "exp2"
    ref = widened(complex_reference.exp2)
    lower = computed("exp2")
    lower_parts = on_plane("exp2")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return 1

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return mul(log(const(x, 2)), mul(g, out))


class Log(Transcendental):
    """Natural logarithm."""

    name = "log"
    has_poles = True
    ref = widened(np.log)
    lower = computed("log")
    lower_parts = in_parts("logarithm")

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return div(g, x)


def _asks_most(accuracy: Any) -> bool:
    """Whether slopes are to be right where they are next to nothing, too."""
    return getattr(accuracy, "name", "") == "HIGHEST"


class Expm1(Transcendental):
    """exp(x) - 1, accurate near zero."""

    name = "expm1"
    ref = widened(complex_reference.expm1)
    lower = computed("expm1")
    lower_parts = on_plane("expm1")

    def d0(self, g: Any, out: Any, x: Any, *, accuracy: Any) -> Any:
        if _asks_most(accuracy):  # expm1 + 1 loses the tail
            return mul(g, exp_p.bind(x, accuracy=accuracy))
        return mul(g, add(out, const(x, 1)))


class Log1p(Transcendental):
    """log(1 + x), accurate near zero."""

    name = "log1p"
    has_poles = True
    ref = widened(complex_reference.log1p)
    lower = computed("log1p")
    lower_parts = on_plane("log1p")

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return div(g, add(x, const(x, 1)))


class Tanh(Transcendental):
    """Hyperbolic tangent."""

    name = "tanh"
    ref = widened(complex_reference.tanh)
    lower = computed("tanh")
    lower_parts = on_plane("tanh")

    def d0(self, g: Any, out: Any, x: Any, *, accuracy: Any) -> Any:
        if _asks_most(accuracy):
            twice = [logistic_p.bind(mul(const(x, n), x), accuracy=accuracy) for n in (2, -2)]
            return mul(g, mul(const(x, 4), mul(*twice)))
        return mul(add(g, mul(g, out)), sub(const(x, 1), out))


class Logistic(Transcendental):
    """1 / (1 + exp(-x))."""

    name = "logistic"
    ref = widened(complex_reference.logistic)
    lower = computed("logistic")
    lower_parts = on_plane("logistic")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return 1

    def d0(self, g: Any, out: Any, x: Any, *, accuracy: Any) -> Any:
        if _asks_most(accuracy):
            return mul(g, mul(out, self.bind(neg(x), accuracy=None)))
        return mul(g, mul(out, sub(const(x, 1), out)))


class Sin(Transcendental):
    """Sine."""

    name = "sin"
    ref = widened(np.sin)
    lower = computed("sin")
    lower_parts = on_plane("sin")

    def d0(self, g: Any, out: Any, x: Any, *, accuracy: Any) -> Any:
        return mul(g, cos_p.bind(x, accuracy=None))


class Cos(Transcendental):
    """Cosine."""

    name = "cos"
    ref = widened(np.cos)
    lower = computed("cos")
    lower_parts = on_plane("cos")

    def d0(self, g: Any, out: Any, x: Any, *, accuracy: Any) -> Any:
        return neg(mul(g, sin_p.bind(x, accuracy=accuracy)))


class Tan(Transcendental):
    """Tangent."""

    name = "tan"
    ref = widened(complex_reference.tan)
    lower = computed("tan")
    lower_parts = on_plane("tan")

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return mul(g, add(const(x, 1), square(out)))


class Asin(Transcendental):
    """Inverse sine."""

    name = "asin"
    ref = widened(complex_reference.asin)
    lower = computed("asin")
    lower_parts = on_plane("asin")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, rsqrt(sub(const(x, 1), square(x))))


class Acos(Transcendental):
    """Inverse cosine."""

    name = "acos"
    ref = widened(complex_reference.acos)
    lower = computed("acos")
    lower_parts = on_plane("acos")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, neg(rsqrt(sub(const(x, 1), square(x)))))


class Atan(Transcendental):
    """Inverse tangent."""

    name = "atan"
    ref = widened(complex_reference.atan)
    lower = computed("atan")
    lower_parts = on_plane("atan")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return div(g, add(const(x, 1), square(x)))


def _atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The angle; for complex operands -i log((x + iy) / sqrt(x² + y²))."""
    if kind_of(y.dtype) == COMPLEX:
        return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    return np.arctan2(y, x)


class Atan2(Transcendental):
    """The angle of the point (second, first operand)."""

    name = "atan2"
    ref = widened(_atan2)
    lower = computed("atan2")
    lower_parts = on_plane("atan2")

    def d0(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return mul(g, div(y, add(square(x), square(y))))

    def d1(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return mul(g, div(neg(x), add(square(x), square(y))))


class Sinh(Transcendental):
    """Hyperbolic sine."""

    name = "sinh"
    ref = widened(np.sinh)
    lower = computed("sinh")
    lower_parts = on_plane("sinh")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, cosh_p.bind(x))


class Cosh(Transcendental):
    """Hyperbolic cosine."""

    name = "cosh"
    ref = widened(np.cosh)
    lower = computed("cosh")
    lower_parts = on_plane("cosh")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, sinh_p.bind(x))


class Asinh(Transcendental):
    """Inverse hyperbolic sine."""

    name = "asinh"
    ref = widened(complex_reference.asinh)
    lower = computed("asinh")
    lower_parts = on_plane("asinh")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, rsqrt(add(square(x), const(x, 1))))


class Acosh(Transcendental):
    """Inverse hyperbolic cosine."""

    name = "acosh"
    ref = widened(complex_reference.acosh)
    lower = computed("acosh")
    lower_parts = on_plane("acosh")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        one = const(x, 1)
        if kind_of(typeof(x).dtype) == COMPLEX:
            return mul(g, mul(rsqrt(sub(x, one)), rsqrt(add(x, one))))
        return mul(g, rsqrt(sub(square(x), one)))


class Atanh(Transcendental):
    """Inverse hyperbolic tangent."""

    name = "atanh"
    has_poles = True
    ref = widened(complex_reference.atanh)
    lower = computed("atanh")
    lower_parts = on_plane("atanh")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        one = const(x, 1)
        return mul(integer_pow(add(one, x), -1), div(g, sub(one, x)))


class Sqrt(Transcendental):
    """Square root."""

    name, slow_parts = "sqrt", True
    ref = widened(complex_reference.sqrt)
    lower = lowered("sqrt")
    lower_parts = on_plane("sqrt")
    costly = False

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return max(1, signs[0])

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return mul(g, div(const(x, 0.5), out))


class Rsqrt(Transcendental):
    """1 / sqrt(x)."""

    name, slow_parts = "rsqrt", True
    has_poles = True
    ref = widened(complex_reference.rsqrt)
    lower = computed("rsqrt")
    lower_parts = on_plane("rsqrt")

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return mul(g, mul(const(x, -0.5), div(out, x)))


class Cbrt(Transcendental):
    """Cube root."""

    name, accepts = "cbrt", FLOAT
    ref = widened(np.cbrt)
    lower = computed("cbrt")

    def d0(self, g: Any, out: Any, x: Any, **_: Any) -> Any:
        return mul(g, mul(const(x, 1 / 3), integer_pow(out, -2)))


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if kind_of(x.dtype) == COMPLEX or kind_of(y.dtype) == COMPLEX:
        zero = (x == 0) & (y == 0)
        return np.where(zero, 1, np.power(x.astype(np.complex128), y))
    return np.power(x, y)


class Pow(Elementwise):
    """x to the power y; the exponent may be an integer."""

    name, accepts = "pow", (FLOAT | COMPLEX, INTEGER | FLOAT | COMPLEX)
    has_poles = True
    same_dtypes = False
    ref = widened(_power)
    holes = {"transpose": "not linear"}
    costly, function_ops = True, 24

    def shape(self, x: Any, y: Any) -> ShapedArray:
        if not kind_of(y.dtype) & INTEGER and x.dtype != y.dtype:
            raise TypeError(
                "pow needs operands of the same dtype, or an integer exponent, got"
                f" {x.str_short()} and {y.str_short()}"
            )
        return super().shape(x, y)

    def d0(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        # y·x^(y-1), and 0 where y is 0 although x^(-1) may be infinite
        if kind_of(typeof(y).dtype) & INTEGER:
            shape = np.shape(out)
            exponent = broadcast_to(y, shape)
            zero = eq(exponent, broadcast_to(const(y, 0), shape))
            one = broadcast_to(const(y, 1), shape)
            safe = select_n(zero, exponent, one)
            slope = mul(converted(exponent, typeof(x).dtype), pow_(x, sub(safe, const(y, 1))))
            blank = broadcast_to(const(x, 0), shape)
            return mul(g, select_n(zero, broadcast_to(slope, shape), blank))
        if isinstance(y, np.generic):  # a number that kernels know is one less, too
            less: Any = np.subtract(y, type(y)(1))
            return mul(g, mul(y, pow_(x, less)))
        one = broadcast_to(const(y, 1), np.shape(y))
        return mul(g, mul(y, pow_(x, sub(y, one))))

    def d1(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        # log(0) is replaced by 0: where x is 0 the power is 0 too
        zero = eq(x, const(x, 0))
        one = broadcast_to(const(x, 1), np.shape(x))
        return mul(g, mul(log(select_n(zero, x, one)), out))

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        if y.dtype.kind == "f":
            return kernel_math.pow(k, x, y)
        # float64 holds an integer exponent that float32 would round
        wide = kernel_math.pow(k, k.cast(x, np.float64), k.cast(y, np.float64))
        return k.cast(wide, x.dtype)

    lower_parts = on_plane("power")


exp_p, exp2_p, log_p, expm1_p, log1p_p = Exp(), Exp2(), Log(), Expm1(), Log1p()
tanh_p, logistic_p, sin_p, cos_p, tan_p = Tanh(), Logistic(), Sin(), Cos(), Tan()
asin_p, acos_p, atan_p, atan2_p = Asin(), Acos(), Atan(), Atan2()
sinh_p, cosh_p, asinh_p, acosh_p, atanh_p = Sinh(), Cosh(), Asinh(), Acosh(), Atanh()
sqrt_p, rsqrt_p, cbrt_p, pow_p = Sqrt(), Rsqrt(), Cbrt(), Pow()
pow_ = pow_p.bind


def log(x: Any) -> Any:
    return log_p.bind(x, accuracy=None)


def exp(x: Any) -> Any:
    return exp_p.bind(x, accuracy=None)


def rsqrt(x: Any) -> Any:
    return rsqrt_p.bind(x, accuracy=None)


def sqrt(x: Any) -> Any:
    return sqrt_p.bind(x, accuracy=None)
