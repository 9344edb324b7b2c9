"""Readers of operations on each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.mlir.errors import Unread
from weft.mlir.reading import FOLDED, Reading, Scope, reader, readers
from weft.mlir.tree import Operation

UNARY = {
    "abs": lax.abs, "cbrt": lax.cbrt, "ceil": lax.ceil, "cosine": lax.cos,
    "count_leading_zeros": lax.clz, "exponential": lax.exp, "exponential_minus_one": lax.expm1,
    "floor": lax.floor, "is_finite": lax.is_finite, "log": lax.log, "log_plus_one": lax.log1p,
    "logistic": lax.logistic, "negate": lax.neg, "not": lax.bitwise_not,
    "popcnt": lax.population_count, "rsqrt": lax.rsqrt, "sign": lax.sign, "sine": lax.sin,
    "sqrt": lax.sqrt, "tan": lax.tan, "tanh": lax.tanh, "chlo.acos": lax.acos,
    "chlo.acosh": lax.acosh, "chlo.asin": lax.asin, "chlo.asinh": lax.asinh,
    "chlo.atan": lax.atan, "chlo.atanh": lax.atanh, "chlo.bessel_i1e": lax.bessel_i1e,
    "chlo.conj": lax.conj, "chlo.cosh": lax.cosh, "chlo.digamma": lax.digamma,
    "chlo.erf": lax.erf, "chlo.erf_inv": lax.erf_inv, "chlo.erfc": lax.erfc,
    "chlo.lgamma": lax.lgamma, "chlo.sinh": lax.sinh, "chlo.square": lax.square,
    "chlo.tan": lax.tan,
}  # fmt: skip
BINARY = {
    "add": lax.add, "and": lax.bitwise_and, "atan2": lax.atan2, "complex": lax.complex,
    "divide": lax.div, "maximum": lax.max, "minimum": lax.min, "multiply": lax.mul,
    "or": lax.bitwise_or, "power": lax.pow, "remainder": lax.rem, "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical, "subtract": lax.sub, "xor": lax.bitwise_xor,
    "chlo.next_after": lax.nextafter, "chlo.polygamma": lax.polygamma, "chlo.zeta": lax.zeta,
}  # fmt: skip
COMPARISONS = {
    "EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge,
}  # fmt: skip


def operands(op: Operation, ins: list[Any], count: int) -> list[Any]:
    """As many operands as an operation takes."""
    if len(ins) != count:
        raise Unread(f"it takes {count} operands, got {len(ins)}")
    return ins


def _unary(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return _FUNCTIONS[op.name](*operands(op, ins, 1))


def _binary(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, y = operands(op, ins, 2)
    if np.shape(x) != np.shape(y):
        raise Unread(f"its operands have different shapes, {np.shape(x)} and {np.shape(y)}")
    return _FUNCTIONS[op.name](x, y)


def _full(name: str) -> str:
    return name if "." in name else f"stablehlo.{name}"


_FUNCTIONS: dict[str, Any] = {
    _full(name): function for name, function in {**UNARY, **BINARY}.items()
}
for _name in UNARY:
    readers[_full(_name)] = _unary
for _name in BINARY:
    readers[_full(_name)] = _binary


@reader("add", "multiply", "maximum", "minimum")
def _arithmetic(r: Reading, op: Operation, ins: list[Any]) -> Any:
    """Booleans are added and multiplied by logic."""
    x, y = operands(op, ins, 2)
    if x.dtype == np.bool_:
        logic = {"add": lax.bitwise_or, "maximum": lax.bitwise_or}
        return logic.get(op.name.partition(".")[2], lax.bitwise_and)(x, y)
    return _binary(r, op, ins)


@reader("power")
def _power(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    """Powers of 2 have a function of their own."""
    y = operands(op, ins, 2)[1]
    maker = scope.maker(op.operands[0])
    if maker is not None and maker.name == "stablehlo.broadcast_in_dim":
        base = scope[maker.operands[0]]
        is_two = isinstance(base, np.ndarray) and base.size == 1 and base.reshape(()) == 2
        if is_two and (is_float(y.dtype) or y.dtype.kind == "c"):
            return lax.exp2(y)
    return _binary(r, op, ins)


@reader("real", "imag")
def _part(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    if x.dtype.kind != "c":
        return x if op.name.endswith("real") else lax.full_like(x, 0)
    return lax.real(x) if op.name.endswith("real") else lax.imag(x)


@reader("compare")
def _compare(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, y = operands(op, ins, 2)
    found = COMPARISONS.get(str(op.attributes["comparison_direction"]))
    if found is None:
        raise Unread("its direction is one of EQ, NE, LT, LE, GT, GE")
    if str(op.attributes.get("compare_type", "")) == "TOTALORDER" and is_float(x.dtype):
        x, y = total_order(x), total_order(y)
    return found(x, y)


def is_float(dtype: Any) -> bool:
    return np.dtype(dtype).name.startswith(("bfloat", "float"))


def total_order(x: Any) -> Any:
    """Integers in the order of floating-point numbers: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    width = np.dtype(x.dtype).itemsize * 8
    whole = np.dtype(f"int{width}")
    bits = lax.bitcast_convert_type(x, whole)
    flipped = lax.bitwise_xor(bits, lax.full_like(bits, np.iinfo(whole).max))
    return lax.select(lax.lt(bits, lax.full_like(bits, 0)), flipped, bits)


@reader("select")
def _select(r: Reading, op: Operation, ins: list[Any]) -> Any:
    which, x, y = operands(op, ins, 3)
    return lax.select(which, x, y)


@reader("clamp")
def _clamp(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return lax.clamp(*operands(op, ins, 3))


@reader("round_nearest_even", "round_nearest_afz")
def _round(r: Reading, op: Operation, ins: list[Any]) -> Any:
    even = op.name.endswith("even")
    method = lax.RoundingMethod.TO_NEAREST_EVEN if even else lax.RoundingMethod.AWAY_FROM_ZERO
    (x,) = operands(op, ins, 1)
    return lax.round(x, method)


@reader("convert")
def _convert(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,), dtype = operands(op, ins, 1), op.types[0].dtype
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = lax.real(x)
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


@reader("bitcast_convert")
def _bitcast(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.bitcast_convert_type(x, op.types[0].dtype)


@reader("reduce_precision")
def _reduce_precision(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,), given = operands(op, ins, 1), op.attributes
    return lax.reduce_precision(x, given["exponent_bits"], given["mantissa_bits"])


@reader("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def _is_inf(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    if op.name.endswith("is_inf"):
        x = lax.abs(x)
    bound = -np.inf if op.name.endswith("neg_inf") else np.inf
    return lax.eq(x, lax.full_like(x, bound))


BROADCAST = {
    "chlo.broadcast_add": "add", "chlo.broadcast_subtract": "subtract",
    "chlo.broadcast_multiply": "multiply", "chlo.broadcast_divide": "divide",
    "chlo.broadcast_maximum": "maximum", "chlo.broadcast_minimum": "minimum",
    "chlo.broadcast_power": "power", "chlo.broadcast_remainder": "remainder",
    "chlo.broadcast_and": "and", "chlo.broadcast_or": "or", "chlo.broadcast_xor": "xor",
    "chlo.broadcast_atan2": "atan2",
}  # fmt: skip


@reader(*BROADCAST, "chlo.broadcast_compare", "chlo.broadcast_select")
def _broadcast(r: Reading, op: Operation, ins: list[Any]) -> Any:
    """Operations whose operands are repeated as NumPy repeats them."""
    shape = np.broadcast_shapes(*[np.shape(x) for x in ins])
    wide = [_repeated(x, shape) for x in ins]
    if op.name in BROADCAST:
        return BINARY[BROADCAST[op.name]](*wide)
    if op.name.endswith("select"):
        return lax.select(*operands(op, wide, 3))
    return _compare(r, op, wide)


def _repeated(x: Any, shape: tuple[int, ...]) -> Any:
    first = len(shape) - np.ndim(x)
    return lax.broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


@reader("uniform_quantize", "uniform_dequantize")
def _quantized(r: Reading, op: Operation, ins: list[Any]) -> Any:
    raise Unread(
        "weft does not support quantized types; dequantize the module before you export it"
    )


# --- known values ---------------------------------------------------------------------------------


def _fold(function: Any) -> Any:
    def folded(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(*ins), op.types[0].dtype)]

    return folded


def _truncated(x: Any, y: Any) -> Any:
    """Division as StableHLO has it: towards zero, and -1 by zero for integers."""
    if x.dtype.kind not in "iu":
        return x / y
    quotient = np.abs(x) // np.maximum(np.abs(y), 1) * np.sign(x) * np.sign(y)
    return np.where(y == 0, -1, quotient)


def _remainder(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


FOLDED.update(
    {
        f"stablehlo.{name}": _fold(function)
        for name, function in {
            "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
            "divide": _truncated, "remainder": _remainder, "maximum": np.maximum,
            "minimum": np.minimum, "negate": np.negative, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "abs": np.abs,
            "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
            "select": lambda which, x, y: np.where(which, x, y),
            "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
        }.items()
    }
)  # fmt: skip

_KNOWN_COMPARISONS = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
    "GE": np.greater_equal,
}  # fmt: skip


def _folded_compare(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    return [np.asarray(_KNOWN_COMPARISONS[str(op.attributes["comparison_direction"])](*ins))]


def _folded_convert(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [np.asarray(ins[0].real).astype(op.types[0].dtype)]


FOLDED["stablehlo.compare"] = _folded_compare
FOLDED["stablehlo.convert"] = _folded_convert
