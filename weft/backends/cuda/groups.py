"""Several nodes in one launch: what each of them reads and writes, which of them need nothing of
each other, and which of them all blocks of another do first.

``text.join`` writes such launches. Loops that are one kernel (``loops``) have the same accesses,
and a barrier between two that collide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import eq
from typing import Any

from weft.backends.cuda.ptx import GpuModule
from weft.backends.cuda.schedule import MAX_TRIPS, VECTOR, Schedule, nest
from weft.base.functional import ById, lru
from weft.base.record import Record
from weft.kernel.kernel import Affine, Atomic, Kernel, Loop, Store, statements
from weft.kernel.nodes import walk

# Whether two slots may be the same memory; `operator.eq` where each has its own.
SameMemory = Callable[[int, int], bool]

# Blocks of a launch that is joined, at most: all of them run at once.
MAX_BLOCKS = 256
# Parameters of a launch, which may have 4 KiB of them, different codes of a launch of many small
# kernels, and values that one of them computes of each element.
MAX_PARAMETERS, MAX_CODES, MAX_LIGHT_VALUES = 448, 8, 96
# Kernels of a launch from which on those of the same code share it; and values that long code
# computes, or in how many steps threads combine what they have, which fewer kernels share as well
# where they are little work.
MIN_SHARING, MIN_LONG_VALUES, MIN_LONG_SUMS = 9, 32, 40
# Elements of a row that every block goes through, at most, and how often its threads have other
# elements.
MAX_REPEATED, MAX_TURNS = 1 << 13, 4


# --- accesses -------------------------------------------------------------------------------------


class Access(Record):
    """A slot that is read or written; ``own`` is whether only at the place of the element that is
    being computed."""

    slot: int
    writes: bool
    own: bool = False


def collide(one: Access, other: Access, same_memory: SameMemory) -> bool:
    """Whether the order of two accesses matters."""
    return (one.writes or other.writes) and same_memory(one.slot, other.slot)


def accesses_of(part: Schedule, slots: Sequence[int]) -> tuple[Access, ...]:
    """What a kernel reads and writes."""
    outside = [i for i, b in enumerate(part.kernel.buffers) if b.role != "row"]
    known = dict(zip(outside, slots, strict=True))
    found: dict[tuple[int, bool], bool] = {}
    for buffer, writes, own in _accesses(ById(part.kernel), part.shares):
        if buffer in known:
            key = known[buffer], writes
            found[key] = found.get(key, True) and own
    return tuple(Access(slot, writes, own) for (slot, writes), own in found.items())


@lru(128)
def _accesses(of: ById, shares: bool) -> tuple[tuple[int, bool, bool], ...]:
    """The buffers that a kernel reads and writes, and whether at the place of the element alone."""
    kernel: Kernel = of.value
    here = None
    if kernel.grid is not None and not kernel.axes and not shares:
        here = Affine(0, ((kernel.grid[0], 1),))
    found: dict[tuple[int, bool], bool] = {}

    def note(buffer: int, writes: bool, at: Affine, plain: bool) -> None:
        key = buffer, writes
        found[key] = found.get(key, True) and plain and at == here

    for s in statements(kernel.body):
        if isinstance(s, (Store, Atomic)):
            note(s.buffer, True, s.at, s.offset is None and isinstance(s, Store))
            if isinstance(s, Atomic):
                note(s.buffer, False, s.at, False)
        if not isinstance(s, Loop):
            for v in walk(s.operands):
                if v.op == "load":
                    note(v.attr[0], False, v.attr[1], not v.args)
    return tuple((buffer, writes, own) for (buffer, writes), own in found.items())


# --- kernels of a launch --------------------------------------------------------------------------


class Piece(Record):
    """A kernel of a launch, and the numbers of the launch's parameters that its own are, with
    whether they are only read."""

    schedule: Any  # a Schedule, a Stub or a Chain
    places: tuple[int, ...]
    reads: tuple[bool, ...]


class Stub(Record):
    """The kernel of a routine, of which one waits for the kernel before it."""

    module: GpuModule
    blocks: int
    block_threads: int


class Joined(Record):
    """Kernels that are one launch; the first few are ``repeated``, done by all blocks."""

    pieces: tuple[Piece, ...]
    repeated: int
    distinct: bool  # whether no two parameters are the same memory

    @property
    def block_threads(self) -> int:
        return self.pieces[-1].schedule.block_threads

    @property
    def blocks(self) -> int:
        return sum(p.schedule.blocks for p in self.pieces[self.repeated :])

    @property
    def only_read(self) -> list[bool]:
        """For each parameter, whether it is only read."""
        found: dict[int, bool] = {}
        for _, places, reads in self.pieces:
            for place, read in zip(places, reads, strict=True):
                found[place] = found.get(place, True) and read
        return [found[i] for i in range(len(found))]


class Accesses(Record):
    """What a kernel that may be joined is, its slots, and those that it reads and writes."""

    schedule: Any  # a Schedule, a Stub or a Chain
    slots: tuple[int, ...]
    reads: frozenset[int]
    writes: frozenset[int]

    @property
    def accesses(self) -> list[Access]:
        return [Access(s, False) for s in self.reads] + [Access(s, True) for s in self.writes]

    def piece(self, slots: list[int]) -> Piece:
        """As a kernel of a launch on slots."""
        only = tuple(slot not in self.writes for slot in self.slots)
        return Piece(self.schedule, tuple(map(slots.index, self.slots)), only)


def accesses(part: Schedule, slots: tuple[int, ...], most: int = MAX_BLOCKS) -> Accesses | None:
    """A kernel on slots; None where it can't be joined with others."""
    kernel = part.kernel
    if kernel.serial or part.tile is not None or not 0 < part.blocks <= most:
        return None
    if part.columns == 0 and part.rows:
        return None
    roles = [kernel.buffers[i].role for i in part.buffers]
    reads, writes = (
        frozenset(s for s, role in zip(slots, roles, strict=True) if (role == "in") == read)
        for read in (True, False)
    )
    return Accesses(part, slots, reads, writes)


def beside(one: Accesses, other: Accesses, same_memory: SameMemory) -> bool:
    """Whether kernels need nothing of each other, and their blocks are alike."""
    if one.schedule.block_threads != other.schedule.block_threads:
        return False
    if isinstance(other.schedule, Stub) or one.schedule.cluster or other.schedule.cluster:
        return False
    return not (
        _meet(one.writes, other.writes, same_memory)
        or _meet(one.writes, other.reads, same_memory)
        or _meet(one.reads, other.writes, same_memory)
    )


def _meet(ones: frozenset[int], others: frozenset[int], same_memory: SameMemory) -> bool:
    """Whether some slots may be the same memory as some others."""
    if same_memory is eq:
        return not ones.isdisjoint(others)
    return any(same_memory(a, b) for a in ones for b in others)


def before(one: Accesses, other: Accesses, same_memory: SameMemory) -> Schedule | None:
    """How every block of a kernel does another one first, which gives it something; or None."""
    if one.writes.isdisjoint(other.reads):
        return None
    return beforehand(one, other, same_memory)


def beforehand(one: Accesses, other: Accesses, same_memory: SameMemory) -> Schedule | None:
    """The same for one that may give something only to others that are done before."""
    schedule = one.schedule
    if not isinstance(schedule, Schedule):
        return None
    kernel = schedule.kernel
    inside = [s for s in statements(kernel.body) if not isinstance(s, Loop)]
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    read = {v.attr[0] for v in walk([v for s in inside for v in s.operands]) if v.op == "load"}
    if any(kernel.buffers[i].role != "row" for i in stored & read):
        return None  # what a block has written, another one would take for what was there
    if not one.writes.isdisjoint(one.reads):
        return None
    pairs = [(x, y) for x in one.writes for y in (*one.slots, *other.slots) if x != y]
    pairs += [(x, y) for x in other.writes for y in one.slots]
    if any(same_memory(x, y) for x, y in pairs):
        return None
    return _with_threads(schedule, other.schedule.block_threads)


def _with_threads(schedule: Schedule, threads: int) -> Schedule | None:
    """How a block of so many threads does all of a kernel; None where that is much."""
    loops = [s for s in schedule.kernel.body if isinstance(s, Loop)]
    if not schedule.shares:
        made = schedule._replace(threads=threads)
        return made if not loops and made.blocks <= MAX_TURNS else None
    if schedule.columns or schedule.iterations != 1 or not loops:
        return None
    inner = [nest(loop)[0] for loop in loops]
    totals = {prod(n for _, n in axes) for axes in inner}
    if max(totals) > MAX_REPEATED or any(loop.whole is not None for loop in loops):
        return None
    most = min(schedule.vector, VECTOR)
    for vector in (n for n in (VECTOR, 2, 1) if n <= most):
        if all(axes[-1][1] % vector == 0 for axes in inner):
            trips, rest = divmod(max(totals), threads * vector)
            if len(totals) == 1 and not rest and trips <= MAX_TRIPS:
                return schedule._replace(threads=threads, group=1, vector=vector, trips=trips)
    return schedule._replace(threads=threads, group=1, vector=1, trips=0)


# --- which nodes are one launch -------------------------------------------------------------------

# A node with a kernel or a part of one, and whether others come before it, as what it accesses.
Reading = Callable[[Any, bool], "Accesses | None"]


def together(
    units: Sequence[Any], read: Reading, same_memory: SameMemory
) -> tuple[list[Accesses], int]:
    """The first of some units that are one launch, and how many of them all blocks do."""
    found: list[Accesses] = []
    for unit in units:
        one = read(unit, bool(found))
        if one is None or len({s for x in (*found, one) for s in x.slots}) > MAX_PARAMETERS:
            break
        if all(beside(x, one, same_memory) for x in found):
            if sum(x.schedule.blocks for x in (*found, one)) > MAX_BLOCKS:
                break
            found.append(one)
            continue
        schedules = [before(x, one, same_memory) for x in found]
        if all(schedule is not None for schedule in schedules):
            pairs = zip(found, schedules, strict=True)
            made = [*(x._replace(schedule=y) for x, y in pairs), one], len(found)
            rest = units[len(found) + 1 :]
            last = read(rest[0], True) if rest else None
            return _all_before(found, one, last, same_memory) or made
        break
    return found, 0


def more(
    found: list[Accesses], units: Sequence[Any], read: Reading, same_memory: SameMemory
) -> list[Accesses]:
    """Kernels that are one launch, and as many more of the units after them as are small, too, and
    need nothing of each other, like the update of many parameters: a launch takes longer than one
    of them."""
    if not all(map(_is_light, found)):
        return found
    made = list(found)
    slots = {slot for x in made for slot in x.slots}
    blocks = sum(x.schedule.blocks for x in made)
    codes = {code_of(x.schedule) for x in made}
    for unit in units:
        one = read(unit, False)
        if one is None or not _is_light(one):
            break
        slots.update(one.slots)
        codes.add(code_of(one.schedule))
        blocks += one.schedule.blocks
        if len(slots) > MAX_PARAMETERS or len(codes) > MAX_CODES or blocks > MAX_BLOCKS:
            break
        if not all(beside(x, one, same_memory) for x in made):
            break
        made.append(one)
    return made


def code_of(schedule: Any) -> Any:
    """What two kernels of the same code have in common."""
    return schedule if isinstance(schedule, Stub) else schedule.key


def _is_light(one: Accesses) -> bool:
    """Whether a kernel computes elements by a few operations."""
    schedule = one.schedule
    if not isinstance(schedule, Schedule) or schedule.shares or schedule.cluster:
        return False
    if any(isinstance(s, (Loop, Atomic)) for s in statements(schedule.kernel.body)):
        return False
    values = [v for s in statements(schedule.kernel.body) for v in s.operands]
    return len(list(walk(values))) <= MAX_LIGHT_VALUES


def _all_before(
    found: list[Accesses], one: Accesses, last: Accesses | None, same_memory: SameMemory
) -> tuple[list[Accesses], int] | None:
    """A product, and kernels that its blocks do first, the last of them after others."""
    if last is None or not getattr(last.schedule, "cluster", 0):
        return None
    own = before(one, last, same_memory)
    schedules = [*(beforehand(x, last, same_memory) for x in found), own]
    if any(schedule is None for schedule in schedules):
        return None
    pairs = zip([*found, one], schedules, strict=True)
    return [*(x._replace(schedule=y) for x, y in pairs), last], len(found) + 1
