"""The error function and its relatives, for float32 and float64.

Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

import math

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.math_erf_inv import erf_inv_single
from weft.kernel.math_exponential import DOUBLE as EXP_DOUBLE
from weft.kernel.math_exponential import SINGLE as EXP_SINGLE
from weft.kernel.math_exponential import parts_of_pair
from weft.kernel.math_logarithm import log
from weft.kernel.math_parts import at_most, nearest, power_of_two, scale, two_product
from weft.kernel.nodes import F32, Value


class Piece(Record):
    """A polynomial in w - centre or, past the first piece, sqrt(w) - centre."""

    start: float  # of w
    centre: float
    coefficients: tuple[float, ...]


class Error(Record):
    """Coefficients and bounds of one floating type."""

    near: tuple[float, ...]  # erf(x) / x - 1 in x**2, up to 1
    far: tuple[float, ...]  # -log2(erfc(x)) in x - middle, from 1 to ``one``
    middle: float
    one: float  # beyond, erf is 1
    exp2: tuple[float, ...]
    scaled: tuple[float, ...]  # (3 x + 3/2) e**(x**2) erfc(x) in (x - centre) / (x + centre)
    centre: float
    zero: float  # beyond, erfc is 0
    inverse: tuple[Piece, ...]  # erf_inv(x) / x in pieces of w = -log(1 - x**2)


SINGLE = Error(
    near=(
        7.554564217571169e-05,
        -0.0007929899729788303,
        0.00518064247444272,
        -0.0268507432192564,
        0.11283542960882187,
        -0.3761262595653534,
        0.12837916612625122,
    ),
    far=(
        -0.00026946645812131464,
        0.0042586796917021275,
        -0.03153202682733536,
        0.14881105720996857,
        0.9205744862556458,
        1.6260939836502075,
        0.000479984562844038,
    ),
    middle=0.0,
    one=3.93,
    exp2=EXP_SINGLE.exp2,
    scaled=(
        -0.002130676992237568,
        0.0006423919694498181,
        0.013660097494721413,
        -0.007616603281348944,
        -0.0895356684923172,
        0.24760210514068604,
        -0.2398785501718521,
        -0.14422544836997986,
        1.913995385169983,
    ),
    centre=2.0419921875,  # where the lowest coefficient hardly needs rounding
    zero=10.1,
    inverse=(
        Piece(
            0.0,
            2.5,
            (
                -2.7484923226239744e-09,
                -9.963989633376968e-09,
                6.624712511893449e-08,
                4.82736652429594e-07,
                -3.698237833305029e-06,
                -5.0409958021191414e-06,
                0.0002188713406212628,
                -0.0012526072096079588,
                -0.00417780177667737,
                0.24664022028446198,
                1.5014094114303589,
            ),
        ),
        Piece(
            5.0,
            3.0,
            (
                9.818322723731399e-05,
                -0.00029096080106683075,
                -3.306134749436751e-05,
                0.001462203566916287,
                -0.0036092346999794245,
                0.005695572588592768,
                -0.0076347230933606625,
                0.00944430474191904,
                1.001674771308899,
                2.832976818084717,
            ),
        ),
    ),
)
DOUBLE = Error(
    near=(
        5.918100104939479e-11,
        -1.134988119332115e-09,
        1.465387200510182e-08,
        -1.6349441503183247e-07,
        1.6460918989133176e-06,
        -1.4925590233981023e-05,
        0.00012055330904396167,
        -0.0008548326975218201,
        0.005223977624721587,
        -0.026866170645067026,
        0.11283791670954828,
        -0.3761263890318375,
        0.1283791670955126,
    ),
    far=(
        -1.541814250610392e-12,
        -1.2903804113321956e-11,
        -3.762860057808307e-11,
        -4.421453472401842e-11,
        1.9310950294547473e-10,
        1.1382009457798698e-10,
        1.16929300061058e-09,
        -1.3191510997499626e-09,
        -1.7481036950372665e-08,
        1.9597060414450895e-07,
        -1.5423869782147644e-06,
        1.0266076560636394e-05,
        -6.215369207978196e-05,
        0.00035445871326867816,
        -0.0019524143463781193,
        0.010693099524056074,
        1.381227891644344,
        9.094394186111582,
        15.466214597195506,
    ),
    middle=3.0,
    one=5.95,
    exp2=EXP_DOUBLE.exp2,
    scaled=(
        -4.248342206932175e-08,
        1.8371413553926254e-08,
        3.5258747234885396e-07,
        -9.204097161577348e-08,
        -2.134165237758362e-06,
        4.5320235359755556e-07,
        1.2908685653831752e-05,
        -6.568688261307762e-06,
        -8.124948103935564e-05,
        0.00011256059703946513,
        0.0004575717031404797,
        -0.001612686207671691,
        -0.00028131827842532383,
        0.015222970511098822,
        -0.05544087490784582,
        0.1202234794894314,
        -0.17846833634074108,
        0.17026124045434607,
        -0.04118517178633377,
        -0.2079170004125569,
        1.8712726698017461,
    ),
    centre=3.25,
    zero=27.3,
    inverse=(
        Piece(
            0.0,
            3.125,
            (
                3.3563796978331443e-21,
                -1.0518514057958771e-21,
                -3.565310916978614e-19,
                1.1466026425580527e-18,
                1.573659329875715e-17,
                -1.3008742008346418e-16,
                -4.256651028481721e-17,
                6.595301238967811e-15,
                -3.999218562940593e-14,
                -8.117471517869518e-14,
                2.6303671082545256e-12,
                -1.2976935477956724e-11,
                -5.4142432380726067e-11,
                1.051218326539132e-09,
                -4.112661886591723e-09,
                -2.907038263428168e-08,
                4.234788189593549e-07,
                -1.3654691845944896e-06,
                -1.3882523395707775e-05,
                0.0001867342080243489,
                -0.0007407025341539817,
                -0.006033670871427775,
                0.24015818242558826,
                1.6536545626831027,
            ),
        ),
        Piece(
            6.25,
            3.25,
            (
                -1.6199066417518964e-08,
                6.904728128827318e-10,
                1.3397834101846834e-07,
                -2.7132074950442875e-07,
                -3.0312112811530385e-08,
                1.498678903928387e-06,
                -3.984045388665259e-06,
                2.925753455253531e-06,
                1.2464420203504353e-05,
                -4.7318993764609065e-05,
                6.82872519364974e-05,
                2.4031259204714324e-05,
                -0.0003550378312718648,
                0.0009532893634700321,
                -0.0016882755342179526,
                0.0024914420969986027,
                -0.003751208508264113,
                0.005370914553571286,
                1.0052589676941657,
                3.0838856104922208,
            ),
        ),
        Piece(
            16.0,
            5.0,
            (
                3.399171723509599e-11,
                -2.829048560526707e-11,
                -3.9928637344218094e-10,
                1.5127151742727581e-09,
                -3.5389007669398604e-09,
                7.606982551137641e-09,
                -1.519223997348629e-08,
                2.9155688052557997e-08,
                -6.758913977134188e-08,
                2.2900107615740991e-07,
                -9.9301971517682e-07,
                4.5260635641582225e-06,
                -1.9681772178322453e-05,
                7.5995276910501e-05,
                -0.00021503011972893245,
                -0.00013871931833080113,
                1.0103004648645435,
                4.849906401408584,
            ),
        ),
    ),
)


def facts(x: Value) -> Error:
    """The coefficients and bounds for the type of ``x``."""
    return SINGLE if x.dtype == F32 else DOUBLE


def erf(k: Builder, x: Value) -> Value:
    """The error function: a polynomial up to 1, then 1 - 2**(a polynomial)."""
    table = facts(x)
    one, a = k.like(x, 1.0), k.abs(x)
    near = k.fma(k.horner(k.mul(x, x), table.near), x, x)
    inside = at_most(k, a, table.one)
    if table.middle:
        inside = k.sub(inside, k.like(x, table.middle))
    t = k.neg(k.horner(inside, table.far))
    n, bits = nearest(k, t)
    r = k.sub(t, n)
    rest = k.mul(k.fma(k.horner(r, table.exp2), r, one), power_of_two(k, bits, x))
    return k.select(k.lt(a, one), near, k.copysign(k.sub(one, rest), x))


def erfc(k: Builder, x: Value) -> Value:
    """1 - erf(x), on the right by e**(-x**2) so that small values keep their bits."""
    table = facts(x)
    one, two = k.like(x, 1.0), k.like(x, 2.0)
    near = k.sub(one, k.fma(k.horner(k.mul(x, x), table.near), x, x))
    a = at_most(k, k.abs(x), table.zero)
    centre = k.like(x, table.centre)
    t = k.div(k.sub(a, centre), k.add(a, centre))
    three, offset = k.like(x, 3.0), k.like(x, 1.5)
    below = k.fma(a, three, offset)
    ratio = k.div(k.horner(t, table.scaled), below)
    # what rounding took from the divisor d: ratio / d is about 0.55 ratio**2
    lost = k.fma(a, three, k.sub(offset, below))
    ratio = k.fma(k.mul(lost, ratio), k.mul(ratio, k.like(x, -0.55)), ratio)
    square, rest = two_product(k, a, a)
    p, tail, bits = parts_of_pair(k, k.neg(square), k.neg(rest))
    far = scale(k, k.fma(p, ratio, k.fma(tail, ratio, ratio)), bits)
    far = k.select(k.lt(x, k.like(x, 0.0)), k.sub(two, far), far)
    return k.select(k.lt(k.abs(x), k.like(x, 0.75)), near, far)


def erf_inv(k: Builder, x: Value) -> Value:
    """The inverse of erf: x times a function of w = -log(1 - x**2), in pieces (M. Giles, 2010)."""
    if x.dtype == F32:
        return erf_inv_single(k, x)
    w = k.neg(log(k, k.fma(k.neg(x), x, k.like(x, 1.0))))
    first, *others = facts(x).inverse
    y = k.horner(k.sub(w, k.like(x, first.centre)), first.coefficients)
    root = k.sqrt(w)
    for start, centre, coefficients in others:
        piece = k.horner(k.sub(root, k.like(x, centre)), coefficients)
        y = k.select(k.lt(w, k.like(x, start)), y, piece)
    end = k.eq(k.abs(x), k.like(x, 1.0))
    return k.select(end, k.copysign(k.like(x, math.inf), x), k.mul(x, y))
