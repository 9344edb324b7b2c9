"""Functions of single numbers, written as stubs, as values of a kernel.

Branches become choices and loops serial loops, which go on as long as an element needs them. What
a stub may have here: numbers, a table to read from, one number on the stack, calls of other such
stubs and of the mathematics; no ``continue``, and no ``return`` inside of a loop.
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.base import syntax
from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel import math
from weft.kernel.build import Builder
from weft.kernel.kernel import Carry, Serial
from weft.kernel.kinds import External, Kind
from weft.kernel.lowering import read
from weft.kernel.nodes import BOOL, I64, Value
from weft.kernel.straight import statics_of

_DTYPES = {
    f"{c}{8 * n}": np.dtype(f"{c}{n}") for c in "iuf" for n in (1, 2, 4, 8) if c + str(n) != "f1"
}
_FOLDED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OPS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "div",
    ast.Mod: "rem",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_MATHEMATICS: dict[str, Callable[..., Value]] = {
    "sqrt": Builder.sqrt,
    "floor": Builder.floor,
    "power": math.pow,
    **{name: getattr(math, name) for name in "exp log log1p expm1 erfc digamma erf_inv".split()},
}
# Iterations of a loop up to which it is written out.
_FEW_ITERATIONS = 2


class Table(Record):
    """A buffer of numbers that a stub reads."""

    buffer: int
    size: int


class Cell:
    """A number on the stack."""

    def __init__(self) -> None:
        self.value: Any = None


@lru(256)
def _tree(f: Callable[..., Any]) -> ast.FunctionDef:
    found = syntax.parse(textwrap.dedent(inspect.getsource(f))).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


class Translator:
    """The statements of a kernel while stubs become part of it."""

    def __init__(self, k: Builder, names: Mapping[str, Any]) -> None:
        self.k = k
        self.names = names
        self.body: list[Any] = []  # serial loops, in order
        self.symbols = 0
        self.live: Value | None = None  # elements that need what is computed; None for all

    def call(self, f: Callable[..., Any], args: Sequence[Any]) -> Any:
        """The result of a stub."""
        return _Frame(self, f, args).run()


class _Frame:
    """One call of a stub."""

    def __init__(self, translator: Translator, f: Callable[..., Any], args: Sequence[Any]) -> None:
        self.t, self.k, self.tree = translator, translator.k, _tree(f)
        static = statics_of(f, translator.names)
        self.names = {**f.__globals__, **translator.names, **static}
        parameters = self.tree.args.args
        self.variables: dict[str, Any] = {}
        for a, value in zip(parameters, args, strict=True):
            assert isinstance(a.annotation, ast.Name)
            dtype = _DTYPES.get(a.annotation.id)
            self.variables[a.arg] = value if dtype is None else self.typed(value, dtype)
        self.result: Any = None
        self.done: Value | None = None  # elements that have returned
        self.path: Value | None = None  # elements that come here
        self.ended = False
        self.broken: list[Value | None] = []  # of each loop around: elements that have left it

    def run(self) -> Any:
        outside = self.t.live
        self.block(self.tree.body)
        self.t.live = outside
        returns = self.tree.returns
        assert isinstance(returns, ast.Name)
        dtype = _DTYPES.get(returns.id)
        return self.result if dtype is None else self.typed(self.result, dtype)

    # --- masks ------------------------------------------------------------------------------------

    def both(self, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return y if x is None else x
        return self.k.and_(x, y)

    def either(self, x: Value | None, y: Value) -> Value:
        return y if x is None else self.k.or_(x, y)

    def inverse(self, x: Value) -> Value:
        return self.k.not_(x)

    def going(self) -> Value | None:
        """Elements that need what comes next."""
        found = self.both(self.t.live, self.path)
        return found if self.done is None else self.both(found, self.inverse(self.done))

    # --- statements -------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if self.ended:
                return
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                self.value(node.value)
        elif isinstance(node, ast.Assign):
            self.assign(node.targets[0], self.value(node.value))
        elif isinstance(node, ast.Return):
            assert node.value is not None
            self.returned(self.value(node.value))
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, (ast.For, ast.While)):
            self.loop(node)
        elif isinstance(node, ast.Break):
            self.broken[-1] = self.either(self.broken[-1], self.known(self.path))
            self.path = self.k.const(False, BOOL)
        else:
            raise TypeError(f"{self.tree.name}: no such statement: {ast.unparse(node)}")

    def known(self, mask: Value | None) -> Value:
        return self.k.const(True, BOOL) if mask is None else mask

    def returned(self, value: Any) -> None:
        if self.done is None:
            self.result = value
        elif self.path is None:
            self.result = self.chosen(self.done, self.result, value)
        else:
            now = self.both(self.path, self.inverse(self.done))
            self.result = self.chosen(now, value, self.result)
        if self.path is None:
            self.ended = True
        else:
            self.done = self.either(self.done, self.path)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Subscript):
            assert isinstance(target.slice, ast.Tuple)
            cell = self.value(target.slice.elts[0])
            assert isinstance(cell, Cell)
            old = cell.value
            cell.value = (
                value if old is None or self.path is None else self.chosen(self.path, value, old)
            )
            return
        assert isinstance(target, ast.Name)
        old = self.variables.get(target.id)
        if old is not None and self.path is not None:
            value = self.chosen(self.path, value, old)
        elif isinstance(old, Value):
            value = self.typed(value, old.dtype)
        self.variables[target.id] = value

    def branch(self, node: ast.If) -> None:
        test = self.condition(node.test)
        if isinstance(test, bool):
            self.block(node.body if test else node.orelse)
            return
        outside, broken = self.path, self.broken[-1] if self.broken else None
        for taken, body in ((test, node.body), (self.inverse(test), node.orelse)):
            if body:
                self.path = self.both(outside, taken)
                self.block(body)
        self.path = outside
        left = self.broken[-1] if self.broken else None
        if left is not None and left is not broken:
            self.path = self.both(outside, self.inverse(left))

    # --- loops ------------------------------------------------------------------------------------

    def loop(self, node: ast.For | ast.While) -> None:
        breaks = any(isinstance(n, ast.Break) for n in ast.walk(node))
        if isinstance(node, ast.While):
            self.repeat(node.body, None, lambda: self.condition(node.test), 0)
            return
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        given = [self.value(a) for a in node.iter.args]
        low, high = (0, given[0]) if len(given) == 1 else given[:2]
        step = given[2] if len(given) > 2 else 1
        low, high = self.number(low), self.number(high)
        if isinstance(low, int) and isinstance(high, int) and not breaks:
            self.counted(node, range(low, high, step))
            return
        name = node.target.id
        compare = "lt" if step > 0 else "gt"

        def test() -> Value:
            return getattr(self.k, compare)(self.variables[name], self.typed(high, I64))

        self.variables[name] = self.typed(low, I64)
        self.repeat(node.body, name, test, step)

    def number(self, value: Any) -> Any:
        """A value as a Python number, where it is a constant."""
        if isinstance(value, Value) and value.op == "const" and value.dtype == I64:
            return int(np.frombuffer(value.attr, I64)[0])
        return value

    def assigned(self, body: Sequence[ast.stmt]) -> list[str]:
        """Variables that a loop changes and that are there before it."""
        found: dict[str, None] = {}
        for node in ast.walk(ast.Module(list(body), [])):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = None
        return [name for name in found if name in self.variables]

    def carry(self, names: Sequence[str]) -> tuple[list[int], list[Value]]:
        """What a loop begins with; inside, the variables are what it carries."""
        symbols, initial = [], []
        for name in names:
            value = self.variables[name]
            value = value if isinstance(value, Value) else self.k.const(value, np.float64)
            symbols.append(self.t.symbols)
            initial.append(value)
            self.variables[name] = self.k.make("acc", (), value.dtype, self.t.symbols)
            self.t.symbols += 1
        return symbols, initial

    def counted(self, node: ast.For, turns: range) -> None:
        """A loop over known numbers: a serial axis, or written out."""
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        if len(turns) <= _FEW_ITERATIONS:
            for turn in turns:
                self.variables[name] = self.k.const(turn, I64)
                self.block(node.body)
            return
        names, outside = self.assigned(node.body), self.t.body
        symbols, initial = self.carry(names)
        axis = f"t{self.t.symbols}"
        self.t.symbols += 1
        place = self.k.mul(self.k.index(axis), self.k.const(turns.step, I64))
        self.variables[name] = self.k.add(place, self.k.const(turns.start, I64))
        self.t.body, path = [], self.path
        self.path = None
        self.block(node.body)
        carried = [
            Carry(s, v, self.typed(self.variables[n], v.dtype))
            for s, v, n in zip(symbols, initial, names, strict=True)
        ]
        outside.append(Serial(tuple(carried), self.t.body, axis, len(turns)))
        self.t.body = outside
        self.after(names, symbols, initial, path)

    def repeat(
        self, body: Sequence[ast.stmt], counter: str | None, test: Callable[[], Any], step: int
    ) -> None:
        """A loop until a test fails or it is left."""
        k, path, outside, live = self.k, self.path, self.t.body, self.t.live
        needed = self.going()
        names = [*self.assigned(body), *([counter] if counter else [])]
        symbols, initial = self.carry(names)
        left = self.t.symbols
        self.t.symbols += 1
        leaving = k.make("acc", (), BOOL, left)
        self.t.body, self.path = [], None
        self.broken.append(None)
        goes = test()
        condition = self.inverse(leaving)
        if isinstance(goes, Value):
            condition = k.and_(condition, goes)
        if needed is not None:
            condition = k.and_(condition, needed)
        self.t.live = None  # those that go round are all that count inside
        self.block(body)
        broken = self.broken.pop()
        if counter:
            self.variables[counter] = k.add(self.variables[counter], k.const(step, I64))
        carried = [
            Carry(s, v, self.typed(self.variables[n], v.dtype))
            for s, v, n in zip(symbols, initial, names, strict=True)
        ]
        never = k.const(False, BOOL)
        carried.append(Carry(left, never, never if broken is None else broken))
        outside.append(Serial(tuple(carried), self.t.body, None, 0, condition))
        self.t.body, self.t.live = outside, live
        self.after(names, symbols, initial, path)

    def after(self, names: Any, symbols: Any, initial: Any, path: Value | None) -> None:
        """The variables behind a loop; elements that did not come to it keep what they had."""
        self.path = path
        for name, symbol, value in zip(names, symbols, initial, strict=True):
            found = self.k.make("acc", (), value.dtype, symbol)
            self.variables[name] = found if path is None else self.k.select(path, found, value)

    # --- expressions ------------------------------------------------------------------------------

    def typed(self, value: Any, dtype: np.dtype) -> Value:
        """A number as a value."""
        if isinstance(value, Value):
            assert value.dtype == dtype, (self.tree.name, value, dtype)
            return value
        return self.k.const(value, dtype)

    def same(self, x: Any, y: Any) -> tuple[Value, Value]:
        dtype = x.dtype if isinstance(x, Value) else y.dtype
        return self.typed(x, dtype), self.typed(y, dtype)

    def chosen(self, test: Any, yes: Any, no: Any) -> Any:
        if not isinstance(yes, Value) and not isinstance(no, Value):
            yes = self.k.const(yes, np.float64)
        return self.k.select(test, *self.same(yes, no))

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.variables[node.id] if node.id in self.variables else self.names[node.id]
        if isinstance(node, ast.BinOp):
            return self.operation(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp):
            value = self.value(node.operand)
            if isinstance(node.op, ast.Not):
                return not value if isinstance(value, bool) else self.inverse(value)
            return self.k.neg(value) if isinstance(value, Value) else -value
        if isinstance(node, (ast.Compare, ast.BoolOp)):
            return self.condition(node)
        if isinstance(node, ast.IfExp):
            test = self.condition(node.test)
            yes, no = self.value(node.body), self.value(node.orelse)
            if isinstance(test, bool):
                return yes if test else no
            return self.chosen(test, yes, no)
        if isinstance(node, ast.Subscript):
            return self.element(node)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return self.call(node.func.id, [self.value(a) for a in node.args])

    def operation(self, op: ast.AST, x: Any, y: Any) -> Any:
        if not isinstance(x, Value) and not isinstance(y, Value):
            return _FOLDED[type(op)](x, y)
        return getattr(self.k, _OPS[type(op)])(*self.same(x, y))

    def condition(self, node: ast.expr) -> Any:
        """A test, as a value or as what is known of it."""
        if isinstance(node, ast.Compare):
            left, right = self.value(node.left), self.value(node.comparators[0])
            return self.operation(node.ops[0], left, right)
        if not isinstance(node, ast.BoolOp):
            return self.value(node)
        whole = isinstance(node.op, ast.And)
        found: Any = None
        for part in node.values:
            test = self.condition(part)
            if isinstance(test, bool):
                if test != whole:
                    return test
                continue
            join = self.k.and_ if whole else self.k.or_
            found = test if found is None else join(found, test)
        return whole if found is None else found

    def element(self, node: ast.Subscript) -> Any:
        assert isinstance(node.slice, ast.Tuple) and isinstance(node.value, ast.Name)
        base, place = (self.value(e) for e in node.slice.elts)
        if isinstance(base, Cell):
            return base.value
        assert isinstance(base, Table)
        dtype = _DTYPES[node.value.id]
        return read(self.k, base.buffer, dtype, self.typed(place, I64), base.size)

    def call(self, name: str, args: list[Any]) -> Any:
        k = self.k
        if name == "stack":
            return Cell()
        if name in ("min", "max"):
            x, y = self.same(*args)
            return k.select((k.lt if name == "min" else k.gt)(x, y), x, y)
        known = self.names.get(name)
        if isinstance(known, External) or name in _MATHEMATICS:
            given = [self.typed(a, np.dtype(np.float64)) for a in args]
            return _MATHEMATICS[name](k, *given)
        if isinstance(known, Kind):
            dtype = _DTYPES[known.name]
            (value,) = args
            return k.cast(value, dtype) if isinstance(value, Value) else k.const(value, dtype)
        outside = self.t.live
        self.t.live = self.going()
        assert known is not None
        found = self.t.call(known, args)
        self.t.live = outside
        return found
