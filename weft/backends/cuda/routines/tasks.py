"""Operations whose functions for the CPU are scalar: a GPU runs the same ones, an element a thread.

The incomplete gamma and beta functions, zeta and polygamma.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cuda.ptx import GpuModule
from weft.backends.cuda.routines.base import ROUTINES, Place, Routine, Run, ceil_div, entry
from weft.backends.llvm.code import Call, Function, Module, parameters
from weft.backends.llvm.tasks import Task
from weft.backends.llvm.text.special import NAMES, lower
from weft.base.functional import lru
from weft.kernel.program import Type

THREADS = 128


def _place(p: Any) -> Place:
    if p.kind == "numbers":
        return Place("const", np.array(p.what, np.int64))
    return Place(p.kind, p.what)


@lru(64)
def _module(made: Module, name: str, count: int, extent: int) -> GpuModule:
    """A module whose kernel calls a task's function for one number of its range a thread."""
    given = parameters("ptr", *[f"a.{i}" for i in range(count)])
    lines = ["entry:", f"  %table = alloca [{count} x ptr]"]
    for i in range(count):
        lines.append(f"  %p{i} = getelementptr ptr, ptr %table, i64 {i}")
        lines.append(f"  store ptr %a.{i}, ptr %p{i}")
    lines += [
        Call("  %t = call i64 ", "thread", ()),
        Call("  %b = call i64 ", "block", ()),
        f"  %first = mul i64 %b, {THREADS}",
        "  %at = add i64 %first, %t",
        "  %after = add i64 %at, 1",
        f"  %some = icmp slt i64 %at, {extent}",
        "  br i1 %some, label %run, label %done",
        "run:",
        Call("  call void ", name, ["ptr %table", "i64 %at", "i64 %after"]),
        "  br label %done",
        "done:",
        "  ret void",
    ]
    made = made.mapped(lambda f: f._replace(internal=True))
    return entry(made.joined(Module([Function("main", given, tuple(lines))])), "main")


def _run(task: Task) -> Run:
    assert task.module is not None
    module = _module(task.module, task.name, len(task.places), task.extent)
    places = tuple(_place(p) for p in task.places)
    return Run(module, ceil_div(task.extent, THREADS), THREADS, places)


def lowering(name: str) -> Any:
    def lowered(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
        found = lower(name, ins, outs, params)
        if found is None:
            return None
        return Routine([_run(task) for task in found.tasks], found.scratch)

    return lowered


ROUTINES.update({name: lowering(name) for name in NAMES})
