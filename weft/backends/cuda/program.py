"""A Program on a GPU: kernels as PTX, control flow and rare operations by the host.

Arguments are copied in and results copied out; everything in between stays on the device, but for
operations that have no GPU form yet, which their references compute on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import driver, ptx
from weft.backends.cuda.libraries import operation
from weft.backends.cuda.render import NAME, render
from weft.backends.cuda.schedule import schedule
from weft.backends.reference.program import Reference
from weft.base.functional import lru
from weft.compiler.plan import Planner
from weft.core.interpret import run_primitive, storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import Kernel, signature
from weft.kernel.program import (
    Branch,
    Copy,
    For,
    Host,
    Launch,
    Op,
    Point,
    Program,
    Swap,
    While,
    inner_regions,
)

_NUMBERS = {1: np.uint8, 4: np.int32, 8: np.int64}


class Cuda(Reference):
    """The first GPU as a target."""

    def compile(self, closed: ClosedJaxpr) -> Executable:  # type: ignore[override]
        driver.device().use()
        return Executable(Planner(self).program(closed), closed.out_avals)


@lru(1024)
def _function(text: str) -> driver.Function:
    return driver.Function(ptx.assemble(text, driver.device().architecture), NAME)


class Compiled:
    """The kernels that a kernel is split into, loaded onto the device."""

    def __init__(self, kernel: Kernel, aligned: bool, distinct: bool) -> None:
        self.outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
        self.first = len(kernel.buffers)
        self.parts, self.scratch = schedule(kernel, aligned, distinct)
        self.functions = [_function(render(part)) for part in self.parts]

    def launch(self, addresses: Sequence[int], allocate: Any) -> None:
        known = dict(zip(self.outside, addresses, strict=True))
        for i, b in enumerate(self.scratch):
            known[self.first + i] = allocate(i, b.size * b.dtype.itemsize)
        for part, function in zip(self.parts, self.functions, strict=True):
            if part.iterations:
                given = [known[i] for i in part.buffers]
                function.launch(part.blocks, part.threads, given)


def _unaligned(nodes: Sequence[Any]) -> bool:
    """Whether loops point views at memory that doesn't begin at a multiple of 16 bytes."""
    return any(
        (isinstance(node, For) and any(size % 16 for _, _, size in node.slices))
        or any(_unaligned(region) for region in inner_regions(node))
        for node in nodes
    )


class Executable:
    """A program with its kernels loaded."""

    def __init__(self, program: Program, out_avals: Sequence[Any]) -> None:
        self.program = program
        self.out_avals = out_avals
        self.kernels: dict[int, Compiled] = {}
        self.views_aligned = not _unaligned(program.nodes)
        self._load(program.nodes, {})

    def _load(self, nodes: Sequence[Any], known: dict[Any, Compiled]) -> None:
        for node in nodes:
            if isinstance(node, Launch):
                views = any(self.program.slots[s].role == "view" for s in node.slots)
                aligned = self.views_aligned or not views
                # views may be other slots' memory
                distinct = not views and len({*node.slots}) == len(node.slots)
                key = (signature(node.kernel), aligned, distinct)
                if key not in known:
                    known[key] = Compiled(node.kernel, aligned, distinct)
                self.kernels[id(node)] = known[key]
            for region in inner_regions(node):
                self._load(region, known)

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        call = Call(self)
        try:
            for number, slot in enumerate(self.program.slots):
                if slot.role == "arg":
                    call.put(number, args[slot.what])
            call.run(self.program.nodes)
            return call.results(args)
        finally:
            call.close()


class Call:
    """One call: the device memory of every slot."""

    def __init__(self, executable: Executable) -> None:
        self.executable, self.program = executable, executable.program
        self.memory: dict[int, int] = {}
        self.owned: list[int] = []
        self.rooms: dict[tuple[int, int], int] = {}  # scratch memory of kernels
        for number, slot in enumerate(self.program.slots):
            if slot.role == "const":
                self.put(number, self.program.constants[slot.what])

    def close(self) -> None:
        for address in self.owned:
            driver.free(address)

    def put(self, number: int, array: np.ndarray) -> None:
        """Have a slot hold an array."""
        array = np.ascontiguousarray(array)
        driver.copy_in(self.at(number), array.ctypes.data, array.nbytes)

    def get(self, number: int, aval: Any) -> np.ndarray:
        """A slot as an array of the host."""
        found = np.empty(aval.shape, storage_dtype(aval.dtype))
        driver.copy_out(found.ctypes.data, self.at(number), found.nbytes)
        return found

    def at(self, number: int) -> int:
        """The memory of a slot, made when first asked for."""
        found = self.memory.get(number)
        if found is None:
            found = self.memory[number] = driver.allocate(self.program.slots[number].size)
            self.owned.append(found)
        return found

    def results(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        avals = self.executable.out_avals
        for (kind, number), aval in zip(self.program.results, avals, strict=True):
            if kind == "slot":
                found.append(self.get(number, aval))
            elif kind in ("arg", "taken"):
                found.append(np.array(args[number]).reshape(aval.shape))
            elif kind == "const":
                found.append(self.program.constants[number])
            else:
                found.append(found[number])
        return found

    # --- nodes ------------------------------------------------------------------------------------

    def run(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            _RUN[type(node)](self, node)

    def launch(self, node: Launch) -> None:
        found = [self.at(slot) for slot in node.slots]
        self.executable.kernels[id(node)].launch(found, self.temporary)

    def temporary(self, number: int, size: int) -> int:
        """Scratch memory of a kernel, by number; other kernels get the same."""
        found = self.rooms.get((number, size))
        if found is None:
            found = self.rooms[number, size] = driver.allocate(size)
            self.owned.append(found)
        return found

    def operation(self, node: Op | Host) -> None:
        eqn = node.eqn
        ins, outs = ([self.at(i) for i in slots] for slots in (node.ins, node.outs))
        if isinstance(node, Op) and operation(eqn, ins, outs):
            return
        values = [self.get(i, x.aval) for i, x in zip(node.ins, eqn.invars, strict=True)]
        avals = [v.aval for v in eqn.outvars]
        several = eqn.primitive.multiple_results
        with np.errstate(all="ignore"):
            made = run_primitive(eqn.primitive, avals if several else avals[0], values, eqn.params)
        for slot, aval, value in zip(node.outs, avals, made if several else [made], strict=True):
            if prod(aval.shape):
                self.put(slot, np.asarray(value, storage_dtype(aval.dtype)))

    def copy(self, node: Copy) -> None:
        driver.copy(self.at(node.target), self.at(node.source), node.size)

    def point(self, node: Point) -> None:
        self.memory[node.view] = self.at(node.base)

    def swap(self, node: Swap) -> None:
        first, second = self.at(node.first), self.at(node.second)
        self.memory[node.first], self.memory[node.second] = second, first

    def number(self, slot: int, size: int) -> int:
        found = np.empty(1, _NUMBERS[size])
        driver.copy_out(found.ctypes.data, self.at(slot), size)
        return int(found[0])

    def branch(self, node: Branch) -> None:
        chosen = self.number(node.choice, node.size)
        self.run(node.regions[max(0, min(chosen, len(node.regions) - 1))])

    def repeat_while(self, node: While) -> None:
        while True:
            self.run(node.condition)
            if not self.number(node.flag, 1):
                return
            self.run(node.body)

    def repeat(self, node: For) -> None:
        for trip in range(node.trips):
            now = node.trips - 1 - trip if node.reverse else trip
            for view, base, size in node.slices:
                self.memory[view] = self.at(base) + now * size
            self.run(node.body)


_RUN = {
    Launch: Call.launch,
    Op: Call.operation,
    Host: Call.operation,
    Copy: Call.copy,
    Point: Call.point,
    Swap: Call.swap,
    Branch: Call.branch,
    While: Call.repeat_while,
    For: Call.repeat,
}
