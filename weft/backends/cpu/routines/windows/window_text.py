"""LLVM text of reductions over sliding windows, and of selections that differentiate extrema.

Rows of results lie along the last axis. Where no window moves along it, it is walked in vectors;
else its middle, where windows are whole, is, and its ends one result at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions.conv_writer import Text, stored
from weft.backends.cpu.sizes import read_sizes
from weft.backends.llvm.native.processor import has_ieee_minimum
from weft.base.record import Record
from weft.base.sizes import is_writing
from weft.kernel.nodes import BOOL, I32, is_float

# How many reads of a window are written out one after another, and vectors computed together.
MAX_UNROLLED_READS = 64
VECTORS_AT_ONCE = 4
# Fewer rows than this are cut into pieces of at least so many results.
ENOUGH_ROWS = 64
MIN_CHUNK_RESULTS = 4096
# Elements of the last axis that are too few for vectors along it.
MAX_SCALAR_ELEMENTS = 6


class Slide(Record):
    """A window along an axis: result ``i`` of ``size`` reads ``start + i * stride + t * dilation``.

    Indices outside of the axis's ``length`` are not read. Strides of arrays are in elements, the
    result's beginning at ``first``; tap ``t`` is the window's ``tap + t * tap_step`` of ``window``.
    """

    size: int
    taps: int
    start: int
    stride: int
    dilation: int
    length: int
    source: int
    target: int
    first: int
    tap: int
    tap_step: int
    window: int

    @property
    def whole(self) -> bool:
        """Whether no window reaches beyond the axis."""
        last = self.start + (self.size - 1) * self.stride + (self.taps - 1) * self.dilation
        return self.start >= 0 and last < self.length

    @property
    def still(self) -> bool:
        """Whether every result reads the element at its own index."""
        return self.taps == 1 and self.stride == 1 and self.start == 0 and self.whole

    def middle(self) -> tuple[int, int]:
        """The first result whose window is whole, and the first after it whose is not."""
        if self.whole:
            return 0, self.size
        first = max(0, -(self.start // self.stride)) if self.stride else 0
        last = self.length - 1 - self.start - (self.taps - 1) * self.dilation
        stop = last // self.stride + 1 if self.stride else self.size
        first = min(first, self.size)
        return first, max(first, min(self.size, stop))


class Rule(ABC):
    """What is done with a window's elements: a state of vectors of some kinds."""

    def __init__(self, kinds: Sequence[np.dtype], numbered: bool = False) -> None:
        self.kinds = kinds
        self.numbered = numbered  # whether taps have numbers

    @abstractmethod
    def start(self, text: Text, exact: str | None, read: Callable[[int], str]) -> list[str]:
        """The state before any element.

        ``read(i)`` is operand ``i`` at the window's own first element; ``exact`` says whether that
        is inside: "true", a condition, or None.
        """

    @abstractmethod
    def step(self, text: Text, state: list[str], read: Callable[[int], str], tap: str) -> list[str]:
        """The state after an element; ``read(i)`` is operand ``i`` there, ``tap`` its number."""

    @abstractmethod
    def result(self, text: Text, state: list[str]) -> str:
        """What is written after the last element."""


class Numbers:
    """How sizes are written: as they are, or as names of what is read from a table, the last buffer
    of a function in named sizes."""

    def __init__(self, read: bool) -> None:
        self.read = read
        self.places: dict[tuple[str, int], int] = {}
        self.table: list[int] = []

    def __call__(self, number: int, purpose: str, axis: int = 0) -> str:
        if not self.read:
            return str(number)
        place = self.places.setdefault((purpose, axis), len(self.table))
        if place == len(self.table):
            self.table.append(number)
        assert self.table[place] == number
        return f"%sized{place}"

    def begin(self, text: Text, buffers: int) -> None:
        """Have a function begin with reading what was named."""
        if self.table:
            text.lines[:0] = read_sizes(range(len(self.table)), buffers)


def row_of(size: int, lanes: int) -> tuple[int, int]:
    """How wide the vectors are, and how many, that hold a row, of which the last may begin earlier
    than where the one before it ends."""
    width = min(lanes, 1 << max(0, size.bit_length() - 1))
    return width, -(-size // width)


class Windows:
    """The text of one task over all windows."""

    def __init__(
        self,
        slides: Sequence[Slide],
        rule: Any,
        types: Any,
        lanes: int,
        parts: bool = False,
    ) -> None:
        """The text of one of several ``parts`` does for others, as those in named sizes do."""
        self.slides, self.rule, self.lanes = slides, rule, lanes
        self.have, self.out = types  # dtypes of the operands, and of the result
        self.text = Text(range(len(self.have) + 1))
        self.size = Numbers(parts or is_writing())
        # Either all windows are whole or any may not be, so that there are not many texts: any may
        # not in a part of a result between whose elements others lie.
        self.part = any(s.tap_step > 1 for s in slides)
        whole = not self.part and all(s.whole for s in slides if s.window > 1)
        self.whole = whole or not is_writing()

    def read(self, operand: int, offset: str, stride: int) -> str:
        """Elements of an operand from an offset on, a vector of them with a stride."""
        text, dtype = self.text, self.have[operand]
        base = text.at(f"%b{operand}", offset, dtype)
        width = text.lanes
        if width == 1 or stride == 1:
            return text.read(base, dtype)
        kept = stored(dtype)
        kind = text.type_of(kept)
        if stride < width:
            value = self.picked(base, kept, stride)
        else:
            value = "poison"
            for i in range(width):
                text.lanes = 1
                one = text.read(text.at(base, str(i * stride), kept), kept)
                scalar = text.type_of(kept)
                text.lanes = width
                value = text.emit(f"insertelement {kind} {value}, {scalar} {one}, i64 {i}")
        if kept == dtype:
            return value
        return text.emit(f"bitcast {kind} {value} to {text.type_of(dtype)}")

    def picked(self, base: str, dtype: np.dtype, stride: int) -> str:
        """Elements with a stride, picked out of as few vectors as hold them."""
        text = self.text
        width, kind = text.lanes, text.type_of(dtype)
        value, done, known = "poison", 0, list(range(width))
        while done < width:
            start = min(done * stride, (width - 1) * (stride - 1))  # nothing after the last is read
            part = text.read(text.at(base, str(start), dtype), dtype)
            upto = min(width, (start + width - 1) // stride + 1)
            places = range(done * stride - start, upto * stride - start, stride)
            if not done:
                value, known = part, list(places)
            else:
                order = [*known[:done], *(width + n for n in places)]
                mask = [f"i32 {n}" for n in order] + ["i32 poison"] * (width - upto)
                value = text.emit(
                    f"shufflevector {kind} {value}, {kind} {part},"
                    f" <{width} x i32> <{', '.join(mask)}>"
                )
                known = list(range(width))
            done = upto
        return value

    def is_whole(self, slide: Slide) -> bool:
        """Whether it is known that no window reaches beyond an axis."""
        return slide.whole and (self.whole or slide.window == 1)

    def range_of(self, axis: int, index: str) -> tuple[str, str]:
        """The taps of a window that are inside of its axis."""
        text, size, slide = self.text, self.size, self.slides[axis]
        if self.is_whole(slide):
            return "0", str(slide.taps)
        at = text.total([text.scaled(index, slide.stride), size(slide.start, "start", axis)])
        # The first tap at or after index zero, and the first at or after the end.
        bounds = []
        edges = str(slide.dilation - 1), size(slide.length + slide.dilation - 1, "edge", axis)
        for edge in edges:
            distance = text.emit(f"sub i64 {edge}, {at}")
            positive = text.emit(f"icmp sgt i64 {distance}, 0")
            distance = text.emit(f"select i1 {positive}, i64 {distance}, i64 0")
            taps = text.emit(f"udiv i64 {distance}, {slide.dilation}")
            bounds.append(text.least(taps, size(slide.taps, "taps", axis)))
        return bounds[0], bounds[1]

    def taps(
        self,
        position: list[str],
        ranges: list[tuple[str, str]],
        width: Sequence[int],
        firsts: Sequence[str],
    ) -> list[list[str]]:
        """The states of some vectors (of widths) after all taps, each ``firsts`` further on."""
        text, slides, size = self.text, self.slides, self.size
        offset = text.total(position)
        stride = slides[-1].stride * slides[-1].source
        exact = self.exact(ranges)

        def reader(base: str, first: str) -> Callable[[int], str]:
            return lambda operand: self.read(operand, text.total([base, first]), stride)

        states: list[str] = []
        for w, first in zip(width, firsts, strict=True):
            text.lanes = w
            states += self.rule.start(text, exact, reader(offset, first))
        text.lanes = 1
        count = len(self.rule.kinds)
        kinds = []
        for w in width:
            text.lanes = w
            kinds += [text.type_of(k) for k in self.rule.kinds]
        text.lanes = 1

        def visit(base: str, tap: str, given: list[str]) -> list[str]:
            new: list[str] = []
            for i, (w, first) in enumerate(zip(width, firsts, strict=True)):
                text.lanes = w
                state = given[count * i : count * (i + 1)]
                new += self.rule.step(text, state, reader(base, first), tap)
            text.lanes = 1
            return new

        def walk(axis: int, base: str, tap: str, given: list[str]) -> list[str]:
            if axis == len(slides):
                return visit(base, tap, given)
            s, (low, high) = slides[axis], ranges[axis]
            inner = prod(t.window for t in slides[axis + 1 :]) if self.rule.numbered else 0
            taps = prod(t.taps for t in slides[axis:]) * len(width)
            step = str(s.dilation * s.source)
            if axis < len(slides) - 1 and s.window > 1:
                step = size(s.dilation * s.source, "step", axis)
            begin = size(s.tap * inner, "tap", axis) if s.tap_step > 1 else str(s.tap * inner)
            if low == "0" and high == str(s.taps):
                if s.taps == 1 or taps <= MAX_UNROLLED_READS:
                    for t in range(s.taps):
                        number = text.total([tap, begin, str(t * s.tap_step * inner)])
                        place = text.total([base, text.scaled(str(t), step)])
                        given = walk(axis + 1, place, number, given)
                    return given
                high = size(s.taps, "taps", axis)

            def body(t: str, inside: list[str]) -> list[str]:
                number = text.total([tap, text.scaled(t, s.tap_step * inner), begin])
                place = text.total([base, text.scaled(t, step)])
                return walk(axis + 1, place, number, inside)

            return text.loop(low, high, list(zip(kinds, given, strict=True)), body, once=False)

        given = walk(0, offset, "0", states)
        return [given[count * i : count * (i + 1)] for i in range(len(width))]

    def exact(self, ranges: list[tuple[str, str]]) -> str | None:
        """Whether the window's own first element is read: "true", or a condition, or None."""
        if any(s.tap or not s.taps for s in self.slides):
            return None
        text, found = self.text, "true"
        for s, (low, high) in zip(self.slides, ranges, strict=True):
            if low != "0" or high != str(s.taps):
                first = text.emit(f"icmp eq i64 {low}, 0")
                some = text.emit(f"icmp sgt i64 {high}, 0")
                found = text.emit(f"and i1 {found}, {first}")
                found = text.emit(f"and i1 {found}, {some}")
        return found

    def finish(self, name: str) -> tuple[str, int]:
        """The function and its extent."""
        text, size = self.text, self.size
        *outer, _ = self.slides
        rows = prod(s.size for s in outer)
        pieces, length = self.pieces(rows)
        # Rows that follow each other are done by one item, to find their place but once.
        inner = outer[-1].size if outer and rows // outer[-1].size >= ENOUGH_ROWS else 1
        counts = [size(s.size, "size", a) for a, s in enumerate(outer)]

        def row(indices: list[str], piece: str) -> None:
            places, targets, ranges = [], [], []
            for a, (s, i) in enumerate(zip(outer, indices, strict=True)):
                at = text.scaled(i, size(s.stride, "stride", a))
                at = text.total([at, size(s.start, "start", a)])
                places.append(text.scaled(at, size(s.source, "source", a)))
                targets.append(text.scaled(i, size(s.target, "target", a)))
                ranges.append(self.range_of(a, i))
            first = sum(s.first for s in self.slides)
            target = text.total([*targets, size(first, "first") if first or self.part else "0"])
            if pieces == 1:
                self.ends(places, target, ranges)
                self.middle(places, target, ranges)
                return
            begins = text.emit(f"icmp eq i64 {piece}, 0")
            text.when(begins, lambda: self.ends(places, target, ranges))
            self.piece(places, target, ranges, piece, length)

        def item(number: str, _: list[str]) -> list[str]:
            if inner == 1:
                many = size(pieces, "pieces") if pieces > 1 else 1
                *indices, piece = text.indices(number, [*counts, many])
                row(indices, piece)
                return []
            indices = text.indices(number, counts[:-1])

            def each(index: str, _: list[str]) -> list[str]:
                row([*indices, index], "0")
                return []

            return text.loop("0", counts[-1], [], each)

        text.loop("%start", "%stop", [], item)
        size.begin(text, len(self.have) + 1)
        return text.finish(name), rows * pieces // inner

    def pieces(self, rows: int) -> tuple[int, int]:
        """Into how many pieces a row is cut where there are few, and their length."""
        last = self.slides[-1]
        first, stop = last.middle()
        wide = self.lanes * VECTORS_AT_ONCE
        length = -(-max(MIN_CHUNK_RESULTS, (stop - first) * rows // ENOUGH_ROWS) // wide) * wide
        if rows >= ENOUGH_ROWS or last.target != 1 or stop - first < 2 * length:
            return 1, 0
        return -(-(stop - first) // length), length

    def single(self, places: list[str], target: str, ranges: Any) -> Any:
        axis = len(self.slides) - 1

        def body(index: str, _: list[str]) -> list[str]:
            self.results(places, target, [*ranges, self.range_of(axis, index)], index, [1])
            return []

        return body

    def vectors(
        self, places: list[str], target: str, ranges: Any, widths: list[int], end: int | None = None
    ) -> Any:
        whole = ("0", str(self.slides[-1].taps))

        def body(index: str, _: list[str]) -> list[str]:
            self.results(places, target, [*ranges, whole], index, widths, end)
            return []

        return body

    def ends(self, places: list[str], target: str, ranges: Any) -> None:
        """The results of a row whose windows reach beyond it."""
        text, size, last = self.text, self.size, self.slides[-1]
        first, stop = last.middle()
        single = self.single(places, target, ranges)
        if self.is_whole(last):
            return
        before, after = (0, first), (stop, last.size)
        for name, (low, high) in (("before", before), ("after", after)):
            if self.size.read or low < high:
                ends = size(low, f"{name} from"), size(high, f"{name} to")
                text.loop(*ends, [], single, once=not size.read)

    def piece(self, places: list[str], target: str, ranges: Any, piece: str, length: int) -> None:
        """A piece of a row; the last one is moved back so that it ends with the row."""
        text, size, (first, stop) = self.text, self.size, self.slides[-1].middle()
        long = size(length, "length")
        start = text.least(text.scaled(piece, long), size(stop - first - length, "latest"))
        if not self.is_whole(self.slides[-1]):
            start = text.total([start, size(first, "begin")])
        end = text.total([start, long])
        body = self.vectors(places, target, ranges, [self.lanes] * VECTORS_AT_ONCE)
        text.loop(start, end, [], body, self.lanes * VECTORS_AT_ONCE)

    def middle(self, places: list[str], target: str, ranges: Any) -> None:
        """The results of a row whose windows are whole: the last vector may begin earlier than
        where the one before it ends."""
        text, size, last, lanes = self.text, self.size, self.slides[-1], self.lanes
        first, stop = last.middle()
        count = stop - first
        begin = "0" if self.is_whole(last) else size(first, "begin")
        if last.stride > 2:  # reads are many, so that few elements should be read twice
            lanes = min(lanes, 4 if count < ENOUGH_ROWS else 8)
        width, many = row_of(count, lanes)
        if width <= 1:
            end = text.total([begin, size(count, "between")])
            text.loop(begin, end, [], self.single(places, target, ranges), once=False)
            return
        if last.still and count <= MAX_SCALAR_ELEMENTS:  # so few that there are not many texts
            self.vectors(places, target, ranges, [count])(begin, [])
            return
        if last.still and many <= VECTORS_AT_ONCE:
            rest = count - (many - 1) * width
            tail = width // 2 if 2 * rest <= width else width
            end = count - tail if many > 1 else None
            self.vectors(places, target, ranges, [width] * (many - 1) + [tail], end)(begin, [])
            return

        def some(low: str, high: str, together: int, width: int, end: int | None = None) -> None:
            """Vectors together as long as some are left; the last ones end with the row."""
            if low == high:
                return
            wide = width * together
            vectors = self.vectors(places, target, ranges, [width] * together, end)

            def body(index: str, _: list[str]) -> list[str]:
                if high == done and (size.read or count % wide):
                    latest = size(max(0, count - wide), "latest")
                    index = text.least(index, latest)
                return vectors(text.total([index, begin]), [])

            text.loop(low, high, [], body, wide, once=not size.read)

        done = size(count, "between")
        if width < lanes:
            some("0", done, 1, width)
            return
        fours = size(count - count % (width * VECTORS_AT_ONCE), "fours")
        some("0", fours, VECTORS_AT_ONCE, width)
        if last.stride > 2:
            pairs = size(count - count % (2 * width), "pairs")
            some(fours, pairs, 2, width)
            known, rest = not self.size.read, count % width
            ones = size(count - rest, "ones") if known else pairs
            some(pairs, ones, 1, width)
            some(ones, done, 1, 1 << (rest - 1).bit_length() if known and rest else width)
            return
        # as many as are left together, where that is known
        left = 2 if self.size.read else -(-(count % (width * VECTORS_AT_ONCE)) // width)
        some(fours, done, left, width, min((left - 1) * width, count - width))

    def results(
        self,
        places: list[str],
        target: str,
        ranges: Any,
        index: str,
        widths: list[int],
        end: int | None = None,
    ) -> None:
        """The results from an index of the last axis on, in vectors that follow each other; but the
        last one is ``end`` further on than the first, if that is given."""
        text, last = self.text, self.slides[-1]
        start = "0" if last.still else self.size(last.start, "start", len(self.slides) - 1)
        at = text.total([text.scaled(index, last.stride), start])
        position = [*places, text.scaled(at, last.source)]
        offsets = [sum(widths[:i]) for i in range(len(widths))]
        stride = last.stride * last.source
        firsts, written = [str(n * stride) for n in offsets], [str(n) for n in offsets]
        if end is not None:
            firsts[-1], written[-1] = self.size(end * stride, "reads"), self.size(end, "writes")
        states = self.taps(position, ranges, widths, firsts)
        place = text.total([target, text.scaled(index, self.last_target())])
        for state, width, offset in zip(states, widths, written, strict=True):
            text.lanes = width
            value = self.rule.result(text, state)
            moved = text.scaled(offset, self.last_target())
            pointer = text.at(f"%b{len(self.have)}", text.total([place, moved]), self.out)
            if width > 1 and last.target != 1:
                text.scatter(value, pointer, self.out, self.last_target())
            else:
                text.write(value, pointer, self.out)
        text.lanes = 1

    def last_target(self) -> str:
        """How far apart results are."""
        target = self.slides[-1].target
        return "1" if target == 1 else self.size(target, "target", len(self.slides) - 1)


# --- rules ----------------------------------------------------------------------------------------


class Fold(Rule):
    """Sums and extrema, written as what they are read as or as something else."""

    def __init__(
        self,
        kind: str,
        have: np.dtype,
        work: np.dtype,
        identity: bytes,
        out: np.dtype | None = None,
    ) -> None:
        super().__init__((work,))
        self.kind, self.have, self.work, self.identity = kind, have, work, identity
        self.out = out or have

    def start(self, text: Text, exact: str | None, read: Any) -> list[str]:
        return [text.constant(self.work, self.identity)]

    def step(self, text: Text, state: list[str], read: Any, tap: str) -> list[str]:
        value = text.cast(self.have, self.work, read(0))
        if self.kind == "sum":
            add = "fadd" if is_float(self.work) else "add"
            return [text.emit(f"{add} {text.type_of(self.work)} {state[0]}, {value}")]
        if state[0] == text.constant(self.work, self.identity):
            return [value]  # nothing is further out than the first
        if is_float(self.work) and has_ieee_minimum():
            return [text.call(f"{self.kind}imum", self.work, [value, state[0]])]
        better = beats(text, self.kind, self.work, value, state[0])
        return [chosen(text, better, self.work, value, state[0])]

    def result(self, text: Text, state: list[str]) -> str:
        return text.cast(self.work, self.out, state[0])


def beats(text: Text, kind: str, dtype: np.dtype, new: str, old: str) -> str:
    """Whether a value is further out than another, or the first that is no number."""
    word = "gt" if kind == "max" else "lt"
    of = text.type_of(dtype)
    if not is_float(dtype):
        sign = "u" if dtype.kind in "ub" else "s"
        return text.emit(f"icmp {sign}{word} {of} {new}, {old}")
    # Unordered means that one of them is NaN: the new one is taken unless the old one is.
    further = text.emit(f"fcmp u{word} {of} {new}, {old}")
    number = text.emit(f"fcmp ord {of} {old}, {old}")
    return text.emit(f"and {text.type_of(BOOL)} {further}, {number}")


def chosen(text: Text, condition: str, dtype: np.dtype, yes: str, no: str) -> str:
    of = text.type_of(dtype)
    return text.emit(f"select {text.type_of(BOOL)} {condition}, {of} {yes}, {of} {no}")


def numbered(text: Text, tap: str) -> str:
    """A tap's number in all lanes."""
    if not tap.startswith("%"):
        return text.whole(int(tap))
    width, text.lanes = text.lanes, 1
    number = text.emit(f"trunc i64 {tap} to i32")
    text.lanes = width
    return text.splat(I32, number)


class Select(Rule):
    """What goes with the first extremum: another operand's element, or the number of the tap.

    Borders count as elements, below all others, that go with zero or with no tap. A window whose
    own first element is read starts with what goes with that.
    """

    def __init__(self, kind: str, types: Any, work: np.dtype, identity: bytes) -> None:
        self.kind, self.work, self.identity = kind, work, identity
        self.have, self.goes = types  # dtypes of what is compared, and of what goes with it
        super().__init__((work, I32 if self.goes is None else self.goes), self.goes is None)

    def start(self, text: Text, exact: str | None, read: Any) -> list[str]:
        best, goes = text.constant(self.work, self.identity), self.kinds[1]
        of, width, before = text.type_of(goes), text.lanes, text.block
        nothing = text.constant(
            goes, bytes(goes.itemsize) if self.goes is not None else b"\xff" * 4
        )
        if exact is None:
            return [best, nothing]
        if exact == "true":
            return [best, text.whole(0) if self.goes is None else read(1)]
        if self.goes is None:
            yes, no = f"{of} {text.whole(0)}", f"{of} {nothing}"
            return [best, text.emit(f"select i1 {exact}, {yes}, {no}")]
        result: list[str] = []
        text.when(exact, lambda: result.append(read(1)))
        text.lanes = width
        found = f"[ {result[0]}, %{text.inside} ], [ {nothing}, %{before} ]"
        return [best, text.emit(f"phi {of} {found}")]

    def step(self, text: Text, state: list[str], read: Any, tap: str) -> list[str]:
        value = text.cast(self.have, self.work, read(0))
        better = beats(text, self.kind, self.work, value, state[0])
        number = numbered(text, tap) if self.goes is None else read(1)
        best = chosen(text, better, self.work, value, state[0])
        return [best, chosen(text, better, self.kinds[1], number, state[1])]

    def result(self, text: Text, state: list[str]) -> str:
        return state[1]


class Chosen(Rule):
    """Sums over the windows that chose an element: operands are their values and chosen taps, which
    are counted from the last of ``count`` here."""

    def __init__(self, have: np.dtype, work: np.dtype, count: int) -> None:
        super().__init__((work,), True)
        self.have, self.work, self.count = have, work, count

    def start(self, text: Text, exact: str | None, read: Any) -> list[str]:
        return [text.constant(self.work, bytes(self.work.itemsize))]

    def step(self, text: Text, state: list[str], read: Any, tap: str) -> list[str]:
        value, of = text.cast(self.have, self.work, read(0)), text.type_of(I32)
        mine = text.emit(f"sub {of} {text.whole(self.count - 1)}, {numbered(text, tap)}")
        same = text.emit(f"icmp eq {of} {read(1)}, {mine}")
        add = "fadd" if is_float(self.work) else "add"
        added = text.emit(f"{add} {text.type_of(self.work)} {state[0]}, {value}")
        return [chosen(text, same, self.work, added, state[0])]

    def result(self, text: Text, state: list[str]) -> str:
        return text.cast(self.work, self.have, state[0])
