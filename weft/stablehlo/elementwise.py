"""Rules of operations on each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.stablehlo.emitter import Emitter, Typed, rule, rules
from weft.stablehlo.types import Unlowered, physical

UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "clz": "count_leading_zeros",
    "cos": "cosine", "exp": "exponential", "expm1": "exponential_minus_one", "floor": "floor",
    "imag": "imag", "is_finite": "is_finite", "log": "log", "log1p": "log_plus_one",
    "logistic": "logistic", "neg": "negate", "not": "not", "population_count": "popcnt",
    "real": "real", "rsqrt": "rsqrt", "sign": "sign", "sin": "sine", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh", "acos": "chlo.acos", "acosh": "chlo.acosh", "asin": "chlo.asin",
    "asinh": "chlo.asinh", "atan": "chlo.atan", "atanh": "chlo.atanh",
    "bessel_i1e": "chlo.bessel_i1e", "cosh": "chlo.cosh", "digamma": "chlo.digamma",
    "erf": "chlo.erf", "erf_inv": "chlo.erf_inv", "erfc": "chlo.erfc", "lgamma": "chlo.lgamma",
    "sinh": "chlo.sinh",
}  # fmt: skip
BINARY = {
    "add": "add", "add_any": "add", "and": "and", "atan2": "atan2", "complex": "complex",
    "div": "divide", "max": "maximum", "min": "minimum", "mul": "multiply", "or": "or",
    "pow": "power", "rem": "remainder", "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right_arithmetic",
    "shift_right_logical": "shift_right_logical", "sub": "subtract", "xor": "xor",
    "nextafter": "chlo.next_after", "polygamma": "chlo.polygamma", "zeta": "chlo.zeta",
}  # fmt: skip
COMPARISONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
SAME = ("copy copy_p stop_gradient name device_put optimization_barrier random_clone").split()


def out_of(eqn: Any) -> tuple[Any, Any]:
    """The shape and dtype of the only result."""
    return physical(eqn.outvars[0].aval)


def spread(e: Emitter, eqn: Any, ins: Any) -> list[Typed]:
    """Operands as large as the result: numbers and axes of size 1 are repeated."""
    shape, _ = out_of(eqn)
    return [spread_to(e, x, shape) for x in ins]


def spread_to(e: Emitter, x: Typed, shape: Any) -> Typed:
    """An array as large as ``shape``."""
    return e.broadcast(x, shape, range(len(x.shape)))


def _unary(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [e.one(UNARY[eqn.primitive.name], ins, *out_of(eqn))]


def _binary(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    if eqn.primitive.name == "mul":  # whose result may be wider
        ins = [convert(e, x, dtype) for x in ins]
    return [e.one(BINARY[eqn.primitive.name], spread(e, eqn, ins), shape, dtype)]


for _name in UNARY:
    rules[_name] = _unary
for _name in BINARY:
    rules[_name] = _binary


@rule(*SAME)
def _same(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return list(ins)


def comparison_kind(dtype: Any) -> str:
    """How numbers of a dtype are compared."""
    kind = np.dtype(dtype).kind
    return "SIGNED" if kind == "i" else "UNSIGNED" if kind in "ub" else "FLOAT"


def compare(e: Emitter, direction: str, x: Typed, y: Typed, kind: str | None = None) -> Typed:
    """Booleans that say how elements compare."""
    kind = kind or comparison_kind(x.dtype)
    attributes = (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>,"
        f" compare_type = #stablehlo<comparison_type {kind}>"
    )
    return e.one("compare", [x, y], x.shape, np.bool_, attributes)


@rule(*COMPARISONS)
def _compare(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [compare(e, COMPARISONS[eqn.primitive.name], *spread(e, eqn, ins))]


def select(e: Emitter, where: Typed, x: Typed, y: Typed) -> Typed:
    """``x`` where a boolean is true, else ``y``."""
    return e.one("select", [where, x, y], x.shape, x.dtype)


@rule("select_n")
def _select_n(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    which, *cases = ins
    cases = spread(e, eqn, cases)
    which = spread_to(e, which, cases[0].shape)
    if which.dtype == np.bool_:
        return [cases[0] if len(cases) == 1 else select(e, which, cases[1], cases[0])]
    result, *later = cases[: dtypes.iinfo(which.dtype).max + 1]
    for number, case in enumerate(later, 1):
        bound = e.broadcast(e.constant(np.asarray(number, which.dtype)[()]), which.shape)
        result = select(e, compare(e, "GE", which, bound), case, result)
    return [result]


@rule("zero_untaken")
def _zero_untaken(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    live, x = ins
    live = spread_to(e, live, x.shape)
    number = compare(e, "EQ", x, x)
    kept = e.one("or", [live, number], x.shape, live.dtype)
    zero = e.broadcast(e.constant(np.zeros((), x.dtype)[()]), x.shape)
    return [select(e, kept, x, zero)]


@rule("clamp")
def _clamp(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [e.one("clamp", spread(e, eqn, ins), *out_of(eqn))]


@rule("conj")
def _conj(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    part = np.float64 if dtype == np.complex128 else np.float32
    if ins[0].dtype.kind != "c":
        return [convert(e, ins[0], dtype)]
    real, imag = (e.one(name, ins, shape, part) for name in ("real", "imag"))
    return [e.one("complex", [real, e.one("negate", [imag], shape, part)], shape, dtype)]


@rule("round")
def _round(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    even = int(eqn.params["rounding_method"]) == 1
    name = "round_nearest_even" if even else "round_nearest_afz"
    return [e.one(name, ins, *out_of(eqn))]


@rule("square")
def _square(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    if dtype.kind != "c":
        return [e.one("multiply", [*ins, *ins], shape, dtype)]
    # as weft computes it: the real part without cancellation
    real = np.empty(0, dtype).real.dtype
    each = lambda name, *xs: e.one(name, xs, shape, real)
    a, b = each("real", *ins), each("imag", *ins)
    product = each("multiply", a, b)
    parts = (
        each("multiply", each("subtract", a, b), each("add", a, b)),
        each("add", product, product),
    )
    return [e.one("complex", parts, shape, dtype)]


@rule("integer_pow")
def _integer_pow(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), (shape, dtype) = ins, out_of(eqn)
    power, kept = eqn.params["y"], dtype
    if dtype.name.startswith(("bfloat16", "float16", "float8")) and power not in (0, 1):
        # one operation rounds once
        dtype = np.dtype(np.float32)
        x = e.one("convert", [x], shape, dtype)
    result, square, left = None, x, abs(power)
    while left:
        if left & 1:
            result = square if result is None else e.one("multiply", [result, square], shape, dtype)
        left >>= 1
        square = e.one("multiply", [square, square], shape, dtype) if left else square
    if power <= 0:
        one = e.broadcast(e.constant(np.ones((), dtype)), shape)
        result = one if result is None else e.one("divide", [one, result], shape, dtype)
    return [result if dtype == kept else e.one("convert", [result], shape, kept)]


@rule("exp2")
def _exp2(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    base = e.broadcast(e.constant(np.asarray(2, dtype)), shape)
    return [e.one("power", [base, ins[0]], shape, dtype)]


@rule("reduce_precision")
def _reduce_precision(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params
    text = f"exponent_bits = {p['exponent_bits']} : i32, mantissa_bits = {p['mantissa_bits']} : i32"
    return [e.one("reduce_precision", ins, *out_of(eqn), text)]


def convert(e: Emitter, x: Typed, dtype: Any) -> Typed:
    """An array at another dtype."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        part = np.dtype(np.float64 if x.dtype == np.complex128 else np.float32)
        return convert(e, e.one("real", [x], x.shape, part), dtype)
    if dtype == np.bool_:
        zero = e.broadcast(e.constant(np.zeros((), x.dtype)), x.shape)
        return compare(e, "NE", x, zero)
    return e.one("convert", [x], x.shape, dtype)


@rule("convert_element_type")
def _convert(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [convert(e, ins[0], out_of(eqn)[1])]


@rule("bitcast_convert_type")
def _bitcast(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [e.one("bitcast_convert", ins, *out_of(eqn))]


@rule("mulhi")
def _mulhi(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    bits = np.dtype(dtype).itemsize * 8
    if bits > 32:
        raise Unlowered("weft can't write the upper half of a 64-bit product as StableHLO")
    wide = np.dtype(f"{np.dtype(dtype).kind}{2 * np.dtype(dtype).itemsize}")
    x, y = (convert(e, v, wide) for v in spread(e, eqn, ins))
    product = e.one("multiply", [x, y], shape, wide)
    by = e.broadcast(e.constant(np.asarray(bits, wide)), shape)
    shift = "shift_right_arithmetic" if wide.kind == "i" else "shift_right_logical"
    return [convert(e, e.one(shift, [product, by], shape, wide), dtype)]
