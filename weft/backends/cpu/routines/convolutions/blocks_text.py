"""LLVM text of large contractions of any shape: tiles in an order, and copies of what they read, by
tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions.conv_writer import Told, stored
from weft.base.functional import lru
from weft.base.record import Record

_I64 = np.dtype(np.int64)

# What is told of an axis of tiles: how many there are, how far they are apart, where the last one
# begins, what a step is in the operands and in the result, and what a tile is in the right operand.
TILES = ("count", "step", "last", "left", "right", "panel", "out")
# An axis of a copy: its size, what a step is in the source's index, which is ``limit`` at most,
# then goes on by ``start``, and is there below ``inside``.
COPIED = ("size", "step", "limit", "start", "inside", "source", "target")
# The last axis: its size, how many elements before those of the source, how many of these, where
# they begin, and how far they are apart.
ROW = ("row", "low", "middle", "begin", "apart")
ONCE = (
    "left0",
    "right0",
    "out0",
    "tail",  # where the last vector of a tile begins
    "columns",  # elements of a row of a tile
    "columns_out",
    "dense",  # 1 where they are neighbours in the result and fill vectors, 2 if they do not
    "runs",  # of steps of a sum
    "apart",  # bytes from row to row of a group: in an operand, and in the result
    "apart_out",
)
# Axes that texts have: of pieces of work, of tiles in a piece, and of a copy.
UNITS, NESTS, COPIES = 4, (4, 8), (4, 9)
# How many multiplications are written out one after another at most: LLVM reads all that they need
# first, for which there must be registers.
UNROLLED = 32


class Form(Record):
    """What fixes the text of a contraction."""

    work: np.dtype
    out: np.dtype
    lanes: int
    rows: int  # of a tile
    width: int  # vectors of a tile
    turned: bool  # whether rows are in the right operand
    vectors: tuple[bool, bool]  # whether rows are read in vectors, and what all rows have in common
    group: int  # rows that are evenly apart, one by one from the first of such a group; 1 for any
    nest: int  # axes


def fields(names: Sequence[str], count: int, prefix: str) -> list[str]:
    return [f"{prefix}{word}{i}" for i in range(count) for word in names]


def copy_fields(rank: int) -> list[str]:
    return [*fields(COPIED, rank - 1, "c"), *(f"c{word}" for word in ROW)]


def block_fields(form: Form) -> list[str]:
    return [
        *fields(TILES, UNITS, "u"),
        *fields(TILES, form.nest, "t"),
        *ONCE,
    ]


# --- copies ---------------------------------------------------------------------------------------


class _Copy:
    """A copy of one element type to another by rows, written into a text."""

    def __init__(self, text: Told, have: np.dtype, want: np.dtype, lanes: int) -> None:
        self.text, self.have, self.want, self.lanes = text, have, want, lanes

    def axis(self, i: int, index: str, given: list[str]) -> list[str]:
        """Where an index along an axis leads: places in source and target, and whether there is a
        source, as a number."""
        text = self.text
        source, target, inside = given
        target = text.plus(target, text.times(index, f"%ctarget{i}"))
        index = text.least(text.times(index, f"%cstep{i}"), f"%climit{i}")
        index = text.plus(index, f"%cstart{i}")
        there = text.emit(f"icmp ult i64 {index}, %cinside{i}")
        inside = text.emit(f"select i1 {there}, i64 {inside}, i64 0")
        return [text.plus(source, text.times(index, f"%csource{i}")), target, inside]

    def nest(self, axes: Sequence[int], given: list[str]) -> None:
        """All rows of some axes."""
        if not axes:
            self.row(*given)
            return
        first, *rest = axes

        def body(index: str, _: list[str]) -> list[str]:
            self.nest(rest, self.axis(first, index, given))
            return []

        self.text.loop("0", f"%csize{first}", [], body)

    def row(self, source: str, target: str, inside: str) -> None:
        text = self.text
        begin = text.at("%b0", text.plus(source, "%cbegin"), self.have)
        place = text.at("%b1", target, self.want)
        there = text.emit(f"icmp ne i64 {inside}, 0")
        low = text.emit(f"select i1 {there}, i64 %clow, i64 0")
        count = text.emit(f"select i1 {there}, i64 %cmiddle, i64 0")
        high = text.plus(low, count)
        self.fill("0", low, place)
        self.fill(high, "%crow", place)
        near = text.emit("icmp eq i64 %capart, 1")
        begun = text.at(place, low, self.want)

        def move(at: str) -> None:
            value = text.read(text.at(begin, at, self.have), self.have)
            value = text.cast(self.have, self.want, value)
            text.write(value, text.at(begun, at, self.want), self.want)

        self.vectors("0", text.emit(f"select i1 {near}, i64 {count}, i64 0"), move)

        def some(i: str, given: list[str], number: int) -> list[str]:
            (place,) = given
            values = []
            for _ in range(number):
                values.append(text.cast(self.have, self.want, text.read(place, self.have)))
                place = text.at(place, "%capart", self.have)
            for n, value in enumerate(values):
                text.write(
                    value, text.at(text.at(begun, i, self.want), str(n), self.want), self.want
                )
            return [place]

        count = text.emit(f"select i1 {near}, i64 0, i64 {count}")
        fours = text.emit(f"and i64 {count}, -4")
        place = text.repeat("0", fours, [("ptr", begin)], lambda i, g: some(i, g, 4), 4)
        text.repeat(fours, count, [("ptr", *place)], lambda i, g: some(i, g, 1))

    def fill(self, first: str, last: str, place: str) -> None:
        """Zeros from one place of a row to another."""
        text = self.text

        def zero(at: str) -> None:
            value = "zeroinitializer" if text.lanes > 1 else text.constant_scalar(self.want, 0)
            text.write(value, text.at(place, at, self.want), self.want)

        self.vectors(first, last, zero)

    def vectors(self, first: str, last: str, work: Callable[[str], None]) -> None:
        """Work on whole vectors, the last of which may have something in common with that before
        it; or on single elements where there is not even one."""
        text = self.text
        end = text.emit(f"sub i64 {last}, {self.lanes}")
        whole = text.emit(f"icmp sge i64 {end}, {first}")

        def some(i: str, _: list[str]) -> list[str]:
            text.lanes = self.lanes
            work(text.least(i, end))
            text.lanes = 1
            return []

        def one(i: str, _: list[str]) -> list[str]:
            work(i)
            return []

        text.repeat(first, text.emit(f"select i1 {whole}, i64 {last}, i64 {first}"), [], some,
                    self.lanes)  # fmt: skip
        text.repeat(first, text.emit(f"select i1 {whole}, i64 {first}, i64 {last}"), [], one)


@lru(64)
def rows_text(have: np.dtype, want: np.dtype, rank: int, lanes: int, name: str) -> str:
    """A task that copies, over the first two axes: buffers are source, target and table."""
    text = Told(2, copy_fields(rank))
    copy = _Copy(text, have, want, lanes)

    def item(number: str, _: list[str]) -> list[str]:
        given = ["0", "0", "1"]
        for i, index in enumerate(text.indices(number, ["%csize0", "%csize1"])):
            given = copy.axis(i, index, given)
        copy.nest(range(2, rank - 1), given)
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(name)


# --- contractions ---------------------------------------------------------------------------------


class _Tile:
    """The sums of a tile: rows of vectors."""

    def __init__(self, text: Told, form: Form) -> None:
        self.text, self.form = text, form
        text.lanes = form.lanes
        self.kind = text.type_of(form.work)
        text.lanes = 1
        self.table = len(block_fields(form))

    def rows(self, base: str, offset: str, side: int, dtype: np.dtype) -> list[str]:
        """Where each group of rows begins, in an operand or in the result."""
        text, form = self.text, self.form
        found = []
        for r in range(0, form.rows, form.group):
            at = text.at("%sized", str(self.table + side * form.rows + r), _I64)
            found.append(text.at(base, text.plus(offset, text.read(at, _I64)), dtype))
        return found

    def evenly(self, places: Sequence[str], apart: str) -> list[str]:
        """Where the rows of groups are. Processors have multiples of 2 and 4 of a distance in an
        address, so that few registers hold the distances."""
        found = []
        for place in places:
            found.append(place)
            for r in range(1, self.form.group):
                times = 4 if r == 4 else 2 if r in (2, 6) else 1
                given = f"[{times} x i8], ptr {place}, i64 %{apart}{r // times}"
                found.append(self.text.emit(f"getelementptr {given}"))
        return found

    def spread(self, groups: list[list[str]]) -> list[list[str]]:
        """Where the vectors of all rows are, by those of the first row of each group: the first of
        them, and the last one if there are more."""
        text, form = self.text, self.form
        firsts = self.evenly([places[0] for places in groups], "apart")
        if len(groups[0]) == 1:
            return [[place] for place in firsts]
        lasts = self.evenly([places[1] for places in groups], "apart")
        return [
            [*(text.at(one, str(v * form.lanes), form.work) for v in range(form.width - 1)), last]
            for one, last in zip(firsts, lasts, strict=True)
        ]

    def places(self, base: str, dtype: np.dtype) -> list[str]:
        """Where the vectors of a row begin."""
        text, form = self.text, self.form
        found = [text.at(base, str(v * form.lanes), dtype) for v in range(form.width - 1)]
        return [*found, text.at(base, "%tail", dtype)] if form.width > 1 else [base]

    def read(self, places: list[str], vectors: bool) -> list[str]:
        """What one row, or all of them, is multiplied by."""
        text, form = self.text, self.form
        if vectors:
            text.lanes = form.lanes
            values = [text.read(p, form.work) for p in places]
        else:
            one = text.read(places[0], form.work)
            text.lanes = form.lanes
            values = [text.splat(form.work, one)] * form.width
        text.lanes = 1
        return values

    def added(self, total: str, one: str, other: str) -> str:
        text, work = self.text, self.form.work
        if work.kind in "iu":
            term = text.emit(f"mul {self.kind} {one}, {other}")
            return text.emit(f"add {self.kind} {total}, {term}")
        text.lanes = self.form.lanes
        value = text.call("fmuladd", work, [one, other, total])
        text.lanes = 1
        return value

    def step(
        self, rows: list[list[str]], common: list[str], i: str, j: str, sums: list[str]
    ) -> list[str]:
        """The sums after one more element, at ``i`` in rows and at ``j`` in what they share."""
        text, form = self.text, self.form
        shared = self.read([text.at(p, j, form.work) for p in common], form.vectors[1])
        found = self.spread([[text.at(p, i, form.work) for p in places] for places in rows])
        new = []
        for r, places in enumerate(found):
            factors = self.read(places, form.vectors[0])
            own = sums[r * form.width : (r + 1) * form.width]
            new += [self.added(*given) for given in zip(own, factors, shared, strict=True)]
        return new

    def sums(self, rows: list[list[str]], common: list[str]) -> list[str]:
        """The sums over all steps, of which there may be none."""
        text, form = self.text, self.form
        runs = text.at("%sized", str(self.table + 3 * form.rows), _I64)
        table = text.at(runs, text.times("%runs", "3"), _I64)
        kinds = [self.kind] * (form.rows * form.width)
        near = form.group > 1 or 1 in (form.rows, form.width)
        unrolled = max(1, UNROLLED // len(kinds)) if near else 1

        def told(at: str, count: int) -> list[str]:
            return [text.read(text.at(at, str(i), _I64), _I64) for i in range(count)]

        def moved(places: Any, offset: str) -> Any:
            if isinstance(places, str):
                return text.at(places, offset, form.work)
            return [moved(place, offset) for place in places]

        def run(number: str, given: list[str]) -> list[str]:
            left, right, count = told(text.at(runs, text.times(number, "3"), _I64), 3)
            i, j = (right, left) if form.turned else (left, right)
            own, shared = moved(rows, i), moved(common, j)

            def steps(number: str, totals: list[str], count: int) -> list[str]:
                at = text.at(table, text.times(number, "2"), _I64)
                for n in range(count):
                    # That both are read is why LLVM keeps the order of what is done with them,
                    # without which there are not enough registers.
                    places = told(text.at(at, str(2 * n), _I64), 2)
                    i, j = places[::-1] if form.turned else places
                    totals = self.step(own, shared, i, j, totals)
                return totals

            carried = list(zip(kinds, given, strict=True))
            if unrolled == 1:
                return text.repeat("0", count, carried, lambda i, g: steps(i, g, 1))
            whole = text.emit(f"and i64 {count}, {-unrolled}")
            done = text.repeat("0", whole, carried, lambda i, g: steps(i, g, unrolled), unrolled)
            carried = list(zip(kinds, done, strict=True))
            return text.repeat(whole, count, carried, lambda i, g: steps(i, g, 1))

        first = [(kind, "zeroinitializer") for kind in kinds]
        return text.repeat("0", "%runs", first, run)

    def write(self, sums: list[str], groups: list[str]) -> None:
        """A tile as it is where its columns are neighbours, and fill vectors; else one by one."""
        text, form = self.text, self.form

        def cut() -> None:
            text.lanes, text.mask = form.lanes, "%cut"
            kept, kind = (text.type_of(dtype) for dtype in (stored(form.out), form.out))
            for row, total in zip(self.evenly(groups, "apart_out"), sums, strict=True):
                value = text.cast(form.work, form.out, total)
                if kept != kind:
                    value = text.emit(f"bitcast {kind} {value} to {kept}")
                text.masked("store", row, stored(form.out), value)
            text.lanes, text.mask = 1, None

        def whole() -> None:
            for r, row in enumerate(self.evenly(groups, "apart_out")):
                places = self.places(row, form.out)
                for place, total in zip(places, sums[r * form.width :]):
                    text.lanes = form.lanes
                    text.write(text.cast(form.work, form.out, total), place, form.out)
                    text.lanes = 1

        def single() -> None:
            wide = form.width * form.lanes
            begun = [text.at("%tile", str(r * wide), form.work) for r in range(form.rows)]
            for r, row in enumerate(begun):
                places = self.places(row, form.work)
                for place, total in zip(places, sums[r * form.width :]):
                    text.lanes = form.lanes
                    text.write(total, place, form.work)
                    text.lanes = 1

            def column(i: str, _: list[str]) -> list[str]:
                offset = text.times(i, "%columns_out")
                rows = self.evenly([text.at(g, offset, form.out) for g in groups], "apart_out")
                for row, source in zip(rows, begun, strict=True):
                    value = text.read(text.at(source, i, form.work), form.work)
                    text.write(text.cast(form.work, form.out, value), row, form.out)
                return []

            text.loop("0", "%columns", [], column)

        ways = [single, whole, cut] if form.width == 1 else [single, whole]
        for number, way in enumerate(ways):
            text.when(text.emit(f"icmp eq i64 %dense, {number}"), way)

    def compute(self, given: list[str]) -> None:
        """A tile at places in the operands and in the result."""
        text, form = self.text, self.form
        begun = [("%b0", given[0]), ("%b1", given[1])]
        own, other = begun[::-1] if form.turned else begun
        shared = text.at(*other, form.work)
        rows = [[row] for row in self.rows(*own, 1 if form.turned else 0, form.work)]
        if form.vectors[0] and form.width > 1:
            rows = [[row, text.at(row, "%tail", form.work)] for (row,) in rows]
        sums = self.sums(rows, self.places(shared, form.work) if form.vectors[1] else [shared])
        self.write(sums, self.rows("%b2", given[2], 2, form.out))


class _Blocks:
    """The function of a contraction."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.text = Told(3, block_fields(form))
        self.tile = _Tile(self.text, form)

    def moved(self, axis: str, index: str, given: Sequence[str]) -> list[str]:
        """Places after a number of tiles along an axis."""
        text = self.text
        prefix, i = axis[0], axis[1:]
        first = text.least(text.times(index, f"%{prefix}step{i}"), f"%{prefix}last{i}")
        strides = [f"%{prefix}{word}{i}" for word in ("left", "right", "out")]
        places = [text.plus(p, text.times(first, s)) for p, s in zip(given, strides, strict=True)]
        places[1] = text.plus(places[1], text.times(index, f"%{prefix}panel{i}"))
        return places

    def nest(self, axis: int, given: list[str]) -> None:
        if axis == self.form.nest:
            self.tile.compute(given)
            return

        def body(index: str, _: list[str]) -> list[str]:
            self.nest(axis + 1, self.moved(f"t{axis}", index, given))
            return []

        self.text.loop("0", f"%tcount{axis}", [], body)

    def unit(self, number: str, _: list[str]) -> list[str]:
        given = ["%left0", "%right0", "%out0"]
        indices = self.text.indices(number, [f"%ucount{i}" for i in range(UNITS)])
        for i, index in enumerate(indices):
            given = self.moved(f"u{i}", index, given)
        self.nest(0, given)
        return []

    def finish(self, name: str) -> str:
        text, form = self.text, self.form
        size = form.rows * form.width * form.lanes * form.work.itemsize
        for n in (1, 3, 5, 7):
            text.line(f"%apart{n} = mul i64 %apart, {n}")
            text.line(f"%apart_out{n} = mul i64 %apart_out, {n}")
        order = ", ".join(f"i32 {i}" for i in range(form.lanes))
        text.line("%count = trunc i64 %columns to i32")
        text.lanes = form.lanes
        limit = text.splat(np.dtype(np.int32), "%count")
        text.lanes = 1
        text.line(f"%cut = icmp slt <{form.lanes} x i32> <{order}>, {limit}")
        text.line(f"%tile = alloca [{size} x i8], align 64")
        text.loop("%start", "%stop", [], self.unit)
        return text.finish(name)


@lru(64)
def blocks_text(form: Form, name: str) -> str:
    """A task over pieces of work, each of tiles of the result: buffers are both operands, the
    result and the table.

    The table ends with where rows are in the left operand, in the right one and in the result; with
    runs of steps of a sum, where each begins in both operands and how many it has; and with where
    steps are in these, of which a run has the first ones.
    """
    return _Blocks(form).finish(name)
