"""Contractions of all shapes by a few texts: which axis lies in vectors, what is copied for that,
and the tables that texts are told sizes by."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.native.processor import registers, vector_bits
from weft.backends.cpu.routines.convolutions.contract_text import (
    Form,
    contracted_fields,
    contraction_text,
    copied_fields,
    copy_text,
)
from weft.base.record import Record
from weft.base.sizes import plain
from weft.kernel.program import Lowered, Place, Task

# Axes that texts have.
RANKS, OUTERS = (2, 4, 8), (2, 7)
# Multiply-adds from which on more forms pay: of more rows, and of steps that are of one axis, if it
# has so many elements.
LARGE, DEEP = 1 << 17, 24
# Steps of a sum up to which each is one element anyway, and those that a sum may have.
FLAT, STEPS = 512, 4096
# Elements that one piece of a copy should at least move, cycles of one piece of work.
COPIED, CHUNK = 1 << 13, 40_000
# Cycles that a tile costs beside its sums, and each of its results where they are written one by
# one; those of a row of a copy, and elements of it in one cycle: neighbours, and those apart.
TILE, STORE, ROW, DENSE, APART = 40, 2, 50, 8, 0.7


class Side(Record):
    """An axis of an operand as it is copied: see ``contract_text.COPIED``."""

    name: str
    size: int
    source: int
    step: int = 1
    start: int = 0
    link: int = 0
    inside: int = -1  # as many as there are

    @property
    def bound(self) -> int:
        return self.size if self.inside < 0 else self.inside

    @property
    def whole(self) -> bool:
        """Whether it is an axis of the source as that is."""
        return self.step == 1 and not self.start and self.bound == self.size and not self.link

    @property
    def plain(self) -> bool:
        """Whether every index is one of the source."""
        last = self.start + (self.size - 1) * self.step
        return not self.link and self.start >= 0 and last < self.bound


class Operand(Record):
    """Where an operand lies, and its axes there, the outermost first."""

    place: Place
    dtype: np.dtype
    sides: tuple[Side, ...]


class Role(Record):
    """A dimension of a contraction: its size, the names of its axes in both operands, each with a
    factor, and its stride in the result, zero where it is summed over."""

    name: str
    size: int
    left: tuple[str, int] | None
    right: tuple[str, int] | None
    out: int

    def mirrored(self) -> Role:
        return Role(self.name, self.size, self.right, self.left, self.out)


class Laid(Record):
    """An operand as it is read: its place, strides by axis, and where it begins."""

    place: Place
    strides: dict[str, int]
    start: int


class Choice(Record):
    """What lies in vectors and in rows, in tiles of which size, and what that costs."""

    cost: float
    vector: Role
    row: Role
    rows: int
    width: int
    lanes: int
    turned: bool  # whether operands change places: the right one is read in vectors
    paired: bool  # whether the left one is so too
    stride: int = 1  # of elements of a vector


class Job:
    """Tasks of one operation under construction."""

    def __init__(self, work: np.dtype) -> None:
        self.work = work
        self.lanes = vector_bits() // 8 // max(4, work.itemsize)
        self.tasks: list[Task] = []
        self.scratch: list[int] = []

    def lowered(self) -> Lowered:
        return Lowered(self.tasks, tuple(self.scratch))

    def memory(self, elements: int) -> Place:
        self.scratch.append(elements * self.work.itemsize)
        return Place("scratch", len(self.scratch) - 1)

    def add(self, text: str, places: Sequence[Place], extent: int, chunk: float) -> None:
        self.tasks.append(Task(text, "contract", tuple(places), extent, max(1, int(chunk))))

    # --- operands ---------------------------------------------------------------------------------

    def laid(self, operand: Operand, inner: str, whole: bool, around: bytes) -> Laid:
        """An operand as it lies, or a copy; with an axis named that it is read in vectors along.
        ``whole`` is whether nothing is read beyond its end."""
        direct = whole and operand.dtype == self.work and all(s.plain for s in operand.sides)
        if inner:
            (along,) = [s for s in operand.sides if s.name == inner]
            direct = direct and along.source * along.step == 1
        if direct:
            strides = {s.name: s.source * s.step for s in operand.sides}
            return Laid(operand.place, strides, sum(s.start * s.source for s in operand.sides))
        return self.copied(operand, inner, around)

    def copied(self, operand: Operand, inner: str, around: bytes) -> Laid:
        """A copy of an operand, with an axis innermost."""
        order = list(operand.sides)
        for i, side in enumerate(operand.sides):
            if side.name == inner:  # and the axis before it, where it goes on from there
                begin = i - side.link
                order = order[:begin] + order[i + 1 :] + order[begin : i + 1]
        strides, total = {}, 1
        for s in reversed(order):
            strides[s.name] = total
            total *= s.size
        target = self.memory(total + 16 * self.lanes)
        types = operand.dtype, self.work
        axes = [(s, strides[s.name]) for s in order]
        self.tasks.append(copy_task((operand.place, target), types, axes, self.lanes, around))
        return Laid(target, strides, 0)

    # --- tiles ------------------------------------------------------------------------------------

    def choose(self, roles: Sequence[Role], left: Operand, right: Operand | None) -> Choice:
        """The dimension in vectors, that one in rows, and the tile, by counting cycles."""
        one = Role("", 1, None, None, 0)
        found: list[Choice] = []
        depth = plain(prod(r.size for r in roles if not r.out))
        size = plain(prod(r.size for r in roles if r.out))
        for turned in (False, True) if right is not None else (True,):
            seen = [r.mirrored() for r in roles] if turned else roles
            fast, slow = (left, right) if turned else (right, left)
            assert fast is not None
            rows = [r for r in seen if r.out and r.left is not None and r.right is None]
            for r in seen:
                if not r.out or r.right is None or r.right[1] > 2:
                    continue
                paired = r.left is not None
                if paired and (turned or r.left[1] != 1 or r.right[1] != 1):
                    continue
                cost = self.moving(fast, r.right[0])
                if slow is not None:
                    cost += self.moving(slow, r.left[0] if r.left is not None else "")
                for row in rows[::-1] or [one]:  # neighbours first
                    tiles = size // plain(r.size * row.size)
                    found += self.tiles(r, row, tiles, depth, cost, turned, paired)
        if not found:  # a single result, or one whose axes are all in both operands
            raise Unfit
        return min(found, key=lambda choice: choice.cost)

    def moving(self, operand: Operand, inner: str) -> float:
        """Cycles that a copy takes, where one is needed for vectors along an axis."""
        *_, last = operand.sides
        along = next((s for s in operand.sides if s.name == inner), last)
        apart = bool(inner) and along.source * along.step != 1
        if not apart and operand.dtype == self.work and all(s.plain for s in operand.sides):
            return 0
        total = plain(prod(s.size for s in operand.sides))
        length, sides = plain(along.size), list(operand.sides)
        if along is last:
            while len(sides) > 1 and sides[-1].whole:
                sides.pop()
                length *= plain(sides[-1].size)
        return total / (APART if apart else DENSE) + total // max(1, length) * ROW

    def tiles(
        self, r: Role, row: Role, count: int, depth: int, cost: float, turned: bool, paired: bool
    ) -> list[Choice]:
        """Tiles of some rows of vectors along a dimension, of which ``count`` rows are apart."""
        found = []
        stride = 1 if r.right is None else r.right[1]
        length, height = plain(r.size), plain(row.size)
        lanes = self.lanes if length >= self.lanes else min(self.lanes, 4)
        options = (1, 2) if height == 2 else (1, 4)
        if count * plain(r.size * row.size) * depth >= LARGE:
            options += (8,)
        for rows in options:
            most = registers() // (4 if rows == 1 else max(8, 2 * rows))
            widths = [n for n in (8, 4, 2) if n <= most and n * lanes <= length]
            width = widths[0] if widths else 1
            columns, bands = -(-length // (width * lanes)), -(-height // rows)
            loads = (rows * width if paired else rows) + stride * width
            cycles = max(rows * width / 2, loads / 2, 4) + stride
            one = depth * cycles + TILE
            if r.out != 1 or length < lanes:
                one += STORE * rows * width * lanes
            total = cost + count * columns * bands * one
            turns = r.mirrored() if turned else r
            found.append(Choice(total, turns, row, rows, width, lanes, turned, paired, stride))
            if height <= rows:
                break
        return found

    # --- tasks ------------------------------------------------------------------------------------

    def contract(
        self,
        roles: Sequence[Role],
        left: Operand,
        right: Operand | None,
        out: tuple[Place, np.dtype, int],
        choice: Choice,
        fold: tuple[str, bytes] | None = None,
    ) -> None:
        """The tasks of a sum of products; or of elements of one operand, folded in some way."""
        kind, identity = fold or ("dot", bytes(self.work.itemsize))
        a, b = (right, left) if choice.turned else (left, right)
        if choice.turned:
            roles = [r.mirrored() for r in roles]
        assert b is not None
        wide = choice.width * choice.lanes
        row, vector = choice.row, choice.vector
        across, along = (
            (vector.right, vector.left) if choice.turned else (vector.left, vector.right)
        )
        empty = not all(r.size for r in roles)
        b_laid = a_laid = Laid(b.place, {}, 0)
        if not empty:
            whole = vector.size >= wide
            b_laid = self.laid(b, along[0], whole, identity)
            if a is not None:
                inner = across[0] if choice.paired else ""
                a_laid = self.laid(a, inner, whole or not choice.paired, identity)
        placed = [
            (r, _stride(r.left, a_laid), _stride(r.right, b_laid)) for r in roles if r.size > 1
        ]
        taken = {vector.name, row.name}
        outer = _joined(
            [(r.size, i, j, r.out) for r, i, j in placed if r.out and r.name not in taken]
        )
        summed = _joined([(r.size, i, j, 0) for r, i, j in placed if not r.out])
        outers = least(OUTERS, len(outer))
        axes = [(1, 0, 0, 0)] * (outers - len(outer)) + outer
        large = plain(prod(r.size for r in roles)) >= LARGE
        deep, steps = _steps([] if empty else summed, large)
        row_left = next((i for r, i, _ in placed if r.name == row.name), 0)
        bands, columns = -(-row.size // choice.rows), -(-vector.size // wide)
        place, dtype, start = out
        numbers = [
            *(n for axis in axes for n in axis),
            *(row.size, bands, max(0, row.size - choice.rows), row_left, row.out),
            *(vector.size, columns, max(0, vector.size - wide), vector.out),
            *(a_laid.start, b_laid.start, start),
            *(0 if empty else len(steps) // 2, *deep),
        ]
        assert len(numbers) == len(contracted_fields(outers))
        form = Form(
            self.work, dtype, kind, identity, choice.lanes, choice.rows, choice.width, outers,
            deep[0] > 1, choice.paired, choice.stride,
        )  # fmt: skip
        places = (a_laid.place, b_laid.place, place, Place("numbers", (*numbers, *steps)))
        extent = prod(axis[0] for axis in axes) * bands * columns
        cycles = plain(deep[0]) * len(steps) // 2 * (choice.rows * choice.width / 2 + 2) + TILE
        self.add(contraction_text(form, "contract"), places, extent, CHUNK // cycles)


def copy_task(
    places: tuple[Place, Place],
    types: tuple[np.dtype, np.dtype],
    sides: list[tuple[Side, int]],
    lanes: int,
    around: bytes,
) -> Task:
    """A copy from one place to another, by the source's axes and their strides in the target."""
    axes = _linked(sides)
    rank = least(RANKS, len(axes))
    axes = [(Side("", 1, 0), 0)] * (rank - len(axes)) + axes
    numbers = [
        n
        for s, stride in axes
        for n in (s.size, s.step, s.start, s.link, s.bound, s.source, stride)
    ]
    assert len(numbers) == len(copied_fields(rank))
    text = copy_text(*types, rank, lanes, around, "contract")
    *rows, row = (s.size for s, _ in axes)
    given = (*places, Place("numbers", tuple(numbers)))
    return Task(text, "contract", given, prod(rows), max(1, COPIED // plain(row)))


class Unfit(Exception):
    """What texts are not made for: more steps of a sum, or axes; no axis to lie in vectors."""


def least(numbers: Sequence[int], count: int) -> int:
    """The first number that is enough."""
    for n in numbers:
        if n >= count:
            return n
    raise Unfit


def _steps(summed: list[Any], large: bool) -> tuple[tuple[int, int, int], list[int]]:
    """A sum as steps, where each is in both operands, and what is summed in each of them."""
    deep = (1, 0, 0)
    longest = max(summed, key=lambda axis: axis[0], default=(0,))
    if (large and longest[0] >= DEEP) or prod(axis[0] for axis in summed) > FLAT:
        summed = [axis for axis in summed if axis is not longest]
        deep = longest[:3]
    if prod(axis[0] for axis in summed) > STEPS:
        raise Unfit
    steps = [(0, 0)]
    for size, left, right, _ in summed:
        steps = [(a + i * left, b + i * right) for a, b in steps for i in range(size)]
    return deep, [n for step in steps for n in step]


def _stride(axis: tuple[str, int] | None, laid: Laid) -> int:
    return 0 if axis is None else laid.strides.get(axis[0], 0) * axis[1]


def _joined(axes: list[Any]) -> list[Any]:
    """Neighbouring axes as one where every stride allows it."""
    done: list[Any] = []
    for axis in axes:
        if done and all(o == axis[0] * i for o, i in zip(done[-1][1:], axis[1:], strict=True)):
            done[-1] = (done[-1][0] * axis[0], *axis[1:])
        else:
            done.append(axis)
    return done


def _linked(axes: list[tuple[Side, int]]) -> list[tuple[Side, int]]:
    """Neighbouring axes of a copy as one where both strides allow it; none of a single element,
    but for the last."""
    done: list[tuple[Side, int]] = []
    for side, stride in axes:
        if done and side.whole:
            before, far = done[-1]
            if before.size == 1 and before.plain and not before.start:
                done[-1] = side, stride
                continue
            if side.size == 1:
                continue
            joins = before.step == 1 and not before.link
            if joins and before.source == side.size * side.source and far == side.size * stride:
                n = side.size
                inside = before.bound * n
                done[-1] = (
                    Side("", before.size * n, side.source, 1, before.start * n, 0, inside),
                    stride,
                )
                continue
        done.append((side, stride))
    return done
