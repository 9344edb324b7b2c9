"""Operations whose functions for the CPU are scalar: a GPU runs the same ones, an element a thread.

The incomplete gamma and beta functions, zeta and polygamma.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from weft.backends.cuda.routines.base import ROUTINES, Place, Routine, Run, ceil_div, entry
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
def _text(text: str, name: str, count: int, extent: int) -> str:
    """A module whose kernel calls a task's function for one number of its range a thread."""
    given = ", ".join(f"ptr %a.{i}" for i in range(count))
    lines = [f"define void @main({given}) nounwind {{", "entry:"]
    lines.append(f"  %table = alloca [{count} x ptr]")
    for i in range(count):
        lines.append(f"  %p{i} = getelementptr ptr, ptr %table, i64 {i}")
        lines.append(f"  store ptr %a.{i}, ptr %p{i}")
    lines += [
        "  %t = call i64 @thread()",
        "  %b = call i64 @block()",
        f"  %first = mul i64 %b, {THREADS}",
        "  %at = add i64 %first, %t",
        "  %after = add i64 %at, 1",
        f"  %some = icmp slt i64 %at, {extent}",
        "  br i1 %some, label %run, label %done",
        "run:",
        f"  call void @{name}(ptr %table, i64 %at, i64 %after)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "declare i64 @thread()",
        "declare i64 @block()",
        "",
    ]
    text = re.sub(rf"^define void @{name}\(", f"define internal void @{name}(", text, flags=re.M)
    return entry("\n".join([text, *lines]), "main")


def _run(task: Task) -> Run:
    text = _text(str(task.module), task.name, len(task.places), task.extent)
    places = tuple(_place(p) for p in task.places)
    return Run(text, ceil_div(task.extent, THREADS), THREADS, places)


def lowering(name: str) -> Any:
    def lowered(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
        found = lower(name, ins, outs, params)
        if found is None:
            return None
        return Routine([_run(task) for task in found.tasks], found.scratch)

    return lowered


ROUTINES.update({name: lowering(name) for name in NAMES})
