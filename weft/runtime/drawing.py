"""The parts that a program runs as, for pictures of it: what each reads, writes and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.base.record import Record
from weft.base.source import SourceInfo
from weft.compiler.analysis.cost import equation_cost, size_of
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, jaxprs_in_params


class Value(Record):
    """An array between parts, by a number of its own."""

    number: int
    type: str
    size: int  # in bytes


class Part(Record):
    """A kernel, a call of a library, a message, a loop or a branch.

    ``ins`` and ``outs`` are values that it reads and writes; what has no part that writes it is an
    argument or a constant. ``places`` are the user's lines, with the operations of each. ``rounds``
    says how often what is inside a loop runs, 0 if nobody knows. ``seconds`` is None where nothing
    was measured. Parts on different tracks may run at the same time.
    """

    name: str
    kind: str
    what: str
    ins: tuple[Value, ...]
    outs: tuple[Value, ...]
    places: tuple[tuple[str, int, str, float], ...] = ()  # file, line, function, operations
    read: float = 0.0
    written: float = 0.0
    operations: float = 0.0
    seconds: float | None = None
    rounds: int = 1
    details: tuple[str, ...] = ()
    inner: tuple[Part, ...] = ()
    track: int = 0


class Numbers:
    """A number for each array of a program."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}
        self.held: list[Any] = []  # so that no other object has the id of one of them

    def value(self, v: Any) -> Value:
        number = self.known.get(id(v))
        if number is None:
            number = self.known[id(v)] = len(self.known)
            self.held.append(v)
        return Value(number, v.aval.str_short(True), size_of(v.aval))

    def values(self, variables: Iterable[Any]) -> tuple[Value, ...]:
        """Those of variables, each once; constants that stand in a program are left out."""
        wanted = [v for v in variables if type(v) not in (Literal, DropVar)]
        return tuple([self.value(v) for v in dict.fromkeys(wanted)])


def places_of(eqns: Sequence[JaxprEqn]) -> tuple[tuple[str, int, str, float], ...]:
    """The user's lines of equations, with the operations that each has a part in."""
    found: dict[tuple[str, int, str], float] = {}
    for eqn in eqns:
        info = eqn.source_info
        if isinstance(info, SourceInfo) and info.file:
            key = (info.file, info.line(), info.function)
            found[key] = found.get(key, 0.0) + operations_of([eqn])
    return tuple([(*key, cost) for key, cost in found.items()])


def operations_of(eqns: Sequence[JaxprEqn]) -> float:
    """The operations of equations; those that only move data count as one for each element."""
    total = 0.0
    for eqn in eqns:
        found = equation_cost(eqn)
        moved = sum(v.aval.size for v in eqn.outvars if hasattr(v.aval, "size"))
        total += max(found.flops + found.transcendentals, float(moved))
    return total


def equations(closed: ClosedJaxpr) -> tuple[Part, ...]:
    """A part for each equation of a program, for backends that run them one by one."""
    return _equations(closed.jaxpr, Numbers())


def _equations(jaxpr: Jaxpr, numbers: Numbers) -> tuple[Part, ...]:
    made = []
    for eqn in jaxpr.eqns:
        regions = list(jaxprs_in_params(eqn.params)) if eqn.primitive.nodes else []
        rounds = eqn.primitive.rounds(eqn.params) if eqn.primitive.nodes == "loop" else 1
        cost = equation_cost(eqn)
        made.append(
            Part(
                eqn.primitive.name,
                eqn.primitive.nodes or "python",
                eqn.primitive.name,
                numbers.values(eqn.invars),
                numbers.values(eqn.outvars),
                places_of([eqn]),
                read=cost.moved / 2,
                written=cost.moved / 2,
                operations=operations_of([eqn]),
                rounds=rounds or 0,
                inner=tuple([p for region in regions for p in _equations(region, numbers)]),
            )
        )
    return tuple(made)


# --- memory ---------------------------------------------------------------------------------------


class Moment(Record):
    """The arrays that a program needs while one of its parts runs."""

    size: float  # of all of them
    held: tuple[tuple[Value, int], ...]  # with the number of the part that writes each; -1 for none


def memory_over_time(parts: Sequence[Part], results: Iterable[int] = ()) -> list[float]:
    """The bytes that are needed while each part runs: what is written before and read from then on,
    its own, and, of a loop, the most that its parts need. Arguments are there throughout."""
    last, first = _lives(parts, results)
    sizes = {v.number: v.size for p in parts for v in (*p.ins, *p.outs)}
    change = [0.0] * (len(parts) + 1)
    for number, begin in first.items():
        change[max(begin, 0)] += sizes[number]
        change[last[number] + 1] -= sizes[number]
    found, now = [], 0.0
    for i, part in enumerate(parts):
        now += change[i]
        found.append(now + max(memory_over_time(part.inner), default=0.0))
    return found


def peak(parts: Sequence[Part], results: Iterable[int] = ()) -> tuple[int, Moment]:
    """The part at which a program needs most memory, and what it needs then, largest first."""
    sizes = memory_over_time(parts, results)
    if not sizes:
        return 0, Moment(0.0, ())
    at = sizes.index(max(sizes))
    last, first = _lives(parts, results)
    values = {v.number: v for p in parts for v in (*p.ins, *p.outs)}
    held = [
        (values[n], first[n]) for n in values if first[n] <= at <= last[n] and values[n].size > 0
    ]
    held.sort(key=lambda pair: -pair[0].size)
    return at, Moment(sizes[at], tuple(held))


def _lives(parts: Sequence[Part], results: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The last part that uses each value, and the first that writes it; -1 for arguments."""
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for i, part in enumerate(parts):
        for v in part.ins:
            first.setdefault(v.number, -1)
            last[v.number] = i
        for v in part.outs:
            first.setdefault(v.number, i)
            last[v.number] = max(last.get(v.number, i), i)
    end = len(parts) - 1
    for number, begin in first.items():
        if begin < 0:
            last[number] = end
    for number in results:
        if number in last:
            last[number] = end
    return last, first
