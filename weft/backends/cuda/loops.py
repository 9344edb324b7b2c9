"""Loops of a program as one kernel: what their rounds do, for a block or for a grid whose blocks
are all resident.

A loop becomes one kernel where its rounds are made of kernels of the compiler, small products,
copies, branches and other such loops. `text/loops.py` writes the kernel; a loop of anything else
stays a list of commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.groups import Access, accesses_of
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.products import Shape, analyse
from weft.backends.cuda.schedule import (
    WHOLE,
    Parts,
    Schedule,
    instructions,
    nest,
    schedule,
)
from weft.base.functional import ById, lru
from weft.base.record import Record
from weft.kernel.kernel import Kernel, Loop, combines_neighbours, statements
from weft.kernel.nodes import BF16, F16, F32, F64, walk
from weft.kernel.program import Branch, Copy, For, Launch, Op, Point, Swap, Type, While

# Kernels, products and copies that one kernel may be made of.
MOST_ITEMS = 96
# Multiplications of a product that isn't left to a library.
MOST_PRODUCTS = 1 << 24
# Bytes of scratch memory of an iteration that a block holds.
MOST_ROW_BYTES = 8 << 10
# And that each of its warps does.
MOST_WARP_ROW_BYTES = 2 << 10
# What is estimated, in clocks of a multiprocessor: a launch in a graph, a call of a library, a
# barrier of a block and one of a grid, the bytes and simple operations of a clock.
LAUNCH, CALL, BARRIER, GRID_BARRIER = 4000, 7000, 40, 1800
BYTES, OPERATIONS = 24, 48
THREADS = 256  # of a block of a grid
# Rows of a piece of columns that are split more finely than in a launch.
FINER_PIECES = 16, 8, 4
# Bytes that a multiprocessor gets at least for a thread that reads away from its neighbours.
SECTOR = 32
# Threads of a block of a grid that has many elements to compute, and how much longer it takes for
# them than launches whose blocks fill the GPU.
MANY_THREADS, HALF_EMPTY = 512, 3

# Blocks of a cluster, as many as every GPU with clusters can have; clocks of its barrier.
CLUSTER_BLOCKS, CLUSTER_BARRIER = 8, 700
# Clocks until memory that the second cache holds is there, for the first of some loads and for each
# other, of which several are on their way; of one instruction that needs the one before it; of a
# reduction between the threads of a warp, and between its warps; bytes that a multiprocessor reads
# in a clock.
LATENCY, NEXT_LOAD, DEPENDENT, SHUFFLES, WARPS_SUM, CACHED_BYTES = 450, 100, 4, 200, 350, 40
# How much shorter the rounds of a cluster have to be than those of a grid.
CLUSTER_GAIN = 0.85

_PRODUCTS = (F32, F64, BF16, F16)


class Unfit(Exception):
    """A loop that doesn't become one kernel, and why."""


class Grid(Record):
    """Blocks of a kernel with barriers between all of them, and threads of each: one block, those
    of a cluster, or a grid whose blocks are all resident."""

    blocks: int
    threads: int
    cluster: bool = False

    @property
    def waits(self) -> bool:
        """Whether blocks of a grid wait for each other."""
        return self.blocks > 1 and not self.cluster

    @property
    def barrier(self) -> int:
        """The clocks of a barrier."""
        if self.blocks == 1:
            return BARRIER + self.threads // 32
        return CLUSTER_BARRIER if self.cluster else GRID_BARRIER


class Part(Record):
    """A kernel as scheduled, on slots; parts of one kernel, which has an ``origin`` of its own,
    write different elements."""

    schedule: Schedule
    slots: tuple[int, ...]
    accesses: tuple[Access, ...]
    origin: int

    @property
    def mode(self) -> str:
        """Who has an iteration: a thread, a warp or a block that shares it, or, for one that is
        short and alone, every thread for itself."""
        made = self.schedule
        if made.shares:
            return "warps" if made.threads == 32 else "block"
        read = {a.slot for a in self.accesses if not a.writes}
        alone = made.iterations == 1 and not made.kernel.serial
        if alone and not any(isinstance(s, Loop) for s in made.kernel.body):
            if not any(a.writes and a.slot in read for a in self.accesses):
                return "all"
        return "threads"

    def fitted(self, grid: Grid) -> Schedule:
        """With a warp or a block for each row, whichever takes less time."""
        return _fitted(self.schedule, grid, len(self.accesses))

    def stage(self, grid: Grid) -> float:
        """Clocks between two barriers, also of what has to be waited for."""
        return _stage(ById(self.schedule), grid, len(self.accesses))

    def clocks(self, blocks: int) -> float:
        kernel = self.schedule.kernel
        values = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
        loops = 1
        for s in kernel.body:
            if isinstance(s, Loop):
                loops = max(loops, prod(n for _, n in nest(s)[0]))
        rounds = max(self.schedule.iterations * loops / blocks, 32)
        return rounds * (4 * len(self.accesses) / BYTES + len(list(walk(values))) / OPERATIONS)


class Multiply(Record):
    """A product, on the slots of its operands and its result."""

    shape: Shape
    dtype: np.dtype
    out_dtype: np.dtype
    slots: tuple[int, int, int]

    @property
    def accesses(self) -> tuple[Access, ...]:
        left, right, out = self.slots
        return Access(left, False), Access(right, False), Access(out, True)

    def stage(self, grid: Grid) -> float:
        return LATENCY + tile_of(self.shape, grid.blocks, grid.threads)[1]

    def clocks(self, blocks: int) -> float:
        return tile_of(self.shape, blocks, THREADS)[1]


class Moved(Record):
    """Bytes copied."""

    node: Copy

    @property
    def accesses(self) -> tuple[Access, ...]:
        return Access(self.node.source, False), Access(self.node.target, True)

    def stage(self, grid: Grid) -> float:
        turns = -(-self.node.size // (4 * grid.blocks * grid.threads))
        return LATENCY + turns * (NEXT_LOAD + 8 * grid.threads / CACHED_BYTES)

    def clocks(self, blocks: int) -> float:
        return 2 * self.node.size / blocks / BYTES


class Region(Record):
    """A loop or a branch, and the items of its regions."""

    node: Any
    regions: tuple[tuple[Any, ...], ...]


def tile_of(shape: Shape, blocks: int, threads: int) -> tuple[tuple[int, int, int], float]:
    """Rows and columns of a tile, rows of a thread, and the clocks that a product takes."""
    own = min(4, 1 << max(shape.rows - 1, 0).bit_length())
    best: tuple[tuple[int, int, int], float] = ((own, 4, own), float("inf"))
    for rows in (own << i for i in range(4)):
        for columns in (4, 8, 16, 32, 64, 128):
            lanes = rows // own * (columns // 4)
            if lanes > threads:
                continue
            tiles = shape.batch * -(-shape.rows // rows) * -(-shape.columns // columns)
            units = min(threads // lanes, -(-shape.depth // 4))
            work = rows * columns * shape.depth / 64 + (rows + columns) * shape.depth / 12
            sums = 4 * units * -(-rows * columns // threads)
            clocks = -(-tiles // blocks) * (work + sums + 400)
            if clocks < best[1]:
                best = (rows, columns, own), clocks
    return best


def is_small(eqn: Any) -> bool:
    """Whether a product can be part of a loop in one kernel."""
    if eqn.primitive.name != "dot_general":
        return False
    lhs, rhs = (Type(x.aval.shape, x.aval.dtype) for x in eqn.invars)
    shape = analyse(lhs, rhs, eqn.params["dimension_numbers"])[0]
    return 0 < _multiplications(shape) <= MOST_PRODUCTS


def _multiplications(shape: Shape) -> int:
    return shape.batch * shape.rows * shape.columns * shape.depth


class Collector:
    """The items of a loop's regions. ``new_slot`` gives slots for what they need beyond those of
    the program, ``same_memory`` says whether two may be the same memory; ``multiprocessors`` are
    those of the GPU."""

    def __init__(self, new_slot: Any, same_memory: Any, multiprocessors: int) -> None:
        self.new_slot, self.same_memory = new_slot, same_memory
        self.grid = Grid(multiprocessors, THREADS)
        self.count = self.kernels = 0

    def region(self, nodes: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, Launch):
                found += self.kernel(node.kernel, node.slots)
            elif isinstance(node, Op):
                found += self.operation(node)
            elif isinstance(node, Copy):
                found.append(Moved(node))
            elif isinstance(node, (Point, Swap)):
                found.append(node)
            elif isinstance(node, For):
                if node.trips:
                    found.append(Region(node, (self.region(node.body),)))
            elif isinstance(node, While):
                regions = self.region(node.condition), self.region(node.body)
                found.append(Region(node, regions))
            elif isinstance(node, Branch):
                found.append(Region(node, tuple(self.region(r) for r in node.regions)))
            else:
                raise Unfit(f"{type(node).__name__.lower()} in it")
        self.count += len(found)
        if self.count > MOST_ITEMS:
            raise Unfit("too long")
        return tuple(found)

    def kernel(self, kernel: Kernel, slots: Sequence[int]) -> list[Part]:
        if sum(b.size * b.dtype.itemsize for b in kernel.buffers if b.role == "row") > (
            MOST_ROW_BYTES
        ):
            raise Unfit("rows too long")
        if combines_neighbours(kernel):
            raise Unfit("threads of a warp that share a row")
        parts, scratch = self.parts(kernel, self.is_distinct(kernel, slots))
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        known = dict(zip(outside, slots, strict=True))
        for i, b in enumerate(scratch):
            known[len(kernel.buffers) + i] = self.new_slot(b.size * b.dtype.itemsize)
        found = []
        self.kernels += 1
        for part in parts:
            if part.iterations:
                given = tuple(known[i] for i in part.buffers)
                accesses = accesses_of(part, given)
                found.append(Part(in_a_loop(part), given, accesses, self.kernels))
        return found

    def parts(self, kernel: Kernel, distinct: bool) -> Parts:
        """The parts of a kernel that take a grid the least time together: columns in short pieces,
        as a thread waits for one row after the other, or a warp for each column, which saves
        barriers."""

        def clocks(made: Parts) -> float:
            parts = [in_a_loop(p) for p in made.parts]
            alone = sum(stage(p, self.grid, len(kernel.buffers)) + GRID_BARRIER for p in parts)
            return alone + sum(map(sectors, parts)) * SECTOR / (self.grid.blocks * CACHED_BYTES)

        found = schedule(kernel, False, distinct)
        if all(p.shares or longest_row(p) < 2 * min(FINER_PIECES) for p in found.parts):
            return found
        finer = [schedule(kernel, False, distinct, piece=rows) for rows in (*FINER_PIECES, WHOLE)]
        return min([found, *finer], key=clocks)

    def is_distinct(self, kernel: Kernel, slots: Sequence[int]) -> bool:
        """Whether nothing that a kernel reads has the memory of what it writes."""
        roles = [b.role for b in kernel.buffers if b.role != "row"]
        for i, slot in enumerate(slots):
            for j, other in enumerate(slots):
                if i != j and roles[j] == "out" and self.same_memory(slot, other):
                    return False
        return True

    def operation(self, node: Op) -> list[Any]:
        eqn = node.eqn
        if eqn.primitive.name != "dot_general" or node.epilogue is not None:
            raise Unfit(f"{eqn.primitive.name} in it")
        lhs, rhs, out = (Type(x.aval.shape, x.aval.dtype) for x in (*eqn.invars, *eqn.outvars))
        if lhs.dtype != rhs.dtype or lhs.dtype not in _PRODUCTS:
            raise Unfit(f"a product of {lhs.dtype} in it")
        if out.dtype not in (lhs.dtype, F32):
            raise Unfit(f"a product of {lhs.dtype} in it")
        shape, *orders = analyse(lhs, rhs, eqn.params["dimension_numbers"])
        if not 0 < _multiplications(shape) <= MOST_PRODUCTS:
            raise Unfit("a large product in it")
        found: list[Any] = []
        sides = []
        for slot, t, order in zip(node.ins, (lhs, rhs), orders, strict=True):
            if order is not None:
                other = self.new_slot(prod(t.shape) * t.dtype.itemsize)
                found += self.kernel(permute(t.shape, order, t.dtype.itemsize), (slot, other))
                slot = other
            sides.append(slot)
        slots = (sides[0], sides[1], node.outs[0])
        return [*found, Multiply(shape, lhs.dtype, out.dtype, slots)]


def longest_row(part: Schedule) -> int:
    """The most elements that an iteration goes through."""
    loops = [s for s in part.kernel.body if isinstance(s, Loop)]
    return max((prod(n for _, n in nest(s)[0]) for s in loops), default=1)


def stage(part: Schedule, grid: Grid, arrays: int) -> float:
    """Clocks of a kernel with this many arrays between two barriers: threads that each wait for
    what they read, and the instructions and bytes of those of a multiprocessor together."""
    own = 1 if not part.shares else 32 if part.threads == 32 else grid.threads
    turns = -(-part.iterations * own // (grid.blocks * grid.threads))
    if own == grid.threads:
        turns = -(-part.iterations // grid.blocks)
    body = part.kernel.body
    values = walk([v for s in statements(body) if not isinstance(s, Loop) for v in s.operands])
    length = longest_row(part)
    trips = -(-length // own)
    total = part.iterations * length
    busy = min(grid.threads, -(-total // grid.blocks), own * part.iterations)
    each = instructions(values) * max(DEPENDENT, busy / 128) + 4 * arrays * busy / CACHED_BYTES
    sums = 0 if own == 1 else SHUFFLES if own == 32 else SHUFFLES + WARPS_SUM
    return turns * (LATENCY + sums + (trips - 1) * NEXT_LOAD + trips * each)


def _fitted(made: Schedule, grid: Grid, arrays: int) -> Schedule:
    if not made.shares or made.threads != 32 or grid.threads == 32:
        return made
    block = made._replace(threads=grid.threads)
    return block if stage(block, grid, arrays) < stage(made, grid, arrays) else made


@lru(512)
def _stage(part: ById, grid: Grid, arrays: int) -> float:
    return stage(_fitted(part.value, grid, arrays), grid, arrays)


def sectors(part: Schedule) -> int:
    """How often threads that share an iteration read elements that aren't neighbours."""
    if not part.shares:
        return 0
    found = 0
    for loop in part.kernel.body:
        if isinstance(loop, Loop):
            axes, inside = nest(loop)
            loads = {v for s in inside for v in walk(s.operands) if v.op == "load"}
            apart = sum(abs(dict(v.attr[1].terms).get(axes[-1][0], 0)) > 1 for v in loads)
            found += apart * part.iterations * prod(n for _, n in axes)
    return found


def in_a_loop(part: Schedule) -> Schedule:
    """A schedule as part of a loop: a thread has one element at a time, a warp short rows."""
    return _in_a_loop(ById(part))


@lru(128)
def _in_a_loop(of: ById) -> Schedule:
    part: Schedule = of.value
    part = part._replace(vector=1, tile=None, trips=0, rows=0, columns=0, group=1, written=False)
    part = part._replace(each=1, cluster=0)
    if not part.shares:
        return part
    longest = max(prod(n for _, n in nest(s)[0]) for s in part.kernel.body if isinstance(s, Loop))
    rows = sum(b.size * b.dtype.itemsize for b in part.kernel.buffers if b.role == "row")
    few = (longest <= 1024 or part.iterations >= 1024) and rows <= MOST_WARP_ROW_BYTES
    return part._replace(threads=32 if few else THREADS)


def items_of(items: Sequence[Any]) -> Iterator[Any]:
    """All items, those of regions after the region."""
    for item in items:
        yield item
        if isinstance(item, Region):
            for region in item.regions:
                yield from items_of(region)


def choose(items: Sequence[Any], multiprocessors: int, clusters: bool = False) -> Grid:
    """Blocks and threads of a kernel for a loop: one block, a cluster of them if the GPU has such,
    or as many as there are multiprocessors. Raises where commands would take less time."""
    work = [x for x in items_of(items) if isinstance(x, (Part, Multiply, Moved))]
    single = sum(x.clocks(1) + BARRIER for x in work)
    long = {id(x) for x in work if isinstance(x, Part) and _is_long(x, multiprocessors)}
    several = sum(x.clocks(multiprocessors) * (HALF_EMPTY if id(x) in long else 1) for x in work)
    # parts of one kernel that are apart are one launch, and have no barrier between them
    apart = len({x.origin for x in work if isinstance(x, Part) and x.schedule.apart})
    joined = sum(isinstance(x, Part) and x.schedule.apart for x in work)
    barriers = max(len(work) - joined + apart - 1, 1)
    several += GRID_BARRIER * barriers
    commands: float = sum(CALL if isinstance(x, Multiply) else LAUNCH for x in work)
    commands -= LAUNCH * (joined - apart)
    for x in work:
        if not isinstance(x, Multiply):
            commands += x.clocks(multiprocessors) / (1 if id(x) in long else 2)
    if min(single, several) > commands:
        raise Unfit("too much work for one kernel")
    if several < single:
        products = any(isinstance(x, Multiply) for x in work)
        found = Grid(multiprocessors, MANY_THREADS if long and not products else THREADS)
        if clusters and multiprocessors >= 2 * CLUSTER_BLOCKS and not long:
            sizes = (THREADS,) if products else (THREADS, MANY_THREADS, 1024)
            rounds = lambda grid: sum(x.stage(grid) for x in work) + grid.barrier * barriers
            best = min((Grid(CLUSTER_BLOCKS, n, True) for n in sizes), key=rounds)
            if rounds(best) < CLUSTER_GAIN * rounds(found):
                return best
        return found
    most = max((_threads(x) for x in work), default=32)
    return Grid(1, next(n for n in (32, 128, 256, 512, 1024) if n >= min(most, 1024)))


def _is_long(part: Part, blocks: int) -> bool:
    """Whether threads of a grid have several elements each."""
    return part.mode == "threads" and part.schedule.iterations > 2 * blocks * THREADS


def _threads(item: Any) -> int:
    """Threads that an item can make use of."""
    if isinstance(item, Multiply):
        return THREADS
    if isinstance(item, Moved):
        return item.node.size // 16
    if item.mode == "block":
        return THREADS
    return item.schedule.iterations * (32 if item.mode == "warps" else 1) // 2
