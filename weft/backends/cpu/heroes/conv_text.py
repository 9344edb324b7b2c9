"""LLVM text of contractions with affine indices: what is contracted, in which tiles and in which
order is the caller's plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.heroes.conv_moves import Copied, Copy
from weft.backends.cpu.heroes.conv_writer import Text
from weft.base.record import Record

# How many multiplications of a reduction are written out one after another.
UNROLLED = 24


class Axis(Record):
    """An axis of the grid of tiles: ``count`` tiles of ``step`` elements of ``size``.

    The last tile is moved back so that it ends with the axis: what it has in common with the one
    before it is computed twice, to the same bits. Strides are in elements. ``panels`` is the
    distance of tiles in a right operand that was copied tile by tile.
    """

    count: int
    step: int
    size: int
    left: int
    right: int
    out: int
    panels: int = 0


class Dim(Record):
    """A size and the strides with which operands are walked along it."""

    size: int
    left: int
    right: int
    out: int = 0


class Border(Record):
    """A copy of the left operand that tiles make before they read it.

    Tiles with the same first index of the grid read what ``share`` of the copy's items write.
    """

    dims: tuple[Copied, ...]
    have: np.dtype
    lanes: int
    share: int


class Contraction(Record):
    """Sums of products over ``reduced``, for tiles of ``box`` times ``pieces`` of the vector axis.

    ``vector`` has stride one in the operands that vary along it and zero in the others.
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
    border: Border | None = None
    finish: bool = False  # a kernel goes on with each tile: its function is in place of the result


# --- contractions ---------------------------------------------------------------------------------


def collapsed(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The same walk by fewer dimensions: neighbours joined where they are one in memory."""
    out: list[Dim] = []
    for d in dims:
        if d.size == 1:
            continue
        if out:
            outer = out[-1]
            strides = zip(outer[1:], d[1:], strict=True)
            if all(a == d.size * b for a, b in strides):
                out[-1] = Dim(outer.size * d.size, *d[1:])
                continue
        out.append(d)
    return tuple(out)


class _Tile:
    """The sums of one tile, in registers."""

    def __init__(self, text: Text, plan: Contraction) -> None:
        self.text, self.plan = text, plan
        self.points = list(product(*[range(d.size) for d in plan.box]))
        self.keys = [(p, piece) for p in self.points for piece in plan.pieces]

    def kinds(self) -> list[str]:
        kinds = []
        for _, (_, width) in self.keys:
            self.text.lanes = width
            kinds.append(self.text.type_of(self.plan.work))
        self.text.lanes = 1
        return kinds

    def operand(self, known: Any, base: str, side: str, point: Any, step: int, piece: Any) -> str:
        """An operand's value: a vector where it varies along the vector axis, else one number."""
        text, plan = self.text, self.plan
        first, width = piece
        strides = [getattr(d, side) for d in plan.box]
        offset = step + sum(i * s for i, s in zip(point, strides, strict=True))
        varies = getattr(plan.vector, side)
        offset += first if varies else 0
        key = (side, offset, width)
        if key not in known:
            address = text.at(base, str(offset), plan.work)
            if varies:
                text.lanes = width
                known[key] = text.read(address, plan.work)
            else:
                text.lanes = 1
                one = known.get((side, offset, 1))
                if one is None:
                    one = known[side, offset, 1] = text.read(address, plan.work)
                text.lanes = width
                known[key] = text.splat(plan.work, one)
        return known[key]

    def multiply(self, total: str, left: str, right: str, width: int) -> str:
        text, work = self.text, self.plan.work
        text.lanes = width
        kind = text.type_of(work)
        if work.kind in "iu":
            term = text.emit(f"mul {kind} {left}, {right}")
            return text.emit(f"add {kind} {total}, {term}")
        return text.call("fmuladd", work, [left, right, total])

    def steps(self, left: str, right: str, sums: list[str], offsets: Sequence[Any]) -> list[str]:
        """The sums after some steps of the reduction, written out."""
        known: dict[Any, str] = {}
        for left_step, right_step in offsets:
            for i, (point, piece) in enumerate(self.keys):
                a = self.operand(known, left, "left", point, left_step, piece)
                b = self.operand(known, right, "right", point, right_step, piece)
                sums[i] = self.multiply(sums[i], a, b, piece[1])
        self.text.lanes = 1
        return sums

    def reduce(self, left: str, right: str) -> list[str]:
        """The sums over all of the reduction."""
        sums = ["zeroinitializer" if width > 1 else self.zero() for _, (_, width) in self.keys]
        dims = list(self.plan.reduced)
        if not prod(d.size for d in dims):
            return sums
        inner: list[Dim] = []
        while dims and self.fits([dims[-1], *inner]):
            inner.insert(0, dims.pop())
        if dims and not inner:
            last = dims.pop()
            most = max(1, UNROLLED // len(self.keys))
            factor = max(n for n in range(1, min(most, last.size) + 1) if last.size % n == 0)
            if not self.fits([last._replace(size=factor)]):
                factor = 1
            dims.append(Dim(last.size // factor, factor * last.left, factor * last.right))
            inner.append(Dim(factor, last.left, last.right))
        offsets = self.offsets(inner)
        return self.nest([d for d in dims if d.size > 1], left, right, sums, offsets)

    def offsets(self, dims: Sequence[Dim]) -> list[tuple[int, int]]:
        """Where the steps of a walk are in both operands."""
        return [
            (
                sum(i * d.left for i, d in zip(index, dims, strict=True)),
                sum(i * d.right for i, d in zip(index, dims, strict=True)),
            )
            for index in product(*[range(d.size) for d in dims])
        ]

    def fits(self, dims: Sequence[Dim]) -> bool:
        """Whether steps may be written out: they are few, and what several of them read, which
        LLVM keeps from one to the other, has room beside the sums."""
        steps = prod(d.size for d in dims)
        if len(self.keys) * steps > UNROLLED:
            return False
        corners = [
            sum(i * d.left for i, d in zip(p, self.plan.box, strict=True)) for p in self.points
        ]
        reads = [left + corner for left, _ in self.offsets(dims) for corner in set(corners)]
        again = len(reads) - len(set(reads))
        vectors = len(self.plan.pieces) if self.plan.vector.left else 1
        return not again or len(set(reads)) * vectors + len(self.keys) + 3 <= self.plan.registers

    def zero(self) -> str:
        return self.text.constant_scalar(self.plan.work, 0)

    def nest(
        self, dims: list[Dim], left: str, right: str, sums: list[str], offsets: Sequence[Any]
    ) -> list[str]:
        if not dims:
            return self.steps(left, right, list(sums), offsets)
        text, dim = self.text, dims[0]

        def body(_: str, inside: list[str]) -> list[str]:
            a, b = inside[:2]
            new = self.nest(dims[1:], a, b, inside[2:], offsets)
            moved = [
                text.at(pointer, str(stride), self.plan.work)
                for pointer, stride in ((a, dim.left), (b, dim.right))
            ]
            return [*moved, *new]

        carried = [("ptr", left), ("ptr", right), *zip(self.kinds(), sums, strict=True)]
        return text.loop("0", str(dim.size), carried, body)[2:]

    def store(self, out: str, sums: list[str]) -> None:
        text, plan = self.text, self.plan
        for (point, (first, width)), value in zip(self.keys, sums, strict=True):
            text.lanes = width
            value = text.cast(plan.work, plan.out, value)
            offset = sum(i * d.out for i, d in zip(point, plan.box, strict=True))
            offset += first * plan.vector.out
            place = text.at(out, str(offset), plan.out)
            if plan.vector.out == 1 or width == 1:
                text.write(value, place, plan.out)
            else:
                text.scatter(value, place, plan.out, plan.vector.out)
        text.lanes = 1

    def finish(self, first: str, sums: list[str], buffers: str) -> None:
        """Have a kernel go on with the tile, whose first element has this number in the result."""
        text, plan = self.text, self.plan
        size, width = plan.out.itemsize, plan.vector.size
        for (point, (begin, lanes)), value in zip(self.keys, sums, strict=True):
            text.lanes = lanes
            value = text.cast(plan.work, plan.out, value)
            place = self.points.index(point) * width + begin
            text.write(value, text.at("%block", str(place), plan.out), plan.out)
        text.lanes = 1
        *outer, last = collapsed(plan.box) or (Dim(1, 0, 0, 0),)
        for number, index in enumerate(product(*[range(d.size) for d in outer])):
            moved = sum(i * d.out for i, d in zip(index, outer, strict=True))
            row = text.at("%block", str(number * last.size * width), plan.out)
            begin = text.total([first, str(moved)])
            text.line(
                f"call void %b2(ptr {buffers}, ptr {row}, i64 {width * size}, i64 {begin},"
                f" i64 {last.size}, i64 {last.out}, i64 {width})"
            )


def contraction_text(plan: Contraction, name: str) -> str:
    """The function of a contraction: buffers are left, right and result, and what left is made of
    where it has a border; then those of the kernel that goes on with the result."""
    given = 3 if plan.border is None else 4
    text = Text(given)
    buffers = ""
    if plan.finish:
        count = prod(d.size for d in plan.box) * plan.vector.size
        text.line(f"%block = alloca [{count * plan.out.itemsize} x i8], align 64")
        buffers = text.emit(f"getelementptr ptr, ptr %buffers, i64 {given}")
    *outer, last = plan.grid
    sides = ("left", "right", "out")
    starts = (plan.left_start, plan.right_start, plan.out_start)

    def offsets(axis: Axis, index: str) -> list[str]:
        first = text.scaled(index, axis.step)
        if axis.count * axis.step != axis.size and index != "0":
            first = text.least(first, axis.size - axis.step)
        found = [text.scaled(first, getattr(axis, side)) for side in sides]
        if axis.panels:
            found[1] = text.scaled(index, axis.panels)
        return found

    def item(number: str, _: list[str]) -> list[str]:
        indices = text.indices(number, [axis.count for axis in outer])
        parts = [offsets(a, i) for a, i in zip(outer, indices, strict=True)]
        totals = [text.total([p[i] for p in parts]) for i in range(3)]

        def tile(number: str, _: list[str]) -> list[str]:
            found = offsets(last, number)
            bases = []
            for i, dtype in enumerate((plan.work, plan.work, plan.out)):
                start = str(starts[i])
                offset = text.total([totals[i], found[i], start])
                bases.append(text.at(f"%b{i}", offset, dtype) if i < 2 or not buffers else offset)
            work = _Tile(text, plan)
            sums = work.reduce(bases[0], bases[1])
            if plan.finish:
                work.finish(bases[2], sums, buffers)
            else:
                work.store(bases[2], sums)
            return []

        if last.count == 1:
            return tile("0", [])
        return text.loop("0", str(last.count), [], tile)

    if plan.border is not None:
        _copy_border(text, plan.border, plan.work, prod(axis.count for axis in outer[1:]))
    text.loop("%start", "%stop", [], item)
    return text.finish(name)


def _copy_border(text: Text, border: Border, work: np.dtype, items: int) -> None:
    """Copy what the items from %start to %stop read; they are all ``items`` of some first indices,
    so nobody else writes or reads it."""
    copy = Copy(text, border.dims, (border.have, work), border.lanes, ("%b3", "%b0"))
    first = text.scaled(text.emit(f"udiv i64 %start, {items}"), border.share)
    last = text.scaled(text.emit(f"udiv i64 %stop, {items}"), border.share)
    text.loop(first, last, [], copy.item)
