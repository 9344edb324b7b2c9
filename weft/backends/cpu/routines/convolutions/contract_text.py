"""LLVM text that reads all sizes from a table: copies with borders, and sums of products, or of
elements, at affine indices. One text does for operations of all shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.backends.cpu.routines.convolutions.conv_writer import Text, stored
from weft.backends.cpu.routines.windows.window_text import Fold
from weft.base.functional import lru
from weft.base.record import Record

_I64 = np.dtype(np.int64)

# What a copy is told of an axis. The source's index is ``index * step + start``, and that of the
# axis before it is added with ``link``; elements are there below ``inside``.
COPIED = ("size", "step", "start", "link", "inside", "source", "target")
# What a contraction is told of its outer axes, and once. Behind that are, for each step of a sum,
# where it is in the left operand and in the right one.
OUTER = ("size", "left", "right", "out")
ONCE = (
    "rows",
    "row_tiles",
    "row_last",  # where the last tile begins
    "row_left",
    "row_out",
    "columns",
    "column_tiles",
    "column_last",
    "column_out",
    "left",  # where the operands and the result begin
    "right",
    "out",
    "steps",
    "deep",  # elements that are summed in each step, and how far they are apart
    "deep_left",
    "deep_right",
)


class Form(Record):
    """What fixes the text of a contraction."""

    work: np.dtype
    out: np.dtype
    kind: str  # "dot" for products of both operands, else how elements of the right one are folded
    identity: bytes
    lanes: int
    rows: int  # of a tile
    width: int  # vectors of a tile
    outer: int  # axes
    deep: bool  # whether steps are of more than one element
    paired: bool = False  # whether the left operand is read in vectors too
    stride: int = 1  # from one element of a vector to the next in the right operand, at most 2


def copied_fields(rank: int) -> list[str]:
    return [f"{word}{i}" for i in range(rank) for word in COPIED]


def contracted_fields(outer: int) -> list[str]:
    return [*(f"{word}{i}" for i in range(outer) for word in OUTER), *ONCE]


class Told(Text):
    """A task's function that is told numbers by the last of its buffers."""

    def __init__(
        self, buffers: int, fields: Sequence[str], name: str = "", parameters: str = ""
    ) -> None:
        super().__init__(range(buffers), name, parameters)
        at = self.emit(f"getelementptr ptr, ptr %buffers, i64 {buffers}")
        self.line(f"%sized = load ptr, ptr {at}, align 8")
        for i, field in enumerate(fields):
            at = self.emit(f"getelementptr i64, ptr %sized, i64 {i}")
            self.line(f"%{field} = load i64, ptr {at}, align 8")

    def times(self, a: str, b: str) -> str:
        return self.emit(f"mul i64 {a}, {b}")

    def plus(self, a: str, b: str) -> str:
        return self.emit(f"add i64 {a}, {b}")

    def smaller(self, a: str, b: str) -> str:
        return self.emit(f"select i1 {self.emit(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def second(self, pointer: str, dtype: np.dtype) -> str:
        """Every second element from one on, and none after the last of them."""
        kind, width = self.type_of(stored(dtype)), self.lanes
        low = self.read(pointer, stored(dtype))
        high = self.read(self.at(pointer, str(width - 1), dtype), stored(dtype))
        order = [2 * i if 2 * i < width else 2 * i + 1 for i in range(width)]
        mask = ", ".join(f"i32 {i}" for i in order)
        value = self.emit(f"shufflevector {kind} {low}, {kind} {high}, <{width} x i32> <{mask}>")
        if stored(dtype) == dtype:
            return value
        return self.emit(f"bitcast {kind} {value} to {self.type_of(dtype)}")

    def apart(self, number: str, sizes: Sequence[str]) -> list[str]:
        """A number as an index along each axis, the last running fastest."""
        found = []
        for size in reversed(sizes[1:]):
            found.append(self.emit(f"urem i64 {number}, {size}"))
            number = self.emit(f"udiv i64 {number}, {size}")
        return [number, *reversed(found)]


# --- copies ---------------------------------------------------------------------------------------


@lru(64)
def copy_text(
    have: np.dtype, want: np.dtype, rank: int, lanes: int, around: bytes, name: str
) -> str:
    """A task over rows: buffers are source, target and table. Where there is no source, elements
    are ``around``."""
    text = Told(2, copied_fields(rank))
    inner = rank - 1

    def fill(first: str, last: str, target: str) -> None:
        def one(i: str, _: list[str]) -> list[str]:
            place = text.at(target, text.times(i, f"%target{inner}"), want)
            text.write(text.constant(want, around), place, want)
            return []

        text.repeat(first, last, [], one)

    def move(first: str, last: str, source: str, target: str, width: int, step: int | str) -> None:
        def some(i: str, _: list[str]) -> list[str]:
            begin = text.at(source, text.times(i, str(step)), have)
            place = text.at(target, text.times(i, f"%target{inner}"), want)
            text.lanes = width
            value = text.second(begin, have) if step == 2 else text.read(begin, have)
            text.write(text.cast(have, want, value), place, want)
            text.lanes = 1
            return []

        text.repeat(first, last, [], some, width)

    def item(number: str, _: list[str]) -> list[str]:
        indices = text.apart(number, [f"%size{i}" for i in range(inner)])
        inside, source, target, last = "true", "0", "0", "0"
        for i, index in enumerate(indices):
            last = text.plus(text.times(last, f"%link{i}"), f"%start{i}")
            last = text.plus(last, text.times(index, f"%step{i}"))
            there = text.emit(f"icmp ult i64 {last}, %inside{i}")
            inside = text.emit(f"and i1 {inside}, {there}")
            source = text.plus(source, text.times(last, f"%source{i}"))
            target = text.plus(target, text.times(index, f"%target{i}"))
        base = text.plus(text.times(last, f"%link{inner}"), f"%start{inner}")
        bounds = []
        for edge in ("0", f"%inside{inner}"):
            distance = text.emit(f"sub i64 {edge}, {base}")
            more = text.emit(f"icmp sgt i64 {distance}, 0")
            distance = text.emit(f"select i1 {more}, i64 {distance}, i64 0")
            up = text.plus(distance, text.emit(f"sub i64 %step{inner}, 1"))
            bound = text.smaller(text.emit(f"udiv i64 {up}, %step{inner}"), f"%size{inner}")
            bounds.append(text.emit(f"select i1 {inside}, i64 {bound}, i64 %size{inner}"))
        low, high = bounds
        begin = text.plus(source, text.times(base, f"%source{inner}"))
        begin, place = text.at("%b0", begin, have), text.at("%b1", target, want)
        fill("0", low, place)
        fill(high, f"%size{inner}", place)
        step = text.times(f"%step{inner}", f"%source{inner}")
        dense = text.emit(f"icmp eq i64 {step}, 1")
        next_to = text.emit(f"icmp eq i64 %target{inner}, 1")
        dense = text.emit(f"and i1 {dense}, {next_to}")
        count = text.emit(f"sub i64 {high}, {low}")
        whole = count if have == want else text.emit(f"and i64 {count}, {-lanes}")
        middle = text.plus(low, text.emit(f"select i1 {dense}, i64 {whole}, i64 0"))
        second = text.emit(f"icmp eq i64 {step}, 2")
        second = text.emit(f"and i1 {second}, {next_to}")
        pairs = text.emit(f"and i64 {count}, {-lanes}")
        last = text.plus(middle, text.emit(f"select i1 {second}, i64 {pairs}, i64 0"))
        if have == want:
            size = text.times(text.emit(f"sub i64 {middle}, {low}"), str(have.itemsize))
            text.copy(text.at(begin, low, have), text.at(place, low, want), size)
        else:
            move(low, middle, begin, place, lanes, 1)
        move(middle, last, begin, place, lanes, 2)
        move(last, high, begin, place, 1, step)
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(name)


# --- contractions ---------------------------------------------------------------------------------


class _Tile:
    """The sums of a tile: rows of vectors."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.text = Told(3, contracted_fields(form.outer))
        self.wide = form.lanes * form.width
        self.keys = [(r, v) for r in range(form.rows) for v in range(form.width)]
        self.fold = Fold(form.kind, form.work, form.work, form.identity)
        self.text.lanes = form.lanes
        self.vector = self.text.type_of(form.work)
        self.text.lanes = 1

    def step(self, left: list[str], right: str, i: str, j: str, sums: list[str]) -> list[str]:
        """The sums after one more element: at ``i`` of the left operand, at ``j`` of the right."""
        text, form = self.text, self.form
        base = text.at(right, j, form.work)
        text.lanes = form.lanes
        read = text.read if form.stride == 1 else text.second
        vectors = [
            read(text.at(base, str(v * form.lanes * form.stride), form.work), form.work)
            for v in range(form.width)
        ]
        new = []
        if form.kind != "dot":
            for value, total in zip(vectors, sums, strict=True):
                new += self.fold.step(text, [total], lambda _, value=value: value, "0")
        else:
            for r in range(form.rows):
                row = sums[r * form.width : (r + 1) * form.width]
                factors = self.factors(text.at(left[r], i, form.work))
                new += [self.added(*given) for given in zip(row, factors, vectors, strict=True)]
        text.lanes = 1
        return new

    def factors(self, place: str) -> list[str]:
        """What the vectors of a row are multiplied by."""
        text, form = self.text, self.form
        if form.paired:
            places = [text.at(place, str(v * form.lanes), form.work) for v in range(form.width)]
            return [text.read(at, form.work) for at in places]
        text.lanes = 1
        one = text.read(place, form.work)
        text.lanes = form.lanes
        return [text.splat(form.work, one)] * form.width

    def added(self, total: str, one: str, vector: str) -> str:
        text, work = self.text, self.form.work
        if work.kind in "iu":
            term = text.emit(f"mul {self.vector} {one}, {vector}")
            return text.emit(f"add {self.vector} {total}, {term}")
        return text.call("fmuladd", work, [one, vector, total])

    def sums(self, left: list[str], right: str) -> list[str]:
        """The sums over all steps, of which there may be none."""
        text, form = self.text, self.form
        table = text.at("%sized", str(len(contracted_fields(form.outer))), _I64)
        kinds = [self.vector] * len(self.keys)

        def step(number: str, given: list[str]) -> list[str]:
            at = text.at(table, text.times(number, "2"), _I64)
            i, j = text.read(at, _I64), text.read(text.at(at, "1", _I64), _I64)
            if not form.deep:
                return self.step(left, right, i, j, given)

            def inner(_: str, inside: list[str]) -> list[str]:
                a, b, *totals = inside
                totals = self.step(left, right, a, b, totals)
                return [text.plus(a, "%deep_left"), text.plus(b, "%deep_right"), *totals]

            carried = [("i64", i), ("i64", j), *zip(kinds, given, strict=True)]
            return text.loop("0", "%deep", carried, inner)[2:]

        text.lanes = form.lanes
        first = text.constant(form.work, form.identity)
        text.lanes = 1
        carried = [(kind, first) for kind in kinds]
        return text.repeat("0", "%steps", carried, step)

    def write(self, sums: list[str], rows: list[str], count: str) -> None:
        """A tile as it is where its columns are neighbours, and all there; else one by one."""
        text, form = self.text, self.form
        full = text.emit(f"icmp eq i64 {count}, {self.wide}")
        dense = text.emit("icmp eq i64 %column_out, 1")
        full = text.emit(f"and i1 {full}, {dense}")

        def whole() -> None:
            text.lanes = form.lanes
            for (r, v), total in zip(self.keys, sums, strict=True):
                place = text.at(rows[r], str(v * form.lanes), form.out)
                text.write(text.cast(form.work, form.out, total), place, form.out)
            text.lanes = 1

        def single() -> None:
            for r, row in enumerate(rows):
                text.lanes = form.lanes
                for v in range(form.width):
                    place = text.at("%tile", str(v * form.lanes), form.work)
                    text.write(sums[r * form.width + v], place, form.work)
                text.lanes = 1

                def one(i: str, _: list[str], row: str = row) -> list[str]:
                    value = text.read(text.at("%tile", i, form.work), form.work)
                    place = text.at(row, text.times(i, "%column_out"), form.out)
                    text.write(text.cast(form.work, form.out, value), place, form.out)
                    return []

                text.loop("0", count, [], one)

        text.when(full, whole)
        text.when(text.emit(f"xor i1 {full}, true"), single)

    def item(self, number: str, _: list[str]) -> list[str]:
        text, form = self.text, self.form
        sizes = [*(f"%size{i}" for i in range(form.outer)), "%row_tiles", "%column_tiles"]
        *outer, row, column = text.apart(number, sizes)
        column = text.smaller(text.times(column, str(self.wide)), "%column_last")
        row = text.smaller(text.times(row, str(form.rows)), "%row_last")
        right = text.plus("%right", text.times(column, str(form.stride)))
        left, out = "%left", "%out"
        for i, index in enumerate(outer):
            left = text.plus(left, text.times(index, f"%left{i}"))
            right = text.plus(right, text.times(index, f"%right{i}"))
            out = text.plus(out, text.times(index, f"%out{i}"))
        out = text.plus(out, text.times(column, "%column_out"))
        end = text.emit("sub i64 %rows, 1")
        lefts, outs = [], []
        for r in range(form.rows):
            index = text.smaller(text.plus(row, str(r)), end)
            offset = text.plus(left, text.times(index, "%row_left"))
            offset = text.plus(offset, column) if form.paired else offset
            lefts.append(text.at("%b0", offset, form.work))
            place = text.plus(out, text.times(index, "%row_out"))
            outs.append(text.at("%b2", place, form.out))
        sums = self.sums(lefts, text.at("%b1", right, form.work))
        rest = text.emit(f"sub i64 %columns, {column}")
        self.write(sums, outs, text.smaller(rest, str(self.wide)))
        return []

    def finish(self, name: str) -> str:
        text = self.text
        size = self.wide * self.form.work.itemsize
        text.line(f"%tile = alloca [{size} x i8], align 64")
        text.loop("%start", "%stop", [], self.item)
        return text.finish(name)


@lru(64)
def contraction_text(form: Form, name: str) -> str:
    """A task over tiles of the result, the columns of a row one after the other: buffers are both
    operands, the result and the table.

    Tiles that would reach beyond the result begin earlier. The right operand is read in vectors
    along the columns, of which there may be more in memory than in the result.
    """
    return _Tile(form).finish(name)


# --- complex numbers ------------------------------------------------------------------------------


@lru(8)
def parts_text(work: np.dtype, name: str) -> str:
    """A task that writes complex numbers x + iy as four arrays x, y, -y, x."""
    text = Told(2, ["size"])

    def item(number: str, _: list[str]) -> list[str]:
        begin = text.at("%b0", text.times(number, "2"), work)
        x, y = text.read(begin, work), text.read(text.at(begin, "1", work), work)
        minus = text.emit(f"fneg {text.type_of(work)} {y}")
        place = text.at("%b1", number, work)
        for value in (x, y, minus, x):
            text.write(value, place, work)
            place = text.at(place, "%size", work)
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(name)
