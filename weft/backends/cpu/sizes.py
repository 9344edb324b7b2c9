"""Sizes that a native function reads from a table, so that it does for arrays of any size.

Operations outside of compiled functions are made so: a new shape finds the code of the last one.
"""

from __future__ import annotations

from typing import Any

from weft.kernel.kernel import Kernel, Loop, Reduce, statements
from weft.kernel.nodes import Value, walk

# Constants beyond it are no sizes but patterns of bits.
LARGEST = 1 << 30
# Operations that are quick where an operand of theirs is written into the code.
WRITTEN = frozenset(["shl", "lshr", "ashr", "div", "rem", "mulhi"])


def read_sizes(numbers: range, buffers: int | None, first: str = "%buffers") -> list[str]:
    """Lines that read some sizes from a table behind so many buffers, unless it is there."""
    lines = []
    if buffers is not None:
        lines.append(f"  %sized.at = getelementptr ptr, ptr {first}, i64 {buffers}")
        lines.append("  %sized = load ptr, ptr %sized.at, align 8")
    for i in numbers:
        lines.append(f"  %sized{i}.at = getelementptr i64, ptr %sized, i64 {i}")
        lines.append(f"  %sized{i} = load i64, ptr %sized{i}.at, align 8")
    return lines


class Sizes:
    """The table of one function while that is written: numbers by what they are for.

    The same number for another purpose is another entry, as it would not be the same in arrays of
    another shape. ``small`` says that a function is for few elements.
    """

    def __init__(self, kernel: Kernel, small: bool) -> None:
        self.small = small
        self.places: dict[Any, int] = {}
        self.numbers: list[int] = []
        self.vectors: dict[Any, str] = {}
        self.buffers = sum(b.role != "row" for b in kernel.buffers)
        self.free = _constants(kernel, small)

    def name(self, number: int, *purpose: Any) -> str:
        """How a number is written: itself, if it says more than how large something is."""
        if -1 <= number <= 1:
            return str(number)
        place = self.places.setdefault((purpose, number), len(self.places))
        if place == len(self.numbers):
            self.numbers.append(number)
        return f"%sized{place}"

    def constant(self, number: int, kind: str, lanes: int, *purpose: Any) -> str | None:
        """A number of some integer type in all lanes; None where it is written as it is."""
        if not 1 < abs(number) < LARGEST:
            return None
        key = (self.name(number, *purpose), kind, lanes)
        return self.vectors.setdefault(key, f"{key[0]}.{kind}.{lanes}")

    def head(self) -> list[str]:
        """The lines that a function begins with."""
        if not self.numbers:
            return []
        lines = read_sizes(range(len(self.numbers)), self.buffers)
        for (size, kind, lanes), name in self.vectors.items():
            narrow = f"trunc i64 {size} to {kind}" if kind != "i64" else f"add i64 {size}, 0"
            if lanes == 1:
                lines.append(f"  {name} = {narrow}")
                continue
            vector = f"<{lanes} x {kind}>"
            lines.append(f"  {name}.one = {narrow}")
            lines.append(f"  {name}.at = insertelement {vector} poison, {kind} {name}.one, i64 0")
            lines.append(
                f"  {name} = shufflevector {vector} {name}.at, {vector} poison,"
                f" <{lanes} x i32> zeroinitializer"
            )
        return lines


def _constants(kernel: Kernel, small: bool) -> frozenset[int]:
    """The numbers of the integer constants that may be read: bounds, and places in arrays.

    Where there are many elements, not those of arithmetic on integers, which has many of them.
    """
    every = list(statements(kernel.body))
    roots = [v for s in every if type(s) is not Loop for v in s.operands]
    values = walk(roots)
    counts = any(type(s) is Reduce and s.dtype.kind in "iu" for s in every)
    if (
        not counts
        and not any(_counts(v, small) for v in values)
        and all(v.op != "const" for v in roots)
    ):
        return frozenset()
    whole = [v for v in values if v.op == "const" and v.dtype.kind in "iu"]
    found = {v.number for v in whole if v.dtype.itemsize >= 4}
    read = {a.number for v in values if v.op not in WRITTEN for a in v.args}
    read.update(v.number for v in roots)
    return frozenset(found & read)


def _counts(v: Value, small: bool) -> bool:
    """Whether a value is a whole number that was given, or is at a place that was computed."""
    return v.op == "index" or (
        v.op == "load" and (bool(v.args) or (small and v.dtype.kind in "iu"))
    )
