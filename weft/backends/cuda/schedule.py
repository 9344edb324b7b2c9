"""How a kernel is spread over the threads of a GPU.

A kernel that only stores has a thread for every four neighbouring elements. One with loops inside
of its grid has a block for each iteration of the grid, whose threads share its loops, or, where
neighbouring iterations read neighbouring elements, a thread for each. Long reductions of few
results are split: a first kernel reduces pieces of fixed size, a second one what these give, so
that results are the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

from weft.backends.cuda.passes.minor import together
from weft.backends.cuda.stages import Stages, stages, with_copies
from weft.base import knobs
from weft.base.functional import ById, lru
from weft.base.record import Record
from weft.base.sizes import plain
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.diagonal import diagonal
from weft.compiler.passes.rewrite import Rewrite, position
from weft.kernel.build import Builder
from weft.kernel.kernel import (
    Affine,
    Atomic,
    Buffer,
    Kernel,
    Loop,
    Reduce,
    Store,
    affine,
    combines_neighbours,
    ends_by_itself,
    signature,
    statements,
)
from weft.kernel.nodes import F32, walk

# Threads of a block, where each has iterations of the grid of its own, and at most.
THREADS, MAX_THREADS = 256, 1024
# Threads of a block, where each runs serial loops: few, so that many blocks share the work.
SERIAL_THREADS = 64
# Threads of loops that take the next elements when they are done, so that eight warps share the
# units of a processor, and elements of a thread at most.
REFILLED_THREADS, MAX_REFILLED = 8 * 4 * 132 * 32, 32
# Iterations of the grid from which a thread for each keeps the GPU busy; and blocks.
ENOUGH_THREADS, ENOUGH_BLOCKS = 1 << 12, 512
# Neighbouring elements of a thread: 16 bytes of float32.
VECTOR = 4
# Threads of a warp, and rows of a block that has a warp for each.
WARP, WARPS = 32, 8
# Elements of a row that a thread of the block has.
ELEMENTS_PER_THREAD = 16
# Threads that column reductions are split into, and iterations that each has left.
SPLIT_THREADS, SPLIT_ITERATIONS = 1 << 17, 32
# Rows of a piece of columns that aren't split, whatever has to be done with them.
WHOLE = 1 << 62
# Elements up to which blocks have all rows of their columns, and those of one block, which it reads
# while a second kernel would begin; its threads, and blocks that are enough for it to have more
# columns.
MAX_BLOCK_ELEMENTS, MAX_OWN_ELEMENTS = 1 << 22, 1 << 16
BLOCK_THREADS, ENOUGH_COLUMN_BLOCKS = 512, 96
# Columns of clusters of blocks that share their rows, best first, threads of a block, blocks that
# are enough, and rows of a thread that are copied to shared memory at once.
CLUSTER_COLUMNS, CLUSTER_THREADS, ENOUGH_CLUSTER_BLOCKS, MAX_COPIED_ROWS = (64, 32), 256, 128, 8
CLUSTER_BLOCKS = (1, 2, 4, 8)
# Bytes that a thread copies at a time.
COPIED = 16
# Columns that the threads of a block share pieces of at most, and blocks that find room at once.
MAX_PIECE_COLUMNS, PIECE_BLOCKS = 128, 4 * 132
# Bytes of shared memory for what the warps of a block have.
MAX_SUMS_BYTES = 32 << 10
# Elements from which on columns for all threads are split as well.
SPLIT_ELEMENTS = 1 << 19
# Columns from which on a thread for each of a piece reads memory well, and rows it reads at a time.
FEWEST_COLUMNS, ROWS_AT_A_TIME = 32, 4
# Elements of a piece of a row that is split.
PIECE_ELEMENTS = 1 << 13
# Rows and columns of a square that is transposed.
TILE = 32
# Elements from which on a range of an array that is joined has a kernel of its own where there are
# more of them than this.
SHORT_RANGE, MAX_RANGES = 1 << 10, 16
# How often loops of a block may be written out.
MAX_TRIPS = 8


# Neighbouring rows that a warp, or a block, has where they are reduced with the same operand, and
# elements of them that a thread then has.
SHARED_ROWS, SHARED_ELEMENTS = 4, 32
# Of rows by one thread or one warp each: instructions that all processors issue in a clock, those
# of a reduction between the threads of a warp and of a row's beginning and end, and bytes of a row
# up to which a thread's lines stay in the cache.
ISSUED, SHUFFLED, OVERHEAD, CACHED_ROW = 4 * 132, 15, 20, 128
# How many rows read an element of a copy at least, and clocks that the copy takes.
REUSED, COPY = 16, 6000
# Values up to which the loops of a row that one thread has are written out, and those of them that
# it reads: what is read is kept in registers, and neighbours are one access.
MAX_WRITTEN_VALUES, MAX_WRITTEN_LOADS = 1 << 11, 64
# Operations of one instruction, and instructions of the others.
_SIMPLE = frozenset(
    "acc add and bitcast cast const eq fma ge gt index le load lt lshr max min mul ne neg not or"
    " select shl sub xor".split()
)
FUNCTION = 16
# Rows that leave processors idle: as many threads as possible have one.
FEW_ROWS = 128
# Threads that run at once, and instructions of an element from which as many as possible have one.
ONE_WAVE, MANY_INSTRUCTIONS = 1 << 18, 128
# Instructions of an element of a narrow type from which wider accesses save no time, and those of a
# thread up to which it has several elements: more take longer to compile, and run no faster.
NARROW_INSTRUCTIONS, MANY_OF_THREAD = 48, 2048
# Elements from which a thread has several where they can't be read together: enough of memory is on
# its way only if each thread reads more than one.
MANY_ELEMENTS = 1 << 20


class Schedule(Record):
    """A kernel for a GPU: whether a block shares an iteration of its grid, the threads of a block,
    the neighbouring elements that a thread does at a time, and its buffers: numbers of the whole
    kernel's, then of scratch memory.

    ``trips`` is how often the threads of a block go through its loops, where that is seldom and the
    same for all (some have nothing to do the last time): such loops are written out, and rows that
    a thread reads only where it wrote them stay in its registers. ``distinct`` is whether no two
    buffers are the same memory. ``tile`` has an axis along which memory is read, and the last one,
    along which it is written: a block transposes squares of both through shared memory. ``rows`` is
    how many iterations of its loops a thread that reduces columns does at a time, for all of its
    neighbouring columns; with ``columns``, a block reduces so many of them, and its threads share
    their rows. ``group`` is how many iterations a block has of which each is shared by its own
    warp. With a ``cluster``, its blocks share the rows of columns, and threads copy what they read
    of the largest array to shared memory before the kernel before this one has ended. Parts that
    are ``apart`` need nothing of each other, and write different elements. Loops of one thread are
    ``written`` out where they are short and its buffers aligned. A thread has ``each`` so many
    elements, as far apart as a block has threads, where neighbours can't be read together.
    """

    kernel: Kernel
    shares: bool
    threads: int
    vector: int
    buffers: tuple[int, ...]
    distinct: bool = False
    trips: int = 0
    tile: tuple[str, str] | None = None
    rows: int = 0
    columns: int = 0
    group: int = 1
    cluster: int = 0
    apart: bool = False
    written: bool = False
    each: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """What schedules of the same text have in common."""
        return code_of(self.kernel), self[1:]

    @property
    def block_threads(self) -> int:
        return self.threads * self.group

    @property
    def iterations(self) -> int:
        return 1 if self.kernel.grid is None else self.kernel.grid[1]

    @property
    def blocks(self) -> int:
        if self.shares:
            blocks = -(-self.iterations // (self.columns or self.group))
            return blocks * max(1, self.cluster)
        if self.tile is not None:
            return prod(-(-n // TILE) if a in self.tile else n for a, n in self.kernel.axes)
        return -(-self.iterations // (self.threads * self.vector * self.each))


class Code:
    """What a kernel computes, as a key whose hash is known."""

    __slots__ = ("_hash", "_what")

    def __init__(self, kernel: Kernel) -> None:
        self._what = signature(kernel)
        self._hash = hash(self._what)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Code) and self._hash == other._hash and self._what == other._what


def code_of(kernel: Kernel) -> Code:
    """What a kernel computes: equal for kernels of the same code."""
    return _code_of(ById(kernel))


@lru(128)
def _code_of(kernel: ById) -> Code:
    return Code(kernel.value)


class Parts(Record):
    """Schedules of kernels that are run in order, and the scratch memory that they share."""

    parts: list[Schedule]
    scratch: list[Buffer]


def schedule(
    kernel: Kernel,
    aligned: bool = True,
    distinct: bool = True,
    early: bool = False,
    piece: int = SPLIT_ITERATIONS,
) -> Parts:
    """A kernel as the compiler fused it, for a GPU; ``aligned`` is whether all its buffers begin at
    multiples of 16 bytes, ``distinct`` whether no two of them are the same memory, ``early``
    whether its largest one may be read before kernels before it have ended, by a GPU whose blocks
    may read each other's shared memory; ``piece`` is the fewest rows of a piece of columns that are
    split."""
    outside = tuple(i for i, b in enumerate(kernel.buffers) if b.role != "row")
    if kernel.serial:
        alike = all(isinstance(s, Atomic) for s in kernel.body)
        many = alike and kernel.grid is not None and kernel.grid[1] > 1 << 16
        threads = THREADS if many else SERIAL_THREADS
        made = Schedule(kernel, False, threads, 1, outside)
        if ends_by_itself(kernel) and 0 < knobs.gpu_refill.value <= made.iterations:
            if not combines_neighbours(kernel):
                each = min(max(made.iterations // REFILLED_THREADS, 2), MAX_REFILLED)
                made = made._replace(each=each)
        if alike:  # no loops: neighbouring elements are read together
            made = made._replace(distinct=distinct, written=aligned)
        return Parts([made], [])
    if stores_ranges(kernel) and (distinct or reads_where_it_writes(kernel)):
        return _ranges(kernel, aligned, distinct)
    return _whole(kernel, aligned, distinct, early, piece)


def _ranges(kernel: Kernel, aligned: bool, distinct: bool) -> Parts:
    """A kernel for each loop, or, of many, one for all short ones; they are one launch."""
    count = 1 if kernel.grid is None else kernel.grid[1]
    least = SHORT_RANGE if len(kernel.body) > MAX_RANGES else 0
    long = [[s] for s in kernel.body if count * _elements(s) >= least]
    short = [s for s in kernel.body if count * _elements(s) < least]
    groups = [*long, short] if short else long
    made = [_whole(kernel._replace(body=body), aligned, distinct) for body in groups]
    return Parts([part._replace(apart=True) for whole in made for part in whole.parts], [])


def reads_where_it_writes(kernel: Kernel) -> bool:
    """Whether each loop reads only where it writes: the order of loops then doesn't matter."""
    for loop in kernel.body:
        inside = [s for s in statements([loop]) if isinstance(s, Store)]
        places = {s.at for s in inside if s.offset is None and s.marks is None}
        read = [v for v in walk([v for s in inside for v in s.operands]) if v.op == "load"]
        if any(v.args or v.attr[1] not in places for v in read):
            return False
    return True


def _elements(s: Any) -> int:
    """How often the statements inside a loop are done."""
    return s.extent * sum(map(_elements, s.body)) if isinstance(s, Loop) else 1


def _whole(
    kernel: Kernel,
    aligned: bool,
    distinct: bool,
    early: bool = False,
    piece: int = SPLIT_ITERATIONS,
) -> Parts:
    """A kernel that isn't taken apart by what it stores."""
    outside = tuple(i for i, b in enumerate(kernel.buffers) if b.role != "row")
    kernel = collapse(diagonal(kernel))
    kernel = flat(kernel)
    apart = stages(kernel) if piece < WHOLE else None
    if apart is not None:
        return _staged(kernel, apart, aligned, distinct, piece)
    if reduces_columns(kernel) and any(isinstance(s, Loop) for s in kernel.body):
        kernel = together(kernel) or kernel
        apart = _with_copies(kernel)
        if apart is not None:
            return _staged(kernel, apart, aligned, distinct, piece)
    block = _by_blocks(kernel, outside, aligned, early)
    if block is not None:
        return Parts([block._replace(distinct=distinct)], [])
    pieces = _by_pieces(kernel, outside, aligned)
    if pieces is not None:
        parts = [part._replace(distinct=distinct) for part in pieces.parts]
        return pieces._replace(parts=parts)
    halves = _split(kernel, piece)
    if halves is None:
        made = _one(kernel, outside, aligned)._replace(distinct=distinct)
        tile = transposes(kernel) if distinct and not made.shares else None
        return Parts([made if tile is None else made._replace(vector=1, each=1, tile=tile)], [])
    first, second, scratch = halves
    more = tuple(len(kernel.buffers) + i for i in range(len(scratch)))
    # buffers of the parts are those of the whole and the scratch memory, all of them
    parts = [_one(part, (*outside, *more), aligned) for part in (first, second)]
    return Parts([part._replace(distinct=distinct) for part in parts], scratch)


def _staged(kernel: Kernel, apart: Stages, aligned: bool, distinct: bool, piece: int) -> Parts:
    """The parts of all stages of a kernel, with the memory that each of them needs as well."""
    parts: list[Schedule] = []
    scratch = list(apart.scratch)
    for stage in apart.kernels:
        more = [b._replace(role="in") for b in scratch[len(apart.scratch) :]]
        whole = stage._replace(buffers=[*stage.buffers, *more])
        made, own = _whole(whole, aligned, distinct, piece=piece)
        parts += made
        scratch += own
    return Parts(parts, scratch)


def stores_ranges(kernel: Kernel) -> bool:
    """Whether a kernel has several loops that only store, and nothing reads what they do: arrays
    that are joined. Each is a kernel of its own, with a thread for each of its elements."""
    if len(kernel.body) < 2 or not all(isinstance(s, Loop) for s in kernel.body):
        return False
    inside = [s for s in statements(kernel.body) if not isinstance(s, Loop)]
    if not all(isinstance(s, Store) for s in inside):
        return False
    if any(loop.whole is not None for loop in statements(kernel.body) if isinstance(loop, Loop)):
        return False
    written = {s.buffer for s in inside}
    read = {v.attr[0] for v in walk([v for s in inside for v in s.operands]) if v.op == "load"}
    return not written & read and all(kernel.buffers[i].role == "out" for i in written)


def _one(kernel: Kernel, buffers: tuple[int, ...], aligned: bool) -> Schedule:
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    iterations = 1 if kernel.grid is None else kernel.grid[1]
    if not loops:
        vector = _elements_of_a_thread(kernel, aligned)
        made = Schedule(kernel, False, THREADS, vector, buffers)
        few = iterations < MANY_ELEMENTS or _is_much(kernel)
        return made if vector > 1 or few else made._replace(each=VECTOR)
    if has_rows_inside(kernel):
        return Schedule(kernel, False, SERIAL_THREADS, 1, buffers)
    rows = has_rows(kernel)
    enough = iterations >= ENOUGH_THREADS or any(loop.whole is not None for loop in loops)
    if not rows and enough and not reads_along_loops(kernel):
        threads = THREADS if iterations > 1 << 16 else 64
        made = Schedule(kernel, False, threads, 1, buffers)
        if not reduces_columns(kernel):
            return made
        whole = all(n % VECTOR == 0 for _, n in kernel.grid_axes[-1:])
        fits = aligned and whole and iterations >= VECTOR * ENOUGH_THREADS
        return made._replace(vector=VECTOR if fits else 1, rows=ROWS_AT_A_TIME)
    inner = [nest(loop)[0] for loop in loops]
    length = max(prod(n for _, n in axes) for axes in inner)
    if row_cost(kernel, 1, length, iterations) < row_cost(kernel, WARP, length, iterations):
        threads = THREADS if iterations > 1 << 16 else SERIAL_THREADS
        return Schedule(kernel, False, threads, 1, buffers, written=aligned and _is_short(kernel))
    each = ELEMENTS_PER_THREAD
    shared = _shares_operand(kernel)
    if shared:
        kernel, each = _several_rows(kernel), SHARED_ELEMENTS
        loops = [s for s in kernel.body if isinstance(s, Loop)]
        iterations //= SHARED_ROWS
    inner = [nest(loop)[0] for loop in loops]
    longest = max(prod(n for _, n in axes) for axes in inner)
    fits = aligned and all(axes[-1][1] % VECTOR == 0 for axes in inner)
    if iterations < FEW_ROWS:
        each = VECTOR
    threads = 32
    while threads < min(MAX_THREADS, longest // each):
        threads *= 2
    vector = VECTOR if fits else 1
    wide = _width(kernel)
    few = shared and longest % (wide * threads) == 0
    if fits and (few or longest > MAX_TRIPS * VECTOR * threads):
        vector = wide if all(axes[-1][1] % wide == 0 for axes in inner) else VECTOR
    own = {i for i, b in enumerate(kernel.buffers) if b.role == "row" and b.size}
    private = own <= private_rows(kernel) if own else False
    trips = _trips(kernel, loops, threads * vector)
    if private and vector == 1 and not trips:  # as many threads as keep rows in their registers
        more = threads
        while more < MAX_THREADS and longest > MAX_TRIPS * more:
            more *= 2
        trips = _trips(kernel, loops, more)
        threads = more if trips else threads
    made = Schedule(kernel, True, threads, vector, buffers, False, trips)
    apart = not own or (trips and private)
    if threads == 32 and apart and (aligned or vector == 1):
        if iterations >= WARPS * ENOUGH_BLOCKS:
            made = made._replace(group=WARPS)
    return made


def _trips(kernel: Kernel, loops: list[Loop], step: int) -> int:
    """How often threads that do so many elements at a time go through the loops of a row, where
    that is seldom and the same for all; 0 where the loops stay."""
    totals = {prod(n for _, n in nest(loop)[0]) for loop in loops}
    trips, rest = divmod(max(totals), step)
    if len(totals) > 1 or any(loop.whole is not None for loop in loops):
        return 0
    if not rest:
        return trips if trips <= MAX_TRIPS else 0
    inside = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    fits = trips < MAX_TRIPS and (trips + 1) * instructions(walk(inside)) <= MAX_WRITTEN_VALUES
    return trips + 1 if fits else 0


def row_cost(kernel: Kernel, threads: int, length: int, rows: int) -> float:
    """Clocks that a GPU takes for rows of a length, by one thread or one warp each.

    A warp issues an instruction for all its threads at once, also for those that have nothing to
    do, and shuffles what they have; rows of single threads lie apart, so that their lines stay in
    the cache only while they are short, and need enough rows for all processors to be busy.
    """
    values = walk(
        [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    )
    reduces = sum(isinstance(s, Reduce) for s in statements(kernel.body))
    widths = [v.dtype.itemsize for v in values if v.op == "load"]
    if threads == 1:
        if length * max(widths, default=4) > CACHED_ROW or rows < ENOUGH_THREADS:
            return float("inf")
        return length * len(values) * rows / WARP / ISSUED
    return (-(-length // WARP) * len(values) + SHUFFLED * reduces + OVERHEAD) * rows / ISSUED


def _is_short(kernel: Kernel) -> bool:
    """Whether the loops of a thread are so short that they are written out."""
    body = kernel.body

    def count(body: list[Any], loads: bool) -> int:
        straight = [s for s in body if not isinstance(s, Loop)]
        values = walk([v for s in straight for v in s.operands])
        own = sum(v.op == "load" for v in values) if loads else len(values)
        loops = [s for s in body if isinstance(s, Loop)]
        return own + sum(s.extent * count(s.body, loads) for s in loops)

    if any(s.whole is not None for s in statements(body) if isinstance(s, Loop)):
        return False
    longest = max((count([s], True) for s in body if isinstance(s, Loop)), default=0)
    return count(body, False) <= MAX_WRITTEN_VALUES and longest <= MAX_WRITTEN_LOADS


def instructions(values: Sequence[Any]) -> int:
    """Instructions of values, about: those of functions count as several."""
    return sum(1 if v.op in _SIMPLE else FUNCTION for v in values)


def operations(schedule: Schedule) -> int:
    """Instructions of all threads of a kernel, about."""

    def inside(body: list[Any], times: int) -> int:
        straight = [s for s in body if not isinstance(s, Loop)]
        values = walk([v for s in straight for v in s.operands])
        own = times * instructions(values)
        loops = [s for s in body if isinstance(s, Loop)]
        return own + sum(inside(s.body, times * s.extent) for s in loops)

    kernel = schedule.kernel
    return 0 if kernel.serial else inside(kernel.body, schedule.iterations)


def largest(kernel: Kernel) -> int:
    """The elements of a kernel's largest array."""
    return max((b.size for b in kernel.buffers), default=0)


def _elements_of_a_thread(kernel: Kernel, aligned: bool) -> int:
    """How many neighbouring elements a thread of a kernel that only stores has."""
    axes = kernel.grid_axes
    iterations = prod(n for _, n in axes)
    vector, work = _neighbours(kernel), _work(kernel)
    much = work >= MANY_INSTRUCTIONS
    if work >= NARROW_INSTRUCTIONS and vector > VECTOR and iterations % VECTOR == 0:
        vector = VECTOR  # wider accesses are no faster then, and the text is half as long
    while vector > 1 and vector * work > MANY_OF_THREAD:
        vector //= 2
    # of a single axis, the last thread may have fewer than the others
    whole = axes and (axes[-1][1] % vector == 0 or len(axes) == 1)
    if not aligned or not whole or iterations <= THREADS * vector:
        return 1
    # much work for few elements: more threads, and a shorter text
    return 1 if iterations < ONE_WAVE and much else vector


def _is_much(kernel: Kernel) -> bool:
    """Whether what is computed for an element takes longer than to read it."""
    return _work(kernel) >= MANY_INSTRUCTIONS


def _work(kernel: Kernel) -> int:
    """Instructions of an element of a kernel without loops, about."""
    return instructions(walk([v for s in kernel.body for v in s.operands]))


def _neighbours(kernel: Kernel) -> int:
    """Neighbouring elements of a thread: 16 bytes of all, or of the widest, at most 8."""
    last = kernel.axes[-1][1] if kernel.axes else kernel.grid[1] if kernel.grid else 1
    wide = max((b.dtype.itemsize for b in kernel.buffers if b.size > 1), default=4) > 2
    return VECTOR if wide or last % (2 * VECTOR) else 2 * VECTOR


def _width(kernel: Kernel) -> int:
    """Elements of 16 bytes of the largest array."""
    widest = max(kernel.buffers, key=lambda b: b.size * b.dtype.itemsize).dtype.itemsize
    return 2 * VECTOR if widest <= 2 else VECTOR


def _shares_operand(kernel: Kernel) -> bool:
    """Whether many rows are reduced together with what is the same for neighbouring ones, as those
    of a matrix are that a vector is multiplied by."""
    axes = kernel.grid_axes
    if not axes or not reduces_columns(kernel):
        return False
    last, extent = axes[-1]
    if extent % SHARED_ROWS or prod(n for _, n in axes) < SHARED_ROWS * ENOUGH_THREADS // 2:
        return False
    own = same = False
    for loop in kernel.body:
        if isinstance(loop, Loop):
            if loop.whole is not None:
                return False
            inside = [s for s in statements([loop]) if not isinstance(s, Loop)]
            for v in walk([v for s in inside for v in s.operands]):
                if v.op == "load":
                    own |= v.attr[1].coefficient(last) != 0
                    same |= v.attr[1].coefficient(last) == 0 and bool(v.attr[1].terms)
    return own and same


def _several_rows(kernel: Kernel) -> Kernel:
    """A kernel of which an iteration has several neighbouring rows."""
    axes = list(kernel.grid_axes)
    last, extent = axes[-1]
    axes[-1] = (last, extent // SHARED_ROWS)
    symbols = [s.symbol for s in statements(kernel.body) if isinstance(s, Reduce)]
    step = max(symbols) + 1
    k = Builder()

    def renamed(row: int) -> Any:
        def instead(v: Any) -> Any:
            return k.make("acc", (), v.dtype, v.attr + row * step) if v.op == "acc" else None

        return Rewrite(k, {last: affine(row, {last: SHARED_ROWS})}, instead=instead)

    rewrites = [renamed(row) for row in range(SHARED_ROWS)]
    each = range(0, SHARED_ROWS * step, step)

    def several(s: Any) -> list[Any]:
        if isinstance(s, Loop):
            carries = tuple(symbol + more for more in each for symbol in s.carries)
            return [s._replace(body=[x for y in s.body for x in several(y)], carries=carries)]
        made = [x for r in rewrites for x in r.body([s])]
        if isinstance(s, Reduce):
            return [x._replace(symbol=s.symbol + more) for x, more in zip(made, each, strict=True)]
        return made

    body = [x for s in kernel.body for x in several(s)]
    grid = axes[0] if len(axes) == 1 else ("grid", prod(n for _, n in axes))
    return kernel._replace(body=body, grid=grid, axes=tuple(axes) if len(axes) > 1 else ())


def transposes(kernel: Kernel) -> tuple[str, str] | None:
    """The axis along which memory is read, where that isn't the one along which it is written."""
    extents = dict(kernel.axes)
    if len(extents) < 2 or not all(isinstance(s, Store) for s in kernel.body):
        return None
    last = kernel.axes[-1][0]
    stores = [s for s in kernel.body if s.marks is None]
    if plain(extents[last]) < TILE or any(s.at.coefficient(last) != 1 or s.offset for s in stores):
        return None
    across: dict[str, int] = {}
    for v in turned(kernel, last):
        for axis, factor in v.attr[1].terms:
            if factor == 1 and axis != last and plain(extents[axis]) >= TILE:
                across[axis] = across.get(axis, 0) + 1
    return (max(across, key=lambda a: across[a]), last) if across else None


def turned(kernel: Kernel, last: str) -> list[Any]:
    """Loads of elements that lie far apart along the last axis."""
    roots = [v for s in kernel.body for v in s.operands]
    return [
        v
        for v in walk(roots)
        if v.op == "load" and not v.args and abs(v.attr[1].coefficient(last)) > 1
    ]


def private_rows(kernel: Kernel) -> set[int]:
    """Rows that are read and written only where a loop is just then: each thread's own part."""
    found = {i for i, b in enumerate(kernel.buffers) if b.role == "row"}
    for loop in kernel.body:
        if not isinstance(loop, Loop):
            touched = {v.attr[0] for v in walk(loop.operands) if v.op == "load"}
            found -= touched | ({loop.buffer} if isinstance(loop, Store) else set())
            continue
        axes, body = nest(loop)
        here = position(axes)
        for s in statements(body):
            if isinstance(s, Loop):
                return set()
            places = [(v.attr[0], v.attr[1], v.args) for v in walk(s.operands) if v.op == "load"]
            if isinstance(s, Store):
                places.append((s.buffer, s.at, () if s.offset is None else (s.offset,)))
            found -= {i for i, at, args in places if at != here or args}
    return found


def _split(kernel: Kernel, piece: int) -> tuple[Kernel, Kernel, list[Buffer]] | None:
    """A kernel of few, long reductions as one over pieces of them and one over what these give."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    rest = [s for s in kernel.body if not isinstance(s, Loop)]
    iterations = 1 if kernel.grid is None else kernel.grid[1]
    if not loops or kernel.body[: len(loops)] != loops or not rest or not iterations:
        return None
    if not reduces_columns(kernel) or any(loop.whole is not None for loop in loops):
        return None
    lengths = [loop.extent for loop in loops]
    totals = [prod(n for _, n in nest(loop)[0]) for loop in loops]
    outer: list[str] = []
    if not reads_along_loops(kernel):
        most = VECTOR * SPLIT_THREADS if iterations >= FEWEST_COLUMNS else SPLIT_THREADS
        count = min(min(totals) // piece, most // iterations)
        if min(lengths) < count:
            loops = [_longest_first(loop) for loop in loops]
            lengths = [loop.extent for loop in loops]
        if 2 * max(lengths) <= count and len({tuple(n for _, n in nest(x)[0]) for x in loops}) == 1:
            if len(nest(loops[0])[0]) > 1:  # pieces of a loop for each iteration of that around it
                outer, count = [loop.axis for loop in loops], count // lengths[0]
                times, loops = lengths[0], [loop.body[0] for loop in loops]
                lengths = [loop.extent for loop in loops]
        count = min(count, *lengths)
        if iterations >= ENOUGH_THREADS and iterations * min(totals) < SPLIT_ELEMENTS:
            return None
    elif iterations < ENOUGH_BLOCKS:
        count = min(min(lengths), max(totals) // PIECE_ELEMENTS, 2 * ENOUGH_BLOCKS // iterations)
    else:
        return None
    if count < 2 or len(set(lengths)) > 1:
        return None
    extent = -(-lengths[0] // count)
    around = (times, outer) if outer else None
    return halves(kernel, loops, rest, extent, -(-lengths[0] // extent), around)


def _with_copies(kernel: Kernel) -> Stages | None:
    """A kernel that reduces short rows, of operands that many of them share, as one of columns.

    A warp for each row does little but add up what its threads have. A thread for each row reads
    far from its neighbours, unless the operands are copied so that neighbours read side by side.
    """
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    axes = kernel.grid_axes
    if not axes or not loops or not reads_along_loops(kernel):
        return None
    inner = nest(loops[0])[0]
    if any(loop.whole is not None or nest(loop)[0] != inner for loop in loops):
        return None
    extents = dict([*axes, *inner])
    if any(type(n) is not int for n in extents.values()):
        return None
    (last, width), rows, length = axes[-1], prod(n for _, n in axes), prod(n for _, n in inner)
    if width < WARP or rows < VECTOR * ENOUGH_THREADS:
        return None
    inside = [s for loop in loops for s in statements([loop]) if not isinstance(s, Loop)]
    values = walk([v for s in inside for v in s.operands])
    loads = [v for v in values if v.op == "load"]
    if any(v.args or len(v.attr) > 2 or not isinstance(v.attr[1], Affine) for v in loads):
        return None
    far = list({v.attr: v for v in loads if abs(v.attr[1].coefficient(last)) > 1}.values())
    copied = sum(prod(extents[axis] for axis, _ in v.attr[1].terms) for v in far)
    if not far or REUSED * copied > rows * length:
        return None
    now = min(row_cost(kernel, threads, length, rows) for threads in (1, WARP))
    then = length * len(values) * rows / WARP / ISSUED
    return with_copies(kernel, far, extents) if then + COPY < now / 2 else None


def _by_pieces(kernel: Kernel, buffers: tuple[int, ...], aligned: bool) -> Parts | None:
    """A kernel of few, long columns as one whose blocks each have a piece of some columns, and one
    over what these give: threads of a block combine what they have, so that it is little."""
    loops = [_longest_first(s) for s in kernel.body if isinstance(s, Loop)]
    axes, rest = kernel.grid_axes, kernel.body[len(loops) :]
    if not loops or not rest or not axes or not aligned or not reduces_columns(kernel):
        return None
    if any(loop.whole is not None for loop in loops) or reads_along_loops(kernel):
        return None
    last, iterations, length = axes[-1][1], prod(n for _, n in axes), loops[0].extent
    totals = {prod(n for _, n in nest(loop)[0]) for loop in loops}
    if type(iterations) is not int or any(type(n) is not int for n in (length, *totals)):
        return None
    columns = min(MAX_PIECE_COLUMNS, last & -last)
    if columns < VECTOR or (columns < FEWEST_COLUMNS and columns < last) or len(totals) > 1:
        return None
    if any(loop.extent != length for loop in loops):
        return None
    sums = [s for s in statements(kernel.body) if isinstance(s, Reduce)]
    warps = THREADS // WARP
    if warps * columns * sum(s.dtype.itemsize for s in sums) > MAX_SUMS_BYTES:
        return None
    inner = totals.pop() // length
    step = THREADS // (columns // VECTOR) * ROWS_AT_A_TIME
    pieces = PIECE_BLOCKS // (iterations // columns)
    if pieces < 2 or length * inner < 2 * step:
        return None
    unit = step // gcd(step, inner)  # of whole rounds of a block
    extent = -(-length // pieces // unit) * unit if pieces * unit < length else unit
    extent = next((n for n in range(extent, 2 * extent, unit) if length % n == 0), extent)
    count = -(-length // extent)
    if count < 2:
        return None
    first, second, scratch = halves(kernel, loops, list(rest), extent, count, None)
    more = tuple(len(kernel.buffers) + i for i in range(len(scratch)))
    made = Schedule(first, True, THREADS, VECTOR, (*buffers, *more))
    made = made._replace(rows=ROWS_AT_A_TIME, columns=columns)
    return Parts([made, _one(second, (*buffers, *more), aligned)], scratch)


def _longest_first(loop: Loop) -> Loop:
    """A loop of reductions with the longest of those that it is made of outside."""
    axes, _ = nest(loop)
    order = sorted(axes, key=lambda axis: -axis[1])

    def placed(loop: Loop, depth: int) -> Loop:
        body = [placed(loop.body[0], depth + 1)] if depth + 1 < len(order) else loop.body
        axis, extent = order[depth]
        return loop._replace(axis=axis, extent=extent, body=body)

    return placed(loop, 0)


def _by_blocks(
    kernel: Kernel, buffers: tuple[int, ...], aligned: bool, early: bool
) -> Schedule | None:
    """A kernel of few columns as one whose blocks, or clusters of them, have all rows of some:
    products of vectors and matrices, which would take longer to begin a second kernel than to read
    their columns."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    axes = kernel.grid_axes
    if not loops or not axes or not aligned or not reduces_columns(kernel):
        return None
    if any(loop.whole is not None for loop in loops) or reads_along_loops(kernel):
        return None
    last, iterations = axes[-1][1], prod(n for _, n in axes)
    totals = [prod(n for _, n in nest(loop)[0]) for loop in loops]
    if iterations < FEWEST_COLUMNS or iterations * max(totals) > MAX_BLOCK_ELEMENTS:
        return None
    vector = _width(kernel)
    made = _by_clusters(kernel, buffers, vector) if early and len(loops) == 1 else None
    if made is not None:
        return made
    for columns in (32, 16):
        groups = BLOCK_THREADS // (columns // vector)
        if columns * max(totals) > MAX_OWN_ELEMENTS:
            continue
        if last % columns == 0 and all(n % groups == 0 for n in totals):
            if columns == 16 or iterations // columns >= ENOUGH_COLUMN_BLOCKS:
                rows = next(u for u in (8, 4, 2, 1) if all(n % (groups * u) == 0 for n in totals))
                few = iterations // columns < ENOUGH_COLUMN_BLOCKS
                more = few and all(n % (2 * groups * rows) == 0 for n in totals)
                threads = BLOCK_THREADS * (2 if more else 1)
                made = Schedule(kernel, True, threads, vector, buffers)
                return made._replace(rows=rows, columns=columns)
    return None


def _by_clusters(kernel: Kernel, buffers: tuple[int, ...], vector: int) -> Schedule | None:
    """The same by clusters of blocks: a thread has so few rows that all are read at once."""
    if any(s.dtype != F32 for s in statements(kernel.body) if isinstance(s, Reduce)):
        return None
    last = kernel.grid_axes[-1][1]
    total = prod(n for s in kernel.body if isinstance(s, Loop) for _, n in nest(s)[0])
    best: tuple[int, Schedule] | None = None
    for columns in CLUSTER_COLUMNS:
        groups = CLUSTER_THREADS // (columns // vector)
        for cluster in CLUSTER_BLOCKS:
            rows, rest = divmod(total, groups * cluster)
            if last % columns or rest or rows > MAX_COPIED_ROWS:
                continue
            made = Schedule(kernel, True, CLUSTER_THREADS, vector, buffers)
            made = made._replace(rows=rows, columns=columns, cluster=cluster)
            short = max(0, ENOUGH_CLUSTER_BLOCKS - made.blocks)
            if best is None or short < best[0]:
                best = short, made
    if best is None or not _copied_at_once(best[1]):
        return None
    return best[1]


def _copied_at_once(schedule: Schedule) -> bool:
    """Whether what a thread reads of the largest array at a time is 16 bytes, of its own."""
    load = read_once(schedule)
    if load is None or load.dtype.itemsize * schedule.vector != 16:
        return False
    last, index = schedule.kernel.grid_axes[-1][0], load.attr[1]
    others = [index.const, *(n for axis, n in index.terms if axis != last)]
    return index.coefficient(last) == 1 and all(n % schedule.vector == 0 for n in others)


def read_once(schedule: Schedule) -> Any:
    """The load of the largest array, if a kernel reads all of it, and each element once."""
    kernel = schedule.kernel
    sizes = [b.size * b.dtype.itemsize for b in kernel.buffers]
    number = sizes.index(max(sizes))
    rows = sum(prod(n for _, n in nest(s)[0]) for s in kernel.body if isinstance(s, Loop))
    inside = [v for s in statements(kernel.body) if not isinstance(s, Loop) for v in s.operands]
    loads = [v for v in walk(inside) if v.op == "load" and v.attr[0] == number]
    once = len(loads) == 1 and not loads[0].args and kernel.buffers[number].role == "in"
    return loads[0] if once and kernel.buffers[number].size == rows * schedule.iterations else None


def copied_bytes(schedule: Schedule) -> int:
    """Bytes of shared memory that a block of a cluster copies to."""
    return schedule.rows * schedule.threads * COPIED


def has_rows(kernel: Kernel) -> bool:
    """Whether iterations have memory of their own; stages have none left."""
    return any(b.role == "row" and b.size for b in kernel.buffers)


def reduces_columns(kernel: Kernel) -> bool:
    """Whether a kernel is loops of reductions that need no others, then stores."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    rest = kernel.body[len(loops) :]
    if kernel.body[: len(loops)] != loops or has_rows(kernel):
        return False
    return all(isinstance(s, Store) for s in rest) and all(map(_reduces_alone, loops))


def _reduces_alone(loop: Loop) -> bool:
    """Whether a loop holds nothing but reductions that need no others, carried through it."""
    inside = [s for s in statements([loop]) if not isinstance(s, Loop)]
    if not all(isinstance(s, Reduce) for s in inside):
        return False
    if any(v.op == "acc" for v in walk([v for s in inside for v in s.operands])):
        return False
    own = {s.symbol for s in inside}
    direct = {s.symbol for s in loop.body if isinstance(s, Reduce)}
    return own <= direct | set(loop.carries)


def halves(
    kernel: Kernel,
    loops: list[Loop],
    rest: list[Any],
    extent: int,
    count: int,
    around: tuple[int, list[str]] | None,
) -> tuple[Kernel, Kernel, list[Buffer]]:
    """``around`` has the iterations and the axes of loops around these, if there are such: each has
    all pieces."""
    axes = list(kernel.grid_axes)
    times, outer = around or (1, [""] * len(loops))
    more = [*([("outer", times)] if around else []), ("piece", count), *axes]
    place, again = position(more), position([("piece", times * count), *axes])
    total = prod(n for _, n in more)
    first: list[Any] = []
    stores: list[Any] = []
    second: list[Any] = []
    scratch: list[Buffer] = []
    for loop, name in zip(loops, outer, strict=True):
        whole = ("piece", loop.extent)
        k = Builder()
        moved = {loop.axis: affine(0, {"piece": extent, loop.axis: 1})}
        if name:
            moved[name] = affine(0, {"outer": 1})
        first.append(
            loop._replace(extent=extent, body=Rewrite(k, moved).body(loop.body), whole=whole)
        )
        for r in [s for s in statements([loop]) if isinstance(s, Reduce)]:
            number = len(kernel.buffers) + len(scratch)
            scratch.append(Buffer(r.dtype, total, "out"))
            stores.append(Store(number, place, k.make("acc", (), r.dtype, r.symbol)))
            value = Builder().make("load", (), r.dtype, (number, again))
            second.append(Loop("piece", times * count, [r._replace(value=value)]))
    given = [b if b.role == "row" else b._replace(role="in") for b in kernel.buffers]
    buffers = given + scratch
    one = kernel._replace(
        buffers=buffers,
        grid=("piece", count) if len(more) == 1 else ("grid", total),
        axes=() if len(more) == 1 else tuple(more),
        body=[*first, *stores],
    )
    known = [b._replace(role="in") for b in scratch]
    return one, kernel._replace(buffers=[*kernel.buffers, *known], body=[*second, *rest]), scratch


def nest(loop: Loop) -> tuple[list[tuple[str, int]], list[Any]]:
    """A loop and those directly inside it as one: their axes, and the innermost body."""
    axes = [(loop.axis, loop.extent)]
    while len(loop.body) == 1 and isinstance(loop.body[0], Loop):
        inner = loop.body[0]
        own = {s.symbol for s in statements(inner.body) if isinstance(s, Reduce)}
        if not own <= set(loop.carries) or inner.whole is not None:
            break
        loop = inner
        axes.append((loop.axis, loop.extent))
    return axes, loop.body


def flat(kernel: Kernel) -> Kernel:
    """A kernel with loops of independent iterations among the axes of its grid."""
    axes = list(kernel.axes)
    if not axes and kernel.grid is not None:
        axes = [kernel.grid]
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop) and _writes_rows_first(body[0], kernel):
        (loop,) = body
        if loop.whole is not None or loop.carries or any(isinstance(s, Reduce) for s in loop.body):
            break
        axes.append((loop.axis, loop.extent))
        body = loop.body
    if not axes:
        return kernel
    if len(axes) == 1:
        return kernel._replace(grid=axes[0], axes=(), body=body)
    total = prod(n for _, n in axes)
    return kernel._replace(grid=("grid", total), axes=tuple(axes), body=body)


def _writes_rows_first(loop: Loop, kernel: Kernel) -> bool:
    """Whether an iteration of a loop reads of rows only what it has itself written."""
    written: set[int] = set()
    for s in statements([loop]):
        if not isinstance(s, Loop):
            read = {v.attr[0] for v in walk(s.operands) if v.op == "load"} - written
            if any(kernel.buffers[i].role == "row" for i in read):
                return False
            written |= {s.buffer} if isinstance(s, Store) else set()
    return True


def has_rows_inside(kernel: Kernel) -> bool:
    """Whether iterations of a loop each write a row, in loops of their own: threads that shared
    that loop would write the same one."""
    for loop in kernel.body:
        inner = nest(loop)[1] if isinstance(loop, Loop) else []
        stored = list(statements([s for s in inner if isinstance(s, Loop)]))
        if any(isinstance(s, Store) and kernel.buffers[s.buffer].role == "row" for s in stored):
            return True
    return False


def reads_along_loops(kernel: Kernel) -> bool:
    """Whether loops go through memory element by element, rather than the grid."""
    last = kernel.axes[-1][0] if kernel.axes else kernel.grid[0] if kernel.grid else None
    along = across = 0
    for s in statements(kernel.body):
        if not isinstance(s, Loop):
            continue
        for inner in s.body:
            if isinstance(inner, Loop):
                continue
            for v in walk(inner.operands):
                if v.op == "load" and isinstance(v.attr[1], Affine):
                    # what is the same for all threads or all iterations is read once
                    here, there = v.attr[1].coefficient(s.axis), v.attr[1].coefficient(last)
                    along += abs(here) == 1 and there != 0
                    across += abs(there) == 1 and here != 0
    return along >= across
