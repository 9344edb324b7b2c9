"""What a kernel must be: checked before a backend sees it.

A backend trusts its kernel, and LLVM ends the process over what it cannot compile; here a mistake
of ours becomes an error that names the statement.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.base.sizes import Size
from weft.kernel.kernel import Affine, Atomic, Barrier, Kernel, Loop, Reduce, Serial, Store
from weft.kernel.nodes import (
    BOOL,
    COMPARE,
    FLOAT_ONLY,
    I32,
    I64,
    INTEGER_ONLY,
    NEIGHBOURS,
    SAME,
    UNARY,
    Across,
    Value,
    is_float,
    is_integer,
    walk,
)

ROLES = ("in", "out", "row")
_BITS = frozenset(["and", "or", "xor"])
_REDUCTIONS = _BITS | {"add", "mul", "min", "max"}
_ATOMICS = frozenset(["add", "mul", "min", "max"])


class KernelError(RuntimeError):
    """A kernel that is not well formed: a mistake in the compiler, not in the user's program."""


def verify(kernel: Kernel) -> None:
    """Raise `KernelError` where types, axes, bounds or the order of statements are wrong."""
    _Check(kernel).run()


class _Check:
    """One kernel's verification: which axes are open and which reductions are complete."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.axes: dict[str, int] = {}
        self.whole: dict[str, tuple[str, int, int]] = {}  # pieces: outer axis, extent, in all
        self.complete: dict[int, np.dtype] = {}
        self.symbols: set[int] = set()
        self.operations: set[int] = set()  # numbers of those already found right

    def fail(self, what: str) -> None:
        raise KernelError(f"internal error: kernel {self.kernel.name}: {what}")

    def run(self) -> None:
        if not self.kernel.name.isidentifier():
            self.fail(f"its name {self.kernel.name!r} is not one")
        for i, b in enumerate(self.kernel.buffers):
            if not isinstance(b.dtype, np.dtype) or not _known(b.dtype):
                self.fail(f"buffer b{i} holds {b.dtype}, which no kernel can")
            if b.role not in ROLES or b.size < 0:
                self.fail(f"buffer b{i} has role {b.role!r} and {b.size} elements")
        if self.kernel.grid is not None:
            self.grid(*self.kernel.grid)
        self.block(self.kernel.body)

    def grid(self, axis: str, extent: int) -> None:
        if not self.kernel.axes:
            self.open(axis, extent)
            return
        for name, n in self.kernel.axes:
            self.open(name, n)
        if prod(n for _, n in self.kernel.axes) != extent:
            self.fail(f"its grid of {extent} does not count {self.kernel.axes}")

    def open(self, axis: str, extent: int) -> None:
        if axis in self.axes:
            self.fail(f"axis {axis} runs inside itself")
        if extent < 0:
            self.fail(f"axis {axis} has extent {extent}")
        self.axes[axis] = extent

    def block(self, body: list[Any]) -> None:
        """Statements in order; what one of them reduces is complete once it is over."""
        pending: dict[int, np.dtype] = {}
        for s in body:
            if isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Reduce):
                self.reduce(s)
                pending[s.symbol] = s.dtype
            elif isinstance(s, (Serial, Atomic, Barrier)) and self.kernel.serial:
                self.ordered(s)
            else:
                self.fail(f"{type(s).__name__} is no statement here")
        self.complete.update(pending)

    def loop(self, s: Loop) -> None:
        self.open(s.axis, s.extent)
        if s.whole is not None:
            self.piece(s, *s.whole)
        self.block(s.body)
        self.whole.pop(s.axis, None)
        del self.axes[s.axis]
        for symbol in s.carries:
            if symbol not in self.complete:
                self.fail(f"the loop over {s.axis} carries s{symbol}, which nothing in it reduces")

    def ordered(self, s: Serial | Atomic | Barrier) -> None:
        """A statement that only kernels marked as serial have."""
        if isinstance(s, Barrier):
            return
        if isinstance(s, Atomic):
            if s.op not in _ATOMICS or s.value.dtype == BOOL:
                self.fail(f"b{s.buffer} is combined by {s.op} of {s.value.dtype}")
            if s.mask is not None and s.mask.dtype != BOOL:
                self.fail(f"b{s.buffer} is combined where {s.mask.dtype} says")
            self.store(Store(s.buffer, s.at, s.value, s.offset, s.reach))
            if s.mask is not None:
                self.value(s.mask)
            return
        for c in s.carried:
            if c.symbol in self.symbols or c.initial.dtype != c.after.dtype:
                self.fail(f"s{c.symbol} is carried twice, or as two types")
            self.symbols.add(c.symbol)
            self.value(c.initial)
        outside = dict(self.complete)
        self.complete.update((c.symbol, c.initial.dtype) for c in s.carried)
        if s.axis is not None:
            self.open(s.axis, s.extent)
        if (s.axis is None) == (s.condition is None):
            self.fail("a serial loop has either an axis or a condition")
        if s.condition is not None:
            self.value(s.condition)
            if s.condition.dtype != BOOL:
                self.fail(f"a serial loop goes on while {s.condition.dtype} says")
        self.block(s.body)
        for c in s.carried:
            self.value(c.after)
        if s.axis is not None:
            del self.axes[s.axis]
        # what its body has computed is not known behind it
        self.complete = outside | {c.symbol: c.initial.dtype for c in s.carried}

    def piece(self, s: Loop, outer: str, total: int) -> None:
        count = self.axes.get(outer)
        if count is None or s.extent < 1 or count != -(-total // s.extent):
            self.fail(f"axis {s.axis} is a piece of {total} iterations counted by {outer}")
        self.whole[s.axis] = (outer, s.extent, total)

    def store(self, s: Store) -> None:
        buffer = self.buffer(s.buffer)
        if buffer.role == "in":
            self.fail(f"it writes b{s.buffer}, which it may only read")
        if s.value.dtype != buffer.dtype:
            self.fail(f"b{s.buffer} of {buffer.dtype} is given {s.value.dtype}")
        if s.marks is not None and (s.value.dtype != BOOL or s.at.terms or s.offset is not None):
            self.fail(f"b{s.buffer} is marked, which needs a condition and one place")
        self.bounds(s.buffer, s.at, s.reach)
        self.value(s.value)
        if s.offset is not None:
            self.value(s.offset)
            if s.offset.dtype != I64:
                self.fail(f"b{s.buffer} is written at an offset of {s.offset.dtype}")

    def reduce(self, s: Reduce) -> None:
        if s.symbol in self.symbols:
            self.fail(f"s{s.symbol} is reduced twice")
        self.symbols.add(s.symbol)
        if s.op not in _REDUCTIONS or (s.op in _BITS and is_float(s.dtype)):
            self.fail(f"s{s.symbol} is reduced by {s.op} of {s.dtype}")
        if s.value.dtype != s.dtype:
            self.fail(f"s{s.symbol} of {s.dtype} combines {s.value.dtype}")
        self.value(s.value)

    def buffer(self, i: int) -> Any:
        if not 0 <= i < len(self.kernel.buffers):
            self.fail(f"b{i} is not among its {len(self.kernel.buffers)} buffers")
        return self.kernel.buffers[i]

    def bounds(self, i: int, index: Any, reach: tuple[int, int] = (0, 0)) -> None:
        """The range of an affine index lies in its buffer, unless a loop around it is empty.

        ``reach`` is the range of what is added to it from data.
        """
        if not isinstance(index, Affine):
            self.fail(f"b{i} is indexed by {index!r}")
        low, high = index.const + reach[0], index.const + reach[1]
        terms = dict(index.terms)
        for axis, (outer, extent, total) in self.whole.items():
            # pieces side by side reach no further than what they are pieces of
            factor, step = terms.get(axis, 0), terms.get(outer, 0)
            if factor == 0 or step * (1 if factor > 0 else -1) < abs(factor) * extent:
                continue
            del terms[axis]
            terms[outer] = step - factor * extent
            low, high = _reached(low, high, factor, total)
        for axis, factor in terms.items():
            count = self.axes.get(axis) if factor else 1
            if count is None:
                self.fail(f"b{i}[{index}] uses {axis}, over which no loop runs")
            else:
                low, high = _reached(low, high, factor, count)
        size = self.buffer(i).size
        if (low < 0 or high >= size) and all(self.axes.values()):
            self.fail(f"b{i}[{index}] reaches from {low} to {high} of {size} elements")

    def value(self, root: Value) -> None:
        for v in walk([root]):
            if v.number in self.operations:
                continue
            leaf = not v.args or v.op == "load"
            problem = self.leaf(v) if leaf else self.operation(v)
            if problem:
                self.fail(f"{problem}, in {v!r}")
            if not leaf:
                self.operations.add(v.number)

    def operation(self, v: Value) -> str | None:
        """What is wrong with an operation."""
        if v.op != "across":
            return operation_problem(v)
        axes = self.kernel.grid_axes
        if not self.kernel.serial or not axes or axes[-1][1] != NEIGHBOURS:
            return f"neighbours are {NEIGHBOURS} iterations of the last axis of a grid"
        first, *others = [x.dtype for x in v.args]
        known = type(v.attr) is Across and (v.attr.op in _REDUCTIONS or v.attr.op == "get")
        wanted = [I32] if known and v.attr.op == "get" else []
        return None if known and first == v.dtype and others == wanted else f"{v.attr} of {first}"

    def leaf(self, v: Value) -> str | None:
        """What is wrong with a load, or a value without operands."""
        if v.op == "const":
            sized = isinstance(v.attr, bytes) and len(v.attr) == v.dtype.itemsize
            return None if sized else f"a constant of {v.dtype} is {v.attr!r}"
        if v.op == "size":
            return None if type(v.attr) is Size else f"a size is {v.attr!r}"
        if v.op == "load":
            buffer = self.buffer(v.attr[0])
            self.bounds(*v.attr)
            if v.args and (len(v.args) != 1 or v.args[0].dtype != I64 or len(v.attr) != 3):
                return f"b{v.attr[0]} is read at an offset that is no int64"
            return None if buffer.dtype == v.dtype else f"{v.dtype} loaded from {buffer.dtype}"
        if v.op == "index":
            return None if v.attr in self.axes and v.dtype == I64 else f"no axis {v.attr} is open"
        if v.op == "acc":
            known = self.complete.get(v.attr)
            return None if known == v.dtype else f"s{v.attr} of {v.dtype} is not complete here"
        return f"{v.op} without operands"


def _reached(low: int, high: int, factor: int, count: int) -> tuple[int, int]:
    """A range as far as steps along an axis reach from it."""
    span = factor * (count - 1)
    return (low, high + span) if factor > 0 else (low + span, high)


def _known(dtype: np.dtype) -> bool:
    return is_float(dtype) or is_integer(dtype) or dtype == BOOL


def operation_problem(v: Value) -> str | None:
    """What is wrong with an operation, by the types of its operands and its result."""
    op, kinds = v.op, [a.dtype for a in v.args]
    first = kinds[0]
    if not all(_known(k) for k in [*kinds, v.dtype]):
        return f"{op} of {', '.join(k.name for k in kinds)}"
    if op in FLOAT_ONLY and not is_float(first):
        return f"{op} of {first}"
    if op in INTEGER_ONLY and not is_integer(first):
        return f"{op} of {first}"
    if op in _BITS and is_float(first):
        return f"{op} of {first}"
    wanted = _signature(op, kinds, v.dtype)
    if wanted is None:
        return f"{op} is no operation"
    if (kinds, v.dtype) != wanted:
        given = ", ".join(k.name for k in kinds)
        return f"{op} of {given} gives {v.dtype}"
    return None


def _signature(
    op: str, kinds: list[np.dtype], result: np.dtype
) -> tuple[list[np.dtype], np.dtype] | None:
    """Operand types and the result type that an operation has, given its first operand."""
    first = kinds[0]
    if op in SAME or op == "mulhi":
        return [first, first], first
    if op in UNARY:
        return [first], first
    if op in COMPARE:
        return [first, first], BOOL
    if op == "isnan":
        return [first], BOOL
    if op == "fma":
        return [first] * 3, first
    if op == "select":
        return [BOOL, result, result], result
    if op == "cast":
        return [first], result
    if op == "bitcast":
        return ([first], result) if first.itemsize == result.itemsize else ([], result)
    return None
