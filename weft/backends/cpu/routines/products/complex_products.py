"""Products of complex numbers along axes, by code that is the same for all shapes.

Kernels reduce complex numbers by sums alone. Compiled functions multiply neighbours until one is
left, which is another program for each number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.code import Module
from weft.backends.llvm.native import processor
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.base.functional import lru
from weft.base.sizes import computed, plain
from weft.kernel.program import Type

# Vectors of products that do not wait for each other, bytes of a chunk of tasks, and numbers from
# which on columns are cut into strands, however many there are.
CHAINS, CHUNK_BYTES, LONG_COLUMN = 4, 1 << 16, 4096
NAME = "product"


def _times(text: Text, kind: np.dtype, a: Sequence[str], x: Sequence[str]) -> list[str]:
    """The product of complex numbers, or of vectors of them."""
    of = text.type_of(kind)
    both = text.emit(f"fneg {of} {text.emit(f'fmul {of} {a[1]}, {x[1]}')}")
    real = text.call("fmuladd", kind, [a[0], x[0], both])
    both = text.emit(f"fmul {of} {a[1]}, {x[0]}")
    return [real, text.call("fmuladd", kind, [a[0], x[1], both])]


@lru(8)
def columns_module(kind: np.dtype, lanes: int) -> Module:
    """A task over vectors of columns: buffers are numbers, products and the table. The last ones
    overlap."""
    text, unit = Text((0, 1), fields=("rows", "width", "step", "blocks")), CHAINS * lanes
    numbers = [", ".join(f"i32 {2 * i + k}" for i in range(lanes)) for k in range(2)]
    order = ", ".join(f"i32 {i + k * lanes}" for i in range(lanes) for k in range(2))

    def load(place: str) -> list[str]:
        found = []
        for c in range(CHAINS):
            text.lanes = 2 * lanes
            x, of = text.read(text.at(place, str(2 * lanes * c), kind), kind), text.type_of(kind)
            for some in numbers:
                mask = f"<{lanes} x i32> <{some}>"
                found.append(text.emit(f"shufflevector {of} {x}, {of} poison, {mask}"))
        text.lanes = lanes
        return found

    def item(number: str, _: list[str]) -> list[str]:
        outer, block = text.indices(number, ["", "%blocks"])
        first = text.least(text.scaled(block, unit), text.less("%width", str(unit)))
        place = text.scaled(text.total([text.scaled(outer, "%step"), first]), 2)
        source, found = text.at("%b0", place, kind), text.scaled(outer, "%width")

        def row(i: str, held: list[str]) -> list[str]:
            text.lanes = 1
            x = load(text.at(source, text.scaled(text.scaled(i, "%width"), 2), kind))
            pairs = range(0, 2 * CHAINS, 2)
            return [y for c in pairs for y in _times(text, kind, held[c : c + 2], x[c : c + 2])]

        held = load(source)
        of = text.type_of(kind)
        held = text.loop("1", "%rows", [(of, x) for x in held], row, once=False)
        target = text.at("%b1", text.scaled(text.total([found, first]), 2), kind)
        for c in range(CHAINS):
            pair, mask = f"{of} {held[2 * c]}, {of} {held[2 * c + 1]}", f"<{2 * lanes} x i32>"
            text.lanes = 2 * lanes
            x = text.emit(f"shufflevector {pair}, {mask} <{order}>")
            text.write(x, text.at(target, str(2 * lanes * c), kind), kind)
        text.lanes = 1
        return []

    text.loop("%start", "%stop", [], item, once=False)
    return text.finish(NAME)


@lru(8)
def strands_module(kind: np.dtype) -> Module:
    """A task over columns, whose products are those of their strands and of what these leave:
    buffers are numbers, products of strands, products and the table."""
    text = Text((0, 1, 2), fields=("strands", "many", "step", "first", "rest", "inner"))
    of = text.type_of(kind)

    def item(number: str, _: list[str]) -> list[str]:
        outer, column = text.indices(number, ["", "%inner"])
        begin = text.total([text.scaled(outer, "%many"), column])
        strands = text.at("%b1", text.scaled(begin, 2), kind)
        begin = text.total([text.scaled(outer, "%step"), "%first", column])
        rest = text.at("%b0", text.scaled(begin, 2), kind)
        some = text.emit("icmp sgt i64 %strands, 0")

        def load(place: str, index: str) -> tuple[str, str]:
            at = text.at(place, text.scaled(text.scaled(index, "%inner"), 2), kind)
            return text.read(at, kind), text.read(text.at(at, "1", kind), kind)

        def chain(place: str, low: str, high: str, held: Any) -> list[str]:
            body = lambda i, held: _times(text, kind, held, load(place, i))
            return text.loop(low, high, [(of, x) for x in held], body, once=False)

        held: Sequence[str] = load(text.emit(f"select i1 {some}, ptr {strands}, ptr {rest}"), "0")
        low = text.emit(f"select i1 {some}, i64 0, i64 1")
        held = chain(rest, low, "%rest", chain(strands, "1", "%strands", held))
        target = text.at("%b2", text.scaled(number, 2), kind)
        for i, x in enumerate(held):
            text.write(x, text.at(target, str(i), kind), kind)
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(NAME)


def _strands(n: int, unit: int) -> int:
    """Strands that a column of so many numbers is cut into: none, or some units of them."""
    return unit * max(1, isqrt(n) // (2 * unit)) if n >= unit else 0


def _rows(n: int, unit: int) -> int:
    """The numbers of a strand."""
    return n // max(1, _strands(n, unit)) if n >= unit else 0


def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a product: one group of neighbouring axes after the other, the last first."""
    x, left = ins[0], set(params["axes"])
    if x.dtype.kind != "c" or 0 in x.shape:
        return None
    kind, size = np.dtype(f"f{x.dtype.itemsize // 2}"), x.dtype.itemsize
    lanes = processor.vector_bits() // (8 * kind.itemsize)
    unit, shape, source = CHAINS * lanes, list(x.shape), Place("in", 0)
    tasks: list[Task] = []
    scratch: list[int] = []

    def add(
        module: Module, places: tuple[Place, ...], numbers: Any, extent: int, each: int
    ) -> None:
        places = (*places, Place("numbers", tuple(numbers)))
        tasks.append(Task(module, NAME, places, extent, max(1, CHUNK_BYTES // plain(each * size))))

    def memory(count: int) -> Place:
        scratch.append(size * count)
        return Place("scratch", len(scratch) - 1)

    while left or not tasks:
        last = first = max(left, default=len(shape))
        while first - 1 in left:
            first -= 1
        group = shape[first : last + 1]
        left -= set(range(first, last + 1))
        outer, n, inner = prod(shape[:first]), prod(group), prod(shape[last + 1 :])
        shape[first : last + 1] = []
        target = memory(outer * inner) if left else Place("out", 0)
        if inner >= unit and n < LONG_COLUMN:
            blocks = -(-inner // unit)
            numbers: tuple[int, ...] = (n, inner, n * inner, blocks)
            add(columns_module(kind, lanes), (source, target), numbers, outer * blocks, n * unit)
        else:
            strands, rows = computed(_strands, n, unit), computed(_rows, n, unit)
            width = strands * inner
            between = memory(1 + outer * width)
            numbers = (rows, width, n * inner, width // unit)
            text = columns_module(kind, lanes)
            add(text, (source, between), numbers, outer * (width // unit), 1 + rows * unit)
            numbers = (strands, width, n * inner, rows * width, n - rows * strands, inner)
            text = strands_module(kind)
            add(text, (source, between, target), numbers, outer * inner, 1 + strands)
        source = target
    return Lowered(tasks, tuple(scratch))


LOWERINGS["reduce_prod"] = lower
