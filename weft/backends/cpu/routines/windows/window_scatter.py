"""LLVM text of the sums over the windows that chose an element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions.conv_writer import Text, stored
from weft.backends.cpu.routines.windows.window_text import (
    ENOUGH_ROWS,
    I32,
    MAX_SCALAR_ELEMENTS,
    MIN_CHUNK_RESULTS,
    Numbers,
    chosen,
    row_of,
)
from weft.base.record import Record
from weft.kernel.nodes import is_float

# A number that no tap has, nor any sum of it and another.
NONE = -(1 << 30)


class Reach(Record):
    """An axis of a scatter: element ``i`` of ``size`` is in the windows from
    ``ceil((i + low - window + 1) / stride)`` to ``(i + low) // stride`` of ``count``."""

    size: int
    count: int
    window: int
    stride: int
    low: int
    source: int
    target: int

    @property
    def still(self) -> bool:
        """Whether every element is in the window of its own index alone."""
        return (self.window, self.stride, self.low) == (1, 1, 0) and self.count == self.size

    @property
    def most(self) -> int:
        """How many windows may hold an element."""
        return -(-self.window // self.stride)

    def middle(self, lanes: int) -> tuple[int, int]:
        """The elements that vectors may hold: all their windows are there, and the first one is the
        first element of a window. None of them where strides do not fit."""
        s = self.stride
        if self.still:
            return 0, self.size
        if s not in (1, 2, 4) or lanes < 2 * s:
            return 0, 0
        first = max((self.most - 1) * s, -(-self.low // s) * s) - self.low
        end = min(self.count * s, (self.size + self.low) // s * s) - self.low
        return (first, end) if end - first >= 2 * s else (0, 0)


class Scatter:
    """Every element's sum over the windows that chose it.

    Buffers are the windows' values, the numbers of their chosen taps and the result.
    """

    def __init__(
        self,
        axes: Sequence[Reach],
        have: np.dtype,
        work: np.dtype,
        lanes: int,
        general: bool = False,
    ) -> None:
        self.axes, self.have, self.work = axes, have, work
        self.size = Numbers(general)
        self.text = Text(range(3))
        self.add = "fadd" if is_float(work) else "add"
        last = axes[-1]
        self.first, self.end = last.middle(lanes)
        self.width, _ = row_of(self.end - self.first, lanes)
        if last.still and last.size <= MAX_SCALAR_ELEMENTS:
            self.width = last.size

    def bounds(self, number: int, index: str) -> tuple[str, str]:
        """The first window along an axis that holds an element, and the first after it that does
        not."""
        text, size, axis = self.text, self.size, self.axes[number]
        found = []
        for extra, what in ((axis.stride - axis.window, "first"), (axis.stride, "last")):
            value = text.total([index, size(axis.low + extra, what, number)])
            positive = text.emit(f"icmp sgt i64 {value}, 0")
            value = text.emit(f"select i1 {positive}, i64 {value}, i64 0")
            value = text.emit(f"udiv i64 {value}, {axis.stride}")
            found.append(text.least(value, size(axis.count, "count", number)))
        return found[0], found[1]

    def read(self, buffer: str, offset: str, dtype: np.dtype, width: int, each: int) -> str:
        """A vector of elements, each of them so many times."""
        text = self.text
        pointer = text.at(buffer, offset, dtype)
        if each == 1:
            text.lanes = width
            return text.read(pointer, dtype)
        kept = stored(dtype)
        text.lanes = width // each
        value, kind = text.read(pointer, kept), text.type_of(kept)
        mask = ", ".join(f"i32 {i // each}" for i in range(width))
        text.lanes = width
        value = text.emit(f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> <{mask}>")
        if kept == dtype:
            return value
        return text.emit(f"bitcast {text.type_of(kept)} {value} to {text.type_of(dtype)}")

    def visit(
        self, source: str, tap: str, total: str, width: int, taps: Sequence[int] = (0,)
    ) -> str:
        """A sum after one window, or after windows for every few elements, whose taps are so many
        further: a value is added if the tap is the chosen one."""
        text, have, work = self.text, self.have, self.work
        each = len(taps)
        value = text.cast(have, work, self.read("%b0", source, have, width, each))
        number = self.read("%b1", source, I32, width, each)
        text.lanes = 1
        mine = text.emit(f"trunc i64 {tap} to i32")
        text.lanes = width
        mine = text.splat(I32, mine)
        of = text.type_of(I32)
        if any(taps):
            further = ", ".join(f"i32 {taps[i % each]}" for i in range(width))
            mine = text.emit(f"add {of} {mine}, <{further}>")
        same = text.emit(f"icmp eq {of} {number}, {mine}")
        added = text.emit(f"{self.add} {text.type_of(work)} {total}, {value}")
        total = chosen(text, same, work, added, total)
        text.lanes = 1
        return total

    def along(self, index: str, source: list[str], tap: str, total: str) -> str:
        """The sums of a vector of elements along the last axis after all windows that hold them."""
        text, size, axis, width = self.text, self.size, len(self.axes) - 1, self.width
        a = self.axes[-1]
        s = a.stride
        text.lanes = width
        kind = text.type_of(self.work)
        text.lanes = 1
        at = text.total([index, size(a.low, "low", axis)])
        last = text.emit(f"udiv i64 {at}, {s}") if s > 1 else at
        place = text.total([*source, last])
        tap = text.scaled(tap, size(a.window, "window", axis))

        def one(before: str, inside: list[str], taps: Sequence[int]) -> list[str]:
            """The windows so many before the last ones."""
            spot = text.emit(f"sub i64 {place}, {before}")
            number = text.total([tap, text.scaled(before, s)])
            return [self.visit(spot, number, inside[0], width, taps)]

        # The earliest windows may be too short for the elements that are furthest in.
        latest, beyond = a.most - 1, a.most * s - a.window
        if beyond:
            short = [i if i < s - beyond else NONE for i in range(s)]
            total = one(size(latest, "earliest", axis), [total], short)[0]
            latest -= 1

        def body(i: str, inside: list[str]) -> list[str]:
            before = text.emit(f"sub i64 {size(latest, 'before', axis)}, {i}")
            return one(before, inside, range(s))

        return text.repeat("0", size(latest + 1, "windows", axis), [(kind, total)], body)[0]

    def gather(self, indices: list[str], ranges: list[Any], place: str, width: int) -> None:
        """The sums of elements that are neighbours along the last axis."""
        text, size, axes, work = self.text, self.size, self.axes, self.work
        text.lanes = width
        kind = text.type_of(work)
        zero = text.constant(work, bytes(work.itemsize))
        text.lanes = 1

        def walk(axis: int, source: list[str], tap: str, total: str) -> str:
            if axis == len(axes) - 1 and axes[-1].still:
                return self.visit(text.total([*source, indices[-1]]), tap, total, width)
            if axis == len(ranges):
                if axis == len(axes) - 1:
                    return self.along(indices[-1], source, tap, total)
                return self.visit(text.total(source), tap, total, width)
            a, (low, high) = axes[axis], ranges[axis]

            def body(o: str, inside: list[str]) -> list[str]:
                at = text.total([indices[axis], size(a.low, "low", axis)])
                offset = text.emit(f"sub i64 {at}, {text.scaled(o, a.stride)}")
                number = text.total([text.scaled(tap, size(a.window, "window", axis)), offset])
                last = axis == len(axes) - 1
                new = [*source, text.scaled(o, 1 if last else size(a.source, "source", axis))]
                return [walk(axis + 1, new, number, inside[0])]

            return text.repeat(low, high, [(kind, total)], body)[0]

        total = walk(0, [], "0", zero)
        text.lanes = width
        value = text.cast(work, self.have, total)
        text.write(value, text.at("%b2", place, self.have), self.have)
        text.lanes = 1

    def row(self, indices: list[str], start: str, stop: str, begins: str) -> None:
        """The elements of a row, or of a piece of its middle; those that no vectors hold if that
        begins the row, which is known ("") or a condition."""
        text, size, axis = self.text, self.size, len(self.axes) - 1
        last, first, count = self.axes[-1], self.first, self.end - self.first
        ranges = [self.bounds(a, i) for a, i in enumerate(indices)]
        targets = [size(a.target, "target", i) for i, a in enumerate(self.axes[:-1])]
        row = text.total([text.scaled(i, n) for n, i in zip(targets, indices, strict=True)])

        def single(index: str, _: list[str]) -> list[str]:
            bounds = [*ranges, self.bounds(axis, index)]
            self.gather([*indices, index], bounds, text.total([row, index]), 1)
            return []

        def vector(index: str, _: list[str]) -> list[str]:
            index = text.least(index, size(count - self.width, "latest"))
            if not last.still:
                index = text.total([index, size(first, "begin")])
            self.gather([*indices, index], ranges, text.total([row, index]), self.width)
            return []

        def outside(number: str, _: list[str]) -> list[str]:
            before = text.emit(f"icmp slt i64 {number}, {size(first, 'begin')}")
            skipped = text.emit(f"select i1 {before}, i64 0, i64 {size(count, 'middle')}")
            return single(text.total([number, skipped]), [])

        def ends() -> None:
            text.repeat("0", size(last.size - count, "ends"), [], outside)

        if not count:
            text.loop(start, stop, [], single)
            return
        if not last.still:
            text.when(begins, ends) if begins else ends()
        text.loop(start, stop, [], vector, self.width)

    def finish(self, name: str) -> tuple[str, int]:
        """The function and its extent."""
        text, size = self.text, self.size
        *outer, last = self.axes
        rows = prod(a.size for a in outer)
        many = self.end - self.first or last.size
        length = many if rows >= ENOUGH_ROWS else min(many, MIN_CHUNK_RESULTS)
        pieces = -(-many // length)
        # Rows that follow each other are done by one item, to find their place but once.
        inner = outer[-1].size if outer and rows // outer[-1].size >= ENOUGH_ROWS else 1
        counts = [size(a.size, "size", i) for i, a in enumerate(outer)]
        whole = size(many, "stop")

        def item(number: str, _: list[str]) -> list[str]:
            if inner > 1:
                indices = text.indices(number, counts[:-1])

                def each(index: str, _: list[str]) -> list[str]:
                    self.row([*indices, index], "0", whole, "")
                    return []

                return text.loop("0", counts[-1], [], each)
            cut = size(pieces, "pieces") if pieces > 1 else 1
            *indices, piece = text.indices(number, [*counts, cut])
            if pieces == 1:
                self.row(indices, "0", whole, "")
                return []
            start = text.scaled(piece, size(length, "length"))
            stop = text.least(text.total([start, size(length, "length")]), whole)
            self.row(indices, start, stop, text.emit(f"icmp eq i64 {piece}, 0"))
            return []

        text.loop("%start", "%stop", [], item)
        size.begin(text, 3)
        return text.finish(name), rows * pieces // inner
