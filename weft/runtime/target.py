"""This machine as the target of a plan: kernels scheduled and rendered, operations lowered."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from weft.backends.cpu.loops import render
from weft.backends.cpu.machine import Ahead
from weft.backends.cpu.processor import vector_bits
from weft.base.lazy import Late
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.grid import chunk
from weft.compiler.passes.split import Part
from weft.compiler.pipeline import schedule, simplify
from weft.compiler.plan import Piece, Target
from weft.compiler.plan import Planner as Planner
from weft.compiler.plan import Unplannable as Unplannable
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import Blocks, Finish, Lowered, Type
from weft.kernel.spec import verify

if TYPE_CHECKING:
    from weft.compiler.watch import Watch

# loaded when a program has a loop, and when it has an operation with an algorithm of its own
loop_text = Late("weft.backends.cpu.loop_text")
block_text = Late("weft.backends.cpu.block_text")
unrolled = Late("weft.backends.cpu.unrolled")
tiny = Late("weft.backends.cpu.heroes.tiny")
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

    def kernel(self, kernel: Kernel, looped: bool = False) -> tuple[list[Piece], list[int]]:
        if self.watch is not None:
            return self._unrolled(kernel, looped) or self._rendered(kernel)
        key = (looped, signature(kernel))
        found = self.kernels.get(key)
        if found is None:
            found = self._unrolled(kernel, looped) or self._rendered(kernel)
            self.kernels[key] = found
        return found

    def _unrolled(self, kernel: Kernel, looped: bool) -> tuple[list[Piece], list[int]] | None:
        """A kernel of a few elements in a loop, without loops of its own."""
        if not looped:
            return None
        kernel = collapse(kernel)
        verify(kernel)
        text = unrolled.render_unrolled(kernel)
        if text is None:
            return None
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        if self.watch is not None:
            self.watch.current.parts = [Part(kernel, outside)]
        return [Piece(text, kernel.name, 1, 1, tuple(outside))], []

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
        return loop_text.render_loop(node, slots, codes, inside)

    def block(self, size: int, values: int) -> int:
        lanes = max(1, vector_bits() // (8 * max(4, size)))
        registers = 16 if vector_bits() == 256 else 32
        return lanes * max(k for k in (1, 2, 4) if k == 1 or (values + 4) * k <= registers)

    def blocks(self, blocks: Blocks, slots: Any, codes: Any) -> Any:
        return block_text.render_blocks(blocks, slots, codes)

    def hero(
        self,
        name: str,
        ins: list[Type],
        outs: list[Type],
        params: Any,
        finish: Finish | None = None,
        looped: bool = False,
    ) -> Lowered | None:
        found = tiny.lower(name, ins, outs, params) if looped and finish is None else None
        if found is not None:
            return found
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
