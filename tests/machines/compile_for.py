"""Compiles kernels for another processor and prints, as JSON, what is wrong with them and what
their loops cost: ``python -m tests.machines.compile_for neon [--full]``."""

from __future__ import annotations

import json
import sys

from tests.machines.processors import pretend

if __name__ == "__main__":
    PROCESSOR = pretend(sys.argv[1], plans_only=True)

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import weft
from tests.laws.checks import seed_of
from tests.machines import assembly
from tests.machines.listing import Listing
from tests.machines.processors import Processor
from tests.samples import WIDE, all_samples
from weft import lax, nn
from weft import numpy as jnp
from weft.backends.cpu.calls import first
from weft.backends.cpu.routines.contractions import tile_code
from weft.backends.cpu.target import Cpu
from weft.backends.llvm.calls import dispatch
from weft.backends.llvm.code import Module
from weft.backends.llvm.native import machine, pool
from weft.backends.llvm.native.llvm import Llvm, is_crowded
from weft.backends.llvm.native.loader import load
from weft.backends.llvm.native.machine import Ahead
from weft.backends.llvm.native.parts import divided, joined
from weft.compiler.plan import Unplannable
from weft.compiler.watch import Watch


class Cross(Llvm):
    """LLVM for another processor than this one."""

    def __init__(self, processor: Processor) -> None:
        super().__init__()
        for part in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
            getattr(self.c, f"LLVMPY_InitializeAll{part}")()
        self.triple, self.cpu = processor.triple, processor.cpu
        self.features = processor.features
        error = ctypes.c_void_p()
        self.target = self.c.LLVMPY_GetTargetFromTriple(self.triple.encode(), ctypes.byref(error))
        if not self.target:
            print(json.dumps({"missing": self.triple}))
            sys.exit()
        self.machines = {level: self.machine(level) for level in (0, 2)}

    def made(self, module: Module, output: int) -> bytes:
        self.output = output
        self.track_pressure(is_crowded(module))
        return self.compile(module, self.machines[0 if module.effort.is_quick else 2])

    def object(self, module: Module) -> bytes:
        return self.made(module, Llvm.OBJECT)

    def assembly(self, module: Module) -> str:
        return self.made(module, Llvm.ASSEMBLY).decode()


def planned(fun: Callable[..., Any], *args: Any) -> list[Module]:
    """The modules of the kernels of a function."""
    watch = Watch(weft.make_jaxpr(fun)(*args))
    try:
        program = Cpu(watch).assemble(watch.closed)
    except Unplannable:
        return []
    return [Ahead().keyed(module, name)[1] for module, name in program.codes]


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


# Functions whose innermost loops are looked at, and their operands.
LOOPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gemm": (jnp.matmul, (ones(512, 512), ones(512, 512))),
    "gemm, transposed": (lambda x, y: x.T @ y.T, (ones(512, 512), ones(512, 512))),
    "conv": (convolution, (ones(8, 56, 56, 64), ones(3, 3, 64, 64))),
    "exp": (jnp.exp, (ones(1 << 16),)),
    "tanh": (jnp.tanh, (ones(1 << 16),)),
    "log": (jnp.log, (ones(1 << 16),)),
    "erf": (lax.erf, (ones(1 << 16),)),
    "relu": (nn.relu, (ones(1 << 16),)),
    "softmax": (nn.softmax, (ones(256, 1024),)),
}
TILES = ("gemm", "gemm, transposed", "conv")


def samples(full: bool) -> Iterator[tuple[str, list[Module]]]:
    """Kernels of the samples of the laws: of every primitive the first sample, or all.

    bfloat16 is always among the dtypes: what LLVM cannot do with it differs by processor.
    """
    seen = set()
    for sample in all_samples():
        if sample.axis is not None or (sample.prim in seen and not full):
            continue
        seen.add(sample.prim)
        few = dict.fromkeys([sample.dtypes[0], *({"bfloat16"} & set(sample.dtypes))])
        for dtype in sample.dtypes if full else few:
            args = sample.operands(dtype, seed_of(sample))
            with weft.enable_x64(dtype in WIDE):
                yield f"{sample.prim}, {sample}, {dtype}", planned(sample.function(dtype), *args)


def check_all(cross: Cross, own: dict[str, Module], full: bool) -> tuple[int, list[str]]:
    """How many kernels there are, and which LLVM or the loader refuse."""
    known: set[Module] = set()
    wrong = []
    for name, modules in [*samples(full), *((name, [module]) for name, module in own.items())]:
        for module in set(modules) - known:
            known.add(module)
            try:
                load(joined([cross.object(part) for part in divided(module)]))
            except Exception as e:
                wrong.append(f"{name}: {e}")
    return len(known), wrong


def own_code() -> dict[str, Module]:
    """The modules of what is made once, the pool of threads and the native caller, of what LLVM has
    first, and of a product that some processors have instructions for."""

    class Found(Exception):
        pass

    def find(what: str, module: Callable[[], Module]) -> None:
        raise Found(module())

    half = ones(256, 256, dtype=bfloat16)
    found = planned(jnp.matmul, half, half)
    modules = {f"matrices {i}": module for i, module in enumerate(found)}
    modules |= {"first shares": first.SHARE, "first tile": first.TILE}
    machine.load_keyed = find
    for name, make in (("pool", pool._code), ("caller", dispatch.Native)):
        try:
            make()
        except Found as error:
            modules[name] = error.args[0]
    return modules


def check_loops(cross: Cross, processor: Processor) -> tuple[dict[str, float], list[str]]:
    """What the innermost loops of some kernels cost, and which break a rule."""
    costs, wrong = {}, []
    for name, (fun, args) in LOOPS.items() if processor.fma else ():
        Listing.made_so_far.clear()
        modules = planned(fun, *args)
        found = [loop for module in modules for loop in loops_of(cross, processor, module)]
        for listing in Listing.made_so_far:
            found += assembly.loops("\n".join(listing.lines), processor)
        loop = max(found, key=lambda loop: loop.arithmetic)
        costs[name] = round(loop.cost(), 3)
        wrong += [f"{name}: {fault}" for fault in loop.faults(name in TILES)]
    return costs, wrong


def loops_of(cross: Cross, processor: Processor, module: Module) -> list[assembly.Loop]:
    return assembly.loops(cross.assembly(module), processor)


if __name__ == "__main__":
    tile_code.Code = Listing
    cross = Cross(PROCESSOR)
    costs, wrong = check_loops(cross, PROCESSOR)
    count, refused = check_all(cross, own_code(), "--full" in sys.argv)
    print(json.dumps({"costs": costs, "kernels": count, "wrong": wrong + refused}))
