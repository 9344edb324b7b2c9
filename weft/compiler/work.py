"""How much work a value is, where fusion decides whether to keep it or to compute it again."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from weft.base.sizes import plain
from weft.core.jaxpr import JaxprEqn

# An array that is spread over one at least so many times as large is small beside it.
REPEATED = 64
# Elements up to which reading as many in any order takes no longer than another kernel's launch.
MAX_READ_APART = 1 << 17


class Work:
    """Counts the operations that an element of a value takes, up to the number from which the value
    is kept in memory.

    On targets where arithmetic is cheap, work that several operands share counts once, and work for
    small arrays that are spread over large ones does not count.
    """

    def __init__(self, fusion: Any) -> None:
        self.fusion = fusion
        self.known: dict[Any, int] = {}
        self.behind: dict[Any, dict[int, int]] = {}  # the costs of equations, by their ids
        self.total, self.own = 0, dict[int, int]()

    def of(self, eqn: JaxprEqn, operands: Iterable[Any]) -> int:
        """The operations for the results of an equation."""
        fusion, known = self.fusion, self.known
        most, cost = fusion.work, fusion._cost(eqn)
        if not fusion.recomputes or not eqn.outvars:
            self.total = min(most, cost + sum(known.get(x, 0) for x in operands))
            return self.total
        out = eqn.outvars[0].aval
        size = plain(prod(out.shape))
        if size > MAX_READ_APART and eqn.primitive.reads_apart(eqn.params, out):
            cost = most  # each element is an access to memory
        self.own = {id(eqn): cost}
        for x in operands:
            if x not in known or REPEATED * plain(prod(x.aval.shape)) <= size:
                continue
            if known[x] >= most:
                self.total = most
                return most
            self.own.update(self.behind[x])
        self.total = min(most, sum(self.own.values()))
        return self.total

    def note(self, v: Any) -> None:
        """Count the last equation wherever this result of it is used."""
        self.known[v] = self.total
        if self.fusion.recomputes:
            self.behind[v] = self.own
