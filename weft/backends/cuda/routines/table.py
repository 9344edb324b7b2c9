"""All operations that have routines."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.backends.cuda.routines import (
    attention,
    conv,
    cumulative,
    extremes,
    fourier,
    moves,
    products,
    reflectors,
    scatter,
    solver,
    sort,
    spectra,
    tasks,
    tridiagonal,
    uniform,
    window,
)
from weft.backends.cuda.routines.base import ROUTINES, Routine
from weft.kernel.program import Op, Type

# The files that fill the table.
FILES = (
    *(attention, conv, cumulative, extremes, fourier, moves, products, reflectors, scatter, solver),
    *(sort, spectra, tasks, tridiagonal, uniform, window),
)

# What the host computes for GPUs: operations without a routine, or some cases of them, and why.
_NO_FUNCTION = "cuSOLVER has no function for it"
_PYTHON = "it calls a Python function"
HOST = {
    "schur": _NO_FUNCTION,
    "hessenberg": _NO_FUNCTION,
    "geqp3": _NO_FUNCTION,
    "triangular_sylvester": _NO_FUNCTION,
    "qr": "with column pivots, which cuSOLVER doesn't know",
    "eig": "with left vectors, which cuSOLVER doesn't give",
    "pure_callback": _PYTHON,
    "io_callback": _PYTHON,
    "debug_callback": _PYTHON,
    "debug_print": _PYTHON,
}
# Those that are the host's by what they are: no warning names them.
SILENT = frozenset(name for name, why in HOST.items() if why is _PYTHON)


def lower(node: Op, ins: list[Type], outs: list[Type]) -> Routine | None:
    """The steps of an operation on a GPU; None where the host computes it."""
    if node.offer is not None:
        return node.offer.routine(node)
    lowering = ROUTINES.get(node.eqn.primitive.name)
    return None if lowering is None else lowering(ins, outs, node.eqn.params)


def keeps(eqn: Any) -> bool:
    """Whether an operation stays one: there is a routine for it, or nothing it is lowered to."""
    primitive = eqn.primitive
    if not primitive.neutral and not primitive.kernels:
        return True
    lowering = ROUTINES.get(primitive.name)
    if lowering is None:
        return False
    ins, outs = ([Type(x.aval.shape, x.aval.dtype) for x in xs] for xs in (eqn.invars, eqn.outvars))
    if not any(prod(t.shape) for t in outs):
        return True  # nothing is computed
    return lowering(ins, outs, eqn.params) is not None
