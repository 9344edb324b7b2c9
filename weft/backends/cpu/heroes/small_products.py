"""Small products by a library's function, by code that is the same for all shapes."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cpu.heroes.dot import (
    KINDS,
    copied,
    fits_library,
    library_tasks,
    problem_of,
)
from weft.backends.cpu.heroes.dot_plan import Operand, Plan
from weft.backends.cpu.heroes.registry import GENERAL
from weft.kernel.program import Lowered, Place, Type, contiguous

# Multiply-adds up to which code for one shape is not worth its making.
SMALL = 1 << 18


def lower_small(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a small product of floats, or None where it is lowered as others are."""
    names = {t.dtype.name for t in [*ins, *outs]}
    if len(names) > 1 or not names <= {"float32", "float64"}:
        return None
    numbers = params["dimension_numbers"]
    depth = prod(ins[0].shape[i] for i in numbers[0][0])
    if not 0 < prod(outs[0].shape) * depth <= SMALL:
        return None
    if hasattr(params["precision"], "accumulation_type"):
        return None
    plan = Plan(KINDS[names.pop()])
    lhs, rhs = (
        Operand(Place("in", i), plan.work, True, t.shape, contiguous(t.shape))
        for i, t in enumerate(ins)
    )
    problem = problem_of(lhs, rhs, numbers, False)
    if problem is None or not fits_library(problem):
        lhs, rhs, numbers = copied(plan, lhs, rhs, numbers)
        problem = problem_of(lhs, rhs, numbers, False)
        assert problem is not None
    return library_tasks(plan, lhs, rhs, problem, outs[0])


GENERAL["dot_general"] = lower_small
