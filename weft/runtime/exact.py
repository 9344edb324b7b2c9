"""Whether a program has the same bits by NumPy and by native code."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr

_COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
_IN_ORDER = frozenset(["map", "move", "iota", "element", "expand", "update"])


def is_exact(closed: ClosedJaxpr, controlled: bool = False) -> bool:
    """Whether the results of a program have the same bits in whatever order it is computed.

    Branches and rounds of loops on their own are computed by NumPy, which rounds what is costly in
    other ways.
    """
    for eqn in closed.eqns:
        primitive = eqn.primitive
        if controlled and primitive.costly:
            return False
        if any(getattr(v.aval, "dtype", None) in _COMPLEX for v in eqn.outvars):
            return False  # NumPy multiplies and divides them by other steps
        if primitive.form in _IN_ORDER:
            continue
        if not primitive.exact and any(_is_float(v.aval) for v in eqn.outvars):
            return False
        within = controlled or bool(primitive.nodes)
        if not all(is_exact(inner, within) for inner in programs_of(eqn)):
            return False
    return True


def is_exact_round(closed: ClosedJaxpr) -> bool:
    """The same for the body of a loop, looked at once."""
    found = closed._memo.get("exact")
    if found is None:
        found = closed._memo["exact"] = is_exact(closed, True)
    return found


def programs_of(eqn: Any) -> list[ClosedJaxpr]:
    """The programs that an equation carries."""
    every = [x if type(x) in (tuple, list) else (x,) for x in eqn.params.values()]
    return [x for some in every for x in some if isinstance(x, ClosedJaxpr)]


def _is_float(aval: Any) -> bool:
    return type(aval) is not ShapedArray or getattr(aval.dtype, "kind", "V") in "fcV"
