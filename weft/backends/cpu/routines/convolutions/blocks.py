"""Convolutions of many elements by code that is the same for all shapes: what a compiled function
would do, in tiles of a few forms, with all sizes in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.native.processor import registers
from weft.backends.cpu.routines.convolutions.blocks_text import (
    COPIED,
    COPIES,
    NESTS,
    ROW,
    TILES,
    UNITS,
    Form,
    block_fields,
    blocks_text,
    rows_text,
)
from weft.backends.cpu.routines.convolutions.conv import Convolution, Edge, working
from weft.backends.cpu.routines.convolutions.conv_moves import Copied, joined
from weft.backends.cpu.routines.convolutions.conv_plan import (
    CHUNK,
    COPY,
    Block,
    Grid,
    Role,
    Tiling,
    boxes,
    split_of,
)
from weft.backends.cpu.routines.convolutions.conv_text import Axis, Contraction, Dim
from weft.backends.cpu.routines.convolutions.lines import Line
from weft.backends.cpu.routines.registry import GENERAL
from weft.base.record import Record
from weft.base.sizes import plain
from weft.kernel.program import Lowered, Type

# A sum waits so many cycles for the one before it; a tile costs so many beside its sums, and so
# many for each of its rows, and for each of its results that is written alone.
FMA_LATENCY_CYCLES, TILE_CYCLES, ROW_CYCLES, STORE_CYCLES = 4, 30, 3, 1
# Steps of a sum that are told one by one, and how often such runs may be done.
RUN, RUNS = 1024, 1 << 16
# Elements that one piece of a copy should at least move.
MIN_COPY_ELEMENTS = 1 << 13
# Pieces of work that are enough.
ENOUGH_UNITS = 64
# Rows and vectors of tiles, and how many rows are evenly apart: where all rows multiply the same
# vectors, and where each has vectors of its own; with many registers and with few.
MANY_SHARED_TILES = (
    (28, 1, 7),
    (24, 1, 8),
    (16, 1, 8),
    (14, 2, 7),
    (12, 2, 4),
    (8, 2, 4),
    (8, 3, 4),
    (8, 1, 1),
    (8, 2, 1),
)
MANY_OWN_TILES = ((14, 2, 7), (7, 4, 7), (8, 2, 4), (16, 1, 8), (8, 1, 1), (1, 8, 1))
FEW_SHARED_TILES = ((12, 1, 6), (6, 2, 3), (8, 1, 1), (4, 2, 1))
FEW_OWN_TILES = ((12, 1, 6), (6, 2, 3), (8, 1, 1), (1, 8, 1))
# How much longer tiles take whose vectors are of elements that are apart in the left operand: what
# is copied for them is far apart then, images more so.
TRANSPOSED_COST, TRANSPOSED_IMAGE_COST = 1.2, 1.5
# Cycles up to which work is brief, and what its tile may cost in terms of the best one; and those
# from which a long sum over few results is split.
BRIEF_CYCLES, NEARLY_BEST_RATIO, MIN_SPLIT_CYCLES = 1 << 15, 1.3, 1 << 18
_NEVER_CYCLES = 1 << 40


class Unfit(Exception):
    """What texts are not made for: more steps of a sum, or axes."""


def least(numbers: Sequence[int], count: int) -> int:
    """The first number that is enough."""
    for n in numbers:
        if n >= count:
            return n
    raise Unfit


class Tile(Record):
    """A tile's form: rows in one of the operands, and vectors."""

    rows: int
    width: int
    turned: bool
    vectors: tuple[bool, bool]
    group: int = 1

    def loads(self, across: bool) -> float:
        """Cycles that a step reads for: twice as many where vectors lie across lines of memory, as
        those of the left operand do along an axis in space. Each step also reads where it is."""
        rows, common = (
            (self.width * (2 if across and left else 1) if vectors else 1)
            for vectors, left in zip(self.vectors, (not self.turned, self.turned), strict=True)
        )
        return (self.rows * rows + common + 2) / 2

    def boxes(self, roles: list[Role]) -> Iterator[tuple[tuple[Role, int], ...]]:
        """What rows may be."""
        if self.group == 1:
            yield from boxes(roles, self.rows)
            return
        for r in roles:
            most = min(self.rows, plain(r.size)) // self.group * self.group
            for n in range(most, 0, -self.group):
                if n == self.rows:
                    yield ((r, n),)
                elif self.rows % n == 0:
                    m = self.rows // n
                    yield from (
                        ((r, n), (o, m)) for o in roles if o is not r and plain(o.size) >= m
                    )


def forms(vector: Role, lanes: int) -> list[Tile]:
    """Tiles with a dimension in vectors."""
    found = []
    most = -(-plain(vector.size) // lanes)
    varies = vector.times > 0, vector.right > 0
    own, same = FEW_OWN_TILES, FEW_SHARED_TILES
    if registers() > 16:
        own, same = MANY_OWN_TILES, MANY_SHARED_TILES
    for turned in (False, True):
        rows, common = varies[::-1] if turned else varies
        sizes = [size for size in (own if rows else same) if size[1] <= most]
        found += [Tile(r, n, turned, (rows, common), group) for r, n, group in sizes]
    return found


def pick(placed: list[Role], vector: str, lanes: int, itemsize: int) -> tuple[Tiling, Tile]:
    """The cheapest tile with a given vector axis."""
    v = next(r for r in placed if r.name == vector)
    others = [r for r in placed if r.out and r.name != vector and r.size > 1]
    others.sort(key=lambda r: r.times)
    depth = plain(prod(r.size for r in placed if not r.out))
    total = plain(prod(r.size for r in others))
    found: list[Any] = []
    for tile in forms(v, lanes):
        width = min(tile.width * lanes, plain(v.size))
        tiles = -(-plain(v.size) // width)
        free = [r for r in others if (not r.times and r.right if tile.turned else not r.right)]
        sums = tile.rows * tile.width
        step = max(sums / 2, tile.loads(v.name[0] == "o"), FMA_LATENCY_CYCLES)
        # Places of rows that are anywhere take registers, and single vectors more reading.
        step *= (1.2 if tile.group == 1 else 1) * (1.1 if tile.width == 1 else 1)
        loose = 0 if v.out == 1 else STORE_CYCLES * tile.rows * width
        one = depth * step + TILE_CYCLES + tile.rows * ROW_CYCLES + sums + loose
        for box in tile.boxes(free[:4]):
            count = plain(tiles) * total
            for r, n in box:
                count = count // plain(r.size) * -(-plain(r.size) // n)
            # Neighbours share what they read; images are far apart.
            away = 0.05 if tile.vectors[0] else 0.3
            far = sum(away for r, _ in box if r.name == "n" and r.times > 1)
            far += sum(0.02 for r, _ in box if r is not others[0])
            cost = count * one * (1 + far)
            found.append((cost, width, box, step, tile))
    best = min(option[0] for option in found)
    # Brief work has the first of the tiles that are nearly as good, so that there are few texts.
    most = NEARLY_BEST_RATIO * best if best <= BRIEF_CYCLES else best
    cost, width, box, step, tile = next(option for option in found if option[0] <= most)
    assert v.size >= width and all(r.size >= n for r, n in box)
    tiling = Tiling(cost, vector, width, -(-v.size // width), box, step)
    if cost >= MIN_SPLIT_CYCLES:
        tiling = tiling._replace(split=split_of(placed, tiling, itemsize))
    return tiling, tile


class Blocks(Convolution):
    """A convolution whose tasks are told sizes."""

    def run(self) -> Lowered:
        """The tasks: copies, contractions, sums."""
        self.tile: dict[tuple[Any, ...], Tile] = {}
        return super().run()

    def told(self, text: str, places: Sequence[Any], extent: int, chunk: float) -> None:
        self.add(text, "blocks", places, extent, max(1, int(chunk)))

    def memory(self, elements: int) -> tuple[str, int]:
        """A new piece of scratch memory, of which a vector may be read beyond the end."""
        return super().memory(elements + self.lanes)

    def direct(self, inner: Edge | None) -> bool:
        """Whether the left operand can be read where it lies: vectors do not end after it."""
        if inner is not None and inner.name[0] == "s":
            i = int(inner.name[1:])
            if min(part[i].size for part in self.parts) < self.lanes:
                return False
        elif inner is not None and inner.size < self.lanes:
            return False
        return super().direct(inner)

    def in_place(self, placed: list[Role], tiling: Tiling) -> bool:
        """Whether the right operand is read where it lies: vectors do not end after it."""
        vector = next(r for r in placed if r.name == tiling.vector)
        if not vector.right:
            return super().in_place(placed, tiling)
        step = min((r.right for r in placed if not r.out and r.size > 1), default=0)
        size = prod(r.size for r in placed if r.right)
        sparse = step > tiling.width and size <= COPY * tiling.cost
        return vector.size >= self.lanes and not sparse and super().in_place(placed, tiling)

    def block(self, part: Sequence[Line], tiling: Tiling, strides: dict[str, int]) -> Block | None:
        """A task of its own copies what is read: its text is there already."""
        return None

    def panel(self, tiling: Tiling) -> int:
        """Elements of a row of a panel: whole vectors, as arithmetic on anything may take long."""
        return max(tiling.width, self.lanes)

    def choose(self, placed: list[Role], vector: str) -> Tiling:
        key = (tuple(placed), vector)
        if key not in self.chosen:
            tiling, tile = pick(placed, vector, self.lanes, self.work.itemsize)
            axis = next(r.axis for r in placed if r.name == vector)
            if any(e.name == axis and e.stride > 1 for e in self.edges):
                more = TRANSPOSED_IMAGE_COST if vector == "n" else TRANSPOSED_COST
                tiling = tiling._replace(cost=more * tiling.cost)
            self.chosen[key] = tiling
            self.tile[_key(tiling)] = tile
        return self.chosen[key]

    def copying(self, vector: str) -> float:
        turned = any(e.name == vector and e.stride > 1 for e in self.edges)
        return (2 if turned else 1) * super().copying(vector)

    # --- tasks ------------------------------------------------------------------------------------

    def copy(
        self, source: Any, dims: Sequence[Copied], have: np.dtype, total: int, start: int = 0
    ) -> tuple[str, int]:
        target = self.memory(total)
        rank, numbers = _copied(dims, start)
        text = rows_text(have, self.work, rank, self.lanes, "blocks")
        first, second, *sizes = (numbers[i * len(COPIED)] for i in range(rank - 1))
        each = prod(sizes) * numbers[-len(ROW)]
        places = (source, target, ("numbers", numbers))
        self.told(text, places, first * second, MIN_COPY_ELEMENTS // max(1, plain(each)))
        return target

    def compute(self, plan: Contraction, tiling: Tiling, grid: Grid, places: Any) -> None:
        tile = self.tile[_key(tiling)]
        cut = len(plan.grid)
        while cut > 1 and prod(a.count for a in plan.grid[: cut - 1]) >= ENOUGH_UNITS:
            cut -= 1
        cut = min(cut, UNITS)
        units, inside = plan.grid[:cut], plan.grid[cut:]
        inner = plain(prod(a.count for a in inside))
        each = grid.cycles / plain(plan.grid[-1].count) * inner
        runs, steps = _steps(plan.reduced)
        form = Form(
            self.work, plan.out, self.lanes, tile.rows, tile.width, tile.turned, tile.vectors,
            tile.group, least(NESTS, len(inside)),
        )  # fmt: skip
        vector = plan.vector
        numbers = [
            *_padded(units, UNITS),
            *_padded(inside, form.nest),
            *(plan.left_start, plan.right_start, plan.out_start),
            *(max(0, vector.size - self.lanes), vector.size, vector.out),
            0 if vector.out != 1 else 1 if vector.size >= self.lanes else 2,
            len(runs) // 3,
            _apart(plan.box, "right" if tile.turned else "left", self.work.itemsize),
            _apart(plan.box, "out", plan.out.itemsize),
        ]
        assert len(numbers) == len(block_fields(form))
        for side in ("left", "right", "out"):
            numbers += _rows(plan.box[::-1], side, tile.rows)
        places = (*places, ("numbers", (*numbers, *runs, *steps)))
        extent = prod(axis.count for axis in units)
        self.told(blocks_text(form, "blocks"), places, extent, CHUNK // each)


def _key(tiling: Tiling) -> tuple[Any, ...]:
    """What tells tilings apart, wherever operands are copied to."""
    return tiling[:4], tuple((r.name, r.size, n) for r, n in tiling.box)


def _copied(dims: Sequence[Copied], start: int) -> tuple[int, tuple[int, ...]]:
    """The axes that a text for a copy has, and what it is told."""
    *outer, inner = joined(dims) or [Copied(1, 1, 1)]
    if inner.target != 1 or inner.limit >= 0:
        raise Unfit
    rank = least(COPIES, len(outer) + 1)
    numbers = [1, 1, _NEVER_CYCLES, 0, _NEVER_CYCLES, 0, 0] * (rank - 1 - len(outer))
    for d in outer:
        limit = d.limit if d.limit >= 0 else _NEVER_CYCLES
        inside = _NEVER_CYCLES if d.whole else d.inside
        numbers += [d.size, d.step, limit, -d.low, inside, d.source, d.target]
    low = min(max(inner.low, 0), inner.size)
    high = inner.size if inner.whole else min(inner.size, inner.low + inner.inside)
    begin = start + max(0, -inner.low) * inner.source
    return rank, (*numbers, inner.size, low, max(0, high - low), begin, inner.source)


def _axis(axis: Axis) -> tuple[int, ...]:
    """What is told of an axis of tiles."""
    right = 0 if axis.panels else axis.right
    last = max(0, axis.size - axis.step)
    return axis.count, axis.step, last, axis.left, right, axis.panels, axis.out


def _padded(axes: Sequence[Axis], count: int) -> list[int]:
    """What is told of axes outermost first, with ones of a single tile before them."""
    found = [1, *[0] * (len(TILES) - 1)] * (count - len(axes))
    return found + [n for axis in axes for n in _axis(axis)]


def _apart(box: Sequence[Dim], side: str, itemsize: int) -> int:
    """Bytes from a row to the next one of its group."""
    return getattr(box[0], side) * itemsize if box else 0


def _rows(box: Sequence[Dim], side: str, count: int) -> list[int]:
    """Where the rows of a tile are: those that are too many are the last one again."""
    found = [0]
    for d in box:
        found = [at + i * getattr(d, side) for at in found for i in range(d.size)]
    return found + found[-1:] * (count - len(found))


def _steps(reduced: Sequence[Dim]) -> tuple[list[int], list[int]]:
    """A sum as runs of steps: where each begins in both operands, and how many it has; and where
    its steps are."""
    if not all(d.size for d in reduced):
        return [], []
    dims, steps = list(reduced), [(0, 0)]
    while dims and len(steps) * dims[-1].size <= RUN:
        d = dims.pop()
        steps = _along(d, d.size, steps)
    runs = [(0, 0, len(steps))]
    if dims:  # a part of the next one
        d, one = dims.pop(), len(steps)
        some = RUN // one
        steps = _along(d, some, steps)
        runs = [
            (i * d.left, i * d.right, one * min(some, d.size - i)) for i in range(0, d.size, some)
        ]
    for d in reversed(dims):
        runs = _along(d, d.size, runs)
    if len(runs) > RUNS:
        raise Unfit
    return [n for run in runs for n in run], [n for step in steps for n in step]


def _along(dim: Dim, count: int, places: list[Any]) -> list[Any]:
    """Places at each of some indices along a dimension."""
    return [
        (a + i * dim.left, b + i * dim.right, *rest) for i in range(count) for a, b, *rest in places
    ]


def lower_any(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a convolution, or None where texts are not made for it."""
    (left, right), (out,) = ins, outs
    work = working(left.dtype, out.dtype)
    if work is None or left.dtype != right.dtype or not prod(out.shape):
        return None
    try:
        return Blocks(left, right, out, work, params).run()
    except Unfit:
        return None


GENERAL["conv_general_dilated"] = lower_any
