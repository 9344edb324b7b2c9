"""Which dimension of a contraction lies in vectors, what tile of the others is held in registers,
and in which order tiles are computed: a choice by counting instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from weft.backends.cpu.routines.convolutions.conv_text import Axis
from weft.backends.llvm.native.processor import has_by_element_fma, registers
from weft.base.record import Record
from weft.base.sizes import is_one, plain

# A sum waits so many cycles for the one before it; so many instructions begin in one cycle.
LATENCY = 4
PER_CYCLE = 2
# What comes from the second cache in a cycle, where a tile's operands do not fit into the first.
LINE = 64
BYTES = 32
FIRST = 1 << 15
ROW = 1
# Cycles that a tile costs beside its sums, and that one piece of work should at least take.
TILE = 30
CHUNK = 40_000
# Bytes of both operands, and of the right one, that stay in a core's second cache.
L2_BYTES = 1 << 19
KERNEL = 1 << 20
# A copy of the right operand pays if its rows are wider than this, in bytes, or if it has fewer
# elements than this part of the cycles.
MIN_COPIED_ROW_BYTES = 512
COPY = 0.05
# A sum is cut where there are at most so many times as many results as it has terms, into so many
# parts at most, whose results take so many bytes at most; so many tiles are enough for all threads.
MAX_RESULTS_PER_TERM = 64
PARTS = 64
TILES = 64
PARTIAL = 6 << 20


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


class Split(Record):
    """A summed dimension cut into ``count`` parts of ``size``, each with sums of its own."""

    name: str
    count: int
    size: int
    left: int


class Tiling(Record):
    """A tile: its box, and ``count`` tiles of ``width`` along the vector axis."""

    cost: float
    vector: str
    width: int
    count: int
    box: tuple[tuple[Role, int], ...]
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
    count: int


class Grid(Record):
    """The axes of tiles outermost first, those of units, strides of the vector axis, cycles of a
    row of tiles, how many items there are (or units, if there are any), and how many in a chunk."""

    axes: tuple[Axis, ...]
    units: tuple[tuple[str, Axis], ...]
    vector: tuple[int, int, int]
    cycles: float
    extent: int
    chunk: int


def _sizes(size: int, most: int) -> list[int]:
    """Tile sizes of which the fewest cut ``size`` into as many tiles."""
    found, n = [], min(size, most)
    while n > 1:
        count = -(-size // n)
        n = -(-size // count)
        found.append(n)
        n -= 1
    return found


def boxes(roles: list[Role], most: int) -> Iterator[tuple[tuple[Role, int], ...]]:
    """Boxes of up to two dimensions that fit into so many registers, and fill half of them."""
    yield ()
    for r in roles:
        for n in _sizes(r.size, most):
            yield ((r, n),)
            if 2 * n <= most:
                for other in roles:
                    if other is not r:
                        sizes = _sizes(other.size, most // n)
                        for m in sizes[:3]:
                            yield (r, n), (other, m)


def _bytes(box: Sequence[tuple[Role, int]], inner: int, itemsize: int) -> int:
    """Bytes of the left operand that a step is the first to touch, where it reads no vectors."""
    lines, near = 1, 1
    for r, n in box:
        if 0 < r.times * itemsize < LINE:
            near = max(near, n * r.times)
        elif r.times:
            lines *= n
    return lines * max(near * itemsize, min(LINE, inner * itemsize))


def choose(placed: list[Role], vector: str, lanes: int, itemsize: int) -> Tiling:
    """The cheapest tile with a given vector axis."""
    v = next(r for r in placed if r.name == vector)
    others = [r for r in placed if r.out and r.name != vector and r.size > 1]
    others.sort(key=lambda r: r.times)
    inner = min((r.times for r in placed if not r.out and r.size > 1), default=1)
    depth = prod(r.size for r in placed if not r.out)
    total = prod(r.size for r in others)
    # Registers for elements of the left operand: more where an FMA has no memory operand.
    spare = 4 if has_by_element_fma() else 2
    best: tuple[float, int, tuple[tuple[Role, int], ...], float] | None = None
    for vectors in range(1, min(5, -(-v.size // lanes) + 1)):
        width = min(vectors * lanes, v.size)
        tiles = -(-v.size // width)
        for box in boxes(others[:4], (registers() - spare - vectors) // vectors):
            points, lefts, rights, count = 1, 1, 1, tiles * total
            for r, n in box:
                points *= n
                if r.times:
                    lefts *= n
                if r.right:
                    rights *= n
                count = count // r.size * -(-r.size // n)
            sums = points * vectors
            loads = lefts * (vectors if v.times else 1) + rights * (vectors if v.right else 1)
            step = max(sums / PER_CYCLE, loads / PER_CYCLE, LATENCY) + 0.02 * loads
            left = lefts * width * itemsize if v.times else _bytes(box, inner, itemsize)
            traffic = left + rights * itemsize * (width if v.right else 1)
            if depth * traffic > FIRST:
                step = max(step, traffic / BYTES)
            if v.times:  # each row of vectors is a place of its own in memory
                step += lefts * (2 * ROW if v.right else ROW)
            loose = 0 if v.out == 1 else 3 * points * width
            cost = count * (depth * step + TILE + sums + loose)
            if best is None or cost < best[0]:
                best = cost, width, box, step
    assert best is not None
    cost, width, box, step = best
    return Tiling(cost, vector, width, -(-v.size // width), box, step)


def split_of(placed: list[Role], tiling: Tiling, itemsize: int) -> Split | None:
    """How a long sum over few results is cut into parts, so that there is work for all threads and
    a part's operands stay near."""
    summed = sorted((r for r in placed if not r.out), key=lambda r: -r.times)
    depth = prod(r.size for r in summed)
    outer = next((r for r in summed if r.size > 1), None)
    results = prod(r.size for r in placed if r.out)
    if outer is None or depth < 1024 or results > MAX_RESULTS_PER_TERM * depth:
        return None
    box = {r.name: n for r, n in tiling.box}
    tiles = tiling.count * prod(
        [-(-r.size // box.get(r.name, 1)) for r in placed if r.out and r.name != tiling.vector]
    )
    wanted = TILES / tiles
    rights = prod(r.size for r in placed if r.right)
    # Between two walks over the same part of the right operand there are walks over all of it,
    # unless its panels are apart.
    panel = rights if in_place(placed, tiling, itemsize) else depth * tiling.width
    if panel * itemsize >= L2_BYTES:
        # Windows overlap: elements of the left operand are counted once for their taps.
        lefts = prod(r.size for r in placed if r.times and (r.out == 0 or r.name in "gn"))
        wanted = max(wanted, (lefts + rights) * itemsize / L2_BYTES)
    if wanted < 2:
        return None
    parts = int(min(wanted, PARTS, PARTIAL / (results * itemsize), depth / 256))
    parts = max((n for n in range(1, min(parts, outer.size) + 1) if outer.size % n == 0), default=1)
    if parts == 1:
        return None
    return Split(outer.name, parts, outer.size // parts, outer.times)


def in_place(placed: list[Role], tiling: Tiling, itemsize: int) -> bool:
    """Whether the right operand is read where it lies, if it has the type of the sums."""
    v = next(r for r in placed if r.name == tiling.vector)
    size = plain(prod(r.size for r in placed if r.right))
    narrow = plain(v.size) * itemsize <= MIN_COPIED_ROW_BYTES
    alone = is_one(tiling.count) or (narrow and size > COPY * tiling.cost)
    return not v.right or (v.right == 1 and alone)


def kernel_bytes(placed: list[Role], itemsize: int) -> int:
    """Bytes of the right operand that a place of the result has to do with."""
    return plain(prod(r.size for r in placed if r.right and not (r.times and r.out))) * itemsize


def grid_of(
    placed: list[Role],
    tiling: Tiling,
    right: dict[str, int],
    panels: int,
    whole: int,
    block: Block | None,
) -> Grid:
    """The order of tiles: those that share operands follow each other."""
    box = {r.name: n for r, n in tiling.box}
    apart = block.apart if block is not None else {}
    v = next(r for r in placed if r.name == tiling.vector)
    strides = (int(v.times > 0), int(v.right > 0), v.out)
    along = Axis(tiling.count, tiling.width, v.size, strides[0], strides[1], v.out, panels)
    shared: list[Axis] = []
    rest: list[Axis] = []
    units: list[tuple[str, Axis]] = []
    if tiling.split is not None:
        s = tiling.split
        moved = 0 if s.name in apart else s.size * s.left
        part = Axis(s.count, 1, s.count, moved, s.size * right[s.name], whole)
        if s.name in apart:
            units.append((s.name, part))
        else:
            shared.append(part)
    for r in sorted((r for r in placed if r.out and r is not v), key=lambda r: -plain(r.out)):
        size, n = r.size, box.get(r.name, 1)
        if r.name in apart:
            size = apart[r.name]
            units.append((r.name, Axis(-(-r.size // size), size, r.size, 0, right[r.name], r.out)))
        axis = Axis(-(-size // n), n, size, r.times, right[r.name], r.out)
        if not is_one(axis.count):
            (shared if r.times and r.right else rest).append(axis)
    if kernel_bytes(placed, 4) <= KERNEL and rest and not (v.times and v.right):
        order = [*shared, *rest[:-1], along, rest[-1]]
    else:
        order = [*shared, along, *rest]
    axes = [axis for axis in order if not is_one(axis.count)]
    axes += [Axis(1, 1, 1, 0, 0, 0)] * (2 - len(axes))
    depth = prod(r.size for r in placed if not r.out) // (tiling.split.count if tiling.split else 1)
    cycles = plain(axes[-1].count) * (plain(depth) * tiling.step + TILE)
    items = prod(a.count for a in axes[:-1])
    units = [(name, axis) for name, axis in units if not is_one(axis.count)]
    extent, each = items, 1
    if block is not None:
        extent, each = prod(a.count for _, a in units), items
    # Larger pieces where there are many: fewer meetings of threads.
    chunk = max(1, int(CHUNK // (cycles * plain(each))), plain(extent) // 512)
    return Grid(tuple(axes), tuple(units), strides, cycles, extent, chunk)
