"""Sine, cosine and tangent for float32 and float64, reduced exactly for every finite argument.

x = n pi/2 + r with n the nearest integer; n mod 4 says which of sin(r), cos(r) and which sign.
Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

from itertools import pairwise

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.math_parts import (
    Pair,
    flip,
    is_odd,
    keep_tiny,
    nearest,
    pair,
    quick_sum,
    second_bit_as_sign,
    two_product,
    two_sum,
)
from weft.kernel.nodes import F32, F64, I32, I64, U64, Value

HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814

# --- float32 --------------------------------------------------------------------------------------

# From |x| = the first column on: 2**s * 2/pi mod 4, times 2**-s, as two float64 (s = 0, 27, 54,
# 79). x times it is a number of quarter turns: what the mod leaves out are whole turns.
TURNS = (
    (0.0, TWO_OVER_PI, -3.935735335036497e-17),
    (2.0**50, -4.119769120791653e-09, 2.8376220177865265e-25),
    (2.0**77, 7.166494911215068e-17, -2.1442872565786008e-33),
    (2.0**103, -5.434184107743751e-25, 3.8858987075186823e-41),
)
# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2
SIN_SINGLE = (
    -0.00019478988542687148,
    0.008331898599863052,
    -0.16666650772094727,
)
COS_SINGLE = (
    2.4429193217656575e-05,
    -0.0013887365348637104,
    0.04166664928197861,
)
# the same in float64, to 31 bits
SIN_MIDDLE = (
    2.7143256512393147e-06,
    -0.00019838915505019484,
    0.008333328119390908,
    -0.16666666631826219,
)
COS_MIDDLE = (
    2.442650708398115e-05,
    -0.001388733545396113,
    0.04166664848128735,
)


def _reduce_single(k: Builder, x: Value) -> tuple[Value, Value]:
    """r in float64 and n in the low bits."""
    size, wide = k.abs(x), k.cast(x, F64)

    def turn(high: Value, low: Value) -> tuple[Value, Value]:
        n, bits = nearest(k, wide, high)
        return k.fma(wide, low, k.fma(wide, high, k.neg(n))), bits

    near, bits = turn(*(k.const(c, F64) for c in TURNS[0][1:]))
    high, low = (k.const(c, F64) for c in TURNS[1][1:])
    for bound, *constants in TURNS[2:]:
        above = k.ge(size, k.like(x, bound))
        high = k.select(above, k.const(constants[0], F64), high)
        low = k.select(above, k.const(constants[1], F64), low)
    far, far_bits = turn(high, low)
    # infinity and NaN are beyond, too: an angle of them is NaN
    beyond = k.ge(size, k.like(x, TURNS[1][0]))
    r = k.mul(k.rarely(beyond, far, near), k.const(HALF_PI[0], F64))
    return r, k.cast(k.rarely(beyond, far_bits, bits), I32)


def _tan_single(k: Builder, x: Value) -> Value:
    """In float64 to the end: near 1 the rounding of r alone costs a unit."""
    r, n = _reduce_single(k, x)
    z = k.mul(r, r)
    sine = k.fma(k.mul(z, r), k.horner(z, SIN_MIDDLE), r)
    cosine = k.fma(k.mul(z, z), k.horner(z, COS_MIDDLE), k.fma(z, k.like(r, -0.5), k.like(r, 1.0)))
    odd = is_odd(k, n)
    y = k.div(k.select(odd, cosine, sine), k.select(odd, sine, cosine))
    return flip(k, k.cast(y, F32), k.shl(n, k.const(31, I32)))


# --- float64 --------------------------------------------------------------------------------------

SIN_DOUBLE = (
    1.5895872792541535e-10,
    -2.5050754403582005e-08,
    2.7557313766056184e-06,
    -0.00019841269830385983,
    0.008333333333323745,
    -0.1666666666666664,
)
COS_DOUBLE = (
    -1.1366538794047475e-11,
    2.0875874630569226e-09,
    -2.7557315617364195e-07,
    2.4801587294448064e-05,
    -0.0013888888888883104,
    0.04166666666666666,
)
FAR = 2.0**48  # from here on the number of quarter turns no longer fits the mantissa
# the bits of 2/pi after the point, behind six zeros
BITS = (
    0x028BE60DB9391054,
    0xA7F09D5F47D4D377,
    0x036D8A5664F10E41,
    0x07F9458EAF7AEF15,
    0x86DC91B8E909374B,
    0x801924BBA8274648,
    0x73F877AC72C4A69C,
    0xFBA208D7D4BAED12,
    0x13A671C09AD17DF9,
    0x04E64758E60D4CE7,
    0xD272117E2EF7E4A0,
    0xEC7FE25FFF781660,
    0x3FBCBC462D6829B4,
    0x7DB4D9FB3C9F2C26,
    0xDD3D18FD9A797FA8,
    0xB5D49EEB1FAF97C5,
    0xECF41CE7DE294A4B,
    0xA9AFED7EC47E3574,
    0x21580CC11BF1EDAE,
)
DIGIT = 27  # products of two digits and their sums stay below 64 bits
DIGITS = 7


def _reduce_near(k: Builder, x: Value) -> tuple[Pair, Value]:
    """r as a pair, for abs(x) < 2**48: x - n pi/2 with pi/2 in three parts (Cody and Waite)."""
    n, bits = nearest(k, x, TWO_OVER_PI)
    minus = k.neg(n)
    first = k.fma(minus, k.like(x, HALF_PI[0]), x)  # exact
    product, lost = two_product(k, minus, k.like(x, HALF_PI[1]))
    high, low = two_sum(k, first, product)
    rest = k.fma(minus, k.like(x, HALF_PI[2]), lost)
    return quick_sum(k, high, k.add(low, rest)), bits


def _window(k: Builder, start: Value) -> list[Value]:
    """Four words of 2/pi from number ``start`` / 64 on, by halving: no table in memory."""
    words = [k.const(w, U64) for w in BITS]
    for step in (8, 4, 2, 1):
        mask = k.const(64 * step, U64)
        on = k.ne(k.and_(start, mask), k.const(0, U64))
        words = [k.select(on, words[i + step], words[i]) for i in range(3 + step)]
    return words


def _digits_of_window(k: Builder, start: Value) -> list[Value]:
    """Digits of 27 bits of 2/pi from the bit ``start`` on, highest first."""
    words = _window(k, start)
    shift = k.and_(start, k.const(63, U64))
    back = k.sub(k.const(63, U64), shift)
    one = k.const(1, U64)
    aligned = [k.or_(k.shl(a, shift), k.lshr(k.lshr(b, one), back)) for a, b in pairwise(words)]
    mask = k.const((1 << DIGIT) - 1, U64)
    out = []
    for i in range(DIGITS):
        word, offset = divmod(i * DIGIT, 64)
        room = 64 - offset - DIGIT
        if room >= 0:
            digit = k.lshr(aligned[word], k.const(room, U64))
        else:
            upper = k.shl(aligned[word], k.const(-room, U64))
            digit = k.or_(upper, k.lshr(aligned[word + 1], k.const(64 + room, U64)))
        out.append(k.and_(digit, mask))
    return out


def _reduce_far(k: Builder, x: Value) -> tuple[Pair, Value]:
    """r as a pair, for abs(x) >= 2**48: the mantissa times the bits of 2/pi that matter.

    Bits that give multiples of four quarter turns are left out (Payne and Hanek).
    """
    bits = k.bitcast(k.abs(x), I64)
    exponent = k.lshr(bits, k.const(52, I64))
    start = k.max(k.sub(exponent, k.const(1071, I64)), k.const(0, I64))
    w = _digits_of_window(k, k.bitcast(start, U64))
    fraction = k.and_(k.bitcast(bits, U64), k.const((1 << 52) - 1, U64))
    mantissa = k.or_(fraction, k.const(1 << 52, U64))
    mask = k.const((1 << DIGIT) - 1, U64)
    m0, m1 = k.and_(mantissa, mask), k.lshr(mantissa, k.const(DIGIT, U64))
    column = k.mul(m0, w[-1])
    digits: list[Value] = []
    for i in reversed(range(DIGITS - 1)):
        carry = k.lshr(column, k.const(DIGIT, U64))
        column = k.add(k.add(k.mul(m0, w[i]), k.mul(m1, w[i + 1])), carry)
        digits.insert(0, k.and_(column, mask))
    # the first two bits count whole quarter turns
    parts = [_unsigned(k, d, 2.0 ** (2 - DIGIT * (i + 1))) for i, d in enumerate(digits[:5])]
    n, low_bits = nearest(k, parts[0])
    first = k.add(k.sub(parts[0], n), parts[1])  # exact: 53 bits
    high, low = two_sum(k, first, parts[2])
    high, low = quick_sum(k, high, k.add(low, k.add(parts[3], parts[4])))
    scale = pair(k, x, HALF_PI[0], HALF_PI[1])
    product, lost = two_product(k, high, scale.high)
    rest = k.fma(high, scale.low, k.fma(low, scale.high, lost))
    minus = k.and_(k.bitcast(x, I64), k.const(-(1 << 63), I64))
    r = quick_sum(k, product, rest)
    negative = k.lt(k.bitcast(x, I64), k.const(0, I64))
    count = k.select(negative, k.sub(k.const(0, I64), low_bits), low_bits)
    return Pair(flip(k, r.high, minus), flip(k, r.low, minus)), count


def _unsigned(k: Builder, digit: Value, unit: float) -> Value:
    """A small integer times a power of two as a float, through the low bits of 2**52."""
    base = k.const(2.0**52, F64)
    joined = k.bitcast(k.or_(digit, k.bitcast(base, U64)), F64)
    return k.mul(k.sub(joined, base), k.const(unit, F64))


def _reduce_double(k: Builder, x: Value) -> tuple[Pair, Value]:
    near, n = _reduce_near(k, x)
    far, m = _reduce_far(k, x)
    beyond = k.ge(k.abs(x), k.like(x, FAR))
    nan = k.sub(x, x)  # of infinity; 0 of everything else
    high = k.rarely(beyond, k.add(far.high, nan), near.high)
    return Pair(high, k.rarely(beyond, far.low, near.low)), k.rarely(beyond, m, n)


# --- both -----------------------------------------------------------------------------------------


class Turn(Record):
    """What is known of an angle: sine and cosine of r, and n."""

    sine: Value
    cosine: Value
    n: Value


def _turn(k: Builder, x: Value) -> Turn:
    if x.dtype == F32:
        wide, n = _reduce_single(k, x)
        r = k.cast(wide, F32)
        z = k.mul(r, r)
        one = k.fma(z, k.like(r, -0.5), k.like(r, 1.0))
        sine = k.fma(k.mul(z, r), k.horner(z, SIN_SINGLE), r)
        return Turn(sine, k.fma(k.mul(z, z), k.horner(z, COS_SINGLE), one), n)
    (r, low), n = _reduce_double(k, x)
    z = k.mul(r, r)
    half = k.mul(z, k.like(x, 0.5))
    cubic = k.mul(k.mul(z, r), k.horner(z, SIN_DOUBLE))
    sine = k.add(r, k.add(cubic, k.fma(k.neg(half), low, low)))
    one = k.like(x, 1.0)
    high, lost = quick_sum(k, one, k.neg(half))
    rest = k.fma(k.mul(z, z), k.horner(z, COS_DOUBLE), k.mul(k.neg(r), low))
    return Turn(sine, k.add(high, k.add(lost, rest)), n)


def _tiny(x: Value) -> float:
    return 2.0**-13 if x.dtype == F32 else 2.0**-28


def sin(k: Builder, x: Value) -> Value:
    """The sine."""
    sine, cosine, n = _turn(k, x)
    y = flip(k, k.select(is_odd(k, n), cosine, sine), second_bit_as_sign(k, n))
    return keep_tiny(k, x, y, _tiny(x))


def cos(k: Builder, x: Value) -> Value:
    """The cosine."""
    sine, cosine, n = _turn(k, x)
    y = k.select(is_odd(k, n), sine, cosine)
    return flip(k, y, second_bit_as_sign(k, k.add(n, k.const(1, n.dtype))))


def tan(k: Builder, x: Value) -> Value:
    """The tangent."""
    if x.dtype == F32:
        return keep_tiny(k, x, _tan_single(k, x), _tiny(x))
    sine, cosine, n = _turn(k, x)
    odd = is_odd(k, n)
    y = k.div(k.select(odd, cosine, sine), k.select(odd, sine, cosine))
    return keep_tiny(k, x, flip(k, y, k.shl(n, k.const(63, I64))), _tiny(x))
