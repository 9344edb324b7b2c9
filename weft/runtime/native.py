"""Native execution: a staged program as kernels and library calls over planned memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu import pool
from weft.backends.cpu.loops import render
from weft.backends.cpu.machine import compile_many, function, vector_bits
from weft.compiler.fuse import Fusion, Step
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.core.interpret import literal_value, run_primitive, storage_dtype
from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.kernel.kernel import Kernel
from weft.kernel.spec import verify
from weft.runtime.memory import empty


def lanes(kernel: Kernel) -> int:
    """Vector lanes for a kernel: two registers of its widest type."""
    widest = max(b.dtype.itemsize for b in kernel.buffers)
    return max(1, 2 * vector_bits() // (8 * max(4, widest)))


# Work that one chunk of a kernel's grid should at least be, in bytes read and written.
CHUNK_BYTES = 1 << 16


class Launch:
    """A compiled kernel with the way its grid is split: a rule of the kernel alone."""

    def __init__(self, address: int, kernel: Kernel) -> None:
        import ctypes

        self.address = address
        self.extent = 1 if kernel.grid is None else kernel.grid[1]
        total = sum(b.size * b.dtype.itemsize for b in kernel.buffers)
        each = max(1, total // max(1, self.extent))
        vector = lanes(kernel)
        chunk = -(-CHUNK_BYTES // each)
        self.chunk = -(-chunk // vector) * vector if chunk > vector else chunk
        self.pointers = ctypes.c_void_p * len(kernel.buffers)
        self.alone = function(address) if self.chunk >= self.extent else None

    def __call__(self, addresses: list[int]) -> None:
        if self.alone is not None:
            self.alone(addresses, 0, self.extent)
        else:
            pool.run(self.address, self.pointers(*addresses), 0, self.extent, self.chunk)


class Executable:
    """A program ready to run on NumPy arrays."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        flat = prune(cse(inline(closed)))
        self.jaxpr = flat.jaxpr
        self.consts = [
            _numpy(c, v.aval) for c, v in zip(flat.consts, flat.jaxpr.constvars, strict=True)
        ]
        steps = Fusion(flat.jaxpr).plan()
        self.steps = [s._replace(kernel=collapse(s.kernel)) if s.kernel else s for s in steps]
        kernels = [s.kernel for s in self.steps if s.kernel is not None]
        for kernel in kernels:
            verify(kernel)
        addresses = iter(compile_many([(render(k, lanes(k)), k.name) for k in kernels]))
        self.calls = [
            None if s.kernel is None else Launch(next(addresses), s.kernel) for s in self.steps
        ]

    def __call__(self, args: Any) -> list[Any]:
        env: dict[Any, Any] = dict(zip(self.jaxpr.constvars, self.consts, strict=True))
        env.update(zip(self.jaxpr.invars, args, strict=True))
        for step, call in zip(self.steps, self.calls, strict=True):
            if call is None:
                self._library(step, env)
            else:
                self._launch(step, call, env)
        return [literal_value(x) if type(x) is Literal else env[x] for x in self.jaxpr.outvars]

    def _launch(self, step: Step, call: Any, env: dict[Any, Any]) -> None:
        for v in step.writes:
            env[v] = empty(v.aval.shape, v.aval.dtype)
        arrays = [_contiguous(env, v) for v in step.buffers]
        addresses = [a.__array_interface__["data"][0] for a in arrays]
        call(addresses)

    def _library(self, step: Step, env: dict[Any, Any]) -> None:
        eqn = step.eqn
        assert eqn is not None
        values = [literal_value(x) if type(x) is Literal else env[x] for x in eqn.invars]
        if eqn.primitive.multiple_results:
            avals = [v.aval for v in eqn.outvars]
            outs = run_primitive(eqn.primitive, avals, values, eqn.params)
            env.update(zip(eqn.outvars, outs, strict=True))
        else:
            out = eqn.outvars[0]
            env[out] = run_primitive(eqn.primitive, out.aval, values, eqn.params)


def _contiguous(env: dict[Any, Any], v: Any) -> Any:
    value = env[v]
    if not value.flags.c_contiguous:
        value = env[v] = np.ascontiguousarray(value).reshape(value.shape)
    return value


def _numpy(c: Any, aval: Any) -> Any:
    value = getattr(c, "_value", None)
    return np.asarray(c, storage_dtype(aval.dtype)) if value is None else value


def compile_program(closed: ClosedJaxpr) -> Executable:
    """The executable of a program, made once."""
    found = closed._memo.get("executable")
    if found is None:
        found = closed._memo["executable"] = Executable(closed)
    return found
