"""Few long rows in stages: loops of a row that need what others reduce become kernels of their own.

A block for each row leaves most processors idle where rows are few. Each loop of such a kernel is
one that all processors share; what loops reduce, and rows that they keep, are passed on in memory.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.base.record import Record
from weft.compiler import rows
from weft.compiler.passes.rewrite import Rewrite, position
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, Loop, Reduce, Store, affine, statements
from weft.kernel.nodes import Value, walk

# Bytes that one block, and all of them, read and write in a microsecond, and microseconds of a
# launch of a small kernel among others.
BLOCK_BYTES, ALL_BYTES, LAUNCH = 6e4, 3e6, 2.5
# Rows up to which this is looked into.
MAX_ROWS = 128
# Operations of an element from which a later loop reads it: to write and read it takes as long;
# and of all elements: as many take as long as the launch that writes them.
MIN_KEPT_OPS, MIN_KEPT_WORK = 96, 1 << 26


class Stages(Record):
    """Kernels in their order, with buffers of the whole and then memory between them."""

    kernels: list[Kernel]
    scratch: list[Buffer]


def stages(kernel: Kernel) -> Stages | None:
    """A kernel of few rows as kernels for all processors, where that takes less time."""
    count = 1 if kernel.grid is None else kernel.grid[1]
    if count > MAX_ROWS or not _fits(kernel) or not _is_slow(kernel, count):
        return None
    return _Writer(_keeping(kernel, count), count, kernel.buffers).written()


def with_copies(kernel: Kernel, loads: list[Value], extents: dict[str, int]) -> Stages:
    """A kernel that reads copies of some operands, in which what neighbouring threads read lies
    side by side; ``extents`` are those of the axes of its grid and its loops."""
    given = [b if b.role == "row" else b._replace(role="in") for b in kernel.buffers]
    kernels: list[Kernel] = []
    scratch: list[Buffer] = []
    place: dict[Any, tuple[int, Affine]] = {}
    last = kernel.grid_axes[-1][0]
    for v in loads:
        own = {axis for axis, _ in v.attr[1].terms}
        made = [(axis, n) for axis, n in extents.items() if axis in own and axis != last]
        made.append((last, extents[last]))
        at = position(made)
        number, size = len(given) + len(scratch), prod(n for _, n in made)
        load = Builder().make("load", (), v.dtype, v.attr)
        kernels.append(
            kernel._replace(grid=("grid", size), axes=tuple(made), body=[Store(number, at, load)])
        )
        scratch.append(Buffer(v.dtype, size, "out"))
        place[v.attr] = number, at
    k = Builder()

    def instead(v: Any) -> Any:
        if v.op == "load" and v.attr in place:
            return k.make("load", (), v.dtype, place[v.attr])
        return None

    kernels = [x._replace(buffers=[*given, *scratch]) for x in kernels]
    known = [b._replace(role="in") for b in scratch]
    body = Rewrite(k, {}, instead=instead).body(kernel.body)
    whole = kernel._replace(buffers=[*kernel.buffers, *known], body=body)
    return Stages([*kernels, whole], scratch)


def _keeping(kernel: Kernel, count: int) -> Kernel:
    """A kernel whose loops read what is much work and another loop has computed."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    if len({(s.axis, s.extent) for s in loops}) > 1:
        return kernel
    if any(isinstance(s, Loop) for loop in loops for s in loop.body):
        return kernel
    k = Builder()
    body = Rewrite(k, {}).body(kernel.body)
    passes = [s.body for s in body if isinstance(s, Loop)]
    at, size, place = affine(0, {loops[0].axis: 1}), loops[0].extent, len(kernel.buffers)
    found, work = _dear(passes)
    if not found or count * size * work < MIN_KEPT_WORK:
        return kernel
    limit = size * sum(v.dtype.itemsize for v in found.values())
    passes, kept = rows.keep(k, passes, found, at, size, place, limit)
    left = iter(passes)
    body = [s._replace(body=next(left)) if isinstance(s, Loop) else s for s in body]
    return kernel._replace(body=body, buffers=[*kernel.buffers, *kept])


def _dear(passes: list[list[Any]]) -> tuple[dict[int, Value], int]:
    """Values that take many operations and that a later pass needs again, by number, and their
    operations."""
    met: set[int] = set()
    again: dict[int, Value] = {}
    for inner in passes:
        waiting, seen = [v for s in inner for v in s.operands], dict[int, Value]()
        while waiting:
            v = waiting.pop()
            if v.number in seen:
                continue
            seen[v.number] = v
            if v.number in met:
                again[v.number] = v
            else:
                waiting += v.args
        met.update(v.number for v in walk(seen.values()))
    found: dict[int, Value] = {}
    work = 0
    for number in sorted(again):  # operands come first
        own = _operations(again[number], found)
        if own >= MIN_KEPT_OPS:
            found[number] = again[number]
            work += own
    return found, work


def _operations(root: Value, known: dict[int, Value]) -> int:
    """The operations of a value, without those of values that are known."""
    waiting, seen = [root], set[int]()
    while waiting:
        v = waiting.pop()
        if v.number not in seen and v.number not in known and v.op not in _LEAVES:
            seen.add(v.number)
            waiting += v.args
    return len(seen)


# Values that are there without an operation.
_LEAVES = frozenset(["acc", "const", "index", "load", "size"])


def _fits(kernel: Kernel) -> bool:
    """Whether a kernel is several plain loops, of which some need what others give."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    if kernel.serial or len(loops) < 2:
        return False
    for s in kernel.body:
        if isinstance(s, Loop):
            if s.whole is not None or not _is_plain(s):
                return False
        elif not isinstance(s, Store):
            return False
    inside = [s for s in statements(kernel.body) if not isinstance(s, Loop)]
    if any(isinstance(s, Store) and s.offset is not None for s in inside):
        return False
    written = {s.buffer for s in inside if isinstance(s, Store)}
    values = walk([v for s in inside for v in s.operands])
    read = {v.attr[0] for v in values if v.op == "load"}
    if any(kernel.buffers[i].role != "row" for i in written & read):
        return False
    return any(v.op == "acc" for s in loops for v in walk(_values(s)))


def _values(loop: Loop) -> list[Any]:
    return [v for s in statements([loop]) if not isinstance(s, Loop) for v in s.operands]


def _is_plain(loop: Loop) -> bool:
    """Whether loops are nested one directly in the other, and carry what they reduce."""
    symbols = {s.symbol for s in statements([loop]) if isinstance(s, Reduce)}
    while any(isinstance(s, Loop) for s in loop.body):
        if len(loop.body) > 1 or not symbols <= set(loop.carries):
            return False
        (loop,) = loop.body
    own = {v.attr for v in walk(_values(loop)) if v.op == "acc"}
    return own.isdisjoint(symbols)


def _length(loop: Loop) -> int:
    inner = [s for s in loop.body if isinstance(s, Loop)]
    return loop.extent * (_length(inner[0]) if inner else 1)


def _is_slow(kernel: Kernel, rows: int) -> bool:
    """Whether a block a row takes longer than all of them one loop after the other."""
    moved = [_length(s) * _width(s) for s in kernel.body if isinstance(s, Loop)]
    launches = 2 * len(moved) + 1
    return sum(moved) / BLOCK_BYTES > LAUNCH * launches + rows * sum(moved) / ALL_BYTES


def _width(loop: Loop) -> int:
    """Bytes that an iteration reads and writes."""
    found = sum(v.dtype.itemsize for v in walk(_values(loop)) if v.op == "load")
    stored = (s.value.dtype.itemsize for s in statements([loop]) if isinstance(s, Store))
    return max(1, found + sum(stored))


class _Writer:
    """The stages of a kernel while they are written."""

    def __init__(self, kernel: Kernel, rows: int, given: list[Buffer]) -> None:
        """``given`` are the buffers of the whole; more of the kernel's are rows that it keeps."""
        self.kernel, self.given = kernel, given
        self.axes = list(kernel.axes) or ([kernel.grid] if kernel.grid is not None else [])
        self.place = position(self.axes)
        self.first = len(given)
        self.scratch: list[Buffer] = []
        self.kept: dict[int, int] = {}  # rows, by number: memory that holds all of them
        self.sums: dict[int, tuple[int, Any]] = {}  # reductions, by symbol: memory, and dtype
        for i, b in enumerate(kernel.buffers):
            if b.role == "row":
                self.kept[i] = self._room(b.dtype, rows * b.size)
        for s in statements(kernel.body):
            if isinstance(s, Reduce):
                self.sums[s.symbol] = self._room(s.dtype, rows), s.dtype
        self.found: list[list[Any]] = []

    def _room(self, dtype: Any, size: int) -> int:
        self.scratch.append(Buffer(dtype, size, "out"))
        return self.first + len(self.scratch) - 1

    def written(self) -> Stages:
        rest = [s for s in self.kernel.body if not isinstance(s, Loop)]
        for s in self.kernel.body:
            if isinstance(s, Loop):
                self._loop(s)
        if rest:
            self.found.append(self._renamed(rest))
        return Stages([self._kernel(body) for body in self.found], self.scratch)

    def _loop(self, loop: Loop) -> None:
        """A loop as one that stores, and one that reduces and says what it has."""
        stored: dict[int, Store] = {}  # what the loop keeps, which its reductions read
        for kind in (Store, Reduce):
            own = _only(loop, kind)
            if own is None:
                continue
            body = self._renamed([own], stored)
            stored = {s.value.number: s for s in statements([own]) if self._keeps(s)}
            for r in [s for s in statements([own]) if isinstance(s, Reduce)]:
                value = Builder().make("acc", (), r.dtype, r.symbol)
                body.append(Store(self.sums[r.symbol][0], self.place, value))
            self.found.append(body)

    def _keeps(self, s: Any) -> bool:
        return isinstance(s, Store) and s.buffer in self.kept and s.value.op not in _LEAVES

    def _renamed(self, body: list[Any], stored: dict[int, Store] | None = None) -> list[Any]:
        """Statements that read from memory what others reduce and keep."""
        own = {s.symbol for s in statements(body) if isinstance(s, Reduce)}
        k = Builder()

        def buffer(i: int) -> tuple[int, Affine]:
            if i not in self.kept:
                return i, Affine()
            return self.kept[i], self.place.scaled(self.kernel.buffers[i].size, 0)

        def instead(v: Any) -> Any:
            if stored and v.number in stored:
                number, more = buffer(stored[v.number].buffer)
                return k.make("load", (), v.dtype, (number, more.plus(stored[v.number].at)))
            if v.op != "acc" or v.attr in own:
                return None
            return k.make("load", (), v.dtype, (self.sums[v.attr][0], self.place))

        return Rewrite(k, {}, buffer, instead).body(body)

    def _kernel(self, body: list[Any]) -> Kernel:
        """A kernel of statements: what it doesn't write, it only reads, and it has no rows."""
        written = {s.buffer for s in statements(body) if isinstance(s, Store)}
        every = [*self.given, *self.scratch]
        buffers = [
            b._replace(size=0) if b.role == "row" else
            b._replace(role="out" if i in written else "in")
            for i, b in enumerate(every)
        ]  # fmt: skip
        return self.kernel._replace(buffers=buffers, body=body)


def _only(loop: Loop, kind: Any) -> Loop | None:
    """A loop without statements of other kinds; None where nothing is left of it."""
    body: list[Any] = []
    for s in loop.body:
        if isinstance(s, Loop):
            inner = _only(s, kind)
            body += [] if inner is None else [inner]
        elif isinstance(s, kind):
            body.append(s)
    if not body:
        return None
    return loop._replace(body=body, carries=loop.carries if kind is Reduce else ())
