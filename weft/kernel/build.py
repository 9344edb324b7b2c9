"""The builder of scalar values: checks types, folds nothing but constants, shares equal values."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.base.sizes import Size
from weft.kernel.kernel import Affine
from weft.kernel.nodes import (
    BOOL,
    COMPARE,
    FLOAT_ONLY,
    I64,
    INTEGER_ONLY,
    Parts,
    Value,
    is_float,
    is_integer,
)


class Recipe(Record):
    """The operations of a function, to be made again for other operands: each with the numbers of
    its operands, those of the function first, then its operations in order."""

    steps: tuple[tuple[str, tuple[int, ...], np.dtype, Any], ...]
    result: int


class Builder:
    """Makes values. Lowering rules and the mathematics are written against it."""

    def __init__(self) -> None:
        self._known: dict[Any, Value] = {}
        self.constants = 0  # how many of them there are
        self._places: dict[str, tuple[Value, int]] = {}

    def make(self, op: str, args: tuple[Value, ...], dtype: Any, attr: Any = None) -> Value:
        """The value of an operation; the same object for the same operation."""
        key = (op, args, dtype.num, attr)
        value = self._known.get(key)
        if value is None:
            value = Value(op, args, dtype, attr, len(self._known))
            self._known[key] = value
            if op == "const":
                self.constants += 1
        return value

    @property
    def count(self) -> int:
        """How many values there are besides constants."""
        return len(self._known) - self.constants

    def recipe(self, operands: list[Value], result: Value) -> Recipe:
        """How a result was made of operands, which were all that this builder knew before."""
        places = {v.number: i for i, v in enumerate(operands)}
        steps = []
        for v in self._known.values():
            if v.number not in places:
                places[v.number] = len(places)
                steps.append((v.op, tuple([places[a.number] for a in v.args]), v.dtype, v.attr))
        return Recipe(tuple(steps), places[result.number])

    def follow(self, recipe: Recipe, operands: list[Value]) -> Value:
        """The result of a function on other operands: none of them constant, no two the same."""
        values, known = list(operands), self._known
        for op, places, dtype, attr in recipe.steps:
            args = tuple([values[i] for i in places])
            key = (op, args, dtype.num, attr)
            value = known.get(key)
            if value is None:
                value = known[key] = Value(op, args, dtype, attr, len(known))
                if op == "const":
                    self.constants += 1
            values.append(value)
        return values[recipe.result]

    # --- leaves -----------------------------------------------------------------------------------

    def const(self, number: Any, dtype: Any) -> Value:
        """A constant; floats are kept by their bits, so that -0.0 and NaN stay what they are."""
        dtype = np.dtype(dtype)
        if type(number) is Size and dtype.kind in "iu" and dtype.itemsize >= 4:
            return self.make("size", (), dtype, number)
        bits = np.asarray(number, dtype).tobytes()
        return self.make("const", (), dtype, bits)

    def like(self, x: Value, number: Any) -> Value:
        """A constant of the dtype of ``x``."""
        return self.const(number, x.dtype)

    def load(self, buffer: int, dtype: Any, index: Any = None) -> Value:
        """An element of an input; ``index`` says which, in terms of the kernel's axes.

        The part of an index that comes from data becomes an operand, added to the rest.
        """
        if index is not None and self.from_data(index):
            rest, offset, reach = self.apart(index)
            return self.make("load", (offset,), np.dtype(dtype), (buffer, rest, reach))
        return self.make("load", (), np.dtype(dtype), (buffer, index))

    def index(self, axis: Any) -> Value:
        """The position along an axis of the kernel."""
        return self.make("index", (), I64, axis)

    # --- indices from data ------------------------------------------------------------------------

    def place(self, value: Value, extent: int) -> Affine:
        """A computed position, at least 0 and below ``extent``, as an index like that of an axis.

        It goes by a name of its own, so that movements treat it as any other axis.
        """
        if extent <= 1:
            return Affine()
        if value.op == "const":
            return Affine(min(max(0, int(np.frombuffer(value.attr, value.dtype)[0])), extent - 1))
        name = f"%{value.number}"
        self._places[name] = (self.cast(value, I64), extent)
        return Affine(0, ((name, 1),))

    def fixed(self, number: int) -> Affine:
        """An index that is the same for all elements."""
        return Affine(number)

    def from_data(self, index: Affine) -> bool:
        """Whether an index has a part that is computed."""
        return any(axis in self._places for axis, _ in index.terms)

    @property
    def computes_places(self) -> bool:
        """Whether any index has a part that is computed."""
        return bool(self._places)

    def computed(self, axis: str) -> Value | None:
        """The value that a computed part of an index stands for, or None for an axis."""
        found = self._places.get(axis)
        return None if found is None else found[0]

    def varies(self, index: Affine) -> bool:
        """Whether an index has a computed part that is another one for other elements."""
        return any(a in self._places and self._places[a][0].axes for a, _ in index.terms)

    def apart(self, index: Affine) -> tuple[Affine, Value, tuple[int, int]]:
        """An index over axes, what is to be added to it, and the range of that."""
        total, low, high = None, 0, 0
        rest = []
        for axis, factor in index.terms:
            if axis not in self._places:
                rest.append((axis, factor))
                continue
            value, extent = self._places[axis]
            scaled = value if factor == 1 else self.mul(value, self.const(factor, I64))
            total = scaled if total is None else self.add(total, scaled)
            low, high = low + min(0, factor * (extent - 1)), high + max(0, factor * (extent - 1))
        assert total is not None
        return Affine(index.const, tuple(rest)), total, (low, high)

    def range_of(self, index: Affine, extents: dict[str, int]) -> tuple[int, int]:
        """The least and the largest value of an index, for axes of given extents."""
        low = high = index.const
        for axis, factor in index.terms:
            extent = self._places[axis][1] if axis in self._places else extents[axis]
            reach = factor * max(0, extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def position(self, index: Affine, dtype: Any = I64) -> Value:
        """The value of an index, wrapped around to an integer dtype."""
        dtype = np.dtype(dtype)
        total = None
        for axis, factor in index.terms:
            found = self._places.get(axis)
            term = self.cast(self.index(axis) if found is None else found[0], dtype)
            if factor != 1:
                term = self.mul(term, self.wrapped(factor, dtype))
            total = term if total is None else self.add(total, term)
        if total is None:
            return self.wrapped(index.const, dtype)
        return self.add(total, self.wrapped(index.const, dtype)) if index.const else total

    def wrapped(self, number: int, dtype: np.dtype) -> Value:
        """An integer constant, wrapped around."""
        if type(number) is Size:
            return self.const(number, dtype)
        return self.const(np.array(number, np.int64).astype(dtype), dtype)

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
        if x.op == "const" and y.op == "const" and x.dtype.kind in "iu":
            # divisors that are known are often compared with 0
            known = [np.frombuffer(v.attr, v.dtype)[0] for v in (x, y)]
            return self.const(getattr(operator, op)(*known), BOOL)
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
        return self._bound("min", x, y)

    def max(self, x: Value, y: Value) -> Value:
        """The larger; NaN if either is, -0 below 0."""
        return self._bound("max", x, y)

    def _bound(self, op: str, x: Value, y: Value) -> Value:
        if x.op == "const" and y.op == "const" and x.dtype == y.dtype and x.dtype.kind in "iu":
            # places that are known are clamped to where an array is
            known = [np.frombuffer(v.attr, v.dtype)[0] for v in (x, y)]
            return self.const(min(known) if op == "min" else max(known), x.dtype)
        return self._same(op, x, y)

    def and_(self, x: Value, y: Value) -> Value:
        return self._logic("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self._logic("or", x, y)

    def _logic(self, op: str, x: Value, y: Value) -> Value:
        for known, other in ((x, y), (y, x)):
            if known.op == "const" and known.dtype == other.dtype == BOOL:
                # true or y is true, true and y is y
                return known if (known.attr != b"\0") == (op == "or") else other
        return self._same(op, x, y)

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

    def select(self, condition: Value, yes: Any, no: Any) -> Any:
        if condition.dtype != BOOL or yes.dtype != no.dtype:
            raise TypeError(f"select of {condition.dtype}, {yes.dtype} and {no.dtype}")
        if type(yes) is Parts:
            pairs = zip(yes.parts, no.parts, strict=True)
            return Parts(yes.dtype, tuple(self.select(condition, a, b) for a, b in pairs))
        if yes is no:
            return yes
        if condition.op == "const":
            return yes if condition.attr != b"\0" else no
        return self.make("select", (condition, yes, no), yes.dtype)

    def rarely(self, condition: Value, yes: Value, no: Value) -> Value:
        """`select` of what few elements need: a backend may look first whether any does."""
        return self.make("select", (condition, yes, no), yes.dtype, "rare")

    def cast(self, x: Value, dtype: Any) -> Value:
        """Conversion by value; a float that does not fit an integer saturates, NaN becomes 0."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.op == "const" and x.dtype.kind in "iu" and dtype.kind in "iu":
            return self.const(np.frombuffer(x.attr, x.dtype)[0].astype(dtype), dtype)
        return self.make("cast", (x,), dtype)

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
