"""Elementwise functions of ``lax``: values on a spread and at hard points, rules, dtypes."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, EXACT, VALUE, Adder, Tol, call, dtype, family, is_inexact
from ..table import shape_name as sn

REAL = ("f32", "f64", "f16", "bf16")
COMPLEX = ("c64", "c128")
INT = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")

# name: (lo, hi, complex too, allowed ulp in value)
UNARY = {
    "exp": (-4, 4, True, 2),
    "exp2": (-4, 4, True, 3),
    "expm1": (-3, 3, True, 4),
    "log": (0.1, 4, True, 4),
    "log1p": (-0.7, 4, True, 4),
    "sqrt": (0.1, 9, True, 2),
    "rsqrt": (0.1, 9, True, 4),
    "cbrt": (-9, 9, False, 4),
    "sin": (-9, 9, True, 4),
    "cos": (-9, 9, True, 4),
    "tan": (-1.4, 1.4, True, 6),
    "asin": (-0.95, 0.95, True, 6),
    "acos": (-0.95, 0.95, True, 6),
    "atan": (-5, 5, True, 4),
    "sinh": (-3, 3, True, 8),
    "cosh": (-3, 3, True, 8),
    "tanh": (-3, 3, True, 8),
    "asinh": (-5, 5, True, 8),
    "acosh": (1.1, 6, True, 8),
    "atanh": (-0.9, 0.9, True, 16),
    "logistic": (-6, 6, True, 8),
    "erf": (-2.5, 2.5, False, 6),
    "erfc": (-2, 3, False, 16),
    "erf_inv": (-0.95, 0.95, False, 16),
    "lgamma": (0.3, 9, False, 32),
    "digamma": (0.3, 9, False, 32),
    "bessel_i0e": (-9, 9, False, 16),
    "bessel_i1e": (-9, 9, False, 16),
    "square": (-4, 4, True, 1),
    "reciprocal": (0.5, 4, True, 3),
    "neg": (-4, 4, True, 0),
    "abs": (-4, 4, True, 2),
    "sign": (-4, 4, True, 2),
    "floor": (-4, 4, False, 0),
    "ceil": (-4, 4, False, 0),
    "round": (-4, 4, False, 0),
    "is_finite": (-4, 4, False, 0),
    "real": (-4, 4, "only", 0),
    "imag": (-4, 4, "only", 0),
    "conj": (-4, 4, "only", 0),
}
# These cross zero inside the range, where JAX keeps absolute accuracy only.
ROOTS = ("lgamma", "digamma")
INTEGER_UNARY = ("neg", "abs", "sign", "square", "bitwise_not", "population_count", "clz")
SHAPES = ((5,), (2, 3), ())


def coarse(tol: float, d: str, scale: bool = False) -> Tol:
    """Half-width types are computed wide and rounded once: one unit, and one more for JAX's."""
    return Tol(min(tol, 2.0) if d in ("f16", "bf16") and tol else tol, scale)


@family("lax_unary", Tol(4))
def unary(add: Adder) -> None:
    """Every unary function of lax over its dtypes, with derivatives and batching."""
    for name, (lo, hi, has_complex, ulp) in UNARY.items():
        kinds = (() if has_complex == "only" else REAL) + (COMPLEX if has_complex else ())
        for d in kinds:
            complex_ulp = ulp * 4 if d in COMPLEX and ulp else ulp
            for shape in SHAPES:
                key = f"{name}/{d}/{sn(shape)}"
                x = add.rng(key).f(shape, d, lo, hi)
                modes = ALL if shape != () else ("value", "jit", "jvp", "vjp")
                if d in ("f16", "bf16") and shape != (5,):
                    continue
                add(
                    key,
                    call(f"lax.{name}"),
                    [x],
                    modes=modes,
                    tol=coarse(complex_ulp, d, name in ROOTS),
                )


@family("lax_unary_integer")
def unary_integer(add: Adder) -> None:
    """Unary functions of integers and booleans, the extremes of each type included."""
    for name in INTEGER_UNARY:
        for d in (*INT, "bool"):
            if d == "bool" and name != "bitwise_not":
                continue
            info = np.iinfo(dtype(d)) if d != "bool" else None
            spread = add.rng(f"{name}/{d}").i((6,), d)
            edges = spread if info is None else np.array([info.min, info.max, 0, 1], dtype(d))
            for label, x in (("spread", spread), ("edges", edges)):
                add(f"{name}/{d}/{label}", call(f"lax.{name}"), [x], modes=BATCH, error="maybe")


INF, NAN = np.inf, np.nan
POINTS = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        INF,
        -INF,
        NAN,
        1e-5,
        -1e-5,
        1e-3,
        30.0,
        -30.0,
        88.0,
        -88.0,
        100.0,
        -100.0,
        1e4,
        -1e4,
        3.1415927,
        1.5707964,
        0.999,
        -0.999,
        1.001,
        12.5,
    ]
)


@family("lax_unary_points", Tol(4))
def unary_points(add: Adder) -> None:
    """Zeros of both signs, infinities, NaN, ends of domains, large and tiny arguments."""
    for name, (_, _, has_complex, ulp) in UNARY.items():
        if has_complex == "only":
            continue
        for d in REAL:
            # JAX's exp2 is exp(x log 2): its error grows with the argument.
            kept = np.abs(POINTS) < 8 if name == "exp2" else np.ones(POINTS.shape, bool)
            points = POINTS[kept | ~np.isfinite(POINTS)].astype(dtype(d))
            add(f"{name}/{d}", call(f"lax.{name}"), [points], tol=coarse(ulp * 2, d, name in ROOTS))


@family("lax_gradient_points", Tol(8))
def gradient_points(add: Adder) -> None:
    """Derivatives where they are delicate: zeros, ties, ends of domains."""
    names = ("abs", "sign", "sqrt", "rsqrt", "log", "log1p", "cbrt", "square", "asin", "acos")
    names += ("floor", "ceil", "round", "tanh", "logistic", "erf", "exp", "acosh", "atanh")
    for name in names:
        for d in ("f32", "f64"):
            x = np.array([0.0, -0.0, 1.0, -1.0, 0.25, 4.0, INF], dtype(d))
            add(f"{name}/{d}", call(f"lax.{name}"), [x], modes=("value", "jvp", "vjp"))
    ties = np.array([0.0, 1.0, -1.0, 2.0, 0.0], np.float32)
    other = np.array([0.0, 1.0, -1.0, 1.0, 3.0], np.float32)
    for name in ("max", "min", "atan2", "pow", "rem", "div", "nextafter"):
        add(f"{name}/ties", call(f"lax.{name}"), [ties, other], modes=("value", "jvp", "vjp"))
    lo, hi = np.float32(-1.0), np.float32(1.0)
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0], np.float32)
    add("clamp/ties", call("lax.clamp"), [np.asarray(lo), x, np.asarray(hi)], modes=ALL)
    for base in (0.0, 1.0, 2.0):
        for exponent in (0.0, 0.5, 1.0, 2.0, 3.0):
            args = [np.full(1, base, np.float32), np.full(1, exponent, np.float32)]
            name = f"pow/{base:g}**{exponent:g}"
            add(name, call("lax.pow"), args, modes=("value", "jvp", "vjp"))
    for power in (-3, -2, -1, 0, 1, 2, 3, 4, 7):
        for d in ("f32", "f64", "f16", "bf16", "c64"):
            x = np.array([0.5, -1.5, 2.0], dtype(d))
            key = f"integer_pow/{d}/{power}"
            add(key, call("lax.integer_pow", power), [x], modes=ALL, tol=Tol(8))
        x = np.array([0.0, -0.0], np.float32)
        add(f"integer_pow/zero/{power}", call("lax.integer_pow", power), [x], modes=ALL)
    for power in (0, 1, 2, 5):
        x = np.array([-3, 2, 0], np.int32)
        add(f"integer_pow/i32/{power}", call("lax.integer_pow", power), [x], modes=BATCH)


# name: (kinds, lo, hi, ulp); the second argument is drawn from (lo2, hi2) when given
BINARY: dict[str, tuple[str, float, float, float]] = {
    "add": ("ifc", -4, 4, 0),
    "sub": ("ifc", -4, 4, 0),
    "mul": ("ifc", -4, 4, 0),
    "div": ("ifc", 0.5, 4, 2),
    "rem": ("if", 0.5, 4, 0),
    "max": ("bifc", -4, 4, 0),
    "min": ("bifc", -4, 4, 0),
    "pow": ("fc", 0.3, 3, 8),
    "atan2": ("f", -3, 3, 6),
    "nextafter": ("f", -3, 3, 0),
    "eq": ("bifc", -1, 1, 0),
    "ne": ("bifc", -1, 1, 0),
    "lt": ("bif", -1, 1, 0),
    "le": ("bif", -1, 1, 0),
    "gt": ("bif", -1, 1, 0),
    "ge": ("bif", -1, 1, 0),
    "bitwise_and": ("bi", -4, 4, 0),
    "bitwise_or": ("bi", -4, 4, 0),
    "bitwise_xor": ("bi", -4, 4, 0),
    "shift_left": ("i", 0, 4, 0),
    "shift_right_arithmetic": ("i", 0, 4, 0),
    "shift_right_logical": ("i", 0, 4, 0),
    "mulhi": ("i", -4, 4, 0),
    "complex": ("r", -4, 4, 0),
    "igamma": ("s", 0.5, 5, 64),
    "igammac": ("s", 0.5, 5, 64),
    "zeta": ("s", 1.5, 5, 64),
}
KINDS = {
    "b": ("bool",),
    "i": INT,
    "f": REAL,
    "c": COMPLEX,
    "r": ("f32", "f64"),
    "s": ("f32", "f64"),
}


@family("lax_binary")
def binary(add: Adder) -> None:
    """Binary functions: equal shapes, a scalar on either side, every dtype they take."""
    for name, (kinds, lo, hi, ulp) in BINARY.items():
        for d in (d for kind in kinds for d in KINDS[kind]):
            tol = coarse(ulp * (4 if d in COMPLEX else 1), d)
            if d in COMPLEX and name in ("mul", "div"):
                tol = Tol(4)
            for label, left, right in (("vv", (2, 3), (2, 3)), ("sv", (), (4,)), ("vs", (4,), ())):
                if label != "vv" and d not in ("f32", "i32", "c64", "bool"):
                    continue
                key = f"{name}/{d}/{label}"
                rng = add.rng(key)
                x, y = rng.any(left, d, lo, hi), rng.any(right, d, lo, hi)
                if name in ("div", "rem") and not is_inexact(y.dtype):
                    y = np.where(y == 0, 3, y).astype(y.dtype)
                modes = ALL if is_inexact(x.dtype) else BATCH
                add(key, call(f"lax.{name}"), [x, y], modes=modes, tol=tol, each=label == "vv")


@family("lax_binary_points", Tol(4))
def binary_points(add: Adder) -> None:
    """All pairs of special values, and integer overflow, division by zero and wide shifts."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, INF, -INF, NAN]
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    for name in ("add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter"):
        for d in REAL:
            tol = Tol(4) if name in ("pow", "atan2") else EXACT
            args = [x.astype(dtype(d)), y.astype(dtype(d))]
            add(f"{name}/{d}", call(f"lax.{name}"), args, tol=tol)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        for d in REAL:
            args = [x.astype(dtype(d)), y.astype(dtype(d))]
            add(f"{name}/{d}", call(f"lax.{name}"), args, tol=EXACT)
    names = ("add", "sub", "mul", "div", "rem", "max", "min", "shift_left")
    names += ("shift_right_arithmetic", "shift_right_logical", "mulhi")
    for name in names:
        for d in INT:
            info = np.iinfo(dtype(d))
            edges = [info.min, info.max, 0, 1, 2, 7, info.max // 2]
            if d[0] == "i":
                edges += [-1, -3]
            if name.startswith("shift"):
                bits = info.bits
                shifts = np.array([0, 1, bits - 1, bits, bits + 3], dtype(d))
                a, b = (v.ravel() for v in np.meshgrid(np.array(edges, dtype(d)), shifts))
            else:
                column = np.array(edges, dtype(d))
                a, b = (v.ravel() for v in np.meshgrid(column, column))
            args = [a, b]
            add(f"{name}/{d}", call(f"lax.{name}"), args, tol=EXACT)


@family("lax_select")
def select(add: Adder) -> None:
    """select, select_n, clamp and the ternary special functions."""
    for d in ("f32", "f64", "i32", "bool", "c64", "u8", "bf16"):
        rng = add.rng(d)
        x, y = rng.any((2, 3), d), rng.any((2, 3), d)
        mask = rng.i((2, 3), "bool")
        modes = ALL if is_inexact(x.dtype) else BATCH
        add(f"select/{d}", call("lax.select"), [mask, x, y], modes=modes, each=True)
        scalar = np.asarray(True)
        add(f"select/{d}/scalar", call("lax.select"), [scalar, x, y], modes=modes, each=True)
        which = rng.i((2, 3), "i32", 0, 3)
        cases = [which, x, y, rng.any((2, 3), d)]
        add(f"select_n/{d}", call("lax.select_n"), cases, modes=modes, each=True)
        add(f"select_n/{d}/bool", call("lax.select_n"), [mask, x, y], modes=modes)
        if d not in ("bool", "c64"):
            lo, hi = np.asarray(x.dtype.type(0)), np.asarray(x.dtype.type(1))
            add(f"clamp/{d}/scalars", call("lax.clamp"), [lo, x, hi], modes=modes, each=True)
            full = [np.minimum(x, y), rng.any((2, 3), d), np.maximum(x, y)]
            add(f"clamp/{d}/full", call("lax.clamp"), full, modes=modes, each=True)
    for d in ("f32", "f64"):
        rng = add.rng("betainc" + d)
        a, b = rng.f((5,), d, 0.5, 4), rng.f((5,), d, 0.5, 4)
        x = rng.f((5,), d, 0.05, 0.95)
        add(
            f"betainc/{d}",
            call("lax.betainc"),
            [a, b, x],
            modes=("value", "jit", "vmap"),
            tol=Tol(256),
        )
        fixed = lambda J, a, b, x: J.lax.betainc(J.lax.stop_gradient(a), J.lax.stop_gradient(b), x)
        add(f"betainc/{d}/x", fixed, [a, b, x], modes=("value", "jvp", "vjp"), tol=Tol(256))
        add(
            f"polygamma/{d}",
            call("lax.polygamma"),
            [np.full(4, 2.0, dtype(d)), rng.f((4,), d, 1, 5)],
            tol=Tol(128),
        )
        add(f"igamma_grad_a/{d}", call("lax.igamma_grad_a"), [a, x], tol=Tol(512, True))
        add(f"random_gamma_grad/{d}", call("lax.random_gamma_grad"), [a, x], tol=Tol(2048, True))


@family("lax_convert")
def convert(add: Adder) -> None:
    """convert_element_type between all pairs, bit casts, reduce_precision, rounding methods."""
    kinds = ("bool", *INT, *REAL, *COMPLEX)
    for source in kinds:
        for target in kinds:
            key = f"convert/{source}/{target}"
            x = add.rng(key).any((5,), source, -3, 3)
            if target in ("u8", "u16", "u32", "u64") and source not in INT:
                x = np.abs(x).astype(x.dtype) if source != "bool" else x
            if source in COMPLEX and target not in COMPLEX:
                continue
            modes = ALL if is_inexact(x.dtype) and is_inexact(dtype(target)) else VALUE
            wide = target in ("i64", "u64", "f64", "c128")
            fn = call("lax.convert_element_type", dtype(target))
            add(key, fn, [x], modes=modes, x64=wide)
    edges = [0.0, -0.0, 1.5, 2.5, -1.5, 3.4e38, 65504.0, 70000.0, 1e-8, INF, NAN, 448.0, 0.1]
    for target in ("f16", "bf16", "f8e4", "f8e5", "float8_e4m3b11fnuz", "float8_e5m2fnuz"):
        fn = call("lax.convert_element_type", dtype(target))
        add(f"rounding/{target}", fn, [np.array(edges, np.float32)])
        back = lambda J, x, t=target: J.lax.convert_element_type(
            J.lax.convert_element_type(x, dtype(t)), np.float32
        )
        add(f"round_trip/{target}", back, [np.linspace(-5, 5, 23).astype(np.float32)])
    values = np.array([-9.5, -1.0, 0.0, 0.7, 5.5, 130.2, 3e9, -3e9, 1e20, INF, -INF, NAN])
    for target in ("i8", "i16", "i32", "u8", "u16", "u32"):
        inside = values if target in ("i32",) else values[2:5]
        fn = call("lax.convert_element_type", dtype(target))
        add(f"to_integer/{target}", fn, [inside.astype(np.float32)])
    same_size = [("f32", "i32"), ("f32", "u32"), ("f16", "u16"), ("bf16", "i16"), ("f64", "i64")]
    same_size += [("u8", "i8"), ("i32", "f32"), ("u64", "f64"), ("bf16", "f16")]
    for source, target in same_size:
        x = add.rng(f"bitcast{source}").any((4,), source)
        fn = call("lax.bitcast_convert_type", dtype(target))
        add(f"bitcast/{source}/{target}", fn, [x], modes=BATCH, x64="64" in source)
    for source, target, shape in (
        ("f32", "u8", (3,)),
        ("u8", "i32", (2, 4)),
        ("i16", "u32", (3, 2)),
    ):
        x = add.rng(f"bitcast{source}{target}").any(shape, source)
        fn = call("lax.bitcast_convert_type", dtype(target))
        add(f"bitcast/{source}/{target}", fn, [x], modes=BATCH)
    for exponent, mantissa in ((8, 7), (5, 10), (4, 3), (8, 23), (5, 2), (3, 4)):
        x = add.rng(f"precision{exponent}{mantissa}").f((8,), "f32", -20, 20)
        fn = call("lax.reduce_precision", exponent, mantissa)
        add(f"reduce_precision/e{exponent}m{mantissa}", fn, [x], modes=ALL)
        special = np.array(edges, np.float32)
        add(f"reduce_precision/e{exponent}m{mantissa}/edges", fn, [special])
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 2.3, -0.0])
    for method in ("AWAY_FROM_ZERO", "TO_NEAREST_EVEN"):
        for d in REAL:
            add(f"round/{method}/{d}", rounding(method), [halves.astype(dtype(d))], modes=ALL)


def rounding(method: str) -> Any:
    return lambda J, x: J.lax.round(x, getattr(J.lax.RoundingMethod, method))
