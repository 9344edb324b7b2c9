"""Messages that overlap with computation: begun early, and what needs them put off.

A collective goes up to where its operand is known. What follows and does not need it runs
meanwhile, what does comes after that. All processes find the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.kernel.program import Collective, Copy, Launch, Op


def slots_of(node: Any, under: Mapping[int, Sequence[int]]) -> set[int] | None:
    """The memory that a node works with; None for one that may be anything, as control flow is."""
    if isinstance(node, Launch):
        own = [*node.slots, *node.writes]
    elif isinstance(node, Op):
        own = [*node.ins, *node.outs, *(s for s in node.slots if s >= 0)]
    elif isinstance(node, Collective):
        own = [*node.ins, *node.outs]
    elif isinstance(node, Copy):
        own = [node.target, node.source]
    else:
        return None
    found: set[int] = set()
    while own:
        slot = own.pop()
        if slot not in found:
            found.add(slot)
            own += under.get(slot, ())
    return found


def overlapping(nodes: Sequence[Any], under: Mapping[int, Sequence[int]]) -> list[Any]:
    """Nodes of a region, in an order in which messages have time."""
    if not any(isinstance(node, Collective) for node in nodes):
        return list(nodes)
    used = {id(node): slots_of(node, under) for node in nodes}
    rest, found = _begun_early(nodes, used), []
    while rest:
        done, rest = _put_off(rest, used)
        found += done
    return found


def _begun_early(nodes: Sequence[Any], used: Mapping[int, set[int] | None]) -> list[Any]:
    """Every collective as far up as nothing is in its way."""
    found: list[Any] = []
    for node in nodes:
        at = len(found)
        if isinstance(node, Collective):
            own = used[id(node)] or set()
            while at and not isinstance(found[at - 1], Collective):
                other = used[id(found[at - 1])]
                if other is None or other & own:
                    break
                at -= 1
        found.insert(at, node)
    return found


def _put_off(
    nodes: Sequence[Any], used: Mapping[int, set[int] | None]
) -> tuple[list[Any], list[Any]]:
    """Nodes that need no message that has been begun here, and the others, for later.

    Nodes that share memory keep their order.
    """
    first: list[Any] = []
    later: list[Any] = []
    held: set[int] = set()  # memory of messages on their way, and of what is put off
    for i, node in enumerate(nodes):
        own = used[id(node)]
        if own is None and held:
            return first, [*later, *nodes[i:]]
        if own is not None and own & held:
            later.append(node)
            held |= own
            continue
        first.append(node)
        if isinstance(node, Collective):
            held |= own or set()
    return first, later
