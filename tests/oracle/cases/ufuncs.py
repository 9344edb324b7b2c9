"""Elementwise functions of ``numpy`` and the promotion of dtypes and Python scalars."""

import operator
from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, EXACT, VALUE, Adder, Tol, call, dtype, family, is_inexact

# name: (lo, hi, ulp, takes complex)
UNARY: dict[str, tuple[float, float, float, bool]] = {
    "abs": (-4, 4, 2, True),
    "absolute": (-4, 4, 2, True),
    "fabs": (-4, 4, 0, False),
    "negative": (-4, 4, 0, True),
    "positive": (-4, 4, 0, True),
    "sign": (-4, 4, 2, True),
    "floor": (-4, 4, 0, False),
    "ceil": (-4, 4, 0, False),
    "trunc": (-4, 4, 0, False),
    "rint": (-4, 4, 0, False),
    "round": (-4, 4, 0, False),
    "exp": (-4, 4, 2, True),
    "exp2": (-4, 4, 4, True),
    "expm1": (-3, 3, 4, True),
    "log": (0.1, 4, 4, True),
    "log2": (0.1, 4, 8, True),
    "log10": (0.1, 4, 8, True),
    "log1p": (-0.7, 4, 4, True),
    "sqrt": (0.1, 9, 2, True),
    "cbrt": (-9, 9, 4, False),
    "square": (-4, 4, 1, True),
    "reciprocal": (0.5, 4, 3, True),
    "sin": (-9, 9, 4, True),
    "cos": (-9, 9, 4, True),
    "tan": (-1.4, 1.4, 6, True),
    "arcsin": (-0.95, 0.95, 8, True),
    "arccos": (-0.95, 0.95, 8, True),
    "arctan": (-5, 5, 4, True),
    "sinh": (-3, 3, 8, True),
    "cosh": (-3, 3, 8, True),
    "tanh": (-3, 3, 8, True),
    "arcsinh": (-5, 5, 8, True),
    "arccosh": (1.1, 6, 8, True),
    "arctanh": (-0.9, 0.9, 8, True),
    "sinc": (0.2, 3, 16, False),
    "deg2rad": (-400, 400, 2, False),
    "rad2deg": (-4, 4, 2, False),
    "degrees": (-4, 4, 2, False),
    "radians": (-400, 400, 2, False),
    "signbit": (-4, 4, 0, False),
    "isnan": (-4, 4, 0, True),
    "isinf": (-4, 4, 0, True),
    "isfinite": (-4, 4, 0, True),
    "isposinf": (-4, 4, 0, False),
    "isneginf": (-4, 4, 0, False),
    "logical_not": (-4, 4, 0, True),
    "conj": (-4, 4, 0, True),
    "conjugate": (-4, 4, 0, True),
    "real": (-4, 4, 0, True),
    "imag": (-4, 4, 0, True),
    "angle": (-4, 4, 8, True),
    "nan_to_num": (-4, 4, 0, True),
    "spacing": (-4, 4, 0, False),
    "frexp": (-4, 4, 0, False),
    "modf": (-4, 4, 0, False),
    "i0": (-4, 4, 32, False),
    "bitwise_not": (0, 0, 0, False),
    "invert": (0, 0, 0, False),
    "bitwise_count": (0, 0, 0, False),
}
BITS = ("bitwise_not", "invert", "bitwise_count")


@family("jnp_unary", Tol(8))
def unary(add: Adder) -> None:
    """Unary ufuncs over dtypes, integers and booleans promoted."""
    for name, (lo, hi, ulp, has_complex) in UNARY.items():
        floats = () if name in BITS else ("f32", "f64", "bf16") + (("c64",) if has_complex else ())
        for d in floats:
            key = f"{name}/{d}"
            x = add.rng(key).f((2, 3), d, lo, hi)
            spread = 4 if d == "c64" else 1
            tol = Tol(min(ulp, 2) if d == "bf16" else ulp * spread)
            add(key, call(f"jnp.{name}"), [x], modes=ALL, tol=tol)
        for d in ("i32", "u8", "bool", "i64"):
            x = np.array([1, 2, 1, 3]).astype(dtype(d))
            if name in ("arcsin", "arccos", "arctanh"):
                x = np.array([0, 1, 1, 0]).astype(dtype(d))
            tol = Tol(ulp * 2)
            add(f"{name}/{d}", call(f"jnp.{name}"), [x], modes=VALUE, tol=tol, error="maybe")
        for label, value in (("int", 2), ("float", 0.5), ("bool", True), ("complex", 1 + 0.5j)):
            fn = lambda J, name=name, value=value: getattr(J.jnp, name)(value)
            add(f"{name}/py_{label}", fn, tol=Tol(max(ulp * 4, 4) if ulp else 0), error="maybe")


BINARY: dict[str, tuple[str, float, float, float]] = {
    "add": ("bifc", -4, 4, 0),
    "subtract": ("ifc", -4, 4, 0),
    "multiply": ("bifc", -4, 4, 0),
    "divide": ("bifc", 0.5, 4, 3),
    "true_divide": ("if", 0.5, 4, 3),
    "floor_divide": ("if", 0.5, 4, 0),
    "remainder": ("if", 0.5, 4, 1),
    "mod": ("if", 0.5, 4, 1),
    "fmod": ("if", 0.5, 4, 1),
    "divmod": ("if", 0.5, 4, 1),
    "power": ("ifc", 0.3, 3, 8),
    "float_power": ("if", 0.3, 3, 8),
    "maximum": ("bifc", -4, 4, 0),
    "minimum": ("bifc", -4, 4, 0),
    "fmax": ("if", -4, 4, 0),
    "fmin": ("if", -4, 4, 0),
    "arctan2": ("if", -3, 3, 6),
    "hypot": ("if", -3, 3, 4),
    "logaddexp": ("f", -3, 3, 16),
    "logaddexp2": ("f", -3, 3, 16),
    "copysign": ("if", -3, 3, 0),
    "nextafter": ("f", -3, 3, 0),
    "heaviside": ("f", -3, 3, 0),
    "ldexp": ("x", -3, 3, 0),
    "equal": ("bifc", -1, 1, 0),
    "not_equal": ("bifc", -1, 1, 0),
    "less": ("bifc", -1, 1, 0),
    "less_equal": ("bifc", -1, 1, 0),
    "greater": ("bifc", -1, 1, 0),
    "greater_equal": ("bifc", -1, 1, 0),
    "logical_and": ("bifc", -1, 1, 0),
    "logical_or": ("bifc", -1, 1, 0),
    "logical_xor": ("bifc", -1, 1, 0),
    "bitwise_and": ("bi", -4, 4, 0),
    "bitwise_or": ("bi", -4, 4, 0),
    "bitwise_xor": ("bi", -4, 4, 0),
    "left_shift": ("i", 0, 2, 0),
    "right_shift": ("i", 0, 2, 0),
    "gcd": ("i", -4, 4, 0),
    "lcm": ("i", -4, 4, 0),
    "isclose": ("if", -1, 1, 0),
}
KINDS = {
    "b": ("bool",),
    "i": ("i32", "u8", "i8", "u32"),
    "f": ("f32", "f64", "bf16"),
    "c": ("c64",),
    "x": (),
}
SHAPES = {
    "same": ((2, 3), (2, 3)),
    "row": ((2, 3), (3,)),
    "outer": ((2, 1), (3,)),
    "scalar": ((), (2,)),
}


@family("jnp_binary", Tol(4))
def binary(add: Adder) -> None:
    """Binary ufuncs over dtypes and broadcasting, with both derivatives."""
    for name, (kinds, lo, hi, ulp) in BINARY.items():
        for d in (d for kind in kinds for d in KINDS[kind]):
            for label, (left, right) in SHAPES.items():
                if label != "same" and d not in ("f32", "i32"):
                    continue
                key = f"{name}/{d}/{label}"
                rng = add.rng(key)
                x, y = rng.any(left, d, lo, hi), rng.any(right, d, lo, hi)
                if not is_inexact(y.dtype) and d != "bool" and lo > 0:
                    y = np.where(y == 0, 2, np.abs(y)).astype(y.dtype)
                modes = ALL if is_inexact(x.dtype) else BATCH
                tol = Tol(min(ulp, 2) if d == "bf16" else ulp * (4 if d == "c64" else 1))
                if d == "c64" and name in ("multiply",):
                    tol = Tol(4)
                add(key, call(f"jnp.{name}"), [x, y], modes=modes, tol=tol, error="maybe")
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.inf, -np.inf, np.nan]
    x, y = (a.ravel().astype(np.float32) for a in np.meshgrid(values, values))
    for name in (
        "floor_divide",
        "remainder",
        "fmod",
        "power",
        "maximum",
        "fmax",
        "fmin",
        "hypot",
        "arctan2",
        "logaddexp",
        "logaddexp2",
        "copysign",
        "heaviside",
        "float_power",
    ):
        add(f"{name}/points", call(f"jnp.{name}"), [x, y], tol=Tol(8, "logadd" in name))
    edges = np.array([-128, 127, 0, 1, -1, 5, -7], np.int8)
    x, y = (a.ravel() for a in np.meshgrid(edges, edges))
    for name in ("floor_divide", "remainder", "fmod", "power", "add", "multiply", "divide"):
        add(f"{name}/int8_edges", call(f"jnp.{name}"), [x, y], tol=Tol(2))
    i = np.array([-2, 0, 3], np.int32)
    add("ldexp/f32", call("jnp.ldexp"), [np.array([1.5, -2, 0.1], np.float32), i], modes=VALUE)
    add("clip", call("jnp.clip", -1.0, 1.0), [add.rng("clip").f((5,))], modes=ALL)
    add("clip/int", call("jnp.clip", 1, 3), [np.arange(5)], modes=BATCH)
    add(
        "where",
        call("jnp.where"),
        [np.array([True, False]), np.array([1, 2.0], np.float32), np.array([3], np.int32)],
        modes=ALL,
    )
    for base in (0.0, 1.0, 2.0, -2.0):
        for power in (0, 1, 2, 3, -1, 0.5, 2.0):
            x = np.array([base], np.float32)
            fn = lambda J, x, p=power: x**p
            add(f"power/{base:g}**{power}", fn, [x], modes=DIFF, tol=Tol(8))
    x = np.array([-1.0, 0.0, 4.0], np.float32)
    safe = lambda J, x: J.jnp.where(x > 0, J.jnp.sqrt(J.jnp.where(x > 0, x, 1.0)), 0.0)
    unsafe = lambda J, x: J.jnp.where(x > 0, J.jnp.sqrt(x), 0.0)
    add("where/safe_sqrt", safe, [x], modes=DIFF)
    add("where/unsafe_sqrt", unsafe, [x], modes=DIFF)


OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "lt": operator.lt,
    "eq": operator.eq,
    "and": operator.and_,
    "lshift": operator.lshift,
    "matmul": operator.matmul,
}
TYPES = ("bool", "u8", "u16", "u32", "i8", "i16", "i32", "bf16", "f16", "f32", "c64")
WIDE = ("u64", "i64", "f64", "c128")
SCALARS: dict[str, Any] = {"bool": True, "int": 3, "float": 1.5, "complex": 2 + 1j}


@family("promotion", Tol(4))
def promotion(add: Adder) -> None:
    """Operators between arrays of all dtypes, weak arrays and Python scalars."""
    for left in (*TYPES, *WIDE):
        for right in (*TYPES, *WIDE):
            wide = left in WIDE or right in WIDE
            names = ("add", "mul", "truediv", "pow", "lt", "and") if not wide else ("add", "pow")
            for name in names:
                pair(add, name, left, right)
    for d in (*TYPES, *WIDE):
        for label, value in SCALARS.items():
            for name, op in OPERATORS.items():
                if name in ("and", "lshift", "matmul") or (
                    d in WIDE and name in ("mod", "eq", "lt")
                ):
                    continue
                x = np.array([1, 2, 1]).astype(dtype(d))
                right = lambda J, x, op=op, v=value: op(x, v)
                left_fn = lambda J, x, op=op, v=value: op(v, x)
                add(f"scalar/{name}/{d}/{label}", right, [x], error="maybe")
                add(f"scalar_left/{name}/{label}/{d}", left_fn, [x], error="maybe")
    weak(add)


def pair(add: Adder, name: str, left: str, right: str) -> None:
    op = OPERATORS[name]
    x = np.array([1, 2, 1]).astype(dtype(left))
    y = np.array([1, 1, 2]).astype(dtype(right))
    add(f"{name}/{left}/{right}", lambda J, x, y: op(x, y), [x, y], error="maybe")


def weak(add: Adder) -> None:
    """Weakly typed arrays among themselves and with others; NumPy scalars; result_type."""
    for a_name, a in SCALARS.items():
        for b_name, b in SCALARS.items():
            for name in ("add", "mul", "truediv", "pow"):
                op = OPERATORS[name]
                for x64 in (False, True):
                    fn = lambda J, a=a, b=b, op=op: op(J.jnp.asarray(a), b)
                    key = f"weak/{name}/{a_name}/{b_name}/{'x64' if x64 else 'x32'}"
                    add(key, fn, x64=x64, error="maybe")
        for d in TYPES:
            fn = lambda J, a=a, d=d: J.jnp.asarray(a) + J.jnp.ones(2, dtype(d))
            add(f"weak_array/{a_name}/{d}", fn)
            fn = lambda J, a=a, d=d: str(J.jnp.result_type(a, dtype(d)))
            add(f"result_type/{a_name}/{d}", fn)
            fn = lambda J, a=a, d=d: J.jnp.ones(2, dtype(d)) * dtype(d).type(1) + a
            add(f"numpy_scalar/{a_name}/{d}", fn)
    everything = (*TYPES, *WIDE)
    for left in everything:
        for right in everything:
            fn = lambda J, a=left, b=right: str(J.jnp.promote_types(dtype(a), dtype(b)))
            add(f"promote_types/{left}/{right}", fn, x64=True)
    for a in ("f8e4", "f8e5", "i4", "u4", "bf16", "f32"):
        for b in ("f8e4", "f8e5", "i4", "u4", "bf16", "f32"):
            fn = lambda J, a=a, b=b: str(J.jnp.promote_types(dtype(a), dtype(b)))
            add(f"promote_small/{a}/{b}", fn, error="maybe")


@family("python_operators", Tol(4))
def operators(add: Adder) -> None:
    """Every operator of an array with derivatives: arrays, reflected, NumPy on the other side."""
    table: dict[str, Any] = {
        "neg": lambda x, y: -x,
        "pos": lambda x, y: +x,
        "abs": lambda x, y: abs(x),
        "round": lambda x, y: round(x),
        "round1": lambda x, y: round(x, 1),
        "add": lambda x, y: x + y,
        "radd": lambda x, y: 2 + x,
        "sub": lambda x, y: x - y,
        "rsub": lambda x, y: 2 - x,
        "mul": lambda x, y: x * y,
        "rmul": lambda x, y: 2.5 * x,
        "truediv": lambda x, y: x / y,
        "rtruediv": lambda x, y: 2 / x,
        "floordiv": lambda x, y: x // y,
        "rfloordiv": lambda x, y: 3 // x,
        "mod": lambda x, y: x % y,
        "rmod": lambda x, y: 3 % x,
        "divmod": lambda x, y: divmod(x, y),
        "rdivmod": lambda x, y: divmod(3, x),
        "pow": lambda x, y: x**y,
        "rpow": lambda x, y: 2**x,
        "square": lambda x, y: x**2,
        "inverse_square": lambda x, y: x**-2,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > 1,
        "ge": lambda x, y: x >= 1,
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "numpy_left": lambda x, y: np.float32(2) * x,
        "numpy_array": lambda x, y: np.arange(3, dtype=np.float32) - x,
        "list_free": lambda x, y: x[None] * y[:, None],
        "matmul": lambda x, y: x @ y,
        "chain": lambda x, y: (x + 1) * (y - 2) / (x * x + 1),
        "augmented": lambda x, y: sum([x, y, x * y]),
    }
    for name, op in table.items():
        for d in ("f32", "f64", "bf16", "i32"):
            rng = add.rng(name + d)
            x, y = rng.any((3,), d, 0.5, 3), rng.any((3,), d, 0.5, 3)
            if d == "i32":
                x, y = np.array([1, 2, 5], np.int32), np.array([2, 1, 3], np.int32)
            fn = lambda J, x, y, op=op: op(x, y)
            modes = ALL if d != "i32" else BATCH
            tol = Tol(16, True) if name in ("chain", "matmul") else None
            add(f"{name}/{d}", fn, [x, y], modes=modes, tol=tol, error="maybe")
    bits: dict[str, Any] = {
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "invert": lambda x, y: ~x,
        "lshift": lambda x, y: x << 2,
        "rshift": lambda x, y: x >> 1,
        "rlshift": lambda x, y: 1 << x,
        "rrshift": lambda x, y: 64 >> x,
        "rand": lambda x, y: 3 & x,
        "ror": lambda x, y: 3 | x,
        "rxor": lambda x, y: 3 ^ x,
    }
    for name, op in bits.items():
        for d in ("i32", "u8", "bool", "i8"):
            x, y = np.array([1, 0, 3]).astype(dtype(d)), np.array([1, 2, 0]).astype(dtype(d))
            fn = lambda J, x, y, op=op: op(x, y)
            add(f"{name}/{d}", fn, [x, y], modes=BATCH, tol=EXACT, error="maybe")
