"""Sums that differ along a short last axis, as several sums of one iteration: what does not depend
on that axis is computed once, and the sums need no memory order of their own."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.compiler.passes.rewrite import Rewrite
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Kernel, Loop, Reduce, statements
from weft.kernel.nodes import Value

# Places along the axis, and sums of an iteration, at most; iterations that are left at least.
MAX_PLACES, MAX_SUMS, FEWEST_ROWS = 4, 12, 32
# Elements that are added for each one that is read, at least: what is read is in the cache then.
FEWEST_USES = 4


def together(kernel: Kernel) -> Kernel | None:
    """A kernel of loops of reductions and stores with its last axis written out, where that pays:
    where little is read for all that is computed."""
    axes = kernel.grid_axes
    if len(axes) < 2:
        return None
    axis, places = axes[-1]
    reduces = [s for s in statements(kernel.body) if isinstance(s, Reduce)]
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    sizes = [n for _, n in axes] + [s.extent for s in statements(loops) if isinstance(s, Loop)]
    if any(type(n) is not int for n in sizes) or any(s.whole is not None for s in loops):
        return None
    if not 1 < places <= MAX_PLACES or places * len(reduces) > MAX_SUMS:
        return None
    rows = prod(n for _, n in axes[:-1])
    read = sum(b.size for b in kernel.buffers if b.role == "in")
    if rows < FEWEST_ROWS or FEWEST_USES * read > rows * min(map(_iterations, loops)):
        return None
    return _written(kernel, axis, places, reduces)


def _iterations(loop: Loop) -> int:
    """How often the innermost statements of a loop run, at most."""
    return loop.extent * max([_iterations(s) for s in loop.body if isinstance(s, Loop)], default=1)


def _written(kernel: Kernel, axis: str, places: int, reduces: list[Reduce]) -> Kernel:
    k = Builder()
    numbers = {s.symbol: i * places for i, s in enumerate(reduces)}

    def rewritten(place: int) -> Rewrite:
        def renamed(v: Value) -> Value | None:
            if v.op != "acc":
                return None
            return k.make("acc", (), v.dtype, numbers[v.attr] + place)

        return Rewrite(k, {axis: Affine(place)}, instead=renamed)

    copies = [rewritten(place) for place in range(places)]

    def body(found: list[Any]) -> list[Any]:
        made: list[Any] = []
        for s in found:
            if isinstance(s, Loop):
                names = [numbers[n] + place for n in s.carries for place in range(places)]
                made.append(s._replace(body=body(s.body), carries=type(s.carries)(names)))
                continue
            for place, copy in enumerate(copies):
                one = copy.statement(s)
                if isinstance(one, Reduce):
                    one = one._replace(symbol=numbers[s.symbol] + place)
                made.append(one)
        return made

    axes = kernel.grid_axes[:-1]
    grid = axes[0] if len(axes) == 1 else ("grid", prod(n for _, n in axes))
    left = () if len(axes) == 1 else tuple(axes)
    return kernel._replace(grid=grid, axes=left, body=body(kernel.body))
