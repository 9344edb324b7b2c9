"""Which commands of a program may run side by side: a graph is captured in several lanes.

Commands are in order where one writes memory that the other reads or writes. A lane is a stream; a
command waits for the last of those in each other lane that it comes after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import commands as c
from weft.backends.cuda import driver
from weft.base.record import Record

LANES = 3
# Programs of more commands, or with commands that touch more bytes, are captured in one lane: what
# is large fills the GPU by itself, and is disturbed by what runs beside it.
MOST_COMMANDS, MOST_BYTES = 24, 4 << 20
# What all calls of libraries write: their workspace.
_WORKSPACE = ("workspace", 0, 1)


class Step(Record):
    """A command's lane, and the steps in other lanes that it waits for."""

    lane: int
    after: tuple[int, ...]


Range = tuple[Any, int, int]  # a piece of memory, and bytes of it


def arrange(touched: Sequence[tuple[list[Range], list[Range]] | None]) -> list[Step]:
    """A lane for each command, from what it reads and writes; None for one that is by itself.

    >>> a, b = ("a", 0, 4), ("b", 0, 4)
    >>> arrange([([], [a]), ([], [b]), ([a, b], [a])])
    [Step(lane=0, after=()), Step(lane=1, after=()), Step(lane=1, after=(0,))]
    """
    steps: list[Step] = []
    accesses: dict[Any, list[tuple[int, int, bool, int]]] = {}  # by piece: bytes, writes, command
    tails = [-1] * LANES  # the last command of each lane
    alone = -1  # the last command that is by itself
    for number, ranges in enumerate(touched):
        if ranges is None:
            wanted = {t for t in tails if t >= 0}
            accesses.clear()
            alone = number
        else:
            wanted = {alone} if alone >= 0 else set()
            for writes, row in enumerate(ranges):
                for piece, low, high in row:
                    known = accesses.setdefault(piece, [])
                    wanted |= {
                        other
                        for start, stop, wrote, other in known
                        if start < high and low < stop and (writes or wrote)
                    }
                    if writes:  # who comes after this comes after what it covers
                        known[:] = [x for x in known if not (low <= x[0] and x[1] <= high)]
                    known.append((low, high, bool(writes), number))
        wanted.discard(number)
        lane = _lane(steps, tails, wanted)
        last: dict[int, int] = {}  # of those waited for, in each other lane
        for other in wanted:
            there = steps[other].lane
            if there != lane:
                last[there] = max(last.get(there, -1), other)
        steps.append(Step(lane, tuple(sorted(last.values()))))
        tails[lane] = number
    return steps


def _lane(steps: list[Step], tails: list[int], wanted: set[int]) -> int:
    """The lane of the latest command that is waited for, if it is the last of its lane; else the
    one that is idle, or has been for longest."""
    if wanted and max(wanted) in tails:
        return tails.index(max(wanted))
    return min(range(len(tails)), key=lambda lane: tails[lane])


def touched(executable: Any, command: Any) -> tuple[list[Range], list[Range]] | None:
    """What a command reads and writes; None where it isn't known."""
    only_read: frozenset[int] = frozenset()
    if type(command) not in (c.Moved, c.Filled):
        known, only_read = executable.only_read.get(id(command), (None, only_read))
        if known is not command:
            return None
    reads: list[Range] = []
    writes: list[Range] = []
    for slot in dict.fromkeys(command.slots()):
        role, size = executable.roles[slot], executable.sizes[slot]
        if role == "view":
            return None
        place: Range = (slot, 0, max(size, 1))
        if role == "temp":
            start = executable.offsets[slot]
            place = ("arena", start, start + max(size, 1))
        (reads if slot in only_read or role == "const" else writes).append(place)
    if type(command) is c.Called:
        writes.append(_WORKSPACE)
    return reads, writes


def plan(executable: Any) -> list[Step] | None:
    """The lanes of a program's commands; None where one lane does."""
    commands = executable.commands
    if not 2 < len(commands) <= MOST_COMMANDS:
        return None
    sizes = executable.sizes
    if any(sum(sizes[s] for s in {*command.slots()}) > MOST_BYTES for command in commands):
        return None
    steps = arrange([touched(executable, command) for command in commands])
    return steps if any(step.lane for step in steps) else None


def capture(executable: Any, addresses: list[int], streams: Sequence[Any]) -> None:
    """Put the commands of a program on streams that are captured: the first, and those that wait
    for it."""
    start = driver.moment(streams[0])
    begun = {0}
    events: list[Any] = []
    last: dict[int, Any] = {}
    for step, command in zip(executable.lanes, executable.commands, strict=True):
        stream = streams[step.lane]
        if step.lane not in begun:
            begun.add(step.lane)
            driver.wait_for(stream, start)
        for other in step.after:
            driver.wait_for(stream, events[other])
        command.run(c.State(addresses, stream, True))
        last[step.lane] = driver.moment(stream)
        events.append(last[step.lane])
    for lane in begun - {0}:
        driver.wait_for(streams[0], last[lane])
    for event in (start, *events):
        driver.destroy_event(event)
