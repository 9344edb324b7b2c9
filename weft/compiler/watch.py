"""What is noted while a program is compiled, if somebody wants to know: every pass with its
result and time, every step of the plan with its kernels, tasks and nodes."""

from __future__ import annotations

from typing import Any

from weft.compiler.fuse import Fusion, Step
from weft.core.jaxpr import ClosedJaxpr


class Passed:
    """One run of a pass."""

    __slots__ = ("name", "on", "made", "seconds")

    def __init__(self, name: str, on: str, made: Any, seconds: float) -> None:
        self.name = name
        self.on = on
        self.made = made
        self.seconds = seconds


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
        self.stack: list[Seen] = []
        self.memos: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.owners: dict[int, Seen] = {}  # the innermost step of a node, by the node's id
        self.made: dict[int, tuple[Any, list[Any]]] = {}  # nodes and what became of them, by id

    def memo(self, closed: ClosedJaxpr) -> dict[str, Any]:
        """What this compilation knows of a program; kept apart, so that all passes are seen."""
        return self.memos.setdefault(id(closed), (closed, {}))[1]

    def passed(self, name: str, on: str, made: Any, seconds: float) -> None:
        """Note a pass."""
        self.passes.append(Passed(name, on, made, seconds))
        stage = {"program": "simplify", "fusion": "fuse", "kernel": "schedule"}[on]
        self.spent(stage, seconds)

    def spent(self, stage: str, seconds: float) -> None:
        """Add to the time of a stage."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    @property
    def current(self) -> Seen:
        """The step that is being planned."""
        return self.stack[-1]

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

    def assembled(self, node: Any, made: list[Any]) -> None:
        """Note what a backend has made of a node."""
        self.made[id(node)] = (node, made)

    def replace(self, seen: Seen, made: Any) -> None:
        """Note that a backend has made something else of the only node of a step."""
        self.made.update((id(node), (node, [made])) for node in seen.nodes)

    def settle(self) -> None:
        """Let every step have the nodes that the backend has made of its own."""
        waiting = list(self.steps)
        while waiting:
            seen = waiting.pop()
            waiting += seen.inner
            seen.nodes = [n for node in seen.nodes for n in self.made.get(id(node), (0, [node]))[1]]
