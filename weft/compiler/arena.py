"""One arena for the values of a program: those whose lives do not meet share memory."""

from __future__ import annotations

from weft.base.record import Record

ALIGNMENT = 64


class Life(Record):
    """A value's size, and the first and last moment it is in use."""

    size: int
    first: int
    last: int


def arrange(lives: dict[int, Life], count: int) -> tuple[list[int], int]:
    """The offset of each value (0 where it has none), and the size of the arena.

    Each value takes the tightest gap that those alive at its beginning leave.

    >>> arrange({0: Life(64, 0, 1), 1: Life(64, 1, 2), 2: Life(64, 2, 3)}, 3)
    ([0, 64, 0], 128)
    """
    offsets = [0] * count
    active: list[tuple[int, int, int]] = []  # offset, end, last use; in order of offset
    total = 0
    for number in sorted(lives, key=lambda n: (lives[n].first, -lives[n].size)):
        life = lives[number]
        size = max(-(-life.size // ALIGNMENT), 1) * ALIGNMENT
        active = [a for a in active if a[2] >= life.first]
        best, place, position = None, 0, len(active)
        for i, (low, high, _) in enumerate(active):
            gap = low - place
            if gap >= size and (best is None or gap < best[0]):
                best = (gap, place, i)
            if high > place:
                place = high
        if best is not None:
            _, place, position = best
        offsets[number] = place
        active.insert(position, (place, place + size, life.last))
        total = max(total, place + size)
    return offsets, total
