"""Programs as commands: kernels compiled and loaded, operations lowered, memory planned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from operator import eq
from typing import Any

import numpy as np

from weft.backends.cuda import commands as c
from weft.backends.cuda import driver, groups, messages, ptx
from weft.backends.cuda.chain import Chain, Linked, Sums, copied, link, mentioned
from weft.backends.cuda.loops import Collector, Grid, Region, Unfit, choose
from weft.backends.cuda.ptx import NAME
from weft.backends.cuda.routines.base import Fill, Library, Move, Place, Routine, Run
from weft.backends.cuda.routines.products import in_order
from weft.backends.cuda.routines.table import HOST, SILENT, lower
from weft.backends.cuda.schedule import (
    Parts,
    Schedule,
    code_of,
    operations,
    read_once,
    schedule,
)
from weft.backends.cuda.text import runs
from weft.backends.cuda.text.join import render as render_joined
from weft.backends.cuda.text.loops import Text, text_of
from weft.backends.cuda.text.render import render
from weft.base import disk, knobs, observing, progress
from weft.base.background import is_leaving
from weft.base.cores import threads
from weft.base.forks import across_forks
from weft.base.functional import lru
from weft.base.record import Record
from weft.compiler.arena import Life, arrange
from weft.compiler.watch import Watch, equations_of, primitive_names
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.program import (
    Branch,
    Collective,
    Copy,
    For,
    Host,
    Launch,
    Op,
    Point,
    Program,
    Swap,
    Type,
    While,
    inner_regions,
)

# Primitives that the name of a kernel says.
MAX_NAMES = 4
# Kernels that may be one launch, and small ones that need nothing of each other.
MAX_JOINED, MAX_SMALL_JOINED = 8, 32
# Blocks of one of the parts of a kernel that are one launch.
MAX_APART_BLOCKS = 1 << 24
# Operations whose routines are one kernel, which may be joined with those before it.
JOINED_ROUTINES = frozenset(["decode_attention"])
# Threads that compile at a time.
MAX_COMPILERS = 16
# Seconds for which better code is put off while calls wait for other code.
LONGEST_PASS = 1.0


@driver.per_device(1024)
def load(module: ptx.GpuModule, dynamic: int = 0, label: str = NAME) -> driver.Function:
    """A kernel from its module, compiled by another thread, or from the disk, where its
    machine code is kept as the CPU's is; it has to be loaded before it is launched.

    Its name, which profilers show, begins with what it does. Its first code may be made quickly;
    `improve` has it made with care.
    """
    known = "".join([x if x.isalnum() else "_" for x in label])
    name = f"{known}_{disk.digest(str(module).encode()).hex()[:8]}"
    device, unnamed = driver.device(), module
    module = module.renamed({NAME: name})
    key = disk.digest(f"cuda sm_{device.architecture} {ptx.version()}\n{module}".encode())
    code = disk.load(key)
    waits = module.waits and device.architecture >= ptx.HOPPER
    if code is not None:
        return driver.Function(code, name, dynamic, waits, key)
    where, quick = knobs.thread.cache, None
    if knobs.gpu_compile_twice.value and not observing.thread.in_background:
        quick = ptx.soon(unnamed, dynamic)
    line = progress.expect(1)
    if quick is None:
        later = _waited_for.submit(_compiled, module, key, device, where, line)
        return driver.Function(later, name, dynamic, waits, key)
    first = disk.digest(b"soon" + key)
    soon = disk.load(first)
    if soon is None:
        quick = quick.renamed({NAME: name})
        made = _waited_for.submit(_compiled, quick, first, device, where, line)
        function = driver.Function(made, name, dynamic, waits, key)
    else:
        progress.finish(line, 1)
        function = driver.Function(soon, name, dynamic, waits, key)
    function.better = lambda: _compiled(module, key, device, where)
    return function


def improve(kernels: Sequence[driver.Function]) -> bool:
    """Make better code of kernels that were made quickly; whether all of them have it."""
    device = driver.device()

    def make(kernel: driver.Function) -> bool:
        _waited_for.let_pass()
        if is_leaving():
            return False
        device.use()
        kernel.improve()
        return True

    try:
        made = [_improvers().submit(make, kernel) for kernel in kernels]
        return False not in [x.result() for x in made]
    except RuntimeError:  # the process ends, or the device is lost, which calls say
        return False


@driver.per_device(1024)
def load_known(key: bytes, name: str, dynamic: int, waits: bool) -> driver.Function | None:
    """A kernel whose machine code is on the disk; None where it isn't."""
    code = disk.load(key)
    return None if code is None else driver.Function(code, name, dynamic, waits, key)


@lru(1)
def _compilers() -> Any:
    """Threads that compile kernels side by side."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(threads(), MAX_COMPILERS), "weft compiles")


class _WaitedFor:
    """Compiles that a call waits for, which others let pass."""

    def __init__(self) -> None:
        self._count, self._changed = 0, across_forks(threading.Condition())

    def submit(self, function: Callable[..., bytes], *given: Any) -> Callable[[], bytes]:
        """Have code made, and what waits for it."""
        self._add(1)
        try:
            made = _compilers().submit(function, *given)
        except RuntimeError:  # the process ends
            self._add(-1)
            raise
        made.add_done_callback(lambda made: self._add(-1))
        return made.result

    def _add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def let_pass(self) -> None:
        """Wait until no call waits for code, but not for long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, LONGEST_PASS)


_waited_for = _WaitedFor()


@lru(1)
def _improvers() -> Any:
    """Threads that make better code while programs run."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(threads() // 4, 1), "weft improves")


def _compiled(
    module: ptx.GpuModule, key: bytes, device: driver.Device, where: str, line: Any = None
) -> bytes:
    device.use()
    level = 1 if module.effort.is_quick else 4
    code = driver.link(ptx.assemble(module, device.architecture), level=level)
    with knobs.cache(where):  # that of the thread that asked
        disk.save(key, code)
    progress.finish(line, 1)
    return code


def unaligned(nodes: Sequence[Any], under: dict[int, Any]) -> set[int]:
    """Views that loops may point at memory that doesn't begin at a multiple of 16 bytes."""
    found: set[int] = set()

    def look(nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(node, For):
                found.update(view for view, _, size in node.slices if size % 16)
            for region in inner_regions(node):
                look(region)

    look(nodes)
    more = found
    while more:  # views of views
        more = {v for v, bases in under.items() if v not in found and not more.isdisjoint(bases)}
        found |= more
    return found


# Places of routines that are read.
READ = ("in", "const")


def written(nodes: Sequence[Any]) -> Iterator[int]:
    """The slots that nodes may write to."""
    for node in nodes:
        if isinstance(node, Launch):
            outside = [b for b in node.kernel.buffers if b.role != "row"]
            pairs = zip(outside, node.slots, strict=True)
            yield from (slot for b, slot in pairs if b.role == "out")
        elif isinstance(node, Copy):
            yield node.target
        elif isinstance(node, (Op, Host, Collective)):
            yield from node.outs
        for region in inner_regions(node):
            yield from written(region)


def swapped(nodes: Sequence[Any]) -> Iterator[frozenset[int]]:
    """Pairs of views that change places."""
    for node in nodes:
        if isinstance(node, Swap):
            yield frozenset((node.first, node.second))
        for region in inner_regions(node):
            yield from swapped(region)


# Where what a launch prefetches is, and its bytes.
_Ahead = tuple[tuple[c.Spot, int], ...]
# Bytes up to which a kernel copies.
SMALL_COPY = 1 << 10
# How many launches before it is read something is prefetched; chains have more to read, and time.
AHEAD, AHEAD_OF_CHAINS = 2, 1


class Part(Record):
    """A kernel, where its buffers are, and which of them are only read; ``key`` is its own."""

    key: Any
    schedule: Schedule
    spots: tuple[c.Spot, ...]
    reads: tuple[bool, ...]


@lru(64)
def _copying(size: int) -> Kernel:
    """A kernel that copies bytes: small ones as part of a launch of others take no time."""
    at = affine(0, {"byte": 1})
    byte = np.dtype(np.uint8)
    store = Store(1, at, Builder().make("load", (), byte, (0, at)))
    buffers = [Buffer(byte, size, "in"), Buffer(byte, size, "out")]
    return Kernel("copy", buffers, ("byte", size), [store])


def _later(launches: Sequence[tuple[bool, bool, _Ahead]], again: bool) -> list[_Ahead]:
    """The matrices that each of some launches prefetches for a later one, of whether they are
    kernels, whether chains, and what they read; the last ones do so for the first, if these are
    done ``again``."""
    found: list[_Ahead] = [()] * len(launches)
    for i, (_, chained, matrices) in enumerate(launches):
        before = i - (AHEAD_OF_CHAINS if chained else AHEAD)
        if matrices and before >= 0:
            found[before] += matrices
    if again:
        idle = [i for i, (kernel, *_) in enumerate(launches) if kernel and not found[i]]
        first = [matrices for *_, matrices in launches if matrices][:AHEAD]
        for i, matrices in zip(idle[-len(first) :] if first else (), first, strict=False):
            found[i] = matrices
    return found


class Assembled(Record):
    """A Program as commands, with where its memory is.

    What is known of commands, by id: ``only_read``, ``operations``, ``around`` and ``sources``, the
    operation that one was made of, and whether it is the first of these. ``beginnings``
    are called before each run. ``saved`` are bytes of values that are computed again, not kept.
    """

    program: Program
    commands: tuple[Any, ...]
    offsets: list[int]
    arena: int
    roles: list[str]
    sizes: list[int]
    constants: dict[int, np.ndarray]
    only_read: dict[int, tuple[Any, frozenset[int]]]
    operations: dict[int, int]
    around: dict[int, Any]
    sources: dict[int, tuple[Any, Deferred, bool]]
    beginnings: tuple[Any, ...]
    saved: int = 0


class Deferred(Record):
    """An operation that becomes commands when it is needed, with its label and the user's lines."""

    node: Any
    label: str
    lines: tuple[Any, ...]


class Assembler:
    """A Program while it becomes commands."""

    def __init__(self, program: Program, watch: Watch | None = None) -> None:
        self.program, self.watch = program, watch
        # of the node at hand: what its kernels are called, and where the user asked for it
        self.label, self.lines = NAME, ()
        self.sizes = [slot.size for slot in program.slots]
        self.roles = [slot.role for slot in program.slots]
        self.constants: dict[int, np.ndarray] = {}  # by slot, beyond those of the program
        self.schedules: dict[Any, Parts] = {}
        self.kernels: dict[Any, Any] = {}
        self.loops: dict[int, Any] = {}  # by the id of a node: it, and what its kernel does
        # of commands with regions, by id: what is in use throughout, the first slot of their own
        self.around: dict[int, Any] = {}
        # commands that name all memory that they touch, with the slots that they only read, by id
        self.only_read: dict[int, tuple[Any, frozenset[int]]] = {}
        # operations of kernels of the compiler, and what operations commands are of, by the same
        self.operations: dict[int, int] = {}
        self.sources: dict[int, tuple[Any, Deferred, bool]] = {}
        self.unaligned = unaligned(program.nodes, program.under)
        self.pairs = set(swapped(program.nodes))
        self.sharing = self.same_memory if "view" in self.roles else eq
        self.written = {s for slot in written(program.nodes) for s in self.under(slot)}
        self.mentioned = mentioned(program.nodes)
        # what is called before each run, by the members that messages go between
        self.beginnings: dict[Any, Any] = {}
        self.nested = 0  # how many loops of unknown length and branches are around
        for number, slot in enumerate(program.slots):
            if slot.role == "const":
                self.constants[number] = program.constants[slot.what]

    def assembled(self, commands: tuple[Any, ...]) -> Assembled:
        """The whole, of which these are the commands, with its memory planned."""
        offsets, arena = self.plan(commands)
        return self.gathered(commands)._replace(offsets=offsets, arena=arena)

    def gathered(self, commands: tuple[Any, ...]) -> Assembled:
        """The whole, of which these are the commands."""
        return Assembled(
            self.program,
            commands,
            [],
            0,
            self.roles,
            self.sizes,
            self.constants,
            self.only_read,
            self.operations,
            self.around,
            self.sources,
            tuple(self.beginnings.values()),
        )

    def noted(self, node: Any, made: list[Any]) -> list[Any]:
        """Commands, with a note of the operation that they are of."""
        # offers for epilogues are asked for again
        kept = node.offer if node.epilogue is None else None
        deferred = Deferred(node._replace(offer=kept), self.label, self.lines)
        for i, command in enumerate(made):
            self.sources[id(command)] = (command, deferred, i == 0)
        return made

    def nodes(self, nodes: Sequence[Any], again: bool = False) -> tuple[Any, ...]:
        """Commands of nodes, which may be done again and again."""
        found: list[Any] = []
        units = self.linked([unit for node in self.reordered(nodes) for unit in self.units(node)])
        launches: list[tuple[list[Any], list[groups.Accesses], int]] = []
        while units:
            together, repeated = self.apart(units), 0
            if len(together) < 2:
                together, repeated = self.together(units[:MAX_JOINED])
            if len(together) == MAX_JOINED and not repeated:
                read = lambda unit, last: self.accesses(unit[0], unit[1], last)
                rest = units[MAX_JOINED:MAX_SMALL_JOINED]
                together = groups.more(together, rest, read, self.sharing)
            count = max(1, len(together))
            launches.append((units[:count], together, repeated))
            units = units[count:]
        last = [members[-1][1] for members, _, _ in launches]
        kinds = [(x is not None, isinstance(x, Linked), self.matrix(x)) for x in last]
        later = _later(kinds, again)
        runs_from = {run.start: run for run in self.runs_of([members for members, *_ in launches])}
        at = 0
        while at < len(launches):
            run = runs_from.get(at)
            if run is not None:
                units = [unit for members, *_ in launches[at : run.stop] for unit in members]
                made = self.run(units, run)
                if made is not None:
                    found += made
                    at = run.stop
                    continue
            members, together, repeated = launches[at]
            ahead = later[at]
            at += 1
            self.tell(members)
            node, part = members[0]
            if len(together) > 1 or isinstance(part, Linked):
                found.append(self.joined(together, repeated, ahead))
            elif part is not None:
                found.append(self.launched(part, ahead))
            else:
                found += self.node(node)
        return tuple(found)

    def tell(self, members: Sequence[Any]) -> None:
        """Note what the next launch does, and the lines of those who asked for it."""
        nodes = {id(node): node for node, _ in members}
        origins = [self.origin(node) for node in nodes.values()]
        self.label = origins[-1][0]
        self.lines = tuple(dict.fromkeys(line for _, lines in origins for line in lines))

    def runs_of(self, launches: Sequence[Sequence[Any]]) -> list[runs.Run]:
        """Which launches are one."""
        if len(launches) < runs.MIN_LAUNCHES:
            return []
        device = driver.device()
        clusters = device.architecture >= ptx.HOPPER
        launch = runs.launch_of(launches, clusters and not self.nested)
        steps: list[runs.Step | None] = []
        for members in launches:
            one = runs.step(members, device.multiprocessors, launch)
            node = members[0][0]
            if one is None and isinstance(node, (For, While)) and steps and steps[-1] is not None:
                made = self.loop_item(node)
                one = None if isinstance(made, str) else runs.loop_step(*made)
            steps.append(one)
        grids = runs.blocks(device.multiprocessors, clusters)
        if self.nested:  # what runs on a condition is launched as most kernels are
            grids = [grid for grid in grids if not grid.waits]
        sizes = lambda slot: self.sizes[slot]
        return runs.cut(steps, grids, sizes, self.same_memory, launch)

    def run(self, units: Sequence[Any], run: runs.Run) -> list[Any] | None:
        """Kernels that follow each other as one, of which the last may be a loop; None where that
        can't be."""
        # where views are is known before the launch
        before = [x for node, _ in units if isinstance(node, Point) for x in self.point(node)]
        units = [unit for unit in units if not isinstance(unit[0], Point)]
        self.tell(units)
        last = units[-1][0]
        if isinstance(last, (For, While)):
            made = self.one_kernel(last, runs.items_of_units(units[:-1]))
            return None if isinstance(made, str) else [*before, *made]
        items, slots = runs.numbered(runs.items_of_units(units))
        same = runs.pairs(slots, self.same_memory)
        key = ("run", run.grid, same, runs.key_of(items))
        if key not in self.kernels:
            alike = lambda a, b: (min(a, b), max(a, b)) in same
            most = driver.device().shared_memory
            early = not run.grid.waits
            try:
                text = text_of(run.grid, alike, len(slots), most, items, lambda slot: 0, early)
                self.kernels[key] = self.loaded(text), text
            except Unfit:
                self.kernels[key] = None
        if self.kernels[key] is None:
            return None
        function, text = self.kernels[key]
        if len(slots) in text.slots:
            slots.append(self.slot("temp", 4))
            self.count_in(slots[-1])
        spots = tuple(c.Spot(slots[i]) for i in text.slots)
        sizes = run.grid.blocks, run.grid.threads
        if run.grid.waits:
            told = f"{len(units)} kernels, {text.barriers} barriers"
            whole = c.LoopKernel(function, *sizes, spots, (), (), told, function.name, self.lines)
            return [*before, whole]
        found = c.Launched(function, *sizes, spots, (), function.name, self.lines)
        self._reads(found, [i not in runs.written(items) for i in text.slots])
        self.operations[id(found)] = sum(operations(part.schedule) for _, part in units if part)
        return [*before, found]

    def loaded(self, text: Text) -> Any:
        """The kernel of a loop; its module, which is kept, then holds nothing of the program."""
        function = load(text.module, text.dynamic, self.label)
        text.module.compact = None
        return function

    def node(self, node: Any) -> list[Any]:
        """The commands of a node that is no kernel."""
        made = getattr(self, _METHODS[type(node)])(node)
        return self.noted(node, made) if type(node) is Op else made

    def reordered(self, nodes: Sequence[Any]) -> Iterable[Any]:
        """Nodes with products that write their results in the order of axes that is wanted."""
        return in_order(nodes, self.only, self.same_memory)

    def only(self, slot: int, count: int) -> bool:
        """Whether so many nodes have a slot, which holds nothing else."""
        if self.roles[slot] != "temp" or self.mentioned[slot] != count:
            return False
        return not any(slot in bases for bases in self.program.under.values())

    def linked(self, units: list[Any]) -> list[Any]:
        """Units with products that follow each other as chains."""
        if not any(part is not None and part.schedule.cluster for _, part in units):
            return units
        found: list[Any] = []
        while units:
            made = link(units[:MAX_JOINED], self.only, self.same_memory, self.slot)
            if made is None:
                found.append(units.pop(0))
                continue
            chain, sums, count = made
            found += [(units[0][0], chain), (units[count - 1][0], self.summing(sums))]
            units = units[count:]
        return found

    def summing(self, sums: Sums) -> Part:
        """The kernel that sums what the clusters of a chain have."""
        spots = tuple(map(c.Spot, sums.slots))
        return Part(sums.schedule.key, sums.schedule, spots, sums.reads)

    def matrix(self, part: Part | Linked | None) -> _Ahead:
        """Where what a kernel copies near before it begins is, and its bytes."""
        if isinstance(part, Linked):
            return tuple((c.Spot(part.slots[at]), size) for at, size in part.matrices)
        if part is None or not part.schedule.cluster:
            return ()
        number = read_once(part.schedule).attr[0]
        b = part.schedule.kernel.buffers[number]
        spot = part.spots[part.schedule.buffers.index(number)]
        return ((spot, b.size * b.dtype.itemsize),)

    def units(self, node: Any) -> list[tuple[Any, Part | None]]:
        """A node, with each part of its kernel, if it is one."""
        if isinstance(node, Copy) and node.size <= SMALL_COPY:
            copying = _copying(node.size)
            spots = [c.Spot(node.source), c.Spot(node.target)]
            return [(node, part) for part in self.parts(copying, spots, False, True)]
        if not isinstance(node, Launch):
            return [(node, None)]
        distinct = self.distinct(node.slots)
        aligned = self.unaligned.isdisjoint(node.slots)
        parts = self.parts(node.kernel, [c.Spot(s) for s in node.slots], aligned, distinct)
        return [(node, part) for part in parts]

    def apart(self, units: Sequence[Any]) -> list[groups.Accesses]:
        """The first of some units that are parts of one kernel and write different elements: one
        launch, whatever their sizes."""
        found: list[groups.Accesses] = []
        for node, part in units:
            if node is not units[0][0] or not isinstance(part, Part) or not part.schedule.apart:
                break
            slots = tuple(spot.slot for spot in part.spots)
            one = groups.accesses(part.schedule, slots, MAX_APART_BLOCKS)
            if one is None or part.schedule.shares or not self.unaligned.isdisjoint(slots):
                break
            if found and part.schedule.block_threads != found[0].schedule.block_threads:
                break
            found.append(one)
        return found

    def together(self, units: Sequence[Any]) -> tuple[list[groups.Accesses], int]:
        """The first of some units that are one launch, and how many of them all blocks do."""
        read = lambda unit, last: self.accesses(unit[0], unit[1], last)
        return groups.together(units, read, self.sharing)

    def accesses(self, node: Any, part: Part | None, last: bool) -> groups.Accesses | None:
        """A launch that may be joined with others; only the ``last`` of them is a routine."""
        if isinstance(part, Linked):
            return groups.Accesses(part.chain, part.slots, part.reads, part.writes)
        if part is not None:
            slots = tuple(spot.slot for spot in part.spots)
            fits = self.unaligned.isdisjoint(slots)
            return groups.accesses(part.schedule, slots) if fits else None
        routine = isinstance(node, Op) and last and node.eqn.primitive.name in JOINED_ROUTINES
        return self.routine_accesses(node) if routine else None

    def routine_accesses(self, node: Op) -> groups.Accesses | None:
        routine = self.lowered(node)
        if routine is None or len(routine.steps) != 1 or not isinstance(routine.steps[0], Run):
            return None
        (run,) = routine.steps
        if run.dynamic or run.numbers or run.blocks > groups.MAX_BLOCKS:
            return None
        places = self.places(routine, node)
        slots = tuple(places(place).slot for place in run.places)
        reads = frozenset(s for s, p in zip(slots, run.places, strict=True) if p.kind in READ)
        made = groups.Stub(run.module, run.blocks, run.threads)
        return groups.Accesses(made, slots, reads, frozenset(slots) - reads)

    def joined(self, pieces: list[groups.Accesses], repeated: int, ahead: _Ahead = ()) -> Any:
        """Kernels as one launch, which prefetches something for a later one."""
        slots = list(dict.fromkeys(slot for piece in pieces for slot in piece.slots))
        distinct = self.distinct(slots)
        made = groups.Joined(tuple(p.piece(slots) for p in pieces), repeated, distinct)
        own = [(groups.code_of(s), at) for s, at, _ in made.pieces]
        key = (repeated, distinct, len(ahead), *own)
        if key not in self.kernels:
            last = made.pieces[-1].schedule
            dynamic = copied(last) if isinstance(last, Chain) else 0
            self.kernels[key] = load(render_joined(made, len(ahead)), dynamic, self.label)
        function = self.kernels[key]
        sizes = made.blocks, made.block_threads
        spots = (*map(c.Spot, slots), *(spot for spot, _ in ahead))
        numbers = tuple(size for _, size in ahead)
        found = c.Launched(function, *sizes, spots, numbers, function.name, self.lines)
        self._reads(found, [*made.only_read, *[True] * len(ahead)])
        if all(isinstance(p.schedule, Schedule) for p in made.pieces):
            self.operations[id(found)] = sum(operations(p.schedule) for p in made.pieces)
        return found

    def origin(self, node: Any) -> tuple[str, tuple[Any, ...]]:
        """What a node does, in a word, and the places in the user's code that asked for it."""
        seen = None if self.watch is None else self.watch.owners.get(id(node))
        if seen is not None:
            eqns = equations_of(seen)
        else:
            eqns = [node.eqn] if isinstance(node, (Op, Host)) else []
        names = [name.partition(" ")[0] for name in primitive_names(eqns)]
        return "_".join(names[:MAX_NAMES]) or NAME, tuple(
            dict.fromkeys(eqn.source_info for eqn in eqns)
        )

    def slot(self, role: str, size: int) -> int:
        self.sizes.append(size)
        self.roles.append(role)
        return len(self.sizes) - 1

    def count_in(self, slot: int) -> None:
        """Have a slot be what barriers of a grid count in."""
        self.roles[slot], self.constants[slot] = "const", np.zeros(1, np.uint32)

    # --- nodes ------------------------------------------------------------------------------------

    def parts(
        self, kernel: Kernel, spots: Sequence[c.Spot], aligned: bool, distinct: bool
    ) -> list[Part]:
        """The kernels that one becomes, and where their buffers are."""
        outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        sizes = [kernel.buffers[i].size * kernel.buffers[i].dtype.itemsize for i in outside]
        early = bool(sizes) and self.unchanged(spots[sizes.index(max(sizes))].slot)
        early = early and driver.device().architecture >= ptx.HOPPER
        key = (code_of(kernel), aligned, distinct, early)
        if key not in self.schedules:
            self.schedules[key] = schedule(kernel, aligned, distinct, early)
        return self.placed(key, kernel, dict(zip(outside, spots, strict=True)))

    def placed(self, key: Any, kernel: Kernel, known: dict[int, c.Spot]) -> list[Part]:
        """The kernels of a schedule that is known by a key, and where their buffers are."""
        parts, scratch = self.schedules[key]
        inputs = {i for i, b in enumerate(kernel.buffers) if b.role == "in"}
        for i, b in enumerate(scratch):
            known[len(kernel.buffers) + i] = c.Spot(self.slot("temp", b.size * b.dtype.itemsize))
        # parts write scratch memory, and some of them what others of them read
        return [
            Part(
                (*key, number),
                part,
                tuple(known[i] for i in part.buffers),
                tuple(i in inputs for i in part.buffers),
            )
            for number, part in enumerate(parts)
            if part.iterations
        ]

    def unchanged(self, slot: int) -> bool:
        """Whether a slot holds what it did when the program began."""
        return self.roles[slot] in ("arg", "const") and slot not in self.written

    def launched(self, part: Part, ahead: _Ahead = ()) -> Any:
        """A kernel as a launch of its own, which prefetches something for a later one."""
        made, name = part.schedule, part.schedule.kernel.name
        spots, numbers = tuple(spot for spot, _ in ahead), tuple(size for _, size in ahead)
        key = (*part.key, len(spots))
        if key not in self.kernels:
            label = self.label if name == "k" else name
            self.kernels[key] = load(render(made, len(spots)), 0, label)
        function = self.kernels[key]
        sizes = made.blocks, made.block_threads
        found = c.Launched(
            function, *sizes, (*part.spots, *spots), numbers, function.name, self.lines
        )
        self._reads(found, (*part.reads, *[True] * len(spots)))
        self.operations[id(found)] = operations(made)
        return found

    def _reads(self, command: Any, reads: Sequence[bool]) -> None:
        """Note which slots a command only reads: those of spots that it reads, and of no others."""
        slots: dict[bool, set[int]] = {True: set(), False: set()}
        for spot, read in zip(command.spots, reads, strict=True):
            slots[read].add(spot.slot)
        self.only_read[id(command)] = command, frozenset(slots[True] - slots[False])

    def operation(self, node: Op | Host) -> list[Any]:
        eqn = node.eqn
        types = [[Type(x.aval.shape, x.aval.dtype) for x in xs] for xs in (eqn.invars, eqn.outvars)]
        if not any(prod(t.shape) for t in types[1]) and not eqn.effects:
            return []
        if isinstance(node, Op):
            routine = self.lowered(node)
            if routine is not None:
                return self.routine(routine, node)
        if eqn.primitive.name == "platform_index":
            value = np.asarray(eqn.primitive.index_of(eqn.params["platforms"], "cuda"))
            number = self.slot("const", value.nbytes)
            self.constants[number] = value
            return [c.Moved(c.Spot(node.outs[0]), c.Spot(number), value.nbytes)]
        if eqn.primitive.name not in SILENT and (
            isinstance(node, Op) or eqn.primitive.name in HOST
        ):
            c.warn_of(eqn.primitive.name)
        return [c.OnHost(eqn, tuple(node.ins), tuple(node.outs))]

    def lowered(self, node: Op) -> Routine | None:
        eqn = node.eqn
        ins, outs = (
            [Type(x.aval.shape, x.aval.dtype) for x in xs] for xs in (eqn.invars, eqn.outvars)
        )
        return lower(node, ins, outs)

    def places(self, routine: Routine, node: Op) -> Callable[[Place], c.Spot]:
        """Where the places of a routine are."""
        rooms = [self.slot("temp", size) for size in routine.scratch]
        slots = {"in": node.ins, "out": node.outs, "scratch": rooms, "slot": node.slots}
        held: dict[int, int] = {}  # slots of constants, which steps share

        def spot(place: Place) -> c.Spot:
            if place.kind in ("const", "state"):
                if id(place.what) not in held:
                    held[id(place.what)] = self.slot("const", place.what.nbytes)
                    self.constants[held[id(place.what)]] = place.what
                return c.Spot(held[id(place.what)])
            return c.Spot(slots[place.kind][place.what], place.offset)

        return spot

    def routine(self, routine: Routine, node: Op) -> list[Any]:
        spot = self.places(routine, node)
        name = node.eqn.primitive.name
        found: list[Any] = []
        for step in routine.steps:
            if isinstance(step, Run):
                spots = tuple(map(spot, step.places))
                function = load(ptx.bounded(step.module, step.threads), step.dynamic, name)
                sizes, told = (step.blocks, step.threads), function.name
                found.append(c.Launched(function, *sizes, spots, step.numbers, told, self.lines))
            elif isinstance(step, Fill):
                found.append(c.Filled(spot(step.place), step.value, step.size))
            elif isinstance(step, Move):
                target, source = spot(step.target), spot(step.source)
                if target != source:  # the result may have the memory of the operand
                    found.append(c.Moved(target, source, step.size))
            elif isinstance(step, Library):
                spots = tuple(map(spot, step.places))
                told = step.name or name
                found.append(c.Called(step.function, spots, told, step.captured, self.lines))
                if name == "dot_general":  # others may be given tables of addresses
                    self._reads(found[-1], [p.kind in READ for p in step.places])
            else:  # a kernel of the compiler's and its places
                kernel, places = step
                given = [spot(p) for p in places]
                distinct = self.distinct([s.slot for s in given])
                parts = self.parts(kernel, given, True, distinct)
                found += map(self.launched, parts)
        return found

    def message(self, node: Collective) -> list[Any]:
        # NCCL's calls can't be in the parts of a graph that run on a condition
        found = messages.lower(node, not self.nested, self.beginnings)
        return [c.OnHost(node.eqn, node.ins, node.outs)] if found is None else found

    def copy(self, node: Copy) -> list[Any]:
        return [c.Moved(c.Spot(node.target), c.Spot(node.source), node.size)]

    def point(self, node: Point) -> list[Any]:
        return [c.Pointed(node.view, node.base)]

    def swap(self, node: Swap) -> list[Any]:
        size = max(self.sizes[s] for s in self.under(node.first))
        return [c.Swapped(node.first, node.second, size)]

    def branch(self, node: Branch) -> list[Any]:
        self.nested += 1
        regions = tuple(self.nodes(region) for region in node.regions)
        self.nested -= 1
        return [self._kept(c.Branched(node.choice, node.size, regions), node.uses)]

    def repeat_while(self, node: While) -> list[Any]:
        whole = self.one_kernel(node)
        if not isinstance(whole, str):
            return whole
        self.nested += 1
        condition, body = self.nodes(node.condition), self.nodes(node.body)
        self.nested -= 1
        made = c.LoopedWhile(condition, node.flag, body, whole)
        return [self._kept(made, node.uses, node.inside)]

    def repeat(self, node: For) -> list[Any]:
        if not node.trips:
            return []
        whole = self.one_kernel(node)
        if not isinstance(whole, str):
            return whole
        body = self.nodes(node.body, node.trips > 1)
        made = c.LoopedFor(node.trips, node.reverse, node.slices, body, whole)
        return [self._kept(made, node.uses, node.inside)]

    def loop_item(self, node: For | While) -> tuple[Region, Grid] | str:
        """What a kernel for a loop does, and its blocks; or why it isn't one."""
        if id(node) not in self.loops:
            count = len(self.sizes)
            device = driver.device()
            try:
                made = Collector(
                    lambda size: self.slot("temp", size), self.same_memory, device.multiprocessors
                )
                item = Region(node, tuple(made.region(r) for r in inner_regions(node)))
                clusters = device.architecture >= ptx.HOPPER
                found: Any = item, choose([item], device.multiprocessors, clusters)
            except Unfit as error:
                del self.sizes[count:], self.roles[count:]
                found = str(error)
            self.loops[id(node)] = node, found
        return self.loops[id(node)][1]

    def one_kernel(self, node: For | While, first: Sequence[Any] = ()) -> list[Any] | str:
        """A loop as one kernel, which does something first, or why it isn't one."""
        made = self.loop_item(node)
        if isinstance(made, str):
            return made
        item, grid = made
        state = self.slot("temp", 4)
        largest = lambda slot: max(self.sizes[s] for s in self.under(slot))
        most = driver.device().shared_memory
        try:
            text = text_of(grid, self.same_memory, state, most, [*first, item], largest)
        except Unfit as error:
            return str(error)
        swaps = tuple((s.first, s.second) for s in node.body if isinstance(s, Swap))
        if isinstance(node, For):
            rounds, odd = f"{node.trips} times", node.trips % 2 == 1
        else:
            rounds, odd = "while", False
        many = "barrier" if text.barriers == 1 else "barriers"
        told = f"{rounds}, {text.barriers} {many} a round"
        function = self.loaded(text)
        spots = tuple(map(c.Spot, text.slots))
        swaps = swaps if odd else ()
        if state in text.slots:
            self.count_in(state)
        return [
            c.LoopKernel(
                function,
                grid.blocks,
                grid.threads,
                spots,
                tuple(node.uses),
                swaps,
                told,
                function.name,
                self.lines,
                grid.cluster,
            )
        ]

    def _kept(self, command: Any, uses: Sequence[int], inside: int | None = None) -> Any:
        self.around[id(command)] = (command, tuple(uses), inside)
        return command

    # --- memory -----------------------------------------------------------------------------------

    def under(self, slot: int) -> set[int]:
        """The slots whose memory a slot may be."""
        if self.roles[slot] != "view":
            return {slot}
        found: set[int] = set()
        for base in self.program.under.get(slot, ()):
            found |= self.under(base)
        return found or {slot}

    def same_memory(self, a: int, b: int) -> bool:
        """Whether two slots may be the same memory."""
        if a == b:
            return True
        if self.roles[a] != "view" and self.roles[b] != "view":
            return False
        if frozenset((a, b)) in self.pairs:  # views that change places
            return False
        return not self.under(a).isdisjoint(self.under(b))

    def distinct(self, slots: Sequence[int]) -> bool:
        """Whether no two of some slots may be the same memory."""
        if len(set(slots)) < len(slots):
            return False
        views = [s for s in slots if self.roles[s] == "view"]
        return not any(self.same_memory(a, b) for a in views for b in slots if a != b)

    def plan(self, commands: Sequence[Any]) -> tuple[list[int], int]:
        """The offset of each temporary in the arena, and the arena's size."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        moment = 0

        def use(slots: Any, start: int, stop: int) -> None:
            for slot in slots:
                for s in self.under(slot):
                    if self.roles[s] == "temp":
                        first[s] = min(first.get(s, start), start)
                        last[s] = max(last.get(s, stop), stop)

        def walk(commands: Sequence[Any]) -> set[int]:
            nonlocal moment
            touched: set[int] = set()
            for command in commands:
                moment += 1
                start = moment
                own = set(command.slots())
                use(own, start, start)
                regions = c.regions_of(command)
                for region in regions:
                    own |= walk(region)
                if regions:
                    _, uses, inside = self.around[id(command)]
                    moment += 1
                    outer = {s for s in own if inside is None or s < inside}
                    use({*uses, *outer}, start, moment)
                touched |= own
            return touched

        walk(commands)
        lives = {s: Life(self.sizes[s], first[s], last[s]) for s in first}
        return arrange(lives, len(self.sizes))


_METHODS = {
    Op: "operation",
    Host: "operation",
    Collective: "message",
    Copy: "copy",
    Point: "point",
    Swap: "swap",
    Branch: "branch",
    While: "repeat_while",
    For: "repeat",
}
