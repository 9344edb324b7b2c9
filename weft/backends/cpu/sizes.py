"""Sizes that a native function reads from a table, so that it does for arrays of any size.

Operations outside of compiled functions are made so: a new shape finds the code of the last one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from weft.base.sizes import Size
from weft.kernel.kernel import Kernel, Loop, Reduce, statements
from weft.kernel.nodes import Value, walk

# Constants beyond it are no sizes but patterns of bits.
MAX_SIZE = 1 << 30
# Operations on parts of numbers. Where there are any, constants up to some are widths of bits;
# otherwise few are sizes. Beyond the last they are patterns of bits.
_PARTS = frozenset(["shl", "lshr", "ashr", "xor", "bitcast", "mulhi"])
_MAX_BIT_WIDTH, _MAX_FIXED_NUMBER, _MIN_BIT_PATTERN = 128, 8, 1 << 27
# Numbers up to which those of short rows are written into code that is for rows so short.
MAX_FIXED_IN_ROWS = 64
# Operations that are quick where an operand of theirs is written into the code.
_WRITTEN = frozenset(["shl", "lshr", "ashr", "div", "rem", "mulhi"])


def read_sizes(numbers: Sequence[int], buffers: int | None, first: str = "%buffers") -> list[str]:
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

    def __init__(self, kernel: Kernel, small: bool, named: bool = False) -> None:
        self.small = small
        self.named = named
        self.grid = kernel.grid[0] if kernel.grid else ""
        self.places: dict[Any, int] = {}
        self.numbers: list[int] = []
        self.vectors: dict[Any, str] = {}
        self.masks: dict[Any, str] = {}
        self.buffers = sum(b.role != "row" for b in kernel.buffers)
        self.free = frozenset() if named else _constants(kernel, small)
        self.rows: dict[str, str] = {}  # axes of short rows, by those that count them

    def name(self, number: int, *purpose: Any) -> str:
        """How a number is written: itself, if it says more than how large something is."""
        if self.named:
            if type(number) is not Size:
                return str(number)
            purpose = ()
        elif -1 <= number <= 1 or (self.rows and self._is_short(number, *purpose)):
            return str(number)
        place = self.places.setdefault((purpose, number), len(self.places))
        if place == len(self.numbers):
            self.numbers.append(number)
        return f"%sized{place}"

    def _is_short(self, number: int, purpose: Any, axis: Any = None, *_: Any) -> bool:
        """Whether a number is the length of a short row, or a distance in it."""
        if purpose == "extent":
            return axis in self.rows.values()
        of_rows = axis in self.rows or axis in self.rows.values()
        return of_rows and abs(number) <= MAX_FIXED_IN_ROWS

    def constant(self, number: int, kind: str, lanes: int, *purpose: Any) -> str | None:
        """A number of some integer type in all lanes; None where it is written as it is."""
        if self.named or not (MAX_FIXED_IN_ROWS if self.rows else 1) < abs(number) < MAX_SIZE:
            return None
        return self.vector(number, kind, lanes, *purpose)

    def vector(self, number: int, kind: str, lanes: int, *purpose: Any) -> str:
        """A number that is read, as one of some integer type in all lanes."""
        key = (self.name(number, *purpose), kind, lanes)
        return self.vectors.setdefault(key, f"{key[0]}.{kind}.{lanes}")

    def mask(self, size: str, before: int, lanes: int) -> str:
        """Which lanes, of some after so many, are before a size that is read."""
        return self.masks.setdefault((size, before, lanes), f"{size}.{before}.{lanes}")

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
        for (size, before, lanes), name in self.masks.items():
            vector = f"<{lanes} x i32>"
            order = ", ".join(f"i32 {i}" for i in range(before, before + lanes))
            lines.append(f"  {name}.one = trunc i64 {size} to i32")
            lines.append(f"  {name}.at = insertelement {vector} poison, i32 {name}.one, i64 0")
            lines.append(
                f"  {name}.all = shufflevector {vector} {name}.at, {vector} poison,"
                f" {vector} zeroinitializer"
            )
            lines.append(f"  {name} = icmp slt {vector} <{order}>, {name}.all")
        return lines


def _constants(kernel: Kernel, small: bool) -> frozenset[int]:
    """The numbers of the integer constants that may be read: bounds, and places in arrays.

    Where there are many elements, of those of arithmetic on integers, which has many of them, only
    what may well be a size.
    """
    every = list(statements(kernel.body))
    roots = [v for s in every if type(s) is not Loop for v in s.operands]
    values = walk(roots)
    counts = any(type(s) is Reduce and s.dtype.kind in "iu" for s in every)
    counts = counts or any(_counts(v, small) for v in values)
    counts = counts or any(v.op == "const" for v in roots)
    if small and not counts:
        return frozenset()
    whole = [v for v in values if v.op == "const" and v.dtype.kind in "iu"]
    parts = any(v.op in _PARTS for v in values)
    if not small and (parts or not counts):
        known = {b.size for b in kernel.buffers}
        known.update([n for n in _extents(kernel) if n > _MAX_FIXED_NUMBER])
        known.update([n - 1 for n in known if n > _MAX_FIXED_NUMBER])  # the last place
        most = _MAX_BIT_WIDTH if parts else _MAX_FIXED_NUMBER
        whole = [v for v in whole if _may_be_size(v, known, most)]
        # much follows from what is computed of constants alone, unless that is of sizes
        alone = [v for v in values if v.args and all(a.op == "const" for a in v.args)]
        fixed = {a.number for v in alone for a in v.args}
        given = {b.size for b in kernel.buffers if b.role == "in"}
        whole = [v for v in whole if v.number not in fixed or _number(v) in given]
    found = {v.number for v in whole if v.dtype.itemsize >= 4}
    read = {a.number for v in values if not is_written(v, small, kernel) for a in v.args}
    read.update(v.number for v in roots)
    return frozenset(found & read)


def is_written(v: Value, small: bool, kernel: Kernel) -> bool:
    """Whether an operation has its constants written into the code.

    Few elements are divided by what is read, unless that is done by shifts; many, where it is how
    many there are of something.
    """
    if v.op not in _WRITTEN:
        return False
    below = v.args[-1]
    if v.op not in ("div", "rem") or v.dtype.itemsize != 4 or below.op != "const":
        return True
    number = int.from_bytes(below.attr, sys.byteorder)
    if v.dtype.kind not in "iu" or number.bit_count() == 1:
        return True
    return not small and all(number != b.size for b in kernel.buffers)


def _extents(kernel: Kernel) -> list[int]:
    """How often the loops of a kernel run."""
    found = [n for _, n in kernel.axes] + [
        s.extent for s in statements(kernel.body) if type(s) is Loop
    ]
    return found if kernel.grid is None else [*found, kernel.grid[1]]


def _number(v: Value) -> int:
    """How large a whole constant is, without its sign."""
    return abs(int.from_bytes(v.attr, sys.byteorder, signed=v.dtype.kind == "i"))


def _may_be_size(v: Value, known: set[int], least: int) -> bool:
    """Whether a number is a known size, or is not small and no pattern of bits."""
    number = _number(v)
    if number in known:
        return True
    return least < number < _MIN_BIT_PATTERN and number & (number - 1) != 0 != number & (number + 1)


def _counts(v: Value, small: bool) -> bool:
    """Whether a value is a whole number that was given, or is at a place that was computed."""
    return v.op == "index" or (
        v.op == "load" and (bool(v.args) or (small and v.dtype.kind in "iu"))
    )
