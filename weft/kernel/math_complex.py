"""Complex numbers in kernels: elements of two scalars, and what is computed with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.kernel import tiny
from weft.kernel.build import Builder
from weft.kernel.math_circular import cos, sin
from weft.kernel.math_exponential import exp
from weft.kernel.math_inverse import atan2
from weft.kernel.math_logarithm import log, log1p
from weft.kernel.math_parts import where
from weft.kernel.math_power import hypot
from weft.kernel.nodes import BOOL, F32, F64, Parts, Value, layout


def _like(z: Parts, re: Value, im: Value) -> Parts:
    return Parts(z.dtype, (re, im))


def each(op: str) -> Any:
    """A function that is one operation of the builder, part by part."""

    def function(k: Builder, *operands: Any) -> Parts:
        pairs = zip(*(z.parts for z in operands), strict=True)
        return Parts(operands[0].dtype, tuple(getattr(k, op)(*p) for p in pairs))

    return function


add, sub, neg = each("add"), each("sub"), each("neg")


def mul(k: Builder, x: Parts, y: Parts) -> Parts:
    """(a + bi)(c + di)."""
    (a, b), (c, d) = x.parts, y.parts
    re = k.sub(k.mul(a, c), k.mul(b, d))
    return _like(x, re, k.add(k.mul(a, d), k.mul(b, c)))


def square(k: Builder, z: Parts) -> Parts:
    """z², its real part without cancellation."""
    a, b = z.parts
    product = k.mul(a, b)
    return _like(z, k.mul(k.sub(a, b), k.add(a, b)), k.add(product, product))


def div(k: Builder, x: Parts, y: Parts) -> Parts:
    """x / y by Smith's way: the larger part of the divisor is divided out, so nothing overflows."""
    (a, b), (c, d) = x.parts, y.parts
    first = k.ge(k.abs(c), k.abs(d))
    ratio = k.div(k.select(first, d, c), k.select(first, c, d))
    below = k.select(first, k.add(c, k.mul(d, ratio)), k.add(d, k.mul(c, ratio)))
    ar, br = k.mul(a, ratio), k.mul(b, ratio)
    re = k.div(k.select(first, k.add(a, br), k.add(ar, b)), below)
    im = k.div(k.select(first, k.sub(b, ar), k.sub(br, a)), below)
    zero = k.and_(k.eq(c, k.like(c, 0)), k.eq(d, k.like(d, 0)))
    size = k.abs(c)
    return _like(x, k.select(zero, k.div(a, size), re), k.select(zero, k.div(b, size), im))


def conj(k: Builder, z: Any, **_: Any) -> Parts:
    """The conjugate; of a real number, itself as a complex one."""
    if type(z) is Parts:
        return _like(z, z.parts[0], k.neg(z.parts[1]))
    kind = np.dtype(np.complex64 if z.dtype == F32 else np.complex128)
    return Parts(kind, (z, k.like(z, 0.0)))


def real(k: Builder, z: Parts) -> Value:
    return z.parts[0]


def imag(k: Builder, z: Parts) -> Value:
    return z.parts[1]


def joined(k: Builder, re: Value, im: Value) -> Parts:
    """The complex number of two parts."""
    return Parts(np.dtype(np.complex64 if re.dtype == F32 else np.complex128), (re, im))


def absolute(k: Builder, z: Parts) -> Value:
    """sqrt(x**2 + y**2); of float32 within 1.2 ULP, scaled where squares would leave the range."""
    x, y = z.parts
    if x.dtype != F32:
        return hypot(k, x, y)
    a, b = k.abs(x), k.abs(y)
    high = k.select(k.gt(b, a), b, a)
    number = lambda n: k.like(x, n)
    large, small = k.gt(high, number(2.0**60)), k.lt(high, number(2.0**-40))
    choose = lambda n, m: k.select(large, number(n), k.select(small, number(m), number(1.0)))
    down, up = choose(2.0**-80, 2.0**80), choose(2.0**80, 2.0**-80)
    a, b = k.mul(a, down), k.mul(b, down)
    length = k.mul(k.sqrt(k.fma(a, a, k.mul(b, b))), up)
    infinite = k.or_(*(k.eq(p, number(np.inf)) for p in (a, b)))
    return where(k, infinite, np.inf, length)


def sign(k: Builder, z: Parts) -> Parts:
    """z / |z|, and 0 for 0."""
    size = absolute(k, z)
    zero = k.eq(size, k.like(size, 0))
    return _like(z, *(k.select(zero, p, k.div(p, size)) for p in z.parts))


def eq(k: Builder, x: Parts, y: Parts) -> Value:
    """Whether all parts are equal."""
    tests = [k.eq(a, b) for a, b in zip(x.parts, y.parts, strict=True)]
    total = k.const(True, BOOL)
    for test in tests:
        total = k.and_(total, test)
    return total


def ne(k: Builder, x: Parts, y: Parts) -> Value:
    return k.not_(eq(k, x, y))


def _further(k: Builder, x: Parts, y: Parts, beyond: str) -> Parts:
    """x where it is NaN, or beyond y or equal to it by real, then imaginary part; else y."""
    (a, b), (c, d) = x.parts, y.parts
    ordered = k.not_(k.or_(k.isnan(b), k.isnan(d)))
    first = k.and_(getattr(k, beyond[0] + "t")(a, c), ordered)
    second = k.and_(k.eq(a, c), getattr(k, beyond)(b, d))
    here = k.or_(k.or_(k.isnan(a), k.isnan(b)), k.or_(first, second))
    return k.select(here, x, y)


def maximum(k: Builder, x: Parts, y: Parts) -> Parts:
    """The larger by real, then imaginary part; NaN if either is."""
    return _further(k, x, y, "ge")


def minimum(k: Builder, x: Parts, y: Parts) -> Parts:
    """The smaller by real, then imaginary part; NaN if either is."""
    return _further(k, x, y, "le")


def integer_pow(k: Builder, z: Parts, *, y: int) -> Parts:
    """z**y by repeated squaring, in the order of the binary digits of y."""
    one = _like(z, k.like(z.parts[0], 1), k.like(z.parts[0], 0))
    if y == 0:
        return one
    result, base, n = None, z, abs(y)
    while n:
        if n & 1:
            result = base if result is None else mul(k, result, base)
        n >>= 1
        if n:
            base = mul(k, base, base)
    assert result is not None
    return div(k, one, result) if y < 0 else result


def exponential(k: Builder, z: Parts) -> Parts:
    """e**x (cos y + i sin y)."""
    x, y = z.parts
    # so large that e**x overflows, but not with the sine or cosine
    far = k.gt(x, k.like(x, 88.0 if x.dtype == F32 else 709.0))
    size = exp(k, k.select(far, k.sub(x, k.like(x, 64.0)), x))
    rest = k.select(far, k.like(x, float(np.exp(64.0))), k.like(x, 1.0))
    re = k.mul(k.mul(size, cos(k, y)), rest)
    im = k.mul(k.mul(size, sin(k, y)), rest)
    level = k.eq(y, k.like(y, 0))
    re, im = k.select(level, k.mul(size, rest), re), k.select(level, y, im)
    # of no known direction, but infinite
    re = k.select(k.and_(k.eq(x, k.like(x, np.inf)), k.isnan(re)), x, re)
    gone = k.eq(x, k.like(x, -np.inf))
    return _like(z, where(k, gone, 0.0, re), where(k, gone, 0.0, im))


def logarithm(k: Builder, z: Parts) -> Parts:
    """log |z| + i arg z."""
    x, y = z.parts
    if x.dtype == F32:
        # squares of float32 are exact in float64 and do not overflow there
        a, b = (k.cast(p, F64) for p in z.parts)
        total = k.add(k.mul(a, a), k.mul(b, b))
        size = k.cast(k.mul(log(k, total), k.const(0.5, F64)), F32)
    else:
        high, low = k.max(k.abs(x), k.abs(y)), k.min(k.abs(x), k.abs(y))
        one = k.like(x, 1.0)
        close = k.fma(low, low, k.mul(k.sub(high, one), k.add(high, one)))
        length = hypot(k, x, y)
        near = k.and_(k.gt(length, k.like(x, 0.7)), k.lt(length, k.like(x, 1.5)))
        half = k.mul(log1p(k, k.select(near, close, k.like(x, 0.0))), k.like(x, 0.5))
        size = k.select(near, half, log(k, length))
    infinite = k.or_(*(k.eq(k.abs(p), k.like(p, np.inf)) for p in z.parts))
    return _like(z, where(k, infinite, np.inf, size), atan2(k, y, x))


def convert(k: Builder, x: Any, *, new_dtype: Any, **_: Any) -> Any:
    """Conversion from or to complex numbers; of a complex number to a real one, its real part."""
    part, n = layout(np.dtype(new_dtype))
    if n == 1:
        return tiny.convert(k, x.parts[0], new_dtype)
    if type(x) is Parts:
        return Parts(np.dtype(new_dtype), tuple(k.cast(p, part) for p in x.parts))
    return Parts(np.dtype(new_dtype), (k.cast(x, part), k.const(0, part)))
