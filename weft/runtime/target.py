"""This machine as the target of a plan: kernels scheduled and rendered, operations lowered."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from weft.backends.cpu.loops import render
from weft.backends.cpu.machine import Ahead
from weft.base.lazy import Late
from weft.compiler.passes.grid import chunk
from weft.compiler.pipeline import schedule, simplify
from weft.compiler.plan import Piece, Target
from weft.compiler.plan import Planner as Planner
from weft.compiler.plan import Unplannable as Unplannable
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import Finish, Lowered, Type
from weft.kernel.spec import verify

if TYPE_CHECKING:
    from weft.compiler.watch import Watch

# loaded when a program has a loop, and when it has an operation with an algorithm of its own
loop_text = Late("weft.backends.cpu.loop_text")
heroes = Late("weft.backends.cpu.heroes.table")


class Cpu(Target):
    """This machine's processor."""

    def __init__(self, watch: Watch | None = None, ahead: Ahead | None = None) -> None:
        self.watch = watch
        self.ahead = ahead
        # equal layers are scheduled and rendered once
        self.kernels: dict[Any, tuple[list[Piece], list[int]]] = {}
        self.heroes: dict[Any, Lowered | None] = {}

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return simplify(closed, self.watch)

    def kernel(self, kernel: Kernel) -> tuple[list[Piece], list[int]]:
        if self.watch is not None:
            return self._rendered(kernel)
        key = signature(kernel)
        found = self.kernels.get(key)
        if found is None:
            found = self.kernels[key] = self._rendered(kernel)
        return found

    def _rendered(self, kernel: Kernel) -> tuple[list[Piece], list[int]]:
        parts, scratch = schedule(kernel, self.watch)
        begin = perf_counter()
        pieces = []
        for part, buffers in parts:
            verify(part)
            extent = 1 if part.grid is None else part.grid[1]
            count = chunk(part)
            text = render(part, chunk=count)
            pieces.append(Piece(text, part.name, extent, count, tuple(buffers)))
        if self.watch is not None:
            self.watch.current.parts = parts
            self.watch.spent("render", perf_counter() - begin)
        return pieces, [b.size * b.dtype.itemsize for b in scratch]

    def begin(self, text: str, name: str) -> None:
        if self.ahead is not None:
            self.ahead.begin(text, name)

    def loop(self, node: Any, slots: Any, codes: Any, inside: int) -> Any:
        made = loop_text.render_loop(node, slots, codes, inside)
        if self.watch is not None:
            self.watch.current.loop = "nodes" if made is None else "one"
        return made

    def hero(
        self,
        name: str,
        ins: list[Type],
        outs: list[Type],
        params: Any,
        finish: Finish | None = None,
    ) -> Lowered | None:
        if self.watch is not None:
            begin = perf_counter()
            lowered = _lowered(name, ins, outs, params, finish)
            self.watch.spent("render", perf_counter() - begin)
            return lowered
        more = None if finish is None else (finish.buffer, signature(finish.kernel))
        key = (name, *ins, *outs, *params.items(), more)
        try:
            if key not in self.heroes:
                self.heroes[key] = _lowered(name, ins, outs, params, finish)
            return self.heroes[key]
        except TypeError:  # a parameter that cannot be a key
            return _lowered(name, ins, outs, params, finish)


def _lowered(
    name: str, ins: list[Type], outs: list[Type], params: Any, finish: Finish | None
) -> Lowered | None:
    if finish is not None:
        verify(finish.kernel)
    return heroes.lower(name, ins, outs, params, finish)
