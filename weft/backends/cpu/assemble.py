"""Programs assembled for the CPU: kernels and operations become native functions, small loops one
function each, and temporaries share an arena.

A temporary lives from the node that first writes it to the last that reads it; those whose lives do
not meet share memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.backends.cpu.assembly import Assembly, HostCall, Python, Run
from weft.backends.llvm.code import Module
from weft.backends.llvm.tasks import Lowered, Place
from weft.base.lazy import Late
from weft.base.sizes import plain
from weft.compiler.arena import Life, arrange
from weft.compiler.early import slots_of
from weft.compiler.pipeline import order
from weft.compiler.slots import Slots
from weft.compiler.watch import UNWATCHED, Watch
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
    RunBlocks,
    Slot,
    Swap,
    While,
    all_nodes,
    with_regions,
)

# loaded with the first program of several processes
messages = Late("weft.backends.cpu.routines.messages")

if TYPE_CHECKING:
    from weft.backends.cpu.code.loop_text import LoopText
    from weft.backends.cpu.target import Cpu

# Lines of text run by a chunk of blocks: starting a thread on one costs some microseconds.
CHUNK_LINES = 1 << 18
# Lines of text run between two polls for signals: below a tenth of a second, unless a single
# iteration over all elements takes longer.
POLL_LINES = 1 << 25
# Chunks of blocks whose elements end one by one: enough for many threads; and blocks of one.
MIN_LANE_CHUNKS, MAX_LANE_BLOCKS = 128, 1024
# Iterations that a loop is taken to have where their number isn't known.
USUAL_TRIPS = 16
# Operations of a loop from which on threads share its rounds, some tens of microseconds; of the
# rounds that a thread takes at once; and how many parts all rounds have at least.
MIN_SHARED_WORK, GRAIN_WORK, MIN_GRAINS = 1 << 18, 1 << 14, 128
# Threads that may share a loop, and bytes of memory for the rounds of all.
MAX_WORKERS, MAX_BLOCK_BYTES = 64, 1 << 26


class Assembler(Slots):
    """One program while it is assembled."""

    def __init__(
        self,
        target: Cpu,
        slots: Sequence[Slot],
        constants: Sequence[Any],
        under: dict[int, tuple[int, ...]],
        watch: Watch | None = None,
        loops: int = 0,
    ) -> None:
        super().__init__()
        self.slots, self.constants, self.under = list(slots), list(constants), under
        self.target = target
        self.watch: Any = watch or UNWATCHED
        self.clock = 0
        self.lives: dict[int, Life] = {}
        self.codes, self.modules = target.codes, target.modules
        self.hosts: list[HostCall] = []
        self.libraries: dict[str, int] = {}
        self.loops = loops  # loops around what is being assembled
        self.held: dict[int, Any] = {}  # loops inside others by id, until these are complete
        self.small = loops > 0  # whether what is being assembled may become part of a function

    def program(self, program: Program) -> Assembly:
        """The whole of a program."""
        self.target.unify([node.kernel for node in program.nodes if isinstance(node, Launch)])
        nodes = self.nodes(program.nodes)
        lives = self.lives
        if self.target.general:
            offsets, arena = [0] * len(self.slots), 0  # sizes are not known yet
        else:
            offsets, arena = arrange(lives, len(self.slots))
        self.watch.settle()
        return Assembly(
            self.slots,
            offsets,
            arena,
            tuple(nodes),
            self.modules,
            self.constants,
            self.hosts,
            program.results,
            program.given,
            lives,
        )

    # --- slots ------------------------------------------------------------------------------------

    def touch(self, slots: Any) -> None:
        """Say that slots are in use now."""
        for number in slots:
            if number in self.under:
                self.touch(self.under[number])
            elif number >= 0 and self.slots[number].role == "temp":
                life = self.lives.get(number)
                first = self.clock if life is None else life.first
                self.lives[number] = Life(self.slots[number].size, first, self.clock)

    def library(self, name: str) -> int:
        """The slot of a library's function."""
        number = self.libraries.get(name)
        if number is None:
            number = self.libraries[name] = self.slot("library", 0, name)
        return number

    def temporary(self, size: int, what: Any = None) -> int:
        """The slot of a temporary that is in use from now on."""
        number = self.slot("temp", size, what)
        self.touch([number])
        return number

    def add(self, node: Any, *more: int) -> Any:
        """A node, its slots in use when it runs."""
        self.clock += 1
        if isinstance(node, Run):
            self.touch(node.slots)
        elif isinstance(node, (Copy, Point, Swap)):
            self.touch(node[:2])
        self.touch(more)
        return node

    # --- nodes ------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Any]) -> list[Any]:
        """What nodes become, in order; messages are waited for where something needs them."""
        found: list[Any] = []
        waiting: list[tuple[set[int], Any]] = []
        for node in order(nodes, self.under, self.watch):
            if waiting:
                used = slots_of(node, self.under)
                ready = [w for w in waiting if used is None or used & w[0]]
                waiting = [w for w in waiting if w not in ready]
                found += [made for _, message in ready for made in self._waited(*message)]
            self.watch.enter(node)
            if isinstance(node, Collective):
                made, message = self._begun(node)
                if message is not None:
                    waiting.append((slots_of(node, self.under) or set(), message))
            else:
                made = self._node(node)
            self.watch.leave(node, made)
            found += made
        return found + [made for _, message in waiting for made in self._waited(*message)]

    def _node(self, node: Any) -> list[Any]:
        if isinstance(node, Launch):
            return self._launch(node)
        if isinstance(node, Op):
            return self._operation(node)
        if isinstance(node, (Copy, Point, Swap)):
            return [self.add(node)]
        if isinstance(node, Host):
            return self._host(node)
        if isinstance(node, Branch):
            return self._branch(node)
        if isinstance(node, RunBlocks):
            return self._blocks(node)
        return self._loop(node)

    def _code(self, module: Module, name: str) -> int:
        number = len(self.codes)
        found = self.codes.setdefault((module, name), number)
        if found == number:
            self.modules.append((module, name))
            if not self.small:
                self.target.begin(module, name)
        return found

    def _launch(self, node: Launch) -> list[Any]:
        self.clock += 1
        self.touch(node.writes)
        pieces, scratch, parts = self.target.kernel(node.kernel, self.small)
        self.watch.note("parts", parts)
        slots = [*node.slots, *(self.temporary(n) for n in scratch)]
        nodes = []
        for piece in pieces:
            given = tuple(slots[i] for i in piece.buffers)
            if piece.sizes:
                given = (*given, self.numbers(piece.sizes))
            run = Run(self._code(piece.module, piece.name), given, piece.extent, piece.chunk)
            nodes.append(self.add(run, *node.writes))
        return nodes

    def _operation(self, node: Op) -> list[Any]:
        self.clock += 1
        self.touch(node.outs)
        lowered = node.offer
        if node.epilogue is None:
            lowered = self.target.operation(node.eqn, self.loops > 0)
            if lowered is None:
                return self._host(node)
            if lowered.in_place is not None and node.ins[0] == node.outs[0]:
                lowered = lowered.in_place
        return self._tasks(node, lowered)

    def _host(self, node: Op | Host) -> list[Any]:
        self.hosts.append(HostCall(node.eqn, node.ins, node.outs))
        return [self.add(Python(len(self.hosts) - 1), *node.ins, *node.outs)]

    def _begun(self, node: Collective) -> tuple[list[Any], Any]:
        """A message begun, and what waits for it; None where Python sends it."""
        self.clock += 1
        self.touch([*node.ins, *node.outs])
        message = messages.lower(node.eqn)
        if message is None:
            return self._host(Op(node.eqn, node.ins, node.outs)), None
        scratch = [self.temporary(n, "message") for n in (message.memory, 8, 1)]
        known = {"in": node.ins, "out": node.outs, "scratch": scratch}
        begin, test = (
            Run(self._code(t.module, t.name), tuple(self._place(p, known) for p in t.places), 1, 1)
            for t in (message.begin, message.test)
        )
        begun = self.add(begin, *node.ins, *node.outs)
        return [begun], (node, message.fault, test, scratch)

    def _waited(self, node: Collective, fault: Any, test: Run, scratch: list[int]) -> list[Any]:
        """A message asked for until it is done, and an error raised where it is stopped."""
        _, status, flag = scratch
        self.hosts.append(HostCall(fault, (status,), ()))
        stopped = Branch(status, 8, ((), (Python(len(self.hosts) - 1),)))
        waited = [self.add(While((test,), flag, ()), *scratch), self.add(stopped, *scratch)]
        self.touch([*node.ins, *node.outs])
        self.watch.assembled(node, waited)
        return waited

    def _tasks(self, node: Op, lowered: Lowered) -> list[Any]:
        name = node.eqn.primitive.name
        scratch = [self.temporary(n, name) for n in lowered.scratch]
        known = {"in": node.ins, "out": node.outs, "scratch": scratch, "finish": node.slots}
        self.watch.note("lowered", lowered)
        nodes = []
        for task in lowered.tasks:
            slots = tuple(self._place(place, known) for place in task.places)
            assert task.module is not None
            code = self._code(task.module, task.name)
            nodes.append(self.add(Run(code, slots, task.extent, task.chunk), *node.outs))
        return nodes

    def _place(self, place: Place, known: dict[str, Sequence[int]]) -> int:
        kind, what = place
        if kind == "library":
            return self.library(str(what))
        if kind == "numbers":
            return self.numbers(what)
        if kind == "data":
            return self.constant(what)
        if kind == "code":
            assert isinstance(what, tuple)
            return self.slot("code", 0, self._code(*what))
        assert isinstance(what, int)
        return known[kind][what]

    # --- control flow -----------------------------------------------------------------------------

    def _branch(self, node: Branch) -> list[Any]:
        regions = []
        for region in node.regions:  # all are assembled as if they ran in a row
            regions.append(tuple(self.nodes(region)))
            self.touch(node.uses)
        made = Branch(node.choice, node.size, tuple(regions))
        return [self.add(made, node.choice, *node.uses)]

    def _loop(self, node: While | For) -> list[Any]:
        """A loop as a node; a small one as a function that is called until it is done."""
        self.touch(node.uses)  # what iterations fill slice by slice is there from the first on
        self.clock += 1
        begin = self.clock
        around, self.small = self.small, self.small or self._may_be_small(node)
        self.loops += 1
        made: While | For
        if isinstance(node, While):
            condition = tuple(self.nodes(node.condition))
            made = While(condition, node.flag, tuple(self.nodes(node.body)))
        else:
            made = For(node.trips, node.reverse, node.slices, tuple(self.nodes(node.body)))
        self.loops, self.small = self.loops - 1, around
        self.touch(node.uses)
        self._repeat(begin)
        seen = self.watch.current
        if self.loops:  # it may become part of the function of the loop around it
            self.held[id(made)] = (made, node.inside, seen)
            return [self.add(made, *node.uses)]
        own = len(self.slots)
        shared = self._shared(node, made, begin, seen)
        small = None if shared else self._small(made, node.inside, seen)
        if shared:
            nodes = shared
        elif small is not None:
            self.touch(small.externals)
            nodes = self._called(small)
        else:
            nodes = self._walked(made, seen)
        self.clock += 1
        self.touch([*node.uses, *range(own, len(self.slots))])
        for _, _, inner in self.held.values():
            if inner is not None and small is not None:
                inner.loop = "one"
        self.held.clear()
        return nodes

    def _repeat(self, begin: int) -> None:
        """End a loop: what was there before it and is used in it lives until now."""
        self.clock += 1
        for number, life in self.lives.items():
            if life.first < begin <= life.last:
                self.lives[number] = life._replace(last=self.clock)

    def _may_be_small(self, node: While | For) -> bool:
        """Whether a loop works with so little memory of its own that it may become one function."""
        used = set().union(*(slots_of(x, {}) or () for x in all_nodes([node])))
        own = [self.slots[s] for s in used if s >= node.inside or self.slots[s].role == "view"]
        return self.target.is_small(sum(plain(s.size) for s in own if s.role in ("temp", "view")))

    def _small(self, node: Any, inside: int, seen: Any) -> Any:
        """A loop as one function, if it is small."""
        made = self.target.loop(node, self.slots, self.modules, inside)
        if seen is not None:
            seen.loop = "nodes" if made is None else "one"
        return made

    def _shared(self, node: Any, made: Any, begin: int, seen: Any) -> list[Any]:
        """The nodes of a loop with rounds that threads share; none where one thread does them."""
        if self.target.general or not isinstance(made, For):
            return []
        trips, work = node.trips, max(1.0, node.work)
        if trips < 2 or trips * node.work < MIN_SHARED_WORK:
            return []
        lives = {
            slot: life
            for slot, life in self.lives.items()
            if slot >= node.inside and life.first >= begin
        }
        offsets, size = arrange(lives, len(self.slots))
        grain = max(1, min(int(GRAIN_WORK / work), trips // MIN_GRAINS))
        workers = min(MAX_WORKERS, -(-trips // grain), MAX_BLOCK_BYTES // max(1, size))
        if workers < 2:
            return []
        own = {slot: offsets[slot] for slot in lives}
        parts = (workers, grain, own, size)
        found = self.target.shared(made, parts, self.slots, self.modules, node.inside)
        if found is None:
            return []
        for slot in lives:  # each worker has its own
            del self.lives[slot]
        text = found.text
        for code in text.codes:
            self.target.begin(*self.modules[code])
        if seen is not None:
            seen.loop = "calls" if text.codes else "one"
        self.touch(text.externals)
        progress, flag = self.temporary(found.header + workers * text.room), self.temporary(1)
        block = [self.temporary(workers * found.block)] if found.block else []
        for slot in (progress, flag, *block):  # beside all that the loop works with
            self.lives[slot] = self.lives[slot]._replace(first=0)
        externals = [*text.externals, *(self.slot("code", 0, code) for code in text.codes)]
        slots = (progress, flag, *externals, *block)
        run = Run(self._code(text.module, "loop"), slots, workers, 1)
        zeros = self.constant(np.zeros(found.header // 8, np.int64))
        test = (Copy(flag, self.constant(np.False_), 1), run)
        return [Copy(progress, zeros, found.header), While(test, flag, ())]

    def _walked(self, node: Any, seen: Any) -> list[Any]:
        """The nodes of a loop that is not small: those that call one function, or the loop."""
        found = self._settled(node)
        made = self.target.calls(found, self.slots, self.modules)
        if made is None:
            return [found]
        if seen is not None:
            seen.loop = "calls"
        return self._called(made)

    def _called(self, made: LoopText) -> list[Any]:
        """The nodes that call a loop's function until it is done."""
        externals = [*made.externals, *(self.slot("code", 0, code) for code in made.codes)]
        if made.sizes:
            externals.append(self.numbers(made.sizes))
        start = self.constant(np.zeros(2, np.int64))
        progress, flag = self.temporary(16 + made.room), self.temporary(1)
        for slot in (progress, flag):  # beside all that the loop and those around it work with
            self.lives[slot] = self.lives[slot]._replace(first=0)
        run = Run(self._code(made.module, "loop"), (progress, flag, *externals), 1, 1)
        return [Copy(progress, start, 16), While((run,), flag, ())]

    def _settled(self, node: Any) -> Any:
        """A node of a loop that is walked, with small loops inside it as functions."""
        if isinstance(node, Run):
            self.target.begin(*self.modules[node.code])
        return with_regions(node, self._inner)

    def _inner(self, region: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for node in region:
            held = self.held.get(id(node))
            if held is None:
                found.append(self._settled(node))
                continue
            _, inside, seen = held
            made = self._small(node, inside, seen)
            nodes = self._walked(node, seen) if made is None else self._called(made)
            self.watch.assembled(node, nodes)
            found += nodes
        return tuple(found)

    def _blocks(self, node: RunBlocks) -> list[Any]:
        """The nodes that run a function over all blocks, until all iterations are done."""
        blocks, (module, externals, _, sizes, _) = node.blocks, node.offer
        inlined = module.functions[:-1]
        lines = 1 + len(module.declared) + sum(len(f.lines) + 3 for f in inlined)
        code = self._code(module, "blocks")
        extent = -(-blocks.total // blocks.width)
        chunk = max(1, CHUNK_LINES // (lines * min(plain(blocks.trips or USUAL_TRIPS), 1 << 12)))
        if blocks.lanes is not None:
            # elements end at different times: the more a chunk has, the fewer wait for its last
            chunk = max(chunk, min(extent // MIN_LANE_CHUNKS, MAX_LANE_BLOCKS))
        init, outs = [slot for _, slot in node.init], [slot for _, slot in node.outs]

        def run(sources: Sequence[int], targets: Sequence[int], more: int) -> Run:
            places = node.places | {i: s for (i, _), s in zip(node.init, sources, strict=True)}
            places |= {i: s for (i, _), s in zip(node.outs, targets, strict=True)}
            slots = [more, more]
            for inner in externals:
                slot = blocks.slots[inner]
                constant = slot.role == "const"
                slots.append(
                    self.constant(blocks.constants[slot.what]) if constant else places[inner]
                )
            if sizes:
                slots.append(self.numbers(sizes))
            return self.add(Run(code, tuple(slots), extent, chunk))

        most = max(1, POLL_LINES // (plain(extent) * lines))
        if blocks.trips is not None and (blocks.trips <= most or blocks.sliced):
            return [run(init, outs, self.numbers([blocks.trips]))]
        begin, nodes = self.clock, []
        if blocks.trips is not None:
            pairs = (blocks.trips - 1) // (2 * most)
            first = self.numbers([blocks.trips - pairs * 2 * most])
            nodes.append(run(init, outs, first))
            number = self.constant(np.int64(most))
            inner = [run(outs, node.others, number), run(node.others, outs, number)]
            nodes.append(self.add(For(pairs, False, (), tuple(inner)), *node.others))
        else:
            flag, no = self.temporary(1), self.constant(np.False_)
            nodes += [self.add(Copy(flag, no, 1)), run(init, outs, flag)]
            inner = []
            for sources, targets in ((outs, node.others), (node.others, outs)):
                inner += [self.add(Copy(flag, no, 1)), run(sources, targets, flag)]
            nodes.append(self.add(While((), flag, tuple(inner)), flag, *node.others))
        self._repeat(begin)
        return nodes
