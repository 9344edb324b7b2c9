"""Cases of the elementwise functions of ``numpy``."""

import numpy as np

from tests.differential.harness import (
    ALL,
    BOOLS,
    COMPLEX,
    FLOATS,
    INTS,
    NUMBERS,
    REAL,
    SMALL,
    Spec,
    Table,
)

table = Table("numpy")

# --- one argument ---------------------------------------------------------------------------------

WHOLE = INTS + SMALL
table.unary("negative positive conj conjugate real", dtypes=NUMBERS + SMALL[:1])
table.unary("abs absolute square", dtypes=REAL + SMALL[:1])
table.unary("abs absolute square", dtypes=COMPLEX, ulp=2, scaled=True)
table.unary("imag", dtypes=NUMBERS)
table.unary("isfinite isinf isnan logical_not iscomplex isreal", dtypes=ALL)
table.unary("isneginf isposinf signbit", dtypes=REAL)
table.unary("ceil floor trunc", dtypes=FLOATS + INTS)
table.unary("rint fabs", dtypes=FLOATS)
table.unary("sign", dtypes=FLOATS + INTS + ("uint8",))
table.unary("invert bitwise_not bitwise_invert", dtypes=WHOLE + BOOLS)
table.unary("bitwise_count", dtypes=WHOLE)
table.unary("exp expm1 sin cos", dtypes=FLOATS + INTS + ("float16",), ulp=2)
table.unary("exp2 tanh arctan atan arcsinh asinh cbrt", dtypes=FLOATS + INTS, ulp=3)
table.unary("sinh cosh tan", dtypes=FLOATS + INTS, ulp=4)
table.unary("log log2 log10 log1p", dtypes=FLOATS + INTS + ("uint8",), low=0.1, high=9, ulp=2)
table.unary("sqrt", dtypes=FLOATS + INTS + ("float16",), low=0, high=9, ulp=1)
table.unary("arcsin asin arccos acos arctanh atanh", dtypes=FLOATS, low=-1, high=1, ulp=4)
table.unary("arccosh acosh", dtypes=FLOATS, low=1, high=9, ulp=4)
table.unary("deg2rad radians rad2deg degrees", dtypes=FLOATS + INTS, low=-200, high=200, ulp=2)
table.unary("reciprocal", dtypes=FLOATS, ulp=1)
table.unary("sinc", dtypes=FLOATS + INTS, ulp=4, scaled=True)
table.unary("i0", dtypes=FLOATS, ulp=8, points=False)
table.unary("spacing", dtypes=FLOATS, points=False)
table.unary("nan_to_num", dtypes=FLOATS + INTS + COMPLEX)
table.unary("frexp", dtypes=FLOATS, dtype=False)
table.unary("modf", dtypes=FLOATS, dtype=False, points=False)
table.unary("round around", dtypes=FLOATS + INTS + COMPLEX)
table.unary("angle", dtypes=FLOATS + COMPLEX, ulp=4, points=False)
table.unary("exp sin cos sinh cosh", dtypes=COMPLEX, ulp=4, scaled=True, points=False)
table.unary(
    "tanh arctan arcsin arccos log sqrt square", dtypes=COMPLEX, ulp=8, scaled=True, points=False
)
table.unary("iscomplexobj isrealobj", dtypes=ALL, dtype=False, points=False)
for decimals in (-1, 1, 3):
    kinds = FLOATS + (INTS if decimals > 0 else ())
    table.options("round around", [{"decimals": decimals}], (2, 3), dtypes=kinds, high=400, ulp=2)
table.options(
    "nan_to_num",
    [{"nan": 7.0}, {"posinf": 2.0, "neginf": -2.0}, {"copy": True}],
    Spec((11,), make=lambda x: np.resize([np.nan, np.inf, -np.inf, 1.5], x.shape).astype(x.dtype)),
)
table.options("angle", [{"deg": True}], (2, 3), dtypes=FLOATS + COMPLEX, ulp=4)

# --- two arguments --------------------------------------------------------------------------------

table.binary("add", dtypes=ALL + SMALL)
table.binary("multiply", dtypes=REAL + BOOLS + SMALL)
table.binary("multiply divide", dtypes=COMPLEX, ulp=4, scaled=True)
table.binary("subtract", dtypes=NUMBERS + SMALL)
table.binary("equal not_equal logical_and logical_or logical_xor", dtypes=ALL)
table.binary("less less_equal greater greater_equal maximum minimum fmax fmin", dtypes=REAL + BOOLS)
table.binary("divide true_divide", dtypes=FLOATS, ulp=1)
table.binary("divide true_divide", dtypes=INTS + ("uint8",), low=1, ulp=1)
table.binary("arctan2 atan2", dtypes=FLOATS, ulp=4)
table.binary("hypot", dtypes=FLOATS, ulp=2)
table.binary("logaddexp logaddexp2", dtypes=FLOATS, ulp=4, scaled=True)
table.binary("copysign nextafter heaviside", dtypes=FLOATS)
table.binary("power pow float_power", dtypes=FLOATS, low=0.1, ulp=4)
table.binary("power pow", dtypes=INTS, low=0)
table.binary("floor_divide fmod", dtypes=FLOATS + INTS, low=1, high=9)
table.binary("remainder mod", dtypes=FLOATS + INTS + ("uint8",), low=1, high=9)
table.binary("divmod", dtypes=FLOATS + INTS, low=1, high=9)
for sign in ("floor_divide", "remainder", "fmod", "divmod"):
    table.add(
        sign,
        None,
        Spec((7,), low=-9, high=-1),
        Spec((7,), low=1, high=4),
        dtypes=FLOATS + INTS,
        label="negative",
    )
table.binary("gcd lcm", dtypes=INTS, low=-12, high=12)
table.binary("bitwise_and bitwise_or bitwise_xor", dtypes=INTS + SMALL + BOOLS)
table.binary(
    "left_shift right_shift bitwise_left_shift bitwise_right_shift", dtypes=WHOLE, low=0, high=5
)
table.binary("isclose", dtypes=FLOATS + INTS)
table.add(
    "ldexp", None, (2, 3), Spec((3,), dtype="int32"), dtypes=FLOATS, label="integer exponents"
)
table.options("isclose", [{"rtol": 0.5}, {"atol": 2.0}], (2, 3), (3,))
table.options(
    "isclose",
    [{"equal_nan": True}, {}],
    Spec((4,), make=lambda x: np.array([1, np.nan, np.inf, -np.inf], x.dtype)),
    Spec((4,), make=lambda x: np.array([1, np.nan, np.inf, np.inf], x.dtype)),
)
table.options("allclose array_equal array_equiv", [{}], (2, 3), (2, 3), dtypes=FLOATS + INTS)
table.add("allclose", lambda m, x: [m.allclose(x, x + 0)], (2, 3))
table.add("array_equal", lambda m, x: [m.array_equal(x, x), m.array_equal(x, x[:1])], (2, 3))
table.add("array_equiv", lambda m, x: [m.array_equiv(x[:1], x), m.array_equiv(x, x[0])], (2, 3))

# mixed dtypes promote as NumPy's do up to the width of floats
for first, second in (
    ("int8", "uint8"),
    ("uint8", "int32"),
    ("int32", "float32"),
    ("bool", "int8"),
    ("bool", "float32"),
    ("float32", "complex64"),
    ("float16", "float32"),
):
    table.add(
        "add multiply equal",
        None,
        Spec((2, 3), dtype=first),
        Spec((3,), dtype=second),
        label=f"{first} and {second}",
        dtypes=("promoted",),
        ulp=1,
        dtype=False,
    )

# --- three and more -------------------------------------------------------------------------------

table.options("clip", [{"min": 1, "max": 2}, {"min": 0}, {"max": 2}, {}], (2, 3), dtypes=REAL)
table.add("clip", lambda m, x, lo: m.clip(x, lo, lo + 1), (2, 3), (3,), dtypes=FLOATS + INTS)
table.add("where", None, Spec((2, 3), dtype="bool"), (2, 3), (3,), dtypes=ALL)
table.add("where", None, Spec((2, 1), dtype="bool"), (), (3,), dtypes=FLOATS)
table.add("where", None, Spec((0,), dtype="bool"), (0,), (1,), dtypes=FLOATS)
table.add("where", lambda m, c: m.where(c), Spec((2, 3), dtype="bool"), jit=False)
table.add(
    "select",
    lambda m, x: m.select([x < -1, x > 1], [x, 2 * x], default=x[0, 0]),
    (3, 4),
    dtypes=FLOATS + INTS,
)
table.add(
    "piecewise",
    lambda m, x: m.piecewise(x, [x < -1, x > 1], [lambda v: -v, lambda v: 2 * v, lambda v: v * 0]),
    (3, 4),
)
table.add(
    "choose",
    lambda m, i, x: [m.choose(i, [x, x + 1, x + 2]), m.choose(i, [x, x + 9], mode="clip")],
    Spec((2, 3), dtype="int32", low=0, high=2),
    (2, 3),
    jit=False,
)
table.add(
    "choose",
    lambda m, i, x: m.choose(i, [x, x + 9], mode="wrap"),
    Spec((2, 3), dtype="int32", low=0, high=5),
    (2, 3),
)
