"""Named sizes that a kernel's function reads from a table, so that it serves arrays of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.sizes import Size, plain
from weft.kernel.kernel import Kernel

# Elements of all buffers of a kernel up to which its text is the same for all sizes, wherever that
# can be; in larger ones short rows have other vectors.
MAX_SMALL_ELEMENTS = 1 << 13


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
    """The table of one kernel's function while that is written."""

    def __init__(self, kernel: Kernel) -> None:
        self.small = plain(sum(b.size for b in kernel.buffers)) <= MAX_SMALL_ELEMENTS
        self.grid = kernel.grid[0] if kernel.grid else ""
        self.places: dict[Size, int] = {}
        self.numbers: list[Size] = []
        self.vectors: dict[Any, str] = {}
        self.buffers = sum(b.role != "row" for b in kernel.buffers)

    def name(self, number: Any) -> str:
        """How a number is written: itself, unless it is read."""
        if type(number) is not Size:
            return str(number)
        place = self.places.setdefault(number, len(self.places))
        if place == len(self.numbers):
            self.numbers.append(number)
        return f"%sized{place}"

    def known(self, name: str) -> Size | None:
        """The size of a name under which one is read."""
        return next((size for size, i in self.places.items() if name == f"%sized{i}"), None)

    def vector(self, number: Size, kind: str, lanes: int) -> str:
        """A number that is read, as one of some integer type in all lanes."""
        key = (self.name(number), kind, lanes)
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
