"""Elementwise arithmetic, rounding, extremes and the parts of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, batch_in_place
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.prims import complex_reference
from weft.prims.bits import and_
from weft.prims.families import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    INTEGER,
    NUMBER,
    ORDERED,
    Elementwise,
    LinearUnary,
    NonDifferentiable,
    align_batched,
    broadcast_shapes,
    broadcast_to,
    computed,
    const,
    converted,
    in_parts,
    kernel_complex,
    kernel_math,
    kind_of,
    lowered,
    transpose_unary,
    unbroadcast,
    widened,
)
from weft.prims.selection import bool_dtype, eq, ge, gt, lt, select_n


def real_dtype(dtype: Any, *_: Any) -> Any:
    """The dtype of a complex number's parts; any other dtype is its own."""
    if kind_of(dtype) == COMPLEX:
        return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    return dtype


def complex_dtype(dtype: Any, *_: Any, **__: Any) -> Any:
    """The complex dtype whose parts have this dtype."""
    if kind_of(dtype) == COMPLEX:
        return dtype
    return np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


def _negated(x: Any) -> Any:
    return lookup("neg").bind(x)


def _joined(x: Any, y: Any) -> Any:
    return lookup("complex").bind(x, y)


# --- sums -----------------------------------------------------------------------------------------


class AddAny(Elementwise):
    """The sum of tangents; unlike ``add`` it takes any type that has tangents."""

    name, overflows = "add_any", "sum"
    masks = "each"
    accepts = ANY
    ref = widened(np.add)
    lower = lowered("add")
    lower_parts = in_parts("add")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return max(signs) if min(signs) else 0

    linear = True

    def transpose(self, ct: Any, x: Any, y: Any) -> list[Any]:
        return [ct, ct]


class Add(Elementwise):
    """Elementwise sum."""

    name, accepts, overflows = "add", NUMBER, "sum"
    masks = "each"
    counts = "iufc"
    ref = widened(np.add)
    lower = lowered("add")
    lower_parts = in_parts("add")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return max(signs) if min(signs) else 0

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x, y), (dx, dy) = primals, tangents
        out = add(x, y)
        if type(dx) is Zero:
            return out, broadcast_to(dy, np.shape(out))
        if type(dy) is Zero:
            return out, broadcast_to(dx, np.shape(out))
        return out, broadcast_to(add(dx, dy), np.shape(out))

    def transpose(self, ct: Any, x: Any, y: Any) -> list[Any]:
        return [
            unbroadcast(x.aval, ct) if is_undef(x) else None,
            unbroadcast(y.aval, ct) if is_undef(y) else None,
        ]


class Sub(Elementwise):
    """Elementwise difference."""

    name, accepts, overflows = "sub", NUMBER, "difference"
    masks = "each"
    counts = "iufc"
    ref = widened(np.subtract)
    lower = lowered("sub")
    lower_parts = in_parts("sub")

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x, y), (dx, dy) = primals, tangents
        out = sub(x, y)
        if type(dx) is Zero:
            return out, broadcast_to(neg(dy), np.shape(out))
        if type(dy) is Zero:
            return out, broadcast_to(dx, np.shape(out))
        return out, broadcast_to(sub(dx, dy), np.shape(out))

    def transpose(self, ct: Any, x: Any, y: Any) -> list[Any]:
        return [
            unbroadcast(x.aval, ct) if is_undef(x) else None,
            unbroadcast(y.aval, neg(ct)) if is_undef(y) else None,
        ]


class Neg(Elementwise):
    """Elementwise negation."""

    name, accepts, overflows = "neg", NUMBER, "negative"
    masks = "each"
    arithmetic = False  # bits are moved
    ref = widened(np.negative)
    lower = lowered("neg")
    lower_parts = in_parts("neg")
    linear = True
    transpose = transpose_unary(lambda self, ct, x: _negated(ct))


# --- products -------------------------------------------------------------------------------------


def _product_dtype(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    return x if out_dtype is None else np.dtype(out_dtype)


class Mul(Elementwise):
    """Elementwise product, in the operands' dtype or in ``out_dtype``."""

    name, accepts, result = "mul", NUMBER, staticmethod(_product_dtype)
    overflows = "product"
    masks, scales = "each", "mul"
    counts = "iufc"
    lower_parts = in_parts("mul")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return int(min(signs) > 0)  # the product of small numbers is zero

    @staticmethod
    def ref(x: np.ndarray, y: np.ndarray, *, out_dtype: Any = None) -> np.ndarray:
        if out_dtype is not None:
            x, y = x.astype(out_dtype), y.astype(out_dtype)
        return widened(np.multiply).__func__(x, y)

    def d0(self, g: Any, out: Any, x: Any, y: Any, *, out_dtype: Any = None) -> Any:
        return mul(g, y, out_dtype)

    def d1(self, g: Any, out: Any, x: Any, y: Any, *, out_dtype: Any = None) -> Any:
        return mul(x, g, out_dtype)

    def transpose(self, ct: Any, x: Any, y: Any, *, out_dtype: Any = None) -> list[Any]:
        if is_undef(x) and is_undef(y):
            raise TypeError(
                "mul of two operands that both depend on the input is not linear, so it has no"
                " transpose; use vjp for the derivative of a nonlinear function"
            )
        if is_undef(x):
            return [unbroadcast(x.aval, _product_back(ct, y, x.aval)), None]
        return [None, unbroadcast(y.aval, _product_back(x, ct, y.aval))]

    def lower(self, k: Any, x: Any, y: Any, *, out_dtype: Any = None) -> Any:
        if out_dtype is not None:
            x, y = k.cast(x, out_dtype), k.cast(y, out_dtype)
        return k.mul(x, y)


def _product_back(x: Any, y: Any, aval: Any) -> Any:
    """The product of a cotangent and an operand, in the dtype of the other operand."""
    same = typeof(x).dtype == typeof(y).dtype
    product = mul(x, y) if same else mul(_as(x, y), _as(y, x))
    return product if same else _as_dtype(product, aval.dtype)


def _as(x: Any, y: Any) -> Any:
    return _as_dtype(x, dtypes.promote_types(typeof(x).dtype, typeof(y).dtype))


def _as_dtype(x: Any, dtype: Any) -> Any:
    return x if typeof(x).dtype == dtype else converted(x, dtype)


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Division; for integers rounded towards zero, with -1 for a zero divisor."""
    if not kind_of(x.dtype) & INTEGER:
        return np.true_divide(x, y)
    zero = y == 0
    wide = x.dtype.itemsize < 8 and x.dtype.kind != "V"
    a, b = (x.astype(np.int64), y.astype(np.int64)) if wide else (x, y)
    safe = np.where(zero, np.ones((), b.dtype), b)
    quotient = np.floor_divide(a, safe)
    remainder = a - quotient * safe
    quotient = quotient + ((remainder != 0) & (quotient < 0)).astype(quotient.dtype)
    return np.where(zero, np.array(-1).astype(quotient.dtype), quotient).astype(x.dtype)


class Div(Elementwise):
    """Elementwise quotient; integers round towards zero."""

    name, accepts, native_kinds = "div", NUMBER, "c"
    has_poles = True
    overflows = "quotient"
    counts, quick_powers, slow_parts = "iufc", True, True
    masks, scales = "each", "div"
    ref = widened(_divide)
    lower_parts = in_parts("div")

    def d0(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return div(g, y)

    def d1(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return mul(mul(neg(g), x), integer_pow(y, -2))

    def transpose(self, ct: Any, x: Any, y: Any) -> list[Any]:
        return [unbroadcast(x.aval, div(ct, y)), None]

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        if x.dtype.kind == "f":
            return k.div(x, y)
        safe, zero, overflow = _safe_divisor(k, x, y)
        quotient = k.select(overflow, k.neg(x), k.div(x, safe))
        return k.select(zero, k.not_(k.like(x, 0)), quotient)


def _safe_divisor(k: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """A divisor that traps nowhere; where it was zero; where the quotient overflows."""
    zero = k.eq(y, k.like(y, 0))
    if x.dtype.kind == "u":
        overflow = k.const(False, np.bool_)
    else:
        lowest = k.like(x, np.iinfo(x.dtype).min)
        overflow = k.and_(k.eq(x, lowest), k.eq(y, k.like(y, -1)))
    return k.select(k.or_(zero, overflow), k.like(y, 1), y), zero, overflow


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if kind_of(x.dtype) & INTEGER:
        zero = y == 0
        safe = np.where(zero, np.ones((), y.dtype), y)
        return np.where(zero, x, np.fmod(x, safe)).astype(x.dtype)
    return np.fmod(x, y)


class Rem(Elementwise):
    """Elementwise remainder, with the sign of the dividend."""

    name, accepts = "rem", INTEGER | FLOAT
    has_poles = True
    counts = "iu"
    ref = widened(_remainder)
    holes = {"transpose": "its derivative is written with linear operations"}

    def d0(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return broadcast_to(g, np.shape(out))

    def d1(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return mul(neg(g), mul(sign(div(x, y)), floor(abs_(div(x, y)))))

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        if x.dtype.kind == "f":
            return kernel_math.rem(k, x, y)
        safe, zero, overflow = _safe_divisor(k, x, y)
        rest = k.select(overflow, k.like(x, 0), k.rem(x, safe))
        return k.select(zero, x, rest)


def _high_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bits = x.dtype.itemsize * 8
    product = x.astype(object) * y.astype(object)
    wrapped = np.asarray(product >> bits, dtype=object)
    return wrapped.astype(x.dtype)


class MulHi(NonDifferentiable):
    """The high half of the double-width integer product."""

    name, accepts, widens = "mulhi", INTEGER, False
    ref = staticmethod(_high_product)
    lower = lowered("mulhi")


class Square(Elementwise):
    """Elementwise square."""

    name, accepts, native_kinds = "square", NUMBER, "c"
    overflows = "square"
    ref = widened(complex_reference.square)
    holes = {"transpose": "not linear"}
    lower_parts = in_parts("square")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return 1

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, mul(const(x, 2), x))

    def lower(self, k: Any, x: Any) -> Any:
        return k.mul(x, x)


def _integer_power(x: np.ndarray, y: int) -> np.ndarray:
    """x**y by repeated squaring, in the order of the binary digits of y."""
    wide = widened(lambda a, b: a * b).__func__
    if y == 0:
        return np.ones_like(x)
    result, base, n = None, x, abs(y)
    while n:
        if n & 1:
            result = base if result is None else wide(result, base)
        n >>= 1
        if n:
            base = wide(base, base)
    assert result is not None
    return np.ones((), x.dtype) / result if y < 0 else result


class IntegerPow(Elementwise):
    """Elementwise power with a static integer exponent."""

    name, accepts, native_kinds = "integer_pow", NUMBER, "c"
    has_poles = True
    overflows = "power"
    holes = {"transpose": "not linear"}

    def sign(self, signs: Sequence[int], params: Any) -> int:
        y = params["y"]
        return int(y % 2 == 0 or signs[0] > (y < 0))  # 1 / -0.0 is below zero

    def lower_parts(self, k: Any, x: Any, *, y: int) -> Any:
        return kernel_complex.integer_pow(k, x, y=y)

    def shape(self, x: Any, *, y: int) -> ShapedArray:
        if y < 0 and kind_of(x.dtype) & (INTEGER | BOOL):
            raise TypeError(
                f"integer_pow cannot raise {x.str_short()} to the negative power {y}; convert to"
                " a floating dtype first"
            )
        return super().shape(x, y=y)

    def flushes(self, values: Any, params: dict[str, Any]) -> bool:
        return params["y"] != 1

    @staticmethod
    def ref(x: np.ndarray, *, y: int) -> np.ndarray:
        if x.dtype.name.startswith(("bfloat16", "float16", "float8")):
            return _integer_power(x.astype(np.float32), y)
        return _integer_power(x, y)

    def d0(self, g: Any, out: Any, x: Any, *, y: int) -> Any:
        if y == 0:
            return Zero.from_primal(x)
        if y == 1:
            return g
        return mul(g, mul(const(x, y), x if y == 2 else integer_pow(x, y - 1)))

    def lower(self, k: Any, x: Any, *, y: int) -> Any:
        if y == 0:
            return k.like(x, 1)
        result, base, n = None, x, abs(y)
        while n:
            if n & 1:
                result = base if result is None else k.mul(result, base)
            n >>= 1
            if n:
                base = k.mul(base, base)
        return k.div(k.like(x, 1), result) if y < 0 else result


# --- sign, order ----------------------------------------------------------------------------------


class Sign(NonDifferentiable):
    """-1, 0 or 1; x/|x| for complex numbers."""

    name, accepts, native_kinds = "sign", NUMBER, "c"
    ref = widened(complex_reference.sign)
    lower_parts = in_parts("sign")

    def lower(self, k: Any, x: Any) -> Any:
        zero = k.like(x, 0)
        if x.dtype.kind == "u":
            return k.select(k.gt(x, zero), k.like(x, 1), x)
        # a denormal number, which is no more than zero, becomes one
        rest = k.add(x, x) if x.dtype.kind == "f" else x
        positive = k.select(k.gt(x, zero), k.like(x, 1), rest)
        return k.select(k.lt(x, zero), k.like(x, -1), positive)


class Abs(Elementwise):
    """Absolute value, real for complex operands."""

    name, accepts, result = "abs", INT | FLOAT | COMPLEX, staticmethod(real_dtype)
    overflows = "size"
    native_kinds = "c"
    ref = widened(np.abs)
    lower = lowered("abs")
    lower_parts = in_parts("absolute")
    holes = {"transpose": "not linear"}

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return max(1, signs[0])

    def flushes(self, values: Any, params: dict[str, Any]) -> bool:
        return values[0].dtype.kind == "c"  # otherwise a bit is cleared

    def shape(self, x: Any, **params: Any) -> Any:
        if kind_of(x.dtype) & INT and dtypes.itemsize_bits(x.dtype) < 8:
            raise TypeError(
                f"abs does not accept dtype {x.dtype}, which cannot represent the absolute value "
                "of its smallest value; convert with astype(jnp.int8)"
            )
        return super().shape(x, **params)

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        if kind_of(typeof(x).dtype) == COMPLEX:
            mirrored = conj(x)
            size = converted(out, typeof(x).dtype)
            zero = eq(size, const(x, 0))
            one = broadcast_to(const(x, 1), np.shape(x))
            return real(mul(g, div(mirrored, select_n(zero, size, one))))
        return select_n(ge(x, const(x, 0)), neg(g), g)


class Floor(NonDifferentiable):
    """Rounding down."""

    name, accepts = "floor", FLOAT
    ref = widened(np.floor)
    lower = lowered("floor")


class Ceil(NonDifferentiable):
    """Rounding up."""

    name, accepts = "ceil", FLOAT
    ref = widened(np.ceil)
    lower = lowered("ceil")


def _away_from_zero(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)


class Round(NonDifferentiable):
    """Rounding to the nearest integer, ties away from zero or to even."""

    name, accepts = "round", FLOAT

    @staticmethod
    def ref(x: np.ndarray, *, rounding_method: Any) -> np.ndarray:
        rule = np.rint if int(rounding_method) == 1 else _away_from_zero
        return widened(rule).__func__(x)

    def lower(self, k: Any, x: Any, *, rounding_method: Any) -> Any:
        if int(rounding_method) == 1:
            return k.rint(x)
        whole = k.trunc(x)
        far = k.ge(k.abs(k.sub(x, whole)), k.like(x, 0.5))
        return k.select(far, k.add(whole, k.copysign(k.like(x, 1), x)), whole)


class IsFinite(NonDifferentiable):
    """Neither infinite nor NaN."""

    name, accepts, result = "is_finite", FLOAT, staticmethod(bool_dtype)
    ref = widened(np.isfinite)

    def lower(self, k: Any, x: Any) -> Any:
        return k.lt(k.abs(x), k.like(x, np.inf))


class NextAfter(Elementwise):
    """The next representable number towards the second operand."""

    name, accepts = "nextafter", FLOAT
    arithmetic = False  # bits are moved
    lower, widens = computed("nextafter"), False
    holes = {"jvp": "not differentiable", "transpose": "not linear"}

    @staticmethod
    def ref(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.nextafter(x, y)
        # NumPy gives the first of equal halves; zeros of different sign are equal
        return np.where(x == y, y, out) if x.dtype == np.float16 else out

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        raise NotImplementedError("nextafter has no derivative")


def _half_at_ties(g: Any, out: Any, mine: Any, other: Any) -> Any:
    """The share of a maximum's tangent: all to the larger operand, half each where equal."""
    all_of_it = _choose(eq(mine, out), const(out, 1), const(out, 0))
    return mul(g, div(all_of_it, _choose(eq(other, out), const(out, 2), const(out, 1))))


def _choose(which: Any, on_true: Any, on_false: Any) -> Any:
    """One of two scalars for each element of a boolean array."""
    shape = np.shape(which)
    on_true = broadcast_to(on_true, shape)
    return select_n(which, broadcast_to(on_false, shape), on_true)


def _extreme(pick: Any, zeros: Any) -> Any:
    """Maximum or minimum with -0 below 0; complex numbers by real, then imaginary part."""

    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = pick(x, y)
        if x.dtype.kind != "f":
            return out
        both = (x == 0) & (y == 0)
        if not both.any():
            return out
        negative = zeros(np.signbit(x), np.signbit(y))
        return np.where(both, np.where(negative, np.copysign(out, -1), np.abs(out)), out)

    return widened(reference)


class Extreme(Elementwise):
    """The larger or the smaller of two; NaN if either is."""

    counts = "iu"
    holes = {"transpose": "not linear"}

    def d0(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return _half_at_ties(g, out, x, y)

    def d1(self, g: Any, out: Any, x: Any, y: Any) -> Any:
        return _half_at_ties(g, out, y, x)


class Max(Extreme):
    """The larger of two; NaN if either is."""

    name = "max"
    ref = _extreme(np.maximum, np.logical_and)
    lower = lowered("max")
    lower_parts = in_parts("maximum")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return max(signs)


class Min(Extreme):
    """The smaller of two; NaN if either is."""

    name = "min"
    ref = _extreme(np.minimum, np.logical_or)
    lower = lowered("min")
    lower_parts = in_parts("minimum")

    def sign(self, signs: Sequence[int], params: Any) -> int:
        return min(signs)


# --- complex numbers ------------------------------------------------------------------------------


class Real(Elementwise):
    """The real part."""

    name, accepts, result = "real", COMPLEX, staticmethod(real_dtype)
    masks = "each"
    arithmetic = False  # bits are moved
    ref = staticmethod(np.real)
    lower_parts = in_parts("real")
    linear = True
    transpose = transpose_unary(lambda self, ct, x: _joined(ct, const(ct, 0)))


class Imag(Elementwise):
    """The imaginary part."""

    name, accepts, result = "imag", COMPLEX, staticmethod(real_dtype)
    masks = "each"
    arithmetic = False  # bits are moved
    ref = staticmethod(np.imag)
    lower_parts = in_parts("imag")
    linear = True
    transpose = transpose_unary(lambda self, ct, x: _joined(const(ct, 0), _negated(ct)))


def _join_parts(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = np.empty(shape, complex_dtype(x.dtype))
    out.real, out.imag = x, y
    return out


class Complex(Elementwise):
    """A complex number of its parts."""

    name, accepts, result = "complex", FLOAT, staticmethod(complex_dtype)
    masks = "each"
    arithmetic = False  # bits are moved
    ref = staticmethod(_join_parts)
    lower_parts = in_parts("joined")
    linear = True

    def shape(self, x: Any, y: Any) -> ShapedArray:
        if x.dtype not in (np.float32, np.float64):
            raise TypeError(f"complex takes float32 or float64 parts, got {x.str_short()}")
        return super().shape(x, y)

    def transpose(self, ct: Any, x: Any, y: Any) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(a.aval) if is_undef(a) else None for a in (x, y)]
        return [
            unbroadcast(x.aval, real(ct)) if is_undef(x) else None,
            unbroadcast(y.aval, imag(neg(ct))) if is_undef(y) else None,
        ]


class Conj(Elementwise):
    """Complex conjugate; a real operand becomes complex."""

    name, accepts, result = "conj", FLOAT | COMPLEX, staticmethod(complex_dtype)
    masks = "each"
    arithmetic = False  # bits are moved
    lower_parts = in_parts("conj")
    linear = True

    @staticmethod
    def ref(x: np.ndarray, *, input_dtype: Any) -> np.ndarray:
        return np.conj(x).astype(complex_dtype(x.dtype))

    def transpose(self, ct: Any, x: Any, *, input_dtype: Any) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(x.aval)]
        if kind_of(input_dtype) == COMPLEX:
            return [self.bind(ct, input_dtype=typeof(ct).dtype)]
        return [real(ct)]


# --- bounds and barriers --------------------------------------------------------------------------


class Clamp(Primitive):
    """Values held between a minimum and a maximum."""

    name, form, divided_as = "clamp", "map", 1
    counts = "iu"
    arithmetic = True

    def lower(self, k: Any, low: Any, x: Any, high: Any) -> Any:
        return k.min(k.max(x, low), high)

    holes = {"transpose": "not linear"}

    def shape(self, low: Any, x: Any, high: Any) -> ShapedArray:
        for bound in (low, high):
            if bound.shape and bound.shape != x.shape:
                raise TypeError(
                    f"clamp needs bounds of shape () or {x.shape}, got {low.shape}, {high.shape}"
                )
            if bound.dtype != x.dtype:
                raise TypeError(
                    "clamp needs operands of the same dtype, got"
                    f" {low.str_short()}, {x.str_short()}, {high.str_short()}"
                )
        if not kind_of(x.dtype) & ORDERED:
            raise TypeError(f"clamp does not order dtype {x.dtype}")
        return ShapedArray(x.shape, x.dtype, x.weak_type and low.weak_type and high.weak_type)

    @staticmethod
    def ref(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
        return Min.ref(Max.ref(x, low), high)

    def d0(self, g: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
        inside = and_(gt(low, x), lt(low, high))
        return select_n(
            broadcast_to(inside, np.shape(x)),
            broadcast_to(const(x, 0), np.shape(x)),
            broadcast_to(g, np.shape(x)),
        )

    def d1(self, g: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
        inside = and_(gt(x, low), lt(x, high))
        return select_n(inside, broadcast_to(const(x, 0), np.shape(x)), g)

    def d2(self, g: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
        above = lt(high, x)
        return select_n(
            broadcast_to(above, np.shape(x)),
            broadcast_to(const(x, 0), np.shape(x)),
            broadcast_to(g, np.shape(x)),
        )

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
        aligned, dim = align_batched(axis, args, dims)
        shape = broadcast_shapes("clamp", [np.shape(x) for x in aligned])
        full = [x if not np.ndim(x) else broadcast_to(x, shape) for x in aligned]
        return self.bind(full[0], broadcast_to(full[1], shape), full[2]), dim


class StopGradient(LinearUnary):
    """The identity, whose derivative is zero."""

    name, form = "stop_gradient", "map"
    linear = False

    def lower(self, k: Any, x: Any) -> Any:
        return x

    lower_parts = lower

    holes = {"transpose": "its tangent is zero"}

    def shape(self, x: Any) -> ShapedArray:
        return x

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        return x

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        out = self.bind(*primals)
        return out, Zero.from_primal(primals[0])

    batch = batch_in_place


add_any_p = AddAny()
add_p, sub_p, neg_p = Add(), Sub(), Neg()
mul_p, div_p, rem_p, mulhi_p = Mul(), Div(), Rem(), MulHi()
square_p, integer_pow_p = Square(), IntegerPow()
sign_p, abs_p, floor_p, ceil_p, round_p = Sign(), Abs(), Floor(), Ceil(), Round()
is_finite_p, nextafter_p, max_p, min_p = IsFinite(), NextAfter(), Max(), Min()
real_p, imag_p, complex_p, conj_p = Real(), Imag(), Complex(), Conj()
clamp_p, stop_gradient_p = Clamp(), StopGradient()

add, sub, neg, div, rem = add_p.bind, sub_p.bind, neg_p.bind, div_p.bind, rem_p.bind
square, sign, abs_, floor = square_p.bind, sign_p.bind, abs_p.bind, floor_p.bind
real, imag, complex_ = real_p.bind, imag_p.bind, complex_p.bind
maximum, minimum = max_p.bind, min_p.bind


def mul(x: Any, y: Any, out_dtype: Any = None) -> Any:
    return mul_p.bind(x, y, out_dtype=out_dtype)


def integer_pow(x: Any, y: int) -> Any:
    return integer_pow_p.bind(x, y=y)


def conj(x: Any) -> Any:
    return conj_p.bind(x, input_dtype=typeof(x).dtype)


def is_inexact(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.inexact)
