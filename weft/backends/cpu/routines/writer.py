"""LLVM text written by hand-made algorithms: functions, loops and constants, no optimiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from weft.backends.llvm.text.instructions import Instructions, constant_text
from weft.backends.llvm.text.stub import translate
from weft.base.sizes import is_one
from weft.kernel.kinds import KINDS

Number = str | int


class Module:
    """The text of a module: constants, functions of its own, and the kernel."""

    def __init__(self) -> None:
        self.constants: list[str] = []
        self.declared: dict[str, str] = {}
        self.functions: dict[str, str] = {}

    def constant(self, array: np.ndarray) -> str:
        """The name of a constant with an array's bytes."""
        name = f"@constant{len(self.constants)}"
        self.constants.append(constant_text(name, array))
        return name

    def text(self) -> str:
        """The whole module."""
        return "\n".join([*self.constants, *self.declared.values(), *self.functions.values(), ""])


class Function(Instructions):
    """One function while it is written: values are names, integers are ``i64``."""

    def __init__(self, module: Module, name: str, parameters: str, private: bool = True) -> None:
        super().__init__()
        self.module, self.declared = module, module.declared
        self.name = name
        linkage = "internal " if private else ""
        self.lines += [f"define {linkage}void @{name}({parameters}) #0 {{", "entry:"]

    def without_care(self) -> None:
        """Leave out all that makes code fast, where others do the work: the module has parts."""
        self.lines[0] = self.lines[0].replace(" #0 {", " noinline optnone #0 {")

    def close(self) -> str:
        """Add the function to its module; its name there."""
        self.line("ret void")
        self.module.functions[self.name] = "\n".join([*self.lines, "}"])
        return f"@{self.name}"

    def call_stub(self, stub: Callable[..., Any], *given: Number, **names: Any) -> str:
        """What a stub of pointers and integers returns, which becomes a function of the module."""
        *kinds, result = stub.__annotations__.values()
        if stub.__name__ not in self.module.functions:
            text = translate([stub], names).partition("\n")[2]
            self.module.functions[stub.__name__] = text.replace("define ", "define internal ")
        words = ", ".join(f"{kind} {value}" for kind, value in zip(kinds, given, strict=True))
        if result == "void":
            self.line(f"call void @{stub.__name__}({words})")
            return ""
        return self.emit(f"call {KINDS[result].llvm} @{stub.__name__}({words})")

    def declare(self, name: str, result: str, parameters: str) -> str:
        self.module.declared[name] = f"declare {result} @{name}({parameters})"
        return f"@{name}"

    # --- integers ---------------------------------------------------------------------------------

    def add(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.emit(f"add i64 {a}, {b}")

    def sub(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.emit(f"sub i64 {a}, {b}")

    def mul(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.emit(f"mul i64 {a}, {b}")

    def div(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if is_one(b) else self.emit(f"udiv i64 {a}, {b}")

    def rem(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return 0 if is_one(b) else self.emit(f"urem i64 {a}, {b}")

    def smaller(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        less = self.emit(f"icmp slt i64 {a}, {b}")
        return self.emit(f"select i1 {less}, i64 {a}, i64 {b}")

    # --- memory -----------------------------------------------------------------------------------

    def pointer(self, index: int) -> str:
        """The pointer that the kernel's buffers hold at a place."""
        at = self.emit(f"getelementptr ptr, ptr %buffers, i64 {index}")
        return self.emit(f"load ptr, ptr {at}, align 8")

    def at(self, pointer: str, offset: Number) -> str:
        """A pointer so many bytes further."""
        if offset == 0:
            return pointer
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, align: int) -> str:
        return self.emit(f"load {kind}, ptr {pointer}, align {align}")

    def store(self, kind: str, value: str, pointer: str, align: int) -> None:
        self.line(f"store {kind} {value}, ptr {pointer}, align {align}")

    def local(self, size: int) -> str:
        """Memory on the stack; to be asked for before any loop."""
        return self.emit(f"alloca [{size} x i8], align 64")

    # --- control ----------------------------------------------------------------------------------

    @contextmanager
    def carried(
        self, start: Number, stop: Number, values: Sequence[tuple[str, Number]], step: int = 1
    ) -> Iterator[tuple[str, list[str], list[Number]]]:
        """A loop with values that go from one turn to the next: index, values, and what they
        become.

        The names of the values stand for the last ones after the loop.
        """
        self.count += 1
        n = self.count
        names = [f"%k{n}.{i}" for i in range(len(values))]
        nexts: list[Number] = list(names)
        self.line(f"br label %head{n}")
        before = self.block
        self.label(f"head{n}")
        place = len(self.lines)
        self.line(f"%c{n} = icmp slt i64 %i{n}, {stop}")
        self.line(f"br i1 %c{n}, label %body{n}, label %done{n}")
        self.label(f"body{n}")
        yield f"%i{n}", names, nexts
        self.line(f"%n{n} = add i64 %i{n}, {step}")
        self.line(f"br label %head{n}")
        end = self.block
        phis = [f"  %i{n} = phi i64 [ {start}, %{before} ], [ %n{n}, %{end} ]"]
        for (kind, first), name, after in zip(values, names, nexts, strict=True):
            phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {after}, %{end} ]")
        self.lines[place:place] = phis
        self.label(f"done{n}")

    @contextmanager
    def loop(self, start: Number, stop: Number, step: int = 1) -> Iterator[str]:
        """Instructions repeated for an index from ``start`` while it is below ``stop``."""
        with self.carried(start, stop, [], step) as (index, _, _):
            yield index

    def unless(self, condition: str | bool) -> AbstractContextManager[bool]:
        """The same where it does not hold."""
        if isinstance(condition, bool):
            return self.when(not condition)
        return self.when(self.emit(f"xor i1 {condition}, true"))

    def either(
        self,
        condition: str | bool,
        kind: str,
        first: Callable[[], list[str]],
        second: Callable[[], list[str]],
    ) -> list[str]:
        """The values of a type that one of two pieces of code gives."""
        if isinstance(condition, bool):
            return first() if condition else second()
        self.count += 1
        n = self.count
        self.line(f"br i1 {condition}, label %first{n}, label %second{n}")
        found: list[list[str]] = []
        ends: list[str] = []
        for label, write in ((f"first{n}", first), (f"second{n}", second)):
            self.label(label)
            found.append(write())
            ends.append(self.block)
            self.line(f"br label %both{n}")
        self.label(f"both{n}")
        return [
            self.emit(f"phi {kind} [ {a}, %{ends[0]} ], [ {b}, %{ends[1]} ]")
            for a, b in zip(*found, strict=True)
        ]


def kernel(module: Module, name: str) -> Function:
    """The function that the pool calls."""
    return Function(module, name, "ptr %buffers, i64 %start, i64 %stop", private=False)
