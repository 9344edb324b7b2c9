"""LLVM text of contractions with affine indices: what is contracted, in which tiles and in which
order is the caller's plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.contractions.conv_moves import Copied, Copy
from weft.backends.cpu.routines.contractions.conv_writer import Coded, Text, stored
from weft.backends.cpu.routines.contractions.rules import Rule, products
from weft.backends.llvm.code import Module, parameters
from weft.backends.llvm.native.processor import has_by_element_fma
from weft.base.record import Record
from weft.base.sizes import Size, is_one, is_writing, same
from weft.kernel.nodes import BF16

_I64 = np.dtype(np.int64)
# How many multiplications of a reduction are written out one after another.
UNROLLED = 24
# Cycles of a row of tiles, and bytes of a row of a copy, from which what is done to find them does
# not matter: it is compiled without care.
LONG_ROW_CYCLES = 2000
LONG_COPY_BYTES = 512
CARELESS, APART = ("#0", "noinline", "optnone"), ("#0", "noinline")
# Elements of a tile that are written one by one at most.
SCATTERED = 64


class Axis(Record):
    """An axis of the grid of tiles: ``count`` tiles of ``step`` elements of ``size``.

    The last tile is moved back so that it ends with the axis: what it has in common with the one
    before it is computed twice, to the same bits. Strides are in elements. ``panels`` is the
    distance of tiles in a right operand that was copied tile by tile, ``tiles`` that in a left one.
    """

    count: int  # type: ignore[assignment]  # a field, not the method of tuples
    step: int
    size: int
    left: int
    right: int
    out: int
    panels: int = 0
    tiles: int = 0


class Clip(Record):
    """Which taps of a summed dimension are read: those that lie inside of the left operand.

    At index ``i`` of an ``axis`` of the grid, whose last one is -1, tap ``t`` lies at
    ``start + i * stride + t * dilation`` of ``length``.
    """

    axis: int
    start: int
    stride: int
    dilation: int
    length: int


class Dim(Record):
    """A size and the strides with which operands are walked along it; for a summed dimension,
    ``out`` is how many taps further the next one is, where taps have numbers."""

    size: int
    left: int
    right: int
    out: int = 0
    clip: Clip | None = None


class Walk(Record):
    """The innermost loop of a sum: its turns, where the steps of one are along each side, and how
    many elements of the left operand a load reads."""

    turns: Dim
    offsets: list[tuple[int, ...]]
    lanes: int = 1


class Unit(Record):
    """An axis of units, which are tiles that read a copy of a part of the left operand.

    A step along ``axis`` is ``source`` elements of the operand, unless it shifts the copy's shifted
    axis by ``shift`` indices.
    """

    axis: Axis
    source: int
    shift: int = 0


class Border(Record):
    """The copy that each unit makes before it reads it, of ``size`` elements: in memory of its own
    where ``kept``, else where the last one was."""

    units: tuple[Unit, ...]
    dims: tuple[Copied, ...]
    have: np.dtype
    lanes: int
    size: int
    kept: bool


class Panel(Record):
    """The copy of a part of the right operand that each item makes before it reads it."""

    dims: tuple[Copied, ...]
    have: np.dtype
    lanes: int
    size: int


class Contraction(Record):
    """Sums of products over ``reduced``, for tiles of ``box`` times ``pieces`` of the vector axis;
    or what a ``rule`` does with one operand or two.

    ``vector`` has stride zero in the operands that do not vary along it, and one in others; under a
    rule any. Rows of tiles are found by ``careless`` code where they take long. A vector axis that
    the result does not have is ``folded``: lanes are added up in the end. With ``finish`` a kernel
    goes on with each tile: its function is in place of the result; unless ``once`` is empty it
    touches each element once, and ``once`` is what the last axis is, "rows" of the only box or
    "columns" of vectors; the other is before it. With ``run``, an item is so many tiles of the last
    axis, not all; the axis before it is faster. With ``together``, an item is all rows of the axis
    before it.

    Taps are counted from ``tap``. A row has tiles of ``more`` contractions too, whose grids are
    their last axes.
    """

    work: np.dtype
    out: np.dtype
    grid: tuple[Axis, ...]
    box: tuple[Dim, ...]
    vector: Dim
    pieces: tuple[tuple[int, int], ...]
    reduced: tuple[Dim, ...]
    left_start: int
    right_start: int
    out_start: int
    registers: int
    careless: bool = False
    border: Border | None = None
    finish: bool = False
    once: str = ""
    run: int = 0
    panel: Panel | None = None
    unrolled: int = UNROLLED
    ahead: int = 0
    rule: Rule | None = None
    tap: int = 0
    together: bool = False
    more: tuple[Any, ...] = ()

    @property
    def pitch(self) -> int:
        """Elements of the vectors of a tile at a point."""
        return sum(width for _, width in self.pieces)

    @property
    def turn(self) -> int:
        """Steps of a reduction that are written out one after another."""
        return max(1, self.unrolled // (prod(d.size for d in self.box) * len(self.pieces)))

    @property
    def starts(self) -> tuple[int, int, int]:
        return self.left_start, self.right_start, self.out_start

    @property
    def elements(self) -> int:
        """How many a tile has."""
        return prod(d.size for d in self.box) * self.pitch

    @property
    def folded(self) -> bool:
        """Whether vectors run along a sum."""
        return self.vector.out == 0

    @property
    def turned(self) -> bool:
        """Whether tiles, whose vectors are not neighbours in the result, are written by way of
        memory: element by element they would take long to compile."""
        near = any(d.out == 1 and d.size > 1 for d in self.box)
        return self.vector.out > 1 and near and self.elements > SCATTERED

    @property
    def converted(self) -> bool:
        """Whether tiles become narrower numbers by way of memory, for the same reason."""
        return self.out == BF16 and self.vector.out == 1 and self.elements > SCATTERED


def is_long(cycles: float) -> bool:
    """Whether rows of tiles take so long that it does not matter how they are found."""
    return cycles >= LONG_ROW_CYCLES and not is_writing()


# --- contractions ---------------------------------------------------------------------------------


def collapsed(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The same walk by fewer dimensions: neighbours joined where they are one in memory."""
    out: list[Dim] = []
    for d in dims:
        if is_one(d.size):
            continue
        if out:
            outer = out[-1]
            strides = zip(outer[1:4], d[1:4], strict=True)
            if all(same(a, d.size * b) for a, b in strides):
                out[-1] = Dim(outer.size * d.size, *d[1:])
                continue
        out.append(d)
    return tuple(out)


class Tile:
    """The sums of one tile, in registers; ``ranges`` are the taps that are read, by axes."""

    def __init__(self, text: Text, plan: Contraction, ranges: dict[int, Any]) -> None:
        self.text, self.plan = text, plan
        self.rule = plan.rule or products(plan.work)
        self.count = len(self.rule.kinds)  # of values that a sum's state has
        self.kind_of = dict(zip(self.rule.sides, self.rule.types, strict=False))
        self.ranges = ranges
        self.points = list(product(*[range(d.size) for d in plan.box]))
        self.keys = [(p, piece) for p in self.points for piece in plan.pieces]
        self.left_lanes = 1  # elements of the left operand that one load reads

    def kinds(self) -> list[str]:
        kinds = []
        for _, (_, width) in self.keys:
            self.text.lanes = width
            kinds += [self.text.type_of(kind) for kind in self.rule.kinds]
        self.text.lanes = 1
        return kinds

    def operand(self, known: Any, base: str, side: str, point: Any, step: int, piece: Any) -> str:
        """An operand's value: a vector where it varies along the vector axis, else one number."""
        text, plan = self.text, self.plan
        if side == "out":
            return text.total([base, str(step)])
        (first, width), dtype = piece, self.kind_of[side]
        strides = [getattr(d, side) for d in plan.box]
        corner = sum(i * s for i, s in zip(point, strides, strict=True))
        varies = getattr(plan.vector, side)
        corner += first * varies
        offset = step + corner
        key = (side, offset, width)
        if key not in known:
            if varies:
                address = self.address(base, step, corner, dtype)
                text.lanes = width
                known[key] = text.read(address, dtype, varies)
            else:
                wide = self.left_lanes if side == "left" else 1
                lane = (point[-1] if self.by_rows else step) % wide if wide > 1 else 0
                one = known.get((side, offset - lane, 0))
                text.lanes = wide
                if one is None:
                    step, corner = (step, corner - lane) if self.by_rows else (step - lane, corner)
                    address = self.address(base, step, corner, dtype)
                    one = known[side, offset - lane, 0] = text.read(address, plan.work)
                kind, text.lanes = text.type_of(plan.work), width
                if wide == 1:
                    known[key] = text.splat(plan.work, one)
                elif width == 1:
                    known[key] = text.emit(f"extractelement {kind} {one}, i64 {lane}")
                else:
                    mask = f"<{width} x i32> splat (i32 {lane})"
                    known[key] = text.emit(f"shufflevector {kind} {one}, {kind} poison, {mask}")
        return known[key]

    def address(self, base: str, step: int, corner: int, dtype: np.dtype) -> str:
        """Where a step is for a point of the tile; what is the same for many comes first."""
        parts = [step + corner] if type(step) is type(corner) is int else [step, corner]
        for part in sorted(parts, key=lambda part: type(part) is int):
            base = self.text.at(base, str(part), dtype)
        return base

    @property
    def by_rows(self) -> bool:
        """Whether neighbours in the left operand are points of the tile, in whole vectors."""
        plan, lanes = self.plan, self.plan.pieces[0][1]
        return bool(plan.box) and plan.box[-1].left == 1 and plan.box[-1].size % lanes == 0

    def reader(self, known: Any, bases: list[str], step: Sequence[int], key: Any) -> Any:
        """What a rule reads of its sides at a step."""
        sides, (point, piece) = self.rule.sides, key
        return lambda i: self.operand(known, bases[i], sides[i], point, step[i], piece)

    def state(self, sums: list[str], number: int) -> list[str]:
        return sums[self.count * number : self.count * (number + 1)]

    def steps(self, bases: list[str], sums: list[str], offsets: Sequence[Any]) -> list[str]:
        """The sums after some steps of the reduction, written out."""
        known: dict[Any, str] = {}
        for step in offsets:
            if self.plan.ahead:
                self.prefetch(bases[1], step[1] + self.plan.ahead * self.plan.reduced[-1].right)
            new: list[str] = []
            for i, key in enumerate(self.keys):
                read = self.reader(known, bases, step, key)
                self.text.lanes = key[1][1]
                new += self.rule.step(self.text, self.state(sums, i), read)
            sums = new
        self.text.lanes = 1
        return sums

    def prefetch(self, right: str, step: int) -> None:
        """Have the cache lines of a step of the right operand brought near."""
        text, plan = self.text, self.plan
        name = "@llvm.prefetch.p0"
        text.declared[name] = f"declare void {name}(ptr, i32, i32, i32)"
        for first in range(0, plan.pitch, 64 // plan.work.itemsize):
            at = self.address(right, step, first, plan.work)
            text.line(f"call void {name}(ptr {at}, i32 0, i32 3, i32 1)")

    def start(self, bases: list[str]) -> list[str]:
        """The sums before any step."""
        known: dict[Any, str] = {}
        exact, nowhere, sums = self.exact(), [0] * len(bases), []
        for key in self.keys:
            self.text.lanes = key[1][1]
            sums += self.rule.start(self.text, exact, self.reader(known, bases, nowhere, key))
        self.text.lanes = 1
        return sums

    def exact(self) -> str | None:
        """Whether a window's own first element is read: "true", or a condition, or None."""
        if self.count == 1 or self.plan.tap or not all(d.size for d in self.plan.reduced):
            return None
        text, found = self.text, "true"
        for low, high in self.ranges.values():
            first = text.emit(f"icmp eq i64 {low}, 0")
            some = text.emit(f"icmp sgt i64 {high}, 0")
            found = text.emit(f"and i1 {found}, {first}")
            found = text.emit(f"and i1 {found}, {some}")
        return found

    def reduce(self, bases: list[str]) -> list[str]:
        """The sums over all of the reduction, from places along each side on."""
        sums = self.start(bases)
        if self.plan.folded:
            sums = self.tail(bases, sums)
        if not prod(d.size for d in self.plan.reduced if not d.clip):
            return sums
        dims, walks = self.walks()
        return self.nest(dims, bases, sums, walks)

    def walks(self) -> tuple[list[Dim], list[Walk]]:
        """The reduction as loops, outermost first, and what is done in them one after another."""
        dims = list(self.plan.reduced)
        inner: list[Dim] = []
        while dims and not dims[-1].clip and self.fits([dims[-1], *inner]):
            inner.insert(0, dims.pop())
        walks = [Walk(Dim(1, 0, 0), self.offsets(inner))]
        if dims and not inner and not dims[-1].clip:
            last, lanes = dims.pop(), 1
            factor = most = self.plan.turn
            if self.reads_left_vectors(last):
                lanes = self.plan.pieces[0][1]
                factor = most if self.by_rows else lanes
            elif type(last.size) is not Size:
                factor = max(n for n in range(1, min(most, last.size) + 1) if last.size % n == 0)
            steps = last._replace(size=factor)
            if lanes == 1 and not self.fits([steps]):
                factor, steps = 1, last._replace(size=1)
            left, right, out = [factor * stride for stride in last[1:4]]
            turns = Dim(last.size // factor, left, right, out)
            walks = [Walk(turns, self.offsets([steps]), lanes)]
            if not same(last.size % factor, 0):
                # one turn is no loop, which would leave places where the rest begins
                begin = tuple(
                    getattr(turns, s) if is_one(turns.size) else 0 for s in self.rule.sides
                )
                walks.append(Walk(last._replace(size=last.size % factor), [begin]))
        return [d for d in dims if d.clip or not is_one(d.size)], walks

    def tail(self, bases: list[str], sums: list[str]) -> list[str]:
        """The sums over what whole vectors leave of a folded axis: by the last vector, without the
        lanes that these have."""
        text, size, (_, lanes) = self.text, self.plan.vector.size, self.plan.pieces[0]
        if same(size % lanes, 0):
            return sums
        text.lanes = lanes
        first = text.splat(_I64, str(lanes - size % lanes))
        numbers = ", ".join(f"i64 {i}" for i in range(lanes))
        mask = text.emit(f"icmp sge <{lanes} x i64> <{numbers}>, {first}")
        kind, chosen = text.type_of(self.plan.work), f"select <{lanes} x i1> {mask}"
        known: dict[Any, str] = {}
        masked: dict[str, str] = {}

        def value(key: Any, i: int) -> str:
            x = self.reader(known, bases, [size - lanes] * 2, key)(i)
            if x not in masked:
                masked[x] = text.emit(f"{chosen}, {kind} {x}, {kind} zeroinitializer")
            return masked[x]

        found: list[str] = []
        for i, key in enumerate(self.keys):
            found += self.rule.step(text, self.state(sums, i), partial(value, key))
        text.lanes = 1
        return found

    def reads_left_vectors(self, last: Dim) -> bool:
        """Whether one load reads consecutive elements of the left operand, for by-element FMA."""
        plan, lanes = self.plan, self.plan.pieces[0][1]
        if (
            not has_by_element_fma()
            or plan.work.itemsize == 1
            or plan.vector.left
            or lanes < 2
            or (not self.by_rows and last.left != 1)
            or (not self.by_rows and type(last.size) is not Size and last.size % lanes)
        ):
            return False
        if self.by_rows:
            return True
        vectors = len(plan.pieces)
        return len(self.keys) + len(self.points) + vectors + 2 <= plan.registers

    def offsets(self, dims: Sequence[Dim]) -> list[tuple[int, ...]]:
        """Where the steps of a walk are along each side."""
        strides = [[getattr(d, side) for d in dims] for side in self.rule.sides]
        return [
            tuple([sum(i * n for i, n in zip(index, along, strict=True)) for along in strides])
            for index in product(*[range(d.size) for d in dims])
        ]

    def fits(self, dims: Sequence[Dim]) -> bool:
        """Whether steps may be written out: they are few, and what several of them read, which
        LLVM keeps from one to the other, has room beside the sums."""
        steps = prod(d.size for d in dims)
        if len(self.keys) * steps > self.plan.unrolled:
            return False
        corners = [
            sum(i * d.left for i, d in zip(p, self.plan.box, strict=True)) for p in self.points
        ]
        reads = [step[0] + corner for step in self.offsets(dims) for corner in set(corners)]
        again = len(reads) - len(set(reads))
        vectors = len(self.plan.pieces) if self.plan.vector.left else 1
        return not again or len(set(reads)) * vectors + len(self.keys) + 3 <= self.plan.registers

    def nest(
        self, dims: list[Dim], bases: list[str], sums: list[str], walks: list[Walk]
    ) -> list[str]:
        """The sums over some dimensions and, for each index, over walks one after another."""
        if dims:
            inside = lambda bases, sums: self.nest(dims[1:], bases, sums, walks)
            return self.along(dims[0], bases, sums, inside)[1]
        for walk in walks:
            self.left_lanes = walk.lanes
            steps = partial(self.steps, offsets=walk.offsets)
            if is_one(walk.turns.size):
                sums = steps(bases, sums)
            else:
                bases, sums = self.along(walk.turns, bases, sums, steps, len(walks) == 1)
        return sums

    def along(
        self, dim: Dim, bases: list[str], sums: list[str], inside: Any, once: bool = True
    ) -> tuple[list[str], list[str]]:
        """Places and sums after what is done at each index of a dimension, or at those that are
        read; it may have none unless ``once``."""
        text, sides, count = self.text, self.rule.sides, len(bases)
        low, high = self.ranges[dim.clip.axis] if dim.clip else ("0", str(dim.size))

        def moved(bases: list[str], times: str) -> list[str]:
            steps = [text.scaled(times, getattr(dim, side)) for side in sides]
            return [
                text.total([base, step])
                if side == "out"
                else text.at(base, step, self.kind_of[side])
                for base, side, step in zip(bases, sides, steps, strict=True)
            ]

        def body(_: str, given: list[str]) -> list[str]:
            new = inside(given[:count], given[count:])
            return [*moved(given[:count], "1"), *new]

        kinds = ["i64" if side == "out" else "ptr" for side in sides] + self.kinds()
        carried = list(zip(kinds, [*moved(bases, low), *sums], strict=True))
        found = text.loop(low, high, carried, body, once=once and not dim.clip)
        return found[:count], found[count:]

    def store(self, out: str, sums: list[str]) -> None:
        text, plan = self.text, self.plan
        if plan.folded:
            self.fold(out, sums)
            return
        if plan.turned or plan.converted:
            self.keep(sums, plan.out if plan.turned else plan.work)
            text.call_function("settle", ["ptr %buffers", "ptr %block", f"ptr {out}"])
            return
        places = {(0,) * len(plan.box): out}
        for i, (point, (first, width)) in enumerate(self.keys):
            if point not in places:  # from the neighbour: one stride serves all points
                axis = max(i for i, n in enumerate(point) if n)
                before = (*point[:axis], point[axis] - 1, *point[axis + 1 :])
                places[point] = text.at(places[before], str(plan.box[axis].out), plan.out)
            text.lanes = width
            value = text.cast(plan.work, plan.out, self.state(sums, i)[-1])
            place = text.at(places[point], str(first * plan.vector.out), plan.out)
            if plan.vector.out == 1 or width == 1:
                text.write(value, place, plan.out)
            else:
                text.scatter(value, place, plan.out, plan.vector.out)
        text.lanes = 1

    def fold(self, out: str, sums: list[str]) -> None:
        """Write the sums of lanes, by way of memory, so that the text of them is there once."""
        text, plan, (_, lanes) = self.text, self.plan, self.plan.pieces[0]
        self.keep(sums, plan.work)

        def point(number: str, _: list[str]) -> list[str]:
            indices = text.indices(number, [d.size for d in plan.box])
            place = [text.scaled(i, d.out) for i, d in zip(indices, plan.box, strict=True)]
            text.lanes = lanes
            x = text.read(text.at("%block", text.scaled(number, lanes), plan.work), plan.work)
            x, text.lanes = text.sum_of_lanes(plan.work, x), 1
            x = text.cast(plan.work, plan.out, x)
            text.write(x, text.at(out, text.total(place), plan.out), plan.out)
            return []

        text.loop("0", str(len(self.points)), [], point)

    def settled(self) -> None:
        """The function that writes a tile by way of memory: what it takes does not weigh on the
        registers of the sums."""
        text, plan = self.text, self.plan
        types = (stored(plan.out),) * 2 if plan.turned else (plan.work, plan.out)
        copy = Copy(text, self.moves(), types, plan.pieces[0][1], ("%block", "%out"))
        text.loop("0", str(copy.extent), [], copy.item)
        text.attributes = APART

    def moves(self) -> list[Copied]:
        """The axes of a tile as it lies in %block and in the result, outermost there first."""
        plan, dims, step = self.plan, [], self.plan.pitch
        dims.append(Copied(plan.vector.size, 1, plan.vector.out))
        for d in reversed(plan.box):
            dims.append(Copied(d.size, step, d.out))
            step *= d.size
        return sorted(dims, key=lambda d: -d.target)

    def keep(self, sums: list[str], kind: np.dtype) -> None:
        """The tile in %block as numbers of some kind, its points one after another."""
        text, plan = self.text, self.plan
        for (point, (begin, lanes)), value in zip(self.keys, sums, strict=True):
            text.lanes = lanes
            value = text.cast(plan.work, kind, value)
            place = self.points.index(point) * plan.pitch + begin
            text.write(value, text.at("%block", str(place), kind), kind)
        text.lanes = 1

    def finish(self, first: str, sums: list[str], buffers: str, skip: str) -> None:
        """Have a kernel go on with the tile, whose first element has this number in the result; so
        many rows or columns of it are another tile's too."""
        text, plan = self.text, self.plan
        size, width = plan.out.itemsize, plan.pitch
        self.keep(sums, plan.out)
        if plan.once:
            down, across = (skip, "%skip") if plan.once == "rows" else ("%skip", skip)
            (box,) = plan.box
            begin = text.total([first, text.scaled(down, box.out), across])
            row = text.at("%block", text.total([text.scaled(down, width), across]), plan.out)
            rows, columns = text.less(box.size, down), text.less(plan.vector.size, across)
            text.line(
                f"call void %b2(ptr {buffers}, ptr {row}, i64 {width * size}, i64 {begin},"
                f" i64 {rows}, i64 {box.out}, i64 {columns})"
            )
            return
        *outer, last = collapsed(plan.box) or (Dim(1, 0, 0, 0),)
        for number, index in enumerate(product(*[range(d.size) for d in outer])):
            moved = sum(i * d.out for i, d in zip(index, outer, strict=True))
            row = text.at("%block", str(number * last.size * width), plan.out)
            begin = text.total([first, str(moved)])
            text.line(
                f"call void %b2(ptr {buffers}, ptr {row}, i64 {width * size}, i64 {begin},"
                f" i64 {last.size}, i64 {last.out}, i64 {plan.vector.size})"
            )


def contraction_module(
    plan: Contraction, name: str, coded: Callable[[Contraction], dict[str, Coded]] = lambda _: {}
) -> Module:
    """The function of a contraction, of items or of units: buffers are left, right and result, and
    memory for copies if they are kept; then those of the kernel that goes on with the result.
    Of the functions that it calls some may be machine code, by their names."""
    border, own = plan.border, coded(plan)
    kept = border is not None and border.kept
    result = () if plan.rule is None and "row" not in own else (2,)
    text = Text(((1, 3) if kept else (0, 1) if border is None else (1,)) + result)
    *outer, last = plan.grid
    called = [own.get("row") or _row(plan)] if plan.rule is None else []
    if plan.turned or plan.converted:
        called.insert(0, Text((), "settle", parameters("ptr", "block", "out")))
        Tile(called[0], plan, {}).settled()
    runs = [-(-last.count // plan.run)] if plan.run else []
    counts = [axis.count for axis in outer]

    def item(number: str, near: str, before: Sequence[str]) -> list[str]:
        if plan.together:
            indices = text.indices(number, counts[:-1])
            inside = lambda i, _: row([*indices, i], "0", near, before)
            text.loop("0", str(counts[-1]), [], inside)
            return []
        indices = text.indices(number, [*counts[:-1], *runs, *counts[-1:]])
        run = indices.pop(-2) if runs else "0"
        return row(indices, run, near, before)

    def row(indices: list[str], run: str, near: str, before: Sequence[str]) -> list[str]:
        parts = [before, *(_offsets(text, a, i) for a, i in zip(outer, indices, strict=True))]
        totals = [text.total([p[i] for p in parts]) for i in range(3)]
        right = "%b1"
        if plan.panel is not None:
            source = text.at("%b1", totals[1], plan.panel.have)
            moved = [f"ptr {source}", "ptr %panel"]
            if "pack" in own:
                own["pack"].called(text, moved)
            else:
                text.call_function("pack", ["ptr %buffers", *moved])
            right, totals[1] = "%panel", "0"
        first, stop = "0", str(last.count)
        if runs:
            first = text.scaled(run, plan.run)
            stop = text.least(text.total([first, str(plan.run)]), stop)
        skip = "0"
        if plan.once and outer:
            skip = _skipped(text, outer[-1], indices[-1])
        if "row" in own:
            starts = zip((near, right, "%b2"), totals, plan.starts, strict=True)
            at = [text.at(base, text.total([n, str(m)]), plan.work) for base, n, m in starts]
            given = [*[f"ptr {p}" for p in at], f"i64 {first}", f"i64 {stop}"]
            own["row"].called(text, given)
        elif plan.rule is None:
            given = [f"i64 {n}" for n in (*totals, first, stop, skip)]
            text.call_function("row", ["ptr %buffers", f"ptr {near}", f"ptr {right}", *given])
        else:
            _swept(text, plan, totals, (first, stop), indices)
        return []

    def unit(number: str, _: list[str]) -> list[str]:
        assert border is not None
        near = "%near"
        if border.kept:
            near = text.at("%b3", text.scaled(number, border.size), plan.work)
        indices = text.indices(number, [u.axis.count for u in border.units])
        places, shift, parts = [], "0", []
        for u, index in zip(border.units, indices, strict=True):
            first = _first(text, u.axis, index)
            places.append(text.scaled(first, u.source))
            shift = text.scaled(first, u.shift) if u.shift else shift
            parts.append(_offsets(text, u.axis, index))
        numbers = [f"i64 {text.total(places)}", f"i64 {shift}"]
        text.call_function("border", ["ptr %buffers", f"ptr {near}", *numbers])
        before = [text.total([p[i] for p in parts]) for i in range(3)]
        text.loop("0", str(items), [], lambda i, _: item(i, near, before))
        return []

    items = prod([axis.count for axis in outer])
    if border is None:
        text.loop("%start", "%stop", [], lambda i, _: item(i, "%b0", ("0", "0", "0")))
    else:
        if not border.kept:
            text.line(f"%near = alloca [{border.size * plan.work.itemsize} x i8], align 64")
        called.append(_border(border, plan.work, plan.careless))
        text.loop("%start", "%stop", [], unit)
    if plan.panel is not None:
        text.lines.insert(0, f"  %panel = alloca i8, i64 {plan.panel.size}, align 64")
        called.append(own.get("pack") or _pack(plan.panel, plan.work))
    if plan.careless:
        text.attributes = CARELESS
    for function in own.values():
        function.attributes = CARELESS if plan.careless else APART
    return text.finish(name, called)


def _pack(panel: Panel, work: np.dtype) -> Text:
    """The function that copies a panel of the right operand."""
    text = Text((), "pack", parameters("ptr", "source", "target"))
    copy = Copy(text, panel.dims, (panel.have, work), panel.lanes, ("%source", "%target"))
    text.loop("0", str(copy.extent), [], copy.item)
    return text


def _first(text: Text, axis: Axis, index: str) -> str:
    """The first element of a tile along an axis."""
    first = text.scaled(index, axis.step)
    if not same(axis.count * axis.step, axis.size) and index != "0":
        first = text.least(first, axis.size - axis.step)
    return first


def _skipped(text: Text, axis: Axis, index: str) -> str:
    """How many elements of a tile along an axis are those of the tile before it."""
    place = text.scaled(index, axis.step)
    return text.less(place, _first(text, axis, index))


def _offsets(text: Text, axis: Axis, index: str) -> list[str]:
    """Where the tiles of an index along an axis are in left, right and result."""
    first = _first(text, axis, index)
    found = [text.scaled(first, stride) for stride in (axis.left, axis.right, axis.out)]
    if axis.panels:
        found[1] = text.scaled(index, axis.panels)
    if axis.tiles:
        found[0] = text.scaled(index, axis.tiles)
    return found


def _ranges(text: Text, dims: Sequence[Dim], indices: dict[int, str]) -> dict[int, list[str]]:
    """The taps that are read at indices of axes, along which windows may reach beyond an operand:
    the first one at or after its beginning, and the first at or after its end."""
    found: dict[int, list[str]] = {}
    for d in dims:
        if d.clip and d.clip.axis in indices:
            axis, start, stride, dilation, length = d.clip
            at, ends = text.total([text.scaled(indices[axis], stride), str(start)]), []
            for edge in (dilation - 1, length + dilation - 1):
                distance = text.emit(f"sub i64 {edge}, {at}")
                positive = text.emit(f"icmp sgt i64 {distance}, 0")
                distance = text.emit(f"select i1 {positive}, i64 {distance}, i64 0")
                ends.append(text.least(text.emit(f"udiv i64 {distance}, {dilation}"), d.size))
            found[axis] = ends
    return found


def _swept(
    text: Text, plan: Contraction, places: list[str], ends: tuple[str, str], indices: list[str]
) -> None:
    """All tiles of a row of windows, those of ``more`` where the first of it are."""
    ranges = _ranges(text, plan.reduced, dict(enumerate(indices)))

    def others() -> None:
        for other in plan.more:
            _tiles(text, other, places, ("0", str(other.grid[-1].count)), ranges)

    _tiles(text, plan, places, ends, ranges)
    if plan.run and plan.more:
        text.when(text.emit(f"icmp eq i64 {ends[0]}, 0"), others)
    else:
        others()


def _row(plan: Contraction) -> Text:
    """The function of the tiles along the last axis; those before it say where they are."""
    numbers = parameters("i64", "left", "right", "out", "first", "last", "skip")
    text = Text((2,), "row", (*parameters("ptr", "b0", "b1"), *numbers))
    if plan.finish or plan.turned or plan.converted or plan.folded:
        text.line(f"%block = alloca [{plan.elements * plan.work.itemsize} x i8], align 64")
    buffers = ""
    if plan.finish:
        given = 4 if plan.border is not None and plan.border.kept else 3
        buffers = text.emit(f"getelementptr ptr, ptr %buffers, i64 {given}")
    _tiles(text, plan, ("%left", "%right", "%out"), ("%first", "%last"), {}, buffers)
    return text


def _tiles(
    text: Text,
    plan: Contraction,
    places: Sequence[str],
    ends: tuple[str, str],
    ranges: dict[int, list[str]],
    buffers: str = "",
) -> None:
    """Some tiles along the last axis, maybe none of those whose taps are clipped along it;
    ``ranges`` are the taps that are read along others."""
    last = plan.grid[-1]

    def tile(number: str, _: list[str]) -> list[str]:
        found = _offsets(text, last, number)
        totals = [
            text.total([place, offset, str(start)])
            for place, offset, start in zip(places, found, plan.starts, strict=True)
        ]
        work = Tile(text, plan, ranges | _ranges(text, plan.reduced, {-1: number}))
        bases = [
            str(plan.tap) if side == "out" else text.at(f"%b{i}", totals[i], work.kind_of[side])
            for i, side in enumerate(work.rule.sides)
        ]
        sums = work.reduce(bases)
        if plan.finish:
            work.finish(totals[2], sums, buffers, _skipped(text, last, number))
        else:
            work.store(text.at("%b2", totals[2], plan.out), sums)
        return []

    if is_one(last.count):
        tile("0", [])
    else:
        some = not any(d.clip and d.clip.axis < 0 for d in plan.reduced)
        text.loop(*ends, [], tile, once=some)


def _border(border: Border, work: np.dtype, careless: bool) -> Text:
    """The function that makes a unit's copy."""
    text = Text((0,), "border", (*parameters("ptr", "near"), *parameters("i64", "place", "shift")))
    types, pointers = (border.have, work), ("%b0", "%near")
    copy = Copy(text, border.dims, types, border.lanes, pointers, "%place", "%shift")
    text.loop("0", str(copy.extent), [], copy.item)
    if careless and copy.moved >= LONG_COPY_BYTES:
        text.attributes = CARELESS
    return text
