"""Programs walked by Python: until the native walker is loaded, and where there is none."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu import library
from weft.backends.cpu.assembly import Assembly, Python, Run
from weft.backends.cpu.calls import first_runs
from weft.backends.llvm.calls.dispatch import address
from weft.core.interpret import storage_dtype
from weft.kernel.program import Branch, Copy, For, Point, Swap, While
from weft.runtime.array import ArrayImpl, box
from weft.runtime.memory import empty

_NUMBERS = {1: ctypes.c_uint8, 4: ctypes.c_int32, 8: ctypes.c_int64}


class Walk:
    """One program and its code, callable with the leaves of its arguments."""

    def __init__(
        self, program: Assembly, code: Mapping[int, int], out_avals: Any, host: Any, flushes: bool
    ) -> None:
        self.program = program
        self.code = code
        self.out_avals = out_avals
        self.host = host
        self.flushes = flushes

    def __call__(self, *args: Any) -> list[Any]:
        """Results as arrays; arguments are arrays or NumPy arrays of the right types."""
        given = [x._value if type(x) is ArrayImpl else x for x in args]
        program = self.program
        try:
            arena = empty((program.arena,), np.dtype(np.uint8))
            outs = self._results()
        except MemoryError:
            self.host(-1, 0)
            raise
        env = (ctypes.c_size_t * max(1, len(program.slots)))()
        for i, slot in enumerate(program.slots):
            if slot.role == "arg":
                env[i] = address(given[slot.what])
            elif slot.role == "const":
                env[i] = address(program.constants[slot.what])
            elif slot.role == "out":
                env[i] = address(outs[slot.what])
            elif slot.role == "temp":
                env[i] = address(arena) + program.offsets[i]
            elif slot.role == "library":
                env[i] = library.address(slot.what)
            elif slot.role == "code":
                env[i] = self.code[slot.what]
        self.walk(program.nodes, env)
        return self._boxed(args, given, outs)

    def _results(self) -> dict[int, np.ndarray]:
        """Memory for the results that the program writes."""
        found = {}
        for i, (kind, _) in enumerate(self.program.results):
            if kind == "slot":
                aval = self.out_avals[i]
                dtype = storage_dtype(aval.dtype)
                found[i] = empty((prod(aval.shape) * dtype.itemsize,), np.dtype(np.uint8))
                found[i] = found[i].view(dtype).reshape(aval.shape)
        return found

    def _boxed(self, args: Any, given: Any, outs: dict[int, np.ndarray]) -> list[Any]:
        results: list[Any] = []
        for i, (kind, number) in enumerate(self.program.results):
            if kind == "slot":
                value = outs[i]
            elif kind == "arg":
                value = given[number] if type(args[number]) is ArrayImpl else given[number].copy()
            elif kind == "taken":
                aval = self.out_avals[i]
                value = given[number].reshape(-1).view(storage_dtype(aval.dtype))
                value = value.reshape(aval.shape)
            elif kind == "const":
                value = self.program.constants[number]
            else:
                value = results[number]._value
            results.append(box(value, self.out_avals[i]))
        return results

    # --- nodes ------------------------------------------------------------------------------------

    def walk(self, nodes: Sequence[Any], env: Any) -> None:
        """Run nodes on an array of pointers."""
        for node in nodes:
            if isinstance(node, Run):
                row = (ctypes.c_void_p * max(1, len(node.slots)))(*[env[s] for s in node.slots])
                code = self.code[node.code]
                first_runs.run(code, row, 0, node.extent, node.chunk, self.flushes)
            elif isinstance(node, Copy):
                ctypes.memmove(env[node.target], env[node.source], node.size)
            elif isinstance(node, Point):
                env[node.view] = env[node.base]
            elif isinstance(node, Swap):
                env[node.first], env[node.second] = env[node.second], env[node.first]
            elif isinstance(node, Branch):
                chosen = _NUMBERS[node.size].from_address(env[node.choice]).value
                self.walk(node.regions[max(0, min(chosen, len(node.regions) - 1))], env)
            elif isinstance(node, While):
                while True:
                    self.walk(node.condition, env)
                    if not ctypes.c_uint8.from_address(env[node.flag]).value:
                        break
                    self.walk(node.body, env)
            elif isinstance(node, For):
                self._for(node, env)
            else:
                assert isinstance(node, Python)
                self.host(node.number, ctypes.addressof(env))

    def _for(self, node: For, env: Any) -> None:
        for trip in range(node.trips):
            now = node.trips - 1 - trip if node.reverse else trip
            for view, base, stride in node.slices:
                env[view] = env[base] + now * stride
            self.walk(node.body, env)
