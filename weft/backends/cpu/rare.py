"""What only a few elements need: values behind rare choices, computed where some lane asks."""

from __future__ import annotations

from weft.base.record import Record
from weft.kernel.nodes import Value, walk

# Operations from which a branch around them costs less than they do.
_WORTH = 16


class Rare(Record):
    """Choices by one condition, and the numbers of the values that only their first arms need."""

    condition: Value
    choices: list[Value]
    inside: frozenset[int]


def rare(roots: list[Value]) -> list[Rare]:
    """The rare choices that values are made of and that are worth a branch."""
    groups: dict[int, list[Value]] = {}
    for v in walk(roots):
        if v.op == "select" and v.attr == "rare":
            groups.setdefault(v.args[0].number, []).append(v)
    found = []
    for choices in groups.values():
        common = _without(roots, {v.number for v in choices})
        needed = walk([v.args[1] for v in choices])
        inside = frozenset(v.number for v in needed) - common
        if len(inside) >= _WORTH:
            found.append(Rare(choices[0].args[0], choices, inside))
    return found


def _without(roots: list[Value], choices: set[int]) -> set[int]:
    """The numbers of all values that are needed where no choice falls on its first arm."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        v = stack.pop()
        if v.number not in seen:
            seen.add(v.number)
            stack.extend((v.args[0], v.args[2]) if v.number in choices else v.args)
    return seen
