"""Products by register tiles: the blocks of them, and what is packed for them."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.backends.cpu.routines.contractions.contraction import Packed, Plan, blocks, packed
from weft.backends.cpu.routines.contractions.conv_moves import Copied
from weft.backends.cpu.routines.contractions.conv_text import Axis, Contraction, Dim, Panel, is_long
from weft.backends.cpu.routines.contractions.tiles import LINE, Forms, Role, balanced, choose
from weft.backends.llvm.native.processor import has_by_element_fma, registers
from weft.base.record import Record
from weft.base.sizes import computed, is_writing, plain
from weft.kernel.program import Finish, Place, contiguous

# Multiply-adds that are worth a chunk of their own.
CHUNK_WORK = 1 << 18
# Bytes of panels that stay in the second cache, and of one that a unit packs on its stack.
PANEL_BYTES, STACK_BYTES = 1 << 19, 1 << 18
# Sums of a tile from which two depths in a turn of its loop are enough to hide the loop itself:
# 1 % slower than four depths, and compiled in two thirds of the time.
MANY_SUMS = 20
# Depths of the right operand that are prefetched where it is far and not packed: too few loads wait
# for memory at a time otherwise.
PREFETCHED_DEPTHS = 8
# Rows that a panel is read by at a time.
PANEL_ROWS = 256
# How many units a large product should have, so that many threads find work.
UNITS = 16
# Depths up to which writing the result takes longer than computing it: in general, and for a large
# result whose rows are not whole lines of the cache.
SHALLOW_DEPTH, SHALLOW_UNALIGNED_DEPTH, LARGE_RESULT_BYTES = 16, 32, 1 << 20
# An operand up to this size stays in the nearest cache however it is read.
L1_BYTES = 32 << 10
# Rows from which packing the right operand pays: in general, and where a panel is narrower than a
# cache line and the operand larger than the second-level cache (in bytes).
MIN_PACKED_ROWS, MIN_PACKED_ROWS_FAR, FAR_RHS_BYTES = 40, 8, 1 << 19
# Columns from which packing rows pays that are in pages of their own.
MIN_PACKED_COLUMNS, PAGE_BYTES = 512, 1 << 12
# Bytes up to which an operand is packed that need not be.
MAX_PACKED_BYTES = 1 << 26
# Rows of tiles: few of them, since one text serves all shapes with the same tile.
HEIGHTS = (12, 8, 6, 4, 2, 1)
# Vectors of tiles beside each other.
VECTORS = (1, 2, 3, 4, 6, 8)
# What a tile may cost in terms of the best one where many shapes are to have the same.
NEARLY = 1.08
# Cycles of a step where strides of rows are in registers, of which x86-64 has few for addresses.
STRIDES_STEP = 1.0
# Rows up to which vectors run along the depth, and columns that are then computed together at most.
FEW_ROWS, MAX_COLUMNS = 12, 8
# Rows that a unit has at least, without and with packing.
UNIT_ROWS = (32, 128)


class Problem(Record):
    """A product by its named dimensions: one each of rows, columns and depth, and outer ones."""

    outer: tuple[Dim, ...]
    rows: Dim
    columns: Dim
    depth: Dim


class Operand(Record):
    """Where an operand lies, its type there, and the strides of its axes."""

    place: Place
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Result(Record):
    """Where the result goes, and its type; or the kernel that goes on with it."""

    place: Place
    dtype: np.dtype
    finish: Finish | None = None


class Tile(Record):
    """Rows and vectors that are held in registers; or rows and columns, of which each is a vector
    along the depth."""

    lanes: int
    rows: int
    width: int


def below(n: int) -> int:
    """The largest power of two up to ``n``."""
    return 1 << (max(n, 1).bit_length() - 1)


def shallow(problem: Problem, out: np.dtype) -> bool:
    """Whether writing the result decides how long a product takes."""
    size, depth = out.itemsize, plain(problem.depth.size)
    crooked = plain(problem.rows.out) * size % 64 != 0
    far = plain(problem.rows.size) * plain(problem.columns.size) * size >= LARGE_RESULT_BYTES
    return depth <= SHALLOW_DEPTH or (depth <= SHALLOW_UNALIGNED_DEPTH and crooked and far)


def tile_of(
    problem: Problem, lanes: int, size: int, packed: tuple[bool, bool], writes: bool
) -> Tile:
    """Rows and vectors of a tile, for elements of some bytes and operands that are ``packed`` or
    not, of a result whose writing decides or not; where sizes have names a few forms serve all."""
    lanes = min(lanes, below(plain(problem.columns.size)))
    rows, columns, depth = problem[1:]
    if packed[0]:  # rows are side by side, depths at least a vector apart
        rows, depth = rows._replace(left=1), depth._replace(left=lanes)
    roles = [
        Role("rows", rows.size, "rows", rows.left, 0, rows.out),
        Role("columns", columns.size, "", 0, columns.right, columns.out),
        Role("depth", depth.size, "depth", depth.left, depth.right, 0),
    ]
    known = [Role(*map(plain, r)) for r in roles]
    count, wide = known[0].size, known[1].size
    arm = has_by_element_fma()
    tallest = 3 * registers() // 8 if arm or not writes else 6
    heights = tuple([n for n in HEIGHTS if n <= min(tallest, count)])
    vectors, line, step = VECTORS, LINE // (lanes * size), 0.0 if arm else STRIDES_STEP
    if arm and writes and known[0].out * size % LINE == 0 and wide >= line * lanes:
        vectors = tuple([n for n in VECTORS if n % line == 0])  # rows of tiles are whole lines
    forms = Forms("rows", heights, vectors, step, apart=not packed[1])
    if is_writing():
        vectors = tuple([n for n in (1, 2, 4, 8) if n == 1 or lanes * n <= wide])
        forms = forms._replace(sizes=heights[:2], vectors=vectors, nearly=NEARLY)
    elif count < 2 * tallest:
        forms = forms._replace(sizes=tuple(balanced(count, tallest)))
    tiling = choose(known, "columns", lanes, size, forms).along(roles)
    return Tile(lanes, prod(n for _, n in tiling.box), blocks(tiling.width, lanes))


def unit_parts(problem: Problem, tile: Tile, pack: bool) -> int:
    """Into how many units the rows of a panel are split: many rows each, less where few units
    result."""
    size, panel = plain(problem.rows.size), tile.lanes * tile.width
    depth = plain(problem.depth.size) + 16  # what a result costs besides its products
    parts = blocks(size, PANEL_ROWS)
    panels = plain(prod(a.size for a in problem.outer)) * blocks(plain(problem.columns.size), panel)
    # A panel is packed for each unit.
    while (
        blocks(size, parts) >= 2 * UNIT_ROWS[pack]
        and blocks(size, parts) * panel * depth > 2 * CHUNK_WORK
        and panels * parts < UNITS
    ):
        parts *= 2
    return parts


def _run(rows: int, height: int, parts: int) -> int:
    """Tiles of a unit."""
    return blocks(rows, height * parts)


def by_rows(problem: Problem) -> bool:
    """Whether vectors run along the depth: few rows, and the other operand is read along it.

    Otherwise that operand would have to be packed; many rows are worth it.
    """
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    if plain(depth.size) < 4 or depth.right != 1 or (columns.right == 1 and columns.size > 1):
        return False
    few = FEW_ROWS if plain(depth.size) >= 256 or columns.out != 1 else FEW_ROWS // 2
    return type(rows.size) is int and rows.size <= few


def row_tile(problem: Problem, lanes: int) -> Tile:
    """All rows, and as many columns as leave registers for what they are multiplied with."""
    rows, columns, depth = problem[1:]
    lanes = min(lanes, below(plain(depth.size)))
    width = max(1, min(plain(columns.size), MAX_COLUMNS, 3 * registers() // 4 // rows.size))
    width = below(width) if is_writing() else width
    assert depth.size >= lanes and columns.size >= width
    return Tile(lanes, rows.size, width)


def _columns_run(rows: int, columns: int, depth: int) -> int:
    """Tiles of a unit, in which vectors run along the depth."""
    return blocks(max(1, CHUNK_WORK // 8 // (rows * (depth + 16))), columns)


def _chunk(rows: int, columns: int, depth: int, extent: int) -> int:
    """Units of so many rows and columns that are worth a chunk of their own; all of them where
    little would be left."""
    found = max(1, CHUNK_WORK // (max(8, rows) * columns * (depth + 16)))
    return max(1, extent) if 2 * extent < 3 * found else found


def packs_columns(problem: Problem, lanes: int, size: int, writes: bool) -> bool:
    """Whether the right operand is packed: where columns are apart, or it is read often."""
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    if columns.right != 1 and columns.size > 1:
        return True
    # Packing reads far memory faster than tiles do, and tiles like vectors that are aligned.
    bytes_each = plain(depth.size * columns.size * size)
    narrow_panels = has_by_element_fma() and bytes_each > FAR_RHS_BYTES
    fewest = MIN_PACKED_ROWS_FAR if narrow_panels else MIN_PACKED_ROWS
    often = plain(rows.size) >= fewest and not writes
    if has_by_element_fma() and plain(columns.size) < 3 * lanes:
        return False
    far = bytes_each > L1_BYTES
    crooked = plain(depth.right) % lanes != 0
    fits = plain(operand_bytes(problem, "right", size)) <= MAX_PACKED_BYTES
    return often and (far or crooked) and (fits or not has_by_element_fma())


def packs_rows(problem: Problem, lanes: int, size: int) -> bool:
    """Whether the left operand is packed: where its depths are apart, and two panels read it; or
    where many do and its rows are in pages of their own."""
    rows, columns, depth = problem.rows, problem.columns, problem.depth
    if depth.left == 1:
        often = plain(columns.size) >= MIN_PACKED_COLUMNS and has_by_element_fma()
        fits = plain(operand_bytes(problem, "left", size)) <= MAX_PACKED_BYTES
        return often and fits and plain(depth.size) * size >= PAGE_BYTES
    often = plain(columns.size) > registers() // 4 * lanes and plain(rows.size) >= 8
    return often and plain(depth.size * rows.size * size) > L1_BYTES


def operand_bytes(problem: Problem, side: str, size: int) -> int:
    """The bytes of one operand, "left" or "right", with all its outer axes."""
    axes = [*problem.outer, problem.rows, problem.columns, problem.depth]
    return prod(axis.size for axis in axes if getattr(axis, side)) * size


def panels(problem: Problem, side: str, tile: int) -> tuple[Packed, list[int]]:
    """An operand with the rows of a tile side by side, or the columns of a panel, and the new
    strides of outer axes."""
    across, depth = problem.rows if side == "left" else problem.columns, problem.depth
    axes = [(d.size, getattr(d, side)) for d in (*problem.outer, across, depth)]
    free = [axis for axis in axes[:-2] if axis[1]]
    found = packed(free, axes[-2], tile, axes[-1:])
    steps = iter(found.free)
    return found, [next(steps) if stride else 0 for _, stride in axes[:-2]]


class Product(Plan):
    """A product's operands and result, and the tasks that come of them."""

    def __init__(self, work: np.dtype, left: Operand, right: Operand, result: Result) -> None:
        super().__init__(work, "product")
        self.left, self.right, self.result = left, right, result

    def dense(self, operand: Operand, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Place:
        """A row-major copy of an operand with other axes."""
        dtype = np.dtype(f"u{min(8, operand.dtype.itemsize)}")
        each = operand.dtype.itemsize // dtype.itemsize
        axes = zip(sizes, strides, contiguous(sizes), strict=True)
        dims = [Copied(n, each * a, each * b) for n, a, b in axes]
        dims.append(Copied(each, 1, 1))
        return self.copied(operand.place, dims, (dtype, dtype), careless=True)

    def converted(self, operand: Operand) -> Place:
        """An operand in the type of the work."""
        if operand.dtype == self.work:
            return operand.place
        count = prod(operand.shape)
        target = self.memory(count * self.work.itemsize)
        return self.summed(operand.place, (operand.dtype, self.work), count, 1, target)

    def tiles(self, problem: Problem) -> None:
        """Register tiles over blocks of the result; one text serves all shapes with the same
        tile."""
        if by_rows(problem):
            self.rows(problem)
        else:
            self.boxes(problem)

    def rows(self, problem: Problem) -> None:
        """Every row with several columns at a time, in vectors along the depth."""
        outer, rows, columns, depth = problem
        lanes, height, width = row_tile(problem, self.lanes)
        right, left = self.converted(self.right), self.converted(self.left)
        if depth.left != 1:
            axes = [*(d for d in outer if d.left), rows, depth]
            sizes = tuple(d.size for d in axes)
            operand = self.left._replace(place=left, dtype=self.work)
            left = self.dense(operand, sizes, tuple(d.left for d in axes))
            steps = iter(contiguous(sizes))
            outer = tuple(d._replace(left=next(steps)) if d.left else d for d in outer)
            rows = rows._replace(left=next(steps))
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

    def boxes(self, problem: Problem) -> None:
        """Blocks of the result; operands are packed where it pays."""
        outer, rows, columns, depth = problem
        size, writes = self.work.itemsize, shallow(problem, self.result.dtype)
        pack = packs_columns(problem, self.lanes, size, writes) or self.right.dtype != self.work
        packed = packs_rows(problem, self.lanes, size), pack
        tile = tile_of(problem, self.lanes, size, packed, writes)
        lanes, height, vectors = tile
        panel = lanes * vectors
        width, pieces = min(panel, columns.size), [(i * lanes, lanes) for i in range(vectors)]
        pieces[-1] = (width - lanes, lanes)
        down = Axis(blocks(rows.size, height), height, *rows[:4])
        along = Axis(blocks(columns.size, panel), width, *columns[:4])
        starts = [Axis(d.size, 1, *d[:4]) for d in outer]
        box, inner = rows._replace(size=height), depth
        if packed[0]:
            copy, steps = panels(problem, "left", height)
            left = self.packed(self.left, copy)
            down, box = down._replace(left=0, tiles=copy.panel), box._replace(left=1)
            starts = [a._replace(left=n) for a, n in zip(starts, steps, strict=True)]
            inner = inner._replace(left=height)
        else:
            left = self.converted(self.left)
        right, local = self.right.place, None
        if pack:
            copy, steps = panels(problem, "right", panel)
            inner = inner._replace(right=panel)
        if pack and not has_by_element_fma() and copy.panel * size <= STACK_BYTES:
            local = Panel(copy.dims[-2:], self.right.dtype, self.lanes, copy.panel * size)
        elif pack:
            right = self.packed(self.right, copy)
            along = along._replace(right=0, panels=copy.panel)
            starts = [a._replace(right=n) for a, n in zip(starts, steps, strict=True)]
        # one text serves any number of runs
        run = computed(_run, rows.size, height, unit_parts(problem, tile, pack))
        order = [along, down]
        if writes and not pack:  # writing decides: whole rows, one after another
            order, run = [down, along], 0
        far = has_by_element_fma() and plain(depth.size * columns.size * size) > L1_BYTES
        unit = (run * height, panel) if run else (height, columns.size)
        turns = 2 if height * vectors >= MANY_SUMS else 4
        cycles = plain(unit[0] * unit[1] * depth.size) // (2 * lanes)
        finish = self.result.finish
        contraction = Contraction(
            self.work, self.result.dtype, (*starts, *order), (box,), Dim(width, 0, 1, 1),
            tuple(pieces), (inner,), 0, 0, 0, registers(), is_long(cycles), None,
            finish is not None,
            "rows" if order[-1] is down else "columns", run, local, turns * height * vectors,
            PREFETCHED_DEPTHS if far and not pack else 0,
        )  # fmt: skip
        runs = blocks(down.count, run) if run else 1
        extent = prod(a.count for a in (*starts, order[0])) * runs
        chunk = computed(_chunk, *unit, depth.size, extent)
        whole = finish is not None and columns.size % panel == 0 == rows.out % panel
        places = (left, right, self.result.place)
        self.contract(contraction, places, extent, chunk, finish, panel, whole, shared=True)

    def packed(self, operand: Operand, copy: Packed) -> Place:
        types = operand.dtype, self.work
        return self.copied(operand.place, copy.dims, types, copy.size, careless=True)
