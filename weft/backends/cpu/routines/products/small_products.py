"""Products by code that many shapes have in common: small ones by a library's function."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cpu.routines.products.dot import (
    KINDS,
    copied,
    fits_library,
    library_tasks,
    lower_dot,
    problem_of,
)
from weft.backends.cpu.routines.products.dot_plan import Operand, Plan
from weft.backends.cpu.routines.registry import GENERAL, SMALL
from weft.base.sizes import plain
from weft.kernel.program import Lowered, Place, Type, contiguous

# Multiply-adds up to which code for one shape is not worth its making.
MOST_WORK = 1 << 18
# Elements of operands and result up to which that is so.
MAX_SMALL_ELEMENTS = 1 << 14


class AnyPlan(Plan):
    """Tasks by texts that many shapes have in common."""

    general = True


def lower_any(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a product, by the library or by texts that many shapes have in common."""
    numbers = params["dimension_numbers"]
    depth = prod(ins[0].shape[i] for i in numbers[0][0])
    work = prod(outs[0].shape) * depth
    if not work or hasattr(params["precision"], "accumulation_type"):
        return None
    names = {t.dtype.name for t in [*ins, *outs]}
    few = plain(sum(prod(t.shape) for t in [*ins, *outs])) <= MAX_SMALL_ELEMENTS
    if len(names) == 1 and names <= {"float32", "float64"}:
        if few and type(work) is int and work <= MOST_WORK:
            return _by_library(ins, outs[0], numbers)
    return lower_dot(ins, outs, params, None, AnyPlan)


def lower_small(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """The tasks of a small product of floats, by the library."""
    numbers = params["dimension_numbers"]
    depth = prod(ins[0].shape[i] for i in numbers[0][0])
    work = prod(outs[0].shape) * depth
    names = {t.dtype.name for t in [*ins, *outs]}
    if len(names) > 1 or not names <= {"float32", "float64"}:
        return None
    if hasattr(params["precision"], "accumulation_type") or not work or work > MOST_WORK:
        return None
    few = sum(prod(t.shape) for t in [*ins, *outs]) <= MAX_SMALL_ELEMENTS
    return _by_library(ins, outs[0], numbers) if few else None


def _by_library(ins: list[Type], out: Type, numbers: Any) -> Lowered | None:
    plan = AnyPlan(KINDS[out.dtype.name])
    lhs, rhs = (
        Operand(Place("in", i), plan.work, True, t.shape, contiguous(t.shape))
        for i, t in enumerate(ins)
    )
    problem = problem_of(lhs, rhs, numbers, False)
    if problem is None or not fits_library(problem):
        lhs, rhs, numbers = copied(plan, lhs, rhs, numbers)
        problem = problem_of(lhs, rhs, numbers, False)
        assert problem is not None
    return library_tasks(plan, lhs, rhs, problem, out)


GENERAL["dot_general"] = lower_any
SMALL["dot_general"] = lower_small
