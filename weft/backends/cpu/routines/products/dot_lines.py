"""LLVM text that all kernels of products have in common: loops, numbers, tables, outer axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.backends.llvm.text.instructions import SUFFIXES, Instructions
from weft.base.record import Record
from weft.kernel.nodes import BF16, F16, F32, F64

FLOATS = {"float": F32, "double": F64, "half": F16, "bfloat": BF16}
BATCH = 3  # outer axes, each with a size and the strides of lhs, rhs and result


class Shape(Record):
    """What fixes the text of a product."""

    work: str  # the type of sums and of the operands in memory, such as "float"
    out: str  # the type of the result in memory
    lanes: int
    rows: int  # of a tile
    width: int  # vectors of a tile


def bytes_of(kind: str) -> int:
    """The size in memory of an LLVM type."""
    return FLOATS[kind].itemsize if kind in FLOATS else int(kind[1:]) // 8


def is_floating(kind: str) -> bool:
    return kind[0] != "i"


class Lines(Instructions):
    """Instructions of one function under construction."""

    def __call__(self, text: str) -> None:
        self.line(text)

    def at(self, pointer: str, *offsets: str) -> str:
        """A pointer moved by bytes."""
        for offset in offsets:
            pointer = self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return pointer

    def loop(self, name: str, low: str, high: str) -> None:
        """Open a loop whose counter is ``%name`` and whose latch sets ``%name.next``."""
        before = f"{name}.before"
        self(f"br label %{before}")
        self.label(before)
        some = self.emit(f"icmp slt i64 {low}, {high}")
        self(f"br i1 {some}, label %{name}.body, label %{name}.done")
        self.label(f"{name}.body")
        self(f"%{name} = phi i64 [ {low}, %{before} ], [ %{name}.next, %{name}.latch ]")

    def close(self, name: str, high: str, step: str) -> None:
        self(f"br label %{name}.latch")
        self.label(f"{name}.latch")
        # frozen: LLVM looks for no other counters then, which takes it long and gains nothing
        self(f"%{name}.next = freeze i64 {self.emit(f'add i64 {step}')}")
        self(f"%{name}.more = icmp slt i64 %{name}.next, {high}")
        self(f"br i1 %{name}.more, label %{name}.body, label %{name}.done")
        self.label(f"{name}.done")


# --- numbers --------------------------------------------------------------------------------------


def vector_of(kind: str, lanes: int) -> str:
    """A vector type."""
    return f"<{lanes} x {kind}>"


def memory_kind(kind: str) -> str:
    """The type that is loaded and stored: bfloat goes through integers on every processor."""
    return "i16" if kind == "bfloat" else kind


def dtype_of(kind: str, signed: bool = True) -> np.dtype:
    """The dtype of numbers of an LLVM type."""
    return FLOATS[kind] if is_floating(kind) else np.dtype(f"{'iu'[not signed]}{bytes_of(kind)}")


def convert(f: Lines, have: str, want: str, x: str, lanes: int, signed: bool = True) -> str:
    """Vectors of numbers of one type as those of another, rounded once."""
    f.lanes = lanes
    if lanes > 1 or have == want:
        return f.cast(dtype_of(have, signed), dtype_of(want), x)
    one = f.emit(f"extractelement {vector_of(memory_kind(have), 1)} {x}, i32 0")
    y = f.cast(dtype_of(have, signed), dtype_of(want), one)
    kind = memory_kind(want)
    return f.emit(f"insertelement {vector_of(kind, 1)} poison, {kind} {y}, i32 0")


def multiply_add(f: Lines, kind: str, lanes: int, a: str, b: str, c: str) -> str:
    """The product of vectors added to another."""
    vector = vector_of(kind, lanes)
    if not is_floating(kind):
        return f.emit(f"add {vector} {f.emit(f'mul {vector} {a}, {b}')}, {c}")
    name = f"@llvm.fma.v{lanes}{SUFFIXES[kind]}"
    f.declared[name] = f"declare {vector} {name}({vector}, {vector}, {vector})"
    return f.emit(f"call {vector} {name}({vector} {a}, {vector} {b}, {vector} {c})")


# --- tasks ----------------------------------------------------------------------------------------


def load_table(f: Lines, number: int, fields: tuple[str, ...]) -> None:
    """Every number of the table in a buffer as ``%field``."""
    f(f"%table = load ptr, ptr {f.at('%buffers', str(8 * number))}, align 8")
    for i, field in enumerate(fields):
        at = f.at("%table", str(8 * i))
        f(f"%{field} = load i64, ptr {at}, align 8")


def pointers(f: Lines, names: tuple[str, ...]) -> None:
    """The buffers of a task by name."""
    for i, name in enumerate(names):
        at = f.at("%buffers", str(8 * i))
        f(f"%{name} = load ptr, ptr {at}, align 8")


def least(f: Lines, a: str, b: str) -> str:
    f.lanes = 1
    return f.call("smin", np.dtype(np.int64), [a, b])


def locate(f: Lines, index: str, offsets: dict[str, str]) -> dict[str, str]:
    """Pointers moved to an outer index, the last axis running fastest.

    What begins with "0" is no pointer: it becomes the number of bytes or elements it is moved by.
    """
    moved = dict(offsets)
    for axis in reversed(range(BATCH)):
        inside, index = (
            f.emit(f"urem i64 {index}, %size{axis}"),
            f.emit(f"udiv i64 {index}, %size{axis}"),
        )
        for name in moved:
            step = f.emit(f"mul i64 {inside}, %{name}{axis}")
            if offsets[name] == "0":
                moved[name] = f.emit(f"add i64 {moved[name]}, {step}")
            else:
                moved[name] = f.at(moved[name], step)
    return moved


def unit_of(f: Lines) -> tuple[str, str, str]:
    """The numbers of a unit of work, ``%u``: its blocks of columns and rows, its outer index."""
    column_block = f.emit("urem i64 %u, %column_blocks")
    rest = f.emit("udiv i64 %u, %column_blocks")
    row_block = f.emit(f"urem i64 {rest}, %row_blocks")
    return column_block, row_block, f.emit(f"udiv i64 {rest}, %row_blocks")


def function(f: Lines, name: str, own: Sequence[str] = (), how: str = "#0") -> str:
    """The module of a task: declarations and other functions come before it."""
    head = f"define void @{name}(ptr %buffers, i64 %start, i64 %stop) {how} {{"
    declared = dict.fromkeys(x for x in (*own, *f.declared.values()) if x.startswith("declare "))
    rest = [x for x in own if x not in declared]
    return "\n".join([*declared, *rest, head, "entry:", *f.lines, "}", ""])


def zeros(kind: str, name: str) -> str:
    """A task that clears numbers: the only buffer is the result."""
    f = Lines()
    pointers(f, ("out",))
    f.loop("u", "%start", "%stop")
    at = f.at("%out", f.emit(f"mul i64 %u, {bytes_of(kind)}"))
    f(f"store i{8 * bytes_of(kind)} 0, ptr {at}, align {bytes_of(kind)}")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    return function(f, name)
