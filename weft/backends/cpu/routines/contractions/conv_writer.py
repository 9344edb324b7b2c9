"""LLVM text of convolutions and windows while it is written: loops, indices, reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.backends.llvm import code
from weft.backends.llvm.code import Module, Parameter
from weft.backends.llvm.text.instructions import memory_type
from weft.backends.llvm.text.render import Function
from weft.base.sizes import is_one
from weft.kernel.nodes import BF16, F16

_I16 = np.dtype(np.int16)


def stored(dtype: np.dtype) -> np.dtype:
    """What elements are moved as: LLVM does not know every operation on halves in vectors."""
    return _I16 if dtype in (BF16, F16) else dtype


class Text(Function):
    """The text of one task's function while it is written."""

    freezes = False

    def __init__(
        self,
        pointers: Sequence[int],
        name: str = "",
        parameters: tuple[Parameter, ...] = (),
        fields: Sequence[str] = (),
    ) -> None:
        """``pointers`` are the numbers of the buffers used, after which there is a table of
        ``fields``, if any. With a name, the function is one that the task's calls."""
        super().__init__(None, 1)  # type: ignore[arg-type]  # it is no kernel
        self.name, self.parameters = name, parameters
        self.attributes: tuple[str, ...] = ("#0",)
        self.last_block = ""  # the last block of what was done under a condition
        for i in pointers:
            at = self.emit(f"getelementptr ptr, ptr %buffers, i64 {i}")
            self.line(f"%b{i} = load ptr, ptr {at}")
        for i, field in enumerate(fields):
            at = self.emit(f"getelementptr ptr, ptr %buffers, i64 {len(pointers)}")
            at = self.emit(f"getelementptr i64, ptr {self.emit(f'load ptr, ptr {at}')}, i64 {i}")
            self.line(f"%{field} = load i64, ptr {at}, align 8")

    loop = Function.carry

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """What is done only under a condition."""
        self.count += 1
        yes, end = f"then{self.count}", f"after{self.count}"
        self.line(f"br i1 {condition}, label %{yes}, label %{end}")
        self.label(yes)
        body()
        self.last_block = self.block
        self.line(f"br label %{end}")
        self.label(end)

    def indices(self, item: str, counts: Sequence[int | str]) -> list[str]:
        """An item's number as an index along each axis."""
        found = []
        for n in reversed(counts[1:]):
            if is_one(n):
                found.append("0")
            else:
                found.append(self.emit(f"urem i64 {item}, {n}"))
                item = self.emit(f"udiv i64 {item}, {n}")
        return [item, *reversed(found)] if counts else []

    def scaled(self, index: str, factor: int | str) -> str:
        """An index times a number, or one that is read."""
        if index[0] != "%":
            index, factor = str(factor), index
        if index[0] != "%":
            return str(int(index) * int(factor))
        factor = str(factor)
        if factor == "0":
            return "0"
        return index if factor == "1" else self.emit(f"mul i64 {index}, {factor}")

    def total(self, terms: Sequence[str]) -> str:
        """The sum of indices."""
        number = sum(int(term) for term in terms if term[0] != "%")
        out = ""
        for term in terms:
            if term[0] == "%":
                out = self.emit(f"add i64 {out}, {term}") if out else term
        if not out or not number:
            return out or str(number)
        return self.emit(f"add i64 {out}, {number}")

    def less(self, index: int | str, other: str) -> str:
        """An index less another."""
        return str(index) if other == "0" else self.emit(f"sub i64 {index}, {other}")

    def least(self, index: str, limit: int | str) -> str:
        """The smaller of an index and a number."""
        below = self.emit(f"icmp slt i64 {index}, {limit}")
        return self.emit(f"select i1 {below}, i64 {index}, i64 {limit}")

    def at(self, pointer: str, offset: str, dtype: np.dtype) -> str:
        """The address of an element."""
        if offset == "0":
            return pointer
        return self.emit(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {offset}")

    def read(self, pointer: str, dtype: np.dtype, stride: int = 1) -> str:
        """Elements from a place on, which are so far apart."""
        kept = stored(dtype)
        if stride == 1 or self.lanes == 1:
            value = self.emit(f"load {self.type_of(kept)}, ptr {pointer}, align {dtype.itemsize}")
        elif stride < self.lanes:
            value = self.picked(pointer, kept, stride)
        else:
            value = self.inserted(pointer, kept, stride)
        if kept == dtype:
            return value
        return self.emit(f"bitcast {self.type_of(kept)} {value} to {self.type_of(dtype)}")

    def inserted(self, pointer: str, dtype: np.dtype, stride: int) -> str:
        """Elements with a stride, read one by one."""
        width, kind, value = self.lanes, self.type_of(dtype), "poison"
        self.lanes = 1
        for i in range(width):
            one = self.read(self.at(pointer, str(i * stride), dtype), dtype)
            value = self.emit(f"insertelement {kind} {value}, {self.type_of(dtype)} {one}, i64 {i}")
        self.lanes = width
        return value

    def picked(self, pointer: str, dtype: np.dtype, stride: int) -> str:
        """Elements with a stride, picked out of as few vectors as hold them."""
        width, kind = self.lanes, self.type_of(dtype)
        value, done, known = "poison", 0, list(range(width))
        while done < width:
            start = min(done * stride, (width - 1) * (stride - 1))  # nothing after the last is read
            part = self.read(self.at(pointer, str(start), dtype), dtype)
            upto = min(width, (start + width - 1) // stride + 1)
            places = range(done * stride - start, upto * stride - start, stride)
            if not done:
                value, known = part, list(places)
            else:
                order = [*known[:done], *(width + n for n in places)]
                mask = [f"i32 {n}" for n in order] + ["i32 poison"] * (width - upto)
                value = self.emit(
                    f"shufflevector {kind} {value}, {kind} {part},"
                    f" <{width} x i32> <{', '.join(mask)}>"
                )
                known = list(range(width))
            done = upto
        return value

    def write(self, value: str, pointer: str, dtype: np.dtype) -> None:
        kept = stored(dtype)
        if kept != dtype:
            value = self.emit(f"bitcast {self.type_of(dtype)} {value} to {self.type_of(kept)}")
        self.line(f"store {self.type_of(kept)} {value}, ptr {pointer}, align {dtype.itemsize}")

    def sum_of_lanes(self, dtype: np.dtype, x: str) -> str:
        """The lanes of a vector added up, in whatever order is fastest."""
        kind, one, first, add = self.type_of(dtype), memory_type(dtype), "", "add"
        if dtype.kind == "f":
            first, add = f"{one} -0.0, ", "fadd"
        name = f"@llvm.vector.reduce.{add}.{self.suffix(dtype)}"
        self.declared[name] = f"declare {one} {name}({f'{one}, ' if first else ''}{kind})"
        return self.emit(f"call {'reassoc ' * bool(first)}{one} {name}({first}{kind} {x})")

    def copy(self, source: str, target: str, size: int | str) -> None:
        """Copy so many bytes."""
        name = "@llvm.memcpy.p0.p0.i64"
        self.declared[name] = f"declare void {name}(ptr, ptr, i64, i1)"
        self.line(f"call void {name}(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def clear(self, target: str, size: int) -> None:
        """Make so many bytes zero."""
        name = "@llvm.memset.p0.i64"
        self.declared[name] = f"declare void {name}(ptr, i8, i64, i1)"
        self.line(f"call void {name}(ptr {target}, i8 0, i64 {size}, i1 false)")

    def scatter(self, value: str, pointer: str, dtype: np.dtype, stride: int | str) -> None:
        """A vector's elements, each to a place of its own."""
        width, kept = self.lanes, stored(dtype)
        if kept != dtype:
            value = self.emit(f"bitcast {self.type_of(dtype)} {value} to {self.type_of(kept)}")
        kind = self.type_of(kept)
        self.lanes = 1
        for i in range(width):
            one = self.emit(f"extractelement {kind} {value}, i64 {i}")
            self.write(one, self.at(pointer, self.scaled(str(i), stride), kept), kept)
        self.lanes = width

    def function(self) -> code.Function:
        """One that the task's function calls."""
        given = (code.RANGE[0], *self.parameters)
        return self.own(self.name, given)._replace(internal=True)

    def own(self, name: str, given: tuple[Parameter, ...]) -> code.Function:
        """The function, when its body is written."""
        lines = ("entry:", *self.lines, "  ret void")
        return code.Function(name, given, lines, attributes=self.attributes)

    def finish(self, name: str, called: Sequence[Text] = ()) -> Module:
        """The module of a task's function and those that it calls."""
        declared: dict[str, str] = {}
        for text in (*called, self):
            declared |= text.declared
        functions = [*[text.function() for text in called], self.own(name, code.RANGE)]
        return Module(functions, declared, groups=("attributes #0 = { nounwind }",))


class Coded(Text):
    """A function of machine code, whose last parameters are the numbers ``given``."""

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], binary: bytes, given: Sequence[str]
    ) -> None:
        super().__init__((), name, parameters)
        self.binary, self.given = binary, given

    def called(self, text: Text, arguments: Sequence[str]) -> None:
        """Write a call of it."""
        text.call_function(self.name, [*arguments, *[f"i64 {n}" for n in self.given]])

    def function(self) -> code.Function:
        # what LLVM writes at its entry never gets to the body
        given = (*self.parameters, *[Parameter("i64")] * len(self.given))
        bits = "".join([f"\\{byte:02X}" for byte in self.binary])
        prologue = f'align 64 prologue [{len(self.binary)} x i8] c"{bits}"'
        return self.own(self.name, given)._replace(prologue=prologue)
