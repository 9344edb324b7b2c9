"""A Program on a GPU: commands on one stream, captured as a graph when a call comes again.

`Executable.run_on_device` takes and gives device memory and returns at once; called with NumPy
arrays, it copies arguments in and results out.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.assemble import Assembler
from weft.backends.cuda.commands import State, length
from weft.backends.cuda.memory import Buffer, pool
from weft.backends.cuda.routines.attention import supported
from weft.backends.cuda.routines.table import keeps
from weft.backends.reference.program import Reference
from weft.base.errors import JaxRuntimeError
from weft.compiler.passes.attention import attention
from weft.compiler.plan import Planner
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.program import Program

# Graphs that an executable keeps, for arguments and results in different places.
MOST_GRAPHS = 8


class Cuda(Reference):
    """The first GPU as a target."""

    def __init__(self) -> None:
        super().__init__(neutral=True)

    def keeps(self, eqn: Any) -> bool:
        return keeps(eqn)

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A program in its simplest form, with attention as one operation."""
        found = closed._memo.get("simple on GPUs")
        if found is None:
            found = attention(super().simplify(closed), supported)
            closed._memo["simple on GPUs"] = found._memo["simple on GPUs"] = found
        return found

    def compile(self, closed: ClosedJaxpr) -> Executable:  # type: ignore[override]
        driver.device().use()
        return Executable(Planner(self).program(closed), closed.out_avals)


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

    def __init__(self, program: Program, out_avals: Sequence[Any]) -> None:
        self.program = program
        self.out_avals = out_avals
        assembler = Assembler(program)
        self.commands = assembler.nodes(program.nodes)
        self.offsets, self.arena = assembler.plan(self.commands)
        self.roles, self.sizes = assembler.roles, assembler.sizes
        self.constants = {n: put(array) for n, array in assembler.constants.items()}
        self.capturable = all(c.capturable for c in self.commands) and length(self.commands) > 1
        self.graphs: dict[Any, driver.Graph | None] = {}
        self.lock = threading.Lock()

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        driver.device().use()
        results = self.run_on_device([put(x) for x in args])
        found: list[np.ndarray] = []
        kinds = [kind for kind, _ in self.program.results]
        for kind, buffer, aval in zip(kinds, results, self.out_avals, strict=True):
            if kind == "same":
                number = self.program.results[len(found)].number
                found.append(found[number])
            else:
                found.append(get(buffer, aval))
        return found

    def run_on_device(self, args: Sequence[Buffer]) -> list[Buffer]:
        """Results for arguments, all of them device memory; what is computed may not be there yet,
        but is for all that is put on the device's stream from now on."""
        outs: dict[int, Buffer] = {}
        arena = None
        try:
            for number, role in enumerate(self.roles):
                if role == "out":
                    outs[number] = Buffer(self.sizes[number])
            if self.arena:
                arena = Buffer(self.arena)
        except driver.OutOfMemory as error:
            raise self._exhausted() from error
        self._run(args, outs, 0 if arena is None else arena.address)
        found: list[Buffer] = []
        for kind, number in self.program.results:
            if kind == "slot":
                found.append(outs[number])
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

    def _run(self, args: Sequence[Buffer], outs: dict[int, Buffer], arena: int) -> None:
        addresses = [0] * len(self.roles)
        for number, role in enumerate(self.roles):
            if role == "arg":
                addresses[number] = args[self.program.slots[number].what].address
            elif role == "const":
                addresses[number] = self.constants[number].address
            elif role == "out":
                addresses[number] = outs[number].address
            else:
                addresses[number] = arena + self.offsets[number]
        stream = driver.device().stream
        with self.lock:
            key = (*[x.address for x in args], *[x.address for x in outs.values()], arena)
            if not self.capturable or key not in self.graphs:
                # what libraries do first, once, can't be captured
                self.graphs[key] = None
                State(addresses, stream).run(self.commands)
                return
            graph = self.graphs[key]
            if graph is None:
                graph = self.graphs[key] = self._captured(addresses)
                self._forget()
            graph.launch(stream)

    def _captured(self, addresses: list[int]) -> driver.Graph:
        stream = driver.device().stream
        driver.begin_capture(stream)
        try:
            State(addresses, stream, True).run(self.commands)
        finally:
            graph = driver.end_capture(stream)
        return driver.Graph(graph)

    def _forget(self) -> None:
        """Keep no more graphs than there may be, and notes of calls that came once."""
        while len(self.graphs) > MOST_GRAPHS:
            oldest = next(iter(self.graphs))
            graph = self.graphs.pop(oldest)
            if graph is not None:
                graph.close()

    def _exhausted(self) -> JaxRuntimeError:
        """The error for a call that there isn't memory for: what it needs, largest first."""
        values = sorted(
            ((self.sizes[n], n) for n, role in enumerate(self.roles) if role in ("temp", "out")),
            reverse=True,
        )
        lines = []
        for size, number in values[:5]:
            slots = self.program.slots
            what = slots[number].what if number < len(slots) else None
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
