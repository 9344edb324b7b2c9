"""Tasks of a product or a convolution while it is planned: memory, copies of operands and panels of
them, the contraction with its epilogue, and sums of partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

from weft.backends.cpu.finish import NAME, finish_module
from weft.backends.cpu.routines.contractions.conv_moves import Copied, copy_task, partial_module
from weft.backends.cpu.routines.contractions.conv_text import Contraction, contraction_module
from weft.backends.cpu.routines.contractions.tile_code import coded
from weft.backends.cpu.routines.contractions.tiles import Role
from weft.backends.cpu.sizes import named, sized_task
from weft.backends.llvm.code import Module
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.base.record import Record
from weft.base.sizes import computed, is_one, is_writing
from weft.kernel.program import Finish

# Bytes that are worth a chunk when numbers are only moved.
CHUNK_BYTES = 1 << 16


def blocks(count: int, each: int) -> int:
    return -(-count // each)


class Packed(Record):
    """A copy of an operand in panels, of ``size`` elements: the axes of the copy, the new strides
    of its dimensions by their names, and the distance of panels."""

    dims: tuple[Copied, ...]
    strides: dict[str, int]
    panel: int
    size: int


def packed(placed: Sequence[Role], side: str, across: str, tile: int) -> Packed:
    """How ``tile`` elements across an operand, the "times" or "right" one of its dimensions, come
    to lie side by side, and panels of them behind each other. The last panel is moved back until it
    is whole."""
    stride = attrgetter(side)
    v = next(r for r in placed if r.name == across)
    free = [r for r in placed if stride(r) and r.out and r is not v]
    summed = sorted([r for r in placed if not r.out], key=lambda r: -r.times)
    size, step, tile = (v.size, stride(v), tile) if stride(v) else (1, 1, 1)
    count, total, strides = blocks(size, tile), tile, {across: int(stride(v) > 0)}
    for r in reversed(summed):
        strides[r.name] = total
        total *= r.size
    panel = total
    total *= count
    for r in reversed(free):
        strides[r.name] = total
        total *= r.size
    dims = [Copied(r.size, stride(r), strides[r.name]) for r in free]
    if not is_one(count):
        dims.append(Copied(count, step, panel, step=tile, limit=size - tile))
    dims += [Copied(r.size, stride(r), strides[r.name]) for r in summed]
    dims.append(Copied(min(tile, size), step, 1))
    return Packed(tuple(dims), strides, panel, total)


class Plan:
    """Tasks of one contraction under construction, and the type of its sums."""

    def __init__(self, work: np.dtype, name: str) -> None:
        self.work, self.name = work, name
        self.lanes = vector_bits() // (8 * work.itemsize)
        # those that are written in the end are functions: what takes LLVM longest goes there first
        self.tasks: list[Task | Callable[[], Task]] = []
        self.scratch: list[int] = []

    def memory(self, size: int) -> Place:
        """A new piece of scratch memory of so many bytes."""
        self.scratch.append(max(1, size))
        return Place("scratch", len(self.scratch) - 1)

    def task(self, module: Module, places: tuple[Place, ...], extent: int, chunk: int = 1) -> None:
        self.tasks.append(Task(module, self.name, places, extent, max(1, chunk)))

    def copied(
        self,
        source: Place,
        dims: Sequence[Copied],
        types: tuple[np.dtype, np.dtype],
        size: int = 0,
        start: int = 0,
        careless: bool = False,
    ) -> Place:
        """Elements of an operand in another order, and of another type."""
        target = self.memory((size or prod(d.size for d in dims)) * types[1].itemsize)
        lanes = vector_bits() // (8 * types[1].itemsize)
        self.tasks.append(
            lambda: copy_task((source, target), dims, types, lanes, start, careless=careless)
        )
        return target

    def summed(
        self, source: Place, types: tuple[np.dtype, np.dtype], count: int, parts: int, target: Place
    ) -> Place:
        """The sums of parts of so many numbers, in another type."""
        lanes = vector_bits() // (8 * min(t.itemsize for t in types)) * (1 + (parts == 1))
        lanes = lanes if count >= lanes else 1
        places = (source, target, Place("numbers", (parts, count)))
        chunk = max(1, CHUNK_BYTES // (4 * parts * lanes))
        task = Task(
            partial_module(*types, lanes, "add"), "add", places, blocks(count, lanes), chunk
        )
        self.tasks.append(task)
        return target

    def contract(
        self,
        contraction: Contraction,
        places: tuple[Place, ...],
        extent: int,
        chunk: int,
        finish: Finish | None = None,
        columns: int = 0,
        whole: bool = False,
        shared: bool = False,
        values: dict[str, int] | None = None,
    ) -> None:
        """The task of a contraction: places are both operands, the result, and memory for copies.

        A kernel that goes on with the result has blocks of so many ``columns``. A ``shared`` text
        serves all shapes with the same tile, and so does one with names for numbers of these
        ``values``.
        """
        if finish is not None:
            code = Place("code", (finish_module(finish, columns, whole), NAME))
            more = (Place("finish", i) for i in range(len(finish.kernel.buffers)))
            others = [place for place in more if place.what != finish.buffer]
            places = (*places[:2], code, *places[3:], *others)
        task, values = Task(None, self.name, places, extent, chunk), values or {}
        if shared and not is_writing():
            contraction = _named(contraction, values)
        write = lambda given: contraction_module(given, self.name, coded)
        self.tasks.append(sized_task(contraction, values, task, write))

    def lowered(self) -> Lowered:
        tasks = [task if isinstance(task, Task) else task() for task in self.tasks]
        return Lowered(tasks, tuple(self.scratch))


def _named(given: Contraction, values: dict[str, int]) -> Contraction:
    """A contraction with names for what its text need not know."""
    (inner,), vector, panel = given.reduced, given.vector, given.panel

    def multiple(size: int, unit: int) -> Any:
        """A size that is known to be a multiple where it is one; a small one is written out."""
        return named(size, values, unit + 1, unit if size % unit == 0 else 1)

    inner = named(inner, values, given.pitch + 1)._replace(size=multiple(inner.size, given.turn))
    if given.folded:
        vector = vector._replace(size=multiple(vector.size, given.pitch))
    if panel is not None:
        row, across = named(panel.dims, values)
        dims = row, across._replace(size=vector.size)
        panel = panel._replace(dims=dims, size=named(panel.size, values))
    return given._replace(
        grid=tuple([named(a, values)._replace(step=a.step) for a in given.grid]),
        box=tuple([named(d, values)._replace(size=d.size) for d in given.box]),
        vector=vector,
        reduced=(inner,),
        run=named(given.run, values),
        panel=panel,
    )


def unknown(n: int, number: int, size: Any) -> Any:
    """A number as one that native code reads, beside a size: another one for each ``number``, even
    where they are equal."""
    return computed(_first, n, number, size)


def _first(n: int, *_: int) -> int:
    return n
