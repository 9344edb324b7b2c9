"""All operations that have routines."""

from __future__ import annotations

from weft.backends.cuda.routines import (
    attention,
    conv,
    cumulative,
    products,
    scatter,
    sort,
    tasks,
    window,
)
from weft.backends.cuda.routines.base import ROUTINES, Routine
from weft.kernel.program import Op, Type

# The files that fill the table.
FILES = (attention, conv, cumulative, products, scatter, sort, tasks, window)


def lower(node: Op, ins: list[Type], outs: list[Type]) -> Routine | None:
    """The steps of an operation on a GPU; None where the host computes it."""
    if node.offer is not None:
        return node.offer.routine(node)
    lowering = ROUTINES.get(node.eqn.primitive.name)
    return None if lowering is None else lowering(ins, outs, node.eqn.params)
