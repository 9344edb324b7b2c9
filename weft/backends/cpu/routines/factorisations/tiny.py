"""Factors of a few elements without loops, for loops that become one function.

Every place in memory is a constant there, so that LLVM keeps matrices in registers.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations import tiny_stubs
from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.stub import translate
from weft.base.functional import lru
from weft.kernel.kinds import kind_of
from weft.kernel.program import Type

# Instructions that an operation may take.
MAX_INSTRUCTIONS = 300

Types = list[Type]
# The instructions for a matrix, and the names that an operation is given.
Plan = tuple[int, dict[str, int]]


def lower(name: str, ins: Types, outs: Types, params: Any) -> Lowered | None:
    """An operation on a few elements, or None where it is not one of these."""
    if name not in PLANS or any(0 in x.shape for x in [*ins, *outs]):
        return None
    axes = 2
    dtypes: tuple[str, ...] = ("float32", "float64")
    if name == "lu_pivots_to_permutation":
        axes, dtypes = 1, ("int32",)
    dtype, count = ins[0].dtype, prod(ins[0].shape[:-axes])
    work, names = PLANS[name](ins, outs, params)
    alike = dtype.name in dtypes and all(x.dtype == dtype for x in ins)
    if not alike or count * work > MAX_INSTRUCTIONS:
        return None
    places = [Place("in", i) for i in range(len(ins))] + [Place("out", i) for i in range(len(outs))]
    module = _module(name, dtype, ("COUNT", count), *names.items())
    return Lowered([Task(module, "tiny", tuple(places))])


@lru(64)
def _module(name: str, dtype: np.dtype, *names: tuple[str, int]) -> Module:
    given = {"OPERATION": getattr(tiny_stubs, name), "F": kind_of(dtype), **dict(names)}
    # straight code has nothing for LLVM's passes
    return translate([tiny_stubs.tiny], given).with_effort(Effort.KERNEL)


def _cholesky(ins: Types, outs: Types, params: Any) -> Plan:
    n = ins[0].shape[-1]
    return n * n + n**3 // 3, {"N": n}


def _lu(ins: Types, outs: Types, params: Any) -> Plan:
    m, n = ins[0].shape[-2:]
    least = min(m, n)
    return (1 + least) * m * n, {"M": m, "N": n, "LEAST": least}


def _permutation(ins: Types, outs: Types, params: Any) -> Plan:
    least, m = ins[0].shape[-1], outs[0].shape[-1]
    return 3 * least * m, {"M": m, "LEAST": least}


def _triangular_solve(ins: Types, outs: Types, params: Any) -> Plan:
    names = triangular_names(ins, params)
    return names["N"] ** 2 * (1 + names["SIDES"]), names


def triangular_names(ins: Types, params: Any) -> dict[str, int]:
    """How triangular matrices are solved with; a right side is a left side of transposed ones."""
    n, (m, k) = ins[0].shape[-1], ins[1].shape[-2:]
    left = params["left_side"]
    across = params["transpose_a"] == left  # whether it is solved with the transpose
    row_step, column_step = (1, n) if across else (n, 1)
    sides, side_step, b_step = (k, 1, k) if left else (m, k, 1)
    names = {"M": m, "N": n, "K": k, "SIDES": sides, "SIDE_STEP": side_step, "B_STEP": b_step}
    names |= {"ROW_STEP": row_step, "COLUMN_STEP": column_step}
    return names | {"FORWARD": params["lower"] != across, "UNIT": params["unit_diagonal"]}


PLANS = {
    "cholesky": _cholesky,
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
    "triangular_solve": _triangular_solve,
}
