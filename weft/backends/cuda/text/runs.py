"""Runs of small kernels as one launch: which of a program's launches, and on how many blocks.

A launch that needs what the one before it has written takes its time however little it does; a
barrier between blocks that are all resident takes less. So small kernels that follow each other are
parts of one kernel with barriers between them, where that takes less time, and a loop that is one
kernel does first what comes before it. `loops.py` writes such kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.backends.cuda.commands import EARLY_PART
from weft.backends.cuda.groups import Access, SameMemory, accesses_of, collide
from weft.backends.cuda.loops import (
    CLUSTER_BLOCKS,
    LATENCY,
    MOST_ROW_BYTES,
    Grid,
    Moved,
    Part,
    in_a_loop,
    longest_row,
)
from weft.backends.cuda.ptx import MOST_EARLY_BLOCKS
from weft.backends.cuda.schedule import Schedule
from weft.base.functional import ById, lru
from weft.base.record import Record
from weft.kernel.kernel import Loop, statements
from weft.kernel.nodes import walk
from weft.kernel.program import Copy, Point

# Launches of a run at least, and at most; slots and values of all of its kernels at most: a longer
# text takes longer to assemble than its kernels side by side.
MIN_LAUNCHES, MAX_LAUNCHES, MAX_SLOTS, MAX_VALUES = 2, 48, 128, 1200
# Clocks of a launch that waits for the one before it, of one that may begin before that has ended,
# and what more it takes to begin a kernel whose blocks have to be resident.
LAUNCH, EARLY, TOGETHER = 4500, 2000, 6000
# How much of the time of a kernel on a full GPU its launch doesn't hide.
SHOWN = 0.7
# How much shorter a run has to be than its launches.
GAIN = 0.85
# Elements up to which a kernel is part of a run that would read or write far apart there; bytes of
# a copy; bytes that a run keeps which would have the same memory else.
MAX_APART, MAX_COPY, MAX_BYTES = 1 << 13, 1 << 16, 8 << 20


class Step(Record):
    """A launch, or what is done between two: items of a run, the clocks that it takes alone, the
    view that it moves, and the blocks of a loop, which ends a run."""

    items: tuple[Any, ...]
    alone: float = 0
    view: int | None = None
    grid: Grid | None = None

    def slots(self) -> set[int]:
        found = {s for x in self.items for s in getattr(x, "slots", ())}
        moved = [x.node for x in self.items if isinstance(x, Moved)]
        return found | {s for node in moved for s in (node.source, node.target)}


class Run(Record):
    """Steps from one up to another that are one launch."""

    start: int
    stop: int
    grid: Grid


def step(
    members: Sequence[tuple[Any, Any]], processors: int, launch: float = LAUNCH
) -> Step | None:
    """A launch of kernels, each with its node, as a step of a run; None where it can't be one.
    ``launch`` is the clocks that a launch takes."""
    node, part = members[0]
    if part is None and isinstance(node, Point):
        return Step((), view=node.view)
    if part is None and isinstance(node, Copy) and node.size <= MAX_COPY:
        return Step((Moved(node),), launch)
    items: list[Part] = []
    for node, part in members:
        made = getattr(part, "schedule", None)
        if not isinstance(made, Schedule) or not _fits(ById(made)):
            return None
        slots = tuple(spot.slot for spot in part.spots)
        inside = in_a_loop(made)
        items.append(Part(inside, slots, accesses_of(inside, slots), id(node)))
    full = min(_clocks(items, Grid(processors, threads)) for threads in (256, 1024))
    return Step(tuple(items), launch + SHOWN * max(0, full - 2 * LATENCY))


@lru(128)
def _fits(of: ById) -> bool:
    """Whether a kernel can be part of a run."""
    made: Schedule = of.value
    kernel = made.kernel
    if kernel.serial or made.cluster or not made.iterations:
        return False
    rows = [b.size * b.dtype.itemsize for b in kernel.buffers if b.role == "row"]
    if sum(rows) > MOST_ROW_BYTES:
        return False
    far = made.columns or made.tile is not None
    return not far or made.iterations * longest_row(made) <= MAX_APART


def _values(item: Any) -> int:
    """What the text of an item is as long as."""
    return 30 + _length(ById(item.schedule.kernel)) if isinstance(item, Part) else 40


@lru(128)
def _length(kernel: ById) -> int:
    """The values that a kernel computes."""
    body = kernel.value.body
    return len(walk([v for s in statements(body) if not isinstance(s, Loop) for v in s.operands]))


def launch_of(launches: Sequence[Sequence[tuple[Any, Any]]], early: bool) -> float:
    """The clocks of a launch of some; ``early`` is whether small kernels may begin before the one
    before them has ended, if nearly all of them are small."""
    parts = [members[-1][1] for members in launches if not isinstance(members[-1][0], Point)]
    schedules = [getattr(part, "schedule", None) for part in parts]
    small = [x for x in schedules if x is not None and x.blocks <= MOST_EARLY_BLOCKS]
    return EARLY if early and len(small) >= EARLY_PART * len(parts) else LAUNCH


def loop_step(item: Any, grid: Grid) -> Step:
    """A loop that is one kernel on a grid, as the last step of a run."""
    return Step((item,), grid=grid)


def blocks(processors: int, clusters: bool) -> list[Grid]:
    """What blocks a run may have: few, as a grid that fills the GPU begins late and waits long at
    barriers. Only a loop on such a grid does first what comes before it."""
    found = [Grid(1, 256), Grid(1, 1024)]
    if clusters and processors >= 2 * CLUSTER_BLOCKS:
        found.append(Grid(CLUSTER_BLOCKS, 512, True))
    return found


def cut(
    steps: Sequence[Step | None],
    grids: Sequence[Grid],
    sizes: Callable[[int], int],
    same_memory: SameMemory,
    launch: float = LAUNCH,
) -> list[Run]:
    """Which steps are runs, so that all of them take the least time."""
    if sum(s is not None and bool(s.items) for s in steps) < MIN_LAUNCHES:
        return []
    grids = list(dict.fromkeys([*grids, *(s.grid for s in steps if s is not None and s.grid)]))
    count = len(steps)
    alone = [0.0 if s is None else s.alone for s in steps]
    best = [0.0] + [float("inf")] * count
    chosen: list[Run | None] = [None] * (count + 1)
    known: dict[tuple[int, Grid], float] = {}  # clocks of steps, by their ids

    def clocks_of(one: Step, grid: Grid) -> float:
        key = id(one), grid
        if key not in known:
            known[key] = _clocks(one.items, grid)
        return known[key]

    for start in range(count):
        if best[start] + alone[start] < best[start + 1]:
            best[start + 1], chosen[start + 1] = best[start] + alone[start], None
        for grid in grids:
            for stop, clocks in _from(
                steps[start : start + 2 * MAX_LAUNCHES], grid, sizes, same_memory, launch, clocks_of
            ):
                stop += start
                total = best[start] + clocks
                if total < best[stop]:
                    best[stop], chosen[stop] = total, Run(start, stop, grid)
    found: list[Run] = []
    while count:
        run = chosen[count]
        if run is not None:
            found.append(run)
        count = count - 1 if run is None else run.start
    return found[::-1]


def _clocks(items: Sequence[Any], grid: Grid) -> float:
    """The clocks of items that need nothing of each other: others than the longest are computed
    while that waits for memory, and parts of one kernel by threads that have nothing else to do."""
    each = [x.stage(grid) for x in items]
    parts = [x.schedule for x in items if isinstance(x, Part)]
    apart = len(parts) == len(items) and all(made.apart and not made.shares for made in parts)
    if apart and sum(made.iterations for made in parts) <= grid.blocks * grid.threads:
        return max(each)
    return max(each) + sum(max(x - LATENCY, 0) for x in each) - max(max(each) - LATENCY, 0)


def _from(
    steps: Sequence[Step | None],
    grid: Grid,
    sizes: Callable[[int], int],
    same_memory: SameMemory,
    launch: float,
    clocks_of: Callable[[Step, Grid], float],
) -> list[tuple[int, float]]:
    """Where runs of the first of some steps may end, and the clocks that they take."""
    found: list[tuple[int, float]] = []
    launches, values, total, alone = 0, 0, 0.0, 0.0
    slots: set[int] = set()
    pending: list[Access] = []
    begins = LAUNCH + TOGETHER if grid.waits else launch
    for stop, one in enumerate(steps, 1):
        if one is None or one.view in slots:
            break
        if one.grid is not None:
            # a loop takes its time in either case
            if one.grid == grid and launches + 1 >= MIN_LAUNCHES and total + grid.barrier < alone:
                found.append((stop, total + grid.barrier))
            break
        slots |= one.slots()
        values += sum(map(_values, one.items))
        launches += bool(one.items)
        if launches > MAX_LAUNCHES or values > MAX_VALUES or len(slots) > MAX_SLOTS:
            break
        if sum(map(sizes, slots)) > MAX_BYTES:
            break
        if not one.items:
            continue
        own = [a for x in one.items for a in x.accesses]
        if any(collide(a, b, same_memory) for a in own for b in pending):
            total, pending = total + grid.barrier, []
        pending += own
        more = clocks_of(one, grid)
        if more > one.alone:
            break  # no run is shorter with it
        total, alone = total + more, alone + one.alone
        if launches >= MIN_LAUNCHES and begins + total < GAIN * alone:
            found.append((stop, begins + total))
    return found


def items_of_units(units: Sequence[Any]) -> list[Any]:
    """The items of nodes and their kernels."""
    steps = [step([unit], 1) for unit in units]
    return [x for one in steps if one is not None for x in one.items]


def pairs(
    slots: Sequence[int], same_memory: Callable[[int, int], bool]
) -> frozenset[tuple[int, int]]:
    """Which slots may be the same memory, by their places in order."""
    each = range(len(slots))
    return frozenset(
        (i, j) for i in each for j in each[i:] if i == j or same_memory(slots[i], slots[j])
    )


def written(items: Sequence[Any]) -> set[int]:
    """The slots that items write."""
    return {a.slot for x in items for a in x.accesses if a.writes}


def numbered(items: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Items on slots that are numbered in the order in which they come, and these slots."""
    known: dict[int, int] = {}
    origins: dict[int, int] = {}
    number = lambda slot: known.setdefault(slot, len(known))
    found: list[Any] = []
    for x in items:
        if isinstance(x, Moved):
            node = x.node
            copied = node._replace(source=number(node.source), target=number(node.target))
            found.append(Moved(copied))
            continue
        slots = tuple(map(number, x.slots))
        accesses = tuple(a._replace(slot=number(a.slot)) for a in x.accesses)
        origin = origins.setdefault(x.origin, len(origins) + 1)
        found.append(x._replace(slots=slots, accesses=accesses, origin=origin))
    return found, list(known)


def key_of(items: Sequence[Any]) -> tuple[Any, ...]:
    """What numbered items of the same text have in common."""
    return tuple(
        (x.node.source, x.node.target, x.node.size)
        if isinstance(x, Moved)
        else (x.schedule.key, x.slots, x.origin)
        for x in items
    )
