"""Reductions shared by threads: pieces of fixed size first, then their partial results.

The pieces depend on the kernel alone, so results are the same bits for any number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.base.record import Record
from weft.base.sizes import Size, at_most, plain
from weft.compiler.passes.rewrite import Nest, Rewrite, loads, peel, position, roots
from weft.kernel.build import Builder
from weft.kernel.kernel import (
    Affine,
    Buffer,
    Kernel,
    Loop,
    Reduce,
    Store,
    affine,
    in_loops,
    statements,
)
from weft.kernel.nodes import Value, walk

# Elements of a piece: some microseconds of work.
CHUNK_ELEMENTS = 1 << 14
# Products pass through tiny numbers, which take long, on their way to zero: fewer, longer pieces.
_PRODUCT = 1 << 17
# A few comparisons that are joined to one boolean take a part of a sum's time.
_BOOLEAN, _MAX_COMPARISON_VALUES = 1 << 16, 16
# Rows from which a kernel over rows has enough of them to share.
_ROWS = 64
# Pieces of all rows together: more would only add partial results.
_MAX_CHUNKS = 256
# Columns that are summed side by side: their accumulators stay in the first cache.
_COLUMNS = 2048
# Columns fewer than this are summed several rows at a time.
_MIN_COLUMNS = 256

# Elements of rows that run side by side, and how many rows do. Somewhat longer rows do so too,
# unless they are whole vectors: what is left of a row would be computed element by element.
_MAX_SHORT_ROW, _MAX_RAGGED_ROW, _WHOLE_VECTORS, _ROWS_AT_ONCE = 9, 31, 16, 64
# Elements of a kernel up to which one that is in named sizes does not depend on them.
_SMALL_ELEMENTS = 1 << 13


class Part(Record):
    """A kernel of several that do the work of one.

    ``buffers`` says what its buffers are: numbers of the buffers of the one, then of its scratch
    memory.
    """

    kernel: Kernel
    buffers: list[int]


class Parts(Record):
    """Kernels to be run in order, and the memory they share."""

    parts: list[Part]
    scratch: list[Buffer]


def split(kernel: Kernel) -> Parts:
    """The kernel as one or several whose iterations are enough to be shared."""
    nest = orient(peel(kernel))
    outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
    if any(isinstance(s, Reduce) for s in statements(nest.body)):
        if nest.lanes:
            found = _columns(kernel, nest)
        elif _narrow(kernel, nest):
            return Parts([Part(_side_by_side(kernel, nest), outside)], [])
        else:
            found = _rows(kernel, nest)
        if found is not None:
            return found
    return Parts([Part(_kernel(kernel, nest), outside)], [])


def _kernel(kernel: Kernel, nest: Nest) -> Kernel:
    body = nest.body
    for i, (axis, extent) in reversed(list(enumerate(nest.axes))):
        last = i == len(nest.axes) - 1
        body = [Loop(axis, extent, body, (), last and nest.lanes)]
    return kernel._replace(grid=None, body=body)


def _narrow(kernel: Kernel, nest: Nest) -> bool:
    """Whether many rows are each so short that vectors are better filled by several."""
    elements = sum(b.size for b in kernel.buffers)
    if not nest.axes or (type(elements) is Size and plain(elements) <= _SMALL_ELEMENTS):
        return False
    passes = [s for s in nest.body if isinstance(s, Loop)]
    if not all(_is_short([n for _, n in _nest_axes(s)]) for s in passes):
        return False
    return nest.axes[-1][1] >= _ROWS_AT_ONCE // 2


def _is_short(extents: list[Any]) -> bool:
    """Whether a row, by the extents of its axes, is better computed next to others."""
    count = prod(extents)
    if count > _MAX_RAGGED_ROW:
        return False
    return count <= _MAX_SHORT_ROW or extents[-1] % _WHOLE_VECTORS != 0


def _side_by_side(kernel: Kernel, nest: Nest) -> Kernel:
    """A kernel whose rows run side by side, each with row buffers of its own."""
    *outer, (axis, extent) = nest.axes
    size = at_most(extent, _ROWS_AT_ONCE)

    def buffers(i: int) -> tuple[int, Affine]:
        return i, affine(0, {axis: 1}) if kernel.buffers[i].role == "row" else Affine()

    rewrite = _Widened(kernel, size, Builder(), {axis: affine(0, {"rows": size, axis: 1})}, buffers)
    body: list[Any] = [Loop(axis, size, rewrite.body(nest.body), (), True, ("rows", extent))]
    body = in_loops([*outer, ("rows", -(-extent // size))], body)
    own = [b._replace(size=b.size * size) if b.role == "row" else b for b in kernel.buffers]
    return kernel._replace(buffers=own, grid=None, body=body)


class _Widened(Rewrite):
    """Row buffers that hold several rows, neighbours of one column next to each other."""

    def __init__(self, kernel: Kernel, size: int, *rest: Any) -> None:
        super().__init__(*rest)
        self.kernel = kernel
        self.size = size

    def place(self, buffer: int, index: Affine) -> tuple[int, Affine]:
        if self.kernel.buffers[buffer].role == "row":
            index = index.scaled(self.size, 0)
            return buffer, index.plus(self.buffers(buffer)[1])
        return super().place(buffer, index)


def orient(nest: Nest) -> Nest:
    """One reduction of each row or of each column: whichever follows itself in memory."""
    if not nest.axes or not nest.body or not isinstance(nest.body[0], Loop):
        return nest
    if not nest.body[0].carries or any(isinstance(s, Loop) for s in nest.body[1:]):
        return nest
    if any(b.op == "load" and b.args for b in loads(nest.body[:1])):
        return nest
    inner = _innermost(nest.body[0])
    parallel = nest.axes[-1][0]
    # what is the same for all rows is read as well either way
    indices = [v.attr[1] for v in loads(nest.body[:1]) if v.attr[1].coefficient(parallel)]
    along = sum(abs(i.coefficient(inner.axis)) == 1 for i in indices)
    across = sum(i.coefficient(parallel) == 1 for i in indices)
    if nest.lanes and along and not across:
        return nest._replace(lanes=False)
    if not nest.lanes and across and not along and len(inner.body) == len(inner.carries):
        return nest._replace(lanes=True)
    return nest


def _innermost(s: Loop) -> Loop:
    while isinstance(s.body[0], Loop):
        s = s.body[0]
    return s


def _nest_axes(s: Any) -> list[tuple[str, int]]:
    """The axes of loops that lie directly in each other."""
    axes = []
    while isinstance(s, Loop):
        axes.append((s.axis, s.extent))
        s = s.body[0] if len(s.body) == 1 else None
    return axes


class _Memory:
    """Buffers of a kernel that is split: its own, and scratch memory behind them."""

    def __init__(self, kernel: Kernel) -> None:
        self.own = [b for b in kernel.buffers if b.role != "row"]
        self.scratch: list[Buffer] = []

    def add(self, dtype: Any, size: int) -> int:
        self.scratch.append(Buffer(dtype, size, "scratch"))
        return len(self.own) + len(self.scratch) - 1

    def part(
        self, name: str, axes: list[tuple[str, int]], body: list[Any], kept: list[Buffer]
    ) -> Part:
        """A kernel over axes; numbers of buffers beyond all memory are those of ``kept``."""
        everything = [*self.own, *self.scratch]
        written = {s.buffer for s in statements(body) if isinstance(s, Store)}
        touched = written | {v.attr[0] for v in loads(body)}
        used = [i for i in range(len(everything)) if i in touched]
        rows = [i for i in range(len(kept)) if FIRST_ROW + i in touched]
        places = {i: n for n, i in enumerate([*used, *(FIRST_ROW + i for i in rows)])}
        rewrite = Rewrite(Builder(), {}, lambda i: (places[i], Affine()))
        body = rewrite.body(body)
        buffers = [everything[i]._replace(role="out" if i in written else "in") for i in used]
        buffers += [kept[i] for i in rows]
        return Part(Kernel(name, buffers, None, in_loops(axes, body)), used)


FIRST_ROW = 1 << 20  # numbers of row buffers while a kernel is taken apart


# --- rows -----------------------------------------------------------------------------------------


def _rows(kernel: Kernel, nest: Nest) -> Parts | None:
    """Few long rows: pieces of each row, pass by pass."""
    rows = prod(extent for _, extent in nest.axes)
    passes = [s for s in nest.body if isinstance(s, Loop)]
    scalars = [s for s in nest.body if not isinstance(s, Loop)]
    if any(isinstance(s, Reduce) for s in scalars) or nest.body[: len(passes)] != passes:
        return None
    columns = _nest_axes(passes[0])
    length = prod(extent for _, extent in columns)
    ops = {s.op for s in statements(passes) if isinstance(s, Reduce)}
    piece = _PRODUCT if "mul" in ops else CHUNK_ELEMENTS
    if ops <= {"or", "and"} and len(walk(roots(list(passes)))) <= _MAX_COMPARISON_VALUES:
        piece = _BOOLEAN
    least = piece if piece == _BOOLEAN else CHUNK_ELEMENTS
    if length < 2 * least or rows >= _ROWS or rows == 0:
        return None
    axis, extent = max(columns, key=lambda c: c[1])
    if any((axis, extent) not in _nest_axes(s) for s in passes):
        return None
    pieces = -(-length // piece)
    pieces = min(max(2, pieces), max(2, _MAX_CHUNKS // rows), extent)
    size = -(-extent // pieces)
    size = -(-size // 64) * 64 if size > 64 else size
    if size >= extent:
        return None
    return _RowPieces(kernel, nest, passes, scalars, axis, extent, size).run()


class _RowPieces:
    """The kernels of a few long rows."""

    def __init__(
        self,
        kernel: Kernel,
        nest: Nest,
        passes: list[Loop],
        scalars: list[Store],
        axis: str,
        extent: int,
        size: int,
    ) -> None:
        self.kernel = kernel
        self.nest = nest
        self.passes = passes
        self.scalars = scalars
        self.axis, self.extent, self.size = axis, extent, size
        self.count = -(-extent // size)
        self.memory = _Memory(kernel)
        self.rows = prod(n for _, n in nest.axes)
        self.row = position(nest.axes)
        self.final: dict[int, int] = {}  # where results of reductions lie
        self.kept: dict[int, int] = {}
        for i, b in enumerate(kernel.buffers):
            if b.role == "row":
                self.kept[i] = self.memory.add(b.dtype, b.size * self.rows)

    def rewrite(self, split: bool, own: set[int]) -> Rewrite:
        k = Builder()

        def buffers(i: int) -> tuple[int, Affine]:
            if i in self.kept:
                return self.kept[i], self.row.scaled(self.kernel.buffers[i].size, 0)
            return i, Affine()

        def instead(v: Value) -> Value | None:
            if v.op == "acc" and v.attr not in own:
                return k.load(self.final[v.attr], v.dtype, self.row)
            return None

        axes = {self.axis: affine(0, {"piece": self.size, self.axis: 1})} if split else {}
        return Rewrite(k, axes, buffers, instead)

    def shortened(self, s: Any) -> Any:
        if not isinstance(s, Loop):
            return s
        if s.axis == self.axis:
            return s._replace(extent=self.size, whole=("piece", self.extent))
        return s._replace(body=[self.shortened(x) for x in s.body])

    def run(self) -> Parts:
        parts = []
        last = max(i for i, s in enumerate(self.passes) if s.carries)
        grid = [*self.nest.axes, ("piece", self.count)]
        for i, s in enumerate(self.passes):
            name = f"{self.kernel.name}_{i}"
            reduces = [r for r in statements([s]) if isinstance(r, Reduce)]
            partial = {r.symbol: self.memory.add(r.dtype, self.rows * self.count) for r in reduces}
            rewrite = self.rewrite(True, set(partial))
            body = [rewrite.statement(self.shortened(s))]
            at = position(grid)
            body += [
                Store(partial[r.symbol], at, rewrite.k.make("acc", (), r.dtype, r.symbol))
                for r in reduces
            ]
            parts.append(self.memory.part(name, grid, body, []))
            if reduces:
                scalars = self.scalars if i == last else []
                parts.append(self.combined(f"{name}c", reduces, partial, scalars, i == last))
        return Parts(parts, self.memory.scratch)

    def combined(
        self,
        name: str,
        reduces: list[Reduce],
        partial: dict[int, int],
        scalars: list[Store],
        last: bool,
    ) -> Part:
        """The partial results of each row made one, and what else is computed once a row."""
        rewrite = self.rewrite(False, set(partial))
        at = position([*self.nest.axes, ("piece", self.count)])
        sums = [r._replace(value=rewrite.k.load(partial[r.symbol], r.dtype, at)) for r in reduces]
        symbols = tuple(r.symbol for r in reduces)
        body: list[Any] = [Loop("piece", self.count, sums, symbols)]
        if self._needed(symbols) or not last:
            for r in reduces:
                self.final[r.symbol] = self.memory.add(r.dtype, self.rows)
                result = rewrite.k.make("acc", (), r.dtype, r.symbol)
                body.append(Store(self.final[r.symbol], self.row, result))
        body += [rewrite.statement(s) for s in scalars]
        return self.memory.part(name, self.nest.axes, body, [])

    def _needed(self, symbols: tuple[int, ...]) -> bool:
        """Whether a pass reads the results of reductions."""
        values = walk(roots(list(self.passes)))
        return any(v.op == "acc" and v.attr in symbols for v in values)


# --- columns --------------------------------------------------------------------------------------


def _columns(kernel: Kernel, nest: Nest) -> Parts | None:
    """Sums over rows of neighbouring columns: whole rows added to a row of accumulators."""
    width = nest.axes[-1][1]
    reduction, stores = nest.body[0], nest.body[1:]
    if any(b.role == "row" for b in kernel.buffers) or not isinstance(reduction, Loop):
        return None
    if not all(isinstance(s, Store) for s in stores):
        return None
    axes = _nest_axes(reduction)
    inner = _innermost(reduction)
    if not all(isinstance(s, Reduce) for s in inner.body):
        return None
    if prod(n for _, n in axes) * width < 2 * CHUNK_ELEMENTS or width < 2:
        return None
    return _ColumnPieces(kernel, nest, axes, inner.body, stores).run()


class _ColumnPieces:
    """The kernels of reductions of columns."""

    def __init__(
        self,
        kernel: Kernel,
        nest: Nest,
        axes: list[tuple[str, int]],
        reduces: list[Reduce],
        stores: list[Store],
    ) -> None:
        self.kernel = kernel
        self.outer = nest.axes[:-1]
        self.column, self.width = nest.axes[-1]
        (self.axis, self.extent), self.inner = axes[0], axes[1:]
        self.reduces = reduces
        self.stores = stores
        self.memory = _Memory(kernel)
        # several rows side by side where columns are few
        self.several, most = 1, _COLUMNS
        if self.width < _MIN_COLUMNS:
            self.several = int(min(self.extent, -(-_MIN_COLUMNS // self.width)))
            most = _MIN_COLUMNS
        self.groups, self.rest = divmod(self.extent, self.several)
        self.may_rest = type(self.rest) is Size or self.rest > 0
        self.tile = at_most(self.width, most)
        self.tiles = -(-self.width // self.tile)
        self.size, self.count = self._pieces()

    def _pieces(self) -> tuple[int, int]:
        """Groups of rows in a piece, and pieces."""
        row = self.several * min(self.width, _COLUMNS) * prod(n for _, n in self.inner)
        others = prod(n for _, n in self.outer) * self.tiles
        size = max(-(-2 * CHUNK_ELEMENTS // row), -(-32 // self.several))
        size = max(size, -(-self.groups * others // _MAX_CHUNKS))
        if others >= _ROWS or size >= self.groups:
            return self.groups, 1
        return size, -(-self.groups // size)

    def run(self) -> Parts:
        direct = self.count == 1 and self.several == 1 and not self.may_rest
        grid = [*self.outer, ("piece", self.count), ("tile", self.tiles)]
        cells = self.several * self.tile
        kept = [Buffer(r.dtype, cells, "row") for r in self.reduces]
        k = Builder()
        axes = {
            self.axis: affine(
                0, {"piece": self.size * self.several, "group": self.several, "side": 1}
            ),
            self.column: affine(0, {"tile": self.tile, self.column: 1}),
        }
        rewrite = Rewrite(k, axes)
        at = affine(0, {"side": self.tile, self.column: 1})
        clear = [
            Store(FIRST_ROW + i, at, k.const(r.initial, r.dtype))
            for i, r in enumerate(self.reduces)
        ]
        held = [k.load(FIRST_ROW + i, r.dtype, at) for i, r in enumerate(self.reduces)]
        add = [
            Store(FIRST_ROW + i, at, k.make(r.op, (held[i], rewrite.value(r.value)), r.dtype))
            for i, r in enumerate(self.reduces)
        ]
        rows = in_loops(self.inner, self.cells(add))
        body = self.cells(clear)
        body.append(Loop("group", self.size, rows, whole=("piece", self.groups)))
        if direct:
            known = {r.symbol: held[i] for i, r in enumerate(self.reduces)}
            final = Rewrite(k, axes, instead=lambda v: known[v.attr] if v.op == "acc" else None)
            body += self.cells(final.body(list(self.stores)))
            return Parts([self.memory.part(self.kernel.name, grid, body, kept)], [])
        places = [*self.outer, ("piece", self.count), ("side", self.several)]
        whole = position([*places, (self.column, self.width)])
        partial = [
            self.memory.add(r.dtype, prod(n for _, n in places) * self.width) for r in self.reduces
        ]
        tiled = whole.plus(affine(0, {"tile": self.tile}))
        body += self.cells([Store(p, tiled, held[i]) for i, p in enumerate(partial)])
        parts = [self.memory.part(f"{self.kernel.name}_0", grid, body, kept)]
        parts.append(self.combined(partial, whole))
        return Parts(parts, self.memory.scratch)

    def cells(self, body: list[Any]) -> list[Any]:
        """Statements for each accumulator."""
        inner = Loop(self.column, self.tile, body, whole=("tile", self.width))
        if type(self.tiles) is not Size and self.tiles == 1:
            inner = inner._replace(whole=None)
        return [Loop("side", self.several, [inner])]

    def combined(self, partial: list[int], at: Affine) -> Part:
        """Partial results of each column made one, and rows that fill no group."""
        k = Builder()
        after = {r.symbol: len(self.reduces) + i for i, r in enumerate(self.reduces)}
        renumbered = {r.symbol: i for i, r in enumerate(self.reduces)}
        sums = [
            Reduce(i, r.op, k.load(partial[i], r.dtype, at), r.dtype, r.initial)
            for i, r in enumerate(self.reduces)
        ]
        symbols = tuple(range(len(self.reduces)))
        sides = Loop("side", self.several, sums, symbols)
        body: list[Any] = [Loop("piece", self.count, [sides], symbols)]
        start = self.groups * self.several
        if self.may_rest:
            rewrite = Rewrite(k, {self.axis: affine(start, {self.axis: 1})})
            more: list[Any] = [
                Reduce(after[r.symbol], r.op, rewrite.value(r.value), r.dtype, r.initial)
                for r in self.reduces
            ]
            axes = [(self.axis, self.rest), *self.inner]
            body += in_loops(axes, more, tuple(after.values()))
        dtypes = {r.symbol: (r.op, r.dtype) for r in self.reduces}

        def result(v: Value) -> Value | None:
            if v.op != "acc":
                return None
            op, dtype = dtypes[v.attr]
            first = k.make("acc", (), dtype, renumbered[v.attr])
            if not self.may_rest:
                return first
            return k.make(op, (first, k.make("acc", (), dtype, after[v.attr])), dtype)

        body += Rewrite(k, {}, instead=result).body(list(self.stores))
        body = [Loop(self.column, self.width, body, (), True)]
        return self.memory.part(f"{self.kernel.name}_1", list(self.outer), body, [])
