"""The grid: which iterations of a kernel threads share, and how many of them make a chunk."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.base.sizes import at_most, plain
from weft.compiler.passes.rewrite import Nest, Rewrite, loads, peel, roots
from weft.kernel.build import Builder
from weft.kernel.kernel import Kernel, Loop, Store, affine, in_loops
from weft.kernel.nodes import walk

# Iterations that are enough for many threads.
_ENOUGH_ITERATIONS = 64
# Elements of a piece of an axis that is cut for the sake of sharing.
_CHUNK_ELEMENTS = 1 << 12
# Elements of the innermost axes below which one more of them is a loop inside the grid.
_MIN_INNER_ELEMENTS = 64
# Work of a chunk, in bytes moved: starting a thread on one costs a few thousand.
_CHUNK = 1 << 16
# Bytes of a line of a cache, and iterations that are few enough to share one.
_CACHE_LINE_BYTES, _MAX_LINE_ITERATIONS = 64, 16
# Operations on elements that take as long as moving one byte.
_PER_BYTE = 3


def grid(kernel: Kernel) -> Kernel:
    """The kernel with its independent axes counted by one grid."""
    nest = peel(kernel)
    if not nest.axes:
        return kernel
    axes, body = nest.axes, nest.body
    maps = all(isinstance(s, Store) for s in body)
    if maps and len(axes) == 1:
        return kernel._replace(grid=axes[0], body=body)
    if maps or nest.lanes:
        axes, body = _cut(nest)
    if len(axes) == 1:
        return kernel._replace(grid=axes[0], body=body, axes=())
    extent = prod(n for _, n in axes)
    return kernel._replace(grid=("g", extent), body=body, axes=tuple(axes))


def _cut(nest: Nest) -> tuple[list[tuple[str, int]], list[Any]]:
    """Axes for the grid, and loops over the innermost ones, which are in pieces if the others are
    few."""
    outer, inside = nest.axes[:-1], nest.axes[-1:]
    while outer and not nest.lanes and plain(prod(n for _, n in inside)) < _MIN_INNER_ELEMENTS:
        inside.insert(0, outer.pop())
    (axis, extent), *rest = inside
    size = max(1, _CHUNK_ELEMENTS // max(1, plain(prod(n for _, n in rest))))
    whole, body = None, nest.body
    few = plain(prod(n for _, n in outer)) < _ENOUGH_ITERATIONS
    if not outer or (few and plain(extent) >= 2 * size):
        size = max(1, at_most(extent, size))
        rewrite = Rewrite(Builder(), {axis: affine(0, {"cut": size, axis: 1})})
        body, whole = rewrite.body(body), ("cut", extent)
        near = _near(nest, outer, axis)
        far = [a for a in outer if a not in near]
        outer = [*far, ("cut", -(-extent // size)), *near]
        extent = size
    return outer, [Loop(axis, extent, in_loops(rest, body), (), nest.lanes, whole)]


def _near(nest: Nest, outer: list[tuple[str, int]], axis: str) -> list[tuple[str, int]]:
    """The last axes whose iterations read the same lines of memory as each other, which are then
    to be read once for all of them: for one piece of the innermost axis after the other."""
    indices = [(v.attr[1], v.dtype.itemsize) for v in loads(nest.body)]
    found: list[tuple[str, int]] = []
    for name, n in reversed(outer):
        steps = [(abs(i.coefficient(name)), abs(i.coefficient(axis)), size) for i, size in indices]
        rising = [plain(a) * size for a, b, size in steps if 0 < plain(a) < plain(b)]
        near = any(n < _CACHE_LINE_BYTES for n in rising)
        if plain(n) > _MAX_LINE_ITERATIONS or not near:
            break
        found.insert(0, (name, n))
    return found


def chunk(kernel: Kernel) -> int:
    """Iterations of the grid that make a chunk: a rule of the kernel alone."""
    if kernel.grid is None:
        return 1
    extent = kernel.grid[1]
    each = max(1, plain(_work(kernel.body)) // _PER_BYTE)
    if type(extent) is int and extent * each <= 2 * _CHUNK:
        return max(1, extent)
    count = -(-_CHUNK // each)
    inner = plain(_after_cut(kernel))
    count = -(-count // inner) * inner  # what reads the same memory, by one thread
    # whole vectors where the grid itself runs in them
    return -(-count // 64) * 64 if count > 64 else count


def _after_cut(kernel: Kernel) -> int:
    """Iterations that share a piece of the innermost axis."""
    names = [name for name, _ in kernel.axes]
    first = names.index("cut") + 1 if "cut" in names else len(names)
    return prod(n for _, n in kernel.axes[first:])


def _work(body: list[Any]) -> int:
    """Operations and bytes of statements, loops counted by their extents."""
    total = 0
    flat = [s for s in body if not isinstance(s, Loop)]
    # what is the same for all iterations is computed once a chunk
    values = [v for v in walk(roots(flat)) if v.axes and v.op not in ("index", "acc")]
    for v in values:
        total += 1 if v.op != "load" else _PER_BYTE * v.dtype.itemsize
    total += sum(_PER_BYTE * s.value.dtype.itemsize for s in flat if isinstance(s, Store))
    return total + sum(s.extent * _work(s.body) for s in body if isinstance(s, Loop))
