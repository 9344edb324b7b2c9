"""Kernels run on NumPy arrays: what every backend's code is compared with.

All iterations of all loops are done at once, an axis of arrays for each loop, statement by
statement; a long grid is done in chunks. Serial loops are run in turn, for all other iterations at
once, and barriers hold by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from math import prod
from typing import Any

import numpy as np

from weft.kernel.evaluate import evaluate
from weft.kernel.kernel import (
    Affine,
    Atomic,
    Barrier,
    Kernel,
    Loop,
    Reduce,
    Serial,
    Store,
    affine,
)
from weft.kernel.nodes import NEIGHBOURS, Across, walk

# Elements that a chunk of the grid may have in one array.
CHUNK_ELEMENTS = 1 << 20

_COMBINE: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def run_kernel(kernel: Kernel, buffers: Sequence[np.ndarray]) -> None:
    """Run a kernel on flat arrays, one for each buffer that isn't scratch of a row."""
    extent = 1 if kernel.grid is None else kernel.grid[1]
    chunk = max(1, CHUNK_ELEMENTS // max(1, _inner(kernel.body)) // NEIGHBOURS) * NEIGHBOURS
    for low in range(0, extent, chunk):
        _Run(kernel, buffers, low, min(extent, low + chunk)).body(kernel.body, 0, frozenset())


def _inner(body: list[Any]) -> int:
    """Iterations of the longest nest of loops that are done at once."""
    nests = [s for s in body if isinstance(s, (Loop, Serial))]
    return max(((s.extent if type(s) is Loop else 1) * _inner(s.body) for s in nests), default=1)


def _depth(body: list[Any]) -> int:
    nests = [s for s in body if isinstance(s, (Loop, Serial))]
    return max(((type(s) is Loop) + _depth(s.body) for s in nests), default=0)


def _rows(kernel: Kernel, buffer: int) -> tuple[Affine, int]:
    """Where the scratch of a row is for each iteration of the loops around all that uses it, and
    the elements of all of it: iterations are done at once, and would share it."""
    paths = list(_paths(kernel.body, buffer, ()))
    size = kernel.buffers[buffer].size
    terms: dict[str, int] = {}
    for loop, *others in zip(*paths, strict=False):
        if any(other is not loop for other in others):
            break
        terms[loop.axis] = size
        size *= loop.extent
    return affine(0, terms), size


def _paths(body: list[Any], buffer: int, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The loops around each statement that uses a buffer."""
    for s in body:
        values = [] if isinstance(s, Loop) else s.operands
        loads = [v.attr[0] for v in walk(values) if v.op == "load"] if values else []
        if buffer in loads or getattr(s, "buffer", -1) == buffer:
            yield path
        if isinstance(s, (Loop, Serial)):
            inner = (*path, s) if isinstance(s, Loop) else path
            yield from _paths(s.body, buffer, inner)


class _Run:
    """One chunk of a kernel's grid: the numbers of its axes, and what reductions have given."""

    def __init__(self, kernel: Kernel, buffers: Sequence[np.ndarray], low: int, high: int) -> None:
        self.rank = 1 + _depth(kernel.body)
        self.extents = [high - low] + [1] * (self.rank - 1)
        self.axes: dict[str, np.ndarray] = {}
        self.found: dict[int, np.ndarray] = {}
        self.masks: list[np.ndarray] = []  # iterations that the last piece of an axis has
        rows = np.arange(high - low).reshape(-1, *[1] * (self.rank - 1))
        if kernel.grid is not None:
            self._open_grid(kernel, rows + low)
        given = iter(buffers)
        self.buffers: list[tuple[np.ndarray, Any]] = []
        self.around: dict[int, Affine] = {}  # loops whose iterations each have their own row
        for i, b in enumerate(kernel.buffers):
            if b.role == "row":
                self.around[i], size = _rows(kernel, i)
                self.buffers.append((np.zeros(size * (high - low), b.dtype), rows * size))
            else:
                self.buffers.append((next(given), 0))

    def _open_grid(self, kernel: Kernel, numbers: np.ndarray) -> None:
        assert kernel.grid is not None
        if not kernel.axes:
            self.axes[kernel.grid[0]] = numbers
            return
        rest = numbers
        for axis, extent in reversed(kernel.axes):
            rest, self.axes[axis] = np.divmod(rest, extent)

    def body(self, body: list[Any], depth: int, carried: frozenset[int]) -> list[Reduce]:
        """Run statements; gives the reductions that the loop around them has to complete."""
        pending = []
        for kind, group in groupby(body, lambda s: type(s) if type(s) in _ALONE else None):
            if kind is None:
                pending += self.block(list(group))
                continue
            for s in group:
                if kind is Loop:
                    pending += self.loop(s, depth + 1, carried)
                elif kind is Serial:
                    self.serial(s, depth)
        if depth == 0:
            for s in pending:
                self.complete(s)
        return pending

    def loop(self, s: Loop, depth: int, carried: frozenset[int]) -> list[Reduce]:
        """Run a loop; gives the reductions that go on in the loop around it."""
        shape = [1] * self.rank
        shape[depth] = self.extents[depth] = s.extent
        self.axes[s.axis] = np.arange(s.extent).reshape(shape)
        masks = self.masks
        if s.whole is not None:
            piece, total = s.whole
            inside = self.axes[piece] * s.extent + self.axes[s.axis] < total
            self.masks = [*masks, inside]
        outer = []
        for r in self.body(s.body, depth, carried | set(s.carries)):
            value = self.found[r.symbol]
            if s.extent:
                value = _COMBINE[r.op].reduce(value, axis=depth, keepdims=True, dtype=r.dtype)
            else:
                value = np.full([*value.shape[:depth], 1, *value.shape[depth + 1 :]], _unit(r))
            self.found[r.symbol] = value
            if r.symbol in carried:
                outer.append(r)
            else:
                self.complete(r)
        self.extents[depth] = 1
        self.masks = masks
        del self.axes[s.axis]
        return outer

    def serial(self, s: Serial, depth: int) -> None:
        """Run a serial loop: iterations that are done keep what they carry."""
        symbols, masks = [c.symbol for c in s.carried], self.masks
        begun = evaluate([c.initial for c in s.carried], self.load)
        self.found.update(zip(symbols, begun, strict=True))
        for turn in count() if s.axis is None else range(s.extent):
            if s.axis is not None:
                self.axes[s.axis] = np.asarray(turn)
            else:
                assert s.condition is not None
                going = np.broadcast_to(evaluate([s.condition], self.load)[0], self.extents)
                for mask in masks:
                    going = going & mask
                if not going.any():
                    break
                self.masks = [*masks, going]
            self.body(s.body, depth, frozenset())
            after = evaluate([c.after for c in s.carried], self.load)
            for c, value in zip(s.carried, after, strict=True):
                if s.axis is None:
                    value = np.where(going, value, self.found[c.symbol]).astype(c.after.dtype)
                self.found[c.symbol] = value
        self.masks = masks
        self.axes.pop(s.axis, None)  # type: ignore[arg-type]

    def complete(self, r: Reduce) -> None:
        initial = np.asarray(r.initial, r.dtype)
        self.found[r.symbol] = _COMBINE[r.op](initial, self.found[r.symbol])

    def place(self, buffer: int, at: Affine, offset: Any = 0) -> np.ndarray:
        """Where elements are in a buffer, all iterations at once."""
        index = self.buffers[buffer][1] + at.const + offset
        outer = self.around[buffer].terms if buffer in self.around else ()
        for axis, factor in (*at.terms, *outer):
            index = index + self.axes[axis] * factor
        if self.masks:
            index = np.clip(index, 0, len(self.buffers[buffer][0]) - 1)
        return np.asarray(index)

    def block(self, statements: list[Any]) -> list[Reduce]:
        """Run stores and reductions in a row: all is read before anything is written, as results
        may have the memory of operands. Gives the reductions."""
        values = iter(evaluate([v for s in statements for v in s.operands], self.load))
        reductions = []
        inside = None
        if self.masks:
            all_masks = np.logical_and.reduce(np.broadcast_arrays(*self.masks))
            inside = np.broadcast_to(all_masks, self.extents)
        for s in statements:
            value = np.asarray(next(values))
            if isinstance(s, Reduce):
                value = np.broadcast_to(value, self.extents)
                if inside is not None:
                    value = np.where(inside, value, _unit(s)).astype(s.dtype)
                self.found[s.symbol] = value
                reductions.append(s)
                continue
            index = self.place(s.buffer, s.at, 0 if s.offset is None else next(values))
            wanted = next(values) if isinstance(s, Atomic) and s.mask is not None else None
            if not prod(self.extents):
                continue
            index, target = np.broadcast_to(index, self.extents), self.buffers[s.buffer][0]
            if isinstance(s, Store) and s.marks is not None:
                holds = np.broadcast_to(value, self.extents)
                target[index[holds if inside is None else holds & inside]] = s.marks
                continue
            if isinstance(s, Atomic):
                self.combine(s, target, index, value, inside, wanted)
                continue
            if inside is None:
                target[index] = value
            else:
                target[index[inside]] = np.broadcast_to(value, self.extents)[inside]
        return reductions

    def combine(
        self, s: Atomic, target: Any, index: Any, value: Any, inside: Any, wanted: Any
    ) -> None:
        """Elements combined with values one after the other, in order."""
        value, mask = np.broadcast_to(value, self.extents), inside
        if wanted is not None:
            mask = wanted if mask is None else mask & wanted
        if mask is not None:
            mask = np.broadcast_to(mask, self.extents)
            index, value = index[mask], value[mask]
        _COMBINE[s.op].at(target, index, value)

    def load(self, attr: Any, *offset: np.ndarray) -> np.ndarray:
        """A leaf of a value: the number of an axis, a complete reduction, or memory; or what
        neighbours have."""
        if type(attr) is Across:
            return self.across(attr.op, *offset)
        if isinstance(attr, str):
            return self.axes[attr]
        if isinstance(attr, int):
            return self.found[attr]
        return self.buffers[attr[0]][0][self.place(attr[0], attr[1], *offset)]

    def across(self, op: str, x: np.ndarray, which: Any = None) -> np.ndarray:
        """Values of neighbouring iterations of the grid combined, by pairs, pairs of these, ...; or
        that of the one with a number."""
        x = np.broadcast_to(x, self.extents)
        rows, distance = np.arange(len(x)), 1
        if op == "get":
            first = (rows // NEIGHBOURS * NEIGHBOURS).reshape(-1, *[1] * (x.ndim - 1))
            return np.take_along_axis(x, np.broadcast_to(first + which, x.shape), 0)
        while distance < NEIGHBOURS:
            x = _COMBINE[op](x, x[rows ^ distance])
            distance *= 2
        return x


# Statements that are not run together with those beside them.
_ALONE = frozenset([Loop, Serial, Barrier])


def _unit(r: Reduce) -> Any:
    """What combines with anything to that."""
    if r.op in ("add", "or", "xor"):
        return np.zeros((), r.dtype)
    if r.op == "mul":
        return np.ones((), r.dtype)
    if r.op == "and":
        return ~np.zeros((), r.dtype)
    return np.asarray(r.initial, r.dtype)
