"""What only a few elements need: values behind rare choices, computed where some lane asks."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.nodes import Value, walk

# Operations from which a branch around them costs less than they do.
_MIN_BRANCH_OPS = 16


class Rare(Record):
    """Choices by one condition, and the numbers of the values that only their first arms need."""

    condition: Value
    choices: list[Value]
    inside: frozenset[int]


def rare(roots: list[Value], worth: int = _MIN_BRANCH_OPS) -> list[Rare]:
    """The rare choices that values are made of, and that are worth a branch: around so many
    operations."""
    return _rare(tuple(roots), worth)


@lru(8)  # asked for again and again, of one kernel after the other
def _rare(roots: tuple[Value, ...], worth: int) -> list[Rare]:
    groups: dict[int, list[Value]] = {}
    values = walk(roots)
    for v in values:
        if v.op == "select" and v.attr == "rare":
            groups.setdefault(v.args[0].number, []).append(v)
    if not groups:
        return []
    users: dict[int, list[Value]] = {}
    for v in values:
        for x in v.args:
            users.setdefault(x.number, []).append(v)
    outside = {v.number for v in roots}
    found = []
    for choices in groups.values():
        inside = frozenset(_behind(choices, users, outside))
        if len(inside) >= worth:
            found.append(Rare(choices[0].args[0], choices, inside))
    return found


def _behind(choices: list[Value], users: dict[int, list[Value]], outside: set[int]) -> set[int]:
    """The numbers of all values that are needed only where a choice falls on its first arm."""
    own = {v.number for v in choices}
    inside: set[int] = set()
    waiting = {v.args[1].number: v.args[1] for v in choices}
    order = [-number for number in waiting]
    heapify(order)
    while order:  # users come before what they use: they have the higher numbers
        number = -heappop(order)
        v = waiting[number]
        if number in outside or not all(
            u.number in inside or (u.number in own and v is not u.args[0] and v is not u.args[2])
            for u in users[number]
        ):
            continue
        inside.add(number)
        for x in v.args:
            if x.number not in waiting:
                waiting[x.number] = x
                heappush(order, -x.number)
    return inside
