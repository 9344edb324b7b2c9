"""LLVM text of reductions over sliding windows and of the selections that differentiate them.

Rows of results lie along the last axis. Where no window moves along it, it is walked in vectors;
else its middle, where windows are whole, is, and its ends one result at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.heroes.conv_writer import Text, stored
from weft.base.record import Record
from weft.kernel.nodes import is_float

# How many reads of a window are written out one after another, and vectors computed together.
UNROLLED = 64
TOGETHER = 4
# Fewer rows than this are cut into pieces of at least so many results.
FEW = 64
PIECE = 4096
I32 = np.dtype(np.int32)


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

    def __init__(self, kinds: Sequence[np.dtype]) -> None:
        self.kinds = kinds

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


class Windows:
    """The text of one task over all windows."""

    def __init__(self, slides: Sequence[Slide], rule: Any, types: Any, lanes: int) -> None:
        self.slides, self.rule, self.lanes = slides, rule, lanes
        self.have, self.out = types  # dtypes of the operands, and of the result
        self.text = Text(range(len(self.have) + 1))

    def read(self, operand: int, offset: str, stride: int) -> str:
        """Elements of an operand from an offset on, a vector of them with a stride."""
        text, dtype = self.text, self.have[operand]
        base = text.at(f"%b{operand}", offset, dtype)
        width = text.lanes
        if width == 1 or stride == 1:
            return text.read(base, dtype)
        kept = stored(dtype)
        kind = text.type_of(kept)
        if stride == 2:
            low = text.read(base, kept)
            high = text.read(text.at(base, str(width - 1), kept), kept)
            order = [2 * i if 2 * i < width else 2 * i + 1 for i in range(width)]
            mask = ", ".join(f"i32 {i}" for i in order)
            value = text.emit(
                f"shufflevector {kind} {low}, {kind} {high}, <{width} x i32> <{mask}>"
            )
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

    def range_of(self, slide: Slide, index: str) -> tuple[str, str]:
        """The taps of a window that are inside of its axis."""
        text = self.text
        if slide.whole:
            return "0", str(slide.taps)
        at = text.total([text.scaled(index, slide.stride), str(slide.start)])
        # The first tap at or after index zero, and the first at or after the end.
        bounds = []
        for edge in (0, slide.length):
            distance = text.emit(f"sub i64 {edge + slide.dilation - 1}, {at}")
            positive = text.emit(f"icmp sgt i64 {distance}, 0")
            distance = text.emit(f"select i1 {positive}, i64 {distance}, i64 0")
            taps = text.emit(f"udiv i64 {distance}, {slide.dilation}")
            bounds.append(text.least(taps, slide.taps))
        return bounds[0], bounds[1]

    def taps(
        self, position: list[str], ranges: list[tuple[str, str]], width: Sequence[int], stride: int
    ) -> list[list[str]]:
        """The states of neighbouring vectors (of widths) after all taps."""
        text, slides = self.text, self.slides
        offset = text.total(position)
        steps = [s.dilation * s.source for s in slides]
        exact = self.exact(ranges)
        firsts = [sum(width[:i]) * stride for i in range(len(width))]

        def reader(base: str, first: int) -> Callable[[int], str]:
            return lambda operand: self.read(operand, text.total([base, str(first)]), stride)

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
            inner = prod(t.window for t in slides[axis + 1 :])
            taps = prod(t.taps for t in slides[axis:]) * len(width)
            if low == "0" and high == str(s.taps) and (s.taps == 1 or taps <= UNROLLED):
                for t in range(s.taps):
                    number = text.total([tap, str((s.tap + t * s.tap_step) * inner)])
                    place = text.total([base, str(t * steps[axis])])
                    given = walk(axis + 1, place, number, given)
                return given

            def body(t: str, inside: list[str]) -> list[str]:
                number = text.total([tap, text.scaled(t, s.tap_step * inner), str(s.tap * inner)])
                place = text.total([base, text.scaled(t, steps[axis])])
                return walk(axis + 1, place, number, inside)

            return text.repeat(low, high, list(zip(kinds, given, strict=True)), body)

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
        text = self.text
        *outer, last = self.slides
        rows = prod(s.size for s in outer)
        pieces, length = self.pieces(rows)
        # Rows that follow each other are done by one item, to find their place but once.
        inner = outer[-1].size if outer and rows // outer[-1].size >= FEW else 1

        def row(indices: list[str], piece: str) -> None:
            places, targets, ranges = [], [], []
            for s, i in zip(outer, indices, strict=True):
                at = text.total([text.scaled(i, s.stride), str(s.start)])
                places.append(text.scaled(at, s.source))
                targets += [text.scaled(i, s.target), str(s.first)]
                ranges.append(self.range_of(s, i))
            target = text.total([*targets, str(last.first)])
            if pieces == 1:
                self.ends(places, target, ranges)
                self.middle(places, target, ranges)
                return
            first = text.emit(f"icmp eq i64 {piece}, 0")
            text.when(first, lambda: self.ends(places, target, ranges))
            self.piece(places, target, ranges, piece, length)

        def item(number: str, _: list[str]) -> list[str]:
            if inner == 1:
                *indices, piece = text.indices(number, [*[s.size for s in outer], pieces])
                row(indices, piece)
                return []
            indices = text.indices(number, [s.size for s in outer[:-1]])

            def each(index: str, _: list[str]) -> list[str]:
                row([*indices, index], "0")
                return []

            return text.loop("0", str(inner), [], each)

        text.loop("%start", "%stop", [], item)
        return text.finish(name), rows * pieces // inner

    def pieces(self, rows: int) -> tuple[int, int]:
        """Into how many pieces a row is cut where there are few, and their length."""
        last = self.slides[-1]
        first, stop = last.middle()
        wide = self.lanes * TOGETHER
        length = -(-max(PIECE, (stop - first) * rows // FEW) // wide) * wide
        if rows >= FEW or last.target != 1 or stop - first < 2 * length:
            return 1, 0
        return -(-(stop - first) // length), length

    def single(self, places: list[str], target: str, ranges: Any) -> Any:
        last = self.slides[-1]

        def body(index: str, _: list[str]) -> list[str]:
            self.results(places, target, [*ranges, self.range_of(last, index)], index, [1])
            return []

        return body

    def vectors(self, places: list[str], target: str, ranges: Any, widths: list[int]) -> Any:
        whole = ("0", str(self.slides[-1].taps))

        def body(index: str, _: list[str]) -> list[str]:
            self.results(places, target, [*ranges, whole], index, widths)
            return []

        return body

    def ends(self, places: list[str], target: str, ranges: Any) -> None:
        """The results of a row whose windows reach beyond it."""
        last = self.slides[-1]
        first, stop = last.middle()
        for low, high in ((0, first), (stop, last.size)):
            if high > low:
                self.text.loop(str(low), str(high), [], self.single(places, target, ranges))

    def piece(self, places: list[str], target: str, ranges: Any, piece: str, length: int) -> None:
        """A piece of a row; the last one is moved back so that it ends with the row."""
        text, (first, stop) = self.text, self.slides[-1].middle()
        start = text.least(text.scaled(piece, length), stop - first - length)
        start = text.total([start, str(first)])
        end = text.total([start, str(length)])
        body = self.vectors(places, target, ranges, [self.lanes] * TOGETHER)
        text.loop(start, end, [], body, self.lanes * TOGETHER)

    def middle(self, places: list[str], target: str, ranges: Any) -> None:
        """The results of a row whose windows are whole."""
        text, last = self.text, self.slides[-1]
        first, stop = last.middle()
        wide = self.lanes * TOGETHER
        if last.target == 1:
            whole = first + (stop - first) // wide * wide
            if whole > first:
                body = self.vectors(places, target, ranges, [self.lanes] * TOGETHER)
                text.loop(str(first), str(whole), [], body, wide)
                first = whole
            widths = self.widths(stop - first)
            if widths:
                self.vectors(places, target, ranges, widths)(str(first), [])
                first += sum(widths)
        if stop > first:
            text.loop(str(first), str(stop), [], self.single(places, target, ranges))

    def widths(self, rest: int) -> list[int]:
        """Vectors for what is left of a row: halves of halves where they read with a stride."""
        found = [self.lanes] * (rest // self.lanes)
        rest %= self.lanes
        if self.slides[-1].still:
            return [*found, rest] if rest else found
        width = self.lanes // 2
        while width > 2:
            if rest >= width:
                found.append(width)
                rest -= width
            width //= 2
        return found

    def results(
        self, places: list[str], target: str, ranges: Any, index: str, widths: list[int]
    ) -> None:
        """The results from an index of the last axis on."""
        text, last = self.text, self.slides[-1]
        at = text.total([text.scaled(index, last.stride), str(last.start)])
        position = [*places, text.scaled(at, last.source)]
        states = self.taps(position, ranges, widths, last.stride * last.source)
        place = text.total([target, text.scaled(index, last.target)])
        for i, (state, width) in enumerate(zip(states, widths, strict=True)):
            text.lanes = width
            value = self.rule.result(text, state)
            offset = text.total([place, str(sum(widths[:i]))])
            pointer = text.at(f"%b{len(self.have)}", offset, self.out)
            text.write(value, pointer, self.out)
        text.lanes = 1


# --- rules ----------------------------------------------------------------------------------------


class Fold(Rule):
    """Sums and extrema."""

    def __init__(self, kind: str, have: np.dtype, work: np.dtype, identity: bytes) -> None:
        super().__init__((work,))
        self.kind, self.have, self.work, self.identity = kind, have, work, identity

    def start(self, text: Text, exact: str | None, read: Any) -> list[str]:
        return [text.constant(self.work, self.identity)]

    def step(self, text: Text, state: list[str], read: Any, tap: str) -> list[str]:
        value = text.cast(self.have, self.work, read(0))
        if self.kind == "sum":
            add = "fadd" if is_float(self.work) else "add"
            return [text.emit(f"{add} {text.type_of(self.work)} {state[0]}, {value}")]
        better = beats(text, self.kind, self.work, value, state[0])
        return [chosen(text, better, self.work, value, state[0])]

    def result(self, text: Text, state: list[str]) -> str:
        return text.cast(self.work, self.have, state[0])


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
    flags = "i1" if text.lanes == 1 else f"<{text.lanes} x i1>"
    return text.emit(f"and {flags} {further}, {number}")


def chosen(text: Text, condition: str, dtype: np.dtype, yes: str, no: str) -> str:
    flags = "i1" if text.lanes == 1 else f"<{text.lanes} x i1>"
    of = text.type_of(dtype)
    return text.emit(f"select {flags} {condition}, {of} {yes}, {of} {no}")


class Select(Rule):
    """What goes with the first extremum: another operand's element, or the number of the tap.

    Borders count as elements, below all others, that go with zero or with no tap. So a window
    whose own first element is read starts from that element, and others from the border.
    """

    def __init__(self, kind: str, types: Any, work: np.dtype, identity: bytes) -> None:
        self.kind, self.work, self.identity = kind, work, identity
        self.have, self.goes = types  # dtypes of what is compared, and of what goes with it
        super().__init__((work, I32 if self.goes is None else self.goes))

    def start(self, text: Text, exact: str | None, read: Any) -> list[str]:
        best = text.constant(self.work, self.identity)
        other = self.kinds[1]
        tap = np.asarray(-1, I32).tobytes() if self.goes is None else bytes(other.itemsize)
        nothing = text.constant(other, tap)
        if exact is None:
            return [best, nothing]
        result: list[str] = []

        def load() -> None:
            value = text.cast(self.have, self.work, read(0))
            result.append(value)
            result.append("zeroinitializer" if self.goes is None else read(1))
            if self.goes is None and text.lanes == 1:
                result[1] = "0"

        if exact == "true":
            load()
            return result
        before, width = text.block, text.lanes
        text.when(exact, load)
        inside = text.inside
        text.lanes = width
        found = []
        for dtype, value, start in zip(self.kinds, result, (best, nothing), strict=True):
            of = text.type_of(dtype)
            found.append(text.emit(f"phi {of} [ {value}, %{inside} ], [ {start}, %{before} ]"))
        return found

    def step(self, text: Text, state: list[str], read: Any, tap: str) -> list[str]:
        value = text.cast(self.have, self.work, read(0))
        better = beats(text, self.kind, self.work, value, state[0])
        if self.goes is None:
            number = tap
            width = text.lanes
            if tap.startswith("%"):
                text.lanes = 1
                number = text.emit(f"trunc i64 {tap} to i32")
                text.lanes = width
                number = text.splat(I32, number)
            else:
                number = text.constant(I32, np.asarray(int(tap), I32).tobytes())
        else:
            number = read(1)
        best = chosen(text, better, self.work, value, state[0])
        return [best, chosen(text, better, self.kinds[1], number, state[1])]

    def result(self, text: Text, state: list[str]) -> str:
        return state[1]


# --- the scatter ----------------------------------------------------------------------------------


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


class Scatter:
    """Every element's sum over the windows that chose it.

    Buffers are the windows' values, the numbers of their chosen taps and the result.
    """

    def __init__(self, axes: Sequence[Reach], have: np.dtype, work: np.dtype, lanes: int) -> None:
        self.axes, self.have, self.work, self.lanes = axes, have, work, lanes
        self.text = Text(range(3))
        self.add = "fadd" if is_float(work) else "add"

    def bounds(self, axis: Reach, index: str) -> tuple[str, str]:
        """The first window that holds an element, and the first after it that does not."""
        text = self.text
        at = text.total([index, str(axis.low)])
        found = []
        for extra in (axis.stride - axis.window, axis.stride):
            value = text.total([at, str(extra)])
            positive = text.emit(f"icmp sgt i64 {value}, 0")
            value = text.emit(f"select i1 {positive}, i64 {value}, i64 0")
            value = text.emit(f"udiv i64 {value}, {axis.stride}")
            found.append(text.least(value, axis.count))
        return found[0], found[1]

    def visit(self, source: str, tap: str, total: str, width: int) -> str:
        """A sum after one window: its value is added if the tap is the chosen one."""
        text, have, work = self.text, self.have, self.work
        text.lanes = width
        value = text.cast(have, work, text.read(text.at("%b0", source, have), have))
        number = text.read(text.at("%b1", source, I32), I32)
        text.lanes = 1
        mine = text.emit(f"trunc i64 {tap} to i32")
        text.lanes = width
        mine = text.splat(I32, mine)
        same = text.emit(f"icmp eq {text.type_of(I32)} {number}, {mine}")
        added = text.emit(f"{self.add} {text.type_of(work)} {total}, {value}")
        total = chosen(text, same, work, added, total)
        text.lanes = 1
        return total

    def gather(self, indices: list[str], ranges: list[Any], place: str, width: int) -> None:
        """The sums of elements that are neighbours along the last axis."""
        text, axes, work = self.text, self.axes, self.work
        text.lanes = width
        kind = text.type_of(work)
        zero = text.constant(work, bytes(work.itemsize))
        text.lanes = 1

        def walk(axis: int, source: list[str], tap: str, total: str) -> str:
            if axis == len(ranges):
                return self.visit(text.total(source), tap, total, width)
            a, (low, high) = axes[axis], ranges[axis]

            def body(o: str, inside: list[str]) -> list[str]:
                at = text.total([indices[axis], str(a.low)])
                offset = text.emit(f"sub i64 {at}, {text.scaled(o, a.stride)}")
                number = text.total([text.scaled(tap, a.window), offset])
                new = [*source, text.scaled(o, a.source)]
                return [walk(axis + 1, new, number, inside[0])]

            return text.repeat(low, high, [(kind, total)], body)[0]

        given = [] if len(ranges) == len(axes) else [text.scaled(indices[-1], axes[-1].source)]
        total = walk(0, given, "0", zero)
        text.lanes = width
        value = text.cast(work, self.have, total)
        text.write(value, text.at("%b2", place, self.have), self.have)
        text.lanes = 1

    def row(self, indices: list[str], start: str, stop: str, whole: bool) -> None:
        """The elements of a row, or of a piece of one."""
        text, lanes = self.text, self.lanes
        *outer, last = self.axes
        ranges = [self.bounds(a, i) for a, i in zip(outer, indices, strict=True)]
        row = text.total([text.scaled(i, a.target) for a, i in zip(outer, indices, strict=True)])

        def run(width: int) -> Callable[[str, list[str]], list[str]]:
            def body(index: str, _: list[str]) -> list[str]:
                bounds = [] if last.still else [self.bounds(last, index)]
                place = text.total([row, index])
                self.gather([*indices, index], [*ranges, *bounds], place, width)
                return []

            return body

        if not last.still:
            text.loop(start, stop, [], run(1))
        elif whole:
            end = last.size // lanes * lanes
            if end:
                text.loop("0", str(end), [], run(lanes), lanes)
            if last.size > end:
                run(last.size - end)(str(end), [])
        else:
            count = text.emit(f"sub i64 {stop}, {start}")
            count = text.emit(f"and i64 {count}, {-lanes}")
            end = text.emit(f"add i64 {start}, {count}")
            text.repeat(start, end, [], run(lanes), lanes)
            text.repeat(end, stop, [], run(1))

    def finish(self, name: str) -> tuple[str, int]:
        """The function and its extent."""
        text = self.text
        *outer, last = self.axes
        rows = prod(a.size for a in outer)
        length = last.size if rows >= FEW else min(last.size, PIECE)
        pieces = -(-last.size // length)

        def item(number: str, _: list[str]) -> list[str]:
            *indices, piece = text.indices(number, [*[a.size for a in outer], pieces])
            start = text.scaled(piece, length)
            stop = str(last.size)
            if pieces > 1:
                stop = text.least(text.total([start, str(length)]), last.size)
            self.row(indices, start, stop, pieces == 1)
            return []

        text.loop("%start", "%stop", [], item)
        return text.finish(name), rows * pieces
