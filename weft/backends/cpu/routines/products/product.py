"""Products by register tiles or by matrix registers: the blocks of them, and what is packed for
them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.contractions.contraction import (
    CHUNK_BYTES,
    Packed,
    Plan,
    blocks,
    packed,
)
from weft.backends.cpu.routines.contractions.conv_moves import Copied
from weft.backends.cpu.routines.contractions.conv_text import (
    Axis,
    Contraction,
    Dim,
    Panel,
    collapsed,
    is_long,
)
from weft.backends.cpu.routines.contractions.decisions import (
    L1_BYTES,
    L2_BYTES,
    MIN_READS,
    Decision,
    Shared,
    below,
    decide,
)
from weft.backends.cpu.routines.contractions.tiles import LINE, Role, grid_of
from weft.backends.cpu.routines.products import amx_text as amx
from weft.backends.cpu.sizes import named, sized_task
from weft.backends.llvm.native.processor import has_by_element_fma, has_matrices, registers
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.base import knobs
from weft.base.record import Record
from weft.base.sizes import computed, is_writing, plain
from weft.kernel.nodes import BF16, F32
from weft.kernel.program import Finish, contiguous

ONE = Dim(1, 0, 0, 0)
# Multiply-adds that are worth a chunk of their own.
CHUNK_WORK = 1 << 18
# Bytes of a panel that a unit packs on its stack.
STACK_BYTES = 1 << 18
# Sums of a tile from which two depths in a turn of its loop are enough to hide the loop itself:
# 1 % slower than four depths, and compiled in two thirds of the time.
MANY_SUMS = 20
# Depths of the right operand that are prefetched where it is far and not packed: too few loads wait
# for memory at a time otherwise. Of fewer depths too many lie behind the operand, where a prefetch
# takes as long as to find that there is no memory.
PREFETCHED_DEPTHS, MIN_PREFETCHED_DEPTHS = 8, 64
# Rows that a panel is read by at a time.
PANEL_ROWS = 256
# How many units a large product should have, so that many threads find work.
UNITS = 32
# Multiply-adds up to which tiles of whole matrices do not pay.
FEW_TILES = 1 << 15
# Rows that a unit has at least; and one that packs a panel itself which others pack too, where
# columns are apart or there are some units already.
UNIT_ROWS, PACKING_ROWS, SOME_UNITS = 32, 96, 16


class Problem(Record):
    """A product by its named dimensions: one each of rows, columns and depth, and outer ones."""

    outer: tuple[Dim, ...]
    rows: Dim
    columns: Dim
    depth: Dim

    def roles(self) -> list[Role]:
        """Its dimensions by their names; one that the result lacks is apart in it anyhow."""
        named = [(f"b{i}", d) for i, d in enumerate(self.outer)]
        named += [("rows", self.rows), ("columns", self.columns)]
        roles = [Role(name, d.size, name, d.left, d.right, d.out or LINE) for name, d in named]
        return [*roles, Role("depth", self.depth.size, "depth", *self.depth[1:3], 0)]

    def split(self, parts: int, size: int) -> Problem:
        """Products over so many parts of the depth, whose results are side by side."""
        depth, each = self.depth, self.depth.size // parts
        part = Dim(parts, each * depth.left, each * depth.right, size)
        return self._replace(outer=(part, *self.outer), depth=depth._replace(size=each))


class Operand(Record):
    """Where an operand lies, its type there, and the sizes of its axes."""

    place: Place
    dtype: np.dtype
    shape: tuple[int, ...]


class Result(Record):
    """Where the result goes, and its type; or the kernel that goes on with it."""

    place: Place
    dtype: np.dtype
    finish: Finish | None = None


def unit_parts(problem: Problem, panel: int, local: bool) -> int:
    """Into how many units the rows of a panel are split: many rows each, less where few units
    result, which may have to pack the panel each."""
    size = plain(problem.rows.size)
    depth = plain(problem.depth.size) + 16  # what a result costs besides its products
    parts = blocks(size, PANEL_ROWS)
    panels = plain(prod(a.size for a in problem.outer)) * blocks(plain(problem.columns.size), panel)
    while panels * parts < UNITS and blocks(size, parts) * panel * depth > 2 * CHUNK_WORK:
        few = panels * parts < SOME_UNITS or not local
        if blocks(size, parts) < 2 * (UNIT_ROWS if few else PACKING_ROWS):
            break
        parts *= 2
    return parts


def packs_itself(problem: Problem, parts: int) -> bool:
    """Whether units pack the panels that they read: each panel once, or for many rows."""
    again = parts * plain(prod(a.size for a in problem.outer if not a.right))
    fewest = UNIT_ROWS if problem.columns.right == 1 else PACKING_ROWS
    return again == 1 or blocks(plain(problem.rows.size), parts) >= fewest


def reads_far_again(problem: Problem, size: int) -> bool:
    """Whether few rows at a time read all of a right operand that is far, with elements of so many
    bytes."""
    again = prod(a.size for a in problem.outer if not a.right)
    far = plain(problem.columns.size * problem.depth.size * size) > L2_BYTES
    return again > 1 and far and problem.rows.size < MIN_READS


def _columns_run(rows: int, columns: int, depth: int) -> int:
    """Tiles of a unit, in which vectors run along the depth."""
    return blocks(max(1, CHUNK_WORK // 8 // (rows * (depth + 16))), columns)


def _chunk(rows: int, columns: int, depth: int, extent: int) -> int:
    """Units of so many rows and columns that are worth a chunk of their own; all of them where
    little would be left."""
    found = max(1, CHUNK_WORK // (max(8, rows) * columns * (depth + 16)))
    return max(1, extent) if 2 * extent < 3 * found else found


def one_depth(depth: list[Dim]) -> Dim | None:
    """The depths as one axis, in whatever order joins them; None where none does."""
    if any(axis.size == 0 for axis in depth):
        return Dim(0, 1, 1, 0)
    for side in (1, 2):
        found = collapsed(sorted(depth, key=lambda axis: -(axis.left, axis.right)[side - 1]))
        if len(found) < 2:
            return found[0] if found else Dim(1, 1, 1, 0)
    return None


def swapped(dims: Sequence[Dim]) -> list[Dim]:
    """Those of the same product with its operands in the other order."""
    return [d._replace(left=d.right, right=d.left) for d in dims]


def joined(dims: Sequence[Dim]) -> Problem | None:
    """One axis each of rows and columns; the other axes are outer ones. None where depths are not
    one. What a dimension is, its strides say.

    The columns are the innermost axis of the result; of the rows the longest axis is taken.
    """
    kinds = (True, True, True), (True, False, True), (False, True, True), (True, True, False)
    groups: dict[Any, list[Dim]] = {kind: [] for kind in kinds}
    for d in sorted(dims, key=lambda d: -plain(d.out)):
        groups[bool(d.left), bool(d.right), bool(d.out)].append(d)
    *free, depths = groups.values()
    outer, rows, columns = map(collapsed, free)
    depth = one_depth(depths)
    if depth is None:
        return None
    row = max(rows, key=lambda axis: axis.size) if rows else ONE
    column = columns[-1] if columns else ONE._replace(out=1, right=1)
    rest = (*outer, *(a for a in rows if a is not row), *columns[:-1])
    return Problem(rest, row, column, depth)


class Product(Plan):
    """A product's operands and result, and the tasks that come of them."""

    def __init__(self, work: np.dtype, left: Operand, right: Operand, result: Result) -> None:
        super().__init__(work, "product")
        self.left, self.right, self.result = left, right, result

    def beside(self, dims: Sequence[Dim], side: str) -> list[Dim]:
        """The same dimensions with an operand in which those that it has follow each other: a copy,
        unless they do already."""
        operand, own = getattr(self, side), [d for d in dims if getattr(d, side)]
        sizes = tuple([d.size for d in own])
        axes = [*zip(sizes, [getattr(d, side) for d in own], contiguous(sizes), strict=True)]
        if any(stride != step for _, stride, step in axes):
            dtype = np.dtype(f"u{min(8, operand.dtype.itemsize)}")
            each = operand.dtype.itemsize // dtype.itemsize
            moved = [*(Copied(n, each * a, each * b) for n, a, b in axes), Copied(each, 1, 1)]
            place = self.copied(operand.place, moved, (dtype, dtype), careless=True)
            setattr(self, side, operand._replace(place=place, shape=sizes))
        steps = iter(contiguous(sizes))
        return [with_stride(d, side, next(steps)) if getattr(d, side) else d for d in dims]

    def converted(self, operand: Operand) -> Place:
        """An operand in the type of the work."""
        if operand.dtype == self.work:
            return operand.place
        count = prod(operand.shape)
        target = self.memory(count * self.work.itemsize)
        return self.summed(operand.place, (operand.dtype, self.work), count, 1, target)

    def decide(self, problem: Problem, near: bool = True) -> Decision:
        """How a product is done; one text serves all shapes with the same tile."""
        shared = Shared("rows", self.result.dtype.itemsize, self.right.dtype != self.work)
        size = self.work.itemsize
        return decide(problem.roles(), "columns", self.lanes, size, shared, near=near)

    def run(self, problem: Problem, size: int) -> Lowered | None:
        """The tasks of a product with so many results; None where no kernel can go on with blocks
        of it."""
        matrices, result = in_matrices(self, problem), self.result
        decision = self.decide(problem, near=not matrices)
        split = decision.tiling.split
        narrow = decision.tiling.vector == "depth"
        if result.finish and (split or narrow or matrices or problem.columns.out != 1):
            return None
        if split is not None:
            place = self.memory(split.count * size * self.work.itemsize)
            self.result, problem = Result(place, self.work), problem.split(split.count, size)
            decision = self.decide(problem)
        if matrices:
            matrix_tasks(self, problem)
        elif decision.tiling.vector == "depth":
            self.rows(problem, decision)
        else:
            self.boxes(problem, decision)
        if split is not None:  # their sum, in a fixed order
            self.summed(place, (self.work, result.dtype), size, split.count, result.place)
        return self.lowered()

    def rows(self, problem: Problem, decision: Decision) -> None:
        """Every row with several columns at a time, in vectors along the depth."""
        outer, rows, columns, depth = problem
        lanes, ((_, height), (_, width)) = decision.tiling.width, decision.tiling.box
        right, left = self.converted(self.right), self.converted(self.left)
        if depth.left != 1:
            self.left = self.left._replace(place=left, dtype=self.work)
            *others, rows, columns, depth = self.beside([*outer, rows, columns, depth], "left")
            outer = tuple(others)
            left = self.left.place
        starts = [Axis(d.size, 1, *d[:4]) for d in outer] or [Axis(1, 1, 1, 0, 0, 0)]
        along = Axis(blocks(columns.size, width), width, *columns[:4])
        run = computed(_columns_run, height, width, depth.size)
        cycles = plain(height * run * width * depth.size) // lanes
        contraction = Contraction(
            self.work, self.result.dtype, (*starts, along),
            (rows._replace(size=height), columns._replace(size=width)),
            Dim(depth.size, 1, 1, 0), ((0, lanes),), (Dim(depth.size // lanes, lanes, lanes),),
            0, 0, 0, registers(), is_long(cycles), run=run, unrolled=0,
        )  # fmt: skip
        extent = prod(a.count for a in starts) * blocks(along.count, run)
        chunk = computed(_chunk, 8 * height, run * width, depth.size, extent)
        places = (left, right, self.result.place)
        self.contract(contraction, places, extent, chunk, shared=True)

    def boxes(self, problem: Problem, decision: Decision) -> None:
        """Blocks of the result, of operands that are packed or not."""
        rows, columns, depth = problem[1:]
        (tiling, pack, writes), placed = decision, problem.roles()
        lanes, size = min(self.lanes, below(plain(columns.size))), self.work.itemsize
        height, vectors = prod([n for _, n in tiling.box]), blocks(tiling.width, lanes)
        panel, far = lanes * vectors, plain(depth.size * columns.size * size) > L1_BYTES
        width, pieces = min(panel, columns.size), [(i * lanes, lanes) for i in range(vectors)]
        pieces[-1] = (width - lanes, lanes)
        left, right, local = self.left.place, self.right.place, None
        lefts, rights = ({r.name: getattr(r, side) for r in placed} for side in ("times", "right"))
        inside, apart = rights, [0, 0]  # strides in a panel, and the distances of panels
        if pack[0]:
            copy = packed(placed, "times", "rows", height)
            left, lefts, apart[0] = self.packed(self.left, copy), lefts | copy.strides, copy.panel
        else:
            left = self.converted(self.left)
        parts = unit_parts(problem, panel, False)
        if pack[1]:
            copy = packed(placed, "right", "columns", panel)
            inside, itself = rights | copy.strides, unit_parts(problem, panel, True)
            fits = not has_by_element_fma() and copy.panel * size <= STACK_BYTES
            if fits and packs_itself(problem, itself):
                parts, bytes_near = itself, copy.panel * size
                local = Panel(copy.dims[-2:], self.right.dtype, self.lanes, bytes_near)
            else:
                right, rights, apart[1] = self.packed(self.right, copy), inside, copy.panel
        tiling = tiling._replace(width=width)
        parts = 0 if writes and not pack[1] else parts
        grid = grid_of(placed, tiling, (lefts, rights), tuple(apart), parts=parts)
        turns, finish = 2 if height * vectors >= MANY_SUMS else 4, self.result.finish
        deep = plain(depth.size) >= MIN_PREFETCHED_DEPTHS
        contraction = Contraction(
            self.work, self.result.dtype, grid.axes,
            (Dim(height, lefts["rows"], 0, rows.out),), Dim(width, *grid.vector), tuple(pieces),
            (Dim(depth.size, lefts["depth"], inside["depth"]),), 0, 0, 0, registers(),
            is_long(grid.cycles), None, finish is not None, "rows" if parts else "columns",
            grid.run, local, turns * height * vectors,
            PREFETCHED_DEPTHS if has_by_element_fma() and far and deep and not pack[1] else 0,
        )  # fmt: skip
        whole = finish is not None and columns.size % panel == 0 == rows.out % panel
        places = (left, right, self.result.place)
        self.contract(
            contraction, places, grid.extent, grid.chunk, finish, panel, whole, shared=True
        )

    def packed(self, operand: Operand, copy: Packed) -> Place:
        types = operand.dtype, self.work
        return self.copied(operand.place, copy.dims, types, copy.size, careless=True)


# --- whole matrices -------------------------------------------------------------------------------


def in_matrices(plan: Product, problem: Problem) -> bool:
    """Whether the processor multiplies tiles: of bfloat16, not too few of them."""
    _, rows, columns, depth = problem
    dtypes = (plan.left.dtype, plan.right.dtype)
    if dtypes != (BF16, BF16) or plan.result.dtype not in (BF16, F32):
        return False
    if min(rows.size, columns.size) < amx.SIDE or depth.size < amx.DEPTH or columns.out != 1:
        return False
    if plain(rows.size * columns.size * depth.size) < FEW_TILES:
        return False
    if 1 not in (rows.left, depth.left) or 1 not in (columns.right, depth.right):
        return False
    return has_matrices() and not knobs.thread.reproducible


def with_stride(d: Dim, side: str, stride: int) -> Dim:
    """A dimension along which an operand is walked with another stride."""
    return d._replace(left=stride) if side == "left" else d._replace(right=stride)


def matrix_tasks(plan: Product, problem: Problem) -> None:
    """Both operands in tiles, then their products."""
    outer, rows, columns, depth = problem
    deep, tiled, places = blocks(depth.size, amx.DEPTH), list(outer), []

    def add(key: Any, write: Any, given: tuple[Place, ...], extent: int, chunk: int) -> None:
        task, values = Task(None, "product", given, extent, max(1, chunk)), dict[str, Any]()
        key = key if is_writing() else named(key, values)
        made = lambda: sized_task(key, values, task, lambda key: write(key, "product"))
        plan.tasks.append(made if write is amx.tiles_module else made())

    for side, operand, across in (("left", plan.left, rows), ("right", plan.right, columns)):
        tiles = blocks(across.size, amx.BLOCK) * (amx.BLOCK // amx.SIDE)
        each = tiles * deep * amx.TILE
        free = [d.size for d in outer if getattr(d, side)]
        steps = iter(contiguous((*free, each)))
        given = [
            Dim(d.size, getattr(d, side), next(steps)) if getattr(d, side) else ONE for d in outer
        ]
        tiled = [with_stride(d, side, to.right) for d, to in zip(tiled, given, strict=True)]
        end, deepest = [Dim(d.size, getattr(d, side), 0) for d in (across, depth)]
        place = plan.memory(2 * prod(free) * each)
        key: Any = amx.Tiles(tuple(given), end, deepest, tiles, deep, side == "right")
        chunk = CHUNK_BYTES // plain(2 * deep * amx.TILE)
        add(key, amx.tiles_module, (operand.place, place), prod(free) * tiles, chunk)
        places.append(place)
    count = min(blocks(plain(rows.size), amx.BLOCK), PANEL_ROWS // amx.BLOCK)
    key = amx.Blocks(tuple(tiled), rows, columns, deep, count, plan.result.dtype)
    units = blocks(rows.size, amx.BLOCK * count) * blocks(columns.size, amx.BLOCK)
    work = plain(count * amx.BLOCK**2 * (deep * amx.DEPTH // 8 + 16))
    extent = prod(d.size for d in outer) * units
    add(key, amx.blocks_module, (*places, plan.result.place), extent, CHUNK_WORK // work)
