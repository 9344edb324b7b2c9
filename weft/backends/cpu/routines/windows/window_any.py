"""Reductions over sliding windows by code that is the same for all shapes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions.contract import Job, Operand, Role, Side, Unfit
from weft.backends.cpu.routines.registry import GENERAL
from weft.backends.cpu.routines.windows.window import (
    fold_of,
    reduce_window,
    select_and_gather_add,
    select_and_scatter_add,
    slides,
)
from weft.backends.cpu.routines.windows.window_text import Slide
from weft.kernel.program import Lowered, Place, Type

# Elements, and cycles, up to which windows are contractions, of which there are fewer texts.
FEW, BRIEF = 1 << 14, 1 << 15


def reduce_any(kind: str) -> Any:
    """The lowering of sums or extrema."""
    of_many = reduce_window(kind, general=True)

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
        found = fold_of(kind, ins[0], outs[0], params)
        if found is None:
            return None
        dtype, work, identity, shape, result, window = found
        if prod(shape) + prod(result) > FEW:
            return of_many(ins, outs, params)
        job = Job(work)
        try:
            for part in slides(shape, result, window):
                if not _reduce(job, part, dtype, (kind, identity)):
                    return of_many(ins, outs, params)
        except Unfit:
            return of_many(ins, outs, params)
        return job.lowered()

    return lower


def _reduce(job: Job, part: Sequence[Slide], dtype: np.dtype, fold: tuple[str, bytes]) -> bool:
    """The tasks of some windows; whether they are brief."""
    strided = [i for i, s in enumerate(part) if s.taps and s.stride > 2 and s.size > 1]
    options = [_given(part, taken, dtype) for taken in (-1, *strided)]
    choices = [job.choose(roles, x, None) for roles, x in options]
    choice = min(choices, key=lambda c: c.cost)
    if choice.cost > BRIEF:
        return False
    roles, x = options[choices.index(choice)]
    out = Place("out", 0), dtype, sum(s.first for s in part)
    job.contract(roles, x, None, out, choice, fold)
    return True


def _given(part: Sequence[Slide], taken: int, dtype: np.dtype) -> tuple[list[Role], Operand]:
    """The dimensions of windows, and the operand with one axis taken apart by taps."""
    roles, sides = [], []
    for i, s in enumerate(part):
        if i == taken:
            sides.append(Side(f"t{i}", s.taps, 0, s.dilation, 0, 0, 1 << 40))
            sides.append(Side(f"o{i}", s.size, s.source, s.stride, s.start, 1, s.length))
            along, apart = (f"o{i}", 1), (f"t{i}", 1)
        else:
            span = (s.size - 1) * s.stride + (s.taps - 1) * s.dilation + 1
            sides.append(Side(f"s{i}", max(1, span), s.source, 1, s.start, 0, s.length))
            along, apart = (f"s{i}", s.stride), (f"s{i}", s.dilation)
        roles.append(Role(f"o{i}", s.size, along, None, s.target))
        roles.append(Role(f"t{i}", s.taps, apart, None, 0))
    return roles, Operand(Place("in", 0), dtype, tuple(sides))


for _kind in ("sum", "max", "min"):
    GENERAL[f"reduce_window_{_kind}"] = reduce_any(_kind)
GENERAL["select_and_gather_add"] = partial(select_and_gather_add, general=True)
GENERAL["select_and_scatter_add"] = partial(select_and_scatter_add, general=True)
