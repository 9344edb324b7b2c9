"""The error function and its relatives, for float32 and float64.

Coefficients are fits of tools/fit.py, highest power first.
"""

from __future__ import annotations

import math

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.math_erf_inv import erf_inv_single
from weft.kernel.math_exponential import parts_of_pair
from weft.kernel.math_logarithm import log
from weft.kernel.math_parts import at_most, scale, two_product
from weft.kernel.nodes import F32, Value


class Piece(Record):
    """A polynomial in w - centre or, past the first piece, sqrt(w) - centre."""

    start: float  # of w
    centre: float
    coefficients: tuple[float, ...]


class Error(Record):
    """Coefficients and bounds of one floating type."""

    near: tuple[float, ...]  # erf(x) / x - 1 in x**2, up to ``start``
    far: tuple[float, ...]  # erfc(x)**(1/4) in x - middle, from ``start`` to ``one``
    start: float
    middle: float
    one: float  # beyond, erf is 1
    scaled: tuple[float, ...]  # (3 x + 3/2) e**(x**2) erfc(x) in (x - centre) / (x + centre)
    centre: float
    zero: float  # beyond, erfc is 0
    inverse: tuple[Piece, ...]  # erf_inv(x) / x in pieces of w = -log(1 - x**2)


SINGLE = Error(
    near=(
        7.235925295390189e-05,
        -0.0007824710919521749,
        0.005167729686945677,
        -0.026843518018722534,
        0.11283364146947861,
        -0.37612611055374146,
        0.12837916612625122,
    ),
    far=(
        -0.00017560581909492612,
        0.0031799732241779566,
        -0.021896453574299812,
        0.0651143342256546,
        -0.04859737679362297,
        -0.06549275666475296,
        -0.307549387216568,
        1.0051875114440918,
    ),
    start=1.1,
    middle=0.0,
    one=4.0,
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
        -2.548175608326667e-15,
        -4.1690775822484476e-14,
        4.098895288608744e-14,
        2.0726172489394774e-12,
        -4.15991778605323e-12,
        -6.044398607072371e-11,
        3.055148015578756e-10,
        9.818804804786576e-10,
        -1.2215188993432629e-08,
        9.118690788183382e-09,
        2.9779510774412894e-07,
        -1.1413131322560347e-06,
        -3.198632962733186e-06,
        3.3306836581091595e-05,
        -4.391547607345939e-05,
        -0.00041100403878104947,
        0.0018877336010089357,
        -0.000569779633141706,
        -0.018989110228451667,
        0.0687243751059825,
        -0.10804150263715351,
        0.06855693161083354,
    ),
    start=1.0,
    middle=3.0,
    one=5.95,
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
    """The error function: a polynomial at first, then 1 less the fourth power of another.

    That power has but a small part in the result: its roundings hardly show.
    """
    table = facts(x)
    one, a = k.like(x, 1.0), k.abs(x)
    near = k.fma(k.horner(k.mul(x, x), table.near), x, x)
    inside = at_most(k, a, table.one)
    if table.middle:
        inside = k.sub(inside, k.like(x, table.middle))
    root = k.horner(inside, table.far)
    square = k.mul(root, root)
    far = k.copysign(k.fma(k.neg(square), square, one), x)
    return k.select(k.lt(a, k.like(x, table.start)), near, far)


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
