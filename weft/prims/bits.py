"""Bits of integers and truth values: logic, counting, shifting."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.families import BOOL, INTEGER, NonDifferentiable, lowered


class Not(NonDifferentiable):
    """Bitwise or logical complement."""

    name, accepts = "not", BOOL | INTEGER
    ref = staticmethod(np.invert)
    lower = lowered("not_")


class And(NonDifferentiable):
    """Bitwise or logical conjunction."""

    name, accepts = "and", BOOL | INTEGER
    ref = staticmethod(np.bitwise_and)
    lower = lowered("and_")


class Or(NonDifferentiable):
    """Bitwise or logical disjunction."""

    name, accepts = "or", BOOL | INTEGER
    ref = staticmethod(np.bitwise_or)
    lower = lowered("or_")


class Xor(NonDifferentiable):
    """Bitwise or logical exclusive or."""

    name, accepts = "xor", BOOL | INTEGER
    ref = staticmethod(np.bitwise_xor)
    lower = lowered("xor")


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind in "uV" else x.view(f"u{x.dtype.itemsize}")


class PopulationCount(NonDifferentiable):
    """How many bits are set."""

    name, accepts, widens = "population_count", INTEGER, False

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        return np.bitwise_count(_unsigned(np.asarray(x, order="C"))).astype(x.dtype)

    lower = lowered("popcount")


class Clz(NonDifferentiable):
    """How many leading bits are zero."""

    name, accepts, widens = "clz", INTEGER, False

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        bits = x.dtype.itemsize * 8
        y = _unsigned(np.asarray(x, order="C")).copy()
        for step in (1, 2, 4, 8, 16, 32):
            if step < bits:
                y |= y >> np.array(step, y.dtype)
        return bits - np.bitwise_count(y).astype(np.int64)

    lower = lowered("clz")


def _shift(x: np.ndarray, y: np.ndarray, by: Any, beyond: Any) -> np.ndarray:
    """Shift with the result stated for amounts outside 0..bits-1."""
    bits = x.dtype.itemsize * 8
    amount = y.astype(np.int64) if y.dtype != np.uint64 else np.minimum(y, 64).astype(np.int64)
    inside = (amount >= 0) & (amount < bits)
    safe = np.where(inside, amount, 0).astype(x.dtype)
    return np.where(inside, by(x, safe), beyond(x))


def _shift_amount(k: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Whether an amount lies within the width, and the amount made safe."""
    if y.op == "const":
        amount = int(np.frombuffer(y.attr, y.dtype)[0])
        inside = 0 <= amount < 8 * x.dtype.itemsize
        return k.const(inside, np.bool_), y if inside else k.like(y, 0)
    unsigned = k.bitcast(y, f"u{y.dtype.itemsize}")
    inside = k.lt(unsigned, k.like(unsigned, 8 * x.dtype.itemsize))
    return inside, k.select(inside, y, k.like(y, 0))


class ShiftLeft(NonDifferentiable):
    """Bits moved left; zero where the amount is not within the width."""

    name, accepts, widens = "shift_left", INTEGER, False

    @staticmethod
    def ref(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _shift(x, y, np.left_shift, np.zeros_like)

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        inside, amount = _shift_amount(k, x, y)
        return k.select(inside, k.shl(x, amount), k.like(x, 0))


class ShiftRightLogical(NonDifferentiable):
    """Bits moved right, zeros shifted in."""

    name, accepts, widens = "shift_right_logical", INTEGER, False

    @staticmethod
    def ref(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        u = _unsigned(np.asarray(x, order="C"))
        return _shift(u, y, np.right_shift, np.zeros_like).astype(u.dtype).view(x.dtype)

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        inside, amount = _shift_amount(k, x, y)
        return k.select(inside, k.lshr(x, amount), k.like(x, 0))


class ShiftRightArithmetic(NonDifferentiable):
    """Bits moved right, copies of the sign shifted in."""

    name, accepts, widens = "shift_right_arithmetic", INTEGER, False

    @staticmethod
    def ref(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind == "u":
            signed = x.view(f"i{x.dtype.itemsize}")
            return ShiftRightArithmetic.ref(signed, y).view(x.dtype)
        return _shift(x, y, np.right_shift, lambda v: np.where(v < 0, -1, 0)).astype(x.dtype)

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        inside, amount = _shift_amount(k, x, y)
        return k.select(inside, k.ashr(x, amount), k.ashr(x, k.like(x, 8 * x.dtype.itemsize - 1)))


not_p, and_p, or_p, xor_p = Not(), And(), Or(), Xor()
population_count_p, clz_p = PopulationCount(), Clz()
shift_left_p = ShiftLeft()
shift_right_logical_p = ShiftRightLogical()
shift_right_arithmetic_p = ShiftRightArithmetic()

and_, or_, not_ = and_p.bind, or_p.bind, not_p.bind
