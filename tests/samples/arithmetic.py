"""Samples of elementwise arithmetic, comparison, logic and selection."""

import numpy as np

from tests.samples import (
    ANY,
    BITS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    INTS,
    NUMBERS,
    ORDERED,
    Sample,
    away,
    between,
    fixed,
    normal,
    whole,
)
from weft import lax

ONE = {"matrix": (2, 3), "scalar": (), "empty": (0, 3)}
TWO = {
    "equal": ((2, 3), (2, 3)),
    "left_scalar": ((), (2, 3)),
    "right_scalar": ((2, 3), ()),
    "stretched": ((1, 3), (2, 1)),
    "scalars": ((), ()),
    "empty": ((0, 3), (0, 3)),
}
BOTH = ((0,), (1,))
SMALL = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4")

# name: operand, dtypes, whether it is linear
UNARY = {
    "neg": (normal, (*NUMBERS, "float8_e4m3fn"), True),
    "square": (normal, NUMBERS, False),
    "abs": (lambda *s: away(0.1, *s), (*FLOATS, *COMPLEX, *INTS), False),
    "floor": (normal, FLOATS, False),
    "ceil": (normal, FLOATS, False),
    "is_finite": (normal, FLOATS, False),
    "not": (normal, BITS, False),
    "population_count": (normal, INTEGERS, False),
    "clz": (normal, INTEGERS, False),
    "real": (normal, COMPLEX, True),
    "imag": (normal, COMPLEX, True),
}
BINARY = {
    "add": (normal, normal, (*NUMBERS, *SMALL), (*BOTH, (0, 1))),
    "sub": (normal, normal, NUMBERS, (*BOTH, (0, 1))),
    "div": (normal, lambda *s: away(0.5, *s), NUMBERS, ((0,),)),
    "rem": (normal, lambda *s: away(0.5, *s), (*FLOATS, *INTEGERS), ()),
    "max": (normal, normal, ANY, ()),
    "min": (normal, normal, ANY, ()),
    "eq": (normal, normal, ANY, ()),
    "ne": (normal, normal, ANY, ()),
    "ge": (normal, normal, ORDERED, ()),
    "gt": (normal, normal, ORDERED, ()),
    "le": (normal, normal, ORDERED, ()),
    "lt": (normal, normal, ORDERED, ()),
    "eq_to": (normal, normal, ANY, ()),
    "le_to": (normal, normal, ORDERED, ()),
    "lt_to": (normal, normal, ORDERED, ()),
    "and": (normal, normal, BITS, ()),
    "or": (normal, normal, BITS, ()),
    "xor": (normal, normal, BITS, ()),
    "mulhi": (normal, normal, INTEGERS, ()),
    "shift_left": (normal, lambda *s: between(0, 2, *s), INTEGERS, ()),
    "shift_right_logical": (normal, lambda *s: between(0, 2, *s), INTEGERS, ()),
    "shift_right_arithmetic": (normal, lambda *s: between(0, 2, *s), INTEGERS, ()),
    "nextafter": (normal, normal, FLOATS, ()),
    "complex": (normal, normal, ("float32", "float64"), (*BOTH, (0, 1))),
}
NAN = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]

SAMPLES = [
    Sample(
        name=f"{prim}_{label}",
        prim=prim,
        args=[operand(*shape)],
        dtypes=dtypes,
        linear=((0,),) if linear else (),
    )
    for prim, (operand, dtypes, linear) in UNARY.items()
    for label, shape in ONE.items()
]
SAMPLES += [
    Sample(
        name=f"{prim}_{label}",
        prim=prim,
        args=[left(*shapes[0]), right(*shapes[1])],
        dtypes=dtypes,
        linear=linear,
    )
    for prim, (left, right, dtypes, linear) in BINARY.items()
    for label, shapes in TWO.items()
]
SAMPLES += [
    Sample(
        name=f"mul_{label}",
        prim="mul",
        args=[normal(*left), normal(*right)],
        params={"out_dtype": None},
        dtypes=(*NUMBERS, "float8_e5m2", "int4"),
        linear=BOTH,
    )
    for label, (left, right) in TWO.items()
]
SAMPLES += [
    Sample(
        name="mul_to_float32",
        prim="mul",
        args=[normal(2, 3), normal(2, 3)],
        params={"out_dtype": np.dtype(np.float32)},
        dtypes=("bfloat16", "float16"),
        linear=BOTH,
    ),
    Sample(
        name="add_any",
        prim="add_any",
        args=[normal(2, 3), normal(2, 3)],
        dtypes=NUMBERS,
        linear=(*BOTH, (0, 1)),
    ),
    Sample(
        name="max_ties",
        prim="max",
        args=[fixed([1.0, 2.0, 2.0]), fixed([1.0, 2.0, 3.0])],
        dtypes=FLOATS,
        differentiable=False,
        notes="at ties each operand has half of the tangent, which is no limit of differences",
    ),
    Sample(
        name="sign_real",
        prim="sign",
        args=[away(0.1, 2, 3)],
        dtypes=(*FLOATS, *INTEGERS),
    ),
    Sample(
        name="sign_complex",
        prim="sign",
        args=[away(0.1, 2, 3)],
        dtypes=COMPLEX,
        differentiable=False,
        notes="the tangent is zero, as in JAX, although x/|x| turns",
    ),
]
SAMPLES += [
    Sample(
        name=f"{prim}_extremes",
        prim=prim,
        args=[fixed(NAN), fixed(NAN[::-1])],
        dtypes=FLOATS,
        wrt=(),
        notes="infinities and NaN have no differences",
    )
    for prim in ("max", "min", "eq", "lt", "le", "ge", "eq_to", "lt_to", "le_to", "rem", "div")
]
SAMPLES += [
    Sample(
        name=f"{prim}_far",
        prim=prim,
        args=[whole(0, 100, 3, 3), whole(0, 70, 3, 3)],
        dtypes=INTEGERS,
    )
    for prim in ("shift_left", "shift_right_logical", "shift_right_arithmetic")
]
SAMPLES += [
    Sample(
        name=f"{prim}_by_zero",
        prim=prim,
        args=[whole(0, 9, 3), fixed([0, 0, 1])],
        dtypes=INTEGERS,
    )
    for prim in ("div", "rem")
]
SAMPLES += [
    Sample(
        name=f"round_{label}",
        prim="round",
        args=[normal(2, 3)],
        params={"rounding_method": method},
        dtypes=FLOATS,
    )
    for label, method in (
        ("away", lax.RoundingMethod.AWAY_FROM_ZERO),
        ("even", lax.RoundingMethod.TO_NEAREST_EVEN),
    )
]
SAMPLES += [
    Sample(
        name=f"integer_pow_{'minus_' if y < 0 else ''}{abs(y)}",
        prim="integer_pow",
        args=[away(0.3, 2, 3)],
        params={"y": y},
        dtypes=(*FLOATS, *COMPLEX, *(INTEGERS if y >= 0 else ())),
        tol=16,
        notes="one rounding for each of up to |y| products",
    )
    for y in (-3, -1, 0, 1, 2, 3, 7)
]
SAMPLES += [
    Sample(
        name=f"conj_{label}",
        prim="conj",
        args=[normal(2, 3)],
        params=lambda dtype: {"input_dtype": dtype},
        dtypes=dtypes,
        linear=((0,),),
    )
    for label, dtypes in (("complex", COMPLEX), ("real", ("float32", "float64")))
]


def predicate(*shape):
    return lambda rng: rng.integers(0, 2, shape).astype(np.bool_)


SAMPLES += [
    Sample(
        name=f"select_n_{label}",
        prim="select_n",
        args=[which, *(normal(*shape) for _ in range(count))],
        dtypes=ANY,
        linear=tuple((i + 1,) for i in range(count)) + (tuple(range(1, count + 1)),),
    )
    for label, which, shape, count in (
        ("two", predicate(2, 3), (2, 3), 2),
        ("scalar_predicate", predicate(), (2, 3), 2),
        ("three", whole(0, 3, 2, 3, dtype=np.int32), (2, 3), 3),
        ("scalar", predicate(), (), 2),
        ("one", fixed(np.zeros((2,)), np.int32), (2,), 1),
        ("empty", predicate(0, 3), (0, 3), 2),
    )
]
SAMPLES += [
    # numbers that were not taken are zeros in a program; back through others there is no derivative
    Sample(
        name=f"zero_untaken_{label}",
        prim="zero_untaken",
        args=[live, normal(*shape)],
        dtypes=(*FLOATS, *COMPLEX),
        reverse=linear,
        linear=((1,),) if linear else (),
    )
    for label, live, shape, linear in (
        ("each", predicate(2, 3), (2, 3), False),
        ("taken", fixed(np.ones((2, 3), bool)), (2, 3), True),
        ("one_for_all", predicate(), (2, 3), False),
        ("scalar", fixed(True), (), True),
    )
]
SAMPLES += [
    Sample(
        name=f"clamp_{label}",
        prim="clamp",
        args=[between(-1.5, -0.2, *low), normal(2, 3), between(0.3, 1.5, *high)],
        dtypes=ORDERED,
    )
    for label, low, high in (
        ("full", (2, 3), (2, 3)),
        ("scalars", (), ()),
        ("mixed", (2, 3), ()),
        ("low_scalar", (), (2, 3)),
    )
]
SAMPLES += [
    Sample(
        name="stop_gradient",
        prim="stop_gradient",
        args=[normal(2, 3)],
        dtypes=ANY,
        differentiable=False,
        notes="its derivative is zero by definition",
    )
]
