"""A Program on a GPU: commands on one stream, captured as a graph when a call comes again.

`Executable.run_on_device` takes and gives device memory and returns at once; called with NumPy
arrays, it copies arguments in and results out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cuda import assemble, driver, lanes, profile
from weft.backends.cuda.assemble import Assembled, Assembler
from weft.backends.cuda.commands import State, length, load_all, mostly_small, quick_kernels
from weft.backends.cuda.memory import Buffer, pool
from weft.backends.cuda.passes.target import GpuTarget, SavingTarget
from weft.backends.cuda.story import story
from weft.base import knobs
from weft.base.background import in_background
from weft.base.errors import JaxRuntimeError
from weft.base.garbage import uncollected
from weft.base.lazy import Late
from weft.base.switches import brisk_switches
from weft.compiler.plan import Planner
from weft.compiler.watch import Watch
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime.client import Compiler

# loaded when a program comes in a second shape, and when the disk has or gets one
named = Late("weft.backends.cuda.forms.named")
stored = Late("weft.backends.cuda.forms.stored")

# Graphs that an executable keeps, for arguments and results in different places.
MOST_GRAPHS = 8


class Cuda(GpuTarget, Compiler):
    """A GPU's compiler."""

    has_named_sizes = is_stored = True

    def __init__(self, number: int = 0) -> None:
        self.name = f"cuda {number}"  # loaded code is that of one GPU

    def compile(self, closed: ClosedJaxpr, donated: Sequence[bool] = ()) -> Executable:
        """A staged function on the current GPU."""
        with uncollected(), brisk_switches:
            return Executable(self.make(closed, donated), closed.out_avals)

    def make(
        self, closed: ClosedJaxpr, donated: Sequence[bool] = (), watch: Watch | None = None
    ) -> Assembled:
        driver.device().use()
        watch = watch or Watch(closed)
        made = _assembled(self, closed, donated, watch)
        memory = made.arena + sum(s.size for s in made.program.slots if s.role in ("arg", "out"))
        if memory < knobs.gpu_rematerialise.value * driver.device().memory()[1]:
            return made
        again = _assembled(SavingTarget(), closed, donated, watch)
        saved = made.arena - again.arena
        return again._replace(saved=saved) if saved > 0 else made

    def in_named_sizes(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], names: Sequence[str], eager: bool
    ) -> Any:
        driver.device().use()
        return named.Named(closed, donated, names)

    def load(self, identity: Any) -> Assembled | None:
        driver.device().use()
        return stored.find(identity)

    def keep(self, identity: Any, made: Assembled) -> None:
        stored.keep(identity, made)


def _assembled(
    target: Any, closed: ClosedJaxpr, donated: Sequence[bool], watch: Watch
) -> Assembled:
    assembler = Assembler(Planner(target, watch).program(closed, donated), watch)
    return assembler.assembled(assembler.nodes(assembler.program.nodes))


def put(array: np.ndarray) -> Buffer:
    """Device memory with the elements of an array."""
    array = np.ascontiguousarray(array)
    found = Buffer(array.nbytes)
    driver.copy_in(found.address, array.ctypes.data, array.nbytes)
    return found


def get(buffer: Buffer, aval: Any) -> np.ndarray:
    """An array of the host with what device memory holds; waits for it."""
    found = np.empty(aval.shape, storage_dtype(aval.dtype))
    driver.copy_out(found.ctypes.data, buffer.address, found.nbytes)
    return found


class Executable:
    """A program with its kernels loaded, its constants on the device and its memory planned."""

    def __init__(
        self, assembled: Assembled, out_avals: Sequence[Any], generic: bool = False
    ) -> None:
        """``generic``: whether its code serves other sizes too."""
        self.program = program = assembled.program
        self.out_avals, self.generic = out_avals, generic
        self.calls = 0  # of shape-generic code, by Python
        self.commands = assembled.commands
        self.offsets, self.arena = assembled.offsets, assembled.arena
        self.roles, self.sizes = assembled.roles, assembled.sizes
        self.only_read, self.operations = assembled.only_read, assembled.operations
        self.beginnings, self.saved = assembled.beginnings, assembled.saved
        self.constants = {n: put(array) for n, array in assembled.constants.items()}
        load_all(self.commands)
        self.lanes, self.early = lanes.plan(self), mostly_small(self.commands)
        self.times: list[float] | None = None  # milliseconds of each command, if measured
        self.capturable = all(c.capturable for c in self.commands) and length(self.commands) > 0
        # arguments whose memory results are in; types of results by where they are to be
        self.taken = [r.number for r in program.results if r.kind == "taken"]
        self.types: dict[Any, Any] = {}
        self.native: dict[Any, Any] = {}  # tables of native code, by the same
        self.graphs: dict[Any, driver.Graph | None] = {}
        self.stream, self.lock = driver.device().stream, driver.device().lock
        slots = list(enumerate(self.roles))
        self.args = [(n, program.slots[n].what) for n, role in slots if role == "arg"]
        self.outs = [(n, self.sizes[n]) for n, role in slots if role == "out"]
        self.temporaries = [n for n, role in slots if role not in ("arg", "out", "const")]
        # the addresses of all slots, those of constants filled in
        self.fixed = [self.constants[n].address if role == "const" else 0 for n, role in slots]
        wanted = [("slot", slot) for slot, _ in self.outs]
        self.plain = [tuple(r) for r in program.results] == wanted
        profile.announce()
        profile.programs.add(self)
        # graphs of quickly made kernels, which may be launched still
        self.retired: list[Any] = []
        if quick_kernels(self.commands):
            in_background(self.improve)

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        driver.device().use()
        results = self.run_on_device([put(x) for x in args])
        return [get(buffer, aval) for buffer, aval in zip(results, self.out_avals, strict=True)]

    def run_on_device(self, args: Sequence[Buffer]) -> list[Buffer]:
        """Results for arguments, all of them device memory; what is computed may not be there yet,
        but is for all that is put on the device's stream from now on."""
        try:
            outs = [Buffer(size) for _, size in self.outs]
            arena = Buffer(self.arena) if self.arena else None
        except driver.OutOfMemory as error:
            raise self._exhausted() from error
        key = [x.address for x in (*args, *outs)]
        key.append(arena.address if arena is not None else 0)
        self.run_at(key)
        return outs if self.plain else self._results(args, outs)

    def run_at(self, key: list[int]) -> None:
        """Run with arguments, results and the arena at addresses."""
        with self.lock:
            for begin in self.beginnings:
                begin()
            graph = self.graphs.get(tuple(key))
            if profile.timed is not None:
                profile.timed.run(self._addresses(key), self.commands, self.stream)
            elif graph is not None:
                graph.launch(self.stream)
            else:
                self._run(key)

    def _results(self, args: Sequence[Buffer], outs: list[Buffer]) -> list[Buffer]:
        made = {slot: buffer for (slot, _), buffer in zip(self.outs, outs, strict=True)}
        found: list[Buffer] = []
        for kind, number in self.program.results:
            if kind == "slot":
                found.append(made[number])
            elif kind in ("arg", "taken"):
                found.append(args[number])
            elif kind == "const":
                found.append(self._constant(number))
            else:
                found.append(found[number])
        return found

    def _constant(self, number: int) -> Buffer:
        for slot, place in enumerate(self.program.slots):
            if place.role == "const" and place.what == number:
                return self.constants[slot]
        return put(np.asarray(self.program.constants[number]))

    def _addresses(self, key: list[int]) -> list[int]:
        """Where all slots are, for arguments, results and the arena at addresses."""
        addresses = list(self.fixed)
        arena = key[-1]
        for slot, what in self.args:
            addresses[slot] = key[what]
        for (slot, _), address in zip(self.outs, key[-1 - len(self.outs) : -1], strict=True):
            addresses[slot] = address
        for slot in self.temporaries:
            addresses[slot] = arena + self.offsets[slot]
        return addresses

    def _run(self, key: list[int]) -> None:
        """Run the commands with arguments, results and the arena at addresses; the second time
        these come, as a graph."""
        addresses = self._addresses(key)
        own = tuple(key)
        if not self.capturable or own not in self.graphs:
            # what libraries do first, once, can't be captured
            if self.capturable:
                self.graphs[own] = None
                self._forget()
            State(addresses, self.stream).run(self.commands)
            return
        graph = self.graphs[own] = self._captured(addresses)
        graph.launch(self.stream)

    def _captured(self, addresses: list[int]) -> driver.Graph:
        # on a stream of its own: what other threads put on that of the device is not part of it
        stream = driver.device().capturing
        driver.begin_capture(stream)
        try:
            if self.lanes is None:
                State(addresses, stream, True, self.early).run(self.commands)
            else:
                lanes.capture(self, addresses, driver.device().lanes(lanes.LANES))
        finally:
            graph = driver.end_capture(stream)
        return driver.Graph(graph)

    def improve(self) -> None:
        """Make better code of kernels that were made quickly, and launch that from now on."""
        kernels = quick_kernels(self.commands)
        if not kernels or not assemble.improve(kernels):
            return
        with self.lock:
            # whoever looks at the graphs there were may go on to do so
            before, self.graphs = self.graphs, {}
            self.retired += [graph for graph in before.values() if graph is not None]
            for call in list(self.native.values()):
                if call is not None:
                    call.know_graphs()
                    call.know_kernels()

    def _forget(self) -> None:
        """Keep no more graphs than there may be, and notes of calls that came once."""
        while len(self.graphs) > MOST_GRAPHS:
            oldest = next(iter(self.graphs))
            graph = self.graphs.pop(oldest)
            if graph is not None:
                for call in self.native.values():  # all of them launch graphs by their handles
                    call.know_graphs()
                graph.close()

    def explain(self, args: Sequence[Buffer] | None = None) -> str:
        """What is done, with the blocks, registers and memory of each kernel; for arguments, also
        how long each command takes."""
        self.improve()
        self.times = None if args is None else self._measured(args)
        device = driver.device()
        return story(self, self.times, device.bandwidth(), device.multiprocessors)

    def _measured(self, args: Sequence[Buffer]) -> list[float]:
        """The milliseconds of each command, run one by one after a run of all."""
        outs = self.run_on_device(args)
        made = [Buffer(size) for _, size in self.outs]
        arena = Buffer(max(self.arena, 1))
        key = [*(x.address for x in args), *(x.address for x in made), arena.address]
        state, timer, found = State(self._addresses(key), self.stream), driver.Timer(), []
        for command in self.commands:
            timer.start()
            command.run(state)
            found.append(timer.stop())
        del outs
        return found

    def _exhausted(self) -> JaxRuntimeError:
        """The error for a call that there isn't memory for: what it needs, largest first."""
        values = sorted(
            ((self.sizes[n], n) for n, role in enumerate(self.roles) if role in ("temp", "out")),
            reverse=True,
        )
        lines = []
        for size, number in values[:5]:
            slots = self.program.slots
            what: Any = slots[number].what if number < len(slots) else None
            aval = self.out_avals[what] if self.roles[number] == "out" else what
            told = aval.str_short() if hasattr(aval, "str_short") else "memory of an operation"
            kind = "result" if self.roles[number] == "out" else "temporary"
            lines.append(f"  {size / 2**20:,.0f} MiB: {told} ({kind})")
        stats, (free, total) = pool.stats(), driver.device().memory()
        return JaxRuntimeError(
            f"RESOURCE_EXHAUSTED: out of memory on the GPU: this program's temporaries take"
            f" {self.arena / 2**20:,.0f} MiB; {stats['bytes_in_use'] / 2**20:,.0f} MiB are in use"
            f" and {free / 2**20:,.0f} of {total / 2**20:,.0f} MiB are free. Its largest values:\n"
            + "\n".join(lines)
        )
