"""Small kernels that follow each other as one launch, which takes longer than they do.

Kernels that need nothing of each other have ranges of its blocks. One of a single iteration, which
gives others what they need, is done by every block of these first: all of them write the same.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from weft.backends.cuda.ptx import WAIT
from weft.backends.cuda.render import DECLARED, FLUSHES, NAME, attributes, prefetch, writer_of
from weft.backends.cuda.schedule import MAX_TRIPS, VECTOR, Parts, Schedule, nest
from weft.base.record import Record
from weft.kernel.kernel import Loop, Store, statements
from weft.kernel.nodes import walk

# Blocks of a launch that is joined, at most: all of them run at once.
MAX_BLOCKS = 256
# Elements of a row that every block goes through, at most.
MAX_REPEATED = 1 << 13


class Piece(Record):
    """A kernel of a launch, and the numbers of the launch's parameters that its buffers are."""

    schedule: Schedule
    places: tuple[int, ...]


class Joined(Record):
    """Kernels that are one launch; ``repeated`` is whether the first is done by all blocks."""

    pieces: tuple[Piece, ...]
    repeated: bool
    distinct: bool  # whether no two parameters are the same memory

    @property
    def block_threads(self) -> int:
        return self.pieces[-1].schedule.block_threads

    @property
    def blocks(self) -> int:
        return sum(p.schedule.blocks for p in self.pieces[int(self.repeated) :])

    @property
    def only_read(self) -> list[bool]:
        """For each parameter, whether it is only read."""
        roles: dict[int, bool] = {}
        for schedule, places in self.pieces:
            buffers = schedule.kernel.buffers
            for i, place in zip(schedule.buffers, places, strict=True):
                roles[place] = roles.get(place, True) and buffers[i].role == "in"
        return [roles[i] for i in range(len(roles))]


class Accesses(Record):
    """What a kernel that may be joined is, and the slots that it reads and writes."""

    schedule: Schedule
    slots: tuple[int, ...]
    reads: frozenset[int]
    writes: frozenset[int]


def accesses(parts: Parts, slots: tuple[int, ...]) -> Accesses | None:
    """A kernel on slots; None where it can't be joined with others."""
    if len(parts.parts) != 1 or parts.scratch:
        return None
    (part,) = parts.parts
    kernel = part.kernel
    if kernel.serial or part.tile is not None or not 0 < part.blocks <= MAX_BLOCKS:
        return None
    if part.columns == 0 and part.rows:
        return None
    roles = [kernel.buffers[i].role for i in part.buffers]
    reads, writes = (
        frozenset(s for s, role in zip(slots, roles, strict=True) if (role == "in") == read)
        for read in (True, False)
    )
    return Accesses(part, slots, reads, writes)


def beside(one: Accesses, other: Accesses, same_memory: Callable[[int, int], bool]) -> bool:
    """Whether kernels need nothing of each other, and their blocks are alike."""
    if one.schedule.block_threads != other.schedule.block_threads:
        return False
    pairs = [(x, y) for x in one.writes for y in other.slots]
    pairs += [(x, y) for x in other.writes for y in one.slots]
    return not any(same_memory(x, y) for x, y in pairs)


def before(
    one: Accesses, other: Accesses, same_memory: Callable[[int, int], bool]
) -> Schedule | None:
    """How every block of a kernel does another one first, which gives it something; or None."""
    schedule = one.schedule
    kernel = schedule.kernel
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    if not schedule.shares or schedule.columns or schedule.iterations != 1 or not loops:
        return None
    inside = [s for s in statements(kernel.body) if not isinstance(s, Loop)]
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    read = {v.attr[0] for v in walk([v for s in inside for v in s.operands]) if v.op == "load"}
    if any(kernel.buffers[i].role != "row" for i in stored & read):
        return None  # what a block has written, another one would take for what was there
    if one.writes.isdisjoint(other.reads) or not one.writes.isdisjoint(one.reads):
        return None
    pairs = [(x, y) for x in one.writes for y in (*one.slots, *other.slots) if x != y]
    pairs += [(x, y) for x in other.writes for y in one.slots]
    if any(same_memory(x, y) for x, y in pairs):
        return None
    totals = {prod(n for _, n in nest(loop)[0]) for loop in loops}
    if max(totals) > MAX_REPEATED or any(loop.whole is not None for loop in loops):
        return None
    return _with_threads(schedule, other.schedule.block_threads, loops)


def _with_threads(schedule: Schedule, threads: int, loops: list[Loop]) -> Schedule:
    """A kernel whose block has another number of threads."""
    inner = [nest(loop)[0] for loop in loops]
    totals = {prod(n for _, n in axes) for axes in inner}
    most = schedule.vector if schedule.vector <= VECTOR else VECTOR
    for vector in (n for n in (VECTOR, 2, 1) if n <= most):
        if all(axes[-1][1] % vector == 0 for axes in inner):
            trips, rest = divmod(max(totals), threads * vector)
            if len(totals) == 1 and not rest and trips <= MAX_TRIPS:
                return schedule._replace(threads=threads, group=1, vector=vector, trips=trips)
    return schedule._replace(threads=threads, group=1, vector=1, trips=0)


# --- text -----------------------------------------------------------------------------------------


def render(joined: Joined) -> str:
    """The LLVM module of a launch."""
    declared: dict[str, None] = {}
    functions, calls = [], []
    for i, (schedule, places) in enumerate(joined.pieces):
        writer = writer_of(schedule)
        functions.append(writer.piece(f"piece{i}"))
        declared |= dict.fromkeys([*writer.declared.values(), *writer.shared])
        calls.append(f"call void @piece{i}({''.join(f'ptr %p{n}, ' for n in places)}i32 ")
    body = ["%block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()"]
    if joined.repeated:
        body += [f"{calls[0]}0)", "call void @llvm.nvvm.barrier0()"]
    ranges = list(enumerate(joined.pieces))[int(joined.repeated) :]
    first = 0
    for i, piece in ranges[:-1]:
        last = first + piece.schedule.blocks
        body += [
            f"%less{i} = icmp slt i32 %block, {last}",
            f"br i1 %less{i}, label %run{i}, label %else{i}",
            f"run{i}:",
            f"%number{i} = sub i32 %block, {first}",
            f"{calls[i]}%number{i})",
            "ret void",
            f"else{i}:",
        ]
        first = last
    body += [f"%number = sub i32 %block, {first}", f"{calls[-1]}%number)", "ret void", "}"]
    early = []
    if len(ranges) == 1:
        schedule, places = joined.pieces[-1]
        names = dict(zip(schedule.buffers, (f"%p{n}" for n in places), strict=True))
        early = prefetch(schedule, names)
    noalias = "noalias " if joined.distinct else ""
    told = (f"ptr {'readonly ' * read}{noalias}align 16 " for read in joined.only_read)
    given = ", ".join(f"{words}%p{n}" for n, words in enumerate(told))
    head = f"define ptx_kernel void @{NAME}({given}) #1 {{"
    lines = [DECLARED, *declared, *functions, head, "entry:", *early, WAIT, *body, FLUSHES]
    return "\n".join([*lines, attributes(joined.pieces[-1].schedule)])
