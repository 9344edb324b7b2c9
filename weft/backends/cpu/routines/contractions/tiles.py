"""Tiles of contractions that registers hold, and the order of tiles: one rule for products,
convolutions and windows.

A plan names dimensions, with their sizes and their strides in both operands and the result. Its
cheapest tile is found by counting cycles (``_Cost``):

- A step of a sum takes as long as its FMAs, its loads or the latency of an FMA, whichever is most.
- Registers hold the sums, the vectors beside each other and some factors of the left operand.
- Where an FMA takes one lane of a vector as a factor, a load brings several factors that are
  neighbours, along the sum or in the tile. A factor alone takes the time of an FMA.
- What a tile reads in all its steps comes from the second cache where the first does not hold it.
- A tile takes some cycles besides, and so does storing its sums, more where they are apart.
- The last tile of an axis is moved back and counts as a whole one.

What differs is data of the plan: strides, which dimensions windows move along, whether operands are
packed, and which ``Forms`` of tiles there are where one text serves many shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import TypeAlias

from weft.backends.cpu.routines.contractions.conv_text import Axis
from weft.backends.llvm.native.processor import has_by_element_fma, registers
from weft.base.record import Record
from weft.base.sizes import computed, is_one, plain

# A sum waits so many cycles for the one before it; so many instructions begin in one cycle.
LATENCY = 4
PER_CYCLE = 2
# Bytes of a tile's operands that the first cache holds, and those that come from the second in a
# cycle: on x86-64, and on Arm.
NEAR_BYTES, FAR_BYTES = (1 << 15, 3 << 14), (32, 9)
# Bytes of a cache line, and cycles for each row of vectors of the left operand.
LINE = 64
ROW = 1
# Vectors of a tile beside each other.
VECTORS = (1, 2, 3, 4)
# Registers for the other operand beside the sums and vectors of a tile: one that is broadcast, or
# several vectors of factors where an FMA takes one lane of them.
SPARE, SPARE_LANEWISE = 1, 4
# What each read of an operand takes of a cycle besides.
READ = 0.02
# Cycles that a tile costs beside its sums.
TILE = 30
# Cycles that one piece of work should at least take: on x86-64, and on Arm.
CHUNK_CYCLES = (10_000, 40_000)
# Bytes of the right operand that stay in a core's second cache.
KERNEL = 1 << 20


class Role(Record):
    """A dimension: its size, and its stride in each operand, zero where it has none.

    ``axis`` names the left operand's axis, in which ``times`` is the stride.
    """

    name: str
    size: int
    axis: str
    times: int
    right: int
    out: int


Box: TypeAlias = tuple[tuple[Role, int], ...]


class Forms(Record):
    """The tiles that a text may have which serves many shapes: ``sizes`` of the only dimension of
    its box, and numbers of ``vectors``.

    A ``step`` takes so many cycles more, since strides are no part of the text. The largest tile is
    taken that costs at most ``nearly`` times what the best one does: few texts then serve all.
    Where steps of the right operand are ``apart`` in memory, the first cache does not keep them.
    """

    name: str
    sizes: tuple[int, ...]
    vectors: tuple[int, ...] = VECTORS
    step: float = 0.0
    nearly: float = 1.0
    apart: bool = False


class Split(Record):
    """A summed dimension cut into ``count`` parts of ``size``, each with sums of its own."""

    name: str
    count: int  # type: ignore[assignment]  # a field, not the method of tuples
    size: int
    left: int


class Tiling(Record):
    """A tile: its box, and ``count`` tiles of ``width`` along the vector axis."""

    cost: float
    vector: str
    width: int
    count: int  # type: ignore[assignment]  # a field, not the method of tuples
    box: Box
    step: float
    split: Split | None = None

    def along(self, placed: list[Role]) -> Tiling:
        """The same tile along dimensions of other strides or sizes, which are as long at least."""
        now = {r.name: r for r in placed}
        v = now[self.vector]
        box = tuple([(now[r.name], n) for r, n in self.box])
        assert v.size >= self.width and all(r.size >= n for r, n in box)
        return self._replace(count=-(-v.size // self.width), box=box)

    def pieces(self, lanes: int) -> tuple[tuple[int, int], ...]:
        """Where the vectors of a tile begin, and how wide they are."""
        return tuple((i, min(lanes, self.width - i)) for i in range(0, self.width, lanes))


class Block(Record):
    """What each unit of tiles has a copy of: ``sizes`` of the left operand's axes, and ``strides``
    in the copy, with its size for the name that is empty.

    Units are ``count``, apart along the dimensions ``apart``, by so many elements.
    """

    sizes: dict[str, int]
    strides: dict[str, int]
    apart: dict[str, int]
    count: int  # type: ignore[assignment]  # a field, not the method of tuples


class Grid(Record):
    """The axes of tiles outermost first, those of units, strides of the vector axis, cycles of an
    item, how many items there are (or units, if there are any), and how many in a chunk.

    An item has ``run`` tiles of the last axis, or all of them.
    """

    axes: tuple[Axis, ...]
    units: tuple[tuple[str, Axis], ...]
    vector: tuple[int, int, int]
    cycles: float
    extent: int
    chunk: int
    run: int = 0


def balanced(size: int, most: int) -> list[int]:
    """Tile sizes of which the fewest cut ``size`` into as many tiles."""
    found, n = [], min(size, most)
    while n > 1:
        count = -(-size // n)
        n = -(-size // count)
        found.append(n)
        n -= 1
    return found


def boxes(roles: list[Role], most: int, forms: Forms | None) -> Iterator[Box]:
    """Boxes of up to two dimensions and so many points; or of one, of the forms that there are."""
    yield ()
    if forms is not None:
        for r in roles:
            if r.name == forms.name:
                yield from [((r, n),) for n in forms.sizes if 1 < n <= min(most, r.size)]
        return
    for r in roles:
        for n in balanced(r.size, most):
            yield ((r, n),)
            if 2 * n <= most:
                for other in roles:
                    if other is not r:
                        sizes = balanced(other.size, most // n)
                        for m in sizes[:3]:
                            yield (r, n), (other, m)


class _Cost:
    """The cycles of tiles with a given vector axis."""

    def __init__(
        self, placed: list[Role], vector: str, lanes: int, itemsize: int, forms: Forms | None
    ) -> None:
        self.lanes, self.itemsize, self.registers = lanes, itemsize, registers()
        self.vector = v = next(r for r in placed if r.name == vector)
        self.others = [r for r in placed if r.out and r.name != vector and r.size > 1]
        self.others.sort(key=lambda r: r.times)
        summed = [r for r in placed if not r.out]
        self.depth = prod(r.size for r in summed)
        self.total = prod(r.size for r in self.others)
        last = min((r for r in summed if r.size > 1), key=lambda r: r.times, default=v)
        self.inner = last.times or 1
        arm = has_by_element_fma()
        self.near, self.far = (0 if forms and forms.apart else NEAR_BYTES[arm]), FAR_BYTES[arm]
        self.spare = SPARE_LANEWISE if arm else SPARE
        self.lanewise = arm and not v.times and lanes > 1 < itemsize
        self.along = self.inner == 1 and (forms is not None or last.size % lanes == 0)
        # Along this axis points read at one step what others read at the next. What tiles for
        # x86-64 would gain by counting it was not measured.
        self.window = last.axis if arm and last is not v else ""
        self.more = forms.step if forms else 0.0

    def tile(self, vectors: int, width: int, box: Box, most: float) -> tuple[float, float] | None:
        """The cycles of all tiles of a form, and those of a step; None where its sums alone take
        more than ``most``."""
        v, points, lefts, rights = self.vector, 1, 1, 1
        count = -(-v.size // width) * self.total
        for r, n in box:
            points *= n
            if r.times:
                lefts *= n
            if r.right:
                rights *= n
            count = count // r.size * -(-r.size // n)
        sums = points * vectors
        reads = lefts * (vectors if v.times else 1) + rights * (vectors if v.right else 1)
        step = max(sums / PER_CYCLE, LATENCY) + READ * reads
        if count * (self.depth * step + TILE + sums) > most:
            return None
        loads, alone = float(reads), 0
        if self.lanewise:
            beside = box and box[-1][0].times == 1 and box[-1][1] % self.lanes == 0
            if beside or (self.along and sums + points + vectors + 2 <= self.registers):
                loads -= lefts * (1 - 1 / self.lanes)
            else:
                alone = lefts
        step = max((sums + alone) / PER_CYCLE, loads / PER_CYCLE, LATENCY) + READ * reads
        left = lefts * width * self.itemsize if v.times else self.bytes(box)
        traffic = left + rights * self.itemsize * (width if v.right else 1)
        if self.depth * traffic > self.near:
            step = max(step, traffic / self.far)
        if v.times:  # each row of vectors is a place of its own in memory
            step += lefts * (2 * ROW if v.right else ROW)
        step += self.more
        loose = 0 if v.out == 1 else 3 * points * width
        return count * (self.depth * step + TILE + sums + loose), step

    def bytes(self, box: Box) -> int:
        """Bytes of the left operand that a step is the first to touch, unless it reads vectors."""
        lines, near = 1, 1
        for r, n in box:
            if 0 < r.times * self.itemsize < LINE:
                near = max(near, n * r.times)
            elif r.times and r.axis != self.window:
                lines *= n
        return lines * max(near * self.itemsize, min(LINE, self.inner * self.itemsize))


def choose(
    placed: list[Role], vector: str, lanes: int, itemsize: int, forms: Forms | None = None
) -> Tiling:
    """The cheapest tile with a given vector axis, of the ``forms`` that a text may have."""
    cost = _Cost(placed, vector, lanes, itemsize, forms)
    size, found, nearly, most = cost.vector.size, [], forms.nearly if forms else 1.0, inf
    for vectors in forms.vectors if forms else VECTORS:
        if vectors > max(1, -(-size // lanes)):
            continue
        width = min(vectors * lanes, size)
        points = (cost.registers - cost.spare - vectors) // vectors
        for box in boxes(cost.others[:4], points, forms):
            tile = cost.tile(vectors, width, box, most)
            if tile is not None:
                found.append((*tile, width, box))
                most = min(most, nearly * tile[0])
    best = min(found, key=lambda tile: tile[0])
    if nearly > 1:
        near = [tile for tile in found if tile[0] <= nearly * best[0]]
        best = max(near, key=lambda tile: tile[2] * prod(n for _, n in tile[3]))
    cycles, step, width, box = best
    return Tiling(cycles, vector, width, -(-size // width), box, step)


def chunk_cycles() -> int:
    """Cycles that one piece of work should at least take."""
    return CHUNK_CYCLES[has_by_element_fma()]


def kernel_bytes(placed: list[Role], itemsize: int) -> int:
    """Bytes of the right operand that a place of the result has to do with."""
    return plain(prod(r.size for r in placed if r.right and not (r.times and r.out))) * itemsize


def grid_of(
    placed: list[Role],
    tiling: Tiling,
    strides: tuple[dict[str, int], dict[str, int]],
    distances: tuple[int, ...],
    whole: int = 0,
    block: Block | None = None,
    parts: int | None = None,
) -> Grid:
    """The order of tiles: those that share operands follow each other.

    Strides in both operands are by names; panels of them have ``distances`` where they are packed.
    With ``parts`` the text serves many shapes: tiles of rows come last, in so many runs, or before
    those of vectors where there are none.
    """
    box = {r.name: n for r, n in tiling.box}
    apart = block.apart if block is not None else {}
    v = next(r for r in placed if r.name == tiling.vector)
    (left, right), (tiles, panels) = strides, distances
    steps = left[v.name], right[v.name], v.out
    along = Axis(tiling.count, tiling.width, v.size, *steps, panels)
    shared: list[Axis] = []
    rest: list[Axis] = []
    units: list[tuple[str, Axis]] = []
    if tiling.split is not None and parts is None:
        s = tiling.split
        moved = 0 if s.name in apart else s.size * s.left
        part = Axis(s.count, 1, s.count, moved, s.size * right[s.name], whole)
        if s.name in apart:
            units.append((s.name, part))
        else:
            shared.append(part)
    free = sorted((r for r in placed if r.out and r is not v), key=lambda r: -plain(r.out))
    if parts is not None:
        free.sort(key=lambda r: r.name == "rows")
    for r in free:
        size, n = r.size, box.get(r.name, 1)
        if r.name in apart:
            size = apart[r.name]
            units.append((r.name, Axis(-(-r.size // size), size, r.size, 0, right[r.name], r.out)))
        out = 0 if is_one(r.size) else r.out
        axis = Axis(-(-size // n), n, size, left[r.name], right[r.name], out)
        if parts is not None and r is free[-1]:
            axis = axis._replace(tiles=tiles)
        if parts is not None or not is_one(axis.count):
            (shared if r.times and r.right else rest).append(axis)
    order = [*shared, along, *rest]
    if kernel_bytes(placed, 4) <= KERNEL and rest and not (v.times and v.right):
        order = [*shared, *rest[:-1], along, rest[-1]]
    if parts == 0:
        order = [*shared, *rest, along]
    if parts is None:
        order = [axis for axis in order if not is_one(axis.count)]
        order += [Axis(1, 1, 1, 0, 0, 0)] * (2 - len(order))
    *axes, last = order
    run = computed(_run, last.size, last.step, parts) if parts else 0
    depth = prod(r.size for r in placed if not r.out)
    if tiling.split is not None and parts is None:
        depth //= tiling.split.count
    cycles = plain(run or last.count) * (plain(depth) * tiling.step + TILE)
    items = extent = prod(a.count for a in axes) * (-(-last.count // run) if run else 1)
    units = [(name, axis) for name, axis in units if not is_one(axis.count)]
    each = run or last.count
    if block is not None:
        extent, each = prod(a.count for _, a in units), each * items
    chunk = computed(_chunk, each, depth, round(100 * tiling.step), extent)
    steps = int(steps[0] > 0), int(steps[1] > 0), v.out
    return Grid(tuple(order), tuple(units), steps, cycles, extent, chunk, run)


def _run(size: int, step: int, parts: int) -> int:
    """Tiles of a run, of which there are so many."""
    return -(-size // (step * parts))


def _chunk(tiles: int, depth: int, step: int, extent: int) -> int:
    """Items of so many tiles that are worth a chunk of their own; all of them where little would be
    left. A ``step`` is hundredths of a cycle. Larger pieces where there are many: fewer meetings of
    threads."""
    cycles = tiles * (depth * step // 100 + TILE)
    found = max(1, chunk_cycles() // cycles, extent // 512)
    return max(1, extent) if 2 * extent < 3 * found else found
