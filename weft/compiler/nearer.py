"""Results that read the same large arrays, computed side by side although a product comes between.

A gradient of ``f(x @ a) * (x @ b)`` has a kernel for each product's cotangent. The second one is
needed only by a later product, and yet it reads what the first one reads. It moves up to it, where
all that it is computed from is there already, so that one kernel writes both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from weft.base.sizes import plain
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal

# Elements of a large result, at least; large arrays that two results share, at least, so that one
# kernel pays; and arrays that this kernel reads and writes, at most, as each is a stream.
MIN_ELEMENTS, MIN_SHARED, MAX_STREAMS = 1 << 15, 2, 8
# How many operations that are no kernels may come between.
MAX_BETWEEN = 4


def nearer(jaxpr: Jaxpr, fusible: Callable[[JaxprEqn], bool]) -> Jaxpr:
    """The program with results of elements moved up to others that read the same arrays."""
    eqns = jaxpr.eqns
    between = [i for i, eqn in enumerate(eqns) if not fusible(eqn)]
    if len(between) < 2:
        return jaxpr
    order = _Order(jaxpr, set(between))
    for at, i in enumerate(between):
        own = [x for x in order.operands(i) if order.waits(x, i)]
        if not own:
            continue
        later = [x for k in between[at + 1 : at + 1 + MAX_BETWEEN] for x in order.operands(k)]
        for x in own:
            for other in later:
                if order.fits(x, other, i):
                    order.move(other, i)
    return order.program()


class _Order:
    """Equations by the operation that they come before."""

    def __init__(self, jaxpr: Jaxpr, between: set[int]) -> None:
        self.jaxpr, self.eqns = jaxpr, jaxpr.eqns
        self.made = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
        self.between = between
        read = [x for i in between for x in jaxpr.eqns[i].invars]
        made = [v for i in between for v in jaxpr.eqns[i].outvars]
        # what is in memory in any case
        self.stored = {x for x in (*read, *made, *jaxpr.outvars) if type(x) is not Literal}
        self.moved: dict[int, int] = {}  # equations, and the one that they come before
        self.known: dict[Any, tuple[frozenset[Any], frozenset[int]] | None] = {}

    def operands(self, i: int) -> list[Any]:
        """Large operands of an operation that kernels of elements compute."""
        found = dict.fromkeys(x for x in self.eqns[i].invars if type(x) is not Literal)
        return [x for x in found if _size(x) >= MIN_ELEMENTS and self.chain(x) is not None]

    def place(self, i: int) -> int:
        return self.moved.get(i, i)

    def waits(self, x: Any, i: int) -> bool:
        """Whether no kernel computes a value before an operation has to be run for others."""
        last = max((k for k in self.between if k < i), default=-1)
        return last < self.place(self.made[x]) <= i

    def chain(self, x: Any) -> tuple[frozenset[Any], frozenset[int]] | None:
        """The arrays that a value is computed from, and the equations of it; None where these are
        no operations on elements."""
        if x in self.known:
            return self.known[x]
        self.known[x] = None
        i = self.made.get(x)
        if i is None or i in self.between or not _of_elements(self.eqns[i]):
            return None
        sources, members, waiting = set[Any](), {i}, [*self.eqns[i].invars]
        while waiting:
            v: Any = waiting.pop()
            if type(v) is Literal:
                continue
            k = self.made.get(v)
            if k is None or v in self.stored:
                sources.add(v)
            elif k not in members:
                if not _of_elements(self.eqns[k]):
                    return None
                members.add(k)
                waiting += self.eqns[k].invars
        found = self.known[x] = frozenset(sources), frozenset(members)
        return found

    def fits(self, x: Any, other: Any, i: int) -> bool:
        """Whether the kernel of a value may write another one, before an operation is run."""
        if x is other or self.place(self.made[other]) <= i or x.aval.shape != other.aval.shape:
            return False
        (reads, _), (more, _) = self.chain(x) or ((), ()), self.chain(other) or ((), ())
        large = {v for v in reads if v.aval.shape == x.aval.shape}
        if len(large.intersection(more)) < MIN_SHARED or len({*reads, *more}) + 2 > MAX_STREAMS:
            return False
        return all(v not in self.made or self.place(self.made[v]) < i for v in more)

    def move(self, x: Any, i: int) -> None:
        chain = self.chain(x)
        assert chain is not None
        self.moved.update((k, i) for k in chain[1] if self.place(k) > i)

    def program(self) -> Jaxpr:
        if not self.moved:
            return self.jaxpr
        keys = [(self.place(i), i not in self.moved, i) for i in range(len(self.eqns))]
        return self.jaxpr.replace(eqns=[self.eqns[key[2]] for key in sorted(keys)])


def _size(x: Any) -> int:
    return plain(prod(x.aval.shape))


def _of_elements(eqn: JaxprEqn) -> bool:
    """Whether an equation is computed element by element, or repeats a number."""
    if eqn.primitive.form == "map":
        return not eqn.effects
    return eqn.primitive.repeats and all(prod(x.aval.shape) == 1 for x in eqn.invars)
