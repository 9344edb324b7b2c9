"""Products of vectors and matrices that follow each other, as one launch of clusters of blocks.

A cluster makes some columns of the first product for all of its blocks, and multiplies them by the
rows of the second matrix that they belong to. What clusters have of the second product is summed by
those who read it. Between both there may be attention of one row of queries, of which a cluster has
a head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from weft.backends.cuda.routines.attention import part_of_attention
from weft.backends.cuda.schedule import (
    CLUSTER_THREADS,
    COPIED,
    THREADS,
    WARP,
    Schedule,
    copied_bytes,
    halves,
    nest,
    read_once,
)
from weft.base.record import Record
from weft.compiler.passes.rewrite import Rewrite, loads, position
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Loop, Reduce, Store, affine, statements
from weft.kernel.nodes import F32, Value
from weft.kernel.program import Op, inner_regions

# Blocks of a cluster, and clusters of a launch at most: processors have a block each.
CLUSTER, MAX_CLUSTERS, FEWEST_CLUSTERS = 8, 16, 12
# Columns that a cluster makes in a turn, best first, and turns; rows that a thread copies at most.
TURN_COLUMNS, MAX_TURNS, MAX_ROWS = (256, 128, 64, 32), 4, 16
# Bytes that a block copies at most: with two of them on a processor more clusters find their place,
# which is a group of processors, and the next launch finds room beside this one.
MAX_COPIED = 72 << 10
# Neighbouring columns that a thread sums: with more, registers would not do for what it has read.
SUMMED = 2


class Part(Record):
    """Kernels between products, of which a cluster does a part: of so many elements, or a routine;
    the second text of that brings near what it reads, all of its operands but the first."""

    schedule: Any
    elements: int = 0
    near: Any = ""


class Step(Record):
    """Something that all clusters of a chain do, on parameters of the chain or, from the number of
    these on, on memory of each block.

    The columns of a product have ``turns``; in each, a cluster makes those of a block whose number
    is ``own`` times its own and ``apart`` times the turn's.
    """

    what: Any  # a Schedule or a Part
    places: tuple[int, ...]
    turns: int = 0
    own: int = 1
    apart: int = 1


class Chain(Record):
    """Steps of clusters: the first is a product, as is the last one. ``kept`` has the bytes of what
    steps leave to others of the same cluster."""

    steps: tuple[Step, ...]
    parameters: int
    kept: tuple[int, ...]
    clusters: int
    cluster: int

    @property
    def block_threads(self) -> int:
        return CLUSTER_THREADS

    @property
    def blocks(self) -> int:
        return self.clusters * self.cluster

    @property
    def key(self) -> tuple[Any, ...]:
        """What two chains of the same text have in common."""
        own: list[Any] = []
        for step in self.steps:
            what = step.what
            rest: Any = step._replace(what=None)
            if isinstance(what, Part):
                what, rest = what.schedule, (rest, what.elements, what.near)
            if isinstance(what, Schedule):
                own.append((*what.key, rest))
            else:
                own.append((what, rest))
        return (*own, *self._replace(steps=()))


class Linked(Record):
    """A chain, the slots of its parameters, those of them that it reads and writes, and the
    matrices, as positions among the parameters, with their bytes."""

    chain: Chain
    slots: tuple[int, ...]
    reads: frozenset[int]
    writes: frozenset[int]
    matrices: tuple[tuple[int, int], ...]


class Sums(Record):
    """The kernel that sums what clusters have, and the slots of its buffers."""

    schedule: Schedule
    slots: tuple[int, ...]
    reads: tuple[bool, ...]


# Fields of nodes that are a slot, or several.
_SLOT = ("source", "target", "view", "base", "first", "second", "choice", "flag")
_SLOTS = ("slots", "ins", "outs", "uses")


def mentioned(nodes: Sequence[Any]) -> Counter[int]:
    """How many nodes have a slot among their operands, results or memory."""
    found: Counter[int] = Counter()
    for node in nodes:
        own = {getattr(node, name) for name in _SLOT if hasattr(node, name)}
        for name in _SLOTS:
            own.update(getattr(node, name, ()))
        for view, base, _ in getattr(node, "slices", ()):
            own |= {view, base}
        found.update(own)
        for region in inner_regions(node):
            found += mentioned(region)
    return found


# --- products -------------------------------------------------------------------------------------


class Product(Record):
    """A kernel that multiplies a vector by a matrix: its loop over rows and what it stores."""

    schedule: Schedule
    slots: tuple[int, ...]
    loop: Loop
    stores: list[Store]

    @property
    def columns(self) -> int:
        return self.schedule.iterations

    @property
    def rows(self) -> int:
        return self.loop.extent

    def number(self, slot: int) -> int:
        """The buffer that is a slot."""
        return self.schedule.buffers[self.slots.index(slot)]


def product(part: Any) -> Product | None:
    if part is None or not getattr(part.schedule, "cluster", 0):
        return None
    kernel = part.schedule.kernel
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    stores = [s for s in kernel.body if isinstance(s, Store)]
    if kernel.axes or len(loops) != 1 or len(nest(loops[0])[0]) != 1:
        return None
    sums = [s for s in loops[0].body if isinstance(s, Reduce)]
    if any(s.marks is not None for s in stores):
        return None
    if len(sums) != 1 or sums[0].op != "add" or sums[0].initial != 0:
        return None
    slots = tuple(spot.slot for spot in part.spots)
    if len(set(slots)) < len(slots) or any(spot.offset for spot in part.spots):
        return None
    return Product(part.schedule, slots, loops[0], stores)


def _turn(made: Product, columns: int, turns: int) -> Schedule | None:
    """How a cluster makes so many columns of a product in each of some turns."""
    across = columns // made.schedule.vector
    if made.columns % columns or columns not in TURN_COLUMNS or across > WARP:
        return None
    rows, rest = divmod(made.rows, CLUSTER_THREADS // across * CLUSTER)
    if rest or not 0 < rows <= MAX_ROWS:
        return None
    if not 0 < turns <= MAX_TURNS or turns * columns > CLUSTER_THREADS:
        return None
    found = made.schedule._replace(
        columns=columns, rows=rows, cluster=CLUSTER, threads=CLUSTER_THREADS
    )
    return found if turns * copied_bytes(found) <= MAX_COPIED else None


def _made(first: Product) -> int | None:
    """The slot of what a product makes, if that is all that it does."""
    kernel = first.schedule.kernel
    if len(first.stores) != 1 or first.stores[0].offset is not None:
        return None
    (store,) = first.stores
    axis, _ = kernel.grid_axes[-1]
    return (
        first.slots[first.schedule.buffers.index(store.buffer)]
        if store.at == affine(0, {axis: 1})
        else None
    )


def _reads_rows(second: Product, slot: int) -> bool:
    """Whether a product reads a vector, and nothing else of it."""
    if slot not in second.slots:
        return False
    number = second.number(slot)
    own = [v for v in loads(second.schedule.kernel.body) if v.attr[0] == number]
    inside = [v for v in loads([second.loop]) if v.attr[0] == number]
    at = affine(0, {second.loop.axis: 1})
    return (
        bool(own) and len(own) == len(inside) and all(v.attr[1] == at and not v.args for v in own)
    )


def _used(schedule: Schedule, buffers: Sequence[int]) -> tuple[Schedule, list[int]]:
    """A kernel with no other buffers than those that it uses, and which these are."""
    kernel = schedule.kernel
    stored = {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}
    touched = stored | {v.attr[0] for v in loads(kernel.body)}
    used = [i for i in buffers if i in touched]
    body = Rewrite(Builder(), {}, lambda i: (used.index(i), Affine())).body(kernel.body)
    kernel = kernel._replace(body=body, buffers=[kernel.buffers[i] for i in used])
    return schedule._replace(kernel=kernel, buffers=tuple(range(len(used)))), used


def _halves(second: Product, clusters: int, unread: set[int]) -> tuple[Schedule, Schedule, int]:
    """A product as one of which clusters have some rows, a kernel that sums what they have, and the
    number of the buffer between both; what is ``unread`` isn't stored."""
    kernel = second.schedule.kernel
    extent = second.rows // clusters
    one, other, _ = halves(kernel, [second.loop], second.stores, extent, clusters, None)
    loop, *stores = one.body
    one = one._replace(body=[loop._replace(whole=None), *stores])
    columns = second.columns // CLUSTER
    rows = extent // (CLUSTER_THREADS // (columns // second.schedule.vector))
    made = second.schedule._replace(
        kernel=one, columns=columns, rows=rows, cluster=1, distinct=False
    )
    between, k = len(kernel.buffers), Builder()
    axis, count = kernel.grid_axes[-1]
    parts = [
        k.make("load", (), F32, (between, affine(piece * count, {axis: 1})))
        for piece in range(clusters)
    ]
    total = reduce(lambda x, y: k.make("add", (x, y), F32), parts)
    rewrite = Rewrite(k, {}, instead=lambda v: total if v.op == "acc" else None)
    stores = [s for s in second.stores if s.buffer not in unread]
    other = other._replace(body=rewrite.body(stores))
    vector = next(n for n in (SUMMED, 1) if count % n == 0)
    return made, Schedule(other, False, THREADS, vector, (), True), between


def _fits(second: Product, clusters: int) -> bool:
    """Whether clusters can have some rows of a product each, and blocks of them its columns."""
    vector = second.schedule.vector
    columns, rest = divmod(second.columns, CLUSTER)
    if rest or columns % vector or columns // vector not in (4, 8, 16, WARP):
        return False
    groups = CLUSTER_THREADS // (columns // vector)
    return second.rows % (clusters * groups) == 0 and (
        second.rows // (clusters * groups) <= MAX_ROWS
    )


# --- chains ---------------------------------------------------------------------------------------


class _Found(Record):
    """What makes a chain: the first product, how clusters make its columns, parts between with
    their slots, the second product, the slots of what the first makes and the second multiplies,
    and how many units these are."""

    first: Product
    step: Step
    between: list[tuple[Part, tuple[int, ...]]]
    second: Product
    vectors: tuple[int, int]
    clusters: int
    count: int  # type: ignore[assignment]  # a field, not the method of tuples


def link(
    units: Sequence[Any],
    only: Callable[[int, int], bool],
    same_memory: Callable[[int, int], bool],
    slot: Callable[[str, int], int],
) -> tuple[Linked, Sums, int] | None:
    """The first of some units as a chain, what sums its results, and how many units these are.

    ``only`` says whether no more than so many nodes have a slot, ``slot`` makes one.
    """
    first = product(units[0][1])
    vector = None if first is None else _made(first)
    if first is None or vector is None:
        return None
    second = product(units[1][1]) if len(units) > 1 else None
    if second is not None:
        found = _pair(first, second, vector, only)
    else:
        found = _around_attention(first, vector, units, only)
    if found is None or not _apart(found, same_memory):
        return None
    linked, sums = _linked(found, only, slot)
    return linked, sums, found.count


def _pair(
    first: Product, second: Product, vector: int, only: Callable[[int, int], bool]
) -> _Found | None:
    """Two products of which the second multiplies what the first makes."""
    if not _reads_rows(second, vector) or not only(vector, 2):
        return None
    for columns in TURN_COLUMNS:
        turns, rest = divmod(first.columns, columns * MAX_CLUSTERS)
        made = None if rest else _turn(first, columns, turns)
        if made is not None and _fits(second, MAX_CLUSTERS):
            step = Step(made, (), turns, turns, 1)
            return _Found(first, step, [], second, (vector, vector), MAX_CLUSTERS, 2)
    return None


def _around_attention(
    first: Product, vector: int, units: Sequence[Any], only: Callable[[int, int], bool]
) -> _Found | None:
    """Two products with attention of one row between, and what is kept for it."""
    count = 1
    while count < len(units) and units[count][1] is not None:
        count += 1
    between = [part for _, part in units[1:count]]
    node = units[count][0] if count + 1 < len(units) else None
    second = product(units[count + 1][1]) if node is not None else None
    if not isinstance(node, Op) or node.eqn.primitive.name != "decode_attention" or second is None:
        return None
    batch, heads, shared, _, depth = node.eqn.params["sizes"]
    width, out = heads * depth, node.outs[0]
    turns, rest = divmod(first.columns, width)
    if batch != 1 or shared != heads or rest or not FEWEST_CLUSTERS <= heads <= MAX_CLUSTERS:
        return None
    made = _turn(first, depth, turns)
    if (
        made is None
        or second.rows != width
        or not _fits(second, heads)
        or not _reads_rows(second, out)
    ):
        return None
    if not only(out, 2) or not only(vector, 2 + len(between)):
        return None
    texts = part_of_attention(node, CLUSTER, CLUSTER_THREADS)
    if texts is None or not _of_heads(node, vector, depth, width):
        return None
    parts = [_part(part, node, vector, depth, width) for part in between]
    kept = [part for part in parts if part is not None]
    if len(kept) < len(parts):
        return None
    near, whole = texts
    steps = [*kept, (Part(whole, 0, near), (*node.ins, out))]
    step = Step(made, (), turns, 1, heads)
    return _Found(first, step, steps, second, (vector, out), heads, count + 2)


def _apart(found: _Found, same_memory: Callable[[int, int], bool]) -> bool:
    """Whether what parts write to is read by the attention of the same head alone."""
    written = {s for part in found.between for s in _written(*part)}
    others = {s for _, slots in found.between for s in slots} - written
    others |= {*found.first.slots, *found.second.slots}
    return not any(same_memory(x, y) for x in written for y in others)


def _of_heads(node: Op, vector: int, depth: int, width: int) -> bool:
    """Whether what a cluster has of a vector is what the attention of its head reads of it."""
    for slot, (offset, _, head, row) in zip(node.ins[:3], node.eqn.params["places"], strict=True):
        if head != depth or offset % width or (slot != vector and row % width):
            return False
    return node.ins[0] == vector and vector not in node.ins[1:]


def _part(
    part: Any, node: Op, vector: int, depth: int, width: int
) -> tuple[Part, tuple[int, ...]] | None:
    """A kernel that keeps keys or values, by the part of each head, and its slots; or None."""
    made = part.schedule
    kernel = made.kernel
    slots = tuple(spot.slot for spot in part.spots)
    if made.shares or made.tile is not None or made.iterations != width or kernel.serial:
        return None
    if not all(isinstance(s, Store) for s in kernel.body) or any(s.offset for s in part.spots):
        return None
    if vector not in slots:
        return None
    axes = [axis for axis in kernel.grid_axes if axis[1] > 1]
    here, names = position(axes), {name for name, _ in axes}

    def own(at: Affine) -> bool:
        """Whether a part of the elements is a part of each row of so many."""
        terms = tuple((axis, n) for axis, n in at.terms if axis in names)
        return terms == here.terms and at.const % width == 0

    number = made.buffers[slots.index(vector)]
    for v in loads(kernel.body):
        if v.attr[0] == number and (v.args or not own(v.attr[1])):
            return None
    for s in kernel.body:
        if slots[made.buffers.index(s.buffer)] not in node.ins[1:3] or not own(s.at):
            return None
        if s.offset is not None and not _multiple(s.offset, width):
            return None
    return Part(made._replace(threads=depth, vector=1), depth), slots


def _multiple(v: Value, width: int) -> bool:
    """Whether a number is a multiple of another."""
    if v.op == "const":
        return int(np.frombuffer(v.attr, v.dtype)[0]) % width == 0
    return v.op == "mul" and any(_multiple(x, width) for x in v.args)


def _linked(
    found: _Found, only: Callable[[int, int], bool], slot: Callable[[str, int], int]
) -> tuple[Linked, Sums]:
    second = found.second
    known = dict(zip(second.schedule.buffers, second.slots, strict=True))
    unread = {i for i, s in known.items() if only(s, 1)} & {s.buffer for s in second.stores}
    made, summing, between = _halves(second, found.clusters, unread)
    room = made.kernel.buffers[between]
    known[between] = slot("temp", room.size * room.dtype.itemsize)
    made, used = _used(made, list(known))
    steps: list[tuple[Any, tuple[int, ...]]] = [
        (found.step, found.first.slots),
        *found.between,
        (made, tuple(known[i] for i in used)),
    ]
    inside = list(dict.fromkeys(found.vectors))
    outside = list(dict.fromkeys(s for _, given in steps for s in given if s not in inside))
    order, sizes = [*outside, *inside], _sizes(found, steps[-1])
    chain = Chain(
        tuple(_placed(what, tuple(map(order.index, given))) for what, given in steps),
        len(outside),
        tuple(sizes[s] for s in inside),
        found.clusters,
        CLUSTER,
    )
    writes = frozenset([known[between], *(s for x in found.between for s in _written(*x))])
    products = ((found.step.what, found.first.slots), steps[-1])
    matrices = tuple(_matrix(what, given, outside) for what, given in products)
    linked = Linked(chain, tuple(outside), frozenset(outside) - writes, writes, matrices)
    summing, used = _used(summing, list(known))
    reads = tuple(b.role == "in" for b in summing.kernel.buffers)
    return linked, Sums(summing, tuple(known[i] for i in used), reads)


def _placed(what: Any, places: tuple[int, ...]) -> Step:
    return what._replace(places=places) if isinstance(what, Step) else Step(what, places)


def _sizes(found: _Found, last: tuple[Schedule, tuple[int, ...]]) -> dict[int, int]:
    """The bytes of slots of products."""
    sizes = {}
    for what, given in ((found.step.what, found.first.slots), last):
        for i, s in zip(what.buffers, given, strict=True):
            sizes[s] = what.kernel.buffers[i].size * what.kernel.buffers[i].dtype.itemsize
    return sizes


def _written(part: Part, slots: tuple[int, ...]) -> list[int]:
    """The slots that a part between products writes to, beyond what blocks keep."""
    if not part.elements:
        return []
    made = part.schedule
    pairs = zip(made.buffers, slots, strict=True)
    return [s for i, s in pairs if made.kernel.buffers[i].role == "out"]


def _matrix(what: Schedule, given: tuple[int, ...], outside: list[int]) -> tuple[int, int]:
    """Which parameter the matrix of a product is, and its bytes."""
    number = read_once(what).attr[0]
    b = what.kernel.buffers[number]
    return outside.index(given[what.buffers.index(number)]), b.size * b.dtype.itemsize


def copied(chain: Chain) -> int:
    """Bytes that a block of a chain copies to shared memory."""
    first = chain.steps[0]
    return first.turns * copied_bytes(first.what)


def held(chain: Chain) -> int:
    """Bytes that a thread of a chain has in registers."""
    return COPIED * chain.steps[-1].what.rows
