"""Evaluation of scalar values on NumPy arrays: the reference of every renderer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.kernel.nodes import BOOL, Value, is_float, walk


def evaluate(roots: Sequence[Value], loads: Callable[..., np.ndarray]) -> list[np.ndarray]:
    """Arrays for ``roots``; ``loads`` gives the array for the attribute of a load, an index or a
    reduction.

    A load at a place that comes from data hands over what is added to its index as well.
    """
    found: dict[int, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for value in walk(roots):
            args = [found[a.number] for a in value.args]
            found[value.number] = _apply(value, args, loads)
    return [found[root.number] for root in roots]


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype == np.float32:
        # the product is exact in float64; the sum rounds twice, a tie in 2**29
        return (x.astype(np.float64) * y + z).astype(np.float32)
    # float64: exact product as a pair (Dekker), then a compensated sum
    return _fma64(x, y, z)


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    c = 134217729.0 * x
    high = c - (c - x)
    return high, x - high


def _fma64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    product = x * y
    xh, xl = _split(x)
    yh, yl = _split(y)
    error = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    total = product + z
    back = total - product
    rest = (product - (total - back)) + (z - back)
    out = total + (rest + error)
    return np.where(np.isfinite(out) & (out != total), out, total)


def _saturating(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
    low, high = wide <= float(info.min), wide >= float(info.max)
    inside = np.where(low | high, 0, wide).astype(dtype)
    return np.where(low, info.min, np.where(high, info.max, inside)).astype(dtype)


_BINARY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "rem": np.fmod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "copysign": np.copysign,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY: dict[str, Any] = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.invert,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
}


def _apply(value: Value, args: list[np.ndarray], loads: Any) -> np.ndarray:
    op, dtype = value.op, value.dtype
    if op == "const":
        return np.frombuffer(value.attr, dtype)[0]
    if op == "size":
        return dtype.type(value.attr.value)
    if op in ("load", "index", "acc", "across"):
        return loads(value.attr, *args)
    if op in _BINARY:
        return _BINARY[op](*args)
    if op in _UNARY:
        return _UNARY[op](*args)
    if op == "fma":
        return _fma(*(np.asarray(a) for a in args))
    if op == "select":
        return np.where(*args).astype(dtype)
    if op == "bitcast":
        return np.asarray(args[0]).view(dtype)
    return _rarely(op, dtype, args)


def _rarely(op: str, dtype: np.dtype, args: list[np.ndarray]) -> np.ndarray:
    x = np.asarray(args[0])
    if op == "cast":
        if is_float(x.dtype) and dtype.kind in "iu":
            return _saturating(x, dtype)
        return x != 0 if dtype == BOOL else x.astype(dtype)
    if op == "div":
        return _divide(x, args[1])
    if op in ("min", "max"):
        return _extreme(op, x, np.asarray(args[1]))
    if op in ("lshr", "ashr"):
        kind = f"{'u' if op == 'lshr' else 'i'}{x.dtype.itemsize}"
        return (x.view(kind) >> np.asarray(args[1]).view(kind)).view(dtype)
    if op == "popcount":
        return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(dtype)
    if op == "clz":
        return _leading_zeros(x).astype(dtype)
    if op == "mulhi":
        bits = x.dtype.itemsize * 8
        product = x.astype(object) * np.asarray(args[1]).astype(object)
        return np.asarray(product >> bits).astype(dtype)
    raise TypeError(f"unknown operation {op}")


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return np.true_divide(x, y)
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)


def _extreme(op: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.minimum(x, y) if op == "min" else np.maximum(x, y)
    if x.dtype.kind != "f":
        return out
    both = (x == 0) & (y == 0)
    signs = np.signbit(x), np.signbit(y)
    negative = np.logical_or(*signs) if op == "min" else np.logical_and(*signs)
    return np.where(both, np.where(negative, -np.abs(out), np.abs(out)), out)


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = x.dtype.itemsize * 8
    y = x.view(f"u{x.dtype.itemsize}").copy()
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            y |= y >> np.array(step, y.dtype)
    return bits - np.bitwise_count(y).astype(np.int64)
