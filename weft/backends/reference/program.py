"""A Program run node by node: kernels by `weft.kernel.run`, operations by their references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.compiler.backend import MIN_STORED_OPS, Target
from weft.compiler.pipeline import simplify
from weft.compiler.plan import Planner
from weft.core.interpret import run_primitive, storage_dtype
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.program import (
    Branch,
    Collective,
    Copy,
    Finish,
    For,
    Host,
    Launch,
    Op,
    Point,
    Program,
    Swap,
    While,
)
from weft.kernel.run import run_kernel

_NUMBERS = {1: np.uint8, 4: np.int32, 8: np.int64}


class Reference(Target):
    """NumPy as a target: nothing is done together that could be done apart.

    Operations are computed by their references, or, if it is neutral, by the kernels that they are
    lowered to.
    """

    general = recomputes = False
    passes: tuple[Any, ...] = ()
    min_stored_ops = MIN_STORED_OPS

    def __init__(self, neutral: bool = False) -> None:
        self.neutral = neutral

    def keeps(self, eqn: Any) -> bool:
        return not self.neutral

    def exact(self) -> Reference:
        return self

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return simplify(closed, target=self)

    def epilogue(self, eqn: Any, finish: Finish, looped: bool) -> None:
        return None

    def block(self, size: int, values: int) -> int:
        return 1

    def blocks(self, blocks: Any) -> None:
        return None

    def compile(self, closed: ClosedJaxpr) -> Executable:
        """A staged function as something to call with NumPy arrays."""
        return Executable(Planner(self).program(closed), closed.out_avals)


class Executable:
    """A program, called with the leaves of its arguments as contiguous NumPy arrays."""

    def __init__(self, program: Program, out_avals: Sequence[Any]) -> None:
        self.program = program
        self.out_avals = out_avals

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        return _Call(self.program, self.out_avals, args).results()


def _bytes(array: np.ndarray) -> np.ndarray:
    """An array's memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class _Call:
    """One call: the memory of every slot, as bytes."""

    def __init__(self, program: Program, out_avals: Sequence[Any], args: Sequence[Any]) -> None:
        self.program, self.out_avals, self.args = program, out_avals, args
        self.memory: dict[int, np.ndarray] = {}
        for number, slot in enumerate(program.slots):
            if slot.role == "arg":
                self.memory[number] = _bytes(args[slot.what])
            elif slot.role == "const":
                self.memory[number] = _bytes(program.constants[slot.what])
        self.run(program.nodes)

    def at(self, number: int) -> np.ndarray:
        """The memory of a slot; that of temporaries and results is made when first asked for."""
        found = self.memory.get(number)
        if found is None:
            size = self.program.slots[number].size
            found = self.memory[number] = np.zeros(size, np.uint8)
        return found

    def array(self, number: int, aval: Any) -> np.ndarray:
        """A slot as an array of a type."""
        dtype = storage_dtype(aval.dtype)
        size = prod(aval.shape) * dtype.itemsize
        return self.at(number)[:size].view(dtype).reshape(aval.shape)

    def results(self) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for (kind, number), aval in zip(self.program.results, self.out_avals, strict=True):
            if kind == "slot":
                found.append(self.array(number, aval))
            elif kind in ("arg", "taken"):
                found.append(np.array(self.args[number]).reshape(aval.shape))
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
        outside = [b for b in node.kernel.buffers if b.role != "row"]
        buffers = []
        for slot, b in zip(node.slots, outside, strict=True):
            buffers.append(self.at(slot)[: b.size * b.dtype.itemsize].view(b.dtype))
        run_kernel(node.kernel, buffers)

    def operation(self, node: Op | Host | Collective) -> None:
        eqn, primitive = node.eqn, node.eqn.primitive
        values = [self.array(i, x.aval).copy() for i, x in zip(node.ins, eqn.invars, strict=True)]
        avals = [v.aval for v in eqn.outvars]
        several = primitive.multiple_results
        with np.errstate(all="ignore"):
            made = run_primitive(primitive, avals if several else avals[0], values, eqn.params)
        for slot, aval, value in zip(node.outs, avals, made if several else [made], strict=True):
            self.array(slot, aval)[...] = value

    def copy(self, node: Copy) -> None:
        self.at(node.target)[: node.size] = self.at(node.source)[: node.size]

    def point(self, node: Point) -> None:
        self.memory[node.view] = self.at(node.base)

    def swap(self, node: Swap) -> None:
        first, second = self.at(node.first), self.at(node.second)
        self.memory[node.first], self.memory[node.second] = second, first

    def branch(self, node: Branch) -> None:
        chosen = int(self.at(node.choice)[: node.size].view(_NUMBERS[node.size])[0])
        self.run(node.regions[max(0, min(chosen, len(node.regions) - 1))])

    def repeat_while(self, node: While) -> None:
        while True:
            self.run(node.condition)
            if not self.at(node.flag)[0]:
                return
            self.run(node.body)

    def repeat(self, node: For) -> None:
        for trip in range(node.trips):
            now = node.trips - 1 - trip if node.reverse else trip
            for view, base, size in node.slices:
                self.memory[view] = self.at(base)[now * size : (now + 1) * size]
            self.run(node.body)


_RUN: dict[type, Callable[[_Call, Any], None]] = {
    Launch: _Call.launch,
    Op: _Call.operation,
    Host: _Call.operation,
    Collective: _Call.operation,
    Copy: _Call.copy,
    Point: _Call.point,
    Swap: _Call.swap,
    Branch: _Call.branch,
    While: _Call.repeat_while,
    For: _Call.repeat,
}
