"""LLVM text that moves data for contractions: strided copies into the layouts they like, complex
numbers as matrices, and sums of partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.cpu.sizes import named, sized_task, sizes
from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.tasks import Place, Task
from weft.base.functional import lru
from weft.base.record import Record
from weft.base.sizes import Size, computed, is_one, is_writing, plain, same

# Vectors of a row of a panel at most, and rows that are copied of one panel after the other, in
# general and where there are few: they are far apart in the source, and need a TLB entry each.
MAX_PANEL_VECTORS, PANEL_ROWS = 8, (64, 16)
# Items that are enough for all threads, and elements along the longer side of a transpose that an
# item has where it would otherwise have all.
ITEMS, BLOCK = 32, 256
# Rows of a panel that careless code copies at a time: what it does besides takes as long as a row.
TOGETHER = 4
# Elements of a row up to which there is no loop over them.
MAX_UNROLLED = 4
# Bytes that one piece of a copy should at least move.
CHUNK_BYTES = 1 << 15
# Bytes of a row from which it does not matter how the row is found, and so few rows that nothing
# about them does.
LONG_ROW_BYTES = 1024
MAX_LOOSE_ROWS = 1024


class Copied(Record):
    """An axis of a copy: the source lies from ``low`` to ``low + inside``; zeros are around it.

    With ``limit``, the source's index is the smaller of it and the index times ``step``; with
    ``shifted`` it is further on by a number that is known when the copy is made.
    """

    size: int
    source: int
    target: int
    low: int = 0
    inside: int = -1
    step: int = 1
    limit: int = -1
    shifted: bool = False

    @property
    def whole(self) -> bool:
        return self.inside < 0

    @property
    def plain(self) -> bool:
        """Whether every index of the target is the source's."""
        return self.whole and self.limit < 0 and not self.shifted


# --- copies ---------------------------------------------------------------------------------------


def joined(dims: Sequence[Copied]) -> list[Copied]:
    """The same copy by fewer axes, outermost first."""
    out: list[Copied] = []
    for d in dims:
        if is_one(d.size) and d.plain and is_one(d.step):
            continue
        if out:
            o = out[-1]
            fits = same((o.source, o.target), (d.size * d.source, d.size * d.target))
            if fits and d.plain and o.limit < 0 and not o.shifted:
                inside = -1 if o.whole else o.inside * d.size
                out[-1] = Copied(o.size * d.size, d.source, d.target, o.low * d.size, inside)
                continue
        out.append(d)
    return out


def _within(n: int, size: int) -> int:
    return min(size, max(0, n))


def _rows(size: int, others: int) -> int:
    """Rows of panels that an item has of so many, for each of some other indices."""
    return PANEL_ROWS[size * others < ITEMS * PANEL_ROWS[0]]


class Copy:
    """A copy, written into a text: ``extent`` items, each with a row of targets or a square.

    Rows are of elements, or of ``group`` elements each that are neighbours in source and target.
    An item of ``panels`` is some of these rows of every panel. A square may be ``cut`` into blocks
    along one side.

    ``types`` and ``pointers`` are of source and target; the source begins at ``start``, and
    ``shift`` is what a shifted axis is further on by. A ``task`` of its own has many items, and
    rows of panels may be ``unrolled``.
    """

    def __init__(
        self,
        text: Text,
        dims: Sequence[Copied],
        types: tuple[np.dtype, np.dtype],
        lanes: int,
        pointers: tuple[str, str],
        start: str = "0",
        shift: str = "0",
        unrolled: bool = False,
        task: bool = False,
    ) -> None:
        self.text, self.lanes, self.pointers, self.start = text, lanes, pointers, start
        self.shift = shift
        self.have, self.want = types
        *outer, inner = joined(dims) or [Copied(1, 1, 1)]
        self.turned: Copied | None = None
        if inner.source != 1 and inner.plain and inner.size > 3:
            for d in reversed(outer):
                if d.source == 1 and d.plain and d.size > 3:
                    self.turned = d
                    outer.remove(d)
                    break
        self.group, self.panels, self.rows, self.cut = 1, None, 1, ""
        if self.turned is None and outer and inner.plain and inner.source == 1:
            row = outer[-1]
            short = type(inner.size) is int and inner.size <= MAX_PANEL_VECTORS * lanes
            if row.plain and short:
                self.group, inner = inner.size, outer.pop()
                if outer and outer[-1].limit >= 0:
                    self.panels = outer.pop()
                    self.rows = computed(_rows, inner.size, prod(d.size for d in outer))
                    outer.append(Copied(-(-inner.size // self.rows), 0, 0))
            elif inner.size <= lanes and row.target == inner.size:
                if row.limit < 0 and not row.shifted:
                    self.group, inner = int(inner.size), outer.pop()
        if task and self.turned is not None and all(d.whole for d in outer):
            longer = max(self.turned, inner, key=lambda d: plain(d.size))
            if plain(longer.size) > BLOCK and plain(prod(d.size for d in outer)) < ITEMS:
                self.cut = "inner" if longer is inner else "outer"
                outer.append(Copied(-(-longer.size // BLOCK), 0, 0))
        self.outer, self.inner = outer, inner
        self.together = TOGETHER if unrolled and inner.size >= TOGETHER else 1
        self.extent = prod(d.size for d in outer)

    @property
    def choices(self) -> tuple[Any, ...]:
        """What the text has of the sizes at hand."""
        side = 0 if self.turned is None else self.side(self.turned, self.inner)
        return side, self.group, self.panels is not None, self.cut, self.together

    def side(self, outer: Copied, inner: Copied) -> int:
        """The side of squares in which two axes change places."""
        n = min(8, outer.size, inner.size)
        n = 1 << (n.bit_length() - 1)
        return 4 if type(inner.size) is int and inner.size % n and inner.size % 4 == 0 else n

    @property
    def moved(self) -> int:
        """Bytes of an item, if they are moved as they are."""
        same = self.have == self.want and self.inner.source == self.group == 1
        return self.inner.size * self.want.itemsize if same and self.turned is None else 0

    def item(self, number: str, _: list[str]) -> list[str]:
        """The targets of one item."""
        text = self.text
        indices = text.indices(number, [d.size for d in self.outer])
        inside, sources, targets = "true", [self.start], []
        for d, i in zip(self.outer, indices, strict=True):
            targets.append(text.scaled(i, d.target))
            if d.shifted:
                i = text.total([i, self.shift])
            if d.limit >= 0:
                i = text.least(text.scaled(i, d.step), d.limit)
            elif not d.whole:
                i = text.total([i, str(-d.low)])
                valid = text.emit(f"icmp ult i64 {i}, {d.inside}")
                inside = valid if inside == "true" else text.emit(f"and i1 {inside}, {valid}")
            sources.append(text.scaled(i, d.source))
        source = text.at(self.pointers[0], text.total(sources), self.have)
        target = text.at(self.pointers[1], text.total(targets), self.want)
        if self.panels is not None:
            self.rows_of_panels(source, target, indices[-1], self.panels)
            return []
        last = indices[-1] if indices else "0"
        if inside == "true":
            self.inside(source, target, last)
            return []
        text.when(inside, lambda: self.inside(source, target, last))
        outside = text.emit(f"xor i1 {inside}, true")
        text.when(outside, lambda: self.outside(target))
        return []

    def rows_of_panels(self, source: str, target: str, block: str, panels: Copied) -> None:
        """Some rows of every panel."""
        text, row = self.text, self.inner
        first, last = self.block(block, self.rows, row.size)

        def panel(number: str, _: list[str]) -> list[str]:
            place = text.least(text.scaled(number, panels.step), panels.limit)
            begin = text.at(source, text.scaled(place, panels.source), self.have)
            to = text.at(target, text.scaled(number, panels.target), self.want)

            def some(index: Any, _: list[str]) -> list[str]:
                if self.together > 1:
                    index = text.least(index, row.size - self.together)
                here = text.at(begin, text.scaled(index, row.source), self.have)
                there = text.at(to, text.scaled(index, row.target), self.want)
                for _turn in range(self.together):
                    self.move(here, there, self.group)
                    here = text.at(here, str(row.source), self.have)
                    there = text.at(there, str(row.target), self.want)
                return []

            return text.loop(first, last, [], some, self.together)

        text.loop("0", str(panels.size), [], panel)

    def block(self, number: str, size: int, whole: int) -> tuple[str, str]:
        """The first element of a block of so many, and the first after it."""
        first = self.text.scaled(number, size)
        return first, self.text.least(self.text.total([first, str(size)]), whole)

    def inside(self, source: str, target: str, block: str) -> None:
        if self.turned is not None:
            self.square(source, target, self.turned, self.inner, block)
        else:
            self.row(source, target, self.inner)

    def outside(self, target: str) -> None:
        """Zeros for an item that is all border."""
        text, turned = self.text, self.turned
        if turned is None:
            self.fill(target, 0, self.inner.size * self.group)
            return
        step = turned.target

        def one(k: str, _: list[str]) -> list[str]:
            self.fill(text.at(target, text.scaled(k, step), self.want), 0, self.inner.size)
            return []

        text.loop("0", str(turned.size), [], one)

    def move(self, source: str, target: str, width: int) -> None:
        text = self.text
        for i in range(0, width, self.lanes):
            text.lanes = min(self.lanes, width - i)
            x = text.read(text.at(source, str(i), self.have), self.have)
            x = text.cast(self.have, self.want, x)
            text.write(x, text.at(target, str(i), self.want), self.want)
        text.lanes = 1

    def fill(self, target: str, first: int, last: int) -> None:
        """Zeros from one index to another."""
        count = last - first
        if type(count) is Size or count > 0:
            place = self.text.at(target, str(first), self.want)
            self.text.clear(place, count * self.want.itemsize)

    def each(self, first: int, last: int, body: Callable[[str, int], None]) -> None:
        """``body(index, width)`` for vectors, of which the last overlaps the one before it."""
        count = last - first
        if count <= self.lanes:
            if count > 0:
                body(str(first), int(count))
            return

        def one(index: str, _: list[str]) -> list[str]:
            if not same(count % self.lanes, 0):
                index = self.text.least(index, last - self.lanes)
            body(index, self.lanes)
            return []

        self.text.loop(str(first), str(last), [], one, self.lanes)

    def row(self, source: str, target: str, d: Copied) -> None:
        """The innermost axis, whose targets are neighbours."""
        text = self.text
        low = 0 if d.whole else computed(_within, d.low, d.size)
        high = d.size if d.whole else computed(_within, d.low + d.inside, d.size)
        group = self.group
        self.fill(target, 0, low * group)
        self.fill(target, high * group, d.size * group)

        def neighbours(index: str, width: int) -> None:
            moved = text.total([index, str(-d.low)])
            self.move(text.at(source, moved, self.have), text.at(target, index, self.want), width)

        def single(index: str, _: list[str]) -> list[str]:
            moved = text.scaled(text.total([index, str(-d.low)]), d.source)
            place = text.at(target, text.scaled(index, d.target), self.want)
            self.move(text.at(source, moved, self.have), place, group)
            return []

        near = group == d.source == 1
        if near and self.have == self.want and high > low:
            begin = text.at(source, str(low - d.low), self.have)
            place = text.at(target, str(low), self.want)
            text.copy(begin, place, (high - low) * self.want.itemsize)
        elif near:
            self.each(low, high, neighbours)
        elif type(high) is type(low) is int and high - low <= MAX_UNROLLED:
            for index in range(low, high):
                single(str(index), [])
        elif high > low:
            text.loop(str(low), str(high), [], single)

    def square(self, source: str, target: str, outer: Copied, inner: Copied, block: str) -> None:
        """Two axes that change places, or a block of them, in squares of which the last overlap."""
        text, n = self.text, self.side(outer, inner)
        (first, last), (begin, end) = (
            self.block(block, BLOCK, d.size) if self.cut == side else ("0", str(d.size))
            for side, d in (("outer", outer), ("inner", inner))
        )

        def one(i: str, j: str) -> list[str]:
            rows = []
            start = text.at(source, text.total([i, text.scaled(j, inner.source)]), self.have)
            text.lanes = n
            for _ in range(n):
                rows.append(text.cast(self.have, self.want, text.read(start, self.have)))
                start = text.at(start, str(inner.source), self.have)
            kind = text.type_of(self.want)
            rows = text.transposed(rows, kind)
            start = text.at(target, text.total([j, text.scaled(i, outer.target)]), self.want)
            for row in rows:
                text.write(row, start, self.want)
                start = text.at(start, str(outer.target), self.want)
            text.lanes = 1
            return []

        def along(i: str, _: list[str]) -> list[str]:
            i = text.least(i, outer.size - n)

            if same(inner.size, n):
                return one(i, "0")
            across = lambda j, _: one(i, text.least(j, inner.size - n))
            return text.loop(begin, end, [], across, n)

        text.loop(first, last, [], along, n)


def copy_task(
    places: tuple[Place, ...],
    dims: Sequence[Copied],
    types: tuple[np.dtype, np.dtype],
    lanes: int,
    start: int = 0,
    name: str = "copy",
    careless: bool = False,
) -> Task:
    """A task that copies; in compiled functions, too, one text serves many shapes. A ``careless``
    one is compiled in a sixth of the time."""
    quick = is_writing()  # it is to be there quickly, or to be quick itself
    *outer, inner = joined(dims) or [Copied(1, 1, 1)]
    total, values = prod(d.size for d in dims) * types[1].itemsize, dict[str, Any]()
    given = (*outer, inner), start
    if not quick:
        (*axes, last), start = named(given, values, lanes + 1)
        if any(d.limit >= 0 for d in outer):  # rows of panels are written out
            last = last._replace(size=inner.size)
        given, inner = ((*axes, last), start), inner._replace(size=sizes(last.size, values))

    def made(dims: Sequence[Copied], start: int) -> Copy:
        pointers = ("%b0", "%b1")
        text = Text((0, 1))
        return Copy(text, dims, types, lanes, pointers, str(start), unrolled=careless, task=True)

    def write(key: Any) -> Module:
        copy = made(*key[0])
        copy.text.loop("%start", "%stop", [], copy.item)
        module = copy.text.finish(name)
        return module.with_effort(Effort.QUICK) if careless or (copy.moved and quick) else module

    copy = made((*outer, inner), 0)
    extent = copy.extent if quick else plain(copy.extent)
    # Where all is done by the C library, or little at all, code without care is as good.
    quick = quick or copy.moved >= LONG_ROW_BYTES or extent <= MAX_LOOSE_ROWS
    task = Task(None, name, places, extent, computed(_chunk, total, extent))
    key = (given, types, lanes, quick, careless, copy.choices)
    return sized_task(key, values, task, write)


def _chunk(total: int, extent: int) -> int:
    """Items of a copy of so many bytes that are worth a chunk of their own."""
    return -(-CHUNK_BYTES // max(1, total // extent))


# --- partial sums ---------------------------------------------------------------------------------


@lru(64)
def partial_module(have: np.dtype, out: np.dtype, lanes: int, name: str) -> Module:
    """A task over vectors of a result that adds partial ones in the wider of two types: buffers are
    these, the result, and the table. A single part is converted."""
    text = Text((0, 1), fields=("parts", "whole"))
    work = max(have, out, key=lambda dtype: dtype.itemsize)
    last = text.emit(f"sub i64 %whole, {lanes}")

    def item(number: str, _: list[str]) -> list[str]:
        begin = text.least(text.scaled(number, lanes), last)
        first = text.at("%b0", begin, have)
        text.lanes = lanes
        kind, begun = text.type_of(work), text.cast(have, work, text.read(first, have))

        def part(_: str, given: list[str]) -> list[str]:
            place = text.at(given[0], "%whole", have)
            add = "add" if work.kind in "iu" else "fadd"
            value = text.cast(have, work, text.read(place, have))
            return [place, text.emit(f"{add} {kind} {given[1]}, {value}")]

        total = text.loop("1", "%parts", [("ptr", first), (kind, begun)], part, once=False)[1]
        text.write(text.cast(work, out, total), text.at("%b1", begin, out), out)
        text.lanes = 1
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(name)


# --- complex numbers ------------------------------------------------------------------------------


@lru(8)
def parts_module(work: np.dtype, name: str) -> Module:
    """A task that writes complex numbers x + iy as four arrays x, y, -y, x."""
    text = Text((0, 1), fields=("size",))

    def item(number: str, _: list[str]) -> list[str]:
        begin = text.at("%b0", text.scaled(number, 2), work)
        x, y = text.read(begin, work), text.read(text.at(begin, "1", work), work)
        minus = text.emit(f"fneg {text.type_of(work)} {y}")
        place = text.at("%b1", number, work)
        for value in (x, y, minus, x):
            text.write(value, place, work)
            place = text.at(place, "%size", work)
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(name)
