"""What is noted while a program is compiled, if somebody wants to know: every pass with its
result and time, every step of the plan with its kernels, tasks and nodes."""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import Any

from weft.base.record import Record
from weft.compiler.fuse import Fusion, Step
from weft.core.caches import ProgramCache, SeparateCache
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal

# What the time of passes counts as; that of others is part of the plan's.
_STAGES = {"program": "simplify", **dict.fromkeys(["region", "fusion", "steps"], "fuse")}
_STAGES["kernel"] = "schedule"


class Passed(Record):
    """One run of a pass."""

    name: str
    on: str
    made: Any
    seconds: float


class Seen:
    """One step of a plan: what came of it, and the steps of the regions inside it."""

    __slots__ = ("fusion", "step", "nodes", "parts", "lowered", "loop", "inner")

    def __init__(self, fusion: Fusion, step: Step) -> None:
        self.fusion = fusion
        self.step = step
        self.nodes: list[Any] = []
        self.parts: list[Any] = []  # of its kernel, scheduled
        self.lowered: Any = None  # its tasks, where it is an operation with an algorithm of its own
        self.loop = ""  # how it runs, where it is a loop
        self.inner: list[Seen] = []


class Watch:
    """The notes on one compilation."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed
        self.passes: list[Passed] = []
        self.steps: list[Seen] = []
        self.seconds: dict[str, float] = {}
        self.origins: list[str] = []  # where the code of each native function came from
        self.stack: list[Any] = []
        # apart from what is kept with programs, so that all passes are seen
        self.simplified: SeparateCache[Any, ClosedJaxpr] = SeparateCache()
        self.owners: dict[int, Seen] = {}  # the innermost step of a node, by the node's id
        self.made: dict[int, tuple[Any, list[Any]]] = {}  # nodes and what became of them, by id

    def passed(self, name: str, on: str, made: Any, since: tuple[float, float]) -> None:
        """Note a pass that began at a mark."""
        self.passes.append(Passed(name, on, made, perf_counter() - since[0]))
        if on in _STAGES:
            self.spent(_STAGES[on], since)

    def mark(self) -> tuple[float, float]:
        """The time now, and the time that all stages have taken so far."""
        return perf_counter(), sum(self.seconds.values())

    def spent(self, stage: str, since: tuple[float, float]) -> None:
        """Give a stage the time since a mark, less the time of the stages that ran within it."""
        now, known = self.mark()
        own = max(0.0, now - since[0] - (known - since[1]))  # rounding can take it below zero
        self.seconds[stage] = self.seconds.get(stage, 0.0) + own

    @property
    def current(self) -> Seen | None:
        """The step that is being planned or assembled."""
        return self.stack[-1] if self.stack else None

    def begin(self, fusion: Fusion, step: Step) -> None:
        """Note that a step is planned from here on."""
        seen = Seen(fusion, step)
        (self.stack[-1].inner if self.stack else self.steps).append(seen)
        self.stack.append(seen)

    def end(self, nodes: list[Any]) -> None:
        """Note the nodes that the step has become."""
        seen = self.stack.pop()
        seen.nodes = nodes
        for node in nodes:
            self.owners.setdefault(id(node), seen)

    def enter(self, node: Any) -> None:
        """Note that a node is assembled from here on."""
        self.stack.append(self.owners.get(id(node)) or self.current)

    def leave(self, node: Any, made: list[Any]) -> None:
        """Note what a backend has made of the node."""
        self.stack.pop()
        self.made[id(node)] = (node, made)

    def assembled(self, node: Any, made: list[Any]) -> None:
        """Note what a backend makes of a node besides, or of one that it has made."""
        self.made[id(node)] = (node, [*self.made.get(id(node), (node, []))[1], *made])

    def note(self, what: str, value: Any) -> None:
        """Note parts or tasks of the current step."""
        setattr(self.current, what, value)

    def settle(self) -> None:
        """Let every step have the nodes that the backend has made of its own."""
        waiting = list(self.steps)
        while waiting:
            seen = waiting.pop()
            waiting += seen.inner
            seen.nodes = [last for node in seen.nodes for last in self._become(node)]

    def _become(self, node: Any) -> list[Any]:
        _, made = self.made.get(id(node), (node, [node]))
        if any(n is node for n in made):
            return made
        return [last for n in made for last in self._become(n)]


class Unwatched:
    """What takes no notes."""

    current = None
    simplified: ProgramCache[Any, ClosedJaxpr] = ProgramCache("simplified")

    def _ignore(self, *told: Any) -> None:
        pass

    mark = passed = spent = begin = end = enter = leave = assembled = note = settle = _ignore


UNWATCHED: Any = Unwatched()


def computed(seen: Seen) -> tuple[list[JaxprEqn], list[Any]]:
    """The equations that a kernel computes, in order, and the variables that it writes."""
    step, fusion = seen.step, seen.fusion
    assert step.kernel is not None
    roles = [b.role for b in step.kernel.buffers]
    roots = [v for v, role in zip(step.buffers, roles, strict=False) if role == "out"]
    read = {v for v, role in zip(step.buffers, roles, strict=False) if role != "out"}
    found: dict[int, JaxprEqn] = {}
    stack = list(roots)
    while stack:
        eqn = fusion.producer.get(stack.pop())
        if (
            eqn is None
            or id(eqn) in found
            or (id(eqn) not in fusion.fusible and id(eqn) not in fusion.scatters)
        ):
            continue
        found[id(eqn)] = eqn
        stack += [x for x in eqn.invars if type(x) is not Literal and x not in read]
    return [found[key] for key in sorted(found, key=fusion.positions().__getitem__)], roots


def equations_of(seen: Seen) -> list[JaxprEqn]:
    """The equations that a step does: those of its kernel, and the one that isn't fused."""
    found = [] if seen.step.kernel is None else computed(seen)[0]
    return found if seen.step.eqn is None else [seen.step.eqn, *found]


def primitive_names(eqns: list[JaxprEqn]) -> list[str]:
    """The primitives of equations; those that only move data last."""
    counts = Counter(eqn.primitive.name for eqn in eqns)
    ordered = sorted(eqns, key=lambda eqn: eqn.primitive.form not in ("map", "reduce", None))
    names = dict.fromkeys(eqn.primitive.name for eqn in ordered)
    return [name if counts[name] == 1 else f"{name} ×{counts[name]}" for name in names]
