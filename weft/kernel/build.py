"""The builder of scalar values: checks types, folds nothing but constants, shares equal values."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.kernel.nodes import (
    BOOL,
    COMPARE,
    FLOAT_ONLY,
    I64,
    INTEGER_ONLY,
    Value,
    is_float,
    is_integer,
)


class Builder:
    """Makes values. Lowering rules and the mathematics are written against it."""

    def __init__(self) -> None:
        self._known: dict[Any, Value] = {}

    def make(self, op: str, args: tuple[Value, ...], dtype: Any, attr: Any = None) -> Value:
        """The value of an operation; the same object for the same operation."""
        key = (op, tuple(a.number for a in args), dtype, attr)
        value = self._known.get(key)
        if value is None:
            value = Value(op, args, dtype, attr, len(self._known))
            self._known[key] = value
        return value

    # --- leaves -----------------------------------------------------------------------------------

    def const(self, number: Any, dtype: Any) -> Value:
        """A constant; floats are kept by their bits, so that -0.0 and NaN stay what they are."""
        dtype = np.dtype(dtype)
        bits = np.asarray(number, dtype).tobytes()
        return self.make("const", (), dtype, bits)

    def like(self, x: Value, number: Any) -> Value:
        """A constant of the dtype of ``x``."""
        return self.const(number, x.dtype)

    def load(self, buffer: int, dtype: Any, index: Any = None) -> Value:
        """An element of an input; ``index`` says which, in terms of the kernel's axes."""
        return self.make("load", (), np.dtype(dtype), (buffer, index))

    def index(self, axis: Any) -> Value:
        """The position along an axis of the kernel."""
        return self.make("index", (), I64, axis)

    # --- arithmetic -------------------------------------------------------------------------------

    def _same(self, op: str, x: Value, y: Value) -> Value:
        if x.dtype != y.dtype:
            raise TypeError(f"{op} of {x.dtype} and {y.dtype}")
        self._check(op, x)
        return self.make(op, (x, y), x.dtype)

    def _check(self, op: str, x: Value) -> None:
        if op in FLOAT_ONLY and not is_float(x.dtype):
            raise TypeError(f"{op} takes floating values, got {x.dtype}")
        if op in INTEGER_ONLY and not is_integer(x.dtype):
            raise TypeError(f"{op} takes integers, got {x.dtype}")

    def _unary(self, op: str, x: Value) -> Value:
        self._check(op, x)
        return self.make(op, (x,), x.dtype)

    def _compare(self, op: str, x: Value, y: Value) -> Value:
        if x.dtype != y.dtype or op not in COMPARE:
            raise TypeError(f"{op} of {x.dtype} and {y.dtype}")
        return self.make(op, (x, y), BOOL)

    def add(self, x: Value, y: Value) -> Value:
        return self._same("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self._same("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self._same("mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        """Quotient; of integers towards zero, undefined for a zero divisor."""
        return self._same("div", x, y)

    def rem(self, x: Value, y: Value) -> Value:
        """Remainder with the sign of the dividend; undefined for a zero integer divisor."""
        return self._same("rem", x, y)

    def min(self, x: Value, y: Value) -> Value:
        """The smaller; NaN if either is, -0 below 0."""
        return self._same("min", x, y)

    def max(self, x: Value, y: Value) -> Value:
        """The larger; NaN if either is, -0 below 0."""
        return self._same("max", x, y)

    def and_(self, x: Value, y: Value) -> Value:
        return self._same("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self._same("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self._same("xor", x, y)

    def shl(self, x: Value, y: Value) -> Value:
        """Shift left; undefined outside 0 .. bits - 1."""
        return self._same("shl", x, y)

    def lshr(self, x: Value, y: Value) -> Value:
        """Shift right, zeros in; undefined outside 0 .. bits - 1."""
        return self._same("lshr", x, y)

    def ashr(self, x: Value, y: Value) -> Value:
        """Shift right, sign in; undefined outside 0 .. bits - 1."""
        return self._same("ashr", x, y)

    def copysign(self, x: Value, y: Value) -> Value:
        return self._same("copysign", x, y)

    def mulhi(self, x: Value, y: Value) -> Value:
        return self._same("mulhi", x, y)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x·y + z with one rounding."""
        self._check("fma", x)
        if not x.dtype == y.dtype == z.dtype:
            raise TypeError(f"fma of {x.dtype}, {y.dtype} and {z.dtype}")
        return self.make("fma", (x, y, z), x.dtype)

    def neg(self, x: Value) -> Value:
        return self._unary("neg", x)

    def abs(self, x: Value) -> Value:
        return self._unary("abs", x)

    def not_(self, x: Value) -> Value:
        return self._unary("not", x)

    def sqrt(self, x: Value) -> Value:
        return self._unary("sqrt", x)

    def floor(self, x: Value) -> Value:
        return self._unary("floor", x)

    def ceil(self, x: Value) -> Value:
        return self._unary("ceil", x)

    def rint(self, x: Value) -> Value:
        """Rounding to the nearest integer, ties to even."""
        return self._unary("rint", x)

    def trunc(self, x: Value) -> Value:
        return self._unary("trunc", x)

    def popcount(self, x: Value) -> Value:
        return self._unary("popcount", x)

    def clz(self, x: Value) -> Value:
        return self._unary("clz", x)

    # --- comparison, selection, conversion --------------------------------------------------------

    def eq(self, x: Value, y: Value) -> Value:
        return self._compare("eq", x, y)

    def ne(self, x: Value, y: Value) -> Value:
        """Not equal; true for NaN."""
        return self._compare("ne", x, y)

    def lt(self, x: Value, y: Value) -> Value:
        return self._compare("lt", x, y)

    def le(self, x: Value, y: Value) -> Value:
        return self._compare("le", x, y)

    def gt(self, x: Value, y: Value) -> Value:
        return self._compare("gt", x, y)

    def ge(self, x: Value, y: Value) -> Value:
        return self._compare("ge", x, y)

    def isnan(self, x: Value) -> Value:
        self._check("isnan", x)
        return self.make("isnan", (x,), BOOL)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        if condition.dtype != BOOL or yes.dtype != no.dtype:
            raise TypeError(f"select of {condition.dtype}, {yes.dtype} and {no.dtype}")
        if yes is no:
            return yes
        return self.make("select", (condition, yes, no), yes.dtype)

    def cast(self, x: Value, dtype: Any) -> Value:
        """Conversion by value; a float that does not fit an integer saturates, NaN becomes 0."""
        dtype = np.dtype(dtype)
        return x if x.dtype == dtype else self.make("cast", (x,), dtype)

    def bitcast(self, x: Value, dtype: Any) -> Value:
        """The same bits as another dtype of the same width."""
        dtype = np.dtype(dtype)
        if x.dtype.itemsize != dtype.itemsize:
            raise TypeError(f"bitcast of {x.dtype} to {dtype}: widths differ")
        return x if x.dtype == dtype else self.make("bitcast", (x,), dtype)

    # --- helpers for writing mathematics ----------------------------------------------------------

    def horner(self, x: Value, coefficients: Any) -> Value:
        """A polynomial by fused multiply-adds, highest coefficient first."""
        total = self.like(x, coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.like(x, c))
        return total
