"""NumPy references of functions of complex numbers where NumPy's own are not what JAX computes.

Branch cuts are on JAX's side (where that differs, a zero part counts as +0), and precision and
range are kept to the ends. The functions at the end of the file take real operands too.
"""

import functools
from collections.abc import Callable

import numpy as np

Array = np.ndarray


def in_complex128(fun: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Makes `fun`, written for complex128, work for complex64 too; real operands stay real."""

    @functools.wraps(fun)
    def wrapper(z: Array) -> Array:
        z = np.asarray(z)
        with np.errstate(all="ignore"):
            return np.asarray(fun(z.astype(np.complex128))).astype(z.dtype, copy=False)

    return wrapper


def make_complex(real: Array, imag: Array) -> Array:
    """A complex array from its parts; unlike real + 1j * imag, infinities and -0 survive."""
    out = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.complex128)
    out.real, out.imag = real, imag
    return out


def _positive_zero_real(z: Array) -> Array:
    return make_complex(z.real + 0.0, z.imag)


def _positive_zero_imag(z: Array) -> Array:
    return make_complex(z.real, z.imag + 0.0)


@in_complex128
def complex_sqrt(z: Array) -> Array:
    return np.sqrt(_positive_zero_imag(z))


@in_complex128
def complex_rsqrt(z: Array) -> Array:
    # 1 / root = conj(root) / |z|, divided in two steps so that neither overflows.
    root, half = np.sqrt(z), np.sqrt(np.abs(z))
    value = make_complex(root.real / half / half, -root.imag / half / half)
    value = np.where(z == 0, complex(np.inf, np.nan), value)
    return np.where(np.isinf(z.real) | np.isinf(z.imag), 0.0, value)


@in_complex128
def complex_asin(z: Array) -> Array:
    return np.arcsin(_positive_zero_imag(z))


@in_complex128
def complex_acos(z: Array) -> Array:
    return np.arccos(_positive_zero_imag(z))


@in_complex128
def complex_asinh(z: Array) -> Array:
    return np.arcsinh(_positive_zero_real(z))


@in_complex128
def complex_acosh(z: Array) -> Array:
    return np.arccosh(_positive_zero_imag(z))


complex_atan = in_complex128(np.arctan)
complex_atanh = in_complex128(np.arctanh)
complex_tan = in_complex128(np.tan)
complex_tanh = in_complex128(np.tanh)


@in_complex128
def complex_square(z: Array) -> Array:
    x, y = z.real, z.imag
    return make_complex((x - y) * (x + y), 2.0 * (x * y))


@in_complex128
def complex_sign(z: Array) -> Array:
    size = np.abs(z)
    return np.where(z == 0, z, make_complex(z.real / size, z.imag / size))


@in_complex128
def complex_exp2(z: Array) -> Array:
    size, angle = np.exp2(z.real), z.imag * np.log(2.0)
    return make_complex(size * np.cos(angle), _times_sine(size, angle))


def _times_sine(size: Array, angle: Array) -> Array:
    """size * sin(angle), 0 on the real axis also where size is infinite or NaN."""
    return np.where(angle == 0.0, angle, size * np.sin(angle))


@in_complex128
def complex_expm1(z: Array) -> Array:
    x, y = z.real, z.imag
    growth, sine = np.expm1(x), np.sin(0.5 * y)
    real = growth * np.cos(y) - 2.0 * sine * sine
    # of no known direction, but infinite; or on the way to -1 from any direction
    real = np.where((x == np.inf) & np.isnan(real), x, real)
    gone = x == -np.inf
    real = np.where(gone | (y == 0.0), growth, real)
    return make_complex(real, np.where(gone, 0.0, _times_sine(np.exp(x), y)))


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """x * y as a rounded product and its error (Dekker, Numer. Math. 18, 1971)."""

    def split(v: Array) -> tuple[Array, Array]:
        scaled = v * 134217729.0
        high = scaled - (scaled - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = split(x), split(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y as a rounded sum and its error (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _square_distance(x: Array, y: Array) -> Array:
    """|1 + x + iy|^2 - 1 = 2x + x^2 + y^2, summed in twice the precision."""
    (xx, xe), (yy, ye) = two_product(x, x), two_product(y, y)
    first, e1 = two_sum(2.0 * x, xx)
    total, e2 = two_sum(first, yy)
    return total + (e1 + e2 + xe + ye)


@in_complex128
def complex_log1p(z: Array) -> Array:
    x, y = z.real, z.imag
    near = (np.abs(x) < 3.0) & (np.abs(y) < 3.0)
    close = _square_distance(np.where(near, x, 0.0), np.where(near, y, 0.0))
    size = np.hypot(1.0 + x, y)
    # Close to the pole at -1 the squared distance has lost what hypot keeps.
    real = np.where(near & (size > 0.5), 0.5 * np.log1p(close), np.log(size))
    return make_complex(real, np.arctan2(y, 1.0 + x))


@in_complex128
def complex_logistic(z: Array) -> Array:
    # For Re z < 0 the growing exponential is divided out, so that it never overflows.
    flip = z.real < 0.0
    power = np.exp(np.where(flip, z, -z))
    value = np.where(flip, power, 1.0) / (1.0 + power)
    return np.where(np.isinf(z.real) & np.isfinite(z.imag), np.where(flip, 0.0, 1.0), value)


def _real_logistic(x: Array) -> Array:
    with np.errstate(under="ignore"):
        power = np.exp(-np.abs(x))
        return np.where(x < 0, power, 1).astype(x.dtype) / (1 + power)


def _either(
    real: Callable[[Array], Array], other: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    def reference(x: Array) -> Array:
        return other(x) if x.dtype.kind == "c" else real(x)

    return reference


asin, acos = _either(np.arcsin, complex_asin), _either(np.arccos, complex_acos)
asinh, acosh = _either(np.arcsinh, complex_asinh), _either(np.arccosh, complex_acosh)
atan, atanh = _either(np.arctan, complex_atan), _either(np.arctanh, complex_atanh)
tan, tanh = _either(np.tan, complex_tan), _either(np.tanh, complex_tanh)
sqrt, square = _either(np.sqrt, complex_sqrt), _either(np.square, complex_square)
rsqrt = _either(lambda x: 1 / np.sqrt(x), complex_rsqrt)
sign, exp2 = _either(np.sign, complex_sign), _either(np.exp2, complex_exp2)
expm1, log1p = _either(np.expm1, complex_expm1), _either(np.log1p, complex_log1p)
logistic = _either(_real_logistic, complex_logistic)
