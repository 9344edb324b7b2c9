"""Random numbers that differ at every evaluation.

Their state is in device memory, so that a graph that is run again draws other ones.
"""

from __future__ import annotations

import os
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.routines.base import (
    ROUTINES,
    Place,
    Routine,
    Run,
    accessors,
    computed_kind,
    given,
    launch,
    made,
    module_of,
)
from weft.backends.cuda.routines.stubs import uniform_stubs as stubs
from weft.kernel.program import Type


def _rng_uniform(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (out,) = outs
    if computed_kind(out.dtype) is None or out.dtype.kind == "b":
        return None
    state = Place("state", np.array([int.from_bytes(os.urandom(8), "little"), 0], np.uint64))
    names = {**accessors(out.dtype), "COUNT": prod(out.shape)}
    floats = out.dtype.kind not in "iu"
    names |= {"WIDE": int(out.dtype.itemsize == 8), "FLOATS": int(floats)}
    draw = launch(stubs.draw, prod(out.shape), (given(0), given(1), state, made(0)), **names)
    return Routine([draw, Run(module_of(stubs.advance), 1, 32, (state,))])


ROUTINES["rng_uniform"] = _rng_uniform
