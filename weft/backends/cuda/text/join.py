"""The code of small kernels that are one launch, which takes longer than they do.

Kernels that need nothing of each other have ranges of its blocks. Those of a single row, or of few
elements, which give the next one what it needs, are done by every block of that first: all of them
write the same. What they make all of stays in shared memory, of which the first block gives a copy
to others; the next one may be a routine, which reads other memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from operator import eq
from typing import Any

from weft.backends.cuda.chain import Chain
from weft.backends.cuda.groups import (
    MIN_LONG_SUMS,
    MIN_LONG_VALUES,
    MIN_SHARING,
    Access,
    Joined,
    Piece,
    Stub,
    code_of,
)
from weft.backends.cuda.loops import Grid
from weft.backends.cuda.ptx import (
    MOST_EARLY_BLOCKS,
    WAIT,
    GpuModule,
    is_little,
    quickly,
    shared_address,
)
from weft.backends.cuda.schedule import WARP, Schedule, largest, nest, operations
from weft.backends.cuda.text.chains import Text
from weft.backends.cuda.text.columns import early, prefetch_next, prefetched
from weft.backends.cuda.text.launch import Launch
from weft.backends.cuda.text.render import (
    DECLARED,
    cluster_of,
    groups_of,
    may_be_compact,
    writer_of,
)
from weft.backends.llvm.code import Module
from weft.compiler.passes.rewrite import loads, position
from weft.kernel.kernel import Loop, Reduce, Store, statements
from weft.kernel.nodes import walk

# Bytes of an array that a block keeps for itself, at most.
MAX_KEPT = 1 << 14
# Loads for an element from which on the blocks of a cluster have a part of a kernel each.
MANY_LOADS = 8


# Words by which blocks give each other parts.
_MET = ("cluster_arrive", "cluster_wait")


# --- text -----------------------------------------------------------------------------------------


def render(joined: Joined, ahead: int = 0, compact: bool = False) -> GpuModule:
    """The module of a launch; ``ahead`` is how many arrays it may prefetch for a later one.
    ``compact`` asks for few instructions, for first calls."""
    last = joined.pieces[-1].schedule
    writer = _Writer(joined, compact)
    writer.write(ahead)
    told = ["noalias", "align 16"] if joined.distinct else ["align 16"]
    made = writer.module(
        groups_of(last),
        joined.blocks <= MOST_EARLY_BLOCKS,
        cluster_of(last),
        prefetched(ahead),
        lambda slot: " ".join([*["readonly"] * writer.only_read[slot], *told]),
    )
    if compact:
        return made
    work = _work(joined)
    made = made if work is None else quickly(made, *work)
    if any(may_be_compact(p.schedule) for p in joined.pieces):
        made.compact = lambda: render(joined, ahead, compact=True)
    return made


def _work(joined: Joined) -> tuple[int, int] | None:
    """The operations of a launch and the elements of its largest array; None where it isn't to be
    made quickly."""
    plain = [p.schedule for p in joined.pieces if isinstance(p.schedule, Schedule)]
    # ranges of what is moved have many loads, which take LLVM's passes to be near each other
    if joined.repeated or len(plain) < len(joined.pieces) or any(p.apart for p in plain):
        return None
    return sum(map(operations, plain)), max(largest(p.kernel) for p in plain)


class _Writer(Launch):
    """The kernel of a launch while it is written: each block meets nobody but its cluster."""

    def __init__(self, joined: Joined, compact: bool = False) -> None:
        super().__init__(Grid(1, joined.block_threads), eq, aligned=True)
        self.compact = compact
        self.joined, self.ranges = joined, list(enumerate(joined.pieces))[joined.repeated :]
        self.parts, self.alike = _parts(joined), _shared(joined)
        self.modules.append(Module((), DECLARED))
        self.only_read = joined.only_read
        self.given = [self.pointer(n) for n in range(len(self.only_read))]
        self.sizes = _kept(joined)
        self.kept = {n: shared_address(f"kept{n}") for n in self.sizes}
        self.chain: Text | None = None

    def write(self, ahead: int) -> None:
        joined, last = self.joined, self.joined.pieces[-1]
        outside = [self.given[n] for n in last.places]
        if isinstance(last.schedule, Chain):
            self.chain = Text(last.schedule, self, f"piece{len(joined.pieces) - 1}", outside)
            self.chain.early(self._block())
        elif len(self.ranges) == 1 and isinstance(last.schedule, Schedule):
            buffers = dict(zip(last.schedule.buffers, outside, strict=True))
            modules, lines = early(last.schedule, buffers)
            self.modules += modules
            self.lines += lines
        self.lines += [*prefetch_next(joined.blocks, ahead), *WAIT]
        block = self._in_turn() if _side_by_side(joined) else self._block()
        for i, piece in enumerate(joined.pieces[: joined.repeated]):
            self._first(i, piece, block)
        if self.chain is not None:
            self.chain.near(block)
        if joined.repeated:
            self.meet()
        for n, size in self.sizes.items():
            self._give(n, size, block)
        self._ranges(block)
        self.keep({f"kept{n}": size for n, size in self.sizes.items()})

    def _block(self) -> str:
        return self.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()")

    def _in_turn(self) -> str:
        """Blocks have ranges in turn: the number of a block as if they came in order."""
        self.line("%own = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()")
        turn = self.emit(f"urem i32 %own, {len(self.ranges)}")
        part = self.emit(f"udiv i32 %own, {len(self.ranges)}")
        before = self.emit(f"mul i32 {turn}, {self.ranges[0][1].schedule.blocks}")
        return self.emit(f"add i32 {before}, {part}")

    def _pointers(self, piece: Piece) -> list[str]:
        """What a kernel is given: copies that blocks have, and parameters."""
        return [self.kept.get(n, self.given[n]) for n in piece.places]

    def _function(self, i: int, schedule: Any) -> str:
        """The name of the function of a kernel."""
        what = schedule.module if isinstance(schedule, Stub) else writer_of(schedule, self.compact)
        self.add(f"piece{i}", what)
        return f"piece{i}"

    def _call(self, name: str, pointers: Sequence[str], number: str | int) -> None:
        self.call_function(name, [*[f"ptr {p}" for p in pointers], f"i32 {number}"])

    # --- what all blocks do first -----------------------------------------------------------------

    def _first(self, i: int, piece: Piece, block: str) -> None:
        """A kernel that all blocks do, or those of a cluster together."""
        schedule, pointers = piece.schedule, self._pointers(piece)
        pairs = list(zip(piece.places, piece.reads, strict=True))
        self.begin([Access(n, not read) for n, read in pairs])
        if i not in self.parts:
            name = self._function(i, schedule)
            for turn in range(schedule.blocks):
                self._call(name, pointers, turn)
            return
        name = self._function(i, schedule._replace(threads=self.parts[i], vector=1))
        cluster = self.joined.pieces[-1].schedule.cluster
        rank = self.emit(f"and i32 {block}, {cluster - 1}")
        with self.first_threads(self.parts[i]):
            self._call(name, pointers, rank)
        self.meet()
        for n in [n for n, read in pairs if not read]:
            self._share(n, self.sizes[n] // cluster // 4, rank, cluster)
        for word in _MET:
            self.call_function(word, ())
        self.pending = []

    def _share(self, n: int, count: int, rank: str, cluster: int) -> None:
        """A block gives its part, of so many words, to others of the cluster."""
        with self.first_threads(count):
            before = self.emit(f"mul i32 {rank}, {count}")
            own = self.emit(f"add i32 {before}, {self.thread()}")
            at = self.emit(f"getelementptr float, ptr {self.kept[n]}, i32 {own}")
            x = self.emit(f"load float, ptr {at}")
            for block in range(cluster):
                given = [f"ptr {at}", f"i32 {block}", f"float {x}"]
                self.call_function("cluster_write_f32", given)

    def _give(self, n: int, size: int, block: str) -> None:
        """The first block gives a copy of what all have."""
        width = next(w for w in (4, 2, 1) if size % w == 0)
        kind, count = f"i{8 * width}", size // width

        def copy(at: str) -> None:
            source = self.emit(f"getelementptr {kind}, ptr {self.kept[n]}, i32 {at}")
            target = self.emit(f"getelementptr {kind}, ptr {self.given[n]}, i32 {at}")
            x = self.emit(f"load {kind}, ptr {source}")
            self.line(f"store {kind} {x}, ptr {target}")

        before = self.emit(f"mul i32 {block}, {size}")
        first = self.emit(f"add i32 {before}, {self.thread()}")
        self.counted(first, self.joined.block_threads, count, copy, "i32")

    # --- ranges -----------------------------------------------------------------------------------

    def _ranges(self, block: str) -> None:
        """A block does what it is of; kernels that share code differ in its operands."""
        first = 0
        codes: dict[int, list[tuple[str, ...]]] = {}
        for i, piece in self.ranges:
            stop, last = first + piece.schedule.blocks, piece is self.joined.pieces[-1]
            if not last:
                less = self.emit(f"icmp slt i32 {block}, {stop}")
                self.line(f"br i1 {less}, label %run{i}, label %else{i}")
                self.label(f"run{i}")
            number, pointers = self.emit(f"sub i32 {block}, {first}"), self._pointers(piece)
            if i in self.alike:
                self.line(f"br label %code{self.alike[i]}")
                codes.setdefault(self.alike[i], []).append((self.block, *pointers, number))
            else:
                if self.chain is not None:
                    self.chain.whole(number, pointers)
                else:
                    self._call(self._function(i, piece.schedule), pointers, number)
                self.line("ret void")
            if not last:
                self.label(f"else{i}")
            first = stop
        for code, ways in codes.items():
            self.label(f"code{code}")
            blocks, *columns = zip(*ways, strict=True)
            *values, number = [
                ", ".join(f"[ {x}, %{b} ]" for x, b in zip(column, blocks, strict=True))
                for column in columns
            ]
            pointers = [self.emit(f"phi ptr {x}") for x in values]
            number = self.emit(f"phi i32 {number}")
            self._call(self._function(code, self.joined.pieces[code].schedule), pointers, number)
            self.line("ret void")


# --- what is shared -------------------------------------------------------------------------------


def _shared(joined: Joined) -> dict[int, int]:
    """Of the kernels of a launch, by number, the first one that has the same code, where they are
    many, or long code for little work."""
    if len(joined.pieces) < 2 or joined.repeated:
        return {}
    many = len(joined.pieces) >= MIN_SHARING
    if not many:
        work = _work(joined)
        if work is None or not is_little(*work):
            return {}
    firsts: dict[Any, int] = {}
    codes = [code_of(p.schedule) for p in joined.pieces]
    found = {i: firsts.setdefault(code, i) for i, code in enumerate(codes)}
    shared = {first for i, first in found.items() if i != first}
    shared = {i for i in shared if many or _is_long(joined.pieces[i].schedule)}
    return {i: first for i, first in found.items() if first in shared}


def _is_long(schedule: Schedule) -> bool:
    """Whether the code of a kernel is long: an element, or a round, takes many values, or threads
    combine several."""
    found = list(statements(schedule.kernel.body))
    values = walk([v for s in found if not isinstance(s, Loop) for v in s.operands])
    sums = sum(isinstance(s, Reduce) for s in found) if schedule.shares else 0
    steps = WARP.bit_length() - 1 + schedule.threads // WARP
    return len(values) >= MIN_LONG_VALUES or sums * steps >= MIN_LONG_SUMS


def _side_by_side(joined: Joined) -> bool:
    """Whether ranges of as many blocks read the same arrays: blocks that follow each other then
    have the same part of each, which is in the cache for all but the first."""
    pieces = joined.pieces
    if joined.repeated or len(pieces) < 2 or len({p.schedule.blocks for p in pieces}) > 1:
        return False
    if pieces[0].schedule.blocks < 2 or not all(isinstance(p.schedule, Schedule) for p in pieces):
        return False
    read = [_arrays_read(p) for p in pieces]
    return any(a & b for a, b in pairwise([*read, read[0]]))


def _arrays_read(piece: Piece) -> set[int]:
    """The parameters of a launch that a kernel of it reads arrays from."""
    schedule = piece.schedule
    assert isinstance(schedule, Schedule)
    buffers = {v.attr[0] for v in loads(schedule.kernel.body) if v.attr[1].terms}
    return {n for i, n in zip(schedule.buffers, piece.places, strict=True) if i in buffers}


def _parts(joined: Joined) -> dict[int, int]:
    """Kernels before a chain that read much for each element, by their numbers: a block of each
    cluster has so many elements, for all blocks of it."""
    last = joined.pieces[-1].schedule
    found: dict[int, int] = {}
    if isinstance(last, Chain):
        kept = _kept(joined)
        for i, (schedule, places, reads) in enumerate(joined.pieces[: joined.repeated]):
            elements, rest = divmod(schedule.iterations, last.cluster)
            if schedule.shares or rest or elements > last.block_threads:
                continue
            own = [n for n, read in zip(places, reads, strict=True) if not read]
            sizes = [kept.get(n, 0) // last.cluster for n in own]
            # each thread gives at most four bytes
            fits = all(size and size % 4 == 0 and size <= 4 * last.block_threads for size in sizes)
            if fits and len(loads(schedule.kernel.body)) >= MANY_LOADS:
                found[i] = elements
    return found


def _kept(joined: Joined) -> dict[int, int]:
    """Parameters that blocks have copies of, and their bytes: those that a kernel of all blocks
    makes all of, for others of the launch."""
    found: dict[int, int] = {}
    for i, (schedule, places, _) in enumerate(joined.pieces[: joined.repeated]):
        later = joined.pieces[i + 1 :]
        if any(isinstance(piece.schedule, Stub) for piece in later):
            return {}
        for number, place in zip(schedule.buffers, places, strict=True):
            b = schedule.kernel.buffers[number]
            size = b.size * b.dtype.itemsize
            if any(place in p.places for p in later) and size <= MAX_KEPT:
                if b.role == "out" and _makes_all(schedule, number):
                    found[place] = size
    return found


def _makes_all(schedule: Schedule, number: int) -> bool:
    """Whether a kernel writes all of a buffer, one place at a time."""
    kernel = schedule.kernel
    size, dtype = kernel.buffers[number].size, kernel.buffers[number].dtype
    for s in kernel.body:
        axes, body = nest(s) if isinstance(s, Loop) else ([], [s])
        for store in body:
            if isinstance(store, Store) and store.buffer == number and store.offset is None:
                whole = [(a, n) for a, n in (*kernel.grid_axes, *axes) if n > 1]
                if prod(n for _, n in whole) == size and store.at == position(whole):
                    return dtype.kind != "b"
    return False
