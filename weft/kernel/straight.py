"""Stubs of ``values``: straight code that Python runs, which is written where a stub calls it.

Operators of a value write the instruction and are its result, so that lists, loops over given
numbers, and calls of other such stubs are Python's own. What is done depends on nothing but what is
given: ``select`` chooses by a comparison, and branches and loops are for the stubs that call them
or that they call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from weft.base.record import Record
from weft.kernel.kinds import External, Intrinsic, Kind, i64, ptr, values


class StubError(TypeError):
    """A stub that cannot be translated: a mistake of ours."""


class Operand(Record):
    """A value in the text; a number written out has no kind yet."""

    text: str
    kind: Kind | None


class Value:
    """A value in the text of a function."""

    __slots__ = ("kind", "text", "writer")

    def __init__(self, writer: Any, text: str, kind: Kind) -> None:
        self.writer, self.text, self.kind = writer, text, kind

    def made(self, text: str, kind: Kind) -> Value:
        return Value(self.writer, self.writer.emit(text), kind)

    def like(self, other: Any) -> Value:
        """Another value of the same kind."""
        if type(other) is not Value:
            return Value(self.writer, self.writer.written(other, self.kind), self.kind)
        if other.kind is not self.kind:
            raise TypeError(f"{other.kind} where {self.kind} belongs")
        return other

    def combined(self, word: str, other: Any) -> Value:
        """What an instruction makes of two values of one kind."""
        kind, other = self.kind, self.like(other)
        word = f"f{word}" if kind.family == "float" else word
        return self.made(f"{word} {kind.llvm} {self.text}, {other.text}", kind)

    def compared(self, order: type, other: Any) -> Value:
        found = self.writer.compared(order, self, self.like(other), self.kind)
        return Value(self.writer, found.text, found.kind)

    def __add__(self, other: Any) -> Value:
        if self.kind is not ptr:
            return self.combined("add", other)
        if type(other) is not Value and other == 0:
            return self
        text = other.text if type(other) is Value else other
        return self.made(f"getelementptr i8, ptr {self.text}, i64 {text}", ptr)

    def __sub__(self, other: Any) -> Value:
        return self.combined("sub", other)

    def __mul__(self, other: Any) -> Value:
        return self.combined("mul", other)

    def __lshift__(self, other: Any) -> Value:
        return self.combined("shl", other)

    def __rshift__(self, other: Any) -> Value:
        return self.combined("ashr" if self.kind.family == "signed" else "lshr", other)

    def __and__(self, other: Any) -> Value:
        return self.combined("and", other)

    def __or__(self, other: Any) -> Value:
        return self.combined("or", other)

    def __xor__(self, other: Any) -> Value:
        return self.combined("xor", other)

    def __truediv__(self, other: Any) -> Value:
        return self.combined("div", other)

    def __neg__(self) -> Value:
        if self.kind.family != "float":
            return self.like(0) - self
        return self.made(f"fneg {self.kind.llvm} {self.text}", self.kind)

    def __invert__(self) -> Value:
        return self ^ -1

    def __gt__(self, other: Any) -> Value:
        return self.compared(ast.Gt, other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self.compared(ast.Eq, other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self.compared(ast.NotEq, other)


class Memory:
    """A kind: what is in memory, and conversions."""

    def __init__(self, writer: Any, kind: Kind) -> None:
        self.writer, self.kind = writer, kind

    def place(self, base: Value, number: Any) -> str:
        if type(number) is not Value:
            return (base + number * self.kind.size).text
        assert number.kind is i64
        text = f"getelementptr {self.kind.llvm}, ptr {base.text}, i64 {number.text}"
        return base.made(text, ptr).text

    def __getitem__(self, at: tuple[Value, Any]) -> Value:
        kind = self.kind
        text = f"load {kind.llvm}, ptr {self.place(*at)}, align {kind.lane.size}"
        return at[0].made(text, kind)

    def __setitem__(self, at: tuple[Value, Any], value: Value) -> None:
        kind = self.kind
        assert value.kind is kind
        text = f"store {kind.llvm} {value.text}, ptr {self.place(*at)}, align {kind.lane.size}"
        self.writer.line(text)

    def __call__(self, value: Any) -> Value:
        if type(value) is not Value:
            return Value(self.writer, self.writer.written(value, self.kind), self.kind)
        found = self.writer.convert(value, self.kind, None)
        return Value(self.writer, found.text, found.kind)


def is_straight(f: Any) -> bool:
    return isinstance(f, FunctionType) and f.__annotations__.get("return") in (values, values.name)


def static_names(f: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a stub that are known when it is translated."""
    code = f.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def statics_of(f: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What the static parameters of a stub are."""
    names = static_names(f)
    missing = [name for name in names if name not in given]
    if missing:
        raise StubError(f"{f.__name__} is not given {', '.join(missing)}")
    return {name: given[name] for name in names}


class Straight:
    """Straight code of one function while that is written."""

    def __init__(self, writer: Any, given: dict[str, Any], stubs: dict[str, External]) -> None:
        self.writer, self.given, self.stubs = writer, given, stubs
        self.scopes: dict[int, dict[str, Any]] = {}  # what names of modules stand for

    def call(self, f: Any, args: list[Any]) -> Any:
        """What a stub makes of operands and lists of them."""

        def inside(x: Any) -> Any:
            if isinstance(x, list):
                return [inside(one) for one in x]
            return Value(self.writer, x.text, x.kind) if x.kind else number_of(x.text)

        def outside(x: Any) -> Any:
            return Operand(x.text, x.kind) if isinstance(x, Value) else [outside(one) for one in x]

        found = self.runnable(f)(*map(inside, args))
        return None if found is None else outside(found)

    def runnable(self, f: Any) -> Any:
        """A stub as a function of values."""
        known = self.scopes.get(id(f.__globals__))
        if known is None:
            names = f.__globals__ | self.given
            known = self.scopes[id(f.__globals__)] = names | _WORDS
            for name, x in names.items():
                if type(x) is Kind:
                    known[name] = Memory(self.writer, x)
                elif type(x) is Intrinsic:
                    known[name] = self.instruction(x)
                elif is_straight(x):
                    known[name] = self.runnable(x)
                elif name in self.stubs or type(x) is External:
                    known[name] = self.function(name, self.stubs.get(name, x))
        static = static_names(f)
        if any(name not in self.given for name in static):
            return lambda *args: statics_of(f, self.given)  # an error, if it is called
        made = FunctionType(f.__code__, known)
        made.__kwdefaults__ = {name: known[name] for name in static}
        return made

    def function(self, name: str, known: External) -> Callable[..., Value | None]:
        """A stub that is not straight, or a function outside, for straight code to call."""
        writer = self.writer

        def call(*args: Any) -> Value | None:
            given = [(a.text, a.kind) if type(a) is Value else (str(a), None) for a in args]
            found = writer.called(writer.tree, name, known, [Operand(*x) for x in given])
            return Value(writer, found.text, found.kind) if found.text else None

        return call

    def instruction(self, known: Intrinsic) -> Callable[..., Value]:
        writer = self.writer

        def call(*args: Any) -> Value:
            kind = next(a.kind for a in args if type(a) is Value)
            given = [a if type(a) is Value else Memory(writer, kind)(a) for a in args]
            found = writer.instruction(known, given)
            return Value(writer, found.text, found.kind)

        return call


def number_of(text: str) -> int | float:
    """A number that is written out."""
    return float(text) if "." in text or "e" in text else int(text)


def _invoke(kind: Memory, function: Value, *args: Value) -> Value | None:
    given = ", ".join([f"{x.kind.llvm} {x.text}" for x in args])
    found = function.writer.result(kind.kind, f"call {kind.kind.llvm} {function.text}({given})")
    return Value(function.writer, found.text, found.kind) if found.text else None


def _shuffle(x: Value, y: Value, lanes: Any) -> Value:
    text = x.writer.shuffle(x.kind.llvm, x.text, y.text, lanes)
    return Value(x.writer, text, x.kind.lane.of(len(lanes)))


def _select(test: Value, x: Any, y: Any) -> Value:
    x = x if type(x) is Value else y.like(x)
    kind, other = x.kind.llvm, x.like(y).text
    return x.made(f"select {test.kind.llvm} {test.text}, {kind} {x.text}, {kind} {other}", x.kind)


# What words of the stub language are in straight code.
_WORDS = {"shuffle": _shuffle, "select": _select, "invoke": _invoke}
